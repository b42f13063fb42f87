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

from audit.deid.find.rules import RuleTagger
from audit.deid.redact.kinds import group_marks
from audit.deid.redact.release import MODES, Release
from audit.deid.redact.sexes import sex_of_given_name
from audit.deid.sets import tagged_sets as sets
from audit.deid.sets.incoming_notes import annotated_notes
from audit.deid.sets.tagged_sets import ADDED, REMOVED, TAGGED_SETS, Correction, TaggedSet, Wish
from audit.deid.sets.tagging import tag_notes
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


def begun(tagged_id: str = ID, *, release: Release | None = None, title: str = "") -> TaggedSet:
    return sets.begin_set(
        tagged_id,
        source="uploaded",
        tagger_id="rules",
        tagger_digest=RuleTagger().digest,
        release=release or Release(),
        notes=b"private",
        title=title,
    )


@pytest.fixture
def make(tmp_path: Path) -> Any:
    """Return what tags the notes into a set."""

    def made(**how: Any) -> TaggedSet:
        tagged = begun(release=Release(**how), title=" Ward \n 7 ")
        source = tmp_path / "notes.jsonl"
        lines = [
            json.dumps({"doc_id": f"d{i}", "patient_id": "p1", "text": text})
            for i, text in enumerate(NOTES)
        ]
        source.write_text("\n".join(lines), "utf-8")
        out = tagged.path / sets.RESULT
        tag_notes(open_notes(source), tagger=RuleTagger(), folder=out, release=tagged.how)
        assert not TAGGED_SETS.get(ID).is_whole
        sets.write_index(tagged.path)
        return TAGGED_SETS.get(ID)

    return made


def add(tagged: TaggedSet, number: int, text: str, *, is_everywhere: bool = False) -> int:
    wish = Wish("other", text=text)
    return sets.correct_set(tagged, wish, number=number, user="ann", is_everywhere=is_everywhere)


def take(tagged: TaggedSet, number: int) -> Span:
    span = sets.note_at(tagged, number, index=sets.read_index(tagged)).document.spans[0]
    wish = Wish("", place=(span.start, span.end))
    sets.correct_set(tagged, wish, number=number, user="ben", is_everywhere=False)
    return span


def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as folder:
        return {name: folder.read(name) for name in folder.namelist()}


def note(*spans: Span, text: str = TEXT) -> TaggedDocument:
    return build_document("1", text=text, spans=spans)


def changed(document: TaggedDocument, group: str = "place", **wish: Any) -> tuple[Any, Any] | None:
    """Return what a wish takes away and what it puts in the place, as (start, end, label)."""
    correction = sets.make_correction(document, Wish(group, **wish), user="ann")
    if correction is None:
        return None
    rows = [
        [(x.start, x.end, x.label) for x in spans] for spans in (correction.gone, correction.spans)
    ]
    return (rows[1], []) if correction.kind == REMOVED else (rows[0], rows[1])


def test_a_wish_is_made_true_everywhere_and_nothing_is_uncovered() -> None:
    marked_note = note(Span(0, 4, LABEL))
    assert changed(marked_note, "name", text=" 高橋 ") == ([], [(5, 7, QUASI), (31, 33, QUASI)])
    assert changed(marked_note, text="Ann") == ([], [(11, 14, QUASI), (26, 29, QUASI)])
    assert changed(note(), place=(16, 22)) == ([], [(16, 22, QUASI)])
    assert changed(note(), place=(14, 19)) == ([], [(15, 18, QUASI)]), "without white space"
    pieces = note(Span(0, 2, LABEL), Span(2, 4, QUASI))
    assert changed(pieces, "name", place=(0, 4)) == (
        [(0, 2, LABEL), (2, 4, QUASI)],
        [(0, 4, LABEL)],
    )
    assert changed(marked_note, "contact", text="高橋健一") == (
        [(0, 4, LABEL)],
        [(0, 4, "contact")],
    )
    assert changed(note(Span(1, 3, QUASI)), place=(2, 5)) == ([], [(2, 5, QUASI)])
    for document, wish in (
        (marked_note, {"place": (1, 3)}),
        (marked_note, {"group": "name", "place": (0, 4)}),
        (note(), {"text": "佐藤"}),
        (note(), {"text": "  "}),
        (note(), {"text": "nnua"}),
        (note(), {"group": "", "text": "高橋"}),
    ):
        assert changed(document, **wish) is None
    for place in ((3, 3), (5, 4), (0, len(TEXT) + 1), (-1, 2), (14, 15)):
        with pytest.raises(AuditError, match="no such place"):
            changed(note(), place=place)


