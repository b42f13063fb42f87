"""CoNLL: one token a line with its BIO or IOBES tag, an empty line behind each sentence.

Written with four columns (token, start, end, tag) and the note itself in a comment, so that nothing
is lost. Read also with two or more columns, token first and tag last; then the text is put together
from the tokens, a space between them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from audit.deid.documents import Span, TaggedDocument, n_overlapping, tagged
from audit.deid.labels import known_label
from audit.errors import AuditError

SCHEMES = ("BIO", "IOBES")

_TOKEN = re.compile(r"[^\W_]+|\s+|[^\s]", re.UNICODE)
_CJK = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_HEADER = re.compile(r"# (doc_id|patient_id|text) = (.*)")
_TAG = re.compile(r"O|([BIESLU])-(\S+)")


@dataclass
class _Note:
    """A note while it is read."""

    doc_id: str
    patient_id: str | None = None
    text: str | None = None
    tokens: list[tuple[int, int, str, str]] = field(default_factory=list)  # start, end, mark, label
    words: list[str] = field(default_factory=list)  # of a file without the text: what it is made of
    n_chars: int = 0


def write_conll(documents: Iterable[TaggedDocument], *, scheme: str = "BIO") -> str:
    """Return documents as the text of one file.

    Raises
    ------
    AuditError
        If spans of a note overlap: a token has one tag.
    """
    return "".join(line for document in documents for line in _lines(document, scheme=scheme))


def _lines(document: TaggedDocument, *, scheme: str) -> Iterator[str]:
    if scheme not in SCHEMES:
        raise ValueError(f"{scheme}: choose one of {', '.join(SCHEMES)}")
    if n_overlapping(document.spans):
        raise AuditError(
            "Spans of a note overlap, and a token of CoNLL has one tag.",
            do="Flatten the spans first, or choose another format.",
        )
    yield "-DOCSTART-\tO\n\n"
    yield f"# doc_id = {json.dumps(document.doc_id, ensure_ascii=False)}\n"
    if document.patient_id is not None:
        yield f"# patient_id = {json.dumps(document.patient_id, ensure_ascii=False)}\n"
    yield f"# text = {json.dumps(document.text)}\n"
    text, at = document.text, 0
    for span in document.spans:
        yield from _tokens(text, start=at, end=span.start, label="", scheme=scheme)
        yield from _tokens(text, start=span.start, end=span.end, label=span.label, scheme=scheme)
        at = span.end
    yield from _tokens(text, start=at, end=len(text), label="", scheme=scheme)
    yield "\n"


def _tokens(text: str, *, start: int, end: int, label: str, scheme: str) -> Iterator[str]:
    pieces = list(_pieces(text, start=start, end=end))
    last = len(pieces) - 1
    for i, (begin, stop) in enumerate(pieces):
        token = text[begin:stop]
        is_edge = bool(label) and i in (0, last)
        if token.isspace() and not is_edge:
            continue
        mark = "B" if i == 0 else "I"
        if scheme == "IOBES" and i == last:
            mark = "S" if i == 0 else "E"
        tag = f"{mark}-{label}" if label else "O"
        yield f"{_shown(token)}\t{begin}\t{stop}\t{tag}\n"


def _pieces(text: str, *, start: int, end: int) -> Iterator[tuple[int, int]]:
    for found in _TOKEN.finditer(text, start, end):
        if _CJK.search(found[0]):  # no spaces between words: each character is a token
            yield from ((i, i + 1) for i in range(found.start(), found.end()))
        else:
            yield found.span()


def _shown(token: str) -> str:
    written = json.dumps(token, ensure_ascii=False)[1:-1]
    return re.sub(r"[^\S]|[\x7f-\xa0]", lambda space: f"\\u{ord(space[0]):04x}", written)


def read_conll(text: str, *, what: str) -> Iterator[TaggedDocument]:
    """Yield the documents of a file.

    A tag I, E or L that continues nothing begins a span, as in the CoNLL evaluation script.

    Raises
    ------
    AuditError
        If a line is not understood or does not fit the note.
    """
    note: _Note | None = None
    n_notes = 0
    for number, written in enumerate(text.split("\n"), start=1):
        line = written.removesuffix("\r")
        where = f"{what}, line {number}"
        header = _HEADER.fullmatch(line)
        if line.startswith("-DOCSTART-") or (note is None and line.strip()):
            if note is not None:
                yield _document(note, where=where)
            n_notes += 1
            note = _Note(str(n_notes))
            if line.startswith("-DOCSTART-"):
                continue
        if note is None:
            continue
        if header is not None and not note.tokens:
            _take_header(note, header[1], header[2], where=where)
        elif line.strip():
            _take_token(note, re.split(r"\t| +", line.strip(" ")), where=where)
        elif note.words and note.words[-1] != "\n":
            note.words.append("\n")
            note.n_chars += 1
    if note is not None:
        yield _document(note, where=what)


def _take_header(note: _Note, name: str, value: str, *, where: str) -> None:
    try:
        content = json.loads(value)
    except ValueError:
        content = value
    if not isinstance(content, str) or (name == "doc_id" and not content):
        content = value
    if name == "doc_id":
        note.doc_id = content
    elif name == "patient_id":
        note.patient_id = content
    else:
        note.text = content


def _take_token(note: _Note, columns: list[str], *, where: str) -> None:
    tag = _TAG.fullmatch(columns[-1])
    if tag is None or len(columns) < 2:
        raise AuditError(
            "This line of a CoNLL file is not understood.",
            where=where,
            do="A line is a token and a tag: O, B-label, I-label, E-label or S-label.",
        )
    mark, label = tag[1] or "O", known_label(tag[2] or "")
    if note.text is None:
        if note.words and note.words[-1] != "\n":
            note.words.append(" ")
            note.n_chars += 1
        start, end = note.n_chars, note.n_chars + len(columns[0])
        note.words.append(columns[0])
        note.n_chars = end
    else:
        place = columns[1:3] if len(columns) == 4 else []
        start, end = (int(x) if x.isascii() and x.isdigit() else -1 for x in place or ("", ""))
        if not 0 <= start < end <= len(note.text) or _shown(note.text[start:end]) != columns[0]:
            raise AuditError(
                "This token is not what stands at its offsets.",
                where=where,
                do="Below a line `# text =` the columns are token, start, end and tag.",
            )
    note.tokens.append((start, end, mark, label))


def _document(note: _Note, *, where: str) -> TaggedDocument:
    text = "".join(note.words).rstrip("\n") if note.text is None else note.text
    spans: list[list[int]] = []
    labels: list[str] = []
    open_label: str | None = None
    for start, end, mark, label in note.tokens:
        if mark == "O":
            open_label = None
            continue
        if mark in "BSU" or open_label != label:
            spans.append([start, end])
            labels.append(label)
        else:
            spans[-1][1] = end
        open_label = None if mark in "ESLU" else label
    try:
        found = [Span(s, e, label) for (s, e), label in zip(spans, labels, strict=True)]
        return tagged(note.doc_id, text=text, spans=found, patient_id=note.patient_id)
    except ValueError:
        raise AuditError("The tags of a note give no spans.", where=where) from None
