"""Copies of a note: spans brought back from windows, and what is summed, counted by hand."""

from __future__ import annotations

import pytest

from audit.deid.copies import CopyingTagger, Piece, added, copies_summary, numbers_of, read_pieces
from audit.deid.rules import RuleTagger
from audit.notes.spans import Span, TaggedDocument, tagged

NOTE = TaggedDocument("d", "森健一様 52歳", patient_id="p")


def read(output: str, note: TaggedDocument = NOTE):  # type: ignore[no-untyped-def]
    return read_pieces(note, [Piece(start=0, end=len(note.text), output=output)])


def test_an_exact_copy() -> None:
    reading = read("<識別子>森健一</識別子>様 <準識別子>52歳</準識別子>")
    spans = (Span(0, 3, "identifier"), Span(5, 8, "quasi_identifier"))
    assert reading.status == "exact"
    assert reading.document.spans == reading.tags == spans
    assert reading.document.patient_id == "p"
    assert reading.line() == {
        "doc_id": "d", "status": "exact", "n_windows": 1, "error_rate": 0.0,
        "edits": {"n_inserted": 0, "n_deleted": 0, "n_substituted": 0, "n_inside": 0,
                  "n_source_chars": 8},
        "tags": {"n_tags": 2, "n_unclosed": 0, "n_stray": 0, "n_crossing": 0, "n_nested": 0,
                 "n_unknown": 0, "n_empty": 0, "n_malformed": 0},
        "unaligned": [],
    }  # fmt: skip


def test_a_copy_that_is_not_exact() -> None:
    reading = read("<識別子>森健一</識別子>さま 52歳")
    assert reading.status == "edited"
    assert reading.document.spans == (Span(0, 3, "identifier"),)


def test_what_is_not_in_the_note_is_spurious() -> None:
    reading = read("森健一様 52歳 <識別子>高橋</識別子>")
    assert reading.document.spans == ()
    assert reading.document.unaligned == ("identifier",)
    assert reading.line()["unaligned"] == ["identifier"]


def test_nested_tags_stay_in_the_score_and_not_in_the_tags() -> None:
    reading = read("<識別子><準識別子>森</準識別子>健一</識別子>様 52歳")
    assert reading.document.spans == (Span(0, 1, "quasi_identifier"), Span(0, 3, "identifier"))
    assert reading.tags == (Span(0, 3, "identifier"),)
    assert reading.census.n_nested == 1


def test_windows_are_put_together() -> None:
    text = "森健一様 52歳"
    pieces = [
        Piece(start=0, end=5, output="<識別子>森健一</識別子>様 "),
        Piece(start=3, end=8, output="様 <準識別子>52歳"),
    ]
    reading = read_pieces(TaggedDocument("d", text), pieces)
    assert reading.tags == (Span(0, 3, "identifier"), Span(5, 8, "quasi_identifier"))
    assert reading.document.spans == reading.tags
    assert (reading.status, reading.census.n_unclosed, reading.edits["n_source_chars"]) == (
        "exact", 1, 10,
    )  # fmt: skip
    worst = read_pieces(TaggedDocument("d", text), [pieces[0], Piece(start=3, end=8, output="")])
    assert worst.status == "empty"
    outputs = worst.line(with_outputs=True)["outputs"]
    assert outputs[1] == {"start": 3, "end": 8, "output": ""}
    with pytest.raises(ValueError, match="behind the note"):
        read_pieces(TaggedDocument("d", text), [Piece(start=3, end=9, output="")])


def test_sums_by_hand() -> None:
    sums: dict[str, float] = {}
    for output in (
        "森健一様 52歳",  # exact
        "森健一様  52歳",  # one more space
        "森健二様 52歳",  # one of eight characters
        "<識別子>森健一様 52歳</連絡先情報></識別子>",  # a crossing
        "森",  # the end is missing
        "",
    ):
        sums = added(sums, numbers_of(read(output).line()))
    told = copies_summary(sums)
    assert told["statuses"] == {
        "exact": 2, "normalised": 1, "edited": 1, "truncated": 1, "empty": 1,
    }  # fmt: skip
    assert (told["faithful"]["n"], told["faithful"]["of"]) == (2, 6)
    assert told["faithful"]["interval"][0] < 2 / 6 < told["faithful"]["interval"][1]
    assert told["truncated"]["share"] == pytest.approx(1 / 6)
    assert (told["malformed"]["n"], told["n_malformed"]) == (1, told["tags"]["n_crossing"] + told[
        "tags"]["n_stray"])  # fmt: skip
    # 0, 1, 1, 0, 7 and 8 of 8 characters
    assert told["n_edits"] == 17
    assert told["pooled_error_rate"] == pytest.approx(17 / 48)
    sums = added(sums, numbers_of(read("x", TaggedDocument("e", "y")).line()))
    told = copies_summary(sums)
    assert told["pooled_error_rate"] == pytest.approx(18 / 49)
    assert told["error_rate"] == pytest.approx((17 / 8 + 1) / 7)


def test_nothing_read_is_undefined() -> None:
    told = copies_summary({})
    assert told["faithful"] == {"share": None, "n": 0, "of": 0, "interval": None}
    assert told["error_rate"] is told["pooled_error_rate"] is None


def test_labels_of_ones_own() -> None:
    note = tagged("d", text="森", spans=())
    own = read_pieces(note, [Piece(start=0, end=1, output="<WARD>森</WARD>")], labels=("WARD",))
    assert own.tags == (Span(0, 1, "WARD"),)
    assert read_pieces(note, [Piece(start=0, end=1, output="<WARD>森</WARD>")]).tags == ()


def test_rules_write_no_copies() -> None:
    assert not isinstance(RuleTagger(), CopyingTagger)
