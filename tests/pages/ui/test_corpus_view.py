"""A corpus on the screen: tables beside the paper's, bins, refused rows, groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.truth import REFUSED
from audit.names.people import VALUE_KINDS
from pages.ui.corpus_view import GROUPS, LOWS, beside_paper, group_of, refused_rows


def test_a_table_beside_the_papers_by_hand() -> None:
    view = beside_paper([(7, 1), (2, 3)], which="patterns")
    assert [(row.count, row.n_here, row.n_paper) for row in view.rows] == [
        (7, 1, 0), (4, 0, 4), (3, 0, 3), (2, 3, 10), (1, 0, 113),
    ]  # fmt: skip
    assert (view.n_names, view.n_total) == (4, 13)
    assert (view.n_paper_names, view.n_paper_total) == (130, 158)
    assert [(b.low, b.high) for b in view.bins] == [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 10)]
    assert [b.here for b in view.bins] == [0, 0.75, 0, 0, 0, 0.25]
    assert view.bins[0].paper == pytest.approx(113 / 130)


@given(st.dictionaries(st.integers(1, 500), st.integers(1, 50), min_size=1))
def test_bins_hold_every_name_once(table: dict[int, int]) -> None:
    view = beside_paper(sorted(table.items(), reverse=True), which="mentions")
    assert sum(b.here for b in view.bins) == pytest.approx(1)
    assert sum(b.paper for b in view.bins) == pytest.approx(1)
    assert [b.low for b in view.bins] == list(LOWS[: len(view.bins)])
    assert view.n_total == sum(count * n for count, n in table.items())
    empty = beside_paper([], which="mentions")
    assert (empty.bins, empty.n_names, empty.n_paper_total) == ((), 0, 232)


def test_refused_rows_are_read_to_a_limit_and_a_broken_line_ends_them(tmp_path: Path) -> None:
    assert refused_rows(tmp_path, limit=9) == ()
    lines = ['{"row": 3, "what": "The note is empty."}', '{"row": 9, "what": "x"}', "broken"]
    (tmp_path / REFUSED).write_text("\n".join(lines) + "\n")
    assert [(one.row, one.what) for one in refused_rows(tmp_path, limit=1)] == [
        (3, "The note is empty.")
    ]
    assert [one.row for one in refused_rows(tmp_path, limit=9)] == [3, 9]


@pytest.mark.parametrize(
    ("kind", "role", "group"),
    [("first", "patient", "patient"), ("last", "staff", "other"), ("full", "", "other"),
     ("prefix", "", "other"), ("date", "", "date"), ("age_over_90", "", "date"),
     ("hospital", "", "place"), ("phone", "", "number"), ("unknown", "", "unknown"),
     ("middle", "patient", "patient"), ("birth", "patient", "date")],
)  # fmt: skip
def test_every_kind_has_a_group(kind: str, role: str, group: str) -> None:
    assert group_of(kind, role=role) == group
    assert group in GROUPS


def test_no_value_counts_as_a_persons_name() -> None:
    assert {group_of(kind) for kind in VALUE_KINDS} == {"date", "place", "number"}
