"""Verdict: may this model leave the building? One sentence, the decision, then the details."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st

from audit.attack.decisions import ALPHA, LOOK_ALPHA
from audit.errors import render_message
from audit.jobs import service
from audit.report.name_table import ASKED, N_STRONGEST, kind_scores, select_strongest_names
from audit.report.report import AuditReport
from audit.stats import NO_ESTIMATE
from audit.tables import decimal, small
from audit.words import Words
from pages.ui import blocks, cached, section
from pages.ui.access import format_name, is_revealed, may_or_explain, name_form
from pages.ui.blocks import (
    Cell,
    estimate_cell,
    format_moment,
    format_percent,
    format_percent_interval,
)
from pages.ui.charts import Axis, Series, plot, spread_dots
from pages.ui.decision_form import draw_decision
from pages.ui.display_names import audited_names, state_name
from pages.ui.hand_over import draw_hand_over, draw_log
from pages.ui.judging import draw_judge_again
from pages.ui.name_points import hover_text, list_facts, open_clicked_name
from pages.ui.place import Place, find_place
from pages.ui.running import (
    FIRST_LOOK,
    draw_demo_button,
    draw_first_running,
    draw_job_card,
    is_of_audits,
)
from pages.ui.section import (
    Columns,
    Content,
    draw_absence,
    draw_facts,
    draw_figure,
    draw_folded_section,
    draw_heading,
    draw_page,
    draw_remark,
    draw_table,
    fold_details,
)
from pages.ui.state import draw_link

N_RECENT = 20
DOORS = (
    ("audit", ":material/play_circle:"),
    ("deidentify", ":material/ink_eraser:"),
    ("check", ":material/verified:"),
)
"""Page and icon of each way to begin."""


def draw(say: Words) -> None:
    """Draw the audit that the link names, or else the newest own one, or how to make one."""
    place = find_place()
    if place.audit is None:
        draw_nothing(say, place)
        return
    report = cached.report(place.audit.digest)
    other_report = cached.report(place.other_audit.digest) if place.other_audit else None
    verdict_column, chart_column = st.columns(2, gap="medium")
    with verdict_column:
        draw_verdict(say, report, names=audited_names(say, place.audit))
        draw_bounds(say, report)
    with chart_column:
        draw_scores(say, report)
    reports = [report, other_report] if other_report else [report]
    decision = draw_decision(say, place, reports=reports)
    draw_folded_section(say, "numbers", lambda: draw_numbers(say, report))
    draw_folded_section(say, "strongest", lambda: draw_strongest(say, report))
    draw_folded_section(say, "limits", lambda: draw_limits(say, report))
    if report.verdict.state != "not_compared":
        draw_folded_section(say, "judge_again", lambda: draw_judge_again(say, report))
    preview = draw_hand_over(say, place, report, other_report=other_report, decision=decision)
    draw_folded_section(say, "report", preview)
    draw_folded_section(say, "log", lambda: draw_log(say, report.digest))
    draw_folded_section(say, "recent", lambda: draw_recent(say, place, open_digest=report.digest))


# A home without audits.


def draw_nothing(say: Words, place: Place) -> None:
    """Draw what the program is for, the ways to begin, and the running demonstration."""
    if place.audits:
        draw_absence(say, "wrong_link")
        draw_link("verdict", label=say.text("open_newest"), audit=place.audits[0].digest)
        return
    draw_absence(say, "unreadable" if place.n_unreadable else "no_audit", n=place.n_unreadable)
    draw_doors(say)
    if draw_first_running(say, is_done=cached.has_audit):
        return
    last = next((job for job in service.jobs() if is_of_audits(job)), None)
    if last is not None and last.state != "done":
        draw_job_card(say, last)
    draw_demo(say)


def draw_doors(say: Words) -> None:
    """Draw the three ways to begin as cards beside each other."""
    for column, (page, icon) in zip(st.columns(len(DOORS), gap="medium"), DOORS, strict=True):
        with column, st.container(border=True, height="stretch", key=f"door_{page}"):
            draw_heading(say, f"door_{page}")
            draw_link(page, label=say.text(f"door_{page}_go"), audit="", icon=icon)


def draw_demo(say: Words) -> None:
    """Draw the button that runs the demonstration."""
    with st.container(border=True, key="start_demo"):
        n_documents, n_inputs = FIRST_LOOK["n_documents"], FIRST_LOOK["n_inputs"]
        draw_heading(say, "start_demo", n_documents=n_documents, n_inputs=n_inputs)
        if may_or_explain("ran", say):
            draw_demo_button(say, key="run_demo", page="verdict")


# The verdict.


def draw_verdict(say: Words, report: AuditReport, *, names: Mapping[str, str]) -> None:
    """Draw the sentence that supports the decision, and the next step; `names` is by role."""
    verdict, lang = report.verdict, say.language
    footer = say.text("audit_footer", at=format_moment(report.at), **names)
    state = state_name(say, verdict.state, rule=verdict.rule)
    eyebrow = f"{state} · {say.text(f'scenario_{report.scenario.number}')}"
    answer = (verdict.state, eyebrow, verdict.in_short(lang), verdict.next_step(lang), footer)
    st.html(blocks.verdict_cards([blocks.Verdict(*answer)]))
    if not verdict.is_of_todays_rule:
        with st.container(key="older_rule"):
            draw_remark(say, "older_rule", rule=verdict.rule)
    if planted := report.details.canaries:
        st.html(blocks.heading("", below=planted.sentence(say.language)))
    if verdict.state != "not_compared":
        draw_link("names", label=say.text("verdict_names"), audit=report.digest)


def draw_scores(say: Words, report: AuditReport) -> None:
    """Draw every name's score, a row for each kind of names; a click opens the name."""
    kinds = kind_scores(report.table)
    ticks: dict[float, str] = {}
    series: list[Series] = []
    rows: list[Sequence[Content]] = []
    for place, kind in enumerate(kinds):
        n, name, quartiles = len(kind.scores), say.text(f"kind_{kind.kind}"), kind.quartiles
        ticks[float(place)] = f"{name}\n({n})"
        rows.append((name, n, kind.n_not_scored, *map(small, quartiles)))
        one = say.text(f"names_kind_of_{kind.kind}")
        dots = Series(
            "",
            kind.scores,
            [place + shift for shift in spread_dots(n)],
            form="dots",
            is_attack=kind.kind in ASKED,
            has_legend=False,
            hover=hover_text(say, one, score="%{x:.3g}"),
            facts=list_facts(report, kind.rows),
        )
        series.append(dots)
        if n:
            middle, ends = [quartiles[1]] * 2, [place - 0.42, place + 0.42]
            median = replace(dots, x=middle, y=ends, form="line", dash="solid", hover="", facts=())
            series.append(median)
    x = Axis(say.text(f"axis_{report.fixed_score}"))
    y = Axis("", ticks=ticks, range=(len(kinds) - 0.5, -0.5), has_grid=False)
    chart = plot(series, x=x, y=y, height=60 + 70 * len(kinds))
    table = section.Table(("kind", "n", "missing", "q1", "median", "q3"), rows)
    draw_heading(say, "scores")
    clicked_facts = draw_figure(
        say, "scores", chart, table=table, audit=report.digest, is_clickable=True
    )
    open_clicked_name(report, clicked_facts)


