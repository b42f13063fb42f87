"""The report as one HTML file that is read, printed and signed without the program.

HTML without a script and without any address to fetch, with its pictures in it, for light and dark
screens and for A4 paper: `templates/`, every value escaped. The file's own content security policy
lets nothing run and nothing be fetched, even if something were not.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from audit.attack.metrics import GENERAL_ALONE
from audit.errors import AuditError
from audit.report import figures
from audit.report.compare import References
from audit.report.names import NAME_FORMS, NameForm, kind_scores, shown_name, strongest_names
from audit.report.report import AuditReport
from audit.stats import MIN_CONTROLS
from audit.tables import (
    UNDEFINED,
    decimal,
    decimal_interval,
    moment,
    percent,
    percent_interval,
    small,
)
from audit.words import in_language

LANGUAGES = ("en", "ja")
_HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class ReportWords:
    """One language's catalogue: key -> sentence with {named} places."""

    language: str
    sentences: Mapping[str, str]

    def text(self, key: str, **values: object) -> str:
        """Return a sentence, its places filled; not escaped.

        Raises
        ------
        KeyError
            If there is no such sentence, or a place stays empty.
        """
        return self.sentences[key].format(**values)

    def has(self, key: str) -> bool:
        """Whether there is such a sentence."""
        return key in self.sentences


@cache
def report_words(language: str) -> ReportWords:
    """Return the catalogue of a language."""
    if language not in LANGUAGES:
        raise AuditError("is not a language of reports.", where="language", do="Choose en or ja.")
    text = (_HERE / "words" / f"{language}.json").read_text(encoding="utf-8")
    return ReportWords(language, MappingProxyType(json.loads(text)))


RECOMMENDATIONS = ("release", "release_inside", "retrain", "no_release")
OPTIONAL_SECTIONS = ("results", "names", "diagnostics", "reproduction", "glossary")
"""What may be left out; verdict, scope, attacker, method, limits and sign-off never."""
MAX_NAME_CHARS = 200
MAX_REASONS_CHARS = 10_000


@dataclass(frozen=True)
class SignOff:
    """The auditor's own words.

    Attributes
    ----------
    recommendation
        One of `RECOMMENDATIONS`, or "" where it is not chosen.
    reasons
        Free text.
    auditor, officer
        Names to be printed beside the lines for signatures.
    """

    recommendation: str = ""
    reasons: str = ""
    auditor: str = ""
    officer: str = ""

    def __post_init__(self) -> None:
        """Refuse what no report can hold."""
        if self.recommendation not in ("", *RECOMMENDATIONS):
            raise AuditError("is unknown.", where="recommendation")
        if max(len(self.auditor), len(self.officer)) > MAX_NAME_CHARS:
            raise AuditError(f"is longer than {MAX_NAME_CHARS} characters.", where="sign-off")
        if len(self.reasons) > MAX_REASONS_CHARS:
            raise AuditError(f"are longer than {MAX_REASONS_CHARS:,} characters.", where="reasons")


@dataclass(frozen=True)
class ReportChoice:
    """How one report is to look; `is_demo` says on it that everything is invented."""

    language: str = "en"
    names: NameForm = "masked"
    sections: tuple[str, ...] = OPTIONAL_SECTIONS
    sign_off: SignOff = field(default_factory=SignOff)
    is_demo: bool = False

    def __post_init__(self) -> None:
        """Refuse what no report can have."""
        if self.language not in LANGUAGES:
            raise AuditError("is not a language of reports.", where="language")
        if self.names not in NAME_FORMS:
            raise AuditError("is unknown.", where="names", do=f"Choose one of {NAME_FORMS}.")
        if not set(self.sections) <= set(OPTIONAL_SECTIONS):
            raise AuditError("is unknown.", where="sections")


