"""Bootstrap over patients: intervals of any measure that is made from counts.

Notes of one patient share a writer, a name and its variants, so patients are drawn, not notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from audit.randomness import generator
from audit.rates import Estimate, FloatArray, IntArray, percentile_interval

N_REPLICATES = 1000
_CELLS_PER_CHUNK = 4_000_000  # draws held at once: bounds memory to some 100 MB

Measure = Callable[[FloatArray], FloatArray]


def drawn_weights(n_patients: int, *, seed: int, n_replicates: int) -> Iterator[FloatArray]:
    """Yield how often each patient is drawn, [chunk of replicates, patients], with replacement."""
    n_rows = max(1, _CELLS_PER_CHUNK // max(n_patients, 1))
    for start in range(0, n_replicates, n_rows):
        rng = generator(seed, "deid-patients", start)
        rows = min(n_rows, n_replicates - start)
        drawn = rng.integers(n_patients, size=(rows, n_patients))
        cells = (drawn + np.arange(rows)[:, None] * n_patients).ravel()
        yield np.bincount(cells, minlength=rows * n_patients).reshape(rows, -1).astype(np.float64)


def replicates(
    table: IntArray, measure: Measure, *, seed: int, n_replicates: int = N_REPLICATES
) -> FloatArray:
    """Return the measure on resampled patients: `measure` of counts [R, ...] gives [R, V].

    Parameters
    ----------
    table
        Counts by patient [P, ...].
    measure
        From counts of R sets of patients [R, ...] to V values each [R, V]; NaN where undefined.

    The order of the patients matters to the last digits; give them sorted.
    Source: Efron & Tibshirani 1993, chapter 13.
    """
    n_patients = len(table)
    flat = table.reshape(n_patients, -1).astype(np.float64)
    parts = [
        measure((weights @ flat).reshape(-1, *table.shape[1:]))
        for weights in drawn_weights(n_patients, seed=seed, n_replicates=n_replicates)
    ]
    return np.concatenate(parts)


def interval(value: float, drawn: FloatArray, *, n_total: int) -> Estimate:
    """Return a value with the 95 % percentile interval of its replicates [R].

    Replicates in which it is undefined are left out; if it is in all of them, the value stands
    without an interval. Where all replicates agree, the Wilson interval of that share among
    `n_total` trials stands in (see `percentile_interval`).
    """
    defined = drawn[~np.isnan(drawn)]
    if np.isnan(value) or not len(defined):
        return Estimate(value, float("nan"), float("nan"))
    return percentile_interval(value, replicates=defined, n_names=n_total)


def ratio(hits: FloatArray, totals: FloatArray) -> FloatArray:
    """Return hits / totals; NaN where there is no trial."""
    out = np.full(np.broadcast(hits, totals).shape, np.nan)
    np.divide(hits, totals, out=out, where=totals > 0)
    return out
