"""Corrections of a note's marks by hand: a false mark is taken away, a missing one is added.

What the tagger found stays as it was; a correction is applied whenever the note is shown or handed
out. Comes in: a note with its marks as they are now. Goes out: the spans that a correction changes.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from audit.deid.documents import Span, TaggedDocument
from audit.deid.labels import TYPES
from audit.errors import AuditError

REMOVED, ADDED = "removed", "added"
KINDS = (REMOVED, ADDED)
MAX_SPANS = 1_000
"""Of one correction: a single letter "everywhere" is no correction."""
_WHERE = "corrections"


@dataclass(frozen=True)
class Correction:
    """What a person changed in the marks of one note, at once.

    Parameters
    ----------
    number
        Of the note in its set, from 0.
    kind
        One of `KINDS`.
    spans
        Those that went, or those that came; sorted, at least one.
    who
        As the access log has it.
    at
        ISO time stamp in UTC.

    Raises
    ------
    ValueError
        If one of them is impossible.
    """

    number: int
    kind: str
    spans: tuple[Span, ...]
    who: str
    at: str

    def __post_init__(self) -> None:
        """Check the values, once."""
        if self.number < 0 or self.kind not in KINDS:
            raise ValueError("no such note or kind")
        if not 0 < len(self.spans) <= MAX_SPANS or list(self.spans) != sorted(set(self.spans)):
            raise ValueError("no spans, too many, or they are not sorted")


def corrected(document: TaggedDocument, corrections: Iterable[Correction]) -> TaggedDocument:
    """Return a note with its marks as they are after the corrections, in their order.

    Raises
    ------
    AuditError
        If a correction does not fit the note.
    """
    spans = set(document.spans)
    for one in corrections:
        if max(span.end for span in one.spans) > len(document.text):
            raise AuditError("A correction does not fit its note.", where=_WHERE)
        if one.kind == REMOVED:
            spans -= set(one.spans)
        else:
            spans |= set(one.spans)
    return replace(document, spans=tuple(sorted(spans)))


def same_marks(document: TaggedDocument, span: Span) -> tuple[Span, ...]:
    """Return the marks of a note that cover the same text under the same label as one of them."""
    text = document.text[span.start : span.end]
    return tuple(
        one
        for one in document.spans
        if one.label == span.label and document.text[one.start : one.end] == text
    )


def missing_marks(
    document: TaggedDocument, *, text: str, label: str, is_everywhere: bool
) -> tuple[Span, ...]:
    """Return marks for the places of a text that are not wholly marked yet.

    A text that begins or ends with a Latin letter or digit is only found as a whole word: "Ann" is
    not found in "Annual".

    Parameters
    ----------
    text
        As it is written in the note; white space around it does not count.
    label
        One of the five types.
    is_everywhere
        All of its places, or only the first one.

    Raises
    ------
    AuditError
        If it is not there, marked everywhere already, or there too often.
    ValueError
        If there is no such type.
    """
    if label not in TYPES:
        raise ValueError("no such type")
    wanted = text.strip()
    if not wanted:
        raise AuditError("No text was given.", where=_WHERE)
    found = [Span(start, start + len(wanted), label) for start in _places(document.text, wanted)]
    if not found:
        raise AuditError(
            "This text does not stand in the note in this way of writing.",
            where=_WHERE,
            do="Copy it out of the note; for a part of a word, give its offsets.",
        )
    unmarked = [span for span in found if not _is_marked(document, span)]
    if not unmarked:
        raise _marked_already()
    if is_everywhere and len(unmarked) > MAX_SPANS:
        raise AuditError(
            f"This text stands in the note more than {MAX_SPANS:,} times.", where=_WHERE
        )
    return tuple(unmarked) if is_everywhere else (unmarked[0],)


def mark_between(document: TaggedDocument, *, start: int, end: int, label: str) -> tuple[Span, ...]:
    """Return the mark of the characters `start` to `end` (exclusive) of a note.

    Raises
    ------
    AuditError
        If there are no such characters, or all of them are marked.
    ValueError
        If there is no such type.
    """
    if label not in TYPES:
        raise ValueError("no such type")
    if not 0 <= start < end <= len(document.text):
        raise AuditError(
            f"The note has characters 0 to {len(document.text):,}; the end is behind the start.",
            where=_WHERE,
        )
    span = Span(start, end, label)
    if _is_marked(document, span):
        raise _marked_already()
    return (span,)


def _places(text: str, wanted: str) -> Iterator[int]:
    at = text.find(wanted)
    while at >= 0:
        end = at + len(wanted)
        is_begun = at > 0 and _is_latin(text[at - 1]) and _is_latin(wanted[0])
        goes_on = end < len(text) and _is_latin(text[end]) and _is_latin(wanted[-1])
        is_whole = not is_begun and not goes_on
        if is_whole:
            yield at
        at = text.find(wanted, end if is_whole else at + 1)


def _is_latin(char: str) -> bool:
    if char.isascii():
        return char.isalnum()
    return char.isalpha() and unicodedata.name(char, "").startswith("LATIN")


def _is_marked(document: TaggedDocument, span: Span) -> bool:
    reached = span.start
    for one in document.spans:  # sorted by where they begin
        if one.start > reached:
            break
        reached = max(reached, one.end)
    return reached >= span.end


def _marked_already() -> AuditError:
    return AuditError(
        "This is marked already.", where=_WHERE, do="Take the mark away first to change its type."
    )
