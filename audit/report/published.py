"""The published figures: tables 1 and 2 of the paper, to stand beside an audit's own.

Source: Nakamura et al., section 5; the facts are in `paper_tables.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pydantic import Field

from audit.task import Record

_FILE = Path(__file__).resolve().parent / "paper_tables.json"
ATTACKS = {1: "generation", 2: "masked_lm"}
PAPER_RULE = {1: "name_occurs", 2: "difference_above_zero"}
"""The rule of the paper's tables, by scenario."""
PAPER_RULE_ON_GENERAL = {1: "name_occurs_general", 2: ""}
"""The same rule with M_general attacked; in scenario 2 the rule itself compares the two models."""


class PublishedRow(Record):
    """One printed row: rates as fractions, counts where they are printed or follow from the rates.

    `attack` and `model` are those of `ATTACKS` and of a pair; `implied` says that the counts are
    not printed.
    """

    controls: str
    attack: str
    model: str
    f1: float
    accuracy: float
    recall: float
    precision: float
    tp: int | None = None
    fn: int | None = None
    fp: int | None = None
    tn: int | None = None
    implied: str = Field("", alias="counts")

    @property
    def four(self) -> tuple[int, int, int, int] | None:
        """TP, FN, FP, TN; None where they are not known."""
        counts = self.tp, self.fn, self.fp, self.tn
        return None if None in counts else counts  # type: ignore[return-value]


class PublishedTables(Record):
    """Tables 1 and 2, and where they stand."""

    source: str
    n_members: int
    n_controls: int
    table1: Sequence[PublishedRow]
    table2: Sequence[PublishedRow]

    def row(self, *, controls: str, attack: str, model: str) -> PublishedRow | None:
        """Return the first printed row of this kind; None if the paper has none."""
        wanted = (controls, attack, model)
        rows = (*self.table1, *self.table2)
        return next((r for r in rows if (r.controls, r.attack, r.model) == wanted), None)


@cache
def published_tables() -> PublishedTables:
    """Return the paper's tables 1 and 2."""
    return PublishedTables.read(_FILE.read_bytes(), where="paper_tables.json")
