"""Read a register of patients: a table with one or several rows for each patient.

Input: CSV, JSONL or Parquet with a patient's number and any of names, readings, sex, birth date,
address, telephone, identifiers and relatives. Output: the patients, and the known pieces of each.
An unknown column is refused, because its data would silently be missed in all notes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from audit.errors import AuditError, Message
from audit.notes.fhir import Person as KnownPerson
from audit.notes.mention_words import JAPANESE_SURNAMES, WORDS
from audit.notes.mentions_ja import split_japanese_name
from audit.notes.patterns import SHARED_PARTS, fold_characters
from audit.notes.read import NoteSource, inspect_notes
from audit.notes.spans import CONTACT, LINKAGE_CODE, PERSONAL_ID_CODE, QUASI_IDENTIFIER
from audit.patients.births import read_birth
from audit.patients.finder import (
    ADDRESS,
    BIRTH,
    FIRST,
    FULL,
    LAST,
    MIDDLE,
    Piece,
    make_name_pieces,
    merge_packs,
    pack_pieces,
    split_address,
)
from audit.shelf import fingerprint
from audit.tables import Row, RowNote
from audit.text import (
    HEADINGS,
    MAX_NAME_CHARS,
    heading_key,
    is_unspaced,
    part_of_name_column,
    split_name,
)

_KANA = {FULL: "kana", FIRST: "first_kana", LAST: "last_kana"}
_ROMAJI = {FULL: "romaji", FIRST: "first_romaji", LAST: "last_romaji"}
_FIELDS = (
    "middle",
    "kana",
    "first_kana",
    "last_kana",
    "romaji",
    "first_romaji",
    "last_romaji",
    "other",
    "household",
    "sex",
    "birth",
    "address",
    "postcode",
    "contact",
    "personal_id_code",
    "relative",
)
_HEADINGS: Mapping[str, Collection[str]] = {
    FIRST: HEADINGS["first"],
    LAST: HEADINGS["last"],
    FULL: HEADINGS["full"] + HEADINGS["full_or_first"],
    "id": HEADINGS["patient_id"],
    **{field: HEADINGS[field] for field in _FIELDS},
    LINKAGE_CODE: (HEADINGS["record_number"] + HEADINGS["admission_id"] + HEADINGS["linkage_code"]),
}
"""The content of a column -> its headings."""
_DO = (
    "Delete the column, or name it as one of: patient_id, first_name, middle_name, last_name, "
    "name, name_kana, maiden_name, sex, birth_date, address, postcode, telephone, email, mrn, "
    "ssn, insurance_number, relatives, household."
)
_SHORT = frozenset(
    {
        "id",
        "household",
        FIRST,
        MIDDLE,
        LAST,
        FULL,
        "other",
        BIRTH,
        *_KANA.values(),
        *_ROMAJI.values(),
    }
)
REGISTER_ENDINGS = ("csv", "jsonl", "parquet")
_LEAST, _LEAST_PHONE = 3, 7
_MOST_PATIENTS = 2_000_000
_MOST_CELL_CHARS = 2_000
_NO_WORDS = re.compile("[^0-9a-z]")
_SEXES = {
    **dict.fromkeys(("m", "male", "男", "男性"), "M"),
    **dict.fromkeys(("f", "female", "女", "女性"), "F"),
}


class Person(NamedTuple):
    """A patient according to one row: the parts of the name, and the sex "M", "F" or ""."""

    first: str
    middle: str
    last: str
    sex: str


@dataclass(frozen=True)
class PatientRegister:
    """The known data of patients, by their numbers.

    Attributes
    ----------
    digest, n_rows
        SHA-256 of the file, and its number of rows.
    pieces
        The pieces to search for in a patient's notes, packed.
    people
        Each name of a patient that has a first and a last part, in the order of the rows.
    """

    digest: str
    n_rows: int
    pieces: Mapping[str, str]
    people: Mapping[str, tuple[Person, ...]]


def open_register(path: Path) -> tuple[NoteSource, dict[str, str]]:
    """Return a register before its rows are read, and a map from headings to contents.

    Raises AuditError if a column is not understood, or if no column has the patient's number.
    """
    try:
        source = inspect_notes(path)
    except AuditError as error:
        raise AuditError(error.what, where="register", do=error.do) from None
    keys = {name: re.sub(r"(?<=\D)[0-9]+$", "", heading_key(name)) for name in source.headings}
    columns = {
        name: next((kind for kind, headings in _HEADINGS.items() if key in headings), "")
        for name, key in keys.items()
    }
    part = part_of_name_column(keys.values())
    columns |= {name: part for name, key in keys.items() if key in HEADINGS["full_or_first"]}
    if "id" not in columns.values() and (number := _find_number_column(keys)):
        columns[number] = "id"
    unknown = [str(n) for n, name in enumerate(source.headings, start=1) if not columns[name]]
    if unknown:
        raise AuditError(
            "These columns are not understood: {unknown}.",
            where="register",
            do=_DO,
            unknown=", ".join(unknown),
        )
    kinds = [*columns.values()]
    if kinds.count("id") != 1 or not {*kinds} - {"id", "sex", "household"}:
        raise AuditError(
            "A register has one column for the patient's number, and columns of what is known.",
            where="register",
            do=_DO,
        )
    return source, columns


def _find_number_column(keys: Mapping[str, str]) -> str:
    """Return the column for the patient's number if no heading names it; "" if there is none."""
    for headings in (("id", "mrn"), HEADINGS["record_number"]):
        if number := next((name for name, key in keys.items() if key in headings), ""):
            return number
    return ""


