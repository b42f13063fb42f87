"""What is drawn for scenario 2's evidence: masks of dropout and inputs, the same in any shards."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from audit.attack.posterior import (
    PosteriorShard,
    PosteriorTask,
    draw_inputs,
    n_rows,
    posterior_shard,
)
from audit.attack.prompts import Template
from audit.attack.scores import all_scores
from audit.models.forward import body_of
from audit.models.load import load_model
from tests.membership.make_posterior import (
    NAMES,
    PASSAGES,
    logs_of,
    parts_of,
    plain_pieces,
    plain_task,
    posterior_sums,
    run,
    sums_of,
    task_of,
)
from tests.models.make_models import make_bert
from tests.reference_masking import log_product, plain_model


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two BERTs with much dropout, so that what it does is seen."""
    folder = tmp_path_factory.mktemp("pair")
    return (
        make_bert(folder / "hospital", seed=1, dropout=0.3, scale=0.3),
        make_bert(folder / "general", seed=2, dropout=0.3, scale=0.3),
    )


def bytes_of(shard: PosteriorShard) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in vars(shard).items()}


# Dropout


def test_the_model_is_left_in_evaluation_mode_even_when_stopped(pair: tuple[Path, Path]) -> None:
    loaded, task = load_model(pair[0]), task_of(pair[0])

    def stop(_: int) -> None:
        assert loaded.model.training
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        posterior_shard(loaded.model, task, shard=0, first=0, n=50, device="cpu", tick=stop)
    assert not loaded.model.training


def test_equal_weights_give_a_difference_of_exactly_zero(tmp_path: Path) -> None:
    one = make_bert(tmp_path / "one", seed=3, dropout=0.3)
    other = make_bert(tmp_path / "other", seed=3, dropout=0.3)
    task = task_of(one, micro_batch=16)
    found = [run(folder, task, n_inputs=60) for folder in (one, other)]
    assert bytes_of(found[0]) == bytes_of(found[1])
    sums = [posterior_sums(f.sum_p, f.sum_log_p) for f in found]
    parts = parts_of(task, NAMES)
    scores = all_scores(sums_of(sums[0], sums[1]), counts=found[0].n_inputs, parts=parts)
    for name in ("difference", "log_ratio", "mean_log_ratio", "part_log_ratio"):
        assert scores[name].value.tolist()[:-1] == [0.0] * 7
        assert scores[name].standard_error.tolist()[:-1] == [0.0] * 7


@pytest.mark.parametrize("micro_batch", [1, 4])
def test_no_two_inputs_share_their_masks(pair: tuple[Path, Path], micro_batch: int) -> None:
    model = load_model(pair[0]).model
    task = task_of(pair[0], PASSAGES[:1], NAMES[:4], micro_batch=micro_batch)
    seen: list[bytes] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        seen.extend(row.numpy().tobytes() for row in output.last_hidden_state[:, 0])

    for shard in (0, 1):
        handle = body_of(model).register_forward_hook(keep)
        posterior_shard(
            model,
            task,
            shard=shard,
            first=100 * shard,
            n=30,
            device="cpu",
            tick=lambda _: None,
        )
        handle.remove()
    n_layouts = 3  # of 2, 3 and 4 pieces
    assert len(seen) == 2 * 30 * n_layouts == len(set(seen))


def test_the_mean_with_dropout_is_the_references(pair: tuple[Path, Path]) -> None:
    passages, names = (PASSAGES[1], PASSAGES[4]), NAMES[1:3]
    task = task_of(pair[0], passages, names, micro_batch=32)
    found = run(pair[0], task, n_inputs=2000, n_shard_inputs=2000)
    sums = posterior_sums(found.sum_p, found.sum_log_p)
    parts = parts_of(task, names)
    scores = all_scores(sums_of(sums, sums), counts=found.n_inputs, parts=parts)
    plain = plain_model(pair[0])
    without_dropout = logs_of(plain, passages, names)
    plain.model.train()
    torch.manual_seed(5)
    is_seen = False
    for column, name in enumerate(names):
        logs = np.array([[log_product(plain, p, name) for p in passages] for _ in range(200)])
        for key, sample in (("general_posterior", np.exp(logs)), ("general_mean_log", logs)):
            own_error = math.sqrt((sample.var(axis=0, ddof=1) / len(sample)).sum()) / len(passages)
            error = math.hypot(own_error, scores[key].standard_error[column])
            assert abs(scores[key].value[column] - sample.mean()) < 5 * error
            plainly = np.array(without_dropout)[:, column]
            plainly = np.exp(plainly) if key == "general_posterior" else plainly
            is_seen |= abs(scores[key].value[column] - plainly.mean()) > 5 * error
    assert is_seen  # dropout moves the mean by more than is allowed above


def test_no_result_depends_on_torchs_global_random_state(pair: tuple[Path, Path]) -> None:
    task = task_of(pair[0], micro_batch=16)
    torch.manual_seed(1)
    quiet = run(pair[0], task, n_inputs=60)
    torch.manual_seed(2)
    disturbed = run(pair[0], task, n_inputs=60, tick=lambda n: torch.rand(n))
    assert bytes_of(quiet) == bytes_of(disturbed)


def test_seed_dropout_and_micro_batch_are_part_of_the_question(pair: tuple[Path, Path]) -> None:
    usual = {"seed": 7, "micro_batch": 16, "is_dropout_on": True}
    changes = ({}, {"seed": 8}, {"micro_batch": 8}, {"is_dropout_on": False})
    runs = [run(pair[0], task_of(pair[0], **{**usual, **c}), n_inputs=40) for c in changes]
    assert len({found.sum_p.tobytes() for found in runs}) == len(changes)


