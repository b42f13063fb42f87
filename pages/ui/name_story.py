"""One name's whole story: what its score rests on, what each number means, and where it stands."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import pandas as pd
import streamlit as st

from audit.report.documents import holds_name
from audit.report.names import ASKED, among_controls, block_mean, fitting_passages
from audit.report.report import AuditReport, Inspection
from audit.tables import decimal, small
from pages.ui import blocks, cached
from pages.ui.access import is_revealed, shown_name, shown_passage
from pages.ui.blocks import percent
from pages.ui.charts import Axis, Series, plot, points, spread
from pages.ui.form import act
from pages.ui.name_documents import marked_text
from pages.ui.section import Cell, Table, draw_table, empty, figure, head, remark
from pages.ui.state import Words, link, write

N_DOCUMENTS = 3


def meaning_of(column: str, *, scenario: int) -> str:
    """Return the key of the sentence that says what a number means."""
    is_evidence = column in ("hospital", "general")
    return f"names_evidence_{scenario}" if is_evidence else f"names_means_{column}"


def draw(say: Words, report: AuditReport, name: pd.Series, *, ids: list[str]) -> None:
    """Draw a name's charts, its numbers, and the texts that it stands in or fits.

    `name` is its row of the table, `ids` are the names that the table shows.
    """
    inspection = cached.inspection(report.digest)
    with st.container(key="names_detail"):
        draw_heading(say, name, ids=ids, digest=report.digest)
        if inspection is None:
            empty(say, "names_no_inspection")
        else:
            left, right = st.columns(2, gap="large")
            with left:
                draw_blocks(say, report, inspection, row=int(name["name_id"]))
            with right:
                draw_among(say, report, name, inspection)
        left, right = st.columns([2, 3], gap="large")
        with left:
            draw_numbers(say, name, report=report)
        with right:
            if report.scenario.number == 2:
                draw_passages(say, report, name, inspection)
            else:
                draw_documents(say, report, name_id=int(name["name_id"]))


def draw_heading(say: Words, name: pd.Series, *, ids: list[str], digest: str) -> None:
    """Draw the name with its decision, the way to its neighbours in the table, and its link."""
    name_id = f"{name['name_id']:.0f}"
    head(
        say, "names_one", number=name["number"],
        name=shown_name(name["first_name"], name["last_name"]),
        kind=say.text(f"names_is_{name['kind']}"),
        decision=say.text(f"names_is_{name['decision']}"),
        close=say.text("names_is_close") if name["is_undecided"] else "",
    )  # fmt: skip
    place = ids.index(name_id) if name_id in ids else -1
    with st.container(horizontal=True, vertical_alignment="center"):
        for key, to in (("names_previous", place - 1), ("names_next", place + 1)):
            is_there = place >= 0 and 0 <= to < len(ids)
            other = ids[to] if is_there else ""
            act(say, key, is_disabled=not is_there, on_click=partial(write, "name", other))
        base = (st.context.url or "").rstrip("/").removesuffix("/names")
        with st.popover(say.text("names_link_copy"), icon=":material/link:"):
            remark(say, "names_link_copy_below")
            st.code(f"{base}/names?audit={digest[:12]}&name={name_id}", language=None)


def draw_blocks(say: Words, report: AuditReport, inspection: Inspection, *, row: int) -> None:
    """Draw both models' evidence by block, a dot a block, with the mean of all."""
    key, series, rows, ticks = f"names_blocks_{report.scenario.number}", [], [], {}
    for place, who in enumerate(("hospital", "general")):
        values = getattr(inspection, who)[:, row]
        mean = block_mean(values, n_per_block=inspection.n_per_block)
        ticks[float(place)] = say.text(f"column_{who}")
        looks = {"is_attack": place == 0, "has_legend": False, "hover": "%{y:.4g}"}
        dots = [place + beside for beside in spread(len(values))]
        series += [
            Series(ticks[place], dots, values.tolist(), form="dots", **looks),
            points(ticks[place], [place], [mean], symbol="diamond", **looks),
        ]
        rows.append((ticks[place], len(values), _exact(mean.value), _interval(mean.low, mean.high)))
    # Products of masses span powers of ten; a zero has no place there.
    is_log = report.scenario.number == 1 and min(min(one.y) for one in series) > 0
    x = Axis("", range=(-0.6, 1.6), ticks=ticks, has_grid=False)
    chart = plot(series, x=x, y=Axis(say.text(f"{key}_axis"), is_log=is_log), height=340)
    header = [f"names_blocks_{column}" for column in ("model", "n", "mean", "interval")]
    head(say, key)
    figure(say, key, chart, table=Table(header, rows), audit=report.digest)


