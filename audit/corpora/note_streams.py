"""A file of notes as lines of text: unpacked, decoded and cut in bounded memory, however large.

Comes in: a path. Goes out: lines with their line ends as written. Bytes that do not fit the
encoding come out as lone surrogates, so that the reader can refuse the row and go on.
"""

from __future__ import annotations

import codecs
import gzip
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from audit.encodings import SAVE_AS_UTF8, decode_text
from audit.errors import AuditError

MAX_LINE_CHARS = 8_000_000
"""Above this a line is cut and ends with a NUL, which no reader takes for a good row."""

_BLOCK_BYTES = 1 << 20
_HEAD_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
# Notes pack five to one; what unpacks to a hundred times its size is made to fill a disk.
_MAX_RATIO = 100
_RATIO_SLACK_BYTES = 64 << 20
_ARCHIVES = {
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"%PDF": "a PDF file",
}
_MAX_NUL_SHARE = 0.02
_FEW_BROKEN = 1000
_HALF = re.compile("[\ud800-\udfff]")

ByteListener = Callable[[int], None]


def regular_size(path: Path, *, what: str) -> int:
    """Return the bytes of a regular file.

    Raises
    ------
    AuditError
        If it is not there, cannot be read, is empty, or is no regular file.
    """
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where=what) from None
    if not stat.S_ISREG(found.st_mode):
        raise AuditError("This is not a regular file.", where=what)
    if not found.st_size:
        raise AuditError("The file is empty.", where=what)
    return found.st_size


def head_of(path: Path, *, what: str) -> bytes:
    """Return the first megabyte of a file, unpacked.

    Raises
    ------
    AuditError
        If the file cannot be read, or is an archive of a kind other than gzip.
    """
    head = next(blocks_of(path, what=what, on_bytes=lambda n: None), b"")
    for magic, kind in _ARCHIVES.items():
        if head.startswith(magic):
            raise AuditError(f"This is {kind}.", where=what, do="Unpack it first, or use gzip.")
    return head[:_HEAD_BYTES]


def blocks_of(path: Path, *, what: str, on_bytes: ByteListener) -> Iterator[bytes]:
    """Read a plain or gzip file block by block, a megabyte at most each.

    Parameters
    ----------
    on_bytes
        Called with the bytes of the file (packed, if it is packed) since the last call.

    Raises
    ------
    AuditError
        If the file cannot be read, or a gzip file is damaged, cut off, or unpacks to more than a
        hundred times its size.
    """
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == _GZIP
            file.seek(0)
            yield from (_unpacked if is_packed else _plain)(file, what=what, on_bytes=on_bytes)
    except EOFError:
        raise AuditError("The gzip file ends in the middle.", where=what) from None
    except (gzip.BadGzipFile, zlib.error):
        raise AuditError("The gzip file is damaged.", where=what) from None
    except OSError:
        raise AuditError("The file cannot be read.", where=what) from None


def _plain(file: BinaryIO, *, what: str, on_bytes: ByteListener) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block
        on_bytes(len(block))


def _unpacked(file: BinaryIO, *, what: str, on_bytes: ByteListener) -> Iterator[bytes]:
    n_unpacked = n_reported = 0
    with gzip.GzipFile(fileobj=file) as unpacked:
        while block := unpacked.read(_BLOCK_BYTES):
            n_unpacked += len(block)
            n_packed = file.tell()
            if n_unpacked > _MAX_RATIO * n_packed + _RATIO_SLACK_BYTES:
                raise AuditError(
                    f"The gzip file unpacks to more than {_MAX_RATIO} times its size.",
                    where=what,
                    do="Unpack it yourself if it is what you expect.",
                )
            yield block
            on_bytes(n_packed - n_reported)
            n_reported = n_packed
    on_bytes(file.tell() - n_reported)


def encoding_of(head: bytes, *, what: str) -> str:
    """Return the codec of a file from its first megabyte: "utf-8-sig" or "cp932".

    A head with a few broken bytes among whole letters is UTF-8; rows that hold them are refused
    one by one. Everything else that is not surely UTF-8 or CP932 is refused here.

    Raises
    ------
    AuditError
        If the file is binary, UTF-16, ISO-2022-JP, or in a Western or an unknown encoding.
    """
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head.count(0) > _MAX_NUL_SHARE * len(head):
        raise AuditError("The file is UTF-16 or not text.", where=what, do=SAVE_AS_UTF8)
    text = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape").decode(head)
    n_broken = len(_HALF.findall(text))
    n_good = len(text) - len(text.encode("ascii", errors="ignore")) - n_broken
    if n_broken > n_good:
        whole = head[: head.rfind(b"\n") + 1] or head
        try:
            if decode_text(whole.replace(b"\0", b""), what=what)[1] == "CP932":
                return "cp932"
        except AuditError:
            if n_broken > max(1, len(text) // _FEW_BROKEN):
                raise
    return "utf-8-sig"


def lines_of(blocks: Iterable[bytes], *, codec: str) -> Iterator[str]:
    """Cut decoded blocks into lines at line feeds; the line feed stays, carriage returns too."""
    decoder = codecs.getincrementaldecoder(codec)("surrogateescape")
    pieces: list[str] = []
    n_kept = 0
    for block in blocks:
        first, *others = decoder.decode(block).split("\n")
        n_kept = _keep(pieces, first, n_kept)
        if not others:
            continue
        yield "".join(pieces) + "\n"
        last = others.pop()
        for line in others:
            yield line + "\n"
        pieces.clear()
        n_kept = _keep(pieces, last, 0)
    n_kept = _keep(pieces, decoder.decode(b"", final=True), n_kept)
    if n_kept:
        yield "".join(pieces)


def _keep(pieces: list[str], piece: str, n_kept: int) -> int:
    if n_kept > MAX_LINE_CHARS:
        return n_kept
    pieces.append(piece)
    n_kept += len(piece)
    if n_kept > MAX_LINE_CHARS:
        pieces.append("\0")
    return n_kept


def is_whole(text: str) -> bool:
    """Whether a text holds no NUL and no half character: a byte that did not fit, half a pair."""
    return "\0" not in text and (text.isascii() or not _HALF.search(text))
