"""Read and write annotated notes as files: inline tags, brat, CoNLL, i2b2 XML and JSONL."""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Literal, TypeVar, get_args
from xml.etree import ElementTree
from xml.sax.saxutils import escape, quoteattr

from pydantic import JsonValue

from audit.errors import AuditError, Message
from audit.foreign import locate_errors, open_regular
from audit.notes.folding import reads_alike, with_text
from audit.notes.spans import (
    FOREIGN,
    JAPANESE,
    NAMES,
    RISK_ORDER,
    TYPES,
    Span,
    TaggedDocument,
    build_document,
    count_overlapping,
    fold_label,
    normalize_label,
)
from audit.shelf import JSON

T = TypeVar("T")

MAX_SPAN_CHARS = 200
"""A tag that is closed later than this counts as unclosed: nothing personal is that long."""


def locate_line(subject: str, number: int) -> Message:
    """Return the place of a line, for a message."""
    return Message("{subject}, line {number}", subject=subject, number=number)


_UNKNOWN = re.compile(r"[<＜]\s?[/／]?\s?([^\W\d_][\w-]{0,39})\s?[>＞]")


MALFORMED = ("n_unclosed", "n_stray", "n_crossing", "n_nested", "n_unknown", "n_empty")
"""Kinds of malformed tags; an empty tag may be of another kind too.

Unclosed tags end at the next tag or at the end of their line. Stray tags were never opened; they
are left out, and so are empty tags. Crossing tags are closed under the label of another tag. Nested
tags stand inside another tag. Unknown tags have no known label and stay in the text.
"""


@dataclass(frozen=True)
class ScannedTags:
    """An output without its tags, its spans, which may be nested, and a census of the tags.

    The census counts the opened tags as `n_tags`, and the malformed ones by kind (`MALFORMED`).
    """

    plain: str
    spans: tuple[Span, ...]
    census: Counter[str]


@dataclass
class _Tag:
    """A tag that was opened; `end` is None if it was never closed."""

    label: str
    start: int
    end: int | None = None
    is_crossing: bool = False


def scan_tags(output: str, *, source: str = "", labels: Collection[str] = ()) -> ScannedTags:
    """Read the tags of an output; `labels` are accepted besides the five types.

    `source` is the note that the output should have copied. Text in it that looks like a tag is not
    counted as an unknown tag.
    """
    pieces = _compile_tags(labels).split(output)  # text, slash, label, text, ...
    text, offset = "".join(pieces[::3]), 0
    opened: list[_Tag] = []
    stack: list[_Tag] = []
    marks: list[int] = []  # where tags stood in the plain text
    census: Counter[str] = Counter()
    owed: Counter[str] = Counter()  # labels of crossings whose other half was counted
    for stretch, slash, name in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=False):
        offset += len(stretch)
        marks.append(offset)
        label = normalize_label(name)
        if not slash:
            opened.append(_Tag(label, offset))
            stack.append(opened[-1])
            continue
        while stack and offset - stack[-1].start > MAX_SPAN_CHARS:
            stack.pop()
        if not stack:
            census["n_stray"] += 1
            continue
        closed = stack.pop()
        closed.end = offset
        if closed.label != label and owed[label]:
            owed[label] -= 1
        elif closed.label != label:
            closed.is_crossing = True
            owed[closed.label] += 1
            census["n_crossing"] += 1
    spans = set(_make_tag_spans(opened, text=text, marks=marks, census=census))
    expected = unicodedata.normalize("NFKC", source)
    unknown = (unicodedata.normalize("NFKC", tag[0]) for tag in _UNKNOWN.finditer(text))
    census.update(n_tags=len(opened), n_unknown=sum(tag not in expected for tag in unknown))
    return ScannedTags(text, tuple(sorted(spans)), census)


def _compile_tags(labels: Iterable[str]) -> re.Pattern[str]:
    names = _build_label_pattern({*NAMES, *labels})
    return re.compile(rf"[<＜]\s*([/／]?)\s*({names})\s*[>＞]", re.IGNORECASE)


def _build_label_pattern(labels: Iterable[str]) -> str:
    """Return a pattern for all spellings of labels, the longest first."""
    spelled = sorted({form for label in labels for form in (label, fold_label(label))}, key=len)
    return "|".join(re.escape(label).replace("_", r"[_\s-]") for label in reversed(spelled))


