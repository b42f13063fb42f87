"""What a de-identifier leaves behind: leakage against missed names, a tab of the Workshop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import streamlit as st

from audit.deid.taggers import DEFAULT, RULES
from audit.experiment.leakage import (
    LANGUAGES,
    LEAKAGE,
    PERFECT,
    RAW,
    TAGGER,
    ArmRow,
    KeptLeakage,
    LeakageTables,
    LeakageTask,
    LeakRow,
    quick,
)
from audit.tables import UNDEFINED, decimal, decimal_interval
from audit.words import Words
from pages.ui import blocks, cached, charts
from pages.ui.access import may_or_say
from pages.ui.blocks import percent
from pages.ui.called import tagger_name
from pages.ui.charts import Axis, Series
from pages.ui.running import FollowedJobs
from pages.ui.section import Table, draw_table, figure, head, remark
from pages.ui.state import choose

Leaks = Sequence[tuple[ArmRow, LeakRow]]
_SYMBOLS = {"mentions": "circle", "patients": "square", TAGGER: "diamond"}
_ZERO_BELOW = 3.0  # zero stands this factor left of the smallest share
_SMALLEST = 0.01
_COMMAND = "python -m audit deid leakage --out results"


def _done(say: Words, leakage_id: str) -> None:
    st.query_params["leakage"] = leakage_id


JOBS = FollowedJobs(kind=LeakageTask.job, page="deid_leakage", on_done=_done)


def draw(say: Words) -> None:
    """Draw the last experiment, or the link's, and the way to another."""
    head(say, "deid_leakage_title")
    is_running, kept = JOBS.draw(say), LEAKAGE.all()
    if kept:
        asked = st.query_params.get("leakage", "")
        _draw_kept(say, next((one for one in kept if one.leakage_id == asked), kept[0]))
    elif not is_running:
        remark(say, "deid_leakage_empty")
    if not is_running:
        _draw_ask(say)


def _draw_kept(say: Words, kept: KeptLeakage) -> None:
    view, order = kept.tables, kept.tables.order
    remark(
        say, "deid_leakage_facts", n_notes=f"{view.n_notes:,}", n_patients=view.n_patients,
        epochs=f"{order.epochs:g}", seed=order.seed,
        language=say.text(f"deid_leakage_language_{order.language}"),
        mode=say.text(f"deid_leakage_mode_{order.mode}"),
    )  # fmt: skip
    controls = choose(
        "leak_against", ("easy", "hard"), label=say.text("deid_leakage_controls"),
        shown=lambda code: say.text(f"deid_leakage_controls_{code}"),
    )  # fmt: skip
    head(say, "deid_leakage_attacker")
    leaks = view.of(controls=controls)
    columns = ("arm", "left", "exposed", "other", "auc", "tpr", "minus", "flagged")
    rows = [
        (
            arm_name(say, arm), f"{arm.left.n_hits} / {arm.left.n_total}"
            f" ({percent(arm.left.value)})", f"{arm.n_exposed} / {arm.n_patients}",
            percent(arm.other_chars), *_measures(one),
        )
        for arm, one in leaks
    ]  # fmt: skip
    header = [say.text(f"deid_leakage_column_{name}") for name in columns]
    figure(say, "deid_leakage", leakage_chart(say, leaks), table=Table(header, rows))
    _draw_split(say, view, controls=controls)
    limits = [say.text(f"deid_leakage_limit_{name}") for name in ("demo", "seed", "passages", "no")]
    st.html(blocks.heading(say.text("deid_leakage_limits")) + blocks.bullet_list(limits))


def _draw_split(say: Words, view: LeakageTables, *, controls: str) -> None:
    pairs = view.split(controls=controls)
    if not pairs:
        return
    columns = ("arm", "group", "n", "auc", "tpr", "minus", "flagged")
    rows = [
        (arm_name(say, arm), say.text(f"deid_leakage_group_{one.group}"), str(one.n_members),
         *_measures(one))
        for arm, pair in pairs
        for one in pair
    ]  # fmt: skip
    head(say, "deid_leakage_split")
    header = [say.text(f"deid_leakage_column_{name}") for name in columns]
    table = Table(header, rows, n_text=2)
    draw_table(say, "deid_leakage_split", table, caption=say.text("deid_leakage_split"))


