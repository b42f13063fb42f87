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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from audit.deid.copies import (
    COPIES,
    CopyingTagger,
    CopyReading,
    added,
    copies_summary,
    numbers_of,
)
from audit.deid.release import FROM_TEXT, PLACEHOLDER, VERSION, Redacted, Surrogate, redact
from audit.deid.tagger import Tagger, checked_tags, tag_checked
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import jsonl_line
from audit.notes.read import ByteListener, Note
from audit.notes.spans import TaggedDocument, ordered
from audit.progress import Meter, Progress, ProgressListener, StopQuestion
from audit.shelf import clear_folder, fingerprint, whole_folder, write_whole
from audit.tables import RowNote

TAGGING = "tagging the notes"
Rows = Sequence[Note | RowNote]


class RowSource(Protocol):
    """Where notes come from: `NoteSource`, or `AnnotatedNotes`."""

    @property
    def kind(self) -> str:
        """What sort of file or folder it is."""

    @property
    def n_bytes(self) -> int:
        """Of the file or files."""

    def read(self, *, on_bytes: ByteListener = ...) -> Iterator[Note | RowNote]:
        """Go through the notes and the refusals, each time in the same order."""


@dataclass(frozen=True)
class BatchLimit:
    """When a batch is full: so many rows, or so many characters."""

    n_rows: int
    n_chars: int


class RowMeter:
    """Counts rows that are done by their characters, and within a batch as far as a tagger tells.

    `n_units` are those of all rows, as `source_size` gives them.
    """

    def __init__(self, n_units: int, progress: ProgressListener, should_stop: StopQuestion) -> None:
        self._meter = Meter({TAGGING: float(n_units)}, listener=progress, should_stop=should_stop)
        self._units = self._done = 0.0

    def sign(self, n_bytes: int) -> None:
        """Give a sign that the source is read; a person may stop there."""
        self._meter.add(TAGGING, 0.0)

    def begin(self, rows: Rows) -> None:
        """Begin a batch."""
        self._units, self._done = float(sum(map(_units, rows))), 0.0

    def share(self, share: float) -> None:
        """Count a batch up to a share of it, 0-1; less than was told before counts nothing."""
        units = min(1.0, share) * self._units - self._done
        if units > 0:
            self._done += units
            self._meter.add(TAGGING, units)

    def end(self, *, is_cached: bool = False) -> None:
        """Count the rest of a batch."""
        self._meter.add(TAGGING, self._units - self._done, is_cached=is_cached)
        self._units = self._done = 0.0

    def finish(self) -> None:
        """Count what is left of all."""
        self._meter.finish(TAGGING)


def source_size(source: RowSource, progress: ProgressListener, should_stop: StopQuestion) -> int:
    """Return the units of a source by reading it once: files tell bytes by the megabyte only."""
    progress(Progress(TAGGING, 0.0, 1.0, None))
    n_units = 0

    def on_bytes(n: int) -> None:
        if should_stop():
            raise AuditCancelled

    for row in source.read(on_bytes=on_bytes):
        n_units += _units(row)
    return n_units


def batches_of(source: RowSource, meter: RowMeter, *, limit: BatchLimit) -> Iterator[Rows]:
    """Yield rows in batches whose borders depend on the rows alone."""
    rows: list[Note | RowNote] = []
    n_chars = 0
    for row in source.read(on_bytes=meter.sign):
        rows.append(row)
        n_chars += len(row.text) if isinstance(row, Note) else 0
        if n_chars >= limit.n_chars or len(rows) >= limit.n_rows:
            yield rows
            rows, n_chars = [], 0
    if rows:
        yield rows


def _units(row: Note | RowNote) -> int:
    return 1 + (len(row.text) if isinstance(row, Note) else 0)


_STATE = "state.json"
_WHERE = "folder of tagged notes"


