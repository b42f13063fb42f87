"""Spelling: names as word pieces of a tokenizer, as in running text or in a passage.

Legend: N names, K the largest number of pieces of any part. Source: Nakamura et al., section 4.2.
Differs: the paper leaves out names of several word pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.models.joined import build_joined_encoder
from audit.models.library import Tokenizer
from audit.names.candidates import Candidates
from audit.notes.passages import Passage
from audit.text import fold_name, is_unspaced

Ids = NDArray[np.int64]
NO_PIECE = -1
NO_TWIN = -1
FIRST, LAST, NO_PART = 0, 1, -1
"""Columns of a name's parts: given name, family name; -1 for none."""
TWINS = (
    "{n_twins} of {n_score} names are the same name to this model as another of the list, for "
    "its tokenizer spells both alike (accents, for example). They are left out; the other one is "
    "scored."
)
UNSPELLABLE = 1_000_000
"""Number of pieces of a part that the tokenizer cannot spell."""
CountPieces = Callable[[str, str], int]
"""A function from a part's role ("first" or "last") and text to its number of word pieces."""
_COLUMN = {"first": FIRST, "last": LAST}


@dataclass(frozen=True)
class PartPieces:
    """The word pieces of N names' parts, tokenised as they stand in one kind of context.

    Attributes
    ----------
    ids
        [N, 2, K] pieces of the part written first and of the part written second, padded with
        `NO_PIECE`; the second part is empty for a name that cannot be split.
    n_pieces
        [N, 2] numbers of pieces; 0 for a part that is missing.
    roles
        [N, 2] role of each part: `FIRST`, `LAST` or `NO_PART`.
    is_known
        [N] False if a part has no pieces or an unknown piece, if passages of this kind have no
        place for any part of the name, or if the name is a twin: such a name is not scored.
    twin_of
        [N] the row that is the same name to the model, -1 for none: it has the same pieces in every
        part that stands in such passages, and the same text in the other parts. It is the first
        such row, with members and names of unknown truth before controls.
    """

    ids: Ids
    n_pieces: Ids
    roles: Ids
    is_known: NDArray[np.bool_]
    twin_of: Ids


@dataclass(frozen=True)
class PassageKind:
    """The kind of a passage, which decides how a name is tokenised and how its masks are laid out.

    Attributes
    ----------
    slots, separator
        As in `Passage`; ("full",) means the candidate's own order and separator.
    lead
        " " if white space precedes the name, else "". None: as running text has it, which is text
        without white space for Han and kana.
    is_joined
        Whether text precedes the name without white space. Only tokenizers that mark the beginning
        of a text (SentencePiece) need to know, so kinds are equal that differ in nothing else.
    """

    slots: tuple[str, ...]
    separator: str
    lead: str | None
    is_joined: bool = field(default=False, compare=False)

    @classmethod
    def from_passage(cls, passage: Passage) -> PassageKind:
        """Return the kind of a passage."""
        lead = " " if passage.left[-1:].isspace() else ""
        is_joined = not lead and bool(passage.left)
        return cls(passage.slots, passage.separator, lead, is_joined)

    def list_contexts(self, first: str, last: str) -> list[tuple[str, Context]]:
        """Return the parts of a name that stand in such passages, in order: role and context."""
        is_turned = is_unspaced(first + last)
        slots, separator = self.slots, self.separator
        if slots == ("full",):  # the name's own order and separator
            slots, separator = (("last", "first"), "") if is_turned else (("first", "last"), " ")
        lead = _trailing_space(separator)
        context, second = (self.lead or "", self.is_joined), (lead, not lead)
        if self.lead is None:
            context = ("", True) if is_turned else (" ", False)
        contexts = []
        for role in slots:
            if first if role == "first" else last:
                contexts.append((role, context))
                context = second
        return contexts


Context = tuple[str, bool]
"""What precedes a part: " " or "", and whether it is text without white space."""
RUNNING_TEXT = PassageKind(slots=("full",), separator="", lead=None)


def token_ids(tokenizer: Tokenizer, text: str, *, is_joined: bool = False) -> list[int]:
    """Return the ids of `text` without special tokens.

    With `is_joined`, or if it begins with a space, the text goes on after other text and has no
    mark of a beginning: "さん" has other pieces after a name than as a text of its own.
    """
    if not text:
        return []
    if (is_joined or text[0].isspace()) and (encode := build_joined_encoder(tokenizer)):
        return encode(text)
    ids: list[int] = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text))
    return ids


