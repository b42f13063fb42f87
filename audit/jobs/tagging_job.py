"""The job "tagging": a tagger marks notes and takes out what it found, asked for by pages.

Comes in: an order of plain values, and a folder of a tagged set that was begun. Goes out: the
identifier of the set. Asking is torch-free and reads at most what was handed in.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.corpora.notes import open_notes
from audit.curation.note_files import resolve_note_file
from audit.deid.handed_in import Files, is_table, notes_lines
from audit.deid.kept_tagged import (
    INPUT,
    RESULT,
    ReleaseSettings,
    TaggedSet,
    begin_set,
    forget_set,
    set_folder,
    tagged_set,
)
from audit.deid.known_taggers import KnownTagger, load_tagger
from audit.deid.tag_files import tag_notes
from audit.deid.tagged_index import write_index
from audit.encodings import decode_text
from audit.errors import AuditError
from audit.home import salted_digest
from audit.jobs import table
from audit.jobs.contact import Contact
from audit.jobs.job import Job
from audit.jobs.locks import SHORT, queue_of
from audit.jobs.question import Question
from audit.request import question_digest
from audit.tables import MAX_FIELD_CHARS

KIND = "tagging"
_N_DIGITS = 12
_SHORT_BYTES = {"quick": 2_000_000, "combined": 400_000, "token": 400_000}
"""Notes handed in up to here run beside an audit: a token classifier reads 1,400 characters a
second on a CPU that is shared. A tagger that writes copies needs the device alone."""


@dataclass(frozen=True)
class NotesToTag:
    """The notes of a question: handed in, or a file of the list.

    Parameters
    ----------
    source
        One of `audit.deid.kept_tagged.SOURCES`.
    given
        Bytes that `open_notes` reads; None for a registered file.
    file_id
        Of a registered file; "" where notes were handed in.
    columns
        (field of a note, name of its column), where a person said so.

    Raises
    ------
    ValueError
        If neither or both are given.
    """

    source: str
    given: bytes | None = None
    file_id: str = ""
    columns: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check that there is one source, once."""
        if (self.given is None) == (not self.file_id):
            raise ValueError("give notes or a file, one of the two")


def one_text(text: str, *, source: str) -> NotesToTag:
    """Return a text as the only note of a question.

    Raises
    ------
    AuditError
        If it is empty or too long for a note.
    """
    if not text.strip():
        raise AuditError("The note is empty.", where="notes")
    if len(text) > MAX_FIELD_CHARS:
        raise AuditError("The note is longer than 1 MB.", where="notes")
    line = json.dumps({"note_id": "1", "text": text}, ensure_ascii=False) + "\n"
    return NotesToTag(source, given=line.encode("utf-8", "surrogatepass"))


def uploaded(files: Files) -> NotesToTag:
    """Return uploaded files as the notes of a question.

    One .jsonl or .csv has a note in each row; of .txt, i2b2 .xml and brat files, or a .zip of
    them, each is a note.

    Parameters
    ----------
    files
        (name, bytes) of each; of a name only the ending decides.

    Raises
    ------
    AuditError
        As `audit.deid.handed_in.notes_lines`, or if an only text is empty or too long.
    """
    if is_table(files):
        return NotesToTag("uploaded", given=files[0][1])
    if len(files) == 1 and files[0][0].lower().endswith(".txt"):
        text, _ = decode_text(files[0][1], what="notes")
        return one_text(text, source="uploaded")
    return NotesToTag("uploaded", given=notes_lines(files))


def tagging_question(
    notes: NotesToTag, *, tagger: KnownTagger, how: ReleaseSettings, title: str = ""
) -> Question:
    """Return a question of the table; the folder of its set is made, with the notes handed in.

    The same notes, tagger and replacement are one question and one set, whatever its title.

    Raises
    ------
    AuditError
        If the notes cannot be read, or the folder cannot be written.
    """
    tagged_id = tagged_id_of(notes, tagger=tagger, how=how)
    is_new = not set_folder(tagged_id).is_dir()
    begun = begin_set(
        tagged_id, source=notes.source, tagger_id=tagger.tagger_id, tagger_digest=tagger.digest,
        how=how, title=title, given=notes.given,
    )  # fmt: skip
    is_short = _is_short(notes, tagger=tagger)
    order = {
        "tagged_id": tagged_id, "file_id": notes.file_id, "columns": [*map(list, notes.columns)],
        "device": "cpu" if is_short else "auto",
    }  # fmt: skip
    if not begun.is_whole:
        try:
            open_notes(_path_of(order), columns=dict(notes.columns))
        except AuditError:
            if is_new:
                forget_set(tagged_id)
            raise
    return Question(
        kind=KIND,
        label=tagger.tagger_id,
        scenario=0,
        device=SHORT if is_short else "cpu" if tagger.is_quick else queue_of("auto"),
        digest=_digest_of(tagged_id),
        audits=(),
        order=order,
    )


def tagged_id_of(notes: NotesToTag, *, tagger: KnownTagger, how: ReleaseSettings) -> str:
    """Return the identifier of the set that a question makes; salted, since a text can be guessed.

    Raises
    ------
    AuditError
        If a registered file is not there.
    """
    question = {
        "notes": _identity(notes),
        "columns": dict(notes.columns),
        "tagger": tagger.digest,
        "how": how.decisive(),
    }
    return salted_digest(f"{KIND} {question_digest(question)}")[:_N_DIGITS]


def active_tagging(tagged_id: str) -> Job | None:
    """Return the job that is at work on a set just now."""
    return table.active(_digest_of(tagged_id))


def answer_tagging(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Tag the notes of a set, or go on with it; returns its identifier."""
    tagged_id = str(order["tagged_id"])
    tagged = tagged_set(tagged_id)
    if not tagged.is_whole:
        if not (tagged.path / RESULT).is_dir():
            _tag(tagged, order, contact)
        write_index(tagged.path, should_stop=contact.should_stop)
    (tagged.path / INPUT).unlink(missing_ok=True)  # what was handed in stands in the result
    return (tagged_id,)


def _tag(tagged: TaggedSet, order: Mapping[str, Any], contact: Contact) -> None:
    columns = dict(order["columns"])
    source = open_notes(_path_of(order), columns=columns)
    tagger = load_tagger(tagged.tagger_id, device=order.get("device", "auto"))
    if tagger.digest != tagged.tagger_digest:
        raise AuditError(
            "The tagger is not the one that was asked for any more.",
            where="tagger",
            do="Ask again.",
        )
    tag_notes(
        source,
        tagger=tagger,
        out=tagged.path / RESULT,
        release=tagged.how.release(),
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
    )


def _is_short(notes: NotesToTag, *, tagger: KnownTagger) -> bool:
    """Whether tagging takes minutes at most on any CPU, and little memory: it need not wait."""
    most = _SHORT_BYTES.get("quick" if tagger.is_quick else tagger.kind, 0)
    return notes.given is not None and len(notes.given) <= most


def _path_of(order: Mapping[str, Any]) -> Path:
    if order["file_id"]:
        return resolve_note_file(order["file_id"])
    path = set_folder(order["tagged_id"]) / INPUT
    if not path.is_file():
        raise AuditError("The notes that were handed in are gone.", where="notes", do="Ask again.")
    return path


def _identity(notes: NotesToTag) -> object:
    if notes.given is not None:
        return hashlib.sha256(notes.given).hexdigest()
    path = resolve_note_file(notes.file_id)
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="notes") from None
    return [str(path.resolve()), found.st_size, found.st_mtime_ns]


def _digest_of(tagged_id: str) -> str:
    return question_digest({KIND: tagged_id})
