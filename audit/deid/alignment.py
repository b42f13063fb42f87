"""Faithful alignment: spans that a model wrote into its copy of a note, brought back to the note.

The model's text is never released. Its copy is compared with the note, its spans are mapped back
character by character, and what has no place in the note is listed, not dropped.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass

from audit.deid.character_alignment import Block, Folded, align, fold
from audit.deid.documents import Span, TaggedDocument, tagged
from audit.deid.tags import TagCensus, scan_tags

EXACT, NORMALISED, EDITED, TRUNCATED, EMPTY = (
    "exact", "normalised", "edited", "truncated", "empty",
)  # fmt: skip
STATUSES = (EXACT, NORMALISED, EDITED, TRUNCATED, EMPTY)
"""How a copy relates to its note: equal; equal after NFKC and folded white space; other; without
counterpart for more than the last 5 % of the note; nothing."""

_MAX_TAIL = 0.05
_MIN_MATCHED = 0.5


@dataclass(frozen=True)
class Edits:
    """How a copy departs from its note, in characters as they are compared.

    `n_inside` of them are inside tags of the copy.
    """

    n_inserted: int = 0
    n_deleted: int = 0
    n_substituted: int = 0
    n_inside: int = 0
    n_source_chars: int = 0

    @property
    def error_rate(self) -> float:
        """Edits per character of the note; NaN for an empty note.

        Differs: counted from this alignment, so it can exceed the least number of edits.
        """
        n = self.n_inserted + self.n_deleted + self.n_substituted
        return n / self.n_source_chars if self.n_source_chars else float("nan")


@dataclass(frozen=True)
class Alignment:
    """What a model's output says about a note.

    Attributes
    ----------
    doc_id, text, patient_id
        The note, unchanged.
    status
        One of `STATUSES`.
    spans
        On the note, sorted, each once.
    unaligned
        Spans on the copy that have no place in the note.
    copy
        The output without its tags: to be shown, never to be released.
    census
        Malformed tags.
    edits
        How the copy departs from the note.
    """

    doc_id: str
    text: str
    patient_id: str | None
    status: str
    spans: tuple[Span, ...]
    unaligned: tuple[Span, ...]
    copy: str
    census: TagCensus
    edits: Edits

    def aligned(self) -> TaggedDocument:
        """Return the note with its spans; those without a place count as spurious predictions."""
        return tagged(
            self.doc_id,
            text=self.text,
            spans=self.spans,
            patient_id=self.patient_id,
            unaligned=[span.label for span in self.unaligned],
        )

    def verbatim(self) -> TaggedDocument:
        """Return the note with its spans if the copy is exact, else without any."""
        spans = self.spans if self.status == EXACT else ()
        return tagged(self.doc_id, text=self.text, spans=spans, patient_id=self.patient_id)


def align_output(output: str, note: TaggedDocument, *, labels: Collection[str] = ()) -> Alignment:
    """Read a model's output and bring its spans back to the note it should have copied.

    A span is mapped through the character alignment if at least half of its characters are found
    there and it does not grow beyond twice its length and 4; else it is sought, as it is written,
    between the places of its neighbours; else it is unaligned.

    Parameters
    ----------
    output
        What the model wrote.
    note
        The note; spans it has are ignored.
    labels
        Labels of tags beside the five types.
    """
    source = note.text
    scanned = scan_tags(output, source=source, labels=labels)
    copy, there = fold(scanned.plain), fold(source)
    blocks = align(copy.chars, there.chars)
    places = [_Map(blocks, copy=copy, source=there).place(span) for span in scanned.spans]
    found, unaligned = _searched(scanned.spans, places, copy=scanned.plain, source=source)
    return Alignment(
        doc_id=note.doc_id,
        text=source,
        patient_id=note.patient_id,
        status=_status(scanned.plain, source, blocks=blocks, n_source=len(there.chars)),
        spans=tuple(sorted(set(found))),
        unaligned=tuple(unaligned),
        copy=scanned.plain,
        census=scanned.census,
        edits=_edits(blocks, spans=scanned.spans, copy=copy, n_source=len(there.chars)),
    )


class _Map:
    """The way from the copy to the note."""

    def __init__(self, blocks: tuple[Block, ...], *, copy: Folded, source: Folded) -> None:
        self.blocks, self.copy, self.source = blocks, copy, source
        self.starts = [block.a for block in blocks]

    def place(self, span: Span) -> Span | None:
        """Return where a span of the copy stands in the note; None if it is not there."""
        a, a_end = self.copy.first[span.start], self.copy.first[span.end]
        low = high = -1
        n_equal = 0
        at = max(0, bisect_right(self.starts, a) - 1)
        while at > 0 and self.blocks[at - 1].a_end > a:
            at -= 1
        for block in self.blocks[at:]:
            if block.a >= a_end:
                break
            b, b_end = _part(block, a, a_end)
            if b == b_end:
                continue
            n_equal += (b_end - b) * block.is_equal
            low = b if low < 0 else min(low, b)
            high = max(high, b_end)
        if low < 0 or n_equal < _MIN_MATCHED * (a_end - a):
            return None
        low, high = self._with_lost_edges(low, high, a, a_end)
        start, end = self.source.position[low], self.source.position[high - 1] + 1
        if end - start > 2 * span.n_chars + 4:
            return None
        return Span(start, end, span.label)

    def _with_lost_edges(self, low: int, high: int, a: int, a_end: int) -> tuple[int, int]:
        """Take in a character that the copy lost at an edge, if it is of the kind next to it.

        At an edge nothing tells whether a lost character stood inside the tag; its kind does: in
        氏名：山田 the lost 山 goes with 田, and the lost ： does not.
        """
        chars = self.source.chars
        for block in self.blocks:
            if block.a != block.a_end or not a <= block.a <= a_end:
                continue
            if block.b_end == low:
                while low > block.b and _kind(chars[low - 1]) == _kind(chars[low]) != "":
                    low -= 1
            if block.b == high:
                while high < block.b_end and _kind(chars[high]) == _kind(chars[high - 1]) != "":
                    high += 1
        return low, high


def _part(block: Block, a: int, a_end: int) -> tuple[int, int]:
    """Return the source's part of a block for characters a to a_end of the copy."""
    low, high = max(a, block.a), min(a_end, block.a_end)
    if low >= high:
        return block.b, block.b
    if block.is_equal:
        return block.b + low - block.a, block.b + high - block.a
    n, m = block.a_end - block.a, block.b_end - block.b
    if n == m:  # replaced one by one
        return block.b + low - block.a, block.b + high - block.a
    start = block.b if low == block.a else block.b + min(m, low - block.a)
    end = block.b_end if high == block.a_end else block.b_end - min(m, block.a_end - high)
    return (start, end) if start < end else (block.b, block.b)


