"""The patient register: who may be named in identified notes, and where they are named.

Comes in: a CSV file with a row for each patient; then notes. Goes out: for each note where its own
patient is named, where other patients are, and what looks like a name and was not found. Knows
nothing of relatives, staff or places: they stay in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from audit.errors import AuditError
from audit.names import MAX_NAME_CHARS, find_name_columns, fold_name, is_unspaced
from audit.tables import RowNote, heading_key, read_table

_PATIENT_ID = {"patientid", "subjectid", "mrn", "id", "患者id", "患者番号"}
_MIDDLE = {"middlename", "middle", "middleinitial", "secondname"}
_SEX = {"sex", "gender", "性別"}
_BIRTH = {"birthdate", "dateofbirth", "dob", "birthday", "生年月日"}
_SEXES = {
    **dict.fromkeys(("m", "male", "男", "男性"), "M"),
    **dict.fromkeys(("f", "female", "女", "女性"), "F"),
}
_DAY = re.compile(r"(\d{4})\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})\s*日?")
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Registered:
    """One row of the register: name parts as written, sex "M", "F" or "", birth date or None."""

    patient_id: str
    first: str
    middle: str
    last: str
    sex: str
    birth: date | None

    @property
    def is_unspaced(self) -> bool:
        """Whether the name is in a script that is written without spaces."""
        return is_unspaced(self.first + self.last)


@dataclass(frozen=True)
class Register:
    """The patients of a hospital.

    Attributes
    ----------
    rows
        R rows; a patient with several names has several.
    notes
        Rows that were left out, by number, with the reason.
    """

    rows: tuple[Registered, ...]
    notes: tuple[RowNote, ...]

    def by_patient(self) -> dict[str, tuple[Registered, ...]]:
        """Return the rows of each patient."""
        found: dict[str, tuple[Registered, ...]] = {}
        for row in self.rows:
            found[row.patient_id] = (*found.get(row.patient_id, ()), row)
        return found


def read_register(data: bytes, *, what: str = "register") -> Register:
    """Read a register: columns for the patient's id and name; middle name, sex, birth optional.

    Raises
    ------
    AuditError
        If the file cannot be read, has no column for the id or the name, or no usable row.
    """
    table = read_table(data, what=what)
    keys = [heading_key(name) for name in table.header]
    try:
        names = find_name_columns(table.header)
    except ValueError as error:
        raise AuditError(f"{error}.", where=what, do="Keep one of them.") from None
    column = {
        field: next((i for i, key in enumerate(keys) if key in known), None)
        for field, known in (
            ("id", _PATIENT_ID),
            ("middle", _MIDDLE),
            ("sex", _SEX),
            ("birth", _BIRTH),
        )
    }
    if column["id"] is None or names.is_empty:
        raise AuditError(
            "There is no column for the patient's id, or none for the name.",
            where=what,
            do="Write patient_id,first_name,last_name,sex,birth_date.",
        )
    rows: list[Registered] = []
    left_out: list[RowNote] = []
    for number, cells in zip(table.row_numbers, table.rows, strict=True):
        cell = {
            field: cells[place].strip() if place is not None else ""
            for field, place in column.items()
        }
        first, last = names.read(cells)
        if note := _left_out(number, cell["id"], first, last):
            left_out.append(note)
            continue
        sex = _SEXES.get(cell["sex"].casefold(), "")
        birth = _birth(cell["birth"])
        if cell["birth"] and birth is None:
            left_out.append(RowNote(number, "The birth date is not year-month-day; not used."))
        rows.append(Registered(cell["id"], first, cell["middle"], last, sex, birth))
    if not rows:
        raise AuditError("No row has an id and a name.", where=what)
    return Register(tuple(rows), tuple(left_out))


def _left_out(row: int, patient_id: str, first: str, last: str) -> RowNote | None:
    if not patient_id:
        return RowNote(row, "The patient has no id; left out.")
    if not (first and last):
        return RowNote(row, "The patient has no first or no last name; left out.")
    if max(len(first), len(last), len(patient_id)) > MAX_NAME_CHARS:
        return RowNote(
            row, f"An id or a name is longer than {MAX_NAME_CHARS} characters; left out."
        )
    if not (name_words(first) and name_words(last)):
        return RowNote(row, "A name has no letters; left out.")
    return None


def _birth(text: str) -> date | None:
    match = _DAY.match(text)
    try:
        return date(int(match[1]), int(match[2]), int(match[3])) if match else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a text: its characters, the form in which names are compared, its case."""

    start: int
    stop: int
    folded: str
    is_capital: bool


def words_of(text: str) -> list[Word]:
    """Return the words of a text; the 's of "Smith's" is no part of the word."""
    words = []
    for match in _WORD.finditer(text):
        word = match[0]
        if len(word) > 2 and word[-1] in "sS" and word[-2] in "'’":
            word = word[:-2]
        words.append(
            Word(match.start(), match.start() + len(word), _folded(word), word[0].isupper())
        )
    return words


def _folded(word: str) -> str:
    return fold_name(word).replace("’", "'")


def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name in the form in which names are compared."""
    return tuple(word.folded for word in words_of(name))


def full_name_index(rows: Iterable[Registered]) -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Return the words of full names, in both orders, and the ids of the patients called so."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for row in rows:
        if row.is_unspaced:
            continue
        first, last = name_words(row.first), name_words(row.last)
        for key in {(*first, *last), (*last, *first)}:
            ids = found.get(key, ())
            if row.patient_id not in ids:
                found[key] = (*ids, row.patient_id)
    return found


def birth_forms(day: date) -> Sequence[str]:
    """Return the forms in which a birth date is looked for, longest first."""
    year, month, number = day.year, day.month, day.day
    forms = {f"{year}年{month}月{number}日", f"{year}年{month:02d}月{number:02d}日"}
    for mark in "-/.":
        for m, d in ((f"{month:02d}", f"{number:02d}"), (str(month), str(number))):
            forms |= {mark.join((str(year), m, d)), mark.join((m, d, str(year)))}
    return sorted(forms, key=lambda form: (-len(form), form))
