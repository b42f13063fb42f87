"""Redaction: a note with its spans replaced. A released text is always source + replacements.

Spans that overlap are replaced as one stretch, called a mark. A placeholder names in brackets what
stood there. A surrogate is drawn from the key of the release, the patient and the text, if a rule
or a cue in the note shows what stood there. A mask has one square for each character.
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

from audit.deid.find.rules import RuleTagger, drop_clinical_values
from audit.deid.redact.keys import Key
from audit.deid.redact.kinds import (
    PARTS,
    Kind,
    Mark,
    fits_name,
    group_spans,
    is_named,
    join_marks,
    kind_at,
)
from audit.deid.redact.persons import Names, read_names, read_people
from audit.deid.redact.surrogate_names import NameSurrogates
from audit.notes.dates import ERAS, MONTHS, find_era_year
from audit.notes.language import language_of
from audit.notes.patterns import CompiledParts, fold_characters, read_pattern_table
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
_RE = CompiledParts(_PARTS)
_FORMS = tuple(re.compile(pattern) for _, pattern in _TABLE["written dates"])

PLACEHOLDER, SURROGATE, MASK = MODES = ("placeholder", "surrogate", "mask")
MASK_CHAR = "■"
VERSION = 6
"""The version of the replacements; it goes up with every change that alters a released text."""

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
"""The sorts of text that stand at marks, and what Japanese and English placeholders call them."""
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
"""The sort of each kind whose name differs from that of its sort."""
_GROUPS = {
    "name": {"names"},
    "date": {"dates"},
    "age": {"dates"},
    "sex": {"dates"},
    "id": {"numbers"},
    "place": {"hospitals", "contact"},
    "contact": {"contact"},
}
"""For each sort, the groups of rules whose spans confirm it."""


@dataclass(frozen=True)
class Replacement:
    """A stretch of the source, `start` to `end`, and the text that replaces it.

    The replacement begins at `new_start` of the released text. `labels` are those of all spans
    that were joined here; `label` is the one that names the mark.
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
    """A note as it may be released, and its replacements.

    `language` is the language of the note, as `language_of` returns it.
    """

    text: str
    replacements: tuple[Replacement, ...]
    language: str


