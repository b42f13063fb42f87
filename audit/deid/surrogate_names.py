"""Invents names: each part of a true name has its own surrogate, wherever that part stands.

Comes in: a mark, the persons of the patient's notes. Goes out: a name in the form of the mark, or
nothing where no surrogate is left. A surrogate of a part hangs on the key of the release, the
patient, the part and the sex; so persons who share a surname share its surrogate. One that holds a
true part of the patient's notes, or stands within one, is passed over for the next draw.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from audit.deid.keys import Key
from audit.deid.kinds import Mark, kind_at
from audit.deid.persons import (
    GIVEN,
    SURNAME,
    NameWord,
    People,
    Role,
    find_latin_reading,
    part_key,
    split_spaced_name,
)
from audit.deid.sexes import sex_of_given_name
from audit.names.people import ENGLISH, JAPANESE, NamePart, half_width, name_of
from audit.notes.mention_words import JAPANESE_SURNAMES
from audit.notes.mentions_ja import split_japanese_name
from audit.notes.patterns import HIRA, KATA, fold_characters
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER
from audit.text import is_unspaced

_N_TRIES = 64
"""Draws for a part. Of 20 true parts, the most that a note usually has, a draw meets one in one
case of five or less; half as many draws would do, twice as many would change nothing."""
_HIRAGANA = re.compile(f"[{HIRA}ー]+")
_HALF = re.compile("[ｦ-ﾟ]+")
_KANA = re.compile(f"[{KATA}{HIRA}ｦ-ﾟ]+")
_TO_HIRAGANA = {code: code - 0x60 for code in range(ord("ァ"), ord("ヶ"))}
_LETTERS = re.compile(r"(?:[^\W\d_]\.? ?){2,3}")
_TITLE = re.compile(r"\b(?i:mr|mrs|ms|miss|mx|dr|prof|professor|doctor|nurse)\.? ?$")
_TITLE_AFTER = re.compile(" ?(?:先生|医師|教授|氏)")
_IN_TIME = re.compile(
    r"(?i:\b(?:in|on|since|until|till|by|of|last|next|this|from|to|through|early|late|mid)"
    r"|[0-9,])[ -]*$"
)


@dataclass(frozen=True)
class NameSurrogates:
    """Invents the names in the notes of a patient."""

    key: Key
    patient: tuple[int, str]
    people: People
    _drawn: dict[tuple[str, Role, str], NamePart | None] = field(default_factory=dict)

    def knows(self, mark: Mark) -> bool:
        """Whether a mark consists of parts of names that the notes tell in full."""
        if mark.span.label not in (IDENTIFIER, QUASI_IDENTIFIER):
            return False
        if mark.folded.isupper() and _LETTERS.fullmatch(mark.folded):
            letters = [char.casefold() for char in mark.folded if char.isalpha()]
            if self._owner_of(letters) is not None and kind_at(mark) in ("name", "other"):
                return True
        keys = self._keys(mark.folded.strip())
        if not keys or not all(self.people.find_part(key) for key in keys):
            return False
        kind = kind_at(mark)
        if kind in ("name", "other"):
            return True
        is_word = mark.folded[:1].isupper() or is_unspaced(mark.folded)
        is_time = _IN_TIME.search(mark.text_before) or mark.text_after[:2].strip()[:1].isdigit()
        return is_word and kind in ("date", "state", "place", "profession") and not is_time

    def _keys(self, name: str) -> list[str]:
        """Return the keys of the parts of a name that are no letters and no titles."""
        if not is_unspaced(name):
            words = [word for word in split_spaced_name(name) if word.role != "affix"]
            return [word.key for word in words if not word.is_initial]
        if (n_surname := self.people.find_surname_length(name)) is not None:
            return [part_key(name[:n_surname]), part_key(name[n_surname:])]
        return [part_key(part) for part in re.split("[ ・=]+", name) if part]

    def of(self, mark: Mark) -> str | None:
        """Return the surrogate of a name; None where there is none for one of its parts."""
        if is_unspaced(mark.folded):
            return self._unspaced(mark)
        return self._letters(mark) or self._spaced(mark)

    # Names in scripts with spaces

    def _spaced(self, mark: Mark) -> str | None:
        name = mark.folded
        words = split_spaced_name(name)
        named = [word for word in words if word.role != "affix"]
        rank = self._named(named)
        if rank is None and all(self.people.find_part(word.key) for word in named):
            # Several parts of one role, as two surnames are.
            words = tuple(word._replace(role=self._only_role(word)) for word in words)
        new, at = "", 0
        for word in words:
            new += name[at : word.start]
            at = word.stop
            if word.role == "affix":  # a title, or a particle that tells a family
                at += len(name[at:]) - len(name[at:].lstrip())
                continue
            part = self._word(word, mark, named, rank)
            if part is None:
                return None
            new += part
        rest = name[at:]
        return new.rstrip(" ,") if not rest and new != new.rstrip(" ,") else new + rest

    def _only_role(self, word: NameWord) -> Role | Literal["", "affix"]:
        """Return the role that a word has for the persons, if it has one alone; else its own."""
        roles = {part.role for part in self.people.parts.get(word.key, ())}
        return roles.pop() if len(roles) == 1 and word.role else word.role

    def _named(self, words: list[NameWord]) -> int | None:
        """Return the rank of the person whom a name of several words names."""
        pairs = (
            self.people.find_person(given.key, surname.key)
            for given in words
            for surname in words
            if given.role == GIVEN and surname.role == SURNAME and not surname.is_initial
        )
        return next((rank for rank in pairs if rank is not None), None)

    def _word(
        self, word: NameWord, mark: Mark, words: list[NameWord], rank: int | None
    ) -> str | None:
        if word.is_initial:
            return self._initial(word, rank) + word.text[1:]
        part = self._part(word.text, word.role, mark, rank)
        if part is None:
            return None
        return _in_case_of(word.text, part.romaji if part.kana else part.written)

    def _initial(self, word: NameWord, rank: int | None) -> str:
        """Return the first letter of the surrogate of a person's part; else a drawn letter."""
        if rank is not None:
            person = self.people.persons[rank]
            keys = person.surname if word.role == SURNAME else person.given_names
            role: Role = SURNAME if word.role == SURNAME else GIVEN
            for key in keys:
                if key[:1] == word.key and (part := self._draw(key, role, person.sex)):
                    return part.romaji[0].upper()
        return self._letter(word.key)

    def _letter(self, letter: str) -> str:
        return chr(65 + self.key.draw("initial", letter, self.patient) % 26)

    def _letters(self, mark: Mark) -> str | None:
        """Return the letters of a surrogate for the initials of a person; None for all else."""
        name = mark.folded
        places = [place for place, char in enumerate(name) if char.isalpha()]
        is_pointed = "." in name
        if not _LETTERS.fullmatch(name) or not name.isupper():
            return None
        if not is_pointed and self.people.find_part(part_key(name)):
            return None
        owner = self._owner_of([name[place].casefold() for place in places])
        if owner is None and not is_pointed:
            return None
        if owner is None:
            new = [self._letter(name[place].casefold()) for place in places]
        else:
            drawn = [self._draw(*part) for part in owner]
            new = [part.romaji[0].upper() for part in drawn if part]
        if len(new) < len(places):
            return None
        letters = dict(zip(places, new, strict=True))
        return "".join(letters.get(place, char) for place, char in enumerate(name))

    def _owner_of(self, letters: Sequence[str]) -> list[tuple[str, Role, str]] | None:
        """Return the parts, in order, of the first person who has these initials in any order."""
        for person in self.people.persons:
            given = [(key, GIVEN, person.sex) for key in person.given_names]
            surname = (person.surname[0], SURNAME, person.sex)
            for parts in ([*given, surname], [surname, *given]):
                for own in (parts, [parts[0], parts[-1]]):
                    if [self._first_letter(key) for key, *_ in own] == list(letters):
                        return own
        return None

    def _first_letter(self, key: str) -> str:
        """Return the Latin letter with which a part begins, by its reading where it is in Han."""
        return (find_latin_reading(key) if is_unspaced(key) else key)[:1]

    # Names in Han and kana

    def _unspaced(self, mark: Mark) -> str | None:
        name = mark.folded
        stripped = name.strip()
        if stripped != name or not stripped:
            return None
        parts = self._places(name, is_full=mark.span.label == IDENTIFIER)
        rank = None
        if len(parts) == 2:
            keys = {role: part_key(name[start:stop]) for start, stop, role in parts}
            rank = self.people.find_person(keys.get(GIVEN, ""), keys.get(SURNAME, ""))
        new, at = "", 0
        for start, stop, role in parts:
            text = name[start:stop]
            part = self._part(text, role, mark, rank)
            if part is None:
                return None
            new += name[at:start] + _in_kana_of(mark.text[start:stop], text, part)
            at = stop
        new += name[at:]
        return None if self.people.holds_true_part(re.sub("[ ・=]", "", new)) else new

    def _places(self, name: str, *, is_full: bool) -> list[tuple[int, int, Role | str]]:
        """Return where the parts of a name stand, each with its role; "" for one that is alone."""
        end = len(name)
        for sign, roles in ((" +", (SURNAME, GIVEN)), ("[・=]", (GIVEN, SURNAME))):
            if found := re.fullmatch(f"(.+?)(?:{sign})(.+)", name):
                return [(*found.span(1), roles[0]), (*found.span(2), roles[1])]
        if self.people.find_part(part_key(name)):
            return [(0, end, "")]
        n_surname = self.people.find_surname_length(name)
        if n_surname is None:
            # A surname of three characters is no full name.
            is_split = end > (2 if is_full else 3)
            n_surname = len(split_japanese_name(name)[1]) if is_split else 0
        if not 0 < n_surname < end:
            return [(0, end, "")]
        return [(0, n_surname, SURNAME), (n_surname, end, GIVEN)]

    # Parts

    def _part(self, text: str, role: str, mark: Mark, rank: int | None) -> NamePart | None:
        """Return the surrogate of a part, in all its writings."""
        key, people = part_key(text), self.people
        if not role:
            is_titled = _TITLE.search(mark.text_before) or _TITLE_AFTER.match(mark.text_after)
            known = people.find_part(key, preferred_role=SURNAME if is_titled else "")
            role = known.role if known else GIVEN if _is_given(text) else SURNAME
        else:
            known = people.find_part(key, GIVEN if role == GIVEN else SURNAME)
        if role == SURNAME:
            return self._draw(known.key if known else key, SURNAME, "")
        if rank is not None:
            own = [one for one in people.parts.get(key, ()) if (one.rank, one.role) == (rank, role)]
            known = own[0] if own else known
        if known:
            return self._draw(known.key, GIVEN, people.persons[known.rank].sex)
        sex = people.lone_sexes.get(key) or sex_of_given_name(fold_characters(text)) or people.sex
        return self._draw(key, GIVEN, sex)

    def _draw(self, key: str, role: Role, sex: str) -> NamePart | None:
        """Return the first drawn part that is no true part; None where none of them is free."""
        place = key, role, sex
        if place not in self._drawn:
            self._drawn[place] = self._first_free(*place)
        return self._drawn[place]

    def _first_free(self, key: str, role: Role, sex: str) -> NamePart | None:
        is_japanese = is_unspaced(key)
        sex = sex or "MF"[self.key.draw("sex", self.patient) % 2]
        for attempt in range(_N_TRIES):
            number = self.key.draw("name", self.patient, key, attempt)
            locale = JAPANESE if is_japanese else ENGLISH
            name = name_of(number, "", sex=sex, birth_year=1960, locale=locale)
            part = name.surname if role == SURNAME else name.given
            forms = filter(None, (part.written, part.kana, part.romaji))
            if not any(self.people.is_blocked(form) for form in forms):
                return part
        return None


def _in_case_of(text: str, part: str) -> str:
    """Return a part of a surrogate in capitals or small letters where the true part is."""
    if text.isupper() and len(text) > 1:
        return part.upper()
    return part.lower() if text.islower() else part


def _in_kana_of(written: str, text: str, part: NamePart) -> str:
    """Return a part in the kana in which a true part is written; in Han where that is in Han."""
    if not _KANA.fullmatch(text) or not part.kana:
        return part.written
    if _HALF.fullmatch(written):
        return half_width(part.kana)
    return part.kana.translate(_TO_HIRAGANA) if _HIRAGANA.fullmatch(text) else part.kana


def _is_given(name: str) -> bool:
    """Whether a name is a given name alone, as a list has it; not one that is a surname too."""
    from faker.providers.person.en_US import Provider

    if _KANA.fullmatch(name.replace("・", "")) or not sex_of_given_name(name):
        return False
    return name not in JAPANESE_SURNAMES and name.title() not in Provider.last_names
