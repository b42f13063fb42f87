"""Makes a corpus from an order: builds it, plants canaries, examines it, writes its lists.

Comes in: an order, a folder. Goes out: the folder with D_private, D_public, the truth, counts,
candidates and passages; whole, or not there. Every byte depends on the notes and the order, not on
the number of workers (the time stamp of `corpus.json` apart).

Source: Nakamura et al., sections 3.2 to 3.4.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

import numpy as np
from pydantic import Field, model_validator

from audit.corpus.build import (
    PRIVATE,
    PUBLIC,
    REFUSED,
    SUMMARY,
    TRUTH,
    CategoryCount,
    CategoryCounter,
    build_corpus,
    facts_of_note,
    json_line,
    open_files,
    ordered_map,
    read_summary,
    summary_bytes,
    with_surrogates,
)
from audit.corpus.canaries import CanaryPlan, Planting, canary_name, plan_canaries
from audit.corpus.examine import (
    CANARIES,
    CANDIDATES,
    EXAMINATION,
    LISTS,
    PASSAGES,
    CountOf,
    Examination,
    Examined,
    ExamineSettings,
    FoundPattern,
    ListedNames,
    ListedTally,
    PatternTally,
    People,
    canaries_csv,
    canary_candidates,
    candidates_csv,
    corpus_candidates,
    count_names,
    examination_bytes,
    examine_batch,
)
from audit.corpus.kept import CORPORA, CORPUS, describe_corpus, drawn_record
from audit.corpus.register import (
    MentionFinder,
    Register,
    build_registered_corpus,
    read_register,
    without_names,
)
from audit.corpus.truth import (
    CANARY,
    LISTED,
    N_SENTENCES,
    NO_NOTES,
    ListedNotes,
    MentionCoverage,
    batches,
    corpus_bytes,
    listed_bytes,
    note_lines,
    text_lines,
)
from audit.errors import AuditError
from audit.home import salted_digest
from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import Accepts, Name, canary_names
from audit.names.matching import NameIndex, Pair, pair_of
from audit.names.pools import NamePool, japanese_pool, us_pool
from audit.notes.placeholders import find_placeholders, has_marks
from audit.notes.read import FIELDS, ByteListener, Note, NoteSource, open_notes, resolve_note_file
from audit.progress import Meter, Pace, Progress, ProgressListener, StopQuestion
from audit.rng import generator
from audit.shelf import MAX_TITLE_CHARS, clear_folder, new_identifier, whole_folder, write_private
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


@contextmanager
def corpus_place(out: Path) -> Iterator[Path]:
    """Give the path of a folder to be made; it becomes `out` when the block ends well.

    Raises
    ------
    AuditError
        If `out` holds something, is being made by somebody else, or cannot be written.
    """
    with whole_folder(out, where="corpus") as stage:
        yield stage / "corpus"
        clear_folder(stage, but=("corpus",))
        for path in (stage / "corpus").iterdir():
            path.rename(stage / path.name)
        (stage / "corpus").rmdir()


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


def sampled(source: NoteSource, *, n: int, seed: int, meter: Meter, phase: str) -> NoteSource:
    """Draw n notes without replacement; all of them where there are no more.

    Raises
    ------
    AuditError
        If the source cannot be read to its end.
    """
    notes = source.read(on_bytes=partial(meter.add, phase))
    n_notes = sum(isinstance(note, Note) for note in notes)
    meter.finish(phase)
    if n >= n_notes:
        return source
    chosen = np.zeros(n_notes, dtype=np.uint8)
    chosen[generator(seed, "corpus/sample").permutation(n_notes)[:n]] = 1
    known = {field.name: getattr(source, field.name) for field in fields(NoteSource)}
    return SampledSource(**known, chosen=chosen.tobytes())


MAX_NOTES = 1_000
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Mark:
    """A stretch of a text: offsets, its category as written, the kind of value, whose name."""

    start: int
    end: int
    category: str
    kind: str
    role: str = ""


@dataclass(frozen=True)
class Preview:
    """One note, before and after.

    Attributes
    ----------
    row
        Of the file.
    before, after
        The note as it is, and as it would be: with dummy values in D_private; or, where there is a
        register, with places for names in D_public.
    before_marks, after_marks
        In order. Those that stay have the kind "unknown".
    categories
        Found in this note, most frequent first.
    n_notes
        Notes of the file that were read; there is none beyond the last of them if `is_last`.
    is_last
        Whether the file has no further note.
    """

    row: int
    before: str
    after: str
    before_marks: tuple[Mark, ...]
    after_marks: tuple[Mark, ...]
    categories: tuple[CategoryCount, ...]
    n_notes: int
    is_last: bool


@dataclass(frozen=True)
class Survey:
    """What the first notes of a file hold.

    Attributes
    ----------
    n_notes
        Read.
    refused
        Rows among them that are no notes.
    n_patients
        Different patients among the notes that name one.
    n_without_patient
        Notes without a patient: each is a patient of its own.
    has_blanks
        Whether `___` counts as a placeholder: no note has `[** **]`.
    categories
        With what stands for each, the most frequent first; "unknown" for what is not understood.
    n_chars
        Of all notes read.
    """

    n_notes: int
    refused: tuple[RowNote, ...]
    n_patients: int
    n_without_patient: int
    has_blanks: bool
    categories: tuple[CategoryCount, ...]
    n_chars: int

    @property
    def has_placeholders(self) -> bool:
        """Whether there is anything to replace; identified notes need a register."""
        return bool(self.categories)


def preview(
    path: Path,
    *,
    number: int = 1,
    columns: Mapping[str, str] | None = None,
    seed: int = 0,
    register: Register | None = None,
) -> Preview:
    """Return a note of a file by its number, from 1, before and after a build with this seed.

    The patient's sex and dates are told from this note alone, so that the build's values may be
    others; who replaces whom is the same within the note.

    Raises
    ------
    AuditError
        If the file cannot be read, or has no such note among its first 1,000.
    """
    if not 1 <= number <= MAX_NOTES:
        raise AuditError(f"The number must lie from 1 to {MAX_NOTES:,}.", where="note")
    source = open_notes(path, columns=columns)
    notes = _notes(source)
    found = list(islice(notes, number))
    if len(found) < number:
        raise AuditError(f"The file has {len(found):,} notes.", where="note")
    is_last = next(notes, None) is None
    note = found[-1]
    if register is None:
        has_blanks = not any(has_marks(each.text) for each in _head(source, 200))
        after, before_marks, after_marks = _surrogates(note, seed=seed, has_blanks=has_blanks)
    else:
        after, before_marks, after_marks = _registered(note, register)
    counter = CategoryCounter()
    for mark in before_marks:
        counter.add(mark.category, mark.kind, row=note.row)
    return Preview(
        row=note.row,
        before=note.text,
        after=after,
        before_marks=before_marks,
        after_marks=after_marks,
        categories=counter.ranked(),
        n_notes=len(found),
        is_last=is_last,
    )


def survey_head(path: Path, n: int = 200, *, columns: Mapping[str, str] | None = None) -> Survey:
    """Return what the first n notes of a file hold.

    Raises
    ------
    AuditError
        If the file cannot be read.
    """
    notes: list[Note] = []
    refused: list[RowNote] = []
    for note in islice(open_notes(path, columns=columns).read(), min(n, MAX_NOTES)):
        (refused if isinstance(note, RowNote) else notes).append(note)  # type: ignore[arg-type]
    has_blanks = not any(has_marks(note.text) for note in notes)
    counter = CategoryCounter()
    for note in notes:
        for place in find_placeholders(note.text, has_blanks=has_blanks).places:
            counter.add(place.category, place.kind, row=note.row)
    patients = {note.patient_id for note in notes if note.patient_id}
    return Survey(
        n_notes=len(notes),
        refused=tuple(refused),
        n_patients=len(patients),
        n_without_patient=sum(not note.patient_id for note in notes),
        has_blanks=has_blanks,
        categories=counter.ranked(),
        n_chars=sum(len(note.text) for note in notes),
    )


def _notes(source: NoteSource) -> Iterator[Note]:
    return (note for note in source.read() if isinstance(note, Note))


def _head(source: NoteSource, n: int) -> Iterator[Note]:
    return islice(_notes(source), n)


_Marked = tuple[str, tuple[Mark, ...], tuple[Mark, ...]]


def _surrogates(note: Note, *, seed: int, has_blanks: bool) -> _Marked:
    new = with_surrogates(note, facts=facts_of_note(note), seed=seed, has_blanks=has_blanks)
    before = [Mark(p.source_start, p.source_stop, p.category, p.kind, p.role) for p in new.inserted]
    after = [Mark(p.start, p.stop, p.category, p.kind, p.role) for p in new.inserted]
    before += [Mark(p.source_start, p.source_stop, p.category, UNKNOWN) for p in new.left]
    after += [Mark(p.start, p.stop, p.category, UNKNOWN) for p in new.left]
    return new.text, _in_order(before), _in_order(after)


def _registered(note: Note, register: Register) -> _Marked:
    found = MentionFinder(register).find(note.text, patient_id=note.patient_id)
    text, parts = without_names(note.text, found)
    before, after = [], []
    for part in parts:
        form, kind = str(part["form"]), str(part["kind"])
        before.append(Mark(_at(part, "start"), _at(part, "stop"), form, kind, "patient"))
        public_end = _at(part, "public_stop")
        after.append(Mark(_at(part, "public_start"), public_end, form, kind, "patient"))
    return text, _in_order(before), _in_order(after)


def _at(part: Mapping[str, object], key: str) -> int:
    return int(str(part[key]))


def _in_order(marks: list[Mark]) -> tuple[Mark, ...]:
    return tuple(sorted(marks, key=lambda mark: mark.start))


_CHANGED = (PRIVATE, PUBLIC, TRUTH)


@dataclass(frozen=True, eq=False)
class Passed:
    """What a pass over the whole corpus gave.

    Attributes
    ----------
    coverage
        Of all notes.
    tally
        Patterns of patients.
    names
        Full names in D_private -> how often.
    n_passages
        Lines of `passages.jsonl`.
    plan
        The canaries; None without.
    pool, accepts
        Where names are drawn from, and which will do.
    places
        In which notes the patients' passages stand.
    """

    coverage: MentionCoverage
    tally: PatternTally
    names: Counter[Pair]
    n_passages: int
    plan: CanaryPlan | None
    pool: NamePool
    accepts: Accepts | None
    places: ListedTally


class Examiner:
    """Examines one corpus."""

    def __init__(self, order: CorpusTask, folder: Path, *, people: People, is_blank: bool) -> None:
        self._order = order
        self._folder = folder
        self._people = people
        self._is_blank = is_blank
        self._pool = _pool(order, people)
        self._accepts = one_token_each(order.tokenizer) if order.tokenizer else None
        self._plan: CanaryPlan | None = None
        self._names: Counter[Pair] | None = None
        self._places = ListedTally()

    def plan_canaries(self, stages: Stages, *, phase: str) -> None:
        """Count the names in the corpus and choose canaries that are none of them.

        Raises
        ------
        AuditError
            If there are too few notes or names.
        """
        path = self._folder / PRIVATE
        meter = stages.meter(phase, total=float(path.stat().st_size))
        names: Counter[Pair] = Counter()
        with ordered_map(partial(count_names, self._index()), n_workers=self._order.n_workers) as m:
            for found in m(text_lines(path, on_bytes=partial(meter.add, phase))):
                self._people.count(found, into=names)
        meter.finish(phase)
        self._names = names
        n_names = 2 * len(self._order.canary_counts) * self._order.n_canaries
        with path.open("rb") as lines:
            n_notes = sum(1 for _ in lines)
        self._plan = plan_canaries(
            self._canary_names(n_names, found=names),
            n_notes=n_notes,
            seed=self._order.seed,
            counts=self._order.canary_counts,
        )

    def examine(self, stages: Stages, *, phase: str) -> Passed:
        """Go through the corpus once; canaries are planted on the way."""
        meter = stages.meter(phase, total=float(corpus_bytes(self._folder)))
        tally, canaries = PatternTally(accepts=self._accepts), PatternTally()
        coverage, names = NO_NOTES, Counter[Pair]()
        n_passages = 0
        work = partial(examine_batch, self._settings())
        lines = note_lines(self._folder, on_bytes=partial(meter.add, phase))
        with (
            open_files(self._folder, [PASSAGES, *(self._changed)]) as files,
            ordered_map(work, n_workers=self._order.n_workers) as spread,
        ):
            for found in spread(batches(lines)):
                coverage += found.coverage
                self._people.count(found.names, into=names)
                self._people.add(found.people)
                for patient in found.patients:
                    self._places.add_note(patient)
                for name in self._changed:
                    files[name].write(_text(found, name))
                for pattern in found.patterns:
                    of_role = canaries if pattern.role == CANARY else tally
                    if line := self._passage(pattern, tally=of_role):
                        n_passages += 1
                        files[PASSAGES].write(line)
        meter.finish(phase)
        self._replace({name: file.digest for name, file in files.items()})
        return Passed(
            coverage, tally, names if self._names is None else self._names, n_passages,
            self._plan, self._pool, self._accepts, self._places,
        )  # fmt: skip

    @property
    def _changed(self) -> tuple[str, ...]:
        """Which files of the corpus canaries change; they are written anew beside the old ones."""
        return tuple(f"new-{name}" for name in _CHANGED) if self._plan else ()

    def _settings(self) -> ExamineSettings:
        order = self._order
        settings = ExamineSettings(
            kind=order.kind,
            n_sentences=order.n_sentences,
            n_left_sentences=int(order.has_left),
            # A register says who is a name even in notes without capitals.
            known=self._people.folded_parts if order.kind == "register" else frozenset(),
        )
        if self._plan is None:
            return replace(settings, index=self._index())
        planting = Planting(self._plan, order.kind, self._is_blank, order.seed)
        return replace(settings, planting=planting, rows=dict(self._plan.notes))

    def _index(self) -> NameIndex:
        firsts, lasts = self._people.parts
        return NameIndex(firsts=firsts.union(self._pool.first), lasts=lasts.union(self._pool.last))

    def _passage(self, pattern: FoundPattern, *, tally: PatternTally) -> bytes:
        """Count a pattern, and return its line where it is a new one whose name will do."""
        name: Name | None = pattern.first, pattern.last
        if pattern.role == CANARY and self._plan is not None:
            name = canary_name(self._plan, pattern.person)
        else:
            name = self._people.name_of(pattern.person) or (pattern.first, pattern.last)
        will_do, is_new = tally.add(*name, text_hash=pattern.text_hash)
        if will_do and pattern.role != CANARY:
            self._places.add_name(*name, note=pattern.note)
        if not (will_do and is_new):
            return b""
        return json_line(
            {
                "passage_id": pattern.passage_id,
                "text": pattern.passage,
                "first_name": name[0],
                "last_name": name[1],
                "role": pattern.role or "patient",
            }
        )

    def _replace(self, digests: dict[str, str]) -> None:
        """Put the files with canaries in the place of those without."""
        for name in self._changed:
            (self._folder / name).replace(self._folder / name.removeprefix("new-"))
        if self._changed and self._order.kind == "dummy":
            summary = read_summary(self._folder)
            changed = {name.removeprefix("new-"): digests[name] for name in self._changed}
            content = summary_bytes(replace(summary, digests={**summary.digests, **changed}))
            write_private({SUMMARY: content}, self._folder)

    def _canary_names(self, n: int, *, found: Counter[Pair]) -> tuple[Name, ...]:
        n_drawn = n if self._accepts is None else 2 * n
        while True:
            drawn = canary_names(
                self._pool, n=n_drawn, seed=self._order.seed, found=found,
                exclude=tuple(self._people.names),
            )  # fmt: skip
            good = [name for name in drawn if self._accepts is None or self._accepts(*name)]
            if len(good) >= n:
                return tuple(good[:n])
            if len(drawn) < n_drawn:
                raise AuditError(
                    f"Only {len(good):,} names are left that nobody carries; {n:,} are needed.",
                    where="canaries",
                    do="Plant fewer names.",
                )
            n_drawn *= 2


def one_token_each(tokenizer: Path) -> Accepts:
    """Return the rule of section 3.4: first and last name are a single token each.

    Raises
    ------
    AuditError
        If the tokenizer cannot be built.
    """
    from audit.models.registry import tokenizer as built_tokenizer
    from audit.names.spelling import piece_counter

    count: Callable[[str, str], int] = piece_counter(built_tokenizer(tokenizer))
    return lambda first, last: count("first", first) == 1 and count("last", last) == 1


def _pool(order: CorpusTask, people: People) -> NamePool:
    is_japanese = order.language == "ja" or (order.language == "auto" and people.is_unspaced)
    return japanese_pool() if is_japanese else us_pool()


def _text(found: Examined, name: str) -> bytes:
    texts = {PRIVATE: found.private, PUBLIC: found.public, TRUTH: found.truth}
    return texts[name.removeprefix("new-")]


MAX_POSITIVES = 20_000
"""Names of patients on a list; of more than these, as many are drawn at random."""
MAX_STAFF = 5_000


@dataclass(frozen=True, eq=False)
class Drawn:
    """Lists by their names, and the numbers of names by list's kind and role."""

    lists: Mapping[str, Candidates]
    counts: tuple[ListedNames, ...]


