"""The borders of spans: no punctuation at an end, and no word, number, name or place is cut.

How far a span grows depends only on the text and the spans beside it. Every tagger tags through
`tag_whole_words`, which folds texts and moves the spans back into the texts as they were.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import takewhile
from operator import itemgetter

from audit.names.japanese_names import list_japanese_names
from audit.notes.folding import build_mark_class, fold_text
from audit.notes.mention_words import WORDS
from audit.notes.patterns import CAPITAL, HAN, HIRA, KATA
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
    Span,
    Tags,
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


# Scripts that put no spaces between words: in them a span may end between two letters.
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


def tag_whole_words(
    texts: Sequence[str], tag: Callable[[Sequence[str]], Iterable[Tags]]
) -> tuple[Tags, ...]:
    """Return the spans that `tag` finds in the folded texts, extended to whole words."""
    folded_texts = [fold_text(text) for text in texts]
    tags_of_texts = tag([folded_texts.text for folded_texts in folded_texts])
    return tuple(
        folded_texts.source_spans(extend_to_words(folded_texts.text, spans))
        for folded_texts, spans in zip(folded_texts, tags_of_texts, strict=True)
    )


def extend_to_words(text: str, spans: Tags) -> Tags:
    """Return spans that begin and end at the borders of words; no span grows into another one.

    A word consists of letters with their marks and of single apostrophes and hyphens between them;
    a possessive 's does not belong to it. Scripts without spaces have no words: in Japanese a span
    grows over the rest of its run of katakana, or over a listed given name behind its surname; in
    other scripts it ends behind the marks of its last character. Numbers and codes are not words.
    """
    word_spans: list[Span] = []
    for index, span in enumerate(spans):
        min_start = word_spans[-1].end if word_spans else 0
        max_end = spans[index + 1].start if index + 1 < len(spans) else len(text)
        start, end = span.start, span.end
        if span.label in _CODES and _HAS_DIGIT.match(text, start):  # IDN24-0061 begins with a cue
            word_spans.append(span)
            continue
        while start > min_start and _is_inside_word(text, start):
            start -= 1
        while end < max_end and _is_inside_word(text, end):
            end += 1
        is_cut = (start, end) != (span.start, span.end)
        whole_span = Span(start, end, span.label) if is_cut else span
        word_spans.append(
            _extend_japanese_span(text, whole_span, min_start=min_start, max_end=max_end)
        )
    return tuple(word_spans)


def is_possessive(text: str) -> bool:
    """Whether a text is a possessive 's and nothing else."""
    return _POSSESSIVE.fullmatch(text) is not None


def _is_inside_word(text: str, position: int) -> bool:
    """Whether the characters before and behind a position belong to the same word."""
    char = text[position : position + 1]
    if not char or char.isspace():
        return False
    if not char.isascii() and _is_mark(char):
        return position > 0 and not text[position - 1].isspace()
    if _LETTER.match(char):
        index = position - 1
        if index > 0 and text[index] in _INNER and not _POSSESSIVE.match(text, index):
            index -= 1
        return _ends_letter(text, index + 1)
    return (
        char in _INNER
        and _ends_letter(text, position)
        and bool(_LETTER.match(text, position + 1))
        and not _POSSESSIVE.match(text, position)
    )


def _ends_letter(text: str, position: int) -> bool:
    """Whether a letter, with or without marks, stands before a position."""
    index = position - 1
    while index > 0 and not text[index].isascii() and _is_mark(text[index]):
        index -= 1
    return index >= 0 and _LETTER.match(text, index) is not None


def _is_mark(char: str) -> bool:
    return _compile_marks().match(char) is not None


@cache
def _compile_marks() -> re.Pattern[str]:
    return re.compile(f"[{build_mark_class()}\uff9e\uff9f]")


def tidy_spans(text: str, model_spans: Tags, *, rule_spans: Tags) -> list[Span]:
    """Return a model's spans with borders that cut no number or code.

    A span does not grow into `rule_spans`. A span that holds only punctuation is dropped.
    """
    trimmed_spans = [
        span for span in (_trim_edges(text, span) for span in model_spans) if span is not None
    ]
    if not trimmed_spans:
        return []
    numbers = [match.span() for match in _NUMBER.finditer(text)]
    codes = [
        match.span() for match in _CODE.finditer(text) if _HAS_DIGIT.match(text, match.start())
    ]
    all_spans = sorted((*trimmed_spans, *rule_spans))
    tidied_spans = []
    for span in trimmed_spans:
        units = _find_overlaps(numbers, span)
        if span.label in _CODES:
            units += _find_overlaps(codes, span)
        tidied_spans.append(_extend_to_units(span, units, all_spans))
    return tidied_spans


