"""Notes that a person hands in to be de-identified: several texts, or a zip of them, as one file.

Comes in: uploaded files. Goes out: JSONL that `open_notes` reads. A .txt is a note, an i2b2 .xml
is its TEXT; what stands beside a note in brat (.ann) or in the XML's tags is not looked at. Nothing
is unpacked to the disk, and no name that came with a file becomes a path.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from audit.deid.format_i2b2 import i2b2_text
from audit.encodings import decode_text
from audit.errors import AuditError
from audit.foreign import refusing, zip_members
from audit.tables import MAX_FIELD_CHARS

MAX_FILES = 20_000
MAX_HANDED_IN_BYTES = 50_000_000
MAX_UNPACKED_BYTES = 100_000_000
ENDINGS = ("txt", "xml", "ann", "zip", "jsonl", "csv")
TABLES = (".jsonl", ".csv")
_MAX_ID_CHARS = 200
_MAX_NOTE_BYTES = 8 * MAX_FIELD_CHARS
_WHERE = "notes"
Files = Sequence[tuple[str, bytes]]


def is_table(files: Files) -> bool:
    """Return whether the only file holds a note in each row.

    Raises
    ------
    AuditError
        If such a file was handed in together with others.
    """
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

    Raises
    ------
    AuditError
        If a file is not understood, there is no note, or there are too many or too large files. A
        file is told by its number, since its name may hold a person's.
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
    n_files, n_left = 0, MAX_UNPACKED_BYTES
    for name, data in files:
        is_archive = _ending(name) == ".zip"
        for member in _unpacked(data) if is_archive else iter([(name, data)]):
            n_files += 1
            n_left -= len(member[1])
            if n_files > MAX_FILES:
                raise AuditError(f"There are more than {MAX_FILES:,} files.", where=_WHERE)
            if n_left < 0:
                raise _too_large()
            yield member


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    return zip_members(data, where=_WHERE, max_bytes=MAX_UNPACKED_BYTES, max_files=MAX_FILES)


def _too_large() -> AuditError:
    return AuditError("The archive is too large when unpacked.", where=_WHERE)


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
