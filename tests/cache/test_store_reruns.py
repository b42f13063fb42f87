"""A store as the app uses it: a thread for each page that is drawn, processes beside it.

SQLite's locks are the process's own and fall when *any* descriptor of the file is closed. Where
that happens another process takes the index for abandoned and deletes the log that it lives from.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

from cache.store import Store, StoreError
from tests.cache.make_store import quick_disk
from tests.cache.make_values import is_right, put
from tests.repository import REPOSITORY, many

__all__ = ["quick_disk"]
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
