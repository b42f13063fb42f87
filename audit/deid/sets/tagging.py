"""Tags a file of notes into a new folder: spans, released texts, and a census.

Input: a source of notes, a tagger. Output: `spans.jsonl` (notes with spans: private),
`redacted.jsonl` (released texts under the numbers of their rows), `refused.jsonl`, `census.json`.
A tagger that writes copies adds `copies.jsonl`, how faithful each copy is, and `uncopied.jsonl`,
the notes that were not copied in full: either the default tagger marked the parts that are missing,
or the note is withheld from both files of notes. If another system wrote the copies into a file,
the census counts the notes without a copy and the copies without a note.

Notes are read and tagged batch by batch, then read again and written: names of a patient that the
tagger found in one note, or that a register has, are marked in all notes of the patient. The
answers of the tagger are kept until the end, so that a run that was stopped or killed asks only for
the rest, and ends with the same bytes.
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import repeat
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeVar

from audit.corpus.build import CorpusFile, corpus_folder
from audit.deid.find.copies import COPIES, OUTPUTS, Copies, CopyingTagger, n_chars_of
from audit.deid.find.elsewhere import FileTagger, OutputNames
from audit.deid.find.known_names import add_known_names, read_certain_names
from audit.deid.find.tagger import Tagger, check_tags, is_light, tag_and_check
from audit.deid.find.taggers import BackedTagger, UnitedTagger, add_fallback
from audit.deid.redact.kinds import KINDS, Kind
from audit.deid.redact.persons import Names, PatientNames, read_names
from audit.deid.redact.policy import ALL_OUT, Policy
from audit.deid.redact.release import SURROGATE, Release, n_marks
from audit.deid.sets.answers import ANSWERS, AnswerFile
from audit.deid.sets.incoming_notes import SPANS, AnnotatedNotes
from audit.errors import AuditCancelled, AuditError
from audit.executor import open_executor, run_in_order
from audit.home import salted_digest
from audit.notes.fhir import Groups
from audit.notes.formats import format_jsonl_line
from audit.notes.read import ByteListener, Note, NoteSource
from audit.notes.spans import Span, TaggedDocument, Tags, order_labels
from audit.patients.finder import merge_packs
from audit.patients.register import PatientRegister, pack_people
from audit.progress import Meter, Phase, Portion, Progress, ProgressListener, StopQuestion
from audit.shelf import building_folder, json_line, json_page
from audit.tables import RowNote

TAGGING, WRITING = "tagging the notes", "finding names again"
REDACTED, REFUSED = "redacted.jsonl", "refused.jsonl"
CENSUS = "census.json"
UNCOPIED = "uncopied.jsonl"
FALLBACK: Final = "fallback"
WITHHOLD: Final = "withhold"
Uncopied = Literal["fallback", "withhold"]
"""The treatment of a note that a tagger did not copy in full: the default tagger marks the missing
parts, or the note is not released."""
_MAX_LISTED = 100
_BATCH_CHARS, _BATCH_NOTES = 200_000, 64
_COPY_CHARS = 2_500
_MANY_CHARS = 300_000
_VERSION = 2
"""A part of the key of stored answers; it goes up with every change of the answers."""
T = TypeVar("T")


def tag_notes(
    source: NoteSource | AnnotatedNotes,
    *,
    tagger: Tagger,
    folder: Path,
    release: Release,
    policy: Policy = ALL_OUT,
    register: PatientRegister | None = None,
    uncopied: Uncopied = FALLBACK,
    n_workers: int = 1,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> dict[str, Any]:
    """Tag all notes of a source and return the census.

    The tagger's answer for a text must not depend on chance. `policy` decides which marks are taken
    out, `register` has facts about patients, and `uncopied` is the treatment of notes that were not
    copied in full. `folder` must be missing or empty, and appears when it is complete. If a person
    stops the run, the answers of the tagger stay beside it for the next run. Progress is in
    characters of notes. Many notes are tagged by `n_workers` processes if the tagger can be sent to
    them; the bytes are the same.
    """

    def on_bytes(n: int) -> None:
        if should_stop():
            raise AuditCancelled

    tagger = add_fallback(tagger)
    names = [SPANS, REDACTED, REFUSED, CENSUS]
    if isinstance(tagger, CopyingTagger):
        names += [COPIES, UNCOPIED]
    with (
        corpus_folder(
            folder, names=names, lasting_file=ANSWERS, subject="folder of tagged notes"
        ) as files,
        closing(AnswerFile(building_folder(folder) / ANSWERS)) as answers,
    ):
        progress(Progress(TAGGING, 0.0, 1.0, None))
        # The notes are read once to count them: files report their bytes only by the megabyte.
        total, output_names = _count_notes(source, _find_file_tagger(tagger), on_bytes=on_bytes)
        n_workers = n_workers if total > _MANY_CHARS and is_light(tagger) else 1
        pace = f", {n_workers} processes" if n_workers > 1 else ""
        # With surrogates the notes are read twice: first for the names, then for the texts.
        n_written = total * (1 + (release.mode == SURROGATE))
        plan = [
            tagging_phase(tagger, total, pace=pace),
            Phase(WRITING, n_written, 1e-6, WRITING + pace),
        ]
        meter = Meter(plan, listener=progress, should_stop=should_stop)
        with open_executor(n_workers=n_workers) as executor:
            work = _Work(source, tagger, meter, executor, n_workers)
            run = _Run(files, _ReleaseRules(release, policy, uncopied), register, output_names)
            for batch, names_by_note in work.tag_batches(answers, should_stop):
                run.learn(batch.notes, names_by_note)
            if release.mode == SURROGATE:
                run.people = work.collect_names(answers, run)
            for batch, lines in work.release_batches(answers, run):
                run.write(batch, lines)
        census = run.census(tagger)
        files[CENSUS].write(json_page(census))
    return census


def tagging_phase(tagger: Tagger, n_chars: float, *, pace: str = "") -> Phase:
    """Return the phase of tagging; similar taggers share the measured pace."""
    is_slow = isinstance(tagger, CopyingTagger)
    kind = f"{TAGGING}, {type(tagger).__name__}{pace}"
    return Phase(TAGGING, n_chars, 1e-2 if is_slow else 1e-5, kind)


def _find_file_tagger(tagger: Tagger) -> FileTagger | None:
    """Return the tagger of a file of copies that is part of a tagger; None if none is."""
    if isinstance(tagger, BackedTagger):
        return _find_file_tagger(tagger.model)
    if isinstance(tagger, UnitedTagger):
        return next(filter(None, map(_find_file_tagger, tagger.taggers)), None)
    return tagger if isinstance(tagger, FileTagger) else None


def _count_notes(
    source: NoteSource | AnnotatedNotes, outputs: FileTagger | None, *, on_bytes: ByteListener
) -> tuple[float, OutputNames | None]:
    """Return the units of all notes, and the comparison of their names with those of copies."""
    total, names = 0.0, set[str]()
    for row in source.read(on_bytes=on_bytes):
        total += _count_units(row)
        if outputs and isinstance(row, Note):
            _take_unique_name(row, names)
    return total, outputs.compare_names(names) if outputs else None


def _take_unique_name(note: Note, taken_names: set[str]) -> str:
    """Return the name of a note, with the number of its row if it is taken; it is taken then."""
    name = note.note_id
    while name in taken_names:
        name = f"{name}#{note.row}"
    taken_names.add(name)
    return name


def _count_units(row: Note | RowNote) -> int:
    return 1 + (len(row.text) if isinstance(row, Note) else 0)


def count_note(document: TaggedDocument, *, is_foreign: bool = False) -> Counter[str]:
    """Count a note under the names of the census, and its spans under "n LABEL", "chars LABEL"."""
    counts = Counter(
        n_notes=1,
        n_characters=len(document.text),
        n_notes_without_spans=int(not document.spans),
        n_replaced=n_marks(document),
        n_notes_of_no_language=int(is_foreign),
    )
    for span in document.spans:
        counts.update({f"n {span.label}": 1, f"chars {span.label}": span.n_chars})
    return counts


def arrange_counts(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the counts of `count_note` in the form of a census."""
    labels = order_labels(key[2:] for key, n in counts.items() if n and key.startswith("n "))
    spans = {
        label: {"n": counts[f"n {label}"], "n_characters": counts[f"chars {label}"]}
        for label in labels
    }
    return {name: n for name, n in counts.items() if " " not in name} | {"spans": spans}


