"""Notes of another hospital, written by hand: a test set that no tagger was tuned on.

Everything in `unseen/` is fictional. One note after another, each under a line `### name`, with
inline tags of the five types.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from audit.deid.documents import TaggedDocument, n_overlapping, tagged
from audit.deid.known_taggers import load_tagger
from audit.deid.labels import CONTACT, TYPES
from audit.deid.metrics import measured
from audit.deid.score import Scored, score_pairs
from audit.deid.tagger import tag_checked
from audit.deid.tags import TagCensus, scan_tags

FOLDER = Path(__file__).parent / "unseen"
N_NOTES = {"ja": 60, "en": 20}
N_WITHOUT = {"ja": 12, "en": 3}
"""Notes in which nothing personal stands."""

LANGUAGES = tuple(N_NOTES)


@cache
def unseen(language: str) -> tuple[TaggedDocument, ...]:
    """Return the notes of a language."""
    text = (FOLDER / f"{language}.txt").read_text(encoding="utf-8")
    notes = []
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        scanned = scan_tags(body.rstrip("\n"))
        assert scanned.census == TagCensus(n_tags=len(scanned.spans)), name
        notes.append(tagged(name, text=scanned.plain, spans=scanned.spans))
    return tuple(notes)


@cache
def scored_rules(language: str) -> Scored:
    """Return the scores of the rules."""
    notes = unseen(language)
    found = tag_checked(load_tagger("rules"), [note.text for note in notes])
    return score_pairs(
        (note, note.with_spans(spans)) for note, spans in zip(notes, found, strict=True)
    )


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_notes_are_read_whole(language: str) -> None:
    """Each has its name and length, tags are well-formed, all five types occur."""
    notes = unseen(language)
    assert len({note.doc_id for note in notes}) == len(notes) == N_NOTES[language]
    assert sum(not note.spans for note in notes) == N_WITHOUT[language]
    assert all(150 <= len(note.text) <= 900 for note in notes)
    assert {span.label for note in notes for span in note.spans} == set(TYPES)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_gold_spans_are_clean(language: str) -> None:
    """Inside the text, one beside the other, on one line, and without white space at their ends."""
    for note in unseen(language):
        assert n_overlapping(note.spans) == 0
        for span in note.spans:
            piece = note.text[span.start : span.end]
            assert len(piece) == span.n_chars
            assert piece == piece.strip()
            assert "\n" not in piece


@pytest.mark.parametrize("language", LANGUAGES)
def test_titles_and_postal_marks_stay_outside(language: str) -> None:
    """The borders of the house: no title behind or before a name, no mark before a postal code."""
    bad = re.compile(r"(さん|様|先生|くん|氏|Dr|〒)$|^(〒|Mrs?\b|Dr\b|PHS|TEL)")
    pieces = [note.text[s.start : s.end] for note in unseen(language) for s in note.spans]
    assert [piece for piece in pieces if bad.search(piece)] == []


@pytest.mark.parametrize(
    ("language", "precision", "recall"), [("ja", 0.92, 0.36), ("en", 0.92, 0.32)]
)
def test_the_rules_stay_as_good_on_notes_they_were_not_written_for(
    language: str, precision: float, recall: float
) -> None:
    """Floors a few points below what was measured (97.2 and 40.7 %; 98.7 and 37.0 %)."""
    scored = scored_rules(language)
    together = measured(scored.criteria["label_relaxed"].by_patient).together
    assert together.estimate("precision").value >= precision
    assert together.estimate("recall").value >= recall
    assert scored.covered.n_over_chars / scored.covered.n_outside_chars <= 0.01


@pytest.mark.parametrize(("language", "recall"), [("ja", 0.78), ("en", 0.83)])
def test_the_rules_find_contacts(language: str, recall: float) -> None:
    """Telephones and mail addresses have a form of their own (measured: 85.3 and 91.7 %)."""
    metrics = measured(scored_rules(language).criteria["label_relaxed"].by_patient)
    (contact,) = [entry for entry in metrics.labels if entry.label == CONTACT]
    assert contact.estimate("recall").value >= recall


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_rules_take_little_out_of_notes_without_anything_personal(language: str) -> None:
    """Eponyms, doses, scores and years of guidelines stay (measured: 2 of 12 and 0 of 3 notes)."""
    empty = [note for note in unseen(language) if not note.spans]
    found = tag_checked(load_tagger("rules"), [note.text for note in empty])
    assert sum(bool(spans) for spans in found) <= 3
    assert sum(span.n_chars for spans in found for span in spans) <= 30
