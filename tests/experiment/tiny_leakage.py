"""A tiny leakage experiment: a few notes, a few names, hand-made results of attacks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from audit.deid.measure.span_matching import CoverageCounts
from audit.experiment.leakage import (
    MENTIONS,
    PERFECT,
    RAW,
    Arm,
    ArmResult,
    HospitalNotes,
    LeakageTables,
    LeakageTask,
    make_arm_row,
    read_hospital_notes,
    yield_leak_rows,
)
from audit.notes.spans import Span, build_document
from audit.training.config import LossPoint
from audit.training.trainings import TrainedModel, TrainingFacts
from tests.pages.make_reports import bare_report

TRAINED = TrainingFacts.model_construct(n_steps=10, n_train_tokens=100)


@cache
def demo_notes(language: str) -> HospitalNotes:
    """Return the demo hospital's notes, made once."""
    return read_hospital_notes(language)


def tiny_notes() -> HospitalNotes:
    """Return three notes: Ann is named twice, Bob once, a doctor once."""
    texts = ("Ann Lee is ill .", "Bob Ray saw dr . Poe .", "x Ann Lee .")
    spans = (
        (Span(0, 7, "identifier"),),
        (Span(0, 7, "identifier"), Span(17, 20, "quasi_identifier")),
        (Span(2, 9, "identifier"),),
    )
    owners = (0, 1, 0)
    documents = tuple(
        build_document(f"N{i}", text=text, spans=text_spans, patient_id=f"P{owner}")
        for i, (text, text_spans, owner) in enumerate(zip(texts, spans, owners, strict=True))
    )
    return HospitalNotes("en", documents)


def result(arm: Arm, *, is_exposed: Sequence[bool], scores: Sequence[float]) -> ArmResult:
    """Return what came of an arm with a mention a patient; scores end with 2 easy, 2 hard ones."""
    n = len(is_exposed)
    columns: dict[str, list[Any]] = {
        "score": list(scores),
        "q_value": [0.01 if score > 8 else 0.9 for score in scores],
        "decision": ["flagged" if score > 8 else "not flagged" for score in scores],
        "is_undecided": [False] * len(scores),
        "control_kind": [""] * n + ["easy", "easy", "hard", "hard"],
    }
    report = bare_report(
        digest=arm.code,
        scenario={"number": 2},
        fixed_score="score",
        names=columns,
        measures={"strata": {}},
    )
    counts = {"identifier": (n, n - sum(is_exposed), 0, 0), "quasi_identifier": (3, 2, 30, 20)}
    points = tuple(LossPoint(step=step, loss=loss, seconds=0) for step, loss in ((5, 2), (10, 1)))
    row = make_arm_row(
        arm,
        is_exposed=np.array(is_exposed),
        coverage_counts=CoverageCounts(counts, 100, 30, 10),
        trained_model=TrainedModel(Path(), TRAINED, points, True, ()),
    )
    return ArmResult(row, np.array(is_exposed), report)


def tiny_tables(order: LeakageTask | None = None) -> LeakageTables:
    """Return what came of raw notes, of perfect ones, and with the first two of four names left."""
    arms = (
        result(Arm(RAW), is_exposed=[True] * 4, scores=[9, 8, 7, 6, 1, 2, 3, 6.5]),
        result(Arm(PERFECT), is_exposed=[False] * 4, scores=[4, 1, 3, 2, 1.5, 2.5, 3.5, 0]),
        result(
            Arm(MENTIONS, 0.5),
            is_exposed=[True, True, False, False],
            scores=[9, 8, 3, 2, 1.5, 2.5, 3.5, 0],
        ),
    )
    return LeakageTables(
        order=order or LeakageTask(),
        n_notes=12,
        n_patients=4,
        arms=tuple(arm.row for arm in arms),
        leaks=tuple(yield_leak_rows(arms, seed=0)),
    )
