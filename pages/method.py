"""Method: how was this measured, and what does it not show?"""

from __future__ import annotations

import streamlit as st

from audit.attack.decisions import ALPHA
from audit.attack.metrics import N_REPLICATES
from audit.attack.question import (
    SCENARIOS,
    VERSIONS,
    GenerationSettings,
    PosteriorSettings,
)
from audit.attack.verdict import ILL_MATCHED_BEYOND, NONE_BELOW
from audit.home import installed_packages
from audit.stats import MIN_CONTROLS
from pages.ui import blocks
from pages.ui.language import Words, words, words_of
from pages.ui.text import UNDEFINED

TERMS = (
    "member", "control", "reference", "membership", "deid", "posterior", "mass", "score", "fixed",
    "auc", "recall", "fpr", "precision", "p", "q", "interval", "power", "generated", "linking",
    "verdict", "tagger", "span", "strict", "label_relaxed", "complete", "covered",
)  # fmt: skip
MASS = (
    r"m_{\text{part}}(l) = \frac{1}{D} \sum_{d=1}^{D} \sum_{t=1}^{T}"
    r" q_{d,t}(l_{\text{part}}), \qquad x_{\text{part}} = \ln\left(D \, m_{\text{part}} +"
    r" \tfrac{1}{2}\right)"
)
RESIDUAL = (
    r"r_{\text{part}} = \frac{x^h_{\text{part}} - f(x^g_{\text{part}}, \ln s_{\text{part}})}"
    r"{\sigma(x^g_{\text{part}}, \ln s_{\text{part}})}, \qquad"
    r" \texttt{residual}(l) = -\ln\left(e^{-r_{\text{first}}} + e^{-r_{\text{last}}}\right)"
)
DRAW = r"q_j = \frac{\exp(z_j / \alpha)}{\sum_{m \in \text{top } k} \exp(z_m / \alpha)}"
DIFFERENCE = (
    r"\texttt{difference}(l) = \frac{1}{n} \sum_{i=1}^{n}"
    r" \left( p_h(l \mid s_i) - p_g(l \mid s_i) \right)"
)
LOG_RATIOS = (
    r"\texttt{log\_ratio}(l) = \ln \frac{\sum_i p_h(l \mid s_i)}{\sum_i p_g(l \mid s_i)}, \qquad"
    r" \texttt{mean\_log\_ratio}(l) = \frac{1}{n} \sum_{i=1}^{n}"
    r" \ln \frac{p_h(l \mid s_i)}{p_g(l \mid s_i)}"
)
P_VALUE = r"p(l) = \frac{1 + \#\{ c : \text{score}(c) \ge \text{score}(l) \}}{1 + \#\{ c \}}"
Q_VALUE = r"q_{(i)} = \min_{j \ge i} \min\left( 1, \frac{m \, p_{(j)}}{j} \right)"
SPAN_RATES = (
    r"\text{recall}_c = \frac{n_c - \text{missed}_c}{n_c}, \qquad"
    r" \text{precision}_c = \frac{m_c - \text{spurious}_c}{m_c}"
)
SOURCES = (
    "Nakamura et al.: Estimating the risk of person-name leakage from language models pre-trained"
    " with clinical records (Japanese).",
    "Yada et al.: De-identification of clinical text with large language models (Japanese).",
    "Nakamura et al. 2020: KART, arXiv 2101.00036.",
    "Wang & Cho 2019: Gibbs-style generation, arXiv 1902.04094.",
    "Carlini et al. 2022: membership inference, TPR at low FPR, arXiv 2112.03570.",
    "Mireshghallah et al. 2022: reference models for masked language models, arXiv 2203.03929.",
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


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("method_title"), anchor=False)
    draw_scenarios(say)
    draw_attacks(say)
    draw_findings(say)
    draw_verdict(say)
    draw_deid(say)
    draw_limits(say)
    draw_glossary(say)
    draw_provenance(say)


def section(say: Words, what: str, **values: object) -> str:
    """Return a section's heading and its first paragraph as HTML."""
    below = say.text(f"method_{what}_below", **values)
    return blocks.heading(say.text(f"method_{what}"), below=below)


def draw_scenarios(say: Words) -> None:
    """Draw the scenarios as KART tuples."""
    st.html(section(say, "asked"))
    header = [say.text("method_scenario")]
    header += [say.text(f"method_column_{letter}") for letter in ("k", "a", "r", "t")]
    rows = [
        (str(s.number), s.knowledge, s.anonymization, s.resource, s.target)
        for s in SCENARIOS.values()
    ]
    st.html(blocks.simple_table(header, rows, caption=say.text("method_asked_caption"), n_text=5))