def draw_candidates(order: CorpusTask, passed: Passed, *, people: People) -> Drawn:
    """Draw the lists of a corpus; no control is anybody's name in it, or a canary's."""
    names = passed.tally.names
    if len(names) > MAX_POSITIVES:
        rows = generator(order.seed, "corpus/positives").permutation(len(names))[:MAX_POSITIVES]
        names = tuple(names[row] for row in sorted(rows.tolist()))
    taken = passed.names  # large: not copied, and not needed again
    listed = people.listed(names, n_staff=MAX_STAFF, seed=order.seed, is_in=lambda p: p in taken)
    canaries = canary_candidates(passed.plan) if passed.plan else make_candidates([])
    for pair in people.pairs:
        taken.setdefault(pair, 1)
    for name in zip(canaries.first, canaries.last, strict=True):
        taken.setdefault(pair_of(*name), 1)
    found = corpus_candidates(
        passed.tally.stand_ins(names),
        found=taken,
        pool=passed.pool,
        seed=order.seed,
        people=listed,
        accepts=passed.accepts,
    )
    lists = {
        "patient": found.positives,
        "staff": found.staff,
        "canary": canaries,
        "easy": found.easy,
        "hard": found.hard,
        "recombined": found.recombined,
        "matched": found.matched,
    }
    counts = tuple(
        ListedNames(control_kind=name if name not in ("patient", "staff", "canary") else kind,
                    role=role, n=n)
        for name in LISTS
        for (kind, role), n in sorted(_kinds(lists[name]).items())
    )  # fmt: skip
    return Drawn(lists, _summed(counts))


