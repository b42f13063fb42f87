"""The tables of a leakage experiment as files: JSON, Markdown and CSV, without any name.

Torch-free.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from audit.experiment.deid_order import LeakageOrder
from audit.experiment.deid_rows import ALL, CAUGHT, LEFT, ArmRow, LeakRow, SplitRow
from audit.membership.plain import plain
from audit.rates import Estimate, Rate
from audit.tables import write_table
from audit.written_numbers import decimal

SCHEMA = 1
LEAKAGE_JSON, LEAKAGE_MD, LEAKAGE_CSV = "leakage.json", "leakage.md", "leakage.csv"
FILES = (LEAKAGE_JSON, LEAKAGE_MD, LEAKAGE_CSV)
_GROUP_WORDS = {ALL: "all", LEFT: "name left", CAUGHT: "name caught"}
_HEADER = (
    "arm", "mentions_left", "mentions", "scenario", "controls", "group", "n_members", "n_controls",
    "auc", "auc_low", "auc_high", "tpr_at_fpr_1", "tpr_at_fpr_10", "minus_raw", "minus_raw_low",
    "minus_raw_high", "minus_perfect", "minus_perfect_low", "minus_perfect_high", "flagged",
    "digest",
)  # fmt: skip


@dataclass(frozen=True)
class LeakageTables:
    """What a leakage experiment found.

    Attributes
    ----------
    order
        What was asked.
    n_notes, n_patients
        Of the demo hospital.
    arms, leaks, splits
        As `audit.experiment.deid_leakage` makes them.
    """

    order: LeakageOrder
    n_notes: int
    n_patients: int
    arms: tuple[ArmRow, ...]
    leaks: tuple[LeakRow, ...]
    splits: tuple[SplitRow, ...]

    def files(self) -> dict[str, bytes]:
        """Return the contents of the files, by name."""
        text = json.dumps(leakage_json(self), ensure_ascii=False, indent=1, allow_nan=False)
        return {
            LEAKAGE_JSON: f"{text}\n".encode(),
            LEAKAGE_MD: leakage_markdown(self).encode(),
            LEAKAGE_CSV: leakage_csv(self).encode(),
        }


def leakage_json(tables: LeakageTables) -> dict[str, Any]:
    """Return the tables as plain values; undefined numbers are None."""
    return {
        "schema": SCHEMA,
        "order": tables.order.to_json(),
        "n_notes": tables.n_notes,
        "n_patients": tables.n_patients,
        "arms": plain(tables.arms),
        "leaks": plain(tables.leaks),
        "splits": plain(tables.splits),
    }


def leakage_csv(tables: LeakageTables) -> str:
    """Return one line for each arm, scenario, kind of controls and group of patients."""
    arms = {arm.code: arm for arm in tables.arms}
    rows = []
    for row in tables.leaks:
        left = arms[row.code].left
        numbers = [
            row.auc.value, row.auc.low, row.auc.high, row.tpr_at_1.value, row.tpr_at_10.value,
            *_three(row.minus_raw), *_three(row.minus_perfect),
        ]  # fmt: skip
        rows.append(
            [row.code, left.n_hits, left.n_total, row.scenario, row.controls, row.group,
             row.n_members, row.n_controls, *map(_cell, numbers), row.flagged.n_hits, row.digest]
        )  # fmt: skip
    return write_table(_HEADER, rows)


def leakage_markdown(tables: LeakageTables) -> str:
    """Return the tables with 95 % intervals, as Markdown."""
    order = tables.order
    parts = [
        f"Demo hospital ({order.language}): {tables.n_notes:,} notes, {tables.n_patients} named "
        f"patients; mode {order.mode}, {order.epochs:g} epochs, seed {order.seed}.",
        "**What each arm replaces**",
        "\n".join(_arms(tables)),
    ]
    for scenario in order.scenarios:
        parts += [
            f"**Leakage against missed names: scenario {scenario}, AUC**",
            "\n".join(_leaks(tables, scenario=scenario)),
            f"**Patients whose name was left, and those whose name was caught: scenario "
            f"{scenario}, AUC**",
            "\n".join(_groups(tables, scenario=scenario)),
        ]
    parts.append(
        "In brackets 95 % intervals: bootstrap over names, DeLong for differences on the same "
        "names. One training an arm: the intervals know nothing of another seed. The attacker of "
        "scenario 2 holds the same passages in all arms, the name's place masked."
    )
    return "\n\n".join(parts) + "\n"


def _arms(tables: LeakageTables) -> Iterator[str]:
    yield from _head(
        ("Arm", "Mentions left", "of them in part", "Patients with a name left", "Doctors left",
         "Other text replaced", "Steps", "Loss, nats")
    )  # fmt: skip
    for arm in tables.arms:
        yield _line([
            arm.code, _rate(arm.left), str(arm.n_part), f"{arm.n_exposed} of {arm.n_patients}",
            f"{arm.n_staff - arm.n_staff_whole} of {arm.n_staff}",
            f"{100 * arm.other_chars:.1f} %", str(arm.n_steps), decimal(arm.loss, digits=2),
        ])  # fmt: skip


def _leaks(tables: LeakageTables, *, scenario: int) -> Iterator[str]:
    yield from _head(
        ("Arm", "Negatives", "AUC", "TPR at 1 % FPR", "TPR at 10 % FPR", "minus raw",
         "minus perfect", "q ≤ 0.05")
    )  # fmt: skip
    for row in tables.leaks:
        if row.scenario == scenario and row.group == ALL:
            yield _line([
                row.code, row.controls, _estimate(row.auc), _estimate(row.tpr_at_1),
                _estimate(row.tpr_at_10), _estimate(row.minus_raw), _estimate(row.minus_perfect),
                f"{row.flagged.n_hits} of {row.flagged.n_total}",
            ])  # fmt: skip


def _groups(tables: LeakageTables, *, scenario: int) -> Iterator[str]:
    yield from _head(
        ("Arm", "Negatives", "Patients", "n", "AUC", "minus raw", "minus perfect", "q ≤ 0.05")
    )
    splits = {split.code: split for split in tables.splits if split.scenario == scenario}
    for row in tables.leaks:
        if row.scenario != scenario or row.group == ALL or row.code not in splits:
            continue
        yield _line([
            row.code, row.controls, _GROUP_WORDS[row.group], str(row.n_members),
            _estimate(row.auc), _estimate(row.minus_raw), _estimate(row.minus_perfect),
            f"{row.flagged.n_hits} of {row.flagged.n_total}",
        ])  # fmt: skip
    for split in splits.values():
        yield _line([
            split.code, "caught patients", _GROUP_WORDS[LEFT], str(split.n_left),
            _estimate(split.auc), "", _estimate(split.difference), "",
        ])  # fmt: skip


def _head(cells: Sequence[str]) -> Iterator[str]:
    yield _line(cells)
    yield _line(["---"] * len(cells))


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(rate: Rate) -> str:
    return f"{rate.n_hits} of {rate.n_total} ({100 * rate.value:.1f} %)"


def _estimate(of: Estimate) -> str:
    if math.isnan(of.value):
        return "—"
    value, low, high = (decimal(number, digits=2) for number in (of.value, of.low, of.high))
    return f"{value} ({low} to {high})"


def _three(of: Estimate) -> tuple[float, float, float]:
    return of.value, of.low, of.high


def _cell(value: float) -> object:
    return "" if math.isnan(value) else value
