"""The candidate list of a corpus: patients named in it, and controls that are nowhere in it.

Comes in: patient-name patterns, the people of the register, which names occur in D_private. Goes
out: candidates with counts, and the tables of the paper's appendix A. Knows no model.

Source: Nakamura et al., section 3.4 and appendix A. Differs: controls are left out if their full
name occurs anywhere, in either order or with one word between; they are matched to members in
popularity; two more kinds are drawn, of two members' parts, and matched ones of any kind.
"""

from __future__ import annotations

import hashlib
import json
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from audit.corpus.build import PEOPLE, CategoryCount
from audit.corpus.canaries import Canary, CanaryPlan, Planting, plant_lines
from audit.corpus.truth import (
    CANARY,
    NO_NOTES,
    ListedNotes,
    MentionCoverage,
    NamePattern,
    NoteLines,
    NotePair,
    coverage_of,
    note_pair,
    patterns_of,
    read_line,
)
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import (
    Accepts,
    Name,
    matched_controls,
    recombined_controls,
)
from audit.names.matching import NameIndex, Pair, pair_of
from audit.names.pools import NamePool, with_popularity
from audit.notes.mention_words import Mention
from audit.notes.mentions import examine
from audit.notes.passages import Passage
from audit.notes.read import open_notes
from audit.rng import generator
from audit.tables import RowNote, read_table, write_table
from audit.text import fold_name, is_unspaced, written_name

_MIN_BUFFER = 65_536


