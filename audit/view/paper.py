"""The published figures: tables 1 and 2 of the paper, to stand beside an audit's own.

Comes in: nothing. Goes out: rows as printed. The facts are in `paper_tables.json`.

Source: Nakamura et al., section 5.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_FILE = Path(__file__).resolve().parent / "paper_tables.json"


@dataclass(frozen=True)
class PublishedRow:
    """One printed row: rates as fractions, counts as (tp, fn, fp, tn) or None where not printed.

    Attributes
    ----------
    controls
        "easy" or "hard".
    attack
        "generation" (scenario 1) or "masked_lm" (scenario 2).
    model
        "hospital" or "general": the model that was attacked.
    is_implied
        True where the counts are not printed but follow from the rates.
    """

    controls: str
    attack: str
    model: str
    f1: float
    accuracy: float
    recall: float
    precision: float
    counts: tuple[int, int, int, int] | None
    is_implied: bool


@dataclass(frozen=True)
class PublishedTables:
    """Tables 1 and 2, and where they stand."""

    source: str
    n_members: int
    n_controls: int
    table1: tuple[PublishedRow, ...]
    table2: tuple[PublishedRow, ...]

    def row(self, *, controls: str, attack: str, model: str) -> PublishedRow | None:
        """Return the first printed row of this kind; None if the paper has none."""
        for row in self.table1 + self.table2:
            if (row.controls, row.attack, row.model) == (controls, attack, model):
                return row
        return None


@cache
def published_tables() -> PublishedTables:
    """Return the paper's tables 1 and 2."""
    facts = json.loads(_FILE.read_text(encoding="utf-8"))
    return PublishedTables(
        source=facts["source"],
        n_members=facts["n_members"],
        n_controls=facts["n_controls"],
        table1=tuple(map(_row, facts["table1"])),
        table2=tuple(map(_row, facts["table2"])),
    )


def _row(facts: dict[str, Any]) -> PublishedRow:
    counts = tuple(facts[name] for name in ("tp", "fn", "fp", "tn") if name in facts)
    return PublishedRow(
        controls=facts["controls"],
        attack=facts["attack"],
        model=facts["model"],
        f1=facts["f1"],
        accuracy=facts["accuracy"],
        recall=facts["recall"],
        precision=facts["precision"],
        counts=(counts[0], counts[1], counts[2], counts[3]) if counts else None,
        is_implied="counts" in facts,
    )
