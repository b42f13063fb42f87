"""What is known of a patient is found wherever it stands in that patient's notes.

Known is what a register of patients says, and the names that a tagger has found once with
certainty. Comes in: pieces of knowledge, a note with a tagger's spans. Goes out: spans that leave
no known string readable. What stands around a name decides only where it is a word as well.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import combinations, pairwise, product
from typing import NamedTuple

from audit.corpus.register import parts_beside
from audit.deid.borders import with_whole_words
from audit.deid.kinds import english_names
from audit.deid.tagger import Tags
from audit.names.matching import Lexicon, fold
from audit.names.people import half_width
from audit.notes.dates import date_forms
from audit.notes.folding import fold_text
from audit.notes.mention_words import (
    GENERIC,
    JAPANESE_NO_NAME,
    JAPANESE_NO_NAMES,
    JAPANESE_SURNAMES,
    NO_NAMES,
    WORDS,
)
from audit.notes.mentions_ja import split_japanese
from audit.notes.patterns import (
    CAPITAL,
    HIRA,
    IN_KATAKANA,
    KATA,
    SMALL,
    folded_text,
    pattern_table,
)
from audit.notes.spans import (
    FIVE_TYPES,
    IDENTIFIER,
    QUASI_IDENTIFIER,
    RISK_ORDER,
    Span,
)
from audit.text import is_unspaced, split_name

KNOWN_VERSION = 2
"""Goes up with every change of what is found again."""

FIRST, MIDDLE, LAST, FULL = "first", "middle", "last", "full"
"""Parts of a name; FULL is one whose parts cannot be told apart."""
INITIALS, BIRTH, ADDRESS = "initials", "birth", "address"

_PARTS, _ = pattern_table(__file__)
_RE = {name: re.compile(pattern) for name, pattern in _PARTS.items()}
_STREET = {form: forms.split("|")[-1]
           for forms in _PARTS["EN_STREET"].split(";") for form in forms.split("|")}  # fmt: skip
_SELDOM = NO_NAMES | GENERIC | WORDS["seldom_names"] | WORDS["relatives"]
_WORDS = frozenset(_PARTS["WORDS"].split("|")) | _SELDOM
_TITLES = WORDS["titles"] | WORDS["suffixes"]
_PARTICLES = WORDS["particles"]
_NO_INITIALS = frozenset(_PARTS["NO_INITIALS"].split("|"))

_LETTER = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u06ff"
_LETTER += "\u1e00-\u1fff\uac00-\ud7a3"
_TOKEN = re.compile(rf"[{_LETTER}]+(?:['’`][{_LETTER}]+)*|[0-9]+[A-Za-z]?(?![A-Za-z0-9])|[0-9]+")
_WITHIN = re.compile(r"[\s,.#'’-]{0,4}")
_GAP = re.compile(rf"\.?[\s・、=]*,?\s*(?:[{CAPITAL}{SMALL}]\.?\s+)?")
_POINTED = re.compile(
    rf"(?<![A-Za-z0-9_.])(?:[{CAPITAL}]\. ?){{1,3}}[{CAPITAL}]?\.?(?![{CAPITAL}{SMALL}])"
)
_IN_KANA = re.compile(rf"[{KATA}{HIRA}ｦ-ﾟ]+")
_BEFORE = 24
_LEAST_DIGITS, _LEAST_FREE = 3, 5

_SAME = IN_KATAKANA | str.maketrans(
    "髙﨑嵜邊邉齋齊斉濵濱澤廣德惠眞榮國龍櫻藏瀨嶋嶌條增彌黑來𠮷ヶ",
    "高崎崎辺辺斎斎斎浜浜沢広徳恵真栄国竜桜蔵瀬島島条増弥黒来吉ケ",
)
"""Characters that stand for each other: hiragana for katakana, old forms in names."""
_LETTERS_OF = {
    kana: letters
    for row in _PARTS["KANA_ROWS"].split("|")
    for letters, _, all_kana in [row.partition(" ")]
    for kana in all_kana
}
"""From a kana to the Latin letters with which a name that begins with it can begin."""


class Piece(NamedTuple):
    """A string that is known, and what it is: a part of a name, BIRTH, ADDRESS, or a label.

    A label stands for a number, or a mail address. `is_sure` is what a register says, or a cue: any
    other name is taken for a word in small letters, unless lists have it as a name.
    """

    kind: str
    text: str
    is_sure: bool = True


def packed(pieces: Iterable[Piece]) -> str:
    """Return pieces as one string, which takes a tenth of their memory."""
    lines = (f"{kind}\t{int(is_sure)}\t{' '.join(text.split())}" for kind, text, is_sure in pieces)
    return "\n".join(sorted(set(lines)))


def unpacked(text: str) -> Iterator[Piece]:
    """Yield the pieces of a packed string."""
    for line in text.splitlines():
        kind, is_sure, piece = line.split("\t")
        yield Piece(kind, piece, is_sure == "1")


def together(*packs: str) -> str:
    """Return packed strings as one."""
    return "\n".join(sorted({line for pack in packs for line in pack.splitlines()}))


def name_pieces(
    first: str, last: str, *, middle: str = "", is_sure: bool = True
) -> Iterator[Piece]:
    """Yield what is known with a name, or its reading: its parts, its initials in either order."""
    for kind, text in ((FIRST, first), (LAST, last), (MIDDLE, middle)):
        if text.strip():
            yield Piece(kind, text, is_sure)
    for a, m, b in product(_letters(first), _letters(middle) or [""], _letters(last)):
        yield from (Piece(INITIALS, letters, is_sure) for letters in {a + b, b + a, a + m + b})


def _letters(part: str) -> list[str]:
    """Return with which letters a part of a name can begin in Latin script."""
    letter = fold(_plain(part.strip())[:1]).upper()
    return list(_LETTERS_OF.get(letter, letter if letter.isascii() else ""))


def in_parts(address: str) -> Iterator[str]:
    """Yield the parts of an address that are looked for: each place in it, a street with a number.

    A number of a Japanese block is no part: it is found behind the name of the place.
    """
    if not is_unspaced(address):
        for part in re.split(r"[,;\n]", address):
            words = _tokens(part)
            if sum(len(word.written) for word in words) > 2:
                yield part.strip()
            named = [word for word in words if not word.written[0].isdigit()]
            is_named = any(len(word.written) > 2 and word.folded not in _STREET for word in named)
            if len(named) > 1 and is_named:
                yield " ".join(word.written for word in named)
            yield from (word.written for word in words if re.fullmatch("[0-9]{5}", word.written))
        return
    bare = re.sub(r"^〒? ?[0-9]{3}-[0-9]{4} ?", "", folded_text(address))
    match = _RE["JA_ADDRESS"].fullmatch(bare)
    found = match.groupdict() if match else {"town": bare}
    for name in ("state", "county", "city", "town", "building"):
        part = (found.get(name) or "").strip(" -")
        if len(part) > 1 and not part.isdigit():
            yield part


def _plain(text: str) -> str:
    """Return a text of the same length in the form in which strings are compared."""
    same = folded_text(text).translate(_SAME)
    lower = same.lower()
    if len(lower) == len(same):
        return lower
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in same)


class _Token(NamedTuple):
    start: int
    stop: int
    folded: str
    written: str


def _tokens(folded: str) -> list[_Token]:
    """Return words in letters, and numbers; the 's of "Smith's" is no part of the word."""
    found = []
    for match in _TOKEN.finditer(folded):
        word = match[0]
        if len(word) > 2 and word[-1] in "sS" and word[-2] in "'’`":
            word = word[:-2]
        plain = word.lower() if word.isascii() else fold(word)
        if not plain.isalnum():
            plain = re.sub("['’`]", "", plain)
        found.append(_Token(match.start(), match.start() + len(word), plain, word))
    return found