class NumberSet:
    """Numbers from 0 to 2^64 - 1 that were added."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, dtype=np.uint64)
        self._buffer: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._buffer)

    def add(self, number: int) -> bool:
        """Add a number; return whether it is a new one."""
        if number in self._buffer:
            return False
        wanted = np.uint64(number)
        at = int(np.searchsorted(self._sorted, wanted))
        if at < len(self._sorted) and self._sorted[at] == wanted:
            return False
        self._buffer.add(number)
        if len(self._buffer) >= _MIN_BUFFER:
            new = np.fromiter(self._buffer, dtype=np.uint64, count=len(self._buffer))
            self._sorted = np.sort(np.concatenate((self._sorted, new)))
            self._buffer.clear()
        return True


@dataclass(frozen=True)
class CountTable:
    """Names by a count of theirs: the paper's tables 3 and 4.

    `rows` holds (count, number of names with it), highest count first.
    """

    rows: tuple[tuple[int, int], ...]

    @property
    def n_names(self) -> int:
        """Names in all."""
        return sum(n_names for _, n_names in self.rows)

    @property
    def n_total(self) -> int:
        """Patterns, or mentions, in all."""
        return sum(count * n_names for count, n_names in self.rows)


@dataclass(frozen=True)
class RegisteredPerson:
    """A person of the register or the truth file; `role` is "patient", "staff" ..."""

    person: str
    first: str
    last: str
    role: str = "patient"
    sex: str = ""


@dataclass(frozen=True)
class CorpusCandidates:
    """What an audit of a corpus needs.

    Attributes
    ----------
    positives
        P names of patients with a pattern; `n_mentions` counts their patterns' occurrences.
    n_patterns
        P numbers of distinct patterns.
    n_people
        For each role, P numbers of people of that role who carry the name.
    easy, hard, recombined
        Controls; as many as positives where the pool has them.
    matched
        For each positive in turn a control of about the same popularity, of any kind; fewer where
        the pool has no more. `matched_to` holds the positive's row.
    staff
        Names of staff that occur in the corpus and are no positives, as members with their role.
    pattern_table, mention_table
        Tables 3 and 4.
    """

    positives: Candidates
    n_patterns: tuple[int, ...]
    n_people: tuple[tuple[str, tuple[int, ...]], ...]
    easy: Candidates
    hard: Candidates
    recombined: Candidates
    matched: Candidates
    matched_to: tuple[int, ...]
    staff: Candidates
    pattern_table: CountTable
    mention_table: CountTable

    def __post_init__(self) -> None:
        """Check the columns against each other."""
        n = len(self.positives)
        if len(self.n_patterns) != n or any(len(column) != n for _, column in self.n_people):
            raise ValueError("columns of different length")
        if len(self.matched) != len(self.matched_to):
            raise ValueError("a matched control without a positive")


def count_table(counts: Iterable[int]) -> CountTable:
    """Return how many names have each count; names with a count of 0 are left out."""
    tally = Counter(count for count in counts if count)
    return CountTable(tuple(sorted(tally.items(), reverse=True)))


def positives_of(
    patterns: Iterable[NamePattern], *, accepts: Accepts | None = None, role: str = "patient"
) -> tuple[Candidates, tuple[int, ...]]:
    """Return the names that have a pattern, with occurrences, and their distinct patterns.

    Parameters
    ----------
    patterns
        All of a corpus, repeats included.
    accepts
        Whether a name will do, as when both parts are single word pieces (section 3.4).
    role
        Whose patterns count; those whose role is not known count as well.

    Returns
    -------
    positives, n_patterns
        In the order in which the names first occur.
    """
    texts: dict[Pair, Counter[str]] = defaultdict(Counter)
    written: dict[Pair, Name] = {}
    for pattern in patterns:
        if pattern.role not in (role, "") or not (pattern.first and pattern.last):
            continue
        if accepts is not None and not accepts(pattern.first, pattern.last):
            continue
        key = pair_of(pattern.first, pattern.last)
        written.setdefault(key, (pattern.first, pattern.last))
        texts[key][" ".join(pattern.text.split())] += 1
    positives = make_candidates(
        list(written.values()),
        is_member=True,
        n_mentions=[texts[key].total() for key in written],
    )
    positives = replace(positives, role=(role,) * len(positives))
    return positives, tuple(len(texts[key]) for key in written)


def corpus_candidates(
    patterns: Iterable[NamePattern],
    *,
    found: Mapping[Pair, int],
    pool: NamePool,
    seed: int,
    people: Sequence[RegisteredPerson] = (),
    n: int | None = None,
    accepts: Accepts | None = None,
) -> CorpusCandidates:
    """Build the candidate list of a corpus.

    Parameters
    ----------
    patterns
        From `audit.corpus.truth.patterns_of`, of all notes.
    found
        Names that occur in D_private, from an `audit.names.matching.NameIndex` of the
        parts of pool and positives: no control is one of them.
    pool
        Where controls come from.
    seed
        Of the draws.
    people
        Of the register; none of them becomes a control either.
    n
        Controls of each kind; as many as positives if None.
    accepts
        Whether a name will do, for positives and controls alike.
    """
    positives, n_patterns = positives_of(patterns, accepts=accepts)
    positives = with_popularity(_with_sex(positives, people), pool=pool)
    n = len(positives) if n is None else n
    taken = set(found) | {pair_of(person.first, person.last) for person in people}

    def absent(first: str, last: str) -> bool:
        is_free = pair_of(first, last) not in taken and pair_of(last, first) not in taken
        return is_free and (accepts is None or accepts(first, last))

    matched = matched_controls(positives, n=len(positives), seed=seed, pool=pool, accepts=absent)
    easy, hard = (
        matched_controls(positives, n=n, seed=seed, kind=kind, pool=pool, accepts=absent).controls
        for kind in ("easy", "hard")
    )
    return CorpusCandidates(
        positives=positives,
        n_patterns=n_patterns,
        n_people=carriers(positives, people=people),
        easy=easy,
        hard=hard,
        recombined=recombined_controls(positives, n=n, seed=seed, pool=pool, accepts=absent),
        matched=matched.controls,
        matched_to=matched.rows,
        staff=_staff(positives, people, found=found, accepts=accepts, pool=pool),
        pattern_table=count_table(n_patterns),
        mention_table=count_table(count or 0 for count in positives.n_mentions),
    )


def carriers(
    names: Candidates, *, people: Iterable[RegisteredPerson]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return for each role how many people of the register carry each of the names."""
    tally: dict[str, Counter[Pair]] = defaultdict(Counter)
    for person in people:
        tally[person.role][pair_of(person.first, person.last)] += 1
    keys = [pair_of(*name) for name in zip(names.first, names.last, strict=True)]
    return tuple((role, tuple(tally[role][key] for key in keys)) for role in sorted(tally))


