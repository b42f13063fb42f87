"""What is done with some notes in a row, here or by another process: texts, places, counts.

Comes in: notes, what is the same for all notes, facts about their patients. Goes out: lines for the
corpus's files, and counts that add up. Nothing depends on where a batch begins or ends, or on what
was done before it, so that any number of processes make the same corpus.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

from audit.corpus.build import PatientTable, facts_of_note, patient_key, with_surrogates
from audit.corpus.canaries import Planting
from audit.corpus.examine import NamePattern, Tally, named_people, patterns_of
from audit.corpus.register import MentionFinder
from audit.corpus.truth import CANARY, PRIVATE, PUBLIC, TRUTH, NoteTruth, json_line
from audit.names.candidates import Name
from audit.names.matching import NameIndex, Pair
from audit.names.people import Facts
from audit.notes.mention_words import Mention
from audit.notes.mentions import examine
from audit.notes.read import FIELDS, Note

T = TypeVar("T")


@dataclass(frozen=True)
class Rules:
    """What is the same for all notes of a corpus.

    `finder` is that of a register of patients, whose folded names are `known`; `index` has the
    parts of the names that are counted; `has_blanks`: `___` is a placeholder.
    """

    seed: int
    finder: MentionFinder | None = None
    known: frozenset[str] = frozenset()
    index: NameIndex | None = None
    has_blanks: bool = False
    has_left: bool = False


@dataclass(frozen=True)
class Batch:
    """Notes in a row, the first of which is the corpus's `start`-th.

    `facts` are about those of their patients whom the notes tell of; `planting` plants canaries in
    some of these notes, None: none are planted in this corpus.
    """

    start: int
    notes: Sequence[Note]
    facts: Mapping[str, Facts] = field(default_factory=dict)
    planting: Planting | None = None


@dataclass
class Built:
    """What the notes of a batch came to.

    Attributes
    ----------
    lines
        By file, what is to be written.
    owners
        Whose each note is, as the truth file says it.
    found
        Full names in D_private and how often they occur; empty where canaries are planted, since
        they were counted to choose these.
    people
        (identity, role, name) of those who are named in full and are no patients.
    patterns
        Patterns of patients and canaries: the note's position in the corpus, the passage's id.
    """

    tally: Tally = field(default_factory=Tally)
    lines: defaultdict[str, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    owners: list[str] = field(default_factory=list)
    found: Counter[Pair] = field(default_factory=Counter)
    people: list[tuple[str, str, Name]] = field(default_factory=list)
    patterns: list[tuple[int, str, NamePattern]] = field(default_factory=list)

    def add(self, note: Note, truth: NoteTruth, *, index: int, rules: Rules) -> None:
        """Take in a note as it is in the corpus."""
        found = tuple(examine(truth.private, known=rules.known))
        self.tally.add_mentions(truth, found)
        self.people += named_people(truth.inserted)
        self.owners.append(patient_key(note))
        self._write(note, truth, is_register=rules.finder is not None)
        mentions = (each for each in found if isinstance(each, Mention))
        patterns = patterns_of(truth, mentions, has_left=rules.has_left)
        self.patterns += (
            (index, f"{note.row}-{number}", pattern)
            for number, pattern in enumerate(patterns, start=1)
            if pattern.role in ("patient", CANARY)
        )

    def _write(self, note: Note, truth: NoteTruth, *, is_register: bool) -> None:
        """Write a note into both corpora, and where they differ."""
        whole = {name: getattr(note, name) for name in ("row", *FIELDS)}
        private = whole | {"chart_time": truth.chart_time, "text": truth.private}
        # With a register, the hospital's ids and dates are identifiers too.
        public = {"row": note.row, "category": note.category} if is_register else whole
        self.lines[PRIVATE].append(json_line(private))
        self.lines[PUBLIC].append(json_line(public | {"text": truth.public}))
        if truth.inserted or truth.left or truth.n_malformed:
            places = {
                "row": note.row,
                "note_id": note.note_id,
                "patient": patient_key(note),
                "inserted": [place.plain() for place in truth.inserted],
                "left": [place.plain() for place in truth.left],
                "n_malformed": truth.n_malformed,
            }
            self.lines[TRUTH].append(json_line(places))


def told(rules: Rules, batch: Batch) -> PatientTable:
    """Return what notes say of their patients."""
    table = PatientTable()
    for note in batch.notes:
        table.add(note)
    return table


def named(rules: Rules, batch: Batch) -> tuple[int, Counter[Pair]]:
    """Return the number of notes, and the full names that will stand in D_private."""
    assert rules.index is not None
    found: Counter[Pair] = Counter()
    for note in batch.notes:
        text = note.text if rules.finder else _truth(rules, batch, note).private
        found.update(rules.index.count(text))
    return len(batch.notes), found


def built(rules: Rules, batch: Batch) -> Built:
    """Return notes in both corpora, planted and examined."""
    assert rules.index is not None
    made = Built()
    for index, note in enumerate(batch.notes, start=batch.start):
        truth = _truth(rules, batch, note)
        made.tally.add(note, truth)
        if batch.planting:
            truth = batch.planting.planted(truth, index=index)
        else:
            made.found.update(rules.index.count(truth.private))
        made.add(note, truth, index=index, rules=rules)
    return made


def _truth(rules: Rules, batch: Batch, note: Note) -> NoteTruth:
    """Return a note in both corpora."""
    patient = note.patient_id
    if rules.finder:
        return rules.finder.truth(note.text, patient_id=patient, chart_time=note.chart_time)
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
