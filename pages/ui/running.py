"""Jobs on a screen: in words, in the sidebar's strip, and followed by the page that asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from audit.errors import AuditError, render_message
from audit.jobs import service
from audit.jobs.table import COMMAND, FINISHING, Job
from audit.task import SHORT, Question
from audit.words import Words
from pages.ui.access import may, note, who
from pages.ui.blocks import day, escaped, told
from pages.ui.form import act
from pages.ui.section import refusals, remark
from pages.ui.state import go_to, link

Draw = Callable[[Words, Job], None]


def card(
    say: Words, job: Job, *, more: Draw | None = None, page: str = "", is_chosen: bool = False
) -> None:
    """Draw a job: what it is, how far it is or why it ended, a way to stop it, then `more`."""
    with st.container(border=True, key=f"{page}job-{job.job_id}"):
        facts, rest = _facts(say, job)
        what = f"jobs_kind_{job.kind}" + (f"_{job.scenario}" if job.kind == "audit" else "")
        what = what if what in say.sentences else "jobs_kind_other"
        st.html(
            f'<div class="ka-job ka-job-{job.state}{" ka-job-chosen" * is_chosen}">'
            f'<p class="ka-job-line"><span class="ka-job-state">'
            f"{say.html(f'jobs_state_{job.state}')}</span> <strong>{say.html(what)}"
            f"</strong> {escaped(job.label)}</p>{_reasons(say, job)}"
            f'<p class="ka-footer">{facts}</p><details class="ka-footer">'
            f"<summary>{say.html('details')}</summary>{rest}</details></div>"
        )
        if job.is_active:
            st.progress(job.share, text=progress_text(say, job))
        with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
            if job.is_active and may("cancelled"):
                _cancel_button(say, job)
            if more is not None:
                more(say, job)


def live_cards(say: Words, draw: Draw, *, kind: str = "") -> set[str]:
    """Draw the jobs at work (of a kind), anew each second; the whole page if one comes or ends.

    Returns their identifiers.
    """

    def at_work() -> dict[str, Job]:
        active = sorted(service.active_jobs(), key=lambda job: (job.device, job.n_before))
        return {job.job_id: job for job in active if kind in ("", job.kind)}

    def cards() -> None:
        with refusals(say):
            now = at_work()
            if set(now) != ids:
                st.rerun(scope="app")
            for job in now.values():
                draw(say, job)

    ids = set(at_work())
    if ids:
        st.fragment(cards, run_every="1s")()
    return ids


def change(say: Words, make: Callable[[], Job], *, action: str) -> None:
    """Change a job on a person's word, note it, and draw the page anew with that job in view."""
    with refusals(say, key="jobs_refused"):
        st.query_params["job"] = _noted(make(), action).job_id
        st.rerun(scope="app")


def _noted(job: Job, action: str, *, audit: str = "", **counts: int) -> Job:
    note(action, audit=audit, job=job.job_id, kind=job.kind, device=job.device, **counts)
    return job


def _cancel_button(say: Words, job: Job) -> None:
    key = f"cancel-ask-{job.job_id}"
    with st.popover(say.text("jobs_cancel"), disabled=job.is_cancel_wanted, key=key):
        remark(say, f"jobs_cancel_why{_of(job)}")
        if act(say, "jobs_cancel_now", name=f"cancel-{job.job_id}", kind="primary"):
            change(say, lambda: service.cancel(job.job_id), action="cancelled")


# A job in words.


def progress_text(say: Words, job: Job) -> str:
    """Return what stands at a job's progress bar; trusted text, for a Streamlit label."""
    values = {"stage": _stage(say, job), "percent": _percent(job)}
    if job.state == "queued":
        return values["stage"]
    if job.seconds_left is None or job.stage in ("stopping", FINISHING):
        return say.text("jobs_progress", **values)
    return say.text("jobs_progress_left", left=time_left(say, job.seconds_left), **values)


