"""Names: whose names stand out, what does each score rest on, and where were they written?"""

from __future__ import annotations

import math
import zlib
from functools import partial
from itertools import pairwise
from typing import Any

import pandas as pd
import streamlit as st

from audit.report import name_table as listed
from audit.report.documents import holds_name
from audit.report.name_table import FACETS, Wish
from audit.report.report import AuditReport, Inspection, KeptAudit, select_compared_scores
from audit.tables import decimal, small
from pages.ui import blocks, cached, name_documents, section
from pages.ui.access import is_revealed, names_in_files, shown_name, shown_passage
from pages.ui.blocks import percent, plain
from pages.ui.charts import Axis, Series, plot, points, spread
from pages.ui.form import act, choose, choose_some
from pages.ui.name_documents import looks_at, marked_text, search
from pages.ui.note_text import cited, passage_html
from pages.ui.section import Cell, Table, draw_table, empty, figure, head, remark
from pages.ui.state import Words, link, write

ORDERS = dict.fromkeys(("p", "q", "name_id"), ("asc", "desc"))
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
    "p": "%.4f",
    "standard_error": "%.3f",
    "n_pieces": "%d",
    "popularity": "%.1e",
    "n_others_first": "%d",
    "n_others_last": "%d",
}
"""Columns of the table in their order, and how a number stands in them."""
SORTS = (*(column for column, form in COLUMNS.items() if form), "name_id")
_OF_OTHERS = ("n_others_first", "n_others_last")
"""Columns that most lists say nothing in."""
_N_DOCUMENTS = 3
_NEARLY_THE_NAME = {one.name for one in listed.COLUMNS if "masked" not in one.forms}


def draw(say: Words, audit: KeptAudit) -> None:
    """Draw the table of names, or what the models have written or read."""
    texts = "documents" if audit.scenario == 1 else "passages"
    tabs = {"table": say.text("names_tab_table"), "documents": say.text(f"names_tab_{texts}")}
    tab, report = choose(say, "names_tab", tabs), cached.report(audit.digest)
    (name_documents.draw if tab == "documents" else draw_names)(say, report)


def draw_names(say: Words, report: AuditReport) -> None:
    """Draw facets and table, and the chosen name under them."""
    remark(say, f"names_below_{report.fixed_score}")
    if report.verdict.is_of_todays_rule:
        st.html(blocks.heading("", below=report.verdict.condition(say.language)))
    wish = draw_wish(say, report.table)
    found = listed.select_names(report.table, wish=wish)
    chosen = listed.find_row(report.table, st.query_params.get("name", ""))
    write("name", "" if chosen is None else f"{report.table['name_id'][chosen]:.0f}")
    ids = [f"{name_id:.0f}" for name_id in found["name_id"]]
    if ids:
        draw_list(say, report, found, ids=ids)
    else:
        is_hidden = wish.text.strip() and not (is_revealed() or listed.is_number(wish.text))
        empty(say, "names_none_masked" if is_hidden else "names_none")
    if chosen is not None:
        draw_name(say, report, report.table.loc[chosen], ids=ids)
    elif ids:
        remark(say, "names_choose")
        act(say, "names_first", on_click=lambda: write("name", ids[0]))


def draw_wish(say: Words, table: pd.DataFrame) -> Wish:
    """Draw search, sort and the facets that divide this list, each choice with its names."""
    left, middle, right = st.columns([2, 2, 3], gap="medium")
    with left:
        text = search(say, "names", f"names_search_{looks_at()}", example="P-0012")
    with middle:
        sorts = {code: say.text(f"names_column_{code}") for code in open_to_see(SORTS, table)}
        sort = choose(say, "names_sort", sorts, is_long=True)
    orders, state = ORDERS.get(sort, ("desc", "asc")), st.session_state
    if state.setdefault("names_orders", orders) != orders:  # this column is read the other way
        state["names_orders"] = orders
        state.pop("choice_order", None)
    if st.query_params.get("order") == "turned":  # as links of before say it
        write("order", orders[1])
    with right:
        order = choose(say, "names_order", orders)
    chosen = {}
    with st.container(horizontal=True, gap="medium"):
        for facet in FACETS:
            counts, words = table[facet].value_counts(), code_words(say, table, facet=facet)
            shown = {c: say.text("kind_n", kind=plain(w), n=counts[c]) for c, w in words.items()}
            if len(shown) > 1:
                chosen[facet] = choose_some(say, f"names_facet_{facet}", shown)
    return Wish(chosen, text, sort, order == "desc", is_revealed())


