"""Sentences: by hand in both languages, and what must hold for any text."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.notes.sentences import end_of_sentences, sentence_spans, start_of_sentence


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("He fell. She came.", ["He fell.", "She came."]),
        ("Seen by Dr. Lee today. Well.", ["Seen by Dr. Lee today.", "Well."]),
        ("John K. Smith is well. Ok.", ["John K. Smith is well.", "Ok."]),
        ("Took 2.5 mg q.d. with food. Ok.", ["Took 2.5 mg q.d. with food.", "Ok."]),
        ("Lasix 40 mg p.o. b.i.d. She slept.", ["Lasix 40 mg p.o. b.i.d.", "She slept."]),
        ("Plan:\n1. Rest.\n2. Fluids.", ["Plan:", "1. Rest.", "2. Fluids."]),
        ("He is a 42\nyear old man. Ok", ["He is a 42\nyear old man.", "Ok"]),
        ("No stop here\n\nNext one", ["No stop here", "Next one"]),
        ("HPI: Fell.\nPLAN: Rest.", ["HPI: Fell.", "PLAN: Rest."]),
        ('He said "no." Then left!', ['He said "no."', "Then left!"]),
        ("Dr. [**Name (STitle) 1.**] saw. Ok.", ["Dr. [**Name (STitle) 1.**] saw.", "Ok."]),
        ("Mr. [**Name**] [**Initial (NamePattern1)**]. [**Name**] left. Ok.",
         ["Mr. [**Name**] [**Initial (NamePattern1)**]. [**Name**] left.", "Ok."]),
        ("男性．値４．６。軽快。", ["男性．", "値４．６。", "軽快。"]),
        ("", []),
        ("  \n ", []),
    ],
)  # fmt: skip
def test_sentences_by_hand(text: str, sentences: list[str]) -> None:
    assert [text[start:end] for start, end in sentence_spans(text)] == sentences


def test_the_end_of_n_sentences() -> None:
    text = "One. Two. Three."
    ends = [text[: end_of_sentences(text, start=0, n=n)] for n in (0, 1, 2, 9)]
    assert ends == ["", "One.", "One. Two.", text]
    assert text[5 : end_of_sentences(text, start=5, n=1)] == "Two."


def test_the_start_of_a_sentence_within_reach() -> None:
    text = "One is here. Two is there."
    assert start_of_sentence(text, at=text.index("there")) == text.index("Two")
    assert start_of_sentence(text, at=2) == 0
    assert start_of_sentence("word " * 200 + "name", at=1000, reach=100) == 1000


@given(st.text(alphabet="Ab. \n!1)。[*]", max_size=80))
def test_sentences_cover_all_that_is_not_white(text: str) -> None:
    spans = list(sentence_spans(text))
    assert all(start < end for start, end in spans)
    assert all(one[1] <= two[0] for one, two in pairwise(spans))
    kept = "".join(text[start:end] for start, end in spans)
    assert "".join(kept.split()) == "".join(text.split())


@pytest.mark.parametrize(
    "piece", ["\n", ".", "a.", "[**", " \n", "1. ", "A", "。", "[**a Initial "]
)
def test_time_is_linear(piece: str) -> None:
    text = (piece * 300_000)[:300_000]
    begin = time.perf_counter()
    assert sum(1 for _ in sentence_spans(text)) <= len(text)
    assert time.perf_counter() - begin < 15
