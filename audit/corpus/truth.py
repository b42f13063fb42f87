"""What is known of a corpus: its files, where its two texts differ, and whose names stand there.

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

from audit.errors import AuditError

PRIVATE, PUBLIC, TRUTH = "private.jsonl", "public.jsonl", "truth.jsonl"
PEOPLE, REFUSED, CORPUS = "people.jsonl", "refused.jsonl", "corpus.json"
CANDIDATES, PASSAGES = "candidates.csv", "passages.jsonl"
EXAMINATION, LISTED = "examination.json", "listed.json"
HELD_OUT, HELD_OUT_TRUTH = "held_out.jsonl", "held_out_truth.jsonl"
"""Notes of held-out patients as in D_private, and what is known of them: in no training."""

CANARY = "canary"
"""Role of a planted name; the person is "canary:ROW", the row of the list of canaries."""
_START = attrgetter("start")
_encode = json.JSONEncoder(ensure_ascii=False).encode
quoted = json.encoder.encode_basestring
"""Returns a text as JSON has it; lines of notes are put together from it, which is quicker."""


class Place(NamedTuple):
    """One stretch in which D_private and D_public differ, or a placeholder that stayed.

    Attributes
    ----------
    start, stop, source_start, source_stop
        In characters of D_private, and of D_public.
    category
        Of the placeholder as written; with a register, the form of the mention ("first+last").
    kind, role
        What stands in D_private, and whose it is: "patient", "staff", `CANARY` ...
    identity
        Whose value it is: values of one identity and kind are the same, but for dates, which move
        by the interval of the patient, and for the full stop of an initial.
    value
        The text in D_private.
    group
        Names of one person that stand together have the same number; -1 for what is no name.
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
        """Return the place as the truth file has it: of one that stayed, where it stands."""
        where = (
            f'{{"start": {self.start}, "stop": {self.stop}, "source_start": {self.source_start}, '
            f'"source_stop": {self.source_stop}, "category": {quoted(self.category)}'
        )
        if not self.identity:
            return where + "}"
        namesakes = f', "namesakes": {_encode(self.namesakes)}' if self.namesakes else ""
        return (
            f'{where}, "kind": {quoted(self.kind)}, "role": {quoted(self.role)}, '
            f'"identity": {quoted(self.identity)}, "value": {quoted(self.value)}, '
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
        Where the two differ, in order.
    left, n_malformed
        Placeholders that stayed in both, and openings `[**` that are never closed.
    chart_time
        Of the note in D_private.
    """

    private: str
    public: str
    inserted: tuple[Place, ...] = ()
    left: tuple[Place, ...] = ()
    n_malformed: int = 0
    chart_time: str = ""

    @cached_property
    def names(self) -> tuple[Place, ...]:
        """The names in `private`, in order: what one person's group holds is one name."""
        names: dict[tuple[int, str], Place] = {}
        for place in self.inserted:
            if place.group >= 0:
                key = place.group, place.identity
                first = names.get(key)
                names[key] = first._replace(stop=place.stop) if first else place
        return tuple(names.values())

    def in_public(self, at: int, *, is_end: bool = False) -> int:
        """Return the offset in D_public of one in D_private; of a place its beginning or end."""
        n_before = (bisect_left if is_end else bisect_right)(self.inserted, at, key=_START)
        if not n_before:
            return at
        place = self.inserted[n_before - 1]
        if at >= place.stop:
            return place.source_stop + at - place.stop
        return place.source_stop if is_end else place.source_start


def json_line(content: Mapping[str, object]) -> bytes:
    """Return a line of JSON."""
    return (_encode(content) + "\n").encode()


def json_page(content: Mapping[str, object]) -> bytes:
    """Return a file of JSON that a person can read."""
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def places_of(plain: Any) -> tuple[Place, ...]:
    """Return places as a record of the truth file has them, in order."""
    try:
        return tuple(
            Place(**{**place, "namesakes": tuple(place.get("namesakes", ()))}) for place in plain
        )
    except (AttributeError, KeyError, TypeError):
        raise unreadable() from None


def corpus_notes(
    folder: Path, *, on_bytes: Callable[[int], None]
) -> Iterator[tuple[bytes, dict[str, Any], tuple[Place, ...]]]:
    """Yield each note of D_private as its line and its values, with its places.

    `on_bytes` is told the bytes of each line.
    """
    with (folder / PRIVATE).open("rb") as private, (folder / TRUTH).open("rb") as truth:
        records = map(json.loads, truth)
        known = next(records, None)
        for line in private:
            note, places = json.loads(line), tuple[Place, ...]()
            if known is not None and known["row"] == note["row"]:
                places, known = places_of(known.get("inserted")), next(records, None)
            yield line, note, places
            on_bytes(len(line))
        if known is not None:
            raise AuditError(
                "The files of the corpus do not belong together.",
                where="corpus",
                do="Build the corpus again.",
            )


@dataclass(frozen=True, eq=False)
class ListedNotes:
    """Where listed names stand.

    Attributes
    ----------
    n_notes
        Of the corpus.
    n_patients, n_listed_patients
        Patients, a note of nobody counting as one; and those of them with a listed note.
    notes
        Positions of the notes that hold a passage of a listed name or a planted canary, rising,
        as 4-byte numbers. A position counts from 0 in `private.jsonl`, and is the same in the
        corpus's other files of notes.
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


def listed_notes(owners: Sequence[int], notes: Iterable[int]) -> ListedNotes:
    """Return what is listed; `owners` has the number of each note's patient, or its own."""
    rising = array("I", sorted({*notes}))
    n_listed = len({owners[note] for note in rising})
    return ListedNotes(len(owners), len({*owners}), n_listed, rising)


def listed_bytes(listed: ListedNotes) -> bytes:
    """Return what `listed.json` holds."""
    return (json.dumps(vars(listed) | {"notes": listed.notes.tolist()}) + "\n").encode()


def read_listed(path: Path) -> ListedNotes:
    """Return what a `listed.json` says."""
    try:
        content = json.loads(path.read_bytes())
        listed = ListedNotes(**content | {"notes": array("I", content["notes"])})
        if any(a >= b for a, b in pairwise((-1, *listed.notes, listed.n_notes))):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        raise unreadable() from None
    return listed


def unreadable() -> AuditError:
    """Return the error for a file of a corpus that is damaged or not there."""
    return AuditError(
        "A file of the corpus cannot be read.", where="corpus", do="Build the corpus again."
    )


def listed_file(notes: Path) -> Path | None:
    """Return the `listed.json` beside a corpus's file of notes; None where there is none."""
    path = notes.with_name(LISTED)
    return path if path.is_file() else None
