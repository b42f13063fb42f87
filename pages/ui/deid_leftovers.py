"""What stays readable in a kept set, as risk: whom it singles out, and the way to those notes."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from audit.deid.leftovers import MAX_COMBINED, Leftovers
from audit.deid.tagged_sets import TaggedSet
from pages.ui import cached
from pages.ui.access import is_revealed, may, names_in_files, note
from pages.ui.form import act
from pages.ui.note_text import note_plain
from pages.ui.section import Table, csv_button, draw_table, empty, head, remark
from pages.ui.state import Words


def draw_leftovers(
    say: Words,
    tagged: TaggedSet,
    *,
    look: Callable[[], None],
    show: Callable[[int], None],
    is_at_work: bool,
) -> None:
    """Draw whom the leftovers single out; a click on one lets `show` a note, by number from 0.

    `look` asks for them anew, where they were not looked for or corrections by hand came since.
    """
    head(say, "deidentify_left")
    found = cached.leftovers(tagged)
    is_older = found is None or found.corrections != cached.corrections_state(tagged)
    if is_older and not is_at_work:
        if found is None:
            empty(say, "deidentify_left_none")
        else:
            remark(say, "deidentify_left_older")
        if may("ran") and act(say, "deidentify_left_look", icon="search"):
            look()
    if found is None:
        return
    counts = {
        name: f"{getattr(found, f'n_{name}'):,}"
        for name in ("singled", "patients", "below", "with")
    }
    remark(say, "deidentify_left_found", k=found.k, notes=f"{found.n_notes:,}", **counts)
    if found.n_capped:
        remark(say, "deidentify_left_capped", n=f"{found.n_capped:,}", most=MAX_COMBINED)
    if found.kinds:
        rows = [(say.text(f"deidentify_left_kind_{kind}"), n) for kind, n in found.kinds.items()]
        with st.expander(say.text("deidentify_left_kinds"), key="deidentify_left_kinds"):
            draw_table(say, "deidentify_left_kinds", Table(("kind", "n_notes"), rows), k=found.k)
    if found.singles:
        note("revealed", is_once=True, what="leftovers", run=tagged.tagged_id)
        _draw_singles(say, tagged, found, show=show)


def _draw_singles(
    say: Words, tagged: TaggedSet, found: Leftovers, *, show: Callable[[int], None]
) -> None:
    header = [
        say.text(f"deidentify_left_{name}") for name in ("attributes", "of_kind", "size", "rows")
    ]
    names, is_shown = cached.list_finder(None), is_revealed()
    rows = [
        (
            " + ".join(
                note_plain(value, names=names, is_shown=is_shown) for _, value in one.attributes
            ),
            " + ".join(say.text(f"deidentify_left_kind_{kind}") for kind, _ in one.attributes),
            len(one.attributes),
            ", ".join(map(str, one.rows)),
        )
        for one in found.singles
    ]
    key = f"deidentify_left_{tagged.tagged_id}"

    def chosen() -> None:
        for row in st.session_state[key]["selection"]["rows"]:
            show(found.singles[row].notes[0])

    st.dataframe(
        dict(zip(header, zip(*rows, strict=True), strict=True)),
        hide_index=True,
        key=key,
        on_select=chosen,
        selection_mode="single-row",
        alt=say.text("deidentify_left_alt"),
    )
    n_unique = sum(found.n_unique.values())
    remark(say, "deidentify_left_caption", n=f"{len(rows):,}", all=f"{n_unique:,}")
    csv_button(
        say,
        "deidentify_left",
        header,
        rows,
        what="leftovers",
        names=names_in_files(),
        n_rows=len(rows),
    )
