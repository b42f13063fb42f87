"""Scenario 2's evidence against a slow reference, names that cannot be spelled, and layouts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit.attack.posterior import PosteriorTask, draw_inputs, layouts, posterior_shard
from audit.attack.prompts import Template
from audit.attack.scores import all_scores
from audit.notes.passages import Passage
from tests.membership.make_posterior import (
    NAMES,
    PASSAGES,
    RIGHT,
    logs_of,
    parts_of,
    plain_pieces,
    plain_task,
    posterior_sums,
    run,
    sums_of,
    task_of,
)
from tests.models.make_models import make_bert, make_distilbert, make_japanese_bert, make_roberta
from tests.reference_masking import (
    PART_SCORES,
    SCORES,
    can_be_scored,
    log_by_role,
    plain_model,
    score_with_error,
)

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
    # 51 inputs: blocks of one, of five, and a shorter last one; 3 rows a pass: groups are cut.
    task = task_of(folders["h"], passages, names, is_dropout_on=False, micro_batch=3)
    drawn = draw_inputs(task, first=0, n_inputs=51)
    assert [len(block) for block in drawn] == [1] * 40 + [5, 5, 1]
    found, logs, parts = {}, {}, parts_of(task, names)
    for who, folder in folders.items():
        found[who] = run(folder, task, n_inputs=51)
        logs[who] = logs_of(plain_model(folder), passages, names)
        by_passage = np.zeros((len(passages), len(names)))
        whole = parts.whole(found[who].sum_log_p)
        for block, inputs in enumerate(drawn):
            for column in range(len(names)):
                l_all = [logs[who][p][column] for p in inputs]
                p_all = [math.exp(x) for x in l_all]
                assert found[who].sum_p[block, column] == pytest.approx(
                    sum(p_all), rel=1e-6, nan_ok=True
                )
                assert whole[block, column] == pytest.approx(sum(l_all), rel=1e-6, nan_ok=True)
            for p in inputs:
                by_passage[p] += logs[who][p]
        n_drawn = found[who].passage_n_inputs
        assert n_drawn.tolist() == [
            sum(int(p in [q]) for b in drawn for q in b) for p in range(len(passages))
        ]
        mean = found[who].passage_sum_log_p / n_drawn[:, None]
        np.testing.assert_allclose(mean, by_passage / n_drawn[:, None], rtol=1e-6)
    sums = {who: posterior_sums(f.sum_p, f.sum_log_p) for who, f in found.items()}
    counts = found["h"].n_inputs
    scores = all_scores(sums_of(sums["h"], sums["g"]), counts=counts, parts=parts)
    assert set(scores) == {*SCORES, *PART_SCORES}
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
    task = task_of(folder, passages, names, micro_batch=8)
    found = run(folder, task, n_inputs=45)
    expected = [True] * n_scored + [False] * (len(names) - n_scored)
    whole = parts_of(task, names).whole(found.sum_log_p)
    assert np.isfinite(found.sum_log_p).all()  # a part that cannot be spelled has no column
    for table in (found.sum_p, whole, found.passage_sum_log_p):
        assert np.isfinite(table).tolist() == [expected] * len(table)
        assert np.isnan(table).tolist() == [[not known for known in expected]] * len(table)
    assert (found.sum_p[:, expected] > 0).all()


def test_a_name_unknown_in_one_kind_of_passage_is_nan_in_all() -> None:
    known = plain_pieces(np.array([[[5], [6]], [[5], [7]]]))
    partly = replace(known, is_known=np.array([True, False]))
    template = Template((2, 9, 9), (), (9, 3))
    task = plain_task(
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
        first=0,
        n=50,
        device="cpu",
        tick=lambda _: None,
    )
    assert task.part_columns.tolist() == [[0, 1], [-1, -1]]
    assert np.isnan(found.sum_p).tolist() == [[False, True]] * 42
    assert found.sum_log_p.shape == (42, 2)
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
    pieces = plain_pieces(ids)
    task = plain_task(
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
        first=0,
        n=70,
        device="cpu",
        tick=lambda _: None,
    )
    n = found.n_inputs[:, None]
    assert n[:, 0].tolist() == [1] * 40 + [5] * 6
    np.testing.assert_allclose(found.sum_p / n, [[1e-2, 1e-3]] * 46, rtol=1e-6)
    by_part = found.sum_log_p / n / math.log(0.1)
    # Five columns: the same piece 5 alone, beside one piece, and in a part of two.
    np.testing.assert_allclose(by_part, [[1, 1, 2, 1, 1]] * 46, rtol=1e-6)
    assert task.part_columns.tolist() == [[0, 1], [2, 3], [4, -1]]
    np.testing.assert_allclose(found.passage_sum_log_p / 70 / math.log(0.1), [[2, 3]], rtol=1e-6)
    assert found.passage_n_inputs.tolist() == [70]


# Layouts


def test_names_of_equal_total_share_a_layout_only_where_nothing_stands_between() -> None:
    n = np.array([[1, 2], [2, 1], [3, 0], [1, 1], [1, 2]])
    ids = np.full((5, 2, 3), -1)
    for row in range(5):
        for k in (0, 1):
            ids[row, k, : n[row, k]] = 10 * row + 5 * k + np.arange(n[row, k])
    pieces = replace(plain_pieces(ids), is_known=np.array([True, True, True, True, False]))

    def grouped(between: tuple[int, ...]) -> dict[tuple[int, int], list[int]]:
        return {g.n_pieces: g.listed.tolist() for g in layouts(task_between(between), 0)}

    def task_between(between: tuple[int, ...]) -> PosteriorTask:
        return plain_task(
            templates=(Template((2,), between, (3,)),), kind_of_passage=[0], pieces=(pieces,),
            n_listed=5, mask_id=4, seed=1,
        )  # fmt: skip

    assert grouped(()) == {(2, 0): [3], (3, 0): [0, 1, 2]}
    assert grouped((9,)) == {(1, 1): [3], (1, 2): [0], (2, 1): [1], (3, 0): [2]}
    three = layouts(task_between(()), 0)[1]
    # Each part's pieces, read from the mask where it begins.
    spelled: dict[int, tuple[int, list[int]]] = {}
    for place, mask, piece in three.reads.T.tolist():
        spelled.setdefault(place, (mask, []))[1].append(piece)
    assert [[spelled.get(int(k)) for k in pair] for pair in three.pairs] == [
        [(0, [0]), (1, [5, 6])], [(0, [10, 11]), (2, [15])], [(0, [20, 21, 22]), None],
    ]  # fmt: skip


# Evidence by part


BETWEEN = (
    Passage("in pain ", ("last", "first"), ", ", " seen", "1", None),
    Passage("the patient ", ("last",), "", RIGHT, "2", None),
    Passage("", ("first", "last"), " ", RIGHT, "3", None),
    Passage("seen by dr ", ("full",), "", RIGHT, "4", None),
)
JAPANESE_BETWEEN = (
    Passage("患者", ("last", "first"), "", "さんは受診した。", "1", None),
    Passage("患者", ("last",), "", "さんは受診した。", "2", None),
    Passage("医師が", ("first", "last"), "", "を診察した。", "3", None),
    Passage("", ("full",), "", "さんは受診した。", "4", None),
)


@pytest.mark.parametrize(
    ("make", "passages", "names"),
    [
        # Parts of one to three pieces, of names that share them, and names of one part.
        (make_bert, BETWEEN, (*NAMES, ("mary", "smith"), ("john", "jonesson"), ("", "jones"))),
        (make_japanese_bert, JAPANESE_BETWEEN, (*JAPANESE_NAMES, ("花子", "佐藤さん"))),
    ],
)
def test_evidence_of_each_part_equals_the_reference_and_adds_up_to_the_names(
    make: Callable[..., Path], passages: Any, names: Any, tmp_path: Path
) -> None:
    folder = make(tmp_path / "m", seed=1)
    plain = plain_model(folder)
    task = task_of(folder, passages, names, is_dropout_on=False, micro_batch=5)
    found = run(folder, task, n_inputs=60)
    drawn = draw_inputs(task, first=0, n_inputs=60)
    assert set(np.concatenate(drawn)) == {0, 1, 2, 3}
    whole = parts_of(task, names).whole(found.sum_log_p)
    n_shared = 0
    for row, name in enumerate(names):
        if not can_be_scored(plain, passages, name):
            assert task.part_columns[row].tolist() == [-1, -1]
            continue
        logs = [log_by_role(plain, passage, name) for passage in passages]
        for role, part, column in zip(
            ("first", "last"), name, task.part_columns[row].tolist(), strict=True
        ):
            if not part:
                assert column == -1
                continue
            n_shared += int((task.part_columns == column).sum() > 1)
            by_block = [sum(logs[p].get(role, 0.0) for p in inputs) for inputs in drawn]
            np.testing.assert_allclose(found.sum_log_p[:, column], by_block, rtol=1e-6, atol=1e-6)
        sums = [sum(sum(logs[p].values()) for p in inputs) for inputs in drawn]
        np.testing.assert_allclose(whole[:, row], sums, rtol=1e-6, atol=1e-6)
        p_sums = [sum(math.exp(sum(logs[p].values())) for p in inputs) for inputs in drawn]
        np.testing.assert_allclose(found.sum_p[:, row], p_sums, rtol=2e-6)
    assert n_shared >= 2  # some of it was read once for several names


def test_reference_controls_have_evidence_of_their_parts_and_not_of_their_whole(
    tmp_path: Path,
) -> None:
    folder = make_bert(tmp_path / "m")
    every = task_of(folder, is_dropout_on=False, micro_batch=5)
    fewer = task_of(folder, is_dropout_on=False, micro_batch=5, n_listed=3)
    some, all_of_them = run(folder, fewer, n_inputs=42), run(folder, every, n_inputs=42)
    assert some.sum_p.shape == (41, 3)
    assert some.passage_sum_log_p.shape == (len(PASSAGES), 3)
    np.testing.assert_allclose(some.sum_p, all_of_them.sum_p[:, :3], rtol=1e-12)
    np.testing.assert_allclose(some.sum_log_p, all_of_them.sum_log_p, rtol=1e-12)
