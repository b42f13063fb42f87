"""What else a score says: types ignored, what stays readable, names seen in training, copies."""

from __future__ import annotations

import streamlit as st

from audit.deid.score_view import HEADLINE_CRITERION, ScoreView
from pages.ui import blocks
from pages.ui.blocks import Cell
from pages.ui.deid_score_tables import ENTITY, RECORD, criteria_table, share_cell
from pages.ui.deid_score_words import label_name, rate_text
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, decimal, percent, percent_interval


def draw_more(say: Words, view: ScoreView) -> None:
    """Draw all of it that the score has."""
    _draw_blind(say, view)
    _draw_coverage(say, view)
    if view.seen:
        _draw_seen(say, view)
    if view.copies is not None:
        _draw_copies(say, view)


def _draw_blind(say: Words, view: ScoreView) -> None:
    header = [say.text("deid_measures_criterion")]
    header += [say.text(f"deid_measures_rate_{m}") for m in (*ENTITY, *RECORD)]
    rows = []
    for name, line in view.blind.items():
        cells = [Cell(say.text(f"deid_measures_criterion_{name}"), is_number=False)]
        rows.append([*cells, *(share_cell(line, m, is_first=False) for m in (*ENTITY, *RECORD))])
    st.html(
        blocks.heading(say.text("deid_measures_blind"), below=say.text("deid_measures_blind_below"))
        + blocks.table(
            [[Cell(name, is_number=place > 0) for place, name in enumerate(header)]],
            rows,
            caption=say.text("deid_measures_blind_caption"),
        )
    )


def _draw_coverage(say: Words, view: ScoreView) -> None:
    header = [say.text(f"deid_measures_coverage_{key}") for key in ("label", "whole", "characters")]
    rows = [
        (label_name(say, line.label), rate_text(line.whole), rate_text(line.characters))
        for line in view.coverage
    ]
    caption = say.text(
        "deid_measures_coverage_caption",
        left=decimal(view.left_per_1000, digits=2),
        over=percent(view.over_redaction),
    )
    st.html(
        blocks.heading(
            say.text("deid_measures_coverage"), below=say.text("deid_measures_coverage_below")
        )
        + blocks.simple_table(header, rows, caption=caption)
    )


def _draw_seen(say: Words, view: ScoreView) -> None:
    header = [say.text(f"deid_measures_seen_{key}") for key in ("label", "seen", "unseen")]
    rows = [
        (
            label_name(say, line.label),
            *(
                f"{rate_text(r)} · {percent_interval(r.interval())}"
                for r in (line.seen, line.unseen)
            ),
        )
        for line in view.seen
    ]
    st.html(
        blocks.heading(say.text("deid_measures_seen"), below=say.text("deid_measures_seen_below"))
        + blocks.simple_table(header, rows, caption=say.text("deid_measures_seen_caption"))
    )


def _draw_copies(say: Words, view: ScoreView) -> None:
    assert view.copies is not None
    st.html(
        blocks.heading(
            say.text("deid_measures_copies"), below=say.text("deid_measures_copies_below")
        )
    )
    statuses = view.copies["statuses"]
    total = sum(statuses.values())
    rows = [
        (say.text(f"deid_measures_copy_{status}"), f"{n:,}", percent(n / total if total else 0.0))
        for status, n in statuses.items()
    ]
    header = [say.text(f"deid_measures_copies_{key}") for key in ("status", "n", "share")]
    tags = view.copies["tags"]
    rate = view.copies["pooled_error_rate"]
    caption = say.text(
        "deid_measures_copies_caption",
        rate=UNDEFINED if rate is None else percent(rate),
        malformed=f"{sum(n for kind, n in tags.items() if kind != 'n_tags'):,}",
        tags=f"{tags['n_tags']:,}",
        unaligned=f"{view.copies['n_unaligned']:,}",
    )
    st.html(blocks.simple_table(header, rows, caption=caption))
    labels = (*view.labels, "")
    for key, found in (("aligned", view.criteria), ("verbatim", view.verbatim)):
        st.html(blocks.heading("", below=say.text(f"deid_measures_column_{key}")))
        st.html(criteria_table(say, [found[HEADLINE_CRITERION]], labels=labels))
