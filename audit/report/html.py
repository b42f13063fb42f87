"""The report as one HTML file that is read, printed and signed without the program.

HTML without a script and without any address to fetch, with its pictures in it, for light and dark
screens and for A4 paper: `templates/`, every value escaped. The file's own content security policy
lets nothing run and nothing be fetched, even if something were not.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, get_args

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import Field

from audit.attack.metrics import GENERAL_ALONE
from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.errors import written
from audit.report import figures
from audit.report.compare import References
from audit.report.names import NameForm, kind_scores, shown_name, strongest_names
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
from audit.task import Record
from audit.words import catalogue

Language = Literal["en", "ja"]
LANGUAGES = get_args(Language)
Recommendation = Literal["release", "release_inside", "retrain", "no_release"]
RECOMMENDATIONS = get_args(Recommendation)
Section = Literal["results", "names", "diagnostics", "reproduction", "glossary"]
OPTIONAL_SECTIONS: tuple[Section, ...] = get_args(Section)
"""What may be left out; verdict, scope, attacker, method, limits and sign-off never."""
MAX_NAME_CHARS = 200
MAX_REASONS_CHARS = 10_000
MAX_NAMES = 50
"""Names that stand out and are printed; the others are in names.csv."""
_HERE = Path(__file__).resolve().parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
Say = Callable[..., str]
"""From a key and values to a sentence; KeyError if there is none, or a place stays empty."""


class SignOff(Record):
    """The auditor's own words; names are printed beside the lines for signatures."""

    recommendation: Recommendation | Literal[""] = ""
    reasons: str = Field(default="", max_length=MAX_REASONS_CHARS)
    auditor: str = Field(default="", max_length=MAX_NAME_CHARS)
    officer: str = Field(default="", max_length=MAX_NAME_CHARS)


class ReportChoice(Record):
    """How one report is to look; `is_demo` says on it that everything is invented."""

    language: Language = "en"
    names: NameForm = "masked"
    sections: tuple[Section, ...] = OPTIONAL_SECTIONS
    sign_off: SignOff = SignOff()
    is_demo: bool = False


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
    words = catalogue(choice.language, "report")
    strongest, table = strongest_names(report.table), report.table

    def say(key: str, **values: object) -> str:
        return words[key].format(**values)

    return _templates().get_template("report.html").render(
        report=report, choice=choice, other=other, references=references, seal=seal,
        recommendations=RECOMMENDATIONS, policy=_POLICY, undefined=UNDEFINED, zip=zip,
        style=Markup((_HERE / "templates" / "style.css").read_text(encoding="utf-8")),
        language=choice.language, t=say, has_words=words.__contains__,
        rule_words=lambda rule: words.get(f"rule_{rule}", rule),
        told=partial(written, language=choice.language),
        list_facts=_list_facts(report, say), run_facts=_run_facts(report, say),
        settings=report.question.get("settings", {}), min_controls=MIN_CONTROLS,
        command=command_of(report),
        standing_out=list(strongest[:MAX_NAMES].itertuples()), n_standing_out=len(strongest),
        shown_name=lambda name: shown_name(
            name.number, name.first_name, name.last_name, form=choice.names
        ),
        n_not_scored=int(table["score"].isna().sum()),
        n_undecided=int(table["is_undecided"].sum()),
        n_unmatched=int(table["is_unmatched"].sum()),
        **_figures(report, say),
    )  # fmt: skip


@cache
def _templates() -> Environment:
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    shown = (decimal, decimal_interval, moment, percent, percent_interval, small)
    found.filters |= {one.__name__: one for one in shown}
    found.filters |= {"is_known": lambda x: not math.isnan(x), "is_finite": math.isfinite}
    return found


