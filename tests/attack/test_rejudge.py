"""Kept audits judged again: as a new run would judge them, without a model, from older records."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import rejudge
from audit.attack.question import question_digest
from audit.errors import AuditError
from audit.models import load
from audit.names.lists import keep_names
from audit.rejudge import judge_again
from audit.report.audit_store import (
    find_complete_report,
    keep_inspection,
    read_inspection,
)
from audit.report.report import (
    AuditReport,
    Inspection,
)
from cache.store import Store
from tests.one_thread import one_thread
from tests.small_audit import answer, finished, models, request_of, small

pytestmark = pytest.mark.long

__all__ = ["finished", "models", "one_thread", "small"]
SCENARIOS = pytest.mark.parametrize("scenario", [1, 2])
OF_RULE_1 = {
    "state": "leak_found",
    "reasons": ["names_stand_out"],
    "n_flagged": 3,
    "n_tested": 11,
    "smallest_detectable_auc": 0.7,
}
"""What a verdict of rule 1 says."""
ARRAYS_OF_RULE_1 = (
    "n_per_block",
    "hospital",
    "general",
    "reference_score",
    "reference_n_pieces",
    "best_passages",
    "best_log_ratio",
)


@pytest.fixture
def directory(finished, tmp_path, request) -> Path:
    """A copy of a finished audit's store."""
    has_scenario = hasattr(request.node, "callspec")
    scenario = request.node.callspec.params["scenario"] if has_scenario else 2
    return Path(shutil.copytree(finished[scenario][1], tmp_path / "store"))


@pytest.fixture(autouse=True)
def no_model(monkeypatch):
    """Nothing that is tested here may load a model."""

    def refuse(*_args: Any, **_more: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(load, "load_model", refuse)


def without_what_differs(report: AuditReport) -> dict[str, Any]:
    different = {"digest": "", "question": {}, "made": None, "notes": []}
    plain: dict[str, Any] = json.loads(json.dumps(report.to_json() | different))
    return plain


@SCENARIOS
def test_an_audit_is_judged_again_as_a_new_run_judges_it(
    models, finished, directory, tmp_path, scenario, monkeypatch
):
    report = finished[scenario][0]
    with Store(directory) as store:
        judged = judge_again(report.digest, control_source="invented", store=store)
        assert find_complete_report(judged.digest, store=store) is not None
        assert find_complete_report(report.digest, store=store) is not None
    monkeypatch.undo()
    listed = request_of(models, scenario).candidates.with_source("invented")
    new = answer(request_of(models, scenario, candidates=listed), tmp_path / "new")
    assert report.verdict.control_source == "drawn"
    assert judged.verdict.control_source == "invented"
    assert without_what_differs(judged) == without_what_differs(new)
    assert "judged again from its kept evidence" in judged.notes[-1]
    assert judged.digest not in (report.digest, new.digest)


def as_rule_1_kept_it(report: AuditReport, store: Store) -> AuditReport:
    """Put an audit in the store as the first rule left it; returns its report."""
    plain = report.to_json()
    names = {
        name: column for name, column in plain["names"].items() if not name.startswith("n_others")
    }
    question = {
        name: value
        for name, value in plain["question"].items()
        if name not in ("control_source", "sibling")
    }
    older = report.changed(
        digest=question_digest(question),
        question=question,
        verdict=OF_RULE_1,
        names=names,
        columns=list(names),
    )
    inspection = read_inspection(report.digest, store=store)
    assert inspection is not None
    arrays = {name: getattr(inspection, name) for name in ARRAYS_OF_RULE_1}
    keep_inspection(older.digest, Inspection(**arrays), store=store)
    documents = store.get_record(f"documents/{report.digest}")
    if documents:
        store.put_record(f"documents/{older.digest}", documents)
    store.put_record(f"audit/{older.digest}", older.to_json())
    return older


@SCENARIOS
@pytest.mark.parametrize("has_list", [True, False])
def test_an_audit_of_rule_1_is_judged_by_the_rule_of_today(
    models, finished, directory, scenario, has_list
):
    report = finished[scenario][0]
    with Store(directory) as store:
        older = as_rule_1_kept_it(report, store)
        if has_list:
            keep_names(request_of(models, scenario).candidates, label="", store=store)
        assert older.verdict.in_short("en").startswith("This audit was judged by the rule of ver")
        judged = judge_again(older.digest, control_source="drawn", store=store)
    assert judged.verdict.rule == 2 and judged.verdict.control_source == "drawn"
    assert "rule of version 1" in judged.notes[-1]
    for name in ("score", "p_value", "q_value", "decision"):
        assert judged.names[name] == report.names[name], name
    old_verdict, new_verdict = report.verdict, judged.verdict
    assert new_verdict.p_names == old_verdict.p_names
    # A group has at least five controls, and rule 1 kept no parts of its references.
    assert np.isnan(new_verdict.p_group) == np.isnan(old_verdict.p_group)
    assert new_verdict.state == old_verdict.state
    assert not set(ARRAYS_OF_RULE_1) - {*vars(kept_arrays(directory, judged.digest))}


def kept_arrays(directory: Path, digest: str) -> Inspection:
    with Store(directory) as store:
        inspection = read_inspection(digest, store=store)
    assert inspection is not None
    return inspection


def test_judging_twice_keeps_one_report(finished, directory):
    digest = finished[2][0].digest
    with Store(directory) as store:
        first = judge_again(digest, control_source="own", store=store)
        n_audits = len(list(store.keys("audit/")))
        again = judge_again(digest, control_source="own", store=store)
        assert again.to_json() == first.to_json()
        assert len(list(store.keys("audit/"))) == n_audits == 2


def test_what_cannot_be_judged_is_refused(finished, directory, monkeypatch):
    digest = finished[2][0].digest
    with Store(directory) as store:
        with pytest.raises(AuditError, match="This audit is not kept here"):
            judge_again("0" * 64, control_source="own", store=store)
        with pytest.raises(AuditError, match="sibling's audit is not kept here"):
            judge_again(digest, control_source="own", sibling="0" * 64, store=store)
        with pytest.raises(AuditError, match="does not say where its controls come from"):
            judge_again(digest, control_source="own", sibling=digest, store=store)
        own_report = judge_again(digest, control_source="own", store=store)
        with pytest.raises(AuditError, match="is of the hospital's own model"):
            judge_again(digest, control_source="own", sibling=own_report.digest, store=store)
        same = finished[2][0].changed(verdict=OF_RULE_1 | {"state": "not_compared"})
        monkeypatch.setattr(rejudge, "find_complete_report", lambda *_args, **_more: same)
        with pytest.raises(AuditError, match="compared a model with itself"):
            judge_again(digest, control_source="own", store=store)
