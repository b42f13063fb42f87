"""Builds identified notes with a register of patients: D_private as it is, D_public without them.

Comes in: a note, a register. Goes out: where registered names and birth dates stand and whose they
are. D_public still holds what a register does not know: relatives, staff, places, other dates.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise

from audit.corpus.truth import NoteTruth, Place
from audit.errors import AuditError
from audit.names.matching import Lexicon
from audit.tables import read_table
from audit.text import MAX_NAME_CHARS, find_name_columns, fold_name, heading_key, is_unspaced

_COLUMNS = {
    "id": {"patientid", "subjectid", "mrn", "id", "患者id", "患者番号"},
    "middle": {"middlename", "middle", "middleinitial", "secondname"},
    "sex": {"sex", "gender", "性別"},
    "birth": {"birthdate", "dateofbirth", "dob", "birthday", "生年月日"},
}
_SEXES = {
    **dict.fromkeys(("m", "male", "男", "男性"), "M"),
    **dict.fromkeys(("f", "female", "女", "女性"), "F"),
}
_DAY = re.compile(r"(\d{4})\s*[-/.年]\s*(\d{1,2})\s*[-/.月]\s*(\d{1,2})\s*日?")
_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")


@dataclass(frozen=True)
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


Register = tuple[RegisterRow, ...]
"""The patients of a hospital: a patient with several names has several rows."""


def read_register(data: bytes, *, what: str = "register") -> Register:
    """Read a register: columns for the patient's id and name; middle name, sex, birth optional.

    Rows without an id, a first and a last name are left out.
    """
    table = read_table(data, what=what)
    try:
        names = find_name_columns(table.header)
    except ValueError as error:
        raise AuditError(error.args[0], where=what, do="Keep one of them.") from None
    keys = [heading_key(name) for name in table.header]
    column = {
        field: next(i for i, key in enumerate(keys) if key in known)
        for field, known in _COLUMNS.items()
        if known & {*keys}
    }
    if "id" not in column or names.is_empty:
        raise AuditError(
            "There is no column for the patient's id, or none for the name.",
            where=what,
            do="Write patient_id,first_name,last_name,sex,birth_date.",
        )
    rows: list[RegisterRow] = []
    for cells in table.rows:
        cell = dict.fromkeys(_COLUMNS, "") | {f: cells[i].strip() for f, i in column.items()}
        first, last = names.read(cells)
        is_short = all(0 < len(part) <= MAX_NAME_CHARS for part in (cell["id"], first, last))
        if is_short and _folded(first) and _folded(last):
            sex = _SEXES.get(cell["sex"].casefold(), "")
            birth = _birth(cell["birth"])
            rows.append(RegisterRow(cell["id"], first, cell["middle"], last, sex, birth))
    if not rows:
        raise AuditError("No row has an id and a name.", where=what)
    return tuple(rows)


def _birth(text: str) -> date | None:
    """Return a day written as year, month, day; None for what is none."""
    try:
        return date(*map(int, match.groups())) if (match := _DAY.match(text)) else None
    except ValueError:
        return None


@dataclass(frozen=True)
class _Word:
    """A word of a text: its characters, the form in which names are compared, its case."""

    start: int
    stop: int
    folded: str
    is_capital: bool


def _words(text: str) -> list[_Word]:
    """Return the words of a text; the 's of "Smith's" is no part of the word."""
    words = []
    for match in _WORD.finditer(text):
        word = match[0]
        if len(word) > 2 and word[-1] in "sS" and word[-2] in "'’":
            word = word[:-2]
        folded = fold_name(word).replace("’", "'")
        words.append(_Word(match.start(), match.start() + len(word), folded, word[0].isupper()))
    return words


def _folded(name: str) -> tuple[str, ...]:
    return tuple(word.folded for word in _words(name))


