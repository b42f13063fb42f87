"""Stages of jobs: every phase that the engine tells has words of its own on the screen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from audit.corpus import make
from audit.jobs.table import STAGES, Job
from audit.training.masked_lm import TOKENIZE, TRAIN
from pages.ui.language import words_of

JOB = Job(
    "0" * 12, "pretrain", "", 0, "cpu", "", "running", "", 0.1, None, "", "", "", "", 1, False,
    "worker", None, (), "", (), 0,
)  # fmt: skip


def test_phases_of_corpora_and_trainings_are_known() -> None:
    stages = {make.SAMPLE, make.SURVEY, make.NAMES, make.BUILD, make.LISTS}
    assert stages == set(STAGES["corpus"])
    assert set(STAGES["pretrain"]) == {TOKENIZE, TRAIN}


@pytest.mark.parametrize("kind", STAGES)
def test_every_stage_has_a_sentence(kind: str) -> None:
    phases = ("", "loading", "something new", *STAGES[kind])
    codes = {replace(JOB, kind=kind, phase=phase).stage for phase in phases}
    codes.add(replace(JOB, kind=kind, share=1.0).stage)
    assert codes >= {f"{kind}_{what}" for what in ("loading", "other", "finishing")}
    for language in ("en", "ja"):
        for code in codes:
            assert words_of(language).text(f"jobs_stage_{code}")


def test_waiting_and_stopping_come_before_the_kind_and_audits_are_as_before() -> None:
    assert replace(JOB, state="queued").stage == "waiting"
    assert replace(JOB, is_cancel_wanted=True).stage == "stopping"
    assert replace(JOB, phase="training").stage == "pretrain_training"
    assert replace(JOB, kind="audit", phase="training").stage == "other"
