"""Controls: names that are not in the notes; matched ones are as common and as long as a member's.

With matched controls no model can tell members from controls by how common or how long their names
are. A member without a name within the caliper gets the nearest name.

Source: Nakamura et al., section 3.4 (easy and hard). Differs: matched by optimal assignment
(Rosenbaum 1989, doi:10.1080/01621459.1989.10478868), where the paper draws by popularity alone;
that leaves easy controls rarer than members, whose parts are the commonest ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError, Message
from audit.names.candidates import Accepts, Candidates, Name, make_candidates, member_parts
from audit.names.pools import NamePool, pools_by_script
from audit.names.spelling import UNSPELLABLE, CountPieces
from audit.rng import generator
from audit.text import fold_letters, fold_name, is_unspaced, script_of, written_name

if TYPE_CHECKING:
    import pandas as pd


CALIPER_NATS = 0.25
"""Two parts are within the caliper if neither is more than 28 % commoner than the other (ln share)
and if they have the same number of word pieces and the same script."""
PIECE_NATS = 4.0
"""A difference of one word piece counts as much as this difference of ln share."""
N_REFERENCE, MIN_REFERENCE = 20_000, 2_600
"""Reference controls of a list, and at least of each number of word pieces on it. From 2,599
controls on, one name of 130 can be detected. With 20,000 controls a p-value near 0.0004 has a
standard deviation of 0.00014, with 10,000 one of 0.0002; 40,000 controls would take twice the time
to rank and would move no threshold by more."""
N_PAIR_REFERENCE, MIN_PAIR_REFERENCE = 5_000, 200
"""The same where each control costs as much as a listed name, because evidence is of the pair of
its parts. With the numbers above, the demo's list takes five times as many tokens."""

MAX_RECOMBINED_PARTS = 1_000
MAX_DRAWN = 5_000

_ROLES = ("first", "last")
_GROUP = 128  # names assigned together
_N_NEAR, _N_FAR = 5, 200  # parts of each role tried for a name in the first and second round
_BEYOND, _NOBODY = 1e3, 1e9  # cost of a pair beyond the caliper; cost of a pair that is no option

_UNASKED, _OPEN, _REFUSED = range(3)
_NONE = np.zeros(0, dtype=np.int64)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Options = tuple[Ints, Floats]
"""[n] names for a member, and their costs: squared distances plus a charge beyond the caliper."""