@pytest.mark.parametrize("mode", MODES)
def test_a_persons_word_on_what_stands_at_a_mark_decides_its_type_and_its_replacement(
    mode: str,
) -> None:
    text = "Seen in Boston by Dr. Hayes; MRN 4471902, SSN 123-45-6789; a 72-year-old potter."
    boston = Span(8, 14, LABEL)
    rows = {
        "Boston": ("place", QUASI, "[PLACE]"),
        "Hayes": ("name", QUASI, "[NAME]"),
        "4471902": ("number", "linkage_code", "[ID]"),
        "123-45-6789": ("number", "personal_id_code", "[ID]"),
        "72-year-old": ("date", QUASI, "[AGE]"),
        "potter": ("work", QUASI, "[OTHER]"),
        "by": ("name", QUASI, "[NAME]"),
    }
    document = note(boston, text=text)
    for phrase, (group, label, placeholder) in rows.items():
        start = text.index(phrase)
        wish = Wish(group, place=(start, start + len(phrase)))
        correction = sets.make_correction(document, wish, user="ann")
        assert correction is not None and [x.label for x in correction.spans] == [label]
        read_correction = Correction.model_validate_json(correction.to_bytes())
        assert read_correction == correction, "a kept set remembers the kind"
        (group_found,) = (found for _, found in group_marks(note(*correction.spans, text=text)))
        assert group_found == group
        released = sets.release_note(
            document, row=1, release=Release(mode=mode, seed=1), corrections=[correction]
        )
        assert phrase not in released.released.split()
        if mode == "placeholder":
            assert placeholder in released.released
    assert changed(document, "name", place=(8, 14)) is None, "it is one already"


def test_marks_are_taken_away_at_a_place_or_wherever_they_are_on_a_text() -> None:
    near, crossing, far = Span(0, 2, LABEL), Span(1, 4, QUASI), Span(31, 33, "contact")
    document = note(near, crossing, far)
    assert changed(document, "", place=(0, 4)) == ([(0, 2, LABEL), (1, 4, QUASI)], [])
    assert changed(document, "", place=(0, 1)) == ([(0, 2, LABEL)], [])
    assert changed(document, "", text="高橋") == ([(0, 2, LABEL), (31, 33, "contact")], [])


def test_corrections_are_applied_in_their_order_and_lose_nothing_else() -> None:
    def fix(kind: Any, *spans: Span, number: int = 0) -> Correction:
        return Correction(number=number, kind=kind, spans=spans, who="ann")

    wrong, right = Span(4, 5, LABEL), Span(0, 4, LABEL)
    marked_note = TaggedDocument("1", TEXT, (wrong,), "p", 2, ("contact",))
    corrected_note = sets.apply_corrections(
        marked_note, [fix(REMOVED, wrong), fix(ADDED, right), fix(ADDED, wrong)]
    )
    instead = Correction(kind=ADDED, spans=(right,), gone=(wrong,), who="ann")
    assert sets.apply_corrections(marked_note, [instead]).spans == (right,)
    assert corrected_note == TaggedDocument("1", TEXT, (right, wrong), "p", 2, ("contact",))
    assert sets.apply_corrections(marked_note, []) == marked_note
    with pytest.raises(AuditError, match="does not fit"):
        sets.apply_corrections(marked_note, [fix(ADDED, Span(0, 99, LABEL), Span(2, 3, LABEL))])
    for kind, number in (("changed", 0), (ADDED, -1)):
        with pytest.raises(AuditError):
            fix(kind, right, number=number)


