"""The candidate lists of a corpus that was examined: positives, controls of all kinds, staff.

Comes in: what a pass over the corpus gave. Goes out: lists, and how many names are in each.

Source: Nakamura et al., section 3.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from audit.curation.examination import ListedNames
from audit.curation.examine_pass import Passed
from audit.curation.list_files import LISTS, canary_candidates
from audit.curation.order import CorpusOrder
from audit.curation.people import People
from audit.membership.candidates import Candidates, make_candidates
from audit.membership.corpus_candidates import corpus_candidates
from audit.membership.corpus_names import pair_of
from audit.randomness import generator

MAX_POSITIVES = 20_000
"""Names of patients on a list; of more than these, as many are drawn at random."""
MAX_STAFF = 5_000


@dataclass(frozen=True, eq=False)
class Drawn:
    """Lists by their names, and the numbers of names by list's kind and role."""

    lists: Mapping[str, Candidates]
    counts: tuple[ListedNames, ...]


def draw_candidates(order: CorpusOrder, passed: Passed, *, people: People) -> Drawn:
    """Draw the lists of a corpus; no control is anybody's name in it, or a canary's."""
    names = passed.tally.names
    if len(names) > MAX_POSITIVES:
        rows = generator(order.seed, "corpus/positives").permutation(len(names))[:MAX_POSITIVES]
        names = tuple(names[row] for row in sorted(rows.tolist()))
    taken = passed.names  # large: not copied, and not needed again
    listed = people.listed(names, n_staff=MAX_STAFF, seed=order.seed, is_in=lambda p: p in taken)
    canaries = canary_candidates(passed.plan) if passed.plan else make_candidates([])
    for pair in people.pairs:
        taken.setdefault(pair, 1)
    for name in zip(canaries.first, canaries.last, strict=True):
        taken.setdefault(pair_of(*name), 1)
    found = corpus_candidates(
        passed.tally.stand_ins(names),
        found=taken,
        pool=passed.pool,
        seed=order.seed,
        people=listed,
        accepts=passed.accepts,
    )
    lists = {
        "patient": found.positives,
        "staff": found.staff,
        "canary": canaries,
        "easy": found.easy,
        "hard": found.hard,
        "recombined": found.recombined,
        "matched": found.matched,
    }
    counts = tuple(
        ListedNames(control_kind=name if name not in ("patient", "staff", "canary") else kind,
                    role=role, n=n)
        for name in LISTS
        for (kind, role), n in sorted(_kinds(lists[name]).items())
    )  # fmt: skip
    return Drawn(lists, _summed(counts))


def _kinds(names: Candidates) -> Counter[tuple[str, str]]:
    return Counter(zip(names.control_kind, names.role, strict=True))


def _summed(counts: tuple[ListedNames, ...]) -> tuple[ListedNames, ...]:
    sums: dict[tuple[str, str], int] = {}
    for count in counts:
        key = (count.control_kind, count.role)
        sums[key] = sums.get(key, 0) + count.n
    return tuple(ListedNames(kind, role, n) for (kind, role), n in sums.items())
