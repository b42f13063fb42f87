"""Jobs: what is running, what is waiting, what has ended and how?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from audit.jobs import service
from audit.jobs.table import Job, read_order
from audit.report.audit_store import read_finished_sizes
from audit.run import AuditTask
from audit.words import Words
from pages.ui import cached
from pages.ui.access import identify_person, may
from pages.ui.blocks import escape_html, state_mark
from pages.ui.display_names import state_name
from pages.ui.form import draw_button
from pages.ui.running import change_job, draw_demo_button, draw_job_card, draw_live_cards
from pages.ui.section import draw_absence, draw_heading, draw_page, draw_remark, show_refusals
from pages.ui.state import draw_link

N_ENDED = 20
_ALL = "jobs_all"
RESULTS: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "corpus": ("workshop", "corpus", {"tab": "corpus"}),
    "pretrain": ("workshop", "run", {"tab": "training"}),
    "convert": ("audit", "hospital", {}),
    "leakage": ("workshop", "leakage", {"tab": "leakage"}),
    "tagging": ("deidentify", "tagged", {}),
    "score": ("deidentify", "score", {}),
    "audit": ("verdict", "audit", {}),
    "judge": ("verdict", "audit", {}),
    "demo": ("verdict", "audit", {}),
}
"""Kind of job -> the page that shows its result, the link's parameter, and the place on the page.

The results of other kinds are where their command puts them.
"""


def draw(say: Words) -> None:
    """Draw the active jobs and the ended ones."""
    service.recover()
    draw_remark(say, "jobs_below")
    chosen, jobs = st.query_params.get("job", ""), service.jobs()
    if not jobs:
        draw_absence(say, "jobs_empty")
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            if may("ran"):
                draw_demo_button(say, key="jobs_run_demo")
            draw_link("audit", label=say.text("go_to_run"))
        return
    is_at_work = any(job.is_active for job in jobs)
    draw_heading(say, "jobs_active", below="" if is_at_work else "jobs_none_active")
    draw_live_cards(say, lambda say, job: draw_job_card(say, job, is_chosen=job.job_id == chosen))
    draw_ended(say, [job for job in jobs if not job.is_active], chosen=chosen)


def draw_ended(say: Words, ended: Sequence[Job], *, chosen: str) -> None:
    """Draw the ended jobs, the newest first; a button shows the older ones."""
    if not ended:
        return
    draw_heading(say, "jobs_ended")
    n_shown = len(ended) if st.session_state.get(_ALL) else N_ENDED
    visible_jobs = [job for n, job in enumerate(ended) if n < n_shown or job.job_id == chosen]
    for job in visible_jobs:
        draw_job_card(say, job, draw_actions=draw_actions, is_chosen=job.job_id == chosen)
    n_hidden = len(ended) - len(visible_jobs)
    if n_hidden and draw_button(say, "jobs_show_all", name="jobs_show_all_button", n=n_hidden):
        st.session_state[_ALL] = True
        st.rerun()


def draw_actions(say: Words, job: Job) -> None:
    """Draw the verdicts and the actions for an ended job."""
    if job.result:
        draw_verdicts(say, job)
        if job.kind in RESULTS:
            page, code, query = RESULTS[job.kind]
            label, icon = say.text(f"jobs_open_{job.kind}"), ":material/arrow_forward:"
            draw_link(page, label=label, icon=icon, **query, **{code: job.result[0]})
    elif service.can_resume(job) and may("ran"):
        draw_ways_on(say, job)
    if may("changed") and draw_button(
        say, "jobs_forget", name=f"forget-{job.job_id}", kind="tertiary"
    ):
        with show_refusals(say, key="jobs_refused"):
            service.forget(job.job_id)
            st.rerun()


def draw_verdicts(say: Words, job: Job) -> None:
    """Draw the verdicts that a job has reached, in a few words each."""
    audits = {audit.digest: audit for audit in cached.kept_audits()[0]}
    chips = "".join(
        f'<span class="ka-chip">{state_mark(audit.state)}'
        f"{escape_html(state_name(say, audit.state, rule=audit.rule))}</span>"
        for audit in map(audits.get, job.result)
        if audit is not None
    )
    if chips:
        st.html(chips)


def draw_ways_on(say: Words, job: Job) -> None:
    """Draw how a job without a result can resume, and the part that both models finished."""
    if draw_button(say, "jobs_resume", name=f"resume-{job.job_id}"):
        change_job(say, lambda: service.resume(job.job_id), action="resumed")
    part = read_finished_sizes(job.question, store=cached.store())
    n = f"{part.get('n_documents') or part['n_inputs']:,}" if part else ""
    if part and draw_button(say, "jobs_part", name=f"part-{job.job_id}", n=n):
        task = AuditTask.from_order(read_order(job.job_id)).with_sizes(part)
        change_job(say, lambda: service.ask(task.question(), owner=identify_person()), action="ran")


draw_page("jobs", draw)
