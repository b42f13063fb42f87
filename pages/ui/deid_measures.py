"""The measures of De-identify: what stays readable, rates, notes, confusion, misses, comparison."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import pandas as pd
import streamlit as st

from audit.deid.score_report import (
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
    published_deid,
)
from audit.deid.scoring import ScoreTask
from audit.deid.span_matching import ANY, CRITERIA, MISSED, SPURIOUS
from audit.deid.span_metrics import ENTITY, RECORD, CriterionScore, LabelScore, MacroScore, Matrix
from audit.notes.spans import TYPES
from audit.report.documents import Hit
from audit.stats import Estimate, Rate
from audit.tables import decimal
from audit.words import Words
from pages.ui import blocks, cached, charts
from pages.ui.access import is_revealed, names_in_files, note
from pages.ui.blocks import (
    Cell,
    Verdict,
    day,
    escaped,
    measured,
    percent,
    percent_interval,
)
from pages.ui.charts import Axis
from pages.ui.deid_note import draw_copies
from pages.ui.deid_score import draw_ask
from pages.ui.display_names import label_name, policy_name, predicted_name, score_name
from pages.ui.form import act, choose, choose_kept, choose_some, paged, switch
from pages.ui.note_text import MarkLabel, box, note_html
from pages.ui.running import FollowedJobs
from pages.ui.section import (
    Table,
    csv_button,
    draw_chart,
    draw_table,
    empty,
    file_button,
    head,
    remark,
    removal,
)

EVERY = "every"
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "star", "cross", "pentagon", "hexagram")
MAX_COMPARED = len(_SYMBOLS) - 1
"""The newest scores of the same notes that one is compared with."""
PER_PAGE = 50
_TINTS = {True: ("125, 133, 144", 0.57), False: ("196, 85, 47", 0.75)}
"""Whether a cell of the matrix is right -> its colour, and how much deeper the largest is."""


def draw(say: Words) -> None:
    """Draw the measurement that the link names, or the newest; else how to make one."""
    remark(say, "deid_measures_below")
    if st.query_params.get("tagged") and not st.query_params.get("score"):
        st.query_params.setdefault("show", "new")
    if JOBS.draw(say):
        remark(say, "deid_measures_measuring")
    elif not (kept := cached.scores()):
        empty(say, "deid_measures_empty")
        _ask(say)
    elif choose(say, "deid_measures_view", ("kept", "new"), what="show") == "new":
        _ask(say)
    else:
        draw_kept(say, kept)
    draw_published(say)


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


def draw_kept(say: Words, kept: Sequence[Score]) -> None:
    """Draw the choice of a score, its headline, and the part that is chosen."""
    names = {one.score_id: score_name(say, one) for one in kept}
    score_id = choose_kept(say, "deid_measures_kept", names, what="score")
    view = SCORES.get(score_id)
    draw_headline(say, view)
    PARTS[choose(say, "deid_measures_part", tuple(PARTS))](say, view)

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
    leaks, few = found.readable.n_hits, "few" if found.is_few else "not_shown"
    state = "leak_found" if leaks else "none_found"
    what = "names" if found.label else "spans"
    facts = {
        "n_notes": view.summary.n_documents,
        "patients": view.summary.n_patients,
        "notes": found.notes.n_hits,
        "all_notes": found.notes.n_total,
    }

    def card(state: str, side: str, rate: Rate, interval: Estimate, *, footer: str) -> Verdict:
        counts = {"n": rate.n_hits, "total": rate.n_total, **facts}
        values = {name: f"{n:,}" for name, n in counts.items()}
        shares = {"share": percent(rate.value), "interval": percent_interval(interval)}
        parts = (f"{side}_eyebrow", f"{side}_{what}", f"{side}_sentence")
        texts = (say.text(f"deid_measures_{part}", **values, **shares) for part in parts)
        return Verdict(state, *texts, footer)

    readable, missed = found.readable, found.missed
    st.html(
        blocks.verdict_cards(
            [
                card(
                    "not_enough_evidence" if found.is_few else state,
                    "readable",
                    readable,
                    readable.interval(),
                    footer=say.text(f"deid_measures_{few}"),
                ),
                card("readable", "missed", missed, found.share, footer=""),
            ]
        )
    )

    def show_readable() -> None:
        place = str(view.labels.index(found.label)) if found.label in view.labels else EVERY
        st.query_params.update({"part": "misses", "readable": "1", "label": place})

    if leaks:
        key, icon = "deid_measures_show_readable", "visibility"
        act(say, key, kind="primary", icon=icon, on_click=show_readable, n=f"{leaks:,}")
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
        named = ", ".join(label_name(say, label) for label in types)
        lines.append(say.text("deid_measures_unseen_types", types=named))
    if kinds:
        named = ", ".join(say.sentences.get(f"deid_measures_unseen_{x}", x) for x in kinds)
        lines.append(say.text("deid_measures_unseen_kinds", kinds=named))
    if lines:
        st.html(blocks.bullet_list(lines))


# Rates of spans and of notes.


def draw_spans(say: Words, view: Score) -> None:
    """Draw precision, recall or F1 under the three criteria, and what else was counted."""
    measure = choose(say, "deid_measures_rate", ("recall", "precision", "f1"), what="measure")
    criteria = view.summary.criteria
    head(say, f"deid_measures_about_{measure}")
    remark(say, "deid_measures_criteria")
    series = {f"criterion_{name}": (criteria[name], measure) for name in reversed(CRITERIA)}
    _draw_chart(say, f"deid_measures_about_{measure}", series, axis=measure)
    differ = ", ".join(
        f"{say.text(f'deid_measures_criterion_{name}')} {one.n_pairs_differ:,}"
        for name, one in criteria.items()
    )
    table = rates_table(say, criteria, ENTITY)
    draw_table(say, "deid_measures_table", table, differ=differ)
    measures = (*ENTITY, *RECORD)
    rows = [
        [say.text(f"deid_measures_criterion_{name}"), *_rates([line], measures)]
        for name, line in view.summary.type_blind.items()
    ]
    head(say, "deid_measures_blind")
    header = ["deid_measures_criterion", *(f"deid_measures_rate_{one}" for one in measures)]
    draw_table(say, "deid_measures_blind", Table(header, rows))
    _draw_coverage(say, view.summary.coverage)
    if view.copies is None or view.verbatim is None:
        return
    head(say, "deid_measures_copies")
    draw_copies(say, view.copies)
    for key, found in (("aligned", view.summary), ("verbatim", view.verbatim)):
        shown = {HEADLINE_CRITERION: found.criteria[HEADLINE_CRITERION]}
        draw_table(say, f"deid_measures_{key}", rates_table(say, shown, ENTITY))


def draw_records(say: Words, view: Score) -> None:
    """Draw the shares of notes that are complete, clean and exact, under one criterion."""
    criterion = choose(say, "deid_measures_criterion", CRITERIA[::-1])
    shown = view.summary.criteria[criterion]
    head(say, "deid_measures_records")
    series = {f"rate_{measure}": (shown, measure) for measure in RECORD}
    _draw_chart(say, "deid_measures_records", series, axis="records")
    table = rates_table(say, {criterion: shown}, RECORD)
    draw_table(say, "deid_measures_records", table)


def _draw_chart(
    say: Words, key: str, series: Mapping[str, tuple[CriterionScore, str]], *, axis: str
) -> None:
    """Draw measures of criteria by label, the first one as the attack's."""
    shown, names = [], dict[float, str]()
    for place, (name, (of, measure)) in enumerate(series.items()):
        names = {row: label_name(say, label) for row, label in enumerate(of.lines)}
        shown.append(
            charts.points(
                say.text(f"deid_measures_{name}"),
                [row + 0.22 * (place - 1) for row in names],
                [line.estimate(measure) for line in of.lines.values()],
                scale=100,
                is_attack=place == 0,
                symbol=_SYMBOLS[place],
                hover="%{y:.1f} %",
            )
        )
    x = Axis("", ticks=names, range=(-0.5, len(names) - 0.5), has_grid=False)
    y = Axis(say.text(f"deid_measures_axis_{axis}"), range=(-3, 103), suffix=" %")
    draw_chart(say, key, charts.plot(shown, x=x, y=y))


