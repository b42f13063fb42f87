"""Planted names on the Measures page: exposure in bits by number of mentions, and each name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
import streamlit as st

from audit.attack.scores import GENERAL_ALONE
from audit.report.report import (
    AuditReport,
    Exposure,
    ExposureGroup,
    KeptAudit,
    PlantedName,
    ScoreExposure,
)
from pages.ui import blocks, cached, charts
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.language import Words
from pages.ui.measure_tables import p_value, score_name
from pages.ui.reveal import shown_name
from pages.ui.text import UNDEFINED, decimal, decimal_interval, escaped, percent, percent_interval

_SPREAD = 0.28  # how far the dots of one number lie apart, in steps of the axis


def exposure_figure(
    attack: ScoreExposure,
    *,
    general: ScoreExposure | None,
    names: Sequence[PlantedName],
    alpha: float,
    words: Mapping[str, str],
) -> go.Figure:
    """Return one dot a planted name, the mean of each number with its interval, and three limits.

    `words` has "x", "y", "attack", "general", "one", "most", "found" and "chance". Numbers of
    mentions stand at equal steps, in their order.
    """
    counts = [group.n_mentions for group in attack.groups]
    figure = go.Figure()
    edges = [-0.6, len(counts) - 0.4]
    for height, key, dash in (
        (attack.max_bits, "most", "solid"),
        (-math.log2(alpha), "found", "dash"),
        (attack.bits_without_leak, "chance", "dot"),
    ):
        if key == "found" and height > attack.max_bits:
            continue  # so few held-out names cannot find anybody
        figure.add_scatter(
            x=edges, y=[height, height], mode="lines", name=escaped(words[key]),
            line={"color": GREY, "dash": dash, "width": 1.5}, hoverinfo="skip",
        )  # fmt: skip
    _dots(figure, names, counts=counts, name=words["one"])
    if general is not None:
        _means(figure, general, at=-0.12, colour=GREY, symbol="diamond", name=words["general"])
    _means(figure, attack, at=0.12, colour=RUST, symbol="circle", name=words["attack"])
    figure.update_xaxes(
        title=words["x"], showgrid=False, zeroline=False, tickvals=list(range(len(counts))),
        ticktext=[str(count) for count in counts], range=edges,
    )  # fmt: skip
    figure.update_yaxes(
        title=words["y"], gridcolor=LINE, zeroline=False, range=[-0.4, attack.max_bits * 1.12 + 0.2]
    )
    return figure.update_layout(
        height=400, margin={"l": 10, "r": 16, "t": 40, "b": 10}, font={"size": 13},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )  # fmt: skip


def _dots(
    figure: go.Figure, names: Sequence[PlantedName], *, counts: Sequence[int | None], name: str
) -> None:
    places = []
    seen = dict.fromkeys(counts, 0)
    total = {count: sum(one.n_mentions == count for one in names) for count in counts}
    for one in names:
        k, n = seen[one.n_mentions], total[one.n_mentions]
        seen[one.n_mentions] += 1
        shift = 0.0 if n < 2 else _SPREAD * (2 * k / (n - 1) - 1)
        places.append(counts.index(one.n_mentions) + shift)
    figure.add_scatter(
        x=places, y=[one.bits for one in names], mode="markers", name=escaped(name),
        marker={"color": RUST, "size": 6, "opacity": 0.4}, hovertemplate="%{y:.2f}<extra></extra>",
    )  # fmt: skip


def _means(
    figure: go.Figure, one: ScoreExposure, *, at: float, colour: str, symbol: str, name: str
) -> None:
    bits = [group.bits for group in one.groups]
    # A name alone has no interval: its mean stands without a bar.
    figure.add_scatter(
        x=[place + at for place in range(len(bits))],
        y=[mean.value for mean in bits],
        error_y={
            "array": [0.0 if math.isnan(m.high) else m.high - m.value for m in bits],
            "arrayminus": [0.0 if math.isnan(m.low) else m.value - m.low for m in bits],
            "color": colour,
            "thickness": 2,
            "width": 6,
        },
        mode="markers",
        name=escaped(name),
        marker={"color": colour, "size": 11, "symbol": symbol},
        hovertemplate="%{y:.2f}<extra></extra>",
    )


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw what the planted names of an audit show."""
    report = cached.report(audit.digest)
    view = report.details.canaries
    if view is None:
        why = say.text("measures_no_canaries_do")
        st.html(blocks.heading(say.text("measures_no_canaries"), below=why))
        return
    st.html(blocks.heading("", below=view.sentence(say.language)))
    if not view.is_paired:
        counts = {"planted": view.n_planted, "held_out": view.n_held_out}
        st.html(blocks.heading("", below=say.text("measures_canaries_unpaired", **counts)))
    if not view.scores:
        return
    fixed = next(iter(view.ordered.values()))
    _draw_chart(say, view)
    limits = say.text(
        "measures_canaries_limit",
        n=fixed.n_held_out,
        bits=decimal(fixed.max_bits, digits=2),
        p=p_value(fixed.smallest_p),
        chance=decimal(fixed.bits_without_leak, digits=2),
    )
    st.html(blocks.heading("", below=limits))
    st.html(_group_table(say, view))
    st.html(blocks.heading(say.text("measures_canaries_scores")))
    st.html(_score_table(say, view))
    with st.expander(say.text("measures_canaries_names")):
        _draw_names(say, report, view)


