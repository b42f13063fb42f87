"""Scores and their jackknife errors: by hand, against loops, and as properties."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.attack.scores import (
    NameParts,
    Score,
    all_scores,
    jackknife,
    shown_blocks,
)
from audit.stats import DRAW, blocks_of
from tests.membership.make_posterior import posterior_sums, sums_of
from tests.reference_masking import PART_SCORES, SCORES, score_with_error

quick = settings(deadline=None, max_examples=40)
probability = st.floats(1e-6, 1.0)
Inputs = list[list[dict[str, float]]]


@st.composite
def posterior_blocks(draw: st.DrawFn, min_blocks: int = 1) -> Inputs:
    """Blocks of unequal size of one name's p and ln p under both models."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=min_blocks, max_size=5))
    blocks = []
    for size in sizes:
        block = []
        for _ in range(size):
            p_h, p_g = draw(probability), draw(probability)
            block.append({"p_h": p_h, "p_g": p_g, "l_h": math.log(p_h), "l_g": math.log(p_g)})
        blocks.append(block)
    return blocks


def of_parts(*of_name: tuple[int, int], is_last: list[bool] | None = None) -> NameParts:
    """Names by their parts' columns; the generator knows all of the parts."""
    columns = np.array(of_name)
    n = int(columns.max(initial=-1)) + 1
    last = [False] * n if is_last is None else is_last
    ones = np.ones(n, dtype=np.int64)
    return NameParts(columns, np.zeros(n), ones, np.array(last, bool), ones > 0, ones)


def scored(blocks: Inputs, parts: NameParts | None = None) -> dict[str, Score]:
    """Scores of one whole name, or of a name whose only part has this evidence."""

    def column(key: str) -> np.ndarray:
        return np.array([[sum(one[key] for one in block)] for block in blocks])

    scores = all_scores(
        sums_of(
            posterior_sums(column("p_h"), column("l_h")),
            posterior_sums(column("p_g"), column("l_g")),
        ),
        counts=np.array([len(block) for block in blocks]),
        parts=parts,
    )
    return {name.removeprefix("chain_"): score for name, score in scores.items()}


def test_scores_of_two_unequal_blocks_by_hand() -> None:
    # Block 1: p_h 0.2, 0.4, p_g 0.1, 0.1. Block 2: p_h 0.6, p_g 0.1.
    pairs = [[(0.2, 0.1), (0.4, 0.1)], [(0.6, 0.1)]]
    blocks = [
        [{"p_h": h, "p_g": g, "l_h": math.log(h), "l_g": math.log(g)} for h, g in block]
        for block in pairs
    ]
    scores = scored(blocks)
    # h = 3/2 and 3. `difference` 0.3; without block 1 0.5, without block 2 0.2. Pseudo-values
    # 1.5 * 0.3 - 0.5 * 0.5 = 0.2 and 3 * 0.3 - 2 * 0.2 = 0.5, which are the blocks' means; estimate
    # 2 * 0.3 - 1/3 * 0.5 - 2/3 * 0.2 = 0.3; variance ((-0.1)^2 / 0.5 + 0.2^2 / 2) / 2 = 0.02.
    # For logarithms as for the mean of block 1, m, and that of block 2, n: variance of the mean is
    # (m - n)^2 * 2/9.
    means = [math.log(8) / 2, math.log(6)]
    log_pseudo = [1.5 * math.log(4) - 0.5 * math.log(6), 3 * math.log(4) - 2 * math.log(3)]
    log_estimate = 2 * math.log(4) - math.log(6) / 3 - 2 * math.log(3) / 3
    log_variance = (
        sum(
            (x - log_estimate) ** 2 / weight for x, weight in zip(log_pseudo, (0.5, 2), strict=True)
        )
        / 2
    )
    by_hand = {
        "difference": (0.3, math.sqrt(0.02)),
        "log_ratio": (math.log(4), math.sqrt(log_variance)),
        "mean_log_ratio": (math.log(48) / 3, (means[1] - means[0]) * math.sqrt(2) / 3),
        "hospital_posterior": (0.4, math.sqrt(0.02)),
        "general_posterior": (0.1, 0.0),
        "general_mean_log": (math.log(0.1), 0.0),
    }
    assert set(scores) == set(by_hand)
    for name, (value, error) in by_hand.items():
        assert scores[name].value[0] == pytest.approx(value)
        assert scores[name].standard_error[0] == pytest.approx(error, abs=1e-12)


