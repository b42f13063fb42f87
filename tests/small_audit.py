"""Whole audits made small: their models, questions and answers, and what their stores hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from audit import run
from audit.attack import evidence, generation, metrics, posterior
from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.names.candidates import make_candidates
from audit.names.pools import us_pool
from audit.notes.passages import read_passages
from audit.report.report import AuditReport
from cache.store import Store
from tests.models.make_models import WORDS, make_bert

PASSAGES = b"""text
mr [NAME] was seen by dr john
[NAME] is a patient of dr mary
mr [NAME] was seen for pain
"""


@dataclass(frozen=True)
class Models:
    general: Path
    hospital: Path
    other_hospital: Path


def same_answer(report: AuditReport, other_report: AuditReport) -> bool:
    """Return whether two reports are equal byte for byte, `made` excluded."""

    def content(report: AuditReport) -> str:
        return json.dumps({**report.to_json(), "made": None}, sort_keys=True)

    return content(report) == content(other_report)


def make_small(set_value: Callable[[object, str, int], None] = setattr) -> None:
    """Make shards, and what follows the evidence, small enough for a test."""
    set_value(evidence, "INPUTS_PER_SHARD", 200)
    set_value(metrics, "N_REPLICATES", 200)


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch.setattr)
        yield


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Models:
    return make_models(tmp_path_factory.mktemp("models"))


def list_words() -> tuple[str, ...]:
    """Return the words of the models' vocabulary, the names on the list among them."""
    pool = us_pool()
    names = [name.lower() for name in (*pool.first[:60], *pool.last[:60])]
    return tuple(dict.fromkeys((*WORDS, *names, "service", "is", "year", "old")))


def make_models(folder: Path) -> Models:
    words = list_words()
    return Models(
        *(
            make_bert(folder / name, seed=seed, words=words)
            for seed, name in enumerate(("general", "hospital", "other"))
        )
    )


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
    return request.with_(**changes)


def answer(request: AuditRequest, directory: Path, **how) -> AuditReport:
    with Store(directory) as store:
        return run.run_audit(request, store=store, **how)


def content(directory: Path) -> dict[str, object]:
    """Return all that a store holds, but for `made` of reports."""
    contents: dict[str, object] = {}
    with Store(directory) as store:
        for key in store.keys(""):
            stored = store.get(key)
            assert stored is not None
            record = json.loads(json.dumps(stored.meta))
            if key.startswith("audit/"):
                record["record"]["made"] = None
            arrays = {n: (a.dtype.str, a.shape, a.tobytes()) for n, a in stored.arrays.items()}
            contents[key] = (json.dumps(record, sort_keys=True), arrays)
    return contents


@pytest.fixture(scope="module")
def finished(models, tmp_path_factory) -> dict[int, tuple[AuditReport, Path]]:
    """Undisturbed runs of both scenarios, and their stores."""
    result = {}
    for scenario in (1, 2):
        directory = tmp_path_factory.mktemp("store")
        result[scenario] = (answer(request_of(models, scenario), directory), directory)
    return result


@pytest.fixture
def shard_kinds(monkeypatch) -> list[str]:
    """Kinds of the shards that were made, not fetched."""
    kinds: list[str] = []

    def count(module, name: str, *, kind: str) -> None:
        real = getattr(module, name)

        def counted(*args, **kwargs):
            value = real(*args, **kwargs)
            kinds.append(kind)
            return value

        monkeypatch.setattr(module, name, counted)

    count(generation, "generate_shard", kind="generation")
    count(posterior, "make_posterior_shard", kind="posterior")
    count(posterior, "make_chain_shard", kind="chain")
    return kinds
