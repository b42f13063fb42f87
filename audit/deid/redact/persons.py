"""The persons in the notes of a patient: which parts belong to one name, and each person's sex.

Comes in: notes with their marks. Goes out: the persons, so that a part that stands alone gets the
same part of the same surrogate as the full name, even if that stands in another note of the
patient.

A part that several persons share is taken for the patient's, else for that of the person whom most
marks name in full, else for that of the first person by name. Behind a title a part is taken for a
surname if it can be one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from audit.deid.redact.kinds import Mark, fits_name, is_named, join_marks, kind_at
from audit.deid.redact.sexes import (
    NameOwner,
    count_votes,
    count_votes_beside,
    find_name_owner,
    sex_of_given_name,
    sex_of_votes,
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

    Case, width, accents, points, hiragana or katakana, and old forms of Han make no difference.
    """
    return fold_letters(part).strip(".").translate(IN_KATAKANA)


class NameWord(NamedTuple):
    """A word of a name: its place, without a possessive 's, and its role.

    `role` is "" if the name has no other word; an `affix` is a title, a degree or a particle.
    """

    start: int
    stop: int
    text: str
    role: Role | Literal["", "affix"]

    @property
    def key(self) -> str:
        """The form in which the word is compared."""
        return part_key(self.text)

    @property
    def is_initial(self) -> bool:
        """Whether the word is a single letter of a script that has spaces."""
        return bool(_INITIAL.fullmatch(self.text)) and not is_unspaced(self.text)


@lru_cache(maxsize=4096)
def split_spaced_name(name: str) -> tuple[NameWord, ...]:
    """Return the words of a folded name in a script with spaces."""
    places = []
    for match in _WORD.finditer(name):
        text = _POSSESSIVE.sub("", match[0])
        places.append((match.start(), match.start() + len(text), text))
    is_affix = [_is_affix(text) for *_, text in places]
    name_places = [place for place, is_one in zip(places, is_affix, strict=True) if not is_one]
    roles = iter(_assign_roles(name, name_places))
    return tuple(
        NameWord(*place, "affix" if is_one else next(roles))
        for place, is_one in zip(places, is_affix, strict=True)
    )