def read_register(path: Path) -> PatientRegister:
    """Read a register; the rows of one patient are merged.

    Raises AuditError if a row cannot be read, has no number, or has a cell that is too long or a
    birth date that is invalid.
    """
    pieces: dict[str, str] = {}
    people: dict[str, tuple[Person, ...]] = {}
    n_rows = 0
    for place, cells in read_register_rows(path):
        n_rows += 1
        patient = cells["id"][0]
        new_pieces = pack_pieces(_read_pieces(cells, place=place))
        pieces[patient] = merge_packs(pieces.get(patient, ""), new_pieces)
        if names := tuple(dict.fromkeys(read_people(cells))):
            people[patient] = tuple(dict.fromkeys((*people.get(patient, ()), *names)))
        if len(pieces) > _MOST_PATIENTS:
            raise AuditError("A register has too many patients.", where="register")
    if not pieces:
        raise AuditError("The register has no rows.", where="register")
    return PatientRegister(fingerprint(path), n_rows, pieces, people)


def read_register_rows(path: Path) -> Iterator[tuple[Message, Cells]]:
    """Yield the place of each row of a register, and its cells by content.

    Raises AuditError if a row cannot be read, has no number, or has a cell that is too long.
    """
    source, columns = open_register(path)
    for row in _read_rows(source):
        place = Message("{subject}, row {number}", subject="register", number=row.row)
        if isinstance(row, RowNote):
            raise AuditError(row.what, where=place)
        yield place, _read_cells(row.cells, columns, place=place)


def _read_rows(source: NoteSource) -> Iterator[Row | RowNote]:
    try:
        yield from source.rows(headings=source.headings)
    except AuditError as error:
        raise AuditError(error.what, where="register", do=error.do) from None


def _read_cells(
    row: Mapping[str, str], columns: Mapping[str, str], *, place: str
) -> defaultdict[str, list[str]]:
    """Return the cells of a row, grouped by the content of their columns, with single spaces."""
    if not {*row} <= {*columns}:
        raise AuditError("The row has a column that others have not.", where=place, do=_DO)
    cells: defaultdict[str, list[str]] = defaultdict(list)
    for heading, text in row.items():
        kind = columns[heading]
        max_chars = MAX_NAME_CHARS if kind in _SHORT else _MOST_CELL_CHARS
        if len(text) > max_chars:
            raise AuditError(
                "A cell is longer than {most:,} characters.",
                where=place,
                do="Give the register one row for each patient.",
                most=max_chars,
            )
        if text.strip():
            cells[kind].append(" ".join(text.split()))
    if len(cells["id"]) != 1:
        raise AuditError("The row has no number of a patient.", where=place)
    return cells


def read_people(cells: Cells) -> Iterator[Person]:
    """Yield the names of a row that have a first and a last part."""
    sex = next(filter(None, (_SEXES.get(text.casefold(), "") for text in cells["sex"])), "")
    names = [(" ".join(cells[FIRST]), " ".join(cells[LAST])), *map(split_whole_name, cells[FULL])]
    for first, last in names:
        if any(map(str.isalpha, first)) and any(map(str.isalpha, last)):
            yield Person(first, " ".join(cells["middle"]), last, sex)


Cells = Mapping[str, Sequence[str]]


@lru_cache(maxsize=256)
def pack_people(people: tuple[KnownPerson, ...]) -> str:
    """Pack the facts that fields of a file give about people like the pieces of a register."""
    cells = [defaultdict[str, list[str]](list) for _ in people]
    for person, person_cells in zip(people, cells, strict=True):
        for kind, value in person.facts:
            person_cells[kind].append(value)
    return pack_pieces(
        piece for person_cells in cells for piece in _read_pieces(person_cells, place="notes")
    )