@quick
@given(posterior_blocks())
def test_scores_and_errors_equal_a_loop_that_leaves_out_one_block_at_a_time(blocks: Inputs) -> None:
    scores = scored(blocks)
    for name, statistic in SCORES.items():
        value, error = score_with_error(statistic, blocks)
        assert scores[name].value[0] == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert scores[name].standard_error[0] == pytest.approx(
            error, rel=1e-6, abs=1e-9, nan_ok=True
        )


@quick
@given(posterior_blocks(min_blocks=2))
def test_models_swapped_turn_the_sign_and_keep_the_error(blocks: Inputs) -> None:
    other = {"p_h": "p_g", "p_g": "p_h", "l_h": "l_g", "l_g": "l_h"}
    swapped = scored([[{other[k]: v for k, v in one.items()} for one in b] for b in blocks])
    for name in ("difference", "log_ratio", "mean_log_ratio"):
        one, turned = scored(blocks)[name], swapped[name]
        np.testing.assert_allclose(one.value, -turned.value, atol=1e-12)
        np.testing.assert_allclose(one.standard_error, turned.standard_error, atol=1e-9)


@quick
@given(posterior_blocks(min_blocks=2), st.floats(0.01, 1.0))
def test_a_common_factor_moves_no_log_ratio_and_no_error_of_it(
    blocks: Inputs, factor: float
) -> None:
    scaled = [
        [
            {k: v * factor if k[0] == "p" else v + math.log(factor) for k, v in one.items()}
            for one in block
        ]
        for block in blocks
    ]
    before, after = scored(blocks), scored(scaled)
    for name in ("log_ratio", "mean_log_ratio"):
        np.testing.assert_allclose(before[name].value, after[name].value, atol=1e-9)
        np.testing.assert_allclose(
            before[name].standard_error, after[name].standard_error, atol=1e-9
        )
    np.testing.assert_allclose(after["difference"].value, factor * before["difference"].value)


@quick
@given(posterior_blocks(min_blocks=2), st.randoms(use_true_random=False))
def test_the_order_of_blocks_does_not_matter(blocks: Inputs, random: Any) -> None:
    shuffled = list(blocks)
    random.shuffle(shuffled)
    one, other = scored(blocks), scored(shuffled)
    for name in SCORES:
        np.testing.assert_allclose(one[name].value, other[name].value, atol=1e-12)
        np.testing.assert_allclose(one[name].standard_error, other[name].standard_error, atol=1e-9)


# The jackknife


def mean_of(sums: dict[str, Any], n: float) -> dict[str, Any]:
    return {"mean": sums["x"] / n}


@quick
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.integers(1, 100))
def test_the_error_of_a_mean_over_equal_blocks_is_the_textbooks(means: list[float], n: int) -> None:
    blocks = np.array(means)[:, None] * n
    score = jackknife(mean_of, {"x": blocks}, counts=np.full(len(means), n))["mean"]
    textbook = np.std(means, ddof=1) / math.sqrt(len(means))
    assert score.value[0] == pytest.approx(np.mean(means), abs=1e-9)
    assert score.standard_error[0] == pytest.approx(textbook, rel=1e-6, abs=1e-9)


@quick
@given(st.lists(st.floats(0.01, 5), min_size=2, max_size=9), st.integers(1, 50))
def test_over_equal_blocks_the_error_of_any_score_is_quenouilles(
    means: list[float], n: int
) -> None:
    x = np.array(means)
    score = jackknife(
        lambda s, total: {"log": np.log(s["x"] / total)},
        {"x": x[:, None] * n},
        counts=np.full(len(x), n),
    )["log"]
    without = np.log([np.delete(x, j).mean() for j in range(len(x))])
    variance = (len(x) - 1) / len(x) * ((without - without.mean()) ** 2).sum()
    assert score.standard_error[0] == pytest.approx(math.sqrt(variance), rel=1e-6, abs=1e-9)


