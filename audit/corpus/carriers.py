"""Who else has a name, or a part of one, in the notes that a model is trained on.

Comes in: full names by note, and the truth of a corpus. Goes out: whether a full name stands in
somebody else's notes, and how many notes name somebody else with the same first or last part.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from audit.corpus.build import person_of_key
from audit.corpus.examine import People
from audit.corpus.truth import CANARY, Place, places_of
from audit.names.candidates import Candidates
from audit.names.matching import Pair, pair_of
from audit.patients.register import split_whole_name

_SEVERAL = ""
Part = tuple[int, str]
"""0 for a first name and 1 for a last name, and the part as `pair_of` writes it."""
Carrier = tuple[str, Pair]
"""Somebody's role and full name, `_NOBODY` where it is that of no row."""
_NOBODY = ("", "")


class NameHolders:
    """Whose notes hold which full names."""

    def __init__(self) -> None:
        self._owners: dict[Pair, str] = {}

    def add(self, owner: str, pairs: Iterable[Pair]) -> None:
        """Take in the full names of one note of somebody."""
        for pair in pairs:
            if self._owners.setdefault(pair, owner) != owner:
                self._owners[pair] = _SEVERAL

    def include(self, more: NameHolders) -> None:
        """Take in what other notes hold."""
        for pair, owner in more._owners.items():
            self.add(owner, [pair])

    def are_others(self, pair: Pair, *, than: Collection[str] = ()) -> bool:
        """Whether the notes of somebody else than these people hold a full name."""
        owner = self._owners.get(pair)
        return owner is not None and owner not in than


def count_others(
    truth: Path,
    names: Candidates,
    *,
    people: People,
    seed: int,
    elsewhere: Collection[Pair] = frozenset(),
    on_bytes: Callable[[int], None] = lambda n: None,
) -> Candidates:
    """Return names with the number of notes that name somebody else with the same part.

    Somebody else is staff, a relative, or a patient whose name is no member's of the list, or one
    of `elsewhere`, which a list may leave out. People of the same role and full name are the same
    person here. What is counted are the names that the truth knows: with a register of patients it
    knows no staff. `on_bytes` is told the bytes of each line.
    """
    carriers = _Carriers(names, people=people, seed=seed, elsewhere=elsewhere)
    with truth.open("rb") as lines:
        for line in lines:
            carriers.add(places_of(json.loads(line).get("inserted")))
            on_bytes(len(line))
    first, last = (tuple(carriers.n_others(side)) for side in (0, 1))
    return replace(names, n_others_first=first, n_others_last=last)


class _Carriers:
    """Counts notes by the parts of the people who are named in them."""

    def __init__(
        self, names: Candidates, *, people: People, seed: int, elsewhere: Collection[Pair]
    ) -> None:
        self._people, self._seed = people, seed
        self._rows = list(zip(names.role, map(pair_of, names.first, names.last), strict=True))
        of_member = zip(self._rows, names.is_member, strict=True)
        patients = {pair for (role, pair), is_in in of_member if is_in and role == "patient"}
        self._listed, self._elsewhere = patients.difference(elsewhere), patients & {*elsewhere}
        self._wanted = [{pair[side] for _, pair in self._rows} for side in (0, 1)]
        self._n_notes: Counter[Part] = Counter()
        self._n_of_one: Counter[tuple[Part, Carrier]] = Counter()

    def add(self, places: Collection[Place]) -> None:
        """Count one note."""
        found: dict[Part, set[Carrier]] = {}
        for place in places:
            if place.group < 0 or place.role == CANARY:
                continue
            for part in _parts_of(place):
                is_wanted = part[1] in self._wanted[part[0]]
                if is_wanted and (carrier := self._carrier(place, places)):
                    found.setdefault(part, set()).add(carrier)
        for part, carriers in found.items():
            self._n_notes[part] += 1
            if len(carriers) == 1:
                self._n_of_one[part, carriers.pop()] += 1

    def _carrier(self, place: Place, places: Collection[Place]) -> Carrier | None:
        """Return whose name stands in a place; None where it is that of a listed patient."""
        if place.role == "staff":
            person = person_of_key(self._seed, place.identity)
            return "staff", pair_of(person.first, person.last)
        if place.role != "patient":
            return place.role, _NOBODY
        pairs = {pair_of(*name) for name in self._people.names_of(place.identity)}
        if not pairs:  # a note of nobody: its own parts are all that is known
            own = {
                part for one in places if one.identity == place.identity for part in _parts_of(one)
            }
            pairs = {(a, b) for side, a in own if side == 0 for other, b in own if other == 1}
        if not pairs.isdisjoint(self._listed):
            return None
        return "patient", min(pairs & self._elsewhere, default=_NOBODY)

    def n_others(self, side: int) -> Iterator[int]:
        """Yield the number of each name's first (0) or last (1) part."""
        for role, pair in self._rows:
            part = side, pair[side]
            yield self._n_notes[part] - self._n_of_one[part, (role, pair)]


def _parts_of(place: Place) -> Iterator[Part]:
    """Yield the first and the last name that stand in a place."""
    if place.kind in ("first", "last"):
        parts = {int(place.kind == "last"): place.value}
    else:
        whole = place.kind == "full"
        parts = dict(enumerate(split_whole_name(place.value))) if whole else {}
    yield from ((side, pair_of(text, "")[0]) for side, text in parts.items() if text)
