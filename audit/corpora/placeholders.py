"""Placeholders in de-identified notes: where they stand, what stood there, and whose name it was.

Comes in: text with MIMIC-III's `[** ... **]` or MIMIC-IV's `___`. Goes out: places with category,
kind, number and role. A category that is not known keeps its place and has the kind "unknown".

Source: Nakamura et al., section 3.2, and the categories of the public KART code. Differs: wards,
date ranges, holidays and the like are replaced too; the blank `[** **]` is not, its category
cannot be told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from audit.corpora.blanks import blank_meaning

NAME_KINDS = frozenset({"first", "last", "full", "initial"})

# With a literal beginning the search is several times as fast as with the alternative.
_MARK = re.compile(r"\[\*\*([^\[\]]{0,200}?)\*\*\]")
_MARK_OR_BLANK = re.compile(rf"{_MARK.pattern}|(?<!_)_{{3}}(?!_)")
_OPENING = "[**"
BLANK = "___"
_NUMBER = re.compile(r"(?:^|(?<!age over)\s)(\d+)$", re.IGNORECASE)

# The first that fits the beginning of a category, in lower case, tells the kind.
_KINDS: tuple[tuple[str, str], ...] = (
    ("first_male", r"male first name"),
    ("first_female", r"female first name"),
    ("first", r"(known (patient )?|patient )?first ?name|doctor first name|name10 \(|name6 \("),
    ("first", r"name2? \(ni\)|name9 \("),
    ("last", r"(known (patient )?|patient )?last ?name|doctor last name|name \(stitle\)"),
    ("last", r"name[78] \(|name11 \(|name1[34]\b|name5 \(|dictator info"),
    ("full", r"attending info|cc contact info|signature"),
    ("initial", r"(known |name )?initials?\b|name12 \("),
    ("prefix", r"name prefix"),
    ("university", r"university|location \(universit"),
    ("ward", r"hospital (ward|unit)|wardname|ward name"),
    ("hospital", r"hospital\d*\b"),
    ("city", r"location|city\b"),
    ("address", r"(street|apartment) address"),
    ("po_box", r"po box"),
    ("zipcode", r"state/zip|zip"),
    ("state", r"state\b"),
    ("country", r"country"),
    ("company", r"company"),
    ("email", r"e-?mail"),
    ("url", r"url\b"),
    ("phone", r"telephone|phone|fax|pager"),
    ("ssn", r"social security"),
    ("medical_record_number", r"medical record|pt id number"),
    ("clip_number", r"clip number"),
    ("job_number", r"job number"),
    ("serial_number", r"serial number"),
    ("identifier", r"md number|numeric identifier|provider number|unit number"),
    ("age_over_90", r"age over 9"),
    ("holiday", r"holiday"),
    ("ethnicity", r"ethnicity"),
    ("date_range", r"date range"),
    ("date", r"(month|day|year|date)\b"),
    ("date", r"(january|february|march|april|may|june|july|august|september|october)\b"),
    ("date", r"(november|december)\b"),
)
_KIND = re.compile("|".join(f"(?P<k{i}>{pattern})" for i, (_, pattern) in enumerate(_KINDS)))
_DATE = re.compile(
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d{1,4}\s?[-/]{1,2}\s?\d{1,4}|\d{4}|\d{1,4}-?[-/]|[-/]\d{1,4}"
    r"|\d{1,4}-\d{1,2}-|-\d{1,2}-\d{1,2}"
)
_PATIENT = re.compile(r"known |patient ")
_STAFF = re.compile(
    r"doctor|name.*\((md|stitle|ptitle|titles|nameis|lf|prefixes|name ?pattern|pre)|dictator"
    r"|attending|cc contact|signature|name1[34]"
)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """One place.

    Attributes
    ----------
    start, stop
        In characters of the text.
    content
        What is between the marks, white space made single; "" for `___`.
    category
        The content without its number, as written; "___" for a blank; a date's form for dates.
    kind
        What stands for it in this program; "unknown" where the category is not known.
    number
        Tells places of one category apart; "" where there is none.
    role
        Of names: "patient", "staff" or "other"; "" for what is no name.
    sex
        "M" or "F" where the category or a title says so, else "".
    group
        Names that stand together and name one person have the same number, counted from 0; -1
        for what is no name.
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


@dataclass(frozen=True)
class Parsed:
    """All places of a text, in order; `n_malformed` counts openings that are never closed."""

    places: tuple[Placeholder, ...]
    n_malformed: int


def find_placeholders(text: str, *, has_blanks: bool = False) -> Parsed:
    """Find every placeholder of a text, and whose name the names are.

    Parameters
    ----------
    has_blanks
        Whether `___` is a placeholder, as in MIMIC-IV; in MIMIC-III it is a line to write on.
    """
    if _OPENING not in text and not (has_blanks and BLANK in text):
        return Parsed((), 0)
    found = [
        _described(match) if match[1] is not None else _blank(text, match)
        for match in (_MARK_OR_BLANK if has_blanks else _MARK).finditer(text)
    ]
    n_marks = sum(place.category != BLANK for place in found)
    n_malformed = text.count(_OPENING) - n_marks
    return Parsed(tuple(_with_people(text, found)), n_malformed)


