"""Windows of long notes, and two taggers as one: nothing is lost at a border or between the two."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import CombinedTagger, combine_spans
from audit.deid.find.windows import Window, cut_windows, join_windows
from audit.notes.spans import Span, Tags, merge_spans

SIZES = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n // 2)))
TEXT = "氏名：山田 太郎、番号 1234 です"


def draw_spans(n_chars: int, *, max_size: int, labels: Sequence[str]) -> st.SearchStrategy[Tags]:
    """Spans of a text that share no character."""

    def laid(rows: list[tuple[int, int, str]]) -> Tags:
        spans, end = [], 0
        for gap, size, label in rows:
            end += gap + size
            if end <= n_chars:
                spans.append(Span(end - size, end, label))
        return tuple(spans)

    row = st.tuples(st.integers(0, max_size), st.integers(1, max_size), st.sampled_from(labels))
    return st.lists(row, max_size=30).map(laid)


ANNOTATED = st.text(st.sampled_from("ab。 \n、"), max_size=200).flatmap(
    lambda text: st.tuples(st.just(text), draw_spans(len(text), max_size=12, labels="xy"))
)


def places(spans: Sequence[Span]) -> set[int]:
    return {i for span in spans for i in range(span.start, span.end)}


@given(ANNOTATED, SIZES)
def test_a_span_that_lies_whole_in_a_window_comes_out_as_it_was(
    note: tuple[str, Tags], sizes: tuple[int, int]
) -> None:
    (text, spans), (size, overlap) = note, sizes
    windows = cut_windows(text, size=size, overlap=overlap)
    assert all(0 < window.end - window.start <= size for window in windows)
    assert {i for w in windows for i in range(w.start, w.end)} == set(range(len(text)))
    for first, second in pairwise(windows):
        assert first.start < second.start == first.end - overlap and first.end < second.end
    # What a tagger that errs nowhere says about a window: it knows no text outside.
    cut_spans = [
        [
            Span(max(s.start, w.start) - w.start, min(s.end, w.end) - w.start, s.label)
            for s in spans
            if s.start < w.end and w.start < s.end
        ]
        for w in windows
    ]
    joined_spans = join_windows(windows, cut_spans, n_chars=len(text))
    whole_spans = {s for s in spans if any(w.start <= s.start and s.end <= w.end for w in windows)}
    assert whole_spans <= set(joined_spans) and whole_spans >= {
        span for span in spans if span.n_chars <= overlap
    }
    assert list(joined_spans) == sorted(joined_spans) and places(joined_spans) == places(spans)
    assert all(a.end <= b.start for a, b in pairwise(joined_spans))
    assert not overlap or joined_spans == spans, "a span longer than the overlap is joined again"


@pytest.mark.parametrize(
    ("left", "right", "joined"),
    [
        ([(5, 9, "x")], [(1, 4, "y")], [(5, 9, "x")]),
        ([(5, 10, "x")], [(1, 4, "y")], [(5, 8, "y")]),
        ([(5, 10, "x")], [(0, 6, "x")], [(4, 10, "x")]),
        ([(5, 10, "x")], [(0, 4, "x"), (5, 8, "x")], [(9, 12, "x")]),
        ([(2, 10, "x")], [(0, 5, "y")], [(2, 10, "x")]),
        ([(0, 3, "x")], [(2, 10, "y")], [(0, 3, "x"), (6, 14, "y")]),
        ([(2, 6, "x"), (8, 10, "y")], [(0, 3, "x")], [(2, 6, "x"), (8, 10, "y")]),
    ],
)
def test_of_two_that_disagree_the_one_with_more_text_around_it_stays(
    left: list[tuple[int, int, str]],
    right: list[tuple[int, int, str]],
    joined: list[tuple[int, int, str]],
) -> None:
    windows = (Window(0, 10), Window(4, 14))
    spans = [[Span(*fields) for fields in side] for side in (left, right)]
    assert join_windows(windows, spans, n_chars=14) == tuple(Span(*fields) for fields in joined)


def test_windows_end_where_a_line_or_a_sentence_does() -> None:
    text = "a" * 90 + "。" + "b" * 60
    assert cut_windows(text, size=100, overlap=20) == (Window(0, 91), Window(71, 151))
    line = "a" * 89 + "\n" + "。" + "b" * 60
    assert cut_windows(line, size=100, overlap=50) == (
        Window(0, 90),
        Window(40, 140),
        Window(90, 151),
    )
    early = "a" * 87 + "。" + "b" * 60
    assert cut_windows(early, size=100, overlap=20)[0] == Window(0, 100)
    assert cut_windows("", size=10, overlap=2) == ()


@dataclass(frozen=True)
class Fixed:
    """A tagger that always says the same."""

    spans: Tags
    digest: str = "d"
    name: str = "fixed"
    labels: tuple[str, ...] = ("x",)

    def tag(self, texts: Sequence[str]) -> list[Tags]:
        return [self.spans for _ in texts]


KANA = set(filter(re.compile("[ぁ-ヴー]").match, TEXT))
"""By itself one of them is nobody's name."""
TAGS = draw_spans(len(TEXT), max_size=6, labels=("contact", "identifier"))


