"""Exposure: how far planted names (canaries) rank above held-out ones, as a report keeps it.

The i-th planted name pairs with the i-th held-out one; where their numbers differ there are no
pairs, and the held-out names only give the ranks.

Source: Carlini et al. 2019, section 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from audit.attack.decisions import ALPHA, rank_p_values
from audit.attack.metrics import GENERAL_ALONE, plain
from audit.names.candidates import Candidates
from audit.rng import generator
from audit.stats import NOTHING, Estimate, FloatArray, IntArray, Rate
from audit.words import catalogue

MIN_HELD_OUT = 19
"""With fewer held-out names the smallest rank p-value is above 0.05."""
_N_REPLICATES = 2000
_OF_NAME = ("name_id", "n_mentions", "score", "bits", "p", "twin_id", "twin_score")


def exposure_bits(p: ArrayLike) -> FloatArray:
    """Return the exposure in bits of names with these rank p-values: log2 |R| - log2 rank."""
    return np.asarray(0.0 - np.log2(p), dtype=np.float64)


def bits_without_leak(n_held_out: int) -> float:
    """Return the mean exposure of a name that is exchangeable with the held-out ones, in bits.

    Its rank is uniform on 1 to R = 1 + n_held_out: log2 R - mean log2 rank. It is not 0, and tends
    to 1/ln 2 = 1.44 bits.
    """
    n_ranks = 1 + n_held_out
    return math.log2(n_ranks) - math.lgamma(n_ranks + 1) / math.log(2) / n_ranks


def exposure(
    scores: ArrayLike, *, n_mentions: Sequence[int], held_out: ArrayLike, seed: int
) -> dict[str, Any] | None:
    """Measure the exposure of K planted names by one score, higher being more member-like.

    Parameters
    ----------
    n_mentions
        [K] how often each was planted.
    held_out
        Scores of H names that were not planted; if H = K, twins in the same order.
    seed
        Of the intervals.

    Returns
    -------
    None where no held-out name is scored. "all" and "groups" (by number of mentions): `bits`, the
    mean exposure with its bootstrap interval over names; `found`, names with p <= 0.05;
    `above_twin`, pairs in which the planted name scores above its twin (ties count for the twin)
    with the exact one-sided binomial p-value. `found_from`: the smallest planted number of mentions
    from which on at least half of the names are found, the shares made to rise; infinite where none
    reaches it; its interval comes from draws of the shares (beta, Jeffreys' prior).
    """
    score, others = (np.asarray(column, dtype=np.float64) for column in (scores, held_out))
    n_held_out = int((~np.isnan(others)).sum())
    if not n_held_out:
        return None
    counts = np.asarray(n_mentions, dtype=np.int64)
    p = rank_p_values(score, controls=others)
    twin = others if len(others) == len(score) else np.full(len(score), math.nan)

    def group(rows: IntArray, count: int | None) -> dict[str, Any]:
        scored = rows[~np.isnan(p[rows])]
        pairs = scored[~np.isnan(twin[scored])]
        above = Rate(int((score[pairs] > twin[pairs]).sum()), len(pairs))
        bits = exposure_bits(p[scored])
        return {
            "n_mentions": count,
            "n_names": len(scored),
            "n_not_scored": len(rows) - len(scored),
            "bits": _mean_bits(bits, count=count or 0, seed=seed, n_held_out=n_held_out),
            "found": Rate(int((p[scored] <= ALPHA).sum()), len(scored)),
            "above_twin": above,
            "above_twin_p": _binomial_tail(above),
        }

    groups = [group(np.flatnonzero(counts == n), n) for n in np.unique(counts).tolist()]
    return dict(plain({
        "n_held_out": n_held_out,
        "max_bits": math.log2(1 + n_held_out),
        "smallest_p": 1 / (1 + n_held_out),
        "bits_without_leak": bits_without_leak(n_held_out),
        "found_from": _found_from(groups, seed=seed),
        "all": group(np.arange(len(score)), None),
        "groups": groups,
    }))  # fmt: skip


def _mean_bits(bits: FloatArray, *, count: int, seed: int, n_held_out: int) -> Estimate:
    """Mean exposure with its bootstrap interval over names; one name alone has no interval.

    Differs: where all of several names have one rank, resampling knows no error; the Wilson bounds
    of the share of held-out names above them stand in.
    """
    if len(bits) < 2:
        return Estimate(float(bits[0]), math.nan, math.nan) if len(bits) else NOTHING
    if bits.min() == bits.max():
        n_ranks = 1 + n_held_out
        above = Rate(round(n_ranks / 2 ** float(bits[0])) - 1, n_held_out).interval()
        low, high = (
            math.log2(n_ranks / (1 + n_held_out * share)) for share in (above.high, above.low)
        )
        return Estimate(float(bits[0]), low, high)
    rng = generator(seed, "exposure/bits", count)
    drawn = bits[rng.integers(len(bits), size=(_N_REPLICATES, len(bits)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(float(bits.mean()), float(low), float(high))


def _binomial_tail(rate: Rate) -> float:
    """Chance of as many hits or more at one half."""
    n = rate.n_total
    ways: int = sum(math.comb(n, k) for k in range(rate.n_hits, n + 1))
    return float(ways / 2**n) if n else math.nan


def rising(shares: FloatArray, *, weights: FloatArray) -> FloatArray:
    """Return the rising sequence nearest to shares [..., G] in weighted squares.

    Source: Ayer et al. 1955, doi:10.1214/aoms/1177728423, as a maximum of minima: the fit at g is
    the largest, over starts up to g, of the smallest, over ends from g on, mean of that stretch.
    """
    fit = np.full(shares.shape, -np.inf)
    for start in range(shares.shape[-1]):
        sums = np.cumsum((shares * weights)[..., start:], axis=-1)
        means = sums / np.cumsum(weights[start:])
        smallest = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
        fit[..., start:] = np.maximum(fit[..., start:], smallest)
    return fit


def _found_from(groups: Sequence[Mapping[str, Any]], *, seed: int) -> Estimate:
    scored = [group for group in groups if group["n_names"]]
    if not scored:
        return NOTHING
    counts = np.array([group["n_mentions"] for group in scored], dtype=np.float64)
    hits, totals = np.array(
        [(group["found"].n_hits, group["found"].n_total) for group in scored], dtype=np.float64
    ).T

    def first_half(shares: FloatArray) -> FloatArray:
        reached = rising(shares, weights=totals) >= 0.5 - 1e-12
        return np.where(reached.any(axis=-1), counts[reached.argmax(axis=-1)], np.inf)

    # Drawing names again would never move a share of 0 or 1.
    rng = generator(seed, "exposure/from")
    drawn = rng.beta(hits + 0.5, totals - hits + 0.5, size=(_N_REPLICATES, len(scored)))
    low, high = np.sort(first_half(drawn))[[int(0.025 * _N_REPLICATES), int(0.975 * _N_REPLICATES)]]
    return Estimate(float(first_half(hits / totals)), float(low), float(high))


def exposure_record(
    scores: Mapping[str, FloatArray], candidates: Candidates, *, fixed: str, seed: int
) -> dict[str, Any] | None:
    """Return what the canaries show, as plain values; None for a list without planted names.

    Parameters
    ----------
    scores
        Name of a score, M_general alone among them -> [N or more], the listed names first.

    Returns
    -------
    Counts; `exposure` by each score; for the fixed score each planted name; a sentence in English
    and Japanese. "scores" is empty where no held-out name is scored: then nothing can be ranked.
    """
    canaries = [row for row in range(len(candidates)) if candidates.is_canary(row)]
    planted = [row for row in canaries if candidates.is_member[row]]
    held_out = [row for row in canaries if not candidates.is_member[row]]
    if not planted:
        return None
    counts = [int(candidates.n_mentions[row] or 0) for row in planted]
    found = {
        name: exposure(column[planted], n_mentions=counts, held_out=column[held_out], seed=seed)
        for name, column in scores.items()
    }
    is_paired, score = len(planted) == len(held_out), scores[fixed]
    names: list[dict[str, object]] = []
    if found[fixed] is not None:
        p = rank_p_values(score[planted], controls=score[held_out])
        nobody = [None] * len(planted)
        names = [
            dict(zip(_OF_NAME, row, strict=True))
            for row in zip(
                planted, counts, score[planted].tolist(), exposure_bits(p).tolist(), p.tolist(),
                held_out if is_paired else nobody,
                score[held_out].tolist() if is_paired else nobody, strict=True,
            )
        ]  # fmt: skip
    record = {
        "n_planted": len(planted),
        "n_held_out": len(held_out),
        "is_paired": is_paired,
        "fixed_score": fixed,
        "alpha": ALPHA,
        "scores": {name: one for name, one in found.items() if one is not None},
        "names": plain(names),
    }
    languages = {"english": catalogue("en", "canaries"), "japanese": catalogue("ja", "canaries")}
    return record | {name: _sentence(record, words) for name, words in languages.items()}


def _sentence(record: Mapping[str, Any], words: Mapping[str, str]) -> str:
    measured = record["scores"].get(record["fixed_score"])
    n_held_out = measured["n_held_out"] if measured else 0
    if n_held_out < MIN_HELD_OUT:
        text = words["blind"].format(n=record["n_planted"], h=n_held_out)
    else:
        found, general = (one["all"]["found"] if one else {"n_hits": 0, "n_total": 0}
                          for one in (measured, record["scores"].get(GENERAL_ALONE)))  # fmt: skip
        n_ranks = 1 + n_held_out
        by_chance = int(record["alpha"] * n_ranks + 1e-9) / n_ranks  # ranks with p <= alpha
        text = words["found"].format(
            k=found["n_hits"], n=found["n_total"], k_general=general["n_hits"],
            n_general=general["n_total"], chance=f"{found['n_total'] * by_chance:.1f}",
        )  # fmt: skip
        count = measured["found_from"]["value"]
        text += words["nowhere"] if count is None else words["from"].format(count=f"{count:g}")
    if measured and measured["all"]["above_twin"]["n_total"]:
        twins, p = measured["all"]["above_twin"], measured["all"]["above_twin_p"]
        text += words["pairs"].format(
            k=twins["n_hits"], n=twins["n_total"], p=f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"
        )
    return text
