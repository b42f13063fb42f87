"""A corpus on the screen: count tables beside the paper's, refused rows, groups of values.

Source: Nakamura et al., appendix A (tables 3 and 4).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from audit.corpus.examine import MENTIONS_PER_NAME, PATTERNS_PER_NAME
from audit.corpus.truth import REFUSED
from audit.errors import Message
from audit.notes.placeholders import NAME_KINDS
from audit.tables import RowNote

PAPER: Mapping[str, Mapping[int, int]] = {
    "patterns": PATTERNS_PER_NAME,
    "mentions": MENTIONS_PER_NAME,
}
"""Table 3 (distinct passages) and table 4 (mentions) of the paper: count -> number of names."""
GROUPS = ("patient", "other", "date", "place", "number", "unknown")
"""What an inserted value is: a patient's name, another person's, a date or an age, a place, a
number or an address of a person, a placeholder that was not understood."""
LOWS = (1, 2, 3, 4, 5, 6, 11, 26, 101)
"""Where the bins of a chart of counts begin."""

_NAMES = NAME_KINDS | {"middle"}
_DATES = frozenset({"date", "date_range", "age", "age_over_90", "holiday", "birth"})
_PLACES = frozenset(
    {"university", "ward", "hospital", "city", "address", "po_box", "zipcode", "state", "country"}
) | {"company", "ethnicity"}


@dataclass(frozen=True)
class CountRow:
    """How many names have a count, in this corpus and in the paper's."""

    count: int
    n_here: int
    n_paper: int


@dataclass(frozen=True)
class CountBin:
    """Shares of names (0-1) whose count lies from `low` to `high`; `high` None has no end."""

    low: int
    high: int | None
    here: float
    paper: float


@dataclass(frozen=True)
class CountView:
    """A table of counts beside the paper's.

    Attributes
    ----------
    rows
        For every count that occurs, the highest first.
    bins
        The same for a chart, from the lowest on; empty where there are no names.
    n_names, n_total
        Names, and the sum of their counts, in this corpus.
    n_paper_names, n_paper_total
        The same in the paper.
    """

    rows: tuple[CountRow, ...]
    bins: tuple[CountBin, ...]
    n_names: int
    n_total: int
    n_paper_names: int
    n_paper_total: int


def beside_paper(table: Sequence[tuple[int, int]], *, which: str) -> CountView:
    """Return a table of (count, number of names) beside the paper's "patterns" or "mentions"."""
    here, paper = dict(table), PAPER[which]
    n_here, n_paper = sum(here.values()), sum(paper.values())
    rows = [
        CountRow(count, here.get(count, 0), paper.get(count, 0))
        for count in sorted({*here, *paper}, reverse=True)
    ]
    return CountView(
        rows=tuple(rows),
        bins=_bins(rows, n_here=n_here, n_paper=n_paper) if n_here else (),
        n_names=n_here,
        n_total=sum(count * n for count, n in here.items()),
        n_paper_names=n_paper,
        n_paper_total=sum(count * n for count, n in paper.items()),
    )


def refused_rows(folder: Path, *, limit: int) -> tuple[RowNote, ...]:
    """Return the first rows of the source that became no notes, with the reasons.

    A file that is not there, or a line that cannot be read, gives none.
    """
    found = []
    try:
        with (folder / REFUSED).open(encoding="utf-8") as lines:
            for line in islice(lines, limit):
                row = json.loads(line)
                found.append(RowNote(int(row["row"]), Message.read(row["what"])))
    except (OSError, ValueError, KeyError, TypeError):
        return tuple(found)
    return tuple(found)


def group_of(kind: str, *, role: str = "") -> str:
    """Return the one of `GROUPS` that a placeholder's kind belongs to."""
    if kind in _NAMES:
        return "patient" if role == "patient" else "other"
    if kind == "unknown":
        return "unknown"
    if kind == "prefix":
        return "other"
    if kind in _DATES:
        return "date"
    return "place" if kind in _PLACES else "number"


def _bins(rows: Sequence[CountRow], *, n_here: int, n_paper: int) -> tuple[CountBin, ...]:
    bins = []
    for low, following in zip(LOWS, (*LOWS[1:], None), strict=True):
        within = [r for r in rows if r.count >= low and (following is None or r.count < following)]
        bins.append(
            CountBin(
                low=low,
                high=None if following is None else following - 1,
                here=sum(row.n_here for row in within) / n_here,
                paper=sum(row.n_paper for row in within) / n_paper,
            )
        )
    while bins and not bins[-1].here and not bins[-1].paper:
        bins.pop()
    return tuple(bins)