@given(TAGS, TAGS)
def test_every_sign_that_either_found_is_found_and_nothing_else(
    rule_spans: Tags, model_spans: Tags
) -> None:
    combined = combine_spans(TEXT, rule_spans, model_spans)
    covered = places(combined)
    assert covered <= places((*rule_spans, *model_spans))
    names = [s for s in model_spans if TEXT[s.start : s.end].strip(" 、：") not in KANA]
    assert not any(TEXT[i].isalnum() for i in places((*rule_spans, *names)) - covered)
    tagger = CombinedTagger(Fixed(rule_spans), Fixed(model_spans))
    assert tag_and_check(tagger, [TEXT]) == (combined,) and tagger.labels == ("x",)
    assert combine_spans(TEXT, rule_spans, ()) == rule_spans
    tidied = combine_spans(TEXT, (), model_spans)
    assert combine_spans(TEXT, tidied, tidied) == tidied
    assert (
        merge_spans(tidied) == tuple((span.start, span.end) for span in tidied) or len(tidied) > 1
    )


@pytest.mark.parametrize(
    ("rule", "rest"),
    [((3, 5), [(6, 8)]), ((4, 6), [(3, 4), (6, 8)]), ((3, 8), []), ((8, 9), [(3, 8)])],
)
def test_what_the_rules_found_stays_whole(rule: tuple[int, int], rest: list[Any]) -> None:
    rule_span, model_span = Span(*rule, "contact"), Span(3, 8, "identifier")
    expected = sorted([rule_span, *(Span(*borders, "identifier") for borders in rest)])
    assert combine_spans(TEXT, (rule_span,), (model_span,)) == tuple(expected)


def test_the_digest_follows_what_it_is_made_of() -> None:
    rules, model = Fixed((), "a"), Fixed((), "b")
    digest = sha256(b"8|rules first|a|b").hexdigest()
    assert CombinedTagger(rules, model).digest == digest != CombinedTagger(model, rules).digest


@pytest.mark.parametrize(
    ("text", "model_places", "words"),
    [
        ("、076-437-2930-", [(0, 14)], ["076-437-2930"]),
        ("（0242-07-5519", [(0, 13)], ["0242-07-5519"]),
        ("(0242)07-5519", [(0, 13)], ["(0242)07-5519"]),
        ("Nguyen Thi Lan)", [(0, 15)], ["Nguyen Thi Lan"]),
        ("聖マリア病院（分院）", [(0, 10)], ["聖マリア病院（分院）"]),
        ("A.B.", [(0, 4)], ["A.B."]),
        ("Tanaka.", [(0, 7)], ["Tanaka"]),
        (" 58♂\n", [(0, 5)], ["58♂"]),
        ("、。", [(0, 2)], []),
        ("グループ", [(1, 2)], []),
        ("TEL 03-1, seen by her", [(0, 3), (10, 17)], []),
        ("5/10に軽快", [(0, 1)], ["5/10"]),
        ("電話 0564‐23‐8711。", [(3, 10)], ["0564‐23‐8711"]),
        ("10.29 より", [(3, 5)], ["10.29"]),
        ("5/3-5/10", [(0, 3), (4, 8)], ["5/3", "5/10"]),
        ("ID 8900", [(3, 5)], ["89"]),
        ("佐藤 120/80", [(0, 2)], ["佐藤"]),
    ],
)
def test_finds_of_a_model_are_tidy_and_numbers_whole(
    text: str, model_places: list[tuple[int, int]], words: list[str]
) -> None:
    spans = tuple(Span(*place, "contact") for place in model_places)
    combined = combine_spans(text, (), spans)
    assert [text[span.start : span.end] for span in combined] == words
    if text == "5/3-5/10":
        combined = combine_spans(text, (Span(4, 8, "identifier"),), (Span(0, 1, "contact"),))
        assert combined == (Span(0, 1, "contact"), Span(4, 8, "identifier")), "left to others"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("saw van der [Berg] today", ["van der Berg"]),
        ("I [Anna Lee] [Smith]-Jones came", ["Anna Lee Smith-Jones"]),
        ("to [Iowa], then New [Ross]", ["Iowa", "New Ross"]),
        ("in [Sioux] City, order [L-17]B", ["Sioux City", "L-17B"]),
        ("the [berg] of ice", ["berg"]),
    ],
)
def test_names_and_places_are_taken_out_with_their_particles_halves_and_kinds(
    text: str, words: list[str]
) -> None:
    pieces = re.split(r"[\[\]]", text)
    plain, spans = "".join(pieces), []
    for number, piece in enumerate(pieces):
        start = len("".join(pieces[:number]))
        if number % 2:
            label = "identifier" if " " in piece else "quasi_identifier"
            label = "linkage_code" if any(map(str.isdigit, piece)) else label
            spans.append(Span(start, start + len(piece), label))
    assert [plain[s.start : s.end] for s in combine_spans(plain, (), tuple(spans))] == words
