"""What is counted in a corpus: mentions of patients, patient-name patterns, and who carries a name.

Comes in: notes with their truth. Goes out: coverage of the mentions, patterns with the passage of
D_public, tables of the paper's appendix A. Knows no model.

Source: Nakamura et al., section 3.4 and appendix A.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from sys import intern
from typing import Any, Literal

from audit.corpus.truth import CANARY, EXAMINATION, ListedNotes, NoteTruth, Place
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import Accepts, Name
from audit.names.matching import Pair, pair_of
from audit.notes.mention_words import FORMS, PLACEHOLDER, REASONS, Mention, Unnamed
from audit.notes.mentions import examine, find_mentions
from audit.notes.placeholders import find_name_slot
from audit.notes.read import Note, open_notes
from audit.notes.sentences import end_of_sentences, start_of_sentence
from audit.tables import RowNote
from audit.task import Record
from audit.text import fold_name, is_unspaced

N_SENTENCES = 5


@dataclass(frozen=True)
class NamePattern:
    """One patient-name pattern: the truth's key and role ("" where not known), the name as written.

    `text` has the sentences of D_private with single spaces: two patterns with the same text are
    one; `passage` those of D_public, the name's place in brackets, as `read_passages` reads it.
    """

    person: str
    role: str
    first: str
    last: str
    text: str
    passage: str


def patterns_of(
    note: NoteTruth,
    mentions: Sequence[Mention] | None = None,
    *,
    n_sentences: int = N_SENTENCES,
    has_left: bool = False,
) -> Iterator[NamePattern]:
    """Yield the patterns of a note: its mentions with first and last name whose owner is known.

    They have so many sentences from the mention on, as in the paper; with `has_left` from the
    beginning of its sentence: the name then stands where it stood in training. `mentions` are what
    `find_mentions` gives for `private`.
    """
    for mention in find_mentions(note.private) if mentions is None else mentions:
        owner = owner_of(mention, note.names)
        is_nobodys = note.names is not None and owner is None
        if not mention.is_full or mention.is_placeholder or is_nobodys:
            continue
        start, text = mention.start, note.private
        end = end_of_sentences(text, start=start, n=n_sentences)
        start = start_of_sentence(text, at=start) if has_left else start
        person, role = (owner.identity, owner.role) if owner else ("", "")
        sentences = " ".join(text[start:end].split())
        passage = _passage(note, mention, start=start, end=end)
        yield NamePattern(person, role, mention.first, mention.last, sentences, passage)


def owner_of(mention: Mention, names: Sequence[Place] | None) -> Place | None:
    """Return the true name that a mention's name overlaps; None where there is none."""
    for name in names or ():
        if name.start < mention.name_end and mention.name_start < name.stop:
            return name
    return None


def _passage(note: NoteTruth, mention: Mention, *, start: int, end: int) -> str:
    left, name_start = note.in_public(start), note.in_public(mention.name_start)
    name_end, right = (note.in_public(at, is_end=True) for at in (mention.name_end, end))
    # What is left and right of the name is cleaned as the reader of passages does it; a name
    # placeholder on the left must not be taken for the patient's.
    masked = PLACEHOLDER.sub("[**x**]", note.public[left:name_start])
    before = find_name_slot(f"{masked}[NAME]")
    behind = find_name_slot(f"[NAME]{note.public[name_end:right]}")
    place = _place(note.private[mention.name_start : mention.name_end], mention)
    return (before.left if before else "") + place + (behind.right if behind else "")


def _place(written: str, mention: Mention) -> str:
    """Return what stands for a name: its parts are read back where a known mark is between them."""
    if mention.roles == ("full",):
        return "[NAME]"
    between = next((mark for mark in (", ", "\u3000") if mark.strip(" ") in written), " ")
    if between == " " and mention.form.startswith("ja_") and " " not in written:
        if "・" in written:
            return "[NAME]"
        between = ""
    return between.join(f"[{role.upper()}]" for role in mention.roles)


MAX_CATEGORIES = 5_000
OTHERS = "(others)"


class CategoryCount(Record):
    """How often a category occurs, what stands for it, and the row where it occurs first."""

    category: str
    kind: str
    n: int
    first_row: int


class CategoryCounter(dict[tuple[str, str], list[int]]):
    """Counts (category, kind), with the first row; beyond 5,000 they are counted together."""

    def add(self, category: str, kind: str, *, n: int = 1, row: int) -> None:
        """Count a category of a note."""
        is_new = (category, kind) not in self
        key = (OTHERS if is_new and len(self) >= MAX_CATEGORIES else category, kind)
        self.setdefault(key, [0, row])[0] += n

    def ranked(self) -> tuple[CategoryCount, ...]:
        """Return the counts, most frequent first, then by name."""
        return tuple(
            CategoryCount(category=category, kind=kind, n=n, first_row=row)
            for (category, kind), (n, row) in sorted(
                self.items(), key=lambda one: (-one[1][0], one[0])
            )
        )


