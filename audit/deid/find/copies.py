"""Aligns the copies of notes that a model wrote with the notes, to bring its tags back to them.

A file of outputs has one `{"doc_id", "output"}` a line. Torch-free.
"""

from __future__ import annotations

import json
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

from pydantic import ConfigDict, Field

from audit.deid.find.borders import extend_to_words
from audit.deid.find.windows import Window, join_windows
from audit.errors import AuditError, Message
from audit.notes.folding import FoldedText, fold_text
from audit.notes.formats import (
    GOLD,
    MALFORMED,
    PREDICTED,
    ScannedTags,
    flatten_spans,
    format_jsonl_line,
    read_notes,
    read_numbered_lines,
    refuse_duplicate,
    scan_tags,
)
from audit.notes.sentences import find_sentences
from audit.notes.spans import Span, TaggedDocument, Tags, merge_spans
from audit.progress import StopQuestion
from audit.shelf import JSON, create_file, json_line
from audit.stats import Rate
from audit.task import Record

_ANCHORS = (48, 24, 12, 6)
"""Lengths of passages that anchor the alignment of two texts, the longest first."""
_MAX_CELLS = 4_000_000
"""A gap larger than this (characters of one text times the other's) is left unaligned."""


class Folded(NamedTuple):
    """A text folded for comparison: its folded characters, and the place of each in the text.

    `position[i]` is the place of `chars[i]` in the text; `first[p]` is where character p begins in
    `chars` (one more entry than the text has characters).
    """

    chars: str
    position: list[int]
    first: list[int]


class Block(NamedTuple):
    """Characters `a` to `a_end` of the copy correspond to `b` to `b_end` of the source.

    `is_equal` blocks have the same length and are equal after folding. In other blocks the text was
    replaced, inserted (b == b_end) or left out (a == a_end).
    """

    a: int
    a_end: int
    b: int
    b_end: int
    is_equal: bool


@lru_cache(maxsize=65_536)
def _fold_char(char: str) -> str:
    if char.isspace():
        return " "
    if not fold_text(char).text:  # it is invisible, and models do not copy it reliably
        return ""
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).casefold())
    return "".join(" " if c.isspace() else c for c in plain) or char


def fold(text: str) -> Folded:
    """Fold a text for comparison: NFKD of each character, no case, white space as spaces."""
    chars = [_fold_char(char) for char in text]
    position = [i for i, plain in enumerate(chars) for _ in plain]
    return Folded("".join(chars), position, [0, *accumulate(map(len, chars))])


def align(copy: str, source: str) -> list[Block]:
    """Align two folded texts; the blocks cover both, in order.

    Passages that occur once in both texts are anchors, the longest first, as far as their order
    agrees. The text between anchors is aligned by longest common pieces. Time and memory are
    bounded even for long texts with many repetitions.
    """
    blocks: list[Block] = []
    a = b = 0
    ends = (len(copy), len(source), 0)
    for a_start, b_start, n_chars in [*_matches(copy, source, _ANCHORS), ends]:
        if a_start > a or b_start > b:
            blocks.append(Block(a, a_start, b, b_start, is_equal=False))
        a, b = a_start + n_chars, b_start + n_chars
        if n_chars:
            blocks.append(Block(a_start, a, b_start, b, is_equal=True))
    return blocks


_Match = tuple[int, int, int]
"""Place in the copy, place in the source, length of an equal piece."""


def _matches(a: str, b: str, anchors: Sequence[int]) -> Iterator[_Match]:
    """Yield equal pieces of two texts in order: a common beginning, the middle, a common end."""
    head = _n_common(a, b)
    tail = _n_common(a[head:][::-1], b[head:][::-1])
    end_a, end_b = len(a) - tail, len(b) - tail
    if head:
        yield 0, 0, head
    if head < end_a and head < end_b:
        for a_start, b_start, n_chars in _match_gap(a[head:end_a], b[head:end_b], anchors):
            yield head + a_start, head + b_start, n_chars
    if tail:
        yield end_a, end_b, tail


