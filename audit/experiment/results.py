"""What an experiment found: the paper's tables 1 to 4, and leakage by epochs and by mentions.

Comes in: the audits' reports by exposure. Goes out: frozen values with intervals, never a name.
Torch-free.

Source: Nakamura et al., section 5 and appendix A. Differs: every rate has an interval, every
attack is also measured by its ranking, and M_general stands beside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from audit.curation.examination import Examination
from audit.experiment.table_rows import (
    CanaryRow,
    ExperimentTables,
    ExposureRow,
    FoundRow,
    MentionRow,
    RankingRow,
    RuleRow,
)
from audit.membership.confusion import Confusion
from audit.rates import Estimate, FloatArray, Rate, bootstrap_ranking
from audit.report import AuditReport

CONTROLS = ("easy", "hard")
ATTACKS = {1: "generation", 2: "masked_lm"}
RULES = {1: "name_occurs", 2: "difference_above_zero"}
"""The paper's rule of each scenario, as reports name it."""
GENERAL_RULE = "name_occurs_general"
SCORES = {
    1: ("product", "product_log_ratio", "hits"),
    2: ("mean_log_ratio", "log_ratio", "difference"),
}
"""The score fixed beforehand comes first."""
BASELINES = ("general_alone", "popularity")
BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None), (2, None))
"""Mentions from and to; the last bin holds every name that is mentioned more than once."""
ALPHA = 0.05
_N_REPLICATES = 2000


Reports = Mapping[tuple[float, int], AuditReport]
"""(epochs, number of the scenario) -> report."""


def tables_of(
    reports: Reports, *, examination: Examination, exposures: tuple[ExposureRow, ...] = ()
) -> ExperimentTables:
    """Return the tables of an experiment from its audits' reports.

    Raises
    ------
    ValueError
        If a scenario has no audit, or a list has neither members nor controls.
    """
    last = {scenario: report for (_, scenario), report in sorted(reports.items())}
    if set(last) != set(ATTACKS) or any(not r.measures["strata"] for r in last.values()):
        raise ValueError("an audit of each scenario with truth is needed")
    settings = {scenario: report.question["settings"] for scenario, report in last.items()}
    ordered = sorted(reports.items())
    return ExperimentTables(
        n_notes=examination.n_notes,
        n_patients=examination.n_patients,
        n_passages=examination.n_passages,
        n_members=last[2].measures["strata"]["all"]["n_members"],
        n_inputs=settings[2]["n_inputs"],
        n_documents=settings[1]["n_documents"],
        table1=tuple(
            _rule_row(report, "rules", RULES[s], who=(epochs, controls, s, "hospital"))
            for (epochs, s), report in ordered
            for controls in _kinds(report)
        ),
        table2=tuple(
            _rule_row(last[1], "baseline_rules", GENERAL_RULE, who=(0.0, controls, 1, "general"))
            for controls in _kinds(last[1])
        ),
        table3=examination.pattern_table,
        table4=examination.mention_table,
        always_member=tuple(
            _rule_row(last[2], "", "always_member", who=(0.0, controls, 2, "none"))
            for controls in _kinds(last[2])
        ),
        rankings=tuple(row for key, report in ordered for row in _rankings(report, key=key)),
        mentions=tuple(row for key, report in ordered for row in _by_mentions(report, key=key)),
        found=tuple(_found(report, key=key) for key, report in ordered),
        canaries=tuple(row for key, report in ordered for row in _canaries(report, key=key)),
        exposures=exposures,
        seed=last[2].question["seed"],
    )


def _kinds(report: AuditReport) -> tuple[str, ...]:
    return tuple(kind for kind in CONTROLS if kind in report.measures["strata"])


def _rule_row(
    report: AuditReport, column: str, rule: str, *, who: tuple[float, str, int, str]
) -> RuleRow:
    epochs, controls, scenario, model = who
    stratum = report.measures["strata"][controls]
    measured = stratum[column][rule] if column else stratum[rule]
    counts = measured["confusion"]
    return RuleRow(
        epochs, controls, ATTACKS[scenario], rule, model,
        Confusion(*(counts[name] for name in ("tp", "fn", "fp", "tn"))),
        _estimate(measured["f1"]),
    )  # fmt: skip


def _rankings(report: AuditReport, *, key: tuple[float, int]) -> Iterator[RankingRow]:
    epochs, scenario = key
    for controls in _kinds(report):
        stratum = report.measures["strata"][controls]
        for column, names in (("scores", SCORES[scenario]), ("baselines", BASELINES)):
            for name in names:
                auc = _estimate(stratum[column][name]["auc"])
                is_baseline = column == "baselines"
                yield RankingRow(epochs, controls, ATTACKS[scenario], name, is_baseline, auc)


def _by_mentions(report: AuditReport, *, key: tuple[float, int]) -> Iterator[MentionRow]:
    epochs, scenario = key
    members, score, out, mentions, kinds = _columns(report)
    for controls in _kinds(report):
        against = score[kinds == controls]
        for low, high in BINS:
            rows = members & (mentions >= low) & (mentions <= (high or np.inf))
            if not rows.any():
                continue
            ranking = bootstrap_ranking(
                np.concatenate([score[rows], against]),
                np.arange(rows.sum() + len(against)) < rows.sum(),
                seed=report.question["seed"],
                n_replicates=_N_REPLICATES,
            )
            flagged = Rate(int(out[rows].sum()), int(rows.sum()))
            yield MentionRow(epochs, controls, ATTACKS[scenario], low, high, ranking.auc, flagged)


def _found(report: AuditReport, *, key: tuple[float, int]) -> FoundRow:
    members, _, out, _, kinds = _columns(report)
    listed = np.isin(kinds, CONTROLS)
    return FoundRow(
        epochs=key[0],
        attack=ATTACKS[key[1]],
        members=Rate(int(out[members].sum()), int(members.sum())),
        controls=Rate(int(out[listed].sum()), int(listed.sum())),
        verdict=str(report.verdict["state"]),
        digest=report.digest,
    )


def _canaries(report: AuditReport, *, key: tuple[float, int]) -> Iterator[CanaryRow]:
    exposed = report.details.get("canaries") or {"scores": {}}
    measured = exposed["scores"].get(report.fixed_score)
    for group in measured["groups"] if measured else ():
        found, above = (
            Rate(group[name]["n_hits"], group[name]["n_total"]) for name in ("found", "above_twin")
        )
        bits = _estimate(group["bits"])
        yield CanaryRow(
            key[0], ATTACKS[key[1]], group["n_mentions"], bits, measured["max_bits"], found, above
        )


def _columns(report: AuditReport) -> tuple[Any, FloatArray, FloatArray, FloatArray, Any]:
    """Return [N] is a patient's name, score, q, mentions and kind of control of each name."""
    names = report.names
    roles = np.array(names["role"], dtype=np.str_)
    members = np.array([truth == 1 for truth in names["is_member"]]) & (roles != "canary")
    kinds = np.array(names["control_kind"], dtype=np.str_)
    return (
        members,
        _floats(names["score"]),
        np.array(report.stands_out, dtype=np.bool_),
        _floats(names["n_mentions"]),
        kinds,
    )


def _floats(column: Sequence[Any]) -> FloatArray:
    return np.array([np.nan if cell is None else cell for cell in column], dtype=np.float64)


def _estimate(record: Mapping[str, Any]) -> Estimate:
    return Estimate(*(np.nan if record[k] is None else record[k] for k in ("value", "low", "high")))
