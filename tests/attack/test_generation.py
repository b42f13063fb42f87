"""The sampler's chain and its Rao-Blackwell sums against exact numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from audit.attack.generation import GeneratedShard, GenerationTask
from tests.attack.make_documents import TABLES, by_hundreds, generate, model_of, task_of
from tests.one_thread import one_thread
from tests.table_model import (
    N_TOKENS,
    SIDE_BY_SIDE,
    STATES,
    expected_mass,
    expected_pair_mass,
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
