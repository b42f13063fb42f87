"""Checks of single settings: a whole number, a number, one of several words."""

from __future__ import annotations

from collections.abc import Collection

from audit.errors import AuditError


def check_whole(name: str, value: object, *, low: int, high: int, where: str) -> None:
    """Refuse what is no whole number from `low` to `high`, with an AuditError."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise AuditError(f"`{name}` must be a whole number from {low} to {high}.", where=where)


def check_number(name: str, value: object, *, low: float, high: float, where: str) -> None:
    """Refuse what is no number from `low` to `high`, with an AuditError."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not low <= value <= high:  # type: ignore[operator]
        raise AuditError(f"`{name}` must be a number from {low:g} to {high:g}.", where=where)


def check_one_of(name: str, value: object, known: Collection[str], *, where: str) -> None:
    """Refuse what is none of the known words, with an AuditError."""
    if value not in known:
        raise AuditError(f"`{name}` must be one of: {', '.join(known)}.", where=where)
