"""Scores: one number per name out of block sums, with its jackknife standard error.

Comes in: block sums of both models over the same inputs or documents. Goes out: columns, each
named after its formula; higher = more member-like. Every error is a delete-one-block jackknife of
the score itself, so that what both models have in common cancels. Legend: b blocks, N names.

Source: Nakamura et al., section 4.2 (`difference`); jackknife: Efron & Stein 1981
(doi:10.1214/aos/1176345462).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ids = NDArray[np.int64]
Statistic = Callable[[dict[str, Floats], Floats], Floats]

BLOCK = 100
"""Inputs or documents of one block of evidence; errors are jackknifed over blocks."""


@dataclass(frozen=True, eq=False)
class Score:
    """A score [N] and its standard error [N]; NaN: not scored, or fewer than two blocks."""

    value: Floats
    standard_error: Floats


@dataclass(frozen=True, eq=False)
class PosteriorSums:
    """Scenario-2 evidence of one model: block sums of p and ln p, [b, N]."""

    sum_p: Floats
    sum_log_p: Floats


@dataclass(frozen=True, eq=False)
class MassSums:
    """Scenario-1 evidence of one model for N names: block sums of mass and hits, [b, N].

    `first` and `last` are the Rao-Blackwell masses of the two parts; NaN for a part that is missing
    or unknown. `hits` counts documents with either part, `full_hits` with both side by side.
    """

    first: Floats
    last: Floats
    hits: Floats
    full_hits: Floats


def jackknife(statistic: Statistic, sums: dict[str, Floats], *, counts: Ids) -> Score:
    """Evaluate a statistic of block sums, and its delete-one-block jackknife error.

    Parameters
    ----------
    statistic
        From totals (name -> [..., N]) and their count ([..., 1]) to the score [..., N].
    sums
        Name -> [b, N] block sums.
    counts
        [b] inputs or documents of each block.
    """
    n_blocks = len(counts)
    totals = {name: block.sum(axis=0) for name, block in sums.items()}
    n_total = np.array([float(counts.sum())])
    with np.errstate(divide="ignore", invalid="ignore"):
        value = statistic(totals, n_total)
        if n_blocks < 2:
            return Score(value, np.full_like(value, math.nan))
        left = {name: totals[name] - block for name, block in sums.items()}
        without = statistic(left, (counts.sum() - counts).astype(float)[:, None])  # [b, N]
        spread = ((without - without.mean(axis=0)) ** 2).sum(axis=0)
        error = np.sqrt(spread * (n_blocks - 1) / n_blocks)
    return Score(value, np.where(np.isfinite(value), error, math.nan))


def posterior_scores(
    hospital: PosteriorSums, *, general: PosteriorSums, counts: Ids
) -> dict[str, Score]:
    """Return the scenario-2 scores (spec of scores, section 4.2).

    `difference` = mean(p_h - p_g), the paper's; `log_ratio` = ln mean p_h - ln mean p_g;
    `mean_log_ratio` = mean(ln p_h - ln p_g); also `hospital_posterior`, `general_posterior` (means
    of p), and `general_mean_log` = mean ln p_g: what M_general alone says.
    """
    sums = {
        "p_h": hospital.sum_p,
        "p_g": general.sum_p,
        "l_h": hospital.sum_log_p,
        "l_g": general.sum_log_p,
    }
    formulas: dict[str, Statistic] = {
        "difference": lambda s, n: (s["p_h"] - s["p_g"]) / n,
        "log_ratio": lambda s, n: np.log(s["p_h"]) - np.log(s["p_g"]),
        "mean_log_ratio": lambda s, n: (s["l_h"] - s["l_g"]) / n,
        "hospital_posterior": lambda s, n: s["p_h"] / n,
        "general_posterior": lambda s, n: s["p_g"] / n,
        "general_mean_log": lambda s, n: s["l_g"] / n,
    }
    return {name: jackknife(formula, sums, counts=counts) for name, formula in formulas.items()}


def generation_scores(hospital: MassSums, *, general: MassSums, counts: Ids) -> dict[str, Score]:
    """Return the scenario-1 scores.

    With m_first, m_last the mass per document: `product` = m_first m_last and `minimum` =
    min(m_first, m_last) of M_hospital; `product_log_ratio` and `minimum_log_ratio` their logarithm
    against M_general's (NaN where M_general's is zero). With M the mass of the whole run,
    `half_log_ratio` = sum over both parts of ln (M_h + 1/2) / (M_g + 1/2), defined everywhere: the
    log ratio of counts after Haldane 1956 and Anscombe 1956 (doi:10.1093/biomet/43.3-4.461). A name
    of one part has that part's mass.
    `hits` and `full_hits` are shares of documents; `general_*` the same of M_general.
    """
    sums = {
        f"{field}_{model}": getattr(source, field)
        for model, source in (("h", hospital), ("g", general))
        for field in ("first", "last", "hits", "full_hits")
    }

    def product(s: dict[str, Floats], n: Floats, model: str) -> Floats:
        first, last = s[f"first_{model}"] / n, s[f"last_{model}"] / n
        return np.where(np.isnan(first), last, np.where(np.isnan(last), first, first * last))

    def minimum(s: dict[str, Floats], n: Floats, model: str) -> Floats:
        return np.fmin(s[f"first_{model}"], s[f"last_{model}"]) / n

    def log_ratio(of: Callable[[dict[str, Floats], Floats, str], Floats]) -> Statistic:
        def formula(s: dict[str, Floats], n: Floats) -> Floats:
            below = of(s, n, "g")
            return np.where(below > 0, np.log(of(s, n, "h")) - np.log(below), math.nan)

        return formula

    def half_log_ratio(s: dict[str, Floats], n: Floats) -> Floats:
        parts = [
            np.log(s[f"{part}_h"] + 0.5) - np.log(s[f"{part}_g"] + 0.5)
            for part in ("first", "last")
        ]
        missing = np.isnan(parts[0]) & np.isnan(parts[1])
        return np.where(missing, math.nan, np.nan_to_num(parts[0]) + np.nan_to_num(parts[1]))

    formulas: dict[str, Statistic] = {
        "product": lambda s, n: product(s, n, "h"),
        "minimum": lambda s, n: minimum(s, n, "h"),
        "product_log_ratio": log_ratio(product),
        "minimum_log_ratio": log_ratio(minimum),
        "half_log_ratio": half_log_ratio,
        "hits": lambda s, n: s["hits_h"] / n,
        "full_hits": lambda s, n: s["full_hits_h"] / n,
        "general_product": lambda s, n: product(s, n, "g"),
        "general_minimum": lambda s, n: minimum(s, n, "g"),
        "general_hits": lambda s, n: s["hits_g"] / n,
        "general_full_hits": lambda s, n: s["full_hits_g"] / n,
    }
    return {name: jackknife(formula, sums, counts=counts) for name, formula in formulas.items()}
