"""Marks in untrusted text: each piece is escaped, then our own mark is put around a stretch of it.

Stretches come as offsets that the engine found. Where names are masked on the screen, a marked
stretch is masked too; what is not marked stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from audit.report.documents import Hit
from audit.report.names import masked_name
from pages.ui.text import escaped

TONES = (
    "flagged", "member", "patient", "other", "date", "place", "number", "unknown", "control",
)  # fmt: skip


@dataclass(frozen=True)
class MarkLabel:
    """The words beside a mark, and its tone, one of `TONES`."""

    words: str
    tone: str


def marked(
    text: str, *, marks: Sequence[Hit], label: Callable[[Hit], MarkLabel], is_revealed: bool
) -> str:
    """Return text as HTML in which every marked stretch carries its words.

    Marks are in order and do not overlap, as `audit.report.documents.marks_of` gives them.
    """
    pieces = []
    for piece, mark in _pieces(text, marks):
        if mark is None:
            pieces.append(escaped(piece))
        else:
            shown = piece if is_revealed else masked_stretch(piece)
            pieces.append(_mark(shown, label(mark)))
    return "".join(pieces)


def shown_text(text: str, *, marks: Sequence[Hit], is_revealed: bool) -> str:
    """Return text as a file holds it: as it is, or with every marked stretch masked."""
    if is_revealed:
        return text
    return "".join(
        piece if mark is None else masked_stretch(piece) for piece, mark in _pieces(text, marks)
    )


def masked_stretch(stretch: str) -> str:
    """Return a stretch of text of whose words only the initials are left."""
    return re.sub(r"\S+", lambda word: masked_name(word[0], ""), stretch)


def with_slot(before: str, *, slot: str, after: str, tone: str, words: str = "") -> str:
    """Return a passage as HTML, with what stands in the name's place marked."""
    return f"{escaped(before)}{_mark(slot, MarkLabel(words, tone))}{escaped(after)}"


def cited(pieces: Iterable[tuple[str, str]]) -> str:
    """Return texts as a list, each what it is and the text itself as HTML."""
    items = (f'<li><small>{escaped(facts)}</small><div class="ka-document">{text}</div></li>'
             for facts, text in pieces)  # fmt: skip
    return f'<ul class="ka-passages">{"".join(items)}</ul>'


def _pieces(text: str, marks: Sequence[Hit]) -> Iterator[tuple[str, Hit | None]]:
    end = 0
    for mark in marks:
        yield text[end : mark.start], None
        yield text[mark.start : mark.end], mark
        end = mark.end
    yield text[end:], None


def _mark(text: str, label: MarkLabel) -> str:
    tone = label.tone if label.tone in TONES else TONES[-1]
    words = f"<small>{escaped(label.words)}</small>" if label.words else ""
    return f'<mark class="ka-mark ka-mark-{tone}">{escaped(text)}{words}</mark>'
