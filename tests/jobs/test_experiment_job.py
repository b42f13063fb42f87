from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.experiment.paper_tables import order_from_json
from audit.jobs.kinds import KINDS, experiment_question
from tests.experiment.small_experiment import write_notes


def test_the_question_holds_all_that_the_job_needs(tmp_path: Path):
    order = write_notes(tmp_path)
    question = experiment_question(order, out=tmp_path / "out")
    assert question.kind in KINDS
    assert (question.device, question.label) == ("cpu", "general")
    plain = json.loads(json.dumps(question.order))
    assert order_from_json(plain["experiment"]) == order
    assert plain["out"] == str(tmp_path / "out")


def test_another_folder_or_seed_is_another_question(tmp_path: Path):
    order = write_notes(tmp_path)
    one = experiment_question(order, out=tmp_path / "out").digest
    assert experiment_question(order, out=tmp_path / "out").digest == one
    assert experiment_question(order, out=tmp_path / "other").digest != one
    assert experiment_question(replace(order, seed=9), out=tmp_path / "out").digest != one


def test_a_model_that_is_none_is_refused_before_a_job_is_there(tmp_path: Path):
    order = replace(write_notes(tmp_path), general=tmp_path)
    with pytest.raises(AuditError):
        experiment_question(order, out=tmp_path / "out")
