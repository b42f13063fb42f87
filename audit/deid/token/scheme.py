"""Tag schemes: a tag for each token, BIO or BILOU, and which tag may follow which.

Knows labels and token numbers only; no text, no model.

Source: Ramshaw and Marcus 1995 (BIO); Ratinov and Roth 2009 (BILOU).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

BIO, BILOU = "BIO", "BILOU"
SCHEMES = (BIO, BILOU)
OUTSIDE = 0

Run = tuple[int, int, str]
"""Tokens from one number to another (exclusive), and their label."""


@dataclass(frozen=True)
class TagScheme:
    """The tags of some labels: number 0 is O, then those of each label in turn.

    Parameters
    ----------
    labels
        Each once.
    kind
        One of `SCHEMES`.

    Raises
    ------
    ValueError
        If there is no label, one is there twice, or there is no such scheme.
    """

    labels: tuple[str, ...]
    kind: str = BIO

    def __post_init__(self) -> None:
        """Check labels and kind, once."""
        if self.kind not in SCHEMES:
            raise ValueError(f"{self.kind}: no such scheme of tags")
        if not self.labels or len(set(self.labels)) != len(self.labels):
            raise ValueError("the labels are empty, or one is there twice")

    @property
    def _parts(self) -> str:
        return "BI" if self.kind == BIO else "BILU"

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """The names of all tags, by number."""
        return ("O", *(f"{part}-{label}" for label in self.labels for part in self._parts))

    def __len__(self) -> int:
        """How many tags there are."""
        return len(self.tags)

    @cached_property
    def may_follow(self) -> NDArray[np.bool_]:
        """Whether a tag [row] may stand before another [column], [T, T]."""
        n = len(self)
        allowed = np.zeros((n, n), dtype=bool)
        for one in range(n):
            for other in range(n):
                allowed[one, other] = self._may_follow(self.tags[one], self.tags[other])
        return allowed

    def _may_follow(self, one: str, other: str) -> bool:
        (part, label), (next_part, next_label) = _split(one), _split(other)
        if next_part in "IL":
            return part in "BI" and label == next_label
        return self.kind == BIO or part in "OLU"

    @cached_property
    def may_begin(self) -> NDArray[np.bool_]:
        """Whether a text may begin with a tag, [T]."""
        return np.array([_split(tag)[0] not in "IL" for tag in self.tags])

    @cached_property
    def may_end(self) -> NDArray[np.bool_]:
        """Whether a text may end with a tag, [T]."""
        return np.array([self.kind == BIO or _split(tag)[0] in "OLU" for tag in self.tags])

    def encode(self, runs: Iterable[Run], *, n_tokens: int) -> NDArray[np.int64]:
        """Return the tags [n_tokens] of runs that share no token."""
        found = np.zeros(n_tokens, dtype=np.int64)
        n_parts = len(self._parts)
        for first, end, label in runs:
            begin = 1 + n_parts * self.labels.index(label)
            found[first] = begin
            found[first + 1 : end] = begin + 1
            if self.kind == BILOU:
                found[end - 1] = begin + (3 if end - first == 1 else 2)
        return found

    def decode(self, tags: Sequence[int] | NDArray[np.integer]) -> list[Run]:
        """Return the runs of tags that follow the scheme, in order."""
        found: list[Run] = []
        n_parts = len(self._parts)
        given = np.asarray(tags, dtype=np.int64)
        for at in np.flatnonzero(given):
            label, part = divmod(int(given[at]) - 1, n_parts)
            if part in (0, 3):
                found.append((int(at), int(at) + 1, self.labels[label]))
            elif found:
                first, _, name = found[-1]
                found[-1] = (first, int(at) + 1, name)
        return found


def _split(tag: str) -> tuple[str, str]:
    part, _, label = tag.partition("-")
    return part, label
