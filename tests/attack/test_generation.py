"""The sampler against a plain loop over documents, and its sums against exact numbers."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass, replace
from itertools import accumulate, product

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from audit.attack.generation import (
    GeneratedShard,
    GenerationTask,
    draw_shard,
    find_largest,
    generate_shard,
)
from audit.models.forward import Forward, compute_logits
from audit.models.load import load_model
from tests.attack.make_tasks import generation_task
from tests.models.make_models import make_bert
from tests.one_thread import one_thread
from tests.table_model import (
    CLS,
    SEP,
    SIDE_BY_SIDE,
    STATES,
    WORD,
    TableModel,
    compatible_table,
    random_table,
    state_shares,
)

__all__ = ["one_thread"]
TABLES = {"compatible": compatible_table(), "incompatible": random_table(3)}
SIDE_MODEL = TableModel(TABLES["incompatible"], slots=(1, 2))


def generate(
    model: nn.Module, task: GenerationTask, *, n_documents: int, shard: int = 0
) -> GeneratedShard:
    return generate_shard(
        Forward(model),
        task,
        shard=shard,
        first=100 * shard,
        n=n_documents,
        device="cpu",
        tick=lambda _: None,
    )


# --- a loop, one document at a time ---


@dataclass
class SlowDocument:
    tokens: list[int]
    mass: dict[int, float]
    part_mass: list[float]


def fits(part: tuple[int, ...], tokens: list[int], *, start: int, but: int) -> bool:
    """Whether a part stands at `start`, its piece at `but` left out."""
    if start < 0 or start + len(part) > len(tokens):
        return False
    return all(start + i == but or tokens[start + i] == piece for i, piece in enumerate(part))


def slow_document(
    model: nn.Module, task: GenerationTask, positions: list[int], uniforms: list[float]
) -> SlowDocument:
    document = SlowDocument(list(task.prompt), {}, [0.0] * len(task.multi_piece_parts))
    tokens = document.tokens
    for position, uniform in zip(positions, uniforms, strict=True):
        if task.is_remasked:
            tokens[position] = task.mask_id
        with torch.inference_mode():
            ids, masked_positions = torch.tensor([tokens]), torch.tensor([[position]])
            logits = compute_logits(model, ids, positions=masked_positions)[0, 0]
        ranked = sorted(range(len(logits)), key=lambda token: -float(logits[token]))[: task.top_k]
        weights = torch.softmax(logits[ranked] / task.temperature, dim=0).tolist()
        for token, weight in zip(ranked, weights, strict=True):
            document.mass[token] = document.mass.get(token, 0.0) + weight
        for number, part in enumerate(task.multi_piece_parts):
            chances = [
                weights[ranked.index(piece)]
                for j, piece in enumerate(part)
                if piece in ranked and fits(part, tokens, start=position - j, but=position)
            ]
            document.part_mass[number] += sum(chances)
        cumulative = list(accumulate(weights))
        tokens[position] = ranked[bisect(cumulative, uniform * cumulative[-1])]
    return document


def assert_equals_slow_loop(
    model: nn.Module, task: GenerationTask, *, n_documents: int, atol: float
) -> GeneratedShard:
    shard = generate(model, task, n_documents=n_documents)
    positions, uniforms = draw_shard(task, first=0, n_documents=n_documents)
    slow = [
        slow_document(model, task, positions[:, i].tolist(), uniforms[:, i].tolist())
        for i in range(n_documents)
    ]
    assert shard.documents.tolist() == [document.tokens for document in slow]
    ends = np.cumsum(shard.n_documents)
    assert ends[-1] == n_documents
    for block, (end, size) in enumerate(zip(ends, shard.n_documents, strict=True)):
        assert size == (1 if end <= 40 else min(5, n_documents - ends[block - 1]))
        documents = slow[end - size : end]
        plain = np.zeros(shard.mass.shape[1])
        for document in documents:
            for token, weight in document.mass.items():
                plain[token] += weight
        np.testing.assert_allclose(shard.mass[block], plain, rtol=0, atol=atol)
        parts = np.sum([document.part_mass for document in documents], axis=0)
        np.testing.assert_allclose(shard.part_mass[block], parts, rtol=0, atol=atol)
    return shard


@pytest.mark.parametrize(
    ("top_k", "is_remasked", "temperature"), [(3, True, 1.0), (2, True, 0.7), (3, False, 2.0)]
)
def test_table_documents_equal_a_loop_over_documents(top_k, is_remasked, temperature):
    parts = ((0, 1), (2, 2), (1, 2, WORD), (CLS, 0), (SEP, 0), (0, SEP))
    task = generation_task(
        SIDE_BY_SIDE,
        n_steps=11,
        top_k=top_k,
        is_remasked=is_remasked,
        temperature=temperature,
        multi_piece_parts=parts,
    )
    shard = assert_equals_slow_loop(SIDE_MODEL, task, n_documents=120, atol=1e-9)
    totals = shard.part_mass.sum(axis=0)
    assert (totals[:4] > 0).all()
    assert totals[4:].tolist() == [0, 0]  # nothing stands before [CLS], and [SEP] after no slot


def test_documents_of_a_real_model_equal_a_loop_over_documents(tmp_path):
    loaded = load_model(make_bert(tmp_path / "bert", scale=0.3))
    ids = loaded.tokenizer.convert_tokens_to_ids
    mask, smith, son, plural = ids(["[MASK]", "smith", "##son", "##s"])
    prompt = (*ids(["[CLS]", "mr"]), mask, mask, mask, ids("was"), mask, mask, ids("[SEP]"))
    parts = ((smith, son, plural), *product(range(5, 37, 2), repeat=2))
    task = generation_task(
        prompt, mask_id=mask, seed=1, n_steps=15, top_k=20, multi_piece_parts=parts
    )
    shard = assert_equals_slow_loop(loaded.model, task, n_documents=25, atol=1e-4)
    assert (shard.part_mass.sum(axis=0) > 0).sum() > 100


@pytest.mark.long
def test_the_fast_pass_generates_the_documents_of_the_plain_one(tmp_path):
    loaded = load_model(make_bert(tmp_path / "bert", scale=0.2, hidden_size=64, n_layers=3))
    ids = loaded.tokenizer.convert_tokens_to_ids
    prompt = (*ids(["[CLS]", "mr"]), *[ids("[MASK]")] * 12, ids("[SEP]"))
    task = generation_task(prompt, mask_id=ids("[MASK]"), n_steps=60, top_k=20)
    documents = [
        generate_shard(
            Forward(loaded.model, is_plain=is_plain),
            task,
            shard=0,
            first=0,
            n=200,
            device="cpu",
            tick=lambda _: None,
        ).documents
        for is_plain in (False, True)
    ]
    assert len(np.unique(documents[0], axis=0)) > 190
    assert (documents[0] == documents[1]).all(axis=1).mean() >= 0.95


# --- shards ---


@pytest.mark.parametrize("n_vocabulary", [7, 130, 1998])
def test_the_largest_logits_are_those_of_a_sort_and_of_equal_ones_the_first(n_vocabulary):
    k = 7
    logits = torch.randn(40, n_vocabulary, generator=torch.Generator().manual_seed(0)) * 3
    logits[1], logits[2, 3:], logits[3] = 0.0, -torch.inf, -logits[3].abs() - 1.0
    logits[4:20] = logits[4:20].bfloat16().float()  # many are equal
    values, tokens = find_largest(logits, k)
    order = torch.sort(logits, dim=1, descending=True, stable=True)
    assert torch.equal(values, order.values[:, :k])
    assert torch.equal(logits.gather(1, tokens), values)
    if n_vocabulary >= 8 * k:
        assert torch.equal(tokens, order.indices[:, :k])
    logits[5, 1:] = torch.nan
    assert torch.equal(*(x.isnan() for x in (find_largest(logits, k)[0], logits.topk(k)[0])))


def test_what_is_generated_does_not_depend_on_shard_size_or_order():
    task = generation_task(SIDE_BY_SIDE, n_steps=14, multi_piece_parts=((0, 1), (2, 1)))
    shard = generate(SIDE_MODEL, task, n_documents=300)
    small = {k: generate(SIDE_MODEL, task, n_documents=100, shard=k) for k in (2, 0, 1)}
    other_seed = generate(SIDE_MODEL, replace(task, seed=6), n_documents=300)
    assert (other_seed.documents != shard.documents).any(axis=1).mean() > 0.5
    for name in vars(shard):
        joined = np.concatenate([getattr(small[k], name) for k in range(3)])
        np.testing.assert_array_equal(getattr(shard, name), joined, err_msg=name)


# --- the chain ---


@pytest.mark.parametrize("is_remasked", [True, False])
@pytest.mark.parametrize("table", TABLES)
def test_states_after_each_number_of_steps_have_their_exact_shares(table, is_remasked):
    for n_steps in (1, 2, 5):
        task = generation_task(n_steps=n_steps, is_remasked=is_remasked)
        shard = generate(TableModel(TABLES[table], slots=(1, 3)), task, n_documents=6000)
        exact = state_shares(TABLES[table], n_steps=n_steps, is_remasked=is_remasked)
        first, second = shard.documents[:, task.sampled_positions].T
        counts = np.bincount(first * 4 + second, minlength=len(STATES))
        possible = exact > 1e-12
        assert counts[~possible].sum() == 0
        assert stats.chisquare(counts[possible], exact[possible] * 6000).pvalue > 0.01
