"""The process of a job of a made-up kind: tiny work that can be watched, stopped and killed."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from pathlib import Path

from pydantic import Field

from audit.errors import AuditCancelled, AuditError
from audit.home import data_home
from audit.jobs import child
from audit.progress import Progress
from audit.task import Contact, Task
from cache.store import Store
from tests.cache.make_values import do_not_wait_for_the_disk, is_right, put_value
from tests.jobs import fake_jobs  # noqa: F401 (makes the kinds known)

SECRET = "Mary Smith"


def note_process(role: str) -> None:
    with (data_home() / "processes").open("a") as file:
        file.write(f"{role} {os.getpid()}\n")


class _Fake(Task):
    """Work of a made-up kind; its question is made by the tests."""

    path: Path = Field(default=Path(), strict=False)
    n: int = 0
    is_held: bool = False


class Count(_Fake):
    """Write one line a step, going on after those that are there."""

    job = "count"

    def run(self, contact: Contact) -> tuple[str, ...]:
        self.path.touch()
        for i in range(len(self.path.read_text().splitlines()), self.n):
            while (self.path.parent / "hold").exists() or self.is_held:
                time.sleep(0.01)
                contact.listen(Progress("general model: documents", i, self.n, 9.0))
                if contact.should_stop():
                    raise AuditCancelled
            with self.path.open("a") as file:
                file.write(f"{i} {os.getpid()}\n")
            contact.listen(Progress("general model: documents", i + 1, self.n, None))
            if contact.should_stop():
                raise AuditCancelled
        return (f"{self.n:064d}",)


class Shards(Task):
    """Keep some values, but for those that are kept already, alone on its device."""

    job = "shards"
    store: str
    first: int
    end: int

    def run(self, contact: Contact) -> tuple[str, ...]:
        do_not_wait_for_the_disk()
        folder, numbers = Path(self.store), range(self.first, self.end)
        with (folder.parent / "alone").open("w") as alone, Store(folder) as store:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for n in numbers:
                if is_right(store, n) is None:
                    put_value(store, n)
                    time.sleep(0.02)
                contact.listen(Progress("general model: documents", n, len(numbers), None))
        return (f"{self.first:064d}",)


class Deaf(_Fake):
    job = "deaf"

    def run(self, contact: Contact) -> tuple[str, ...]:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.path.write_text("deaf")
        while True:
            time.sleep(0.05)


class Mistake(_Fake):
    job = "mistake"

    def run(self, contact: Contact) -> tuple[str, ...]:
        raise ValueError(SECRET)


class Refuse(_Fake):
    job = "refuse"

    def run(self, contact: Contact) -> tuple[str, ...]:
        raise AuditError("Memory ran out.", where="micro-batch", do="Try less.")


class Die(_Fake):
    job = "die"

    def run(self, contact: Contact) -> tuple[str, ...]:
        os.kill(os.getpid(), signal.SIGKILL)
        return ()


if __name__ == "__main__":
    note_process("child")
    sys.exit(child.main())