@dataclass
class _Note:
    """A text in the forms in which it is searched, each made when it is asked for."""

    text: str

    def __post_init__(self) -> None:
        self.folded, self.plain = folded_text(self.text), _plain(self.text)

    @cached_property
    def tokens(self) -> list[_Token]:
        return _tokens(self.folded)

    @cached_property
    def words(self) -> tuple[str, ...]:
        return tuple(token.folded for token in self.tokens)

    @cached_property
    def streets(self) -> tuple[str, ...]:
        return tuple(_STREET.get(word, word) for word in self.words)

    @cached_property
    def codes(self) -> str:
        """Letters and digits without all between."""
        return re.sub("[^0-9a-z]+", "", self.plain)

    @cached_property
    def code_places(self) -> list[int]:
        """Where the characters of `codes` stand."""
        return [match.start() for match in re.finditer("[0-9a-z]", self.plain)]

    @cached_property
    def tight(self) -> str:
        """All characters but white space."""
        return "".join(self.plain.split())

    @cached_property
    def tight_places(self) -> list[int]:
        """Where the characters of `tight` stand."""
        return [place for place, char in enumerate(self.plain) if not char.isspace()]

    def around(self, start: int, stop: int) -> tuple[str, str]:
        """Return the characters beside a place, "" at the ends."""
        return self.folded[max(0, start - 1) : start], self.folded[stop : stop + 1]

    def is_joined(self, tokens: Sequence[_Token]) -> bool:
        """Whether nothing but marks and blanks stands between tokens."""
        return all(_WITHIN.fullmatch(self.text, a.stop, b.start) for a, b in pairwise(tokens))


