"""The example notes: every category, the same each time, whole through a build."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from audit.corpus.make import CorpusTask, make_corpus
from audit.corpus.truth import PEOPLE, PRIVATE, PUBLIC, SUMMARY
from audit.home import DEMO_HOSPITAL
from audit.notes.placeholders import _KINDS, find_placeholders
from benchmarks.example_notes import COLUMNS, example_csv, example_rows


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    (folder / "notes.csv").write_bytes(example_csv())
    return make_corpus(CorpusTask(notes=folder / "notes.csv", seed=3), out=folder / "corpus")


def test_every_kind_of_placeholder_occurs_and_one_that_is_unknown() -> None:
    found = [p for row in example_rows() for p in find_placeholders(row[-1]).places]
    sexed = {"first_male": "M", "first_female": "F"}
    wanted = {kind for kind, _ in _KINDS} - set(sexed)
    assert wanted | {"unknown"} == {place.kind for place in found}
    assert {place.sex for place in found if place.kind == "first"} >= set(sexed.values())
    assert {place.category for place in found if place.kind == "unknown"} == {"Device"}
    assert {place.role for place in found if place.kind == "last"} >= {"patient", "staff"}


def test_the_same_seed_gives_the_bytes_that_are_shipped_and_another_does_not() -> None:
    assert (DEMO_HOSPITAL / "notes.csv").read_bytes() == example_csv()
    assert example_csv(seed=8) != example_csv()


def test_it_is_a_table_as_mimic_has_it() -> None:
    rows = list(csv.reader(io.StringIO(example_csv().decode(), newline="")))
    assert tuple(rows[0]) == COLUMNS
    assert {len(row) for row in rows} == {len(COLUMNS)}
    assert [row[0] for row in rows[1:]] == [str(n) for n in range(1, len(rows))]
    assert not [row for row in rows[1:-1] if not row[-1].strip()]


def test_a_build_refuses_the_empty_note_and_names_nearly_every_patient(built: Path) -> None:
    summary = json.loads((built / SUMMARY).read_bytes())
    assert 200 <= summary["n_notes"] <= 300
    assert (summary["n_refused"], summary["n_malformed"]) == (1, 0)
    assert [(one["category"], one["n"] > 0) for one in summary["unknown"]] == [("Device", True)]
    assert summary["n_patients"] == 100
    assert 90 <= summary["n_named_patients"] < 100


def test_a_patient_has_one_name_in_all_notes_and_public_notes_have_none(built: Path) -> None:
    people = [json.loads(line) for line in (built / PEOPLE).read_text().splitlines()]
    lasts = {one["patient_id"]: one["last"] for one in people}
    named = other = 0
    public = [json.loads(line)["text"] for line in (built / PUBLIC).read_text().splitlines()]
    for line, source in zip((built / PRIVATE).read_text().splitlines(), public, strict=True):
        note = json.loads(line)
        if "[**Known lastname" in source:
            named += lasts[note["patient_id"]] in note["text"]
            other += lasts[note["patient_id"]] not in note["text"]
        assert "[**Known" not in note["text"]
    assert named > 150
    assert other == 0
