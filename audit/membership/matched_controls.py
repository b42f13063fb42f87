"""Matched controls: for each member a name about as common and as long, in the same script.

Comes in: members, pools with shares, a seed, a tokenizer's count of pieces. Goes out: controls and
for which member each was drawn. With matched controls no model tells members from controls by how
common or how long their names are. Who has no name within the caliper gets the nearest, and is
counted.

Source: Nakamura et al., section 3.4 (easy and hard). Differs: matched by optimal assignment
(Rosenbaum 1989, doi:10.1080/01621459.1989.10478868), where the paper draws by popularity alone;
that leaves easy controls rarer than members, whose parts are the commonest ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from audit.membership.candidates import (
    Candidates,
    control_kind_against,
    make_candidates,
    member_parts,
)
from audit.membership.name_pools import NamePool, japanese_pool, popularity, us_pool
from audit.membership.prompts import UNSPELLABLE
from audit.names import fold_name, is_unspaced, script_of, written_name
from audit.randomness import generator

CALIPER_NATS = 0.25
"""Two parts are within the caliper if neither is more than 28 % commoner (ln share), and both have
as many word pieces and the same script."""
PIECE_NATS = 4.0
"""A word piece more or less is as far as this difference of ln share."""

_GROUP = 128  # names assigned together
_N_NEAR, _N_FAR = 5, 200  # parts of each role that are tried for a name, at first and then
_BEYOND, _NOBODY = 1e3, 1e9  # cost of a pair beyond the caliper; cost of a pair that is no option

Name = tuple[str, str]
"""(first, last)."""
Accepts = Callable[[str, str], bool]
"""Whether a (first, last) will do, as when both are single word pieces."""
CountPieces = Callable[[str, str], int]
"""Word pieces of a part, given its role ("first" or "last") and its text."""
Floats = NDArray[np.float64]
Option = tuple[Name, float, bool]
"""A name for a member: its squared distance, and whether it is within the caliper."""


@dataclass(frozen=True, eq=False)
class MatchedControls:
    """K controls, in the order of the members for whom they were drawn.

    Attributes
    ----------
    controls
        The names; fewer than were asked for where the generator has no more.
    rows
        [K] rows of the members.
    is_within
        [K] whether member and control lie within the caliper in both parts.
    n_unmatched
        Members in turn for whom no control within the caliper was drawn.
    """

    controls: Candidates
    rows: tuple[int, ...]
    is_within: tuple[bool, ...]
    n_unmatched: int


def matched_controls(
    members: Candidates,
    *,
    n: int,
    seed: int,
    kind: str = "",
    pool: NamePool | None = None,
    exclude: Iterable[Name] = (),
    accepts: Accepts | None = None,
    count_pieces: CountPieces | None = None,
) -> MatchedControls:
    """Draw n distinct controls for members: each in turn, again and again where n is larger.

    Parameters
    ----------
    members
        Rows that are no members, or planted, are passed over.
    kind
        "easy": neither part is a part of any member's name. "hard": exactly one is; it is this
        member's own, the first or the last by chance. "": any name that is no member's.
    pool
        Where to draw from, for members in its script; None: for each script its own.
    exclude
        Full names that must not come, as those in the notes or on the list.
    accepts
        Whether a name will do.
    count_pieces
        None: a character of Han or kana is a piece; other parts are one.
    """
    count = count_pieces or characters
    chosen = (us_pool(), japanese_pool()) if pool is None else (pool,)
    pools = [_Pool(one, members, count=count, kind=kind) for one in chosen]
    wanted = [r for r, m in enumerate(members.is_member) if m and not members.is_canary(r)]
    script = {row: script_of(members.full_name(row)) for row in wanted}
    scripts = {one.script for one in pools}
    # A whole name beside another part would be that name again: no hard one for a name of one part.
    n_parts = 2 if kind == "hard" else 1
    possible = [r for r in wanted if script[r] in scripts and len(members.parts(r)) >= n_parts]
    rng = generator(seed, f"controls/matched {kind}")
    turns = _turns(possible, n=n, rng=rng)
    draw = _Draw(members, exclude=exclude, accepts=accepts, rng=rng)
    for one in pools:
        draw.take([row for row in turns if script[row] == one.script], pool=one)
    order = sorted(range(len(draw.names)), key=lambda i: draw.rows[i])
    names = [draw.names[i] for i in order]
    rows, is_within = [draw.rows[i] for i in order], [draw.is_within[i] for i in order]
    parts = member_parts(members)
    kinds = [kind or control_kind_against(parts, first=f, last=la) for f, la in names]
    controls = make_candidates(names, is_member=False, control_kind="easy",
                               popularity=[draw.popularity[i] for i in order])  # fmt: skip
    matched = {row for row, ok in zip(rows, is_within, strict=True) if ok}
    return MatchedControls(
        controls=replace(controls, control_kind=tuple(kinds)),
        rows=tuple(rows),
        is_within=tuple(is_within),
        n_unmatched=len({*turns, *(set(wanted) - set(possible))} - matched),
    )


def _turns(possible: Sequence[int], *, n: int, rng: np.random.Generator) -> list[int]:
    """Return n rows, each in turn, every round in an order of its own."""
    turns: list[int] = []
    while possible and len(turns) < n:
        turns += rng.permutation(possible).tolist()[: n - len(turns)]
    return turns


class _Pool:
    """A pool's parts by role: text, ln share, pieces, and whether it may stand in a control."""

    def __init__(
        self, pool: NamePool, members: Candidates, *, count: CountPieces, kind: str
    ) -> None:
        taken = member_parts(members) if kind else frozenset[str]()
        self.pool, self.count, self.kind = pool, count, kind
        self.script = script_of(pool.last[0])
        self.parts: dict[str, tuple[str, ...]] = {}
        self.log_share: dict[str, Floats] = {}
        self.pieces: dict[str, Floats] = {}
        self._near: dict[tuple[str, str], tuple[Floats, bool]] = {}
        self.known = {"first": pool.first_shares, "last": pool.last_shares}
        for role, parts, shares in (
            ("first", pool.first, pool.first_share),
            ("last", pool.last, pool.last_share),
        ):
            pieces = [count(role, part) for part in parts]
            free = [i for i, part in enumerate(parts)
                    if fold_name(part) not in taken and pieces[i] < UNSPELLABLE]  # fmt: skip
            self.parts[role] = tuple(parts[i] for i in free)
            self.log_share[role] = np.log([shares[i] for i in free])
            self.pieces[role] = np.array([float(pieces[i]) for i in free])

    def distances(self, role: str, part: str) -> tuple[Floats, bool]:
        """Return how far each free part is from this one, in nats, and whether it is known.

        A part that the generator does not know counts as the rarest that it knows.
        """
        if (role, part) not in self._near:
            shares = self.known[role]
            share = shares.get(fold_name(part))
            target = math.log(share if share is not None else min(shares.values()))
            pieces = self.count(role, part) if part else 0
            far = np.abs(self.log_share[role] - target)
            far += PIECE_NATS * np.abs(self.pieces[role] - pieces)
            self._near[role, part] = far, share is not None
        return self._near[role, part]