def draw_bounds(say: Words, report: AuditReport) -> None:
    """Draw the basis of the verdict, its error rate, and how many people could be exposed."""
    verdict, lang = report.verdict, say.language
    if not verdict.is_of_todays_rule or verdict.state == "not_compared":
        return
    lines = [verdict.of_controls(lang), verdict.condition(lang), *verdict.bounds(lang)]
    with st.container(key="bounds"):
        draw_heading(say, "bounds")
        st.html(blocks.bullet_list(lines))


# The basis of the verdict.


def draw_numbers(say: Words, report: AuditReport) -> None:
    """Draw the headline figures beside those of trivial guesses, and the scores."""
    st.html(blocks.heading("", below=report.verdict.facts(say.language)))
    if not report.has_truth:
        draw_remark(say, "numbers_no_truth")
    draw_table(say, "figures", headline_table(say, report), audit=report.digest)
    draw_positive_controls(say, report)
    draw_guards(say, report)
    draw_link("measures", label=say.text("numbers_mentions"), audit=report.digest, tab="mentions")
    draw_link("measures", label=say.text("numbers_more"), audit=report.digest)
    with fold_details(say, "numbers"):
        digests = {role: model.digest for role, model in report.models.items()}
        draw_facts(say, "numbers", {"audit": report.digest, **digests}, audit=report.digest)


def headline_table(say: Words, report: AuditReport) -> section.Table:
    """Return the headline figures of the attack, of M_general alone and of a trivial guess."""
    rows: list[list[str | int | Cell]] = []
    guesses = ("attack", "general_alone", "popularity")
    for name in report.measures.strata:
        rankings = [report.headline(name).get(guess) for guess in guesses]
        aucs = [
            estimate_cell(ranking.auc if ranking else NO_ESTIMATE, digits=3) for ranking in rankings
        ]
        shares = [
            estimate_cell(ranking.tpr(0.01) if ranking else NO_ESTIMATE) for ranking in rankings
        ]
        for key, cells in (("auc", aucs), ("tpr", shares)):
            rows.append([Cell(say.text(f"figure_{key}"), say.text(f"figure_{name}")), *cells])
    rates = {
        "flagged": report.verdict.flagged,
        "look": report.verdict.worth_a_look,
        "controls": report.controls_flagged,
    }
    for key, rate in rates.items():
        if rate.n_total:
            count_text = say.text("k_of_n", k=rate.n_hits, n=rate.n_total)
            rate_cell = Cell(count_text, format_percent_interval(rate.interval()))
            rows.append([say.text(f"figure_{key}"), rate_cell, "", ""])
    if n := report.candidates.n_reference:
        rows.append([say.text("figure_reference"), n, "", ""])
    return section.Table(["figure", *(f"who_{guess}" for guess in guesses)], rows)


