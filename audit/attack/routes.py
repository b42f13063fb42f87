"""The two routes to a leak, the group and single names, and the one error rate that they share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from audit.attack.decisions import ALPHA

CLEAR_SD = 3.0
"""The group decides alone if the fewest names that could stand out raise its statistic by at least
this many standard deviations. With half of it the group decides alone with 130 names and 1,000
controls too; with twice the value it does so for no such list, and of 24 lists with thirteen of 130
people in the notes 2 are called a leak, now 6."""


def smallest_visible(n_tested: int, *, n_controls: int) -> int | None:
    """Return how many of the tested names must stand out together to be seen; None: not even all.

    Names above every control have p = 1 / (n + 1), and Benjamini-Hochberg flags k of m of them if
    p <= 0.05 k / m.
    """
    k = math.ceil(Fraction(n_tested, n_controls + 1) / Fraction(str(ALPHA)))
    return k if 0 < k <= n_tested else None


def controls_needed(n_tested: int, *, n_visible: int) -> int:
    """Return how many controls it takes to see `n_visible` or more tested names together."""
    return math.ceil(Fraction(n_tested) / (Fraction(str(ALPHA)) * n_visible)) - 1


def simes(p_values: Sequence[float]) -> float:
    """Return one p-value of several (Simes 1986, doi:10.1093/biomet/73.3.751); NaN are left out."""
    sorted_p = sorted(p for p in p_values if not math.isnan(p))
    return min((len(sorted_p) * p / k for k, p in enumerate(sorted_p, start=1)), default=math.nan)


def joint_p(p_group: float, p_names: float, *, n_tested: int, n_controls: int) -> float:
    """Return one p-value of both routes: Simes, or the group's where single names add nothing.

    Single names add nothing if so many must stand out together that the group would show them as
    well. That depends only on the two numbers of names, so the error rate is kept. NaN if neither
    route has a p-value.
    """
    if math.isnan(p_group) or _can_names_add(n_tested, n_controls=n_controls):
        return simes((p_group, p_names))
    return p_group


def _can_names_add(n_tested: int, *, n_controls: int) -> bool:
    """Whether the fewest names that can stand out would stay unseen by the group's test.

    The k highest of N exponential scores exceed their mean by k ln(N / k) in all; the sum over m
    names, labels permuted, has the variance m (N - m) / N.
    """
    k, n = smallest_visible(n_tested, n_controls=n_controls), n_tested + n_controls
    if k is None:
        return False
    return k * math.log(n / k) < CLEAR_SD * math.sqrt(n_tested * n_controls / n)
