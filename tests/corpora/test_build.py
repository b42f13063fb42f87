"""A corpus: byte-equal for any number of workers, whole or not there, nothing lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from audit.corpus.build import corpus_folder
from audit.corpus.kept import CORPORA
from audit.corpus.make import CorpusTask, make_corpus
from audit.errors import AuditCancelled, AuditError
from audit.notes.read import open_notes
from audit.progress import Progress
from tests.corpora.make_notes import CATEGORIES, DATES, every_category, note_row, write_notes

TEXT = (
    "[**Known firstname 1**] [**Known lastname 2**] is a 42 year old woman,\r\n"
    "seen [**2177-12-5**] by Dr. [**Last Name (STitle) 44**]. [**Spaceship 9**] «é»\n"
)


@pytest.fixture()
def notes(tmp_path: Path) -> Path:
    rows = [
        note_row(i, patient=i % 5, text=f"{TEXT}{i}\n" + (every_category() if i % 9 == 0 else ""))
        for i in range(60)
    ]
    bad = [("77", "1", "too", "few")]
    return write_notes(tmp_path / "NOTEEVENTS.csv", [*rows[:30], *bad, *rows[30:]])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def contents(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.name != "corpus.json"}


def built(notes: Path, out: Path, **choices: Any) -> dict[str, Any]:
    """Make a corpus and return its summary."""
    listen = {name: choices.pop(name) for name in ("progress", "should_stop") if name in choices}
    make_corpus(CorpusTask(notes=notes, **choices), out=out, **listen)
    summary: dict[str, Any] = json.loads((out / "summary.json").read_bytes())
    return summary


def test_the_files_of_a_corpus(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    summary = built(notes, out, seed=1)
    assert {path.name for path in out.iterdir()} == {
        *("private.jsonl", "public.jsonl", "truth.jsonl", "people.jsonl", "refused.jsonl"),
        *("summary.json", "candidates.csv", "passages.jsonl", "canaries.csv", "listed.json"),
        *("examination.json", "corpus.json"),
    }
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    private, public = lines(out / "private.jsonl"), lines(out / "public.jsonl")
    truth = {line["row"]: line for line in lines(out / "truth.jsonl")}
    assert [line["text"] for line in public] == [
        n.text for n in open_notes(notes).read() if hasattr(n, "text")
    ]
    for new, old in zip(private, public, strict=True):
        found = truth[new["row"]]
        for place in found["inserted"]:
            assert new["text"][place["start"] : place["stop"]] == place["value"]
            placeholder = old["text"][place["source_start"] : place["source_stop"]]
            assert placeholder.startswith(f"[**{place['category'][:4]}") or place["kind"] == "date"
        assert [left["category"] for left in found["left"]] == ["Spaceship"]
        assert new["chart_time"][:4] < "2020" < old["chart_time"]
    (refused,) = lines(out / "refused.jsonl")
    assert refused["row"] == 32
    assert refused["what"]["text"] == "The row has 4 cells where the header has 11."
    assert [summary[name] for name in ("n_notes", "n_refused", "n_patients")] == [60, 1, 5]
    assert summary["n_inserted"] == 60 * 4 + 7 * (2 * len(CATEGORIES) + len(DATES))
    assert summary["unknown"] == [
        {"category": "Spaceship", "kind": "unknown", "n": 60, "first_row": 2}
    ]
    assert not summary["has_blanks"]


def test_people_are_the_identities_of_the_notes(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "corpus"
    built(notes, out, seed=1)
    people = {line["identity"]: line for line in lines(out / "people.jsonl")}
    assert {line["sex"] for line in people.values()} == {"F"}
    n_full = dict.fromkeys(people, 0)
    for line in lines(out / "truth.jsonl"):
        for place in line["inserted"]:
            if place["role"] == "patient" and place["kind"] in ("first", "last"):
                assert place["value"] == people[line["patient"]][place["kind"]]
        n_full[line["patient"]] += 1
    for identity, person in people.items():
        # Every ninth note has all categories, where the patient is named once more in full.
        assert n_full[identity] <= person["n_full_names"] <= n_full[identity] * 3


def test_one_seed_gives_the_same_bytes_for_any_number_of_workers(
    notes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("audit.corpus.make._BATCH_NOTES", 7)
    for name, seed, n_workers in (("a", 1, 1), ("b", 1, 3), ("c", 2, 1)):
        built(notes, tmp_path / name, seed=seed, n_workers=n_workers)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert contents(tmp_path / "a")["private.jsonl"] != contents(tmp_path / "c")["private.jsonl"]
    assert contents(tmp_path / "a")["public.jsonl"] == contents(tmp_path / "c")["public.jsonl"]


def test_a_note_does_not_depend_on_the_notes_around_it(notes: Path, tmp_path: Path) -> None:
    built(notes, tmp_path / "all", seed=1)
    rows = [note_row(i, patient=i % 5, text=f"{TEXT}{i}\n") for i in range(60)]
    reverse = write_notes(tmp_path / "reverse.csv", [row for row in rows[::-1] if row[0] % 9])
    built(reverse, tmp_path / "reverse", seed=1)
    texts = {line["note_id"]: line["text"] for line in lines(tmp_path / "all" / "private.jsonl")}
    for line in lines(tmp_path / "reverse" / "private.jsonl"):
        assert _without_dates(texts[line["note_id"]]) == _without_dates(line["text"])


def _without_dates(text: str) -> str:
    # The interval depends on the first and last day of all of a patient's notes.
    return " ".join(word for word in text.split() if "-" not in word)


def test_progress_is_of_both_passes_and_ends_at_one(notes: Path, tmp_path: Path) -> None:
    told: list[Progress] = []
    built(notes, tmp_path / "out", seed=1, progress=told.append)
    assert told[-1].share == 1.0
    assert told[-1].phase == "drawing candidates"


def test_a_stopped_build_leaves_nothing(notes: Path, tmp_path: Path) -> None:
    with pytest.raises(AuditCancelled):
        built(notes, tmp_path / "x" / "out", should_stop=lambda: True)
    assert list((tmp_path / "x").iterdir()) == []


def test_what_is_there_is_never_written_over(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    built(notes, out, seed=1)
    before = contents(out)
    with pytest.raises(AuditError, match="something already"):
        built(notes, out, seed=2)
    assert contents(out) == before


def test_two_builds_of_one_folder_cannot_run_at_once(tmp_path: Path) -> None:
    with corpus_folder(tmp_path / "out", names=["a"]) as files:
        files["a"].write(b"x")
        with (
            pytest.raises(AuditError, match="being written"),
            corpus_folder(tmp_path / "out", names=["a"]),
        ):
            raise AssertionError("two builds at once")
    assert contents(tmp_path / "out") == {"a": b"x"}


KILLED = """
import sys
from pathlib import Path
from audit.corpus.build import corpus_folder
with corpus_folder(Path(sys.argv[1]), names=["private.jsonl"]) as files:
    files["private.jsonl"].write(b"x" * 5_000_000)
    print("writing", flush=True)
    sys.stdin.read()
