"""Members as a group: whether they stand out, and what their list could have shown at all."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from audit.attack.scores import NameParts, both_parts, part_limits, soft_minimum
from audit.names.candidates import Candidates
from audit.stats import MIN_NAMES, Z_95, BoolArray, FloatArray, IntArray
from audit.text import fold_name

POWER = 0.8
"""Share of cases in which the smallest detectable effect is found."""
_Z_POWER = NormalDist().inv_cdf(POWER)
_MIN_STRATUM = 20
"""Reference parts from which a stratum of word pieces or popularity is one of its own."""
_CELLS_PER_CHUNK = 1_000_000  # ranks held at once while permuting


def _chunks(n_rows: int, *, width: int) -> list[int]:
    """Rows to hold at once."""
    n_here = max(1, _CELLS_PER_CHUNK // width)
    return [min(n_here, n_rows - start) for start in range(0, n_rows, n_here)]


def relabelling_test(
    columns: IntArray,
    is_member: BoolArray,
    *,
    by_part: FloatArray,
    parts: NameParts,
    seed: int,
    n_relabelled: int = 1999,
) -> dict[str, float]:
    """Test whether members rank above controls by more than their names alone explain.

    Names that share a part rise and fall together. Here each distinct part is given the
    evidence of a random part of the reference controls, of the same role, word pieces and
    popularity; which names share parts stays as it is, and the AUC is taken anew: p = (1 + #) /
    (1 + n_relabelled), one-sided.

    `columns` [N, 2] are the listed names' parts (-1: none), `is_member` [N], `by_part` [U] the
    evidence of parts. Beside "p" and the list's own "auc" stands "smallest_auc", which this
    list would show to be above chance in four cases out of five; NaN without scored members or
    controls.
    """
    padded = np.append(by_part, math.nan)
    scored = ~np.isnan(padded[columns]).all(axis=1)
    columns, member = columns[scored], is_member[scored]
    nothing = dict.fromkeys(("p", "auc", "smallest_auc"), math.nan)
    if not member.any() or member.all():
        return nothing
    rng = np.random.default_rng(seed)
    listed = np.unique(columns[columns >= 0])
    drawn = _relabelled(listed, by_part, parts=parts, rng=rng, n_relabelled=n_relabelled)
    place = np.full(len(padded), len(listed))
    place[listed] = np.arange(len(listed))
    limits = part_limits(by_part, parts=parts)

    def aucs(evidence: FloatArray, first: IntArray, last: IntArray) -> FloatArray:
        return _row_aucs(both_parts(evidence[:, first], evidence[:, last], limits=limits), member)

    drawn = np.pad(drawn, ((0, 0), (0, 1)), constant_values=math.nan)
    chunks = np.split(drawn, np.cumsum(_chunks(len(drawn), width=len(columns)))[:-1])
    null = np.concatenate([aucs(some, *place[columns].T) for some in chunks])
    if np.isnan(null).any():  # no reference control has a part of this role
        return nothing
    observed = float(aucs(padded[None], *columns.T)[0])
    critical, spread = float(np.quantile(null, 0.975)), float(null.std())
    return {
        "p": (1 + int((null >= observed - 1e-12).sum())) / (1 + n_relabelled),
        "auc": observed,
        "smallest_auc": critical + _Z_POWER * spread,
    }


def _relabelled(
    listed: IntArray,
    by_part: FloatArray,
    *,
    parts: NameParts,
    rng: np.random.Generator,
    n_relabelled: int,
) -> FloatArray:
    """Evidence of random reference parts in the place of the listed ones [n_relabelled, L]."""
    drawn = np.full((n_relabelled, len(listed)), math.nan)
    is_reference = (parts.n_reference > 0) & ~np.isnan(by_part)
    kinds = np.stack([parts.is_last[listed], parts.n_pieces[listed]], axis=1)
    for role, n_pieces in np.unique(kinds, axis=0):
        here = np.flatnonzero((kinds == (role, n_pieces)).all(axis=1))
        of_role = is_reference & (parts.is_last == role)
        pool = np.flatnonzero(of_role & (parts.n_pieces == n_pieces))
        pool = pool if len(pool) >= _MIN_STRATUM else np.flatnonzero(of_role)
        if not len(pool):
            continue
        n_bins = min(5, max(1, len(pool) // _MIN_STRATUM))
        edges = np.quantile(parts.log_share[pool], np.linspace(0, 1, n_bins + 1)[1:-1])
        bins = np.searchsorted(edges, parts.log_share)
        for number in np.unique(bins[listed[here]]):
            columns = here[bins[listed[here]] == number]
            stratum = pool[bins[pool] == number]
            stratum = stratum if len(stratum) else pool
            chosen = rng.integers(len(stratum), size=(n_relabelled, len(columns)))
            drawn[:, columns] = by_part[stratum[chosen]]
    return drawn


def smallest_detectable_auc(candidates: Candidates, *, n_drawn: int = 499) -> float:
    """Return the AUC that a list could show in four cases out of five, before any model is asked.

    Every distinct part is given a random normal evidence, so that only which names share parts
    counts; 0.5 + (z_0.975 + z_0.8) standard deviations of the AUC. NaN with fewer than `MIN_NAMES`
    members or controls.
    """
    names = candidates.without_canaries()
    names = names.rows([row for row, truth in enumerate(names.is_member) if truth is not None])
    member = np.array(names.is_member, dtype=np.bool_)
    if min(member.sum(), (~member).sum()) < MIN_NAMES:
        return math.nan
    columns = [np.unique(list(map(fold_name, part)), return_inverse=True)
               for part in (names.first, names.last)]  # fmt: skip
    rng = np.random.default_rng(0)
    aucs = []
    # The spread of long lists is small: a tenth more or less of it says the same.
    n_drawn = min(n_drawn, max(99, 5 * _CELLS_PER_CHUNK // len(names)))
    for n_rows in _chunks(n_drawn, width=len(names)):
        parts = [
            np.where(part == "", math.nan, rng.normal(size=(n_rows, len(part))))[:, place]
            for part, place in columns
        ]
        aucs.append(_row_aucs(soft_minimum(*parts), member))
    return 0.5 + (Z_95 + _Z_POWER) * float(np.concatenate(aucs).std())


def _row_aucs(scores: FloatArray, member: BoolArray) -> FloatArray:
    """Mann-Whitney of each row [R, N]; ties count one half; NaN where a score is."""
    found = np.full(len(scores), math.nan)
    for row in np.flatnonzero(~np.isnan(scores).any(axis=1)):
        # Two sorted halves are looked up in each other: a fifth of the time that ranks take.
        members, others = np.sort(scores[row, member]), np.sort(scores[row, ~member])
        beaten = (np.searchsorted(others, members, side=side) for side in ("left", "right"))
        found[row] = sum(int(n.sum()) for n in beaten) / (2 * len(members) * len(others))
    return found
