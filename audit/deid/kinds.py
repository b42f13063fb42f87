"""What stands at a mark: a name, a time of day, a hospital, a postcode; by type, form and cues.

A tagger tells five types; what is released, and what a policy leaves in, is a question of finer
kinds. The patterns stand in `kinds.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Literal, NamedTuple, get_args

from audit.names.pools import english_names
from audit.notes.folding import fold_text
from audit.notes.mention_words import JAPANESE_SURNAMES, NO_NAMES
from audit.notes.patterns import fold_characters, read_pattern_table
from audit.notes.spans import (
    CONTACT,
    FIVE_TYPES,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
    RISK_ORDER,
    Span,
    TaggedDocument,
)
from audit.text import is_unspaced

VERSION = 3
"""Goes up with every change of what a mark is told to be."""

Kind = Literal[
    "name",
    "date",
    "year",
    "time",
    "age",
    "age_above_89",
    "sex",
    "place",
    "state",
    "organisation",
    "postcode",
    "profession",
    "telephone",
    "fax",
    "email",
    "web_address",
    "ip_address",
    "social_security",
    "record_number",
    "health_plan",
    "account",
    "licence",
    "vehicle",
    "device",
    "other_id",
    "other",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""In the order of tables. A `state` is a state, prefecture or country; an `organisation` a
hospital, school or employer; `social_security` a number of each citizen; `age_above_89` also an
age that is told in no way which is understood."""

PARTS, _TABLE = read_pattern_table(__file__)
"""The named patterns of `kinds.txt`."""
_RE = {name: re.compile(pattern) for name, pattern in PARTS.items()}
_CUES = {
    group: [
        (kind, re.compile(rf"(?i)(?:{cue})[^0-9\n]{{0,14}}$"))
        for kind, cue in _TABLE[f"cues of {group}"]
    ]
    for group in ("numbers", "contacts")
}
_RISKS = {label: place for place, label in enumerate(RISK_ORDER)}
OLDEST = 89
"""The last age that tells nothing by itself, as 45 CFR 164.514(b)(2) has it."""
_N_AROUND = 40


class Mark(NamedTuple):
    """A stretch of a note, and what stands around it; folded but for `text`."""

    span: Span
    text: str
    folded: str
    before: str
    after: str

    def shown(self) -> Mark:
        """Return the mark as it is read: composed, without what is not shown."""
        sides = (fold_text(side).text for side in (self.folded, self.before, self.after))
        return Mark(self.span, self.text, *sides)

    def fits(self, form: str) -> bool:
        """Whether it is in a form of `kinds.txt` from end to end."""
        return bool(_RE[form].fullmatch(self.folded))

    def has(self, form: str) -> bool:
        """Whether there is a form of `kinds.txt` in it."""
        return bool(_RE[form].search(self.folded))

    def stands(self, *, behind: str, before: str = "") -> bool:
        """Whether it stands behind a cue of `kinds.txt`, or before one."""
        is_before = bool(before) and _RE[before].match(self.after)
        return bool(is_before or _RE[behind].search(self.before))


def mark_of(text: str, span: Span) -> Mark:
    """Return what stands at a span of a note, and around it."""
    start, end = span.start, span.end
    begin = max(0, start - _N_AROUND)
    folded = fold_characters(text[begin : end + _N_AROUND])
    own, after = start - begin, end - begin
    return Mark(span, text[start:end], folded[own:after], folded[:own], folded[after:])


def joined_spans(document: TaggedDocument) -> list[list[Span]]:
    """Return the spans of a note in groups of those that share characters."""
    groups: list[list[Span]] = []
    reached = 0
    for span in document.spans:
        if span.start >= reached:
            groups.append([])
        groups[-1].append(span)
        reached = max(reached, span.end)
    return groups


def joined_marks(document: TaggedDocument) -> Iterator[tuple[Mark, list[Span]]]:
    """Yield the marks of a note: spans joined that share characters; those that touch stay apart.

    A mark is named after its longest span, then by risk.
    """
    for spans in joined_spans(document):
        risks = [(-x.n_chars, _RISKS.get(x.label, len(_RISKS)), x.start, x.label) for x in spans]
        joined = Span(spans[0].start, max(x.end for x in spans), min(risks)[-1])
        yield mark_of(document.text, joined), spans


