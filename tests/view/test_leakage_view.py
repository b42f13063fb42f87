from __future__ import annotations

import json
import math

import pytest

from audit.errors import AuditError
from audit.experiment.leakage_tables import LeakageTask, leakage_json, leakage_view
from tests.experiment.tiny_leakage import tiny_tables

TABLES = tiny_tables(LeakageTask(language="ja", seed=4))
PLAIN = json.loads(json.dumps(leakage_json(TABLES)))


def test_the_view_is_what_the_tables_say():
    view = leakage_view(PLAIN)
    assert (view.language, view.seed, view.n_notes, view.n_patients) == ("ja", 4, 12, 4)
    assert [arm.code for arm in view.arms] == ["raw", "perfect", "mentions 50 %"]
    for row, leak in zip(TABLES.leaks, view.leaks, strict=True):
        assert (leak.arm.code, leak.group, leak.controls) == (row.code, row.group, row.controls)
        assert leak.auc == row.auc
        assert leak.flagged == row.flagged
    assert math.isnan(view.leaks[0].arm.share)
    assert view.arms[2].left.value == 0.5


def test_rows_are_found_by_attack_controls_and_group():
    view = leakage_view(PLAIN)
    assert [one.arm.kind for one in view.of(scenario=2, controls="hard")] == [
        "raw", "perfect", "mentions",
    ]  # fmt: skip
    assert view.of(scenario=1, controls="hard") == ()
    ((left, caught),) = view.split(scenario=2, controls="easy")
    assert (left.group, caught.group, left.n_members, caught.n_members) == ("left", "caught", 2, 2)


@pytest.mark.parametrize("lost", ["order", "arms", "leaks", "n_notes"])
def test_tables_of_another_version_are_refused(lost):
    with pytest.raises(AuditError, match="another version"):
        leakage_view({key: value for key, value in PLAIN.items() if key != lost})
