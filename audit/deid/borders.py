"""Where a find begins and ends: no punctuation at its ends, no word, number, name or place cut.

What is added depends on what stands beside a find alone. Whatever finds something asks
`whole_finds`, which folds texts and moves finds back into them.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import takewhile
from operator import itemgetter

from audit.deid.tagger import Tags
from audit.deid.unspaced import grown_find, is_katakana
from audit.notes.folding import build_mark_class, fold_text
from audit.notes.mention_words import WORDS
from audit.notes.patterns import CAPITAL, HIRA, KATA
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
    Span,
)
from audit.text import is_unspaced

_PAIRS = dict(zip("(（「[［<＜", ")）」]］>＞", strict=True))
_OPENING = {closing: opening for opening, closing in _PAIRS.items()}
_NUMBER = re.compile(r"\d+(?:[-/.‐−－／．]\d+)+")
_CODE = re.compile(r"[A-Za-z0-9]+(?:[-/_.#][A-Za-z0-9]+)+")
_HAS_DIGIT = re.compile(r"\S*?\d")
_KANA = re.compile(f"[{HIRA}{KATA}]")
_CODES = (CONTACT, LINKAGE_CODE, PERSONAL_ID_CODE)
_PARTICLE = "|".join(sorted(WORDS["particles"] - {"y", "av", "af", "st"}, key=len, reverse=True))
_WORD = "[^\\W\\d_]"
_NAMES_BEFORE = re.compile(rf"(?:(?<![\w])(?:(?i:{_PARTICLE})[ -])+|(?<![\w])[OD]['’]|{_WORD}+-)$")
_NAMES_BEHIND = re.compile(rf"(?:-(?=[{CAPITAL}]){_WORD}+)+")
_PLACE_BEFORE = re.compile(
    r"\b(?:(?:North|South|East|West|New|Fort|Ft\.?|Port|Saint|St\.?|San|Santa|Los|Las|El|Mount|Mt\.?"
    r"|Lake|Upper|Lower|Great|Little|Old|Cape|Isle of|Bay) )+$"
)
_PLACE_BEHIND = re.compile(
    r" (?:City|County|Township|Heights|Falls|Springs|Beach|Hills?|Village|Park|Valley|Lakes?|Island"
    r"|Bay|Ridge|Creek|Junction|Grove|Point|Harbou?r|Shire|Street|Road|Avenue|Lane|Drive|Square|Way"
    r"|Crescent|Close|Terrace|Court|Boulevard|Estate|Hospital|Clinic|Medical Center|Medical Centre"
    r"|University|College|School|Infirmary|Hospice|Nursing Home|Care Home|House|Lodge|Manor|Church"
    r"|Airport|Prison|Station)\b(?! (?:score|scale))"
)
_N_AROUND = 40
_FIELDS = frozenset(
    (
        "tel",
        "fax",
        "phone",
        "ph",
        "ext",
        "mrn",
        "urn",
        "id",
        "dob",
        "no",
        "nhs",
        "ssn",
        "mr",
        "mrs",
        "ms",
        "dr",
        "pt",
        "acct",
        "ref",
        "hx",
        "dx",
        "rx",
        "cc",
        "hpi",
    )
)
_NO_NAMES = WORDS["no_names"] | WORDS["generic"] | WORDS["relatives"]
_ORIGINS = frozenset(("white", "black", "hispanic", "caucasian", "asian", "noon", "midnight"))
_SMALL_FINDS = WORDS["jobs"] | WORDS["male"] | WORDS["female"] | _ORIGINS
_THINGS = (
    r"(?:[Tt]ests?|[Ss]cales?|[Ii]nventory|[Ee]xam(?:ination)?|[Bb]attery|[Ii]ndex|[Ss]core|Edition"
    r"|[Qq]uestionnaire|[Ss]igns?|[Ss]yndrome|[Dd]isease|[Cc]riteria|[Cc]lassification|[Mm]aneuver"
    r"|[Pp]rocedure|[Ss]cissors|[Ff]orceps|[Cc]lamps?|[Rr]etractors?|[Ss]utures?|[Cc]atheter|[Ss]tent"
    r"|[Dd]rain|[Nn]eedle|[Pp]alsy|[Ff]racture|[Rr]eflex|[Pp]hase|[Bb]locker|[Dd]epartment)\b"
)
_THING = re.compile(rf"\b{_THINGS}$")
_THING_BEHIND = re.compile(rf"(?:['’]s)?[ -](?:[A-Z][\w-]+ (?:of )?){{0,2}}{_THINGS}")


# Scripts that put no spaces between words: in them a find need not end where letters end.
_UNSPACED = (
    "\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u3005-\u312f\u31a0-\u9fff"
    "\ua000-\ua4cf\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f\U00016fe0-\U0001b2ff"
    "\U00020000-\U0003ffff"
)
_LETTER = re.compile(f"[^\\W\\d_{_UNSPACED}]")
_APOSTROPHES = "'’‘`´′＇"
_INNER = frozenset(_APOSTROPHES + "-‐‑－\u00b7\u058a\u05be\u05f3\u05f4")
"""Signs that join letters to one word; modifier letters such as the ʻokina are letters."""
_POSSESSIVE = re.compile(rf"[{_APOSTROPHES}][sSｓＳ](?![^\W_])")


def whole_finds(
    texts: Sequence[str], find: Callable[[Sequence[str]], Iterable[Tags]]
) -> tuple[Tags, ...]:
    """Return what is found in texts: looked for in their folded form, in whole words."""
    folded = [fold_text(text) for text in texts]
    answers = find([one.text for one in folded])
    return tuple(
        one.source_spans(with_whole_words(one.text, spans))
        for one, spans in zip(folded, answers, strict=True)
    )


def with_whole_words(text: str, spans: Tags) -> Tags:
    """Return finds that begin and end where words do, as far as the finds beside them let them.

    A word is letters with their marks, and single apostrophes and hyphens between them, but for a
    possessive 's. Scripts without spaces have no words: in Japanese a find grows as `unspaced.py`
    says, in others it ends behind the marks of its last character. Numbers and codes are no words.
    """
    whole: list[Span] = []
    for place, span in enumerate(spans):
        free = whole[-1].end if whole else 0
        limit = spans[place + 1].start if place + 1 < len(spans) else len(text)
        start, end = span.start, span.end
        if span.label in _CODES and _HAS_DIGIT.match(text, start):  # IDN24-0061 begins with a cue
            whole.append(span)
            continue
        while start > free and _is_inside_word(text, start):
            start -= 1
        while end < limit and _is_inside_word(text, end):
            end += 1
        is_cut = (start, end) != (span.start, span.end)
        word = Span(start, end, span.label) if is_cut else span
        whole.append(grown_find(text, word, free=free, limit=limit))
    return tuple(whole)


def is_possessive(text: str) -> bool:
    """Whether a text is nothing but a possessive 's."""
    return _POSSESSIVE.fullmatch(text) is not None