def policy_part(policy: Policy, left: Mapping[Kind, int]) -> dict[str, Any]:
    """Return the part of a census about a policy, with the marks of each kind that it left in."""
    return {"policy": policy.plain(), "left": {kind: left[kind] for kind in KINDS if kind in left}}


Spans = Sequence[tuple[int, int, str]]
Answers = Sequence[tuple[Spans, Any]]
"""The spans of each note, and the line of its copy if the tagger writes copies."""


def _ask_tagger(
    tagger: Tagger, should_stop: StopQuestion, share: Portion, notes: Sequence[TaggedDocument]
) -> Answers:
    """Return the answers of a tagger for some notes."""
    texts = [note.text for note in notes]
    if not texts or not isinstance(tagger, CopyingTagger):
        return _pack_answers(tag_and_check(tagger, texts) if texts else ())
    readings = tagger.read(notes, should_stop=should_stop, on_share=share)
    tags = check_tags([reading.tags for reading in readings], texts=texts, name=COPIES)
    return _pack_answers(tags, [reading.line() for reading in readings])


def _pack_answers(tags: Sequence[Tags], lines: Iterable[Any] = repeat(None)) -> Answers:
    packed_tags = ([(span.start, span.end, span.label) for span in note_tags] for note_tags in tags)
    return list(zip(packed_tags, lines, strict=False))


