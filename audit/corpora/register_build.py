"""Builds a corpus from identified notes and a patient register.

Comes in: a source of notes, a register. Goes out: a folder with `private.jsonl` (the notes as they
are), `public.jsonl` (registered names and birth dates replaced), `truth.jsonl` (where, whose),
`people.jsonl` (who is named how often), `doubtful.jsonl` (what was left), `refused.jsonl` and
`summary.json`. `public.jsonl` still holds what a register does not know: relatives, staff, places,
other dates.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from audit.corpora.build_batch import json_line, note_line
from audit.corpora.build_files import CorpusFile, corpus_folder
from audit.corpora.build_summary import PEOPLE, PRIVATE, PUBLIC, REFUSED, SUMMARY, TRUTH
from audit.corpora.notes import Note, NoteSource
from audit.corpora.register import Register
from audit.corpora.register_mentions import MentionFinder, NoteMentions
from audit.errors import AuditError
from audit.names import is_unspaced
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.tables import RowNote

DOUBTFUL = "doubtful.jsonl"
FILES = (PRIVATE, PUBLIC, TRUTH, PEOPLE, DOUBTFUL, REFUSED, SUMMARY)
_FIND = "finding registered patients"
_PLACES = {
    "first": "[FIRST]",
    "middle": "[MIDDLE]",
    "last": "[LAST]",
    "full": "[NAME]",
    "birth": "[DATE]",
}
_UNSPACED_PLACES = {"last": "[姓]", "full": "[氏名]", "birth": "[生年月日]"}


@dataclass(frozen=True)
class RegisterSummary:
    """What a build gave.

    Attributes
    ----------
    n_notes, n_refused
        Rows that became notes, and rows that were refused.
    n_unregistered
        Notes whose patient the register does not have: nobody's own name was looked for.
    n_registered, n_named
        Patients of the register, and how many of them are named anywhere.
    forms
        Form of a mention ("first+last", "last", ...) -> how often, own patients.
    n_others
        Mentions of patients in the notes of others.
    doubts
        Why a place was left -> how often.
    """

    n_notes: int
    n_refused: int
    n_unregistered: int
    n_registered: int
    n_named: int
    forms: dict[str, int]
    n_others: int
    doubts: dict[str, int]


@dataclass
class _Tally:
    n_notes: int = 0
    n_refused: int = 0
    n_unregistered: int = 0
    n_others: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    doubts: Counter[str] = field(default_factory=Counter)
    own: Counter[str] = field(default_factory=Counter)
    full: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)

    def add(self, note: Note, found: NoteMentions) -> None:
        self.n_notes += 1
        for doubt in found.doubts:
            self.doubts[doubt.why] += 1
        names = [mention for mention in found.mentions if mention.form != "birth"]
        for mention in found.mentions:
            if mention.is_own:
                self.forms[mention.form] += 1
        for mention in names:
            if mention.is_own:
                self.own[note.patient_id] += 1
                kinds = {part.kind for part in mention.parts}
                self.full[note.patient_id] += "full" in kinds or {"first", "last"} <= kinds
            else:
                self.n_others += 1
                self.others.update(mention.patient_ids)
        if any(mention.is_own for mention in names):
            self.notes[note.patient_id] += 1


def build_registered_corpus(
    source: NoteSource,
    register: Register,
    *,
    out: Path,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> RegisterSummary:
    """Build a corpus from identified notes: find registered patients and put places there.

    Raises
    ------
    AuditError
        If the source cannot be read to its end, holds no note, or the folder cannot be written.
    AuditCancelled
        If the person asked to stop; nothing is left.
    """
    finder = MentionFinder(register)
    tally = _Tally()
    meter = Meter({_FIND: float(source.n_bytes)}, listener=progress, should_stop=should_stop)
    with corpus_folder(out, names=FILES) as files:
        for note in source.read(on_bytes=partial(meter.add, _FIND)):
            if isinstance(note, RowNote):
                tally.n_refused += 1
                files[REFUSED].write(json_line(asdict(note)))
            else:
                tally.n_unregistered += not finder.is_known(note.patient_id)
                found = finder.find(note.text, patient_id=note.patient_id)
                tally.add(note, found)
                _write(note, found, files)
        meter.finish(_FIND)
        if not tally.n_notes:
            raise AuditError("No row is a note.", where="notes")
        for line in _people(register, tally):
            files[PEOPLE].write(line)
        summary = _summary(register, tally)
        files[SUMMARY].write((json.dumps(asdict(summary), indent=1) + "\n").encode())
    return summary


def _write(note: Note, found: NoteMentions, files: dict[str, CorpusFile]) -> None:
    files[PRIVATE].write(note_line(note, text=note.text, chart_time=note.chart_time))
    text, parts = without_names(note.text, found)
    # No id and no date: the hospital's own are identifiers too.
    files[PUBLIC].write(json_line({"row": note.row, "category": note.category, "text": text}))
    if parts:
        files[TRUTH].write(
            json_line(
                {"row": note.row, "note_id": note.note_id, "patient_id": note.patient_id}
                | {"mentions": parts}
            )
        )
    for doubt in found.doubts:
        files[DOUBTFUL].write(json_line({"row": note.row, **asdict(doubt)}))


def without_names(text: str, found: NoteMentions) -> tuple[str, list[dict[str, object]]]:
    """Return the text with places for names, and each part with where it stood and now stands."""
    parts = sorted(
        ((part, number) for number, mention in enumerate(found.mentions) for part in mention.parts),
        key=lambda item: item[0].start,
    )
    pieces: list[str] = []
    listed: list[dict[str, object]] = []
    done = length = 0
    for part, number in parts:
        mention = found.mentions[number]
        places = _UNSPACED_PLACES if is_unspaced(text[part.start : part.stop]) else _PLACES
        place = places.get(part.kind, "[NAME]")
        pieces += [text[done : part.start], place]
        length += part.start - done
        listed.append(
            {
                "start": part.start,
                "stop": part.stop,
                "public_start": length,
                "public_stop": length + len(place),
                "kind": part.kind,
                "form": mention.form,
                "mention": number,
                "patient_ids": mention.patient_ids,
                "is_own": mention.is_own,
            }
        )
        length += len(place)
        done = part.stop
    return "".join([*pieces, text[done:]]), listed


def _people(register: Register, tally: _Tally) -> Iterator[bytes]:
    for patient_id, rows in register.by_patient().items():
        yield json_line(
            {
                "patient_id": patient_id,
                "names": [[row.first, row.middle, row.last] for row in rows],
                "sex": next((row.sex for row in rows if row.sex), ""),
                "n_notes_named": tally.notes[patient_id],
                "n_mentions": tally.own[patient_id],
                "n_full_names": tally.full[patient_id],
                "n_in_notes_of_others": tally.others[patient_id],
            }
        )


def _summary(register: Register, tally: _Tally) -> RegisterSummary:
    patients = {row.patient_id for row in register.rows}
    named = {name for counts in (tally.own, tally.others) for name, n in counts.items() if n}
    return RegisterSummary(
        n_notes=tally.n_notes,
        n_refused=tally.n_refused,
        n_unregistered=tally.n_unregistered,
        n_registered=len(patients),
        n_named=len(patients & named),
        forms=dict(sorted(tally.forms.items())),
        n_others=tally.n_others,
        doubts=dict(sorted(tally.doubts.items())),
    )
