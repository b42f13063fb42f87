from __future__ import annotations

import json
import math

import pytest

from audit.experiment.leakage_tables import MENTIONS
from tests.experiment.tiny_leakage import three_arms, tiny_tables


@pytest.fixture(scope="module")
def rows():
    return {(row.code, row.controls, row.group): row for row in tiny_tables().leaks}


def test_auc_is_the_share_of_pairs_that_are_in_order(rows):
    # Raw: patients 9 8 7 6; easy controls 1 2; hard controls 3 6.5.
    assert rows["raw", "easy", "all"].auc.value == 1.0
    assert rows["raw", "hard", "all"].auc.value == pytest.approx(7 / 8)
    # Perfect: patients 4 1 3 2, easy 1.5 2.5, hard 3.5 0.
    assert rows["perfect", "easy", "all"].auc.value == pytest.approx(5 / 8)
    assert rows["perfect", "hard", "all"].auc.value == pytest.approx(5 / 8)
    # Half missed: left 9 8, caught 3 2.
    assert rows["mentions 50 %", "easy", "left"].auc.value == 1.0
    assert rows["mentions 50 %", "easy", "caught"].auc.value == pytest.approx(3 / 4)
    assert rows["mentions 50 %", "easy", "all"].auc.value == pytest.approx(7 / 8)


def test_differences_are_on_the_same_names(rows):
    left = rows["mentions 50 %", "easy", "left"]
    # On the perfect model the same two patients have 4 and 1 against 1.5 and 2.5.
    assert left.minus_perfect.value == pytest.approx(1.0 - 2 / 4)
    assert left.minus_raw.value == pytest.approx(0.0)
    caught = rows["mentions 50 %", "easy", "caught"]
    assert caught.minus_perfect.value == pytest.approx(0.0)
    assert caught.minus_raw.value == pytest.approx(3 / 4 - 1)
    assert left.minus_perfect.low <= 0.5 <= left.minus_perfect.high
    assert math.isnan(rows["raw", "easy", "all"].minus_raw.value)
    assert math.isnan(rows["perfect", "easy", "all"].minus_perfect.value)


def test_groups_without_patients_are_left_out(rows):
    groups = {(code, group) for code, _, group in rows}
    assert ("raw", "caught") not in groups
    assert ("perfect", "left") not in groups
    assert {row.n_members for row in rows.values() if row.group == "all"} == {4}
    assert {row.n_controls for row in rows.values()} == {2}


def test_flagged_patients_are_counted(rows):
    assert rows["raw", "easy", "all"].flagged.n_hits == 1  # q is 0.01 above a score of 8
    assert rows["mentions 50 %", "easy", "caught"].flagged.n_hits == 0


def test_a_model_that_remembers_the_left_ones_tells_them_from_the_caught():
    (split,) = tiny_tables().splits
    assert (split.code, split.n_left, split.n_caught) == ("mentions 50 %", 2, 2)
    assert split.auc.value == 1.0
    # On the perfect model: 4 and 1 against 3 and 2.
    assert split.on_perfect == pytest.approx(0.5)
    assert split.difference.value == pytest.approx(0.5)


def test_an_arm_says_what_it_left():
    arm = {arm.kind: arm for arm in tiny_tables().arms}[MENTIONS]
    assert (arm.left.n_hits, arm.left.n_total, arm.n_exposed) == (2, 4, 2)
    assert (arm.n_staff, arm.n_staff_whole) == (3, 2)
    assert arm.other_chars == pytest.approx(0.1)


def test_tables_as_files_hold_all_rows_and_only_json_numbers():
    tables = tiny_tables()
    files = {name: data.decode() for name, data in tables.files().items()}
    plain = json.loads(files["leakage.json"])
    assert [arm["code"] for arm in plain["arms"]] == [arm.row.code for arm in three_arms()]
    assert plain["leaks"][0]["minus_raw"]["value"] is None
    lines = files["leakage.csv"].strip().splitlines()
    assert len(lines) == 1 + len(tables.leaks)
    assert lines[1].startswith('"raw",4,4,2,"easy","all",4,2,1.0')
    text = files["leakage.md"]
    assert "| mentions 50 % | easy | name left | 2 | 1.00 (" in text
    assert "nan" not in text
    assert set(files) == {"leakage.json", "leakage.md", "leakage.csv"}
