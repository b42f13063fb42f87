from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from audit.training import small
from audit.training.small import PretrainSettings, SpecialIds, pretrain
from audit.training.tokens import masked_rows

SPECIAL = SpecialIds(cls=2, sep=3, mask=4, sentence_ends=(5,), n_vocabulary=40)
SMALL = PretrainSettings(n_rows=64, n_tokens_per_row=(16,), n_warmup=5)


def small_model(seed: int = 0) -> BertForMaskedLM:
    torch.manual_seed(seed)
    return BertForMaskedLM(
        BertConfig(
            vocab_size=40, hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=32,
        )
    )  # fmt: skip


def documents(n: int = 20) -> list[np.ndarray]:
    """Documents that count upwards: every token tells its neighbours."""
    return [np.arange(6 + i % 5, 30 + i % 5) for i in range(n)]


def masked(n_rows: int = 400) -> tuple[np.ndarray, ...]:
    rows = np.tile(np.concatenate([[2], np.arange(6, 36), [3]]), (n_rows, 1))
    found = masked_rows(rows, special=SPECIAL, share=0.15, rng=np.random.default_rng(0))
    return rows, found.ids, found.positions, found.targets


def test_targets_are_the_true_tokens_and_never_special() -> None:
    rows, _, positions, targets = masked()
    assert (np.take_along_axis(rows, positions, axis=1) == targets).all()
    assert not np.isin(targets, [2, 3]).any()
    assert all(len(set(row)) == len(row) for row in positions)


def test_of_the_asked_80_percent_are_masked_10_replaced_10_kept() -> None:
    rows, ids, positions, targets = masked()
    assert positions.shape[1] == round(0.15 * rows.shape[1])
    shown = np.take_along_axis(ids, positions, axis=1)
    n = shown.size
    masked_share = (shown == 4).sum() / n
    # kept: one tenth as it is, and one in forty of the replaced tenth by chance
    kept_share = (shown == targets).sum() / n
    assert masked_share == pytest.approx(0.8 + 0.1 / 40, abs=4 * (0.8 * 0.2 / n) ** 0.5)
    assert kept_share == pytest.approx(0.1 + 0.1 / 40, abs=4 * (0.1 * 0.9 / n) ** 0.5)
    untouched = np.ones_like(rows, dtype=bool)
    np.put_along_axis(untouched, positions, False, axis=1)
    assert (ids[untouched] == rows[untouched]).all()


def test_a_border_between_documents_is_a_separator() -> None:
    stream = small._stream(documents(), special=SPECIAL, rng=np.random.default_rng(0))
    assert (stream == 3).sum() == 20
    jumps = np.flatnonzero(np.diff(stream) != 1)
    assert all(stream[j] == 3 or stream[j + 1] == 3 for j in jumps)


def test_rows_are_framed_and_begin_where_the_settings_say() -> None:
    rng = np.random.default_rng(0)
    stream = small._stream(documents(), special=SPECIAL, rng=rng)
    settings = PretrainSettings(n_rows=300, n_tokens_per_row=(10,), document_start_share=1.0)
    rows = small._rows(stream, special=SPECIAL, settings=settings, rng=rng)
    assert rows.shape == (300, 10)
    assert (rows[:, 0] == 2).all()
    assert (rows[:, -1] == 3).all()
    assert set(rows[:, 1]) <= {6, 7, 8, 9, 10} | {int(stream[-8])}


def test_training_learns_what_tells_a_token_and_repeats_with_its_seed() -> None:
    settings = PretrainSettings(n_rows=32, n_tokens_per_row=(16,), n_warmup=5, learning_rate=3e-3)
    one, two, other = (small_model() for _ in range(3))
    losses = []
    pretrain(
        one, documents(), special=SPECIAL, n_steps=60, seed=1, settings=settings,
        after_step=lambda _, loss: losses.append(loss),
    )  # fmt: skip
    pretrain(two, documents(), special=SPECIAL, n_steps=60, seed=1, settings=settings)
    pretrain(other, documents(), special=SPECIAL, n_steps=60, seed=2, settings=settings)
    assert np.mean(losses[:3]) > 3.3  # ln 40 = 3.69: nothing known
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:3])
    state = [m.state_dict() for m in (one, two, other)]
    assert all(torch.equal(state[0][k], state[1][k]) for k in state[0])
    assert any(not torch.equal(state[0][k], state[2][k]) for k in state[0])


def test_steps_per_epoch_see_as_many_tokens_as_the_corpus_has() -> None:
    assert SMALL.steps_per_epoch(64 * 16 * 7) == 7
