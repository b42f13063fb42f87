"""How an audit is judged: where its controls come from, and which sibling's audit stands beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from audit.names.candidates import ControlSource
from audit.rejudge import JudgeTask
from audit.report.report import AuditReport, KeptAudit, find_possible_siblings
from pages.ui import cached
from pages.ui.access import may_or_say
from pages.ui.blocks import day
from pages.ui.form import act
from pages.ui.running import FollowedJobs
from pages.ui.section import refusals, remark
from pages.ui.state import Words, go_to

JOBS = FollowedJobs("judge", "judge", lambda _, digest: go_to("verdict", audit=digest))


def siblings(question: Mapping[str, Any]) -> dict[str, KeptAudit]:
    """Return the kept audits that can serve as that of a sibling, by the beginning of a digest."""
    found = find_possible_siblings(question, audits=cached.kept_audits()[0])
    return {one.digest[:12]: one for one in found}


def sibling_line(say: Words, audit: KeptAudit) -> str:
    """Return a sibling's audit as one line of a choice."""
    return say.text(
        "audit_sibling_line", hospital=audit.hospital, at=day(audit.at), n=audit.n_names
    )


def ask_source(
    say: Words, options: tuple[ControlSource, ...], *, key: str, usual: ControlSource | None = None
) -> ControlSource | None:
    """Draw the question where the controls come from, each answer with an example."""
    return st.radio(
        say.text("audit_source_ask"),
        options,
        index=None if usual is None else options.index(usual),
        key=key,
        format_func=lambda source: say.text(f"audit_source_{source}"),
        captions=[say.text(f"audit_source_example_{source}") for source in options],
    )


def draw_judge_again(say: Words, report: AuditReport) -> None:
    """Draw what an audit can be judged by again, and the button that does it."""
    remark(say, "judge_again_why")
    if not may_or_say("ran", say):
        return
    code, verdict, sibling = report.digest[:12], report.verdict, ""
    options = report.possible_sources
    usual = verdict.control_source if verdict.control_source in options else "drawn"
    source = ask_source(say, options, key=f"judge_source_{code}", usual=usual)
    if kept := siblings(report.question):
        earlier = str(report.question.get("sibling", ""))[:12]
        chosen = st.selectbox(
            say.text("audit_sibling"),
            list(kept),
            index=list(kept).index(earlier) if earlier in kept else None,
            format_func=lambda one: sibling_line(say, kept[one]),
            key=f"judge_sibling_{code}",
            help=say.text("audit_sibling_help"),
        )
        sibling = kept[chosen].digest if chosen else ""
    else:
        remark(say, "audit_sibling_none")
    if act(say, "judge_again_go", name=f"judge_{code}", kind="primary"):
        with refusals(say, key="jobs_refused"):
            task = JudgeTask(audit=report.digest, control_source=source, sibling=sibling)
            JOBS.start(task.question())
            st.rerun()
    JOBS.draw(say)
