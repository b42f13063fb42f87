"""Notes that a person hands in to be de-identified: several texts, or a zip of them, as one file.

Comes in: uploaded files. Goes out: JSONL that `open_notes` reads. A .txt is a note, an i2b2 .xml
is its TEXT; what stands beside a note in brat (.ann) or in the XML's tags is not looked at. Nothing
is unpacked to the disk, and no name that came with a file becomes a path.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import quote, unquote

from audit.deid.score import SCORES
from audit.deid.tag import SPANS
from audit.errors import AuditError
from audit.foreign import decode_text, is_zip, json_value, refusing, zip_members
from audit.notes.formats import (
    guess_format,
    i2b2_text,
    jsonl_line,
    read_files,
    read_unnamed,
    refuse_twice,
)
from audit.notes.read import ByteListener, Note, NoteSource, is_whole, open_notes
from audit.notes.spans import TaggedDocument
from audit.shelf import private_folder, write_whole
from audit.tables import MAX_FIELD_CHARS, RowNote

ANNOTATED_FILES_MAX_FILES = 200_000
_ENDINGS = {
    "brat": (".txt", ".ann"), "i2b2": (".xml",), "jsonl": (".jsonl",), "inline": (".txt",),
    "conll": (".conll", ".bio", ".iob"),
}  # fmt: skip
_OF_ONE_NOTE = ("brat", "i2b2", "inline")
Read = TaggedDocument | RowNote


@dataclass(frozen=True)
class AnnotatedNotes:
    """The notes of a path, read file by file; `read` is that of a `NoteSource`.

    `files` are by name of a note: its file, and that of its annotations where they lie beside it.
    """

    kind: str
    files: Mapping[str, tuple[Path, ...]]
    n_bytes: int
    what: str = "notes"

    def read(self, *, on_bytes: ByteListener = lambda n: None) -> Iterator[Note | RowNote]:
        """Go through the notes, without their annotations, and the refusals."""
        for row, one in enumerate(self.documents(on_bytes=on_bytes), start=1):
            if isinstance(one, RowNote):
                yield replace(one, row=row)
            elif not one.text.strip():
                yield RowNote(row, "The note is empty.")
            elif len(one.text) > MAX_FIELD_CHARS:
                yield RowNote(row, "The note is longer than 1 MB.")
            elif not is_whole(one.text):
                yield RowNote(row, "The note holds a NUL character or bytes outside its encoding.")
            else:
                yield Note(one.doc_id, one.patient_id or "", "", "", "", one.text, row)

    def documents(
        self, *, on_bytes: ByteListener = lambda n: None, is_strict: bool = False
    ) -> Iterator[Read]:
        """Yield the notes with their spans; what cannot be read is a refusal, or an error."""
        seen: set[str] = set()
        for number, (name, paths) in enumerate(self.files.items(), start=1):
            where = f"{self.what}, file {number}"
            try:
                found = _read(name, paths, form=self.kind, where=where)
            except AuditError as error:
                if is_strict or self.kind not in _OF_ONE_NOTE:
                    raise
                yield RowNote(number, error.what)
                continue
            finally:
                on_bytes(sum(path.stat().st_size for path in paths if path.is_file()))
            for document in found:
                refuse_twice(document.doc_id, seen, where=where)
                yield document


def notes_to_tag(path: Path) -> NoteSource | AnnotatedNotes:
    """Return the notes of a path: a table as `open_notes` reads it, or annotated notes."""
    is_table = path.suffix.lower() not in (".txt", ".xml", ".conll", ".bio", ".iob")
    return open_notes(path) if is_table and not path.is_dir() else annotated_notes(path)


def annotated_notes(path: Path, *, what: str = "notes") -> AnnotatedNotes:
    """Return the annotated notes of a folder or of one file."""
    if path.is_dir():
        found = _files_in(path)
    elif path.is_file():
        beside = path.with_suffix(".ann")
        found = [path, beside] if path.suffix == ".txt" and beside.is_file() else [path]
    else:
        raise AuditError("The file or folder is not there.", where=what)
    if len(found) > ANNOTATED_FILES_MAX_FILES:
        raise AuditError(f"There are more than {ANNOTATED_FILES_MAX_FILES:,} files.", where=what)
    top = path if path.is_dir() else path.parent
    form = _form([str(one) for one in found], what=what)
    chosen = [one for one in found if one.suffix.lower() in _ENDINGS[form]]
    files: dict[str, tuple[Path, ...]] = {}
    for one in sorted(chosen, key=lambda one: (one.suffix.lower() == ".ann", one)):
        name = unquote(one.relative_to(top).with_suffix("").as_posix())
        if one.suffix.lower() == ".ann" and name not in files:
            raise AuditError("The .txt file beside an .ann file is missing.", where=what)
        files[name] = (*files.get(name, ()), one)
    return AnnotatedNotes(form, files, sum(one.stat().st_size for one in chosen), what)


def as_jsonl(path: Path, folder: Path, *, what: str) -> Path:
    """Return a JSONL file of the notes of a path: itself, that of a tagged folder, or a new one."""
    if (path / SPANS).is_file():
        return path / SPANS
    if not path.is_dir() and path.suffix.lower() not in (".xml", ".conll", ".bio", ".iob", ".txt"):
        return path
    notes = annotated_notes(path, what=what).documents(is_strict=True)
    lines = [jsonl_line(note) for note in notes if isinstance(note, TaggedDocument)]
    made = folder / f"{what.replace(' ', '-')}.jsonl"
    write_whole(made, "".join(lines).encode("utf-8", "surrogatepass"))
    return made


def _form(names: list[str], *, what: str) -> str:
    try:
        return guess_format(names)
    except AuditError as error:
        raise AuditError(error.what, where=what, do=error.do) from None


def _files_in(folder: Path) -> list[Path]:
    # Links are not followed: a link out of the folder is not what was chosen.
    found: list[Path] = []
    for top, folders, names in os.walk(folder, followlinks=False):
        folders[:] = sorted(one for one in folders if not one.startswith("."))
        paths = (Path(top, name) for name in sorted(names) if not name.startswith("."))
        found += [path for path in paths if path.is_file() and not path.is_symlink()]
    return found


def _read(name: str, paths: tuple[Path, ...], *, form: str, where: str) -> list[TaggedDocument]:
    """Return the notes of a file; errors name its number and, where there is one, its line."""
    files: dict[str, bytes] = {}
    for path in paths:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise AuditError(f"Cannot be read ({error.strerror}).", where=where) from None
        text = decode_text(data, what=where)[0] if data else ""
        # The reader takes a note's name from its file's: the folder has to be in it.
        key = f"{quote(name, safe='')}{path.suffix.lower()}"
        files[key] = text.encode("utf-8", "surrogatepass")
    try:
        found = list(read_files(files, form=form))
    except AuditError as error:
        line = error.where.rpartition(", ")[2] if ", " in error.where else ""
        where = f"{where}, {line}" if line else where
        raise AuditError(error.what, where=where, do=error.do) from None
    inside = PurePath(name).parts
    if form in _OF_ONE_NOTE and len(inside) > 1:
        found = [replace(one, patient_id=one.patient_id or inside[0]) for one in found]
    return found


MAX_UPLOAD_MB = 50
GIVEN_NOTES_MAX_UNPACKED_BYTES = 100_000_000
GIVEN_NOTES_MAX_FILES = 50_000
MAX_NOTES = 200_000
MAX_LINES = 1_500_000
KEPT_SECONDS = 3 * 86400.0
_DIGEST = re.compile("[0-9a-f]{64}")
_FOLDER = ".given"


@dataclass(frozen=True)
class GivenNotes:
    """What is in a file that was given: spans by (label, how many), most frequent first.

    `digest` is the SHA-256 of the notes, under which they are kept; `n_patients` is 0 where the
    file says nothing of them; a model's copies have no spans yet. Labels are untrusted text.
    """

    digest: str
    n_notes: int
    n_spans: int
    n_patients: int
    labels: tuple[tuple[str, int], ...]


def keep_given(content: bytes, *, name: str, what: str) -> GivenNotes:
    """Read notes with spans, in any format that the name's ending or the archive tells; keep them.

    `what` is what to call the file in errors.
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
    """Keep a model's copies of notes as `OutputFiles` reads them; the job aligns them."""
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
    """Return the file of what was given."""
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
    return private_folder(SCORES.home() / _FOLDER)