class MentionCoverage(Record):
    """Counts over notes.

    Attributes
    ----------
    n_notes, n_notes_with_mention
        Notes read, and those with a mention at least.
    forms, reasons
        Mentions for each of `FORMS`, and ages without a mention for each of `REASONS`.
    n_full, n_placeholder
        Mentions with first and last name, or a placeholder for the whole name; and mentions whose
        name is a placeholder.
    n_by_role, n_of_nobody
        (role, mentions) of people that the truth knows, sorted; mentions that are no name of it.
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


class Tally:
    """Counts over notes, in their order.

    `inserted` and `unknown` count places by category. `counts` has, by patient id, "own", "full"
    and "notes": mentions in the own notes, those with first and last name together, and notes with
    one; "others": mentions in the notes of others. By what it is: "own forms", "doubts", and of
    mentions "forms", "reasons" and "roles"; "all" has plain numbers.
    """

    def __init__(self) -> None:
        self.inserted, self.unknown = CategoryCounter(), CategoryCounter()
        self.counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add(self, note: Note, truth: NoteTruth) -> None:
        """Count what the truth says of a note."""
        counts, patient = self.counts, note.patient_id
        own = f"patient:{patient}" if patient else ""
        for counter, places in ((self.inserted, truth.inserted), (self.unknown, truth.left)):
            for place in places or ():
                counter.add(place.category, place.kind, row=note.row)
        counts["all"]["n_malformed"] += truth.n_malformed
        counts["doubts"].update(doubt.why for doubt in truth.doubts)
        names: defaultdict[int, list[Place]] = defaultdict(list)
        for place in truth.inserted or ():
            if place.role == "patient" and place.group >= 0:
                names[place.group].append(place)
            elif place.identity == own:
                counts["own forms"][place.category] += 1
        is_named = False
        for parts in names.values():
            if parts[0].identity == own:
                kinds = {part.kind for part in parts}
                counts["own forms"][parts[0].category] += 1
                counts["own"][patient] += 1
                counts["full"][patient] += "full" in kinds or {"first", "last"} <= kinds
                is_named = True
            else:
                counts["all"]["n_others"] += 1
                people = (parts[0].identity, *parts[0].namesakes)
                counts["others"].update(person.removeprefix("patient:") for person in people)
        counts["notes"][patient] += is_named

    def add_mentions(self, truth: NoteTruth, found: Sequence[Mention | Unnamed]) -> None:
        """Count what `examine` found in the private text of a note."""
        mentions = [each for each in found if isinstance(each, Mention)]
        owners = [owner_of(mention, truth.names) for mention in mentions]
        patients = [name for name in truth.names or () if name.role in ("patient", "")]
        self.counts["forms"].update(mention.form for mention in mentions)
        self.counts["reasons"].update(e.reason for e in found if isinstance(e, Unnamed))
        self.counts["roles"].update(owner.role for owner in owners if owner)
        self.counts["all"].update(
            n_notes=1,
            n_notes_with_mention=int(bool(mentions)),
            n_full=sum(mention.is_full for mention in mentions),
            n_placeholder=sum(mention.is_placeholder for mention in mentions),
            n_of_nobody=0 if truth.names is None else owners.count(None),
            n_true_names=len(patients),
            n_true_names_mentioned=sum(name in owners for name in patients),
        )

    def merge(self, other: Tally) -> None:
        """Add the counts of a later part."""
        for mine, theirs in ((self.inserted, other.inserted), (self.unknown, other.unknown)):
            for (category, kind), (n, row) in theirs.items():
                mine.add(category, kind, n=n, row=row)
        for name, counter in other.counts.items():
            self.counts[name].update(counter)

    def coverage(self) -> MentionCoverage:
        """Return what was counted of mentions."""
        counts, known = self.counts, MentionCoverage.model_fields
        of_notes: dict[str, Any] = {name: n for name, n in counts["all"].items() if name in known}
        return MentionCoverage(
            **of_notes,
            n_by_role=tuple(sorted(counts["roles"].items())),
            forms=tuple(counts["forms"][form] for form in FORMS),
            reasons=tuple(counts["reasons"][reason] for reason in REASONS),
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
    """
    tally, n_refused = Tally(), 0
    hidden = {"title", "roles", *(() if with_names else ("first", "last"))}
    records: list[dict[str, Any]] = []
    for note in open_notes(path, columns=columns).read():
        if isinstance(note, RowNote):
            n_refused += 1
            continue
        found = tuple(examine(note.text))
        tally.add_mentions(NoteTruth(note.text, note.text), found)
        for mention in found:
            if isinstance(mention, Mention) and len(records) < MAX_MENTIONS:
                record = {name: v for name, v in asdict(mention).items() if name not in hidden}
                age = None if math.isnan(mention.age_years) else mention.age_years
                records.append(
                    {"row": note.row, "note_id": note.note_id, **record, "age_years": age,
                     "is_full": mention.is_full}
                )  # fmt: skip
    return tally.coverage(), n_refused, tuple(records)


