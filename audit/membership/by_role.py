"""By role: how well members of each role (patient, staff, ...) are told from the same controls.

Comes in: a list with roles, scores and flags. Goes out: counts and rankings, role by role. Every
role is ranked against all listed controls, so that the roles can be compared; canaries are no role.

Source: Nakamura et al., limits: most names in the notes are of staff and not of patients.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.membership.candidates import Candidates
from audit.rates import BoolArray, Estimate, FloatArray, Rate, auc_interval

MAX_ROLES = 12
"""Roles that are measured: those with most members."""


@dataclass(frozen=True, eq=False)
class Attacked:
    """What one model says of N names: a score [N], higher = more member-like, and who is flagged.

    `is_flagged` [N] is the decision at the audit's threshold (q <= 0.05).
    """

    score: FloatArray
    is_flagged: BoolArray


@dataclass(frozen=True)
class RoleMeasures:
    """One role's members against all C listed controls.

    Attributes
    ----------
    role
        As given; "" for names without a role.
    n_members, n_controls, n_not_scored
        Members of the role, all controls, and those of both without a score.
    n_role_controls, role_controls_flagged
        Controls that carry the role themselves, and how many of them are flagged.
    median_mentions
        Of the members; NaN where not known. A role that is mentioned more often is easier to find.
    auc, general_auc
        Of the fixed score and of M_general alone; NaN without controls.
    flagged, general_flagged
        Members flagged at the audit's threshold: the true-positive rate.
    above
        Members above the free threshold, if one was asked for.
    """

    role: str
    n_members: int
    n_controls: int
    n_not_scored: int
    n_role_controls: int
    median_mentions: float
    auc: Estimate
    general_auc: Estimate
    flagged: Rate
    general_flagged: Rate
    role_controls_flagged: Rate
    above: Rate | None


def measures_by_role(
    candidates: Candidates,
    *,
    attack: Attacked,
    general: Attacked,
    parts: NDArray[np.int64] | None = None,
    threshold: float | None = None,
) -> tuple[RoleMeasures, ...]:
    """Measure every role; most members first, then by name; () where no member has a role.

    Parameters
    ----------
    candidates
        N names without canaries.
    attack, general
        The score fixed beforehand, and M_general alone.
    parts
        [N, 2] columns of the names' parts, as in `ScoredNames`.
    threshold
        A free threshold on the fixed score, or None.

    Raises
    ------
    ValueError
        If the columns differ in length.
    """
    roles = np.array(candidates.role, dtype=np.str_)
    truth = np.array([m is True for m in candidates.is_member], dtype=np.bool_)
    is_control = np.array([m is False for m in candidates.is_member], dtype=np.bool_)
    for column in (attack.score, attack.is_flagged, general.score, general.is_flagged):
        if column.shape != truth.shape:
            raise ValueError(f"a column of shape {column.shape} for {len(truth)} names")
    counts = Counter(roles[truth].tolist())
    if not any(counts):
        return ()
    order = sorted(counts, key=lambda role: (-counts[role], role))
    return tuple(
        _measure(
            role,
            mentions=candidates.n_mentions,
            who=(truth & (roles == role), is_control, is_control & (roles == role)),
            models=(attack, general),
            threshold=threshold,
            parts=parts,
        )
        for role in order[:MAX_ROLES]
    )


def _measure(
    role: str,
    *,
    mentions: tuple[int | None, ...],
    who: tuple[BoolArray, BoolArray, BoolArray],
    models: tuple[Attacked, Attacked],
    threshold: float | None,
    parts: NDArray[np.int64] | None,
) -> RoleMeasures:
    """Measure one role; `who` are its members, all controls and its own controls [N] each."""
    members, controls, own = who
    attack, general = models
    rows = members | controls
    clusters = () if parts is None else tuple(parts[rows].T)
    aucs = [auc_interval(one.score[rows], members[rows], clusters=clusters) for one in models]
    known = [k for k, is_own in zip(mentions, members, strict=True) if is_own and k is not None]
    return RoleMeasures(
        role=role,
        n_members=int(members.sum()),
        n_controls=int(controls.sum()),
        n_not_scored=int(np.isnan(attack.score[rows]).sum()),
        n_role_controls=int(own.sum()),
        median_mentions=float(np.median(known)) if known else math.nan,
        auc=aucs[0],
        general_auc=aucs[1],
        flagged=_share(attack.is_flagged, members, score=attack.score),
        general_flagged=_share(general.is_flagged, members, score=general.score),
        role_controls_flagged=_share(attack.is_flagged, own, score=attack.score),
        above=None
        if threshold is None
        else _share(attack.score > threshold, members, score=attack.score),
    )


def _share(flag: BoolArray, rows: BoolArray, *, score: FloatArray) -> Rate:
    scored = rows & ~np.isnan(score)
    return Rate(int((flag & scored).sum()), int(scored.sum()))
