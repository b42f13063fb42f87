"""The answer of a score: the headline, rates under three criteria, shares of notes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import streamlit as st

from audit.deid.copies import malformed_tags
from audit.deid.matching import ANY, CRITERIA
from audit.deid.metrics import ENTITY, RECORD, CriterionScore
from audit.deid.score import HEADLINE_CRITERION, Score
from audit.stats import NOTHING, Estimate
from pages.ui import blocks, charts
from pages.ui.blocks import Cell
from pages.ui.deid_score_charts import Series, rate_chart
from pages.ui.deid_score_tables import criteria_table, record_table, share_cell
from pages.ui.deid_score_words import label_name, rate_text, share_below
from pages.ui.language import Words
from pages.ui.measure_choice import choose
from pages.ui.text import UNDEFINED, decimal, percent, percent_interval


def draw_more(say: Words, view: Score) -> None:
    """Draw all of it that the score has."""
    _draw_blind(say, view)
    _draw_coverage(say, view)
    if view.copies is not None:
        _draw_copies(say, view)


def _draw_blind(say: Words, view: Score) -> None:
    header = [say.text("deid_measures_criterion")]
    header += [say.text(f"deid_measures_rate_{m}") for m in (*ENTITY, *RECORD)]
    rows = []
    for name, line in view.summary.type_blind.items():
        cells = [Cell(say.text(f"deid_measures_criterion_{name}"), is_number=False)]
        rows.append([*cells, *(share_cell(line, m, is_first=False) for m in (*ENTITY, *RECORD))])
    st.html(
        blocks.heading(say.text("deid_measures_blind"), below=say.text("deid_measures_blind_below"))
        + blocks.table(
            [[Cell(name, is_number=place > 0) for place, name in enumerate(header)]],
            rows,
            caption=say.text("deid_measures_blind_caption"),
        )
    )


def _draw_coverage(say: Words, view: Score) -> None:
    covered = view.summary.coverage
    header = [say.text(f"deid_measures_coverage_{key}") for key in ("label", "whole", "characters")]
    rows = [
        (label_name(say, label), rate_text(line.whole), rate_text(line.characters))
        for label, line in (*covered.labels.items(), (ANY, covered.together))
    ]
    caption = say.text(
        "deid_measures_coverage_caption",
        left=decimal(_number(covered.left_per_1000_chars), digits=2),
        over=percent(_number(covered.over_redaction)),
    )
    st.html(
        blocks.heading(
            say.text("deid_measures_coverage"), below=say.text("deid_measures_coverage_below")
        )
        + blocks.simple_table(header, rows, caption=caption)
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _draw_copies(say: Words, view: Score) -> None:
    assert view.copies is not None and view.verbatim is not None
    st.html(
        blocks.heading(
            say.text("deid_measures_copies"), below=say.text("deid_measures_copies_below")
        )
    )
    statuses = view.copies["statuses"]
    total = sum(statuses.values())
    rows = [
        (say.text(f"deid_measures_copy_{status}"), f"{n:,}", percent(n / total if total else 0.0))
        for status, n in statuses.items()
    ]
    header = [say.text(f"deid_measures_copies_{key}") for key in ("status", "n", "share")]
    rate = view.copies["pooled_error_rate"]
    caption = say.text(
        "deid_measures_copies_caption",
        rate=UNDEFINED if rate is None else percent(rate),
        malformed=f"{view.copies['n_malformed']:,}",
        unaligned=f"{view.copies['n_unaligned']:,}",
    )
    st.html(blocks.simple_table(header, rows, caption=caption))
    if tags := malformed_tags(view.copies):
        rows = [
            (say.text(f"deid_measures_tag_{kind}"), f"{of.n_hits:,}", percent(of.value))
            for kind, of in tags.items()
        ]
        header[:2] = say.text("deid_measures_tags_kind"), say.text("deid_measures_tags_n")
        n = f"{tags['n_empty'].n_total:,}"
        caption = say.text("deid_measures_tags_caption", n=n)
        st.html(blocks.simple_table(header, rows, caption=caption))
    labels = (*view.labels, "")
    for key, found in (("aligned", view.summary), ("verbatim", view.verbatim)):
        st.html(blocks.heading("", below=say.text(f"deid_measures_column_{key}")))
        st.html(
            criteria_table(
                say, {HEADLINE_CRITERION: found.criteria[HEADLINE_CRITERION]}, labels=labels
            )
        )


def draw_headline(say: Words, view: Score, *, show: Callable[[Score], None]) -> None:
    """Draw what stays readable, then what was missed altogether, and the way to the former.

    `show` turns the page to what stays readable.
    """
    head = view.headline
    what = "names" if head.label else "spans"
    if not head.missed.n_total:
        st.html(blocks.heading(say.text("deid_measures_headline_none")))
        return
    counts = {"all_notes": f"{head.notes.n_total:,}", "notes": f"{head.notes.n_hits:,}"}
    state = "leak_found" if head.readable.n_hits else "none_found_at_this_power"
    readable = blocks.Verdict(
        state="not_enough_evidence" if head.is_few else state,
        eyebrow=say.text("deid_measures_readable"),
        heading=say.text(
            f"deid_measures_readable_{what}",
            n=f"{head.readable.n_hits:,}",
            total=f"{head.readable.n_total:,}",
        ),
        sentence=say.text(
            "deid_measures_readable_more",
            share=percent(head.readable.value),
            interval=percent_interval(head.readable.interval()),
            n=f"{view.summary.n_documents:,}",
            patients=f"{view.summary.n_patients:,}",
        ),
        footer=say.text("deid_measures_few" if head.is_few else "deid_measures_not_shown"),
    )
    missed = blocks.Verdict(
        state="readable",
        eyebrow=say.text("deid_measures_eyebrow"),
        heading=say.text(
            "deid_measures_missed_n",
            n=f"{head.missed.n_hits:,}",
            total=f"{head.missed.n_total:,}",
        ),
        sentence=say.text(
            "deid_measures_headline_more",
            share=percent(head.share.value),
            interval=percent_interval(head.share),
            **counts,
        ),
        footer="",
    )
    st.html(blocks.verdict_cards([readable, missed]))
    if head.readable.n_hits:
        st.button(
            say.text("deid_measures_show_readable", n=f"{head.readable.n_hits:,}"),
            key="deid_measures_show_readable",
            icon=":material/visibility:",
            type="primary",
            on_click=show,
            args=(view,),
        )
    if remarks := _remarks(say, view):
        st.html(blocks.bullet_list(remarks))


def draw_spans(say: Words, view: Score) -> None:
    """Draw precision, recall and F1 under the three criteria."""
    measure = _measure(say, "measure", ENTITY)
    st.html(
        blocks.heading(
            say.text(f"deid_measures_about_{measure}"), below=say.text("deid_measures_criteria")
        )
    )
    labels = (*view.labels, "")
    series = [
        _series(say, name, view.summary.criteria[name], labels=labels, measure=measure)
        for name in reversed(CRITERIA)
    ]
    _chart(say, labels, series, measure=measure, key="deid_measures_spans")
    with st.expander(
        say.text("deid_measures_as_table"), key="deid_measures_spans_table", expanded=True
    ):
        st.html(criteria_table(say, view.summary.criteria, labels=labels))
    draw_more(say, view)


def draw_records(say: Words, view: Score) -> None:
    """Draw the shares of notes that are complete, clean and exact, under one criterion."""
    criterion = choose_criterion(say)
    shown = view.summary.criteria[criterion]
    labels = (*shown.labels, "")
    st.html(
        blocks.heading(
            say.text("deid_measures_records"), below=say.text("deid_measures_records_below")
        )
    )
    series = [
        Series(
            say.text(f"deid_measures_rate_{measure}"),
            tuple(_estimates(shown, labels, measure)),
            tuple(_texts(say, shown, labels, measure)),
            is_strong=measure == "complete",
        )
        for measure in RECORD
    ]
    _chart(say, labels, series, measure="records", key="deid_measures_record_chart")
    with st.expander(
        say.text("deid_measures_as_table"), key="deid_measures_records_table", expanded=True
    ):
        st.html(record_table(say, shown, labels=labels))


def choose_criterion(say: Words) -> str:
    """Draw the choice of a criterion, the paper's headline first, and return its code."""
    return choose(
        "criterion",
        tuple(reversed(CRITERIA)),
        label=say.text("deid_measures_criterion"),
        shown=lambda code: say.text(f"deid_measures_criterion_{code}"),
    )


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


