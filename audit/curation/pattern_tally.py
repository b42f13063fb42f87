"""A tally of patient-name patterns: occurrences and distinct patterns of each name, in little room.

Comes in: patterns, one by one. Goes out: counts by name, and patterns that stand for them where a
function wants patterns. Texts are kept as numbers of 64 bits, so that millions of patterns fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from audit.corpora.mention_passages import NamePattern
from audit.corpora.passages import Passage
from audit.curation.number_set import NumberSet
from audit.membership.controls import Accepts, Name
from audit.membership.corpus_candidates import CountTable, count_table
from audit.membership.corpus_names import Pair, pair_of

_NOWHERE = Passage("", ("full",), "", "", "", None)


class PatternTally:
    """Counts of one role's patterns; names that will not do are counted apart."""

    def __init__(self, *, accepts: Accepts | None = None) -> None:
        self._accepts = accepts
        self._names: dict[Pair, Name] = {}
        self._refused: set[Pair] = set()
        self._n_mentions: dict[Pair, int] = {}
        self._n_patterns: dict[Pair, int] = {}
        self._seen = NumberSet()

    def add(self, first: str, last: str, *, text_hash: int) -> tuple[bool, bool]:
        """Count a pattern; return whether its name will do, and whether the pattern is a new one.

        Parameters
        ----------
        text_hash
            From `hash_of` the pattern's text.
        """
        pair = pair_of(first, last)
        if pair in self._refused:
            return False, False
        if pair not in self._names:
            if not (first and last) or (self._accepts and not self._accepts(first, last)):
                self._refused.add(pair)
                return False, False
            self._names[pair] = (first, last)
            self._n_mentions[pair] = self._n_patterns[pair] = 0
        is_new = self._seen.add(hash_of(f"{pair[0]}\0{pair[1]}\0{text_hash}"))
        self._n_mentions[pair] += 1
        self._n_patterns[pair] += is_new
        return True, is_new

    def __len__(self) -> int:
        return len(self._names)

    @property
    def n_refused(self) -> int:
        """Names that will not do."""
        return len(self._refused)

    @property
    def names(self) -> tuple[Name, ...]:
        """The names in the order in which they first occur."""
        return tuple(self._names.values())

    @property
    def pattern_table(self) -> CountTable:
        """Names by distinct patterns (table 3)."""
        return count_table(self._n_patterns.values())

    @property
    def mention_table(self) -> CountTable:
        """Names by occurrences (table 4)."""
        return count_table(self._n_mentions.values())

    def stand_ins(self, names: Collection[Name], *, role: str = "patient") -> Iterator[NamePattern]:
        """Yield patterns with the same counts for the given names; their texts are numbers."""
        for first, last in names:
            pair = pair_of(first, last)
            n_again = self._n_mentions[pair] - self._n_patterns[pair]
            texts = [str(number) for number in range(self._n_patterns[pair])]
            for text in [*texts, *texts[:1] * n_again]:
                yield NamePattern("", "", role, first, last, "is_a", text, _NOWHERE)


def hash_of(text: str) -> int:
    """Return a number of 64 bits for a text, the same in every process."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
