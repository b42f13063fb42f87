"""The decision on a pair of models: the verdicts it rests on, its reasons, signatures and history.

What a person is writing stays when somebody else saves a decision meanwhile, and is shown as not
saved. Nothing replaces a decision that the person has not seen.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import streamlit as st

from audit.errors import AuditError
from audit.jobs import service
from audit.report import decision as decisions
from audit.report.decision import (
    RECOMMENDATIONS,
    SIGNATURE_ROLES,
    Decision,
    has_leak,
    read_decision_history,
)
from audit.report.report import AuditReport, KeptAudit, find_pair
from audit.words import Words
from pages.ui import access, blocks, cached
from pages.ui.access import may_or_explain
from pages.ui.blocks import format_moment
from pages.ui.display_names import state_name
from pages.ui.form import draw_button
from pages.ui.place import Place
from pages.ui.section import draw_heading, draw_remark
from pages.ui.state import draw_link, language, mark_unsaved

_REFUSED = "decision_refused"
LOOK_EVERY = "5s"
Pair = Sequence[KeptAudit]
"""All audits of a pair of models, the open one first."""


def draw_decision(say: Words, place: Place, *, reports: Sequence[AuditReport]) -> Decision:
    """Draw the decision on the open audit's pair and its signatures; return the kept decision.

    `reports` are the open audit's and, if there is one, the other scenario's.
    """
    assert place.audit is not None
    pair = find_pair(place.audit, audits=place.audits)
    digests = [audit.digest for audit in pair]
    history = read_decision_history(digests, store=cached.store())
    decision = (Decision(audit=digests[0]), *history)[-1]
    with st.container(border=True, key="decision"):
        draw_heading(say, "decision")
        _draw_verdicts(say, place.audit, reports)
        if may_or_explain("decided", say):
            _Draft(pair).draw_form(say, decision)
        elif decision.recommendation:
            st.html(blocks.heading(_title(say, decision), below=decision.reasons))
        if decision.recommendation:
            draw_remark(say, "decision_kept", who=decision.by, at=format_moment(decision.at))
            if newer := [audit.at for audit in pair if audit.at > decision.at]:
                draw_remark(say, "decision_newer", at=format_moment(max(newer)))
            _draw_signatures(say, decision, pair)
        # Under the button that was pressed.
        if error := st.session_state.pop(_REFUSED, None):
            # Without the place: the button that was pressed stands above.
            why = AuditError(error.what, do=error.do).render(say.language)
            st.html(blocks.heading(say.text("decision_refused"), below=why))
        _draw_history(say, history)
    return decision


def _title(say: Words, decision: Decision) -> str:
    return say.text(f"decision_{decision.recommendation or 'none'}")


def _draw_verdicts(say: Words, audit: KeptAudit, reports: Sequence[AuditReport]) -> None:
    """Draw the verdict of each scenario; of one without an audit, that it is to be run first."""
    reports_by_scenario = {report.scenario.number: report for report in reports}
    for number in (1, 2):
        report = reports_by_scenario.get(number)
        name = say.text("scenario_short", number=number)
        with st.container(key=f"decision_scenario_{number}"):
            if report is None:
                _draw_missing_scenario(say, audit, number)
                continue
            verdict = report.verdict
            state = state_name(say, verdict.state, rule=verdict.rule)
            st.html(blocks.line(name, state, state=verdict.state))
            if report.digest != audit.digest:
                st.html(blocks.heading("", below=verdict.in_short(say.language)))
                label = say.text(f"open_scenario_{number}")
                draw_link("verdict", label=label, audit=report.digest)


def _draw_missing_scenario(say: Words, audit: KeptAudit, number: int) -> None:
    is_running = audit.is_demo and any(job.kind == "demo" for job in service.active_jobs())
    below = say.text("no_other_yet" if is_running else "no_other")
    st.html(blocks.line(say.text("scenario_short", number=number), below))
    if not is_running:
        again = cached.request_to_repeat(audit.digest)
        field_names = ("general", "hospital", "names", "passages")
        query = {key: code for key in field_names if (code := getattr(again, key))}
        draw_link("audit", label=say.text("no_other_run"), scenario=str(number), **query)


class _Draft:
    """What this session writes about a pair, and the decision that it last saw."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._code = f"{zlib.crc32(repr(pair[0].pair).encode()):08x}"
        self._choice_key, self._reasons_key, self._seen_key, self._elsewhere_key = (
            f"decision_{part}_{self._code}" for part in ("choice", "why", "seen", "elsewhere")
        )

    def draw_form(self, say: Words, decision: Decision) -> None:
        """Draw the choice and the reasons, whether they are saved, and the button that saves."""
        self._follow(decision)
        mark = partial(mark_unsaved, self._code)
        chosen = st.radio(
            say.text("decision"),
            ("", *RECOMMENDATIONS),
            format_func=lambda code: say.text(f"decision_{code or 'none'}"),
            key=self._choice_key,
            persist_state="session",
            label_visibility="collapsed",
            on_change=mark,
        )
        is_needed = chosen in decisions.RELEASES and has_leak(self._pair)
        st.text_area(
            say.text("decision_reasons_needed" if is_needed else "decision_reasons"),
            height=110,
            key=self._reasons_key,
            placeholder=say.text("decision_reasons_place"),
            persist_state="session",
            max_chars=decisions.MAX_REASONS_CHARS,
            on_change=mark,
        )
        is_unsaved = self._differs(decision)
        mark(is_unsaved)
        if decision.signatures:
            draw_remark(say, "decision_drops")
        is_changed = st.session_state.get(self._elsewhere_key) == decision
        if is_changed:
            self._draw_change(say, decision)
        decide = partial(access.decide, decision, pair=self._pair, language=language())
        keys = {"recommendation": self._choice_key, "reasons": self._reasons_key}
        # Another button: a click that was meant for the decision as it was must not replace it.
        button = "decision_replace" if is_changed and is_unsaved else "decision_keep"
        with st.container(horizontal=True, vertical_alignment="center"):
            draw_button(say, button, kind="primary", on_click=lambda: self.apply(decide, keys))
            if is_changed and is_unsaved:
                discard = partial(self._take_over, decision)
                draw_button(say, "decision_take_over", on_click=discard)
            elif is_unsaved:
                with st.container(key="decision_unsaved"):
                    draw_remark(say, "decision_unsaved")
                st.fragment(self._look_elsewhere, run_every=LOOK_EVERY)()

    def apply(self, change: Callable[..., Decision], keys: Mapping[str, str]) -> None:
        """Decide, sign or withdraw with the values of widgets; the page draws a refusal."""
        try:
            decision = change(**{name: st.session_state[key] for name, key in keys.items()})
        except AuditError as error:
            st.session_state[_REFUSED] = error
            return
        st.session_state[self._seen_key] = decision
        if self._reasons_key in keys.values():
            self._take_over(decision)

    def _follow(self, decision: Decision) -> None:
        """Show a decision that another person or tab has saved, unless a draft is in its place."""
        last_decision = st.session_state.get(self._seen_key)
        if last_decision is None or self._choice_key not in st.session_state:
            self._take_over(decision)
        elif last_decision != decision:
            st.session_state[self._elsewhere_key] = decision
            if not self._differs(last_decision):
                self._take_over(decision)
        st.session_state[self._seen_key] = decision

    def _look_elsewhere(self) -> None:
        """Rerun the page if somebody else has saved a decision; runs while a draft is not saved."""
        digests = [audit.digest for audit in self._pair]
        history = read_decision_history(digests, store=cached.store())
        if history and history[-1] != st.session_state.get(self._seen_key):
            st.rerun(scope="app")

    def _differs(self, decision: Decision) -> bool:
        draft = st.session_state[self._choice_key], st.session_state[self._reasons_key].strip()
        return draft != (decision.recommendation, decision.reasons)

    def _take_over(self, decision: Decision) -> None:
        """Put a decision into the boxes; what stood there is gone."""
        st.session_state[self._choice_key] = decision.recommendation
        st.session_state[self._reasons_key] = decision.reasons
        mark_unsaved(self._code, False)

    def _draw_change(self, say: Words, decision: Decision) -> None:
        """Draw what was saved elsewhere, and that one's own draft is still there."""
        with st.container(key="decision_elsewhere"):
            draw_remark(
                say,
                "decision_elsewhere",
                decision=_title(say, decision),
                who=decision.by,
                at=format_moment(decision.at),
            )
            if self._differs(decision):
                draw_remark(say, "decision_draft_kept")


