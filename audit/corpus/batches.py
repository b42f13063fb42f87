"""What is done with some notes in a row, here or by another process: texts, places, counts.

Comes in: notes, what is the same for all notes, facts about their patients. Goes out: lines for the
corpus's files, and counts that add up. Nothing depends on where a batch begins or ends, or on what
was done before it, so that any number of processes make the same corpus.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeVar

from audit.corpus.build import PatientTable, facts_of_note, patient_key, with_surrogates
from audit.corpus.canaries import Planting
from audit.corpus.carriers import NameHolders
from audit.corpus.examine import NamePattern, Tally, named_people, patterns_of
from audit.corpus.identified import without_known
from audit.corpus.truth import CANARY, NoteTruth, places_of, quoted
from audit.names.candidates import Name
from audit.names.matching import NameIndex, Pair, pair_of
from audit.names.people import Facts
from audit.notes.mention_words import Mention
from audit.notes.mentions import examine_ages
from audit.notes.read import Note
from audit.patients.finder import FullNames

T = TypeVar("T")


@dataclass(frozen=True)
class Rules:
    """What is the same for all notes of a corpus.

    `full_names` are those of a register of patients, and `known` the parts of these, folded;
    `index` has the parts of the names that are counted; `has_blanks`: `___` is a placeholder;
    `has_hold_out`: it is noted whose notes hold which full names.
    """

    seed: int
    full_names: FullNames | None = None
    known: frozenset[str] = frozenset()
    index: NameIndex | None = None
    has_blanks: bool = False
    has_left: bool = False
    has_hold_out: bool = False


@dataclass(frozen=True)
class Batch:
    """Notes in a row, and what is known of their patients.

    `facts` are what the notes tell, without a register; `pieces` what a register says, packed. In
    a batch `is_held_out` all notes are of held-out patients, in any other one none is.
    """

    notes: Sequence[Note]
    facts: Mapping[str, Facts] = field(default_factory=dict)
    pieces: Mapping[str, str] = field(default_factory=dict)
    is_held_out: bool = False


class NoteMade(NamedTuple):
    """One note's lines in the corpus's files, and its patterns of patients and canaries.

    `truth` is empty where both texts are the same and nothing stayed; `patterns` have the id of
    their passage.
    """

    private: bytes
    public: bytes
    truth: bytes
    patterns: tuple[tuple[str, NamePattern], ...]

    def read(self, *, is_register: bool) -> tuple[Note, NoteTruth]:
        """Return the note, of which D_public may lack ids and time, and what is known of it."""
        private, public = json.loads(self.private), json.loads(self.public)
        truth = json.loads(self.truth or b"{}")
        note = Note(**(private if is_register else public) | {"text": public["text"]})
        return note, NoteTruth(
            private["text"],
            public["text"],
            places_of(truth.get("inserted", ())),
            places_of(truth.get("left", ())),
            truth.get("n_malformed", 0),
            private["chart_time"],
        )


@dataclass
class Built:
    """What the notes of a batch came to.

    Attributes
    ----------
    owners
        Whose each note is, as the truth file says it.
    found
        Full names in D_private before canaries are planted, and how often they occur.
    people
        (identity, role, name) of those who are named in full and are no patients.
    holders
        Whose notes hold which full names, where people are held out.
    is_held_out
        As in the batch.
    """

    tally: Tally = field(default_factory=Tally)
    notes: list[NoteMade] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    found: Counter[Pair] = field(default_factory=Counter)
    people: list[tuple[str, str, Name]] = field(default_factory=list)
    holders: NameHolders = field(default_factory=NameHolders)
    is_held_out: bool = False

    def plant(self, planting: Planting, rules: Rules, *, start: int) -> None:
        """Put canaries into those notes that the plan has, and count these anew.

        The first note is the corpus's `start`-th.
        """
        for place, made in enumerate(self.notes):
            if start + place in planting.plan.rows:
                note, truth = made.read(is_register=rules.full_names is not None)
                without, with_one = Tally(), Tally()
                _made(note, truth, rules, without)
                truth = planting.planted(truth, index=start + place)
                self.notes[place] = _made(note, truth, rules, with_one)
                self.tally.exclude(without)
                self.tally.include(with_one)


def told(rules: Rules, batch: Batch) -> PatientTable:
    """Return what notes say of their patients."""
    table = PatientTable()
    for note in batch.notes:
        table.add(note)
    return table


def built(rules: Rules, batch: Batch) -> Built:
    """Return notes in both corpora, examined, without canaries."""
    assert rules.index is not None
    made = Built(is_held_out=batch.is_held_out)
    for note in batch.notes:
        truth = _truth(rules, batch, note)
        made.tally.add(note, truth)
        pairs = list(rules.index.pairs(truth.private))
        made.found.update(pairs)
        made.people += named_people(truth.inserted)
        owner = patient_key(note)
        made.owners.append(owner)
        note_made = _made(note, truth, rules, made.tally)
        made.notes.append(note_made)
        if rules.has_hold_out and not batch.is_held_out:
            patterns = (pattern for _, pattern in note_made.patterns)
            made.holders.add(owner, pairs)
            made.holders.add(owner, (pair_of(one.first, one.last) for one in patterns))
    return made


def patterns_by_owner(rules: Rules, batch: Batch) -> list[tuple[str, list[NamePattern]]]:
    """Return whose each note is, and the patterns in it that name the owner."""
    owned = list[tuple[str, list[NamePattern]]]()
    for note in batch.notes:
        truth, owner = _truth(rules, batch, note), patient_key(note)
        examined = examine_ages(truth.private, name_parts=rules.known)
        mentions = (place for place in examined if isinstance(place, Mention))
        patterns = patterns_of(truth, mentions)
        owned.append((owner, [pattern for pattern in patterns if pattern.person == owner]))
    return owned


def _made(note: Note, truth: NoteTruth, rules: Rules, tally: Tally) -> NoteMade:
    """Return a note as it is in the corpus, and count its mentions."""
    found = tuple(examine_ages(truth.private, name_parts=rules.known))
    tally.add_mentions(truth, found)
    mentions = (each for each in found if isinstance(each, Mention))
    patterns = enumerate(patterns_of(truth, mentions, has_left=rules.has_left), start=1)
    row, note_id, category = note.row, quoted(note.note_id), quoted(note.category)
    whole = (
        f'{{"row": {row}, "note_id": {note_id}, "patient_id": {quoted(note.patient_id)}, '
        f'"admission_id": {quoted(note.admission_id)}, "category": {category}, "chart_time": '
    )
    # With a register, the hospital's ids and dates are identifiers too.
    public = (
        f'{{"row": {row}, "category": {category}'
        if rules.full_names
        else (f"{whole}{quoted(note.chart_time)}")
    )
    places = ""
    if truth.inserted or truth.left or truth.n_malformed:
        inserted, left = (
            ", ".join([place.json() for place in of]) for of in (truth.inserted, truth.left)
        )
        places = (
            f'{{"row": {row}, "note_id": {note_id}, "patient": {quoted(patient_key(note))}, '
            f'"inserted": [{inserted}], "left": [{left}], "n_malformed": {truth.n_malformed}}}\n'
        )
    return NoteMade(
        f'{whole}{quoted(truth.chart_time)}, "text": {quoted(truth.private)}}}\n'.encode(),
        f'{public}, "text": {quoted(truth.public)}}}\n'.encode(),
        places.encode(),
        tuple(
            (f"{row}-{number}", pattern)
            for number, pattern in patterns
            if pattern.role in ("patient", CANARY)
        ),
    )


def _truth(rules: Rules, batch: Batch, note: Note) -> NoteTruth:
    """Return a note in both corpora."""
    patient = note.patient_id
    if rules.full_names:
        return without_known(
            note, pieces=batch.pieces.get(patient, ""), full_names=rules.full_names
        )
    facts = batch.facts[patient] if patient else facts_of_note(note)
    return with_surrogates(note, facts=facts, seed=rules.seed, has_blanks=rules.has_blanks)


Work = Callable[[Rules, Batch], T]


def done_elsewhere(work: Work[T], rules: bytes, batch: Batch) -> T:
    """Do work in another process; it gets the same rules, pickled, again and again."""
    return work(_unpickled(rules), batch)


@lru_cache(maxsize=1)
def _unpickled(rules: bytes) -> Rules:
    found: Rules = pickle.loads(rules)
    return found
