"""What the engine needs of a place where results are kept (`cache.store.Store` is one)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray


class ResultStore(Protocol):
    """What the engine needs of `cache.store.Store`."""

    def get(self, key: str) -> Any:
        """Return what was put, or None."""

    def put(self, key: str, *, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> None:
        """Keep arrays and plain values."""

    def get_record(self, key: str) -> Any:
        """Return a plain value, or None."""

    def put_record(self, key: str, record: Any) -> None:
        """Keep a plain value."""
