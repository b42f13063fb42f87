"""A model's own texts beside the gold notes: its tags brought back to the notes, one by one.

`{"doc_id", "output"}` a line; or, where a note was read in windows, `{"doc_id", "outputs":
[{"start", "end", "output"}]}` as in the `copies.jsonl` of `deid tag --keep-outputs`. Torch-free.
"""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

from audit.deid.tagger import Tags, Window, from_windows
from audit.errors import AuditError
from audit.notes.formats import (
    GOLD,
    PREDICTED,
    TagCensus,
    flattened,
    numbered_lines,
    opened,
    read_line,
    refuse_twice,
    scan_tags,
)
from audit.notes.spans import Span, TaggedDocument, tagged
from audit.progress import StopQuestion
from audit.stats import Rate

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

    `spans` are on the note, sorted, each once; `unaligned` are spans on the copy that have no place
    in it. `copy` is the output without its tags: to be shown, never to be released.
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


def align_output(output: str, note: TaggedDocument, *, labels: Collection[str] = ()) -> Alignment:
    """Read a model's output and bring its spans back to the note it should have copied.

    A span is mapped through the character alignment if at least half of its characters are found
    there and it does not grow beyond twice its length and 4; else it is sought, as it is written,
    between the places of its neighbours; else it is unaligned. Spans that the note has are ignored;
    `labels` are those of tags beside the five types.
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


ShareListener = Callable[[float], None]
"""Told which share of a call is done, 0-1."""


@dataclass(frozen=True)
class Piece:
    """What a model wrote about the characters of a window."""

    window: Window
    output: str


@dataclass(frozen=True)
class CopyReading:
    """A note read through its copies (`pieces`); `edits` and `census` are of all together.

    Attributes
    ----------
    document
        The note with its spans, which may be nested; spans without a place in it are spurious.
    tags
        The same spans as a tagger gives them: none sharing a character with another.
    verbatim
        The note with its spans if every copy is exact, else without any.
    status
        The worst of the windows' statuses, in the order of `STATUSES`.
    """

    document: TaggedDocument
    tags: Tags
    verbatim: TaggedDocument
    status: str
    edits: Edits
    census: TagCensus
    pieces: tuple[Piece, ...]

    def line(self, *, with_outputs: bool = False) -> dict[str, Any]:
        """Return what is kept of a note; outputs hold the note's text and names."""
        n_malformed = self.census.n_malformed
        line: dict[str, Any] = {
            "doc_id": self.document.doc_id,
            "status": self.status,
            "n_windows": len(self.pieces),
            "error_rate": None if not self.edits.n_source_chars else self.edits.error_rate,
            "edits": asdict(self.edits),
            "tags": asdict(self.census) | {"n_malformed": n_malformed},
            "unaligned": list(self.document.unaligned),
        }
        if with_outputs:
            line["outputs"] = [
                {"start": one.window.start, "end": one.window.end, "output": one.output}
                for one in self.pieces
            ]
        return line


@runtime_checkable
class CopyingTagger(Protocol):
    """A tagger that writes copies; `n_notes_at_once` are given to it in one call at most."""

    @property
    def n_notes_at_once(self) -> int:
        """How many notes it is given at most."""

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> Sequence[CopyReading]:
        """Read notes; spans they have are ignored. It tells which share of them is done, 0-1."""


def read_pieces(
    note: TaggedDocument, pieces: Sequence[Piece], *, labels: Collection[str] = ()
) -> CopyReading:
    """Bring the spans of a note's copies back to it.

    The pieces stand in the order of the note; a stretch that is in none of them has no span.
    """
    if any(piece.window.end > len(note.text) for piece in pieces):
        raise ValueError("a window ends behind the note")
    found = [_aligned(note, piece, labels=labels) for piece in pieces]
    flat = [flattened(one.aligned()).spans for one in found]
    tags = from_windows([piece.window for piece in pieces], flat, n_chars=len(note.text))
    is_whole = len(pieces) == 1 and pieces[0].window == Window(0, max(1, len(note.text)))
    spans = found[0].spans if is_whole else tags
    unaligned = [span.label for one in found for span in one.unaligned]
    status = max(
        (one.status for one in found),
        key=STATUSES.index,
        default=EMPTY if note.text.strip() else EXACT,
    )
    document = tagged(
        note.doc_id, text=note.text, spans=spans, patient_id=note.patient_id, unaligned=unaligned
    )
    return CopyReading(
        document=document,
        tags=tags,
        verbatim=document if status == EXACT else note.with_spans(()),
        status=status,
        edits=Edits(*map(sum, zip(*(astuple(one.edits) for one in found), strict=True))),
        census=sum((one.census for one in found), TagCensus()),
        pieces=tuple(pieces),
    )