@dataclass(frozen=True)
class _PickledTagger:
    """A light tagger, pickled for another process, which loads it once."""

    pickled: bytes
    digest: str

    def __call__(self, notes: Sequence[TaggedDocument]) -> Answers:
        tagger = _unpickle(self.pickled)
        if tagger.digest != self.digest:
            raise AuditError(
                "The files of the tagger have changed.", where="tagger", do="Request it again."
            )
        return _pack_answers(tag_and_check(tagger, [note.text for note in notes]) if notes else ())


@lru_cache(maxsize=1)
def _unpickle(pickled: bytes) -> Tagger:
    tagger: Tagger = pickle.loads(pickled)
    return tagger


def _tag_batch(
    ask: Callable[[Sequence[TaggedDocument]], Answers],
    notes: Sequence[TaggedDocument],
    earlier_answers: Answers | None,
) -> tuple[Answers, list[str]]:
    """Return the answers for notes, and the certain names in each note that has a patient."""
    answers = ask(notes) if earlier_answers is None else earlier_answers
    return answers, [
        read_certain_names(note.text, _spans(spans)) if note.patient_id is not None else ""
        for note, (spans, _) in zip(notes, answers, strict=True)
    ]


class _NoteNames(NamedTuple):
    """The names to find in a note: packed `names` of its patient, empty for a note without one.

    `is_alone` says that the note has no patient. `people` are the names in all notes of the
    patient, if surrogates are drawn. `file_people` are packs of people; each is searched for alone.
    """

    names: tuple[str, ...]
    is_alone: bool
    people: Names | None
    file_people: tuple[str, ...] = ()


class _ReleaseRules(NamedTuple):
    """The rules for releasing notes."""

    release: Release
    policy: Policy
    uncopied: Uncopied


class _BatchLines(NamedTuple):
    """The lines of a batch for the files, and its counts.

    `uncopied` are the lines of `UNCOPIED`; `left` counts the marks that the policy left in.
    """

    spans: bytes
    redacted: bytes
    copies: Sequence[Any]
    uncopied: Sequence[Mapping[str, Any]]
    counts: Counter[str]
    left: Counter[Kind]


def _finish_note(
    rules: _ReleaseRules, note: TaggedDocument, spans: Tags, note_names: _NoteNames
) -> tuple[TaggedDocument, Tags, Counter[Kind]]:
    """Return a note with the spans to take out, all its spans, and how many the policy leaves."""
    names = (
        (*note_names.names, read_certain_names(note.text, spans))
        if note_names.is_alone
        else note_names.names
    )
    spans_again = add_known_names(note.text, spans, *filter(None, names))
    for pack in note_names.file_people:
        spans_again = add_known_names(note.text, spans_again, pack)
    document, left = rules.policy.apply(replace(note, spans=spans_again))
    return document, spans_again, left


