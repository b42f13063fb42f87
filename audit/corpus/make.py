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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, model_validator

from audit.corpus.build import (
    CorpusFile,
    PatientTable,
    corpus_folder,
    dummy_people,
    facts_of_note,
    in_order,
    patient_key,
    with_surrogates,
)
from audit.corpus.canaries import CanaryPlan, Planting, absent_names, plan_canaries
from audit.corpus.candidate_lists import canaries_csv, candidates_csv, draw_lists, listed_names
from audit.corpus.examine import (
    N_SENTENCES,
    CountOf,
    Examination,
    Named,
    NamePattern,
    Owners,
    PatternTally,
    People,
    Tally,
    named_people,
    patterns_of,
)
from audit.corpus.kept import CORPORA, describe_corpus
from audit.corpus.register import MentionFinder, read_register, registered_people
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
    NoteTruth,
    json_line,
    json_page,
    listed_bytes,
)
from audit.errors import AuditError, Message
from audit.home import salted_digest
from audit.names.controls import Accepts
from audit.names.matching import NameIndex, Pair
from audit.names.pools import japanese_pool, us_pool
from audit.notes.mention_words import Mention
from audit.notes.mentions import examine
from audit.notes.placeholders import has_marks
from audit.notes.read import FIELDS, Note, NoteSource, open_notes, resolve_note_file
from audit.progress import Meter, ProgressListener, StopQuestion
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
        "register_file": "--register",
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
        default=None, description="a new folder; without it, among the corpora of this installation"
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

    @classmethod
    def clear_abandoned(cls) -> None:
        """Remove the private notes of half-made corpora, which serve nobody."""
        CORPORA.clear_abandoned()

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
        """Make the corpus, anew if interrupted; its name is the order's: none is made twice."""
        if self.out is None and self.folder.is_dir():  # made, and stopped before it was noted
            return (self.corpus_id,)
        if self.out is None:
            CORPORA.clear_abandoned()  # notes of jobs that were killed
        make_corpus(self, out=self.folder, progress=contact.listen, should_stop=contact.should_stop)
        return (self.corpus_id,)


SAMPLE, SURVEY, NAMES, BUILD, LISTS = (
    "drawing a sample of the notes",
    "reading who the notes are about",
    "looking for names",
    "building the corpus",
    "drawing candidates",
)
# About how long a byte of the notes takes in each, for the time left.
_WEIGHTS = {SAMPLE: 1.0, SURVEY: 1.0, NAMES: 5.0, BUILD: 10.0, LISTS: 0.2}
_FILES = (PRIVATE, PUBLIC, TRUTH, PEOPLE, REFUSED, SUMMARY)
_LATER = (PASSAGES, CANDIDATES, CANARIES, LISTED, EXAMINATION, CORPUS)
_BATCH_CHARS, _BATCH_NOTES = 1_000_000, 1_000
_REASONS = 200

Batch = tuple[int, list[Note]]
"""The position of the first of some notes in a row, and the notes."""