def open_to_see(columns: tuple[str, ...], table: pd.DataFrame) -> list[str]:
    """Return those columns that a reader may see and that say something of this list.

    Masked names take some with them.
    """
    empty = {column for column in _OF_OTHERS if table[column].isna().all()}
    shown = [column for column in columns if column not in empty]
    return [c for c in shown if is_revealed() or c not in _NEARLY_THE_NAME]


def code_words(say: Words, table: pd.DataFrame, *, facet: str) -> dict[str, str]:
    """Return a facet's codes that occur, in words; a role is the auditor's own and untrusted."""

    def words(code: str) -> str:
        if facet == "role" and code != "none":
            return str(table["role_name"][table["role"] == code].iloc[0])
        if facet == "mentions" and code != "unknown":
            return code.replace("up", "+").replace("-", "–")
        return say.text(f"names_{facet}_of_{code}")

    return {code: words(code) for code in table[facet].cat.categories}


def draw_list(say: Words, report: AuditReport, found: pd.DataFrame, *, ids: list[str]) -> None:
    """Draw the names that fit, and a button that hands out the same as CSV."""
    columns, state = shown_columns(say, report, found), st.session_state
    name = st.query_params.get("name", "")
    if state.get("names_picked") != name:  # chosen elsewhere: the table is drawn anew with it
        state["names_picked"], state["names_version"] = name, state.get("names_version", 0) + 1
    rows = zlib.crc32("".join(ids).encode())
    key = f"names_table_{state.get('names_version', 0)}_{rows:08x}"

    def picked() -> None:
        rows = [row for row in state[key]["selection"]["rows"] if row < len(ids)]
        state["names_picked"] = ids[rows[0]] if rows else ""
        write("name", state["names_picked"])

    with st.container(horizontal=True, vertical_alignment="center"):
        remark(say, "names_shown", k=len(found), n=report.n_names)
        section.csv_button(
            say,
            "names",
            list(columns),
            zip(*columns.values(), strict=True),
            audit=report.digest,
            label="names_csv",
            names=names_in_files(),
            n_names=len(found),
        )
    with st.container(key="names_table"):
        st.dataframe(
            columns,
            column_config=column_config(say, report),
            hide_index=True,
            height=320,
            key=key,
            on_select=picked,
            selection_mode="single-row",
            selection_default={"selection": {"rows": [ids.index(name)] if name in ids else []}},
            alt=say.text("names_table_alt"),
        )


