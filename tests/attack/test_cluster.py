"""A Dask cluster by the two documented commands: one worker is killed, the bytes are the same."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from audit import run
from audit.attack import scenarios
from audit.errors import AuditError
from audit.executor import SCHEDULER_VARIABLE, open_executor, use_scheduler
from audit.home import results_dir
from audit.progress import Progress
from audit.task import Contact
from tests.models.make_causal import make_adapter, make_causal
from tests.one_thread import one_thread
from tests.repository import REPOSITORY
from tests.small_audit import answer, content, models, request_of, small

__all__ = ["models", "one_thread", "small"]
distributed = pytest.importorskip(
    "distributed", reason="no `distributed`: pip install -r requirements-cluster.txt"
)
pytestmark = pytest.mark.slow  # half a minute each
PORT = "8786"
SETTINGS = "distributed.json"
PATIENCE = 240


def documented(*, is_tls: bool = False) -> list[list[str]]:
    """Return the commands that start a cluster: of two workers on this machine, or with TLS."""
    lines = (REPOSITORY / "docs" / "cluster.md").read_text(encoding="utf-8").splitlines()
    dask_lines = [line for line in lines if line.startswith("python -m dask")]
    commands = [line for line in dask_lines if is_tls == ("tls" in line)]
    assert len(commands) == 2
    return [shlex.split(line) for line in commands]


def free_port() -> str:
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        return str(free_socket.getsockname()[1])


@contextmanager
def started(commands: list[list[str]], log: Path, **settings: str) -> Iterator[str]:
    """Give the port of a scheduler that is started, as is its worker, by documented commands."""
    port, running = free_port(), []
    environment = os.environ | settings
    with log.open("wb") as file:
        for _, *words in commands:
            words = [
                word.replace(PORT, port).replace("head.cluster", "127.0.0.1") for word in words
            ]
            command = [sys.executable, *words]
            running.append(
                subprocess.Popen(
                    command,
                    cwd=REPOSITORY,
                    stdout=file,
                    stderr=file,
                    env=environment,
                    start_new_session=True,
                )
            )
        try:
            deadline = time.monotonic() + PATIENCE
            while b"Starting worker compute" not in log.read_bytes():
                assert time.monotonic() < deadline, log.read_text()
                assert all(process.poll() is None for process in running), log.read_text()
                time.sleep(0.1)
            yield port
        finally:
            for process in running:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture
def cluster(tmp_path) -> Iterator[str]:
    """Give the address of a cluster that runs."""
    scratch = {"DASK_TEMPORARY_DIRECTORY": str(tmp_path)}
    with started(documented(), tmp_path / "cluster.log", **scratch) as port:
        yield f"tcp://127.0.0.1:{port}"


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
    reports: list[Progress] = []
    contact = Contact(reports.append, lambda: False, lambda _: None)
    killer = threading.Thread(target=kill_one_that_works, args=(cluster, killed))
    killer.start()
    try:
        run.AuditTask(request=request).run(contact)
    finally:
        killer.join()
    assert len(killed) == 1
    assert content(results_dir()) == content(tmp_path / "alone")
    assert sorted(report.share for report in reports) == [report.share for report in reports]
    log = (tmp_path / "cluster.log").read_text()
    assert "died" in log or "Remove worker" in log
    assert str(models.general) not in log


def test_a_cluster_audits_an_adapter_to_the_bytes_of_a_run_in_one_place(
    models, cluster, home, tmp_path, monkeypatch
):
    general = make_causal(tmp_path / "general", "llama 3", n_more_rows=0)
    make_adapter(tmp_path / "adapter", general)
    request = request_of(models, 2).with_(general=general, hospital=tmp_path / "adapter")
    monkeypatch.setattr(scenarios, "N_PAIR_REFERENCE", 100)
    monkeypatch.setattr(scenarios, "MIN_PAIR_REFERENCE", 40)
    answer(request, tmp_path / "alone")
    monkeypatch.setenv(SCHEDULER_VARIABLE, cluster)
    run.AuditTask(request=request).run(Contact(lambda _: None, lambda: False, lambda _: None))
    assert content(results_dir()) == content(tmp_path / "alone")


def refuse() -> None:
    raise AuditError("Not {this}.", this="what was asked")


def test_a_mistake_of_a_worker_is_told_and_a_scheduler_that_is_not_there_too(cluster):
    with pytest.raises(AuditError, match="what was asked"), open_executor(cluster) as workers:
        workers.submit(refuse).result(PATIENCE)
    elsewhere = f"tcp://127.0.0.1:{free_port()}"
    with pytest.raises(AuditError, match="No scheduler answers"), open_executor(elsewhere):
        pass


def certificates(folder: Path) -> None:
    """Make an authority, what it signed, and Dask's settings for them."""

    def call(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    new = ("req", "-newkey", "rsa:2048", "-nodes", "-subj")
    call(*new, "/CN=authority", "-x509", "-keyout", "ca.key", "-out", "ca.pem")
    call(*new, "/CN=own", "-keyout", "own.key", "-out", "own.csr")
    call(
        "x509",
        "-req",
        "-in",
        "own.csr",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-out",
        "own.pem",
    )
    own_files = {"cert": f"{folder}/own.pem", "key": f"{folder}/own.key"}
    tls = {
        "ca-file": f"{folder}/ca.pem",
        "scheduler": own_files,
        "worker": own_files,
        "client": own_files,
    }
    settings = {"distributed": {"comm": {"require-encryption": True, "tls": tls}}}
    (folder / SETTINGS).write_text(json.dumps(settings))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_with_tls_only_who_has_a_certificate_of_the_authority_is_let_in(tmp_path):
    from dask import config

    certificates(tmp_path)
    log, settings = tmp_path / "cluster.log", {"DASK_CONFIG": str(tmp_path)}
    settings["DASK_TEMPORARY_DIRECTORY"] = str(tmp_path)
    with started(documented(is_tls=True), log, **settings) as port:
        address = f"tls://127.0.0.1:{port}"
        cluster_settings = config.merge(
            config.config, json.loads((tmp_path / SETTINGS).read_text())
        )
        with config.set(cluster_settings), open_executor(address) as workers:
            assert workers.submit(pow, 2, 5).result(PATIENCE) == 32
        for refused in (address, f"tcp://127.0.0.1:{port}"):
            with pytest.raises(AuditError, match="No scheduler answers"), open_executor(refused):
                pass


def test_a_scheduler_is_used_only_while_its_block_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SCHEDULER_VARIABLE, "tcp://127.0.0.1:1")
    with use_scheduler("tcp://127.0.0.1:2"):
        assert os.environ[SCHEDULER_VARIABLE] == "tcp://127.0.0.1:2"
    assert os.environ[SCHEDULER_VARIABLE] == "tcp://127.0.0.1:1"
    monkeypatch.delenv(SCHEDULER_VARIABLE)
    with use_scheduler("tcp://127.0.0.1:2"):
        pass
    assert SCHEDULER_VARIABLE not in os.environ
