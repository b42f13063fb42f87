"""How well a list is matched: whether its controls are as common, as long and spelt as its members.

Comes in: a list, pools with shares, a tokenizer's count of pieces. Goes out: differences by kind of
control, and sentences. Where they differ, a model tells members from controls without any leak.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.membership.candidates import Candidates
from audit.membership.matched_controls import (
    CALIPER_NATS,
    CountPieces,
    Floats,
    characters,
)
from audit.membership.name_pools import NamePool, pool_of_script
from audit.names import fold_name, script_of

MAX_DIFFERENCE = 0.25
"""Largest standardised mean difference of matched groups (Stuart 2010, doi:10.1214/09-STS313)."""
MAX_SHARE_GAP = 0.1
"""Largest part of the names that may lie in other strata of pieces, or of script."""
CHANCE_ERRORS, CHANCE_NAMES = 2.0, 3
"""Small groups may differ by chance: by this many standard errors of the difference, or names."""


@dataclass(frozen=True)
class KindMatch:
    """How alike members and the controls of one kind are.

    Attributes
    ----------
    kind
        One of `CONTROL_KINDS`, or "all".
    n_members, n_controls
        Names on both sides.
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
        shares = {name: {key: list(pair) for key, pair in getattr(self, name).items()}
                  for name in ("pieces", "scripts")}  # fmt: skip
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
        for one in self.kinds:
            if one.kind == "all":
                continue
            first, last = _signed(one.first_difference), _signed(one.last_difference)
            pieces, scripts = _percent(one.pieces_gap), _percent(one.scripts_gap)
            notes.append(
                f"Members against {one.kind} controls: their names are commoner by {first} (first "
                f"part) and {last} (last part) standard deviations; {pieces} % have other numbers "
                f"of word pieces, {scripts} % another script; {one.n_unmatched} of "
                f"{one.n_members} members have no control within the caliper."
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

    Parameters
    ----------
    count_pieces
        None: a character of Han or kana is a piece; other parts are one.
    pool
        Whose shares; None: of the generator of each name's script.
    """
    candidates = candidates.without_canaries()
    members = [row for row, truth in enumerate(candidates.is_member) if truth is True]
    controls = [row for row, truth in enumerate(candidates.is_member) if truth is False]
    if not members or not controls:
        return MatchQuality(())
    facts = _facts(candidates, count=count_pieces or characters, pool=pool)
    kinds = [kind for kind in dict.fromkeys(candidates.control_kind) if kind]
    groups = {kind: [row for row in controls if candidates.control_kind[row] == kind]
              for kind in kinds}  # fmt: skip
    return MatchQuality(tuple(
        _compared(facts, members, rows, kind=kind)
        for kind, rows in ({"all": controls} | groups).items()
    ))  # fmt: skip


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
    differences = [
        _difference(facts.log_share[k, members], facts.log_share[k, controls]) for k in (0, 1)
    ]
    is_known = np.isfinite(facts.log_share)
    unknown = ~(is_known[0] & is_known[1])
    return KindMatch(
        kind=kind,
        n_members=len(members),
        n_controls=len(controls),
        first_difference=differences[0],
        last_difference=differences[1],
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


def _signed(value: float) -> str:
    return f"{value:+.2f}" if math.isfinite(value) else "?"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"
