"""The measures of De-identify: readable names, rates, notes, confusion, misses, comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import pandas as pd
import streamlit as st

from audit.deid.measure.paper_tables import lay_out_tables, published_deid
from audit.deid.measure.score_report import (
    HEADLINE_CRITERION,
    MISSES,
    SCORES,
    SHARES,
    Comparison,
    CoverageScore,
    Score,
    SpanCase,
    find_readable,
    misses_csv,
)
from audit.deid.measure.scoring import ScoreTask
from audit.deid.measure.span_matching import ANY, CRITERIA, MISSED, SPURIOUS
from audit.deid.measure.span_metrics import (
    ENTITY,
    RECORD,
    CriterionScore,
    LabelScore,
    MacroScore,
    Matrix,
)
from audit.notes.spans import TYPES
from audit.report.documents import Hit
from audit.stats import Estimate, Rate
from audit.tables import decimal
from audit.words import Words
from pages.ui import blocks, cached, charts
from pages.ui.access import is_revealed, log_action, name_form
from pages.ui.blocks import (
    Cell,
    Verdict,
    escape_html,
    estimate_cell,
    format_moment,
    format_percent,
    format_percent_interval,
)
from pages.ui.charts import Axis
from pages.ui.deid_note import draw_copies
from pages.ui.deid_score import draw_ask
from pages.ui.display_names import label_name, policy_name, predicted_name, score_name
from pages.ui.form import choose, choose_kept, choose_some, draw_button, draw_switch, paginate
from pages.ui.note_text import MarkLabel, note_box, note_html
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    Columns,
    Content,
    Table,
    draw_absence,
    draw_chart,
    draw_csv_button,
    draw_file_button,
    draw_heading,
    draw_remark,
    draw_removal,
    draw_table,
)

EVERY_LABEL = "every"
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "star", "cross", "pentagon", "hexagram")
MAX_COMPARED = len(_SYMBOLS) - 1
"""Maximal number of other scores of the same notes in a comparison."""
PER_PAGE = 50
_TINTS = {True: ("125, 133, 144", 0.57), False: ("196, 85, 47", 0.75)}
"""Whether a cell of the matrix is correct -> its colour, and the added opacity of the largest."""


def draw(say: Words) -> None:
    """Draw the measurement that the link names, or the newest, or the form of a new one."""
    if st.query_params.get("tagged") and not st.query_params.get("score"):
        st.query_params.setdefault("show", "new")
    if JOBS.draw(say):
        draw_remark(say, "deid_measures_measuring")
    elif not (scores := cached.scores()):
        draw_absence(say, "deid_measures_empty")
        _draw_new(say)
    elif choose(say, "deid_measures_view", ("kept", "new"), parameter="show") == "new":
        _draw_new(say)
    else:
        draw_kept(say, scores)
    draw_published(say)


def _draw_new(say: Words) -> None:
    if (task := draw_ask(say)) is not None:
        JOBS.start(task.question(), seed=task.seed)
        st.rerun()


def show_score(say: Words, score_id: str) -> None:
    """Let the page show a kept score from its next run on."""
    st.query_params["score"] = score_id
    for name in ("show", "cell", "other"):
        st.query_params.pop(name, None)


JOBS = FollowedJobs(kind=ScoreTask.job, page="deid_measures", on_done=show_score)


def draw_kept(say: Words, scores: Sequence[Score]) -> None:
    """Draw the choice of a score, its headline, and the chosen part."""
    names = {score.score_id: score_name(say, score) for score in scores}
    score_id = choose_kept(say, "deid_measures_kept", names, parameter="score")
    view = SCORES.get(score_id)
    draw_headline(say, view)
    PARTS[choose(say, "deid_measures_part", tuple(PARTS))](say, view)

    def remove() -> None:
        SCORES.forget(score_id)
        log_action("removed", what="score", run=score_id)

    draw_removal(say, "deid_measures_remove", remove, leaves="score")


# The headline: what stays readable, then what was missed completely.


def draw_headline(say: Words, view: Score) -> None:
    """Draw what stays readable and what was missed completely, and a button for the former."""
    headline = view.headline
    if not headline.missed.n_total:
        draw_remark(say, "deid_measures_headline_none")
        return
    leaks, few = headline.readable.n_hits, "few" if headline.is_few else "not_shown"
    state = "leak_found" if leaks else "none_found"
    unit = "names" if headline.label else "spans"
    facts = {
        "n_notes": view.summary.n_documents,
        "patients": view.summary.n_patients,
        "notes": headline.notes.n_hits,
        "all_notes": headline.notes.n_total,
    }

    def make_card(state: str, side: str, rate: Rate, interval: Estimate, *, footer: str) -> Verdict:
        counts = {"n": rate.n_hits, "total": rate.n_total, **facts}
        texts = {name: f"{n:,}" for name, n in counts.items()}
        texts["share"] = format_percent(rate.value)
        texts["interval"] = format_percent_interval(interval)
        eyebrow, heading, sentence = (
            say.text(f"deid_measures_{side}_{part}", **texts)
            for part in ("eyebrow", unit, "sentence")
        )
        return Verdict(state, eyebrow, heading, sentence, footer)

    readable, missed = headline.readable, headline.missed
    st.html(
        blocks.verdict_cards(
            [
                make_card(
                    "not_enough_evidence" if headline.is_few else state,
                    "readable",
                    readable,
                    readable.interval(),
                    footer=say.text(f"deid_measures_{few}"),
                ),
                make_card("readable", "missed", missed, headline.share, footer=""),
            ]
        )
    )

    def show_readable() -> None:
        place = (
            str(view.labels.index(headline.label)) if headline.label in view.labels else EVERY_LABEL
        )
        st.query_params.update({"part": "misses", "readable": "1", "label": place})

    if leaks:
        key, icon = "deid_measures_show_readable", "visibility"
        draw_button(say, key, kind="primary", icon=icon, on_click=show_readable, n=f"{leaks:,}")
    if lines := _list_limits(say, view):
        st.html(blocks.bullet_list(lines))


def _list_limits(say: Words, view: Score) -> list[str]:
    """Return what limits the figures: notes and labels left out, kinds kept, types never seen."""
    counts = {
        "n_gold_only": view.n_gold_only,
        "n_predicted_only": view.n_predicted_only,
        "n_left_out": view.n_left_out,
        "n_duplicates": view.summary.n_duplicate_spans,
        "unknown": len(view.unknown_labels),
    }
    labels = ", ".join(view.unknown_labels[:12])
    lines = [
        say.text(f"deid_measures_fact_{fact}", n=f"{n:,}", labels=labels)
        for fact, n in counts.items()
        if n
    ]
    if view.policy.kinds_left:
        policy = policy_name(say, view.policy)
        lines.append(say.text("deid_measures_fact_policy", policy=policy))
    types, kinds = view.summary.unseen
    if types:
        names_text = ", ".join(label_name(say, label) for label in types)
        lines.append(say.text("deid_measures_unseen_types", types=names_text))
    if kinds:
        names_text = ", ".join(say.sentences.get(f"deid_measures_unseen_{x}", x) for x in kinds)
        lines.append(say.text("deid_measures_unseen_kinds", kinds=names_text))
    return lines


# Rates of spans and of notes.


def draw_spans(say: Words, view: Score) -> None:
    """Draw precision, recall or F1 under the three criteria, and further counts."""
    measure = choose(say, "deid_measures_rate", ("recall", "precision", "f1"), parameter="measure")
    criteria = view.summary.criteria
    draw_heading(say, f"deid_measures_about_{measure}")
    draw_remark(say, "deid_measures_criteria")
    series = {f"criterion_{name}": (criteria[name], measure) for name in reversed(CRITERIA)}
    _draw_chart(say, f"deid_measures_about_{measure}", series, axis=measure)
    differ = ", ".join(
        f"{say.text(f'deid_measures_criterion_{name}')} {criterion.n_pairs_differ:,}"
        for name, criterion in criteria.items()
    )
    table = rates_table(say, criteria, ENTITY)
    draw_table(say, "deid_measures_table", table, differ=differ)
    measures = (*ENTITY, *RECORD)
    rows: list[Sequence[Content]] = [
        [say.text(f"deid_measures_criterion_{name}"), *_rates([line], measures)]
        for name, line in view.summary.type_blind.items()
    ]
    draw_heading(say, "deid_measures_blind")
    header = ["deid_measures_criterion", *(f"deid_measures_rate_{measure}" for measure in measures)]
    draw_table(say, "deid_measures_blind", Table(header, rows))
    _draw_coverage(say, view.summary.coverage)
    if view.copies is None or view.verbatim is None:
        return
    draw_heading(say, "deid_measures_copies")
    draw_copies(say, view.copies)
    for key, summary in (("aligned", view.summary), ("verbatim", view.verbatim)):
        headline_criteria = {HEADLINE_CRITERION: summary.criteria[HEADLINE_CRITERION]}
        draw_table(say, f"deid_measures_{key}", rates_table(say, headline_criteria, ENTITY))


def draw_records(say: Words, view: Score) -> None:
    """Draw the shares of notes that are complete, clean and exact, under one criterion."""
    criterion = choose(say, "deid_measures_criterion", CRITERIA[::-1])
    criterion_score = view.summary.criteria[criterion]
    draw_heading(say, "deid_measures_records")
    series = {f"rate_{measure}": (criterion_score, measure) for measure in RECORD}
    _draw_chart(say, "deid_measures_records", series, axis="records")
    table = rates_table(say, {criterion: criterion_score}, RECORD)
    draw_table(say, "deid_measures_records", table)


def _draw_chart(
    say: Words, key: str, series: Mapping[str, tuple[CriterionScore, str]], *, axis: str
) -> None:
    """Draw measures of criteria by label, the first one in the colour of the attack."""
    point_groups, names = [], dict[float, str]()
    for place, (name, (criterion_score, measure)) in enumerate(series.items()):
        names = {row: label_name(say, label) for row, label in enumerate(criterion_score.lines)}
        point_groups.append(
            charts.point_series(
                say.text(f"deid_measures_{name}"),
                [row + 0.22 * (place - 1) for row in names],
                [line.estimate(measure) for line in criterion_score.lines.values()],
                scale=100,
                is_attack=place == 0,
                symbol=_SYMBOLS[place],
                hover="%{y:.1f} %",
            )
        )
    x = Axis("", ticks=names, range=(-0.5, len(names) - 0.5), has_grid=False)
    y = Axis(say.text(f"deid_measures_axis_{axis}"), range=(-3, 103), suffix=" %")
    draw_chart(say, key, charts.plot(point_groups, x=x, y=y))


def rates_table(
    say: Words, criteria: Mapping[str, CriterionScore], measures: Sequence[str]
) -> Table:
    """Return measures by label and their means, under each criterion, with counts."""
    rows: list[Sequence[Content]] = []
    for label, first in next(iter(criteria.values())).lines.items():
        lines = [score.lines[label] for score in criteria.values()]
        few = say.text("deid_measures_few_spans") if first.is_few else ""
        rows.append([Cell(label_name(say, label), few), first.n_gold, *_rates(lines, measures)])
    means = [score.macro for score in criteria.values()]
    rows.append([say.text("deid_measures_macro"), "", *_rates(means, measures)])
    return Table(_header(criteria, measures), rows)


def _header(criteria: Iterable[str], measures: Sequence[str]) -> list[str | tuple[str, str]]:
    groups = [
        (f"deid_measures_criterion_{criterion}", f"deid_measures_rate_{measure}")
        for criterion in criteria
        for measure in measures
    ]
    return ["deid_measures_label", "deid_measures_n_gold", *groups]


def _rates(lines: Sequence[MacroScore], measures: Sequence[str]) -> list[Cell]:
    """Return the measures of lines with their intervals and counts."""
    cells = []
    for line, measure in product(lines, measures):
        cell = estimate_cell(line.estimate(measure))
        rate = line.rate(measure) if isinstance(line, LabelScore) else None
        counts = f"\n{_counts_text(rate)}" if rate and cell.below else ""
        cells.append(replace(cell, below=cell.below + counts, tone="ka-narrow"))
    return cells


def _counts_text(rate: Rate) -> str:
    return f"{rate.n_hits:,}/{rate.n_total:,}"


def _draw_coverage(say: Words, coverage: CoverageScore) -> None:
    rows = [
        [
            label_name(say, label),
            *(
                f"{format_percent(x.value)} · {_counts_text(x)}"
                for x in (line.whole_spans, line.characters)
            ),
        ]
        for label, line in (*coverage.labels.items(), (ANY, coverage.together))
    ]
    left, over = (
        math.nan if rate is None else rate
        for rate in (coverage.left_per_1000_chars, coverage.over_redaction)
    )
    draw_heading(say, "deid_measures_coverage")
    table = Table(("label", "whole", "characters"), rows)
    shares = {"left": decimal(left, digits=2), "over": format_percent(over)}
    draw_table(say, "deid_measures_coverage", table, **shares)


# The confusion matrix.


def draw_matrix(say: Words, view: Score) -> None:
    """Draw the matrix; a click on a cell, or a choice, shows its spans in context."""
    matrix = view.summary.criteria[HEADLINE_CRITERION].matrix
    draw_heading(say, "deid_measures_matrix")
    cells = {f"{row}-{column}": cell for (row, column), cell in matrix.cells().items()}
    if not cells:
        draw_remark(say, "deid_measures_no_spans")
        return
    above = st.container()
    st.query_params.setdefault("cell", next(iter(cells)))
    names = {
        code: say.text(
            "deid_measures_cell_name",
            row=label_name(say, gold),
            column=label_name(say, predicted),
            n=f"{n:,}",
        )
        for code, (gold, predicted, n) in cells.items()
    }
    code = choose(say, "deid_measures_cell", names, is_long=True)
    with above:
        _draw_matrix(say, matrix, code=code)
    cell_cases = [
        case for case in cached.cases(view.score_id) if (case.row, case.column) == cells[code][:2]
    ]
    draw_cases(say, cell_cases, key=f"deid_measures_cell_{code}", score_id=view.score_id)


def _draw_matrix(say: Words, matrix: Matrix, *, code: str) -> None:
    """Draw the counts as a table whose cells can be chosen, tinted by their logarithm."""
    total, key = say.text("deid_measures_sum"), f"deid_measures_matrix_{code}"
    rows, columns = ([label_name(say, x) for x in side] for side in (matrix.rows, matrix.columns))
    # Labels are untrusted and may be equal, so a column's name is its number.
    table = pd.DataFrame(list(matrix.rows.values()))
    max_log = math.log1p(table.to_numpy().max())
    table.loc[len(rows)] = table.sum()
    table[len(columns)] = table.sum(axis=1)
    table.insert(0, "", [*rows, total])
    table = table.rename(columns=str)
    looks = pd.DataFrame("", table.index, table.columns)
    for (r, c), (*_, n) in matrix.cells().items():
        ink, depth = _TINTS[r == c]
        shade = 0.05 + depth * math.log1p(n) / max_log
        looks.loc[r, str(c)] = f"background-color: rgba({ink}, {shade:.2f})"

    def open_cell() -> None:
        for row, column in st.session_state[key]["selection"]["cells"]:
            st.query_params["cell"] = f"{row}-{column}"

    # The key changes with the chosen cell, so that a click on any other cell is noticed.
    header, (row, _, column) = (
        [say.text("deid_measures_matrix_corner"), *columns, total],
        code.partition("-"),
    )
    st.dataframe(
        table.style.apply(lambda _: looks, axis=None).format(thousands=","),
        key=key,
        hide_index=True,
        height="content",
        column_config=dict(zip(map(str, table), header, strict=True)),
        on_select=open_cell,
        selection_mode="single-cell",
        alt=say.text("deid_measures_matrix_alt"),
        selection_default={"selection": {"cells": [(int(row), column)]}},
    )
    draw_remark(say, "deid_measures_matrix_caption")
    draw_csv_button(say, "deid_measures_matrix", header, table.to_numpy().tolist())


# Spans in context.


def draw_misses(say: Words, view: Score) -> None:
    """Draw the differences by kind and type, in pages, with their download."""
    draw_heading(say, "deid_measures_misses")
    is_readable = draw_switch(say, "deid_measures_readable_only", parameter="readable")
    left, right = st.columns([3, 2], gap="large", vertical_alignment="bottom")
    names = {str(place): label_name(say, label) for place, label in enumerate(view.labels)}
    with right:  # a link holds a label's number
        names = {EVERY_LABEL: say.text("deid_measures_every_label"), **names}
        code = choose(say, "deid_measures_label", names, is_long=True)
    label, cases = (
        "" if code == EVERY_LABEL else view.labels[int(code)],
        cached.cases(view.score_id),
    )
    kinds: tuple[str, ...] = ()
    if is_readable:
        visible_cases = [case for case in find_readable(cases) if label in ("", case.row)]
    else:
        with left:
            kinds = choose_some(
                say, "deid_measures_kind", list(map(_code, MISSES)), parameter="kinds"
            )
        visible_cases = [
            case
            for case in cases
            if _code(case.kind) in kinds and label in ("", case.row, case.column)
        ]
    key = "_".join(("deid_measures_misses", code, *kinds))
    draw_cases(say, visible_cases, key=key, score_id=view.score_id)


def _code(kind: str) -> str:
    return kind.replace(" ", "_")


def draw_cases(say: Words, cases: Sequence[SpanCase], *, key: str, score_id: str) -> None:
    """Draw a page of cases with a pager, and the download of all cases.

    Text stays hidden until names are revealed.
    """
    if not cases:
        draw_remark(say, "deid_measures_no_spans")
        return
    is_open, n = is_revealed(), len(cases)
    with paginate("deid_measures", n, selection=(key, score_id, n), per_page=PER_PAGE) as page_rows:
        first, last = f"{page_rows.start + 1:,}", f"{page_rows.stop:,}"
        draw_remark(say, "deid_measures_shown", first=first, last=last, n=f"{n:,}")
        if is_open:
            log_action("opened", page=f"deid_score:{score_id}", what="misses")
        else:
            draw_remark(say, "deid_measures_hidden_hint")
        st.html("".join(_case(say, case, is_open=is_open) for case in cases[page_rows]))

    def make() -> bytes:
        file_cases = cases if is_open else [case.without_text() for case in cases]
        return ("\ufeff" + misses_csv(file_cases)).encode("utf-8", "surrogatepass")

    names = name_form()
    label = f"deid_measures_csv_{names}"
    draw_file_button(say, key, make, label=label, file_kind="misses", names=names, n_spans=n)


def _case(say: Words, case: SpanCase, *, is_open: bool) -> str:
    facts = [
        say.text(f"deid_measures_kind_{_code(case.kind)}"),
        f"{label_name(say, case.row)} → {label_name(say, case.column)}",
        say.text("deid_measures_note", n=f"{case.note + 1:,}"),
        *((case.doc_id,) if is_open else ()),
    ]
    sides = (("gold", case.gold, case.row), ("predicted", case.predicted, case.column))
    columns = "".join(
        f"<div><h3>{say.html(f'deid_measures_side_{side}')}</h3>"
        f"{_side(say, case, span, label=label, is_open=is_open)}</div>"
        for side, span, label in sides
    )
    css_class = " ka-found" if case.kind == MISSED else ""
    top = escape_html(" · ".join(facts))
    return f'<div class="ka-pair{css_class}"><p>{top}</p><div>{columns}</div></div>'


def _side(
    say: Words, case: SpanCase, span: tuple[int, int] | None, *, label: str, is_open: bool
) -> str:
    why, names = "", cached.list_finder(None)
    if span is None:
        reason = "nothing" if label in (MISSED, SPURIOUS) else "nowhere"
        why = f'<p class="ka-below">{say.html(f"deid_measures_why_{reason}")}</p>'
        text = note_html(case.text, names=names) if is_open else ""
    elif is_open:
        left_text, slot, _ = case.split_text(span)
        place = Hit(len(left_text), len(left_text) + len(slot), "full", ())
        tone, words = "patient" if case.kind == MISSED else "other", label_name(say, label)
        text = note_html(
            case.text, names=names, marks=[place], label=lambda _: MarkLabel(words, tone)
        )
    else:
        text = say.html("deid_measures_hidden", n=span[1] - span[0])
    return note_box(text) + why


# Comparisons: scores of the same notes, two scores, and the paper's.


def draw_compare(say: Words, view: Score) -> None:
    """Draw all scores on the same gold side by side, and this score beside another one by type."""
    draw_heading(say, "deid_measures_compare")
    same_gold = [
        score
        for score in cached.scores()
        if score.gold_digest == view.gold_digest and score.score_id != view.score_id
    ]
    if not same_gold:
        draw_absence(say, "deid_measures_compare_none")
        return
    other_names = {score.score_id: score_name(say, score) for score in same_gold[:MAX_COMPARED]}
    chosen = choose_some(say, "deid_measures_others", other_names, is_long=True)
    if len(same_gold) > MAX_COMPARED:
        draw_remark(say, "deid_measures_newest", n=MAX_COMPARED, all=f"{len(same_gold):,}")
    draw_all(say, cached.score_comparisons((view.score_id, *chosen)))
    draw_heading(say, "deid_measures_pair")
    draw_pair(say, view, {score_id: other_names[score_id] for score_id in chosen})


def draw_all(say: Words, comparison: Comparison) -> None:
    """Draw what several taggers find and take out, as a chart, a table and pairs."""
    names = _distinct_names(say, comparison.scores)
    share_places = {share: place for place, share in enumerate(SHARES)}
    point_groups = [
        replace(
            charts.point_series(
                name,
                [100 * sides[share_places["harmless"]].value],
                [sides[share_places["covered"]]],
                scale=100,
                is_attack=not place,
                symbol=_SYMBOLS[place],
                hover="%{x:.1f} % → %{y:.1f} %",
            ),
            left=[100 * sides[share_places["harmless"]].low],
            right=[100 * sides[share_places["harmless"]].high],
        )
        for place, (name, sides) in enumerate(zip(names, comparison.shares.sides, strict=True))
    ]
    x, y = (
        Axis(say.text(f"deid_measures_share_{share}"), suffix=" %")
        for share in ("harmless", "covered")
    )
    draw_chart(say, "deid_measures_all", charts.plot(point_groups[::-1], x=x, y=y), n=len(names))
    columns = [f"deid_measures_share_{share}" for share in SHARES]
    rows: list[Sequence[Content]] = []
    for name, score, counts, sides in zip(
        names, comparison.scores, comparison.counts, comparison.shares.sides, strict=True
    ):
        cells = [
            replace(
                cell,
                below=f"{cell.below}\n{_counts_text(n)}" if cell.below else "",
                tone="ka-narrow",
            )
            for cell, n in zip(map(estimate_cell, sides), counts, strict=True)
        ]
        pace = score.summary.n_documents / score.seconds if score.seconds else math.nan
        seconds = math.nan if score.seconds is None else score.seconds
        rows.append([name, *cells, decimal(seconds, digits=1), decimal(pace, digits=1)])
    header = ["deid_measures_tagger", *columns, "deid_measures_seconds", "deid_measures_pace"]
    draw_table(say, "deid_measures_all", Table(header, rows))
    pairs: list[Sequence[Content]] = [
        [names[first], names[second], *map(_points_cell, differences)]
        for (first, second), differences in comparison.shares.differences.items()
    ]
    draw_heading(say, "deid_measures_pairs")
    table = Table(["deid_measures_one", "deid_measures_minus", *columns], pairs, n_merged=1)
    draw_table(say, "deid_measures_pairs", table)


def _distinct_names(say: Words, scores: Sequence[Score]) -> list[str]:
    """Return the names of the predictions, with the date if two have the same name."""
    names = [predicted_name(say, score) for score in scores]
    return [
        f"{name} · {format_moment(score.created)}" if names.count(name) > 1 else name
        for name, score in zip(names, scores, strict=True)
    ]


def draw_pair(say: Words, view: Score, other_names: Mapping[str, str]) -> None:
    """Draw another score beside this one by type, and the spans that only one of them misses."""
    other_id = choose(say, "deid_measures_other", other_names, is_long=True)
    criterion = choose(say, "deid_measures_criterion", CRITERIA[::-1])
    comparison = cached.score_comparison(view.score_id, second=other_id, criterion=criterion)
    sides = {
        "first": (view.score_id, score_name(say, view), comparison.first_only),
        "second": (other_id, other_names[other_id], comparison.second_only),
    }
    names = {side: name for side, (_, name, _) in sides.items()}
    st.html("".join(blocks.line(say.text(f"deid_measures_{side}"), names[side]) for side in names))
    columns: Columns = {
        "deid_measures_label": [label_name(say, label) for label in comparison.lines],
        "deid_measures_n_gold": [n_gold for n_gold, _ in comparison.lines.values()],
        **{
            f"deid_measures_rate_{measure}": [
                _points_cell(line[place]) for _, line in comparison.lines.values()
            ]
            for place, measure in enumerate(ENTITY)
        },
    }
    draw_table(say, "deid_measures_compare", columns)
    counts = {side: f"{len(cases):,}" for side, (_, _, cases) in sides.items()}
    draw_heading(say, "deid_measures_only", both=f"{comparison.n_both:,}", **counts)
    side = choose(say, "deid_measures_only_who", tuple(sides))
    score_id, _, cases = sides[side]
    key = f"deid_measures_only_{side}_{other_id}_{criterion}"
    draw_cases(say, cases, key=key, score_id=score_id)


def _points_cell(difference: Estimate) -> Cell:
    """Return a difference in percentage points, with its sign."""
    percent_points = Estimate(
        *(100 * bound for bound in (difference.value, difference.low, difference.high))
    )
    cell = estimate_cell(percent_points, digits=1)
    return replace(cell, text="+" * (percent_points.value > 0) + cell.text)


def draw_paper(say: Words, view: Score) -> None:
    """Draw the rates of a score beside those of the paper, laid out as its tables."""
    criterion = choose(say, "deid_measures_criterion", CRITERIA[::-1])
    for table in lay_out_tables(view):
        if table.criterion != criterion:
            continue
        rows: list[Sequence[Content]] = []
        for row in table.rows:
            cells: list[Content] = []
            for rate, printed in zip(row.rates, row.printed, strict=True):
                cells += [estimate_cell(rate), table.format_printed(printed)]
            rows.append([label_name(say, row.label), row.n_gold, *cells])
        sides = [
            (f"deid_measures_rate_{measure}", f"deid_measures_paper_{side}")
            for measure in table.measures
            for side in ("own", "printed")
        ]
        measures = " · ".join(say.text(f"deid_measures_rate_{name}") for name in table.measures)
        draw_heading(say, "deid_measures_paper_table", number=table.number, measures=measures)
        header: list[str | tuple[str, str]] = [
            "deid_measures_label",
            "deid_measures_n_gold",
            *sides,
        ]
        draw_table(say, "deid_measures_paper", Table(header, rows), variant=table.number)
    if view.seconds is not None:
        pace = decimal(view.seconds / view.summary.n_documents, digits=3)
        draw_remark(say, "deid_measures_paper_seconds", seconds=pace)
    st.html(blocks.heading("", below=published_deid().source))


def draw_published(say: Words) -> None:
    """Draw the paper's tables in a folded section."""
    paper = published_deid()
    names = {label: label_name(say, label) for label in (*TYPES, MISSED, SPURIOUS)}
    with st.expander(say.text("deid_measures_published"), key="deid_measures_published"):
        for key, rates, measures, digits in (
            ("rates", paper.percent, ENTITY, 1),
            ("records", paper.records, RECORD, 2),
        ):
            rows: list[Sequence[Content]] = [
                [
                    names[label],
                    paper.n_gold[label],
                    *(f"{rate:.{digits}f} %" for name in CRITERIA for rate in rates[name][label]),
                ]
                for label in TYPES
            ]
            draw_remark(say, f"deid_measures_published_{key}")
            table = Table(_header(CRITERIA, measures), rows)
            draw_table(say, f"deid_measures_published_{key}", table)
        matrix: Columns = {
            "deid_measures_matrix_corner": [names[row] for row in (*TYPES, SPURIOUS)],
            **{
                names[column]: [paper.matrix[row].get(column, 0) for row in (*TYPES, SPURIOUS)]
                for column in (*TYPES, MISSED)
            },
        }
        draw_remark(say, "deid_measures_published_matrix")
        draw_table(say, "deid_measures_published_matrix", matrix)
        st.html(blocks.bullet_list(say.text(f"deid_measures_published_why_{i}") for i in (1, 2, 3)))
        st.html(blocks.heading("", below=paper.source))


PARTS = {
    "spans": draw_spans,
    "records": draw_records,
    "matrix": draw_matrix,
    "misses": draw_misses,
    "compare": draw_compare,
    "paper": draw_paper,
}
"""Part of a score, by its code in `?part=` -> the function that draws it."""
