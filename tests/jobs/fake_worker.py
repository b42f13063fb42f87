"""A worker that starts processes of made-up kinds of jobs."""

from __future__ import annotations

import sys

from audit.jobs import service, worker
from tests.jobs.fake_child import note_process

if __name__ == "__main__":
    note_process("worker")
    service.WORKER_MODULE = "tests.jobs.fake_worker"  # of other devices
    worker.IDLE_SECONDS, worker.CHILD_MODULE = 30.0, "tests.jobs.fake_child"
    sys.exit(worker.main())