def characters(_: str, part: str) -> int:
    """Return a part's number of pieces without a tokenizer: its Han or kana characters, else 1."""
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
    """Draw n distinct controls for members: one for each in turn, in more rounds if n is larger.

    The controls are in the order of their members, and none is a member. There are fewer than n if
    the generator has no more names.

    Parameters
    ----------
    members
        Rows that are no members or are planted names are skipped.
    kind
        "easy": neither part is a part of any member's name. "hard": exactly one part is, and it is
        the first or the last name of this member, by chance.
    pool
        The pool to draw from, for members in its script; None: each script has its own pool.
    on_drawn
        Called with the number of further controls drawn.
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
    turns: list[int] = []  # each round has its own order
    while possible and len(turns) < n:
        turns += rng.permutation(possible).tolist()[: n - len(turns)]
    parts = member_parts(members)
    known_names = _fold_names(zip(members.first, members.last, strict=True))
    numbered_names: list[tuple[int, Name]] = []
    for pool_script, script_pool in pools.items():
        draw = _Draw(
            members, script_pool, kind, parts, known_names, accepts, count_pieces, rng, on_drawn
        )
        draw.take([row for row in turns if script[row] == pool_script])
        numbered_names += draw.numbered_names
    numbered_names.sort(key=lambda numbered_name: numbered_name[0])
    return make_candidates([name for _, name in numbered_names], is_member=False, control_kind=kind)


class _Parts:
    """The parts of one role of a pool that may stand in a control, and their distances."""

    def __init__(
        self, pool: NamePool, role: str, *, excluded_parts: frozenset[str], count: CountPieces
    ) -> None:
        self._shares: dict[str, float] = getattr(pool, f"{role}_shares")
        self._count = partial(count, role)
        free = (text for text in getattr(pool, role) if fold_letters(text) not in excluded_parts)
        self.texts = [text for text in free if self._count(text) < UNSPELLABLE]
        self._log_share = np.log([self._shares[fold_name(text)] for text in self.texts])
        self._pieces = np.array(list(map(self._count, self.texts)), dtype=float)
        self.measure_distance = cache(self._measure_distance)

    def _measure_distance(self, part: str) -> tuple[Floats, Bools, Ints]:
        """Return the distances to a part (nats), which are within the caliper, and near places.

        A part that the generator does not know counts as its rarest part, and no part is within
        its caliper.
        """
        share = self._shares.get(fold_name(part))
        target = math.log(min(self._shares.values()) if share is None else share)
        distances = np.abs(self._log_share - target)
        distances += PIECE_NATS * np.abs(self._pieces - (self._count(part) if part else 0))
        is_near = distances <= CALIPER_NATS
        return distances, is_near & (share is not None), np.flatnonzero(is_near)


@dataclass
class _Draw:
    """Draws the controls of one pool, each name once.

    A name is a number: for an easy control first * L + last, for a hard one its place in `_hard`.
    """

    members: Candidates
    pool: NamePool
    kind: str
    excluded_parts: frozenset[str]
    used_names: set[str]
    accepts: Accepts
    count: CountPieces
    rng: np.random.Generator
    on_drawn: Callable[[int], None]
    numbered_names: list[tuple[int, Name]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Prepare the parts to draw from."""
        self._parts = {
            role: _Parts(self.pool, role, excluded_parts=self.excluded_parts, count=self.count)
            for role in _ROLES
        }
        self._fold_part = cache(fold_letters)
        n_first, self._n_last = (len(self._parts[role].texts) for role in _ROLES)
        # [F * L] what is known of each easy control; a name that is refused once stays refused.
        self._state = np.full(n_first * self._n_last, _UNASKED, dtype=np.int8)
        self._open = defaultdict[str, list[int]](
            list
        )  # numbers of allowed names by their folded form
        self._hard = dict[Name, int]()

    def take(self, turns: Sequence[int]) -> None:
        """Draw a control for each member in turn: a near name by chance, else the nearest one."""
        for options in (self._draw_near_names, self._find_nearest_names):
            groups = [turns[start : start + _GROUP] for start in range(0, len(turns), _GROUP)]
            turns = [row for group in groups for row in self._assign(group, options)]

    def _assign(self, turns: Sequence[int], options: Callable[[int], Options]) -> list[int]:
        """Assign names to members at the least total cost; return the members who got none."""
        from scipy.optimize import linear_sum_assignment

        # There are as many options as members: whatever the others get, one is left.
        options_by_row = {row: options(row) for row in dict.fromkeys(turns)}
        all_numbers = np.concatenate([numbers for numbers, _ in options_by_row.values()])
        _, first, column = np.unique(all_numbers, return_index=True, return_inverse=True)
        names = all_numbers[np.sort(first)]  # a column each, in the order of their first occurrence
        column, end = np.argsort(np.argsort(first))[column], 0
        costs_by_slot = np.full((len(turns), len(names)), _NOBODY)
        slots = defaultdict[int, list[int]](list)
        for slot, row in enumerate(turns):
            slots[row].append(slot)
        for row, (numbers, costs) in options_by_row.items():
            start, end = end, end + len(numbers)
            for slot in slots[row]:
                costs_by_slot[slot, column[start:end]] = costs
        missing, hard_names = dict(enumerate(turns)), list(self._hard)
        assignment = np.stack(linear_sum_assignment(costs_by_slot), axis=1)
        for slot, place in assignment.tolist():
            if costs_by_slot[slot, place] < _NOBODY:
                number = int(names[place])
                name = hard_names[number] if self.kind == "hard" else self._name_of_number(number)
                self.used_names.add(key := self._key(*name))
                self._state[self._open.pop(key, [])] = _REFUSED
                self.numbered_names.append((missing.pop(int(slot)), name))
        self.on_drawn(len(turns) - len(missing))
        return list(missing.values())

    def _key(self, first: str, last: str) -> str:
        """Return `fold_letters` of the full name, composed of cached folded parts."""
        if is_unspaced(first + last):
            return fold_letters(written_name(first, last))
        return f"{self._fold_part(first)} {self._fold_part(last)}".strip()

    def _find_free_places(self, numbers: Ints) -> Ints:
        """Return the places of the first allowed easy controls, 128 at most."""
        free_places = [_NONE]
        for start in range(0, len(numbers), _GROUP):
            group = numbers[start : start + _GROUP]
            for number in group[self._state[group] == _UNASKED].tolist():
                name = self._name_of_number(number)
                key = self._key(*name)
                may_come = key not in self.used_names and self.accepts(*name)
                self._state[number] = _OPEN if may_come else _REFUSED
                if may_come:
                    self._open[key].append(number)
            free_places.append(start + np.flatnonzero(self._state[group] == _OPEN))
            if sum(map(len, free_places)) >= _GROUP:
                break
        return np.concatenate(free_places)[:_GROUP]

    def _join_own_part(self, row: int, sides: Iterable[str], parts: Ints, costs: Floats) -> Options:
        """Return the first allowed hard controls, 128 at most, with one own part of the member."""
        numbers, places = list[int](), list[int]()
        for place, (side, part) in enumerate(zip(sides, parts.tolist(), strict=True)):
            text = self._parts[side].texts[part]
            first, last = self.members.first[row], self.members.last[row]
            name = (text, last) if side == "first" else (first, text)
            if self._key(*name) not in self.used_names and self.accepts(*name):
                numbers.append(self._hard.setdefault(name, len(self._hard)))
                places.append(place)
                if len(places) == _GROUP:
                    break
        return np.array(numbers, dtype=np.int64), costs[places]

    def _measure_parts(self, row: int) -> Iterator[tuple[Floats, Bools, Ints]]:
        return (
            self._parts[role].measure_distance(getattr(self.members, role)[row]) for role in _ROLES
        )

    def _draw_near_names(self, row: int) -> Options:
        """Return some names near a member's, drawn by chance from those within the caliper."""
        first_measures, last_measures = self._measure_parts(row)
        first_distances, is_first_within, first_near = first_measures
        last_distances, is_last_within, last_near = last_measures
        first = self._draw_near_parts(first_distances, first_near)
        last = self._draw_near_parts(last_distances, last_near)
        if self.kind != "hard":
            return self._pair_parts(
                first_distances, is_first_within, last_distances, is_last_within, first, last
            )
        # One part stays: either one, unless only one side has a match for the other part.
        options_by_side = {
            "first": (first, first_distances, is_first_within),
            "last": (last, last_distances, is_last_within),
        }
        sides: list[str] = self.rng.permutation(_ROLES).tolist()
        sides.sort(key=lambda side: not options_by_side[side][2][options_by_side[side][0]].any())
        parts, distances, is_within = options_by_side[sides[0]]
        costs = _price_pairs(distances[parts] ** 2, is_within[parts])
        return self._join_own_part(row, repeat(sides[0], len(parts)), parts, costs)

    def _draw_near_parts(self, distances: Floats, near_parts: Ints) -> Ints:
        chosen = self.rng.permutation(near_parts)[:_N_NEAR]
        if len(chosen) < _N_NEAR:
            shuffled = self.rng.permutation(len(distances))
            shuffled_distances = distances[shuffled]
            # The order is that of a stable sort of all, which takes ten times as long.
            nearest = np.flatnonzero(
                shuffled_distances <= np.sort(shuffled_distances)[:_N_NEAR].max(initial=0)
            )
            order = shuffled[nearest[np.argsort(shuffled_distances[nearest], kind="stable")]][
                len(near_parts) :
            ]
            chosen = np.concatenate([chosen, order[: _N_NEAR - len(chosen)]])
        return chosen

    def _find_nearest_names(self, row: int) -> Options:
        """Return the names nearest to a member's, out of some 40,000."""
        (first_distances, is_first_within, _), (last_distances, is_last_within, _) = (
            self._measure_parts(row)
        )
        if self.kind != "hard":
            first, last = (
                np.argsort(distances**2, kind="stable")[:_N_FAR]
                for distances in (first_distances, last_distances)
            )
            return self._pair_parts(
                first_distances,
                is_first_within,
                last_distances,
                is_last_within,
                first,
                last,
                is_sorted=True,
            )
        squared = np.concatenate([first_distances, last_distances]) ** 2
        order = np.argsort(squared, kind="stable")
        is_last = order >= len(first_distances)
        costs = _price_pairs(squared, np.concatenate([is_first_within, is_last_within]))[order]
        sides = map(_ROLES.__getitem__, is_last.tolist())
        return self._join_own_part(row, sides, order - len(first_distances) * is_last, costs)

    def _pair_parts(
        self,
        first_distances: Floats,
        is_first_within: Bools,
        last_distances: Floats,
        is_last_within: Bools,
        first: Ints,
        last: Ints,
        *,
        is_sorted: bool = False,
    ) -> Options:
        """Return allowed pairs of some first and last parts: the first or the nearest ones."""
        numbers = np.add.outer(first * self._n_last, last).ravel()
        squared = np.add.outer(first_distances[first] ** 2, last_distances[last] ** 2).ravel()
        places = _NONE
        for cells in _yield_free_cells(
            squared, self._state[numbers] != _REFUSED, is_sorted=is_sorted
        ):
            places = np.concatenate([places, cells[self._find_free_places(numbers[cells])]])[
                :_GROUP
            ]
            if len(places) == _GROUP:
                break
        i, j = np.divmod(places, max(1, len(last)))
        costs = _price_pairs(squared[places], is_first_within[first[i]] & is_last_within[last[j]])
        return numbers[places], costs

    def _name_of_number(self, number: int) -> Name:
        first, last = divmod(number, self._n_last)
        return self._parts["first"].texts[first], self._parts["last"].texts[last]


