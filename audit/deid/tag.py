"""Tags a file of notes: spans, the notes as they may be released, and a census, in a new folder.

Comes in: a source of notes, a tagger. Goes out: `spans.jsonl` (notes with spans: private),
`redacted.jsonl` (released texts under the numbers of their rows), `refused.jsonl`, `census.json`;
of a tagger that writes copies also `copies.jsonl`, how faithful each one is.
Notes are read, tagged and written batch by batch; a run that was stopped or killed goes on where it
was, and its files have the bytes of a run that was not.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import Field

from audit.deid.copies import COPIES, CopyingTagger, json_line, read_copies
from audit.deid.given import SPANS, AnnotatedNotes
from audit.deid.release import Redacted, Release
from audit.deid.tagger import Tagger, checked_tags, tag_checked
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import jsonl_line
from audit.notes.read import Note, NoteSource
from audit.notes.spans import TaggedDocument, ordered
from audit.progress import Meter, Progress, ProgressListener, StopQuestion
from audit.shelf import clear_folder, fingerprint, whole_folder, write_whole
from audit.tables import RowNote
from audit.task import Record

TAGGING = "tagging the notes"
REDACTED, REFUSED = "redacted.jsonl", "refused.jsonl"
CENSUS = "census.json"
_STATE = "state.json"
_BATCH_CHARS, _BATCH_NOTES = 200_000, 64
_COPY_CHARS = 2_500
_KEEP_SECONDS = 1.0
Rows = Sequence[Note | RowNote]


def tag_notes(
    source: NoteSource | AnnotatedNotes,
    *,
    tagger: Tagger,
    out: Path,
    release: Release,
    keep_outputs: bool = False,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> dict[str, Any]:
    """Tag all notes of a source and return the census.

    The tagger's answer for a text must not depend on chance; `keep_outputs` keeps also what one
    that writes copies wrote, which holds all names. `out` must not be there, or be empty, and
    appears when it is whole; what is finished when a person stops stays beside it for the next run.
    Progress is in characters of notes.
    """

    def on_bytes(n: int) -> None:
        if should_stop():
            raise AuditCancelled

    names, n_rows, n_chars = [SPANS, REDACTED, REFUSED], _BATCH_NOTES, _BATCH_CHARS
    settings = [tagger.digest, release.decisive(), source.kind, source.n_bytes]
    if isinstance(tagger, CopyingTagger):
        names.append(COPIES)
        # A model that writes every note again may need minutes for a batch: a kill loses less.
        n_rows = tagger.n_notes_at_once
        n_chars = n_rows * _COPY_CHARS
        settings += [n_rows, keep_outputs]
    with whole_folder(out, where="folder of tagged notes", stays=(*names, _STATE)) as folder:
        with ExitStack() as files:
            run = _Run(folder, names, json.dumps(settings), files)
            progress(Progress(TAGGING, 0.0, 1.0, None))
            # Read once to be counted: files tell bytes by the megabyte only.
            total = float(sum(map(_units, source.read(on_bytes=on_bytes))))
            meter = Meter({TAGGING: total}, listener=progress, should_stop=should_stop)
            rows = source.read(on_bytes=lambda n: meter.add(TAGGING, 0.0))
            for batch in _batches(rows, n_rows, n_chars):
                share = _Share(meter, sum(map(_units, batch)))
                is_done = run.has_done(batch)
                if not is_done:
                    run.tag(batch, tagger, release, keep_outputs, should_stop, share)
                share(1.0, is_cached=is_done)
            run.end()
            meter.finish(TAGGING)
        census = run.census(tagger, release.mode)
        write_whole(folder / CENSUS, census_file(census))
        (folder / _STATE).unlink()
    return census


def census_file(census: Mapping[str, Any]) -> bytes:
    """Return a census as a file."""
    return (json.dumps(census, ensure_ascii=False, indent=1) + "\n").encode()


class _Share:
    """Counts a batch up to a share of its units, 0-1; less than was told before counts nothing."""

    def __init__(self, meter: Meter, n_units: int) -> None:
        self._meter, self._n_units, self._done = meter, n_units, 0.0

    def __call__(self, share: float, *, is_cached: bool = False) -> None:
        units = min(1.0, share) * self._n_units - self._done
        if units > 0:
            self._done += units
            self._meter.add(TAGGING, units, is_cached=is_cached)


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


def counted(document: TaggedDocument, redacted: Redacted) -> Counter[str]:
    """Count a note as the census names it, and spans and their characters under "n" and "chars"."""
    counts = Counter(
        n_notes=1, n_characters=len(document.text), n_notes_without_spans=int(not document.spans),
        n_replaced=len(redacted.replacements), n_replaced_by_itself=redacted.n_unchanged,
        n_notes_of_no_language=int(not redacted.language),
    )  # fmt: skip
    for span in document.spans:
        counts.update({f"n {span.label}": 1, f"chars {span.label}": span.n_chars})
    return counts


def by_label(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return what `counted` says of spans, as the census has it."""
    labels = ordered(key[2:] for key, n in counts.items() if n and key.startswith("n "))
    return {label: {"n": counts[f"n {label}"], "n_characters": counts[f"chars {label}"]}
            for label in labels}  # fmt: skip