def has_marks(text: str) -> bool:
    """Whether a text has placeholders of MIMIC-III, so that `___` in it is none."""
    return _OPENING in text


def _described(match: re.Match[str]) -> Placeholder:
    content = " ".join(match[1].split())
    start, stop = match.span()
    if _DATE.fullmatch(content):
        return Placeholder(start, stop, content, re.sub(r"\d", "9", content), "date", "")
    category, number = _split_number(content)
    kind = _kind_of(category)
    sex = {"first_male": "M", "first_female": "F"}.get(kind, "")
    kind = "first" if sex else kind
    return Placeholder(start, stop, content, category, kind, number, sex=sex)


def _split_number(content: str) -> tuple[str, str]:
    number = _NUMBER.search(content)
    if not number:
        return content, ""
    return content[: number.start()].strip(), number[1]


_KIND_CACHE: dict[str, str] = {}


def _kind_of(category: str) -> str:
    kind = _KIND_CACHE.get(category)
    if kind is None:
        match = _KIND.match(category.lower())
        kind = _KINDS[int((match.lastgroup or "k0")[1:])][0] if match else "unknown"
        if len(_KIND_CACHE) < 10_000:
            _KIND_CACHE[category] = kind
    return kind


def _blank(text: str, match: re.Match[str]) -> Placeholder:
    start, stop = match.span()
    kind, role, sex = blank_meaning(text, start=start, stop=stop)
    return Placeholder(start, stop, "", BLANK, kind, "", role=role, sex=sex)


# Names that name one person: a comma, white space without an empty line, an initial between them.
_GAP = re.compile(r"\.?[ \t]*,?(?:[ \t]*\r?\n)?[ \t]*(?:[A-Z]\.?[ \t]+)?")
_MAX_GAP_CHARS = 12
_TITLE = re.compile(r"\b(dr|drs|doctor|mr|mrs|ms|miss)\b\.?\s*$", re.IGNORECASE)
_TITLE_SEX = {"mr": "M", "mrs": "F", "ms": "F", "miss": "F"}
_AGED = re.compile(
    r"\s*,?\s*(?:(?:is|was)\s+)?(?:an?\s+)?(?:\d{1,3}|\[\*\*Age over 90[^\]]*\])\s*-?\s*"
    r"(?:(?:years?|yrs?|months?|weeks?|days?)\s*-?\s*old\b|y\.?/?o\b)",
    re.IGNORECASE,
)


def _with_people(text: str, found: list[Placeholder]) -> list[Placeholder]:
    groups: list[list[int]] = []
    for index, place in enumerate(found):
        if place.kind not in NAME_KINDS:
            continue
        if groups and _joins(text, [found[i] for i in groups[-1]], place):
            groups[-1].append(index)
        else:
            groups.append([index])
    for number, group in enumerate(groups):
        places = [found[index] for index in group]
        role, sex = _person(text, places)
        numbered = next((p.number for p in reversed(places) if p.number), "")
        for index, place in zip(group, places, strict=True):
            kind = place.kind
            if place.category.lower() in ("name (ni)", "name2 (ni)") and role == "staff":
                kind = "last"
            found[index] = replace(
                place,
                kind=kind,
                role=role,
                sex=sex,
                group=number,
                number=place.number or numbered,
            )
    return found


def _joins(text: str, group: list[Placeholder], place: Placeholder) -> bool:
    last = group[-1]
    gap = place.start - last.stop
    if gap > _MAX_GAP_CHARS or place.kind == "full" or last.kind == "full":
        return False
    if place.kind != "initial" and place.kind in {other.kind for other in group}:
        return False
    match = _GAP.fullmatch(text, last.stop, place.start)
    if match is None or (match[0].startswith(".") and last.kind != "initial"):
        return False
    return (last.kind, place.kind) != ("last", "first") or "," in match[0]


def _person(text: str, group: list[Placeholder]) -> tuple[str, str]:
    first, last = group[0], group[-1]
    categories = [place.category.lower() for place in group]
    title = _TITLE.search(text, max(0, first.start - 12), first.start)
    title_word = title[1].lower() if title else ""
    sex = _TITLE_SEX.get(title_word, "") or next((p.sex for p in group if p.sex), "")
    if any(map(_PATIENT.match, categories)) or any(p.role == "patient" for p in group):
        return "patient", sex
    if title_word in ("dr", "drs", "doctor"):
        return "staff", sex
    if title_word in _TITLE_SEX or _AGED.match(text, last.stop):
        return "patient", sex
    if any(map(_STAFF.search, categories)) or any(p.role == "staff" for p in group):
        return "staff", sex
    return "other", sex
