"""Do the surrogates of a person's name agree, in 500 generated notes, and fit the note?

python -m benchmarks.deid_surrogates [--notes 500] [--show 5]

A note names a patient, a relative and a doctor in full and in parts: given names alone, inverted,
with an initial, possessive, in capitals, in kana. Every other patient has two notes, and only the
first one has full names. All names are marked, so that no tagger decides. One patient in four has
a given name that is usual for the other sex, or for both. Counted are notes in which a part has
another surrogate than the full name, in which a surrogate does not fit the sex that the note
tells, in which a surrogate holds or is held by a true name, and names that became placeholders.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from audit.deid.redact.persons import PatientNames
from audit.deid.redact.release import Release, is_placeholder
from audit.deid.redact.sexes import sex_of_given_name
from audit.names.people import (
    ENGLISH,
    JAPANESE,
    PersonName,
    birth_period,
    given_names,
    half_width,
    name_of,
    surnames,
)
from audit.notes.patterns import IN_KATAKANA
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, Span, TaggedDocument
from audit.text import fold_letters, is_unspaced

SEED = 41
_PLACE = re.compile(r"\[\[(\w+)\.(\w+)\]\]")
_FULL = frozenset(("full", "joined", "inverted", "initial", "capitals", "kana", "hiragana", "half"))
_ENGLISH = (
    "Patient: [[patient.full]]   Sex: {sex}\n[[patient.surname]] is a 64-year-old {noun}. {He} "
    "came with {his} {relative} [[relative.full]]. Seen by Dr. [[doctor.full]].\n",
    "[[patient.given]] did well. [[patient.possessive]] wound is dry. Called [[patient.inverted]]; "
    "[[patient.initial]] agreed. {title} [[patient.surname]] rests.\n[[patient.capitals]] SIGNED. "
    "Spoke with the {relative} [[relative.given]]; Dr. [[doctor.surname]] agreed.\n",
)
_JAPANESE = (
    "氏名：[[patient.full]]（[[patient.kana]]）　性別：{noun}\n[[patient.surname]]さんは"
    "{relative}の[[relative.joined]]さんと来院。主治医は[[doctor.full]]医師。\n",
    "[[patient.given]]さんは落ち着いている。[[patient.joined]]様に説明。[[patient.hiragana]]、"
    "[[patient.half]]。[[patient.surname]]様は了承。{relative}の[[relative.given]]さんに電話。"
    "[[doctor.surname]]先生に報告。\n",
)
_WORDS = {
    (ENGLISH, "M"): {"sex": "M", "noun": "man", "He": "He", "his": "his", "title": "Mr."},
    (ENGLISH, "F"): {"sex": "F", "noun": "woman", "He": "She", "his": "her", "title": "Ms."},
    (JAPANESE, "M"): {"noun": "男性"},
    (JAPANESE, "F"): {"noun": "女性"},
}
_RELATIVES = {
    ENGLISH: {"M": ("son", "brother"), "F": ("daughter", "sister")},
    JAPANESE: {"M": ("長男", "弟"), "F": ("長女", "姉")},
}


@dataclass(frozen=True)
class NamedNote:
    """A note with its names marked: of each mark whose it is, and in which form.

    `sexes` are those that the note tells, by person; `people` their true names.
    """

    document: TaggedDocument
    marks: tuple[tuple[str, str], ...]
    people: dict[str, PersonName]
    sexes: dict[str, str]


@dataclass
class Findings:
    """What is wrong with the surrogates of some notes: the numbers of the notes, by fault."""

    n_notes: int = 0
    n_names: int = 0
    n_placeholders: int = 0
    disagreeing: list[int] = field(default_factory=list)
    wrong_sex: list[int] = field(default_factory=list)
    true_names: list[int] = field(default_factory=list)


def generated_notes(n_notes: int, *, seed: int = SEED) -> Iterator[NamedNote]:
    """Yield notes, English and Japanese in turn; of two notes of a patient one after the other."""
    dice = random.Random(seed)
    n_made = 0
    for number in range(n_notes):
        locale = (ENGLISH, JAPANESE)[number % 2]
        texts = _ENGLISH if locale == ENGLISH else _JAPANESE
        people, sexes, words = _people(number, locale, dice, seed)
        is_split = number % 4 > 1
        for text in texts if is_split else ("".join(texts),):
            if n_made < n_notes:
                yield _note(n_made, text.format_map(words), people, sexes, number)
                n_made += 1


def _people(
    number: int, locale: str, dice: random.Random, seed: int
) -> tuple[dict[str, PersonName], dict[str, str], dict[str, str]]:
    sexes = {"patient": dice.choice("MF"), "relative": dice.choice("MF")}
    people: dict[str, PersonName] = {}
    for role in ("patient", "relative", "doctor"):
        sex = sexes.get(role, dice.choice("MF"))
        if role == "patient" and dice.random() < 0.25:
            sex = "MF"[sex == "M"]
        year = dice.randrange(1940, 2005)
        people[role] = name_of(seed, f"{number} {role}", sex=sex, birth_year=year, locale=locale)
    given_names = people["relative"].given_name
    if dice.random() < 0.75 and given_names != people["patient"].given_name:
        people["relative"] = PersonName(people["patient"].surname, given_names, "", locale)
    relative = dice.choice(_RELATIVES[locale][sexes["relative"]])
    return people, sexes, {**_WORDS[locale, sexes["patient"]], "relative": relative}


def _write_form(name: PersonName, form: str) -> str:
    given_name, surname = name.given_name.native, name.surname.native
    kana = f"{name.surname.kana} {name.given_name.kana}"
    is_japanese = name.locale == JAPANESE
    return {
        "full": f"{surname} {given_name}" if is_japanese else f"{given_name} {surname}",
        "joined": surname + given_name,
        "given": given_name,
        "surname": surname,
        "possessive": f"{given_name}'s",
        "inverted": f"{surname}, {given_name}",
        "initial": f"{given_name[0]}. {surname}",
        "capitals": f"{given_name} {surname}".upper(),
        "kana": kana,
        "hiragana": "".join(chr(ord(c) - 0x60) if "ァ" <= c <= "ヶ" else c for c in kana),
        "half": half_width(kana),
    }[form]


def _note(
    number: int, template: str, people: dict[str, PersonName], sexes: dict[str, str], patient: int
) -> NamedNote:
    text, end = "", 0
    spans, marks = [], []
    for place in _PLACE.finditer(template):
        role, form = place.groups()
        text += template[end : place.start()]
        end = place.end()
        value = _write_form(people[role], form)
        label = IDENTIFIER if form in _FULL else QUASI_IDENTIFIER
        spans.append(Span(len(text), len(text) + len(value), label))
        marks.append((role, form))
        text += value
    document = TaggedDocument(str(number), text + template[end:], tuple(spans), f"p{patient}")
    return NamedNote(document, tuple(marks), people, sexes)


def examine_notes(notes: Sequence[NamedNote], *, release: Release) -> Findings:
    """Release notes, and return what is wrong with their surrogates."""
    names = PatientNames()
    for note in notes:
        names.add(note.document)
    findings = Findings(n_notes=len(notes))
    surrogates: dict[tuple[str, str], tuple[str, str]] = {}
    for number, note in enumerate(notes):
        patient_names = names.get_names(note.document.patient_id)
        replacements = release.redact(note.document, names=patient_names).replacements
        texts = [replacement.text for replacement in replacements]
        findings.n_names += len(texts)
        findings.n_placeholders += sum(map(is_placeholder, texts))
        patient = str(note.document.patient_id)
        for (role, form), text in zip(note.marks, texts, strict=True):
            if form == "full" or (form == "joined" and role == "relative"):
                parts = _parts(text, note, role)
                if parts:
                    surrogates.setdefault((patient, role), parts)
        own_surrogates = {
            role: surrogates[patient, role] for role in note.people if (patient, role) in surrogates
        }
        if not all(
            _agrees(note, mark, text, own_surrogates)
            for mark, text in zip(note.marks, texts, strict=True)
        ):
            findings.disagreeing.append(number)
        if any(
            role in own_surrogates and sex_of_given_name(own_surrogates[role][1]) not in ("", sex)
            for role, sex in note.sexes.items()
        ):
            findings.wrong_sex.append(number)
        if _has_true_name(note, texts):
            findings.true_names.append(number)
    return findings


def _parts(text: str, note: NamedNote, role: str) -> tuple[str, str] | None:
    """Return surname and given name of a full surrogate; None for a placeholder."""
    if is_placeholder(text):
        return None
    if " " in text:
        first, second = text.split(" ", 1)
        return (first, second) if note.people[role].locale == JAPANESE else (second, first)
    kana_splits = [n for n in range(1, len(text)) if _kana_of(text[:n]) and _kana_of(text[n:])]
    return (text[: kana_splits[-1]], text[kana_splits[-1] :]) if kana_splits else (text, "")


def _kana_of(part: str) -> set[str]:
    """Return how a part is read in katakana; nothing where no list has it."""
    kana = part.translate(IN_KATAKANA)
    return {kana} if re.fullmatch("[ァ-ヶー]+", kana) else _readings().get(part, set())


@cache
def _readings() -> dict[str, set[str]]:
    """Return the kana of every Japanese name part."""
    tables = [surnames()]
    tables += [given_names(sex, birth_period(year)) for sex in "MF" for year in (1940, 1960, 2000)]
    readings: dict[str, set[str]] = {}
    for table in tables:
        for part in table.names:
            readings.setdefault(part.native, set()).add(part.kana)
    return readings


def _agrees(
    note: NamedNote, mark: tuple[str, str], text: str, own_surrogates: dict[str, tuple[str, str]]
) -> bool:
    role, form = mark
    if role not in own_surrogates or is_placeholder(text):
        return True
    return any(
        _is_form(text, form, own_surrogates[other_role])
        for other_role in own_surrogates
        if _is_shared(note, role, other_role, form)
    )


def _is_shared(note: NamedNote, role: str, other_role: str, form: str) -> bool:
    """Whether another person of the note has the part of which a mark consists."""
    if role == other_role:
        return True
    part = _write_form(note.people[role], "given" if form == "possessive" else form)
    name = note.people[other_role]
    is_bare = form in ("given", "surname", "possessive")
    return is_bare and part in (name.given_name.native, name.surname.native)


def _is_form(text: str, form: str, surrogate: tuple[str, str]) -> bool:
    surname, given_name = surrogate
    if form in ("kana", "hiragana", "half"):
        kana = text.translate(IN_KATAKANA)
        wide = {
            half_width(kana_part): kana_part for name in surrogate for kana_part in _kana_of(name)
        }
        first, second = (wide.get(kana_part, kana_part) for kana_part in kana.split(" "))
        return first in _kana_of(surname) and second in _kana_of(given_name)
    expected = {
        "full": {f"{surname} {given_name}", f"{given_name} {surname}"},
        "joined": {surname + given_name},
        "given": {surname, given_name},
        "surname": {surname, given_name},
        "possessive": {f"{given_name}'s", f"{surname}'s"},
        "inverted": {f"{surname}, {given_name}"},
        "initial": {f"{given_name[:1]}. {surname}"},
        "capitals": {f"{given_name} {surname}".upper()},
    }[form]
    return text in expected


def _has_true_name(note: NamedNote, texts: Sequence[str]) -> bool:
    """Whether a surrogate holds, or stands within, a part of a name of the note."""
    true_parts = set()
    for role, form in note.marks:
        for part in re.findall(r"[^\s,]+", _write_form(note.people[role], form)):
            true_parts.add(_folded(part.removesuffix("'s")))
    for text in texts:
        if is_placeholder(text):
            continue
        for word in re.findall(r"[^\s,]+", text):
            part = _folded(word.removesuffix("'s"))
            if len(part.strip(".")) > 1 or is_unspaced(part):
                longer = {
                    true_part
                    for true_part in true_parts
                    if len(true_part.strip(".")) > 1 or is_unspaced(true_part)
                }
                if any(true_part in part or part in true_part for true_part in longer):
                    return True
    return False


def _folded(part: str) -> str:
    return fold_letters(part).translate(IN_KATAKANA)


def main() -> None:
    """Print the findings."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--notes", type=int, default=500)
    parser.add_argument("--show", type=int, default=0, help="notes of each fault to print")
    args = parser.parse_args()
    notes = list(generated_notes(args.notes))
    release = Release(mode="surrogate", seed=1)
    findings = examine_notes(notes, release=release)
    print(
        f"{findings.n_notes} notes, {findings.n_names} names, "
        f"{findings.n_placeholders} placeholders"
    )
    for fault in ("disagreeing", "wrong_sex", "true_names"):
        numbers = getattr(findings, fault)
        print(f"{fault}: {len(numbers)}")
        names = PatientNames()
        for note in notes:
            names.add(note.document)
        for number in numbers[: args.show]:
            document = notes[number].document
            print(document.text)
            print(release.redact(document, names=names.get_names(document.patient_id)).text)


if __name__ == "__main__":
    main()
