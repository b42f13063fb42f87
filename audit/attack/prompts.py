"""Prompts: passages and names as token ids, with one [MASK] for each word piece of a name.

Comes in: passages, candidates, a tokenizer. Goes out: integers only; the attacks that follow know
no text. Legend: N names, P passages, K the largest number of pieces of any name.

Source: Nakamura et al., section 4.2. Differs: the paper leaves names of several word pieces out;
here each piece has a mask of its own, so that Japanese and rare names are audited too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.errors import AuditError
from audit.names.spelling import FIRST, LAST, NO_PART, PartPieces, PassageKind, token_ids
from audit.notes.passages import Passage
from audit.stats import IntArray


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


def passage_kind(passage: Passage) -> PassageKind:
    """Return what decides how names are tokenised in this passage."""
    lead = " " if passage.left[-1:].isspace() else ""
    return PassageKind(passage.slots, passage.separator, lead)


def layout_key(n_pieces: IntArray, *, has_between: bool) -> tuple[int, int]:
    """Return which names [2] share a forward pass: equal totals where nothing stands between."""
    first, second = int(n_pieces[0]), int(n_pieces[1])
    return (first, second) if has_between and second else (first + second, 0)


def part_columns(pieces: Sequence[PartPieces], *, has_between: Sequence[bool]) -> IntArray:
    """Return the column of evidence of each name's first and last part [N, 2]; -1: none.

    Parts that are read at the same masks of the same inputs, in every kind of passage, share a
    column: 10,000 names of the generator have some 1,700. A name that cannot be scored has none.
    """
    index: dict[tuple[object, ...], int] = {}
    is_known = np.logical_and.reduce([one.is_known for one in pieces])
    columns = np.full((len(is_known), 2), NO_PART, dtype=np.int64)
    for row in np.flatnonzero(is_known):
        readings: dict[int, list[object]] = {FIRST: [], LAST: []}
        for kind, (one, between) in enumerate(zip(pieces, has_between, strict=True)):
            key = layout_key(one.n_pieces[row], has_between=between)
            for place, role in enumerate(one.roles[row].tolist()):
                if role != NO_PART:
                    n = int(one.n_pieces[row, place])
                    spelled = tuple(one.ids[row, place, :n].tolist())
                    readings[role].append((kind, key, place and int(one.n_pieces[row, 0]), spelled))
        for role, found in readings.items():
            if found:
                columns[row, role] = index.setdefault((role, *found), len(index))
    return columns


def passage_templates(
    passages: Sequence[Passage], *, tokenizer: Any, max_tokens: int, n_name_tokens: int
) -> tuple[Template, ...]:
    """Tokenise passages around the name's place, cut to what the model can hold.

    Parameters
    ----------
    max_tokens
        Longest row the model takes, special tokens and the name's masks included.
    n_name_tokens
        Most tokens that a name needs, what stands between its parts included.

    Returns
    -------
    P templates. Where a passage is too long its end is cut first, and of what stands before the
    name no more than half of the room is kept (its end, which stands next to the name).
    """
    room = max_tokens - 2 - n_name_tokens
    if room < 8:
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
        right = token_ids(tokenizer, passage.right)
        keep_left = min(len(left), max(room // 2, room - len(right)))
        left = left[len(left) - keep_left :]
        right = right[: room - len(left)]
        between = token_ids(tokenizer, passage.separator.strip())
        templates.append(
            Template(
                left=(tokenizer.cls_token_id, *left),
                between=tuple(between),
                right=(*right, tokenizer.sep_token_id),
            )
        )
    return tuple(templates)


def kinds_of(passages: Sequence[Passage]) -> tuple[tuple[PassageKind, ...], IntArray]:
    """Return the distinct kinds of the passages, and each passage's kind [P] as an index."""
    index: dict[PassageKind, int] = {}
    of_passage = [index.setdefault(passage_kind(p), len(index)) for p in passages]
    return tuple(index), np.array(of_passage, dtype=np.int64)
