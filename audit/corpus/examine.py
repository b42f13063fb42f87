"""What is counted in a corpus: mentions of patients, patient-name patterns, and who carries a name.

Comes in: notes with their truth. Goes out: coverage of the mentions, patterns with the passage of
D_public, tables of the paper's appendix A. Knows no model.

Source: Nakamura et al., section 3.4 and appendix A.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import model_validator

from audit.corpus.build import CategoryCount
from audit.corpus.truth import CANARY, EXAMINATION, ListedNotes, NoteTruth, Place, TrueName
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import Accepts, Name
from audit.names.matching import Pair, pair_of
from audit.notes.mention_words import FORMS, PLACEHOLDER, REASONS, Mention, Unnamed
from audit.notes.mentions import examine, find_mentions
from audit.notes.passages import Passage
from audit.notes.placeholders import find_name_slot
from audit.notes.read import open_notes
from audit.notes.sentences import end_of_sentences, start_of_sentence
from audit.tables import RowNote
from audit.task import Record
from audit.text import fold_name, is_unspaced

N_SENTENCES = 5
_SLOTS = {"first": "[FIRST]", "last": "[LAST]"}
# Between two places these are read back as they are; else one place takes the whole name.
_SEPARATORS = ("", " ", ", ", "\u3000")


@dataclass(frozen=True, slots=True)
class NamePattern:
    """One patient-name pattern.

    Attributes
    ----------
    person, role
        The truth's key, and "patient", "staff" ...; "" where the truth is not known.
    first, last
        As in the text.
    text
        The sentences of D_private with single spaces: two patterns with the same text are one.
    passage
        The same sentences of D_public, with the place of the name.
    """

    person: str
    role: str
    first: str
    last: str
    text: str
    passage: Passage


def patterns_of(
    note: NoteTruth,
    *,
    n_sentences: int = N_SENTENCES,
    has_left: bool = False,
    known: Collection[str] = (),
    mentions: Sequence[Mention] | None = None,
) -> Iterator[NamePattern]:
    """Yield the patterns of a note: its mentions with first and last name whose owner is known.

    Parameters
    ----------
    n_sentences
        Sentences from the mention on.
    has_left
        With the beginning of the mention's sentence (what stands before the name moves it to the
        position it had in training); else from the mention on, as in the paper.
    known
        As in `find_mentions`.
    mentions
        What `find_mentions` gives for `private`, where that is at hand already.
    """
    for mention in find_mentions(note.private, known=known) if mentions is None else mentions:
        owner = owner_of(mention, note.names)
        is_nobodys = note.names is not None and owner is None
        if not mention.is_full or mention.is_placeholder or is_nobodys:
            continue
        end = end_of_sentences(note.private, start=mention.start, n=n_sentences)
        start = start_of_sentence(note.private, at=mention.start) if has_left else mention.start
        yield NamePattern(
            person=owner.person if owner else "",
            role=owner.role if owner else "",
            first=mention.first,
            last=mention.last,
            text=" ".join(note.private[start:end].split()),
            passage=_passage(note, mention, start=start, end=end),
        )


def owner_of(mention: Mention, names: Sequence[TrueName] | None) -> TrueName | None:
    """Return the true name that a mention's name overlaps; None where there is none."""
    for name in names or ():
        if name.start < mention.name_end and mention.name_start < name.end:
            return name
    return None


def _passage(note: NoteTruth, mention: Mention, *, start: int, end: int) -> Passage:
    left, name_start = note.in_public(start), note.in_public(mention.name_start)
    name_end, right = (note.in_public(at, is_end=True) for at in (mention.name_end, end))
    # What is left and right of the name is cleaned as the reader of passages does it; a name
    # placeholder on the left must not be taken for the patient's.
    masked = PLACEHOLDER.sub("[**x**]", note.public[left:name_start])
    before = find_name_slot(f"{masked}[NAME]")
    behind = find_name_slot(f"[NAME]{note.public[name_end:right]}")
    between = note.private[mention.name_start : mention.name_end]
    return Passage(
        left=before.left if before else "",
        slots=mention.roles,
        separator=_separator(between, mention),
        right=behind.right if behind else "",
        passage_id="",
        owner=(mention.first, mention.last),
    )


