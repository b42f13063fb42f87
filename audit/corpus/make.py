"""Makes a corpus from an order: builds it, plants canaries, examines it, writes its lists.

Input: an order, a folder. Output: the folder with D_private, D_public, the truth, counts,
candidates and passages; complete, or absent. Every byte depends only on the notes and the order
(except the time stamp of `corpus.json`). The notes are read once for the facts about their patients
and once to build and examine them. If canaries are planted, the built notes wait in an unnamed file
until it is known which names occur nowhere, and only notes that get a canary are made again. Memory
grows with people and names, not with notes.

Source: Nakamura et al., sections 3.2 to 3.4.
"""

from __future__ import annotations

import json
import pickle
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from functools import partial
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryFile
from typing import Annotated, ClassVar, Self, TypeVar

from pydantic import Field, model_validator

from audit.corpus.batches import (
    Batch,
    BuiltBatch,
    Rules,
    Work,
    build_notes,
    find_own_patterns,
    run_in_process,
    survey_patients,
)
from audit.corpus.build import (
    CorpusFile,
    PatientTable,
    corpus_folder,
    dummy_people,
    patient_key,
)
from audit.corpus.canaries import (
    CanaryPlan,
    Planting,
    canary_candidates,
    draw_absent_names,
    plan_canaries,
)
from audit.corpus.candidate_lists import candidates_csv, draw_lists, listed_names
from audit.corpus.carriers import count_others
from audit.corpus.corpora import CORPORA, describe_corpus
from audit.corpus.examine import (
    Examination,
    NamePattern,
    PatternTally,
    People,
    Tally,
    count_table,
)
from audit.corpus.hold_out import WHERE as HOLD_OUT
from audit.corpus.hold_out import HeldOutPeople, HoldOut, draw_held_out, read_hold_out
from audit.corpus.identified import RegisterFinder, registered_people
from audit.corpus.truth import (
    CANARY,
    CANDIDATES,
    CORPUS,
    EXAMINATION,
    HELD_OUT,
    HELD_OUT_TRUTH,
    LISTED,
    PASSAGES,
    PEOPLE,
    PRIVATE,
    PUBLIC,
    REFUSED,
    TRUTH,
    count_listed_notes,
    listed_bytes,
)
from audit.errors import AuditError, Message
from audit.executor import open_executor, run_in_order
from audit.home import salted_digest
from audit.names.candidates import Accepts, Candidates, make_candidates
from audit.names.matching import NameIndex, Pair, pair_of
from audit.names.pools import japanese_pool, us_pool
from audit.notes.read import FIELDS, Note, NoteSource, open_notes
from audit.patients.households import read_households
from audit.patients.register import PatientRegister, read_register
from audit.progress import Meter, Phase, ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import JSON, MAX_TITLE_CHARS, building_folder, json_line, json_page, new_identifier
from audit.tables import RowNote
from audit.task import MAX_SEED, Columns, Contact, Question, Task, read_file_states

T = TypeVar("T")
MAX_WORKERS = 64
MAX_COUNTS, MAX_COUNT, MAX_CANARIES = 12, 1_000, 1_000


