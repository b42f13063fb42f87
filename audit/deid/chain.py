"""The chain from masked notes to a corpus with names: typed, translated, filled, split.

Comes in: a source of notes, a seed. Goes out: a folder with `train.jsonl`, `validation.jsonl`,
`test.jsonl`, `rest.jsonl` (notes with spans), `refused.jsonl` and `summary.json`. The source is
read twice; memory does not grow with the notes but by some bytes for each note and patient.
Where language models are asked, their answers stay when a build is stopped or killed, and the next
one of the same folder asks for the others alone.

Source: paper 002, section 2.1, steps 1 to 6.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from audit.corpora.build_files import CorpusFile, building_folder, corpus_folder
from audit.corpora.notes import Note, NoteSource
from audit.corpora.placeholder_dates import parsed_day
from audit.deid.chain_summary import ChainSummary, ChainTally, summary_bytes
from audit.deid.chain_survey import Surveyed, survey
from audit.deid.fill_masks import FilledNote, filled
from audit.deid.fill_values import NoteContext
from audit.deid.identities import identity_of
from audit.deid.japanese_notes import with_template
from audit.deid.kept_answers import AskedModel, FillMeter, answers_kept
from audit.deid.mask_kinds import has_marks as has_typed_marks
from audit.deid.mask_types import MaskTyper, RuleTyper, masked_note, with_types
from audit.deid.name_variants import JAPANESE, LOCALES
from audit.deid.patient_profiles import profile_of_note, with_marked_ages
from audit.deid.splits import SPLITS, LeakCounter, SplitSizes
from audit.deid.translation_step import NoTranslation, Translator
from audit.errors import AuditError
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.tables import RowNote

REFUSED, SUMMARY = "refused.jsonl", "summary.json"
ANSWERS = "answers.jsonl"
SPLIT_FILES = {split: f"{split}.jsonl" for split in SPLITS}
FILES = (*SPLIT_FILES.values(), REFUSED, SUMMARY)
SURVEY, FILL = "reading who the notes are about", "filling names in"
_BATCH_NOTES = 32
_MODEL_WEIGHT = 20.0
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
    models
        The language models that these two ask, so that their answers are kept.
    """

    seed: int = 0
    locale: str = JAPANESE
    has_template: bool = True
    sizes: SplitSizes | None = None
    typer: MaskTyper = field(default_factory=RuleTyper)
    translator: Translator = field(default_factory=NoTranslation)
    models: tuple[AskedModel, ...] = ()

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
        Asked for each batch of notes and of a model's prompts; the unit is bytes of the source.

    Raises
    ------
    AuditError
        If the source cannot be read or changes, holds no note, has too few notes for the splits,
        or the folder cannot be written.
    AuditCancelled
        If the person asked to stop; nothing is left but a model's answers.
    """
    # Models take hours where the first pass takes a minute: it is no part of the time left then.
    n_fill = source.n_bytes * (_MODEL_WEIGHT if order.models else 1.0)
    totals = {SURVEY: float(source.n_bytes), FILL: n_fill}
    meter = Meter(totals, listener=progress, should_stop=should_stop)

    def on_survey(n: int) -> None:
        meter.add(SURVEY, n, is_cached=bool(order.models))

    with corpus_folder(out, names=FILES, kept=ANSWERS if order.models else "") as files:
        surveyed = survey(source, sizes=order.sizes, seed=order.seed, on_bytes=on_survey)
        meter.finish(SURVEY)
        tally, leaks = ChainTally(), LeakCounter()
        filler = _Filler(order, surveyed)
        gauge = FillMeter(meter, FILL, n_units=n_fill / surveyed.n_notes, models=order.models)
        batches = _batches(source, gauge, refused=files[REFUSED], tally=tally)
        with answers_kept(order.models, building_folder(out) / ANSWERS, on_batch=gauge.answered):
            for batch in batches:
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


def _batches(
    source: NoteSource, gauge: FillMeter, *, refused: CorpusFile, tally: ChainTally
) -> Iterator[list[Note]]:
    notes: list[Note] = []
    for note in source.read(on_bytes=gauge.read):
        if isinstance(note, RowNote):
            tally.n_refused += 1
            refused.write(_line(asdict(note)))
            continue
        notes.append(note)
        if len(notes) == _BATCH_NOTES:
            gauge.begin(len(notes))
            yield notes
            gauge.end()
            notes = []
    if notes:
        gauge.begin(len(notes))
        yield notes
        gauge.end()


@dataclass(frozen=True)
class _Line:
    split: str
    data: bytes


class _Filler:
    """Steps 2 to 5 for batch after batch."""

    def __init__(self, order: ChainOrder, surveyed: Surveyed) -> None:
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
