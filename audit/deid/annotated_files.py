"""Annotated notes of a path: a folder of brat, i2b2 XML, CoNLL, JSONL or plain texts, or one file.

A note of a file of its own is called as the file is, with its folder and without its ending, so
that what was tagged and what was annotated meet again; the first folder is the patient. In errors a
file is told by its number, since its name may hold a person's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from urllib.parse import quote, unquote

from audit.corpora.note_streams import ByteListener, is_whole
from audit.corpora.notes import Note, NoteSource, open_notes
from audit.deid.documents import TaggedDocument
from audit.deid.format_jsonl import jsonl_line
from audit.deid.formats import guess_format, read_files
from audit.deid.pair_files import refuse_twice
from audit.deid.tag_files import SPANS
from audit.encodings import decode_text
from audit.errors import AuditError
from audit.private_files import write_whole
from audit.tables import MAX_FIELD_CHARS, RowNote

MAX_FILES = 200_000
_ENDINGS = {
    "brat": (".txt", ".ann"), "i2b2": (".xml",), "jsonl": (".jsonl",), "inline": (".txt",),
    "conll": (".conll", ".bio", ".iob"),
}  # fmt: skip
_OF_ONE_NOTE = ("brat", "i2b2", "inline")
Read = TaggedDocument | RowNote


@dataclass(frozen=True)
class AnnotatedNotes:
    """The notes of a path, read file by file; `read` is that of a `NoteSource`.

    Attributes
    ----------
    kind
        One of `audit.deid.formats.FORMATS`.
    files
        Name of a note -> its file, and that of its annotations where they lie beside it.
    n_bytes
        Of all files.
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
        """Yield the notes with their spans; what cannot be read is a refusal, or an error.

        Raises
        ------
        AuditError
            If a file of several notes is not understood; if `is_strict`, any file.
        """
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
    """Return the notes of a path: a table as `open_notes` reads it, or annotated notes.

    Raises
    ------
    AuditError
        If there is nothing readable.
    """
    is_table = path.suffix.lower() not in (".txt", ".xml", ".conll", ".bio", ".iob")
    return open_notes(path) if is_table and not path.is_dir() else annotated_notes(path)


def annotated_notes(path: Path, *, what: str = "notes") -> AnnotatedNotes:
    """Return the annotated notes of a folder or of one file.

    Raises
    ------
    AuditError
        If there is nothing, nothing that is understood, or there are too many files.
    """
    if path.is_dir():
        found = _files_in(path)
    elif path.is_file():
        beside = path.with_suffix(".ann")
        found = [path, beside] if path.suffix == ".txt" and beside.is_file() else [path]
    else:
        raise AuditError("The file or folder is not there.", where=what)
    if len(found) > MAX_FILES:
        raise AuditError(f"There are more than {MAX_FILES:,} files.", where=what)
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
    """Return a JSONL file of the notes of a path: itself, that of a tagged folder, or a new one.

    Raises
    ------
    AuditError
        If a file is not understood, or a note is there twice.
    """
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
