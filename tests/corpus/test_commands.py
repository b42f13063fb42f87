"""Orders of corpora: as a task, as a job, as a command; hard files, plain refusals."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from audit.cli import main
from audit.corpus.corpora import CORPORA
from audit.corpus.make import CorpusTask
from audit.errors import AuditCancelled, AuditError
from audit.jobs import table
from audit.jobs.service import KINDS, recover
from audit.names.files import read_names
from audit.notes.passages import read_passages
from audit.progress import Progress
from audit.task import Contact, Question
from tests.corpus.make_notes import dummy_notes, lines, register_files

MAKING = ".0123456789ab.making"


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"notes": None}, "notes"),
        ({"columns": (("text", "a"), ("text", "b"))}, "columns: A column is given for no field"),
        ({"columns": (("body", "a"),)}, "columns: A column is given for no field"),
        ({"seed": True}, "seed"),
        ({"canary_counts": (1, 1)}, "canaries: The numbers of mentions are not distinct"),
        ({"canary_counts": (0,)}, "canary"),
        ({"corpus_id": "../../etc"}, "corpus_id"),
    ],
)
def test_what_cannot_be_made_is_refused(choices: dict[str, Any], words: str) -> None:
    with pytest.raises(AuditError) as refused:
        CorpusTask(**{"notes": Path("n.csv"), **choices})
    assert words in str(refused.value)


def contact(reports: list[Progress], *, n_asked: int = 10**6) -> Contact:
    """One who listens, and says stop when asked for the n-th time."""
    questions = count(1)
    return Contact(reports.append, lambda: next(questions) >= n_asked, lambda text: None)


def test_an_order_becomes_a_kept_corpus_once(tmp_path: Path) -> None:
    asked = CorpusTask(
        notes=dummy_notes(tmp_path),
        title="A ward",
        columns=(("text", "TEXT"),),
        canary_counts=(1, 2),
        n_canaries=1,
        sample=22,
    )
    question = asked.question()
    order = json.loads(json.dumps(question.order))
    assert CorpusTask.from_order(order) == asked
    assert (question.kind, question.audits, question.device) == ("corpus", (), "cpu")
    assert question.kind in KINDS and question.label == "NOTEEVENTS.csv"
    reports: list[Progress] = []
    (CORPORA.home() / MAKING / "corpus").mkdir(parents=True)  # left by a job that was killed
    with pytest.raises(AuditCancelled):
        CorpusTask.from_order(order).run(contact([], n_asked=9))
    assert list(CORPORA.home().iterdir()) == []
    (corpus_id,) = CorpusTask.from_order(order).run(contact(reports))
    corpus = CORPORA.get(corpus_id)
    assert (corpus.title, corpus.n_notes, reports[-1].share) == ("A ward", 22, 1)
    made_at = (corpus.path / "corpus.json").stat().st_mtime_ns
    assert CorpusTask.from_order(order).run(contact([])) == (corpus_id,)  # killed after it was made
    assert (corpus.path / "corpus.json").stat().st_mtime_ns == made_at
    mine = CorpusTask(notes=dummy_notes(tmp_path), out=tmp_path / "mine").question()
    CorpusTask.from_order(mine.order).run(contact([]))
    assert (tmp_path / "mine" / "corpus.json").is_file()
    assert [path.name for path in CORPORA.home().iterdir()] == [corpus_id]


def test_what_makes_another_question(tmp_path: Path) -> None:
    notes, register = register_files(tmp_path)
    question = CorpusTask(notes=notes).question()
    same = CorpusTask(notes=notes, title="T").question()
    assert question.digest == same.digest and question.order["corpus_id"] != same.order["corpus_id"]
    changed: list[dict[str, Any]] = [
        {"seed": 1},
        {"canary_counts": (1,)},
        {"out": tmp_path / "o"},
        {"register_file": register},
    ]
    digests = {CorpusTask(notes=notes, **change).question().digest for change in changed}
    notes.write_bytes(notes.read_bytes() + b"\n")
    digests.add(CorpusTask(notes=notes).question().digest)
    assert len(digests | {question.digest}) == 6
    for lost in ({"notes": tmp_path / "n.csv"}, {"notes": notes, "register_file": tmp_path / "r"}):
        with pytest.raises(AuditError, match="not there"):
            CorpusTask(**lost).question()


def test_what_a_cancelled_job_left_is_removed_when_it_is_settled() -> None:
    job = table.insert(Question("corpus", "notes", 0, "cpu", "q", (), {}))
    assert job is not None and table.claim(job.job_id)
    (CORPORA.home() / MAKING / "corpus").mkdir(parents=True)
    table.ask_to_cancel(job.job_id)
    recover()
    assert list(CORPORA.home().iterdir()) == []
    settled = table.get(job.job_id)
    assert settled is not None and settled.state == "cancelled"


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, Any, str]:
    code = main(["corpus", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, json.loads(out) if out else None, err


def test_from_notes_to_a_list_and_passages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = dummy_notes(tmp_path)
    code, built, err = call(
        capsys,
        "build",
        "--notes",
        notes,
        "--title",
        "Mine",
        "--canaries",
        "1,2",
        "--canary-names",
        2,
        "--sample",
        20,
        "--json",
    )
    assert code == 0
    corpus_id = built["corpus"]["corpus_id"]
    assert call(capsys, "list", "--json")[1]["corpora"] == [built["corpus"]]
    code, output, _ = call(capsys, "mentions", "--corpus", corpus_id, "--json")
    assert output["coverage"]["forms"]["is_a"] > 9 and output["canaries"] == [[1, 2], [2, 2]]
    assert output["carriers"] == {"patient": [[1, 6]], "staff": [[0, 6]]}
    code, written, _ = call(
        capsys,
        "candidates",
        "--corpus",
        built["folder"],
        "--out",
        tmp_path / "lists",
        "--controls",
        "easy,hard,recombined",
        "--json",
    )
    assert code == 0 and set(written["by_role"]) == {"canary", "patient"}
    names = read_names((tmp_path / "lists" / "names.csv").read_bytes())
    passages = read_passages((tmp_path / "lists" / "passages.jsonl").read_bytes())
    assert (len(names.candidates), len(passages)) == (written["n_names"], written["n_passages"])
    person = lines(Path(built["folder"]) / "people.jsonl")[5]
    first, last = person["first"], person["last"]
    mine = tmp_path / "mine.csv"  # two controls, of whom one is a patient
    mine.write_text(f"first_name,last_name,is_member\nQz,Xv,0\n{first.upper()},{last},0\n")
    drawn_list, own_list = (
        call(capsys, "check", "--corpus", corpus_id, "--names", path, "--json")
        for path in (tmp_path / "lists" / "names.csv", mine)
    )
    n = (Path(built["folder"]) / "private.jsonl").read_text().count(f"{first} {last}")
    assert (drawn_list[1]["n_found"], n > 3) == (0, True)
    assert own_list[1] == {"n_controls": 2, "n_found": 1, "found": [{"row": 3, "n_occurrences": n}]}
    assert "1 of 2 controls stand in D_private" in own_list[2] and last not in own_list[2]
    assert call(capsys, "forget", corpus_id)[0] == 0
    assert call(capsys, "list", "--json")[1] == {"corpora": []}
    notes, register = register_files(tmp_path)
    code, output, err = call(capsys, "build", "--notes", notes, "--register", register, "--json")
    assert (code, output["corpus"]["kind"], output["n_positives"]) == (0, "register", 2)
    assert "Sandoval" not in err


def test_notes_without_a_patient_column_are_said_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = dummy_notes(tmp_path).read_text()
    for heading, n_patients in (("WARD", None), ("person_id", 6)):
        notes = tmp_path / f"{heading}.csv"
        notes.write_text(text.replace("SUBJECT_ID", heading, 1))
        code, built, err = call(capsys, "build", "--notes", notes, "--json")
        assert (code, built["n_patients"], built["corpus"]["n_patients"]) == (
            0,
            n_patients,
            n_patients,
        )
        output = call(capsys, "mentions", "--corpus", built["corpus"]["corpus_id"])[2]
        for shown in (err, output):
            assert ("No patient column was found" in shown) == (n_patients is None)
