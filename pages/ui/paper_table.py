"""The audit in the layout of the paper's tables 1 and 2, the published figures beside it."""

from __future__ import annotations

from collections.abc import Mapping

from audit.report.published import (
    ATTACKS,
    PAPER_RULE,
    PAPER_RULE_ON_GENERAL,
    PublishedRow,
    PublishedTables,
)
from audit.report.report import AuditReport, Rule
from pages.ui.blocks import Cell, table
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, percent, percent_interval

RATES = ("f1", "accuracy", "recall", "precision")
STRATA = ("easy", "hard")
Measured = Mapping[tuple[str, str, str], Rule]
"""(controls, attack, model) -> what the paper's rule reaches in this audit."""


def measured(reports: list[AuditReport]) -> dict[tuple[str, str, str], Rule]:
    """Return what the paper's rules reach in both scenarios' audits."""
    found = {}
    for report in reports:
        number = report.scenario.number
        for controls, stratum in report.measures.strata.items():
            rules = {
                "hospital": stratum.rules.get(PAPER_RULE[number]),
                "general": stratum.baseline_rules.get(PAPER_RULE_ON_GENERAL[number]),
                "always_member": stratum.always_member,
            }
            found |= {(controls, ATTACKS[number], m): rule for m, rule in rules.items() if rule}
    return found


def table_one(found: Measured, *, published: PublishedTables, words: Words) -> str:
    """Return table 1 as HTML: both attacks against both kinds of controls, and a trivial guess."""
    lines = [
        ("generation", "hospital", "paper_generation"),
        ("masked_lm", "hospital", "paper_masked_lm"),
        ("", "always_member", "paper_always"),
    ]
    rows = []
    for controls in STRATA:
        for place, (attack, model, key) in enumerate(lines):
            rule = _find(found, controls, attack, model)
            row = published.row(controls=controls, attack=attack, model=model)
            first = [_stratum_cell(controls, n_rows=len(lines), words=words)] if not place else []
            rows.append([*first, *_line(words.text(key), rule, row)])
    return table(
        _header(words, words.text("paper_attack")), rows, caption=words.text("paper_caption_1")
    )


def table_two(found: Measured, *, published: PublishedTables, words: Words) -> str:
    """Return table 2 as HTML: generation, with the general model in the hospital model's place."""
    lines = [("general", "paper_general"), ("hospital", "paper_hospital")]
    rows = []
    for controls in STRATA:
        for place, (model, key) in enumerate(lines):
            rule = found.get((controls, "generation", model))
            row = published.row(controls=controls, attack="generation", model=model)
            first = [_stratum_cell(controls, n_rows=len(lines), words=words)] if not place else []
            rows.append([*first, *_line(words.text(key), rule, row)])
    return table(
        _header(words, words.text("paper_model")), rows, caption=words.text("paper_caption_2")
    )


def _find(found: Measured, controls: str, attack: str, model: str) -> Rule | None:
    if attack:
        return found.get((controls, attack, model))
    guesses = (found.get((controls, known, model)) for known in ("masked_lm", "generation"))
    return next((guess for guess in guesses if guess), None)


def _stratum_cell(controls: str, *, n_rows: int, words: Words) -> Cell:
    return Cell(words.text(f"kind_{controls}"), is_number=False, n_rows=n_rows)


def _header(words: Words, what: str) -> list[list[Cell]]:
    rates = [words.text(f"rate_{rate}") for rate in RATES] + ["TP / FN / FP / TN"]
    return [
        [
            Cell(words.text("paper_controls"), is_number=False, n_rows=2),
            Cell(what, is_number=False, n_rows=2),
            Cell(words.text("paper_here"), n_columns=5, tone="ka-group"),
            Cell(words.text("paper_there"), n_columns=5, tone="ka-group"),
        ],
        [Cell(rate, tone="ka-first" if i == 0 else "") for i, rate in enumerate(rates)]
        + [Cell(rate, tone="ka-first" if i == 0 else "") for i, rate in enumerate(rates)],
    ]


def _line(label: str, rule: Rule | None, row: PublishedRow | None) -> list[Cell]:
    cells = [Cell(label, is_number=False)]
    for i, rate in enumerate(RATES):
        tone = "ka-first" if i == 0 else ""
        if rule is None:
            cells.append(Cell(UNDEFINED, tone=tone))
        else:
            estimate = rule.f1 if rate == "f1" else getattr(rule.confusion, rate)
            cells.append(Cell(percent(estimate.value), percent_interval(estimate), tone=tone))
    cells.append(Cell(_counts(rule.confusion.four if rule else None)))
    for i, rate in enumerate(RATES):
        tone = "ka-quiet ka-first" if i == 0 else "ka-quiet"
        cells.append(Cell(percent(getattr(row, rate)) if row else UNDEFINED, tone=tone))
    mark = "*" if row and row.implied else ""
    cells.append(Cell(_counts(row.four if row else None) + mark, tone="ka-quiet"))
    return cells


def _counts(counts: tuple[int, int, int, int] | None) -> str:
    return UNDEFINED if counts is None else " / ".join(map(str, counts))