def _draw_signatures(say: Words, decision: Decision, pair: Pair) -> None:
    draft, has_logins, person = _Draft(pair), access.has_logins(), access.identify_person()
    for signature in decision.signatures:
        name_column, withdraw_column = st.columns([3, 2], vertical_alignment="center")
        signed_by, role = (
            "login" if signature.is_login else "name",
            say.text(f"decision_role_{signature.role}"),
        )
        role_line = say.text(f"decision_by_{signed_by}", role=role, at=format_moment(signature.at))
        name_column.html(blocks.line(signature.name, role_line))
        if not has_logins or signature.name == person:
            withdraw = partial(access.withdraw, decision, pair=pair, name=signature.name)
            name = f"decision_withdraw_{signature.role}"
            with withdraw_column:
                draw_button(
                    say,
                    "decision_withdraw",
                    name=name,
                    kind="tertiary",
                    on_click=partial(draft.apply, withdraw, {}),
                )
    second = "decision_second" if decision.signatures else "decision_unsigned"
    draw_remark(say, "decision_signed" if decision.is_signed else second)
    signed_roles = {signature.role for signature in decision.signatures}
    roles = [role for role in SIGNATURE_ROLES if role not in signed_roles]
    if not roles or not may_or_explain("signed", say):
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
            draw_remark(say, "decision_as", who=person)
        else:
            keys["name"] = f"decision_name_{len(roles)}"
            st.text_input(
                say.text("decision_name"), max_chars=decisions.MAX_NAME_CHARS, key=keys["name"]
            )
        st.form_submit_button(
            say.text("decision_sign"),
            key="decision_sign_now",
            on_click=draft.apply,
            args=(partial(access.sign, decision, pair=pair), keys),
        )


def _draw_history(say: Words, history: Sequence[Decision]) -> None:
    """Draw the earlier decisions, the newest first, each with its last signatures."""
    past = list({decision.at: decision for decision in history}.values())[-2::-1]
    if not past:
        return
    with st.expander(say.text("decision_history", n=len(past)), key="decision_history"):
        for decision in past:
            names = ", ".join(signature.name for signature in decision.signatures)
            key = "decision_past" if names else "decision_past_unsigned"
            signers = say.text(key, who=decision.by, at=format_moment(decision.at), names=names)
            st.html(blocks.line(_title(say, decision), signers))
            if decision.reasons:
                st.html(blocks.heading("", below=decision.reasons))