# The draw of inputs


def counting_task(n_passages: int, seed: int = 3) -> PosteriorTask:
    pieces = plain_pieces(np.array([[[5], [6]]]))
    return plain_task(
        templates=(Template((2,), (), (3,)),) * n_passages,
        kind_of_passage=np.zeros(n_passages, dtype=np.int64),
        pieces=(pieces,),
        n_listed=1,
        mask_id=4,
        seed=seed,
    )


def drawn(task: PosteriorTask, n: int, first: int = 0, **more: Any) -> list[list[int]]:
    blocks = draw_inputs(task, first=first, n_inputs=n, **more)
    return [block.tolist() for block in blocks]


@pytest.mark.parametrize(("fewer", "more"), [(100, 150), (30, 150), (130, 250), (1, 101)])
def test_a_longer_draw_begins_with_the_shorter(fewer: int, more: int) -> None:
    task = counting_task(50)
    flat = [[i for block in drawn(task, n) for i in block] for n in (fewer, more)]
    assert [len(x) for x in flat] == [fewer, more]
    assert flat[1][:fewer] == flat[0]


def test_a_block_is_the_same_wherever_the_draw_begins() -> None:
    task = counting_task(50)
    # Inputs 200 and on: 40 blocks of one, 12 of five and 32 of five come before them.
    assert drawn(task, 100, first=200) == drawn(task, 300)[72:]
    assert [len(b) for b in drawn(task, 230)] == [1] * 40 + [5] * 38
    assert [len(b) for b in drawn(task, 500, first=1900)] == [20] * 5 + [100] * 4
    assert drawn(task, 0) == []


def test_blocks_grow_with_their_number_and_a_longer_run_keeps_those_of_a_shorter() -> None:
    task = counting_task(3)
    sizes = [len(block) for block in drawn(task, 10_000)]
    assert sizes == [1] * 40 + [5] * 72 + [20] * 80 + [100] * 80
    for n, n_blocks in ((100, 52), (300, 92), (10_000, 272)):
        assert len(drawn(task, n)) == n_blocks
    assert drawn(task, 2500)[:112] == drawn(task, 400)


def test_blocks_seeds_and_purposes_draw_differently() -> None:
    def hundred(*, seed: int = 3, first: int = 0, purpose: str = "inputs") -> list[int]:
        blocks = drawn(counting_task(50, seed=seed), 100, first=first, purpose=purpose)
        return [passage for block in blocks for passage in block]

    draws = [hundred(first=first) for first in (0, 100, 200)]
    draws += [hundred(seed=4), hundred(purpose="chain inputs")]
    assert all(a != b for a, b in pairwise(sorted(draws)))


def test_draws_are_uniform_and_with_replacement() -> None:
    counts = np.zeros(37)
    repeats = []
    for block in drawn(counting_task(37), 20_000):
        counts += np.bincount(block, minlength=37)
        repeats += [a == b for a, b in pairwise(block)]
    assert stats.chisquare(counts).pvalue > 0.001
    # One draw is the same as the one before it in 1 of 37 cases.
    assert stats.binomtest(sum(repeats), len(repeats), 1 / 37).pvalue > 0.001


def test_more_inputs_reuse_the_same_shards_and_order_changes_no_byte(
    pair: tuple[Path, Path],
) -> None:
    task = task_of(pair[0], micro_batch=16)

    def shard(k: int, n: int) -> dict[str, bytes]:
        return bytes_of(run(pair[0], task, n_inputs=n, shard=k, n_shard_inputs=100))

    forward = [shard(k, n) for k, n in ((0, 100), (1, 100), (2, 50))]
    backward = [shard(k, n) for k, n in ((2, 50), (1, 100), (0, 100))]
    assert forward == backward[::-1]
    assert len({found["sum_p"] for found in forward}) == 3


def test_one_shard_or_two_give_the_same_sums_without_dropout(pair: tuple[Path, Path]) -> None:
    task = task_of(pair[0], is_dropout_on=False)
    whole = run(pair[0], task, n_inputs=150)
    parts = [
        run(pair[0], task, n_inputs=n, shard=k, n_shard_inputs=100) for k, n in ((0, 100), (1, 50))
    ]
    for field in ("n_inputs", "sum_p", "sum_log_p"):
        joined = np.concatenate([getattr(part, field) for part in parts])
        np.testing.assert_allclose(getattr(whole, field), joined, rtol=1e-6)
    for field in ("passage_n_inputs", "passage_sum_log_p"):
        added = sum(getattr(part, field) for part in parts)
        np.testing.assert_allclose(getattr(whole, field), added, rtol=1e-6)


@pytest.mark.parametrize("is_dropout_on", [True, False])
def test_ticks_count_the_rows_of_every_pass(pair: tuple[Path, Path], is_dropout_on: bool) -> None:
    task = task_of(pair[0], PASSAGES[:2], NAMES, is_dropout_on=is_dropout_on, micro_batch=16)
    ticks: list[int] = []
    run(pair[0], task, n_inputs=90, tick=ticks.append)
    n_layouts = 4  # of 1, 2, 3 and 4 pieces
    assert max(ticks) <= 16
    assert sum(ticks) == n_layouts * (90 if is_dropout_on else 2)
    if is_dropout_on:
        assert n_rows(task, n_inputs=90) == sum(ticks)
