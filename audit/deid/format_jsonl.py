"""JSONL spans: one note a line, with its text and the offsets of its spans.

`{"doc_id", "text", "patient_id"?, "spans": [{"start", "end", "label"}], "unaligned"?: [label]}`
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from audit.deid.documents import Span, TaggedDocument, tagged
from audit.deid.labels import known_label
from audit.errors import AuditError

_LONE = re.compile("[\ud800-\udfff]")
_SHAPE = (
    "A line is a JSON object with `doc_id`, `text` and `spans`; a span has `start`, `end` and "
    "`label`."
)


def read_jsonl(text: str, *, what: str) -> Iterator[TaggedDocument]:
    """Yield the documents of a file, in its order; empty lines are skipped.

    Raises
    ------
    AuditError
        With the number of the line that is not understood.
    """
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield read_line(line, what=what, number=number)


def read_line(line: str, *, what: str, number: int) -> TaggedDocument:
    """Read one line.

    Raises
    ------
    AuditError
        If it is no such object, or a span does not lie in the text.
    """
    where = f"{what}, line {number}"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise AuditError("This line is no JSON object.", where=where, do=_SHAPE) from None
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise AuditError("This line has no `text`.", where=where, do=_SHAPE)
    doc_id, spans = record.get("doc_id"), record.get("spans", [])
    if not _is_id(doc_id):
        raise AuditError("This line has no `doc_id`.", where=where, do=_SHAPE)
    patient, unaligned = record.get("patient_id"), record.get("unaligned", [])
    if not isinstance(spans, list) or not isinstance(unaligned, list):
        raise AuditError("`spans` is no list.", where=where, do=_SHAPE)
    found = [_span(one, what=what, number=number, place=i) for i, one in enumerate(spans, start=1)]
    try:
        return tagged(
            str(doc_id),
            text=record["text"],
            spans=found,
            patient_id=str(patient) if _is_id(patient) else None,
            unaligned=[known_label(str(label)) for label in unaligned],
        )
    except ValueError:
        raise AuditError(
            "A span ends behind the text.",
            where=where,
            do="Offsets count code points of the text, from 0; `end` is exclusive.",
        ) from None


def _is_id(value: object) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and bool(value))


def _span(given: object, *, what: str, number: int, place: int) -> Span:
    where = f"{what}, line {number}, span {place}"
    one: Mapping[str, Any] = given if isinstance(given, dict) else {}
    start, end, label = one.get("start"), one.get("end"), one.get("label")
    if type(start) is not int or type(end) is not int or not isinstance(label, str):
        raise AuditError("This span lacks `start`, `end` or `label`.", where=where, do=_SHAPE)
    try:
        return Span(start, end, known_label(label))
    except ValueError:
        raise AuditError(
            "This span is empty, begins before the text, or has no usable label.",
            where=where,
            do="`start` is at least 0 and below `end`; a label has 1 to 100 characters.",
        ) from None


def jsonl_line(document: TaggedDocument) -> str:
    """Return a document as one line, with its line end."""
    record: dict[str, object] = {"doc_id": document.doc_id, "text": document.text}
    if document.patient_id is not None:
        record["patient_id"] = document.patient_id
    record["spans"] = [
        {"start": span.start, "end": span.end, "label": span.label} for span in document.spans
    ]
    if document.unaligned:
        record["unaligned"] = list(document.unaligned)
    line = json.dumps(record, ensure_ascii=False)
    # Half a surrogate pair is no UTF-8: it stays escaped, so that the line can be read again.
    return (json.dumps(record) if _LONE.search(line) else line) + "\n"


def write_jsonl(documents: Iterable[TaggedDocument]) -> str:
    """Return documents as the text of one file."""
    return "".join(map(jsonl_line, documents))