def part_pieces(candidates: Candidates, *, kind: PassageKind, tokenizer: Tokenizer) -> PartPieces:
    """Tokenise every name as it stands in passages of one kind, part by part.

    Each part is tokenised with what precedes it there (byte-level tokenizers such as RoBERTa's have
    other pieces at the beginning of a text than after a space).
    """
    # Each text is tokenised once: long lists share their parts.
    index: dict[tuple[str, bool], int] = {}
    texts: list[int] = []
    columns: list[int] = []
    for first, last in zip(candidates.first, candidates.last, strict=True):
        n_before = len(texts)
        for role, (lead, is_joined) in kind.list_contexts(first, last):
            key = lead + (first if role == "first" else last), is_joined
            texts.append(index.setdefault(key, len(index)))
            columns.append(_COLUMN[role])
        missing = [NO_PART] * (2 - len(texts) + n_before)
        texts += missing
        columns += missing
    spelled = [token_ids(tokenizer, text, is_joined=is_joined) for text, is_joined in index]
    width = max(1, *map(len, spelled), 1)
    table = np.array(
        [[*row_ids, *[NO_PIECE] * (width - len(row_ids))] for row_ids in (*spelled, [])]
    )
    ids = table[
        np.array(texts, dtype=np.int64).reshape(-1, 2)
    ]  # -1 (no part) takes the last row, which is empty
    roles = np.array(columns, dtype=np.int64).reshape(-1, 2)
    n_pieces = (ids != NO_PIECE).sum(axis=2)
    is_spelt = (n_pieces > 0) & (ids != tokenizer.unk_token_id).all(axis=2)
    is_known = (is_spelt | (roles == NO_PART)).all(axis=1) & (roles != NO_PART).any(axis=1)
    twin_of = _find_twins(candidates, roles=roles, ids=ids, is_known=is_known)
    is_known &= twin_of == NO_TWIN
    return PartPieces(ids=ids, n_pieces=n_pieces, roles=roles, is_known=is_known, twin_of=twin_of)


def _find_twins(
    candidates: Candidates, *, roles: Ids, ids: Ids, is_known: NDArray[np.bool_]
) -> Ids:
    """Return the row that is the same name to the model [N]; `NO_TWIN` for none."""
    twin_of = np.full(len(candidates), NO_TWIN, dtype=np.int64)
    rows = np.flatnonzero(is_known)
    is_control = np.array([truth is False for truth in candidates.is_member], dtype=np.bool_)
    rows = rows[np.argsort(is_control[rows], kind="stable")]
    if len(rows):
        unread = [
            _number_texts(texts, is_read=(roles == role).any(axis=1))
            for role, texts in ((FIRST, candidates.first), (LAST, candidates.last))
        ]
        names = np.column_stack([roles, ids.reshape(len(ids), -1), *unread])[rows]
        _, first, name = np.unique(names, axis=0, return_index=True, return_inverse=True)
        earliest = rows[first[name.reshape(-1)]]
        twin_of[rows] = np.where(earliest == rows, NO_TWIN, earliest)
    return twin_of


def _number_texts(texts: Sequence[str], *, is_read: NDArray[np.bool_]) -> Ids:
    """Return a number for each part's text [N]; 0 if its pieces are read."""
    numbers: dict[str, int] = {}
    return np.array(
        [
            0 if is_here else 1 + numbers.setdefault(fold_name(text), len(numbers))
            for text, is_here in zip(texts, is_read.tolist(), strict=True)
        ]
    )


def refuse_opposite_twins(
    candidates: Candidates, *, tokenizer: Tokenizer, kind: PassageKind | None = None
) -> None:
    """Raise an `AuditError` if two rows of a file are one name to the model but differ in truth.

    Danielle and Dáníéllé have the same pieces if a tokenizer drops accents. A control that was
    drawn has no row and is no contradiction: `part_pieces` leaves it out.
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


def _trailing_space(separator: str) -> str:
    return separator[-1:] if separator[-1:].isspace() else ""


def pieces_by_role(pieces: PartPieces) -> Ids:
    """Return the number of word pieces of each name's first and last part [N, 2]; 0 for none."""
    n_pieces = np.zeros_like(pieces.n_pieces)
    for column in (0, 1):
        rows = np.flatnonzero(pieces.roles[:, column] != NO_PART)
        n_pieces[rows, pieces.roles[rows, column]] = pieces.n_pieces[rows, column]
    return n_pieces


def piece_counter(tokenizer: Tokenizer, *, kind: PassageKind = RUNNING_TEXT) -> CountPieces:
    """Return a function from a part's role and text to its number of word pieces.

    Each part is counted with what precedes it in passages of this kind. A part that the tokenizer
    cannot spell counts as `UNSPELLABLE`, so that no name with it is ever drawn as a control of
    names that can be scored.
    """

    def count(role: str, part: str) -> int:
        contexts = dict(kind.list_contexts(part, part))
        lead = _trailing_space(kind.separator)
        n: int = n_pieces(part, contexts.get(role, (lead, not lead)))
        return n

    @cache
    def n_pieces(part: str, context: Context) -> int:
        lead, is_joined = context
        ids = token_ids(tokenizer, lead + part, is_joined=is_joined)
        return UNSPELLABLE if not ids or tokenizer.unk_token_id in ids else len(ids)

    return count
