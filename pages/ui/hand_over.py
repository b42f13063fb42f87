"""What is decided of an audit and handed over, and the log of who saw and took what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from mimetypes import guess_type
from typing import Any

import streamlit as st

from audit.access_log import ACTIONS, LogEntry, log_seal
from audit.errors import AuditError
from audit.report import decision as decisions
from audit.report.decision import RECOMMENDATIONS, SIGNATURE_ROLES, Decision, read_decision
from audit.report.export import bundle, bundle_files, bundle_name
from audit.report.html import OPTIONAL_SECTIONS, ReportChoice, report_html
from audit.report.name_table import NAME_FORMS
from audit.report.report import AuditReport
from pages.ui import access, blocks, cached
from pages.ui.access import is_revealed, may, may_or_say
from pages.ui.blocks import day, plain
from pages.ui.form import act, choose, tick
from pages.ui.section import Place, head, refusals, remark
from pages.ui.state import LANGUAGES, Words, language, mark_unsaved

PREVIEW_HEIGHT = 1100
N_LINES = 50
FILES = {
    "report_zip": "",
    "report_html": "report.html",
    "report_names_csv": "names.csv",
    "report_measures_csv": "measures.csv",
    "report_json": "report.json",
}
"""Key of the button -> file of the bundle; "" is all of it."""
_REFUSED = "decision_refused"


# One of four decisions, why, and who signed it; kept with its history.


def draw_decision(say: Words, digest: str) -> Decision:
    """Draw the decision on an audit and its signatures; return it as it is kept."""
    kept = read_decision(digest, store=cached.store())
    with st.container(border=True, key="decision"):
        head(say, "decision")
        if may_or_say("decided", say):
            _draw_form(say, kept)
        elif kept.recommendation:
            st.html(blocks.heading(say.text(f"decision_{kept.recommendation}"), below=kept.reasons))
        if kept.recommendation:
            remark(say, "decision_kept", who=kept.by, at=day(kept.at))
            _draw_signatures(say, kept)
        # Under the button that was pressed.
        if refused := st.session_state.pop(_REFUSED, None):
            why = refused.render(say.language)
            st.html(blocks.heading(say.text("decision_refused"), below=why))
    return kept


def _draw_form(say: Words, kept: Decision) -> None:
    # What is typed outlasts a visit to another page, and gives way to what somebody else decides.
    version = f"{kept.audit[:12]}_{kept.at}"
    keys = {"recommendation": f"decision_choice_{version}", "reasons": f"decision_why_{version}"}
    options, draft = ("", *RECOMMENDATIONS), f"decision_{kept.audit[:12]}"
    mark = partial(mark_unsaved, draft)
    chosen = st.radio(
        say.text("decision"),
        options,
        index=options.index(kept.recommendation),
        format_func=lambda code: say.text(f"decision_{code or 'none'}"),
        key=keys["recommendation"],
        persist_state="session",
        label_visibility="collapsed",
        on_change=mark,
    )
    reasons = st.text_area(
        say.text("decision_reasons"),
        kept.reasons,
        height=110,
        key=keys["reasons"],
        placeholder=say.text("decision_reasons_place"),
        persist_state="session",
        max_chars=decisions.MAX_REASONS_CHARS,
        on_change=mark,
    )
    mark((chosen, reasons) != (kept.recommendation, kept.reasons))
    if kept.signatures:
        remark(say, "decision_drops")
    decide = partial(access.decide, kept, language=language())
    act(say, "decision_keep", kind="primary", on_click=lambda: _kept(decide, keys, draft))


def _draw_signatures(say: Words, kept: Decision) -> None:
    has_logins, who = access.has_logins(), access.who()
    for one in kept.signatures:
        text, taken_back = st.columns([3, 2], vertical_alignment="center")
        how, role = "login" if one.is_login else "name", say.text(f"decision_role_{one.role}")
        told = say.text(f"decision_by_{how}", role=role, at=day(one.at))
        text.html(blocks.line(one.name, told))
        if not has_logins or one.name == who:
            withdraw = partial(_kept, partial(access.withdraw, kept, name=one.name), {})
            name = f"decision_withdraw_{one.role}"
            with taken_back:
                act(say, "decision_withdraw", name=name, kind="tertiary", on_click=withdraw)
    second = "decision_second" if kept.signatures else "decision_unsigned"
    remark(say, "decision_signed" if kept.is_signed else second)
    signed = {one.role for one in kept.signatures}
    roles = [role for role in SIGNATURE_ROLES if role not in signed]
    if not roles or not may_or_say("signed", say):
        return
    keys = {"role": f"decision_role_{len(roles)}"}
    with st.form("decision_sign", border=False, enter_to_submit=False):
        st.radio(
            say.text("decision_role"),
            roles,
            key=keys["role"],
            horizontal=True,
            format_func=lambda code: say.text(f"decision_role_{code}"),
        )
        if has_logins:
            remark(say, "decision_as", who=who)
        else:
            keys["name"] = f"decision_name_{len(roles)}"
            st.text_input(
                say.text("decision_name"), max_chars=decisions.MAX_NAME_CHARS, key=keys["name"]
            )
        st.form_submit_button(
            say.text("decision_sign"),
            key="decision_sign_now",
            on_click=_kept,
            args=(partial(access.sign, kept), keys),
        )


def _kept(do: Callable[..., Decision], keys: Mapping[str, str], draft: str = "") -> None:
    """Decide, sign or withdraw by what widgets hold; the page says what was refused.

    `draft` is what `mark_unsaved` calls it, which it is no more.
    """
    try:
        do(**{name: st.session_state[key] for name, key in keys.items()})
        mark_unsaved(draft, False)
    except AuditError as error:
        st.session_state[_REFUSED] = error


# The report and its files.


def draw_hand_over(
    say: Words, here: Place, report: AuditReport, *, other: AuditReport | None, decision: Decision
) -> Callable[[], None]:
    """Draw what the report is to hold, and the files; return what draws the report itself."""
    with st.container(border=True, key="hand_over"):
        head(say, "hand_over")
        asking, taking = st.columns(2, gap="large")
        with asking:
            first = {say.language: LANGUAGES[say.language], **LANGUAGES}
            written_in = choose(say, "report_language", first, what="report_language")
            names, closed = _draw_names(say, report.digest)
        with taking.expander(say.text("report_sections"), key="report_sections"):
            ticked = {
                code: tick(say, f"report_section_{code}", is_on=True, is_box=True, is_kept=True)
                for code in OPTIONAL_SECTIONS
            }
        choice = ReportChoice(
            language=written_in,
            names=names,
            decision=decision,
            sections=tuple(code for code, is_ticked in ticked.items() if is_ticked),
            is_demo=here.audit is not None and here.audit.is_demo,
        )
        beside = {"other": other, "references": cached.references(report, kept=here.kept)[0]}
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
    closed = "" if is_revealed() else "report_full_reveal"
    if not may("exported_full"):
        closed = "report_full_role"
    captions = {form: f"report_names_{form}" for form in NAME_FORMS}
    captions["full"] = closed or captions["full"]
    names = st.radio(
        say.text("report_names"),
        NAME_FORMS,
        key=f"report_names_{digest}",
        persist_state="session",
        format_func=lambda form: say.text(f"report_form_{form}"),
        captions=[plain(say.text(key)) for key in captions.values()],
    )
    if names != "full":
        return names, ""
    key = "report_full_confirm"
    if not closed and not tick(say, key, name=f"{key}_{digest}", is_box=True):
        closed = "report_full_agree"
    return names, closed


def _draw_files(
    say: Words, report: AuditReport, *, choice: ReportChoice, beside: dict[str, Any], closed: str
) -> None:
    """Draw the files' buttons; each is made when it is asked for, once the log has its line."""
    documents = cached.documents(report.digest) if choice.names == "full" else {}
    folder = bundle_name(report, choice=choice)

    def content(file: str) -> bytes:
        about = {"documents": documents, "seal": log_seal(), **beside}
        files = bundle_files(report, choice=choice, **about)
        return files[file] if file else bundle(files, folder=folder)

    if closed:
        remark(say, closed)
    for key, file in FILES.items():
        name = f"{folder}-{file}" if file else f"{folder}.zip"
        logged = access.logged_export(
            partial(content, file),
            audit=report.digest,
            what=key.removeprefix("report_"),
            names=choice.names,
            language=choice.language,
            n_names=report.n_names,
        )
        st.download_button(
            say.text(key),
            b"" if closed else logged,
            file_name=name,
            mime=guess_type(name)[0],
            key=key,
            on_click="ignore",
            disabled=bool(closed),
            width="stretch",
            type="secondary" if file else "primary",
        )


