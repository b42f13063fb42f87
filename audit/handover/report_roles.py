"""Members by role in a report: each role against the same controls, on both models."""

from __future__ import annotations

import math

from audit.handover.report_blocks import Cell, heading, paragraph, table
from audit.handover.report_language import ReportWords
from audit.rates import Rate
from audit.report import AuditReport
from audit.view.role_view import role_lines
from audit.written_numbers import decimal, decimal_interval, percent_interval


def roles_part(report: AuditReport, *, words: ReportWords) -> str:
    """Return the table of roles, or nothing where the list has none."""
    lines = role_lines(report)
    if not lines:
        return ""
    rows: list[list[Cell]] = [
        [
            line.role or words.text("roles_none"),
            str(line.n_members),
            "" if math.isnan(line.median_mentions) else f"{line.median_mentions:g}",
            (decimal(line.auc.value), decimal_interval(line.auc)),
            (decimal(line.general_auc.value), decimal_interval(line.general_auc)),
            _rate(line.flagged),
            _rate(line.general_flagged),
        ]
        for line in lines
    ]
    columns = ("role", "members", "mentions", "auc", "general_auc", "flagged", "general_flagged")
    return "".join(
        (
            heading(words.text("roles"), level=3),
            paragraph(words.text("roles_below", n=lines[0].n_controls), tone="soft"),
            table([words.text(f"roles_{column}") for column in columns], rows),
        )
    )


def _rate(rate: Rate) -> Cell:
    return f"{rate.n_hits} / {rate.n_total}", percent_interval(rate.interval())
