"""Who is named in the notes of a patient: which parts belong to one name, and of which sex it is.

Comes in: notes with their marks. Goes out: the persons, so that a part that stands alone can get
the same part of the same surrogate as the full name, in whichever note of the patient that stands.

A part that several persons share is that of the patient, else of the person whom most marks name
in full, else of the first in the order of their names; behind a title it is a surname first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from audit.deid.kinds import Mark, fits_name, is_named, joined_marks, kind_at
from audit.deid.sexes import (
    Whose,
    sex_of_given_name,
    sex_of_votes,
    votes_beside,
    votes_of,
    whose_name,
)
from audit.notes.mention_words import JAPANESE_SURNAMES, WORDS
from audit.notes.mentions_ja import split_japanese_name
from audit.notes.patterns import IN_KATAKANA, KATA, fold_characters
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, TaggedDocument
from audit.text import fold_letters, is_unspaced, name_words, split_name

Role = Literal["given", "surname"]
GIVEN: Role = "given"
SURNAME: Role = "surname"
_WORD = re.compile(r"[^\s,]+")
_POSSESSIVE = re.compile(r"(?<=\w)'[sS]?$")
_INITIAL = re.compile(r"[^\W\d_]\.?")
_IN_KANA = re.compile(f"[{KATA}]+")
_BETWEEN_READINGS = re.compile(
    r"[\s()（）:：、,/]*(?:フリガナ|ふりがな|カナ|かな|読み)?[\s()（）:：、,/]*"
)


def part_key(part: str) -> str:
    """Return the form in which parts of names are compared.

    Case, width, accents, points, hiragana and katakana, and old forms of Han make no difference.
    """
    return fold_letters(part).strip(".").translate(IN_KATAKANA)


class NameWord(NamedTuple):
    """A word of a name: its place without 's, and what it is.

    `role` is "" for a word that stands alone; an `affix` is a title, a degree or a particle.
    """

    start: int
    stop: int
    text: str
    role: Role | Literal["", "affix"]

    @property
    def key(self) -> str:
        """The form in which it is compared."""
        return part_key(self.text)

    @property
    def is_initial(self) -> bool:
        """Whether it is one letter of Latin or a like script."""
        return bool(_INITIAL.fullmatch(self.text)) and not is_unspaced(self.text)


@lru_cache(maxsize=4096)
def spaced_words(name: str) -> tuple[NameWord, ...]:
    """Return the words of a name whose script has spaces, as `fold_characters` writes it."""
    places = []
    for match in _WORD.finditer(name):
        text = _POSSESSIVE.sub("", match[0])
        places.append((match.start(), match.start() + len(text), text))
    is_affix = [_is_affix(text) for *_, text in places]
    named = [place for place, is_one in zip(places, is_affix, strict=True) if not is_one]
    roles = _roles_of(name, named)
    role_of = iter(roles)
    return tuple(
        NameWord(*place, "affix" if is_one else next(role_of))
        for place, is_one in zip(places, is_affix, strict=True)
    )


def _roles_of(name: str, words: Sequence[tuple[int, int, str]]) -> Sequence[Role | Literal[""]]:
    """Return what each word of a name is, in their order; a comma ends the surname."""
    if len(words) < 2:
        is_surname = "," in name.strip(", ") or name[-1:] == ","
        return [SURNAME if is_surname else ""] * len(words)
    n_before = sum(stop <= name.find(",") for _, stop, _ in words)
    if 0 < n_before < len(words):  # all of them stand before "Jr."
        return [SURNAME] * n_before + [GIVEN] * (len(words) - n_before)
    last = split_name(" ".join(text for *_, text in words))[1].split()
    n_last = min(max(1, len(last)), len(words) - 1)
    return [GIVEN] * (len(words) - n_last) + [SURNAME] * n_last


def _is_affix(word: str) -> bool:
    key = fold_letters(word).replace(".", "")
    is_particle = key in WORDS["particles"] and word[0].islower()
    is_degree = len(key) > 1 and key in name_words("titles") | name_words("suffixes")
    return is_particle or is_degree


class Mention(NamedTuple):
    """A name as a note marks it, and what the words beside it say.

    `is_named`: a title, a cue or a list says that it is a name; `reading_of` is the name in Han
    beside which it stands in kana; `votes` are those of `votes_beside`.
    """

    name: str
    is_full: bool
    is_named: bool
    whose: Whose
    votes: int
    reading_of: str


@dataclass(frozen=True)
class Names:
    """What the notes of a patient say of names: how often each mention stands there, in order.

    `votes` are those of `votes_of` for all notes.
    """

    votes: int = 0
    mentions: tuple[tuple[Mention, int], ...] = ()

    def plain(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"votes": self.votes, "mentions": [[*mention, n] for mention, n in self.mentions]}

    @classmethod
    def of_plain(cls, record: Mapping[str, Any]) -> Names:
        """Return it from JSON."""
        return cls(record["votes"], tuple((Mention(*one), n) for *one, n in record["mentions"]))

    def with_more(self, mentions: Iterable[tuple[Mention, int]]) -> Names:
        """Return it with those mentions whose names it lacks, which somebody marked later."""
        known = {mention.name for mention, _ in self.mentions}
        new = [pair for pair in mentions if pair[0].name not in known]
        return Names(self.votes, tuple(sorted([*self.mentions, *new]))) if new else self


def names_of(document: TaggedDocument) -> Names:
    """Return what one note says of names."""
    marks = [mark for mark, _ in joined_marks(document) if _may_be_name(mark)]
    folded = fold_characters(document.text)
    mentions: Counter[Mention] = Counter()
    for place, mark in enumerate(marks):
        start, end = mark.span.start, mark.span.end
        stop = marks[place + 1].span.start if place + 1 < len(marks) else len(folded)
        whose = whose_name(folded, start, end)
        votes = votes_beside(folded, start, end, stop=stop, whose=whose)
        reading_of = _read_name(folded, marks, place)
        name, is_full = mark.folded.strip(), mark.span.label == IDENTIFIER
        mentions[Mention(name, is_full, is_named(mark), whose, votes, reading_of)] += 1
    return Names(votes_of(document.text), tuple(sorted(mentions.items())))


def _may_be_name(mark: Mark) -> bool:
    """Whether a mark has the form of a name, and may be one by its type."""
    if mark.span.label not in (IDENTIFIER, QUASI_IDENTIFIER) or not fits_name(mark):
        return False
    return mark.span.label == IDENTIFIER or kind_at(mark) in ("name", "other")


def _read_name(folded: str, marks: Sequence[Mark], place: int) -> str:
    """Return the name in Han that stands before a name in kana, which is its reading; else ""."""
    mark = marks[place]
    if not place or not _is_kana(mark.folded) or mark.span.label != IDENTIFIER:
        return ""
    before = marks[place - 1]
    between = folded[before.span.end : mark.span.start]
    is_beside = len(between) < 16 and _BETWEEN_READINGS.fullmatch(between)
    is_name = before.span.label == IDENTIFIER and is_unspaced(before.folded)
    return before.folded.strip() if is_beside and is_name and not _is_kana(before.folded) else ""


def _is_kana(name: str) -> bool:
    return bool(_IN_KANA.fullmatch(re.sub(r"[\s・=]", "", part_key(name))))


class PatientNames:
    """What notes say of names, by patient."""

    def __init__(self) -> None:
        self._votes: Counter[str] = Counter()
        self._mentions = defaultdict[str, Counter[Mention]](Counter)
        self._sorted: dict[str, Names] = {}

    def add(self, document: TaggedDocument) -> None:
        """Take in a note; one without a patient is passed over."""
        if document.patient_id:
            self.include(document.patient_id, names_of(document))

    def include(self, patient_id: str | None, names: Names) -> None:
        """Take in what a note says; that of one without a patient is passed over."""
        if not patient_id:
            return
        self._sorted.pop(patient_id, None)
        self._votes[patient_id] += names.votes
        self._mentions[patient_id].update(dict(names.mentions))

    def of(self, patient_id: str | None) -> Names | None:
        """Return what is known of a patient; None for a note without one, which tells it alone."""
        if not patient_id:
            return None
        if patient_id not in self._sorted:
            mentions = self._mentions.get(patient_id, Counter())
            names = Names(self._votes[patient_id], tuple(sorted(mentions.items())))
            self._sorted[patient_id] = names
        return self._sorted[patient_id]


class Person(NamedTuple):
    """A person whom a note names in full: the keys of the words of the name, and the sex.

    The sex is "" where neither words nor lists tell it.
    """

    given: tuple[str, ...]
    surname: tuple[str, ...]
    sex: str


class KnownPart(NamedTuple):
    """A part of a person's name: `key` is its own form where a reading of it was looked up."""

    rank: int
    role: Role
    key: str


