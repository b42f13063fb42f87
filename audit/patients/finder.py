"""Find a patient's known data in notes: names, birth dates, numbers, addresses.

Input: pieces of knowledge, and a text. Output: occurrences that cover every known string. The words
around a name matter only if the name is also an ordinary word. Corpora of identified notes and
de-identification both use this finder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cache, cached_property, lru_cache
from itertools import combinations, pairwise, product
from sys import intern
from typing import NamedTuple

from audit.names.matching import Lexicon, fold
from audit.names.people import half_width
from audit.names.pools import english_names
from audit.notes.folding import fold_text
from audit.notes.mention_words import (
    GENERIC,
    JAPANESE_NO_NAMES,
    NO_NAMES,
    WORDS,
)
from audit.notes.patterns import (
    CAPITAL,
    HIRA,
    IN_KATAKANA,
    KATA,
    SMALL,
    CompiledParts,
    fold_characters,
    read_pattern_table,
)
from audit.notes.spans import (
    IDENTIFIER,
    QUASI_IDENTIFIER,
)
from audit.patients.births import BirthFinder
from audit.text import is_unspaced

FINDER_VERSION = 3
"""Increases with every change that affects the occurrences."""

FIRST, MIDDLE, LAST, FULL = "first", "middle", "last", "full"
"""Parts of a name; FULL is one whose parts cannot be told apart."""
INITIALS, BIRTH, ADDRESS = "initials", "birth", "address"

PARTS, _ = read_pattern_table(__file__)
PATTERNS = CompiledParts(PARTS)
_STREET = {
    form: forms.split("|")[-1]
    for forms in PARTS["EN_STREET"].split(";")
    for form in forms.split("|")
}
SELDOM = NO_NAMES | GENERIC | WORDS["seldom_names"] | WORDS["relatives"]
_WORDS = frozenset(PARTS["WORDS"].split("|")) | SELDOM
PARTICLES = WORDS["particles"]
_NO_INITIALS = frozenset(PARTS["NO_INITIALS"].split("|"))

# Letters and marks of scripts that separate words by spaces.
_LETTER = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u1dbf"
_LETTER += "\u1e00-\u1fff\u2c00-\u2ddf\ua640-\ud7ff\ufb00-\ufdff\ufe70-\ufefc"
_TOKEN = re.compile(rf"[{_LETTER}]+(?:['’`][{_LETTER}]+)*|[0-9]+[A-Za-z]?(?![A-Za-z0-9])|[0-9]+")
_WITHIN = re.compile(r"[\s,.#'’-]{0,6}")
_GAP = re.compile(rf"\.?[\s・、=]*,?\s*(?:[{CAPITAL}{SMALL}]\.?\s+)?")
_POINTED = re.compile(
    rf"(?<![A-Za-z0-9_.])(?:[{CAPITAL}]\. ?){{1,3}}[{CAPITAL}]?\.?(?![{CAPITAL}{SMALL}])"
)
IN_KANA = re.compile(rf"[{KATA}{HIRA}ｦ-ﾟ]+")
_BEFORE, _MAX_GAP_CHARS = 24, 6
_LEAST_DIGITS, _LEAST_FREE = 3, 5

_SAME = IN_KATAKANA | str.maketrans(
    "髙﨑嵜邊邉齋齊斉濵濱澤廣德惠眞榮國龍櫻藏瀨嶋嶌條增彌黑來𠮷ヶ",
    "高崎崎辺辺斎斎斎浜浜沢広徳恵真栄国竜桜蔵瀬島島条増弥黒来吉ケ",
)
"""Equivalent characters: hiragana to katakana, old forms of characters in names to new ones."""
_LETTERS_OF = {
    kana: letters
    for row in PARTS["KANA_ROWS"].split("|")
    for letters, _, all_kana in [row.partition(" ")]
    for kana in all_kana
}
"""A kana to the Latin letters with which the romanization of a name may begin."""


class Piece(NamedTuple):
    """A known string and its kind: a part of a name, BIRTH, ADDRESS, or a label.

    A label is the kind of numbers and mail addresses. `is_sure` is true if a register or a cue
    gives the name; in small letters, any other name counts as an ordinary word unless a list of
    names has it. `is_own` is true for the patient's names and false for those of relatives.
    """

    kind: str
    text: str
    is_sure: bool = True
    is_own: bool = True


class Part(NamedTuple):
    """A stretch of a text, and the kind of the piece that it contains.

    A letter that abbreviates a part of a name combines its kind with `INITIALS`: "first initials".
    """

    start: int
    stop: int
    kind: str


@dataclass(frozen=True)
class Occurrence:
    """A place in a text that contains known data of the patient.

    Attributes
    ----------
    start, stop, label
        The place, and its type, one of the five.
    parts
        The parts of a name in order; a single part for everything else.
    is_own
        Whether a name is the patient's, not a relative's.
    is_doubtful
        Whether a capital is the only sign that an ordinary word is a name here.
    """

    start: int
    stop: int
    label: str
    parts: tuple[Part, ...]
    is_own: bool = True
    is_doubtful: bool = False


def pack_pieces(pieces: Iterable[Piece]) -> str:
    """Pack pieces into one string, which takes a tenth of their memory."""
    lines = {
        f"{piece.kind}\t{piece.is_sure:d}{piece.is_own:d}\t{' '.join(piece.text.split())}"
        for piece in pieces
    }
    return "\n".join(sorted(lines))


def unpack_pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a packed string."""
    for line in text.splitlines():
        kind, flags, piece = line.split("\t")
        yield Piece(kind, piece, flags[0] == "1", flags[1] == "1")


