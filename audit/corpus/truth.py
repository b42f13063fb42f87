"""The truth of a corpus: its files, and the places and people where its two texts differ.

Also the notes that hold a listed name, whose patients a training must not hold out.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import JsonValue

from audit.errors import AuditError

PRIVATE, PUBLIC, TRUTH = "private.jsonl", "public.jsonl", "truth.jsonl"
PEOPLE, REFUSED, CORPUS = "people.jsonl", "refused.jsonl", "corpus.json"
CANDIDATES, PASSAGES = "candidates.csv", "passages.jsonl"
EXAMINATION, LISTED = "examination.json", "listed.json"
HELD_OUT, HELD_OUT_TRUTH = "held_out.jsonl", "held_out_truth.jsonl"
"""Notes of held-out patients as in D_private, and their truth; no training uses them."""

CANARY = "canary"
"""Role of a planted name; its person is "canary:ROW", with the row in the list of canaries."""
_START = attrgetter("start")
quote = json.encoder.encode_basestring
"""Return a text as a JSON string; composing lines of notes of such strings is quicker."""


class Place(NamedTuple):
    """One stretch in which D_private and D_public differ, or a placeholder that stayed.

    Attributes
    ----------
    start, stop, source_start, source_stop
        Offsets in characters of D_private, and of D_public.
    category
        The placeholder's category as in the note; with a register, the form of the mention
        ("first+last").
    kind, role
        Kind of the value in D_private, and role of its person: "patient", "staff", `CANARY` ...
    identity
        Key of the person or thing. Values of one identity and kind are the same, except dates,
        which move by the interval of the patient, and the full stop of an initial.
    value
        The text in D_private.
    group
        The same number for parts of one person's name that stand together; -1 if it is no name.
    namesakes
        Keys of other patients of the register who carry the same name.
    """

    start: int
    stop: int
    source_start: int
    source_stop: int
    category: str
    kind: str = "unknown"
    role: str = ""
    identity: str = ""
    value: str = ""
    group: int = -1
    namesakes: tuple[str, ...] = ()

    def json(self) -> str:
        """Return the place as JSON for the truth file; if it stayed, only its position."""
        position = (
            f'{{"start": {self.start}, "stop": {self.stop}, "source_start": {self.source_start}, '
            f'"source_stop": {self.source_stop}, "category": {quote(self.category)}'
        )
        if not self.identity:
            return position + "}"
        namesakes = (
            f', "namesakes": {json.dumps(self.namesakes, ensure_ascii=False)}'
            if self.namesakes
            else ""
        )
        return (
            f'{position}, "kind": {quote(self.kind)}, "role": {quote(self.role)}, '
            f'"identity": {quote(self.identity)}, "value": {quote(self.value)}, '
            f'"group": {self.group}{namesakes}}}'
        )


@dataclass(frozen=True)
class NoteTruth:
    """A note in both corpora.

    Attributes
    ----------
    private, public
        The text with names and with placeholders.
    inserted
        Places in which the two differ, in order.
    left, n_malformed
        Placeholders that stayed in both, and number of openings `[**` that are never closed.
    chart_time
        Time of the note in D_private.
    """

    private: str
    public: str
    inserted: tuple[Place, ...] = ()
    left: tuple[Place, ...] = ()
    n_malformed: int = 0
    chart_time: str = ""

    @cached_property
    def names(self) -> tuple[Place, ...]:
        """The names in `private`, in order; the places of one person's group are one name."""
        names: dict[tuple[int, str], Place] = {}
        for place in self.inserted:
            if place.group >= 0:
                key = place.group, place.identity
                first = names.get(key)
                names[key] = first._replace(stop=place.stop) if first else place
        return tuple(names.values())

    def in_public(self, offset: int, *, is_end: bool = False) -> int:
        """Return the offset in D_public for one in D_private; inside a place, its start or end."""
        n_before = (bisect_left if is_end else bisect_right)(self.inserted, offset, key=_START)
        if not n_before:
            return offset
        place = self.inserted[n_before - 1]
        if offset >= place.stop:
            return place.source_stop + offset - place.stop
        return place.source_stop if is_end else place.source_start


def places_of(plain: Iterable[Mapping[str, Any]]) -> tuple[Place, ...]:
    """Return the places of a record of the truth file, in order."""
    try:
        return tuple(
            Place(**{**place, "namesakes": tuple(place.get("namesakes", ()))}) for place in plain
        )
    except (AttributeError, KeyError, TypeError):
        raise make_unreadable_error() from None


def corpus_notes(
    folder: Path, *, on_bytes: Callable[[int], None]
) -> Iterator[tuple[bytes, dict[str, JsonValue], tuple[Place, ...]]]:
    """Yield each note of D_private as its line and its fields, with its places.

    `on_bytes` is called with the number of bytes of each line.
    """
    with (folder / PRIVATE).open("rb") as private, (folder / TRUTH).open("rb") as truth:
        records = map(json.loads, truth)
        record = next(records, None)
        for line in private:
            note, places = json.loads(line), tuple[Place, ...]()
            if record is not None and record["row"] == note["row"]:
                places, record = places_of(record.get("inserted")), next(records, None)
            yield line, note, places
            on_bytes(len(line))
        if record is not None:
            raise AuditError(
                "The files of the corpus do not belong together.",
                where="corpus",
                do="Build the corpus again.",
            )


@dataclass(frozen=True, eq=False)
class ListedNotes:
    """The notes that hold listed names.

    Attributes
    ----------
    n_notes
        Notes of the corpus.
    n_patients, n_listed_patients
        Patients, and patients with a listed note; a note without a patient counts as one patient.
    notes
        Positions of the notes that hold a passage of a listed name or a planted canary, in rising
        order, as 4-byte numbers. A position counts from 0 in `private.jsonl`, and is the same in
        the corpus's other files of notes.
    """

    n_notes: int
    n_patients: int
    n_listed_patients: int
    notes: array[int]

    @property
    def digest(self) -> str:
        """SHA-256 of the positions."""
        return hashlib.sha256(", ".join(map(str, self.notes)).encode()).hexdigest()

    @property
    def free_share(self) -> float:
        """Share of the patients that may be held out; 0 without any patient."""
        return 1 - self.n_listed_patients / self.n_patients if self.n_patients else 0.0


def count_listed_notes(owners: Sequence[int], notes: Iterable[int]) -> ListedNotes:
    """Return the listed notes; `owners` has a number for each note's patient."""
    rising = array("I", sorted({*notes}))
    n_listed = len({owners[note] for note in rising})
    return ListedNotes(len(owners), len({*owners}), n_listed, rising)


def listed_bytes(listed: ListedNotes) -> bytes:
    """Return the content of `listed.json`."""
    return (json.dumps(vars(listed) | {"notes": listed.notes.tolist()}) + "\n").encode()


def read_listed(path: Path) -> ListedNotes:
    """Read a `listed.json`."""
    try:
        content = json.loads(path.read_bytes())
        listed = ListedNotes(**content | {"notes": array("I", content["notes"])})
        if any(a >= b for a, b in pairwise((-1, *listed.notes, listed.n_notes))):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise make_unreadable_error() from None
    return listed


def make_unreadable_error() -> AuditError:
    """Return the error for a file of a corpus that is damaged or missing."""
    return AuditError(
        "A file of the corpus cannot be read.", where="corpus", do="Build the corpus again."
    )


def listed_file(notes: Path) -> Path | None:
    """Return the `listed.json` beside a corpus's file of notes; None if there is none."""
    path = notes.with_name(LISTED)
    return path if path.is_file() else None
