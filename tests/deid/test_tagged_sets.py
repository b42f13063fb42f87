"""Kept sets of tagged notes: read, searched, corrected by hand, handed out as files."""

from __future__ import annotations

import csv
import io
import json
import stat
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.deid import tagged_sets as sets
from audit.deid.incoming_notes import annotated_notes
from audit.deid.release import MODES, Release
from audit.deid.rules import RuleTagger
from audit.deid.sexes import sex_of_given_name
from audit.deid.tagged_sets import ADDED, REMOVED, TAGGED_SETS, Correction, TaggedSet, Wish
from audit.deid.tagging import census_file, tag_notes
from audit.errors import AuditCancelled, AuditError
from audit.notes.read import open_notes
from audit.notes.spans import Span, TaggedDocument, build_document

ID = "0123456789ab"
NOTES = (
    "氏名：高橋健一　2024年5月3日 受診。\n電話 03-1234-5678。",
    "特記なし。",
    '=cmd|"quoted" 氏名：伊藤花子 <5 mg/dL',
)
TEXT = "高橋健一は高橋病院へ。Ann saw Annual Ann; 高橋"
LABEL = "identifier"
QUASI = "quasi_identifier"


def begun(tagged_id: str = ID, *, how: Release | None = None, title: str = "") -> TaggedSet:
    return sets.begin_set(
        tagged_id,
        source="uploaded",
        tagger_id="rules",
        tagger_digest=RuleTagger().digest,
        release=how or Release(),
        notes=b"private",
        title=title,
    )


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Return what tags the notes into a set."""

    def made(**how: Any) -> TaggedSet:
        one = begun(how=Release(**how), title=" Ward \n 7 ")
        source = tmp_path / "notes.jsonl"
        lines = [
            json.dumps({"doc_id": f"d{i}", "patient_id": "p1", "text": text})
            for i, text in enumerate(NOTES)
        ]
        source.write_text("\n".join(lines), "utf-8")
        out = one.path / sets.RESULT
        tag_notes(open_notes(source), tagger=RuleTagger(), folder=out, release=one.how)
        assert not TAGGED_SETS.get(ID).is_whole
        sets.write_index(one.path)
        return TAGGED_SETS.get(ID)

    return made


def add(one: TaggedSet, number: int, text: str, *, is_everywhere: bool = False) -> int:
    wish = Wish(label=QUASI, text=text)
    return sets.correct_set(one, wish, number=number, user="ann", is_everywhere=is_everywhere)


def take(one: TaggedSet, number: int) -> Span:
    span = sets.note_at(one, number, index=sets.read_index(one)).document.spans[0]
    wish = Wish(label="", place=(span.start, span.end))
    sets.correct_set(one, wish, number=number, user="ben", is_everywhere=False)
    return span


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as folder:
        return {name: folder.read(name) for name in folder.namelist()}


def note(*spans: Span, text: str = TEXT) -> TaggedDocument:
    return build_document("1", text=text, spans=spans)


def changed(document: TaggedDocument, label: str = LABEL, **wish: Any) -> tuple[Any, Any] | None:
    """Return what a wish takes away and what it puts in the place, as (start, end, label)."""
    made = sets.make_correction(document, Wish(label=label, **wish), user="ann")
    if made is None:
        return None
    rows = [[(x.start, x.end, x.label) for x in spans] for spans in (made.gone, made.spans)]
    return (rows[1], []) if made.kind == REMOVED else (rows[0], rows[1])


def test_a_wish_is_made_true_everywhere_and_nothing_is_uncovered() -> None:
    whole = note(Span(0, 4, LABEL))
    assert changed(whole, QUASI, text=" 高橋 ") == ([], [(5, 7, QUASI), (31, 33, QUASI)])
    assert changed(whole, text="Ann") == ([], [(11, 14, LABEL), (26, 29, LABEL)])
    assert changed(note(), place=(16, 22)) == ([], [(16, 22, LABEL)])
    assert changed(note(), place=(14, 19)) == ([], [(15, 18, LABEL)]), "without white space"
    pieces = note(Span(0, 2, LABEL), Span(2, 4, QUASI))
    assert changed(pieces, place=(0, 4)) == ([(0, 2, LABEL), (2, 4, QUASI)], [(0, 4, LABEL)])
    assert changed(whole, "contact", text="高橋健一") == ([(0, 4, LABEL)], [(0, 4, "contact")])
    assert changed(note(Span(1, 3, QUASI)), place=(2, 5)) == ([], [(2, 5, LABEL)])
    for document, wish in (
        (whole, {"place": (1, 3)}),
        (whole, {"place": (0, 4)}),
        (note(), {"text": "佐藤"}),
        (note(), {"text": "  "}),
        (note(), {"text": "nnua"}),
        (note(), {"label": "", "text": "高橋"}),
    ):
        assert changed(document, **wish) is None
    for place in ((3, 3), (5, 4), (0, len(TEXT) + 1), (-1, 2), (14, 15)):
        with pytest.raises(AuditError, match="no such place"):
            changed(note(), place=place)


def test_marks_are_taken_away_at_a_place_or_wherever_they_are_on_a_text() -> None:
    one, other, far = Span(0, 2, LABEL), Span(1, 4, QUASI), Span(31, 33, "contact")
    document = note(one, other, far)
    assert changed(document, "", place=(0, 4)) == ([(0, 2, LABEL), (1, 4, QUASI)], [])
    assert changed(document, "", place=(0, 1)) == ([(0, 2, LABEL)], [])
    assert changed(document, "", text="高橋") == ([(0, 2, LABEL), (31, 33, "contact")], [])


def test_corrections_are_applied_in_their_order_and_lose_nothing_else() -> None:
    def fix(kind: Any, *spans: Span, number: int = 0) -> Correction:
        return Correction(number=number, kind=kind, spans=spans, who="ann")

    wrong, right = Span(4, 5, LABEL), Span(0, 4, LABEL)
    whole = TaggedDocument("1", TEXT, (wrong,), "p", 2, ("contact",))
    done = sets.apply_corrections(
        whole, [fix(REMOVED, wrong), fix(ADDED, right), fix(ADDED, wrong)]
    )
    instead = Correction(kind=ADDED, spans=(right,), gone=(wrong,), who="ann")
    assert sets.apply_corrections(whole, [instead]).spans == (right,)
    assert done == TaggedDocument("1", TEXT, (right, wrong), "p", 2, ("contact",))
    assert sets.apply_corrections(whole, []) == whole
    with pytest.raises(AuditError, match="does not fit"):
        sets.apply_corrections(whole, [fix(ADDED, Span(0, 99, LABEL), Span(2, 3, LABEL))])
    for kind, number in (("changed", 0), (ADDED, -1)):
        with pytest.raises(AuditError):
            fix(kind, right, number=number)


def test_a_set_is_begun_found_and_removed(make: Any) -> None:
    one = begun("a" * 12, title="x" * 200)
    assert not one.is_whole and one.n_notes == 0 and one.census is None and len(one.title) == 80
    assert begun("a" * 12, title="other").title == one.title, "what is there stays"
    whole = make()
    assert (whole.is_whole, whole.n_notes, whole.title) == (True, 3, "Ward 7")
    assert {k: one["n"] for k, one in whole.census["spans"].items()} == {
        LABEL: 2,
        QUASI: 1,
        "contact": 1,
    }
    assert {one.tagged_id for one in TAGGED_SETS.all()} == {ID, "a" * 12}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in TAGGED_SETS.home().rglob("*")}
    assert modes == {0o700, 0o600}
    (whole.path / sets.RESULT / "census.json").write_text('{"n_notes": 3, "spans": {"contact": 2}}')
    assert [one.tagged_id for one in TAGGED_SETS.all()] == ["a" * 12], "a damaged one is left out"
    with pytest.raises(AuditError, match="damaged"):
        TAGGED_SETS.get(ID)
    TAGGED_SETS.forget(ID)
    assert [one.tagged_id for one in TAGGED_SETS.all()] == ["a" * 12]


@pytest.mark.parametrize("mode", MODES)
def test_any_note_is_read_alone_and_corrected_and_the_taggers_own_stay(
    make: Any, mode: str
) -> None:
    one = make(mode=mode)
    index, own = sets.read_index(one), one.spans_path.read_bytes()
    assert index[:, 2].tolist() == [3, 0, 1]
    alone = [sets.note_at(one, number, index=index) for number in (2, 0, 1)]
    assert [note.document.text for note in alone] == [NOTES[2], NOTES[0], NOTES[1]]
    assert [alone[i] for i in (1, 2, 0)] == list(sets.read_notes(one))
    lines = (one.path / sets.RESULT / "redacted.jsonl").read_text("utf-8").splitlines()
    for note, line in zip(sets.read_notes(one), lines, strict=True):
        assert {"row": note.row, "text": note.released} == json.loads(line)
        assert [note.released[r.new_start : r.new_end] for r in note.replacements] == [
            r.text for r in note.replacements
        ]
        assert len(note.replacements) == len(note.document.spans)
    add(one, 1, "特記")
    gone = take(one, 0)
    shown = sets.note_at(one, 1, index=index)
    assert shown.document.spans == (Span(0, 2, QUASI),)
    assert [one.kind for one in shown.corrections] == [ADDED]
    # No name: of surrogates too it becomes a placeholder.
    assert shown.released == ("■■" if mode == "mask" else "【その他】") + "なし。"
    assert NOTES[0][gone.start : gone.end] in sets.note_at(one, 0, index=index).released
    assert list(sets.read_notes(one)) == [sets.note_at(one, n, index=index) for n in range(3)]
    assert one.spans_path.read_bytes() == own
    assert sets.note_at(one, 1, index=index, corrections={}).document.spans == ()
    files = unzipped(sets.export_notes(sets.read_notes(one), form="brat", n_notes=3))
    assert b"quasi_identifier 0 2" in files["d1.ann"]


def test_notes_are_searched_in_name_and_text_and_chosen_by_their_marks(make: Any) -> None:
    one = make()
    found = {
        text: sets.search_notes(one, text=text) for text in ("高橋", '"quoted"', "\n電話", "d1")
    }
    assert found == {"高橋": (0,), '"quoted"': (2,), "\n電話": (0,), "d1": (1,)}
    for word in (LABEL, "doc_id", "start", "p1"):
        assert sets.search_notes(one, text=word) == ()
    index = sets.read_index(one)
    assert sets.choose_notes(index, only="with").tolist() == [0, 2]
    add(one, 1, "特記")
    take(one, 2)
    kept = sets.corrections_of(one)
    chosen = {
        only: sets.choose_notes(index, only=only, corrections=kept).tolist()
        for only in ("all", "with", "without", "corrected")
    }
    assert chosen == {"all": [0, 1, 2], "with": [0, 1], "without": [2], "corrected": [1, 2]}
    for only, numbers in (("corrected", [2]), ("with", [0]), ("all", [0, 2])):
        own = sets.choose_notes(index, only=only, hits=[0, 2], corrections=kept)
        assert own.tolist() == numbers


def test_the_census_counts_what_is_handed_out_and_keeps_what_the_tagger_found(make: Any) -> None:
    one = make()
    own, index = one.census, sets.read_index(one)
    assert sets.correct_census(one, index=index, corrections={}) == own | {"n_notes_corrected": 0}
    add(one, 1, "特記")
    add(one, 1, "なし")
    gone = take(one, 2)
    census = sets.correct_census(one, index=index, corrections=sets.corrections_of(one))
    assert census == {
        **{name: value for name, value in own.items() if name != "sha256"},
        "n_notes_without_spans": 1,
        "n_replaced": 5,
        "spans": {
            LABEL: {"n": 1, "n_characters": 4},
            QUASI: {"n": 3, "n_characters": 13},
            "contact": {"n": 1, "n_characters": 12},
        },
        "n_notes_corrected": 2,
    }
    assert gone.label == LABEL and own["n_replaced"] == 4


def test_undo_takes_the_last_one_back_and_stays_on_record(make: Any) -> None:
    one = make()
    for text in ("特記", "なし"):
        add(one, 1, text)
    sets.undo_correction(one, 1, user="cy")
    sets.undo_correction(one, 2, user="cy")  # nothing to undo there
    assert {n: [(c.spans, c.who) for c in own] for n, own in sets.corrections_of(one).items()} == {
        1: [((Span(0, 2, QUASI),), "ann")]
    }
    sets.undo_correction(one, 1, user="cy")
    assert sets.corrections_of(one) == {}
    path = one.path / sets.CORRECTIONS
    kinds = [json.loads(line)["kind"] for line in path.read_text("utf-8").splitlines()]
    assert kinds == ["added", "added", "undone", "undone"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "特記" not in path.read_text("utf-8")


def test_all_notes_are_corrected_at_once_and_undone_where_nothing_came_after(make: Any) -> None:
    one = make()
    assert add(one, 1, "氏名", is_everywhere=True) == 2
    assert {n: [x.spans for x in own] for n, own in sets.corrections_of(one).items()} == {
        0: [(Span(0, 2, QUASI),)],
        2: [(Span(14, 16, QUASI),)],
    }
    index, kept = sets.read_index(one), sets.corrections_of(one)
    assert sets.choose_notes(index, only="corrected", corrections=kept).tolist() == [0, 2]
    add(one, 2, "mg/dL")
    sets.undo_correction(one, 0, user="cy")
    assert {n: len(own) for n, own in sets.corrections_of(one).items()} == {2: 2}
    with pytest.raises(AuditError, match="Nothing is changed"):
        add(one, 0, "佐藤", is_everywhere=True)


def test_what_is_damaged_is_refused_and_making_an_index_can_be_stopped(make: Any) -> None:
    one = make()
    with pytest.raises(AuditCancelled):
        sets.write_index(one.path, should_stop=lambda: True)
    for line in ("{", '{"number": 0, "spans": [], "who": ""}'):
        (one.path / sets.CORRECTIONS).write_text(line + "\n", "utf-8")
        for call in (lambda: sets.corrections_of(one), lambda: list(sets.read_notes(one))):
            with pytest.raises(AuditError, match="damaged"):
                call()
    (one.path / sets.RESULT / "redacted.jsonl").write_text("")
    with pytest.raises(AuditError, match="damaged"):
        sets.write_index(one.path)
    index = one.path / "index.npy"
    for wrong in (np.zeros((3, 2), np.int64), np.zeros((3, 3)), np.zeros(3, np.int64), None):
        index.write_bytes(b"no array") if wrong is None else np.save(index, wrong)
        with pytest.raises(AuditError, match="damaged"):
            sets.read_index(one)


@pytest.mark.parametrize("form", sets.PRIVATE)
def test_spans_come_back_from_every_format(make: Any, form: str, tmp_path: Path) -> None:
    notes = list(sets.read_notes(make()))
    data = sets.export_notes(notes, form=form, n_notes=3)
    name = sets.export_name(form, n_notes=3)
    files = unzipped(data) if name.endswith(".zip") else {name: data}
    folder = tmp_path / "files"
    folder.mkdir()
    for one, content in files.items():
        (folder / one).write_bytes(content)
    back = annotated_notes(folder if len(files) > 1 else folder / name).read_all()
    assert [(d.doc_id, d.text, d.spans) for d in back] == [
        (note.document.doc_id, note.document.text, note.document.spans) for note in notes
    ]


def test_released_texts_hold_no_name_and_no_formula(make: Any) -> None:
    notes = list(sets.read_notes(make()))
    files = {
        form: sets.export_notes(notes, form=form, n_notes=3) for form in ("csv", "jsonl", "text")
    }
    rows = list(csv.reader(io.StringIO(files["csv"].decode("utf-8-sig"))))
    texts = [note.released for note in notes]
    assert rows == [["row", "text"], ["1", texts[0]], ["2", texts[1]], ["3", "'" + texts[2]]]
    assert rows[3][1].startswith("'=cmd") and "高橋" not in files["csv"].decode()
    assert list(map(json.loads, files["jsonl"].splitlines())) == [
        {"row": row, "text": text} for row, text in enumerate(texts, start=1)
    ]
    with zipfile.ZipFile(io.BytesIO(files["text"])) as folder:
        assert [folder.read(f"note-{n}.txt").decode() for n in (1, 2, 3)] == texts
        assert {(one.date_time[0], one.external_attr >> 16) for one in folder.infolist()} == {
            (1980, 0o600)
        }
    assert sets.export_notes(notes[:1], form="text", n_notes=1) == texts[0].encode()
    names = [sets.export_name("text", n_notes=n) for n in (1, 2)]
    assert names == ["redacted.txt", "redacted-texts.zip"]


def test_what_a_format_cannot_say_is_listed() -> None:
    spans = [Span(3, 5, LABEL), Span(4, 6, QUASI)]
    notes = [
        sets.release_note(build_document(str(i), text=text, spans=spans), row=i, release=Release())
        for i, text in enumerate(("氏名：高橋健一", "bell \x07 氏名：高橋健一"))
    ]
    files = unzipped(sets.export_notes(notes, form="i2b2", n_notes=2))
    assert [*files] == ["0.xml", "left_out.csv"]
    assert "control character" in files["left_out.csv"].decode("utf-8-sig")
    files = unzipped(sets.export_notes(notes[:1], form="inline", n_notes=1))
    flattened = "氏名：<識別子>高橋</識別子><準識別子>健</準識別子>一"
    assert files["0.txt"].decode() == flattened


def test_one_text_is_tagged_at_once_and_corrected_in_the_same_way() -> None:
    release = Release()
    found = sets.tag_text(NOTES[0], tagger=RuleTagger(), release=release)
    assert found.released == "氏名：【氏名】　【日付】 受診。\n電話 【連絡先】。"
    expected = {
        "n_notes": 1,
        "n_characters": len(NOTES[0]),
        "n_notes_without_spans": 0,
        "n_replaced": 3,
        "n_notes_of_no_language": 0,
        "spans": {
            LABEL: {"n": 1, "n_characters": 4},
            QUASI: {"n": 1, "n_characters": 9},
            "contact": {"n": 1, "n_characters": 12},
        },
        "n_notes_corrected": 0,
    }
    assert json.loads(census_file(sets.census_of(found))) == expected
    kept = sets.release_note(found.document, row=1, release=release, earlier_text="氏名：〇〇")
    assert (kept.released, kept.replacements) == ("氏名：〇〇", ())
    fix = Correction(kind=REMOVED, spans=found.document.spans, who="ann")
    done = sets.release_note(found.document, row=1, release=release, corrections=[fix])
    assert done.released == NOTES[0]
    changed = {"n_notes_without_spans": 1, "n_replaced": 0, "spans": {}, "n_notes_corrected": 1}
    assert sets.census_of(done) == expected | changed
    for text, why in ((" \n", "empty"), ("x" * 100_001, "more than 100,000"), ("a\0", "NUL")):
        with pytest.raises(AuditError, match=why):
            sets.tag_text(text, tagger=RuleTagger(), release=release)


def test_surrogates_of_a_patient_agree_in_all_notes_and_are_marked(tmp_path: Path) -> None:
    texts = (
        ("p1", "Patient: Zyrabel Roe, seen on 03/04/2024."),
        ("p1", "Patient: Zyrabel Roe is a 72-year-old woman, seen on 04/01/2024. She rests."),
        ("p2", "Patient: Zyrabel Roe is a 72-year-old man, seen on 04/01/2024. He rests."),
        ("p1", "Patient: Zyrabel Roe, seen on 03/18/2024."),
    )
    source = tmp_path / "notes.jsonl"
    lines = [
        json.dumps({"doc_id": f"d{i}", "patient_id": patient, "text": text})
        for i, (patient, text) in enumerate(texts)
    ]
    source.write_text("\n".join(lines), "utf-8")
    for seed in range(6):
        one = begun(f"{seed:012x}", how=Release(mode="surrogate", seed=seed))
        tag_notes(
            open_notes(source), tagger=RuleTagger(), folder=one.path / sets.RESULT, release=one.how
        )
        sets.write_index(one.path)
        found = list(sets.read_notes(TAGGED_SETS.get(one.tagged_id)))
        names = [note.replacements[0].text for note in found]
        assert names[0] == names[1] == names[3] and sex_of_given_name(names[0].split()[0]) == "F"
        assert sex_of_given_name(names[2].split()[0]) == "M"
        # Two weeks, and four, lie between the dates of the first patient.
        days = []
        for note in found:
            month, day, year = note.replacements[-1].text.split("/")
            days.append(date(int(year), int(month), int(day)))
        assert ((days[3] - days[0]).days, (days[1] - days[0]).days) == (14, 28)
        index = sets.read_index(one)
        assert [sets.note_at(one, i, index=index) for i in range(4)] == found
