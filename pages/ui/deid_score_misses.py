"""The list of misses of a score: by kind and label, page by page, with a download."""

from __future__ import annotations

import streamlit as st

from audit.deid.misses import KINDS
from audit.view.deid_score_view import ScoreView
from pages.ui import blocks, linked
from pages.ui.deid_score_cached import index
from pages.ui.deid_score_report import choose_criterion
from pages.ui.deid_score_spans import KIND_CODES, draw_cases
from pages.ui.deid_score_words import label_name
from pages.ui.language import Words

_PAGER = "deid_measures_misses"
_KINDS, _LABEL = "deid_measures_miss_kinds", "deid_measures_miss_label"
EVERY = "every"


def draw(say: Words, view: ScoreView) -> None:
    """Draw the filters, the list and its download."""
    st.html(
        blocks.heading(
            say.text("deid_measures_misses"), below=say.text("deid_measures_misses_below")
        )
    )
    criterion = choose_criterion(say)
    left, right = st.columns([3, 2], gap="large", vertical_alignment="bottom")
    with left:
        kinds = _ask_kinds(say)
    with right:
        label = _ask_label(say, view)
    spans = index(view.kept.score_id)
    numbers = spans.chosen(criterion=criterion, kinds=kinds)
    if label:
        numbers = spans.of_label(label, among=numbers)
    draw_cases(say, spans, numbers, key=_PAGER, score_id=view.kept.score_id)


def _ask_kinds(say: Words) -> tuple[str, ...]:
    """Draw the choice of kinds; none chosen is all of them."""
    by_code = {KIND_CODES[kind]: kind for kind in KINDS}
    if _KINDS not in st.session_state:
        asked = st.query_params.get("kinds", "").split(".")
        st.session_state[_KINDS] = [code for code in asked if code in by_code]
    codes = st.pills(
        say.text("deid_measures_kinds"),
        list(by_code),
        selection_mode="multi",
        format_func=lambda code: say.text(f"deid_measures_kind_{code}"),
        key=_KINDS,
        on_change=_first_page,
    )
    if codes:
        st.query_params["kinds"] = ".".join(codes)
    else:
        st.query_params.pop("kinds", None)
    return tuple(by_code[code] for code in codes or by_code)


def _ask_label(say: Words, view: ScoreView) -> str:
    """Draw the choice of a label; "" is all of them. The link holds its number."""
    codes = (EVERY, *(str(place) for place in range(len(view.labels))))
    if st.session_state.get(_LABEL) not in codes:
        asked = st.query_params.get("label", "")
        st.session_state[_LABEL] = asked if asked in codes else EVERY

    def shown(code: str) -> str:
        if code == EVERY:
            return say.text("deid_measures_every_label")
        return label_name(say, view.labels[int(code)])

    code = st.selectbox(
        say.text("deid_measures_label"), codes, format_func=shown, key=_LABEL, on_change=_first_page
    )
    if code == EVERY:
        st.query_params.pop("label", None)
        return ""
    st.query_params["label"] = str(code)
    return view.labels[int(str(code))]


def _first_page() -> None:
    linked.turn_to(_PAGER, number=1)
