"""Redaction: the note with its spans replaced. What is released is always source + replacements.

Spans that overlap are replaced as one stretch, a mark. A placeholder says in brackets what stood
there; a surrogate is drawn from the key of the release, the patient and the text, where a rule or a
cue in the note tells what stood there; a mask is a square for each character.
"""

from __future__ import annotations

import re
import string
from calendar import monthrange
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, model_validator

from audit.deid.keys import Key
from audit.deid.kinds import (
    PARTS,
    Kind,
    Mark,
    fits_name,
    group_spans,
    is_named,
    join_marks,
    kind_at,
)
from audit.deid.persons import Names, read_names, read_people
from audit.deid.rules import RuleTagger, drop_clinical_values
from audit.deid.surrogate_names import NameSurrogates
from audit.notes.dates import ERAS, MONTHS, find_era_year
from audit.notes.patterns import fold_characters, read_pattern_table
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
    Span,
    TaggedDocument,
)
from audit.task import MAX_SEED, Record
from audit.text import is_unspaced

_PARTS, _TABLE = read_pattern_table(__file__, **PARTS)
_RE = {name: re.compile(pattern) for name, pattern in _PARTS.items()}
_FORMS = tuple(re.compile(pattern) for _, pattern in _TABLE["written dates"])

PLACEHOLDER, SURROGATE, MASK = MODES = ("placeholder", "surrogate", "mask")
MASK_CHAR = "■"
VERSION = 6
"""Of what takes a mark's place: goes up with every change of a released text."""

_WORDS = {
    "name": ("氏名", "NAME"),
    "date": ("日付", "DATE"),
    "time": ("時刻", "TIME"),
    "age": ("年齢", "AGE"),
    "sex": ("性別", "SEX"),
    "place": ("場所", "PLACE"),
    "id": ("番号", "ID"),
    "contact": ("連絡先", "CONTACT"),
    "other": ("その他", "OTHER"),
}
"""The sorts of what stood at a mark, and what placeholders call them."""
SORTS = tuple(sort for sort in _WORDS if sort != "other")
_SORT_OF_LABEL = {
    IDENTIFIER: "name",
    PERSONAL_ID_CODE: "id",
    LINKAGE_CODE: "id",
    CONTACT: "contact",
}
_SORTS: dict[Kind, str] = {
    "year": "date",
    "age_above_89": "age",
    "state": "place",
    "organisation": "place",
    "postcode": "place",
    "profession": "other",
}
"""The sort of a kind that is called otherwise."""
_GROUPS = {
    "name": {"names"},
    "date": {"dates"},
    "age": {"dates"},
    "sex": {"dates"},
    "id": {"numbers"},
    "place": {"hospitals", "contact"},
    "contact": {"contact"},
}
"""The groups of rules that tell a sort."""

_ENGLISH, _NOT_ENGLISH = (set(_PARTS[name].split("|")) for name in ("ENGLISH", "NOT_ENGLISH"))
_MIN_FOREIGN = 3


def language_of(text: str) -> str:
    """Return "ja" or "en", in which language a note is written; "" where it is in neither.

    Kana or Chinese characters are Japanese; Latin letters are English but for those texts in which
    small words of other languages are more than those of English.
    """
    if _RE["JAPANESE"].search(text):
        return "ja"
    words = [word.casefold() for word in _RE["WORD"].findall(text)]
    n_english, n_other = (sum(w in known for w in words) for known in (_ENGLISH, _NOT_ENGLISH))
    n_latin = sum(word[0] < "\u0250" for word in words)
    is_foreign = 2 * n_latin < len(words) or n_other >= max(_MIN_FOREIGN, n_english + 1)
    return "" if is_foreign else "en"


@dataclass(frozen=True)
class Replacement:
    """A stretch of the source, `start` to `end`, and what stands in its place.

    It begins at `new_start` of the released text; `labels` are those of all spans that were joined
    here, `label` the one that names it.
    """

    start: int
    end: int
    label: str
    labels: tuple[str, ...]
    text: str
    new_start: int

    @property
    def new_end(self) -> int:
        """Where the replacement ends in the released text."""
        return self.new_start + len(self.text)


@dataclass(frozen=True)
class Redacted:
    """A note as it may be released, and what was replaced in it.

    `language` is that of the note, as `language_of` says it.
    """

    text: str
    replacements: tuple[Replacement, ...]
    language: str


