"""Files of other people: encoded text, JSON and zip archives, read within bounds.

UTF-8, UTF-8 or UTF-16 with a byte order mark, and CP932 (which Japanese Excel writes) are told
apart by the bytes that are valid in them, never by statistics. Every other encoding is refused with
a way out, because it could be read as one of these with the wrong letters.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

from pydantic import JsonValue

from audit.errors import AuditCancelled, AuditError, Message

MAX_VALUES = 1_200_000
"""The largest number of values in one JSON text: as objects they take at most some 400 MB."""

_MAX_DIGITS = 300
# Notes pack five to one; a file that unpacks to a hundred times its size is made to fill memory.
_MAX_RATIO = 100
_RATIO_SLACK_BYTES = 8_000_000
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_ENTRY = b"PK\x01\x02"
_HIDDEN_SHARE = 3
# bz2 and LZMA return a whole block at once, a gigabyte for a kilobyte, so no bound would hold.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_IS_ENCRYPTED = 0x1


@contextmanager
def refuse_errors(refusal: AuditError) -> Iterator[None]:
    """Turn any exception of the block into `refusal`, except AuditError and cancellation.

    The parser's message is dropped, because it may quote what it read.
    """
    try:
        yield
    except (AuditError, AuditCancelled):
        raise
    except Exception:  # noqa: BLE001  # on purpose: no list of a parser's exceptions is complete
        raise refusal from None


@contextmanager
def name_place(place: str) -> Iterator[None]:
    """Add a place to the errors of a block that have none."""
    try:
        yield
    except AuditError as error:
        if error.where:
            raise
        raise AuditError(error.what, where=place, do=error.do) from None


@contextmanager
def locate_errors(place: str) -> Iterator[None]:
    """Turn errors of reading a file into an AuditError that names the place."""
    try:
        with name_place(place):
            yield
    except OSError as error:
        sentence = "Cannot be read ({strerror})."
        raise AuditError(sentence, where=place, strerror=error.strerror) from None


def parse_json_value(
    data: bytes | str,
    *,
    refusal: AuditError,
    number: Callable[[str], JsonValue] | None = None,
    max_values: int = MAX_VALUES,
    max_objects: int = MAX_VALUES,
) -> JsonValue:
    """Parse JSON strictly: UTF-8, no key twice, no number that a float cannot hold.

    Raises `refusal` for anything else, and for more than `max_values` values or `max_objects`
    objects, which take most memory; the caller must bound the length. `number` converts the text of
    a number, also NaN and Infinity. Without it, these two and numbers that a float cannot hold are
    refused.
    """
    with refuse_errors(refusal):
        text = data if isinstance(data, str) else data.decode("utf-8-sig")
        # Each value but the first stands after a comma or a bracket.
        n_objects = text.count("{")
        if n_objects > max_objects or n_objects + sum(map(text.count, "[,")) > max_values:
            raise ValueError("too many values")
        value: JsonValue = json.loads(
            text,
            parse_constant=number or _parse_finite,
            parse_float=number or _parse_finite,
            parse_int=number or _parse_int,
            object_pairs_hook=_refuse_twin_keys,
        )
        return value


def find_free_memory() -> float:
    """Return the bytes that this process may still take; infinite if the system does not say."""
    free = math.inf
    with suppress(OSError, ValueError, StopIteration), Path("/proc/meminfo").open() as lines:
        free = 1024 * int(
            next(line for line in lines if line.startswith("MemAvailable")).split()[1]
        )
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # the limit of a container
        limit, used = (int((group / f"memory.{k}").read_text()) for k in ("max", "current"))
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        free = min(free, limit - used + int(cached.get("inactive_file", 0)))
    return free


def refuse_without_memory(n_bytes: int, *, place: str) -> None:
    """Refuse to load weights that take more than the memory that is free.

    A file may promise more than it holds on the disk: a hole of ten gigabytes takes none.
    """
    free = find_free_memory()
    if n_bytes > free:
        raise AuditError(
            (
                "Loading the model takes up to {n_bytes:.1f} GB, and only {free:.1f} "
                "GB of free memory are left."
            ),
            where=place,
            do="End other programs, or use a machine with more memory.",
            n_bytes=n_bytes / 1000000000.0,
            free=free / 1000000000.0,
        )


def unpack_gzip(data: bytes, *, subject: str) -> bytes:
    """Unpack a gzip file, up to the length that `decode_text` refuses as too large."""
    refuse_too_large(data, subject=subject)
    try:
        with gzip.GzipFile(fileobj=BytesIO(data)) as file:
            return file.read(MAX_FILE_BYTES + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise AuditError("The gzip file is damaged, or ends too early.", where=subject) from None


def is_zip(data: bytes) -> bool:
    """Whether bytes begin like a zip archive."""
    return data.startswith(_ZIP_STARTS)


def read_zip_members(
    data: bytes, *, place: str, max_bytes: int, max_files: int
) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each file of a zip archive; folders and hidden files are left out.

    The sizes that an archive states are not trusted: every file is read up to a limit.
    """
    too_many = AuditError(
        "The archive has more than {max_files:,} files.", where=place, max_files=max_files
    )
    # Counted before opening, because opening takes memory for each entry.
    if data.count(_ENTRY) > _HIDDEN_SHARE * max_files:
        raise too_many
    left = min(max_bytes, _MAX_RATIO * len(data) + _RATIO_SLACK_BYTES)
    refusal = AuditError(
        "The archive is damaged or locked, or has a link in it.",
        where=place,
        do="Make a plain zip without password.",
    )
    with refuse_errors(refusal), zipfile.ZipFile(BytesIO(data)) as archive:
        entries = [entry for entry in archive.infolist() if not _is_hidden(entry)]
        if len(entries) > max_files:
            raise too_many
        if len({entry.filename for entry in entries}) < len(entries):
            raise AuditError("Two files of the archive have the same name.", where=place)
        for entry in entries:
            if entry.flag_bits & _IS_ENCRYPTED or stat.S_ISLNK(entry.external_attr >> 16):
                raise refusal
            if entry.compress_type not in _PACKINGS:
                raise AuditError(
                    "The archive is packed in a way that is not read.",
                    where=place,
                    do="Make a plain zip without password.",
                )
            with archive.open(entry) as file:
                content = file.read(left + 1)
            left -= len(content)
            if left < 0:
                raise AuditError("The archive is too large when unpacked.", where=place)
            yield entry.filename, content


