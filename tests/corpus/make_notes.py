"""Notes and corpora for tests: NOTEEVENTS as MIMIC-III has it; who is named where is known."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from audit.corpus.corpora import CORPORA, KeptCorpus
from audit.corpus.make import CorpusTask, make_corpus
from audit.corpus.truth import NoteTruth

HEADER = (
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
    *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
)
_LINES = Path(__file__).with_name("categories.txt").read_text("utf-8").splitlines()
CATEGORIES = {
    category: kind
    for kind, _, names in (line.partition(": ") for line in _LINES)
    for category in names.split(" | ")
}
"""Category -> kind that stands for it."""
DATES = (
    *("2177-12-5", "2177-12-05", "12-5", "12/05", "2177", "12/2177", "12-/2177", "2177-12"),
    *("5-/2177", "1877-2-3", "1-2-2177", "12/5/77", "2177-2-30", "9999-1-1", "-2177"),
)
KNOWN = "[**Known firstname {n}**] [**Known lastname {n}**]"
DOCTOR = "[**First Name8 (NamePattern2) {n}**] [**Last Name (NamePattern1) {n}**]"
REST = " He slept well. His wife came. Nothing was found. He went home. The end came late."
REGISTER = (
    "patient_id,first_name,last_name,sex,birth_date\n"
    "1,Anna,Sandoval,F,1950-03-04\n2,Boris,Youngblood,M,\n3,Carla,Overton,F,\n4,Nobody,Named,M,\n"
)
REGISTER_NOTES = (
    ("1", "Anna Sandoval is a 72 year old woman with pain. She was seen on 2020-01-02."),
    ("1", "ANNA SANDOVAL IS A 72 YEAR OLD WOMAN. Better."),
    ("2", "Boris Youngblood is a 50-year-old man with fever. Mr. Youngblood left."),
    ("2", "The patient is a 50-year-old man. Seen beside Carla Overton."),
    ("3", "Overton came. Carla is well."),
)
JAPANESE_REGISTER = "患者ID,姓,名,性別,生年月日\n1,見本,太郎,男,1950-03-04\n2,鈴木,花子,女,\n"
JAPANESE_NOTES = (
    ("1", "70歳男性の見本太郎は来院した。発熱があった。熱は下がった。"),
    ("2", "鈴木花子は50歳の女性。腹痛があった。"),
    ("1", "患者は70歳男性。見本さんは元気。"),
)


def every_category(*, number: str = "12") -> str:
    """Return a text with a placeholder of every category, with and without a number."""
    lines = [
        f"{category}: [**{category} {number}**] then [**{category} **]." for category in CATEGORIES
    ]
    return "\n".join([*lines, *(f"On [**{form}**] seen." for form in DATES)])


def csv_text(rows: Iterable[Sequence[object]], *, header: Sequence[str] = HEADER) -> str:
    """Return a CSV text as MIMIC-III's: line feeds between rows, line ends kept within a cell."""
    file = io.StringIO(newline="")
    # The writer does not quote a lone carriage return by itself.
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerows([header, *rows])
    return file.getvalue()


def note_row(number: int, *, patient: object, text: str, stay: object = 7) -> tuple[object, ...]:
    """Return a row of NOTEEVENTS."""
    day = f"2177-12-{number % 28 + 1:02d}"
    return (number, patient, stay, day, "", "", "Nursing", "Report", "", "", text)


def write_notes(path: Path, rows: Iterable[Sequence[object]]) -> Path:
    """Write a NOTEEVENTS.csv."""
    path.write_bytes(csv_text(rows).encode())
    return path


def dummy_rows(n_patients: int = 6) -> list[tuple[object, ...]]:
    """Return notes: patient p is named in p + 1 of them, with one text in all but the last."""
    rows = []
    for patient in range(n_patients):
        for number in range(patient + 1):
            extra = " He is new." if number == patient and patient else ""
            text = f"{KNOWN.format(n=patient)} is a 42 year old man with gout.{extra}{REST}"
            text += f" Seen by {DOCTOR.format(n=number)} on [**2177-12-5**]."
            rows.append(note_row(len(rows) + 1, patient=patient, text=text))
    text = f"The patient is a 42 year old man.{REST} Wife of {KNOWN.format(n=0)} called."
    rows.append(note_row(len(rows) + 1, patient=0, text=text))
    rows.append(note_row(len(rows) + 1, patient=1, text="No name here. [**Spaceship 9**] seen."))
    return rows


def dummy_notes(folder: Path, *, n_patients: int = 6) -> Path:
    return write_notes(folder / "NOTEEVENTS.csv", dummy_rows(n_patients))


def register_files(folder: Path, *, is_japanese: bool = False) -> tuple[Path, Path]:
    notes = JAPANESE_NOTES if is_japanese else REGISTER_NOTES
    register = JAPANESE_REGISTER if is_japanese else REGISTER
    lines = [json.dumps({"patient_id": patient, "text": text}) for patient, text in notes]
    (folder / "notes.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "register.csv").write_text(register, encoding="utf-8")
    return folder / "notes.jsonl", folder / "register.csv"


def made(out: Path, notes: Path, **choices: Any) -> KeptCorpus:
    """Make a corpus."""
    listen = {name: choices.pop(name) for name in ("progress", "should_stop") if name in choices}
    return CORPORA.read_folder(make_corpus(CorpusTask(notes=notes, **choices), out=out, **listen))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def check_places(note: NoteTruth) -> None:
    """Hold that the private text is the public one with each place replaced, and nothing else."""
    rebuilt, end, length = [], 0, 0
    for place in sorted([*note.inserted, *note.left], key=lambda place: place.start):
        between = note.public[end : place.source_start]
        value = note.private[place.start : place.stop]
        assert place.start == length + len(between)
        rebuilt += [between, value]
        length, end = place.stop, place.source_stop
        mark = note.public[place.source_start : place.source_stop]
        assert value == (mark if place in note.left else place.value) != ""
        assert mark == "___" or (mark.startswith("[") and mark.endswith("]"))
    assert "".join([*rebuilt, note.public[end:]]) == note.private
