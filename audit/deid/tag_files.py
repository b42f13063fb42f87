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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from audit.corpora.notes import Note
from audit.deid.documents import TaggedDocument
from audit.deid.format_jsonl import jsonl_line
from audit.deid.generation.copies import CopyingTagger, CopyReading, added, numbers_of
from audit.deid.redact import FROM_TEXT, PLACEHOLDER, VERSION, Redacted, Surrogate, redact
from audit.deid.tag_batches import (
    BatchLimit,
    RowMeter,
    Rows,
    RowSource,
    batches_of,
    source_size,
)
from audit.deid.tag_census import census_of
from audit.deid.tag_state import GrowingFiles, TagCounts, growing_folder
from audit.deid.tagger import Tagger, checked_tags, tag_checked
from audit.errors import AuditError
from audit.progress import ProgressListener, StopQuestion
from audit.tables import RowNote

SPANS, REDACTED, REFUSED = "spans.jsonl", "redacted.jsonl", "refused.jsonl"
COPIES = "copies.jsonl"
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
        run = _Run(
            files, tagger=tagger, release=release, keep_outputs=keep_outputs, meter=meter,
            should_stop=should_stop,
        )  # fmt: skip
        _go(run, batches_of(source, meter, limit=plan.limit), files=files, settings=plan.settings)
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


def _go(
    run: _Run, batches: Iterable[Rows], *, files: GrowingFiles, settings: Mapping[str, str]
) -> None:
    """Take batch after batch; write down about once a second, or after each, how far it is."""
    kept_at = time.monotonic()
    for batch in batches:
        if run.n_before and not run.is_caught_up:
            run.skip(batch)
            continue
        run.add(batch)
        if time.monotonic() - kept_at >= _KEEP_SECONDS:
            files.keep(settings, run.counts, rows_digest=run.rows_digest)
            kept_at = time.monotonic()
    run.check_end()
    files.keep(settings, run.counts, rows_digest=run.rows_digest)


class _Run:
    """One pass over the notes: those of an earlier run are looked at, the others tagged."""

    def __init__(
        self,
        files: GrowingFiles,
        *,
        tagger: Tagger,
        release: Release,
        keep_outputs: bool,
        meter: RowMeter,
        should_stop: StopQuestion,
    ) -> None:
        self._files = files
        self._tagger = tagger
        self._release = release
        self._keep_outputs = keep_outputs
        self._meter = meter
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

    def skip(self, rows: Rows) -> None:
        """Look at rows that are done, and check at their end that they are still the same."""
        for row in rows:
            self._look_at(row)
        self._n_looked_at += len(rows)
        self._meter.begin(rows)
        self._meter.end(is_cached=True)
        if self.is_caught_up and self.rows_digest != self._digest_before:
            raise AuditError("The notes changed while they were read.", where="notes")

    def add(self, rows: Rows) -> None:
        """Tag rows and write what came of them."""
        self._meter.begin(rows)
        names = [self._look_at(row) for row in rows]
        notes = [
            (row, name) for row, name in zip(rows, names, strict=True) if isinstance(row, Note)
        ]
        for note, document in self._tagged(notes):
            redacted = self._release.of(document)
            self._files.write(SPANS, jsonl_line(document).encode())
            line = json.dumps({"row": note.row, "text": redacted.text}, ensure_ascii=False)
            self._files.write(REDACTED, (line + "\n").encode())
            self.counts.add(document, redacted)
        refused = [row for row in rows if isinstance(row, RowNote)]
        for row in refused:
            self._files.write(REFUSED, (json.dumps(asdict(row)) + "\n").encode())
        self.counts.n_refused += len(refused)
        self.counts.n_rows += len(rows)
        self._meter.end()

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
        found: Sequence[CopyReading] = ()
        if plain:
            found = self._tagger.read(
                plain, should_stop=self._should_stop, on_share=self._meter.share
            )
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
