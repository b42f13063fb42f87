"""Find the sentences of a clinical text by rules, in English and Japanese.

Input: a text. Output: offsets; the text itself does not change. The time is linear in its length.

A full stop ends a sentence unless it belongs to a title, an abbreviation, an initial, a number, the
number of a list item, or a placeholder. An empty line also ends a sentence, and so does a line
break if the next line begins like a list item or a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from audit.text import word_lists

_LISTS = word_lists(Path(__file__).with_suffix(".txt"))
# One character class before the alternatives lets the search skip other characters quickly.
_STOP = re.compile(
    r"[\[\n。．！？.!?](?:"
    r"(?P<placeholder>(?<=\[)\*\*[^\[\]]{0,200}\*\*\])"
    r"|(?P<empty>(?<=\n)[ \t\r\f\v]{0,80}\n\s{0,80})"
    r"|(?P<line>(?<=\n)[ \t]{0,40}(?=(?:\d{1,2}[.)]|[-*•·#])[ \t]|[A-Z][A-Za-z /&]{1,40}:))"
    r"|(?P<wide>(?<=[。．！？])[。．！？]*[」』）)”]{0,2})"
    r"|(?P<end>(?<=[.!?])[.!?]*[\"'”’)\]]{0,2}(?=\s|$)))"
)
_WORD_BEFORE = re.compile(r"(?:[^\W_]+(?:\.[^\W_]+){0,4})\Z")
_LONGEST_WORD = 24
_INITIAL = re.compile(r"\[\*\*[^\[\]]{0,20}[Ii]nitial[^\[\]]{0,40}\*\*\]\Z")
_LONGEST_INITIAL = 80
_WIDE_NUMBER = re.compile(r"[0-9０-９]．[0-9０-９]")


def find_sentences(text: str, *, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each sentence from `start` on, without the white space around it."""
    begin = start
    for match in _STOP.finditer(text, start):
        if match["placeholder"] is not None or not _is_sentence_end(text, match):
            continue
        span = _strip_span(text, begin, match.end())
        begin = match.end()
        if span[0] < span[1]:
            yield span
    span = _strip_span(text, begin, len(text))
    if span[0] < span[1]:
        yield span


def find_sentences_end(text: str, *, start: int, n: int) -> int:
    """Return the end of the n-th sentence from `start` on; `start` if there is no sentence.

    A sentence that begins before `start` counts from `start` on.
    """
    end = start
    for span in islice(find_sentences(text, start=start), n):
        end = span[1]
    return end


def find_sentence_start(text: str, *, offset: int, reach: int = 400) -> int:
    """Return the start of the sentence at `offset`; `offset` if the start is out of reach."""
    first = max(0, offset - reach)
    sentence_start = first if first == 0 else offset
    for begin, end in find_sentences(text[: offset + 1], start=first):
        # `first` may lie in the middle of a sentence; that is not the start of one.
        if begin <= offset < end and (begin > first or first == 0):
            sentence_start = begin
    return sentence_start


def _is_sentence_end(text: str, match: re.Match[str]) -> bool:
    if match["wide"] is not None:
        return not _WIDE_NUMBER.match(text, max(0, match.start() - 1))
    if match["end"] is None or not match[0].startswith(".") or match[0].startswith(".."):
        return True
    return _is_full_stop_end(text, match)


def _is_full_stop_end(text: str, match: re.Match[str]) -> bool:
    stop = match.start()
    if _INITIAL.search(text, max(0, stop - _LONGEST_INITIAL), stop):
        return False
    word_match = _WORD_BEFORE.search(text, max(0, stop - _LONGEST_WORD), stop)
    if word_match is None:
        return True
    word = word_match[0]
    following = text[match.end() : match.end() + 3].lstrip()
    if word.isdigit() and len(word) <= 2:  # a list's number
        _, line_end, line = text[max(0, word_match.start() - 40) : word_match.start()].rpartition(
            "\n"
        )
        if not word_match.start() or (line_end and not line.strip()):
            return False
    if len(word) == 1 and word.isupper():
        return False  # an initial
    folded = word.lower()
    if folded in _LISTS["may_close"]:
        return following[:1].isupper() or not following
    return folded not in _LISTS["abbreviations"]


def _strip_span(text: str, start: int, end: int) -> tuple[int, int]:
    sentence = text[start:end]
    begin = start + len(sentence) - len(sentence.lstrip())
    return begin, begin + len(sentence.strip())