"""


def test_a_killed_build_is_not_taken_for_a_corpus(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    repository = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(out)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(repository)},
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        process.send_signal(signal.SIGKILL)
    assert not out.exists()
    with pytest.raises(AuditError, match="damaged, or of another version"):
        CORPORA.at(out)
    assert built(notes, out, seed=1)["n_notes"] == 60
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_workers_end_with_a_killed_parent(notes: Path, tmp_path: Path) -> None:
    script = (
        "import sys, time, multiprocessing\nfrom pathlib import Path\n"
        "from audit.corpus.make import CorpusTask, make_corpus\n"
        "def told(report):\n"
        "    pids = [child.pid for child in multiprocessing.active_children()]\n"
        "    if pids:\n        print(*pids, flush=True)\n        time.sleep(60)\n"
        "if __name__ == '__main__':\n"
        "    make_corpus(CorpusTask(notes=Path(sys.argv[1]), n_workers=2),\n"
        "                out=Path(sys.argv[2]), progress=told)\n"
    )
    # Many small batches, so that there are workers while progress is told.
    rows = [note_row(i, patient=i, text="word " * 20_000) for i in range(60)]
    write_notes(notes, rows)
    (tmp_path / "script.py").write_text(script)
    repository = Path(__file__).resolve().parents[2]
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(notes), str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(repository)},
    )
    with process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        process.send_signal(signal.SIGKILL)
    assert pids
    deadline = time.monotonic() + 30
    while any(map(_is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_is_running, pids))


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_to_build_is_said(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="No row is a note"):
        built(write_notes(tmp_path / "n.csv", []), tmp_path / "o", seed=1)
    assert not (tmp_path / "o").exists()


def test_blanks_are_placeholders_where_no_note_has_marks(tmp_path: Path) -> None:
    rows = [note_row(1, patient=1, text="Name:  ___ \nMs. ___ is a ___ year old, sign ___ here")]
    out = tmp_path / "out"
    summary = built(write_notes(tmp_path / "n.csv", rows), out, seed=1)
    assert (summary["has_blanks"], summary["n_inserted"], summary["n_left"]) == (True, 3, 1)
    assert summary["n_named_patients"] == 1
