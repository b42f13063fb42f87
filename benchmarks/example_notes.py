"""The shipped example notes: invented notes with placeholders of every category.

    python benchmarks/example_notes.py > audit/demo_hospital/notes.csv

Comes in: a seed. Goes out: rows as in MIMIC-III's NOTEEVENTS.csv. None of it is of a real note:
the sentences are the demo's, so that the demo's models can read them. One category is unknown on
purpose and one note is empty: a build lists the one and refuses the other.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from audit.rng import generator
from benchmarks.demo_hospital import LANGUAGES, fill

COLUMNS = (
    "ROW_ID",
    "SUBJECT_ID",
    "HADM_ID",
    "CHARTDATE",
    "CHARTTIME",
    "STORETIME",
    "CATEGORY",
    "DESCRIPTION",
    "CGID",
    "ISERROR",
    "TEXT",
)
N_PATIENTS = 100
SEED = 7

_KNOWN = "[**Known firstname {n}**] [**Known lastname {m}**]"
_MENTIONS = (
    _KNOWN + " is a {age} year old {sex}",
    "[**First Name8 (NamePattern2) {n}**] [**Last Name (NamePattern1) {m}**] is a {age} y/o {sex}",
    _KNOWN + " is a {age}-year-old {man}",
    "[**Known lastname {m}**], [**Known firstname {n}**] is a {age} year old {man}",
    "[**Known firstname {n}**] [**Initial (NamePattern1) 4**] [**Known lastname {m}**]"
    " is a {age} year old {sex}",
    _KNOWN + ", a {age} year old {man}",
)
_OLDEST = _KNOWN + " is a [**Age over 90 **] year old {sex}"
_UNNAMED = ("The patient is a {age} year old {sex}", "This is a {age} year old {man}")
_REASON = " with a history of {history} who presents with {symptom}."

# Each category stands in one sentence at least; the list is gone through in turn, note by note.
_WITH_PLACEHOLDERS = (
    "{Title} [**Known lastname {m}**] came to [**Hospital1 18**] on [**{year}-{month}-{day}**].",
    "Seen by Dr. [**Last Name (STitle) {k}**] and Dr. [**Name (NI) **] on [**{month}-{day}**].",
    "[**Doctor First Name {k}**] [**Doctor Last Name {k}**], M.D. was called.",
    "Results were telephoned to [**Telephone/Fax (1) {k}**].",
    "Transferred from [**Hospital 882**] [**Hospital Ward Name 23**] in [**Location (un) 86**].",
    "The {relation} lives at [**Street Address(2) {k}**], [**Location (un) 620**].",
    "Mail goes to [**PO Box {k}**], [**State/Zipcode 4**].",
    "Works for [**Company 2267**] and studied at [**University/College 5**].",
    "Was born in [**Country 651**] and moved to [**State 108**] in [**{year}**].",
    "Medical record number [**Medical Record Number {k}**].",
    "Clip number [**Clip Number (Radiology) {k}**], unit [**Unit Number {k}**].",
    "Social security number [**Social Security Number {k}**] was checked.",
    "Dictated by [**Dictator Info {k}**], [**MD Number(1) {k}**], job [**Job Number {k}**].",
    "The {relation} reads e-mail at [**E-mail address {k}**]; pager [**Pager number {k}**].",
    "Attending: [**Attending Info {k}**]. Copy to [**CC Contact Info {k}**].",
    "Follow up in [**Month (only) 5**] of [**Year (4 digits) {k}**].",
    "Seen during [**Date range (1) {k}**], again on [**Month/Day (2) {k}**].",
    "Last seen on [**Month/Day/Year {k}**] and in [**Month/Year 8**].",
    "The device of [**Month/Year (2) 12**] has serial number [**Serial Number {k}**].",
    "Came home on [**Holiday 83**]. See [**URL {k}**].",
    "[**Name Prefix (Prefixes) {k}**] [**Last Name (Prefixes) {k}**] agreed.",
    "The family is of [**Ethnicity 17**] origin.",
    "[**Female First Name (un) {k}**] and [**Male First Name (un) {k}**] visited.",
    "[**First Name4 (NamePattern1) {k}**] [**Last Name (un) {k}**] was told.",
    "[**Name Initial (NameIs) 3**]. [**Name2 (NI) {k}**] was told.",
    "Signed by [**Name10 (NameIs) {k}**] [**Name11 (NameIs) {k}**].",
    "Signed by [**Name6 (MD) {k}**] [**Name7 (MD) {k}**].",
    "Seen by [**Name13 (STitle) {k}**], [**Name14 (STitle) {k}**] and [**Name5 (PTitle) {k}**].",
    "Note [**Numeric Identifier {k}**], provider [**Provider Number {k}**].",
    "Known here as [**Pt ID Number {k}**].",
    "Discharged in [**{month}/{year}**]; the next visit is in [**{year}-{month}**].",
    "Signature: [**Signature {k}**].",
    "Was given a [**Device {k}**] on [**{month}/{day}**].",
)
_CATEGORIES = ("Discharge summary", "Physician ", "Nursing", "Radiology")


def example_csv(*, seed: int = SEED, n_patients: int = N_PATIENTS) -> bytes:
    """Return the example as a CSV file, UTF-8; the same seed gives the same bytes."""
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(example_rows(seed=seed, n_patients=n_patients))
    return file.getvalue().encode()


def example_rows(*, seed: int = SEED, n_patients: int = N_PATIENTS) -> Iterator[tuple[str, ...]]:
    """Yield the rows: some two for each patient, those of one patient one after the other."""
    turn = cycle(_WITH_PLACEHOLDERS)
    number = 0
    for patient in range(n_patients):
        for stay, day, category, text in _notes_of(patient, seed=seed, turn=turn):
            number += 1
            ids = (str(number), str(10_000 + patient), str(100_000 + stay))
            yield (*ids, day, "", "", category, "Report", "", "", text)
    yield (
        str(number + 1),
        "10000",
        "100000",
        "2150-01-01",
        "",
        "",
        "Nursing",
        "Report",
        "",
        "",
        "",
    )


def _notes_of(
    patient: int, *, seed: int, turn: Iterator[str]
) -> Iterator[tuple[int, str, str, str]]:
    rng = generator(seed, "example notes", patient)
    person = _person(patient, rng)
    year = 2100 + int(rng.integers(90))
    for number in range(1 + int(rng.random() < 0.3)):
        stay = 2 * patient + number
        month, day = int(rng.integers(1, 13)), int(rng.integers(1, 27))
        when = {"year": str(year + number), "month": str(month), "day": str(day)}
        # What a note says of the present illness is copied into the stay's later notes.
        illness = _illness(patient, person, rng)
        for visit in range(1 + int(rng.integers(3))):
            facts = {**person, **when, "k": str(int(rng.integers(10, 9999)))}
            lines = [f"Admission Date: [**{when['year']}-{when['month']}-{when['day']}**]", ""]
            lines += ["History of Present Illness:", illness, "", "Hospital Course:"]
            lines += [_sentence(rng, person) for _ in range(3)]
            lines += [_filled(next(turn), facts, rng) for _ in range(3)]
            date = f"{when['year']}-{month:02d}-{day + visit:02d}"
            yield (
                stay,
                date,
                _CATEGORIES[(stay + visit) % len(_CATEGORIES)],
                "\n".join(lines) + "\n",
            )


def _person(patient: int, rng: np.random.Generator) -> dict[str, str]:
    is_man = bool(rng.integers(2))
    return {
        "n": str(100 + 2 * patient),
        "m": str(101 + 2 * patient),
        "age": str(int(rng.integers(20, 80))),
        "sex": "male" if is_man else "female",
        "man": "man" if is_man else "woman",
        "he": "he" if is_man else "she",
        "his": "his" if is_man else "her",
        "Title": "Mr." if is_man else "Mrs.",
    }


def _illness(patient: int, person: Mapping[str, str], rng: np.random.Generator) -> str:
    if patient % 25 == 24:
        subject = _OLDEST
    elif patient % 10 == 9:
        subject = _choose(_UNNAMED, rng)
    else:
        subject = _choose(_MENTIONS, rng)
    sentences = [_filled(subject + _REASON, person, rng)]
    return " ".join(sentences + [_sentence(rng, person) for _ in range(4)])


def _sentence(rng: np.random.Generator, person: Mapping[str, str]) -> str:
    # Those with "dr . {staff}" have a name of the demo's; here names are placeholders.
    templates = [sentence for sentence in LANGUAGES["en"].sentences if "{staff}" not in sentence]
    text = _filled(_choose(templates, rng), person, rng)
    for mark in ".,:":
        text = text.replace(f" {mark}", mark)
    return text[0].upper() + text[1:]


def _filled(template: str, facts: Mapping[str, str], rng: np.random.Generator) -> str:
    return fill(template, rng=rng, words=LANGUAGES["en"].words, fields=facts)


def _choose(choices: Sequence[str], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]


if __name__ == "__main__":
    sys.stdout.buffer.write(example_csv())
