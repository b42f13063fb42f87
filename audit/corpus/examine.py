"""Counts mentions of patients, patient-name patterns, and carriers of names in a corpus.

Input: notes with their truth. Output: coverage of the mentions, patterns with their passages of
D_public, tables of the paper's appendix A. It needs no model.

Source: Nakamura et al., section 3.4 and appendix A.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from audit.corpus.truth import CANARY, EXAMINATION, NoteTruth, Place
from audit.errors import AuditError, make_version_error
from audit.names.candidates import Accepts, Candidates, Name, make_candidates
from audit.names.matching import Pair, pair_of
from audit.notes.mention_words import FORMS, PLACEHOLDER, REASONS, Mention, Unnamed
from audit.notes.placeholders import find_name_slot
from audit.notes.read import Note
from audit.notes.sentences import find_sentence_start, find_sentences_end
from audit.task import Record
from audit.text import fold_name, is_unspaced

N_SENTENCES = 5
"""Number of sentences of a passage (section 3.4)."""


@dataclass(frozen=True)
class NamePattern:
    """One patient-name pattern: the person's key and role in the truth, the name as in the note.

    `text` has the sentences of D_private with single spaces; patterns with the same text are one.
    `passage` has the sentences of D_public with the name's place in brackets, for `read_passages`.
    """

    person: str
    role: str
    first: str
    last: str
    text: str
    passage: str


def find_patterns(
    note: NoteTruth, mentions: Iterable[Mention], *, has_left: bool = False
) -> Iterator[NamePattern]:
    """Yield the patterns of a note: its mentions with first and last name whose owner is known.

    They have five sentences from the mention on; with `has_left` the passages (not the texts)
    begin with the mention's sentence. `mentions` were found in `private`.
    """
    for mention in mentions:
        owner = owner_of(mention, note.names)
        if not mention.is_full or mention.is_placeholder or not owner:
            continue
        end = find_sentences_end(note.private, start=mention.start, n=N_SENTENCES)
        sentences = " ".join(note.private[mention.start : end].split())
        start = mention.start
        if has_left:
            start = find_sentence_start(note.private, offset=start)
        passage = _passage(note, mention, start=start, end=end)
        yield NamePattern(
            owner.identity, owner.role, mention.first, mention.last, sentences, passage
        )


def owner_of(mention: Mention, names: Iterable[Place]) -> Place | None:
    """Return the true name that a mention's name overlaps; None if there is none."""
    for name in names:
        if name.start < mention.name_end and mention.name_start < name.stop:
            return name
    return None


def _passage(note: NoteTruth, mention: Mention, *, start: int, end: int) -> str:
    left, name_start = note.in_public(start), note.in_public(mention.name_start)
    name_end, right = (note.in_public(offset, is_end=True) for offset in (mention.name_end, end))
    # The text left and right of the name is cleaned as the reader of passages does it; a name
    # placeholder on the left must not be taken for the patient's.
    masked = PLACEHOLDER.sub("[**x**]", note.public[left:name_start])
    left_slot = find_name_slot(f"{masked}[NAME]")
    right_slot = find_name_slot(f"[NAME]{note.public[name_end:right]}")
    place = _mark_name(note.private[mention.name_start : mention.name_end], mention)
    return (left_slot.left if left_slot else "") + place + (right_slot.right if right_slot else "")


def _mark_name(name_text: str, mention: Mention) -> str:
    """Return the mark for a name: one for each part if a known separator is between them."""
    if mention.roles == ("full",):
        return "[NAME]"
    separator = next((mark for mark in (", ", "\u3000") if mark.strip(" ") in name_text), " ")
    if separator == " " and mention.form.startswith("ja_") and " " not in name_text:
        if "・" in name_text:
            return "[NAME]"
        separator = ""
    return separator.join(f"[{role.upper()}]" for role in mention.roles)


class CategoryCount(Record):
    """How often a category occurs, the kind of its values, and the row of its first occurrence."""

    category: str
    kind: str
    n: int
    first_row: int


