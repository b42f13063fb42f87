"""The report as one HTML file that is read, printed and signed without the program.

The HTML has no scripts and fetches nothing; pictures are embedded. It suits light and dark screens
and A4 paper. `templates/` escapes every value. Even if a value were not escaped, the file's content
security policy would let nothing run and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from audit import tables
from audit.attack.question import command_line
from audit.errors import catalogue, render_message
from audit.report.compare import Comparison
from audit.report.decision import RECOMMENDATIONS, SIGNATURE_ROLES, Decision
from audit.report.name_table import (
    ASKED,
    KindScores,
    NameForm,
    format_name,
    kind_scores,
    select_strongest_names,
)
from audit.report.report import AuditReport
from audit.stats import MIN_CONTROLS
from audit.task import Record
from audit.words import LANGUAGES, Language, Words

Section = Literal["results", "names", "diagnostics", "reproduction", "glossary"]
OPTIONAL_SECTIONS: tuple[Section, ...] = get_args(Section)
"""Sections that may be left out; verdict, scope, attacker, method, limits, sign-off may not."""
MAX_NAMES = 50
"""Maximum number of printed names that stand out; all are in names.csv."""
MAX_LISTED = 5_000
"""Maximum number of names in the table of all names, which only the folder's page has."""
MAX_DOTS = 400
_FOLDER = Path(__file__).resolve().parent / "templates"
_GOLDEN = 0.618033988749895
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_FOLDER_POLICY = f"{_POLICY}; img-src data: blob:; script-src"


class ReportChoice(Record):
    """Options of one report; with `is_demo` the report says that everything is invented.

    `time_zone` is the name of the zone in which times are written.
    """

    language: Language = "en"
    names: NameForm = "masked"
    sections: tuple[Section, ...] = OPTIONAL_SECTIONS
    decision: Decision = Decision()
    is_demo: bool = False
    time_zone: str = "UTC"


def report_html(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: Sequence[Comparison] = (),
    seal: str = "",
) -> str:
    """Return the HTML of the report.

    `other` is the audit of the same pair in the other scenario, if there is one. `references` are
    comparisons with audits that differ only in the reference. `seal` is the seal of the access log,
    printed beside the signatures.
    """
    return _render(
        "report.html", report, choice=choice, other=other, references=references, seal=seal
    )


def folder_html(
    report: AuditReport,
    *,
    choice: ReportChoice,
    other: AuditReport | None = None,
    references: Sequence[Comparison] = (),
    seal: str = "",
) -> str:
    """Return the report as a page in all languages with figures and tables that respond.

    The arguments are those of `report_html`; the language of `choice` is shown first. The page
    holds plotly's script, needs no server and requests nothing. Only these scripts may run.
    """
    # Neither the web process at its start nor a command without figures needs plotly.
    from plotly.offline import get_plotlyjs

    from audit.report.figures import draw_figures

    bodies, figures = {}, {}
    for language in sorted(LANGUAGES, key=lambda code: code != choice.language):
        words = Words(language, catalogue(language, "report"))
        bodies[language] = _render(
            "main.html",
            report,
            choice=choice.with_(language=language),
            other=other,
            references=references,
            seal=seal,
            is_folder=True,
        )
        figures[language] = {
            key: json.loads(figure.to_json())
            for key, figure in draw_figures(report, words=words, max_dots=MAX_DOTS).items()
        }
    scripts = [get_plotlyjs(), (_FOLDER / "folder.js").read_text(encoding="utf-8")]
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    # In a script element, text ends at "</".
    data = json.dumps(figures, ensure_ascii=False).replace("<", "\\u003c")
    return (
        _templates()
        .get_template("folder.html")
        .render(
            policy=f"{_FOLDER_POLICY} {hashes}",
            style=_read_styles("style.css", "folder.css"),
            digest=report.digest[:12],
            languages=LANGUAGES,
            titles={code: catalogue(code, "report")["title"] for code in bodies},
            bodies={code: Markup(body) for code, body in bodies.items()},
            data=Markup(data),
            scripts=list(map(Markup, scripts)),
        )
    )


def _read_styles(*names: str) -> Markup:
    return Markup("".join((_FOLDER / name).read_text(encoding="utf-8") for name in names))


