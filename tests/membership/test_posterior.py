"""Scenario 2's evidence against a slow reference, names that cannot be spelled, and layouts."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit.corpora.passages import Passage
from audit.membership.posterior import PosteriorTask, draw_inputs, layouts, posterior_shard
from audit.membership.prompts import PartPieces, Template
from audit.membership.scores import PosteriorSums, posterior_scores
from tests.membership.make_posterior import NAMES, PASSAGES, logs_of, run, task_of
from tests.models.make_models import make_bert, make_distilbert, make_japanese_bert, make_roberta
from tests.reference_masking import SCORES, plain_model, score_with_error

JAPANESE_PASSAGES = (
    Passage("", ("full",), "", "さんは受診した。", "1", None),
    Passage("患者", ("full",), "", "は医師の診察を受診した。", "2", None),
    Passage("患者", ("last", "first"), "", "さんは受診した。", "3", None),
    Passage("医師が", ("last", "first"), "\u3000", "を診察した。", "4", None),
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


# Evaluation mode: equal to the reference


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
