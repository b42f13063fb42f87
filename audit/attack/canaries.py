"""Canaries in an attack's result: taken out of the tables of patients, and measured for themselves.

Comes in: an attack's scores and the list. Goes out: the same without canaries, and the exposure of
the planted names as plain values. The i-th planted name pairs with the i-th held-out one; where
their numbers differ there are no pairs, and the held-out names only give the ranks.

Source: Carlini et al. 2019, section 4 (`audit.membership.exposure`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from audit.attack.canary_words import canary_sentence
from audit.attack.curve import RANKED, Attack
from audit.membership.by_role import RoleMeasures
from audit.membership.candidates import Candidates
from audit.membership.decisions import ALPHA, Decisions
from audit.membership.exposure import Exposure, GroupExposure, exposure
from audit.membership.metrics import GENERAL_ALONE
from audit.membership.part_scores import NameParts
from audit.membership.plain import plain
from audit.membership.scores import Floats, Ids, Score
from audit.rates import Rate


@dataclass(frozen=True, eq=False)
class AttackRows:
    """What judgement needs of an attack's result, for some of the listed names.

    `rows` [n] are places in the list; scores [n + R] and [n] as those of `Attack`.
    """

    scores: Mapping[str, Score]
    n_pieces: Ids
    parts: NameParts
    part_residual: Floats
    block_counts: Ids
    n_units: int
    n_blocks: int
    after: Callable[[int], Mapping[str, Score]]
    rows: Ids


def rows_of(attack: Attack, rows: Ids, *, n_listed: int) -> AttackRows:
    """Return an attack's result for the given listed names, all reference controls after them."""
    whole = np.concatenate([rows, np.arange(n_listed, len(attack.n_pieces))])

    def some(scores: Mapping[str, Score]) -> dict[str, Score]:
        return {name: _some(score, rows, whole, n_listed) for name, score in scores.items()}

    return AttackRows(
        scores=some(attack.scores),
        n_pieces=attack.n_pieces[whole],
        parts=replace(attack.parts, of_name=attack.parts.of_name[whole]),
        part_residual=attack.part_residual,
        block_counts=attack.block_counts,
        n_units=attack.n_units,
        n_blocks=attack.n_blocks,
        after=lambda n_blocks: some(attack.after(n_blocks)),
        rows=rows,
    )


def canary_mask(candidates: Candidates) -> np.ndarray:
    """Return which names [N] are canaries."""
    return np.array([candidates.is_canary(row) for row in range(len(candidates))], dtype=np.bool_)


def exposure_record(
    attack: Attack,
    candidates: Candidates,
    *,
    scenario: int,
    fixed: str,
    general: str,
    seed: int,
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
    columns = {name: attack.scores[name].value[:n] for name in RANKED[scenario]
               if name in attack.scores}  # fmt: skip
    columns |= {GENERAL_ALONE: attack.scores[general].value[:n]}
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


def _some(score: Score, rows: Ids, whole: Ids, n_listed: int) -> Score:
    # Scores by `chain`, and of whole names' probabilities, are of listed names only.
    kept = rows if len(score.value) == n_listed else whole
    return Score(score.value[kept], score.standard_error[kept])


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
        "all": _group(pooled) | {"n_mentions": None},
        "groups": [_group(group) for group in measured.groups],
    }


def _group(group: GroupExposure) -> dict[str, Any]:
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
