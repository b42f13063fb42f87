"""Notes with spans: which characters of a text are personal information, and of which type.

Offsets count code points of the source text, half open, as Python slices do.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

MAX_LABEL_CHARS = 100


@dataclass(frozen=True, order=True, slots=True)
class Span:
    """Characters `start` to `end` (exclusive) of a text, and what they are.

    Raises
    ------
    ValueError
        If the span is empty or begins before the text, or if the label is empty, too long, or holds
        white space or characters that cannot be printed.
    """

    start: int
    end: int
    label: str

    def __post_init__(self) -> None:
        """Check offsets and label, once."""
        if not 0 <= self.start < self.end:
            raise ValueError(f"a span goes from {self.start} to {self.end}")
        label = self.label
        if not 0 < len(label) <= MAX_LABEL_CHARS or not label.isprintable() or " " in label:
            raise ValueError("a label is empty, too long, or holds white space")

    @property
    def n_chars(self) -> int:
        """How many characters it covers."""
        return self.end - self.start

    def overlap(self, other: Span) -> int:
        """How many characters two spans share."""
        return max(0, min(self.end, other.end) - max(self.start, other.start))


@dataclass(frozen=True)
class TaggedDocument:
    """A note and its spans.

    Parameters
    ----------
    doc_id
        What the note is called.
    text
        The note.
    spans
        Sorted, each once; they may overlap.
    patient_id
        Whose note it is; None where that is not known.
    n_duplicates
        How many spans were given more than once and left out.
    unaligned
        Labels of predictions that have no place in the text: they count as spurious.

    Raises
    ------
    ValueError
        If a span ends behind the text, or the spans are not sorted and different.
    """

    doc_id: str
    text: str
    spans: tuple[Span, ...] = ()
    patient_id: str | None = None
    n_duplicates: int = 0
    unaligned: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the spans against the text, once."""
        for before, after in zip(self.spans, self.spans[1:], strict=False):
            if before >= after:
                raise ValueError("spans are not sorted, or one is there twice")
        last = max((span.end for span in self.spans), default=0)
        if last > len(self.text):
            raise ValueError(f"a span ends at {last}, the text at {len(self.text)}")

    @property
    def patient(self) -> tuple[int, str]:
        """The key of the patient; a note of unknown owner is a patient of its own."""
        return (0, self.doc_id) if self.patient_id is None else (1, self.patient_id)

    def with_spans(self, spans: Iterable[Span]) -> TaggedDocument:
        """Return the note with other spans."""
        return tagged(self.doc_id, text=self.text, spans=spans, patient_id=self.patient_id)

    def named(self, doc_id: str) -> TaggedDocument:
        """Return the note under another name."""
        return replace(self, doc_id=doc_id)


def tagged(
    doc_id: str,
    *,
    text: str,
    spans: Iterable[Span],
    patient_id: str | None = None,
    unaligned: Iterable[str] = (),
) -> TaggedDocument:
    """Return a document of spans in any order; a span that is given twice is counted and left out.

    Raises
    ------
    ValueError
        If a span ends behind the text.
    """
    given = list(spans)
    different = tuple(sorted(set(given)))
    return TaggedDocument(
        doc_id=doc_id,
        text=text,
        spans=different,
        patient_id=patient_id,
        n_duplicates=len(given) - len(different),
        unaligned=tuple(sorted(unaligned)),
    )


def n_overlapping(spans: Iterable[Span]) -> int:
    """Return how many spans share a character with one that begins before them."""
    n, reached = 0, 0
    for span in sorted(spans):
        n += span.start < reached
        reached = max(reached, span.end)
    return n


def merged(spans: Iterable[Span]) -> tuple[tuple[int, int], ...]:
    """Return the union of spans as stretches (start, end) that neither overlap nor touch."""
    stretches: list[tuple[int, int]] = []
    for span in sorted(spans):
        if stretches and span.start <= stretches[-1][1]:
            stretches[-1] = (stretches[-1][0], max(stretches[-1][1], span.end))
        else:
            stretches.append((span.start, span.end))
    return tuple(stretches)
