"""Prompts: passages and names as token ids, with one [MASK] for each word piece of a name.

Input: passages, candidates, a tokenizer. Output: integers only; the attacks that follow see no
text. Legend: N names, P passages, K the largest number of pieces of any name.

Source: Nakamura et al., section 4.2. Differs: the paper leaves names of several word pieces out;
here each piece has a mask of its own, so that Japanese and rare names are audited too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from audit.errors import AuditError
from audit.models.joined import build_joined_encoder
from audit.names.candidates import Candidates
from audit.names.spelling import (
    FIRST,
    LAST,
    NO_PART,
    NO_PIECE,
    PartPieces,
    PassageKind,
    part_pieces,
    token_ids,
)
from audit.notes.passages import Passage
from audit.stats import IntArray

ONE_SLOT = (("first",), ("last",))
"""Slots of passages that have a place for only one part of a name."""
NAME_ROOM = 16
"""Word pieces of a name for which every passage leaves room, if it can."""
_LEAST_TOKENS = 10  # of a passage, special tokens included


@dataclass(frozen=True)
class Template:
    """A passage cut at its name: token ids before, between and after the parts."""

    left: tuple[int, ...]
    between: tuple[int, ...]
    right: tuple[int, ...]

    def ids(self, n_pieces: tuple[int, int], *, mask: int) -> tuple[list[int], list[int]]:
        """Return token ids with a mask per piece, and the positions of the masks."""
        between = list(self.between) if n_pieces[0] and n_pieces[1] else []
        ids = [*self.left, *[mask] * n_pieces[0], *between, *[mask] * n_pieces[1], *self.right]
        first = len(self.left)
        second = first + n_pieces[0] + len(between)
        positions = [*range(first, first + n_pieces[0]), *range(second, second + n_pieces[1])]
        return ids, positions


def layout_key(n_pieces: IntArray, *, has_between: bool) -> tuple[int, int]:
    """Return the key of the forward pass in which a name with these numbers of pieces [2] is read.

    Names with equal totals share a pass if nothing stands between the parts.
    """
    first, second = int(n_pieces[0]), int(n_pieces[1])
    return (first, second) if has_between and second else (first + second, 0)


def part_columns(pieces: Sequence[PartPieces], *, has_between: Sequence[bool]) -> IntArray:
    """Return the column of evidence of each name's first and last part [N, 2]; -1: none.

    Parts that are read at the same masks of the same inputs, in every kind of passage, share a
    column: 10,000 names of the generator have some 1,700. A name that cannot be scored has none.
    """
    known_rows = np.flatnonzero(
        np.logical_and.reduce([kind_pieces.is_known for kind_pieces in pieces])
    )
    number = np.full((len(pieces[0].ids), 2), NO_PART, dtype=np.int64)
    n_numbers = 0
    for role in (FIRST, LAST):
        part_keys: list[IntArray] = []  # what tells two parts apart
        is_there = np.zeros(len(known_rows), dtype=np.bool_)
        for kind_pieces, between in zip(pieces, has_between, strict=True):
            n, roles = kind_pieces.n_pieces[known_rows], kind_pieces.roles[known_rows]
            slot = (roles[:, 1] == role).astype(np.int64)
            is_here = (roles == role).any(axis=1)
            is_there |= is_here
            is_apart = between & (n[:, 1] > 0)
            first, second = (
                np.where(is_apart, n[:, 0], n.sum(axis=1)),
                np.where(is_apart, n[:, 1], 0),
            )
            spelled = kind_pieces.ids[known_rows, slot]  # [n, K]
            key = np.stack([first, second, slot * n[:, 0], *spelled.T])
            part_keys += [is_here.astype(np.int64), *np.where(is_here, key, 0)]
        numbers = _number_rows(part_keys)
        number[known_rows, role] = np.where(is_there, n_numbers + numbers, NO_PART)
        n_numbers += int(numbers.max(initial=-1)) + 1
    # Number the parts in their order of appearance, name by name.
    flat = number.ravel()
    used, begins, place = np.unique(flat, return_index=True, return_inverse=True)
    rank = np.empty(len(used), dtype=np.int64)
    order = np.argsort(np.where(used == NO_PART, -1, begins))
    rank[order] = np.arange(len(used)) - (used[:1] == NO_PART).sum()
    return np.asarray(rank[place.reshape(-1)].reshape(-1, 2))


def _number_rows(columns: Sequence[IntArray]) -> IntArray:
    """Number the distinct rows of some columns [n], from 0 up."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        lowest = int(column.min(initial=0))
        width = int(column.max(initial=0)) - lowest + 1
        number = np.unique(number * width + column - lowest, return_inverse=True)[1].reshape(-1)
    return number


