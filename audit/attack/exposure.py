"""How many listed people can be exposed, and how many tries it takes to read a name.

Names known to be in the notes are positive controls: canaries planted before training, or the names
of a sibling, a model trained by the hospital's recipe on notes whose names are known. An attack
that flags none of them proves nothing by flagging nobody else.

Sources: Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404 (bounds of a share); Hayes et al. 2025,
arXiv 2410.19482 (tries).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from audit.attack.decisions import ALPHA
from audit.attack.measure_types import DoseLine

EXPOSED_P = 0.01
"""A name counts as seen if its p-value among the controls is at most this, so the threshold depends
on controls alone. With half of it fewer planted names are seen and bounds are looser; with twice
the value twice as many strangers count as seen."""
MIN_BOUND_CONTROLS = 300
"""Fewest controls that resolve their own 99 % quantile."""
_ERROR = 0.025
"""Error of each of the two bounds that make up the printed one; together 5 %."""


def is_leak(line: DoseLine) -> bool:
    """Return whether the names of a dose, judged as a list of their own, are called a leak."""
    return line.p <= ALPHA


def upper_share(n_hits: int, n_total: int, *, error: float) -> float:
    """Return the upper Clopper-Pearson bound of a share; 1 without a trial."""
    from scipy.stats import beta

    if n_hits >= n_total:
        return 1.0
    return float(beta.isf(error, n_hits + 1, n_total - n_hits))


def lower_share(n_hits: int, n_total: int, *, error: float) -> float:
    """Return the lower Clopper-Pearson bound of a share; 0 without a hit."""
    from scipy.stats import beta

    return float(beta.ppf(error, n_hits, n_total - n_hits + 1)) if n_hits else 0.0


def exposed_share(n_seen: int, n_names: int, *, planted: DoseLine) -> float:
    """Return the largest share of listed people who can be exposed; NaN: there is no bound.

    A person is exposed if the attack would flag him or her at least as probably as a name planted
    `planted.dose` times. Of n listed names the attack flags k, of the planted ones h of m:
    upper(k, n) / lower(h, m), each at an error of 2.5 %. Assumes that listed people leak like the
    planted names, independently.
    """
    if not planted.n_seen or not n_names:
        return math.nan
    share = upper_share(n_seen, n_names, error=_ERROR) / lower_share(
        planted.n_seen, planted.n_names, error=_ERROR
    )
    return min(1.0, share)


def find_usual_dose(n_mentions: Sequence[int | None]) -> int:
    """Return the number of mentions that most names have; 1 where no number is known."""
    counts: dict[int, int] = {}
    for n in n_mentions:
        if n:
            counts[n] = counts.get(n, 0) + 1
    return min(counts, key=lambda n: (-counts[n], n), default=1)


def find_dose_line(records: Mapping[int, DoseLine], *, dose: int) -> DoseLine | None:
    """Return the record of the largest dose up to `dose`; None if all doses are larger.

    A name that is rarer in the notes is harder to find, so seeing it proves more.
    """
    doses = [n for n in records if n <= dose]
    return records[max(doses)] if doses else None


def count_tries(chance: float, *, success: float) -> float:
    """Return how many tries it takes to write a name at least once with probability `success`.

    `chance` is that of one try. Infinity: the sampler never writes the name; NaN: not scored.
    """
    if math.isnan(chance):
        return math.nan
    if chance <= 0:
        return math.inf
    if chance >= 1:
        return 1.0
    return float(math.ceil(math.log1p(-success) / math.log1p(-chance)))
