"""The surrogates of names: parts agree with the full name, sexes with the notes, no true name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.deid.find.rules import RuleTagger
from audit.deid.redact.persons import PatientNames
from audit.deid.redact.release import Release, is_placeholder
from audit.deid.redact.sexes import sex_of_given_name
from audit.deid.sets.tagging import tag_notes
from audit.notes.read import open_notes
from audit.notes.spans import TaggedDocument
from audit.text import fold_letters
from benchmarks.deid_surrogates import examine_notes, generated_notes
from tests.deid.unseen_notes import marked

SEEDS = range(12)


def surrogates(text: str, seed: int, *, names: PatientNames | None = None) -> list[str]:
    """Return what takes the places of the marks of a note."""
    note = marked(text)
    names_of_patient = names.get_names(note.patient_id) if names else None
    release = Release(mode="surrogate", seed=seed)
    return [
        replacement.text
        for replacement in release.redact(note, names=names_of_patient).replacements
    ]


def patient_names(*texts: str) -> PatientNames:
    """Return what the notes of one patient say of names."""
    names = PatientNames()
    for text in texts:
        names.add(marked(text))
    return names


@pytest.mark.long
def test_in_500_notes_parts_agree_sexes_fit_and_no_true_name_is_left() -> None:
    findings = examine_notes(list(generated_notes(500)), release=Release(mode="surrogate", seed=1))
    assert (findings.n_notes, findings.n_names) == (500, 4008)
    assert findings.disagreeing == []
    assert findings.wrong_sex == []
    assert findings.true_names == []
    assert findings.n_placeholders == 0


def test_every_form_of_a_name_has_the_parts_of_one_surrogate() -> None:
    text = (
        "Patient: ⟦I:James Arthur Haddad⟧. ⟦Q:James⟧ did well, ⟦I:Haddad, James⟧ and ⟦I:J. Haddad⟧ "
        "too; ⟦Q:James's⟧ wound; ⟦I:JAMES HADDAD⟧; ⟦Q:haddad⟧; ⟦Q:J.H.⟧; ⟦Q:Arthur⟧; ⟦I:Haddad, J.⟧"
    )
    for seed in SEEDS:
        full, *other_names = surrogates(text, seed)
        given_name, middle, surname = full.split()
        assert other_names == [
            given_name,
            f"{surname}, {given_name}",
            f"{given_name[0]}. {surname}",
            f"{given_name}'s",
            f"{given_name} {surname}".upper(),
            surname.lower(),
            f"{given_name[0]}.{surname[0]}.",
            middle,
            f"{surname}, {given_name[0]}.",
        ]


def test_several_surnames_titles_and_particles() -> None:
    text = (
        "Dr. ⟦I:José García Márquez⟧, Dr. ⟦Q:García⟧, ⟦Q:GARCIA MARQUEZ⟧; Mr. ⟦Q:van Haddad⟧; "
        "⟦I:James Haddad, Jr.⟧, ⟦Q:Haddad⟧"
    )
    for seed in SEEDS:
        full, first, both_names, particle, junior, surname = surrogates(text, seed)
        assert [first, both_names] == [full.split()[1], " ".join(full.split()[1:]).upper()]
        assert particle == surname == junior.split()[1]


def test_a_full_name_of_one_note_tells_the_parts_in_another() -> None:
    first, second = "Patient: ⟦I:James Haddad⟧ rests.", "⟦Q:James⟧ did well. ⟦Q:Haddad⟧ slept."
    names = patient_names(first, second)
    for seed in SEEDS:
        (full,) = surrogates(first, seed, names=names)
        assert surrogates(second, seed, names=names) == full.split()
        alone = surrogates(second, seed)
        assert alone[0] != full.split()[0], "a surname too, as nothing tells more"


@pytest.mark.parametrize("kana", ["ナルミ タカヒサ", "なるみ たかひさ", "ﾅﾙﾐ ﾀｶﾋｻ"])
def test_a_reading_beside_a_name_gets_the_reading_of_its_surrogate(kana: str) -> None:
    text = f"氏名：⟦I:鳴海 鷹久⟧（⟦I:{kana}⟧） ⟦Q:鳴海⟧さん、⟦Q:鷹久⟧さん、⟦I:鳴海鷹久⟧様"
    for seed in SEEDS:
        full, reading, surname, given_name, joined = surrogates(text, seed)
        assert [surname, given_name] == full.split() and joined == surname + given_name
        other_reading = surrogates(text.replace(kana, "ナルミ タカヒサ"), seed)[1]
        assert (reading == other_reading) == (kana == "ナルミ タカヒサ")
        assert fold_letters(
            reading.translate({code: code + 0x60 for code in range(0x3041, 0x3097)})
        ) == fold_letters(other_reading)


def test_whose_part_it_is_that_two_persons_share() -> None:
    # The patient's, whoever is named first; behind a title it is a surname.
    text = (
        "Dr. ⟦I:Ann James⟧ saw patient ⟦I:James Haddad⟧ and his wife ⟦I:Mona Haddad⟧. "
        "⟦Q:James⟧ slept; Dr. ⟦Q:James⟧ agreed; ⟦Q:Haddad⟧."
    )
    for seed in SEEDS:
        doctor, patient, wife, alone, titled, surname = surrogates(text, seed)
        assert alone == patient.split()[0]
        assert titled == doctor.split()[1]
        assert surname == patient.split()[1] == wife.split()[1]


@pytest.mark.parametrize(
    ("text", "sex"),
    [
        ("Patient: ⟦I:Yuki Tanaka⟧, a 64-year-old female with pain.", "F"),
        ("Patient: ⟦I:Yuki Tanaka⟧, a 64-year-old male with pain.", "M"),
        ("Patient: ⟦I:James Tanaka⟧\nSex: Female\nRests.", "F"),
        ("Patient: ⟦I:James Tanaka⟧ (64F) rests.", "F"),
        ("Patient: ⟦I:Mary Tanaka⟧ 64 y/o M with chest pain.", "M"),
        ("Seen today: Mr. ⟦I:Mary Tanaka⟧.", "M"),
        ("⟦I:James Tanaka⟧ was admitted. She was given fluids.", "F"),
        ("Spoke with her son ⟦I:Mary Tanaka⟧ by telephone.", "M"),
        ("Seen by Dr. ⟦I:Mary Tanaka⟧. He was discharged.", "F"),
        ("氏名：⟦I:高橋 健一⟧　性別：女性", "F"),
        ("64歳女性の⟦I:高橋 健一⟧さんが来院。", "F"),
        ("⟦I:高橋 健一⟧さん（♀）が来院。", "F"),
        ("付き添いは長男の⟦I:高橋 美咲⟧さん。", "M"),
        ("氏名：⟦I:高橋 健一⟧ 68歳 女、妻の⟦I:高橋 美咲⟧", "F"),
    ],
)
def test_words_beside_a_name_tell_its_sex_before_the_name_does(text: str, sex: str) -> None:
    for seed in SEEDS:
        name = surrogates(text, seed)[0]
        given_name = name.split()[0] if name.isascii() else name.split()[1]
        assert sex_of_given_name(given_name) in ("", sex), name


def test_no_surrogate_holds_a_true_name_or_stands_within_one() -> None:
    # All surnames that would be drawn first are true names here, in other forms of letters.
    plain = "氏名：⟦I:林 健一⟧様"
    surrogates_drawn = [surrogates(plain, seed)[0] for seed in SEEDS]
    for seed, first in zip(SEEDS, surrogates_drawn, strict=True):
        if is_placeholder(first):
            continue
        surname, given_name = first.split()
        blocked_text = (
            f"{plain} 妻 ⟦I:{surname}村 {given_name}⟧様、⟦Q:{given_name}⟧さん、⟦Q:林⟧さん"
        )
        new_surname, new_given = surrogates(blocked_text, seed)[0].split()
        for part in (new_surname, new_given):
            assert not any(
                true in part or part in true for true in (f"{surname}村", given_name, "林")
            )
    names = [surrogates("Patient: ⟦I:Zoé Quux⟧.", seed)[0].split() for seed in SEEDS]
    for seed, (given_name, surname) in zip(SEEDS, names, strict=True):
        text = (
            f"Patient: ⟦I:Zoé Quux⟧. Dr. ⟦I:{surname.upper()}, Ann⟧, Ms. ⟦Q:Mc{given_name.lower()}⟧"
        )
        new_given, new_surname = surrogates(text, seed)[0].split()
        assert new_surname.lower() not in surname.lower()
        assert new_given.lower() not in given_name.lower()


def test_where_no_surrogate_is_left_there_is_a_placeholder() -> None:
    letters = " ".join(f"Dr. ⟦I:Z{a}{b} Q{a}⟧" for a in "aeiou" for b in "nrlt")
    syllables = " ".join(
        f"Dr. ⟦Q:{a.upper()}{b}⟧" for a in "abcdefghijklmnoprstuvwy" for b in "aeiou"
    )
    values = surrogates(f"Patient: ⟦I:James Haddad⟧. {letters} {syllables}", 1)
    assert values[0] == "[NAME]"


def test_a_release_of_notes_names_a_patient_as_one_person_in_all_of_them(tmp_path: Path) -> None:
    texts = [
        "Mr. James slept well.",
        "Patient: James Haddad\nSex: F\nRests.",
        "Spoke with Mrs. Haddad today, and Haddad, James signed.",
    ]
    source = tmp_path / "notes.jsonl"
    rows = [{"note_id": f"n{i}", "patient_id": "p", "text": text} for i, text in enumerate(texts)]
    source.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    released = []
    for out in ("one", "two"):
        tag_notes(
            open_notes(source),
            tagger=RuleTagger(),
            folder=tmp_path / out,
            release=Release(mode="surrogate", seed=3),
        )
        lines = (tmp_path / out / "redacted.jsonl").read_text("utf-8").splitlines()
        released.append([json.loads(line)["text"] for line in lines])
    assert released[0] == released[1]
    given_name, surname = released[0][1].split("\n")[0].removeprefix("Patient: ").split()
    assert sex_of_given_name(given_name) in ("", "F")
    assert released[0][0] == f"Mr. {given_name} slept well."
    assert released[0][2] == f"Spoke with Mrs. {surname} today, and {surname}, {given_name} signed."


def test_a_note_of_no_patient_tells_its_names_itself() -> None:
    note = marked("Patient: ⟦I:James Haddad⟧. ⟦Q:James⟧ did well.")
    alone = TaggedDocument("n", note.text, note.spans)
    full, part = (
        replacement.text for replacement in Release(mode="surrogate").redact(alone).replacements
    )
    assert part == full.split()[0]
