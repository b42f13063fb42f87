"""The plan of an audit beside its settings, and the one button that starts it."""

from __future__ import annotations

import math

import streamlit as st

from audit.attack.plan import Plan
from audit.attack.question import AuditRequest
from audit.errors import AuditError
from audit.names.files import names_file
from audit.names.lists import KeptPassages
from pages.ui import blocks, cached
from pages.ui.blocks import refused
from pages.ui.cached import ListView
from pages.ui.language import Words, go_to, link
from pages.ui.logged import logged_export, note, who
from pages.ui.setup_choice import list_name
from pages.ui.text import percent


def draw_plan(
    say: Words, plan: Plan, request: AuditRequest, *, names: ListView, passages: KeptPassages | None
) -> None:
    """Draw what the audit will take, and the button."""
    draw_facts(say, plan, request, names=names, passages=passages)
    if plan.is_answered(cached.store()):
        st.html(blocks.heading(say.text("run_answered"), below=say.text("run_answered_below")))
        if st.button(say.text("run_open"), key="open_answer", type="primary"):
            go_to("overview", audit=plan.digest)
    else:
        draw_start(say, plan, request)
    draw_command(say, plan, names=names, passages=passages)


def draw_facts(
    say: Words, plan: Plan, request: AuditRequest, *, names: ListView, passages: KeptPassages | None
) -> None:
    """Draw the plan as a table."""
    rows = [
        (say.text("run_plan_pair"), request.label),
        (say.text("run_plan_names"), names_line(say, names)),
    ]
    if passages:
        text = say.text(
            "setup_passages_line",
            name=list_name(say, passages.line),
            n=passages.line.n,
        )
        rows.append((say.text("run_plan_passages"), text))
    rows.append((say.text("run_plan_device"), say.text(f"run_device_{plan.device}")))
    rows.append((say.text("run_plan_todo"), todo_line(say, request)))
    rows.append((say.text("run_plan_power"), power_line(say, plan)))
    rows.append((say.text("run_plan_time"), time_line(say, plan)))
    rows.append((say.text("run_plan_digest"), plan.digest[:12]))
    header = [say.text("setup_column_fact"), say.text("setup_column_value")]
    st.html(blocks.simple_table(header, rows, caption=say.text("run_plan_caption"), n_text=2))


def names_line(say: Words, names: ListView) -> str:
    """Return what a list is called and how many names it has."""
    name = list_name(say, names.line)
    return say.text("setup_names_line", name=name, n=names.line.n)


def todo_line(say: Words, request: AuditRequest) -> str:
    """Return what each model is asked for."""
    if request.scenario_number == 1:
        return say.text("run_todo_documents", n=f"{request.generation.n_documents:,}")
    n, n_chain = request.posterior.n_inputs, request.posterior.n_chain_inputs
    unit = "chain" if n_chain else "inputs"
    return say.text(f"run_todo_{unit}", n=f"{n:,}", n_chain=f"{n_chain:,}")


def power_line(say: Words, plan: Plan) -> str:
    """Return what the list could show, and what would be enough."""
    if math.isnan(plan.smallest_auc):
        return say.text("run_power_none")
    share = percent(min(plan.smallest_auc, 1.0))
    if plan.n_enough is None:
        return say.text("run_power_enough", share=share)
    return say.text("run_power_more", share=share, n=plan.n_enough)


def time_line(say: Words, plan: Plan) -> str:
    """Return the expected time, or that nothing is known."""
    store = cached.store()
    if plan.is_answered(store):
        return say.text("run_time_none")
    seconds = plan.seconds(store)
    if math.isnan(seconds):
        return say.text("run_time_unknown")
    if seconds < 90:
        return say.text("run_time_seconds", n=10 * math.ceil(seconds / 10))
    if seconds < 5400:
        return say.text("run_time_minutes", n=math.ceil(seconds / 60))
    return say.text("run_time_hours", n=f"{seconds / 3600:.1f}")


def draw_start(say: Words, plan: Plan, request: AuditRequest) -> None:
    """Draw the button that starts the audit, or the job that is at it already."""
    from audit.jobs import service

    active = service.active_job(plan.digest)
    if active is not None:
        st.html(blocks.heading(say.text("run_active"), below=say.text("run_active_below")))
        link("jobs", label=say.text("run_see_job"), job=active.job_id)
        return
    if not st.button(
        say.text("run_start"),
        key="start",
        type="primary",
        icon=":material/play_arrow:",
        width="stretch",
    ):
        return
    try:
        with st.spinner(say.text("run_starting")):
            job = service.submit("audit", request=request, owner=who())
    except AuditError as error:
        refused(say, error)
        return
    note("ran", audit=plan.digest, job=job.job_id, n_names=len(request.candidates))
    go_to("jobs", job=job.job_id)


def draw_command(say: Words, plan: Plan, *, names: ListView, passages: KeptPassages | None) -> None:
    """Draw the command line that asks the same, with the files that it reads."""
    with st.expander(say.text("run_command"), key="run_command"):
        st.html(blocks.heading("", below=say.text("run_command_below")))
        st.code(plan.command, language="bash", wrap_lines=True)
        st.download_button(
            say.text("run_names_file"),
            data=logged_export(
                lambda: names_file(names.candidates), what="names", n_names=names.line.n
            ),
            file_name="names.csv",
            mime="text/csv",
            icon=":material/download:",
            key="names_download",
            on_click="ignore",
        )
        if passages:
            st.download_button(
                say.text("run_passages_file"),
                data=logged_export(
                    lambda: passages.data, what="passages", n_passages=passages.line.n
                ),
                file_name=passages.file_name,
                mime="application/octet-stream",
                icon=":material/download:",
                key="passages_download",
                on_click="ignore",
            )
