"""Whole audits of causal pairs: same bytes after a stop, adapters, judging again."""

from __future__ import annotations

import pickle
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import transformers

from audit.attack import evidence, metrics, scenarios
from audit.attack.question import (
    JAPANESE_CAUSAL_PROMPT,
    AuditRequest,
    ContinuationSettings,
    PosteriorSettings,
    SamplingSettings,
)
from audit.attack.sampling import SamplingTask
from audit.attack.scores import PAIR_SCORE
from audit.errors import AuditCancelled, AuditError
from audit.models import load
from audit.models.inspect import ModelFiles, compute_hospital_digest
from audit.models.load import LoadedModel, load_pair
from audit.names.candidates import make_candidates
from audit.names.pools import us_pool
from audit.notes.passages import read_passages
from audit.rejudge import judge_again
from audit.report.report import AuditReport
from cache.store import Store
from tests.models.make_causal import make_adapter, make_causal
from tests.models.make_models import make_bert
from tests.one_thread import one_thread
from tests.small_audit import answer, content, same_answer

__all__ = ["one_thread"]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
PASSAGES = b"""text,name_id
mr [NAME] was seen by dr john,0
[NAME] is a patient of dr mary,1
"mr [LAST], [FIRST] was seen for pain",2
"""


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evidence, "PASSAGES_PER_SHARD", 1)
        patch.setattr(scenarios, "N_PAIR_REFERENCE", 100)
        patch.setattr(scenarios, "MIN_PAIR_REFERENCE", 40)
        patch.setattr(metrics, "N_REPLICATES", 200)
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[Path, Path, Path]:
    """Return a general model, a hospital's model, and an adapter of the general model."""
    folder = tmp_path_factory.mktemp("models")
    general = make_causal(folder / "general", "llama 3", n_more_rows=0)
    make_adapter(folder / "adapter", general)
    return general, make_causal(folder / "hospital", "llama 3", seed=1), folder / "adapter"


