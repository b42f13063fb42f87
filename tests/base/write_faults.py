"""What is kept on a disk that fails at the N-th write, for every N: a program run by tests.

A library preloaded into the process (`write_faults.c`) lets the calls fail, SQLite's too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.repository import REPOSITORY

FAULTS = ((errno.ENOSPC, False), (errno.ENOSPC, True), (errno.EIO, False))
"""(error, whether all that follows fails too)"""


def run_with_faults(what: str, *, folder: Path, n_tries: int | None = None) -> str:
    """Run one of `ROUNDS` in a process whose disk fails, and return what it printed."""
    library = folder / "write_faults.so"
    source = Path(__file__).with_suffix(".c")
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.base.write_faults", what, str(folder), str(n_tries or 0)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ
        | {
            "LD_PRELOAD": str(library),
            "KART_AUDIT_HOME": str(folder / "home"),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True)
class Round:
    """One piece of work: `before` and `after`, which looks for what is lost, on a whole disk.

    `during` works on a failing one and notes what it was told to be kept.
    """

    before: Callable[[Path], None]
    during: Callable[[Path, list[int]], None]
    after: Callable[[Path, list[int]], None]


def _store_before(folder: Path) -> None:
    with Store(folder) as store:
        for n in range(3):
            put_value(store, n)


def _store_during(folder: Path, kept: list[int]) -> None:
    for n in (3, 4, 1, 5):
        with suppress(StoreError), Store(folder) as store:  # a job for each, as many as can
            put_value(store, n)
            kept.append(n)
            for other in range(6):
                assert is_right(store, other) is not False
    with suppress(StoreError), Store(folder) as store:
        store.keys()


def _store_after(folder: Path, kept: list[int]) -> None:
    with Store(folder) as store:
        served = [is_right(store, n) for n in range(6)]
        assert False not in served, "a wrong value"
        assert all(served[n] for n in {0, 1, 2, *kept}), f"lost: {served}, {kept}"
        assert {key_of(n) for n in {0, 1, 2, *kept}} <= set(store.keys()), "not listed"
        for n in range(6):
            put_value(store, n)
            assert is_right(store, n)
        assert store.n_corrupt == 0
        assert len(value_files(folder)) == 6


def _damaged_before(folder: Path) -> None:
    _store_before(folder)
    (folder / "index" / "cache.db").write_bytes(b"not a database" * 500)


def _add(n: int) -> str:
    job_id = f"{n:012x}"
    question = Question("audit", "a → b", 1, "cpu", f"q{n}", (), {"n": n})
    job = table.insert(question, job_id=job_id)
    assert job is not None
    assert job.job_id == job_id
    return job_id


def _table_before(folder: Path) -> None:
    jobs_dir()


def _table_during(folder: Path, kept: list[int]) -> None:
    steps: tuple[Callable[[], object], ...] = (
        lambda: _add(0),
        lambda: _add(1),
        lambda: table.claim(f"{0:012x}"),
        lambda: _add(2),
        lambda: table.end(f"{0:012x}", state="done", result=("answer",)),
        lambda: table.ask_to_cancel(f"{1:012x}"),
        lambda: _add(3),
    )
    for number, step in enumerate(steps):
        with suppress(AuditError):
            step()
            kept.append(number)


def _table_after(folder: Path, kept: list[int]) -> None:
    jobs = {job.job_id: job for job in table.list_jobs()}
    added = {job for step, job in ((0, 0), (1, 1), (3, 2), (6, 3)) if step in kept}
    assert jobs.keys() >= {f"{n:012x}" for n in added}, "a job is lost"
    for job_id in (one for one in jobs if jobs[one].state != "done"):
        assert read_order(job_id) == {"n": int(job_id, 16)}
    if {0, 2, 4} <= set(kept):
        assert jobs[f"{0:012x}"].result == ("answer",)
    if {1, 5} <= set(kept):
        assert jobs[f"{1:012x}"].state == "cancelled"
    for n in {0, 1, 2, 3} - {int(job_id, 16) for job_id in jobs}:
        _add(n)
    with closing(sqlite3.connect(jobs_dir() / table.FILE)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]


def each_fault(which: Round, *, folder: Path, n_tries: int) -> tuple[int, int]:
    """Do a round with every fault, or some drawn ones; return how many there were of how many."""
    shim = ctypes.CDLL(None)
    shim.fault_calls.restype = ctypes.c_long
    shim.fault_in(os.fsencode(folder.resolve()))

    def once(number: int, error: int, is_lasting: bool) -> int:
        shutil.rmtree(folder, ignore_errors=True)
        which.before(folder)
        kept: list[int] = []
        shim.fault_at(ctypes.c_long(number), error, int(is_lasting))
        try:
            which.during(folder, kept)
            n_calls = int(shim.fault_calls())
        finally:
            shim.fault_at(ctypes.c_long(0), 0, 0)
        try:
            which.after(folder, kept)
        except BaseException:
            print(f"write {number}: {errno.errorcode[error]}, lasts: {is_lasting}")
            raise
        return n_calls

    n_calls = once(0, errno.EIO, False)  # none fails
    faults = [(n, *fault) for n in range(1, n_calls + 1) for fault in FAULTS]
    if n_tries:
        faults = random.Random(n_tries).sample(faults, k=min(n_tries, len(faults)))
    for fault in faults:
        once(*fault)
    return len(faults), n_calls


if __name__ == "__main__":
    from audit.errors import AuditError
    from audit.home import results_dir
    from audit.jobs import table
    from audit.jobs.locks import jobs_dir
    from audit.jobs.table import read_order
    from audit.task import Question
    from cache.store import Store, StoreError
    from tests.cache.make_store import value_files
    from tests.cache.make_values import is_right, key_of, put_value

    ROUNDS = {
        "store": Round(_store_before, _store_during, _store_after),
        "damaged": Round(_damaged_before, _store_during, _store_after),
        "table": Round(_table_before, _table_during, _table_after),
    }
    name, where, tries = sys.argv[1:]
    place = results_dir().parent / "jobs" if name == "table" else Path(where) / "results"
    n_faults, n_writes = each_fault(ROUNDS[name], folder=place, n_tries=int(tries))
    print(f"{name}: {n_faults} faults at {n_writes} writes")