def rates_table(
    say: Words, criteria: Mapping[str, CriterionScore], measures: Sequence[str]
) -> Table:
    """Return measures by label and their means, under each criterion, with what they are of."""
    rows = []
    for label, first in next(iter(criteria.values())).lines.items():
        lines = [one.lines[label] for one in criteria.values()]
        few = say.text("deid_measures_few_spans") if first.is_few else ""
        rows.append([Cell(label_name(say, label), few), first.n_gold, *_rates(lines, measures)])
    means = [one.macro for one in criteria.values()]
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
    """Return the measures of lines with their intervals and what they were counted from."""
    found = []
    for line, measure in product(lines, measures):
        cell = measured(line.estimate(measure))
        rate = line.rate(measure) if isinstance(line, LabelScore) else None
        counts = f"\n{_of(rate)}" if rate and cell.below else ""
        found.append(replace(cell, below=cell.below + counts, tone="ka-narrow"))
    return found


def _of(rate: Rate) -> str:
    return f"{rate.n_hits:,}/{rate.n_total:,}"


def _draw_coverage(say: Words, covered: CoverageScore) -> None:
    rows = [
        [
            label_name(say, label),
            *(f"{percent(x.value)} · {_of(x)}" for x in (line.whole_spans, line.characters)),
        ]
        for label, line in (*covered.labels.items(), (ANY, covered.together))
    ]
    left, over = (
        math.nan if one is None else one
        for one in (covered.left_per_1000_chars, covered.over_redaction)
    )
    head(say, "deid_measures_coverage")
    table = Table(("label", "whole", "characters"), rows)
    shares = {"left": decimal(left, digits=2), "over": percent(over)}
    draw_table(say, "deid_measures_coverage", table, **shares)