def _find_overlaps(units: Sequence[tuple[int, int]], span: Span) -> list[tuple[int, int]]:
    """Return the units that share a character with a span.

    The units must be sorted and must not overlap.
    """
    first = bisect_right(units, span.start, key=itemgetter(1))
    return [*takewhile(lambda unit: unit[0] < span.end, units[first:])]


def identifies_nobody(text: str, span: Span) -> bool:
    """Whether a span that only a model found identifies nobody.

    This holds for the name of a field, a letter, one kana, lower-case words that are no names, one
    lower-case word that is no job, sex or origin, the number of a line in a list, and the person
    after whom a test, a disease or a tool is named. The text must have capitals: where everything
    is in lower case, names are too.
    """
    span_text, text_behind = text[span.start : span.end], text[span.end : span.end + _N_AROUND]
    words = [word.strip(".,:;#") for word in span_text.split()]
    if all(word.lower() in _FIELDS or (word.islower() and word in _NO_NAMES) for word in words):
        return True
    if len(span_text) == 1 and _KANA.match(span_text):
        return True
    if len(words) == 1 and span_text.isascii() and span_text.islower() and span_text.isalpha():
        return words[0] not in _SMALL_FINDS
    if (
        span_text.isdigit()
        and text_behind[:1] in ".)"
        and not text[: span.start].rpartition("\n")[2].strip()
    ):
        return True
    is_named = span.label in (IDENTIFIER, QUASI_IDENTIFIER) and span_text[0].isupper()
    is_single_word = len(words) == 1  # "Margaret Ellis procedure tomorrow" is a patient's
    return is_named and bool(
        _THING.search(span_text) or (is_single_word and _THING_BEHIND.match(text_behind))
    )


