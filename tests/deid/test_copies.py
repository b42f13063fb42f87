"""Copies of notes: spans brought back from windows, sums by hand, files of outputs scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit.deid.find.copies import (
    CopiesSummary,
    CopyingTagger,
    Piece,
    align_outputs,
    read_copies,
    read_pieces,
)
from audit.deid.find.rules import RuleTagger
from audit.errors import AuditError
from audit.notes.formats import MALFORMED, PairedFiles, write_tags
from audit.notes.spans import Span, TaggedDocument
from audit.shelf import json_line
from audit.stats import Rate
from tests.deid.generation.tiny_model import documents, line_of, write_gold

NOTE = TaggedDocument("d", "森健一様 52歳", patient_id="p")
NAME, AGE = Span(0, 3, "identifier"), Span(5, 8, "quasi_identifier")


NO_TAGS = dict.fromkeys(("n_tags", *MALFORMED), 0)


def read(output: str, note: TaggedDocument = NOTE, **more: Any):  # type: ignore[no-untyped-def]
    return read_pieces(note, [Piece(start=0, end=len(note.text), output=output)], **more)


@pytest.mark.parametrize(
    ("output", "status", "spans", "tags", "unaligned"),
    [
        (
            "<識別子>森健一</識別子>様 <準識別子>52歳</準識別子>",
            "exact",
            (NAME, AGE),
            (NAME, AGE),
            (),
        ),
        ("<識別子>森健一</識別子>さま 52歳", "edited", (NAME,), (NAME,), ()),
        ("森健一様 52歳 <識別子>高橋</識別子>", "edited", (), (), ("identifier",)),
        (
            "<識別子><準識別子>森</準識別子>健一</識別子>様 52歳",
            "exact",
            (Span(0, 1, "quasi_identifier"), NAME),
            (NAME,),
            (),
        ),
        ("<識別子>森健一</識別子>様\n５２歳", "normalised", (NAME,), (NAME,), ()),
        (
            "森健一様 <準識別子>52</準識別子>",
            "truncated",
            (Span(5, 7, AGE.label),),
            (Span(5, 7, AGE.label),),
            (),
        ),
        # A lost first character goes with its kind; one that stands outside does not.
        ("<識別子>健一</識別子>様 52歳", "edited", (NAME,), (NAME,), ()),
        ("森健一様<準識別子>52歳</準識別子>", "edited", (AGE,), (AGE,), ()),
        # Tags however they are written; one that is left open ends with its line.
        (
            "＜ Identifier ＞森健一＜／identifier＞様 <quasi identifier>52歳</quasi-identifier>",
            "exact",
            (NAME, AGE),
            (NAME, AGE),
            (),
        ),
        ("<識別子>森健一\n様 <準識別子>52歳</準識別子>", "edited", (NAME, AGE), (NAME, AGE), ()),
        (" ", "empty", (), (), ()),
    ],
)
def test_spans_come_back_to_the_note(
    output: str, status: str, spans: Any, tags: Any, unaligned: Any
) -> None:
    reading = read(output)
    assert (reading.status, reading.document.spans, reading.tags) == (status, spans, tags)
    assert reading.document.unaligned == unaligned
    assert (reading.document.doc_id, reading.document.patient_id) == ("d", "p")


def test_what_is_kept_of_a_copy_and_windows_are_put_together() -> None:
    edits = dict.fromkeys(("n_inserted", "n_deleted", "n_substituted"), 0)
    pieces = [Piece(0, 5, "<識別子>森健一</識別子>様 "), Piece(3, 8, "様 <準識別子>52歳")]
    reading = read_pieces(NOTE, pieces)
    assert reading.tags == reading.document.spans == (NAME, AGE)
    assert reading.line() == {
        "doc_id": "d",
        "status": "exact",
        "edits": edits | {"n_source_chars": 10},
        "unaligned": [],
        "tags": NO_TAGS | {"n_tags": 2, "n_unclosed": 1, "n_malformed": 1},
        "uncopied": [],
    }
    worst = read_pieces(NOTE, [pieces[0], Piece(3, 8, "森")])
    assert (worst.status, worst.tags) == ("truncated", (NAME,))
    assert worst.edits == edits | {"n_deleted": 4, "n_substituted": 1, "n_source_chars": 10}
    assert [read_pieces(TaggedDocument("d", text), []).status for text in (" ", "a")] == [
        "exact",
        "empty",
    ]
    lone_note = TaggedDocument("d", "森")
    assert read("<WARD>森</WARD>", lone_note, labels=("WARD",)).tags == (Span(0, 1, "WARD"),)
    assert read("<WARD>森</WARD>", lone_note).tags == ()
    assert not isinstance(RuleTagger(), CopyingTagger)


def summary(folder: Path, lines: list[dict[str, Any]]) -> CopiesSummary:
    (folder / "copies.jsonl").write_bytes(b"".join(map(json_line, lines)))
    return read_copies(folder).summary()


def test_sums_by_hand(tmp_path: Path) -> None:
    outputs = (
        "森健一様 52歳",  # exact
        "森健一様  52歳",  # one more space
        "<識別子>森健二</識別子>様 52歳",  # one of eight characters, inside a tag
        "<識別子>森健一様 52歳</連絡先情報></識別子>",  # a crossing
        "森",  # the end is missing
        "",
    )
    lines = [read(output).line() for output in outputs]
    # 0, 1, 1, 0, 7 and 8 of 8 characters
    assert summary(tmp_path, lines).plain() == {
        "n_notes": 6,
        "statuses": {"exact": 2, "normalised": 1, "edited": 1, "truncated": 1, "empty": 1},
        "pooled_error_rate": pytest.approx(17 / 48),
        "n_unaligned": 0,
        "n_malformed": 2,
        "n_uncopied_notes": 3,
        "n_uncopied_chars": 3 * 8,
        "tags": NO_TAGS | {"n_tags": 2, "n_crossing": 1, "n_stray": 1},
    }
    rates = summary(tmp_path, lines).malformed_tags
    assert rates["n_crossing"] == rates["n_stray"] == Rate(1, 3) and rates["n_empty"].n_hits == 0
    assert summary(tmp_path, []).pooled_error_rate is None


FAITHFUL = {note.doc_id: write_tags(note) for note in documents()}


def outputs_file(path: Path, outputs: dict[str, str]) -> Path:
    path.write_text("".join(line_of(doc_id=k, output=v) for k, v in outputs.items()), "utf-8")
    return path


def test_outputs_become_predictions_and_exact_copies_stand_alone(tmp_path: Path) -> None:
    note, other_note = documents()[:2]
    path = outputs_file(tmp_path / "o.jsonl", {"d0": FAITHFUL["d0"], "d1": "", "x": "y"})
    gold = write_gold(tmp_path / "gold.jsonl")
    assert align_outputs(gold, path, folder=tmp_path) == 1
    files, copies = PairedFiles(gold, tmp_path / "predicted.jsonl"), read_copies(tmp_path)
    assert next(iter(files)) == (note, note)
    assert (copies.exact, copies.sums["n_notes"]) == ({"d0"}, 2)
    verbatim = [(note, note), (other_note, other_note.with_spans(()))]
    assert list(copies.keep_verbatim([(note, note), (other_note, other_note)])) == verbatim
    with pytest.raises(AuditError, match="copies cannot be read"):
        read_copies(tmp_path / "none")
    gold = tmp_path / "g.jsonl"
    gold.write_text(
        line_of(doc_id="b", text="西6", spans=[{"start": 0, "end": 2, "label": "WARD"}])
    )
    align_outputs(gold, outputs_file(path, {"b": "<WARD>西6</WARD>"}), folder=tmp_path)
    ((_, predicted),) = PairedFiles(gold, tmp_path / "predicted.jsonl")
    assert predicted.spans == (Span(0, 2, "WARD"),), "labels of the gold are tags"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[]\n", "line 1: cannot be taken"),
        (line_of(doc_id="", output="x"), "doc_id"),
        (line_of(doc_id="d0", output="x") * 2, "twice"),
        (line_of(doc_id="zz", output="x"), "no note in common"),
    ],
    ids=range(4),
)
def test_what_is_no_file_of_outputs_is_said(tmp_path: Path, text: str, match: str) -> None:
    path = tmp_path / "o.jsonl"
    path.write_text(text, "utf-8")
    gold = write_gold(tmp_path / "gold.jsonl")
    with pytest.raises(AuditError, match=match):
        align_outputs(gold, path, folder=tmp_path)