def _separator(written: str, mention: Mention) -> str:
    if mention.roles == ("full",):
        return ""
    if "," in written:
        return ", "
    if "\u3000" in written:
        return "\u3000"
    if mention.form.startswith("ja_") and " " not in written:
        return "・" if "・" in written else ""
    return " "


def written_passage(passage: Passage) -> str:
    """Return a passage as `read_passages` reads it, the name's place in brackets."""
    is_full = passage.slots == ("full",) or passage.separator not in _SEPARATORS
    place = "[NAME]" if is_full else passage.separator.join(_SLOTS[slot] for slot in passage.slots)
    return f"{passage.left}{place}{passage.right}"


class MentionCoverage(Record):
    """Counts over notes; two of them add up with +.

    Attributes
    ----------
    n_notes, n_notes_with_mention
        Notes read, and those with a mention at least.
    forms, reasons
        Mentions for each of `FORMS`, and ages without a mention for each of `REASONS`.
    n_full
        Mentions with first and last name, or a placeholder for the whole name.
    n_placeholder
        Mentions whose name is a placeholder.
    n_by_role
        (role, mentions) of people that the truth knows, sorted; empty where it is not known.
    n_of_nobody
        Mentions that are no name of the truth.
    n_true_names, n_true_names_mentioned
        Names of patients in the notes according to the truth, and those that are a mention's: the
        others stand elsewhere.
    """

    n_notes: int = 0
    n_notes_with_mention: int = 0
    forms: tuple[int, ...] = (0,) * len(FORMS)
    reasons: tuple[int, ...] = (0,) * len(REASONS)
    n_full: int = 0
    n_placeholder: int = 0
    n_by_role: tuple[tuple[str, int], ...] = ()
    n_of_nobody: int = 0
    n_true_names: int = 0
    n_true_names_mentioned: int = 0

    @property
    def n_mentions(self) -> int:
        """Mentions of all forms."""
        return sum(self.forms)

    @property
    def n_elsewhere(self) -> int:
        """Patients' names that stand elsewhere than in a mention."""
        return self.n_true_names - self.n_true_names_mentioned

    @property
    def by_form(self) -> tuple[tuple[str, int], ...]:
        """(form, mentions), forms that do not occur left out."""
        return tuple((form, n) for form, n in zip(FORMS, self.forms, strict=True) if n)

    @property
    def by_reason(self) -> tuple[tuple[str, int], ...]:
        """(reason, ages without a mention)."""
        return tuple(zip(REASONS, self.reasons, strict=True))

    def __add__(self, other: MentionCoverage) -> MentionCoverage:
        def added(name: str, mine: Any) -> Any:
            own = getattr(other, name)
            if name == "n_by_role":
                return tuple(sorted((Counter(dict(mine)) + Counter(dict(own))).items()))
            if isinstance(mine, int):
                return mine + own
            return tuple(map(sum, zip(mine, own, strict=True)))

        return MentionCoverage(**{name: added(name, value) for name, value in self})