def kind_of(text: str, span: Span) -> Kind:
    """Return what stands at a span of a note, by its type, its form and the cues around it.

    Parameters
    ----------
    text
        The note.
    span
        A span of it; labels of i2b2 2014 and others count as the type that they are.

    Returns
    -------
    kind
        One of `KINDS`; "other" where nothing tells, or the label has no type.
    """
    return kind_at(mark_of(text, span))


def kind_at(mark: Mark) -> Kind:
    """Return what stands at a mark, as `kind_of`."""
    mark = mark.shown()
    label = FIVE_TYPES.map_label(mark.span.label)
    if label == IDENTIFIER:
        return "name"
    if label in (PERSONAL_ID_CODE, LINKAGE_CODE):
        is_ssn = _RE["SSN"].fullmatch(mark.folded)
        return "social_security" if is_ssn else _cued("numbers", mark) or "other_id"
    if label == CONTACT:
        return _kind_of_contact(mark)
    return _kind_of_quasi(mark) if label == QUASI_IDENTIFIER else "other"


def _cued(group: str, mark: Mark) -> Kind | None:
    """Return what the nearest cue before a mark says."""
    found = [
        (match.end() - match.start(), kind)
        for kind, cue in _CUES[group]
        if (match := cue.search(mark.before))
    ]
    return min(found)[1] if found else None  # type: ignore[return-value]


def _kind_of_contact(mark: Mark) -> Kind:
    forms: dict[str, Kind] = {"MAIL": "email", "WEB": "web_address", "IP": "ip_address"}
    told = next((kind for form, kind in forms.items() if mark.fits(form)), None)
    is_number = any(char.isdigit() for char in mark.folded)
    return told or _cued("contacts", mark) or ("telephone" if is_number else "other")


def _kind_of_quasi(mark: Mark) -> Kind:
    if mark.fits("PROFESSION"):
        return "profession"
    if mark.has("HOSPITAL"):
        return "organisation"
    is_number = re.fullmatch("[0-9]{1,3}", mark.folded)
    is_cued_age = is_number and mark.stands(behind="AGE_BEFORE", before="AGE_AFTER")
    if is_cued_age or mark.has("AGE") or mark.fits("WHOLE_AGE"):
        age = age_in(mark.folded)
        return "age" if age is not None and age <= OLDEST else "age_above_89"
    if told := _kind_of_time(mark):
        return told
    if mark.fits("SEX"):
        return "sex"
    if told := _kind_of_place(mark):
        return told
    is_name = mark.fits("NAME") and (not is_unspaced(mark.folded) or is_named(mark))
    return "name" if is_name else "other"


def _kind_of_time(mark: Mark) -> Kind | None:
    """Return whether a mark is a date, a year alone or a time of day; None where it is none."""
    is_cued_time = mark.fits("DIGITS") and mark.stands(behind="CLOCK_BEFORE", before="CLOCK_AFTER")
    if mark.fits("CLOCKS") or is_cued_time:
        return "time"
    if mark.fits("YEAR"):
        is_birth = mark.stands(behind="BIRTH_BEFORE", before="BIRTH_AFTER")
        return "date" if is_birth else "year"
    is_date = mark.fits("DATE_WORDS") and mark.has("DATE_SIGN")
    return "date" if is_date or mark.fits("WEEKDAY") else None


def _kind_of_place(mark: Mark) -> Kind | None:
    """Return what kind of place or organisation a mark is; None where it is none."""
    is_cued = mark.fits("PLAIN_POSTCODE") and mark.stands(behind="POSTCODE_BEFORE")
    if is_cued or mark.fits("POSTCODE"):
        return "postcode"
    if mark.fits("PREFECTURE") or mark.folded in _states():
        return "state"
    if mark.has("ORGANISATION"):
        return "organisation"
    if not mark.has("PLACE"):
        return None
    return "name" if mark.fits("NAME") and _is_titled(mark) else "place"


def fits_name(mark: Mark) -> bool:
    """Whether a mark has the form of a name."""
    return mark.fits("NAME")


