"""Shards: kept at once, found again, never taken for the answer to another question."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from audit.attack import evidence, generation
from audit.errors import AuditError
from audit.models.forward import Forward
from audit.progress import Meter, Phase
from cache.store import Store
from tests.attack.make_tasks import generation_task, table_task
from tests.table_model import CLS, MASK, SEP, SIDE_BY_SIDE, TableModel, random_table

TASK = generation_task(SIDE_BY_SIDE, multi_piece_parts=((0, 1),), n_steps=5)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def source_of(store: Store, *, digest: str = "one", dtype: str = "float32"):
    forward = Forward(TableModel(random_table(4), slots=(1, 2)))
    forward.dtype = dtype  # a name of the key; the table is float32
    loaded = SimpleNamespace(digest=digest)
    meter = Meter([Phase("phase", 1e9)], listener=lambda _: None, should_stop=lambda: False)
    return evidence.Source(
        loaded, forward, "cpu", evidence.ResultsShardStore(store), meter, "phase"
    )  # type: ignore[arg-type]


@pytest.fixture
def shard_numbers(monkeypatch):
    """Places of the shards that were generated, not fetched."""
    shards: list[int] = []
    real = generation.generate_shard

    def counted(*args, **kwargs):
        shards.append(kwargs["shard"])
        return real(*args, **kwargs)

    monkeypatch.setattr(generation, "generate_shard", counted)
    return shards


def test_more_documents_reuse_the_full_shards_that_exist(store, shard_numbers):
    short = evidence.collect(source_of(store), TASK, kind="generation", n_total=250)
    shard_numbers.clear()
    long = evidence.collect(source_of(store), TASK, kind="generation", n_total=420)
    assert shard_numbers == [2, 3, 4]  # the third held 50 documents
    np.testing.assert_array_equal(long.documents[:250], short.documents)
    assert len(short.mass) == 40 + 42
    np.testing.assert_array_equal(long.mass[:82], short.mass)
    shard_numbers.clear()
    fewer = evidence.collect(source_of(store), TASK, kind="generation", n_total=200)
    assert shard_numbers == []
    np.testing.assert_array_equal(fewer.documents, short.documents[:200])


OTHER_TASKS = (
    {"prompt": (CLS, MASK, MASK, SEP, SEP)},
    {"multi_piece_parts": ((1, 0),)},
    {"seed": 4},
    {"n_steps": 6},
    {"top_k": 2},
    {"temperature": 0.5},
    {"is_remasked": False},
)


def test_another_setting_or_origin_is_another_question(store, shard_numbers, monkeypatch):
    def ask(task=TASK, **origin):
        evidence.collect(source_of(store, **origin), task, kind="generation", n_total=100)

    ask()
    for changes in OTHER_TASKS:
        ask(replace(TASK, **changes))
    ask(digest="two")
    ask(dtype="bfloat16")
    ask()
    assert len(shard_numbers) == 1 + len(OTHER_TASKS) + 2
    for place, name, changed in (
        (evidence.np, "__version__", "0.0"),
        (evidence, "DOCUMENTS_PER_SHARD", {"cpu": 200}),
        (evidence, "VERSIONS", {**evidence.VERSIONS, "generation": 10**6}),
    ):
        shard_numbers.clear()
        with monkeypatch.context() as patch:
            patch.setattr(place, name, changed)
            ask()
        assert shard_numbers == [0], name


def test_documents_serve_every_later_list_of_single_pieces(store, shard_numbers):
    first = evidence.collect(source_of(store), TASK, kind="generation", n_total=150)
    shard_numbers.clear()
    single = replace(TASK, multi_piece_parts=())
    served = evidence.collect(source_of(store), single, kind="generation", n_total=150)
    assert shard_numbers == []
    n_kept = len(store.keys("shard/"))
    # Other parts of several pieces are another pass, but the documents are not kept twice.
    other_task = replace(TASK, multi_piece_parts=((1, 2), (2, 0)))
    again = evidence.collect(source_of(store), other_task, kind="generation", n_total=150)
    assert shard_numbers == [0, 1] and len(store.keys("shard/")) == n_kept + 2
    for shard in (served, again):
        for name in ("n_documents", "documents", "mass"):
            np.testing.assert_array_equal(getattr(shard, name), getattr(first, name))
    assert again.part_mass.shape == (len(first.mass), 2) and not served.part_mass.size
    evidence.collect(source_of(store), other_task, kind="generation", n_total=150)
    assert shard_numbers == [0, 1]


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("not enough memory: you tried to allocate 9 bytes"),
        torch.cuda.OutOfMemoryError("CUDA out of memory."),
    ],
)
def test_running_out_of_memory_is_said_with_what_to_do(store, monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(generation, "generate_shard", fail)
    with pytest.raises(AuditError, match=r"Memory ran out.*everything finished.*smaller"):
        evidence.collect(source_of(store), TASK, kind="generation", n_total=100)


# --- scenario 2 ---


def test_posteriors_of_shards_are_joined_by_block_and_added_by_passage(store, monkeypatch):
    task = table_task([[[0], [1]], [[2], [0]]], 2, micro_batch=50)
    monkeypatch.setattr(evidence, "INPUTS_PER_SHARD", 200)
    parted = evidence.collect(source_of(store), task, kind="posterior", n_total=500)
    assert len(store.keys("shard/")) == 3
    monkeypatch.setattr(evidence, "INPUTS_PER_SHARD", 1000)
    all_inputs = evidence.collect(source_of(store), task, kind="posterior", n_total=500)
    assert len(store.keys("shard/")) == 4
    assert parted.n_inputs.tolist() == [1] * 40 + [5] * 72 + [20] * 5
    assert parted.passage_n_inputs.sum() == 500
    for name, value in vars(all_inputs).items():
        np.testing.assert_allclose(getattr(parted, name), value, rtol=1e-12, err_msg=name)
