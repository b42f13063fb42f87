"""Readers of annotated notes: from a folder, a file, an upload to score, or uploads to tag.

One reader serves all of them: named files in any of the five formats become notes with spans; only
the texts of uploads to tag are used. Nothing is unpacked to the disk, and no name inside an upload
becomes a path.
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

from audit.deid.find.copies import Output, parse_outputs
from audit.errors import AuditError, Message
from audit.foreign import (
    decode_text,
    find_text_form,
    is_fhir,
    is_zip,
    locate_errors,
    open_regular,
    read_zip_members,
    refuse_errors,
    refuse_office_documents,
)
from audit.home import check_change_allowed, home_folder
from audit.notes.fhir import read_json_values
from audit.notes.folding import fold_document
from audit.notes.formats import format_jsonl_line, guess_format, read_text, refuse_duplicate
from audit.notes.read import ByteListener, Note, NoteSource, make_note, open_notes
from audit.notes.spans import TaggedDocument
from audit.shelf import fingerprint, json_line, private_folder, whole_file, write_whole
from audit.tables import RowNote

SPANS = "spans.jsonl"
"""The file with the notes and their spans, in a folder of tagged notes."""
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
"""The most files in an upload."""
MAX_NOTES = 200_000
MAX_LINES = 1_500_000
KEPT_SECONDS = 3 * 86400.0
Files = Sequence[tuple[str, bytes]]


@dataclass(frozen=True)
class AnnotatedNotes:
    """Annotated notes, read file by file; `read` is compatible with `NoteSource.read`.

    `files` maps the name of a note, or of several notes, to its file and the separate file of its
    annotations, if there is one. `load` returns the bytes of a file.
    """

    kind: str
    files: Mapping[str, Sequence[str]]
    load: Callable[[str], bytes]
    n_bytes: int = 0
    subject: str = "notes"

    def read(self, *, on_bytes: ByteListener = lambda n: None) -> Iterator[Note | RowNote]:
        """Yield the notes, without their annotations, and the refusals."""
        for row, document in enumerate(self.documents(on_bytes=on_bytes), start=1):
            if isinstance(document, RowNote):
                yield replace(document, row=row)
            else:
                fields = {"note_id": document.doc_id, "patient_id": document.patient_id or ""}
                is_plain = self.kind != "inline"
                yield make_note(fields | {"text": document.text}, row=row, is_plain=is_plain)

    def read_all(self) -> list[TaggedDocument]:
        """Return the notes with their spans; AuditError if there are none, or one is unreadable."""
        notes = self.documents(is_strict=True)
        return [note for note in notes if isinstance(note, TaggedDocument)]

    def documents(
        self, *, on_bytes: ByteListener = lambda n: None, is_strict: bool = False
    ) -> Iterator[TaggedDocument | RowNote]:
        """Yield the notes with their spans; unreadable notes are refusals, or errors if strict."""
        doc_ids: set[str] = set()
        for number, name in enumerate(self.files, start=1):
            place = Message("{subject}, file {number}", subject=self.subject, number=number)
            try:
                documents = self._read(name, place=place, on_bytes=on_bytes)
            except AuditError as error:
                if is_strict or self.kind not in _OF_ONE_NOTE or len(self.files) == 1:
                    raise
                yield RowNote(number, error.what)
                continue
            for document in documents:
                refuse_duplicate(document.doc_id, doc_ids, place=place)
                yield document
        if is_strict and not doc_ids:
            raise AuditError("There is no note in it.", where=place)

    def _read(self, name: str, *, place: str, on_bytes: ByteListener) -> list[TaggedDocument]:
        """Return the notes of a file; errors name its number and, if known, the line."""
        texts = []
        for file in self.files[name]:
            with locate_errors(place):
                content = self.load(file)
            on_bytes(len(content))
            texts.append(decode_text(content, subject=place)[0] if content else "")
        text, marks = [*texts, ""][:2]
        form = find_text_form(text, subject=place) if self.kind in ("inline", "i2b2") else "plain"
        notes = [*read_text(text, form=self.kind, doc_id=name, subject=place, annotations=marks)]
        # A web page or FHIR stays as it is until it is tagged, unless it has inline tags.
        if self.kind == "inline" and form != "plain" and not any(note.spans for note in notes):
            notes = [TaggedDocument(name, text)]
        return (
            list(map(self._with_folder_as_patient, notes)) if self.kind in _OF_ONE_NOTE else notes
        )

    def _with_folder_as_patient(self, note: TaggedDocument) -> TaggedDocument:
        """Return a note whose patient, if missing, is the first folder in its name."""
        folder, slash, _ = note.doc_id.partition("/")
        return replace(note, patient_id=note.patient_id or folder) if slash else note


def _group_files(
    names: Iterable[str], load: Callable[[str], bytes], *, subject: str, is_flat: bool = False
) -> AnnotatedNotes:
    """Group files into notes; names of notes include folders unless `is_flat`."""
    names = sorted(names, key=lambda name: (name.lower().endswith(".ann"), PurePosixPath(name)))
    try:
        form = guess_format(names)
    except AuditError as error:
        _refuse_document(names, load, subject=subject)
        raise AuditError(error.what, where=subject, do=error.do) from None
    is_short = is_flat and form in _OF_ONE_NOTE
    files: dict[str, list[str]] = {}
    file_names: set[str] = set()
    for file in names:
        path = PurePosixPath(file)
        ending = path.suffix.lower()
        if ending in _ENDINGS[form]:
            name = unquote(path.stem if is_short else path.with_suffix("").as_posix())
            if ending == ".ann" and name not in files:
                raise AuditError("The .txt file beside an .ann file is missing.", where=subject)
            refuse_duplicate(name + ending, file_names, place=subject)
            files.setdefault(name, []).append(file)
    return AnnotatedNotes(form, files, load, subject=subject)


def _refuse_document(names: Sequence[str], load: Callable[[str], bytes], *, subject: str) -> None:
    """Refuse files with an unknown ending by the form of the first of them, if it is known."""
    for name in names[:1]:
        with locate_errors(subject):
            head = load(name)[:_HEAD_BYTES]
        refuse_office_documents(head, subject=subject)
        find_text_form(head.decode("utf-8", "replace"), subject=subject)


def annotated_notes(path: Path, *, subject: str = "notes") -> AnnotatedNotes:
    """Return the annotated notes of a folder or of one file."""
    top = path if path.is_dir() else path.parent
    if path.is_dir():
        paths = list(_files_in(path))
    elif path.is_file():
        annotation_file = path.with_suffix(".ann")
        paths = (
            [path, annotation_file]
            if path.suffix == ".txt" and annotation_file.is_file()
            else [path]
        )
    else:
        raise AuditError("The file or folder is not there.", where=subject)
    names = [file.relative_to(top).as_posix() for file in paths]
    notes = _group_files(names, lambda name: (top / name).read_bytes(), subject=subject)
    note_files = [top / file for files in notes.files.values() for file in files]
    return replace(notes, n_bytes=sum(file.stat().st_size for file in note_files))


def read_paths(paths: Iterable[Path], *, subject: str) -> Iterator[TaggedDocument]:
    """Yield the notes of folders or files with their spans, folded, as taggers read them.

    Raises AuditError if a file has no note.
    """
    for path in paths:
        yield from map(fold_document, annotated_notes(path, subject=subject).read_all())


def _files_in(folder: Path) -> Iterator[Path]:
    # Links are not followed: a link may lead out of the folder that was chosen.
    for top, folders, names in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = (Path(top, name) for name in names if not name.startswith("."))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())


def _is_annotated(path: Path) -> bool:
    return path.is_dir() or path.suffix.lower() in (".txt", ".html", ".htm", ".xml", *_CONLL)


def check_lone_note(text: str) -> Note:
    """Return a pasted or uploaded text as a note; AuditError if it is not valid."""
    note = make_note({"text": text}, row=1)
    if isinstance(note, RowNote):
        raise AuditError(note.what, where="notes")
    return note


def notes_to_tag(path: Path) -> NoteSource | AnnotatedNotes:
    """Return the notes of a path: a table or FHIR, read by `open_notes`, or annotated notes."""
    return annotated_notes(path) if _is_annotated(path) and not _is_fhir(path) else open_notes(path)


def _is_fhir(path: Path) -> bool:
    """Whether a path is a text with FHIR, or a folder whose only readable files are FHIR."""
    if path.is_dir():
        endings = {file.suffix.lower() for file in _files_in(path)}
        return not endings.isdisjoint(FHIR_ENDINGS) and endings.isdisjoint(_READ_ENDINGS)
    if path.suffix.lower() != ".txt":
        return False
    with locate_errors("notes"), open_regular(path) as file:
        return is_fhir(file.read(_HEAD_BYTES).decode("utf-8", "replace"))


@dataclass(frozen=True)
class UploadedNotes:
    """The content of an upload; `labels` are (label, number of spans), most frequent first.

    `digest` is the SHA-256 of the notes, under which they are kept. `n_patients` is 0 if the file
    names no patients. The copies of a model have no spans yet. Labels are untrusted text.
    """

    digest: str
    n_notes: int
    n_spans: int = 0
    n_patients: int = 0
    labels: tuple[tuple[str, int], ...] = ()


def keep_upload(content: bytes, *, name: str, subject: str) -> UploadedNotes:
    """Read notes with spans, in the format of the file's ending or of the archive, and keep them.

    `subject` is the name of the file in errors.
    """
    return keep_notes(_read_upload([(name, content)], subject=subject, is_flat=True))


def _read_upload(files: Files, *, subject: str, is_flat: bool) -> list[TaggedDocument]:
    """Return the notes of an upload; unless `is_flat`, all its files must have one form."""
    with refuse_errors(AuditError("The notes cannot be understood.", where=subject)):
        members = dict(_unpack_members(files, subject=subject))
        notes = _group_files(members, members.__getitem__, subject=subject, is_flat=is_flat)
        if not is_flat and sum(map(len, notes.files.values())) < len(members):
            raise AuditError(
                "These files are not of one form.", where=subject, do="Hand in those of one form."
            )
        n_most = MAX_NOTES if notes.kind == "jsonl" else MAX_LINES
        _check_n_lines(members.values(), n_most=n_most, subject=subject)
        return notes.read_all()


def keep_path(path: Path, *, subject: str) -> str:
    """Keep the annotated notes of a path or of a folder of `deid tag`; return their digest.

    JSONL is kept as it is, whatever its size.
    """
    path = path / SPANS if (path / SPANS).is_file() else path
    if _is_annotated(path):
        return keep_notes(annotated_notes(path, subject=subject).read_all()).digest
    with locate_errors(subject):
        digest = fingerprint(path)
        with open_regular(path) as source, whole_file(_folder() / f"{digest}.jsonl") as copy:
            shutil.copyfileobj(source, copy)
    return digest


def keep_notes(documents: Sequence[TaggedDocument]) -> UploadedNotes:
    """Keep notes with spans, and return their counts."""
    digest = _keep_text("".join(map(format_jsonl_line, documents)))
    labels = Counter(span.label for document in documents for span in document.spans)
    n_patients = len({d.patient_id for d in documents} - {None})
    n_notes, ordered = len(documents), tuple(labels.most_common())
    return UploadedNotes(digest, n_notes, labels.total(), n_patients, ordered)


def keep_outputs(content: bytes, *, subject: str) -> UploadedNotes:
    """Keep a model's copies of notes in the form that `align_outputs` reads; a job aligns them."""
    text, outputs = decode_outputs(content, subject=subject)
    return UploadedNotes(_keep_text(text), len(outputs))