def test_a_set_is_begun_found_and_removed(make: Any) -> None:
    tagged = begun("a" * 12, title="x" * 200)
    assert (
        not tagged.is_whole
        and tagged.n_notes == 0
        and tagged.census is None
        and len(tagged.title) == 80
    )
    assert begun("a" * 12, title="other").title == tagged.title, "what is there stays"
    marked_note = make()
    assert (marked_note.is_whole, marked_note.n_notes, marked_note.title) == (True, 3, "Ward 7")
    assert {label: counts["n"] for label, counts in marked_note.census["spans"].items()} == {
        LABEL: 2,
        QUASI: 1,
        "contact": 1,
    }
    assert {tagged.tagged_id for tagged in TAGGED_SETS.all()} == {ID, "a" * 12}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in TAGGED_SETS.home().rglob("*")}
    assert modes == {0o700, 0o600}
    (marked_note.path / sets.RESULT / "census.json").write_text(
        '{"n_notes": 3, "spans": {"contact": 2}}'
    )
    assert [tagged.tagged_id for tagged in TAGGED_SETS.all()] == ["a" * 12], (
        "a damaged one is left out"
    )
    with pytest.raises(AuditError, match="damaged"):
        TAGGED_SETS.get(ID)
    TAGGED_SETS.forget(ID)
    assert [tagged.tagged_id for tagged in TAGGED_SETS.all()] == ["a" * 12]


@pytest.mark.parametrize("mode", MODES)
def test_any_note_is_read_alone_and_corrected_and_the_taggers_own_stay(
    make: Any, mode: str
) -> None:
    tagged = make(mode=mode)
    index, own_rows = sets.read_index(tagged), tagged.spans_path.read_bytes()
    assert index[:, 2].tolist() == [3, 0, 1]
    alone = [sets.note_at(tagged, number, index=index) for number in (2, 0, 1)]
    assert [note.document.text for note in alone] == [NOTES[2], NOTES[0], NOTES[1]]
    assert [alone[i] for i in (1, 2, 0)] == list(sets.read_notes(tagged))
    lines = (tagged.path / sets.RESULT / "redacted.jsonl").read_text("utf-8").splitlines()
    for note, line in zip(sets.read_notes(tagged), lines, strict=True):
        assert {"row": note.row, "text": note.released} == json.loads(line)
        assert [note.released[r.new_start : r.new_end] for r in note.replacements] == [
            r.text for r in note.replacements
        ]
        assert len(note.replacements) == len(note.document.spans)
    add(tagged, 1, "特記")
    gone = take(tagged, 0)
    shown_note = sets.note_at(tagged, 1, index=index)
    assert shown_note.document.spans == (Span(0, 2, QUASI),)
    assert [correction.kind for correction in shown_note.corrections] == [ADDED]
    # No name: of surrogates too it becomes a placeholder.
    assert shown_note.released == ("■■" if mode == "mask" else "【その他】") + "なし。"
    assert NOTES[0][gone.start : gone.end] in sets.note_at(tagged, 0, index=index).released
    assert list(sets.read_notes(tagged)) == [sets.note_at(tagged, n, index=index) for n in range(3)]
    assert tagged.spans_path.read_bytes() == own_rows
    assert sets.note_at(tagged, 1, index=index, corrections={}).document.spans == ()
    files = unzipped(sets.export_notes(sets.read_notes(tagged), form="brat", n_notes=3))
    assert b"quasi_identifier 0 2" in files["d1.ann"]


