"""The chain from masked notes to a corpus with names: typed, translated, filled, split.

Comes in: a source of notes, a seed. Goes out: a folder with `train.jsonl`, `validation.jsonl`,
`test.jsonl`, `rest.jsonl` (notes with spans), `refused.jsonl` and `summary.json`. The source is
read twice; memory does not grow with the notes but by some bytes for each note and patient.

Source: paper 002, section 2.1, steps 1 to 6.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from audit.corpora.build_files import CorpusFile, corpus_folder
from audit.corpora.notes import Note, NoteSource
from audit.corpora.placeholder_dates import parsed_day
from audit.corpora.placeholders import has_marks
from audit.deid.chain_summary import ChainSummary, ChainTally, summary_bytes
from audit.deid.fill_masks import FilledNote, filled
from audit.deid.fill_values import NoteContext
from audit.deid.identities import identity_of
from audit.deid.japanese_notes import with_template
from audit.deid.mask_kinds import has_marks as has_typed_marks
from audit.deid.mask_types import MaskTyper, RuleTyper, masked_note, with_types
from audit.deid.name_variants import JAPANESE, LOCALES
from audit.deid.patient_profiles import ProfileTable, profile_of_note, with_marked_ages
from audit.deid.splits import SPLITS, LeakCounter, SplitSizes, split_notes, usual_sizes
from audit.deid.translation_step import NoTranslation, Translator
from audit.errors import AuditError
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.tables import RowNote

REFUSED, SUMMARY = "refused.jsonl", "summary.json"
SPLIT_FILES = {split: f"{split}.jsonl" for split in SPLITS}
FILES = (*SPLIT_FILES.values(), REFUSED, SUMMARY)
SURVEY, FILL = "reading who the notes are about", "filling names in"
_BATCH_NOTES = 32
_WHERE = "notes"


@dataclass(frozen=True)
class ChainOrder:
    """How a corpus with names is made.

    Attributes
    ----------
    seed
        Of identities and splits.
    locale
        Of the names: "ja_JP" or "en_US".
    has_template
        Whether notes without any mask get a Japanese header and mentions.
    sizes
        Of the splits; None for the paper's, or less where there are fewer notes.
    typer, translator
        Steps 2 and 3: rules and nobody by default.
    """

    seed: int = 0
    locale: str = JAPANESE
    has_template: bool = True
    sizes: SplitSizes | None = None
    typer: MaskTyper = field(default_factory=RuleTyper)
    translator: Translator = field(default_factory=NoTranslation)

    def __post_init__(self) -> None:
        """Check the locale, once."""
        if self.locale not in LOCALES:
            raise ValueError(f"{self.locale}: no names of this locale")


def build_named(
    source: NoteSource,
    *,
    out: Path,
    order: ChainOrder,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> ChainSummary:
    """Make a corpus with names; the folder appears when it is whole.

    Parameters
    ----------
    source
        From `open_notes`.
    out
        Must not be there, or be empty.
    progress, should_stop
        Asked for each batch of notes; the unit is bytes of the source.

    Raises
    ------
    AuditError
        If the source cannot be read or changes, holds no note, has too few notes for the splits,
        or the folder cannot be written.
    AuditCancelled
        If the person asked to stop; nothing is left.
    """
    totals = {SURVEY: float(source.n_bytes), FILL: float(source.n_bytes)}
    meter = Meter(totals, listener=progress, should_stop=should_stop)
    with corpus_folder(out, names=FILES) as files:
        surveyed = _survey(source, meter, order=order)
        tally, leaks = ChainTally(), LeakCounter()
        filler = _Filler(order, surveyed)
        for batch in _batches(source, meter, refused=files[REFUSED], tally=tally):
            for line in filler.lines(batch, tally=tally, leaks=leaks):
                files[SPLIT_FILES[line.split]].write(line.data)
        if filler.n_done != surveyed.n_notes:
            raise AuditError("The notes changed while they were read.", where=_WHERE)
        meter.finish(FILL)
        summary = tally.summary(
            seed=order.seed,
            locale=order.locale,
            n_patients=len(surveyed.profiles),
            leaks=leaks.check(),
            digests={name: files[name].digest for name in FILES if name != SUMMARY},
        )
        files[SUMMARY].write(summary_bytes(summary))
    return summary


@dataclass(frozen=True)
class _Surveyed:
    profiles: ProfileTable
    has_blanks: bool
    n_notes: int
    split: bytes
    has_same_ids: bool


def _survey(source: NoteSource, meter: Meter, *, order: ChainOrder) -> _Surveyed:
    profiles = ProfileTable()
    owners = array("q")
    place_of: dict[str, int] = {}
    ids: set[int] = set()
    marks = False
    for note in source.read(on_bytes=partial(meter.add, SURVEY)):
        if isinstance(note, RowNote):
            continue
        profiles.add(note)
        # A note without a patient is a patient of its own.
        own = place_of.setdefault(note.patient_id, len(place_of)) if note.patient_id else -1
        owners.append(own)
        ids.add(hash(note.note_id))
        marks = marks or has_marks(note.text)
    meter.finish(SURVEY)
    if not owners:
        raise AuditError("No row is a note.", where=_WHERE)
    patients = list(place_of)
    single = [own < 0 or profiles.n_notes(patients[own]) == 1 for own in owners]
    sizes = order.sizes or usual_sizes(n_notes=len(owners), n_single=sum(single))
    split = split_notes(len(owners), single=single, sizes=sizes, seed=order.seed)
    return _Surveyed(profiles, not marks, len(owners), split, len(ids) < len(owners))


def _batches(
    source: NoteSource, meter: Meter, *, refused: CorpusFile, tally: ChainTally
) -> Iterator[list[Note]]:
    notes: list[Note] = []
    for note in source.read(on_bytes=partial(meter.add, FILL)):
        if isinstance(note, RowNote):
            tally.n_refused += 1
            refused.write(_line(asdict(note)))
            continue
        notes.append(note)
        if len(notes) == _BATCH_NOTES:
            yield notes
            notes = []
    if notes:
        yield notes


@dataclass(frozen=True)
class _Line:
    split: str
    data: bytes


class _Filler:
    """Steps 2 to 5 for batch after batch."""

    def __init__(self, order: ChainOrder, surveyed: _Surveyed) -> None:
        self._order = order
        self._surveyed = surveyed
        self.n_done = 0

    def lines(self, notes: list[Note], *, tally: ChainTally, leaks: LeakCounter) -> Iterator[_Line]:
        if self.n_done + len(notes) > self._surveyed.n_notes:
            raise AuditError("The notes changed while they were read.", where=_WHERE)
        texts = self._typed(notes, tally=tally)
        for note, text in zip(notes, self._order.translator.translate(texts), strict=True):
            done = filled(text.text, context=self._context(note))
            split = SPLITS[self._surveyed.split[self.n_done]]
            self.n_done += 1
            doc_id = f"{note.note_id}#{note.row}" if self._surveyed.has_same_ids else note.note_id
            tally.add(done, text, split=split)
            leaks.add(
                split,
                patient=_owner(note),
                doc_id=doc_id,
                text=done.text,
                names=_full_names(done),
            )
            yield _Line(split, named_line(done, doc_id=doc_id, note=note))

    def _typed(self, notes: list[Note], *, tally: ChainTally) -> list[str]:
        masked = [masked_note(note.text, has_blanks=self._surveyed.has_blanks) for note in notes]
        answers = self._order.typer.types(masked)
        texts: list[str] = []
        for note, one, types in zip(notes, masked, answers, strict=True):
            if not one.places and self._order.has_template and not has_typed_marks(note.text):
                tally.n_templates += 1
                key = f"{_owner(note)}/{note.row}"
                texts.append(with_template(note.text, seed=self._order.seed, note=key))
                continue
            typed = with_types(one, types)
            tally.add_typed(typed)
            texts.append(with_marked_ages(typed.text))
        return texts

    def _context(self, note: Note) -> NoteContext:
        seed = self._order.seed
        try:
            known = (
                self._surveyed.profiles.profile(note.patient_id, seed=seed)
                if note.patient_id
                else profile_of_note(note, seed=seed)
            )
        except KeyError:
            raise AuditError("The notes changed while they were read.", where=_WHERE) from None
        owner = _owner(note)
        return NoteContext(
            seed=seed,
            identity=identity_of(seed, owner, known.profile, locale=self._order.locale),
            stay=f"{owner}/{note.admission_id}",
            note=f"{owner}/{note.row}",
            near=parsed_day(note.chart_time) or known.first_day,
            interval=known.interval,
            locale=self._order.locale,
        )


def named_line(done: FilledNote, *, doc_id: str, note: Note) -> bytes:
    """Return a note with names as a line of JSONL, as `deid score` and taggers read it."""
    record: dict[str, object] = {"doc_id": doc_id, "text": done.text}
    if note.patient_id:
        record["patient_id"] = note.patient_id
    record["spans"] = [
        {
            "start": span.start,
            "end": span.end,
            "label": span.label,
            "kind": span.kind,
            "person": span.person,
        }
        for span in done.spans
    ]
    return _line(record)


def _line(record: object) -> bytes:
    text = json.dumps(record, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "surrogatepass")


def _owner(note: Note) -> str:
    return f"patient:{note.patient_id}" if note.patient_id else f"note:{note.row}"


def _full_names(done: FilledNote) -> Iterator[str]:
    for span, value in zip(done.spans, done.values, strict=True):
        if span.label == "identifier":
            yield value