@dataclass(frozen=True)
class People:
    """The persons of a patient's notes, in the order of who has a part that several share.

    Attributes
    ----------
    sex
        The patient's, as all notes say.
    persons
        Whom the notes name in full.
    parts
        By key what a part, or its reading, can be, in the order of the persons.
    lone_sexes
        By key the sex of names that stand alone, as the words beside them say.
    true_parts
        The keys of all parts of names in the notes, which no surrogate may hold.
    """

    sex: str
    persons: tuple[Person, ...] = ()
    parts: Mapping[str, tuple[KnownPart, ...]] = field(default_factory=dict)
    lone_sexes: Mapping[str, str] = field(default_factory=dict)
    true_parts: frozenset[str] = frozenset()

    def part(
        self, key: str, role: Role | Literal[""] = "", *, first: Role | Literal[""] = ""
    ) -> KnownPart | None:
        """Return whose part it is, of `role` where one is given; of `first` rather than others."""
        known = [one for one in self.parts.get(key, ()) if role in ("", one.role)]
        return next((one for one in known if one.role == first), known[0] if known else None)

    def named(self, given: str, surname: str) -> int | None:
        """Return the rank of the person with these parts; a given name may be an initial."""
        for rank in self._ranks(surname, SURNAME):
            if any(rank == one.rank and one.role == GIVEN for one in self.parts.get(given, ())):
                return rank
        if len(given) > 1 or is_unspaced(given):
            return None
        ranks = self._ranks(surname, SURNAME)
        return next((rank for rank in ranks if self.persons[rank].given[0][:1] == given), None)

    def _ranks(self, key: str, role: Role) -> list[int]:
        return [one.rank for one in self.parts.get(key, ()) if one.role == role]

    def with_surname(self, key: str) -> list[int]:
        """Return the ranks of the persons with this surname."""
        return self._ranks(key, SURNAME)

    def split(self, name: str) -> int | None:
        """Return how many characters of a name without a blank are a known person's surname."""
        places = range(1, len(name))
        is_known = (self.named(part_key(name[n:]), part_key(name[:n])) is not None for n in places)
        return next((n for n, known in zip(places, is_known, strict=True) if known), None)

    def is_blocked(self, part: str) -> bool:
        """Whether a part of a surrogate holds a true part, or stands within one."""
        key = part_key(part)
        return any(true in key or key in true for true in self.true_parts)

    def holds_true_part(self, name: str) -> bool:
        """Whether a surrogate without blanks holds a true part, across its own parts too."""
        key = part_key(name)
        return any(true in key for true in self.true_parts)