def _assign_roles(name: str, words: Sequence[tuple[int, int, str]]) -> Sequence[Role | Literal[""]]:
    """Return the role of each word of a name; a surname may stand first, before a comma."""
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

    `is_named`: a title, a cue or a list says that it is a name. `reading_of`: the name in Han whose
    reading in kana this is. `votes`: those of `count_votes_beside`.
    """

    name: str
    is_full: bool
    is_named: bool
    owner: NameOwner
    votes: int
    reading_of: str


@dataclass(frozen=True)
class Names:
    """The names in the notes of a patient: each mention with its number, sorted.

    `votes` are those of `count_votes` for all notes.
    """

    votes: int = 0
    mentions: tuple[tuple[Mention, int], ...] = ()

    def to_record(self) -> dict[str, Any]:
        """Return the names as values of JSON."""
        return {"votes": self.votes, "mentions": [[*mention, n] for mention, n in self.mentions]}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Names:
        """Return the names from values of JSON."""
        return cls(
            record["votes"], tuple((Mention(*fields), n) for *fields, n in record["mentions"])
        )

    def add_missing(self, mentions: Iterable[tuple[Mention, int]]) -> Names:
        """Return the names with those mentions, marked later, whose names are missing here."""
        known_names = {mention.name for mention, _ in self.mentions}
        new = [pair for pair in mentions if pair[0].name not in known_names]
        return Names(self.votes, tuple(sorted([*self.mentions, *new]))) if new else self


def read_names(document: TaggedDocument) -> Names:
    """Return the names in one note."""
    marks = [mark for mark, _ in join_marks(document) if _may_be_name(mark)]
    folded = fold_characters(document.text)
    mentions: Counter[Mention] = Counter()
    for place, mark in enumerate(marks):
        start, end = mark.span.start, mark.span.end
        stop = marks[place + 1].span.start if place + 1 < len(marks) else len(folded)
        owner = find_name_owner(folded, start, end)
        votes = count_votes_beside(folded, start, end, stop=stop, owner=owner)
        reading_of = _find_written_name(folded, marks, place)
        name, is_full = mark.folded.strip(), mark.span.label == IDENTIFIER
        mentions[Mention(name, is_full, is_named(mark), owner, votes, reading_of)] += 1
    return Names(count_votes(document.text), tuple(sorted(mentions.items())))


def _may_be_name(mark: Mark) -> bool:
    """Whether a mark has the form of a name, and a type that names can have."""
    if mark.span.label not in (IDENTIFIER, QUASI_IDENTIFIER) or not fits_name(mark):
        return False
    return mark.span.label == IDENTIFIER or kind_at(mark) in ("name", "other")


def _find_written_name(folded: str, marks: Sequence[Mark], place: int) -> str:
    """Return the name in Han whose reading in kana stands at a mark behind it; else ""."""
    mark = marks[place]
    if not place or not _is_kana(mark.folded) or mark.span.label != IDENTIFIER:
        return ""
    previous_mark = marks[place - 1]
    between = folded[previous_mark.span.end : mark.span.start]
    is_beside = len(between) < 16 and _BETWEEN_READINGS.fullmatch(between)
    is_name = previous_mark.span.label == IDENTIFIER and is_unspaced(previous_mark.folded)
    return (
        previous_mark.folded.strip()
        if is_beside and is_name and not _is_kana(previous_mark.folded)
        else ""
    )


def _is_kana(name: str) -> bool:
    return bool(_IN_KANA.fullmatch(re.sub(r"[\s・=]", "", part_key(name))))


class PatientNames:
    """The names in notes, by patient."""

    def __init__(self) -> None:
        self._votes: Counter[str] = Counter()
        self._mentions = defaultdict[str, Counter[Mention]](Counter)
        self._sorted: dict[str, Names] = {}

    def add(self, document: TaggedDocument) -> None:
        """Add the names of a note; a note without a patient is skipped."""
        if document.patient_id:
            self.include(document.patient_id, read_names(document))

    def include(self, patient_id: str | None, names: Names) -> None:
        """Add the names of a note that were read before; a note without a patient is skipped."""
        if not patient_id:
            return
        self._sorted.pop(patient_id, None)
        self._votes[patient_id] += names.votes
        self._mentions[patient_id].update(dict(names.mentions))

    def get_names(self, patient_id: str | None) -> Names | None:
        """Return the names in a patient's notes; None without a patient."""
        if not patient_id:
            return None
        if patient_id not in self._sorted:
            mentions = self._mentions.get(patient_id, Counter())
            names = Names(self._votes[patient_id], tuple(sorted(mentions.items())))
            self._sorted[patient_id] = names
        return self._sorted[patient_id]


class Person(NamedTuple):
    """A person whom a note names in full: the keys of the words of the name, and the sex.

    The sex is "" if neither words nor lists state it.
    """

    given_names: tuple[str, ...]
    surname: tuple[str, ...]
    sex: str


class KnownPart(NamedTuple):
    """A part of a person's name; `key` is that of the name as written, also for a reading of it."""

    rank: int
    role: Role
    key: str


