"""Find mentions in Japanese text: 70歳男性の山田太郎, 山田太郎(70歳,男性), 山田太郎は70歳の男性.

The output is that of the English finder: mentions, and ages without one. Japanese has no spaces
that separate a name from a noun. A name is recognized by its length and place, by a list of common
family names, by さん or 様, and by the absence of characters that names do not have.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator

from audit.notes.mention_words import JAPANESE_NO_NAME, JAPANESE_SURNAMES, Mention, Unnamed
from audit.notes.patterns import CompiledParts, read_pattern_table
from audit.notes.placeholders import find_placeholder_role

_WINDOW_CHARS = 60
_SIGNS = ("歳", "才", "代", "年齢")
_KANJI_DIGITS = "〇一二三四五六七八九"
_PARTS, _ = read_pattern_table(__file__)
_RE = CompiledParts(_PARTS)
_NO_NAME_CHARS = frozenset(_PARTS["NO_NAME_CHARS"])
_FORMS = {"は": "ja_is", "が": "ja_is"} | dict.fromkeys("（(［[", "ja_bracket")


def find_japanese_mentions(text: str) -> Iterator[Mention | Unnamed]:
    """Yield, for every age in Japanese, its mention or the reason why there is none."""
    if not any(sign in text for sign in _SIGNS):
        return
    for match in _RE["AGE"].finditer(text):
        sex = _RE["SEX_AFTER"].match(text, match.end()) or _RE["SEX_FIELD"].match(text, match.end())
        end = sex.end() if sex else match.end()
        mention = _find_before(match, end, sex["sex"] if sex else "")
        if mention is None and sex:
            mention = _find_after(match, end, sex["sex"])
        generic = _RE["GENERIC"].search(text, max(0, match.start() - 12), match.start())
        if mention is not None:
            yield mention
        elif sex or generic:
            age_start = match.start()
            first, reason = (generic.start(), "generic") if generic else (age_start, "none")
            yield Unnamed(age_start, end, first, age_start, reason)


def split_japanese_name(name: str) -> tuple[str, str]:
    """Split a name into (first, last): at a space or dot, else by the list and by its length."""
    if match := re.fullmatch("(.*?)[\u3000 ] *(.*)", name):
        return match[2], match[1]
    if match := re.fullmatch("(.*)[・＝=](.*)", name):
        return match[1], match[2]
    han = re.match(f"[{_PARTS['HAN']}]+", name)
    n_han = han.end() if han else 0
    if n_han < len(name) or len(name) < 2:  # kana: the given name begins there at the latest
        n_last = next((n for n in (3, 2, 1) if name[:n] in JAPANESE_SURNAMES), n_han)
        return (name[n_last:], name[:n_last]) if n_last else ("", name)
    usual = {2: {1: 2.0}, 3: {2: 2.0}, 4: {2: 2.5}, 5: {2: 1.5, 3: 1.2}, 6: {3: 2.0}}[
        min(len(name), 6)
    ]

    def fitness(n_last: int) -> float:
        listed = (1.0 + n_last) if name[:n_last] in JAPANESE_SURNAMES else 0.0
        return listed * (n_last < 4) + usual.get(n_last, 0.0)

    n_last = max(range(1, len(name)), key=fitness)
    return name[n_last:], name[:n_last]


def _find_before(age: re.Match[str], end: int, sex: str) -> Mention | Unnamed | None:
    text, age_start = age.string, age.start()
    first = max(0, age_start - _WINDOW_CHARS)
    match, form = _RE["FIELDS"].search(text, first, age_start), "ja_fields"
    if match is None:
        match = _RE["BEFORE"].search(text, first, age_start)
        # The longest match comes first, but a shorter one may be the name ("患者は山田太郎、").
        while match is not None and not _is_name(match, has_sex=bool(sex or match["sex"])):
            match = _RE["BEFORE"].search(text, match.start() + 1, age_start)
        if match is None:
            return None
        if _RE["RELATIVE"].search(text, max(0, match.start() - 6), match.start()):
            return Unnamed(age_start, end, age_start, age_start, "relative")
        form = _FORMS.get(match["link"].strip()[:1], "ja_comma")
    return _make_mention(
        match, age, form=form, start=age_start, end=end, sex=sex or match["sex"] or ""
    )


def _find_after(age: re.Match[str], end: int, sex: str) -> Mention | None:
    text = age.string
    match = _RE["AFTER"].match(text, end, min(len(text), end + _WINDOW_CHARS))
    if match is None or not _is_name(match, has_sex=True):
        return None
    return _make_mention(match, age, form="ja_after", start=age.start(), end=end, sex=sex)


def _is_name(match: re.Match[str], *, has_sex: bool) -> bool:
    if match["slots"] is not None:
        return _find_slot_roles(match["slots"]) != ()
    name, honour = match["name"], match["honour"]
    bare = re.sub(r"[\s・＝=]", "", name)
    if JAPANESE_NO_NAME.search(bare):
        return False
    if honour or len(bare) < len(name):
        return len(bare) > 1 or bool(honour)
    if any(bare[:n] in JAPANESE_SURNAMES and len(bare) - n < 4 for n in (1, 2, 3)):
        return len(bare) > 2 or has_sex
    return has_sex and not _NO_NAME_CHARS & set(bare) and 3 <= len(bare) <= 5


def _find_slot_roles(slots: str) -> tuple[str, ...]:
    roles = tuple(map(find_placeholder_role, _RE["SLOT"].findall(slots)))
    if roles in (("full",), ("blank",)):
        return ("full",)
    if roles == ("blank", "blank"):
        return ("last", "first")
    return roles if {"first", "last"}.issuperset(roles) and len(set(roles)) == len(roles) else ()


def _make_mention(
    match: re.Match[str], age: re.Match[str], *, form: str, start: int, end: int, sex: str
) -> Mention:
    slots = match["slots"]
    name_start, name_end = match.span("name" if slots is None else "slots")
    first, last = split_japanese_name(match["name"]) if slots is None else ("", "")
    roles = ("last", "first") if first else ("last",)
    return Mention(
        name_start=name_start,
        name_end=name_end,
        first=first,
        last=last,
        roles=roles if slots is None else _find_slot_roles(slots),
        is_placeholder=slots is not None,
        start=min(start, name_start),
        end=max(end, name_end),
        age_years=_parse_years(age["number"]),
        sex={"男": "male", "女": "female"}.get(sex[:1], ""),
        form=form,
    )


def _parse_years(number: str) -> float:
    if not number:
        return math.nan
    plain = unicodedata.normalize("NFKC", number)
    if plain.isdigit() and plain.isascii():
        return float(plain)
    total, digit = 0, 0
    for character in number:
        if character in _KANJI_DIGITS:
            digit = digit * 10 + _KANJI_DIGITS.index(character)
        else:
            total += max(digit, 1) * (100 if character == "百" else 10)
            digit = 0
    return float(total + digit)
