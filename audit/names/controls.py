"""Controls: names that are not in the notes; matched ones are as common and as long as a member's.

With matched controls no model tells members from controls by how common or how long their names
are. Who has no name within the caliper gets the nearest.

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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.errors import AuditError, Message
from audit.names.candidates import Accepts, Candidates, Name, make_candidates, member_parts
from audit.names.pools import NamePool, pools_by_script
from audit.names.spelling import UNSPELLABLE, CountPieces
from audit.rng import generator
from audit.text import fold_letters, fold_name, is_unspaced, script_of, written_name

CALIPER_NATS = 0.25
"""Two parts are within the caliper if neither is more than 28 % commoner (ln share), and both have
as many word pieces and the same script."""
PIECE_NATS = 4.0
"""A word piece more or less is as far as this difference of ln share."""
N_REFERENCE, MIN_REFERENCE = 20_000, 2_600
"""Reference controls of a list, and of each number of word pieces on it. One name of 130 is seen
from 2,599 controls on. With 20,000 a p-value near 0.0004 has a standard deviation of 0.00014, with
half as many 0.0002; 40,000 would take twice the time to rank and move no threshold by more."""

MAX_RECOMBINED_PARTS = 1_000
MAX_DRAWN = 5_000

_ROLES = ("first", "last")
_GROUP = 128  # names assigned together
_N_NEAR, _N_FAR = 5, 200  # parts of each role that are tried for a name, at first and then
_BEYOND, _NOBODY = 1e3, 1e9  # cost of a pair beyond the caliper; cost of a pair that is no option

_UNASKED, _OPEN, _REFUSED = range(3)
_NONE = np.zeros(0, dtype=np.int64)

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Options = tuple[Ints, Floats]
"""[n] names for a member, and what they cost: the squared distance, and more beyond the caliper."""


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
        free = (text for text in getattr(pool, role) if fold_letters(text) not in taken)
        self.texts = [text for text in free if self._count(text) < UNSPELLABLE]
        self._log_share = np.log([self._shares[fold_name(text)] for text in self.texts])
        self._pieces = np.array(list(map(self._count, self.texts)), dtype=float)
        self.distance = cache(self._distance)

    def _distance(self, part: str) -> tuple[Floats, Bools, Ints]:
        """Return how far each lies from a part, in nats, if within the caliper, and who is near.

        A part that the generator does not know counts as its rarest, with none in its caliper.
        """
        share = self._shares.get(fold_name(part))
        target = math.log(min(self._shares.values()) if share is None else share)
        far = np.abs(self._log_share - target)
        far += PIECE_NATS * np.abs(self._pieces - (self._count(part) if part else 0))
        is_near = far <= CALIPER_NATS
        return far, is_near & (share is not None), np.flatnonzero(is_near)


@dataclass
class _Draw:
    """Controls of one pool as they are drawn, each name once.

    A name is a number: of an easy control first * L + last, of a hard one in the order of coming.
    """

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
        self._folded = cache(fold_letters)
        n_first, self._n_last = (len(self._parts[role].texts) for role in _ROLES)
        # [F * L] what was found out of an easy control; who may not come once never may again.
        self._state = np.full(n_first * self._n_last, _UNASKED, dtype=np.int8)
        self._open = defaultdict[str, list[int]](list)  # those that may, by the name as compared
        self._hard = dict[Name, int]()

    def take(self, turns: Sequence[int]) -> None:
        """Draw a control for each member in turn: of near names by chance, else the nearest."""
        for options in (self._near, self._nearest):
            groups = [turns[start : start + _GROUP] for start in range(0, len(turns), _GROUP)]
            turns = [row for group in groups for row in self._assign(group, options)]

    def _assign(self, turns: Sequence[int], options: Callable[[int], Options]) -> list[int]:
        """Give each member the name that suits all best; return those who got none."""
        from scipy.optimize import linear_sum_assignment

        # As many options as members: whatever the others get, one is left.
        of_row = {row: options(row) for row in dict.fromkeys(turns)}
        every = np.concatenate([numbers for numbers, _ in of_row.values()])
        _, first, column = np.unique(every, return_index=True, return_inverse=True)
        names = every[np.sort(first)]  # a column each, in the order in which they came
        column, end = np.argsort(np.argsort(first))[column], 0
        of_slot = np.full((len(turns), len(names)), _NOBODY)
        slots = defaultdict[int, list[int]](list)
        for slot, row in enumerate(turns):
            slots[row].append(slot)
        for row, (numbers, costs) in of_row.items():
            start, end = end, end + len(numbers)
            for slot in slots[row]:
                of_slot[slot, column[start:end]] = costs
        missing, drawn = dict(enumerate(turns)), list(self._hard)
        for slot, place in zip(*linear_sum_assignment(of_slot), strict=True):
            if of_slot[slot, place] < _NOBODY:
                number = int(names[place])
                name = drawn[number] if self.kind == "hard" else self._name(number)
                self.seen.add(key := self._key(*name))
                self._state[self._open.pop(key, [])] = _REFUSED
                self.drawn.append((missing.pop(int(slot)), name))
        self.on_drawn(len(turns) - len(missing))
        return list(missing.values())

    def _key(self, first: str, last: str) -> str:
        """Return `fold_letters` of the written name, from the parts as folded once."""
        if is_unspaced(first + last):
            return fold_letters(written_name(first, last))
        return f"{self._folded(first)} {self._folded(last)}".strip()

    def _those_who_may(self, numbers: Ints) -> Ints:
        """Return the places of the first easy controls, 128 at most, that may come."""
        found = [_NONE]
        for start in range(0, len(numbers), _GROUP):
            some = numbers[start : start + _GROUP]
            for number in some[self._state[some] == _UNASKED].tolist():
                name = self._name(number)
                key = self._key(*name)
                may_come = key not in self.seen and self.accepts(*name)
                self._state[number] = _OPEN if may_come else _REFUSED
                if may_come:
                    self._open[key].append(number)
            found.append(start + np.flatnonzero(self._state[some] == _OPEN))
            if sum(map(len, found)) >= _GROUP:
                break
        return np.concatenate(found)[:_GROUP]

    def _with_own_part(self, row: int, sides: Iterable[str], parts: Ints, costs: Floats) -> Options:
        """Return the first hard controls, 128 at most, that may come, of one part of each side."""
        numbers, places = list[int](), list[int]()
        for place, (side, part) in enumerate(zip(sides, parts.tolist(), strict=True)):
            text = self._parts[side].texts[part]
            first, last = self.members.first[row], self.members.last[row]
            name = (text, last) if side == "first" else (first, text)
            if self._key(*name) not in self.seen and self.accepts(*name):
                numbers.append(self._hard.setdefault(name, len(self._hard)))
                places.append(place)
                if len(places) == _GROUP:
                    break
        return np.array(numbers, dtype=np.int64), costs[places]

    def _distances(self, row: int) -> Iterator[tuple[Floats, Bools, Ints]]:
        return (self._parts[role].distance(getattr(self.members, role)[row]) for role in _ROLES)

    def _near(self, row: int) -> Options:
        """Return some names near a member's, drawn by chance from those within the caliper."""
        (far, is_within, near), (farther, is_too, nearby) = self._distances(row)
        first, last = self._some_near(far, near), self._some_near(farther, nearby)
        if self.kind != "hard":
            return self._pairs(far, is_within, farther, is_too, first, last)
        # One part stays: either, unless only one of the others has a match.
        found = {"first": (first, far, is_within), "last": (last, farther, is_too)}
        sides: list[str] = self.rng.permutation(_ROLES).tolist()
        sides.sort(key=lambda side: not found[side][2][found[side][0]].any())
        near, far, is_within = found[sides[0]]
        costs = _cost(far[near] ** 2, is_within[near])
        return self._with_own_part(row, repeat(sides[0], len(near)), near, costs)

    def _some_near(self, far: Floats, within: Ints) -> Ints:
        chosen = self.rng.permutation(within)[:_N_NEAR]
        if len(chosen) < _N_NEAR:
            shuffled = self.rng.permutation(len(far))
            off = far[shuffled]
            # As in a stable sort of all, which takes ten times as long.
            few = np.flatnonzero(off <= np.sort(off)[:_N_NEAR].max(initial=0))
            order = shuffled[few[np.argsort(off[few], kind="stable")]][len(within) :]
            chosen = np.concatenate([chosen, order[: _N_NEAR - len(chosen)]])
        return chosen

    def _nearest(self, row: int) -> Options:
        """Return the names nearest to a member's, of some 40,000."""
        (far, is_within, _), (farther, is_too, _) = self._distances(row)
        if self.kind != "hard":
            first, last = (np.argsort(one**2, kind="stable")[:_N_FAR] for one in (far, farther))
            return self._pairs(far, is_within, farther, is_too, first, last, is_sorted=True)
        both = np.concatenate([far, farther]) ** 2
        order = np.argsort(both, kind="stable")
        is_last = order >= len(far)
        costs = _cost(both, np.concatenate([is_within, is_too]))[order]
        sides = map(_ROLES.__getitem__, is_last.tolist())
        return self._with_own_part(row, sides, order - len(far) * is_last, costs)

    def _pairs(
        self,
        far: Floats,
        is_within: Bools,
        farther: Floats,
        is_too: Bools,
        first: Ints,
        last: Ints,
        *,
        is_sorted: bool = False,
    ) -> Options:
        """Return those of all pairs of some parts that may come: in their order, or the nearest."""
        numbers = np.add.outer(first * self._n_last, last).ravel()
        squared = np.add.outer(far[first] ** 2, farther[last] ** 2).ravel()
        found = _NONE
        for some in _in_turn(squared, self._state[numbers] != _REFUSED, is_sorted=is_sorted):
            found = np.concatenate([found, some[self._those_who_may(numbers[some])]])[:_GROUP]
            if len(found) == _GROUP:
                break
        i, j = np.divmod(found, max(1, len(last)))
        costs = _cost(squared[found], is_within[first[i]] & is_too[last[j]])
        return numbers[found], costs

    def _name(self, number: int) -> Name:
        first, last = divmod(number, self._n_last)
        return self._parts["first"].texts[first], self._parts["last"].texts[last]