def _read_pieces(cells: Cells, *, place: str) -> Iterator[Piece]:
    """Yield the pieces of a row."""
    for text in cells[BIRTH]:
        days = read_birth(text)
        if not days:
            raise AuditError(
                "The birth date cannot be understood.", where=place, do="Write it as 1951-08-04."
            )
        yield from (Piece(BIRTH, day.isoformat()) for day in days)
    yield from _read_patient_names(cells)
    for text in cells["relative"]:
        yield from (piece._replace(is_own=False) for piece in _read_relatives(text))
    for text in cells[ADDRESS]:
        yield from (Piece(ADDRESS, part) for part in split_address(text))
    for text in cells["postcode"]:
        yield from _read_number(QUASI_IDENTIFIER, text)
    for text in cells[CONTACT]:
        yield from read_contacts(text)
    for label in ("id", LINKAGE_CODE, PERSONAL_ID_CODE):
        for text in cells[label]:
            yield from _read_number(LINKAGE_CODE if label == "id" else label, text)


def _read_patient_names(cells: Cells) -> Iterator[Piece]:
    middle = " ".join(cells["middle"])
    for columns in ({kind: kind for kind in (FIRST, LAST, FULL)}, _KANA, _ROMAJI):
        firsts, lasts, fulls = (cells[columns[kind]] for kind in (FIRST, LAST, FULL))
        names = [(" ".join(firsts), " ".join(lasts)), *map(split_whole_name, fulls)]
        for first, last in names:
            yield from make_name_pieces(
                normalize("NFKC", first), normalize("NFKC", last), middle=middle
            )
    for text in cells["other"]:
        first, last = split_whole_name(text) if re.search(r"[\s,]", text) else ("", text)
        yield from make_name_pieces(first, last)


def split_whole_name(name: str) -> tuple[str, str]:
    """Split a whole name into first and last."""
    first, last = split_name(name)
    return split_japanese_name(last) if not first and is_unspaced(last) else (first, last)


def _read_relatives(text: str) -> Iterator[Piece]:
    """Yield names and telephones from a cell such as "wife: Mary Smith; Tom Smith"."""
    for entry in _RELATIVES_APART.split(text):
        yield from read_contacts(entry, is_only=False)
        first, last, full_name = _read_relative(entry)
        yield from make_name_pieces(first, last)
        if full_name:
            yield Piece(FULL, full_name)


def read_relative_names(text: str) -> Iterator[tuple[str, str]]:
    """Yield first and last name of each relative in a cell, if the relative has both."""
    for entry in _RELATIVES_APART.split(text):
        first, last, _ = _read_relative(entry)
        if first and last:
            yield first, last


def _read_relative(text: str) -> tuple[str, str, str]:
    """Return (first, last, "") for one relative, or ("", "", name) if the name cannot be split."""
    name = re.sub(r"[(（][^()（）]*[)）]|^[^:：]*[:：]|[0-9+()-]{7,}", " ", fold_characters(text))
    words = [word for word in name.split() if word.lower().strip(",.") not in _NO_RELATIVES]
    name = _BESIDE_A_RELATIVE.sub("", " ".join(words)).strip()
    if not name or any(char.isdigit() for char in name):
        return "", "", ""
    first, last = split_name(name)
    if not first and is_unspaced(last) and len(last) > 2:
        first, last = split_japanese_name(last)
        if last not in JAPANESE_SURNAMES:
            return "", "", name
    # "Mary" alone is a first name.
    return first or last, last if first else "", ""


_RELATIVES_APART = re.compile(r"[;；、\n/／]|[,，](?=\s*\w+\s+\w+)")


_BESIDE_A_RELATIVE = re.compile(rf"(?:様|さん|氏)$|^(?:{SHARED_PARTS['JA_KIN']}|子)(?= )")
_NO_RELATIVES = WORDS["relatives"] | WORDS["titles"] | {"and", "of", "the"}


def read_contacts(text: str, *, is_only: bool = True) -> Iterator[Piece]:
    """Yield mail addresses, and telephones in each form that their digits may have."""
    folded = fold_characters(text).lower()
    yield from (Piece(CONTACT, mail) for mail in re.findall(r"[^\s@;,<>]+@[^\s@;,<>]+", folded))
    between = r"[0-9()\s./-]{5,20}" if is_only else "[0-9()-]{5,20}"
    for number in re.findall(rf"\+?[0-9]{between}[0-9]", folded):
        digits = re.sub("[^0-9]", "", number)
        digits = "0" + digits[2:].lstrip("0") if number.startswith("+81") else digits
        digits = digits[1:] if len(digits) == 11 and digits[0] == "1" else digits
        if len(digits) < _LEAST_PHONE:
            continue
        local = digits[-7:] if len(digits) == 10 and digits[0] != "0" else digits[-8:]
        forms = {digits, local, *(["81" + digits[1:], "810" + digits[1:]] * (digits[0] == "0"))}
        yield from (Piece(CONTACT, form) for form in sorted(forms))


def _read_number(label: str, text: str) -> Iterator[Piece]:
    code = _NO_WORDS.sub("", fold_characters(text).lower())
    if len(code) >= _LEAST and any(char.isdigit() for char in code):
        yield Piece(label, code)
        short = code.lstrip("0")
        if len(code) > len(short) >= 5:
            yield Piece(label, short)
