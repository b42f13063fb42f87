"""The lists in a corpus's folder: candidates of all kinds, canaries, passages.

Comes in: candidates by list, canaries. Goes out: bytes of CSV, and the candidates read back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from audit.corpora.canaries import Canary, CanaryPlan
from audit.errors import AuditError
from audit.membership.candidates import Candidates
from audit.names import fold_name, written_name
from audit.tables import read_table, write_table

CANDIDATES, PASSAGES, CANARIES = "candidates.csv", "passages.jsonl", "canaries.csv"
MEMBERS = ("patient", "staff", "canary")
CONTROLS = ("easy", "hard", "recombined", "matched")
LISTS = (*MEMBERS, *CONTROLS)
"""Lists of `candidates.csv`: names in D_private by role, then controls by kind; twins of canaries
are in the list "canary"."""

_HEADER = (
    *("list", "first_name", "last_name", "is_member"),
    *("control_kind", "role", "sex", "n_mentions"),
)
_CANARY_HEADER = ("first_name", "last_name", "is_planted", "n_mentions", "group", "pair")


def candidates_csv(lists: Mapping[str, Candidates]) -> bytes:
    """Return all lists as one CSV file; a name may stand in two lists of controls."""
    return write_table(_HEADER, _rows(lists)).encode()


def _rows(lists: Mapping[str, Candidates]) -> Iterator[Sequence[object]]:
    for name in LISTS:
        found = lists.get(name)
        for row in range(len(found) if found else 0):
            assert found is not None
            yield (
                name, found.first[row], found.last[row], found.is_member[row],
                found.control_kind[row], found.role[row], found.sex[row], found.n_mentions[row],
            )  # fmt: skip


def read_candidates(data: bytes, *, lists: Iterable[str]) -> Candidates:
    """Read the names of some lists; one that stands in two of them comes once.

    Raises
    ------
    AuditError
        If the file is not one of `candidates_csv`, or there is no such list.
    """
    wanted = tuple(lists)
    if not set(wanted) <= set(LISTS):
        raise AuditError("There is no such list.", where="candidates")
    table = read_table(data, what="candidates")
    if table.header != _HEADER:
        raise AuditError(
            "This is no list of a corpus.", where="candidates", do="Build the corpus again."
        )
    by_list: dict[str, list[tuple[str, ...]]] = {name: [] for name in wanted}
    for cells in table.rows:
        if cells[0] in by_list:
            by_list[cells[0]].append(cells)
    rows: dict[str, tuple[str, ...]] = {}
    for name in LISTS:
        for cells in by_list.get(name, ()):
            rows.setdefault(fold_name(written_name(cells[1], cells[2])), cells)
    return _candidates(list(rows.values()))


def _candidates(rows: Sequence[tuple[str, ...]]) -> Candidates:
    return Candidates(
        first=tuple(row[1] for row in rows),
        last=tuple(row[2] for row in rows),
        is_member=tuple(row[3] == "1" for row in rows),
        control_kind=tuple(row[4] for row in rows),
        role=tuple(row[5] for row in rows),
        sex=tuple(row[6] for row in rows),
        n_mentions=tuple(int(row[7]) if row[7] else None for row in rows),
        popularity=(math.nan,) * len(rows),
    )


def canary_candidates(plan: CanaryPlan) -> Candidates:
    """Return planted names as members and twins as controls; the i-th of both are a pair."""
    planted = sorted(plan.planted, key=lambda canary: canary.pair)
    twins = sorted(plan.twins, key=lambda canary: canary.pair)
    ordered: tuple[Canary, ...] = (*planted, *twins)
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


def file_bytes(path: Path) -> bytes:
    """Return what is in a file of a corpus.

    Raises
    ------
    AuditError
        If it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError:
        raise AuditError(
            "A file of the corpus cannot be read.", where="corpus", do="Build the corpus again."
        ) from None