def draw_attacks(say: Words) -> None:
    """Draw both attacks with their formulas and default settings."""
    one, two = GenerationSettings(), PosteriorSettings()
    st.html(
        section(
            say,
            "one",
            top_k=f"{one.top_k:,}",
            n_steps=f"{one.n_steps:,}",
            n_tokens=one.n_tokens,
            n_documents=f"{one.n_documents:,}",
        )
    )
    st.latex(DRAW)
    st.latex(MASS)
    st.html(section(say, "two", n_inputs=f"{two.n_inputs:,}"))
    st.latex(DIFFERENCE)
    st.latex(LOG_RATIOS)
    st.html(blocks.bullet_list([say.text("method_two_chain"), say.text("method_general")]))


def draw_findings(say: Words) -> None:
    """Draw how a score becomes p, q and a decision."""
    st.html(section(say, "names", min_controls=MIN_CONTROLS, alpha=f"{ALPHA:g}"))
    st.latex(RESIDUAL)
    st.latex(P_VALUE)
    sentence = say.text("method_q_below", alpha=f"{ALPHA:g}", percent=f"{100 * ALPHA:g}")
    st.html(blocks.heading("", below=sentence))
    st.latex(Q_VALUE)
    st.html(section(say, "undecided"))


def draw_verdict(say: Words) -> None:
    """Draw the rule of the verdict with its constants, and the intervals it rests on."""
    st.html(
        blocks.heading(say.text("method_verdict"))
        + blocks.bullet_list(
            (
                say.text("method_verdict_leak", percent=f"{100 * ALPHA:g}"),
                say.text("method_verdict_none", below=f"{NONE_BELOW:g}"),
                say.text("method_verdict_ill", beyond=f"{ILL_MATCHED_BEYOND:g}"),
                say.text("method_verdict_not_enough"),
                say.text("method_verdict_rates"),
            )
        )
    )
    st.html(section(say, "intervals", n_replicates=f"{N_REPLICATES:,}"))


def draw_deid(say: Words) -> None:
    """Draw how a de-identifier is measured."""
    st.html(section(say, "spans"))
    st.latex(SPAN_RATES)
    lines = [say.text(f"method_spans_{what}") for what in ("notes", "covered", "leak")]
    st.html(blocks.bullet_list(lines))


def draw_limits(say: Words) -> None:
    """Draw what is not shown and what was not tried."""
    limits, untried = st.columns(2, gap="large")
    with limits:
        lines = [say.text(f"method_limit_{i}") for i in range(1, 6)]
        st.html(blocks.heading(say.text("method_limits")) + blocks.bullet_list(lines))
    with untried:
        lines = [say.text(f"method_untried_{i}") for i in range(1, 6)]
        st.html(blocks.heading(say.text("method_untried")) + blocks.bullet_list(lines))


def draw_glossary(say: Words) -> None:
    """Draw every term in both languages, explained in the reader's."""
    english, japanese = words_of("en"), words_of("ja")
    rows = [
        (
            english.text(f"method_term_{term}"),
            japanese.text(f"method_term_{term}"),
            say.text(f"method_means_{term}"),
        )
        for term in TERMS
    ]
    header = [say.text(f"method_column_{key}") for key in ("en", "ja", "meaning")]
    caption = say.text("method_glossary")
    st.html(section(say, "glossary") + blocks.simple_table(header, rows, caption=caption, n_text=3))


def draw_provenance(say: Words) -> None:
    """Draw how to reproduce a result, the data policy, sources and versions."""
    st.html(section(say, "reproduce", version=max(VERSIONS.values())))
    st.code(COMMANDS, language="bash")
    left, right = st.columns(2, gap="large")
    with left:
        lines = [say.text(f"method_policy_{i}") for i in (1, 2, 3)]
        st.html(blocks.heading(say.text("method_policy")) + blocks.bullet_list(lines))
        st.html(blocks.heading(say.text("method_sources")) + blocks.bullet_list(SOURCES))
    with right:
        rows = [(name, version or UNDEFINED) for name, version in installed_packages().items()]
        header = [say.text(f"method_column_{key}") for key in ("package", "version")]
        caption = say.text("method_versions_caption")
        st.html(
            blocks.heading(say.text("method_versions"))
            + blocks.simple_table(header, rows, caption=caption, n_text=2)
        )


page()