def leakage_chart(say: Words, leaks: Leaks) -> charts.go.Figure:
    """Return a point an arm with its interval; raw and perfect notes are lines.

    The shares stand on a logarithmic axis with zero at its left end.
    """
    shares = [arm.left.value for arm, _ in leaks if arm.kind not in (RAW, PERFECT)]
    low = min([share for share in shares if share > 0] + [_SMALLEST])
    zero = low / _ZERO_BELOW
    edges = [zero / 1.6, 1.6]
    series = [
        Series(say.text(f"deid_leakage_{arm.kind}"), edges, [one.auc.value] * 2, hover="%{y:.2f}",
               dash="solid" if arm.kind == RAW else "dash")
        for arm, one in leaks if arm.kind in (RAW, PERFECT)
    ]  # fmt: skip
    series.append(Series(say.text("deid_leakage_chance"), edges, [0.5, 0.5], dash="dot", hover=""))
    groups: dict[str, list[tuple[ArmRow, LeakRow]]] = {}
    for arm, one in leaks:
        if arm.kind in _SYMBOLS:
            name = (
                arm_name(say, arm) if arm.kind == TAGGER else say.text(f"deid_leakage_{arm.kind}")
            )
            groups.setdefault(name, []).append((arm, one))
    for name, rows in groups.items():
        series.append(
            Series(
                name, [arm.left.value or zero for arm, _ in rows],
                [one.auc.value for _, one in rows], form="points", is_attack=True,
                low=[one.auc.low for _, one in rows], high=[one.auc.high for _, one in rows],
                symbol=_SYMBOLS[rows[0][0].kind], hover="%{x:.3f} · %{y:.2f}",
            )
        )  # fmt: skip
    ticks = [share for share in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0) if share >= low / 1.01]
    return charts.plot(
        series,
        x=Axis(
            say.text("deid_leakage_x"), is_log=True, has_grid=False,
            range=(math.log10(edges[0]), math.log10(edges[1])),
            ticks={zero: "0 %", **{share: f"{100 * share:g} %" for share in ticks}},
        ),
        y=Axis(say.text("deid_leakage_y")),
    )  # fmt: skip


def _measures(one: LeakRow) -> list[str]:
    found = []
    for estimate in (one.auc, one.tpr_at_10, one.minus_perfect):
        interval = decimal_interval(estimate, digits=2)
        value = decimal(estimate.value, digits=2)
        found.append(value if interval == UNDEFINED else f"{value} ({interval})")
    return [*found, f"{one.flagged.n_hits} / {one.flagged.n_total}"]


def arm_name(say: Words, arm: ArmRow) -> str:
    """Return what an arm is called; a trained tagger's title is untrusted text."""
    if arm.kind == TAGGER:
        return tagger_name(say, arm.tagger)
    share: Mapping[str, object] = {}
    if arm.kind in ("mentions", "patients"):
        share = {"share": f"{100 * arm.share:g}"}
    return say.text(f"deid_leakage_arm_{arm.kind}", **share)


def _draw_ask(say: Words) -> None:
    """Draw the button that runs the quick experiment, and the command for the whole one."""
    head(say, "deid_leakage_run")
    if not may_or_say("ran", say):
        return
    known = [one.tagger_id for one in cached.taggers() if one.tagger_id in (RULES, DEFAULT)]
    language = st.segmented_control(
        say.text("deid_leakage_language"), LANGUAGES, key="deid_leakage_language",
        format_func=lambda code: say.text(f"deid_leakage_language_{code}"), default=LANGUAGES[0],
        required=True,
    )  # fmt: skip
    if st.button(say.text("deid_leakage_run_now"), key="deid_leakage_run_now"):
        task = quick(LeakageTask(language=language or LANGUAGES[0], taggers=tuple(known)))
        JOBS.start(task.question(), seed=task.seed)
        st.rerun()
    remark(say, "deid_leakage_command")
    st.code(_COMMAND, language="bash")
