"""Time that grows no faster than the input, measured against itself and not against a clock."""

from __future__ import annotations

import time
from collections.abc import Callable

_GROWTH = 4
_LIMIT = 9
"""Four times the input; a square law needs sixteen times the time."""


def assert_linear_time(work: Callable[[str], object], piece: str, n_chars: int) -> None:
    """Fail if repeating `piece` four times as often takes `work` more than nine times as long.

    The lesser of two tries counts, in processor time of this thread: other processes, and threads
    that other tests left behind, do not.
    """

    def measure_seconds(text: str) -> float:
        begin = time.thread_time()
        work(text)
        return time.thread_time() - begin

    small, large = ((piece * n)[:n] for n in (n_chars, _GROWTH * n_chars))
    limit = _LIMIT * min(measure_seconds(small) for _ in range(2)) + 0.15
    assert min(measure_seconds(large) for _ in range(2)) < limit, piece