class CategoryCounter(dict[tuple[str, str], list[int]]):
    """Counts of (category, kind), with the first row."""

    def add(self, category: str, kind: str, *, row: int) -> None:
        """Count a category of a note."""
        self.setdefault((category, kind), [0, row])[0] += 1

    def include(self, counter: CategoryCounter) -> None:
        """Add the counts of later notes."""
        for key, (n, row) in counter.items():
            self.setdefault(key, [0, row])[0] += n

    def rank_counts(self) -> tuple[CategoryCount, ...]:
        """Return the counts, the most frequent first, ties by name."""
        return tuple(
            CategoryCount(category=category, kind=kind, n=n, first_row=row)
            for (category, kind), (n, row) in sorted(
                self.items(), key=lambda entry: (-entry[1][0], entry[0])
            )
        )


class MentionCoverage(Record):
    """Counts over notes.

    Attributes
    ----------
    n_notes, n_notes_with_mention
        Notes, and notes with at least one mention.
    forms, reasons
        Mentions for each of `FORMS`, and ages without a mention for each of `REASONS`.
    n_full
        Mentions with first and last name, or a placeholder for the whole name.
    n_by_role, n_of_nobody
        (role, mentions) of people in the truth, sorted; and mentions whose name is not in the
        truth.
    n_true_names, n_true_names_mentioned
        Names of patients in the notes according to the truth, and those that belong to a mention;
        the others are elsewhere in the notes.
    """

    n_notes: int
    n_notes_with_mention: int
    forms: tuple[int, ...]
    reasons: tuple[int, ...]
    n_full: int
    n_by_role: tuple[tuple[str, int], ...]
    n_of_nobody: int
    n_true_names: int
    n_true_names_mentioned: int

    @property
    def n_mentions(self) -> int:
        """Mentions of all forms."""
        return sum(self.forms)

    @property
    def n_elsewhere(self) -> int:
        """Patients' names outside mentions."""
        return self.n_true_names - self.n_true_names_mentioned

    @property
    def by_form(self) -> tuple[tuple[str, int], ...]:
        """(form, mentions), without forms that do not occur."""
        return tuple((form, n) for form, n in zip(FORMS, self.forms, strict=True) if n)

    @property
    def by_reason(self) -> tuple[tuple[str, int], ...]:
        """(reason, ages without a mention)."""
        return tuple(zip(REASONS, self.reasons, strict=True))


_NUMBERS = (
    "n_notes",
    "n_notes_with_mention",
    "n_full",
    "n_of_nobody",
    "n_true_names",
    "n_true_names_mentioned",
)


@dataclass
class Tally:
    """Counts over notes.

    `inserted` and `unknown` count places by category; `numbers` are those of `MentionCoverage`.
    """

    inserted: CategoryCounter = field(default_factory=CategoryCounter)
    unknown: CategoryCounter = field(default_factory=CategoryCounter)
    n_malformed: int = 0
    numbers: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(_NUMBERS, 0)))
    forms: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    roles: Counter[str] = field(default_factory=Counter)

    def add(self, note: Note, truth: NoteTruth) -> None:
        """Count the places of a note's truth."""
        for counter, places in ((self.inserted, truth.inserted), (self.unknown, truth.left)):
            for place in places:
                counter.add(place.category, place.kind, row=note.row)
        self.n_malformed += truth.n_malformed

    def add_mentions(self, truth: NoteTruth, findings: Sequence[Mention | Unnamed]) -> None:
        """Count the findings of `examine_ages` in the private text of a note."""
        names, numbers, owners = truth.names, self.numbers, list[Place | None]()
        for finding in findings:
            if isinstance(finding, Unnamed):
                self.reasons[finding.reason] += 1
                continue
            owners.append(owner := owner_of(finding, names))
            self.forms[finding.form] += 1
            numbers["n_full"] += finding.is_full
            numbers["n_of_nobody"] += owner is None
            if owner:
                self.roles[owner.role] += 1
        numbers["n_notes"] += 1
        numbers["n_notes_with_mention"] += bool(owners)
        for name in names:
            if name.role == "patient":
                numbers["n_true_names"] += 1
                numbers["n_true_names_mentioned"] += name in owners

    def include(self, tally: Tally) -> None:
        """Add the counts of later notes."""
        self.inserted.include(tally.inserted)
        self.unknown.include(tally.unknown)
        for name in ("numbers", "forms", "reasons", "roles"):
            getattr(self, name).update(getattr(tally, name))
        self.n_malformed += tally.n_malformed

    def exclude(self, tally: Tally) -> None:
        """Subtract the counts of mentions of notes that have changed."""
        for name in ("numbers", "forms", "reasons", "roles"):
            getattr(self, name).subtract(getattr(tally, name))

    def coverage(self) -> MentionCoverage:
        """Return the counts of mentions."""
        numbers: dict[str, int] = dict(self.numbers)
        return MentionCoverage(
            **numbers,
            n_by_role=tuple(sorted((+self.roles).items())),
            forms=tuple(self.forms[form] for form in FORMS),
            reasons=tuple(self.reasons[reason] for reason in REASONS),
        )