# The confusion matrix.


def draw_matrix(say: Words, view: Score) -> None:
    """Draw the matrix; a click on a cell, or a choice, shows its spans in context."""
    shown = view.summary.criteria[HEADLINE_CRITERION].matrix
    head(say, "deid_measures_matrix")
    cells = {f"{row}-{column}": cell for (row, column), cell in shown.cells().items()}
    if not cells:
        remark(say, "deid_measures_no_spans")
        return
    above = st.container()
    st.query_params.setdefault("cell", next(iter(cells)))
    names = {
        code: say.text(
            "deid_measures_cell_name",
            row=label_name(say, gold),
            column=label_name(say, said),
            n=f"{n:,}",
        )
        for code, (gold, said, n) in cells.items()
    }
    code = choose(say, "deid_measures_cell", names, is_long=True)
    with above:
        _draw_matrix(say, shown, code=code)
    found = [one for one in cached.cases(view.score_id) if (one.row, one.column) == cells[code][:2]]
    draw_cases(say, found, key=f"deid_measures_cell_{code}", score_id=view.score_id)


def _draw_matrix(say: Words, matrix: Matrix, *, code: str) -> None:
    """Draw the counts as a table whose cells can be chosen, tinted by their logarithm."""
    total, key = say.text("deid_measures_sum"), f"deid_measures_matrix_{code}"
    rows, columns = ([label_name(say, x) for x in side] for side in (matrix.rows, matrix.columns))
    # Labels are untrusted and need not differ: a column is called by its number.
    table = pd.DataFrame(list(matrix.rows.values()))
    most = math.log1p(table.to_numpy().max())
    table.loc[len(rows)] = table.sum()
    table[len(columns)] = table.sum(axis=1)
    table.insert(0, "", [*rows, total])
    table = table.rename(columns=str)
    looks = pd.DataFrame("", table.index, table.columns)
    for (r, c), (*_, n) in matrix.cells().items():
        ink, depth = _TINTS[r == c]
        shade = 0.05 + depth * math.log1p(n) / most
        looks.loc[r, str(c)] = f"background-color: rgba({ink}, {shade:.2f})"

    def chosen() -> None:
        for row, column in st.session_state[key]["selection"]["cells"]:
            st.query_params["cell"] = f"{row}-{column}"

    # Drawn anew with each cell, which is then the chosen one: another can be chosen again.
    header, (row, _, column) = (
        [say.text("deid_measures_matrix_corner"), *columns, total],
        code.partition("-"),
    )
    st.dataframe(
        table.style.apply(lambda _: looks, axis=None).format(thousands=","),
        key=key,
        hide_index=True,
        height="content",
        column_config=dict(zip(table, header, strict=True)),
        on_select=chosen,
        selection_mode="single-cell",
        alt=say.text("deid_measures_matrix_alt"),
        selection_default={"selection": {"cells": [(int(row), column)]}},
    )
    remark(say, "deid_measures_matrix_caption")
    csv_button(say, "deid_measures_matrix", header, table.to_numpy().tolist())


