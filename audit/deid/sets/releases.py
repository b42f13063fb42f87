"""The releases with surrogates that this installation made: their keys, and which are reversible.

A release that was made in the browser is a kept set, and its key is a file of that set. A release
of `deid tag` lies where it was written; its record and its key are kept here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from audit.access_log import record
from audit.deid.redact.keys import KEY, Key, read_key
from audit.deid.redact.release import SURROGATE, Release
from audit.deid.sets.tagged_sets import TAGGED_SETS, TaggedSet
from audit.errors import AuditError
from audit.home import salted_digest
from audit.shelf import Shelf, building_folder, is_code, make_time_stamp, new_identifier, one_line
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
    release = WrittenRelease.model_validate_json((folder / _RECORD).read_bytes())
    release_settings = release.how.with_(key=read_key(folder)) if release.how.key else release.how
    return release.with_(path=folder, how=release_settings)


RELEASES = Shelf("releases", label="release", read=_read_release)


@contextmanager
def record_release(folder: Path, release: Release) -> Iterator[tuple[str, Release]]:
    """Log a release and keep its record and key; yield its identifier and the release with its key.

    A stopped run into the same folder resumes with its earlier key. If a failed run leaves no
    files behind, its record is removed too.
    """
    if release.mode != SURROGATE:
        record("exported", what="tagged", names="full")
        yield "", release
        return
    release_record = _find_stopped_release(folder, release) or _begin_release(folder, release)
    try:
        record("exported", what="tagged", names="full", run=release_record.path.name)
        yield release_record.path.name, release_record.how
    except BaseException:
        if not building_folder(folder).is_dir():
            RELEASES.forget(release_record.path.name)
        raise


def _find_stopped_release(folder: Path, release: Release) -> WrittenRelease | None:
    """Return the newest release into a folder if its run was stopped before the folder appeared.

    A release with a shared key is never continued as one with a key of its own, or the reverse.
    """
    if not building_folder(folder).is_dir():
        return None
    place = _place_of(folder)
    newest_record = next((entry for entry in RELEASES.all() if entry.place == place), None)
    is_same = newest_record is not None and newest_record.how.decisive() == release.decisive()
    return newest_record if is_same else None


def _begin_release(folder: Path, release: Release) -> WrittenRelease:
    title = one_line(folder.resolve().name)
    release_record = WrittenRelease(
        title=title, created=make_time_stamp(), place=_place_of(folder), how=release
    )
    key = {KEY: release.key.secret} if release.key else {}
    return RELEASES.keep_files(new_identifier(), key | {_RECORD: release_record.to_bytes()})


def _place_of(folder: Path) -> str:
    return salted_digest(f"release {folder.resolve()}")


@dataclass(frozen=True)
class ListedRelease:
    """A release in the list; `linked` are the identifiers of the releases that share its key."""

    identifier: str
    title: str
    created: str
    is_kept: bool
    is_reversible: bool
    linked: tuple[str, ...]


def list_releases() -> tuple[ListedRelease, ...]:
    """Return all releases with surrogates, kept or written to a folder, the newest first."""
    surrogate_sets = [tagged for tagged in TAGGED_SETS.all() if tagged.how.mode == SURROGATE]
    releases: list[TaggedSet | WrittenRelease] = [*surrogate_sets, *RELEASES.all()]
    releases.sort(key=lambda release: release.created, reverse=True)
    codes_by_key = defaultdict[str, list[str]](list)
    for release in releases:
        if release.how.key:
            codes_by_key[release.how.key.name].append(release.path.name)
    entries = []
    for release in releases:
        code, key = release.path.name, release.how.key
        sharing = codes_by_key[key.name] if key else []
        entries.append(
            ListedRelease(
                code,
                release.title,
                release.created,
                isinstance(release, TaggedSet),
                release.how.is_reversible,
                tuple(linked_code for linked_code in sharing if linked_code != code),
            )
        )
    return tuple(entries)


def release_sharing_key(identifier: str) -> Release:
    """Return a new release whose surrogates are drawn from the key of another release."""
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
