"""A set of numbers of 64 bits in little room: millions of them in 8 bytes each."""

from __future__ import annotations

import numpy as np

_MIN_BUFFER = 65_536


class NumberSet:
    """Numbers from 0 to 2^64 - 1 that were added."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, dtype=np.uint64)
        self._buffer: set[int] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._buffer)

    def add(self, number: int) -> bool:
        """Add a number; return whether it is a new one."""
        if number in self._buffer:
            return False
        wanted = np.uint64(number)
        at = int(np.searchsorted(self._sorted, wanted))
        if at < len(self._sorted) and self._sorted[at] == wanted:
            return False
        self._buffer.add(number)
        if len(self._buffer) >= _MIN_BUFFER:
            new = np.fromiter(self._buffer, dtype=np.uint64, count=len(self._buffer))
            self._sorted = np.sort(np.concatenate((self._sorted, new)))
            self._buffer.clear()
        return True
