"""Controls: names that are not in the notes; matched ones are as common and as long as a member's.

With matched controls no model tells members from controls by how common or how long their names
are. Who has no name within the caliper gets the nearest.

Source: Nakamura et al., section 3.4 (easy and hard). Differs: matched by optimal assignment
(Rosenbaum 1989, doi:10.1080/01621459.1989.10478868), where the paper draws by popularity alone;
that leaves easy controls rarer than members, whose parts are the commonest ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError, Message
from audit.names.candidates import Accepts, Candidates, Name, make_candidates, member_parts
from audit.names.pools import NamePool, pools_by_script
from audit.names.spelling import UNSPELLABLE, CountPieces
from audit.rng import generator
from audit.text import fold_name, is_unspaced, script_of, written_name

CALIPER_NATS = 0.25
"""Two parts are within the caliper if neither is more than 28 % commoner (ln share), and both have
as many word pieces and the same script."""
PIECE_NATS = 4.0
"""A word piece more or less is as far as this difference of ln share."""
MIN_CONTROLS = 200
"""With fewer comparable controls a name is not judged."""
MAX_RECOMBINED_PARTS = 1_000
MAX_DRAWN = 5_000

_ROLES = ("first", "last")
_GROUP = 128  # names assigned together
_N_NEAR, _N_FAR = 5, 200  # parts of each role that are tried for a name, at first and then
_BEYOND, _NOBODY = 1e3, 1e9  # cost of a pair beyond the caliper; cost of a pair that is no option

Floats = NDArray[np.float64]
Option = tuple[Name, float]
"""A name for a member, and what it costs: its squared distance, and more beyond the caliper."""


def characters(_: str, part: str) -> int:
    """Count a part's pieces where no tokenizer is known: characters of Han and kana, else one."""
    return len(part) if is_unspaced(part) else 1


def anybody(*_: str) -> bool:
    """Accept every name."""
    return True


def matched_controls(
    members: Candidates,
    *,
    kind: str,
    n: int,
    seed: int,
    pool: NamePool | None = None,
    accepts: Accepts = anybody,
    count_pieces: CountPieces = characters,
    on_drawn: Callable[[int], None] = lambda n: None,
) -> Candidates:
    """Draw n distinct controls for members: each in turn, again and again where n is larger.

    They come in the order of the members; fewer where the generator has no more. None is a member.

    Parameters
    ----------
    members
        Rows that are no members, or planted, are passed over.
    kind
        "easy": neither part is a part of any member's name. "hard": exactly one is; it is this
        member's own, the first or the last by chance.
    pool
        Where to draw from, for members in its script; None: for each script its own.
    on_drawn
        Told how many more were drawn.
    """
    pools = {script_of(pool.last[0]): pool} if pool else pools_by_script()
    script = {
        row: script_of(members.full_name(row))
        for row, is_member in enumerate(members.is_member)
        if is_member and not members.is_canary(row)
    }
    n_parts = 2 if kind == "hard" else 1  # a whole name beside another part is that name again
    possible = [r for r in script if script[r] in pools and len(members.parts(r)) >= n_parts]
    rng = generator(seed, f"controls/matched {kind}")
    turns: list[int] = []  # every round in an order of its own
    while possible and len(turns) < n:
        turns += rng.permutation(possible).tolist()[: n - len(turns)]
    parts = member_parts(members)
    seen = _folded(zip(members.first, members.last, strict=True))
    drawn: list[tuple[int, Name]] = []
    for of_script, one in pools.items():
        draw = _Draw(members, one, kind, parts, seen, accepts, count_pieces, rng, on_drawn)
        draw.take([row for row in turns if script[row] == of_script])
        drawn += draw.drawn
    drawn.sort(key=lambda one: one[0])
    return make_candidates([name for _, name in drawn], is_member=False, control_kind=kind)


