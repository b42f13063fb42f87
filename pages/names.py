"""Names: whose names stand out, what does each score rest on, and where were they written?"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pandas as pd
import streamlit as st

from audit.report import name_table as listed
from audit.report.documents import holds_name
from audit.report.name_table import FACETS, Wish
from audit.report.report import AuditReport, Inspection, KeptAudit, select_compared_scores
from audit.tables import decimal, large, small
from audit.words import Words
from pages.ui import blocks, cached, name_documents, section
from pages.ui.access import format_name, format_passage_id, is_revealed, name_form
from pages.ui.blocks import Cell, escape_markdown, format_percent
from pages.ui.charts import Axis, Series, plot, point_series, spread_dots
from pages.ui.form import choose, choose_some, draw_button, draw_switch
from pages.ui.name_documents import marked_text, search, search_scope
from pages.ui.note_text import passage_html, passage_list
from pages.ui.place import draw_audit_page
from pages.ui.section import (
    Columns,
    Content,
    Table,
    draw_absence,
    draw_figure,
    draw_heading,
    draw_remark,
    draw_table,
    text_width,
)
from pages.ui.state import draw_link, write_parameter

ORDERS = dict.fromkeys(("p", "q", *listed.SUCCESSES, "name_id"), ("asc", "desc"))
"""What is read from the lowest on, unless the reader says otherwise; all else from the highest."""
COLUMNS = {
    "number": "",
    "name": "",
    "kind": "",
    "decision": "",
    "score": "%.3f",
    "q": "%.4f",
    "general": "%.1e",
    "hospital": "%.1e",
    "log10_ratio": "%.3f",
    "n_mentions": "%d",
    "tries_50": "",
    "tries_95": "",
    "p": "%.4f",
    "standard_error": "%.3f",
    "n_pieces": "%d",
    "popularity": "%.1e",
    "n_others_first": "%d",
    "n_others_last": "%d",
}
"""Columns of the table in order -> the format of their numbers."""
FIRST_COLUMNS = ("number", "name", "kind", "decision", "score", "q", "n_mentions")
"""Columns that fit every screen; a switch shows the others too."""
SORTS = (*(column for column, form in COLUMNS.items() if form), *listed.SUCCESSES, "name_id")
_OF_OTHERS = ("n_others_first", "n_others_last")
_OPTIONAL = (*_OF_OTHERS, *listed.SUCCESSES)
"""Columns that are empty in most audits."""
_N_DOCUMENTS = 3
_N_PASSAGES = 3
"""Texts that stand with a name at first."""
_NEARLY_THE_NAME = {column.name for column in listed.COLUMNS if "masked" not in column.forms}


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw the table of names, or the texts that the models have written or read."""
    texts = "documents" if audit.scenario == 1 else "passages"
    tabs = {"table": say.text("names_tab_table"), "documents": say.text(f"names_tab_{texts}")}
    tab, report = choose(say, "names_tab", tabs), cached.report(audit.digest)
    (name_documents.draw if tab == "documents" else draw_names)(say, report)


def draw_names(say: Words, report: AuditReport) -> None:
    """Draw the facets, the table, and the chosen name."""
    draw_remark(say, f"names_below_{report.fixed_score}")
    if report.verdict.is_of_todays_rule:
        st.html(blocks.heading("", below=report.verdict.condition(say.language)))
    wish = draw_wish(say, report.table)
    selected_names = listed.select_names(report.table, wish=wish)
    chosen = listed.find_row(report.table, st.query_params.get("name", ""))
    write_parameter("name", "" if chosen is None else f"{report.table['name_id'][chosen]:.0f}")
    ids = [f"{name_id:.0f}" for name_id in selected_names["name_id"]]
    if ids:
        draw_list(say, report, selected_names, ids=ids)
    else:
        is_hidden = wish.text.strip() and not (is_revealed() or listed.is_number(wish.text))
        draw_absence(say, "names_none_masked" if is_hidden else "names_none")
    if chosen is not None:
        draw_name(say, report, report.table.iloc[chosen], ids=ids)
    elif ids:
        draw_remark(say, "names_choose")
        draw_button(say, "names_first", on_click=lambda: write_parameter("name", ids[0]))


