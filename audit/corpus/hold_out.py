"""Draws the people to hold out of a corpus: whole patients, before any of its notes is written.

Held-out patients are the controls of an audit that come from the members' own population.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from unicodedata import normalize

from audit.corpus.batches import BuiltBatch
from audit.corpus.candidate_lists import held_out_names
from audit.corpus.carriers import NameHolders
from audit.corpus.examine import HeldOutCounts, PatternTally, People
from audit.errors import AuditError
from audit.names.candidates import Accepts, Candidates
from audit.names.matching import Pair, pair_of
from audit.rng import generator

WHERE = "hold-out"
_SHARE = re.compile(r"(?P<percent>\d+(?:\.\d+)?) ?%|(?P<share>\d*\.\d+)")


@dataclass(frozen=True)
class HoldOut:
    """How many people are held out: a share of all patients, or a number of named people.

    One of the two is 0. A person is named if the name finder finds the first and the last name in
    the person's own notes.
    """

    share: float = 0.0
    n_named: int = 0


def read_hold_out(text: str) -> HoldOut:
    """Parse "0.1", "10%" or "200"."""
    amount = normalize("NFKC", text).strip()
    if re.fullmatch("[1-9][0-9]{0,8}", amount):
        return HoldOut(n_named=int(amount))
    match = _SHARE.fullmatch(amount)
    if match is None:
        raise AuditError(
            "This is no share of the patients and no number of people.",
            where=WHERE,
            do="Write a share such as 0.1 or 10%, or a number of named people such as 200.",
        )
    share = float(match["percent"]) / 100 if match["percent"] else float(match["share"])
    if not 0 < share < 1:
        raise AuditError(
            "A share of the patients lies between 0 and 1, or 0 % and 100 %.", where=WHERE
        )
    return HoldOut(share=share)


def draw_held_out(
    is_named: Mapping[str, bool], hold_out: HoldOut, *, households: Mapping[str, str], seed: int
) -> frozenset[str]:
    """Draw whole households at random until they have the requested number of people.

    Parameters
    ----------
    is_named
        Every person with notes -> whether the person is named in them. If a number of named people
        is requested, only households with a named person are drawn.
    households
        Person -> household, for each person who does not live alone.
    """
    members: dict[str, list[str]] = {}
    for person in is_named:
        members.setdefault(households.get(person, person), []).append(person)
    sizes = {
        home: sum(is_named[person] for person in people) if hold_out.n_named else len(people)
        for home, people in members.items()
    }
    homes = [home for home, size in sizes.items() if size]
    n_people = sum(sizes.values())
    n_requested = hold_out.n_named or max(1, round(hold_out.share * n_people))
    _refuse_too_many(n_requested, n_people, hold_out)
    held_out = set[str]()
    n_drawn = 0
    for row in generator(seed, "corpus/hold out").permutation(len(homes)).tolist():
        if n_drawn >= n_requested:
            break
        held_out.update(members[homes[row]])
        n_drawn += sizes[homes[row]]
    _refuse_too_many(n_drawn, n_people, hold_out)
    return frozenset(held_out)


def _refuse_too_many(n_requested: int, n_people: int, hold_out: HoldOut) -> None:
    """Raise an AuditError if as many people as there are, or more, would be held out."""
    if n_requested < n_people:
        return
    if hold_out.n_named:
        raise AuditError(
            "Only {n_people:,} people are named in their own notes; {n_wanted:,} of them cannot be "
            "held out, because somebody must be left.",
            where=WHERE,
            do="Ask for fewer.",
            n_people=n_people,
            n_wanted=n_requested,
        )
    raise AuditError(
        "There are notes of {n_people:,} patients; nobody would be left to train on.",
        where=WHERE,
        do="Hold out a smaller share.",
        n_people=n_people,
    )


class HeldOutPeople:
    """The held-out people, and which of their and of the members' names are in training notes."""

    def __init__(self, *, accepts: Accepts | None) -> None:
        self.people = frozenset[str]()
        self.holders = NameHolders()
        self._names = PatternTally(accepts=accepts)
        self._named = set[str]()
        self._members = defaultdict[Pair, set[str]](set)
        self._n_notes = 0

    def add(self, batch: BuiltBatch, people: People) -> None:
        """Add notes of held-out people: people named in their own notes can be controls."""
        self._n_notes += len(batch.notes)
        for note, owner in zip(batch.notes, batch.owners, strict=True):
            for _, pattern in note.patterns:
                if pattern.person == owner:
                    name = people.name_in(pattern)
                    self._names.add(name, pattern.text, note=0)
                    if pair_of(*name) not in self._names.refused:
                        self._named.add(owner)

    def add_member(self, pair: Pair, person: str) -> None:
        """Add the person of a name in a training note."""
        if self.people:
            self._members[pair].add(person)

    @property
    def pairs(self) -> set[Pair]:
        """Names of held-out people."""
        return {pair_of(*name) for name in self._names.names}

    @property
    def names_elsewhere(self) -> set[Pair]:
        """Names of members that are also in somebody else's training notes."""
        members = self._members.items()
        return {
            pair for pair, owners in members if self.holders.is_held_by_others(pair, owners=owners)
        }

    def controls(self, people: People, *, seed: int) -> Candidates:
        """Return the names that can be controls."""
        return held_out_names(self._names, holders=self.holders, people=people, seed=seed)

    def counts(self, lists: Mapping[str, Candidates]) -> HeldOutCounts:
        """Return the counts of the held-out people."""
        names_elsewhere, members = self.names_elsewhere, lists["patient"]
        return HeldOutCounts(
            n_patients=len(self.people),
            n_notes=self._n_notes,
            n_named=len(self._named),
            n_controls=len(lists["held_out"]),
            n_dropped_controls=sum(map(self.holders.is_held_by_others, self.pairs)),
            n_dropped_members=sum(
                pair_of(*name) in names_elsewhere
                for name in zip(members.first, members.last, strict=True)
            ),
        )
