"""Builds identified notes with a register of patients: D_private as it is, D_public without them.

Comes in: a note, a register. Goes out: where registered names and birth dates stand and whose they
are, and what was left in doubt. D_public still holds what a register does not know: relatives,
staff, places, other dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import pairwise

from audit.corpus.build import BuiltNote
from audit.corpus.truth import Doubt, NoteTruth, Place, json_line
from audit.errors import AuditError
from audit.names.people import Facts
from audit.notes.read import Note
from audit.tables import RowNote, heading_key, read_table
from audit.text import MAX_NAME_CHARS, find_name_columns, fold_name, is_unspaced

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
class RegisterRow:
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

    rows: tuple[RegisterRow, ...]
    notes: tuple[RowNote, ...]

    def by_patient(self) -> dict[str, tuple[RegisterRow, ...]]:
        """Return the rows of each patient."""
        found: dict[str, tuple[RegisterRow, ...]] = {}
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
    rows: list[RegisterRow] = []
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
        rows.append(RegisterRow(cell["id"], first, cell["middle"], last, sex, birth))
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


def full_name_index(rows: Iterable[RegisterRow]) -> Mapping[tuple[str, ...], tuple[str, ...]]:
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


_GAP = re.compile(r"\.?\s*,?\s*(?:[^\W\d_]\.?\s+)?")
_MAX_GAP_CHARS = 6
_MAX_PARTICLE_CHARS = 3
_TITLED = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss|Drs?|Prof)\.?\s+([A-Z][^\W\d_]+(?:['’\-][^\W\d_]+)*)"
    r"|([\u4e00-\u9fff々]{1,4})(?=さん|様|氏|先生|医師)"
)
_HONORIFIC = r"(?=\s*(?:さん|さま|様|氏|殿|君|くん|ちゃん))"


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a name in a text: "first", "middle", "last", "full" or "birth"."""

    start: int
    stop: int
    kind: str


@dataclass(frozen=True, slots=True)
class NameMention:
    """One place where somebody is named.

    Attributes
    ----------
    parts
        In order; a gap between two of them stays in the text.
    form
        The kinds of the parts, joined by "+".
    patient_ids
        Who is called so: several where patients share a name.
    is_own
        Whether it is the note's own patient.
    """

    parts: tuple[Part, ...]
    form: str
    patient_ids: tuple[str, ...]
    is_own: bool


@dataclass(frozen=True)
class NoteMentions:
    """What was found in a note, in order, and what was left."""

    mentions: tuple[NameMention, ...]
    doubts: tuple[Doubt, ...]


