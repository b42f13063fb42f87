"""Workers and their jobs killed at random moments: none waits for ever, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

from audit.jobs import service
from audit.jobs.service import looking_after
from audit.jobs.table import Job
from cache.store import Store
from tests.cache.make_store import contents, quick_disk
from tests.cache.make_values import put
from tests.jobs.fake_jobs import PATIENCE_SECONDS, alive, home, processes, question
from tests.repository import many

__all__ = ["home", "quick_disk"]
N_KILLS = 6
N_VALUES, N_SHARDS = 30, 3
START_SECONDS = 5.0


class Killer:
    """Asks for jobs of some values each, and kills whoever works on them.

    Attributes
    ----------
    n_killed
        Workers and processes of jobs that were killed.
    n_resumed
        Jobs that died too often and had to be resumed.
    longest_wait
        Seconds that a job waited although nobody computed and nobody was killed in between.
    """

    def __init__(self, folder: Path) -> None:
        self.store = folder / "results"
        self.n_killed = self.n_resumed = self.n_asked = 0
        self.longest_wait = 0.0
        self.jobs: list[Job] = []
        self._rng = random.Random(16)
        self._n_starts = 0
        self._idle_since = time.monotonic()

    def run(self, n_kills: int) -> None:
        while self.n_killed < n_kills:
            if not service.active_jobs():
                self._ask()
            self._let_go_on(self._rng.uniform(0, 1.5))
            self._kill(self._rng.choice((("worker",), ("child",), ("child", "worker"))))
        end = time.monotonic() + PATIENCE_SECONDS
        while self._unfinished():
            assert time.monotonic() < end, f"left waiting: {self._unfinished()}"
            self._let_go_on(0.1)

    def _ask(self) -> None:
        for _ in range(N_SHARDS):
            first = self.n_asked * N_VALUES
            self.n_asked += 1
            order = {"store": str(self.store), "first": first, "end": first + N_VALUES}
            self.jobs.append(service.ask(question("shards", digest=str(first), **order)))

    def _unfinished(self) -> list[Job]:
        now = [service.job(job.job_id) for job in self.jobs]
        for job in now:
            if job.state == "failed":  # it was killed three times
                service.resume(job.job_id)
                self.n_resumed += 1
        return [job for job in now if job.state != "done"]

    def _let_go_on(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            active = service.active_jobs()
            n_starts = sum(job.n_attempts for job in active)
            is_at_work = any(map(alive, processes("child")[-2:])) or n_starts != self._n_starts
            if is_at_work or not active:
                self._idle_since = now
            self._n_starts = n_starts
            self.longest_wait = max(self.longest_wait, now - self._idle_since)
            time.sleep(0.02)

    def _kill(self, whom: tuple[str, ...]) -> None:
        for what in whom:
            for pid in filter(alive, processes(what)[-2:]):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self.n_killed += 1
        self._idle_since = time.monotonic()


def test_kills_at_random_moments_leave_no_job_waiting_and_the_same_bytes(
    home, tmp_path, quick_disk
):
    killer = Killer(tmp_path)
    with looking_after():  # as the server does
        killer.run(many(N_KILLS))
    print(
        f"{killer.n_killed} killed, {killer.n_asked} jobs, {killer.n_resumed} resumed, "
        f"longest wait {killer.longest_wait:.1f} s"
    )
    n_values = killer.n_asked * N_VALUES
    with Store(tmp_path / "clean") as clean, Store(killer.store) as store:
        for n in range(n_values):
            put(clean, n)
        assert contents(store) == contents(clean)
        assert len(store.keys()) == n_values and not (killer.store / "quarantine").exists()
    assert killer.longest_wait < START_SECONDS