_FOREIGN_NAME = re.compile(_build_label_pattern(FOREIGN), re.IGNORECASE)
_FOREIGN_TAGS = re.compile(
    rf"<(?P<label>{_FOREIGN_NAME.pattern})>(?P<content>.{{1,{MAX_SPAN_CHARS}}}?)</(?P=label)>",
    re.IGNORECASE | re.DOTALL,
)
"""A pair of tags with a label of another corpus. A single tag is text: notes hold `<NAME>` or
`<DATE>` as placeholders of a de-identifier."""


def _read_inline(text: str, *, doc_id: str) -> TaggedDocument:
    """Read a note with inline tags of the five types, or in pairs of other corpora's labels."""
    scanned = scan_tags(text)
    pairs = list(_FOREIGN_TAGS.finditer(scanned.plain))
    if not pairs:
        return build_document(doc_id, text=scanned.plain, spans=scanned.spans)
    stretches: list[str] = []
    cuts: list[tuple[int, int]] = []  # where tags stood in the scanned text
    spans: list[Span] = []
    offset = n_chars = 0
    for pair in pairs:
        start, end = pair.span("content")
        cuts += [(pair.start(), start), (end, pair.end())]
        stretches += [scanned.plain[offset : pair.start()], pair["content"]]
        n_chars += pair.start() - offset
        if pair["content"].strip():
            spans.append(Span(n_chars, n_chars + end - start, normalize_label(pair["label"])))
        n_chars += end - start
        offset = pair.end()
    for span in scanned.spans:
        start, end = _map_past_cuts(span.start, cuts), _map_past_cuts(span.end, cuts)
        if start < end:
            spans.append(Span(start, end, span.label))
    return build_document(doc_id, text="".join((*stretches, scanned.plain[offset:])), spans=spans)


def _map_past_cuts(place: int, cuts: list[tuple[int, int]]) -> int:
    """Return the offset of a place after stretches of the text have been cut out."""
    return place - sum(min(place, end) - start for start, end in cuts if start < place)


def _make_tag_spans(
    opened: list[_Tag], *, text: str, marks: list[int], census: Counter[str]
) -> Iterator[Span]:
    """Yield the span of each tag that holds text, and count malformed tags."""
    reached = 0  # end of the closed tags so far
    marks = [*marks, len(text) + 1]
    for tag in opened:
        end = tag.end
        if end is None:
            census["n_unclosed"] += 1
            line_end = text.find("\n", tag.start)
            next_mark = marks[bisect_right(marks, tag.start)]
            ends = (next_mark, len(text) if line_end < 0 else line_end, tag.start + MAX_SPAN_CHARS)
            end = min(ends)
        else:
            census["n_nested"] += tag.start < reached and not tag.is_crossing
            reached = max(reached, end)
        if text[tag.start : end].strip():
            yield Span(tag.start, end, tag.label)
        else:
            census["n_empty"] += 1


def write_tags(document: TaggedDocument, *, language: str = "ja") -> str:
    """Return a note with each span wrapped in a tag of its label; a tagger learns to write this."""
    _refuse_overlaps(document)
    tagged_text, offset = "", 0
    for span in document.spans:
        name = JAPANESE.get(span.label, span.label) if language == "ja" else span.label
        content = document.text[span.start : span.end]
        tagged_text += f"{document.text[offset : span.start]}<{name}>{content}</{name}>"
        offset = span.end
    tagged_text += document.text[offset:]
    back = scan_tags(tagged_text, labels={span.label for span in document.spans})
    if back.plain != document.text or back.spans != document.spans:
        raise _make_inline_error()
    return tagged_text


def _make_inline_error() -> AuditError:
    return AuditError(
        "A note cannot be written with inline tags: it holds something that reads as a tag, or "
        "a span is white space or too long.",
        do="Choose another format.",
    )


def _format_inline(document: TaggedDocument, *, language: str) -> str:
    """Return a note with inline tags that `read_text` reads back to the same spans."""
    _refuse_overlaps(document)
    for span in document.spans:
        if span.label not in TYPES and not _FOREIGN_NAME.fullmatch(span.label):
            raise AuditError(
                "The label {label} cannot be written as an inline tag: no reader would know it "
                "from text.",
                do="Choose another format, or give these spans one of the five types, or a label "
                "of i2b2 2014 or MEDDOCAN.",
                label=span.label,
            )
    tagged_text = write_tags(document, language=language)
    back = _read_inline(tagged_text, doc_id=document.doc_id)
    if back.text != document.text or back.spans != document.spans:
        raise _make_inline_error()
    return tagged_text


