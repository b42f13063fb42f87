"""Windows: nothing is lost at a border, nothing is there twice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from audit.deid.tagger import Tags, Window, from_windows, windows_of
from audit.notes.spans import Span

SIZES = st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n // 2)))
TEXTS = st.text(st.sampled_from("ab。 \n、"), max_size=200)


@st.composite
def annotated(draw: st.DrawFn) -> tuple[str, Tags]:
    """A text and spans of it that share no character."""
    text = draw(TEXTS)
    spans, at = [], 0
    while at < len(text):
        start = at + draw(st.integers(0, 12))
        end = start + draw(st.integers(1, 12))
        if end > len(text):
            break
        spans.append(Span(start, end, draw(st.sampled_from("xy"))))
        at = end
    return text, tuple(spans)


def seen(window: Window, spans: Sequence[Span]) -> list[Span]:
    """What a tagger that errs nowhere says about a window: it knows no text outside."""
    cut = [(max(s.start, window.start), min(s.end, window.end), s.label) for s in spans]
    return [Span(a - window.start, b - window.start, label) for a, b, label in cut if a < b]


@given(TEXTS, SIZES)
def test_windows_hold_every_character_and_are_no_larger_than_asked(
    text: str, sizes: tuple[int, int]
) -> None:
    size, overlap = sizes
    windows = windows_of(text, size=size, overlap=overlap)
    assert all(0 < window.end - window.start <= size for window in windows)
    assert {i for w in windows for i in range(w.start, w.end)} == set(range(len(text)))
    for one, other in pairwise(windows):
        assert one.start < other.start == one.end - overlap and one.end < other.end


@given(annotated(), SIZES)
def test_a_span_that_lies_whole_in_a_window_comes_out_as_it_was(
    note: tuple[str, Tags], sizes: tuple[int, int]
) -> None:
    text, spans = note
    size, overlap = sizes
    windows = windows_of(text, size=size, overlap=overlap)
    found = from_windows(windows, [seen(w, spans) for w in windows], n_chars=len(text))
    whole = {s for s in spans if any(w.start <= s.start and s.end <= w.end for w in windows)}
    assert whole <= set(found)
    assert whole >= {span for span in spans if span.n_chars <= overlap}
    assert list(found) == sorted(found)
    assert all(a.end <= b.start for a, b in pairwise(found))
    characters = {i for s in found for i in range(s.start, s.end)}
    assert characters == {i for s in spans for i in range(s.start, s.end)}


@given(annotated(), SIZES)
def test_a_span_longer_than_the_overlap_is_joined_again(
    note: tuple[str, Tags], sizes: tuple[int, int]
) -> None:
    text, spans = note
    size, overlap = sizes
    if overlap:
        windows = windows_of(text, size=size, overlap=overlap)
        found = from_windows(windows, [seen(w, spans) for w in windows], n_chars=len(text))
        assert found == spans


def test_of_two_that_disagree_the_one_with_more_text_around_it_stays() -> None:
    windows = (Window(0, 10), Window(4, 14))
    left, right = [Span(5, 9, "x")], [Span(1, 4, "y")]
    assert from_windows(windows, [left, right], n_chars=14) == (Span(5, 9, "x"),)
    at_the_edge = [Span(5, 10, "x")]
    assert from_windows(windows, [at_the_edge, right], n_chars=14) == (Span(5, 8, "y"),)


def test_windows_end_where_a_sentence_does() -> None:
    text = "a" * 90 + "。" + "b" * 60
    assert windows_of(text, size=100, overlap=20)[0] == Window(0, 91)
