"""A patient's birth date is found in every written form by both commands that take a register."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from audit.cli import main
from audit.deid.find.rules import RuleTagger
from audit.deid.redact.release import Release
from audit.deid.sets.tagging import tag_notes
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from audit.notes.patterns import fold_characters
from audit.notes.read import open_notes
from audit.patients.births import BirthFinder, read_birth
from audit.patients.register import read_register
from tests.corpus.make_notes import lines

SHOWA, HEISEI, REIWA, TAISHO = (
    date(1951, 8, 4),
    date(1989, 1, 8),
    date(2019, 5, 21),
    date(1920, 11, 13),
)
FORMS = {
    SHOWA: (
        "昭和26年8月4日",
        "昭和26年08月04日",
        "昭和２６年８月４日",
        "昭和二十六年八月四日",
        "昭和廿六年八月四日",
        "昭和 26年 8月 4日",
        "昭和26年\n8月4日",
        "昭和26.8.4",
        "昭和26／8／4",
        "昭26.8.4",
        "昭和二六・八・四",
        "㍼26年8月4日",
        "S26.8.4",
        "S26/8/4",
        "S26-08-04",
        "Ｓ２６．８．４",
        "S.26.8.4",
        "(S)26.8.4",
        "s26.8.4",
        "S26年8月4日",
        "S260804",
        "1951年8月4日",
        "１９５１年８月４日",
        "1951年08月04日",
        "1951年8月4日(金)",
        "1951(昭和26)年8月4日",
        "昭和26年（1951年）8月4日",
        "1951年/昭和26年8月4日",
        "一九五一年八月四日",
        "千九百五十一年八月四日",
        "51年8月4日",
        "26年8月4日",
        "8月4日1951年",
        "1951/08/04",
        "1951-8-4",
        "1951.8.4",
        "1951・8・4",
        "1951 08 04",
        "1951_08_04",
        "1951:08:04",
        "１９５１／０８／０４",
        "4−8−1951",
        "19510804",
        "510804",
        "080451",
        "08041951",
        "1951-0804",
        "51/8/4",
        "51-08-04",
        "8/4/51",
        "08/04/1951",
        "8-4-1951",
        "8 / 4 / 1951",
        "4/8/1951",
        "4.8.1951",
        "04.08.51",
        "August 4, 1951",
        "August 4th, 1951",
        "AUG 4, 1951",
        "august 4 1951",
        "Aug. 4, 1951",
        "Aug 4 1951",
        "Aug 4, '51",
        "Aug/04/1951",
        "August  4,\n1951",
        "4 August 1951",
        "4 Aug 1951",
        "4th of August 1951",
        "the 4th August, 1951",
        "4th day of August, in the year 1951",
        "04-AUG-1951",
        "4-Aug-51",
        "04AUG1951",
        "1951 Aug 4",
        "1951, August 4",
        "4.VIII.1951",
        "Showa 26, August 4",
        "August fourth, 1951",
        "the fourth of August, nineteen fifty-one",
        "Saturday, August 4, 1951",
        "Ａｕｇｕｓｔ ４， １９５１",
        "August 1951",
        "1951年8月",
        "1951-08",
        "8/1951",
    ),
    HEISEI: (
        "平成元年1月8日",
        "平成1年1月8日",
        "平元.1.8",
        "H1.1.8",
        "H01.01.08",
        "平成元年一月八日",
        "元年1月8日",
        "Heisei 1, Jan 8",
        "January 8th, 1989",
        "昭和64年1月8日",
    ),
    REIWA: (
        "令和元年5月21日",
        "令和1年5月21日",
        "２０１９年５月２１日",
        "令1.5.21",
        "R1.5.21",
        "㋿元年5月21日",
        "21 May 2019",
        "May twenty-first, two thousand nineteen",
    ),
    TAISHO: (
        "大正9年11月13日",
        "大正九年十一月十三日",
        "大9.11.13",
        "T9.11.13",
        "13 Nov 20",
        "Nov. 13th, 1920",
    ),
}
CUED = (
    "born in 1951",
    "Born: 1951",
    "DOB 8 4 51",
    "DOB Aug 4",
    "birthday: 8/4",
    "born Aug '51",
    "1951年生まれ",
    "昭和26年生",
    "8月4日生まれ",
    "誕生日は8月4日",
    "生年月日 S26.8",
    "(b. 1951)",
)
OTHER_DAYS = (
    "1951-08-05",
    "8/5/51",
    "August 14, 1951",
    "14 August 1951",
    "昭和26年8月14日",
    "S27.8.4",
    "H26.8.4",
    "1951年8月5日",
    "18/4/51",
    "8/4/515",
    "12/8/4/51",
    "1951-08-045",
    "1234510804",
    "in 1951 already",
    "on August 4",
    "8月4日に再診",
    "126/51, HR 84",
    "DOB 1952-08-04",
)
CASES = [(day, form) for day, forms in FORMS.items() for form in forms]


class NoTagger(RuleTagger):
    """Finds nothing, so that what is found is the register's."""

    def tag(self, texts):  # type: ignore[no-untyped-def]
        return [() for _ in texts]


def note_of(form: str) -> str:
    return f"Note: {form} was read, 以上。\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Return notes of a patient for each day, in each form of it, a register, an empty folder."""
    folder = tmp_path_factory.mktemp("births")
    rows = [f"{day},Wilma,Ashcombe,{day}" for day in FORMS]
    register = folder / "register.csv"
    register.write_text("patient_id,first_name,last_name,birth_date\n" + "\n".join(rows) + "\n")
    notes = folder / "notes.jsonl"
    rows = [json.dumps({"patient_id": str(day), "text": note_of(form)}) for day, form in CASES]
    notes.write_text("\n".join(rows) + "\n")
    return notes, register, folder


