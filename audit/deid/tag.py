"""Tags a file of notes: spans, the notes as they may be released, and a census, in a new folder.

Comes in: a source of notes, a tagger. Goes out: `spans.jsonl` (notes with spans: private),
`redacted.jsonl` (released texts under the numbers of their rows), `refused.jsonl`, `census.json`;
of a tagger that writes copies also `copies.jsonl`, how faithful each one is.
Notes are read and tagged batch by batch, then read again and written: what the tagger has found of
a patient's names in one note, and what a register knows, is found in all of them. What a tagger
answered is kept until all is done, so that a run that was stopped or killed asks for the rest
alone, and ends with the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from audit.corpus.build import CorpusFile, corpus_folder
from audit.deid.answers import ANSWERS, AnswerFile
from audit.deid.copies import COPIES, Copies, CopyingTagger, json_line
from audit.deid.given import SPANS, AnnotatedNotes
from audit.deid.kinds import KINDS, Kind
from audit.deid.known import found_again, names_in, together
from audit.deid.policy import ALL_OUT, Policy
from audit.deid.register import PatientRegister
from audit.deid.release import SURROGATE, Release, n_marks
from audit.deid.sexes import Sexes
from audit.deid.tagger import Tagger, Tags, checked_tags, tag_checked
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import jsonl_line
from audit.notes.read import Note, NoteSource
from audit.notes.spans import Span, TaggedDocument, ordered
from audit.progress import Meter, Phase, Portion, Progress, ProgressListener, StopQuestion
from audit.shelf import building_folder
from audit.tables import RowNote

TAGGING, WRITING = "tagging the notes", "finding names again"
REDACTED, REFUSED = "redacted.jsonl", "refused.jsonl"
CENSUS = "census.json"
_BATCH_CHARS, _BATCH_NOTES = 200_000, 64
_COPY_CHARS = 2_500
Rows = Sequence[Note | RowNote]


def tag_notes(
    source: NoteSource | AnnotatedNotes, *, tagger: Tagger, out: Path, release: Release,
    policy: Policy = ALL_OUT,
    register: PatientRegister | None = None,
    progress: ProgressListener = lambda report: None, should_stop: StopQuestion = lambda: False,
) -> dict[str, Any]:  # fmt: skip
    """Tag all notes of a source and return the census.

    The tagger's answer for a text must not depend on chance. `policy` says what of it is taken out,
    `register` what is known of patients beforehand. `out` must not be there, or be empty, and
    appears when it is whole; what a tagger answered before a person stops stays beside it for the
    next run. Progress is in characters of notes.
    """

    def on_bytes(n: int) -> None:
        if should_stop():
            raise AuditCancelled

    names = [SPANS, REDACTED, REFUSED, CENSUS]
    if isinstance(tagger, CopyingTagger):
        names.append(COPIES)
    with (
        corpus_folder(out, names=names, kept=ANSWERS, where="folder of tagged notes") as files,
        closing(AnswerFile(building_folder(out) / ANSWERS)) as answers,
    ):
        progress(Progress(TAGGING, 0.0, 1.0, None))
        # Read once to be counted: files tell bytes by the megabyte only.
        total, sexes = 0.0, Sexes()
        for one in source.read(on_bytes=on_bytes):
            total += _units(one)
            if release.mode == SURROGATE and isinstance(one, Note):
                sexes.add(one.patient_id, one.text)
        plan = [tagging(tagger, total), Phase(WRITING, total, 1e-6, WRITING)]
        meter = Meter(plan, listener=progress, should_stop=should_stop)
        run = _Run(files, release, policy, register, sexes)
        for phase in (TAGGING, WRITING):
            for batch, share in _read(source, tagger, meter, phase=phase):
                notes = run.notes(batch, is_first=phase == TAGGING)
                documents = [note for _, note in notes]
                question = [tagger.digest, [(one.doc_id, one.text) for one in documents]]
                ask = partial(_asked, tagger, documents, should_stop, share)
                found, is_known = answers.of(question, ask)
                for (row, note), (spans, copy) in zip(notes, found, strict=True):
                    if phase == TAGGING:
                        run.learn(note, spans)
                    else:
                        run.write(row, note, spans, copy)
                share(1.0, is_cached=is_known and phase == TAGGING)
            meter.finish(phase)
        census = run.census(tagger)
        files[CENSUS].write(census_file(census))
    return census


def _read(
    source: NoteSource | AnnotatedNotes, tagger: Tagger, meter: Meter, *, phase: str
) -> Iterator[tuple[Rows, Portion]]:
    """Yield the batches of a source, with their parts of a phase."""
    n_rows, n_chars = _BATCH_NOTES, _BATCH_CHARS
    if isinstance(tagger, CopyingTagger):
        # A model that writes every note again may need minutes for a batch: a kill loses less.
        n_rows = tagger.n_notes_at_once
        n_chars = n_rows * _COPY_CHARS
    rows = source.read(on_bytes=lambda n: meter.add(phase, 0.0))
    for batch in _batches(rows, n_rows, n_chars):
        yield batch, Portion(meter, phase, sum(map(_units, batch)))


def tagging(tagger: Tagger, n_chars: float) -> Phase:
    """Return the tagging of notes as a phase; what is like this tagger goes at its pace."""
    is_slow = isinstance(tagger, CopyingTagger)
    kind = f"{TAGGING}, {type(tagger).__name__}"
    return Phase(TAGGING, n_chars, 1e-2 if is_slow else 1e-5, kind)


def census_file(census: Mapping[str, Any]) -> bytes:
    """Return a census as a file."""
    return (json.dumps(census, ensure_ascii=False, indent=1) + "\n").encode()


def _units(row: Note | RowNote) -> int:
    return 1 + (len(row.text) if isinstance(row, Note) else 0)


def _batches(source: Iterator[Note | RowNote], n_rows: int, n_chars: int) -> Iterator[Rows]:
    """Yield rows in batches whose borders depend on the rows alone."""
    rows: list[Note | RowNote] = []
    for row in source:
        rows.append(row)
        if len(rows) >= n_rows or sum(map(_units, rows)) - len(rows) >= n_chars:
            yield rows
            rows = []
    if rows:
        yield rows


def counted(document: TaggedDocument, *, is_foreign: bool = False) -> Counter[str]:
    """Count a note as the census names it, and spans and their characters under "n" and "chars"."""
    counts = Counter(
        n_notes=1, n_characters=len(document.text), n_notes_without_spans=int(not document.spans),
        n_replaced=n_marks(document), n_notes_of_no_language=int(is_foreign),
    )  # fmt: skip
    for span in document.spans:
        counts.update({f"n {span.label}": 1, f"chars {span.label}": span.n_chars})
    return counts


def told(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return what was `counted` as a census has it."""
    labels = ordered(key[2:] for key, n in counts.items() if n and key.startswith("n "))
    spans = {label: {"n": counts[f"n {label}"], "n_characters": counts[f"chars {label}"]}
             for label in labels}  # fmt: skip
    return {name: n for name, n in counts.items() if " " not in name} | {"spans": spans}


