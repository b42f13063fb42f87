"""The windows in which a tagger reads a long note.

A span no longer than the overlap of windows lies whole in at least one window; a span that lies
whole in a window stays as it was found there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from audit.notes.spans import Span, Tags, drop_overlaps


class Window(NamedTuple):
    """Characters `start` to `end` (exclusive) of a note."""

    start: int
    end: int


_BREAKS = ("\n", "。", "．", ". ", "、", " ")
_SEARCH_SHARE = 8


def cut_windows(text: str, *, size: int, overlap: int) -> tuple[Window, ...]:
    """Cut a text into windows of at most `size` characters that together cover all of it.

    A window ends behind a line end, a sentence or a word, in this order of preference, if there is
    one in its last eighth. It shares `overlap` characters, at most half of `size`, with the window
    before it.
    """
    windows: list[Window] = []
    start = 0
    while start + size < len(text):
        max_end = start + size
        breaks = (
            (mark, text.rfind(mark, max_end - size // _SEARCH_SHARE, max_end)) for mark in _BREAKS
        )
        end = next((position + len(mark) for mark, position in breaks if position >= 0), max_end)
        windows.append(Window(start, end))
        start = end - overlap
    return (*windows, Window(start, len(text))) if text else ()


def join_windows(
    windows: Sequence[Window], spans_of: Sequence[Iterable[Span]], *, n_chars: int
) -> Tags:
    """Join the spans of windows, moving their offsets from each window to the whole text.

    Of two spans that share characters, the one with more text of its window around it is kept. A
    span that the edge of its window cuts off yields to every span that is not cut off; cut-off
    spans of the same label are joined.
    """
    margins: dict[Span, int] = {}
    for window, spans in zip(windows, spans_of, strict=True):
        for span in spans:
            # Nothing is cut off at the ends of the note.
            left_margin = span.start if window.start else n_chars
            right_margin = window.end - window.start - span.end if window.end < n_chars else n_chars
            placed_span = Span(span.start + window.start, span.end + window.start, span.label)
            margins[placed_span] = max(
                margins.get(placed_span, 0),
                left_margin if left_margin < right_margin else right_margin,
            )
    sorted_spans = sorted(margins, key=lambda span: (-margins[span], -span.n_chars, span))
    cut_spans: list[Span] = []
    for span in sorted(margins, key=lambda span: (span.label, span)):
        last = cut_spans[-1] if cut_spans else None
        if margins[span] > 0:
            continue
        if last and last.label == span.label and span.start < last.end:
            cut_spans[-1] = Span(last.start, max(last.end, span.end), span.label)
        else:
            cut_spans.append(span)
    cut_spans.sort(key=lambda span: (-span.n_chars, span))
    return drop_overlaps(
        cut_spans, prior_spans=drop_overlaps(span for span in sorted_spans if margins[span] > 0)
    )
