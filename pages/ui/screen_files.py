"""Files of what the screen shows: made when they are asked for, masked as the screen is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from audit.report.documents import DocumentView, Rows
from audit.tables import write_table
from pages.ui.marks import shown_text


def columns_csv(columns: Mapping[str, Sequence[object]]) -> Callable[[], bytes]:
    """Return what makes the CSV of these columns, guarded against formulas."""

    def make() -> bytes:
        rows = zip(*columns.values(), strict=True)
        return write_table(list(columns), rows, bom=True).encode()

    return make


def documents_file(
    view: DocumentView, *, rows: Rows, kind: str, is_revealed: bool
) -> Callable[[], bytes]:
    """Return what makes the file of these documents, `kind` "csv" or "jsonl", of both models."""

    def make() -> bytes:
        lines = [
            (
                row,
                one.who,
                shown_text(one.texts[row], marks=one.marks(row), is_revealed=is_revealed),
            )
            for row in rows.tolist()
            for one in view.models
        ]
        header = ("document_id", "model", "text")
        if kind == "csv":
            return write_table(header, lines, bom=True).encode()
        records = (dict(zip(header, line, strict=True)) for line in lines)
        return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()

    return make