# The access log.


@st.fragment
def draw_log(say: Words, digest: str) -> None:
    """Draw who has seen and taken what, and whether the log is whole."""
    with refusals(say):
        without = (
            ("opened",) if choose(say, "log_of", ("acts", "all"), what="log_of") == "acts" else ()
        )
        found, whole = cached.access_log(digest, limit=N_LINES, without=without)
        if whole.is_intact:
            remark(say, "log_whole", n=whole.n_lines)
        elif whole.first_bad_line is not None:
            remark(say, "log_broken", line=whole.first_bad_line)
        else:
            remark(say, "log_cut")
        remark(say, "log_nameless")
        act(say, "log_refresh", kind="tertiary")
        if not found:
            remark(say, "log_empty")
        for one in found:
            line = say.text("log_line", number=one.number, at=day(one.at), who=one.who)
            st.html(blocks.line(line, _told(say, one)))


def _told(say: Words, entry: LogEntry) -> str:
    action = entry.action if entry.action in ACTIONS else "other"
    counts = (_detail(say, *pair) for pair in entry.counts.items() if pair[1] != 0)
    return " · ".join((say.text(f"log_action_{action}"), *counts))


def _detail(say: Words, name: str, value: int | str) -> str:
    """Return one code or count of a log line, in words where there are words."""
    keys = {
        "page": f"{value}_link",
        "names": f"report_form_{value}",
        "n_names": "log_names",
        "reason": f"reveal_reason_{value}",
        "role": f"decision_role_{value}",
        "n_signatures": "log_signatures",
    }
    if name == "language" and value in LANGUAGES:
        return LANGUAGES[str(value)]
    for key in (keys.get(name, ""), f"report_{value}", f"decision_{value}"):
        if key in say.sentences and (name in keys or name == "what"):
            return say.text(key, n=value)
    return str(value) if name == "what" else f"{name}: {value}"