def _with_sex(names: Candidates, people: Iterable[RegisteredPerson]) -> Candidates:
    sexes: dict[Pair, set[str]] = defaultdict(set)
    for person in people:
        sexes[pair_of(person.first, person.last)].add(person.sex)
    found = [sexes[pair_of(*name)] for name in zip(names.first, names.last, strict=True)]
    return replace(names, sex=tuple(min(sex) if len(sex) == 1 else "" for sex in found))


def _staff(
    positives: Candidates,
    people: Iterable[RegisteredPerson],
    *,
    found: Mapping[Pair, int],
    accepts: Accepts | None,
    pool: NamePool,
) -> Candidates:
    known = {pair_of(*name) for name in zip(positives.first, positives.last, strict=True)}
    chosen: dict[Pair, RegisteredPerson] = {}
    for person in people:
        key = pair_of(person.first, person.last)
        is_new = person.role == "staff" and key not in known and bool(found.get(key))
        if is_new and (accepts is None or accepts(person.first, person.last)):
            chosen.setdefault(key, person)
    staff = make_candidates(
        [(person.first, person.last) for person in chosen.values()],
        is_member=True,
        n_mentions=[found[key] for key in chosen],
    )
    return with_popularity(replace(staff, role=("staff",) * len(staff)), pool=pool)


_NOWHERE = Passage("", ("full",), "", "", "", None)


class PatternTally:
    """Counts of one role's patterns; names that will not do are counted apart."""

    def __init__(self, *, accepts: Accepts | None = None) -> None:
        self._accepts = accepts
        self._names: dict[Pair, Name] = {}
        self._refused: set[Pair] = set()
        self._n_mentions: dict[Pair, int] = {}
        self._n_patterns: dict[Pair, int] = {}
        self._seen = NumberSet()

    def add(self, first: str, last: str, *, text_hash: int) -> tuple[bool, bool]:
        """Count a pattern; return whether its name will do, and whether the pattern is a new one.

        Parameters
        ----------
        text_hash
            From `hash_of` the pattern's text.
        """
        pair = pair_of(first, last)
        if pair in self._refused:
            return False, False
        if pair not in self._names:
            if not (first and last) or (self._accepts and not self._accepts(first, last)):
                self._refused.add(pair)
                return False, False
            self._names[pair] = (first, last)
            self._n_mentions[pair] = self._n_patterns[pair] = 0
        is_new = self._seen.add(hash_of(f"{pair[0]}\0{pair[1]}\0{text_hash}"))
        self._n_mentions[pair] += 1
        self._n_patterns[pair] += is_new
        return True, is_new

    def __len__(self) -> int:
        return len(self._names)

    @property
    def n_refused(self) -> int:
        """Names that will not do."""
        return len(self._refused)

    @property
    def names(self) -> tuple[Name, ...]:
        """The names in the order in which they first occur."""
        return tuple(self._names.values())

    @property
    def pattern_table(self) -> CountTable:
        """Names by distinct patterns (table 3)."""
        return count_table(self._n_patterns.values())

    @property
    def mention_table(self) -> CountTable:
        """Names by occurrences (table 4)."""
        return count_table(self._n_mentions.values())

    def stand_ins(self, names: Collection[Name], *, role: str = "patient") -> Iterator[NamePattern]:
        """Yield patterns with the same counts for the given names; their texts are numbers."""
        for first, last in names:
            pair = pair_of(first, last)
            n_again = self._n_mentions[pair] - self._n_patterns[pair]
            texts = [str(number) for number in range(self._n_patterns[pair])]
            for text in [*texts, *texts[:1] * n_again]:
                yield NamePattern("", "", role, first, last, "is_a", text, _NOWHERE)


