"""Fills typed placeholders with an identity: a note with names, and where each value stands.

Comes in: a note with placeholders, its patient's identity. Goes out: the note with names, and a
span for every value with its type and whose it is. A placeholder of unknown kind stays.

Source: paper 002, section 2.1, steps 4 and 5. Differs: the type of a value follows from its kind
and its form, it is not guessed by a model and checked by people.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit.deid.documents import Span, TaggedDocument, tagged
from audit.deid.fill_values import NoteContext, ValueWriter
from audit.deid.labels import TYPES
from audit.deid.mask_kinds import find_marks

_AGE = "Age"
_YEARS_OLD = ("歳", "才")


@dataclass(frozen=True, slots=True)
class FilledSpan:
    """One value in a text.

    Attributes
    ----------
    start, end
        In characters of the text.
    label
        One of the five types.
    kind
        The name of its kind of mask.
    person
        Whose value it is.
    """

    start: int
    end: int
    label: str
    kind: str
    person: str

    def __post_init__(self) -> None:
        """Check offsets and type, once."""
        if not 0 <= self.start < self.end or self.label not in TYPES:
            raise ValueError("a span is empty, or of no known type")


@dataclass(frozen=True)
class FilledNote:
    """A note with names.

    `values` are the texts of the spans, in their order; `n_left` placeholders of unknown kind
    stayed.
    """

    text: str
    spans: tuple[FilledSpan, ...]
    values: tuple[str, ...]
    n_left: int

    def document(self, doc_id: str, *, patient_id: str | None) -> TaggedDocument:
        """Return the note as taggers and measurement take it."""
        spans = [Span(span.start, span.end, span.label) for span in self.spans]
        return tagged(doc_id, text=self.text, spans=spans, patient_id=patient_id)


def filled(text: str, *, context: NoteContext) -> FilledNote:
    """Return a note with every placeholder of a known kind filled.

    The same text and context give the same note, whatever other notes there are.
    """
    writer = ValueWriter(context)
    pieces: list[str] = []
    spans: list[FilledSpan] = []
    values: list[str] = []
    done = length = n_left = 0
    for mark in find_marks(text):
        if mark.kind is None:
            n_left += 1
            continue
        value = writer.value(mark, mark.kind)
        pieces += [text[done : mark.start], value.text]
        start = length + mark.start - done
        done = mark.stop
        if mark.kind.name == _AGE and text[done : done + 1] in _YEARS_OLD:
            value = replace(value, text=value.text + text[done])
            pieces[-1] = value.text
            done += 1
        length = start + len(value.text)
        if value.label:
            spans.append(FilledSpan(start, length, value.label, mark.kind.name, value.person))
            values.append(value.text)
    pieces.append(text[done:])
    return FilledNote("".join(pieces), tuple(spans), tuple(values), n_left)
