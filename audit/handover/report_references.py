"""The same question with other reference models, side by side in a report."""

from __future__ import annotations

from audit.handover.report_blocks import Cell, heading, paragraph, table
from audit.handover.report_language import ReportWords
from audit.view.reference_view import ReferenceView
from audit.written_numbers import decimal, decimal_interval, percent, percent_interval


def references_part(view: ReferenceView | None, *, words: ReportWords) -> str:
    """Return the references beside each other, or nothing where only one was used."""
    if view is None or not view.differences:
        return ""
    rows: list[list[Cell]] = [
        [
            (line.name, words.text("references_own") if line.is_own else line.digest[:8]),
            words.text(f"state_{line.state}"),
            words.text(f"stratum_{one.stratum}"),
            f"{one.n_members} / {one.n_controls}",
            (decimal(one.auc.value), decimal_interval(one.auc)),
            (decimal(one.alone.value), decimal_interval(one.alone)),
            (percent(one.recall.value), percent_interval(one.recall)),
            (percent(one.fpr.value), percent_interval(one.fpr)),
        ]
        for line in view.lines
        for one in line.strata
    ]
    columns = ("name", "verdict", "controls", "n", "auc", "alone", "recall", "fpr")
    header = [words.text(f"references_{column}") for column in columns]
    return "".join(
        (
            heading(words.text("references"), level=3),
            paragraph(words.text("references_below"), tone="soft"),
            table(header, rows, n_text=3),
            _differences(view, words=words),
        )
    )


def _differences(view: ReferenceView, *, words: ReportWords) -> str:
    rows: list[list[Cell]] = []
    for one in view.differences:
        rows += [
            [
                (one.name, one.digest[:12]),
                words.text(f"stratum_{found.stratum}"),
                (decimal(found.difference.value), decimal_interval(found.difference)),
            ]
            for found in one.aucs
        ]
        share = (percent(one.flagged.value), percent_interval(one.flagged))
        rows.append([(one.name, one.digest[:12]), words.text("references_flagged"), share])
    header = [words.text(f"references_{key}") for key in ("name", "what", "difference")]
    return table(header, rows, caption=words.text("references_differences"), n_text=2)
