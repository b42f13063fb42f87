"""Method: how was this measured, and what does it not show?"""

from __future__ import annotations

from typing import Any

import streamlit as st

from audit.attack.decisions import ALPHA, LOOK_ALPHA
from audit.attack.exposure import EXPOSED_P, MIN_BOUND_CONTROLS
from audit.attack.guards import ILL_MATCHED_BEYOND
from audit.attack.metrics import N_REPLICATES
from audit.attack.question import (
    SCENARIOS,
    VERSIONS,
    ContinuationSettings,
    GenerationSettings,
    PosteriorSettings,
    SamplingSettings,
)
from audit.attack.verdicts import MIN_RELIABILITY
from audit.home import installed_packages
from audit.names.candidates import CONTROL_SOURCES
from audit.names.controls import N_REFERENCE
from audit.stats import MIN_CONTROLS
from audit.tables import UNDEFINED
from audit.words import LANGUAGES, Words
from pages.ui import blocks
from pages.ui.form import choose
from pages.ui.section import draw_heading, draw_page, draw_table, fold_details
from pages.ui.state import words_of

MASS = (
    r"m_{\text{part}}(l) = \frac{1}{D} \sum_{d=1}^{D} \sum_{t=1}^{T} q_{d,t}(l_{\text{part}})",
    r"x_{\text{part}} = \ln\left(D \, m_{\text{part}} + \tfrac{1}{2}\right)",
)
RESIDUAL = (
    r"r_{\text{part}} = \frac{x^h_{\text{part}} - f(x^g_{\text{part}}, \ln s_{\text{part}})}"
    r"{\sigma(x^g_{\text{part}}, \ln s_{\text{part}})}",
    r"\texttt{residual}(l) = -\ln\left(e^{-r_{\text{first}}} + e^{-r_{\text{last}}}\right)",
)
DRAW = r"q_j = \frac{\exp(z_j / \alpha)}{\sum_{m \in \text{top } k} \exp(z_m / \alpha)}"
DIFFERENCE = (
    r"\texttt{difference}(l) = \frac{1}{n} \sum_{i=1}^{n}"
    r" \left( p_h(l \mid s_i) - p_g(l \mid s_i) \right)"
)
LOG_RATIOS = (
    r"\texttt{log\_ratio}(l) = \ln \frac{\sum_i p_h(l \mid s_i)}{\sum_i p_g(l \mid s_i)}",
    r"\texttt{mean\_log\_ratio}(l) = \frac{1}{n} \sum_{i=1}^{n}"
    r" \ln \frac{p_h(l \mid s_i)}{p_g(l \mid s_i)}",
)
CONTINUATION = (
    r"x(l) = \frac{1}{n} \sum_{i=1}^{n} \ln p(l_1 \dots l_k \mid \text{left of the name in } s_i)"
)
TRIES = r"n_P(l) = \left\lceil \frac{\ln(1 - P)}{\ln(1 - p(l \mid \text{prompt}))} \right\rceil"
P_VALUE = r"p(l) = \frac{1 + \#\{ c : \text{score}(c) \ge \text{score}(l) \}}{1 + \#\{ c \}}"
Q_VALUE = r"q_{(i)} = \min_{j \ge i} \min\left( 1, \frac{m \, p_{(j)}}{j} \right)"
SPAN_RATES = (
    r"\text{recall}_c = \frac{n_c - \text{missed}_c}{n_c}",
    r"\text{precision}_c = \frac{m_c - \text{spurious}_c}{m_c}",
)
SOURCES = (
    "Nakamura et al.: Estimating the risk of person-name leakage from language models pre-trained"
    " with clinical records (Japanese).",
    "Hayes et al. 2025: extraction as a number of tries, arXiv 2410.19482.",
    "Holtzman et al. 2020: top-p sampling, arXiv 1904.09751.",
    "Yada et al.: De-identification of clinical text with large language models (Japanese).",
    "Nakamura et al. 2020: KART, arXiv 2101.00036.",
    "Wang & Cho 2019: Gibbs-style generation, arXiv 1902.04094.",
    "Carlini et al. 2022: membership inference, TPR at low FPR, arXiv 2112.03570.",
    "Mireshghallah et al. 2022: reference models for masked language models, arXiv 2203.03929.",
    "Savage 1956: exponential scores, doi:10.1214/aoms/1177728257.",
    "Clopper & Pearson 1934: bounds of a share, doi:10.1093/biomet/26.4.404.",
    "Simes 1986: one p-value of several, doi:10.1093/biomet/73.3.751.",
    "Phipson & Smyth 2010: p-values by ranks, doi:10.2202/1544-6115.1585.",
    "Benjamini & Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x.",
    "Wilson 1927, doi:10.1080/01621459.1927.10502953.",
    "Cameron, Gelbach & Miller 2011: clusters in two ways, doi:10.1198/jbes.2010.07136.",
    "Busing, Meijer & van der Leeden 1999: jackknife over unequal blocks,"
    " doi:10.1023/A:1008800423698.",
    "DeLong, DeLong & Clarke-Pearson 1988, doi:10.2307/2531595.",
    "McNemar 1947, doi:10.1007/BF02295996.",
)
COMMANDS = """python -m audit run --scenario 2 --general GENERAL_DIR --hospital HOSPITAL_DIR \\
    --names names.csv --passages passages.jsonl --out results
python -m audit run --scenario 1 --general GENERAL_DIR --hospital HOSPITAL_DIR \\
    --names names.csv --out results
python -m audit selftest"""
VERDICT_PARTS = ("leak", "not_shown", "none", "bound", "ill", "not_enough", "rates")
SECTIONS = (
    ("one", (DRAW, *MASS), ()),
    ("two", (DIFFERENCE, *LOG_RATIOS), ("general",)),
    ("one_causal", (DRAW, TRIES), ()),
    ("two_causal", (CONTINUATION,), ()),
    ("names", (*RESIDUAL, P_VALUE), ()),
    ("q", (Q_VALUE,), ()),
    ("undecided", (), ()),
    ("sources", (), tuple(f"source_{source}" for source in CONTROL_SOURCES)),
    ("verdict", (), tuple(f"verdict_{code}" for code in VERDICT_PARTS)),
    ("intervals", (), ()),
    ("spans", SPAN_RATES, ("spans_notes", "spans_covered", "spans_leak")),
)
"""Key of heading and sentence, the formulas under them, and the keys of further remarks."""


