"""The published figures: tables 1 and 2 of the paper, for comparison with an audit's own.

Source: Nakamura et al., section 5; the facts are in `paper_tables.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field

from audit.attack.measure_types import Rule
from audit.report.report import AuditReport
from audit.task import Record

_FILE = Path(__file__).resolve().parent / "paper_tables.json"
ATTACKS = {1: "generation", 2: "masked_lm"}
PAPER_RULE = {1: "name_occurs", 2: "difference_above_zero"}
"""The rule of the paper's tables, by scenario."""
PAPER_RULE_ON_GENERAL = {1: "name_occurs_general", 2: ""}
"""The same rule applied to M_general; in scenario 2 the rule itself compares the two models."""
CONTROLS = ("easy", "hard")
"""Kinds of controls in the paper's tables."""
_ROWS = {
    1: (("generation", "hospital"), ("masked_lm", "hospital"), ("", "always_member")),
    2: (("generation", "general"), ("generation", "hospital")),
}


class PublishedRow(Record):
    """One printed row: rates as fractions, and counts if printed or implied by the rates.

    `attack` is one of `ATTACKS`, and `model` one of a pair. `implied` is set if the counts are not
    printed.
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
        """TP, FN, FP, TN; None if they are unknown."""
        counts = self.tp, self.fn, self.fp, self.tn
        return None if None in counts else counts  # type: ignore[return-value]


class PublishedTables(Record):
    """Tables 1 and 2, and their source."""

    source: str
    n_members: int
    n_controls: int
    table1: Sequence[PublishedRow]
    table2: Sequence[PublishedRow]

    def row(self, controls: str, attack: str, model: str) -> PublishedRow | None:
        """Return the first printed row of this kind; None if the paper has none."""
        key, rows = (controls, attack, model), (*self.table1, *self.table2)
        return next((r for r in rows if (r.controls, r.attack, r.model) == key), None)


@cache
def published_tables() -> PublishedTables:
    """Return the paper's tables 1 and 2."""
    return PublishedTables.read(_FILE.read_bytes(), where="paper_tables.json")


@dataclass(frozen=True)
class PaperRow:
    """A row of the paper's tables: the result of its rule here, and the published result."""

    controls: str
    attack: str
    model: str
    reached: Rule | None
    published: PublishedRow | None


def paper_rows(table: int, reports: Sequence[AuditReport]) -> list[PaperRow]:
    """Return table 1 or 2 beside the results of audits of both scenarios, by kind of controls.

    Table 1 has both attacks and a guess; table 2 also has generation with M_general. The list is
    empty if no audit has easy or hard controls.
    """
    reached, published = _collect_rules(reports), published_tables()
    rows = [
        (controls, attack, model)
        for controls in CONTROLS
        if any(row_controls == controls for row_controls, _, _ in reached)
        for attack, model in _ROWS[table]
    ]
    return [PaperRow(*key, reached=reached.get(key), published=published.row(*key)) for key in rows]


def _collect_rules(reports: Sequence[AuditReport]) -> dict[tuple[str, str, str], Rule]:
    """Return the results of the rules by (controls, attack, model); a guess has attack ""."""
    rules_by_key: dict[tuple[str, str, str], Rule] = {}
    for report in reports:
        number = report.scenario.number
        for controls, stratum in report.measures.strata.items():
            rules = {
                (ATTACKS[number], "hospital"): stratum.rules.get(PAPER_RULE[number]),
                (ATTACKS[number], "general"): (
                    stratum.baseline_rules.get(PAPER_RULE_ON_GENERAL[number])
                ),
            }
            rules_by_key |= {
                (controls, *attack_and_model): rule
                for attack_and_model, rule in rules.items()
                if rule
            }
            rules_by_key.setdefault((controls, "", "always_member"), stratum.always_member)
    return rules_by_key