def _is_hidden(entry: zipfile.ZipInfo) -> bool:
    parts = PurePosixPath(entry.filename).parts
    hidden = not parts or parts[-1].startswith(".") or "__MACOSX" in parts
    return entry.is_dir() or hidden


def _parse_int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("no float holds it")
    return int(digits)


def _parse_finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("no float holds it")
    return value


def _refuse_twin_keys(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is there twice")
    return value


MAX_FILE_BYTES = 50_000_000

_EXPORT_TEXT = "Export its text as .txt (UTF-8) with the program that wrote it."
SAVE_AS_UTF8 = 'Save the file as "CSV UTF-8" and try again.'
_LOOKS_LIKE = "The file looks like {encoding}."
_SAVE_TEXT_AS_UTF8 = "Save it as UTF-8 and try again."

GZIP = b"\x1f\x8b"
ARCHIVES = {
    GZIP: "a gzip archive",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook of the old form, or with a password",
    b"PAR1": "a Parquet file",
}
_PDF = b"%PDF"
_OFFICE_PARTS = {
    b"word/document.xml": "This is a Word document (DOCX).",
    b"application/vnd.oasis.opendocument.text": "This is an OpenDocument text (ODT).",
}
"""Such a document is an archive in which the names of these parts can be read."""
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_FEW_BROKEN = 4
_ESCAPE_SEQUENCE = re.compile(rb"\x1b[$(]")
_JAPANESE_CODECS = (("euc_jp", "EUC-JP"), ("shift_jis_2004", "Shift_JIS-2004"))
"""Encodings that are named when a file is refused; they are recognised by their hiragana."""
_HIRAGANA = re.compile("[\u3041-\u3096]")


def open_regular(path: Path) -> BinaryIO:
    """Open a file of somebody else for reading; raises `OSError`.

    A pipe, a socket or a device is refused, because opening or reading it could block for ever.
    """
    # Non-blocking: a named pipe would not even open until somebody writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        mode = os.fstat(descriptor).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise AuditError(
                "This is a pipe or a device, not a file.", do="Give a file that lies on a disk."
            )
        return os.fdopen(descriptor, "rb")  # for a folder this raises the system's error
    except BaseException:
        os.close(descriptor)
        raise