def _refuse_overlaps(document: TaggedDocument) -> None:
    if count_overlapping(document.spans):
        raise AuditError(
            "Spans of a note overlap, and this format has one label for each character.",
            do="Flatten the spans first, or choose another format.",
        )


_BRAT_LINE = re.compile(r"T\S*\t(\S+) (\d{1,12} \d{1,12}(?:;\d{1,12} \d{1,12})*)\t(.*)", re.DOTALL)


def _read_brat(text: str, *, annotations: str, doc_id: str, subject: str) -> TaggedDocument:
    """Read a note and its annotations.

    The parts of a span with gaps are joined if only white space lies between them (brat breaks
    spans at line ends). Otherwise each part becomes a span, so that no character is added or lost.
    """
    spans: list[Span] = []
    for number, line in enumerate(annotations.split("\n"), start=1):
        if line.startswith("T"):
            place = locate_line(subject, number)
            spans += _parse_brat_line(line.removesuffix("\r"), text=text, place=place)
    return build_document(doc_id, text=text, spans=spans)


def _parse_brat_line(line: str, *, text: str, place: str) -> list[Span]:
    match = _BRAT_LINE.fullmatch(line)
    if match is None:
        raise AuditError(
            "This line of a brat file is not understood.",
            where=place,
            do="A span is written: T1, a tab, label, start, end, a tab, the text.",
        )
    parts = [tuple(map(int, part.split())) for part in match[2].split(";")]
    content = " ".join(text[start:end] for start, end in parts)
    is_inside = all(start < end <= len(text) for start, end in parts)
    if not is_inside or not reads_alike(content, match[3]):
        raise AuditError(
            "The text of this span is not what stands at its offsets.",
            where=place,
            do="Offsets count code points of the .txt file as it is, line ends included.",
        )
    joined: list[tuple[int, int]] = []
    for start, end in parts:
        if joined and start >= joined[-1][1] and not text[joined[-1][1] : start].strip():
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    try:
        return [Span(start, end, normalize_label(match[1])) for start, end in joined]
    except ValueError:
        raise AuditError("The label of this span cannot be used.", where=place) from None


def _format_brat(document: TaggedDocument) -> Iterator[str]:
    """Yield a note's annotations; a line end inside a span is written as a space."""
    for i, span in enumerate(document.spans, start=1):
        content = re.sub("[\t\r\n]", " ", document.text[span.start : span.end])
        yield f"T{i}\t{span.label} {span.start} {span.end}\t{content}\n"


_CJK = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
# These scripts have no spaces: a token that holds such a character is split into characters.
_TOKEN = re.compile(r"[^\W_]+|\s+|[^\s]")
_HAS_CJK = re.compile(f"[{_CJK}]")
_HEADER = re.compile(r"# (doc_id|patient_id|text) = (.*)")
_TAG = re.compile(r"O|([BIESLU])-(\S+)")


def _format_conll(document: TaggedDocument) -> Iterator[str]:
    """Yield the lines of a document in the BIO scheme, one token with its tag per line."""
    _refuse_overlaps(document)
    yield "-DOCSTART-\tO\n\n"
    yield f"# doc_id = {json.dumps(document.doc_id, ensure_ascii=False)}\n"
    if document.patient_id is not None:
        yield f"# patient_id = {json.dumps(document.patient_id, ensure_ascii=False)}\n"
    text, offset = document.text, 0
    yield f"# text = {json.dumps(text)}\n"
    stretches: list[tuple[int, int, str]] = []
    for span in document.spans:
        stretches += [(offset, span.start, ""), (span.start, span.end, span.label)]
        offset = span.end
    for start, end, label in [*stretches, (offset, len(text), "")]:
        pieces = list(_split_tokens(text, start=start, end=end))
        for i, (begin, stop) in enumerate(pieces):
            if text[begin:stop].isspace() and not (label and i in (0, len(pieces) - 1)):
                continue
            tag = f"{'I' if i else 'B'}-{label}" if label else "O"
            yield f"{_escape_token(text[begin:stop])}\t{begin}\t{stop}\t{tag}\n"
    yield "\n"


