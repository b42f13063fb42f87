from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from audit.corpus import demo_notes

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "kart_tables.json").read_text())
NAMES = [(f"First{i}", f"Last{i}") for i in range(130)]


@pytest.fixture(scope="module")
def hospital() -> demo_notes.DemoHospital:
    return demo_notes.demo_notes(NAMES, staff=["Staff"], seed=0)


def test_names_passages_and_mentions_are_as_many_as_in_the_paper(
    hospital: demo_notes.DemoHospital,
) -> None:
    assert len(hospital.patterns) == 158
    assert sum(hospital.n_mentions) == 232
    patterns = Counter(Counter(p.owner for p in hospital.patterns).values())
    mentions = Counter(hospital.n_mentions)
    tables = [
        {int(k): v for k, v in GOLDEN[name].items()}
        for name in ("table3_distinct_patterns_per_name", "table4_occurrences_per_name")
    ]
    assert [dict(patterns), dict(mentions)] == tables


def test_every_mention_stands_in_a_note_where_the_truth_says(
    hospital: demo_notes.DemoHospital,
) -> None:
    for i, (first, last) in enumerate(NAMES):
        n_notes = sum(f"{first} {last} " in note for note in hospital.notes)
        assert n_notes == hospital.n_mentions[i]


def test_every_passage_stands_in_a_note_with_its_owner(hospital: demo_notes.DemoHospital) -> None:
    for pattern in hospital.patterns:
        first, last = NAMES[pattern.owner]
        passage = f"{pattern.left}{first} {last}{pattern.right}"
        assert any(passage in note for note in hospital.notes)
        assert demo_notes.passage_text(pattern).count("[NAME]") == 1
        assert first not in demo_notes.passage_text(pattern)


def test_passages_have_five_sentences_and_the_papers_form(
    hospital: demo_notes.DemoHospital,
) -> None:
    for pattern in hospital.patterns:
        assert pattern.right.startswith(" is a ")
        sentences = pattern.right.replace("dr .", "dr").count(" .")
        assert sentences == 5


def test_the_same_seed_gives_the_same_notes_and_another_seed_others() -> None:
    one, same, other = (demo_notes.demo_notes(NAMES, staff=["Staff"], seed=s) for s in (1, 1, 2))
    assert one == same
    assert one.notes != other.notes


def test_a_wrong_number_of_names_is_refused() -> None:
    with pytest.raises(ValueError, match="the tables ask for 130"):
        demo_notes.demo_notes(NAMES[:-1], staff=["Staff"], seed=0)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_vocabulary_spells_every_note_and_the_general_text(language: str) -> None:
    from transformers import BertTokenizerFast

    western = (["Mary", "John"], ["Smith", "Brown"])
    first, last = western if language == "en" else (["太郎"], ["山田"])
    n = 130 if language == "en" else 20
    names = [(first[i % len(first)], last[i % len(last)]) for i in range(n)]
    words = demo_notes.demo_vocabulary((*first, *last, "Staff"), language=language)
    vocabulary = {word: i for i, word in enumerate(words)}
    tokenizer = BertTokenizerFast(vocab=vocabulary, do_lower_case=language == "en")
    staff = ["Staff"] if language == "en" else ["山田"]
    notes = demo_notes.demo_notes(names, staff=staff, language=language, n_notes=260, seed=0).notes
    general = demo_notes.demo_general_text(names, language=language, seed=0)
    for text in (*notes, *general):
        assert tokenizer.unk_token not in tokenizer.tokenize(text)


def test_english_names_are_one_token_and_japanese_names_several() -> None:
    english = demo_notes.demo_vocabulary(["Smith"])
    japanese = demo_notes.demo_vocabulary(["山田"], language="ja")
    assert "smith" in english
    assert {"山", "田"} <= set(japanese)
    assert "山田" not in japanese
