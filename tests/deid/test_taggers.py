"""Taggers by identifier, shipped and trained here; what was measured of the shipped ones."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from audit.deid.find import taggers
from audit.deid.find.tagger import tag_and_check
from audit.deid.find.taggers import (
    DEFAULT,
    RULES,
    SHIPPED,
    TAGGERS,
    find_trained_tagger,
    load_tagger,
)
from audit.deid.learn.tagger_task import TaggerTask
from audit.errors import AuditCancelled, AuditError
from audit.task import Contact
from benchmarks.default_tagger import Recipe, make, measure_again
from tests.deid.make_scores import quiet
from tests.deid.token.make_notes import quick, task
from tests.repository import REPOSITORY

KEPT = "trained/0123456789ab"


def test_the_shipped_ones_come_first_and_are_what_they_say() -> None:
    shipped = taggers.list_taggers()
    assert [(entry.tagger_id, entry.kind, entry.title, entry.is_quick) for entry in shipped] == [
        (DEFAULT, "combined", "", True),
        (RULES, "rules", "", True),
    ]
    for entry in shipped:
        tagger = load_tagger(entry.tagger_id, device="cpu")
        assert tagger.digest == entry.digest and tagger.name == entry.tagger_id
        assert len(tag_and_check(tagger, ["氏名：山田太郎　電話 03-1234-5678"])[0]) == 2
    # If only the rules have changed: python -m benchmarks.default_tagger --measure-again,
    # and python -m benchmarks.deid_unseen --keep
    for name in ("how.json", "hand_written.json"):
        figures = json.loads((SHIPPED / name).read_text("utf-8"))
        assert (figures["digest"], figures["rules_digest"]) == tuple(
            entry.digest for entry in shipped
        )
    assert sum(path.stat().st_size for path in SHIPPED.rglob("*") if path.is_file()) < 5_000_000


@pytest.mark.long
def test_the_default_tagger_reads_without_torch() -> None:
    program = (
        "import sys\nfrom audit.deid.find.taggers import load_tagger\n"
        "print(len(load_tagger('default').tag(['氏名：山田太郎'])[0]), 'torch' in sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert process.stdout.split() == ["1", "False"]


@pytest.mark.long
def test_the_job_trains_one_that_is_kept_listed_loaded_and_forgotten(tmp_path: Path) -> None:
    messages: list[str] = []
    job_task = task(tmp_path / "o", settings=quick(n_epochs=0.5), title="<b>").with_(out=None)
    order = job_task.question().order
    with pytest.raises(AuditCancelled):
        TaggerTask.from_order(order).run(Contact(lambda *_: None, lambda: True, messages.append))
    (tagger_folder,) = TAGGERS.home().iterdir()
    with pytest.raises(AuditError, match="not finished"):
        find_trained_tagger(f"trained/{tagger_folder.name}")
    (tagger_id,) = TaggerTask.from_order(order).run(replace(quiet(), say=messages.append))
    assert "40 notes to learn from, 8 to measure on." in messages and "recall" in messages[-1]
    (TAGGERS.home() / "other").mkdir()
    (entry,) = TAGGERS.all()
    assert (entry.tagger_id, entry.kind, entry.title) == (tagger_id, "token", "<b>")
    assert (
        entry == find_trained_tagger(tagger_id)
        and entry.created
        and entry.training
        and entry.points
    )
    measured = entry.measured
    assert entry.validation == {
        "n_gold": 24,
        "n_found": 24 - measured["n_missed"],
        "n_predicted": measured["n_predicted"],
        "n_right": measured["n_predicted"] - measured["n_spurious"],
    }
    tagger = load_tagger(tagger_id, device="cpu")
    assert taggers.list_taggers()[-1].digest == tagger.digest == entry.digest
    TAGGERS.forget(tagger_folder.name)
    assert TAGGERS.all() == ()


@pytest.mark.parametrize("name", ["", "x", "trained/", "trained/../rules", KEPT.upper(), KEPT])
def test_what_is_no_identifier_names_no_tagger(name: str) -> None:
    with pytest.raises(AuditError, match=r"not kept here|no such tagger"):
        load_tagger(name)


def test_a_folder_that_is_no_tagger_is_refused(tmp_path: Path) -> None:
    for content in (None, "[]", '{"kind": "x"}'):
        if content:
            (tmp_path / "tagger.json").write_text(content)
        with pytest.raises(AuditError, match="no such tagger"):
            taggers.load_tagger_folder(tmp_path)


@pytest.mark.parametrize("version", [0, 2])
def test_a_tagger_of_another_version_is_refused(version: int) -> None:
    content = json.loads((SHIPPED / "tagger.json").read_bytes())
    files = {"tagger.json": json.dumps(content).encode()}
    assert TAGGERS.keep_files(KEPT.removeprefix("trained/"), files).tagger_id == KEPT
    files = {"tagger.json": json.dumps(content | {"version": version}).encode()}
    with pytest.raises(AuditError, match="tagger: This was written by another version"):
        TAGGERS.keep_files(KEPT.removeprefix("trained/"), files)
    with pytest.raises(AuditError, match="tagger: This was written by another version"):
        find_trained_tagger(KEPT)


def test_figures_are_shown_only_for_the_tagger_they_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = json.loads((SHIPPED / "hand_written.json").read_text("utf-8"))
    (tmp_path / "hand_written.json").write_text(json.dumps(figures | {"rules_digest": "another"}))
    assert taggers.shipped_figures(DEFAULT)[0].n_notes == 60
    monkeypatch.setattr(taggers, "SHIPPED", tmp_path)
    assert [len(taggers.shipped_figures(name)) for name in (RULES, DEFAULT, KEPT)] == [0, 2, 0]


@pytest.mark.long
def test_the_default_is_made_and_measured_again(tmp_path: Path) -> None:
    folder = tmp_path / "default"
    facts = make(folder, Recipe(n_notes=12, n_written=12, n_validation=4, n_test=6, n_epochs=0.5))
    assert json.loads((folder / "how.json").read_text("utf-8")) == facts
    assert set(facts["held_out"]) == {"rules alone", "model alone", "default"}
    assert facts["held_out"]["default"]["ja"]["n_notes"] == 3
    assert measure_again(folder) == facts
    names = {path.name for path in folder.iterdir()}
    assert names == {"how.json", "tagger.json", "model"}
    assert {path.name for path in tmp_path.iterdir()} <= {folder.name, "home"}
