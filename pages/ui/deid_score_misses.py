"""The list of misses of a score: by kind and label, page by page, with a download."""

from __future__ import annotations

import streamlit as st

from audit.deid.cases import MISSES, readable_of
from audit.deid.score import Score
from pages.ui import blocks, linked
from pages.ui.cached import cases
from pages.ui.deid_score_spans import KIND_CODES, draw_cases
from pages.ui.deid_score_words import label_name
from pages.ui.language import Words

_PAGER = "deid_measures_misses"
_KINDS, _LABEL = "deid_measures_miss_kinds", "deid_measures_miss_label"
_READABLE = "deid_measures_miss_readable"
EVERY = "every"


def draw(say: Words, view: Score) -> None:
    """Draw the filters, the list and its download."""
    st.html(
        blocks.heading(
            say.text("deid_measures_misses"), below=say.text("deid_measures_misses_below")
        )
    )
    is_readable = _ask_readable(say)
    left, right = st.columns([3, 2], gap="large", vertical_alignment="bottom")
    with left:
        kinds = () if is_readable else _ask_kinds(say)
    with right:
        label = _ask_label(say, view)
    every = cases(view.score_id)
    if is_readable:
        shown = [case for case in readable_of(every) if label in ("", case.row)]
    else:
        shown = [
            case for case in every
            if case.kind in kinds and label in ("", case.row, case.column)
        ]  # fmt: skip
    draw_cases(say, shown, key=_PAGER, score_id=view.score_id)


def show_readable(view: Score) -> None:
    """Turn the page to what stays readable of the headline's type."""
    label = view.headline.label
    code = str(view.labels.index(label)) if label in view.labels else EVERY
    st.session_state.update({"measures_part": "misses", _READABLE: True, _LABEL: code})
    st.query_params["part"] = "misses"
    _first_page()


def _ask_readable(say: Words) -> bool:
    """Draw the choice of what stays readable alone."""
    if _READABLE not in st.session_state:
        st.session_state[_READABLE] = st.query_params.get("readable") == "1"
    is_on = st.toggle(say.text("deid_measures_readable_only"), key=_READABLE, on_change=_first_page)
    if is_on:
        st.query_params["readable"] = "1"
    else:
        st.query_params.pop("readable", None)
    return is_on


def _ask_kinds(say: Words) -> tuple[str, ...]:
    """Draw the choice of kinds; none chosen is all of them."""
    by_code = {KIND_CODES[kind]: kind for kind in MISSES}
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


def _ask_label(say: Words, view: Score) -> str:
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
