"""Tokenizing: notes read once, prepared, cut into tokens and kept for every training on them.

Comes in: sources of notes, a tokenizer. Goes out: a mapped token file. Memory is bounded by a
batch of notes; a run that is stopped leaves nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from audit.corpora.notes import Note, NoteSource
from audit.errors import AuditError
from audit.models.tokenizer import tokenizer_settings
from audit.private_files import private_folder, whole_folder
from audit.progress import Meter, ProgressListener, StopQuestion
from audit.training.note_text import TEXT_VERSION, prepared_sentences
from audit.training.token_file import TokenFile, TokenWriter, open_tokens

TOKENIZE = "tokenizing the notes"
_BATCH_CHARS = 500_000
_CHUNK_BYTES = 1 << 20
_NO_TOKENS = "The notes hold no text to train on."


def tokenized(
    sources: Sequence[NoteSource],
    tokenizer: Any,
    *,
    store: Path,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
) -> TokenFile:
    """Return the tokens of notes, made now unless they are kept.

    Parameters
    ----------
    sources
        Read in this order.
    store
        Folder of token files; each has its own folder in it, named by its key.
    progress, should_stop
        The unit is bytes of the sources.

    Raises
    ------
    AuditError
        If a source cannot be read, holds no text, or nothing can be written.
    AuditCancelled
        If the person asked to stop.
    """
    meter = Meter(
        {TOKENIZE: float(2 * sum(source.n_bytes for source in sources))},
        listener=progress,
        should_stop=should_stop,
    )
    key = _key(sources, tokenizer, meter=meter)
    folder = private_folder(store) / key[:32]
    kept = open_tokens(folder, key=key)
    if kept is None:
        with whole_folder(folder) as partial_folder:
            _write(sources, tokenizer, folder=partial_folder, key=key, meter=meter)
        kept = open_tokens(folder, key=key)
    meter.finish(TOKENIZE)
    if kept is None or not kept.counts.n_tokens:
        raise AuditError(_NO_TOKENS, where="notes")
    return kept


def special_ids_out(ids: list[int], *, special: frozenset[int], unknown: int) -> list[int]:
    """Return ids with the special tokens that a text spells out ("[MASK]") made unknown words."""
    if special.isdisjoint(ids):
        return ids
    return [unknown if token in special else token for token in ids]


def _write(
    sources: Sequence[NoteSource], tokenizer: Any, *, folder: Path, key: str, meter: Meter
) -> None:
    special = frozenset(tokenizer.all_special_ids)
    unknown = tokenizer.unk_token_id
    writer = TokenWriter(folder, sep=tokenizer.sep_token_id, n_vocabulary=len(tokenizer))
    try:
        for source in sources:
            for batch in _batches(source, meter):
                notes = [note for note in batch if isinstance(note, Note)]
                found = iter(_ids(notes, tokenizer))
                for note in batch:
                    if not isinstance(note, Note):
                        writer.refuse()
                        continue
                    plain = special_ids_out(next(found), special=special, unknown=unknown)
                    writer.add(plain, patient=note.patient_id)
        writer.finish(key=key)
    finally:
        writer.close()


def _batches(source: NoteSource, meter: Meter) -> Iterator[list[object]]:
    batch: list[object] = []
    n_chars = 0
    for note in source.read(on_bytes=partial(meter.add, TOKENIZE)):
        batch.append(note)
        n_chars += len(note.text) if isinstance(note, Note) else 0
        if n_chars >= _BATCH_CHARS:
            yield batch
            batch, n_chars = [], 0
    if batch:
        yield batch


def _ids(notes: Sequence[Note], tokenizer: Any) -> list[list[int]]:
    """Return each note's ids; sentences are cut one by one, so that no input is long."""
    pieces: list[str] = []
    ends: list[int] = []
    for note in notes:
        sentences = prepared_sentences(note.text)
        # A blank before all but the first: byte-level vocabularies tell words by it.
        pieces += [f" {s}" if at else s for at, s in enumerate(sentences)]
        ends.append(len(pieces))
    cut = _cut(pieces, tokenizer)
    starts = [0, *ends[:-1]]
    return [[i for piece in cut[a:b] for i in piece] for a, b in zip(starts, ends, strict=True)]


def _cut(pieces: list[str], tokenizer: Any) -> list[list[int]]:
    if not pieces:
        return []
    if not tokenizer.is_fast:
        return [list(ids) for ids in tokenizer(pieces, add_special_tokens=False)["input_ids"]]
    backend = tokenizer.backend_tokenizer
    backend.no_truncation()
    backend.no_padding()
    with _all_cores():
        found = backend.encode_batch_fast(pieces, add_special_tokens=False)
        return [encoding.ids for encoding in found]


@contextmanager
def _all_cores() -> Iterator[None]:
    # The commands switch the library's threads off, since it warns of forks that never come here.
    name = "TOKENIZERS_PARALLELISM"
    before = os.environ.get(name)
    os.environ[name] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _key(sources: Sequence[NoteSource], tokenizer: Any, *, meter: Meter) -> str:
    vocabulary = json.dumps(sorted(tokenizer.get_vocab().items())).encode()
    content = {
        "text": TEXT_VERSION,
        "vocabulary": hashlib.sha256(vocabulary).hexdigest(),
        "tokenizer": dict(tokenizer_settings(tokenizer)),
        "notes": [
            {
                "kind": source.kind,
                "codec": source.codec,
                "columns": {k: list(v) for k, v in source.columns.items()},
                "digest": notes_digest(source.path, meter=meter),
            }
            for source in sources
        ],
    }
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def notes_digest(path: Path, *, meter: Meter | None = None) -> str:
    """Return the SHA-256 of a file of notes, or of all text files of a folder with their names.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    digest = hashlib.sha256()
    is_folder = path.is_dir()
    files = sorted(p for p in path.rglob("*.txt") if p.is_file()) if is_folder else [path]
    try:
        for file in files:
            if is_folder:
                digest.update(f"{file.relative_to(path)}\0{file.stat().st_size}\0".encode())
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    if meter is not None:
                        meter.add(TOKENIZE, len(chunk))
    except OSError as error:
        raise AuditError(f"The notes cannot be read ({error.strerror}).", where="notes") from None
    return digest.hexdigest()