@dataclass
class TagCounts:
    """What was counted so far; all of it is plain JSON.

    `n_rows` of the source are done, refused ones included; `n_unchanged` replacements are equal to
    what they replace; `n_no_language` notes are neither in Japanese nor in English; `n_spans` and
    `n_span_chars` are by label; `copies` are what `audit.deid.copies` adds up.
    """

    n_rows: int = 0
    n_notes: int = 0
    n_refused: int = 0
    n_chars: int = 0
    n_notes_without: int = 0
    n_replaced: int = 0
    n_unchanged: int = 0
    n_no_language: int = 0
    n_spans: dict[str, int] = field(default_factory=dict)
    n_span_chars: dict[str, int] = field(default_factory=dict)
    copies: dict[str, float] = field(default_factory=dict)

    def add(self, document: TaggedDocument, redacted: Redacted) -> None:
        """Count a note and what was replaced in it; its row is counted with its batch."""
        self.n_notes += 1
        self.n_chars += len(document.text)
        self.n_notes_without += not document.spans
        self.n_replaced += len(redacted.replacements)
        self.n_unchanged += redacted.n_unchanged
        self.n_no_language += not redacted.language
        for span in document.spans:
            self.n_spans[span.label] = self.n_spans.get(span.label, 0) + 1
            self.n_span_chars[span.label] = self.n_span_chars.get(span.label, 0) + span.n_chars


@dataclass(frozen=True)
class Place:
    """How far a run is: what it is a run of, its counts, the rows' digest, the files' lengths."""

    settings: Mapping[str, str]
    counts: TagCounts
    rows_digest: str
    lengths: Mapping[str, int]


