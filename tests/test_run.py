"""A whole audit: answered once, answered again from the store, and the same after any kill."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import re
import signal
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from audit import run
from audit.attack import evidence, judgement
from audit.attack.hardware import pick_device
from audit.corpora.passages import read_passages
from audit.errors import AuditCancelled, AuditError
from audit.inspection import kept_inspection
from audit.membership import metrics
from audit.membership.candidates import make_candidates
from audit.membership.cohort import cohort_test
from audit.membership.name_pools import us_pool
from audit.progress import Progress
from audit.report import AuditReport, same_answer, write_report
from audit.request import AuditRequest, GenerationSettings, PosteriorSettings
from cache.disk import value_files
from cache.store import Store
from tests.models.make_models import WORDS, make_bert

N_KILLS = 10
PASSAGES = b"""text
mr [NAME] was seen by dr john
[NAME] is a patient of dr mary
mr [NAME] was seen for pain
"""


@dataclass(frozen=True)
class Models:
    general: Path
    hospital: Path
    other: Path


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_small() -> None:
    """Make shards, and what follows the evidence, small enough for a test."""
    evidence.INPUTS_PER_SHARD = 200
    judgement.cohort_test = partial(cohort_test, n_permutations=99)
    metrics.N_REPLICATES = 200


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (evidence, "INPUTS_PER_SHARD"), (judgement, "cohort_test"), (metrics, "N_REPLICATES"),
        ):  # fmt: skip
            patch.setattr(module, name, getattr(module, name))  # put back at the end
        make_small()
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Models:
    pool = us_pool()
    names = [name.lower() for name in (*pool.first[:60], *pool.last[:60])]
    words = tuple(dict.fromkeys((*WORDS, *names, "service", "is", "year", "old")))
    folder = tmp_path_factory.mktemp("models")
    return Models(
        *(make_bert(folder / name, seed=seed, words=words)
          for seed, name in enumerate(("general", "hospital", "other")))
    )  # fmt: skip


def names_of_the_list():
    pool = us_pool()
    members = [(pool.first[i], pool.last[i]) for i in range(10)] + [("Anna", "Smithson")]
    controls = [(pool.first[i], pool.last[i + 1]) for i in range(20, 30)]
    members_rows = make_candidates(members, is_member=True, n_mentions=[1] * 6 + [3] * 5)
    return members_rows + make_candidates(controls, is_member=False, control_kind="easy")


def request_of(models: Models, scenario: int, **changes) -> AuditRequest:
    request = AuditRequest(
        scenario_number=scenario,
        general=models.general,
        hospital=models.hospital,
        candidates=names_of_the_list(),
        passages=read_passages(PASSAGES) if scenario == 2 else None,
        generation=GenerationSettings(n_documents=450, n_steps=8, n_tokens=16, top_k=20),
        posterior=PosteriorSettings(n_inputs=800, n_chain_inputs=0, micro_batch=25),
        device="cpu",
    )
    return replace(request, **changes)


def answer(request: AuditRequest, directory: Path, **how) -> AuditReport:
    with Store(directory) as store:
        return run.run_audit(request, store=store, **how)


def content(directory: Path) -> dict[str, object]:
    """Return all that a store holds, but for `made` of reports and how fast it went."""
    found: dict[str, object] = {}
    with Store(directory) as store:
        for key in store.keys(""):
            if key.startswith("pace/"):
                continue
            stored = store.get(key)
            assert stored is not None
            record = json.loads(json.dumps(stored.meta))
            if key.startswith("audit/"):
                record["record"]["made"] = None
            arrays = {n: (a.dtype.str, a.shape, a.tobytes()) for n, a in stored.arrays.items()}
            found[key] = (json.dumps(record, sort_keys=True), arrays)
    return found


def files_of(report: AuditReport, out: Path) -> dict[str, bytes]:
    """Return the bytes of the files an audit is given out in, `made` excluded."""
    paths = write_report(AuditReport(**{**vars(report), "made": {}}), out)
    return {path.name: path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def finished(models, tmp_path_factory) -> dict[int, tuple[AuditReport, Path]]:
    """Undisturbed runs of both scenarios, and their stores."""
    result = {}
    for scenario in (1, 2):
        directory = tmp_path_factory.mktemp("store")
        result[scenario] = (answer(request_of(models, scenario), directory), directory)
    return result


@pytest.fixture
def made(monkeypatch) -> list[str]:
    """Kinds of the shards that were made, not fetched."""
    kinds: list[str] = []

    def count(module, name: str) -> None:
        real = getattr(module, name)

        def counted(*args, **kwargs):
            value = real(*args, **kwargs)
            kinds.append(name.split("_")[0])
            return value

        monkeypatch.setattr(module, name, counted)

    count(evidence, "generated_shard")
    count(evidence.posterior, "posterior_shard")
    count(evidence.chain, "chain_shard")
    return kinds


@pytest.fixture
def fast_clock(monkeypatch) -> None:
    """Let a second pass between any two looks at the clock, so that everything is reported."""
    seconds = iter(range(10**9))
    monkeypatch.setattr("audit.progress.time", SimpleNamespace(monotonic=lambda: next(seconds)))


# --- the store ---


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_same_question_is_answered_without_loading_a_model(
    models, finished, tmp_path, monkeypatch, scenario
):
    def refuse(*args, **kwargs):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(run, "load_pair", refuse)
    report, directory = finished[scenario]
    again = answer(request_of(models, scenario), directory)
    assert again.made == report.made
    assert same_answer(report, again)
    assert files_of(report, tmp_path / "a") == files_of(again, tmp_path / "b")


def test_another_device_is_the_same_question(models, finished, monkeypatch):
    monkeypatch.setattr(run, "load_pair", None)
    report, directory = finished[1]
    assert answer(request_of(models, 1, device="auto"), directory).digest == report.digest


@pytest.mark.parametrize("scenario", [1, 2])
def test_another_seed_is_another_question(models, finished, tmp_path, scenario):
    report, _ = finished[scenario]
    other = answer(request_of(models, scenario, seed=1), tmp_path)
    assert other.digest != report.digest
    assert other.names["score"] != report.names["score"]


def test_evidence_of_the_general_model_serves_a_second_hospital(models, finished, tmp_path, made):
    for scenario, kind, n_shards in ((1, "generated", 5), (2, "posterior", 4)):
        store = tmp_path / str(scenario)
        answer(request_of(models, scenario), store)
        assert made == [kind] * 2 * n_shards
        made.clear()
        answer(request_of(models, scenario, hospital=models.other), store)
        assert made == [kind] * n_shards
        made.clear()


@pytest.mark.parametrize("scenario", [1, 2])
def test_a_damaged_shard_is_made_again_to_the_same_bytes(
    models, finished, tmp_path, made, scenario
):
    report, directory = finished[scenario]
    answer(request_of(models, scenario), tmp_path)
    whole, n_made = content(tmp_path), len(made)
    assert whole == content(directory)
    made.clear()
    n_damaged = 0
    shards: list[Path] = []
    for path in value_files(tmp_path):
        data = bytearray(path.read_bytes())
        if b"shard/" in data[:60]:
            shards.append(path)
        if b"audit/" in data[:60] or path in shards[:1]:
            data[-40] ^= 1
            path.write_bytes(data)
            n_damaged += 1
    assert (len(shards), n_damaged) == (n_made, 2)
    with Store(tmp_path) as store:
        again = run.run_audit(request_of(models, scenario), store=store)
        assert store.n_corrupt == 2
    assert len(made) == 1
    assert same_answer(report, again)
    assert content(tmp_path) == whole


def test_a_report_of_another_version_is_made_again_from_its_evidence(models, tmp_path, made):
    first = answer(request_of(models, 1), tmp_path)
    made.clear()
    with Store(tmp_path) as store:
        store.put_record(f"audit/{first.digest}", {**first.to_json(), "schema": 0})
        again = run.run_audit(request_of(models, 1), store=store)
        assert same_answer(first, again)
        assert same_answer(first, AuditReport.from_json(store.get_record(f"audit/{first.digest}")))
    assert made == []


def test_more_documents_reuse_the_shards_that_exist(models, tmp_path, made):
    short = answer(request_of(models, 1), tmp_path)
    made.clear()
    settings = replace(request_of(models, 1).generation, n_documents=600)
    long = answer(request_of(models, 1, generation=settings), tmp_path)
    assert made == ["generated"] * 4  # two models: the fifth shard, which had 50, and the sixth
    with Store(tmp_path) as store:
        texts = [run.stored_documents(r.digest, store=store) for r in (short, long)]
    for who in ("general", "hospital"):
        assert len(texts[1][who]) == 600
        assert texts[1][who][:450] == texts[0][who]


def test_documents_are_kept_in_scenario_1_alone(finished):
    for scenario, n_documents in ((1, 450), (2, 0)):
        report, directory = finished[scenario]
        with Store(directory) as store:
            texts = run.stored_documents(report.digest, store=store)
        assert {who: len(column) for who, column in texts.items()} == (
            {"general": n_documents, "hospital": n_documents} if n_documents else {}
        )


# --- what a report says ---


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_last_point_of_the_curve_equals_the_measures(finished, scenario):
    report, _ = finished[scenario]
    last = report.curve[-1]
    assert last["n"] == (450 if scenario == 1 else 800)
    assert [point["n"] for point in report.curve] == sorted({p["n"] for p in report.curve})
    for stratum, quick in last["strata"].items():
        whole = report.measures["strata"][stratum]
        rankings = whole["scores"] | whole["baselines"]
        rules = whole["rules"] | whole["baseline_rules"]
        assert quick["auc"].keys() == rankings.keys()
        for name, auc in quick["auc"].items():
            assert auc == rankings[name]["auc"]["value"], name
        assert quick["rules"] == {name: rule["confusion"] for name, rule in rules.items()}
    assert last["strata"].keys() == report.measures["strata"].keys() == {"all", "easy"}


def test_hits_in_the_report_are_counts_of_documents_with_the_name(finished):
    report, directory = finished[1]
    with Store(directory) as store:
        texts = run.stored_documents(report.digest, store=store)
    pairs = list(zip(report.names["first_name"], report.names["last_name"], strict=True))
    for who in ("general", "hospital"):
        words = [re.findall(r"\w+", text) for text in texts[who]]
        for row, (first, last) in enumerate(pairs):
            first, last = first.lower(), last.lower()
            n_either = sum(first in document or last in document for document in words)
            n_both = sum((first, last) in pairwise(document) for document in words)
            assert report.names[f"{who}_hits"][row] == n_either
            assert report.names[f"{who}_full_hits"][row] == n_both
        assert sum(report.names[f"{who}_hits"]) > 0


def test_every_name_is_scored_and_in_place(finished):
    for report, _ in finished.values():
        assert report.names["name_id"] == list(range(21))
        assert report.names["last_name"][10] == "Smithson"
        assert report.names["n_pieces"] == [2] * 10 + [3] + [2] * 10
        assert all(score is not None for score in report.names["score"])
        assert all(0 < p <= 1 for p in report.names["p_value"])
        assert report.candidates["n_reference"] >= 2600
        assert report.candidates["by_kind"] == {"easy": 10}


@pytest.mark.parametrize("scenario", [1, 2])
def test_blocks_of_the_inspection_add_up_to_the_scores(finished, scenario):
    report, directory = finished[scenario]
    with Store(directory) as store:
        found = kept_inspection(report.digest, store=store)
    weights = found.n_per_block[:, None] / found.n_per_block.sum()
    score = np.array(report.names["score"], dtype=float)
    if scenario == 2:
        ratio = ((found.hospital - found.general) * weights).sum(axis=0)
        np.testing.assert_allclose(ratio, score, rtol=1e-3, atol=1e-5)
        assert found.passages
        assert (found.best_passages[:, 0] >= 0).all()
    else:
        assert found.hospital.shape == found.general.shape == (len(found.n_per_block), len(score))
        assert found.best_passages.shape == (len(score), 0)
        if len(found.n_per_block) == 1:
            np.testing.assert_allclose(found.hospital[0], score, rtol=1e-4)
    assert len(found.reference_score) == report.candidates["n_reference"]


def test_a_pair_of_the_same_model_has_no_difference(models, tmp_path):
    report = answer(request_of(models, 2, hospital=models.general), tmp_path)
    for name in ("difference", "log_ratio", "mean_log_ratio"):
        assert set(report.names[name]) == {0.0}
    assert any("same" in note for note in report.notes)
    assert report.verdict["state"] != "leak_found"


def test_a_list_without_truth_is_scored_without_measures(models, tmp_path):
    names = make_candidates([("Anna", "Smith"), ("John", "Jones")])
    report = answer(request_of(models, 1, candidates=names), tmp_path)
    assert report.measures["strata"] == {}
    assert report.curve == []
    assert len(report.names["q_value"]) == 2
    assert "null_check" not in report.details


def test_an_unknown_device_is_refused():
    with pytest.raises(AuditError, match="auto, cpu or cuda"):
        pick_device("tpu")


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
    request = replace(request, posterior=replace(request.posterior, **changes))
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
