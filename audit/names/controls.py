"""Controls: names that are not in the notes; matched ones are as common and as long as a member's.

With matched controls no model tells members from controls by how common or how long their names
are. Who has no name within the caliper gets the nearest, and is counted.

Source: Nakamura et al., section 3.4 (easy and hard). Differs: matched by optimal assignment
(Rosenbaum 1989, doi:10.1080/01621459.1989.10478868), where the paper draws by popularity alone;
that leaves easy controls rarer than members, whose parts are the commonest ones.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError
from audit.names.candidates import Candidates, control_kind_against, make_candidates, member_parts
from audit.names.pools import (
    NamePool,
    japanese_pool,
    pool_of_script,
    popularity,
    us_pool,
    with_popularity,
)
from audit.names.spelling import UNSPELLABLE, CountPieces
from audit.rng import generator
from audit.stats import MIN_CONTROLS
from audit.text import fold_name, is_unspaced, script_of, written_name

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
        for role in self.known:
            parts, shares = getattr(pool, role), getattr(pool, f"{role}_share")
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
        self._seen = {fold_name(written_name(*name)) for name in (*own, *exclude)}
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
                self._seen.add(fold_name(written_name(first, last)))
                self._is_new[first, last] = False
                self.names.append((first, last))
                self.rows.append(missing.pop(int(slot)))
                self.is_within.append(bool(within[slot, column]))
                self.popularity.append(popularity(pool.pool, first=first, last=last))
        return list(missing.values())

    def _may_come(self, name: Name) -> bool:
        if name not in self._is_new:
            is_new = fold_name(written_name(*name)) not in self._seen
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


MAX_RECOMBINED_PARTS = 1_000
MAX_DRAWN = 5_000


def draw_names(
    pool: NamePool,
    *,
    n: int,
    seed: int,
    exclude: Iterable[Name] = (),
    accepts: Accepts | None = None,
    purpose: str = "names",
) -> Candidates:
    """Draw n distinct full names with unknown membership; fewer where the pool has no more.

    `purpose` names the stream: the same seed with another purpose gives another draw.
    """
    order = _spelled(pool, _order(pool, seed=seed, purpose=purpose))
    names = _take(order, n, exclude=exclude, accepts=accepts)
    return with_popularity(make_candidates(names), pool=pool)


def recombined_controls(
    members: Candidates,
    *,
    n: int,
    seed: int,
    pool: NamePool | None = None,
    exclude: Iterable[Name] = (),
    accepts: Accepts | None = None,
) -> Candidates:
    """Draw n controls made of one member's first and another's last name, never a member's own.

    Every pair is as likely as any other. From lists with more, 1,000 first and 1,000 last names are
    drawn first. `pool` gives the popularity (default: the one that fits the members).
    """
    whole = [row for row, m in enumerate(members.is_member) if m and len(members.parts(row)) == 2]
    rng = generator(seed, "controls/recombined")
    firsts, lasts = (
        [found[i] for i in rng.permutation(len(found))[:MAX_RECOMBINED_PARTS]]
        for column in (members.first, members.last)
        for found in [list({fold_name(column[row]): column[row] for row in whole}.values())]
    )
    pairs = rng.permutation(len(firsts) * len(lasts)).tolist()
    ordered = ((firsts[pair // len(lasts)], lasts[pair % len(lasts)]) for pair in pairs)
    names = _take(
        ordered,
        n,
        exclude=[*zip(members.first, members.last, strict=True), *exclude],
        accepts=accepts,
    )
    controls = make_candidates(names, is_member=False, control_kind="recombined")
    return with_popularity(controls, pool=pool)


def with_controls(
    candidates: Candidates,
    *,
    n_easy: int,
    n_hard: int,
    n_recombined: int = 0,
    seed: int,
    count_pieces: CountPieces | None = None,
) -> Candidates:
    """Return the list followed by controls drawn against its members (section 3.4).

    Easy and hard ones are matched to the members, as `matched_controls` says: `match_quality` of
    what comes back counts for whom there was nobody. None of the drawn names is on the list, and no
    part of an easy or hard one was planted. Fewer come where the generator has no more.
    """
    for what, n in (("easy", n_easy), ("hard", n_hard), ("recombined", n_recombined)):
        if not 0 <= n <= MAX_DRAWN:
            raise AuditError(f"must be from 0 to {MAX_DRAWN:,}.", where=f"{what} controls")
    if not n_easy + n_hard + n_recombined:
        return candidates.without_popularity()
    patients = candidates.without_canaries()
    members = patients.rows([i for i, m in enumerate(patients.is_member) if m is True])
    if not len(members):
        raise AuditError(
            "Controls are drawn against members, and the list has none.",
            where="names",
            do="Add a column is_member with 1 for the names that are in the notes.",
        )
    taken = list(zip(candidates.first, candidates.last, strict=True))
    rows = [i for i, m in enumerate(candidates.is_member) if m and candidates.is_canary(i)]
    planted = {fold_name(part) for i in rows for _, part in candidates.parts(i)}

    def accepts(first: str, last: str) -> bool:
        return not planted & {fold_name(first), fold_name(last)}

    easy, hard = (
        matched_controls(
            members, n=n, seed=seed, kind=kind, exclude=taken, accepts=accepts,
            count_pieces=count_pieces,
        ).controls
        for kind, n in (("easy", n_easy), ("hard", n_hard))
    )  # fmt: skip
    recombined = recombined_controls(members, n=n_recombined, seed=seed, exclude=taken)
    return (candidates + easy + hard + recombined).without_popularity()


def reference_controls(
    pool: NamePool,
    *,
    n_by_pieces: Mapping[int, int],
    count_pieces: CountPieces,
    exclude: Iterable[Name] = (),
    tested_parts: frozenset[str] = frozenset(),
    n_least: int = 0,
    seed: int,
) -> Candidates:
    """Draw the controls against which p-values are ranked: names of given numbers of word pieces.

    A name that shares a part with a tested one is no clean control: if the model knows the tested
    name it knows that part too. So names that share none come first, as many as are asked for;
    those that share one part only as far as `n_least` is not reached, and those of two tested parts
    as far as fewer than `MIN_CONTROLS` are there.

    Parameters
    ----------
    n_by_pieces
        How many names to draw for each total number of word pieces; fewer come where the pool has
        fewer. The names come in its order, each group in the order drawn.
    exclude
        Full names, (first, last), that must not come: those in the notes and on the list.
    tested_parts
        Parts of members' and unknown names, folded.
    """
    first_pieces = np.array([count_pieces("first", part) for part in pool.first])
    last_pieces = np.array([count_pieces("last", part) for part in pool.last])
    pieces = (first_pieces[:, None] + last_pieces[None, :]).ravel()  # [F * L]
    excluded = tuple(exclude)
    is_tested = [
        np.array([fold_name(part) in tested_parts for part in of_role])
        for of_role in (pool.first, pool.last)
    ]
    n_shared = np.add.outer(*(x.astype(np.int64) for x in is_tested)).ravel()  # [F * L]
    order = _order(pool, seed=seed, purpose="reference")  # [F * L]
    names: list[Name] = []
    for n_pieces, n in n_by_pieces.items():
        group: list[Name] = []
        for shared, wanted in ((0, n), (1, min(n, n_least)), (2, min(n, MIN_CONTROLS))):
            here = order[(pieces[order] == n_pieces) & (n_shared[order] == shared)]
            missing = max(0, wanted - len(group))
            group += _take(_spelled(pool, here), missing, exclude=excluded, accepts=None)
        names += group
    return with_popularity(
        make_candidates(names, is_member=False, control_kind="reference"), pool=pool
    )


def _order(pool: NamePool, *, seed: int, purpose: str) -> NDArray[np.int64]:
    # [F * L] indices first * L + last, in the order of drawing without replacement.
    share = np.outer(pool.first_share, pool.last_share).ravel()
    return _weighted_order(share, seed=seed, purpose=purpose)


def _weighted_order(share: Floats, *, seed: int, purpose: str) -> NDArray[np.int64]:
    # Efraimidis & Spirakis 2006, doi:10.1016/j.ipl.2005.11.003
    keys = -np.log1p(-generator(seed, f"controls/{purpose}").random(share.size)) / share
    return np.argsort(keys, kind="stable")


def _spelled(pool: NamePool, order: np.ndarray) -> Iterator[Name]:
    for index in order.tolist():
        yield pool.first[index // len(pool.last)], pool.last[index % len(pool.last)]


def _take(
    names: Iterable[Name], n: int, *, exclude: Iterable[Name], accepts: Accepts | None
) -> list[Name]:
    seen = {fold_name(written_name(first, last)) for first, last in exclude}
    taken: list[Name] = []
    for first, last in names:
        if len(taken) >= n:
            break
        key = fold_name(written_name(first, last))
        if key in seen or (accepts is not None and not accepts(first, last)):
            continue
        seen.add(key)
        taken.append((first, last))
    return taken


def part_controls(
    pool: NamePool,
    *,
    role: str,
    n_by_pieces: Mapping[int, int],
    count_pieces: CountPieces,
    tested_parts: frozenset[str],
    seed: int,
) -> Candidates:
    """Draw controls of one part alone, for listed names of which only that part is known.

    Parameters as in `reference_controls`; `role` is "first" or "last". Names in Han or kana that
    cannot be split are written in one part: their controls are whole names of the generator.
    """
    texts, shares = getattr(pool, role), getattr(pool, f"{role}_share")
    drawn = _weighted_order(np.array(shares), seed=seed, purpose=f"{role} alone").tolist()
    order = [i for i in drawn if fold_name(texts[i]) not in tested_parts]
    names: list[Name] = []
    for n_pieces, n in n_by_pieces.items():
        here = [texts[i] for i in order if count_pieces(role, texts[i]) == n_pieces][:n]
        names += [(text, "") if role == "first" else ("", text) for text in here]
    return make_candidates(names, is_member=False, control_kind="reference")


MAX_DIFFERENCE = 0.25
"""Largest standardised mean difference of matched groups (Stuart 2010, doi:10.1214/09-STS313)."""
MAX_SHARE_GAP = 0.1
"""Largest part of the names that may lie in other strata of pieces, or of script."""
CHANCE_ERRORS, CHANCE_NAMES = 2.0, 3
"""Small groups may differ by chance: by this many standard errors of the difference, or names."""


@dataclass(frozen=True)
class KindMatch:
    """How alike members and the controls of one kind (or "all") are.

    Attributes
    ----------
    first_difference, last_difference
        Standardised mean difference of the ln share of first and of last parts: members' mean less
        controls', by the root of the mean of both variances. Above 0: members are commoner. NaN
        where a side has fewer than two known parts, or all are equally common.
    n_unknown_members, n_unknown_controls
        Names with a part that the generator does not know; it is in no difference.
    pieces, scripts
        Stratum -> share of members, share of controls. A stratum of pieces is "1+2": word pieces
        of the first and the last part.
    n_unmatched
        Members for whom no control of this kind is within the caliper in both parts.
    """

    kind: str
    n_members: int
    n_controls: int
    first_difference: float
    last_difference: float
    n_unknown_members: int
    n_unknown_controls: int
    pieces: Mapping[str, tuple[float, float]]
    scripts: Mapping[str, tuple[float, float]]
    n_unmatched: int

    @property
    def pieces_gap(self) -> float:
        """Share of controls that would have to have other numbers of pieces, 0-1."""
        return _gap(self.pieces)

    @property
    def scripts_gap(self) -> float:
        """Share of controls that would have to be in another script, 0-1."""
        return _gap(self.scripts)

    @property
    def is_matched(self) -> bool:
        """Whether no known difference is larger than it may be; NaN is no difference."""
        chance = math.sqrt(1 / self.n_members + 1 / self.n_controls)
        largest = max(MAX_DIFFERENCE, CHANCE_ERRORS * chance)
        if max(abs(np.nan_to_num([self.first_difference, self.last_difference]))) > largest:
            return False
        gap = max(MAX_SHARE_GAP, CHANCE_NAMES / min(self.n_members, self.n_controls))
        return max(self.pieces_gap, self.scripts_gap) <= gap + 1e-9

    def to_json(self) -> dict[str, object]:
        """Return the match as plain values; a difference that is not defined is None."""
        values = {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        }
        shares = {
            name: {key: list(pair) for key, pair in getattr(self, name).items()}
            for name in ("pieces", "scripts")
        }
        gaps = {"pieces_gap": self.pieces_gap, "scripts_gap": self.scripts_gap}
        return values | shares | gaps | {"is_matched": self.is_matched}


@dataclass(frozen=True)
class MatchQuality:
    """How well a list is matched, by kind of control; empty where it has no truth."""

    kinds: tuple[KindMatch, ...]

    @property
    def is_matched(self) -> bool:
        """Whether controls of every kind are matched."""
        return all(one.is_matched for one in self.kinds)

    def to_json(self) -> dict[str, object]:
        """Return kind -> match as plain values."""
        return {one.kind: one.to_json() for one in self.kinds}

    def sentences(self) -> tuple[str, ...]:
        """Say it: for each kind of control how alike, and what to do where they are not."""
        notes: list[str] = []
        for one in self.kinds[1:]:
            first, last = (
                f"{value:+.2f}" if math.isfinite(value) else "?"
                for value in (one.first_difference, one.last_difference)
            )
            notes.append(
                f"Members against {one.kind} controls: their names are commoner by {first} (first "
                f"part) and {last} (last part) standard deviations; {100 * one.pieces_gap:.0f} % "
                f"have other numbers of word pieces, {100 * one.scripts_gap:.0f} % another script; "
                f"{one.n_unmatched} of {one.n_members} members have no control within the caliper."
            )
            if not one.is_matched:
                notes.append(
                    f"The {one.kind} controls are not matched with the members, so that a model "
                    "can tell them apart without any leak; draw controls for this list, or read "
                    "the figures that are adjusted for popularity and length."
                )
        return tuple(notes)


def match_quality(
    candidates: Candidates,
    *,
    count_pieces: CountPieces | None = None,
    pool: NamePool | None = None,
) -> MatchQuality:
    """Compare a list's members with its controls, all and by kind; planted names are left out.

    `pool` gives the shares (None: the generator of each name's script); `count_pieces` as in
    `matched_controls`.
    """
    candidates = candidates.without_canaries()
    members = [row for row, truth in enumerate(candidates.is_member) if truth is True]
    controls = [row for row, truth in enumerate(candidates.is_member) if truth is False]
    if not members or not controls:
        return MatchQuality(())
    facts = _facts(candidates, count=count_pieces or characters, pool=pool)
    groups = {"all": controls}
    for row in controls:
        groups.setdefault(candidates.control_kind[row], []).append(row)
    return MatchQuality(
        tuple(_compared(facts, members, rows, kind=kind) for kind, rows in groups.items())
    )


@dataclass(frozen=True, eq=False)
class _Facts:
    """Of N names: [2, N] ln share of first and last part, [2, N] parts' texts as integers, strata.

    NaN is a part that the generator does not know.
    """

    log_share: Floats
    part: np.ndarray
    pieces: tuple[str, ...]
    script: tuple[str, ...]


def _facts(candidates: Candidates, *, count: CountPieces, pool: NamePool | None) -> _Facts:
    n = len(candidates)
    scripts = tuple(script_of(candidates.full_name(row)) for row in range(n))
    log_share = np.full((2, n), np.nan)
    part = np.zeros((2, n), dtype=np.int64)
    index: dict[str, int] = {}
    pieces = []
    for row in range(n):
        own = pool or pool_of_script(scripts[row])
        counted = []
        for k, role in enumerate(("first", "last")):
            text = getattr(candidates, role)[row]
            known = {} if own is None else (own.first_shares, own.last_shares)[k]
            log_share[k, row] = math.log(known.get(fold_name(text), math.nan))
            part[k, row] = index.setdefault(fold_name(text), len(index))
            counted.append(str(count(role, text)) if text else "0")
        pieces.append("+".join(counted))
    return _Facts(log_share, part, tuple(pieces), scripts)


def _compared(
    facts: _Facts, members: Sequence[int], controls: Sequence[int], *, kind: str
) -> KindMatch:
    first, last = (_difference(share[members], share[controls]) for share in facts.log_share)
    unknown = ~np.isfinite(facts.log_share.sum(axis=0))  # [N]
    return KindMatch(
        kind=kind,
        n_members=len(members),
        n_controls=len(controls),
        first_difference=first,
        last_difference=last,
        n_unknown_members=int(unknown[members].sum()),
        n_unknown_controls=int(unknown[controls].sum()),
        pieces=_shares(facts.pieces, members, controls),
        scripts=_shares(facts.script, members, controls),
        n_unmatched=_n_unmatched(facts, members, controls),
    )


def _difference(members: Floats, controls: Floats) -> float:
    members, controls = members[~np.isnan(members)], controls[~np.isnan(controls)]
    if len(members) < 2 or len(controls) < 2:
        return math.nan
    spread = math.sqrt((members.var(ddof=1) + controls.var(ddof=1)) / 2)
    return float(members.mean() - controls.mean()) / spread if spread > 0 else math.nan


def _shares(
    strata: Sequence[str], members: Sequence[int], controls: Sequence[int]
) -> dict[str, tuple[float, float]]:
    one, other = (Counter(strata[row] for row in rows) for rows in (members, controls))
    return {
        key: (one[key] / len(members), other[key] / len(controls))
        for key in sorted(one.keys() | other.keys())
    }


def _gap(shares: Mapping[str, tuple[float, float]]) -> float:
    return sum(abs(one - other) for one, other in shares.values()) / 2


def _n_unmatched(facts: _Facts, members: Sequence[int], controls: Sequence[int]) -> int:
    """Count members without a control of their stratum whose parts are each as common, or equal."""
    from scipy.spatial import KDTree

    strata = [f"{p} {s}" for p, s in zip(facts.pieces, facts.script, strict=True)]
    caliper = CALIPER_NATS + 1e-9
    points: dict[str, list[Floats]] = defaultdict(list)
    shares: dict[tuple[str, int, int], list[float]] = defaultdict(list)
    for row in controls:
        if np.isfinite(facts.log_share[:, row]).all():
            points[strata[row]].append(facts.log_share[:, row])
        for k in (0, 1):  # what the other part may be, where this one is equal
            shares[strata[row], k, int(facts.part[k, row])].append(facts.log_share[1 - k, row])
    ordered = {key: np.sort(found) for key, found in shares.items()}
    names = {tuple(facts.part[:, row].tolist()) for row in controls}
    is_near = np.zeros(len(strata), dtype=np.bool_)
    for stratum, found in points.items():
        rows = [row for row in members if strata[row] == stratum]
        rows = [row for row in rows if np.isfinite(facts.log_share[:, row]).all()]
        if rows:
            nearest = KDTree(np.array(found)).query(facts.log_share[:, rows].T, p=math.inf)[0]
            is_near[rows] = nearest <= caliper

    def has_one(row: int) -> bool:
        for k in (0, 1):
            others = ordered.get((strata[row], k, int(facts.part[k, row])))
            share = facts.log_share[1 - k, row]
            if others is not None and np.isfinite(share):
                at = np.searchsorted(others, share - caliper)
                if at < len(others) and others[at] <= share + caliper:
                    return True
        return bool(is_near[row]) or tuple(facts.part[:, row].tolist()) in names

    return sum(not has_one(row) for row in members)
