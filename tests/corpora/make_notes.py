"""Files of notes for tests: NOTEEVENTS as MIMIC-III has it, a placeholder of each category."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

HEADER = (
    *("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CHARTTIME", "STORETIME"),
    *("CATEGORY", "DESCRIPTION", "CGID", "ISERROR", "TEXT"),
)

# Category -> kind that stands for it.
CATEGORIES = {
    "Known firstname": "first",
    "Known lastname": "last",
    "Doctor First Name": "first",
    "Doctor Last Name": "last",
    "First Name (STitle)": "first",
    "First Name3 (LF)": "first",
    "First Name4 (NamePattern1)": "first",
    "First Name8 (NamePattern2)": "first",
    "First Name11 (Name Pattern1)": "first",
    "Male First Name (un)": "first",
    "Female First Name (ambig)": "first",
    "Name10 (NameIs)": "first",
    "Name6 (MD)": "first",
    "Name (NI)": "first",
    "Last Name": "last",
    "Last Name (un)": "last",
    "Last Name (LF)": "last",
    "Last Name (NamePattern4)": "last",
    "Last Name (Prefixes)": "last",
    "Name (STitle)": "last",
    "Name7 (MD)": "last",
    "Name8 (MD)": "last",
    "Name11 (NameIs)": "last",
    "Name13 (STitle)": "last",
    "Name14 (STitle)": "last",
    "Name5 (PTitle)": "last",
    "Dictator Info": "last",
    "Attending Info": "full",
    "CC Contact Info": "full",
    "Initial (NamePattern1)": "initial",
    "Initials (NamePattern4)": "initial",
    "Name Initial (NameIs)": "initial",
    "Name12 (NameIs)": "initial",
    "Name Prefix (Prefixes)": "prefix",
    "Hospital": "hospital",
    "Hospital1": "hospital",
    "Hospital6": "hospital",
    "Hospital Ward Name": "ward",
    "Hospital Unit Name": "ward",
    "Wardname": "ward",
    "Location (un)": "city",
    "Street Address(1)": "address",
    "Apartment Address(1)": "address",
    "PO Box": "po_box",
    "State": "state",
    "State/Zipcode": "zipcode",
    "Country": "country",
    "Company": "company",
    "University/College": "university",
    "E-mail address": "email",
    "URL": "url",
    "Telephone/Fax (1)": "phone",
    "Pager number": "phone",
    "Medical Record Number": "medical_record_number",
    "Social Security Number": "ssn",
    "Clip Number (Radiology)": "clip_number",
    "Job Number": "job_number",
    "Serial Number": "serial_number",
    "MD Number(1)": "identifier",
    "Numeric Identifier": "identifier",
    "Age over 90": "age_over_90",
    "Holiday": "holiday",
    "Ethnicity": "ethnicity",
    "Date range (1)": "date_range",
    "Month (only)": "date",
    "Month Day": "date",
    "Day Month": "date",
    "Month Day Year (2)": "date",
    "Day Month Year": "date",
    "Month/Day (2)": "date",
    "Month/Year (2)": "date",
    "Year/Month": "date",
    "Month/Day/Year": "date",
    "Year/Month/Day": "date",
    "Year (4 digits)": "date",
    "Year (2 digits)": "date",
    "January": "date",
}
DATES = (
    *("2177-12-5", "2177-12-05", "12-5", "12/05", "2177", "12/2177", "12-/2177", "2177-12"),
    *("5-/2177", "1877-2-3", "1-2-2177", "12/5/77", "2177-2-30", "9999-1-1", "-2177"),
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
