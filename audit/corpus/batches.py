"""Processes batches of notes, here or in another process: texts, places, counts.

Input: notes, the rules for all notes, facts about their patients. Output: lines for the corpus's
files, and counts that can be added. Nothing depends on where a batch begins or ends, or on earlier
batches, so that any number of processes make the same corpus.
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
from audit.corpus.examine import NamePattern, Tally, find_named_people, find_patterns
from audit.corpus.identified import mask_registered
from audit.corpus.truth import CANARY, NoteTruth, places_of, quote
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
    """The rules that are the same for all notes of a corpus.

    `full_names` are those of a register of patients, and `known_parts` their folded parts; `index`
    has the parts of the names that are counted; `has_blanks`: `___` is a placeholder;
    `has_hold_out`: the owners of the notes that hold each full name are recorded.
    """

    seed: int
    full_names: FullNames | None = None
    known_parts: frozenset[str] = frozenset()
    index: NameIndex | None = None
    has_blanks: bool = False
    has_left: bool = False
    has_hold_out: bool = False


@dataclass(frozen=True)
class Batch:
    """Consecutive notes, and what is known about their patients.

    `facts` come from the notes if there is no register; `pieces` are the packed rows of a register.
    With `is_held_out` all notes of the batch are of held-out patients, otherwise none is.
    """

    notes: Sequence[Note]
    facts: Mapping[str, Facts] = field(default_factory=dict)
    pieces: Mapping[str, str] = field(default_factory=dict)
    is_held_out: bool = False


class NoteLines(NamedTuple):
    """One note's lines in the corpus's files, and its patterns of patients and canaries.

    `truth` is empty if both texts are the same and no placeholder stayed; each of `patterns` has
    the id of its passage.
    """

    private: bytes
    public: bytes
    truth: bytes
    patterns: tuple[tuple[str, NamePattern], ...]

    def read(self, *, is_register: bool) -> tuple[Note, NoteTruth]:
        """Return the note, without ids and time if D_public lacks them, and its truth."""
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
class BuiltBatch:
    """The built notes of a batch, and their counts.

    Attributes
    ----------
    owners
        The key of each note's patient in the truth file.
    name_counts
        Full names in D_private before canaries are planted, with their numbers of occurrences.
    people
        (identity, role, name) of people who are named in full and are no patients.
    holders
        The owners of the notes that hold each full name, if people are held out.
    is_held_out
        As in `Batch`.
    """

    tally: Tally = field(default_factory=Tally)
    notes: list[NoteLines] = field(default_factory=list)
    owners: list[str] = field(default_factory=list)
    name_counts: Counter[Pair] = field(default_factory=Counter)
    people: list[tuple[str, str, Name]] = field(default_factory=list)
    holders: NameHolders = field(default_factory=NameHolders)
    is_held_out: bool = False

    def plant(self, planting: Planting, rules: Rules, *, start: int) -> None:
        """Plant canaries into the notes of the plan, and count these notes again.

        The first note of the batch is note `start` of the corpus.
        """
        for index, lines in enumerate(self.notes):
            if start + index in planting.plan.rows:
                note, truth = lines.read(is_register=rules.full_names is not None)
                tally_before, tally_after = Tally(), Tally()
                _make_lines(note, truth, rules, tally_before)
                truth = planting.plant_canary(truth, index=start + index)
                self.notes[index] = _make_lines(note, truth, rules, tally_after)
                self.tally.exclude(tally_before)
                self.tally.include(tally_after)


def survey_patients(rules: Rules, batch: Batch) -> PatientTable:
    """Return what the notes of a batch say about their patients."""
    table = PatientTable()
    for note in batch.notes:
        table.add(note)
    return table


def build_notes(rules: Rules, batch: Batch) -> BuiltBatch:
    """Return the notes of a batch in both corpora, examined, without canaries."""
    assert rules.index is not None
    built_batch = BuiltBatch(is_held_out=batch.is_held_out)
    for note in batch.notes:
        truth = _make_truth(rules, batch, note)
        built_batch.tally.add(note, truth)
        pairs = list(rules.index.find_pairs(truth.private))
        built_batch.name_counts.update(pairs)
        built_batch.people += find_named_people(truth.inserted)
        owner = patient_key(note)
        built_batch.owners.append(owner)
        lines = _make_lines(note, truth, rules, built_batch.tally)
        built_batch.notes.append(lines)
        if rules.has_hold_out and not batch.is_held_out:
            patterns = (pattern for _, pattern in lines.patterns)
            built_batch.holders.add(owner, pairs)
            built_batch.holders.add(
                owner,
                (pair_of(named_pattern.first, named_pattern.last) for named_pattern in patterns),
            )
    return built_batch


def find_own_patterns(rules: Rules, batch: Batch) -> list[tuple[str, list[NamePattern]]]:
    """Return the owner of each note, and the patterns in it that name the owner."""
    owned = list[tuple[str, list[NamePattern]]]()
    for note in batch.notes:
        truth, owner = _make_truth(rules, batch, note), patient_key(note)
        examined = examine_ages(truth.private, name_parts=rules.known_parts)
        mentions = (place for place in examined if isinstance(place, Mention))
        patterns = find_patterns(truth, mentions)
        owned.append((owner, [pattern for pattern in patterns if pattern.person == owner]))
    return owned


def _make_lines(note: Note, truth: NoteTruth, rules: Rules, tally: Tally) -> NoteLines:
    """Return the lines of a note in the corpus's files, and count its mentions."""
    examined = tuple(examine_ages(truth.private, name_parts=rules.known_parts))
    tally.add_mentions(truth, examined)
    mentions = (mention for mention in examined if isinstance(mention, Mention))
    patterns = enumerate(find_patterns(truth, mentions, has_left=rules.has_left), start=1)
    row, note_id, category = note.row, quote(note.note_id), quote(note.category)
    private_head = (
        f'{{"row": {row}, "note_id": {note_id}, "patient_id": {quote(note.patient_id)}, '
        f'"admission_id": {quote(note.admission_id)}, "category": {category}, "chart_time": '
    )
    # With a register, the hospital's ids and dates are identifiers too.
    public_head = (
        f'{{"row": {row}, "category": {category}'
        if rules.full_names
        else (f"{private_head}{quote(note.chart_time)}")
    )
    truth_line = ""
    if truth.inserted or truth.left or truth.n_malformed:
        inserted, left = (
            ", ".join([place.json() for place in stretches])
            for stretches in (truth.inserted, truth.left)
        )
        truth_line = (
            f'{{"row": {row}, "note_id": {note_id}, "patient": {quote(patient_key(note))}, '
            f'"inserted": [{inserted}], "left": [{left}], "n_malformed": {truth.n_malformed}}}\n'
        )
    return NoteLines(
        f'{private_head}{quote(truth.chart_time)}, "text": {quote(truth.private)}}}\n'.encode(),
        f'{public_head}, "text": {quote(truth.public)}}}\n'.encode(),
        truth_line.encode(),
        tuple(
            (f"{row}-{number}", pattern)
            for number, pattern in patterns
            if pattern.role in ("patient", CANARY)
        ),
    )


def _make_truth(rules: Rules, batch: Batch, note: Note) -> NoteTruth:
    """Return a note in both corpora."""
    patient = note.patient_id
    if rules.full_names:
        return mask_registered(
            note, pieces=batch.pieces.get(patient, ""), full_names=rules.full_names
        )
    facts = batch.facts[patient] if patient else facts_of_note(note)
    return with_surrogates(note, facts=facts, seed=rules.seed, has_blanks=rules.has_blanks)


Work = Callable[[Rules, Batch], T]


def run_in_process(work: Work[T], rules: bytes, batch: Batch) -> T:
    """Do work in another process, which gets the same pickled rules with every batch."""
    return work(_load_rules(rules), batch)


@lru_cache(maxsize=1)
def _load_rules(rules: bytes) -> Rules:
    loaded_rules: Rules = pickle.loads(rules)
    return loaded_rules
