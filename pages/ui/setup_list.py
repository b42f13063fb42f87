"""One list of names on the screen: counts, remarks on its rows, two histograms, the names."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from audit.errors import AuditError, Message, written
from audit.models.registry import RegisteredModel
from audit.names.candidates import GUESSED_KINDS, guessed_kinds
from audit.tables import RowNote
from pages.ui import blocks, cached, charts
from pages.ui.blocks import refused
from pages.ui.cached import ListView
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.language import Words
from pages.ui.reveal import is_revealed, shown_name
from pages.ui.setup_facts import Bins, Spelling
from pages.ui.text import UNDEFINED, decimal, escaped

_RAISED = str.maketrans("-0123456789.", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹·")


def histogram(
    bins: Bins, *, ticks: list[str], x: str, y: str, labels: tuple[str, str]
) -> go.Figure:
    """Return how many names fall into each bin: tested names rust, controls grey.

    `ticks` names the bins; `labels` the two groups.
    """
    figure = go.Figure()
    for counts, label, colour, pattern in (
        (bins.n_tested, labels[0], RUST, ""),
        (bins.n_controls, labels[1], GREY, "/"),
    ):
        figure.add_bar(
            x=ticks,
            y=list(counts),
            name=escaped(label),
            marker={"color": colour, "pattern": {"shape": pattern, "size": 5, "solidity": 0.25}},
            hovertemplate="%{x}: %{y}<extra></extra>",
        )
    figure.update_xaxes(title=x, type="category", showgrid=False)
    figure.update_yaxes(title=y, gridcolor=LINE, zeroline=False, tickformat="d")
    return figure.update_layout(
        barmode="group",
        height=290,
        margin={"l": 10, "r": 16, "t": 30, "b": 10},
        font={"size": 13},
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )


def pieces_ticks(bins: Bins) -> list[str]:
    """Return the bins of word pieces as whole numbers."""
    return [f"{start:.0f}" for start in bins.starts]


def share_ticks(bins: Bins) -> list[str]:
    """Return the bins of popularity as powers of ten."""
    return [f"10{f'{start:g}'.translate(_RAISED)}" for start in bins.starts]


_MAX_NOTES = 200


def draw_list(say: Words, view: ListView, *, key: str, hospital: RegisteredModel | None) -> None:
    """Draw a list; `key` tells two lists of one page apart."""
    st.html(blocks.simple_table(*counts(say, view), caption=count_caption(say, view), n_text=1))
    if kinds := guessed_kinds(view.candidates):
        below = written(Message(GUESSED_KINDS, **kinds), say.language)
        st.html(f'<p class="ka-refused">{escaped(below)}</p>')
    draw_notes(say, view.notes, title="setup_notes", key=f"{key}_notes")
    spelling = spelt(say, view, hospital=hospital)
    label = say.text("setup_look")
    with st.expander(label, key=f"{key}_look", expanded=key == "draft"):
        draw_histograms(say, view, spelling, key=key)
        if st.toggle(say.text("setup_show_names"), key=f"{key}_show_names"):
            draw_table(say, view, spelling, key=key)


def counts(say: Words, view: ListView) -> tuple[list[str], list[tuple[str, str]]]:
    """Return header and rows of the counts."""
    facts = view.facts
    rows = [(say.text("setup_n_names"), f"{view.line.n:,}")]
    rows.append((say.text("setup_n_members"), f"{facts.n_members:,}"))
    rows += [(say.text(f"kind_{kind}"), f"{n:,}") for kind, n in facts.by_kind.items()]
    rows.append((say.text("setup_n_unknown"), f"{facts.n_unknown:,}"))
    rows += [(say.text(f"setup_script_{s}"), f"{n:,}") for s, n in facts.scripts.items()]
    if facts.n_one_part:
        rows.append((say.text("setup_n_one_part"), f"{facts.n_one_part:,}"))
    rows.append((say.text("setup_n_mentions"), f"{facts.n_with_mentions:,}"))
    return [say.text("setup_column_what"), say.text("setup_column_names")], rows


def count_caption(say: Words, view: ListView) -> str:
    """Return under which encoding the list was read, and what its truth allows."""
    has_truth = view.candidates.has_truth
    truth = say.text("setup_has_truth" if has_truth else "setup_has_no_truth")
    if not view.encoding:
        return truth
    return f"{say.text('setup_encoding', encoding=view.encoding)} {truth}"


def draw_notes(say: Words, notes: Sequence[RowNote], *, title: str, key: str) -> None:
    """Draw what is to be known of single rows."""
    if not notes:
        return
    with st.expander(say.text(title, n=len(notes)), key=key):
        rows = [(f"{one.row}", written(one.what, say.language)) for one in notes[:_MAX_NOTES]]
        header = [say.text("setup_column_row"), say.text("setup_column_remark")]
        caption = say.text("setup_notes_caption", shown=len(rows), n=len(notes))
        st.html(blocks.simple_table(header, rows, caption=caption, n_text=2))


def spelt(say: Words, view: ListView, *, hospital: RegisteredModel | None) -> Spelling | None:
    """Return how the hospital model spells the names, after saying how many it cannot."""
    if hospital is None:
        st.html(blocks.heading("", below=say.text("setup_no_spelling")))
        return None
    try:
        found = cached.spelt(view, model=hospital.path)
    except AuditError as error:
        refused(say, error)
        return None
    if found.by_pieces.n_missing:
        below = say.text("setup_unspelt", n=found.by_pieces.n_missing)
        st.html(f'<p class="ka-refused">{escaped(below)}</p>')
    return found


def draw_histograms(say: Words, view: ListView, spelling: Spelling | None, *, key: str) -> None:
    """Draw word pieces and popularity side by side."""
    left, right = st.columns(2, gap="large")
    if spelling:
        with left:
            bins = spelling.by_pieces
            ticks = pieces_ticks(bins)
            draw_histogram(say, bins, ticks, what="pieces", key=key)
    with right:
        bins = view.facts.popularity
        ticks = share_ticks(bins)
        draw_histogram(say, bins, ticks, what="popularity", key=key)


def draw_histogram(say: Words, bins: Bins, ticks: list[str], *, what: str, key: str) -> None:
    """Draw one histogram and its table."""
    title, below = say.text(f"setup_{what}_title"), say.text(f"setup_{what}_below")
    st.html(blocks.heading(title, below=below))
    labels = (say.text("setup_tested"), say.text("setup_controls"))
    axis = say.text(f"setup_{what}_axis")
    figure = histogram(bins, ticks=ticks, x=axis, y=say.text("setup_column_names"), labels=labels)
    alt = say.text(f"setup_{what}_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key=f"{key}_{what}")
    with st.expander(say.text("as_table"), key=f"{key}_{what}_table"):
        rows = [
            (tick, f"{n_tested:,}", f"{n_controls:,}")
            for tick, n_tested, n_controls in zip(
                ticks, bins.n_tested, bins.n_controls, strict=True
            )
        ]
        caption = say.text(f"setup_{what}_missing", n=bins.n_missing)
        st.html(blocks.simple_table([axis, *labels], rows, caption=caption))


def draw_table(say: Words, view: ListView, spelling: Spelling | None, *, key: str) -> None:
    """Draw the names themselves, masked until they are revealed."""
    names = view.candidates
    pieces = spelling.n_pieces if spelling else (0,) * len(names)
    columns: dict[str, list[object]] = {
        say.text("setup_column_row"): list(names.row),
        say.text("column_name"): [
            shown_name(first, last) for first, last in zip(names.first, names.last, strict=True)
        ],
        say.text("column_kind"): [
            kind_of(say, is_member, kind)
            for is_member, kind in zip(names.is_member, names.control_kind, strict=True)
        ],
        say.text("column_mentions"): list(names.n_mentions),
        say.text("setup_column_pieces"): [n or None for n in pieces],
    }
    if is_revealed():  # a share in a public table of names tells a name
        columns[say.text("setup_column_popularity")] = [
            UNDEFINED if math.isnan(log) else decimal(log, digits=1)
            for log in view.facts.log_popularity
        ]
    st.dataframe(
        columns,
        hide_index=True,
        key=f"{key}_names",
        alt=say.text("setup_table_alt"),
        width="stretch",
        height=390,
        placeholder=UNDEFINED,
    )


def kind_of(say: Words, is_member: bool | None, kind: str) -> str:
    """Return what a name is on the list."""
    if is_member is None:
        return say.text("setup_one_unknown")
    return say.text("setup_one_member") if is_member else say.text(f"kind_{kind}")
