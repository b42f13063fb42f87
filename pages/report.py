"""Report: the audit as files that can be handed over and signed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from audit.access_log import log_seal
from audit.report.compare import Comparison
from audit.report.export import bundle, bundle_files, bundle_name
from audit.report.html import (
    LANGUAGES,
    MAX_NAME_CHARS,
    MAX_REASONS_CHARS,
    OPTIONAL_SECTIONS,
    RECOMMENDATIONS,
    ReportChoice,
    SignOff,
    report_html,
)
from audit.report.names import NAME_FORMS
from audit.report.report import AuditReport
from pages.ui import blocks, cached
from pages.ui import language as ui_language
from pages.ui.language import Words, words
from pages.ui.log_view import draw_log
from pages.ui.logged import logged_export
from pages.ui.place import Place, audit_or_reason, place
from pages.ui.reveal import is_revealed
from pages.ui.text import plain

PREVIEW_HEIGHT = 1100
FILES = {
    "report_html": ("report.html", "text/html"),
    "report_names_csv": ("names.csv", "text/csv"),
    "report_measures_csv": ("measures.csv", "text/csv"),
    "report_json": ("report.json", "application/json"),
}
"""Key of the button -> file of the bundle, and its kind."""


def page() -> None:
    """Draw the page."""
    say = words()
    st.title(say.text("report_title"), anchor=False)
    try:
        audit = audit_or_reason(say)
        if audit is None:
            return
        report = cached.report(audit.digest)
        draw(say, place(), report)
        draw_log(say, audit.digest)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def draw(say: Words, here: Place, report: AuditReport) -> None:
    """Draw the preview, beside it what the auditor chooses and the files."""
    st.html(blocks.heading("", below=say.text("report_below")))
    other = cached.report(here.other.digest) if here.other else None
    references, _ = cached.references(report.digest, kept=here.kept)
    preview, form = st.columns([3, 2], gap="large")
    with form:
        try:
            choice, is_open = draw_form(
                say, digest=report.digest, is_demo=here.audit is not None and here.audit.is_demo
            )
        except cached.AuditError as error:
            why = error.written(say.language)
            st.html(blocks.heading("", below=f"{say.text('report_invalid')} {why}"))
            return
        draw_downloads(
            say, report, other=other, references=references, choice=choice, is_open=is_open
        )
    with preview:
        st.html(blocks.heading(say.text("report_preview")))
        with st.container(border=True, key="report_preview"):
            st.iframe(
                report_html(report, choice=choice, other=other, references=references)
                if is_open
                else closed(say),
                height=PREVIEW_HEIGHT,
                alt=say.text("report_preview_alt"),
            )


def closed(say: Words) -> str:
    """Return what the preview shows where names in full are not allowed yet."""
    return (
        f'<html lang="{say.language}"><body><p>{say.html("report_full_reveal")}</p></body></html>'
    )


def draw_form(say: Words, *, digest: str, is_demo: bool) -> tuple[ReportChoice, bool]:
    """Draw what the auditor chooses; return it, and whether files may be made of it.

    Raises
    ------
    AuditError
        If something is too long for a report.
    """
    restore(digest, language=say.language)
    st.html(blocks.heading(say.text("report_form_title")))
    chosen_language = st.segmented_control(
        say.text("report_language"),
        LANGUAGES,
        format_func=ui_language.LANGUAGES.__getitem__,
        key="report_language",
        required=True,
    )
    names, is_open = draw_names(say)
    st.html(blocks.heading("", below=say.text("report_sections")))
    columns = st.columns(2)
    sections = tuple(
        code
        for place, code in enumerate(OPTIONAL_SECTIONS)
        if columns[place % 2].checkbox(
            say.text(f"report_section_{code}"), key=f"report_section_{code}"
        )
    )
    sign_off = draw_sign_off(say)
    keep(digest)
    choice = ReportChoice(
        language=chosen_language or say.language,
        names=names,
        sections=sections,
        sign_off=sign_off,
        is_demo=is_demo,
    )
    return choice, is_open


def draw_names(say: Words) -> tuple[str, bool]:
    """Draw the choice of how names are shown; names in full need two consents."""
    names = st.radio(
        say.text("report_names"),
        NAME_FORMS,
        format_func=lambda code: say.text(f"report_form_{code}"),
        captions=[plain(say.text(f"report_names_{code}_below")) for code in NAME_FORMS],
        key="report_names",
    )
    if names != "full":
        return names, True
    if not is_revealed():
        st.html(blocks.heading("", below=say.text("report_full_reveal")))
        return names, False
    return names, st.checkbox(say.text("report_full_confirm"), key="report_full_confirm")


def draw_sign_off(say: Words) -> SignOff:
    """Draw recommendation, reasons and the names of those who sign."""
    recommendation = st.radio(
        say.text("report_recommendation"),
        ("none", *RECOMMENDATIONS),
        format_func=lambda code: say.text(f"report_recommend_{code}"),
        key="report_recommendation",
        help=say.text("report_recommendation_below"),
    )
    reasons = st.text_area(
        say.text("report_reasons"),
        key="report_reasons",
        max_chars=MAX_REASONS_CHARS,
        placeholder=say.text("report_reasons_place"),
        height=140,
    )
    left, right = st.columns(2)
    auditor = left.text_input(
        say.text("report_auditor"), key="report_auditor", max_chars=MAX_NAME_CHARS
    )
    officer = right.text_input(
        say.text("report_officer"), key="report_officer", max_chars=MAX_NAME_CHARS
    )
    chosen = "" if recommendation == "none" else recommendation
    return SignOff(recommendation=chosen, reasons=reasons, auditor=auditor, officer=officer)


def draw_downloads(
    say: Words,
    report: AuditReport,
    *,
    other: AuditReport | None,
    references: Sequence[Comparison],
    choice: ReportChoice,
    is_open: bool,
) -> None:
    """Draw the files; each is made when it is asked for, and only once the log has its line."""
    documents = cached.documents(report.digest) if choice.names == "full" else {}
    name = bundle_name(report, choice=choice)

    def button(key: str, make: Callable[[], bytes], file: str, mime: str, **more: object) -> None:
        logged = logged_export(
            make,
            audit=report.digest,
            what=key.removeprefix("report_"),
            names=choice.names,
            language=choice.language,
            n_names=report.n_names,
        )
        st.download_button(
            say.text(key),
            logged if is_open else b"",
            file_name=file,
            mime=mime,
            key=key,
            on_click="ignore",
            disabled=not is_open,
            width="stretch",
            **more,
        )

    def files() -> dict[str, bytes]:
        return bundle_files(
            report, choice=choice, other=other, references=references, documents=documents,
            seal=log_seal(),
        )  # fmt: skip

    st.html(blocks.heading(say.text("report_downloads"), below=say.text("report_zip_below")))
    button(
        "report_zip",
        lambda: bundle(files(), folder=name),
        f"{name}.zip",
        "application/zip",
        type="primary",
    )
    for key, (file, mime) in FILES.items():
        button(key, lambda file=file: files()[file], f"{name}-{file}", mime)


def restore(digest: str, *, language: str) -> None:
    """Put back what was typed for this audit before the reader went to another page."""
    state = st.session_state
    usual = {
        "report_language": language,
        "report_names": "masked",
        "report_recommendation": "none",
        "report_reasons": "",
        "report_auditor": "",
        "report_officer": "",
        **{f"report_section_{code}": True for code in OPTIONAL_SECTIONS},
    }
    drafts = state.setdefault("report_drafts", {})
    is_new_audit = state.get("report_of") != digest
    for key, value in {**usual, **drafts.get(digest, {})}.items():
        if is_new_audit or key not in state:
            state[key] = value
    if is_new_audit:
        state["report_full_confirm"] = False
    state["report_of"] = digest


def keep(digest: str) -> None:
    """Remember what was chosen and typed for this audit; consent to full names is asked anew."""
    kept = ["language", "names", "recommendation", "reasons", "auditor", "officer"]
    kept += [f"section_{code}" for code in OPTIONAL_SECTIONS]
    state = st.session_state
    state["report_drafts"][digest] = {f"report_{key}": state[f"report_{key}"] for key in kept}


page()
