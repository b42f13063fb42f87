"""Points of a chart that stand for names: what a pointer over one shows, and what a click opens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from audit.report.report import AuditReport
from audit.tables import decimal
from audit.words import Words
from pages.ui import cached
from pages.ui.access import is_revealed
from pages.ui.blocks import escape_html
from pages.ui.state import go_to


def list_facts(report: AuditReport, rows: Iterable[int]) -> list[list[object]]:
    """Return what a chart holds of the names in these rows: id, label, and mentions.

    The label is the name's number with the name as this session shows names.
    """
    table = report.table
    names = cached.format_names(report.digest, is_revealed=is_revealed())
    ids, numbers, mentions = (table[key].tolist() for key in ("name_id", "number", "n_mentions"))
    return [
        [
            int(ids[row]),
            escape_html(f"{numbers[row]} · {names[row]}"),
            decimal(mentions[row], digits=0),
        ]
        for row in rows
    ]


def hover_text(say: Words, kind: str, *, score: str) -> str:
    """Return plotly's template of what a pointer over a name shows; `score` is a part of it."""
    text = say.text(
        "names_point",
        name="%{customdata[1]}",
        kind=escape_html(kind),
        n="%{customdata[2]}",
        score=score,
    )
    return text.replace("\n", "<br>")


def open_clicked_name(report: AuditReport, facts: Sequence[object]) -> None:
    """Open the page of the clicked name; do nothing without one."""
    if facts:
        go_to("names", audit=report.digest, name=str(facts[0]))