def merge_packs(*packs: str) -> str:
    """Merge packed strings into one."""
    return "\n".join(sorted({line for pack in packs for line in pack.splitlines()}))


def make_name_pieces(
    first: str, last: str, *, middle: str = "", is_sure: bool = True
) -> Iterator[Piece]:
    """Yield the pieces of a name, or of its reading: parts, and initials in either order."""
    if not first and not last:
        return
    for kind, text in ((FIRST, first), (LAST, last), (MIDDLE, middle)):
        if text.strip():
            yield Piece(kind, text, is_sure)
    for a, m, b in product(
        _list_initials(first), _list_initials(middle) or [""], _list_initials(last)
    ):
        yield from (Piece(INITIALS, letters, is_sure) for letters in {a + b, b + a, a + m + b})


def _list_initials(part: str) -> list[str]:
    """Return the Latin letters that may abbreviate a part of a name: V or G for van Gogh."""
    words = part.split()
    named = [word for word in words if fold(word) not in PARTICLES]
    letters = dict.fromkeys(fold(_normalize(word)[:1]).upper() for word in (*words[:1], *named[:1]))
    return [
        latin
        for letter in letters
        for latin in _LETTERS_OF.get(letter, letter if letter.isascii() else "")
    ]


def split_address(address: str) -> Iterator[str]:
    """Yield the parts of an address to search for: each place in it, and a street with its number.

    The number of a Japanese block is not a part; it is found after the name of the place.
    """
    if not is_unspaced(address):
        for part in re.split(r"[,;\n]", address):
            words = _tokenize(part)
            if sum(len(word.spelling) for word in words) > 2:
                yield part.strip()
            named = [word for word in words if not word.spelling[0].isdigit()]
            is_named = any(len(word.spelling) > 2 and word.folded not in _STREET for word in named)
            if len(named) > 1 and is_named:
                yield " ".join(word.spelling for word in named)
            yield from (word.spelling for word in words if re.fullmatch("[0-9]{5}", word.spelling))
        return
    bare = re.sub(r"^〒? ?[0-9]{3}-[0-9]{4} ?", "", fold_characters(address))
    match = PATTERNS["JA_ADDRESS"].fullmatch(bare)
    place_names = match.groupdict() if match else {"town": bare}
    for name in ("state", "county", "city", "town", "building"):
        part = (place_names.get(name) or "").strip(" -")
        if len(part) > 1 and not part.isdigit():
            yield part


def _normalize(text: str) -> str:
    """Return a text of the same length in the form that is used for comparing strings."""
    same = fold_characters(text).translate(_SAME)
    lower = same.lower()
    if len(lower) == len(same):
        return lower
    return "".join(char.lower() if len(char.lower()) == 1 else char for char in same)


class _Token(NamedTuple):
    start: int
    stop: int
    folded: str
    spelling: str


