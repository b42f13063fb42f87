"""The kind of text at a mark, such as a name, a time of day or a postcode, by type, form and cues.

A tagger gives five types; releases and policies need finer kinds. The patterns stand in
`kinds.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Literal, NamedTuple, get_args

from audit.deid.find.rules import is_full_name
from audit.names.pools import english_names
from audit.notes.folding import fold_text
from audit.notes.mention_words import JAPANESE_SURNAMES, NO_NAMES
from audit.notes.patterns import CompiledParts, fold_characters, read_pattern_table
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
"""Goes up with every change of the kinds that marks get."""

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
hospital, school or employer; `social_security` is a number that each citizen has; `age_above_89`
is also an age that cannot be read."""

GROUPS: dict[str, tuple[Kind, ...]] = {
    "name": ("name",),
    "date": ("date", "year", "time", "age", "age_above_89"),
    "place": ("place", "state", "organisation", "postcode"),
    "contact": ("telephone", "fax", "email", "web_address", "ip_address"),
    "number": (
        "other_id",
        "social_security",
        "record_number",
        "health_plan",
        "account",
        "licence",
        "vehicle",
        "device",
    ),
    "work": ("profession",),
    "other": ("other", "sex"),
}
"""The groups of kinds among which a person chooses. The first kind of a group is meant if neither
form nor cues show another one of it."""
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}
_PUBLIC_NUMBERS: tuple[Kind, ...] = ("social_security", "health_plan")

PARTS, _TABLE = read_pattern_table(__file__)
"""The named patterns of `kinds.txt`."""
_RE = CompiledParts(PARTS)
_CUES = {
    group: [
        (kind, re.compile(rf"(?i)(?:{cue})[^0-9\n]{{0,14}}$"))
        for kind, cue in _TABLE[f"cues of {group}"]
    ]
    for group in ("numbers", "contacts")
}
_RISKS = {label: place for place, label in enumerate(RISK_ORDER)}
OLDEST = 89
"""The highest age that may be released by itself (45 CFR 164.514(b)(2))."""
_N_AROUND = 40


class Mark(NamedTuple):
    """A stretch of a note and the text around it; all but `text` is folded."""

    span: Span
    text: str
    folded: str
    text_before: str
    text_after: str

    def fold(self) -> Mark:
        """Return the mark as it is read: in composed form, without invisible characters."""
        sides = (fold_text(side).text for side in (self.folded, self.text_before, self.text_after))
        return Mark(self.span, self.text, *sides)

    def fits(self, form: str) -> bool:
        """Whether all of the mark has a form of `kinds.txt`."""
        return bool(_RE[form].fullmatch(self.folded))

    def has(self, form: str) -> bool:
        """Whether the mark contains a form of `kinds.txt`."""
        return bool(_RE[form].search(self.folded))

    def has_cue(self, *, cue_before: str, cue_after: str = "") -> bool:
        """Whether a cue of `kinds.txt` stands before the mark or after it."""
        is_before = bool(cue_after) and _RE[cue_after].match(self.text_after)
        return bool(is_before or _RE[cue_before].search(self.text_before))


def mark_of(text: str, span: Span) -> Mark:
    """Return the mark at a span of a note."""
    start, end = span.start, span.end
    begin = max(0, start - _N_AROUND)
    folded = fold_characters(text[begin : end + _N_AROUND])
    mark_start, mark_end = start - begin, end - begin
    return Mark(
        span, text[start:end], folded[mark_start:mark_end], folded[:mark_start], folded[mark_end:]
    )


def group_spans(document: TaggedDocument) -> list[list[Span]]:
    """Return the spans of a note in groups; spans that share characters are in one group."""
    groups: list[list[Span]] = []
    max_end = 0
    for span in document.spans:
        if span.start >= max_end:
            groups.append([])
        groups[-1].append(span)
        max_end = max(max_end, span.end)
    return groups


def join_marks(document: TaggedDocument) -> Iterator[tuple[Mark, list[Span]]]:
    """Yield each mark of a note with its spans.

    Spans that share characters are one mark, spans that only touch are not. A mark has the label
    and the kind of its longest span; of spans of equal length, of one whose kind a person said,
    else of the riskiest.
    """
    for spans in group_spans(document):
        main_span = min(
            spans,
            key=lambda x: (
                -x.n_chars,
                not x.kind,
                _RISKS.get(x.label, len(_RISKS)),
                x.start,
                x.label,
            ),
        )
        end = max(x.end for x in spans)
        joined = Span(spans[0].start, end, main_span.label, main_span.kind)
        yield mark_of(document.text, joined), spans


def group_marks(document: TaggedDocument) -> list[tuple[Span, str]]:
    """Return each mark of a note with its group; "" if its label is of none of the five types."""
    return [(mark.span, _group_at(mark)) for mark, _ in join_marks(document)]