def make_corpus(
    order: CorpusTask,
    *,
    out: Path,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> Path:
    """Make a corpus in a new or empty folder, which appears when it is whole; returns the folder.

    `progress` is told and `should_stop` asked some ten times a second.
    """
    notes, register = paths_of(order)
    source = open_notes(notes, columns=dict(order.columns))
    is_done = {SAMPLE: order.sample, SURVEY: not register, NAMES: order.has_canaries}
    totals = {s: w * source.n_bytes for s, w in _WEIGHTS.items() if is_done.get(s, True)}
    meter = Meter(totals, listener=progress, should_stop=should_stop)
    names = (*_FILES, *_LATER, *((DOUBTFUL,) if register else ()))
    with corpus_folder(out, names=names) as files:
        making = _Making(order, source, files, meter)
        making.read(register)
        making.build()
        making.finish(name=notes.name)
    return out


def paths_of(order: CorpusTask) -> tuple[Path, Path | None]:
    """Return the paths of an order's notes and register."""
    notes = order.notes or resolve_note_file(order.file_id)
    if order.kind == "dummy":
        return notes, None
    return notes, order.register_file or resolve_note_file(order.register_id)


@dataclass
class _Built:
    """What became of a batch: lines of the files, and what was counted.

    `patterns` come with the ids of their passages and the positions of their notes.
    """

    lines: defaultdict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    tally: Tally = field(default_factory=Tally)
    patients: list[str] = field(default_factory=list)
    patterns: list[tuple[str, int, NamePattern]] = field(default_factory=list)
    people: list[Named] = field(default_factory=list)
    names: Counter[Pair] = field(default_factory=Counter)


@dataclass
class _Work:
    """What is done with every note, the same in every process.

    `finder` is that of a register, `table` has the patients of notes without one. `index` says
    which full names to count, None where they were counted before; `known` are parts of names that
    count as names whatever their case.
    """

    order: CorpusTask
    finder: MentionFinder | None = None
    table: PatientTable = field(default_factory=PatientTable)
    has_blanks: bool = True
    index: NameIndex | None = None
    known: frozenset[str] = frozenset()
    planting: Planting | None = None

    def truth(self, note: Note) -> NoteTruth:
        """Return a note in both corpora."""
        patient = note.patient_id
        if self.finder:
            return self.finder.truth(note.text, patient_id=patient, chart_time=note.chart_time)
        try:
            facts = self.table.facts(patient) if patient else facts_of_note(note)
        except KeyError:
            raise _changed() from None
        seed, has_blanks = self.order.seed, self.has_blanks
        return with_surrogates(note, facts=facts, seed=seed, has_blanks=has_blanks)

    def count(self, batch: Batch) -> tuple[int, Counter[Pair]]:
        """Return the number of notes, and how often each full name will stand in D_private."""
        assert self.index is not None
        found: Counter[Pair] = Counter()
        for note in batch[1]:
            found.update(self.index.count(note.text if self.finder else self.truth(note).private))
        return len(batch[1]), found

    def build(self, batch: Batch) -> _Built:
        """Build, plant and examine some notes."""
        built = _Built()
        for at, note in enumerate(batch[1], start=batch[0]):
            truth = self.truth(note)
            built.tally.add(note, truth)
            if self.planting:
                truth = self.planting.planted(truth, index=at)
            for name, line in self._lines(note, truth):
                built.lines[name].append(json_line({"row": note.row} | line))
            built.patients.append(note.patient_id)
            built.people += named_people(truth.inserted or ())
            found = tuple(examine(truth.private, known=self.known))
            built.tally.add_mentions(truth, found)
            patterns = patterns_of(
                truth,
                [each for each in found if isinstance(each, Mention)],
                n_sentences=self.order.n_sentences,
                has_left=self.order.has_left,
            )
            for number, pattern in enumerate(patterns, start=1):
                if pattern.role in ("patient", "", CANARY):
                    built.patterns.append((f"{note.row}-{number}", at, pattern))
            if self.index:
                built.names.update(self.index.count(truth.private))
        return built

    def _lines(self, note: Note, truth: NoteTruth) -> Iterator[tuple[str, dict[str, object]]]:
        whole = asdict(note)
        yield PRIVATE, whole | {"chart_time": truth.chart_time, "text": truth.private}
        if self.finder:
            # The hospital's ids and dates are identifiers too.
            yield PUBLIC, {"category": note.category, "text": truth.public}
        else:
            yield PUBLIC, whole | {"text": truth.public}
        if truth.inserted or truth.left or truth.n_malformed:
            yield (
                TRUTH,
                {
                    "note_id": note.note_id,
                    "patient": patient_key(note),
                    "inserted": [place.plain() for place in truth.inserted or ()],
                    "left": [place.plain() for place in truth.left],
                    "n_malformed": truth.n_malformed,
                },
            )
        for doubt in truth.doubts:
            yield DOUBTFUL, doubt._asdict()


class _Making:
    """One corpus while it is made."""

    def __init__(
        self, order: CorpusTask, source: NoteSource, files: Mapping[str, CorpusFile], meter: Meter
    ) -> None:
        self._order, self._source, self._files, self._meter = order, source, files, meter
        self._work = _Work(order)
        self._chosen: set[int] | None = None
        self._n_rows: int | None = None
        self._accepts = one_token_each(order.tokenizer) if order.tokenizer else None
        self._patterns, self._planted = PatternTally(accepts=self._accepts), PatternTally()
        self._tally, self._owners, self._plan = Tally(), Owners(), CanaryPlan()
        self._names, self._refused = Counter[Pair](), Counter[str]()
        self._n_refused = self._n_passages = self._n_unregistered = 0

    def read(self, register: Path | None) -> None:
        """Find out who the notes are about: what they say, or what the register says."""
        order, work = self._order, self._work
        if order.sample:
            n_notes = sum(isinstance(note, Note) for note in self._notes(SAMPLE))
            drawn = generator(order.seed, "corpus/sample").permutation(n_notes)[: order.sample]
            self._chosen = set(drawn.tolist())
        if register:
            try:
                work.finder = MentionFinder(read_register(register.read_bytes()))
            except OSError:
                raise AuditError(
                    "The file is not there or cannot be read.", where="register"
                ) from None
        else:
            for note in self._notes(SURVEY):
                if isinstance(note, Note):
                    work.table.add(note)
                    work.has_blanks = work.has_blanks and not has_marks(note.text)
        self._people = People(self._records())
        if work.finder:
            # A register says who is a name even in notes without capitals.
            work.known = self._people.folded_parts
        is_japanese = order.language == "auto" and self._people.is_unspaced
        self._pool = japanese_pool() if is_japanese or order.language == "ja" else us_pool()
        firsts, lasts = self._people.parts
        work.index = NameIndex(
            firsts=firsts.union(self._pool.first), lasts=lasts.union(self._pool.last)
        )

    def _records(self) -> Iterator[dict[str, object]]:
        """Yield what is known of each patient."""
        work = self._work
        if work.finder:
            return registered_people(work.finder)
        return dummy_people(work.table, seed=self._order.seed)

    def build(self) -> None:
        """Build, plant and examine all notes."""
        order, work = self._order, self._work
        if order.has_canaries:
            self._plan_canaries()
            is_blank = not work.finder and work.has_blanks
            work.planting = Planting(self._plan, bool(work.finder), is_blank, order.seed)
            work.index = None
        for built in in_order(work.build, self._batches(BUILD), n_workers=order.n_workers):
            self._take(built)
        if not self._tally.counts["all"]["n_notes"]:
            raise AuditError("No row is a note.", where="notes")

    def _plan_canaries(self) -> None:
        """Count the names that will stand in the corpus, and choose canaries that are none."""
        order, n_notes = self._order, 0
        batches = self._batches(NAMES)
        for n, found in in_order(self._work.count, batches, n_workers=order.n_workers):
            n_notes += n
            self._names.update(found)
        names = absent_names(
            self._pool,
            n=2 * len(order.canary_counts) * order.n_canaries,
            seed=order.seed,
            taken={*self._names, *self._people.pairs},
            accepts=self._accepts,
        )
        self._plan = plan_canaries(
            names, n_notes=n_notes, seed=order.seed, counts=order.canary_counts
        )

    def _notes(self, stage: str) -> Iterator[Note | RowNote]:
        """Go through all refusals, and all notes or those that were drawn."""
        n_rows = n_notes = 0
        weight = _WEIGHTS[stage]
        for note in self._source.read(on_bytes=lambda n: self._meter.add(stage, weight * n)):
            n_rows += 1
            n_notes += isinstance(note, Note)
            if isinstance(note, RowNote) or self._chosen is None or n_notes - 1 in self._chosen:
                yield note
        if self._n_rows not in (None, n_rows):
            raise _changed()
        self._n_rows = n_rows
        self._meter.finish(stage)

    def _batches(self, stage: str) -> Iterator[Batch]:
        batch: list[Note] = []
        first = n_chars = 0
        for note in self._notes(stage):
            if isinstance(note, Note):
                batch.append(note)
                n_chars += len(note.text)
            elif stage == BUILD:
                self._refuse(note)
            if n_chars >= _BATCH_CHARS or len(batch) >= _BATCH_NOTES:
                yield first, batch
                first += len(batch)
                batch, n_chars = [], 0
        if batch:
            yield first, batch

    def _refuse(self, row: RowNote) -> None:
        self._n_refused += 1
        self._files[REFUSED].write(json_line({"row": row.row, "what": Message(row.what).plain()}))
        if row.what in self._refused or len(self._refused) < _REASONS:
            self._refused[row.what] += 1

    def _take(self, built: _Built) -> None:
        """Write a batch, and add what was counted in it."""
        for file, lines in built.lines.items():
            self._files[file].write(b"".join(lines))
        self._tally.merge(built.tally)
        self._people.add(built.people)
        self._names.update(built.names)
        for patient in built.patients:
            self._owners.add(patient)
            self._n_unregistered += f"patient:{patient}" not in self._people
        for passage_id, note, pattern in built.patterns:
            if pattern.role == CANARY:
                row = int(pattern.person.partition(":")[2])
                tally, name = self._planted, self._plan.canaries[row][:2]
            else:
                tally, (own, _) = self._patterns, self._people.name_and_sex(pattern.person)
                name = own or (pattern.first, pattern.last)
            if tally.add(name, pattern.text, note=note):
                self._n_passages += 1
                passage = {
                    "passage_id": passage_id, "text": pattern.passage, "first_name": name[0],
                    "last_name": name[1], "role": pattern.role or "patient",
                }  # fmt: skip
                self._files[PASSAGES].write(json_line(passage))

    def finish(self, *, name: str) -> None:
        """Draw the lists, and write all that is known at the end; `name` is that of the notes."""
        files, people, counts = self._files, self._people, self._tally.counts
        of_patients = {"n_full_names": counts["full"]}
        if self._work.finder:
            of_patients = {"n_notes_named": counts["notes"], "n_mentions": counts["own"],
                           **of_patients, "n_in_notes_of_others": counts["others"]}  # fmt: skip
        for record in self._records():
            patient = str(record["patient_id"])
            numbers = {what: counter[patient] for what, counter in of_patients.items()}
            files[PEOPLE].write(json_line(record | numbers))
        files[SUMMARY].write(json_page(self._summary()))
        lists = draw_lists(
            self._patterns,
            people=people,
            found=self._names,
            plan=self._plan,
            pool=self._pool,
            accepts=self._accepts,
            seed=self._order.seed,
        )
        files[CANDIDATES].write(candidates_csv(lists))
        files[CANARIES].write(canaries_csv(self._plan))
        patients = lists["patient"]
        noted = self._patterns.notes(zip(patients.first, patients.last, strict=True))
        files[LISTED].write(listed_bytes(self._owners.listed(noted.union(self._plan.rows))))
        examination = self._examination(
            n_listed_positives=len(patients),
            candidates=listed_names(lists),
            carriers=people.carriers(patients),
        )
        files[EXAMINATION].write(json_page(examination.plain()))
        files[CORPUS].write(self._described(name))
        self._meter.finish(LISTS)

    def _summary(self) -> dict[str, object]:
        from faker import VERSION

        counts, people, tally = self._tally.counts, self._people, self._tally
        inserted, unknown = tally.inserted.ranked(), tally.unknown.ranked()
        summary: dict[str, object] = {
            "format": 1,
            "source_kind": self._source.kind,
            "seed": self._order.seed,
            "has_blanks": not self._work.finder and self._work.has_blanks,
            "n_notes": counts["all"]["n_notes"],
            "n_refused": self._n_refused,
            "n_patients": len(people),
            "n_named_patients": len(+counts["full"]),
            "n_inserted": sum(count.n for count in inserted),
            "n_left": sum(count.n for count in unknown),
            "n_malformed": counts["all"]["n_malformed"],
            "replaced": [count.plain() for count in inserted],
            "unknown": [count.plain() for count in unknown],
            "digests": {name: self._files[name].digest for name in _FILES if name != SUMMARY},
            "faker": VERSION,
        }
        if self._work.finder:
            named = (+counts["own"]).keys() | (+counts["others"]).keys()
            summary |= {
                "n_unregistered": self._n_unregistered,
                "n_registered": len(people),
                "n_named": sum(f"patient:{patient}" in people for patient in named),
                "forms": dict(sorted(counts["own forms"].items())),
                "n_others": counts["all"]["n_others"],
                "doubts": dict(sorted(counts["doubts"].items())),
            }
        return summary

    def _examination(self, **of_lists: Any) -> Examination:
        counts, tally, is_register = self._tally.counts, self._tally, bool(self._work.finder)
        planted = Counter(one.n_mentions for one in self._plan.canaries if one.n_mentions)
        n_full = counts["full"]
        return Examination(
            coverage=tally.coverage(),
            n_refused=self._n_refused,
            refused=_counts(sorted(self._refused.items(), key=lambda one: (-one[1], one[0]))),
            n_patients=len(self._people),
            n_named_patients=sum(n_full[str(one["patient_id"])] > 0 for one in self._records()),
            inserted=() if is_register else tally.inserted.ranked(),
            unknown=() if is_register else tally.unknown.ranked(),
            n_malformed=counts["all"]["n_malformed"],
            doubts=_counts(sorted(counts["doubts"].items())),
            pattern_table=self._patterns.pattern_table,
            mention_table=self._patterns.mention_table,
            n_positives=len(self._patterns),
            n_not_one_token=self._patterns.n_refused,
            canaries=tuple(sorted(planted.items())),
            n_passages=self._n_passages,
            **of_lists,
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
            n_notes=self._tally.counts["all"]["n_notes"],
            n_patients=len(self._people),
            has_token_rule=order.tokenizer is not None,
            **asked,
            candidates_sha256=self._files[CANDIDATES].digest,
            private_bytes=self._files[PRIVATE].n_bytes,
        )


def _changed() -> AuditError:
    return AuditError("The notes changed while they were read.", where="notes")


def _counts(counts: Iterable[tuple[str, int]]) -> tuple[CountOf, ...]:
    return tuple(CountOf(what=what, n=n) for what, n in counts)


def one_token_each(tokenizer: Path) -> Accepts:
    """Return the rule of section 3.4: first and last name are a single token each."""
    from audit.models.registry import tokenizer as built_tokenizer
    from audit.names.spelling import piece_counter

    count = piece_counter(built_tokenizer(tokenizer))
    return lambda first, last: count("first", first) == 1 and count("last", last) == 1