# Spans in context.


def draw_misses(say: Words, view: Score) -> None:
    """Draw every difference, by kind and type, page by page, with its download."""
    head(say, "deid_measures_misses")
    is_readable = switch(say, "deid_measures_readable_only", what="readable")
    left, right = st.columns([3, 2], gap="large", vertical_alignment="bottom")
    names = {str(place): label_name(say, one) for place, one in enumerate(view.labels)}
    with right:  # a link holds a label's number
        names = {EVERY: say.text("deid_measures_every_label"), **names}
        code = choose(say, "deid_measures_label", names, is_long=True)
    label, cases = "" if code == EVERY else view.labels[int(code)], cached.cases(view.score_id)
    kinds: tuple[str, ...] = ()
    if is_readable:
        shown = [one for one in find_readable(cases) if label in ("", one.row)]
    else:
        with left:
            kinds = choose_some(say, "deid_measures_kind", list(map(_code, MISSES)), what="kinds")
        shown = [
            one for one in cases if _code(one.kind) in kinds and label in ("", one.row, one.column)
        ]
    key = "_".join(("deid_measures_misses", code, *kinds))
    draw_cases(say, shown, key=key, score_id=view.score_id)


def _code(kind: str) -> str:
    return kind.replace(" ", "_")


def draw_cases(say: Words, cases: Sequence[SpanCase], *, key: str, score_id: str) -> None:
    """Draw a page of cases with a pager, and the download of all of them.

    Text stays hidden until names are revealed.
    """
    if not cases:
        remark(say, "deid_measures_no_spans")
        return
    is_open, n = is_revealed(), len(cases)
    with paged("deid_measures", n, of=(key, score_id, n), per_page=PER_PAGE) as at:
        first, last = f"{at.start + 1:,}", f"{at.stop:,}"
        remark(say, "deid_measures_shown", first=first, last=last, n=f"{n:,}")
        if is_open:
            note("opened", page=f"deid_score:{score_id}", what="misses")
        else:
            remark(say, "deid_measures_hidden_hint")
        st.html("".join(_case(say, case, is_open=is_open) for case in cases[at]))

    def make() -> bytes:
        shown = cases if is_open else [one.without_text() for one in cases]
        return ("\ufeff" + misses_csv(shown)).encode("utf-8", "surrogatepass")

    names = names_in_files()
    label = f"deid_measures_csv_{names}"
    file_button(say, key, make, label=label, what="misses", names=names, n_spans=n)


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
    found = " ka-found" if case.kind == MISSED else ""
    top = escaped(" · ".join(facts))
    return f'<div class="ka-pair{found}"><p>{top}</p><div>{columns}</div></div>'