def test_the_error_of_a_mean_over_blocks_of_1_2_and_5_by_hand() -> None:
    # Means 4, 1, 2 of 1, 2 and 5 inputs: 16 / 8 = 2. Pseudo-values are the means, weights h - 1 are
    # 7, 3 and 0.6: variance (2^2 / 7 + 1^2 / 3 + 0) / 3 = 0.3015873.
    score = jackknife(mean_of, {"x": np.array([[4.0], [2.0], [10.0]])}, counts=np.array([1, 2, 5]))
    assert score["mean"].value[0] == 2
    assert score["mean"].standard_error[0] == pytest.approx(math.sqrt((4 / 7 + 1 / 3) / 3))


@quick
@given(st.lists(st.integers(1, 100), min_size=2, max_size=12), st.floats(-5, 5))
def test_blocks_of_equal_means_have_no_error_whatever_their_sizes(
    counts: list[int], mean: float
) -> None:
    sums = np.array(counts)[:, None] * mean
    score = jackknife(mean_of, {"x": sums}, counts=np.array(counts))["mean"]
    assert score.value[0] == pytest.approx(mean)
    assert score.standard_error[0] == pytest.approx(0, abs=1e-7)


def test_the_error_is_that_of_repeated_runs_whatever_the_blocks() -> None:
    # 2,000 runs of 300 inputs each: the errors' root mean square is the runs' own spread.
    rng = np.random.default_rng(2)
    draws = rng.exponential(size=(300, 2000))
    for sizes in ([1] * 40 + [5] * 52, [100] * 3, [10] * 30, [1] * 100 + [200]):
        begins = np.cumsum([0, *sizes[:-1]])
        sums = np.add.reduceat(draws, begins)
        score = jackknife(mean_of, {"x": sums}, counts=np.array(sizes))["mean"]
        root = math.sqrt((score.standard_error**2).mean())
        assert root == pytest.approx(1 / math.sqrt(300), rel=0.1)


def test_without_errors_only_the_score_is_made() -> None:
    sums = {"x": np.array([[1.0], [2.0]])}
    score = jackknife(mean_of, sums, counts=np.array([1, 1]), with_errors=False)["mean"]
    assert score.value.tolist() == [1.5]
    assert np.isnan(score.standard_error).all()


# Blocks of evidence


@pytest.mark.parametrize(
    ("n", "n_blocks"),
    [(1, 1), (40, 40), (41, 41), (100, 52), (300, 92), (400, 112), (2000, 192), (2001, 193),
     (10_000, 272)],
)  # fmt: skip
def test_blocks_are_of_1_then_5_then_20_then_100(n: int, n_blocks: int) -> None:
    block = blocks_of(0, n)
    assert (len(block), block[0], block[-1] + 1) == (n, 0, n_blocks)
    assert set(np.diff(block)) <= {0, 1}
    sizes = np.bincount(block)
    for begin, size in zip(np.cumsum(sizes) - sizes, sizes, strict=True):
        limits = {begin < 40: 1, 40 <= begin < 400: 5, 400 <= begin < 2000: 20, begin >= 2000: 100}
        assert size == min(limits[True], n - begin)


@quick
@given(st.integers(0, 40), st.integers(1, 3000), st.integers(0, 500))
def test_a_shards_blocks_are_those_of_the_whole_run(shard: int, n: int, more: int) -> None:
    first = shard * DRAW
    whole = blocks_of(0, first + n + more)
    assert (blocks_of(first, n) == whole[first : first + n] - whole[first]).all()
    if first:  # no block goes over from one hundred to the next
        assert whole[first] == whole[first - 1] + 1


@quick
@given(st.integers(1, 12_000))
def test_some_twenty_blocks_are_shown_whose_sizes_are_near_each_other(n: int) -> None:
    counts = np.bincount(blocks_of(0, n))
    begins = shown_blocks(counts)
    assert begins[0] == 0
    assert (np.diff(begins) > 0).all()
    assert len(begins) <= 20
    shown = np.add.reduceat(counts, begins)
    assert shown.sum() == n
    if n >= 400:  # from here on no block is more than a twentieth
        assert len(begins) == 20
    assert shown.max() <= n / 20 + 2 * counts.max()


