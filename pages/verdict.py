"""Verdict: may this model leave the building? One sentence, what was decided, then the rest."""

from __future__ import annotations

import streamlit as st

from audit.attack.decisions import ALPHA, LOOK_ALPHA
from audit.errors import render_message
from audit.jobs import service
from audit.jobs.table import Job
from audit.report.name_table import ASKED, N_STRONGEST, kind_scores, select_strongest_names
from audit.report.report import AuditReport, KeptAudit
from audit.stats import NO_ESTIMATE
from audit.tables import decimal, small
from pages.ui import blocks, cached, section
from pages.ui.access import is_revealed, may_or_say, names_in_files, shown_name
from pages.ui.blocks import Cell, day, measured, percent, percent_interval
from pages.ui.charts import Axis, Series, plot, spread
from pages.ui.display_names import state_name
from pages.ui.hand_over import draw_decision, draw_hand_over, draw_log
from pages.ui.judging import draw_judge_again
from pages.ui.running import card, live_cards, run_demo_button
from pages.ui.section import details, draw_table, empty, facts, figure, folded, head, page, remark
from pages.ui.state import Words, link

N_RECENT = 20


def draw(say: Words) -> None:
    """Draw the audit that the link names, else the newest own one; or how to come to one."""
    here = section.place()
    if here.audit is None:
        draw_nothing(say, here)
        return
    report = cached.report(here.audit.digest)
    other = cached.report(here.other.digest) if here.other else None
    answer, beside = st.columns([3, 2], gap="large")
    with answer:
        draw_verdict(say, report)
        draw_bounds(say, report)
        draw_other(say, here.audit, report, other)
    with beside:
        decision = draw_decision(say, report.digest)
    folded(say, "numbers", lambda: draw_numbers(say, report))
    folded(say, "strongest", lambda: draw_strongest(say, report))
    folded(say, "limits", lambda: draw_limits(say, report))
    if report.verdict.state != "not_compared":
        folded(say, "judge_again", lambda: draw_judge_again(say, report))
    preview = draw_hand_over(say, here, report, other=other, decision=decision)
    folded(say, "report", preview)
    folded(say, "log", lambda: draw_log(say, report.digest))
    folded(say, "recent", lambda: draw_recent(say, here, shown=report.digest))


# Before there is an audit.


def draw_nothing(say: Words, here: section.Place) -> None:
    """Say what to do where there is no audit to show; where one is being made, how far it is."""
    if here.kept:
        empty(say, "wrong_link")
        link("verdict", label=say.text("open_newest"), audit=here.kept[0].digest)
        return
    if draw_running(say):
        return
    empty(say, "unreadable" if here.n_unreadable else "no_audit", n=here.n_unreadable)
    last = next((job for job in service.jobs() if is_of_audits(job)), None)
    if last is not None and last.state != "done":
        card(say, last)
    draw_start(say)


def is_of_audits(job: Job) -> bool:
    """Whether a job ends in a verdict."""
    return job.kind in ("demo", "audit")


def draw_running(say: Words) -> bool:
    """Follow the audits that are at work until the first is done; False where none is."""
    service.recover()
    if not any(map(is_of_audits, service.active_jobs())):
        return False

    def draw_job(say: Words, job: Job) -> None:
        if cached.kept_audits()[0]:
            st.rerun(scope="app")
        if is_of_audits(job):
            card(say, job)

    head(say, "first_running")
    live_cards(say, draw_job)
    return True


def draw_start(say: Words) -> None:
    """Draw the two ways to begin: the demonstration at one click, and one's own pair."""
    own, demo = st.columns(2, gap="large")
    with own, st.container(border=True, key="start_own"):
        head(say, "start_own")
        link("audit", label=say.text("start_own_go"), audit="", icon=":material/arrow_forward:")
    with demo, st.container(border=True, key="start_demo"):
        head(say, "start_demo")
        if may_or_say("ran", say):
            run_demo_button(say, key="run_demo", page="verdict")
        remark(say, "start_demo_command")
        st.code("python -m audit demo", language="bash")


# The answer.


def draw_verdict(say: Words, report: AuditReport) -> None:
    """Draw the sentence that helps to decide, and what to do now."""
    verdict, lang = report.verdict, say.language
    names = {who: model.name for who, model in report.models.items()}
    footer = say.text("audit_footer", at=day(report.at), **names)
    state = state_name(say, verdict.state, rule=verdict.rule)
    eyebrow = f"{state} · {say.text(f'scenario_{report.scenario.number}')}"
    answer = (verdict.state, eyebrow, verdict.in_short(lang), verdict.next_step(lang), footer)
    st.html(blocks.verdict_cards([blocks.Verdict(*answer)]))
    if not verdict.is_of_todays_rule:
        with st.container(key="older_rule"):
            remark(say, "older_rule", rule=verdict.rule)
    if planted := report.details.canaries:
        st.html(blocks.heading("", below=planted.sentence(say.language)))