def _measure(say: Words, what: str, measures: Sequence[str]) -> str:
    return choose(
        what,
        ("recall", *(m for m in measures if m != "recall")),
        label=say.text("deid_measures_measure"),
        shown=lambda code: say.text(f"deid_measures_rate_{code}"),
    )


def _series(
    say: Words, name: str, view: CriterionScore, *, labels: Sequence[str], measure: str
) -> Series:
    return Series(
        say.text(f"deid_measures_criterion_{name}"),
        tuple(_estimates(view, labels, measure)),
        tuple(_texts(say, view, labels, measure)),
        is_strong=name == HEADLINE_CRITERION,
    )


def _estimates(view: CriterionScore, labels: Sequence[str], measure: str) -> list[Estimate]:
    lines = [view.line(label) for label in labels]
    return [line.estimate(measure) if line else NOTHING for line in lines]


def _texts(say: Words, view: CriterionScore, labels: Sequence[str], measure: str) -> list[str]:
    found = []
    for label in labels:
        line = view.line(label)
        shown = UNDEFINED
        if line is not None:
            shown = f"{percent(line.estimate(measure).value)} · {share_below(line, measure)}"
        found.append(f"{label_name(say, label)}: {shown}")
    return found


def _chart(
    say: Words, labels: Sequence[str], series: Sequence[Series], *, measure: str, key: str
) -> None:
    rows = [label_name(say, label) for label in labels]
    st.plotly_chart(
        rate_chart(rows, series, axis=say.text(f"deid_measures_axis_{measure}")),
        config=charts.CONFIG,
        key=key,
        alt=say.text(f"deid_measures_alt_{measure}"),
    )
