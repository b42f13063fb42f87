"""The candidate list of a corpus: who is named in it, and controls that are nowhere in it.

Comes in: what was counted in a corpus. Goes out: lists of names, and the same as a file.

Source: Nakamura et al., section 3.4. Differs: controls are left out if their full name occurs
anywhere, in either order or with one word between; one more kind is drawn, of two members' parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from audit.corpus.canaries import CanaryPlan, is_absent
from audit.corpus.examine import ListedNames, PatternTally, People
from audit.errors import AuditError
from audit.names.candidates import Candidates, make_candidates
from audit.names.controls import Accepts, matched_controls, recombined_controls
from audit.names.matching import Pair, pair_of
from audit.names.pools import NamePool
from audit.rng import generator
from audit.tables import read_table, write_table
from audit.text import fold_name, written_name

MEMBERS = ("patient", "staff", "canary")
CONTROLS = ("easy", "hard", "recombined")
LISTS = (*MEMBERS, *CONTROLS)
"""Lists of `candidates.csv`: names in D_private by role, then controls by kind; twins of canaries
are in the list "canary"."""
MAX_POSITIVES = 20_000
"""Names of patients on a list; of more than these, as many are drawn at random."""

_COLUMNS = ("first", "last", "is_member", "control_kind", "role", "sex", "n_mentions")
_HEADER = ("list", "first_name", "last_name", *_COLUMNS[2:])


def draw_lists(
    tally: PatternTally,
    *,
    people: People,
    found: Counter[Pair],
    plan: CanaryPlan,
    pool: NamePool,
    accepts: Accepts | None,
    seed: int,
) -> dict[str, Candidates]:
    """Draw the lists of a corpus; no control is anybody's name in it, or a canary's.

    `tally` is of the patterns of patients; `found` has full names in D_private and how often they
    occur; controls are drawn from `pool`, those that `accepts` takes.
    """
    names = tally.names
    if len(names) > MAX_POSITIVES:
        rows = generator(seed, "corpus/positives").permutation(len(names))[:MAX_POSITIVES]
        names = tuple(names[row] for row in sorted(rows.tolist()))
    positives = replace(
        tally.members(names),
        role=("patient",) * len(names),
        sex=tuple(people.sex_of_name(name) for name in names),
    )
    known = {pair_of(*name) for name in names}
    will_do = accepts or (lambda *_: True)
    there = [
        (name, found[pair]) for pair, name in people.staff.items()
        if found[pair] and pair not in known and will_do(*name)
    ]  # fmt: skip
    staff = make_candidates(
        [name for name, _ in there], is_member=True, n_mentions=[n for _, n in there]
    )
    staff = replace(staff, role=("staff",) * len(staff))
    canaries = canary_candidates(plan)
    taken = {*found, *people.pairs, *known, *map(pair_of, canaries.first, canaries.last)}

    def is_free(first: str, last: str) -> bool:
        return is_absent(taken, first, last) and will_do(first, last)

    drawing: dict[str, Any] = {"n": len(names), "seed": seed, "accepts": is_free}
    return {
        "patient": positives,
        "staff": staff,
        "canary": canaries,
        "easy": matched_controls(positives, kind="easy", pool=pool, **drawing),
        "hard": matched_controls(positives, kind="hard", pool=pool, **drawing),
        "recombined": recombined_controls(positives, **drawing),
    }


def listed_names(lists: Mapping[str, Candidates]) -> tuple[ListedNames, ...]:
    """Return how many names there are of each kind and role."""
    counts = Counter(
        one
        for name in LISTS
        for one in sorted(zip(lists[name].control_kind, lists[name].role, strict=True))
    )
    return tuple(ListedNames(control_kind=k, role=r, n=n) for (k, r), n in counts.items())


def canary_candidates(plan: CanaryPlan) -> Candidates:
    """Return planted names as members and twins as controls; the i-th of both are a pair."""
    ordered = sorted(plan.canaries, key=lambda canary: not canary.n_mentions)
    n_mentions = tuple(canary.n_mentions for canary in ordered)
    return replace(
        make_candidates([canary[:2] for canary in ordered], n_mentions=n_mentions),
        is_member=tuple(n > 0 for n in n_mentions),
        control_kind=tuple("" if n else "canary" for n in n_mentions),
        role=("canary",) * len(ordered),
    )


def candidates_csv(lists: Mapping[str, Candidates]) -> bytes:
    """Return all lists as one CSV file; a name may stand in two lists of controls."""
    rows = (
        (name, *cells)
        for name in LISTS
        for cells in zip(*(getattr(lists[name], column) for column in _COLUMNS), strict=True)
    )
    return write_table(_HEADER, rows).encode()


def read_candidates(data: bytes, *, lists: Iterable[str]) -> Candidates:
    """Read the names of some lists; one that stands in two of them comes once."""
    wanted = sorted({*lists} & {*LISTS}, key=LISTS.index)
    if len(wanted) < len({*lists}):
        raise AuditError("There is no such list.", where="candidates")
    table = read_table(data, what="candidates")
    if table.header != _HEADER:
        raise AuditError(
            "This is no list of a corpus.", where="candidates", do="Build the corpus again."
        )
    rows: dict[str, tuple[str, ...]] = {}
    for name in wanted:
        for cells in table.rows:
            if cells[0] == name:
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
    )