def _aligned(note: TaggedDocument, piece: Piece, *, labels: Collection[str]) -> Alignment:
    window = piece.window
    part = TaggedDocument(doc_id=note.doc_id, text=note.text[window.start : window.end])
    return align_output(piece.output, part, labels=labels)


def numbers_of(line: Mapping[str, Any]) -> dict[str, float]:
    """Return what is added up over notes, from a line of `copies.jsonl` (`CopyReading.line`)."""
    edits, tags, rate = line["edits"], line["tags"], line["error_rate"]
    numbers: dict[str, float] = {
        "n_notes": 1,
        "n_windows": line["n_windows"],
        f"status {line['status']}": 1,
        "n_edits": edits["n_inserted"] + edits["n_deleted"] + edits["n_substituted"],
        "n_edits_inside": edits["n_inside"],
        "n_source_chars": edits["n_source_chars"],
        "n_notes_with_rate": int(rate is not None),
        "sum_error_rate": rate or 0.0,
        "n_notes_malformed": int(tags["n_malformed"] > 0),
        "n_malformed": tags["n_malformed"],
        "n_unaligned": len(line["unaligned"]),
    }
    return numbers | {f"tags {name}": n for name, n in tags.items() if name != "n_malformed"}


def added(sums: Mapping[str, float], numbers: Mapping[str, float]) -> dict[str, float]:
    """Return the sum of two sets of numbers."""
    return {name: sums.get(name, 0) + numbers.get(name, 0) for name in {**sums, **numbers}}


def copies_summary(sums: Mapping[str, float]) -> dict[str, Any]:
    """Return how faithful copies are, n beside every rate; shares 0-1, null where undefined.

    `faithful` is the share of exact copies, `error_rate` the mean of the notes' character error
    rates, `pooled_error_rate` that of all characters, `truncated` the share of copies without the
    end of their note, `malformed` the share of notes with a malformed tag. The statuses are those
    of `audit.deid.copies`; a note in windows has the worst of its windows.
    """
    n = int(sums.get("n_notes", 0))
    by_status = {status: int(sums.get(f"status {status}", 0)) for status in STATUSES}
    faithful, truncated = Rate(by_status[EXACT], n), Rate(by_status[TRUNCATED], n)
    malformed = Rate(int(sums.get("n_notes_malformed", 0)), n)
    n_rated, n_chars = sums.get("n_notes_with_rate", 0), sums.get("n_source_chars", 0)
    return {
        "n_notes": n,
        "n_windows": int(sums.get("n_windows", 0)),
        "statuses": by_status,
        "faithful": _share(faithful),
        "truncated": _share(truncated),
        "malformed": _share(malformed),
        "error_rate": sums["sum_error_rate"] / n_rated if n_rated else None,
        "pooled_error_rate": sums["n_edits"] / n_chars if n_chars else None,
        "n_edits": int(sums.get("n_edits", 0)),
        "n_edits_inside": int(sums.get("n_edits_inside", 0)),
        "n_characters": int(n_chars),
        "n_unaligned": int(sums.get("n_unaligned", 0)),
        "n_malformed": int(sums.get("n_malformed", 0)),
        "tags": {
            name: int(sums.get(f"tags {name}", 0)) for name in asdict(TagCensus())
        },
    }  # fmt: skip


def _share(rate: Rate) -> dict[str, Any]:
    if not rate.n_total:
        return {"share": None, "n": 0, "of": 0, "interval": None}
    estimate = rate.interval()
    interval = [estimate.low, estimate.high]
    return {"share": rate.value, "n": rate.n_hits, "of": rate.n_total, "interval": interval}


_SHAPE = "A line is a JSON object with `doc_id` and `output`."


