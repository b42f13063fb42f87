"""The tagger by rules: dates, ages, numbers, contacts, addresses, hospitals, names behind a cue.

It needs no model and no training; `deid score` counts what it misses. The patterns stand in
`rules.txt` and are kept by hand, since no library knows Japanese notes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import dropwhile, takewhile
from typing import NamedTuple

from audit.deid.find.borders import tag_whole_words
from audit.names.japanese_names import list_japanese_names
from audit.names.people import insurer_check_digit, my_number_check_digit
from audit.names.pools import english_names
from audit.notes.mention_words import (
    GENERIC,
    JAPANESE_NO_NAME,
    JAPANESE_SURNAMES,
    NO_NAMES,
    WORDS,
)
from audit.notes.mentions import find_mentions
from audit.notes.patterns import (
    HIRA,
    KATA,
    CompiledParts,
    compile_pattern,
    fold_characters,
    read_pattern_table,
)
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, TYPES, Span, Tags, drop_overlaps
from audit.text import is_unspaced

SURE, CUED, SHAPED, LOOSE = 4, 3, 2, 1
"""Weights of rules; `rules.txt` says what they mean."""

_PARTS, _TABLE = read_pattern_table(__file__)
_RE = CompiledParts(_PARTS, compile_pattern)
_ENGLISH_GENERIC, _NOT_BEFORE_TITLE, _KINSHIP = (
    frozenset(_PARTS[name].split("|"))
    for name in ("ENGLISH_GENERIC", "NOT_BEFORE_TITLE", "KINSHIP")
)


class WeightedSpan(NamedTuple):
    """A span and the weight of the rule that found it."""

    span: Span
    weight: int


def keep_strongest(matches: Iterable[WeightedSpan]) -> Tags:
    """Return the strongest of spans that share characters; sorted, without overlap.

    Of two spans the heavier one is kept, then the longer one, then the one that begins first.
    """
    order = sorted(matches, key=lambda match: (-match.weight, -match.span.n_chars, match.span))
    return drop_overlaps(match.span for match in order)


def _is_day(match: re.Match[str]) -> bool:
    """Whether the first two numbers of a match can be a month and a day, in either order."""
    low, high = sorted(map(int, re.findall(r"[0-9]+", match[0])[:2]))
    return 1 <= low <= 12 and high <= 31


@cache
def _list_small_names() -> frozenset[str]:
    return frozenset(name.lower() for name in english_names() if len(name) > 3)


def is_user_name(word: str) -> bool:
    """Whether a word is a user name made of a person's name: hvoss2, BFENWICK2, nellie_crabbe."""
    names = _list_small_names()
    stems = [stem.rstrip("0123456789") for stem in re.split("[._]", word.lower())]
    if len(stems) == 1:
        return stems[0] in names or stems[0][1:] in names
    is_marked = word[-1].isdigit() or "_" in word
    return is_marked and any(stem in names and stem not in NO_NAMES for stem in stems)


def _is_checked(match: re.Match[str], check_digit: Callable[[str], str]) -> bool:
    digits = "".join(filter(str.isdigit, match["value"]))
    return check_digit(digits[:-1]) == digits[-1]


_CHECKS: dict[str, Callable[[re.Match[str]], bool]] = {
    "": lambda match: True,
    "is_day": _is_day,
    "is_packed_day": lambda match: (
        1 <= int(match["value"][4:6]) <= 12 and 1 <= int(match["value"][6:]) <= 31
    ),
    "is_human_age": lambda match: int(match["years"]) <= 120,
    "is_my_number": lambda match: _is_checked(match, my_number_check_digit),
    "is_insurer": lambda match: (
        bool(_RE["INSURANCE"].search(match.string)) and _is_checked(match, insurer_check_digit)
    ),
    "has_three_digits": lambda match: sum(map(str.isdigit, match["value"])) >= 3,
    "has_four_digits": lambda match: sum(map(str.isdigit, match["value"])) >= 4,
    # Names of substances, genes and grades have few digits: IL-6, CA19-9, C5-6.
    "is_code": lambda match: (
        sum(map(str.isdigit, match["value"])) >= 4 and not _RE["NO_CODE"].match(match["value"])
    ),
    # Whether the name has more than the words that any hospital may have in its name.
    "is_named": lambda match: (
        not match["name"].endswith(tuple("のはがをにでも"))
        and not _RE["GENERIC"].fullmatch(match["name"])
    ),
    "is_named_english": lambda match: any(
        word.strip(".,").lower() not in _ENGLISH_GENERIC and not _RE["MASKED"].fullmatch(word)
        for word in match["name"].split()
    ),
    "is_user_name": lambda match: is_user_name(match["value"]),
}
Rule = tuple[str, int, re.Pattern[str], Callable[[re.Match[str]], bool]]
"""The label of the spans, the weight, the pattern over folded text, and a check of its matches."""


