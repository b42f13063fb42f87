"""What is known of a patient is found in all notes of that patient: by register, or found once."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from audit.deid.find.rules import RuleTagger
from audit.deid.find.taggers import load_tagger
from audit.deid.redact.release import Release
from audit.deid.sets.tagged_sets import tag_text
from audit.deid.sets.tagging import tag_notes
from audit.errors import AuditError
from audit.home import salted_digest
from audit.names.people import JAPANESE, Profile, identity_of, write_name
from audit.notes.read import open_notes
from audit.notes.spans import Span
from audit.patients.register import PatientRegister, read_register
from tests.deid.make_scores import Killed, bytes_of

IDENTIFIER, QUASI, CONTACT = "identifier", "quasi_identifier", "contact"
ENGLISH = (
    "patient_id,first_name,middle_name,last_name,birth_date,address,phone,phone2,mrn,ssn,relatives\n"
    'p1,Wilma,Jane,Ashcombe,1951-08-04,"12 Oak Street, Tarnwick, VT 05099",(617) 555-0142,,'
    "4471902,900-12-3456,Rupert Ashcombe (husband); daughter Ottilie\n"
    "p2,Will,,White,08/04/1951,,,,,,\n"
    "p9,Nobody,,Visited,,,,,,,\n"
)
JAPANESE_ROWS = (
    "患者番号,姓,名,カナ,生年月日,住所,電話番号,カルテ番号,家族\n"
    "j1,高橋,健一,ﾀｶﾊｼ ｹﾝｲﾁ,昭和26年8月4日,東京都港区芝公園4-2-8 コーポ桜201,03-1234-5678,"
    "A0012345,妻：高橋花子、一郎\n"
    "j2,森,誠,モリ マコト,S26.8.4,,,,\n"
)


class Scripted(RuleTagger):
    """Marks the given words in texts, and keeps the texts that it read."""

    def __init__(self, *finds: tuple[str, str], n_left: int = 10**6) -> None:
        super().__init__()
        self.finds, self.n_left, self.read_texts = finds, n_left, list[str]()

    def tag(self, texts):  # type: ignore[no-untyped-def]
        self.n_left -= 1
        if self.n_left < 0:
            raise Killed
        self.read_texts += texts
        return [
            tuple(
                sorted(
                    Span(text.index(find), text.index(find) + len(find), label)
                    for find, label in self.finds
                    if find in text
                )
            )
            for text in texts
        ]


def register_of(tmp_path: Path, content: str = ENGLISH) -> PatientRegister:
    path = tmp_path / "register.csv"
    path.write_text(content, "utf-8")
    return read_register(path)


def tagged(
    tmp_path: Path, notes: Sequence[tuple[str, str]], *, tagger: Any = None, **options: Any
) -> tuple[dict[str, Any], list[list[tuple[str, str]]], list[str]]:
    """Tag notes of (patient, text); return census, marks by note, released texts."""
    path, folder = tmp_path / "notes.jsonl", tmp_path / f"out{len(list(tmp_path.iterdir()))}"
    lines = (
        {"note_id": str(n), "patient_id": patient, "text": text}
        for n, (patient, text) in enumerate(notes)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    release = options.pop("release", Release())
    census = tag_notes(
        open_notes(path), tagger=tagger or Scripted(), folder=folder, release=release, **options
    )
    notes_with_spans = [
        json.loads(line) for line in (folder / "spans.jsonl").read_text("utf-8").splitlines()
    ]
    marks = [
        [(note["text"][span["start"] : span["end"]], span["label"]) for span in note["spans"]]
        for note in notes_with_spans
    ]
    released = (folder / "redacted.jsonl").read_text("utf-8").splitlines()
    return census, marks, [json.loads(line)["text"] for line in released]


KNOWN = {
    "p1": [
        ("Wilma Ashcombe was seen.", IDENTIFIER),
        ("ASHCOMBE, WILMA J. was seen.", IDENTIFIER),
        ("W. Ashcombe, W.J. Ashcombe", IDENTIFIER),
        ("Wilma Jane Ashcombe's wound", IDENTIFIER),
        ("Ashcombe’s wound", QUASI),
        ("ashcombe slept", QUASI),
        ("told WILMA so", QUASI),
        ("by W.A. today", QUASI),
        ("by W.J.A. today", QUASI),
        ("Ｗｉｌｍａ came", QUASI),
        ("Rupert called", QUASI),
        ("Ottilie called", QUASI),
        ("Rupert Ashcombe", IDENTIFIER),
        ("lives at 12 oak st., Tarnwick", QUASI),
        ("on Oak Street", QUASI),
        ("in Tarnwick", QUASI),
        ("zip 05099", QUASI),
        ("617.555.0142", CONTACT),
        ("+1 617 555 0142", CONTACT),
        ("call 555-0142", CONTACT),
        ("born August 4, 1951", QUASI),
        ("born 8/4/51", QUASI),
        ("born 4-AUG-1951", QUASI),
        ("MRN 447-1902", "linkage_code"),
        ("900 12 3456", "personal_id_code"),
        ("mail of Wilma_Ashcombe2", QUASI),
    ],
    "j1": [
        ("高橋健一は入院", IDENTIFIER),
        ("高橋　健一", IDENTIFIER),
        ("健一，高橋", IDENTIFIER),
        ("髙橋は入院", QUASI),
        ("主治医と高橋", QUASI),
        ("健一は入院", QUASI),
        ("ﾀｶﾊｼ ｹﾝｲﾁ", IDENTIFIER),
        ("たかはし けんいち", IDENTIFIER),
        ("タカハシケンイチ", IDENTIFIER),
        ("Ｔ．Ｋ．氏", QUASI),
        ("K.T.は", QUASI),
        ("妻花子が", QUASI),
        ("一郎と来院", QUASI),
        ("港区芝公園４丁目２番８号", QUASI),
        ("コーポ桜201に", QUASI),
        ("０３（１２３４）５６７８", CONTACT),
        ("+81-3-1234-5678", CONTACT),
        ("S26.8.4生", QUASI),
        ("1951(昭和26)年 8月 4日", QUASI),
        ("昭和二十六年八月四日", QUASI),
        ("1951/08/04", QUASI),
        ("A 0012345", "linkage_code"),
    ],
}


@pytest.mark.parametrize("patient", KNOWN)
def test_what_a_register_knows_is_found_however_it_is_written(tmp_path: Path, patient: str) -> None:
    register = register_of(tmp_path, ENGLISH if patient[0] == "p" else JAPANESE_ROWS)
    notes = [(patient, f"。{text}.") for text, _ in KNOWN[patient]]
    census, marks, released = tagged(tmp_path, notes, register=register)
    assert [bool(note_marks) and note_marks[0][1] for note_marks in marks] == [
        label for _, label in KNOWN[patient]
    ]
    secrets = (
        "ashcombe",
        "wilma",
        "oak",
        "0142",
        "1951",
        "900",
        "高橋",
        "健一",
        "花子",
        "5678",
        "桜",
    )
    assert not [text for text in released if any(secret in text.lower() for secret in secrets)]
    assert census["n_found_again"] == sum(map(len, marks))
    # Of another patient, and of none, it is nobody's.
    for patient_id in ("p2", ""):
        _, marks, _ = tagged(tmp_path, [(patient_id, text) for _, text in notes], register=register)
        assert not any(marks) or {text for note_marks in marks for text, _ in note_marks} <= {
            "August 4, 1951",
            "8/4/51",
            "4-AUG-1951",
        }


def test_words_of_the_language_are_names_only_where_something_says_so(tmp_path: Path) -> None:
    register = register_of(tmp_path, ENGLISH)
    texts = {
        "White count 9. She will return, WILL CALL, rose-colored; white stool.": [],
        "Mr. White will return.": [("White", QUASI)],
        "Seen by White today.": [("White", QUASI)],
        "Will White, WHITE, WILL": [("Will White", IDENTIFIER), ("WHITE, WILL", IDENTIFIER)],
        "will white is a 70 year old": [("will white", IDENTIFIER)],
    }
    _, marks, _ = tagged(tmp_path, [("p2", text) for text in texts], register=register)
    assert marks == [*texts.values()]
    register = register_of(tmp_path, JAPANESE_ROWS)
    texts = {
        "森林浴。誠に。実際。原因。": [],
        "森は入院": [("森", QUASI)],
        "誠くん、森様": [("誠", QUASI), ("森", QUASI)],
        "森誠、森　誠": [("森誠", IDENTIFIER), ("森　誠", IDENTIFIER)],
    }
    _, marks, _ = tagged(tmp_path, [("j2", text) for text in texts], register=register)
    assert marks == [*texts.values()]
    eponyms = (
        "橋本病。川崎病。Parkinson's disease, a Foley catheter, Parkinson was seen. 橋本は退院。"
    )
    rows = "patient_id,surname,given\np,Parkinson,Foley\np,橋本,川崎\n"
    _, ((*marks,),), _ = tagged(tmp_path, [("p", eponyms)], register=register_of(tmp_path, rows))
    assert marks == [("Parkinson", QUASI), ("橋本", QUASI)]


def test_the_fit_of_register_and_notes_is_counted_without_a_name(tmp_path: Path) -> None:
    register = register_of(tmp_path)
    notes = [("p1", "Seen."), ("p1", "Wilma."), ("p2", "Seen."), ("p7", "Wilma."), ("", "Wilma.")]
    census, _, released = tagged(tmp_path, notes, register=register)
    assert census["register"] == {
        "salted_digest": salted_digest(register.digest),
        "n_rows": 3,
        "n_patients": 3,
        "n_patients_without_notes": 1,
        "n_notes_without_row": 2,
    }
    assert released == ["Seen.", "[NAME].", "Seen.", "Wilma.", "Wilma."]
    assert "register" not in tagged(tmp_path, notes)[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("patient_id,first_name,last_name,shoe size\n1,A,B,9\n", "columns are not understood: 4"),
        ("first_name,last_name\nA,B\n", "one column for the patient's number"),
        ("patient_id,sex\n1,M\n", "one column for the patient's number"),
        ("patient_id,name\n,Wilma Ashcombe\n", "row 2.*no number|no number of a patient"),
        ("patient_id,name,dob\n1,Wilma Ashcombe,soon\n", "birth date cannot be understood"),
        ("patient_id,name\n1,Wilma Ashcombe,x\n", "3 cells where the header has 2"),
        ("patient_id,name\n", "no rows"),
    ],
)
def test_what_is_not_understood_is_refused_without_its_text(
    tmp_path: Path, content: str, message: str
) -> None:
    with pytest.raises(AuditError, match=message) as error:
        register_of(tmp_path, content)
    assert "Ashcombe" not in str(error.value) and "soon" not in str(error.value)
    assert "register" in str(error.value)


def test_a_register_may_be_jsonl_or_parquet_and_have_several_rows_for_a_patient(
    tmp_path: Path,
) -> None:
    rows = [{"mrn": "m1", "name": "Ashcombe, Wilma"}, {"mrn": "m1", "name": "Wilma Thornbury"}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(rows).to_parquet(tmp_path / "r.parquet")
    for name in ("r.jsonl", "r.parquet"):
        register = read_register(tmp_path / name)
        assert (register.n_rows, len(register.pieces)) == (2, 1)
        _, marks, _ = tagged(tmp_path, [("m1", "Thornbury, ashcombe.")], register=register)
        assert marks == [[("Thornbury", QUASI), ("ashcombe", QUASI)]]


def test_cells_that_hold_nothing_are_found_nowhere(tmp_path: Path) -> None:
    rows = "patient_id,姓,名,住所,電話,カルテ番号,家族\np,・,',・・,-,--,：\nq, , , , , ,\n"
    register = register_of(tmp_path, rows)
    text = "・' ： -- ・・ a. I. \u3000"
    _, marks, _ = tagged(tmp_path, [("p", text), ("q", text)], register=register)
    assert [word for note_marks in marks for word, _ in note_marks] == ["・・"]


def test_a_name_found_once_is_found_in_all_notes_of_the_patient(tmp_path: Path) -> None:
    cue = "Patient: Wilma Ashcombe"
    notes = [
        ("a", "ASHCOMBE slept. Wilma's wound; W.A. and ashcombe."),
        ("b", "Wilma Ashcombe."),
        ("a", cue),
        ("", "Ashcombe."),
        ("", f"{cue}. Wilma."),
        ("a", "Ashcombe, Wilma"),
    ]
    tagger, full = Scripted(("Wilma Ashcombe", IDENTIFIER)), ("Wilma Ashcombe", IDENTIFIER)
    _, marks, released = tagged(tmp_path, notes, tagger=tagger)
    assert marks == [
        [("ASHCOMBE", QUASI), ("Wilma", QUASI), ("W.A.", QUASI), ("ashcombe", QUASI)],
        [full],
        [full],
        [],
        [full, ("Wilma", QUASI)],
        [("Ashcombe, Wilma", IDENTIFIER)],
    ]
    assert released[0] == "[NAME] slept. [NAME]'s wound; [NAME] and [OTHER]."
    assert tagger.read_texts == [text for _, text in notes]  # none twice


def test_a_part_counts_behind_a_title_or_a_cue_alone(tmp_path: Path) -> None:
    notes = [
        ("a", "Dr. Quenby came."),
        ("a", "Quenby left."),
        ("b", "saw Quenby"),
        ("b", "Quenby?"),
    ]

    class OnlyFirst(Scripted):
        def tag(self, texts):  # type: ignore[no-untyped-def]
            return [(Span(4, 10, QUASI),) if text[4:10] == "Quenby" else () for text in texts]

    _, marks, _ = tagged(tmp_path, notes, tagger=OnlyFirst())
    assert [len(note_marks) for note_marks in marks] == [1, 1, 1, 0]
    notes = [("j", "主訴。高橋さんが来院。"), ("j", "高橋は帰宅。"), ("k", "患者さん。患者は。")]
    _, marks, _ = tagged(tmp_path, notes, tagger=load_tagger("rules"))
    assert marks == [[("高橋", QUASI)], [("高橋", QUASI)], []]


def test_what_is_no_name_is_not_spread(tmp_path: Path) -> None:
    names = ("Physical Therapy", "Chest Pain", "レボフロキサシン", "本例患者", "WBC 12")
    finds = [(name, IDENTIFIER) for name in names]
    once = "Physical Therapy, Chest Pain, レボフロキサシン、本例患者 WBC 12"
    text = f"{once}. therapy, pain, physical; レボフロキサシン、本例、患者、WBC 12"
    _, (marks,), _ = tagged(tmp_path, [("a", text)], tagger=Scripted(*finds))
    assert [word for word, _ in marks] == [find for find, _ in finds]


def test_marks_that_share_characters_become_one_that_leaves_nothing_readable(
    tmp_path: Path,
) -> None:
    register = register_of(tmp_path)
    finds = (("ilma Ash", QUASI), ("Ashcombe House", "place"), ("x Wilma y", CONTACT))
    texts = ["saw Wilma Ashcombe there", "at Ashcombe House", "x Wilma y"]
    for release in (Release(), Release(mode="surrogate"), Release(mode="mask")):
        _, marks, released = tagged(
            tmp_path,
            [("p1", text) for text in texts],
            register=register,
            tagger=Scripted(*finds),
            release=release,
        )
        assert marks == [
            [("Wilma Ashcombe", IDENTIFIER)],
            [("Ashcombe House", QUASI)],
            [("x Wilma y", CONTACT)],
        ]
        assert not any("ilma" in text or "comb" in text for text in released)


def test_surrogates_of_one_name_are_the_same_in_all_notes(tmp_path: Path) -> None:
    rows = "patient_id,first_name,last_name,birth_date\np1,Mary,Thompson,1951-08-04\n"
    notes = [("p1", "Thompson slept."), ("p1", "Mrs. Thompson slept."), ("p1", "Born 08/04/1951.")]
    _, _, released = tagged(
        tmp_path,
        notes,
        register=register_of(tmp_path, rows),
        release=Release(mode="surrogate", seed=3),
    )
    invented = released[0].removesuffix(" slept.")
    assert invented not in ("Thompson", "[NAME]") and invented.isalpha()
    assert released[1] == f"Mrs. {invented} slept." and "1951" not in released[2]


@pytest.mark.parametrize("tagger", ["rules", "default"])
def test_within_a_pasted_text_it_is_the_same(tagger: str) -> None:
    text = "Patient: Mary Thompson\nTHOMPSON slept. mary's wound. M.T. and thompson; "
    text += "氏名：高橋健一。高橋、健一は"
    note = tag_text(text, tagger=load_tagger(tagger, device="cpu"), release=Release())
    assert not [
        name
        for name in ("thompson", "mary", "m.t.", "高橋", "健一")
        if name in note.released.lower()
    ]


def test_a_killed_run_gives_the_same_bytes_and_asks_nothing_twice(tmp_path: Path) -> None:
    notes = [(f"p{n % 3}", f"{n}: Ashcombe slept.") for n in range(300)]
    notes.append(("p1", "Patient: Wilma Ashcombe"))
    finds = ("Wilma Ashcombe", IDENTIFIER)
    register = register_of(tmp_path)
    path = tmp_path / "n.jsonl"
    lines = (
        json.dumps({"id": str(n), "patient_id": patient, "text": text}) + "\n"
        for n, (patient, text) in enumerate(notes)
    )
    path.write_text("".join(lines))

    def run(out: Path, tagger: Scripted) -> None:
        tag_notes(open_notes(path), tagger=tagger, folder=out, release=Release(), register=register)

    whole_run, rest = Scripted(finds), Scripted(finds)
    run(tmp_path / "whole", whole_run)
    with pytest.raises(Killed):
        run(tmp_path / "out", Scripted(finds, n_left=2))
    run(tmp_path / "out", rest)
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")
    assert len(whole_run.read_texts) == 301 and len(rest.read_texts) == 301 - 2 * 64


@pytest.mark.long
def test_memory_stays_small_with_many_patients(tmp_path: Path) -> None:
    class Behind(Scripted):
        def tag(self, texts):  # type: ignore[no-untyped-def]
            return [(Span(9, len(text), IDENTIFIER),) for text in texts]

    peaks = []
    for n in (300, 1_200):
        path, folder = tmp_path / "notes.jsonl", tmp_path / f"many{n}"
        names = ("Ash" + "".join(chr(97 + int(digit)) for digit in str(i)) for i in range(n))
        notes = ({"patient_id": name, "text": f"Patient: Wilma {name}"} for name in names)
        path.write_text("\n".join(map(json.dumps, notes)))
        tracemalloc.start()
        census = tag_notes(open_notes(path), tagger=Behind(), folder=folder, release=Release())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert census["n_notes"] == n
    # 100,000 patients with a name each: less than 200 MB.
    assert peaks[1] - peaks[0] < 900 * 2_000


def test_every_form_of_invented_people_is_found(tmp_path: Path) -> None:
    forms = (
        "joined",
        "spaced",
        "wide",
        "kana",
        "half_kana",
        "hiragana",
        "romaji",
        "reversed",
        "surname",
        "given",
        "initials",
    )
    rows, notes = ["patient_id,姓,名,カナ,ローマ字"], []
    for n in range(20):
        profile = Profile("F", 40 + n, date(2024, 5, 1))
        name = identity_of(7, str(n), profile, locale=JAPANESE).name
        rows.append(
            f"{n},{name.surname.native},{name.given_name.native},"
            f"{write_name(name, 'kana')},{write_name(name, 'romaji')}"
        )
        notes += [(str(n), f"本人、{write_name(name, form)}様。") for form in forms]
    register = register_of(tmp_path, "\n".join(rows))
    _, marks, _ = tagged(tmp_path, notes, register=register)
    missed = [
        text
        for (_, text), note_marks in zip(notes, marks, strict=True)
        if "".join(word for word, _ in note_marks) != text[3:-2]
    ]
    assert missed == []


PLACEHOLDERS = [
    "[**Known lastname 123**]",
    "[**Hospital1 18**]",
    "[**2151-7-16**]",
    "[**First Name8 (NamePattern2) 5**]",
    "[**Telephone/Fax (1) 99**]",
    "[**Name (NI) 2310**]",
    "[**Age over 90 **]",
]


def test_a_placeholder_of_mimic_stays_whole() -> None:
    """No mark begins, ends or lies inside one; a real name beside it is marked all the same."""
    text = "".join(
        f"Seen by Dr. {placeholder} on 04/11/2026 at {placeholder}. "
        for placeholder in PLACEHOLDERS
    )
    text += "Mr. John Smith came from [**Odd place of John Smith**]."
    for tagger_id in ("rules", "default"):
        note = tag_text(text, tagger=load_tagger(tagger_id), release=Release())
        for placeholder in PLACEHOLDERS:
            assert note.released.count(placeholder) == 2, placeholder
        assert "Smith" not in note.released and "04/11/2026" not in note.released
        assert "[**Odd" not in note.released