def hash_of(text: str) -> int:
    """Return a number of 64 bits for a text, the same in every process."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


class ListedTally:
    """Places of names, and whose the notes are; notes are told in the corpus's order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._n_patients = 0
        self._patients = array("I")
        self._notes = array("I")
        self._names = array("Q")

    def add_note(self, patient: str) -> None:
        """Count the next note; `patient` is "" where nobody is told."""
        number = self._numbers.get(patient) if patient else None
        if number is None:
            number = self._n_patients
            self._n_patients += 1
            if patient:
                self._numbers[patient] = number
        self._patients.append(number)

    def add_name(self, first: str, last: str, *, note: int) -> None:
        """Say that a passage of a name stands in the note at a position."""
        self._notes.append(note)
        self._names.append(_key((first, last)))

    def listed(self, names: Iterable[Name], *, planted: Iterable[int] = ()) -> ListedNotes:
        """Return the notes of some names, and those into which canaries were planted."""
        wanted = {_key(name) for name in names}
        is_listed = bytearray(len(self._patients))
        for note, name in zip(self._notes, self._names, strict=True):
            if name in wanted:
                is_listed[note] = 1
        for note in planted:
            is_listed[note] = 1
        notes = array("I", (note for note, found in enumerate(is_listed) if found))
        patients = {self._patients[note] for note in notes}
        return ListedNotes(len(self._patients), self._n_patients, len(patients), notes)


def _key(name: Name) -> int:
    first, last = pair_of(*name)
    return hash_of(f"{first}\0{last}")


MAX_MENTIONS = 200_000


@dataclass(frozen=True, eq=False)
class FoundMentions:
    """What was found.

    Attributes
    ----------
    coverage
        Of all notes.
    n_refused
        Rows that are no notes.
    mentions
        Plain records: row, note_id, start, end, name_start, name_end, form, sex, age and whether it
        is a placeholder's; first and last name if they were asked for.
    n_left_out
        Mentions beyond the first 200,000.
    """

    coverage: MentionCoverage
    n_refused: int
    mentions: tuple[dict[str, Any], ...]
    n_left_out: int