class GrowingFiles:
    """The files of a run, open for writing at the place where it stands."""

    def __init__(self, folder: Path, names: Sequence[str], place: Place | None) -> None:
        self.folder = folder
        self.place = place
        self._files: dict[str, BinaryIO] = {}
        for name in names:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
            file = os.fdopen(os.open(folder / name, flags, 0o600), "r+b", buffering=1 << 20)
            length = place.lengths[name] if place else 0
            file.truncate(length)
            file.seek(length)
            self._files[name] = file

    def write(self, name: str, data: bytes) -> None:
        """Append bytes."""
        self._files[name].write(data)

    def keep(self, settings: Mapping[str, str], counts: TagCounts, *, rows_digest: str) -> None:
        """Write down that everything so far is whole."""
        lengths = {}
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            lengths[name] = file.tell()
        place = Place(settings, counts, rows_digest, lengths)
        write_whole(self.folder / _STATE, json.dumps(asdict(place)).encode())

    def close(self) -> None:
        """Close the files, what was written on the disk for good."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()


@contextmanager
def growing_folder(
    out: Path, *, names: Sequence[str], settings: Mapping[str, str]
) -> Iterator[GrowingFiles]:
    """Write the files of a new folder; it appears when the block ends well.

    What an interrupted block has written stays beside the place and is taken up by the next one,
    if that has the same settings; otherwise it is cleared.
    """
    with whole_folder(out, where=_WHERE, stays=(*names, _STATE)) as building:
        place = _place(building, names=names, settings=settings)
        if place is None:
            clear_folder(building)
        files = GrowingFiles(building, names, place)
        try:
            yield files
        finally:
            files.close()
        (building / _STATE).unlink()


def _place(folder: Path, *, names: Sequence[str], settings: Mapping[str, str]) -> Place | None:
    """Return where an interrupted run stands; None where there is none of this kind."""
    try:
        given = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        lengths = {name: int(given["lengths"][name]) for name in names}
        place = Place(
            given["settings"], TagCounts(**given["counts"]), given["rows_digest"], lengths
        )
        is_there = all((folder / name).stat().st_size >= lengths[name] for name in names)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return place if is_there and dict(place.settings) == dict(settings) else None


def census_of(
    counts: TagCounts, *, tagger: Tagger, mode: str, paths: Sequence[Path]
) -> dict[str, Any]:
    """Return the counts of a run as plain values, with the SHA-256 of each file of `paths`."""
    census = {
        "tagger": {"name": tagger.name, "digest": tagger.digest, "labels": list(tagger.labels)},
        "mode": mode,
        "n_notes": counts.n_notes,
        "n_refused": counts.n_refused,
        "n_characters": counts.n_chars,
        "n_notes_without_spans": counts.n_notes_without,
        "n_replaced": counts.n_replaced,
        "n_replaced_by_itself": counts.n_unchanged,
        "n_notes_of_no_language": counts.n_no_language,
        "spans": {
            label: {"n": counts.n_spans[label], "n_characters": counts.n_span_chars[label]}
            for label in ordered(counts.n_spans)
        },
        "sha256": {path.name: fingerprint(path) for path in paths},
    }
    return census | ({"copies": copies_summary(counts.copies)} if counts.copies else {})


SPANS, REDACTED, REFUSED = "spans.jsonl", "redacted.jsonl", "refused.jsonl"
CENSUS = "census.json"
_STREAMS = (SPANS, REDACTED, REFUSED)
_BATCH_CHARS = 200_000
_BATCH_NOTES = 64
_COPY_CHARS = 2_500
_KEEP_SECONDS = 1.0


@dataclass(frozen=True)
class Release:
    """How spans are replaced: mode, surrogates where the mode wants them, words of placeholders.

    `surrogate_digest` says by which identities, so that another run is not taken for the same.
    """

    mode: str = PLACEHOLDER
    surrogate: Surrogate | None = None
    surrogate_digest: str = ""
    language: str = FROM_TEXT

    def of(self, document: TaggedDocument) -> Redacted:
        """Return a note as it may be released."""
        return redact(document, mode=self.mode, surrogate=self.surrogate, language=self.language)


def tag_notes(
    source: RowSource,
    *,
    tagger: Tagger,
    out: Path,
    release: Release,
    keep_outputs: bool = False,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> dict[str, Any]:
    """Tag all notes of a source and return the census.

    Parameters
    ----------
    source
        From `open_notes` or `notes_to_tag`.
    tagger
        Its answer for a text must not depend on chance.
    out
        The folder to make: must not be there, or be empty. It appears when it is whole.
    keep_outputs
        Of a tagger that writes copies: keep its text too, which holds all names of the notes.
    progress, should_stop
        The unit is characters of notes; of a tagger that writes copies it also moves within a
        note. What is finished when a person stops stays beside `out` and is taken up by the next
        run.

    Raises
    ------
    AuditError
        If the source cannot be read, is another than that of the run that is taken up, holds no
        note, or the folder cannot be written.
    AuditCancelled
        If the person asked to stop.
    """
    plan = _plan(source, tagger=tagger, release=release, keep_outputs=keep_outputs)
    with growing_folder(out, names=(*plan.streams, CENSUS), settings=plan.settings) as files:
        size = source_size(source, progress, should_stop)
        meter = RowMeter(size, progress, should_stop)
        run = _Run(files, tagger, release, keep_outputs, meter, should_stop)
        run.go(batches_of(source, meter, limit=plan.limit), settings=plan.settings)
        meter.finish()
        census = census_of(
            run.counts, tagger=tagger, mode=release.mode,
            paths=[files.folder / name for name in plan.streams],
        )  # fmt: skip
        files.write(CENSUS, (json.dumps(census, ensure_ascii=False, indent=1) + "\n").encode())
    return census


@dataclass(frozen=True)
class _Plan:
    """What a run is a run of, the files that it writes, how large a batch is."""

    settings: dict[str, str]
    streams: tuple[str, ...]
    limit: BatchLimit


def _plan(source: RowSource, *, tagger: Tagger, release: Release, keep_outputs: bool) -> _Plan:
    settings = {
        "tagger": tagger.digest, "mode": release.mode, "language": release.language,
        "release": str(VERSION), "surrogate": release.surrogate_digest,
        "kind": source.kind, "bytes": str(source.n_bytes),
    }  # fmt: skip
    if not isinstance(tagger, CopyingTagger):
        return _Plan(settings, _STREAMS, BatchLimit(_BATCH_NOTES, _BATCH_CHARS))
    n_rows = tagger.n_notes_at_once
    # A model that writes every note again may need minutes for a batch: less is lost with a kill.
    limit = BatchLimit(n_rows, n_rows * _COPY_CHARS)
    settings |= {"at_once": f"{limit}", "outputs": str(keep_outputs)}
    return _Plan(settings, (*_STREAMS, COPIES), limit)


@dataclass
class _Run:
    """One pass over the notes: those of an earlier run are looked at, the others tagged."""

    files: GrowingFiles
    tagger: Tagger
    release: Release
    keep_outputs: bool
    meter: RowMeter
    should_stop: StopQuestion

    def __post_init__(self) -> None:
        """Begin where an earlier run stands."""
        self._rows = hashlib.sha256()
        self._ids: set[bytes] = set()
        self._n_looked_at = 0
        place = self.files.place
        self.counts = place.counts if place else TagCounts()
        self._n_before = self.counts.n_rows
        self._digest_before = place.rows_digest if place else ""

    @property
    def _is_caught_up(self) -> bool:
        return self._n_looked_at >= self._n_before

    def go(self, batches: Iterable[Rows], *, settings: Mapping[str, str]) -> None:
        """Take batch after batch; write down about once a second how far it is."""
        kept_at = time.monotonic()
        for batch in batches:
            if not self._is_caught_up:
                self.skip(batch)
                continue
            self.add(batch)
            if time.monotonic() - kept_at >= _KEEP_SECONDS:
                self.files.keep(settings, self.counts, rows_digest=self._rows.hexdigest())
                kept_at = time.monotonic()
        if not self._is_caught_up:
            raise AuditError("The notes changed while they were read.", where="notes")
        if not self.counts.n_notes:
            raise AuditError("No row is a note.", where="notes")
        self.files.keep(settings, self.counts, rows_digest=self._rows.hexdigest())

    def skip(self, rows: Rows) -> None:
        """Look at rows that are done, and check at their end that they are still the same."""
        for row in rows:
            self._look_at(row)
        self._n_looked_at += len(rows)
        self.meter.begin(rows)
        self.meter.end(is_cached=True)
        if self._is_caught_up and self._rows.hexdigest() != self._digest_before:
            raise AuditError("The notes changed while they were read.", where="notes")

    def add(self, rows: Rows) -> None:
        """Tag rows and write what came of them."""
        self.meter.begin(rows)
        names = [self._look_at(row) for row in rows]
        notes = [
            (row, name) for row, name in zip(rows, names, strict=True) if isinstance(row, Note)
        ]
        for note, document in self._tagged(notes):
            redacted = self.release.of(document)
            self.files.write(SPANS, jsonl_line(document).encode())
            line = json.dumps({"row": note.row, "text": redacted.text}, ensure_ascii=False)
            self.files.write(REDACTED, (line + "\n").encode())
            self.counts.add(document, redacted)
        refused = [row for row in rows if isinstance(row, RowNote)]
        for row in refused:
            self.files.write(REFUSED, (json.dumps(asdict(row)) + "\n").encode())
        self.counts.n_refused += len(refused)
        self.counts.n_rows += len(rows)
        self.meter.end()

    def _tagged(self, notes: Sequence[tuple[Note, str]]) -> Iterator[tuple[Note, TaggedDocument]]:
        """Yield notes with their spans; of a tagger that writes copies, also write those down."""
        plain = [
            TaggedDocument(doc_id=name, text=note.text, patient_id=note.patient_id or None)
            for note, name in notes
        ]
        texts = [document.text for document in plain]
        if not isinstance(self.tagger, CopyingTagger):
            tags = tag_checked(self.tagger, texts) if texts else ()
            for (note, _), document, spans in zip(notes, plain, tags, strict=True):
                yield note, document.with_spans(spans)
            return
        found: Sequence[CopyReading] = ()
        if plain:
            found = self.tagger.read(plain, should_stop=self.should_stop, on_share=self.meter.share)
        tags = checked_tags([one.tags for one in found], texts=texts, name=self.tagger.name)
        for (note, _), reading, spans in zip(notes, found, tags, strict=True):
            line = reading.line(with_outputs=self.keep_outputs)
            self.counts.copies = added(self.counts.copies, numbers_of(line))
            text = json.dumps(line, ensure_ascii=False) + "\n"
            self.files.write(COPIES, text.encode("utf-8", "surrogatepass"))
            yield note, replace(reading.document, spans=spans)

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
