"""Results of commands as text for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from audit.cli.commands import (
    Result,
)

_MAX_ROWS = 60


_SHOWN = {
    "jobs": (
        "job_id",
        "created",
        "state",
        "share",
        "stage",
        "kind",
        "scenario",
        "label",
        "device",
        "n_before",
    ),
    "audits": ("digest", "at", "scenario", "general", "hospital", "n_names", "verdict", "is_demo"),
}
"""Columns that a table shows of long records."""


def format_result(result: Result, *, prefix: str = "") -> Iterator[str]:
    """Yield a result as lines of text: values by name, and records of equal fields as tables.

    Values nested in the rows of a table appear only with `--json`.
    """
    for name, value in result.items():
        title = prefix + name.replace("_", " ")
        if records := _list_records(value):
            yield f"{title}:\n{format_table(records, columns=_SHOWN.get(name, ()))}"
        elif isinstance(value, Mapping | list | tuple) and not value:
            yield f"{title}: none"
        elif isinstance(value, Mapping):
            flat = {key: cell for key, cell in value.items() if pd.api.types.is_scalar(cell)}
            if flat:
                cells = (f"{key} {_format_cell(cell)}" for key, cell in flat.items())
                yield f"{title}: {', '.join(cells)}"
            nested = {key: cell for key, cell in value.items() if key not in flat}
            yield from format_result(nested, prefix=f"{title}, ")
        elif isinstance(value, list | tuple):
            yield f"{title}: {'; '.join(map(_format_cell, value))}"
        elif value not in (None, ""):
            yield f"{title}: {_format_cell(value)}"


def _list_records(value: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a value that is a table: a list of records, or records by a name."""
    if isinstance(value, Mapping):
        records = [record for record in value.values() if isinstance(record, Mapping)]
        is_alike = (
            len(records) == len(value) and len({frozenset(record) for record in records}) == 1
        )
        is_table = is_alike and any(map(pd.api.types.is_scalar, records[0].values()))
        return [{"": key, **record} for key, record in value.items()] if is_table else []
    listed = value if isinstance(value, list | tuple) else ()
    return [record for record in listed if isinstance(record, Mapping)]


def _format_cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def format_table(records: Sequence[Mapping[str, Any]], *, columns: Sequence[str] = ()) -> str:
    """Return records as a table; without `columns`, of the fields with one value."""
    flat = [name for name, cell in records[0].items() if pd.api.types.is_scalar(cell)]
    frame = pd.DataFrame(records, columns=list(columns or flat))
    text: str = frame.to_string(
        index=False, na_rep="", float_format="{:.4g}".format, max_rows=_MAX_ROWS
    )
    return text