def read_file_bytes(path: Path) -> bytes:
    """Return a file's bytes, but at most one byte more than `decode_text` accepts.

    Raises the errors of `open_regular`.
    """
    with open_regular(path) as file:
        return file.read(MAX_FILE_BYTES + 1)


def decode_text(data: bytes, *, subject: str) -> tuple[str, str]:
    """Return the text of an uploaded file and the name of its encoding."""
    if not data:
        raise AuditError("The file is empty.", where=subject)
    refuse_too_large(data, subject=subject)
    refuse_office_documents(data, subject=subject)
    kinds = [kind for magic, kind in ARCHIVES.items() if data.startswith(magic)]
    refusal = ""
    if kinds:
        refusal = Message("This is {kinds}, not text.", kinds=kinds[0])
    elif data.startswith(_UTF16_MARKS):
        return _decode_utf16(data, subject=subject), "UTF-16"
    elif b"\0" in data:
        refusal = "The file holds NUL bytes: it is not text, or UTF-16 without a byte order mark."
    refuse_escapes(data, subject=subject)
    if refusal:
        raise AuditError(refusal, where=subject, do=SAVE_AS_UTF8)
    for mark, name in ((b"\xef\xbb\xbf", "UTF-8 with BOM"), (b"", "UTF-8")):
        with suppress(UnicodeDecodeError):
            if data.startswith(mark):
                return data.removeprefix(mark).decode("utf-8"), name
    _refuse_damaged(data, subject=subject)
    return _decode_cp932(data, subject=subject), "CP932"


def refuse_office_documents(data: bytes, *, subject: str) -> None:
    """Refuse a PDF, a Word document or an OpenDocument text; the message names the format."""
    sentence = "This is a PDF document." if data.startswith(_PDF) else ""
    if is_zip(data):
        sentence = next((kind for part, kind in _OFFICE_PARTS.items() if part in data), "")
    if sentence:
        raise AuditError(sentence, where=subject, do=_EXPORT_TEXT)


def refuse_escapes(data: bytes, *, subject: str) -> None:
    """Refuse a file in ISO-2022-JP: all its bytes are ASCII, so it would be read as ASCII."""
    if _ESCAPE_SEQUENCE.search(data):
        raise AuditError(_LOOKS_LIKE, where=subject, do=_SAVE_TEXT_AS_UTF8, encoding="ISO-2022-JP")


def refuse_too_large(data: bytes, *, subject: str) -> None:
    """Refuse an uploaded file of more than `MAX_FILE_BYTES`."""
    if len(data) > MAX_FILE_BYTES:
        raise AuditError(
            "The file is larger than {max_file_bytes} MB.",
            where=subject,
            do="Split it, or leave out the columns that are not needed.",
            max_file_bytes=MAX_FILE_BYTES // 1000000,
        )


def _decode_utf16(data: bytes, *, subject: str) -> str:
    with suppress(UnicodeDecodeError):
        text = data.decode("utf-16")
        if "\0" not in text:
            return text
    raise AuditError("The file is UTF-16 with broken characters.", where=subject, do=SAVE_AS_UTF8)


