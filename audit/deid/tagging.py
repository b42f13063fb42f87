"""Tags a file of notes: spans, the notes as they may be released, and a census, in a new folder.

Comes in: a source of notes, a tagger. Goes out: `spans.jsonl` (notes with spans: private),
`redacted.jsonl` (released texts under the numbers of their rows), `refused.jsonl`, `census.json`;
of a tagger that writes copies also `copies.jsonl`, how faithful each one is, and `uncopied.jsonl`,
the notes that it did not copy whole: the default tagger marked what it left out, or the note is
withheld and stands in neither file of notes.
Notes are read and tagged batch by batch, then read again and written: what the tagger has found of
a patient's names in one note, and what a register knows, is found in all of them. What a tagger
answered is kept until all is done, so that a run that was stopped or killed asks for the rest
alone, and ends with the same bytes.
"""

from __future__ import annotations

import json
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
from audit.deid.answers import ANSWERS, AnswerFile
from audit.deid.copies import COPIES, Copies, CopyingTagger, json_line, n_chars_of
from audit.deid.incoming_notes import SPANS, AnnotatedNotes
from audit.deid.kinds import KINDS, Kind
from audit.deid.known_names import add_known_names, read_certain_names
from audit.deid.persons import Names, PatientNames, read_names
from audit.deid.policy import ALL_OUT, Policy
from audit.deid.release import SURROGATE, Release, n_marks
from audit.deid.tagger import Tagger, Tags, check_tags, is_light, tag_and_check
from audit.deid.taggers import add_fallback
from audit.errors import AuditCancelled, AuditError
from audit.executor import executor_of, in_order
from audit.home import salted_digest
from audit.notes.fhir import Groups
from audit.notes.formats import format_jsonl_line
from audit.notes.read import Note, NoteSource
from audit.notes.spans import Span, TaggedDocument, order_labels
from audit.patients.finder import merge_packs
from audit.patients.register import PatientRegister, pack_people
from audit.progress import Meter, Phase, Portion, Progress, ProgressListener, StopQuestion
from audit.shelf import building_folder
from audit.tables import RowNote

TAGGING, WRITING = "tagging the notes", "finding names again"
REDACTED, REFUSED = "redacted.jsonl", "refused.jsonl"
CENSUS = "census.json"
UNCOPIED = "uncopied.jsonl"
FALLBACK: Final = "fallback"
WITHHOLD: Final = "withhold"
Uncopied = Literal["fallback", "withhold"]
"""What becomes of a note that a tagger did not copy whole: the default tagger marks what it left
out, or the note is not released."""
_MAX_LISTED = 100
_BATCH_CHARS, _BATCH_NOTES = 200_000, 64
_COPY_CHARS = 2_500
_MANY_CHARS = 300_000
_VERSION = 2
"""Of what is kept of an answer: one of an earlier version is asked for again."""
T = TypeVar("T")


