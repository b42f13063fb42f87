"""The process of a job of a made-up kind: tiny work that can be watched, stopped and killed."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.errors import AuditCancelled, AuditError
from audit.home import data_home
from audit.jobs import child
from audit.jobs.service import KINDS
from audit.progress import Progress
from audit.task import Contact
from cache.store import Store
from tests.cache.make_values import do_not_wait_for_the_disk, is_right, put

SECRET = "Mary Smith"


def note_process(what: str) -> None:
    with (data_home() / "processes").open("a") as file:
        file.write(f"{what} {os.getpid()}\n")


def count(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Write one line a step, going on after those that are there."""
    path, n = Path(order["path"]), order["n"]
    path.touch()
    for i in range(len(path.read_text().splitlines()), n):
        while (path.parent / "hold").exists() or order.get("is_held"):
            time.sleep(0.01)
            contact.report(Progress("general model: documents", i, n, 9.0), (("n_documents", i),))
            if contact.should_stop():
                raise AuditCancelled
        with path.open("a") as file:
            file.write(f"{i} {os.getpid()}\n")
        contact.report(Progress("general model: documents", i + 1, n, None), ())
        if contact.should_stop():
            raise AuditCancelled
    return (f"{n:064d}",)


def shards(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Keep some values, but for those that are kept already, alone on its device."""
    do_not_wait_for_the_disk()
    folder, numbers = Path(order["store"]), range(order["first"], order["end"])
    with (folder.parent / "alone").open("w") as alone, Store(folder) as store:
        fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for n in numbers:
            if is_right(store, n) is None:
                put(store, n)
                time.sleep(0.02)
            contact.report(Progress("general model: documents", n, len(numbers), None), ())
    return (f"{order['first']:064d}",)


def deaf(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(order["path"]).write_text("deaf")
    while True:
        time.sleep(0.05)


def mistake(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    raise ValueError(SECRET)


def refuse(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    raise AuditError("Memory ran out.", where="micro-batch", do="Try less.")


def die(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    os.kill(os.getpid(), signal.SIGKILL)
    return ()


KINDS |= {
    "count": count, "shards": shards, "deaf": deaf, "mistake": mistake, "refuse": refuse,
    "die": die,
}  # fmt: skip

if __name__ == "__main__":
    note_process("child")
    sys.exit(child.main())