@dataclass(frozen=True)
class People:
    """The persons in a patient's notes; a part that several share belongs to the first of them.

    Attributes
    ----------
    sex
        The patient's sex, by the votes of all notes.
    persons
        The persons whom the notes name in full.
    parts
        Key of a part or of its reading -> whose parts it can be, in the order of the persons.
    lone_sexes
        Key of a name that always stands alone -> its sex, by the words beside it.
    true_parts
        The keys of all parts of names in the notes, which no surrogate may hold.
    """

    sex: str
    persons: tuple[Person, ...] = ()
    parts: Mapping[str, tuple[KnownPart, ...]] = field(default_factory=dict)
    lone_sexes: Mapping[str, str] = field(default_factory=dict)
    true_parts: frozenset[str] = frozenset()

    def find_part(
        self, key: str, role: Role | Literal[""] = "", *, preferred_role: Role | Literal[""] = ""
    ) -> KnownPart | None:
        """Return the first part with a key, of `role` if given; `preferred_role` goes first."""
        parts = [part for part in self.parts.get(key, ()) if role in ("", part.role)]
        return next(
            (part for part in parts if part.role == preferred_role), parts[0] if parts else None
        )

    def find_person(self, given_name: str, surname: str) -> int | None:
        """Return the rank of the person with these parts; a given name may be an initial."""
        for rank in self._find_ranks(surname, SURNAME):
            if any(
                rank == part.rank and part.role == GIVEN for part in self.parts.get(given_name, ())
            ):
                return rank
        if len(given_name) > 1 or is_unspaced(given_name):
            return None
        ranks = self._find_ranks(surname, SURNAME)
        return next(
            (rank for rank in ranks if self.persons[rank].given_names[0][:1] == given_name), None
        )

    def _find_ranks(self, key: str, role: Role) -> list[int]:
        return [part.rank for part in self.parts.get(key, ()) if part.role == role]

    def find_surname_length(self, name: str) -> int | None:
        """Return the length of the surname in the unspaced name of a known person; else None."""
        n_longest = max(map(len, self.parts), default=0)
        for n in range(1, len(name)):
            surname = part_key(name[:n])
            if len(surname) > n_longest + 1:  # a mark may still join its letter
                return None
            if self.find_person(part_key(name[n:]), surname) is not None:
                return n
        return None

    def is_blocked(self, part: str) -> bool:
        """Whether a part of a surrogate holds a true part, or is held by one."""
        key = part_key(part)
        return any(true_part in key or key in true_part for true_part in self.true_parts)

    def holds_true_part(self, name: str) -> bool:
        """Whether an unspaced surrogate holds a true part, even across its own parts."""
        key = part_key(name)
        return any(true_part in key for true_part in self.true_parts)


@lru_cache(maxsize=64)
def read_people(names: Names) -> People:
    """Return the persons in a patient's notes; the order of the notes does not matter."""
    return _Reader(names).read_people()