def test_notes_are_searched_in_name_and_text_and_chosen_by_their_marks(make: Any) -> None:
    tagged = make()
    found_note = {
        text: sets.search_notes(tagged, text=text) for text in ("高橋", '"quoted"', "\n電話", "d1")
    }
    assert found_note == {"高橋": (0,), '"quoted"': (2,), "\n電話": (0,), "d1": (1,)}
    for word in (LABEL, "doc_id", "start", "p1"):
        assert sets.search_notes(tagged, text=word) == ()
    index = sets.read_index(tagged)
    assert sets.choose_notes(index, only="with").tolist() == [0, 2]
    add(tagged, 1, "特記")
    take(tagged, 2)
    corrections = sets.corrections_of(tagged)
    chosen = {
        only: sets.choose_notes(index, only=only, corrections=corrections).tolist()
        for only in ("all", "with", "without", "corrected")
    }
    assert chosen == {"all": [0, 1, 2], "with": [0, 1], "without": [2], "corrected": [1, 2]}
    for only, numbers in (("corrected", [2]), ("with", [0]), ("all", [0, 2])):
        own_rows = sets.choose_notes(index, only=only, hits=[0, 2], corrections=corrections)
        assert own_rows.tolist() == numbers


def test_the_census_counts_what_is_handed_out_and_keeps_what_the_tagger_found(make: Any) -> None:
    tagged = make()
    own_rows, index = tagged.census, sets.read_index(tagged)
    assert sets.correct_census(tagged, index=index, corrections={}) == own_rows | {
        "n_notes_corrected": 0
    }
    add(tagged, 1, "特記")
    add(tagged, 1, "なし")
    gone = take(tagged, 2)
    census = sets.correct_census(tagged, index=index, corrections=sets.corrections_of(tagged))
    assert census == {
        **{name: value for name, value in own_rows.items() if name != "sha256"},
        "n_notes_without_spans": 1,
        "n_replaced": 5,
        "spans": {
            LABEL: {"n": 1, "n_characters": 4},
            QUASI: {"n": 3, "n_characters": 13},
            "contact": {"n": 1, "n_characters": 12},
        },
        "n_notes_corrected": 2,
    }
    assert gone.label == LABEL and own_rows["n_replaced"] == 4


def test_undo_takes_the_last_one_back_and_stays_on_record(make: Any) -> None:
    tagged = make()
    for text in ("特記", "なし"):
        add(tagged, 1, text)
    sets.undo_correction(tagged, 1, user="cy")
    sets.undo_correction(tagged, 2, user="cy")  # nothing to undo there
    assert {
        n: [(c.spans, c.who) for c in own_rows]
        for n, own_rows in sets.corrections_of(tagged).items()
    } == {1: [((Span(0, 2, QUASI),), "ann")]}
    sets.undo_correction(tagged, 1, user="cy")
    assert sets.corrections_of(tagged) == {}
    path = tagged.path / sets.CORRECTIONS
    kinds = [json.loads(line)["kind"] for line in path.read_text("utf-8").splitlines()]
    assert kinds == ["added", "added", "undone", "undone"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "特記" not in path.read_text("utf-8")


def test_all_notes_are_corrected_at_once_and_undone_where_nothing_came_after(make: Any) -> None:
    tagged = make()
    assert add(tagged, 1, "氏名", is_everywhere=True) == 2
    assert {
        n: [x.spans for x in note_corrections]
        for n, note_corrections in sets.corrections_of(tagged).items()
    } == {
        0: [(Span(0, 2, QUASI),)],
        2: [(Span(14, 16, QUASI),)],
    }
    index, corrections = sets.read_index(tagged), sets.corrections_of(tagged)
    assert sets.choose_notes(index, only="corrected", corrections=corrections).tolist() == [0, 2]
    add(tagged, 2, "mg/dL")
    sets.undo_correction(tagged, 0, user="cy")
    assert {
        n: len(note_corrections) for n, note_corrections in sets.corrections_of(tagged).items()
    } == {2: 2}
    with pytest.raises(AuditError, match="Nothing is changed"):
        add(tagged, 0, "佐藤", is_everywhere=True)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        (sets.ASKED, {"format": 2}),
        (sets.ASKED, {"language": "ja"}),
        (sets.ASKED, {"how": {"mode": "mask", "language": "ja"}}),
        ("result/census.json", {"copies": {"n_notes": 3, "n_malformed": 0}}),
    ],
)
def test_a_set_of_another_version_is_refused(make: Any, file: str, changes: Any) -> None:
    path = make().path / file
    path.write_text(json.dumps(json.loads(path.read_bytes()) | changes))
    with pytest.raises(AuditError, match="tagged notes: This was written by another version"):
        TAGGED_SETS.get(ID)
    assert TAGGED_SETS.all() == ()