def _split_tokens(text: str, *, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _TOKEN.finditer(text, start, end):
        if _HAS_CJK.search(match[0]):
            yield from ((i, i + 1) for i in range(*match.span()))
        else:
            yield match.span()


def _escape_token(token: str) -> str:
    escaped_token = json.dumps(token, ensure_ascii=False)[1:-1]
    return re.sub(r"[^\S]|[\x7f-\xa0]", lambda space: f"\\u{ord(space[0]):04x}", escaped_token)


def _read_conll(text: str, *, subject: str) -> Iterator[TaggedDocument]:
    """Yield the documents of a file.

    A tag I, E or L without a span to continue begins one, as in the CoNLL evaluation script.
    """
    notes: list[list[tuple[int, str]]] = []  # the lines of each, with their numbers
    for number, line in enumerate(text.split("\n"), start=1):
        is_start = line.startswith("-DOCSTART-")
        if is_start or (not notes and line.strip()):
            notes.append([])
        if notes and not is_start:
            notes[-1].append((number, line.removesuffix("\r")))
    for number, lines in enumerate(notes, start=1):
        yield _parse_conll_note(lines, doc_id=str(number), subject=subject)


def _parse_conll_note(
    lines: Iterable[tuple[int, str]], *, doc_id: str, subject: str
) -> TaggedDocument:
    headers: dict[str, str] = {"doc_id": doc_id}
    joined_text = ""  # built from the tokens, for files without a line `# text =`
    spans: list[tuple[int, int, str]] = []
    n_tokens, open_label = 0, ""
    for number, line in lines:
        header = _HEADER.fullmatch(line)
        if header is not None and not n_tokens:
            headers[header[1]] = _parse_header(header[1], header[2])
        elif line.strip():
            columns = re.split(r"\t| +", line.strip(" "))
            tag = _TAG.fullmatch(columns[-1])
            if tag is None or len(columns) < 2:
                raise AuditError(
                    "This line of a CoNLL file is not understood.",
                    where=locate_line(subject, number),
                    do="A line is a token and a tag: O, B-label, I-label, E-label or S-label.",
                )
            if "text" in headers:
                start, end = _parse_token_place(
                    columns, text=headers["text"], place=locate_line(subject, number)
                )
            else:
                joined_text += " " if n_tokens and not joined_text.endswith("\n") else ""
                start, end = len(joined_text), len(joined_text) + len(columns[0])
                joined_text += columns[0]
            n_tokens += 1
            label = normalize_label(tag[2] or "")
            if label and (tag[1] in "BSU" or open_label != label):
                spans.append((start, end, label))
            elif label:
                spans[-1] = (spans[-1][0], end, label)
            open_label = label if tag[1] in ("B", "I") else ""
        elif n_tokens and not joined_text.endswith("\n"):
            joined_text += "\n"
    try:
        return build_document(
            headers["doc_id"],
            text=headers.get("text", joined_text.rstrip("\n")),
            spans=[Span(*place) for place in spans],
            patient_id=headers.get("patient_id"),
        )
    except ValueError:
        raise AuditError("The tags of a note give no spans.", where=subject) from None


def _parse_header(name: str, value: str) -> str:
    content = None
    with suppress(ValueError):
        content = json.loads(value)
    return content if isinstance(content, str) and (content or name != "doc_id") else value


def _parse_token_place(columns: list[str], *, text: str, place: str) -> tuple[int, int]:
    start, end = -1, -1
    if len(columns) == 4 and all(re.fullmatch("[0-9]+", place) for place in columns[1:3]):
        start, end = map(int, columns[1:3])
    if not 0 <= start < end <= len(text) or not reads_alike(
        _escape_token(text[start:end]), columns[0]
    ):
        raise AuditError(
            "This token is not what stands at its offsets.",
            where=place,
            do="Below a line `# text =` the columns are token, start, end and tag.",
        )
    return start, end


_CATEGORIES = {
    "NAME": "PATIENT DOCTOR USERNAME identifier",
    "PROFESSION": "PROFESSION",
    "LOCATION": "HOSPITAL ORGANIZATION STREET CITY STATE COUNTRY ZIP LOCATION-OTHER ROOM",
    "AGE": "AGE",
    "DATE": "DATE",
    "CONTACT": "PHONE FAX EMAIL URL IPADDR contact",
    "ID": "MEDICALRECORD HEALTHPLAN ACCOUNT LICENSE VEHICLE DEVICE BIOID IDNUM SSN linkage_code "
    "personal_id_code",
}
_CATEGORY = {label: name for name, labels in _CATEGORIES.items() for label in labels.split()}
_MAX_MARKS = 500_000  # counted before it is read, for each takes much memory
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _read_i2b2(xml: str, *, doc_id: str, subject: str) -> TaggedDocument:
    """Read one note.

    The label of a tag is its TYPE, or the name of its element if it has no TYPE. A file that
    declares a document type or entities is refused; neither belongs in this format.
    """
    text, tags = _parse_i2b2(xml, subject=subject)
    spans = []
    for number, tag in enumerate(tags, start=1):
        place = Message("{subject}, tag {number}", subject=subject, number=number)
        try:
            start, end = int(tag.get("start", "")), int(tag.get("end", ""))
            spans.append(Span(start, end, normalize_label(tag.get("TYPE") or tag.tag)))
        except ValueError:
            raise AuditError(
                "This tag lacks a usable `start`, `end` or `TYPE`.", where=place
            ) from None
        content = text[start:end]
        if end > len(text) or not reads_alike(tag.get("text", content), content):
            raise AuditError(
                "The text of this tag is not what stands at its offsets.",
                where=place,
                do="Offsets count code points of TEXT, from 0.",
            )
    return build_document(doc_id, text=text, spans=spans)


def _parse_i2b2(xml: str, *, subject: str) -> tuple[str, Iterable[ElementTree.Element]]:
    if xml.count("<") + xml.count("=") > _MAX_MARKS:
        raise AuditError("The XML has too many tags for one note.", where=subject)
    if re.search("<!(?:DOCTYPE|ENTITY)", xml):
        raise AuditError("The XML defines entities of its own; this is refused.", where=subject)
    try:
        root = ElementTree.fromstring(re.sub(r"\A\ufeff?\s*<\?xml[^>]*\?>", "", xml, count=1))
    except (ElementTree.ParseError, ValueError):
        raise AuditError("This is no well-formed XML.", where=subject) from None
    text = root.findtext("TEXT")
    if text is None:
        raise AuditError(
            "The XML has no element TEXT.", where=subject, do="Give i2b2 2014 files, one note each."
        )
    return text, root.findall("TAGS[1]/*")


def _format_i2b2(document: TaggedDocument) -> str:
    """Return a note as XML; carriage returns become `&#13;`, because a reader would drop them."""
    if _UNWRITABLE.search(document.text):
        raise AuditError(
            "A note holds a control character, for which XML has no form.",
            do="Choose another format, or clean the note.",
        )
    marks = {"\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
    lines = [
        f'<{_CATEGORY.get(span.label, "PHI")} id="P{i}" start="{span.start}" '
        f'end="{span.end}" text={quoteattr(document.text[span.start : span.end], marks)} '
        f'TYPE={quoteattr(span.label)} comment="" />\n'
        for i, span in enumerate(document.spans)
    ]
    text = escape(document.text, {"\r": "&#13;"})
    return (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<deIdi2b2>\n'
        f"<TEXT>{text}</TEXT>\n<TAGS>\n{''.join(lines)}</TAGS>\n</deIdi2b2>\n"
    )


_LONE = re.compile("[\ud800-\udfff]")


def read_jsonl(text: str, *, subject: str) -> Iterator[TaggedDocument]:
    """Yield the documents of a file, in its order; empty lines are skipped."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield read_line(line, subject=subject, number=number)


def read_line(line: str, *, subject: str, number: int) -> TaggedDocument:
    """Read one line of JSONL."""
    key = "JSON"
    try:
        record = _require_type(json.loads(line), dict)
        key = "doc_id"
        doc_id = str(_require_type(None if record[key] == "" else record[key], int, str))
        key = "text"
        text = _require_type(record[key], str)
        key = "spans"
        spans = []
        for entry in _require_type(record.get(key, []), list):
            start, end = _require_type(entry["start"], int), _require_type(entry["end"], int)
            spans.append(Span(start, end, normalize_label(_require_type(entry["label"], str))))
        patient = record.get("patient_id")
        return build_document(
            doc_id,
            text=text,
            spans=spans,
            patient_id=str(patient) if type(patient) in (int, str) and patient != "" else None,
            unaligned=[normalize_label(str(label)) for label in record.get("unaligned", [])],
        )
    except (ValueError, LookupError, TypeError, RecursionError):
        raise AuditError(
            "This line has no `{key}` that can be used.",
            where=locate_line(subject, number),
            do="A line is a JSON object with `doc_id`, `text` and `spans`; a span has `start` "
            "(from 0), `end` (exclusive, within the text) and a `label` of 1 to 100 characters.",
            key=key,
        ) from None


def _require_type(value: JsonValue, *kinds: type[T]) -> T:
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise TypeError
    return value


def format_jsonl_line(document: TaggedDocument) -> str:
    """Return a document as one line, with its line end."""
    record: dict[str, JSON] = {"doc_id": document.doc_id, "text": document.text}
    if document.patient_id is not None:
        record["patient_id"] = document.patient_id
    record["spans"] = [span.to_fields() for span in document.spans]
    if document.unaligned:
        record["unaligned"] = list(document.unaligned)
    line = json.dumps(record, ensure_ascii=False)
    # Half a surrogate pair is no UTF-8: it stays escaped, so that the line can be read again.
    return (json.dumps(record) if _LONE.search(line) else line) + "\n"


def write_jsonl(documents: Iterable[TaggedDocument]) -> str:
    """Return documents as the text of one file."""
    return "".join(map(format_jsonl_line, documents))


Format = Literal["jsonl", "brat", "i2b2", "conll", "inline"]
FORMATS = get_args(Format)

_FORMAT_OF_ENDING = {
    ".jsonl": "jsonl",
    ".ann": "brat",
    ".xml": "i2b2",
    ".conll": "conll",
    ".bio": "conll",
    ".iob": "conll",
    ".txt": "inline",
    ".html": "inline",
    ".htm": "inline",
}
_MAX_NAME_BYTES = 200


def guess_format(names: Iterable[str]) -> str:
    """Return the format that file names indicate; `.ann` beside `.txt` means brat."""
    endings = {PurePath(name).suffix.lower() for name in names}
    for ending, form in _FORMAT_OF_ENDING.items():
        if ending in endings:
            return form
    raise AuditError(
        "The format of these files is not known.",
        do="Their names end in .jsonl, .ann and .txt, .xml, .conll, .txt or .html.",
    )


def read_text(
    text: str, *, form: str, doc_id: str, subject: str, annotations: str = ""
) -> Iterable[TaggedDocument]:
    """Return the annotated notes of a file; `annotations` is the text of brat's .ann file.

    `doc_id` names the note if the file holds one note; `subject` names the file in errors.
    """
    match form:
        case "jsonl":
            return read_jsonl(text, subject=subject)
        case "conll":
            return _read_conll(text, subject=subject)
        case "i2b2":
            return [_read_i2b2(text, doc_id=doc_id, subject=subject)]
        case "brat":
            return [_read_brat(text, annotations=annotations, doc_id=doc_id, subject=subject)]
    return [_read_inline(text, doc_id=doc_id)]


def write_files(
    documents: Iterable[TaggedDocument], *, form: str, language: str = "en"
) -> dict[str, bytes]:
    """Return annotated notes as files: from name to bytes."""
    files: dict[str, list[str]] = {}
    doc_ids: set[str] = set()
    for number, document in enumerate(documents, start=1):
        refuse_duplicate(document.doc_id, doc_ids, place=Message("note {number}", number=number))
        name = escape_file_name(document.doc_id) if form in ("brat", "i2b2", "inline") else "notes"
        match form:
            case "jsonl":
                contents = {"jsonl": format_jsonl_line(document)}
            case "conll":
                contents = {"conll": "".join(_format_conll(document))}
            case "brat":
                contents = {"txt": document.text, "ann": "".join(_format_brat(document))}
            case "i2b2":
                contents = {"xml": _format_i2b2(document)}
            case _:
                contents = {"txt": _format_inline(document, language=language)}
        for ending, text in contents.items():
            files.setdefault(f"{name}.{ending}", []).append(text)
    try:
        return {name: "".join(texts).encode("utf-8") for name, texts in files.items()}
    except UnicodeEncodeError:
        raise AuditError(
            "A note holds half a character, which no file of this format can.", do="Choose JSONL."
        ) from None


def flatten_spans(document: TaggedDocument) -> TaggedDocument:
    """Return the document without overlaps.

    Longer spans take precedence, then spans whose type has the higher risk. Other spans keep the
    characters that are still free, so that no character loses its label.
    """
    if not count_overlapping(document.spans):
        return document
    risk = {label: i for i, label in enumerate(RISK_ORDER)}
    order = sorted(
        document.spans, key=lambda s: (-s.n_chars, risk.get(s.label, len(risk)), s.start, s.label)
    )
    is_taken = bytearray(len(document.text))
    spans: list[Span] = []
    for span in order:
        for free in re.finditer(b"\0+", is_taken[span.start : span.end]):
            spans.append(Span(span.start + free.start(), span.start + free.end(), span.label))
        is_taken[span.start : span.end] = b"\1" * span.n_chars
    return document.with_spans(spans)


def escape_file_name(doc_id: str) -> str:
    """Return a file name without ending for a note; characters unsuitable for files are escaped."""

    def escape_character(character: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in character[0].encode("utf-8", errors="replace"))

    name = re.sub(r"[^\w \-]", escape_character, doc_id)
    if len(name.encode()) > _MAX_NAME_BYTES:
        raise AuditError("The name of a note is too long for a file.", do="Choose JSONL or CoNLL.")
    return name


GOLD, PREDICTED = "gold notes", "predicted notes"


@dataclass
class PairedFiles:
    """The notes of a gold file and a file of predictions, paired by `doc_id`.

    After iteration, `n_gold_only` counts gold notes without a prediction; all their spans count as
    missed. `n_predicted_only` counts predicted notes without gold; they cannot be judged and are
    left out.
    """

    gold: Path
    predicted: Path
    n_gold_only: int = field(default=0, init=False)
    n_predicted_only: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
        """Yield (gold, predicted) in the order of the gold file."""
        predicted = {
            document.doc_id: (place, document)
            for place, document in _read_placed_notes(self.predicted, PREDICTED)
        }
        n_predicted, n_gold, self.n_gold_only = len(predicted), 0, 0
        for _, gold in _read_placed_notes(self.gold, GOLD):
            n_gold += 1
            if gold.doc_id not in predicted:
                self.n_gold_only += 1
                yield gold, gold.with_spans(())
                continue
            place, prediction = predicted.pop(gold.doc_id)
            prediction = with_text(prediction, gold.text) or prediction
            if prediction.text != gold.text:
                raise AuditError(
                    "The text of this note is not that of the gold file, so offsets mean something "
                    "else.",
                    where=place,
                    do="Give the source text in both files, without any change.",
                )
            yield gold, prediction
        self.n_predicted_only = len(predicted)
        if not n_gold:
            raise AuditError(
                "There is no note to score.", where=GOLD, do="Give files with at least one note."
            )
        if n_predicted and n_gold == self.n_gold_only:
            raise AuditError(
                "The two files have no note in common.",
                where=PREDICTED,
                do="Give every note the same `doc_id` in both files.",
            )


def read_notes(path: Path, subject: str) -> Iterator[TaggedDocument]:
    """Yield the notes of a JSONL file, one in memory at a time."""
    return (note for _, note in _read_placed_notes(path, subject))


def _read_placed_notes(path: Path, subject: str) -> Iterator[tuple[Message, TaggedDocument]]:
    """Yield the place and the note of each line."""
    doc_ids: set[str] = set()
    for number, line in read_numbered_lines(path, subject):
        note, place = read_line(line, subject=subject, number=number), locate_line(subject, number)
        refuse_duplicate(note.doc_id, doc_ids, place=place)
        yield place, note


def refuse_duplicate(doc_id: str, doc_ids: set[str], *, place: str) -> None:
    """Add the name of a note to `doc_ids`; refuse it if it is there already."""
    if doc_id in doc_ids:
        raise AuditError(
            "This note is there twice.", where=place, do="Give every note a `doc_id` of its own."
        )
    doc_ids.add(doc_id)


def read_numbered_lines(path: Path, subject: str) -> Iterator[tuple[int, str]]:
    """Yield the number, from 1, and the text of each line of a file that is not blank."""
    with locate_errors(subject), open_regular(path) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                try:
                    yield number, line.decode("utf-8-sig")
                except UnicodeDecodeError:
                    place = locate_line(subject, number)
                    raise AuditError(
                        "This line is not UTF-8.", where=place, do="Save the file as UTF-8."
                    ) from None
