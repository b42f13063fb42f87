"""Tagging a file of notes: what is written, in which batches, and that a kill leaves no trace."""

from __future__ import annotations

import json
import shutil
import stat
import tracemalloc
from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from audit.deid.find.copies import read_copies
from audit.deid.find.rules import RuleTagger
from audit.deid.find.tagger import Tagger
from audit.deid.find.tagger_facts import TaggerFacts
from audit.deid.find.taggers import SHIPPED, load_tagger
from audit.deid.redact.release import Release
from audit.deid.sets.tagging import tag_notes
from audit.errors import AuditCancelled, AuditError
from audit.notes.read import open_notes
from audit.notes.spans import TYPES
from audit.patients.register import read_register
from audit.progress import Progress
from tests.deid.make_scores import Copying, Killed, bytes_of

LINE = "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。特記なし。\n"
LONG = "氏名：高橋健一　受診。特記なし。" * 1875


class Dying(RuleTagger):
    """Tags so many batches, counts their texts, and is killed."""

    def __init__(self, *groups: str, n_left: int = 100) -> None:
        super().__init__(*[groups] * bool(groups))
        self.n_left = n_left
        self.calls: list[int] = []

    def tag(self, texts):  # type: ignore[no-untyped-def]
        if len(self.calls) == self.n_left:
            raise Killed
        self.calls.append(len(texts))
        return super().tag(texts)


def of_texts(path: Path, texts: Sequence[str]) -> Path:
    lines = [json.dumps({"id": str(i), "text": text}) + "\n" for i, text in enumerate(texts)]
    path.write_text("".join(lines), "utf-8")
    return path


def notes_file(path: Path, *, n: int = 300) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for i in range(n):
            text = LINE * (1 + i % 3) if i % 10 else "特記なし。"
            record = {"doc_id": f"d{i // 2}", "patient_id": f"p{i % 7}", "text": text}
            record = record if i % 25 else {"doc_id": "x", "text": " "}
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
    return path


