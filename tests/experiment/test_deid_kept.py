from __future__ import annotations

import json
import os
import stat

import pytest

from audit.errors import AuditError
from audit.experiment.leakage_tables import (
    LEAKAGE,
    LeakageTask,
    leakage_id,
)
from tests.experiment.tiny_leakage import tiny_tables

ORDER = LeakageTask(taggers=("rules",), language="ja")


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))


def test_the_same_question_has_the_same_identifier():
    one = leakage_id(ORDER)
    assert leakage_id(ORDER.with_(device="cpu")) == one
    others = [ORDER.with_(seed=1), ORDER.with_(language="en"), ORDER.with_(taggers=())]
    assert len({one, *map(leakage_id, others)}) == 4


def test_a_tagger_that_is_not_listed_is_refused():
    with pytest.raises(AuditError, match="no such tagger"):
        leakage_id(ORDER.with_(taggers=("trained/000000000000",)))


def test_kept_files_come_back_and_are_private():
    files = tiny_tables().files()
    assert LEAKAGE.put("0" * 12, files).tables.files() == files
    folder = LEAKAGE.place("0" * 12)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_the_newest_comes_first_and_what_cannot_be_read_is_left_out():
    assert LEAKAGE.all() == ()
    for number, name in enumerate(("a" * 12, "b" * 12, "c" * 12)):
        LEAKAGE.put(name, tiny_tables().files())
        os.utime(LEAKAGE.place(name) / "leakage.json", (number, number))
    (LEAKAGE.home() / "arms").mkdir()
    (LEAKAGE.place("a" * 12) / "leakage.json").write_text("{")
    other = json.loads((LEAKAGE.place("b" * 12) / "leakage.json").read_text()) | {"schema": 99}
    LEAKAGE.place("d" * 12).mkdir()
    (LEAKAGE.place("d" * 12) / "leakage.json").write_text(json.dumps(other))
    assert [one.leakage_id for one in LEAKAGE.all()] == ["c" * 12, "b" * 12]


@pytest.mark.parametrize("wrong", ["", "../results", "0" * 11, "f" * 12])
def test_what_is_not_kept_is_refused(wrong):
    with pytest.raises(AuditError, match="This is not kept here"):
        LEAKAGE.get(wrong)
