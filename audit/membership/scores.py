"""Scores: one number per name out of block sums, with its jackknife standard error.

Comes in: block sums of both models over the same inputs or documents. Goes out: columns, each
named after its formula; higher = more member-like. Every error is a delete-one-block jackknife of
the score itself, so that what both models have in common cancels. Legend: b blocks, N names (listed
ones, then reference controls), U distinct parts of names.

Source: Nakamura et al., section 4.2 (`difference`); jackknife over blocks of unequal size: Busing,
Meijer & van der Leeden 1999 (doi:10.1023/A:1008800423698).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from audit.membership.part_scores import Floats as Floats
from audit.membership.part_scores import Ids as Ids
from audit.membership.part_scores import NameParts, part_score_columns

Columns = dict[str, Floats]
Formulas = Callable[[Columns, float], Columns]

DRAW = 100
"""Inputs or documents whose randomness is drawn together."""


def blocks_of(first: int, n: int) -> Ids:
    """Return the block of evidence [n], from 0 up, of inputs or documents first ... first + n - 1.

    A block is what errors are jackknifed over: one input each up to 40, then 5 up to 400, 20 up to
    2,000 and 100 beyond, whatever the run's size. So a run of 100 has 52 blocks, one of 300 has 92
    and one of 10,000 has 272, and a longer run keeps the blocks of a shorter one. `first` is a
    multiple of `DRAW`.
    """
    number = np.arange(first, first + n)
    block = np.select(
        [number < 40, number < 400, number < 2000],
        [number, 40 + (number - 40) // 5, 112 + (number - 400) // 20],
        192 + (number - 2000) // 100,
    )
    found: Ids = block - block[:1]
    return found


def shown_blocks(counts: Ids, *, n_shown: int = 20) -> Ids:
    """Return where each of about `n_shown` blocks of equal size begins, for a reader's eye."""
    before = np.cumsum(counts) - counts
    group = before * n_shown // max(int(counts.sum()), 1)
    found: Ids = np.unique(group, return_index=True)[1]
    return found


@dataclass(frozen=True, eq=False)
class Score:
    """A score [N] and its standard error [N]; NaN: not scored, or fewer than two blocks."""

    value: Floats
    standard_error: Floats


@dataclass(frozen=True, eq=False)
class PosteriorSums:
    """Scenario-2 evidence of one model: block sums of p [b, n_listed] and of ln p by part [b, U].

    Of `chain`, ln p [b, n_listed] is of whole names.
    """

    sum_p: Floats
    sum_log_p: Floats


@dataclass(frozen=True, eq=False)
class MassSums:
    """Scenario-1 evidence of one model, by block.

    `mass` [b, U] is the Rao-Blackwell mass of each part. Of listed names [b, n_listed], `hits`
    counts documents with either part, `full_hits` with both side by side.
    """

    mass: Floats
    hits: Floats
    full_hits: Floats