class Release(Record):
    """How spans are replaced, and the key from which surrogates are drawn.

    A new key is drawn unless one is passed. No record contains the key. Placeholders are in the
    language of the note, or in English if the note is neither Japanese nor English. A seed is for
    tests: it is public, and so is the key that follows from it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    mode: str = Field(default=PLACEHOLDER, pattern=f"^({'|'.join(MODES)})$")
    seed: int | None = Field(default=None, ge=0, le=MAX_SEED)
    is_linked: bool = False
    """Whether somebody chose to share the key of another release."""
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
        """Whether anybody with the program can compute the original text."""
        return self.mode == SURROGATE and self.seed is not None

    def describe(self) -> dict[str, Any]:
        """Return how the surrogates were drawn, for the description of the release."""
        if self.mode != SURROGATE:
            return {}
        origin = "a public seed" if self.is_reversible else "a secret key"
        seed = {"seed": self.seed} if self.is_reversible else {}
        return {"surrogates": {"drawn_from": origin, "reversible": self.is_reversible} | seed}

    def decisive(self) -> dict[str, Any]:
        """Return the settings that decide the released text, without a key of its own.

        A key that is shared with another release is named. The seed is None without surrogates.
        """
        seed = self.seed if self.mode == SURROGATE else None
        linked = {"key": self.key.name} if self.key and self.is_linked else {}
        return {"mode": self.mode, "seed": seed, "version": VERSION} | linked

    def redact(self, document: TaggedDocument, *, names: Names | None = None) -> Redacted:
        """Return a note with every character of every span replaced.

        `names` are the names in all notes of the patient; None if only this note is known. A mask
        keeps line ends, so that offsets stay the same.
        """
        text, language = document.text, language_of(document.text)
        labels, marks = [], []
        for mark, spans in join_marks(document):
            labels.append(tuple(sorted({span.label for span in spans})))
            marks.append(mark)
        if self.mode == MASK:
            new_texts = [re.sub(r"[^\r\n]", MASK_CHAR, mark.text) for mark in marks]
        elif self.mode == SURROGATE and marks:
            key = self.key or Key.of_seed(self.seed or 0)
            note_names = read_names(document)
            people = read_people(
                note_names if names is None else names.add_missing(note_names.mentions)
            )
            surrogates = NameSurrogates(key, document.patient, people)
            new_texts = _Surrogates(key, document.patient, surrogates).draw_texts(
                text, marks, language=language
            )
        else:
            new_texts = [_placeholder(mark, language) for mark in marks]
        n_longer, replacements = 0, []
        for mark, mark_labels, new_text in zip(marks, labels, new_texts, strict=True):
            span, new_start = mark.span, mark.span.start + n_longer
            replacement = Replacement(
                span.start, span.end, span.label, mark_labels, new_text, new_start
            )
            replacements.append(replacement)
            n_longer += len(new_text) - span.n_chars
        released = _replace_stretches(
            text,
            (
                (replacement.start, replacement.end, replacement.text)
                for replacement in replacements
            ),
        )
        return Redacted(released, tuple(replacements), language)


def is_placeholder(text: str) -> bool:
    """Whether a replacement is a placeholder, which names what stood there."""
    return text[:1] + text[-1:] in ("【】", "[]")


def _replace_stretches(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return a text with its stretches replaced; changes are (start, end, text), in order."""
    pieces, position = [], 0
    for start, end, new_text in changes:
        pieces += [text[position:start], new_text]
        position = end
    return "".join([*pieces, text[position:]])


def n_marks(document: TaggedDocument) -> int:
    """Return how many stretches of a note are replaced."""
    return len(group_spans(document))


def kinds_of(document: TaggedDocument) -> list[tuple[Span, str]]:
    """Return the stretches of a note that are replaced, each with its sort: one of `SORTS`.

    The sort is "other" if neither form nor cues show one, and "" if the label is unknown here.
    """
    return [(mark.span, _sort_of(mark)) for mark, _ in join_marks(document)]


def _placeholder(mark: Mark, language: str) -> str:
    """Return the placeholder of a mark, 【氏名】 or [NAME]; an unknown label is used as it is."""
    label = mark.span.label
    japanese, english = _WORDS.get(_sort_of(mark), (label, label.upper()))
    return f"【{japanese}】" if language == "ja" else f"[{english}]"


def _sort_of(mark: Mark) -> str:
    """Return the sort of a mark, as placeholders call it; "" for a label that is unknown here."""
    label = mark.span.label
    if label != QUASI_IDENTIFIER:
        return _SORT_OF_LABEL.get(label, "")
    kind = kind_at(mark)
    return _SORTS.get(kind, kind)


class _Date(NamedTuple):
    """A full or partial date as it stands in a note, with its western year.

    `match` is its place in the folded mark. `roles` name the part of the date that each group of
    the match holds, also for numbers whose role no word shows.
    """

    match: re.Match[str]
    roles: Mapping[str, str]
    year: int | None
    month: int | None
    day: int | None


def _dates(folded: str, *, is_japanese: bool) -> list[_Date]:
    """Return the dates of which a mark consists; no dates if it contains anything else."""
    note_dates: list[_Date] = []
    position = 0
    while (position := _RE["BETWEEN"].match(folded, position).end()) < len(folded):  # type: ignore[union-attr]
        matches = [match for form in _FORMS if (match := form.match(folded, position))]
        readings = [
            reading for match in matches if (reading := _read_date(match, is_japanese=is_japanese))
        ]
        if not readings:
            return []
        note_dates.append(max(readings, key=lambda reading: reading.match.end()))
        position = note_dates[-1].match.end()
    return note_dates


