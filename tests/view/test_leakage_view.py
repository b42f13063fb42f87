from __future__ import annotations

import json
import math

import pytest

from audit.errors import AuditError
from audit.experiment.leakage_tables import LEAKAGE, LeakageTask
from tests.experiment.tiny_leakage import tiny_tables

TABLES = tiny_tables(LeakageTask(language="ja", seed=4))


def test_what_was_kept_is_read_back_with_its_undefined_numbers(tmp_path):
    (tmp_path / "leakage.json").write_bytes(TABLES.files()["leakage.json"])
    read = LEAKAGE.read(tmp_path).tables
    assert read.files() == TABLES.files()
    assert (read.order, read.n_notes, read.n_patients) == (TABLES.order, 12, 4)
    assert [arm.code for arm in read.arms] == ["raw", "perfect", "mentions 50 %"]
    assert math.isnan(read.arms[0].share) and math.isnan(read.leaks[0].minus_raw.low)
    assert read.arms[2].left.value == 0.5


def test_rows_are_found_by_attack_controls_and_group():
    found = TABLES.of(scenario=2, controls="hard")
    assert [arm.kind for arm, _ in found] == ["raw", "perfect", "mentions"]
    assert [arm.code for arm, _ in found] == [row.code for _, row in found]
    assert TABLES.of(scenario=1, controls="hard") == ()
    ((arm, (left, caught)),) = TABLES.split(scenario=2, controls="easy")
    assert (arm.code, left.group, caught.group) == ("mentions 50 %", "left", "caught")
    assert (left.n_members, caught.n_members) == (2, 2)


@pytest.mark.parametrize("lost", ["order", "arms", "leaks", "n_notes"])
def test_tables_of_another_version_are_refused(lost, tmp_path):
    plain = json.loads(TABLES.files()["leakage.json"])
    del plain[lost]
    (tmp_path / "leakage.json").write_text(json.dumps(plain))
    with pytest.raises(AuditError, match="another version"):
        LEAKAGE.at(tmp_path)
