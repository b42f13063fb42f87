"""Encodings are told apart or refused, never guessed."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.errors import AuditError
from audit.foreign import MAX_FILE_BYTES, decode_text

NAMES = "姓,名\n山田,太郎\n髙橋,①\n"


@pytest.mark.parametrize(
    ("codec", "encoding"),
    [
        ("utf-8", "UTF-8"),
        ("utf-8-sig", "UTF-8 with BOM"),
        ("utf-16", "UTF-16"),
        ("cp932", "CP932"),
    ],
)
def test_encodings_are_told_apart(codec, encoding):
    assert decode_text(NAMES.encode(codec), subject="names") == (NAMES, encoding)


@pytest.mark.parametrize(
    ("text", "codec"),
    [("山田,太郎", codec) for codec in ("utf-16-le", "utf-16-be", "iso2022_jp", "euc_jp")]
    + [
        (name, "latin-1")
        for name in ("José", "Gómez", "Sébastien", "Óscar", "Ángel", "Müller", "Peña", "Zoë", "Åsa")
    ],
)
def test_other_encodings_are_refused(text, codec):
    header = "first,last" if codec == "latin-1" else "姓,名"
    with pytest.raises(AuditError):
        decode_text(f"{header}\n{text},Smith\n".encode(codec), subject="names")


@pytest.mark.parametrize(
    ("codec", "name"),
    [("euc_jp", "EUC-JP"), ("iso2022_jp", "ISO-2022-JP"), ("shift_jis_2004", "Shift_JIS-2004")],
)
def test_a_japanese_encoding_that_is_not_read_is_named(codec, name):
    rare = "ト゚" * ("2004" in codec)
    data = f"氏名：山田太郎。{rare}ほかの薬を使う。".encode(codec)
    with pytest.raises(AuditError, match=f"looks like {name}. Save it as UTF-8") as refused:
        decode_text(data, subject="notes")
    assert name in refused.value.render("ja") and "UTF-8" in refused.value.render("ja")


@pytest.mark.parametrize("text", ["ﾔﾏﾀﾞ,ﾀﾛｳ\n", "Cﾍﾟﾌﾟﾁﾄﾞ 1.0ng\n", "山田 A型 CTで\n", "ｱﾝﾌﾟﾙmg山\n"])
def test_half_width_kana_beside_latin_letters_is_cp932(text):
    assert decode_text(f"名前\n{text}".encode("cp932"), subject="notes")[1] == "CP932"


def test_utf_8_with_a_few_broken_bytes_is_refused_with_the_line():
    for good in ("José Núñez", "山田太郎、佐藤花子"):
        for broken in (b"\xe9", b"\x81\x81", b"\xff"):
            data = f"name\n{good}\n".encode() + b"Ann" + broken + b"b\nBo\n"
            with pytest.raises(AuditError, match="broken bytes, the first of them in line 3"):
                decode_text(data, subject="names")
    with pytest.raises(AuditError, match="broken bytes"):  # behind a byte order mark however many
        decode_text("姓名\n山田".encode("utf-8-sig") + b"\x82\xa0\x82\xa2\x82\xa4", subject="names")


@pytest.mark.parametrize(
    "data",
    [
        b"p\x802, a\xe2\x80\xa8 b\x80",
        b"note \xed\xa0\x80 Anna",
        b"\x1f\x8b\xb2 M\xc3\xbcller",
        "Anna – 山".encode() + b"\x82\xa0\x82\xa2\x82\xa4\x82\xa6\x82\xa8",
    ],
)
def test_utf_8_with_more_broken_bytes_than_letters_is_not_taken_for_cp932(data):
    with pytest.raises(AuditError):
        decode_text(b"name\n" + data + b"\n", subject="names")


def test_what_is_no_text_file_is_refused():
    gzipped = gzip.compress(b"name\nAnn\n", mtime=0)
    for data in (b"", b"a\0b", gzipped, b"PK\x03\x04rest", b"a" * (MAX_FILE_BYTES + 1)):
        with pytest.raises(AuditError, match=r"^names: "):
            decode_text(data, subject="names")
    assert decode_text(b"\xef\xbb\xbf", subject="names") == ("", "UTF-8 with BOM")


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_text_or_a_reason(data):
    try:
        text, encoding = decode_text(data, subject="names")
    except AuditError:
        return
    codecs = {"UTF-8": "utf-8", "UTF-8 with BOM": "utf-8-sig", "UTF-16": "utf-16"}
    codec = codecs.get(encoding, "cp932")
    # CP932 has some letters twice, so a round trip compares text, not bytes.
    assert data.decode(codec) == text


@given(st.text(max_size=40).filter(lambda text: "\0" not in text and "\x1b" not in text))
@settings(max_examples=100, deadline=None)
def test_every_utf_8_text_is_read_as_written(text):
    assert decode_text(b"name\n" + text.encode(), subject="names") == ("name\n" + text, "UTF-8")
