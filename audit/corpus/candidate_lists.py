"""The candidate list of a corpus: who is named in it, and controls that are nowhere in it.

Comes in: what was counted in a corpus. Goes out: lists of names, and the same as a file.

Source: Nakamura et al., section 3.4. Differs: controls are left out if their full name occurs
anywhere, in either order or with one word between; two more kinds are drawn, of two members' parts,
and ones that match the members in popularity.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from audit.corpus.canaries import Canary, CanaryPlan
from audit.corpus.examine import ListedNames, PatternTally, People
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import (
    Accepts,
    matched_controls,
    recombined_controls,
)
from audit.names.matching import Pair, pair_of
from audit.names.pools import NamePool, with_popularity
from audit.rng import generator
from audit.tables import read_table, write_table
from audit.text import fold_name, written_name

MEMBERS = ("patient", "staff", "canary")
CONTROLS = ("easy", "hard", "recombined", "matched")
LISTS = (*MEMBERS, *CONTROLS)
"""Lists of `candidates.csv`: names in D_private by role, then controls by kind; twins of canaries
are in the list "canary"."""
MAX_POSITIVES = 20_000
"""Names of patients on a list; of more than these, as many are drawn at random."""
MAX_STAFF = 5_000

_COLUMNS = ("first", "last", "is_member", "control_kind", "role", "sex", "n_mentions")
_HEADER = (
    *("list", "first_name", "last_name", "is_member"),
    *("control_kind", "role", "sex", "n_mentions"),
)
_CANARY_HEADER = ("first_name", "last_name", "is_planted", "n_mentions", "group", "pair")


@dataclass(frozen=True)
class Drawing:
    """What names are drawn with: from where, which will do, and the seed."""

    pool: NamePool
    accepts: Accepts | None
    seed: int


def draw_lists(
    tally: PatternTally,
    *,
    people: People,
    found: Counter[Pair],
    plan: CanaryPlan | None,
    drawing: Drawing,
) -> dict[str, Candidates]:
    """Draw the lists of a corpus; no control is anybody's name in it, or a canary's.

    Parameters
    ----------
    tally
        Of the patterns of patients.
    people
        Of the register and the notes; none of them becomes a control either.
    found
        Full names in D_private and how often they occur; everybody's is added to it.
    plan
        The canaries; None without.
    drawing
        The controls' pool and seed.
    """
    pool, seed = drawing.pool, drawing.seed
    names = tally.names
    if len(names) > MAX_POSITIVES:
        rows = generator(seed, "corpus/positives").permutation(len(names))[:MAX_POSITIVES]
        names = tuple(names[row] for row in sorted(rows.tolist()))
    positives = tally.members(names)
    positives = replace(
        positives,
        role=("patient",) * len(names),
        sex=tuple(people.sex_of_name(name) for name in names),
    )
    positives = with_popularity(positives, pool=pool)
    staff = _staff(positives, people, found=found, drawing=drawing)
    canaries = canary_candidates(plan) if plan else make_candidates([])
    taken = {*found, *people.pairs}
    for each in (positives, staff, canaries):
        taken.update(pair_of(*name) for name in zip(each.first, each.last, strict=True))

    def absent(first: str, last: str) -> bool:
        is_free = pair_of(first, last) not in taken and pair_of(last, first) not in taken
        return is_free and (drawing.accepts is None or drawing.accepts(first, last))

    draw = partial(matched_controls, positives, n=len(positives), seed=seed, pool=pool)
    drawn = {
        kind: draw(kind="" if kind == "matched" else kind, accepts=absent).controls
        for kind in ("easy", "hard", "matched")
    }
    recombined = recombined_controls(
        positives, n=len(positives), seed=seed, pool=pool, accepts=absent
    )
    lists = {"patient": positives, "staff": staff, "canary": canaries}
    return lists | drawn | {"recombined": recombined}


def _staff(
    positives: Candidates, people: People, *, found: Counter[Pair], drawing: Drawing
) -> Candidates:
    """Return names of staff that occur in the corpus and are no positives."""
    known = {pair_of(*name) for name in zip(positives.first, positives.last, strict=True)}
    there = [(pair, name) for pair, name in people.staff() if found[pair]]
    order = generator(drawing.seed, "corpus/staff").permutation(len(there))[:MAX_STAFF]
    chosen = {
        pair: name
        for pair, name in (there[i] for i in sorted(order.tolist()))
        if pair not in known and (drawing.accepts is None or drawing.accepts(*name))
    }
    staff = make_candidates(
        list(chosen.values()), is_member=True, n_mentions=[found[pair] for pair in chosen]
    )
    return with_popularity(replace(staff, role=("staff",) * len(staff)), pool=drawing.pool)


def listed_names(lists: Mapping[str, Candidates]) -> tuple[ListedNames, ...]:
    """Return how many names there are of each kind and role."""
    counts: Counter[tuple[str, str]] = Counter()
    for name in LISTS:
        kinds = Counter(zip(lists[name].control_kind, lists[name].role, strict=True))
        for (kind, role), n in sorted(kinds.items()):
            counts[kind if name in MEMBERS else name, role] += n
    return tuple(ListedNames(control_kind=k, role=r, n=n) for (k, r), n in counts.items())


def canary_candidates(plan: CanaryPlan) -> Candidates:
    """Return planted names as members and twins as controls; the i-th of both are a pair."""
    ordered: tuple[Canary, ...] = tuple(
        sorted(plan.canaries, key=lambda canary: (canary.n_mentions == 0, canary.pair))
    )
    return Candidates(
        first=tuple(canary.first for canary in ordered),
        last=tuple(canary.last for canary in ordered),
        is_member=tuple(canary.n_mentions > 0 for canary in ordered),
        control_kind=tuple("" if canary.n_mentions else "canary" for canary in ordered),
        role=("canary",) * len(ordered),
        sex=("",) * len(ordered),
        n_mentions=tuple(canary.n_mentions for canary in ordered),
        popularity=(math.nan,) * len(ordered),
    )


def canaries_csv(plan: CanaryPlan | None) -> bytes:
    """Return the canaries as CSV, planted ones and twins."""
    rows = [
        [c.first, c.last, c.n_mentions > 0, c.n_mentions, c.group, c.pair]
        for c in (plan.canaries if plan else ())
    ]
    return write_table(_CANARY_HEADER, rows).encode()


def candidates_csv(lists: Mapping[str, Candidates]) -> bytes:
    """Return all lists as one CSV file; a name may stand in two lists of controls."""

    def rows() -> Iterator[Sequence[object]]:
        for name in LISTS:
            columns = (getattr(lists[name], column) for column in _COLUMNS)
            yield from ((name, *cells) for cells in zip(*columns, strict=True))

    return write_table(_HEADER, rows()).encode()


def read_candidates(data: bytes, *, lists: Iterable[str]) -> Candidates:
    """Read the names of some lists; one that stands in two of them comes once."""
    wanted = {*lists}
    if not wanted <= {*LISTS}:
        raise AuditError("There is no such list.", where="candidates")
    table = read_table(data, what="candidates")
    if table.header != _HEADER:
        raise AuditError(
            "This is no list of a corpus.", where="candidates", do="Build the corpus again."
        )
    rows: dict[str, tuple[str, ...]] = {}
    for cells in sorted(
        (cells for cells in table.rows if cells[0] in wanted), key=lambda row: LISTS.index(row[0])
    ):
        rows.setdefault(fold_name(written_name(cells[1], cells[2])), cells)
    columns = zip(*rows.values(), strict=True) if rows else ((),) * len(_HEADER)
    _, first, last, is_member, kind, role, sex, n = columns
    return Candidates(
        first=first,
        last=last,
        is_member=tuple(cell == "1" for cell in is_member),
        control_kind=kind,
        role=role,
        sex=sex,
        n_mentions=tuple(int(cell) if cell else None for cell in n),
        popularity=(math.nan,) * len(rows),
    )
