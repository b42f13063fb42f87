"""Types masks with a local language model: the prompt, and the reading of its answer.

Comes in: notes with masks, and a function that answers prompts. Goes out: an answer for each mask;
where the model gives none that is understood, the rules' answer stands.

Source: paper 002, section 2.1, steps 1 and 2 (the paper's own prompt is in its appendix B).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from audit.deid.patterns import pattern_table
from audit.names.people import label_of
from audit.notes.placeholders import BLANK, NAME_KINDS, Placeholder, find_placeholders

PATIENT, FAMILY, STAFF, OTHER = "patient", "family", "staff", "other"
_ROLE_NAMES = {
    PATIENT: "Patient", FAMILY: "Family Member", STAFF: "Physician", OTHER: "Other Person",
}  # fmt: skip
_FORM_NAMES = {
    "full": "Name", "reversed": "Name Reversed", "surname": "Surname", "given": "Given Name",
    "initials": "Initials", "kana": "Name Kana", "half_kana": "Name Half Kana",
    "hiragana": "Name Hiragana", "romaji": "Name Romaji",
}  # fmt: skip


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


_, _TABLE = pattern_table("masks.txt", numbers="")
_NONE = "no personal information"


def _all_kinds() -> Iterator[MaskKind]:
    for role, who in _ROLE_NAMES.items():
        for form, what in _FORM_NAMES.items():
            label = label_of("joined" if form == "full" else form)
            yield MaskKind(f"{who} {what}", form, role, label)
    for label, entries in _TABLE.items():
        for entry, _ in entries if label != "names" else ():
            name, value = entry.split(" | ")
            yield MaskKind(name, value, "", "" if label == _NONE else label)


KINDS: dict[str, MaskKind] = {kind.name: kind for kind in _all_kinds()}
"""By their names."""


def _folded(name: str) -> str:
    text = unicodedata.normalize("NFKC", name).casefold().replace("_", " ")
    return " ".join(text.split())


_BY_NAME = {_folded(name): kind for name, kind in KINDS.items()}
_BY_NAME |= {
    _folded(other): KINDS[entry.partition(" | ")[0]]
    for entries in _TABLE.values()
    for entry, others in entries
    for other in others.split(",")
    if other
}


def known_kind(name: str) -> MaskKind | None:
    """Return the kind of a name, English or Japanese, in any case; None where there is none."""
    return KINDS.get(name) or _BY_NAME.get(_folded(name))


def kind_for(value: str, *, role: str = "") -> MaskKind | None:
    """Return the kind of a value, and of a role if it is a name's."""
    return _BY_VALUE.get((value, role))


_BY_VALUE: dict[tuple[str, str], MaskKind] = {}
for _kind in KINDS.values():
    _BY_VALUE.setdefault((_kind.value, _kind.role), _kind)


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
    return "{{" in text and any(mark.kind is not None for mark in find_marks(text))


def find_marks(text: str) -> tuple[Mark, ...]:
    """Return the typed placeholders of a text, in order, those of unknown names too."""
    if "{{" not in text:
        return ()
    return tuple(
        Mark(
            *match.span(),
            known_kind(match["name"]),
            match["number"] or "",
            match["sex"] or "",
            match["content"],
        )
        for match in _MARK.finditer(text)
    )


def mark_text(
    kind: MaskKind, *, number: str = "", sex: str = "", content: str | None = None
) -> str:
    """Return a typed placeholder as text."""
    if content is not None and (len(content) > 200 or "{" in content or "}" in content):
        raise ValueError("this content cannot be written into a placeholder")
    words = " ".join(part for part in (kind.name, number, sex) if part)
    return "{{" + words + ("" if content is None else f"|{content}") + "}}"


OVER_89 = "over 89"
_WINDOW = 60
_FORMS = {"first": "given", "last": "surname", "full": "full", "initial": "initials"}
_VALUES = {
    "zipcode": "postcode", "phone": "telephone", "ssn": "my_number",
    "medical_record_number": "record_number", "clip_number": "identifier",
    "job_number": "identifier", "university": "school", "age_over_90": "age",
}  # fmt: skip
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

    `kind` is None where it is not known, or where `text` tells what the note says there: for masks
    that are no personal information. `number` and `sex` as in `Mark`.
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
        return [
            tuple(_mask_types_answer(note.text, place) for place in note.places) for note in notes
        ]