def draw_among(say: Words, report: AuditReport, name: pd.Series, inspection: Inspection) -> None:
    """Draw the name's score among those of the reference controls."""
    among = among_controls(
        name["score"],
        threshold=name["threshold"],
        controls=inspection.reference_score[inspection.reference_n_pieces == name["n_pieces"]],
    )
    if among is None:
        head(say, "names_among", below="names_among_none")
        return
    of = "any_length" if name["is_unmatched"] else "same_length"
    head(
        say, "names_among",
        below=f"names_among_{'not_scored' if math.isnan(among.position) else of}",
        k=among.below.n_hits, n=among.below.n_total, share=percent(among.below.value),
        n_pieces=f"{name['n_pieces']:.0f}",
    )  # fmt: skip
    edges, counts = among.edges.tolist(), among.counts.tolist()
    controls, x = say.text("names_among_y"), Axis(say.text(f"axis_{report.fixed_score}"))
    middles = [(one + two) / 2 for one, two in pairwise(edges)]
    series = [Series(controls, middles, counts, form="bars", hover="%{y}")]
    for what, at in (
        (say.text("names_among_threshold"), among.threshold), (name["number"], among.position),
    ):  # fmt: skip
        if math.isfinite(at):
            top, is_own = [0.0, 1.1 * max(*counts, 1)], what == name["number"]
            series.append(Series(what, [at, at], top, is_attack=is_own, hover=""))
    chart = plot(series, x=x, y=Axis(controls), height=310)
    bins = zip(pairwise(edges), counts, strict=True)
    rows = [(decimal(low), decimal(high), n) for (low, high), n in bins if n]
    table = Table(("from", "to", "controls"), rows)
    figure(say, "names_among", chart, table=table, audit=report.digest)


def draw_numbers(say: Words, name: pd.Series, *, report: AuditReport) -> None:
    """Draw every number of the name with what it means."""
    is_limited = not math.isinf(name["threshold"])
    values = {
        "score": _exact(name["score"]),
        "interval": _interval(name["low"], name["high"]),
        "threshold": _exact(name["threshold"]) if is_limited else say.text("names_no_threshold"),
        "p": decimal(name["p"], digits=4),
        "q": decimal(name["q"], digits=4),
        "hospital": small(name["hospital"]),
        "general": small(name["general"]),
        "log10_ratio": decimal(name["log10_ratio"], digits=2),
        "n_mentions": decimal(name["n_mentions"], digits=0),
        "popularity": small(name["popularity"]),
        "n_pieces": decimal(name["n_pieces"], digits=0),
    }
    if not is_revealed():
        del values["popularity"]  # it nearly is the name
    means = {key: meaning_of(key, scenario=report.scenario.number) for key in values}
    what = [Cell(say.text(f"names_column_{key}"), below=say.text(means[key])) for key in values]
    head(say, "names_numbers")
    caption = say.text(f"axis_{report.fixed_score}")
    columns = {"names_what": what, "value": list(values.values())}
    draw_table(say, "names_numbers", columns, caption=caption, audit=report.digest)


def draw_passages(
    say: Words, report: AuditReport, name: pd.Series, inspection: Inspection | None
) -> None:
    """Draw the passages that the name fits best, with the rank of its own one (scenario 2)."""
    head(say, "names_passages")
    row, found = int(name["name_id"]), []
    if inspection is not None:
        found = fitting_passages(
            inspection.passages,
            places=inspection.best_passages[row].tolist(),
            ratios=inspection.best_log_ratio[row].tolist(),
            name=name,
        )
    if not found:
        remark(say, "names_passages_none")
        return
    shown = shown_name(name["first_name"], name["last_name"])
    slot = shown if is_revealed() else say.text("names_slot")
    linking = report.details.linking
    ranks = {
        str(one.passage_id): f"{one.rank:g}"
        for one in (linking.rank_by_passage if linking else ())
        if one.name_id == row
    }
    tone = "member" if name["kind"] in ASKED else "control"
    items = []
    for one in found:
        passage_id = one.passage.passage_id
        whose = "unknown" if one.is_own is None else "own" if one.is_own else "other"
        called = shown_passage(passage_id, number=one.place + 1)
        ratio = decimal(one.log_ratio, digits=2)
        facts = say.text(f"names_passage_{whose}", ratio=ratio, passage=called)
        if one.is_own and passage_id in ranks:
            facts += " " + say.text("names_passage_rank", rank=ranks[passage_id])
        how = {"slot": slot, "after": one.passage.right, "tone": "flagged" if one.is_own else tone}
        items.append((facts, blocks.with_slot(one.passage.left, **how)))
    st.html(blocks.cited(items))


def draw_documents(say: Words, report: AuditReport, *, name_id: int) -> None:
    """Draw the hospital model's documents that hold the name (scenario 1)."""
    view = cached.marked_documents(report.digest)
    if view is None:
        return
    found = {model.who: holds_name(model, name_id=name_id) for model in view.models}
    counts = {who: int(has.sum()) for who, has in found.items()}
    head(say, "names_documents", n=len(view), **counts)
    items = []
    for number in found["hospital"].nonzero()[0][:N_DOCUMENTS].tolist():
        text = marked_text(say, report.table, view.hospital, number=number, wanted=name_id)
        items.append((say.text("names_document", number=number), text))
    st.html(blocks.cited(items))
    if any(counts.values()):
        label = say.text("names_documents_open")
        link("names", label=label, tab="documents", has=str(name_id))


def _exact(value: float) -> str:
    return small(value) if abs(value) < 1 else decimal(value)


def _interval(low: float, high: float) -> str:
    return f"{_exact(low)} – {_exact(high)}"
