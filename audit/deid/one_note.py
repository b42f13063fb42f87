"""One note, tagged and redacted: what a screen shows of a text, and what the files are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from audit.corpora.note_streams import is_whole
from audit.deid.corrections import Correction, corrected
from audit.deid.documents import TaggedDocument
from audit.deid.redact import Redacted, Replacement
from audit.deid.tag_files import Release
from audit.deid.tagger import Tagger, tag_checked
from audit.errors import AuditError

MAX_TYPED_CHARS = 100_000


@dataclass(frozen=True)
class OneNote:
    """A note with its spans, and the text that may be released.

    Attributes
    ----------
    row
        The note's number in its source.
    document
        The note and its spans, corrected by hand where somebody did; private.
    released
        The text that stands in the files, source + replacements.
    replacements
        Where the replacements stand; empty where the kept text cannot be made again.
    corrections
        What was changed by hand, in the order in which it was.
    """

    row: int
    document: TaggedDocument
    released: str
    replacements: tuple[Replacement, ...]
    corrections: tuple[Correction, ...] = ()


def tagged_text(text: str, *, tagger: Tagger, release: Release) -> OneNote:
    """Tag one text at once.

    Raises
    ------
    AuditError
        If the text is empty, longer than `MAX_TYPED_CHARS`, or holds NUL or half characters.
    """
    if not text.strip():
        raise AuditError("The note is empty.", where="notes")
    if len(text) > MAX_TYPED_CHARS:
        raise AuditError(
            f"The text has more than {MAX_TYPED_CHARS:,} characters.",
            where="notes",
            do="Put it into a file.",
        )
    if not is_whole(text):
        raise AuditError(
            "The note holds a NUL character or bytes outside its encoding.", where="notes"
        )
    (spans,) = tag_checked(tagger, [text])
    return released_note(TaggedDocument("1", text, spans), row=1, release=release)


def released_note(
    document: TaggedDocument, *, row: int, release: Release, kept: str | None = None
) -> OneNote:
    """Return a note with its released text.

    Parameters
    ----------
    kept
        The text that was released before: it stays, and where another would be made today its
        replacements are not marked.
    """
    redacted: Redacted = release.of(document)
    if kept is not None and kept != redacted.text:
        return OneNote(row, document, kept, ())
    return OneNote(row, document, redacted.text, redacted.replacements)


def corrected_note(
    note: OneNote, corrections: Sequence[Correction], *, release: Release
) -> OneNote:
    """Return a note with corrections by hand, its released text made anew; as it is without any.

    Raises
    ------
    AuditError
        If a correction does not fit the note.
    """
    if not corrections:
        return note
    document = corrected(note.document, corrections)
    redacted = release.of(document)
    return OneNote(note.row, document, redacted.text, redacted.replacements, tuple(corrections))