def _yield_free_cells(squared: Floats, may_come: Bools, *, is_sorted: bool) -> Iterator[Ints]:
    """Yield the places of allowed pairs: in their order, or the nearest first and then all by cost.

    The nearest pairs are mostly enough, and finding them is much quicker than sorting all.
    """
    cells = np.flatnonzero(may_come)
    if not is_sorted:
        yield cells
    elif len(cells):
        near_cells = np.argpartition(squared, min(4 * _GROUP, len(squared)) - 1)[: 4 * _GROUP]
        for free_cells in (near_cells[may_come[near_cells]], cells):
            yield from (free_cells[rising] for rising in _sort_cells(squared[free_cells]))


def _sort_cells(costs: Floats) -> Iterator[Ints]:
    """Yield the places of the least costs and then of the others, in the order of a stable sort."""
    n_first = min(4 * _GROUP, len(costs))
    least = np.partition(costs, n_first - 1)[n_first - 1] if n_first else 0.0
    for is_chosen in (costs <= least, costs > least):
        places = np.flatnonzero(is_chosen)
        yield places[np.argsort(costs[places], kind="stable")]


def _price_pairs(squared: Floats, is_within: Bools) -> Floats:
    # First as many pairs as possible lie within the caliper; then the sum of squares is least.
    return squared + np.where(is_within, 0.0, _BEYOND)