def coverage_of(
    note: NoteTruth,
    *,
    known: Collection[str] = (),
    examined: Sequence[Mention | Unnamed] | None = None,
) -> MentionCoverage:
    """Return the coverage of one note; mentions are looked for in `private`.

    `examined` is what `examine` gives for it, where that is at hand already.
    """
    found = tuple(examine(note.private, known=known)) if examined is None else examined
    mentions = [each for each in found if isinstance(each, Mention)]
    forms = Counter(mention.form for mention in mentions)
    reasons = Counter(each.reason for each in found if not isinstance(each, Mention))
    owners = [owner_of(mention, note.names) for mention in mentions]
    roles = Counter(owner.role for owner in owners if owner)
    patients = [name for name in note.names or () if name.role in ("patient", "")]
    return MentionCoverage(
        n_notes=1,
        n_notes_with_mention=int(bool(forms)),
        forms=tuple(forms[form] for form in FORMS),
        reasons=tuple(reasons[reason] for reason in REASONS),
        n_full=sum(mention.is_full for mention in mentions),
        n_placeholder=sum(mention.is_placeholder for mention in mentions),
        n_by_role=tuple(sorted(roles.items())),
        n_of_nobody=0 if note.names is None else owners.count(None),
        n_true_names=len(patients),
        n_true_names_mentioned=sum(name in owners for name in patients),
    )


MAX_MENTIONS = 200_000


def mentions_in(
    path: Path, *, columns: Mapping[str, str] | None = None, with_names: bool = False
) -> tuple[MentionCoverage, int, tuple[dict[str, Any], ...]]:
    """Find the mentions in a file of notes.

    Returns
    -------
    coverage, n_refused, mentions
        Of all notes; rows that are no notes; and as plain records the first 200,000 mentions, with
        first and last name if they were asked for.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    coverage, n_refused = MentionCoverage(), 0
    records: list[dict[str, Any]] = []
    for note in open_notes(path, columns=columns).read():
        if isinstance(note, RowNote):
            n_refused += 1
            continue
        found = tuple(examine(note.text))
        coverage += coverage_of(NoteTruth(note.text, note.text), examined=found)
        mentions = [each for each in found if isinstance(each, Mention)]
        for mention in mentions[: MAX_MENTIONS - len(records)]:
            place = {"row": note.row, "note_id": note.note_id}
            records.append(place | _record(mention, with_names=with_names))
    return coverage, n_refused, tuple(records)


_SHOWN = ("start", "end", "name_start", "name_end", "form", "sex")


def _record(mention: Mention, *, with_names: bool) -> dict[str, Any]:
    return {
        **{name: getattr(mention, name) for name in _SHOWN},
        "age_years": None if math.isnan(mention.age_years) else mention.age_years,
        "is_full": mention.is_full,
        "is_placeholder": mention.is_placeholder,
        **({"first": mention.first, "last": mention.last} if with_names else {}),
    }


CountTable = tuple[tuple[int, int], ...]
"""(count, number of names with it), highest count first: the paper's tables 3 and 4."""


def count_table(counts: Iterable[int]) -> CountTable:
    """Return how many names have each count; names with a count of 0 are left out."""
    tally = Counter(count for count in counts if count)
    return tuple(sorted(tally.items(), reverse=True))


class PatternTally:
    """Counts of one role's patterns; names that will not do are counted apart."""

    def __init__(self, *, accepts: Accepts | None = None) -> None:
        self._accepts = accepts
        self._refused: set[Pair] = set()
        self._names: dict[Pair, Name] = {}
        self._n_mentions: Counter[Pair] = Counter()
        self._n_patterns: Counter[Pair] = Counter()
        self._seen: set[int] = set()  # hashes: the texts would be as large as the notes

    def add(self, first: str, last: str, *, text: str) -> tuple[bool, bool]:
        """Count a pattern; return whether its name will do, and whether the pattern is new."""
        pair = pair_of(first, last)
        if pair in self._refused:
            return False, False
        if pair not in self._names:
            if not (first and last) or (self._accepts and not self._accepts(first, last)):
                self._refused.add(pair)
                return False, False
            self._names[pair] = (first, last)
        n_before = len(self._seen)
        self._seen.add(hash((pair, text)))
        is_new = len(self._seen) > n_before
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

    def members(self, names: Sequence[Name]) -> Candidates:
        """Return some of the names as members of a list, with their occurrences."""
        n_mentions = [self._n_mentions[pair_of(*name)] for name in names]
        return make_candidates(names, is_member=True, n_mentions=n_mentions)


