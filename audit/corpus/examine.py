"""What is counted in a corpus: mentions of patients, patient-name patterns, and who carries a name.

Comes in: notes with their truth. Goes out: coverage of the mentions, patterns with the passage of
D_public, tables of the paper's appendix A. Knows no model.

Source: Nakamura et al., section 3.4 and appendix A.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict

from audit.corpus.truth import CANARY, EXAMINATION, NoteTruth, Place, unreadable
from audit.errors import AuditError
from audit.names.candidates import Accepts, Candidates, Name, make_candidates
from audit.names.matching import Pair, pair_of
from audit.notes.mention_words import FORMS, PLACEHOLDER, REASONS, Mention, Unnamed
from audit.notes.placeholders import find_name_slot
from audit.notes.read import Note
from audit.notes.sentences import find_sentence_start, find_sentences_end
from audit.task import Record
from audit.text import fold_name, is_unspaced

N_SENTENCES = 5
"""Of a passage (section 3.4)."""


@dataclass(frozen=True)
class NamePattern:
    """One patient-name pattern: the truth's key and role, the name as written.

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
    note: NoteTruth, mentions: Iterable[Mention], *, has_left: bool = False
) -> Iterator[NamePattern]:
    """Yield the patterns of a note: its mentions with first and last name whose owner is known.

    They have five sentences from the mention on; with `has_left` the passages, and they alone,
    begin with the mention's sentence. `mentions` are what was found in `private`.
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
    """Return the true name that a mention's name overlaps; None where there is none."""
    for name in names:
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


class CategoryCount(Record):
    """How often a category occurs, what stands for it, and the row where it occurs first."""

    category: str
    kind: str
    n: int
    first_row: int


class CategoryCounter(dict[tuple[str, str], list[int]]):
    """Counts (category, kind), with the first row."""

    def add(self, category: str, kind: str, *, row: int) -> None:
        """Count a category of a note."""
        self.setdefault((category, kind), [0, row])[0] += 1

    def include(self, more: CategoryCounter) -> None:
        """Count what was counted in later notes."""
        for key, (n, row) in more.items():
            self.setdefault(key, [0, row])[0] += n

    def ranked(self) -> tuple[CategoryCount, ...]:
        """Return the counts, most frequent first, then by name."""
        return tuple(
            CategoryCount(category=category, kind=kind, n=n, first_row=row)
            for (category, kind), (n, row) in sorted(
                self.items(), key=lambda one: (-one[1][0], one[0])
            )
        )


_PAST: ConfigDict = ConfigDict(extra="ignore")
"""What older versions counted beside is passed over."""


class MentionCoverage(Record):
    """Counts over notes.

    Attributes
    ----------
    n_notes, n_notes_with_mention
        Notes read, and those with a mention at least.
    forms, reasons
        Mentions for each of `FORMS`, and ages without a mention for each of `REASONS`.
    n_full
        Mentions with first and last name, or a placeholder for the whole name.
    n_by_role, n_of_nobody
        (role, mentions) of people that the truth knows, sorted; mentions that are no name of it.
    n_true_names, n_true_names_mentioned
        Names of patients in the notes according to the truth, and those that are a mention's: the
        others stand elsewhere.
    """

    model_config = _PAST

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
        """Count what the truth says of a note."""
        for counter, places in ((self.inserted, truth.inserted), (self.unknown, truth.left)):
            for place in places:
                counter.add(place.category, place.kind, row=note.row)
        self.n_malformed += truth.n_malformed

    def add_mentions(self, truth: NoteTruth, found: Sequence[Mention | Unnamed]) -> None:
        """Count what `examine_ages` found in the private text of a note."""
        names, numbers, owners = truth.names, self.numbers, list[Place | None]()
        for each in found:
            if isinstance(each, Unnamed):
                self.reasons[each.reason] += 1
                continue
            owners.append(owner := owner_of(each, names))
            self.forms[each.form] += 1
            numbers["n_full"] += each.is_full
            numbers["n_of_nobody"] += owner is None
            if owner:
                self.roles[owner.role] += 1
        numbers["n_notes"] += 1
        numbers["n_notes_with_mention"] += bool(owners)
        for name in names:
            if name.role == "patient":
                numbers["n_true_names"] += 1
                numbers["n_true_names_mentioned"] += name in owners

    def include(self, more: Tally) -> None:
        """Count what was counted in later notes."""
        self.inserted.include(more.inserted)
        self.unknown.include(more.unknown)
        for name in ("numbers", "forms", "reasons", "roles"):
            getattr(self, name).update(getattr(more, name))
        self.n_malformed += more.n_malformed

    def exclude(self, less: Tally) -> None:
        """Take back what was counted of mentions in notes that are others now."""
        for name in ("numbers", "forms", "reasons", "roles"):
            getattr(self, name).subtract(getattr(less, name))

    def coverage(self) -> MentionCoverage:
        """Return what was counted of mentions."""
        numbers: dict[str, Any] = dict(self.numbers)
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
    """Counts of one role's patterns; names that will not do are counted apart."""

    def __init__(self, *, accepts: Accepts | None = None) -> None:
        self._accepts = accepts or (lambda *_: True)
        self.refused: set[Pair] = set()
        self._names: dict[Pair, Name] = {}
        self._notes: defaultdict[Pair, array[int]] = defaultdict(lambda: array("I"))
        self._n_patterns: Counter[Pair] = Counter()
        self._seen: set[int] = set()  # hashes: the texts would be as large as the notes

    def add(self, name: Name, text: str, *, note: int) -> bool:
        """Count a pattern of the note at a position; whether it is new, and its name will do."""
        pair = pair_of(*name)
        if pair not in self._names:
            if pair in self.refused or not all(name) or not self._accepts(*name):
                self.refused.add(pair)
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
    """Return (count, how often it is there), the lowest count first."""
    return tuple(sorted(Counter(counts).items()))


