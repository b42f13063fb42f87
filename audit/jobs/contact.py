"""How work speaks with whoever asked for it: how far it is, and whether it should stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from audit.errors import AuditError
from audit.jobs import table
from audit.jobs.job import FINISHING
from audit.progress import Progress, ProgressListener

Part = tuple[tuple[str, int], ...]
"""(setting, value) of the question that the finished shards answer already; see `Job.part`."""

WRITE_SECONDS = 0.25
ASK_SECONDS = 0.1


@dataclass(frozen=True)
class Contact:
    """What work calls while it goes on.

    Attributes
    ----------
    report
        Takes progress and the part that is finished.
    should_stop
        Whether somebody wants it to end.
    say
        Takes a sentence for the person at the command line.
    """

    report: Callable[[Progress, Part], None]
    should_stop: Callable[[], bool]
    say: Callable[[str], None]


def table_contact(
    job_id: str,
    *,
    listener: ProgressListener = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Contact:
    """Return a contact that writes to the table of jobs, some times a second, and reads from it."""
    writer, flag = _Writer(job_id, listener), _Flag(job_id)
    return Contact(writer.report, flag.is_up, say)


class _Writer:
    def __init__(self, job_id: str, listener: ProgressListener) -> None:
        self._job_id = job_id
        self._listener = listener
        self._last = 0.0
        self._phase = ""

    def report(self, progress: Progress, part: Part) -> None:
        self._listener(progress)
        now = time.monotonic()
        phase = FINISHING if progress.share >= 1 else progress.phase
        if now - self._last < WRITE_SECONDS and phase == self._phase:
            return
        self._last, self._phase = now, phase
        with suppress(AuditError):  # a busy table or a full disk ends no work of hours
            table.note_progress(
                self._job_id, phase=phase, share=progress.share,
                seconds_left=progress.seconds_left, part=part,
            )  # fmt: skip


class _Flag:
    def __init__(self, job_id: str) -> None:
        self._job_id = job_id
        self._last = 0.0
        self._is_up = False

    def is_up(self) -> bool:
        now = time.monotonic()
        if not self._is_up and now - self._last >= ASK_SECONDS:
            self._last = now
            with suppress(AuditError):  # it is asked again
                self._is_up = table.is_cancel_wanted(self._job_id)
        return self._is_up