class ListedTally:
    """Places of names, and whose the notes are; notes are told in the corpus's order."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._n_patients = 0
        self._patients = array("I")
        self._notes = array("I")
        self._names = array("q")

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
        self._names.append(hash(pair_of(first, last)))

    def listed(self, names: Iterable[Name], *, planted: Iterable[int] = ()) -> ListedNotes:
        """Return the notes of some names, and those into which canaries were planted."""
        wanted = {hash(pair_of(*name)) for name in names}
        pairs = zip(self._notes, self._names, strict=True)
        notes = array("I", sorted({note for note, name in pairs if name in wanted} | {*planted}))
        patients = {self._patients[note] for note in notes}
        return ListedNotes(len(self._patients), self._n_patients, len(patients), notes)


@dataclass(frozen=True, slots=True)
class NamedPerson:
    """Somebody who is named in full in a note and is in no register: staff, relatives ..."""

    identity: str
    first: str
    last: str
    role: str


def named_people(places: Iterable[Place]) -> Iterator[NamedPerson]:
    """Yield who is named in full and is in no register."""
    groups: dict[tuple[str, int], dict[str, Place]] = {}
    for place in places:
        if place.group >= 0 and not place.identity.startswith(("patient:", CANARY)):
            groups.setdefault((place.identity, place.group), {})[place.kind] = place
    for (identity, _), parts in groups.items():
        values = {kind: place.value for kind, place in parts.items()}
        if "full" in values:
            values["first"], _, values["last"] = values["full"].partition(" ")
        if values.get("first") and values.get("last"):
            role = next(iter(parts.values())).role
            yield NamedPerson(identity, values["first"], values["last"], role)


class People:
    """Names of the corpus's people, from the records of `people.jsonl` and from the notes."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self._of_person: dict[str, Name] = {}
        self._sex_of_person: dict[str, str] = {}
        self._written: dict[Pair, Name] = {}
        self._counts: dict[str, Counter[Pair]] = defaultdict(Counter)
        self._sexes: dict[Pair, str] = {}
        self._seen: set[int] = set()
        self._kept: dict[str, str] = {}  # one string for each part, however many carry it
        for record in records:
            self._read(record)

    def _read(self, record: Mapping[str, Any]) -> None:
        person = f"patient:{record['patient_id']}"
        names = [(first, last) for first, _, last in record.get("names", ())]
        names = names or [(record["first"], record["last"])]
        names = [(self._one(first), self._one(last)) for first, last in names]
        pairs = {pair: name for name in names if all(pair := self._pair(name))}
        if len(names) == 1 and pairs:  # of several names the text says which one it is
            self._of_person[person] = names[0]
        sex = self._sex_of_person[person] = str(record["sex"])
        for pair, name in pairs.items():
            self._written.setdefault(pair, name)
            self._counts["patient"][pair] += 1
            self._sexes[pair] = sex if self._sexes.get(pair, sex) == sex else ""

    def add(self, people: Iterable[NamedPerson]) -> None:
        """Take in people that were found in the notes; each of them once."""
        for person in people:
            key = hash(person.identity)
            if key not in self._seen:
                self._seen.add(key)
                name = (self._one(person.first), self._one(person.last))
                pair = self._pair(name)
                self._written.setdefault(pair, name)
                self._counts[person.role][pair] += 1

    def count(self, names: Mapping[Pair, int], *, into: Counter[Pair]) -> None:
        """Add counts of full names; equal parts are one string, however many names hold them."""
        for pair, n in names.items():
            into[pair if pair in into else (self._one(pair[0]), self._one(pair[1]))] += n

    def __len__(self) -> int:
        return len(self._sex_of_person)

    def __contains__(self, person: str) -> bool:
        return person in self._sex_of_person

    def name_of(self, person: str) -> Name | None:
        """Return the one name of a patient; None for who has several, or is not known."""
        return self._of_person.get(person)

    def sex_of(self, person: str) -> str:
        """Return "M", "F", or "" where it is not known."""
        return self._sex_of_person.get(person, "")

    def sex_of_name(self, name: Name) -> str:
        """Return the sex of the patients who carry a name; "" where they differ."""
        return self._sexes.get(pair_of(*name), "")

    @property
    def pairs(self) -> Collection[Pair]:
        """Every full name of anybody."""
        return self._written.keys()

    @property
    def names(self) -> Collection[Name]:
        """Every full name of anybody, as written."""
        return self._written.values()

    @property
    def parts(self) -> tuple[set[str], set[str]]:
        """First names and last names."""
        return {name[0] for name in self.names}, {name[1] for name in self.names}

    @cached_property
    def folded_parts(self) -> frozenset[str]:
        """Every part of a name of two letters or more, in the form in which names are compared."""
        folded = (fold_name(part) for name in self.names for part in name)
        return frozenset(part for part in folded if len(part) > 1)

    @property
    def is_unspaced(self) -> bool:
        """Whether most names are in a script that is written without spaces."""
        return 2 * sum(is_unspaced(first + last) for first, last in self.names) > len(self.names)

    def staff(self) -> list[tuple[Pair, Name]]:
        """Return the names of staff, in the order in which they were found."""
        return [(pair, self._written[pair]) for pair in self._counts["staff"]]

    def carriers(self, names: Candidates) -> tuple[tuple[str, CountTable], ...]:
        """Return for each role (people who carry a name, number of such names), fewest first."""
        pairs = [pair_of(*name) for name in zip(names.first, names.last, strict=True)]
        return tuple(
            (role, tuple(sorted(Counter(self._counts[role][pair] for pair in pairs).items())))
            for role in sorted(self._counts)
        )

    def _one(self, part: str) -> str:
        return self._kept.setdefault(part, part)

    def _pair(self, name: Name) -> Pair:
        first, last = pair_of(*name)
        return self._one(first), self._one(last)