def _read_date(match: re.Match[str], *, is_japanese: bool) -> _Date | None:
    """Return the date of a match; its numbers are read in the first order that gives a valid date.

    Three short numbers begin with the year in a Japanese note, otherwise with month or day.
    """
    groups = {name: text for name, text in match.groupdict().items() if text}
    is_short = len(groups.get("n3", "2024")) < 4
    is_year_first = is_short and (is_japanese or int(groups["n1"]) > 31)
    for order in ("ymd",) if is_year_first else ("mdy", "dmy"):
        number_roles = dict(zip(("n1", "n2", "n3"), order, strict=True))
        roles = {name: number_roles.get(name, name) for name in groups}
        with suppress(ValueError):
            parts = {roles[name]: text for name, text in groups.items()}
            return _Date(match, roles, *_year_month_day(parts))
    return None


_CENTURY = 69  # two-digit years from here on belong to the 1900s, as in POSIX


def _year_month_day(parts: Mapping[str, str]) -> tuple[int | None, int | None, int | None]:
    """Return year, month and day of the parts of a date; ValueError if there is no such day."""
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


def _is_kind_clear(mark: Mark, kind: str, dates: Sequence[_Date]) -> bool:
    """Whether the form of a mark, or a cue in the note, confirms its kind."""
    folded, text_before = mark.folded, mark.text_before
    has_digit = any(char.isdigit() for char in folded)
    match kind:
        case "name":
            return fits_name(mark) and is_named(mark)
        case "id":
            return has_digit and bool(_RE["ID_BEFORE"].search(text_before))
        case "contact":
            return "@" in mark.text or bool(_RE["TELEPHONE"].fullmatch(folded))
        case "place":
            return text_before.endswith("〒") or bool(_RE["HOSPITAL"].search(folded))
        case "date":
            is_cued = _RE["DAY_AFTER"].match(mark.text_after) or _RE["DAY_BEFORE"].search(
                text_before
            )
            return bool(is_cued) or all(map(_is_date_clear, dates))
    return kind == "age"


def _is_date_clear(note_date: _Date) -> bool:
    """Whether the form alone shows that this is a date; 4-4-4 may be a dose."""
    has_year_and_month = note_date.year is not None, note_date.month is not None
    if _RE["DAY_WORD"].search(note_date.match[0]):
        return any(has_year_and_month)
    return all(has_year_and_month) and not re.fullmatch(r"[0-9]([-./][0-9])+", note_date.match[0])


