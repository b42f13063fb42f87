"""Text of notes, passages and generated documents. Pages show such text only through this module.

Until names are revealed (`access.draw_reveal_switch`: a reason, a line of the access log), every
name that a `NameFinder` finds is masked: names of the audit's list, whole or in part, and what the
default tagger takes for a name, a number or an address. `tests/pages/test_note_text.py` checks that
no page shows such text in another way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from audit.deid.redact.name_places import NameFinder
from audit.notes.passages import Passage
from audit.report.documents import Hit
from audit.report.name_table import mask_name
from pages.ui.access import is_revealed
from pages.ui.blocks import escape_html

TONES = (
    "flagged",
    "member",
    "patient",
    "name",
    "date",
    "place",
    "contact",
    "number",
    "work",
    "other",
    "unknown",
    "control",
)


@dataclass(frozen=True)
class MarkLabel:
    """The words beside a mark, and its tone, one of `TONES`."""

    words: str
    tone: str


def note_html(
    text: str,
    *,
    names: NameFinder | None,
    marks: Sequence[Hit] = (),
    label: Callable[[Hit], MarkLabel | None] = lambda _: None,
    is_clear: Callable[[Hit], bool] = lambda _: False,
    max_chars: int | None = None,
) -> str:
    """Return text of a note as HTML, with names masked unless they are revealed.

    Parameters
    ----------
    text
        The whole text: a name that is cut off would not be found.
    names
        Finder of the names; None only for a text that this person has just pasted.
    marks
        Stretches to mark, ordered and without overlap, as of `audit.report.documents.merge_hits`.
    label
        Returns the words beside a mark; None hides the mark.
    is_clear
        Returns whether a mark is no real name, but a placeholder or a surrogate.
    max_chars
        Number of characters that are shown; None shows all.
    """
    is_shown = names is None or is_revealed()
    pieces = []
    stretches = () if is_shown or names is None else names.find_names(text)
    for piece, mark in _split_text(
        text, stretches, marks=marks, is_clear=is_clear, max_chars=max_chars
    ):
        words = None if mark is None else label(mark)
        pieces.append(escape_html(piece) if words is None else _mark_html(piece, words))
    return "".join(pieces)


def note_plain(text: str, *, names: NameFinder, is_shown: bool) -> str:
    """Return text of a note for a file or a cell, with names masked unless `is_shown`.

    The caller passes `is_shown`, because a file is made outside any session.
    """
    return text if is_shown else _mask_text(text, 0, len(text), names.find_names(text))


def passage_html(
    passage: Passage, *, names: NameFinder, slot: str, tone: str, around: int | None = None
) -> str:
    """Return a passage as HTML, with `slot` in the place of its name.

    `around` is the number of characters shown before and after the slot; None shows all.
    """
    is_shown = is_revealed()
    left, right = (
        note_plain(side, names=names, is_shown=is_shown) for side in (passage.left, passage.right)
    )
    if around is not None:
        left, right = left[-around:], right[:around]
    return f"{escape_html(left)}{_mark_html(slot, MarkLabel('', tone))}{escape_html(right)}"


def note_box(html: str, *, tone: str = "") -> str:
    """Return the HTML of the functions above as a paragraph with the look of a note."""
    return f'<p class="{f"ka-document {tone}".strip()}">{html}</p>'


def passage_list(pieces: Iterable[tuple[str, str]]) -> str:
    """Return (description, text as HTML) pairs as a list."""
    list_items = (
        f'<li><small>{escape_html(facts)}</small><div class="ka-document">{text}</div></li>'
        for facts, text in pieces
    )
    return f'<ul class="ka-passages">{"".join(list_items)}</ul>'


def mask_stretch(stretch: str) -> str:
    """Return a stretch of text in which each word is reduced to its initial."""
    return re.sub(r"\S+", lambda word: mask_name(word[0], ""), stretch)


def _split_text(
    text: str,
    stretches: Sequence[tuple[int, int]],
    *,
    marks: Sequence[Hit],
    is_clear: Callable[[Hit], bool],
    max_chars: int | None,
) -> Iterator[tuple[str, Hit | None]]:
    """Yield the pieces of a text as they are shown, each with its mark or None."""
    end = len(text) if max_chars is None else min(max_chars, len(text))
    position = 0
    for mark in (mark for mark in marks if mark.end <= end):
        yield _mask_text(text, position, mark.start, stretches), None
        yield _mask_text(text, mark.start, mark.end, () if is_clear(mark) else stretches), mark
        position = mark.end
    yield _mask_text(text, position, end, stretches), None


def _mask_text(text: str, start: int, end: int, stretches: Sequence[tuple[int, int]]) -> str:
    """Return the characters from `start` to `end`, masked within the stretches."""
    pieces, position = [], start
    for stretch in stretches:
        low, high = max(stretch[0], start), min(stretch[1], end)
        if low < high:
            pieces += [text[position:low], mask_stretch(text[low:high])]
            position = high
    return "".join((*pieces, text[position:end]))


def _mark_html(text: str, label: MarkLabel) -> str:
    tone = label.tone if label.tone in TONES else TONES[-1]
    words = f"<small>{escape_html(label.words)}</small>" if label.words else ""
    return f'<mark class="ka-mark ka-mark-{tone}">{escape_html(text)}{words}</mark>'