CountTable = tuple[tuple[int, int], ...]
"""(count, number of names with it), highest count first: the paper's tables 3 and 4."""
PATTERNS_PER_NAME: Mapping[int, int] = {4: 4, 3: 3, 2: 10, 1: 113}
"""Table 3: number of distinct passages -> number of names (130 names, 158 passages)."""
MENTIONS_PER_NAME: Mapping[int, int] = {25: 1, 11: 1, 7: 2, 6: 1, 5: 3, 4: 4, 3: 6, 2: 15, 1: 97}
"""Table 4: number of mentions -> number of names (130 names, 232 mentions)."""


class PatternTally:
    """Counts of one role's patterns; refused names are counted separately."""

    def __init__(self, *, accepts: Accepts | None = None) -> None:
        self._accepts = accepts or (lambda *_: True)
        self.refused: set[Pair] = set()
        self._names: dict[Pair, Name] = {}
        self._notes: defaultdict[Pair, array[int]] = defaultdict(lambda: array("I"))
        self._n_patterns: Counter[Pair] = Counter()
        self._pattern_hashes: set[int] = set()  # hashes: the texts are as large as notes

    def add(self, name: Name, text: str, *, note: int) -> bool:
        """Count a pattern of the note at a position; return whether it is new and accepted."""
        pair = pair_of(*name)
        if pair not in self._names:
            if pair in self.refused or not all(name) or not self._accepts(*name):
                self.refused.add(pair)
                return False
            self._names[pair] = name
        self._notes[pair].append(note)
        pattern = hash((pair, text))
        is_new = pattern not in self._pattern_hashes
        self._pattern_hashes.add(pattern)
        self._n_patterns[pair] += is_new
        return is_new

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> tuple[Name, ...]:
        """The names in the order in which they first occur."""
        return tuple(self._names.values())

    @property
    def pattern_table(self) -> CountTable:
        """Names by distinct patterns (table 3)."""
        return count_table(self._n_patterns.values())[::-1]

    @property
    def mention_table(self) -> CountTable:
        """Names by occurrences (table 4)."""
        return count_table(map(len, self._notes.values()))[::-1]

    def members(self, names: Sequence[Name]) -> Candidates:
        """Return some of the names as members of a list, with their occurrences."""
        n_mentions = [len(self._notes[pair_of(*name)]) for name in names]
        return make_candidates(names, is_member=True, n_mentions=n_mentions)

    def notes(self, names: Iterable[Name]) -> set[int]:
        """Return the positions of the notes with a pattern of some of the names."""
        return {note for name in names for note in self._notes[pair_of(*name)]}


def count_table(counts: Iterable[int]) -> CountTable:
    """Return (count, number of its occurrences), the lowest count first."""
    return tuple(sorted(Counter(counts).items()))


def find_named_people(places: Iterable[Place]) -> Iterator[tuple[str, str, Name]]:
    """Yield (identity, role, name) of staff and relatives who are named in full."""
    groups: defaultdict[tuple[str, int], dict[str, Place]] = defaultdict(dict)
    for place in places:
        if place.group >= 0 and not place.identity.startswith(("patient:", CANARY)):
            groups[place.identity, place.group][place.kind] = place
    for (identity, _), parts in groups.items():
        values = {kind: place.value for kind, place in parts.items()}
        if "full" in values:
            values["first"], _, values["last"] = values["full"].partition(" ")
        name = values.get("first", ""), values.get("last", "")
        if all(name):
            yield identity, next(iter(parts.values())).role, name