def _refuse_damaged(data: bytes, *, subject: str) -> None:
    """Refuse a file that is UTF-8 except for some bytes.

    CP932 that is read as UTF-8 gives many more broken bytes than valid letters. If it does not, the
    file is damaged UTF-8, which CP932 would mostly accept and turn into other letters.
    """
    text = data.decode("utf-8", errors="surrogateescape")
    undamaged = data.decode("utf-8", errors="ignore")
    n_good = len(undamaged) - len(undamaged.encode("ascii", errors="ignore"))
    n_broken = len(text) - len(undamaged)
    is_marked = data.startswith(b"\xef\xbb\xbf")
    if is_marked or (n_good and n_good + _FEW_BROKEN > n_broken):
        line = re.split("[\ud800-\udfff]", text, maxsplit=1)[0].count("\n") + 1
        raise AuditError(
            ("The file is UTF-8 except for a few broken bytes, the first of them in line {line}."),
            where=subject,
            do=SAVE_AS_UTF8,
            line=line,
        )


def _decode_cp932(data: bytes, *, subject: str) -> str:
    text = ""
    with suppress(UnicodeDecodeError):
        text = data.decode("cp932")
    for codec, name in _JAPANESE_CODECS if not text else _JAPANESE_CODECS[:1]:
        with suppress(UnicodeDecodeError):
            if _HIRAGANA.search(data.decode(codec)):
                raise AuditError(_LOOKS_LIKE, where=subject, do=_SAVE_TEXT_AS_UTF8, encoding=name)
    if not text:
        raise AuditError("The file is neither UTF-8 nor CP932.", where=subject, do=SAVE_AS_UTF8)
    refusal = ""
    if _looks_western(text):
        refusal = (
            "The file is not UTF-8, and as CP932 it gives letters that no name has; it may be in "
            "a Western encoding."
        )
    with suppress(UnicodeDecodeError):
        data.decode("euc_jp")
        refusal = "The file may be CP932 or EUC-JP."
    if refusal:
        raise AuditError(refusal, where=subject, do=SAVE_AS_UTF8)
    return text


def _looks_western(text: str) -> bool:
    # "Sébastien" in Latin-1 is valid CP932: the é and the letter after it become one rare kanji.
    # Signs of a Western encoding: private-use letters; a lone half-width kana directly before a
    # Latin letter; a kanji of JIS level 2 (lead byte E0 and up) directly after one. Signs of
    # damaged UTF-8: bytes to which CP932 gives no letter; two half-width kana, which are the two
    # bytes of an accented letter; a rare kanji without hiragana after it, which is the first two
    # bytes of a dash.
    signs = (
        "[\x80\xa0\ue000-\uf8ff]|\u7ab6(?![\u3041-\u3096])",
        "(?<![\uff61-\uff9f])[\uff61-\uff9f](?=[A-Za-z])",
        "[A-Za-z][\uff82\uff83][\uff61-\uff7f](?![\uff61-\uff9f])",
    )
    if re.search("|".join(signs), text):
        return True
    glued = re.finditer("[A-Za-z]([\u3400-\u9fff])", text)
    return any(match[1].encode("cp932")[0] >= 0xE0 for match in glued)


