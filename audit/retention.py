"""Retention periods by kind of kept thing, and the purge that removes what is past its period.

Things stay if a waiting or running job uses them, if another kept thing depends on them, or if they
are audits of the demo. Before each removal a line is written to the access log.
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
from audit.foreign import locate_errors
from audit.home import data_home, results_dir
from audit.jobs import table
from audit.names.lists import load_names, load_passages
from audit.report import audit_store
from audit.shelf import Shelf, is_code, take_lock, write_whole
from audit.task import Record
from cache.store import Store

_MAKE_AUDITS = ("audit", "demo", "experiment", "leakage", "tagger_audit")
"""Jobs that read and write evidence."""
_FILE = "retention.json"
_DAY = 86_400.0
_PERIOD_HELP = "days after which they are removed; 0: never"
_Days = Annotated[int, Field(ge=0, le=36_500, description=_PERIOD_HELP)]


class Periods(Record):
    """Days for which each kind of kept thing stays; 0 means until somebody removes it."""

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
"""The order of purging: a kind comes before the kinds on which it depends."""
_SHELVES = {
    "scores": ("audit.deid.measure.score_report:SCORES",),
    "tagged": ("audit.deid.sets.tagged_sets:TAGGED_SETS", "audit.deid.sets.releases:RELEASES"),
    "models": (
        "audit.training.trainings:MODELS",
        "audit.models.convert:CONVERTED",
        "audit.deid.find.taggers:TAGGERS",
    ),
    "corpora": ("audit.corpus.corpora:CORPORA",),
    "experiments": ("audit.experiment.leakage:LEAKAGE",),
}
_VALUES = {
    "audits": audit_store.KINDS,
    "lists": ("list", "list-line"),
    "passages": ("passages", "passages-line"),
}
_BY_AGE_ALONE = {
    "audits": ("results/values/shard", "results/quarantine"),
    "given": ("scores/.given",),
}
"""Folders whose files are removed by age alone, because a shard belongs to no single audit."""


@dataclass(frozen=True)
class Purged:
    """Counts of one kind: things that a purge removed or would remove, and old ones that it left.

    `n_files` counts shards and other files that are removed by age alone.
    """

    kind: str
    n_removed: int = 0
    n_files: int = 0
    n_in_use: int = 0
    n_rested_on: int = 0
    n_demo: int = 0


@dataclass(frozen=True)
class _Thing:
    """A kept thing: its fields in the log, its time, and its names in orders and in records."""

    log_fields: Mapping[str, str]
    creation_time: float
    code: str
    reference: str
    remove: Callable[[], None]
    is_locked: bool = False


def periods() -> Periods:
    """Return the periods that are set."""
    path = data_home() / _FILE
    with locate_errors(_FILE):
        return Periods.read(path.read_bytes(), where=_FILE) if path.exists() else Periods()


def set_periods(**days: int) -> Periods:
    """Set some periods and return all of them."""
    new = periods().with_(**days)
    write_whole(data_home() / _FILE, new.to_bytes())
    return new


def purge_due() -> tuple[Purged, ...]:
    """Remove what is past its period, if any is set; a server does this once a day."""
    due = {kind: days for kind, days in periods().plain().items() if days}
    return purge(due, waits=False) if due else ()


@contextmanager
def _explain_removal_errors() -> Iterator[None]:
    """Turn an OSError of the block into an AuditError about the removal."""
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
    """Remove things that are older than the given days of their kind; `is_dry` only counts them.

    Raises AuditError if the data directory cannot be written.
    """
    purged, removed_codes = [], set[str]()
    with _explain_removal_errors(), upkeep(waits=waits) as is_alone, Store(results_dir()) as store:
        for kind in filter(days.__contains__, KINDS if is_alone else ()):
            cutoff = time.time() - days[kind] * _DAY
            if kind == "jobs":
                purged.append(_purge_jobs(cutoff, is_dry=is_dry))
                continue
            with table.lock_table():  # so that no job begins meanwhile
                purged.append(
                    _purge_kind(
                        kind, cutoff, removed_codes=removed_codes, store=store, is_dry=is_dry
                    )
                )
    return tuple(purged)


def _purge_kind(
    kind: str, cutoff: float, *, removed_codes: set[str], store: Store, is_dry: bool
) -> Purged:
    """Remove the old things of a kind, and add their codes to `removed_codes`."""
    active = table.list_jobs(is_active=True)
    orders = (_read_text(data_home() / "jobs" / "orders" / f"{job.job_id}.json") for job in active)
    used = " ".join((*orders, *(job.question for job in active)))
    is_busy = kind == "audits" and any(job.kind in _MAKE_AUDITS for job in active)
    demo, records = audit_store.read_demo_digests(store).values(), _read_records(kind, store)
    n: Counter[str] = Counter()
    for thing in (
        candidate for candidate in _list_things(kind, store) if candidate.creation_time <= cutoff
    ):
        other_records = (
            text for code, text in records.items() if code not in (thing.code, *removed_codes)
        )
        if kind == "audits" and thing.code in demo:
            n["n_demo"] += 1
        elif is_busy or thing.is_locked or thing.code in used:
            n["n_in_use"] += 1
        elif any(thing.reference in text for text in other_records):
            n["n_rested_on"] += 1
        else:
            n["n_removed"] += 1
            removed_codes.add(thing.code)
            if not is_dry:
                record("removed", what=kind, reason="retention", **thing.log_fields)
                thing.remove()
    files = [
        path
        for folder in _BY_AGE_ALONE.get(kind, ())
        for path in _list_files(data_home() / folder)
        if not is_busy and path.stem not in used and path.stat().st_mtime <= cutoff
    ]
    if files and not is_dry:
        record("removed", what=f"{kind}-files", reason="retention", n_files=len(files))
        store.remove(*(f"shard/{path.stem}" for path in files if path.parent.name == "shard"))
        for path in files:
            path.unlink(missing_ok=True)
    return Purged(kind, n_files=len(files), **n)


def _purge_jobs(cutoff: float, *, is_dry: bool) -> Purged:
    ended = (job for job in table.list_jobs() if not job.is_active)
    old = [job.job_id for job in ended if _to_seconds(job.finished) <= cutoff]
    for job_id in () if is_dry else old:
        record("removed", what="jobs", reason="retention", job=job_id)
        table.forget(job_id)
    return Purged("jobs", n_removed=len(old))


def _list_things(kind: str, store: Store) -> Iterator[_Thing]:
    yield from (_describe_shelved(shelf, folder) for shelf, folder in _list_folders(kind))
    prefixes = _VALUES.get(kind, ())
    value_files = (
        path for prefix in prefixes for path in _list_files(store.directory / "values" / prefix)
    )
    for digest, paths in groupby(
        sorted(value_files, key=attrgetter("stem")), key=attrgetter("stem")
    ):
        creation_time = max(path.stat().st_mtime for path in paths)
        log_fields = {"audit": digest} if kind == "audits" else {"run": digest[:12]}
        remove = partial(store.remove, *(f"{prefix}/{digest}" for prefix in prefixes))
        yield _Thing(
            log_fields, creation_time, digest, _find_content_digest(kind, digest, store), remove
        )


def _find_content_digest(kind: str, digest: str, store: Store) -> str:
    """Return the digest by which an audit names a kept list or passages."""
    with suppress(AuditError):
        if kind == "lists":
            return load_names(digest, store=store).candidates.digest()
        if kind == "passages":
            return load_passages(digest, store=store).passages.digest()
    return digest


def _describe_shelved(shelf: Shelf[Any], folder: Path) -> _Thing:
    creation_time = folder.stat().st_mtime
    with suppress(AuditError):  # a damaged thing has the age of its folder
        creation_time = _to_seconds(shelf.newest(shelf.read_folder(folder))) or creation_time
    lock = take_lock(folder, is_folder=True)
    if lock is not None:
        lock.release()
    code = folder.name
    return _Thing(
        {"run": code}, creation_time, code, code, partial(shelf.forget, code), lock is None
    )


def _to_seconds(time_stamp: str | float) -> float:
    """Return a time stamp as seconds since 1970, unchanged if it is a float; 0 if there is none."""
    with suppress(ValueError, TypeError):
        return (
            float(time_stamp)
            if isinstance(time_stamp, float)
            else datetime.fromisoformat(time_stamp).timestamp()
        )
    return 0.0


def _read_records(kind: str, store: Store) -> dict[str, str]:
    """Return the records that may name a thing of this kind, by the code of their own thing."""
    if kind in ("lists", "passages"):
        return {
            digest: str(audit_store.read_question(digest, store=store))
            for digest in audit_store.list_digests(store)
        }
    folders = [folder for shelf_kind in _SHELVES for _, folder in _list_folders(shelf_kind)]
    return {folder.name: " ".join(map(_read_text, folder.glob("*.json"))) for folder in folders}


def _list_folders(kind: str) -> Iterator[tuple[Shelf[Any], Path]]:
    """Yield the folders of a kind's things, each with its shelf."""
    for shelf in map(resolve_name, _SHELVES.get(kind, ())):
        for folder in sorted(shelf.home().iterdir()):
            if is_code(folder.name) and folder.is_dir():
                yield shelf, folder


def _list_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []


def _read_text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