_MAX_YEARS, _LEAST_WEEKS, _MOST_WEEKS = 4, 4, 48
_ADULT = range(20, 90)
_N_TRIES = 9
_POOLS = (string.digits, string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True)
class _Surrogates:
    """Draws surrogates for the notes of a patient; key and notes determine all of them."""

    key: Key
    patient: tuple[int, str]
    names: NameSurrogates

    def draw_texts(self, text: str, marks: Sequence[Mark], *, language: str) -> list[str]:
        """Return the texts that replace the marks of a note."""
        rule_spans = list(RuleTagger().find_spans(fold_characters(text)))
        personal = set(drop_clinical_values(text, [mark.span for mark in marks]))
        # Dates move by whole weeks into the past, never whole years: 1 to 4 years, 4 to 48 weeks.
        number, weeks = divmod(self.key.draw("days", self.patient), _MOST_WEEKS - _LEAST_WEEKS + 1)
        shift = timedelta(days=-7 * ((1 + number % _MAX_YEARS) * 52 + _LEAST_WEEKS + weeks))
        mark_kinds = []
        for mark in marks:
            is_known = self.names.knows(mark)
            kind, span = "name" if is_known else _sort_of(mark), mark.span
            dates = _dates(mark.folded, is_japanese=language == "ja") if kind == "date" else []
            groups = {
                group
                for group, rule_span in rule_spans
                if 2 * span.overlap(rule_span.span) > span.n_chars
            }
            is_clear = not groups.isdisjoint(_GROUPS.get(kind, ())) or _is_kind_clear(
                mark, kind, dates
            )
            is_clear = (is_clear or is_known or bool(span.kind)) and span in personal
            mark_kinds.append((mark, kind if is_clear else "", dates if is_clear else []))
        note_dates = (note_date for *_, dates in mark_kinds for note_date in dates)
        mover = _Mover(shift, note_dates, language=language)
        new_texts = []
        for mark, kind, dates in mark_kinds:
            new_text = mover.move(mark, dates) if kind == "date" else self._draw_text(mark, kind)
            new_texts.append(
                _placeholder(mark, language) if new_text in (None, mark.text) else str(new_text)
            )
        return new_texts

    def _draw_text(self, mark: Mark, kind: str) -> str | None:
        folded = mark.folded
        if not kind:
            return None
        if kind == "name":
            return self.names.draw_name(mark)
        if kind == "age":
            return self._draw_age(mark)
        if "@" in folded:
            return f"mail{self.key.draw('mail', folded, self.patient) % 10**6}@example.org"
        if kind in ("id", "contact") or _RE["IS_POSTCODE"].fullmatch(folded):
            return self._draw_code(mark) if any(c.isdigit() for c in folded) else None
        if _RE["CARE"].search(folded):
            from audit.names.people import value_of

            locale = "ja_JP" if is_unspaced(folded) else "en_US"
            draws = (self.key.draw("hospital", folded, self.patient, n) for n in range(_N_TRIES))
            return _first_unlike(
                folded, (value_of("hospital", draw, locale=locale) for draw in draws)
            )
        return None

    def _draw_code(self, mark: Mark) -> str | None:
        """Return digits for digits, of the same width, and letters for letters.

        Words that name the number stay ("ext."). Return None if any other word would stay.
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
        return _rewrite_mark(mark, changes)

    def _draw_age(self, mark: Mark) -> str | None:
        """Return an adult's age in years, shifted by at most three; None for any other age."""
        numbers = list(_RE["NUMBER"].finditer(mark.folded))
        is_years = _RE["IS_YEARS"].search(mark.folded + mark.text_after[:2])
        if not is_years or "代" in mark.folded or len(numbers) != 1:
            return None
        age = int(numbers[0][0])
        if age not in _ADULT:
            return None
        shift = (-3, -2, -1, 1, 2, 3)[self.key.draw("age", self.patient) % 6]
        new_age = age + shift if age + shift in _ADULT else age - shift
        return _rewrite_mark(mark, [(*numbers[0].span(), str(new_age))])


def _first_unlike(text: str, candidates: Iterable[str]) -> str | None:
    return next((candidate for candidate in candidates if candidate != text), None)


def _rewrite_mark(mark: Mark, changes: Iterable[tuple[int, int, str]]) -> str:
    """Return a mark with stretches replaced, in full width where the mark is in full width."""
    wide = {code: code + 0xFEE0 for code in range(ord("!"), ord("~") + 1)}
    return _replace_stretches(
        mark.text,
        (
            (
                start,
                end,
                new_text.translate(wide)
                if mark.text[start:end] != mark.folded[start:end]
                else new_text,
            )
            for start, end, new_text in sorted(changes)
        ),
    )


