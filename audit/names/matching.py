"""Which names of a list of first and last names occur in a corpus, as whole words, side by side.

Comes in: texts, one by one. Goes out: pairs that occur. One pass answers for all names of a pool
at once, so that controls can be drawn after it without reading the corpus again.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from audit.names.candidates import Candidates
from audit.stats import blocks_of
from audit.text import is_unspaced

# A special token is a word of its own: "[MASK]" is nobody of that name, and still parts two words.
WORD = re.compile(r"\[(?:cls|sep|mask|unk|pad)\]|</?s>|<(?:mask|unk|pad)>|\w+")
_ACCENTS = re.compile("[\u0300-\u036f]")


@dataclass(frozen=True)
class NameCounts:
    """The four counts the paper reports for its 10,000 documents (section 5), both orders apart.

    `first` and `last` count occurrences of single-token names of the lexicon; `first_last` and
    `last_first` full names side by side; `listed` those full names, in either order, that are
    candidates; `n_documents` of how many documents.
    """

    first: int
    last: int
    first_last: int
    last_first: int
    listed: int
    n_documents: int


def fold(text: str) -> str:
    """Return text as it is compared: no case, no width, no combining accents."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", folded))


def words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    return WORD.findall(fold(text))


def name_hits(
    candidates: Candidates, *, documents: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Count, by block of documents, those that hold a candidate's name.

    Returns
    -------
    hits, full_hits
        [b, N] documents with the first or the last name; with both side by side, in the order in
        which the name is written.
    """
    index = _Index(candidates)
    blocks = blocks_of(0, len(documents))
    n_blocks = int(blocks.max(initial=-1)) + 1
    hits = np.zeros((n_blocks, len(candidates)))
    full_hits = np.zeros((n_blocks, len(candidates)))
    for block, document in zip(blocks, documents, strict=True):
        either, both = index.find(document)
        hits[block, sorted(either)] += 1
        full_hits[block, sorted(both)] += 1
    return hits, full_hits


def count_lexicon_names(
    documents: Sequence[str],
    *,
    first_names: Iterable[str],
    last_names: Iterable[str],
    candidates: Candidates,
) -> NameCounts:
    """Count names of a lexicon in documents, as the paper does with Faker's single-token names."""
    firsts, lasts = {fold(n) for n in first_names}, {fold(n) for n in last_names}
    listed = {(fold(f), fold(la)) for f, la in zip(candidates.first, candidates.last, strict=True)}
    n_first = n_last = n_forward = n_backward = n_listed = 0
    for document in documents:
        found = words(document)
        n_first += sum(word in firsts for word in found)
        n_last += sum(word in lasts for word in found)
        for one, two in pairwise(found):
            n_forward += one in firsts and two in lasts
            n_backward += one in lasts and two in firsts
            n_listed += ((one, two) in listed) + ((two, one) in listed and one != two)
    return NameCounts(n_first, n_last, n_forward, n_backward, n_listed, len(documents))


class _Index:
    """Parts of all candidates' names, by first word, or as characters where unspaced."""

    def __init__(self, candidates: Candidates) -> None:
        self._by_word: dict[str, list[tuple[tuple[str, ...], int, bool]]] = defaultdict(list)
        self._by_characters: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        for row in range(len(candidates)):
            parts = [text for _, text in candidates.parts(row)]
            entries = [(part, False) for part in parts]
            if len(parts) > 1:
                entries.append((candidates.separator(row).join(parts), True))
            else:
                entries.append((parts[0], True))
            for entry, is_full in entries:
                if is_unspaced(entry):
                    self._by_characters[fold(entry).replace(" ", "")].append((row, is_full))
                elif sequence := tuple(words(entry)):
                    self._by_word[sequence[0]].append((sequence, row, is_full))

    def find(self, document: str) -> tuple[set[int], set[int]]:
        """Return the rows with either part in the document, and those with the full name."""
        either: set[int] = set()
        both: set[int] = set()
        for row, is_full in self._found(document):
            (both if is_full else either).add(row)
        return either | both, both

    def _found(self, document: str) -> Iterator[tuple[int, bool]]:
        found = words(document)
        for position, word in enumerate(found):
            for sequence, row, is_full in self._by_word.get(word, ()):
                if tuple(found[position : position + len(sequence)]) == sequence:
                    yield row, is_full
        if self._by_characters:
            joined = re.sub(r"\s+", "", fold(document))
            for characters, entries in self._by_characters.items():
                if characters in joined:
                    yield from entries


Pair = tuple[str, str]
"""(first, last) as `audit.names.matching.fold` writes them."""

_GAP_WORDS = 1  # a middle name or initial at most between the two


class NameIndex:
    """Finds full names made of given parts.

    Parameters
    ----------
    firsts, lasts
        Parts, in any case; those in Han or kana are found wherever their characters stand.
    """

    def __init__(self, *, firsts: Iterable[str], lasts: Iterable[str]) -> None:
        firsts, lasts = set(firsts), set(lasts)
        self._first = _by_word(part for part in firsts if not is_unspaced(part))
        self._last = _by_word(part for part in lasts if not is_unspaced(part))
        self._japanese = _side_by_side(
            [fold(part) for part in firsts if is_unspaced(part)],
            [fold(part) for part in lasts if is_unspaced(part)],
        )

    def count(self, text: str) -> Counter[Pair]:
        """Return how often each full name occurs: "First Last", "First M. Last", "Last, First"."""
        found: Counter[Pair] = Counter()
        tokens = words(text)
        for position, word in enumerate(tokens):
            for first in self._first.get(word, ()):
                if tuple(tokens[position : position + len(first)]) == first:
                    end = position + len(first)
                    for last in self._beside(tokens, position, end):
                        found[" ".join(first), " ".join(last)] += 1
        for match in self._japanese.finditer(fold(text)) if self._japanese else ():
            given = str(match["first1"] or match["first2"])
            found[given, str(match["last1"] or match["last2"])] += 1
        return found

    def _beside(self, tokens: list[str], start: int, end: int) -> set[tuple[str, ...]]:
        found = set()
        for gap in range(_GAP_WORDS + 1):
            at = end + gap
            for last in self._last.get(tokens[at], ()) if at < len(tokens) else ():
                if tuple(tokens[at : at + len(last)]) == last:
                    found.add(last)
        # "Last, First": the last name ends where the first begins.
        for n_words in (1, 2, 3):
            before = tuple(tokens[max(0, start - n_words) : start])
            if len(before) == n_words and before in self._last.get(before[0], ()):
                found.add(before)
        return found


def pair_of(first: str, last: str) -> Pair:
    """Return a name as `NameIndex.count` writes it."""
    return _written(first), _written(last)


def _written(part: str) -> str:
    return fold(part) if is_unspaced(part) else " ".join(words(part))


def _by_word(parts: Iterable[str]) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for part in parts:
        if sequence := tuple(words(part)):
            found[sequence[0]].add(sequence)
    return {word: sorted(sequences) for word, sequences in found.items()}


def _side_by_side(firsts: list[str], lasts: list[str]) -> re.Pattern[str] | None:
    if not firsts or not lasts:
        return None
    first, last = (
        "|".join(map(re.escape, sorted(p, key=len, reverse=True))) for p in (firsts, lasts)
    )
    # Looking ahead, so that names that overlap are all found; the longest part is taken.
    return re.compile(
        rf"(?=(?P<last1>{last})[\s・]{{0,2}}(?P<first1>{first})"
        rf"|(?P<first2>{first})[\s・]{{1,2}}(?P<last2>{last}))"
    )