def shown_columns(say: Words, report: AuditReport, found: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of the table as the screen shows them, one type a column."""
    names = cached.shown_names(report.digest, is_revealed=is_revealed())
    columns: dict[str, Any] = {"name": [names[row] for row in found.index]}
    for facet in ("kind", "decision"):
        columns[facet] = list(found[facet].map(code_words(say, report.table, facet=facet)))
    for column in ("n_mentions", "n_pieces", *_OF_OTHERS):  # None where a count is not known
        columns[column] = [None if math.isnan(n) else int(n) for n in found[column]]
    shown = open_to_see(tuple(COLUMNS), report.table)
    return {c: columns[c] if c in columns else found[c].to_numpy() for c in shown}


def column_config(say: Words, report: AuditReport) -> dict[str, Any]:
    """Return titles, meanings and number formats of the columns."""
    config: dict[str, Any] = {}
    is_tiny = {"score", "standard_error"} if report.fixed_score == "product" else set()
    for column, form in COLUMNS.items():
        title = say.text(f"names_column_{column}")
        meaning = say.sentences.get(meaning_of(column, scenario=report.scenario.number))
        if not form:
            config[column] = st.column_config.TextColumn(title, pinned=column == "number")
            continue
        config[column] = st.column_config.NumberColumn(
            title, format="%.1e" if column in is_tiny else form, help=meaning
        )
    return config


# One name's whole story: what its score rests on, what each number means, where it stands.


def meaning_of(column: str, *, scenario: int) -> str:
    """Return the key of the sentence that says what a number means."""
    is_evidence = column in ("hospital", "general")
    return f"names_evidence_{scenario}" if is_evidence else f"names_means_{column}"


def draw_name(say: Words, report: AuditReport, name: pd.Series, *, ids: list[str]) -> None:
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
        say,
        "names_one",
        number=name["number"],
        name=shown_name(name["first_name"], name["last_name"]),
        kind=say.text(f"names_is_{name['kind']}"),
        decision=say.text(f"names_is_{name['decision']}"),
        close=say.text("names_is_close") if name["is_undecided"] else "",
    )
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
        mean = listed.block_mean(values, n_per_block=inspection.n_per_block)
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
    """Draw the name's score among those of the controls that its p-value compares it with."""
    among = listed.place_among_controls(
        name["score"],
        threshold=name["threshold"],
        controls=select_compared_scores(report, inspection, row=int(name["name_id"])),
    )
    if among is None:
        head(say, "names_among", below="names_among_none")
        return
    of = "any_length" if name["is_unmatched"] else "same_length"
    head(
        say,
        "names_among",
        below=f"names_among_{'not_scored' if math.isnan(among.position) else of}",
        k=among.below.n_hits,
        n=among.below.n_total,
        share=percent(among.below.value),
        n_pieces=f"{name['n_pieces']:.0f}",
    )
    edges, counts = among.edges.tolist(), among.counts.tolist()
    controls, x = say.text("names_among_y"), Axis(say.text(f"axis_{report.fixed_score}"))
    middles = [(one + two) / 2 for one, two in pairwise(edges)]
    series = [Series(controls, middles, counts, form="bars", hover="%{y}")]
    for what, at in (
        (say.text("names_among_threshold"), among.threshold),
        (name["number"], among.position),
    ):
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
        **{column: decimal(name[column], digits=0) for column in _OF_OTHERS if name[column] >= 0},
    }
    if not is_revealed():
        del values["popularity"]  # it nearly is the name
    means = {key: meaning_of(key, scenario=report.scenario.number) for key in values}
    what = [Cell(say.text(f"names_column_{key}"), below=say.text(means[key])) for key in values]
    head(say, "names_numbers")
    caption = say.text(f"axis_{report.fixed_score}")
    columns = {"names_what": what, "value": list(values.values())}
    draw_table(
        say, "names_numbers", columns, caption=caption, audit=report.digest, names=names_in_files()
    )


def draw_passages(
    say: Words, report: AuditReport, name: pd.Series, inspection: Inspection | None
) -> None:
    """Draw the passages that the name fits best, with the rank of its own one (scenario 2)."""
    head(say, "names_passages")
    row, found = int(name["name_id"]), []
    if inspection is not None:
        found = listed.list_fitting_passages(
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
    tone = "member" if name["kind"] in listed.ASKED else "control"
    names, items = cached.name_finder(report.digest), []
    for one in found:
        passage_id = one.passage.passage_id
        whose = "unknown" if one.is_own is None else "own" if one.is_own else "other"
        called = shown_passage(passage_id, number=one.place + 1)
        ratio = decimal(one.log_ratio, digits=2)
        facts = say.text(f"names_passage_{whose}", ratio=ratio, passage=called)
        if one.is_own and passage_id in ranks:
            facts += " " + say.text("names_passage_rank", rank=ranks[passage_id])
        own_tone = "flagged" if one.is_own else tone
        items.append((facts, passage_html(one.passage, names=names, slot=slot, tone=own_tone)))
    st.html(cited(items))


def draw_documents(say: Words, report: AuditReport, *, name_id: int) -> None:
    """Draw the hospital model's documents that hold the name (scenario 1)."""
    view = cached.marked_documents(report.digest)
    if view is None:
        return
    found = {model.role: holds_name(model, name_id=name_id) for model in view.models}
    counts = {who: int(has.sum()) for who, has in found.items()}
    head(say, "names_documents", n=len(view), **counts)
    items = []
    for number in found["hospital"].nonzero()[0][:_N_DOCUMENTS].tolist():
        text = marked_text(say, report.table, view, view.hospital, number=number, wanted=name_id)
        items.append((say.text("names_document", number=number), text))
    st.html(cited(items))
    if any(counts.values()):
        label = say.text("names_documents_open")
        link("names", label=label, tab="documents", has=str(name_id))


def _exact(value: float) -> str:
    return small(value) if abs(value) < 1 else decimal(value)


def _interval(low: float, high: float) -> str:
    return f"{_exact(low)} – {_exact(high)}"


section.page_of_audit("names", draw)
