"""Masks of notes: what stood there, by rules or a local language model; and typed placeholders.

A typed placeholder is written `{{Patient Name 3 F|what is known}}`. Source: paper 002, section 2.1,
steps 1 and 2 (the paper's own prompt is in its appendix B).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from audit.names.people import label_of
from audit.notes.patterns import read_pattern_table
from audit.notes.placeholders import BLANK, NAME_KINDS, Placeholder, find_placeholders

PATIENT, FAMILY, STAFF, OTHER = "patient", "family", "staff", "other"
_ROLE_NAMES = {
    PATIENT: "Patient",
    FAMILY: "Family Member",
    STAFF: "Physician",
    OTHER: "Other Person",
}
_FORM_NAMES = {
    "full": "Name",
    "reversed": "Name Reversed",
    "surname": "Surname",
    "given": "Given Name",
    "initials": "Initials",
    "kana": "Name Kana",
    "half_kana": "Name Half Kana",
    "hiragana": "Name Hiragana",
    "romaji": "Name Romaji",
}
_NONE = "no personal information"


@dataclass(frozen=True, slots=True)
class MaskKind:
    """What stood at a mask: a value of an identity, or a form of a name and whose (`role`).

    `name` is as it is written in a typed placeholder; `role` is "" for what is no name, `label`
    where it is of none of the five types (a title before a name).
    """

    name: str
    value: str
    role: str
    label: str


_, _TABLE = read_pattern_table(__file__)
KINDS = {
    f"{who} {what}": MaskKind(
        f"{who} {what}", form, role, label_of("joined" if form == "full" else form)
    )
    for role, who in _ROLE_NAMES.items()
    for form, what in _FORM_NAMES.items()
}
"""By their names."""
_BY_NAME: dict[str, MaskKind] = {}


def _folded(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split())


for _label, _entries in _TABLE.items():
    for _entry, _others in _entries:
        _name, _separator, _value = _entry.partition(" | ")
        if _value:
            KINDS[_name] = MaskKind(_name, _value, "", "" if _label == _NONE else _label)
        _BY_NAME |= {_folded(other): KINDS[_name] for other in _others.split(",") if other}
_BY_NAME = {_folded(name): kind for name, kind in KINDS.items()} | _BY_NAME
_BY_VALUE = {(kind.value, kind.role): kind for kind in reversed(KINDS.values())}


def known_kind(name: str) -> MaskKind | None:
    """Return the kind of a name, English or Japanese, in any case; None where there is none."""
    return KINDS.get(name) or _BY_NAME.get(_folded(name))


@dataclass(frozen=True, slots=True)
class Mark:
    """A typed placeholder at characters `start` to `stop` of a text.

    `kind` is None where the name is not known; `number`, or "", tells two of a kind apart; `sex` is
    "M", "F" or "". `content` is what is known of the value, and with a `=` before it the value.
    """

    start: int
    stop: int
    kind: MaskKind | None
    number: str
    sex: str
    content: str | None


_MARK = re.compile(
    r"\{\{\s*(?P<name>[^{}|]{1,60}?)(?:\s+(?P<number>\d{1,20}))?(?:\s+(?P<sex>[MF]))?\s*"
    r"(?:\|(?P<content>[^{}]{0,200}))?\}\}"
)


def has_marks(text: str) -> bool:
    """Whether a text holds a typed placeholder of a known name."""
    return any(mark.kind is not None for mark in find_marks(text))


def find_marks(text: str) -> tuple[Mark, ...]:
    """Return the typed placeholders of a text, in order, those of unknown names too."""
    return tuple(
        Mark(*m.span(), known_kind(m["name"]), m["number"] or "", m["sex"] or "", m["content"])
        for m in _MARK.finditer(text)
    )


def mark_text(
    kind: MaskKind, *, number: str = "", sex: str = "", content: str | None = None
) -> str:
    """Return a typed placeholder as text; the content has no braces."""
    words = " ".join(part for part in (kind.name, number, sex) if part)
    return "{{" + words + ("" if content is None else f"|{content}") + "}}"


OVER_89 = "over 89"
_WINDOW, _DATE_REACH = 60, 32
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
_RELATIVE = re.compile(
    r"\b(?:(?P<F>wife|daughter|mother|sister|niece|aunt|granddaughter|grandmother)"
    r"|(?P<M>husband|son|father|brother|nephew|uncle|grandson|grandfather)"
    r"|spouse|next of kin|hcp|health care proxy|caregiver)\b"
    r"(?:\s*\([^)]{0,20})?[\s,:]{1,3}$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What stood at a mask.

    `kind` is None where it is not known, or where `text` tells what the note says there: for masks
    that are no personal information. `number` and `sex` as in `Mark`.
    """

    kind: MaskKind | None
    text: str = ""
    number: str = ""
    sex: str = ""


