"""Spelling: names as the word pieces of a tokenizer, as they stand in running text or a passage.

Legend: N names, K the largest number of pieces of any part. Source: Nakamura et al., section 4.2.
Differs: the paper leaves names of several word pieces out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.names.candidates import Candidates
from audit.text import is_unspaced

Ids = NDArray[np.int64]
NO_PIECE = -1
NO_TWIN = -1
FIRST, LAST, NO_PART = 0, 1, -1
"""Columns of a name's parts: given name, family name; -1 where it has none."""
TWINS = (
    "{n_twins} of {n_score} names are the same name to this model as another of the list, for "
    "its tokenizer spells both alike (accents, for example). They are left out; the other one is "
    "scored."
)
UNSPELLABLE = 1_000_000
"""Pieces of a part that the tokenizer cannot spell."""
CountPieces = Callable[[str, str], int]
"""Word pieces of a part, given its role ("first" or "last") and its text."""
_COLUMN = {"first": FIRST, "last": LAST}


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
        no place for any part of the name, and for a twin: such a name is not scored.
    twin_of
        [N] the row whose name has the same pieces in both parts, so that it is the same name to
        the model: the first such row, members and names of unknown truth before controls; -1 for
        none.
    """

    ids: Ids
    n_pieces: Ids
    roles: Ids
    is_known: NDArray[np.bool_]
    twin_of: Ids


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


RUNNING_TEXT = PassageKind(slots=("full",), separator="", lead=" ")


def token_ids(tokenizer: Any, text: str) -> list[int]:
    """Return the ids of `text` without special tokens."""
    ids: list[int] = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) if text else []
    return ids


def part_pieces(candidates: Candidates, *, kind: PassageKind, tokenizer: Any) -> PartPieces:
    """Tokenise every name as it stands in passages of one kind, part by part.

    Each part is tokenised with the white space that stands before it there (byte-level
    tokenizers such as RoBERTa's have other pieces at the beginning of a text than after a space).
    """
    index: dict[str, int] = {}  # each text is tokenised once: long lists share their parts
    texts: list[int] = []
    columns: list[int] = []
    for first, last in zip(candidates.first, candidates.last, strict=True):
        slots, behind = kind.slots, _space(kind.separator)
        if slots == ("full",):  # the name's own order and separator
            is_turned = is_unspaced(first + last)
            slots, behind = (("last", "first"), "") if is_turned else (("first", "last"), " ")
        n_before, lead = len(texts), kind.lead
        for role in slots:
            if part := first if role == "first" else last:
                texts.append(index.setdefault(lead + part, len(index)))
                columns.append(_COLUMN[role])
                lead = behind
        missing = [NO_PART] * (2 - len(texts) + n_before)
        texts += missing
        columns += missing
    spelled = [token_ids(tokenizer, text) for text in index]
    width = max(1, *map(len, spelled), 1)
    table = np.array([[*own, *[NO_PIECE] * (width - len(own))] for own in (*spelled, [])])
    ids = table[np.array(texts, dtype=np.int64).reshape(-1, 2)]  # -1, no part: the last, empty row
    roles = np.array(columns, dtype=np.int64).reshape(-1, 2)
    n_pieces = (ids != NO_PIECE).sum(axis=2)
    is_spelt = (n_pieces > 0) & (ids != tokenizer.unk_token_id).all(axis=2)
    is_known = (is_spelt | (roles == NO_PART)).all(axis=1) & (roles != NO_PART).any(axis=1)
    twin_of = _twins(candidates, roles=roles, ids=ids, is_known=is_known)
    is_known &= twin_of == NO_TWIN
    return PartPieces(ids=ids, n_pieces=n_pieces, roles=roles, is_known=is_known, twin_of=twin_of)


def _twins(candidates: Candidates, *, roles: Ids, ids: Ids, is_known: NDArray[np.bool_]) -> Ids:
    """Return the row that is the same name to the model [N]; `NO_TWIN` for none."""
    twin_of = np.full(len(candidates), NO_TWIN, dtype=np.int64)
    rows = np.flatnonzero(is_known)
    is_control = np.array([truth is False for truth in candidates.is_member], dtype=np.bool_)
    rows = rows[np.argsort(is_control[rows], kind="stable")]
    if len(rows):
        names = np.concatenate([roles, ids.reshape(len(ids), -1)], axis=1)[rows]
        _, first, name = np.unique(names, axis=0, return_index=True, return_inverse=True)
        earliest = rows[first[name.reshape(-1)]]
        twin_of[rows] = np.where(earliest == rows, NO_TWIN, earliest)
    return twin_of


def refuse_opposite_twins(
    candidates: Candidates, *, tokenizer: Any, kind: PassageKind | None = None
) -> None:
    """Raise an `AuditError` where two rows of a file are one name to the model, with other truth.

    Danielle and Dáníéllé have the same pieces where a tokenizer drops accents. A control that was
    drawn, and so has no row, is no contradiction: `part_pieces` leaves it out.
    """
    if len({*candidates.is_member}) < 2:
        return
    pieces = part_pieces(candidates, kind=kind or RUNNING_TEXT, tokenizer=tokenizer)
    for row in np.flatnonzero(pieces.twin_of != NO_TWIN).tolist():
        twin = int(pieces.twin_of[row])
        numbers = candidates.row[twin], candidates.row[row]
        is_opposite = candidates.is_member[twin] is not candidates.is_member[row]
        if is_opposite and None not in numbers:
            raise AuditError(
                "Rows {first} and {second} are the same name to this model, which reads both by "
                "the same word pieces, with different is_member.",
                where="names",
                do="Correct or delete one of them.",
                first=min(filter(None, numbers)),
                second=max(filter(None, numbers)),
            )


def _space(separator: str) -> str:
    return separator[-1:] if separator[-1:].isspace() else ""


def pieces_by_role(pieces: PartPieces) -> Ids:
    """Return the word pieces of each name's first and last part [N, 2]; 0: none."""
    found = np.zeros_like(pieces.n_pieces)
    for place in (0, 1):
        rows = np.flatnonzero(pieces.roles[:, place] != NO_PART)
        found[rows, pieces.roles[rows, place]] = pieces.n_pieces[rows, place]
    return found


def piece_counter(tokenizer: Any, *, kind: PassageKind = RUNNING_TEXT) -> CountPieces:
    """Return a function from a part's role and text to its number of word pieces.

    Each part is counted with the white space that stands before it in passages of this kind. A part
    that the tokenizer cannot spell counts as `UNSPELLABLE`, so that no name with it is ever drawn
    beside names that can be scored.
    """
    slots, separator, lead = kind.slots, _space(kind.separator), kind.lead

    def count(role: str, part: str) -> int:
        first = slots[0]
        if first == "full":
            first = "last" if is_unspaced(part) else "first"
        behind = separator if slots != ("full",) else "" if is_unspaced(part) else " "
        return n_pieces((lead if role == first else behind) + part)

    @cache
    def n_pieces(text: str) -> int:
        ids = token_ids(tokenizer, text)
        return UNSPELLABLE if not ids or tokenizer.unk_token_id in ids else len(ids)

    return count
