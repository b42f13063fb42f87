"""A job's card: every kind of job and every stage of it has words in both languages."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from audit.jobs.table import STAGES
from pages.ui import job_card

WORDS = Path(job_card.__file__).parent / "words"


def test_every_kind_of_job_has_a_word() -> None:
    # In a process of its own: other tests put kinds of theirs beside the real ones.
    code = "from audit.jobs.service import KINDS; print(*KINDS)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(job_card.KINDS) == set(said.stdout.split()) - {"audit"}


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("kind", sorted(STAGES))
def test_every_stage_of_a_job_has_words(kind: str, language: str) -> None:
    words = json.loads((WORDS / language / "jobs.json").read_text(encoding="utf-8"))
    phases = [phase.replace(" ", "_") for phase in STAGES[kind]]
    for stage in ("loading", *phases, "other", "finishing"):
        assert words[f"jobs_stage_{kind}_{stage}"]
