"""The list of names as a value."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from audit.names.candidates import control_kind_against, make_candidates, member_parts

MEMBERS = make_candidates(
    [("Thomas", "Young"), ("Mary", "James"), ("太郎", "山田")], is_member=True
)


def test_parts_stand_in_their_written_order() -> None:
    assert MEMBERS.parts(0) == (("first", "Thomas"), ("last", "Young"))
    assert MEMBERS.parts(2) == (("last", "山田"), ("first", "太郎"))
    assert [MEMBERS.full_name(row) for row in range(3)] == [
        "Thomas Young",
        "Mary James",
        "山田太郎",
    ]
    assert make_candidates([("", "Cher")]).full_name(0) == "Cher"
    for row in range(3):
        joined = MEMBERS.separator(row).join(text for _, text in MEMBERS.parts(row))
        assert joined == MEMBERS.full_name(row)


def test_rows_and_sums_keep_every_column() -> None:
    controls = make_candidates(
        [("Ann", "Lee")], is_member=False, control_kind="easy", n_mentions=[0], popularity=[0.25]
    )
    both = MEMBERS + controls
    assert len(both) == 4
    assert both.has_truth
    assert not MEMBERS.has_truth
    assert both.rows([3]) == controls
    assert both.rows([2, 0]).last == ("山田", "Young")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("is_member", (True, True, np.True_)),
        ("is_member", (True, True, 1)),
        ("is_member", (True, True, False)),
        ("control_kind", ("", "", "easy")),
        ("control_kind", ("", "", "unheard")),
        ("n_mentions", (1, 2, -1)),
        ("popularity", (0.1, 0.1, 1.5)),
        ("first", ("Ann", "Bo")),
    ],
)
def test_columns_that_do_not_fit_are_refused(column: str, value: tuple[object, ...]) -> None:
    with pytest.raises(ValueError, match=r"row 2|argument"):
        replace(MEMBERS, **{column: value})


def test_a_name_without_parts_is_refused() -> None:
    with pytest.raises(ValueError, match="row 0"):
        make_candidates([("", "")])


@pytest.mark.parametrize(
    ("first", "last", "kind"),
    [
        ("Ann", "Lee", "easy"),
        ("MARY", "Lee", "hard"),
        ("Ann", "Ｙoung", "hard"),
        ("Young", "Lee", "hard"),
        ("James", "Thomas", "recombined"),
        ("Mary", "Young", "recombined"),
        ("", "山田", "hard"),
        ("", "Lee", "easy"),
    ],
)
def test_kinds_compare_across_roles_and_case(first: str, last: str, kind: str) -> None:
    assert control_kind_against(member_parts(MEMBERS), first=first, last=last) == kind


def test_only_members_parts_count() -> None:
    controls = make_candidates([("Ann", "Lee")], is_member=False, control_kind="easy")
    unknown = make_candidates([("Bo", "Hill")])
    assert member_parts(MEMBERS + controls + unknown) == member_parts(MEMBERS)
    assert "lee" not in member_parts(MEMBERS + controls)
    assert math.isnan(unknown.popularity[0])
