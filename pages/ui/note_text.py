"""Text of notes, passages and generated documents: the only way in which a page shows any.

Until names are revealed (`access.reveal_switch`: a reason, a line of the access log) every name is
masked that a `NameFinder` finds: those of the audit's list, all of them and in part, and what the
default tagger takes for a name, a number or an address of somebody. `tests/pages/test_note_text.py`
holds that no page shows such text in another way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from audit.deid.name_places import NameFinder
from audit.notes.passages import Passage
from audit.report.documents import Hit
from audit.report.name_table import mask_name
from pages.ui.access import is_revealed
from pages.ui.blocks import escaped

TONES = (
    "flagged",
    "member",
    "patient",
    "other",
    "date",
    "place",
    "number",
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
    most: int | None = None,
) -> str:
    """Return text of a note as HTML, names masked unless they are revealed.

    Parameters
    ----------
    text
        The text, whole: a name that is cut off is found no more.
    names
        What finds the names; None only for a text that this person has just pasted.
    marks
        Stretches to be marked, in order and apart, as `audit.report.documents.merge_hits` gives
        them.
    label
        What stands beside a mark; None for one that is not to be seen as such.
    is_clear
        Whether a mark is known to be no real name: a placeholder, or what was put in for one.
    most
        How many characters are shown; None is all of them.
    """
    is_shown = names is None or is_revealed()
    pieces = []
    stretches = () if is_shown or names is None else names.find_names(text)
    for piece, mark in _pieces(text, stretches, marks=marks, is_clear=is_clear, most=most):
        words = None if mark is None else label(mark)
        pieces.append(escaped(piece) if words is None else _mark(piece, words))
    return "".join(pieces)


def note_plain(text: str, *, names: NameFinder, is_shown: bool) -> str:
    """Return text of a note as a file or a cell holds it, names masked unless `is_shown`.

    Whether they are is said by the caller: a file is made when no session is there to be asked.
    """
    return text if is_shown else _masked(text, 0, len(text), names.find_names(text))


def passage_html(
    passage: Passage, *, names: NameFinder, slot: str, tone: str, around: int | None = None
) -> str:
    """Return a passage as HTML, `slot` in the place of its name.

    `around` is how many characters before and behind it are shown; None is all of them.
    """
    is_shown = is_revealed()
    left, right = (
        note_plain(side, names=names, is_shown=is_shown) for side in (passage.left, passage.right)
    )
    if around is not None:
        left, right = left[-around:], right[:around]
    return f"{escaped(left)}{_mark(slot, MarkLabel('', tone))}{escaped(right)}"


def box(html: str, *, tone: str = "") -> str:
    """Return text of a note, as the functions above give it, as a paragraph that looks like it."""
    return f'<p class="{f"ka-document {tone}".strip()}">{html}</p>'


def cited(pieces: Iterable[tuple[str, str]]) -> str:
    """Return texts as a list, each what it is and the text itself as HTML."""
    items = (
        f'<li><small>{escaped(facts)}</small><div class="ka-document">{text}</div></li>'
        for facts, text in pieces
    )
    return f'<ul class="ka-passages">{"".join(items)}</ul>'


def masked_stretch(stretch: str) -> str:
    """Return a stretch of text of whose words only the initials are left."""
    return re.sub(r"\S+", lambda word: mask_name(word[0], ""), stretch)


def _pieces(
    text: str,
    stretches: Sequence[tuple[int, int]],
    *,
    marks: Sequence[Hit],
    is_clear: Callable[[Hit], bool],
    most: int | None,
) -> Iterator[tuple[str, Hit | None]]:
    """Yield a text piece by piece as it is shown, each with the mark that it is."""
    end = len(text) if most is None else min(most, len(text))
    at = 0
    for mark in (mark for mark in marks if mark.end <= end):
        yield _masked(text, at, mark.start, stretches), None
        yield _masked(text, mark.start, mark.end, () if is_clear(mark) else stretches), mark
        at = mark.end
    yield _masked(text, at, end, stretches), None


def _masked(text: str, start: int, end: int, stretches: Sequence[tuple[int, int]]) -> str:
    """Return characters of a text, masked where they belong to one of the stretches."""
    pieces, at = [], start
    for stretch in stretches:
        low, high = max(stretch[0], start), min(stretch[1], end)
        if low < high:
            pieces += [text[at:low], masked_stretch(text[low:high])]
            at = high
    return "".join((*pieces, text[at:end]))


def _mark(text: str, label: MarkLabel) -> str:
    tone = label.tone if label.tone in TONES else TONES[-1]
    words = f"<small>{escaped(label.words)}</small>" if label.words else ""
    return f'<mark class="ka-mark ka-mark-{tone}">{escaped(text)}{words}</mark>'
