"""Controls of the same popularity: for each member the name that is about as common.

Comes in: a pool with shares, members, a seed. Goes out: `Candidates`, and whose match each is. With
them an attack cannot tell members from controls by how common their names are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from audit.membership.candidates import (
    Candidates,
    control_kind_against,
    make_candidates,
    member_parts,
)
from audit.membership.controls import Accepts, Name
from audit.membership.corpus_names import pair_of
from audit.membership.name_pools import NamePool, with_popularity
from audit.randomness import generator

_NEAREST = 64  # names of about a member's popularity that are tried one after the other


def matched_controls(
    pool: NamePool, members: Candidates, *, seed: int, accepts: Accepts | None = None
) -> tuple[Candidates, tuple[int, ...]]:
    """Draw for each member the control of the nearest popularity that is left.

    The popularity of a name is the product of its parts' shares; ties fall at random. Each name is
    drawn once. Members that the pool does not know have no match.

    Returns
    -------
    controls, rows
        Controls with their kind against the members' parts (section 3.4), and each one's member.
    """
    members = with_popularity(members, pool=pool)
    parts = member_parts(members)
    share = np.outer(pool.first_share, pool.last_share).ravel()  # [F * L]
    shuffled = generator(seed, "controls/matched").permutation(share.size)
    order = shuffled[np.argsort(share[shuffled], kind="stable")]
    ordered = share[order]
    own = {pair_of(*name) for name in zip(members.first, members.last, strict=True)}
    names: list[Name] = []
    rows: list[int] = []
    for row, popularity in enumerate(members.popularity):
        if np.isnan(popularity):
            continue
        for index in _nearest(ordered, float(popularity)):
            cell = int(order[index])
            name = pool.first[cell // len(pool.last)], pool.last[cell % len(pool.last)]
            if pair_of(*name) not in own and (accepts is None or accepts(*name)):
                own.add(pair_of(*name))
                names.append(name)
                rows.append(row)
                break
    kinds = [control_kind_against(parts, first=first, last=last) for first, last in names]
    controls = replace(
        make_candidates(names, is_member=False, control_kind="easy"), control_kind=tuple(kinds)
    )
    return with_popularity(controls, pool=pool), tuple(rows)


def _nearest(ordered: np.ndarray, value: float) -> list[int]:
    # By ratio: half as common is as far as twice as common.
    at = int(np.searchsorted(ordered, value))
    reach = range(max(0, at - _NEAREST), min(len(ordered), at + _NEAREST))
    return sorted(reach, key=lambda index: abs(float(np.log(ordered[index] / value))))