def _collect_names(
    rules: _ReleaseRules,
    notes: Sequence[TaggedDocument],
    answers: Answers,
    all_names: Sequence[_NoteNames],
) -> list[Names]:
    """Return the names in each note, once known names have been found again in it."""
    names = []
    for note, (spans, copy), note_names in zip(notes, answers, all_names, strict=True):
        is_released = not (copy and copy["uncopied"] and rules.uncopied == WITHHOLD)
        is_needed = is_released and not note_names.is_alone
        names.append(
            read_names(_finish_note(rules, note, _spans(spans), note_names)[0])
            if is_needed
            else Names()
        )
    return names


def _release_notes(
    rules: _ReleaseRules,
    rows: Sequence[int],
    notes: Sequence[TaggedDocument],
    answers: Answers,
    all_names: Sequence[_NoteNames],
) -> _BatchLines:
    """Return the lines of notes with all their spans, and of their released texts."""
    lines, redacted, counts, left = [], [], Counter[str](), Counter[Kind]()
    uncopied = []
    for row, note, (spans, copy), note_names in zip(rows, notes, answers, all_names, strict=True):
        if copy and copy["uncopied"]:
            uncopied.append(_uncopied_line(row, note, copy, uncopied=rules.uncopied))
            if rules.uncopied == WITHHOLD:
                continue
        tagger_spans = _spans(spans)
        lost = tuple(copy["unaligned"]) if copy else ()
        document, all_spans, note_left = _finish_note(
            rules, replace(note, unaligned=lost), tagger_spans, note_names
        )
        redacted_note = rules.release.redact(document, names=note_names.people)
        lines.append(format_jsonl_line(document).encode())
        redacted.append(json_line({"row": row, "text": redacted_note.text}))
        left.update(note_left)
        counts.update(count_note(document, is_foreign=not redacted_note.language))
        counts["n_found_again"] += len(set(all_spans) - set(tagger_spans))
    copies = [copy for _, copy in answers if copy]
    return _BatchLines(b"".join(lines), b"".join(redacted), copies, uncopied, counts, left)


def _uncopied_line(
    row: int, note: TaggedDocument, copy: Mapping[str, Any], *, uncopied: Uncopied
) -> dict[str, Any]:
    """Return the line of `UNCOPIED` for a note that was not copied in full."""
    return {
        "row": row,
        "doc_id": note.doc_id,
        "copy": copy["status"],
        "n_characters": len(note.text),
        "n_not_copied": n_chars_of(copy["uncopied"]),
        "uncopied": uncopied,
    }


class _Batch(NamedTuple):
    """Notes, the numbers of their rows, refused rows, and the key of the tagger's answers.

    `people` are, for each note, the people whom other fields of its file name.
    """

    rows: Sequence[int]
    notes: Sequence[TaggedDocument]
    people: Sequence[Groups]
    refused: Sequence[RowNote]
    key: str
    share: Portion


