"""A batch of a corpus's notes under examination: mentions, patterns, people, full names.

Comes in: the lines of notes. Goes out: counts and patterns, and the lines again where canaries were
planted. Knows no other batch, so that it can be done in any process.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from audit.corpora.mention_coverage import NO_NOTES, MentionCoverage, coverage_of
from audit.corpora.mention_passages import NamePattern, patterns_of
from audit.corpora.mention_record import Mention
from audit.corpora.mention_truth import NotePair
from audit.corpora.mentions import examine
from audit.corpora.passages import Passage
from audit.curation.canary_lines import Planting, plant_lines
from audit.curation.corpus_lines import CANARY, NoteLines, note_pair, read_line
from audit.curation.pattern_tally import hash_of
from audit.membership.corpus_names import NameIndex, Pair

_SLOTS = {"first": "[FIRST]", "last": "[LAST]"}
# Between two places these are read back as they are; else one place takes the whole name.
_SEPARATORS = ("", " ", ", ", "\u3000")


@dataclass(frozen=True)
class ExamineSettings:
    """How every note is examined.

    Attributes
    ----------
    kind
        Of the corpus.
    n_sentences, n_left_sentences
        Of a passage, as `patterns_of` has them.
    known
        Parts of names that count as names whatever their case.
    index
        What full names to count; None where they were counted before.
    planting, rows
        Canaries: index of a note -> row of the canary that goes into it.
    """

    kind: str
    n_sentences: int
    n_left_sentences: int
    known: frozenset[str] = frozenset()
    index: NameIndex | None = None
    planting: Planting | None = None
    rows: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundPattern:
    """A pattern: whose it is and where, its name as written, its text as a number, its passage.

    `note` is the note's position in the corpus, from 0.
    """

    passage_id: str
    note: int
    person: str
    role: str
    first: str
    last: str
    text_hash: int
    passage: str


@dataclass(frozen=True, slots=True)
class FoundPerson:
    """Somebody who is named in full and is in no register: `key` is a number for the identity."""

    key: int
    first: str
    last: str
    role: str


@dataclass(frozen=True)
class Examined:
    """What became of a batch; the three texts are empty unless canaries are planted.

    `patients` has whose each note is.
    """

    coverage: MentionCoverage
    patients: tuple[str, ...]
    patterns: tuple[FoundPattern, ...]
    people: tuple[FoundPerson, ...]
    names: Counter[Pair]
    private: bytes
    public: bytes
    truth: bytes


def examine_batch(settings: ExamineSettings, batch: tuple[NoteLines, ...]) -> Examined:
    """Return what a batch gives; the same in every process."""
    coverage = NO_NOTES
    patients: list[str] = []
    patterns: list[FoundPattern] = []
    people: dict[tuple[int, str], FoundPerson] = {}
    names: Counter[Pair] = Counter()
    private, public, truth = bytearray(), bytearray(), bytearray()
    for old in batch:
        lines = old
        if settings.planting is not None:
            row = settings.rows.get(old.index)
            lines = old if row is None else plant_lines(old, row=row, planting=settings.planting)
            private += lines.private
            public += lines.public
            truth += lines.truth
        record = read_line(lines.truth) if lines.truth else None
        note = read_line(lines.private)
        patients.append(str(note["patient_id"]))
        pair = note_pair(note, read_line(lines.public), record, kind=settings.kind)
        found = tuple(examine(pair.private, known=settings.known))
        coverage += coverage_of(pair, examined=found)
        mentions = tuple(each for each in found if isinstance(each, Mention))
        patterns += _patterns(pair, mentions, settings, note=lines.index)
        people |= {(person.key, person.role): person for person in _people(record)}
        if settings.index is not None:
            names.update(settings.index.count(pair.private))
    return Examined(
        coverage, tuple(patients), tuple(patterns), tuple(people.values()), names,
        bytes(private), bytes(public), bytes(truth),
    )  # fmt: skip


def count_names(index: NameIndex, lines: tuple[bytes, ...]) -> Counter[Pair]:
    """Return how often each full name occurs in lines of D_private."""
    found: Counter[Pair] = Counter()
    for line in lines:
        found.update(index.count(str(json.loads(line)["text"])))
    return found


def _patterns(
    pair: NotePair, mentions: tuple[Mention, ...], settings: ExamineSettings, *, note: int
) -> Iterator[FoundPattern]:
    found = patterns_of(
        pair,
        n_sentences=settings.n_sentences,
        n_left_sentences=settings.n_left_sentences,
        mentions=mentions,
    )
    for number, pattern in enumerate(found, start=1):
        if pattern.role in ("patient", "", CANARY):
            yield _found(pattern, passage_id=f"{pattern.note_id}-{number}", note=note)


def _found(pattern: NamePattern, *, passage_id: str, note: int) -> FoundPattern:
    return FoundPattern(
        passage_id=passage_id,
        note=note,
        person=pattern.person,
        role=pattern.role,
        first=pattern.first,
        last=pattern.last,
        text_hash=hash_of(pattern.text),
        passage=written_passage(pattern.passage),
    )


def written_passage(passage: Passage) -> str:
    """Return a passage as `read_passages` reads it, the name's place in brackets."""
    is_full = passage.slots == ("full",) or passage.separator not in _SEPARATORS
    place = "[NAME]" if is_full else passage.separator.join(_SLOTS[slot] for slot in passage.slots)
    return f"{passage.left}{place}{passage.right}"


def _people(record: dict[str, Any] | None) -> Iterator[FoundPerson]:
    """Yield who is named in full and is not in `people.jsonl`: staff, relatives, unknown ones."""
    groups: dict[tuple[str, int], dict[str, str]] = {}
    roles: dict[tuple[str, int], str] = {}
    for place in (record or {}).get("inserted", ()):
        if place["group"] >= 0 and not str(place["identity"]).startswith(("patient:", CANARY)):
            key = (str(place["identity"]), int(place["group"]))
            groups.setdefault(key, {})[str(place["kind"])] = str(place["value"])
            roles[key] = str(place["role"])
    for key, parts in groups.items():
        if "full" in parts:
            parts["first"], _, parts["last"] = parts["full"].partition(" ")
        if parts.get("first") and parts.get("last"):
            yield FoundPerson(hash_of(key[0]), parts["first"], parts["last"], roles[key])