@dataclass(frozen=True)
class TypedNote:
    """A note with typed placeholders at those of its `n_masks` masks whose kind is known.

    `n_restored` masks were no personal information and hold text again; `unknown` masks stayed, by
    category.
    """

    text: str
    n_masks: int
    n_restored: int
    unknown: Counter[str]


Answerer = Callable[[Sequence[str]], list[str]]
"""Answers prompts, one for one: a local causal language model, or a test's function."""


def typed_notes(
    texts: Sequence[str], *, has_blanks: bool, ask: Answerer | None = None
) -> list[TypedNote]:
    """Type the masks of notes: by MIMIC-III's categories, and `___` by the words around it.

    A model that is asked has the first word on blanks and unknown categories. Typed placeholders
    that are in a note are no masks.
    """
    masks = [find_placeholders(text, has_blanks=has_blanks).places for text in texts]
    answers = [
        [_by_rule(text, place) for place in places]
        for text, places in zip(texts, masks, strict=True)
    ]
    if ask:
        questions = [(i, group) for i, places in enumerate(masks) for group in _groups(places)]
        prompts = [_prompt(texts[i], [masks[i][k] for k in group]) for i, group in questions]
        for (i, group), reply in zip(questions, ask(prompts), strict=True):
            read = _read(reply)
            for number, k in enumerate(group, start=1):
                answers[i][k] = read.get(number, answers[i][k])
    return [_with_types(*one) for one in zip(texts, masks, answers, strict=True)]


def _by_rule(text: str, place: Placeholder) -> _Answer:
    before = text[max(0, place.start - _WINDOW) : place.start]
    is_blank = place.category == BLANK and place.kind == "unknown"
    if is_blank or place.kind in NAME_KINDS:
        role = {"patient": PATIENT, "staff": STAFF}.get(place.role, OTHER)
        relative = _RELATIVE.search(before) if is_blank or role == OTHER else None
        sex = (relative.lastgroup if relative else None) or ""
        if is_blank:
            return _Answer(_BY_VALUE["full", FAMILY] if relative else None, sex=sex)
        kind = _BY_VALUE.get((_FORMS[place.kind], FAMILY if relative else role))
        return _Answer(kind, number=place.number, sex=sex or place.sex)
    value = _VALUES.get(place.kind, place.kind)
    if place.kind == "date":
        line = before[-_DATE_REACH:].rsplit("\n", 1)[-1]
        value = next((name for name, word in _DATES if word.search(line)), "date")
    return _Answer(_BY_VALUE.get((value, "")), number=place.number)


_WHOLE = {
    ("given", "surname"): "full",
    ("given", "initials"): "given",
    ("full", "initials"): "full",
    ("surname", "given"): "reversed",
    ("reversed", "initials"): "reversed",
}
"""Two neighbours that name one person, and what they are together."""


def _with_types(text: str, places: Sequence[Placeholder], answers: Sequence[_Answer]) -> TypedNote:
    """Return a note with a typed placeholder at each mask whose kind is known.

    First and last name of one person side by side become one placeholder of the full name.
    """
    groups: list[tuple[Placeholder, Placeholder, _Answer]] = []
    for place, answer in zip(places, answers, strict=True):
        if groups and groups[-1][1].group == place.group >= 0:
            first, _, before = groups[-1]
            if whole := _whole_name(before, answer):
                groups[-1] = (first, place, whole)
                continue
        groups.append((place, place, answer))
    new, done, n_restored = "", 0, 0
    unknown = Counter[str]()
    for first, last, answer in groups:
        new += text[done : first.start]
        done = last.stop
        if answer.text:  # what somebody else wrote must not become a placeholder
            n_restored += 1
            new += answer.text.replace("{", "(").replace("}", ")")
        elif answer.kind is None:
            unknown[first.category] += 1
            new += text[first.start : last.stop]
        else:
            number = answer.number if re.fullmatch(r"\d{0,20}", answer.number) else ""
            content = _content(first, answer.kind)
            new += mark_text(answer.kind, number=number, sex=answer.sex, content=content)
    return TypedNote(new + text[done:], len(places), n_restored, unknown)


def _whole_name(one: _Answer, two: _Answer) -> _Answer | None:
    """Return the name that two neighbours in a group are together; None where they are none."""
    if not one.kind or not two.kind or one.kind.role != two.kind.role:
        return None
    kind = _BY_VALUE.get((_WHOLE.get((one.kind.value, two.kind.value), ""), one.kind.role))
    number, sex = one.number or two.number, one.sex or two.sex
    return _Answer(kind, number=number, sex=sex) if kind else None


