"""Splits of a corpus such that no patient is in two of them, and the check that none is.

Comes in: who each note is about. Goes out: for each note the split it belongs to. Validation and
test notes are of patients who have a single note; training notes are drawn from the others.

Source: paper 002, section 2.1, step 6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from audit.corpora.identities import draw
from audit.errors import AuditError

TRAIN, VALIDATION, TEST, REST = "train", "validation", "test", "rest"
SPLITS = (TRAIN, VALIDATION, TEST, REST)
_PAPER_EACH, _PAPER_TRAIN = 5_000, 50_000
_SHARE = 10


@dataclass(frozen=True)
class SplitSizes:
    """How many notes each split has.

    Raises
    ------
    ValueError
        If a size is negative.
    """

    n_validation: int
    n_test: int
    n_train: int

    def __post_init__(self) -> None:
        """Check the sizes, once."""
        if min(self.n_validation, self.n_test, self.n_train) < 0:
            raise ValueError("a split has a negative size")


def usual_sizes(*, n_notes: int, n_single: int) -> SplitSizes:
    """Return the paper's sizes, 5,000 and 5,000 and 50,000, or less where there are fewer notes.

    Parameters
    ----------
    n_notes, n_single
        All notes, and those of patients who have no other.
    """
    each = min(_PAPER_EACH, n_single // _SHARE)
    return SplitSizes(each, each, min(_PAPER_TRAIN, n_notes - 2 * each))


def split_notes(n_notes: int, *, single: Sequence[bool], sizes: SplitSizes, seed: int) -> bytes:
    """Return the split of each note, as its place in `SPLITS`.

    Parameters
    ----------
    n_notes
        Notes are counted from 0, in the source's order.
    single
        For each note whether its patient has no other.
    sizes
        Of the splits; what is left is "rest".

    Raises
    ------
    AuditError
        If there are too few notes.
    """
    order = sorted(range(n_notes), key=lambda place: (draw(seed, "split", str(place)), place))
    alone = [place for place in order if single[place]]
    n_held_out = sizes.n_validation + sizes.n_test
    if n_held_out > len(alone):
        raise AuditError(
            f"{n_held_out} notes are to be held out, but only {len(alone)} are of patients who "
            "have a single note.",
            where="splits",
            do="Choose smaller sizes for validation and test.",
        )
    split = bytearray([SPLITS.index(REST)]) * n_notes
    for place in alone[: sizes.n_validation]:
        split[place] = SPLITS.index(VALIDATION)
    for place in alone[sizes.n_validation : n_held_out]:
        split[place] = SPLITS.index(TEST)
    rest = [place for place in order if split[place] == SPLITS.index(REST)]
    if sizes.n_train > len(rest):
        raise AuditError(
            f"{sizes.n_train} notes are to be trained on, but only {len(rest)} are left.",
            where="splits",
            do="Choose a smaller size for training.",
        )
    for place in rest[: sizes.n_train]:
        split[place] = SPLITS.index(TRAIN)
    return bytes(split)


@dataclass(frozen=True)
class LeakCheck:
    """What splits share.

    Attributes
    ----------
    n_shared_patients, n_shared_notes, n_shared_texts
        Patients, identifiers of notes and whole texts that are in more than one of training,
        validation and test: all three must be 0 but for texts that the source has twice.
    n_names, n_seen_names
        Different full names in validation and test, and those that are in training too (namesakes,
        and staff of several patients): the measurement tells them apart.
    """

    n_shared_patients: int
    n_shared_notes: int
    n_shared_texts: int
    n_names: int
    n_seen_names: int

    @property
    def is_clean(self) -> bool:
        """Whether no patient, no note and no text crosses a split."""
        return not (self.n_shared_patients or self.n_shared_notes or self.n_shared_texts)

    def plain(self) -> dict[str, int | bool]:
        """Return the counts as plain values."""
        return {**asdict(self), "is_clean": self.is_clean}


class LeakCounter:
    """Reads the notes of all splits one by one, and counts what crosses them.

    Keeps 8 bytes for each different patient, note, text and name, and what Python needs for them.
    """

    def __init__(self) -> None:
        self._splits: dict[str, dict[int, int]] = {"patient": {}, "note": {}, "text": {}}
        self._names: dict[int, int] = {}

    def add(
        self, split: str, *, patient: str, doc_id: str, text: str, names: Iterable[str]
    ) -> None:
        """Take in a note; those of the rest are in no split."""
        if split == REST:
            return
        bit = 1 << SPLITS.index(split)
        for what, value in (("patient", patient), ("note", doc_id), ("text", text)):
            seen = self._splits[what]
            key = draw(0, what, value)
            seen[key] = seen.get(key, 0) | bit
        for name in names:
            key = draw(0, "name", "".join(name.split()).casefold())
            self._names[key] = self._names.get(key, 0) | bit

    def check(self) -> LeakCheck:
        """Return what was counted."""
        shared = Counter(
            {what: sum(bits & (bits - 1) > 0 for bits in seen.values())
             for what, seen in self._splits.items()}
        )  # fmt: skip
        train = 1 << SPLITS.index(TRAIN)
        held_out = [bits for bits in self._names.values() if bits & ~train]
        return LeakCheck(
            n_shared_patients=shared["patient"],
            n_shared_notes=shared["note"],
            n_shared_texts=shared["text"],
            n_names=len(held_out),
            n_seen_names=sum(bool(bits & train) for bits in held_out),
        )
