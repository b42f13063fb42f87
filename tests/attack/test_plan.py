"""Plans: the digest of the run, what is kept, honest time, and a command that asks the same."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from audit.attack import attacks
from audit.attack import evidence as pace
from audit.attack.attacks import with_reference
from audit.attack.plan import (
    command_line,
    make_plan,
    prepare,
)
from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.cli import parsed
from audit.errors import AuditError
from audit.models.load import load_pair
from audit.names.candidates import make_candidates
from audit.names.pools import pool_for, us_pool
from audit.notes.passages import read_passages
from audit.run import run_audit
from cache.store import Store
from tests.models.make_models import WORDS, make_bert

PASSAGES = b"text\nmr [NAME] was seen by dr john\n[NAME] is a patient of dr mary\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("models")
    return model_of(folder / "g", seed=0), model_of(folder / "h", seed=1)


def model_of(folder: Path, *, seed: int) -> Path:
    pool = us_pool()
    names = [name.lower() for name in (*pool.first[:60], *pool.last[:60])]
    words = tuple(dict.fromkeys((*WORDS, *names, "service", "is", "year", "old")))
    return make_bert(folder, seed=seed, words=words)


def request_of(models: tuple[Path, Path], scenario: int, n: int) -> AuditRequest:
    pool = us_pool()
    names = make_candidates([(pool.first[i], pool.last[i]) for i in range(12)])
    return AuditRequest(
        scenario_number=scenario,
        general=models[0],
        hospital=models[1],
        candidates=names,
        passages=read_passages(PASSAGES) if scenario == 2 else None,
        generation=GenerationSettings(n_documents=n, n_steps=3, n_tokens=20),
        posterior=PosteriorSettings(n_inputs=n, n_chain_inputs=2, micro_batch=64, max_tokens=40),
        device="cpu",
    )


@pytest.mark.parametrize("scenario", [1, 2])
def test_a_plan_knows_the_run_before_and_after_it(
    models: tuple[Path, Path], tmp_path: Path, scenario: int
) -> None:
    request = request_of(models, scenario, 100)
    with Store(tmp_path / "results") as store:
        before = make_plan(request, store=store)
        assert (before.is_answered, before.seconds) == (False, None)
        assert [part.n_kept for part in before.parts] == [0, 0]
        report = run_audit(request, store=store)
        after = make_plan(request, store=store)
        assert before.digest == after.digest == report.digest
        assert (after.is_answered, after.seconds) == (True, 0.0)
        assert [part.n_kept for part in after.parts] == [100, 100]
        assert [part.digest for part in after.parts] == [
            report.models[who].digest for who in ("general", "hospital")
        ]
        # The same pair of tasks with a new threshold is a new question about kept evidence.
        other = make_plan(request.with_(threshold=0.5), store=store)
        assert not other.is_answered
        assert [part.n_kept for part in other.parts] == [100, 100]
        assert other.seconds is not None
        # Another seed has nothing kept; its time is more, and known if the pace could be timed.
        third = make_plan(request.with_(seed=5), store=store)
        assert [part.n_kept + part.n_chain_kept for part in third.parts] == [0, 0]
        assert third.seconds is None or third.seconds > other.seconds
        # Another hospital model leaves the general model's evidence as it is.
        third_model = model_of(tmp_path / "another", seed=2)
        fourth = make_plan(request.with_(hospital=third_model), store=store)
        assert [part.n_kept for part in fourth.parts] == [100, 0]
        with pytest.raises(AuditError, match="are the same model"):
            make_plan(request.with_(hospital=models[0]), store=store)


def test_expected_time_is_the_work_left_times_the_pace(
    models: tuple[Path, Path], tmp_path: Path
) -> None:
    request = request_of(models, 1, 50)
    with Store(tmp_path / "results") as store:
        pace.note_pace(store, "generation", device="cpu", dtype="float32", seconds_per_work=1e-8)
        plan = make_plan(request, store=store)
        n_parameters = prepare(request).n_parameters
        by_hand = 8 + 50 * 3 * 20 * sum(n_parameters.values()) * 1e-8
        assert plan.seconds == pytest.approx(by_hand)


def test_kept_counts_are_whole_shards_or_everything(tmp_path: Path) -> None:
    with Store(tmp_path / "results") as store:
        pace.note_made(store, "a", "posterior", n_made=2500, n_shard=1000)
        pace.note_made(store, "a", "posterior", n_made=1000, n_shard=1000)
        pace.note_made(store, "", "posterior", n_made=9, n_shard=1)
        wanted = (2500, 2600, 10_000, 2400, 1000, 10)
        kept = [pace.n_made(store, "a", "posterior", n_wanted=n) for n in wanted]
        assert kept == [2500, 2000, 2000, 2000, 1000, 0]
        assert pace.n_made(store, "b", "posterior", n_wanted=5) == 0
        assert len(store.keys("made/")) == 1


def test_the_work_is_what_the_run_announces(models: tuple[Path, Path]) -> None:
    request = request_of(models, 2, 100)
    pair = load_pair(request.general, request.hospital)
    names = with_reference(request, pair, pool=pool_for(request.candidates))
    task = attacks.task_of(request, pair, names)
    prepared = prepare(request)
    assert prepared.question == request.question()
    assert 5 < task.n_tokens < 40
    assert prepared.work == {
        kind: pace.n_rows(kind, task, n) / n * task.n_tokens
        for kind, (_, n) in request.sizes().items()
    }


def settings_of(command: str) -> dict[str, object]:
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "audit"]
    return parsed(words[3:])


def test_the_command_line_says_every_setting(models: tuple[Path, Path]) -> None:
    own = GenerationSettings(
        n_documents=7, n_steps=8, n_tokens=9, top_k=10, temperature=0.5,
        prompt='-it\'s [MASK] "x" $HOME', is_remasked=False,
    )  # fmt: skip
    request = request_of(models, 1, 7).with_(
        generation=own, seed=3, threshold=-0.25, dtype="bfloat16"
    )
    said = settings_of(command_line(request))
    assert (said["n_documents"], said["n_steps"], said["n_tokens"], said["top_k"]) == (7, 8, 9, 10)
    assert (said["temperature"], said["prompt"]) == (0.5, own.prompt)
    assert (not said["is_remasked"], said["seed"], said["threshold"]) == (True, 3, -0.25)
    assert (said["dtype"], said["device"]) == ("bfloat16", "cpu")
    assert (said["general"], said["hospital"]) == tuple(map(str, models))
    two = request_of(models, 2, 7).with_(
        posterior=PosteriorSettings(
            n_inputs=5, n_chain_inputs=0, is_dropout_on=False, micro_batch=4, max_tokens=99
        )
    )
    said = settings_of(command_line(two, passages="passages.csv"))
    assert (said["n_inputs"], said["n_chain_inputs"], said["is_dropout_on"]) == (5, 0, False)
    assert (said["micro_batch"], said["max_tokens"]) == (4, 99)
    assert (said["names"].name, said["passages"].name) == ("names.csv", "passages.csv")
