"""What a de-identifier leaves behind: leakage against missed names, as a section of a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import streamlit as st

from audit.deid.taggers import DEFAULT, RULES, known_taggers
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
from audit.jobs import service
from audit.jobs.table import Job
from pages.ui import blocks, cached, charts
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.job_card import job_head, progress_text
from pages.ui.language import Words, link
from pages.ui.logged import note, who
from pages.ui.measure_choice import choose
from pages.ui.text import UNDEFINED, decimal, decimal_interval, escaped, percent

Leaks = Sequence[tuple[ArmRow, LeakRow]]
_SYMBOLS = {"mentions": "circle", "patients": "square-open", TAGGER: "diamond"}
_ZERO_BELOW = 3.0  # zero stands this factor left of the smallest share
_SMALLEST = 0.01


def leakage_chart(leaks: Leaks, *, words: Mapping[str, str]) -> go.Figure:
    """Return a point an arm with its interval; raw and perfect notes are lines.

    The shares stand on a logarithmic axis with zero at its left end. `words` has "x", "y", "raw",
    "perfect", "chance", "mentions", "patients", "tagger", and for each tagger its name under its
    identifier.
    """
    shares = [arm.left.value for arm, _ in leaks if arm.kind not in (RAW, PERFECT)]
    low = min([share for share in shares if share > 0] + [_SMALLEST])
    zero = low / _ZERO_BELOW
    figure = go.Figure()
    edges = [zero / 1.6, 1.6]
    for arm, one in leaks:
        if arm.kind in (RAW, PERFECT):
            _line(figure, edges, one.auc.value, name=words[arm.kind],
                  dash="solid" if arm.kind == RAW else "dash")  # fmt: skip
    _line(figure, edges, 0.5, name=words["chance"], dash="dot")
    for kind, symbol in _SYMBOLS.items():
        rows = [(arm, one) for arm, one in leaks if arm.kind == kind]
        if rows:
            _points(figure, rows, kind=kind, symbol=symbol, zero=zero, words=words)
    ticks = [share for share in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0) if share >= low / 1.01]
    figure.update_xaxes(
        title=words["x"], type="log", range=[math.log10(edge) for edge in edges], zeroline=False,
        showgrid=False, tickvals=[zero, *ticks],
        ticktext=["0 %", *(f"{100 * share:g} %" for share in ticks)],
    )  # fmt: skip
    figure.update_yaxes(title=words["y"], gridcolor=LINE, zeroline=False)
    return figure.update_layout(
        height=420, margin={"l": 10, "r": 16, "t": 40, "b": 10}, font={"size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )  # fmt: skip


def _line(figure: go.Figure, edges: list[float], height: float, *, name: str, dash: str) -> None:
    figure.add_scatter(
        x=edges, y=[height, height], mode="lines", name=escaped(name),
        line={"color": GREY, "dash": dash, "width": 1.8}, hovertemplate="%{y:.2f}<extra></extra>",
    )  # fmt: skip


def _points(
    figure: go.Figure,
    rows: Leaks,
    *,
    kind: str,
    symbol: str,
    zero: float,
    words: Mapping[str, str],
) -> None:
    is_tagger = kind == TAGGER
    figure.add_scatter(
        x=[arm.left.value or zero for arm, _ in rows],
        y=[one.auc.value for _, one in rows],
        error_y={
            "array": [one.auc.high - one.auc.value for _, one in rows],
            "arrayminus": [one.auc.value - one.auc.low for _, one in rows],
            "color": RUST,
            "thickness": 1.5,
            "width": 5,
        },
        mode="markers+text" if is_tagger else "markers",
        text=[escaped(words.get(arm.tagger, "")) for arm, _ in rows] if is_tagger else None,
        textposition="middle right",
        name=escaped(words[kind]),
        marker={"color": RUST, "size": 14 if is_tagger else 10, "symbol": symbol},
        customdata=[[arm.left.n_hits, arm.left.n_total] for arm, _ in rows],
        hovertemplate="%{customdata[0]} / %{customdata[1]} · %{y:.2f}<extra></extra>",
    )


CONTROLS = ("easy", "hard")
_COMMAND = "python -m audit deid leakage --out results"


def draw_leakage(say: Words) -> None:
    """Draw the section: the last experiment (or the one in the link), and the way to another."""
    st.html(blocks.heading(say.text("deid_leakage_title"), below=say.text("deid_leakage_below")))
    try:
        job = next((job for job in service.active_jobs() if job.kind == LeakageTask.job), None)
        kept = LEAKAGE.all()
        if kept:
            asked = st.query_params.get("leakage", "")
            chosen = next((one for one in kept if one.leakage_id == asked), kept[0])
            _draw_kept(say, chosen)
        elif job is None:
            st.html(blocks.heading("", below=say.text("deid_leakage_empty")))
        if job is None:
            _draw_ask(say)
        else:
            _draw_job(say, job)
    except cached.AuditError as error:
        st.html(blocks.heading(say.text("no_data"), below=error.written(say.language)))


def _draw_kept(say: Words, kept: KeptLeakage) -> None:
    view, order = kept.tables, kept.tables.order
    facts = say.text(
        "deid_leakage_facts", n_notes=f"{view.n_notes:,}", n_patients=view.n_patients,
        epochs=f"{order.epochs:g}", seed=order.seed,
        language=say.text(f"deid_leakage_language_{order.language}"),
        mode=say.text(f"deid_leakage_mode_{order.mode}"),
    )  # fmt: skip
    st.html(blocks.heading("", below=facts))
    controls = choose(
        "leak_against",
        CONTROLS,
        label=say.text("deid_leakage_controls"),
        shown=lambda code: say.text(f"deid_leakage_controls_{code}"),
    )
    st.html(blocks.heading(say.text("deid_leakage_attacker")))
    _draw_attack(say, view, controls=controls)
    limits = [say.text(f"deid_leakage_limit_{name}") for name in ("demo", "seed", "passages", "no")]
    st.html(blocks.heading(say.text("deid_leakage_limits")) + blocks.bullet_list(limits))


def _draw_attack(say: Words, view: LeakageTables, *, controls: str) -> None:
    leaks = view.of(controls=controls)
    keys = ("x", "y", "raw", "perfect", "chance", "mentions", "patients", "tagger")
    words = {key: say.text(f"deid_leakage_{key}") for key in keys} | _tagger_names(say, view)
    alt = say.text("deid_leakage_alt")
    key = f"deid_leakage_{controls}_chart"
    st.plotly_chart(leakage_chart(leaks, words=words), config=charts.CONFIG, alt=alt, key=key)
    with st.expander(say.text("as_table")):
        st.html(_arm_table(say, view, leaks))
    pairs = view.split(controls=controls)
    if pairs:
        below = say.text("deid_leakage_split_below")
        st.html(blocks.heading(say.text("deid_leakage_split"), below=below))
        st.html(_split_table(say, view, pairs))


def _arm_table(say: Words, view: LeakageTables, leaks: Leaks) -> str:
    columns = ("arm", "left", "exposed", "other", "auc", "tpr", "minus", "flagged")
    header = [say.text(f"deid_leakage_column_{name}") for name in columns]
    rows = [
        [
            blocks.Cell(arm_name(say, view, arm), is_number=False),
            blocks.Cell(f"{arm.left.n_hits} / {arm.left.n_total}", percent(arm.left.value)),
            blocks.Cell(f"{arm.n_exposed} / {arm.n_patients}"),
            blocks.Cell(percent(arm.other_chars)),
            *_measures(one),
            blocks.Cell(f"{one.flagged.n_hits} / {one.flagged.n_total}"),
        ]
        for arm, one in leaks
    ]
    head = [blocks.Cell(text, is_number=place > 0) for place, text in enumerate(header)]
    return blocks.table([head], rows, caption=say.text("deid_leakage_alt"))


def _split_table(
    say: Words, view: LeakageTables, pairs: Sequence[tuple[ArmRow, tuple[LeakRow, LeakRow]]]
) -> str:
    columns = ("arm", "group", "n", "auc", "tpr", "minus", "flagged")
    header = [say.text(f"deid_leakage_column_{name}") for name in columns]
    rows = [
        [
            blocks.Cell(arm_name(say, view, arm), is_number=False),
            blocks.Cell(say.text(f"deid_leakage_group_{one.group}"), is_number=False),
            blocks.Cell(str(one.n_members)),
            *_measures(one),
            blocks.Cell(f"{one.flagged.n_hits} / {one.flagged.n_total}"),
        ]
        for arm, pair in pairs
        for one in pair
    ]
    head = [blocks.Cell(text, is_number=place > 1) for place, text in enumerate(header)]
    return blocks.table([head], rows, caption=say.text("deid_leakage_split"))


def _measures(one: LeakRow) -> list[blocks.Cell]:
    return [
        blocks.Cell(
            decimal(estimate.value, digits=2), _some(decimal_interval(estimate, digits=2))
        )
        for estimate in (one.auc, one.tpr_at_10, one.minus_perfect)
    ]  # fmt: skip


def arm_name(say: Words, view: LeakageTables, arm: ArmRow) -> str:
    """Return what an arm is called; a trained tagger's title is untrusted text."""
    if arm.kind == TAGGER:
        return _tagger_names(say, view)[arm.tagger]
    if arm.kind in ("mentions", "patients"):
        return say.text(f"deid_leakage_arm_{arm.kind}", share=f"{100 * arm.share:g}")
    return say.text(f"deid_leakage_arm_{arm.kind}")


