"""`chain` against a slow reference, and what it can tell that `product` cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit.attack.posterior import (
    PosteriorShard,
    PosteriorTask,
    chain_shard,
    draw_inputs,
    n_chain_rows,
    posterior_shard,
)
from audit.attack.prompts import Template
from audit.attack.scores import all_scores
from audit.models.forward import body_of
from audit.models.load import load_model
from audit.notes.passages import Passage
from tests.membership.make_posterior import plain_pieces, plain_task, posterior_sums, sums_of
from tests.models.make_models import make_bert, make_distilbert, make_japanese_bert, make_roberta
from tests.reference_masking import SCORES, log_chain, make_task, plain_model, score_with_error

RIGHT = " was seen by dr jones for pain."
PASSAGES = (
    Passage("the patient ", ("full",), "", RIGHT, "1", None),
    Passage("", ("first", "last"), " ", RIGHT, "2", None),
    Passage("in pain and ", ("last", "first"), ", ", " was seen", "3", None),
)
NAMES = (
    ("john", "smith"),
    ("mary", "smith"),
    ("mary", "jones"),
    ("anna", "jonesson"),
    ("johns", "smiths"),
    ("mary", "smith-jones"),
    ("", "smiths"),
    ("johns", ""),
    ("zoe", "smith"),
)
JAPANESE_PASSAGES = (
    Passage("患者", ("full",), "", "は受診した。", "1", None),
    Passage("", ("last", "first"), "", "さんは受診した。", "2", None),
)
JAPANESE_NAMES = (("花子", "山田"), ("太郎", "佐藤さん"), ("", "山田"), ("花", "山田"))
CASES: dict[str, tuple[Callable[..., Path], Any, Any, int]] = {
    "bert": (make_bert, PASSAGES, NAMES, 8),
    "roberta": (make_roberta, PASSAGES, NAMES, 9),
    "distilbert": (make_distilbert, PASSAGES, NAMES, 8),
    "japanese": (make_japanese_bert, JAPANESE_PASSAGES, JAPANESE_NAMES, 3),
}


def run(
    model: Any,
    task: PosteriorTask,
    *,
    n_inputs: int,
    shard: int = 0,
    tick: Callable[[int], None] = lambda _: None,
) -> PosteriorShard:
    return chain_shard(
        model, task, shard=shard, first=100 * shard, n=n_inputs, device="cpu", tick=tick
    )


def bytes_of(shard: PosteriorShard) -> dict[str, bytes]:
    return {name: value.tobytes() for name, value in vars(shard).items()}


@pytest.mark.parametrize("kind", CASES)
def test_sums_and_scores_equal_the_slow_reference(kind: str, tmp_path: Path) -> None:
    make, passages, names, n_scored = CASES[kind]
    folders = {who: make(tmp_path / who, seed=seed) for who, seed in (("h", 1), ("g", 2))}
    tokenizer = load_model(folders["h"]).tokenizer
    # 3 rows a pass: variants of one input are cut over several passes.
    task = make_task(tokenizer, passages, names, is_dropout_on=False, micro_batch=3)
    drawn = draw_inputs(task, first=0, n_inputs=140, purpose="chain inputs")
    logs, found = {}, {}
    for who, folder in folders.items():
        plain = plain_model(folder)
        logs[who] = [[log_chain(plain, p, name) for name in names[:n_scored]] for p in passages]
        found[who] = chain_shard(
            load_model(folder).model, task, shard=0, first=0, n=140,
            device="cpu", tick=lambda _: None,
        )  # fmt: skip
        for block, inputs in enumerate(drawn):
            for column in range(n_scored):
                of_name = [logs[who][p][column] for p in inputs]
                total = sum(math.exp(x) for x in of_name)
                assert found[who].sum_p[block, column] == pytest.approx(total, rel=1e-6)
                assert found[who].sum_log_p[block, column] == pytest.approx(sum(of_name), rel=1e-6)
        for table in (found[who].sum_p, found[who].sum_log_p):
            assert np.isnan(table[:, n_scored:]).all()
        for p in range(len(passages)):
            n_drawn = sum(q == p for inputs in drawn for q in inputs)
            expected = [n_drawn * x for x in logs[who][p]]
            np.testing.assert_allclose(
                found[who].passage_sum_log_p[p, :n_scored], expected, rtol=1e-6
            )
    sums = [posterior_sums(found[who].sum_p, found[who].sum_log_p) for who in "hg"]
    scores = all_scores(sums_of(sums[0], sums[1]), counts=found["h"].n_inputs, parts=None)
    for column in range(n_scored):
        blocks = [[(logs["h"][p][column], logs["g"][p][column]) for p in b] for b in drawn]
        score = scores["chain_mean_log_ratio"]
        value, error = score_with_error(lambda x: sum(h - g for h, g in x) / len(x), blocks)
        assert score.value[column] == pytest.approx(value, abs=1e-6)
        assert score.standard_error[column] == pytest.approx(error, abs=1e-6)
    # Of whole names: parts have no evidence of their own.
    assert set(scores) == {f"chain_{name}" for name in SCORES}


# A table in which the two parts depend on each other

JOHN, MARY, SMITH, JONES = 5, 6, 7, 8
MASK, N_VOCABULARY = 4, 10
JOINT = {(JOHN, SMITH): 0.49, (MARY, JONES): 0.49, (JOHN, JONES): 0.01, (MARY, SMITH): 0.01}


class Table(torch.nn.Module):
    """A model that gives the conditionals of `JOINT` at positions 1 (first) and 2 (last)."""

    def __init__(self) -> None:
        super().__init__()
        self.bert = TableBody()
        self.cls = torch.nn.Identity()


class TableBody(torch.nn.Module):
    def forward(self, input_ids: torch.Tensor) -> Any:
        class Output:
            last_hidden_state = torch.full((*input_ids.shape, N_VOCABULARY), 1e-9)

        for row, ids in enumerate(input_ids.tolist()):
            for (first, last), p in JOINT.items():
                if ids[2] in (MASK, last):
                    Output.last_hidden_state[row, 1, first] += p
                if ids[1] in (MASK, first):
                    Output.last_hidden_state[row, 2, last] += p
        Output.last_hidden_state = Output.last_hidden_state.log()
        return Output


def test_a_recombined_name_is_told_from_a_real_one_by_chain_and_not_by_product() -> None:
    ids = np.array([[[JOHN], [SMITH]], [[MARY], [JONES]], [[JOHN], [JONES]], [[MARY], [SMITH]]])
    pieces = plain_pieces(ids)
    task = plain_task(
        templates=(Template((2,), (), (3,)),),
        kind_of_passage=np.array([0]),
        pieces=(pieces,),
        n_listed=4,
        mask_id=MASK,
        seed=1,
    )
    product = posterior_shard(
        Table(), task, shard=0, first=0, n=10, device="cpu", tick=lambda _: None
    )
    np.testing.assert_allclose(product.sum_p, [[0.25] * 4] * 10, rtol=1e-5)
    chain = run(Table(), task, n_inputs=10)
    np.testing.assert_allclose(chain.sum_p, [[0.49, 0.49, 0.01, 0.01]] * 10, rtol=1e-5)
    np.testing.assert_allclose(chain.sum_log_p, np.log(chain.sum_p), rtol=1e-5)


def test_a_name_unknown_in_one_kind_of_passage_is_nan_even_if_that_kind_is_not_drawn() -> None:
    ids = np.array([[[JOHN], [SMITH]], [[MARY], [JONES]]])
    known = plain_pieces(ids)
    partly = replace(known, is_known=np.array([True, False]))
    task = plain_task(
        templates=(Template((2,), (), (3,)),) * 2,
        kind_of_passage=np.array([0, 1]),
        pieces=(known, partly),
        n_listed=2,
        mask_id=MASK,
        seed=1,
    )
    found = run(Table(), task, n_inputs=1)
    assert sorted(found.passage_n_inputs.tolist()) == [0, 1]
    for table in (found.sum_p, found.sum_log_p, found.passage_sum_log_p):
        assert np.isnan(table).tolist() == [[False, True]] * len(table)


# Dropout, shards, progress


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("chain") / "model", dropout=0.3, scale=0.3)


@pytest.fixture(scope="module")
def task(folder: Path) -> PosteriorTask:
    return make_task(load_model(folder).tokenizer, PASSAGES[:2], NAMES[:5], micro_batch=4)


def test_equal_weights_give_equal_sums_whatever_torchs_global_state(
    folder: Path, task: PosteriorTask, tmp_path: Path
) -> None:
    copy = make_bert(tmp_path / "copy", dropout=0.3, scale=0.3)
    torch.manual_seed(1)
    one = run(load_model(folder).model, task, n_inputs=30)
    torch.manual_seed(2)
    other = run(load_model(copy).model, task, n_inputs=30, tick=lambda n: torch.rand(n))
    assert bytes_of(one) == bytes_of(other)


def test_no_two_passes_share_their_masks(folder: Path) -> None:
    model = load_model(folder).model
    task = make_task(load_model(folder).tokenizer, PASSAGES[:1], NAMES[:1], micro_batch=1)
    seen: list[bytes] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        seen.extend(row.numpy().tobytes() for row in output.last_hidden_state[:, 0])

    handle = body_of(model).register_forward_hook(keep)
    for shard in (0, 1):
        run(model, task, n_inputs=20, shard=shard)
    handle.remove()
    assert len(seen) == 2 * 20 * 3 == len(set(seen))
    assert not model.training


def test_shard_order_changes_no_byte(folder: Path, task: PosteriorTask) -> None:
    model = load_model(folder).model
    forward = [bytes_of(run(model, task, n_inputs=n, shard=k)) for k, n in ((0, 15), (1, 10))]
    backward = [bytes_of(run(model, task, n_inputs=n, shard=k)) for k, n in ((1, 10), (0, 15))]
    assert forward == backward[::-1]
    assert forward[0]["sum_p"] != forward[1]["sum_p"]


def test_with_dropout_every_input_is_run_and_without_every_passage_once(
    folder: Path, task: PosteriorTask
) -> None:
    model = load_model(folder).model
    # Of one piece each: john, mary; smith, jones (the plan's 1 + 4 rows). Of two and one:
    # anna jonesson; of two and two: johns smiths (1 + 2 rows each).
    n_rows = 5 + 3 + 3
    for is_dropout_on, n_runs in ((True, 20), (False, 2)):
        asked = make_task(
            load_model(folder).tokenizer, PASSAGES[:2], NAMES[:5], micro_batch=4,
            is_dropout_on=is_dropout_on,
        )  # fmt: skip
        ticks: list[int] = []
        run(model, asked, n_inputs=20, tick=ticks.append)
        assert sum(ticks) == n_runs * n_rows
        assert max(ticks) <= 4
    assert n_chain_rows(task, n_inputs=20) == 20 * n_rows


def test_only_listed_names_are_scored(folder: Path, task: PosteriorTask) -> None:
    model = load_model(folder).model
    fewer = make_task(
        load_model(folder).tokenizer, PASSAGES[:2], NAMES[:5], n_listed=3, is_dropout_on=False
    )
    every = make_task(
        load_model(folder).tokenizer, PASSAGES[:2], NAMES[:5], n_listed=5, is_dropout_on=False
    )
    some, all_of_them = run(model, fewer, n_inputs=30), run(model, every, n_inputs=30)
    assert some.sum_p.shape == (30, 3)
    np.testing.assert_allclose(some.sum_log_p, all_of_them.sum_log_p[:, :3], rtol=1e-6)
