"""How an audit is judged: by the source of its controls, and by a sibling's audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from audit.rejudge import JudgeTask
from audit.report.report import AuditReport, KeptAudit, find_possible_siblings
from audit.words import Words
from pages.ui import cached
from pages.ui.access import may_or_explain
from pages.ui.blocks import format_moment
from pages.ui.display_names import audited_names
from pages.ui.form import ask_source, draw_button
from pages.ui.running import FollowedJobs
from pages.ui.section import draw_remark, show_refusals
from pages.ui.state import go_to

JOBS = FollowedJobs("judge", "judge", lambda _, digest: go_to("verdict", audit=digest))


def find_siblings(question: Mapping[str, Any]) -> dict[str, KeptAudit]:
    """Return the kept audits that can serve as a sibling's audit, by the start of their digest."""
    audits = find_possible_siblings(question, audits=cached.kept_audits()[0])
    return {audit.digest[:12]: audit for audit in audits}


def sibling_line(say: Words, audit: KeptAudit) -> str:
    """Return a sibling's audit as one line of a choice."""
    return say.text(
        "audit_sibling_line",
        hospital=audited_names(say, audit)["hospital"],
        at=format_moment(audit.at),
        n=audit.n_names,
    )


def draw_judge_again(say: Words, report: AuditReport) -> None:
    """Draw the choices for judging an audit again, and the button that starts it."""
    draw_remark(say, "judge_again_why")
    if not may_or_explain("ran", say):
        return
    code, verdict, sibling = report.digest[:12], report.verdict, ""
    options = report.possible_sources
    default = verdict.control_source if verdict.control_source in options else "drawn"
    source = ask_source(say, options, key=f"judge_source_{code}", default=default)
    if siblings := find_siblings(report.question):
        earlier = str(report.question.get("sibling", ""))[:12]
        chosen = st.selectbox(
            say.text("audit_sibling"),
            list(siblings),
            index=list(siblings).index(earlier) if earlier in siblings else None,
            format_func=lambda code: sibling_line(say, siblings[code]),
            key=f"judge_sibling_{code}",
            help=say.text("audit_sibling_help"),
        )
        sibling = siblings[chosen].digest if chosen else ""
    else:
        draw_remark(say, "audit_sibling_none")
    if draw_button(say, "judge_again_go", name=f"judge_{code}", kind="primary"):
        with show_refusals(say, key="jobs_refused"):
            # Without a source, the task refuses with what is missing.
            stated: dict[str, Any] = {"control_source": source}
            JOBS.start(JudgeTask(audit=report.digest, sibling=sibling, **stated).question())
            st.rerun()
    JOBS.draw(say)
