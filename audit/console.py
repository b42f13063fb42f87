"""What the command line says along the way: sentences and one line of progress, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from audit.progress import Progress, duration


def say(text: str) -> None:
    """Write one sentence; stdout is for results."""
    sys.stderr.write(f"{text}\n")


def progress_line() -> Callable[[Progress], None]:
    """Return a listener that keeps one line of stderr up to date, where stderr is a terminal."""
    is_terminal = sys.stderr.isatty()
    last = [0.0]

    def listen(progress: Progress) -> None:
        now = time.monotonic()
        if now - last[0] < (0.5 if is_terminal else 10):
            return
        last[0] = now
        left = "" if progress.seconds_left is None else f", {duration(progress.seconds_left)} left"
        text = f"{progress.phase}: {100 * progress.share:.0f} %{left}"
        sys.stderr.write(f"\r\x1b[K{text}" if is_terminal else f"{text}\n")
        if is_terminal and progress.share >= 1:
            sys.stderr.write("\n")
        sys.stderr.flush()

    return listen