def _everywhere(text: str, wanted: str) -> Iterator[tuple[int, int]]:
    at = text.find(wanted)
    while at >= 0:
        yield at, at + len(wanted)
        at = text.find(wanted, at + 1)


class Known:
    """What is known of one patient, ready to be found in notes."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        words: defaultdict[tuple[str, ...], list[Piece]] = defaultdict(list)
        self._runs: dict[tuple[str, str], Piece] = {}
        self._initials: set[str] = set()
        self._single: defaultdict[str, set[str]] = defaultdict(set)
        self._days: set[str] = set()
        self._numbers: set[tuple[str, str]] = set()
        places: dict[tuple[str, ...], bool] = {}
        self._places: set[str] = set()
        for given in pieces:
            piece = given._replace(text=fold_text(given.text).text)
            kind, text, _ = piece
            if kind in (FIRST, MIDDLE, LAST, FULL):
                for sequence in self._sequences(piece):
                    words[sequence].append(piece)
            elif kind == INITIALS:
                self._initials.add(text)
            elif kind == BIRTH:
                self._days.update(date_forms(text))
            elif kind == ADDRESS and is_unspaced(text):
                self._places.add(_plain(text))
            elif kind == ADDRESS:
                places[tuple(_STREET.get(one.folded, one.folded) for one in _tokens(text))] = True
            else:
                self._numbers.add((kind, text))
        words.pop((), None)
        places.pop((), None)
        self._words, self._streets = Lexicon(words), Lexicon(places)

    def _sequences(self, piece: Piece) -> Iterator[tuple[str, ...]]:
        """Yield the words of a part of a name, whole and alone; note what has no words."""
        if is_unspaced(piece.text):
            plain = _plain(re.sub(r"[\s・=]", "", folded_text(piece.text)))
            for form in {plain, _plain(half_width(plain))} - {""}:
                self._runs[form, piece.kind] = piece
            return
        sequence = tuple(token.folded for token in _tokens(folded_text(piece.text)))
        yield sequence
        if piece.kind != FULL:
            self._single[piece.kind].update(word[0].upper() for word in sequence)
            if len(sequence) > 1:
                yield from ((one,) for one in sequence if one not in _PARTICLES and len(one) > 1)

    def spans(self, text: str) -> list[Span]:
        """Return where what is known stands in a folded text; spans may share characters."""
        note = _Note(text)
        finders = (self._named, self._pointed, self._born, self._numbered, self._placed)
        return [Span(*place) for finder in finders for place in finder(note)]

    def _named(self, note: _Note) -> Iterator[tuple[int, int, str]]:
        """Yield names, parts that stand side by side as one."""
        sure: dict[tuple[int, int, str], bool] = {}
        for start, stop, pieces in self._words.find(note.words):
            span = note.tokens[start:stop]
            # "Will" is a name beside a name, "will" is none, but where all is in small letters.
            is_word = len(span) == 1 and span[0].folded in _SELDOM and span[0].written.islower()
            is_any = note.is_joined(span) and not (is_word and not note.text.islower())
            for piece in pieces if is_any else ():
                place = (span[0].start, span[-1].stop, piece.kind)
                sure[place] = sure.get(place, False) or _is_name(note, span, piece)
        for (form, kind), piece in self._runs.items():
            for start, stop in _everywhere(note.plain, form):
                is_own = _is_unspaced_name(note, start, stop, piece)
                sure[start, stop, kind] = sure.get((start, stop, kind), False) or is_own
        if not sure:
            return
        parts = _of_one_kind(note.folded, (*sure, *self._single_letters(note)))
        for run in parts_beside(note.folded, parts, gap=_GAP):
            kinds = {kind for _, _, kind in run}
            has_name = not kinds.isdisjoint((FIRST, LAST, FULL))
            if any(sure.get(part) for part in run) or (has_name and len(kinds) > 1):
                start, stop = run[0][0], run[-1][1]
                if run[-1][2].endswith(INITIALS) and note.text[stop : stop + 1] == ".":
                    stop += 1
                is_full = FULL in kinds or (LAST in kinds and len(kinds) > 1)
                yield start, stop, IDENTIFIER if is_full else QUASI_IDENTIFIER

    def _single_letters(self, note: _Note) -> Iterator[tuple[int, int, str]]:
        """Yield letters that may stand for a part beside another one: "J. Smith", "Smith JA"."""
        for start, stop, _, written in note.tokens:
            if stop - start > 2 or not written.isupper():
                continue
            has_point = note.text[stop : stop + 1] == "."
            for kind in (FIRST, MIDDLE, LAST):
                inner = self._single[MIDDLE] if kind == FIRST else ()
                is_both = written[0] in self._single[kind] and written[1:] in (*inner, "")
                if is_both and (has_point or written not in "AI"):
                    yield start, stop, f"{kind} {INITIALS}"

    def _pointed(self, note: _Note) -> Iterator[tuple[int, int, str]]:
        for match in _POINTED.finditer(note.folded) if self._initials else ():
            letters = re.sub("[^A-Z]", "", fold(match[0]).upper())
            stop = match.start() + len(match[0].rstrip())
            is_titled = _RE["HONORIFIC"].match(note.folded, stop)
            if letters in self._initials and (is_titled or letters not in _NO_INITIALS):
                yield match.start(), stop, QUASI_IDENTIFIER

    def _born(self, note: _Note) -> Iterator[tuple[int, int, str]]:
        for form in self._days:
            for start, stop in _everywhere(note.tight, form):
                place = note.tight_places[start], note.tight_places[stop - 1] + 1
                before, after = note.around(*place)
                is_begun = form[0].isascii() and before.isascii() and before.isalnum()
                if not is_begun and not (form[-1].isdigit() and after.isdigit()):
                    yield *place, QUASI_IDENTIFIER

    def _numbered(self, note: _Note) -> Iterator[tuple[int, int, str]]:
        for label, code in self._numbers:
            if "@" in code:
                yield from ((*place, label) for place in _everywhere(note.plain, code))
                continue
            for first, last in _everywhere(note.codes, code):
                places = note.code_places[first:last]
                start, stop = places[0], places[-1] + 1
                if _is_number(note, places):
                    is_opened = note.folded[start - 1 : start] in ("+", "(")
                    yield start - is_opened, stop, label

    def _placed(self, note: _Note) -> Iterator[tuple[int, int, str]]:
        """Yield parts of addresses; those side by side, and a block behind one, as one."""
        found = []
        for place in self._places:
            for start, stop in _everywhere(note.plain, place):
                block = re.compile(rf" ?{_PARTS['BLOCK']}").match(note.folded, stop)
                is_state = re.fullmatch("..?.?[都道府県]", place)
                found.append((start, block.end() if block and not is_state else stop))
        for first, last, _ in self._streets.find(note.streets):
            span = note.tokens[first:last]
            is_free = len(span) > 1 or span[0].written[0].isupper() or span[0].folded.isdigit()
            if is_free and note.is_joined(span):
                found.append((span[0].start, span[-1].stop))
        start = stop = -1
        for one, end in sorted(found):
            if start >= 0 and re.fullmatch(r"[\s,、.-]{0,3}", note.folded[stop:one]):
                stop = max(stop, end)
                continue
            if start >= 0:
                yield start, stop, QUASI_IDENTIFIER
            start, stop = one, end
        if start >= 0:
            yield start, stop, QUASI_IDENTIFIER


def _of_one_kind(text: str, parts: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return parts in order, each place once: what can be first and last name as it fits beside."""
    kinds: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for start, stop, kind in sorted(parts, key=lambda part: (part[0], -part[1], part[2] != LAST)):
        kinds[start, stop].append(kind)
    found: list[tuple[int, int, str]] = []
    places = [*kinds, (len(text) + _BEFORE, 0)]
    for (start, stop), (after, after_stop) in pairwise(places):
        beside = set(kinds[after, after_stop][:1]) if _GAP.fullmatch(text, stop, after) else set()
        if found and _GAP.fullmatch(text, found[-1][1], start):
            beside.add(found[-1][2])
        own = kinds[start, stop]
        found.append((start, stop, next((kind for kind in own if kind not in beside), own[0])))
    return found