def _side(
    say: Words, case: SpanCase, span: tuple[int, int] | None, *, label: str, is_open: bool
) -> str:
    why, names = "", cached.list_finder(None)
    if span is None:
        reason = "nothing" if label in (MISSED, SPURIOUS) else "nowhere"
        why = f'<p class="ka-below">{say.html(f"deid_measures_why_{reason}")}</p>'
        text = note_html(case.text, names=names) if is_open else ""
    elif is_open:
        before, slot, _ = case.split_text(span)
        place = Hit(len(before), len(before) + len(slot), "full", ())
        tone, words = "patient" if case.kind == MISSED else "other", label_name(say, label)
        text = note_html(
            case.text, names=names, marks=[place], label=lambda _: MarkLabel(words, tone)
        )
    else:
        text = say.html("deid_measures_hidden", n=span[1] - span[0])
    return box(text) + why


# Scores of the same notes, two of them, and the paper's.


def draw_compare(say: Words, view: Score) -> None:
    """Draw the scores on the same gold side by side, and this one beside one of them by type."""
    head(say, "deid_measures_compare")
    same = [
        one
        for one in cached.scores()
        if one.gold_digest == view.gold_digest and one.score_id != view.score_id
    ]
    if not same:
        empty(say, "deid_measures_compare_none")
        return
    others = {one.score_id: score_name(say, one) for one in same[:MAX_COMPARED]}
    chosen = choose_some(say, "deid_measures_others", others, is_long=True)
    if len(same) > MAX_COMPARED:
        remark(say, "deid_measures_newest", n=MAX_COMPARED, all=f"{len(same):,}")
    draw_all(say, cached.all_compared((view.score_id, *chosen)))
    head(say, "deid_measures_pair")
    draw_pair(say, view, {score_id: others[score_id] for score_id in chosen})


def draw_all(say: Words, found: Comparison) -> None:
    """Draw what several taggers find and take out, as a picture and a table, and each pair."""
    names = _names(say, found.scores)
    at = {share: place for place, share in enumerate(SHARES)}
    shown = [
        replace(
            charts.points(
                name,
                [100 * sides[at["harmless"]].value],
                [sides[at["covered"]]],
                scale=100,
                is_attack=not place,
                symbol=_SYMBOLS[place],
                hover="%{x:.1f} % → %{y:.1f} %",
            ),
            left=[100 * sides[at["harmless"]].low],
            right=[100 * sides[at["harmless"]].high],
        )
        for place, (name, sides) in enumerate(zip(names, found.shares.sides, strict=True))
    ]
    x, y = (
        Axis(say.text(f"deid_measures_share_{share}"), suffix=" %")
        for share in ("harmless", "covered")
    )
    draw_chart(say, "deid_measures_all", charts.plot(shown[::-1], x=x, y=y), n=len(names))
    columns = [f"deid_measures_share_{share}" for share in SHARES]
    rows = []
    for name, score, counts, sides in zip(
        names, found.scores, found.counts, found.shares.sides, strict=True
    ):
        cells = [
            replace(cell, below=f"{cell.below}\n{_of(n)}" if cell.below else "", tone="ka-narrow")
            for cell, n in zip(map(measured, sides), counts, strict=True)
        ]
        pace = score.summary.n_documents / score.seconds if score.seconds else math.nan
        seconds = math.nan if score.seconds is None else score.seconds
        rows.append([name, *cells, decimal(seconds, digits=1), decimal(pace, digits=1)])
    header = ["deid_measures_tagger", *columns, "deid_measures_seconds", "deid_measures_pace"]
    draw_table(say, "deid_measures_all", Table(header, rows))
    pairs = [
        [names[first], names[second], *map(_points, differences)]
        for (first, second), differences in found.shares.differences.items()
    ]
    head(say, "deid_measures_pairs")
    table = Table(["deid_measures_one", "deid_measures_minus", *columns], pairs, n_merged=1)
    draw_table(say, "deid_measures_pairs", table)


