"""Which audit the reader looks at."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from audit.report.report import KeptAudit, choose_audit, other_scenario
from pages.ui import blocks, cached
from pages.ui.language import Words, link

_AUDIT = "place_audit"


@dataclass(frozen=True)
class Place:
    """The audit that the link names, and its neighbours.

    Attributes
    ----------
    kept
        Every kept audit that can be read, own ones before the demo's, the newest first.
    n_unreadable
        Audits that another version of the program wrote.
    audit
        None: nothing is kept, or the link fits no audit.
    other
        The same pair in the other scenario, if it is kept.
    """

    kept: tuple[KeptAudit, ...]
    n_unreadable: int
    audit: KeptAudit | None
    other: KeptAudit | None


def place() -> Place:
    """Return where the link leads; raises as `cached.kept_audits`."""
    (kept, n_unreadable), demo = cached.kept_audits(), cached.demo_audits()
    # The sidebar's links to pages drop the address's query: the session remembers the audit.
    wanted = st.query_params.get("audit") or st.session_state.get(_AUDIT, "")
    audit = choose_audit(wanted, kept=kept, demo=demo)
    if audit:
        st.session_state[_AUDIT] = audit.digest
    other = other_scenario(audit, kept=kept) if audit else None
    return Place(kept, n_unreadable, audit, other)


def audit_or_reason(say: Words) -> KeptAudit | None:
    """Return the audit to show; where there is none, say why and what to do, and return None.

    Raises
    ------
    AuditError
        As `cached.kept_audits`.
    """
    here = place()
    if here.audit is not None:
        return here.audit
    if here.kept:
        st.html(blocks.heading(say.text("wrong_link"), below=say.text("wrong_link_do")))
        newest = here.kept[0].digest
        link("overview", label=say.text("open_newest"), audit=newest)
    else:
        st.html(blocks.heading(say.text("need_audit"), below=say.text("need_audit_do")))
        link("overview", label=say.text("go_to_overview"), audit="")
        link("run", label=say.text("go_to_run"), audit="")
    return None