def _is_name(note: _Note, span: Sequence[_Token], piece: Piece) -> bool:
    """Whether a part in Latin letters is a name without another part beside it."""
    start, stop, folded, written = span[0][0], span[-1][1], span[0].folded, span[0].written
    before = note.folded[max(0, start - _BEFORE) : start]
    if len(folded) == 1 and len(span) == 1:
        return False
    if _RE["TITLE"].search(before) or _RE["HONORIFIC"].match(note.folded, stop):
        return True
    if _RE["EPONYM"].match(note.folded, stop):
        return False
    is_capital, is_shouted = written[0].isupper(), len(written) > 1 and written.isupper()
    if len(span) > 1:
        return piece.is_sure or any(token.written[0].isupper() for token in span)
    if folded in _SELDOM or (len(folded) == 2 and not is_unspaced(written)):
        begins = not before.strip() or before.rstrip(" \"'(")[-1:] in (".", "!", "?", ":", "\n", "")
        return is_capital and not is_shouted and (len(folded) == 2 or not begins)
    if folded in _WORDS or not (piece.is_sure or folded.capitalize() in english_names()):
        return is_capital
    return True


def _is_unspaced_name(note: _Note, start: int, stop: int, piece: Piece) -> bool:
    """Whether a part in Han or kana is a name without another part beside it."""
    own, (before, after) = note.folded[start:stop], note.around(start, stop)
    is_titled = bool(_RE["HONORIFIC"].match(note.folded, stop))
    is_edge = [not char or not (char.isalnum() or char == "ー") for char in (before, after)]
    if _IN_KANA.fullmatch(own):
        if re.search(f"[{HIRA}]", own):
            is_begun = not re.match(f"(?![はがのとをにもで])[{HIRA}]", before)
            return is_begun and (is_titled or len(own) > 2)
        is_apart = not any(re.match(f"[{KATA}ｦ-ﾟ]", char) for char in (before, after))
        return is_apart and (is_titled or len(own) > 1)
    if is_titled and (len(own) > 1 or is_edge[0] or not re.match(f"[{_PARTS['HAN']}]", before)):
        return True
    if _RE["EPONYM"].match(note.folded, stop) or _is_japanese_word(note, start, stop):
        return False
    is_after_han = bool(re.match(f"[{_PARTS['HAN']}]", before)) and not _RE["KIN"].match(before)
    if len(own) == 1:
        is_free = is_edge[1] if piece.kind != LAST else _RE["PARTICLE"].match(note.folded, stop)
        return bool(is_free) and not re.match(f"[{_PARTS['HAN']}{HIRA}]", before)
    if piece.kind == FIRST and len(own) == 2:
        return not is_after_han and not re.match(f"[{_PARTS['HAN']}]", after)
    return True


