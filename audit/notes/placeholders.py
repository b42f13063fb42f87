"""Find the place of a person's name in de-identified text, and delete the other placeholders.

Supported placeholders: `[NAME]` and similar words in capitals, `[氏名]` and similar words,
`[**Known firstname 123**]` of MIMIC-III in the categories of the public KART code, and `___` of
MIMIC-IV. A bracketed word in lower case is text. If a text has no such place for a full name, these
count as well: `<PERSON>`, `【氏名】`, a last name after a title, and a blank (`___`, `XXXX`) whose
surroundings show that it is a patient.

Source: Nakamura et al., section 4.2.
"""

from __future__ import annotations

import functools
import re
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from audit.notes.patterns import CompiledParts, read_pattern_table

_AROUND_CHARS = 48


_PARTS, _TABLE = read_pattern_table(__file__)
_RE = CompiledParts(_PARTS)
_AROUND = [
    (re.compile(pattern, re.IGNORECASE), *meaning.partition("/")[::2])
    for meaning, pattern in (
        *_TABLE["around"],
        *((meaning, rf"(?:{pattern})\0") for meaning, pattern in _TABLE["before"]),
    )
]


def _interpret_blank(text: str, *, start: int, stop: int) -> tuple[str, str, str]:
    """Return (kind, role, sex) of a blank from its surroundings; ("unknown", "", "") by default."""
    left_text = text[max(0, start - _AROUND_CHARS) : start]
    title = _RE["TITLE"].search(left_text)
    if title and title[1].lower() in _TITLE_SEX:
        return "last", "patient", _TITLE_SEX[title[1].lower()]
    around = f"{left_text}\0{text[stop : stop + _AROUND_CHARS]}"
    return next(
        ((kind, role, "") for pattern, kind, role in _AROUND if pattern.search(around)),
        ("unknown", "", ""),
    )


NAME_KINDS = frozenset({"first", "last", "full", "initial"})

# A pattern with a literal beginning is several times as fast as one with alternatives.
_MARK = re.compile(r"\[\*\*([^\[\]]{0,200}?)\*\*\]")
_BLANK = re.compile("(?<!_)_{3}(?!_)")
_MARK_OR_BLANK = re.compile(f"{_MARK.pattern}|{_BLANK.pattern}")
_OPENING = "[**"
BLANK = "___"
_DATE_SIGNS = ("-", "/")

_KINDS, _SLOTS = _TABLE["kind"], _TABLE["slot"]
_KIND, _SLOT = (
    re.compile("|".join(f"(?P<k{i}>{pattern})" for i, (_, pattern) in enumerate(table)))
    for table in (_KINDS, _SLOTS)
)
_PATIENT = re.compile(r"known |patient ")


class Placeholder(NamedTuple):
    """One placeholder and its place, in characters of the text.

    `content` is the text between the marks with single spaces. `category` is the content without
    its `number`, "___" for a blank, and the form of the date for dates. `kind` is this program's
    name for the category ("unknown" for an unknown category). Names have a `role` ("patient",
    "staff" or "other") and a `sex` ("M", "F", or "" if it is not stated); adjacent names of one
    person share a `group`, counted from 0. Other placeholders have "" and -1 there.
    """

    start: int
    stop: int
    content: str
    category: str
    kind: str
    number: str
    role: str = ""
    sex: str = ""
    group: int = -1


class ParsedPlaceholders(NamedTuple):
    """All placeholders of a text, in order; `n_malformed` counts those that are never closed."""

    places: tuple[Placeholder, ...]
    n_malformed: int


def find_placeholders(text: str, *, has_blanks: bool = False) -> ParsedPlaceholders:
    """Find every placeholder of a text, and the person to whom each name belongs.

    `has_blanks` says whether `___` is a placeholder, as in MIMIC-IV; in MIMIC-III it is a line to
    write on.
    """
    if _OPENING not in text and not (has_blanks and BLANK in text):
        return ParsedPlaceholders((), 0)
    pattern = _MARK_OR_BLANK if has_blanks else _MARK
    places = [_describe_placeholder(text, match) for match in pattern.finditer(text)]
    n_marks = sum(place.category != BLANK for place in places)
    n_malformed = text.count(_OPENING) - n_marks
    return ParsedPlaceholders(tuple(_add_people(text, places)), n_malformed)


