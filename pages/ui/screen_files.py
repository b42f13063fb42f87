"""Files of what the screen shows: made when they are asked for, masked as the screen is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from audit.report.documents import DocumentView, Rows, marked_pairs
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
            (pair.number, one.who, shown_text(one.text, marks=one.marks, is_revealed=is_revealed))
            for pair in marked_pairs(view, numbers=rows.tolist())
            for one in pair.documents
        ]
        header = ("document_id", "model", "text")
        if kind == "csv":
            return write_table(header, lines, bom=True).encode()
        records = (dict(zip(header, line, strict=True)) for line in lines)
        return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in records).encode()

    return make
