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
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from audit.corpora.notes import Note, NoteSource
from audit.deid.documents import TaggedDocument
from audit.deid.format_jsonl import jsonl_line
from audit.deid.generation.copies import CopyingTagger, added, copies_summary, numbers_of
from audit.deid.labels import ordered
from audit.deid.redact import PLACEHOLDER, Redacted, Surrogate, redact
from audit.deid.tag_state import GrowingFiles, TagCounts, growing_folder
from audit.deid.tagger import Tagger, checked_tags, tag_checked
from audit.errors import AuditError
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.tables import RowNote

SPANS, REDACTED, REFUSED = "spans.jsonl", "redacted.jsonl", "refused.jsonl"
COPIES = "copies.jsonl"
CENSUS = "census.json"
TAGGING = "tagging the notes"
_STREAMS = (SPANS, REDACTED, REFUSED)
_BATCH_CHARS = 200_000
_BATCH_NOTES = 64
_KEEP_SECONDS = 1.0


@dataclass(frozen=True)
class Release:
    """How spans are replaced: mode, surrogates where the mode wants them, words of placeholders.

    `surrogate_digest` says by which identities, so that another run is not taken for the same.
    """

    mode: str = PLACEHOLDER
    surrogate: Surrogate | None = None
    surrogate_digest: str = ""
    language: str = "ja"

    def of(self, document: TaggedDocument) -> Redacted:
        """Return a note as it may be released."""
        return redact(document, mode=self.mode, surrogate=self.surrogate, language=self.language)


