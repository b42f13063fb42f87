"""Scores and their jackknife errors: by hand, against loops, and as properties."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.membership.scores import (
    MassSums,
    PosteriorSums,
    Score,
    generation_scores,
    jackknife,
    posterior_scores,
)
from tests.reference_masking import SCORES, score_with_error

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


def scored(blocks: Inputs) -> dict[str, Score]:
    def column(key: str) -> np.ndarray:
        return np.array([[sum(one[key] for one in block)] for block in blocks])

    return posterior_scores(
        PosteriorSums(column("p_h"), column("l_h")),
        general=PosteriorSums(column("p_g"), column("l_g")),
        counts=np.array([len(block) for block in blocks]),
    )


def test_scores_of_two_unequal_blocks_by_hand() -> None:
    # Block 1: p_h 0.2, 0.4, p_g 0.1, 0.1. Block 2: p_h 0.6, p_g 0.1.
    pairs = [[(0.2, 0.1), (0.4, 0.1)], [(0.6, 0.1)]]
    blocks = [
        [{"p_h": h, "p_g": g, "l_h": math.log(h), "l_g": math.log(g)} for h, g in block]
        for block in pairs
    ]
    scores = scored(blocks)
    by_hand = {
        # Without block 1: 0.5; without block 2: 0.2; error = sqrt(1/2 * 2 * 0.15^2) = 0.15.
        "difference": (0.3, 0.15),
        "log_ratio": (math.log(4), math.log(2) / 2),
        "mean_log_ratio": (math.log(48) / 3, (math.log(6) - math.log(8) / 2) / 2),
        "hospital_posterior": (0.4, 0.15),
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


@quick
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.integers(1, 100))
def test_the_error_of_a_mean_over_equal_blocks_is_the_textbooks(means: list[float], n: int) -> None:
    blocks = np.array(means)[:, None] * n
    counts = np.full(len(means), n)
    score = jackknife(lambda s, total: s["x"] / total, {"x": blocks}, counts=counts)
    textbook = np.std(means, ddof=1) / math.sqrt(len(means))
    assert score.value[0] == pytest.approx(np.mean(means), abs=1e-9)
    assert score.standard_error[0] == pytest.approx(textbook, rel=1e-6, abs=1e-9)


def test_what_both_models_have_in_common_cancels_in_the_error() -> None:
    rng = np.random.default_rng(1)
    common = np.log(rng.uniform(0.01, 0.9, size=(20, 1))) * 100
    hospital, general = (PosteriorSums(np.exp(x / 100), x) for x in (common + 50, common))
    score = posterior_scores(hospital, general=general, counts=np.full(20, 100))
    assert score["mean_log_ratio"].value[0] == pytest.approx(0.5)
    assert score["mean_log_ratio"].standard_error[0] < 1e-9
    assert score["general_mean_log"].standard_error[0] > 0.1


@pytest.mark.parametrize("n", [1, 100])
def test_one_block_has_a_score_and_no_error(n: int) -> None:
    sums = PosteriorSums(np.array([[0.5 * n]]), np.array([[math.log(0.5) * n]]))
    for score in posterior_scores(sums, general=sums, counts=np.array([n])).values():
        assert np.isfinite(score.value).all()
        assert np.isnan(score.standard_error).all()


def test_names_that_are_not_scored_are_nan_in_every_score_and_leave_others_alone() -> None:
    p = np.array([[0.1, math.nan], [0.3, math.nan]])
    sums = PosteriorSums(p, np.log(p))
    scores = posterior_scores(sums, general=sums, counts=np.array([1, 1]))
    for score in scores.values():
        assert np.isnan(score.value).tolist() == [False, True]
        assert np.isnan(score.standard_error).tolist() == [False, True]
    mass = MassSums(first=p, last=p, hits=p, full_hits=p)
    for name, score in generation_scores(mass, general=mass, counts=np.array([1, 1])).items():
        assert np.isnan(score.value).tolist() == [False, True], name
        assert np.isnan(score.standard_error).tolist() == [False, True], name


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
            block.append(document)
        blocks.append(block)
    return blocks, parts


def slow_generation(parts: str) -> dict[str, Callable[[Any], float]]:
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
                (sum(one[f"{part}_h"] for one in d) + 0.5)
                / (sum(one[f"{part}_g"] for one in d) + 0.5)
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


@quick
@given(masses())
def test_generation_scores_and_errors_equal_a_loop(case: Any) -> None:
    blocks, parts = case

    def sums(model: str) -> MassSums:
        return MassSums(
            **{
                field: np.array([[sum(d[f"{field}_{model}"] for d in block)] for block in blocks])
                for field in ("first", "last", "hits", "full_hits")
            }
        )

    scores = generation_scores(
        sums("h"), general=sums("g"), counts=np.array([len(block) for block in blocks])
    )
    slow = slow_generation(parts)
    assert set(scores) == set(slow)
    for name, statistic in slow.items():
        value, error = score_with_error(statistic, blocks)
        assert scores[name].value[0] == pytest.approx(value, rel=1e-9, abs=1e-12)
        assert scores[name].standard_error[0] == pytest.approx(
            error, rel=1e-6, abs=1e-9, nan_ok=True
        )


def test_no_mass_in_the_general_model_is_nan_and_not_zero_or_infinite() -> None:
    some, none = np.array([[0.5], [0.7]]), np.zeros((2, 1))
    hospital = MassSums(first=some, last=some, hits=none, full_hits=none)
    general = MassSums(first=none, last=some, hits=none, full_hits=none)
    scores = generation_scores(hospital, general=general, counts=np.array([1, 1]))
    for name in ("product_log_ratio", "minimum_log_ratio"):
        assert np.isnan(scores[name].value[0])
        assert np.isnan(scores[name].standard_error[0])
    assert scores["product"].value[0] == pytest.approx(0.36)
    assert scores["general_product"].value[0] == 0.0
