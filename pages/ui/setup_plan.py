"""The plan of an audit beside its settings, and the one button that starts it."""

from __future__ import annotations

import math

import streamlit as st

from audit.attack.plan import Part, Plan
from audit.attack.question import AuditRequest
from audit.errors import AuditError
from audit.names.files import names_file
from audit.names.lists import KeptPassages
from pages.ui import blocks
from pages.ui.language import Words, go_to, link
from pages.ui.logged import logged_export, note, who
from pages.ui.setup_cached import ListView
from pages.ui.setup_choice import list_name, refused
from pages.ui.text import percent


def draw_plan(
    say: Words, plan: Plan, request: AuditRequest, *, names: ListView, passages: KeptPassages | None
) -> None:
    """Draw what the audit will take, and the button."""
    draw_facts(say, plan, names=names, passages=passages)
    if plan.is_answered:
        st.html(blocks.heading(say.text("run_answered"), below=say.text("run_answered_below")))
        if st.button(say.text("run_open"), key="open_answer", type="primary"):
            go_to("overview", audit=plan.digest)
    else:
        draw_start(say, plan, request)
    draw_command(say, plan, names=names, passages=passages)


def draw_facts(say: Words, plan: Plan, *, names: ListView, passages: KeptPassages | None) -> None:
    """Draw the plan as a table."""
    rows = [
        (say.text("run_plan_pair"), " → ".join(part.name for part in plan.parts)),
        (say.text("run_plan_names"), names_line(say, names)),
    ]
    if passages:
        text = say.text(
            "setup_passages_line",
            name=list_name(say, passages.line),
            n=passages.line.n_passages,
        )
        rows.append((say.text("run_plan_passages"), text))
    rows.append((say.text("run_plan_device"), say.text(f"run_device_{plan.device}")))
    rows += [(say.text(f"run_plan_{part.who}"), part_line(say, plan, part)) for part in plan.parts]
    rows.append((say.text("run_plan_power"), power_line(say, plan)))
    rows.append((say.text("run_plan_time"), time_line(say, plan)))
    rows.append((say.text("run_plan_digest"), plan.digest[:12]))
    header = [say.text("setup_column_fact"), say.text("setup_column_value")]
    st.html(blocks.simple_table(header, rows, caption=say.text("run_plan_caption"), n_text=2))


def names_line(say: Words, names: ListView) -> str:
    """Return what a list is called and how many names it has."""
    name = list_name(say, names.line)
    return say.text("setup_names_line", name=name, n=names.line.n_names)


def part_line(say: Words, plan: Plan, part: Part) -> str:
    """Return what one model has to do, and how much of it is kept."""
    unit = "chain" if part.n_chain else plan.unit
    todo = say.text(f"run_todo_{unit}", n=f"{part.n_units:,}", n_chain=f"{part.n_chain:,}")
    if plan.is_answered:
        return todo
    if part.n_kept >= part.n_units and part.n_chain_kept >= part.n_chain:
        return f"{todo} {say.text('run_kept_all')}"
    if part.n_kept or part.n_chain_kept:
        n, n_chain = f"{part.n_kept:,}", f"{part.n_chain_kept:,}"
        return f"{todo} {say.text(f'run_kept_{unit}', n=n, n_chain=n_chain)}"
    return todo


def power_line(say: Words, plan: Plan) -> str:
    """Return what the list could show, and what would be enough."""
    power = plan.power
    if math.isnan(power.smallest_auc):
        return say.text("run_power_none")
    share = percent(min(power.smallest_auc, 1.0))
    if power.n_enough is None:
        return say.text("run_power_enough", share=share)
    return say.text("run_power_more", share=share, n=power.n_enough)


def time_line(say: Words, plan: Plan) -> str:
    """Return the expected time, or that nothing is known."""
    if plan.is_answered:
        return say.text("run_time_none")
    if plan.seconds is None:
        return say.text("run_time_unknown")
    if plan.seconds < 90:
        return say.text("run_time_seconds", n=10 * math.ceil(plan.seconds / 10))
    if plan.seconds < 5400:
        return say.text("run_time_minutes", n=math.ceil(plan.seconds / 60))
    return say.text("run_time_hours", n=f"{plan.seconds / 3600:.1f}")


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
                lambda: names_file(names.candidates), what="names", n_names=names.line.n_names
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
                    lambda: passages.data, what="passages", n_passages=passages.line.n_passages
                ),
                file_name=passages.file_name,
                mime="application/octet-stream",
                icon=":material/download:",
                key="passages_download",
                on_click="ignore",
            )