def test_what_is_damaged_is_refused_and_making_an_index_can_be_stopped(make: Any) -> None:
    tagged = make()
    with pytest.raises(AuditCancelled):
        sets.write_index(tagged.path, should_stop=lambda: True)
    for line in ("{", '{"number": 0, "spans": [], "who": ""}'):
        (tagged.path / sets.CORRECTIONS).write_text(line + "\n", "utf-8")
        for call in (lambda: sets.corrections_of(tagged), lambda: list(sets.read_notes(tagged))):
            with pytest.raises(AuditError, match="damaged"):
                call()
    (tagged.path / sets.RESULT / "redacted.jsonl").write_text("")
    with pytest.raises(AuditError, match="damaged"):
        sets.write_index(tagged.path)
    index = tagged.path / "index.npy"
    whole_numbers = [np.zeros(shape, np.int64) for shape in ((3, 3), (3, 5), 3)]
    for wrong in (*whole_numbers, np.zeros((3, 4)), None):
        index.write_bytes(b"no array") if wrong is None else np.save(index, wrong)
        with pytest.raises(AuditError, match="damaged"):
            sets.read_index(tagged)


@pytest.mark.parametrize("form", sets.PRIVATE)
def test_spans_come_back_from_every_format(make: Any, form: str, tmp_path: Path) -> None:
    notes = list(sets.read_notes(make()))
    data = sets.export_notes(notes, form=form, n_notes=3)
    name = sets.export_name(form, n_notes=3)
    files = unzipped(data) if name.endswith(".zip") else {name: data}
    folder = tmp_path / "files"
    folder.mkdir()
    for file_name, content in files.items():
        (folder / file_name).write_bytes(content)
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
        assert {(entry.date_time[0], entry.external_attr >> 16) for entry in folder.infolist()} == {
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
    found_note = sets.tag_text(NOTES[0], tagger=RuleTagger(), release=release)
    assert found_note.released == "氏名：【氏名】　【日付】 受診。\n電話 【連絡先】。"
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
    assert sets.census_of(found_note) == expected
    corrections = sets.release_note(
        found_note.document, row=1, release=release, earlier_text="氏名：〇〇"
    )
    assert (corrections.released, corrections.replacements) == ("氏名：〇〇", ())
    fix = Correction(kind=REMOVED, spans=found_note.document.spans, who="ann")
    corrected_note = sets.release_note(
        found_note.document, row=1, release=release, corrections=[fix]
    )
    assert corrected_note.released == NOTES[0]
    changed = {"n_notes_without_spans": 1, "n_replaced": 0, "spans": {}, "n_notes_corrected": 1}
    assert sets.census_of(corrected_note) == expected | changed
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
        tagged = begun(f"{seed:012x}", release=Release(mode="surrogate", seed=seed))
        tag_notes(
            open_notes(source),
            tagger=RuleTagger(),
            folder=tagged.path / sets.RESULT,
            release=tagged.how,
        )
        sets.write_index(tagged.path)
        found_notes = list(sets.read_notes(TAGGED_SETS.get(tagged.tagged_id)))
        names = [note.replacements[0].text for note in found_notes]
        assert names[0] == names[1] == names[3] and sex_of_given_name(names[0].split()[0]) == "F"
        assert sex_of_given_name(names[2].split()[0]) == "M"
        # Two weeks, and four, lie between the dates of the first patient.
        days = []
        for note in found_notes:
            month, day, year = note.replacements[-1].text.split("/")
            days.append(date(int(year), int(month), int(day)))
        assert ((days[3] - days[0]).days, (days[1] - days[0]).days) == (14, 28)
        index = sets.read_index(tagged)
        assert [sets.note_at(tagged, i, index=index) for i in range(4)] == found_notes