MAX_NAMES = 50
"""Names that stand out and are printed; the others are in names.csv."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_OPTIONS = {
    "n_documents": "--documents",
    "n_steps": "--steps",
    "n_tokens": "--tokens",
    "top_k": "--top-k",
    "temperature": "--temperature",
    "prompt": "--prompt",
    "n_inputs": "--inputs",
    "n_chain_inputs": "--chain-inputs",
    "micro_batch": "--micro-batch",
    "max_tokens": "--max-tokens",
}


def report_html(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: References | None = None,
    seal: str = "",
) -> str:
    """Return the whole file.

    Parameters
    ----------
    choice
        Language, form of the names, sections and sign-off.
    other
        The audit of the same pair in the other scenario, if it is kept: its verdict is printed too.
    references
        The audits that differ in the reference alone, if there are any.
    seal
        The access log's; it is printed where the report is signed.

    Raises
    ------
    KeyError
        If the report is not of this program's making.
    """
    words = report_words(choice.language)
    template = _templates().get_template("report.html")
    return template.render(
        report=report,
        choice=choice,
        other=other,
        references=references,
        seal=seal,
        recommendations=RECOMMENDATIONS,
        **_words(words),
        **_facts(report, words=words),
        **_figures(report, words=words),
        **_names(report, form=choice.names),
    )


def _words(words: ReportWords) -> dict[str, Any]:
    """Return what the templates say things with."""
    return {
        "language": words.language,
        "t": words.text,
        "has_words": words.has,
        "rule_words": lambda rule: words.sentences.get(f"rule_{rule}", rule),
        "told": lambda text: in_language(text, language=words.language),
        "policy": _POLICY,
        "style": Markup((_HERE / "words" / "style.css").read_text(encoding="utf-8")),
        "undefined": UNDEFINED,
        "zip": zip,
    }


def _facts(report: AuditReport, *, words: ReportWords) -> dict[str, Any]:
    """Return what was asked, on what it ran, and the command that asks it again."""
    return {
        "list_facts": _list_facts(report, words=words),
        "run_facts": _run_facts(report, words=words),
        "settings": report.question.get("settings", {}),
        "min_controls": MIN_CONTROLS,
        "command": command_of(report),
    }


def _names(report: AuditReport, *, form: NameForm) -> dict[str, Any]:
    """Return the names that stand out, and how many are not judged and why."""
    strongest, table = strongest_names(report.table), report.table
    return {
        "standing_out": list(strongest[:MAX_NAMES].itertuples()),
        "n_standing_out": len(strongest),
        "shown_name": lambda name: shown_name(
            name.number, name.first_name, name.last_name, form=form
        ),
        "n_not_scored": int(table["score"].isna().sum()),
        "n_undecided": int(table["is_undecided"].sum()),
        "n_unmatched": int(table["is_unmatched"].sum()),
    }


@cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        one.__name__: one
        for one in (decimal, decimal_interval, moment, percent, percent_interval, small)
    }
    found.filters |= {"is_known": lambda x: not math.isnan(x), "is_finite": math.isfinite}
    return found


def _figures(report: AuditReport, *, words: ReportWords) -> dict[str, Any]:
    """Return the three pictures, and the scores by kind that the first one shows."""
    kinds = kind_scores(report.table)
    return {
        "max_dots": figures.MAX_DOTS,
        "kinds": kinds,
        "scores_figure": figures.scores_strip(
            kinds,
            labels=[words.text(f"kind_{kind.kind}") for kind in kinds],
            axis=words.text(f"axis_{report.fixed_score}"),
            alt=words.text("figure_scores"),
            is_log=report.is_log,
        ),
        "aucs_figure": figures.strip(
            [
                (words.text(f"stratum_{stratum}"), figures.intervals(_aucs(report, stratum)))
                for stratum in report.measures.strata
            ],
            ticks=[(k / 4, f"{k / 4:g}") for k in range(5)],
            axis=words.text("axis_auc"),
            alt=words.text("figure_aucs"),
            behind=figures.upright(0.5),
        ),
        "mentions_figure": figures.strip(
            [
                (
                    f"{one.label} ({words.text('n_of_bin', n=one.n_names)})",
                    figures.intervals([(one.flagged, "rust", "rust", 0)]),
                )
                for one in report.mentions
            ],
            ticks=[(k / 4, str(25 * k)) for k in range(5)],
            axis=words.text("axis_share"),
            alt=words.text("figure_mentions"),
            behind=figures.band(report.controls_flagged.interval()),
            corner=words.text("axis_mentions"),
        ),
    }


def _aucs(report: AuditReport, stratum: str) -> list[figures.Interval]:
    found = report.headline(stratum)
    drawn: list[figures.Interval] = [(found["attack"].auc, "rust", "rust", -8)]
    if GENERAL_ALONE in found:
        drawn.append((found[GENERAL_ALONE].auc, "grey", "open", 8))
    return drawn


def _list_facts(report: AuditReport, *, words: ReportWords) -> list[tuple[str, str]]:
    counts, question = report.candidates, report.question
    keys = ("n_names", "n_members", "n_unknown", "n_controls", "n_canaries", "n_reference")
    told = {key: getattr(counts, key) for key in keys}
    pairs = [(words.text(key), f"{n:,}") for key, n in told.items() if n is not None]
    if kinds := counts.by_kind:
        parts = [
            words.text("control_kind", kind=words.text(f"kind_{kind}"), n=n)
            for kind, n in kinds.items()
        ]
        pairs.append((words.text("controls_by_kind"), " · ".join(parts)))
    for key, label in (
        ("candidates", "names_digest"),
        ("passages", "passages_digest"),
        ("name_pool", "pool_digest"),
    ):
        if question.get(key):
            pairs.append((words.text(label), str(question[key])))
    if question.get("passages"):
        pairs.append((words.text("rows_left_out"), str(question.get("n_rows_left_out", 0))))
    return pairs


def _run_facts(report: AuditReport, *, words: ReportWords) -> list[tuple[str, str]]:
    made, question = report.made, report.question
    hardware = " ".join(str(made[key]) for key in ("device", "device_name") if made.get(key))
    software = " · ".join(
        f"{name} {made[name]}" for name in ("torch", "transformers", "numpy") if made.get(name)
    )
    pairs = [
        (words.text("ran_at"), moment(report.at)),
        (words.text("hardware"), hardware or UNDEFINED),
        (words.text("software"), software or UNDEFINED),
    ]
    if "seconds" in made:
        pairs.append((words.text("seconds"), f"{float(made['seconds']):,.0f}"))
    pairs += [(words.text(key), str(question[key])) for key in ("seed", "dtype") if key in question]
    return pairs


def command_of(report: AuditReport) -> str:
    """Return the command that asks the same question; directories and files are placeholders."""
    scenario, question = report.scenario.number, report.question
    parts = ["python", "-m", "audit", "run", "--scenario", str(scenario)]
    parts += ["--general", "GENERAL", "--hospital", "HOSPITAL", "--names", "names.csv"]
    if scenario == 2:
        parts += ["--passages", "passages.jsonl"]
    settings = question.get("settings", {})
    for key, option in _OPTIONS.items():
        if key in settings:
            parts += [option, str(settings[key])]
    parts += ["--keep-sampled"] if settings.get("is_remasked") is False else []
    parts += ["--no-dropout"] if settings.get("is_dropout_on") is False else []
    for key in ("seed", "dtype", "threshold"):
        if question.get(key) is not None:
            parts.append(f"--{key}={question[key]}")
    return shlex.join([*parts, "--out", "results"])
