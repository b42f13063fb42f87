"""Mention finder: forms by hand, what is no mention, hostile texts."""

from __future__ import annotations

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.notes.mention_words import Mention, Unnamed
from audit.notes.mentions import examine, find_mentions
from audit.notes.mentions_ja import split_japanese


def only(text: str) -> Mention:
    found = find_mentions(text)
    assert len(found) == 1, (text, found)
    return found[0]


@pytest.mark.parametrize(
    ("text", "form", "title", "first", "last", "years", "sex"),
    [
        ("John Smith is a 70-year-old man with", "is_a", "", "John", "Smith", 70, "male"),
        ("Mr. Smith is a 45 y/o male", "is_a", "mr", "", "Smith", 45, "male"),
        ("SMITH, JOHN is a 42\nyear old female", "is_a", "", "JOHN", "SMITH", 42, "female"),
        ("Smith, John K. is a 50 yo gentleman", "is_a", "", "John", "Smith", 50, "male"),
        ("Ann O'Brien, a 42 year old lady,", "appositive", "", "Ann", "O'Brien", 42, "female"),
        ("JANE DOE IS A 70 YEAR OLD WOMAN", "is_a", "", "JANE", "DOE", 70, "female"),
        ("HPI Jane Doe is a nice 3-1/2-year-old girl", "is_a", "", "Jane", "Doe", 3.5, "female"),
        ("Jane Doe, MRN 12345, is a 33 yo F", "is_a", "", "Jane", "Doe", 33, "female"),
        ("John Q. Public, Jr. is an 80-year-old man", "is_a", "", "John", "Public", 80, "male"),
        ('John "Jack" Smith is a 45 yo man', "is_a", "", "John", "Smith", 45, "male"),
        ("Jose de la Cruz was a 67 yr old male", "is_a", "", "Jose", "de la Cruz", 67, "male"),
        ("Jean-Luc Picard (59 yo M) came", "bracket", "", "Jean-Luc", "Picard", 59, "male"),
        ("Maria Garcia is forty-five years old", "is_old", "", "Maria", "Garcia", 45, ""),
        ("John Smith, age 45, male", "comma", "", "John", "Smith", 45, "male"),
        ("John Smith - 45 yo M w/ CP", "dash", "", "John", "Smith", 45, "male"),
        ("John Smith 45 yo M w/ CP", "direct", "", "John", "Smith", 45, "male"),
        ("This 45-year-old man, John Smith, who", "after_comma", "", "John", "Smith", 45, "male"),
        ("a 45 year old woman named Jane Doe was", "after_named", "", "Jane", "Doe", 45, "female"),
        ("a 70-year-old man (John Smith) was", "after_bracket", "", "John", "Smith", 70, "male"),
        ("70-year-old Mr. Smith was", "after_direct", "mr", "", "Smith", 70, ""),
        ("mr. john smith is a 45 year old man", "is_a", "mr", "john", "smith", 45, "male"),
        ("Dr. Lee saw her. Roe is a 45-year-old man", "is_a", "", "", "Roe", 45, "male"),
        ("The patient, Al Roe, is a 45-year-old man", "is_a", "", "Al", "Roe", 45, "male"),
        ("James White is a 45-year-old man", "is_a", "", "James", "White", 45, "male"),
        ("70歳男性の山田太郎が来院", "ja_after", "", "太郎", "山田", 70, "male"),
        ("山田太郎(70歳,男性)", "ja_bracket", "", "太郎", "山田", 70, "male"),
        ("山田太郎は７０歳の男性。", "ja_is", "", "太郎", "山田", 70, "male"),
        ("患者は佐藤花子、七十二歳、女性。", "ja_comma", "", "花子", "佐藤", 72, "female"),
        ("氏名：山田 太郎　年齢：70歳　性別：男性", "ja_fields", "", "太郎", "山田", 70, "male"),
        ("70歳の女性、佐藤花子さん", "ja_after", "", "花子", "佐藤", 70, "female"),
        ("ジョン・スミス（45歳男性）", "ja_bracket", "", "ジョン", "スミス", 45, "male"),
    ],
)  # fmt: skip
def test_a_name_beside_an_age_is_found(
    text: str, form: str, title: str, first: str, last: str, years: float, sex: str
) -> None:
    found = only(text)
    assert (found.form, found.title, found.first, found.last) == (form, title, first, last)
    assert (found.age_years, found.sex) == (years, sex)
    assert not found.is_placeholder
    written = text[found.name_start : found.name_end]
    assert first in written and last in written and found.start <= found.name_start


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        ("[**Known firstname 1**] [**Known lastname 1**] is a 4 yo F", ("first", "last")),
        ("[**First Name8 (NamePattern2)**] [**Last Name**] is a 4 yo F", ("first", "last")),
        ("[**First Name**] [**Initials**]. [**Last Name**] is a 4 yo F", ("first", "last")),
        ("Mr. [**Known lastname**] is a 70M with", ("last",)),
        ("[**Last Name**], [**First Name**] is a 42\nyear old man", ("last", "first")),
        ("[**Known firstname**] [**Known lastname**], a 42 year old man", ("first", "last")),
        ("[**First Name**] [**Last Name**] is a [**Age over 90**] yo man", ("first", "last")),
        ("Ms. ___ is a ___ yo F with", ("last",)),
        ("___ is a ___ year old man", ("full",)),
        ("[NAME] is a 45-year-old woman", ("full",)),
        ("[氏名]は70歳の男性", ("full",)),
        ("[姓][名]さん（70歳、女性）", ("last", "first")),
    ],
)  # fmt: skip
def test_a_placeholder_beside_an_age_is_found(text: str, roles: tuple[str, ...]) -> None:
    found = only(text)
    assert found.is_placeholder and found.roles == roles
    assert (found.first, found.last) == ("", "")
    assert text[found.name_start] in "[_" and text[found.name_end - 1] in "]_"
    assert math.isnan(found.age_years) == ("over 90" in text or "___ y" in text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Azithromycin is a 3 day course of treatment", None),
        ("He has a 10 year history and a 20 pack-year habit", None),
        ("The patient is a 45-year-old man", "generic"),
        ("Her mother, Jane Smith, is a 70-year-old woman", "relative"),
        ("Mr. Smith's wife is a 70 year old woman", "relative"),
        ("Mr. A is a 53-year-old gentleman", "stub"),
        ("Ms. ABC is a 53-year-old woman", "stub"),
        ("Assessment: 45 yo M with", "none"),
        ("Chest Pain, 45 yo M", "unclear"),
        ("45-year-old male Vietnam Veteran", "none"),
        ("Seen by Dr. Jones, 45 yo man with", "unclear"),
        ("born by C-section to a 27-year-old female", "none"),
        ("症例は７０歳，男性．", "generic"),
        ("糖尿病、70歳男性", "none"),
        ("67歳女性、食欲低下を主訴に", "none"),
        ("母の山田花子（70歳）", "relative"),
    ],
)
def test_what_is_no_mention_is_told_why(text: str, reason: str | None) -> None:
    found = list(examine(text))
    assert not [each for each in found if isinstance(each, Mention)]
    assert [each.reason for each in found if isinstance(each, Unnamed)] == (
        [reason] if reason else []
    )