def tag(path: Path, out: Path, tagger: Tagger | None = None, **more: Any) -> dict[str, Any]:
    release = more.pop("release", Release())
    return tag_notes(
        open_notes(path), tagger=tagger or RuleTagger(), folder=out, release=release, **more
    )


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds go by between any two looks at the clock: every step is told and noted."""
    clock = count(0.0, 10.0)
    monkeypatch.setattr("time.monotonic", lambda: next(clock))


def test_spans_released_texts_and_a_census(tmp_path: Path) -> None:
    census = tag(notes_file(tmp_path / "n.jsonl"), tmp_path / "out")
    files = bytes_of(tmp_path / "out")
    notes = lines_of(tmp_path / "out" / "spans.jsonl")
    released = lines_of(tmp_path / "out" / "redacted.jsonl")
    refused = lines_of(tmp_path / "out" / "refused.jsonl")
    assert json.loads(files.pop("census.json")) == census
    n = 528
    assert census == {
        "tagger": {"name": "rules", "digest": RuleTagger().digest, "labels": [*TYPES]},
        "mode": "placeholder",
        "n_notes": 288,
        "n_refused": 12,
        "n_found_again": 0,
        "n_characters": sum(len(note["text"]) for note in notes),
        "n_notes_without_spans": 24,
        "n_replaced": 3 * n,
        "n_notes_of_no_language": 0,
        "spans": {
            "identifier": {"n": n, "n_characters": 4 * n},
            "quasi_identifier": {"n": n, "n_characters": 9 * n},
            "contact": {"n": n, "n_characters": 12 * n},
        },
        "sha256": {"redacted.jsonl": sha256(files["redacted.jsonl"]).hexdigest()},
    }
    assert sorted(files) == ["redacted.jsonl", "refused.jsonl", "spans.jsonl"]
    assert [line["row"] for line in refused] == list(range(1, 301, 25))
    assert [line["row"] for line in released] == [row for row in range(1, 301) if row % 25 != 1]
    assert released[0] == {
        "row": 2,
        "text": 2 * ("氏名：【氏名】　【日付】 受診。電話 【連絡先】。特記なし。\n"),
    }
    assert [note["doc_id"] for note in notes[:4]] == ["d0", "d1", "d1#4", "d2"]
    assert notes[0]["patient_id"] == "p1" and len({note["doc_id"] for note in notes}) == 288
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").iterdir()} == {0o600}
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700


@pytest.mark.long
def test_a_killed_run_goes_on_with_what_was_found_in_the_same_notes_by_the_same_tagger(
    tmp_path: Path, always: None
) -> None:
    path = notes_file(tmp_path / "n.jsonl")
    text = path.read_text("utf-8")
    for number, (clock_time, tagger, n_calls) in enumerate(
        (
            (text, Dying(), 3),
            (text, Dying("dates"), 5),
            (text.replace("健一", "花子"), Dying(), 5),
            (text[: len(text) // 4], Dying(), 1),
        )
    ):
        out, new = tmp_path / f"out{number}", tmp_path / f"new{number}"
        path.write_text(text, "utf-8")
        with pytest.raises(Killed):
            tag(path, out, Dying(n_left=2))
        assert not out.exists()
        with (tmp_path / f".{out.name}.making" / "spans.jsonl").open("ab") as file:
            file.write(b'{"half a li')
        path.write_text(clock_time, "utf-8")
        tag(path, out, tagger)
        assert len(tagger.calls) == n_calls
        tag(path, new, tagger)
        assert bytes_of(out) == bytes_of(new)
        assert not [*tmp_path.glob("*.making")]


@pytest.mark.long
@pytest.mark.parametrize("tagger_id", ["rules", "default"])
def test_several_processes_write_the_same_bytes_and_go_on_after_a_stop(
    tagger_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.deid.sets.tagging._MANY_CHARS", 1000)
    path, tagger = notes_file(tmp_path / "n.jsonl"), load_tagger(tagger_id)
    with path.open("a", encoding="utf-8") as file:  # told in one note, found in another one
        for text in ("担当は Dr. Ann Whitlock です。", "Whitlock が診察した。" * 20):
            file.write(json.dumps({"doc_id": "w", "patient_id": "w", "text": text}) + "\n")
    table = tmp_path / "r.csv"
    table.write_text("patient_id,last_name\np1,特記\n", "utf-8")
    options = {"release": Release(mode="surrogate"), "register": read_register(table)}
    alone = tag(path, tmp_path / "alone", tagger, **options)
    assert alone["n_found_again"] > 20
    questions, answers_file = [], tmp_path / ".there.making" / "answers.jsonl"

    def should_stop() -> bool:
        questions.append(1)
        return answers_file.exists() and answers_file.read_bytes().count(b"\n") > 1

    with pytest.raises(AuditCancelled):
        tag(path, tmp_path / "there", tagger, n_workers=2, should_stop=should_stop, **options)
    assert questions and answers_file.exists() and not (tmp_path / "there").exists()
    assert tag(path, tmp_path / "there", tagger, n_workers=2, **options) == alone
    assert bytes_of(tmp_path / "there") == bytes_of(tmp_path / "alone")


@pytest.mark.long
def test_a_tagger_that_changed_under_way_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.deid.sets.tagging._MANY_CHARS", 1000)
    folder = shutil.copytree(SHIPPED, tmp_path / "copy")
    tagger = load_tagger(str(folder))
    (folder / "tagger.json").write_bytes(TaggerFacts.of_folder(folder).with_(bias=9.0).file())
    with pytest.raises(AuditError, match="have changed"):
        tag(notes_file(tmp_path / "n.jsonl"), tmp_path / "out", tagger, n_workers=2)


def test_a_file_without_notes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="No row is a note"):
        tag(of_texts(tmp_path / "none.jsonl", [" "]), tmp_path / "out")


def test_a_slow_tagger_gets_little_at_once_and_loses_no_more(tmp_path: Path, always: None) -> None:
    texts = ["短い。"] * 10 + [LONG, "短い。", LONG] + ["a" * 9_000] * 3
    path = of_texts(tmp_path / "n.jsonl", texts)
    full_tagger = Copying()
    census = tag(path, tmp_path / "whole", full_tagger)
    assert full_tagger.calls == [[3] * 8, [3, 3, 30_000], [3, 30_000], [9_000] * 3]
    lines = lines_of(tmp_path / "whole" / "copies.jsonl")
    assert [line["doc_id"] for line in lines] == [str(i) for i in range(16)]
    assert census["copies"]["statuses"]["exact"] == census["copies"]["n_notes"] == 16
    assert census["copies"] == read_copies(tmp_path / "whole").summary().plain()
    with pytest.raises(Killed):
        tag(path, tmp_path / "out", Copying(n_left=2))
    rest = Copying()
    tag(path, tmp_path / "out", rest)
    assert rest.calls == full_tagger.calls[2:]
    assert bytes_of(tmp_path / "whole") == bytes_of(tmp_path / "out")


def test_progress_moves_inside_a_long_note_and_a_person_can_stop_there(
    tmp_path: Path, always: None
) -> None:
    path = of_texts(tmp_path / "n.jsonl", [LONG])
    reports: list[Progress] = []
    tag(path, tmp_path / "out", Copying(), progress=reports.append)
    shares = [report.share for report in reports]
    assert shares == sorted(shares) and len(set(shares)) >= 30
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    shares_reported: list[float] = []
    with pytest.raises(AuditCancelled):
        tag(
            path,
            tmp_path / "stopped",
            Copying(),
            progress=lambda line: shares_reported.append(line.share),
            should_stop=lambda: bool(shares_reported) and shares_reported[-1] > 0.5,
        )
    assert 0.5 < shares_reported[-1] < 0.6
    with pytest.raises(AuditCancelled):
        tag(path, tmp_path / "never", should_stop=lambda: True)
    assert not (tmp_path / "never").exists()


def test_the_borders_of_batches_depend_on_the_rows_alone(tmp_path: Path, always: None) -> None:
    texts = ["aaa", " ", "b" * 199_000, "c" * 997, "d", *["e"] * 130]
    counting = Dying("dates")
    tag(of_texts(tmp_path / "n.jsonl", texts), tmp_path / "out", counting)
    assert counting.calls == [3, 64, 64, 3]


@pytest.mark.long
def test_memory_does_not_grow_with_the_file_and_a_long_note_is_a_note(tmp_path: Path) -> None:
    peaks = []
    for n in (100, 400):
        path = of_texts(tmp_path / f"{n}.jsonl", [LINE * (30_000 // len(LINE)), *[LINE * 5] * n])
        tracemalloc.start()
        census = tag(path, tmp_path / f"out{n}", RuleTagger(("dates",)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert census["n_notes"] == n + 1
    assert peaks[1] < 1.3 * peaks[0] + 1_000_000
