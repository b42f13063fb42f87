"""Lessons: annotated notes as rows with tags, some of it hidden; every step's keyed on its number.

Nothing is carried from step to step, so a training that goes on sees the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from audit.deid.documents import TaggedDocument
from audit.deid.formats import flattened
from audit.deid.token.reading import Ids, Reader, runs_of
from audit.deid.token.scheme import TagScheme
from audit.deid.token.settings import TaggerSettings
from audit.randomness import generator

NO_TAG = -100
"""Stands where there is nothing to learn: white space, special tokens, padding."""
_READ_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Lesson:
    """A note that is learned from: ids, kinds, tags and the number of the span of each token."""

    ids: NDArray[np.int32]
    kinds: NDArray[np.uint8] | None
    tags: NDArray[np.int8]
    span_numbers: NDArray[np.int32]

    def part(self, start: int, end: int) -> Lesson:
        """Return some tokens of it."""
        kinds = None if self.kinds is None else self.kinds[start:end]
        return Lesson(
            self.ids[start:end], kinds, self.tags[start:end], self.span_numbers[start:end]
        )

    def piece(self) -> tuple[Ids, Ids | None]:
        """Return ids and kinds as a model takes them."""
        kinds = None if self.kinds is None else self.kinds.astype(np.int64)
        return self.ids.astype(np.int64), kinds


def lessons_of(
    documents: Sequence[TaggedDocument], *, reader: Reader, scheme: TagScheme
) -> list[Lesson]:
    """Return annotated notes as lessons; spans of labels that the scheme lacks are left out."""
    found: list[Lesson] = []
    for start in range(0, len(documents), _READ_AT_ONCE):
        some = documents[start : start + _READ_AT_ONCE]
        for document, tokens in zip(some, reader.read([d.text for d in some]), strict=True):
            spans = [s for s in flattened(document).spans if s.label in scheme.labels]
            runs = runs_of(spans, tokens=tokens)
            at = tokens.places
            tags = np.full(len(tokens), NO_TAG, dtype=np.int8)
            tags[at] = scheme.encode(runs, n_tokens=len(at))
            numbers = np.zeros(len(tokens), dtype=np.int32)
            for number, (first, end, _) in enumerate(runs, start=1):
                numbers[at[first:end]] = number
            kinds = None if tokens.kinds is None else tokens.kinds.astype(np.uint8)
            found.append(Lesson(tokens.ids.astype(np.int32), kinds, tags, numbers))
    return found


class Lessons:
    """All lessons of a training, and which rows belong to a step.

    Parameters
    ----------
    size
        Tokens of a row, without special ones.
    unknown_id
        Stands for a token that is hidden.
    """

    def __init__(
        self, lessons: Sequence[Lesson], *, settings: TaggerSettings, size: int, unknown_id: int
    ) -> None:
        self._lessons = [one for one in lessons if len(one.ids)]
        self._settings, self._size, self._unknown_id = settings, size, unknown_id
        starts = [(i, at) for i, one in enumerate(self._lessons)
                  for at in range(0, len(one.ids), size)]  # fmt: skip
        self._starts = np.array(starts, dtype=np.int64).reshape(-1, 2)
        self._epoch = lru_cache(maxsize=2)(self._rows_of_epoch)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self._starts)

    @property
    def n_steps(self) -> int:
        """How many steps the training takes."""
        return max(1, round(self._settings.n_epochs * self._per_epoch))

    @property
    def _per_epoch(self) -> int:
        return max(1, -(-self.n_rows // self._settings.batch))

    def of_step(self, step: int) -> list[Lesson]:
        """Return the rows of a step, 1 and on, the longest first, some of their tokens hidden."""
        epoch, place = divmod(step - 1, self._per_epoch)
        rows = self._epoch(epoch)[place * self._settings.batch :][: self._settings.batch]
        rng = generator(self._settings.seed, "tagger noise", step)
        parts = [
            self._lessons[note].part(start, start + self._size) for note, start in rows.tolist()
        ]
        hidden = [self._hidden(part, rng) for part in parts]
        return sorted(hidden, key=lambda part: -len(part.ids))

    def _rows_of_epoch(self, epoch: int) -> Ids:
        rng = generator(self._settings.seed, "tagger rows", epoch)
        rows: Ids = self._starts[rng.permutation(self.n_rows)]
        shift = rng.integers(self._size, size=self.n_rows) - self._size // 2
        lengths = np.array([len(one.ids) for one in self._lessons])[rows[:, 0]]
        last = np.maximum(lengths - self._size, 0)
        starts = np.clip(rows[:, 1] + shift, 0, last)
        return np.stack([rows[:, 0], starts], axis=1)

    def _hidden(self, part: Lesson, rng: np.random.Generator) -> Lesson:
        settings = self._settings
        is_hidden = rng.random(len(part.ids)) < settings.unknown_share
        numbers = np.unique(part.span_numbers)
        chosen = numbers[(rng.random(len(numbers)) < settings.hidden_share) & (numbers > 0)]
        is_hidden |= np.isin(part.span_numbers, chosen)
        ids = np.where(is_hidden, np.int32(self._unknown_id), part.ids)
        return replace(part, ids=ids)


def passes_of(rows: Sequence[Lesson], *, n: int) -> Iterator[list[Lesson]]:
    """Yield the rows of a step in forward passes of at most `n`."""
    for start in range(0, len(rows), n):
        yield list(rows[start : start + n])