def _draw_chart(say: Words, view: Exposure) -> None:
    keys = ("x", "y", "attack", "general", "one", "most", "found", "chance")
    texts = {key: say.sentences[f"measures_canaries_{key}"] for key in keys}
    general = view.scores.get(GENERAL_ALONE)
    drawn = [*view.ordered.items()][: 2 if general else 1]
    figure = exposure_figure(
        drawn[0][1], general=general, names=view.names, alpha=view.alpha, words=texts
    )
    alt = say.text("measures_canaries_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="measures_canaries")
    with st.expander(say.text("as_table")):
        rows = [
            (
                score_name(say, score),
                str(group.n_mentions),
                str(group.n_names),
                decimal(group.bits.value, digits=2),
                decimal_interval(group.bits, digits=2),
            )
            for score, one in drawn
            for group in one.groups
        ]
        header = [
            say.text("measures_score"), say.text("column_mentions"), say.text("column_n"),
            texts["y"], say.text("column_interval"),
        ]  # fmt: skip
        st.html(blocks.simple_table(header, rows, caption=alt))


def _group_table(say: Words, view: Exposure) -> str:
    """Return the fixed score's exposure by number of mentions, M_general's beside, as HTML."""
    fixed, general = next(iter(view.ordered.values())), view.scores.get(GENERAL_ALONE)
    by_general = {group.n_mentions: group for group in general.groups} if general else {}
    if general is not None:
        by_general[None] = general.whole
    header = [
        say.text("column_mentions"),
        *_headings(say),
        say.text("measures_canaries_by_general"),
    ]
    rows = [
        [
            blocks.Cell(_count(say, group), is_number=False),
            *_group_cells(group),
            _rate_cell(by_general.get(group.n_mentions)),
        ]
        for group in (*fixed.groups, fixed.whole)
    ]
    head = [blocks.Cell(text, is_number=place > 0) for place, text in enumerate(header)]
    return blocks.table([head], rows, caption=say.text("measures_canaries_caption"))


def _score_table(say: Words, view: Exposure) -> str:
    header = [say.text("measures_score"), *_headings(say)]
    rows = [
        [
            blocks.Cell(score_name(say, score), _role(say, view, score), is_number=False),
            *_group_cells(one.whole),
        ]
        for score, one in view.ordered.items()
    ]
    head = [blocks.Cell(text, is_number=place > 0) for place, text in enumerate(header)]
    return blocks.table([head], rows, caption=say.text("measures_canaries_scores"))


def _headings(say: Words) -> list[str]:
    keys = ("n", "bits", "share", "twins", "twins_p")
    return [say.text(f"measures_canaries_{key}") for key in keys]


def _group_cells(group: ExposureGroup) -> list[blocks.Cell]:
    twins = group.above_twin
    return [
        blocks.Cell(str(group.n_names)),
        blocks.Cell(
            decimal(group.bits.value, digits=2), _some(decimal_interval(group.bits, digits=2))
        ),
        _rate_cell(group),
        blocks.Cell(
            f"{twins.n_hits} / {twins.n_total}" if twins.n_total else UNDEFINED,
            _some(percent_interval(twins)),
        ),
        blocks.Cell(p_value(group.above_twin_p)),
    ]


def _rate_cell(group: ExposureGroup | None) -> blocks.Cell:
    if group is None or not group.found.n_total:
        return blocks.Cell(UNDEFINED)
    rate = group.found
    text = f"{rate.n_hits} / {rate.n_total} · {percent(rate.value)}"
    return blocks.Cell(text, _some(percent_interval(rate)))


def _count(say: Words, group: ExposureGroup) -> str:
    return say.text("measures_canaries_all") if group.n_mentions is None else str(group.n_mentions)


def _role(say: Words, view: Exposure, score: str) -> str:
    if score == view.fixed_score:
        return say.text("measures_fixed")
    return say.text("measures_baseline") if score == GENERAL_ALONE else ""


def _draw_names(say: Words, report: AuditReport, view: Exposure) -> None:
    names = report.table.loc[[one.name_id for one in view.names]]
    columns: dict[str, list[object]] = {
        say.text("column_number"): names["number"].tolist(),
        say.text("column_name"): list(map(shown_name, names["first_name"], names["last_name"])),
        say.text("column_mentions"): [one.n_mentions for one in view.names],
        say.text("measures_canaries_score"): [one.score for one in view.names],
        say.text("measures_canaries_one_bits"): [one.bits for one in view.names],
        say.text("measures_canaries_p"): [one.p for one in view.names],
        say.text("measures_canaries_twin"): [one.twin_score for one in view.names],
    }
    alt = say.text("measures_canaries_names")
    st.dataframe(columns, hide_index=True, key="measures_canary_names", alt=alt)


def _some(text: str) -> str:
    return "" if text == UNDEFINED else text
