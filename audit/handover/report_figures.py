"""Figures of a report: scores by kind, AUC with intervals, detection against mentions, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence

from audit.handover import svg
from audit.handover.report_blocks import figure, table
from audit.handover.report_language import ReportWords
from audit.view.name_view import KindScores
from audit.view.overview import MentionBin, Overview
from audit.written_numbers import (
    decimal,
    decimal_interval,
    percent,
    percent_interval,
    raised,
    small,
)

MAX_DOTS = 400
_WIDTH, _LEFT, _RIGHT = 720, 170, 700
_ROW = 46
_GOLDEN = 0.618033988749895


def scores_figure(view: Overview, *, words: ReportWords) -> str:
    """Return the scores of each kind of names: dots, the middle half, the median."""
    kinds = [kind for kind in view.kinds if kind.scores]
    if not kinds:
        return ""
    places = _Axis.of(kinds, is_log=view.is_log)
    bottom = 14 + _ROW * len(kinds)
    parts = places.drawn(bottom)
    for row, kind in enumerate(kinds):
        parts += _score_row(kind, words=words, axis=places, middle=14 + _ROW * (row + 0.5))
    axis = words.text(f"axis_{view.fixed_score}")
    parts.append(svg.label((_LEFT + _RIGHT) / 2, bottom + 36, axis, anchor="middle"))
    title = words.text("figure_scores")
    columns = ("kind", "n", "missing", "q1", "median", "q3")
    rows = [
        (
            words.text(f"kind_{kind.kind}"),
            str(len(kind.scores)),
            str(kind.n_not_scored),
            *(small(value) for value in kind.quartiles),
        )
        for kind in view.kinds
    ]
    return figure(
        title,
        below=words.text("figure_scores_below", n=MAX_DOTS),
        svg=svg.picture(parts, width=_WIDTH, height=bottom + 46, alt=title),
        table_title=words.text("as_table"),
        as_table=table([words.text(f"column_{c}") for c in columns], rows, caption=axis),
    )


def aucs_figure(view: Overview, *, words: ReportWords) -> str:
    """Return the AUC of the attack and of the general model alone against each kind of controls."""
    if not view.strata:
        return ""
    scale = svg.Scale(0.0, 1.0, _LEFT, _RIGHT)
    bottom = 14 + _ROW * len(view.strata)
    parts = [svg.line(scale(0.5), 10, scale(0.5), bottom, tone="dash")]
    rows = []
    for row, stratum in enumerate(view.strata):
        middle = 14 + _ROW * (row + 0.5)
        name = words.text(f"stratum_{stratum.stratum}")
        parts.append(svg.label(_LEFT - 12, middle + 4, name, anchor="end"))
        for ranking in stratum.rankings:
            if ranking.who == "popularity":
                continue
            is_attack = ranking.who == "attack"
            y = middle - 8 if is_attack else middle + 8
            tone, mark = ("rust", "rust") if is_attack else ("grey", "open")
            low, value, high = ranking.auc.low, ranking.auc.value, ranking.auc.high
            who = words.text("this_attack" if is_attack else "general_alone")
            rows.append((f"{name} · {who}", decimal(value), decimal_interval(ranking.auc)))
            if not math.isnan(low + high):
                parts.append(svg.line(scale(low), y, scale(high), y, tone=tone, width=3))
            if not math.isnan(value):
                parts.append(svg.dot(scale(value), y, tone=mark, radius=5))
    parts += _share_ticks(scale, bottom, [f"{k / 4:g}" for k in range(5)])
    parts.append(
        svg.label((_LEFT + _RIGHT) / 2, bottom + 36, words.text("axis_auc"), anchor="middle")
    )
    title = words.text("figure_aucs")
    return figure(
        title,
        below=words.text("figure_aucs_below"),
        svg=svg.picture(parts, width=_WIDTH, height=bottom + 46, alt=title),
        table_title=words.text("as_table"),
        as_table=table([words.text("against"), words.text("axis_auc"), "95 %"], rows),
    )


def mentions_figure(view: Overview, *, words: ReportWords) -> str:
    """Return the share of members that stand out against how often they are mentioned."""
    if not view.mentions:
        return ""
    scale = svg.Scale(0.0, 1.0, _LEFT, _RIGHT)
    bottom = 14 + _ROW * len(view.mentions)
    parts = []
    controls = view.controls_flagged.interval()
    if not math.isnan(controls.low + controls.high):
        parts.append(svg.band(scale(controls.low), 10, scale(controls.high), bottom, tone="faint"))
    for row, found in enumerate(view.mentions):
        y = 14 + _ROW * (row + 0.5)
        name = f"{bin_label(found)} ({words.text('n_of_bin', n=found.n_names)})"
        parts.append(svg.label(_LEFT - 12, y + 4, name, anchor="end"))
        if not math.isnan(found.share.value):
            low, high = scale(found.share.low), scale(found.share.high)
            parts.append(svg.line(low, y, high, y, tone="rust", width=3))
            parts.append(svg.dot(scale(found.share.value), y, tone="rust", radius=5))
    parts += _share_ticks(scale, bottom, [f"{25 * k}" for k in range(5)])
    axis = words.text("axis_share")
    parts.append(svg.label((_LEFT + _RIGHT) / 2, bottom + 36, axis, anchor="middle"))
    parts.append(svg.label(_LEFT - 12, bottom + 17, words.text("axis_mentions"), anchor="end"))
    title = words.text("figure_mentions")
    columns = ("mentions", "n", "flagged", "share")
    rows = [
        (
            bin_label(b), str(b.n_names), str(b.n_flagged),
            (percent(b.share.value), percent_interval(b.share)),
        )
        for b in view.mentions
    ]  # fmt: skip
    return figure(
        title,
        below=words.text("figure_mentions_below"),
        svg=svg.picture(parts, width=_WIDTH, height=bottom + 46, alt=title),
        table_title=words.text("as_table"),
        as_table=table([words.text(f"column_{c}") for c in columns], rows),
    )


def bin_label(of: MentionBin) -> str:
    """Return the bounds of a bin: "1", "3–4" or "10+"."""
    if of.high is None:
        return f"{of.low}+"
    return str(of.low) if of.low == of.high else f"{of.low}–{of.high}"


class _Axis:
    """Where scores are drawn; with `is_log` by their logarithm, and zeros a decade below."""

    def __init__(self, low: float, high: float, *, is_log: bool) -> None:
        self._is_log = is_log
        self._scale = svg.Scale(low, high, _LEFT, _RIGHT)

    @classmethod
    def of(cls, kinds: Sequence[KindScores], *, is_log: bool) -> _Axis:
        scores = [score for kind in kinds for score in kind.scores]
        if not is_log:
            margin = 0.03 * (max(scores) - min(scores) or 1.0)
            return cls(min(scores) - margin, max(scores) + margin, is_log=False)
        logs = [math.log10(score) for score in scores if score > 0] or [0.0]
        has_zero = any(score <= 0 for score in scores)
        low, high = math.floor(min(logs)) - has_zero, math.ceil(max(logs))
        return cls(low, max(high, low + 1), is_log=True)

    def __call__(self, score: float) -> float:
        if not self._is_log:
            return self._scale(score)
        return self._scale(math.log10(score) if score > 0 else self._scale.low)

    def drawn(self, bottom: float) -> list[str]:
        """Return the axis' lines and numbers."""
        parts = [svg.line(_LEFT, bottom, _RIGHT, bottom)]
        for value, text in self._ticks():
            x = self._scale(value)
            parts.append(svg.line(x, 10, x, bottom, tone="faint"))
            parts.append(svg.label(x, bottom + 17, text, anchor="middle", size=11))
        return parts

    def _ticks(self) -> list[tuple[float, str]]:
        low, high = self._scale.low, self._scale.high
        if self._is_log:
            step = max(1, math.ceil((high - low) / 8))
            return [
                (k, f"10{raised(k)}") for k in range(math.ceil(low), math.floor(high) + 1, step)
            ]
        step_size = 10.0 ** math.floor(math.log10((high - low) / 4))
        step_size *= next(k for k in (1, 2, 5, 10) if (high - low) / (k * step_size) <= 8)
        first, last = math.ceil(low / step_size), math.floor(high / step_size)
        return [(k * step_size, small(round(k * step_size, 10))) for k in range(first, last + 1)]