_GAP = re.compile(r"\.?\s*,?\s*(?:[^\W\d_]\.?\s+)?")
_MAX_GAP_CHARS = 6
_HONORIFIC = r"(?=\s*(?:さん|さま|様|氏|殿|君|くん|ちゃん))"
_PLACES = {"first": "[FIRST]", "middle": "[MIDDLE]", "last": "[LAST]", "birth": "[DATE]"}
_UNSPACED_PLACES = {"last": "[姓]", "full": "[氏名]", "birth": "[生年月日]"}

_Part = tuple[int, int, str]
"""Start and stop of a part of a name; "first", "middle", "last", "full" or "birth"."""
_Named = tuple[Sequence[_Part], Sequence[str]]
"""The parts of one name, in order, and the ids of who is called so."""


class MentionFinder:
    """Finds the patients of a register in notes."""

    def __init__(self, register: Register) -> None:
        self.patients: dict[str, list[RegisterRow]] = defaultdict(list)
        # Full names in both orders, by their words or as characters -> who is called so.
        spaced: dict[tuple[str, ...], dict[str, None]] = defaultdict(dict)
        unspaced: dict[str, dict[str, None]] = defaultdict(dict)
        for row in register:
            self.patients[row.patient_id].append(row)
            if row.is_unspaced:
                for between in ("", " ", "\u3000"):
                    unspaced[row.last + between + row.first][row.patient_id] = None
            else:
                first, last = _folded(row.first), _folded(row.last)
                for name in ((*first, *last), (*last, *first)):
                    spaced[name][row.patient_id] = None
        self._spaced, self._unspaced = Lexicon(spaced), Lexicon(unspaced)

    def truth(self, text: str, *, patient_id: str, chart_time: str = "") -> NoteTruth:
        """Return a note of this patient ("" or unknown: others only) with places in D_public.

        A name that several patients carry is the note's own patient's, else the first one's.
        """
        taken = bytearray(len(text))
        mentions: list[_Named] = []
        for parts, ids in self._named(text, patient_id):
            if not any(any(taken[start:stop]) for start, stop, _ in parts):
                mentions.append((parts, ids))
                for start, stop, _ in parts:
                    taken[start:stop] = b"\1" * (stop - start)
        places, public = _masked(text, sorted(mentions))
        return NoteTruth(text, public, places, chart_time=chart_time)

    def _named(self, text: str, patient_id: str) -> Iterator[_Named]:
        """Yield all names, the surest first; what they overlap later is not taken."""
        words = _words(text)
        folded = tuple(word.folded for word in words)
        for start, stop, ids in sorted(self._spaced.find(folded), key=_longest_first):
            # The own patient's names are found part by part, so that the parts are known.
            if patient_id not in ids and _is_joined(text, words[start:stop]):
                yield [(words[start].start, words[stop - 1].stop, "full")], tuple(ids)
        for start, stop, ids in sorted(self._unspaced.find(text), key=_longest_first):
            yield [(start, stop, "full")], (patient_id,) if patient_id in ids else tuple(ids)
        for row in self.patients.get(patient_id, ()):
            own = _last_names(text, row) if row.is_unspaced else _spaced_parts(text, words, row)
            for parts in (*_births(text, row), *own):
                yield parts, (patient_id,)


def _longest_first(found: tuple[int, int, object]) -> tuple[int, int]:
    return found[0], -found[1]


def _masked(text: str, mentions: Sequence[_Named]) -> tuple[tuple[Place, ...], str]:
    """Return where the names stand in both texts, and the text without them."""
    parts = ((part, group) for group, (own, _) in enumerate(mentions) for part in own)
    public, done = "", 0
    places: list[Place] = []
    for (start, stop, kind), group in sorted(parts):
        own, ids = mentions[group]
        value = text[start:stop]
        mask = (_UNSPACED_PLACES if is_unspaced(value) else _PLACES).get(kind, "[NAME]")
        public += text[done:start]
        keys = [f"patient:{patient}" for patient in ids]
        places.append(
            Place(
                start, stop, len(public), len(public) + len(mask),
                category="+".join(each for _, _, each in own), kind=kind, role="patient",
                identity=keys[0], value=value, group=-1 if kind == "birth" else group,
                namesakes=tuple(keys[1:]),
            )
        )  # fmt: skip
        public += mask
        done = stop
    return tuple(places), public + text[done:]


