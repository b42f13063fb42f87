"""Numbers that are no dates, names that are words, great ages, user names, masked institutions.

The lines of `values.jsonl` were written by somebody who had seen neither rules nor output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import DEFAULT, load_tagger
from audit.deid.redact.policy import SAFE_HARBOR
from audit.notes.spans import Tags, build_document

FILE = Path(__file__).with_name("values.jsonl")
_TITLE = re.compile(r"^(?:(?:Dr|Mr|Mrs|Ms)\. |late )|(?:先生|医師)$")


class Line(NamedTuple):
    """A line of the file, and the characters of it that are taken out."""

    kind: str
    text: str
    must_stay: tuple[str, ...]
    must_go: tuple[str, ...]
    released_places: frozenset[int]

    def is_touched(self, words: str) -> bool:
        """Whether something is taken out of words, wherever they stand."""
        return all(self.released_places & set(places) for places in self._places(words))

    def is_left(self, words: str) -> bool:
        """Whether any digit of words stays; where they have none, a letter of the name in them."""
        place = self._places(words)[0]
        name = _TITLE.sub("", words)
        has_digit = any(map(str.isdigit, words))
        start = place.start + words.index(name)
        digits_or_letters = [
            start + n for n, char in enumerate(name) if char.isdigit() or not has_digit
        ]
        return any(
            self.text[n].isalnum() and n not in self.released_places for n in digits_or_letters
        )

    def _places(self, words: str) -> list[range]:
        starts = [match.start() for match in re.finditer(re.escape(words), self.text)]
        assert starts, (words, self.text)
        return [range(start, start + len(words)) for start in starts]


@cache
def lines() -> tuple[Line, ...]:
    """Return the lines as the default tagger and the policy safe-harbor leave them."""
    rows = [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]
    tags = tag_and_check(load_tagger(DEFAULT), [row["text"] for row in rows])
    return tuple(_released(*pair) for pair in zip(rows, tags, strict=True))


def _released(row: dict[str, Any], tags: Tags) -> Line:
    note = build_document("1", text=row["text"], spans=tags, patient_id="p1")
    note_with_policy, _ = SAFE_HARBOR.apply(note)
    released_places = frozenset(
        place for span in note_with_policy.spans for place in range(span.start, span.end)
    )
    return Line(
        row["kind"], row["text"], tuple(row["must_stay"]), tuple(row["must_go"]), released_places
    )


def touched(*kinds: str) -> Iterator[bool]:
    for line in lines():
        if line.kind in kinds:
            yield from map(line.is_touched, line.must_stay)


def test_values_that_look_like_dates_codes_or_institutions_stay() -> None:
    answers = list(touched("number", "age", "user", "vin", "masked"))
    assert len(answers) > 200
    assert sum(answers) <= 0.01 * len(answers)


@pytest.mark.parametrize(
    ("kind", "most_left"), [("name_word", 0), ("age", 0), ("user", 2), ("vin", 0), ("number", 0)]
)
def test_names_that_are_words_great_ages_user_names_and_vehicle_numbers_go(
    kind: str, most_left: int
) -> None:
    left = [
        words
        for line in lines()
        if line.kind == kind
        for words in line.must_go
        if line.is_left(words)
    ]
    assert len(left) <= most_left, left
