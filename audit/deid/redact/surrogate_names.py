"""Surrogates of names: each part of a true name has its own surrogate, wherever the part stands.

Input: a mark, the persons of the patient's notes. Output: a name in the form of the mark, or None
if no surrogate is left. The surrogate of a part depends on the key of the release, the patient, the
part and the sex, so that persons who share a surname share its surrogate. A drawn surrogate that
contains a true part of the patient's notes, or stands within one, is rejected and drawn again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from audit.deid.redact.keys import Key
from audit.deid.redact.kinds import Mark, kind_at
from audit.deid.redact.persons import (
    GIVEN,
    SURNAME,
    NameWord,
    People,
    Role,
    find_latin_reading,
    part_key,
    split_spaced_name,
)
from audit.deid.redact.sexes import sex_of_given_name
from audit.names.people import ENGLISH, JAPANESE, NamePart, half_width, name_of
from audit.notes.mention_words import JAPANESE_SURNAMES
from audit.notes.mentions_ja import split_japanese_name
from audit.notes.patterns import HIRA, KATA, fold_characters
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER
from audit.text import is_unspaced

_N_TRIES = 64
"""The most draws for a part. A note rarely has more than 20 true parts, of which a draw hits one in
at most one case of five; half as many draws would suffice, twice as many would change nothing."""
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
    """Draws surrogates for the names in the notes of a patient."""

    key: Key
    patient: tuple[int, str]
    people: People
    _surrogates: dict[tuple[str, Role, str], NamePart | None] = field(default_factory=dict)

    def knows(self, mark: Mark) -> bool:
        """Whether a mark consists of parts of names that the notes contain in full."""
        if mark.span.label not in (IDENTIFIER, QUASI_IDENTIFIER):
            return False
        if mark.span.kind not in ("", "name"):
            return False
        if mark.folded.isupper() and _LETTERS.fullmatch(mark.folded):
            letters = [char.casefold() for char in mark.folded if char.isalpha()]
            if self._find_owner(letters) is not None and kind_at(mark) in ("name", "other"):
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
        """Return the keys of the parts of a name, without initials and titles."""
        if not is_unspaced(name):
            words = [word for word in split_spaced_name(name) if word.role != "affix"]
            return [word.key for word in words if not word.is_initial]
        if (n_surname := self.people.find_surname_length(name)) is not None:
            return [part_key(name[:n_surname]), part_key(name[n_surname:])]
        return [part_key(part) for part in re.split("[ ・=]+", name) if part]

    def draw_name(self, mark: Mark) -> str | None:
        """Return the surrogate of a name; None if one of its parts has none."""
        if is_unspaced(mark.folded):
            return self._draw_unspaced(mark)
        return self._draw_initials(mark) or self._draw_spaced(mark)

    # Names in scripts with spaces

    def _draw_spaced(self, mark: Mark) -> str | None:
        name = mark.folded
        words = split_spaced_name(name)
        name_words = [word for word in words if word.role != "affix"]
        rank = self._find_rank(name_words)
        if rank is None and all(self.people.find_part(word.key) for word in name_words):
            # Several parts have one role, as two surnames do.
            words = tuple(word._replace(role=self._only_role(word)) for word in words)
        new_name, position = "", 0
        for word in words:
            new_name += name[position : word.start]
            position = word.stop
            if word.role == "affix":  # a title, or a particle before a surname
                position += len(name[position:]) - len(name[position:].lstrip())
                continue
            part = self._draw_word(word, mark, name_words, rank)
            if part is None:
                return None
            new_name += part
        rest = name[position:]
        return (
            new_name.rstrip(" ,")
            if not rest and new_name != new_name.rstrip(" ,")
            else new_name + rest
        )

    def _only_role(self, word: NameWord) -> Role | Literal["", "affix"]:
        """Return the only role that a word has among the persons, if there is one; else its own."""
        roles = {part.role for part in self.people.parts.get(word.key, ())}
        return roles.pop() if len(roles) == 1 and word.role else word.role

    def _find_rank(self, words: list[NameWord]) -> int | None:
        """Return the rank of the person with this name of several words; None if there is none."""
        pairs = (
            self.people.find_person(given_name.key, surname.key)
            for given_name in words
            for surname in words
            if given_name.role == GIVEN and surname.role == SURNAME and not surname.is_initial
        )
        return next((rank for rank in pairs if rank is not None), None)

    def _draw_word(
        self, word: NameWord, mark: Mark, words: list[NameWord], rank: int | None
    ) -> str | None:
        if word.is_initial:
            return self._draw_initial(word, rank) + word.text[1:]
        part = self._surrogate_of_part(word.text, word.role, mark, rank)
        if part is None:
            return None
        return _in_case_of(word.text, part.romaji if part.kana else part.native)

    def _draw_initial(self, word: NameWord, rank: int | None) -> str:
        """Return the first letter of the surrogate of a person's name; else a drawn letter."""
        if rank is not None:
            person = self.people.persons[rank]
            keys = person.surname if word.role == SURNAME else person.given_names
            role: Role = SURNAME if word.role == SURNAME else GIVEN
            for key in keys:
                if key[:1] == word.key and (part := self._draw(key, role, person.sex)):
                    return part.romaji[0].upper()
        return self._draw_letter(word.key)

    def _draw_letter(self, letter: str) -> str:
        return chr(65 + self.key.draw("initial", letter, self.patient) % 26)

    def _draw_initials(self, mark: Mark) -> str | None:
        """Return the initials of a person's surrogate for a person's initials; else None."""
        name = mark.folded
        places = [place for place, char in enumerate(name) if char.isalpha()]
        is_pointed = "." in name
        if not _LETTERS.fullmatch(name) or not name.isupper():
            return None
        if not is_pointed and self.people.find_part(part_key(name)):
            return None
        owner = self._find_owner([name[place].casefold() for place in places])
        if owner is None and not is_pointed:
            return None
        if owner is None:
            new_letters = [self._draw_letter(name[place].casefold()) for place in places]
        else:
            surrogates = [self._draw(*part) for part in owner]
            new_letters = [part.romaji[0].upper() for part in surrogates if part]
        if len(new_letters) < len(places):
            return None
        letters = dict(zip(places, new_letters, strict=True))
        return "".join(letters.get(place, char) for place, char in enumerate(name))

    def _find_owner(self, letters: Sequence[str]) -> list[tuple[str, Role, str]] | None:
        """Return the parts of the first person with these initials, in the order of the letters."""
        for person in self.people.persons:
            given_parts = [(key, GIVEN, person.sex) for key in person.given_names]
            surname = (person.surname[0], SURNAME, person.sex)
            for parts in ([*given_parts, surname], [surname, *given_parts]):
                for chosen_parts in (parts, [parts[0], parts[-1]]):
                    if [self._first_letter(key) for key, *_ in chosen_parts] == list(letters):
                        return chosen_parts
        return None

    def _first_letter(self, key: str) -> str:
        """Return the first Latin letter of a part, or of its reading if it is in Han."""
        return (find_latin_reading(key) if is_unspaced(key) else key)[:1]

    # Names in Han and kana

    def _draw_unspaced(self, mark: Mark) -> str | None:
        name = mark.folded
        stripped = name.strip()
        if stripped != name or not stripped:
            return None
        parts = self._part_places(name, is_full=mark.span.label == IDENTIFIER)
        rank = None
        if len(parts) == 2:
            keys = {role: part_key(name[start:stop]) for start, stop, role in parts}
            rank = self.people.find_person(keys.get(GIVEN, ""), keys.get(SURNAME, ""))
        new_name, position = "", 0
        for start, stop, role in parts:
            text = name[start:stop]
            part = self._surrogate_of_part(text, role, mark, rank)
            if part is None:
                return None
            new_name += name[position:start] + _in_kana_of(mark.text[start:stop], text, part)
            position = stop
        new_name += name[position:]
        return None if self.people.holds_true_part(re.sub("[ ・=]", "", new_name)) else new_name

    def _part_places(self, name: str, *, is_full: bool) -> list[tuple[int, int, Role | str]]:
        """Return start, end and role of the parts of a name; the role of a lone part is ""."""
        end = len(name)
        for sign, roles in ((" +", (SURNAME, GIVEN)), ("[・=]", (GIVEN, SURNAME))):
            if match := re.fullmatch(f"(.+?)(?:{sign})(.+)", name):
                return [(*match.span(1), roles[0]), (*match.span(2), roles[1])]
        if self.people.find_part(part_key(name)):
            return [(0, end, "")]
        n_surname = self.people.find_surname_length(name)
        if n_surname is None:
            # Three characters may be a surname alone.
            is_split = end > (2 if is_full else 3)
            n_surname = len(split_japanese_name(name)[1]) if is_split else 0
        if not 0 < n_surname < end:
            return [(0, end, "")]
        return [(0, n_surname, SURNAME), (n_surname, end, GIVEN)]

    # Parts

    def _surrogate_of_part(
        self, text: str, role: str, mark: Mark, rank: int | None
    ) -> NamePart | None:
        """Return the surrogate of a part, with all its spellings; None if none is free."""
        key, people = part_key(text), self.people
        if not role:
            is_titled = _TITLE.search(mark.text_before) or _TITLE_AFTER.match(mark.text_after)
            name_part = people.find_part(key, preferred_role=SURNAME if is_titled else "")
            role = name_part.role if name_part else GIVEN if _is_given_name(text) else SURNAME
        else:
            name_part = people.find_part(key, GIVEN if role == GIVEN else SURNAME)
        if role == SURNAME:
            return self._draw(name_part.key if name_part else key, SURNAME, "")
        if rank is not None:
            parts_of_person = [
                person_part
                for person_part in people.parts.get(key, ())
                if (person_part.rank, person_part.role) == (rank, role)
            ]
            name_part = parts_of_person[0] if parts_of_person else name_part
        if name_part:
            return self._draw(name_part.key, GIVEN, people.persons[name_part.rank].sex)
        sex = people.lone_sexes.get(key) or sex_of_given_name(fold_characters(text)) or people.sex
        return self._draw(key, GIVEN, sex)

    def _draw(self, key: str, role: Role, sex: str) -> NamePart | None:
        """Return the first drawn part that is not blocked by a true part; None if all are."""
        place = key, role, sex
        if place not in self._surrogates:
            self._surrogates[place] = self._first_free(*place)
        return self._surrogates[place]

    def _first_free(self, key: str, role: Role, sex: str) -> NamePart | None:
        is_japanese = is_unspaced(key)
        sex = sex or "MF"[self.key.draw("sex", self.patient) % 2]
        for attempt in range(_N_TRIES):
            draw = self.key.draw("name", self.patient, key, attempt)
            locale = JAPANESE if is_japanese else ENGLISH
            name = name_of(draw, "", sex=sex, birth_year=1960, locale=locale)
            part = name.surname if role == SURNAME else name.given_name
            forms = filter(None, (part.native, part.kana, part.romaji))
            if not any(self.people.is_blocked(form) for form in forms):
                return part
        return None


def _in_case_of(text: str, part: str) -> str:
    """Return a part of a surrogate in upper or lower case if the true part is."""
    if text.isupper() and len(text) > 1:
        return part.upper()
    return part.lower() if text.islower() else part


def _in_kana_of(original: str, text: str, part: NamePart) -> str:
    """Return a part in the kana of the true part, or in Han if the true part is not in kana."""
    if not _KANA.fullmatch(text) or not part.kana:
        return part.native
    if _HALF.fullmatch(original):
        return half_width(part.kana)
    return part.kana.translate(_TO_HIRAGANA) if _HIRAGANA.fullmatch(text) else part.kana


def _is_given_name(name: str) -> bool:
    """Whether a name is in a list of given names, and in no list of surnames."""
    from faker.providers.person.en_US import Provider

    if _KANA.fullmatch(name.replace("・", "")) or not sex_of_given_name(name):
        return False
    return name not in JAPANESE_SURNAMES and name.title() not in Provider.last_names