def masked_note(text: str, *, has_blanks: bool) -> MaskedNote:
    """Return a note with the masks that are to be typed; typed placeholders are none of them."""
    return MaskedNote(text, find_placeholders(text, has_blanks=has_blanks).places)


def _mask_types_answer(text: str, place: Placeholder) -> MaskAnswer:
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
        if groups and groups[-1][0][-1].group == place.group >= 0:
            whole = _whole_name(groups[-1][1], answer)
            if whole is not None:
                groups[-1] = ([*groups[-1][0], place], whole)
                continue
        groups.append(([place], answer))
    return groups


_WHOLE = {
    ("given", "surname"): "full", ("given", "initials"): "given", ("full", "initials"): "full",
    ("surname", "given"): "reversed", ("reversed", "initials"): "reversed",
}  # fmt: skip
"""Two neighbours that name one person, and what they are together."""


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


Answerer = Callable[[Sequence[str]], list[str]]
"""Answers prompts, one for one: a local causal language model, or a test's function."""

TRANSLATION_STEP_PROMPT = (
    "Translate this passage of a clinical note into Japanese. Copy everything between {{ and }} "
    "unchanged. Write only the translation.\n\nPassage:\n"
)
_PASSAGE_CHARS = 1500
_BREAK = re.compile(r"\n[ \t]*\n+|\n")


@dataclass(frozen=True)
class Translated:
    """A text after the step: `n_kept` of its `n_passages` passages stayed as they were."""

    text: str
    n_passages: int
    n_kept: int


class Translator(Protocol):
    """Translates notes; placeholders stay."""

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """Return each text translated."""
        ...


class NoTranslation:
    """Leaves notes in their language."""

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """Return each text as it is."""
        return [Translated(text, 0, 0) for text in texts]


class ModelTranslation:
    """Translates passage by passage with a language model."""

    def __init__(self, answers: Answerer) -> None:
        self._answers = answers

    def translate(self, texts: Sequence[str]) -> list[Translated]:
        """Return each text with those passages translated that keep their placeholders."""
        pieces = [passages(text) for text in texts]
        places = [(i, j) for i, one in enumerate(pieces) for j, p in enumerate(one) if p.strip()]
        prompts = [TRANSLATION_STEP_PROMPT + pieces[i][j].strip() for i, j in places]
        n_kept = [0] * len(texts)
        for (i, j), answer in zip(places, self._answers(prompts), strict=True):
            passage = pieces[i][j]
            if _marks(answer) == _marks(passage) and answer.strip():
                head = passage[: len(passage) - len(passage.lstrip())]
                tail = passage[len(passage.rstrip()) :]
                pieces[i][j] = head + answer.strip() + tail
            else:
                n_kept[i] += 1
        n_asked = [sum(place[0] == i for place in places) for i in range(len(texts))]
        return [
            Translated("".join(one), n, kept)
            for one, n, kept in zip(pieces, n_asked, n_kept, strict=True)
        ]


def passages(text: str) -> list[str]:
    """Return a text in pieces of some 1,500 characters that end at line ends; joined they are it.

    A longer line is one piece.
    """
    pieces: list[str] = []
    start = end = 0
    for match in _BREAK.finditer(text):
        if match.end() - start > _PASSAGE_CHARS and end > start:
            pieces.append(text[start:end])
            start = end
        end = match.end()
    if len(text) - start > _PASSAGE_CHARS and end > start:
        pieces.append(text[start:end])
        start = end
    if start < len(text):
        pieces.append(text[start:])
    return pieces


def _marks(text: str) -> list[str]:
    return sorted(text[mark.start : mark.stop] for mark in find_marks(text))


