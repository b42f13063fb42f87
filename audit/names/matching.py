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

Words = tuple[str, ...]


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


class _Runs:
    """Runs of words, found by the first of them."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.by_word: dict[str, set[Words]] = defaultdict(set)
        for text in texts:
            if run := tuple(words(text)):
                self.by_word[run[0]].add(run)

    def at(self, tokens: Sequence[str], place: int) -> Iterator[Words]:
        """Yield the runs that begin at a place."""
        if 0 <= place < len(tokens):
            for run in self.by_word.get(tokens[place], ()):
                if tuple(tokens[place : place + len(run)]) == run:
                    yield run


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
    # What is looked for -> (0: a part, 1: the full name; the row); a name of one part is full.
    by_words: dict[Words, list[tuple[int, int]]] = defaultdict(list)
    by_characters: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for row in range(len(candidates)):
        parts = [text for _, text in candidates.parts(row)]
        full = candidates.separator(row).join(parts)
        for place, text in ((1, full), *((0, part) for part in parts)):
            if is_unspaced(text):
                by_characters[fold(text).replace(" ", "")].append((place, row))
            else:
                by_words[tuple(words(text))].append((place, row))
    runs = _Runs(map(" ".join, by_words))
    blocks = blocks_of(0, len(documents))
    hits = np.zeros((2, int(blocks.max(initial=-1)) + 1, len(candidates)))
    for block, document in zip(blocks, documents, strict=True):
        tokens = words(document)
        joined = re.sub(r"\s+", "", fold(document))
        found = {hit for at in range(len(tokens)) for run in runs.at(tokens, at)
                 for hit in by_words[run]}  # fmt: skip
        found.update(h for run, own in by_characters.items() if run in joined for h in own)
        either = sorted({row for _, row in found})
        hits[0, block, either] += 1
        hits[1, block, sorted(row for is_full, row in found if is_full)] += 1
    return hits[0], hits[1]


def count_lexicon_names(
    documents: Sequence[str],
    *,
    first_names: Iterable[str],
    last_names: Iterable[str],
    candidates: Candidates,
) -> NameCounts:
    """Count names of a lexicon in documents, as the paper does with Faker's single-token names."""
    firsts, lasts = set(map(fold, first_names)), set(map(fold, last_names))
    listed = set(zip(map(fold, candidates.first), map(fold, candidates.last), strict=True))
    n: Counter[str] = Counter()
    for document in documents:
        found = words(document)
        n["first"] += sum(word in firsts for word in found)
        n["last"] += sum(word in lasts for word in found)
        for one, two in pairwise(found):
            n["first_last"] += one in firsts and two in lasts
            n["last_first"] += one in lasts and two in firsts
            n["listed"] += ((one, two) in listed) + ((two, one) in listed and one != two)
    kinds = ("first", "last", "first_last", "last_first", "listed")
    return NameCounts(**{kind: n[kind] for kind in kinds}, n_documents=len(documents))


Pair = tuple[str, str]
"""(first, last) as `audit.names.matching.fold` writes them."""


class NameIndex:
    """Finds full names made of given parts.

    Parameters
    ----------
    firsts, lasts
        Parts, in any case; those in Han or kana are found wherever their characters stand.
    """

    def __init__(self, *, firsts: Iterable[str], lasts: Iterable[str]) -> None:
        firsts, lasts = set(firsts), set(lasts)
        self._first = _Runs(part for part in firsts if not is_unspaced(part))
        self._last = _Runs(part for part in lasts if not is_unspaced(part))
        first, last = (
            "|".join(re.escape(p) for p in sorted(map(fold, parts), key=len, reverse=True))
            for parts in (filter(is_unspaced, firsts), filter(is_unspaced, lasts))
        )
        # Looking ahead, so that names that overlap are all found; the longest part is taken.
        self._unspaced = first and last and re.compile(
            rf"(?=(?P<last1>{last})[\s・]{{0,2}}(?P<first1>{first})"
            rf"|(?P<first2>{first})[\s・]{{1,2}}(?P<last2>{last}))"
        )  # fmt: skip

    def count(self, text: str) -> Counter[Pair]:
        """Return how often each full name occurs: "First Last", "First M. Last", "Last, First"."""
        found: Counter[Pair] = Counter()
        tokens = words(text)
        starts = [at for at, token in enumerate(tokens) if token in self._first.by_word]
        for start in starts:
            for first in self._first.at(tokens, start):
                end = start + len(first)
                # A middle name or initial at most between the two.
                lasts = {last for at in (end, end + 1) for last in self._last.at(tokens, at)}
                # "Last, First": the last name ends where the first begins.
                lasts |= {last for n in (1, 2, 3) for last in self._last.at(tokens, start - n)
                          if len(last) == n}  # fmt: skip
                found.update((" ".join(first), " ".join(last)) for last in lasts)
        if self._unspaced:
            for match in self._unspaced.finditer(fold(text)):
                part = match.groupdict()
                first_name, last_name = (
                    part["first1"] or part["first2"],
                    part["last1"] or part["last2"],
                )
                found[first_name, last_name] += 1
        return found


def pair_of(first: str, last: str) -> Pair:
    """Return a name as `NameIndex.count` writes it."""
    return _written(first), _written(last)


def _written(part: str) -> str:
    return fold(part) if is_unspaced(part) else " ".join(words(part))
