"""Tagging a file of notes: what is written, and that a kill leaves no trace in it."""

from __future__ import annotations

import json
import stat
import tracemalloc
from pathlib import Path

import pytest

from audit.deid import tag as tag_files
from audit.deid.release import Release
from audit.deid.rules import RuleTagger
from audit.deid.tag import tag_notes
from audit.errors import AuditCancelled, AuditError
from audit.notes.read import open_notes

LINE = "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。特記なし。\n"


class Killed(BaseException):
    """What no code catches."""


class Dying(RuleTagger):
    """Tags so many batches and is killed."""

    n_left = 2

    def tag(self, texts):  # type: ignore[no-untyped-def]
        type(self).n_left -= 1
        if type(self).n_left < 0:
            raise Killed
        return super().tag(texts)


def notes_file(path: Path, *, n: int = 300) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            text = LINE * (1 + i % 3) if i % 10 else "特記なし。"
            record = {"doc_id": f"d{i // 2}", "patient_id": f"p{i % 7}", "text": text}
            file.write(json.dumps(record if i % 25 else {"doc_id": "x", "text": " "}) + "\n")
    return path


def tag(path: Path, out: Path, *, tagger=None, release=None, **more):  # type: ignore[no-untyped-def]
    return tag_notes(
        open_notes(path),
        tagger=tagger or RuleTagger(),
        out=out,
        release=release or Release(),
        **more,
    )


def lines_of(path: Path) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_spans_released_texts_and_a_census(tmp_path: Path) -> None:
    census = tag(notes_file(tmp_path / "n.jsonl"), tmp_path / "out")
    files = bytes_of(tmp_path / "out")
    assert sorted(files) == ["census.json", "redacted.jsonl", "refused.jsonl", "spans.jsonl"]
    assert json.loads(files["census.json"]) == census
    assert (census["n_notes"], census["n_refused"]) == (288, 12)
    notes = [json.loads(line) for line in files["spans.jsonl"].splitlines()]
    released = [json.loads(line) for line in files["redacted.jsonl"].splitlines()]
    assert len({note["doc_id"] for note in notes}) == len(notes) == len(released) == 288
    assert set(released[0]) == {"row", "text"}
    assert not any(name in one["text"] for one in released for name in ("高橋", "2024", "1234"))
    assert sum(len(note["spans"]) for note in notes) == sum(
        entry["n"] for entry in census["spans"].values()
    )
    for note in notes[:20]:
        assert {note["text"][s["start"] : s["end"]] for s in note["spans"]} <= {
            "高橋健一", "2024年5月3日", "03-1234-5678"
        }  # fmt: skip
    for path in (tmp_path / "out").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700


@pytest.mark.parametrize("n_batches", [1, 2, 4])
def test_a_run_that_was_killed_goes_on_and_gives_equal_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_batches: int
) -> None:
    path = notes_file(tmp_path / "n.jsonl")
    tag(path, tmp_path / "whole")
    monkeypatch.setattr(tag_files, "_KEEP_SECONDS", 0.0)
    Dying.n_left = n_batches
    with pytest.raises(Killed):
        tag(path, tmp_path / "out", tagger=Dying())
    assert not (tmp_path / "out").exists()
    with (tmp_path / ".out.making" / "spans.jsonl").open("ab") as file:
        file.write(b'{"half a li')
    Dying.n_left = 100
    tag(path, tmp_path / "out", tagger=Dying())
    assert 100 - Dying.n_left == 5 - n_batches, "what was finished is not tagged again"
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "whole")
    assert not (tmp_path / ".out.making").exists()


def test_other_settings_begin_anew_and_other_notes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = notes_file(tmp_path / "n.jsonl")
    monkeypatch.setattr(tag_files, "_KEEP_SECONDS", 0.0)
    for expected in ("other notes", "other settings"):
        Dying.n_left = 2
        with pytest.raises(Killed):
            tag(path, tmp_path / "out", tagger=Dying())
        if expected == "other notes":
            text = path.read_text("utf-8")
            path.write_text(text.replace("p1", "p2"), "utf-8")
            with pytest.raises(AuditError, match="changed while"):
                tag(path, tmp_path / "out")
            path.write_text(text, "utf-8")
    tag(path, tmp_path / "out", release=Release(mode="mask"))
    tag(path, tmp_path / "mask", release=Release(mode="mask"))
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "mask")


def test_a_person_who_stops_keeps_what_is_done(tmp_path: Path) -> None:
    path = notes_file(tmp_path / "n.jsonl")
    with pytest.raises(AuditCancelled):
        tag(path, tmp_path / "out", should_stop=lambda: True)
    assert not (tmp_path / "out").exists()
    reports = []
    tag(path, tmp_path / "out", progress=reports.append)
    assert reports[-1].share == 1.0 and (tmp_path / "out" / "census.json").exists()


def test_surrogates_are_the_same_in_every_note_of_a_patient(tmp_path: Path) -> None:
    path = notes_file(tmp_path / "n.jsonl", n=60)
    release = Release(mode="surrogate", seed=1)
    census = tag(path, tmp_path / "out", release=release)
    assert census["n_replaced_by_itself"] == 0
    source = lines_of(tmp_path / "out" / "spans.jsonl")
    released = lines_of(tmp_path / "out" / "redacted.jsonl")
    of_patient: dict[str, set[str]] = {}
    for one, other in zip(source, released, strict=True):
        if one["spans"]:
            of_patient.setdefault(one["patient_id"], set()).add(other["text"].splitlines()[0])
    assert {len(lines) for lines in of_patient.values()} == {1}
    assert len({line for lines in of_patient.values() for line in lines}) == len(of_patient) == 7


def test_a_folder_that_holds_something_and_a_file_without_notes(tmp_path: Path) -> None:
    path = notes_file(tmp_path / "n.jsonl", n=3)
    with pytest.raises(AuditError, match="There is something already"):
        tag(path, tmp_path)
    (tmp_path / "none.jsonl").write_text('{"text": " "}\n')
    with pytest.raises(AuditError, match="No row is a note"):
        tag(tmp_path / "none.jsonl", tmp_path / "out")


def test_memory_does_not_grow_with_the_file_and_a_long_note_is_a_note(tmp_path: Path) -> None:
    peaks = []
    for n in (100, 400):
        path = tmp_path / f"{n}.jsonl"
        long = json.dumps({"text": LINE * (30_000 // len(LINE))})
        short = json.dumps({"text": LINE * 5})
        path.write_text("\n".join([long, *[short] * n]), "utf-8")
        tracemalloc.start()
        census = tag(path, tmp_path / f"out{n}", tagger=RuleTagger(("dates",)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert census["n_notes"] == n + 1
    assert peaks[1] < 1.3 * peaks[0] + 1_000_000
