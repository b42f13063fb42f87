"""Check a report: is it unchanged, who signed it, and which models is it about?"""

from __future__ import annotations

import streamlit as st

from audit.errors import render_message
from audit.report.verify import Check, check_uploads
from audit.words import Words
from pages.ui import blocks, cached
from pages.ui.blocks import Cell, format_moment
from pages.ui.form import upload
from pages.ui.note_text import note_box, note_html
from pages.ui.section import attempt, draw_heading, draw_page, draw_remark
from pages.ui.state import draw_link

ENDINGS = ("zip", "html", "json", "csv", "txt", "sha256")
MAX_MB = 50
MARKS = {
    "unchanged": "\N{CHECK MARK}",
    "holds": "\N{CHECK MARK}",
    "altered": "\N{BALLOT X}",
    "fault": "\N{BALLOT X}",
    "unchecked": "?",
    "missing": "\N{EN DASH}",
}
"""State of a file, or result of one check -> the mark before its words."""


def draw(say: Words) -> None:
    """Draw the uploader, and the answer about what was uploaded."""
    draw_remark(say, "check_why")
    files = upload(
        say,
        "check_file",
        ENDINGS,
        max_mb=MAX_MB,
        file_kind="report",
        is_many=True,
        action="checked",
    )
    draw_remark(say, "check_not_kept")
    if not files:
        return
    uploads = [(file.name, file.getvalue()) for file in files]
    check = attempt(say, lambda: check_uploads(uploads, store=cached.store()))
    if check is None:
        return
    answer = f"{MARKS[check.state]} {render_message(check.answer, say.language)}"
    advice = say.text("check_unchecked_do") if check.state == "unchecked" else ""
    card = blocks.Verdict(f"check-{check.state}", "", answer, advice, "")
    st.html(blocks.verdict_cards([card]))
    file_column, report_column = st.columns([2, 3], gap="large")
    with file_column:
        draw_files(say, check)
    with report_column:
        draw_place(say, check)
        draw_signatures(say, check)
        draw_models(say, check)
    draw_heading(say, "check_findings")
    lines = (
        blocks.line(MARKS[kind], render_message(sentence, say.language))
        for kind, sentence in check.findings
    )
    st.html("".join(lines))


def draw_files(say: Words, check: Check) -> None:
    """Draw whether each file is unchanged."""
    draw_heading(say, "check_files")
    lines = (
        blocks.line(f"{MARKS[state]} {name}", say.text(f"check_file_{state}"))
        for name, state in check.file_states.items()
    )
    st.html("".join(lines))


def draw_place(say: Words, check: Check) -> None:
    """Draw whether this installation knows the audit, and a link to it."""
    draw_heading(say, "check_here")
    if check.report is None:
        draw_remark(say, "check_here_unknown")
        return
    digest = check.report.digest[:12]
    draw_remark(say, "check_here_yes" if check.is_kept else "check_here_no", digest=digest)
    if check.is_kept:
        draw_link("verdict", label=say.text("check_open"), audit=check.report.digest)


def draw_signatures(say: Words, check: Check) -> None:
    """Draw the decision in the report and its signatures."""
    if check.report is None:
        return
    is_altered = "report.json" in check.altered
    draw_heading(
        say, "check_signed", below="check_altered_below" if is_altered else "check_signed_below"
    )
    decision = check.decision
    if decision is None or not decision.recommendation:
        draw_remark(say, "check_undecided")
        return
    who = say.text("check_decided", who=decision.by, at=format_moment(decision.at))
    st.html(blocks.line(say.text(f"decision_{decision.recommendation}"), who))
    if decision.reasons:
        digest = check.report.digest
        finder = cached.name_finder(digest) if check.is_kept else cached.list_finder(None)
        reasons = note_html(decision.reasons, names=finder)
        st.html(note_box(reasons))
    for signature in decision.signatures:
        role = say.text(f"decision_role_{signature.role}")
        key = "decision_by_login" if signature.is_login else "decision_by_name"
        line = say.text(key, role=role, at=format_moment(signature.at))
        st.html(blocks.line(signature.name, line))
    if not decision.signatures:
        draw_remark(say, "check_unsigned")


def draw_models(say: Words, check: Check) -> None:
    """Draw the names and digests of both models."""
    if check.report is None:
        return
    draw_heading(say, "check_models")
    rows = [
        [Cell(say.text(f"check_{role}")), Cell(model.name), Cell(model.digest)]
        for role, model in check.report.models.items()
        if role in ("general", "hospital")
    ]
    header = [("", say.text(f"check_{column}")) for column in ("role", "model", "digest")]
    with st.container(key="check_models"):
        st.html(blocks.table(header, rows, caption=say.text("check_models_caption")))


draw_page("check", draw)
