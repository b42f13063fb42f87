"""A worker that starts processes of made-up kinds of jobs."""

from __future__ import annotations

import sys

from audit.jobs import service
from audit.jobs.worker import work
from audit.shelf import Lock
from tests.jobs.fake_child import note_process

if __name__ == "__main__":
    note_process("worker")
    service.WORKER_MODULE = "tests.jobs.fake_worker"  # of other devices
    lock = Lock(int(sys.argv[2]))
    work(sys.argv[1], lock=lock, idle_seconds=30.0, child_module="tests.jobs.fake_child")
