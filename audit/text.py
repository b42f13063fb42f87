"""Names of people as text: script, order of the parts, comparison, splitting, column headings.

Pure functions on strings; knows no file and no list.
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
    """Return the form in which names are compared: one for all ways of writing the same name.

    Case, width, spacing, the forms of apostrophes and hyphens, composed and decomposed accents,
    invisible characters and variants of a surname's Han characters make no difference.
    """
    if text.isascii():
        return " ".join(text.lower().replace("`", "'").split())
    text = unicodedata.normalize("NFKC", text.translate(_SAME_SIGNS))
    folded = unicodedata.normalize("NFKC", text.casefold()).translate(_same_characters())
    return " ".join(folded.split())


def fold_letters(text: str) -> str:
    """Return the form in which names are compared where a model may drop accents."""
    folded = fold_name(text)
    if folded.isascii():
        return folded
    bare = _ACCENTS.sub("", unicodedata.normalize("NFD", folded))
    return unicodedata.normalize("NFC", bare)


_ACCENTS = re.compile("[\u0300-\u036f]")
_APOSTROPHES = "`´ʹʻʼʽˈ‘’‛′＇\uff40\u1fbf\u1fbd"
_HYPHENS = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe58\ufe63\uff0d"
# Soft hyphens, joiners, marks of direction, selectors of a variant: none is seen.
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
    """Return the usual form of each variant of a Han character."""
    return {ord(char): group[0] for group in name_words("variants") for char in group[1:]}


def written_name(first: str, last: str) -> str:
    """Return a name as running text has it: "First Last", or 姓名 without a space."""
    if is_unspaced(first + last):
        return last + first
    return " ".join(part for part in (first, last) if part)


def split_name(text: str) -> tuple[str, str]:
    """Split a name in one piece into (all given names, last), as `read_name` does."""
    parts = read_name(text)
    return parts.given, parts.last


TITLES, MIDDLE, BRACKETS, SEVERAL, DOUBTFUL = "titles", "middle", "brackets", "several", "doubtful"
"""What is odd about a written name: titles, suffixes, degrees or honorifics were dropped; middle
names or initials; what stood in brackets; a cell of first names has several words, all read; a
word was read as a name that is a title or a degree elsewhere."""


@dataclass(frozen=True)
class NameParts:
    """A written name as it is read; `given` has the middle names that `first` is without."""

    first: str
    last: str
    given: str
    oddities: frozenset[str] = frozenset()


def read_name(text: str) -> NameParts:
    """Read a name in one piece. `audit/name_words.txt` has the words that are no part of a name.

    A comma decides: "Last, First". Carets part the fields of HL7. In Han or kana the first word is
    the last name; what has no space cannot be split and is the last name. Else the last word is,
    with its particles (van Gogh), two Spanish surnames (García Márquez) behind a known first name;
    of the words before, the first that is no initial is the first name.
    """
    name = _composed(text)
    if "^" in name:
        return _read_fields(name)
    segments = [words for one in _COMMA.split(_without_brackets(name)) if (words := _words(one))]
    named: list[list[str]] = []
    for words in segments:
        is_degree = named and _is_doubtful_suffix(words, n_before=sum(map(len, named)))
        if not is_degree and (words := _without_honorifics(words)) and not _is_no_name(words):
            named.append(words)
    if not named:
        return NameParts("", "", "", frozenset({TITLES} if segments else ()))
    if len(named) == 1:
        given, last = _split_words(_without_affixes(named[0]))
    else:
        last = _without_affixes(named[0], n_before=1)
        given = _without_affixes(named[1], n_before=len(last))
        given += [word for words in named[2:] for word in words]
        while len(given) > 1 and _is_particle(given, len(given) - 1):
            last.insert(0, given.pop())
    first = given if is_unspaced("".join(given + last)) else _first_of(given)
    oddities = {
        BRACKETS: _without_brackets(name) != name,
        TITLES: _n_letters(*segments) > _n_letters(given, last),
        MIDDLE: len(first) < len(given),
        DOUBTFUL: _is_doubtful(given, last),
    }
    return NameParts(" ".join(first), " ".join(last), " ".join(given), _those(oddities))


def read_name_cells(first: str, last: str) -> NameParts:
    """Read a name in two cells: the columns decide what is the last name.

    Titles, suffixes and honorifics go, and initials beside a first name; several first names stay.
    A cell without anything but these, beside a cell with a whole name, is read as `read_name` does.
    """
    cells = _composed(first), _composed(last)
    before, oddities = None, set[str]()
    while before != cells:  # "Dr. Mr." is a title behind a title
        before = cells
        given, given_oddities = _read_cell(cells[0], is_last=False, other=cells[1])
        surname, last_oddities = _read_cell(cells[1], is_last=True, other=given)
        oddities |= given_oddities | last_oddities
        cells = given, surname
    given, surname = cells
    if first.strip() and last.strip() and bool(given) != bool(surname):
        words = (given or surname).split()
        if len(words) > 1 and not is_unspaced(given + surname) and (given or _is_given(words[0])):
            whole = read_name(given or surname)
            return NameParts(
                whole.first, whole.last, whole.given, whole.oddities | oddities - {SEVERAL}
            )
    return NameParts(given, surname, given, frozenset(oddities))


def _read_cell(text: str, *, is_last: bool, other: str) -> tuple[str, set[str]]:
    """Return a cell of first or of last names without what is no part of them, and the oddities."""
    bare = _without_brackets(text)
    segments = [words for one in _COMMA.split(bare) if (words := _words(one))]
    named = [
        words
        for place, words in enumerate(segments)
        if not _is_no_name(words, is_lone_last=is_last and bool(other) and len(segments) == 1)
        and not (place and _is_doubtful_suffix(words, n_before=2))
    ]
    is_whole = len(named) == len(segments)
    if len(named) > 1:
        return text, set()  # nobody's way of writing a first name or a last name
    n_before = 1 if is_last and other else 0
    words = _without_affixes(named[0], n_before=n_before) if named else []
    if words and not (is_last and other and words[-1].endswith(_LATE_HONORIFICS)):
        words = _without_honorifics(words) or words
    elif words and words[-1] in name_words("honorifics"):
        words = words[:-1]
    kept = words
    if not is_last and any(not _INITIALS.fullmatch(word) for word in words):
        kept = [word for word in words if not _INITIALS.fullmatch(word)]
    oddities = {
        BRACKETS: bare != text,
        TITLES: _n_letters(*segments) > _n_letters(words),
        MIDDLE: len(kept) < len(words),
        SEVERAL: not is_last and len(kept) > 1 and not is_unspaced(text),
        DOUBTFUL: _is_doubtful([], kept) if is_last else _is_doubtful(kept, []),
    }
    is_changed = bare != text or not is_whole or [kept] != segments
    return " ".join(kept) if is_changed else text, {*_those(oddities)}


def _read_fields(text: str) -> NameParts:
    """Read a name of HL7: family^given^middle^suffix^prefix^degree, the first of several."""
    fields = [field.partition("&")[0].strip(' "') for field in text.partition("~")[0].split("^")]
    family, given, middle, *titles = (*fields, "", "", "")
    parts = read_name_cells(given, family)
    oddities = _those({MIDDLE: bool(middle), TITLES: any(titles)})
    both = " ".join(filter(None, (parts.given, middle)))
    return NameParts(parts.first, parts.last, both, parts.oddities | oddities)


_COMMA = re.compile("[,，、]")
_INSIDE = r"[\w\s.,:'’・-]*\w[\w\s.,:'’・-]*"
_BRACKETS = re.compile(rf"\({_INSIDE}\)|（{_INSIDE}）|\"{_INSIDE}\"|“{_INSIDE}”")
_INITIALS = re.compile(r"[^\W\d_]\.?|(?:[^\W\d_]\.-?)+")
_NAME_WORDS = Path(__file__).with_name("name_words.txt")


@functools.cache
def name_words(which: str) -> frozenset[str]:
    """Return the words of a section of `audit/name_words.txt`."""
    return word_lists(_NAME_WORDS)[which]


def _those(oddities: dict[str, bool]) -> frozenset[str]:
    return frozenset(oddity for oddity, is_so in oddities.items() if is_so)


def _composed(text: str) -> str:
    """Return text without white space around it, its combining accents composed with letters."""
    is_decomposed = any(map(unicodedata.combining, text))
    return (unicodedata.normalize("NFC", text) if is_decomposed else text).strip()


def _n_letters(*names: Sequence[str]) -> int:
    return sum(len(word) for words in names for word in words)


def _without_brackets(text: str) -> str:
    """Return a name without nicknames and former names in brackets; all of it if nothing is left"""
    bare = " ".join(_BRACKETS.sub(" ", text).split())
    return bare if bare and _BRACKETS.search(text) else text


def _words(text: str) -> list[str]:
    """Return the words of a name; a title that its point joins to the next is apart from it."""

    def part(match: re.Match[str]) -> str:
        return f"{match[0]} " if _is_affix(match[0]) else match[0]

    return re.sub(r"(?<![\w.])[^\W\d_]{2,}\.(?=[^\W\d_])", part, text).split()


def _key(word: str) -> str:
    """Return the form in which words are looked up in `audit/name_words.txt`."""
    return fold_letters(word).replace(".", "")


def _is_affix(word: str) -> bool:
    """Whether a word is a title or a suffix, or several: MD/PhD."""
    pieces = re.split("[/&+]", _key(word).strip("/&+"))
    known = name_words("titles") | name_words("suffixes") | name_words("honorifics")
    return any(pieces) and all(piece in known for piece in pieces if piece)


def _is_no_name(words: list[str], *, is_lone_last: bool = False) -> bool:
    """Whether there are only titles and suffixes; one alone may be a last name: Michael Herr."""
    is_lone = is_lone_last and len(words) == 1 and "." not in words[0]
    if is_lone and _key(words[0]) in name_words("also_last_names"):
        return False
    if len(words) > 1 and all(len(word) < 4 and "." in word for word in words):
        return _is_affix("".join(words)) or all(map(_is_affix, words))  # "M. D."
    return all(map(_is_affix, words)) or _is_affix("".join(words))


def _is_doubtful_suffix(words: list[str], *, n_before: int) -> bool:
    """Whether words behind a comma are a degree that may be a name: not in "Ma, Yo-Yo"."""
    joined = "".join(words)
    return _key(joined) in name_words("doubtful_suffixes") and (n_before > 1 or "." in joined)


def _is_doubtful(first: Sequence[str], last: Sequence[str]) -> bool:
    """Whether a first name is a title elsewhere, or a last name a degree."""
    begin, end = (_key(word) for word in ("".join(first[:1]), "".join(last[-1:])))
    is_title = begin in name_words("doubtful_titles") and not _is_given(begin)
    is_degree = end in name_words("doubtful_suffixes") and not _is_common_surname(end)
    return (is_title and len(begin) > 1) or (is_degree and len(end) > 1)


def _without_honorifics(words: list[str]) -> list[str]:
    """Return words without Japanese honorifics, which stand alone or at the end of the last."""
    words = list(words)
    honorifics = name_words("honorifics")
    while words:
        if words[-1] in honorifics:
            words.pop()
            continue
        endings = [one for one in honorifics if words[-1].endswith(one)]
        if not endings or words[-1] in name_words("no_honorifics"):
            break
        words[-1] = words[-1][: -max(map(len, endings))]
    return words


# Of a family name alone these are hardly honorifics: 鵜殿.
_LATE_HONORIFICS = ("殿", "氏", "君")


def _without_affixes(words: list[str], *, n_before: int = 0) -> list[str]:
    """Return words without titles before and suffixes behind; `n_before` words of names come first.

    A word that may be a name is a title before a known first name and another, or with a point;
    it is a degree with points, or in capitals behind a first and a last name.
    """
    is_one_case = not any(word.isupper() for word in words) or all(map(str.isupper, words))
    begin = 0
    while begin < len(words) - 1:
        word, key, rest = words[begin], _key(words[begin]), words[begin + 1 :]
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
        word, key = words[-1], _key(words[-1])
        n_names = n_before + sum(not _INITIALS.fullmatch(one) for one in words[:-1])
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
    return is_pointed and _key("".join(words)) in name_words("suffixes")


def _split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the words of a name without a comma into given names and last name."""
    if is_unspaced("".join(words)):
        return words[1:], words[:1]
    while len(words) > 2 and _INITIALS.fullmatch(words[-1]):  # "Jane Doe M."
        words = [words[-1], *words[:-1]]
    place = _unit(words, len(words) - 1)
    is_joined = place > 0 and _key(words[place]) in name_words("joints")
    if is_joined or (place > 1 and _are_two_surnames(words, place)):
        place = _unit(words, place - 1)
    return words[:place], words[place:]


