"""Types of masks: what stood at each mask of a note, told by rules or by somebody who reads it.

Comes in: notes with MIMIC-III's `[** ... **]`, MIMIC-IV's `___` or `{{Typed Name}}`. Goes out: the
same notes with a typed placeholder at each mask that was understood; the others stay and are
counted.

Source: paper 002, section 2.1, steps 1 and 2.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from audit.corpora.placeholders import BLANK, NAME_KINDS, Placeholder, find_placeholders
from audit.deid.mask_kinds import FAMILY, OTHER, PATIENT, STAFF, MaskKind, kind_for, mark_text

OVER_89 = "over 89"
_WINDOW = 60
_FORMS = {"first": "given", "last": "surname", "full": "full", "initial": "initials"}
_VALUES = {
    "zipcode": "postcode",
    "phone": "telephone",
    "ssn": "my_number",
    "medical_record_number": "record_number",
    "clip_number": "identifier",
    "job_number": "identifier",
    "university": "school",
    "age_over_90": "age",
}
_DATES = (
    ("birth_date", re.compile(r"birth|d\.?o\.?b\b|born", re.IGNORECASE)),
    ("admission_date", re.compile(r"admi", re.IGNORECASE)),
    ("discharge_date", re.compile(r"discharge", re.IGNORECASE)),
)
_DATE_REACH = 32
_WOMEN = "wife|daughter|mother|sister|niece|aunt|granddaughter|grandmother"
_MEN = "husband|son|father|brother|nephew|uncle|grandson|grandfather"
_RELATIVE = re.compile(
    rf"\b(?:(?P<F>{_WOMEN})|(?P<M>{_MEN})|spouse|next of kin|hcp|health care proxy|caregiver)\b"
    r"(?:\s*\([^)]{0,20})?[\s,:]{1,3}$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class MaskedNote:
    """A note and its masks, in order."""

    text: str
    places: tuple[Placeholder, ...]


@dataclass(frozen=True, slots=True)
class MaskAnswer:
    """What stood at a mask.

    Attributes
    ----------
    kind
        None where it is not known, or where `text` tells what stood there.
    text
        For masks that are no personal information: what the note says there; "" for all others.
    number
        Tells two people or values of one kind apart; "" where there is none.
    sex
        Of a person, where the words tell it: "M", "F" or "".
    """

    kind: MaskKind | None
    text: str = ""
    number: str = ""
    sex: str = ""


class MaskTyper(Protocol):
    """Says what stood at the masks of notes: rules, or a language model that reads them."""

    def types(self, notes: Sequence[MaskedNote]) -> list[tuple[MaskAnswer, ...]]:
        """Return for each note one answer for each of its masks."""
        ...


class RuleTyper:
    """Types masks by MIMIC-III's categories, and `___` by the words around it."""

    def types(self, notes: Sequence[MaskedNote]) -> list[tuple[MaskAnswer, ...]]:
        """Return for each note one answer for each of its masks."""
        return [tuple(_answer(note.text, place) for place in note.places) for note in notes]


def masked_note(text: str, *, has_blanks: bool) -> MaskedNote:
    """Return a note with the masks that are to be typed; typed placeholders are none of them."""
    return MaskedNote(text, find_placeholders(text, has_blanks=has_blanks).places)


def _answer(text: str, place: Placeholder) -> MaskAnswer:
    before = text[max(0, place.start - _WINDOW) : place.start]
    if place.kind in NAME_KINDS:
        role = {"patient": PATIENT, "staff": STAFF}.get(place.role, OTHER)
        relative = _RELATIVE.search(before) if role == OTHER else None
        kind = kind_for(_FORMS[place.kind], role=FAMILY if relative else role)
        return MaskAnswer(kind, number=place.number, sex=_sex(relative) or place.sex)
    if place.category == BLANK and place.kind == "unknown":
        relative = _RELATIVE.search(before)
        kind = kind_for("full", role=FAMILY) if relative else None
        return MaskAnswer(kind, sex=_sex(relative))
    value = _VALUES.get(place.kind, place.kind)
    if place.kind == "date":
        line = before[-_DATE_REACH:].rsplit("\n", 1)[-1]
        value = next((name for name, word in _DATES if word.search(line)), "date")
    return MaskAnswer(kind_for(value), number=place.number)


def _sex(relative: re.Match[str] | None) -> str:
    return (relative.lastgroup or "") if relative else ""


@dataclass(frozen=True)
class TypedNote:
    """A note with typed placeholders.

    `typed` counts them by the name of their kind; `n_restored` masks were no personal information
    and hold text again; `unknown` masks stayed, by category.
    """

    text: str
    typed: Counter[str]
    unknown: Counter[str]
    n_restored: int


def with_types(note: MaskedNote, answers: Sequence[MaskAnswer]) -> TypedNote:
    """Return a note with a typed placeholder at each mask whose kind is known.

    First and last name of one person side by side become one placeholder of the full name.

    Raises
    ------
    ValueError
        If there are not as many answers as masks.
    """
    pieces: list[str] = []
    typed: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    done = n_restored = 0
    for places, answer in _joined(note.places, answers):
        first, last = places[0], places[-1]
        pieces.append(note.text[done : first.start])
        done = last.stop
        if answer.text:
            n_restored += 1
            pieces.append(_without_marks(answer.text))
        elif answer.kind is None:
            unknown[first.category] += 1
            pieces.append(note.text[first.start : last.stop])
        else:
            typed[answer.kind.name] += 1
            number = answer.number if answer.number.isdigit() and len(answer.number) <= 20 else ""
            content = _content(first, answer.kind)
            pieces.append(mark_text(answer.kind, number=number, sex=answer.sex, content=content))
    pieces.append(note.text[done:])
    return TypedNote("".join(pieces), typed, unknown, n_restored)


def _joined(
    places: Sequence[Placeholder], answers: Sequence[MaskAnswer]
) -> list[tuple[list[Placeholder], MaskAnswer]]:
    groups: list[tuple[list[Placeholder], MaskAnswer]] = []
    for place, answer in zip(places, answers, strict=True):
        before = groups[-1] if groups else None
        if before and place.group >= 0 and before[0][-1].group == place.group:
            whole = _whole_name(before[1], answer)
            if whole is not None:
                groups[-1] = ([*before[0], place], whole)
                continue
        groups.append(([place], answer))
    return groups


# Two neighbours that name one person, and what they are together.
_WHOLE = {
    ("given", "surname"): "full",
    ("given", "initials"): "given",
    ("full", "initials"): "full",
    ("surname", "given"): "reversed",
    ("reversed", "initials"): "reversed",
}


def _whole_name(before: MaskAnswer, answer: MaskAnswer) -> MaskAnswer | None:
    # Of two answers for neighbours in a group: the name that both are, or None.
    one, two = before.kind, answer.kind
    if one is None or two is None or before.text or answer.text or one.role != two.role:
        return None
    whole = _WHOLE.get((one.value, two.value))
    if whole is None:
        return None
    number = before.number or answer.number
    return MaskAnswer(kind_for(whole, role=one.role), number=number, sex=before.sex or answer.sex)


def _content(place: Placeholder, kind: MaskKind) -> str | None:
    if place.category == BLANK or not place.content:
        return None
    if not kind.value.endswith(("date", "date_range")):
        return OVER_89 if place.kind == "age_over_90" else None
    is_number = place.content[0] in "-/0123456789"
    content = place.content if is_number else place.category
    return None if "{" in content or "}" in content else content


def _without_marks(text: str) -> str:
    # What somebody else wrote must not become a placeholder.
    return text.replace("{", "(").replace("}", ")")