def _in_turn(squared: Floats, may_come: Bools, *, is_sorted: bool) -> Iterator[Ints]:
    """Yield places of pairs that may come: as they stand, or the nearest, then all as they rise.

    The nearest are mostly enough, and much sooner found than all in order.
    """
    cells = np.flatnonzero(may_come)
    if not is_sorted:
        yield cells
    elif len(cells):
        some = np.argpartition(squared, min(4 * _GROUP, len(squared)) - 1)[: 4 * _GROUP]
        for few in (some[may_come[some]], cells):
            yield from (few[rising] for rising in _rising(squared[few]))


def _rising(values: Floats) -> Iterator[Ints]:
    """Yield the places of the least values and then of the others, as a stable sort has them."""
    n_first = min(4 * _GROUP, len(values))
    least = np.partition(values, n_first - 1)[n_first - 1] if n_first else 0.0
    for some in (values <= least, values > least):
        places = np.flatnonzero(some)
        yield places[np.argsort(values[places], kind="stable")]


def _cost(squared: Floats, is_within: Bools) -> Floats:
    # As many as can be lie within the caliper; then the sum of squares is least.
    return squared + np.where(is_within, 0.0, _BEYOND)


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
        for found in [list({fold_letters(name[column]): name[column] for name in whole}.values())]
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
    planted = {fold_letters(part) for i in rows for _, part in candidates.parts(i)}

    def is_free(*name: str) -> bool:
        return fold_letters(written_name(*name)) not in taken

    def is_whole(*name: str) -> bool:
        return is_free(*name) and planted.isdisjoint(map(fold_letters, name))

    for kind in ("easy", "hard"):
        candidates += matched_controls(
            members,
            n=wanted.get(kind, 0),
            seed=seed,
            kind=kind,
            accepts=is_whole,
            count_pieces=count_pieces,
            on_drawn=on_drawn,
        )
    n = wanted.get("recombined", 0)
    source = candidates.source
    candidates += recombined_controls(members, n=n, seed=seed, accepts=is_free)
    return candidates.with_source(source) if source else candidates