def _figures(report: AuditReport, say: Say) -> dict[str, Any]:
    """Return the three pictures, and the scores by kind that the first one shows."""
    kinds = kind_scores(report.table)
    quarters, flagged = [k / 4 for k in range(5)], report.controls_flagged.interval()
    aucs = []
    for stratum in report.measures.strata:
        found = report.headline(stratum)
        drawn: list[figures.Interval] = [(found["attack"].auc, "rust", "rust", -8)]
        if GENERAL_ALONE in found:
            drawn.append((found[GENERAL_ALONE].auc, "grey", "open", 8))
        aucs.append((say(f"stratum_{stratum}"), figures.intervals(drawn)))
    mentions = [
        (f"{one.label} ({say('n_of_bin', n=one.n_names)})",
         figures.intervals([(one.flagged, "rust", "rust", 0)]))
        for one in report.mentions
    ]  # fmt: skip
    return {
        "max_dots": figures.MAX_DOTS,
        "kinds": kinds,
        "scores_figure": figures.scores_strip(
            kinds, labels=[say(f"kind_{kind.kind}") for kind in kinds],
            axis=say(f"axis_{report.fixed_score}"), alt=say("figure_scores"),
            is_log=report.is_log,
        ),
        "aucs_figure": figures.strip(
            aucs, ticks=[(share, f"{share:g}") for share in quarters], axis=say("axis_auc"),
            alt=say("figure_aucs"), behind=[(0.5, 0.5, "dash")],
        ),
        "mentions_figure": figures.strip(
            mentions, ticks=[(share, f"{100 * share:g}") for share in quarters],
            axis=say("axis_share"), alt=say("figure_mentions"),
            behind=[(flagged.low, flagged.high, "faint")], corner=say("axis_mentions"),
        ),
    }  # fmt: skip


def _list_facts(report: AuditReport, say: Say) -> list[tuple[str, str]]:
    counts, question = report.candidates, report.question
    keys = ("n_names", "n_members", "n_unknown", "n_controls", "n_canaries", "n_reference")
    told = {key: getattr(counts, key) for key in keys}
    pairs = [(say(key), f"{n:,}") for key, n in told.items() if n is not None]
    if counts.by_kind:
        kinds = counts.by_kind.items()
        parts = (say("control_kind", kind=say(f"kind_{kind}"), n=n) for kind, n in kinds)
        pairs.append((say("controls_by_kind"), " · ".join(parts)))
    digests = {
        "candidates": "names_digest", "passages": "passages_digest", "name_pool": "pool_digest",
    }  # fmt: skip
    pairs += [
        (say(label), str(question[key])) for key, label in digests.items() if question.get(key)
    ]
    if question.get("passages"):
        pairs.append((say("rows_left_out"), str(question.get("n_rows_left_out", 0))))
    return pairs


def _run_facts(report: AuditReport, say: Say) -> list[tuple[str, str]]:
    made, question = report.made, report.question
    hardware = " ".join(str(made[key]) for key in ("device", "device_name") if made.get(key))
    libraries = ("torch", "transformers", "numpy")
    software = " · ".join(f"{name} {made[name]}" for name in libraries if made.get(name))
    pairs = [
        (say("ran_at"), moment(report.at)),
        (say("hardware"), hardware or UNDEFINED),
        (say("software"), software or UNDEFINED),
    ]
    if "seconds" in made:
        pairs.append((say("seconds"), f"{float(made['seconds']):,.0f}"))
    return pairs + [(say(key), str(question[key])) for key in ("seed", "dtype") if key in question]


def command_of(report: AuditReport) -> str:
    """Return the command that asks the same question; directories and files are placeholders."""
    scenario, question = report.scenario.number, report.question
    parts = ["python", "-m", "audit", "run", "--scenario", str(scenario)]
    parts += ["--general", "GENERAL", "--hospital", "HOSPITAL", "--names", "names.csv"]
    parts += ["--passages", "passages.jsonl"] if scenario == 2 else []
    settings = question.get("settings", {})
    for key in (*GenerationSettings.model_fields, *PosteriorSettings.model_fields):
        if key in settings and not key.startswith("is_"):
            option = key.removeprefix("n_").replace("_", "-")
            parts += [f"--{option}", str(settings[key])]
    parts += ["--keep-sampled"] if settings.get("is_remasked") is False else []
    parts += ["--no-dropout"] if settings.get("is_dropout_on") is False else []
    for key in ("seed", "dtype", "threshold"):
        if question.get(key) is not None:
            parts.append(f"--{key}={question[key]}")
    return shlex.join([*parts, "--out", "results"])
