"""Jobs of one kind on the page that asks for them: started, followed, and shown when they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from audit.errors import AuditError
from audit.jobs import service
from audit.jobs.table import Job
from audit.task import Question
from pages.ui import blocks
from pages.ui.job_card import job_head, progress_text
from pages.ui.language import Words, link
from pages.ui.logged import note, who


@dataclass(frozen=True)
class FollowedJobs:
    """The jobs of a kind on a page.

    Attributes
    ----------
    kind
        As in `Job`.
    page
        Prefix of the cards' keys, and of the session's.
    see
        The sentence of the link to the page Jobs.
    on_done
        Draws, or lets the page show, what came of the followed job: called with its result.
    """

    kind: str
    page: str
    see: str
    on_done: Callable[[Words, str], None]

    def start(self, question: Question, **counts: int) -> None:
        """Ask, log it and follow the job; raises `AuditError` as `service.ask`."""
        job = service.ask(question, owner=who())
        note("ran", kind=job.kind, job=job.job_id, device=job.device, **counts)
        st.session_state[self._followed] = job.job_id

    def draw(self, say: Words) -> bool:
        """Draw the jobs that are at work, and how the one that was followed has ended.

        Returns whether the one that was asked for here is still at work.
        """
        service.recover()
        active = self._active()
        self._draw_ended(say, active)
        if not active:
            return False
        ids = {job.job_id for job in active}

        def cards() -> None:
            try:
                now = {job.job_id: job for job in self._active()}
            except AuditError as error:
                below = error.written(say.language)
                st.html(blocks.heading(say.text("no_data"), below=below))
                return
            if set(now) != ids:
                st.rerun(scope="app")
            for job in now.values():
                self._draw_card(say, job, has_progress=True)

        st.fragment(cards, run_every="1s")()
        return st.session_state.get(self._followed, "") in ids

    @property
    def _followed(self) -> str:
        return f"{self.page}_job"

    def _draw_card(self, say: Words, job: Job, *, has_progress: bool) -> None:
        with st.container(border=True, key=f"{self.page.replace('_', '-')}-job-{job.job_id}"):
            st.html(job_head(say, job))
            if has_progress:
                st.progress(job.share, text=progress_text(say, job))
            link("jobs", label=say.text(self.see), job=job.job_id)

    def _draw_ended(self, say: Words, active: tuple[Job, ...]) -> None:
        followed = st.session_state.get(self._followed, "")
        if not followed or followed in {job.job_id for job in active}:
            return
        st.session_state.pop(self._followed)
        try:
            job = service.job(followed)
        except AuditError:
            return  # somebody removed it from the list
        if job.result:
            self.on_done(say, job.result[0])
        else:
            self._draw_card(say, job, has_progress=False)

    def _active(self) -> tuple[Job, ...]:
        return tuple(job for job in service.active_jobs() if job.kind == self.kind)