def _is_inside_word(text: str, place: int) -> bool:
    """Whether the characters before and behind a place belong to one word."""
    behind = text[place : place + 1]
    if not behind or behind.isspace():
        return False
    if not behind.isascii() and _is_mark(behind):
        return place > 0 and not text[place - 1].isspace()
    if _LETTER.match(behind):
        before = place - 1
        if before > 0 and text[before] in _INNER and not _POSSESSIVE.match(text, before):
            before -= 1
        return _ends_letter(text, before + 1)
    return (
        behind in _INNER
        and _ends_letter(text, place)
        and bool(_LETTER.match(text, place + 1))
        and not _POSSESSIVE.match(text, place)
    )


def _ends_letter(text: str, place: int) -> bool:
    """Whether a letter stands before a place, with or without marks on it."""
    before = place - 1
    while before > 0 and not text[before].isascii() and _is_mark(text[before]):
        before -= 1
    return before >= 0 and _LETTER.match(text, before) is not None


def _is_mark(char: str) -> bool:
    return _marks().match(char) is not None


@cache
def _marks() -> re.Pattern[str]:
    return re.compile(f"[{build_mark_class()}\uff9e\uff9f]")


def tidied(text: str, found: Tags, *, beside: Tags) -> list[Span]:
    """Return finds of a model with borders that cut nothing; what `beside` holds is left to it.

    A find of punctuation alone is none.
    """
    bare = [span for span in (_without_edges(text, span) for span in found) if span is not None]
    if not bare:
        return []
    numbers = [match.span() for match in _NUMBER.finditer(text)]
    codes = [m.span() for m in _CODE.finditer(text) if _HAS_DIGIT.match(text, m.start())]
    others = sorted((*bare, *beside))
    tidy = []
    for span in bare:
        units = _beside(numbers, span)
        if span.label in _CODES:
            units += _beside(codes, span)
        tidy.append(_with_whole(span, units, others))
    return tidy


def _beside(units: Sequence[tuple[int, int]], span: Span) -> list[tuple[int, int]]:
    """Return those of units in order, which share no character, that share one with a span."""
    first = bisect_right(units, span.start, key=itemgetter(1))
    return [*takewhile(lambda unit: unit[0] < span.end, units[first:])]


