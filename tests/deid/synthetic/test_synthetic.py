"""Synthetic notes: the same bytes for ever, gold that is exact, nothing gold in traps."""

from __future__ import annotations

import hashlib
import json

import pytest

from audit.deid.measure.scoring import EXAMPLES
from audit.deid.sets.incoming_notes import annotated_notes
from audit.notes.formats import write_jsonl
from benchmarks.synthetic import HELD_OUT_STYLES, TRAIN_STYLES, example, in_turn, synthetic_notes

LANGUAGES = ("ja", "en")


# The shipped tagger was trained on these notes and is measured on the held-out ones.
@pytest.mark.long
@pytest.mark.parametrize(
    ("language", "is_held_out", "digest"),
    [
        ("ja", False, "fa001a64c5f20721"),
        ("ja", True, "56ad385096b217d6"),
        ("en", False, "2e1eb4763b4c5246"),
        ("en", True, "37693e60d65e240b"),
    ],
)
def test_the_notes_of_a_seed_are_the_same_in_every_version(
    language: str, is_held_out: bool, digest: str
) -> None:
    styles = (HELD_OUT_STYLES if is_held_out else TRAIN_STYLES)[language]
    n = 400 if is_held_out else 3000
    record = [
        [d.doc_id, d.patient_id, d.text, [[s.start, s.end, s.label] for s in d.spans]]
        for d in synthetic_notes(n, seed=6, language=language, styles=styles)
    ]
    assert hashlib.sha256(json.dumps(record).encode()).hexdigest()[:16] == digest


def test_notes_come_in_turn_and_the_example_is_the_one_that_is_shipped() -> None:
    notes = list(in_turn(5, seed=1, languages=("ja", "en")))
    assert [note.doc_id[:3] for note in notes] == ["ja/", "ja/", "ja/", "en/", "en/"]
    held_out = list(in_turn(5, seed=1, languages=("ja", "en"), is_held_out=True))
    assert {note.text for note in held_out}.isdisjoint(note.text for note in notes)
    for language in LANGUAGES:
        assert not any(
            d.spans for d in synthetic_notes(200, seed=2, language=language, styles=["plain"])
        )
    for language in HELD_OUT_STYLES:
        shipped = (EXAMPLES / f"{language}.jsonl").read_text(encoding="utf-8")
        assert shipped == write_jsonl(example(language))
        assert annotated_notes(EXAMPLES / f"{language}.jsonl").read_all() == list(example(language))
