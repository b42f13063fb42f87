"""Whose age it is: asides, other people's names, names that are words, kana, rare surnames."""

from __future__ import annotations

import pytest

from audit.notes.mention_words import Mention
from audit.notes.mentions import examine, find_mentions


def named(text: str) -> list[str]:
    return [text[found.name_start : found.name_end] for found in find_mentions(text)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Al Roe, a patient of Dr. Ann Poe, is a 52-year-old male.", "Al Roe"),
        ("Al Roe, referred by Dr. Poe, is a 41-year-old male.", "Al Roe"),
        ("Al Roe, with his wife Joan, is a 66-year-old man.", "Al Roe"),
        ("The patient, Al Roe, is a 52-year-old man.", "Al Roe"),
        ("Seen by Dr. Poe, the patient Al Roe, is a 52-year-old man.", "Al Roe"),
        ("Al Roe -- is a 45-year-old man.", "Al Roe"),
        ("Al Weeks is a 70-year-old man.", "Al Weeks"),
        ("Christian Black is a 20-year-old male.", "Christian Black"),
        ("In brief, Christian Brown is a 64-year-old male.", "Christian Brown"),
        ("Mr. Christian Brown is a 64-year-old gentleman.", "Christian Brown"),
        ("The patient Christian Roe is a 20-year-old male.", "Christian Roe"),
        ("Al Roe, Esq. is a 61-year-old male attorney.", "Al Roe"),
        ("Reverend Al Roe is a 74-year-old man.", "Al Roe"),
    ],
)
def test_the_subject_is_found(text: str, name: str) -> None:
    assert named(text) == [name]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Mother: Ann Roe is a 60-year-old female.", "relative"),
        ("His brother, Al Roe, is a 50-year-old man.", "relative"),
        ("The son of Ann Roe is a 12-year-old boy.", "unclear"),
        ("This patient of Dr. Ann Poe is a 70-year-old woman.", "unclear"),
        ("St. Vincent's is a 90 year old hospital.", "unclear"),
        ("Kaiser Roe is a 75-year-old organization.", "unclear"),
        ("Decedent is a 60-year-old man.", "generic"),
    ],
)
def test_somebody_elses_name_is_no_mention(text: str, reason: str) -> None:
    (found,) = examine(text)
    assert not isinstance(found, Mention)
    assert found.reason == reason


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("早瀬実，72歳男性．", "早瀬実"),
        ("早瀬実（男，72歳）が来院。", "早瀬実"),
        ("佐々木ゆかりは60歳の女性。", "佐々木ゆかり"),
        ("水瀬サユリは60歳の女性。", "水瀬サユリ"),
        ("五十嵐健太郎は45歳の男性である。", "五十嵐健太郎"),
        ("患者佐藤 豊、60歳、男性。", "佐藤 豊"),
        ("氏家譲（うじけゆずる）は83歳の男性。", "氏家譲"),
        ("氏家譲（うじけ　ゆずる、83歳、男性）", "氏家譲"),
        ("既往のない梶 真由美さん（46歳女性）", "梶 真由美"),
        ("李明は54歳の男性。", "李明"),
        ("前島結衣は30歳の女性。", "前島結衣"),
        ("水瀬由美子は生来健康な72歳の女性。", "水瀬由美子"),
        ("水瀬由美子は72歳の会社員の女性。", "水瀬由美子"),
        ("昨日来院した佐藤花子さん(68歳,女性)を診察した。", "佐藤花子"),
    ],
)
def test_japanese_names_of_every_kind(text: str, name: str) -> None:
    (found,) = find_mentions(text)
    assert text[found.name_start : found.name_end] == name
    assert found.sex in ("male", "female")


@pytest.mark.parametrize(
    "text",
    [
        "検査値は1,072歳男性",
        "当初行なった本研究は68歳男性",
        "独居にて、68歳男性",
        "両側いずれ、68歳男性",
    ],
)
def test_japanese_words_are_no_names(text: str) -> None:
    assert named(text) == []
