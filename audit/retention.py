"""How long what is kept stays, by kind, and the purge that removes what is past its time.

What a job that waits or runs uses stays, and so do the demo's audits and what another kept thing
rests on; each removal is a line of the access log, written before it.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

from pydantic import Field

from audit.access_log import record
from audit.backup import upkeep
from audit.errors import AuditError
from audit.foreign import reading
from audit.home import data_home, results_dir
from audit.jobs import table
from audit.names.lists import load_names, load_passages
from audit.report.report import read_demo_digests
from audit.shelf import Shelf, is_code, taken, write_whole
from audit.task import Record
from cache.store import Store

_MAKE_AUDITS = ("audit", "demo", "experiment", "leakage")
"""Jobs that read and write evidence."""
_FILE = "retention.json"
_DAY = 86_400.0
_TOLD = "days after which they are removed; 0: never"
_Days = Annotated[int, Field(ge=0, le=36_500, description=_TOLD)]


class Periods(Record):
    """Days that each kind of kept thing stays; 0 is until somebody removes it."""

    scores: _Days = 0
    tagged: _Days = 0
    given: _Days = 0
    audits: _Days = 0
    lists: _Days = 0
    passages: _Days = 0
    models: _Days = 0
    corpora: _Days = 0
    experiments: _Days = 0
    jobs: _Days = 0


KINDS = tuple(Periods.model_fields)
"""In the order in which they are purged: what rests on others before these."""
_SHELVES = {
    "scores": ("audit.deid.score_report:SCORES",),
    "tagged": ("audit.deid.tagged_sets:TAGGED_SETS", "audit.deid.releases:RELEASES"),
    "models": ("audit.training.trainings:MODELS", "audit.deid.taggers:TAGGERS"),
    "corpora": ("audit.corpus.corpora:CORPORA",),
    "experiments": ("audit.experiment.leakage:LEAKAGE",),
}
_VALUES = {
    "audits": ("audit", "documents", "inspection", "finished", "decision"),
    "lists": ("list", "list-line"),
    "passages": ("passages", "passages-line"),
}
_BY_AGE_ALONE = {
    "audits": ("results/values/shard", "results/quarantine"),
    "given": ("scores/.given",),
}
"""Folders whose files are removed by their age: a shard is of no one audit."""


@dataclass(frozen=True)
class Purged:
    """What a purge removed of a kind, or would remove, and what past its time it left, and why.

    `n_files` are shards and other files that go by their age alone, whatever they are of.
    """

    kind: str
    n_removed: int = 0
    n_files: int = 0
    n_in_use: int = 0
    n_rested_on: int = 0
    n_demo: int = 0


@dataclass(frozen=True)
class _Thing:
    """A kept thing: how the log names it, when it was made, what orders and records call it."""

    named: Mapping[str, str]
    made: float
    code: str
    called: str
    remove: Callable[[], object]
    is_locked: bool = False


def periods() -> Periods:
    """Return the periods that are set."""
    path = data_home() / _FILE
    with reading(_FILE):
        return Periods.read(path.read_bytes(), where=_FILE) if path.exists() else Periods()


def set_periods(**days: int) -> Periods:
    """Set some periods and return all."""
    new = periods().with_(**days)
    write_whole(data_home() / _FILE, new.to_bytes())
    return new


def purge_due() -> tuple[Purged, ...]:
    """Remove what is past its period, where any is set; what a server does once a day."""
    due = {kind: days for kind, days in periods().plain().items() if days}
    return purge(due, waits=False) if due else ()


@contextmanager
def _removing() -> Iterator[None]:
    """Say in words that the system lets nothing be removed."""
    try:
        yield
    except OSError as error:
        raise AuditError(
            "It cannot all be removed ({strerror}); what is gone by now is in the access log.",
            where="purge",
            do="Let this account write into the data directory, and purge again.",
            strerror=os.strerror(error.errno or 0),
        ) from None


def purge(
    days: Mapping[str, int], *, is_dry: bool = False, waits: bool = True
) -> tuple[Purged, ...]:
    """Remove what is older than so many days, by kind; `is_dry` only counts it.

    Raises AuditError where the data directory cannot be written.
    """
    found, gone = [], set[str]()
    with _removing(), upkeep(waits=waits) as is_alone, Store(results_dir()) as store:
        for kind in filter(days.__contains__, KINDS if is_alone else ()):
            before = time.time() - days[kind] * _DAY
            if kind == "jobs":
                found.append(_purge_jobs(before, is_dry=is_dry))
                continue
            with table.lock_table():  # no job begins meanwhile
                found.append(_purge(kind, before, gone=gone, store=store, is_dry=is_dry))
    return tuple(found)


def _purge(kind: str, before: float, *, gone: set[str], store: Store, is_dry: bool) -> Purged:
    """Remove the old things of a kind; `gone` are those removed so far, and these."""
    active = table.list_jobs(is_active=True)
    orders = (_text(data_home() / "jobs" / "orders" / f"{job.job_id}.json") for job in active)
    used = " ".join((*orders, *(job.question for job in active)))
    is_busy = kind == "audits" and any(job.kind in _MAKE_AUDITS for job in active)
    demo, records = read_demo_digests(store).values(), _records(kind, store)
    n: Counter[str] = Counter()
    for thing in (one for one in _things(kind, store) if one.made <= before):
        others = (text for own, text in records.items() if own not in (thing.code, *gone))
        if kind == "audits" and thing.code in demo:
            n["n_demo"] += 1
        elif is_busy or thing.is_locked or thing.code in used:
            n["n_in_use"] += 1
        elif any(thing.called in text for text in others):
            n["n_rested_on"] += 1
        else:
            n["n_removed"] += 1
            gone.add(thing.code)
            if not is_dry:
                record("removed", what=kind, reason="retention", **thing.named)
                thing.remove()
    files = [
        path
        for folder in _BY_AGE_ALONE.get(kind, ())
        for path in _files(data_home() / folder)
        if not is_busy and path.stem not in used and path.stat().st_mtime <= before
    ]
    if files and not is_dry:
        record("removed", what=f"{kind}-files", reason="retention", n_files=len(files))
        store.remove(*(f"shard/{path.stem}" for path in files if path.parent.name == "shard"))
        for path in files:
            path.unlink(missing_ok=True)
    return Purged(kind, n_files=len(files), **n)


def _purge_jobs(before: float, *, is_dry: bool) -> Purged:
    ended = (job for job in table.list_jobs() if not job.is_active)
    old = [job.job_id for job in ended if _moment(job.finished) <= before]
    for job_id in () if is_dry else old:
        record("removed", what="jobs", reason="retention", job=job_id)
        table.forget(job_id)
    return Purged("jobs", n_removed=len(old))


def _things(kind: str, store: Store) -> Iterator[_Thing]:
    yield from (_shelved(shelf, folder) for shelf, folder in _folders(kind))
    prefixes = _VALUES.get(kind, ())
    found = (path for one in prefixes for path in _files(store.directory / "values" / one))
    for digest, paths in groupby(sorted(found, key=attrgetter("stem")), key=attrgetter("stem")):
        made = max(path.stat().st_mtime for path in paths)
        named = {"audit": digest} if kind == "audits" else {"run": digest[:12]}
        remove = partial(store.remove, *(f"{one}/{digest}" for one in prefixes))
        yield _Thing(named, made, digest, _content(kind, digest, store), remove)


def _content(kind: str, digest: str, store: Store) -> str:
    """Return what an audit calls a kept list, or passages."""
    with suppress(AuditError):
        if kind == "lists":
            return load_names(digest, store=store).candidates.digest()
        if kind == "passages":
            return load_passages(digest, store=store).passages.digest()
    return digest


def _shelved(shelf: Shelf[Any], folder: Path) -> _Thing:
    made = folder.stat().st_mtime
    with suppress(AuditError):  # what is damaged goes by its folder's age
        made = _moment(shelf.newest(shelf.at(folder))) or made
    lock = taken(folder, is_folder=True)
    if lock is not None:
        lock.release()
    code = folder.name
    return _Thing({"run": code}, made, code, code, partial(shelf.forget, code), lock is None)


def _moment(at: Any) -> float:
    """Return seconds since 1970 of a time stamp, be it one already; 0 for none."""
    with suppress(ValueError, TypeError):
        return float(at) if isinstance(at, float) else datetime.fromisoformat(at).timestamp()
    return 0.0


def _records(kind: str, store: Store) -> dict[str, str]:
    """Return the records in which a thing of a kind may be named, by what they are of."""
    if kind in ("lists", "passages"):
        kept = {key: store.get_record(key) or {} for key in store.keys("audit/")}
        return {key.partition("/")[2]: str(one.get("question")) for key, one in kept.items()}
    folders = [folder for kept in _SHELVES for _, folder in _folders(kept)]
    return {folder.name: " ".join(map(_text, folder.glob("*.json"))) for folder in folders}


def _folders(kind: str) -> Iterator[tuple[Shelf[Any], Path]]:
    """Yield the folders of a kind's things, each with its shelf."""
    for shelf in map(resolve_name, _SHELVES.get(kind, ())):
        for folder in sorted(shelf.home().iterdir()):
            if is_code(folder.name) and folder.is_dir():
                yield shelf, folder


def _files(folder: Path) -> list[Path]:
    return [one for one in folder.iterdir() if one.is_file()] if folder.is_dir() else []


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