def has_marks(text: str) -> bool:
    """Whether a text has placeholders of MIMIC-III, so that `___` is not a placeholder in it."""
    return _OPENING in text


def _describe_placeholder(text: str, match: re.Match[str]) -> Placeholder:
    start, stop = match.span()
    if match[1] is None:
        kind, role, sex = _interpret_blank(text, start=start, stop=stop)
        return Placeholder(start, stop, "", BLANK, kind, "", role, sex)
    content, category, kind, number, sex = _interpret_mark(match[1])
    return Placeholder(start, stop, content, category, kind, number, "", sex)


@functools.lru_cache(maxsize=50_000)
def _interpret_mark(mark_content: str) -> tuple[str, str, str, str, str]:
    """Return content, category, kind, number and sex of the text between the marks."""
    content = " ".join(mark_content.split())
    # This check comes first because it is cheap, and most categories are not dates.
    may_be_date = content[:1] in _DATE_SIGNS or content[:1].isdecimal()
    if may_be_date and _RE["DATE"].fullmatch(content):
        return content, re.sub(r"\d", "9", content), "date", "", ""
    category, _, number = content.rpartition(" ")
    if not number.isdecimal() or category.lower().endswith("age over"):
        category, number = content, ""
    kind, sex = _find_kind(category)
    return content, category, kind, number, sex


@functools.lru_cache(maxsize=10_000)
def _find_kind(category: str) -> tuple[str, str]:
    match = _KIND.match(category.lower())
    kind = _KINDS[int((match.lastgroup or "k0")[1:])][0] if match else "unknown"
    sex = {"first_male": "M", "first_female": "F"}.get(kind, "")
    return "first" if sex else kind, sex


_MAX_NAME_GAP_CHARS = 12
_TITLE_SEX = {"mr": "M", "mrs": "F", "ms": "F", "miss": "F"}


def _add_people(text: str, places: list[Placeholder]) -> list[Placeholder]:
    groups: list[list[Placeholder]] = []
    for place in places:
        if place.kind in NAME_KINDS:
            if not groups or not _joins(text, groups[-1], place):
                groups.append([])
            groups[-1].append(place)
    name_places: dict[int, Placeholder] = {}
    for number, group in enumerate(groups):
        role, sex = _find_person(text, group)
        group_number = next((place.number for place in reversed(group) if place.number), "")
        for place in group:
            is_staff = role == "staff" and place.category.lower() in ("name (ni)", "name2 (ni)")
            kind, place_number = "last" if is_staff else place.kind, place.number or group_number
            name_places[place.start] = Placeholder(
                place.start,
                place.stop,
                place.content,
                place.category,
                kind,
                place_number,
                role,
                sex,
                number,
            )
    return [name_places.get(place.start, place) for place in places]


def _joins(text: str, group: list[Placeholder], place: Placeholder) -> bool:
    last = group[-1]
    kinds = {member.kind for member in group}
    is_second = place.kind != "initial" and place.kind in kinds
    if is_second or "full" in (place.kind, last.kind):
        return False
    gap = _RE["NAME_GAP"].fullmatch(text, last.stop, place.start)
    if gap is None or len(gap[0]) > _MAX_NAME_GAP_CHARS:
        return False
    if gap[0].startswith(".") and last.kind != "initial":
        return False
    return (last.kind, place.kind) != ("last", "first") or "," in gap[0]