def decode_outputs(content: bytes, *, subject: str) -> tuple[str, dict[str, Output]]:
    """Return an uploaded file of copies as text, and the copies in it, as in `parse_outputs`."""
    _check_n_lines([content], n_most=MAX_NOTES, subject=subject)
    text, _ = decode_text(content, subject=subject)
    lines = ((n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip())
    return text, parse_outputs(lines, subject=subject)


def upload_path(digest: str) -> Path:
    """Return the file of a kept upload."""
    path = _folder() / f"{digest}.jsonl"
    if not re.fullmatch("[0-9a-f]{64}", digest) or not path.is_file():
        raise AuditError(
            "The file that was given is no longer kept.", where="score", do="Choose it again."
        )
    return path


def clear_uploads(*, keep: Iterable[str] = ()) -> None:
    """Remove old uploads, except those with the digests `keep`."""
    kept_digests = set(keep)
    for path in _folder().iterdir():
        try:
            if path.stem not in kept_digests and time.time() - path.stat().st_mtime > KEPT_SECONDS:
                path.unlink()
        except OSError:
            continue


def _folder() -> Path:
    return private_folder(home_folder("scores") / ".given")


def _keep_text(text: str) -> str:
    check_change_allowed()
    content = text.encode("utf-8", "surrogatepass")
    digest = hashlib.sha256(content).hexdigest()
    write_whole(_folder() / f"{digest}.jsonl", content)
    return digest


def _check_n_lines(files: Iterable[bytes], *, n_most: int, subject: str) -> None:
    # Lines are counted before any is parsed: a note as an object takes many times the memory.
    if sum(content.count(b"\n") for content in files) > n_most:
        raise AuditError("The file has more than {n_most:,} lines.", where=subject, n_most=n_most)


def _unpack_members(files: Files, *, subject: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an upload, with archives unpacked; AuditError if there are too many."""
    n_files, n_left = 0, MAX_UNPACKED_BYTES
    for name, content in files:
        unpacked: Iterable[tuple[str, bytes]] = ((name, content),)
        refuse_office_documents(content, subject=subject)
        if is_zip(content):
            unpacked = read_zip_members(
                content, place=subject, max_bytes=n_left, max_files=MAX_FILES
            )
        for member in unpacked:
            n_files += 1
            n_left -= len(member[1])
            if n_files > MAX_FILES:
                raise AuditError(
                    "There are more than {max_files:,} files.", where=subject, max_files=MAX_FILES
                )
            if n_left < 0:
                raise AuditError("The archive is too large when unpacked.", where=subject)
            yield member


ENDINGS = ("txt", "xml", "ann", "zip", "jsonl", "csv", "html", "htm", "json", "ndjson")
"""The endings of files that can be uploaded to be tagged."""


def notes_as_jsonl(files: Files) -> bytes:
    """Return the notes of files of one form as JSONL, in the order of the files' names.

    Only the texts of annotated notes are used. A note has the name of its file, and its first
    folder is the patient; released files have row numbers instead. Files of FHIR become one file
    with one JSON value a line.
    """
    if sum(len(content) for _, content in files) > MAX_UPLOAD_MB * 1_000_000:
        raise AuditError(
            "The files are larger than {max_upload_mb} MB together.",
            where="notes",
            do="Hand them in by parts, or register their folder.",
            max_upload_mb=MAX_UPLOAD_MB,
        )
    if lines := _fhir_as_jsonl(files):
        return lines
    notes = _read_upload(files, subject="notes", is_flat=False)
    return b"".join(
        json_line({"note_id": note.doc_id, "patient_id": note.patient_id or "", "text": note.text})
        for note in notes
    )


def _fhir_as_jsonl(files: Files) -> bytes:
    """Return files of FHIR in JSON as one file; empty if any file has another form."""
    with refuse_errors(AuditError("The notes cannot be understood.", where="notes")):
        members = sorted(_unpack_members(files, subject="notes"))
        if not all(name.lower().endswith(FHIR_ENDINGS) for name, _ in members):
            return b""
        lines: list[bytes] = []
        for number, (_, content) in enumerate(members, start=1):
            place = Message("{subject}, file {number}", subject="notes", number=number)
            text, _ = decode_text(content, subject=place)
            if not is_fhir(text):
                raise AuditError("There is no FHIR resource in the file.", where=place)
            resources = read_json_values(io.StringIO(text, newline="\n"))
            lines += (
                json_line(resource) for resource in resources if not isinstance(resource, RowNote)
            )
        return b"".join(lines)