def _tagger_names(say: Words, view: LeakageTables) -> Mapping[str, str]:
    titles = {tagger.tagger_id: tagger.title for tagger in known_taggers()}
    names = {}
    for arm in view.arms:
        if arm.kind == TAGGER:
            is_shipped = arm.tagger in (RULES, DEFAULT)
            own = titles.get(arm.tagger) or arm.tagger
            names[arm.tagger] = say.text(f"deid_leakage_tagger_{arm.tagger}") if is_shipped else own
    return names


def _draw_ask(say: Words) -> None:
    """Draw the button that runs the quick experiment, and the command for the whole one."""
    st.html(blocks.heading(say.text("deid_leakage_run"), below=say.text("deid_leakage_run_below")))
    known = [tagger.tagger_id for tagger in known_taggers() if tagger.tagger_id in (RULES, DEFAULT)]
    language = st.segmented_control(
        say.text("deid_leakage_language"),
        LANGUAGES,
        format_func=lambda code: say.text(f"deid_leakage_language_{code}"),
        key="deid_leakage_language",
        default=LANGUAGES[0],
        required=True,
    )
    if st.button(say.text("deid_leakage_run_now"), key="deid_leakage_run_now"):
        order = quick(LeakageTask(language=language or LANGUAGES[0], taggers=tuple(known)))
        job = service.ask(order.question(), owner=who())
        note("ran", kind=job.kind, job=job.job_id, device=job.device, seed=order.seed)
        if job.result:
            st.query_params["leakage"] = job.result[0]
        st.rerun()
    st.html(blocks.heading("", below=say.text("deid_leakage_command")))
    st.code(_COMMAND, language="bash")


def _draw_job(say: Words, job: Job) -> None:
    """Draw an experiment that waits or runs, anew each second."""

    def card() -> None:
        now = service.job(job.job_id)
        if not now.is_active:
            if now.result:
                st.query_params["leakage"] = now.result[0]
            st.rerun(scope="app")
        with st.container(border=True, key="deid_leakage_job"):
            st.html(job_head(say, now))
            st.progress(now.share, text=progress_text(say, now))
            link("jobs", label=say.text("deid_leakage_see_job"), job=now.job_id)

    st.fragment(card, run_every="1s")()


def _some(text: str) -> str:
    return "" if text == UNDEFINED else text
