"""Which names of a list of first and last names occur in a corpus, as whole words, side by side.

Comes in: texts, one by one. Goes out: pairs that occur. One pass answers for all names of a pool
at once, so that controls can be drawn after it without reading the corpus again.
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

# A special token is a word of its own: "[MASK]" is nobody of that name, and still parts two words.
WORD = re.compile(r"\[(?:cls|sep|mask|unk|pad)\]|</?s>|<(?:mask|unk|pad)>|\w+")
_PLAIN_WORD = re.compile(r"\w+")
_TO_SPACE = {code: " " for code in range(128) if not _PLAIN_WORD.match(chr(code))}
_ACCENTS = re.compile("[\u0300-\u036f]")

Words = tuple[str, ...]


def fold(text: str) -> str:
    """Return text as it is compared: no case, no width, no combining accents."""
    if text.isascii():
        return text.lower()
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", folded))


def words(text: str) -> list[str]:
    """Return the words of a text as they are compared."""
    folded = fold(text)
    # Special tokens cost each character a look; most texts have none of their brackets.
    if "[" in folded or "<" in folded:
        return WORD.findall(folded)
    # The same words in half the time.
    return folded.translate(_TO_SPACE).split() if text.isascii() else _PLAIN_WORD.findall(folded)


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
    index = PartIndex(candidates)
    blocks = assign_blocks(0, len(documents))
    shape = int(blocks.max(initial=-1)) + 1, len(candidates)
    hits, full_hits = np.zeros(shape), np.zeros(shape)
    for block, document in zip(blocks, documents, strict=True):
        found = {(what, row) for what, rows in index.terms(document) for row in rows}
        hits[block, sorted({row for _, row in found})] += 1
        full_hits[block, sorted(row for what, row in found if what == "full")] += 1
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
        The four counts that the paper reports for its 10,000 documents (section 5), both orders
        apart: occurrences of `first` and of `last` names of the lexicon; of full names side by
        side as `first_last` and `last_first`; of those in either order that are candidates,
        `listed`; and `n_documents`.
    """
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
    return {kind: n[kind] for kind in kinds} | {"n_documents": len(documents)}


# A character with what is composed with it: combining marks, half-width voicing, Hangul letters.
_HANGUL = "\u1100-\u11ff\uffa0-\uffdc"
_CLUSTER = re.compile(
    f"[{_HANGUL}]+"
    "|.[\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0900-\u0903\u093a-\u094f"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\u302a-\u302f\u3099\u309a\ufe20-\ufe2f\uff9e\uff9f]*",
    re.DOTALL,
)
_CHUNK = re.compile(r"\s+|\S+")


