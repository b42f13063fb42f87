"""Corrections by hand: which spans are added or taken away, by hand and against a second source."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.tagged import (
    ADDED,
    MAX_SPANS,
    REMOVED,
    Correction,
    corrected,
    mark_between,
    missing_marks,
    same_marks,
)
from audit.errors import AuditError
from audit.notes.spans import Span, TaggedDocument, tagged

TEXT = "高橋健一は高橋病院へ。Ann saw Annual Ann; 高橋"
LABEL = "identifier"


def note(*spans: Span, text: str = TEXT) -> TaggedDocument:
    return tagged("1", text=text, spans=spans)


def fix(kind: str, *spans: Span, number: int = 0) -> Correction:
    return Correction(number=number, kind=kind, spans=spans, who="ann")


def test_every_place_of_a_text_is_marked_but_those_that_are_marked_already() -> None:
    whole = note(Span(0, 4, LABEL))
    found = missing_marks(whole, text=" 高橋 ", label="quasi_identifier", is_everywhere=True)
    assert [(one.start, one.end) for one in found] == [(5, 7), (31, 33)]
    assert {one.label for one in found} == {"quasi_identifier"}
    first = missing_marks(whole, text="高橋", label=LABEL, is_everywhere=False)
    assert first == (Span(5, 7, LABEL),)
    words = missing_marks(whole, text="Ann", label=LABEL, is_everywhere=True)
    assert [TEXT[one.start :][:4] for one in words] == ["Ann ", "Ann;"]


def test_two_marks_that_touch_cover_a_text_and_one_that_stops_short_does_not() -> None:
    both = note(Span(0, 2, LABEL), Span(2, 4, LABEL))
    with pytest.raises(AuditError, match="marked already"):
        missing_marks(both, text="高橋健一", label=LABEL, is_everywhere=True)
    short = note(Span(0, 2, LABEL), Span(3, 4, LABEL))
    assert missing_marks(short, text="高橋健一", label=LABEL, is_everywhere=True) == (
        Span(0, 4, LABEL),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [("", "No text"), ("  ", "No text"), ("佐藤", "does not stand"), ("nnua", "does not stand")],
)
def test_a_text_that_is_not_there_is_refused(text: str, why: str) -> None:
    with pytest.raises(AuditError, match=why):
        missing_marks(note(), text=text, label=LABEL, is_everywhere=True)


def test_a_text_that_is_everywhere_is_no_name() -> None:
    many = note(text="あ" * (MAX_SPANS + 1))
    with pytest.raises(AuditError, match=r"more than 1,000 times"):
        missing_marks(many, text="あ", label=LABEL, is_everywhere=True)
    assert missing_marks(many, text="あ", label=LABEL, is_everywhere=False) == (Span(0, 1, LABEL),)
    with pytest.raises(ValueError, match="type"):
        missing_marks(many, text="あ", label="PERSON", is_everywhere=False)


@given(st.text("ab é高", max_size=30), st.text("abé高", min_size=1, max_size=3))
def test_places_are_those_of_a_regular_expression(text: str, wanted: str) -> None:
    before = "(?<![abé])" if wanted[0] != "高" else ""
    behind = "(?![abé])" if wanted[-1] != "高" else ""
    places = [m.start() for m in re.finditer(before + re.escape(wanted) + behind, text)]
    if not places:
        with pytest.raises(AuditError):
            missing_marks(note(text=text), text=wanted, label=LABEL, is_everywhere=True)
        return
    found = missing_marks(note(text=text), text=wanted, label=LABEL, is_everywhere=True)
    assert [one.start for one in found] == places


def test_offsets_mark_what_a_text_cannot_say() -> None:
    assert mark_between(note(), start=16, end=22, label=LABEL) == (Span(16, 22, LABEL),)
    for start, end in ((3, 3), (5, 4), (0, len(TEXT) + 1), (-1, 2)):
        with pytest.raises(AuditError, match="characters 0 to 33"):
            mark_between(note(), start=start, end=end, label=LABEL)
    with pytest.raises(AuditError, match="marked already"):
        mark_between(note(Span(0, 4, "contact")), start=1, end=3, label=LABEL)


def test_corrections_are_applied_in_their_order_and_lose_nothing_else() -> None:
    wrong, right = Span(4, 5, LABEL), Span(0, 4, LABEL)
    whole = TaggedDocument("1", TEXT, (wrong,), "p", 2, ("contact",))
    done = corrected(whole, [fix(REMOVED, wrong), fix(ADDED, right), fix(ADDED, wrong)])
    assert done.spans == (right, wrong)
    assert (done.doc_id, done.patient_id, done.unaligned) == ("1", "p", ("contact",))
    assert corrected(whole, []) == whole
    with pytest.raises(AuditError, match="does not fit"):
        corrected(whole, [fix(ADDED, Span(0, 99, LABEL), Span(2, 3, LABEL))])


def test_the_same_mark_elsewhere_has_the_same_text_and_label() -> None:
    one, two, other = Span(0, 2, LABEL), Span(5, 7, LABEL), Span(31, 33, "contact")
    assert same_marks(note(one, two, other), one) == (one, two)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: fix("changed", Span(0, 1, LABEL)),
        lambda: fix(ADDED, *(Span(i, i + 1, LABEL) for i in range(MAX_SPANS + 1))),
        lambda: fix(ADDED, Span(0, 1, LABEL), number=-1),
    ],
)
def test_an_impossible_correction_is_refused(wrong: object) -> None:
    with pytest.raises(AuditError):
        wrong()  # type: ignore[operator]
