"""Planted names in a report: exposure in bits by number of mentions, beside the general model."""

from __future__ import annotations

import math

from audit.handover.report_blocks import Cell, heading, paragraph, table
from audit.handover.report_language import ReportWords
from audit.rates import Rate
from audit.report import AuditReport
from audit.view.exposure_view import ExposureGroup, ExposureView, ScoreExposure, exposure_view
from audit.written_numbers import decimal, decimal_interval, percent_interval, small


def canaries_part(report: AuditReport, *, words: ReportWords) -> str:
    """Return what the planted names show, or nothing where none were planted."""
    view = exposure_view(report)
    if view is None:
        return ""
    parts = [
        heading(words.text("canaries"), level=3),
        paragraph(words.text("canaries_below"), tone="soft"),
        paragraph(canary_sentence(view, words=words)),
    ]
    if not view.is_paired:
        n = {"planted": view.n_planted, "held_out": view.n_held_out}
        parts.append(paragraph(words.text("canaries_unpaired", **n), tone="soft"))
    if view.scores:
        parts += [_limit(view.scores[0], words=words), _table(view, words=words)]
    return "".join(parts)


def canary_sentence(view: ExposureView, *, words: ReportWords) -> str:
    """Return the one sentence on planted names, in the report's language."""
    return view.japanese if words.language == "ja" else view.english


def _limit(fixed: ScoreExposure, *, words: ReportWords) -> str:
    text = words.text(
        "canaries_limit",
        n=fixed.n_held_out,
        bits=decimal(fixed.max_bits, digits=2),
        p=small(fixed.smallest_p),
        chance=decimal(fixed.bits_without_leak, digits=2),
    )
    return paragraph(text, tone="soft")


def _table(view: ExposureView, *, words: ReportWords) -> str:
    rows = [
        _row(score, group, words=words)
        for score in view.scores
        if score.is_fixed or score.is_baseline
        for group in (*score.groups, score.whole)
    ]
    rows += [
        _row(score, score.whole, words=words)
        for score in view.scores
        if not (score.is_fixed or score.is_baseline)
    ]
    columns = ("score", "mentions", "n", "bits", "found", "twins", "p", "from")
    header = [words.text(f"canaries_{column}") for column in columns]
    return table(header, rows, caption=words.text("canaries_caption"), n_text=2)


def _row(score: ScoreExposure, group: ExposureGroup, *, words: ReportWords) -> list[Cell]:
    is_whole = group.n_mentions is None
    name = words.text("canaries_general") if score.is_baseline else score.score
    count = score.found_from.value
    reached = words.text("canaries_nowhere") if math.isinf(count) else f"{count:g}"
    return [
        name,
        words.text("canaries_all") if is_whole else str(group.n_mentions),
        str(group.n_names),
        (decimal(group.bits.value, digits=2), decimal_interval(group.bits, digits=2)),
        _rate(group.found),
        _rate(group.above_twin),
        small(group.above_twin_p),
        reached if is_whole else "",
    ]


def _rate(rate: Rate) -> Cell:
    return f"{rate.n_hits} / {rate.n_total}", percent_interval(rate.interval())
