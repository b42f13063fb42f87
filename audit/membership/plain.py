"""Measures as plain values for JSON: stable keys, counts beside rates, no NaN and no infinity."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from audit.membership.confusion import Confusion
from audit.rates import RankingIntervals


def plain(value: object) -> object:
    """Return a measure as dicts, lists, numbers and None.

    NaN and infinity become None, also "not resolvable". A confusion carries its rates, a TPR at FPR
    the key of its FPR ("0.01") and whether the list resolves it.

    Raises
    ------
    TypeError
        If there is something in it that is no measure.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Confusion):
        return _confusion(value)
    if isinstance(value, RankingIntervals):
        return _ranking(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return _fields(value)
    raise TypeError(f"{type(value).__name__} is no measure")


def _fields(value: object) -> dict[str, object]:
    return {f.name: plain(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]


def _confusion(counts: Confusion) -> dict[str, object]:
    result = _fields(counts)
    result |= {"n_members": counts.n_members, "n_controls": counts.n_controls}
    for name in ("recall", "false_positive_rate", "precision", "accuracy"):
        rate = getattr(counts, name)
        result[name] = {**_fields(rate), **_fields(rate.interval())}
    return result


def _ranking(ranking: RankingIntervals) -> dict[str, object]:
    result = _fields(ranking)
    result["tpr_at_fpr"] = {
        f"{fpr:g}": {**_fields(tpr), "is_resolvable": not math.isnan(tpr.value)}
        for fpr, tpr in ranking.tpr_at_fpr
    }
    return result
