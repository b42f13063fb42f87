"""Two taggers as one: nothing that either found is released, and who is right follows the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.tagger import Tags, tag_checked
from audit.deid.taggers import (
    CODES_FIRST,
    LONGEST,
    MODEL_FIRST,
    RULES_FIRST,
    WAYS,
    CombinedTagger,
    put_together,
    with_whole_numbers,
    without_edges,
)
from audit.notes.spans import Span, merged

TEXT = "氏名：山田 太郎、ID 1234 です"


@dataclass(frozen=True)
class Fixed:
    """A tagger that always says the same."""

    spans: Tags
    name: str = "fixed"
    digest: str = "d"
    labels: tuple[str, ...] = ("x",)

    def tag(self, texts: Sequence[str]) -> list[Tags]:
        return [self.spans for _ in texts]


@st.composite
def tags(draw: st.DrawFn) -> Tags:
    found, at = [], 0
    for _ in range(draw(st.integers(0, 4))):
        start = at + draw(st.integers(0, 4))
        end = start + draw(st.integers(1, 6))
        if end > len(TEXT):
            break
        found.append(Span(start, end, draw(st.sampled_from(("contact", "identifier")))))
        at = end
    return tuple(found)


@given(tags(), tags(), st.sampled_from(WAYS))
def test_every_sign_that_either_found_is_found_and_nothing_else(one, other, way):
    found = put_together(TEXT, one, other, way=way)
    covered = {i for start, end in merged(found) for i in range(start, end)}
    either = {i for span in (*one, *other) for i in range(span.start, span.end)}
    assert covered <= either
    assert not any(TEXT[i].isalnum() for i in either - covered)
    tagger = CombinedTagger(Fixed(one), Fixed(other), way)
    assert tag_checked(tagger, [TEXT]) == (found,)


@given(tags(), st.sampled_from(WAYS))
def test_one_tagger_alone_or_twice_stays_as_it_is(one, way):
    tidy = tuple(span for span in (without_edges(TEXT, span) for span in one) if span)
    assert put_together(TEXT, one, (), way=way) == one
    assert put_together(TEXT, (), one, way=way) == tidy
    assert put_together(TEXT, tidy, tidy, way=way) == tidy


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (LONGEST, (Span(3, 8, "identifier"),)),
        (MODEL_FIRST, (Span(3, 8, "identifier"),)),
        (RULES_FIRST, (Span(3, 5, "contact"), Span(6, 8, "identifier"))),
        (CODES_FIRST, (Span(3, 5, "contact"), Span(6, 8, "identifier"))),
    ],
)
def test_which_of_two_stays_whole(way, expected):
    rule, model = (Span(3, 5, "contact"),), (Span(3, 8, "identifier"),)
    assert put_together(TEXT, rule, model, way=way) == expected


def test_a_name_by_rule_gives_way_to_the_model_where_only_codes_go_first():
    rule, model = (Span(3, 5, "quasi_identifier"),), (Span(3, 8, "identifier"),)
    assert put_together(TEXT, rule, model, way=CODES_FIRST) == model


def test_the_digest_follows_what_it_is_made_of():
    one, other = Fixed((), digest="a"), Fixed((), digest="b")
    made = [CombinedTagger(one, other, LONGEST), CombinedTagger(other, one, LONGEST),
            CombinedTagger(one, other, MODEL_FIRST)]  # fmt: skip
    assert len({tagger.digest for tagger in made}) == 3


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("、076-437-2930-", "076-437-2930"),
        ("（0242-07-5519", "0242-07-5519"),
        ("(0242)07-5519", "(0242)07-5519"),
        ("Nguyen Thi Lan)", "Nguyen Thi Lan"),
        ("聖マリア病院（分院）", "聖マリア病院（分院）"),
        ("A.B.", "A.B."),
        ("Tanaka.", "Tanaka"),
        (" 58♂\n", "58♂"),
        ("、。", ""),
    ],
)
def test_punctuation_at_the_ends_is_no_part_of_a_find(text, found):
    span = without_edges(text, Span(0, len(text), "contact"))
    assert (text[span.start : span.end] if span else "") == found


@pytest.mark.parametrize(
    ("text", "given", "others", "found"),
    [
        ("5/10に軽快", [(0, 1)], [], ["5/10"]),
        ("電話 0564‐23‐8711。", [(3, 10)], [], ["0564‐23‐8711"]),
        ("10.29 より", [(3, 5)], [], ["10.29"]),
        ("5/3-5/10", [(0, 3), (4, 8)], [], ["5/3", "5/10"]),
        ("5/3-5/10", [(0, 1)], [(4, 8)], ["5"]),
        ("WBC 8900", [(4, 6)], [], ["89"]),
        ("佐藤 120/80", [(0, 2)], [], ["佐藤"]),
    ],
)
def test_a_number_in_parts_is_taken_whole_or_left_to_others(text, given, others, found):
    spans = [Span(*one, "contact") for one in given]
    tags = tuple(Span(*one, "identifier") for one in others)
    whole = with_whole_numbers(text, spans, others=tags)
    assert [text[span.start : span.end] for span in whole] == found
