"""Scores and their jackknife errors: by hand, against loops, and as properties."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.attack.scores import compute_scores, jackknife, merge_blocks
from audit.stats import assign_blocks
from tests.attack.make_tasks import sums_of
from tests.attack.planted_table import parts_of
from tests.reference_masking import PART_SCORES, SCORES, score_with_error
from tests.scored_lists import quick

probability = st.floats(1e-6, 1.0)
Item = dict[str, float]


def blocks_of_items(item: st.SearchStrategy[Item]) -> st.SearchStrategy[list[list[Item]]]:
    """Blocks of unequal size of what is known of one name at each input or document."""
    return st.lists(st.lists(item, min_size=1, max_size=4), min_size=1, max_size=5)


def with_logs(item: Item) -> Item:
    return item | {f"l_{model}": math.log(item[f"p_{model}"]) for model in "hg"}


both_models = st.fixed_dictionaries({"p_h": probability, "p_g": probability}).map(with_logs)


@quick
@given(blocks_of_items(both_models))
def test_scores_and_errors_equal_a_loop_that_leaves_out_one_block_at_a_time(blocks: Any) -> None:
    def sums(model: str) -> dict[str, np.ndarray]:
        columns = {"p": f"p_{model}", "log_p": f"l_{model}"}
        return {
            name: np.array([[sum(item[key] for item in block)] for block in blocks])
            for name, key in columns.items()
        }

    counts = np.array([len(block) for block in blocks])
    chain_scores = compute_scores(sums_of(sums("h"), sums("g")), counts=counts, parts=None)
    scores = {name.removeprefix("chain_"): score for name, score in chain_scores.items()}
    for name, statistic in SCORES.items():
        value, error = score_with_error(statistic, blocks)
        assert scores[name][0, 0] == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert scores[name][1, 0] == pytest.approx(error, rel=1e-6, abs=1e-9, nan_ok=True)


# The jackknife


def mean_of(sums: dict[str, Any], n: float) -> dict[str, Any]:
    return {"mean": sums["x"] / n}


def test_the_error_of_a_mean_over_blocks_of_1_2_and_5_by_hand() -> None:
    # Means 4, 1, 2 of 1, 2 and 5 inputs: 16 / 8 = 2. Pseudo-values are the means, weights h - 1 are
    # 7, 3 and 0.6: variance (2^2 / 7 + 1^2 / 3 + 0) / 3 = 0.3015873.
    score = jackknife(mean_of, {"x": np.array([[4.0], [2.0], [10.0]])}, counts=np.array([1, 2, 5]))
    assert score["mean"][0, 0] == 2
    assert score["mean"][1, 0] == pytest.approx(math.sqrt((4 / 7 + 1 / 3) / 3))


# Blocks of evidence


@quick
@given(st.integers(1, 12_000))
def test_some_twenty_blocks_are_shown_whose_sizes_are_near_each_other(n: int) -> None:
    counts = np.bincount(assign_blocks(0, n))
    begins = merge_blocks(counts)
    assert begins[0] == 0 and (np.diff(begins) > 0).all() and len(begins) <= 20
    merged_counts = np.add.reduceat(counts, begins)
    assert merged_counts.sum() == n
    if n >= 400:  # from here on no block is more than a twentieth
        assert len(begins) == 20
    assert merged_counts.max() <= n / 20 + 2 * counts.max()


def test_names_that_are_not_scored_are_nan_in_every_score_and_leave_others_alone() -> None:
    p = np.array([[0.1, math.nan, 0.2], [0.3, math.nan, 0.3]])
    columns = [0, 2]
    sums = [dict(p=p**k, log_p=np.log(p[:, columns]) * k) for k in (1, 2)]
    parts, counts = parts_of([(0, -1), (-1, -1), (1, -1)], [False] * 2), np.array([1, 1])
    input_sums = [dict(p=p**k, log_p=np.log(p) * k) for k in (1, 2)]
    results = {
        "chain": compute_scores(sums_of(input_sums[0], input_sums[1]), counts=counts, parts=None)
    }
    results["by part"] = compute_scores(sums_of(sums[0], sums[1]), counts=counts, parts=parts)
    mass = [dict(mass=p[:, columns] ** k, hits=p**k, full_hits=p**k) for k in (1, 2)]
    results["masses"] = compute_scores(sums_of(mass[0], mass[1]), counts=counts, parts=parts)
    for scores in results.values():
        for name, score in scores.items():
            assert np.isnan(score).tolist() == [[False, True, False]] * 2, name


# Scenario 1


def documents(parts: str) -> st.SearchStrategy[Any]:
    """Blocks of documents of a name that has these parts, and which those are."""
    nothing, is_hit = st.just(math.nan), st.sampled_from([0.0, 1.0])
    item = {}
    for model, mass in (("h", probability), ("g", probability | st.just(0.0))):
        item[f"first_{model}"] = nothing if parts == "last" else mass
        item[f"last_{model}"] = nothing if parts == "first" else mass
        item |= {f"hits_{model}": is_hit, f"full_hits_{model}": is_hit}
    return st.tuples(blocks_of_items(st.fixed_dictionaries(item)), st.just(parts))


def slow_generation(parts: str, n_all: int) -> dict[str, Callable[[Any], float]]:
    def mean(documents: Any, key: str) -> float:
        return sum(document[key] for document in documents) / len(documents)

    parts_of_name = ("first", "last") if parts == "both" else (parts,)

    def product(documents: Any, model: str) -> float:
        return math.prod(mean(documents, f"{part}_{model}") for part in parts_of_name)

    def minimum(documents: Any, model: str) -> float:
        return min(mean(documents, f"{part}_{model}") for part in parts_of_name)

    def log_ratio(hospital: float, general: float) -> float:
        return math.log(hospital / general) if general else math.nan  # not zero, not infinite

    return {
        "product": lambda d: product(d, "h"),
        "minimum": lambda d: minimum(d, "h"),
        "half_log_ratio": lambda d: sum(
            math.log(
                (sum(document[f"{part}_h"] for document in d) * n_all / len(d) + 0.5)
                / (sum(document[f"{part}_g"] for document in d) * n_all / len(d) + 0.5)
            )
            for part in parts_of_name
        ),
        "product_log_ratio": lambda d: log_ratio(product(d, "h"), product(d, "g")),
        "minimum_log_ratio": lambda d: log_ratio(minimum(d, "h"), minimum(d, "g")),
        "hits": lambda d: mean(d, "hits_h"),
        "full_hits": lambda d: mean(d, "full_hits_h"),
        "general_product": lambda d: product(d, "g"),
        "general_minimum": lambda d: minimum(d, "g"),
        "general_hits": lambda d: mean(d, "hits_g"),
        "general_full_hits": lambda d: mean(d, "full_hits_g"),
    }


@quick
@given(st.sampled_from(["both", "first", "last"]).flatmap(documents))
def test_generation_scores_and_errors_equal_a_loop(case: Any) -> None:
    blocks, kind = case
    # The name, and two reference controls of one of its parts each.
    name_columns = (-1 if kind == "last" else 0, -1 if kind == "first" else 1)
    parts = parts_of([name_columns, (0, -1), (-1, 1)], [False, True])
    n_all = sum(map(len, blocks))

    def sums(model: str) -> dict[str, np.ndarray]:
        def column(field: str) -> Any:
            block_sums = [sum(d[f"{field}_{model}"] for d in block) for block in blocks]
            return np.nan_to_num(np.array(block_sums)[:, None])

        return dict(
            mass=np.concatenate([column("first"), column("last")], axis=1),
            hits=column("hits"),
            full_hits=column("full_hits"),
        )

    counts = np.array([len(block) for block in blocks])
    scores = compute_scores(sums_of(sums("h"), sums("g")), counts=counts, parts=parts)
    slow = slow_generation(kind, n_all)
    assert set(scores) == {*slow, *PART_SCORES}
    for name, statistic in slow.items():
        value, error = score_with_error(statistic, blocks)
        close = pytest.approx(value, rel=1e-9, abs=1e-12, nan_ok=True)
        assert scores[name][0, 0] == close, name
        assert scores[name][1, 0] == pytest.approx(error, rel=1e-6, abs=1e-9, nan_ok=True), name
    for name in ("hits", "full_hits", "general_hits", "general_full_hits"):
        assert scores[name][0].shape == (1,)  # of listed names alone
    for name in ("product", "residual", "half_log_ratio"):
        assert scores[name][0].shape == (3,)
