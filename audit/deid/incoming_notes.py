"""Annotated notes that come in: a folder or a file, an upload to be scored, uploads to be tagged.

One reader for all: files by name, in any of the five formats, become notes with spans; of uploads
to be tagged the texts alone are taken. Nothing is unpacked to the disk, and no name that came with
an upload becomes a path.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from audit.deid.copies import OutputLine, json_line
from audit.errors import AuditError, Message
from audit.foreign import (
    decode_text,
    is_fhir,
    is_zip,
    open_regular,
    reading,
    refuse_office_documents,
    refusing,
    text_form,
    zip_members,
)
from audit.home import changing, home_folder
from audit.notes.fhir import read_json_values
from audit.notes.folding import fold_document
from audit.notes.formats import format_jsonl_line, guess_format, read_text, refuse_duplicate
from audit.notes.read import ByteListener, Note, NoteSource, make_note, open_notes
from audit.notes.spans import TaggedDocument
from audit.shelf import fingerprint, private_folder, whole_file, write_whole
from audit.tables import RowNote

SPANS = "spans.jsonl"
"""The notes with their spans, of a folder of tagged notes."""
_CONLL = (".conll", ".bio", ".iob")
_ENDINGS = {
    "brat": (".txt", ".ann"),
    "i2b2": (".xml",),
    "jsonl": (".jsonl",),
    "inline": (".txt", ".html", ".htm"),
    "conll": _CONLL,
}
_READ_ENDINGS = frozenset(ending for endings in _ENDINGS.values() for ending in endings)
FHIR_ENDINGS = (".json", ".ndjson")
_HEAD_BYTES = 1 << 16
_OF_ONE_NOTE = ("brat", "i2b2", "inline")
MAX_UPLOAD_MB = 50
MAX_UNPACKED_BYTES = 100_000_000
MAX_FILES = 50_000
"""Of an upload."""
MAX_NOTES = 200_000
MAX_LINES = 1_500_000
KEPT_SECONDS = 3 * 86400.0
Files = Sequence[tuple[str, bytes]]


@dataclass(frozen=True)
class AnnotatedNotes:
    """Annotated notes, read file by file; `read` is that of a `NoteSource`.

    `files` are by name of a note, or of several: its file, and that of its annotations where they
    lie beside it; `load` gives their bytes.
    """

    kind: str
    files: Mapping[str, Sequence[str]]
    load: Callable[[str], bytes]
    n_bytes: int = 0
    what: str = "notes"

    def read(self, *, on_bytes: ByteListener = lambda n: None) -> Iterator[Note | RowNote]:
        """Go through the notes, without their annotations, and the refusals."""
        for row, one in enumerate(self.documents(on_bytes=on_bytes), start=1):
            if isinstance(one, RowNote):
                yield replace(one, row=row)
            else:
                fields = {"note_id": one.doc_id, "patient_id": one.patient_id or ""}
                is_plain = self.kind != "inline"
                yield make_note(fields | {"text": one.text}, row=row, is_plain=is_plain)

    def all(self) -> list[TaggedDocument]:
        """Return the notes with their spans; AuditError if there is none, or one cannot be read."""
        notes = self.documents(is_strict=True)
        return [one for one in notes if isinstance(one, TaggedDocument)]

    def documents(
        self, *, on_bytes: ByteListener = lambda n: None, is_strict: bool = False
    ) -> Iterator[TaggedDocument | RowNote]:
        """Yield the notes with their spans; what cannot be read is a refusal, or an error."""
        seen: set[str] = set()
        for number, name in enumerate(self.files, start=1):
            where = Message("{subject}, file {number}", subject=self.what, number=number)
            try:
                found = self._read(name, where=where, on_bytes=on_bytes)
            except AuditError as error:
                if is_strict or self.kind not in _OF_ONE_NOTE or len(self.files) == 1:
                    raise
                yield RowNote(number, error.what)
                continue
            for document in found:
                refuse_duplicate(document.doc_id, seen, place=where)
                yield document
        if is_strict and not seen:
            raise AuditError("There is no note in it.", where=where)

    def _read(self, name: str, *, where: str, on_bytes: ByteListener) -> list[TaggedDocument]:
        """Return the notes of a file; errors name its number and, where there is one, its line."""
        texts = []
        for file in self.files[name]:
            with reading(where):
                data = self.load(file)
            on_bytes(len(data))
            texts.append(decode_text(data, what=where)[0] if data else "")
        text, marks = [*texts, ""][:2]
        form = text_form(text, what=where) if self.kind in ("inline", "i2b2") else "plain"
        found = [*read_text(text, form=self.kind, doc_id=name, subject=where, annotations=marks)]
        # A web page or FHIR stays as it is until it is tagged, unless somebody put tags into it.
        if self.kind == "inline" and form != "plain" and not any(one.spans for one in found):
            found = [TaggedDocument(name, text)]
        return list(map(self._of_folder, found)) if self.kind in _OF_ONE_NOTE else found

    def _of_folder(self, note: TaggedDocument) -> TaggedDocument:
        """Return a note with the first folder of its name as the patient, if it has none."""
        folder, slash, _ = note.doc_id.partition("/")
        return replace(note, patient_id=note.patient_id or folder) if slash else note


def _annotated(
    names: Iterable[str], load: Callable[[str], bytes], *, what: str, is_flat: bool = False
) -> AnnotatedNotes:
    """Return the notes of files; their folders are in their names unless `is_flat`."""
    names = sorted(names, key=lambda name: (name.lower().endswith(".ann"), PurePosixPath(name)))
    try:
        form = guess_format(names)
    except AuditError as error:
        _refuse_document(names, load, what=what)
        raise AuditError(error.what, where=what, do=error.do) from None
    is_short = is_flat and form in _OF_ONE_NOTE
    files: dict[str, list[str]] = {}
    seen: set[str] = set()
    for file in names:
        path = PurePosixPath(file)
        ending = path.suffix.lower()
        if ending in _ENDINGS[form]:
            name = unquote(path.stem if is_short else path.with_suffix("").as_posix())
            if ending == ".ann" and name not in files:
                raise AuditError("The .txt file beside an .ann file is missing.", where=what)
            refuse_duplicate(name + ending, seen, place=what)
            files.setdefault(name, []).append(file)
    return AnnotatedNotes(form, files, load, what=what)


def _refuse_document(names: Sequence[str], load: Callable[[str], bytes], *, what: str) -> None:
    """Refuse files of an unknown ending by what the first of them is, if it is known."""
    for name in names[:1]:
        with reading(what):
            head = load(name)[:_HEAD_BYTES]
        refuse_office_documents(head, what=what)
        text_form(head.decode("utf-8", "replace"), what=what)


def annotated_notes(path: Path, *, what: str = "notes") -> AnnotatedNotes:
    """Return the annotated notes of a folder or of one file."""
    top = path if path.is_dir() else path.parent
    if path.is_dir():
        found = list(_files_in(path))
    elif path.is_file():
        beside = path.with_suffix(".ann")
        found = [path, beside] if path.suffix == ".txt" and beside.is_file() else [path]
    else:
        raise AuditError("The file or folder is not there.", where=what)
    names = [one.relative_to(top).as_posix() for one in found]
    notes = _annotated(names, lambda name: (top / name).read_bytes(), what=what)
    read = [top / file for files in notes.files.values() for file in files]
    return replace(notes, n_bytes=sum(one.stat().st_size for one in read))


def notes_of_paths(paths: Iterable[Path], *, what: str) -> Iterator[TaggedDocument]:
    """Yield the notes of folders or files with their spans, folded, as taggers read them.

    Raises AuditError where a file has none.
    """
    for path in paths:
        yield from map(fold_document, annotated_notes(path, what=what).all())


def _files_in(folder: Path) -> Iterator[Path]:
    # Links are not followed: a link out of the folder is not what was chosen.
    for top, folders, names in os.walk(folder, followlinks=False):
        folders[:] = [one for one in folders if not one.startswith(".")]
        paths = (Path(top, name) for name in names if not name.startswith("."))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _is_annotated(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in (".txt", ".html", ".htm", ".xml", *_CONLL)


def whole_note(text: str) -> Note:
    """Return a text that was pasted, or handed in alone; AuditError where it is no note."""
    found = make_note({"text": text}, row=1)
    if isinstance(found, RowNote):
        raise AuditError(found.what, where="notes")
    return found


def notes_to_tag(path: Path) -> NoteSource | AnnotatedNotes:
    """Return the notes of a path: a table or FHIR as `open_notes` reads it, or annotated notes."""
    return annotated_notes(path) if _is_annotated(path) and not _is_fhir(path) else open_notes(path)


def _is_fhir(path: Path) -> bool:
    """Whether a path is a text that holds FHIR, or a folder with nothing else that is read."""
    if path.is_dir():
        endings = {one.suffix.lower() for one in _files_in(path)}
        return not endings.isdisjoint(FHIR_ENDINGS) and endings.isdisjoint(_READ_ENDINGS)
    if path.suffix.lower() != ".txt":
        return False
    with reading("notes"), open_regular(path) as file:
        return is_fhir(file.read(_HEAD_BYTES).decode("utf-8", "replace"))


@dataclass(frozen=True)
class GivenNotes:
    """What is in a file that was given: spans by (label, how many), most frequent first.

    `digest` is the SHA-256 of the notes, under which they are kept; `n_patients` is 0 where the
    file says nothing of them; a model's copies have no spans yet. Labels are untrusted text.
    """

    digest: str
    n_notes: int
    n_spans: int = 0
    n_patients: int = 0
    labels: tuple[tuple[str, int], ...] = ()


def keep_given(content: bytes, *, name: str, what: str) -> GivenNotes:
    """Read notes with spans, in any format that the name's ending or the archive tells; keep them.

    `what` is what to call the file in errors.
    """
    return keep_notes(_understood([(name, content)], what=what, is_flat=True))


def _understood(files: Files, *, what: str, is_flat: bool) -> list[TaggedDocument]:
    """Return the notes of an upload; without `is_flat` no file of it may be of another form."""
    with refusing(AuditError("The notes cannot be understood.", where=what)):
        members = dict(_members(files, what=what))
        notes = _annotated(members, members.__getitem__, what=what, is_flat=is_flat)
        if not is_flat and sum(map(len, notes.files.values())) < len(members):
            raise AuditError(
                "These files are not of one form.", where=what, do="Hand in those of one form."
            )
        n_most = MAX_NOTES if notes.kind == "jsonl" else MAX_LINES
        _check_n_lines(members.values(), n_most=n_most, what=what)
        return notes.all()


def keep_path(path: Path, *, what: str) -> str:
    """Keep annotated notes of a path, a folder of `deid tag` among them; returns their digest.

    JSONL is kept as it is, whatever its size.
    """
    path = path / SPANS if (path / SPANS).is_file() else path
    if _is_annotated(path):
        return keep_notes(annotated_notes(path, what=what).all()).digest
    with reading(what):
        digest = fingerprint(path)
        with open_regular(path) as source, whole_file(_folder() / f"{digest}.jsonl") as copy:
            shutil.copyfileobj(source, copy)
    return digest


def keep_notes(documents: Sequence[TaggedDocument]) -> GivenNotes:
    """Keep notes with spans, and say what is in them."""
    digest = _kept("".join(map(format_jsonl_line, documents)))
    labels = Counter(span.label for document in documents for span in document.spans)
    n_patients = len({d.patient_id for d in documents} - {None})
    n_notes, ordered = len(documents), tuple(labels.most_common())
    return GivenNotes(digest, n_notes, labels.total(), n_patients, ordered)


def keep_outputs(content: bytes, *, what: str) -> GivenNotes:
    """Keep a model's copies of notes as `align_outputs` reads them; the job aligns them."""
    _check_n_lines([content], n_most=MAX_NOTES, what=what)
    text, _ = decode_text(content, what=what)
    n_notes = 0
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = Message("{subject}, line {number}", subject=what, number=number)
            OutputLine.read(line, where=where)
            n_notes += 1
    if not n_notes:
        raise AuditError("There is no note in it.", where=what)
    return GivenNotes(_kept(text), n_notes)


