"""Controls from a register: people of the same hospital who are in none of the training notes.

Input: a corpus of identified notes, its list, a register of patients. Output: the list with these
people as controls. Torch-free.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from audit.corpus.build import patient_key
from audit.corpus.candidate_lists import draw_names_of_list
from audit.corpus.carriers import NameHolders, count_others
from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.examine import People
from audit.corpus.truth import PEOPLE, PRIVATE, TRUTH
from audit.errors import AuditError
from audit.names.candidates import Candidates, Name, make_candidates
from audit.names.controls import with_own_controls
from audit.names.matching import NameIndex, Pair, pair_of
from audit.notes.read import Note
from audit.patients.households import read_households
from audit.patients.register import PatientRegister, read_register

WHERE = "register"


@dataclass(frozen=True)
class OwnControls:
    """A list with own controls, and the numbers of names that are left out of it.

    Attributes
    ----------
    n_dropped_members
        Members whose full name is in somebody else's training notes.
    n_dropped_controls
        Registered people without training notes whose full name is in a training note.
    n_dropped_households
        Registered people without training notes who live with somebody who has training notes.
    """

    candidates: Candidates
    n_dropped_members: int
    n_dropped_controls: int
    n_dropped_households: int


def add_own_controls(corpus: KeptCorpus, listed: Candidates, register_file: Path) -> OwnControls:
    """Return the list of a corpus followed by people of a register who are in no training note.

    A person with several names is listed under the first one if no note holds any of them. Members
    whose name is in somebody else's training notes are left out, as such controls are.
    """
    if corpus.kind != "register":
        raise AuditError(
            "The names in these notes were invented, so that nobody of a register is like them.",
            where=WHERE,
            do="Take a corpus of identified notes, or one that was built with --hold-out.",
        )
    register = read_register(register_file)
    notes = _TrainingNotes(corpus, [*_names_of(register), *_names_in(listed)])
    sex_by_name, n_dropped, n_of_homes = _find_own_names(
        register, read_households(register_file), notes
    )
    if not sex_by_name:
        raise AuditError(
            "Everybody in the register has training notes, or stands in one, or lives with "
            "somebody who has some.",
            where=WHERE,
            do="Give a register that has more people, or build the corpus with --hold-out.",
        )
    people = _people_of(corpus)
    rows = notes.select_rows(listed, people)
    names = draw_names_of_list(tuple(sex_by_name), seed=corpus.seed, purpose="corpus/own controls")
    controls = replace(make_candidates(names), sex=tuple(sex_by_name[name] for name in names))
    candidates = count_others(
        corpus.path / TRUTH,
        with_own_controls(listed.rows(rows), controls),
        people=people,
        seed=corpus.seed,
    )
    return OwnControls(
        candidates=candidates,
        n_dropped_members=len(listed) - len(rows),
        n_dropped_controls=n_dropped,
        n_dropped_households=n_of_homes,
    )


class _TrainingNotes:
    """The owners of training notes, and the owners of the notes that hold some full names."""

    def __init__(self, corpus: KeptCorpus, names: Collection[Name]) -> None:
        self.owners = set[str]()
        self.holders = NameHolders()
        pairs = {pair_of(*name) for name in names}
        index = NameIndex(firsts=(part for part, _ in names), lasts=(part for _, part in names))
        with CORPORA.reading(), (corpus.path / PRIVATE).open("rb") as lines:
            for line in lines:
                note = Note(**json.loads(line))
                owner = patient_key(note)
                self.owners.add(owner)
                self.holders.add(owner, filter(pairs.__contains__, index.find_pairs(note.text)))

    def select_rows(self, listed: Candidates, people: People) -> list[int]:
        """Return the rows of a list without patients whose name is in somebody else's notes."""
        carriers = people.carriers_of(_pairs_in(listed))
        return [
            row
            for row, pair in enumerate(_pairs_in(listed))
            if not (listed.is_member[row] and listed.role[row] == "patient")
            or not self.holders.is_held_by_others(pair, owners=carriers[pair])
        ]


def _find_own_names(
    register: PatientRegister, households: dict[str, str], notes: _TrainingNotes
) -> tuple[dict[Name, str], int, int]:
    """Return the names and sexes of people who are in no note, and how many people were left out.

    The first number counts people whose name is in a note, the second people who live with somebody
    who has notes.
    """
    homes = {home for patient, home in households.items() if f"patient:{patient}" in notes.owners}
    sex_by_name, n_dropped, n_of_homes = dict[Name, str](), 0, 0
    for patient, persons in register.people.items():
        if f"patient:{patient}" in notes.owners:
            continue
        if households.get(patient) in homes:
            n_of_homes += 1
        elif any(
            notes.holders.is_held_by_others(pair_of(person.first, person.last))
            for person in persons
        ):
            n_dropped += 1
        else:
            sex_by_name.setdefault((persons[0].first, persons[0].last), persons[0].sex)
    return sex_by_name, n_dropped, n_of_homes


def _people_of(corpus: KeptCorpus) -> People:
    with CORPORA.reading(), (corpus.path / PEOPLE).open("rb") as lines:
        return People(map(json.loads, lines))


def _names_of(register: PatientRegister) -> set[Name]:
    return {(person.first, person.last) for people in register.people.values() for person in people}


def _names_in(listed: Candidates) -> list[Name]:
    return list(zip(listed.first, listed.last, strict=True))


def _pairs_in(listed: Candidates) -> list[Pair]:
    return [pair_of(*name) for name in _names_in(listed)]