def tag_notes(
    source: NoteSource | AnnotatedNotes,
    *,
    tagger: Tagger,
    out: Path,
    release: Release,
    policy: Policy = ALL_OUT,
    register: PatientRegister | None = None,
    uncopied: Uncopied = FALLBACK,
    n_workers: int = 1,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> dict[str, Any]:
    """Tag all notes of a source and return the census.

    The tagger's answer for a text must not depend on chance. `policy` says what of it is taken out,
    `register` what is known of patients beforehand, `uncopied` what becomes of notes that were not
    copied whole. `out` must not be there, or be empty, and
    appears when it is whole; what a tagger answered before a person stops stays beside it for the
    next run. Progress is in characters of notes. Many notes are tagged by `n_workers` processes
    where the tagger can be sent to them; the bytes are the same.
    """

    def on_bytes(n: int) -> None:
        if should_stop():
            raise AuditCancelled

    tagger = add_fallback(tagger)
    names = [SPANS, REDACTED, REFUSED, CENSUS]
    if isinstance(tagger, CopyingTagger):
        names += [COPIES, UNCOPIED]
    with (
        corpus_folder(out, names=names, kept=ANSWERS, where="folder of tagged notes") as files,
        closing(AnswerFile(building_folder(out) / ANSWERS)) as answers,
    ):
        progress(Progress(TAGGING, 0.0, 1.0, None))
        # Read once to be counted: files tell bytes by the megabyte only.
        total = sum((_units(one) for one in source.read(on_bytes=on_bytes)), 0.0)
        n_workers = n_workers if total > _MANY_CHARS and is_light(tagger) else 1
        pace = f", {n_workers} processes" if n_workers > 1 else ""
        # Notes with surrogates are gone through twice: who is named, then the texts.
        n_written = total * (1 + (release.mode == SURROGATE))
        plan = [tagging(tagger, total, pace=pace), Phase(WRITING, n_written, 1e-6, WRITING + pace)]
        meter = Meter(plan, listener=progress, should_stop=should_stop)
        with executor_of(n_workers=n_workers) as executor:
            work = _Work(source, tagger, meter, executor, n_workers)
            run = _Run(files, _How(release, policy, uncopied), register)
            for batch, told in work.tagged(answers, should_stop):
                run.learn(batch.notes, told)
            if release.mode == SURROGATE:
                run.people = work.named(answers, run)
            for batch, written in work.written(answers, run):
                run.write(batch, written)
        census = run.census(tagger)
        files[CENSUS].write(census_file(census))
    return census


def tagging(tagger: Tagger, n_chars: float, *, pace: str = "") -> Phase:
    """Return the tagging of notes as a phase; what is like this tagger goes at its pace."""
    is_slow = isinstance(tagger, CopyingTagger)
    kind = f"{TAGGING}, {type(tagger).__name__}{pace}"
    return Phase(TAGGING, n_chars, 1e-2 if is_slow else 1e-5, kind)


def census_file(census: Mapping[str, Any]) -> bytes:
    """Return a census as a file."""
    return (json.dumps(census, ensure_ascii=False, indent=1) + "\n").encode()


def _units(row: Note | RowNote) -> int:
    return 1 + (len(row.text) if isinstance(row, Note) else 0)


def counted(document: TaggedDocument, *, is_foreign: bool = False) -> Counter[str]:
    """Count a note as the census names it, and spans and their characters under "n" and "chars"."""
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


def told(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return what was `counted` as a census has it."""
    labels = order_labels(key[2:] for key, n in counts.items() if n and key.startswith("n "))
    spans = {
        label: {"n": counts[f"n {label}"], "n_characters": counts[f"chars {label}"]}
        for label in labels
    }
    return {name: n for name, n in counts.items() if " " not in name} | {"spans": spans}


def policy_part(policy: Policy, left: Mapping[Kind, int]) -> dict[str, Any]:
    """Return what a census has of a policy, and how many marks of each kind it left in."""
    return {"policy": policy.plain(), "left": {kind: left[kind] for kind in KINDS if kind in left}}


Spans = Sequence[tuple[int, int, str]]
Answers = Sequence[tuple[Spans, Any]]
"""Of each note its spans, and the line of its copy where the tagger writes copies."""


def _asked(
    tagger: Tagger, should_stop: StopQuestion, share: Portion, notes: Sequence[TaggedDocument]
) -> Answers:
    """Return what a tagger answers for some notes."""
    texts = [note.text for note in notes]
    if not texts or not isinstance(tagger, CopyingTagger):
        return _answers(tag_and_check(tagger, texts) if texts else ())
    found = tagger.read(notes, should_stop=should_stop, on_share=share)
    tags = check_tags([one.tags for one in found], texts=texts, name=COPIES)
    return _answers(tags, [one.line() for one in found])


def _answers(tags: Sequence[Tags], lines: Iterable[Any] = repeat(None)) -> Answers:
    plain = ([(span.start, span.end, span.label) for span in own] for own in tags)
    return list(zip(plain, lines, strict=False))


@dataclass(frozen=True)
class _Sent:
    """A light tagger as it is sent to another process, which loads it once."""

    pickled: bytes
    digest: str

    def __call__(self, notes: Sequence[TaggedDocument]) -> Answers:
        tagger = _unpickled(self.pickled)
        if tagger.digest != self.digest:
            raise AuditError(
                "The files of the tagger have changed.", where="tagger", do="Ask again."
            )
        return _answers(tag_and_check(tagger, [note.text for note in notes]) if notes else ())


@lru_cache(maxsize=1)
def _unpickled(pickled: bytes) -> Tagger:
    found: Tagger = pickle.loads(pickled)
    return found


def _tagged(
    ask: Callable[[Sequence[TaggedDocument]], Answers],
    notes: Sequence[TaggedDocument],
    known: Answers | None,
) -> tuple[Answers, list[str]]:
    """Return what was found in notes, and which names those of a patient tell with certainty."""
    found = ask(notes) if known is None else known
    return found, [
        read_certain_names(note.text, _spans(spans)) if note.patient_id is not None else ""
        for note, (spans, _) in zip(notes, found, strict=True)
    ]


class _Known(NamedTuple):
    """What is known of a note's patient: names, packed, but for those of a lone note.

    `people` is what all notes of the patient say of names, where surrogates are drawn; `others` are
    packs of people who are each sought by themselves.
    """

    names: tuple[str, ...]
    is_alone: bool
    people: Names | None
    others: tuple[str, ...] = ()


class _How(NamedTuple):
    """How notes are released."""

    release: Release
    policy: Policy
    uncopied: Uncopied


class _Written(NamedTuple):
    """What comes into the files of a batch, and what was counted.

    `uncopied` are the lines of `UNCOPIED`.
    """

    spans: bytes
    redacted: bytes
    copies: Sequence[Any]
    uncopied: Sequence[Mapping[str, Any]]
    counts: Counter[str]
    left: Counter[Kind]


def _final(
    how: _How, note: TaggedDocument, spans: Tags, of: _Known
) -> tuple[TaggedDocument, Tags, Counter[Kind]]:
    """Return a note with what is taken out, all that was found, and what a policy leaves."""
    names = (*of.names, read_certain_names(note.text, spans)) if of.is_alone else of.names
    found = add_known_names(note.text, spans, *filter(None, names))
    for pack in of.others:
        found = add_known_names(note.text, found, pack)
    document, left = how.policy.applied(replace(note, spans=found))
    return document, found, left


def _named(
    how: _How, notes: Sequence[TaggedDocument], answers: Answers, known: Sequence[_Known]
) -> list[Names]:
    """Return what each note says of names, once names are found again in it."""
    names = []
    for note, (spans, copy), of in zip(notes, answers, known, strict=True):
        is_released = not (copy and copy["uncopied"] and how.uncopied == WITHHOLD)
        is_asked = is_released and not of.is_alone
        names.append(read_names(_final(how, note, _spans(spans), of)[0]) if is_asked else Names())
    return names


def _written(
    how: _How,
    rows: Sequence[int],
    notes: Sequence[TaggedDocument],
    answers: Answers,
    known: Sequence[_Known],
) -> _Written:
    """Return notes with all that was found in them, and their released texts."""
    lines, redacted, counts, left = [], [], Counter[str](), Counter[Kind]()
    uncopied = []
    for row, note, (spans, copy), of in zip(rows, notes, answers, known, strict=True):
        if copy and copy["uncopied"]:
            uncopied.append(_uncopied_line(row, note, copy, how=how.uncopied))
            if how.uncopied == WITHHOLD:
                continue
        own = _spans(spans)
        lost = tuple(copy["unaligned"]) if copy else ()
        document, found, own_left = _final(how, replace(note, unaligned=lost), own, of)
        made = how.release.of(document, names=of.people)
        lines.append(format_jsonl_line(document).encode())
        redacted.append(json_line({"row": row, "text": made.text}))
        left.update(own_left)
        counts.update(counted(document, is_foreign=not made.language))
        counts["n_found_again"] += len(set(found) - set(own))
    copies = [copy for _, copy in answers if copy]
    return _Written(b"".join(lines), b"".join(redacted), copies, uncopied, counts, left)


def _uncopied_line(
    row: int, note: TaggedDocument, copy: Mapping[str, Any], *, how: Uncopied
) -> dict[str, Any]:
    """Return what is listed of a note that was not copied whole, and what became of it."""
    return {
        "row": row,
        "doc_id": note.doc_id,
        "copy": copy["status"],
        "n_characters": len(note.text),
        "n_not_copied": n_chars_of(copy["uncopied"]),
        "uncopied": how,
    }


class _Batch(NamedTuple):
    """Notes, the numbers of their rows, rows that are none, and the key of a tagger's answers.

    `people` are those whom other fields of each note's file name.
    """

    rows: Sequence[int]
    notes: Sequence[TaggedDocument]
    people: Sequence[Groups]
    refused: Sequence[RowNote]
    key: str
    share: Portion


class _Work:
    """Reads the notes twice, batch by batch, to be tagged and to be written, here or elsewhere."""

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
        self._sent = _Sent(pickle.dumps(tagger), tagger.digest) if executor else None

    def tagged(
        self, answers: AnswerFile, should_stop: StopQuestion
    ) -> Iterator[tuple[_Batch, list[str]]]:
        """Yield each batch with the names that it tells; what a tagger answers is kept."""

        def call(batch: _Batch) -> Callable[[], tuple[Answers, list[str]]]:
            ask = self._sent or partial(_asked, self._tagger, should_stop, batch.share)
            known = answers.get(batch.key)
            return partial(_tagged, ask, batch.notes, known)

        for batch, (found, names) in self._done(call, TAGGING):
            is_known = batch.key in answers
            if not is_known:
                answers.keep(batch.key, found)
            yield batch, names
            batch.share(1.0, is_cached=is_known)
        self._meter.finish(TAGGING)

    def named(self, answers: AnswerFile, run: _Run) -> PatientNames:
        """Return what the notes say of names, by patient."""

        def call(batch: _Batch) -> Callable[[], list[Names]]:
            known = run.known_of(batch)
            return partial(_named, run.how, batch.notes, answers.get(batch.key), known)

        people = PatientNames()
        for batch, names in self._done(call, WRITING):
            for note, own in zip(batch.notes, names, strict=True):
                people.include(note.patient_id, own)
            batch.share(1.0)
        return people

    def written(self, answers: AnswerFile, run: _Run) -> Iterator[tuple[_Batch, _Written]]:
        """Yield each batch as it is to be written."""

        def call(batch: _Batch) -> Callable[[], _Written]:
            known = run.known_of(batch)
            run.count_rows(batch.notes)
            found = answers.get(batch.key)
            return partial(_written, run.how, batch.rows, batch.notes, found, known)

        for batch, made in self._done(call, WRITING):
            yield batch, made
            batch.share(1.0)
        self._meter.finish(WRITING)

    def _done(
        self, call: Callable[[_Batch], Callable[[], T]], phase: str
    ) -> Iterator[tuple[_Batch, T]]:
        """Yield every batch with what comes of a call for it."""
        waiting = deque[_Batch]()

        def calls() -> Iterator[Callable[[], T]]:
            for batch in self._batches(phase):
                waiting.append(batch)
                yield call(batch)

        done = in_order(
            self._executor,
            calls(),
            n_workers=self._n_workers,
            wait=lambda: self._meter.add(phase, 0.0),  # asks whether to stop
        )
        for found in done:
            yield waiting.popleft(), found

    def _batches(self, phase: str) -> Iterator[_Batch]:
        """Yield the notes in batches whose borders depend on the rows alone."""
        n_rows, n_chars = _BATCH_NOTES, _BATCH_CHARS
        if isinstance(self._tagger, CopyingTagger):
            # A model that writes every note again may need minutes for a batch: a kill loses less.
            n_rows = self._tagger.n_notes_at_once
            n_chars = n_rows * _COPY_CHARS
        ids, rows, size = set[str](), list[Note | RowNote](), 0
        for row in self._source.read(on_bytes=lambda n: self._meter.add(phase, 0.0)):
            rows.append(row)
            size += _units(row)
            if len(rows) >= n_rows or size - len(rows) >= n_chars:
                yield self._batch(rows, ids, Portion(self._meter, phase, size))
                rows, size = [], 0
        if rows:
            yield self._batch(rows, ids, Portion(self._meter, phase, size))

    def _batch(self, rows: Sequence[Note | RowNote], ids: set[str], share: Portion) -> _Batch:
        """Return the notes of rows, each under a name of its own, of which `ids` are taken."""
        notes, numbers, people = [], [], []
        for row in rows:
            if isinstance(row, RowNote):
                continue
            name = row.note_id
            while name in ids:
                name = f"{name}#{row.row}"
            ids.add(name)
            notes.append(TaggedDocument(name, row.text, patient_id=row.patient_id or None))
            numbers.append(row.row)
            people.append(row.named_people)
        texts = [(one.doc_id, one.text) for one in notes]
        key = AnswerFile.key([_VERSION, self._tagger.digest, texts])
        refused = [row for row in rows if isinstance(row, RowNote)]
        return _Batch(numbers, notes, people, refused, key, share)


class _Run:
    """Learns the names in the notes of the first pass; writes those of the second, and counts."""

    def __init__(
        self, files: Mapping[str, CorpusFile], how: _How, register: PatientRegister | None
    ) -> None:
        self.how = how
        self.people: PatientNames | None = None
        self._files, self._register = files, register
        self._left = Counter[Kind]()
        self._counts = Counter(n_notes=0, n_refused=0, n_found_again=0)
        self._copies = Copies()
        self._uncopied = {"n_notes": 0, "n_characters": 0}
        self._listed: list[Mapping[str, Any]] = []
        self._names: dict[str, str] = {}
        self._met: set[str] = set()
        self._n_of_no_row = 0
        self._first_refused = ""

    def learn(self, notes: Sequence[TaggedDocument], names: Sequence[str]) -> None:
        """Remember the names that notes told with certainty, for those of their patients."""
        for note, own in zip(notes, names, strict=True):
            if own and (patient := note.patient_id):
                known = self._names.get(patient)
                self._names[patient] = own if known is None else merge_packs(known, own)

    def known_of(self, batch: _Batch) -> list[_Known]:
        """Return what is known of the patient of each note, and of people whom its file names."""
        return [self._known(*one) for one in zip(batch.notes, batch.people, strict=True)]

    def _known(self, note: TaggedDocument, others: Groups) -> _Known:
        patient = note.patient_id
        names = self._row_of(patient), self._names.get(patient or "")
        return _Known(
            tuple(filter(None, names)),
            patient is None,
            self.people.get_names(patient) if self.people else None,
            tuple(filter(None, map(pack_people, others))),
        )

    def count_rows(self, notes: Sequence[TaggedDocument]) -> None:
        """Count which patients of the register have notes, and the notes without a row."""
        for note in notes:
            has_row = self._row_of(note.patient_id) is not None
            self._met.update({note.patient_id or ""} if has_row else ())
            self._n_of_no_row += not has_row

    def _row_of(self, patient: str | None) -> str | None:
        """Return what the register knows of a patient, packed."""
        return self._register.pieces.get(patient) if patient and self._register else None

    def write(self, batch: _Batch, written: _Written) -> None:
        """Write a batch into the files."""
        for row in batch.refused:
            self._counts["n_refused"] += 1
            self._first_refused = self._first_refused or row.what
            self._files[REFUSED].write(json_line(asdict(row)))
        self._files[SPANS].write(written.spans)
        self._files[REDACTED].write(written.redacted)
        self._left.update(written.left)
        self._counts.update(written.counts)
        for copy in written.copies:
            self._files[COPIES].write(json_line(copy))
            self._copies.add(copy)
        for line in written.uncopied:
            self._files[UNCOPIED].write(json_line(line))
            self._uncopied["n_notes"] += 1
            self._uncopied["n_characters"] += line["n_not_copied"]
            if len(self._listed) < _MAX_LISTED:
                self._listed.append({key: line[key] for key in ("row", "copy", "n_not_copied")})

    def census(self, tagger: Tagger) -> dict[str, Any]:
        """Return the counts, with the SHA-256 of what may be released.

        A digest of the notes as they were would tell whoever guesses the rest that it is right.
        """
        n_withheld = self._uncopied["n_notes"] if self.how.uncopied == WITHHOLD else 0
        if not self._counts["n_notes"] + n_withheld:
            if self._first_refused:
                raise AuditError(
                    "No row is a note. The first was refused: {why}",
                    where="notes",
                    why=self._first_refused,
                )
            raise AuditError("No row is a note.", where="notes")
        release, policy = self.how.release, self.how.policy
        census = {
            "tagger": {"name": tagger.name, "digest": tagger.digest, "labels": [*tagger.labels]},
            "mode": release.mode,
            **release.described(),
            **told(self._counts),
            **self._of_register(),
            "sha256": {REDACTED: self._files[REDACTED].digest},
        }
        if policy.left:
            census |= policy_part(policy, self._left)
        if COPIES not in self._files:
            return census
        return census | {
            "copies": self._copies.summary(),
            "uncopied": {
                "how": self.how.uncopied,
                **self._uncopied,
                "n_withheld": n_withheld,
                "notes": self._listed,
            },
        }

    def _of_register(self) -> dict[str, Any]:
        """Return how register and notes fit, without any name."""
        if self._register is None:
            return {}
        register = self._register
        return {
            "register": {
                "salted_digest": salted_digest(register.digest),
                "n_rows": register.n_rows,
                "n_patients": len(register.pieces),
                "n_patients_without_notes": len(register.pieces) - len(self._met),
                "n_notes_without_row": self._n_of_no_row,
            }
        }


def _spans(spans: Spans) -> Tags:
    return tuple(Span(*one) for one in spans)
