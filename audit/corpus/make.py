"""Makes a corpus from an order: builds it, plants canaries, examines it, writes its lists.

Comes in: an order, a folder. Goes out: the folder with D_private, D_public, the truth, counts,
candidates and passages; whole, or not there. Every byte depends on the notes and the order, not on
the number of workers (the time stamp of `corpus.json` apart). The notes are read once for what they
say of their patients, once for the names that canaries must not have, and once to build, plant and
examine; memory grows with people and names, not with notes.

Source: Nakamura et al., sections 3.2 to 3.4.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

import numpy as np
from pydantic import Field, model_validator

from audit.corpus.build import (
    CorpusFile,
    PatientTable,
    Surrogates,
    Tally,
    corpus_folder,
    dummy_people,
    facts_of_note,
    ordered_map,
)
from audit.corpus.canaries import CanaryPlan, Planting, absent_names, canary_name, plan_canaries
from audit.corpus.candidate_lists import (
    Drawing,
    canaries_csv,
    candidates_csv,
    draw_lists,
    listed_names,
)
from audit.corpus.examine import (
    N_SENTENCES,
    CountOf,
    Examination,
    ListedTally,
    MentionCoverage,
    NamedPerson,
    NamePattern,
    PatternTally,
    People,
    coverage_of,
    examination_bytes,
    named_people,
    patterns_of,
    written_passage,
)
from audit.corpus.kept import CORPORA, describe_corpus
from audit.corpus.register import (
    Register,
    Registered,
    read_register,
    registered_people,
)
from audit.corpus.truth import (
    CANARIES,
    CANARY,
    CANDIDATES,
    CORPUS,
    DOUBTFUL,
    EXAMINATION,
    LISTED,
    PASSAGES,
    PEOPLE,
    PRIVATE,
    PUBLIC,
    REFUSED,
    SUMMARY,
    TRUTH,
    json_line,
    listed_bytes,
    note_line,
    truth_line,
)
from audit.errors import AuditError
from audit.home import salted_digest
from audit.names.controls import Accepts, Name
from audit.names.matching import NameIndex, Pair
from audit.names.people import Facts
from audit.names.pools import NamePool, japanese_pool, us_pool
from audit.notes.mention_words import Mention
from audit.notes.mentions import examine
from audit.notes.placeholders import has_marks
from audit.notes.read import FIELDS, ByteListener, Note, NoteSource, open_notes, resolve_note_file
from audit.progress import Meter, Pace, Progress, ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import MAX_TITLE_CHARS, new_identifier
from audit.tables import RowNote
from audit.task import MAX_SEED, Columns, Contact, Question, Task, states_of

Language = Literal["auto", "us", "ja"]
LANGUAGES = get_args(Language)
MAX_COUNTS, MAX_COUNT, MAX_CANARIES = 12, 1_000, 1_000
MAX_WORKERS = 64


class CorpusTask(Task):
    """What a corpus is to be made of."""

    job = "corpus"
    flags: ClassVar = {
        "columns": "--column",
        "n_canaries": "--canary-names",
        "canary_counts": "--canaries",
    }

    notes: Path | None = Field(
        default=None,
        description="NOTEEVENTS.csv(.gz), discharge.csv(.gz), CSV, JSONL, Parquet, or a folder of "
        ".txt",
    )
    file_id: str = ""
    """In place of a path: the notes' place in the list of `audit.notes.read`."""
    register_file: Path | None = Field(
        default=None, description="CSV of patients: the notes are identified"
    )
    register_id: str = ""
    columns: Columns = Field(default=(), description="which column holds a field, as text=body")
    seed: int = Field(default=0, ge=0, le=MAX_SEED, description="of all that is drawn")
    n_workers: int = Field(
        default=1, ge=1, le=MAX_WORKERS, description="processes; they change no byte"
    )
    title: str = Field(
        default="", max_length=MAX_TITLE_CHARS, description="for the list of corpora"
    )
    sample: int | None = Field(default=None, ge=1, description="draw so many notes at random")
    canary_counts: tuple[Annotated[int, Field(ge=1, le=MAX_COUNT)], ...] = Field(
        default=(),
        max_length=MAX_COUNTS,
        examples=["1,2,4,8"],
        description="plant invented names so many times, as many twins are left out",
    )
    n_canaries: int = Field(default=10, ge=0, le=MAX_CANARIES, description="names for each number")
    n_sentences: int = Field(
        default=N_SENTENCES, ge=1, le=50, description="sentences of a passage (section 3.4: five)"
    )
    has_left: bool = Field(
        default=False, description="passages begin with the sentence of the name"
    )
    """The name then stands as far from the beginning as in training; else as in the paper."""
    language: Language = Field(default="auto", description="of drawn names")
    tokenizer: Path | None = Field(
        default=None,
        description="general model: names whose parts are single tokens of it only, as in the "
        "paper (section 3.4)",
    )
    corpus_id: str = Field(default_factory=new_identifier, pattern="^[0-9a-f]{12}$")
    out: Path | None = Field(
        default=None, description="a new folder; kept: among the corpora of this installation"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.notes is None) == (not self.file_id):
            raise AuditError("One file or folder of notes is needed.", where="notes")
        names = [name for name, _ in self.columns]
        if set(names) - set(FIELDS) or len(set(names)) != len(names):
            raise AuditError("A column is given for no field, or twice.", where="columns")
        if len(set(self.canary_counts)) != len(self.canary_counts):
            raise AuditError(
                "The numbers of mentions are not distinct and above zero.", where="canaries",
                do="Write them like 1,2,4,8.",
            )  # fmt: skip
        return self

    @property
    def kind(self) -> str:
        """One of `KINDS`: with a register of patients the notes are identified."""
        return "register" if self.register_file or self.register_id else "dummy"

    @property
    def has_canaries(self) -> bool:
        """Whether names are to be planted."""
        return bool(self.canary_counts) and self.n_canaries > 0

    @property
    def folder(self) -> Path:
        """Where the corpus will lie."""
        return self.out or CORPORA.place(self.corpus_id)

    def question(self) -> Question:
        """Return the question: a title makes no other corpus, but a file that has changed does."""
        notes, register = paths_of(self)
        asked = self.with_(title="", n_workers=1, corpus_id="0" * 12).plain()
        states = [states_of(notes, where="notes"), states_of(register, where="register")]
        # Salted: where notes lie is nobody's business outside this installation.
        return self.asked(label=notes.name, about=salted_digest(json.dumps([asked, states])))

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Make the corpus; returns its identifier.

        Where the job was interrupted, what it had left is cleared and the work begins anew: an
        order names its corpus, so that nothing is made twice.
        """
        if self.out is None and self.folder.is_dir():  # made, and stopped before it was noted
            return (self.corpus_id,)
        if self.out is None:
            CORPORA.clear_abandoned()  # notes of jobs that were killed
        make_corpus(self, out=self.folder, progress=contact.listen, should_stop=contact.should_stop)
        return (self.corpus_id,)


class Stages:
    """Tells the progress of stages, one after the other, as that of the whole.

    Parameters
    ----------
    weights
        Stage -> about how long it takes, in any unit.
    listener, should_stop
        Who is told, and who is asked.
    """

    def __init__(
        self, weights: Mapping[str, float], *, listener: ProgressListener, should_stop: StopQuestion
    ) -> None:
        self._weights = dict(weights)
        self._shares = dict.fromkeys(weights, 0.0)
        self._listener = listener
        self.should_stop = should_stop
        self._pace = Pace()

    def listener(self, stage: str) -> ProgressListener:
        """Return the listener of a stage: all before it are finished."""
        for before in self._weights:
            if before == stage:
                break
            self._shares[before] = 1.0

        def listen(progress: Progress) -> None:
            self._shares[stage] = progress.share
            self._listener(self._report(progress.phase))

        return listen

    def meter(self, stage: str, *, total: float) -> Meter:
        """Return a meter of a stage that is one phase of the same name."""
        return Meter(
            {stage: max(total, 1.0)}, listener=self.listener(stage), should_stop=self.should_stop
        )

    def _report(self, phase: str) -> Progress:
        done = sum(self._shares[stage] * weight for stage, weight in self._weights.items())
        total = sum(self._weights.values())
        left = self._pace.seconds_left(done, total=total, now=time.monotonic())
        return Progress(phase, done, total, left, tuple(self._shares.items()))


SAMPLE, SURVEY, NAMES, BUILD, LISTS = (
    "drawing a sample of the notes",
    "reading who the notes are about",
    "looking for names",
    "building the corpus",
    "drawing candidates",
)
# About how long each takes, for the time left.
_WEIGHTS = {SAMPLE: 1.0, SURVEY: 1.0, NAMES: 5.0, BUILD: 10.0, LISTS: 0.2}
_FILES = (PRIVATE, PUBLIC, TRUTH, PEOPLE, REFUSED, SUMMARY)
_LATER = (PASSAGES, CANDIDATES, CANARIES, LISTED, EXAMINATION, CORPUS)
_BATCH_CHARS, _BATCH_NOTES = 1_000_000, 1_000
_REASONS = 200

Maker = Surrogates | Registered
Records = Callable[[], Iterator[dict[str, object]]]
Result = TypeVar("Result")


def make_corpus(
    order: CorpusTask,
    *,
    out: Path,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Make a corpus and return its folder.

    Parameters
    ----------
    order
        What it is to be made of.
    out
        The folder to make: must not be there, or be empty. It appears when it is whole.
    progress, should_stop
        Told and asked some ten times a second.
    """
    notes, register = paths_of(order)
    source = open_notes(notes, columns=dict(order.columns))
    stages = Stages(_weights(order), listener=progress, should_stop=should_stop)
    names = (*_FILES, *_LATER, *((DOUBTFUL,) if register else ()))
    with corpus_folder(out, names=names) as files:
        if order.sample is not None:
            meter = stages.meter(SAMPLE, total=float(source.n_bytes))
            source = sampled(source, n=order.sample, seed=order.seed, meter=meter)
        makes = _Making(order, source, files, stages)
        makes.read(register)
        makes.build()
        makes.finish(name=notes.name)
    return out


