"""One name on the Names page: what its score rests on, and what each number means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from audit.report.documents import DocumentView, holds_name
from audit.report.names import (
    ASKED,
    AmongControls,
    FittingPassage,
    among_controls,
    block_mean,
    fitting_passages,
)
from audit.report.report import AuditReport, Inspection
from audit.stats import Estimate
from pages.ui import blocks, cached, charts, marks
from pages.ui.charts import GREY, LINE, RUST
from pages.ui.document_cards import mark_label
from pages.ui.language import Words, link
from pages.ui.reveal import is_revealed, shown_name, shown_passage
from pages.ui.text import decimal, escaped, percent, small

_GOLDEN = 0.618033988749895
_MAX_TICKS = 7


def block_strip(
    models: Mapping[str, tuple[list[float], Estimate]],
    *,
    labels: Mapping[str, str],
    axis: str,
    is_share: bool,
) -> go.Figure:
    """Return one dot per block and model, a row per model, with the mean and its interval.

    `is_share`: values are products of masses, drawn on a log axis unless one of them is zero.
    """
    figure = go.Figure()
    for row, (who, (values, mean)) in enumerate(models.items()):
        is_hospital = who == "hospital"
        colour = RUST if is_hospital else GREY
        figure.add_scatter(
            x=values,
            y=[row + 0.5 * ((i * _GOLDEN) % 1 - 0.5) for i in range(len(values))],
            mode="markers",
            marker={
                "color": colour,
                "size": 8,
                "opacity": 0.6,
                "symbol": "circle" if is_hospital else "circle-open",
            },
            hovertemplate="%{x:.4g}<extra></extra>",
        )
        half = (mean.high - mean.low) / 2
        figure.add_scatter(
            x=[mean.value],
            y=[row],
            error_x={
                "array": [0 if math.isnan(half) else half],
                "color": colour,
                "thickness": 3,
                "width": 9,
            },
            mode="markers",
            marker={
                "color": colour,
                "size": 15,
                "symbol": "diamond" if is_hospital else "diamond-open",
                "line": {"width": 2, "color": colour},
            },
            hovertemplate="%{x:.4g}<extra></extra>",
        )
    values = [value for of_model, _ in models.values() for value in of_model]
    figure.update_yaxes(
        tickvals=list(range(len(models))),
        ticktext=[escaped(labels[who]) for who in models],
        range=[len(models) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
        automargin=True,
    )
    figure.update_xaxes(title=escaped(axis), zeroline=False, gridcolor=LINE, nticks=_MAX_TICKS)
    if is_share and values and min(values) > 0:
        figure.update_xaxes(type="log", exponentformat="power", dtick=_log_tick(values))
    return _finished(figure, height=250)


def among_histogram(among: AmongControls, *, words: Mapping[str, str]) -> go.Figure:
    """Return the controls' scores as a histogram in which the name's own score is marked.

    `words` has "x", "y", "name" and "threshold".
    """
    edges, counts = among.edges.tolist(), among.counts.tolist()
    width = edges[1] - edges[0]
    centres = [(one + two) / 2 for one, two in pairwise(edges)]
    top = max([*counts, 1]) * 1.3
    figure = go.Figure()
    figure.add_bar(
        x=centres,
        y=counts,
        width=width * 0.92,
        marker={"color": GREY, "opacity": 0.75, "line": {"width": 0}},
        hovertemplate="%{y}<extra></extra>",
    )
    if math.isfinite(among.threshold):
        _line(figure, among.threshold, top=top * 0.8, colour=GREY, dash="dash", width=2)
        _note(figure, among.threshold, y=top * 0.8, text=words["threshold"], centres=centres)
    if not math.isnan(among.position):
        _line(figure, among.position, top=top * 0.93, colour=RUST, dash="solid", width=3)
        _note(
            figure, among.position, y=top * 0.93, text=words["name"], centres=centres, is_bold=True
        )
    figure.update_xaxes(title=escaped(words["x"]), zeroline=False, showgrid=False)
    figure.update_yaxes(
        title=escaped(words["y"]), gridcolor=LINE, zeroline=False, range=[0, top * 1.08]
    )
    return _finished(figure, height=330)


def _line(figure: go.Figure, x: float, *, top: float, colour: str, dash: str, width: int) -> None:
    figure.add_scatter(
        x=[x, x],
        y=[0, top],
        mode="lines",
        line={"color": colour, "dash": dash, "width": width},
        hoverinfo="skip",
    )


def _note(
    figure: go.Figure,
    x: float,
    *,
    y: float,
    text: str,
    centres: Sequence[float],
    is_bold: bool = False,
) -> None:
    """Write beside a line, on the side where there is room."""
    is_right = x > (min(centres) + max(centres)) / 2
    figure.add_annotation(
        x=x,
        y=y,
        text=f"<b>{escaped(text)}</b>" if is_bold else escaped(text),
        showarrow=False,
        xanchor="right" if is_right else "left",
        xshift=-7 if is_right else 7,
        yanchor="bottom",
    )


def _log_tick(values: Sequence[float]) -> int:
    spread = math.log10(max(values)) - math.log10(min(values))
    return max(1, math.ceil(spread / _MAX_TICKS))


def _finished(figure: go.Figure, *, height: int) -> go.Figure:
    return figure.update_layout(
        height=height,
        margin={"l": 10, "r": 16, "t": 14, "b": 10},
        font={"size": 13},
        showlegend=False,
        bargap=0,
    )


N_DOCUMENTS = 3


def draw(say: Words, report: AuditReport, name: pd.Series, *, ids: list[float]) -> None:
    """Draw a name's detail: heading, charts, numbers, and the texts that it stands in or fits.

    `name` is its row of the table, `ids` are the names that the table shows.
    """
    inspection, scenario = cached.inspection(report.digest), report.scenario.number
    with st.container(key="names_detail"):
        draw_heading(say, name, ids=ids, digest=report.digest)
        if inspection is not None:
            left, right = st.columns(2, gap="large")
            with left:
                draw_blocks(say, inspection, row=int(name["name_id"]), scenario=scenario)
            with right:
                draw_among(say, name, inspection, report=report)
        else:
            st.html(
                blocks.heading(
                    say.text("names_no_inspection"), below=say.text("names_no_inspection_do")
                )
            )
        left, right = st.columns([2, 3], gap="large")
        with left:
            draw_numbers(say, name, report=report)
        with right:
            if scenario == 2:
                draw_passages(say, name, inspection, report=report)
            elif (view := cached.marked_documents(report.digest)) is not None:
                draw_documents(say, name, view=view, table=report.table)


def draw_heading(say: Words, name: pd.Series, *, ids: list[float], digest: str) -> None:
    """Draw the name with its decision, the way to its neighbours in the table, and its link."""
    shown = shown_name(name["first_name"], name["last_name"])
    title = say.text("names_one", number=name["number"], name=shown)
    kind, name_id = say.text(f"names_kind_{name['kind']}"), int(name["name_id"])
    decision = say.text(f"names_decision_is_{name['decision']}")
    if name["is_undecided"]:
        decision += say.text("names_is_close")
    st.html(blocks.heading(title, below=kind) + blocks.heading("", below=decision))
    place = ids.index(name_id) if name_id in ids else None
    before, after, copy = st.columns([1, 1, 4], vertical_alignment="center")
    for column, key, step in ((before, "names_previous", -1), (after, "names_next", 1)):
        to = -1 if place is None else place + step
        is_there = 0 <= to < len(ids)
        column.button(
            say.text(key),
            key=key,
            disabled=not is_there,
            width="stretch",
            on_click=_go_to,
            args=(f"{ids[to]:.0f}" if is_there else "",),
        )
    base = (st.context.url or "").rstrip("/").removesuffix("/names")
    with copy.popover(say.text("names_link_copy"), icon=":material/link:"):
        st.html(blocks.heading("", below=say.text("names_link_copy_below")))
        st.code(f"{base}/names?audit={digest[:12]}&name={name_id}", language=None)


def draw_blocks(say: Words, inspection: Inspection, *, row: int, scenario: int) -> None:
    """Draw both models' evidence by block."""
    evidence = {who: getattr(inspection, who)[:, row] for who in ("hospital", "general")}
    models = {
        who: (values.tolist(), block_mean(values, n_per_block=inspection.n_per_block))
        for who, values in evidence.items()
    }
    st.html(
        blocks.heading(
            say.text("names_blocks_title"), below=say.text(f"names_blocks_below_{scenario}")
        )
    )
    labels = {"hospital": say.text("column_hospital"), "general": say.text("column_general")}
    figure = block_strip(
        models,
        labels=labels,
        axis=say.text(f"names_blocks_axis_{scenario}"),
        is_share=scenario == 1,
    )
    alt = say.text("names_blocks_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="names_blocks")
    with st.expander(say.text("as_table")):
        rows = [
            (
                labels[who],
                str(len(values)),
                _exact(mean.value),
                f"{_exact(mean.low)} – {_exact(mean.high)}",
            )
            for who, (values, mean) in models.items()
        ]
        header = [say.text(f"names_blocks_{c}") for c in ("model", "n", "mean", "interval")]
        st.html(blocks.simple_table(header, rows, caption=alt))


def draw_among(say: Words, name: pd.Series, inspection: Inspection, *, report: AuditReport) -> None:
    """Draw the name's score among those of the reference controls."""
    among = among_controls(
        name["score"],
        threshold=name["threshold"],
        controls=inspection.reference_score[inspection.reference_n_pieces == name["n_pieces"]],
    )
    if among is None:
        st.html(blocks.heading(say.text("names_among_title"), below=say.text("names_among_none")))
        return
    if math.isnan(among.position):
        below = say.text("names_among_not_scored")
    else:
        of = "names_among_any_length" if name["is_unmatched"] else "names_among_same_length"
        below = say.text(
            of,
            k=among.below.n_hits,
            n=among.below.n_total,
            share=percent(among.below.value),
            n_pieces=int(name["n_pieces"]),
        )
    st.html(blocks.heading(say.text("names_among_title"), below=below))
    words = {
        "x": say.text(f"axis_{report.fixed_score}"),
        "y": say.text("names_among_y"),
        "name": name["number"],
        "threshold": say.text("names_among_threshold"),
    }
    figure = among_histogram(among, words=words)
    alt = say.text("names_among_alt")
    st.plotly_chart(figure, config=charts.CONFIG, alt=alt, key="names_among")
    with st.expander(say.text("as_table")):
        header = [say.text(f"names_among_{c}") for c in ("from", "to", "controls")]
        st.html(blocks.simple_table(header, _histogram_rows(among), caption=alt, n_text=0))


def _histogram_rows(among: AmongControls) -> list[tuple[str, str, str]]:
    edges = among.edges.tolist()
    return [
        (decimal(low), decimal(high), str(n))
        for (low, high), n in zip(pairwise(edges), among.counts.tolist(), strict=True)
        if n
    ]


def draw_numbers(say: Words, n: pd.Series, *, report: AuditReport) -> None:
    """Draw every number of the name with what it means."""
    interval = f"{_exact(n['low'])} – {_exact(n['high'])}"
    is_limited = not math.isinf(n["threshold"])
    values = {
        "score": _exact(n["score"]),
        "interval": interval,
        "threshold": _exact(n["threshold"]) if is_limited else say.text("names_no_threshold"),
        "p": decimal(n["p"], digits=4),
        "q": decimal(n["q"], digits=4),
        "hospital": small(n["hospital"]),
        "general": small(n["general"]),
        "log10_ratio": decimal(n["log10_ratio"], digits=2),
        "n_mentions": decimal(n["n_mentions"], digits=0),
        "popularity": small(n["popularity"]),
        "n_pieces": decimal(n["n_pieces"], digits=0),
    }
    if not is_revealed():
        del values["popularity"]  # it nearly is the name
    rows = []
    for key, value in values.items():
        meaning = say.text(
            f"names_evidence_{report.scenario.number}"
            if key in ("hospital", "general")
            else f"names_means_{key}"
        )
        title = blocks.Cell(say.text(f"names_column_{key}"), below=meaning, is_number=False)
        rows.append([title, blocks.Cell(value)])
    st.html(blocks.heading(say.text("names_numbers")))
    header = [[blocks.Cell(say.text("names_what"), is_number=False), blocks.Cell("")]]
    st.html(blocks.table(header, rows, caption=say.text(f"axis_{report.fixed_score}")))


def draw_passages(
    say: Words, name: pd.Series, inspection: Inspection | None, *, report: AuditReport
) -> None:
    """Draw the passages that the name fits best (scenario 2)."""
    st.html(
        blocks.heading(say.text("names_passages_title"), below=say.text("names_passages_below"))
    )
    row, found = int(name["name_id"]), []
    if inspection is not None:
        found = fitting_passages(
            inspection.passages,
            places=inspection.best_passages[row].tolist(),
            ratios=inspection.best_log_ratio[row].tolist(),
            name=name,
        )
    if not found:
        st.html(blocks.heading("", below=say.text("names_passages_none")))
        return
    shown = shown_name(name["first_name"], name["last_name"])
    slot = shown if is_revealed() else say.text("names_slot")
    linking = report.details.linking
    ranks = linking.rank_by_passage if linking else ()
    own = {str(one.passage_id): one.rank for one in ranks if one.name_id == row}
    items = "".join(_passage(say, one, slot=slot, kind=name["kind"], own=own) for one in found)
    st.html(f'<ul class="ka-passages">{items}</ul>')


def _passage(
    say: Words, fitting: FittingPassage, *, slot: str, kind: str, own: Mapping[str, float]
) -> str:
    passage = fitting.passage
    key = {True: "names_passage_own", False: "names_passage_other", None: "names_passage_unknown"}
    facts = say.text(
        key[fitting.is_own],
        ratio=decimal(fitting.log_ratio, digits=2),
        passage=shown_passage(passage.passage_id, number=fitting.place + 1),
    )
    if fitting.is_own and passage.passage_id in own:
        facts = f"{facts} {say.text('names_passage_rank', rank=f'{own[passage.passage_id]:g}')}"
    tone = "flagged" if fitting.is_own else "member" if kind in ASKED else "control"
    text = marks.with_slot(passage.left, slot=slot, after=passage.right, tone=tone)
    return f"<li><small>{escaped(facts)}</small><div>{text}</div></li>"


def draw_documents(say: Words, name: pd.Series, *, view: DocumentView, table: pd.DataFrame) -> None:
    """Draw the hospital model's documents that hold the name (scenario 1)."""
    name_id = int(name["name_id"])
    found = {who.who: holds_name(who, name_id=name_id) for who in view.models}
    counts = {who: int(held.sum()) for who, held in found.items()}
    below = say.text("names_documents_below", n=len(view), **counts)
    st.html(blocks.heading(say.text("names_documents_title"), below=below))
    items = []
    for number in found["hospital"].nonzero()[0][:N_DOCUMENTS].tolist():
        text = marks.marked(
            view.hospital.texts[number],
            marks=view.hospital.marks(number),
            label=lambda hit: mark_label(say, hit, table=table, wanted=name_id),
            is_revealed=is_revealed(),
        )
        title = escaped(say.text("names_document", number=number))
        items.append(f'<li><small>{title}</small><div class="ka-document">{text}</div></li>')
    st.html(f'<ul class="ka-passages">{"".join(items)}</ul>')
    if any(held.any() for held in found.values()):
        link("documents", label=say.text("names_documents_open"), has=str(name_id))


def _exact(value: float) -> str:
    return small(value) if abs(value) < 1 else decimal(value)


def _go_to(name_id: str) -> None:
    st.session_state["names_chosen"] = name_id
    st.session_state["names_version"] = st.session_state.get("names_version", 0) + 1