def make_templates(
    passages: Sequence[Passage], *, tokenizer: Any, max_tokens: int, n_name_tokens: int
) -> tuple[Template, ...]:
    """Tokenise P passages around the name's place, cut to what the model can hold.

    `max_tokens` is the longest row, special tokens and masks included; `n_name_tokens` is the most
    that a name needs, with what stands between its parts. If a passage is too long, its end is cut
    first. Then the text before the name is cut at its beginning, down to half of the room.
    """
    room = max_tokens - 2 - n_name_tokens
    if room < _LEAST_TOKENS - 2:
        raise AuditError(
            ("{max_tokens} tokens leave no room for a passage beside a name of {n_name_tokens}."),
            where="max_tokens",
            do="Raise the setting, or take a model with more positions.",
            max_tokens=max_tokens,
            n_name_tokens=n_name_tokens,
        )
    templates = []
    for passage in passages:
        left = token_ids(tokenizer, passage.left.rstrip())
        right = token_ids(tokenizer, passage.right, is_joined=True)
        keep_left = min(len(left), max(room // 2, room - len(right)))
        left = left[len(left) - keep_left :]
        right = right[: room - len(left)]
        between = _between_ids(passage.separator, tokenizer)
        templates.append(
            Template(
                left=(tokenizer.cls_token_id, *left),
                between=tuple(between),
                right=(*right, tokenizer.sep_token_id),
            )
        )
    return tuple(templates)


def _between_ids(separator: str, tokenizer: Any) -> list[int]:
    """Return the ids of what stands between the parts of a name besides white space."""
    return token_ids(tokenizer, separator.strip(), is_joined=not separator[:1].isspace())


def index_kinds(
    passages: Sequence[Passage], *, tokenizer: Any
) -> tuple[tuple[PassageKind, ...], IntArray]:
    """Return the distinct kinds of the passages, and each passage's kind [P] as an index."""
    is_marked = build_joined_encoder(tokenizer) is not None
    index: dict[tuple[PassageKind, bool], int] = {}
    kinds = map(PassageKind.from_passage, passages)
    kind_of_passage = [
        index.setdefault((kind, is_marked and kind.is_joined), len(index)) for kind in kinds
    ]
    return tuple(kind for kind, _ in index), np.array(kind_of_passage, dtype=np.int64)


@dataclass(frozen=True)
class PosteriorTask:
    """One scenario-2 question, as integers; the same for both models of a pair."""

    templates: tuple[Template, ...]  # P passages.
    kind_of_passage: IntArray  # [P] index into `pieces`.
    # For each kind of passage the names' word pieces, N names, listed ones first.
    pieces: tuple[PartPieces, ...]
    # [N, 2] each name's first and last part as a column 0 to U-1; -1: none
    # (`prompts.part_columns`).
    part_columns: IntArray
    # Listed names, with sums of the whole name; reference controls, known by parts, follow them.
    n_listed: int
    mask_id: int
    seed: int
    # Training mode (the paper's), or evaluation mode, which runs equal inputs only once.
    is_dropout_on: bool = True
    # Rows of one forward pass; part of the question, since dropout masks depend on it.
    micro_batch: int = 32
    # For each kind of passage the masks of a name of two single-piece parts, in the form of
    # `Layout.n_pieces`; (): names that are not listed have no evidence.
    pairs: tuple[tuple[int, int], ...] = ()

    name_fields: ClassVar = ("pieces", "part_columns", "n_listed")
    """Fields that the vocabulary's evidence does not depend on."""

    @property
    def has_names(self) -> bool:
        """Whether there are names, or only the vocabulary is read."""
        return len(self.part_columns) > 0

    @cached_property
    def layouts(self) -> tuple[tuple[Layout, ...], ...]:
        """What to read in each kind of passage."""
        return tuple(tuple(_group_layouts(self, kind)) for kind in range(len(self.pieces)))

    @cached_property
    def reads_vocabulary(self) -> bool:
        """Whether each kind of passage has two single masks: then all single pieces can be read."""
        n_pieces_by_kind = [
            [layout.n_pieces for layout in kind_layouts] for kind_layouts in self.layouts
        ]
        return bool(self.pairs) and all(map(list.__contains__, n_pieces_by_kind, self.pairs))

    @property
    def n_tokens(self) -> float:
        """Mean number of tokens of a passage."""
        return float(np.mean([len(t.left) + len(t.right) for t in self.templates]))

    def n_rows(self, kind: str, n: int) -> int:
        """Return about how many rows of forward passes `n` inputs take."""
        if kind == "chain":
            variants = (yield_variants(pieces, n_names=self.n_listed) for pieces in self.pieces)
            return n * max(
                sum(len(variant.fills) for variant in kind_variants) for kind_variants in variants
            )
        kinds, n_passages = np.unique(self.kind_of_passage, return_counts=True)
        n_layouts = [len(self.layouts[kind]) for kind in kinds.tolist()]
        return int(n * float((n_passages / n_passages.sum()) @ np.array(n_layouts)))


def make_posterior_task(
    names: Candidates,
    passages: Sequence[Passage],
    *,
    tokenizer: Any,
    max_tokens: int,
    **fields: Any,
) -> PosteriorTask:
    """Put scenario 2's question in integers.

    `max_tokens` is the longest row that both settings and models allow; `fields` are the other
    fields of `PosteriorTask`.
    """
    kinds, kind_of_passage = index_kinds(passages, tokenizer=tokenizer)
    pieces = tuple(part_pieces(names, kind=kind, tokenizer=tokenizer) for kind in kinds)
    betweens = [len(_between_ids(kind.separator, tokenizer)) for kind in kinds]
    # A name that cannot be scored needs no room. Room for `NAME_ROOM` pieces is left if possible,
    # so that passages are cut alike whatever the list.
    longest = max(int(p.n_pieces[p.is_known].sum(axis=1).max(initial=0)) for p in pieces)
    usual = min(NAME_ROOM, max_tokens - _LEAST_TOKENS - max(betweens))
    return PosteriorTask(
        templates=make_templates(
            passages,
            tokenizer=tokenizer,
            max_tokens=max_tokens,
            n_name_tokens=max(betweens) + max(longest, usual),
        ),
        kind_of_passage=kind_of_passage,
        pieces=pieces,
        part_columns=part_columns(pieces, has_between=[n > 0 for n in betweens]),
        mask_id=tokenizer.mask_token_id,
        pairs=tuple(
            layout_key(np.array([1, kind.slots not in ONE_SLOT]), has_between=n > 0)
            for kind, n in zip(kinds, betweens, strict=True)
        ),
        **fields,
    )


@dataclass(frozen=True)
class Layout:
    """What to read where names have one layout of masks: G distinct parts, C listed names."""

    n_pieces: tuple[int, int]  # Masks before and after what stands between the parts.
    parts: IntArray  # [G] columns of evidence.
    reads: IntArray  # [3, K] which pieces are read: place in `parts`, mask, piece.
    # [C] listed names, and [C, 2] the places of their parts in `parts`; G for a missing one.
    listed: IntArray
    pairs: IntArray


def _group_layouts(task: PosteriorTask, kind: int) -> list[Layout]:
    """Group the names of one kind of passage by their layout of masks.

    Where nothing stands between the parts, names with the same total number of pieces share one
    forward pass.
    """
    pieces = task.pieces[kind]
    template = task.templates[int(np.flatnonzero(task.kind_of_passage == kind)[0])]
    groups: dict[tuple[int, int], list[int]] = {}
    if not len(pieces.ids):  # without names only the vocabulary is read
        groups[task.pairs[kind]] = []
    for row in np.flatnonzero(task.part_columns.max(axis=1) != NO_PART).tolist():
        key = layout_key(pieces.n_pieces[row], has_between=bool(template.between))
        groups.setdefault(key, []).append(row)
    return [_make_layout(task, pieces, key, rows) for key, rows in sorted(groups.items())]


def _make_layout(
    task: PosteriorTask, pieces: PartPieces, key: tuple[int, int], rows: list[int]
) -> Layout:
    place: dict[int, int] = {}  # column of evidence -> place in `parts`
    reads: list[tuple[int, int, int]] = []
    for row in rows:
        mask = 0
        for slot, n in enumerate(pieces.n_pieces[row].tolist()):
            role = int(pieces.roles[row, slot])
            column = int(task.part_columns[row, role])
            if role != NO_PART and column not in place:
                part_place = place[column] = len(place)
                spelled = pieces.ids[row, slot, :n].tolist()
                reads += [(part_place, mask + m, piece) for m, piece in enumerate(spelled)]
            mask += n
    listed = [row for row in rows if row < task.n_listed]
    pairs = [[place.get(int(c), len(place)) for c in task.part_columns[row]] for row in listed]
    return Layout(
        n_pieces=key,
        parts=np.array(list(place), dtype=np.int64),
        reads=np.array(reads, dtype=np.int64).reshape(-1, 3).T,
        listed=np.array(listed, dtype=np.int64),
        pairs=np.array(pairs, dtype=np.int64).reshape(-1, 2),
    )


@dataclass(frozen=True)
class Variants:
    """What to run for C names with the same numbers of pieces (a, b), and what to read there.

    `fills` [R, a + b] are the pieces to fill in (`NO_PIECE`: a mask); `reads` [4, K] the place in
    `names`, row, mask and piece.
    """

    names: IntArray
    n_pieces: tuple[int, int]
    fills: IntArray
    reads: IntArray


def yield_variants(pieces: PartPieces, *, n_names: int) -> Iterator[Variants]:
    """Yield the variants of the first names: row 0 masks all, every other row fills in one part."""
    known_rows = np.flatnonzero(pieces.is_known[:n_names])
    for a, b in np.unique(pieces.n_pieces[known_rows], axis=0).tolist():
        names = known_rows[(pieces.n_pieces[known_rows] == (a, b)).all(axis=1)]
        first, last = pieces.ids[names, 0, :a], pieces.ids[names, 1, :b]
        row = np.zeros(len(names), dtype=np.int64)
        fills = np.full((1, a + b), NO_PIECE, dtype=np.int64)
        # A name of one part has no order: both halves are p(name).
        part_reads = [(row, 0, first), (row, a, last) if b else (row, 0, first)]
        for filled_ids, begin, read_ids, read_begin in (
            ((first, 0, last, a), (last, a, first, 0)) if b else ()
        ):
            distinct, inverse = np.unique(filled_ids, axis=0, return_inverse=True)
            variant = np.full((len(distinct), a + b), NO_PIECE, dtype=np.int64)
            variant[:, begin : begin + filled_ids.shape[1]] = distinct
            part_reads.append((len(fills) + inverse.reshape(-1), read_begin, read_ids))
            fills = np.concatenate([fills, variant])
        place = np.arange(len(names))
        reads = [
            np.stack([place, read_row, np.full_like(place, begin + m), ids[:, m]])
            for read_row, begin, ids in part_reads
            for m in range(ids.shape[1])
        ]
        yield Variants(names, (a, b), fills, np.concatenate(reads, axis=1))
