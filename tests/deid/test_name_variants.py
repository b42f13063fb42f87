"""Forms of a name: tied to one person, typed as the paper types them."""

from __future__ import annotations

import unicodedata
from collections import Counter

import pytest

from audit.names.people import (
    ENGLISH,
    FORMS,
    JAPANESE,
    NamePart,
    PersonName,
    full_form,
    given_names,
    hiragana,
    label_of,
    romaji_of,
    surnames,
    written,
)
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER

OTA = PersonName(
    NamePart("太田", "オオタ", "Ota"), NamePart("順子", "ジュンコ", "Junko"), "", JAPANESE
)
SMITH = PersonName(NamePart("Smith", "", "Smith"), NamePart("Mary", "", "Mary"), "J", ENGLISH)


def test_a_japanese_name_in_all_forms() -> None:
    assert [written(OTA, form) for form in FORMS] == [
        *("太田順子", "太田 順子", "太田　順子", "太田 順子", "Ota, Junko", "太田", "順子", "O.J."),
        *("オオタ ジュンコ", "ｵｵﾀ ｼﾞｭﾝｺ", "おおた じゅんこ", "Junko Ota"),
    ]


def test_an_english_name_in_all_forms() -> None:
    assert [written(SMITH, form) for form in FORMS] == [
        *("Mary Smith", "Mary Smith", "Mary Smith", "Mary J. Smith", "Smith, Mary", "Smith"),
        *("Mary", "M.J.S.", "Mary Smith", "Mary Smith", "Mary Smith", "Mary Smith"),
    ]


def test_what_holds_both_parts_identifies() -> None:
    quasi = {form for form in FORMS if label_of(form) == QUASI_IDENTIFIER}
    assert quasi == {"surname", "given", "initials"}
    assert label_of("half_kana") == IDENTIFIER


def test_readings_give_fakers_romaji() -> None:
    from faker.providers.person.ja_JP import Provider

    pairs = [*Provider.last_name_pairs, *Provider.first_name_pairs]
    different = {kana: romaji for _, kana, romaji in pairs if romaji_of(kana) != romaji}
    # Faker's own slips: Shūhei and Mitsuru.
    assert different == {"シュウヘイ": "Shohei", "ミツル": "Mituru"}


@pytest.mark.parametrize(
    ("kana", "romaji"),
    [("ハットリ", "Hattori"), ("ホンマ", "Homma"), ("イノウエ", "Inoue"), ("コウノ", "Kono"),
     ("マッチ", "Matchi"), ("リョウタ", "Ryota"), ("セノオ", "Senoo")],
)  # fmt: skip
def test_romaji_as_in_passports(kana: str, romaji: str) -> None:
    assert romaji_of(kana) == romaji


def test_every_name_has_a_reading_that_is_tied_to_it() -> None:
    tables = [surnames(), *(given_names(s, t) for s in "MF" for t in ("old", "middle", "young"))]
    for table in tables:
        assert len({part.written for part in table.names}) == len(table.names)
        assert abs(sum(table.shares) - 1) < 1e-9
        for part in table.names:
            name = PersonName(part, part, "", JAPANESE)
            half = unicodedata.normalize("NFKC", written(name, "half_kana"))
            assert half == written(name, "kana") == f"{part.kana} {part.kana}"
            assert hiragana(part.kana) != part.kana
            assert part.romaji.isascii()


def test_full_names_are_written_as_often_as_said() -> None:
    counts = Counter(full_form(JAPANESE, number) for number in range(20))
    assert counts == {"joined": 12, "spaced": 5, "wide": 3}


def test_a_form_or_reading_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no such form"):
        written(OTA, "signature")
    with pytest.raises(ValueError, match="katakana"):
        romaji_of("たなか")