class MentionFinder:
    """Finds the patients of a register in notes."""

    def __init__(self, register: Register) -> None:
        self._patients = register.by_patient()
        self._full = full_name_index(register.rows)
        self._longest = max(map(len, self._full), default=0)
        self._starts = {key[0] for key in self._full}
        self._unspaced: dict[str, tuple[str, ...]] = {}
        for row in register.rows:
            if row.is_unspaced:
                for between in ("", " ", "\u3000"):
                    name = row.last + between + row.first
                    ids = dict.fromkeys((*self._unspaced.get(name, ()), row.patient_id))
                    self._unspaced[name] = tuple(ids)
        self._lengths = sorted({len(name) for name in self._unspaced}, reverse=True)
        self._unspaced_starts = {name[0] for name in self._unspaced}

    def find(self, text: str, *, patient_id: str) -> NoteMentions:
        """Find who is named in a note of this patient ("" or unknown: others only)."""
        words = words_of(text)
        taken = bytearray(len(text))
        mentions: list[NameMention] = []
        doubts: list[Doubt] = []
        for found in self._full_names(text, words, patient_id):
            _take(found, taken, mentions)
        for row in self._patients.get(patient_id, ()):
            for own in _own_parts(text, words, row, doubts):
                _take(NameMention(own, _form(own), (patient_id,), True), taken, mentions)
        for match in _TITLED.finditer(text):
            group = 1 if match[1] else 2
            if not any(taken[match.start(group) : match.end(group)]):
                doubts.append(Doubt(match.start(group), match.end(group), "titled"))
        left = {d for d in doubts if not any(taken[d.start : d.stop])}
        return NoteMentions(
            tuple(sorted(mentions, key=lambda m: m.parts[0].start)),
            tuple(sorted(left, key=lambda d: (d.start, d.stop, d.why))),
        )

    def _full_names(self, text: str, words: list[Word], patient_id: str) -> Iterator[NameMention]:
        own = {name_words(row.first) for row in self._patients.get(patient_id, ())}
        for index, word in enumerate(words):
            if word.folded not in self._starts:
                continue
            for n in range(min(self._longest, len(words) - index), 1, -1):
                span = words[index : index + n]
                ids = self._full.get(tuple(w.folded for w in span))
                # The own patient's names are found part by part, so that the parts are known.
                if ids and _is_joined(text, span) and not (patient_id in ids and own):
                    yield NameMention((_part(span, "full"),), "full", ids, False)
                    break
        for start, stop, ids in self._unspaced_names(text):
            is_own = patient_id in ids
            part = Part(start, stop, "full")
            yield NameMention((part,), "full", (patient_id,) if is_own else ids, is_own)

    def _unspaced_names(self, text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
        start = 0
        while start < len(text) and self._lengths:
            stop = start + 1
            if text[start] in self._unspaced_starts:
                for length in self._lengths:
                    ids = self._unspaced.get(text[start : start + length])
                    if ids:
                        stop = start + length
                        yield start, stop, ids
                        break
            start = stop


def _take(found: NameMention, taken: bytearray, mentions: list[NameMention]) -> None:
    if any(any(taken[part.start : part.stop]) for part in found.parts):
        return
    for part in found.parts:
        taken[part.start : part.stop] = b"\1" * (part.stop - part.start)
    mentions.append(found)


def _own_parts(
    text: str, words: list[Word], row: RegisterRow, doubts: list[Doubt]
) -> list[tuple[Part, ...]]:
    births: list[tuple[Part, ...]] = [(part,) for part in _births(text, row)]
    if row.is_unspaced:
        return births + _unspaced_parts(text, row, doubts)
    return births + _spaced_parts(text, words, row, doubts)


def _unspaced_parts(text: str, row: RegisterRow, doubts: list[Doubt]) -> list[tuple[Part, ...]]:
    if len(row.first) > 1:
        for match in re.finditer(re.escape(row.first), text):
            doubts.append(Doubt(match.start(), match.end(), "first_alone"))
    found = re.finditer(re.escape(row.last) + _HONORIFIC, text)
    return [(Part(match.start(), match.end(), "last"),) for match in found]


def _spaced_parts(
    text: str, words: list[Word], row: RegisterRow, doubts: list[Doubt]
) -> list[tuple[Part, ...]]:
    parts: list[Part] = []
    capitals: set[Part] = set()
    for kind, name in (("last", row.last), ("first", row.first), ("middle", row.middle)):
        wanted = name_words(name)
        for span in _spans(words, wanted):
            if _is_joined(text, span):
                parts.append(_part(span, kind))
                if any(word.is_capital for word in span) and sum(map(len, wanted)) > 1:
                    capitals.add(parts[-1])
        if len(wanted) > 1:
            single = {word for word in wanted if len(word) > _MAX_PARTICLE_CHARS}
            doubts += [
                Doubt(word.start, word.stop, "part_of_name")
                for word in words
                if word.folded in single and word.is_capital
            ]
    found: list[tuple[Part, ...]] = []
    for run in _runs(text, sorted(parts, key=lambda part: (part.start, -part.stop))):
        kinds = {part.kind for part in run}
        if {"first", "last"} <= kinds or (capitals & set(run) and kinds != {"middle"}):
            found.append(run)
        else:
            doubts.extend(Doubt(part.start, part.stop, "lower_case") for part in run)
    return found


def _spans(words: list[Word], wanted: tuple[str, ...]) -> Iterator[list[Word]]:
    for index, word in enumerate(words):
        if wanted and word.folded == wanted[0]:
            span = words[index : index + len(wanted)]
            if tuple(word.folded for word in span) == wanted:
                yield span


def _runs(text: str, parts: list[Part]) -> Iterator[tuple[Part, ...]]:
    run: list[Part] = []
    for part in parts:
        if run and part.start < run[-1].stop:  # the same word as first and last name
            continue
        if run and not _joins(text, run, part):
            yield tuple(run)
            run = []
        run.append(part)
    if run:
        yield tuple(run)


def _joins(text: str, run: list[Part], part: Part) -> bool:
    gap = part.start - run[-1].stop
    if gap > _MAX_GAP_CHARS or part.kind in {other.kind for other in run}:
        return False
    gap_text = _GAP.fullmatch(text, run[-1].stop, part.start)
    # A full stop ends a sentence, unless it belongs to an initial.
    is_initial = run[-1].stop - run[-1].start == 1
    return gap_text is not None and (is_initial or not gap_text[0].startswith("."))


def _is_joined(text: str, span: list[Word]) -> bool:
    return all(
        b.start - a.stop <= _MAX_GAP_CHARS and _GAP.fullmatch(text, a.stop, b.start)
        for a, b in pairwise(span)
    )


def _part(span: list[Word], kind: str) -> Part:
    return Part(span[0].start, span[-1].stop, kind)


def _births(text: str, row: RegisterRow) -> Iterator[Part]:
    if row.birth is None:
        return
    pattern = "|".join(map(re.escape, birth_forms(row.birth)))
    for match in re.finditer(rf"(?<!\d)(?:{pattern})(?!\d)", text):
        yield Part(match.start(), match.end(), "birth")


def _form(parts: tuple[Part, ...]) -> str:
    return "+".join(part.kind for part in parts)


_PLACES = {
    "first": "[FIRST]",
    "middle": "[MIDDLE]",
    "last": "[LAST]",
    "full": "[NAME]",
    "birth": "[DATE]",
}
_UNSPACED_PLACES = {"last": "[姓]", "full": "[氏名]", "birth": "[生年月日]"}


@dataclass(frozen=True)
class Registered:
    """How registered patients become places in D_public."""

    register: Register

    @cached_property
    def finder(self) -> MentionFinder:
        """Finds the patients."""
        return MentionFinder(self.register)

    def built(self, note: Note, facts: Facts | None) -> BuiltNote:
        """Return a note in both corpora; the same in every process."""
        found = self.finder.find(note.text, patient_id=note.patient_id)
        return BuiltNote(without_names(note.text, found), note.chart_time, found.doubts)

    def private_text(self, note: Note, facts: Facts | None) -> str:
        """Return a note's text in D_private: as it is."""
        return note.text

    def public_line(self, note: Note, text: str) -> bytes:
        """Return a note's line in D_public: the hospital's ids and dates are identifiers too."""
        return json_line({"row": note.row, "category": note.category, "text": text})


def without_names(text: str, found: NoteMentions) -> NoteTruth:
    """Return a note with places for names in D_public.

    A name that several patients carry is the note's own patient's, else the first one's.
    """
    parts = sorted(
        ((part, number) for number, mention in enumerate(found.mentions) for part in mention.parts),
        key=lambda item: item[0].start,
    )
    pieces: list[str] = []
    inserted: list[Place] = []
    done = length = 0
    for part, number in parts:
        mention = found.mentions[number]
        value = text[part.start : part.stop]
        mask = (_UNSPACED_PLACES if is_unspaced(value) else _PLACES).get(part.kind, "[NAME]")
        pieces += [text[done : part.start], mask]
        length += part.start - done
        keys = tuple(f"patient:{patient}" for patient in mention.patient_ids)
        inserted.append(
            Place(
                part.start,
                part.stop,
                length,
                length + len(mask),
                mention.form,
                part.kind,
                "patient",
                keys[0],
                value,
                -1 if part.kind == "birth" else number,
                keys[1:],
            )
        )
        length += len(mask)
        done = part.stop
    return NoteTruth(text, "".join([*pieces, text[done:]]), tuple(inserted))


def registered_people(register: Register) -> Iterator[dict[str, object]]:
    """Yield what is known of each patient."""
    for patient_id, rows in register.by_patient().items():
        yield {
            "patient_id": patient_id,
            "names": [[row.first, row.middle, row.last] for row in rows],
            "sex": next((row.sex for row in rows if row.sex), ""),
        }
