"""Windows: a long note cut into pieces that overlap, and the spans of the pieces put together.

A span no longer than the overlap lies whole in at least one window; a span that lies whole in a
window comes out as it was found there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from audit.deid.tagger import Tagger, Tags
from audit.notes.spans import Span

_BREAKS = ("\n", "。", "．", ". ", "、", " ")
_SEARCH_SHARE = 8


@dataclass(frozen=True, order=True)
class Window:
    """Characters `start` to `end` (exclusive) of a note."""

    start: int
    end: int

    def __post_init__(self) -> None:
        """Check the offsets, once."""
        if not 0 <= self.start < self.end:
            raise ValueError(f"a window goes from {self.start} to {self.end}")


def windows_of(text: str, *, size: int, overlap: int) -> tuple[Window, ...]:
    """Cut a text; the windows, of `size` characters at most, together hold every one of it.

    In the last eighth of a window the best place to end is looked for: behind a line end, a
    sentence, a word. `overlap` characters, at most half of `size`, are shared with the one before.
    """
    if not 0 <= 2 * overlap <= size or size < 1:
        raise ValueError(f"windows of {size} characters cannot overlap by {overlap}")
    windows: list[Window] = []
    start = 0
    while start < len(text):
        end = start + size
        is_last = end >= len(text)
        end = len(text) if is_last else _best_end(text, end - size // _SEARCH_SHARE, end)
        windows.append(Window(start, end))
        if is_last:
            break
        start = end - overlap
    return tuple(windows)


def _best_end(text: str, first: int, last: int) -> int:
    for mark in _BREAKS:
        at = text.rfind(mark, first, last)
        if at >= 0:
            return at + len(mark)
    return last


def from_windows(
    windows: Sequence[Window], spans_of: Sequence[Iterable[Span]], *, n_chars: int
) -> Tags:
    """Put the spans of windows together: from offsets inside each to those in the whole text.

    A span that is cut off by the edge of its window gives way to one that is not; two of one label
    that are both cut off are joined. Of two that disagree, the one with more text of its window
    around it stays.
    """
    best: dict[Span, tuple[bool, int]] = {}
    for window, spans in zip(windows, spans_of, strict=True):
        for span in spans:
            left, right = span.start, window.end - window.start - span.end
            is_whole = (left > 0 or window.start == 0) and (right > 0 or window.end == n_chars)
            margin = min(
                left if window.start else n_chars, right if window.end < n_chars else n_chars
            )
            moved = Span(span.start + window.start, span.end + window.start, span.label)
            best[moved] = max(best.get(moved, (False, -1)), (is_whole, margin))
    order = sorted(best, key=lambda span: (*(-int(x) for x in best[span]), -span.n_chars, span))
    kept = _without_overlap([span for span in order if best[span][0]], kept=[])
    cut = _joined(span for span in order if not best[span][0])
    return tuple(sorted(_without_overlap(cut, kept=kept)))


def _without_overlap(spans: Iterable[Span], *, kept: list[Span]) -> list[Span]:
    starts: dict[int, Span] = {}
    for span in kept:
        starts.update(dict.fromkeys(range(span.start, span.end), span))
    chosen = list(kept)
    for span in spans:
        places = range(span.start, span.end)
        if all(place not in starts for place in places):
            starts.update(dict.fromkeys(places, span))
            chosen.append(span)
    return chosen


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Join spans of one label that share a character; the longest come first."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.label, span)):
        last = joined[-1] if joined else None
        if last is not None and last.label == span.label and span.start < last.end:
            joined[-1] = Span(last.start, max(last.end, span.end), span.label)
        else:
            joined.append(span)
    return sorted(joined, key=lambda span: (-span.n_chars, span))


@dataclass(frozen=True)
class WindowedTagger:
    """A tagger that is asked about windows only, made to read notes of any length."""

    inner: Tagger
    size: int
    overlap: int

    def __post_init__(self) -> None:
        """Check the size, once."""
        windows_of("", size=self.size, overlap=self.overlap)

    @property
    def name(self) -> str:
        """What the tagger inside is called."""
        return self.inner.name

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of the tagger inside."""
        return self.inner.labels

    @property
    def digest(self) -> str:
        """SHA-256 of the tagger inside and the windows."""
        settings = f"{self.inner.digest} {self.size} {self.overlap}"
        return hashlib.sha256(settings.encode()).hexdigest()

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text; all windows are given to the tagger in one call."""
        windows = [windows_of(text, size=self.size, overlap=self.overlap) for text in texts]
        pieces = [
            text[window.start : window.end]
            for text, cut in zip(texts, windows, strict=True)
            for window in cut
        ]
        answers = list(self.inner.tag(pieces)) if pieces else []
        if len(answers) != len(pieces):
            raise ValueError(f"{self.name}: {len(answers)} answers for {len(pieces)} windows")
        tags, at = [], 0
        for text, cut in zip(texts, windows, strict=True):
            tags.append(from_windows(cut, answers[at : at + len(cut)], n_chars=len(text)))
            at += len(cut)
        return tuple(tags)