def draw_names(
    pool: NamePool,
    *,
    n: int,
    seed: int,
    accepts: Accepts = anybody,
    purpose: str = "names",
) -> Candidates:
    """Draw n distinct full names with unknown membership, or fewer if the pool has no more.

    `purpose` names the stream: the same seed with another purpose gives another draw.
    """
    order = _names_in_order(pool, _draw_order(pool, seed=seed, purpose=purpose))
    return make_candidates(_take_names(order, n, used_names=set(), accepts=accepts))


def recombined_controls(
    members: Candidates, *, n: int, seed: int, accepts: Accepts = anybody
) -> Candidates:
    """Draw n controls made of one member's first and another's last name, never a member's own.

    Every pair is as likely as any other. If the list has more than 1,000 first or last names,
    1,000 of them are drawn first.
    """
    listed_names = list(zip(members.first, members.last, strict=True))
    member_names = [
        name for name, m in zip(listed_names, members.is_member, strict=True) if m and all(name)
    ]
    rng = generator(seed, "controls/recombined")
    firsts, lasts = (
        [parts[i] for i in rng.permutation(len(parts))[:MAX_RECOMBINED_PARTS]]
        for column in (0, 1)
        for parts in [
            list({fold_letters(name[column]): name[column] for name in member_names}.values())
        ]
    )
    pairs = rng.permutation(len(firsts) * len(lasts)).tolist()
    ordered = ((firsts[pair // len(lasts)], lasts[pair % len(lasts)]) for pair in pairs)
    names = _take_names(ordered, n, used_names=_fold_names(listed_names), accepts=accepts)
    return make_candidates(names, is_member=False, control_kind="recombined")


def with_controls(
    candidates: Candidates,
    *,
    n_by_kind: Mapping[str, int],
    seed: int,
    count_pieces: CountPieces = characters,
    on_drawn: Callable[[int], None] = lambda n: None,
) -> Candidates:
    """Return the list followed by controls drawn against its members (section 3.4).

    `n_by_kind` has the numbers of "easy", "hard" and "recombined" controls. Easy and hard controls
    are matched to the members, as `matched_controls` says. None of the drawn names is on the list,
    and no part of an easy or hard control was planted. There are fewer if the generator has no
    more names.
    """
    for control_kind, n in n_by_kind.items():
        if not 0 <= n <= MAX_DRAWN:
            raise AuditError(
                "must be from 0 to {max_drawn:,}.",
                where="{subject} controls",
                max_drawn=MAX_DRAWN,
                subject=control_kind,
            )
    if not any(n_by_kind.values()):
        return candidates
    patients = candidates.without_canaries()
    members = patients.rows([i for i, m in enumerate(patients.is_member) if m is True])
    if not len(members):
        raise AuditError(
            "Controls are drawn against members, and the list has none.",
            where="names",
            do="Add a column is_member with 1 for the names that are in the notes.",
        )
    listed_names = _fold_names(zip(candidates.first, candidates.last, strict=True))
    rows = [i for i, m in enumerate(candidates.is_member) if m and candidates.is_canary(i)]
    planted = {fold_letters(part) for i in rows for _, part in candidates.parts(i)}

    def is_free(*name: str) -> bool:
        return fold_letters(written_name(*name)) not in listed_names

    def is_free_of_planted(*name: str) -> bool:
        return is_free(*name) and planted.isdisjoint(map(fold_letters, name))

    for kind in ("easy", "hard"):
        candidates += matched_controls(
            members,
            n=n_by_kind.get(kind, 0),
            seed=seed,
            kind=kind,
            accepts=is_free_of_planted,
            count_pieces=count_pieces,
            on_drawn=on_drawn,
        )
    n = n_by_kind.get("recombined", 0)
    source = candidates.source
    candidates += recombined_controls(members, n=n, seed=seed, accepts=is_free)
    return candidates.with_source(source) if source else candidates


def with_own_controls(listed: Candidates, people: Candidates) -> Candidates:
    """Return a list followed by people of the hospital who are in none of the training notes.

    A person who is on the list is left out, whatever the list says of them. Raises AuditError if
    nobody is left, or if the file says that one of these people is in the notes.
    """
    if n_members := people.is_member.count(True):
        raise AuditError(
            "{n} rows say that the person is in the notes.",
            where="own controls",
            do="Own controls are in none of the training notes: leave these rows out.",
            n=n_members,
        )
    listed_names = _fold_names(zip(listed.first, listed.last, strict=True))
    rows = [
        row
        for row in range(len(people))
        if fold_name(written_name(people.first[row], people.last[row])) not in listed_names
    ]
    n = len(rows)
    if not n:
        raise AuditError(
            "Everybody in the file is on the list already.",
            where="own controls",
            do="Give people of the hospital who are not on the list.",
        )
    controls = replace(
        people.rows(rows),
        is_member=(False,) * n,
        control_kind=("own",) * n,
        is_kind_guessed=(False,) * n,
        row=(None,) * n,
    )
    return (listed + controls).with_source("own")


def reference_controls(
    pool: NamePool,
    *,
    n_by_pieces: Mapping[int, int],
    count_pieces: CountPieces,
    exclude: Iterable[Name] = (),
    seed: int,
) -> Candidates:
    """Draw people of the generator's population: names of given numbers of word pieces.

    They are drawn at random. A name that shares a part with a tested name stays, because a stranger
    of the same population can share a part too.

    Parameters
    ----------
    n_by_pieces
        How many names to draw for each total number of word pieces, or fewer if the pool has
        fewer. The names are in the order of this mapping, each group in the order drawn.
    exclude
        Full names, (first, last), that must not be drawn: those in the notes and on the list.
    """
    used_names = _fold_names(exclude)
    counts = [
        np.array([count_pieces(role, part) for part in parts])
        for role, parts in zip(_ROLES, (pool.first, pool.last), strict=True)
    ]
    pieces = np.add.outer(*counts).ravel()  # [F * L]
    order = _draw_order(pool, seed=seed, purpose="reference")  # [F * L]
    names: list[Name] = []
    for n_pieces, n in n_by_pieces.items():
        names += _take_names(
            _names_in_order(pool, order[pieces[order] == n_pieces]), n, used_names=used_names
        )
    return make_candidates(names, is_member=False, control_kind="reference")


def _draw_order(pool: NamePool, *, seed: int, purpose: str) -> NDArray[np.int64]:
    # Returns [F * L] indices first * L + last, in the order of drawing without replacement.
    share = np.outer(pool.first_share, pool.last_share).ravel()
    return _draw_weighted_order(share, seed=seed, purpose=purpose)


def _draw_weighted_order(share: Floats, *, seed: int, purpose: str) -> NDArray[np.int64]:
    # Efraimidis & Spirakis 2006, doi:10.1016/j.ipl.2005.11.003
    keys = -np.log1p(-generator(seed, f"controls/{purpose}").random(share.size)) / share
    return np.argsort(keys, kind="stable")


def _names_in_order(pool: NamePool, order: NDArray[np.int64]) -> Iterator[Name]:
    for index in order.tolist():
        yield pool.first[index // len(pool.last)], pool.last[index % len(pool.last)]


def _take_names(
    names: Iterable[Name], n: int, *, used_names: set[str], accepts: Accepts = anybody
) -> list[Name]:
    """Return the first n names that are accepted and unused, and add them to the used ones."""
    free_names: list[Name] = []
    for name in names if n else ():
        key = fold_letters(written_name(*name))
        if key not in used_names and accepts(*name):
            used_names.add(key)
            free_names.append(name)
            if len(free_names) == n:
                break
    return free_names


def _fold_names(names: Iterable[Name]) -> set[str]:
    return {fold_letters(written_name(*name)) for name in names}


def part_controls(
    pool: NamePool,
    *,
    role: str,
    n_by_pieces: Mapping[int, int],
    count_pieces: CountPieces,
    exclude: frozenset[str] = frozenset(),
    seed: int,
) -> Candidates:
    """Draw controls of one part alone, for listed names of which only that part is known.

    The parameters are those of `reference_controls`; `role` is "first" or "last". Names in Han or
    kana that cannot be split have one part: their controls are whole names of the generator.
    """
    texts, shares = getattr(pool, role), getattr(pool, f"{role}_share")
    order = _draw_weighted_order(np.array(shares), seed=seed, purpose=f"{role} alone").tolist()
    free = [texts[i] for i in order if fold_letters(texts[i]) not in exclude]
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
"""Largest share of the names that may lie in other strata of pieces, or of script."""
CHANCE_ERRORS, CHANCE_NAMES = 2.0, 3
"""Small groups may differ by chance: by this many standard errors of the difference, or names."""


def report_matching(
    candidates: Candidates, *, count_pieces: CountPieces = characters
) -> list[Message]:
    """Report how well each kind of control is matched with the members, with advice if it is not.

    Two things are compared. The first is the ln share of first and of last parts, as a standardised
    mean difference: the members' mean minus the controls', divided by the root of the mean of both
    variances; "?" if a side has fewer than two parts that the generator knows, or if all parts are
    equally common. The second is the share of names that would need another number of pieces or
    another script. Planted names are left out.
    """
    import pandas as pd

    names, pools = candidates.without_canaries(), pools_by_script()
    scripts = [script_of(names.full_name(row)) for row in range(len(names))]
    columns: dict[str, Sequence[str | float]] = {"script": scripts}
    pieces = []
    for role in _ROLES:
        texts = getattr(names, role)
        share_tables = [getattr(pools.get(script), f"{role}_shares", {}) for script in scripts]
        columns[role] = [
            math.log(shares.get(fold_name(text), math.nan))
            for shares, text in zip(share_tables, texts, strict=True)
        ]
        pieces.append([count_pieces(role, text) if text else 0 for text in texts])
    table = pd.DataFrame(columns | {"pieces": list(zip(*pieces, strict=True))})
    truth, kinds = pd.Series(names.is_member, dtype=object), pd.Series(names.control_kind)
    members = table[truth.eq(True)]
    return [
        note
        for kind in (kinds[kinds.ne("")].unique() if len(members) else ())
        for note in _compare_groups(kind, members, table[kinds.eq(kind)])
    ]


def _compare_groups(kind: str, members: pd.DataFrame, controls: pd.DataFrame) -> Iterator[Message]:
    """Yield the messages on two tables of names."""
    first, last = differences = [_mean_difference(members[role], controls[role]) for role in _ROLES]
    pieces, script = gaps = [
        _share_gap(members[column], controls[column]) for column in ("pieces", "script")
    ]
    yield Message(
        "Members against {kind} controls: their names are commoner by {first} (first part) "
        "and {last} (last part) standard deviations; {value:.0f} % have other numbers of "
        "word pieces, {value_2:.0f} % another script.",
        kind=kind,
        first=_signed(first),
        last=_signed(last),
        value=100 * pieces,
        value_2=100 * script,
    )
    n_members, n_controls = len(members), len(controls)
    largest = max(MAX_DIFFERENCE, CHANCE_ERRORS * math.sqrt(1 / n_members + 1 / n_controls))
    largest_gap = max(MAX_SHARE_GAP, CHANCE_NAMES / min(n_members, n_controls)) + 1e-9
    if any(abs(difference) > largest for difference in differences) or max(gaps) > largest_gap:
        yield Message(
            "The {kind} controls are not matched with the members, so that a model can "
            "tell them apart without any leak; draw controls for this list, or read the "
            "figures that are adjusted for popularity and length.",
            kind=kind,
        )


def _signed(difference: float) -> str:
    """Return a difference with its sign; "?" where it is unknown."""
    number = "?" if math.isnan(difference) else f"{difference:+z.2f}"
    return number.replace("-", "\N{MINUS SIGN}")


def _mean_difference(members: pd.Series[float], controls: pd.Series[float]) -> float:
    spread = math.sqrt((members.var() + controls.var()) / 2)
    return float(members.mean() - controls.mean()) / spread if spread > 0 else math.nan


def _share_gap(members: pd.Series[str], controls: pd.Series[str]) -> float:
    shares = (table.value_counts(normalize=True) for table in (members, controls))
    return float(next(shares).sub(next(shares), fill_value=0).abs().sum()) / 2
