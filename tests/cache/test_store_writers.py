"""Writers of a store: killed, many at once in threads and processes, and on a disk that is full."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cache.store import Store, StoreError
from tests.cache.make_store import contents, quick_disk, store, value_files
from tests.cache.make_values import is_right, put_value
from tests.repository import REPOSITORY, many

__all__ = ["quick_disk", "store"]
WRITER = """
import sys
from pathlib import Path
from tests.cache.make_values import do_not_wait_for_the_disk, put_value
from cache.store import Store
do_not_wait_for_the_disk()
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    for n in range(int(sys.argv[2])):
        put_value(store, n)
"""


def start_program(program: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.long
def test_a_killed_writer_costs_nothing_but_the_value_in_flight(tmp_path, quick_disk):
    n_values = 30
    with Store(tmp_path / "clean") as clean:
        for n in range(n_values):
            put_value(clean, n)
        expected = contents(clean)
    rng = random.Random(20)
    n_found = []
    for trial in range(20):
        directory = tmp_path / f"trial{trial}"
        with start_program(WRITER, directory, n_values) as writer:
            assert writer.stdout.readline() == "ready\n"
            n_to_see = rng.randrange(n_values)
            while writer.poll() is None and len(value_files(directory)) < n_to_see:
                pass
            writer.send_signal(signal.SIGKILL)
        with Store(directory) as store:
            outcomes = [is_right(store, n) for n in range(n_values)]
            assert False not in outcomes
            n_found.append(outcomes.count(True))
            assert outcomes == sorted(outcomes, key=lambda right: right is None)  # no holes
            for n in range(n_values):
                put_value(store, n)
            assert contents(store) == expected
            assert len(value_files(directory)) == n_values
            assert store.n_corrupt == 0
        shutil.rmtree(directory)
    assert len(set(n_found)) > 3  # the kills came at different moments


N_KEYS = 40
# A job: it opens the store, keeps some values, and closes it.
JOB = """
import random, sys, time
from pathlib import Path
from tests.cache.make_values import do_not_wait_for_the_disk, put_value
from cache.store import Store
do_not_wait_for_the_disk()
rng = random.Random(int(sys.argv[2]))
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    with Store(Path(sys.argv[1])) as store:
        for n in rng.sample(range(40), 5):
            put_value(store, n)
        put_value(store, rng.randrange(40, 10_000))  # a new one, which is listed
        assert store.n_rebuilt == 0
"""


@pytest.mark.long
def test_reruns_beside_jobs_see_every_value(tmp_path, quick_disk):
    """Six sessions of the app for some seconds: each draws page after page, each in a thread."""
    end = time.monotonic() + many(5)
    troubles: list[str] = []

    def rerun(rng: random.Random) -> None:
        try:
            with Store(app_store.directory) as page_store:  # to see whether a question is answered
                for opened_store in (app_store, page_store):
                    if is_right(opened_store, rng.randrange(N_KEYS)) is not True:
                        troubles.append("a value is not served")
                put_value(page_store, rng.randrange(N_KEYS))
                if len(page_store.keys()) < N_KEYS:
                    troubles.append("a value is not listed")
                if page_store.n_rebuilt:
                    troubles.append("the index was made anew")
        except StoreError as error:
            troubles.append(str(error))

    def session(number: int) -> int:
        rng, n_reruns = random.Random(number), 0
        while time.monotonic() < end:
            thread = threading.Thread(target=rerun, args=(rng,))
            thread.start()
            thread.join()
            n_reruns += 1
        return n_reruns

    # The app's own store lives as long as the server.
    with Store(tmp_path / "results") as app_store:
        for n in range(N_KEYS):
            put_value(app_store, n)
        jobs = [start_program(JOB, app_store.directory, number, many(5)) for number in range(3)]
        with ThreadPoolExecutor(6) as pool:
            assert min(pool.map(session, range(6))) > 0
        errors = [job.communicate(timeout=60)[1] for job in jobs]
        assert [job.returncode for job in jobs] == [0, 0, 0], errors
        assert troubles == []
        assert app_store.n_corrupt == app_store.n_rebuilt == 0
        assert not (app_store.directory / "quarantine").exists()
