from __future__ import annotations

from pathlib import Path

import pytest

from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.errors import AuditError
from audit.experiment.paper import (
    CORPUS,
    GENERAL,
    HOSPITAL,
    StageProgress,
    audit_stage,
    stage_costs,
)
from audit.experiment.paper_tables import ExperimentTask
from audit.progress import Progress


@pytest.fixture
def order(tmp_path: Path) -> ExperimentTask:
    notes = tmp_path / "notes.csv"
    notes.write_bytes(b"x" * 4300)
    return ExperimentTask(
        notes=notes,
        general=tmp_path,
        out=tmp_path / "out",
        epochs=(1, 10),
        generation=GenerationSettings(n_documents=3, n_steps=10, n_tokens=32),
        posterior=PosteriorSettings(n_inputs=100, n_chain_inputs=0),
    )


def test_costs_are_tokens_of_forward_passes(order):
    costs = stage_costs(order)
    assert list(costs) == [
        CORPUS, HOSPITAL, *(audit_stage(e, scenario=s) for s in (2, 1) for e in (1, 10)),
    ]  # fmt: skip
    assert costs[HOSPITAL] == pytest.approx(3 * 10 * 1000)
    assert costs[audit_stage(10, scenario=1)] == 3 * 10 * 32
    assert costs[audit_stage(1, scenario=1)] == 2 * costs[audit_stage(10, scenario=1)]
    assert costs[audit_stage(10, scenario=2)] == pytest.approx(13_000)


def test_a_general_model_of_ones_own_is_a_stage(order, tmp_path):
    costs = stage_costs(order.with_(general_notes=tmp_path / "other"))
    training = order.general_training
    assert costs[GENERAL] == 3 * training.n_steps * training.batch * training.n_tokens


def test_missing_notes_are_told(order, tmp_path):
    with pytest.raises(AuditError, match="notes"):
        stage_costs(order.with_(notes=tmp_path / "none.csv"))


def test_stages_are_told_as_one_piece_of_work():
    told: list[Progress] = []
    progress = StageProgress({"a": 1.0, "b": 3.0}, listener=told.append)
    progress.of("a")(Progress("reading", 1, 2, None))
    progress.finish("a")
    progress.of("b")(Progress("training", 1, 3, None))
    progress.finish("b", was_kept=True)
    assert [p.phase for p in told] == ["a: reading", "a", "b: training", "b"]
    assert [p.share for p in told] == pytest.approx([0.125, 0.25, 0.5, 1.0])