def _parse_rule(entry: str, pattern: str) -> Rule:
    _, label, weight, *option_texts = entry.split(" | ")
    options = dict(option.partition(" ")[::2] for option in option_texts)
    return (
        QUASI_IDENTIFIER if label == "quasi" else label,
        {"sure": SURE, "cued": CUED, "shaped": SHAPED, "loose": LOOSE}[weight],
        compile_pattern(pattern, re.IGNORECASE if "any" in options else 0),
        _CHECKS[options.get("check", "")],
    )


GROUPS = ("dates", "times", "numbers", "contact", "hospitals", "names")
"""The groups of rules; most names are found by `find_names` instead."""


@cache
def _compile_rules(group: str) -> list[Rule]:
    return [_parse_rule(*entry) for entry in _TABLE.get(group, ())]


RULES_VERSION = "rules 5"
"""Goes up with every change of the spans: figures that were measured with older rules are invalid.

A test holds the answers of this version on synthetic notes.
"""


@dataclass(frozen=True)
class RuleTagger:
    """Finds spans by rules; `groups` are some of `GROUPS`."""

    groups: tuple[str, ...] = GROUPS

    name = "rules"
    labels = TYPES
    is_light = True

    @property
    def digest(self) -> str:
        """SHA-256 of the version of the rules and of the groups in use."""
        return hashlib.sha256(" ".join((RULES_VERSION, *self.groups)).encode()).hexdigest()

    def tag(self, texts: Sequence[str]) -> tuple[Tags, ...]:
        """Return the spans of each text."""
        return tag_whole_words(texts, self._tag_folded)

    def _tag_folded(self, texts: Sequence[str]) -> Iterator[Tags]:
        for folded in map(fold_characters, texts):
            matches = {match for _, match in self.find_spans(folded)}
            loose_spans = [match.span for match in matches if match.weight == LOOSE]
            accepted = set(drop_clinical_values(folded, loose_spans))
            yield keep_strongest(
                match for match in matches if match.weight != LOOSE or match.span in accepted
            )

    def find_spans(self, folded: str) -> Iterator[tuple[str, WeightedSpan]]:
        """Yield all spans in a folded text with their group; they may share characters."""
        for group in self.groups:
            for label, weight, pattern, check in _compile_rules(group):
                place = "value" if "value" in pattern.groupindex else 0
                for match in pattern.finditer(folded):
                    start, end = match.span(place)
                    if start < end and check(match):
                        yield group, WeightedSpan(Span(start, end, label), weight)
        if "names" in self.groups:
            yield from (("names", match) for match in find_names(folded))


_MAX_MONTH, _MAX_YEAR = 12, 99
_FRACTION = _PARTS["ANY_FRACTION"]


def _parse_wholes(text: str) -> set[int]:
    first, dash, last = text.partition("-")
    return set(range(int(first), int(last) + 1)) if dash else set(map(int, text.split()))


@cache
def _compile_values() -> list[re.Pattern[str]]:
    return [compile_pattern(pattern) for _, pattern in _TABLE["values"]]


@cache
def _compile_scales() -> list[tuple[re.Pattern[str], set[int], bool]]:
    """Return each scale's fractions, its wholes, and whether the cue stands before."""
    return [
        *(
            (compile_pattern(f"{cue}{_PARTS['NEAR']}{_FRACTION}"), _parse_wholes(wholes), True)
            for wholes, cue in _TABLE["scales"]
        ),
        *(
            (compile_pattern(f"{_FRACTION} ?(?P<cue>{cue})"), _parse_wholes(wholes), False)
            for wholes, cue in _TABLE["scales behind"]
        ),
    ]


def drop_clinical_values(text: str, spans: Sequence[Span]) -> list[Span]:
    """Return the spans that hold more than clinical values."""
    if not spans:
        return []
    folded = fold_characters(text)
    clinical = find_clinical_places(folded)
    words = ([i for i in range(span.start, span.end) if folded[i].isalnum()] for span in spans)
    rows = zip(spans, words, strict=True)
    return [span for span, places in rows if not places or not clinical.issuperset(places)]


@lru_cache(maxsize=128)  # a text is read for rules, for a model and at its release
def find_clinical_places(folded: str) -> frozenset[int]:
    """Return the positions of a folded text that belong to clinical values."""
    return frozenset(place for bounds in _find_clinical_values(folded) for place in range(*bounds))


