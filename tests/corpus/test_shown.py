"""What a screen shows of a corpus: tables beside the paper's, refused rows, groups of values."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.corpus.corpora import refused_rows
from audit.corpus.examine import compare_with_paper
from audit.corpus.preview import group_of
from audit.corpus.truth import REFUSED
from audit.names.people import VALUE_KINDS


def test_a_table_beside_the_papers_by_hand() -> None:
    view = compare_with_paper([(7, 1), (2, 3)], which="patterns")
    assert view.rows == ((7, 1, 0), (4, 0, 4), (3, 0, 3), (2, 3, 10), (1, 0, 113))
    assert (view.n_names, view.n_total) == (4, 13)
    assert (view.n_paper_names, view.n_paper_total) == (130, 158)
    assert [label for label, *_ in view.bins] == ["1", "2", "3", "4", "5", "6–10"]
    assert [row for _, row, _ in view.bins] == [0, 0.75, 0, 0, 0, 0.25]
    assert view.bins[0][2] == pytest.approx(113 / 130)
    assert sum(paper for *_, paper in view.bins) == pytest.approx(1)


def test_refused_rows_are_read_to_a_limit_and_a_broken_line_ends_them(tmp_path: Path) -> None:
    assert refused_rows(tmp_path, limit=9) == ()
    lines = ['{"row": 3, "what": "The note is empty."}', '{"row": 9, "what": "x"}', "broken"]
    (tmp_path / REFUSED).write_text("\n".join(lines) + "\n")
    refused = [(note.row, note.what) for note in refused_rows(tmp_path, limit=9)]
    assert refused == [(3, "The note is empty."), (9, "x")]
    assert len(refused_rows(tmp_path, limit=1)) == 1


def test_every_kind_of_value_has_a_group_and_none_counts_as_a_persons_name() -> None:
    assert {group_of(kind) for kind in VALUE_KINDS} == {"date", "place", "number"}
    of_people = {"first": "patient", "middle": "patient", "last": "", "full": "staff", "prefix": ""}
    groups = [group_of(kind, role=role) for kind, role in of_people.items()]
    assert groups == ["patient", "patient", "other", "other", "other"]
    assert (group_of("birth", role="patient"), group_of("unknown")) == ("date", "unknown")
