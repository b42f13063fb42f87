"""Jobs on the screen: as cards, in the sidebar, and on the page that started them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypedDict

import streamlit as st

from audit.deid.measure.score_report import SCORES
from audit.deid.measure.scoring import ScoreTask
from audit.errors import AuditError, render_message
from audit.jobs import service
from audit.jobs.table import COMMAND, Job, read_order
from audit.progress import FINISHING
from audit.task import SHORT, Question
from audit.words import Words
from pages.ui import cached
from pages.ui.access import identify_person, log_action, may
from pages.ui.blocks import escape_html, format_moment, message_html
from pages.ui.display_names import (
    audited_names,
    demo_model_name,
    gold_name,
    score_name,
    tagger_name,
)
from pages.ui.form import draw_button
from pages.ui.section import draw_heading, draw_remark, show_refusals
from pages.ui.state import draw_link, go_to

Draw = Callable[[Words, Job], None]


class FirstLook(TypedDict):
    """The sizes of a `DemoTask`."""

    n_documents: int
    n_inputs: int


FIRST_LOOK = FirstLook(n_documents=100, n_inputs=200)
"""Sizes of the demonstration in the app; what more would change is in docs/results.md."""


def draw_job_card(
    say: Words,
    job: Job,
    *,
    draw_actions: Draw | None = None,
    page: str = "",
    is_chosen: bool = False,
) -> None:
    """Draw a job: its kind, its progress or end, the button that stops it, and its actions."""
    with st.container(border=True, key=f"{page}job-{job.job_id}"):
        facts, rest = _job_facts(say, job)
        kind_key = f"jobs_kind_{job.kind}" + (f"_{job.scenario}" if job.kind == "audit" else "")
        kind_key = kind_key if kind_key in say.sentences else "jobs_kind_other"
        st.html(
            f'<div class="ka-job ka-job-{job.state}{" ka-job-chosen" * is_chosen}">'
            f'<p class="ka-job-line"><span class="ka-job-state">'
            f"{say.html(f'jobs_state_{job.state}')}</span> <strong>{say.html(kind_key)}"
            f"</strong> {escape_html(_job_name(say, job))}</p>{_reasons(say, job)}"
            f'<p class="ka-footer">{facts}</p><details class="ka-footer">'
            f"<summary>{say.html('details')}</summary>{rest}</details></div>"
        )
        if job.is_active:
            st.progress(job.share, text=progress_text(say, job))
            if (cause := service.find_wait_cause(job)) is not None:
                st.html(f'<p class="ka-footer">{message_html(cause.render(say.language))}</p>')
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            if job.is_active and may("cancelled"):
                _draw_cancel_button(say, job)
            if draw_actions is not None:
                draw_actions(say, job)


def _job_name(say: Words, job: Job) -> str:
    """Return the models, notes or de-identifier that a job works on."""
    if job.kind == "demo":
        return " → ".join(demo_model_name(say, name) for name in job.label.split(" → "))
    if job.kind == "audit":
        of_job = (audit for audit in cached.kept_audits()[0] if audit.digest in job.result)
        names = next((audited_names(say, audit) for audit in of_job), None)
        return f"{names['general']} → {names['hospital']}" if names else job.label
    if job.kind not in ("score", "tagging"):
        return job.label
    tagger = tagger_name(say, job.label) if job.label else ""
    if job.kind == "tagging":
        return tagger
    if job.result:
        with suppress(AuditError):  # the score was removed
            return score_name(say, SCORES.get(job.result[0]))
        return tagger
    with suppress(AuditError):  # the order is no longer kept
        task = ScoreTask.from_order(read_order(job.job_id))
        predicted = " · ".join(filter(None, (task.title, tagger)))
        return say.text("called_measuring", title=predicted, gold=gold_name(say, task.gold))
    return tagger


def draw_live_cards(say: Words, draw: Draw, *, kind: str = "") -> set[str]:
    """Draw the active jobs (of one kind) again each second; rerun the page if their set changes.

    Returns the identifiers of the jobs.
    """

    def read_active_jobs() -> dict[str, Job]:
        active = sorted(service.active_jobs(), key=lambda job: (job.device, job.n_before))
        return {job.job_id: job for job in active if kind in ("", job.kind)}

    def draw_cards() -> None:
        with show_refusals(say):
            jobs = read_active_jobs()
            if set(jobs) != ids:
                st.rerun(scope="app")
            for job in jobs.values():
                draw(say, job)

    ids = set(read_active_jobs())
    if ids:
        st.fragment(draw_cards, run_every="1s")()
    return ids


def is_of_audits(job: Job) -> bool:
    """Return whether a job ends in a verdict."""
    return job.kind in ("demo", "audit")


def draw_first_running(say: Words, *, is_done: Callable[[], bool]) -> bool:
    """Follow the running audits until the first is done; return False if none runs."""
    service.recover()
    if not any(map(is_of_audits, service.active_jobs())):
        return False

    def draw_job(say: Words, job: Job) -> None:
        if is_done():
            st.rerun(scope="app")
        if is_of_audits(job):
            draw_job_card(say, job)

    draw_heading(say, "first_running")
    draw_live_cards(say, draw_job)
    return True


def change_job(say: Words, make: Callable[[], Job], *, action: str) -> None:
    """Change a job at a person's request, log it, and rerun the page with that job in view."""
    with show_refusals(say, key="jobs_refused"):
        st.query_params["job"] = _log_job(make(), action).job_id
        st.rerun(scope="app")