def draw_bounds(say: Words, report: AuditReport) -> None:
    """Draw what the verdict rests on, its error rate, and how many people it leaves open."""
    verdict, lang = report.verdict, say.language
    if not verdict.is_of_todays_rule or verdict.state == "not_compared":
        return
    lines = [verdict.of_controls(lang), verdict.condition(lang), *verdict.bounds(lang)]
    with st.container(key="bounds"):
        head(say, "bounds")
        st.html(blocks.bullet_list(lines))


def draw_other(
    say: Words, audit: KeptAudit, report: AuditReport, other: AuditReport | None
) -> None:
    """Draw the tile of the other scenario: its verdict, or the way to it."""
    number = str(3 - report.scenario.number)
    is_running = audit.is_demo and any(job.kind == "demo" for job in service.active_jobs())
    below = say.text("no_other_yet" if is_running else "no_other")
    if other:
        state = state_name(say, other.verdict.state, rule=other.verdict.rule)
        below = f"{state} · {other.verdict.in_short(say.language)}"
    with st.container(border=True, key="other_scenario"):
        state = other.verdict.state if other else ""
        st.html(blocks.line(say.text(f"scenario_{number}"), below, state=state))
        if other:
            link("verdict", label=say.text(f"open_scenario_{number}"), audit=other.digest)
        elif not is_running:
            again = cached.asked_again(report.digest)
            asked = ("general", "hospital", "names", "passages")
            query = {key: code for key in asked if (code := getattr(again, key))}
            link("audit", label=say.text("no_other_run"), scenario=number, **query)


# What it rests on.


def draw_numbers(say: Words, report: AuditReport) -> None:
    """Draw the headline figures, each with what trivial guesses reach, and the scores."""
    st.html(blocks.heading("", below=report.verdict.facts(say.language)))
    if not report.has_truth:
        remark(say, "numbers_no_truth")
    draw_table(say, "figures", figures(say, report), audit=report.digest)
    draw_positive_controls(say, report)
    draw_guards(say, report)
    kinds, series, ticks, rows = kind_scores(report.table), [], {}, []
    for at, kind in enumerate(kinds):
        n, name, quartiles = len(kind.scores), say.text(f"kind_{kind.kind}"), kind.quartiles
        look = {"is_attack": kind.kind in ASKED, "has_legend": False}
        ticks[float(at)] = say.text("kind_n", kind=name, n=n)
        rows.append((name, n, kind.n_not_scored, *map(small, quartiles)))
        y = [at + shift for shift in spread(n)]
        series.append(Series("", kind.scores, y, form="dots", hover="%{x:.3g}", **look))
        if n:
            middle, y = [quartiles[1]] * 2, [at - 0.42, at + 0.42]
            series.append(Series("", middle, y, dash="solid", hover="", **look))
    x = Axis(say.text(f"axis_{report.fixed_score}"))
    y_axis = Axis("", ticks=ticks, range=(len(kinds) - 0.5, -0.5), has_grid=False)
    chart = plot(series, x=x, y=y_axis, height=90 + 85 * len(kinds))
    table = section.Table(("kind", "n", "missing", "q1", "median", "q3"), rows)
    head(say, "scores")
    figure(say, "scores", chart, table=table, audit=report.digest)
    link("measures", label=say.text("numbers_mentions"), audit=report.digest, tab="mentions")
    link("measures", label=say.text("numbers_more"), audit=report.digest)
    with details(say, "numbers"):
        digests = {who: one.digest for who, one in report.models.items()}
        facts(say, "numbers", {"audit": report.digest, **digests}, audit=report.digest)


def figures(say: Words, report: AuditReport) -> section.Table:
    """Return the headline figures, each beside what M_general and a trivial guess reach."""
    rows: list[list[str | int | Cell]] = []
    guesses = ("attack", "general_alone", "popularity")
    for name in report.measures.strata:
        found = [report.headline(name).get(who) for who in guesses]
        aucs = [measured(one.auc if one else NO_ESTIMATE, digits=3) for one in found]
        shares = [measured(one.tpr(0.01) if one else NO_ESTIMATE) for one in found]
        for key, told in (("auc", aucs), ("tpr", shares)):
            rows.append([Cell(say.text(f"figure_{key}"), say.text(f"figure_{name}")), *told])
    rates = {
        "flagged": report.verdict.flagged,
        "look": report.verdict.worth_a_look,
        "controls": report.controls_flagged,
    }
    for key, rate in rates.items():
        if rate.n_total:
            counted = say.text("k_of_n", k=rate.n_hits, n=rate.n_total)
            told = Cell(counted, percent_interval(rate.interval()))
            rows.append([say.text(f"figure_{key}"), told, "", ""])
    if n := report.candidates.n_reference:
        rows.append([say.text("figure_reference"), n, "", ""])
    return section.Table(["figure", *(f"who_{who}" for who in guesses)], rows)


