"""Typed placeholders for the masks of notes: rules or a local language model say what stood there.

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
    """What stood at a mask: a value of an identity, or a form of somebody's name.

    `name` is the name in a typed placeholder. `role` says whose name it is, and is "" for other
    values. `label` is "" for values of none of the five types (a title before a name).
    """

    name: str
    value: str
    role: str
    label: str


_, _TABLE = read_pattern_table(__file__)
KINDS = {
    f"{role_name} {form_name}": MaskKind(
        f"{role_name} {form_name}", form, role, label_of("joined" if form == "full" else form)
    )
    for role, role_name in _ROLE_NAMES.items()
    for form, form_name in _FORM_NAMES.items()
}
"""The kinds by name."""
_BY_NAME: dict[str, MaskKind] = {}


def _fold_name(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().replace("_", " ").split())


for _label, _entries in _TABLE.items():
    for _entry, _synonyms in _entries:
        _kind_name, _separator, _value_name = _entry.partition(" | ")
        if _value_name:
            KINDS[_kind_name] = MaskKind(
                _kind_name, _value_name, "", "" if _label == _NONE else _label
            )
        _BY_NAME |= {
            _fold_name(synonym): KINDS[_kind_name] for synonym in _synonyms.split(",") if synonym
        }
_BY_NAME = {_fold_name(name): kind for name, kind in KINDS.items()} | _BY_NAME
_BY_VALUE = {(kind.value, kind.role): kind for kind in reversed(KINDS.values())}


def find_kind(name: str) -> MaskKind | None:
    """Return the kind with an English or Japanese name, in any case; None if there is none."""
    return KINDS.get(name) or _BY_NAME.get(_fold_name(name))


@dataclass(frozen=True, slots=True)
class Mark:
    """A typed placeholder at characters `start` to `stop` of a text.

    `kind` is None if the name is unknown. `number` tells two of a kind apart and may be ""; `sex`
    is "M", "F" or "". `content` describes the value, or is the value itself after a `=`.
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
    """Whether a text contains a typed placeholder with a known name."""
    return any(mark.kind is not None for mark in find_marks(text))


def find_marks(text: str) -> tuple[Mark, ...]:
    """Return the typed placeholders of a text, in order, including those with unknown names."""
    return tuple(
        Mark(*m.span(), find_kind(m["name"]), m["number"] or "", m["sex"] or "", m["content"])
        for m in _MARK.finditer(text)
    )