def is_named(mark: Mark) -> bool:
    """Whether a title or a list of names says that this is somebody's name."""
    if _is_titled(mark):
        return True
    if not mark.folded.isascii():
        bare = mark.folded.replace(" ", "")
        is_surname = any(bare[:n] in JAPANESE_SURNAMES for n in (2, 3) if n <= len(bare))
        return is_surname or bare in _japanese_given_names()
    parts = [part.strip(".") for part in re.split(r"[ ,]+", mark.folded) if part]
    if any(part.lower() in NO_NAMES or not part[:1].isupper() for part in parts):
        return False
    return not english_names().isdisjoint(parts)


def may_be_surname(mark: Mark) -> bool:
    """Whether a place is called as families are: 中村, 福島."""
    return mark.folded.replace(" ", "") in JAPANESE_SURNAMES


def _is_titled(mark: Mark) -> bool:
    return mark.stands(behind="TITLE_BEFORE", before="TITLE_AFTER")


@cache
def _japanese_given_names() -> frozenset[str]:
    from audit.names.people import given_names

    tables = (given_names(sex, time) for sex in "MF" for time in ("old", "middle", "young"))
    names = {part.written for table in tables for part in table.names}
    return frozenset(name for name in names if len(name) > 1)


@cache
def _states() -> frozenset[str]:
    """Return countries and American states, but for those that are called as people are."""
    from faker.providers.address.en_US import Provider
    from faker.providers.address.ja_JP import Provider as Japanese

    names = english_names() | set(PARTS["NO_STATE"].split("|"))
    # マリ is a name, タイ a fish.
    japanese = (name for name in Japanese.countries if len(name) > 2 or name[0] > "ヿ")
    return frozenset({*Provider.states, *Provider.countries, *japanese} - names)


_TENS, _ONES = PARTS["TENS"].split("|"), PARTS["ONES"].split("|")
_WORDS = {word: 20 + 10 * n for n, word in enumerate(_TENS)}
_WORDS |= {word: n for n, word in enumerate(_ONES, start=1)}
_HAN = {char: n for n, char in enumerate("〇一二三四五六七八九")}


def age_in(folded: str) -> int | None:
    """Return the largest number of a mark, as far as it may go; None where there is none.

    An age of 3 years and 2 months is 3, one in tens nine more than it says: 80代 is 89.
    """
    numbers = [int(digits) for digits in re.findall("[0-9]{1,9}", folded)]
    numbers += [_han_number(han) for han in re.findall(f"[{PARTS['K']}百]+", folded)]
    words = [_WORDS[word] for word in re.findall("[a-z]+", folded.lower()) if word in _WORDS]
    numbers += [sum(words)] if words else []
    return max(numbers) + 9 * bool(_RE["IN_TENS"].search(folded)) if numbers else None


def _han_number(han: str) -> int:
    whole = digits = 0
    for char in han:
        if char in "百十":
            whole += (100 if char == "百" else 10) * (digits or 1)
            digits = 0
        else:
            digits = 10 * digits + _HAN[char]
    return whole + digits


_CUT = re.compile(f"[0-9]{{2}}|[A-Za-z]{{2}}|[{PARTS['KATA']}]{{2}}")
_CUT_IN_HAN = re.compile(f"{_CUT.pattern}|[{PARTS['HAN']}]{{2}}")
"""Two characters between which a word goes on."""


def is_told(mark: Mark, kind: Kind) -> bool:
    """Whether nothing but its kind can stand at a mark: none is left in a text by a guess.

    It is not cut out of a longer word or number, and has no title, which names have; an age is
    nothing but an age; a sex of one character stands beside an age or behind a heading: alone it
    may be an initial, or the end of a given name.
    """
    cut = _CUT_IN_HAN if kind in ("profession", "state") else _CUT
    ends = (mark.before[-1:] + mark.folded[0], mark.folded[-1] + mark.after[:1])
    if any(cut.fullmatch(pair) for pair in ends) or _is_titled(mark):
        return kind == "name"
    if kind in ("age", "age_above_89"):
        return mark.fits("WHOLE_AGE") or mark.folded.isdigit()
    if kind == "sex" and len(mark.folded) == 1:
        return mark.stands(behind="LETTER_BEFORE", before="LETTER_AFTER")
    return True