def policy_part(policy: Policy, left: Mapping[Kind, int]) -> dict[str, Any]:
    """Return what a census has of a policy, and how many marks of each kind it left in."""
    return {"policy": policy.plain(), "left": {kind: left[kind] for kind in KINDS if kind in left}}


Spans = Sequence[tuple[int, int, str]]


def _asked(
    tagger: Tagger, documents: Sequence[TaggedDocument], should_stop: StopQuestion,
    share: Portion,
) -> list[tuple[Spans, Any]]:  # fmt: skip
    """Return the spans of each note, and the line of its copy where the tagger writes copies."""
    texts = [document.text for document in documents]
    if not texts:
        return []
    lines: list[Any] = [None] * len(texts)
    if isinstance(tagger, CopyingTagger):
        found = tagger.read(documents, should_stop=should_stop, on_share=share)
        tags = checked_tags([one.tags for one in found], texts=texts, name=COPIES)
        lines = [one.line() for one in found]
    else:
        tags = tag_checked(tagger, texts)
    spans = [[(span.start, span.end, span.label) for span in own] for own in tags]
    return list(zip(spans, lines, strict=True))


class _Run:
    """Learns the names in the notes of the first pass; writes those of the second, and counts."""

    def __init__(
        self, files: Mapping[str, CorpusFile], release: Release, policy: Policy,
        register: PatientRegister | None, sexes: Sexes,
    ) -> None:  # fmt: skip
        self._files, self._release, self._policy = files, release, policy
        self._register, self._sexes, self._left = register, sexes, Counter[Kind]()
        self._counts = Counter(n_notes=0, n_refused=0, n_found_again=0)
        self._copies, self._ids = Copies(), set[str]()
        self._is_first = True
        self._names: dict[str, str] = {}
        self._met: set[str] = set()
        self._n_of_no_row = 0

    def notes(self, rows: Rows, *, is_first: bool) -> list[tuple[int, TaggedDocument]]:
        """Return the notes of rows, each under a name of its own; write down what is none."""
        if is_first != self._is_first:
            self._is_first = is_first
            self._ids.clear()
        found = []
        for row in rows:
            if isinstance(row, RowNote):
                if not is_first:
                    self._counts["n_refused"] += 1
                    self._files[REFUSED].write(json_line(asdict(row)))
                continue
            name = row.note_id
            while name in self._ids:
                name = f"{name}#{row.row}"
            self._ids.add(name)
            note = TaggedDocument(name, row.text, patient_id=row.patient_id or None)
            found.append((row.row, note))
        return found

    def learn(self, note: TaggedDocument, spans: Spans) -> None:
        """Remember the names that were found in a note with certainty, for those of its patient."""
        patient = note.patient_id
        if patient is not None and (names := names_in(note.text, _spans(spans))):
            known = self._names.get(patient)
            self._names[patient] = names if known is None else together(known, names)

    def _known(self, note: TaggedDocument, spans: Tags) -> tuple[str, ...]:
        """Return what is known of the patient of a note, packed."""
        patient = note.patient_id
        if patient is None:
            names, listed = names_in(note.text, spans), None
        else:
            names = self._names.get(patient, "")
            listed = self._register.pieces.get(patient) if self._register else None
        if listed is not None and patient is not None:
            self._met.add(patient)
        self._n_of_no_row += listed is None
        return tuple(filter(None, (listed, names)))

    def write(self, row: int, note: TaggedDocument, spans: Spans, copy: Any) -> None:
        """Write a note and what was found in it, and its released text."""
        lost = tuple(copy["unaligned"]) if copy else ()
        own = _spans(spans)
        all_spans = found_again(note.text, own, *self._known(note, own))
        self._counts["n_found_again"] += len(set(all_spans) - set(own))
        document, left = self._policy.applied(replace(note, spans=all_spans, unaligned=lost))
        redacted = self._release.of(document, sex=self._sexes.of(document.patient_id))
        self._files[SPANS].write(jsonl_line(document).encode())
        self._files[REDACTED].write(json_line({"row": row, "text": redacted.text}))
        self._left.update(left)
        self._counts.update(counted(document, is_foreign=not redacted.language))
        if copy:
            self._files[COPIES].write(json_line(copy))
            self._copies.add(copy)

    def census(self, tagger: Tagger) -> dict[str, Any]:
        """Return the counts, with the SHA-256 of each file."""
        if not self._counts["n_notes"]:
            raise AuditError("No row is a note.", where="notes")
        census = {
            "tagger": {"name": tagger.name, "digest": tagger.digest, "labels": [*tagger.labels]},
            "mode": self._release.mode,
            **told(self._counts),
            **self._of_register(),
            "sha256": {name: file.digest for name, file in self._files.items() if name != CENSUS},
        }
        if self._policy.left:
            census |= policy_part(self._policy, self._left)
        return census | ({"copies": self._copies.summary()} if COPIES in self._files else {})

    def _of_register(self) -> dict[str, Any]:
        """Return how register and notes fit, without any name."""
        if self._register is None:
            return {}
        register = self._register
        return {"register": {
            "digest": register.digest, "n_rows": register.n_rows,
            "n_patients": len(register.pieces),
            "n_patients_without_notes": len(register.pieces) - len(self._met),
            "n_notes_without_row": self._n_of_no_row,
        }}  # fmt: skip


def _spans(spans: Spans) -> Tags:
    return tuple(Span(*one) for one in spans)
