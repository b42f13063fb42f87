"""Files of annotated notes, in five formats: in and out.

JSONL keeps everything. brat, i2b2 XML and inline tags are files of one note each and keep no
patient; their names are those of the notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from urllib.parse import unquote

from audit.deid.documents import Span, TaggedDocument, n_overlapping, tagged
from audit.deid.format_brat import read_brat, write_brat
from audit.deid.format_conll import read_conll, write_conll
from audit.deid.format_i2b2 import read_i2b2, write_i2b2
from audit.deid.format_jsonl import read_jsonl, write_jsonl
from audit.deid.labels import RISK_ORDER
from audit.deid.tags import scan_tags, write_tags
from audit.errors import AuditError

FORMATS = ("jsonl", "brat", "i2b2", "conll", "inline")

_FORMAT_OF_ENDING = {
    ".jsonl": "jsonl", ".ann": "brat", ".xml": "i2b2", ".conll": "conll", ".bio": "conll",
    ".iob": "conll", ".txt": "inline",
}  # fmt: skip
_MAX_NAME_BYTES = 200


def guess_format(names: Iterable[str]) -> str:
    """Return the format that the files' names tell: `.ann` beside `.txt` is brat.

    Raises
    ------
    AuditError
        If no name tells it.
    """
    endings = {PurePath(name).suffix.lower() for name in names}
    for ending, form in _FORMAT_OF_ENDING.items():
        if ending in endings:
            return form
    raise AuditError(
        "The format of these files is not known.",
        do="Their names end in .jsonl, .ann and .txt, .xml, .conll, or .txt.",
    )


def read_files(
    files: Mapping[str, bytes], *, form: str, labels: Iterable[str] = ()
) -> tuple[TaggedDocument, ...]:
    """Read annotated notes.

    Parameters
    ----------
    files
        From a file's name to its bytes.
    form
        One of `FORMATS`.
    labels
        Of inline tags: labels beside the five types.

    Raises
    ------
    AuditError
        If a file is not understood, or two notes have the same name.
    """
    texts = {name: _text(content, what=name) for name, content in files.items()}
    documents: list[TaggedDocument] = []
    for name, text in sorted(texts.items()):
        path = PurePath(name)
        doc_id, ending = unquote(path.stem), path.suffix.lower()
        if form == "jsonl":
            documents += read_jsonl(text, what=name)
        elif form == "conll":
            documents += read_conll(text, what=name)
        elif form == "i2b2":
            documents.append(read_i2b2(text, doc_id=doc_id, what=name))
        elif form == "inline":
            scanned = scan_tags(text, labels=tuple(labels))
            documents.append(tagged(doc_id, text=scanned.plain, spans=scanned.spans))
        elif form == "brat" and ending == ".txt":
            notes = texts.get(str(path.with_suffix(".ann")), "")
            what = str(path.with_suffix(".ann"))
            documents.append(read_brat(text, annotations=notes, doc_id=doc_id, what=what))
        elif form == "brat" and str(path.with_suffix(".txt")) not in texts:
            raise AuditError("The .txt file beside this .ann file is missing.", where=name)
    _check_ids(documents)
    return tuple(documents)


def read_unnamed(files: Mapping[str, bytes], *, form: str, what: str) -> tuple[TaggedDocument, ...]:
    """Read annotated notes; errors tell a file by its number, since its name may hold a person's.

    Raises
    ------
    AuditError
        As `read_files`.
    """
    try:
        return read_files(files, form=form)
    except AuditError as error:
        named = [(len(name), i) for i, name in enumerate(sorted(files), 1) if name in error.where]
        where = f"{what}, file {max(named)[1]}" if named else what
        raise AuditError(error.what, where=where, do=error.do) from None


def write_files(
    documents: Iterable[TaggedDocument], *, form: str, language: str = "en"
) -> dict[str, bytes]:
    """Return annotated notes as files: from name to bytes.

    Raises
    ------
    AuditError
        If the format cannot say what a note holds.
    """
    documents = list(documents)
    _check_ids(documents)
    files: dict[str, str] = {}
    if form == "jsonl":
        files["notes.jsonl"] = write_jsonl(documents)
    elif form == "conll":
        files["notes.conll"] = write_conll(documents)
    for document in documents if not files else ():
        name = file_name(document.doc_id)
        if form == "brat":
            files[f"{name}.txt"], files[f"{name}.ann"] = write_brat(document)
        elif form == "i2b2":
            files[f"{name}.xml"] = write_i2b2(document)
        else:
            files[f"{name}.txt"] = write_tags(document, language=language)
    try:
        return {name: text.encode("utf-8") for name, text in files.items()}
    except UnicodeEncodeError:
        raise AuditError(
            "A note holds half a character, which no file of this format can.", do="Choose JSONL."
        ) from None


def flattened(document: TaggedDocument) -> TaggedDocument:
    """Return the document without overlaps: the longest span stays whole, then by risk of its type.

    A shorter one keeps what is not covered yet, so that no character loses its label.
    """
    if not n_overlapping(document.spans):
        return document
    risk = {label: i for i, label in enumerate(RISK_ORDER)}
    order = sorted(
        document.spans, key=lambda s: (-s.n_chars, risk.get(s.label, len(risk)), s.start, s.label)
    )
    is_taken = bytearray(len(document.text))
    kept: list[Span] = []
    for span in order:
        at = span.start
        while at < span.end:
            free = is_taken.find(0, at, span.end)
            if free < 0:
                break
            taken = is_taken.find(1, free, span.end)
            at = span.end if taken < 0 else taken
            kept.append(Span(free, at, span.label))
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    return document.with_spans(kept)


def file_name(doc_id: str) -> str:
    """Return the name of a note's file, without its ending: what no file may be called is escaped.

    Raises
    ------
    AuditError
        If it would be too long.
    """
    name = "".join(c if c.isalnum() or c in "-_ " else _escaped(c) for c in doc_id)
    if len(name.encode()) > _MAX_NAME_BYTES:
        raise AuditError("The name of a note is too long for a file.", do="Choose JSONL or CoNLL.")
    return name


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02X}" for byte in char.encode("utf-8", errors="replace"))


def _text(content: bytes, *, what: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise AuditError("The file is not UTF-8.", where=what, do="Save it as UTF-8.") from None


def _check_ids(documents: Iterable[TaggedDocument]) -> None:
    known: set[str] = set()
    for number, document in enumerate(documents, start=1):
        if document.doc_id in known:
            raise AuditError(
                "Two notes have the same name.",
                where=f"note {number}",
                do="Give every note a `doc_id` of its own.",
            )
        known.add(document.doc_id)
