"""Who is held out of a corpus: whole patients, drawn at random before a note of it is written.

Held-out patients are the controls of an audit that come from the members' own population.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from unicodedata import normalize

from audit.errors import AuditError
from audit.rng import generator

WHERE = "hold-out"
_SHARE = re.compile(r"(?P<percent>\d+(?:\.\d+)?) ?%|(?P<share>\d*\.\d+)")


@dataclass(frozen=True)
class HoldOut:
    """How many people are held out: a share of all patients, or a number of named people.

    Of the two one is 0. A person is named if the finder of names finds first and last name in the
    person's own notes.
    """

    share: float = 0.0
    n_named: int = 0


def read_hold_out(text: str) -> HoldOut:
    """Return what "0.1", "10%" or "200" asks for."""
    written = normalize("NFKC", text).strip()
    if re.fullmatch("[1-9][0-9]{0,8}", written):
        return HoldOut(n_named=int(written))
    match = _SHARE.fullmatch(written)
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
    is_named: Mapping[str, bool], wanted: HoldOut, *, households: Mapping[str, str], seed: int
) -> frozenset[str]:
    """Draw who is held out: whole households at random, until they hold as many as are wanted.

    Parameters
    ----------
    is_named
        Every person with notes, and whether the person is named in them. For a number of named
        people only households with a named person are drawn.
    households
        The household of each person who does not live alone.
    """
    members: dict[str, list[str]] = {}
    for person in is_named:
        members.setdefault(households.get(person, person), []).append(person)
    sizes = {
        home: sum(is_named[person] for person in people) if wanted.n_named else len(people)
        for home, people in members.items()
    }
    homes = [home for home, size in sizes.items() if size]
    n_people = sum(sizes.values())
    n_wanted = wanted.n_named or max(1, round(wanted.share * n_people))
    _refuse_too_many(n_wanted, n_people, wanted)
    held_out = set[str]()
    n_drawn = 0
    for row in generator(seed, "corpus/hold out").permutation(len(homes)).tolist():
        if n_drawn >= n_wanted:
            break
        held_out.update(members[homes[row]])
        n_drawn += sizes[homes[row]]
    _refuse_too_many(n_drawn, n_people, wanted)
    return frozenset(held_out)


def _refuse_too_many(n_wanted: int, n_people: int, wanted: HoldOut) -> None:
    """Refuse to hold out everybody, or more people than there are."""
    if n_wanted < n_people:
        return
    if wanted.n_named:
        raise AuditError(
            "Only {n_people:,} people are named in their own notes; {n_wanted:,} of them cannot be "
            "held out, because somebody must be left.",
            where=WHERE,
            do="Ask for fewer.",
            n_people=n_people,
            n_wanted=n_wanted,
        )
    raise AuditError(
        "There are notes of {n_people:,} patients; nobody would be left to train on.",
        where=WHERE,
        do="Hold out a smaller share.",
        n_people=n_people,
    )
