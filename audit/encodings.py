"""Encodings: the text of an uploaded file, and under which encoding it was read.

UTF-8, UTF-8 with a byte order mark, and CP932 (what Japanese Excel writes) are told apart by what
their bytes can be, never by statistics. Everything else is refused with the way out, because each
of the others can be read as one of these three with the wrong letters.
"""

from __future__ import annotations

import re
from typing import NoReturn

from audit.errors import AuditError

MAX_FILE_BYTES = 50_000_000

SAVE_AS_UTF8 = 'Save the file as "CSV UTF-8" and try again.'

_MAGIC = {
    b"\x1f\x8b": "a gzip archive",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"\x28\xb5\x2f\xfd": "a zstd archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"PAR1": "a Parquet file",
    b"%PDF": "a PDF file",
}
_FEW_BROKEN = 4
_ESCAPE_SEQUENCE = re.compile(rb"\x1b[$(]")


def decode_text(data: bytes, *, what: str) -> tuple[str, str]:
    """Return the text of an uploaded file and the name of its encoding.

    Raises
    ------
    AuditError
        If the file is empty, too large, compressed, binary, or not surely UTF-8 or CP932.
    """
    if not data:
        raise AuditError("The file is empty.", where=what)
    if len(data) > MAX_FILE_BYTES:
        raise AuditError(
            f"The file is larger than {MAX_FILE_BYTES // 1_000_000} MB.",
            where=what,
            do="Split it, or leave out the columns that are not needed.",
        )
    for magic, kind in _MAGIC.items():
        if data.startswith(magic):
            raise AuditError(f"This is {kind}, not text.", where=what, do=SAVE_AS_UTF8)
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise AuditError("The file is encoded as UTF-16.", where=what, do=SAVE_AS_UTF8)
    if b"\0" in data:
        raise AuditError(
            "The file holds NUL bytes, so it is not text.", where=what, do=SAVE_AS_UTF8
        )
    if _ESCAPE_SEQUENCE.search(data):
        raise AuditError("The file is encoded as ISO-2022-JP.", where=what, do=SAVE_AS_UTF8)
    if data.startswith(b"\xef\xbb\xbf"):
        marked = _as_utf8(data[3:], what=what)
        return _refuse_damaged(data, what=what) if marked is None else marked, "UTF-8 with BOM"
    text = _as_utf8(data, what=what)
    if text is not None:
        return text, "UTF-8"
    return _as_cp932(data, what=what), "CP932"


def _as_utf8(data: bytes, *, what: str) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    whole = data.decode("utf-8", errors="ignore")
    n_broken = len(data.decode("utf-8", errors="surrogateescape")) - len(whole)
    n_good = len(whole) - len(whole.encode("ascii", errors="ignore"))
    # Read as UTF-8, CP932 gives many more broken bytes than whole letters. The other way round it
    # is UTF-8 with damage, which CP932 would mostly accept and turn into other letters; so few
    # broken bytes beside whole letters tell nothing.
    if n_good and n_good + _FEW_BROKEN > n_broken:
        _refuse_damaged(data, what=what)
    return None


def _refuse_damaged(data: bytes, *, what: str) -> NoReturn:
    good = data.decode("utf-8", errors="surrogateescape")
    bad = re.search("[\ud800-\udfff]", good)
    line = good.count("\n", 0, bad.start() if bad else 0) + 1
    raise AuditError(
        f"The file is UTF-8 but for a few broken bytes, the first of them in line {line}.",
        where=what,
        do=SAVE_AS_UTF8,
    )


def _as_cp932(data: bytes, *, what: str) -> str:
    try:
        text = data.decode("cp932")
    except UnicodeDecodeError:
        raise AuditError(
            "The file is neither UTF-8 nor CP932.", where=what, do=SAVE_AS_UTF8
        ) from None
    try:
        data.decode("euc_jp")
    except UnicodeDecodeError:
        pass
    else:
        raise AuditError("The file may be CP932 or EUC-JP.", where=what, do=SAVE_AS_UTF8)
    if _looks_western(text):
        raise AuditError(
            "The file is not UTF-8, and as CP932 it gives letters that no name has; it may be in "
            "a Western encoding.",
            where=what,
            do=SAVE_AS_UTF8,
        )
    return text


def _looks_western(text: str) -> bool:
    # "Sébastien" in Latin-1 is valid CP932: the é and the letter behind it become one rare kanji.
    # Signs: private-use letters; one lone half-width kana glued to the front of a Latin letter; a
    # kanji of JIS level 2 (lead byte E0 and up) glued to the back of one. Of damaged UTF-8: bytes
    # that CP932 leaves without a letter; two half-width kana as an accented letter's two bytes; a
    # kanji that is hardly written, and then with hiragana, as the first two bytes of dashes.
    signs = (
        "[\x80\xa0\ue000-\uf8ff]|\u7ab6(?![\u3041-\u3096])",
        "(?<![\uff61-\uff9f])[\uff61-\uff9f](?=[A-Za-z])",
        "[A-Za-z][\uff82\uff83][\uff61-\uff7f](?![\uff61-\uff9f])",
    )
    if re.search("|".join(signs), text):
        return True
    glued = re.finditer("[A-Za-z]([\u3400-\u9fff])", text)
    return any(match[1].encode("cp932")[0] >= 0xE0 for match in glued)
