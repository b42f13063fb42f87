"""A Dask cluster by the two documented commands: one worker is killed, the bytes are the same."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from audit import run
from audit.errors import AuditError
from audit.executor import SCHEDULER_VARIABLE, executor_of
from audit.home import results_dir
from audit.progress import Progress
from audit.task import Contact
from tests.one_thread import one_thread
from tests.repository import REPOSITORY
from tests.small_audit import answer, content, models, request_of, small

__all__ = ["models", "one_thread", "small"]
distributed = pytest.importorskip(
    "distributed", reason="no `distributed`: pip install -r requirements-cluster.txt"
)
pytestmark = pytest.mark.slow  # half a minute each
PORT = "8786"
PATIENCE = 240


def documented() -> list[list[str]]:
    """Return the two commands that start a cluster of two workers on this machine."""
    lines = (REPOSITORY / "docs" / "cluster.md").read_text(encoding="utf-8").splitlines()
    found = [line for line in lines if line.startswith("python -m dask") and "127.0.0.1" in line]
    assert len(found) == 2
    return [shlex.split(line) for line in found]


@pytest.fixture
def cluster(tmp_path) -> Iterator[str]:
    """Give the address of a cluster that runs."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    started, log = [], tmp_path / "cluster.log"
    environment = os.environ | {"DASK_TEMPORARY_DIRECTORY": str(tmp_path)}
    with log.open("wb") as file:
        for _, *words in documented():
            command = [sys.executable, *(word.replace(PORT, port) for word in words)]
            started.append(
                subprocess.Popen(
                    command, cwd=REPOSITORY, stdout=file, stderr=file, env=environment,
                    start_new_session=True,
                )
            )  # fmt: skip
    try:
        yield f"tcp://127.0.0.1:{port}"
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def kill_one_that_works(address: str, killed: list[int]) -> None:
    """Kill the first worker that is seen at a shard."""
    with distributed.Client(address, timeout=PATIENCE, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and not killed:
            busy = [worker for worker, tasks in client.processing().items() if tasks]
            if busy:
                pids = client.run(os.getpid, workers=busy[:1])
                killed += pids.values()
                os.kill(killed[0], signal.SIGKILL)
            time.sleep(0.05)


def test_a_worker_is_killed_and_the_bytes_are_those_of_a_run_in_one_place(
    models, cluster, home, tmp_path, monkeypatch
):
    request, killed = request_of(models, 1), list[int]()
    answer(request, tmp_path / "alone")
    monkeypatch.setenv(SCHEDULER_VARIABLE, cluster)
    seen: list[Progress] = []
    contact = Contact(seen.append, lambda: False, lambda _: None)
    killer = threading.Thread(target=kill_one_that_works, args=(cluster, killed))
    killer.start()
    try:
        run.AuditTask(request=request).run(contact)
    finally:
        killer.join()
    assert len(killed) == 1
    assert content(results_dir()) == content(tmp_path / "alone")
    assert sorted(one.share for one in seen) == [one.share for one in seen]
    log = (tmp_path / "cluster.log").read_text()
    assert "died" in log or "Remove worker" in log
    assert str(models.general) not in log


def test_a_mistake_of_a_worker_is_told_and_a_scheduler_that_is_not_there_too(cluster):
    with pytest.raises(AuditError, match="what was asked"), executor_of(cluster) as workers:
        workers.submit(refuse).result(PATIENCE)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with (
            pytest.raises(AuditError, match="No scheduler answers"),
            executor_of(f"tcp://127.0.0.1:{port}"),
        ):
            pass


def refuse() -> None:
    raise AuditError("Not {this}.", this="what was asked")
