"""A whole audit: answered again from the store, and stopped or killed it ends the same."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from audit import run
from audit.attack.question import AuditRequest
from audit.errors import AuditCancelled, AuditError
from audit.progress import Progress
from audit.report.audit_store import read_finished_sizes, read_inspection
from audit.report.export import write_report
from audit.report.report import AuditReport
from cache.store import Store
from tests.cache.make_store import value_files
from tests.models.editing import edit_weights
from tests.one_thread import one_thread
from tests.small_audit import (
    answer,
    content,
    finished,
    make_small,
    models,
    request_of,
    same_answer,
    shard_kinds,
    small,
)

__all__ = ["finished", "models", "one_thread", "shard_kinds", "small"]
N_KILLS = 10


def files_of(report: AuditReport, out: Path) -> dict[str, bytes]:
    """Return the bytes of the files an audit is given out in, `made` excluded."""
    paths = write_report(report.changed(made={}), out)
    return {path.name: path.read_bytes() for path in paths}


# --- two models that are one ---


@pytest.mark.parametrize("scenario", [1, 2])
def test_one_model_saved_in_another_form_is_not_compared_with_itself(
    models, tmp_path, shard_kinds, scenario
):
    hospital = Path(shutil.copytree(models.general, tmp_path / "hospital"))
    edit_weights(hospital, lambda t: t.update({name: x.double() for name, x in t.items()}))
    request = request_of(models, scenario, hospital=hospital)
    assert request.question()["general"] != request.question()["hospital"]  # other bytes
    with pytest.raises(AuditError, match="are the same model: nothing is compared"):
        answer(request, tmp_path / "store")
    assert not shard_kinds


# --- the store ---


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
def test_the_same_question_is_answered_without_loading_a_model(
    models, finished, tmp_path, monkeypatch, scenario
):
    def refuse(*args, **kwargs):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("audit.models.load.load_pair", refuse)
    report, directory = finished[scenario]
    again = answer(request_of(models, scenario), directory)
    assert again.made == report.made
    assert same_answer(report, again)
    assert files_of(report, tmp_path / "a") == files_of(again, tmp_path / "b")


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
def test_a_damaged_shard_is_made_again_to_the_same_bytes(
    models, finished, tmp_path, shard_kinds, scenario
):
    report, directory = finished[scenario]
    answer(request_of(models, scenario), tmp_path)
    first_content, n_made = content(tmp_path), len(shard_kinds)
    assert first_content == content(directory)
    shard_kinds.clear()
    n_damaged = 0
    shards: list[Path] = []
    for path in value_files(tmp_path):
        data = bytearray(path.read_bytes())
        if b"shard/" in data[:60] and read_by_an_audit(path, tmp_path):
            shards.append(path)
        if b"audit/" in data[:60] or path in shards[:1]:
            data[-40] ^= 1
            path.write_bytes(data)
            n_damaged += 1
    assert (len(shards), n_damaged) == (n_made, 2)
    with Store(tmp_path) as store:
        again = run.run_audit(request_of(models, scenario), store=store)
        assert store.n_corrupt == 2
    assert len(shard_kinds) == 1
    assert same_answer(report, again)
    assert content(tmp_path) == first_content


@pytest.mark.long
def test_a_report_of_another_version_is_made_again_from_its_evidence(models, tmp_path, shard_kinds):
    first = answer(request_of(models, 1), tmp_path)
    shard_kinds.clear()
    with Store(tmp_path) as store:
        store.put_record(f"audit/{first.digest}", {**first.to_json(), "schema": 0})
        again = run.run_audit(request_of(models, 1), store=store)
        assert same_answer(first, again)
        assert same_answer(first, AuditReport.from_json(store.get_record(f"audit/{first.digest}")))
    assert shard_kinds == []


# --- what a report says ---


def test_blocks_of_the_inspection_add_up_to_the_scores(finished):
    report, directory = finished[2]
    with Store(directory) as store:
        inspection = read_inspection(report.digest, store=store)
    weights = inspection.n_per_block[:, None] / inspection.n_per_block.sum()
    score = np.array(report.names["mean_log_ratio"], dtype=float)
    ratio = ((inspection.hospital - inspection.general) * weights).sum(axis=0)
    np.testing.assert_allclose(ratio, score, rtol=1e-3, atol=1e-5)
    assert inspection.passages
    assert (inspection.best_passages[:, 0] >= 0).all()
    assert len(inspection.reference_score) == report.candidates.n_reference


@pytest.fixture
def fast_clock(monkeypatch) -> None:
    """Let a second pass between any two looks at the clock, so that everything is reported."""
    seconds = iter(range(10**9))
    monkeypatch.setattr("audit.progress.time", SimpleNamespace(monotonic=lambda: next(seconds)))


# --- progress and stopping ---


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "changes"),
    [
        (1, {}),
        (2, {}),
        (2, {"is_dropout_on": False}),
        (2, {"n_chain_inputs": 20, "n_inputs": 230, "micro_batch": 64}),
    ],
)
def test_shares_rise_to_one(models, tmp_path, fast_clock, scenario, changes):
    request = request_of(models, scenario)
    request = request.with_(posterior=request.posterior.with_(**changes))
    reports: list[Progress] = []
    answer(request, tmp_path, progress=reports.append)
    shares = [progress.share for progress in reports]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert shares.count(1.0) == 1
    phases = list(dict.fromkeys(progress.phase for progress in reports))
    assert (phases[0], phases[-1]) == ("loading", "finishing")
    assert len(phases) == 2 + 2 * (1 + ("n_chain_inputs" in changes))


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
@pytest.mark.parametrize("stop_by", ["should_stop", "SIGINT"])
def test_a_stopped_run_keeps_its_finished_shards(
    models, finished, tmp_path, shard_kinds, fast_clock, scenario, stop_by
):
    def interrupt(progress: Progress) -> None:
        if stop_by == "SIGINT" and len(shard_kinds) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(AuditCancelled if stop_by == "should_stop" else KeyboardInterrupt):
        answer(
            request_of(models, scenario),
            tmp_path,
            progress=interrupt,
            should_stop=lambda: stop_by == "should_stop" and len(shard_kinds) == 3,
        )
    with Store(tmp_path) as store:
        assert len(store.keys("shard/")) == 3 * 2  # the list's, and what depends on no list
        assert store.keys("audit/") == ()
    shard_kinds.clear()
    report, directory = finished[scenario]
    resumed = answer(request_of(models, scenario), tmp_path)
    assert len(shard_kinds) == (7 if scenario == 1 else 5)
    assert same_answer(report, resumed)
    assert content(tmp_path) == content(directory)


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "chain", "n_shards", "part"),
    [
        (1, 0, 4, {}),
        (1, 0, 7, {"n_documents": 200}),
        (2, 0, 6, {"n_inputs": 400, "n_chain_inputs": 0}),
        (2, 120, 11, {"n_inputs": 800, "n_chain_inputs": 100}),
    ],
)
def test_what_both_models_finished_of_a_stopped_run_is_an_audit_at_no_cost(
    models, tmp_path, shard_kinds, scenario, chain, n_shards, part
):
    request = request_of(models, scenario)
    request = request.with_(posterior=request.posterior.with_(n_chain_inputs=chain))
    for stop_at in (n_shards, 0):  # stopped again at once, while shards come from the store
        with pytest.raises(AuditCancelled):
            answer(request, tmp_path / "one", should_stop=lambda at=stop_at: len(shard_kinds) >= at)
    with Store(tmp_path / "one") as store:
        assert read_finished_sizes(request.audit_digest(), store=store) == part
    if part:
        smaller = run.AuditTask(request=request).with_sizes(part).request
        assert request.settings.with_(**part) == smaller.settings
        report = answer(smaller, tmp_path / "one")
        assert len(shard_kinds) == n_shards
        assert same_answer(report, answer(smaller, tmp_path / "other"))


def read_by_an_audit(path: Path, directory: Path) -> bool:
    """Whether a shard's value is documents, or a list's posteriors: one for every pass."""
    with Store(directory) as store:
        stored = store.get(f"shard/{path.stem}")
    assert stored is not None
    return bool({"documents", "sum_p"} & set(stored.arrays))


# --- SIGKILL ---


def run_in_child(request: AuditRequest, directory: Path) -> None:
    """Run an audit in a process of its own."""
    torch.set_num_threads(1)
    make_small()
    answer(request, directory)


@pytest.fixture(scope="module")
def start_child():
    """Start a process that has everything imported, so that a kill falls into the audit."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "audit.run",
            "cache.store",
            "tests.models.make_models",
            "transformers.models.bert.modeling_bert",
        ]
    )

    def start(request: AuditRequest, directory: Path):
        process = context.Process(target=run_in_child, args=(request, directory), daemon=True)
        process.start()
        return process

    return start


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
def test_killed_at_any_moment_a_run_resumes_to_the_same_bytes(
    models, finished, tmp_path, start_child, scenario
):
    request = request_of(models, scenario)
    expected = content(finished[scenario][1])
    child = start_child(request, tmp_path / "whole")
    child.join()
    assert child.exitcode == 0
    assert content(tmp_path / "whole") == expected
    n_shards = len(kept_shards(tmp_path / "whole"))
    moments = random.Random(scenario)
    n_kills = n_finished = 0
    n_shards_at_kills = set()
    directory = tmp_path / "0"
    while n_kills < N_KILLS:
        child = start_child(request, directory)
        # Anywhere in the run, however long a process takes to start on a busy machine.
        n_wanted = moments.randint(0, n_shards - 1)
        while child.exitcode is None and len(kept_shards(directory)) < n_wanted:
            child.join(timeout=0.005)
        child.join(timeout=moments.uniform(0.0, 0.05))
        if child.exitcode is None:
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            assert child.exitcode == -signal.SIGKILL
            n_kills += 1
            n_shards_at_kills.add(len(kept_shards(directory)))
            continue
        assert child.exitcode == 0
        assert content(directory) == expected
        n_finished += 1
        directory = tmp_path / str(n_finished)
    answer(request, directory)
    assert content(directory) == expected
    assert len(n_shards_at_kills) > 1  # the kills fell into different moments


def kept_shards(directory: Path) -> tuple[str, ...]:
    with Store(directory) as store:
        return store.keys("shard/")