class _Mover:
    """Moves the dates of a note; the anchor is the last date that had a day.

    A time of day inside the mark of a date becomes a placeholder.
    """

    def __init__(self, shift: timedelta, dates: Iterable[_Date], *, language: str) -> None:
        self._shift = shift
        japanese, english = _WORDS["time"]
        self._time = f"【{japanese}】" if language == "ja" else f"[{english}]"
        self._full_dates = [
            date(note_date.year, note_date.month, note_date.day)
            for note_date in dates
            if note_date.year and note_date.month and note_date.day
        ]
        self._anchor = next(iter(self._full_dates), None)

    def move(self, mark: Mark, dates: Sequence[_Date]) -> str | None:
        """Return a mark with its dates moved; None if they cannot be moved.

        A mark cannot be moved if it has no dates, or if a word ties it to another year or month.
        """
        is_tied = _RE["RELATIVE"].search(mark.text_before[-3:]) or _RE["RELATIVE"].search(mark.text)
        places = [note_date.match.span() for note_date in dates]
        changes = [
            (*clock.span(), self._time)
            for clock in _RE["CLOCK"].finditer(mark.folded)
            if not any(start < clock.end() and clock.start() < end for start, end in places)
        ]
        for note_date in dates:
            day = self.day_of(note_date)
            if day is None:
                return None
            self._anchor = day if note_date.day else self._anchor
            roles = [pair for pair in note_date.roles.items() if pair[1] not in ("s", "dot")]
            try:
                changes += [
                    (
                        *note_date.match.span(group),
                        _move_part(role, note_date, note_date.match[group], day + self._shift),
                    )
                    for group, role in roles
                ]
            except (OverflowError, ValueError):  # beyond the calendar, or the eras
                return None
        return _rewrite_mark(mark, changes) if dates and not is_tied else None

    def day_of(self, note_date: _Date) -> date | None:
        """Return the day that a date stands for; None if it cannot be placed.

        A date without a year is placed next to the anchor. A month or a year stands for a full
        date of the note in that period, or else for the middle of the period.
        """
        day = note_date.day or 15
        if note_date.year is not None:
            middle = date(note_date.year, note_date.month or 7, day if note_date.month else 2)
            dates_inside = (
                full_date
                for full_date in self._full_dates
                if full_date.year == note_date.year
                and note_date.month in (None, full_date.month)
                and note_date.day is None
            )
            return next(dates_inside, middle)
        if note_date.month is None and self._anchor is None:
            return None
        anchor = self._anchor or _DEFAULT_DAY
        months = (divmod(anchor.year * 12 + anchor.month - 1 + k, 12) for k in range(-7, 8))
        days = [
            date(year, month + 1, day)
            for year, month in months
            if note_date.month in (None, month + 1)
            and 1 <= year <= 9999
            and day <= monthrange(year, month + 1)[1]
        ]
        return min(days, key=lambda found: (abs((found - anchor).days), found), default=None)


_DEFAULT_DAY = date(2022, 7, 2)


def _move_part(role: str, note_date: _Date, old_text: str, day: date) -> str:
    """Return the new text of one part of a date; ValueError if no era includes the day."""
    if role == "mn":
        return _month_name(old_text, day.month, has_dot=bool(note_date.match["dot"]))
    if role == "y":
        return f"{day.year:04d}"[-len(old_text) :]
    if role in ("era", "ey"):
        name, letter, year = find_era_year(day)
        if role == "era":
            return letter if old_text.isascii() else name[: len(old_text)]
        return (
            "元"
            if (old_text, year) == ("元", 1)
            else str(year).zfill(len(old_text) if old_text[0] == "0" else 1)
        )
    parts = [
        note_date.match[group]
        for group, part_role in note_date.roles.items()
        if part_role in ("m", "d")
    ]
    has_zero = any(part[0] == "0" for part in parts) or "-" in note_date.match[0]
    is_padded = min(map(len, parts)) == 2 and (has_zero or note_date.match[0].isdigit())
    return str(day.month if role == "m" else day.day).zfill(1 + is_padded)


def _month_name(old_name: str, month: int, *, has_dot: bool) -> str:
    name = MONTHS[month - 1]
    is_short = len(old_name) <= 4 and (has_dot or old_name.lower() not in ("may", "june", "july"))
    new_name = name[:3] if is_short else name
    return (
        new_name.upper()
        if old_name.isupper()
        else new_name.lower()
        if old_name.islower()
        else new_name
    )
