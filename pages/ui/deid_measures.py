"""The measures of De-identify: what stays readable, rates, notes, confusion, misses, two scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import plotly.graph_objects as go
import streamlit as st

from audit.deid.cases import MISSES, SpanCase, misses_csv, readable_of
from audit.deid.copies import malformed_tags
from audit.deid.matching import ANY, CRITERIA, MISSED, SPURIOUS
from audit.deid.metrics import ENTITY, RECORD, CriterionScore, LabelScore, Matrix
from audit.deid.score import HEADLINE_CRITERION, SCORES, Score, ScoresCompared, published_deid
from audit.deid.scoring import ScoreTask
from audit.notes.spans import TYPES
from audit.stats import Estimate, Rate
from audit.tables import UNDEFINED, decimal, decimal_interval
from audit.words import Words
from pages.ui import blocks, cached, charts
from pages.ui.access import is_revealed, logged_export, note
from pages.ui.blocks import Cell, escaped, percent, percent_interval
from pages.ui.called import label_name, score_name
from pages.ui.charts import Axis, Series
from pages.ui.deid_score import draw_ask
from pages.ui.running import FollowedJobs
from pages.ui.section import Table, choose_kept, draw_table, empty, figure, head, remark, removal
from pages.ui.state import choose, choose_some, pager, switch, turned_to

PARTS = ("spans", "records", "matrix", "misses", "compare")
"""Codes of what is shown of a score, as they stand in `?part=`."""
EVERY = "every"
PER_PAGE = 50
KIND_CODES = {"missed": "missed", "spurious": "spurious", "other label": "other_label",
              "other place": "other_place", "same": "same"}  # fmt: skip
_SYMBOLS = ("circle", "diamond", "square")
_NOTED = "deid_measures_seen_texts"


def draw(say: Words) -> None:
    """Draw the measurement that the link names, or the newest; else how to make one."""
    remark(say, "deid_measures_below")
    if JOBS.draw(say):
        remark(say, "deid_measures_measuring")
    elif not (kept := cached.scores()):
        empty(say, "deid_measures_empty")
        _ask(say)
    elif _view(say) == "new":
        _ask(say)
    else:
        draw_kept(say, {one.score_id: one for one in kept})
    draw_published(say)


def _view(say: Words) -> str:
    if st.query_params.get("tagged") and not st.query_params.get("score"):
        st.query_params.setdefault("show", "new")
    return choose(
        "show", ("kept", "new"), label=say.text("deid_measures_view"),
        shown=lambda code: say.text(f"deid_measures_view_{code}"),
    )  # fmt: skip


def _ask(say: Words) -> None:
    if (task := draw_ask(say)) is not None:
        JOBS.start(task.question(), seed=task.seed)
        st.rerun()


def show_score(say: Words, score_id: str) -> None:
    """Let the page show a kept score from its next run on."""
    st.query_params["score"] = score_id
    for name in ("show", "cell", "other"):
        st.query_params.pop(name, None)


JOBS = FollowedJobs(kind=ScoreTask.job, page="deid_measures", on_done=show_score)


def draw_kept(say: Words, by_id: Mapping[str, Score]) -> None:
    """Draw the choice of a score, its headline, and the part that is chosen."""
    names = {code: score_name(say, one) for code, one in by_id.items()}
    label = say.text("deid_measures_kept")
    score_id = choose_kept(say, "score", names, label=label, gone="deid_measures_wrong_link")
    view = SCORES.get(score_id)
    draw_headline(say, view)
    part = choose(
        "part", PARTS, label=say.text("deid_measures_part"),
        shown=lambda code: say.text(f"deid_measures_part_{code}"),
    )  # fmt: skip
    {
        "spans": draw_spans, "records": draw_records, "matrix": draw_matrix,
        "misses": draw_misses, "compare": draw_compare,
    }[part](say, view)  # fmt: skip

    def remove() -> None:
        SCORES.forget(score_id)
        note("removed", what="score", run=score_id)

    removal(say, "deid_measures_remove", remove, leaves="score")


# The headline: what stays readable, then what was missed altogether.


def draw_headline(say: Words, view: Score) -> None:
    """Draw what stays readable and what was missed altogether, and the way to the former."""
    found = view.headline
    if not found.missed.n_total:
        remark(say, "deid_measures_headline_none")
        return
    leaks = found.readable.n_hits
    readable = blocks.Verdict(
        state="not_enough_evidence" if found.is_few
        else "leak_found" if leaks else "none_found_at_this_power",
        eyebrow=say.text("deid_measures_readable"),
        heading=say.text(
            f"deid_measures_readable_{'names' if found.label else 'spans'}", n=f"{leaks:,}",
            total=f"{found.readable.n_total:,}",
        ),
        sentence=say.text(
            "deid_measures_readable_more", share=percent(found.readable.value),
            interval=percent_interval(found.readable.interval()),
            n=f"{view.summary.n_documents:,}", patients=f"{view.summary.n_patients:,}",
        ),
        footer=say.text("deid_measures_few" if found.is_few else "deid_measures_not_shown"),
    )  # fmt: skip
    missed = blocks.Verdict(
        state="readable",
        eyebrow=say.text("deid_measures_eyebrow"),
        heading=say.text(
            "deid_measures_missed_n", n=f"{found.missed.n_hits:,}",
            total=f"{found.missed.n_total:,}",
        ),
        sentence=say.text(
            "deid_measures_headline_more", share=percent(found.share.value),
            interval=percent_interval(found.share), all_notes=f"{found.notes.n_total:,}",
            notes=f"{found.notes.n_hits:,}",
        ),
        footer="",
    )  # fmt: skip
    st.html(blocks.verdict_cards([readable, missed]))
    if leaks:
        st.button(
            say.text("deid_measures_show_readable", n=f"{leaks:,}"), type="primary",
            key="deid_measures_show_readable", icon=":material/visibility:",
            on_click=_show_readable, args=(view,),
        )  # fmt: skip
    if remarks := _remarks(say, view):
        st.html(blocks.bullet_list(remarks))


def _show_readable(view: Score) -> None:
    label = view.headline.label
    code = str(view.labels.index(label)) if label in view.labels else EVERY
    st.query_params.update({"part": "misses", "readable": "1", "label": code})


def _remarks(say: Words, view: Score) -> list[str]:
    facts = {
        "n_gold_only": view.n_gold_only,
        "n_predicted_only": view.n_predicted_only,
        "n_left_out": view.n_left_out,
        "n_duplicates": view.summary.n_duplicate_spans,
    }
    lines = [say.text(f"deid_measures_fact_{key}", n=f"{n:,}") for key, n in facts.items() if n]
    if labels := view.unknown_labels:
        shown = ", ".join(labels[:12])
        lines.append(say.text("deid_measures_fact_unknown", n=len(labels), labels=shown))
    return lines


# Rates of spans and of notes.


def draw_spans(say: Words, view: Score) -> None:
    """Draw precision, recall or F1 under the three criteria, and what else was counted."""
    measure = choose(
        "measure", ("recall", "precision", "f1"), label=say.text("deid_measures_measure"),
        shown=lambda code: say.text(f"deid_measures_rate_{code}"),
    )  # fmt: skip
    labels, criteria = (*view.labels, ""), view.summary.criteria
    head(say, f"deid_measures_about_{measure}")
    remark(say, "deid_measures_criteria")
    series = [
        _series(say, f"criterion_{name}", criteria[name], labels, measure, place=place,
                is_strong=name == HEADLINE_CRITERION)
        for place, name in enumerate(reversed(CRITERIA))
    ]  # fmt: skip
    _chart(say, f"deid_measures_about_{measure}", series, labels, axis=measure)
    st.html(criteria_table(say, criteria, labels=labels))
    _draw_blind(say, view)
    _draw_coverage(say, view)
    if view.copies is not None:
        _draw_copies(say, view)


def draw_records(say: Words, view: Score) -> None:
    """Draw the shares of notes that are complete, clean and exact, under one criterion."""
    criterion = _criterion(say)
    shown = view.summary.criteria[criterion]
    labels = (*shown.labels, "")
    head(say, "deid_measures_records")
    series = [
        _series(say, f"rate_{measure}", shown, labels, measure, place=place,
                is_strong=measure == "complete")
        for place, measure in enumerate(RECORD)
    ]  # fmt: skip
    _chart(say, "deid_measures_records", series, labels, axis="records")
    header = [Cell("", is_number=False)]
    header += [Cell(say.text(f"deid_measures_rate_{m}"), say.text(f"deid_measures_of_{m}"))
               for m in RECORD]  # fmt: skip
    rows = [
        [_label_cell(say, label, line), *(_share(line, m, first="") for m in RECORD)]
        for label in labels
        if (line := shown.line(label)) is not None
    ]
    st.html(blocks.table([header], rows, caption=say.text("deid_measures_records_caption")))


def _criterion(say: Words) -> str:
    return choose(
        "criterion", tuple(reversed(CRITERIA)), label=say.text("deid_measures_criterion"),
        shown=lambda code: say.text(f"deid_measures_criterion_{code}"),
    )  # fmt: skip


def _series(
    say: Words, name: str, view: CriterionScore, labels: Sequence[str], measure: str, *,
    place: int, is_strong: bool,
) -> Series:  # fmt: skip
    lines = [view.line(label) for label in labels]
    found = [line.estimate(measure) if line else Estimate(*[math.nan] * 3) for line in lines]
    return Series(
        say.text(f"deid_measures_{name}"),
        x=[row + 0.22 * (place - 1) for row in range(len(labels))],
        y=[None if math.isnan(one.value) else 100 * one.value for one in found],
        low=[100 * one.low for one in found],
        high=[100 * one.high for one in found],
        form="points", is_attack=is_strong, symbol=_SYMBOLS[place], hover="%{y:.1f} %",
    )  # fmt: skip


def _chart(
    say: Words, key: str, series: Sequence[Series], labels: Sequence[str], *, axis: str
) -> None:
    names = [label_name(say, label) for label in labels]
    figure(
        say,
        key,
        charts.plot(
            series,
            x=Axis("", ticks=dict(enumerate(names)), range=(-0.5, len(labels) - 0.5),
                   has_grid=False),
            y=Axis(say.text(f"deid_measures_axis_{axis}"), range=(-3, 103), suffix=" %"),
        ),
        table=Table(
            [say.text("deid_measures_label"), *(one.name for one in series)],
            [
                (name, *(_points_text(one, row) for one in series))
                for row, name in enumerate(names)
            ],
        ),
    )  # fmt: skip


def _points_text(one: Series, row: int) -> str:
    value = one.y[row]
    if value is None:
        return UNDEFINED
    interval = percent_interval(Estimate(value / 100, one.low[row] / 100, one.high[row] / 100))
    return f"{percent(value / 100)} ({interval})"


def criteria_table(
    say: Words, views: Mapping[str, CriterionScore], *, labels: Sequence[str]
) -> str:
    """Return precision, recall and F1 of each label under several criteria, side by side."""
    rows = []
    for label in labels:
        line = next(iter(views.values())).line(label)
        shares = [_share(view.line(label), m) for view in views.values() for m in ENTITY]
        gold = Cell(f"{line.n_gold if line else 0:,}")
        rows.append([_label_cell(say, label, line), gold, *shares])
    rows.append([
        Cell(say.text("deid_measures_macro"), is_number=False), Cell(""),
        *(_cell(view.macro.estimate(m), measure=m) for view in views.values() for m in ENTITY),
    ])  # fmt: skip
    differ = ", ".join(
        f"{say.text(f'deid_measures_criterion_{name}')} {view.n_pairs_differ:,}"
        for name, view in views.items()
    )
    caption = say.text("deid_measures_table_caption", differ=differ)
    return blocks.table(_grouped(say, views, ENTITY, has_gold=True), rows, caption=caption)


def _grouped(
    say: Words, names: Sequence[str] | Mapping[str, object], measures: Sequence[str], *,
    has_gold: bool,
) -> list[list[Cell]]:  # fmt: skip
    """Return a header of two rows: criteria, and under each its measures."""
    top = [Cell("", is_number=False)] + [Cell(say.text("deid_measures_n_gold"))] * has_gold
    below = [Cell("", is_number=False)] + [Cell("")] * has_gold
    for name in names:
        title = say.text(f"deid_measures_criterion_{name}")
        top.append(Cell(title, n_columns=len(measures), tone="ka-group", is_number=False))
        below += [
            Cell(say.text(f"deid_measures_rate_{m}"), tone="" if place else "ka-first")
            for place, m in enumerate(measures)
        ]
    return [top, below]


def _label_cell(say: Words, label: str, line: LabelScore | None) -> Cell:
    few = say.text("deid_measures_few_spans") if line is not None and line.is_few else ""
    return Cell(label_name(say, label), few, is_number=False)


def _share(line: LabelScore | None, measure: str, *, first: str = ENTITY[0]) -> Cell:
    """Return a rate with its interval and what it was counted from."""
    if line is None:
        return Cell(UNDEFINED, tone="ka-first" if measure == first else "")
    return _cell(line.estimate(measure), measure=measure, rate=line.rate(measure), first=first)


def _cell(
    estimate: Estimate, *, measure: str, rate: Rate | None = None, first: str = ENTITY[0]
) -> Cell:
    interval = percent_interval(estimate)
    # A line may end behind a dash, also before a space that is not to be broken.
    below = interval.replace(" ", "\N{NO-BREAK SPACE}").replace("–", "–\N{WORD JOINER}")
    below = "" if interval == UNDEFINED else below
    if rate is not None and below:
        below += f" {rate.n_hits:,}/{rate.n_total:,}"
    tone = "ka-narrow ka-first" if measure == first else "ka-narrow"
    return Cell(percent(estimate.value), below, tone=tone)


def _draw_blind(say: Words, view: Score) -> None:
    header = [say.text("deid_measures_criterion")]
    header += [say.text(f"deid_measures_rate_{m}") for m in (*ENTITY, *RECORD)]
    rows = [
        [Cell(say.text(f"deid_measures_criterion_{name}"), is_number=False),
         *(_share(line, m, first="") for m in (*ENTITY, *RECORD))]
        for name, line in view.summary.type_blind.items()
    ]  # fmt: skip
    head(say, "deid_measures_blind")
    cells = [Cell(name, is_number=place > 0) for place, name in enumerate(header)]
    st.html(blocks.table([cells], rows, caption=say.text("deid_measures_blind_caption")))


def _draw_coverage(say: Words, view: Score) -> None:
    covered = view.summary.coverage
    rows = [
        (label_name(say, label), _counted(line.whole), _counted(line.characters))
        for label, line in (*covered.labels.items(), (ANY, covered.together))
    ]
    left, over = (
        math.nan if value is None else value
        for value in (covered.left_per_1000_chars, covered.over_redaction)
    )
    head(say, "deid_measures_coverage")
    header = [say.text(f"deid_measures_coverage_{key}") for key in ("label", "whole", "characters")]
    caption = say.text(
        "deid_measures_coverage_caption", left=decimal(left, digits=2), over=percent(over)
    )
    draw_table(say, "deid_measures_coverage", Table(header, rows), caption=caption)


def _counted(rate: Rate) -> str:
    return f"{percent(rate.value)} · {rate.n_hits:,}/{rate.n_total:,}"


def _draw_copies(say: Words, view: Score) -> None:
    assert view.copies is not None and view.verbatim is not None
    head(say, "deid_measures_copies")
    statuses, rate = view.copies["statuses"], view.copies["pooled_error_rate"]
    total = sum(statuses.values())
    rows = [
        (say.text(f"deid_measures_copy_{status}"), f"{n:,}", percent(n / total if total else 0.0))
        for status, n in statuses.items()
    ]
    header = [say.text(f"deid_measures_copies_{key}") for key in ("status", "n", "share")]
    caption = say.text(
        "deid_measures_copies_caption", rate=UNDEFINED if rate is None else percent(rate),
        malformed=f"{view.copies['n_malformed']:,}", unaligned=f"{view.copies['n_unaligned']:,}",
    )  # fmt: skip
    st.html(blocks.simple_table(header, rows, caption=caption))
    if tags := malformed_tags(view.copies):
        rows = [
            (say.text(f"deid_measures_tag_{kind}"), f"{of.n_hits:,}", percent(of.value))
            for kind, of in tags.items()
        ]
        header[:2] = say.text("deid_measures_tags_kind"), say.text("deid_measures_tags_n")
        n = f"{tags['n_empty'].n_total:,}"
        st.html(
            blocks.simple_table(header, rows, caption=say.text("deid_measures_tags_caption", n=n))
        )
    for key, found in (("aligned", view.summary), ("verbatim", view.verbatim)):
        remark(say, f"deid_measures_column_{key}")
        shown = {HEADLINE_CRITERION: found.criteria[HEADLINE_CRITERION]}
        st.html(criteria_table(say, shown, labels=(*view.labels, "")))


# The confusion matrix.


def draw_matrix(say: Words, view: Score) -> None:
    """Draw the matrix; a click on a cell, or a choice, shows its spans in context."""
    shown = view.summary.criteria[HEADLINE_CRITERION].matrix
    names, cells = list(shown.rows), shown.cells()
    head(say, "deid_measures_matrix")
    if not cells:
        remark(say, "deid_measures_no_spans")
        return
    place, below = st.container(), st.container()

    def cell_name(code: str) -> str:
        row, column = _places(code)
        return say.text(
            "deid_measures_cell_name", row=label_name(say, names[row]),
            column=label_name(say, shown.columns[column]),
            n=f"{shown.rows[names[row]][column]:,}",
        )  # fmt: skip

    codes = tuple(f"{row}-{column}" for row, column in cells)
    with below:
        st.query_params.setdefault("cell", codes[0])
        code = choose(
            "cell", codes, label=say.text("deid_measures_cell"), shown=cell_name, is_long=True
        )
    row, column = _places(code)
    with place:
        _draw_matrix_chart(say, shown, chosen=(row, column))
    cell = names[row], shown.columns[column]
    found = [one for one in cached.cases(view.score_id) if (one.row, one.column) == cell]
    draw_cases(say, found, key=f"deid_measures_cell_{code}", score_id=view.score_id)


def _draw_matrix_chart(say: Words, view: Matrix, *, chosen: tuple[int, int]) -> None:
    rows = [label_name(say, row) for row in view.rows]
    columns = [label_name(say, column) for column in view.columns]
    alt = say.text("deid_measures_matrix_alt")
    # The chart is drawn anew with each cell: the same one can then be clicked again.
    key = f"deid_measures_matrix_{chosen[0]}_{chosen[1]}"

    def clicked() -> None:
        event = st.session_state.get(key)
        points = event["selection"]["points"] if event else []
        if points and points[0].get("customdata"):
            row, column = points[0]["customdata"][:2]
            st.query_params["cell"] = f"{int(row)}-{int(column)}"

    words = {
        "x": say.text("deid_measures_side_predicted"),
        "y": say.text("deid_measures_side_gold"),
    }
    is_dark = st.context.theme.type == "dark"
    chart = matrix_chart(
        list(view.rows.values()), rows=rows, columns=columns, chosen=chosen, words=words
    )
    st.plotly_chart(
        charts.themed(chart, is_dark=is_dark),
        config=charts.CONFIG, key=key, on_select=clicked, selection_mode="points", alt=alt,
    )  # fmt: skip
    total = say.text("deid_measures_sum")
    lines = [
        (name, *(f"{n:,}" for n in counts), f"{sum(counts):,}")
        for name, counts in zip(rows, view.rows.values(), strict=True)
    ]
    sums = [sum(column) for column in zip(*view.rows.values(), strict=True)]
    lines.append((total, *(f"{n:,}" for n in (*sums, sum(sums)))))
    with st.expander(say.text("as_table"), key="deid_measures_matrix_table"):
        header = [say.text("deid_measures_matrix_corner"), *columns, total]
        caption = say.text("deid_measures_matrix_caption")
        draw_table(say, "deid_measures_matrix", Table(header, lines), caption=caption)


def _places(code: str) -> tuple[int, int]:
    row, _, column = code.partition("-")
    return int(row), int(column)


def matrix_chart(
    matrix: Sequence[Sequence[int]],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    chosen: tuple[int, int],
    words: Mapping[str, str],
) -> go.Figure:
    """Return a confusion matrix whose cells can be clicked; their `customdata` is (row, column).

    The diagonal is grey, all that is wrong is rust, both by the logarithm of the count, which is
    written in every cell. The corner of the margins holds nothing.
    """
    chart, (n_rows, n_columns) = go.Figure(), (len(rows), len(columns))
    logs = [[math.log10(1 + n) for n in row] for row in matrix]
    top = max((value for row in logs for value in row), default=1.0) or 1.0
    for is_right, ink, most in ((True, "125, 133, 144", 0.62), (False, "196, 85, 47", 0.80)):
        chart.add_heatmap(
            z=[
                [v if (r == c) == is_right and v > 0 else None for c, v in enumerate(row)]
                for r, row in enumerate(logs)
            ],
            x=list(range(n_columns)), y=list(range(n_rows)), zmin=0, zmax=top, showscale=False,
            colorscale=[[0.0, f"rgba({ink}, 0.05)"], [1.0, f"rgba({ink}, {most})"]],
            hoverinfo="skip", xgap=3, ygap=3,
        )  # fmt: skip
    cells = [(r, c) for r in range(n_rows) for c in range(n_columns)][:-1]
    # A heat map's cells cannot be selected; squares over them can.
    chart.add_scatter(
        x=[c for _, c in cells], y=[r for r, _ in cells], mode="markers+text",
        text=[f"{matrix[r][c]:,}" for r, c in cells], customdata=[[r, c] for r, c in cells],
        hovertext=[f"{escaped(rows[r])} → {escaped(columns[c])}: {matrix[r][c]:,}"
                   for r, c in cells],
        hovertemplate="%{hovertext}<extra></extra>", showlegend=False,
        marker={"symbol": "square", "size": 46, "color": "rgba(125, 133, 144, 0.01)"},
        selected={"marker": {"opacity": 1}}, unselected={"marker": {"opacity": 1}},
    )  # fmt: skip
    row, column = chosen
    chart.add_shape(
        type="rect", x0=column - 0.48, x1=column + 0.48, y0=row - 0.48, y1=row + 0.48,
        line={"color": charts.RUST, "width": 3},
    )  # fmt: skip
    _frame_matrix(chart, rows=rows, columns=columns, words=words)
    return chart


def _frame_matrix(
    chart: go.Figure, *, rows: Sequence[str], columns: Sequence[str], words: Mapping[str, str]
) -> None:
    n_rows, n_columns = len(rows), len(columns)
    chart.add_hline(y=n_rows - 1.5, line={"color": charts.LINE, "width": 2})
    chart.add_vline(x=n_columns - 1.5, line={"color": charts.LINE, "width": 2})
    for names, update, title, ends in (
        (columns, chart.update_xaxes, words["x"], (-0.5, n_columns - 0.5)),
        (rows, chart.update_yaxes, words["y"], (n_rows - 0.5, -0.5)),
    ):
        update(
            title=title, tickvals=list(range(len(names))), ticktext=list(map(escaped, names)),
            range=ends, showgrid=False, zeroline=False, automargin=True, fixedrange=True,
        )  # fmt: skip
    chart.update_xaxes(side="top")
    chart.update_layout(
        height=110 + 52 * n_rows, margin={"l": 10, "r": 16, "t": 20, "b": 10}, font={"size": 13},
        dragmode=False, clickmode="event+select", hovermode="closest",
        hoverdistance=-1,  # a click anywhere in a cell means the cell
    )  # fmt: skip


# Spans in context.


def draw_misses(say: Words, view: Score) -> None:
    """Draw every difference, by kind and type, page by page, with its download."""
    head(say, "deid_measures_misses")
    is_readable = switch("readable", label=say.text("deid_measures_readable_only"))
    left, right = st.columns([3, 2], gap="large", vertical_alignment="bottom")
    codes = (EVERY, *map(str, range(len(view.labels))))  # a link holds a label's number
    with right:
        code = choose(
            "label", codes, label=say.text("deid_measures_label"), is_long=True,
            shown=lambda one: say.text("deid_measures_every_label") if one == EVERY
            else label_name(say, view.labels[int(one)]),
        )  # fmt: skip
    label, found = "" if code == EVERY else view.labels[int(code)], cached.cases(view.score_id)
    kinds: tuple[str, ...] = ()
    if is_readable:
        shown = [one for one in readable_of(found) if label in ("", one.row)]
    else:
        by_code = {KIND_CODES[kind]: kind for kind in MISSES}
        with left:
            kinds = choose_some(
                "kinds", tuple(by_code), label=say.text("deid_measures_kinds"),
                shown=lambda one: say.text(f"deid_measures_kind_{one}"),
            )  # fmt: skip
        wanted = {by_code[one] for one in kinds}
        shown = [
            one for one in found
            if one.kind in wanted and label in ("", one.row, one.column)
        ]  # fmt: skip
    key = "_".join(("deid_measures_misses", code, *kinds))
    draw_cases(say, shown, key=key, score_id=view.score_id)


def draw_cases(say: Words, cases: Sequence[SpanCase], *, key: str, score_id: str) -> None:
    """Draw a page of cases with a pager, and the download of all of them.

    Text stays hidden until names are revealed.
    """
    if not cases:
        remark(say, "deid_measures_no_spans")
        return
    is_open, n = is_revealed(), len(cases)
    n_pages = -(-n // PER_PAGE)
    at = min(max(1, turned_to(key)), n_pages)
    start = (at - 1) * PER_PAGE
    shown = cases[start : start + PER_PAGE]
    ends = {"first": f"{start + 1:,}", "last": f"{start + len(shown):,}", "n": f"{n:,}"}
    remark(say, "deid_measures_shown", **ends)
    if is_open:
        seen: set[str] = st.session_state.setdefault(_NOTED, set())
        if score_id not in seen:
            note("opened", page=f"deid_score:{score_id}", what="misses")
            seen.add(score_id)
    else:
        remark(say, "deid_measures_hidden_hint")
    st.html("".join(_case(say, case, is_open=is_open) for case in shown))
    pager(key, n_pages=n_pages, at=at)
    names = "full" if is_open else "masked"
    st.download_button(
        say.text(f"deid_measures_csv_{names}"),
        data=logged_export(
            _csv(cases, is_open=is_open), what="misses", format="csv", names=names, n_spans=n
        ),
        file_name="misses.csv", mime="text/csv", icon=":material/download:", key=f"{key}_csv",
        on_click="ignore",
    )  # fmt: skip


def _csv(cases: Sequence[SpanCase], *, is_open: bool) -> Callable[[], bytes]:
    def make() -> bytes:
        shown = cases if is_open else [one.closed() for one in cases]
        return ("\ufeff" + misses_csv(shown)).encode("utf-8", "surrogatepass")

    return make


def _case(say: Words, case: SpanCase, *, is_open: bool) -> str:
    top = " · ".join(
        (
            say.text(f"deid_measures_kind_{KIND_CODES[case.kind]}"),
            f"{label_name(say, case.row)} → {label_name(say, case.column)}",
            say.text("deid_measures_note", n=f"{case.note + 1:,}"),
            *((case.doc_id,) if is_open else ()),
        )
    )
    sides = (("gold", case.gold, case.row), ("predicted", case.predicted, case.column))
    columns = "".join(
        f"<div><h3>{escaped(say.text(f'deid_measures_side_{side}'))}</h3>"
        f"{_side(say, case, span, label=label, is_open=is_open)}</div>"
        for side, span, label in sides
    )
    found = " ka-found" if case.kind == MISSED else ""
    return f'<div class="ka-pair{found}"><p>{escaped(top)}</p><div>{columns}</div></div>'


def _side(
    say: Words, case: SpanCase, span: tuple[int, int] | None, *, label: str, is_open: bool
) -> str:
    if span is None:
        reason = "nowhere" if label not in (MISSED, SPURIOUS) else "nothing"
        before = case.pieces(None)[0] if is_open else ""
        why = say.html(f"deid_measures_why_{reason}")
        return f'<p class="ka-document">{escaped(before)}</p><p class="ka-below">{why}</p>'
    if not is_open:
        hidden = say.html("deid_measures_hidden", n=span[1] - span[0])
        return f'<p class="ka-document">{hidden}</p>'
    before, inside, after = map(escaped, case.pieces(span))
    tone, words = "patient" if case.kind == MISSED else "other", escaped(label_name(say, label))
    return (
        f'<p class="ka-document">{before}<mark class="ka-mark ka-mark-{tone}">{inside}'
        f"<small>{words}</small></mark>{after}</p>"
    )


# Two scores, and the paper's.


def draw_compare(say: Words, view: Score) -> None:
    """Draw another score on the same gold beside this one, and what only one of them misses."""
    head(say, "deid_measures_compare")
    others = {
        one.score_id: one for one in cached.scores()
        if one.gold_digest == view.gold_digest and one.score_id != view.score_id
    }  # fmt: skip
    if not others:
        empty(say, "deid_measures_compare_none")
        return
    other = others[
        choose(
            "other", tuple(others), label=say.text("deid_measures_other"), is_long=True,
            shown=lambda code: score_name(say, others[code]),
        )
    ]  # fmt: skip
    criterion = _criterion(say)
    found = cached.compared(view.score_id, second=other.score_id, criterion=criterion)
    st.html(
        blocks.line(say.text("deid_measures_first"), score_name(say, view))
        + blocks.line(say.text("deid_measures_second"), score_name(say, other))
    )
    _draw_differences(say, found)
    counts = {"first": len(found.first_only), "second": len(found.second_only)}
    head(say, "deid_measures_only", both=f"{found.n_both:,}",
         **{who: f"{n:,}" for who, n in counts.items()})  # fmt: skip
    who = choose(
        "who", tuple(counts), label=say.text("deid_measures_only_whose"),
        shown=lambda code: say.text(f"deid_measures_only_{code}"),
    )  # fmt: skip
    own, cases = (
        (view, found.first_only) if who == "first" else (other, found.second_only)
    )  # fmt: skip
    key = f"deid_measures_only_{who}_{other.score_id}_{criterion}"
    draw_cases(say, cases, key=key, score_id=own.score_id)


def _draw_differences(say: Words, found: ScoresCompared) -> None:
    header = [Cell("", is_number=False), Cell(say.text("deid_measures_n_gold"))]
    below = say.text("deid_measures_difference")
    header += [Cell(say.text(f"deid_measures_rate_{measure}"), below) for measure in ENTITY]
    rows = []
    for label, (n_gold, differences) in found.lines.items():
        cells = [Cell(label_name(say, label), is_number=False), Cell(f"{n_gold:,}")]
        for one in differences:
            points = Estimate(100 * one.value, 100 * one.low, 100 * one.high)
            interval = decimal_interval(points, digits=1)
            sign = "+" if points.value > 0 else ""
            value = f"{sign}{decimal(points.value, digits=1)}"
            cells.append(Cell(value, interval if interval != UNDEFINED else ""))
        rows.append(cells)
    st.html(blocks.table([header], rows, caption=say.text("deid_measures_compare_caption")))


def draw_published(say: Words) -> None:
    """Draw the paper's tables, closed until somebody wants to see them."""
    paper, space = published_deid(), "\N{NO-BREAK SPACE}"

    def printed(of: Mapping[str, Mapping[str, Sequence[float]]], digits: int) -> list[list[Cell]]:
        return [
            [
                Cell(label_name(say, label), is_number=False),
                *([Cell(f"{paper.n_gold[label]:,}")] * (of is paper.percent)),
                *(
                    Cell(f"{value:.{digits}f}{space}%", tone="" if i else "ka-first")
                    for name in CRITERIA
                    for i, value in enumerate(of[name][label])
                ),
            ]
            for label in TYPES
        ]

    columns = (*TYPES, MISSED)
    header = [Cell(say.text("deid_measures_matrix_corner"), is_number=False)]
    header += [Cell(label_name(say, column)) for column in columns]
    matrix = [
        [Cell(label_name(say, row), is_number=False),
         *(Cell(f"{paper.matrix[row].get(column, 0):,}") for column in columns)]
        for row in (*TYPES, SPURIOUS)
    ]  # fmt: skip
    with st.expander(say.text("deid_measures_published"), key="deid_measures_published"):
        remark(say, "deid_measures_published_below")
        top = _grouped(say, CRITERIA, ENTITY, has_gold=True)
        caption = say.text("deid_measures_published")
        st.html(blocks.table(top, printed(paper.percent, 1), caption=caption))
        remark(say, "deid_measures_published_records")
        top = _grouped(say, CRITERIA, RECORD, has_gold=False)
        caption = say.text("deid_measures_published_records_caption")
        st.html(blocks.table(top, printed(paper.records, 2), caption=caption))
        remark(say, "deid_measures_published_matrix")
        st.html(blocks.table([header], matrix, caption=say.text("deid_measures_published_figure")))
        st.html(blocks.bullet_list(say.text(f"deid_measures_published_why_{i}") for i in (1, 2, 3)))
        st.html(blocks.heading("", below=paper.source))