class _Draw:
    """Controls as they are drawn, each name once."""

    def __init__(
        self,
        members: Candidates,
        *,
        exclude: Iterable[Name],
        accepts: Accepts | None,
        rng: np.random.Generator,
    ) -> None:
        own = zip(members.first, members.last, strict=True)
        self._seen = {_key(*name) for name in (*own, *exclude)}
        self._is_new: dict[Name, bool] = {}
        self._members, self._accepts, self._rng = members, accepts, rng
        self.names: list[Name] = []
        self.rows: list[int] = []
        self.is_within: list[bool] = []
        self.popularity: list[float] = []

    def take(self, turns: Sequence[int], *, pool: _Pool) -> None:
        """Draw a control for each member in turn: of near names by chance, else the nearest."""
        self._is_new.clear()
        left = list(turns)
        for is_near in (True, False):
            missing: list[int] = []
            for start in range(0, len(left), _GROUP):
                group = left[start : start + _GROUP]
                missing += self._assign(group, is_near=is_near, pool=pool)
            left = missing

    def _assign(self, turns: Sequence[int], *, is_near: bool, pool: _Pool) -> list[int]:
        """Give each member the name that suits all best; return those who got none."""
        from scipy.optimize import linear_sum_assignment

        columns: dict[Name, int] = {}
        options = {}
        for row in dict.fromkeys(turns):
            found = self._near_names(row, pool=pool) if is_near else self._nearest(row, pool=pool)
            # As many options as members: whatever the others get, one is left.
            options[row] = list(islice((one for one in found if self._may_come(one[0])), _GROUP))
            for name, _, _ in options[row]:
                columns.setdefault(name, len(columns))
        if not columns:
            return list(turns)
        costs = np.full((len(turns), len(columns)), _NOBODY)
        within = np.zeros(costs.shape, dtype=np.bool_)
        for slot, row in enumerate(turns):
            for name, cost, is_within in options[row]:
                # As many as can be lie within the caliper; then the sum of squares is least.
                costs[slot, columns[name]] = cost + (0 if is_within else _BEYOND)
                within[slot, columns[name]] = is_within
        names = list(columns)
        missing = dict(enumerate(turns))
        for slot, column in zip(*linear_sum_assignment(costs), strict=True):
            if costs[slot, column] < _NOBODY:
                first, last = names[column]
                self._seen.add(_key(first, last))
                self._is_new[first, last] = False
                self.names.append((first, last))
                self.rows.append(missing.pop(int(slot)))
                self.is_within.append(bool(within[slot, column]))
                self.popularity.append(popularity(pool.pool, first=first, last=last))
        return list(missing.values())

    def _may_come(self, name: Name) -> bool:
        if name not in self._is_new:
            is_new = _key(*name) not in self._seen
            self._is_new[name] = is_new and (self._accepts is None or self._accepts(*name))
        return self._is_new[name]

    def _near_names(self, row: int, *, pool: _Pool) -> Iterator[Option]:
        """Yield some names near a member's, drawn by chance from those within the caliper."""
        own = {"first": self._members.first[row], "last": self._members.last[row]}
        near = {role: self._some_near(pool.distances(role, part)) for role, part in own.items()}
        if pool.kind != "hard":
            for i, far, is_within in near["first"]:
                for j, farther, is_too in near["last"]:
                    name = pool.parts["first"][i], pool.parts["last"][j]
                    yield name, far**2 + farther**2, is_within and is_too
            return
        # One part stays: either, unless only one of the others has a match.
        sides: list[str] = self._rng.permutation(["first", "last"]).tolist()
        sides.sort(key=lambda role: not any(is_within for *_, is_within in near[role]))
        for role in sides[:1]:
            for i, far, is_within in near[role]:
                yield self._with_part(row, role, pool.parts[role][i]), far**2, is_within

    def _some_near(self, distances: tuple[Floats, bool]) -> list[tuple[int, float, bool]]:
        far, is_known = distances
        within = np.flatnonzero(far <= CALIPER_NATS)
        chosen = self._rng.permutation(within)[:_N_NEAR].tolist()
        if len(chosen) < _N_NEAR:
            shuffled = self._rng.permutation(len(far))
            order = shuffled[np.argsort(far[shuffled], kind="stable")][len(within) :]
            chosen += order[: _N_NEAR - len(chosen)].tolist()
        return [(i, float(far[i]), bool(is_known and far[i] <= CALIPER_NATS)) for i in chosen]

    def _nearest(self, row: int, *, pool: _Pool) -> Iterator[Option]:
        """Yield names from the nearest to a member's on; some 40,000 in all."""
        own = {"first": self._members.first[row], "last": self._members.last[row]}
        far, is_within = {}, {}
        for role, part in own.items():
            distances, is_known = pool.distances(role, part)
            far[role], is_within[role] = distances**2, is_known & (distances <= CALIPER_NATS)
        if pool.kind == "hard":
            every = [(far[role][i], role, i) for role in own for i in range(len(far[role]))]
            for cost, role, i in sorted(every):
                name = self._with_part(row, role, pool.parts[role][i])
                yield name, float(cost), bool(is_within[role][i])
            return
        rows, columns = (np.argsort(far[role], kind="stable")[:_N_FAR] for role in own)
        grid = (far["first"][rows][:, None] + far["last"][columns][None]).ravel()
        first = min(4 * _GROUP, grid.size)
        start = np.argpartition(grid, first - 1)[:first] if first else np.zeros(0, dtype=np.int64)
        for order in (start[np.argsort(grid[start], kind="stable")], None):
            cells = order if order is not None else np.argsort(grid, kind="stable")
            for cell in cells.tolist():
                i, j = rows[cell // len(columns)], columns[cell % len(columns)]
                name = pool.parts["first"][i], pool.parts["last"][j]
                yield name, float(grid[cell]), bool(is_within["first"][i] & is_within["last"][j])

    def _with_part(self, row: int, role: str, part: str) -> Name:
        first, last = self._members.first[row], self._members.last[row]
        return (part, last) if role == "first" else (first, part)


def characters(_: str, part: str) -> int:
    """Count a part's pieces where no tokenizer is known: characters of Han and kana, else one."""
    return len(part) if is_unspaced(part) else 1


def _key(first: str, last: str) -> str:
    return fold_name(written_name(first, last))
