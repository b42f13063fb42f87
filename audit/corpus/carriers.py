"""Who else has a name in the notes that a model is trained on.

Comes in: full names by note. Goes out: whether a full name stands in somebody else's notes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from audit.names.matching import Pair

_SEVERAL = ""


class NameHolders:
    """Whose notes hold which full names."""

    def __init__(self) -> None:
        self._owners: dict[Pair, str] = {}

    def add(self, owner: str, pairs: Iterable[Pair]) -> None:
        """Take in the full names of one note of somebody."""
        for pair in pairs:
            if self._owners.setdefault(pair, owner) != owner:
                self._owners[pair] = _SEVERAL

    def include(self, more: NameHolders) -> None:
        """Take in what other notes hold."""
        for pair, owner in more._owners.items():
            self.add(owner, [pair])

    def are_others(self, pair: Pair, *, than: Collection[str] = ()) -> bool:
        """Whether the notes of somebody else than these people hold a full name."""
        owner = self._owners.get(pair)
        return owner is not None and owner not in than