class Release(Record):
    """How spans are replaced, and from which key surrogates are drawn: a new one unless it is said.

    Placeholders are in the language of the note, in English where it is in neither. The key is
    written with no record. A seed is for tests: it is public, and so is the key that it gives.
    """

    model_config = ConfigDict(
        extra="ignore",  # older ones have a `language` of placeholders
        arbitrary_types_allowed=True,
    )

    mode: str = Field(default=PLACEHOLDER, pattern=f"^({'|'.join(MODES)})$")
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    is_linked: bool = False
    """Whether the key is that of another release too, as somebody asked."""
    key: Key | None = Field(default=None, exclude=True, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _draw_key(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        needs_key = fields.get("mode") == SURROGATE and fields.get("seed") is None
        return {**fields, "key": (fields.get("key") or Key.new()) if needs_key else None}

    @property
    def is_reversible(self) -> bool:
        """Whether anybody with the program can compute what stood there; so are older releases."""
        return self.mode == SURROGATE and self.seed is not None

    def described(self) -> dict[str, Any]:
        """Return what the description of a release says of its surrogates."""
        if self.mode != SURROGATE:
            return {}
        origin = "a public seed" if self.is_reversible else "a secret key"
        seed = {"seed": self.seed} if self.is_reversible else {}
        return {"surrogates": {"drawn_from": origin, "reversible": self.is_reversible} | seed}

    def decisive(self) -> dict[str, Any]:
        """Return what decides the released text, but for a key that no other release has.

        There is a seed only where there are surrogates.
        """
        seed = self.seed if self.mode == SURROGATE else None
        linked = {"key": self.key.name} if self.key and self.is_linked else {}
        return {"mode": self.mode, "seed": seed, "version": VERSION} | linked

    def of(self, document: TaggedDocument, *, names: Names | None = None) -> Redacted:
        """Return a note with every character of every span replaced.

        `names` is what the notes of the patient say of names; None where this note is all that is
        known of the patient. A mask keeps line ends, so that offsets stay.
        """
        text, own = document.text, language_of(document.text)
        labels, marks = [], []
        for mark, spans in join_marks(document):
            labels.append(tuple(sorted({span.label for span in spans})))
            marks.append(mark)
        if self.mode == MASK:
            new = [re.sub(r"[^\r\n]", MASK_CHAR, mark.text) for mark in marks]
        elif self.mode == SURROGATE and marks:
            key = self.key or Key.of_seed(self.seed or 0)
            told = read_names(document)
            people = read_people(told if names is None else names.add_missing(told.mentions))
            surrogates = NameSurrogates(key, document.patient, people)
            new = _Surrogates(key, document.patient, surrogates).of(text, marks, language=own)
        else:
            new = [_placeholder(mark, own) for mark in marks]
        n_longer, replacements = 0, []
        for mark, all_labels, value in zip(marks, labels, new, strict=True):
            span, at = mark.span, mark.span.start + n_longer
            one = Replacement(span.start, span.end, span.label, all_labels, value, at)
            replacements.append(one)
            n_longer += len(value) - span.n_chars
        released = _changed(text, ((one.start, one.end, one.text) for one in replacements))
        return Redacted(released, tuple(replacements), own)


def is_placeholder(text: str) -> bool:
    """Whether a replacement is a placeholder, which says itself what stood there."""
    return text[:1] + text[-1:] in ("【】", "[]")


def _changed(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with stretches (start, end) replaced, which are in order."""
    pieces, at = [], 0
    for start, end, new in changes:
        pieces += [text[at:start], new]
        at = end
    return "".join([*pieces, text[at:]])


def n_marks(document: TaggedDocument) -> int:
    """Return how many stretches of a note are replaced."""
    return len(group_spans(document))


def kinds_of(document: TaggedDocument) -> list[tuple[Span, str]]:
    """Return the stretches of a note that are replaced, and what stands there: one of `SORTS`.

    "other" is what nothing tells, "" what has a label that is unknown here.
    """
    return [(mark.span, _sort(mark)) for mark, _ in join_marks(document)]


def _placeholder(mark: Mark, language: str) -> str:
    """Return what stands for a mark: 【氏名】 or [NAME]; of a label unknown here the label."""
    label = mark.span.label
    japanese, english = _WORDS.get(_sort(mark), (label, label.upper()))
    return f"【{japanese}】" if language == "ja" else f"[{english}]"


def _sort(mark: Mark) -> str:
    """Return what stood there, as placeholders call it; "" for a label that is unknown here."""
    label = mark.span.label
    if label != QUASI_IDENTIFIER:
        return _SORT_OF_LABEL.get(label, "")
    kind = kind_at(mark)
    return _SORTS.get(kind, kind)


class _Date(NamedTuple):
    """A date as it is written, whole or in part, with its western year.

    `match` is its place in the folded mark; `roles` say what each of its groups is, those that are
    numbers without words too.
    """

    match: re.Match[str]
    roles: Mapping[str, str]
    year: int | None
    month: int | None
    day: int | None


def _dates(folded: str, *, is_japanese: bool) -> list[_Date]:
    """Return the dates of which a mark consists; none where anything else stands in it."""
    found: list[_Date] = []
    at = 0
    while (at := _RE["BETWEEN"].match(folded, at).end()) < len(folded):  # type: ignore[union-attr]
        matches = [match for form in _FORMS if (match := form.match(folded, at))]
        dates = [one for match in matches if (one := _read(match, is_japanese=is_japanese))]
        if not dates:
            return []
        found.append(max(dates, key=lambda one: one.match.end()))
        at = found[-1].match.end()
    return found


def _read(match: re.Match[str], *, is_japanese: bool) -> _Date | None:
    """Return a date, of numbers in the first order in which they are one.

    In a Japanese note three short numbers begin with the year, otherwise with month or day.
    """
    given = {name: text for name, text in match.groupdict().items() if text}
    is_short = len(given.get("n3", "2024")) < 4
    is_year_first = is_short and (is_japanese or int(given["n1"]) > 31)
    for order in ("ymd",) if is_year_first else ("mdy", "dmy"):
        numbers = dict(zip(("n1", "n2", "n3"), order, strict=True))
        roles = {name: numbers.get(name, name) for name in given}
        with suppress(ValueError):
            parts = {roles[name]: text for name, text in given.items()}
            return _Date(match, roles, *_year_month_day(parts))
    return None


_CENTURY = 69  # two digits from here on are of the 1900s, as POSIX has it


def _year_month_day(parts: Mapping[str, str]) -> tuple[int | None, int | None, int | None]:
    """Return what parts of a date say; ValueError where there is no such day."""
    numbers = {
        role: int(parts[role].replace("元", "1")) for role in ("y", "m", "d", "ey") if role in parts
    }
    year, month, day = map(numbers.get, "ymd")
    if year is not None and year < 100:
        year += 1900 if year >= _CENTURY else 2000
    if "ey" in numbers:
        first = next(
            first for first, name, letter in ERAS if parts["era"] in (name, name[0], letter)
        )
        if not numbers["ey"] or year not in (None, first.year + numbers["ey"] - 1):
            raise ValueError("another year")
        year = first.year + numbers["ey"] - 1
    if "mn" in parts:
        month = 1 + [name[:3] for name in MONTHS].index(parts["mn"][:3].capitalize())
    date(2024 if year is None else year, 1 if month is None else month, 1 if day is None else day)
    return year, month, day


def _is_told(mark: Mark, kind: str, dates: Sequence[_Date]) -> bool:
    """Whether a cue in the note, or the form, says that a mark is of its kind."""
    folded, before = mark.folded, mark.text_before
    has_digit = any(char.isdigit() for char in folded)
    match kind:
        case "name":
            return fits_name(mark) and is_named(mark)
        case "id":
            return has_digit and bool(_RE["ID_BEFORE"].search(before))
        case "contact":
            return "@" in mark.text or bool(_RE["TELEPHONE"].fullmatch(folded))
        case "place":
            return before.endswith("〒") or bool(_RE["HOSPITAL"].search(folded))
        case "date":
            is_cued = _RE["DAY_AFTER"].match(mark.text_after) or _RE["DAY_BEFORE"].search(before)
            return bool(is_cued) or all(map(_is_told_date, dates))
    return kind == "age"


def _is_told_date(one: _Date) -> bool:
    """Whether the form tells that it is a date; 4-4-4 may be a dose."""
    has = one.year is not None, one.month is not None
    if _RE["DAY_WORD"].search(one.match[0]):
        return any(has)
    return all(has) and not re.fullmatch(r"[0-9]([-./][0-9])+", one.match[0])


_MAX_YEARS, _LEAST_WEEKS, _MOST_WEEKS = 4, 4, 48
_ADULT = range(20, 90)
_N_TRIES = 9
_POOLS = (string.digits, string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True)
class _Surrogates:
    """Invents what stands in the notes of a patient; all of it follows from key and notes."""

    key: Key
    patient: tuple[int, str]
    names: NameSurrogates

    def of(self, text: str, marks: Sequence[Mark], *, language: str) -> list[str]:
        """Return the texts that take the places of a note's marks."""
        found = list(RuleTagger().find_spans(fold_characters(text)))
        personal = set(drop_clinical_values(text, [mark.span for mark in marks]))
        # Dates move by whole weeks into the past, never whole years: 1 to 4 years, 4 to 48 weeks.
        number, weeks = divmod(self.key.draw("days", self.patient), _MOST_WEEKS - _LEAST_WEEKS + 1)
        by = timedelta(days=-7 * ((1 + number % _MAX_YEARS) * 52 + _LEAST_WEEKS + weeks))
        stood = []
        for mark in marks:
            is_known = self.names.knows(mark)
            kind, span = "name" if is_known else _sort(mark), mark.span
            dates = _dates(mark.folded, is_japanese=language == "ja") if kind == "date" else []
            groups = {group for group, one in found if 2 * span.overlap(one.span) > span.n_chars}
            is_told = not groups.isdisjoint(_GROUPS.get(kind, ())) or _is_told(mark, kind, dates)
            is_told = (is_told or is_known) and span in personal
            stood.append((mark, kind if is_told else "", dates if is_told else []))
        days = (one for *_, dates in stood for one in dates)
        mover = _Mover(by, days, language=language)
        new = []
        for mark, kind, dates in stood:
            value = mover.moved(mark, dates) if kind == "date" else self._told(mark, kind)
            new.append(_placeholder(mark, language) if value in (None, mark.text) else str(value))
        return new

    def _told(self, mark: Mark, kind: str) -> str | None:
        folded = mark.folded
        if not kind:
            return None
        if kind == "name":
            return self.names.of(mark)
        if kind == "age":
            return self._age(mark)
        if "@" in folded:
            return f"mail{self.key.draw('mail', folded, self.patient) % 10**6}@example.org"
        if kind in ("id", "contact") or _RE["IS_POSTCODE"].fullmatch(folded):
            return self._code(mark) if any(c.isdigit() for c in folded) else None
        if _RE["IS_HOSPITAL"].search(folded):
            from audit.names.people import value_of

            locale = "ja_JP" if is_unspaced(folded) else "en_US"
            draws = (self.key.draw("hospital", folded, self.patient, n) for n in range(_N_TRIES))
            return _other(folded, (value_of("hospital", draw, locale=locale) for draw in draws))
        return None

    def _code(self, mark: Mark) -> str | None:
        """Return digits for digits, of the same width, and letters for letters.

        Words that say what the number is stay ("ext."); None where anything else would.
        """
        changes = []
        for word in re.finditer(r"\S+", mark.folded):
            is_number = any(char.isdigit() for char in word[0])
            for run in re.finditer(r"[^\W\d_]+|\d", word[0]):
                if not is_number and _RE["CODE_WORD"].fullmatch(run[0]):
                    continue
                if not run[0].isascii():
                    if _RE["CODE_WORD"].fullmatch(run[0]):
                        continue
                    return None
                for place in range(word.start() + run.start(), word.start() + run.end()):
                    char = mark.folded[place]
                    if (place, char) != (0, "0"):  # a telephone number stays one
                        pool = next(pool for pool in _POOLS if char in pool)
                        number = self.key.draw("code", mark.folded, place, self.patient)
                        changes.append((place, place + 1, pool[number % len(pool)]))
        return _rewritten(mark, changes)

    def _age(self, mark: Mark) -> str | None:
        """Return an adult's age in years, moved by at most three; None for any other age."""
        numbers = list(_RE["NUMBER"].finditer(mark.folded))
        is_years = _RE["IS_YEARS"].search(mark.folded + mark.text_after[:2])
        if not is_years or "代" in mark.folded or len(numbers) != 1:
            return None
        age = int(numbers[0][0])
        if age not in _ADULT:
            return None
        shift = (-3, -2, -1, 1, 2, 3)[self.key.draw("age", self.patient) % 6]
        new = age + shift if age + shift in _ADULT else age - shift
        return _rewritten(mark, [(*numbers[0].span(), str(new))])


def _other(than: str, values: Iterable[str]) -> str | None:
    return next((value for value in values if value != than), None)


def _rewritten(mark: Mark, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return a mark with stretches replaced, in wide characters where such stood there."""
    wide = {code: code + 0xFEE0 for code in range(ord("!"), ord("~") + 1)}
    return _changed(
        mark.text,
        (
            (a, b, new.translate(wide) if mark.text[a:b] != mark.folded[a:b] else new)
            for a, b, new in sorted(changes)
        ),
    )


class _Mover:
    """Moves the dates of a note; `anchor` is the last day that was told.

    A time of day that stands in the mark of a date becomes its placeholder.
    """

    def __init__(self, by: timedelta, dates: Iterable[_Date], *, language: str) -> None:
        self._by = by
        japanese, english = _WORDS["time"]
        self._time = f"【{japanese}】" if language == "ja" else f"[{english}]"
        self._whole = [
            date(one.year, one.month, one.day)
            for one in dates
            if one.year and one.month and one.day
        ]
        self._anchor = next(iter(self._whole), None)

    def moved(self, mark: Mark, dates: Sequence[_Date]) -> str | None:
        """Return a mark with its dates moved; None for one that cannot be.

        That is one without dates, or which a word ties to another year or month.
        """
        is_tied = _RE["RELATIVE"].search(mark.text_before[-3:]) or _RE["RELATIVE"].search(mark.text)
        places = [one.match.span() for one in dates]
        changes = [
            (*clock.span(), self._time)
            for clock in _RE["CLOCK"].finditer(mark.folded)
            if not any(start < clock.end() and clock.start() < end for start, end in places)
        ]
        for one in dates:
            day = self.day_of(one)
            if day is None:
                return None
            self._anchor = day if one.day else self._anchor
            roles = [pair for pair in one.roles.items() if pair[1] not in ("s", "dot")]
            try:
                changes += [
                    (*one.match.span(group), _value(role, one, one.match[group], day + self._by))
                    for group, role in roles
                ]
            except (OverflowError, ValueError):  # beyond the calendar, or the eras
                return None
        return _rewritten(mark, changes) if dates and not is_tied else None

    def day_of(self, one: _Date) -> date | None:
        """Return a date; of one without a year that next to the anchor.

        A month or a year stands for a whole date in it, if the note has one; else for its middle.
        """
        day = one.day or 15
        if one.year is not None:
            middle = date(one.year, one.month or 7, day if one.month else 2)
            inside = (
                found
                for found in self._whole
                if found.year == one.year and one.month in (None, found.month) and one.day is None
            )
            return next(inside, middle)
        if one.month is None and self._anchor is None:
            return None
        near = self._anchor or _DEFAULT_DAY
        months = (divmod(near.year * 12 + near.month - 1 + k, 12) for k in range(-7, 8))
        days = [
            date(year, month + 1, day)
            for year, month in months
            if one.month in (None, month + 1)
            and 1 <= year <= 9999
            and day <= monthrange(year, month + 1)[1]
        ]
        return min(days, key=lambda found: (abs((found - near).days), found), default=None)


_DEFAULT_DAY = date(2022, 7, 2)


def _value(role: str, one: _Date, old: str, day: date) -> str:
    """Return the new text of a part of a date; ValueError where an era has none."""
    if role == "mn":
        return _month_name(old, day.month, has_dot=bool(one.match["dot"]))
    if role == "y":
        return f"{day.year:04d}"[-len(old) :]
    if role in ("era", "ey"):
        name, letter, year = find_era_year(day)
        if role == "era":
            return letter if old.isascii() else name[: len(old)]
        return (
            "元" if (old, year) == ("元", 1) else str(year).zfill(len(old) if old[0] == "0" else 1)
        )
    parts = [one.match[group] for group, of in one.roles.items() if of in ("m", "d")]
    has_zero = any(part[0] == "0" for part in parts) or "-" in one.match[0]
    is_padded = min(map(len, parts)) == 2 and (has_zero or one.match[0].isdigit())
    return str(day.month if role == "m" else day.day).zfill(1 + is_padded)


def _month_name(old: str, month: int, *, has_dot: bool) -> str:
    name = MONTHS[month - 1]
    is_short = len(old) <= 4 and (has_dot or old.lower() not in ("may", "june", "july"))
    new = name[:3] if is_short else name
    return new.upper() if old.isupper() else new.lower() if old.islower() else new