def test_japanese_names_are_split() -> None:
    names = {
        "山田太郎": ("太郎", "山田"),
        "佐々木健": ("健", "佐々木"),
        "林 さくら": ("さくら", "林"),
    }
    names |= {
        "渡辺修": ("修", "渡辺"),
        "長谷川美咲": ("美咲", "長谷川"),
        "五十嵐太一": ("太一", "五十嵐"),
    }
    assert {name: split_japanese(name) for name in names} == names


@pytest.mark.parametrize(
    "piece",
    ["A", "a ", "[**", "___", "1 ", "45 year old ", "Mr. ", "John ", "1-", "(", ", ", "70歳", "の",
     "\n", "is a 45-year-old ", "[", "Smith, ", "45 yo M, ", "y/o", "old ", "( 45 yo ", "、", "山",
     " 70歳、", "年齢"],
)  # fmt: skip
def test_hostile_texts_take_time_linear_in_their_length(piece: str) -> None:
    def seconds(n_chars: int) -> float:
        text = (piece * n_chars)[:n_chars]
        best = math.inf
        for _ in range(2):
            begin = time.perf_counter()
            list(examine(text))
            best = min(best, time.perf_counter() - begin)
        return best

    small, large = seconds(5_000), seconds(20_000)
    # Four times the text; nine leaves room for a busy machine, and a square law needs sixteen.
    assert large < 9 * small + 0.15
    assert large < 15


@settings(max_examples=150, deadline=None)
@given(
    st.text(
        alphabet="AJohn Smith.,()[]*_-\n'\"1 9yearsold/MF is a70歳男性の山田太郎は、（）",
        max_size=120,
    )
)
def test_any_text_gives_offsets_within_it(text: str) -> None:
    last = -1
    for found in examine(text):
        assert 0 <= found.start < found.end <= len(text)
        if isinstance(found, Mention):
            assert found.name_start >= last
            last = found.end
            if not found.is_placeholder:
                assert found.last in text and found.first in text


def test_lower_case_names_are_found_from_a_register() -> None:
    text = "hpi : john smith is a 45 year old male with gout ."
    assert find_mentions(text) == ()
    found = find_mentions(text, known={"john", "smith"})
    assert [(m.first, m.last) for m in found] == [("john", "smith")]