_FORMAT_CHARS = 8_192
"""Characters at the beginning of a text by which its format is recognised."""
_ONE_PER_LINE = "Write one JSON object a line (JSONL), or CSV."
# The pattern of comments matches in one way only, so that a search takes linear time.
_XML_HEAD = r"(?:<\?[^>\0]*>\s*|<!--(?:(?!-->)[^\0])*-->\s*|<!(?!--)[^>\0]*>\s*)*"
_FHIR = r'(?:\[\s*)?\{[^\0]*"resourceType"\s*:'
_HTML_NAMES = (
    "html|head|body|title|meta|link|style|script|div|p|br|hr|h[1-6]|table|thead|tbody|tr|td|th|ul"
    "|ol|dl|li|pre|span|font|center|section|article|header|main|b|strong|em|i|u|a"
)
_HTML = re.compile(rf"{_XML_HEAD}<(?:{_HTML_NAMES})(?=[\s/>])", re.IGNORECASE)
_HTML_DOCTYPE = re.compile(r"\s*(?:<\?[^>]*>\s*)?<!doctype\s+html", re.IGNORECASE)
_HTML_INSIDE = re.compile(
    r"<br\s*/?>|</(?:p|div|td|tr|li|table|span|ul|ol|h[1-6]|body|html)>", re.IGNORECASE
)
_I2B2 = r"<(?:\?xml\b[^\0]*<)?(?:deIdi2b2|PatientMatching|TEXT)\b"
_OTHER_XML = re.compile(rf"<\?xml\b|{_I2B2}")
_DOCUMENTS = (
    (
        r"\x0b?(?:MSH|FHS|BHS)\|",
        "This is an HL7 v2 message.",
        "Export the notes in it as text, or as a table with a column `text`.",
    ),
    (
        rf"{_XML_HEAD}<(?:\w+:)?ClinicalDocument\b",
        "This is a CDA document (XML).",
        "Export the notes in it as text, or the document as FHIR in JSON.",
    ),
    (
        rf"{_XML_HEAD}<(?:\w+:)?[A-Z]\w*\s[^>\0]*http://hl7\.org/fhir[\"']",
        "This is FHIR in XML.",
        "Export it as FHIR in JSON.",
    ),
    (r"\{\\rtf", "This is an RTF document.", _EXPORT_TEXT),
    (r"%PDF-", "This is a PDF document.", _EXPORT_TEXT),
)
"""Documents that are not read: how they begin, the sentence that names them, and what to do."""
_OTHER_FORMATS = (
    *_DOCUMENTS,
    (
        _FHIR,
        "This is FHIR in JSON, not a table.",
        "Write a table, or one JSON object a line, with first_name and last_name of each patient, "
        "or patient_id and text of each note.",
    ),
    (r"\{\s*\n", "This is one JSON object over several lines, not JSONL.", _ONE_PER_LINE),
    (r'\[\s*[{\["\]]', "This is a JSON array, not JSONL.", _ONE_PER_LINE),
    (
        _I2B2,
        "This is XML of i2b2 or n2c2, not a table.",
        "`deid tag`, `deid score` and `deid convert` read it. For all else write CSV with a column "
        "`text`.",
    ),
    (
        r"<(?i:!doctype\s+html|html|table)\b",
        "This is a web page (HTML), not a table.",
        SAVE_AS_UTF8,
    ),
    (r"<\?xml\b", "This is XML, not a table.", SAVE_AS_UTF8),
)
"""How a text begins, the sentence that names its format, and what to do."""


def refuse_other_formats(text: str, *, subject: str) -> None:
    """Refuse a text that is neither CSV nor JSONL, and name its format."""
    _refuse_format(_OTHER_FORMATS, _head(text), subject=subject)


def find_text_form(text: str, *, subject: str) -> Literal["plain", "html", "fhir"]:
    """Return the form of a note, which is recognised by its beginning.

    Raises AuditError for a document that is not read: HL7 v2, CDA, FHIR in XML, RTF, PDF.
    """
    head = _head(text)
    _refuse_format(_DOCUMENTS, head, subject=subject)
    if is_fhir(text):
        return "fhir"
    if _HTML.match(head) or _HTML_DOCTYPE.match(head):
        return "html"
    return "html" if _HTML_INSIDE.search(head) and not _OTHER_XML.match(head) else "plain"


def is_fhir(text: str) -> bool:
    """Whether a text begins like FHIR in JSON: a resource, a Bundle, or one per line."""
    return bool(re.match(_FHIR, _head(text)))


def _head(text: str) -> str:
    return text[:_FORMAT_CHARS].lstrip("\ufeff \t\r\n")


def _refuse_format(formats: Iterable[tuple[str, str, str]], head: str, *, subject: str) -> None:
    for beginning, sentence, do in formats:
        if re.match(beginning, head):
            raise AuditError(sentence, where=subject, do=do)
