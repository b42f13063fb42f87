"""The finder of mentions: many texts with all that is found in them, hostile texts, recall.

`mentions.tsv` holds a text a line and what is said of each of its ages: form, title, first and last
name, roles, years, sex, offsets, whether it is a placeholder; or the reason why nobody is named.
Its first 87 texts were judged by hand; the others are these taken apart and put together again, one
for each way through the finder, as it found them: a change of any of them is to be looked at. The
sentences of `clinical_prose.txt` were written after the finder's rules; none was changed for them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from faker import Faker
from hypothesis import given
from hypothesis import strategies as st

from audit.notes.mention_words import Mention
from audit.notes.mentions import examine_ages, find_mentions
from audit.notes.mentions_ja import split_japanese_name
from audit.notes.placeholders import find_loose_slot, find_name_slot
from audit.notes.sentences import find_sentences
from tests.linear_time import assert_linear_time

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the shared texts are not here")
LINES = Path(__file__).with_name("mentions.tsv").read_text("utf-8").splitlines()
N_BY_HAND = 87


def describe_ages(text: str) -> list[str]:
    rows = []
    for m in examine_ages(text):
        offsets = f"{m.start}-{m.end}"
        if isinstance(m, Mention):
            name = f"{m.title}|{m.first}|{m.last}|{' '.join(m.roles)}|{m.age_years:.5g}|{m.sex}"
            offsets = f"{m.name_start}-{m.name_end}|{offsets}"
            rows.append(f"{m.form}: {name}|{offsets}|{m.is_placeholder:d}")
        else:
            rows.append(f"{m.reason}: {offsets}|{m.subject_start}-{m.subject_end}")
    return rows


@pytest.mark.parametrize("lines", [LINES[:N_BY_HAND], LINES[N_BY_HAND:]], ids=["by hand", "drawn"])
def test_every_age_has_its_person_or_its_reason(lines: list[str]) -> None:
    for line in lines:
        text, *expected = line.split("\t")
        assert describe_ages(json.loads(text)) == expected, text


def test_names_of_a_register_count_whatever_their_case() -> None:
    text = "hpi : john smith is a 45 year old male with gout ."
    assert find_mentions(text) == ()
    mentions = find_mentions(text, name_parts={"john", "smith"})
    assert [(m.first, m.last) for m in mentions] == [("john", "smith")]


def test_japanese_names_are_split() -> None:
    names = {
        "山田太郎": ("太郎", "山田"),
        "佐々木健": ("健", "佐々木"),
        "林 さくら": ("さくら", "林"),
        "渡辺修": ("修", "渡辺"),
        "長谷川美咲": ("美咲", "長谷川"),
        "森": ("", "森"),
        "五十嵐太一": ("太一", "五十嵐"),
        "ジョン・スミス": ("ジョン", "スミス"),
        "水瀬サユリ": ("サユリ", "水瀬"),
        "早瀬　実": ("実", "早瀬"),
        "さくら": ("", "さくら"),
        "一二三四五六七": ("四五六七", "一二三"),
    }
    assert {name: split_japanese_name(name) for name in names} == names


HOSTILE: dict[str, tuple[Callable[[str], object], int, tuple[str, ...]]] = {
    "mentions": (
        lambda text: [*examine_ages(text)],
        5_000,
        (
            "A",
            "a ",
            "[**",
            "___",
            "1 ",
            "45 year old ",
            "Mr. ",
            "John ",
            "1-",
            "(",
            ", ",
            "70歳",
            "の",
            "\n",
            "is a 45-year-old ",
            "[",
            "Smith, ",
            "45 yo M, ",
            "y/o",
            "old ",
            "( 45 yo ",
            "、",
            "山",
            " 70歳、",
            "年齢",
        ),
    ),
    "sentences": (
        lambda text: [*find_sentences(text)],
        75_000,
        (
            "\n",
            ".",
            "a.",
            "[**",
            " \n",
            "1. ",
            "A",
            "[**a Initial ",
        ),
    ),
    "name slots": (
        lambda text: find_name_slot(f"{text}[NAME]"),
        25_000,
        (
            " ",
            "[",
            "[**",
            "_",
            "\0",
            "[A",
            "[FIRST]",
        ),
    ),
    "loose slots": (
        find_loose_slot,
        25_000,
        (
            "X",
            "XX ",
            "<",
            "<A",
            "【",
            "【氏名",
            "___ ",
            "Mr. ___",
            "Dr. [LAST] ",
            "[姓]",
            "[姓]様 ",
        ),
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_texts_take_time_linear_in_their_length(what: str) -> None:
    work, n_chars, pieces = HOSTILE[what]
    for piece in pieces:
        assert_linear_time(work, piece, n_chars)


@given(
    st.text("AJohn Smith.,()[]*_-\n'\"1 9yearsold/MF is a70歳男性の山田太郎は、（）", max_size=120)
)
def test_any_text_gives_offsets_within_it(text: str) -> None:
    last = -1
    for mention in examine_ages(text):
        assert 0 <= mention.start < mention.end <= len(text)
        if isinstance(mention, Mention):
            assert mention.name_start >= last
            last = mention.end
            assert mention.is_placeholder or (mention.last in text and mention.first in text)


LOCALES = ("en_US", "en_GB", "en_IE", "en_IN", "es_ES", "fr_FR", "de_DE", "it_IT", "pl_PL", "sv_SE")
WAYS = ("{0} {1}", "{0} {1}", "{0} K. {1}", "Ms. {1}", "Mr. {0} {1}", "{1}, {0}", "{2} {3}")
SEXES = ("man", "woman", "male", "female", "gentleman", "lady")
_PROSE = Path(__file__).with_name("clinical_prose.txt").read_text("utf-8")
WITHOUT, FRESH = (
    [line.replace("\\n", "\n") for line in part.splitlines()[1:]]
    for part in _PROSE.split("[FRESH]")
)


def prose(n: int) -> Iterator[tuple[str, str, str]]:
    """Yield texts, and first and last name of the mention; both empty where there is none."""
    rng = random.Random(2026)
    fakers = [Faker(locale) for locale in LOCALES]
    for faker in fakers:
        faker.seed_instance(rng.random())
    for number in range(n):
        faker = rng.choice(fakers)
        first, last = faker.first_name(), faker.last_name()
        name = rng.choice(WAYS).format(first, last, first.upper(), last.upper())
        text = rng.choice(FRESH if number % 4 else WITHOUT).replace("{X}", name)
        text = text.replace("{N}", str(rng.randint(2, 99))).replace("{S}", rng.choice(SEXES))
        yield text, *((first, last) if number % 4 else ("", ""))


@pytest.mark.long
def test_recall_and_precision_on_held_out_prose() -> None:
    n_found = n_exact = n_wrong = 0
    for text, first, last in prose(1500):
        mentions = find_mentions(text)
        right = [m for m in mentions if last and m.last.lower().endswith(last.lower().split()[-1])]
        n_found += bool(right)
        n_exact += any(
            m.last.lower() == last.lower() and m.first.lower() in ("", first.lower()) for m in right
        )
        n_wrong += len(mentions) - bool(right)
    n_true = 1500 * 3 // 4
    assert n_found / n_true >= 0.97 and n_exact / n_true >= 0.95
    assert n_found / (n_found + n_wrong) >= 0.97


SUBJECT = re.compile(
    r"\b(?:The patient|This|Patient|She|He) (?=(?:is|was) an? (?:[\w-]+,? ){0,5}\d+[- ]year[- ]old "
    r"(?:[\w-]+,? ){0,3}(?:man|woman|male|female|gentleman|lady)\b)"
)
JAPANESE_SUBJECT = re.compile(r"(?:症例|患者)(?:は|：|、)(?=[０-９]{1,3}歳[，、]?の?(?:男|女))")


def english_name(faker: Faker) -> str:
    if faker.random.random() < 0.3:
        return f"{faker.random.choice(('Mr.', 'Ms.'))} {faker.last_name()}"
    return f"{faker.first_name()} {faker.last_name()}"


@pytest.mark.long
@needs_data
@pytest.mark.parametrize(
    ("file", "subject", "locale", "name", "at_least", "share", "most_without"),
    [
        ("mtsamples.jsonl", SUBJECT, "en_US", english_name, 500, 0.98, 4),
        (
            "medtxt_ja.jsonl",
            JAPANESE_SUBJECT,
            "ja_JP",
            lambda faker: f"{faker.last_name()}{faker.first_name()}",
            30,
            0.95,
            0,
        ),
    ],
)
def test_names_put_into_real_prose_are_found(
    file, subject, locale, name, at_least, share, most_without
):
    faker = Faker(locale)
    faker.seed_instance(7)
    n_true = n_found = n_wrong = n_without = 0
    for line in (DATA / file).read_text("utf-8").strip().split("\n"):
        text = json.loads(line)["text"]
        n_before = len(find_mentions(text))  # names that the prose's authors left in
        n_without += n_before
        for match in subject.finditer(text):
            invented_name = name(faker) + match[0][-1].replace("：", "、")
            end = match.start() + len(invented_name)
            mentions = find_mentions(text[: match.start()] + invented_name + text[match.end() :])
            is_hit = any(m.name_start < end and match.start() < m.name_end for m in mentions)
            n_true, n_found = n_true + 1, n_found + is_hit
            n_wrong += max(0, len(mentions) - is_hit - n_before)
    assert n_without <= most_without
    assert n_true > at_least
    assert n_found / n_true >= share and n_found / (n_found + n_wrong) >= share