def _names(say: Words, scores: Sequence[Score]) -> list[str]:
    """Return what each was measured of, with the date where two are called the same."""
    names = [predicted_name(say, one) for one in scores]
    return [
        f"{name} · {day(one.created)}" if names.count(name) > 1 else name
        for name, one in zip(names, scores, strict=True)
    ]


def draw_pair(say: Words, view: Score, others: Mapping[str, str]) -> None:
    """Draw another score beside this one by type, and what only one of them misses."""
    other = choose(say, "deid_measures_other", others, is_long=True)
    criterion = choose(say, "deid_measures_criterion", CRITERIA[::-1])
    found = cached.compared(view.score_id, second=other, criterion=criterion)
    sides = {
        "first": (view.score_id, score_name(say, view), found.first_only),
        "second": (other, others[other], found.second_only),
    }
    names = {who: name for who, (_, name, _) in sides.items()}
    st.html("".join(blocks.line(say.text(f"deid_measures_{who}"), names[who]) for who in names))
    columns = {
        "deid_measures_label": [label_name(say, label) for label in found.lines],
        "deid_measures_n_gold": [n_gold for n_gold, _ in found.lines.values()],
    } | {
        f"deid_measures_rate_{measure}": [_points(line[place]) for _, line in found.lines.values()]
        for place, measure in enumerate(ENTITY)
    }
    draw_table(say, "deid_measures_compare", columns)
    counts = {who: f"{len(cases):,}" for who, (_, _, cases) in sides.items()}
    head(say, "deid_measures_only", both=f"{found.n_both:,}", **counts)
    who = choose(say, "deid_measures_only_who", tuple(sides))
    score_id, _, cases = sides[who]
    key = f"deid_measures_only_{who}_{other}_{criterion}"
    draw_cases(say, cases, key=key, score_id=score_id)


def _points(difference: Estimate) -> Cell:
    """Return a difference in percentage points, with its sign."""
    of = Estimate(*(100 * one for one in (difference.value, difference.low, difference.high)))
    cell = measured(of, digits=1)
    return replace(cell, text="+" * (of.value > 0) + cell.text)


def draw_published(say: Words) -> None:
    """Draw the paper's tables, closed until somebody wants to see them."""
    paper = published_deid()
    names = {label: label_name(say, label) for label in (*TYPES, MISSED, SPURIOUS)}
    with st.expander(say.text("deid_measures_published"), key="deid_measures_published"):
        for key, of, measures, digits in (
            ("rates", paper.percent, ENTITY, 1),
            ("records", paper.records, RECORD, 2),
        ):
            rows = [
                [
                    names[label],
                    paper.n_gold[label],
                    *(f"{value:.{digits}f} %" for name in CRITERIA for value in of[name][label]),
                ]
                for label in TYPES
            ]
            remark(say, f"deid_measures_published_{key}")
            table = Table(_header(CRITERIA, measures), rows)
            draw_table(say, f"deid_measures_published_{key}", table)
        matrix = {"deid_measures_matrix_corner": [names[row] for row in (*TYPES, SPURIOUS)]} | {
            names[column]: [paper.matrix[row].get(column, 0) for row in (*TYPES, SPURIOUS)]
            for column in (*TYPES, MISSED)
        }
        remark(say, "deid_measures_published_matrix")
        draw_table(say, "deid_measures_published_matrix", matrix)
        st.html(blocks.bullet_list(say.text(f"deid_measures_published_why_{i}") for i in (1, 2, 3)))
        st.html(blocks.heading("", below=paper.source))


PARTS = {
    "spans": draw_spans,
    "records": draw_records,
    "matrix": draw_matrix,
    "misses": draw_misses,
    "compare": draw_compare,
}
"""Codes of what is shown of a score, as they stand in `?part=`."""
