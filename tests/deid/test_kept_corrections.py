"""Corrections in a tagged set: kept, undone, and in the view, the counts and every file."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from pathlib import Path

import pytest

from audit.deid.release import Release
from audit.deid.rules import RuleTagger
from audit.deid.tagged import (
    ADDED,
    CORRECTIONS,
    REMOVED,
    UNDONE,
    Correction,
    TaggedSet,
    census_of,
    chosen_notes,
    corrected_census,
    corrections_of,
    corrections_stamp,
    exported,
    keep_correction,
    missing_marks,
    note_at,
    notes_of,
    read_index,
    released_note,
    tagged_text,
)
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from audit.notes.spans import Span
from tests.deid.test_kept_tagged import NOTES, made


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def add(one: TaggedSet, number: int, text: str, *, label: str = "quasi_identifier") -> None:
    note = note_at(one, number, index=read_index(one))
    spans = missing_marks(note.document, text=text, label=label, is_everywhere=True)
    keep_correction(one, Correction(number=number, kind=ADDED, spans=spans, who="ann"))


def take(one: TaggedSet, number: int, at: int = 0) -> Span:
    span = note_at(one, number, index=read_index(one)).document.spans[at]
    keep_correction(one, Correction(number=number, kind=REMOVED, spans=(span,), who="ben"))
    return span


def undo(one: TaggedSet, number: int) -> None:
    keep_correction(one, Correction(number=number, kind=UNDONE, who="cy"))


@pytest.mark.parametrize("mode", ["placeholder", "surrogate", "mask"])
def test_a_correction_is_in_the_view_the_files_and_not_in_the_taggers_own(
    tmp_path: Path, mode: str
) -> None:
    one = made(tmp_path, how=Release(mode=mode, seed=3))
    index, own = read_index(one), one.spans_path.read_bytes()
    add(one, 1, "特記")
    gone = take(one, 0)
    shown = note_at(one, 1, index=index)
    assert shown.document.spans == (Span(0, 2, "quasi_identifier"),)
    assert [one.kind for one in shown.corrections] == [ADDED]
    if mode != "surrogate":  # no name: it becomes a placeholder
        assert "特記" not in shown.released and shown.released.endswith("なし。")
    first = note_at(one, 0, index=index)
    assert NOTES[0][gone.start : gone.end] in first.released
    assert list(notes_of(one)) == [note_at(one, n, index=index) for n in range(3)]
    assert one.spans_path.read_bytes() == own
    assert note_at(one, 1, index=index, corrections={}).document.spans == ()
    with zipfile.ZipFile(
        io.BytesIO(exported(notes_of(one), form="brat", n_notes=3, language="ja"))
    ) as folder:
        assert b"quasi_identifier 0 2" in folder.read("d1.ann")
    lines = exported(notes_of(one), form="jsonl", n_notes=3, language="ja").splitlines()
    assert json.loads(lines[1])["text"] == shown.released


def test_the_census_counts_what_is_handed_out_and_keeps_what_the_tagger_found(
    tmp_path: Path,
) -> None:
    one = made(tmp_path)
    index = read_index(one)
    untouched = corrected_census(one, index=index, corrections=corrections_of(one))
    assert untouched == {**(one.census or {}), "n_notes_corrected": 0}
    add(one, 1, "特記")
    gone = take(one, 2)
    census = corrected_census(one, index=index, corrections=corrections_of(one))
    counted: dict[str, list[int]] = {}
    for note in notes_of(one):  # a second source: all notes, counted again
        for span in note.document.spans:
            counted.setdefault(span.label, []).append(span.n_chars)
    assert census["spans"] == {
        label: {"n": len(sizes), "n_characters": sum(sizes)} for label, sizes in counted.items()
    }
    assert census["n_notes_without_spans"] == 1 and gone.label == "identifier"
    assert census["n_replaced"] == sum(len(note.replacements) for note in notes_of(one))
    assert census["n_notes_corrected"] == 2
    assert census["corrections"] == {"n_removed": 1, "n_added": 1}
    assert census["tagger_alone"]["spans"] == (one.census or {})["spans"]
    assert "sha256" not in census and "sha256" in census["tagger_alone"]


def test_undo_takes_the_last_one_back_and_stays_on_record(tmp_path: Path) -> None:
    one = made(tmp_path)
    stamps = {corrections_stamp(one)}
    for text in ("特記", "なし"):
        add(one, 1, text)
        stamps.add(corrections_stamp(one))
    undo(one, 1)
    undo(one, 2)  # nothing to undo there
    (kept,) = corrections_of(one)[1]
    assert kept.spans == (Span(0, 2, "quasi_identifier"),) and kept.who == "ann"
    assert set(corrections_of(one)) == {1}
    undo(one, 1)
    assert corrections_of(one) == {}
    path = one.path / CORRECTIONS
    kinds = [json.loads(line)["kind"] for line in path.read_text("utf-8").splitlines()]
    assert kinds == ["added", "added", "undone", "undone", "undone"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and len(stamps) == 3
    assert "特記" not in path.read_text("utf-8")


def test_notes_are_chosen_by_what_is_marked_after_corrections(tmp_path: Path) -> None:
    one = made(tmp_path)
    index = read_index(one)
    add(one, 1, "特記")
    take(one, 2)
    kept = corrections_of(one)
    chosen = {
        only: chosen_notes(index, only=only, corrections=kept).tolist()
        for only in ("all", "with", "without", "corrected")
    }
    assert chosen == {"all": [0, 1, 2], "with": [0, 1], "without": [2], "corrected": [1, 2]}
    assert chosen_notes(index, only="with").tolist() == [0, 2]
    assert chosen_notes(index, only="corrected", hits=[0, 2], corrections=kept).tolist() == [2]


@pytest.mark.parametrize("line", ["{", '{"number": 0, "spans": [], "who": ""}'])
def test_damaged_corrections_stop_every_file(tmp_path: Path, line: str) -> None:
    one = made(tmp_path)
    (one.path / CORRECTIONS).write_text(line + "\n", "utf-8")
    for call in (lambda: corrections_of(one), lambda: list(notes_of(one))):
        with pytest.raises(AuditError, match="damaged"):
            call()


def test_a_correction_of_no_note_or_too_many_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = made(tmp_path)
    with pytest.raises(ValueError, match="no such note"):
        undo(one, 3)
    monkeypatch.setattr("audit.deid.tagged.MAX_LINES", 1)
    add(one, 1, "特記")
    with pytest.raises(AuditError, match="no more"):
        add(one, 1, "なし")


def test_a_pasted_text_is_corrected_in_the_same_way() -> None:
    release = Release()
    found = tagged_text(NOTES[1], tagger=RuleTagger(), release=release)
    assert census_of(found, release=release)["n_notes_corrected"] == 0
    fix = Correction(kind=ADDED, spans=(Span(0, 2, "identifier"),), who="ann")
    done = released_note(found.document, row=1, release=release, corrections=[fix])
    assert (
        done.released == "【氏名】なし。"
        and census_of(done, release=release)["n_notes_corrected"] == 1
    )
