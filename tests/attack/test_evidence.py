"""Shards: kept at once, found again, never taken for the answer to another question."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from audit.attack import evidence, generation
from audit.errors import AuditError
from audit.progress import Meter
from cache.store import Store
from tests.attack.make_documents import model_of, task_of
from tests.attack.make_posterior import table_task
from tests.table_model import CLS, MASK, SEP, SIDE_BY_SIDE, compatible_table, random_table

TASK = task_of(SIDE_BY_SIDE, multi_piece_parts=((0, 1),), n_steps=5)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path) as opened:
        yield opened


def source_of(store: Store, *, digest: str = "one", total: float = 1e9, **changes):
    table = compatible_table() if digest == "one" else random_table(4)
    loaded = SimpleNamespace(model=model_of(table, SIDE_BY_SIDE), digest=digest)
    meter = Meter({"phase": total}, listener=lambda _: None, should_stop=lambda: False)
    source = evidence.Source(loaded, "cpu", "float32", store, meter, "phase")  # type: ignore[arg-type]
    return replace(source, **changes)


@pytest.fixture
def made(monkeypatch):
    """Places of the shards that were generated, not fetched."""
    shards: list[int] = []
    real = generation.generated_shard

    def counted(*args, **kwargs):
        shards.append(kwargs["shard"])
        return real(*args, **kwargs)

    monkeypatch.setattr(generation, "generated_shard", counted)
    return shards


def test_more_documents_reuse_the_full_shards_that_exist(store, made):
    short = evidence.collect(source_of(store), TASK, kind="generation", n_total=250)
    made.clear()
    long = evidence.collect(source_of(store), TASK, kind="generation", n_total=420)
    assert made == [2, 3, 4]  # the third held 50 documents
    np.testing.assert_array_equal(long.documents[:250], short.documents)
    assert len(short.mass) == 40 + 42
    np.testing.assert_array_equal(long.mass[:82], short.mass)
    made.clear()
    fewer = evidence.collect(source_of(store), TASK, kind="generation", n_total=200)
    assert made == []
    np.testing.assert_array_equal(fewer.documents, short.documents[:200])


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt": (CLS, MASK, MASK, SEP, SEP)}, {"multi_piece_parts": ()},
        {"seed": 4}, {"n_steps": 6}, {"top_k": 2}, {"temperature": 0.5}, {"is_remasked": False},
    ],
    ids=lambda changes: next(iter(changes)),
)  # fmt: skip
def test_another_setting_is_another_question(store, made, changes):
    evidence.collect(source_of(store), TASK, kind="generation", n_total=100)
    evidence.collect(source_of(store), replace(TASK, **changes), kind="generation", n_total=100)
    assert made == [0, 0]


@pytest.mark.parametrize("what", ["model", "dtype", "library", "shard size", "evidence version"])
def test_another_origin_is_another_question(store, made, monkeypatch, what):
    evidence.collect(source_of(store), TASK, kind="generation", n_total=100)
    source = source_of(store, digest="two" if what == "model" else "one")
    if what == "dtype":
        source = replace(source, dtype="bfloat16")
    elif what == "library":
        monkeypatch.setattr(evidence.np, "__version__", "0.0")
    elif what == "shard size":
        monkeypatch.setattr(evidence, "DOCUMENTS_PER_SHARD", {"cpu": 200})
    elif what == "evidence version":
        monkeypatch.setitem(evidence.VERSIONS, "generation", 10**6)
    evidence.collect(source, TASK, kind="generation", n_total=100)
    assert made == [0, 0]


@pytest.mark.parametrize(
    "error",
    [MemoryError(), RuntimeError("not enough memory: you tried to allocate 9 bytes"),
     torch.cuda.OutOfMemoryError("CUDA out of memory.")],
)  # fmt: skip
def test_running_out_of_memory_is_said_with_what_to_do(store, monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(generation, "generated_shard", fail)
    with pytest.raises(AuditError, match=r"Memory ran out.*everything finished.*smaller"):
        evidence.collect(source_of(store), TASK, kind="generation", n_total=100)


# --- scenario 2 ---


def test_posteriors_of_shards_are_joined_by_block_and_added_by_passage(store, monkeypatch):
    task = table_task([[[0], [1]], [[2], [0]]], 2, micro_batch=50)
    monkeypatch.setattr(evidence, "INPUTS_PER_SHARD", 200)
    parted = evidence.collect(source_of(store), task, kind="posterior", n_total=500)
    assert len(store.keys("shard/")) == 3
    monkeypatch.setattr(evidence, "INPUTS_PER_SHARD", 1000)
    whole = evidence.collect(source_of(store), task, kind="posterior", n_total=500)
    assert len(store.keys("shard/")) == 4
    assert parted.n_inputs.tolist() == [1] * 40 + [5] * 72 + [20] * 5
    assert parted.passage_n_inputs.sum() == 500
    for name, value in vars(whole).items():
        np.testing.assert_allclose(getattr(parted, name), value, rtol=1e-12, err_msg=name)
    # Both masked: the product of the two marginals of the table.
    table = compatible_table()
    p = [table[0, MASK, MASK, 0] * table[1, MASK, MASK, 1],
         table[0, MASK, MASK, 2] * table[1, MASK, MASK, 0]]  # fmt: skip
    np.testing.assert_allclose(parted.sum_p, np.outer(parted.n_inputs, p), rtol=1e-5)
    # Four parts, each in a column of its own: the marginals.
    marginals = np.log(
        [*table[:, MASK, MASK, [0, 1]].diagonal(), *table[:, MASK, MASK, [2, 0]].diagonal()]
    )
    np.testing.assert_allclose(parted.sum_log_p, np.outer(parted.n_inputs, marginals), rtol=1e-5)