def draw_wish(say: Words, table: pd.DataFrame) -> Wish:
    """Draw search, order and the facets that divide this list, with counts of names."""
    left, middle, right = st.columns([2, 2, 3], gap="medium")
    with left:
        text = search(say, "names", f"names_search_{search_scope()}", example="P-0012")
    with middle:
        sorts = {code: say.text(f"names_column_{code}") for code in select_visible(SORTS, table)}
        sort = choose(say, "names_sort", sorts, is_long=True)
    orders, state = ORDERS.get(sort, ("desc", "asc")), st.session_state
    if state.setdefault("names_orders", orders) != orders:  # the default order is reversed
        state["names_orders"] = orders
        state.pop("choice_order", None)
    if st.query_params.get("order") == "turned":  # as old links say it
        write_parameter("order", orders[1])
    with right:
        order = choose(say, "names_order", orders)
    chosen = {}
    with st.container(horizontal=True, gap="medium"):
        for facet in FACETS:
            counts, words = table[facet].value_counts(), code_words(say, table, facet=facet)
            facet_names = {
                c: say.text("kind_n", kind=escape_markdown(w), n=counts[c])
                for c, w in words.items()
            }
            if len(facet_names) > 1:
                chosen[facet] = choose_some(say, f"names_facet_{facet}", facet_names)
    return Wish(chosen, text, sort, order == "desc", is_revealed())


def select_visible(columns: tuple[str, ...], table: pd.DataFrame) -> list[str]:
    """Return the columns that this person may see and that are not empty for this list.

    While names are masked, columns that almost tell the name are left out.
    """
    empty = {column for column in _OPTIONAL if table[column].isna().all()}
    informative_columns = [column for column in columns if column not in empty]
    return [c for c in informative_columns if is_revealed() or c not in _NEARLY_THE_NAME]


def code_words(say: Words, table: pd.DataFrame, *, facet: str) -> dict[str, str]:
    """Return a facet's codes that occur, in words; a role is untrusted text of the auditor."""

    def words(code: str) -> str:
        if facet == "role" and code != "none":
            return str(table["role_name"][table["role"] == code].iloc[0])
        if facet == "mentions" and code != "unknown":
            return code.replace("up", "+").replace("-", "–")
        return say.text(f"names_{facet}_of_{code}")

    return {code: words(code) for code in table[facet].cat.categories}


def draw_list(
    say: Words, report: AuditReport, selected_names: pd.DataFrame, *, ids: list[str]
) -> None:
    """Draw the table of selected names, and a button for the same rows as CSV."""
    columns, state = format_columns(say, report, selected_names), st.session_state
    name = st.query_params.get("name", "")
    if state.get("names_picked") != name:  # chosen elsewhere: redraw the table with it
        state["names_picked"], state["names_version"] = name, state.get("names_version", 0) + 1
    rows = zlib.crc32("".join(ids).encode())
    key = f"names_table_{state.get('names_version', 0)}_{rows:08x}"

    def store_selection() -> None:
        rows = [row for row, _ in state[key]["selection"]["cells"] if row < len(ids)]
        state["names_picked"] = ids[rows[0]] if rows else ""
        write_parameter("name", state["names_picked"])

    with st.container(horizontal=True, vertical_alignment="center"):
        draw_remark(say, "names_shown", k=len(selected_names), n=report.n_names)
        is_all = draw_switch(say, "names_all_columns", parameter="columns")
        section.draw_csv_button(
            say,
            "names",
            list(columns),
            zip(*columns.values(), strict=True),
            audit=report.digest,
            help=say.text("names_csv_help"),
            names=name_form(),
            n_names=len(selected_names),
        )
    chosen_cells = [(ids.index(name), "number")] if name in ids else []
    with st.container(key="names_table"):
        st.dataframe(
            columns,
            column_config=column_config(say, report, columns),
            column_order=list(columns if is_all else FIRST_COLUMNS),
            hide_index=True,
            height=320,
            key=key,
            on_select=store_selection,
            selection_mode="single-cell",
            selection_default={"selection": {"cells": chosen_cells}},
            alt=say.text("names_table_alt"),
        )


