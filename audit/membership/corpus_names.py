"""Which names of a list of first and last names occur in a corpus, as whole words, side by side.

Comes in: texts, one by one. Goes out: pairs that occur. One pass answers for all names of a pool
at once, so that controls can be drawn after it without reading the corpus again.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable

from audit.membership.matching import fold, words
from audit.names import is_unspaced

Pair = tuple[str, str]
"""(first, last) as `audit.membership.matching.fold` writes them."""

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