def mark_text(
    kind: MaskKind, *, number: str = "", sex: str = "", content: str | None = None
) -> str:
    """Return a typed placeholder as text; the content must have no braces."""
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

    `kind` is None if it is unknown, or if `text` restores what a mask hid that is no personal
    information. `number` and `sex` are as in `Mark`.
    """

    kind: MaskKind | None
    text: str = ""
    number: str = ""
    sex: str = ""


@dataclass(frozen=True)
class TypedNote:
    """A note with typed placeholders in place of those of its `n_masks` masks whose kind is known.

    `n_restored` masks hid no personal information and are text again. `unknown` counts by category
    the masks that stayed.
    """

    text: str
    n_masks: int
    n_restored: int
    unknown: Counter[str]


Answerer = Callable[[Sequence[str]], list[str]]
"""Returns one answer for each prompt: a local causal language model, or a function of a test."""


def type_masks(
    texts: Sequence[str], *, has_blanks: bool, ask: Answerer | None = None
) -> list[TypedNote]:
    """Type the masks of notes: by the categories of MIMIC-III, and `___` by the words around it.

    For blanks and unknown categories the answers of a model come before the rules. Typed
    placeholders that a note already has are not masks.
    """
    masks = [find_placeholders(text, has_blanks=has_blanks).places for text in texts]
    answers = [
        [_answer_by_rule(text, place) for place in places]
        for text, places in zip(texts, masks, strict=True)
    ]
    if ask:
        questions = [
            (i, group) for i, places in enumerate(masks) for group in _group_questions(places)
        ]
        prompts = [_write_prompt(texts[i], [masks[i][k] for k in group]) for i, group in questions]
        for (i, group), reply in zip(questions, ask(prompts), strict=True):
            mask_answers = _read_reply(reply)
            for number, k in enumerate(group, start=1):
                answers[i][k] = mask_answers.get(number, answers[i][k])
    return [
        _write_placeholders(*note_parts) for note_parts in zip(texts, masks, answers, strict=True)
    ]


def _answer_by_rule(text: str, place: Placeholder) -> _Answer:
    text_before = text[max(0, place.start - _WINDOW) : place.start]
    is_blank = place.category == BLANK and place.kind == "unknown"
    if is_blank or place.kind in NAME_KINDS:
        role = {"patient": PATIENT, "staff": STAFF}.get(place.role, OTHER)
        relative = _RELATIVE.search(text_before) if is_blank or role == OTHER else None
        sex = (relative.lastgroup if relative else None) or ""
        if is_blank:
            return _Answer(_BY_VALUE["full", FAMILY] if relative else None, sex=sex)
        kind = _BY_VALUE.get((_FORMS[place.kind], FAMILY if relative else role))
        return _Answer(kind, number=place.number, sex=sex or place.sex)
    value_name = _VALUES.get(place.kind, place.kind)
    if place.kind == "date":
        line = text_before[-_DATE_REACH:].rsplit("\n", 1)[-1]
        value_name = next((name for name, word in _DATES if word.search(line)), "date")
    return _Answer(_BY_VALUE.get((value_name, "")), number=place.number)


_WHOLE = {
    ("given", "surname"): "full",
    ("given", "initials"): "given",
    ("full", "initials"): "full",
    ("surname", "given"): "reversed",
    ("reversed", "initials"): "reversed",
}
"""The forms of two neighbouring masks that name one person, and the form of both together."""


def _write_placeholders(
    text: str, places: Sequence[Placeholder], answers: Sequence[_Answer]
) -> TypedNote:
    """Return a note with a typed placeholder in place of each mask whose kind is known.

    Adjacent first and last names of one person become one placeholder of the full name.
    """
    groups: list[tuple[Placeholder, Placeholder, _Answer]] = []
    for place, answer in zip(places, answers, strict=True):
        if groups and groups[-1][1].group == place.group >= 0:
            first, _, previous_answer = groups[-1]
            if joined_name := _join_names(previous_answer, answer):
                groups[-1] = (first, place, joined_name)
                continue
        groups.append((place, place, answer))
    new_text, end, n_restored = "", 0, 0
    unknown = Counter[str]()
    for first, last, answer in groups:
        new_text += text[end : first.start]
        end = last.stop
        if answer.text:  # the text of a model must not become a placeholder
            n_restored += 1
            new_text += answer.text.replace("{", "(").replace("}", ")")
        elif answer.kind is None:
            unknown[first.category] += 1
            new_text += text[first.start : last.stop]
        else:
            number = answer.number if re.fullmatch(r"\d{0,20}", answer.number) else ""
            content = _placeholder_content(first, answer.kind)
            new_text += mark_text(answer.kind, number=number, sex=answer.sex, content=content)
    return TypedNote(new_text + text[end:], len(places), n_restored, unknown)


def _join_names(first: _Answer, second: _Answer) -> _Answer | None:
    """Return the name that two neighbouring masks form together; None if they form none."""
    if not first.kind or not second.kind or first.kind.role != second.kind.role:
        return None
    kind = _BY_VALUE.get((_WHOLE.get((first.kind.value, second.kind.value), ""), first.kind.role))
    number, sex = first.number or second.number, first.sex or second.sex
    return _Answer(kind, number=number, sex=sex) if kind else None


def _placeholder_content(place: Placeholder, kind: MaskKind) -> str | None:
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


def _group_questions(places: Sequence[Placeholder]) -> Iterator[list[int]]:
    """Yield groups of masks for one prompt each: neighbours whose category shows no kind."""
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


def _write_prompt(text: str, places: Sequence[Placeholder]) -> str:
    end, excerpt = max(0, places[0].start - _CONTEXT_CHARS), ""
    for number, place in enumerate(places, start=1):
        excerpt += f"{text[end : place.start]}[[{number}]]"
        end = place.stop
    excerpt += text[end : end + _CONTEXT_CHARS]
    return MODEL_TYPER_PROMPT.format(kinds=", ".join(KINDS), note=excerpt)


def _read_reply(reply: str) -> dict[int, _Answer]:
    """Return the answers of a reply by the number of the mask; the first line for a mask counts.

    Lines that cannot be parsed are ignored.
    """
    answers: dict[int, _Answer] = {}
    for line in _LINE.finditer(reply):
        words = line[2].strip(_MARKS)
        answer = _Answer(find_kind(words))
        if text := _TEXT.match(words):
            answer = replace(answer, text=text[1].strip(_MARKS)[:_MAX_TEXT_CHARS])
        elif not answer.kind and (numbered := _NUMBERED.fullmatch(words)):
            answer = _Answer(find_kind(numbered[1]), number=numbered[2] or "")
        if answer.kind or answer.text:
            answers.setdefault(int(line[1]), answer)
    return answers


TRANSLATION_STEP_PROMPT = (
    "Translate this passage of a clinical note into Japanese. Copy everything between {{ and }} "
    "unchanged. Write only the translation.\n\nPassage:\n"
)
_PASSAGE_CHARS = 1500
_PARAGRAPH = re.compile(r".*?(?:\n[ \t]*\n+|\n|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Translation:
    """A text after the translation; `n_kept` of its `n_passages` passages were not translated."""

    text: str
    n_passages: int
    n_kept: int


def translate_texts(texts: Sequence[str], *, ask: Answerer) -> list[Translation]:
    """Translate texts passage by passage; a passage that loses a placeholder stays as it is."""
    pieces = [_split_passages(text) for text in texts]
    passages = [piece.strip() for note_pieces in pieces for piece in note_pieces if piece.strip()]
    replies = iter(ask([TRANSLATION_STEP_PROMPT + passage for passage in passages]))
    translations = []
    for note_pieces in pieces:
        n_asked = n_kept = 0
        for j, piece in enumerate(note_pieces):
            if passage := piece.strip():
                n_asked += 1
                answer = next(replies).strip()
                if answer and _sorted_marks(answer) == _sorted_marks(passage):
                    note_pieces[j] = piece.replace(passage, answer)
                else:
                    n_kept += 1
        translations.append(Translation("".join(note_pieces), n_asked, n_kept))
    return translations


def _split_passages(text: str) -> list[str]:
    """Split a text into pieces of some 1,500 characters that end at line ends.

    The joined pieces are the text. A longer line is one piece.
    """
    pieces = [""]
    for part in _PARAGRAPH.findall(text):
        if pieces[-1] and len(pieces[-1]) + len(part) > _PASSAGE_CHARS:
            pieces.append("")
        pieces[-1] += part
    return pieces


def _sorted_marks(text: str) -> list[str]:
    return sorted(match[0] for match in _MARK.finditer(text))
