"""Results by content key: what was computed once is kept, checked and never computed again.

Comes in: arrays and JSON under a key such as "shard/<SHA-256>". Goes out: the same, or None where
there is nothing whole, so that the caller computes it (again).
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import NDArray

from cache.errors import StoreError
from cache.payload import (
    JSON,
    CorruptValueError,
    Stored,
    check_key,
    content_key,
    decode,
    encode,
    seal,
)

if TYPE_CHECKING:
    from cache.values import Health

__all__ = ["JSON", "Store", "StoreError", "Stored", "content_key"]

_RECORD = "record"


class Store:
    """Arrays and JSON by key in one directory, for any number of processes and threads.

    Parameters
    ----------
    directory
        Made with mode 700 if it is not there, and set to 700 if it is.

    Raises
    ------
    StoreError
        Here and in every method: if the directory cannot be read or written.
    """

    def __init__(self, directory: Path) -> None:
        # Not at the top: those who only name a key need no database.
        from cache.values import Values

        self._values = Values(directory)

    @property
    def directory(self) -> Path:
        """The directory, without links in its path."""
        return self._values.directory

    @property
    def n_corrupt(self) -> int:
        """Damaged values and indexes that this object has moved into `quarantine/`."""
        return self._values.n_corrupt

    def put(
        self, key: str, *, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, JSON]
    ) -> None:
        """Keep arrays and JSON under a key; the last writer wins.

        Raises
        ------
        TypeError, ValueError
            If the key is no key or the content cannot be stored, as `cache.payload` says.
        """
        check_key(key)
        self._values.put(key, payload=seal(key, encode(arrays=arrays, meta=meta)))

    def get(self, key: str) -> Stored | None:
        """Return what was put under a key, or None if it has to be computed (again).

        Raises
        ------
        ValueError
            If the key is no key.
        """
        check_key(key)
        body = self._values.get(key)
        if body is None:
            return None
        try:
            return decode(body)
        except CorruptValueError:
            self._values.quarantine(key)
            return None

    def put_record(self, key: str, record: JSON) -> None:
        """Keep one JSON value under a key; NaN is allowed."""
        self.put(key, arrays={}, meta={_RECORD: record})

    def get_record(self, key: str) -> Any:
        """Return the JSON value under a key, or None; tuples come back as lists."""
        stored = self.get(key)
        return None if stored is None else stored.meta.get(_RECORD)

    def keys(self, prefix: str = "") -> tuple[str, ...]:
        """Return the keys that begin with `prefix`, sorted; their values are not checked."""
        return self._values.keys(prefix)

    def size_bytes(self) -> int:
        """Return the bytes that the directory's files hold, quarantine and index included."""
        total = 0
        for path in self.directory.rglob("*"):
            try:
                entry = path.lstat()
            except FileNotFoundError:
                continue  # a writer was quicker
            total += entry.st_size if stat.S_ISREG(entry.st_mode) else 0
        return total

    def check(self) -> Health:
        """Read every value, move the damaged ones aside, tidy up after killed writers."""
        return self._values.check()

    def close(self) -> None:
        """Close this thread's connection; the next call opens it again."""
        self._values.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
