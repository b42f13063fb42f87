"""Jobs: what is running, what is waiting, what has ended and how?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from audit.jobs import service
from audit.jobs.table import Job, read_order
from audit.run import AuditTask, read_finished_sizes
from audit.words import Words
from pages.ui import cached
from pages.ui.access import may, who
from pages.ui.form import act
from pages.ui.running import card, change, live_cards, run_demo_button
from pages.ui.section import empty, head, page, refusals, remark
from pages.ui.state import link

N_ENDED = 20
_ALL = "jobs_all"
RESULTS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "corpus": ("workshop", "corpus", {"tab": "corpus"}),
    "pretrain": ("workshop", "run", {"tab": "training"}),
    "leakage": ("workshop", "leakage", {"tab": "leakage"}),
    "tagging": ("deidentify", "tagged", {}),
    "score": ("deidentify", "score", {}),
    "audit": ("verdict", "audit", {}),
    "judge": ("verdict", "audit", {}),
    "demo": ("verdict", "audit", {}),
}
"""Kind of job -> the page that shows what came of it, the link's parameter, and where on it.

What comes of the others lies where their command has put it.
"""


def draw(say: Words) -> None:
    """Draw what is at work and what has ended."""
    service.recover()
    remark(say, "jobs_below")
    chosen, jobs = st.query_params.get("job", ""), service.jobs()
    if not jobs:
        empty(say, "jobs_empty")
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            if may("ran"):
                run_demo_button(say, key="jobs_run_demo")
            link("audit", label=say.text("go_to_run"))
        return
    is_at_work = any(job.is_active for job in jobs)
    head(say, "jobs_active", below="" if is_at_work else "jobs_none_active")
    live_cards(say, lambda say, job: card(say, job, is_chosen=job.job_id == chosen))
    draw_ended(say, [job for job in jobs if not job.is_active], chosen=chosen)


def draw_ended(say: Words, ended: Sequence[Job], *, chosen: str) -> None:
    """Draw the jobs that ended, the newest first; the older ones once they are asked for."""
    if not ended:
        return
    head(say, "jobs_ended")
    n_shown = len(ended) if st.session_state.get(_ALL) else N_ENDED
    shown = [job for n, job in enumerate(ended) if n < n_shown or job.job_id == chosen]
    for job in shown:
        card(say, job, more=draw_actions, is_chosen=job.job_id == chosen)
    n_hidden = len(ended) - len(shown)
    if n_hidden and act(say, "jobs_show_all", name="jobs_show_all_button", n=n_hidden):
        st.session_state[_ALL] = True
        st.rerun()


def draw_actions(say: Words, job: Job) -> None:
    """Draw what can be done with a job that ended."""
    if job.result:
        if job.kind in RESULTS:
            page, code, where = RESULTS[job.kind]
            label, icon = say.text(f"jobs_open_{job.kind}"), ":material/arrow_forward:"
            link(page, label=label, icon=icon, **where, **{code: job.result[0]})
    elif service.can_resume(job) and may("ran"):
        draw_ways_on(say, job)
    if may("changed") and act(say, "jobs_forget", name=f"forget-{job.job_id}", kind="tertiary"):
        with refusals(say, key="jobs_refused"):
            service.forget(job.job_id)
            st.rerun()


def draw_ways_on(say: Words, job: Job) -> None:
    """Draw how a job without a result goes on, and the way to what both models have finished."""
    if act(say, "jobs_resume", name=f"resume-{job.job_id}"):
        change(say, lambda: service.resume(job.job_id), action="resumed")
    part = read_finished_sizes(job.question, store=cached.store())
    n = f"{part.get('n_documents') or part['n_inputs']:,}" if part else ""
    if part and act(say, "jobs_part", name=f"part-{job.job_id}", n=n):
        task = AuditTask.from_order(read_order(job.job_id)).with_sizes(part)
        change(say, lambda: service.ask(task.question(), owner=who()), action="ran")


page("jobs", draw)