def paths_of(order: CorpusTask) -> tuple[Path, Path | None]:
    """Return the paths of an order's notes and register."""
    notes = order.notes or resolve_note_file(order.file_id)
    if order.kind == "dummy":
        return notes, None
    return notes, order.register_file or resolve_note_file(order.register_id)


def _weights(order: CorpusTask) -> dict[str, float]:
    left_out = {SAMPLE} if order.sample is None else set()
    left_out |= set() if order.has_canaries else {NAMES}
    left_out |= {SURVEY} if order.kind == "register" else set()
    return {stage: weight for stage, weight in _WEIGHTS.items() if stage not in left_out}


@dataclass(frozen=True)
class _Batch:
    """Some notes in a row, the position of the first, and facts about their patients."""

    first: int
    notes: tuple[Note, ...]
    facts: tuple[Facts | None, ...]


@dataclass(frozen=True)
class _Work:
    """What is done with every note.

    `known` are parts of names that count as names whatever their case; `index` says which full
    names to count, None where they were counted before.
    """

    maker: Maker
    n_sentences: int
    has_left: bool
    known: frozenset[str]
    index: NameIndex | None
    planting: Planting | None


@dataclass(frozen=True)
class _Found:
    """A pattern, the id of its passage, and the position of its note."""

    passage_id: str
    note: int
    pattern: NamePattern


