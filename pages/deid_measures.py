"""De-identification measures: what does the de-identifier miss?"""

from __future__ import annotations

import streamlit as st

from audit.deid.score import SCORES, Score
from pages.ui import (
    blocks,
    cached,
    deid_score_compare,
    deid_score_matrix,
    deid_score_misses,
    deid_score_published,
    deid_score_report,
)
from pages.ui.deid_leakage import draw_leakage
from pages.ui.deid_score_ask import draw_ask
from pages.ui.deid_score_job import JOBS, show_score
from pages.ui.deid_score_names import score_name
from pages.ui.language import Words, words
from pages.ui.logged import note
from pages.ui.measure_choice import choose

VIEWS = ("kept", "new")
PARTS = ("spans", "records", "matrix", "misses", "compare")
"""Codes of what is shown of a score, as they stand in `?part=`."""
_KEPT = "deid_measures_kept"


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("deid_measures_title"), anchor=False)
    st.html(blocks.heading("", below=say.text("deid_measures_below")))
    try:
        is_measuring = JOBS.draw(say)
        kept = cached.scores()
        if is_measuring:
            st.html(blocks.heading("", below=say.text("deid_measures_measuring")))
        elif not kept:
            below = say.text("deid_measures_empty_do")
            st.html(blocks.heading(say.text("deid_measures_empty"), below=below))
            draw_ask(say)
        elif choose_view(say) == "new":
            draw_ask(say)
        else:
            draw_kept(say, kept)
        deid_score_published.draw(say)
        draw_leakage(say)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def choose_view(say: Words) -> str:
    """Draw the choice between the kept scores and a new one, and return its code."""
    asked = st.query_params.get("view", "")
    if not asked and st.query_params.get("tagged") and not st.query_params.get("score"):
        asked = "new"
    st.session_state["deid_measures_view"] = asked if asked in VIEWS else VIEWS[0]
    found = st.segmented_control(
        say.text("deid_measures_view"),
        VIEWS,
        format_func=lambda code: say.text(f"deid_measures_view_{code}"),
        key="deid_measures_view",
        label_visibility="collapsed",
        on_change=_view_to_link,
        required=True,
    )
    return str(found or VIEWS[0])


def draw_kept(say: Words, kept: tuple[Score, ...]) -> None:
    """Draw the choice of a score, and what it says."""
    by_id = {one.score_id: one for one in kept}
    asked = st.query_params.get("score", "")
    if asked and asked not in by_id:
        below = say.text("deid_measures_wrong_link_do")
        st.html(blocks.heading(say.text("deid_measures_wrong_link"), below=below))
        asked = ""
    st.session_state[_KEPT] = asked or next(iter(by_id))
    # A box of choices shows its options as plain text, never as Markdown.
    code = st.selectbox(
        say.text("deid_measures_kept"),
        list(by_id),
        format_func=lambda score_id: score_name(say, by_id[score_id]),
        key=_KEPT,
        on_change=_score_to_link,
    )
    score_id = str(code or next(iter(by_id)))
    st.query_params["score"] = score_id
    view = SCORES.get(score_id)
    deid_score_report.draw_headline(say, view, show=deid_score_misses.show_readable)
    part = choose(
        "part",
        PARTS,
        label=say.text("deid_measures_part"),
        shown=lambda code: say.text(f"deid_measures_part_{code}"),
    )
    if part == "spans":
        deid_score_report.draw_spans(say, view)
    elif part == "records":
        deid_score_report.draw_records(say, view)
    elif part == "matrix":
        deid_score_matrix.draw(say, view)
    elif part == "misses":
        deid_score_misses.draw(say, view)
    else:
        deid_score_compare.draw(say, view)
    draw_removal(say, by_id[score_id])


def draw_removal(say: Words, kept: Score) -> None:
    """Draw the button that removes a score, with a question before it does."""
    with st.popover(
        say.text("deid_measures_remove"), icon=":material/delete:", key="deid_measures_remove"
    ):
        st.html(blocks.heading("", below=say.text("deid_measures_remove_why")))
        if st.button(say.text("deid_measures_remove_now"), key="deid_measures_remove_now"):
            SCORES.forget(kept.score_id)
            note("removed", what="score", run=kept.score_id)
            st.query_params.pop("score", None)
            st.rerun()


def _view_to_link() -> None:
    chosen = st.session_state.get("deid_measures_view")
    if chosen:
        st.query_params["view"] = chosen


def _score_to_link() -> None:
    show_score(str(st.session_state[_KEPT]))


page()