def _log_job(job: Job, action: str, *, audit: str = "", **counts: int) -> Job:
    log_action(
        action,
        audit=audit,
        is_once=False,
        job=job.job_id,
        kind=job.kind,
        device=job.device,
        **counts,
    )
    return job


def _draw_cancel_button(say: Words, job: Job) -> None:
    key = f"cancel-ask-{job.job_id}"
    with st.popover(say.text("jobs_cancel"), disabled=job.is_cancel_wanted, key=key):
        draw_remark(say, f"jobs_cancel_why{_key_suffix(job)}")
        if draw_button(say, "jobs_cancel_now", name=f"cancel-{job.job_id}", kind="primary"):
            change_job(say, lambda: service.cancel(job.job_id), action="cancelled")


# A job in words.


def progress_text(say: Words, job: Job) -> str:
    """Return the text of a job's progress bar; trusted text, for a Streamlit label."""
    progress = {"stage": _stage(say, job), "percent": _percent(job)}
    if job.state == "queued":
        return progress["stage"]
    if job.seconds_left is None or job.stage in ("stopping", FINISHING):
        return say.text("jobs_progress", **progress)
    return say.text("jobs_progress_left", left=time_left(say, job.seconds_left), **progress)


def time_left(say: Words, seconds: float) -> str:
    """Return the remaining time of a job in rounded words."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return say.text("jobs_left_seconds", n=max(1, round(seconds)))
    if seconds < 3600:
        return say.text("jobs_left_minutes", n=minutes)
    return say.text("jobs_left_hours", h=minutes // 60, n=minutes % 60)


def _percent(job: Job) -> str:
    return str(int(100 * job.share))  # 100 only at the end


def _stage(say: Words, job: Job) -> str:
    """Return what a job is doing, with the sentence of its kind if there is one."""
    of_kind = (f"{job.kind}_{job.stage}", job.stage, f"{job.kind}_other", "other")
    return next(filter(None, (say.sentences.get(f"jobs_stage_{stage}") for stage in of_kind)))


def _key_suffix(job: Job) -> str:
    # A corpus is never kept in part: a build that was stopped leaves nothing.
    return "_corpus" if job.kind == "corpus" else ""


def _job_facts(say: Words, job: Job) -> tuple[str, str]:
    """Return the main facts of a job, and the details that few readers need, as HTML."""
    has_stopped = not job.is_active and job.state != "done" and job.share > 0
    facts = (
        ("jobs_asked", True),
        ("jobs_ended_at", job.finished),
        ("jobs_reached", has_stopped),
        ("jobs_position", job.state == "queued" and job.n_before),
        ("jobs_by", job.owner),
    )
    rest = (
        ("jobs_beside" if job.device == SHORT else "jobs_on", True),
        ("jobs_by_command", job.runner == COMMAND),
        ("jobs_attempts", job.n_attempts > 1),
        ("jobs_id", True),
    )
    message_fields = vars(job) | {
        "created": format_moment(job.created),
        "finished": format_moment(job.finished),
        "percent": _percent(job),
    }
    main_line, detail_line = (
        " · ".join(say.html(key, **message_fields) for key, is_so in sentences if is_so)
        for sentences in (facts, rest)
    )
    return main_line, detail_line


def _reasons(say: Words, job: Job) -> str:
    lines = []
    if job.failure is not None:
        why = AuditError(job.failure.what, where=job.failure.where)
        lines = [why.render(say.language), render_message(job.failure.do, say.language)]
    elif job.state in ("cancelled", "interrupted"):
        lines = [say.text(f"jobs_{job.state}_why{_key_suffix(job)}")]
    return "".join(f'<p class="ka-job-why">{message_html(line)}</p>' for line in lines if line)


# In the sidebar, and on the page that started the job.


def draw_job_line(words: Words) -> None:
    """Draw the link to the Jobs page, with the running job and its progress while there is one.

    Only whole percents are shown: the Jobs page refreshes faster, so exact numbers would differ.
    The page reruns when all jobs have ended.
    """

    def draw_line() -> None:
        active = _read_active_jobs()
        if not active:
            st.rerun(scope="app")
        # The running job, or else the next one in the queue.
        job = next((job for job in active if job.state == "running"), active[-1])
        n_more = len(active) - 1
        label = words.text(
            "job_line_more" if n_more else "job_line_now",
            stage=_stage(words, job),
            percent=_percent(job),
            n=n_more,
        )
        draw_link("jobs", label=label, icon=":material/progress_activity:", job=job.job_id)

    with st.container(key="job_line"):
        if _read_active_jobs():
            st.fragment(draw_line, run_every="5s")()
        else:
            draw_link("jobs", label=words.text("jobs_link"), icon=":material/checklist:")


def _read_active_jobs() -> tuple[Job, ...]:
    try:
        return service.active_jobs()
    except AuditError:
        return ()  # the page says why


def draw_demo_button(say: Words, *, key: str, page: str = "jobs") -> None:
    """Draw the buttons that submit the demonstration and open the page that shows its progress.

    One is of masked models in the reader's language, the other of causal ones, which are English.
    """
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        if draw_button(say, "start_demo_button", name=key, kind="primary"):
            _start_demo(say, page=page, language=say.language)
        if draw_button(say, "start_demo_causal", name=f"{key}_causal"):
            _start_demo(say, page=page, is_causal=True)


def _start_demo(say: Words, *, page: str, **choices: object) -> None:
    with show_refusals(say, key="jobs_refused"):
        owner = identify_person()
        job = _log_job(service.submit("demo", owner=owner, **choices, **FIRST_LOOK), "ran")
        if job.result:
            go_to("verdict", audit=job.result[0])
        go_to(page, job=job.job_id)


@dataclass(frozen=True)
class FollowedJobs:
    """The jobs of a kind on a page.

    `page` is the prefix of the cards' keys, of the session's key and of the sentence
    `PAGE_see_job`, which links to the page Jobs. `on_done` draws the result of the followed job, or
    lets the page show it.
    """

    kind: str
    page: str
    on_done: Callable[[Words, str], None]

    def start(self, question: Question, **counts: int) -> None:
        """Submit a question, log it and follow its job; raises `AuditError` as `service.ask`."""
        audit = question.audits[0] if question.audits else ""
        job = _log_job(service.ask(question, owner=identify_person()), "ran", audit=audit, **counts)
        st.session_state[f"{self.page}_job"] = job.job_id

    def draw(self, say: Words) -> bool:
        """Draw the active jobs, and the result of the followed job if it has ended.

        Returns whether the followed job is still active.
        """
        service.recover()
        followed_id = st.session_state.get(f"{self.page}_job", "")
        above = st.container(key=f"{self.page}-followed")
        is_at_work = followed_id in draw_live_cards(say, self._draw_card, kind=self.kind)
        if followed_id and not is_at_work:
            del st.session_state[f"{self.page}_job"]
            for job in service.jobs():  # the job is missing if somebody removed it
                with above:
                    if job.job_id == followed_id and job.result:
                        self.on_done(say, job.result[0])
                    elif job.job_id == followed_id:
                        self._draw_card(say, job)
        return is_at_work

    def _draw_card(self, say: Words, job: Job) -> None:
        def draw_jobs_link(say: Words, job: Job) -> None:
            draw_link("jobs", label=say.text(f"{self.page}_see_job"), job=job.job_id)

        draw_job_card(say, job, draw_actions=draw_jobs_link, page=f"{self.page}-")