def _score_row(kind: KindScores, *, words: ReportWords, axis: _Axis, middle: float) -> list[str]:
    is_asked = kind.kind in ("member", "unknown", "planted")
    tone = "rust" if is_asked else "grey"
    low, median, high = (axis(value) for value in kind.quartiles)
    name = f"{words.text(f'kind_{kind.kind}')} ({len(kind.scores)})"
    parts = [svg.label(_LEFT - 12, middle + 4, name, anchor="end")]
    parts.append(svg.band(low, middle - 15, high, middle + 15, tone=f"{tone}-faint"))
    if len(kind.scores) <= MAX_DOTS:
        mark = tone if is_asked else "open"
        for i, score in enumerate(kind.scores):  # spread by their order: the same picture each time
            y = middle + 28 * ((i * _GOLDEN) % 1 - 0.5)
            parts.append(svg.dot(axis(score), y, tone=mark, radius=2.4))
    return [*parts, svg.line(median, middle - 17, median, middle + 17, tone="ink", width=3)]


def _share_ticks(scale: svg.Scale, bottom: float, texts: Sequence[str]) -> list[str]:
    parts = [svg.line(_LEFT, bottom, _RIGHT, bottom)]
    for k, text in enumerate(texts):
        x = scale(k / (len(texts) - 1))
        parts.append(svg.label(x, bottom + 17, text, anchor="middle", size=11))
    return parts
