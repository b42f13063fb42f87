"""The sampler's chain and its Rao-Blackwell sums against exact numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from audit.attack.generation import GeneratedShard, GenerationTask, shard_draws, step
from tests.attack.make_documents import TABLES, by_hundreds, generate, model_of, task_of
from tests.one_thread import one_thread
from tests.table_model import (
    APART,
    CLS,
    MASK,
    N_TOKENS,
    N_VOCABULARY,
    SEP,
    SIDE_BY_SIDE,
    STATES,
    WORD,
    conditional,
    expected_mass,
    expected_pair_mass,
    random_table,
    state_shares,
)

__all__ = ["one_thread"]


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


@pytest.mark.parametrize("is_remasked", [True, False])
@pytest.mark.parametrize("slot", [0, 1])
def test_one_step_draws_from_the_conditional(slot, is_remasked):
    table = random_table(8)
    task, model = task_of(is_remasked=is_remasked), model_of(table)
    rng = np.random.default_rng(2)
    for state in ((0, 2), (1, 1), (2, 0), (MASK, 1)):
        ids = torch.tensor(APART).repeat(3000, 1)
        ids[:, 1], ids[:, 3] = state
        position = task.sampled_positions[slot]
        step(
            model, task, ids, positions=torch.full((3000,), int(position)),
            uniforms=torch.from_numpy(rng.random(3000)),
        )  # fmt: skip
        drawn = np.bincount(ids[:, position].numpy(), minlength=N_VOCABULARY)
        exact = conditional(table, slot=slot, state=state, is_remasked=is_remasked)
        assert chi_square_p(drawn[:N_TOKENS], exact) > 0.01
        assert drawn[N_TOKENS:].sum() == 0
        other = 3 if slot == 0 else 1
        assert (ids[:, other] == state[1 - slot]).all()  # nothing else is touched
        assert (ids[:, [0, 2, 4]] == torch.tensor([CLS, WORD, SEP])).all()


def test_the_same_draws_serve_every_model():
    task = task_of()
    one = shard_draws(task, first=100, n_documents=150)
    again = shard_draws(task, first=100, n_documents=150)
    other = shard_draws(replace(task, seed=6), first=100, n_documents=150)
    np.testing.assert_array_equal(one[0], again[0])
    np.testing.assert_array_equal(one[1], again[1])
    assert (one[1] != other[1]).all()
    assert set(np.unique(one[0])) == {1, 3}
    assert one[1].shape == (10, 150)


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


@pytest.mark.parametrize("pair", [(0, 1), (2, 2), (1, 0)])
def test_mass_of_a_part_of_two_pieces_has_its_exact_expectation(pair):
    table = TABLES["incompatible"]
    parts = ((0, 1), (1, 0), (2, 2))
    task = task_of(SIDE_BY_SIDE, n_steps=12, multi_piece_parts=parts)
    found = generate(model_of(table, SIDE_BY_SIDE), task, n_documents=8000)
    per_document = by_hundreds(found.part_mass[:, parts.index(pair)]) / 100
    error = per_document.std(ddof=1) / np.sqrt(len(per_document))
    expectation = expected_pair_mass(table, pair, n_steps=12)
    assert 0 < error < 0.05 * expectation
    assert abs(per_document.mean() - expectation) < 4 * error
