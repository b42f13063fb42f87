"""The place of a person's name in de-identified text, and the text without its other placeholders.

Placeholders known: `[NAME]` and the like in capitals, `[氏名]` and the like, MIMIC-III's
`[**Known firstname 123**]` in the categories of the public KART code, MIMIC-IV's `___`. A bracketed
word in lower case is text.

Source: Nakamura et al., section 4.2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
_GAP = re.compile(r"\.?\s*,?\s*(?:[A-Z]\.?\s+)?")
_MAX_GAP_CHARS = 20
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
        if partner.start - place.stop > _MAX_GAP_CHARS:
            return None
        gap = _GAP.fullmatch(text, place.stop, partner.start)
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
    return re.sub(rf"[\s{_GONE}]+", _blank, text)


def _blank(match: re.Match[str]) -> str:
    run = match[0]
    if _GONE in run:
        return " " if run.strip(_GONE) else ""
    return " " if _LINE_BREAK.search(run) else run