CountTable = tuple[tuple[int, int], ...]
"""(count, number of names with it), highest count first: the paper's tables 3 and 4."""
PATTERNS_PER_NAME: Mapping[int, int] = {4: 4, 3: 3, 2: 10, 1: 113}
"""Table 3: number of distinct passages -> number of names (130 names, 158 passages)."""
MENTIONS_PER_NAME: Mapping[int, int] = {25: 1, 11: 1, 7: 2, 6: 1, 5: 3, 4: 4, 3: 6, 2: 15, 1: 97}
"""Table 4: number of mentions -> number of names (130 names, 232 mentions)."""


class PatternTally:
    """Counts of one role's patterns; names that will not do are counted apart."""

    def __init__(self, *, accepts: Accepts | None = None) -> None:
        self._accepts = accepts
        self._refused: set[Pair] = set()
        self._names: dict[Pair, Name] = {}
        self._notes: defaultdict[Pair, array[int]] = defaultdict(lambda: array("I"))
        self._n_patterns: Counter[Pair] = Counter()
        self._seen: set[int] = set()  # hashes: the texts would be as large as the notes

    def add(self, name: Name, text: str, *, note: int) -> bool:
        """Count a pattern of the note at a position; whether it is new, and its name will do."""
        pair = pair_of(*name)
        if pair not in self._names:
            is_whole = all(name) and pair not in self._refused
            if not is_whole or (self._accepts and not self._accepts(*name)):
                self._refused.add(pair)
                return False
            self._names[pair] = name
        self._notes[pair].append(note)
        pattern = hash((pair, text))
        is_new = pattern not in self._seen
        self._seen.add(pattern)
        self._n_patterns[pair] += is_new
        return is_new

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
        return _table(self._n_patterns.values())[::-1]

    @property
    def mention_table(self) -> CountTable:
        """Names by occurrences (table 4)."""
        return _table(map(len, self._notes.values()))[::-1]

    def members(self, names: Sequence[Name]) -> Candidates:
        """Return some of the names as members of a list, with their occurrences."""
        n_mentions = [len(self._notes[pair_of(*name)]) for name in names]
        return make_candidates(names, is_member=True, n_mentions=n_mentions)

    def notes(self, names: Iterable[Name]) -> set[int]:
        """Return the positions of the notes with a pattern of some of the names."""
        return {note for name in names for note in self._notes[pair_of(*name)]}


def _table(counts: Iterable[int]) -> CountTable:
    return tuple(sorted(Counter(counts).items()))