@lru_cache(maxsize=64)
def people_of(names: Names) -> People:
    """Return the persons of a patient's notes; it does not matter in which order they come."""
    return _Reader(names).people()


class _Reader:
    """Reads the persons out of mentions."""

    def __init__(self, names: Names) -> None:
        self._sex = sex_of_votes(names.votes)
        self._votes = names.votes
        self._mentions = names.mentions
        self._bare = {
            part_key(mention.name)
            for mention, _ in names.mentions
            if not mention.is_full and " " not in mention.name
        }
        self._full: dict[tuple[str, tuple[str, ...]], _Told] = {}
        self._alone: dict[str, _Told] = {}
        self._readings: dict[tuple[Role, str], set[str]] = defaultdict(set)
        self._true: set[str] = set()

    def people(self) -> People:
        """Return the persons, with all that the mentions tell."""
        late = []
        for mention, n in self._mentions:
            given, surname = self._parts(mention)
            self._note_true_parts(mention, given, surname)
            if not given or not surname:
                self._alone.setdefault(part_key(mention.name), _Told()).add(mention, n)
            elif mention.is_full and _is_reading(mention.name):
                late.append((mention, n, given, surname))
            elif mention.is_full:
                self._tell_full(given, surname, mention, n)
        for mention, n, given, surname in late:
            self._tell_full(*self._read(mention, given, surname), mention, n)
        surnames = {surname for (_, surname), one in self._full.items() if one.is_named}
        told = [pair for pair in self._full.items() if pair[1].is_named or pair[0][1] in surnames]
        self._give_lone_votes(told)
        n_own = sum(not one.is_other for _, one in told)
        order = sorted(told, key=lambda pair: (not pair[1].is_patient, -pair[1].n, pair[0]))
        persons = tuple(
            Person(
                (given, *sorted(one.middle)), surname, self._sex_of(given, one, is_alone=n_own == 1)
            )
            for (given, surname), one in order
        )
        known: Mapping[str, tuple[KnownPart, ...]] = self._known_parts(persons)
        lone = {
            key: sex
            for key, one in self._alone.items()
            if key not in known and (sex := sex_of_votes(one.votes))
        }
        return People(self._sex, persons, known, lone, frozenset(self._true))

    def _parts(self, mention: Mention) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the keys of the given names and of the surname of a full name; empty if alone."""
        name = mention.name
        if is_unspaced(name):
            given, surname = self._split(name) if mention.is_full else ("", "")
            is_whole = bool(given and surname)
            return ((part_key(given),), (part_key(surname),)) if is_whole else ((), ())
        words = spaced_words(name)
        given_words = [word for word in words if word.role == GIVEN]
        surname_words = [word for word in words if word.role == SURNAME]
        if not mention.is_full or not given_words or given_words[0].is_initial:
            return (), ()
        named = tuple(word.key for word in given_words if not word.is_initial)
        return named, tuple(word.key for word in surname_words if not word.is_initial)

    def _split(self, name: str) -> tuple[str, str]:
        """Return given name and surname of a name in Han or kana."""
        if len(name) < 3 and " " not in name:
            is_full = len(name) == 2 and name[0] in JAPANESE_SURNAMES
            return (name[1:], name[:1]) if is_full else ("", name)
        given, surname = split_japanese_name(name)
        if re.search("[ ・=]", name) or _is_listed(surname, given):
            return given, surname
        pairs = [(name[place:], name[:place]) for place in range(1, len(name))]
        is_likely: tuple[Callable[[str, str], bool], ...] = (
            lambda a, b: {part_key(a), part_key(b)} <= self._bare,
            lambda a, b: _is_listed(b, a),
            lambda a, b: (
                surname not in JAPANESE_SURNAMES
                and not self._bare.isdisjoint((part_key(a), part_key(b)))
            ),
        )
        for test in is_likely:
            if likely := [pair for pair in pairs if test(*pair)]:
                return likely[0]
        return given, surname

    def _note_true_parts(
        self, mention: Mention, given: tuple[str, ...], surname: tuple[str, ...]
    ) -> None:
        if is_unspaced(mention.name):
            words = re.split(r"[\s・=]+", mention.name)
            keys = [part_key("".join(words)), *map(part_key, words), *given, *surname]
            self._true.update(filter(None, keys))
            return
        words = [word.key for word in spaced_words(mention.name) if word.role != "affix"]
        self._true.update(word for word in words if len(word) > 1)

    def _tell_full(
        self, given: tuple[str, ...], surname: tuple[str, ...], mention: Mention, n: int
    ) -> None:
        """Take in a full name; with and without middle names it is one person."""
        told = self._full.setdefault((given[0], surname), _Told())
        told.add(mention, n)
        told.middle.update(given[1:])

    def _read(
        self, mention: Mention, given: tuple[str, ...], surname: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the name in Han of a reading; the reading where there is none."""
        read_given, read_surname = self._parts(Mention(mention.reading_of, True, True, "", 0, ""))
        if read_given and (read_given[0], read_surname) in self._full:
            self._readings[GIVEN, read_given[0]].add(given[0])
            self._readings[SURNAME, read_surname[0]].add(surname[0])
            return read_given, read_surname
        for first, last in ((given[0], surname[0]), (surname[0], given[0])):
            for own_given, own_surname in sorted(self._full):
                pairs = ((own_given, first), (own_surname[0], last))
                if all(part in _readings().get(written, ()) for written, part in pairs):
                    return (own_given,), own_surname
        return given, surname

    def _give_lone_votes(self, told: Iterable[tuple[Any, _Told]]) -> None:
        """Give what stands beside a part that stands alone to the only person who has it."""
        told = list(told)
        for key, alone in self._alone.items():
            owners = [one for (given, surname), one in told if key in (given, *surname)]
            if len(owners) == 1:
                owners[0].votes += alone.votes

    def _sex_of(self, given: str, told: _Told, *, is_alone: bool) -> str:
        """Return a person's sex as the notes say it, else the lists, else that of the patient."""
        is_patient = told.is_patient or (is_alone and not told.is_other)
        votes = told.votes + (self._votes if is_patient else 0)
        return sex_of_votes(votes) or sex_of_given_name(given) or self._sex

    def _known_parts(self, persons: Sequence[Person]) -> dict[str, tuple[KnownPart, ...]]:
        """Return by key what each part and each of its readings can be."""
        known: dict[str, list[KnownPart]] = defaultdict(list)
        for rank, person in enumerate(persons):
            for role, keys in ((GIVEN, person.given), (SURNAME, person.surname)):
                for key in keys:
                    told = self._readings.get((role, key), ())
                    halves = key.split("-") if "-" in key else ()
                    for form in (key, *sorted({*_readings().get(key, ()), *told}), *halves):
                        known[form].append(KnownPart(rank, role, key))
        return {key: tuple(parts) for key, parts in known.items()}


