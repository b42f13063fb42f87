"""What is handed over of an audit, and the log of who saw and took what."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from audit.access_log import ACTIONS, LogEntry, log_seal
from audit.report.decision import Decision
from audit.report.export import bundle, bundle_files, bundle_name
from audit.report.html import OPTIONAL_SECTIONS, ReportChoice, report_html
from audit.report.names import NAME_FORMS
from audit.report.report import AuditReport
from pages.ui import blocks, cached
from pages.ui.access import is_revealed, logged_export, may
from pages.ui.blocks import day, plain
from pages.ui.section import head, refusals, remark
from pages.ui.state import LANGUAGES, OLD, Place, Words, choose

PREVIEW_HEIGHT = 1100
N_LINES = 50
FILES = {
    "report_zip": ("", "application/zip"),
    "report_html": ("report.html", "text/html"),
    "report_names_csv": ("names.csv", "text/csv"),
    "report_measures_csv": ("measures.csv", "text/csv"),
    "report_json": ("report.json", "application/json"),
}
"""Key of the button -> file of the bundle ("" is all of it), and its kind."""


def draw_hand_over(
    say: Words, here: Place, report: AuditReport, *, other: AuditReport | None, decision: Decision
) -> Callable[[], None]:
    """Draw what the report is to hold, and the files; return what draws the report itself."""
    with st.container(border=True, key="hand_over"):
        head(say, "hand_over")
        asking, taking = st.columns(2, gap="large")
        with asking:
            written_in = choose(
                "report_language", sorted(LANGUAGES, key=lambda code: code != say.language),
                label=say.text("report_language"), shown=LANGUAGES.__getitem__,
            )  # fmt: skip
            names, closed = _draw_names(say, report.digest)
        with taking.expander(say.text("report_sections"), key="report_sections"):
            ticked = {
                code: st.checkbox(
                    say.text(f"report_section_{code}"), value=True, key=f"report_section_{code}",
                    persist_state="session",
                )
                for code in OPTIONAL_SECTIONS
            }  # fmt: skip
        choice = ReportChoice(
            language=written_in, names=names, decision=decision,
            sections=tuple(code for code, is_ticked in ticked.items() if is_ticked),
            is_demo=here.audit is not None and here.audit.is_demo,
        )  # fmt: skip
        beside = {"other": other, "references": cached.references(report.digest, kept=here.kept)[0]}
        with taking:
            _draw_files(say, report, choice=choice, beside=beside, closed=closed)

    def preview() -> None:
        if closed:
            remark(say, closed)
            return
        with st.container(border=True, key="report_preview"):
            html = report_html(report, choice=choice, **beside)
            st.iframe(html, height=PREVIEW_HEIGHT, alt=say.text("report_preview_alt"))

    return preview


def _draw_names(say: Words, digest: str) -> tuple[str, str]:
    """Draw how names are written; in full needs the role, the reveal and a consent per audit."""
    why = "" if is_revealed() else "report_full_reveal"
    if not may("exported_full"):
        why = "report_full_role"
    captions = {form: f"report_names_{form}" for form in NAME_FORMS}
    if why:
        captions["full"] = why
    names = st.radio(
        say.text("report_names"), NAME_FORMS, key=f"report_names_{digest}", persist_state="session",
        format_func=lambda form: say.text(f"report_form_{form}"),
        captions=[plain(say.text(captions[form])) for form in NAME_FORMS],
    )  # fmt: skip
    if names != "full" or why:
        return names, why if names == "full" else ""
    is_agreed = st.checkbox(say.text("report_full_confirm"), key=f"report_full_confirm_{digest}")
    return names, "" if is_agreed else "report_full_agree"


def _draw_files(
    say: Words, report: AuditReport, *, choice: ReportChoice, beside: dict[str, Any], closed: str
) -> None:  # fmt: skip
    """Draw the files' buttons; each is made when it is asked for, once the log has its line."""
    documents = cached.documents(report.digest) if choice.names == "full" else {}
    folder = bundle_name(report, choice=choice)

    def content(file: str) -> bytes:
        about = {"documents": documents, "seal": log_seal(), **beside}
        files = bundle_files(report, choice=choice, **about)
        return files[file] if file else bundle(files, folder=folder)

    if closed:
        remark(say, closed)
    for key, (file, mime) in FILES.items():
        logged = logged_export(
            partial(content, file), audit=report.digest, what=key.removeprefix("report_"),
            names=choice.names, language=choice.language, n_names=report.n_names,
        )  # fmt: skip
        st.download_button(
            say.text(key), b"" if closed else logged, key=key, mime=mime, on_click="ignore",
            file_name=f"{folder}-{file}" if file else f"{folder}.zip", disabled=bool(closed),
            type="secondary" if file else "primary", width="stretch",
        )  # fmt: skip


@st.fragment
def draw_log(say: Words, digest: str) -> None:
    """Draw who has seen and taken what, and whether the log is whole."""
    with refusals(say):
        which = choose(
            "log_of", ("acts", "all"), label=say.text("log_of"),
            shown=lambda code: say.text(f"log_of_{code}"),
        )  # fmt: skip
        without = ("opened",) if which == "acts" else ()
        found, whole = cached.access_log(digest, limit=N_LINES, without=without)
        if whole.is_intact:
            remark(say, "log_whole", n=whole.n_lines)
        elif whole.first_bad_line is not None:
            remark(say, "log_broken", line=whole.first_bad_line)
        else:
            remark(say, "log_cut")
        remark(say, "log_nameless")
        st.button(say.text("log_refresh"), key="log_refresh", type="tertiary")
        if not found:
            remark(say, "log_empty")
        for one in found:
            head_ = say.text("log_line", number=one.number, at=day(one.at), who=one.who)
            st.html(blocks.line(head_, _told(say, one)))


def _told(say: Words, entry: LogEntry) -> str:
    known = entry.action in ACTIONS
    action = say.text(f"log_action_{entry.action}" if known else "log_action_other")
    counts = {name: value for name, value in entry.counts.items() if value != 0}
    return " · ".join((action, *(_detail(say, *pair) for pair in counts.items())))


def _detail(say: Words, name: str, value: int | str) -> str:
    """Return one code or count of a log line, in words where there are words."""
    keys = {
        "page": f"{OLD.get(str(value), (value,))[0]}_link", "names": f"report_form_{value}",
        "n_names": "log_names", "reason": f"reveal_reason_{value}",
        "role": f"decision_role_{value}", "n_signatures": "log_signatures",
    }  # fmt: skip
    if name == "language" and value in LANGUAGES:
        return LANGUAGES[str(value)]
    for key in (keys.get(name, ""), f"report_{value}", f"decision_{value}"):
        if key in say.sentences and (name in keys or name == "what"):
            return say.text(key, n=value)
    return str(value) if name == "what" else f"{name}: {value}"