def draw_positive_controls(say: Words, report: AuditReport) -> None:
    """Draw how many names that are known to be in the notes the attack saw, by mentions."""
    verdict = report.verdict
    if not verdict.positive_controls:
        return
    draw_heading(say, "positive", below=f"positive_below_{verdict.positive_origin}")
    rows: list[Sequence[Content]] = [
        [
            group.dose,
            say.text("k_of_n", k=group.n_seen, n=group.n_names),
            small(group.p_group),
            small(group.p_names),
            say.text("positive_yes" if group.is_leak else "positive_no"),
            format_percent(group.most_exposed)
            if group.most_exposed < 1
            else say.text("positive_unbounded"),
        ]
        for group in verdict.positive_controls
    ]
    header = [
        f"positive_{column}" for column in ("dose", "seen", "group", "names", "leak", "exposed")
    ]
    draw_table(say, "positive", section.Table(header, rows), audit=report.digest)


def draw_guards(say: Words, report: AuditReport) -> None:
    """Draw how well baselines without M_hospital separate members from controls."""
    baselines = report.verdict.baselines
    if not baselines:
        return
    draw_heading(say, "guards")
    rows: list[Sequence[Content]] = [
        [
            say.text(f"guards_{name}"),
            estimate_cell(baseline, digits=3),
            say.text(f"guards_{'off' if report.verdict.is_mismatched(name) else 'fine'}"),
        ]
        for name, baseline in baselines.items()
    ]
    header = ("guards_what", "auc", "guards_verdict")
    draw_table(say, "guards", section.Table(header, rows), audit=report.digest)


def draw_strongest(say: Words, report: AuditReport) -> None:
    """Draw the names that stand out most, masked, or that no name does."""
    strongest = select_strongest_names(report.table)[:N_STRONGEST]
    limits = {"alpha": f"{ALPHA:g}", "look": f"{LOOK_ALPHA:g}"}
    if not len(strongest):
        draw_remark(say, "strongest_none", **limits)
    else:
        table: Columns = {
            "number": list(strongest["number"]),
            "name": list(map(format_name, strongest["first_name"], strongest["last_name"])),
            "decision": [
                say.text(f"names_decision_of_{decision}") for decision in strongest["decision"]
            ],
            "in_notes": [say.text(f"kind_{kind}_one") for kind in strongest["kind"]],
            "mentions": [f"{n:.0f}" if n >= 0 else "" for n in strongest["n_mentions"]],
            **{column: list(map(small, strongest[column])) for column in ("general", "hospital")},
            "q": list(map(decimal, strongest["q"])),
        }
        draw_remark(say, "strongest_levels", **limits)
        draw_remark(say, "strongest_revealed" if is_revealed() else "strongest_masked")
        caption = say.text(f"strongest_caption_{report.attack}")
        draw_table(
            say,
            "strongest_names",
            table,
            caption=caption,
            audit=report.digest,
            names=name_form(),
        )
    draw_link("names", label=say.text("strongest_more"), audit=report.digest)


def draw_limits(say: Words, report: AuditReport) -> None:
    """Draw what the audit shows and does not show, and the engine's notes on the run."""
    st.html(blocks.bullet_list(say.text(f"limits_{i}") for i in (1, 2, 3)))
    if report.notes:
        draw_heading(say, "verdict_notes")
        st.html(blocks.bullet_list(render_message(note, say.language) for note in report.notes))


def draw_recent(say: Words, place: Place, *, open_digest: str) -> None:
    """Draw the newest kept audits, each with its verdict and a link; mark `open_digest`."""
    draw_remark(say, "recent_n", n=len(place.audits))
    if place.n_unreadable:
        draw_remark(say, "unreadable_do", n=place.n_unreadable)
    for audit in place.audits[:N_RECENT]:
        key = "recent_line_demo" if audit.is_demo else "recent_line"
        facts = vars(audit) | audited_names(say, audit) | {"at": format_moment(audit.at)}
        line = say.text(key, n=audit.n_names, **facts)
        line_column, link_column = st.columns([6, 1], vertical_alignment="center")
        state, is_shown = state_name(say, audit.state, rule=audit.rule), audit.digest == open_digest
        line_column.html(blocks.line(state, line, is_strong=is_shown, state=audit.state))
        with link_column:
            if is_shown:
                draw_remark(say, "recent_shown")
            else:
                draw_link("verdict", label=say.text("recent_open"), audit=audit.digest)
    draw_doors(say)
    draw_demo(say)


draw_page("verdict", draw)
