"""The published results of de-identification."""

from __future__ import annotations

import streamlit as st

from audit.deid.matching import CRITERIA, MISSED, SPURIOUS
from audit.deid.metrics import ENTITY, RECORD
from audit.deid.score import PublishedDeid, published_deid
from audit.notes.spans import TYPES
from pages.ui import blocks
from pages.ui.blocks import Cell
from pages.ui.deid_score_words import label_name
from pages.ui.language import Words


def draw(say: Words) -> None:
    """Draw the paper's tables, closed until somebody wants to see them."""
    published = published_deid()
    with st.expander(say.text("deid_measures_published"), key="deid_measures_published"):
        st.html(
            blocks.heading("", below=say.text("deid_measures_published_below"))
            + entity_table(say, published)
            + blocks.heading("", below=say.text("deid_measures_published_records"))
            + record_table(say, published)
            + blocks.heading("", below=say.text("deid_measures_published_matrix"))
            + matrix_table(say, published)
            + blocks.bullet_list(say.text(f"deid_measures_published_why_{i}") for i in (1, 2, 3))
            + blocks.heading("", below=published.source)
        )


def entity_table(say: Words, published: PublishedDeid) -> str:
    """Return precision, recall and F1 as printed."""
    groups = [(f"deid_measures_criterion_{name}", name) for name in CRITERIA]
    top = [Cell("", is_number=False), Cell(say.text("deid_measures_n_gold"))]
    top += [Cell(say.text(key), n_columns=3, tone="ka-group", is_number=False) for key, _ in groups]
    names = [Cell("", is_number=False), Cell("")]
    for _ in CRITERIA:
        names += [_measure(say, measure, first=ENTITY[0]) for measure in ENTITY]
    rows = []
    for label in TYPES:
        n_gold = published.n_gold[label]
        cells = [Cell(label_name(say, label), is_number=False), Cell(f"{n_gold:,}")]
        for name in CRITERIA:
            cells += [
                Cell(_percent(value), tone="" if i else "ka-first")
                for i, value in enumerate(published.percent[name][label])
            ]
        rows.append(cells)
    return blocks.table([top, names], rows, caption=say.text("deid_measures_published"))


def record_table(say: Words, published: PublishedDeid) -> str:
    """Return the shares of notes as printed."""
    top = [Cell("", is_number=False)]
    top += [
        Cell(
            say.text(f"deid_measures_criterion_{name}"), n_columns=3, tone="ka-group",
            is_number=False,
        )
        for name in CRITERIA
    ]  # fmt: skip
    names = [Cell("", is_number=False)]
    for _ in CRITERIA:
        names += [_measure(say, measure, first=RECORD[0]) for measure in RECORD]
    rows = []
    for label in TYPES:
        cells = [Cell(label_name(say, label), is_number=False)]
        for name in CRITERIA:
            cells += [
                Cell(f"{value:.2f}\N{NO-BREAK SPACE}%", tone="" if i else "ka-first")
                for i, value in enumerate(published.records[name][label])
            ]
        rows.append(cells)
    caption = say.text("deid_measures_published_records_caption")
    return blocks.table([top, names], rows, caption=caption)


def matrix_table(say: Words, published: PublishedDeid) -> str:
    """Return the paper's confusion matrix with its margins."""
    columns = (*TYPES, MISSED)
    header = [Cell(say.text("deid_measures_matrix_corner"), is_number=False)]
    header += [Cell(label_name(say, column)) for column in columns]
    rows = [
        [
            Cell(label_name(say, row), is_number=False),
            *(Cell(f"{published.matrix[row].get(column, 0):,}") for column in columns),
        ]
        for row in (*TYPES, SPURIOUS)
    ]
    return blocks.table([header], rows, caption=say.text("deid_measures_published_figure"))


def _measure(say: Words, measure: str, *, first: str) -> Cell:
    return Cell(
        say.text(f"deid_measures_rate_{measure}"), tone="ka-first" if measure == first else ""
    )


def _percent(value: float) -> str:
    return f"{value:.1f}\N{NO-BREAK SPACE}%"