class _Work:
    """Reads the notes batch by batch, to tag and then to write them, in this or other processes."""

    def __init__(
        self,
        source: NoteSource | AnnotatedNotes,
        tagger: Tagger,
        meter: Meter,
        executor: Executor | None,
        n_workers: int,
    ) -> None:
        self._source, self._tagger, self._meter = source, tagger, meter
        self._executor, self._n_workers = executor, n_workers
        self._pickled_tagger = (
            _PickledTagger(pickle.dumps(tagger), tagger.digest) if executor else None
        )

    def tag_batches(
        self, answers: AnswerFile, should_stop: StopQuestion
    ) -> Iterator[tuple[_Batch, list[str]]]:
        """Yield each batch with its certain names; keep the answers of the tagger."""

        def call(batch: _Batch) -> Callable[[], tuple[Answers, list[str]]]:
            ask = self._pickled_tagger or partial(
                _ask_tagger, self._tagger, should_stop, batch.share
            )
            earlier_answers = answers.get(batch.key)
            return partial(_tag_batch, ask, batch.notes, earlier_answers)

        for batch, (batch_answers, names) in self._run_calls(call, TAGGING):
            is_known = batch.key in answers
            if not is_known:
                answers.keep(batch.key, batch_answers)
            yield batch, names
            batch.share(1.0, is_cached=is_known)
        self._meter.finish(TAGGING)

    def collect_names(self, answers: AnswerFile, run: _Run) -> PatientNames:
        """Return the names in the notes, by patient."""

        def call(batch: _Batch) -> Callable[[], list[Names]]:
            all_names = run.names_for_notes(batch)
            return partial(
                _collect_names, run.rules, batch.notes, answers.get(batch.key), all_names
            )

        people = PatientNames()
        for batch, names in self._run_calls(call, WRITING):
            for note, note_names in zip(batch.notes, names, strict=True):
                people.include(note.patient_id, note_names)
            batch.share(1.0)
        return people

    def release_batches(
        self, answers: AnswerFile, run: _Run
    ) -> Iterator[tuple[_Batch, _BatchLines]]:
        """Yield each batch with its lines for the files."""

        def call(batch: _Batch) -> Callable[[], _BatchLines]:
            all_names = run.names_for_notes(batch)
            run.count_rows(batch.notes)
            batch_answers = answers.get(batch.key)
            return partial(
                _release_notes, run.rules, batch.rows, batch.notes, batch_answers, all_names
            )

        for batch, batch_lines in self._run_calls(call, WRITING):
            yield batch, batch_lines
            batch.share(1.0)
        self._meter.finish(WRITING)

    def _run_calls(
        self, call: Callable[[_Batch], Callable[[], T]], phase: str
    ) -> Iterator[tuple[_Batch, T]]:
        """Yield every batch with the result of its call."""
        waiting = deque[_Batch]()

        def calls() -> Iterator[Callable[[], T]]:
            for batch in self._batches(phase):
                waiting.append(batch)
                yield call(batch)

        results_in_order = run_in_order(
            self._executor,
            calls(),
            n_workers=self._n_workers,
            wait=lambda: self._meter.add(phase, 0.0),  # raises if the run is to stop
        )
        for batch_outcome in results_in_order:
            yield waiting.popleft(), batch_outcome

    def _batches(self, phase: str) -> Iterator[_Batch]:
        """Yield the notes in batches, whose borders depend only on the rows."""
        n_rows, n_chars = _BATCH_NOTES, _BATCH_CHARS
        if isinstance(self._tagger, CopyingTagger):
            # A model that copies notes may need minutes for a batch: after a kill less is lost.
            n_rows = self._tagger.n_notes_at_once
            n_chars = n_rows * _COPY_CHARS
        ids, rows, size = set[str](), list[Note | RowNote](), 0
        for row in self._source.read(on_bytes=lambda n: self._meter.add(phase, 0.0)):
            rows.append(row)
            size += _count_units(row)
            if len(rows) >= n_rows or size - len(rows) >= n_chars:
                yield self._batch(rows, ids, Portion(self._meter, phase, size))
                rows, size = [], 0
        if rows:
            yield self._batch(rows, ids, Portion(self._meter, phase, size))

    def _batch(self, rows: Sequence[Note | RowNote], ids: set[str], share: Portion) -> _Batch:
        """Return the notes of rows, each under a unique name; the names in `ids` are taken."""
        notes, numbers, people = [], [], []
        for row in rows:
            if isinstance(row, RowNote):
                continue
            name = _take_unique_name(row, ids)
            notes.append(TaggedDocument(name, row.text, patient_id=row.patient_id or None))
            numbers.append(row.row)
            people.append(row.named_people)
        texts = [(note.doc_id, note.text) for note in notes]
        key = AnswerFile.key([_VERSION, self._tagger.digest, texts])
        refused = [row for row in rows if isinstance(row, RowNote)]
        return _Batch(numbers, notes, people, refused, key, share)


