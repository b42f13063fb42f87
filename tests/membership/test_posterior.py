"""Scenario 2's evidence against a slow reference, its dropout masks, and the draw of inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from audit.corpora.passages import Passage
from audit.membership.posterior import (
    BLOCK,
    PosteriorShard,
    PosteriorTask,
    draw_inputs,
    layouts,
    n_rows,
    posterior_shard,
)
from audit.membership.prompts import PartPieces, Template
from audit.membership.scores import PosteriorSums, posterior_scores
from audit.models.encoder import body_of
from audit.models.load import load_model
from tests.models.make_models import make_bert, make_distilbert, make_japanese_bert, make_roberta
from tests.reference_masking import (
    SCORES,
    PlainModel,
    can_be_scored,
    log_product,
    make_task,
    plain_model,
    score_with_error,
)

RIGHT = " was seen by dr jones for pain."
PASSAGES = (
    Passage("", ("full",), "", RIGHT, "1", None),
    Passage("the patient ", ("full",), "", RIGHT, "2", None),
    Passage("", ("first", "last"), " ", RIGHT, "3", None),
    Passage("in pain and ", ("first", "last"), " ", " was seen for pain", "4", None),
    Passage("", ("last", "first"), ", ", RIGHT, "5", None),
    Passage("the patient - ", ("last", "first"), ", ", " seen", "6", None),
)
JAPANESE_PASSAGES = (
    Passage("", ("full",), "", "さんは受診した。", "1", None),
    Passage("患者", ("full",), "", "は医師の診察を受診した。", "2", None),
    Passage("患者", ("last", "first"), "", "さんは受診した。", "3", None),
    Passage("医師が", ("last", "first"), "\u3000", "を診察した。", "4", None),
)
NAMES = (
    ("john", "smith"),
    ("mary", "jones"),
    ("anna", "jonesson"),
    ("johns", "smiths"),
    ("mary", "smith-jones"),
    ("", "smith"),
    ("johns", ""),
    ("zoe", "smith"),
)
JAPANESE_NAMES = (
    ("花子", "山田"),
    ("太郎", "佐藤"),
    ("太郎", "佐藤さん"),
    ("花子さん", "山田"),
    ("", "山田"),
    ("花", "山田"),
)
CASES: dict[str, tuple[Callable[..., Path], tuple[Passage, ...], tuple[tuple[str, str], ...]]] = {
    "bert": (make_bert, PASSAGES, NAMES),
    "roberta": (make_roberta, PASSAGES, NAMES),
    "distilbert": (make_distilbert, PASSAGES, NAMES),
    "japanese": (make_japanese_bert, JAPANESE_PASSAGES, JAPANESE_NAMES),
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two BERTs with much dropout, so that what it does is seen."""
    folder = tmp_path_factory.mktemp("pair")
    return (
        make_bert(folder / "hospital", seed=1, dropout=0.3, scale=0.3),
        make_bert(folder / "general", seed=2, dropout=0.3, scale=0.3),
    )


def run(
    folder: Path,
    task: PosteriorTask,
    *,
    n_inputs: int,
    shard: int = 0,
    n_shard_inputs: int = 1000,
    tick: Callable[[int], None] = lambda _: None,
) -> PosteriorShard:
    return posterior_shard(
        load_model(folder).model,
        task,
        shard=shard,
        n_shard_inputs=n_shard_inputs,
        n_inputs=n_inputs,
        device="cpu",
        tick=tick,
    )


def task_of(
    folder: Path, passages: Any = PASSAGES, names: Any = NAMES, **more: Any
) -> PosteriorTask:
    return make_task(load_model(folder).tokenizer, passages, names, **more)


def bytes_of(shard: PosteriorShard) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in vars(shard).items()}


# Evaluation mode: equal to the reference


def logs_of(plain: PlainModel, passages: Any, names: Any) -> list[list[float]]:
    """Return ln p of every name in every passage, [P][N]."""
    logs = []
    for passage in passages:
        row = []
        for name in names:
            scored = can_be_scored(plain, passages, name)
            row.append(log_product(plain, passage, name) if scored else math.nan)
        logs.append(row)
    return logs


