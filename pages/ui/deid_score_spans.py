"""Spans of a score in context: gold beside prediction, hidden until names are revealed."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from audit.deid.cases import SpanCase, misses_csv
from audit.deid.matching import MISSED, SPURIOUS
from pages.ui import blocks, linked
from pages.ui.deid_score_words import label_name
from pages.ui.language import Words
from pages.ui.logged import logged_export, note
from pages.ui.reveal import is_revealed
from pages.ui.text import escaped

PER_PAGE = 50
KIND_CODES = {"missed": "missed", "spurious": "spurious", "other label": "other_label",
              "other place": "other_place", "same": "same"}  # fmt: skip
_NOTED = "deid_measures_seen_texts"


def draw_cases(say: Words, cases: Sequence[SpanCase], *, key: str, score_id: str) -> None:
    """Draw a page of cases with a pager, and the download of all of them."""
    n = len(cases)
    if not n:
        st.html(blocks.heading("", below=say.text("deid_measures_no_spans")))
        return
    n_pages = -(-n // PER_PAGE)
    at = min(max(1, linked.turned_to(key)), n_pages)
    start = (at - 1) * PER_PAGE
    shown = cases[start : start + PER_PAGE]
    place = say.text(
        "deid_measures_shown", first=f"{start + 1:,}", last=f"{start + len(shown):,}", n=f"{n:,}"
    )
    hint = "" if is_revealed() else say.text("deid_measures_hidden_hint")
    st.html(blocks.heading("", below=f"{place} {hint}"))
    if is_revealed():
        _note_seen(score_id)
    st.html("".join(case_html(say, case, is_open=is_revealed()) for case in shown))
    linked.pager(key, n_pages=n_pages, at=at)
    draw_download(say, cases, key=key)


def draw_download(say: Words, cases: Sequence[SpanCase], *, key: str) -> None:
    """Draw the button that hands out all differences among the cases as CSV."""
    names, is_open = ("full", True) if is_revealed() else ("masked", False)
    st.download_button(
        say.text(f"deid_measures_csv_{names}"),
        data=logged_export(
            lambda: cases_csv(cases, is_open=is_open), what="misses", format="csv",
            names=names, n_spans=len(cases),
        ),
        file_name="misses.csv",
        mime="text/csv",
        icon=":material/download:",
        key=f"{key}_csv",
        on_click="ignore",
    )  # fmt: skip


def cases_csv(cases: Sequence[SpanCase], *, is_open: bool) -> bytes:
    """Return cases as CSV, with a byte order mark; without consent no text and no name of a note.

    Pairs that are the same on both sides are no misses, and are left out.
    """
    shown = cases if is_open else map(_closed, cases)
    return ("\ufeff" + misses_csv(shown)).encode("utf-8", "surrogatepass")


def case_html(say: Words, case: SpanCase, *, is_open: bool) -> str:
    """Return one case as HTML; its text only with consent."""
    head = " · ".join(
        (
            say.text(f"deid_measures_kind_{KIND_CODES[case.kind]}"),
            f"{label_name(say, case.row)} → {label_name(say, case.column)}",
            say.text("deid_measures_note", n=f"{case.note + 1:,}"),
            *((case.doc_id,) if is_open else ()),
        )
    )
    sides = (("gold", case.gold, case.row), ("predicted", case.predicted, case.column))
    columns = "".join(
        f"<div><h3>{escaped(say.text(f'deid_measures_side_{side}'))}</h3>"
        f"{_side(say, case, span, label=label, is_open=is_open)}</div>"
        for side, span, label in sides
    )
    found = " ka-found" if case.kind == MISSED else ""
    return f'<div class="ka-pair{found}"><p>{escaped(head)}</p><div>{columns}</div></div>'


def _side(
    say: Words, case: SpanCase, span: tuple[int, int] | None, *, label: str, is_open: bool
) -> str:
    if span is None:
        reason = "nowhere" if label not in (MISSED, SPURIOUS) else "nothing"
        why = escaped(say.text(f"deid_measures_why_{reason}"))
        before = case.pieces(None)[0] if is_open else ""
        return f'<p class="ka-document">{escaped(before)}</p><p class="ka-below">{why}</p>'
    if not is_open:
        hidden = say.text("deid_measures_hidden", n=span[1] - span[0])
        return f'<p class="ka-document">{escaped(hidden)}</p>'
    before, inside, after = case.pieces(span)
    tone = "patient" if case.kind == MISSED else "other"
    return (
        f'<p class="ka-document">{escaped(before)}<mark class="ka-mark ka-mark-{tone}">'
        f"{escaped(inside)}<small>{escaped(label_name(say, label))}</small></mark>"
        f"{escaped(after)}</p>"
    )


def _closed(case: SpanCase) -> SpanCase:
    return SpanCase(
        case.note, f"note {case.note + 1}", None, case.kind, case.row, case.column, case.gold,
        case.predicted, case.start, "",
    )  # fmt: skip


def _note_seen(score_id: str) -> None:
    """Write into the log, once for a score, that texts of it were shown."""
    seen: set[str] = st.session_state.setdefault(_NOTED, set())
    if score_id not in seen:
        seen.add(score_id)
        note("opened", page=f"deid_score:{score_id}", what="misses")