class People:
    """The names of all people of a corpus, from records of `people.jsonl` and from the notes."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        # Names and sex of every patient.
        self._patients: dict[str, tuple[tuple[Name, ...], str]] = {}
        self._names: dict[Pair, Name] = {}
        self._sexes: dict[Pair, str] = {}
        # How many people of each role carry a name; hashes of people in the notes who were counted.
        self._carriers: defaultdict[str, Counter[Pair]] = defaultdict(Counter)
        self._counted_people: set[int] = set()
        for record in records:
            sex = str(record["sex"])
            names = tuple((first, last) for first, _, last in record.get("names", ()))
            names = names or ((record["first"], record["last"]),)
            self._patients[f"patient:{record['patient_id']}"] = names, sex
            for name in names:
                if all(pair := pair_of(*name)):
                    self._names.setdefault(pair, name)
                    self._sexes[pair] = sex if self._sexes.get(pair, sex) == sex else ""
            self._carriers["patient"].update(filter(all, {pair_of(*name) for name in names}))

    def add(self, people: Iterable[tuple[str, str, Name]]) -> None:
        """Add staff and relatives from `find_named_people`."""
        for identity, role, name in people:
            if (key := hash(identity)) not in self._counted_people:
                self._counted_people.add(key)
                pair = pair_of(*name)
                self._names.setdefault(pair, name)
                self._carriers[role][pair] += 1

    def __len__(self) -> int:
        return len(self._patients)

    def __contains__(self, person: str) -> bool:
        return person in self._patients

    def names_of(self, person: str) -> tuple[Name, ...]:
        """Return all names of a patient."""
        return self._patients.get(person, ((), ""))[0]

    def carriers_of(self, pairs: Collection[Pair]) -> dict[Pair, set[str]]:
        """Return the patients who carry each of some full names."""
        carriers: dict[Pair, set[str]] = {pair: set() for pair in pairs}
        for person, (names, _) in self._patients.items():
            for pair in {pair_of(*name) for name in names} & carriers.keys():
                carriers[pair].add(person)
        return carriers

    def name_and_sex(self, person: str) -> tuple[Name | None, str]:
        """Return a patient's only name, and "M", "F" or "" (not known).

        The name is None for a patient with several names: the note shows which one it uses.
        """
        names, sex = self._patients.get(person, ((), ""))
        return (names[0] if len(names) == 1 and all(pair_of(*names[0])) else None), sex

    def name_in(self, pattern: NamePattern) -> Name:
        """Return the name of a pattern: the patient's only name, or else the name in the note."""
        own_name, _ = self.name_and_sex(pattern.person)
        return own_name or (pattern.first, pattern.last)

    def sex_of_name(self, name: Name) -> str:
        """Return the sex of the patients who carry a name; "" if they differ."""
        return self._sexes.get(pair_of(*name), "")

    @property
    def staff(self) -> dict[Pair, Name]:
        """Names of staff, in the order in which they were found."""
        return {pair: self._names[pair] for pair in self._carriers.get("staff", ())}

    def carriers(self, names: Candidates) -> tuple[tuple[str, CountTable], ...]:
        """Return for each role (carriers of a name, number of such names), the fewest first."""
        pairs = list(map(pair_of, names.first, names.last))
        return tuple(
            (role, count_table(counts[pair] for pair in pairs))
            for role, counts in sorted(self._carriers.items())
        )

    @property
    def pairs(self) -> Collection[Pair]:
        """Every full name of anybody."""
        return self._names.keys()

    @property
    def parts(self) -> tuple[set[str], set[str]]:
        """First names and last names, as written."""
        names = self._names.values()
        return {first for first, _ in names}, {last for _, last in names}

    def folded_parts(self) -> frozenset[str]:
        """Return every folded part of a name with at least two letters."""
        folded = (fold_name(part) for parts in self.parts for part in parts)
        return frozenset(part for part in folded if len(part) > 1)

    @property
    def is_unspaced(self) -> bool:
        """Whether most names are in a script that is written without spaces."""
        names = self._names.values()
        return 2 * sum(is_unspaced(first + last) for first, last in names) > len(names)


class ListedNames(Record):
    """Number of names on the candidate list of one kind and role; members have no control kind."""

    control_kind: str
    role: str
    n: int


class HeldOutCounts(Record):
    """Counts of the patients who were held out.

    Attributes
    ----------
    n_patients, n_notes, n_named
        Held-out patients, their notes, and those who are named in their own notes.
    n_controls, n_dropped_controls
        Their names that can be controls, and their names that are in a training note.
    n_dropped_members
        Names of the other patients that are in somebody else's training notes; they are left out of
        a list whose controls are held out.
    """

    n_patients: int
    n_notes: int
    n_named: int
    n_controls: int
    n_dropped_controls: int
    n_dropped_members: int


