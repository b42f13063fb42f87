"""Where parts of long work are done: processes end with their parent, addresses are safe."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from functools import partial

import pytest

from audit.errors import AuditError
from audit.executor import open_executor, run_in_order
from tests.repository import REPOSITORY


def test_work_of_one_worker_stays_here():
    with open_executor() as executor:
        assert executor is None


def test_processes_of_this_machine_do_what_is_submitted():
    with open_executor(n_workers=2) as executor:
        assert list(executor.map(divmod, (7, 9), (2, 4))) == [(3, 1), (2, 1)]
        assert executor.submit(os.getpid).result() != os.getpid()


@pytest.mark.parametrize("n_workers", [1, 2])
def test_calls_are_answered_in_their_order_a_few_ahead(n_workers):
    begun, waited = [], []

    def calls():
        for i in range(20):
            begun.append(i)
            yield partial(divmod, i, 3)

    with open_executor(n_workers=n_workers) as executor:
        answers = run_in_order(
            executor, calls(), n_workers=n_workers, wait=lambda: waited.append(1)
        )
        assert next(answers) == (0, 0)
        assert len(begun) <= (1 if n_workers == 1 else 5)
        assert list(answers) == [divmod(i, 3) for i in range(1, 20)]
    assert len(waited) == (0 if n_workers == 1 else 4)


def test_a_block_that_fails_leaves_the_rest_undone():
    futures = []
    with pytest.raises(ZeroDivisionError), open_executor(n_workers=2) as executor:
        futures += [executor.submit(pow, 2, 2) for _ in range(2000)]
        raise ZeroDivisionError
    assert all(future.done() for future in futures)
    assert any(future.cancelled() for future in futures)


def test_processes_that_the_system_stopped_are_told_in_words():
    with pytest.raises(AuditError, match="memory ran out"), open_executor(n_workers=2) as executor:
        executor.submit(os._exit, 1).result()


def test_processes_end_with_a_parent_that_is_killed():
    program = (
        "import os, time\nfrom audit.executor import open_executor\n"
        "with open_executor(n_workers=2) as executor:\n"
        "    executor.submit(os.getpid).result()\n    print('ready', flush=True)\n"
        "    time.sleep(600)\n"
    )
    read, write_end = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=REPOSITORY, stdout=write_end, stderr=write_end
    ) as parent:
        os.close(write_end)
        assert os.read(read, 5) == b"ready"
        parent.send_signal(signal.SIGKILL)
        left = b"more"
        while left and select.select([read], [], [], 60)[0]:
            left = os.read(read, 4096)
        assert left == b"", "a worker still holds the output"
    os.close(read)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("tcp://10.0.0.1:8786", "names would go over the network in clear"),
        ("tcp://head.cluster:8786", "names would go over the network in clear"),
        ("tcp://127.0.0.1.evil.example:8786", "names would go over the network in clear"),
        ("tcp://0.0.0.0:8786", "names would go over the network in clear"),
        ("127.0.0.1:8786", "no address of a scheduler"),
        ("inproc://1", "no address of a scheduler"),
        ("ucx://10.0.0.1:8786", "no address of a scheduler"),
        ("tls://", "no address of a scheduler"),
    ],
)
def test_an_address_that_lets_others_read_or_forge_is_refused(address, reason):
    with pytest.raises(AuditError, match=reason), open_executor(address):
        pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tcp://[::1]:9", "tls://localhost:9"])
def test_without_the_package_the_file_that_brings_it_is_named(address, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(AuditError, match=r"requirements-cluster\.txt"), open_executor(address):
        pass
