"""Writers of a store: killed, many at once in threads and processes, and on a disk that is full."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cache.store import Store, StoreError
from tests.cache.make_store import contents, quick_disk, store, value_files
from tests.cache.make_values import is_right, put
from tests.repository import REPOSITORY, many

__all__ = ["quick_disk", "store"]
WRITER = """
import sys
from pathlib import Path
from tests.cache.make_values import do_not_wait_for_the_disk, put
from cache.store import Store
do_not_wait_for_the_disk()
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    for n in range(int(sys.argv[2])):
        put(store, n)
"""


def start_writer(directory: Path, *, n_values: int) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(n_values)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_writer_costs_nothing_but_the_value_in_flight(
    tmp_path: Path, quick_disk: None
) -> None:
    n_values = 30
    with Store(tmp_path / "clean") as clean:
        for n in range(n_values):
            put(clean, n)
        expected = contents(clean)
    rng = random.Random(20)
    n_found = []
    for trial in range(20):
        directory = tmp_path / f"trial{trial}"
        with start_writer(directory, n_values=n_values) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            n_to_see = rng.randrange(n_values)
            while writer.poll() is None and len(value_files(directory)) < n_to_see:
                pass
            writer.send_signal(signal.SIGKILL)
        with Store(directory) as store:
            found = [is_right(store, n) for n in range(n_values)]
            assert False not in found
            n_found.append(found.count(True))
            assert found == sorted(found, key=lambda right: right is None)  # no holes
            for n in range(n_values):
                put(store, n)
            assert contents(store) == expected
            assert len(value_files(directory)) == n_values
            assert store.n_corrupt == 0
        shutil.rmtree(directory)
    assert len(set(n_found)) > 3  # the kills came at different moments


def test_a_full_disk_is_said_in_plain_words(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, 1)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match=r"The disk is full\. Free some space"):
            put(store, 2)
    assert is_right(store, 1)
    assert is_right(store, 2) is None
    put(store, 2)
    assert is_right(store, 2)
    assert store.n_corrupt == 0


# The file-size limit makes real writes fail, in SQLite too, at a place that nobody chose.
LIMITED = """
import resource, sys
from pathlib import Path
from tests.cache.make_values import do_not_wait_for_the_disk, is_right, put
from cache.store import Store, StoreError
with Store(Path(sys.argv[1])) as store:
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    n_put = 0
    try:
        for n in range(200):
            put(store, n if n % 10 != 3 else n + 1)
            n_put += 1
    except StoreError as error:
        print(type(error.__cause__).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert n_put < 200
    assert all(is_right(store, n) for n in range(n_put) if n % 10 != 3)
    put(store, 199)
    assert is_right(store, 199)
    assert store.n_corrupt == 0
"""


def test_an_index_that_cannot_grow_is_not_taken_for_damaged(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "results")],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in ("OperationalError", "Timeout")


N_KEYS = 40
# A job: it opens the store, keeps some values, and closes it.
JOB = """
import random, sys, time
from pathlib import Path
from tests.cache.make_values import do_not_wait_for_the_disk, put
from cache.store import Store
do_not_wait_for_the_disk()
rng = random.Random(int(sys.argv[2]))
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    with Store(Path(sys.argv[1])) as store:
        for n in rng.sample(range(40), 5):
            put(store, n)
"""


class Sessions:
    """Six sessions of the app for some seconds: each draws page after page, each in a thread."""

    def __init__(self, shown: Store, *, seconds: float) -> None:
        self.shown = shown
        self.troubles: list[str] = []
        self.n_reruns = [0] * 6
        self._end = time.monotonic() + seconds
        threads = [threading.Thread(target=self._session, args=(n,)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _session(self, number: int) -> None:
        rng = random.Random(number)
        while time.monotonic() < self._end:
            drawn = threading.Thread(target=self._rerun, args=(rng,))
            drawn.start()
            drawn.join()
            self.n_reruns[number] += 1

    def _rerun(self, rng: random.Random) -> None:
        try:
            self._look(self.shown, rng)
            with Store(self.shown.directory) as asked:  # to see whether a question is answered
                self._look(asked, rng)
                put(asked, rng.randrange(N_KEYS))
        except StoreError as error:
            self.troubles.append(str(error))

    def _look(self, store: Store, rng: random.Random) -> None:
        if is_right(store, rng.randrange(N_KEYS)) is not True:
            self.troubles.append("a value is not served")


def test_reruns_beside_jobs_see_every_value(tmp_path: Path, quick_disk: None) -> None:
    seconds = float(many(5))
    with Store(tmp_path / "results") as shown:  # the app's own, which lives as long as the server
        for n in range(N_KEYS):
            put(shown, n)
        jobs = [
            subprocess.Popen(
                [sys.executable, "-c", JOB, str(shown.directory), str(number), str(seconds)],
                env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
            )
            for number in range(3)
        ]
        sessions = Sessions(shown, seconds=seconds)
        assert [job.wait(60) for job in jobs] == [0, 0, 0]
        n = f"{len(sessions.troubles)} troubles in {sum(sessions.n_reruns)} reruns"
        print(n)
        assert sessions.troubles == [], f"{n}: {set(sessions.troubles)}"
        assert min(sessions.n_reruns) > 0
        assert shown.n_corrupt == 0
        assert not (shown.directory / "quarantine").exists()
