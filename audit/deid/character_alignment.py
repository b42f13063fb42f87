"""Character alignment of two nearly equal texts: which character of a copy is which of the source.

Compared are characters without case, width or kind of white space, so that a copy in normal form
still fits; the result speaks of positions in the texts as they are.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

_ANCHORS = (48, 24, 12, 6)
"""Lengths of passages that are sought in both texts, the longest first."""
_MAX_CELLS = 4_000_000
"""A gap larger than this (characters of one text times the other's) is left unaligned."""


@dataclass(frozen=True)
class Folded:
    """A text as it is compared: its folded characters, and where each stood.

    `position[i]` is where `chars[i]` stood in the text; `first[p]` is where character p begins in
    `chars` (one more entry than the text has characters).
    """

    chars: str
    position: tuple[int, ...]
    first: tuple[int, ...]


@dataclass(frozen=True)
class Block:
    """Characters `a` to `a_end` of the copy are `b` to `b_end` of the source.

    `is_equal` blocks have the same length and are equal after folding, the others were replaced,
    inserted (b == b_end) or left out (a == a_end).
    """

    a: int
    a_end: int
    b: int
    b_end: int
    is_equal: bool


@lru_cache(maxsize=65_536)
def _folded_char(char: str) -> str:
    if char.isspace():
        return " "
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).casefold())
    return "".join(" " if c.isspace() else c for c in plain) or char


def fold(text: str) -> Folded:
    """Return a text as it is compared: NFKD of each character, no case, any white space a space."""
    chars: list[str] = []
    position: list[int] = []
    first: list[int] = []
    for i, char in enumerate(text):
        plain = _folded_char(char)
        first.append(len(position))
        chars.append(plain)
        position += [i] * len(plain)
    first.append(len(position))
    return Folded("".join(chars), tuple(position), tuple(first))


def align(copy: str, source: str) -> tuple[Block, ...]:
    """Align two folded texts; the blocks cover both, in order.

    Passages that occur equally often in both are anchors, the longest first, as long as they are in
    the same order; what lies between is aligned by longest common pieces. Time and memory are
    bounded for long texts of many repetitions too.
    """
    pairs = _matches(copy, source, 0, 0, anchors=_ANCHORS)
    blocks: list[Block] = []
    a = b = 0
    for start, other, length in [*_joined(pairs), (len(copy), len(source), 0)]:
        if start > a or other > b:
            blocks.append(Block(a, start, b, other, is_equal=False))
        if length:
            blocks.append(Block(start, start + length, other, other + length, is_equal=True))
        a, b = start + length, other + length
    return tuple(blocks)


_Match = tuple[int, int, int]


def _joined(matches: Iterator[_Match]) -> Iterator[_Match]:
    last: _Match | None = None
    for a, b, length in matches:
        if last is not None and last[0] + last[2] == a and last[1] + last[2] == b:
            last = last[0], last[1], last[2] + length
            continue
        if last is not None:
            yield last
        last = a, b, length
    if last is not None:
        yield last


def _matches(a: str, b: str, i: int, j: int, *, anchors: tuple[int, ...]) -> Iterator[_Match]:
    """Yield equal pieces (place in copy, in source, length) of a and b, which begin at i, j."""
    head = _n_common(a, b)
    if head:
        yield i, j, head
    a, b, i, j = a[head:], b[head:], i + head, j + head
    tail = _n_common(a[::-1], b[::-1])
    end = i + len(a) - tail, j + len(b) - tail, tail
    a, b = a[: len(a) - tail], b[: len(b) - tail]
    if a and b:
        yield from _between(a, b, i, j, anchors=anchors)
    if tail:
        yield end


def _between(a: str, b: str, i: int, j: int, *, anchors: tuple[int, ...]) -> Iterator[_Match]:
    for n, size in enumerate(anchors):
        found = _anchored(a, b, size=size)
        if found:
            rest = anchors[n:]
            at, other = 0, 0
            for start, there in found:
                if start < at or there < other:
                    continue
                yield from _matches(a[at:start], b[other:there], i + at, j + other, anchors=rest)
                length = _n_common(a[start:], b[there:])
                yield i + start, j + there, length
                at, other = start + length, there + length
            yield from _matches(a[at:], b[other:], i + at, j + other, anchors=rest)
            return
    if len(a) * len(b) <= _MAX_CELLS:
        matcher = SequenceMatcher(None, a, b, autojunk=False)
        for piece in matcher.get_matching_blocks():
            if piece.size:
                yield i + piece.a, j + piece.b, piece.size


def _n_common(a: str, b: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _anchored(a: str, b: str, *, size: int) -> list[tuple[int, int]]:
    """Return where passages stand that occur once in each text, as far as their order agrees."""
    once_in_a, once_in_b = _once(a, size), _once(b, size)
    pairs = sorted((at, once_in_b[passage]) for passage, at in once_in_a.items()
                   if passage in once_in_b)  # fmt: skip
    return _longest_increasing(pairs)


def _once(text: str, size: int) -> dict[str, int]:
    places: dict[str, int] = {}
    for at in range(len(text) - size + 1):
        passage = text[at : at + size]
        places[passage] = -1 if passage in places else at
    return {passage: at for passage, at in places.items() if at >= 0}


def _longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs whose second numbers increase too (patience sorting)."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for i, (_, there) in enumerate(pairs):
        pile = bisect_left(ends, there)
        before.append(last[pile - 1] if pile else -1)
        if pile == len(ends):
            ends.append(there)
            last.append(i)
        else:
            ends[pile], last[pile] = there, i
    run = []
    i = last[-1] if last else -1
    while i >= 0:
        run.append(pairs[i])
        i = before[i]
    return run[::-1]
