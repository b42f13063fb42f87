"""The documented `sbatch` file under a real Slurm of one node: the bytes of a run in one place."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from getpass import getuser
from pathlib import Path

import pytest

from audit import shards
from cache.store import Store
from tests.one_thread import one_thread
from tests.repository import REPOSITORY
from tests.small_audit import answer, content, models, request_of, small

__all__ = ["models", "one_thread", "small"]
pytestmark = pytest.mark.slow
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
START_SECONDS, WORK_SECONDS = 60, 600
SETTINGS = """ClusterName=small
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def free_ports(n: int) -> list[int]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(n)]
        for free_socket in sockets:
            free_socket.bind(("127.0.0.1", 0))
        return [free_socket.getsockname()[1] for free_socket in sockets]


@pytest.fixture
def slurm(tmp_path) -> Iterator[dict[str, str]]:
    """Give the environment of a Slurm that has a node to spare; skip where none starts."""
    if missing := [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]:
        pytest.skip(f"not installed (Debian: slurm-wlm, munge): {', '.join(missing)}")
    folder, host = tmp_path / "slurm", socket.gethostname().partition(".")[0]
    folder.mkdir(mode=0o700)
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o600)
    settings = SETTINGS.format(host=host, user=getuser(), folder=folder, ports=free_ports(2))
    (folder / "slurm.conf").write_text(settings)
    environment = os.environ | {"PATH": PATH, "SLURM_CONF": str(folder / "slurm.conf")}
    names = {
        "key-file": "key",
        "socket": "munge.socket",
        "pid-file": "munge.pid",
        "log-file": "munge.log",
        "seed-file": "seed",
    }
    munged = ["munged", "--force", "--foreground"]
    munged += [f"--{option}={folder / name}" for option, name in names.items()]
    started, log = [], folder / "log"
    with log.open("wb") as file:

        def start(*words: str) -> None:
            streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
            started.append(subprocess.Popen(words, env=environment, **streams))

        try:
            start(*munged)
            wait_for(lambda: (folder / "munge.socket").exists(), log=log)
            start("slurmctld", "-D")
            start("slurmd", "-D", "-N", host)
            wait_for(
                lambda: command_output("sinfo", "-h", "-o", "%t", env=environment) == "idle",
                log=log,
            )
            yield environment
        finally:
            for process in reversed(started):
                process.terminate()
                process.wait(START_SECONDS)


def command_output(*words: str, env: dict[str, str]) -> str:
    process = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    return process.stdout.strip()


def wait_for(is_so, *, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            pytest.skip(f"Slurm does not start here: {log.read_text(errors='replace')[-300:]}")
        time.sleep(0.2)


def documented() -> str:
    """Return the file for `sbatch`."""
    text = (REPOSITORY / "docs" / "cluster.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```sh\n(#!/bin/sh\n#SBATCH.*?)```", text, re.DOTALL)
    return script


def test_the_documented_array_makes_the_bytes_of_a_run_in_one_place(models, slurm, home, tmp_path):
    request, order = request_of(models, 1), tmp_path / "audit.order"
    with Store(tmp_path / "results") as store:
        n_shards = len(shards.write_order(request, order, store=store).keys)
    batch = documented().replace("/shared/audit.order", str(order))
    batch = batch.replace("/shared/kart-audit", str(REPOSITORY))
    (tmp_path / "audit.sbatch").write_text(batch)
    environment = slurm | {"PATH": f"{Path(sys.executable).parent}:{PATH}"}
    process = subprocess.run(
        ["sbatch", "--wait", "audit.sbatch"],
        cwd=tmp_path,
        env=environment,
        timeout=WORK_SECONDS,
        capture_output=True,
        text=True,
        check=False,
    )
    logs = "".join(path.read_text() for path in sorted(tmp_path.glob("audit-*.log")))
    assert process.returncode == 0, process.stderr + logs
    assert len(list(tmp_path.glob("audit-*.log"))) == 2
    with Store(tmp_path / "results") as store:
        merged = shards.merge_shards(order, folder=tmp_path / "audit.order.shards", store=store)
    assert merged == shards.MergeCounts(n_shards, 0, 0, ())
    answer(request, tmp_path / "results")
    answer(request, tmp_path / "alone")
    assert content(tmp_path / "results") == content(tmp_path / "alone")