class _Parts:
    """The parts of one role of a pool that may stand in a control, and how far they lie off."""

    def __init__(
        self, pool: NamePool, role: str, *, taken: frozenset[str], count: CountPieces
    ) -> None:
        self._shares: dict[str, float] = getattr(pool, f"{role}_shares")
        self._count = partial(count, role)
        free = (text for text in getattr(pool, role) if fold_name(text) not in taken)
        self.texts = [text for text in free if self._count(text) < UNSPELLABLE]
        self._log_share = np.log([self._shares[fold_name(text)] for text in self.texts])
        self._pieces = np.array(list(map(self._count, self.texts)), dtype=float)
        self.distance = cache(self._distance)

    def _distance(self, part: str) -> tuple[Floats, NDArray[np.bool_]]:
        """Return how far each lies from a part, in nats, and whether within the caliper.

        A part that the generator does not know counts as its rarest, with none in its caliper.
        """
        share = self._shares.get(fold_name(part))
        target = math.log(min(self._shares.values()) if share is None else share)
        far = np.abs(self._log_share - target)
        far += PIECE_NATS * np.abs(self._pieces - (self._count(part) if part else 0))
        return far, (far <= CALIPER_NATS) & (share is not None)


@dataclass
class _Draw:
    """Controls of one pool as they are drawn, each name once."""

    members: Candidates
    pool: NamePool
    kind: str
    taken: frozenset[str]
    seen: set[str]
    accepts: Accepts
    count: CountPieces
    rng: np.random.Generator
    on_drawn: Callable[[int], None]
    drawn: list[tuple[int, Name]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prepare the parts to draw from."""
        self._parts = {
            role: _Parts(self.pool, role, taken=self.taken, count=self.count) for role in _ROLES
        }
        self._key = cache(lambda name: fold_name(written_name(*name)))
        self._accepts = cache(self.accepts)
        # [F, L] False where a pair was refused once: what may not come never may again, and where
        # a generator is nearly used up each member would walk past all that others were given.
        n_first, n_last = (len(self._parts[role].texts) for role in _ROLES)
        self._is_open = np.ones((n_first, n_last), dtype=bool)

    def take(self, turns: Sequence[int]) -> None:
        """Draw a control for each member in turn: of near names by chance, else the nearest."""
        for options in (self._near, self._nearest):
            groups = [turns[start : start + _GROUP] for start in range(0, len(turns), _GROUP)]
            turns = [row for group in groups for row in self._assign(group, options)]

    def _assign(
        self, turns: Sequence[int], options: Callable[[int], Iterator[Option]]
    ) -> list[int]:
        """Give each member the name that suits all best; return those who got none."""
        from scipy.optimize import linear_sum_assignment

        # As many options as members: whatever the others get, one is left.
        of_row = {row: list(islice(options(row), _GROUP)) for row in dict.fromkeys(turns)}
        names = list(dict.fromkeys(name for own in of_row.values() for name, _ in own))
        column = {name: i for i, name in enumerate(names)}
        costs = np.full((len(turns), len(names)), _NOBODY)
        for slot, row in enumerate(turns):
            for name, cost in of_row[row]:
                costs[slot, column[name]] = cost
        missing = dict(enumerate(turns))
        for slot, place in zip(*linear_sum_assignment(costs), strict=True):
            if costs[slot, place] < _NOBODY:
                self.seen.add(self._key(names[place]))
                self.drawn.append((missing.pop(int(slot)), names[place]))
        self.on_drawn(len(turns) - len(missing))
        return list(missing.values())

    def _may_come(self, name: Name) -> bool:
        return self._key(name) not in self.seen and self._accepts(*name)

    def _distances(self, row: int) -> dict[str, tuple[Floats, NDArray[np.bool_]]]:
        return {
            role: parts.distance(getattr(self.members, role)[row])
            for role, parts in self._parts.items()
        }

    def _near(self, row: int) -> Iterator[Option]:
        """Yield some names near a member's, drawn by chance from those within the caliper."""
        near = {role: self._some_near(*found) for role, found in self._distances(row).items()}
        if self.kind != "hard":
            for i, far, is_within in near["first"]:
                for j, farther, is_too in near["last"]:
                    if self._may_come(name := self._name(i, j)):
                        yield name, _cost(far**2 + farther**2, is_within and is_too)
            return
        # One part stays: either, unless only one of the others has a match.
        sides: list[str] = self.rng.permutation(_ROLES).tolist()
        sides.sort(key=lambda role: not any(is_within for *_, is_within in near[role]))
        for i, far, is_within in near[sides[0]]:
            if self._may_come(name := self._with_part(row, sides[0], i)):
                yield name, _cost(far**2, is_within)

    def _some_near(
        self, far: Floats, is_within: NDArray[np.bool_]
    ) -> list[tuple[int, float, bool]]:
        within = np.flatnonzero(far <= CALIPER_NATS)
        chosen = self.rng.permutation(within)[:_N_NEAR].tolist()
        if len(chosen) < _N_NEAR:
            shuffled = self.rng.permutation(len(far))
            off = far[shuffled]
            # As in a stable sort of all, which takes ten times as long.
            few = np.flatnonzero(off <= np.sort(off)[:_N_NEAR].max(initial=0))
            order = shuffled[few[np.argsort(off[few], kind="stable")]][len(within) :]
            chosen += order[: _N_NEAR - len(chosen)].tolist()
        return [(i, float(far[i]), bool(is_within[i])) for i in chosen]

    def _nearest(self, row: int) -> Iterator[Option]:
        """Yield names from the nearest to a member's on; some 40,000 in all."""
        found = self._distances(row)
        far = {role: distances**2 for role, (distances, _) in found.items()}
        within = {role: is_within for role, (_, is_within) in found.items()}
        if self.kind == "hard":
            every = [(far[role][i], role, i) for role in _ROLES for i in range(len(far[role]))]
            for cost, role, i in sorted(every):
                if self._may_come(name := self._with_part(row, role, i)):
                    yield name, _cost(float(cost), within[role].item(i))
            return
        rows, columns = (np.argsort(far[role], kind="stable")[:_N_FAR] for role in _ROLES)
        is_open = self._is_open[rows[:, None], columns].ravel()
        if not is_open.any():
            return
        grid = (far["first"][rows][:, None] + far["last"][columns][None]).ravel()
        # The first are mostly enough, and much sooner found than all in order.
        n_first = min(4 * _GROUP, grid.size)
        start = np.argpartition(grid, n_first - 1)[:n_first]
        for some in (start, np.arange(grid.size)):
            cells = some[is_open[some]]
            for cell in map(cells.item, _rising(grid[cells])):
                i, j = rows.item(cell // len(columns)), columns.item(cell % len(columns))
                if self._may_come(name := self._name(i, j)):
                    is_within = within["first"].item(i) and within["last"].item(j)
                    yield name, _cost(grid.item(cell), is_within)
                else:
                    self._is_open[i, j] = False

    def _name(self, first: int, last: int) -> Name:
        return self._parts["first"].texts[first], self._parts["last"].texts[last]

    def _with_part(self, row: int, role: str, index: int) -> Name:
        part = self._parts[role].texts[index]
        first, last = self.members.first[row], self.members.last[row]
        return (part, last) if role == "first" else (first, part)


def _rising(values: Floats) -> Iterator[int]:
    """Yield the places of values from the least on, as a stable sort has them.

    The first few are mostly enough, and found without sorting all.
    """
    n_first = min(4 * _GROUP, len(values))
    least = np.partition(values, n_first - 1)[n_first - 1] if n_first else 0.0
    for some in (values <= least, values > least):
        places = np.flatnonzero(some)
        yield from places[np.argsort(values[places], kind="stable")].tolist()


def _cost(squared: float, is_within: bool) -> float:
    # As many as can be lie within the caliper; then the sum of squares is least.
    return squared + (0 if is_within else _BEYOND)


def draw_names(
    pool: NamePool,
    *,
    n: int,
    seed: int,
    accepts: Accepts = anybody,
    purpose: str = "names",
) -> Candidates:
    """Draw n distinct full names with unknown membership; fewer where the pool has no more.

    `purpose` names the stream: the same seed with another purpose gives another draw.
    """
    order = _names(pool, _order(pool, seed=seed, purpose=purpose))
    return make_candidates(_take(order, n, seen=set(), accepts=accepts))


def recombined_controls(
    members: Candidates, *, n: int, seed: int, accepts: Accepts = anybody
) -> Candidates:
    """Draw n controls made of one member's first and another's last name, never a member's own.

    Every pair is as likely as any other. From lists with more, 1,000 first and 1,000 last names are
    drawn first.
    """
    own = list(zip(members.first, members.last, strict=True))
    whole = [name for name, m in zip(own, members.is_member, strict=True) if m and all(name)]
    rng = generator(seed, "controls/recombined")
    firsts, lasts = (
        [found[i] for i in rng.permutation(len(found))[:MAX_RECOMBINED_PARTS]]
        for column in (0, 1)
        for found in [list({fold_name(name[column]): name[column] for name in whole}.values())]
    )
    pairs = rng.permutation(len(firsts) * len(lasts)).tolist()
    ordered = ((firsts[pair // len(lasts)], lasts[pair % len(lasts)]) for pair in pairs)
    names = _take(ordered, n, seen=_folded(own), accepts=accepts)
    return make_candidates(names, is_member=False, control_kind="recombined")


def with_controls(
    candidates: Candidates,
    *,
    wanted: Mapping[str, int],
    seed: int,
    count_pieces: CountPieces = characters,
    on_drawn: Callable[[int], None] = lambda n: None,
) -> Candidates:
    """Return the list followed by controls drawn against its members (section 3.4).

    `wanted` has the numbers of "easy", "hard" and "recombined" ones. Easy and hard ones are matched
    to the members, as `matched_controls` says. None of the drawn names is on the list, and no part
    of an easy or hard one was planted. Fewer come where the generator has no more.
    """
    for what, n in wanted.items():
        if not 0 <= n <= MAX_DRAWN:
            raise AuditError(
                "must be from 0 to {max_drawn:,}.",
                where="{subject} controls",
                max_drawn=MAX_DRAWN,
                subject=what,
            )
    if not any(wanted.values()):
        return candidates
    patients = candidates.without_canaries()
    members = patients.rows([i for i, m in enumerate(patients.is_member) if m is True])
    if not len(members):
        raise AuditError(
            "Controls are drawn against members, and the list has none.",
            where="names",
            do="Add a column is_member with 1 for the names that are in the notes.",
        )
    taken = _folded(zip(candidates.first, candidates.last, strict=True))
    rows = [i for i, m in enumerate(candidates.is_member) if m and candidates.is_canary(i)]
    planted = {fold_name(part) for i in rows for _, part in candidates.parts(i)}

    def is_free(*name: str) -> bool:
        return fold_name(written_name(*name)) not in taken

    def is_whole(*name: str) -> bool:
        return is_free(*name) and planted.isdisjoint(map(fold_name, name))

    for kind in ("easy", "hard"):
        candidates += matched_controls(
            members, n=wanted.get(kind, 0), seed=seed, kind=kind, accepts=is_whole,
            count_pieces=count_pieces, on_drawn=on_drawn,
        )  # fmt: skip
    n = wanted.get("recombined", 0)
    return candidates + recombined_controls(members, n=n, seed=seed, accepts=is_free)


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
    seen = _folded(exclude)
    of_roles = list(zip(_ROLES, (pool.first, pool.last), strict=True))
    pieces, n_tested = (  # [F * L] each
        np.add.outer(*(np.array([of(role, part) for part in parts]) for role, parts in of_roles))
        .ravel()
        for of in (count_pieces, lambda _, part: int(fold_name(part) in tested_parts))
    )  # fmt: skip
    order = _order(pool, seed=seed, purpose="reference")  # [F * L]
    names: list[Name] = []
    for n_pieces, n in n_by_pieces.items():
        n_before = len(names)
        for shared, wanted in ((0, n), (1, min(n, n_least)), (2, min(n, MIN_CONTROLS))):
            here = order[(pieces[order] == n_pieces) & (n_tested[order] == shared)]
            missing = max(0, n_before + wanted - len(names))
            names += _take(_names(pool, here), missing, seen=seen)
    return make_candidates(names, is_member=False, control_kind="reference")


def _order(pool: NamePool, *, seed: int, purpose: str) -> NDArray[np.int64]:
    # [F * L] indices first * L + last, in the order of drawing without replacement.
    share = np.outer(pool.first_share, pool.last_share).ravel()
    return _weighted_order(share, seed=seed, purpose=purpose)


def _weighted_order(share: Floats, *, seed: int, purpose: str) -> NDArray[np.int64]:
    # Efraimidis & Spirakis 2006, doi:10.1016/j.ipl.2005.11.003
    keys = -np.log1p(-generator(seed, f"controls/{purpose}").random(share.size)) / share
    return np.argsort(keys, kind="stable")


def _names(pool: NamePool, order: NDArray[np.int64]) -> Iterator[Name]:
    for index in order.tolist():
        yield pool.first[index // len(pool.last)], pool.last[index % len(pool.last)]


def _take(
    names: Iterable[Name], n: int, *, seen: set[str], accepts: Accepts = anybody
) -> list[Name]:
    """Return the first n names that will do and were not seen; they are then."""
    taken: list[Name] = []
    for name in names if n else ():
        key = fold_name(written_name(*name))
        if key not in seen and accepts(*name):
            seen.add(key)
            taken.append(name)
            if len(taken) == n:
                break
    return taken


def _folded(names: Iterable[Name]) -> set[str]:
    return {fold_name(written_name(*name)) for name in names}


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
    free = [texts[i] for i in drawn if fold_name(texts[i]) not in tested_parts]
    names = [
        (text, "") if role == "first" else ("", text)
        for n_pieces, n in n_by_pieces.items()
        for text in [text for text in free if count_pieces(role, text) == n_pieces][:n]
    ]
    return make_candidates(names, is_member=False, control_kind="reference")


# How well a list is matched

MAX_DIFFERENCE = 0.25
"""Largest standardised mean difference of matched groups (Stuart 2010, doi:10.1214/09-STS313)."""
MAX_SHARE_GAP = 0.1
"""Largest part of the names that may lie in other strata of pieces, or of script."""
CHANCE_ERRORS, CHANCE_NAMES = 2.0, 3
"""Small groups may differ by chance: by this many standard errors of the difference, or names."""


def match_notes(candidates: Candidates, *, count_pieces: CountPieces = characters) -> list[Message]:
    """Say of each kind of control how alike members it is, and what to do where it is not.

    Compared are ln shares of first and of last parts (standardised mean difference: members' mean
    less controls', by the root of the mean of both variances; "?" where a side has fewer than two
    parts that the generator knows, or all are equally common), and the shares of names that would
    have to have other numbers of pieces or be in another script. Planted names are left out.
    """
    import pandas as pd

    names, pools = candidates.without_canaries(), pools_by_script()
    scripts = [script_of(names.full_name(row)) for row in range(len(names))]
    columns: dict[str, list[Any]] = {"script": scripts}
    pieces = []
    for role in _ROLES:
        texts = getattr(names, role)
        known = [getattr(pools.get(script), f"{role}_shares", {}) for script in scripts]
        columns[role] = [
            math.log(shares.get(fold_name(text), math.nan))
            for shares, text in zip(known, texts, strict=True)
        ]
        pieces.append([count_pieces(role, text) if text else 0 for text in texts])
    table = pd.DataFrame(columns | {"pieces": list(zip(*pieces, strict=True))})
    truth, kinds = pd.Series(names.is_member, dtype=object), pd.Series(names.control_kind)
    members = table[truth.eq(True)]
    return [
        note
        for kind in (kinds[kinds.ne("")].unique() if len(members) else ())
        for note in _compared(kind, members, table[kinds.eq(kind)])
    ]


def _compared(kind: str, members: Any, controls: Any) -> Iterator[Message]:
    """Yield what is to be said of two tables of names."""
    first, last = differences = [_difference(members[role], controls[role]) for role in _ROLES]
    pieces, script = gaps = [_gap(members[what], controls[what]) for what in ("pieces", "script")]
    yield Message(
        "Members against {kind} controls: their names are commoner by {first} (first part) "
        "and {last} (last part) standard deviations; {value:.0f} % have other numbers of "
        "word pieces, {value_2:.0f} % another script.",
        kind=kind,
        first="?" if math.isnan(first) else f"{first:+.2f}",
        last="?" if math.isnan(last) else f"{last:+.2f}",
        value=100 * pieces,
        value_2=100 * script,
    )
    n_members, n_controls = len(members), len(controls)
    largest = max(MAX_DIFFERENCE, CHANCE_ERRORS * math.sqrt(1 / n_members + 1 / n_controls))
    largest_gap = max(MAX_SHARE_GAP, CHANCE_NAMES / min(n_members, n_controls)) + 1e-9
    if any(abs(one) > largest for one in differences) or max(gaps) > largest_gap:
        yield Message(
            "The {kind} controls are not matched with the members, so that a model can "
            "tell them apart without any leak; draw controls for this list, or read the "
            "figures that are adjusted for popularity and length.",
            kind=kind,
        )


def _difference(members: Any, controls: Any) -> float:
    spread = math.sqrt((members.var() + controls.var()) / 2)
    return float(members.mean() - controls.mean()) / spread if spread > 0 else math.nan


def _gap(members: Any, controls: Any) -> float:
    shares = (one.value_counts(normalize=True) for one in (members, controls))
    return float(next(shares).sub(next(shares), fill_value=0).abs().sum()) / 2
