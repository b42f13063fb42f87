"""Scenario 2's evidence, of all parts at once and by chain: a slow reference, dropout, draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from audit.attack.posterior import (
    PosteriorShard,
    draw_inputs,
    make_chain_shard,
    make_posterior_shard,
)
from audit.attack.prompts import PosteriorTask
from audit.models.forward import Forward
from audit.models.load import load_model
from audit.names.spelling import PartPieces
from audit.notes.passages import Passage
from audit.stats import assign_blocks
from tests.attack.make_tasks import NAMES, PASSAGES, RIGHT, plain_pieces, table_task, task_of
from tests.models.make_models import make_bert, make_distilbert, make_japanese_bert, make_roberta
from tests.models.make_tokenizers import make_unigram_roberta
from tests.reference_masking import (
    Name,
    can_be_scored,
    log_by_role,
    log_chain,
    log_product,
    plain_model,
)
from tests.table_model import TableModel, compatible_table

SHARDS = {"inputs": make_posterior_shard, "chain inputs": make_chain_shard}


def run(
    model: Any,
    task: PosteriorTask,
    n: int,
    *,
    shard: int = 0,
    tick: Callable[[int], None] = lambda _: None,
    kind: str = "inputs",
) -> PosteriorShard:
    model = load_model(model).model if isinstance(model, Path) else model
    place = {"shard": shard, "first": 100 * shard, "n": n}
    forward = model if isinstance(model, Forward) else Forward(model)
    return SHARDS[kind](forward, task, **place, device="cpu", tick=tick)


# --- evaluation mode: equal to the reference ---

JAPANESE_NAMES = (
    ("花子", "山田"),
    ("太郎", "佐藤"),
    ("太郎", "佐藤さん"),
    ("花子さん", "山田"),
    ("", "山田"),
    ("花", "山田"),
)
CASES: dict[str, tuple[Callable[..., Path], tuple[Passage, ...], tuple[Name, ...]]] = {
    "bert": (make_bert, PASSAGES, NAMES),
    "roberta": (make_roberta, PASSAGES, NAMES),
    "distilbert": (make_distilbert, PASSAGES, NAMES),
    "japanese": (
        make_japanese_bert,
        (
            Passage("", ("full",), "", "さんは受診した。", "1", None),
            Passage("患者", ("full",), "", "は医師の診察を受診した。", "2", None),
            Passage("患者", ("first", "last"), "", "さんは受診した。", "3", None),
            Passage("医師が", ("last", "first"), "\u3000", "を診察した。", "4", None),
        ),
        JAPANESE_NAMES,
    ),
    "unigram": (
        make_unigram_roberta,
        (
            Passage("Mr ", ("full",), "", " was seen by Dr Jones", "1", None),
            Passage("the service (", ("last", "first"), ", ", ") was seen", "2", None),
            Passage("", ("first", "last"), " ", "'s pain", "3", None),
        ),
        (("John", "Smith"), ("Mary", "Smithson"), ("Zoë", "Jones"), ("", "Anna"), ("☃", "Smith")),
    ),
    "japanese unigram": (
        make_unigram_roberta,
        (
            Passage("", ("full",), "", "さんは受診しました。", "1", None),
            Passage("患者", ("full",), "", "は医師の診察をした。", "2", None),
            Passage("医師が", ("last", "first"), "\u3000", "を診察した。", "3", None),
        ),
        (("花子", "山田"), ("太郎", "佐藤"), ("郎子", "山田"), ("", "佐藤"), ("一", "山田")),
    ),
    # Parts of one to three pieces, of names that share them, and passages that show one part.
    "shared parts": (
        make_bert,
        (
            Passage("in pain ", ("last", "first"), ", ", " seen", "1", None),
            Passage("the patient ", ("last",), "", RIGHT, "2", None),
            Passage("seen by dr ", ("full",), "", RIGHT, "3", None),
        ),
        (*NAMES, ("mary", "smith"), ("john", "jonesson"), ("", "jones")),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", CASES)
def test_evidence_of_every_part_and_name_equals_the_slow_reference(
    kind: str, tmp_path: Path
) -> None:
    make, passages, names = CASES[kind]
    plain = plain_model(make(tmp_path / "m", seed=1))
    # 51 inputs: blocks of one, of five, and a shorter last one; 3 rows a pass: groups are cut.
    task = task_of(tmp_path / "m", passages, names, is_dropout_on=False, micro_batch=3)
    blocks = draw_inputs(task, first=0, n_inputs=51)
    assert [len(block) for block in blocks] == [1] * 40 + [5, 5, 1]
    product, chain = (run(tmp_path / "m", task, 51, kind=kind) for kind in SHARDS)
    n_drawn = np.bincount(np.concatenate(blocks), minlength=len(passages))
    assert product.passage_n_inputs.tolist() == n_drawn.tolist()
    chain_draws = draw_inputs(task, first=0, n_inputs=51, purpose="chain inputs")
    for row, name in enumerate(names):
        sums = (product.sum_p, product.passage_sum_log_p, chain.sum_p, chain.sum_log_p)
        if not can_be_scored(plain, passages, name):
            assert task.part_columns[row].tolist() == [-1, -1]
            assert all(np.isnan(table[:, row]).all() for table in sums)
            continue
        logs = [log_by_role(plain, passage, name) for passage in passages]
        for role, part, column in zip(
            ("first", "last"), name, task.part_columns[row].tolist(), strict=True
        ):
            assert (column == -1) == (not part)
            if part:
                by_block = [sum(logs[p].get(role, 0.0) for p in block) for block in blocks]
                np.testing.assert_allclose(product.sum_log_p[:, column], by_block, rtol=1e-6)
        log_p = np.array([sum(passage_logs.values()) for passage_logs in logs])
        log_c = np.array([log_chain(plain, passage, name) for passage in passages])
        expected = (
            [np.exp(log_p[block]).sum() for block in blocks],
            log_p * n_drawn,
            [np.exp(log_c[block]).sum() for block in chain_draws],
            [log_c[block].sum() for block in chain_draws],
        )
        for table, of_name in zip(sums, expected, strict=True):
            np.testing.assert_allclose(table[:, row], of_name, rtol=2e-6)
    assert np.isfinite(product.sum_log_p).all()  # a part that cannot be spelled has no column


# --- a table in which the two parts depend on each other ---

TABLE = TableModel(compatible_table(), slots=(1, 2))


@pytest.mark.parametrize("kind", SHARDS)
def test_a_name_unknown_in_one_kind_of_passage_is_nan_even_if_that_kind_is_not_drawn(
    kind: str,
) -> None:
    ids = [[[0], [1]], [[0], [2]]]
    pieces = plain_pieces(np.array(ids))
    partly = replace(pieces, is_known=np.array([True, False]))
    task = table_task(ids, 2, pieces=(pieces, partly), kind_of_passage=np.array([0, 1]))
    shard = run(TABLE, task, 1, kind=kind)
    assert task.part_columns.tolist() == [[0, 1], [-1, -1]]
    assert sorted(shard.passage_n_inputs.tolist()) == [0, 1]
    for table in (shard.sum_p, shard.passage_sum_log_p):
        assert np.isnan(table).tolist() == [[False, True]] * len(table)


# --- dropout, shards, progress ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with much dropout, so that what it does is seen."""
    return make_bert(tmp_path_factory.mktemp("model") / "m", seed=1, dropout=0.3, scale=0.3)


