"""Rows of a training: which tokens stand in which row of which step, known without replaying any.

Comes in: a token file, a seed. Goes out: rows [B, L] of any step. An epoch begins at a random
token, cuts everything from there on into rows, and shuffles these: no token is in two of its rows,
and fewer than a row's tokens are in none, other ones each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from audit.corpora.listed_notes import ListedNotes
from audit.errors import AuditError
from audit.models.row_masking import Ids, SpecialIds
from audit.randomness import generator
from audit.training.token_file import TokenFile

MOST_HELD_OUT_ROWS = 512
"""Rows on which the held-out loss is measured, at most: 65,000 tokens of 128 a row."""


@dataclass(frozen=True, eq=False)
class Split:
    """Which notes are trained on.

    Attributes
    ----------
    train, held_out
        Numbers of the notes, in their order.
    n_listed
        Patients with a listed note, who are never held out.
    """

    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    n_listed: int = 0


def split_notes(
    tokens: TokenFile, *, share: float, seed: int, listed: ListedNotes | None = None
) -> Split:
    """Keep some patients' notes out of the training, none of a patient with a listed note.

    Parameters
    ----------
    share
        Of all patients; drawn among those who are not listed, or all of these if they are fewer.
    listed
        Which notes hold a listed name. Where every patient has one, nothing is held out.

    Raises
    ------
    AuditError
        If all notes are one patient's, who is not listed, or `listed` is of other notes.
    """
    if listed is not None and listed.n_notes != tokens.counts.n_read:
        raise AuditError(
            f"The corpus has {listed.n_notes:,} notes, but {tokens.counts.n_read:,} were read.",
            where="corpus",
            do="Build the corpus again.",
        )
    everything = np.arange(tokens.counts.n_documents)
    n_groups = tokens.counts.n_groups
    if not share:
        return Split(everything, everything[:0])
    positions = np.array([] if listed is None else listed.notes, dtype=np.int64)
    kept = np.unique(tokens.groups[tokens.documents_at(positions)])
    if n_groups < 2 and not len(kept):
        raise AuditError(
            "All notes are of one patient, so none can be held out.",
            where="notes",
            do="Set `held_out_share` to 0.",
        )
    n_held_out = min(n_groups - 1, max(1, round(share * n_groups)))
    order = generator(seed, "held-out patients").permutation(n_groups)
    chosen = order[~np.isin(order, kept)][:n_held_out]
    is_held_out = np.isin(tokens.groups, chosen)
    return Split(everything[~is_held_out], everything[is_held_out], len(kept))


class Stream:
    """Some notes of a token file as one row of tokens, read where it is asked for."""

    def __init__(self, tokens: TokenFile, documents: NDArray[np.int64]) -> None:
        self._ids = tokens.ids
        lengths = tokens.lengths[documents]
        self._ends = np.cumsum(lengths)
        # From a place in the stream to the place in the file, note by note.
        self._shift = tokens.ends[documents] - self._ends

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def at(self, places: NDArray[np.int64]) -> Ids:
        """Return the ids at places 0 to len - 1, in the places' shape."""
        document = np.searchsorted(self._ends, places, side="right")
        return self._ids[places + self._shift[document]].astype(np.int64)


@dataclass(eq=False)
class Rows:
    """The rows of a training.

    Parameters
    ----------
    stream
        The tokens that are trained on.
    n_inner
        Tokens of notes in a row.
    batch
        Rows a step.

    Raises
    ------
    AuditError
        If there are fewer tokens than a row has.
    """

    stream: Stream
    special: SpecialIds
    n_inner: int
    batch: int
    seed: int
    _order: tuple[int, int, NDArray[np.int64]] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.n_rows:
            raise AuditError(
                f"The notes have {len(self.stream)} tokens to train on, fewer than one row of "
                f"{self.n_inner}.",
                where="notes",
                do="Take more notes, or shorter rows.",
            )

    @property
    def n_rows(self) -> int:
        """Rows of an epoch."""
        return len(self.stream) // self.n_inner

    def of_step(self, step: int) -> Ids:
        """Return the rows [batch, L] of a step, 1 and on."""
        first = (step - 1) * self.batch
        numbers = np.arange(first, first + self.batch)
        begins = np.concatenate(
            [
                self._begins(epoch, numbers[numbers // self.n_rows == epoch] % self.n_rows)
                for epoch in range(first // self.n_rows, int(numbers[-1]) // self.n_rows + 1)
            ]
        )
        places = (begins[:, None] + np.arange(self.n_inner)) % len(self.stream)
        return framed(self.stream.at(places), special=self.special)

    def _begins(self, epoch: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the rows of an epoch begin in the stream."""
        if self._order is None or self._order[0] != epoch:
            rng = generator(self.seed, "rows", epoch)
            offset = int(rng.integers(len(self.stream)))
            self._order = (epoch, offset, rng.permutation(self.n_rows))
        _, offset, order = self._order
        return offset + order[numbers] * self.n_inner


def held_out_rows(stream: Stream, *, special: SpecialIds, n_inner: int) -> Ids:
    """Return rows [n, L] of held-out notes, evenly spread, always the same; [0, L] without any."""
    n_inner = min(n_inner, len(stream)) or n_inner
    n_rows = len(stream) // n_inner
    chosen = np.arange(n_rows)
    if n_rows > MOST_HELD_OUT_ROWS:
        chosen = np.linspace(0, n_rows - 1, MOST_HELD_OUT_ROWS).astype(np.int64)
    places = chosen[:, None] * n_inner + np.arange(n_inner)
    return framed(stream.at(places), special=special)


def framed(inner: Ids, *, special: SpecialIds) -> Ids:
    """Put [CLS] before and [SEP] after rows [n, L - 2]."""
    frame = np.ones((len(inner), 1), dtype=np.int64)
    return np.concatenate([frame * special.cls, inner, frame * special.sep], axis=1)