@dataclass
class _Told:
    """What the mentions of one name tell together."""

    n: int = 0
    votes: int = 0
    is_named: bool = False
    is_patient: bool = False
    is_other: bool = False
    middle: set[str] = field(default_factory=set)

    def add(self, mention: Mention, n: int) -> None:
        """Take in a mention that stands n times in the notes."""
        self.n += n
        self.votes += mention.votes * n
        self.is_named |= mention.is_named
        self.is_patient |= mention.whose == "patient"
        self.is_other |= mention.whose == "other"


def _is_reading(name: str) -> bool:
    """Whether a name can be the reading of a name in Han: it is in kana, or Latin letters."""
    return not is_unspaced(name) or _is_kana(name)


def _is_listed(surname: str, given: str) -> bool:
    surnames, given_names = _listed()
    return surname in surnames and given in given_names


def _tables() -> Iterator[tuple[Role, Any]]:
    from audit.names.people import given_names, surnames

    yield SURNAME, surnames()
    for sex in "MF":
        for time in ("old", "middle", "young"):
            yield GIVEN, given_names(sex, time)


@cache
def _listed() -> tuple[frozenset[str], frozenset[str]]:
    """Return the Japanese surnames and the given names of the lists."""
    written: dict[Role, set[str]] = {SURNAME: set(), GIVEN: set()}
    for role, table in _tables():
        written[role].update(part.written for part in table.names)
    return frozenset(written[SURNAME]), frozenset(written[GIVEN])


@cache
def _readings() -> Mapping[str, frozenset[str]]:
    """Return the keys of the kana and of the Latin letters of each part of a name in Han."""
    found: dict[str, set[str]] = defaultdict(set)
    for _, table in _tables():
        for part in table.names:
            key = part_key(part.written)
            found[key].update({part_key(part.kana), part_key(part.romaji)} - {key})
    return {key: frozenset(forms) for key, forms in found.items()}


def latin_reading(key: str) -> str:
    """Return a reading of a part in Latin letters; "" where no list has one."""
    return next((form for form in sorted(_readings().get(key, ())) if form.isascii()), "")
