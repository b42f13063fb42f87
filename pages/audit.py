"""New audit: which models, whose names, which attacker; its plan, its start and its progress."""

from __future__ import annotations

import math

import streamlit as st

from audit.attack.plan import Plan
from audit.attack.question import AuditRequest
from audit.jobs import service
from audit.names.files import names_file
from audit.names.lists import KeptPassages
from audit.report.report import choose_audit
from audit.run import Again, AuditTask, finished_part
from pages.ui import blocks, cached
from pages.ui.access import may, may_or_say
from pages.ui.audit_attacker import Attacker, draw_attacker
from pages.ui.audit_models import Pair, draw_models
from pages.ui.audit_names import draw_names, draw_passages, keep_left, keep_new, start_afresh
from pages.ui.blocks import day, percent
from pages.ui.cached import ListView
from pages.ui.called import list_name, model_name
from pages.ui.form import take
from pages.ui.running import FollowedJobs
from pages.ui.section import attempt, card, facts, file_button, head, page, remark
from pages.ui.state import Words, go_to

JOBS = FollowedJobs("audit", "audit", lambda _, digest: go_to("verdict", audit=digest))
_PICKED = ("general", "hospital", "names", "passages")
_OTHERS = ("scenario", "preset", "like")
_MEMORY = "audit_choices"


def draw(say: Words) -> None:
    """Draw the three steps, each of them ready or with what is missing, the plan and the start."""
    may_or_say("ran", say)
    follow_link()
    keep_left(say)
    again = draw_again(say)
    with card(say, "audit_models", number=1) as is_done:
        pair = draw_models(say)
        is_done(pair is not None)
    is_whole = again is not None and not again.missing
    first, rest = st.container(), st.container()
    if is_whole:  # nothing but the model is to be chosen
        rest = rest.expander(say.text("audit_like_rest"), key="taken_over")
    with rest, card(say, "audit_names", number=2) as is_done:
        names = draw_names(say, hospital=pair and pair[1])
        is_done(names is not None)
        passages = draw_passages(say)
    if passages is not None:
        st.query_params.setdefault("scenario", "2")
    with rest, card(say, "audit_attacker", number=3) as is_done:
        attacker = attempt(
            say, lambda: draw_attacker(say, candidates=names and names.candidates, again=again)
        )
        is_done(attacker is not None)
    with first if is_whole else rest, st.container(border=True, key="audit_plan"):
        head(say, "audit_plan")
        if attacker is not None:
            attempt(say, lambda: draw_plan(say, pair, names, passages, attacker))
    st.session_state[_MEMORY] = {key: st.query_params.get(key, "") for key in _OTHERS}


def follow_link() -> None:
    """Choose what the link says, and then nothing else; without one, what was chosen before."""
    query, before = st.query_params, st.session_state.get(_MEMORY, {})
    if any(key in query for key in (*_PICKED, *_OTHERS)):
        for key in _PICKED:
            take(key, query.get(key, ""))
    else:
        query.update({key: code for key, code in before.items() if code})


def draw_again(say: Words) -> Again | None:
    """Offer to ask the same of a new model; return what is taken over where that is chosen."""
    wanted = st.query_params.get("like", "")
    line = choose_audit(wanted, kept=cached.kept_audits()[0], demo={})
    if line is None or (line.is_demo and not wanted):
        if wanted:
            remark(say, "audit_like_gone")
        return None
    values = {"hospital": line.hospital, "at": day(line.at)}
    with st.container(border=True, key="again"):
        if not wanted:
            head(say, "audit_again", scenario=line.scenario, n=f"{line.n_names:,}", **values)
            st.button(
                say.text("audit_again_go"), key="again_go", icon=":material/replay:",
                on_click=take_over, args=(line.digest,),
            )  # fmt: skip
            return None
        if "preset" not in st.query_params:
            take_over(line.digest)
        again = cached.asked_again(line.digest)
        head(say, "audit_like", **values)
        for field in again.missing:
            remark(say, f"audit_like_no_{field}")
        st.button(say.text("audit_like_off"), key="like_off", type="tertiary", on_click=let_go)
    return again


def take_over(digest: str) -> None:
    """Choose all that an audit was asked about but its hospital model."""
    again = cached.asked_again(digest)
    codes = {"general": again.general, "names": again.names, "passages": again.passages}
    for key in _PICKED:
        take(key, codes.get(key, ""))
    start_afresh()
    preset = "same" if again.settings is not None else "quick"
    st.query_params.update(like=digest[:12], scenario=str(again.scenario), preset=preset)


def let_go() -> None:
    """Take nothing over any more; what has been chosen stays."""
    for key in ("like", "preset"):
        st.query_params.pop(key, None)


