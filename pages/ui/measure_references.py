"""The same question with other reference models on the Measures page, side by side."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.attack.scores import GENERAL_ALONE
from audit.report.compare import Comparison
from audit.report.report import AuditReport, KeptAudit
from pages.ui import blocks, cached
from pages.ui.language import Words
from pages.ui.measure_tables import p_value
from pages.ui.place import place
from pages.ui.text import UNDEFINED, decimal, decimal_interval, percent, percent_interval


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw an audit beside those that differ in the reference alone."""
    found, n_left_out = cached.references(audit.digest, kept=place().kept)
    if not found:
        why = say.text("measures_no_references_do")
        st.html(blocks.heading(say.text("measures_no_references"), below=why))
        return
    st.html(_table(say, cached.report(audit.digest), others=[one.other for one in found]))
    if n_left_out:
        left_out = say.text("measures_references_more", n=n_left_out)
        st.html(blocks.heading("", below=left_out))
    st.html(
        blocks.heading(
            say.text("measures_references_differences"),
            below=say.text("measures_references_differences_below"),
        )
    )
    st.html(_differences(say, found))


def _table(say: Words, own: AuditReport, *, others: Sequence[AuditReport]) -> str:
    keys = ("name", "controls", "n", "auc", "alone", "recall", "fpr", "flagged")
    n_text = 2
    head = [
        blocks.Cell(say.text(f"measures_references_{key}"), is_number=at >= n_text)
        for at, key in enumerate(keys)
    ]
    rows = []
    for one in (own, *others):
        who, flagged = _who(say, one, is_own=one is own), _flagged(one)
        for name, stratum in one.measures.shown.items():
            held_out = stratum.held_out[one.fixed_score].confusion
            aucs = (stratum.scores[one.fixed_score].auc, stratum.baselines[GENERAL_ALONE].auc)
            rates = (held_out.recall, held_out.false_positive_rate)
            cells = [
                blocks.Cell(_controls(say, name), is_number=False),
                blocks.Cell(f"{stratum.n_members} / {stratum.n_controls}"),
                *(blocks.Cell(decimal(auc.value), _some(decimal_interval(auc))) for auc in aucs),
                *(blocks.Cell(percent(r.value), _some(percent_interval(r))) for r in rates),
            ]
            rows.append([*who, *cells, *flagged])
            who, flagged = [], []
        if not one.has_truth:
            empty = [blocks.Cell(UNDEFINED, is_number=at > 0) for at in range(6)]
            rows.append([*who, *empty, *flagged])
    return blocks.table([head], rows, caption=say.text("measures_references_caption"))


def _who(say: Words, one: AuditReport, *, is_own: bool) -> list[blocks.Cell]:
    n_rows = max(1, len(one.measures.shown))
    which = say.text("measures_references_own") if is_own else one.digest[:12]
    below = f"{which} \u00b7 {say.text(f'state_{one.verdict.state}')}"
    return [blocks.Cell(one.models["general"].name, below, is_number=False, n_rows=n_rows)]


def _flagged(one: AuditReport) -> list[blocks.Cell]:
    rate = one.verdict.flagged
    below = _some(percent_interval(rate.interval()))
    text = f"{rate.n_hits} / {rate.n_total}"
    return [blocks.Cell(text, below, n_rows=max(1, len(one.measures.shown)))]


def _differences(say: Words, found: Sequence[Comparison]) -> str:
    rows = []
    for one in found:
        which = f"{one.other.models['general'].name} \u00b7 {one.other.digest[:12]}"
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
                f"{one.tested.only_one} / {one.tested.only_other}",
                UNDEFINED,
                p_value(one.tested.p),
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
