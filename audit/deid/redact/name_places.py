"""The places of names in texts that somebody is about to read, to mask them on a screen.

Comes in: the text of notes, passages and generated documents; a list of names. Goes out: stretches
that are names of the list, or that the default tagger takes for a person's name, number or
address. Names that neither knows stay readable: this is no de-identification.
"""

from __future__ import annotations

import unicodedata
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Final

from audit.deid.find.known_names import add_known_names, read_certain_names
from audit.deid.find.tagger import Tagger, tag_and_check
from audit.deid.find.taggers import DEFAULT, load_tagger
from audit.deid.redact.kinds import Kind, kind_of
from audit.names.candidates import Candidates
from audit.names.matching import PartIndex
from audit.notes.spans import IDENTIFIER, Span, Tags, merge_spans

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
"""Kinds of marks that are no person's name, number or address."""
_MOST_KEPT_CHARS = 20_000_000


class NameFinder:
    """Finds names in texts; it remembers its answers, since a page is drawn again and again.

    Parameters
    ----------
    listed
        Names of a list, whose parts are found too.
    known_names
        Names that `audit.deid.find.known_names.read_certain_names` read from another text about the
        same people.
    """

    def __init__(self, listed: Candidates | None = None, *, known_names: str = "") -> None:
        self.index = PartIndex(listed) if listed is not None and len(listed) else None
        self._known_names = known_names
        self._answers: OrderedDict[str, tuple[Stretch, ...]] = OrderedDict()
        self._n_chars = 0
        self._lock = Lock()  # sessions share a finder

    def find_names(self, text: str) -> tuple[Stretch, ...]:
        """Return the stretches of a text that are names: in order, not overlapping."""
        return self.find_names_of_texts([text])[0]

    def find_names_of_texts(self, texts: Sequence[str]) -> tuple[tuple[Stretch, ...], ...]:
        """Return the stretches that are names, for each text."""
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
        visible = [_strip_invisible(text) for text in texts]
        tags_of = tag_and_check(_load_default(), [visible_text for visible_text, _ in visible])
        return [
            merge_spans(
                Span(places[span.start], places[span.end - 1] + 1, IDENTIFIER)
                for span in (
                    *self._find_tagged(visible_text, tags),
                    *self._find_listed(visible_text),
                )
            )
            for (visible_text, places), tags in zip(visible, tags_of, strict=True)
        ]

    def _find_listed(self, text: str) -> Iterable[Span]:
        places = self.index.find_places(text) if self.index else ()
        return (Span(start, end, IDENTIFIER) for start, end, _ in places)

    def _find_tagged(self, text: str, tags: Tags) -> Iterable[Span]:
        # A name that was found once is found wherever it stands in the text.
        everywhere = add_known_names(text, tags, read_certain_names(text, tags), self._known_names)
        return (span for span in everywhere if not _is_readable(text, span))


def _is_readable(text: str, span: Span) -> bool:
    kind = kind_of(text, span)
    is_number = not any(map(str.isalpha, text[span.start : span.end]))
    return kind in READABLE or (kind == "other" and is_number)


def _load_default() -> Tagger:
    return load_tagger(DEFAULT)


def _strip_invisible(text: str) -> tuple[str, Sequence[int]]:
    """Return a text without invisible characters, and the position that each of the others had.

    A name with a soft hyphen or a joiner inside is readable for people, but no tagger finds it.
    """
    if text.isascii():
        return text, range(len(text))
    places = [place for place, char in enumerate(text) if unicodedata.category(char) != "Cf"]
    return "".join(text[place] for place in places), places
