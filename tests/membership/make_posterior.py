"""Passages and names of scenario 2, the question about them, and shards that answer it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from audit.corpora.passages import Passage
from audit.membership.posterior import PosteriorShard, PosteriorTask, posterior_shard
from audit.models.load import load_model
from tests.reference_masking import PlainModel, can_be_scored, log_product, make_task

RIGHT = " was seen by dr jones for pain."
PASSAGES = (
    Passage("", ("full",), "", RIGHT, "1", None),
    Passage("the patient ", ("full",), "", RIGHT, "2", None),
    Passage("", ("first", "last"), " ", RIGHT, "3", None),
    Passage("in pain and ", ("first", "last"), " ", " was seen for pain", "4", None),
    Passage("", ("last", "first"), ", ", RIGHT, "5", None),
    Passage("the patient - ", ("last", "first"), ", ", " seen", "6", None),
)
NAMES = (
    ("john", "smith"),
    ("mary", "jones"),
    ("anna", "jonesson"),
    ("johns", "smiths"),
    ("mary", "smith-jones"),
    ("", "smith"),
    ("johns", ""),
    ("zoe", "smith"),
)


def run(
    folder: Path,
    task: PosteriorTask,
    *,
    n_inputs: int,
    shard: int = 0,
    n_shard_inputs: int = 1000,
    tick: Callable[[int], None] = lambda _: None,
) -> PosteriorShard:
    return posterior_shard(
        load_model(folder).model,
        task,
        shard=shard,
        n_shard_inputs=n_shard_inputs,
        n_inputs=n_inputs,
        device="cpu",
        tick=tick,
    )


def task_of(
    folder: Path, passages: Any = PASSAGES, names: Any = NAMES, **more: Any
) -> PosteriorTask:
    return make_task(load_model(folder).tokenizer, passages, names, **more)


def logs_of(plain: PlainModel, passages: Any, names: Any) -> list[list[float]]:
    """Return ln p of every name in every passage, [P][N]."""
    logs = []
    for passage in passages:
        row = []
        for name in names:
            scored = can_be_scored(plain, passages, name)
            row.append(log_product(plain, passage, name) if scored else math.nan)
        logs.append(row)
    return logs