@pytest.mark.parametrize("kind", CASES)
def test_sums_and_scores_equal_the_slow_reference(kind: str, tmp_path: Path) -> None:
    make, passages, names = CASES[kind]
    folders = {who: make(tmp_path / who, seed=seed) for who, seed in (("h", 1), ("g", 2))}
    # 230 inputs: three blocks, the last one shorter; 3 rows a pass, so that groups are cut.
    task = task_of(folders["h"], passages, names, is_dropout_on=False, micro_batch=3)
    drawn = draw_inputs(task, first_block=0, n_inputs=230)
    found, logs = {}, {}
    for who, folder in folders.items():
        found[who] = run(folder, task, n_inputs=230)
        logs[who] = logs_of(plain_model(folder), passages, names)
        by_passage = np.zeros((len(passages), len(names)))
        for block, inputs in enumerate(drawn):
            for column in range(len(names)):
                l_all = [logs[who][p][column] for p in inputs]
                p_all = [math.exp(x) for x in l_all]
                assert found[who].sum_p[block, column] == pytest.approx(
                    sum(p_all), rel=1e-6, nan_ok=True
                )
                assert found[who].sum_log_p[block, column] == pytest.approx(
                    sum(l_all), rel=1e-6, nan_ok=True
                )
            for p in inputs:
                by_passage[p] += logs[who][p]
        n_drawn = found[who].passage_n_inputs
        assert n_drawn.tolist() == [
            sum(int(p in [q]) for b in drawn for q in b) for p in range(len(passages))
        ]
        mean = found[who].passage_sum_log_p / n_drawn[:, None]
        np.testing.assert_allclose(mean, by_passage / n_drawn[:, None], rtol=1e-6)
    sums = {who: PosteriorSums(f.sum_p, f.sum_log_p) for who, f in found.items()}
    scores = posterior_scores(sums["h"], general=sums["g"], counts=found["h"].n_inputs)
    assert set(scores) == set(SCORES)
    for column in range(len(names)):
        blocks = [
            [
                {
                    f"{what}_{who}": value
                    for who in "hg"
                    for what, value in (
                        ("l", logs[who][p][column]),
                        ("p", math.exp(logs[who][p][column])),
                    )
                }
                for p in inputs
            ]
            for inputs in drawn
        ]
        largest_p = max(
            math.exp(logs[who][p][column]) for who in "hg" for p in range(len(passages))
        )
        for name, statistic in SCORES.items():
            value, error = score_with_error(statistic, blocks)
            is_log = name in ("log_ratio", "mean_log_ratio", "general_mean_log")
            # ln p is some -10 and good to 1e-6 of that in float32, whatever the kernels.
            close = {"abs": 1e-5 if is_log else 1e-6 * largest_p, "rel": 1e-6, "nan_ok": True}
            assert scores[name].value[column] == pytest.approx(value, **close)
            assert scores[name].standard_error[column] == pytest.approx(error, **close)


@pytest.mark.parametrize(("kind", "n_scored"), [("bert", 7), ("roberta", 8), ("japanese", 5)])
def test_names_with_unknown_pieces_are_nan_and_all_others_are_scored(
    kind: str, n_scored: int, tmp_path: Path
) -> None:
    make, passages, names = CASES[kind]
    folder = make(tmp_path / "model")
    found = run(folder, task_of(folder, passages, names, micro_batch=8), n_inputs=120)
    expected = [True] * n_scored + [False] * (len(names) - n_scored)
    for table in (found.sum_p, found.sum_log_p, found.passage_sum_log_p):
        assert np.isfinite(table).tolist() == [expected] * len(table)
        assert np.isnan(table).tolist() == [[not known for known in expected]] * len(table)
    assert (found.sum_p[:, expected] > 0).all()


def test_a_name_unknown_in_one_kind_of_passage_is_nan_in_all() -> None:
    known = PartPieces(
        np.array([[[5], [6]]] * 2), np.ones((2, 2), dtype=np.int64), np.array([True, True])
    )
    partly = PartPieces(known.ids, known.n_pieces, np.array([True, False]))
    template = Template((2, 9, 9), (), (9, 3))
    task = PosteriorTask(
        templates=(template, template),
        kind_of_passage=np.array([0, 1]),
        pieces=(known, partly),
        n_listed=2,
        mask_id=4,
        seed=1,
    )
    found = posterior_shard(
        Constant(),
        task,
        shard=0,
        n_shard_inputs=100,
        n_inputs=50,
        device="cpu",
        tick=lambda _: None,
    )
    assert np.isnan(found.sum_p).tolist() == [[False, True]]
    assert np.isnan(found.passage_sum_log_p).tolist() == [[False, True]] * 2