def fold_with_offsets(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """Return text as it is compared, and where each of its characters begins and ends in it.

    Where folding cannot be followed character by character, whole words are given as one.
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
"""What a stretch of text is, "full" or "part", and of which rows' names."""


T = TypeVar("T")


class Lexicon(Generic[T]):
    """What is known of sequences (of words, or of characters), found by their first member."""

    def __init__(self, known: Mapping[Any, T]) -> None:
        self._known = known
        self._lengths: dict[str, set[int]] = defaultdict(set)
        for sequence in known:
            self._lengths[sequence[0]].add(len(sequence))

    def begins(self, member: str) -> bool:
        """Whether a sequence begins with it."""
        return member in self._lengths

    def at(self, text: Sequence[str], start: int) -> Iterator[tuple[int, T]]:
        """Yield where each sequence ends that begins at a place, and what is known of it."""
        for n in self._lengths.get(text[start], ()) if start < len(text) else ():
            if start + n <= len(text) and (known := self._known.get(text[start : start + n])):
                yield start + n, known

    def find(self, text: Sequence[str]) -> Iterator[tuple[int, int, T]]:
        """Yield (start, end, what is known) of every sequence in a text of words or characters."""
        for start in compress(count(), map(self._lengths.__contains__, text)):
            for end, known in self.at(text, start):
                yield start, end, known


class PartIndex:
    """Finds the names of a list in texts, whole and in part.

    Names are sequences of words; in Han or kana runs of characters, whatever white space stands
    between. A name of one part is found in full.
    """

    def __init__(self, names: Candidates) -> None:
        found: tuple[dict[Any, Any], dict[Any, Any]] = {}, {}
        for row in range(len(names)):
            parts = names.parts(row)
            whole = ("full", names.separator(row).join(text for _, text in parts))
            own = [("part", text) for _, text in parts] if len(parts) > 1 else []
            for what, entry in (*own, whole):
                is_run = is_unspaced(entry)
                sequence = fold(entry).replace(" ", "") if is_run else tuple(words(entry))
                if sequence:
                    found[is_run].setdefault(sequence, {}).setdefault(what, []).append(row)
        self._words, self._runs = (
            Lexicon(
                {
                    sequence: [(what, tuple(sorted({*rows}))) for what, rows in sorted(of.items())]
                    for sequence, of in one.items()
                }
            )
            for one in found
        )
        self._has_runs = bool(found[True])

    def _found(self, folded: str) -> Iterator[list[tuple[int, int, Term]]]:
        in_words = self._words.find(tuple(WORD.findall(folded)))
        in_runs = self._runs.find("".join(folded.split())) if self._has_runs else ()
        for found in (in_words, in_runs):
            yield [(start, end, term) for start, end, terms in found for term in terms]

    def terms(self, text: str) -> Iterator[Term]:
        """Yield what stands in a text."""
        return (term for found in self._found(fold(text)) for _, _, term in found)

    def places(self, text: str) -> Iterator[tuple[int, int, Term]]:
        """Yield (start, end, what stands there) of every place in a text; they may overlap."""
        folded = fold(text)
        in_words, in_runs = self._found(folded)
        if in_words or in_runs:
            _, starts, ends = fold_with_offsets(text)
            spans = [match.span() for match in WORD.finditer(folded)]
            places = [(i, i + 1) for i, letter in enumerate(folded) if not letter.isspace()]
            for units, found in ((spans, in_words), (places, in_runs)):
                for at, end, term in found:
                    yield starts[units[at][0]], ends[units[end - 1][1] - 1], term


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
        # Looking ahead, so that names that overlap are all found; the longest part is taken.
        self._unspaced = (
            first
            and last
            and re.compile(
                rf"(?=(?P<last1>{last})[\s・]{{0,2}}(?P<first1>{first})"
                rf"|(?P<first2>{first})[\s・]{{1,2}}(?P<last2>{last}))"
            )
        )

    def pairs(self, text: str) -> Iterator[Pair]:
        """Yield full names as often as they occur: "First Last", "First M. Last", "Last, First"."""
        tokens = tuple(words(text))
        for start, end, first in self._first.find(tokens):
            around = range(max(0, start - 3), min(end + 2, len(tokens)))
            lasts = {
                last
                for at in around
                if self._last.begins(tokens[at])
                for stop, last in self._last.at(tokens, at)
                # A middle name or initial at most between the two; or "Last, First": the last name
                # ends where the first begins.
                if at >= end or stop == start
            }
            for last in lasts:
                yield " ".join(first), " ".join(last)
        for match in self._unspaced.finditer(fold(text)) if self._unspaced else ():
            part = match.groupdict()
            first_name, last_name = (part[f"{k}1"] or part[f"{k}2"] for k in ("first", "last"))
            yield first_name, last_name


def pair_of(first: str, last: str) -> Pair:
    """Return a name as `NameIndex.pairs` writes it."""
    return _part(first), _part(last)


@lru_cache(maxsize=10_000)
def _part(text: str) -> str:
    return fold(text) if is_unspaced(text) else " ".join(words(text))


def is_absent(taken: Collection[Pair], first: str, last: str) -> bool:
    """Whether a name is none of those taken, in either order."""
    pair = pair_of(first, last)
    return pair not in taken and pair[::-1] not in taken