def _births(text: str, row: RegisterRow) -> Iterator[list[_Part]]:
    if row.birth:
        forms = "|".join(map(re.escape, _birth_forms(row.birth)))
        for match in re.finditer(rf"(?<!\d)(?:{forms})(?!\d)", text):
            yield [(match.start(), match.end(), "birth")]


def _birth_forms(day: date) -> list[str]:
    """Return the forms in which a birth date is looked for, longest first."""
    year, month, number = day.year, day.month, day.day
    forms = {f"{year}年{month}月{number}日", f"{year}年{month:02d}月{number:02d}日"}
    for mark in "-/.":
        for m, d in ((f"{month:02d}", f"{number:02d}"), (str(month), str(number))):
            forms |= {mark.join((str(year), m, d)), mark.join((m, d, str(year)))}
    return sorted(forms, key=lambda form: (-len(form), form))


def _last_names(text: str, row: RegisterRow) -> list[list[_Part]]:
    found = re.finditer(re.escape(row.last) + _HONORIFIC, text)
    return [[(match.start(), match.end(), "last")] for match in found]


def _spaced_parts(text: str, words: list[_Word], row: RegisterRow) -> Iterator[list[_Part]]:
    parts: list[_Part] = []
    sure: set[_Part] = set()  # written like a name: enough without another part beside it
    folded = tuple(word.folded for word in words)
    for kind, name in (("last", row.last), ("first", row.first), ("middle", row.middle)):
        wanted = _folded(name)
        for start, stop, _ in Lexicon({wanted: kind} if wanted else {}).find(folded):
            if _is_joined(text, span := words[start:stop]):
                parts.append((span[0].start, span[-1].stop, kind))
                if sum(map(len, wanted)) > 1 and any(one.is_capital for one in span):
                    sure.add(parts[-1])
    for run in parts_beside(text, sorted(parts, key=lambda part: (part[0], -part[1]))):
        kinds = {kind for _, _, kind in run}
        if {"first", "last"} <= kinds or (kinds != {"middle"} and not sure.isdisjoint(run)):
            yield run


def parts_beside(
    text: str, parts: Sequence[_Part], *, gap: re.Pattern[str] = _GAP
) -> list[list[_Part]]:
    """Return the parts that stand side by side, one of each kind, together.

    `parts` are in order, of several that begin at one place the longest first; `gap` is all that
    may stand between two.
    """
    runs: list[list[_Part]] = []
    for part in parts:
        if runs and part[0] < runs[-1][-1][1]:  # the same word as first and last name
            continue
        if runs and _joins(text, runs[-1], part, gap):
            runs[-1].append(part)
        else:
            runs.append([part])
    return runs


def _joins(text: str, run: Sequence[_Part], part: _Part, gap: re.Pattern[str]) -> bool:
    start, stop, _ = run[-1]
    if part[0] - stop > _MAX_GAP_CHARS or part[2] in {kind for _, _, kind in run}:
        return False
    between = gap.fullmatch(text, stop, part[0])
    # A full stop ends a sentence, unless it belongs to an initial.
    return between is not None and (stop - start == 1 or not between[0].startswith("."))


def _is_joined(text: str, span: Sequence[_Word]) -> bool:
    return all(
        b.start - a.stop <= _MAX_GAP_CHARS and _GAP.fullmatch(text, a.stop, b.start)
        for a, b in pairwise(span)
    )


def registered_people(finder: MentionFinder) -> Iterator[dict[str, object]]:
    """Yield what is known of each patient."""
    for patient_id, rows in finder.patients.items():
        yield {
            "patient_id": patient_id,
            "names": [[row.first, row.middle, row.last] for row in rows],
            "sex": next((row.sex for row in rows if row.sex), ""),
        }
