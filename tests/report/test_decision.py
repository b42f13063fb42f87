"""The decision on an audit: kept with its whole history, signed by those it says, always logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit import access_log
from audit.errors import AuditError
from audit.home import HOME_VARIABLE, results_dir
from audit.report.audit_store import keep_decision_states, keep_report, list_digests, read_report
from audit.report.decision import (
    RELEASES,
    Decision,
    decide,
    read_decision,
    read_decision_history,
    sign,
    withdraw,
)
from audit.report.export import bundle_files
from audit.report.html import ReportChoice, report_html
from audit.report.report import AuditReport, KeptAudit, find_pair, kept_audit
from cache.store import Store
from tests.pages.make_reports import make_report


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AuditReport:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    report = make_report(2)
    Store(results_dir()).put_record(f"audit/{report.digest}", report.to_json())
    return report


def make_pair(digest: str) -> list[KeptAudit]:
    """Return the kept audits of the pair, this one first; only itself if it is not kept."""
    store = Store(results_dir())
    lines = [kept_audit(read_report(kept, store=store)) for kept in list_digests(store)]
    audit = next((line for line in lines if line.digest == digest), None)
    alone = KeptAudit(digest, "", 2, "", "", 1, "none_found")
    return list(find_pair(audit, audits=lines)) if audit else [alone]


def record_decision(
    digest: str, code: Any = "retrain", reasons: str = "Two names stand out."
) -> Decision:
    store = Store(results_dir())
    pair = make_pair(digest)
    return decide(
        read_decision([audit.digest for audit in pair], store=store),
        pair=pair,
        recommendation=code,
        reasons=reasons,
        language="en",
        by="anna",
        store=store,
    )


def sign_decision(decision: Decision, *, name: str = "x", is_login: bool = False) -> Decision:
    store = Store(results_dir())
    return sign(
        decision,
        pair=make_pair(decision.audit),
        name=name,
        role="officer",
        by="anna",
        is_login=is_login,
        store=store,
    )


def list_log_entries() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (entry.action, entry.who, dict(entry.counts)) for entry in reversed(access_log.entries())
    ]


def test_a_decision_outlasts_the_process_with_every_state_it_was_in(report: AuditReport) -> None:
    store = Store(results_dir())
    assert read_decision([report.digest], store=store) == Decision(audit=report.digest)
    first_decision = record_decision(report.digest)
    signed_decision = sign_decision(first_decision, name=" Anna  Abe ")
    assert record_decision(report.digest) == signed_decision  # nothing is new: the signature stays
    changed_decision = record_decision(report.digest, reasons="Three names stand out.")
    cleared_decision = record_decision(report.digest, code="")
    assert (
        not changed_decision.signatures
        and signed_decision.is_signed
        and not changed_decision.is_signed
    )
    assert read_decision_history([report.digest], store=store) == (
        first_decision,
        signed_decision,
        changed_decision,
        cleared_decision,
    )
    steps = [
        ("decided", "retrain", 0),
        ("signed", "retrain", 1),
        ("decided", "retrain", 0),
        ("decided", "none", 0),
    ]
    lines = [
        (action, counts["what"], counts["n_signatures"]) for action, _, counts in list_log_entries()
    ]
    assert lines == steps
    assert [person for _, person, _ in list_log_entries()] == ["anna"] * 4
    assert access_log.verify().is_intact


def test_logins_need_two_people_and_a_typed_name_beside_them_counts_for_nothing(
    report: AuditReport,
) -> None:
    store, decision = Store(results_dir()), record_decision(report.digest)
    pair = make_pair(report.digest)
    for name, role, is_login, is_signed in (
        ("a@h.example", "auditor", True, False),
        ("Typed Name", "officer", False, False),
        ("b@h.example", "officer", True, True),
    ):
        decision = sign(
            decision, pair=pair, name=name, role=role, by="anna", is_login=is_login, store=store
        )
        assert decision.is_signed is is_signed
        with pytest.raises(AuditError, match="signed already"):
            sign(
                decision,
                pair=pair,
                name=name.upper(),
                role="officer",
                by="anna",
                is_login=True,
                store=store,
            )
    decision = withdraw(decision, pair=pair, name="a@h.example", by="a@h.example", store=store)
    assert not decision.is_signed and read_decision([report.digest], store=store) == decision
    assert list_log_entries()[-1][:2] == ("withdrawn", "a@h.example")


def test_what_cannot_be_signed_is_refused_and_leaves_no_line(report: AuditReport) -> None:
    store, digest = Store(results_dir()), "0" * 64
    for wrong, match in (
        (lambda: sign_decision(Decision(audit=report.digest)), "Nothing was decided"),
        (lambda: record_decision(digest), "not kept here"),
    ):
        with pytest.raises(AuditError, match=match):
            wrong()
    decision = record_decision(report.digest)
    n_lines, pair = len(list_log_entries()), make_pair(report.digest)
    with pytest.raises(AuditError, match="needs a name"):
        sign(decision, pair=pair, name=" ", role="auditor", by="anna", store=store)
    with pytest.raises(AuditError, match="has not signed"):
        withdraw(decision, pair=pair, name="nobody", by="x", store=store)
    with pytest.raises(AuditError):
        record_decision(report.digest, reasons="x" * 10_001)
    assert len(list_log_entries()) == n_lines
    record_decision(report.digest, code="no_release")
    with pytest.raises(AuditError, match="changed the decision meanwhile"):
        sign(decision, pair=pair, name="x", role="auditor", by="anna", store=store)


def test_without_the_log_nothing_is_decided(
    report: AuditReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse_record(*_: Any, **__: Any) -> None:
        raise AuditError("The access log cannot be written.")

    monkeypatch.setattr("audit.report.decision.record", refuse_record)
    with pytest.raises(AuditError, match="access log"):
        record_decision(report.digest)
    assert read_decision_history([report.digest], store=Store(results_dir())) == ()


def test_a_decision_that_was_damaged_is_not_taken_for_none(report: AuditReport) -> None:
    store = Store(results_dir())
    record_decision(report.digest)
    store.put_record(f"decision/{report.digest}", ['{"recommendation": "safe"}'])
    with pytest.raises(AuditError, match="damaged"):
        read_decision([report.digest], store=store)


def test_the_report_and_its_json_carry_the_decision_and_its_signatures(report: AuditReport) -> None:
    decision = sign_decision(record_decision(report.digest), name="Anna <b>")
    choice = ReportChoice(decision=decision)
    html = report_html(report, choice=choice)
    assert "Two names stand out." in html and "Anna &lt;b&gt;" in html
    assert "The decision is signed." in html and html.count("☒") == 1
    report_json = json.loads(bundle_files(report, choice=choice)["report.json"])
    assert Decision.model_validate_json(json.dumps(report_json["made"]["decision"])) == decision
    assert AuditReport.from_json(report_json).digest == report.digest
    assert (
        "decision"
        not in json.loads(bundle_files(report, choice=ReportChoice())["report.json"])["made"]
    )


def test_both_scenarios_of_a_pair_share_one_decision_and_another_pair_has_its_own(
    report: AuditReport,
) -> None:
    store = Store(results_dir())
    other_scenario, other_pair = make_report(1), make_report(1, hospital="another")
    for one in (other_scenario, other_pair):
        keep_report(one, store=store)
    decision = record_decision(report.digest)
    assert read_decision([other_scenario.digest], store=store) == decision
    signed = sign_decision(record_decision(other_scenario.digest), name="A")
    assert signed.with_(signatures=()) == decision  # the same decision, kept once
    changed = record_decision(other_scenario.digest, code="no_release")
    assert changed.audit == other_scenario.digest
    assert read_decision([report.digest], store=store) == changed
    assert not read_decision([other_pair.digest], store=store).recommendation
    store.remove(f"decision/{report.digest}", f"audit/{report.digest}")
    assert read_decision([other_scenario.digest], store=store) == changed


def test_decisions_that_were_kept_for_each_audit_are_merged_and_the_newest_counts(
    report: AuditReport,
) -> None:
    store, other_scenario = Store(results_dir()), make_report(1)
    keep_report(other_scenario, store=store)
    first, second, third = (
        Decision(audit=digest, recommendation=code, by="anna", at=f"2026-11-2{day}T10:00:00+00:00")
        for digest, code, day in (
            (report.digest, "retrain", 1),
            (other_scenario.digest, "release", 2),
            (report.digest, "no_release", 3),
        )
    )
    for digest, states in ((report.digest, (first, third)), (other_scenario.digest, (second,))):
        texts = [state.to_bytes().decode() for state in states]
        keep_decision_states(digest, texts, store=store)
    digests = [audit.digest for audit in make_pair(other_scenario.digest)]
    assert read_decision_history(digests, store=store) == (first, second, third)
    signed = sign_decision(third, name="Anna")
    for digest in digests:
        assert read_decision_history([digest], store=store) == (first, second, third, signed)
    withdrawn = withdraw(signed, pair=make_pair(report.digest), name="Anna", by="anna", store=store)
    history = (first, second, third, signed, withdrawn)
    assert read_decision_history(digests, store=store) == history
    assert withdrawn == third


@pytest.mark.parametrize("code", RELEASES)
def test_a_release_despite_a_leak_needs_reasons(report: AuditReport, code: str) -> None:
    none_found = make_report(1, leak=0.0)
    keep_report(none_found, store=Store(results_dir()))
    assert (report.verdict.state, none_found.verdict.state != "leak_found") == ("leak_found", True)
    for digest in (report.digest, none_found.digest):
        with pytest.raises(AuditError, match="needs reasons"):
            record_decision(digest, code=code, reasons=" ")
    assert record_decision(none_found.digest, code=code, reasons="Two are known.").by == "anna"
    assert record_decision(report.digest, code="no_release", reasons="").reasons == ""
    alone = make_report(1, leak=0.0, hospital="another")
    keep_report(alone, store=Store(results_dir()))
    assert record_decision(alone.digest, code=code, reasons="").recommendation == code
