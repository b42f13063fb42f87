"""Finds other people with the same name, or the same part of a name, in the training notes.

Input: full names by note, and the truth of a corpus. Output: whether a full name is in somebody
else's notes, and how many notes name somebody else with the same first or last part.
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
"""0 for a first name or 1 for a last name, and the part as folded by `pair_of`."""
Carrier = tuple[str, Pair]
"""Role and full name of a person; `_NOBODY` if the name is on no row."""
_NOBODY = ("", "")


class NameHolders:
    """The owners of the notes that hold each full name."""

    def __init__(self) -> None:
        self._owners: dict[Pair, str] = {}

    def add(self, owner: str, pairs: Iterable[Pair]) -> None:
        """Add the full names of one note of an owner."""
        for pair in pairs:
            if self._owners.setdefault(pair, owner) != owner:
                self._owners[pair] = _SEVERAL

    def include(self, holders: NameHolders) -> None:
        """Add the full names of other notes."""
        for pair, owner in holders._owners.items():
            self.add(owner, [pair])

    def is_held_by_others(self, pair: Pair, *, owners: Collection[str] = ()) -> bool:
        """Whether a full name is in the notes of somebody other than these owners."""
        owner = self._owners.get(pair)
        return owner is not None and owner not in owners


def count_others(
    truth: Path,
    names: Candidates,
    *,
    people: People,
    seed: int,
    names_elsewhere: Collection[Pair] = frozenset(),
    on_bytes: Callable[[int], None] = lambda n: None,
) -> Candidates:
    """Return names with the number of notes that name somebody else with the same part.

    Somebody else is staff, a relative, or a patient whose name is no member's on the list or is in
    `names_elsewhere`, which a list may leave out. People with the same role and full name count as
    one person. Only the names in the truth are counted: with a register of patients it has no
    staff. `on_bytes` is called with the number of bytes of each line.
    """
    carriers = _Carriers(names, people=people, seed=seed, names_elsewhere=names_elsewhere)
    with truth.open("rb") as lines:
        for line in lines:
            carriers.add(places_of(json.loads(line).get("inserted")))
            on_bytes(len(line))
    first, last = (tuple(carriers.n_others(side)) for side in (0, 1))
    return replace(names, n_others_first=first, n_others_last=last)


class _Carriers:
    """Counts notes by the parts of the names in them."""

    def __init__(
        self, names: Candidates, *, people: People, seed: int, names_elsewhere: Collection[Pair]
    ) -> None:
        self._people, self._seed = people, seed
        self._rows = list(zip(names.role, map(pair_of, names.first, names.last), strict=True))
        of_member = zip(self._rows, names.is_member, strict=True)
        patients = {pair for (role, pair), is_in in of_member if is_in and role == "patient"}
        self._listed, self._elsewhere = (
            patients.difference(names_elsewhere),
            patients & {*names_elsewhere},
        )
        self._listed_parts = [{pair[side] for _, pair in self._rows} for side in (0, 1)]
        self._n_notes: Counter[Part] = Counter()
        self._n_of_one: Counter[tuple[Part, Carrier]] = Counter()

    def add(self, places: Collection[Place]) -> None:
        """Count one note."""
        carriers_by_part: dict[Part, set[Carrier]] = {}
        for place in places:
            if place.group < 0 or place.role == CANARY:
                continue
            for part in _parts_of(place):
                is_listed = part[1] in self._listed_parts[part[0]]
                if is_listed and (carrier := self._find_carrier(place, places)):
                    carriers_by_part.setdefault(part, set()).add(carrier)
        for part, carriers in carriers_by_part.items():
            self._n_notes[part] += 1
            if len(carriers) == 1:
                self._n_of_one[part, carriers.pop()] += 1

    def _find_carrier(self, place: Place, places: Collection[Place]) -> Carrier | None:
        """Return the person whose name is in a place; None for a listed patient."""
        if place.role == "staff":
            person = person_of_key(self._seed, place.identity)
            return "staff", pair_of(person.first, person.last)
        if place.role != "patient":
            return place.role, _NOBODY
        pairs = {pair_of(*name) for name in self._people.names_of(place.identity)}
        if not pairs:  # a note without a patient: only its own parts are known
            own_parts = {
                part
                for own_place in places
                if own_place.identity == place.identity
                for part in _parts_of(own_place)
            }
            pairs = {
                (a, b)
                for side, a in own_parts
                if side == 0
                for last_side, b in own_parts
                if last_side == 1
            }
        if not pairs.isdisjoint(self._listed):
            return None
        return "patient", min(pairs & self._elsewhere, default=_NOBODY)

    def n_others(self, side: int) -> Iterator[int]:
        """Yield the number of other people's notes for each name's first (0) or last (1) part."""
        for role, pair in self._rows:
            part = side, pair[side]
            yield self._n_notes[part] - self._n_of_one[part, (role, pair)]


def _parts_of(place: Place) -> Iterator[Part]:
    """Yield the first and the last name in a place."""
    if place.kind in ("first", "last"):
        parts = {int(place.kind == "last"): place.value}
    else:
        is_full = place.kind == "full"
        parts = dict(enumerate(split_whole_name(place.value))) if is_full else {}
    yield from ((side, pair_of(text, "")[0]) for side, text in parts.items() if text)