def _find_person(text: str, group: list[Placeholder]) -> tuple[str, str]:
    """Return the role of the named person, and the sex if it is stated."""
    start, stop = group[0].start, group[-1].stop
    categories = [place.category.lower() for place in group]
    roles = {place.role for place in group}.union(map(_find_category_role, categories))
    match = _RE["TITLE"].search(text, max(0, start - 12), start)
    title = match[1].lower() if match else ""
    sex = _TITLE_SEX.get(title, "") or next((place.sex for place in group if place.sex), "")
    if "patient" in roles:
        return "patient", sex
    if title in ("dr", "drs", "doctor"):
        return "staff", sex
    if title in _TITLE_SEX or _RE["AGED"].match(text, stop):
        return "patient", sex
    return ("staff" if "staff" in roles else "other"), sex


@functools.lru_cache(maxsize=10_000)
def _find_category_role(category: str) -> str:
    """Return the role of the people in a category, in lower case; "" if the category has none."""
    return (
        "patient" if _PATIENT.match(category) else "staff" if _RE["STAFF"].search(category) else ""
    )


_ROLES = {word: role for role, words in _TABLE["word"] for word in words.split("|")}
# Japanese categories are listed: [別紙] or [図] in brackets is text.
_JAPANESE = "|".join(word for word in _ROLES if not word.isascii())
# One character class before the alternatives lets the search skip the rest of a text quickly.
_PLACEHOLDER = re.compile(
    r"[\[［_](?:(?<=\[)\*\*(?P<mimic>[^\[\]]{0,200})\*\*\]"
    r"|(?<=[\[［])(?P<capitals>[A-Z][A-Z0-9_ \-/:#.]{0,60})[\]］]"
    rf"|(?<=[\[［])(?P<japanese>{_JAPANESE})[\]］]"
    r"|(?<=_)_{2,})"
)
# Between two places: the full stop of a removed initial, white space, a comma, a remaining initial.
_SLOT_GAP = re.compile(r"\.?\s*,?\s*(?:[A-Z]\.?\s+)?")
_MAX_SLOT_GAP_CHARS = 20
_GONE, _BREAKS = "\0", "\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
_RUN_END = re.compile(rf"([{_GONE}{_BREAKS}][\s{_GONE}]*)")


@dataclass(frozen=True)
class NameSlot:
    """The first place of a full name, and the text around it without other placeholders.

    `roles` is ("first", "last"), ("last", "first") or ("full",). `separator` is the text between
    two parts.
    """

    left: str
    roles: tuple[str, ...]
    separator: str
    right: str


class _Slot(NamedTuple):
    start: int
    stop: int
    role: str


def find_name_slot(text: str) -> NameSlot | None:
    """Find the first place of a full name; None if there is none.

    The place is one placeholder for the whole name, or a first and a last name side by side in
    either order, with at most a comma and one middle initial (which is dropped) between them.
    """
    slots = (_Slot(m.start(), m.end(), _find_match_role(m)) for m in _PLACEHOLDER.finditer(text))
    ahead = deque(islice(slots, 1))  # placeholders after the name are not read
    while ahead:
        place = ahead[0]
        is_full = place.role == "full"
        ahead.extend(islice(slots, 0 if is_full else 3 - len(ahead)))
        partner = place if is_full else _find_partner(text, *ahead)
        if partner is not None:
            return NameSlot(
                left=_remove_placeholders(text[: place.start]).lstrip(),
                roles=("full",) if is_full else (place.role, partner.role),
                separator=_find_separator(text[place.stop : partner.start]),
                right=_remove_placeholders(text[partner.stop :]).rstrip(),
            )
        ahead.popleft()
    return None


_ANGLES = re.compile(r"<([A-Z][A-Z0-9_ -]{0,60})>")
_PERSON = re.compile(r"(?:PERSON|PATIENT|NAME)(?:[_ -]?\d+)?")
_CORNERS = re.compile(rf"【({_JAPANESE})】")
_CROSSES = re.compile(
    rf"(?<![A-Za-z0-9])(?:X{{4,}}(?![A-Za-z0-9])|X{{2,}}(?={_PARTS['YEARS_OLD']}))"
)
_POLITE = re.compile("様|さん")


