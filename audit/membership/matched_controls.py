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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

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

_GROUP = 256  # names assigned together
_WIDTHS = (5, 20, 80)  # parts of each role that are tried for a name, until it has a control
_BEYOND, _NOBODY = 1e3, 1e9  # cost of a pair beyond the caliper; cost of a pair that is no option
_MAX_CELLS = 2_000_000  # of one assignment

Name = tuple[str, str]
"""(first, last)."""
Accepts = Callable[[str, str], bool]
"""Whether a (first, last) will do, as when both are single word pieces."""
CountPieces = Callable[[str, str], int]
"""Word pieces of a part, given its role ("first" or "last") and its text."""
Floats = NDArray[np.float64]


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
    possible = [row for row in wanted if script[row] in scripts]
    rng = generator(seed, f"controls/matched {kind}")
    turns: list[int] = []
    while possible and len(turns) < n:
        turns += rng.permutation(possible).tolist()[: n - len(turns)]
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
    in_turn = {*turns, *(row for row in wanted if script[row] not in scripts)}
    return MatchedControls(
        controls=replace(controls, control_kind=tuple(kinds)),
        rows=tuple(rows),
        is_within=tuple(is_within),
        n_unmatched=len(in_turn - matched),
    )


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
        shares = self.known[role]
        share = shares.get(fold_name(part))
        target = math.log(share if share is not None else min(shares.values()))
        pieces = self.count(role, part) if part else 0
        far = np.abs(self.log_share[role] - target)
        return far + PIECE_NATS * np.abs(self.pieces[role] - pieces), share is not None


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
        self._members, self._accepts, self._rng = members, accepts, rng
        self._near: dict[tuple[str, str], tuple[Floats, bool]] = {}
        self.names: list[Name] = []
        self.rows: list[int] = []
        self.is_within: list[bool] = []
        self.popularity: list[float] = []

    def take(self, turns: Sequence[int], *, pool: _Pool) -> None:
        """Draw a control for each member in turn: near names first, farther ones where needed."""
        left = sorted(turns)
        largest = max(map(len, pool.parts.values()))
        for width in (*(one for one in _WIDTHS if one < largest), largest):
            missing: list[int] = []
            for group in _groups(left, n_options=_n_options(width, kind=pool.kind)):
                missing += self._assign(group, width=width, pool=pool)
            left = missing

    def _assign(self, turns: Sequence[int], *, width: int, pool: _Pool) -> list[int]:
        """Give each member the name that suits all best; return those who got none."""
        from scipy.optimize import linear_sum_assignment

        columns: dict[Name, int] = {}
        cells: dict[int, list[tuple[int, float, bool]]] = {}
        is_new: dict[Name, bool] = {}
        for row in dict.fromkeys(turns):
            cells[row] = []
            for name, cost, is_within in self._options(row, width=width, pool=pool):
                if name not in is_new:
                    is_new[name] = self._is_new(name)
                if is_new[name]:
                    column = columns.setdefault(name, len(columns))
                    cells[row].append((column, cost, is_within))
        if not columns:
            return list(turns)
        costs = np.full((len(turns), len(columns)), _NOBODY)
        within = np.zeros(costs.shape, dtype=np.bool_)
        for slot, row in enumerate(turns):
            for column, cost, is_within in cells[row]:
                # As many as can be lie within the caliper; then the sum of squares is least.
                costs[slot, column] = cost + (0 if is_within else _BEYOND)
                within[slot, column] = is_within
        names = list(columns)
        missing = dict(enumerate(turns))
        for slot, column in zip(*linear_sum_assignment(costs), strict=True):
            if costs[slot, column] < _NOBODY:
                first, last = names[column]
                self._seen.add(_key(first, last))
                self.names.append((first, last))
                self.rows.append(missing.pop(int(slot)))
                self.is_within.append(bool(within[slot, column]))
                self.popularity.append(popularity(pool.pool, first=first, last=last))
        return list(missing.values())

    def _is_new(self, name: Name) -> bool:
        return _key(*name) not in self._seen and (self._accepts is None or self._accepts(*name))

    def _options(self, row: int, *, width: int, pool: _Pool) -> Iterable[tuple[Name, float, bool]]:
        """Return names for a member with their squared distance and whether they are within."""
        first, last = self._members.first[row], self._members.last[row]
        if pool.kind != "hard":
            lasts = self._parts("last", last, width=min(width, _WIDTHS[-1]), pool=pool)
            for one, far, near in self._parts(
                "first", first, width=min(width, _WIDTHS[-1]), pool=pool
            ):
                for other, farther, nearer in lasts:
                    yield (one, other), far**2 + farther**2, near and nearer
            return
        sides = ["first", "last"]
        self._rng.shuffle(sides)
        found = {role: self._parts(role, last if role == "last" else first, width=width, pool=pool)
                 for role in sides}  # fmt: skip
        # The part that stays is the member's own; one without a part keeps the other.
        sides = [role for role in sides if (first if role == "last" else last)]
        sides.sort(key=lambda role: not any(near for *_, near in found[role]))
        for role in sides[: 1 if width == _WIDTHS[0] else 2]:
            for part, far, near in found[role]:
                yield ((part, last) if role == "first" else (first, part)), far**2, near

    def _parts(
        self, role: str, part: str, *, width: int, pool: _Pool
    ) -> list[tuple[str, float, bool]]:
        """Return parts to stand for this one: any within the caliper, then the nearest."""
        if (role, part) not in self._near:
            self._near[role, part] = pool.distances(role, part)
        far, is_known = self._near[role, part]
        within = np.flatnonzero(far <= CALIPER_NATS)
        chosen = self._rng.permutation(within)[:width].tolist()
        if len(chosen) < width:
            shuffled = self._rng.permutation(len(far))
            order = shuffled[np.argsort(far[shuffled], kind="stable")][len(within) :]
            chosen += order[: width - len(chosen)].tolist()
        return [
            (pool.parts[role][i], float(far[i]), bool(is_known and far[i] <= CALIPER_NATS))
            for i in chosen
        ]


def _n_options(width: int, *, kind: str) -> int:
    return 2 * width if kind == "hard" else min(width, _WIDTHS[-1]) ** 2


def _groups(turns: Sequence[int], *, n_options: int) -> Iterable[list[int]]:
    """Cut turns, in order, into groups whose assignment has a bounded number of cells."""
    group: list[int] = []
    n_distinct = 0
    for row in turns:
        is_other = not group or group[-1] != row
        n_cells = (len(group) + 1) * (n_distinct + is_other) * n_options
        if group and (len(group) == _GROUP or n_cells > _MAX_CELLS):
            yield group
            group, n_distinct, is_other = [], 0, True
        group.append(row)
        n_distinct += is_other
    if group:
        yield group


def characters(_: str, part: str) -> int:
    """Count a part's pieces where no tokenizer is known: characters of Han and kana, else one."""
    return len(part) if is_unspaced(part) else 1


def _key(first: str, last: str) -> str:
    return fold_name(written_name(first, last))
