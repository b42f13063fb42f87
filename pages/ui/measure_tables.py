"""Tables of the Measures page: rules with their counts, scores with their rankings, linking."""

from __future__ import annotations

import math
from collections.abc import Mapping

from audit.attack.decisions import Confusion
from audit.report.report import AuditReport, Linking, Ranking, Rule
from audit.report.threshold import RankedNames, Reached, RocView
from pages.ui.blocks import Cell, simple_table, table
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, decimal, decimal_interval, percent, percent_interval, small

_COUNTS = ("tp", "fn", "fp", "tn")
LOW_FPRS = (0.01, 0.001)
"""False-positive rates at which rankings are read here."""


def score_name(say: Words, score: str) -> str:
    """Return a score's name in words, with its unit."""
    return say.text(f"measures_score_{score}")


def rule_table(say: Words, report: AuditReport) -> str:
    """Return every rule against every kind of controls, as counts and rates, as HTML."""
    names = [
        *(say.text(f"measures_{count}") for count in _COUNTS),
        *(say.text(f"rate_{rate}") for rate in ("f1", "accuracy", "recall", "precision")),
        say.text("measures_rate_fpr"),
        say.text("measures_undecided"),
    ]
    header = [
        Cell(say.text("paper_controls"), is_number=False),
        Cell(say.text("measures_rule"), is_number=False),
        *(Cell(name) for name in names),
    ]
    rows = []
    for stratum, measured in report.measures.shown.items():
        lines = list(measured.judged(report.fixed_score))
        for place, line in enumerate(lines):
            first = [_stratum(say, stratum, n_rows=len(lines))] if not place else []
            rows.append([*first, *_rule_cells(say, *line)])
    return table([header], rows, caption=say.text("measures_rules_caption"))


def score_table(say: Words, report: AuditReport) -> str:
    """Return how every score ranks members against every kind of controls, as HTML."""
    header = [
        Cell(say.text("paper_controls"), is_number=False),
        Cell(say.text("measures_score"), is_number=False),
        *(
            Cell(say.text(f"measures_{key}"))
            for key in ("auc", "recall_1", "recall_01", "not_scored")
        ),
    ]
    rows = []
    for stratum, measured in report.measures.shown.items():
        lines = measured.ranked(report.fixed_score)
        for place, (score, ranking) in enumerate(lines.items()):
            first = [_stratum(say, stratum, n_rows=len(lines))] if not place else []
            below = "measures_fixed" if score == report.fixed_score else ""
            below = "measures_baseline" if score in measured.baselines else below
            below = say.text(below) if below else ""
            rows.append([*first, *_score_cells(say, score, ranking, below=below)])
    return table([header], rows, caption=say.text("measures_scores_caption"))


def confusion_table(say: Words, view: Reached, *, names: RankedNames) -> str:
    """Return the four counts at a threshold as HTML; without truth, the number flagged."""
    if view.counts is None:
        row = (
            say.text("kind_unknown"),
            str(view.flagged.n_hits),
            str(view.flagged.n_total - view.flagged.n_hits),
            percent(view.flagged.value),
            percent_interval(view.flagged.interval()),
        )
        rows = [row]
    else:
        counts = view.counts
        pairs = [
            ("kind_member", counts.tp, counts.fn, counts.recall),
            (_stratum_key(names.stratum), counts.fp, counts.tn, counts.false_positive_rate),
        ]
        rows = [
            (
                say.text(key),
                str(hit),
                str(miss),
                percent(rate.value),
                percent_interval(rate.interval()),
            )
            for key, hit, miss, rate in pairs
        ]
    header = [
        say.text(key)
        for key in (
            "column_kind", "measures_above", "measures_below_t", "column_share", "column_interval",
        )
    ]  # fmt: skip
    return simple_table(
        header, rows, caption=say.text("measures_confusion_caption", n=view.n_not_scored)
    )