@dataclass
class _Done:
    """What became of a batch: lines of the files, and what was counted."""

    tally: Tally
    lines: dict[str, bytearray]
    patients: list[str]
    coverage: MentionCoverage
    patterns: list[_Found]
    people: list[NamedPerson]
    names: Counter[Pair]


def _build_batch(work: _Work, batch: _Batch) -> _Done:
    """Build, plant and examine some notes; the same in every process."""
    maker = work.maker
    lines = {name: bytearray() for name in (PRIVATE, PUBLIC, TRUTH, DOUBTFUL)}
    done = _Done(Tally(), lines, [], MentionCoverage(), [], [], Counter())
    for at, (note, facts) in enumerate(zip(batch.notes, batch.facts, strict=True), batch.first):
        built = maker.built(note, facts)
        done.tally.add(note, built)
        truth = built.truth
        if work.planting is not None:
            truth = work.planting.planted(truth, index=at)
        lines[PRIVATE] += note_line(note, text=truth.private, chart_time=built.chart_time)
        lines[PUBLIC] += maker.public_line(note, truth.public)
        lines[TRUTH] += truth_line(note, truth)
        for doubt in built.doubts:
            lines[DOUBTFUL] += json_line({"row": note.row, **asdict(doubt)})
        done.patients.append(note.patient_id)
        found = tuple(examine(truth.private, known=work.known))
        done.coverage += coverage_of(truth, examined=found)
        patterns = patterns_of(
            truth,
            n_sentences=work.n_sentences,
            has_left=work.has_left,
            mentions=tuple(each for each in found if isinstance(each, Mention)),
        )
        done.patterns += (
            _Found(f"{note.row}-{number}", at, pattern)
            for number, pattern in enumerate(patterns, start=1)
            if pattern.role in ("patient", "", CANARY)
        )
        done.people += named_people(truth.inserted or ())
        if work.index is not None:
            done.names.update(work.index.count(truth.private))
    return done