def _unit(words: list[str], place: int) -> int:
    """Return where the particles before a word begin."""
    while place and _is_particle(words, place - 1):
        place -= 1
    return place


def _is_particle(words: list[str], place: int) -> bool:
    """Whether a word is a particle: the first only where it alone is written small."""
    word, key = words[place], _key(words[place])
    if place == 0 and (not word[0].islower() or words[-1].islower()):
        return False
    is_small = word[0].islower() and key in name_words("small_particles")
    return is_small or key in name_words("particles")


def _are_two_surnames(words: list[str], place: int) -> bool:
    """Whether the word before the last unit is a Spanish surname too, and not a given name."""
    first = next((word for word in words if not _INITIALS.fullmatch(word)), "")
    surname, last = words[place - 1], words[-1]
    begin = _unit(words, place - 1)
    if not begin or not _is_given(first) or _key(surname) not in _spanish_surnames():
        return False
    if begin < 2 and _is_given(surname):
        return False
    is_spanish = not _spanish_surnames().isdisjoint(_key(last).split("-"))
    return is_spanish or (_key(first) in _given_names(_SPANISH) and not _is_common_surname(last))


def _first_of(given: list[str]) -> list[str]:
    """Return the first given name that is no initial, or the first initial."""
    names = [word for word in given if not _INITIALS.fullmatch(word)]
    return (names or given)[:1]


