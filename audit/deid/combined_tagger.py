"""Two taggers as one: what both find, put together by a rule that was chosen by measurement."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from audit.deid.documents import Span
from audit.deid.labels import CONTACT, LINKAGE_CODE, PERSONAL_ID_CODE
from audit.deid.rules_clinical import without_clinical
from audit.deid.tagger import Tagger, Tags

LONGEST, RULES_FIRST, MODEL_FIRST, CODES_FIRST = (
    "longest", "rules first", "model first", "codes by rule",
)  # fmt: skip
WAYS = (LONGEST, RULES_FIRST, MODEL_FIRST, CODES_FIRST)
"""Which of two finds that share a character stays whole: the longer; that of the rules; that of the
model; that of the rules for codes and contacts and else that of the model.

Of the other one stays what is left: no character that either of them found is released.
"""

_CODES = (PERSONAL_ID_CODE, LINKAGE_CODE, CONTACT)
_PAIRS = {"(": ")", "（": "）", "「": "」", "[": "]", "［": "］", "<": ">", "＜": "＞"}
_NUMBER = re.compile(r"\d+(?:[-/.‐−－／．]\d+)+")
_VERSION = 4  # of how finds are put together


@dataclass(frozen=True)
class CombinedTagger:
    """Finds what either of two taggers finds.

    Parameters
    ----------
    rules, model
        The two; any taggers.
    way
        One of `WAYS`.
    title
        What to call it, as one word.
    """

    rules: Tagger
    model: Tagger
    way: str
    title: str = "combined"

    def __post_init__(self) -> None:
        """Check the way, once."""
        if self.way not in WAYS:
            raise ValueError(f"{self.way}: no such way to put taggers together")

    @property
    def name(self) -> str:
        """What to call it."""
        return self.title

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of both."""
        return tuple(dict.fromkeys((*self.rules.labels, *self.model.labels)))

    @property
    def digest(self) -> str:
        """SHA-256 of both and the way."""
        return combined_digest(self.rules.digest, self.model.digest, way=self.way)

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        rows = zip(texts, self.rules.tag(texts), self.model.tag(texts), strict=True)
        return tuple(put_together(text, one, other, way=self.way) for text, one, other in rows)


def combined_digest(rules: str, model: str, *, way: str) -> str:
    """Return the digest of two taggers put together, from theirs."""
    return hashlib.sha256(f"{_VERSION}|{way}|{rules}|{model}".encode()).hexdigest()


def put_together(text: str, by_rules: Tags, by_model: Tags, *, way: str) -> Tags:
    """Return the finds of two taggers as spans that share no character.

    A rest that is white space alone, or without a letter or digit, is left out; so are the marks of
    punctuation at the ends of what the model found, but for those that are part of it. A number in
    several parts, as 5/10 or 0564-23-8711, of which the model found some is taken whole. What the
    model found in clinical values alone is refused.
    """
    tidy = [span for span in (without_edges(text, span) for span in by_model) if span is not None]
    ranked = [(_rank(span, is_rule=True, way=way), span) for span in by_rules]
    whole = with_whole_numbers(text, tidy, others=by_rules)
    ranked += [
        (_rank(span, is_rule=False, way=way), span) for span in without_clinical(text, whole)
    ]
    # Of two finds of one place that of the higher rank stays.
    order = [span for _, span in sorted(ranked, key=lambda one: (one[0], one[1]))]
    return _laid(text, order)


def without_edges(text: str, span: Span) -> Span | None:
    """Return a span without the punctuation and white space at its ends; None if nothing is left.

    A bracket stays where its partner is inside, a closing point where another one is: "A.B.".
    """
    start, end = span.start, span.end
    while start < end and _is_edge(text[start]):
        if _PAIRS.get(text[start], "\0") in text[start + 1 : end]:
            break
        start += 1
    while start < end and _is_edge(text[end - 1]):
        inside = text[start : end - 1]
        opening = next((one for one, other in _PAIRS.items() if other == text[end - 1]), "\0")
        if opening in inside or (text[end - 1] in ".．" and text[end - 1] in inside):
            break
        end -= 1
    return Span(start, end, span.label) if start < end else None


def with_whole_numbers(text: str, spans: Iterable[Span], *, others: Tags) -> list[Span]:
    """Return spans that end at the ends of numbers; what another span holds is left to it."""
    given = list(spans)
    numbers = [match.span() for match in _NUMBER.finditer(text)]
    found = []
    for span in given:
        start, end = span.start, span.end
        for first, last in numbers:
            if first < span.end and span.start < last:
                start, end = min(start, first), max(end, last)
        added = [Span(*ends, span.label) for ends in ((start, span.start), (span.end, end))
                 if ends[0] < ends[1]]  # fmt: skip
        if any(one.overlap(other) for one in added for other in (*given, *others)):
            start, end = span.start, span.end
        found.append(Span(start, end, span.label))
    return found


def _is_edge(char: str) -> bool:
    return char.isspace() or char in _PAIRS or unicodedata.category(char)[0] == "P"


def _rank(span: Span, *, is_rule: bool, way: str) -> tuple[int, int, int]:
    """Return what comes first: the lower; then the longer, then the model's."""
    first = {
        LONGEST: False,
        RULES_FIRST: is_rule,
        MODEL_FIRST: not is_rule,
        CODES_FIRST: is_rule and span.label in _CODES,
    }[way]
    second = not is_rule if way == CODES_FIRST else False
    return (0 if first else 1 if second else 2, -span.n_chars, int(is_rule))


def _laid(text: str, order: Iterable[Span]) -> Tags:
    """Lay spans one after the other; a later one keeps what is still free."""
    is_taken = bytearray(len(text))
    kept: list[Span] = []
    for span in order:
        at = span.start
        while at < span.end:
            free = is_taken.find(0, at, span.end)
            if free < 0:
                break
            taken = is_taken.find(1, free, span.end)
            at = span.end if taken < 0 else taken
            is_whole = (free, at) == (span.start, span.end)
            if is_whole or any(char.isalnum() for char in text[free:at]):
                start, end = (free, at) if is_whole else _trimmed(text, free, at)
                kept.append(Span(start, end, span.label))
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    return tuple(sorted(kept))


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end - 1 and text[start].isspace():
        start += 1
    while end - 1 > start and text[end - 1].isspace():
        end -= 1
    return start, end
