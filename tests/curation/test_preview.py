"""Previews: what a build would do to one note, and the categories of the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.corpus.preview import preview, survey_head
from audit.corpus.register import read_register
from audit.errors import AuditError
from tests.corpora.make_notes import every_category, note_row, write_notes
from tests.curation.make_corpora import REGISTER, dummy_notes, lines, made, register_files


def test_marks_stand_where_values_stand(tmp_path: Path) -> None:
    rows = [
        note_row(1, patient=1, text="x [**Known firstname 1**] y [**Spaceship 2**] z"),
        note_row(2, patient=1, text=every_category()),
    ]
    notes = write_notes(tmp_path / "n.csv", rows)
    first = preview(notes, number=1, seed=3)
    assert first.row == 2 and not first.is_last
    assert [(m.category, m.kind, m.role) for m in first.before_marks] == [
        ("Known firstname", "first", "patient"),
        ("Spaceship", "unknown", ""),
    ]
    assert [first.before[m.start : m.end] for m in first.before_marks] == [
        *("[**Known firstname 1**]", "[**Spaceship 2**]"),
    ]
    name = first.after[first.after_marks[0].start : first.after_marks[0].end]
    assert first.after == f"x {name} y [**Spaceship 2**] z"
    second = preview(notes, number=2)
    assert second.is_last and len(second.before_marks) == len(second.after_marks) > 100
    with pytest.raises(AuditError, match="has 2 notes"):
        preview(notes, number=3)
    with pytest.raises(AuditError, match="from 1 to"):
        preview(notes, number=0)


def test_a_preview_has_the_names_of_the_build(tmp_path: Path) -> None:
    notes = dummy_notes(tmp_path, n_patients=1)
    built = lines(made(tmp_path / "c", notes, seed=5).path / "private.jsonl")
    assert (
        preview(notes, number=1, seed=5).after.split(" is a ")[0]
        == (built[0]["text"].split(" is a ")[0])
    )


def test_identified_notes_are_shown_with_places(tmp_path: Path) -> None:
    notes, _ = register_files(tmp_path)
    found = preview(notes, number=1, register=read_register(REGISTER.encode()))
    assert found.after.startswith("[FIRST] [LAST] is a 72 year old woman")
    assert [found.before[m.start : m.end] for m in found.before_marks] == ["Anna", "Sandoval"]
    assert preview(notes, number=1).before_marks == ()


def test_the_first_notes_are_counted(tmp_path: Path) -> None:
    text = "[**Known firstname 1**] [**Spaceship 2**] [**Spaceship 3**] [**broken"
    rows = [note_row(i, patient=i % 2, text=text) for i in range(5)]
    rows.append(note_row(6, patient="", text="no patient"))
    rows.append(note_row(7, patient=1, text="  "))
    notes = write_notes(tmp_path / "n.csv", rows)
    found = survey_head(notes, 100)
    assert (found.n_notes, found.n_patients, found.n_without_patient) == (6, 2, 1)
    assert [(c.category, c.kind, c.n, c.first_row) for c in found.categories] == [
        *(("Spaceship", "unknown", 10, 2), ("Known firstname", "first", 5, 2)),
    ]
    assert [note.row for note in found.refused] == [8]
    assert found.has_placeholders and not found.has_blanks
    assert survey_head(notes, 3).n_notes == 3