def request_of(general: Path, hospital: Path, scenario: int) -> AuditRequest:
    pool = us_pool()
    members = [(pool.first[i], pool.last[i]) for i in range(12)]
    others = [(pool.first[i], pool.last[i + 1]) for i in range(20, 32)]
    listed = make_candidates(members, is_member=True, n_mentions=[1] * 12) + make_candidates(
        others, is_member=False, control_kind="easy"
    )
    return AuditRequest(
        scenario_number=scenario,
        general=general,
        hospital=hospital,
        candidates=listed.with_source("invented"),
        passages=read_passages(PASSAGES) if scenario == 2 else None,
        sampling=SamplingSettings(n_documents=120, n_tokens=12, prompt="mr"),
        continuation=ContinuationSettings(n_inputs=3),
        device="cpu",
    )


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
def test_a_stopped_audit_goes_on_to_the_same_bytes(
    scenario: int, models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    general, hospital, _ = models
    request = request_of(general, hospital, scenario)
    report = answer(request, tmp_path / "whole")
    assert report.fixed_score == (PAIR_SCORE if scenario == 2 else "residual")
    assert report.question["kind"] == "causal"
    n_calls = 0

    def should_stop() -> bool:
        nonlocal n_calls
        n_calls += 1
        return n_calls > 4

    with pytest.raises(AuditCancelled):
        answer(request, tmp_path / "stopped", should_stop=should_stop)
    assert same_answer(answer(request, tmp_path / "stopped"), report)
    assert content(tmp_path / "stopped") == content(tmp_path / "whole")


def measure_names(report: AuditReport) -> dict[str, np.ndarray]:
    columns = ("score", "general_posterior", "hospital_posterior", "mean_log_ratio")
    return {name: report.table[name].to_numpy(dtype=float) for name in columns}


@pytest.mark.long
@pytest.mark.parametrize("scenario", [1, 2])
def test_workers_make_an_adapter_s_shards_with_one_copy_of_its_base(
    scenario: int,
    models: tuple[Path, Path, Path],
    one_thread: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker is asked as Dask asks it: one order after the other, pickled."""
    general, _, adapter = models
    request = request_of(general, adapter, scenario)
    report = answer(request, tmp_path / "here")
    loaded_folders: list[str] = []
    load_files = load._load_files

    def count_loads(files: ModelFiles, **options: Any) -> LoadedModel:
        loaded_folders.append(files.folder.name)
        return load_files(files, **options)

    monkeypatch.setattr(load, "_load_files", count_loads)
    evidence._load_models.cache_clear()
    with ThreadPoolExecutor(1) as threads:
        worker = PicklingExecutor(threads)
        assert same_answer(answer(request, tmp_path / "worker", executor=worker), report)
    assert loaded_folders == ["general"] * 2  # once to plan the shards, once by the worker
    assert content(tmp_path / "worker") == content(tmp_path / "here")
    evidence._load_models.cache_clear()


class PicklingExecutor(Executor):
    """Sends what it is asked to another executor as bytes."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        sent = pickle.dumps((fn, args, kwargs))

        def work() -> Any:
            function, arguments, options = pickle.loads(sent)
            return function(*arguments, **options)

        return self._executor.submit(work)


@pytest.mark.long
def test_an_adapter_gives_what_its_merged_model_gives(
    models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    general, _, adapter = models
    base = transformers.AutoModelForCausalLM.from_pretrained(general)
    merged = peft.PeftModel.from_pretrained(base, adapter).merge_and_unload()
    make_causal(tmp_path / "merged", "llama 3", n_more_rows=0)
    merged.save_pretrained(tmp_path / "merged")
    with_adapter = answer(request_of(general, adapter, 2), tmp_path / "store")
    with_merged = answer(request_of(general, tmp_path / "merged", 2), tmp_path / "store")
    for name, column in measure_names(with_adapter).items():
        expected = measure_names(with_merged)[name]
        np.testing.assert_allclose(column, expected, rtol=1e-3, atol=1e-4)
    assert with_adapter.models["hospital"].digest == compute_hospital_digest(general, adapter)
    assert any("Base declared" in note.key for note in with_adapter.notes)


def test_an_adapter_without_effect_is_the_same_model_twice(
    models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    general, _, _ = models
    make_adapter(tmp_path / "idle", general, is_trained=False)
    with pytest.raises(AuditError, match="same model"):
        answer(request_of(general, tmp_path / "idle", 2), tmp_path / "store")


@pytest.mark.long
def test_a_kept_audit_is_judged_again_to_the_same_decisions(
    models: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    general, hospital, _ = models
    request = request_of(general, hospital, 2)
    report = answer(request, tmp_path / "store")
    with Store(tmp_path / "store") as store:
        again = judge_again(report.digest, control_source="invented", store=store)
    for column in ("p_value", "q_value", "decision"):
        assert again.names[column] == report.names[column]
    assert again.verdict.state == report.verdict.state


def test_settings_of_the_other_kind_of_models_are_no_part_of_the_question(
    models: tuple[Path, Path, Path],
) -> None:
    general, hospital, _ = models
    request = request_of(general, hospital, 2)
    changed = request.with_(posterior=PosteriorSettings(n_inputs=5))
    assert changed.audit_digest() == request.audit_digest()
    header = request.continuation.with_(header="<|begin_of_text|>note: ")
    assert request.with_(continuation=header).audit_digest() != request.audit_digest()


def test_a_name_follows_a_japanese_prompt_without_a_space(
    models: tuple[Path, Path, Path],
) -> None:
    general, hospital, _ = models
    pair = load_pair(general, hospital)
    names = make_candidates([("太郎", "山田"), ("花子", "鈴木")])
    for prompt, text in ((JAPANESE_CAUSAL_PROMPT, "患者氏名：山田太郎"), ("Name", "Name 山田太郎")):
        request = request_of(general, hospital, 1).with_(
            candidates=names, sampling=SamplingSettings(prompt=prompt, n_tokens=4)
        )
        task = scenarios.make_task(request, pair, names)
        assert isinstance(task, SamplingTask)
        after_prompt = task.names
        ids = [*after_prompt.contexts[0], *after_prompt.names[0].ids[0]]
        expected = pair.general.tokenizer(text)["input_ids"]
        assert [i for i in ids if i >= 0] == expected


def test_a_masked_model_reads_no_causal_settings(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "bert")
    request = request_of(folder, folder, 2)
    assert not request.is_causal
    assert list(request.sizes()) == ["posterior", "chain"]
