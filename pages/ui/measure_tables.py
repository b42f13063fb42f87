"""Tables of the Measures page: rules with their counts, scores with their rankings, linking."""

from __future__ import annotations

from collections.abc import Sequence

from audit.report.reading import CurveLine, Linking, MeasuresView, RuleLine, ScoreLine
from audit.report.threshold import RocView, ThresholdView
from pages.ui.blocks import Cell, simple_table, table
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, decimal, decimal_interval, percent, percent_interval, small

_COUNTS = ("tp", "fn", "fp", "tn")
_RATES = ("f1", "accuracy", "recall", "precision", "fpr")


def score_name(say: Words, score: str) -> str:
    """Return a score's name in words, with its unit."""
    return say.text(f"measures_score_{score}")


def rule_table(say: Words, view: MeasuresView) -> str:
    """Return every rule against every kind of controls, as counts and rates, as HTML."""
    names = [
        *(say.text(f"measures_{count}") for count in _COUNTS),
        *(say.text(f"rate_{rate}") for rate in _RATES[:4]),
        say.text("measures_rate_fpr"),
        say.text("measures_undecided"),
    ]
    header = [
        Cell(say.text("paper_controls"), is_number=False),
        Cell(say.text("measures_rule"), is_number=False),
        *(Cell(name) for name in names),
    ]
    rows = []
    for stratum in shown_strata(view):
        lines = [line for line in view.rules if line.stratum == stratum]
        for place, line in enumerate(lines):
            first = [_stratum(say, stratum, n_rows=len(lines))] if not place else []
            rows.append([*first, *_rule_cells(say, line)])
    return table([header], rows, caption=say.text("measures_rules_caption"))


def shown_strata(view: MeasuresView) -> tuple[str, ...]:
    """Return the kinds of controls that stand in tables: each kind, "all" where it is the only."""
    return tuple(s for s in view.strata if s != "all") or view.strata


def score_table(say: Words, view: MeasuresView) -> str:
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
    for stratum in shown_strata(view):
        lines = [line for line in view.scores if line.stratum == stratum]
        for place, line in enumerate(lines):
            first = [_stratum(say, stratum, n_rows=len(lines))] if not place else []
            rows.append([*first, *_score_cells(say, line)])
    return table([header], rows, caption=say.text("measures_scores_caption"))


def confusion_table(say: Words, view: ThresholdView) -> str:
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
            ("kind_member", counts.tp, counts.fn, view.recall),
            (_stratum_key(view.stratum), counts.fp, counts.tn, view.fpr),
        ]
        rows = [
            (say.text(key), str(hit), str(miss), percent(rate.value), percent_interval(rate))
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


def threshold_rates(say: Words, view: ThresholdView) -> str:
    """Return the rates at a threshold with their intervals as HTML; the list must have truth."""
    pairs = [
        (say.text("rate_precision"), view.precision),
        (say.text("rate_accuracy"), view.accuracy),
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
            Cell(say.text(f"measures_by_{line.by}"), is_number=False),
            Cell(percent(line.top_1.value), _below(percent_interval(line.top_1))),
            Cell(percent(line.top_5.value), _below(percent_interval(line.top_5))),
            Cell(decimal(line.median_rank, digits=1)),
        ]
        for line in linking.lines
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


def curve_table(say: Words, lines: Sequence[CurveLine], *, x: str) -> str:
    """Return AUCs by number of inputs or documents as HTML; `x` is the first column's heading."""
    header = [x, *(score_name(say, line.score) for line in lines)]
    columns = zip(*(line.auc for line in lines), strict=True)
    rows = [
        (f"{n:,}", *map(decimal, values))
        for n, values in zip(lines[0].n_units, columns, strict=True)
    ]
    return simple_table(header, rows, caption=say.text("measures_curve_alt"), n_text=0)


def p_value(p: float) -> str:
    """Return a p-value as text."""
    return small(p)


def _stratum(say: Words, stratum: str, *, n_rows: int) -> Cell:
    return Cell(say.text(_stratum_key(stratum)), is_number=False, n_rows=n_rows)


def _stratum_key(stratum: str) -> str:
    return "measures_controls" if stratum == "all" else f"kind_{stratum}"


def _rule_cells(say: Words, line: RuleLine) -> list[Cell]:
    if line.is_held_out:
        name = Cell(score_name(say, line.rule), say.text("measures_held_out"), is_number=False)
    else:
        name = Cell(say.text(f"measures_rule_{line.rule}"), is_number=False)
    cells = [name, *(Cell(str(getattr(line.counts, count))) for count in _COUNTS)]
    for rate in _RATES:
        estimate = getattr(line, rate)
        cells.append(Cell(percent(estimate.value), _below(percent_interval(estimate))))
    if line.n_undecided is None or line.best is None or line.worst is None:
        return [*cells, Cell(UNDEFINED)]
    bounds = say.text("measures_bounds", low=line.worst.tp, high=line.best.tp)
    return [*cells, Cell(str(line.n_undecided), bounds)]


def _score_cells(say: Words, line: ScoreLine) -> list[Cell]:
    below = say.text("measures_fixed") if line.is_fixed else ""
    if line.is_baseline:
        below = say.text("measures_baseline")
    return [
        Cell(score_name(say, line.score), below, is_number=False),
        Cell(decimal(line.auc.value), _below(decimal_interval(line.auc))),
        *(Cell(percent(tpr.value), _below(percent_interval(tpr))) for tpr in line.tprs),
        Cell(str(line.n_not_scored)),
    ]


def _below(text: str) -> str:
    return "" if text == UNDEFINED else text