def time_left(say: Words, seconds: float) -> str:
    """Return how long a job will still take, in words that do not pretend to be exact."""
    minutes = round(seconds / 60)
    if seconds < 120:
        return say.text("jobs_left_seconds", n=max(1, round(seconds)))
    if seconds < 3600:
        return say.text("jobs_left_minutes", n=minutes)
    return say.text("jobs_left_hours", h=minutes // 60, n=minutes % 60)


def _percent(job: Job) -> str:
    return str(int(100 * job.share))  # 100 only at the end


def _stage(say: Words, job: Job) -> str:
    """Return what a job is doing, in the words of its kind where it has its own."""
    of_kind = (f"{job.kind}_{job.stage}", job.stage, f"{job.kind}_other", "other")
    return next(filter(None, (say.sentences.get(f"jobs_stage_{stage}") for stage in of_kind)))


def _of(job: Job) -> str:
    # A corpus is whole or not at all: nothing of a build that was stopped is kept.
    return "_corpus" if job.kind == "corpus" else ""


def _facts(say: Words, job: Job) -> tuple[str, str]:
    """Return what everybody asks about a job, and what few need, as HTML."""
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
    values = vars(job) | {
        "created": day(job.created),
        "finished": day(job.finished),
        "percent": _percent(job),
    }
    one, two = (
        " · ".join(say.html(key, **values) for key, is_so in some if is_so)
        for some in (facts, rest)
    )
    return one, two


def _reasons(say: Words, job: Job) -> str:
    lines = []
    if job.failure is not None:
        why = AuditError(job.failure.what, where=job.failure.where)
        lines = [why.render(say.language), render_message(job.failure.do, say.language)]
    elif job.state in ("cancelled", "interrupted"):
        lines = [say.text(f"jobs_{job.state}_why{_of(job)}")]
    return "".join(f'<p class="ka-job-why">{told(line)}</p>' for line in lines if line)


# In the sidebar, and on the page that asked.


def job_line(words: Words) -> None:
    """Draw the way to the Jobs page: what runs, while something does, and how far it is.

    Only a whole percent is shown: the Jobs page counts faster, and two numbers would differ. The
    page is drawn anew when all has ended.
    """

    def line() -> None:
        active = _active()
        if not active:
            st.rerun(scope="app")
        # The one that runs, else the one whose turn comes next.
        job = next((job for job in active if job.state == "running"), active[-1])
        n_more = len(active) - 1
        label = words.text(
            "job_line_more" if n_more else "job_line_now",
            stage=_stage(words, job),
            percent=_percent(job),
            n=n_more,
        )
        link("jobs", label=label, icon=":material/progress_activity:", job=job.job_id)

    with st.container(key="job_line"):
        if _active():
            st.fragment(line, run_every="5s")()
        else:
            link("jobs", label=words.text("jobs_link"), icon=":material/checklist:")


def _active() -> tuple[Job, ...]:
    try:
        return service.active_jobs()
    except AuditError:
        return ()  # the page says why


def run_demo_button(say: Words, *, key: str, page: str = "jobs") -> None:
    """Draw the button that submits the demonstration and goes to where it can be followed."""
    if act(say, "start_demo_button", name=key, kind="primary"):
        with refusals(say, key="jobs_refused"):
            job = _noted(service.submit("demo", owner=who(), language=say.language), "ran")
            if job.result:
                go_to("verdict", audit=job.result[0])
            go_to(page, job=job.job_id)


@dataclass(frozen=True)
class FollowedJobs:
    """The jobs of a kind on a page.

    `page` is the prefix of the cards' keys, the session's and the sentence `PAGE_see_job`, the link
    to the page Jobs; `on_done` draws, or lets the page show, what came of the followed job.
    """

    kind: str
    page: str
    on_done: Callable[[Words, str], None]

    def start(self, question: Question, **counts: int) -> None:
        """Ask, log it and follow the job; raises `AuditError` as `service.ask`."""
        audit = question.audits[0] if question.audits else ""
        job = _noted(service.ask(question, owner=who()), "ran", audit=audit, **counts)
        st.session_state[f"{self.page}_job"] = job.job_id

    def draw(self, say: Words) -> bool:
        """Draw the jobs that are at work, and how the one that was followed has ended.

        Returns whether the one that was asked for here is still at work.
        """
        service.recover()
        followed, above = st.session_state.get(f"{self.page}_job", ""), st.container()
        is_at_work = followed in live_cards(say, self._draw_card, kind=self.kind)
        if followed and not is_at_work:
            del st.session_state[f"{self.page}_job"]
            for job in service.jobs():  # not there if somebody removed it from the list
                with above:
                    if job.job_id == followed and job.result:
                        self.on_done(say, job.result[0])
                    elif job.job_id == followed:
                        self._draw_card(say, job)
        return is_at_work

    def _draw_card(self, say: Words, job: Job) -> None:
        def see(say: Words, job: Job) -> None:
            link("jobs", label=say.text(f"{self.page}_see_job"), job=job.job_id)

        card(say, job, more=see, page=f"{self.page}-")