def _n_common(a: str, b: str) -> int:
    """Return the length of the common beginning of two texts."""
    return next(
        (n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )


def _match_gap(a: str, b: str, anchors: Sequence[int]) -> Iterator[_Match]:
    for n, size in enumerate(anchors):
        if not (anchor_places := _find_anchors(a, b, size=size)):
            continue
        a_end = b_end = 0  # the ends of the aligned texts so far
        for a_anchor, b_anchor in [*anchor_places, (len(a), len(b))]:
            if a_anchor < a_end or b_anchor < b_end:
                continue
            gaps = a[a_end:a_anchor], b[b_end:b_anchor]
            for a_start, b_start, n_chars in _matches(*gaps, anchors[n:]):
                yield a_end + a_start, b_end + b_start, n_chars
            if n_chars := _n_common(a[a_anchor:], b[b_anchor:]):
                yield a_anchor, b_anchor, n_chars
            a_end, b_end = a_anchor + n_chars, b_anchor + n_chars
        return
    if len(a) * len(b) <= _MAX_CELLS:
        for piece in SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks():
            if piece.size:
                yield piece


_Run: TypeAlias = "tuple[_Run | None, tuple[int, int]]"
"""The run but its last pair, and that pair."""


def _find_anchors(a: str, b: str, *, size: int) -> list[tuple[int, int]]:
    """Return the places of passages that occur once in each text, as far as their order agrees.

    These are the longest run whose places increase in both texts (patience sorting).
    """
    in_a, in_b = _find_unique_passages(a, size), _find_unique_passages(b, size)
    pairs = [(start, in_b[passage]) for passage, start in in_a.items() if passage in in_b]
    ends: list[int] = []
    runs: list[_Run | None] = [None]  # for each length: the shorter run, and the last pair
    for pair in pairs:
        pile = bisect_left(ends, pair[1])
        ends[pile : pile + 1] = [pair[1]]
        runs[pile + 1 : pile + 2] = [(runs[pile], pair)]
    run: list[tuple[int, int]] = []
    rest = runs[-1]
    while rest:
        rest, pair = rest
        run.append(pair)
    return run[::-1]


def _find_unique_passages(text: str, size: int) -> dict[str, int]:
    """Return the passages that occur once in a text, in their order, and where they begin."""
    passages = [text[start : start + size] for start in range(len(text) - size + 1)]
    n_places = Counter(passages)
    return {passage: start for start, passage in enumerate(passages) if n_places[passage] == 1}


EXACT, NORMALISED, EDITED, TRUNCATED, EMPTY = STATUSES = (
    "exact",
    "normalised",
    "edited",
    "truncated",
    "empty",
)
"""The relation of a copy to its note: equal; equal after NFKC and folded white space; different;
lacking more than the last 5 % of the note; empty."""

_MAX_TAIL = 0.05
_MIN_MATCHED = 0.5
_Pair = tuple[TaggedDocument, TaggedDocument]
_EDITS = ("n_inserted", "n_deleted", "n_substituted")


@dataclass(frozen=True)
class Alignment:
    """A model's output, aligned with its note.

    `spans` are places in the note, sorted, each once; `unaligned` are the labels of spans without a
    place. `uncopied` are the sentences of the note that the output does not contain. `edits` count
    folded characters. Differs: they are counted from this alignment, so they can exceed the minimum
    edit distance.
    """

    status: str
    spans: tuple[Span, ...]
    uncopied: tuple[Window, ...]
    unaligned: tuple[str, ...]
    census: Counter[str]
    edits: Counter[str]


def align_output(
    output: str | ScannedTags, source: str, *, labels: Collection[str] = ()
) -> Alignment:
    """Read a model's output and bring its spans back to the text that it should have copied.

    A span is mapped through the character alignment if at least half of its characters match and
    its length at most doubles, plus 4. Otherwise its exact text is searched for between the places
    of its neighbours. If that fails too, the span is unaligned. `labels` are labels of tags other
    than the five types.
    """
    scanned = scan_tags(output, source=source, labels=labels) if isinstance(output, str) else output
    folded_copy, folded_source = fold(scanned.plain), fold(source)
    blocks = align(folded_copy.chars, folded_source.chars)
    places = [
        _map_span(span, blocks, copy=folded_copy, source=folded_source) for span in scanned.spans
    ]
    runs = _equal_runs(blocks, folded_copy, folded_source)
    spans, unaligned = _search_unplaced(scanned.spans, places, copy=scanned.plain, source=source)
    return Alignment(
        status=_judge_status(
            scanned.plain, source, blocks=blocks, n_source=len(folded_source.chars)
        ),
        spans=tuple(sorted(spans)),
        uncopied=_find_uncopied(source, folded=folded_source, runs=runs),
        unaligned=tuple(unaligned),
        census=scanned.census,
        edits=_count_edits(blocks),
    )


_LEAST_RUN = 24
"""The least number of consecutive equal characters that count as copied: shorter runs occur by
chance in any text of a model."""


def _equal_runs(blocks: Iterable[Block], copy: Folded, source: Folded) -> list[tuple[int, int]]:
    """Return the stretches of the folded source that the copy repeats, white space aside."""
    runs, start, end = [], 0, 0
    for block in blocks:
        texts = copy.chars[block.a : block.a_end], source.chars[block.b : block.b_end]
        if not block.is_equal and any(map(str.strip, texts)):
            runs.append((start, end))
            start = block.b_end
        end = block.b_end
    return [*runs, (start, end)]


def _find_uncopied(
    source: str, *, folded: Folded, runs: Sequence[tuple[int, int]]
) -> tuple[Window, ...]:
    """Return the sentences of a source that no run covers in full.

    A run covers a sentence if it extends beyond both of its ends, or to an end of the source: text
    that a model changed, left out or inserted at an end belongs to the sentence too.
    """
    n_chars = len(folded.chars)
    long_runs = [run for run in runs if run[1] - run[0] >= min(_LEAST_RUN, n_chars)]
    starts = [start for start, _ in long_runs]
    sentences: list[Window] = []
    was_copied = True
    for start, end in find_sentences(source):
        first, last = folded.first[start], folded.first[end]
        number = bisect_left(starts, max(first, 1)) - 1
        reached = long_runs[number][1] if number >= 0 else 0
        is_copied = last < reached or (last == reached == n_chars)
        if not is_copied and not was_copied:
            sentences[-1] = Window(sentences[-1].start, end)
        elif not is_copied:
            sentences.append(Window(start, end))
        was_copied = is_copied
    return tuple(sentences)


def _find_forced(source: str, places: Iterable[int]) -> list[Window]:
    """Return the sentences of a source that a model would have left at some places."""
    sentences = [Window(*sentence) for sentence in find_sentences(source)]
    ends = [sentence.end for sentence in sentences]
    numbers = {min(bisect_right(ends, place), len(ends) - 1) for place in places}
    return [sentences[number] for number in sorted(numbers)] if sentences else []


def _map_span(span: Span, blocks: Iterable[Block], *, copy: Folded, source: Folded) -> Span | None:
    """Return the place in the note of a span of the copy; None if it has none."""
    a, a_end = copy.first[span.start], copy.first[span.end]
    parts, n_equal = [], 0
    for block in blocks:
        if block.a < a_end and a < block.a_end:
            start = min(block.b_end, block.b + max(a - block.a, 0))
            end = max(block.b, block.b_end - max(block.a_end - a_end, 0))
            if start < end:
                parts.append((start, end))
                n_equal += (end - start) * block.is_equal
    if not parts or n_equal < _MIN_MATCHED * (a_end - a):
        return None
    low, high = parts[0][0], parts[-1][1]
    # A character that the copy lost at an edge is included if its script is that of its neighbour:
    # in 氏名：山田 a lost 山 goes with 田, but a lost ： does not.
    chars = source.chars
    for block in blocks:
        if block.a == block.a_end and a <= block.a <= a_end:
            while block.b < low <= block.b_end and _is_same_script(chars[low - 1], chars[low]):
                low -= 1
            while block.b <= high < block.b_end and _is_same_script(chars[high], chars[high - 1]):
                high += 1
    start, end = source.position[low], source.position[high - 1] + 1
    return Span(start, end, span.label) if end - start <= 2 * span.n_chars + 4 else None


def _is_same_script(char: str, neighbour: str) -> bool:
    """Whether two characters of names, numbers or words are of one script."""
    return _script_of(char) == _script_of(neighbour) != ""


def _script_of(char: str) -> str:
    if char.isdigit():
        return "digit"
    if not char.isalpha() and char != "ー":
        return ""
    return unicodedata.name(char, "").partition(" ")[0].partition("-")[0]


def _search_unplaced(
    spans: Sequence[Span], places: list[Span | None], *, copy: str, source: str
) -> tuple[set[Span], list[str]]:
    """Search for the exact text of spans without a place between the places of their neighbours."""
    placed_spans = set(filter(None, places))
    unaligned = []
    for i, span in enumerate(spans):
        if places[i]:
            continue
        low = max((place.end for place in places[:i] if place), default=0)
        high = min((place.start for place in places[i + 1 :] if place), default=len(source))
        start = source.find(copy[span.start : span.end], low, high)
        place = Span(start, start + span.n_chars, span.label) if start >= 0 else None
        if place and place not in placed_spans:
            places[i] = place
            placed_spans.add(place)
        else:
            unaligned.append(span.label)
    return placed_spans, unaligned


def _judge_status(copy: str, source: str, *, blocks: Sequence[Block], n_source: int) -> str:
    if copy == source:
        return EXACT
    if not copy.strip():
        return EMPTY
    copy_words, source_words = (
        unicodedata.normalize("NFKC", text).split() for text in (copy, source)
    )
    if copy_words == source_words:
        return NORMALISED
    reached = max((block.b_end for block in blocks if block.is_equal), default=0)
    return TRUNCATED if n_source - reached > _MAX_TAIL * n_source else EDITED


def _count_edits(blocks: Iterable[Block]) -> Counter[str]:
    counts = Counter(dict.fromkeys((*_EDITS, "n_source_chars"), 0))
    for a, a_end, b, b_end, is_equal in blocks:
        n, m = a_end - a, b_end - b
        counts["n_source_chars"] += m
        if not is_equal:
            counts.update(
                n_inserted=max(0, n - m), n_deleted=max(0, m - n), n_substituted=min(n, m)
            )
    return counts


_UNCOPIED = "uncopied"

ShareListener = Callable[[float], None]
"""Receives the share of a call that is done, 0-1."""


class Piece(NamedTuple):
    """What a model wrote about the characters `start` to `end` (exclusive) of a note.

    The output is a text with tags, or one whose tags were read already. At the places `forced` in
    these characters the model would have left the note, had it not been held to it.
    """

    start: int
    end: int
    output: str | ScannedTags
    forced: tuple[int, ...] = ()


@dataclass(frozen=True)
class CopyReading:
    """A note read through its copies; `edits` and `census` (of tags) cover all windows together.

    The spans of the document may be nested, those of `tags` are not, as in any tagger. `status` is
    the worst status of all windows. `uncopied` are the stretches of the note that the model did not
    copy of its own accord, or that are in no window; they are disjoint and in order.
    """

    document: TaggedDocument
    tags: Tags
    uncopied: tuple[Window, ...]
    status: str
    edits: Counter[str]
    census: Counter[str]

    def to_source(self, note: TaggedDocument, folded: FoldedText) -> CopyReading:
        """Return the reading of a folded note as one of the note itself; tags cover whole words."""
        spans = folded.source_spans(self.document.spans)
        tags = extend_to_words(folded.text, self.tags)
        return replace(
            self,
            document=note.with_spans(spans, unaligned=self.document.unaligned),
            tags=folded.source_spans(tags),
            uncopied=tuple(Window(*folded.source_place(a, b)) for a, b in self.uncopied),
        )

    def line(self) -> dict[str, JSON]:
        """Return the line that is kept for a note, without its text."""
        return {
            "doc_id": self.document.doc_id,
            "status": self.status,
            "edits": self.edits,
            "tags": {
                **{name: self.census[name] for name in ("n_tags", *MALFORMED)},
                "n_malformed": sum(self.census[kind] for kind in MALFORMED),
            },
            "unaligned": list(self.document.unaligned),
            "uncopied": [list(stretch) for stretch in self.uncopied],
        }

    def with_tags(self, tags: Tags) -> CopyReading:
        """Return the reading with other spans; the facts about the copy stay."""
        document = self.document.with_spans(tags, unaligned=self.document.unaligned)
        return replace(self, document=document, tags=tags)


def worst_reading(readings: Sequence[CopyReading]) -> CopyReading:
    """Return the copies of one note by several models as one reading with the worst of each fact.

    The spans are those of the first reading.
    """
    edits, census = _count_edits(()), Counter[str]()
    for reading in readings:
        edits.update(reading.edits)
        census.update(reading.census)
    return replace(
        readings[0],
        uncopied=_merged_windows([stretch for reading in readings for stretch in reading.uncopied]),
        status=max((reading.status for reading in readings), key=STATUSES.index),
        edits=edits,
        census=census,
    )


def _merged_windows(stretches: Iterable[Window]) -> tuple[Window, ...]:
    spans = [Span(start, end, _UNCOPIED) for start, end in stretches]
    return tuple(Window(*stretch) for stretch in merge_spans(spans))


@runtime_checkable
class CopyingTagger(Protocol):
    """A tagger that writes copies of notes."""

    @property
    def n_notes_at_once(self) -> int:
        """The most notes for one call."""

    def read(
        self,
        notes: Sequence[TaggedDocument],
        *,
        should_stop: StopQuestion = lambda: False,
        on_share: ShareListener = lambda share: None,
    ) -> Sequence[CopyReading]:
        """Read notes and ignore their spans; report the share of notes that are done, 0-1."""


def read_pieces(
    note: TaggedDocument, pieces: Sequence[Piece], *, labels: Collection[str] = ()
) -> CopyReading:
    """Bring the spans of a note's copies back to the note.

    The pieces are in the order of the note. A stretch that no piece covers has no spans and counts
    as not copied.
    """
    windows = [Window(piece.start, piece.end) for piece in pieces]
    alignments, flat, edits, census = [], [], _count_edits(()), Counter[str]()
    uncopied: list[Window] = []
    reached = 0
    for piece in [*pieces, Piece(len(note.text), len(note.text), "")]:
        if note.text[reached : piece.start].strip():
            uncopied.append(Window(reached, piece.start))
        reached = max(reached, piece.end)
    for piece in pieces:
        text = note.text[piece.start : piece.end]
        alignment = align_output(piece.output, text, labels=labels)
        alignments.append(alignment)
        missing = [*alignment.uncopied, *_find_forced(text, piece.forced)]
        uncopied += [Window(a + piece.start, b + piece.start) for a, b in missing]
        flat.append(flatten_spans(TaggedDocument(note.doc_id, text, alignment.spans)).spans)
        edits.update(alignment.edits)
        census.update(alignment.census)
    tags = join_windows(windows, flat, n_chars=len(note.text))
    is_whole = windows == [Window(0, len(note.text) or 1)]
    statuses = [alignment.status for alignment in alignments]
    lost = [label for alignment in alignments for label in alignment.unaligned]
    return CopyReading(
        document=note.with_spans(alignments[0].spans if is_whole else tags, unaligned=lost),
        tags=tags,
        uncopied=_merged_windows(uncopied),
        status=max(statuses or [EMPTY if note.text.strip() else EXACT], key=STATUSES.index),
        edits=edits,
        census=census,
    )


COPIES, PREDICTIONS = "copies.jsonl", "predicted.jsonl"
OUTPUTS: Final = "outputs"
"""The name of the copies that another system wrote into a file."""


class OutputLine(Record):
    """What a model wrote about a note."""

    model_config = ConfigDict(extra="ignore")

    doc_id: Annotated[str, Field(min_length=1)] | int
    output: str


class Output(NamedTuple):
    """What a model wrote about a note, and the line of the file in which it stands."""

    text: str
    line: int


def read_outputs(path: Path, *, subject: str) -> dict[str, Output]:
    """Return the outputs of a file by the names of their notes; errors as in `parse_outputs`."""
    return parse_outputs(read_numbered_lines(path, subject), subject=subject)


def parse_outputs(lines: Iterable[tuple[int, str]], *, subject: str) -> dict[str, Output]:
    """Return the outputs in numbered lines by the names of their notes.

    Raises
    ------
    AuditError
        If a line cannot be read or its note was named before, with its number; if there is none.
    """
    outputs: dict[str, Output] = {}
    doc_ids: set[str] = set()
    for number, raw_line in lines:
        place = Message("{subject}, line {number}", subject=subject, number=number)
        line = OutputLine.read(raw_line, where=place)
        refuse_duplicate(str(line.doc_id), doc_ids, place=place)
        outputs[str(line.doc_id)] = Output(line.output, number)
    if not outputs:
        raise AuditError("There is no note in it.", where=subject)
    return outputs


def no_common_note(subject: str) -> AuditError:
    """Return the error for a file of outputs of which none belongs to a note."""
    return AuditError(
        "The two files have no note in common.",
        where=subject,
        do="Give every note the same `doc_id` in both files.",
    )


def align_outputs(gold: Path, outputs: Path, *, folder: Path) -> int:
    """Align a model's outputs with the gold notes; write `PREDICTIONS` and `COPIES` to a folder.

    Returns the number of outputs without a gold note: these cannot be judged.
    """
    # Tags with any label of the gold notes are accepted.
    labels = {span.label for note in read_notes(gold, GOLD) for span in note.spans}
    outputs_by_id = read_outputs(outputs, subject=PREDICTED)
    n_outputs = len(outputs_by_id)
    with create_file(folder / PREDICTIONS) as predictions, create_file(folder / COPIES) as copies:
        for note in read_notes(gold, GOLD):
            if note.doc_id in outputs_by_id:
                output = outputs_by_id.pop(note.doc_id)
                pieces = [Piece(0, len(note.text), output.text)] if note.text else []
                reading = read_pieces(note, pieces, labels=labels)
                predictions.write(
                    format_jsonl_line(reading.document).encode("utf-8", "surrogatepass")
                )
                copies.write(json_line(reading.line()))
    if len(outputs_by_id) == n_outputs:
        raise no_common_note("predicted notes")
    return len(outputs_by_id)


def n_chars_of(stretches: Iterable[Sequence[int]]) -> int:
    """Return the total length of stretches (start, end) in characters."""
    return sum(end - start for start, end in stretches)


class CopiesSummary(Record):
    """How faithful the copies of a set are.

    A note in several windows has the worst of their statuses. The error rate is per character, None
    without any. `tags` is the census of all tags.
    """

    n_notes: int
    statuses: dict[str, int]
    pooled_error_rate: float | None
    n_unaligned: int
    n_uncopied_notes: int
    n_uncopied_chars: int
    n_malformed: int
    tags: dict[str, int]

    @property
    def malformed_tags(self) -> dict[str, Rate]:
        """The rates of malformed tags by kind.

        An opening tag counts as one tag with its closing tag; a stray or unknown tag counts as one.
        """
        n_tags = sum(self.tags[name] for name in ("n_tags", "n_stray", "n_unknown"))
        return {kind: Rate(self.tags[kind], n_tags) for kind in MALFORMED}


class Copies:
    """Facts about the copies of a set: sums over its notes, and the notes with exact copies."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.exact: set[str] = set()

    def add(self, line: Mapping[str, Any]) -> None:
        """Add the line of a note's copy."""
        status = line["status"]
        self.sums.update(line["edits"] | line["tags"])
        n_unaligned = len(line["unaligned"])
        self.sums.update({"n_notes": 1, f"status {status}": 1, "n_unaligned": n_unaligned})
        n_uncopied = n_chars_of(line["uncopied"])
        self.sums.update({"n_uncopied_notes": int(n_uncopied > 0), "n_uncopied_chars": n_uncopied})
        if status == EXACT:
            self.exact.add(str(line["doc_id"]))

    def keep_verbatim(self, pairs: Iterable[_Pair]) -> Iterator[_Pair]:
        """Yield gold and predicted notes; notes without an exact copy have no predicted spans."""
        for gold, predicted in pairs:
            yield gold, predicted if gold.doc_id in self.exact else gold.with_spans(())

    def summary(self) -> CopiesSummary:
        """Return how faithful the copies are."""
        sums = self.sums
        n_chars = sums["n_source_chars"]
        return CopiesSummary(
            n_notes=sums["n_notes"],
            statuses={status: sums[f"status {status}"] for status in STATUSES},
            pooled_error_rate=sum(sums[name] for name in _EDITS) / n_chars if n_chars else None,
            n_unaligned=sums["n_unaligned"],
            n_uncopied_notes=sums["n_uncopied_notes"],
            n_uncopied_chars=sums["n_uncopied_chars"],
            n_malformed=sums["n_malformed"],
            tags={name: sums[name] for name in ("n_tags", *MALFORMED)},
        )


def read_copies(folder: Path) -> Copies:
    """Read the `COPIES` of a folder."""
    copies = Copies()
    try:
        with (folder / COPIES).open("rb") as lines:
            for line in lines:
                copies.add(json.loads(line.decode("utf-8", "surrogatepass")))
    except (OSError, ValueError, KeyError, TypeError):
        raise AuditError("The tagger's copies cannot be read.", where="predicted notes") from None
    return copies