def _write(data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    write_whole(_folder() / f"{digest}.jsonl", data)
    return digest


def _unmarked(content: bytes, what: str) -> bytes:
    return decode_text(content, what=what)[0].encode("utf-8", "surrogatepass")


def _from_archive(content: bytes, *, what: str) -> tuple[TaggedDocument, ...]:
    files = dict(
        zip_members(
            content,
            where=what,
            max_bytes=GIVEN_NOTES_MAX_UNPACKED_BYTES,
            max_files=GIVEN_NOTES_MAX_FILES,
        )
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


HANDED_IN_MAX_FILES = 20_000
MAX_HANDED_IN_BYTES = 50_000_000
HANDED_IN_MAX_UNPACKED_BYTES = 100_000_000
ENDINGS = ("txt", "xml", "ann", "zip", "jsonl", "csv")
TABLES = (".jsonl", ".csv")
_MAX_ID_CHARS = 200
_MAX_NOTE_BYTES = 8 * MAX_FIELD_CHARS
_WHERE = "notes"
Files = Sequence[tuple[str, bytes]]


def is_table(files: Files) -> bool:
    """Return whether the only file holds a note in each row."""
    n_tables = sum(_ending(name) in TABLES for name, _ in files)
    if n_tables and len(files) > 1:
        raise AuditError(
            "A table of notes was handed in with other files.", where=_WHERE, do="Hand it in alone."
        )
    return bool(n_tables)


def notes_lines(files: Files) -> bytes:
    """Return the notes of files as JSONL, in the order of the files' names.

    A note is called as its file is, without folder and ending: the released files have row numbers
    instead.
    """
    if sum(len(data) for _, data in files) > MAX_HANDED_IN_BYTES:
        raise AuditError(
            f"The files are larger than {MAX_HANDED_IN_BYTES // 1_000_000} MB together.",
            where=_WHERE,
            do="Hand them in by parts, or register their folder.",
        )
    lines = []
    for number, (name, data) in enumerate(sorted(_members(files)), start=1):
        what = f"{_WHERE}, file {number}"
        with refusing(AuditError("The file cannot be understood.", where=what, do="Take it out.")):
            text = _text(name, data, what=what)
        if text is not None:
            note_id = PurePosixPath(name).stem
            record = {"note_id": note_id if len(note_id) <= _MAX_ID_CHARS else str(number)}
            line = json.dumps(record | {"text": text}, ensure_ascii=False) + "\n"
            lines.append(line.encode("utf-8", "surrogatepass"))
    if not lines:
        raise AuditError("There is no note in it.", where=_WHERE)
    return b"".join(lines)


def _text(name: str, data: bytes, *, what: str) -> str | None:
    """Return the note of a file; None where a file only says something of another one."""
    ending = _ending(name)
    if ending == ".ann":
        return None
    if ending not in (".txt", ".xml"):
        raise AuditError("This file is neither .txt, .xml nor .ann.", where=what, do="Take it out.")
    if len(data) > _MAX_NOTE_BYTES:
        raise AuditError("The note is longer than 1 MB.", where=what, do="Take it out.")
    text = decode_text(data, what=what)[0] if data else ""
    return i2b2_text(text, what=what) if ending == ".xml" else text


def _members(files: Files) -> Iterator[tuple[str, bytes]]:
    """Yield the files, archives unpacked; raises `AuditError` where there are too many of them."""
    n_files, n_left = 0, HANDED_IN_MAX_UNPACKED_BYTES
    for name, data in files:
        is_archive = _ending(name) == ".zip"
        for member in _unpacked(data) if is_archive else ((name, data),):
            n_files += 1
            n_left -= len(member[1])
            if n_files > HANDED_IN_MAX_FILES:
                raise AuditError(
                    f"There are more than {HANDED_IN_MAX_FILES:,} files.", where=_WHERE
                )
            if n_left < 0:
                raise AuditError("The archive is too large when unpacked.", where=_WHERE)
            yield member


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    return zip_members(
        data, where=_WHERE, max_bytes=HANDED_IN_MAX_UNPACKED_BYTES, max_files=HANDED_IN_MAX_FILES
    )


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
