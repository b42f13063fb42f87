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

from audit.attack.generation import GeneratedShard, GenerationTask, shard_draws
from audit.models.forward import logits_at
from audit.models.load import load_model
from tests.attack.make_documents import TABLES, by_hundreds, generate, model_of, task_of
from tests.models.make_models import make_bert
from tests.one_thread import one_thread
from tests.table_model import (
    CLS,
    N_TOKENS,
    SEP,
    SIDE_BY_SIDE,
    STATES,
    WORD,
    expected_mass,
    expected_pair_mass,
    state_shares,
)

__all__ = ["one_thread"]

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
            ids, where = torch.tensor([tokens]), torch.tensor([[position]])
            logits = logits_at(model, ids, positions=where)[0, 0]
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
    found = generate(model, task, n_documents=n_documents)
    positions, uniforms = shard_draws(task, first=0, n_documents=n_documents)
    slow = [
        slow_document(model, task, positions[:, i].tolist(), uniforms[:, i].tolist())
        for i in range(n_documents)
    ]
    assert found.documents.tolist() == [document.tokens for document in slow]
    ends = np.cumsum(found.n_documents)
    assert ends[-1] == n_documents
    for block, (end, size) in enumerate(zip(ends, found.n_documents, strict=True)):
        assert size == (1 if end <= 40 else min(5, n_documents - ends[block - 1]))
        documents = slow[end - size : end]
        plain = np.zeros(found.mass.shape[1])
        for document in documents:
            for token, weight in document.mass.items():
                plain[token] += weight
        np.testing.assert_allclose(found.mass[block], plain, rtol=0, atol=atol)
        parts = np.sum([document.part_mass for document in documents], axis=0)
        np.testing.assert_allclose(found.part_mass[block], parts, rtol=0, atol=atol)
    return found


@pytest.mark.parametrize(
    ("top_k", "is_remasked", "temperature"), [(3, True, 1.0), (2, True, 0.7), (3, False, 2.0)]
)
def test_table_documents_equal_a_loop_over_documents(top_k, is_remasked, temperature):
    parts = ((0, 1), (2, 2), (1, 2, WORD), (CLS, 0), (SEP, 0), (0, SEP))
    task = task_of(
        SIDE_BY_SIDE, n_steps=11, top_k=top_k, is_remasked=is_remasked, temperature=temperature,
        multi_piece_parts=parts,
    )  # fmt: skip
    found = assert_equals_slow_loop(
        model_of(TABLES["incompatible"], SIDE_BY_SIDE), task,
        n_documents=120, atol=1e-9,
    )  # fmt: skip
    totals = found.part_mass.sum(axis=0)
    assert (totals[:4] > 0).all()
    assert totals[4:].tolist() == [0, 0]  # nothing stands before [CLS], and [SEP] after no slot


def test_documents_of_a_real_model_equal_a_loop_over_documents(tmp_path):
    loaded = load_model(make_bert(tmp_path / "bert", scale=0.3))
    ids = loaded.tokenizer.convert_tokens_to_ids
    mask, smith, son, plural = ids(["[MASK]", "smith", "##son", "##s"])
    prompt = (*ids(["[CLS]", "mr"]), mask, mask, mask, ids("was"), mask, mask, ids("[SEP]"))
    parts = ((smith, son, plural), *product(range(5, 37, 2), repeat=2))
    task = task_of(prompt, mask_id=mask, seed=1, n_steps=15, top_k=20, multi_piece_parts=parts)
    found = assert_equals_slow_loop(loaded.model, task, n_documents=25, atol=1e-4)
    assert (found.part_mass.sum(axis=0) > 0).sum() > 100


# --- shards ---


def test_what_is_generated_does_not_depend_on_shard_size_or_order():
    task = task_of(SIDE_BY_SIDE, n_steps=14, multi_piece_parts=((0, 1), (2, 1)))
    model = model_of(TABLES["incompatible"], SIDE_BY_SIDE)
    whole = generate(model, task, n_documents=300, n_shard=400)
    small = {k: generate(model, task, n_documents=100, shard=k, n_shard=100) for k in (2, 0, 1)}
    other = generate(model, replace(task, seed=6), n_documents=300)
    assert (other.documents != whole.documents).any(axis=1).mean() > 0.5
    for name in vars(whole):
        joined = np.concatenate([getattr(small[k], name) for k in range(3)])
        np.testing.assert_array_equal(getattr(whole, name), joined, err_msg=name)


def state_counts(shard: GeneratedShard, task: GenerationTask) -> np.ndarray:
    pairs = shard.documents[:, task.sampled_positions]
    return np.bincount(pairs[:, 0] * 4 + pairs[:, 1], minlength=len(STATES))


def chi_square_p(counts: np.ndarray, shares: np.ndarray) -> float:
    possible = shares > 1e-12
    assert counts[~possible].sum() == 0
    return float(stats.chisquare(counts[possible], shares[possible] * counts.sum()).pvalue)


# --- the chain ---


@pytest.mark.parametrize("is_remasked", [True, False])
@pytest.mark.parametrize("table", TABLES)
def test_states_after_each_number_of_steps_have_their_exact_shares(table, is_remasked):
    for n_steps in (1, 2, 5):
        task = task_of(n_steps=n_steps, is_remasked=is_remasked)
        shard = generate(model_of(TABLES[table]), task, n_documents=6000)
        exact = state_shares(TABLES[table], n_steps=n_steps, is_remasked=is_remasked)[-1]
        assert chi_square_p(state_counts(shard, task), exact) > 0.01


# --- Rao-Blackwell sums ---


@pytest.mark.parametrize("is_remasked", [True, False])
@pytest.mark.parametrize("table", TABLES)
def test_mass_has_its_exact_expectation(table, is_remasked):
    task = task_of(n_steps=12, is_remasked=is_remasked)
    found = generate(model_of(TABLES[table]), task, n_documents=8000)
    exact = expected_mass(TABLES[table], n_steps=12, is_remasked=is_remasked)
    per_document = by_hundreds(found.mass[:, :N_TOKENS]) / 100
    assert len(per_document) == 80
    error, expectation = per_document.std(axis=0, ddof=1) / np.sqrt(80), exact.sum(axis=0)
    assert (error > 0).all()
    assert (error < 0.02 * expectation).all()  # close enough for four of them to mean something
    assert (np.abs(per_document.mean(axis=0) - expectation) < 4 * error).all()


def test_mass_of_a_part_of_two_pieces_has_its_exact_expectation():
    table = TABLES["incompatible"]
    parts = ((0, 1), (1, 0), (2, 2))
    task = task_of(SIDE_BY_SIDE, n_steps=12, multi_piece_parts=parts)
    found = generate(model_of(table, SIDE_BY_SIDE), task, n_documents=8000)
    per_document = by_hundreds(found.part_mass) / 100
    error = per_document.std(axis=0, ddof=1) / np.sqrt(len(per_document))
    expectation = np.array([expected_pair_mass(table, pair, n_steps=12) for pair in parts])
    assert ((error > 0) & (error < 0.05 * expectation)).all()
    assert (np.abs(per_document.mean(axis=0) - expectation) < 4 * error).all()