def _count_batch(maker: Maker, index: NameIndex, batch: _Batch) -> tuple[int, Counter[Pair]]:
    """Return the number of notes, and how often each full name will stand in D_private."""
    found: Counter[Pair] = Counter()
    for note, facts in zip(batch.notes, batch.facts, strict=True):
        found.update(index.count(maker.private_text(note, facts)))
    return len(batch.notes), found


class _Making:
    """One corpus while it is made."""

    def __init__(
        self,
        order: CorpusTask,
        source: NoteSource,
        files: Mapping[str, CorpusFile],
        stages: Stages,
    ) -> None:
        self._order, self._source, self._files, self._stages = order, source, files, stages
        self._accepts = one_token_each(order.tokenizer) if order.tokenizer else None
        self._table = PatientTable()
        self._n_rows: int | None = None
        self._plan: CanaryPlan | None = None
        self._names: Counter[Pair] = Counter()
        self._coverage = MentionCoverage()
        self._patterns, self._canaries = PatternTally(accepts=self._accepts), PatternTally()
        self._tally, self._places = Tally(), ListedTally()
        self._n_passages = self._n_refused = self._n_unregistered = 0
        self._refused: Counter[str] = Counter()

    @property
    def _is_register(self) -> bool:
        return isinstance(self._maker, Registered)

    def read(self, register: Path | None) -> None:
        """Read who the notes are about: what they say, or what the register says."""
        if register is None:
            self._maker: Maker = self._surveyed()
            self._records: Records = partial(dummy_people, self._table, seed=self._order.seed)
        else:
            self._maker = Registered(_register(register))
            self._records = partial(registered_people, self._maker.register)
        self._people = People(self._records())
        self._pool = _pool(self._order, self._people)

    def _surveyed(self) -> Surrogates:
        meter = self._stages.meter(SURVEY, total=float(self._source.n_bytes))
        has_blanks = True
        self._n_rows = 0
        for note in self._source.read(on_bytes=partial(meter.add, SURVEY)):
            self._n_rows += 1
            if isinstance(note, Note):
                self._table.add(note)
                has_blanks = has_blanks and not has_marks(note.text)
        meter.finish(SURVEY)
        return Surrogates(self._order.seed, has_blanks)

    def build(self) -> None:
        """Build, plant and examine all notes."""
        if self._order.has_canaries:
            self._plan_canaries()
        for done in self._spread(BUILD, partial(_build_batch, self._work())):
            self._take(done)
        if not self._coverage.n_notes:
            raise AuditError("No row is a note.", where="notes")

    def _plan_canaries(self) -> None:
        """Count the names that will stand in the corpus, and choose canaries that are none."""
        n_notes = 0
        for n, found in self._spread(NAMES, partial(_count_batch, self._maker, self._index())):
            n_notes += n
            self._people.count(found, into=self._names)
        order = self._order
        names = absent_names(
            self._pool,
            n=2 * len(order.canary_counts) * order.n_canaries,
            seed=order.seed,
            found=self._names,
            exclude=tuple(self._people.names),
            accepts=self._accepts or (lambda first, last: True),
        )
        self._plan = plan_canaries(
            names, n_notes=n_notes, seed=order.seed, counts=order.canary_counts
        )

    def _index(self) -> NameIndex:
        firsts, lasts = self._people.parts
        return NameIndex(firsts=firsts.union(self._pool.first), lasts=lasts.union(self._pool.last))

    def _work(self) -> _Work:
        order, planting = self._order, None
        if self._plan is not None:
            is_blank = isinstance(self._maker, Surrogates) and self._maker.has_blanks
            planting = Planting(self._plan, self._is_register, is_blank, order.seed)
        return _Work(
            maker=self._maker,
            n_sentences=order.n_sentences,
            has_left=order.has_left,
            # A register says who is a name even in notes without capitals.
            known=self._people.folded_parts if self._is_register else frozenset(),
            index=None if planting else self._index(),
            planting=planting,
        )

    def _spread(self, stage: str, work: Callable[[_Batch], Result]) -> Iterator[Result]:
        """Go through all notes once, and give what the work makes of each batch."""
        meter = self._stages.meter(stage, total=float(self._source.n_bytes))
        with ordered_map(work, n_workers=self._order.n_workers) as spread:
            yield from spread(self._batches(stage, meter))
        meter.finish(stage)

    def _batches(self, stage: str, meter: Meter) -> Iterator[_Batch]:
        notes: list[Note] = []
        n_chars = n_notes = n_rows = 0
        for note in self._source.read(on_bytes=partial(meter.add, stage)):
            n_rows += 1
            if isinstance(note, RowNote):
                self._refuse(note, is_counted=stage == BUILD)
                continue
            notes.append(note)
            n_chars += len(note.text)
            if n_chars >= _BATCH_CHARS or len(notes) >= _BATCH_NOTES:
                yield self._batch(n_notes, notes)
                n_notes += len(notes)
                notes, n_chars = [], 0
        if notes:
            yield self._batch(n_notes, notes)
        if self._n_rows not in (None, n_rows):
            raise _changed()

    def _batch(self, first: int, notes: list[Note]) -> _Batch:
        if isinstance(self._maker, Registered):
            return _Batch(first, tuple(notes), (None,) * len(notes))
        try:
            facts = [
                self._table.facts(note.patient_id) if note.patient_id else facts_of_note(note)
                for note in notes
            ]
        except KeyError:
            raise _changed() from None
        return _Batch(first, tuple(notes), tuple(facts))

    def _refuse(self, row: RowNote, *, is_counted: bool) -> None:
        if is_counted:
            self._n_refused += 1
            self._files[REFUSED].write(json_line(asdict(row)))
            if row.what in self._refused or len(self._refused) < _REASONS:
                self._refused[row.what] += 1

    def _take(self, done: _Done) -> None:
        """Write a batch, and add what was counted in it."""
        for name, lines in done.lines.items():
            if name in self._files:
                self._files[name].write(bytes(lines))
        self._tally.merge(done.tally)
        self._coverage += done.coverage
        self._people.add(done.people)
        if self._plan is None:
            self._people.count(done.names, into=self._names)
        for patient in done.patients:
            self._places.add_note(patient)
            self._n_unregistered += f"patient:{patient}" not in self._people
        for found in done.patterns:
            self._add(found)

    def _add(self, found: _Found) -> None:
        """Count a pattern, and write its passage where it is a new one whose name will do."""
        pattern = found.pattern
        is_canary = pattern.role == CANARY and self._plan is not None
        if is_canary:
            name: Name = canary_name(self._plan, pattern.person)  # type: ignore[arg-type]
        else:
            name = self._people.name_of(pattern.person) or (pattern.first, pattern.last)
        tally = self._canaries if is_canary else self._patterns
        will_do, is_new = tally.add(*name, text=pattern.text)
        if will_do and not is_canary:
            self._places.add_name(*name, note=found.note)
        if will_do and is_new:
            self._n_passages += 1
            self._files[PASSAGES].write(
                json_line(
                    {
                        "passage_id": found.passage_id,
                        "text": written_passage(pattern.passage),
                        "first_name": name[0],
                        "last_name": name[1],
                        "role": pattern.role or "patient",
                    }
                )
            )

    def finish(self, *, name: str) -> None:
        """Draw the lists, and write all that is known at the end; `name` is that of the notes."""
        meter = self._stages.meter(LISTS, total=1.0)
        n_named = self._write_people()
        self._write(SUMMARY, _indented(self._summary()))
        lists = draw_lists(
            self._patterns,
            people=self._people,
            found=self._names,
            plan=self._plan,
            drawing=Drawing(self._pool, self._accepts, self._order.seed),
        )
        self._write(CANDIDATES, candidates_csv(lists))
        self._write(CANARIES, canaries_csv(self._plan))
        patients = lists["patient"]
        listed = self._places.listed(
            zip(patients.first, patients.last, strict=True),
            planted=self._plan.rows if self._plan else (),
        )
        self._write(LISTED, listed_bytes(listed))
        examination = self._examination(
            n_named_patients=n_named,
            n_listed_positives=len(patients),
            candidates=listed_names(lists),
            carriers=self._people.carriers(patients),
        )
        self._write(EXAMINATION, examination_bytes(examination))
        self._write(CORPUS, self._described(name))
        meter.finish(LISTS)

    def _write(self, name: str, content: bytes) -> None:
        self._files[name].write(content)

    def _write_people(self) -> int:
        """Write who is named how often, and return how many are named in full."""
        tally, n_named = self._tally, 0
        counts = {"n_full_names": tally.full}
        if self._is_register:
            counts = {
                "n_notes_named": tally.notes,
                "n_mentions": tally.own,
                "n_full_names": tally.full,
                "n_in_notes_of_others": tally.others,
            }
        for record in self._records():
            patient = str(record["patient_id"])
            n_named += tally.full[patient] > 0
            numbers = {name: count[patient] for name, count in counts.items()}
            self._write(PEOPLE, json_line(record | numbers))
        return n_named

    def _summary(self) -> dict[str, object]:
        from faker import VERSION

        tally = self._tally
        inserted, unknown = tally.inserted.ranked(), tally.unknown.ranked()
        summary: dict[str, object] = {
            "format": 1,
            "source_kind": self._source.kind,
            "seed": self._order.seed,
            "has_blanks": isinstance(self._maker, Surrogates) and self._maker.has_blanks,
            "n_notes": self._coverage.n_notes,
            "n_refused": self._n_refused,
            "n_patients": len(self._people),
            "n_named_patients": len(+tally.full),
            "n_inserted": sum(count.n for count in inserted),
            "n_left": sum(count.n for count in unknown),
            "n_malformed": tally.n_malformed,
            "replaced": [count.plain() for count in inserted],
            "unknown": [count.plain() for count in unknown],
            "digests": {name: self._files[name].digest for name in _FILES if name != SUMMARY},
            "faker": VERSION,
        }
        if self._is_register:
            named = {patient for counts in (+tally.own, +tally.others) for patient in counts}
            summary |= {
                "n_unregistered": self._n_unregistered,
                "n_registered": len(self._people),
                "n_named": sum(f"patient:{patient}" in self._people for patient in named),
                "forms": dict(sorted(tally.forms.items())),
                "n_others": tally.n_others,
                "doubts": dict(sorted(tally.doubts.items())),
            }
        return summary

    def _examination(self, **values: Any) -> Examination:
        tally, is_register = self._tally, self._is_register
        planted = Counter(canary.n_mentions for canary in self._plan.planted) if self._plan else {}
        return Examination(
            coverage=self._coverage,
            n_refused=self._n_refused,
            refused=_counts(sorted(self._refused.items(), key=lambda one: (-one[1], one[0]))),
            n_patients=len(self._people),
            inserted=() if is_register else tally.inserted.ranked(),
            unknown=() if is_register else tally.unknown.ranked(),
            n_malformed=tally.n_malformed,
            doubts=_counts(sorted(tally.doubts.items())),
            pattern_table=self._patterns.pattern_table,
            mention_table=self._patterns.mention_table,
            n_positives=len(self._patterns),
            n_not_one_token=self._patterns.n_refused,
            canaries=tuple(sorted(planted.items())),
            n_passages=self._n_passages,
            **values,
        )

    def _described(self, name: str) -> bytes:
        order = self._order
        # Paths stay out, and what is said at the top already.
        hidden = {"notes", "register_file", "tokenizer", "file_id", "register_id", "title", "seed",
                  "n_workers", "corpus_id", "out"}  # fmt: skip
        asked = {key: value for key, value in order.plain().items() if key not in hidden}
        return describe_corpus(
            title=order.title,
            kind=order.kind,
            source=name,
            seed=order.seed,
            n_notes=self._coverage.n_notes,
            n_patients=len(self._people),
            has_token_rule=order.tokenizer is not None,
            **asked,
            candidates_sha256=self._files[CANDIDATES].digest,
            private_bytes=self._files[PRIVATE].n_bytes,
        )


