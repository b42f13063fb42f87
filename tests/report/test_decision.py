"""The decision on an audit: kept with its whole history, signed by those it says, always logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit import access_log
from audit.errors import AuditError
from audit.home import HOME_VARIABLE, results_dir
from audit.report.decision import (
    Decision,
    decide,
    read_decision,
    read_decision_history,
    sign,
    withdraw,
)
from audit.report.export import bundle_files
from audit.report.html import ReportChoice, report_html
from audit.report.report import AuditReport
from cache.store import Store
from tests.pages.make_reports import make_report


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditReport:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    made = make_report(2)
    Store(results_dir()).put_record(f"audit/{made.digest}", made.to_json())
    return made


def decided(digest: str, code: Any = "retrain", reasons: str = "Two names stand out.") -> Decision:
    store = Store(results_dir())
    return decide(
        read_decision(digest, store=store),
        recommendation=code,
        reasons=reasons,
        language="en",
        by="anna",
        store=store,
    )


def signed(seen: Decision, *, name: str = "x", is_login: bool = False) -> Decision:
    store = Store(results_dir())
    return sign(seen, name=name, role="officer", by="anna", is_login=is_login, store=store)


def logged() -> list[tuple[str, str, dict[str, Any]]]:
    return [(one.action, one.who, dict(one.counts)) for one in reversed(access_log.entries())]


def test_a_decision_outlasts_the_process_with_every_state_it_was_in(report: AuditReport) -> None:
    store = Store(results_dir())
    assert read_decision(report.digest, store=store) == Decision(audit=report.digest)
    first = decided(report.digest)
    one = signed(first, name=" Anna  Abe ")
    assert decided(report.digest) == one  # nothing is new: the signature stays
    changed = decided(report.digest, reasons="Three names stand out.")
    cleared = decided(report.digest, code="")
    assert not changed.signatures and one.is_signed and not changed.is_signed
    assert read_decision_history(report.digest, store=store) == (first, one, changed, cleared)
    steps = [
        ("decided", "retrain", 0),
        ("signed", "retrain", 1),
        ("decided", "retrain", 0),
        ("decided", "none", 0),
    ]
    lines = [(action, of["what"], of["n_signatures"]) for action, _, of in logged()]
    assert lines == steps
    assert [who for _, who, _ in logged()] == ["anna"] * 4
    assert access_log.verify().is_intact


def test_logins_need_two_people_and_a_typed_name_beside_them_counts_for_nothing(
    report: AuditReport,
) -> None:
    store, one = Store(results_dir()), decided(report.digest)
    for name, role, is_login, is_signed in (
        ("a@h.example", "auditor", True, False),
        ("Typed Name", "officer", False, False),
        ("b@h.example", "officer", True, True),
    ):
        one = sign(one, name=name, role=role, by="anna", is_login=is_login, store=store)
        assert one.is_signed is is_signed
        with pytest.raises(AuditError, match="signed already"):
            sign(one, name=name.upper(), role="officer", by="anna", is_login=True, store=store)
    one = withdraw(one, name="a@h.example", by="a@h.example", store=store)
    assert not one.is_signed and read_decision(report.digest, store=store) == one
    assert logged()[-1][:2] == ("withdrawn", "a@h.example")


def test_what_cannot_be_signed_is_refused_and_leaves_no_line(report: AuditReport) -> None:
    store, other = Store(results_dir()), "0" * 64
    for wrong, match in (
        (lambda: signed(Decision(audit=report.digest)), "Nothing was decided"),
        (lambda: decided(other), "not kept here"),
    ):
        with pytest.raises(AuditError, match=match):
            wrong()
    seen = decided(report.digest)
    n_lines = len(logged())
    with pytest.raises(AuditError, match="needs a name"):
        sign(seen, name=" ", role="auditor", by="anna", store=store)
    with pytest.raises(AuditError, match="has not signed"):
        withdraw(seen, name="nobody", by="x", store=store)
    with pytest.raises(AuditError):
        decided(report.digest, reasons="x" * 10_001)
    assert len(logged()) == n_lines
    decided(report.digest, code="no_release")
    with pytest.raises(AuditError, match="changed the decision meanwhile"):
        sign(seen, name="x", role="auditor", by="anna", store=store)


def test_without_the_log_nothing_is_decided(
    report: AuditReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise AuditError("The access log cannot be written.")

    monkeypatch.setattr("audit.report.decision.record", fails)
    with pytest.raises(AuditError, match="access log"):
        decided(report.digest)
    assert read_decision_history(report.digest, store=Store(results_dir())) == ()


def test_a_decision_that_was_damaged_is_not_taken_for_none(report: AuditReport) -> None:
    store = Store(results_dir())
    decided(report.digest)
    store.put_record(f"decision/{report.digest}", ['{"recommendation": "safe"}'])
    with pytest.raises(AuditError, match="damaged"):
        read_decision(report.digest, store=store)


def test_the_report_and_its_json_carry_the_decision_and_its_signatures(report: AuditReport) -> None:
    one = signed(decided(report.digest), name="Anna <b>")
    choice = ReportChoice(decision=one)
    html = report_html(report, choice=choice)
    assert "Two names stand out." in html and "Anna &lt;b&gt;" in html
    assert "The decision is signed." in html and html.count("☒") == 1
    kept = json.loads(bundle_files(report, choice=choice)["report.json"])
    assert Decision.model_validate_json(json.dumps(kept["made"]["decision"])) == one
    assert AuditReport.from_json(kept).digest == report.digest
    assert (
        "decision"
        not in json.loads(bundle_files(report, choice=ReportChoice())["report.json"])["made"]
    )
