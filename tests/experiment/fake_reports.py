"""Reports of invented audits, measured by the real measures: no model is needed."""

from __future__ import annotations

from typing import Any

import numpy as np

from audit.attack.metrics import ScoredNames, membership_metrics, plain
from audit.report.report import AuditReport

MENTIONS = (25, 7, 3, 2, 2, 1, 1, 1, 1, 1)
N_EASY, N_HARD = 8, 6


def fake_report(scenario: int, *, lift: float, seed: int = 0, digest: str = "d") -> AuditReport:
    """Return a report in which members score `lift` higher for each doubling of mentions."""
    rng = np.random.default_rng([seed, scenario])
    kinds = ("",) * len(MENTIONS) + ("easy",) * N_EASY + ("hard",) * N_HARD
    truth = tuple(kind == "" for kind in kinds)
    score = rng.normal(size=len(kinds))
    score[: len(MENTIONS)] += lift * np.log2(np.array(MENTIONS) + 1.0)
    rule = {1: "name_occurs", 2: "difference_above_zero"}[scenario]
    names = {
        1: ("product", "product_log_ratio", "hits"),
        2: ("mean_log_ratio", "log_ratio", "difference"),
    }[scenario]
    general = rng.normal(size=len(kinds))
    measured = ScoredNames(
        is_member=truth,
        control_kind=kinds,
        scores={name: score + place for place, name in enumerate(names)},
        rules={rule: score > 0},
        baselines={"general_alone": general, "popularity": rng.random(len(kinds))},
        baseline_rules={"name_occurs_general": general > 0} if scenario == 1 else {},
        fixed_score=names[0],
    )
    settings = {1: {"n_documents": 40}, 2: {"n_inputs": 300}}[scenario]
    columns: dict[str, list[Any]] = {
        "role": ["patient"] * len(MENTIONS) + [""] * (N_EASY + N_HARD),
        "is_member": [int(t) for t in truth],
        "control_kind": list(kinds),
        "score": score.tolist(),
        "q_value": [0.01 if s > 3 else 0.9 for s in score],
        "n_mentions": [*MENTIONS, *([None] * (N_EASY + N_HARD))],
    }
    return AuditReport.of(
        digest=f"{digest}{scenario}",
        question={"seed": seed, "settings": settings},
        scenario={"number": scenario}, models={}, candidates={},
        fixed_score=names[0], columns=list(columns), names=columns,
        measures=plain(membership_metrics(measured, seed=seed)),
        verdict={"state": "leak_found"},
        cohort={}, curve=(), mentions=(), details={}, notes=(), made={},
    )  # fmt: skip