def _render(
    template: str,
    report: AuditReport,
    *,
    choice: ReportChoice,
    is_folder: bool = False,
    **parts: Any,
) -> str:
    """Return a template filled with a report; `parts` are further arguments of `report_html`."""
    words, table = catalogue(choice.language, "report"), report.table
    strongest, kinds = select_strongest_names(table), kind_scores(table)
    return (
        _templates()
        .get_template(template)
        .render(
            **parts,
            report=report,
            choice=choice,
            is_folder=is_folder,
            recommendations=RECOMMENDATIONS,
            roles=SIGNATURE_ROLES,
            policy=_POLICY,
            style=_read_styles("style.css"),
            undefined=tables.UNDEFINED,
            language=choice.language,
            has_words=words.__contains__,
            moment=lambda stamp: (
                tables.format_moment(stamp, zone=choice.time_zone) or tables.UNDEFINED
            ),
            t=Words(choice.language, words).text,
            told=partial(render_message, language=choice.language),
            rule_words=lambda rule: words.get(f"rule_{rule}", rule),
            settings=report.question.get("settings", {}),
            min_controls=MIN_CONTROLS,
            command=command_line({"scenario": report.scenario.number, **report.question}),
            standing_out=list(strongest[:MAX_NAMES].itertuples()),
            n_standing_out=len(strongest),
            all_names=_list_names(table) if is_folder else (),
            shown_name=lambda name: format_name(
                name.number, name.first_name, name.last_name, form=choice.names
            ),
            has_tries=bool(table["tries_50"].notna().any()),
            n_not_scored=int(table["score"].isna().sum()),
            n_undecided=int(table["is_undecided"].sum()),
            n_unmatched=int(table["is_unmatched"].sum()),
            kinds=kinds,
            scores=score_strip(kinds),
            max_dots=MAX_DOTS,
        )
    )


def _list_names(table: pd.DataFrame) -> list[Any]:
    """Return the names with the highest scores, at most `MAX_LISTED`."""
    by_score = table.sort_values("score", ascending=False, kind="stable")
    return list(by_score[:MAX_LISTED].itertuples())


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filter_names = (
        "decimal",
        "decimal_interval",
        "large",
        "percent",
        "percent_interval",
        "small",
    )
    environment.filters |= {name: getattr(tables, name) for name in filter_names}
    environment.filters |= {"is_known": lambda x: not math.isnan(x), "is_finite": math.isfinite}
    # For figures.html: a share of the axis as x, clipped to the axis; pixels as text.
    environment.filters["x"] = lambda share: 170 + min(1.0, max(0.0, share)) * 530
    environment.filters["pixels"] = lambda x: f"{x:.1f}".removesuffix(".0")
    return environment


def score_strip(kinds: Sequence[KindScores]) -> dict[str, Any] | None:
    """Return where the scores of each kind are drawn, as shares of an axis; None without scores.

    The height of a dot depends only on its order, so the same scores give the same picture.
    """
    if not (kinds := [kind for kind in kinds if kind.scores]):
        return None
    scores = np.concatenate([kind.scores for kind in kinds])
    margin = 0.03 * (np.ptp(scores) or 1.0)
    low, width = scores.min() - margin, np.ptp(scores) + 2 * margin

    def place(score: float) -> float:
        return float((score - low) / width)

    rows = [
        {
            "kind": kind.kind,
            "n": n,
            "is_asked": kind.kind in ASKED,
            "quartiles": list(map(place, kind.quartiles)),
            "dots": [
                (place(score), 28 * ((i * _GOLDEN) % 1 - 0.5))
                for i, score in enumerate(kind.scores)
                if n <= MAX_DOTS
            ],
        }
        for kind in kinds
        if (n := len(kind.scores))
    ]
    ticks = [(place(value), tables.small(value)) for value in _ticks(low, low + width)]
    return {"rows": rows, "ticks": ticks, "behind": [(x, x, "faint") for x, _ in ticks]}


def _ticks(low: float, high: float) -> list[float]:
    """Return eight or fewer round numbers between two numbers."""
    size = 10.0 ** math.floor(math.log10((high - low) / 4))
    size *= next(k for k in (1, 2, 5, 10) if (high - low) / (k * size) <= 8)
    first, last = math.ceil(low / size), math.floor(high / size)
    return [round(k * size, 10) for k in range(first, last + 1)]
