"""Builds a corpus: D_private with dummy identities, D_public as it was, and the truth about both.

Comes in: a source of notes with placeholders, a seed. Goes out: a folder with `private.jsonl`,
`public.jsonl`, `truth.jsonl`, `people.jsonl`, `refused.jsonl` and `summary.json`. Every byte
depends on the notes and the seed, not on the number of workers.

Source: Nakamura et al., section 3.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from audit.corpora.build_batch import (
    Batch,
    BuildSettings,
    Built,
    build_batch,
    json_line,
    people_lines,
)
from audit.corpora.build_files import CorpusFile, corpus_folder
from audit.corpora.build_summary import (
    PEOPLE,
    PRIVATE,
    PUBLIC,
    REFUSED,
    SUMMARY,
    TRUTH,
    CategoryCounter,
    CorpusSummary,
    summary_bytes,
)
from audit.corpora.notes import Note, NoteSource
from audit.corpora.patient_facts import PatientTable, facts_of_note
from audit.corpora.placeholders import has_marks
from audit.corpora.work_pool import ordered_map
from audit.errors import AuditError
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.tables import RowNote

FILES = (PRIVATE, PUBLIC, TRUTH, PEOPLE, REFUSED, SUMMARY)
SURVEY, BUILD = "reading who the notes are about", "building the corpus"
_BATCH_CHARS = 1_000_000
_BATCH_NOTES = 1000


def build_corpus(
    source: NoteSource,
    *,
    out: Path,
    seed: int,
    n_workers: int = 1,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> CorpusSummary:
    """Build a corpus from notes with placeholders.

    Parameters
    ----------
    source
        From `open_notes`; it is read twice.
    out
        The folder to make: must not be there, or be empty. It appears when it is whole.
    seed
        Of the identities.
    n_workers
        Processes beside this one; 1 builds in this one.
    progress, should_stop
        Asked once for each megabyte; the unit is bytes of the source.

    Raises
    ------
    AuditError
        If the source cannot be read to its end, changes while it is read, holds no note, or the
        folder cannot be written.
    AuditCancelled
        If the person asked to stop; nothing is left.
    """
    totals = {SURVEY: float(source.n_bytes), BUILD: float(source.n_bytes)}
    meter = Meter(totals, listener=progress, should_stop=should_stop)
    with corpus_folder(out, names=FILES) as files:
        table, settings = _survey(source, meter, seed=seed)
        tally = _Tally()
        with ordered_map(partial(build_batch, settings), n_workers=n_workers) as build:
            batches = _batches(source, table, meter, refused=files[REFUSED], tally=tally)
            for built in build(batches):
                files[PRIVATE].write(built.private)
                files[PUBLIC].write(built.public)
                files[TRUTH].write(built.truth)
                tally.add(built)
        meter.finish(BUILD)
        if tally.n_rows != table.n_rows:
            raise AuditError("The notes changed while they were read.", where="notes")
        if not tally.n_notes:
            raise AuditError("No row is a note.", where="notes")
        patients = ((name, table.patients.facts(name)) for name in table.patients)
        for line in people_lines(patients, seed=seed, named=tally.named):
            files[PEOPLE].write(line)
        digests = {name: files[name].digest for name in FILES if name != SUMMARY}
        summary = tally.summary(source, settings, digests, n_patients=len(table.patients))
        files[SUMMARY].write(summary_bytes(summary))
    return summary


@dataclass(frozen=True)
class _Surveyed:
    patients: PatientTable
    n_rows: int


def _survey(source: NoteSource, meter: Meter, *, seed: int) -> tuple[_Surveyed, BuildSettings]:
    table = PatientTable()
    marks = False
    n_rows = 0
    for note in source.read(on_bytes=partial(meter.add, SURVEY)):
        n_rows += 1
        if isinstance(note, Note):
            table.add(note)
            marks = marks or has_marks(note.text)
    meter.finish(SURVEY)
    return _Surveyed(table, n_rows), BuildSettings(seed=seed, has_blanks=not marks)


class _Tally:
    """Counts over all batches."""

    def __init__(self) -> None:
        self.n_notes = self.n_refused = self.n_malformed = 0
        self.named: Counter[str] = Counter()
        self._replaced = CategoryCounter()
        self._unknown = CategoryCounter()

    @property
    def n_rows(self) -> int:
        return self.n_notes + self.n_refused

    def add(self, built: Built) -> None:
        self.n_notes += built.n_notes
        self.n_malformed += built.n_malformed
        self.named.update(built.named)
        self._replaced.merge(built.replaced)
        self._unknown.merge(built.unknown)

    def summary(
        self,
        source: NoteSource,
        settings: BuildSettings,
        digests: dict[str, str],
        *,
        n_patients: int,
    ) -> CorpusSummary:
        from faker import VERSION

        replaced, unknown = self._replaced.ranked(), self._unknown.ranked()
        return CorpusSummary(
            source_kind=source.kind,
            seed=settings.seed,
            has_blanks=settings.has_blanks,
            n_notes=self.n_notes,
            n_refused=self.n_refused,
            n_patients=n_patients,
            n_named_patients=len(self.named),
            n_inserted=sum(count.n for count in replaced),
            n_left=sum(count.n for count in unknown),
            n_malformed=self.n_malformed,
            replaced=replaced,
            unknown=unknown,
            digests=digests,
            faker=VERSION,
        )


def _batches(
    source: NoteSource, table: _Surveyed, meter: Meter, *, refused: CorpusFile, tally: _Tally
) -> Iterator[Batch]:
    notes: list[Note] = []
    n_chars = 0
    for note in source.read(on_bytes=partial(meter.add, BUILD)):
        if isinstance(note, RowNote):
            tally.n_refused += 1
            refused.write(json_line(asdict(note)))
            continue
        notes.append(note)
        n_chars += len(note.text)
        if n_chars >= _BATCH_CHARS or len(notes) >= _BATCH_NOTES:
            yield _with_facts(notes, table.patients)
            notes, n_chars = [], 0
    if notes:
        yield _with_facts(notes, table.patients)


def _with_facts(notes: list[Note], table: PatientTable) -> Batch:
    try:
        facts = [
            table.facts(note.patient_id) if note.patient_id else facts_of_note(note)
            for note in notes
        ]
    except KeyError:
        raise AuditError("The notes changed while they were read.", where="notes") from None
    return Batch(tuple(notes), tuple(facts))
