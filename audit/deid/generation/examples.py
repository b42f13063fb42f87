"""Training examples: windows of gold notes, and the same with tags, as tokens. Torch-free."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from audit.deid.documents import Span, TaggedDocument, tagged
from audit.deid.formats import flattened
from audit.deid.generation.pieces import SPARE, Room, pieces_of
from audit.deid.generation.prompt import Frame, answer_text, text_ids
from audit.deid.labels import ordered
from audit.deid.tags import write_tags
from audit.deid.windows import Window
from audit.errors import AuditError

Ids = npt.NDArray[np.int32]
_MOST_GROWTH = 4.0
_LEAST_GROWTH = 1.2
_MARGIN = 1.1


@dataclass(frozen=True, eq=False)
class Example:
    """What the model is given and what it shall write, end token included."""

    prompt: Ids
    answer: Ids

    @property
    def n_tokens(self) -> int:
        """Both together."""
        return len(self.prompt) + len(self.answer)


@dataclass(frozen=True, eq=False)
class Examples:
    """All examples of a training, and what did not become one.

    Attributes
    ----------
    rows
        In the order of the notes.
    room
        For tagging: the longest window that was seen, and how much longer answers were.
    labels
        That occur.
    n_notes
        That were read.
    n_left_out
        Windows that cannot be written with tags, or whose answer does not fit.
    n_changed
        Windows whose answer the tokenizer does not give back as it was.
    n_cut
        Spans that a window's edge cuts.
    """

    rows: tuple[Example, ...]
    room: Room
    labels: tuple[str, ...]
    n_notes: int
    n_left_out: int
    n_changed: int
    n_cut: int

    @property
    def digest(self) -> str:
        """SHA-256 of all tokens."""
        digest = hashlib.sha256()
        for row in self.rows:
            digest.update(len(row.prompt).to_bytes(8, "little"))
            digest.update(row.prompt.astype("<i8").tobytes())
            digest.update(row.answer.astype("<i8").tobytes())
        return digest.hexdigest()


def examples_of(
    documents: Iterable[TaggedDocument],
    *,
    tokenizer: Any,
    frame: Frame,
    room: Room,
    n_context: int,
    overlap: int,
    language: str,
) -> Examples:
    """Make examples of gold notes.

    A span that the edge of a window cuts is tagged as far as it goes: windows of tagging are joined
    in the same way. Of spans that overlap the longest stays whole.

    Raises
    ------
    AuditError
        If no example is left.
    """
    rows: list[Example] = []
    labels: set[str] = set()
    n_notes = n_left_out = n_changed = n_cut = n_longest = 0
    growth = _LEAST_GROWTH
    for document in documents:
        n_notes += 1
        flat = flattened(document)
        labels.update(span.label for span in flat.spans)
        windows = pieces_of(
            flat.text, n_tokens=lambda text: len(text_ids(tokenizer, text)), room=room,
            overlap=overlap,
        )  # fmt: skip
        for window in windows:
            part, n = _part(flat, window)
            n_cut += n
            try:
                written = write_tags(part, language=language)
            except AuditError:
                n_left_out += 1
                continue
            note, copy = text_ids(tokenizer, part.text), text_ids(tokenizer, written)
            row = _example(frame, note, copy)
            if not note or row.n_tokens > n_context:
                n_left_out += 1
                continue
            n_changed += answer_text(tokenizer, copy) != written
            n_longest = max(n_longest, len(note))
            growth = max(growth, _MARGIN * (len(copy) - SPARE) / len(note))
            rows.append(row)
    if not rows:
        raise AuditError(
            "No note can be trained on.",
            where="gold notes",
            do="Give notes with spans that inline tags can say.",
        )
    seen = Room(n_longest, min(growth, _MOST_GROWTH))
    return Examples(tuple(rows), seen, ordered(labels), n_notes, n_left_out, n_changed, n_cut)


def _example(frame: Frame, note: Sequence[int], copy: Sequence[int]) -> Example:
    return Example(
        np.array(frame.prompt(note), dtype=np.int32),
        np.array([*copy, *frame.tail], dtype=np.int32),
    )


def _part(document: TaggedDocument, window: Window) -> tuple[TaggedDocument, int]:
    """Return a window as a note of its own, and how many spans its edges cut."""
    spans, n_cut = [], 0
    text = document.text[window.start : window.end]
    for span in document.spans:
        start, end = max(span.start, window.start), min(span.end, window.end)
        if start >= end or not document.text[start:end].strip():
            continue
        n_cut += (start, end) != (span.start, span.end)
        spans.append(Span(start - window.start, end - window.start, span.label))
    return tagged(document.doc_id, text=text, spans=spans), n_cut
