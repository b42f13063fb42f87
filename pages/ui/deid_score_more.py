"""What else a score says: types ignored, what stays readable, names seen in training, copies."""

from __future__ import annotations

import math

import streamlit as st

from audit.deid.matching import ANY
from audit.deid.metrics import ENTITY, RECORD
from audit.deid.score import HEADLINE_CRITERION, Score
from audit.stats import Rate
from pages.ui import blocks
from pages.ui.blocks import Cell
from pages.ui.deid_score_tables import criteria_table, share_cell
from pages.ui.deid_score_words import label_name, rate_text
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, decimal, percent, percent_interval


def draw_more(say: Words, view: Score) -> None:
    """Draw all of it that the score has."""
    _draw_blind(say, view)
    _draw_coverage(say, view)
    if view.seen is not None:
        _draw_seen(say, view)
    if view.copies is not None:
        _draw_copies(say, view)


def _draw_blind(say: Words, view: Score) -> None:
    header = [say.text("deid_measures_criterion")]
    header += [say.text(f"deid_measures_rate_{m}") for m in (*ENTITY, *RECORD)]
    rows = []
    for name, line in view.summary.type_blind.items():
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


def _draw_coverage(say: Words, view: Score) -> None:
    covered = view.summary.coverage
    header = [say.text(f"deid_measures_coverage_{key}") for key in ("label", "whole", "characters")]
    rows = [
        (label_name(say, label), rate_text(line.whole), rate_text(line.characters))
        for label, line in (*covered.labels.items(), (ANY, covered.together))
    ]
    caption = say.text(
        "deid_measures_coverage_caption",
        left=decimal(_number(covered.left_per_1000_chars), digits=2),
        over=percent(_number(covered.over_redaction)),
    )
    st.html(
        blocks.heading(
            say.text("deid_measures_coverage"), below=say.text("deid_measures_coverage_below")
        )
        + blocks.simple_table(header, rows, caption=caption)
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _draw_seen(say: Words, view: Score) -> None:
    assert view.seen is not None
    header = [say.text(f"deid_measures_seen_{key}") for key in ("label", "seen", "unseen")]
    rows = [
        (
            label_name(say, line.label),
            *(
                f"{rate_text(r)} · {percent_interval(r.interval())}"
                for r in (Rate(*line.seen), Rate(*line.unseen))
            ),
        )
        for line in view.seen.labels
    ]
    st.html(
        blocks.heading(say.text("deid_measures_seen"), below=say.text("deid_measures_seen_below"))
        + blocks.simple_table(header, rows, caption=say.text("deid_measures_seen_caption"))
    )


def _draw_copies(say: Words, view: Score) -> None:
    assert view.copies is not None and view.verbatim is not None
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
    for key, found in (("aligned", view.summary), ("verbatim", view.verbatim)):
        st.html(blocks.heading("", below=say.text(f"deid_measures_column_{key}")))
        st.html(
            criteria_table(
                say, {HEADLINE_CRITERION: found.criteria[HEADLINE_CRITERION]}, labels=labels
            )
        )
