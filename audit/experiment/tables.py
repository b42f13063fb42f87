"""The tables of an experiment as files: JSON, and Markdown in the paper's layout.

Comes in: an experiment's tables. Goes out: plain values and text, without any name. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from audit.experiment.results import ATTACKS, BINS, CONTROLS, SCORES
from audit.experiment.table_rows import ExperimentTables, MentionRow, RuleRow
from audit.membership.plain import plain
from audit.rates import Estimate, Rate
from audit.view.paper import published_tables
from audit.written_numbers import decimal

TABLES_JSON, TABLES_MD = "tables.json", "tables.md"
_ATTACK_WORDS = {"generation": "Generation", "masked_lm": "Masked LM"}
_PAPER = "paper"
_RULE_HEADER = (
    "Epochs", "Negatives", "Attack", "F1", "Accuracy", "Recall", "Precision", "TP", "FN", "FP", "TN"
)  # fmt: skip


def tables_json(tables: ExperimentTables) -> dict[str, Any]:
    """Return all tables as plain values; undefined numbers are None."""
    result = plain(tables)
    if not isinstance(result, dict):
        raise TypeError("no tables")
    return {"schema": 1, **result}


def tables_markdown(tables: ExperimentTables) -> str:
    """Return the tables in the paper's layout, with 95 % intervals, as Markdown."""
    parts = [
        _sizes(tables),
        *_titled("M_hospital along its training", _exposures(tables)),
        *_titled("Table 1. The paper's rules on M_hospital", _table1(tables)),
        "In brackets 95 % intervals: Wilson for accuracy, recall and precision, bootstrap over "
        "names for F1. The paper's own row has no intervals.",
        *_titled("Table 2. Scenario 1 with M_general in place of M_hospital", _table2(tables)),
        *_titled(
            "Table 3. Distinct patterns per name", _counts(tables.table3, what="Distinct patterns")
        ),
        *_titled("Table 4. Occurrences per name", _counts(tables.table4, what="Occurrences")),
    ]
    for attack in ATTACKS.values():
        title = f"Leakage by epochs: {_ATTACK_WORDS[attack]}, AUC"
        parts += _titled(title, _by_epochs(tables, attack=attack))
    for attack in ATTACKS.values():
        title = f"Leakage by mentions: {_ATTACK_WORDS[attack]}, AUC of `{_fixed(attack)}`"
        parts += _titled(title, _by_mentions(tables, attack=attack))
    if tables.canaries:
        parts += _titled("Canaries: names that were planted", _canaries(tables))
    return "\n\n".join(parts) + "\n"


def _sizes(tables: ExperimentTables) -> str:
    return (
        f"{tables.n_notes:,} notes of {tables.n_patients:,} patients; {tables.n_members} members, "
        f"{tables.n_passages} passages; {tables.n_inputs:,} inputs (masked LM), "
        f"{tables.n_documents:,} documents (generation); seed {tables.seed}."
    )


def _exposures(tables: ExperimentTables) -> Iterator[str]:
    yield from _head(("Epochs on D_private", *(_number(row.epochs) for row in tables.exposures)))
    yield _line(["Steps", *(str(row.step) for row in tables.exposures)])
    yield _line(["Training loss, nats", *(decimal(r.loss, digits=2) for r in tables.exposures)])


def _titled(title: str, lines: Iterable[str]) -> tuple[str, str]:
    return f"**{title}**", "\n".join(lines)


def _table1(tables: ExperimentTables) -> Iterator[str]:
    yield from _head(_RULE_HEADER)
    for controls in CONTROLS:
        for attack in ATTACKS.values():
            rows = [r for r in tables.table1 if (r.controls, r.attack) == (controls, attack)]
            yield from (_rule_line(row, epochs=_number(row.epochs)) for row in rows)
            yield from _published(controls, attack=attack, model="hospital")
    for row in tables.always_member:
        yield _rule_line(row, epochs="—", attack="always “member”")


def _table2(tables: ExperimentTables) -> Iterator[str]:
    last = max(row.epochs for row in tables.table1)
    yield from _head(("Model", *_RULE_HEADER[1:]))
    for controls in CONTROLS:
        for row in tables.table2:
            if row.controls == controls:
                yield _rule_line(row, epochs="M_general")
        for row in tables.table1:
            if (row.epochs, row.controls, row.attack) == (last, controls, "generation"):
                yield _rule_line(row, epochs=f"M_hospital, {_number(last)} epochs")
        yield from _published(controls, attack="generation", model="general")


