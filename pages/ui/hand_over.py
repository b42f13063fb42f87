"""The report of an audit and its files, and the access log of the audit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from mimetypes import guess_type
from typing import Any

import streamlit as st

from audit.access_log import ACTIONS, LogEntry, log_seal
from audit.report.decision import Decision
from audit.report.export import bundle, bundle_files, bundle_name
from audit.report.html import OPTIONAL_SECTIONS, ReportChoice, report_html
from audit.report.name_table import NAME_FORMS, NameForm
from audit.report.report import AuditReport
from audit.words import LANGUAGES, Language, Words
from pages.ui import access, blocks, cached
from pages.ui.access import is_revealed, may
from pages.ui.blocks import escape_markdown, format_moment, reader_zone
from pages.ui.form import choose, draw_button, draw_toggle
from pages.ui.place import Place
from pages.ui.section import draw_heading, draw_remark, show_refusals

PREVIEW_HEIGHT = 1100
N_LINES = 50
FILES = {
    "report_zip": "",
    "report_folder": "",
    "report_html": "report.html",
    "report_names_csv": "names.csv",
    "report_measures_csv": "measures.csv",
    "report_json": "report.json",
}
"""Key of the button -> file of the bundle; "" stands for the whole bundle, as files alone or as the
folder that a browser shows."""


# The report and its files.


def draw_hand_over(
    say: Words,
    place: Place,
    report: AuditReport,
    *,
    other_report: AuditReport | None,
    decision: Decision,
) -> Callable[[], None]:
    """Draw the choices for the report, and its files; return the function that draws the report."""
    with st.container(border=True, key="hand_over"):
        draw_heading(say, "hand_over")
        form_column, file_column = st.columns(2, gap="large")
        with form_column:
            first: dict[Language, str] = {say.language: LANGUAGES[say.language], **LANGUAGES}
            report_language = choose(say, "report_language", first, parameter="report_language")
            names, refusal_key = _draw_names(say, report.digest)
        with file_column.expander(say.text("report_sections"), key="report_sections"):
            is_included = {
                code: draw_toggle(
                    say, f"report_section_{code}", is_on=True, is_box=True, is_kept=True
                )
                for code in OPTIONAL_SECTIONS
            }
        choice = ReportChoice(
            language=report_language,
            names=names,
            decision=decision,
            sections=tuple(code for code, is_ticked in is_included.items() if is_ticked),
            is_demo=place.audit is not None and place.audit.is_demo,
            time_zone=reader_zone(),
        )
        references = cached.references(report, audits=place.audits)[0]
        with file_column:
            _draw_files(
                say,
                report,
                choice=choice,
                other_reports={"other": other_report, "references": references},
                refusal_key=refusal_key,
            )

    def draw_preview() -> None:
        if refusal_key:
            draw_remark(say, refusal_key)
            return
        with st.container(border=True, key="report_preview"):
            html = report_html(report, choice=choice, other=other_report, references=references)
            st.iframe(html, height=PREVIEW_HEIGHT, alt=say.text("report_preview_alt"))

    return draw_preview


def _draw_names(say: Words, digest: str) -> tuple[NameForm, str]:
    """Draw the choice of how names are written: full names need a role, a reveal and a consent.

    Returns the form of the names, and the key of the sentence that refuses it, or "".
    """
    refusal_key = "" if is_revealed() else "report_full_reveal"
    if not may("exported_full"):
        refusal_key = "report_full_role"
    captions = {form: f"report_names_{form}" for form in NAME_FORMS}
    captions["full"] = refusal_key or captions["full"]
    names = st.radio(
        say.text("report_names"),
        NAME_FORMS,
        key=f"report_names_{digest}",
        persist_state="session",
        format_func=lambda form: say.text(f"report_form_{form}"),
        captions=[escape_markdown(say.text(key)) for key in captions.values()],
    )
    if names != "full":
        return names, ""
    key = "report_full_confirm"
    if not refusal_key and not draw_toggle(say, key, name=f"{key}_{digest}", is_box=True):
        refusal_key = "report_full_agree"
    return names, refusal_key


def _draw_files(
    say: Words,
    report: AuditReport,
    *,
    choice: ReportChoice,
    other_reports: dict[str, Any],
    refusal_key: str,
) -> None:
    """Draw the files' buttons; a click writes the log line and then makes the file."""
    documents = cached.documents(report.digest) if choice.names == "full" else {}
    bundle_folder = bundle_name(report, choice=choice)

    def make_file(file: str, folder: str) -> bytes:
        contents = {"documents": documents, "seal": log_seal(), **other_reports}
        is_folder = folder != bundle_folder
        files = bundle_files(report, choice=choice, is_folder=is_folder, **contents)
        return files[file] if file else bundle(files, folder=folder)

    if refusal_key:
        draw_remark(say, refusal_key)
    for key, file in FILES.items():
        folder = f"{bundle_folder}-folder" if key == "report_folder" else bundle_folder
        name = f"{folder}-{file}" if file else f"{folder}.zip"
        export = access.logged_export(
            partial(make_file, file, folder),
            audit=report.digest,
            what=key.removeprefix("report_"),
            names=choice.names,
            language=choice.language,
            n_names=report.n_names,
        )
        st.download_button(
            say.text(key),
            b"" if refusal_key else export,
            file_name=name,
            mime=guess_type(name)[0],
            key=key,
            help=say.sentences.get(f"{key}_help"),
            on_click="ignore",
            disabled=bool(refusal_key),
            width="stretch",
            type="primary" if key == "report_zip" else "secondary",
        )


# The access log.


@st.fragment
def draw_log(say: Words, digest: str) -> None:
    """Draw who has seen and taken what, and whether the log is intact."""
    with show_refusals(say):
        without = (
            ("opened",)
            if choose(say, "log_of", ("acts", "all"), parameter="log_of") == "acts"
            else ()
        )
        log_entries, verification = cached.access_log(digest, limit=N_LINES, without=without)
        if verification.is_intact:
            draw_remark(say, "log_whole", n=verification.n_lines)
        elif verification.first_bad_line is not None:
            draw_remark(say, "log_broken", line=verification.first_bad_line)
        else:
            draw_remark(say, "log_cut")
        draw_remark(say, "log_nameless")
        draw_button(say, "log_refresh", kind="tertiary")
        if not log_entries:
            draw_remark(say, "log_empty")
        for entry in log_entries:
            line = say.text(
                "log_line", number=entry.number, at=format_moment(entry.at), who=entry.who
            )
            st.html(blocks.line(line, _entry_text(say, entry)))


def _entry_text(say: Words, entry: LogEntry) -> str:
    action = entry.action if entry.action in ACTIONS else "other"
    counts = (_detail_text(say, *pair) for pair in entry.counts.items() if pair[1] != 0)
    return " · ".join((say.text(f"log_action_{action}"), *counts))


def _detail_text(say: Words, name: str, detail: int | str) -> str:
    """Return one code or count of a log line, in words if there are any."""
    keys = {
        "page": f"{detail}_link",
        "names": f"report_form_{detail}",
        "n_names": "log_names",
        "reason": f"reveal_reason_{detail}",
        "role": f"decision_role_{detail}",
        "n_signatures": "log_signatures",
    }
    titles = {str(code): title for code, title in LANGUAGES.items()}
    if name == "language" and detail in titles:
        return titles[str(detail)]
    for key in (keys.get(name, ""), f"report_{detail}", f"decision_{detail}"):
        if key in say.sentences and (name in keys or name == "what"):
            return say.text(key, n=detail)
    return str(detail) if name == "what" else f"{name}: {detail}"
