"""The risk of what stays readable in a kept set: who is singled out, and in which notes."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from audit.deid.measure.leftovers import MAX_COMBINED, Leftovers
from audit.deid.sets.tagged_sets import TaggedSet
from audit.words import Words
from pages.ui import cached
from pages.ui.access import is_revealed, log_action, may, name_form
from pages.ui.form import draw_button
from pages.ui.note_text import note_plain
from pages.ui.section import (
    Table,
    draw_absence,
    draw_csv_button,
    draw_heading,
    draw_remark,
    draw_table,
)


def draw_leftovers(
    say: Words,
    tagged: TaggedSet,
    *,
    look: Callable[[], None],
    show: Callable[[int], None],
    is_at_work: bool,
) -> None:
    """Draw who is singled out by the leftovers; a click calls `show` with a note's number from 0.

    `look` starts a new search, offered if there is none or if corrections are newer.
    """
    draw_heading(say, "deidentify_left")
    leftovers = cached.leftovers(tagged)
    is_older = leftovers is None or leftovers.corrections != cached.corrections_state(tagged)
    if is_older and not is_at_work:
        if leftovers is None:
            draw_absence(say, "deidentify_left_none")
        else:
            draw_remark(say, "deidentify_left_older")
        if may("ran") and draw_button(say, "deidentify_left_look", icon="search"):
            look()
    if leftovers is None:
        return
    counts = {
        name: f"{getattr(leftovers, f'n_{name}'):,}"
        for name in ("singled", "patients", "below", "with")
    }
    draw_remark(
        say, "deidentify_left_found", k=leftovers.k, notes=f"{leftovers.n_notes:,}", **counts
    )
    if leftovers.n_capped:
        draw_remark(say, "deidentify_left_capped", n=f"{leftovers.n_capped:,}", most=MAX_COMBINED)
    if leftovers.kinds:
        rows = [
            (say.text(f"deidentify_left_kind_{kind}"), n) for kind, n in leftovers.kinds.items()
        ]
        with st.expander(say.text("deidentify_left_kinds"), key="deidentify_left_kinds"):
            draw_table(
                say, "deidentify_left_kinds", Table(("kind", "n_notes"), rows), k=leftovers.k
            )
    if leftovers.singles:
        log_action("revealed", is_once=True, what="leftovers", run=tagged.tagged_id)
        _draw_singles(say, tagged, leftovers, show=show)


def _draw_singles(
    say: Words, tagged: TaggedSet, leftovers: Leftovers, *, show: Callable[[int], None]
) -> None:
    header = [
        say.text(f"deidentify_left_{name}") for name in ("attributes", "of_kind", "size", "rows")
    ]
    names, is_shown = cached.list_finder(None), is_revealed()
    rows = [
        (
            " + ".join(
                note_plain(attribute, names=names, is_shown=is_shown)
                for _, attribute in single.attributes
            ),
            " + ".join(say.text(f"deidentify_left_kind_{kind}") for kind, _ in single.attributes),
            len(single.attributes),
            ", ".join(map(str, single.rows)),
        )
        for single in leftovers.singles
    ]
    key = f"deidentify_left_{tagged.tagged_id}"

    def open_single() -> None:
        for row in st.session_state[key]["selection"]["rows"]:
            show(leftovers.singles[row].notes[0])

    st.dataframe(
        dict(zip(header, zip(*rows, strict=True), strict=True)),
        hide_index=True,
        key=key,
        on_select=open_single,
        selection_mode="single-row",
        alt=say.text("deidentify_left_alt"),
    )
    n_unique = sum(leftovers.n_unique.values())
    draw_remark(say, "deidentify_left_caption", n=f"{len(rows):,}", all=f"{n_unique:,}")
    draw_csv_button(
        say,
        "deidentify_left",
        header,
        rows,
        file_kind="leftovers",
        names=name_form(),
        n_rows=len(rows),
    )
