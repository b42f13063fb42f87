"""Workers and their jobs killed at random moments: none waits for ever, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time

import pytest

from audit.jobs import service
from audit.jobs.service import look_after_jobs
from audit.jobs.table import Job
from cache.store import Store
from tests.cache.make_store import contents, quick_disk
from tests.cache.make_values import put_value
from tests.jobs.fake_jobs import alive, home, processes, question, until, usual_home
from tests.repository import many

__all__ = ["home", "quick_disk", "usual_home"]
N_KILLS = 6
N_VALUES, N_JOBS = 30, 3


def kill(*roles: str) -> int:
    """Kill the newest of them that live; return how many."""
    doomed = [pid for role in roles for pid in processes(role)[-2:] if alive(pid)]
    for pid in doomed:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(doomed)


def is_done(job: Job) -> bool:
    job = service.job(job.job_id)
    if job.state == "failed":  # it was killed three times
        service.resume(job.job_id)
    return job.state == "done"


@pytest.mark.long
def test_kills_at_random_moments_leave_no_job_waiting_and_the_same_bytes(
    home, tmp_path, quick_disk
):
    rng, jobs, n_killed = random.Random(16), list[Job](), 0
    with look_after_jobs():  # as the server does
        while n_killed < many(N_KILLS):
            for _ in range(0 if service.active_jobs() else N_JOBS):
                first = len(jobs) * N_VALUES
                order = {"store": str(tmp_path / "results"), "first": first}
                order["end"] = first + N_VALUES
                jobs.append(service.ask(question("shards", digest=str(first), **order)))
            time.sleep(rng.uniform(0, 1.5))
            n_killed += kill(*rng.choice((("worker",), ("child",), ("child", "worker"))))
        until(lambda: all(map(is_done, jobs)))
    n_values = len(jobs) * N_VALUES
    with Store(tmp_path / "clean") as clean, Store(tmp_path / "results") as store:
        for n in range(n_values):
            put_value(clean, n)
        assert contents(store) == contents(clean)
        assert len(store.keys()) == n_values and not (store.directory / "quarantine").exists()