def _tokenize(folded: str) -> list[_Token]:
    """Return the words and numbers of a text; the 's of "Smith's" is not part of the word."""
    tokens = []
    for match in _TOKEN.finditer(folded):
        word = match[0]
        if len(word) > 2 and word[-1] in "sS" and word[-2] in "'’`":
            word = word[:-2]
        plain = word.lower() if word.isascii() else fold(word)
        if not plain.isalnum():
            plain = re.sub("['’`]", "", plain)
        tokens.append(_Token(match.start(), match.start() + len(word), plain, word))
    return tokens


@dataclass
class SearchedText:
    """A folded text in all forms that are searched; each form is made when it is first used."""

    text: str

    def __post_init__(self) -> None:
        self.folded, self.plain = fold_characters(self.text), _normalize(self.text)

    @cached_property
    def tokens(self) -> list[_Token]:
        """Its words in letters, and its numbers."""
        return _tokenize(self.folded)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The words in the form that is compared."""
        return tuple(token.folded for token in self.tokens)

    @cached_property
    def streets(self) -> tuple[str, ...]:
        """The words with one form for each kind of street."""
        return tuple(_STREET.get(word, word) for word in self.words)

    @cached_property
    def codes(self) -> str:
        """The letters and digits, without any other characters."""
        return re.sub("[^0-9a-z]+", "", self.plain)

    @cached_property
    def code_places(self) -> list[int]:
        """The place of each character of `codes`."""
        return [match.start() for match in re.finditer("[0-9a-z]", self.plain)]

    @cached_property
    def tight(self) -> str:
        """All characters but white space."""
        return "".join(self.plain.split())

    @cached_property
    def tight_places(self) -> list[int]:
        """The place of each character of `tight`."""
        return [place for place, char in enumerate(self.plain) if not char.isspace()]

    def around(self, start: int, stop: int) -> tuple[str, str]:
        """Return the characters before and after a place; "" at the ends of the text."""
        return self.folded[max(0, start - 1) : start], self.folded[stop : stop + 1]

    def is_joined(self, tokens: Sequence[_Token]) -> bool:
        """Whether only punctuation and white space stand between tokens."""
        return all(_WITHIN.fullmatch(self.text, a.stop, b.start) for a, b in pairwise(tokens))


def _find_all(text: str, string: str) -> Iterator[tuple[int, int]]:
    start = text.find(string)
    while start >= 0:
        yield start, start + len(string)
        start = text.find(string, start + 1)


@dataclass
class _NameParts:
    """The parts of names that occur in a text.

    `sure` says for each part whether it is a name even without another part beside it. `words` are
    ordinary words in small letters; they are a name only beside another part. `patient_parts` are
    parts of the patient's names; the others belong only to relatives. `capitals` begin with a
    capital.
    """

    sure: dict[Part, bool] = field(default_factory=dict)
    words: set[Part] = field(default_factory=set)
    patient_parts: set[Part] = field(default_factory=set)
    capitals: set[Part] = field(default_factory=set)


class PatientFinder:
    """Finds the known data of one patient in notes."""

    def __init__(self, pieces: Iterable[Piece]) -> None:
        words: defaultdict[tuple[str, ...], list[Piece]] = defaultdict(list)
        self._runs: dict[tuple[str, str], Piece] = {}
        self._initials: dict[str, bool] = {}
        self._single: defaultdict[str, set[str]] = defaultdict(set)
        self._numbers: set[tuple[str, str]] = set()
        births: set[date] = set()
        streets: dict[tuple[str, ...], bool] = {}
        self._places: set[str] = set()
        for raw_piece in pieces:
            piece = raw_piece._replace(text=fold_text(raw_piece.text).text)
            kind, text = piece.kind, piece.text
            if kind in (FIRST, MIDDLE, LAST, FULL):
                for sequence in self._read_sequences(piece):
                    words[sequence].append(piece)
            elif kind == INITIALS:
                self._initials[text] = self._initials.get(text, False) or piece.is_own
            elif kind == BIRTH:
                births.add(date.fromisoformat(text))
            elif kind == ADDRESS and is_unspaced(text):
                self._places.add(_normalize(text))
            elif kind == ADDRESS:
                tokens = _tokenize(text)
                streets[tuple(_STREET.get(token.folded, token.folded) for token in tokens)] = True
            else:
                self._numbers.add((kind, text))
        words.pop((), None)
        streets.pop((), None)
        self._words, self._streets = Lexicon(words), Lexicon(streets)
        self._births = BirthFinder(births) if births else None

    def _read_sequences(self, piece: Piece) -> Iterator[tuple[str, ...]]:
        """Yield the words of a part of a name, together and singly.

        A name in a script without spaces is stored in `_runs` instead.
        """
        if is_unspaced(piece.text):
            plain = _normalize(re.sub(r"[\s・=]", "", fold_characters(piece.text)))
            for form in {plain, _normalize(half_width(plain))} - {""}:
                old_piece = self._runs.get((form, piece.kind))
                if old_piece is None or not old_piece.is_own:
                    self._runs[form, piece.kind] = piece
            return
        sequence = tuple(token.folded for token in _tokenize(fold_characters(piece.text)))
        yield sequence
        if piece.kind != FULL:
            self._single[piece.kind].update(word[0].upper() for word in sequence)
            if len(sequence) > 1:
                yield from ((word,) for word in sequence if word not in PARTICLES and len(word) > 1)

    def find(self, note: SearchedText) -> list[Occurrence]:
        """Return all places in a text that contain known data; places may overlap."""
        finders = (
            self._find_names,
            self._find_initials,
            self._find_births,
            self._find_numbers,
            self._find_addresses,
        )
        return [occurrence for find in finders for occurrence in find(note)]

    def _find_names(self, note: SearchedText) -> Iterator[Occurrence]:
        """Yield names; adjacent parts form one name."""
        parts = self._find_parts(note)
        covered = bytearray(len(note.text))
        if parts.sure:
            letters = tuple(self._find_single_letters(note))
            parts.patient_parts.update(letters)
            ordered = _choose_kinds(note.folded, (*parts.sure, *letters))
            for run in group_adjacent_parts(note.folded, ordered, gap=_GAP):
                kinds = {part.kind for part in run}
                has_name = not kinds.isdisjoint((FIRST, LAST, FULL))
                is_sure = any(parts.sure.get(part) for part in run)
                if is_sure or (has_name and len(kinds) > 1):
                    occurrence = _make_name_occurrence(note, run, parts.patient_parts)
                    covered[occurrence.start : occurrence.stop] = b"\1" * (
                        occurrence.stop - occurrence.start
                    )
                    yield occurrence
        if parts.capitals or parts.words:
            ordered = _choose_kinds(note.folded, (*parts.sure, *parts.words))
            for run in group_adjacent_parts(note.folded, ordered, gap=_GAP):
                kinds = {part.kind for part in run}
                is_capital = kinds != {MIDDLE} and not parts.capitals.isdisjoint(run)
                is_covered = all(all(covered[part.start : part.stop]) for part in run)
                if not is_covered and (is_capital or {FIRST, LAST} <= kinds):
                    yield replace(
                        _make_name_occurrence(note, run, parts.patient_parts), is_doubtful=True
                    )

    def _find_parts(self, note: SearchedText) -> _NameParts:
        """Return the places of parts of names."""
        parts = _NameParts()
        for start, stop, pieces in self._words.find(note.words):
            tokens = note.tokens[start:stop]
            if not note.is_joined(tokens):
                continue
            spellings = [token.spelling for token in tokens]
            # "Will" is a name beside a name; "will" is one only in a text without capitals.
            is_word = len(tokens) == 1 and tokens[0].folded in SELDOM and spellings[0].islower()
            for piece in pieces:
                part = Part(tokens[0].start, tokens[-1].stop, piece.kind)
                if piece.is_own:
                    parts.patient_parts.add(part)
                if is_word and not note.text.islower():
                    parts.words.add(part)
                    continue
                is_sure = _is_name(note, tokens, piece)
                parts.sure[part] = parts.sure.get(part, False) or is_sure
                if sum(map(len, spellings)) > 1 and any(word[0].isupper() for word in spellings):
                    parts.capitals.add(part)
        for (form, kind), piece in self._runs.items():
            for start, stop in _find_all(note.plain, form):
                part = Part(start, stop, kind)
                is_sure = _is_unspaced_name(note, start, stop, piece)
                parts.sure[part] = parts.sure.get(part, False) or is_sure
                if piece.is_own:
                    parts.patient_parts.add(part)
        return parts

    def _find_single_letters(self, note: SearchedText) -> Iterator[Part]:
        """Yield letters that may abbreviate a part beside another part: "J. Smith", "Smith JA"."""
        for start, stop, _, spelling in note.tokens:
            if stop - start > 2 or not spelling.isupper():
                continue
            has_point = note.text[stop : stop + 1] == "."
            for kind in (FIRST, MIDDLE, LAST):
                inner = self._single[MIDDLE] if kind == FIRST else ()
                is_both = spelling[0] in self._single[kind] and spelling[1:] in (*inner, "")
                if is_both and (has_point or spelling not in "AI"):
                    yield Part(start, stop, f"{kind} {INITIALS}")

    def _find_initials(self, note: SearchedText) -> Iterator[Occurrence]:
        for match in _POINTED.finditer(note.folded) if self._initials else ():
            start, stop = match.start(), match.start() + len(match[0].rstrip())
            letters = re.sub("[^A-Z]", "", fold(match[0]).upper())
            is_titled = PATTERNS["HONORIFIC"].match(note.folded, stop)
            if letters in self._initials and (is_titled or letters not in _NO_INITIALS):
                parts = (Part(start, stop, INITIALS),)
                is_own = self._initials[letters]
                yield Occurrence(start, stop, QUASI_IDENTIFIER, parts, is_own)

    def _find_births(self, note: SearchedText) -> Iterator[Occurrence]:
        for start, stop in self._births.find(note.folded) if self._births else ():
            yield _make_occurrence(start, stop, QUASI_IDENTIFIER, BIRTH)

    def _find_numbers(self, note: SearchedText) -> Iterator[Occurrence]:
        for label, code in self._numbers:
            if "@" in code:
                for start, stop in _find_all(note.plain, code):
                    yield _make_occurrence(start, stop, label, label)
                continue
            for first, last in _find_all(note.codes, code):
                places = note.code_places[first:last]
                start, stop = places[0], places[-1] + 1
                if _is_number(note, places):
                    is_opened = note.folded[start - 1 : start] in ("+", "(")
                    yield _make_occurrence(start - is_opened, stop, label, label)

    def _find_addresses(self, note: SearchedText) -> Iterator[Occurrence]:
        """Yield parts of addresses; adjacent parts and the block after one form one occurrence."""
        places = list[tuple[int, int]]()
        for place in self._places:
            for start, stop in _find_all(note.plain, place):
                block = re.compile(rf" ?{PARTS['BLOCK']}").match(note.folded, stop)
                is_state = re.fullmatch("..?.?[都道府県]", place)
                places.append((start, block.end() if block and not is_state else stop))
        for first, last, _ in self._streets.find(note.streets):
            tokens = note.tokens[first:last]
            spelling = tokens[0].spelling
            is_free = len(tokens) > 1 or spelling[0].isupper() or tokens[0].folded.isdigit()
            if is_free and note.is_joined(tokens):
                places.append((tokens[0].start, tokens[-1].stop))
        start = stop = -1
        for first, last in sorted(places):
            if start >= 0 and re.fullmatch(r"[\s,、.-]{0,3}", note.folded[stop:first]):
                stop = max(stop, last)
                continue
            if start >= 0:
                yield _make_occurrence(start, stop, QUASI_IDENTIFIER, ADDRESS)
            start, stop = first, last
        if start >= 0:
            yield _make_occurrence(start, stop, QUASI_IDENTIFIER, ADDRESS)


def _make_occurrence(start: int, stop: int, label: str, kind: str) -> Occurrence:
    return Occurrence(start, stop, label, (Part(start, stop, kind),))


def _make_name_occurrence(
    note: SearchedText, run: Sequence[Part], patient_parts: Collection[Part]
) -> Occurrence:
    """Make one occurrence from the parts of a name, including the full stop of a last initial."""
    kinds = {part.kind for part in run}
    *parts, last = run
    if last.kind.endswith(INITIALS) and note.text[last.stop : last.stop + 1] == ".":
        last = last._replace(stop=last.stop + 1)
    is_full = FULL in kinds or (LAST in kinds and len(kinds) > 1)
    return Occurrence(
        run[0].start,
        last.stop,
        IDENTIFIER if is_full else QUASI_IDENTIFIER,
        (*parts, last),
        is_own=all(part in patient_parts for part in run),
    )


def _choose_kinds(text: str, parts: Iterable[Part]) -> list[Part]:
    """Return parts in order, each place once; among several kinds, the neighbours decide."""
    kinds: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for start, stop, kind in sorted(parts, key=lambda part: (part[0], -part[1], part[2] != LAST)):
        kinds[start, stop].append(kind)
    ordered: list[Part] = []
    places = [*kinds, (len(text) + _BEFORE, 0)]
    for (start, stop), (next_start, next_stop) in pairwise(places):
        neighbour_kinds = (
            set(kinds[next_start, next_stop][:1])
            if _GAP.fullmatch(text, stop, next_start)
            else set()
        )
        if ordered and _GAP.fullmatch(text, ordered[-1].stop, start):
            neighbour_kinds.add(ordered[-1].kind)
        place_kinds = kinds[start, stop]
        kind = next((kind for kind in place_kinds if kind not in neighbour_kinds), place_kinds[0])
        ordered.append(Part(start, stop, kind))
    return ordered


def group_adjacent_parts(
    text: str, parts: Sequence[Part], *, gap: re.Pattern[str]
) -> list[list[Part]]:
    """Group adjacent parts, at most one of each kind in a group.

    `parts` are in order; of several that begin at one place, the longest comes first. `gap` matches
    the text that may stand between two parts.
    """
    runs: list[list[Part]] = []
    for part in parts:
        if runs and part.start < runs[-1][-1].stop:  # the same word as first and last name
            continue
        if runs and _joins(text, runs[-1], part, gap):
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def _joins(text: str, run: Sequence[Part], part: Part, gap: re.Pattern[str]) -> bool:
    start, stop, _ = run[-1]
    if part.start - stop > _MAX_GAP_CHARS or part.kind in {member.kind for member in run}:
        return False
    between = gap.fullmatch(text, stop, part.start)
    # A full stop ends a sentence, unless it belongs to an initial.
    return between is not None and (stop - start == 1 or not between[0].startswith("."))


def _is_name(note: SearchedText, span: Sequence[_Token], piece: Piece) -> bool:
    """Whether a part in Latin letters is a name without another part beside it."""
    start, stop, folded, spelling = span[0][0], span[-1][1], span[0].folded, span[0].spelling
    left_text = note.folded[max(0, start - _BEFORE) : start]
    if len(folded) == 1 and len(span) == 1:
        return False
    if PATTERNS["TITLE"].search(left_text) or PATTERNS["HONORIFIC"].match(note.folded, stop):
        return True
    if PATTERNS["EPONYM"].match(note.folded, stop):
        return False
    is_capital, is_shouted = spelling[0].isupper(), len(spelling) > 1 and spelling.isupper()
    if len(span) > 1:
        return piece.is_sure or any(token.spelling[0].isupper() for token in span)
    if folded in SELDOM and is_capital and PATTERNS["VERB"].match(note.folded, stop):
        return True
    if folded in SELDOM or (len(folded) == 2 and not is_unspaced(spelling)):
        begins = not left_text.strip() or left_text.rstrip(" \"'(")[-1:] in (
            ".",
            "!",
            "?",
            ":",
            "\n",
            "",
        )
        return is_capital and not is_shouted and (len(folded) == 2 or not begins)
    if folded in _WORDS or not (piece.is_sure or folded.capitalize() in english_names()):
        return is_capital
    return True


def _is_unspaced_name(note: SearchedText, start: int, stop: int, piece: Piece) -> bool:
    """Whether a part in Han or kana is a name without another part beside it."""
    name, (left, right) = note.folded[start:stop], note.around(start, stop)
    is_titled = bool(PATTERNS["HONORIFIC"].match(note.folded, stop))
    is_edge = [not char or not (char.isalnum() or char == "ー") for char in (left, right)]
    if IN_KANA.fullmatch(name):
        if re.search(f"[{HIRA}]", name):
            is_begun = not re.match(f"(?![はがのとをにもで])[{HIRA}]", left)
            return is_begun and (is_titled or len(name) > 2)
        is_apart = not any(re.match(f"[{KATA}ｦ-ﾟ]", char) for char in (left, right))
        return is_apart and (is_titled or len(name) > 1)
    if is_titled and (len(name) > 1 or is_edge[0] or not re.match(f"[{PARTS['HAN']}]", left)):
        return True
    if PATTERNS["EPONYM"].match(note.folded, stop) or _is_japanese_word(note, start, stop):
        return False
    is_after_han = bool(re.match(f"[{PARTS['HAN']}]", left)) and not PATTERNS["KIN"].match(left)
    if len(name) == 1:
        is_free = (
            is_edge[1] if piece.kind != LAST else PATTERNS["PARTICLE"].match(note.folded, stop)
        )
        return bool(is_free) and not re.match(f"[{PARTS['HAN']}{HIRA}]", left)
    if piece.kind == FIRST and len(name) == 2:
        return not is_after_han and not re.match(f"[{PARTS['HAN']}]", right)
    return True


def _is_japanese_word(note: SearchedText, start: int, stop: int) -> bool:
    words = _index_words().get(note.folded[start:stop], ())
    return any(
        word_start <= start and note.folded.startswith(word, start - word_start)
        for word, word_start in words
    )


@cache
def _index_words() -> dict[str, list[tuple[str, int]]]:
    """Return, for every part of a word of Japanese notes, the words and its offset in each."""
    words_by_part = defaultdict[str, list[tuple[str, int]]](list)
    for word in JAPANESE_NO_NAMES:
        for start, stop in combinations(range(len(word) + 1), 2):
            if word.find(word[start:stop]) == start:
                words_by_part[word[start:stop]].append((word, start))
    return dict(words_by_part)


def _is_number(note: SearchedText, places: Sequence[int]) -> bool:
    """Whether the characters at some places form one whole number, divided only by punctuation."""
    start, stop = places[0], places[-1] + 1
    for place, next_place in pairwise(places):
        if next_place - place > 4 or re.search(
            r"[^\s()./・_-]", note.folded[place + 1 : next_place]
        ):
            return False
    left, right = note.around(start, stop)
    if any(char.isascii() and char.isalnum() for char in (left, right)):
        return False
    if left == "." and note.folded[start - 2 : start - 1].isdigit():
        return False
    cue = note.folded[max(0, start - _BEFORE) : start]
    return len(places) >= _LEAST_FREE or bool(PATTERNS["NUMBER_CUE"].search(cue))


@lru_cache(maxsize=512)
def build_patient_finder(*packs: str) -> PatientFinder:
    """Return a finder for the pieces of all packed strings."""
    return PatientFinder(unpack_pieces(merge_packs(*packs)))


class FullNames:
    """Finds the full names of all patients of a register, in either order of their parts."""

    def __init__(self, names: Iterable[tuple[str, str, str]]) -> None:
        """Build the finder from tuples (patient, first name, last name)."""
        spaced: dict[tuple[str, ...], tuple[str, ...]] = {}
        unspaced: dict[str, tuple[str, ...]] = {}
        for patient, first, last in names:
            if is_unspaced(first + last):
                name = "".join(_normalize(fold_text(last + first).text).split())
                if patient not in unspaced.get(name, ()):
                    unspaced[name] = (*unspaced.get(name, ()), patient)
                continue
            firsts, lasts = (
                tuple(
                    intern(token.folded)
                    for token in _tokenize(fold_characters(fold_text(part).text))
                )
                for part in (first, last)
            )
            for words in {firsts + lasts, lasts + firsts} if firsts and lasts else ():
                if patient not in spaced.get(words, ()):
                    spaced[words] = (*spaced.get(words, ()), patient)
        self._spaced, self._unspaced = Lexicon(spaced), Lexicon(unspaced)

    def find(self, note: SearchedText) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        """Yield (start, stop, patients with this name), the longest name at a place first."""
        for start, stop, patients in sorted(self._spaced.find(note.words), key=_longest_first):
            if note.is_joined(tokens := note.tokens[start:stop]):
                yield tokens[0].start, tokens[-1].stop, patients
        for start, stop, patients in sorted(self._unspaced.find(note.tight), key=_longest_first):
            yield note.tight_places[start], note.tight_places[stop - 1] + 1, patients


def _longest_first(place: tuple[int, int, object]) -> tuple[int, int]:
    return place[0], -place[1]
