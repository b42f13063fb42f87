"""Listed notes: read back as written, and refused where they cannot be true."""

from __future__ import annotations

import json
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.truth import ListedNotes, listed_bytes, listed_file, read_listed
from audit.errors import AuditError


def listed(notes: list[int], *, n_notes: int = 9, n_patients: int = 4) -> ListedNotes:
    return ListedNotes(n_notes, n_patients, min(n_patients, len(notes)), array("I", notes))


@given(st.sets(st.integers(0, 2**32 - 2), max_size=20))
def test_what_is_written_is_json_and_read_back(
    tmp_path_factory: pytest.TempPathFactory, notes: set[int]
) -> None:
    path = tmp_path_factory.mktemp("listed") / "listed.json"
    one = listed(sorted(notes), n_notes=2**32)
    path.write_bytes(listed_bytes(one))
    assert json.loads(path.read_bytes())["notes"] == sorted(notes)
    again = read_listed(path)
    assert list(again.notes) == sorted(notes)
    assert (again.n_notes, again.n_patients) == (2**32, 4)
    assert again.n_listed_patients == one.n_listed_patients
    assert again.digest == one.digest


def test_the_digest_is_that_of_the_positions_alone() -> None:
    assert listed([1, 2]).digest == listed([1, 2], n_notes=10).digest
    assert len({listed(notes).digest for notes in ([], [1], [1, 2], [8], [0, 8])}) == 5


def test_the_free_share_by_hand() -> None:
    assert listed([1, 5, 6]).free_share == 0.25
    assert listed([], n_notes=0, n_patients=0).free_share == 0


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '{"n_notes": 9, "notes": [1]}',
        *(
            f'{{"n_notes": {n}, "n_patients": 3, "n_listed_patients": {k}, "notes": {notes}}}'
            for n, k, notes in (
                ("9", 1, "[9]"), ("9", 1, "[2, 1]"), ("9", 1, "[1, 1]"), ("9", 1, "[-1]"),
                ("9", 1, '["1"]'), ('"9"', 1, "[1]"), ("9", 0, "[1]"), ("9", 2, "[1]"),
                ("9", 1, "[]"), ("9", 4, "[1, 2, 3, 4]"), ("9", 1, "7"), ("true", 1, "[0]"),
            )
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_true_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "listed.json"
    path.write_text(text)
    with pytest.raises(AuditError, match="cannot be read"):
        read_listed(path)


def test_it_lies_beside_the_notes_or_nowhere(tmp_path: Path) -> None:
    assert listed_file(tmp_path / "private.jsonl") is None
    with pytest.raises(AuditError):
        read_listed(tmp_path / "listed.json")
    (tmp_path / "listed.json").write_bytes(listed_bytes(listed([1])))
    assert listed_file(tmp_path / "private.jsonl") == tmp_path / "listed.json"