def _is_japanese_word(note: _Note, start: int, stop: int) -> bool:
    words = _words_by_part().get(note.folded[start:stop], ())
    return any(at <= start and note.folded.startswith(word, start - at) for word, at in words)


@cache
def _words_by_part() -> dict[str, list[tuple[str, int]]]:
    """Return, for every part of a word of Japanese notes, the words and where it stands in them."""
    found = defaultdict[str, list[tuple[str, int]]](list)
    for word in JAPANESE_NO_NAMES:
        for start, stop in combinations(range(len(word) + 1), 2):
            if word.find(word[start:stop]) == start:
                found[word[start:stop]].append((word, start))
    return dict(found)


def _is_number(note: _Note, places: Sequence[int]) -> bool:
    """Whether characters at places are one number, cut by nothing but marks, and end there."""
    start, stop = places[0], places[-1] + 1
    for one, two in pairwise(places):
        if two - one > 4 or re.search(r"[^\s()./・_-]", note.folded[one + 1 : two]):
            return False
    before, after = note.around(start, stop)
    if any(char.isascii() and char.isalnum() for char in (before, after)):
        return False
    if before == "." and note.folded[start - 2 : start - 1].isdigit():
        return False
    cue = note.folded[max(0, start - _BEFORE) : start]
    return len(places) >= _LEAST_FREE or bool(_RE["NUMBER_CUE"].search(cue))


@lru_cache(maxsize=512)
def known(*packs: str) -> Known:
    """Return what packed strings know together."""
    return Known(unpacked(together(*packs)))


def with_known(spans: Tags, found: Iterable[Span]) -> Tags:
    """Return a tagger's spans and those of what is known; what shares characters becomes one.

    A span that is joined has the label that identifies most.
    """
    ranks = {label: rank for rank, label in enumerate(RISK_ORDER)}
    joined: list[Span] = []
    for span in sorted((*spans, *found)):
        if not joined or span.start >= joined[-1].end:
            joined.append(span)
            continue
        last = joined[-1]
        label = min(last.label, span.label, key=lambda one: ranks.get(one, len(ranks)))
        joined[-1] = Span(last.start, max(last.end, span.end), label)
    return tuple(joined)


