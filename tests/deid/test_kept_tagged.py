"""Tagged sets: made, found, read note by note, searched, removed; and the files of their notes."""

from __future__ import annotations

import csv
import io
import json
import stat
import zipfile
from pathlib import Path

import pytest

from audit.deid.release import Release
from audit.deid.rules import RuleTagger
from audit.deid.tag import tag_notes
from audit.deid.tagged import (
    MAX_TYPED_CHARS,
    PRIVATE,
    RESULT,
    TAGGED_SETS,
    TaggedSet,
    begin_set,
    census_file,
    census_of,
    export_name,
    exported,
    note_at,
    notes_of,
    notes_with,
    read_index,
    released_note,
    tagged_text,
    write_index,
)
from audit.errors import AuditCancelled, AuditError
from audit.home import HOME_VARIABLE
from audit.notes.formats import read_files
from audit.notes.read import open_notes
from audit.notes.spans import Span, tagged

ID = "0123456789ab"
NOTES = (
    "氏名：高橋健一　2024年5月3日 受診。\n電話 03-1234-5678。",
    "特記なし。",
    '=cmd|"quoted" 氏名：伊藤花子 <5 mg/dL',
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def begun(tagged_id: str = ID, *, how: Release | None = None, **more: str) -> TaggedSet:
    settings = how or Release()
    return begin_set(
        tagged_id, source="uploaded", tagger_id="rules", tagger_digest=RuleTagger().digest,
        how=settings, given=b"private", **more,
    )  # fmt: skip


def made(tmp_path: Path, *, how: Release | None = None) -> TaggedSet:
    """Tag the notes into a set."""
    settings = how or Release()
    one = begun(how=settings, title=" Ward \n 7 ")
    source = tmp_path / "notes.jsonl"
    lines = [
        json.dumps({"doc_id": f"d{i}", "patient_id": "p1", "text": text}, ensure_ascii=False)
        for i, text in enumerate(NOTES)
    ]
    source.write_text("\n".join(lines), "utf-8")
    tag_notes(open_notes(source), tagger=RuleTagger(), out=one.path / RESULT, release=settings)
    assert not TAGGED_SETS.get(ID).is_whole
    write_index(one.path)
    return TAGGED_SETS.get(ID)


def test_a_set_is_begun_found_and_removed(tmp_path: Path) -> None:
    one = begun("a" * 12, title="x" * 200)
    assert not one.is_whole and one.n_notes == 0 and one.census is None and len(one.title) == 80
    assert begun("a" * 12, title="other").title == one.title  # what is there stays
    whole = made(tmp_path)
    assert whole.is_whole and whole.n_notes == 3 and whole.title == "Ward 7"
    assert {k: one["n"] for k, one in (whole.census or {})["spans"].items()} == {
        "identifier": 2, "quasi_identifier": 1, "contact": 1,
    }  # fmt: skip
    assert {one.tagged_id for one in TAGGED_SETS.all()} == {ID, "a" * 12}
    modes = {stat.S_IMODE(path.stat().st_mode) for path in TAGGED_SETS.home().rglob("*")}
    assert modes == {0o700, 0o600}
    TAGGED_SETS.forget(ID)
    assert [one.tagged_id for one in TAGGED_SETS.all()] == ["a" * 12]
    for call in (TAGGED_SETS.forget, TAGGED_SETS.get):
        with pytest.raises(AuditError, match="This is not kept here"):
            call(ID)
    with pytest.raises(AuditError, match="This is not kept here"):
        TAGGED_SETS.get("../../etc/pa")


def test_a_damaged_set_is_left_out_of_the_list(tmp_path: Path) -> None:
    one = made(tmp_path)
    (one.path / RESULT / "census.json").write_text('{"n_notes": 3, "spans": {"identifier": 2}}')
    assert TAGGED_SETS.all() == ()
    with pytest.raises(AuditError, match="damaged"):
        TAGGED_SETS.get(ID)


@pytest.mark.parametrize("mode", ["placeholder", "surrogate", "mask"])
def test_any_note_is_read_alone(tmp_path: Path, mode: str) -> None:
    one = made(tmp_path, how=Release(mode=mode, seed=3))
    index = read_index(one)
    assert len(index) == 3 and index[:, 2].tolist() == [3, 0, 1]
    alone = [note_at(one, number, index=index) for number in (2, 0, 1)]
    assert [note.document.text for note in alone] == [NOTES[2], NOTES[0], NOTES[1]]
    assert [alone[i] for i in (1, 2, 0)] == list(notes_of(one))
    kept = [
        json.loads(line)["text"]
        for line in (one.path / RESULT / "redacted.jsonl").read_text("utf-8").splitlines()
    ]
    for note in notes_of(one):
        assert note.released in kept and "高橋健一" not in note.released
        assert len(note.replacements) == len(note.document.spans)
        for one_of in note.replacements:
            assert note.released[one_of.new_start : one_of.new_end] == one_of.text


def test_a_text_that_is_released_already_stays(tmp_path: Path) -> None:
    document = tagged("1", text="氏名：高橋健一", spans=[Span(3, 7, "identifier")])
    note = released_note(document, row=1, release=Release(), kept="氏名：〇〇")
    assert note.released == "氏名：〇〇" and note.replacements == ()


def test_notes_are_searched_in_name_and_text_alone(tmp_path: Path) -> None:
    one = made(tmp_path)
    assert notes_with(one, text="高橋") == (0,)
    assert notes_with(one, text='"quoted"') == (2,)
    assert notes_with(one, text="\n電話") == (0,)
    assert notes_with(one, text="d1") == (1,)
    for word in ("identifier", "doc_id", "start", "p1"):
        assert notes_with(one, text=word) == ()


def test_an_index_that_does_not_fit_is_refused_and_making_it_can_be_stopped(tmp_path: Path) -> None:
    one = made(tmp_path)
    with pytest.raises(AuditCancelled):
        write_index(one.path, should_stop=lambda: True)
    (one.path / RESULT / "redacted.jsonl").write_text("")
    with pytest.raises(AuditError, match="damaged"):
        write_index(one.path)
    (one.path / "index.npy").write_bytes(b"no array")
    with pytest.raises(AuditError, match="damaged"):
        read_index(one)


def test_the_same_release_has_the_same_decisive_values() -> None:
    assert Release(seed=4).decisive() == Release(seed=5).decisive()
    assert Release(language="en").decisive() != Release().decisive()
    surrogates = [Release(mode="surrogate", seed=seed) for seed in (1, 2)]
    assert surrogates[0].decisive() != surrogates[1].decisive()
    for wrong in ({"mode": "blur"}, {"language": "fr"}, {"seed": -1}):
        with pytest.raises(AuditError):
            Release(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", PRIVATE)
def test_spans_come_back_from_every_format(tmp_path: Path, form: str) -> None:
    notes = list(notes_of(made(tmp_path)))
    data = exported(notes, form=form, n_notes=3, language="ja")
    name = export_name(form, n_notes=3)
    files = {name: data}
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as folder:
            files = {n: folder.read(n) for n in folder.namelist()}
    back = read_files(files, form="jsonl" if form == "spans" else form)
    assert [(d.doc_id, d.text, d.spans) for d in back] == [
        (note.document.doc_id, note.document.text, note.document.spans) for note in notes
    ]


def test_released_texts_hold_no_name_and_no_formula(tmp_path: Path) -> None:
    notes = list(notes_of(made(tmp_path)))
    table = exported(notes, form="csv", n_notes=3, language="ja").decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(table)))
    assert rows[0] == ["row", "text"] and [row[0] for row in rows[1:]] == ["1", "2", "3"]
    assert rows[3][1] == "'" + notes[2].released and rows[3][1].startswith("'=cmd")
    lines = exported(notes, form="jsonl", n_notes=3, language="ja").decode().splitlines()
    assert [json.loads(line)["text"] for line in lines] == [note.released for note in notes]
    with zipfile.ZipFile(io.BytesIO(exported(notes, form="text", n_notes=3, language="ja"))) as z:
        assert z.namelist() == ["note-1.txt", "note-2.txt", "note-3.txt"]
        assert z.read("note-1.txt").decode() == notes[0].released
    assert exported(notes[:1], form="text", n_notes=1, language="ja") == notes[0].released.encode()
    assert "高橋" not in table and "".join(lines).count("伊藤花子") == 0