def test_there_are_forms_enough_in_both_languages() -> None:
    forms = [form for _, form in CASES]
    n_english = sum(any("a" <= char <= "z" for char in form.lower()) for form in forms)
    n_japanese = sum(any("\u3000" < char < "\ua000" for char in form) for form in forms)
    assert len({*CASES}) == len(CASES) >= 100 and min(n_english, n_japanese) >= 40


def test_a_corpus_has_no_form_of_the_own_birth_date(
    files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, register, folder = files
    monkeypatch.setenv(HOME_VARIABLE, str(folder / "home"))
    out = folder / "corpus"
    words = ("--notes", notes, "--register", register, "--out", out)
    assert main(["corpus", "build", *map(str, words)]) == 0
    public = [line["text"] for line in lines(out / "public.jsonl")]
    left = [
        form
        for (_, form), text in zip(CASES, public, strict=True)
        if text not in (note_of("[DATE]"), note_of("[生年月日]"), note_of("the [DATE]"))
    ]
    assert left == []
    private = [line["text"] for line in lines(out / "private.jsonl")]
    assert private == [note_of(form) for _, form in CASES]


def test_tagged_notes_have_no_form_of_the_own_birth_date(
    files: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes, register, folder = files
    monkeypatch.setenv(HOME_VARIABLE, str(folder / "home"))
    out = folder / "tagged"
    words = ("--tagger", "rules", "--notes", notes, "--register", register, "--out", out)
    assert main(["deid", "tag", *map(str, words)]) == 0
    tagged = lines(out / "spans.jsonl")
    assert [
        form
        for (_, form), note in zip(CASES, tagged, strict=True)
        if not any(
            span["start"] <= 6 + (4 if form.startswith("the ") else 0)
            and span["end"] >= 6 + len(form)
            for span in note["spans"]
        )
    ] == []
    # The register alone finds them, and nothing beside them.
    tag_notes(
        open_notes(notes),
        tagger=NoTagger(),
        folder=folder / "alone",
        release=Release(),
        register=read_register(register),
    )
    tagged = lines(folder / "alone" / "spans.jsonl")
    texts = [
        [note["text"][span["start"] : span["end"]] for span in note["spans"]] for note in tagged
    ]
    assert texts == [[form.removeprefix("the ")] for _, form in CASES]


def finds(text: str) -> list[str]:
    return [text[start:stop] for start, stop in BirthFinder({SHOWA}).find(fold_characters(text))]


@pytest.mark.parametrize("text", CUED)
def test_a_part_of_the_day_is_found_beside_a_cue_alone(text: str) -> None:
    (place,) = {max(finds(f"x {text}."), key=len)}
    assert any(char.isdigit() for char in place) and place in text
    assert not any(char.isdigit() for char in text.replace(place, ""))
    assert finds(f"x {place} y") == [] or "'" in place  # whose apostrophe says a year


@pytest.mark.parametrize("text", OTHER_DAYS)
def test_other_days_stay(text: str) -> None:
    assert finds(text) == finds(f"前{text}後") == []


@pytest.mark.parametrize(
    ("cell", "days"),
    [
        ("1951-08-04", {SHOWA}),
        ("1951-08-04 00:00:00", {SHOWA}),
        ("1951/8/4", {SHOWA}),
        ("昭和26年8月4日", {SHOWA}),
        ("S26.8.4", {SHOWA}),
        ("Ｓ２６．８．４", {SHOWA}),
        ("19510804", {SHOWA}),
        ("04/08/1951", {SHOWA, date(1951, 4, 8)}),
        ("August 4, 1951", {SHOWA}),
        ("4-AUG-1951", {SHOWA}),
        ("31.12.1960", {date(1960, 12, 31)}),
        ("平成元年1月8日", {HEISEI}),
        ("51/8/4", set()),
        ("soon", set()),
        ("1951-02-30", set()),
        ("1951", set()),
        ("", set()),
        ("4 Aug 51", set()),
        ("1951-08-0412", set()),
    ],
)
def test_a_register_has_birth_dates_with_a_century_or_an_era(cell: str, days: set[date]) -> None:
    assert read_birth(cell) == days


def test_both_commands_refuse_the_same_register(tmp_path: Path) -> None:
    notes, register = tmp_path / "notes.jsonl", tmp_path / "register.csv"
    notes.write_text('{"patient_id": "1", "text": "Seen."}\n')
    for rows, words in (
        ("patient_id,first_name,last_name,shoe\n1,Wilma,Ashcombe,9\n", "not understood: 4"),
        ("patient_id,name,dob\n1,Wilma Ashcombe,soon\n", "birth date cannot be understood"),
        ("patient_id,name\n,Wilma Ashcombe\n", "no number of a patient"),
        (f"patient_id,name\n1,{'x' * 201}\n", "longer than 200 characters"),
        ("first_name,last_name\nWilma,Ashcombe\n", "one column for the patient's number"),
    ):
        register.write_text(rows)
        for command in (("corpus", "build"), ("deid", "tag", "--tagger", "rules")):
            out = tmp_path / "out"
            with pytest.raises(AuditError, match=words) as refused:
                _run(*command, "--notes", notes, "--register", register, "--out", out)
            assert "Ashcombe" not in str(refused.value) and not out.exists()


def _run(*words: object) -> None:
    from audit.cli.command_line import call_command

    call_command([*map(str, words)])
