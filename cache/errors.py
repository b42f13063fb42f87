"""The one error of the room: the disk does not do what it should."""

from __future__ import annotations


class StoreError(Exception):
    """The directory of results cannot be read or written; the text says why, in plain words."""