class _Run:
    """Learns names in the first pass; writes the notes of the second pass, and counts."""

    def __init__(
        self,
        files: Mapping[str, CorpusFile],
        rules: _ReleaseRules,
        register: PatientRegister | None,
        output_names: OutputNames | None,
    ) -> None:
        self.rules = rules
        self.people: PatientNames | None = None
        self._files, self._register, self._output_names = files, register, output_names
        self._left = Counter[Kind]()
        self._counts = Counter(n_notes=0, n_refused=0, n_found_again=0)
        self._copies = Copies()
        self._uncopied = {"n_notes": 0, "n_characters": 0}
        self._listed: list[Mapping[str, Any]] = []
        self._names: dict[str, str] = {}
        self._patients_with_notes: set[str] = set()
        self._n_of_no_row = 0
        self._first_refused = ""

    def learn(self, notes: Sequence[TaggedDocument], names: Sequence[str]) -> None:
        """Remember the certain names in notes for all notes of the same patient."""
        for note, note_names in zip(notes, names, strict=True):
            if note_names and (patient := note.patient_id):
                patient_names = self._names.get(patient)
                self._names[patient] = (
                    note_names if patient_names is None else merge_packs(patient_names, note_names)
                )

    def names_for_notes(self, batch: _Batch) -> list[_NoteNames]:
        """Return the names to find in each note: its patient's, and those of people in its file."""
        return [
            self._names_for_note(*note_and_people)
            for note_and_people in zip(batch.notes, batch.people, strict=True)
        ]

    def _names_for_note(self, note: TaggedDocument, file_people: Groups) -> _NoteNames:
        patient = note.patient_id
        names = self._register_names(patient), self._names.get(patient or "")
        return _NoteNames(
            tuple(filter(None, names)),
            patient is None,
            self.people.get_names(patient) if self.people else None,
            tuple(filter(None, map(pack_people, file_people))),
        )

    def count_rows(self, notes: Sequence[TaggedDocument]) -> None:
        """Count the patients of the register that have notes, and the notes without a row in it."""
        for note in notes:
            has_row = self._register_names(note.patient_id) is not None
            self._patients_with_notes.update({note.patient_id or ""} if has_row else ())
            self._n_of_no_row += not has_row

    def _register_names(self, patient: str | None) -> str | None:
        """Return the packed names of a patient in the register; None if it has none."""
        return self._register.pieces.get(patient) if patient and self._register else None

    def write(self, batch: _Batch, lines: _BatchLines) -> None:
        """Write a batch into the files."""
        for row in batch.refused:
            self._counts["n_refused"] += 1
            self._first_refused = self._first_refused or row.what
            self._files[REFUSED].write(json_line(asdict(row)))
        self._files[SPANS].write(lines.spans)
        self._files[REDACTED].write(lines.redacted)
        self._left.update(lines.left)
        self._counts.update(lines.counts)
        for copy in lines.copies:
            self._files[COPIES].write(json_line(copy))
            self._copies.add(copy)
        for line in lines.uncopied:
            self._files[UNCOPIED].write(json_line(line))
            self._uncopied["n_notes"] += 1
            self._uncopied["n_characters"] += line["n_not_copied"]
            if len(self._listed) < _MAX_LISTED:
                self._listed.append({key: line[key] for key in ("row", "copy", "n_not_copied")})

    def census(self, tagger: Tagger) -> dict[str, Any]:
        """Return the counts, with the SHA-256 of the file that may be released.

        A digest of the original notes would confirm the guesses of an attacker.
        """
        n_withheld = self._uncopied["n_notes"] if self.rules.uncopied == WITHHOLD else 0
        if not self._counts["n_notes"] + n_withheld:
            if self._first_refused:
                raise AuditError(
                    "No row is a note. The first was refused: {why}",
                    where="notes",
                    why=self._first_refused,
                )
            raise AuditError("No row is a note.", where="notes")
        release, policy = self.rules.release, self.rules.policy
        census = {
            "tagger": {"name": tagger.name, "digest": tagger.digest, "labels": [*tagger.labels]},
            "mode": release.mode,
            **release.describe(),
            **arrange_counts(self._counts),
            **self._register_census(),
            "sha256": {REDACTED: self._files[REDACTED].digest},
        }
        if policy.kinds_left:
            census |= policy_part(policy, self._left)
        if COPIES not in self._files:
            return census
        if names := self._output_names:
            census[OUTPUTS] = {
                "n_notes_without_copy": names.n_notes_without,
                "n_copies_without_note": len(names.lines_without_note),
                "lines_without_note": names.lines_without_note[:_MAX_LISTED],
            }
        return census | {
            "copies": self._copies.summary().plain(),
            "uncopied": {
                "how": self.rules.uncopied,
                **self._uncopied,
                "n_withheld": n_withheld,
                "notes": self._listed,
            },
        }

    def _register_census(self) -> dict[str, Any]:
        """Return how many patients register and notes share, without any name."""
        if self._register is None:
            return {}
        register = self._register
        return {
            "register": {
                "salted_digest": salted_digest(register.digest),
                "n_rows": register.n_rows,
                "n_patients": len(register.pieces),
                "n_patients_without_notes": len(register.pieces) - len(self._patients_with_notes),
                "n_notes_without_row": self._n_of_no_row,
            }
        }


def _spans(spans: Spans) -> Tags:
    return tuple(Span(*fields) for fields in spans)