class _Reader:
    """Reads the persons out of mentions."""

    def __init__(self, names: Names) -> None:
        self._sex = sex_of_votes(names.votes)
        self._votes = names.votes
        self._mentions = names.mentions
        self._lone_parts = {
            part_key(mention.name)
            for mention, _ in names.mentions
            if not mention.is_full and " " not in mention.name
        }
        self._full_names: dict[tuple[str, tuple[str, ...]], _NameMentions] = {}
        self._lone_names: dict[str, _NameMentions] = {}
        self._readings: dict[tuple[Role, str], set[str]] = defaultdict(set)
        self._true_parts: set[str] = set()

    def read_people(self) -> People:
        """Return the persons with their parts and sexes."""
        kana_mentions = []
        for mention, n in self._mentions:
            given_names, surname = self._split_keys(mention)
            self._add_true_parts(mention, given_names, surname)
            if not given_names or not surname:
                self._lone_names.setdefault(part_key(mention.name), _NameMentions()).add(mention, n)
            elif mention.is_full and _is_reading(mention.name):
                kana_mentions.append((mention, n, given_names, surname))
            elif mention.is_full:
                self._add_full_name(given_names, surname, mention, n)
        for mention, n, given_names, surname in kana_mentions:
            self._add_full_name(
                *self._find_name_of_reading(mention, given_names, surname), mention, n
            )
        surnames = {
            surname for (_, surname), mentions in self._full_names.items() if mentions.is_named
        }
        named_people = [
            pair for pair in self._full_names.items() if pair[1].is_named or pair[0][1] in surnames
        ]
        self._assign_lone_votes(named_people)
        n_own = sum(not mentions.is_other for _, mentions in named_people)
        order = sorted(
            named_people, key=lambda pair: (not pair[1].is_patient, -pair[1].n_mentions, pair[0])
        )
        persons = tuple(
            Person(
                (given_name, *sorted(mentions.middle_names)),
                surname,
                self._decide_sex(given_name, mentions, is_alone=n_own == 1),
            )
            for (given_name, surname), mentions in order
        )
        parts: Mapping[str, tuple[KnownPart, ...]] = self._collect_parts(persons)
        lone_sexes = {
            key: sex
            for key, mentions in self._lone_names.items()
            if key not in parts and (sex := sex_of_votes(mentions.votes))
        }
        return People(self._sex, persons, parts, lone_sexes, frozenset(self._true_parts))

    def _split_keys(self, mention: Mention) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the keys of the given names and of the surname; empty if the name is not full."""
        name = mention.name
        if is_unspaced(name):
            given_name, surname = self._split_unspaced(name) if mention.is_full else ("", "")
            is_whole = bool(given_name and surname)
            return ((part_key(given_name),), (part_key(surname),)) if is_whole else ((), ())
        words = split_spaced_name(name)
        given_words = [word for word in words if word.role == GIVEN]
        surname_words = [word for word in words if word.role == SURNAME]
        if not mention.is_full or not given_words or given_words[0].is_initial:
            return (), ()
        given_keys = tuple(word.key for word in given_words if not word.is_initial)
        return given_keys, tuple(word.key for word in surname_words if not word.is_initial)

    def _split_unspaced(self, name: str) -> tuple[str, str]:
        """Return the given name and the surname of a name in Han or kana."""
        if len(name) < 3 and " " not in name:
            is_full = len(name) == 2 and name[0] in JAPANESE_SURNAMES
            return (name[1:], name[:1]) if is_full else ("", name)
        given_name, surname = split_japanese_name(name)
        if re.search("[ ・=]", name) or _is_listed(surname, given_name):
            return given_name, surname
        pairs = [(name[place:], name[:place]) for place in range(1, len(name))]
        likely_splits: tuple[Callable[[str, str], bool], ...] = (
            lambda a, b: {part_key(a), part_key(b)} <= self._lone_parts,
            lambda a, b: _is_listed(b, a),
            lambda a, b: (
                surname not in JAPANESE_SURNAMES
                and not self._lone_parts.isdisjoint((part_key(a), part_key(b)))
            ),
        )
        for is_likely in likely_splits:
            if split := next((pair for pair in pairs if is_likely(*pair)), None):
                return split
        return given_name, surname

    def _add_true_parts(
        self, mention: Mention, given_names: tuple[str, ...], surname: tuple[str, ...]
    ) -> None:
        if is_unspaced(mention.name):
            words = re.split(r"[\s・=]+", mention.name)
            keys = [part_key("".join(words)), *map(part_key, words), *given_names, *surname]
            self._true_parts.update(filter(None, keys))
            return
        words = [word.key for word in split_spaced_name(mention.name) if word.role != "affix"]
        self._true_parts.update(word for word in words if len(word) > 1)

    def _add_full_name(
        self, given_names: tuple[str, ...], surname: tuple[str, ...], mention: Mention, n: int
    ) -> None:
        """Add a full name; the name with and without middle names is one person."""
        mentions = self._full_names.setdefault((given_names[0], surname), _NameMentions())
        mentions.add(mention, n)
        mentions.middle_names.update(given_names[1:])

    def _find_name_of_reading(
        self, mention: Mention, given_names: tuple[str, ...], surname: tuple[str, ...]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the name in Han whose reading a mention is, or else the reading itself."""
        read_given_names, read_surname = self._split_keys(
            Mention(mention.reading_of, True, True, "", 0, "")
        )
        if read_given_names and (read_given_names[0], read_surname) in self._full_names:
            self._readings[GIVEN, read_given_names[0]].add(given_names[0])
            self._readings[SURNAME, read_surname[0]].add(surname[0])
            return read_given_names, read_surname
        for first, last in ((given_names[0], surname[0]), (surname[0], given_names[0])):
            for known_given_name, known_surname in sorted(self._full_names):
                pairs = ((known_given_name, first), (known_surname[0], last))
                if all(part in _collect_readings().get(key, ()) for key, part in pairs):
                    return (known_given_name,), known_surname
        return given_names, surname

    def _assign_lone_votes(self, named_people: Iterable[tuple[Any, _NameMentions]]) -> None:
        """Give the votes beside a part that stands alone to its person, if only one has it."""
        named_people = list(named_people)
        for key, lone_mentions in self._lone_names.items():
            owners = [
                mentions
                for (given_name, surname), mentions in named_people
                if key in (given_name, *surname)
            ]
            if len(owners) == 1:
                owners[0].votes += lone_mentions.votes

    def _decide_sex(self, given_name: str, mentions: _NameMentions, *, is_alone: bool) -> str:
        """Return a person's sex by the notes, else by the lists, else that of the patient."""
        is_patient = mentions.is_patient or (is_alone and not mentions.is_other)
        votes = mentions.votes + (self._votes if is_patient else 0)
        return sex_of_votes(votes) or sex_of_given_name(given_name) or self._sex

    def _collect_parts(self, persons: Sequence[Person]) -> dict[str, tuple[KnownPart, ...]]:
        """Return, by the key of each part and of each of its readings, whose parts it can be."""
        parts_by_key: dict[str, list[KnownPart]] = defaultdict(list)
        for rank, person in enumerate(persons):
            for role, keys in ((GIVEN, person.given_names), (SURNAME, person.surname)):
                for key in keys:
                    note_readings = self._readings.get((role, key), ())
                    halves = key.split("-") if "-" in key else ()
                    for form in (
                        key,
                        *sorted({*_collect_readings().get(key, ()), *note_readings}),
                        *halves,
                    ):
                        parts_by_key[form].append(KnownPart(rank, role, key))
        return {key: tuple(parts) for key, parts in parts_by_key.items()}


