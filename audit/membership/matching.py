"""Names in generated documents: whole words, whatever the case, never inside another word.

Comes in: documents as text, candidates. Goes out: hits by block, counts, offsets. Knows no model.

Source: Nakamura et al., sections 4.1 and 5 (a candidate is called positive if its first or last
name occurs in at least one generated document). What a word is the paper leaves open: here text
after the word pieces are joined, compared without case, width and accents. Scripts without spaces
(Han, kana) have no words to compare: there a part is found wherever its characters stand.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from audit.membership.candidates import Candidates, is_unspaced
from audit.membership.scores import blocks_of

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