def _kinds(names: Candidates) -> Counter[tuple[str, str]]:
    return Counter(zip(names.control_kind, names.role, strict=True))


def _summed(counts: tuple[ListedNames, ...]) -> tuple[ListedNames, ...]:
    sums: dict[tuple[str, str], int] = {}
    for count in counts:
        key = (count.control_kind, count.role)
        sums[key] = sums.get(key, 0) + count.n
    return tuple(ListedNames(kind, role, n) for (kind, role), n in sums.items())


SAMPLE, BUILD, NAMES, EXAMINE, MAKE_CORPUS_LISTS = (
    "drawing a sample of the notes",
    "building the corpus",
    "looking for names",
    "examining the corpus",
    "drawing candidates",
)
# About how long each takes, for the time left.
_WEIGHTS = {SAMPLE: 1.0, BUILD: 6.0, NAMES: 2.0, EXAMINE: 6.0, MAKE_CORPUS_LISTS: 0.2}
_REASONS = 200


@dataclass(frozen=True)
class _Built:
    """What a build counted, whatever its kind."""

    n_refused: int
    is_blank: bool
    summary: dict[str, object]


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

    Raises
    ------
    AuditError
        If the notes or the register cannot be read, there are too few notes or names for the
        canaries, or the folder cannot be written.
    AuditCancelled
        If the person asked to stop; nothing is left.
    """
    notes, register = paths_of(order)
    source = open_notes(notes, columns=dict(order.columns))
    stages = Stages(_weights(order), listener=progress, should_stop=should_stop)
    with corpus_place(out) as folder:
        if order.sample is not None:
            meter = stages.meter(SAMPLE, total=float(source.n_bytes))
            source = sampled(source, n=order.sample, seed=order.seed, meter=meter, phase=SAMPLE)
        built = _build(order, source, register, folder, stages)
        people = People(folder, kind=order.kind)
        examiner = Examiner(order, folder, people=people, is_blank=built.is_blank)
        if order.has_canaries:
            examiner.plan_canaries(stages, phase=NAMES)
        passed = examiner.examine(stages, phase=EXAMINE)
        lists = stages.meter(MAKE_CORPUS_LISTS, total=1.0)
        drawn = draw_candidates(order, passed, people=people)
        candidates = candidates_csv(drawn.lists)
        record = drawn_record(folder, candidates)
        write_private(
            {
                CANDIDATES: candidates,
                CANARIES: canaries_csv(passed.plan),
                LISTED: listed_bytes(_listed(passed, drawn)),
                EXAMINATION: examination_bytes(_examination(folder, built, passed, drawn, people)),
                CORPUS: _described(order, passed, people, name=notes.name, record=record),
            },
            folder,
        )
        lists.finish(MAKE_CORPUS_LISTS)
    return out


def paths_of(order: CorpusTask) -> tuple[Path, Path | None]:
    """Return the paths of an order's notes and register.

    Raises
    ------
    AuditError
        If an identifier is not in the list of registered files.
    """
    notes = order.notes or resolve_note_file(order.file_id)
    if order.kind == "dummy":
        return notes, None
    return notes, order.register_file or resolve_note_file(order.register_id)


def _weights(order: CorpusTask) -> dict[str, float]:
    left_out = {SAMPLE} if order.sample is None else set()
    left_out |= set() if order.has_canaries else {NAMES}
    return {stage: weight for stage, weight in _WEIGHTS.items() if stage not in left_out}


def _build(
    order: CorpusTask, source: NoteSource, register: Path | None, folder: Path, stages: Stages
) -> _Built:
    listener = stages.listener(BUILD)
    if register is None:
        summary = build_corpus(
            source,
            out=folder,
            seed=order.seed,
            n_workers=order.n_workers,
            progress=listener,
            should_stop=stages.should_stop,
        )
        return _Built(summary.n_refused, summary.has_blanks, {})
    try:
        data = register.read_bytes()
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="register") from None
    found = build_registered_corpus(
        source,
        read_register(data),
        out=folder,
        progress=listener,
        should_stop=stages.should_stop,
    )
    return _Built(found.n_refused, False, {"doubts": found.doubts})


def _examination(
    folder: Path, built: _Built, passed: Passed, drawn: Drawn, people: People
) -> Examination:
    is_dummy = not built.summary
    summary = read_summary(folder) if is_dummy else None
    doubts = built.summary.get("doubts", {})
    assert isinstance(doubts, dict)
    return Examination(
        coverage=passed.coverage,
        n_refused=built.n_refused,
        refused=_refused(folder),
        n_patients=people.n_patients,
        n_named_patients=people.n_named,
        inserted=summary.replaced if summary else (),
        unknown=summary.unknown if summary else (),
        n_malformed=summary.n_malformed if summary else 0,
        doubts=tuple(CountOf(what, n) for what, n in sorted(doubts.items())),
        pattern_table=passed.tally.pattern_table.rows,
        mention_table=passed.tally.mention_table.rows,
        n_positives=len(passed.tally),
        n_listed_positives=len(drawn.lists["patient"]),
        n_not_one_token=passed.tally.n_refused,
        candidates=drawn.counts,
        carriers=people.carriers(drawn.lists["patient"]),
        canaries=_by_mentions(passed.plan),
        n_passages=passed.n_passages,
    )


def _listed(passed: Passed, drawn: Drawn) -> ListedNotes:
    names = drawn.lists["patient"]
    planted = (note for note, _ in passed.plan.notes) if passed.plan else ()
    return passed.places.listed(zip(names.first, names.last, strict=True), planted=planted)


def _refused(folder: Path) -> tuple[CountOf, ...]:
    """Return how many rows were refused for each reason, the most frequent first."""
    counts: dict[str, int] = {}
    with (folder / REFUSED).open("rb") as lines:
        for line in lines:
            reason = str(json.loads(line)["what"])
            if reason in counts or len(counts) < _REASONS:
                counts[reason] = counts.get(reason, 0) + 1
    ranked = sorted(counts.items(), key=lambda count: (-count[1], count[0]))
    return tuple(CountOf(what, n) for what, n in ranked)


def _by_mentions(plan: CanaryPlan | None) -> tuple[tuple[int, int], ...]:
    counts: dict[int, int] = {}
    for canary in plan.planted if plan else ():
        counts[canary.n_mentions] = counts.get(canary.n_mentions, 0) + 1
    return tuple(sorted(counts.items()))


def _described(
    order: CorpusTask, passed: Passed, people: People, *, name: str, record: dict[str, Any]
) -> bytes:
    asked = order.plain()
    # Paths stay out, and what is said at the top already.
    hidden = ("notes", "register_file", "tokenizer", "file_id", "register_id", "title", "seed",
              "n_workers", "corpus_id", "out")  # fmt: skip
    settings = {key: value for key, value in asked.items() if key not in hidden}
    return describe_corpus(
        title=order.title,
        kind=order.kind,
        source=name,
        seed=order.seed,
        n_notes=passed.coverage.n_notes,
        n_patients=people.n_patients,
        has_token_rule=order.tokenizer is not None,
        **settings,
        **record,
    )