def group_of(text: str, span: Span) -> str:
    """Return the group of the kind of text at a span, as `group_marks` does."""
    return _group_at(mark_of(text, span))


def _group_at(mark: Mark) -> str:
    label = FIVE_TYPES.map_label(mark.span.label)
    if label == CONTACT:
        return "contact"
    return _GROUP_OF[kind_at(mark)] if label else ""


def span_of_group(text: str, start: int, end: int, *, group: str) -> Span:
    """Return the span of a place that a person says to be of a group of `GROUPS`.

    The type follows from the group, the form and the cues: a full name is an identifier, a part of
    a name a quasi-identifier; the number of a public body is a personal ID code. The span has a
    kind of its own if its form and cues would show a kind of another group.
    """
    match group:
        case "contact":
            label = CONTACT
        case "number":
            is_public = kind_of(text, Span(start, end, LINKAGE_CODE)) in _PUBLIC_NUMBERS
            label = PERSONAL_ID_CODE if is_public else LINKAGE_CODE
        case "name":
            label = IDENTIFIER if is_full_name(text[start:end]) else QUASI_IDENTIFIER
        case _:
            label = QUASI_IDENTIFIER
    span = Span(start, end, label)
    return span if group_of(text, span) == group else replace(span, kind=GROUPS[group][0])


def kind_of(text: str, span: Span) -> Kind:
    """Return the kind of text at a span of a note, by its type, its form and the cues around it.

    Parameters
    ----------
    text
        The note.
    span
        A span of the note; a label of i2b2 2014 and the like counts as the type that it belongs to.

    Returns
    -------
    kind
        One of `KINDS`; "other" if nothing tells the kind, or the label has no type. What a person
        says about the span comes first.
    """
    return kind_at(mark_of(text, span))


def kind_at(mark: Mark) -> Kind:
    """Return the kind of text at a mark, as `kind_of` does."""
    if mark.span.kind:
        return mark.span.kind  # type: ignore[return-value]
    mark = mark.fold()
    label = FIVE_TYPES.map_label(mark.span.label)
    if label == IDENTIFIER:
        return "name"
    if label in (PERSONAL_ID_CODE, LINKAGE_CODE):
        is_ssn = _RE["SSN"].fullmatch(mark.folded)
        return "social_security" if is_ssn else _kind_of_cue("numbers", mark) or "other_id"
    if label == CONTACT:
        return _kind_of_contact(mark)
    return _kind_of_quasi(mark) if label == QUASI_IDENTIFIER else "other"


def _kind_of_cue(group: str, mark: Mark) -> Kind | None:
    """Return the kind by the nearest cue before a mark."""
    distances = [
        (match.end() - match.start(), kind)
        for kind, cue in _CUES[group]
        if (match := cue.search(mark.text_before))
    ]
    return min(distances)[1] if distances else None  # type: ignore[return-value]


def _kind_of_contact(mark: Mark) -> Kind:
    forms: dict[str, Kind] = {"MAIL": "email", "WEB": "web_address", "IP": "ip_address"}
    kind = next((kind for form, kind in forms.items() if mark.fits(form)), None)
    is_number = any(char.isdigit() for char in mark.folded)
    return kind or _kind_of_cue("contacts", mark) or ("telephone" if is_number else "other")


def _kind_of_quasi(mark: Mark) -> Kind:
    if mark.fits("PROFESSION"):
        return "profession"
    if mark.has("HOSPITAL"):
        return "organisation"
    is_number = re.fullmatch("[0-9]{1,3}", mark.folded)
    is_cued_age = is_number and mark.has_cue(cue_before="AGE_BEFORE", cue_after="AGE_AFTER")
    if is_cued_age or mark.has("AGE") or mark.fits("WHOLE_AGE"):
        age = read_age(mark.folded)
        return "age" if age is not None and age <= OLDEST else "age_above_89"
    if kind := _kind_of_time(mark):
        return kind
    if mark.fits("SEX"):
        return "sex"
    if kind := _kind_of_place(mark):
        return kind
    is_name = mark.fits("NAME") and (not is_unspaced(mark.folded) or is_named(mark))
    return "name" if is_name else "other"


def _kind_of_time(mark: Mark) -> Kind | None:
    """Return whether a mark is a date, a year alone or a time of day; None if none of these."""
    is_cued_time = mark.fits("DIGITS") and mark.has_cue(
        cue_before="CLOCK_BEFORE", cue_after="CLOCK_AFTER"
    )
    if mark.fits("CLOCKS") or is_cued_time:
        return "time"
    if mark.fits("YEAR"):
        is_birth = mark.has_cue(cue_before="BIRTH_BEFORE", cue_after="BIRTH_AFTER")
        return "date" if is_birth else "year"
    is_date = mark.fits("DATE_WORDS") and mark.has("DATE_SIGN")
    return "date" if is_date or mark.fits("WEEKDAY") else None