def jackknife(
    formulas: Formulas, sums: Columns, *, counts: Ids, with_errors: bool = True
) -> dict[str, Score]:
    """Evaluate scores of block sums, and their delete-one-block jackknife errors.

    Parameters
    ----------
    formulas
        From totals (name -> [K]) and their count to the scores (formula -> [N]).
    sums
        Name -> [b, K] block sums.
    counts
        [b] inputs or documents of each block, which may differ.
    """
    total, n_blocks = {name: block.sum(axis=0) for name, block in sums.items()}, len(counts)
    n = float(counts.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        value = formulas(total, n)
        if n_blocks < 2 or not with_errors:
            return {name: Score(x, np.full_like(x, math.nan)) for name, x in value.items()}
        # With e_j = value - value without block j and h_j = n / n_j, the variance is the mean over
        # blocks of ((h_j - 1) e_j - D)^2 / (h_j - 1), where D = sum of (1 - 1 / h_j) e_j.
        shift, squares, plain, weights = (
            {name: np.zeros_like(x) for name, x in value.items()} for _ in range(4)
        )
        for j, n_here in enumerate(counts.tolist()):
            without = formulas({k: total[k] - sums[k][j] for k in sums}, n - n_here)
            h = n / n_here
            for name, x in value.items():
                e = x - without[name]
                shift[name] = shift[name] + (1 - 1 / h) * e
                squares[name] = squares[name] + (h - 1) * e**2
                plain[name] = plain[name] + e
                weights[name] = weights[name] + 1 / (h - 1)
        errors = {
            name: np.sqrt((squares[name] - 2 * d * plain[name] + d**2 * weights[name]) / n_blocks)
            for name, d in shift.items()
        }
    return {
        name: Score(x, np.where(np.isfinite(x), errors[name], math.nan))
        for name, x in value.items()
    }


def posterior_scores(
    hospital: PosteriorSums,
    *,
    general: PosteriorSums,
    counts: Ids,
    parts: NameParts | None,
    with_errors: bool = True,
) -> dict[str, Score]:
    """Return the scenario-2 scores (spec of scores, section 4.2).

    `difference` = mean(p_h - p_g), the paper's; `log_ratio` = ln mean p_h - ln mean p_g;
    `mean_log_ratio` = mean(ln p_h - ln p_g); also `hospital_posterior`, `general_posterior` (means
    of p), and `general_mean_log` = mean ln p_g: what M_general alone says. Those of p are of listed
    names. With `parts` come the scores of `part_scores.part_score_columns`; None: `chain`, whose
    evidence is of whole listed names.
    """
    sums = {
        "p_h": hospital.sum_p,
        "p_g": general.sum_p,
        "l_h": hospital.sum_log_p,
        "l_g": general.sum_log_p,
    }

    def formulas(s: Columns, n: float) -> Columns:
        mean_h, mean_g = s["l_h"] / n, s["l_g"] / n
        whole_h, whole_g = (x if parts is None else parts.whole(x) for x in (mean_h, mean_g))
        found = {
            "difference": (s["p_h"] - s["p_g"]) / n,
            "log_ratio": np.log(s["p_h"]) - np.log(s["p_g"]),
            "mean_log_ratio": whole_h - whole_g,
            "hospital_posterior": s["p_h"] / n,
            "general_posterior": s["p_g"] / n,
            "general_mean_log": whole_g,
        }
        return found if parts is None else found | part_score_columns(mean_h, mean_g, parts=parts)

    return jackknife(formulas, sums, counts=counts, with_errors=with_errors)


def generation_scores(
    hospital: MassSums,
    *,
    general: MassSums,
    counts: Ids,
    parts: NameParts,
    with_errors: bool = True,
) -> dict[str, Score]:
    """Return the scenario-1 scores.

    With m_first, m_last the mass per document: `product` = m_first m_last and `minimum` =
    min(m_first, m_last) of M_hospital; `product_log_ratio` and `minimum_log_ratio` their logarithm
    against M_general's (NaN where M_general's is zero). With M the mass of the whole run,
    `half_log_ratio` = sum over both parts of ln (M_h + 1/2) / (M_g + 1/2), defined everywhere: the
    log ratio of counts after Haldane 1956 and Anscombe 1956 (doi:10.1093/biomet/43.3-4.461), and
    the scores of `part_scores.part_score_columns` on ln (M + 1/2). A name of one part has that
    part's mass. `hits` and `full_hits` are shares of documents, of listed names; `general_*` the
    same of M_general.
    """
    sums = {
        f"{field}_{model}": getattr(source, field)
        for model, source in (("h", hospital), ("g", general))
        for field in ("mass", "hits", "full_hits")
    }
    n_all = float(counts.sum())

    def formulas(s: Columns, n: float) -> Columns:
        found: Columns = {}
        for model in ("h", "g"):
            first, last = parts.pairs(s[f"mass_{model}"] / n)
            product = np.where(np.isnan(first), last, np.where(np.isnan(last), first, first * last))
            prefix = "general_" if model == "g" else ""
            found |= {
                f"{prefix}product": product,
                f"{prefix}minimum": np.fmin(first, last),
                f"{prefix}hits": s[f"hits_{model}"] / n,
                f"{prefix}full_hits": s[f"full_hits_{model}"] / n,
            }
        for name in ("product", "minimum"):
            below = found[f"general_{name}"]
            ratio = np.log(found[name]) - np.log(below)
            found[f"{name}_log_ratio"] = np.where(below > 0, ratio, math.nan)
        # Masses of the whole run, so that one half is as much without a block as with it.
        log_h, log_g = (np.log(s[f"mass_{model}"] * (n_all / n) + 0.5) for model in ("h", "g"))
        found["half_log_ratio"] = parts.whole(log_h - log_g)
        return found | part_score_columns(log_h, log_g, parts=parts)

    return jackknife(formulas, sums, counts=counts, with_errors=with_errors)