@dataclass
class _NameMentions:
    """The mentions of one name, added up."""

    n_mentions: int = 0
    votes: int = 0
    is_named: bool = False
    is_patient: bool = False
    is_other: bool = False
    middle_names: set[str] = field(default_factory=set)

    def add(self, mention: Mention, n: int) -> None:
        """Add a mention that occurs `n` times in the notes."""
        self.n_mentions += n
        self.votes += mention.votes * n
        self.is_named |= mention.is_named
        self.is_patient |= mention.owner == "patient"
        self.is_other |= mention.owner == "other"


def _is_reading(name: str) -> bool:
    """Whether a name can be the reading of a name in Han: it is in kana or Latin letters."""
    return not is_unspaced(name) or _is_kana(name)


def _is_listed(surname: str, given_name: str) -> bool:
    surnames, given_names = _collect_listed_names()
    return surname in surnames and given_name in given_names


@cache
def _collect_listed_names() -> tuple[frozenset[str], frozenset[str]]:
    """Return the Japanese surnames and the given names of the lists."""
    from audit.names.japanese_names import iterate_given_names
    from audit.names.people import surnames

    return (
        frozenset(part.native for part in surnames().names),
        frozenset(part.native for _, part in iterate_given_names()),
    )


@cache
def _collect_readings() -> Mapping[str, frozenset[str]]:
    """Return the keys of the readings, in kana and in Latin letters, of each listed part in Han."""
    from audit.names.japanese_names import iterate_given_names
    from audit.names.people import surnames

    readings: dict[str, set[str]] = defaultdict(set)
    for part in chain(surnames().names, (part for _, part in iterate_given_names())):
        key = part_key(part.native)
        readings[key].update({part_key(part.kana), part_key(part.romaji)} - {key})
    return {key: frozenset(forms) for key, forms in readings.items()}


def find_latin_reading(key: str) -> str:
    """Return a reading of a part in Latin letters; "" if no list has one."""
    return next((form for form in sorted(_collect_readings().get(key, ())) if form.isascii()), "")
