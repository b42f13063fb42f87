"""Where names begin and end in Japanese, which puts no spaces between words.

A find takes the rest of its run of katakana. A find in Han characters takes what makes it a
surname and a given name of the lists, or the end of a given name that was cut.
"""

from __future__ import annotations

import re
from functools import cache

from audit.deid.network.word_lists import japanese_names
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
"""Han characters of the longest given names but a handful."""


def grown_find(text: str, span: Span, *, free: int, limit: int) -> Span:
    """Return a find of a name or place with the characters that its word goes on with.

    Parameters
    ----------
    text
        The folded note.
    free, limit
        Where the find before it ends, and where the next one begins.
    """
    if span.label not in (IDENTIFIER, QUASI_IDENTIFIER):
        return span
    start, end = _with_katakana(text, span, free=free, limit=limit)
    written = text[start:end]
    if _HAN.fullmatch(written):
        end = _end_of_name(text, start, end, limit=limit)
    return span if (start, end) == (span.start, span.end) else Span(start, end, span.label)


def is_katakana(written: str) -> bool:
    """Whether all of a word, or of words with middle dots between them, is katakana."""
    return _FOREIGN.fullmatch(written) is not None


def _with_katakana(text: str, span: Span, *, free: int, limit: int) -> tuple[int, int]:
    start, end = span.start, span.end
    is_name = span.label == IDENTIFIER
    if _KATA_BEHIND.match(text, start):
        before = text[max(free, start - _MAX_GROWTH) : start]
        match = (is_name and _FOREIGN_BEFORE.search(before)) or _KATA_BEFORE.search(before)
        start -= len(match[0]) if match else 0
    if _KATA_BEHIND.match(text, end - 1):
        stop = min(limit, end + _MAX_GROWTH)
        match = (is_name and _FOREIGN_BEHIND.match(text, end, stop)) or _KATA_BEHIND.match(
            text, end, stop
        )
        end = match.end() if match else end
        if title := _TITLE.search(text, span.end, end):
            end = title.start()
    return start, end


def _end_of_name(text: str, start: int, end: int, *, limit: int) -> int:
    """Return where a name in Han characters ends that was found from `start` to `end`.

    It takes a listed given name behind its surname. Where a surname, or more that begins with one,
    goes on with characters of given names alone, two at most, the name was cut.
    """
    run = _HAN.match(text, start, min(limit, start + _MAX_GROWTH))
    if run is None or run.end() <= end:
        return end
    names, n_found = japanese_names(), end - start
    for n_last in (3, 2, 1):
        if n_last > n_found or run[0][:n_last] not in names.family:
            continue
        given = run[0][n_last : n_last + _MAX_GIVEN]
        for n in range(len(given), n_found - n_last, -1):
            if given[:n] in names.given:
                return start + n_last + n
    rest = run[0][n_found:]
    begun = run[0][:n_found]
    has_surname = begun in names.family or (n_found > 2 and begun[:2] in names.family)
    is_cut = has_surname and len(rest) <= 2 and _given_characters().issuperset(rest)
    return run.end() if is_cut else end


@cache
def _given_characters() -> frozenset[str]:
    """Return the characters of listed given names."""
    return frozenset(
        char for name in japanese_names().given if _HAN.fullmatch(name) for char in name
    )