def find_loose_slot(text: str) -> NameSlot | None:
    """Find the place of a patient's name by marks that `find_name_slot` does not accept.

    `<PERSON>` and 【氏名】 count as if in square brackets. Two more kinds of places stand for a
    full name: a last name alone after Mr, Mrs, Ms or Miss, or before 様 or さん; and a blank whose
    surroundings show that it is a patient's name.
    """
    text = _ANGLES.sub(lambda m: "[NAME]" if _PERSON.fullmatch(m[1]) else f"[{m[1]}]", text)
    text = _CROSSES.sub(BLANK, _CORNERS.sub(r"[\1]", text))
    slot = find_name_slot(text)
    place = next((m for m in _PLACEHOLDER.finditer(text) if _is_patient(text, m)), None)
    if slot is not None or place is None:
        return slot
    left, right = text[: place.start()], text[place.end() :]
    return NameSlot(
        _remove_placeholders(left).lstrip(), ("full",), "", _remove_placeholders(right).rstrip()
    )


def holds_blanks(text: str) -> bool:
    """Whether a text has blanks, which may stand for anything."""
    return any(pattern.search(text) for pattern in (_BLANK, _CROSSES))


def _is_patient(text: str, place: re.Match[str]) -> bool:
    """Whether the surroundings of a placeholder show that it is a patient's name."""
    if place[0] == BLANK:
        kind, role, _ = _interpret_blank(text, start=place.start(), stop=place.end())
        return role == "patient" and kind in ("full", "last")
    title = _RE["TITLE"].search(text, max(0, place.start() - 12), place.start())
    is_titled = title is not None and title[1].lower() in _TITLE_SEX
    return _find_match_role(place) == "last" and (
        is_titled or _POLITE.match(text, place.end()) is not None
    )


@functools.lru_cache(maxsize=4096)
def find_placeholder_role(placeholder: str) -> str:
    """Return "first", "last", "full", "initial", "other", or "blank" for "___"."""
    if placeholder.startswith("_"):
        return "blank"
    match = _PLACEHOLDER.fullmatch(placeholder)
    return _find_match_role(match) if match else "other"


def _find_match_role(match: re.Match[str]) -> str:
    if match["mimic"] is not None:
        category = " ".join(match["mimic"].lower().split())
        slot = _SLOT.match(category)
        return _SLOTS[int((slot.lastgroup or "k0")[1:])][0] if slot else "other"
    word = match["capitals"] or match["japanese"] or ""
    return _ROLES.get(" ".join(word.replace("_", " ").split()), "other")


def _find_partner(text: str, place: _Slot, *others: _Slot) -> _Slot | None:
    """Return the place of the other part of a name; None if there is none beside it."""
    previous = place
    for partner in others if place.role in ("first", "last") else ():
        gap = _SLOT_GAP.fullmatch(text, previous.stop, partner.start)
        if gap is None or len(gap[0]) > _MAX_SLOT_GAP_CHARS:
            break
        if gap[0].startswith(".") and previous.role != "initial":
            break
        if {place.role, partner.role} == {"first", "last"}:
            return partner
        if partner.role != "initial":
            break
        previous = partner
    return None


def _find_separator(between: str) -> str:
    between = _PLACEHOLDER.sub("", between)
    if "," in between:
        return ", "
    if not between:
        return ""
    return "\u3000" if between.strip(" ") == "\u3000" else " "


def _remove_placeholders(text: str) -> str:
    """Return a text without placeholders.

    White space that contains a placeholder or a line break becomes one space.
    """
    # A NUL marks a deleted placeholder here, so NULs of the text itself (from JSON) are removed.
    *parts, rest = _RUN_END.split(_PLACEHOLDER.sub(_GONE, text.replace(_GONE, "")))
    cleaned = ""
    for part, run in zip(parts[::2], parts[1::2], strict=True):
        stripped_part = part.rstrip()
        cleaned += stripped_part + " " * (len(stripped_part) < len(part) or run.strip(_GONE) != "")
    return cleaned + rest
