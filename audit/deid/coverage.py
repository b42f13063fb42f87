"""Covered characters: what redaction would take out, and what it would leave.

A prediction counts here whatever its label, and several may cover one gold together: the question
is what a reader of the redacted note still sees.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from audit.deid.counts import ANY
from audit.deid.documents import Span, TaggedDocument, merged

Stretches = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class CoverageCounts:
    """Characters and spans, for one note or many.

    Attributes
    ----------
    rows
        By label, and under `ANY`: golds, golds covered whole, gold characters, those of them that
        are covered. A character of two golds counts once.
    n_text_chars
        Characters of the notes.
    n_predicted_chars
        Characters that predictions cover.
    n_over_chars
        Those of them that no gold covers: taken out without need.
    """

    rows: Mapping[str, tuple[int, int, int, int]] = field(default_factory=dict)
    n_text_chars: int = 0
    n_predicted_chars: int = 0
    n_over_chars: int = 0

    def __add__(self, other: CoverageCounts) -> CoverageCounts:
        """Count two sets of notes together."""
        rows = {
            label: tuple(
                a + b for a, b in zip(self.row(label), other.row(label), strict=True)
            )
            for label in {*self.rows, *other.rows}
        }  # fmt: skip
        return CoverageCounts(
            rows,  # type: ignore[arg-type]  # four numbers again
            self.n_text_chars + other.n_text_chars,
            self.n_predicted_chars + other.n_predicted_chars,
            self.n_over_chars + other.n_over_chars,
        )

    def row(self, label: str) -> tuple[int, int, int, int]:
        """Return the numbers of a label; zeros where it does not occur."""
        return self.rows.get(label, (0, 0, 0, 0))

    @property
    def n_outside_chars(self) -> int:
        """Characters that no gold covers."""
        return self.n_text_chars - self.row(ANY)[2]

    @property
    def n_left_chars(self) -> int:
        """Gold characters that no prediction covers: what a reader would still see."""
        return self.row(ANY)[2] - self.row(ANY)[3]


def coverage(gold: TaggedDocument, *, predicted: Iterable[Span]) -> CoverageCounts:
    """Count one note."""
    removed = merged(predicted)
    golds = merged(gold.spans)
    rows = {}
    spans_of: dict[str, list[Span]] = {ANY: list(gold.spans)} if gold.spans else {}
    for span in gold.spans:
        spans_of.setdefault(span.label, []).append(span)
    starts = [start for start, _ in removed]
    is_whole = {span: _is_inside(span, removed, starts=starts) for span in gold.spans}
    for label, spans in spans_of.items():
        union = merged(spans)
        n_whole = sum(is_whole[span] for span in spans)
        rows[label] = (len(spans), n_whole, _n_chars(union), _n_shared(union, removed))
    n_predicted = _n_chars(removed)
    return CoverageCounts(
        rows,
        len(gold.text),
        n_predicted,
        n_predicted - _n_shared(golds, removed),
    )


def _is_inside(span: Span, removed: Stretches, *, starts: list[int]) -> bool:
    at = bisect_right(starts, span.start) - 1
    return at >= 0 and span.end <= removed[at][1]


def _n_chars(stretches: Stretches) -> int:
    return sum(end - start for start, end in stretches)


def _n_shared(first: Stretches, second: Stretches) -> int:
    """Return how many characters two sorted unions share."""
    i = j = n = 0
    while i < len(first) and j < len(second):
        (start, end), (other_start, other_end) = first[i], second[j]
        n += max(0, min(end, other_end) - max(start, other_start))
        if end <= other_end:
            i += 1
        else:
            j += 1
    return n