class Examination(Record):
    """The counts of a corpus.

    Attributes
    ----------
    n_refused
        Rows of the source that are no notes.
    n_patients
        Patients of the corpus.
    inserted, unknown, n_malformed
        Placeholders that were replaced and placeholders that were not understood, by category
        (empty for a corpus with a register); and placeholders that are never closed.
    n_positives, n_not_one_token
        Names of patients with a pattern; and names left out because a part is no single token of
        the general model.
    canaries
        (mentions, number of names planted so often); there are as many twins, which are left out.
    n_passages
        Distinct patterns, each with its passage of D_public.
    carriers
        For each role (carriers of a name, number of listed patients' names with so many carriers),
        the fewest carriers first.
    held_out
        Counts of held-out patients; None if nobody was held out. All other counts leave them out.
    """

    format: Literal[1] = 1
    coverage: MentionCoverage
    n_refused: int
    n_patients: int
    inserted: tuple[CategoryCount, ...]
    unknown: tuple[CategoryCount, ...]
    n_malformed: int
    pattern_table: CountTable
    mention_table: CountTable
    n_positives: int
    n_not_one_token: int
    candidates: tuple[ListedNames, ...]
    canaries: CountTable
    n_passages: int
    carriers: tuple[tuple[str, CountTable], ...]
    held_out: HeldOutCounts | None

    @property
    def n_notes(self) -> int:
        """Notes of the corpus."""
        return self.coverage.n_notes

    @property
    def n_listed_positives(self) -> int:
        """Names of patients on the candidate list, 20,000 at most."""
        return sum(listed.n for listed in self.candidates if listed.role == "patient")

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
        raise make_version_error(where="corpus") from None


PAPER = {"patterns": PATTERNS_PER_NAME, "mentions": MENTIONS_PER_NAME}
"""Table 3 (distinct passages) and table 4 (mentions) of the paper: count -> number of names."""
LOWS = (1, 2, 3, 4, 5, 6, 11, 26, 101)
"""Lower edges of the bins of a chart of counts."""


@dataclass(frozen=True)
class CountsBesidePaper:
    """A table of counts compared with the paper's (appendix A, tables 3 and 4).

    Attributes
    ----------
    rows
        (count, names in this corpus, names in the paper), the highest count first.
    bins
        (label, share of the names in this corpus, share in the paper), from the lowest bin to the
        last that is not empty; none if there are no names.
    n_names, n_paper_names, n_total, n_paper_total
        Names, and the sum of their counts.
    """

    rows: tuple[tuple[int, int, int], ...]
    bins: tuple[tuple[str, float, float], ...]
    n_names: int
    n_paper_names: int
    n_total: int
    n_paper_total: int


def compare_with_paper(table: CountTable, *, which: str) -> CountsBesidePaper:
    """Compare a table of counts with the paper's "patterns" or "mentions"."""
    corpus_names, paper_names = dict(table), PAPER[which]
    counts = sorted({*corpus_names, *paper_names}, reverse=True)
    n_here, n_paper = sum(corpus_names.values()), sum(paper_names.values())
    bins: list[tuple[str, float, float]] = []
    for low, next_low in zip(LOWS, (*LOWS[1:], None), strict=True):
        within = [
            count for count in counts if low <= count and (next_low is None or count < next_low)
        ]
        n, n_in_paper = (
            sum(n_by_count.get(bin_count, 0) for bin_count in within)
            for n_by_count in (corpus_names, paper_names)
        )
        end = "+" if next_low is None else "" if next_low == low + 1 else f"–{next_low - 1}"
        bins.append((f"{low}{end}", n / (n_here or 1), n_in_paper / n_paper))
    while bins and not any(bins[-1][1:]):
        bins.pop()
    return CountsBesidePaper(
        rows=tuple(
            (count, corpus_names.get(count, 0), paper_names.get(count, 0)) for count in counts
        ),
        bins=tuple(bins) if n_here else (),
        n_names=n_here,
        n_paper_names=n_paper,
        n_total=sum(count * n for count, n in corpus_names.items()),
        n_paper_total=sum(count * n for count, n in paper_names.items()),
    )