_CONTEXT_CHARS = 240
_MAX_MASKS = 40
_MAX_TEXT_CHARS = 80
MODEL_TYPER_PROMPT = (
    "Parts of a clinical note were masked. Each mask is written [[1]], [[2]] and so on. Say for "
    "each mask what stood there, one line each, as in\n1: Patient Name\n2: TEXT 7.4\n"
    "Use TEXT with a fitting value where it was no personal information (a laboratory value). "
    "Put a number behind a name to tell two people apart, as in Physician Name 2. "
    "Write only such lines, with these names: {kinds}.\n\nNote:\n{note}\n\nMasks:\n"
)
_LINE = re.compile(r"^\W{0,4}(\d{1,3})\W{0,3}\s*[:：.)]\s*(.{1,200}?)\s*$", re.MULTILINE)
_TEXT = re.compile(r"text\b\s*[:：]?\s*(.*)$", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*?)\s*(\d{1,3})?$", re.DOTALL)
_MARKS = "{}[]<>*`'\" "


@dataclass(frozen=True)
class _Question:
    """A stretch of a note: which masks of it are asked for, and the prompt."""

    note: int
    places: tuple[int, ...]
    prompt: str


class ModelTyper:
    """Types masks by a language model's reading, and by rules where it does not answer.

    `n_asked` masks the model was asked about, `n_answered` have an answer that was understood.
    """

    def __init__(self, answers: Answerer) -> None:
        self._answers = answers
        self._rules = RuleTyper()
        self.n_asked = self.n_answered = 0

    def types(self, notes: Sequence[MaskedNote]) -> list[tuple[MaskAnswer, ...]]:
        """Return for each note one answer for each of its masks."""
        found = [list(answers) for answers in self._rules.types(notes)]
        questions = [one for i, note in enumerate(notes) for one in _questions(note, i)]
        replies = self._answers([question.prompt for question in questions])
        for question, reply in zip(questions, replies, strict=True):
            read = read_answer(reply)
            self.n_asked += len(question.places)
            for number, place in enumerate(question.places, start=1):
                if number in read:
                    self.n_answered += 1
                    found[question.note][place] = read[number]
        return [tuple(answers) for answers in found]


def read_answer(reply: str) -> dict[int, MaskAnswer]:
    """Return what a reply says of each mask, by its number; the first line for a mask counts.

    Lines that are not understood are left out.
    """
    found: dict[int, MaskAnswer] = {}
    for line in _LINE.finditer(reply):
        answer = _model_typer_answer(line[2].strip(_MARKS))
        if answer is not None:
            found.setdefault(int(line[1]), answer)
    return found


def _model_typer_answer(words: str) -> MaskAnswer | None:
    text = _TEXT.match(words)
    if text:
        value = text[1].strip(_MARKS)[:_MAX_TEXT_CHARS]
        return MaskAnswer(None, text=value) if value else None
    numbered = _NUMBERED.fullmatch(words)
    kind = known_kind(words)
    if kind is not None or numbered is None:
        return None if kind is None else MaskAnswer(kind)
    kind = known_kind(numbered[1])
    return None if kind is None else MaskAnswer(kind, number=numbered[2] or "")


def _questions(note: MaskedNote, number: int) -> Iterator[_Question]:
    # Only what no category tells is asked for; far apart masks are asked for apart.
    asked = [i for i, p in enumerate(note.places) if p.category == BLANK or p.kind == "unknown"]
    group: list[int] = []
    for i in asked:
        is_far = group and note.places[i].start - note.places[group[-1]].stop > 2 * _CONTEXT_CHARS
        if group and (is_far or len(group) == _MAX_MASKS):
            yield _Question(number, tuple(group), _prompt(note, group))
            group = []
        group.append(i)
    if group:
        yield _Question(number, tuple(group), _prompt(note, group))


def _prompt(note: MaskedNote, group: Sequence[int]) -> str:
    first, last = note.places[group[0]], note.places[group[-1]]
    done = max(0, first.start - _CONTEXT_CHARS)
    pieces = []
    for number, i in enumerate(group, start=1):
        place = note.places[i]
        pieces += [note.text[done : place.start], f"[[{number}]]"]
        done = place.stop
    pieces.append(note.text[done : last.stop + _CONTEXT_CHARS])
    return MODEL_TYPER_PROMPT.format(kinds=", ".join(KINDS), note="".join(pieces))
