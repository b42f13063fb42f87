"""The people of a corpus: who is in its register or its truth, and how many carry each name.

Comes in: `people.jsonl`, and people that were found in the notes. Goes out: names by person, counts
by role, and the few people that a candidate list has to know.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from audit.corpora.build_summary import PEOPLE
from audit.curation.corpus_lines import read_line
from audit.curation.examine_batch import FoundPerson
from audit.curation.number_set import NumberSet
from audit.membership.candidates import Candidates
from audit.membership.controls import Name
from audit.membership.corpus_candidates import RegisteredPerson
from audit.membership.corpus_names import Pair, pair_of
from audit.names import fold_name, is_unspaced
from audit.randomness import generator


class People:
    """Names of the corpus's people.

    Parameters
    ----------
    folder
        Of the corpus.
    kind
        Of the corpus.
    """

    def __init__(self, folder: Path, *, kind: str) -> None:
        self._kind = kind
        self._of_person: dict[str, Name] = {}
        self._sex_of_person: dict[str, str] = {}
        self._written: dict[Pair, Name] = {}
        self._counts: dict[str, Counter[Pair]] = defaultdict(Counter)
        self._sexes: dict[Pair, str] = {}
        self._seen = NumberSet()
        self._kept: dict[str, str] = {}  # one string for each part, however many carry it
        self.n_patients = self.n_named = 0
        with (folder / PEOPLE).open("rb") as lines:
            for line in lines:
                self._read(read_line(line))

    def _read(self, record: dict[str, Any]) -> None:
        self.n_patients += 1
        self.n_named += record["n_full_names"] > 0
        if self._kind == "dummy":
            person, names = str(record["identity"]), [(record["first"], record["last"])]
        else:
            person = str(record["patient_id"])
            names = [(first, last) for first, _, last in record["names"]]
        names = [(self._one(first), self._one(last)) for first, last in names]
        pairs = {pair: name for name in names if all(pair := self._pair(name))}
        if len(names) == 1 and pairs:  # of several names the text says which one it is
            self._of_person[person] = names[0]
        sex = str(record["sex"])
        self._sex_of_person[person] = sex
        for pair, name in pairs.items():
            self._written.setdefault(pair, name)
            self._counts["patient"][pair] += 1
            self._sexes[pair] = sex if self._sexes.get(pair, sex) == sex else ""

    def add(self, people: Iterable[FoundPerson]) -> None:
        """Take in people that were found in the notes; each of them once."""
        for person in people:
            if self._seen.add(person.key):
                name = (self._one(person.first), self._one(person.last))
                pair = self._pair(name)
                self._written.setdefault(pair, name)
                self._counts[person.role][pair] += 1

    def count(self, names: Mapping[Pair, int], *, into: Counter[Pair]) -> None:
        """Add counts of full names; equal parts are one string, however many names hold them."""
        for pair, n in names.items():
            if pair in into:
                into[pair] += n
            else:
                into[self._one(pair[0]), self._one(pair[1])] = n

    def name_of(self, person: str) -> Name | None:
        """Return the one name of a person; None for who has several, or is not known."""
        return self._of_person.get(person)

    def sex_of(self, person: str) -> str:
        """Return "M", "F", or "" where it is not known."""
        return self._sex_of_person.get(person, "")

    @property
    def pairs(self) -> Collection[Pair]:
        """Every full name of anybody."""
        return self._written.keys()

    @property
    def names(self) -> Iterator[Name]:
        """Every full name of anybody, as written."""
        return iter(self._written.values())

    @property
    def parts(self) -> tuple[set[str], set[str]]:
        """First names and last names."""
        return {name[0] for name in self.names}, {name[1] for name in self.names}

    @property
    def folded_parts(self) -> frozenset[str]:
        """Every part of a name of two letters or more, in the form in which names are compared."""
        folded = (fold_name(part) for name in self.names for part in name)
        return frozenset(part for part in folded if len(part) > 1)

    @property
    def is_unspaced(self) -> bool:
        """Whether most names are in a script that is written without spaces."""
        return 2 * sum(is_unspaced(first + last) for first, last in self.names) > len(self._written)

    def listed(
        self, names: Iterable[Name], *, n_staff: int, seed: int, is_in: Callable[[Pair], bool]
    ) -> tuple[RegisteredPerson, ...]:
        """Return who carries the given names, and staff drawn from those that are in the notes."""
        people = [
            RegisteredPerson("", first, last, "patient", self._sexes.get(pair_of(first, last), ""))
            for first, last in names
        ]
        staff = [pair for pair in self._counts["staff"] if is_in(pair)]
        order = generator(seed, "corpus/staff").permutation(len(staff))[:n_staff]
        return (
            *people,
            *(RegisteredPerson("", *self._written[staff[i]], "staff") for i in sorted(order)),
        )

    def carriers(self, names: Candidates) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
        """Return for each role (people who carry a name, number of such names), fewest first."""
        pairs = [pair_of(*name) for name in zip(names.first, names.last, strict=True)]
        tables = []
        for role in sorted(self._counts):
            tally = Counter(self._counts[role][pair] for pair in pairs)
            tables.append((role, tuple(sorted(tally.items()))))
        return tuple(tables)

    def _one(self, part: str) -> str:
        return self._kept.setdefault(part, part)

    def _pair(self, name: Name) -> Pair:
        first, last = pair_of(*name)
        return self._one(first), self._one(last)
