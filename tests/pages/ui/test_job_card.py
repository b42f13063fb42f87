"""A job's card: every kind of job has words in both languages, every stage the best there are."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from audit.jobs.table import Job
from pages.ui.job_card import stage_text
from pages.ui.language import words_of

JOB = Job(
    "0" * 12, "pretrain", "", 0, "cpu", "", "running", "", 0.1, None, "", "", "", 1, False,
    "worker", None, (), "", 0,
)  # fmt: skip


@pytest.mark.parametrize("language", ["en", "ja"])
def test_every_kind_of_job_has_words(language: str) -> None:
    # In a process of its own: other tests put kinds of theirs beside the real ones.
    code = (
        "from audit.jobs.kinds import KINDS, task_class\n"
        "assert all(task_class(kind).job == kind for kind in KINDS)\n"
        "print(*KINDS)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    words = words_of(language).sentences
    kinds = said.stdout.split()
    assert len(kinds) == 9
    for kind in kinds:
        assert words["jobs_kind_audit_1" if kind == "audit" else f"jobs_kind_{kind}"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"phase": "training"}, "pretrain_training"),
        ({"phase": "nothing known"}, "pretrain_other"),
        ({}, "pretrain_loading"),
        ({"share": 1.0}, "pretrain_finishing"),
        ({"state": "queued"}, "waiting"),
        ({"is_cancel_wanted": True}, "stopping"),
        ({"kind": "audit", "phase": "general model: chain"}, "general_chain"),
        ({"kind": "audit", "phase": "training"}, "other"),
    ],
)
def test_what_a_job_does_is_said_in_the_words_of_its_kind(changes: dict, key: str) -> None:
    words = words_of("ja")
    assert stage_text(words, replace(JOB, **changes)) == words.text(f"jobs_stage_{key}")
