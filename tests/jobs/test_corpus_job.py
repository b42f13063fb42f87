"""The job "corpus": what makes two orders one question, and what an interrupted one leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.corpus.kept import CORPORA
from audit.corpus.make import CorpusTask
from audit.errors import AuditCancelled, AuditError
from audit.home import HOME_VARIABLE
from audit.jobs import table
from audit.jobs.kinds import KINDS
from audit.jobs.service import recover_device
from audit.progress import Progress
from audit.shelf import taken
from audit.task import Contact, Question
from tests.curation.make_corpora import dummy_notes, register_files


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def contact(seen: list[Progress], *, stop_at: float = 2.0) -> Contact:
    return Contact(
        lambda progress, part: seen.append(progress),
        lambda: bool(seen) and seen[-1].share >= stop_at,
        lambda text: None,
    )


def test_an_order_becomes_a_kept_corpus(tmp_path: Path) -> None:
    question = CorpusTask(notes=dummy_notes(tmp_path), title="A ward").question()
    order = json.loads(json.dumps(question.order))
    assert question.kind in KINDS and question.audits == () and question.device == "cpu"
    assert str(tmp_path) not in question.label and "A ward" not in question.label
    seen: list[Progress] = []
    (corpus_id,) = CorpusTask.answer(order, contact(seen))
    assert CORPORA.get(corpus_id).title == "A ward" and seen[-1].share == 1
    stamp = CORPORA.get(corpus_id).created
    assert CorpusTask.answer(order, contact([])) == (corpus_id,)  # killed after it was made
    assert CORPORA.get(corpus_id).created == stamp


def test_what_makes_another_question(tmp_path: Path) -> None:
    notes = dummy_notes(tmp_path)
    one = CorpusTask(notes=notes).question()
    same = CorpusTask(notes=notes, title="T", n_workers=2).question()
    assert one.digest == same.digest and one.order["corpus_id"] != same.order["corpus_id"]
    others = [CorpusTask(notes=notes, seed=1), CorpusTask(notes=notes, canary_counts=(1,))]
    digests = {order.question().digest for order in others}
    digests.add(CorpusTask(notes=notes, out=tmp_path / "o").question().digest)
    notes.write_bytes(notes.read_bytes() + b"\n")
    digests.add(CorpusTask(notes=notes).question().digest)
    assert len(digests | {one.digest}) == 5
    with pytest.raises(AuditError, match="not there"):
        CorpusTask(notes=tmp_path / "missing.csv").question()


def test_a_cancelled_job_leaves_nothing_and_begins_anew(tmp_path: Path) -> None:
    notes, register = register_files(tmp_path)
    order = CorpusTask(notes=notes, register_file=register).question().order  # fmt: skip
    with pytest.raises(AuditCancelled):
        CorpusTask.answer(order, contact([], stop_at=0.1))
    assert list(CORPORA.home().iterdir()) == []
    (corpus_id,) = CorpusTask.answer(order, contact([]))
    assert CORPORA.get(corpus_id).n_notes == 5


def test_what_killed_jobs_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    for name in (".0123456789ab.making", ".0123456789ac.forgotten", ".0123456789ad.making"):
        (CORPORA.home() / name / "corpus").mkdir(parents=True)
        (CORPORA.home() / name / "corpus" / "private.jsonl").write_text("notes")
    lock = taken(CORPORA.home() / ".0123456789ad.making", is_folder=True)
    assert lock is not None
    question = CorpusTask(notes=dummy_notes(tmp_path, n_patients=1)).question()
    (corpus_id,) = CorpusTask.answer(question.order, contact([]))
    assert {path.name for path in CORPORA.home().iterdir()} == {corpus_id, ".0123456789ad.making"}
    lock.release()


def test_a_corpus_may_lie_in_a_folder_of_ones_own(tmp_path: Path) -> None:
    question = CorpusTask(notes=dummy_notes(tmp_path), out=tmp_path / "mine").question()
    CorpusTask.answer(question.order, contact([]))
    assert (tmp_path / "mine" / "corpus.json").is_file() and not list(CORPORA.home().iterdir())


def test_what_a_killed_job_left_goes_when_the_job_is_settled(tmp_path: Path) -> None:
    job = table.insert(Question("corpus", "notes", 0, "cpu", "q", (), {}))
    assert job is not None and table.claim(job.job_id)
    left = CORPORA.home() / ".0123456789ab.making" / "corpus"
    left.mkdir(parents=True)
    (left / "private.jsonl").write_text("notes")
    table.ask_to_cancel(job.job_id)
    assert recover_device("cpu")
    assert list(CORPORA.home().iterdir()) == []
    settled = table.get(job.job_id)
    assert settled is not None and settled.state == "cancelled"