def test_what_both_models_have_in_common_cancels_in_the_error() -> None:
    rng = np.random.default_rng(1)
    common = np.log(rng.uniform(0.01, 0.9, size=(20, 1))) * 100
    hospital, general = (posterior_sums(np.exp(x / 100), x) for x in (common + 50, common))
    counts = np.full(20, 100)
    score = all_scores(sums_of(hospital, general), counts=counts, parts=of_parts((0, -1)))
    assert score["mean_log_ratio"].value[0] == pytest.approx(0.5)
    assert score["mean_log_ratio"].standard_error[0] < 1e-9
    assert score["general_mean_log"].standard_error[0] > 0.1
    assert np.isnan(score["residual"].value[0])  # of one part nothing can be fitted


@pytest.mark.parametrize("n", [1, 100])
def test_one_block_has_a_score_and_no_error(n: int) -> None:
    rng = np.random.default_rng(1)
    log_p = np.log(rng.uniform(0.1, 0.9, size=(2, 1, 3))) * n
    hospital, general = (posterior_sums(np.exp(x / n)[:, :2] * n, x) for x in log_p)
    parts = of_parts((0, -1), (1, -1), (2, -1))
    scores = all_scores(sums_of(hospital, general), counts=np.array([n]), parts=parts)
    assert set(scores) == {*SCORES, *PART_SCORES}
    for score in scores.values():
        assert np.isfinite(score.value).all()
        assert np.isnan(score.standard_error).all()


def test_names_that_are_not_scored_are_nan_in_every_score_and_leave_others_alone() -> None:
    p = np.array([[0.1, math.nan, 0.2], [0.3, math.nan, 0.3]])
    columns = [0, 2]
    sums = [posterior_sums(p**k, np.log(p[:, columns]) * k) for k in (1, 2)]
    parts, counts = of_parts((0, -1), (-1, -1), (1, -1)), np.array([1, 1])
    whole = [posterior_sums(p**k, np.log(p) * k) for k in (1, 2)]
    found = {"chain": all_scores(sums_of(whole[0], whole[1]), counts=counts, parts=None)}
    found["by part"] = all_scores(sums_of(sums[0], sums[1]), counts=counts, parts=parts)
    mass = [dict(mass=p[:, columns] ** k, hits=p**k, full_hits=p**k) for k in (1, 2)]
    found["masses"] = all_scores(sums_of(mass[0], mass[1]), counts=counts, parts=parts)
    for scores in found.values():
        for name, score in scores.items():
            assert np.isnan(score.value).tolist() == [False, True, False], name
            assert np.isnan(score.standard_error).tolist() == [False, True, False], name


# Scenario 1


@st.composite
def masses(draw: st.DrawFn) -> tuple[list[list[dict[str, float]]], str]:
    """Blocks of documents of one name, and which parts the name has."""
    parts = draw(st.sampled_from(["both", "first", "last"]))
    blocks = []
    for size in draw(st.lists(st.integers(1, 3), min_size=1, max_size=5)):
        block = []
        for _ in range(size):
            document: dict[str, float] = {}
            for model in "hg":
                document[f"first_{model}"] = math.nan if parts == "last" else draw(probability)
                document[f"last_{model}"] = math.nan if parts == "first" else draw(probability)
                document[f"hits_{model}"] = draw(st.sampled_from([0.0, 1.0]))
                document[f"full_hits_{model}"] = draw(st.sampled_from([0.0, 1.0]))
                document[f"other_{model}"] = draw(probability)
            block.append(document)
        blocks.append(block)
    return blocks, parts


def slow_generation(parts: str, n_all: int) -> dict[str, Callable[[Any], float]]:
    def mean(documents: Any, key: str) -> float:
        return sum(one[key] for one in documents) / len(documents)

    def product(documents: Any, model: str) -> float:
        if parts != "both":
            return mean(documents, f"{parts}_{model}")
        return mean(documents, f"first_{model}") * mean(documents, f"last_{model}")

    def minimum(documents: Any, model: str) -> float:
        if parts != "both":
            return mean(documents, f"{parts}_{model}")
        return min(mean(documents, f"first_{model}"), mean(documents, f"last_{model}"))

    return {
        "product": lambda d: product(d, "h"),
        "minimum": lambda d: minimum(d, "h"),
        "half_log_ratio": lambda d: sum(
            math.log(
                (sum(one[f"{part}_h"] for one in d) * n_all / len(d) + 0.5)
                / (sum(one[f"{part}_g"] for one in d) * n_all / len(d) + 0.5)
            )
            for part in (("first", "last") if parts == "both" else (parts,))
        ),
        "product_log_ratio": lambda d: math.log(product(d, "h") / product(d, "g")),
        "minimum_log_ratio": lambda d: math.log(minimum(d, "h") / minimum(d, "g")),
        "hits": lambda d: mean(d, "hits_h"),
        "full_hits": lambda d: mean(d, "full_hits_h"),
        "general_product": lambda d: product(d, "g"),
        "general_minimum": lambda d: minimum(d, "g"),
        "general_hits": lambda d: mean(d, "hits_g"),
        "general_full_hits": lambda d: mean(d, "full_hits_g"),
    }


