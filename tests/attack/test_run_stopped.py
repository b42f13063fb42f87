"""A whole audit that says how far it is, is stopped or killed, and ends the same."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from audit.attack.question import AuditRequest
from audit.errors import AuditCancelled
from audit.progress import Progress
from cache.store import Store
from tests.one_thread import one_thread
from tests.small_audit import (
    answer,
    content,
    finished,
    made,
    make_small,
    models,
    request_of,
    same_answer,
    small,
)

__all__ = ["finished", "made", "models", "one_thread", "small"]
N_KILLS = 10


@pytest.fixture
def fast_clock(monkeypatch) -> None:
    """Let a second pass between any two looks at the clock, so that everything is reported."""
    seconds = iter(range(10**9))
    monkeypatch.setattr("audit.progress.time", SimpleNamespace(monotonic=lambda: next(seconds)))


# --- progress and stopping ---


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
    seen: list[Progress] = []
    answer(request, tmp_path, progress=seen.append)
    shares = [progress.share for progress in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert shares.count(1.0) == 1
    phases = list(dict.fromkeys(progress.phase for progress in seen))
    assert len(phases) == 2 * (1 + ("n_chain_inputs" in changes))


@pytest.mark.parametrize("scenario", [1, 2])
@pytest.mark.parametrize("how", ["should_stop", "SIGINT"])
def test_a_stopped_run_keeps_its_finished_shards(
    models, finished, tmp_path, made, fast_clock, scenario, how
):
    def interrupt(progress: Progress) -> None:
        if how == "SIGINT" and len(made) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(AuditCancelled if how == "should_stop" else KeyboardInterrupt):
        answer(
            request_of(models, scenario), tmp_path, progress=interrupt,
            should_stop=lambda: how == "should_stop" and len(made) == 3,
        )  # fmt: skip
    with Store(tmp_path) as store:
        assert len(store.keys("shard/")) == 3
        assert store.keys("audit/") == ()
    made.clear()
    report, directory = finished[scenario]
    resumed = answer(request_of(models, scenario), tmp_path)
    assert len(made) == (7 if scenario == 1 else 5)
    assert same_answer(report, resumed)
    assert content(tmp_path) == content(directory)


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
    context.set_forkserver_preload(["audit.run", "cache.store", "tests.models.make_models",
                                    "transformers.models.bert.modeling_bert"])  # fmt: skip

    def start(request: AuditRequest, directory: Path):
        process = context.Process(target=run_in_child, args=(request, directory), daemon=True)
        process.start()
        return process

    return start


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
        wanted = moments.randint(0, n_shards - 1)
        while child.exitcode is None and len(kept_shards(directory)) < wanted:
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
