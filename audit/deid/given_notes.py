"""Notes that a person gives to be scored: read in any format, checked, kept for the job.

Comes in: the bytes of one file, or of a zip archive of several. Goes out: one JSONL file with mode
600 under the digest of what is in it. Nothing is unpacked to the disk, and no name that came with
the files becomes a path.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from audit.deid.documents import TaggedDocument
from audit.deid.format_jsonl import jsonl_line
from audit.deid.formats import guess_format, read_files, read_unnamed
from audit.deid.kept_scores import scores_dir
from audit.encodings import decode_text
from audit.errors import AuditError
from audit.foreign import is_zip, json_value, refusing, zip_members
from audit.private_files import private_folder, write_whole

MAX_UPLOAD_MB = 50
MAX_UNPACKED_BYTES = 100_000_000
MAX_FILES = 50_000
MAX_NOTES = 200_000
MAX_LINES = 1_500_000
KEPT_SECONDS = 3 * 86400.0
_DIGEST = re.compile("[0-9a-f]{64}")
_FOLDER = ".given"


@dataclass(frozen=True)
class GivenNotes:
    """What is in a file that was given.

    Attributes
    ----------
    digest
        SHA-256 of the notes; the name under which they are kept.
    n_notes, n_spans
        How many there are; a model's copies have no spans yet.
    n_patients
        Different patients; 0 where the file says nothing of them.
    labels
        (label, how many spans), most frequent first: untrusted text.
    """

    digest: str
    n_notes: int
    n_spans: int
    n_patients: int
    labels: tuple[tuple[str, int], ...]


def keep_given(content: bytes, *, name: str, what: str) -> GivenNotes:
    """Read notes with spans, in any format that the name or the archive tells, and keep them.

    Parameters
    ----------
    name
        The file's own name, for its ending alone.
    what
        What to call the file in errors.

    Raises
    ------
    AuditError
        If it is not understood, holds no note, or is too large unpacked.
    """
    with refusing(AuditError("The notes cannot be understood.", where=what)):
        documents = _documents(content, name=name, what=what)
    if not documents:
        raise AuditError("There is no note in it.", where=what)
    return keep_notes(documents)


def _documents(content: bytes, *, name: str, what: str) -> tuple[TaggedDocument, ...]:
    if is_zip(content):
        return _from_archive(content, what=what)
    form = guess_format([PurePosixPath(name).name])
    _check_n_lines(content, form=form, what=what)
    if form == "brat":
        raise AuditError("brat files come in pairs.", where=what, do="Put them into a zip.")
    files = {f"{what}.txt" if form in ("inline", "i2b2") else what: _unmarked(content, what)}
    return read_files(files, form=form)


def keep_notes(documents: Sequence[TaggedDocument]) -> GivenNotes:
    """Keep notes with spans, and say what is in them."""
    data = "".join(map(jsonl_line, documents)).encode("utf-8", "surrogatepass")
    labels = Counter(span.label for document in documents for span in document.spans)
    patients = {d.patient_id for d in documents if d.patient_id is not None}
    return GivenNotes(
        _write(data), len(documents), labels.total(), len(patients), tuple(labels.most_common())
    )


def keep_outputs(content: bytes, *, what: str) -> GivenNotes:
    """Keep a model's copies of notes, in the shape that `OutputFiles` reads; the job aligns them.

    Raises
    ------
    AuditError
        If a line is no object with `doc_id` and a model's text, or there is none.
    """
    _check_n_lines(content, form="jsonl", what=what)
    text = _unmarked(content, what).decode("utf-8", "surrogatepass")
    n_notes = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        n_notes += 1
        refusal = AuditError(
            "This line has no `output`.",
            where=f"{what}, line {number}",
            do="A line is a JSON object with `doc_id` and `output`.",
        )
        record = json_value(line, refusal=refusal)
        has_output = isinstance(record, dict) and (
            isinstance(record.get("output"), str) or isinstance(record.get("outputs"), list)
        )
        if not isinstance(record, dict) or "doc_id" not in record or not has_output:
            raise refusal
    if not n_notes:
        raise AuditError("There is no note in it.", where=what)
    return GivenNotes(_write(text.encode("utf-8", "surrogatepass")), n_notes, 0, 0, ())


def given_path(digest: str) -> Path:
    """Return the file of what was given.

    Raises
    ------
    AuditError
        If it is not kept any more.
    """
    path = _folder() / f"{digest}.jsonl"
    if not _DIGEST.fullmatch(digest) or not path.is_file():
        raise AuditError(
            "The file that was given is no longer kept.", where="score", do="Choose it again."
        )
    return path


def clear_given(*, keep: Iterable[str] = ()) -> None:
    """Remove what was given days ago, but for `keep`."""
    kept = set(keep)
    for path in _folder().iterdir():
        try:
            if path.stem not in kept and time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink()
        except OSError:
            continue


def _folder() -> Path:
    return private_folder(scores_dir() / _FOLDER)


def _write(data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    write_whole(_folder() / f"{digest}.jsonl", data)
    return digest


def _unmarked(content: bytes, what: str) -> bytes:
    return decode_text(content, what=what)[0].encode("utf-8", "surrogatepass")


def _from_archive(content: bytes, *, what: str) -> tuple[TaggedDocument, ...]:
    files = dict(
        zip_members(content, where=what, max_bytes=MAX_UNPACKED_BYTES, max_files=MAX_FILES)
    )
    if not files:
        raise AuditError("There is no note in it.", where=what)
    form = guess_format(files)
    endings = {"brat": (".ann", ".txt"), "i2b2": (".xml",), "jsonl": (".jsonl",)}
    chosen = {
        name: data for name, data in files.items()
        if name.lower().endswith(endings.get(form, (".txt", ".conll", ".bio", ".iob")))
    }  # fmt: skip
    _check_n_lines(*chosen.values(), form=form, what=what)
    return read_unnamed(chosen, form=form, what=what)


def _check_n_lines(*files: bytes, form: str, what: str) -> None:
    # Counted before a line is read: a note as an object is many times as large.
    n_most = MAX_NOTES if form == "jsonl" else MAX_LINES
    if sum(data.count(b"\n") for data in files) > n_most:
        raise AuditError(f"The file has more than {n_most:,} lines.", where=what)
