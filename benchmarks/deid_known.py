"""What a register, and names found once, find in generated notes; and what is marked wrongly.

python -m benchmarks.deid_known [--patients 100] [--taggers rules default] [--misses FILE.jsonl]

Notes of invented patients name them in every form: of each patient one note introduces the name
behind a cue, in the others its parts stand alone. They are tagged without and with a register of
the patients. Wrongly marked is what the same patients' knowledge marks in notes and sentences that
are about nobody of them (tests/deid: the hand-written notes, clinical values), outside of what is
personal there.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from audit.deid.find.known_names import add_known_names, read_certain_names
from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import DEFAULT, RULES, load_tagger
from audit.deid.redact.release import Release
from audit.deid.sets.tagging import tag_notes
from audit.names.people import (
    ENGLISH,
    JAPANESE,
    Identity,
    Profile,
    identity_of,
    name_of,
    write_name,
)
from audit.notes.dates import format_date
from audit.notes.formats import read_text
from audit.notes.read import open_notes
from audit.notes.spans import TaggedDocument
from audit.patients.register import PatientRegister, read_register
from audit.tables import write_table
from tests.deid.unseen_notes import N_NOTES, clinical_sentences, marked, unseen

SEED = 20
_ON = date(2024, 5, 1)
COLUMNS = (
    "patient_id",
    "last_name",
    "first_name",
    "middle_name",
    "name_kana",
    "name_romaji",
    "birth_date",
    "address",
    "telephone",
    "mrn",
    "insurance_number",
    "relatives",
)
_ENGLISH = (
    "Patient: ⟦full⟧   MRN: ⟦record⟧   DOB: ⟦birth⟧\nMs. ⟦surname⟧ was seen with her daughter "
    "⟦relative⟧. Follow up in two weeks.\n",
    "Spoke with ⟦given⟧ today. ⟦surname⟧ reports less pain; ⟦possessive⟧ wound is dry. She "
    "may return. Will call. Seen by ⟦initials⟧, discussed with ⟦reversed⟧.\n",
    "⟦capitals⟧ CALLED. ⟦small⟧ slept well, per ⟦initial_surname⟧. Born ⟦long_birth⟧, lives at "
    "⟦address⟧, home ⟦telephone⟧ or ⟦dots⟧. Record ⟦spaced_record⟧, plan ⟦insured⟧. White count "
    "9.1, rose colored urine, no burns.\n",
)
_JAPANESE = (
    "氏名：⟦full⟧（⟦kana⟧）　ID：⟦record⟧　生年月日：⟦birth⟧\n"
    "⟦surname⟧さんは長女の⟦relative⟧さんと来院。\n",
    "⟦surname⟧は昨日より発熱。⟦given⟧くんと呼ばれて応答あり。⟦spaced⟧、⟦half_kana⟧、⟦romaji⟧。"
    "森林浴を好む。原因は不明。\n",
    "⟦initials⟧氏、⟦surname⟧様。⟦hiragana⟧。生年月日は⟦long_birth⟧。住所は⟦address⟧、電話⟦telephone⟧"
    "（⟦dots⟧）。診察券⟦spaced_record⟧、被保険者番号⟦insured⟧。川崎病、橋本病の既往なし。\n",
)


def forms_of(person: Identity, relative: str) -> dict[str, str]:
    """Return what stands at each place of a note."""
    name, values = person.name, person.values
    is_japanese = name.locale == JAPANESE
    surname, given_name = name.surname.native, name.given_name.native
    record, telephone = values["record_number"], values["telephone"]
    month = person.birth.strftime("%B")
    forms = {
        form: write_name(name, form)
        for form in (
            "kana",
            "half_kana",
            "hiragana",
            "romaji",
            "initials",
            "reversed",
            "surname",
            "given",
        )
    }
    return forms | {
        "full": surname + given_name if is_japanese else write_name(name, "middle"),
        "spaced": f"{surname}　{given_name}",
        "possessive": surname if surname.endswith("s") else f"{surname}'s",
        "capitals": f"{surname}, {given_name}".upper(),
        "small": surname.lower(),
        "initial_surname": f"{given_name[0]}. {surname}",
        "relative": relative,
        "initials": forms["initials"] if is_japanese else f"{given_name[0]}.{surname[0]}.",
        "birth": format_date(person.birth, style="era")
        if is_japanese
        else f"{person.birth:%m/%d/%Y}",
        "long_birth": format_date(person.birth, style="wide")
        if is_japanese
        else f"{month} {person.birth.day}, {person.birth.year}",
        "address": values["address"],
        "telephone": telephone,
        "dots": telephone.replace("-", ".").replace("(", "").replace(") ", "."),
        "record": record,
        "spaced_record": f"{record[:3]}-{record[3:]}",
        "insured": values["insured"],
    }


def patients(locale: str, n: int) -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """Yield number, forms, and the row in the register of invented patients."""
    for place in range(n):
        key = f"{locale}-{place:05d}"
        person = identity_of(SEED, key, Profile("F", None, _ON), locale=locale)
        daughter = name_of(SEED, f"{key} daughter", sex="F", birth_year=1985, locale=locale)
        relative = daughter.given_name.native
        forms = forms_of(person, relative)
        row = [
            key,
            person.name.surname.native,
            person.name.given_name.native,
            person.name.middle,
            write_name(person.name, "kana") if locale == JAPANESE else "",
            forms["romaji"] if locale == JAPANESE else "",
            person.birth.isoformat(),
            forms["address"],
            forms["telephone"],
            forms["record"],
            forms["insured"],
            f"daughter: {relative}" if locale == ENGLISH else f"長女：{relative}",
        ]
        yield key, forms, row


NAMES = (
    "full",
    "spaced",
    "reversed",
    "romaji",
    "kana",
    "half_kana",
    "hiragana",
    "capitals",
    "surname",
    "small",
    "possessive",
    "given",
    "initial_surname",
    "initials",
    "relative",
)
OTHERS = (
    "birth",
    "long_birth",
    "address",
    "telephone",
    "dots",
    "record",
    "spaced_record",
    "insured",
)


def write_notes(folder: Path, n: int) -> dict[str, Any]:
    """Write notes and register; return the golds, by name of the note."""
    golds, lines, rows = {}, [], []
    for locale, templates in ((ENGLISH, _ENGLISH), (JAPANESE, _JAPANESE)):
        for key, forms, row in patients(locale, n):
            rows.append(row)
            # The note that introduces the name is not the first: what comes before it counts too.
            for number, template in enumerate((templates[1], templates[0], templates[2])):
                filled = template
                for form, value in forms.items():
                    filled = filled.replace(f"⟦{form}⟧", f"⟦{form}:{value}⟧")
                note = marked(filled, patient=key, doc_id=f"{key}/{number}")
                golds[note.doc_id] = note
                line = {"note_id": note.doc_id, "patient_id": key, "text": note.text}
                lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    (folder / "notes.jsonl").write_text("".join(lines), "utf-8")
    (folder / "register.csv").write_text(write_table(COLUMNS, rows), "utf-8")
    return golds


def main() -> None:
    """Print how many of each form were whole within marks, and what was marked wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--patients", type=int, default=100, help="in each language")
    parser.add_argument("--taggers", nargs="+", default=[RULES, DEFAULT])
    parser.add_argument("--misses", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        golds = write_notes(folder, options.patients)
        register = read_register(folder / "register.csv")
        columns: dict[str, Counter[str]] = {}
        missed: list[str] = []
        for tagger in options.taggers:
            columns[f"{tagger} alone"], _ = counted(golds, alone(tagger, golds.values()))
            for suffix, known_names in (("", None), (" + register", register)):
                out = folder / f"{tagger}{bool(known_names)}"
                tag_notes(
                    open_notes(folder / "notes.jsonl"),
                    tagger=load_tagger(tagger),
                    folder=out,
                    release=Release(),
                    register=known_names,
                )
                text = (out / "spans.jsonl").read_text("utf-8")
                counts, misses = counted(
                    golds, read_text(text, form="jsonl", doc_id="", subject="")
                )
                columns[tagger + suffix] = counts
                missed += [
                    json.dumps([tagger + suffix, *miss], ensure_ascii=False) for miss in misses
                ]
        tell(columns)
        tell_wrong(register)
        for tagger in options.taggers:
            tell_hand_written(tagger)
    if options.misses:
        options.misses.write_text("\n".join(missed), "utf-8")


def alone(tagger: str, golds: Iterable[TaggedDocument]) -> list[TaggedDocument]:
    """Return notes with what a tagger marks, and nothing found again."""
    notes = list(golds)
    tags = tag_and_check(load_tagger(tagger), [note.text for note in notes])
    return [note.with_spans(spans) for note, spans in zip(notes, tags, strict=True)]


def tell_hand_written(tagger: str) -> None:
    """Print what finding names again adds in the hand-written notes, each a patient of its own."""
    for which, language in N_NOTES:
        n_marks = n_right = n_wrong = 0
        golds = unseen(which, language)
        for gold, note in zip(golds, alone(tagger, golds), strict=True):
            tagged_places = {p for span in note.spans for p in range(span.start, span.end)}
            personal = {p for span in gold.spans for p in range(span.start, span.end)}
            again = add_known_names(
                note.text, note.spans, read_certain_names(note.text, note.spans)
            )
            for span in again:
                new = {
                    p for p in range(span.start, span.end) if note.text[p].isalnum()
                } - tagged_places
                n_marks += bool(new)
                n_right += bool(new & personal)
                n_wrong += bool(new and not new & personal)
        print(
            f"{tagger}, {which} {language}: {n_marks} marks made or widened, {n_right} of what "
            f"is personal, {n_wrong} of nobody's"
        )


def counted(
    golds: dict[str, Any], notes: Iterable[TaggedDocument]
) -> tuple[Counter[str], list[list[str]]]:
    """Count the golds that are covered whole, by language and form, and characters of nobody."""
    counts: Counter[str] = Counter()
    misses = []
    for note in notes:
        gold = golds[note.doc_id]
        language = note.doc_id[:2]
        covered = {place for span in note.spans for place in range(span.start, span.end)}
        personal: set[int] = set()
        for span in gold.spans:
            places = [p for p in range(span.start, span.end) if gold.text[p].isalnum()]
            personal.update(range(span.start, span.end))
            is_found = covered.issuperset(p for p in places)
            is_found |= gold.text[span.start : span.end].endswith("'s") and covered.issuperset(
                places[:-1]
            )
            counts[f"{language} {span.label}"] += is_found
            counts[f"{language} {span.label} of"] += 1
            if not is_found:
                misses.append([span.label, gold.text[span.start : span.end], gold.text])
        wrong = [p for p in covered - personal if gold.text[p].isalnum()]
        counts[f"{language} wrong"] += len(wrong)
        counts[f"{language} wrong of"] += sum(
            char.isalnum() and place not in personal for place, char in enumerate(gold.text)
        )
    return counts, misses


def tell(columns: dict[str, Counter[str]]) -> None:
    """Print the table."""
    print("| form |", " | ".join(columns), "|")
    print("|---|" + "---|" * len(columns))
    for language in ("en", "ja"):
        for title, forms in (("names", NAMES), ("others", OTHERS)):
            for form in (*forms, title):
                counted_forms = forms if form == title else (form,)
                cells = []
                for counts in columns.values():
                    n = sum(counts[f"{language} {counted_form}"] for counted_form in counted_forms)
                    n_all = sum(
                        counts[f"{language} {counted_form} of"] for counted_form in counted_forms
                    )
                    cells.append(f"{n} of {n_all}")
                if n_all:
                    print(f"| {language} {form} |", " | ".join(cells), "|")
        cells = [
            f"{counts[f'{language} wrong']} of {counts[f'{language} wrong of']}"
            for counts in columns.values()
        ]
        print(f"| {language} characters of nobody, marked |", " | ".join(cells), "|")


def tell_wrong(register: PatientRegister) -> None:
    """Print what the register marks in texts that are about none of its patients."""
    notes: list[Callable[[], Any]] = [partial(unseen, *name) for name in N_NOTES]
    for locale in ("en", "ja"):
        packs = [pack for key, pack in register.pieces.items() if key.startswith(locale)]
        texts = [text for read_texts in notes for text in read_texts()] + list(clinical_sentences())
        words: Counter[str] = Counter()
        n_marks = n_texts = 0
        for note in texts:
            personal = {
                place
                for span in note.spans
                if span.label != "value"
                for place in range(span.start, span.end)
            }
            for pack in packs:
                n_texts += 1
                for span in add_known_names(note.text, (), pack):
                    if personal.isdisjoint(range(span.start, span.end)):
                        n_marks += 1
                        words[note.text[span.start : span.end]] += 1
        print(
            f"{locale}: {n_marks} marks in {n_texts} pairs of a text and a patient who is not in "
            f"it: {words.most_common(30)}"
        )


if __name__ == "__main__":
    main()