def mentions_in(
    path: Path, *, columns: Mapping[str, str] | None = None, with_names: bool = False
) -> FoundMentions:
    """Find the mentions in a file of notes.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    coverage, n_refused = NO_NOTES, 0
    records: list[dict[str, Any]] = []
    for note in open_notes(path, columns=columns).read():
        if isinstance(note, RowNote):
            n_refused += 1
            continue
        found = tuple(examine(note.text))
        coverage += coverage_of(NotePair(note.note_id, note.text, note.text), examined=found)
        mentions = [each for each in found if isinstance(each, Mention)]
        for mention in mentions[: MAX_MENTIONS - len(records)]:
            place = {"row": note.row, "note_id": note.note_id}
            records.append(place | _record(mention, with_names=with_names))
    return FoundMentions(
        coverage, n_refused, tuple(records), coverage.n_mentions - len(records)
    )  # fmt: skip


def _record(mention: Mention, *, with_names: bool) -> dict[str, Any]:
    record: dict[str, Any] = {
        "start": mention.start,
        "end": mention.end,
        "name_start": mention.name_start,
        "name_end": mention.name_end,
        "form": mention.form,
        "sex": mention.sex,
        "age_years": None if math.isnan(mention.age_years) else mention.age_years,
        "is_full": mention.is_full,
        "is_placeholder": mention.is_placeholder,
    }
    return record | ({"first": mention.first, "last": mention.last} if with_names else {})


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


class People:
    """Names of the corpus's people.

    Parameters
    ----------
    folder
        Of the corpus.
    kind
        Of the corpus.
    """

    def __init__(self, folder: Path, *, kind: str) -> None:
        self._kind = kind
        self._of_person: dict[str, Name] = {}
        self._sex_of_person: dict[str, str] = {}
        self._written: dict[Pair, Name] = {}
        self._counts: dict[str, Counter[Pair]] = defaultdict(Counter)
        self._sexes: dict[Pair, str] = {}
        self._seen = NumberSet()
        self._kept: dict[str, str] = {}  # one string for each part, however many carry it
        self.n_patients = self.n_named = 0
        with (folder / PEOPLE).open("rb") as lines:
            for line in lines:
                self._read(read_line(line))

    def _read(self, record: dict[str, Any]) -> None:
        self.n_patients += 1
        self.n_named += record["n_full_names"] > 0
        if self._kind == "dummy":
            person, names = str(record["identity"]), [(record["first"], record["last"])]
        else:
            person = str(record["patient_id"])
            names = [(first, last) for first, _, last in record["names"]]
        names = [(self._one(first), self._one(last)) for first, last in names]
        pairs = {pair: name for name in names if all(pair := self._pair(name))}
        if len(names) == 1 and pairs:  # of several names the text says which one it is
            self._of_person[person] = names[0]
        sex = str(record["sex"])
        self._sex_of_person[person] = sex
        for pair, name in pairs.items():
            self._written.setdefault(pair, name)
            self._counts["patient"][pair] += 1
            self._sexes[pair] = sex if self._sexes.get(pair, sex) == sex else ""

    def add(self, people: Iterable[FoundPerson]) -> None:
        """Take in people that were found in the notes; each of them once."""
        for person in people:
            if self._seen.add(person.key):
                name = (self._one(person.first), self._one(person.last))
                pair = self._pair(name)
                self._written.setdefault(pair, name)
                self._counts[person.role][pair] += 1

    def count(self, names: Mapping[Pair, int], *, into: Counter[Pair]) -> None:
        """Add counts of full names; equal parts are one string, however many names hold them."""
        for pair, n in names.items():
            if pair in into:
                into[pair] += n
            else:
                into[self._one(pair[0]), self._one(pair[1])] = n

    def name_of(self, person: str) -> Name | None:
        """Return the one name of a person; None for who has several, or is not known."""
        return self._of_person.get(person)

    def sex_of(self, person: str) -> str:
        """Return "M", "F", or "" where it is not known."""
        return self._sex_of_person.get(person, "")

    @property
    def pairs(self) -> Collection[Pair]:
        """Every full name of anybody."""
        return self._written.keys()

    @property
    def names(self) -> Iterator[Name]:
        """Every full name of anybody, as written."""
        return iter(self._written.values())

    @property
    def parts(self) -> tuple[set[str], set[str]]:
        """First names and last names."""
        return {name[0] for name in self.names}, {name[1] for name in self.names}

    @property
    def folded_parts(self) -> frozenset[str]:
        """Every part of a name of two letters or more, in the form in which names are compared."""
        folded = (fold_name(part) for name in self.names for part in name)
        return frozenset(part for part in folded if len(part) > 1)

    @property
    def is_unspaced(self) -> bool:
        """Whether most names are in a script that is written without spaces."""
        return 2 * sum(is_unspaced(first + last) for first, last in self.names) > len(self._written)

    def listed(
        self, names: Iterable[Name], *, n_staff: int, seed: int, is_in: Callable[[Pair], bool]
    ) -> tuple[RegisteredPerson, ...]:
        """Return who carries the given names, and staff drawn from those that are in the notes."""
        people = [
            RegisteredPerson("", first, last, "patient", self._sexes.get(pair_of(first, last), ""))
            for first, last in names
        ]
        staff = [pair for pair in self._counts["staff"] if is_in(pair)]
        order = generator(seed, "corpus/staff").permutation(len(staff))[:n_staff]
        return (
            *people,
            *(RegisteredPerson("", *self._written[staff[i]], "staff") for i in sorted(order)),
        )

    def carriers(self, names: Candidates) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
        """Return for each role (people who carry a name, number of such names), fewest first."""
        pairs = [pair_of(*name) for name in zip(names.first, names.last, strict=True)]
        tables = []
        for role in sorted(self._counts):
            tally = Counter(self._counts[role][pair] for pair in pairs)
            tables.append((role, tuple(sorted(tally.items()))))
        return tuple(tables)

    def _one(self, part: str) -> str:
        return self._kept.setdefault(part, part)

    def _pair(self, name: Name) -> Pair:
        first, last = pair_of(*name)
        return self._one(first), self._one(last)


EXAMINATION = "examination.json"
FORMAT = 1


@dataclass(frozen=True)
class CountOf:
    """How many names (or people, or rows) have a number, or a reason, of theirs."""

    what: str
    n: int


@dataclass(frozen=True)
class ListedNames:
    """Names of the candidate list of one kind: members have no control kind."""

    control_kind: str
    role: str
    n: int


@dataclass(frozen=True)
class Examination:
    """What was counted in a corpus.

    Attributes
    ----------
    coverage
        Mentions by form, ages without one by reason, names that stand elsewhere.
    n_refused, refused
        Rows of the source that are no notes, and how many for each reason.
    n_patients, n_named_patients
        Patients of the corpus, and those whose first and last name stand together somewhere.
    inserted, unknown
        Placeholders that were replaced and those that were not understood, by category; empty for
        a corpus with a register.
    n_malformed
        Placeholders that are opened and never closed.
    doubts
        A corpus with a register: places that look like names and were left, by reason.
    pattern_table, mention_table
        Tables 3 and 4: (count, number of names with it), the highest count first.
    n_positives, n_not_one_token
        Names of patients with a pattern; and those that were left out because a part is no single
        token of the general model.
    n_listed_positives
        How many of the positives the candidate list has: 20,000 at most are drawn.
    candidates
        Names of the candidate list by kind and role.
    carriers
        For each role, (people who carry a positive's name, number of such names), fewest people
        first.
    canaries
        (mentions, planted names with it); as many twins were left out.
    n_passages
        Distinct patterns, each with its passage of D_public.
    """

    coverage: MentionCoverage
    n_refused: int
    refused: tuple[CountOf, ...]
    n_patients: int
    n_named_patients: int
    inserted: tuple[CategoryCount, ...]
    unknown: tuple[CategoryCount, ...]
    n_malformed: int
    doubts: tuple[CountOf, ...]
    pattern_table: tuple[tuple[int, int], ...]
    mention_table: tuple[tuple[int, int], ...]
    n_positives: int
    n_listed_positives: int
    n_not_one_token: int
    candidates: tuple[ListedNames, ...]
    carriers: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
    canaries: tuple[tuple[int, int], ...]
    n_passages: int

    def __post_init__(self) -> None:
        """Check that the tables are of the same names."""
        sizes = {sum(n for _, n in table) for table in (self.pattern_table, self.mention_table)}
        if sizes != {self.n_positives} or self.n_listed_positives > self.n_positives:
            raise ValueError("the tables do not count the positives")

    @property
    def n_notes(self) -> int:
        """Notes of the corpus."""
        return self.coverage.n_notes

    @property
    def n_patterns(self) -> int:
        """Distinct patient-name patterns (the paper has 158)."""
        return sum(count * n for count, n in self.pattern_table)

    @property
    def n_occurrences(self) -> int:
        """Occurrences of patterns (the paper has 232)."""
        return sum(count * n for count, n in self.mention_table)


def examination_bytes(examination: Examination) -> bytes:
    """Return an examination as JSON."""
    content = {"format": FORMAT, **asdict(examination)}
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def read_examination(folder: Path) -> Examination:
    """Read the examination of a corpus.

    Raises
    ------
    AuditError
        If the folder has none of this version.
    """
    try:
        content = json.loads((folder / EXAMINATION).read_bytes())
        if content.pop("format") != FORMAT:
            raise ValueError
        return examination_from_json(content)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        raise AuditError(
            "The corpus has no examination that can be read.",
            where="corpus",
            do="Build the corpus again.",
        ) from None


def examination_from_json(content: Mapping[str, Any]) -> Examination:
    """Return an examination from its plain values."""
    coverage = {name: _frozen(value) for name, value in content["coverage"].items()}
    lists = {
        "refused": CountOf,
        "doubts": CountOf,
        "inserted": CategoryCount,
        "unknown": CategoryCount,
        "candidates": ListedNames,
    }
    values: dict[str, Any] = {
        name: tuple(lists[name](**item) for item in value) if name in lists else _frozen(value)
        for name, value in content.items()
        if name != "coverage"
    }
    return Examination(coverage=MentionCoverage(**coverage), **values)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


CANDIDATES, PASSAGES, CANARIES = "candidates.csv", "passages.jsonl", "canaries.csv"
MEMBERS = ("patient", "staff", "canary")
CONTROLS = ("easy", "hard", "recombined", "matched")
LISTS = (*MEMBERS, *CONTROLS)
"""Lists of `candidates.csv`: names in D_private by role, then controls by kind; twins of canaries
are in the list "canary"."""

_HEADER = (
    *("list", "first_name", "last_name", "is_member"),
    *("control_kind", "role", "sex", "n_mentions"),
)
_CANARY_HEADER = ("first_name", "last_name", "is_planted", "n_mentions", "group", "pair")


def candidates_csv(lists: Mapping[str, Candidates]) -> bytes:
    """Return all lists as one CSV file; a name may stand in two lists of controls."""
    return write_table(_HEADER, _rows(lists)).encode()


def _rows(lists: Mapping[str, Candidates]) -> Iterator[Sequence[object]]:
    for name in LISTS:
        found = lists.get(name)
        for row in range(len(found) if found else 0):
            assert found is not None
            yield (
                name, found.first[row], found.last[row], found.is_member[row],
                found.control_kind[row], found.role[row], found.sex[row], found.n_mentions[row],
            )  # fmt: skip


def read_candidates(data: bytes, *, lists: Iterable[str]) -> Candidates:
    """Read the names of some lists; one that stands in two of them comes once.

    Raises
    ------
    AuditError
        If the file is not one of `candidates_csv`, or there is no such list.
    """
    wanted = tuple(lists)
    if not set(wanted) <= set(LISTS):
        raise AuditError("There is no such list.", where="candidates")
    table = read_table(data, what="candidates")
    if table.header != _HEADER:
        raise AuditError(
            "This is no list of a corpus.", where="candidates", do="Build the corpus again."
        )
    by_list: dict[str, list[tuple[str, ...]]] = {name: [] for name in wanted}
    for cells in table.rows:
        if cells[0] in by_list:
            by_list[cells[0]].append(cells)
    rows: dict[str, tuple[str, ...]] = {}
    for name in LISTS:
        for cells in by_list.get(name, ()):
            rows.setdefault(fold_name(written_name(cells[1], cells[2])), cells)
    return _candidates(list(rows.values()))


def _candidates(rows: Sequence[tuple[str, ...]]) -> Candidates:
    return Candidates(
        first=tuple(row[1] for row in rows),
        last=tuple(row[2] for row in rows),
        is_member=tuple(row[3] == "1" for row in rows),
        control_kind=tuple(row[4] for row in rows),
        role=tuple(row[5] for row in rows),
        sex=tuple(row[6] for row in rows),
        n_mentions=tuple(int(row[7]) if row[7] else None for row in rows),
        popularity=(math.nan,) * len(rows),
    )


def canary_candidates(plan: CanaryPlan) -> Candidates:
    """Return planted names as members and twins as controls; the i-th of both are a pair."""
    planted = sorted(plan.planted, key=lambda canary: canary.pair)
    twins = sorted(plan.twins, key=lambda canary: canary.pair)
    ordered: tuple[Canary, ...] = (*planted, *twins)
    return Candidates(
        first=tuple(canary.first for canary in ordered),
        last=tuple(canary.last for canary in ordered),
        is_member=tuple(canary.n_mentions > 0 for canary in ordered),
        control_kind=tuple("" if canary.n_mentions else "canary" for canary in ordered),
        role=("canary",) * len(ordered),
        sex=("",) * len(ordered),
        n_mentions=tuple(canary.n_mentions for canary in ordered),
        popularity=(math.nan,) * len(ordered),
    )


def canaries_csv(plan: CanaryPlan | None) -> bytes:
    """Return the canaries as CSV, planted ones and twins."""
    rows = [
        [c.first, c.last, c.n_mentions > 0, c.n_mentions, c.group, c.pair]
        for c in (plan.canaries if plan else ())
    ]
    return write_table(_CANARY_HEADER, rows).encode()


def file_bytes(path: Path) -> bytes:
    """Return what is in a file of a corpus.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError:
        raise AuditError(
            "A file of the corpus cannot be read.", where="corpus", do="Build the corpus again."
        ) from None