class _State(Record):
    """How far a run is, as `state.json` has it.

    `settings` are what it is a run of, `rows` the digest of the rows that are done, `lengths` those
    of the files.
    """

    settings: str
    rows: str = ""
    lengths: dict[str, int] = Field(default={})
    counts: dict[str, int] = Field(default={})


class _Run:
    """One pass over the notes: those of an earlier run are looked at, the others tagged."""

    def __init__(self, folder: Path, names: Sequence[str], settings: str, files: ExitStack) -> None:
        before = _State(settings=settings)
        try:
            found = _State.read((folder / _STATE).read_bytes(), where=_STATE)
            if found.settings == settings and all(
                (folder / name).stat().st_size >= found.lengths[name] for name in names
            ):
                before = found
        except (OSError, AuditError, KeyError):
            pass
        if not before.rows:
            clear_folder(folder)
        self._folder, self._before = folder, before
        self._files: dict[str, BinaryIO] = {}
        for name in names:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            descriptor = os.open(folder / name, flags, 0o600)
            file = files.enter_context(os.fdopen(descriptor, "r+b", buffering=1 << 20))
            self._files[name] = file
            file.truncate(file.seek(before.lengths.get(name, 0)))
        self._counts = Counter(before.counts)
        self._n_left = self._counts["n_rows"]
        self._rows, self._ids = hashlib.sha256(), set[bytes]()
        self._kept_at = time.monotonic()

    def has_done(self, rows: Rows) -> bool:
        """Whether an earlier run did these rows, which must be the same still."""
        if self._n_left <= 0:
            return False
        for row in rows:
            self._look_at(row)
        self._n_left -= len(rows)
        if self._n_left <= 0 and self._rows.hexdigest() != self._before.rows:
            raise _changed()
        return True

    def tag(
        self, rows: Rows, tagger: Tagger, release: Release, keep_outputs: bool,
        should_stop: StopQuestion, share: _Share,
    ) -> None:  # fmt: skip
        """Tag rows and write what came of them; about once a second note how far the run is."""
        numbers, documents = [], []
        for row in rows:
            name = self._look_at(row)
            if isinstance(row, Note):
                numbers.append(row.row)
                documents.append(TaggedDocument(name, row.text, patient_id=row.patient_id or None))
            else:
                self._files[REFUSED].write(json_line(asdict(row)))
        texts = [document.text for document in documents]
        if texts and isinstance(tagger, CopyingTagger):
            found = tagger.read(documents, should_stop=should_stop, on_share=share)
            tags = checked_tags([one.tags for one in found], texts=texts, name=COPIES)
            documents = [one.document for one in found]
            for reading in found:
                self._files[COPIES].write(json_line(reading.line(with_outputs=keep_outputs)))
        else:
            tags = tag_checked(tagger, texts) if texts else ()
        for number, one, spans in zip(numbers, documents, tags, strict=True):
            document = replace(one, spans=spans)
            redacted = release.of(document)
            self._files[SPANS].write(jsonl_line(document).encode())
            self._files[REDACTED].write(json_line({"row": number, "text": redacted.text}))
            self._counts.update(counted(document, redacted))
        self._counts.update(n_rows=len(rows), n_refused=len(rows) - len(documents))
        if time.monotonic() - self._kept_at >= _KEEP_SECONDS:
            self._keep()

    def end(self) -> None:
        """Refuse a source that lost rows, or has no note; note that all of it is done."""
        if self._n_left > 0:
            raise _changed()
        if not self._counts["n_notes"]:
            raise AuditError("No row is a note.", where="notes")
        self._keep()

    def census(self, tagger: Tagger, mode: str) -> dict[str, Any]:
        """Return the counts, with the SHA-256 of each file."""
        names = ("n_notes", "n_refused", "n_characters", "n_notes_without_spans", "n_replaced",
                 "n_replaced_by_itself", "n_notes_of_no_language")  # fmt: skip
        census = {
            "tagger": {"name": tagger.name, "digest": tagger.digest, "labels": [*tagger.labels]},
            "mode": mode,
            **{name: self._counts[name] for name in names},
            "spans": by_label(self._counts),
            "sha256": {name: fingerprint(self._folder / name) for name in self._files},
        }
        if COPIES in self._files:
            census["copies"] = read_copies(self._folder).summary()
        return census

    def _keep(self) -> None:
        """Write down that everything so far is whole."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        state = _State(
            settings=self._before.settings, rows=self._rows.hexdigest(),
            lengths={name: file.tell() for name, file in self._files.items()},
            counts=dict(self._counts),
        )  # fmt: skip
        write_whole(self._folder / _STATE, state.written())
        self._kept_at = time.monotonic()

    def _look_at(self, row: Note | RowNote) -> str:
        """Take a row into the digest; return what its note is called, each name once."""
        if isinstance(row, RowNote):
            self._rows.update(f"refused {row.row}\n".encode())
            return ""
        self._rows.update(json.dumps([row.row, row.note_id, row.patient_id, row.text]).encode())
        name = row.note_id
        while (key := hashlib.blake2b(name.encode(), digest_size=16).digest()) in self._ids:
            name = f"{name}#{row.row}"
        self._ids.add(key)
        return name


def _changed() -> AuditError:
    return AuditError("The notes changed while they were read.", where="notes")