def test_what_a_format_cannot_say_is_listed(tmp_path: Path) -> None:
    release = Release()
    texts = ("氏名：高橋健一", "bell \x07 氏名：高橋健一")
    notes = [released_note(tagged(str(i), text=text, spans=[Span(3, 5, "identifier")]), row=i,
                           release=release) for i, text in enumerate(texts)]  # fmt: skip
    with zipfile.ZipFile(
        io.BytesIO(exported(notes, form="i2b2", n_notes=2, language="ja"))
    ) as folder:
        assert folder.namelist() == ["0.xml", "left_out.csv"]
        assert "control character" in folder.read("left_out.csv").decode("utf-8-sig")
    with pytest.raises(ValueError, match="no such form"):
        exported(notes, form="pdf", n_notes=2, language="ja")


def test_one_text_is_tagged_at_once() -> None:
    release = Release(language="en")
    note = tagged_text(NOTES[0], tagger=RuleTagger(), release=release)
    assert "高橋健一" not in note.released and "[NAME]" in note.released
    census = json.loads(census_file(census_of(note, release=release)))
    assert census["spans"]["identifier"] == {"n": 1, "n_characters": 4}
    assert census["n_notes_without_spans"] == 0 and census["n_replaced"] == 3
    for text, why in ((" \n", "empty"), ("x" * (MAX_TYPED_CHARS + 1), "more than"), ("a\0", "NUL")):
        with pytest.raises(AuditError, match=why):
            tagged_text(text, tagger=RuleTagger(), release=release)
