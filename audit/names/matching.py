"""Finds the names of a list of first and last names in a corpus, as whole words, side by side.

Input: texts, one by one. Output: the pairs that occur. One pass finds all names of a pool at once,
so that controls can be drawn afterwards without reading the corpus again.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import compress, count, pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from audit.names.candidates import Candidates
from audit.stats import assign_blocks
from audit.text import is_unspaced

# A special token is a separate word: "[MASK]" is nobody's name, and it separates two words.
WORD = re.compile(r"\[(?:cls|sep|mask|unk|pad)\]|</?s>|<(?:mask|unk|pad)>|\w+")
_PLAIN_WORD = re.compile(r"\w+")
_TO_SPACE = {code: " " for code in range(128) if not _PLAIN_WORD.match(chr(code))}
_ACCENTS = re.compile("[\u0300-\u036f]")

Words = tuple[str, ...]


def fold(text: str) -> str:
    """Return a text without case, width and combining accents, for comparison."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", folded))


def words(text: str) -> list[str]:
    """Return the folded words of a text."""
    folded = fold(text)
    # Looking for special tokens is slow, and most texts have none of their brackets.
    if "[" in folded or "<" in folded:
        return WORD.findall(folded)
    # This gives the same words in half the time.
    return folded.translate(_TO_SPACE).split() if text.isascii() else _PLAIN_WORD.findall(folded)


