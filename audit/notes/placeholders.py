"""The place of a person's name in de-identified text, and the text without its other placeholders.

Placeholders known: `[NAME]` and the like in capitals, `[氏名]` and the like, MIMIC-III's
`[**Known firstname 123**]` in the categories of the public KART code, MIMIC-IV's `___`. A bracketed
word in lower case is text.

Source: Nakamura et al., section 4.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_BEFORE_CHARS = 48
_AFTER_CHARS = 48

# What comes right before the blank -> kind, role. The first rule that fits counts.
_BEFORE: tuple[tuple[str, str, str], ...] = (
    (r"\b(patient |pt )?name:\s*", "full", "patient"),
    (r"\b(unit no|mrn|medical record (number|no)|record #)[:.#]?\s*", "medical_record_number", ""),
    (
        r"\b(admission|discharge|birth|service|procedure)( date)?:\s*|\bdate( of \w+)?:\s*",
        "date",
        "",
    ),
    (r"\bd\.?o\.?b\.?:\s*", "date", ""),
    (r"\battending:\s*(dr\.?\s*)?", "full", "staff"),
    (r"\b(drs?|doctor)\b\.?\s*", "last", "staff"),
    (r"\b(mr|mrs|ms|miss)\b\.?\s*", "last", "patient"),
    (r"\b(phone|telephone|tel|fax|pager|cell|call)( number)?( at| is|:|#|\))*\s*", "phone", ""),
    (r"\be-?mail( address)?( at| is|:)*\s*", "email", ""),
    (r"\b(ssn|social security( number)?)[:#]?\s*", "ssn", ""),
    (r"\b(address|lives at|resides at):?\s*", "address", ""),
    (r"\b(born in|from|lives in|moved to|originally from)\s*", "city", ""),
    (
        r"\b(transferred (to|from)|(admitted|presented) to|(seen|hospitalized) at|discharged from)"
        r"( the)?\s*",
        "hospital",
        "",
    ),
    (r"\b(pcp|cardiologist|surgeon|oncologist|physician)( is|:|,)?\s*", "full", "staff"),
    (r"\b(on|since|until|dated|from|by|in early|in late|as of|last)\s*", "date", ""),
)
_BEFORE_RULES = tuple(
    (re.compile(rf"(?:{pattern})$", re.IGNORECASE), kind, role) for pattern, kind, role in _BEFORE
)
_AGE = re.compile(r"\s*-?\s*(?:(?:years?|yrs?)\s*-?\s*old\b|y\.?/?o\b)", re.IGNORECASE)
_BLANKS_AGED = re.compile(
    r"\s*,?\s*(?:is|was)\s+(?:an?\s+)?(?:\d{1,3}|_{3})\s*-?\s*(?:(?:years?|yrs?)\s*-?\s*old\b|y\.?/?o\b)",
    re.IGNORECASE,
)
_HOSPITAL = re.compile(r"\s+(?:hospital|medical center|clinic)\b", re.IGNORECASE)
_BLANKS_TITLE = re.compile(r"\b(mr|mrs|ms|miss)\b\.?\s*$", re.IGNORECASE)


def blank_meaning(text: str, *, start: int, stop: int) -> tuple[str, str, str]:
    """Return (kind, role, sex) of the blank at these characters; ("unknown", "", "") if untold."""
    before = text[max(0, start - _BEFORE_CHARS) : start]
    after = text[stop : stop + _AFTER_CHARS]
    title = _BLANKS_TITLE.search(before)
    if title:
        return "last", "patient", "M" if title[1].lower() == "mr" else "F"
    if _BLANKS_AGED.match(after):
        return "full", "patient", ""
    if _AGE.match(after):
        return "age", "", ""
    if _HOSPITAL.match(after):
        return "city", "", ""
    for pattern, kind, role in _BEFORE_RULES:
        if pattern.search(before):
            return kind, role, ""
    return "unknown", "", ""


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
        _described(match) if match[1] is not None else _placeholders_blank(text, match)
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


def _placeholders_blank(text: str, match: re.Match[str]) -> Placeholder:
    start, stop = match.span()
    kind, role, sex = blank_meaning(text, start=start, stop=stop)
    return Placeholder(start, stop, "", BLANK, kind, "", role=role, sex=sex)


# Names that name one person: a comma, white space without an empty line, an initial between them.
_PLACEHOLDERS_GAP = re.compile(r"\.?[ \t]*,?(?:[ \t]*\r?\n)?[ \t]*(?:[A-Z]\.?[ \t]+)?")
_PLACEHOLDERS_MAX_GAP_CHARS = 12
_PLACEHOLDERS_TITLE = re.compile(r"\b(dr|drs|doctor|mr|mrs|ms|miss)\b\.?\s*$", re.IGNORECASE)
_TITLE_SEX = {"mr": "M", "mrs": "F", "ms": "F", "miss": "F"}
_PLACEHOLDERS_AGED = re.compile(
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
    if gap > _PLACEHOLDERS_MAX_GAP_CHARS or place.kind == "full" or last.kind == "full":
        return False
    if place.kind != "initial" and place.kind in {other.kind for other in group}:
        return False
    match = _PLACEHOLDERS_GAP.fullmatch(text, last.stop, place.start)
    if match is None or (match[0].startswith(".") and last.kind != "initial"):
        return False
    return (last.kind, place.kind) != ("last", "first") or "," in match[0]


def _person(text: str, group: list[Placeholder]) -> tuple[str, str]:
    first, last = group[0], group[-1]
    categories = [place.category.lower() for place in group]
    title = _PLACEHOLDERS_TITLE.search(text, max(0, first.start - 12), first.start)
    title_word = title[1].lower() if title else ""
    sex = _TITLE_SEX.get(title_word, "") or next((p.sex for p in group if p.sex), "")
    if any(map(_PATIENT.match, categories)) or any(p.role == "patient" for p in group):
        return "patient", sex
    if title_word in ("dr", "drs", "doctor"):
        return "staff", sex
    if title_word in _TITLE_SEX or _PLACEHOLDERS_AGED.match(text, last.stop):
        return "patient", sex
    if any(map(_STAFF.search, categories)) or any(p.role == "staff" for p in group):
        return "staff", sex
    return "other", sex


_ROLES = {
    **dict.fromkeys(
        (
            "NAME",
            "FULL NAME",
            "PATIENT",
            "PATIENT NAME",
            "氏名",
            "名前",
            "患者名",
            "患者氏名",
            "姓名",
        ),
        "full",
    ),
    **dict.fromkeys(("FIRST", "FIRST NAME", "GIVEN NAME", "名"), "first"),
    **dict.fromkeys(
        ("LAST", "LAST NAME", "FAMILY NAME", "SURNAME", "姓", "氏", "名字", "苗字"), "last"
    ),
    **dict.fromkeys(("INITIAL", "MIDDLE", "MIDDLE NAME", "MIDDLE INITIAL"), "initial"),
}
# Japanese categories are listed: [別紙] or [図] in brackets is text.
_JAPANESE_OTHERS = (
    "日付|年月日|生年月日|日時|時刻|年齢|性別|住所|地名|場所|電話|電話番号|病院|病院名|施設|施設名|医療機関|"
    "医師|医師名|主治医|担当医|看護師|職員名|家族名|職業|勤務先|会社名|学校名|患者番号|患者ID|番号"
)
_JAPANESE = "|".join([*(word for word in _ROLES if not word.isascii()), _JAPANESE_OTHERS])

_PLACEHOLDER = re.compile(
    r"\[\*\*(?P<mimic>[^\[\]]{0,200})\*\*\]"
    r"|[\[［](?P<capitals>[A-Z][A-Z0-9_ \-/:#.]{0,60})[\]］]"
    rf"|[\[［](?P<japanese>{_JAPANESE})[\]］]"
    r"|_{3,}"
)
_MIMIC_ROLES = (
    (
        "first",
        r"known (patient )?firstname|((male|female|doctor) )?first name|name10 \(nameis\)"
        r"|name6 \(md\)",
    ),
    (
        "last",
        r"known (patient )?lastname|(doctor )?last name|name \(stitle\)|name[78] \(md\)"
        r"|name11 \(nameis\)|name1[34]\b|name5 \(ptitle\)",
    ),
    ("initial", r"(known |name )?initials?\b"),
)
# Between two places: the full stop of a removed initial, white space, a comma, an initial left.
_NAME_SLOTS_GAP = re.compile(r"\.?\s*,?\s*(?:[A-Z]\.?\s+)?")
_NAME_SLOTS_MAX_GAP_CHARS = 20
_LINE_BREAK = re.compile("[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")
_GONE = "\0"


@dataclass(frozen=True)
class NameSlot:
    """The first place of a full name in a text, and the text around it.

    Attributes
    ----------
    left, right
        Text before and after, other placeholders deleted, line breaks as spaces.
    roles
        ("first", "last"), ("last", "first"), or ("full",).
    separator
        What stands between the two places; "" for one place.
    """

    left: str
    roles: tuple[str, ...]
    separator: str
    right: str


@dataclass(frozen=True)
class _Found:
    start: int
    stop: int
    role: str


def find_name_slot(text: str) -> NameSlot | None:
    """Find the first place of a full name; None where there is none.

    Either one placeholder for the whole name, or a first and a last name next to each other in
    either order, with at most a comma and one middle initial (which is dropped) between them.
    """
    found = [_Found(m.start(), m.end(), _role(m)) for m in _PLACEHOLDER.finditer(text)]
    for index, place in enumerate(found):
        if place.role == "full":
            roles: tuple[str, ...] = ("full",)
            separator, stop = "", place.stop
        elif (partner := _partner(text, found, index)) is not None:
            roles = (place.role, partner.role)
            separator, stop = _separator(text, place, partner), partner.stop
        else:
            continue
        return NameSlot(
            left=_cleaned(text[: place.start]).lstrip(),
            roles=roles,
            separator=separator,
            right=_cleaned(text[stop:]).rstrip(),
        )
    return None


def _role(match: re.Match[str]) -> str:
    if match["mimic"] is not None:
        category = " ".join(match["mimic"].lower().split())
        for role, pattern in _MIMIC_ROLES:
            if re.match(pattern, category):
                return role
        return "other"
    word = match["capitals"] or match["japanese"] or ""
    return _ROLES.get(" ".join(word.replace("_", " ").split()), "other")


def _partner(text: str, found: list[_Found], index: int) -> _Found | None:
    place = found[index]
    if place.role not in ("first", "last"):
        return None
    for partner in found[index + 1 : index + 3]:
        if partner.start - place.stop > _NAME_SLOTS_MAX_GAP_CHARS:
            return None
        gap = _NAME_SLOTS_GAP.fullmatch(text, place.stop, partner.start)
        if not gap or (gap[0].startswith(".") and place.role != "initial"):
            return None
        if {found[index].role, partner.role} == {"first", "last"}:
            return partner
        if partner.role != "initial":
            return None
        place = partner
    return None


def _separator(text: str, place: _Found, partner: _Found) -> str:
    between = _PLACEHOLDER.sub("", text[place.stop : partner.start])
    if "," in between:
        return ", "
    if not between:
        return ""
    return "\u3000" if between.strip(" ") == "\u3000" else " "


def _cleaned(text: str) -> str:
    # A text may hold NULs (from JSON); they go first, since here a NUL marks what was deleted.
    text = _PLACEHOLDER.sub(_GONE, text.replace(_GONE, ""))
    return re.sub(rf"[\s{_GONE}]+", _name_slots_blank, text)


def _name_slots_blank(match: re.Match[str]) -> str:
    run = match[0]
    if _GONE in run:
        return " " if run.strip(_GONE) else ""
    return " " if _LINE_BREAK.search(run) else run
