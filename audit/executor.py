"""Where parts of long work run: in this process, in processes of this machine, or on Dask.

The scheduler and the workers of a Dask cluster unpickle whatever they receive, so anybody who can
connect to one runs code as the account that started it. Therefore the address is set where a
program is started, never by a task or on a page, and beyond this machine the connection uses TLS
with certificates on both sides.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any, TypeVar

from audit.errors import AuditError

SCHEDULER_VARIABLE = "KART_AUDIT_SCHEDULER"
"""Variable with the address of the scheduler to which this process and its jobs send audits."""
PASSIVE_THREADS: Mapping[str, str] = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Variables of a process that computes: its threads sleep while they wait for each other.

Threads that spin keep the processor from those they wait for as soon as another program computes.
It must be set before torch is imported.
"""
_CONNECT_SECONDS = 10
_N_AHEAD = 2
T = TypeVar("T")
_DIED = (
    "The system stopped processes that did the work, most often because memory ran out; everything "
    "finished before is kept."
)
_FREE = "Start fewer workers, or give each more memory; the same command goes on from there."


@contextmanager
def use_scheduler(address: str) -> Iterator[None]:
    """Send audits to the scheduler at an address while the block runs; "" changes nothing."""
    earlier = os.environ.get(SCHEDULER_VARIABLE)
    if address:
        os.environ[SCHEDULER_VARIABLE] = address
    try:
        yield
    finally:
        os.environ.pop(SCHEDULER_VARIABLE, None)
        if earlier is not None:
            os.environ[SCHEDULER_VARIABLE] = earlier


@contextmanager
def open_executor(scheduler: str = "", *, n_workers: int = 1) -> Iterator[Executor | None]:
    """Yield an executor for the block, or None if the work is to be done here, one by one.

    Submitted calls are pickled, so they consist of a module's function and plain values. If the
    block fails or is stopped, calls that have not begun are dropped.

    Parameters
    ----------
    scheduler
        Address of a Dask scheduler, "tls://host:port", or "tcp://" on this machine.
    n_workers
        Processes of this machine, used without a scheduler. They end when this process ends.

    Raises
    ------
    AuditError
        If the address is refused, `distributed` is not installed, or no scheduler answers; also if
        the block ends because the scheduler or the working processes were lost.
    """
    if scheduler:
        with _open_client(scheduler) as client:
            yield client.get_executor(pure=False)
    elif n_workers > 1:
        # Not forked: a lock that another thread holds would stay locked in the copy for ever.
        pool = ProcessPoolExecutor(
            n_workers, mp_context=get_context("spawn"), initializer=_end_with_parent
        )
        try:
            yield pool
        except BrokenProcessPool:
            raise AuditError(_DIED, do=_FREE) from None
        finally:
            pool.shutdown(cancel_futures=True)
    else:
        yield None


def count_cores(*, max_cores: int = 8) -> int:
    """Return how many processes can work at once here, at most `max_cores`."""
    if hasattr(os, "sched_getaffinity"):
        return min(max_cores, len(os.sched_getaffinity(0)))
    return min(max_cores, os.cpu_count() or 1)


def run_in_order(
    executor: Executor | None,
    calls: Iterable[Callable[[], T]],
    *,
    n_workers: int,
    wait: Callable[[], None] = lambda: None,
) -> Iterator[T]:
    """Yield the results of calls in their order; an executor runs a few calls ahead.

    `wait` is called before each wait for one of the last results, and may raise.
    """
    if executor is None:
        yield from (call() for call in calls)
        return
    waiting = deque[Future[T]]()
    for call in calls:
        waiting.append(executor.submit(call))
        if len(waiting) > _N_AHEAD * n_workers:
            yield waiting.popleft().result()
    while waiting:
        wait()
        yield waiting.popleft().result()


def _end_with_parent() -> None:
    """End this worker when its parent process is gone, even if the parent was killed.

    An interrupt from a terminal reaches all processes; only the parent acts on it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="watching the parent", daemon=True).start()


@contextmanager
def _open_client(address: str) -> Iterator[Any]:
    _check_address(address)
    try:
        from distributed import Client, KilledWorker, Security
        from distributed.comm import connect
    except ImportError:
        raise AuditError(
            "The package `distributed` is not installed.",
            where="--scheduler",
            do="`pip install -r requirements-cluster.txt` where this runs and on every worker.",
        ) from None
    # Certificates come from Dask's own settings (`distributed.comm.tls`).
    security = Security(require_encryption=address.startswith("tls://"))

    async def try_connection() -> (
        None
    ):  # a Client that cannot connect keeps trying after its caller gave up
        connection_args = security.get_connection_args("client")
        await (await connect(address, timeout=_CONNECT_SECONDS, **connection_args)).close()

    try:
        asyncio.run(try_connection())
        client = Client(address, security=security, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, RuntimeError, TypeError, ValueError):  # their text holds paths of keys
        raise AuditError(
            "No scheduler answers at {address}.",
            where="--scheduler",
            address=address,
            do="Start it, or see that the certificates of Dask's settings are those it knows.",
        ) from None
    try:
        yield client
    except KilledWorker:  # several workers died over the same part
        raise AuditError(_DIED, where="--scheduler", do=_FREE) from None
    except CancelledError:
        raise AuditError(
            "The scheduler was lost; everything finished before is kept.",
            where="--scheduler",
            do="Start it and its workers again; the same command goes on from there.",
        ) from None
    finally:
        client.close(timeout=_CONNECT_SECONDS)


def _check_address(address: str) -> None:
    """Refuse an address whose connection others could read or forge."""
    scheme, _, rest = address.partition("://")
    host = rest.rpartition(":")[0].strip("[]")
    if scheme == "tls" and host:
        return
    if scheme != "tcp" or not host:
        raise AuditError(
            "is no address of a scheduler.",
            where="--scheduler",
            do="For example tls://head.cluster:8786, or tcp://127.0.0.1:8786 on this machine.",
        )
    if not _is_loopback(host):
        raise AuditError(
            "tcp:// is neither encrypted nor does it ask who connects: names would go over the "
            "network in clear, and whoever reaches the scheduler runs code on it.",
            where="--scheduler",
            do="Off this machine take tls://, with certificates in Dask's settings.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