def draw_positive_controls(say: Words, report: AuditReport) -> None:
    """Draw what the attack saw of names known to be in the notes, by their number of mentions."""
    verdict = report.verdict
    if not verdict.positive_controls:
        return
    head(say, "positive", below=f"positive_below_{verdict.positive_origin}")
    rows = [
        [
            one.dose,
            say.text("k_of_n", k=one.n_seen, n=one.n_names),
            small(one.p_group),
            small(one.p_names),
            say.text("positive_yes" if one.is_leak else "positive_no"),
            percent(one.most_exposed) if one.most_exposed < 1 else say.text("positive_unbounded"),
        ]
        for one in verdict.positive_controls
    ]
    header = [f"positive_{what}" for what in ("dose", "seen", "group", "names", "leak", "exposed")]
    draw_table(say, "positive", section.Table(header, rows), audit=report.digest)


def draw_guards(say: Words, report: AuditReport) -> None:
    """Draw how well members are told from controls by what knows nothing of M_hospital."""
    baselines = report.verdict.baselines
    if not baselines:
        return
    head(say, "guards")
    rows = [
        [
            say.text(f"guards_{name}"),
            measured(baseline, digits=3),
            say.text(f"guards_{'off' if report.verdict.is_mismatched(name) else 'fine'}"),
        ]
        for name, baseline in baselines.items()
    ]
    header = ("guards_what", "auc", "guards_verdict")
    draw_table(say, "guards", section.Table(header, rows), audit=report.digest)


def draw_strongest(say: Words, report: AuditReport) -> None:
    """Draw the names that stand out most, masked; or that nobody does."""
    found = select_strongest_names(report.table)[:N_STRONGEST]
    limits = {"alpha": f"{ALPHA:g}", "look": f"{LOOK_ALPHA:g}"}
    if not len(found):
        remark(say, "strongest_none", **limits)
    else:
        table = {
            "number": list(found["number"]),
            "name": list(map(shown_name, found["first_name"], found["last_name"])),
            "decision": [say.text(f"names_decision_of_{one}") for one in found["decision"]],
            "in_notes": [say.text(f"kind_{kind}_one") for kind in found["kind"]],
            "mentions": [f"{n:.0f}" if n >= 0 else "" for n in found["n_mentions"]],
            **{column: list(map(small, found[column])) for column in ("general", "hospital")},
            "q": list(map(decimal, found["q"])),
        }
        remark(say, "strongest_levels", **limits)
        remark(say, "strongest_revealed" if is_revealed() else "strongest_masked")
        caption = say.text(f"strongest_caption_{report.scenario.number}")
        draw_table(
            say,
            "strongest_names",
            table,
            caption=caption,
            audit=report.digest,
            names=names_in_files(),
        )
    link("names", label=say.text("strongest_more"), audit=report.digest)


def draw_limits(say: Words, report: AuditReport) -> None:
    """Draw what the audit shows and does not show, and the engine's notes on the run."""
    st.html(blocks.bullet_list(say.text(f"limits_{i}") for i in (1, 2, 3)))
    if report.notes:
        head(say, "verdict_notes")
        st.html(blocks.bullet_list(render_message(one, say.language) for one in report.notes))


def draw_recent(say: Words, here: section.Place, *, shown: str) -> None:
    """Draw the newest kept audits, each with its verdict and a link; `shown` is marked."""
    remark(say, "recent_n", n=len(here.kept))
    if here.n_unreadable:
        remark(say, "unreadable_do", n=here.n_unreadable)
    for one in here.kept[:N_RECENT]:
        key = "recent_line_demo" if one.is_demo else "recent_line"
        told = say.text(key, n=one.n_names, **vars(one) | {"at": day(one.at)})
        text, opening = st.columns([6, 1], vertical_alignment="center")
        state, is_shown = state_name(say, one.state, rule=one.rule), one.digest == shown
        text.html(blocks.line(state, told, is_strong=is_shown, state=one.state))
        with opening:
            if is_shown:
                remark(say, "recent_shown")
            else:
                link("verdict", label=say.text("recent_open"), audit=one.digest)
    draw_start(say)


page("verdict", draw)