def _kind_of_place(mark: Mark) -> Kind | None:
    """Return the kind of place or organisation of a mark; None if it is neither."""
    is_cued = mark.fits("PLAIN_POSTCODE") and mark.has_cue(cue_before="POSTCODE_BEFORE")
    if is_cued or mark.fits("POSTCODE"):
        return "postcode"
    if mark.fits("PREFECTURE") or mark.folded in _list_states():
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
    """Whether a title, a list of names or a person tells that a mark is a person's name."""
    if mark.span.kind == "name" or _is_titled(mark):
        return True
    if not mark.folded.isascii():
        bare = mark.folded.replace(" ", "")
        is_surname = any(bare[:n] in JAPANESE_SURNAMES for n in (2, 3) if n <= len(bare))
        return is_surname or bare in _list_japanese_given_names()
    parts = [part.strip(".") for part in re.split(r"[ ,]+", mark.folded) if part]
    if any(part.lower() in NO_NAMES or not part[:1].isupper() for part in parts):
        return False
    return not english_names().isdisjoint(parts)


def may_be_surname(mark: Mark) -> bool:
    """Whether a place has the name of a family: 中村, 福島."""
    return mark.folded.replace(" ", "") in JAPANESE_SURNAMES


def _is_titled(mark: Mark) -> bool:
    return mark.has_cue(cue_before="TITLE_BEFORE", cue_after="TITLE_AFTER")


@cache
def _list_japanese_given_names() -> frozenset[str]:
    from audit.names.japanese_names import iterate_given_names

    return frozenset(part.native for _, part in iterate_given_names() if len(part.native) > 1)


@cache
def _list_states() -> frozenset[str]:
    """Return countries and American states without those whose name is also a person's."""
    from faker.providers.address.en_US import Provider
    from faker.providers.address.ja_JP import Provider as Japanese

    names = english_names() | set(PARTS["NO_STATE"].split("|"))
    # マリ is a name, タイ a fish.
    japanese = (name for name in Japanese.countries if len(name) > 2 or name[0] > "ヿ")
    return frozenset({*Provider.states, *Provider.countries, *japanese} - names)


_WORDS = {word: 10 * n for n, word in enumerate(PARTS["TENS"].split("|"), start=2)}
_WORDS |= {
    word: n for n, word in enumerate(f"{PARTS['ONES']}|{PARTS['TEENS']}".split("|"), start=1)
}
_HAN = {char: n for n, char in enumerate("〇一二三四五六七八九")}


def read_age(folded: str) -> int | None:
    """Return the largest number in a mark; None if it has no number.

    "3 years and 2 months" gives 3. An age in tens counts as the highest that it can mean: 80代 is
    89.
    """
    numbers = [int(digits) for digits in re.findall("[0-9]{1,9}", folded)]
    numbers += [_read_han_number(han) for han in re.findall(f"[{PARTS['K']}百]+", folded)]
    words = [_WORDS[word] for word in re.findall("[a-z]+", folded.lower()) if word in _WORDS]
    numbers += [sum(words)] if words else []
    return max(numbers) + 9 * bool(_RE["IN_TENS"].search(folded)) if numbers else None


def _read_han_number(han: str) -> int:
    total = digits = 0
    for char in han:
        if char in "百十":
            total += (100 if char == "百" else 10) * (digits or 1)
            digits = 0
        else:
            digits = 10 * digits + _HAN[char]
    return total + digits


_UNCUT_PAIR = re.compile(f"[0-9]{{2}}|[A-Za-z]{{2}}|[{PARTS['KATA']}]{{2}}")
_UNCUT_PAIR_IN_HAN = re.compile(f"{_UNCUT_PAIR.pattern}|[{PARTS['HAN']}]{{2}}")
"""Two characters that belong to the same word or number."""


def is_certain_kind(mark: Mark, kind: Kind) -> bool:
    """Whether a mark is certainly of its kind; a mark may be left in a text only if it is.

    The mark must not be cut out of a longer word or number, and must not have a title, as names
    have. A mark of an age must hold the age alone. A sex of one character must stand beside an age
    or behind a heading, since alone it may be an initial or the end of a given name.
    """
    uncut_pair = _UNCUT_PAIR_IN_HAN if kind in ("profession", "state") else _UNCUT_PAIR
    ends = (mark.text_before[-1:] + mark.folded[0], mark.folded[-1] + mark.text_after[:1])
    if any(uncut_pair.fullmatch(pair) for pair in ends) or _is_titled(mark):
        return kind == "name"
    if kind in ("age", "age_above_89"):
        return mark.fits("WHOLE_AGE") or mark.folded.isdigit()
    if kind == "sex" and len(mark.folded) == 1:
        return mark.has_cue(cue_before="LETTER_BEFORE", cue_after="LETTER_AFTER")
    return True