def threshold_rates(say: Words, view: Reached, *, counts: Confusion) -> str:
    """Return the rates at a threshold with their intervals as HTML; the list must have truth."""
    pairs = [
        (say.text("rate_precision"), counts.precision.interval()),
        (say.text("rate_accuracy"), counts.accuracy.interval()),
        (say.text("rate_f1"), view.f1),
        (say.text("measures_ppv", share=percent(view.prevalence)), view.ppv),
    ]
    rows = [(name, percent(rate.value), percent_interval(rate)) for name, rate in pairs]
    header = [say.text(k) for k in ("measures_rate", "column_share", "column_interval")]
    return simple_table(header, rows, caption=say.text("measures_ppv_caption"))


def linking_table(say: Words, linking: Linking) -> str:
    """Return how often the own name fits best, beside chance and M_general alone, as HTML."""
    header = [
        Cell(say.text("measures_linked_by"), is_number=False),
        *(Cell(say.text(f"measures_{key}")) for key in ("top_1", "top_5", "median_rank")),
    ]
    rows = [
        [
            Cell(say.text(f"measures_by_{by}"), is_number=False),
            Cell(percent(top_1.value), _below(percent_interval(top_1))),
            Cell(percent(top_5.value), _below(percent_interval(top_5))),
            Cell(decimal(median_rank, digits=1)),
        ]
        for by, top_1, top_5, median_rank in linking.lines()
    ]
    return table([header], rows, caption=say.text("measures_linking_caption"))


def roc_table(say: Words, curve: RocView) -> str:
    """Return a curve's points as HTML."""
    header = [
        say.text("measures_rate_fpr"), say.text("rate_recall"), say.text("column_interval"),
    ]  # fmt: skip
    points = zip(curve.fpr, curve.tpr, curve.low, curve.high, strict=True)
    rows = [(percent(f), percent(t), f"{percent(a)} – {percent(b)}") for f, t, a, b in points]
    return simple_table(header, rows, caption=score_name(say, curve.score), n_text=0)


def curve_table(
    curve: Mapping[int, Mapping[str, float]], *, labels: Mapping[str, str], x: str, caption: str
) -> str:
    """Return what `curve_chart` draws as HTML; `x` is the first column's heading."""
    rows = [
        (f"{n:,}", *(decimal(found.get(code, math.nan)) for code in labels))
        for n, found in curve.items()
    ]
    return simple_table([x, *labels.values()], rows, caption=caption, n_text=0)


def p_value(p: float) -> str:
    """Return a p-value as text."""
    return small(p)


def _stratum(say: Words, stratum: str, *, n_rows: int) -> Cell:
    return Cell(say.text(_stratum_key(stratum)), is_number=False, n_rows=n_rows)


def _stratum_key(stratum: str) -> str:
    return "measures_controls" if stratum == "all" else f"kind_{stratum}"


def _rule_cells(say: Words, name: str, judges: str, rule: Rule) -> list[Cell]:
    if judges == "held_out":
        title = Cell(score_name(say, name), say.text("measures_held_out"), is_number=False)
    else:
        title = Cell(say.text(f"measures_rule_{name}"), is_number=False)
    found = rule.confusion
    rates = (rule.f1, found.accuracy, found.recall, found.precision, found.false_positive_rate)
    cells = [title, *(Cell(str(count)) for count in found.four)]
    cells += [Cell(percent(rate.value), _below(percent_interval(rate))) for rate in rates]
    if rule.n_undecided is None or rule.all_right is None or rule.all_wrong is None:
        return [*cells, Cell(UNDEFINED)]
    bounds = say.text("measures_bounds", low=rule.all_wrong.tp, high=rule.all_right.tp)
    return [*cells, Cell(str(rule.n_undecided), bounds)]


def _score_cells(say: Words, score: str, ranking: Ranking, *, below: str) -> list[Cell]:
    tprs = [ranking.tpr(fpr) for fpr in LOW_FPRS]
    return [
        Cell(score_name(say, score), below, is_number=False),
        Cell(decimal(ranking.auc.value), _below(decimal_interval(ranking.auc))),
        *(Cell(percent(tpr.value), _below(percent_interval(tpr))) for tpr in tprs),
        Cell(str(ranking.n_not_scored)),
    ]


def _below(text: str) -> str:
    return "" if text == UNDEFINED else text
