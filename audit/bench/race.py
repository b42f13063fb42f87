"""Works that take turns, and the ratios of their rates; no torch is imported at the top.

Everything is timed in one process, each work once a round, so that other load on the machine falls
on all of them; ratios are taken round by round. On a CPU the time is that of the processor, all
threads together. On a GPU it is wall-clock time, after waiting for the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from audit.task import Record


class BenchSettings(Record):
    """What is measured, and of which model; None stands for each bench's own default."""

    flags: ClassVar = {"n_tokens": "--length"}

    n_layers: int = Field(default=12, ge=1, le=96, description="of the model")
    width: int = Field(default=768, ge=16, le=8192, description="of the model, 64 a head")
    n_vocabulary: int = Field(default=30_522, ge=256, le=10**6, description="tokens it knows")
    n_tokens: int | None = Field(
        default=None,
        ge=16,
        le=32_768,
        description="of a document (32) or row (128); mean of a passage, or before a name (90); "
        "tuning: of a row of windows (1,024)",
    )
    n_names: int = Field(default=2_860, ge=2, le=10**6, description="posterior, causal: names")
    dtype: Literal["float32", "bfloat16"] = Field(default="float32", description="of the product")
    n_rounds: int = Field(default=3, ge=1, le=100, description="that are timed")
    n_steps: int = Field(default=4, ge=1, le=10_000, description="generation: steps a round")
    batch: int | None = Field(
        default=None,
        ge=1,
        le=65_536,
        description="documents side by side (100), inputs of one length (8), rows or windows a "
        "step (8)",
    )
    is_checkpointed: bool = Field(
        default=False, description="tuning: activations are computed again"
    )
    n_threads: int = Field(default=1, ge=1, le=1024, description="of a CPU")
    device: Literal["cpu", "cuda"] = Field(default="cpu", description="where both run")

    @property
    def n_heads(self) -> int:
        """Heads of 64, or one."""
        return max(1, self.width // 64)


Rates = dict[str, list[float]]
"""Units a second of each work, round by round."""


def race_works(
    works: Mapping[str, Callable[[], float]],
    *,
    n_rounds: int,
    device: str,
    first: Callable[[str, Callable[[], float]], float | None] = lambda name, work: work(),
) -> Rates:
    """Let works take turns; the order of every second round is reversed.

    Before the first round `first` is called with each work and its name, untimed.

    Parameters
    ----------
    works
        Each does some work and returns how many units of its own it was.
    device
        "cpu" or "cuda".
    """
    for name, work in works.items():
        first(name, work)
    rates: Rates = {name: [] for name in works}
    for number in range(n_rounds):
        for name in sorted(works, reverse=bool(number % 2)):
            begin = _seconds(device)
            n_units = works[name]()
            rates[name].append(n_units / max(_seconds(device) - begin, 1e-9))
    return rates


def find_best_batch(candidates: Sequence[int], work: Callable[[int], float], *, device: str) -> int:
    """Return the batch with the most units a second; each is tried once, after a warm-up."""
    work(min(candidates))
    rates = {}
    for batch in candidates:
        begin = _seconds(device)
        rates[batch] = work(batch) / max(_seconds(device) - begin, 1e-9)
    return max(rates, key=rates.__getitem__)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, lowest and highest."""
    return {
        "median": float(np.median(values)),
        "low": float(min(values)),
        "high": float(max(values)),
    }


def quotients(rates: Rates, name: str, *, by: str, times: float = 1.0) -> dict[str, float]:
    """Return the spread of one work's rate over another's, round by round."""
    return spread([times * a / b for a, b in zip(rates[name], rates[by], strict=True)])


def _seconds(device: str) -> float:
    if device == "cpu":
        return time.process_time()
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()
