"""Names of people as text: script, order of the parts, comparison, splitting, column headings.

The functions are pure and work on strings; the module knows no list of names.
"""

from __future__ import annotations

import functools
import importlib
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.errors import Message

MAX_NAME_CHARS = 200

# Kana, 々 and 〆, Han (with compatibility and supplementary planes), half-width katakana.
_UNSPACED = re.compile(
    "[\u3040-\u30ff\u3005\u3006\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)


def is_unspaced(text: str) -> bool:
    """Whether `text` is in a script that writes names without spaces (Han, kana)."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def script_of(text: str) -> str:
    """Return the script of a name: "latin", "han_kana" or "other"."""
    if text.isascii():
        return "latin" if any(map(str.isalpha, text)) else "other"
    if is_unspaced(text):
        return "han_kana"
    letters = [ch for ch in text if unicodedata.category(ch).startswith("L")]
    is_latin = bool(letters) and all("LATIN" in unicodedata.name(ch, "") for ch in letters)
    return "latin" if is_latin else "other"


def fold_name(text: str) -> str:
    """Return the form in which names are compared; all spellings of one name have the same form.

    Case, width, spacing, the forms of apostrophes and hyphens, composed and decomposed accents,
    invisible characters and variants of a surname's Han characters make no difference.
    """
    if text.isascii():
        return " ".join(text.lower().replace("`", "'").split())
    text = unicodedata.normalize("NFKC", text.translate(_SAME_SIGNS))
    folded = unicodedata.normalize("NFKC", text.casefold()).translate(_same_characters())
    return " ".join(folded.split())


def fold_letters(text: str) -> str:
    """Return the form in which names are compared if a model may drop accents."""
    folded = fold_name(text)
    if folded.isascii():
        return folded
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", folded))
    return unicodedata.normalize("NFC", bare)


_ACCENTS = re.compile("[\u0300-\u036f]")
_APOSTROPHES = "`´ʹʻʼʽˈ‘’‛′＇\uff40\u1fbf\u1fbd"
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63\uff0d"
# Joiners, marks of direction and variation selectors are invisible.
_INVISIBLE = (
    0x34F,
    0x61C,
    0x180E,
    0xFEFF,
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),
)
_SAME_SIGNS = str.maketrans(
    dict.fromkeys(_APOSTROPHES, "'")
    | dict.fromkeys(_HYPHENS, "-")
    | dict.fromkeys([0xAD, *_INVISIBLE], "")
)


@functools.cache
def _same_characters() -> dict[int, str]:
    """Map each variant of a Han character to its usual form."""
    return {ord(char): group[0] for group in name_words("variants") for char in group[1:]}


def written_name(first: str, last: str) -> str:
    """Return a name as running text has it: "First Last", or 姓名 without a space."""
    if is_unspaced(first + last):
        return last + first
    return " ".join(part for part in (first, last) if part)


def split_name(text: str) -> tuple[str, str]:
    """Split a whole name into (all given names, last name), as `read_name` does."""
    parts = read_name(text)
    return parts.given_names, parts.last


TITLES, MIDDLE, BRACKETS, SEVERAL, DOUBTFUL = "titles", "middle", "brackets", "several", "doubtful"
"""Oddities of a written name, in this order: titles, suffixes, degrees or honorifics were dropped;
middle names or initials were dropped; a text in brackets was dropped; a cell of first names has
several words, which were all read; a word that can be a title or a degree was read as a name."""


@dataclass(frozen=True)
class NameParts:
    """A written name after reading; `given_names` has the middle names that `first` lacks."""

    first: str
    last: str
    given_names: str
    oddities: frozenset[str] = frozenset()


def read_name(text: str) -> NameParts:
    """Read a whole name. `audit/name_words.txt` has the words that are no part of a name.

    A comma decides: "Last, First". Carets separate the fields of HL7. In Han or kana the first word
    is the last name; a name without a space cannot be split and counts as a last name. Otherwise
    the last name is the last word with its particles (van Gogh), or two Spanish surnames (García
    Márquez) after a known first name. The first name is the first of the remaining words that is
    not an initial.
    """
    name = _compose_accents(text)
    if "^" in name:
        return _read_fields(name)
    segments = [
        words
        for segment in _COMMA.split(_strip_brackets(name))
        if (words := _split_into_words(segment))
    ]
    name_segments: list[list[str]] = []
    for words in segments:
        is_degree = name_segments and _is_doubtful_suffix(
            words, n_before=sum(map(len, name_segments))
        )
        if not is_degree and (words := _strip_honorifics(words)) and not _is_no_name(words):
            name_segments.append(words)
    if not name_segments:
        return NameParts("", "", "", frozenset({TITLES} if segments else ()))
    if len(name_segments) == 1:
        given_names, last = _split_words(_strip_affixes(name_segments[0]))
    else:
        last = _strip_affixes(name_segments[0], n_before=1)
        given_names = _strip_affixes(name_segments[1], n_before=len(last))
        given_names += [word for words in name_segments[2:] for word in words]
        while len(given_names) > 1 and _is_particle(given_names, len(given_names) - 1):
            last.insert(0, given_names.pop())
    first = (
        given_names if is_unspaced("".join(given_names + last)) else _first_given_name(given_names)
    )
    oddities = {
        BRACKETS: _strip_brackets(name) != name,
        TITLES: _count_letters(*segments) > _count_letters(given_names, last),
        MIDDLE: len(first) < len(given_names),
        DOUBTFUL: _is_doubtful(given_names, last),
    }
    return NameParts(
        " ".join(first), " ".join(last), " ".join(given_names), _true_oddities(oddities)
    )


def read_name_cells(first: str, last: str) -> NameParts:
    """Read a name in two cells: the columns decide what is the last name.

    Titles, suffixes and honorifics are dropped, and so are initials beside a first name; several
    first names stay. If one cell has nothing else, and the other a whole name, that name is read as
    by `read_name`.
    """
    cells = _compose_accents(first), _compose_accents(last)
    previous_cells, oddities = None, set[str]()
    while previous_cells != cells:  # "Dr. Mr." is a title after a title
        previous_cells = cells
        given_names, given_oddities = _read_cell(cells[0], is_last=False, other_cell=cells[1])
        surname, last_oddities = _read_cell(cells[1], is_last=True, other_cell=given_names)
        oddities |= given_oddities | last_oddities
        cells = given_names, surname
    given_names, surname = cells
    if first.strip() and last.strip() and bool(given_names) != bool(surname):
        words = (given_names or surname).split()
        if (
            len(words) > 1
            and not is_unspaced(given_names + surname)
            and (given_names or _is_given(words[0]))
        ):
            parts = read_name(given_names or surname)
            return NameParts(
                parts.first, parts.last, parts.given_names, parts.oddities | oddities - {SEVERAL}
            )
    return NameParts(given_names, surname, given_names, frozenset(oddities))


def _read_cell(text: str, *, is_last: bool, other_cell: str) -> tuple[str, set[str]]:
    """Return a cell of first or last names without other words, and the cell's oddities."""
    bare = _strip_brackets(text)
    segments = [words for segment in _COMMA.split(bare) if (words := _split_into_words(segment))]
    name_segments = [
        words
        for place, words in enumerate(segments)
        if not _is_no_name(words, is_lone_last=is_last and bool(other_cell) and len(segments) == 1)
        and not (place and _is_doubtful_suffix(words, n_before=2))
    ]
    is_whole = len(name_segments) == len(segments)
    if len(name_segments) > 1:
        return text, set()  # nobody writes a first name or a last name so
    n_before = 1 if is_last and other_cell else 0
    words = _strip_affixes(name_segments[0], n_before=n_before) if name_segments else []
    if words and not (is_last and other_cell and words[-1].endswith(_LATE_HONORIFICS)):
        words = _strip_honorifics(words) or words
    elif words and words[-1] in name_words("honorifics"):
        words = words[:-1]
    cell_words = words
    if not is_last and any(not _INITIALS.fullmatch(word) for word in words):
        cell_words = [word for word in words if not _INITIALS.fullmatch(word)]
    oddities = {
        BRACKETS: bare != text,
        TITLES: _count_letters(*segments) > _count_letters(words),
        MIDDLE: len(cell_words) < len(words),
        SEVERAL: not is_last and len(cell_words) > 1 and not is_unspaced(text),
        DOUBTFUL: _is_doubtful([], cell_words) if is_last else _is_doubtful(cell_words, []),
    }
    is_changed = bare != text or not is_whole or [cell_words] != segments
    return " ".join(cell_words) if is_changed else text, {*_true_oddities(oddities)}


def _read_fields(text: str) -> NameParts:
    """Read a name of HL7, family^given^middle^suffix^prefix^degree; of several, the first."""
    fields = [field.partition("&")[0].strip(' "') for field in text.partition("~")[0].split("^")]
    family, given_names, middle, *titles = (*fields, "", "", "")
    parts = read_name_cells(given_names, family)
    oddities = _true_oddities({MIDDLE: bool(middle), TITLES: any(titles)})
    given_and_middle = " ".join(filter(None, (parts.given_names, middle)))
    return NameParts(parts.first, parts.last, given_and_middle, parts.oddities | oddities)


_COMMA = re.compile("[,，、]")
_INSIDE = r"[\w\s.,:'’・-]*\w[\w\s.,:'’・-]*"
_BRACKETS = re.compile(rf"\({_INSIDE}\)|（{_INSIDE}）|\"{_INSIDE}\"|“{_INSIDE}”")
_INITIALS = re.compile(r"[^\W\d_]\.?|(?:[^\W\d_]\.-?)+")
_NAME_WORDS = Path(__file__).with_name("name_words.txt")


@functools.cache
def name_words(section: str) -> frozenset[str]:
    """Return the words of a section of `audit/name_words.txt`."""
    return word_lists(_NAME_WORDS)[section]


def _true_oddities(oddities: dict[str, bool]) -> frozenset[str]:
    return frozenset(oddity for oddity, is_so in oddities.items() if is_so)


def _compose_accents(text: str) -> str:
    """Return text without surrounding white space, with accents composed with their letters."""
    is_decomposed = any(map(unicodedata.combining, text))
    return (unicodedata.normalize("NFC", text) if is_decomposed else text).strip()


def _count_letters(*names: Sequence[str]) -> int:
    return sum(len(word) for words in names for word in words)


def _strip_brackets(text: str) -> str:
    """Remove nicknames and former names in brackets, unless nothing else is left."""
    bare = " ".join(_BRACKETS.sub(" ", text).split())
    return bare if bare and _BRACKETS.search(text) else text


def _split_into_words(text: str) -> list[str]:
    """Return the words of a name; a title joined to the next word by its point is separated."""

    def part(match: re.Match[str]) -> str:
        return f"{match[0]} " if _is_affix(match[0]) else match[0]

    return re.sub(r"(?<![\w.])[^\W\d_]{2,}\.(?=[^\W\d_])", part, text).split()


def _lookup_key(word: str) -> str:
    """Return the form in which words are looked up in `audit/name_words.txt`."""
    return fold_letters(word).replace(".", "")


def _is_affix(word: str) -> bool:
    """Whether a word is a title or a suffix, or several: MD/PhD."""
    pieces = re.split("[/&+]", _lookup_key(word).strip("/&+"))
    affixes = name_words("titles") | name_words("suffixes") | name_words("honorifics")
    return any(pieces) and all(piece in affixes for piece in pieces if piece)


def _is_no_name(words: list[str], *, is_lone_last: bool = False) -> bool:
    """Whether all words are titles and suffixes; a single one may be a last name: Michael Herr."""
    is_lone = is_lone_last and len(words) == 1 and "." not in words[0]
    if is_lone and _lookup_key(words[0]) in name_words("also_last_names"):
        return False
    if len(words) > 1 and all(len(word) < 4 and "." in word for word in words):
        return _is_affix("".join(words)) or all(map(_is_affix, words))  # "M. D."
    return all(map(_is_affix, words)) or _is_affix("".join(words))


def _is_doubtful_suffix(words: list[str], *, n_before: int) -> bool:
    """Whether words after a comma, which may be a name, are a degree: not in "Ma, Yo-Yo"."""
    joined = "".join(words)
    return _lookup_key(joined) in name_words("doubtful_suffixes") and (
        n_before > 1 or "." in joined
    )


def _is_doubtful(first: Sequence[str], last: Sequence[str]) -> bool:
    """Whether a first name is a title elsewhere, or a last name a degree."""
    begin, end = (_lookup_key(word) for word in ("".join(first[:1]), "".join(last[-1:])))
    is_title = begin in name_words("doubtful_titles") and not _is_given(begin)
    is_degree = end in name_words("doubtful_suffixes") and not _is_common_surname(end)
    return (is_title and len(begin) > 1) or (is_degree and len(end) > 1)


def _strip_honorifics(words: list[str]) -> list[str]:
    """Remove Japanese honorifics, which are words of their own or end the last word."""
    words = list(words)
    honorifics = name_words("honorifics")
    while words:
        if words[-1] in honorifics:
            words.pop()
            continue
        endings = [honorific for honorific in honorifics if words[-1].endswith(honorific)]
        if not endings or words[-1] in name_words("no_honorifics"):
            break
        words[-1] = words[-1][: -max(map(len, endings))]
    return words


# At the end of a family name alone these are hardly ever honorifics: 鵜殿.
_LATE_HONORIFICS = ("殿", "氏", "君")


def _strip_affixes(words: list[str], *, n_before: int = 0) -> list[str]:
    """Remove titles before and suffixes after a name; `n_before` words of names come before it.

    A word that may be a name is a title before a known first name and another word, or with a
    point; it is a degree with points, or in capitals after a first and a last name.
    """
    is_one_case = not any(word.isupper() for word in words) or all(map(str.isupper, words))
    begin = 0
    while begin < len(words) - 1:
        word, key, rest = words[begin], _lookup_key(words[begin]), words[begin + 1 :]
        is_behind = begin and (word.endswith(".") or (word.islower() and not rest[-1].islower()))
        is_title = (
            key in name_words("titles")
            or (is_behind and key in name_words("behind_titles"))
            or (word in ("M.", "MM.") and len(rest) == 1)
            or (
                key in name_words("doubtful_titles")
                and not _is_given(key)
                and (word.endswith(".") or (len(rest) > 1 and _is_given(rest[0])))
            )
        )
        if not is_title:
            break
        begin += 1
    words = words[begin:]
    while len(words) > 1:
        n = next((n for n in (3, 2) if len(words) > n and _is_spaced_degree(words[-n:])), 1)
        word, key = words[-1], _lookup_key(words[-1])
        n_names = n_before + sum(not _INITIALS.fullmatch(name_word) for name_word in words[:-1])
        is_numbered_name = word in ("Ii", "Iv") and n_names < 2
        is_shown = word.isupper() and (not is_one_case or not _is_given(words[-2]))
        is_doubtful = key in name_words("doubtful_suffixes") and (
            word.count(".") > 1
            or (word.endswith(".") and len(key) > 2)
            or (n_names > 1 and (is_shown or (word.islower() and is_one_case)))
        )
        is_suffix = n > 1 or (_is_affix(word) and not is_numbered_name) or is_doubtful
        if not is_suffix:
            break
        words = words[:-n]
    return words


def _is_spaced_degree(words: list[str]) -> bool:
    """Whether words with points, such as "Ph. D.", are one degree."""
    is_pointed = all(word.endswith(".") for word in words)
    return is_pointed and _lookup_key("".join(words)) in name_words("suffixes")


def _split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the words of a name without a comma into given names and last name."""
    if is_unspaced("".join(words)):
        return words[1:], words[:1]
    while len(words) > 2 and _INITIALS.fullmatch(words[-1]):  # "Jane Doe M."
        words = [words[-1], *words[:-1]]
    place = _start_of_unit(words, len(words) - 1)
    is_joined = place > 0 and _lookup_key(words[place]) in name_words("joints")
    if is_joined or (place > 1 and _are_two_surnames(words, place)):
        place = _start_of_unit(words, place - 1)
    return words[:place], words[place:]


def _start_of_unit(words: list[str], place: int) -> int:
    """Return where the particles before a word begin."""
    while place and _is_particle(words, place - 1):
        place -= 1
    return place


def _is_particle(words: list[str], place: int) -> bool:
    """Whether a word is a particle; the first word is one only if it alone is in lower case."""
    word, key = words[place], _lookup_key(words[place])
    if place == 0 and (not word[0].islower() or words[-1].islower()):
        return False
    is_small = word[0].islower() and key in name_words("small_particles")
    return is_small or key in name_words("particles")


def _are_two_surnames(words: list[str], place: int) -> bool:
    """Whether the word before the last name is a Spanish surname too, and not a given name."""
    first = next((word for word in words if not _INITIALS.fullmatch(word)), "")
    surname, last = words[place - 1], words[-1]
    begin = _start_of_unit(words, place - 1)
    if not begin or not _is_given(first) or _lookup_key(surname) not in _spanish_surnames():
        return False
    if begin < 2 and _is_given(surname):
        return False
    is_spanish = not _spanish_surnames().isdisjoint(_lookup_key(last).split("-"))
    return is_spanish or (
        _lookup_key(first) in _given_names(_SPANISH) and not _is_common_surname(last)
    )


def _first_given_name(given_names: list[str]) -> list[str]:
    """Return the first given name that is not an initial, or else the first initial."""
    names = [word for word in given_names if not _INITIALS.fullmatch(word)]
    return (names or given_names)[:1]


_SPANISH = ("es_ES", "es_MX", "es_CO", "es_AR", "es_CL")
_LOCALES = ("en_US", "de_DE", "fr_FR", *_SPANISH)


@functools.cache
def _generator_names(locale: str, attributes: tuple[str, ...]) -> frozenset[str]:
    """Return the one-word names of Faker's tables, in the form in which they are looked up."""
    provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
    tables = (getattr(provider, attribute, ()) for attribute in attributes)
    names = (name for table in tables if not isinstance(table, property) for name in table)
    return frozenset(_lookup_key(name) for name in names if " " not in name)


@functools.cache
def _given_names(locales: tuple[str, ...] = _LOCALES) -> frozenset[str]:
    attributes = ("first_names", "first_names_male", "first_names_female")
    return frozenset().union(*(_generator_names(locale, attributes) for locale in locales))


@functools.cache
def _spanish_surnames() -> frozenset[str]:
    return frozenset().union(*(_generator_names(locale, ("last_names",)) for locale in _SPANISH))


def _is_given(word: str) -> bool:
    """Whether a word is a first name in one of the languages that are read."""
    return _lookup_key(word) in _given_names()


def _is_common_surname(word: str) -> bool:
    return _lookup_key(word) in _generator_names("en_US", ("last_names",))


def ordered_word_lists(path: Path) -> dict[str, tuple[str, ...]]:
    """Read shipped lists of words: [name] with its words below; # begins a comment."""
    text = re.sub(r"^#.*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lists = re.findall(r"^\[(\w+)\]$([^\[]*)", text, re.MULTILINE)
    return {name: tuple(words.split()) for name, words in lists}


def word_lists(path: Path) -> dict[str, frozenset[str]]:
    """Read the same lists as sets, where the order of words does not matter."""
    return {name: frozenset(words) for name, words in ordered_word_lists(path).items()}


HEADINGS: Mapping[str, tuple[str, ...]] = ordered_word_lists(
    Path(__file__).with_name("headings.txt")
)
"""The content of a column -> its headings, in the form of `heading_key`."""


def heading_key(text: str) -> str:
    """Return a column name without case, width, white space, underscores and punctuation."""
    return re.sub(r"[\s_\-.'’]+", "", unicodedata.normalize("NFKC", text).casefold())


@dataclass(frozen=True)
class NameColumns:
    """Indices of the columns that hold names: either `first` and `last`, or `full`, or none."""

    first: int | None
    last: int | None
    full: int | None

    @property
    def is_empty(self) -> bool:
        """Whether the table holds no names."""
        return self.full is None and (self.first is None or self.last is None)

    @property
    def read_columns(self) -> frozenset[int]:
        """Indices of the columns that are read."""
        return frozenset(c for c in (self.first, self.last, self.full) if c is not None)

    def read_parts(self, row: Sequence[str]) -> NameParts:
        """Read a row's name."""
        if self.full is not None:
            return read_name(row[self.full])
        assert self.first is not None and self.last is not None
        return read_name_cells(row[self.first], row[self.last])

    def read(self, row: Sequence[str]) -> tuple[str, str]:
        """Return a row's (all given names, last name)."""
        parts = self.read_parts(row)
        return parts.given_names, parts.last


def part_of_name_column(keys: Collection[str]) -> str:
    """Return what a column headed "name" holds, given all headings: "first", "last" or "full"."""

    def has_heading(field: str) -> bool:
        return any(key in HEADINGS[field] for key in keys)

    if has_heading("last"):
        return "full" if has_heading("first") else "first"
    return "last" if has_heading("first_beside_name") else "full"


def find_name_columns(header: Sequence[str]) -> NameColumns:
    """Find the columns that hold names; first and last names take precedence over whole names.

    Raises ValueError if two columns hold the same part.
    """
    keys = [heading_key(name) for name in header]
    named = {part_of_name_column(keys): HEADINGS["full_or_first"]}

    def find_column(part: str) -> int | None:
        return _find_only_column(keys, HEADINGS[part] + named.get(part, ()))

    first, last = find_column("first"), find_column("last")
    if first is not None and last is not None:
        return NameColumns(first=first, last=last, full=None)
    return NameColumns(first=None, last=None, full=find_column("full"))


def _find_only_column(keys: Sequence[str], headings: Sequence[str]) -> int | None:
    columns = [column for column, key in enumerate(keys) if key in headings]
    if len(columns) > 1:
        raise ValueError(
            Message(
                "Columns {one} and {other} hold the same part of the name.",
                one=columns[0] + 1,
                other=columns[1] + 1,
            )
        )
    return columns[0] if columns else None
