"""Where names of people stand in notes that somebody is about to read: to be masked on a screen.

Comes in: the text of notes, passages and generated documents; a list of names. Goes out: stretches
that are names of the list, or that the default tagger takes for a name, a number or an address of
somebody. What neither knows stays readable: this is no de-identification.
"""

from __future__ import annotations

import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

from audit.deid.kinds import Kind, kind_of
from audit.deid.known_names import found_again, names_in
from audit.deid.tagger import Tagger, Tags, tag_checked
from audit.deid.taggers import DEFAULT, load_tagger
from audit.names.candidates import Candidates
from audit.names.matching import PartIndex
from audit.notes.spans import IDENTIFIER, Span, merge_spans

Stretch = tuple[int, int]
"""Start and end of characters of a text."""
READABLE: Final[frozenset[Kind]] = frozenset(
    (
        "date",
        "year",
        "time",
        "age",
        "age_above_89",
        "sex",
        "place",
        "state",
        "organisation",
        "postcode",
        "profession",
    )
)
"""Kinds of marks that are no name, number or address of somebody."""
_MOST_KEPT_CHARS = 20_000_000


class NameFinder:
    """Finds names in texts; answers are remembered, for a page is drawn again and again.

    Parameters
    ----------
    listed
        Names of a list, whose parts are found too.
    known
        What `audit.deid.known_names.names_in` says of another text about the same people.
    """

    def __init__(self, listed: Candidates | None = None, *, known: str = "") -> None:
        self.index = PartIndex(listed) if listed is not None and len(listed) else None
        self._known = known
        self._answers: OrderedDict[str, tuple[Stretch, ...]] = OrderedDict()
        self._n_chars = 0
        self._lock = Lock()  # sessions share a finder

    def places(self, text: str) -> tuple[Stretch, ...]:
        """Return where names stand in a text: in order, not overlapping."""
        return self.places_of([text])[0]

    def places_of(self, texts: Sequence[str]) -> tuple[tuple[Stretch, ...], ...]:
        """Return where names stand in each of some texts."""
        with self._lock:
            answers = {text: self._answers[text] for text in texts if text in self._answers}
        new = [text for text in dict.fromkeys(texts) if text not in answers]
        answers |= zip(new, self._find(new), strict=True)
        with self._lock:
            for text in new:
                self._remember(text, answers[text])
        return tuple(answers[text] for text in texts)

    def _remember(self, text: str, stretches: tuple[Stretch, ...]) -> None:
        if text not in self._answers:
            self._answers[text] = stretches
            self._n_chars += len(text)
        while self._n_chars > _MOST_KEPT_CHARS and self._answers:
            oldest, _ = self._answers.popitem(last=False)
            self._n_chars -= len(oldest)

    def _find(self, texts: Sequence[str]) -> list[tuple[Stretch, ...]]:
        visible = [_visible(text) for text in texts]
        tags_of = tag_checked(_tagger(), [shown for shown, _ in visible])
        return [
            merge_spans(
                Span(places[span.start], places[span.end - 1] + 1, IDENTIFIER)
                for span in (*self._tagged(shown, tags), *self._listed(shown))
            )
            for (shown, places), tags in zip(visible, tags_of, strict=True)
        ]

    def _listed(self, text: str) -> Iterable[Span]:
        found = self.index.places(text) if self.index else ()
        return (Span(start, end, IDENTIFIER) for start, end, _ in found)

    def _tagged(self, text: str, tags: Tags) -> Iterable[Span]:
        # A name that was found once is found wherever it stands in the text.
        everywhere = found_again(text, tags, names_in(text, tags), self._known)
        return (span for span in everywhere if not _is_readable(text, span))


def _is_readable(text: str, span: Span) -> bool:
    kind = kind_of(text, span)
    is_number = not any(map(str.isalpha, text[span.start : span.end]))
    return kind in READABLE or (kind == "other" and is_number)


def _tagger() -> Tagger:
    return load_tagger(DEFAULT)


def _visible(text: str) -> tuple[str, Sequence[int]]:
    """Return a text without characters that nobody sees, and where each of the others stood.

    A soft hyphen or a joiner within a name leaves it readable for people, not for finders.
    """
    if text.isascii():
        return text, range(len(text))
    places = [place for place, char in enumerate(text) if unicodedata.category(char) != "Cf"]
    return "".join(text[place] for place in places), places