def _kind(char: str) -> str:
    """Return the script of a character of a name, number or word; "" for all others."""
    if char.isdigit():
        return "digit"
    if not char.isalpha() and char != "ー":
        return ""
    name = unicodedata.name(char, "")
    return name.partition(" ")[0].partition("-")[0]


def _searched(
    spans: tuple[Span, ...], places: list[Span | None], *, copy: str, source: str
) -> tuple[list[Span], list[Span]]:
    """Seek what has no place, as it is written, between its neighbours' places."""
    found = [place for place in places if place is not None]
    taken = set(found)
    unaligned = []
    for i, (span, place) in enumerate(zip(spans, places, strict=True)):
        if place is not None:
            continue
        before = max((p.end for p in places[:i] if p is not None), default=0)
        after = min((p.start for p in places[i + 1 :] if p is not None), default=len(source))
        at = source.find(copy[span.start : span.end], before, after)
        new = Span(at, at + span.n_chars, span.label) if at >= 0 else None
        if new is None or new in taken:
            unaligned.append(span)
        else:
            places[i] = new
            taken.add(new)
            found.append(new)
    return found, unaligned


def _status(copy: str, source: str, *, blocks: tuple[Block, ...], n_source: int) -> str:
    if copy == source:
        return EXACT
    if not copy.strip():
        return EMPTY
    if _normal(copy) == _normal(source):
        return NORMALISED
    reached = max((block.b_end for block in blocks if block.is_equal), default=0)
    return TRUNCATED if n_source - reached > _MAX_TAIL * n_source else EDITED


def _normal(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).split())


def _edits(
    blocks: tuple[Block, ...], *, spans: tuple[Span, ...], copy: Folded, n_source: int
) -> Edits:
    n_inserted = n_deleted = n_substituted = n_inside = 0
    inside = [(copy.first[span.start], copy.first[span.end]) for span in spans]
    for block in blocks:
        if block.is_equal:
            continue
        n, m = block.a_end - block.a, block.b_end - block.b
        n_substituted += min(n, m)
        n_inserted += max(0, n - m)
        n_deleted += max(0, m - n)
        if any(a <= block.a and block.a_end <= end for a, end in inside):
            n_inside += max(n, m)
    return Edits(n_inserted, n_deleted, n_substituted, n_inside, n_source)