def _rule_line(row: RuleRow, *, epochs: str, attack: str = "") -> str:
    counts = row.confusion
    rates = (counts.accuracy, counts.recall, counts.precision)
    return _line(
        [
            epochs, row.controls.capitalize(), attack or _ATTACK_WORDS[row.attack],
            _estimate(row.f1, digits=3), *(_rate(rate) for rate in rates),
            *map(str, (counts.tp, counts.fn, counts.fp, counts.tn)),
        ]
    )  # fmt: skip


def _published(controls: str, *, attack: str, model: str) -> Iterator[str]:
    row = published_tables().row(controls=controls, attack=attack, model=model)
    if row is not None:
        rates = (row.f1, row.accuracy, row.recall, row.precision)
        counts = [str(n) for n in row.counts] if row.counts else ["—"] * 4
        who = _PAPER if model == "hospital" else f"{_PAPER}, M_{model}"
        cells = [who, controls.capitalize(), _ATTACK_WORDS[attack]]
        yield _line([*cells, *(f"{rate:.4f}" for rate in rates), *counts])


def _counts(table: Sequence[tuple[int, int]], *, what: str) -> Iterator[str]:
    yield from _head((what, *(str(count) for count, _ in table), "all"))
    n_names, n_total = sum(n for _, n in table), sum(count * n for count, n in table)
    yield _line(["Names", *(str(n) for _, n in table), f"{n_names} ({n_total})"])


def _by_epochs(tables: ExperimentTables, *, attack: str) -> Iterator[str]:
    rows = {
        (row.epochs, row.controls, row.score): row.auc
        for row in tables.rankings
        if row.attack == attack
    }
    scores = list(dict.fromkeys(score for _, _, score in rows))
    yield from _head(("Epochs", "Negatives", *(f"`{s}`" for s in scores), "Members, q ≤ 0.05"))
    for found in (each for each in tables.found if each.attack == attack):
        for controls in CONTROLS:
            if (found.epochs, controls, scores[0]) in rows:
                aucs = (_estimate(rows[found.epochs, controls, s], digits=2) for s in scores)
                flagged = f"{found.members.n_hits} of {found.members.n_total}"
                yield _line([_number(found.epochs), controls.capitalize(), *aucs, flagged])


def _by_mentions(tables: ExperimentTables, *, attack: str) -> Iterator[str]:
    rows = [row for row in tables.mentions if row.attack == attack]
    bins = [each for each in BINS if any((r.low, r.high) == each for r in rows)]
    n_names = {(r.low, r.high): r.flagged.n_total for r in rows}
    heads = (f"{_bin(low, high)} (n = {n_names[low, high]})" for low, high in bins)
    yield from _head(("Epochs", "Negatives", *heads))
    for epochs, controls in dict.fromkeys((r.epochs, r.controls) for r in rows):
        found = {(r.low, r.high): r for r in rows if (r.epochs, r.controls) == (epochs, controls)}
        yield _line(
            [_number(epochs), controls.capitalize(), *(_mention(found.get(b)) for b in bins)]
        )


def _canaries(tables: ExperimentTables) -> Iterator[str]:
    yield from _head(
        ("Epochs", "Attack", "Mentions", "Exposure, bits", "At most", "p ≤ 0.05", "Above the twin")
    )
    for row in tables.canaries:
        counts = (f"{rate.n_hits} of {rate.n_total}" for rate in (row.found, row.above_twin))
        bits = (_estimate(row.bits, digits=1), f"{row.max_bits:.1f}")
        where = (_number(row.epochs), _ATTACK_WORDS[row.attack], str(row.n_mentions))
        yield _line([*where, *bits, *counts])


def _mention(row: MentionRow | None) -> str:
    return "—" if row is None else _estimate(row.auc, digits=2)


def _fixed(attack: str) -> str:
    return next(SCORES[scenario][0] for scenario, name in ATTACKS.items() if name == attack)


def _bin(low: int, high: int | None) -> str:
    if high == low:
        return f"{low} mention{'s' if low > 1 else ''}"
    return f"{low} and more" if high is None else f"{low}–{high}"


def _head(cells: Sequence[str]) -> tuple[str, str]:
    return _line(cells), "|" + "---|" * len(cells)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(rate: Rate) -> str:
    interval = rate.interval()
    return _estimate(Estimate(rate.value, interval.low, interval.high), digits=3)


def _estimate(estimate: Estimate, *, digits: int) -> str:
    if math.isnan(estimate.value):
        return "—"
    value, low, high = (f"{x:.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low}–{high})"


def _number(epochs: float) -> str:
    return f"{epochs:g}"
