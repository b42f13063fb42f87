"""The decision beside the verdict: one of four, why, and who signed it; kept with its history."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from audit.errors import AuditError
from audit.report.decision import (
    MAX_NAME_CHARS,
    MAX_REASONS_CHARS,
    RECOMMENDATIONS,
    SIGNATURE_ROLES,
    Decision,
    kept_decision,
)
from pages.ui import blocks, cached
from pages.ui.access import decide, has_logins, may_or_say, sign, who, withdraw
from pages.ui.blocks import day
from pages.ui.section import head, remark
from pages.ui.state import Words, language

_REFUSED = "decision_refused"


def draw_decision(say: Words, digest: str) -> Decision:
    """Draw the decision on an audit and its signatures; return it as it is kept."""
    kept = kept_decision(digest, store=cached.store())
    with st.container(border=True, key="decision"):
        head(say, "decision")
        if refused := st.session_state.pop(_REFUSED, None):
            why = refused.written(say.language)
            st.html(blocks.heading(say.text("decision_refused"), below=why))
        if may_or_say("decided", say):
            _draw_form(say, kept)
        elif kept.recommendation:
            st.html(blocks.heading(say.text(f"decision_{kept.recommendation}"), below=kept.reasons))
        if kept.recommendation:
            remark(say, "decision_kept", who=kept.by, at=day(kept.at))
            _draw_signatures(say, kept)
    return kept


def _draw_form(say: Words, kept: Decision) -> None:
    # What is typed outlasts a visit to another page, and gives way to what somebody else decides.
    version = f"{kept.audit[:12]}_{kept.at}"
    keys = {"recommendation": f"decision_choice_{version}", "reasons": f"decision_why_{version}"}
    options = ("", *RECOMMENDATIONS)
    st.radio(
        say.text("decision"), options, index=options.index(kept.recommendation),
        format_func=lambda code: say.text(f"decision_{code or 'none'}"),
        key=keys["recommendation"], persist_state="session", label_visibility="collapsed",
    )  # fmt: skip
    st.text_area(
        say.text("decision_reasons"), kept.reasons, max_chars=MAX_REASONS_CHARS, height=110,
        placeholder=say.text("decision_reasons_place"), key=keys["reasons"],
        persist_state="session",
    )  # fmt: skip
    if kept.signatures:
        remark(say, "decision_drops")
    st.button(
        say.text("decision_keep"), key="decision_keep", type="primary",
        on_click=_kept, args=(decide, kept, keys, {"language": language()}),
    )  # fmt: skip


def _draw_signatures(say: Words, kept: Decision) -> None:
    for one in kept.signatures:
        text, taken_back = st.columns([3, 2], vertical_alignment="center")
        how = "decision_by_login" if one.is_login else "decision_by_name"
        role = say.text(f"decision_role_{one.role}")
        text.html(blocks.line(one.name, say.text(how, role=role, at=day(one.at))))
        if not has_logins() or one.name == who():
            taken_back.button(
                say.text("decision_withdraw"), key=f"decision_withdraw_{one.role}", type="tertiary",
                on_click=_kept, args=(withdraw, kept, {}, {"name": one.name}),
            )  # fmt: skip
    second = "decision_second" if kept.signatures else "decision_unsigned"
    remark(say, "decision_signed" if kept.is_signed else second)
    signed = {one.role for one in kept.signatures}
    roles = [role for role in SIGNATURE_ROLES if role not in signed]
    if not roles or not may_or_say("signed", say):
        return
    keys = {"role": f"decision_role_{len(roles)}"}
    with st.form("decision_sign", border=False, enter_to_submit=False):
        st.radio(
            say.text("decision_role"), roles, key=keys["role"], horizontal=True,
            format_func=lambda code: say.text(f"decision_role_{code}"),
        )  # fmt: skip
        if has_logins():
            remark(say, "decision_as", who=who())
        else:
            keys["name"] = f"decision_name_{len(roles)}"
            st.text_input(say.text("decision_name"), max_chars=MAX_NAME_CHARS, key=keys["name"])
        st.form_submit_button(
            say.text("decision_sign"), key="decision_sign_now",
            on_click=_kept, args=(sign, kept, keys, {}),
        )  # fmt: skip


def _kept(
    do: Callable[..., Decision], seen: Decision, keys: dict[str, str], fixed: dict[str, str]
) -> None:
    """Decide, sign or withdraw of a decision as it was seen; the page says what was refused."""
    try:
        do(seen, **fixed, **{name: st.session_state[key] for name, key in keys.items()})
    except AuditError as error:
        st.session_state[_REFUSED] = error