def found_again(text: str, spans: Tags, *packs: str) -> Tags:
    """Return the spans of a note with all that is known of its patient, in whole words."""
    folded = fold_text(text)
    found = known(*packs).spans(folded.text) if any(packs) else ()
    own = folded.folded_spans(spans)
    whole = with_whole_words(folded.text, with_known(own, found))
    # What a tagger found stays as it was where nothing is added to it.
    return with_known(spans, folded.source_spans(whole))


def names_in(text: str, spans: Iterable[Span]) -> str:
    """Return, packed, the names among a tagger's spans that are certain.

    These are full names, and parts of names behind a title or a cue.
    """
    shown = fold_text(text)
    folded = folded_text(shown.text)
    return packed(piece for span in shown.folded_spans(spans) for piece in _certain(folded, span))


def _certain(folded: str, span: Span) -> Iterator[Piece]:
    label = FIVE_TYPES.of(span.label) or span.label
    if label not in (IDENTIFIER, QUASI_IDENTIFIER):
        return
    name, before = folded[span.start : span.end], folded[max(0, span.start - _BEFORE) : span.start]
    is_cued = bool(
        _RE["TITLE"].search(before)
        or _RE["CUE"].search(before)
        or _RE["HONORIFIC"].match(folded, span.end)
        or re.search(f"{_PARTS['HONORIFIC']}$", name)
    )
    reader = _read_unspaced if is_unspaced(name) else _read_spaced
    yield from reader(name.strip(), is_full=label == IDENTIFIER, is_cued=is_cued)


def _read_spaced(name: str, *, is_full: bool, is_cued: bool) -> Iterator[Piece]:
    """Yield the parts of a name in Latin letters; of what may be no name it as a whole."""
    if re.search(r"[^\w\s.,'’`-]|[\d_\n]", name) or len(name) > 60:
        return
    words = [one for one in re.findall(r"[^\s,]+|,", name)
             if fold(one).strip(".") not in _TITLES]  # fmt: skip
    bare = [fold(word).strip(".") for word in words if word != ","]
    names = [one for one in bare if one not in _SELDOM and one not in _PARTICLES and len(one) > 1]
    if not names or not all(
        word == "," or word[0].isupper() or one in _PARTICLES
        for word, one in zip(words, [fold(w) for w in words], strict=True)
    ):
        return  # fmt: skip
    if len(bare) == 1:
        if is_cued:
            yield Piece(LAST, words[0])
        return
    if not is_full:
        return
    first, last = split_name(" ".join(words).replace(" ,", ","))
    given, *middle = first.split() or [""]
    while middle and fold(middle[-1]) in _PARTICLES:
        last = f"{middle.pop()} {last}"
    is_listed = not english_names().isdisjoint(one.capitalize() for one in bare)
    is_word = any(len(one) > 1 and one in NO_NAMES | GENERIC for one in bare[1:-1])
    if (is_cued or is_listed) and not is_word:
        yield from name_pieces(given, last, middle=" ".join(middle), is_sure=is_cued)
    else:
        yield Piece(FULL, " ".join(words).replace(",", ""), False)


def _read_unspaced(name: str, *, is_full: bool, is_cued: bool) -> Iterator[Piece]:
    """Yield the parts of a name in Han or kana; of what may be no name it as a whole."""
    name = re.sub(f"{_PARTS['HONORIFIC']}$", "", name)
    is_name = re.fullmatch(rf"[{_PARTS['HAN']}{KATA}{HIRA}ｦ-ﾟ]+(?:[ ・=][^\s・=]+)?", name)
    if not is_name or len(name) > 16 or JAPANESE_NO_NAME.search(name):
        return
    is_split = bool(re.search("[ ・=]", name))
    given, surname = split_japanese(name) if is_full or is_split else ("", name)
    if not is_full:
        if is_cued and len(name) > 1 and not _RE["NO_NAME_BEFORE_TITLE"].fullmatch(name):
            yield Piece(LAST, surname, False)
    elif given and surname and (is_split or surname in JAPANESE_SURNAMES):
        yield from name_pieces(given, surname, is_sure=False)
    elif is_cued or not _IN_KANA.fullmatch(name):
        yield Piece(FULL, name, False)
