"""The published figures that stand beside an audit's own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.attack.decisions import Confusion
from audit.report.published import published_tables

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "kart_tables.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", ["table1", "table2"])
def test_the_tables_are_the_papers(name: str) -> None:
    rows = getattr(published_tables(), name)
    assert len(rows) == len(GOLDEN[name]) == 4
    for row, fact in zip(rows, GOLDEN[name], strict=True):
        assert row.controls == fact["negatives"]
        assert row.attack == fact.get("attack", "generation")
        assert row.model == fact.get("model", "hospital")
        for rate in ("f1", "accuracy", "recall", "precision"):
            assert getattr(row, rate) == fact[rate]
        counts = tuple(fact[key] for key in ("tp", "fn", "fp", "tn")) if "tp" in fact else None
        assert row.four == counts
        assert bool(row.implied) == ("counts" in fact)


def test_every_published_rate_follows_from_the_counts() -> None:
    tables = published_tables()
    rows = [row for row in (*tables.table1, *tables.table2) if row.four]
    assert len(rows) == 6
    for row in rows:
        assert row.four is not None
        counts = Confusion(*row.four)
        assert (counts.n_members, counts.n_controls) == (tables.n_members, tables.n_controls)
        found = [
            counts.f1,
            *(getattr(counts, r).value for r in ("accuracy", "recall", "precision")),
        ]
        assert found == pytest.approx([row.f1, row.accuracy, row.recall, row.precision], abs=5e-5)


def test_a_row_is_found_by_what_it_is_and_has_its_counts() -> None:
    row = published_tables().row(controls="hard", attack="generation", model="hospital")
    assert row is not None
    assert row.four == (105, 25, 112, 18)
    assert published_tables().row(controls="easy", attack="masked_lm", model="general") is None
