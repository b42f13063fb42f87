"""brat: a note as `.txt` and its spans as `.ann` beside it.

A span is a line `T1<tab>Label 0 5<tab>text`, or `T1<tab>Label 0 5;8 12<tab>text` if it has gaps.
Relations, events, attributes and notes are no spans and are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from audit.deid.documents import Span, TaggedDocument, tagged
from audit.deid.labels import known_label
from audit.errors import AuditError

_LINE = re.compile(r"T\S*\t(\S+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)", re.DOTALL)
_MAX_DIGITS = 12


def read_brat(text: str, *, annotations: str, doc_id: str, what: str) -> TaggedDocument:
    """Read a note and its annotations.

    A span with gaps is one span where nothing but white space lies between its parts (brat breaks
    spans at line ends), else each part is a span of its own: no character is added or lost.

    Raises
    ------
    AuditError
        If a line is not understood, or its text is not what stands at its offsets.
    """
    spans: list[Span] = []
    for number, line in enumerate(annotations.split("\n"), start=1):
        if line.startswith("T"):
            where = f"{what}, line {number}"
            spans += _spans(line.removesuffix("\r"), text=text, where=where)
    return tagged(doc_id, text=text, spans=spans)


def _spans(line: str, *, text: str, where: str) -> Iterator[Span]:
    read = _LINE.fullmatch(line)
    if read is None or len(max(re.findall(r"\d+", read[2]), key=len)) > _MAX_DIGITS:
        raise AuditError(
            "This line of a brat file is not understood.",
            where=where,
            do="A span is written: T1, a tab, label, start, end, a tab, the text.",
        )
    parts = [tuple(map(int, part.split())) for part in read[2].split(";")]
    said = " ".join(text[start:end] for start, end in parts)
    is_inside = all(start < end <= len(text) for start, end in parts)
    if not is_inside or said.split() != read[3].split():
        raise AuditError(
            "The text of this span is not what stands at its offsets.",
            where=where,
            do="Offsets count code points of the .txt file as it is, line ends included.",
        )
    label = known_label(read[1])
    start, end = parts[0]
    for next_start, next_end in parts[1:]:
        if next_start >= end and not text[end:next_start].strip():
            end = next_end
        else:
            yield _span(start, end, label, where=where)
            start, end = next_start, next_end
    yield _span(start, end, label, where=where)


def _span(start: int, end: int, label: str, *, where: str) -> Span:
    try:
        return Span(start, end, label)
    except ValueError:
        raise AuditError("The label of this span cannot be used.", where=where) from None


def write_brat(document: TaggedDocument) -> tuple[str, str]:
    """Return a note and its annotations; a line end inside a span is written as a space."""
    lines = []
    for i, span in enumerate(document.spans, start=1):
        said = re.sub("[\t\r\n]", " ", document.text[span.start : span.end])
        lines.append(f"T{i}\t{span.label} {span.start} {span.end}\t{said}\n")
    return document.text, "".join(lines)
