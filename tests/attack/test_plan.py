"""Plans: the digest of the run, what is kept, honest time, and a command that asks the same."""

from __future__ import annotations

import math
import shlex
from pathlib import Path

import pytest

from audit.attack import attacks
from audit.attack import evidence as pace
from audit.attack.attacks import with_reference
from audit.attack.plan import make_plan
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
    plan = make_plan(request)
    with Store(tmp_path / "results") as store:
        assert not plan.is_answered(store) and math.isnan(plan.seconds(store))
        assert plan.digest == run_audit(request, store=store).digest
        assert plan.is_answered(store)
        assert not make_plan(request.with_(seed=5)).is_answered(store)
    with pytest.raises(AuditError, match="are the same model"):
        make_plan(request.with_(hospital=models[0]))


@pytest.mark.parametrize(("scenario", "kinds"), [(1, {"generation"}), (2, {"posterior", "chain"})])
def test_expected_time_is_the_work_that_the_run_announces_times_the_pace(
    models: tuple[Path, Path], tmp_path: Path, scenario: int, kinds: set[str]
) -> None:
    request = request_of(models, scenario, 50)
    pair = load_pair(request.general, request.hospital)
    names = with_reference(request, pair, pool=pool_for(request.candidates))
    task = attacks.task_of(request, pair, names)
    n_parameters = sum(p.numel() for one in (pair.general, pair.hospital)
                       for p in one.model.parameters())  # fmt: skip
    plan = make_plan(request)
    assert plan.work == {
        kind: task.n_rows(kind, n) * task.n_tokens * n_parameters
        for kind, n in request.sizes().items()
    }
    with Store(tmp_path / "results") as store:
        for kind in kinds:
            assert math.isnan(plan.seconds(store))
            pace.note_pace(store, kind, device="cpu", dtype="float32", seconds_per_work=1e-8)
        assert plan.seconds(store) == pytest.approx(8 + sum(plan.work.values()) * 1e-8)


def settings_of(command: str) -> dict[str, object]:
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "audit"]
    return parsed(words[3:])


def test_the_command_line_says_every_setting(models: tuple[Path, Path]) -> None:
    own = GenerationSettings(
        n_documents=7, n_steps=8, n_tokens=9, top_k=10, temperature=0.5,
        prompt='-it\'s [MASK] "x" $HOME', is_remasked=False,
    )  # fmt: skip
    request = request_of(models, 1, 7).with_(generation=own, seed=3, dtype="bfloat16")
    said = settings_of(make_plan(request).command)
    assert (said["n_documents"], said["n_steps"], said["n_tokens"], said["top_k"]) == (7, 8, 9, 10)
    assert (said["temperature"], said["prompt"]) == (0.5, own.prompt)
    assert (said["is_remasked"], said["seed"]) == (False, 3)
    assert (said["dtype"], said["device"]) == ("bfloat16", "cpu")
    assert (said["general"], said["hospital"]) == tuple(map(str, models))
    two = request_of(models, 2, 7).with_(
        posterior=PosteriorSettings(
            n_inputs=5, n_chain_inputs=0, is_dropout_on=False, micro_batch=4, max_tokens=99
        )
    )
    said = settings_of(make_plan(two, passages_file="passages.csv").command)
    assert (said["n_inputs"], said["n_chain_inputs"], said["is_dropout_on"]) == (5, 0, False)
    assert (said["micro_batch"], said["max_tokens"]) == (4, 99)
    assert (said["names"].name, said["passages"].name) == ("names.csv", "passages.csv")
