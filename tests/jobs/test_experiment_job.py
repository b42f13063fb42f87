from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.errors import AuditError
from audit.experiment.paper_tables import ExperimentTask
from audit.jobs.kinds import KINDS
from tests.experiment.small_experiment import write_notes


def test_the_question_holds_all_that_the_job_needs(tmp_path: Path):
    task = write_notes(tmp_path)
    question = task.question()
    assert question.kind in KINDS
    assert (question.device, question.label) == ("cpu", "general")
    assert ExperimentTask.ordered(json.loads(json.dumps(question.order))) == task


def test_another_folder_or_seed_is_another_question(tmp_path: Path):
    task = write_notes(tmp_path)
    one = task.question().digest
    assert task.question().digest == one
    assert task.with_(out=tmp_path / "other").question().digest != one
    assert task.with_(seed=9).question().digest != one


def test_a_model_that_is_none_is_refused_before_a_job_is_there(tmp_path: Path):
    with pytest.raises(AuditError):
        write_notes(tmp_path).with_(general=tmp_path).question()