_SPANISH = ("es_ES", "es_MX", "es_CO", "es_AR", "es_CL")
_LOCALES = ("en_US", "de_DE", "fr_FR", *_SPANISH)


@functools.cache
def _generator_names(locale: str, attributes: tuple[str, ...]) -> frozenset[str]:
    """Return names of Faker's tables, as they are looked up, each of one word."""
    provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
    tables = (getattr(provider, attribute, ()) for attribute in attributes)
    names = (name for table in tables if not isinstance(table, property) for name in table)
    return frozenset(_key(name) for name in names if " " not in name)


@functools.cache
def _given_names(locales: tuple[str, ...] = _LOCALES) -> frozenset[str]:
    attributes = ("first_names", "first_names_male", "first_names_female")
    return frozenset().union(*(_generator_names(one, attributes) for one in locales))


@functools.cache
def _spanish_surnames() -> frozenset[str]:
    return frozenset().union(*(_generator_names(one, ("last_names",)) for one in _SPANISH))


def _is_given(word: str) -> bool:
    """Whether a word is a first name in one of the languages that are read."""
    return _key(word) in _given_names()


def _is_common_surname(word: str) -> bool:
    return _key(word) in _generator_names("en_US", ("last_names",))


def ordered_word_lists(path: Path) -> dict[str, tuple[str, ...]]:
    """Read lists of words that are shipped: [name] and the words below it; # begins a remark."""
    text = re.sub(r"^#.*", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    lists = re.findall(r"^\[(\w+)\]$([^\[]*)", text, re.MULTILINE)
    return {name: tuple(words.split()) for name, words in lists}


def word_lists(path: Path) -> dict[str, frozenset[str]]:
    """Read the same lists where the order of words says nothing."""
    return {name: frozenset(words) for name, words in ordered_word_lists(path).items()}


HEADINGS: Mapping[str, tuple[str, ...]] = ordered_word_lists(
    Path(__file__).with_name("headings.txt")
)
"""What a column holds -> its headings, as `heading_key` has them."""


def heading_key(text: str) -> str:
    """Return a column name without case, width, white space, underscores and punctuation."""
    return re.sub(r"[\s_\-.'’]+", "", unicodedata.normalize("NFKC", text).casefold())


@dataclass(frozen=True)
class NameColumns:
    """Where a table holds names: column indices; either `first` and `last`, or `full`, or none."""

    first: int | None
    last: int | None
    full: int | None

    @property
    def is_empty(self) -> bool:
        """Whether the table holds no names."""
        return self.full is None and (self.first is None or self.last is None)

    @property
    def used(self) -> frozenset[int]:
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
        return parts.given, parts.last


def part_of_name_column(keys: Collection[str]) -> str:
    """Return what a column headed "name" holds beside the others: "first", "last" or "full"."""

    def has(field: str) -> bool:
        return any(key in HEADINGS[field] for key in keys)

    if has("last"):
        return "full" if has("first") else "first"
    return "last" if has("first_beside_name") else "full"


def find_name_columns(header: Sequence[str]) -> NameColumns:
    """Find the columns that hold names; a first and a last name win over a whole name beside them.

    Raises ValueError if two columns hold the same part.
    """
    keys = [heading_key(name) for name in header]
    named = {part_of_name_column(keys): HEADINGS["full_or_first"]}

    def column(part: str) -> int | None:
        return _only(keys, HEADINGS[part] + named.get(part, ()))

    first, last = column("first"), column("last")
    if first is not None and last is not None:
        return NameColumns(first=first, last=last, full=None)
    return NameColumns(first=None, last=None, full=column("full"))


def _only(keys: Sequence[str], wanted: Sequence[str]) -> int | None:
    found = [column for column, key in enumerate(keys) if key in wanted]
    if len(found) > 1:
        raise ValueError(
            Message(
                "Columns {one} and {other} hold the same part of the name.",
                one=found[0] + 1,
                other=found[1] + 1,
            )
        )
    return found[0] if found else None
