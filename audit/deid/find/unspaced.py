"""The borders of names in Japanese, which puts no spaces between words.

A span grows over the rest of its run of katakana. A span in Han characters grows over a listed
given name behind its surname, or over the end of a given name that was cut.
"""

from __future__ import annotations

import re
from functools import cache

from audit.deid.find.network.word_lists import japanese_names
from audit.notes.patterns import HAN, KATA
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, Span

_KATA_BEFORE = re.compile(f"[{KATA}ｦ-ﾟ]+$")
_KATA_BEHIND = re.compile(f"[{KATA}ｦ-ﾟ]+")
_FOREIGN = re.compile(f"[{KATA}・=＝]+")
_FOREIGN_BEFORE = re.compile(f"(?:[{KATA}]+[・=＝])+[{KATA}]*$")
_FOREIGN_BEHIND = re.compile(f"[{KATA}]*(?:[・=＝][{KATA}]+)+")
_TITLE = re.compile(
    "(?:コーチ|マネー?ジャー|ケアマネ(?:ジャー)?|ヘルパー|スタッフ|ドクター|ナース|リーダー|キャプテン|サン|サマ)$"
)
_HAN = re.compile(f"[{HAN}]+")
_MAX_GROWTH = 40
_MAX_GIVEN = 3
"""Han characters of a given name; only a handful of names have more."""


def extend_japanese_span(text: str, span: Span, *, min_start: int, max_end: int) -> Span:
    """Return a span of a name or place, extended over the rest of its word.

    Parameters
    ----------
    text
        The folded note.
    min_start, max_end
        The end of the span before it, and the start of the next span.
    """
    if span.label not in (IDENTIFIER, QUASI_IDENTIFIER):
        return span
    start, end = _find_katakana_borders(text, span, min_start=min_start, max_end=max_end)
    span_text = text[start:end]
    if _HAN.fullmatch(span_text):
        end = _find_name_end(text, start, end, max_end=max_end)
    return span if (start, end) == (span.start, span.end) else Span(start, end, span.label)


def is_katakana(word: str) -> bool:
    """Whether a word, or several words with middle dots between them, is all in katakana."""
    return _FOREIGN.fullmatch(word) is not None


def _find_katakana_borders(
    text: str, span: Span, *, min_start: int, max_end: int
) -> tuple[int, int]:
    start, end = span.start, span.end
    is_name = span.label == IDENTIFIER
    if _KATA_BEHIND.match(text, start):
        text_before = text[max(min_start, start - _MAX_GROWTH) : start]
        match = (is_name and _FOREIGN_BEFORE.search(text_before)) or _KATA_BEFORE.search(
            text_before
        )
        start -= len(match[0]) if match else 0
    if _KATA_BEHIND.match(text, end - 1):
        stop = min(max_end, end + _MAX_GROWTH)
        match = (is_name and _FOREIGN_BEHIND.match(text, end, stop)) or _KATA_BEHIND.match(
            text, end, stop
        )
        end = match.end() if match else end
        if title := _TITLE.search(text, span.end, end):
            end = title.start()
    return start, end


def _find_name_end(text: str, start: int, end: int, *, max_end: int) -> int:
    """Return the end of a name in Han characters that was found from `start` to `end`.

    A listed given name behind the surname belongs to the name. The name was cut if it begins with
    a surname and at most two characters follow in its run, all of which occur in given names.
    """
    run = _HAN.match(text, start, min(max_end, start + _MAX_GROWTH))
    if run is None or run.end() <= end:
        return end
    names, n_chars = japanese_names(), end - start
    for n_last in (3, 2, 1):
        if n_last > n_chars or run[0][:n_last] not in names.surnames:
            continue
        given_chars = run[0][n_last : n_last + _MAX_GIVEN]
        for n in range(len(given_chars), n_chars - n_last, -1):
            if given_chars[:n] in names.given_names:
                return start + n_last + n
    rest = run[0][n_chars:]
    prefix = run[0][:n_chars]
    has_surname = prefix in names.surnames or (n_chars > 2 and prefix[:2] in names.surnames)
    is_cut = has_surname and len(rest) <= 2 and _given_characters().issuperset(rest)
    return run.end() if is_cut else end


@cache
def _given_characters() -> frozenset[str]:
    """Return the Han characters that occur in listed given names."""
    return frozenset(
        char for name in japanese_names().given_names if _HAN.fullmatch(name) for char in name
    )