class CorpusTask(Task):
    """An order for a corpus."""

    job = "corpus"
    flags: ClassVar = {
        "columns": "--column",
        "register_file": "--register",
        "n_canaries": "--canary-names",
        "canary_counts": "--canaries",
    }

    notes: Path = Field(
        description="NOTEEVENTS.csv(.gz), discharge.csv(.gz), CSV, JSONL, Parquet, or a folder of "
        ".txt"
    )
    register_file: Path | None = Field(
        default=None, description="CSV, JSONL or Parquet of patients: the notes are identified"
    )
    columns: Columns = Field(default=(), description="which column holds a field, as text=body")
    seed: int = Field(default=0, ge=0, le=MAX_SEED, description="of all that is drawn")
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
    hold_out: str = Field(
        default="",
        max_length=20,
        description="keep patients out of both corpora, drawn at random, as controls of an audit: "
        "a share of the patients (0.1, 10%) or a number of people who are named in the notes (200)",
    )
    n_canaries: int = Field(default=10, ge=0, le=MAX_CANARIES, description="names for each number")
    has_left: bool = Field(
        default=False, description="passages begin with the sentence of the name, as in D_public"
    )
    tokenizer: Path | None = Field(
        default=None,
        description="general model: names whose parts are single tokens of it only, as in the "
        "paper (section 3.4)",
    )
    workers: int = Field(
        default=1, ge=1, le=MAX_WORKERS, description="processes that do the work; the same corpus"
    )
    corpus_id: str = Field(default_factory=new_identifier, pattern="^[0-9a-f]{12}$")
    out: Path | None = Field(
        default=None, description="a new folder; without it, among the corpora of this installation"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [name for name, _ in self.columns]
        if set(names) - set(FIELDS) or len(set(names)) != len(names):
            raise AuditError("A column is given for no field, or twice.", where="columns")
        if len(set(self.canary_counts)) != len(self.canary_counts):
            raise AuditError(
                "The numbers of mentions are not distinct and above zero.",
                where="canaries",
                do="Write them like 1,2,4,8.",
            )
        if self.hold_out:
            read_hold_out(self.hold_out)
        return self

    @classmethod
    def clear_abandoned(cls) -> None:
        """Remove the private notes of half-made corpora, which serve nobody."""
        CORPORA.clear_abandoned()

    @property
    def kind(self) -> str:
        """One of `KINDS`: with a register of patients the notes are identified."""
        return "register" if self.register_file else "dummy"

    @property
    def folder(self) -> Path:
        """Folder of the finished corpus."""
        return self.out or CORPORA.place(self.corpus_id)

    def question(self) -> Question:
        """Return the question, without title and workers, which do not change the corpus."""
        settings = self.with_(title="", corpus_id="0" * 12).plain()
        del settings["workers"]
        states = [
            read_file_states(self.notes, where="notes"),
            read_file_states(self.register_file, where="register"),
        ]
        # The digest is salted because the paths of notes must not leave this installation.
        return self.make_question(
            label=self.notes.name, about=salted_digest(json.dumps([settings, states]))
        )

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Make the corpus, again if interrupted; its id is the order's, so none is made twice."""
        if (
            self.out is None and self.folder.is_dir()
        ):  # it was made, but the job stopped before recording it
            return (self.corpus_id,)
        if self.out is None:
            CORPORA.clear_abandoned()  # remove notes of killed jobs
        make_corpus(self, out=self.folder, progress=contact.listen, should_stop=contact.should_stop)
        return (self.corpus_id,)


SAMPLE, SURVEY, DRAW, BUILD, PLANT, LISTS, COUNT = (
    "drawing a sample of the notes",
    "reading who the notes are about",
    "drawing who is held out",
    "building the corpus",
    "planting canaries",
    "drawing candidates",
    "counting who else has their names",
)
_BYTE_SECONDS = {SAMPLE: 3e-8, SURVEY: 3e-8, DRAW: 1e-7, BUILD: 2e-7, PLANT: 2e-8}
_LIST_SECONDS, _COUNT_SECONDS = 0.5, 3e-8
"""Seconds on two cores before anything was timed: for a byte of the notes, for drawing candidates,
and for a byte of the truth."""
_BATCH_CHARS = 1 << 19
_FILES = (
    PRIVATE,
    PUBLIC,
    TRUTH,
    PEOPLE,
    REFUSED,
    PASSAGES,
    CANDIDATES,
    LISTED,
    EXAMINATION,
    CORPUS,
)
_HELD_OUT_FILES = (HELD_OUT, HELD_OUT_TRUTH)


def make_corpus(
    order: CorpusTask,
    *,
    out: Path,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Make a corpus in a new or empty folder, which appears when it is complete; return the folder.

    `progress` and `should_stop` are called about ten times a second.
    """
    source = open_notes(order.notes, columns=dict(order.columns))
    meter = Meter(phases(order, source), listener=progress, should_stop=should_stop)
    names = (*_FILES, *_HELD_OUT_FILES) if order.hold_out else _FILES
    with (
        corpus_folder(out, names=names) as files,
        open_executor(n_workers=order.workers) as executor,
    ):
        making = _Making(order, source, files, meter, executor, building_folder(out))
        making.read()
        making.build()
        making.finish()
    return out


def phases(order: CorpusTask, source: NoteSource) -> Iterator[Phase]:
    """Yield the phases of making a corpus, in their order."""
    is_done = {
        SAMPLE: order.sample,
        SURVEY: order.kind == "dummy",
        DRAW: order.hold_out,
        PLANT: order.canary_counts,
    }
    by_share = order.hold_out and read_hold_out(order.hold_out).share
    for stage, seconds in _BYTE_SECONDS.items():
        if is_done.get(stage, True):
            pace = f"{stage}, by share" if stage == DRAW and by_share else f"{stage}, {order.kind}"
            yield Phase(stage, source.n_bytes, seconds, pace)
    yield Phase(LISTS, 1, _LIST_SECONDS, LISTS)
    # The number of bytes of the truth is known after it is written.
    yield Phase(COUNT, source.n_bytes, _COUNT_SECONDS, COUNT)


class _Making:
    """The making of one corpus."""

    def __init__(
        self,
        order: CorpusTask,
        source: NoteSource,
        files: Mapping[str, CorpusFile],
        meter: Meter,
        executor: Executor | None,
        aside: Path,
    ) -> None:
        self._order, self._source, self._files, self._meter = order, source, files, meter
        self._executor, self._aside = executor, aside
        self._table, self._rules = PatientTable(), Rules(order.seed)
        self._chosen: set[int] | None = None
        self._n_rows: int | None = None
        self._accepts = accept_single_tokens(order.tokenizer) if order.tokenizer else None
        self._patterns, self._planted = PatternTally(accepts=self._accepts), PatternTally()
        self._tally, self._name_counts, self._plan = Tally(), Counter[Pair](), CanaryPlan()
        self._register: PatientRegister | None = None
        self._numbers, self._owners = dict[str, int](), array("I")
        self._n_refused = self._n_passages = 0
        self._held_out = HeldOutPeople(accepts=self._accepts)

    def read(self) -> None:
        """Read the facts about the patients, from the notes or from the register."""
        order, full_names = self._order, None
        if order.sample:
            n_notes = sum(isinstance(note, Note) for note in self._rows(SAMPLE))
            sample = generator(order.seed, "corpus/sample").permutation(n_notes)[: order.sample]
            self._chosen = set(sample.tolist())
        if order.register_file:
            self._register = read_register(order.register_file)
            full_names = RegisterFinder.from_register(self._register).full_names
        else:
            for table in self._run_batches(survey_patients, SURVEY):
                self._table.include(table)
        self._people = People(self._records())
        self._pool = japanese_pool() if self._people.is_unspaced else us_pool()
        firsts, lasts = self._people.parts
        self._rules = Rules(
            order.seed,
            full_names=full_names,
            # With a register, names are found even in notes without capitals.
            known_parts=self._people.folded_parts() if full_names else frozenset(),
            index=NameIndex(
                firsts=firsts.union(self._pool.first), lasts=lasts.union(self._pool.last)
            ),
            has_blanks=not self._table.has_marks,
            has_left=order.has_left,
            has_hold_out=bool(order.hold_out),
        )
        if order.hold_out:
            self._held_out.people = self._draw_held_out(read_hold_out(order.hold_out))

    def _draw_held_out(self, hold_out: HoldOut) -> frozenset[str]:
        """Draw the people whose notes are kept out of both corpora."""
        if hold_out.n_named:
            is_named = self._named_people()
        else:
            is_named = {patient_key(note): False for note in self._notes(DRAW)}
        households = dict[str, str]()
        if register := self._order.register_file:
            # Without the patient's number it is unknown whose note it is.
            is_named = {
                person: has_name
                for person, has_name in is_named.items()
                if person.startswith("patient:")
            }
            if not is_named:
                raise AuditError(
                    "No note says which patient it is about, so that no patient can be held out.",
                    where=HOLD_OUT,
                    do="Say which column holds the patient: --column patient_id=NAME.",
                )
            homes = read_households(register).items()
            households = {f"patient:{patient}": home for patient, home in homes}
        return draw_held_out(is_named, hold_out, households=households, seed=self._order.seed)

    def _named_people(self) -> dict[str, bool]:
        """Return each person with notes, and whether their own notes name them."""
        accepts = self._accepts or (lambda *_: True)
        is_named = dict[str, bool]()
        for owned_patterns in self._run_batches(find_own_patterns, DRAW):
            for person, patterns in owned_patterns:
                names = map(self._people.name_in, patterns)
                has_name = any(all(name) and accepts(*name) for name in names)
                is_named[person] = is_named.get(person, False) or has_name
        return is_named

    def _records(self) -> Iterator[dict[str, JSON]]:
        """Yield the record of each patient for `people.jsonl`."""
        if self._register:
            return registered_people(self._register)
        return dummy_people(self._table, seed=self._order.seed)

    def build(self) -> None:
        """Build, plant and examine all notes."""
        batches = self._training_batches()
        for batch in self._with_canaries(batches) if self._order.canary_counts else batches:
            for name in (PRIVATE, PUBLIC, TRUTH):
                field = Path(name).stem
                self._files[name].write(b"".join(getattr(lines, field) for lines in batch.notes))
            self._tally.include(batch.tally)
            self._people.add(batch.people)
            for index, lines in enumerate(batch.notes, start=len(self._owners)):
                self._count_patterns(lines.patterns, index=index)
            for owner in batch.owners:
                self._owners.append(self._numbers.setdefault(owner, len(self._numbers)))
        if not self._owners:
            raise AuditError("No row is a note.", where="notes")

    def _training_batches(self) -> Iterator[BuiltBatch]:
        """Build all notes, and yield the batches of people who are not held out."""
        for batch in self._run_batches(build_notes, BUILD):
            if batch.is_held_out:
                self._held_out.add(batch, self._people)
                for name, field in zip(_HELD_OUT_FILES, ("private", "truth"), strict=True):
                    self._files[name].write(
                        b"".join(getattr(note_lines, field) for note_lines in batch.notes)
                    )
            else:
                self._name_counts.update(batch.name_counts)
                self._held_out.holders.include(batch.holders)
                batch.name_counts.clear()
                yield batch

    def _with_canaries(self, batches: Iterator[BuiltBatch]) -> Iterator[BuiltBatch]:
        """Store all batches, then plant canaries that occur in none of them, and yield them."""
        n_notes = start = 0
        with TemporaryFile(dir=self._aside) as batch_file:
            for batch in batches:
                n_notes += len(batch.notes)
                pickle.dump(batch, batch_file)
            planting, n_bytes = self._plan_planting(n_notes), batch_file.tell()
            self._meter.resize(PLANT, n_bytes)
            batch_file.seek(0)
            while batch_file.tell() < n_bytes:
                offset, batch = batch_file.tell(), pickle.load(batch_file)
                batch.plant(planting, self._rules, start=start)
                yield batch
                start += len(batch.notes)
                self._meter.add(PLANT, batch_file.tell() - offset)

    def _plan_planting(self, n_notes: int) -> Planting:
        """Draw canaries that are no names of the corpus, and the notes for them."""
        order = self._order
        names = draw_absent_names(
            self._pool,
            n=2 * len(order.canary_counts) * order.n_canaries,
            seed=order.seed,
            used_pairs={*self._name_counts, *self._people.pairs, *self._held_out.pairs},
            accepts=self._accepts,
        )
        self._plan = plan_canaries(
            names, n_notes=n_notes, seed=order.seed, counts=order.canary_counts
        )
        is_register = self._register is not None
        is_blank = not is_register and self._rules.has_blanks
        return Planting(self._plan, is_register, is_blank, order.seed)

    def _run_batches(self, work: Work[T], stage: str) -> Iterator[T]:
        """Do work on all notes, batch by batch, and yield the results in their order."""
        run_batch = partial(work, self._rules)
        if self._executor is not None:
            run_batch = partial(run_in_process, work, pickle.dumps(self._rules))
        yield from run_in_order(
            self._executor,
            (partial(run_batch, batch) for batch in self._batches(stage)),
            n_workers=self._order.workers,
            wait=lambda: self._meter.add(stage, 0),  # checks whether to stop
        )

    def _batches(self, stage: str) -> Iterator[Batch]:
        """Yield batches of notes with some hundred thousand characters each."""
        notes, n_chars = {False: list[Note](), True: list[Note]()}, {False: 0, True: 0}
        for note in self._notes(stage):
            side = patient_key(note) in self._held_out.people
            notes[side].append(note)
            n_chars[side] += len(note.text)
            if n_chars[side] >= _BATCH_CHARS:
                yield self._batch(notes[side], stage, is_held_out=side)
                notes[side], n_chars[side] = [], 0
        for side, leftover_notes in notes.items():
            if leftover_notes:
                yield self._batch(leftover_notes, stage, is_held_out=side)

    def _batch(self, notes: list[Note], stage: str, *, is_held_out: bool) -> Batch:
        """Return a batch of notes with what is known about their patients."""
        patients = {note.patient_id for note in notes if note.patient_id}
        if self._register:
            pieces_by_patient = self._register.pieces
            pieces = {
                patient: pieces_by_patient[patient]
                for patient in patients & pieces_by_patient.keys()
            }
            return Batch(notes, pieces=pieces, is_held_out=is_held_out)
        try:
            facts = {patient: self._table.facts(patient) for patient in patients if stage != SURVEY}
        except KeyError:
            raise _make_changed_error() from None
        return Batch(notes, facts, is_held_out=is_held_out)

    def _rows(self, stage: str) -> Iterator[Note | RowNote]:
        """Yield all refused rows, and all notes or those of the sample."""
        n_rows = n_notes = 0
        self._meter.add(stage, 0)
        for note in self._source.read(on_bytes=partial(self._meter.add, stage)):
            n_rows += 1
            n_notes += isinstance(note, Note)
            if isinstance(note, RowNote) or self._chosen is None or n_notes - 1 in self._chosen:
                yield note
        if self._n_rows not in (None, n_rows):
            raise _make_changed_error()
        self._n_rows = n_rows
        self._meter.finish(stage)

    def _notes(self, stage: str) -> Iterator[Note]:
        """Yield the notes; rows that are no notes are written to a file in the stage BUILD."""
        for row in self._rows(stage):
            if isinstance(row, Note):
                yield row
            elif stage == BUILD:
                self._n_refused += 1
                refused_row = {"row": row.row, "what": Message(row.what).dump()}
                self._files[REFUSED].write(json_line(refused_row))

    def _count_patterns(self, patterns: Iterable[tuple[str, NamePattern]], *, index: int) -> None:
        """Count the patterns of note `index`, and write the passages of new patterns."""
        for passage_id, pattern in patterns:
            if pattern.role == CANARY:
                row = int(pattern.person.partition(":")[2])
                tally, name = self._planted, self._plan.canaries[row][:2]
            else:
                tally, name = self._patterns, self._people.name_in(pattern)
                self._held_out.add_member(pair_of(*name), pattern.person)
            if tally.add(name, pattern.text, note=index):
                self._n_passages += 1
                passage = {
                    "passage_id": passage_id,
                    "text": pattern.passage,
                    "first_name": name[0],
                    "last_name": name[1],
                    "role": pattern.role,
                }
                self._files[PASSAGES].write(json_line(passage))

    def finish(self) -> None:
        """Draw the lists, and write the remaining files."""
        files = self._files
        self._meter.add(LISTS, 0)
        for record in self._records():
            is_held_out = f"patient:{record['patient_id']}" in self._held_out.people
            files[PEOPLE].write(json_line(record | ({"is_held_out": True} if is_held_out else {})))
        lists = draw_lists(
            self._patterns,
            people=self._people,
            name_counts=self._name_counts,
            canaries=canary_candidates(self._plan),
            held_out=self._held_out.controls(self._people, seed=self._order.seed),
            pool=self._pool,
            accepts=self._accepts,
            seed=self._order.seed,
        )
        self._meter.finish(LISTS)
        names_elsewhere = self._held_out.names_elsewhere
        lists = self._with_other_counts(lists, names_elsewhere)
        dropped = names_elsewhere if self._order.hold_out else None
        files[CANDIDATES].write(candidates_csv(lists, names_elsewhere=dropped))
        patients = lists["patient"]
        noted = self._patterns.notes(zip(patients.first, patients.last, strict=True))
        files[LISTED].write(
            listed_bytes(count_listed_notes(self._owners, noted.union(self._plan.rows)))
        )
        files[EXAMINATION].write(json_page(self._examination(lists).plain()))
        files[CORPUS].write(self._describe())

    def _with_other_counts(
        self, lists: Mapping[str, Candidates], names_elsewhere: Collection[Pair]
    ) -> dict[str, Candidates]:
        """Return the lists with the numbers of notes that name somebody else with the same part."""
        self._meter.add(COUNT, 0)
        self._meter.resize(COUNT, self._files[TRUTH].flush())
        names = sum(lists.values(), make_candidates([]))
        counted = count_others(
            self._aside / TRUTH,
            names,
            people=self._people,
            seed=self._order.seed,
            names_elsewhere=names_elsewhere,
            on_bytes=partial(self._meter.add, COUNT),
        )
        self._meter.finish(COUNT)
        stops = accumulate(map(len, lists.values()))
        return {
            name: counted.rows(range(stop - len(listed), stop))
            for (name, listed), stop in zip(lists.items(), stops, strict=True)
        }

    def _examination(self, lists: Mapping[str, Candidates]) -> Examination:
        tally, is_register = self._tally, self._register is not None
        planted_counts = [canary.n_mentions for canary in self._plan.canaries if canary.n_mentions]
        return Examination(
            coverage=tally.coverage(),
            n_refused=self._n_refused,
            n_patients=self._n_patients,
            inserted=() if is_register else tally.inserted.rank_counts(),
            unknown=() if is_register else tally.unknown.rank_counts(),
            n_malformed=tally.n_malformed,
            pattern_table=self._patterns.pattern_table,
            mention_table=self._patterns.mention_table,
            n_positives=len(self._patterns),
            n_not_one_token=len(self._patterns.refused),
            candidates=listed_names(lists),
            canaries=count_table(planted_counts),
            n_passages=self._n_passages,
            carriers=self._people.carriers(lists["patient"]),
            held_out=self._held_out.counts(lists) if self._order.hold_out else None,
        )

    @property
    def _n_patients(self) -> int:
        """Patients who are not held out."""
        return len(self._people) - sum(person in self._people for person in self._held_out.people)

    def _describe(self) -> bytes:
        order = self._order
        return describe_corpus(
            title=order.title,
            kind=order.kind,
            source=order.notes.name,
            seed=order.seed,
            n_notes=len(self._owners),
            n_patients=self._n_patients,
            n_held_out=len(self._held_out.people),
            # Paths are left out.
            columns=order.columns,
            sample=order.sample,
            canary_counts=order.canary_counts,
            n_canaries=order.n_canaries,
            has_token_rule=order.tokenizer is not None,
            **({"has_left": True} if order.has_left else {}),
            **({"hold_out": order.hold_out} if order.hold_out else {}),
        )


def _make_changed_error() -> AuditError:
    return AuditError("The notes changed while they were read.", where="notes")


def accept_single_tokens(tokenizer: Path) -> Accepts:
    """Return the rule of section 3.4: first and last name are a single token each."""
    from audit.models.registry import load_tokenizer as built_tokenizer
    from audit.names.spelling import piece_counter

    count = piece_counter(built_tokenizer(tokenizer))
    return lambda first, last: count("first", first) == 1 and count("last", last) == 1