class Owners:
    """Whose the notes of a corpus are; a note of nobody counts as a patient."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._n_patients = 0
        self._of_note = array("I")

    def add(self, patient: str) -> None:
        """Count the next note; `patient` is "" where nobody is told."""
        new = self._n_patients
        number = self._numbers.setdefault(patient, new) if patient else new
        self._of_note.append(number)
        self._n_patients += number == new

    def listed(self, notes: Iterable[int]) -> ListedNotes:
        """Return which notes are listed, and of how many patients they are."""
        rising = array("I", sorted({*notes}))
        n_listed = len({self._of_note[note] for note in rising})
        return ListedNotes(len(self._of_note), self._n_patients, n_listed, rising)


Named = tuple[str, str, Name]
"""Identity, role and name of somebody who is in no register: staff, relatives ..."""


def named_people(places: Iterable[Place]) -> Iterator[Named]:
    """Yield who is named in full and is in no register."""
    groups: defaultdict[tuple[str, int], dict[str, Place]] = defaultdict(dict)
    for place in places:
        if place.group >= 0 and not place.identity.startswith(("patient:", CANARY)):
            groups[place.identity, place.group][place.kind] = place
    for (identity, _), parts in groups.items():
        values = {kind: place.value for kind, place in parts.items()}
        if "full" in values:
            values["first"], _, values["last"] = values["full"].partition(" ")
        if values.get("first") and values.get("last"):
            yield identity, next(iter(parts.values())).role, (values["first"], values["last"])


class People:
    """Names of the corpus's people, from the records of `people.jsonl` and from the notes.

    A part of a name is one string in memory, however many people carry it.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        # Name and sex of every patient; of who has several names the text says which one it is.
        self._patients: dict[str, tuple[Name | None, str]] = {}
        self._written: dict[Pair, Name] = {}
        self._counts: defaultdict[str, Counter[Pair]] = defaultdict(Counter)
        self._sexes: dict[Pair, str] = {}
        self._seen: set[int] = set()
        for record in records:
            sex = str(record["sex"])
            names = [(first, last) for first, _, last in record.get("names", ())]
            names = names or [(record["first"], record["last"])]
            own = _interned(names[0]) if len(names) == 1 and all(pair_of(*names[0])) else None
            self._patients[f"patient:{record['patient_id']}"] = own, sex
            for pair, name in {pair_of(*name): name for name in names}.items():
                if all(pair):
                    one = self._count("patient", pair, name)
                    self._sexes[one] = sex if self._sexes.get(one, sex) == sex else ""

    def add(self, people: Iterable[Named]) -> None:
        """Take in people that were found in the notes; each of them once."""
        for identity, role, name in people:
            key = hash(identity)
            if key not in self._seen:
                self._seen.add(key)
                self._count(role, pair_of(*name), name)

    def _count(self, role: str, pair: Pair, name: Name) -> Pair:
        pair = _interned(pair)
        self._written.setdefault(pair, _interned(name))
        self._counts[role][pair] += 1
        return pair

    def __len__(self) -> int:
        return len(self._patients)

    def __contains__(self, person: str) -> bool:
        return person in self._patients

    def name_and_sex(self, person: str) -> tuple[Name | None, str]:
        """Return a patient's one name, None for who has several, and "M", "F" or "": not known."""
        return self._patients.get(person, (None, ""))

    def sex_of_name(self, name: Name) -> str:
        """Return the sex of the patients who carry a name; "" where they differ."""
        return self._sexes.get(pair_of(*name), "")

    @property
    def pairs(self) -> Collection[Pair]:
        """Every full name of anybody."""
        return self._written.keys()

    @property
    def parts(self) -> tuple[set[str], set[str]]:
        """First names and last names, as written."""
        names = self._written.values()
        return {first for first, _ in names}, {last for _, last in names}

    @cached_property
    def folded_parts(self) -> frozenset[str]:
        """Every part of a name of two letters or more, in the form in which names are compared."""
        folded = (fold_name(part) for parts in self.parts for part in parts)
        return frozenset(part for part in folded if len(part) > 1)

    @property
    def is_unspaced(self) -> bool:
        """Whether most names are in a script that is written without spaces."""
        names = self._written.values()
        return 2 * sum(is_unspaced(first + last) for first, last in names) > len(names)

    def staff(self) -> list[tuple[Pair, Name]]:
        """Return the names of staff, in the order in which they were found."""
        return [(pair, self._written[pair]) for pair in self._counts["staff"]]

    def carriers(self, names: Candidates) -> tuple[tuple[str, CountTable], ...]:
        """Return for each role (people who carry a name, number of such names), fewest first."""
        pairs = list(map(pair_of, names.first, names.last))
        return tuple(
            (role, _table(self._counts[role][pair] for pair in pairs))
            for role in sorted(self._counts)
        )


def _interned(pair: tuple[str, str]) -> tuple[str, str]:
    return intern(pair[0]), intern(pair[1])


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
    n_refused, refused
        Rows of the source that are no notes, and how many for each reason.
    n_patients, n_named_patients
        Patients of the corpus, and those whose first and last name stand together somewhere.
    inserted, unknown, n_malformed
        Placeholders that were replaced and those that were not understood, by category, empty for
        a corpus with a register; and those that are opened and never closed.
    doubts
        A corpus with a register: places that look like names and were left, by reason.
    n_positives, n_listed_positives, n_not_one_token
        Names of patients with a pattern; those of them on the candidate list, 20,000 at most; and
        those that were left out because a part is no single token of the general model.
    carriers
        For each role, (people who carry a positive's name, number of such names), fewest first.
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


def read_examination(folder: Path) -> Examination:
    """Read the examination of a corpus."""
    try:
        return Examination.read((folder / EXAMINATION).read_bytes(), where="examination")
    except (OSError, AuditError):
        raise AuditError(
            "The corpus has no examination that can be read.",
            where="corpus",
            do="Build the corpus again.",
        ) from None
