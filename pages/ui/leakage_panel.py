"""The Workshop's leakage experiment: leakage against the share of missed names."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go
import streamlit as st

from audit.deid.find.taggers import DEFAULT, RULES
from audit.experiment.leakage import (
    LANGUAGES,
    LEAKAGE,
    PERFECT,
    RAW,
    TAGGER,
    ArmRow,
    KeptLeakage,
    LeakageTask,
    LeakRow,
    make_quick_order,
)
from audit.words import Words
from pages.ui import blocks, cached, charts
from pages.ui.access import may_or_explain
from pages.ui.blocks import estimate_cell, format_percent
from pages.ui.charts import Axis, Series, point_series
from pages.ui.display_names import tagger_name
from pages.ui.form import choose, draw_button
from pages.ui.running import FollowedJobs
from pages.ui.section import Content, draw_figure, draw_heading, draw_remark, draw_table
from pages.ui.state import write_parameter

Leaks = list[tuple[ArmRow, LeakRow]]
_SYMBOLS = {"mentions": "circle", "patients": "square", TAGGER: "diamond"}
_ZERO_BELOW = 3.0  # zero stands this factor left of the smallest share
_SMALLEST = 0.01
_COMMAND = "python -m audit deid leakage --out results"


JOBS = FollowedJobs(
    LeakageTask.job,
    page="deid_leakage",
    on_done=lambda _, leakage: write_parameter("leakage", leakage),
)


def draw(say: Words) -> None:
    """Draw the experiment that the link names, or the last one, and the form of a new one."""
    draw_heading(say, "deid_leakage_title", below="deid_leakage_below")
    is_running, experiments = JOBS.draw(say), LEAKAGE.all()
    if experiments:
        leakage_id = st.query_params.get("leakage", "")
        _draw_experiment(
            say,
            next(
                (experiment for experiment in experiments if experiment.leakage_id == leakage_id),
                experiments[0],
            ),
        )
    elif not is_running:
        draw_remark(say, "deid_leakage_empty")
    if not is_running:
        _draw_ask(say)


def _draw_experiment(say: Words, experiment: KeptLeakage) -> None:
    view, order = experiment.tables, experiment.tables.order
    draw_remark(
        say,
        "deid_leakage_facts",
        n_notes=f"{view.n_notes:,}",
        n_patients=view.n_patients,
        epochs=f"{order.epochs:g}",
        seed=order.seed,
        language=say.text(f"deid_leakage_language_{order.language}"),
        mode=say.text(f"deid_leakage_mode_{order.mode}"),
    )
    controls = choose(say, "deid_leakage_controls", ("easy", "hard"), parameter="leak_against")
    draw_heading(say, "deid_leakage_attacker")
    leaks = list(view.select_rows(controls=controls))
    draw_figure(
        say,
        "deid_leakage",
        leakage_chart(say, leaks),
        table={
            "arm": [arm_name(say, arm) for arm, _ in leaks],
            "left": [
                f"{arm.left.n_hits} / {arm.left.n_total} ({format_percent(arm.left.value)})"
                for arm, _ in leaks
            ],
            "exposed": [f"{arm.n_exposed} / {arm.n_patients}" for arm, _ in leaks],
            "other": [format_percent(arm.other_chars) for arm, _ in leaks],
            **_measures(leaks),
        },
    )
    if split := [(arm, leak) for arm, pair in view.split(controls=controls) for leak in pair]:
        draw_heading(say, "deid_leakage_split")
        draw_table(
            say,
            "deid_leakage_split",
            {
                "deid_leakage_arm": [arm_name(say, arm) for arm, _ in split],
                "deid_leakage_group": [
                    say.text(f"deid_leakage_group_{leak.group}") for _, leak in split
                ],
                "deid_leakage_n": [leak.n_members for _, leak in split],
                **_measures(split),
            },
            caption=say.text("deid_leakage_split"),
        )
    limits = [say.text(f"deid_leakage_limit_{name}") for name in ("demo", "seed", "passages", "no")]
    st.html(blocks.heading(say.text("deid_leakage_limits")) + blocks.bullet_list(limits))


def _measures(leaks: Leaks) -> dict[str, Sequence[Content]]:
    return {
        "deid_leakage_auc": [estimate_cell(leak.auc, digits=2) for _, leak in leaks],
        "deid_leakage_tpr": [estimate_cell(leak.tpr_at_10, digits=2) for _, leak in leaks],
        "deid_leakage_minus": [estimate_cell(leak.minus_perfect, digits=2) for _, leak in leaks],
        "deid_leakage_flagged": [
            f"{leak.flagged.n_hits} / {leak.flagged.n_total}" for _, leak in leaks
        ],
    }


def leakage_chart(say: Words, leaks: Leaks) -> go.Figure:
    """Return a chart with a point for each arm; raw and perfect notes are lines.

    The shares have a logarithmic axis with zero at its left end.
    """
    lines = [(arm, leak) for arm, leak in leaks if arm.kind in (RAW, PERFECT)]
    shares = [arm.left.value for arm, _ in leaks if arm.kind in _SYMBOLS]
    low = min([share for share in shares if share > 0] + [_SMALLEST])
    zero = low / _ZERO_BELOW
    edges = [zero / 1.6, 1.6]
    series = [
        Series(
            say.text(f"deid_leakage_{arm.kind}"),
            edges,
            [leak.auc.value] * 2,
            hover="%{y:.2f}",
            dash="solid" if arm.kind == RAW else "dash",
        )
        for arm, leak in lines
    ]
    series.append(Series(say.text("deid_leakage_chance"), edges, [0.5, 0.5], dash="dot", hover=""))
    groups: dict[tuple[str, str], Leaks] = {}
    for arm, leak in leaks:
        if arm.kind in _SYMBOLS:
            name = f"deid_leakage_{arm.kind}"
            name = arm_name(say, arm) if arm.kind == TAGGER else say.text(name)
            groups.setdefault((name, arm.kind), []).append((arm, leak))
    series += [
        point_series(
            name,
            [arm.left.value or zero for arm, _ in rows],
            [leak.auc for _, leak in rows],
            is_attack=True,
            symbol=_SYMBOLS[kind],
            hover="%{x:.3f} · %{y:.2f}",
        )
        for (name, kind), rows in groups.items()
    ]
    ticks = [share for share in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0) if share >= low / 1.01]
    return charts.plot(
        series,
        x=Axis(
            say.text("deid_leakage_x"),
            is_log=True,
            has_grid=False,
            range=(math.log10(edges[0]), math.log10(edges[1])),
            ticks={zero: "0 %", **{share: f"{100 * share:g} %" for share in ticks}},
        ),
        y=Axis(say.text("deid_leakage_y")),
    )


def arm_name(say: Words, arm: ArmRow) -> str:
    """Return an arm's display name; a trained tagger's title is untrusted text."""
    if arm.kind == TAGGER:
        return tagger_name(say, arm.tagger)
    return say.text(f"deid_leakage_arm_{arm.kind}", share=f"{100 * arm.share:g}")


def _draw_ask(say: Words) -> None:
    """Draw the button that runs the quick experiment, and the command for the whole one."""
    draw_heading(say, "deid_leakage_run")
    if not may_or_explain("ran", say):
        return
    language = choose(say, "deid_leakage_language", LANGUAGES, parameter="hospital")
    if draw_button(say, "deid_leakage_run_now"):
        shipped = [
            tagger.tagger_id for tagger in cached.taggers() if tagger.tagger_id in (RULES, DEFAULT)
        ]
        task = make_quick_order(LeakageTask(language=language, taggers=tuple(shipped)))
        JOBS.start(task.question(), seed=task.seed)
        st.rerun()
    draw_remark(say, "deid_leakage_command")
    st.code(_COMMAND, language="bash")
