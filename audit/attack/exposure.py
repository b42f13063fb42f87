"""Canaries in an attack's result: taken out of the tables of patients, and measured for themselves.

Comes in: an attack's scores and the list. Goes out: the same without canaries, and the exposure of
the planted names as plain values. The i-th planted name pairs with the i-th held-out one; where
their numbers differ there are no pairs, and the held-out names only give the ranks.

Source: Carlini et al. 2019, section 4 (`audit.attack.exposure`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from audit.attack.decisions import ALPHA, Decisions, rank_p_values
from audit.attack.metrics import GENERAL_ALONE, RoleMeasures, plain
from audit.attack.scores import (
    FIXED_SCORE,
    GENERAL_SCORE,
    AttackResult,
    Floats,
    Ids,
    scores_of,
)
from audit.attack.verdict import WORDS
from audit.names.candidates import Candidates
from audit.rng import generator
from audit.stats import Estimate, FloatArray, IntArray, Rate


@dataclass(frozen=True)
class GroupExposure:
    """Names planted `n_mentions` times.

    Attributes
    ----------
    bits
        Mean exposure with its bootstrap interval over names. Differs: where all of several names
        have one rank, resampling knows no error; the Wilson bounds of the share of held-out names
        above them stand in. One name alone has no interval.
    found
        Names with p <= alpha.
    above_twin
        Pairs in which the planted name scores above its twin; ties count for the twin.
    above_twin_p
        Exact one-sided binomial p-value of that number, 1/2 under no leakage.
    """

    n_mentions: int
    n_not_scored: int
    bits: Estimate
    found: Rate
    above_twin: Rate
    above_twin_p: float


@dataclass(frozen=True, eq=False)
class Exposure:
    """Exposure of K planted names against H held-out ones.

    Attributes
    ----------
    bits, p
        [K] exposure in bits and exact rank p-value of each planted name; NaN where not scored. It
        holds bits = -log2 p.
    n_mentions
        [K] how often each is in the notes.
    n_held_out
        H, scored ones.
    max_bits
        The largest exposure that can be seen: log2(1 + H).
    alpha
        p up to which a name counts as found.
    groups
        By number of mentions, ascending.
    found_from
        The smallest planted number of mentions from which on at least half of the names are found,
        the shares made to rise; infinite where none reaches it. The interval comes from draws of
        the shares (beta, Jeffreys' prior).
    """

    bits: FloatArray
    p: FloatArray
    n_mentions: tuple[int, ...]
    n_held_out: int
    max_bits: float
    alpha: float
    groups: tuple[GroupExposure, ...]
    found_from: Estimate


def exposure_bits(scores: ArrayLike, *, held_out: ArrayLike) -> FloatArray:
    """Return log2 |R| - log2 rank [K] in bits; R is the held-out names and the name itself."""
    return np.asarray(0.0 - np.log2(rank_p_values(scores, controls=held_out)), dtype=np.float64)


def exposure(
    scores: ArrayLike,
    *,
    n_mentions: Sequence[int],
    twin_scores: ArrayLike,
    more_held_out: ArrayLike = (),
    seed: int,
    alpha: float = 0.05,
    n_replicates: int = 2000,
) -> Exposure:
    """Measure the exposure of planted names.

    Parameters
    ----------
    scores
        [K] of the planted names; higher is more member-like.
    n_mentions
        [K] how often each was planted.
    twin_scores
        [K] of their twins, in the same order.
    more_held_out
        Scores of further names that were not planted, drawn in the same way.
    seed
        Of the intervals.
    """
    score, twin = (np.asarray(column, dtype=np.float64) for column in (scores, twin_scores))
    counts = np.asarray(n_mentions, dtype=np.int64)
    if not score.shape == twin.shape == counts.shape or score.ndim != 1:
        raise ValueError("scores, twins and numbers of mentions: three columns are needed")
    held_out = np.concatenate([twin, np.asarray(more_held_out, dtype=np.float64)])
    held_out = held_out[~np.isnan(held_out)]
    if not len(held_out):
        raise ValueError("no held-out name is scored")
    p = rank_p_values(score, controls=held_out)
    bits = exposure_bits(score, held_out=held_out)
    draws = (seed, n_replicates, len(held_out))
    groups = tuple(
        _exposure_group(count, counts, p=p, bits=bits, alpha=alpha, pair=(score, twin), draws=draws)
        for count in sorted(set(counts.tolist()))
    )
    return Exposure(
        bits=bits,
        p=p,
        n_mentions=tuple(counts.tolist()),
        n_held_out=len(held_out),
        max_bits=math.log2(1 + len(held_out)),
        alpha=alpha,
        groups=groups,
        found_from=_found_from(groups, seed=seed, n_replicates=n_replicates),
    )


def _exposure_group(
    count: int,
    counts: IntArray,
    *,
    p: FloatArray,
    bits: FloatArray,
    alpha: float,
    pair: tuple[FloatArray, FloatArray],
    draws: tuple[int, int, int],
) -> GroupExposure:
    score, twin = pair
    rows = np.flatnonzero((counts == count) & ~np.isnan(p))
    pairs = rows[~np.isnan(twin[rows])]
    above = Rate(int((score[pairs] > twin[pairs]).sum()), len(pairs))
    return GroupExposure(
        n_mentions=count,
        n_not_scored=int((counts == count).sum()) - len(rows),
        bits=_mean(bits[rows], count=count, draws=draws),
        found=Rate(int((p[rows] <= alpha).sum()), len(rows)),
        above_twin=above,
        above_twin_p=_binomial_tail(above),
    )


def rising(shares: FloatArray, *, weights: FloatArray) -> FloatArray:
    """Return the rising sequence nearest to shares [..., G] in weighted squares.

    Source: Ayer et al. 1955, doi:10.1214/aoms/1177728423, as a maximum of minima: the fit at g is
    the largest, over starts up to g, of the smallest, over ends from g on, mean of that stretch.
    """
    total = np.cumsum(shares * weights, axis=-1)
    weight = np.cumsum(weights)
    n_groups = shares.shape[-1]
    fit = np.full(shares.shape, -np.inf)
    for start in range(n_groups):
        sums = total[..., start:] - (total[..., start - 1, None] if start else 0.0)
        means = sums / (weight[start:] - (weight[start - 1] if start else 0.0))
        smallest = np.minimum.accumulate(means[..., ::-1], axis=-1)[..., ::-1]
        fit[..., start:] = np.maximum(fit[..., start:], smallest)
    return fit


def _mean(bits: FloatArray, *, count: int, draws: tuple[int, int, int]) -> Estimate:
    seed, n_replicates, n_held_out = draws
    if len(bits) < 2:
        value = float(bits[0]) if len(bits) else math.nan
        return Estimate(value, math.nan, math.nan)
    if bits.min() == bits.max():
        n_ranks = 1 + n_held_out
        n_above = round(n_ranks / 2 ** float(bits[0])) - 1
        above = Rate(n_above, n_held_out).interval()
        low, high = (
            math.log2(n_ranks / (1 + n_held_out * share)) for share in (above.high, above.low)
        )
        return Estimate(float(bits[0]), low, high)
    rng = generator(seed, "exposure/bits", count)
    drawn = bits[rng.integers(len(bits), size=(n_replicates, len(bits)))].mean(axis=1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(float(bits.mean()), float(low), float(high))


def _binomial_tail(rate: Rate) -> float:
    if not rate.n_total:
        return math.nan
    ways: int = sum(math.comb(rate.n_total, k) for k in range(rate.n_hits, rate.n_total + 1))
    return float(ways / 2**rate.n_total)


def _found_from(groups: Sequence[GroupExposure], *, seed: int, n_replicates: int) -> Estimate:
    scored = [group for group in groups if group.found.n_total]
    if not scored:
        return Estimate(math.nan, math.nan, math.nan)
    counts = np.array([group.n_mentions for group in scored], dtype=np.float64)
    totals = np.array([group.found.n_total for group in scored], dtype=np.float64)
    hits = np.array([group.found.n_hits for group in scored], dtype=np.float64)
    # Drawing names again would never move a share of 0 or 1.
    rng = generator(seed, "exposure/from")
    drawn = rng.beta(hits + 0.5, totals - hits + 0.5, size=(n_replicates, len(scored)))
    value = _first_half(hits[None] / totals, totals, counts)[0]
    low, high = np.sort(_first_half(drawn, totals, counts))[
        [int(0.025 * n_replicates), min(n_replicates - 1, int(0.975 * n_replicates))]
    ]
    return Estimate(float(value), float(low), float(high))


def _first_half(shares: FloatArray, weights: FloatArray, counts: FloatArray) -> FloatArray:
    reached = rising(shares, weights=weights) >= 0.5 - 1e-12
    first: FloatArray = np.where(reached.any(axis=-1), counts[reached.argmax(axis=-1)], np.inf)
    return first


MIN_HELD_OUT = 19
"""With fewer held-out names the smallest rank p-value is above 0.05."""


def canary_sentence(record: Mapping[str, Any]) -> dict[str, str]:
    """Return "english" and "japanese" of what `exposure_record` measured."""
    return {
        "english": _sentence(record, WORDS["canaries"]["en"]),
        "japanese": _sentence(record, WORDS["canaries"]["ja"]),
    }


def _sentence(record: Mapping[str, Any], words: Mapping[str, str]) -> str:
    measured = record["scores"].get(record["fixed_score"])
    n_held_out = measured["n_held_out"] if measured else 0
    if measured is None or n_held_out < MIN_HELD_OUT:
        text = words["blind"].format(n=record["n_planted"], h=n_held_out)
    else:
        text = _found(record, measured, words)
    twins = measured["all"]["above_twin"] if measured else {"n_total": 0}
    if measured and twins["n_total"]:
        p = measured["all"]["above_twin_p"]
        text += words["pairs"].format(k=twins["n_hits"], n=twins["n_total"], p=_p(p))
    return text


def _found(record: Mapping[str, Any], measured: Mapping[str, Any], words: Mapping[str, str]) -> str:
    found, n_ranks = measured["all"]["found"], 1 + measured["n_held_out"]
    general = record["scores"].get("general_alone")
    by_general = general["all"]["found"] if general else {"n_hits": 0, "n_total": 0}
    by_chance = int(record["alpha"] * n_ranks + 1e-9) / n_ranks  # ranks with p <= alpha
    text = words["found"].format(
        k=found["n_hits"], n=found["n_total"], k_general=by_general["n_hits"],
        n_general=by_general["n_total"], chance=f"{found['n_total'] * by_chance:.1f}",
    )  # fmt: skip
    count = measured["found_from"]["value"]
    if count is None:
        return text + words["nowhere"]
    return text + words["from"].format(count=f"{count:g}")


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def canary_mask(candidates: Candidates) -> np.ndarray:
    """Return which names [N] are canaries."""
    return np.array([candidates.is_canary(row) for row in range(len(candidates))], dtype=np.bool_)


def exposure_record(
    attack: AttackResult, candidates: Candidates, *, scenario: int, seed: int
) -> dict[str, Any] | None:
    """Return what the canaries show, as plain values; None for a list without planted names.

    Returns
    -------
    Counts; for each score and M_general alone the exposure in bits, names found and names above
    their twins by number of mentions; for the fixed score each planted name; a sentence in English
    and Japanese. "scores" is empty where no held-out name is scored: then nothing can be ranked.
    """
    n = len(candidates)
    rows = np.flatnonzero(canary_mask(candidates))
    planted = np.array([i for i in rows if candidates.is_member[i]], dtype=np.int64)
    held_out = np.array([i for i in rows if not candidates.is_member[i]], dtype=np.int64)
    if not len(planted):
        return None
    counts = [int(candidates.n_mentions[i] or 0) for i in planted]
    fixed = FIXED_SCORE[scenario]
    columns = {
        kind.name: attack.scores[kind.name].value[:n]
        for kind in scores_of(scenario)
        if kind.is_ranked and kind.name in attack.scores
    }
    columns |= {GENERAL_ALONE: attack.scores[GENERAL_SCORE[scenario]].value[:n]}
    found = {
        name: measured
        for name, column in columns.items()
        if (measured := _exposure(column, planted, held_out, counts=counts, seed=seed)) is not None
    }
    record: dict[str, Any] = {
        "n_planted": len(planted),
        "n_held_out": len(held_out),
        "is_paired": len(planted) == len(held_out),
        "fixed_score": fixed,
        "alpha": ALPHA,
        "scores": {name: _record(*measured) for name, measured in found.items()},
        "names": [],
    }
    if fixed in found:
        record["names"] = _names(columns[fixed], planted, held_out, measured=found[fixed][0])
    return record | canary_sentence(record)


def joined_decisions(parts: Sequence[tuple[Ids, Decisions]]) -> Decisions:
    """Return decisions of disjoint sets of names, with their places in the list, as one list's."""
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    found = [one for _, one in parts]

    def column(name: str) -> Any:
        return np.concatenate([getattr(one, name) for one in found])[order]

    words = [word for one in found for word in one.decision]
    return Decisions(
        decision=tuple(words[i] for i in order.tolist()),
        point_flag=column("point_flag"),
        is_undecided=column("is_undecided"),
        threshold=column("threshold"),
        p=column("p"),
        q=column("q"),
        rule=found[0].rule,
    )


def _exposure(
    column: Floats, planted: Ids, held_out: Ids, *, counts: list[int], seed: int
) -> tuple[Exposure, GroupExposure] | None:
    """Exposure by number of mentions, and of all planted names as one group."""
    is_paired = len(planted) == len(held_out)
    if np.isnan(column[held_out]).all():
        return None
    twins = column[held_out] if is_paired else np.full(len(planted), math.nan)
    more = () if is_paired else column[held_out]

    def measure(n_mentions: list[int]) -> Exposure:
        return exposure(column[planted], n_mentions=n_mentions, twin_scores=twins,
                        more_held_out=more, seed=seed, alpha=ALPHA)  # fmt: skip

    return measure(counts), measure([0] * len(counts)).groups[0]


def bits_without_leak(n_held_out: int) -> float:
    """Return the mean exposure of a name that is exchangeable with the held-out ones, in bits.

    Its rank is uniform on 1 to R = 1 + n_held_out: log2 R - mean log2 rank. It is not 0, and tends
    to 1/ln 2 = 1.44 bits.
    """
    n_ranks = 1 + n_held_out
    return math.log2(n_ranks) - math.lgamma(n_ranks + 1) / math.log(2) / n_ranks


def _record(measured: Exposure, pooled: GroupExposure) -> dict[str, Any]:
    return {
        "n_held_out": measured.n_held_out,
        "max_bits": measured.max_bits,
        "smallest_p": 1 / (1 + measured.n_held_out),
        "bits_without_leak": bits_without_leak(measured.n_held_out),
        "found_from": plain(measured.found_from),
        "all": _canaries_group(pooled) | {"n_mentions": None},
        "groups": [_canaries_group(group) for group in measured.groups],
    }


def _canaries_group(group: GroupExposure) -> dict[str, Any]:
    return {
        "n_mentions": group.n_mentions,
        "n_names": group.found.n_total,
        "n_not_scored": group.n_not_scored,
        "bits": plain(group.bits),
        "found": _rate(group.found),
        "above_twin": _rate(group.above_twin),
        "above_twin_p": plain(group.above_twin_p),
    }


def role_record(measured: RoleMeasures) -> dict[str, Any]:
    """Return one role's measures as plain values, every rate with its counts and interval."""
    record = {f.name: getattr(measured, f.name) for f in fields(measured)}
    return {
        name: _rate(value) if isinstance(value, Rate) else plain(value)
        for name, value in record.items()
    }


def _rate(rate: Rate) -> dict[str, Any]:
    interval = rate.interval()
    return {
        "n_hits": rate.n_hits, "n_total": rate.n_total, "value": plain(interval.value),
        "low": plain(interval.low), "high": plain(interval.high),
    }  # fmt: skip


def _names(
    column: Floats, planted: Ids, held_out: Ids, *, measured: Exposure
) -> list[dict[str, Any]]:
    """Return each planted name's exposure and its twin, in the order of the list."""
    is_paired = len(planted) == len(held_out)
    return [
        {
            "name_id": int(row),
            "n_mentions": measured.n_mentions[place],
            "score": plain(float(column[row])),
            "bits": plain(float(measured.bits[place])),
            "p": plain(float(measured.p[place])),
            "twin_id": int(held_out[place]) if is_paired else None,
            "twin_score": plain(float(column[held_out[place]])) if is_paired else None,
        }
        for place, row in enumerate(planted)
    ]