class CountOf(Record):
    """How many names (or people, or rows) have a number, or a reason, of theirs."""

    what: str
    n: int


class ListedNames(Record):
    """Names of the candidate list of one kind: members have no control kind."""

    control_kind: str
    role: str
    n: int


class Examination(Record):
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

    format: Literal[1] = 1
    coverage: MentionCoverage
    n_refused: int
    refused: tuple[CountOf, ...]
    n_patients: int
    n_named_patients: int
    inserted: tuple[CategoryCount, ...]
    unknown: tuple[CategoryCount, ...]
    n_malformed: int
    doubts: tuple[CountOf, ...]
    pattern_table: CountTable
    mention_table: CountTable
    n_positives: int
    n_listed_positives: int
    n_not_one_token: int
    candidates: tuple[ListedNames, ...]
    carriers: tuple[tuple[str, CountTable], ...]
    canaries: CountTable
    n_passages: int

    @model_validator(mode="after")
    def _is_of_the_same_names(self) -> Self:
        sizes = {sum(n for _, n in table) for table in (self.pattern_table, self.mention_table)}
        if sizes != {self.n_positives} or self.n_listed_positives > self.n_positives:
            raise ValueError("the tables do not count the positives")
        return self

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
    """Return an examination as JSON that a person can read."""
    return (json.dumps(examination.plain(), ensure_ascii=False, indent=1) + "\n").encode()


def read_examination(folder: Path) -> Examination:
    """Read the examination of a corpus.

    Raises
    ------
    AuditError
        If the folder has none of this version.
    """
    try:
        return Examination.read((folder / EXAMINATION).read_bytes(), where="examination")
    except (OSError, AuditError):
        raise AuditError(
            "The corpus has no examination that can be read.",
            where="corpus",
            do="Build the corpus again.",
        ) from None
