"""Synthetic notes: the same bytes for ever, gold that is exact, nothing gold in traps."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.given import annotated_notes
from audit.deid.scoring import EXAMPLES
from audit.notes.formats import write_jsonl
from audit.notes.spans import TYPES
from benchmarks.synthetic import (
    HELD_OUT_STYLES,
    TRAIN_STYLES,
    example,
    in_turn,
    styles_of,
    synthetic_notes,
)
from benchmarks.synthetic.grammar import Dice, Piece
from benchmarks.synthetic.notes import surfaced

LANGUAGES = ("ja", "en")


# The shipped tagger was trained on these notes and is measured on the held-out ones.
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
    made = list(in_turn(5, seed=1, languages=("ja", "en")))
    assert [one.doc_id[:3] for one in made] == ["ja/", "ja/", "ja/", "en/", "en/"]
    held_out = list(in_turn(5, seed=1, languages=("ja", "en"), is_held_out=True))
    assert {one.text for one in held_out}.isdisjoint(one.text for one in made)
    for language in LANGUAGES:
        assert not any(d.spans for d in synthetic_notes(200, seed=2, language=language,
                                                        styles=["plain"]))  # fmt: skip
    for language in HELD_OUT_STYLES:
        shipped = (EXAMPLES / f"{language}.jsonl").read_text(encoding="utf-8")
        assert shipped == write_jsonl(example(language))
        assert annotated_notes(EXAMPLES / f"{language}.jsonl").all() == list(example(language))


def test_another_process_gives_the_first_of_more_notes_and_needs_no_large_library() -> None:
    script = (
        "import hashlib, sys\n"
        "from benchmarks.synthetic import synthetic_notes\n"
        "notes = list(synthetic_notes(30, seed=5))\n"
        "assert not {'torch', 'faker', 'transformers', 'streamlit'} & set(sys.modules)\n"
        "print(hashlib.sha256(repr(notes).encode()).hexdigest())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True,
        env={"PYTHONHASHSEED": "7"},
    ).stdout.strip()  # fmt: skip
    notes = list(synthetic_notes(60, seed=5))
    assert found == hashlib.sha256(repr(notes[:30]).encode()).hexdigest()
    assert not {d.text for d in notes} & {d.text for d in synthetic_notes(60, seed=4)}
    assert list(synthetic_notes(0, seed=0)) == []


@settings(max_examples=30)
@given(seed=st.integers(0, 2**40), language=st.sampled_from(LANGUAGES))
def test_spans_stand_apart_and_hold_no_space_at_their_ends(seed: int, language: str) -> None:
    for d in synthetic_notes(5, seed=seed, language=language, styles=styles_of(language)):
        assert all(one.end <= two.start for one, two in zip(d.spans, d.spans[1:], strict=False))
        for span in d.spans:
            value = d.text[span.start : span.end]
            assert value == value.strip() and "\n" not in value and span.label in TYPES


PIECES = st.lists(
    st.builds(
        Piece,
        st.text("山田、。：（） 12.a\n", min_size=1, max_size=8),
        st.sampled_from((*TYPES, "")),
    ),
    max_size=12,
)


@settings(max_examples=150)
@given(PIECES, st.integers(0, 2**40), st.booleans())
def test_noise_never_touches_the_letters_of_a_value(
    pieces: list[Piece], seed: int, is_japanese: bool
) -> None:
    text, spans = surfaced(pieces, dice=Dice(seed, "test"), is_japanese=is_japanese)
    values = [piece for piece in pieces if piece.label]
    assert [span.label for span in spans] == [piece.label for piece in values]
    for span, piece in zip(spans, values, strict=True):
        found = unicodedata.normalize("NFKC", text[span.start : span.end])
        assert found == unicodedata.normalize("NFKC", piece.text)
