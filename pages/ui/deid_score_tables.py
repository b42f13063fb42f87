"""Tables of a score: rates under several criteria, notes with their own denominators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from audit.deid.metrics import ENTITY, RECORD, CriterionScore, LabelScore
from pages.ui import blocks
from pages.ui.blocks import Cell
from pages.ui.deid_score_words import label_name, share_below, unbroken_interval
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, percent


def criteria_table(
    say: Words, views: Mapping[str, CriterionScore], *, labels: Sequence[str]
) -> str:
    """Return precision, recall and F1 of each label under several criteria, side by side."""
    top = [Cell("", is_number=False), Cell(say.text("deid_measures_n_gold"))]
    top += [
        Cell(
            say.text(f"deid_measures_criterion_{name}"), n_columns=3, tone="ka-group",
            is_number=False,
        )
        for name in views
    ]  # fmt: skip
    names = [Cell("", is_number=False), Cell("")]
    for _ in views:
        names += [
            Cell(say.text(f"deid_measures_rate_{m}"), tone="ka-first" if m == ENTITY[0] else "")
            for m in ENTITY
        ]
    rows = []
    for label in labels:
        line = next(iter(views.values())).line(label)
        n_gold = line.n_gold if line else 0
        cells = [_name(say, label, line), Cell(f"{n_gold:,}")]
        for view in views.values():
            cells += [share_cell(view.line(label), m) for m in ENTITY]
        rows.append(cells)
    macro = [Cell(say.text("deid_measures_macro"), is_number=False), Cell("")]
    for view in views.values():
        macro += [
            Cell(
                percent(view.macro.estimate(m).value), unbroken_interval(view.macro.estimate(m)),
                tone="ka-narrow ka-first" if m == ENTITY[0] else "ka-narrow",
            )
            for m in ENTITY
        ]  # fmt: skip
    differ = ", ".join(
        f"{say.text(f'deid_measures_criterion_{name}')} {view.n_pairs_differ:,}"
        for name, view in views.items()
    )
    caption = say.text("deid_measures_table_caption", differ=differ)
    return blocks.table([top, names], [*rows, macro], caption=caption)


def record_table(say: Words, view: CriterionScore, *, labels: Sequence[str]) -> str:
    """Return the shares of notes with their own denominators."""
    header = [Cell("", is_number=False)]
    header += [
        Cell(say.text(f"deid_measures_rate_{m}"), say.text(f"deid_measures_of_{m}")) for m in RECORD
    ]
    rows = [
        [_name(say, label, line), *(share_cell(line, m, is_first=False) for m in RECORD)]
        for label in labels
        if (line := view.line(label)) is not None
    ]
    return blocks.table([header], rows, caption=say.text("deid_measures_records_caption"))


def _name(say: Words, label: str, line: LabelScore | None) -> Cell:
    few = say.text("deid_measures_few_spans") if line is not None and line.is_few else ""
    return Cell(label_name(say, label), few, is_number=False)


def share_cell(line: LabelScore | None, measure: str, *, is_first: bool = True) -> Cell:
    """Return a rate with its interval and counts; `is_first` marks where a group begins."""
    tone = "ka-narrow ka-first" if is_first and measure == ENTITY[0] else "ka-narrow"
    if line is None:
        return Cell(UNDEFINED, tone=tone)
    return Cell(percent(line.estimate(measure).value), share_below(line, measure), tone=tone)
