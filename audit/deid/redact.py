"""Redaction: the note with its spans replaced. What is released is always source + replacements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from audit.deid.documents import Span, TaggedDocument
from audit.deid.labels import JAPANESE, RISK_ORDER

PLACEHOLDER, SURROGATE, MASK = "placeholder", "surrogate", "mask"
MODES = (PLACEHOLDER, SURROGATE, MASK)
MASK_CHAR = "■"


@dataclass(frozen=True)
class Request:
    """What a surrogate is wanted for: the text that goes, its label, and whose note it is."""

    text: str
    label: str
    patient: tuple[int, str]


Surrogate = Callable[[Request], str]
"""Gives the text that takes a place; the same patient and text must give the same surrogate."""


@dataclass(frozen=True)
class Replacement:
    """A stretch of the source, `start` to `end`, and what stands in its place.

    `new_start` and `new_end` are offsets in the released text; `labels` are those of all spans that
    were joined here, `label` the one that names it.
    """

    start: int
    end: int
    label: str
    labels: tuple[str, ...]
    text: str
    new_start: int

    @property
    def new_end(self) -> int:
        """Where the replacement ends in the released text."""
        return self.new_start + len(self.text)


@dataclass(frozen=True)
class Redacted:
    """A note as it may be released, and what was replaced in it.

    `n_unchanged` replacements are equal to what they replace: a surrogate that hides nothing.
    """

    text: str
    replacements: tuple[Replacement, ...]
    n_unchanged: int


def redact(
    document: TaggedDocument,
    *,
    mode: str = PLACEHOLDER,
    surrogate: Surrogate | None = None,
    language: str = "ja",
) -> Redacted:
    """Return the note with every character of every span replaced.

    Spans that overlap are replaced as one stretch, named after the longest of them, then by risk.
    `placeholder` puts the type in brackets, `surrogate` asks the function, `mask` puts a square for
    each character and keeps line ends, so that offsets stay.

    Raises
    ------
    ValueError
        If there is no such mode, or no function for surrogates.
    """
    if mode not in MODES or (mode == SURROGATE) != (surrogate is not None):
        raise ValueError(f"{mode}: no such mode, or it and the surrogate function do not fit")
    pieces: list[str] = []
    replacements = []
    at = n_released = 0
    for spans in _joined(document.spans):
        start, end = spans[0].start, max(span.end for span in spans)
        text = document.text[start:end]
        label = min(spans, key=_priority).label
        if surrogate is not None:
            new = surrogate(Request(text, label, document.patient))
        elif mode == MASK:
            new = "".join(c if c in "\r\n" else MASK_CHAR for c in text)
        else:
            new = placeholder(label, language=language)
        pieces += [document.text[at:start], new]
        n_released += start - at
        labels = tuple(sorted({span.label for span in spans}))
        replacements.append(Replacement(start, end, label, labels, new, n_released))
        n_released += len(new)
        at = end
    pieces.append(document.text[at:])
    n_unchanged = sum(r.text == document.text[r.start : r.end] for r in replacements)
    return Redacted("".join(pieces), tuple(replacements), n_unchanged)


def placeholder(label: str, *, language: str = "ja") -> str:
    """Return what stands for a span: 【識別子】 or [IDENTIFIER]."""
    if language == "ja":
        return f"【{JAPANESE.get(label, label)}】"
    return f"[{label.upper()}]"


def _joined(spans: Iterable[Span]) -> list[list[Span]]:
    """Return spans in groups that share characters; spans that only touch stay apart."""
    groups: list[list[Span]] = []
    reached = 0
    for span in sorted(spans):
        if groups and span.start < reached:
            groups[-1].append(span)
        else:
            groups.append([span])
        reached = max(reached, span.end)
    return groups


def _priority(span: Span) -> tuple[int, int, int, str]:
    risk = RISK_ORDER.index(span.label) if span.label in RISK_ORDER else len(RISK_ORDER)
    return -span.n_chars, risk, span.start, span.label