def constants() -> dict[str, Any]:
    """Return the engine's constants that the sentences mention."""
    settings, sampling = GenerationSettings(), SamplingSettings()
    return {
        "top_k": f"{settings.top_k:,}",
        "n_steps": f"{settings.n_steps:,}",
        "n_tokens": settings.n_tokens,
        "n_documents": f"{settings.n_documents:,}",
        "n_inputs": f"{PosteriorSettings().n_inputs:,}",
        "n_causal_tokens": sampling.n_tokens,
        "n_causal_documents": f"{sampling.n_documents:,}",
        "causal_top_k": sampling.top_k,
        "causal_top_p": f"{sampling.top_p:g}",
        "n_causal_inputs": ContinuationSettings().n_inputs,
        "min_controls": MIN_CONTROLS,
        "alpha": f"{ALPHA:g}",
        "percent": f"{100 * ALPHA:g}",
        "look": f"{LOOK_ALPHA:g}",
        "beyond": f"{ILL_MATCHED_BEYOND:g}",
        "reliability": f"{100 * MIN_RELIABILITY:g}",
        "seen": f"{100 - 100 * EXPOSED_P:g}",
        "bound_controls": MIN_BOUND_CONTROLS,
        "n_reference": f"{N_REFERENCE:,}",
        "n_replicates": f"{N_REPLICATES:,}",
        "version": max(VERSIONS.values()),
    }


def draw_measurement(say: Words) -> None:
    """Draw both attacks, the way from a score to the verdict, and the formulas."""
    numbers = constants()
    draw_heading(say, "method_asked", **numbers)
    with fold_details(say, "method_kart"):
        fields = ("number", "knowledge", "anonymization", "resource", "target")
        scenarios = SCENARIOS.values()
        columns = {
            field: [str(getattr(scenario, field)) for scenario in scenarios] for field in fields
        }
        draw_table(say, "method_asked", columns)
    for key, formulas, remark_keys in SECTIONS:
        draw_heading(say, f"method_{key}", **numbers)
        for formula in formulas:
            st.latex(formula)
        if remark_keys:
            st.html(
                blocks.bullet_list(
                    say.text(f"method_{remark_key}", **numbers) for remark_key in remark_keys
                )
            )


def draw_limits(say: Words) -> None:
    """Draw what the audit does not show, what was not tried, and how data are handled."""
    for key, stem in (("limits", "limit"), ("untried", "untried"), ("policy", "policy")):
        draw_heading(say, f"method_{key}")
        lines = [say.text(f"method_{stem}_{place}") for place in codes(say, f"method_{stem}_")]
        st.html(blocks.bullet_list(lines))


def codes(say: Words, prefix: str) -> list[str]:
    """Return the rest of each key after a prefix, in the order of the words."""
    return [key.removeprefix(prefix) for key in say.sentences if key.startswith(prefix)]


def draw_terms(say: Words) -> None:
    """Draw every term in both languages, explained in the reader's."""
    terms = codes(say, "method_term_")
    columns: dict[str, list[str]] = {
        code: [words_of(code).text(f"method_term_{term}") for term in terms] for code in LANGUAGES
    }
    columns["meaning"] = [say.text(f"method_means_{term}") for term in terms]
    draw_table(say, "method_terms", columns)


def draw_sources(say: Words) -> None:
    """Draw how to reproduce a result, the sources and the versions."""
    draw_heading(say, "method_reproduce", **constants())
    st.code(COMMANDS, language="bash")
    draw_heading(say, "method_sources")
    st.html(blocks.bullet_list(SOURCES))
    draw_heading(say, "method_versions")
    packages = installed_packages()
    columns = {
        "package": list(packages),
        "version": [version or UNDEFINED for version in packages.values()],
    }
    draw_table(say, "method_versions", columns)


TABS = {
    "measured": draw_measurement,
    "limits": draw_limits,
    "terms": draw_terms,
    "sources": draw_sources,
}


def draw(say: Words) -> None:
    """Draw the part that is chosen."""
    TABS[choose(say, "method_tab", list(TABS))](say)


draw_page("method", draw)
