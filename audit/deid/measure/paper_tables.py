"""The tables of the paper on de-identification, and a score laid out as they are.

Source: Yada et al., tables 3, 4 and 6 to 9. Differs: intervals, numbers of gold spans, and the
seconds that a note takes stand beside the rates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from audit.deid.measure.score_report import Score
from audit.deid.measure.span_metrics import ENTITY, RECORD, LabelScore
from audit.notes.spans import TYPES
from audit.stats import NO_ESTIMATE, Estimate
from audit.tables import UNDEFINED, decimal, markdown_table, percent, percent_interval
from audit.task import Record

_TABLES = (
    ("3", "label_relaxed", ENTITY),
    ("4", "label_relaxed", RECORD),
    ("6", "strict", ENTITY),
    ("7", "relaxed", ENTITY),
    ("8", "strict", RECORD),
    ("9", "relaxed", RECORD),
)
"""Number of each table in the paper, its criterion, and its measures."""


class PublishedDeid(Record):
    """The paper's figures (Yada et al., tables 1, 3 and 6 to 9, figure 2), as printed.

    By criterion and label, `percent` has precision, recall and F1, and `records` has complete,
    clean and exact, all in percent. `matrix` is figure 2, label-relaxed, with its margins.
    """

    source: str
    n_notes: int
    n_gold: dict[str, int]
    percent: dict[str, dict[str, tuple[float, ...]]]
    records: dict[str, dict[str, tuple[float, ...]]]
    matrix: dict[str, dict[str, int]]


@cache
def published_deid() -> PublishedDeid:
    """Return the paper's figures."""
    path = Path(__file__).with_name("published_deid.json")
    return PublishedDeid.read(path.read_bytes(), where=path.name)


@dataclass(frozen=True)
class PaperRow:
    """One type in a table: the number of gold spans here, each rate here, and each as printed.

    Rates are shares 0-1. `is_few` says that there are too few gold spans to say much.
    """

    label: str
    n_gold: int
    rates: tuple[Estimate, ...]
    printed: tuple[float, ...]
    is_few: bool


@dataclass(frozen=True)
class PaperTable:
    """A table of the paper with the figures of a score beside the printed ones."""

    number: str
    criterion: str
    measures: tuple[str, ...]
    rows: tuple[PaperRow, ...]

    def format_printed(self, share: float) -> str:
        """Return a printed share 0-1 with as many decimals as the paper prints."""
        return f"{100 * share:.{1 if self.measures == ENTITY else 2}f} %"


def lay_out_tables(score: Score) -> tuple[PaperTable, ...]:
    """Return a score in the layout of the paper's tables, in their order.

    A type of which neither side has a span has rates that are not defined.
    """
    return tuple(
        PaperTable(number, criterion, measures, tuple(_yield_rows(score, criterion, measures)))
        for number, criterion, measures in _TABLES
    )


def _yield_rows(score: Score, criterion: str, measures: tuple[str, ...]) -> Iterator[PaperRow]:
    paper = published_deid()
    printed = (paper.percent if measures == ENTITY else paper.records)[criterion]
    lines = score.summary.criteria[criterion].labels
    for label in TYPES:
        line: LabelScore | None = lines.get(label)
        yield PaperRow(
            label,
            line.n_gold if line else 0,
            tuple(line.estimate(measure) if line else NO_ESTIMATE for measure in measures),
            tuple(rate / 100 for rate in printed[label]),
            line is None or line.is_few,
        )


def paper_markdown(score: Score) -> str:
    """Return all tables as Markdown, each rate with its 95 % interval and the printed one."""
    summary = score.summary
    parts = [
        f"{summary.n_documents:,} notes of {summary.n_patients:,} patients; in each cell the rate, "
        "its 95 % interval (bootstrap over patients), and the paper's.",
    ]
    for table in lay_out_tables(score):
        criterion, head = table.criterion.replace("_", "-"), ("type", "gold spans", *table.measures)
        rows = [
            (
                row.label,
                f"{row.n_gold:,}{' (few)' if row.is_few else ''}",
                *(
                    f"{_format_rate(rate)}; paper {table.format_printed(printed)}"
                    for rate, printed in zip(row.rates, row.printed, strict=True)
                ),
            )
            for row in table.rows
        ]
        parts += [f"**Table {table.number} ({criterion})**", markdown_table(head, rows)]
    if score.seconds is not None:
        parts.append(
            f"{decimal(score.seconds / summary.n_documents, digits=3)} seconds a note, without "
            "loading the tagger."
        )
    parts.append(f"Paper: {published_deid().source}.")
    return "\n\n".join(parts) + "\n"


def _format_rate(rate: Estimate) -> str:
    value = percent(rate.value)
    return value if value == UNDEFINED else f"{value} ({percent_interval(rate)})"