def format_columns(say: Words, report: AuditReport, selected_names: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of the table as the screen shows them, with one type for each column."""
    names = cached.format_names(report.digest, is_revealed=is_revealed())
    columns: dict[str, Any] = {
        "number": list(selected_names["number"]),
        "name": [names[row] for row in selected_names.index],
    }
    for facet in ("kind", "decision"):
        columns[facet] = list(selected_names[facet].map(code_words(say, report.table, facet=facet)))
    for column in ("n_mentions", "n_pieces", *_OF_OTHERS):  # None stands for an unknown count
        columns[column] = [None if math.isnan(n) else int(n) for n in selected_names[column]]
    for column in listed.SUCCESSES:
        columns[column] = [format_tries(say, n) for n in selected_names[column]]
    visible_columns = select_visible(tuple(COLUMNS), report.table)
    return {
        c: columns[c] if c in columns else selected_names[c].to_numpy() for c in visible_columns
    }


def format_tries(say: Words, n: float) -> str:
    """Return a number of tries in words; infinity is no number of tries."""
    if math.isnan(n):
        return ""
    return say.text("names_tries_never") if math.isinf(n) else large(n)


def column_config(say: Words, report: AuditReport, columns: dict[str, Any]) -> dict[str, Any]:
    """Return titles, meanings, number formats and, of texts, widths of the columns."""
    config: dict[str, Any] = {}
    is_tiny = {"score", "standard_error"} if report.fixed_score == "product" else set()
    for column, form in COLUMNS.items():
        title = say.text(f"names_column_{column}")
        meaning = say.sentences.get(meaning_of(column, attack=report.attack))
        if not form:
            width = text_width([title, *columns.get(column, ())])
            is_pinned = column == "number"
            config[column] = st.column_config.TextColumn(
                title, width=width, pinned=is_pinned, help=meaning
            )
            continue
        config[column] = st.column_config.NumberColumn(
            title, format="%.1e" if column in is_tiny else form, help=meaning
        )
    return config


# One name: the basis of its score, the meaning of each number, and its texts.


def meaning_of(column: str, *, attack: str) -> str:
    """Return the key of the sentence that explains a column."""
    is_evidence = column in ("hospital", "general")
    return f"names_evidence_{attack}" if is_evidence else f"names_means_{column}"


def draw_name(say: Words, report: AuditReport, name: pd.Series, *, ids: list[str]) -> None:
    """Draw a name's charts, its numbers, and the texts that hold it or that it fits.

    `name` is its row of the table, `ids` are the names that the table shows.
    """
    inspection = cached.inspection(report.digest)
    with st.container(key="names_detail"):
        draw_name_heading(say, name, ids=ids, digest=report.digest)
        if inspection is None:
            draw_absence(say, "names_no_inspection")
        else:
            left, right = st.columns(2, gap="large")
            with left:
                draw_blocks(say, report, inspection, row=int(name["name_id"]))
            with right:
                draw_among_controls(say, report, name, inspection)
        left, right = st.columns([2, 3], gap="large")
        with left:
            draw_tries(say, name, report=report)
            draw_numbers(say, name, report=report)
        with right:
            if report.scenario.number == 2:
                draw_passages(say, report, name, inspection)
            else:
                draw_documents(say, report, name_id=int(name["name_id"]))


def draw_name_heading(say: Words, name: pd.Series, *, ids: list[str], digest: str) -> None:
    """Draw the name with its decision, the steps to its neighbours in the table, and its link."""
    name_id = f"{name['name_id']:.0f}"
    draw_heading(
        say,
        "names_one",
        number=name["number"],
        name=format_name(name["first_name"], name["last_name"]),
        kind=say.text(f"names_is_{name['kind']}"),
        decision=say.text(f"names_is_{name['decision']}"),
        close=say.text("names_is_close") if name["is_undecided"] else "",
    )
    place = ids.index(name_id) if name_id in ids else -1
    with st.container(horizontal=True, vertical_alignment="center"):
        for key, to in (("names_previous", place - 1), ("names_next", place + 1)):
            is_there = place >= 0 and 0 <= to < len(ids)
            other_id = ids[to] if is_there else ""
            draw_button(
                say,
                key,
                is_disabled=not is_there,
                on_click=partial(write_parameter, "name", other_id),
            )
        base = (st.context.url or "").rstrip("/").removesuffix("/names")
        with st.popover(say.text("names_link_copy"), icon=":material/link:"):
            draw_remark(say, "names_link_copy_below")
            st.code(f"{base}/names?audit={digest[:12]}&name={name_id}", language=None)


def draw_blocks(say: Words, report: AuditReport, inspection: Inspection, *, row: int) -> None:
    """Draw both models' evidence with one dot for each block, and the mean."""
    key = f"names_blocks_{report.attack}"
    series: list[Series] = []
    rows: list[Sequence[Content]] = []
    ticks: dict[float, str] = {}
    for place, model in enumerate(("hospital", "general")):
        evidence = getattr(inspection, model)[:, row]
        mean = listed.block_mean(evidence, n_per_block=inspection.n_per_block)
        title = ticks[float(place)] = say.text(f"column_{model}")
        is_attack, hover = place == 0, "%{y:.4g}"
        dots = [place + offset for offset in spread_dots(len(evidence))]
        curves = (
            Series(title, dots, evidence.tolist(), form="dots", hover=hover, is_attack=is_attack),
            point_series(
                title, [place], [mean], symbol="diamond", hover=hover, is_attack=is_attack
            ),
        )
        series += (replace(curve, has_legend=False) for curve in curves)
        rows.append((title, len(evidence), _exact(mean.value), _interval(mean.low, mean.high)))
    # Products of masses span powers of ten; a logarithmic axis cannot show zero.
    are_positive = all(y is None or y > 0 for curve in series for y in curve.y)
    is_log = report.scenario.number == 1 and are_positive
    x = Axis("", range=(-0.6, 1.6), ticks=ticks, has_grid=False)
    chart = plot(series, x=x, y=Axis(say.text(f"{key}_axis"), is_log=is_log), height=340)
    header = [f"names_blocks_{column}" for column in ("model", "n", "mean", "interval")]
    draw_heading(say, key)
    draw_figure(say, key, chart, table=Table(header, rows), audit=report.digest)


def draw_among_controls(
    say: Words, report: AuditReport, name: pd.Series, inspection: Inspection
) -> None:
    """Draw the name's score among the scores of the controls that define its p-value."""
    distribution = listed.place_among_controls(
        name["score"],
        threshold=name["threshold"],
        controls=select_compared_scores(report, inspection, row=int(name["name_id"])),
    )
    if distribution is None:
        draw_heading(say, "names_among", below="names_among_none")
        return
    matching = "any_length" if name["is_unmatched"] else "same_length"
    draw_heading(
        say,
        "names_among",
        below=f"names_among_{'not_scored' if math.isnan(distribution.position) else matching}",
        k=f"{distribution.below.n_hits:,}",
        n=f"{distribution.below.n_total:,}",
        share=format_percent(distribution.below.value),
        n_pieces=f"{name['n_pieces']:.0f}",
    )
    edges, counts = distribution.edges.tolist(), distribution.counts.tolist()
    controls, x = say.text("names_among_y"), Axis(say.text(f"axis_{report.fixed_score}"))
    middles = [(low + high) / 2 for low, high in pairwise(edges)]
    series = [Series(controls, middles, counts, form="bars", hover="%{y}")]
    for label, position in (
        (say.text("names_among_threshold"), distribution.threshold),
        (name["number"], distribution.position),
    ):
        if math.isfinite(position):
            top, is_own = [0.0, 1.1 * max(*counts, 1)], label == name["number"]
            series.append(Series(label, [position, position], top, is_attack=is_own, hover=""))
    chart = plot(series, x=x, y=Axis(controls), height=310)
    bins = zip(pairwise(edges), counts, strict=True)
    rows = [(decimal(low), decimal(high), n) for (low, high), n in bins if n]
    table = Table(("from", "to", "controls"), rows)
    draw_figure(say, "names_among", chart, table=table, audit=report.digest)


def draw_tries(say: Words, name: pd.Series, *, report: AuditReport) -> None:
    """Draw how many documents it takes to read the name in; nothing without causal documents."""
    tries = listed.list_tries(report.table, name)
    if not tries:
        return
    draw_heading(say, "names_tries")
    numbers = {
        f"names_column_{column}": [
            format_tries(say, model_tries.numbers[column]) for model_tries in tries
        ]
        for column in listed.SUCCESSES
    }
    columns: Columns = {
        "names_tries_who": [say.text(f"names_tries_{model_tries.source}") for model_tries in tries],
        **numbers,
    }
    draw_table(say, "names_tries", columns, audit=report.digest, names=name_form())


def draw_numbers(say: Words, name: pd.Series, *, report: AuditReport) -> None:
    """Draw every number of the name with its meaning."""
    is_limited = not math.isinf(name["threshold"])
    numbers = {
        "score": _exact(name["score"]),
        "interval": _interval(name["low"], name["high"]),
        "threshold": _exact(name["threshold"]) if is_limited else say.text("names_no_threshold"),
        "p": small(name["p"]),
        "q": decimal(name["q"], digits=4),
        "hospital": small(name["hospital"]),
        "general": small(name["general"]),
        "log10_ratio": decimal(name["log10_ratio"], digits=2),
        "n_mentions": decimal(name["n_mentions"], digits=0),
        "popularity": small(name["popularity"]),
        "n_pieces": decimal(name["n_pieces"], digits=0),
        **{column: decimal(name[column], digits=0) for column in _OF_OTHERS if name[column] >= 0},
    }
    if not is_revealed():
        del numbers["popularity"]  # it almost tells the name
    means = {key: meaning_of(key, attack=report.attack) for key in numbers}
    labels = [Cell(say.text(f"names_column_{key}"), hint=say.text(means[key])) for key in numbers]
    draw_heading(say, "names_numbers")
    caption = say.text(f"axis_{report.fixed_score}")
    columns: Columns = {"names_what": labels, "value": list(numbers.values())}
    draw_table(
        say, "names_numbers", columns, caption=caption, audit=report.digest, names=name_form()
    )


def draw_passages(
    say: Words, report: AuditReport, name: pd.Series, inspection: Inspection | None
) -> None:
    """Draw the passages that the name fits best, with the rank of its own passage (scenario 2)."""
    draw_heading(say, "names_passages")
    row, matches = int(name["name_id"]), []
    if inspection is not None:
        matches = listed.list_fitting_passages(
            inspection.passages,
            places=inspection.best_passages[row].tolist(),
            ratios=inspection.best_log_ratio[row].tolist(),
            name=name,
        )
    if not matches:
        draw_remark(say, "names_passages_none")
        return
    name_text = format_name(name["first_name"], name["last_name"])
    slot = name_text if is_revealed() else say.text("names_slot")
    linking = report.details.linking
    ranks = {
        str(ranking.passage_id): f"{ranking.rank:g}"
        for ranking in (linking.rank_by_passage if linking else ())
        if ranking.name_id == row
    }
    tone = "member" if name["kind"] in listed.ASKED else "control"
    names, citations = cached.name_finder(report.digest), []
    for match in matches:
        passage_id = match.passage.passage_id
        whose = "unknown" if match.is_own is None else "own" if match.is_own else "other"
        passage_name = format_passage_id(passage_id, number=match.place + 1)
        ratio = decimal(match.log_ratio, digits=2)
        facts = say.text(f"names_passage_{whose}", ratio=ratio, passage=passage_name)
        if match.is_own and passage_id in ranks:
            facts += " " + say.text("names_passage_rank", rank=ranks[passage_id])
        own_tone = "flagged" if match.is_own else tone
        citations.append(
            (facts, passage_html(match.passage, names=names, slot=slot, tone=own_tone))
        )
    st.html(passage_list(citations[:_N_PASSAGES]))
    if rest := citations[_N_PASSAGES:]:
        with st.expander(say.text("names_passages_more"), key="names_passages_more"):
            st.html(passage_list(rest))


def draw_documents(say: Words, report: AuditReport, *, name_id: int) -> None:
    """Draw the hospital model's documents that hold the name (scenario 1)."""
    view = cached.marked_documents(report.digest)
    if view is None:
        return
    holds_by_model = {model.role: holds_name(model, name_id=name_id) for model in view.models}
    counts: dict[str, Any] = {model: int(has.sum()) for model, has in holds_by_model.items()}
    draw_heading(say, "names_documents", n=len(view), **counts)
    citations = []
    for number in holds_by_model["hospital"].nonzero()[0][:_N_DOCUMENTS].tolist():
        text = marked_text(say, report.table, view, view.hospital, number=number, wished_id=name_id)
        citations.append((say.text("names_document", number=number), text))
    st.html(passage_list(citations))
    if any(counts.values()):
        label = say.text("names_documents_open")
        draw_link("names", label=label, tab="documents", has=str(name_id))


def _exact(number: float) -> str:
    return small(number) if abs(number) < 1 else decimal(number)


def _interval(low: float, high: float) -> str:
    return f"{_exact(low)} – {_exact(high)}"


draw_audit_page("names", draw)