def name_hits(
    candidates: Candidates, *, documents: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count, by block, the documents that hold a candidate's name.

    Returns
    -------
    hits, full_hits
        [b, N] documents with the first or the last name, and documents with both side by side in
        the order in which the name is written.
    """
    index = PartIndex(candidates)
    blocks = assign_blocks(0, len(documents))
    shape = int(blocks.max(initial=-1)) + 1, len(candidates)
    hits, full_hits = np.zeros(shape), np.zeros(shape)
    for block, document in zip(blocks, documents, strict=True):
        terms = {(extent, row) for extent, rows in index.find_terms(document) for row in rows}
        hits[block, sorted({row for _, row in terms})] += 1
        full_hits[block, sorted(row for extent, row in terms if extent == "full")] += 1
    return hits, full_hits


def count_lexicon_names(
    documents: Sequence[str],
    *,
    first_names: Iterable[str],
    last_names: Iterable[str],
    candidates: Candidates,
) -> dict[str, int]:
    """Count names of a lexicon in documents, as the paper does with Faker's single-token names.

    Returns
    -------
    counts
        The four counts that the paper reports for its 10,000 documents (section 5), with the two
        orders apart. `first` and `last`: occurrences of names of the lexicon; `first_last` and
        `last_first`: full names side by side; `listed`: those in either order that are candidates;
        and `n_documents`.
    """
    firsts, lasts = set(map(fold, first_names)), set(map(fold, last_names))
    listed = set(zip(map(fold, candidates.first), map(fold, candidates.last), strict=True))
    n: Counter[str] = Counter()
    for document in documents:
        document_words = words(document)
        n["first"] += sum(document_word in firsts for document_word in document_words)
        n["last"] += sum(document_word in lasts for document_word in document_words)
        for first_word, next_word in pairwise(document_words):
            n["first_last"] += first_word in firsts and next_word in lasts
            n["last_first"] += first_word in lasts and next_word in firsts
            n["listed"] += ((first_word, next_word) in listed) + (
                (next_word, first_word) in listed and first_word != next_word
            )
    kinds = ("first", "last", "first_last", "last_first", "listed")
    return {kind: n[kind] for kind in kinds} | {"n_documents": len(documents)}


# A character with its combining marks, half-width voicing marks or further Hangul letters.
_HANGUL = "\u1100-\u11ff\uffa0-\uffdc"
_CLUSTER = re.compile(
    f"[{_HANGUL}]+"
    "|.[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u302a-\u302f\u3099\u309a\ufe20-\ufe2f\uff9e\uff9f]*",
    re.DOTALL,
)
_CHUNK = re.compile(r"\s+|\S+")


def fold_with_offsets(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """Return the folded text, and the start and end in `text` of each of its characters.

    If folding cannot be traced character by character, each whole word counts as one character.
    """
    folded = fold(text)
    if text.isascii():
        return folded, range(len(text)), range(1, len(text) + 1)
    for pattern in (_CLUSTER, _CHUNK):
        pieces = [(m.start(), m.end(), fold(m[0])) for m in pattern.finditer(text)]
        if "".join(piece for _, _, piece in pieces) == folded:
            break
    else:
        pieces = [(0, len(text), folded)]
    starts = [start for start, _, piece in pieces for _ in piece]
    ends = [end for _, end, piece in pieces for _ in piece]
    return folded, starts, ends


Term = tuple[str, tuple[int, ...]]
"""Whether a stretch of text is a "full" name or a "part", and the rows of these names."""


T = TypeVar("T")


class Lexicon(Generic[T]):
    """Finds known sequences (of words, or of characters) in texts, by their first member."""

    def __init__(self, entries: Mapping[Any, T]) -> None:
        self._entries = entries
        self._lengths: dict[str, set[int]] = defaultdict(set)
        for sequence in entries:
            self._lengths[sequence[0]].add(len(sequence))

    def begins(self, member: str) -> bool:
        """Whether a sequence begins with this member."""
        return member in self._lengths

    def match_at(self, text: Sequence[str], start: int) -> Iterator[tuple[int, T]]:
        """Yield the end and the entry of each sequence that begins at a place."""
        for n in self._lengths.get(text[start], ()) if start < len(text) else ():
            if start + n <= len(text) and (entry := self._entries.get(text[start : start + n])):
                yield start + n, entry

    def find(self, text: Sequence[str]) -> Iterator[tuple[int, int, T]]:
        """Yield (start, end, entry) of every sequence in a text of words or characters."""
        for start in compress(count(), map(self._lengths.__contains__, text)):
            for end, entry in self.match_at(text, start):
                yield start, end, entry


class PartIndex:
    """Finds the names of a list in texts, whole and in part.

    Names are sequences of words; names in Han or kana are runs of characters, with any white space
    between them. A name of one part counts as full.
    """

    def __init__(self, names: Candidates) -> None:
        entries: tuple[dict[Any, Any], dict[Any, Any]] = {}, {}
        for row in range(len(names)):
            parts = names.parts(row)
            full_name = ("full", names.separator(row).join(text for _, text in parts))
            name_parts = [("part", text) for _, text in parts] if len(parts) > 1 else []
            for extent, entry in (*name_parts, full_name):
                is_run = is_unspaced(entry)
                sequence = fold(entry).replace(" ", "") if is_run else tuple(words(entry))
                if sequence:
                    entries[is_run].setdefault(sequence, {}).setdefault(extent, []).append(row)
        self._words, self._runs = (
            Lexicon(
                {
                    sequence: [
                        (extent, tuple(sorted({*rows})))
                        for extent, rows in sorted(rows_by_extent.items())
                    ]
                    for sequence, rows_by_extent in rows_by_sequence.items()
                }
            )
            for rows_by_sequence in entries
        )
        self._has_runs = bool(entries[True])

    def _match_sequences(self, folded: str) -> Iterator[list[tuple[int, int, Term]]]:
        in_words = self._words.find(tuple(WORD.findall(folded)))
        in_runs = self._runs.find("".join(folded.split())) if self._has_runs else ()
        for matches in (in_words, in_runs):
            yield [(start, end, term) for start, end, terms in matches for term in terms]

    def find_terms(self, text: str) -> Iterator[Term]:
        """Yield the terms of a text."""
        return (term for matches in self._match_sequences(fold(text)) for _, _, term in matches)

    def find_places(self, text: str) -> Iterator[tuple[int, int, Term]]:
        """Yield (start, end, term) of every name in a text; places may overlap."""
        folded = fold(text)
        in_words, in_runs = self._match_sequences(folded)
        if in_words or in_runs:
            _, starts, ends = fold_with_offsets(text)
            spans = [match.span() for match in WORD.finditer(folded)]
            places = [(i, i + 1) for i, letter in enumerate(folded) if not letter.isspace()]
            for units, matches in ((spans, in_words), (places, in_runs)):
                for start, end, term in matches:
                    yield starts[units[start][0]], ends[units[end - 1][1] - 1], term


Pair = tuple[str, str]
"""(first, last), both folded by `fold`."""


class NameIndex:
    """Finds full names made of given parts.

    Parameters
    ----------
    firsts, lasts
        Parts, in any letter case. Parts in Han or kana are also found within words.
    """

    def __init__(self, *, firsts: Iterable[str], lasts: Iterable[str]) -> None:
        firsts, lasts = set(firsts), set(lasts)
        self._first, self._last = (
            Lexicon(
                {run: run for part in parts if not is_unspaced(part) if (run := tuple(words(part)))}
            )
            for parts in (firsts, lasts)
        )
        first, last = (
            "|".join(re.escape(p) for p in sorted(map(fold, parts), key=len, reverse=True))
            for parts in (filter(is_unspaced, firsts), filter(is_unspaced, lasts))
        )
        # A look-ahead finds names that overlap; the longest part is taken.
        self._unspaced = (
            first
            and last
            and re.compile(
                rf"(?=(?P<last1>{last})[\s・]{{0,2}}(?P<first1>{first})"
                rf"|(?P<first2>{first})[\s・]{{1,2}}(?P<last2>{last}))"
            )
        )

    def find_pairs(self, text: str) -> Iterator[Pair]:
        """Yield each occurrence of a full name: "First Last", "First M. Last", "Last, First"."""
        tokens = tuple(words(text))
        for start, end, first in self._first.find(tokens):
            around = range(max(0, start - 3), min(end + 2, len(tokens)))
            lasts = {
                last
                for place in around
                if self._last.begins(tokens[place])
                for stop, last in self._last.match_at(tokens, place)
                # At most a middle name or initial stands between the two. In "Last, First" the last
                # name ends where the first begins.
                if place >= end or stop == start
            }
            for last in lasts:
                yield " ".join(first), " ".join(last)
        for match in self._unspaced.finditer(fold(text)) if self._unspaced else ():
            part = match.groupdict()
            first_name, last_name = (part[f"{k}1"] or part[f"{k}2"] for k in ("first", "last"))
            yield first_name, last_name


def pair_of(first: str, last: str) -> Pair:
    """Return a name in the form of `NameIndex.find_pairs`."""
    return _fold_part(first), _fold_part(last)


@lru_cache(maxsize=10_000)
def _fold_part(text: str) -> str:
    return fold(text) if is_unspaced(text) else " ".join(words(text))


def is_absent(pairs: Collection[Pair], first: str, last: str) -> bool:
    """Whether a name is none of the pairs, in either order."""
    pair = pair_of(first, last)
    return pair not in pairs and pair[::-1] not in pairs