class Constant(torch.nn.Module):
    """A model that says the same of everything: uniform over ten tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = Zeros()
        self.cls = torch.nn.Identity()


class Zeros(torch.nn.Module):
    def forward(self, input_ids: torch.Tensor) -> Any:
        class Output:
            last_hidden_state = torch.zeros((*input_ids.shape, 10))

        return Output


def test_a_uniform_model_gives_one_over_the_vocabulary_to_the_number_of_pieces() -> None:
    ids = np.array([[[5, -1], [6, -1]], [[5, 6], [7, -1]], [[5, -1], [-1, -1]]])
    pieces = PartPieces(ids, (ids >= 0).sum(axis=2), np.ones(3, dtype=bool))
    task = PosteriorTask(
        templates=(Template((2,), (8,), (3,)),),
        kind_of_passage=np.array([0]),
        pieces=(pieces,),
        n_listed=2,
        mask_id=4,
        seed=1,
    )
    found = posterior_shard(
        Constant(),
        task,
        shard=0,
        n_shard_inputs=100,
        n_inputs=70,
        device="cpu",
        tick=lambda _: None,
    )
    np.testing.assert_allclose(found.sum_p / 70, [[1e-2, 1e-3, 1e-1]], rtol=1e-6)
    np.testing.assert_allclose(found.sum_log_p / 70 / math.log(0.1), [[2, 3, 1]], rtol=1e-6)
    np.testing.assert_allclose(found.passage_sum_log_p / 70 / math.log(0.1), [[2, 3]], rtol=1e-6)
    assert found.passage_n_inputs.tolist() == [70]


def test_the_model_is_left_in_evaluation_mode_even_when_stopped(pair: tuple[Path, Path]) -> None:
    loaded, task = load_model(pair[0]), task_of(pair[0])

    def stop(_: int) -> None:
        assert loaded.model.training
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        posterior_shard(
            loaded.model, task, shard=0, n_shard_inputs=100, n_inputs=50, device="cpu", tick=stop
        )
    assert not loaded.model.training


# Layouts


def test_names_of_equal_total_share_a_layout_only_where_nothing_stands_between() -> None:
    n = np.array([[1, 2], [2, 1], [3, 0], [1, 1], [1, 2]])
    ids = np.full((5, 2, 3), -1)
    for row in range(5):
        for k in (0, 1):
            ids[row, k, : n[row, k]] = 10 * row + 5 * k + np.arange(n[row, k])
    pieces = PartPieces(ids, n, np.array([True, True, True, True, False]))

    def grouped(has_between: bool) -> dict[tuple[int, int], list[int]]:
        return {g.n_pieces: g.columns.tolist() for g in layouts(pieces, has_between=has_between)}

    assert grouped(False) == {(2, 0): [3], (3, 0): [0, 1, 2]}
    assert grouped(True) == {(1, 1): [3], (1, 2): [0], (2, 1): [1], (3, 0): [2]}
    three = layouts(pieces, has_between=False)[1]
    assert three.ids.tolist() == [[0, 5, 6], [10, 11, 15], [20, 21, 22]]


# Dropout


def test_equal_weights_give_a_difference_of_exactly_zero(tmp_path: Path) -> None:
    one = make_bert(tmp_path / "one", seed=3, dropout=0.3)
    other = make_bert(tmp_path / "other", seed=3, dropout=0.3)
    task = task_of(one, micro_batch=16)
    found = [run(folder, task, n_inputs=150) for folder in (one, other)]
    assert bytes_of(found[0]) == bytes_of(found[1])
    sums = [PosteriorSums(f.sum_p, f.sum_log_p) for f in found]
    scores = posterior_scores(sums[0], general=sums[1], counts=found[0].n_inputs)
    for name in ("difference", "log_ratio", "mean_log_ratio"):
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
            n_shard_inputs=100,
            n_inputs=30,
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
    sums = PosteriorSums(found.sum_p, found.sum_log_p)
    scores = posterior_scores(sums, general=sums, counts=found.n_inputs)
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
    pieces = PartPieces(np.array([[[5], [6]]]), np.ones((1, 2), dtype=np.int64), np.array([True]))
    return PosteriorTask(
        templates=(Template((2,), (), (3,)),) * n_passages,
        kind_of_passage=np.zeros(n_passages, dtype=np.int64),
        pieces=(pieces,),
        n_listed=1,
        mask_id=4,
        seed=seed,
    )


def drawn(task: PosteriorTask, n: int, first_block: int = 0, **more: Any) -> list[list[int]]:
    blocks = draw_inputs(task, first_block=first_block, n_inputs=n, **more)
    return [block.tolist() for block in blocks]


@pytest.mark.parametrize(("fewer", "more"), [(100, 150), (30, 150), (130, 250), (1, 101)])
def test_a_longer_draw_begins_with_the_shorter(fewer: int, more: int) -> None:
    task = counting_task(50)
    flat = [[i for block in drawn(task, n) for i in block] for n in (fewer, more)]
    assert [len(x) for x in flat] == [fewer, more]
    assert flat[1][:fewer] == flat[0]


def test_a_block_is_the_same_wherever_the_draw_begins() -> None:
    task = counting_task(50)
    assert drawn(task, 100, first_block=2) == drawn(task, 300)[2:]
    assert [len(b) for b in drawn(task, 230)] == [BLOCK, BLOCK, 30]


def test_blocks_seeds_and_purposes_draw_differently() -> None:
    blocks = drawn(counting_task(50), 300) + drawn(counting_task(50, seed=4), 100)
    blocks += drawn(counting_task(50), 100, purpose="chain inputs")
    assert all(a != b for a, b in pairwise(sorted(blocks)))


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