def _content(place: Placeholder, kind: MaskKind) -> str | None:
    if place.category == BLANK or not place.content:
        return None
    if not kind.value.endswith(("date", "date_range")):
        return OVER_89 if place.kind == "age_over_90" else None
    content = place.content if place.content[0] in "-/0123456789" else place.category
    return None if "{" in content or "}" in content else content


_CONTEXT_CHARS, _MAX_MASKS, _MAX_TEXT_CHARS = 240, 40, 80
MODEL_TYPER_PROMPT = (
    "Parts of a clinical note were masked. Each mask is written [[1]], [[2]] and so on. Say for "
    "each mask what stood there, one line each, as in\n1: Patient Name\n2: TEXT 7.4\n"
    "Use TEXT with a fitting value where it was no personal information (a laboratory value). "
    "Put a number behind a name to tell two people apart, as in Physician Name 2. "
    "Write only such lines, with these names: {kinds}.\n\nNote:\n{note}\n\nMasks:\n"
)
_LINE = re.compile(r"^\W{0,4}(\d{1,3})\W{0,3}\s*[:：.)]\s*(.{1,200}?)\s*$", re.MULTILINE)
_TEXT = re.compile(r"text\b\s*[:：]?\s*(.*)$", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*?)\s*(\d{1,3})?", re.DOTALL)
_MARKS = "{}[]<>*`'\" "


def _groups(places: Sequence[Placeholder]) -> Iterator[list[int]]:
    """Yield the masks that are asked for at once: those that no category tells, near each other."""
    group: list[int] = []
    for i, place in enumerate(places):
        if place.category == BLANK or place.kind == "unknown":
            reached = places[group[-1]].stop if group else place.start
            if place.start - reached > 2 * _CONTEXT_CHARS or len(group) == _MAX_MASKS:
                yield group
                group = []
            group.append(i)
    if group:
        yield group


def _prompt(text: str, places: Sequence[Placeholder]) -> str:
    done, shown = max(0, places[0].start - _CONTEXT_CHARS), ""
    for number, place in enumerate(places, start=1):
        shown += f"{text[done : place.start]}[[{number}]]"
        done = place.stop
    shown += text[done : done + _CONTEXT_CHARS]
    return MODEL_TYPER_PROMPT.format(kinds=", ".join(KINDS), note=shown)


def _read(reply: str) -> dict[int, _Answer]:
    """Return what a reply says of each mask, by its number; the first line for a mask counts.

    Lines that are not understood are left out.
    """
    found: dict[int, _Answer] = {}
    for line in _LINE.finditer(reply):
        words = line[2].strip(_MARKS)
        answer = _Answer(known_kind(words))
        if text := _TEXT.match(words):
            answer = replace(answer, text=text[1].strip(_MARKS)[:_MAX_TEXT_CHARS])
        elif not answer.kind and (numbered := _NUMBERED.fullmatch(words)):
            answer = _Answer(known_kind(numbered[1]), number=numbered[2] or "")
        if answer.kind or answer.text:
            found.setdefault(int(line[1]), answer)
    return found


TRANSLATION_STEP_PROMPT = (
    "Translate this passage of a clinical note into Japanese. Copy everything between {{ and }} "
    "unchanged. Write only the translation.\n\nPassage:\n"
)
_PASSAGE_CHARS = 1500
_PARAGRAPH = re.compile(r".*?(?:\n[ \t]*\n+|\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Translated:
    """A text after the step: `n_kept` of its `n_passages` passages stayed as they were."""

    text: str
    n_passages: int
    n_kept: int


def translated(texts: Sequence[str], *, ask: Answerer) -> list[Translated]:
    """Return each text with those passages translated that keep their placeholders."""
    pieces = [_passages(text) for text in texts]
    asked = [piece.strip() for own in pieces for piece in own if piece.strip()]
    replies = iter(ask([TRANSLATION_STEP_PROMPT + passage for passage in asked]))
    found = []
    for own in pieces:
        n_asked = n_kept = 0
        for j, piece in enumerate(own):
            if passage := piece.strip():
                n_asked += 1
                answer = next(replies).strip()
                if answer and _marks(answer) == _marks(passage):
                    own[j] = piece.replace(passage, answer)
                else:
                    n_kept += 1
        found.append(Translated("".join(own), n_asked, n_kept))
    return found


def _passages(text: str) -> list[str]:
    """Return a text in pieces of some 1,500 characters that end at line ends; joined they are it.

    A longer line is one piece.
    """
    pieces = [""]
    for part in _PARAGRAPH.findall(text):
        if pieces[-1] and len(pieces[-1]) + len(part) > _PASSAGE_CHARS:
            pieces.append("")
        pieces[-1] += part
    return pieces


def _marks(text: str) -> list[str]:
    return sorted(match[0] for match in _MARK.finditer(text))
