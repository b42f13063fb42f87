"""The same question with other reference models on the Measures page, side by side."""

from __future__ import annotations

import streamlit as st

from audit.report.reading import ReferenceLine, ReferenceView
from audit.report.report import KeptAudit
from pages.ui import blocks, cached
from pages.ui.language import Words
from pages.ui.measure_tables import p_value
from pages.ui.place import place
from pages.ui.text import UNDEFINED, decimal, decimal_interval, percent, percent_interval


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw an audit beside those that differ in the reference alone."""
    view = cached.references(audit.digest, kept=place().kept)
    if view is None:
        why = say.text("measures_no_references_do")
        st.html(blocks.heading(say.text("measures_no_references"), below=why))
        return
    st.html(_table(say, view))
    if view.n_left_out:
        left_out = say.text("measures_references_more", n=view.n_left_out)
        st.html(blocks.heading("", below=left_out))
    st.html(
        blocks.heading(
            say.text("measures_references_differences"),
            below=say.text("measures_references_differences_below"),
        )
    )
    st.html(_differences(say, view))


def _table(say: Words, view: ReferenceView) -> str:
    keys = ("name", "controls", "n", "auc", "alone", "recall", "fpr", "flagged")
    n_text = 2
    head = [
        blocks.Cell(say.text(f"measures_references_{key}"), is_number=at >= n_text)
        for at, key in enumerate(keys)
    ]
    rows = []
    for line in view.lines:
        for at, stratum in enumerate(line.strata):
            first = _who(say, line) if not at else []
            last = _flagged(line) if not at else []
            rows.append(
                [
                    *first,
                    blocks.Cell(_controls(say, stratum.stratum), is_number=False),
                    blocks.Cell(f"{stratum.n_members} / {stratum.n_controls}"),
                    blocks.Cell(decimal(stratum.auc.value), _some(decimal_interval(stratum.auc))),
                    blocks.Cell(
                        decimal(stratum.alone.value), _some(decimal_interval(stratum.alone))
                    ),
                    *(
                        blocks.Cell(percent(rate.value), _some(percent_interval(rate)))
                        for rate in (stratum.recall, stratum.fpr)
                    ),
                    *last,
                ]
            )
        if not line.strata:
            empty = [blocks.Cell(UNDEFINED, is_number=at > 0) for at in range(6)]
            rows.append([*_who(say, line), *empty, *_flagged(line)])
    return blocks.table([head], rows, caption=say.text("measures_references_caption"))


def _who(say: Words, line: ReferenceLine) -> list[blocks.Cell]:
    n_rows = max(1, len(line.strata))
    which = say.text("measures_references_own") if line.is_own else line.digest[:12]
    below = f"{which} \u00b7 {say.text(f'state_{line.state}')}"
    return [blocks.Cell(line.name, below, is_number=False, n_rows=n_rows)]


def _flagged(line: ReferenceLine) -> list[blocks.Cell]:
    rate = line.flagged
    text = f"{rate.n_hits} / {rate.n_total}"
    below = _some(percent_interval(rate.interval()))
    return [blocks.Cell(text, below, n_rows=max(1, len(line.strata)))]


def _differences(say: Words, view: ReferenceView) -> str:
    rows = []
    for one in view.differences:
        which = f"{one.name} \u00b7 {one.digest[:12]}"
        rows += [
            (
                which,
                say.text("measures_references_auc_of", controls=_controls(say, auc.stratum)),
                decimal(auc.difference.value),
                decimal_interval(auc.difference),
                UNDEFINED,
            )
            for auc in one.aucs
        ]
        rows.append(
            (
                which,
                say.text("measures_references_share"),
                percent(one.flagged.value),
                percent_interval(one.flagged),
                p_value(one.p),
            )
        )
    keys = ("other", "what", "difference")
    header = [say.text(f"measures_references_{key}") for key in keys]
    header += [say.text("column_interval"), say.text("measures_mcnemar")]
    caption = say.text("measures_references_differences")
    return blocks.simple_table(header, rows, caption=caption, n_text=2)


def _controls(say: Words, stratum: str) -> str:
    return say.text("measures_controls" if stratum == "all" else f"kind_{stratum}")


def _some(text: str) -> str:
    return "" if text == UNDEFINED else text