@pytest.mark.long
@pytest.mark.parametrize("kind", SHARDS)
def test_equal_weights_give_equal_bytes_whatever_torchs_global_state_and_the_order(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    copy = make_bert(tmp_path / "copy", seed=1, dropout=0.3, scale=0.3)
    task = task_of(folder, PASSAGES[:3], NAMES[:5], micro_batch=16)
    torch.manual_seed(1)
    quiet = [run(folder, task, 20, shard=k, kind=kind) for k in (0, 1)]
    torch.manual_seed(2)
    for k in (1, 0):
        disturbed = run(copy, task, 20, shard=k, kind=kind, tick=lambda n: torch.rand(n))
        for name, value in vars(quiet[k]).items():
            assert value.tobytes() == getattr(disturbed, name).tobytes(), name
    assert quiet[0].sum_p.tobytes() != quiet[1].sum_p.tobytes()


@pytest.mark.long
@pytest.mark.parametrize("is_plain", [True, False])
@pytest.mark.parametrize(
    ("kind", "micro_batch"), [("inputs", 1), ("inputs", 4), ("chain inputs", 1)]
)
def test_no_two_inputs_share_their_masks(
    folder: Path, kind: str, micro_batch: int, is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = Forward(load_model(folder).model, is_plain=is_plain)
    # Of 2, 3 and 4 pieces: three layouts; by chain a name takes three rows.
    names = NAMES[:4] if kind == "inputs" else NAMES[:1]
    task = task_of(folder, PASSAGES[:1], names, micro_batch=micro_batch)
    inputs: list[bytes] = []

    def keep(ids: Any, **more: Any) -> Any:
        logits = Forward.logits(forward, ids, **more)
        inputs.extend(row.numpy().tobytes() for row in logits)
        return logits

    monkeypatch.setattr(forward, "logits", keep)
    for shard in (0, 1):
        run(forward, task, 30, shard=shard, kind=kind)
    assert len(inputs) == 2 * 30 * 3 == len(set(inputs))


@pytest.mark.long
def test_the_mean_with_dropout_is_the_references(folder: Path) -> None:
    passage, name = PASSAGES[1], NAMES[2]
    task = task_of(folder, (passage,), (name,), micro_batch=32)
    shard = run(folder, task, 2000)
    plain = plain_model(folder)
    without = log_product(plain, passage, name)
    plain.model.train()
    torch.manual_seed(5)
    logs = np.array([log_product(plain, passage, name) for _ in range(300)])
    for sums, sample in ((shard.sum_p[:, 0], np.exp(logs)), (shard.sum_log_p.sum(axis=1), logs)):
        error = sample.std(ddof=1) * math.sqrt(1 / len(sample) + 1 / 2000)
        assert abs(sums.sum() / 2000 - sample.mean()) < 5 * error
    assert abs(sample.mean() - without) > 5 * error  # dropout moves the mean by more than that


@pytest.mark.parametrize("is_dropout_on", [True, False])
def test_ticks_count_the_rows_of_every_pass(folder: Path, is_dropout_on: bool) -> None:
    task = task_of(folder, PASSAGES[:2], NAMES[:5], is_dropout_on=is_dropout_on, micro_batch=4)
    # Layouts of 2, 3 and 4 pieces. By chain, of one piece each: john, mary; smith, jones (1 + 4
    # rows); of one and two: anna jonesson; of two
    # and two: johns smiths; of one and three: mary smith-jones (1 + 2 rows each).
    for kind, n_of_input, evidence in (("inputs", 3, "posterior"), ("chain inputs", 14, "chain")):
        ticks: list[int] = []
        run(folder, task, 20, kind=kind, tick=ticks.append)
        assert sum(ticks) == n_of_input * (20 if is_dropout_on else 2) and max(ticks) <= 4
        assert task.n_rows(evidence, 20) == 20 * n_of_input


# --- the vocabulary ---


@pytest.mark.long
def test_what_is_kept_of_the_vocabulary_does_not_depend_on_the_list(folder: Path) -> None:
    lists = (NAMES[:2], NAMES, (*NAMES[2:], NAMES[0]))
    tasks = [task_of(folder, PASSAGES, names, micro_batch=4) for names in lists]
    empty = PartPieces(*(x[:0] for x in vars(tasks[0].pieces[0]).values()))
    nobody = {"pieces": (empty,) * len(tasks[0].pieces), "n_listed": 0}
    tasks.append(replace(tasks[0], part_columns=tasks[0].part_columns[:0], **nobody))
    shards = [run(folder, task, 130, shard=2) for task in tasks]
    n_tokens = load_model(folder).model.config.vocab_size
    assert shards[0].vocabulary.shape == (7, len(tasks[0].pieces), 2, n_tokens)
    for shard in shards[1:]:
        for name in ("vocabulary", "vocabulary_n_inputs"):
            assert getattr(shard, name).tobytes() == getattr(shards[0], name).tobytes()
    assert shards[0].vocabulary_n_inputs.tolist() == [20] * 6 + [10]
    assert not run(folder, task_of(folder, PASSAGES, NAMES[2:4]), 20).vocabulary.size


def test_parts_of_single_pieces_can_be_read_out_of_the_vocabulary(folder: Path) -> None:
    passages = (*PASSAGES, Passage("the patient ", ("last",), "", RIGHT, "7", None))
    task = task_of(folder, passages, NAMES, micro_batch=4)
    shard = run(folder, task, 130)
    for row in (0, 1):  # john smith and mary jones
        for role, column in enumerate(task.part_columns[row].tolist()):
            read = sum(
                shard.vocabulary[:, kind, place, kind_pieces.ids[row, place, 0]].sum(dtype=float)
                for kind, kind_pieces in enumerate(task.pieces)
                for place in np.flatnonzero(kind_pieces.roles[row] == role)
            )
            assert read == pytest.approx(shard.sum_log_p[:, column].sum(), rel=1e-6)


# --- the draw of inputs ---


def draw_indices(
    n: int, first: int = 0, *, n_passages: int = 50, seed: int = 3, **more: Any
) -> Any:
    task = table_task([[[0], [1]]], n_passages, seed=seed)
    return [block.tolist() for block in draw_inputs(task, first=first, n_inputs=n, **more)]


def test_blocks_grow_and_are_the_same_wherever_a_draw_begins_and_ends() -> None:
    sizes = [len(block) for block in draw_indices(10_000)]
    assert sizes == [1] * 40 + [5] * 72 + [20] * 80 + [100] * 80
    for n, n_blocks in ((100, 52), (300, 92), (10_000, 272)):
        assert len(draw_indices(n)) == n_blocks
    assert draw_indices(2500)[:112] == draw_indices(400)
    assert [p for block in draw_indices(130) for p in block] == [
        p for b in draw_indices(250) for p in b
    ][:130]
    # Inputs 200 and on: 40 blocks of one, 12 of five and 32 of five come before them.
    assert draw_indices(100, first=200) == draw_indices(300)[72:]
    assert [len(b) for b in draw_indices(500, first=1900)] == [20] * 5 + [100] * 4
    assert draw_indices(0) == []


def test_coarse_blocks_are_unions_of_the_others_worth_twenty_at_every_size() -> None:
    for n in (100, 250, 600, 1100, 2000, 4900, 10_000, 30_000):
        fine, coarse = assign_blocks(0, n), assign_blocks(0, n, is_coarse=True)
        assert (np.diff(coarse)[np.diff(fine) == 0] == 0).all()
        assert n**2 / (np.bincount(coarse) ** 2).sum() > 20
    assert len(np.bincount(assign_blocks(0, 10_000, is_coarse=True))) == 130


def test_draws_are_uniform_with_replacement_and_differ_by_place_seed_and_purpose() -> None:
    counts, repeats = np.zeros(37), []
    for block in draw_indices(20_000, n_passages=37):
        counts += np.bincount(block, minlength=37)
        repeats += [a == b for a, b in pairwise(block)]
    assert stats.chisquare(counts).pvalue > 0.001
    # One draw is the same as the one before it in 1 of 37 cases.
    assert stats.binomtest(sum(repeats), len(repeats), 1 / 37).pvalue > 0.001
    other_options = [{"first": 100}, {"first": 200}, {"seed": 4}, {"purpose": "chain inputs"}, {}]
    draws = [
        [p for block in draw_indices(100, **options) for p in block] for options in other_options
    ]
    assert all(a != b for a, b in pairwise(sorted(draws)))