def slow_shifts(parts: str) -> Callable[[Any], float]:
    """`part_log_ratio`: of two first names, ours and another one, the median is their mean."""

    def shift(documents: Any, part: str, n_all: int) -> float:
        scale = n_all / len(documents)
        h, g = (sum(one[f"{part}_{m}"] for one in documents) * scale + 0.5 for m in "hg")
        return math.log(h / g)

    def score(documents: Any, n_all: int) -> float:
        shifts = []
        for part in ("first", "last"):
            if parts in ("both", part):
                known = [shift(documents, part, n_all)]
                known += [shift(documents, "other", n_all)] if part == "first" else []
                shifts.append(known[0] - sum(known) / len(known))
        return min(shifts)

    return score


@quick
@given(masses())
def test_generation_scores_and_errors_equal_a_loop(case: Any) -> None:
    blocks, kind = case
    # Parts: the name's first, another first name that no listed name has, the name's last.
    parts = of_parts(
        (-1 if kind == "last" else 0, -1 if kind == "first" else 2), (1, -1), (-1, 2),
        is_last=[False, False, True],
    )  # fmt: skip
    n_all = sum(map(len, blocks))

    def sums(model: str) -> dict[str, np.ndarray]:
        def column(field: str) -> Any:
            found = [sum(d[f"{field}_{model}"] for d in block) for block in blocks]
            return np.nan_to_num(np.array(found)[:, None])

        return dict(
            mass=np.concatenate([column(part) for part in ("first", "other", "last")], axis=1),
            hits=column("hits"),
            full_hits=column("full_hits"),
        )

    counts = np.array([len(block) for block in blocks])
    scores = all_scores(sums_of(sums("h"), sums("g")), counts=counts, parts=parts)
    slow = slow_generation(kind, n_all)
    assert set(scores) == {*slow, *PART_SCORES}
    shifts = slow_shifts(kind)
    if kind != "last":
        slow["part_log_ratio"] = lambda d: shifts(d, n_all)
    for name, statistic in slow.items():
        value, error = score_with_error(statistic, blocks)
        assert scores[name].value[0] == pytest.approx(value, rel=1e-9, abs=1e-12), name
        assert scores[name].standard_error[0] == pytest.approx(
            error, rel=1e-6, abs=1e-9, nan_ok=True
        ), name
    for name in ("hits", "full_hits", "general_hits", "general_full_hits"):
        assert scores[name].value.shape == (1,)  # of listed names alone
    for name in ("product", "residual", "half_log_ratio"):
        assert scores[name].value.shape == (3,)


def test_no_mass_in_the_general_model_is_nan_and_not_zero_or_infinite() -> None:
    none = np.zeros((2, 1))
    hospital = dict(mass=np.array([[0.5, 0.5], [0.7, 0.7]]), hits=none, full_hits=none)
    general = dict(mass=np.array([[0.0, 0.5], [0.0, 0.7]]), hits=none, full_hits=none)
    parts = of_parts((0, 1), is_last=[False, True])
    counts = np.array([1, 1])
    scores = all_scores(sums_of(hospital, general), counts=counts, parts=parts)
    for name in ("product_log_ratio", "minimum_log_ratio"):
        assert np.isnan(scores[name].value[0])
        assert np.isnan(scores[name].standard_error[0])
    assert scores["product"].value[0] == pytest.approx(0.36)
    assert scores["general_product"].value[0] == 0.0
    assert scores["half_log_ratio"].value[0] == pytest.approx(math.log(1.7 / 0.5))