def _trim_edges(text: str, span: Span) -> Span | None:
    """Return a span without the punctuation and white space at its ends; None if nothing is left.

    A name also loses its possessive 's. A bracket stays if its partner is inside the span, and a
    final point stays if another point is inside: "A.B.".
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
        end -= 2  # in the name of a place or a hospital the 's stays: St Mary's
    return Span(start, end, span.label) if start < end else None


def _is_edge(char: str) -> bool:
    return char.isspace() or char in _PAIRS or unicodedata.category(char)[0] == "P"


def _extend_to_units(
    span: Span, units: Sequence[tuple[int, int]], neighbours: Sequence[Span]
) -> Span:
    """Return a span that covers its units whole, unless it would grow into a neighbour."""
    extended_span = Span(
        min([span.start, *(first for first, _ in units)]),
        max([span.end, *(last for _, last in units)]),
        span.label,
    )
    if extended_span == span or any(
        neighbour.overlap(extended_span) > neighbour.overlap(span) for neighbour in neighbours
    ):
        return span
    return extended_span


def extend_to_names(text: str, spans: Tags) -> Tags:
    """Return spans that also cover the words beside them that belong to the same name.

    These are particles such as "van der", the other half of a name with a hyphen, and the words
    before or behind a place, such as "New" and "City". A part of a name beside a whole name is
    joined with it.
    """
    name_spans: list[Span] = []
    for index, span in enumerate(spans):
        min_start = name_spans[-1].end if name_spans else 0
        max_end = spans[index + 1].start if index + 1 < len(spans) else len(text)
        may_grow = span.label in (IDENTIFIER, QUASI_IDENTIFIER) and text[span.start].isupper()
        extended_span = (
            _extend_name(text, span, min_start=min_start, max_end=max_end) if may_grow else span
        )
        last = name_spans[-1] if name_spans else None
        if last is not None and _are_one_name(text, last, extended_span):
            name_spans[-1] = Span(last.start, extended_span.end, IDENTIFIER)
        else:
            name_spans.append(extended_span)
    return tuple(name_spans)


def _extend_name(text: str, span: Span, *, min_start: int, max_end: int) -> Span:
    start, end = span.start, span.end
    text_before = text[max(min_start, start - _N_AROUND) : start]
    for pattern in (_NAMES_BEFORE, _PLACE_BEFORE):
        if match := pattern.search(text_before):
            start -= len(match[0])
            break
    for pattern in (_NAMES_BEHIND, _PLACE_BEHIND):
        if match := pattern.match(text, end, min(max_end, end + _N_AROUND)):
            end = match.end()
    return Span(start, end, span.label)


def _are_one_name(text: str, first: Span, second: Span) -> bool:
    """Whether two spans are parts of one name.

    At least one of them must be a whole name, and only a blank, a hyphen or the middle dot of a
    name in katakana may stand between them.
    """
    if IDENTIFIER not in (first.label, second.label):
        return False
    if {first.label, second.label} - {IDENTIFIER, QUASI_IDENTIFIER}:
        return False
    between = text[first.end : second.start]
    parts = text[first.start : first.end], text[second.start : second.end]
    if between in ("・", "=", "＝"):
        return all(map(_is_katakana, parts))
    return between in (" ", "-") and all(
        part[0].isupper() and not is_unspaced(part) and not any(char.isdigit() for char in part)
        for part in parts
    )


_KATA_BEFORE = re.compile(f"[{KATA}ｦ-ﾟ]+$")
_KATA_BEHIND = re.compile(f"[{KATA}ｦ-ﾟ]+")
_FOREIGN = re.compile(f"[{KATA}・=＝]+")
_FOREIGN_BEFORE = re.compile(f"(?:[{KATA}]+[・=＝])+[{KATA}]*$")
_FOREIGN_BEHIND = re.compile(f"[{KATA}]*(?:[・=＝][{KATA}]+)+")
_TITLE_IN_KATAKANA = re.compile(
    "(?:コーチ|マネー?ジャー|ケアマネ(?:ジャー)?|ヘルパー|スタッフ|ドクター|ナース|リーダー|キャプテン|サン|サマ)$"
)
_HAN = re.compile(f"[{HAN}]+")
_MAX_GROWTH = 40
_MAX_GIVEN = 3
"""Han characters of a given name; only a handful of names have more."""


def _extend_japanese_span(text: str, span: Span, *, min_start: int, max_end: int) -> Span:
    """Return a span of a name or place in Japanese, extended over the rest of its word.

    The span grows over the rest of its run of katakana. A span in Han characters grows over a
    listed given name behind its surname, or over the end of a given name that was cut.
    """
    if span.label not in (IDENTIFIER, QUASI_IDENTIFIER):
        return span
    start, end = _find_katakana_borders(text, span, min_start=min_start, max_end=max_end)
    span_text = text[start:end]
    if _HAN.fullmatch(span_text):
        end = _find_name_end(text, start, end, max_end=max_end)
    return span if (start, end) == (span.start, span.end) else Span(start, end, span.label)


def _is_katakana(word: str) -> bool:
    """Whether a word, or several words with middle dots between them, is all in katakana."""
    return _FOREIGN.fullmatch(word) is not None


def _find_katakana_borders(
    text: str, span: Span, *, min_start: int, max_end: int
) -> tuple[int, int]:
    start, end = span.start, span.end
    is_name = span.label == IDENTIFIER
    if _KATA_BEHIND.match(text, start):
        text_before = text[max(min_start, start - _MAX_GROWTH) : start]
        match = (is_name and _FOREIGN_BEFORE.search(text_before)) or _KATA_BEFORE.search(
            text_before
        )
        start -= len(match[0]) if match else 0
    if _KATA_BEHIND.match(text, end - 1):
        stop = min(max_end, end + _MAX_GROWTH)
        match = (is_name and _FOREIGN_BEHIND.match(text, end, stop)) or _KATA_BEHIND.match(
            text, end, stop
        )
        end = match.end() if match else end
        if title := _TITLE_IN_KATAKANA.search(text, span.end, end):
            end = title.start()
    return start, end


def _find_name_end(text: str, start: int, end: int, *, max_end: int) -> int:
    """Return the end of a name in Han characters that was found from `start` to `end`.

    A listed given name behind the surname belongs to the name. The name was cut if it begins with
    a surname and at most two characters follow in its run, all of which occur in given names.
    """
    run = _HAN.match(text, start, min(max_end, start + _MAX_GROWTH))
    if run is None or run.end() <= end:
        return end
    names, n_chars = list_japanese_names(), end - start
    for n_last in (3, 2, 1):
        if n_last > n_chars or run[0][:n_last] not in names.surnames:
            continue
        given_chars = run[0][n_last : n_last + _MAX_GIVEN]
        for n in range(len(given_chars), n_chars - n_last, -1):
            if given_chars[:n] in names.given_names:
                return start + n_last + n
    rest = run[0][n_chars:]
    prefix = run[0][:n_chars]
    has_surname = prefix in names.surnames or (n_chars > 2 and prefix[:2] in names.surnames)
    is_cut = has_surname and len(rest) <= 2 and _given_characters().issuperset(rest)
    return run.end() if is_cut else end


@cache
def _given_characters() -> frozenset[str]:
    """Return the Han characters that occur in listed given names."""
    return frozenset(
        char for name in list_japanese_names().given_names if _HAN.fullmatch(name) for char in name
    )
