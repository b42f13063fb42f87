"""A batch of notes on its way into a corpus: the lines of its files, and what was counted.

Comes in: notes with the facts about their patients. Goes out: bytes. Knows no file and no other
batch, so that it can be done in any process.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from audit.corpora.build_summary import CategoryCount, CategoryCounter
from audit.corpora.identities import Facts, Patient, patient_of
from audit.corpora.notes import Note
from audit.corpora.placeholder_dates import parsed_day
from audit.corpora.surrogates import Inserted, Left, Surrogate, patient_key, with_surrogates

_encode = json.JSONEncoder(ensure_ascii=False).encode
_INSERTED = tuple(field.name for field in fields(Inserted))
_LEFT = tuple(field.name for field in fields(Left))


@dataclass(frozen=True)
class BuildSettings:
    """What every note is built with; `has_blanks`: whether `___` is a placeholder."""

    seed: int
    has_blanks: bool


@dataclass(frozen=True)
class Batch:
    """N notes and N facts about their patients."""

    notes: tuple[Note, ...]
    facts: tuple[Facts, ...]


@dataclass(frozen=True)
class Built:
    """What became of a batch.

    Attributes
    ----------
    private, public, truth
        Lines of JSON.
    n_notes, n_malformed
        Notes; placeholders that are opened and never closed.
    replaced, unknown
        Places by category.
    named
        Patient id -> how often first and last name stand together.
    """

    private: bytes
    public: bytes
    truth: bytes
    n_notes: int
    n_malformed: int
    replaced: tuple[CategoryCount, ...]
    unknown: tuple[CategoryCount, ...]
    named: Mapping[str, int]


def build_batch(settings: BuildSettings, batch: Batch) -> Built:
    """Return what a batch gives; the same in every process."""
    private, public, truth = bytearray(), bytearray(), bytearray()
    replaced, unknown = CategoryCounter(), CategoryCounter()
    named: Counter[str] = Counter()
    n_malformed = 0
    for note, facts in zip(batch.notes, batch.facts, strict=True):
        new = with_surrogates(note, facts=facts, seed=settings.seed, has_blanks=settings.has_blanks)
        patient = patient_of(settings.seed, patient_key(note), facts)
        private += note_line(note, text=new.text, chart_time=_moved(note.chart_time, patient))
        public += note_line(note, text=note.text, chart_time=note.chart_time)
        if new.inserted or new.left or new.n_malformed:
            truth += json_line(_truth(note, new))
        for place in new.inserted:
            replaced.add(place.category, place.kind, row=note.row)
        for left in new.left:
            unknown.add(left.category, "unknown", row=note.row)
        n_malformed += new.n_malformed
        if note.patient_id:
            named[note.patient_id] += n_full_names(new.inserted)
    return Built(
        private=bytes(private),
        public=bytes(public),
        truth=bytes(truth),
        n_notes=len(batch.notes),
        n_malformed=n_malformed,
        replaced=replaced.counts(),
        unknown=unknown.counts(),
        named=+named,
    )


def n_full_names(inserted: tuple[Inserted, ...]) -> int:
    """Return how often the patient's first and last name stand together."""
    parts: dict[int, set[str]] = {}
    for place in inserted:
        if place.role == "patient":
            parts.setdefault(place.group, set()).add(place.kind)
    return sum("full" in kinds or {"first", "last"} <= kinds for kinds in parts.values())


def people_lines(
    patients: Iterator[tuple[str, Facts]], *, seed: int, named: Mapping[str, int]
) -> Iterator[bytes]:
    """Return a line about each patient: the identity, and how often it is named in full."""
    for patient_id, facts in patients:
        patient = patient_of(seed, f"patient:{patient_id}", facts)
        person = patient.person
        yield json_line(
            {
                "identity": patient.key,
                "patient_id": patient_id,
                "first": person.first,
                "initial": person.initial,
                "last": person.last,
                "sex": person.sex,
                "is_sex_known": facts.sex != "",
                "moved_days": patient.interval.n_days,
                "n_full_names": named.get(patient_id, 0),
            }
        )


def note_line(note: Note, *, text: str, chart_time: str) -> bytes:
    """Return a note as a line of JSON."""
    return json_line(
        {
            "row": note.row,
            "note_id": note.note_id,
            "patient_id": note.patient_id,
            "admission_id": note.admission_id,
            "category": note.category,
            "chart_time": chart_time,
            "text": text,
        }
    )


def json_line(content: Mapping[str, object]) -> bytes:
    """Return a line of JSON."""
    return (_encode(content) + "\n").encode()


def _truth(note: Note, new: Surrogate) -> dict[str, object]:
    return {
        "row": note.row,
        "note_id": note.note_id,
        "patient": patient_key(note),
        "inserted": [{name: getattr(place, name) for name in _INSERTED} for place in new.inserted],
        "left": [{name: getattr(place, name) for name in _LEFT} for place in new.left],
        "n_malformed": new.n_malformed,
    }


def _moved(chart_time: str, patient: Patient) -> str:
    day = parsed_day(chart_time)
    if day is None:
        return chart_time
    try:
        return patient.interval.move(day).isoformat() + chart_time[10:]
    except OverflowError:
        return ""
