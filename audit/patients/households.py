"""Find out which patients of a register live together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from audit.names.matching import Pair, fold, pair_of
from audit.notes.spans import CONTACT
from audit.patients.finder import ADDRESS
from audit.patients.register import (
    Cells,
    read_contacts,
    read_people,
    read_register_rows,
    read_relative_names,
)

MAX_SHARING = 10
"""If more patients share an address, a telephone or a mail address, it belongs to an institution or
a block of flats. With twice this number, small homes would count as households; with half of it,
large families would be divided."""
_LEAST_PHONE_DIGITS = 10
_NO_LETTERS = re.compile(r"[\W_]+")

Tie = tuple[str, str]
"""The kind and the text of a fact that can tie patients together: ("address", "12mainstreet")."""


def read_households(path: Path) -> dict[str, str]:
    """Return the household of each patient who shares one, named by its first patient's number.

    Patients share a household if a column says so, if they have the same address with a number in
    it, the same telephone or mail address, or if one is named as a relative of the other and no
    other patient has that name.
    """
    sharing = defaultdict[Tie, list[str]](list)
    of_name = defaultdict[Pair, set[str]](set)
    relatives = list[tuple[str, Pair]]()
    patients = dict[str, int]()
    for _, cells in read_register_rows(path):
        patient = cells["id"][0]
        patients.setdefault(patient, len(patients))
        for tie in set(_list_ties(cells)):
            sharing[tie].append(patient)
        for person in read_people(cells):
            of_name[pair_of(person.first, person.last)].add(patient)
        names = (name for text in cells["relative"] for name in read_relative_names(text))
        relatives += ((patient, pair_of(*name)) for name in names)
    groups = [group for tie, group in sharing.items() if _is_home(tie, group)]
    groups += [[patient, *of_name[pair]] for patient, pair in relatives if len(of_name[pair]) == 1]
    return _join_groups(patients, groups)


def _list_ties(cells: Cells) -> Iterator[Tie]:
    """Yield the facts of a row that people of one household share."""
    for text in cells["household"]:
        yield "household", fold(text)
    address = _NO_LETTERS.sub("", fold(" ".join(cells[ADDRESS])))
    if any(map(str.isdigit, address)):
        yield "address", address
    for kind, is_only in ((CONTACT, True), ("relative", False)):
        for text in cells[kind]:
            for piece in read_contacts(text, is_only=is_only):
                if "@" in piece.text or len(piece.text) >= _LEAST_PHONE_DIGITS:
                    yield CONTACT, piece.text


def _is_home(tie: Tie, patients: list[str]) -> bool:
    """Whether the patients who share a tie live together."""
    return tie[0] == "household" or len({*patients}) <= MAX_SHARING


def _join_groups(patients: dict[str, int], groups: Iterable[list[str]]) -> dict[str, str]:
    """Return, for each patient who is tied to others, the first patient of the connected group."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = [(patients[group[0]], patients[patient]) for group in groups for patient in group[1:]]
    edges = [(first_row, second_row) for first_row, second_row in edges if first_row != second_row]
    if not edges:
        return {}
    n = len(patients)
    rows, columns = zip(*edges, strict=True)
    graph = coo_array(([True] * len(edges), (rows, columns)), shape=(n, n))
    _, homes = connected_components(graph, directed=False)
    shared = {row for edge in edges for row in edge}
    first_of_home: dict[int, str] = {}
    return {
        patient: first_of_home.setdefault(int(homes[row]), patient)
        for patient, row in patients.items()
        if row in shared
    }