def _find_clinical_values(folded: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the clinical values in a folded text, and of their cues."""
    for pattern in _compile_values():
        for match in pattern.finditer(folded):
            yield match.span("value")
            if "cue" in pattern.groupindex:
                yield match.span("cue")
    for sentence in _RE["SENTENCE"].finditer(folded):
        if folded.find("/", *sentence.span()) >= 0:
            yield from _find_fractions(folded, *sentence.span())


def _find_fractions(folded: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the fractions of a sentence that belong to a scale or cannot be a day."""
    scale_wholes: set[int] = set()
    day_cue = _RE["DAY_CUE"]
    for pattern, wholes, is_before in _compile_scales():
        for match in pattern.finditer(folded, start, end):
            day = is_before and day_cue.search(folded, start, match.start("value"))
            near = folded[day.start() - 9 : day.start()].lower() if day else ""
            if (not day or match["cue"].lower() in near) and int(match["whole"]) in wholes:
                scale_wholes.add(int(match["whole"]))
                yield match.span("value")
    for match in _RE["ANY_FRACTION"].finditer(folded, start, end):
        numerator, denominator = int(match["part"]), int(match["whole"])
        is_day = (
            1 <= min(numerator, denominator) <= _MAX_MONTH
            and max(numerator, denominator) <= _MAX_YEAR
        )
        is_same_scale = denominator in scale_wholes and numerator <= denominator
        if not is_day or (is_same_scale and not day_cue.search(folded, start, match.start())):
            yield match.span("value")


_ENGLISH_NAMES = {"DOCTOR": CUED, "EN_TITLED": CUED, "EN_CUED": CUED, "EN_DEGREE": SHAPED}
_NO_ENGLISH_NAMES = NO_NAMES | GENERIC
_NAMES_LIKE_WORDS = frozenset({"Will", "May", "Rich"})
_NO_PARTS = NO_NAMES | WORDS["particles"]
_RELATIVE_ENDS = (
    "看護師",
    "医師",
    "母",
    "父",
    "夫",
    "妻",
    "娘",
    "息子",
    "孫",
    "業者",
    "屋",
    "員",
    "者",
    "手",
)
_TITLES = ("看護師", "医師", "先生", "様", "殿", "氏", "君", "さん")


def find_names(folded: str) -> Iterator[WeightedSpan]:
    """Yield the names in a folded text, then all occurrences of the full names and their parts."""
    matches = list(_find_first_mentions(folded))
    yield from matches
    full_names = [folded[span.start : span.end] for span, _ in matches if span.label == IDENTIFIER]
    names: dict[str, str] = {}
    for name in full_names:
        for part, label in _split_full_name(name):
            names.setdefault(part, label)
    names |= dict.fromkeys(full_names, IDENTIFIER)
    for name, label in sorted(names.items()):
        for start, end in _find_occurrences(name, folded):
            yield WeightedSpan(Span(start, end, label), LOOSE)


def _find_occurrences(name: str, folded: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of each occurrence of a name; one in Latin letters is whole words."""
    end = 0
    while (start := folded.find(name, end)) >= 0:
        end = start + len(name)
        if is_unspaced(name) or all(_is_border(folded, place) for place in (start, end)):
            yield start, end
        else:
            end = start + 1


def _is_border(text: str, place: int) -> bool:
    """Whether a word begins or ends at a position, as in a pattern."""
    char_before, char_behind = text[place - 1 : place] if place else "", text[place : place + 1]
    return _is_letter(char_before) != _is_letter(char_behind)


def _is_letter(char: str) -> bool:
    return char.isalnum() or char == "_"


def _find_first_mentions(folded: str) -> Iterator[WeightedSpan]:
    weighted_places = list(_find_japanese_names(folded))
    for name, weight in _ENGLISH_NAMES.items():
        for match in _RE[name].finditer(folded):
            weighted_places.append((*_find_english_name(folded, match, name=name), weight))
    weighted_places += [
        (mention.name_start, mention.name_end, SHAPED)
        for mention in find_mentions(folded)
        if not mention.is_placeholder
    ]
    for start, end, weight in weighted_places:
        if start < end:
            label = IDENTIFIER if is_full_name(folded[start:end]) else QUASI_IDENTIFIER
            yield WeightedSpan(Span(start, end, label), weight)
            # The name's reading in kana stands in brackets behind it.
            if reading := _RE["READING"].match(folded, end):
                yield WeightedSpan(Span(*reading.span("value"), label), CUED)


def _find_japanese_names(folded: str) -> Iterator[tuple[int, int, int]]:
    for match in _RE["BEHIND_CUE"].finditer(folded):
        group = "value" if match["value"] else "spaced"
        if not _RE["JA_NO_NAME"].search(match[group]) and match[group] not in _KINSHIP:
            yield *_trim_japanese_name(folded, *match.span(group)), CUED
    for match in _RE["JA_TITLED"].finditer(folded):
        start, end = match.span("value")
        for name_start in dict.fromkeys((start, folded.find(" ", start, end) + 1 or start)):
            if _is_titled(folded[name_start:end], match["title"].strip()):
                yield name_start, end, SHAPED
                break


def _is_titled(name: str, title: str) -> bool:
    """Whether the text before a title is a name, by the lists and by the title."""
    joined_name = name.replace(" ", "")
    if (
        name in _NOT_BEFORE_TITLE
        or JAPANESE_NO_NAME.search(joined_name)
        or joined_name.startswith(("お", "御"))
        or joined_name.endswith(_RELATIVE_ENDS)
        or _RE["JA_NO_NAME"].search(joined_name)
    ):
        return False
    given_name = name.partition(" ")[2]
    is_listed = given_name in list_japanese_names().given_names or any(
        joined_name[:n] in JAPANESE_SURNAMES for n in (1, 2, 3) if n <= len(joined_name)
    )
    if title in ("さん", "さま", "ちゃん", "くん", "先生"):
        return (is_listed or 2 <= len(joined_name) <= 5) and not re.fullmatch(
            rf"[{KATA}・]+", joined_name
        )
    return is_listed and not (len(joined_name) == 1 and title in ("様", "氏", "君", "殿", "医師"))


def _find_english_name(folded: str, match: re.Match[str], *, name: str) -> tuple[int, int]:
    """Return start and end of the name in a match, without words that are no names.

    Beside a title or a degree a word that can be a name counts as a name: Dr. Will May,
    GRACE HOPE, DO.
    """
    is_in_capitals = bool(match.groupdict().get("capitals"))
    start, end = match.span("capitals" if is_in_capitals else "value")
    names = english_names() | _NAMES_LIKE_WORDS if name != "EN_CUED" else frozenset()
    start, end = _trim_english_name(folded, start, end, names=names)
    is_modal = is_in_capitals and folded[start:end] in ("WILL", "MAY")  # DR WILL SEE HER
    return (start, start) if is_modal else (start, end)


def _trim_english_name(
    folded: str, start: int, end: int, *, names: frozenset[str]
) -> tuple[int, int]:
    """Return start and end of a name without the words at both ends that are no names."""

    def is_no_name(match: re.Match[str]) -> bool:
        word = match[0]
        is_initial = len(word) == 1 or (len(word) == 2 and word.endswith("."))
        is_listed = word.strip(".'").capitalize() in names
        return not (is_initial or is_listed) and word.lower().strip(".'") in _NO_ENGLISH_NAMES

    words = re.compile(r"[^\s,]+").finditer(folded, start, end)
    name_words = list(takewhile(lambda word: not is_no_name(word), dropwhile(is_no_name, words)))
    if not name_words:
        return start, start
    start, end = name_words[0].start(), name_words[-1].end()
    name = folded[start:end]
    if name.endswith("'s"):
        return start, end - 2
    return start, end - (len(name) == 2 and name.endswith("."))  # the stop ends a sentence


def _trim_japanese_name(folded: str, start: int, end: int) -> tuple[int, int]:
    """Return start and end of a name without a title or the next field of a form at its end."""
    blank = folded.find(" ", start, end)
    if blank >= 0 and (
        _RE["FIELD_END"].match(folded, end) or _RE["FIELD"].match(folded, blank + 1)
    ):
        end = blank  # "佐藤花子 紹介元:" is a name and a field
    name = folded[start:end]
    titles = (title for title in _TITLES if name.endswith(title) and len(name) > len(title) + 1)
    return start, end - len(next(titles, ""))


_LEADING_PARTICLES = re.compile("^" + _PARTS["EN_PARTICLES"])


def is_full_name(name: str) -> bool:
    """Whether a name has more than one part; a surname or a given name alone identifies less."""
    if re.search(r"\S[ ・=,]+[^\s.]", _LEADING_PARTICLES.sub("", name.strip(), count=1)):
        return True
    if (
        not is_unspaced(name)
        or name in JAPANESE_SURNAMES
        or re.fullmatch(rf"[{KATA}{HIRA}ｦ-ﾟ]+", name)
    ):
        return False
    return len(name) >= 4 or any(name[:n] in JAPANESE_SURNAMES for n in range(1, len(name)))


def _split_full_name(name: str) -> Iterator[tuple[str, str]]:
    """Yield the forms in which a full name may occur again, with their types."""
    parts = re.split(r"[ ・=,]+", name)
    if not is_unspaced(name):
        searched_parts = [part for part in parts if len(part) > 2 and part.lower() not in _NO_PARTS]
    elif len(parts) > 1:
        yield "".join(parts), IDENTIFIER
        searched_parts = [part for part in parts[:1] if len(part) >= 2]
    else:
        searched_parts = [name[:n] for n in (3, 2) if name[:n] in JAPANESE_SURNAMES][:1]
    yield from ((part, QUASI_IDENTIFIER) for part in searched_parts if part)