def draw_plan(
    say: Words, pair: Pair | None, names: ListView | None, passages: KeptPassages | None,
    attacker: Attacker,
) -> None:  # fmt: skip
    """Draw what the audit will take, and its start; else what is missing. Then what runs."""
    shown = passages if attacker.scenario == 2 else None
    has_passages = attacker.scenario == 1 or shown is not None
    if pair is None or names is None or not has_passages:
        found = {"models": pair, "names": names, "passages": has_passages}
        missing = [say.text(f"audit_missing_{field}") for field, one in found.items() if not one]
        remark(say, "audit_missing")
        st.html(blocks.bullet_list(missing))
        JOBS.draw(say)
        return
    general, hospital = pair
    request = AuditRequest(
        scenario_number=attacker.scenario, general=general.path, hospital=hospital.path,
        candidates=names.candidates, passages=shown and shown.passages,
        generation=attacker.generation, posterior=attacker.posterior, **dict(attacker.how),
    )  # fmt: skip
    plan = cached.make_plan(request, names=names, passages=shown)
    models = " → ".join(model_name(say, one.model_id) for one in pair)
    rows = [(say.text("audit_models"), models)]
    for what, one in (("names", names), ("passages", shown)):
        if one is not None:
            name = list_name(say, one.line) if one.line.code else say.text("audit_plan_new")
            line = say.text(f"audit_{what}_line", name=name, n=f"{one.line.n:,}")
            rows.append((say.text(f"audit_{what}_list"), line))
    facts(say, rows + plan_rows(say, plan, request), caption=say.text("audit_plan_caption"))
    draw_start(say, plan, request)
    draw_command(say, plan, names=names, passages=shown)


def plan_rows(say: Words, plan: Plan, request: AuditRequest) -> list[tuple[str, str]]:
    """Return what the audit will take, as (what, value)."""
    store = cached.store()
    lines = {
        "device": say.text(f"audit_device_{plan.device}"),
        "todo": todo_line(say, request),
        "power": power_line(say, plan),
        "time": time_line(say, plan),
    }
    part = {} if plan.is_answered(store) else finished_part(plan.digest, store=store)
    if n := max(part.values(), default=0):
        lines["kept"] = say.text("audit_plan_kept_n", n=f"{n:,}")
    return [(say.text(f"audit_plan_{what}"), line) for what, line in lines.items()]


def todo_line(say: Words, request: AuditRequest) -> str:
    """Return what each model is asked for."""
    n, n_chain = (*request.sizes().values(), 0)[:2]
    unit = "documents" if request.scenario_number == 1 else "chain" if n_chain else "inputs"
    return say.text(f"audit_todo_{unit}", n=f"{n:,}", n_chain=f"{n_chain:,}")


def power_line(say: Words, plan: Plan) -> str:
    """Return what the list could show, and what would be enough."""
    if math.isnan(plan.smallest_auc):
        return say.text("audit_power_none")
    share = percent(min(plan.smallest_auc, 1.0))
    if plan.n_enough is None:
        return say.text("audit_power_enough", share=share)
    return say.text("audit_power_more", share=share, n=plan.n_enough)


def time_line(say: Words, plan: Plan) -> str:
    """Return the expected time, or that nothing is known."""
    store = cached.store()
    if plan.is_answered(store):
        return say.text("audit_time_none")
    seconds = plan.seconds(store)
    if seconds < 90:
        return say.text("audit_time_seconds", n=10 * math.ceil(seconds / 10))
    if seconds < 5400:
        return say.text("audit_time_minutes", n=math.ceil(seconds / 60))
    return say.text("audit_time_hours", n=f"{seconds / 3600:.1f}")


def draw_start(say: Words, plan: Plan, request: AuditRequest) -> None:
    """Draw the button that starts the audit, the one that opens its result, or its progress."""
    JOBS.draw(say)
    if plan.is_answered(cached.store()):
        head(say, "audit_answered")
        if st.button(say.text("audit_open_answer"), key="open_answer", type="primary"):
            go_to("verdict", audit=plan.digest)
    elif service.active_job(plan.digest) is not None:
        head(say, "audit_active")
    elif may("ran") and st.button(
        say.text("audit_start"), key="start", type="primary", icon=":material/play_arrow:"
    ):
        with st.spinner(say.text("audit_starting")):
            if keep_new(say):
                JOBS.start(AuditTask(request=request).question(), n_names=len(request.candidates))
                st.rerun()


def draw_command(say: Words, plan: Plan, *, names: ListView, passages: KeptPassages | None) -> None:
    """Draw the command line that asks the same, with the files that it reads."""
    with st.expander(say.text("audit_command_title"), key="command_details"):
        facts(say, [(say.text("audit_plan_digest"), plan.digest)], caption=say.text("audit_same"))
        remark(say, "audit_command")
        st.code(plan.command, language="bash", wrap_lines=True)
        files = {"names.csv": (lambda: names_file(names.candidates), names.line.n)}
        if passages is not None:
            files[passages.file_name] = (lambda: passages.data, passages.line.n)
        for file_name, (make, n) in files.items():
            what, _, form = file_name.partition(".")
            file_button(
                say, what, make, form=form, label=f"audit_{what}_file", names="full",
                is_disabled=not may("exported_full"), **{f"n_{what}": n},
            )  # fmt: skip


page("audit", draw)
