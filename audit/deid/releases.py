"""The releases with surrogates that this installation made: their keys, and which can be reversed.

A release of the page is a kept set, its key a file of the set. One of `deid tag` lies where it was
written; its record and its key are kept here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from audit.access_log import record
from audit.deid.keys import KEY, Key, read_key
from audit.deid.release import SURROGATE, Release
from audit.deid.tagged_sets import TAGGED_SETS, TaggedSet
from audit.errors import AuditError
from audit.home import salted_digest
from audit.shelf import Shelf, building_folder, is_code, new_identifier, now, one_line
from audit.task import Record

_RECORD = "release.json"


class WrittenRelease(Record):
    """A release that `deid tag` wrote into a folder; `place` is a salted digest of its path."""

    title: str
    created: str
    place: str
    how: Release
    path: Path = Field(default=Path(), exclude=True)


def _read_release(folder: Path) -> WrittenRelease:
    release = WrittenRelease.read((folder / _RECORD).read_bytes(), where="release")
    how = release.how.with_(key=read_key(folder)) if release.how.key else release.how
    return release.with_(path=folder, how=how)


RELEASES = Shelf("releases", where="release", read=_read_release)


@contextmanager
def recorded_release(out: Path, how: Release) -> Iterator[tuple[str, Release]]:
    """Log a release, and keep its record and its key while it is written; gives identifier and how.

    A run into the same folder that was stopped goes on with its key. Where nothing is left of a run
    that failed, nothing is left of its record either.
    """
    if how.mode != SURROGATE:
        record("exported", what="tagged", names="full")
        yield "", how
        return
    release = _stopped_release(out, how) or _begin_release(out, how)
    try:
        record("exported", what="tagged", names="full", run=release.path.name)
        yield release.path.name, release.how
    except BaseException:
        if not building_folder(out).is_dir():
            RELEASES.forget(release.path.name)
        raise


def _stopped_release(out: Path, how: Release) -> WrittenRelease | None:
    """Return the newest release into a folder if its run was stopped before the folder appeared.

    A key that is shared on request is never taken for one that is not.
    """
    if not building_folder(out).is_dir():
        return None
    place = _place_of(out)
    newest = next((one for one in RELEASES.all() if one.place == place), None)
    is_same = newest is not None and newest.how.decisive() == how.decisive()
    return newest if is_same else None


def _begin_release(out: Path, how: Release) -> WrittenRelease:
    title = one_line(out.resolve().name)
    record = WrittenRelease(title=title, created=now(), place=_place_of(out), how=how)
    key = {KEY: how.key.secret} if how.key else {}
    return RELEASES.put(new_identifier(), key | {_RECORD: record.written()})


def _place_of(out: Path) -> str:
    return salted_digest(f"release {out.resolve()}")


@dataclass(frozen=True)
class ListedRelease:
    """A release as it is listed; `linked` are the identifiers of those that share its key."""

    identifier: str
    title: str
    created: str
    is_kept: bool
    is_reversible: bool
    linked: tuple[str, ...]


def list_releases() -> tuple[ListedRelease, ...]:
    """Return the releases with surrogates, kept sets and written ones, the newest first."""
    kept = [one for one in TAGGED_SETS.all() if one.how.mode == SURROGATE]
    releases: list[TaggedSet | WrittenRelease] = [*kept, *RELEASES.all()]
    releases.sort(key=lambda release: release.created, reverse=True)
    codes_by_key = defaultdict[str, list[str]](list)
    for release in releases:
        if release.how.key:
            codes_by_key[release.how.key.name].append(release.path.name)
    listed = []
    for release in releases:
        code, key = release.path.name, release.how.key
        sharing = codes_by_key[key.name] if key else []
        listed.append(
            ListedRelease(
                code,
                release.title,
                release.created,
                isinstance(release, TaggedSet),
                release.how.is_reversible,
                tuple(other for other in sharing if other != code),
            )
        )
    return tuple(listed)


def linked_to(identifier: str) -> Release:
    """Return a release of surrogates from the key of another one."""
    shelves = [
        shelf
        for shelf in (RELEASES, TAGGED_SETS)
        if is_code(identifier) and shelf.place(identifier).is_dir()
    ]
    if not shelves:
        raise AuditError(
            "There is no such release.",
            where="key",
            do="Choose one of those that `python -m audit deid releases` lists.",
        )
    key: Key | None = shelves[0].get(identifier).how.key
    if key is None:
        raise AuditError(
            "This release has no secret key.",
            where="key",
            do="Choose one with surrogates that is not reversible, or let a new key be drawn.",
        )
    return Release(mode=SURROGATE, key=key, is_linked=True)