def tag_notes(
    source: NoteSource,
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
        From `open_notes`.
    tagger
        Its answer for a text must not depend on chance.
    out
        The folder to make: must not be there, or be empty. It appears when it is whole.
    keep_outputs
        Of a tagger that writes copies: keep its text too, which holds all names of the notes.
    progress, should_stop
        The unit is bytes of the source. What is finished when a person stops stays beside `out`
        and is taken up by the next run.

    Raises
    ------
    AuditError
        If the source cannot be read, is another than that of the run that is taken up, holds no
        note, or the folder cannot be written.
    AuditCancelled
        If the person asked to stop.
    """
    meter = Meter({TAGGING: float(source.n_bytes)}, listener=progress, should_stop=should_stop)
    settings, streams, n_rows = _plan(
        source, tagger=tagger, release=release, keep_outputs=keep_outputs
    )
    with growing_folder(out, names=(*streams, CENSUS), settings=settings) as files:
        run = _Run(
            files, tagger=tagger, release=release, keep_outputs=keep_outputs,
            should_stop=should_stop,
        )  # fmt: skip
        kept_at = time.monotonic()
        for batch in _batches(source, meter, n_before=run.n_before, n_rows=n_rows):
            if run.n_before and not run.is_caught_up:
                run.skip(batch)
            else:
                run.add(batch)
                if time.monotonic() - kept_at >= _KEEP_SECONDS:
                    files.keep(settings, run.counts, rows_digest=run.rows_digest)
                    kept_at = time.monotonic()
        run.check_end()
        files.keep(settings, run.counts, rows_digest=run.rows_digest)
        meter.finish(TAGGING)
        census = _census(run.counts, tagger=tagger, release=release, files=files, streams=streams)
        files.write(CENSUS, (json.dumps(census, ensure_ascii=False, indent=1) + "\n").encode())
    return census


def _plan(
    source: NoteSource, *, tagger: Tagger, release: Release, keep_outputs: bool
) -> tuple[dict[str, str], tuple[str, ...], int]:
    """Return what a run is a run of, the files that it writes, and the rows of a batch."""
    settings = {
        "tagger": tagger.digest, "mode": release.mode, "language": release.language,
        "surrogate": release.surrogate_digest, "kind": source.kind, "bytes": str(source.n_bytes),
    }  # fmt: skip
    if not isinstance(tagger, CopyingTagger):
        return settings, _STREAMS, _BATCH_NOTES
    n_rows = tagger.n_notes_at_once
    settings |= {"at_once": str(n_rows), "outputs": str(keep_outputs)}
    return settings, (*_STREAMS, COPIES), n_rows


class _Run:
    """One pass over the notes: those of an earlier run are looked at, the others tagged."""

    def __init__(
        self,
        files: GrowingFiles,
        *,
        tagger: Tagger,
        release: Release,
        keep_outputs: bool,
        should_stop: StopQuestion,
    ) -> None:
        self._files = files
        self._tagger = tagger
        self._release = release
        self._keep_outputs = keep_outputs
        self._should_stop = should_stop
        self._rows = hashlib.sha256()
        self._ids: set[bytes] = set()
        self._n_looked_at = 0
        place = files.place
        self.counts = place.counts if place else TagCounts()
        self.n_before = self.counts.n_rows
        self._digest_before = place.rows_digest if place else ""

    @property
    def rows_digest(self) -> str:
        """SHA-256 of the rows so far."""
        return self._rows.hexdigest()

    @property
    def is_caught_up(self) -> bool:
        """Whether all rows of the earlier run were seen again."""
        return self._n_looked_at >= self.n_before

    def skip(self, rows: Sequence[Note | RowNote]) -> None:
        """Look at rows that are done, and check at their end that they are still the same."""
        for row in rows:
            self._look_at(row)
        self._n_looked_at += len(rows)
        if self.is_caught_up and self.rows_digest != self._digest_before:
            raise AuditError("The notes changed while they were read.", where="notes")

    def add(self, rows: Sequence[Note | RowNote]) -> None:
        """Tag rows and write what came of them."""
        names = [self._look_at(row) for row in rows]
        notes = [
            (row, name) for row, name in zip(rows, names, strict=True) if isinstance(row, Note)
        ]
        for note, document in self._tagged(notes):
            redacted = self._release.of(document)
            self._files.write(SPANS, jsonl_line(document).encode())
            line = json.dumps({"row": note.row, "text": redacted.text}, ensure_ascii=False)
            self._files.write(REDACTED, (line + "\n").encode())
            _count(self.counts, document, redacted)
        refused = [row for row in rows if isinstance(row, RowNote)]
        for row in refused:
            self._files.write(REFUSED, (json.dumps(asdict(row)) + "\n").encode())
        self.counts.n_refused += len(refused)
        self.counts.n_rows += len(rows)

    def _tagged(self, notes: Sequence[tuple[Note, str]]) -> Iterator[tuple[Note, TaggedDocument]]:
        """Yield notes with their spans; of a tagger that writes copies, also write those down."""
        plain = [
            TaggedDocument(doc_id=name, text=note.text, patient_id=note.patient_id or None)
            for note, name in notes
        ]
        texts = [document.text for document in plain]
        if not isinstance(self._tagger, CopyingTagger):
            tags = tag_checked(self._tagger, texts) if texts else ()
            for (note, _), document, spans in zip(notes, plain, tags, strict=True):
                yield note, document.with_spans(spans)
            return
        found = self._tagger.read(plain, should_stop=self._should_stop) if plain else ()
        tags = checked_tags([one.tags for one in found], texts=texts, name=self._tagger.name)
        for (note, _), reading, spans in zip(notes, found, tags, strict=True):
            self.counts.copies = added(self.counts.copies, numbers_of(reading))
            line = json.dumps(reading.line(with_outputs=self._keep_outputs), ensure_ascii=False)
            self._files.write(COPIES, (line + "\n").encode("utf-8", "surrogatepass"))
            yield note, replace(reading.document, spans=spans)

    def check_end(self) -> None:
        """Check that there were rows, and all of the earlier run."""
        if not self.is_caught_up:
            raise AuditError("The notes changed while they were read.", where="notes")
        if not self.counts.n_notes:
            raise AuditError("No row is a note.", where="notes")

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


def _batches(
    source: NoteSource, meter: Meter, *, n_before: int, n_rows: int
) -> Iterator[list[Note | RowNote]]:
    """Yield rows in batches whose borders depend on the rows alone."""
    rows: list[Note | RowNote] = []
    n_chars = n_seen = 0

    def on_bytes(n: int) -> None:
        meter.add(TAGGING, n, is_cached=n_seen < n_before)

    for row in source.read(on_bytes=on_bytes):
        rows.append(row)
        n_seen += 1
        n_chars += len(row.text) if isinstance(row, Note) else 0
        if n_chars >= _BATCH_CHARS or len(rows) >= n_rows:
            meter.add(TAGGING, 0)
            yield rows
            rows, n_chars = [], 0
    if rows:
        yield rows


def _count(counts: TagCounts, document: TaggedDocument, redacted: Redacted) -> None:
    counts.n_notes += 1
    counts.n_chars += len(document.text)
    counts.n_notes_without += not document.spans
    counts.n_replaced += len(redacted.replacements)
    counts.n_unchanged += redacted.n_unchanged
    for span in document.spans:
        counts.n_spans[span.label] = counts.n_spans.get(span.label, 0) + 1
        counts.n_span_chars[span.label] = counts.n_span_chars.get(span.label, 0) + span.n_chars


def _census(
    counts: TagCounts,
    *,
    tagger: Tagger,
    release: Release,
    files: GrowingFiles,
    streams: Sequence[str],
) -> dict[str, Any]:
    labels = ordered(counts.n_spans)
    census = {
        "tagger": {"name": tagger.name, "digest": tagger.digest, "labels": list(tagger.labels)},
        "mode": release.mode,
        "n_notes": counts.n_notes,
        "n_refused": counts.n_refused,
        "n_characters": counts.n_chars,
        "n_notes_without_spans": counts.n_notes_without,
        "n_replaced": counts.n_replaced,
        "n_replaced_by_itself": counts.n_unchanged,
        "spans": {
            label: {"n": counts.n_spans[label], "n_characters": counts.n_span_chars[label]}
            for label in labels
        },
        "sha256": {name: _digest(files.folder / name) for name in streams},
    }
    return census | ({"copies": copies_summary(counts.copies)} if counts.copies else {})


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