@dataclass
class OutputFiles:
    """The notes of two files; after iteration the attributes say what did not fit.

    In `n_gold_only` notes without an output every span counts as missed; `n_predicted_only` outputs
    without gold cannot be judged. `sums` are for `copies_summary`.
    """

    gold: Path
    outputs: Path
    n_gold_only: int = field(default=0, init=False)
    n_predicted_only: int = field(default=0, init=False)
    sums: dict[str, float] = field(default_factory=dict, init=False)
    _not_exact: set[str] = field(default_factory=set, init=False, repr=False)

    def __iter__(self) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
        """Yield (gold, note with the spans of its copy) in the order of the gold file."""
        self.n_gold_only, self.sums, self._not_exact = 0, {}, set()
        for gold, reading in self._readings():
            if reading is None:
                self.n_gold_only += 1
                self._not_exact.add(gold.doc_id)
                yield gold, gold.with_spans(())
                continue
            self.sums = added(self.sums, numbers_of(reading.line()))
            if reading.status != EXACT:
                self._not_exact.add(gold.doc_id)
            yield gold, reading.document

    def verbatim(self) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
        """After a whole iteration, yield the same without spans of copies that are not exact."""
        for gold, reading in self._readings(without=self._not_exact):
            yield gold, gold.with_spans(()) if reading is None else reading.verbatim

    def _readings(
        self, *, without: set[str] | None = None
    ) -> Iterator[tuple[TaggedDocument, CopyReading | None]]:
        left_out = without or set()
        labels = self._labels()
        with opened(self.gold, GOLD) as golds, opened(self.outputs, PREDICTED) as outputs:
            places = _places(outputs)
            n_outputs, n_common = len(places), 0
            seen: set[str] = set()
            for number, line, _ in numbered_lines(golds, what=GOLD):
                gold = read_line(line, what=GOLD, number=number)
                refuse_twice(gold.doc_id, seen, where=f"{GOLD}, line {number}")
                place = places.pop(gold.doc_id, None)
                n_common += place is not None
                if place is None or gold.doc_id in left_out:
                    yield gold, None
                else:
                    pieces = _pieces(outputs, place, note=gold)
                    yield gold, read_pieces(gold, pieces, labels=labels)
            self.n_predicted_only = len(places)
        if n_outputs and seen and not n_common:
            raise AuditError(
                "The two files have no note in common.",
                where="predicted notes",
                do="Give every note the same `doc_id` in both files.",
            )

    def _labels(self) -> set[str]:
        """Return the gold's labels: their tags are known, whatever they are called."""
        with opened(self.gold, GOLD) as golds:
            return {
                span.label
                for number, line, _ in numbered_lines(golds, what=GOLD)
                for span in read_line(line, what=GOLD, number=number).spans
            }


def _places(file: BinaryIO) -> dict[str, tuple[int, int]]:
    """Return for each note the number of its line and where in the file that begins."""
    places: dict[str, tuple[int, int]] = {}
    seen: set[str] = set()
    for number, line, offset in numbered_lines(file, what=PREDICTED):
        where = f"{PREDICTED}, line {number}"
        doc_id = _record(line, where=where).get("doc_id")
        if isinstance(doc_id, bool) or not isinstance(doc_id, str | int) or doc_id == "":
            raise AuditError("This line has no `doc_id`.", where=where, do=_SHAPE)
        refuse_twice(str(doc_id), seen, where=where)
        places[str(doc_id)] = number, offset
    return places


def _pieces(file: BinaryIO, place: tuple[int, int], *, note: TaggedDocument) -> list[Piece]:
    number, offset = place
    file.seek(offset)
    where = f"{PREDICTED}, line {number}"
    record = _record(file.readline().decode("utf-8-sig"), where=where)
    n_chars = len(note.text)
    if "outputs" not in record:
        given = [{"start": 0, "end": n_chars, "output": record["output"]}] if n_chars else []
    else:
        given = record["outputs"]
    try:
        pieces = [Piece(Window(one["start"], one["end"]), one["output"]) for one in given]
        windows = [piece.window for piece in pieces]
        if windows != sorted(windows) or any(one.end > n_chars for one in windows):
            raise ValueError("out of order, or behind the note")
        if not all(_is_plain(piece) for piece in pieces):
            raise ValueError("offsets or output of another type")
    except (ValueError, KeyError, TypeError):
        raise AuditError(
            "The windows of this line do not fit its note.",
            where=where,
            do="Give each window `start`, `end` and `output`, in the order of the note.",
        ) from None
    return pieces


def _is_plain(piece: Piece) -> bool:
    offsets = (piece.window.start, piece.window.end)
    return all(type(at) is int for at in offsets) and isinstance(piece.output, str)


def _record(line: str, *, where: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise AuditError("This line is no JSON object.", where=where, do=_SHAPE)
    is_list = isinstance(record.get("outputs"), list)
    if not is_list and not isinstance(record.get("output"), str):
        raise AuditError("This line has no `output`.", where=where, do=_SHAPE)
    return record