def given_path(digest: str) -> Path:
    """Return the file of what was given."""
    path = _folder() / f"{digest}.jsonl"
    if not re.fullmatch("[0-9a-f]{64}", digest) or not path.is_file():
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
    return private_folder(home_folder("scores") / ".given")


def _kept(text: str) -> str:
    changing()
    data = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(data).hexdigest()
    write_whole(_folder() / f"{digest}.jsonl", data)
    return digest


def _check_n_lines(files: Iterable[bytes], *, n_most: int, what: str) -> None:
    # Counted before a line is read: a note as an object is many times as large.
    if sum(data.count(b"\n") for data in files) > n_most:
        raise AuditError("The file has more than {n_most:,} lines.", where=what, n_most=n_most)


def _members(files: Files, *, what: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an upload, archives unpacked; AuditError where there are too many."""
    n_files, n_left = 0, MAX_UNPACKED_BYTES
    for name, data in files:
        unpacked: Iterable[tuple[str, bytes]] = ((name, data),)
        refuse_office_documents(data, what=what)
        if is_zip(data):
            unpacked = zip_members(data, where=what, max_bytes=n_left, max_files=MAX_FILES)
        for member in unpacked:
            n_files += 1
            n_left -= len(member[1])
            if n_files > MAX_FILES:
                raise AuditError(
                    "There are more than {max_files:,} files.", where=what, max_files=MAX_FILES
                )
            if n_left < 0:
                raise AuditError("The archive is too large when unpacked.", where=what)
            yield member


ENDINGS = ("txt", "xml", "ann", "zip", "jsonl", "csv", "html", "htm", "json", "ndjson")
"""Of files that are handed in to be tagged."""


def notes_lines(files: Files) -> bytes:
    """Return the notes of files of one form as JSONL, in the order of the files' names.

    Of annotated notes the texts alone. A note is called as its file, its first folder is the
    patient; the released files have row numbers instead. Files of FHIR become one of a JSON a line.
    """
    if sum(len(data) for _, data in files) > MAX_UPLOAD_MB * 1_000_000:
        raise AuditError(
            "The files are larger than {max_upload_mb} MB together.",
            where="notes",
            do="Hand them in by parts, or register their folder.",
            max_upload_mb=MAX_UPLOAD_MB,
        )
    if lines := _fhir_lines(files):
        return lines
    notes = _understood(files, what="notes", is_flat=False)
    return b"".join(
        json_line({"note_id": one.doc_id, "patient_id": one.patient_id or "", "text": one.text})
        for one in notes
    )


def _fhir_lines(files: Files) -> bytes:
    """Return files of FHIR in JSON as one; empty where a file is of another form."""
    with refusing(AuditError("The notes cannot be understood.", where="notes")):
        members = sorted(_members(files, what="notes"))
        if not all(name.lower().endswith(FHIR_ENDINGS) for name, _ in members):
            return b""
        lines: list[bytes] = []
        for number, (_, data) in enumerate(members, start=1):
            where = Message("{subject}, file {number}", subject="notes", number=number)
            text, _ = decode_text(data, what=where)
            if not is_fhir(text):
                raise AuditError("There is no FHIR resource in the file.", where=where)
            values = read_json_values(io.StringIO(text, newline="\n"))
            lines += (json_line(one) for one in values if not isinstance(one, RowNote))
        return b"".join(lines)
