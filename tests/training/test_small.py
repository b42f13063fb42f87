"""Pre-training of the demo's small models: its rows, that it learns, that it repeats itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from audit.training.small import PretrainSettings, SpecialIds, pretrain

SPECIAL = SpecialIds(cls=2, sep=3, mask=4, sentence_ends=(20,), n_vocabulary=40)
DOCUMENTS = [np.arange(6 + i % 5, 30 + i % 5) for i in range(20)]
"""They count upwards: every token tells its neighbours, and a [SEP] stands between two."""
LOW = 1e-9


def small_model() -> BertForMaskedLM:
    torch.manual_seed(0)
    return BertForMaskedLM(BertConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=64, max_position_embeddings=32,
    ))  # fmt: skip


def rows_seen(n_steps: int = 2, **settings: object) -> list[np.ndarray]:
    """Return the rows of each step, without [CLS] and [SEP], 0 where a token is not shown."""
    model, seen = small_model(), []

    def look(_: object, args: tuple, kwargs: dict) -> None:
        seen.append(kwargs.get("input_ids", args[0] if args else None).numpy().copy())

    model.bert.register_forward_pre_hook(look, with_kwargs=True)
    how = PretrainSettings(learning_rate=LOW, **settings)
    pretrain(model, DOCUMENTS, special=SPECIAL, n_steps=n_steps, seed=1, settings=how)
    assert all((rows[:, 0] == 2).all() and (rows[:, -1] == 3).all() for rows in seen)
    return [np.where(rows == 4, 0, rows)[:, 1:-1] for rows in seen]


def test_rows_begin_at_documents_and_sentences_and_run_on_over_borders() -> None:
    steps = rows_seen(n_steps=12, n_rows=400, n_tokens_per_row=(10, 14))
    assert {rows.shape for rows in steps} == {(400, 8), (400, 12)}
    assert len({rows[0].tobytes() for rows in steps}) == 12
    firsts = np.concatenate([rows[:, 0] for rows in steps])
    firsts = firsts[firsts > 4]
    # A quarter at a document, a quarter there or behind the end of its sentence (20), and half
    # at any of the 25 tokens of a document, of which 3 are below 11 on average.
    at_document, at_sentence = 1 / 4 + 1 / 8 + 3 / 50, 1 / 8 + 1 / 50
    assert (firsts <= 10).mean() == pytest.approx(at_document, abs=0.03)
    assert (firsts == 21).mean() == pytest.approx(at_sentence, abs=0.03)
    pairs = {pair for rows in steps for row in rows.tolist() for pair in pairwise(row)}
    assert {(a, a + 1) for a in range(6, 33)} <= pairs
    assert {(a, 3) for a in range(29, 34)} <= pairs and {(3, b) for b in range(6, 11)} <= pairs


def test_training_learns_what_tells_a_token_and_repeats_with_its_seed() -> None:
    how = PretrainSettings(n_rows=32, n_tokens_per_row=(16,), n_warmup=5, learning_rate=3e-3)
    one, two, other = (small_model() for _ in range(3))
    told: list[tuple[int, float]] = []
    mean = pretrain(one, DOCUMENTS, special=SPECIAL, n_steps=60, seed=1, settings=how,
                    after_step=lambda step, loss: told.append((step, loss)))  # fmt: skip
    assert pretrain(two, DOCUMENTS, special=SPECIAL, n_steps=60, seed=1, settings=how) == mean
    pretrain(other, DOCUMENTS, special=SPECIAL, n_steps=60, seed=2, settings=how)
    losses = [loss for _, loss in told]
    assert [step for step, _ in told] == list(range(1, 61)) and not one.training
    assert mean == pytest.approx(np.mean(losses[-50:]))
    assert np.mean(losses[:3]) > 3.3  # ln 40 = 3.69: nothing known
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:3])
    # As they always were: the shipped models can be made again.
    assert [losses[0], losses[29], losses[59]] == pytest.approx([3.7051, 3.1482, 3.0476], abs=2e-3)
    states = [model.state_dict() for model in (one, two, other)]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])
    assert any(not torch.equal(states[0][k], states[2][k]) for k in states[0])


def test_steps_per_epoch_see_as_many_tokens_as_the_corpus_has() -> None:
    how = PretrainSettings(n_rows=32, n_tokens_per_row=(16, 32))
    assert how.steps_per_epoch(32 * 24 * 7) == 7