def named_people(places: Iterable[Place]) -> Iterator[tuple[str, str, Name]]:
    """Yield (identity, role, name) of who is named in full and is no patient: staff, relatives."""
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
    """Names of the corpus's people, from the records of `people.jsonl` and from the notes."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        # Names and sex of every patient.
        self._patients: dict[str, tuple[tuple[Name, ...], str]] = {}
        self._written: dict[Pair, Name] = {}
        self._sexes: dict[Pair, str] = {}
        # How many people of each role carry a name; who of those in the notes was counted.
        self._carriers: defaultdict[str, Counter[Pair]] = defaultdict(Counter)
        self._seen: set[int] = set()
        for record in records:
            sex = str(record["sex"])
            names = tuple((first, last) for first, _, last in record.get("names", ()))
            names = names or ((record["first"], record["last"]),)
            self._patients[f"patient:{record['patient_id']}"] = names, sex
            for name in names:
                if all(pair := pair_of(*name)):
                    self._written.setdefault(pair, name)
                    self._sexes[pair] = sex if self._sexes.get(pair, sex) == sex else ""
            self._carriers["patient"].update(filter(all, {pair_of(*name) for name in names}))

    def add(self, named: Iterable[tuple[str, str, Name]]) -> None:
        """Take in staff and relatives, as `named_people` gives them."""
        for identity, role, name in named:
            if (key := hash(identity)) not in self._seen:
                self._seen.add(key)
                pair = pair_of(*name)
                self._written.setdefault(pair, name)
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
        """Return a patient's one name, and "M", "F" or "": not known.

        The name is None for who has several: the text says which one it is.
        """
        names, sex = self._patients.get(person, ((), ""))
        return (names[0] if len(names) == 1 and all(pair_of(*names[0])) else None), sex

    def name_in(self, pattern: NamePattern) -> Name:
        """Return whose name a pattern has: as the patient is called, or as it is written."""
        own, _ = self.name_and_sex(pattern.person)
        return own or (pattern.first, pattern.last)

    def sex_of_name(self, name: Name) -> str:
        """Return the sex of the patients who carry a name; "" where they differ."""
        return self._sexes.get(pair_of(*name), "")

    @property
    def staff(self) -> dict[Pair, Name]:
        """Names of staff, in the order in which they were found."""
        return {pair: self._written[pair] for pair in self._carriers.get("staff", ())}

    def carriers(self, names: Candidates) -> tuple[tuple[str, CountTable], ...]:
        """Return for each role (people who carry a name, number of such names), fewest first."""
        pairs = list(map(pair_of, names.first, names.last))
        return tuple(
            (role, count_table(counts[pair] for pair in pairs))
            for role, counts in sorted(self._carriers.items())
        )

    @property
    def pairs(self) -> Collection[Pair]:
        """Every full name of anybody."""
        return self._written.keys()

    @property
    def parts(self) -> tuple[set[str], set[str]]:
        """First names and last names, as written."""
        names = self._written.values()
        return {first for first, _ in names}, {last for _, last in names}

    def folded_parts(self) -> frozenset[str]:
        """Every part of a name of two letters or more, in the form in which names are compared."""
        folded = (fold_name(part) for parts in self.parts for part in parts)
        return frozenset(part for part in folded if len(part) > 1)

    @property
    def is_unspaced(self) -> bool:
        """Whether most names are in a script that is written without spaces."""
        names = self._written.values()
        return 2 * sum(is_unspaced(first + last) for first, last in names) > len(names)


class ListedNames(Record):
    """Names of the candidate list of one kind: members have no control kind."""

    control_kind: str
    role: str
    n: int


class HeldOutCounts(Record):
    """What was counted of the patients who were held out.

    Attributes
    ----------
    n_patients, n_notes, n_named
        Of them, their notes, and those of them who are named in their own notes.
    n_controls, n_dropped_controls
        Their names that can be controls, and those that stand in a training note.
    n_dropped_members
        Names of the other patients that stand in somebody else's training notes: left out of a list
        whose controls are held out.
    """

    n_patients: int
    n_notes: int
    n_named: int
    n_controls: int
    n_dropped_controls: int
    n_dropped_members: int


class Examination(Record):
    """What was counted in a corpus.

    Attributes
    ----------
    n_refused
        Rows of the source that are no notes.
    n_patients
        Patients of the corpus.
    inserted, unknown, n_malformed
        Placeholders that were replaced and those that were not understood, by category, empty for
        a corpus with a register; and those that are opened and never closed.
    n_positives, n_not_one_token
        Names of patients with a pattern; and those that were left out because a part is no single
        token of the general model.
    canaries
        (mentions, planted names with it); as many twins were left out.
    n_passages
        Distinct patterns, each with its passage of D_public.
    carriers
        For each role (people who carry a name, number of listed patients' names that so many
        carry), fewest first; empty in older corpora.
    held_out
        Of the patients who were held out; None where nobody was. All else is of the others.
    """

    model_config = _PAST

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
    carriers: tuple[tuple[str, CountTable], ...] = ()
    held_out: HeldOutCounts | None = None

    @property
    def n_notes(self) -> int:
        """Notes of the corpus."""
        return self.coverage.n_notes

    @property
    def n_listed_positives(self) -> int:
        """Names of patients on the candidate list, 20,000 at most."""
        return sum(one.n for one in self.candidates if one.role == "patient")

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
        raise unreadable() from None


PAPER = {"patterns": PATTERNS_PER_NAME, "mentions": MENTIONS_PER_NAME}
"""Table 3 (distinct passages) and table 4 (mentions) of the paper: count -> number of names."""
LOWS = (1, 2, 3, 4, 5, 6, 11, 26, 101)
"""Where the bins of a chart of counts begin."""


@dataclass(frozen=True)
class CountsBesidePaper:
    """A table of counts beside the paper's (appendix A, tables 3 and 4).

    Attributes
    ----------
    rows
        (count, names here, names in the paper), the highest count first.
    bins
        (label, share of the names here, share in the paper) from the lowest on, up to the last that
        is not empty; none where there are no names.
    n_names, n_paper_names, n_total, n_paper_total
        Names, and the sum of their counts.
    """

    rows: tuple[tuple[int, int, int], ...]
    bins: tuple[tuple[str, float, float], ...]
    n_names: int
    n_paper_names: int
    n_total: int
    n_paper_total: int


def beside_paper(table: CountTable, *, which: str) -> CountsBesidePaper:
    """Return a table of counts beside the paper's "patterns" or "mentions"."""
    here, paper = dict(table), PAPER[which]
    counts = sorted({*here, *paper}, reverse=True)
    n_here, n_paper = sum(here.values()), sum(paper.values())
    bins: list[tuple[str, float, float]] = []
    for low, after in zip(LOWS, (*LOWS[1:], None), strict=True):
        within = [count for count in counts if low <= count and (after is None or count < after)]
        n, n_in_paper = (sum(of.get(one, 0) for one in within) for of in (here, paper))
        end = "+" if after is None else "" if after == low + 1 else f"–{after - 1}"
        bins.append((f"{low}{end}", n / (n_here or 1), n_in_paper / n_paper))
    while bins and not any(bins[-1][1:]):
        bins.pop()
    return CountsBesidePaper(
        rows=tuple((count, here.get(count, 0), paper.get(count, 0)) for count in counts),
        bins=tuple(bins) if n_here else (),
        n_names=n_here,
        n_paper_names=n_paper,
        n_total=sum(count * n for count, n in here.items()),
        n_paper_total=sum(count * n for count, n in paper.items()),
    )