def _register(path: Path) -> Register:
    try:
        return read_register(path.read_bytes())
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="register") from None


def _changed() -> AuditError:
    return AuditError("The notes changed while they were read.", where="notes")


def _counts(counts: Iterable[tuple[str, int]]) -> tuple[CountOf, ...]:
    return tuple(CountOf(what=what, n=n) for what, n in counts)


def _indented(content: Mapping[str, object]) -> bytes:
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def one_token_each(tokenizer: Path) -> Accepts:
    """Return the rule of section 3.4: first and last name are a single token each."""
    from audit.models.registry import tokenizer as built_tokenizer
    from audit.names.spelling import piece_counter

    count: Callable[[str, str], int] = piece_counter(built_tokenizer(tokenizer))
    return lambda first, last: count("first", first) == 1 and count("last", last) == 1


def _pool(order: CorpusTask, people: People) -> NamePool:
    is_japanese = order.language == "ja" or (order.language == "auto" and people.is_unspaced)
    return japanese_pool() if is_japanese else us_pool()


@dataclass(frozen=True)
class SampledSource(NoteSource):
    """A source of which some notes are read; `chosen` holds a 1 for each of them, else a 0."""

    chosen: bytes = b""

    def read(self, *, on_bytes: ByteListener = lambda n: None) -> Iterator[Note | RowNote]:
        """Go through the notes that were drawn, and through all refusals."""
        index = 0
        for note in super().read(on_bytes=on_bytes):
            if isinstance(note, RowNote):
                yield note
                continue
            if index < len(self.chosen) and self.chosen[index]:
                yield note
            index += 1
        if index != len(self.chosen):
            raise AuditError("The notes changed while they were read.", where="notes")


def sampled(source: NoteSource, *, n: int, seed: int, meter: Meter) -> NoteSource:
    """Draw n notes without replacement; all of them where there are no more."""
    notes = source.read(on_bytes=partial(meter.add, SAMPLE))
    n_notes = sum(isinstance(note, Note) for note in notes)
    meter.finish(SAMPLE)
    if n >= n_notes:
        return source
    chosen = np.zeros(n_notes, dtype=np.uint8)
    chosen[generator(seed, "corpus/sample").permutation(n_notes)[:n]] = 1
    known = {field.name: getattr(source, field.name) for field in fields(NoteSource)}
    return SampledSource(**known, chosen=chosen.tobytes())
