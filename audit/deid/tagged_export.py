"""Files of tagged notes: the texts to hand over, and the spans in every format, as bytes.

Comes in: notes one by one. Goes out: one file, or a zip of a file each note. What a format cannot
say of a note is left out and listed in the zip's `left_out.csv`, never dropped silently.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any

from audit.deid.documents import n_overlapping
from audit.deid.format_jsonl import jsonl_line
from audit.deid.formats import flattened, write_files
from audit.deid.labels import ordered
from audit.deid.one_note import OneNote
from audit.deid.redact import FROM_TEXT, language_of
from audit.errors import AuditError
from audit.tables import write_table

RELEASED = ("text", "jsonl", "csv")
"""The texts as they may be released, under the numbers of their rows."""
PRIVATE = ("spans", "brat", "i2b2", "conll", "inline")
"""The notes as they were, with their spans."""
CENSUS = "census"
MAX_EXPORT_BYTES = 200_000_000
"""Larger sets stay on the disk: a file for a browser is made in memory."""

_FILES = {
    "text": "redacted.txt", "jsonl": "redacted.jsonl", "csv": "redacted.csv",
    "spans": "spans.jsonl", "brat": "spans-brat.zip", "i2b2": "spans-i2b2.zip",
    "conll": "spans.conll", "inline": "spans-inline.zip", CENSUS: "census.json",
}  # fmt: skip
_LEFT_OUT = "left_out.csv"
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold: the same bytes each time


def export_name(form: str, *, n_notes: int) -> str:
    """Return the name of a file; it says nothing about the notes."""
    return "redacted-texts.zip" if form == "text" and n_notes != 1 else _FILES[form]


def exported(notes: Iterable[OneNote], *, form: str, n_notes: int, language: str) -> bytes:
    """Return the file of a form.

    Parameters
    ----------
    notes
        In the order of their rows.
    form
        Of `RELEASED` or `PRIVATE`.
    n_notes
        How many there are: one text is a file, several are a zip.
    language
        Of inline tags.
    """
    if form == "text" and n_notes == 1:
        return "".join(note.released for note in notes).encode()
    if form == "jsonl":
        return b"".join(_json({"row": note.row, "text": note.released}) for note in notes)
    if form == "csv":
        rows = [(note.row, note.released) for note in notes]
        return write_table(("row", "text"), rows, bom=True).encode()
    if form == "spans":
        return b"".join(jsonl_line(note.document).encode() for note in notes)
    if form == "conll":
        return b"".join(
            content for note in notes for content in _files(note, form, language).values()
        )
    if form not in ("text", "brat", "i2b2", "inline"):
        raise ValueError(f"{form}: no such form")
    return _zip(notes, form=form, language=language)


def census_of(note: OneNote) -> dict[str, Any]:
    """Return what was counted in a single note, as the census of a set counts it.

    Counts are those after corrections by hand.
    """
    labels = ordered(span.label for span in note.document.spans)
    spans = {label: [s for s in note.document.spans if s.label == label] for label in labels}
    return {
        "n_notes": 1,
        "n_characters": len(note.document.text),
        "n_notes_without_spans": int(not note.document.spans),
        "n_replaced": len(note.replacements),
        "n_notes_of_no_language": int(not language_of(note.document.text)),
        "spans": {
            label: {"n": len(found), "n_characters": sum(span.n_chars for span in found)}
            for label, found in spans.items()
        },
        "n_notes_corrected": int(bool(note.corrections)),
    }


def census_file(census: Mapping[str, Any]) -> bytes:
    """Return a census as a file."""
    return (json.dumps(census, ensure_ascii=False, indent=1) + "\n").encode()


def _zip(notes: Iterable[OneNote], *, form: str, language: str) -> bytes:
    buffer = io.BytesIO()
    left_out: list[tuple[int, str]] = []
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as folder:
        for note in notes:
            try:
                files = _files(note, form, language)
            except AuditError as error:
                left_out.append((note.row, error.what))
                continue
            for name, content in files.items():
                _add(folder, name, content)
        if left_out:
            _add(folder, _LEFT_OUT, write_table(("row", "why"), left_out, bom=True).encode())
    return buffer.getvalue()


def _files(note: OneNote, form: str, language: str) -> dict[str, bytes]:
    if form == "text":
        return {f"note-{note.row}.txt": note.released.encode()}
    document = note.document
    if form in ("conll", "inline") and n_overlapping(document.spans):
        document = flattened(document)
    own = language_of(document.text) if language == FROM_TEXT else language
    return write_files([document], form=form, language=own)


def _add(folder: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, date_time=_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o600 << 16
    folder.writestr(entry, content)


def _json(record: Mapping[str, object]) -> bytes:
    return (json.dumps(record, ensure_ascii=False) + "\n").encode()
