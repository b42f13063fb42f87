"""Scores by part: residuals against scikit-learn, with few and with unknown parts, and minima."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from audit.attack.scores import (
    SCORES,
    NameParts,
    Sums,
    compute_residuals,
    describe_parts,
)
from audit.names.candidates import make_candidates
from audit.names.pools import NamePool
from tests.attack import planted_table
from tests.reference_masking import PART_SCORES, part_scores, slow_parts


def parts_of(n: int, *, seed: int = 0, n_unknown: int = 0, roles: int = 2) -> NameParts:
    """n parts, every other one a last name, the last `n_unknown` of them unknown; names of two."""
    rng = np.random.default_rng(seed)
    is_last = np.arange(n) % roles == 1
    is_known = np.arange(n) < n - n_unknown
    second = [k + 1 if roles == 2 and k + 1 < n else -1 for k in range(0, n, roles)]
    return planted_table.parts_of(
        list(zip(range(0, n, roles), second, strict=True)),
        is_last,
        log_share=rng.normal(-7, 2, size=n),
        n_pieces=rng.integers(1, 4, size=n),
        is_known=is_known,
    )


def evidence(parts: NameParts, *, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """What both models say of the parts: curved, and noisier where M_general says less."""
    rng = np.random.default_rng(seed)
    n = len(parts.log_share)
    general = -6 + 0.5 * parts.log_share + rng.normal(0, 1.5, size=n)
    hospital = 0.9 * general - 0.1 * general**2 / 6 + 0.2 * parts.log_share
    hospital += 0.1 * parts.n_pieces + parts.is_last + rng.normal(size=n) * (0.3 - 0.05 * general)
    return hospital, general


def slow(hospital: np.ndarray, general: np.ndarray, parts: NameParts) -> list[Any]:
    columns = ("is_last", "log_share", "n_pieces", "is_known")
    stored_columns = {name: getattr(parts, name).tolist() for name in columns}
    return slow_parts(hospital.tolist(), general.tolist(), **stored_columns)


# Residuals


@pytest.mark.parametrize(
    ("n", "n_unknown", "roles"),
    [
        (200, 0, 2),
        (100, 0, 1),
        (200, 30, 2),
        (70, 11, 1),
        (60, 0, 1),
        (59, 0, 1),
        (60, 1, 1),
        (40, 9, 2),
        (15, 0, 1),
        (14, 0, 1),
        (20, 6, 1),
        (5, 1, 1),
        (4, 0, 2),
    ],
)
def test_residuals_equal_the_slow_reference(n: int, n_unknown: int, roles: int) -> None:
    parts = parts_of(n, n_unknown=n_unknown, roles=roles)
    hospital, general = evidence(parts)
    residuals = compute_residuals(hospital, general, parts=parts)
    expected = [residual for residual, _ in slow(hospital, general, parts)]
    assert np.isfinite(residuals).all()
    np.testing.assert_allclose(residuals, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("n_known", "expected"), [(100, 0), (30, 0), (8, 0), (1, math.nan)])
def test_nothing_was_added_is_zero_and_of_less_than_two_known_parts_nothing_is_said(
    n_known: int, expected: float
) -> None:
    parts = parts_of(n_known + 5, n_unknown=5, roles=1)
    zero = np.zeros(n_known + 5)
    residuals = compute_residuals(zero, zero, parts=parts)
    np.testing.assert_array_equal(residuals, np.full(n_known + 5, expected))


# From parts to names


@pytest.mark.parametrize("n", [120, 30, 9])
def test_scores_of_names_equal_the_slow_reference(n: int) -> None:
    parts = parts_of(n, n_unknown=3)
    names = [(0, 1), (0, 3), (2, 1), (-1, 5), (4, -1), (-1, -1), (n - 2, n - 1), (n - 3, -1)]
    parts = NameParts(**{**vars(parts), "of_name": np.array(names)})
    hospital, general = evidence(parts)
    sums = Sums({"hospital_log_p": hospital, "general_log_p": general}, 1, 1, parts)
    scores = {kind.name: kind.formula(sums) for kind in SCORES if kind.scenarios == (1, 2)}
    assert set(scores) == set(PART_SCORES)
    by_part = [*slow(hospital, general, parts), (math.nan, math.nan)]
    for row, (first, last) in enumerate(names):
        part_pair = by_part[first], by_part[last]
        for name, value in part_scores(*part_pair).items():
            assert scores[name][row] == pytest.approx(value, nan_ok=True, abs=1e-7), name


def test_parts_are_described_by_what_the_generator_says_of_them() -> None:
    pool = NamePool("en_US", ("Ann", "Bo", "Cy"), ("Lee", "Hill"), (0.6, 0.3, 0.1), (0.75, 0.25))
    names = make_candidates(
        [
            ("ANN", "Lee"),
            ("Zoe", "Lee"),
            ("", "Quux"),
            ("Ann", "Hill"),
            ("Bo", "Lee"),
            ("Cy", "Ann"),
        ]
    )
    columns = np.array([(0, 1), (2, 1), (-1, 3), (0, 4), (5, 1), (-1, -1)])
    n_pieces = np.array([(1, 2), (3, 2), (0, 4), (1, 1), (2, 2), (9, 9)])
    parts = describe_parts(names, columns=columns, n_pieces=n_pieces, pool=pool)
    # Zoe and Quux count as the generator's rarest first and last name.
    shares = [0.6, 0.75, 0.1, 0.25, 0.25, 0.3]
    np.testing.assert_allclose(parts.log_share, np.log(shares))
    assert parts.is_known.tolist() == [True, True, False, False, True, True]
    assert parts.is_last.tolist() == [False, True, False, True, True, False]
    assert parts.n_pieces.tolist() == [1, 2, 3, 4, 1, 2]
    # Reference controls: Ann Hill, Bo Lee, and one that cannot be scored.
    assert parts.of_name.tolist() == columns.tolist()
