"""Notes as token ids on the disk: mapped into memory, so that a billion tokens need none of it.

A folder with `tokens.bin` (ids, [SEP] after each note), `ends.bin` (where each note ends),
`groups.bin` (the number of each note's patient), `missing.bin` (notes that are not there) and
`about.json`. Written whole or not at all, and
kept under a key of tokenizer, notes and text preparation.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.private_files import write_whole

TOKENS, ENDS, GROUPS, ABOUT = "tokens.bin", "ends.bin", "groups.bin", "about.json"
MISSING = "missing.bin"
_CHUNK = 1 << 22


@dataclass(frozen=True)
class TokenCounts:
    """What a token file holds.

    Attributes
    ----------
    n_tokens
        Ids, a [SEP] after each note included.
    n_documents
        Notes with at least one token.
    n_empty, n_refused
        Notes without any, and rows that are no notes.
    n_groups
        Patients; a note of nobody counts as one.
    dtype
        "uint16" or "uint32".
    """

    n_tokens: int
    n_documents: int
    n_empty: int
    n_refused: int
    n_groups: int
    dtype: str

    @property
    def n_read(self) -> int:
        """Rows that were read, notes or not."""
        return self.n_documents + self.n_missing

    @property
    def n_missing(self) -> int:
        """Rows that gave no document."""
        return self.n_empty + self.n_refused


@dataclass(frozen=True, eq=False)
class TokenFile:
    """Tokens of notes, mapped.

    Attributes
    ----------
    ids
        [n_tokens]; each note's ids and one [SEP].
    ends
        [n_documents]; where each note ends, its [SEP] included.
    groups
        [n_documents]; number of each note's patient, in order of first appearance.
    missing
        Positions among all rows read, from 0, of those that gave no document; rising.
    """

    ids: NDArray[Any]
    ends: NDArray[np.int64]
    groups: NDArray[np.int64]
    counts: TokenCounts
    missing: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each note, its [SEP] included."""
        return np.diff(self.ends, prepend=0)

    def documents_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the documents at positions among all rows read, if any."""
        there = positions[~np.isin(positions, self.missing)]
        return there - np.searchsorted(self.missing, there)


class TokenWriter:
    """Writes the files of a folder that is not in its place yet."""

    def __init__(self, folder: Path, *, sep: int, n_vocabulary: int) -> None:
        self._dtype = np.dtype("<u2" if n_vocabulary <= 1 << 16 else "<u4")
        self._sep = np.array([sep], dtype=self._dtype)
        self._folder = folder
        self._tokens = (folder / TOKENS).open("xb", buffering=1 << 20)
        self._ends: list[int] = []
        self._groups: list[int] = []
        self._missing: list[int] = []
        self._numbers: dict[str, int] = {}
        self._n_tokens = self._n_refused = self._n_groups = 0

    def add(self, ids: list[int], *, patient: str) -> None:
        """Append a note; `patient` is "" where nobody is told."""
        if not ids:
            self._miss()
            return
        array = np.array(ids, dtype=self._dtype)
        self._tokens.write(array.tobytes())
        self._tokens.write(self._sep.tobytes())
        self._n_tokens += len(ids) + 1
        self._ends.append(self._n_tokens)
        self._groups.append(self._group(patient))

    def refuse(self) -> None:
        """Count a row that is no note."""
        self._n_refused += 1
        self._miss()

    def finish(self, *, key: str) -> TokenCounts:
        """Write what is left and close."""
        self._tokens.close()
        np.array(self._ends, dtype="<i8").tofile(self._folder / ENDS)
        np.array(self._groups, dtype="<i8").tofile(self._folder / GROUPS)
        np.array(self._missing, dtype="<i8").tofile(self._folder / MISSING)
        counts = TokenCounts(
            n_tokens=self._n_tokens,
            n_documents=len(self._ends),
            n_empty=len(self._missing) - self._n_refused,
            n_refused=self._n_refused,
            n_groups=self._n_groups,
            dtype="uint16" if self._dtype.itemsize == 2 else "uint32",
        )
        about = asdict(counts) | {"key": key}
        write_whole(self._folder / ABOUT, json.dumps(about, indent=1).encode("ascii"))
        return counts

    def close(self) -> None:
        """Close without finishing."""
        self._tokens.close()

    def _miss(self) -> None:
        self._missing.append(len(self._ends) + len(self._missing))

    def _group(self, patient: str) -> int:
        if patient in self._numbers:
            return self._numbers[patient]
        number = self._n_groups
        self._n_groups += 1
        if patient:
            self._numbers[patient] = number
        return number


def open_tokens(folder: Path, *, key: str) -> TokenFile | None:
    """Return the tokens in a folder; None where there are none of this key, or not whole ones."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="ascii"))
        if about.pop("key") != key:
            return None
        counts = TokenCounts(**about)
        wanted = counts.n_tokens * np.dtype(counts.dtype).itemsize
        if (folder / TOKENS).stat().st_size != wanted:
            return None
        ends = np.fromfile(folder / ENDS, dtype="<i8")
        groups = np.fromfile(folder / GROUPS, dtype="<i8")
        if len(ends) != counts.n_documents or len(groups) != counts.n_documents:
            return None
        missing = np.empty(0, dtype="<i8")
        if counts.n_missing:
            missing = np.fromfile(folder / MISSING, dtype="<i8")
            if len(missing) != counts.n_missing:
                return None
        ids = np.memmap(folder / TOKENS, dtype=np.dtype(counts.dtype).newbyteorder("<"), mode="r")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return TokenFile(ids, ends, groups, counts, missing)


def token_counts(ids: NDArray[Any], *, n_vocabulary: int) -> NDArray[np.int64]:
    """Return how often each id occurs, [n_vocabulary]; in bounded memory."""
    counts = np.zeros(n_vocabulary, dtype=np.int64)
    for start in range(0, len(ids), _CHUNK):
        counts += np.bincount(ids[start : start + _CHUNK], minlength=n_vocabulary)
    return counts


def content_digest(tokens: TokenFile) -> str:
    """Return the SHA-256 of the tokens and of whose they are."""
    digest = hashlib.sha256(repr(asdict(tokens.counts)).encode())
    for array in (tokens.ids, tokens.ends, tokens.groups):
        for start in range(0, len(array), _CHUNK):
            digest.update(np.ascontiguousarray(array[start : start + _CHUNK]).tobytes())
    return digest.hexdigest()
