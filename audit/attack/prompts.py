"""Prompts: passages and names as token ids, with one [MASK] for each word piece of a name.

Comes in: passages, candidates, a tokenizer. Goes out: integers only; the attacks that follow know
no text. Legend: N names, P passages, K the largest number of pieces of any name.

Source: Nakamura et al., section 4.2. Differs: the paper leaves names of several word pieces out;
here each piece has a mask of its own, so that Japanese and rare names are audited too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.names.candidates import Candidates
from audit.notes.passages import Passage
from audit.text import is_unspaced

Ids = NDArray[np.int64]
NO_PIECE = -1
FIRST, LAST, NO_PART = 0, 1, -1
"""Columns of a name's parts: given name, family name; -1 where it has none."""
_COLUMN = {"first": FIRST, "last": LAST}
UNSPELLABLE = 1_000_000
PieceCounter = Callable[[str, str], int]


@dataclass(frozen=True)
class PartPieces:
    """The word pieces of N names' parts, tokenised as they stand in one kind of context.

    Attributes
    ----------
    ids
        [N, 2, K]: pieces of the part written first and of the part written second, filled up
        with `NO_PIECE`; the second is empty for a name that cannot be split.
    n_pieces
        [N, 2] numbers of pieces; 0 for a part that is missing.
    roles
        [N, 2] which part of the name each is: `FIRST`, `LAST` or `NO_PART`.
    is_known
        [N] False where a part has no pieces or an unknown one, or where passages of this kind have
        no place for any part of the name: such a name cannot be scored.
    """

    ids: Ids
    n_pieces: Ids
    roles: Ids
    is_known: NDArray[np.bool_]


@dataclass(frozen=True)
class PassageKind:
    """What decides how a name is tokenised in a passage and how its masks are laid out.

    Attributes
    ----------
    slots, separator
        As in `Passage`; ("full",) takes the candidate's own order and separator.
    lead
        " " if white space stands before the name, else "".
    """

    slots: tuple[str, ...]
    separator: str
    lead: str


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


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of `text` without special tokens."""
    ids: list[int] = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) if text else []
    return ids


def passage_kind(passage: Passage) -> PassageKind:
    """Return what decides how names are tokenised in this passage."""
    lead = " " if passage.left[-1:].isspace() else ""
    return PassageKind(passage.slots, passage.separator, lead)


def written_parts(
    candidates: Candidates, row: int, *, kind: PassageKind
) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return a name's one or two (role, text) in the passage's order, and what separates them."""
    if kind.slots == ("full",):
        return candidates.parts(row), candidates.separator(row)
    by_role = {"first": candidates.first[row], "last": candidates.last[row]}
    return tuple((role, by_role[role]) for role in kind.slots if by_role[role]), kind.separator


def part_pieces(candidates: Candidates, *, kind: PassageKind, tokenizer: Any) -> PartPieces:
    """Tokenise every name as it stands in passages of one kind, part by part.

    Each part is tokenised with the white space that stands before it there (byte-level
    tokenizers such as RoBERTa's have other pieces at the beginning of a text than after a space).
    """
    cache: dict[str, list[int]] = {}

    def pieces(text: str) -> list[int]:
        if text not in cache:
            cache[text] = token_ids(tokenizer, text)
        return cache[text]

    rows: list[list[list[int]]] = []
    roles = np.full((len(candidates), 2), NO_PART, dtype=np.int64)
    for row in range(len(candidates)):
        parts, separator = written_parts(candidates, row, kind=kind)
        leads = [kind.lead, separator[-1:] if separator[-1:].isspace() else ""]
        rows.append([pieces(lead + part) for lead, (_, part) in zip(leads, parts, strict=False)])
        roles[row, : len(parts)] = [_COLUMN[role] for role, _ in parts]
    width = max((len(part) for row_parts in rows for part in row_parts), default=1)
    ids = np.full((len(rows), 2, max(1, width)), NO_PIECE, dtype=np.int64)
    n_pieces = np.zeros((len(rows), 2), dtype=np.int64)
    is_known = np.ones(len(rows), dtype=bool)
    for row, row_parts in enumerate(rows):
        is_known[row] = bool(row_parts)
        for k, part in enumerate(row_parts):
            ids[row, k, : len(part)] = part
            n_pieces[row, k] = len(part)
            is_known[row] &= bool(part) and tokenizer.unk_token_id not in part
    return PartPieces(ids=ids, n_pieces=n_pieces, roles=roles, is_known=is_known)


def pieces_by_role(pieces: PartPieces) -> Ids:
    """Return the word pieces of each name's first and last part [N, 2]; 0: none."""
    found = np.zeros_like(pieces.n_pieces)
    for place in (0, 1):
        rows = np.flatnonzero(pieces.roles[:, place] != NO_PART)
        found[rows, pieces.roles[rows, place]] = pieces.n_pieces[rows, place]
    return found


def layout_key(n_pieces: Ids, *, has_between: bool) -> tuple[int, int]:
    """Return which names [2] share a forward pass: equal totals where nothing stands between."""
    first, second = int(n_pieces[0]), int(n_pieces[1])
    return (first, second) if has_between and second else (first + second, 0)


def part_columns(pieces: Sequence[PartPieces], *, has_between: Sequence[bool]) -> Ids:
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

    Raises
    ------
    AuditError
        If the room left beside the name is less than 8 tokens.
    """
    room = max_tokens - 2 - n_name_tokens
    if room < 8:
        raise AuditError(
            f"{max_tokens} tokens leave no room for a passage beside a name of {n_name_tokens}.",
            where="max_tokens",
            do="Raise the setting, or take a model with more positions.",
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


def kinds_of(passages: Sequence[Passage]) -> tuple[tuple[PassageKind, ...], Ids]:
    """Return the distinct kinds of the passages, and each passage's kind [P] as an index."""
    index: dict[PassageKind, int] = {}
    of_passage = [index.setdefault(passage_kind(p), len(index)) for p in passages]
    return tuple(index), np.array(of_passage, dtype=np.int64)


def piece_counter(tokenizer: Any, *, kind: PassageKind | None = None) -> PieceCounter:
    """Return a function from a part's role and text to its number of word pieces.

    Each part is counted with the white space that stands before it in passages of this kind
    (None: in running text). A part that the tokenizer cannot spell counts as `UNSPELLABLE`, so that
    no name with it is ever drawn beside names that can be scored.
    """
    kind = kind or PassageKind(slots=("full",), separator="", lead=" ")
    cache: dict[str, int] = {}

    def lead_of(role: str, part: str) -> str:
        slots, separator = kind.slots, kind.separator
        if slots == ("full",):
            slots, separator = (("last", "first"), "") if is_unspaced(part) else (
                ("first", "last"), " "
            )  # fmt: skip
        if role == slots[0]:
            return kind.lead
        return separator[-1:] if separator[-1:].isspace() else ""

    def count(role: str, part: str) -> int:
        text = lead_of(role, part) + part
        if text not in cache:
            ids = token_ids(tokenizer, text)
            cache[text] = UNSPELLABLE if not ids or tokenizer.unk_token_id in ids else len(ids)
        return cache[text]

    return count
