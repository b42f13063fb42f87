"""MIMIC-IV's `___`: what stood there, as far as the words around it tell.

All eighteen kinds of identifiers are three underscores in MIMIC-IV. Where no rule below applies the
kind is "unknown", and the blank stays.
"""

from __future__ import annotations

import re

_BEFORE_CHARS = 48
_AFTER_CHARS = 48

# What comes right before the blank -> kind, role. The first rule that fits counts.
_BEFORE: tuple[tuple[str, str, str], ...] = (
    (r"\b(patient |pt )?name:\s*", "full", "patient"),
    (r"\b(unit no|mrn|medical record (number|no)|record #)[:.#]?\s*", "medical_record_number", ""),
    (
        r"\b(admission|discharge|birth|service|procedure)( date)?:\s*|\bdate( of \w+)?:\s*",
        "date",
        "",
    ),
    (r"\bd\.?o\.?b\.?:\s*", "date", ""),
    (r"\battending:\s*(dr\.?\s*)?", "full", "staff"),
    (r"\b(drs?|doctor)\b\.?\s*", "last", "staff"),
    (r"\b(mr|mrs|ms|miss)\b\.?\s*", "last", "patient"),
    (r"\b(phone|telephone|tel|fax|pager|cell|call)( number)?( at| is|:|#|\))*\s*", "phone", ""),
    (r"\be-?mail( address)?( at| is|:)*\s*", "email", ""),
    (r"\b(ssn|social security( number)?)[:#]?\s*", "ssn", ""),
    (r"\b(address|lives at|resides at):?\s*", "address", ""),
    (r"\b(born in|from|lives in|moved to|originally from)\s*", "city", ""),
    (
        r"\b(transferred (to|from)|(admitted|presented) to|(seen|hospitalized) at|discharged from)"
        r"( the)?\s*",
        "hospital",
        "",
    ),
    (r"\b(pcp|cardiologist|surgeon|oncologist|physician)( is|:|,)?\s*", "full", "staff"),
    (r"\b(on|since|until|dated|from|by|in early|in late|as of|last)\s*", "date", ""),
)
_BEFORE_RULES = tuple(
    (re.compile(rf"(?:{pattern})$", re.IGNORECASE), kind, role) for pattern, kind, role in _BEFORE
)
_AGE = re.compile(r"\s*-?\s*(?:(?:years?|yrs?)\s*-?\s*old\b|y\.?/?o\b)", re.IGNORECASE)
_AGED = re.compile(
    r"\s*,?\s*(?:is|was)\s+(?:an?\s+)?(?:\d{1,3}|_{3})\s*-?\s*(?:(?:years?|yrs?)\s*-?\s*old\b|y\.?/?o\b)",
    re.IGNORECASE,
)
_HOSPITAL = re.compile(r"\s+(?:hospital|medical center|clinic)\b", re.IGNORECASE)
_TITLE = re.compile(r"\b(mr|mrs|ms|miss)\b\.?\s*$", re.IGNORECASE)


def blank_meaning(text: str, *, start: int, stop: int) -> tuple[str, str, str]:
    """Return (kind, role, sex) of the blank at these characters; ("unknown", "", "") if untold."""
    before = text[max(0, start - _BEFORE_CHARS) : start]
    after = text[stop : stop + _AFTER_CHARS]
    title = _TITLE.search(before)
    if title:
        return "last", "patient", "M" if title[1].lower() == "mr" else "F"
    if _AGED.match(after):
        return "full", "patient", ""
    if _AGE.match(after):
        return "age", "", ""
    if _HOSPITAL.match(after):
        return "city", "", ""
    for pattern, kind, role in _BEFORE_RULES:
        if pattern.search(before):
            return kind, role, ""
    return "unknown", "", ""