def is_no_find(text: str, span: Span) -> bool:
    """Whether what a model found alone, in a text with capitals, is nobody's.

    That is the name of a field, a letter, one kana, small words that are nobody's name, one small
    word that is no job, sex or origin, the number of a list's line, and who gave a test, a disease
    or a tool its name. Not to be asked of texts in small letters throughout: there names are small
    too.
    """
    written, behind = text[span.start : span.end], text[span.end : span.end + _N_AROUND]
    words = [word.strip(".,:;#") for word in written.split()]
    if all(word.lower() in _FIELDS or (word.islower() and word in _NO_NAMES) for word in words):
        return True
    if len(written) == 1 and _KANA.match(written):
        return True
    if len(words) == 1 and written.isascii() and written.islower() and written.isalpha():
        return words[0] not in _SMALL_FINDS
    if (
        written.isdigit()
        and behind[:1] in ".)"
        and not text[: span.start].rpartition("\n")[2].strip()
    ):
        return True
    is_named = span.label in (IDENTIFIER, QUASI_IDENTIFIER) and written[0].isupper()
    is_lone = len(words) == 1  # "Margaret Ellis procedure tomorrow" is a patient's
    return is_named and bool(_THING.search(written) or (is_lone and _THING_BEHIND.match(behind)))


def _without_edges(text: str, span: Span) -> Span | None:
    """Return a span without the punctuation and white space at its ends, of a name without 's.

    None if nothing is left.

    A bracket stays where its partner is inside, a closing point where another one is: "A.B.".
    """
    start, end = span.start, span.end
    while start < end and _is_edge(text[start]):
        if _PAIRS.get(text[start], "\0") in text[start + 1 : end]:
            break
        start += 1
    while start < end and _is_edge(last := text[end - 1]):
        inside = text[start : end - 1]
        if _OPENING.get(last, "\0") in inside or (last in ".．" and last in inside):
            break
        end -= 1
    if end - 2 > start and _POSSESSIVE.match(text, end - 2) and span.label == IDENTIFIER:
        end -= 2  # of a place or a hospital it is a part: St Mary's
    return Span(start, end, span.label) if start < end else None


def _is_edge(char: str) -> bool:
    return char.isspace() or char in _PAIRS or unicodedata.category(char)[0] == "P"


def _with_whole(span: Span, units: Sequence[tuple[int, int]], others: Sequence[Span]) -> Span:
    """Return a span that ends at the ends of numbers; what another span holds is left to it."""
    whole = Span(
        min([span.start, *(first for first, _ in units)]),
        max([span.end, *(last for _, last in units)]),
        span.label,
    )
    if whole == span or any(one.overlap(whole) > one.overlap(span) for one in others):
        return span
    return whole


def with_whole_names(text: str, found: Tags) -> Tags:
    """Return finds grown over the particles, halves and kinds of names and places beside them.

    "van der" before a name, the other half of one with a hyphen, "City" behind a place, "New" in
    front. Parts of a name beside a whole one become one with it.
    """
    grown: list[Span] = []
    for place, one in enumerate(found):
        free = grown[-1].end if grown else 0
        limit = found[place + 1].start if place + 1 < len(found) else len(text)
        may_grow = one.label in (IDENTIFIER, QUASI_IDENTIFIER) and text[one.start].isupper()
        span = _grown(text, one, free=free, limit=limit) if may_grow else one
        last = grown[-1] if grown else None
        if last is not None and _is_one_name(text, last, span):
            grown[-1] = Span(last.start, span.end, IDENTIFIER)
        else:
            grown.append(span)
    return tuple(grown)


def _grown(text: str, span: Span, *, free: int, limit: int) -> Span:
    start, end = span.start, span.end
    before = text[max(free, start - _N_AROUND) : start]
    for pattern in (_NAMES_BEFORE, _PLACE_BEFORE):
        if match := pattern.search(before):
            start -= len(match[0])
            break
    for pattern in (_NAMES_BEHIND, _PLACE_BEHIND):
        if match := pattern.match(text, end, min(limit, end + _N_AROUND)):
            end = match.end()
    return Span(start, end, span.label)


def _is_one_name(text: str, first: Span, second: Span) -> bool:
    """Whether two finds are parts of one name: the one is a whole name, a blank between them."""
    if IDENTIFIER not in (first.label, second.label):
        return False
    if {first.label, second.label} - {IDENTIFIER, QUASI_IDENTIFIER}:
        return False
    between = text[first.end : second.start]
    parts = text[first.start : first.end], text[second.start : second.end]
    if between in ("・", "=", "＝"):
        return all(map(is_katakana, parts))
    return between in (" ", "-") and all(
        part[0].isupper() and not is_unspaced(part) and not any(char.isdigit() for char in part)
        for part in parts
    )