def with_own_controls(listed: Candidates, people: Candidates) -> Candidates:
    """Return a list followed by people of the hospital who are in none of the training notes.

    A person who is on the list is left out, whatever the list says of them. Raises AuditError where
    nobody is left, or where one of them is said to be in the notes.
    """
    if n_members := people.is_member.count(True):
        raise AuditError(
            "{n} rows say that the person is in the notes.",
            where="own controls",
            do="Own controls are in none of the training notes: leave these rows out.",
            n=n_members,
        )
    taken = _folded(zip(listed.first, listed.last, strict=True))
    rows = [
        row
        for row in range(len(people))
        if fold_name(written_name(people.first[row], people.last[row])) not in taken
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

    They are drawn at random. A name that shares a part with a tested name stays, for a stranger of
    the same population can share a part too.

    Parameters
    ----------
    n_by_pieces
        How many names to draw for each total number of word pieces; fewer come where the pool has
        fewer. The names come in its order, each group in the order drawn.
    exclude
        Full names, (first, last), that must not come: those in the notes and on the list.
    """
    seen = _folded(exclude)
    counts = [
        np.array([count_pieces(role, part) for part in parts])
        for role, parts in zip(_ROLES, (pool.first, pool.last), strict=True)
    ]
    pieces = np.add.outer(*counts).ravel()  # [F * L]
    order = _order(pool, seed=seed, purpose="reference")  # [F * L]
    names: list[Name] = []
    for n_pieces, n in n_by_pieces.items():
        names += _take(_names(pool, order[pieces[order] == n_pieces]), n, seen=seen)
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
        key = fold_letters(written_name(*name))
        if key not in seen and accepts(*name):
            seen.add(key)
            taken.append(name)
            if len(taken) == n:
                break
    return taken


def _folded(names: Iterable[Name]) -> set[str]:
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

    Parameters as in `reference_controls`; `role` is "first" or "last". Names in Han or kana that
    cannot be split are written in one part: their controls are whole names of the generator.
    """
    texts, shares = getattr(pool, role), getattr(pool, f"{role}_share")
    drawn = _weighted_order(np.array(shares), seed=seed, purpose=f"{role} alone").tolist()
    free = [texts[i] for i in drawn if fold_letters(texts[i]) not in exclude]
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
