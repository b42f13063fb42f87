"""Jobs that measure de-identifiers, on the page that asked: started, followed, and their end."""

from __future__ import annotations

import streamlit as st

from audit.deid.scoring import ScoreTask
from pages.ui.followed_jobs import FollowedJobs
from pages.ui.language import Words


def start(order: ScoreTask) -> None:
    """Ask for a score and follow its job; raises `AuditError` as `service.ask`."""
    JOBS.start(order.question(), seed=order.seed)


def show_score(score_id: str) -> None:
    """Let the page show a kept score from its next run on."""
    st.query_params["score"] = score_id
    for name in ("view", "cell", "other"):
        st.query_params.pop(name, None)
    for name in ("deid_cell", "deid_measures_other"):
        st.session_state.pop(name, None)


def _done(say: Words, score_id: str) -> None:
    del say  # the page shows the score itself
    show_score(score_id)


JOBS = FollowedJobs(
    kind=ScoreTask.job, page="deid_measures", see="deid_measures_see_job", on_done=_done
)
