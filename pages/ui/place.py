"""The audit that a link names, and the pages about one audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from audit.report.audit_store import read_demo_digests
from audit.report.report import KeptAudit, choose_audit, find_other_scenario
from audit.words import Words
from pages.ui import cached
from pages.ui.running import draw_first_running
from pages.ui.section import draw_absence, draw_page
from pages.ui.state import draw_link, once_a_run


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
        None if nothing is kept or the link matches no audit.
    other
        The same pair in the other scenario, if it is kept.
    """

    audits: tuple[KeptAudit, ...]
    n_unreadable: int
    audit: KeptAudit | None
    other_audit: KeptAudit | None


@once_a_run
def find_place() -> Place:
    """Return the place that the link names; raises as `cached.kept_audits`."""
    (audits, n_unreadable), demo = cached.kept_audits(), read_demo_digests(cached.store())
    # The sidebar's links to pages drop the address's query: the session remembers the audit.
    digest_prefix = st.query_params.get("audit") or st.session_state.get("place_audit", "")
    audit = choose_audit(digest_prefix, audits=audits, demo=demo)
    if audit:
        st.session_state["place_audit"] = audit.digest
    other_audit = find_other_scenario(audit, audits=audits) if audit else None
    return Place(audits, n_unreadable, audit, other_audit)


def draw_audit_page(code: str, draw: Callable[[Words, KeptAudit], None]) -> None:
    """Draw a page about one audit; if the link names none, say why and what to do."""

    def draw_found_audit(say: Words) -> None:
        place = find_place()
        if place.audit is not None:
            draw(say, place.audit)
        elif place.audits:
            draw_absence(say, "wrong_link")
            draw_link("verdict", label=say.text("open_newest"), audit=place.audits[0].digest)
        elif not draw_first_running(say, is_done=cached.has_audit):
            draw_absence(say, "need_audit")
            draw_link("verdict", label=say.text("go_to_overview"), audit="")
            draw_link("audit", label=say.text("go_to_run"), audit="")

    draw_page(code, draw_found_audit)
