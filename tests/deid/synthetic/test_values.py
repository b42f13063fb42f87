"""Values of synthetic notes: every slot has one, names and days and numbers have their forms."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.synthetic.grammar import Choice, Dice, Piece, Template, Value, grammar
from audit.deid.synthetic.notes import surfaced
from audit.deid.synthetic.people import (
    JAPANESE_MAKERS,
    DateWriter,
    EnglishCast,
    JapaneseCast,
    email,
    japanese_name,
    kanji_number,
    patient_facts,
)
from audit.names.people import insurer_check_digit, my_number_check_digit, romaji_of
from audit.notes.spans import CONTACT, IDENTIFIER, PERSONAL_ID_CODE, QUASI_IDENTIFIER, TYPES

CASTS = {"ja": JapaneseCast, "en": EnglishCast}


def _kinds(template: Template) -> Iterator[str]:
    for node in template:
        if isinstance(node, Value):
            yield node.kind
        elif isinstance(node, Choice):
            for option in node.options:
                yield from _kinds(option)


@pytest.mark.parametrize("language", ["ja", "en"])
def test_every_slot_of_the_grammar_has_a_value(language: str) -> None:
    kinds = {k for ts in grammar(language).values() for t in ts for k in _kinds(t)}
    assert len(kinds) > 30
    for seed in range(20):
        facts = patient_facts(seed, "somebody", language=language)
        cast = CASTS[language](facts, seed=seed, note="note")
        for kind in sorted(kinds):
            piece = cast.value(kind)
            assert piece.text.strip() == piece.text != ""
            assert piece.label in (*TYPES, "")


@pytest.mark.parametrize("language", ["ja", "en"])
@pytest.mark.parametrize("kind", ["nobody", "birth.nothing", "course.day.2"])
def test_a_slot_that_is_not_there_is_refused(language: str, kind: str) -> None:
    facts = patient_facts(0, "somebody", language=language)
    with pytest.raises(ValueError, match="no such value"):
        CASTS[language](facts, seed=0, note="note").value(kind)


def test_whole_names_identify_and_parts_do_so_in_combination() -> None:
    facts = patient_facts(7, "somebody", language="ja")
    cast = JapaneseCast(facts, seed=7, note="note")
    surname, given_name = facts.name.surname, facts.name.given
    assert cast.value("patient.surname") == Piece(surname.written, QUASI_IDENTIFIER)
    assert cast.value("patient.given") == Piece(given_name.written, QUASI_IDENTIFIER)
    assert cast.value("patient.initial") == Piece(surname.romaji[0], QUASI_IDENTIFIER)
    whole = cast.value("patient")
    assert "".join(whole.text.split()) == surname.written + given_name.written
    assert whole.label == cast.value("patient.kana").label == IDENTIFIER
    half = unicodedata.normalize("NFKC", cast.value("patient.half_kana").text)
    assert "".join(half.split()) == surname.kana + given_name.kana


def test_people_stay_who_they_are_within_a_note() -> None:
    cast = JapaneseCast(patient_facts(1, "p", language="ja"), seed=1, note="n")
    doctor = "".join(cast.value("doctor").text.split())
    assert doctor.startswith(cast.value("doctor.surname").text)
    assert cast.value("record") == cast.value("record")
    others = {cast.value("other.new").text for _ in range(10)}
    assert len(others) > 5


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**50), st.sampled_from("MF"), st.integers(1920, 2020))
def test_names_have_a_reading_that_romaji_agrees_with(seed: int, sex: str, year: int) -> None:
    name = japanese_name(Dice(seed, "test"), sex=sex, birth_year=year)
    for part in (name.surname, name.given):
        assert re.fullmatch("[ァ-ヴー]+", part.kana)
        assert part.romaji == romaji_of(part.kana)


def test_names_are_many() -> None:
    dice = Dice(0, "test")
    names = {japanese_name(dice, sex="F", birth_year=1960).full for _ in range(5000)}
    assert len(names) > 4700


@pytest.mark.parametrize(
    ("number", "written"),
    [(0, "〇"), (1, "一"), (10, "十"), (11, "十一"), (20, "二十"), (31, "三十一"), (99, "九十九")],
)
def test_numbers_in_kanji(number: int, written: str) -> None:
    assert kanji_number(number) == written


def test_days_are_written_in_many_ways_and_mean_the_same() -> None:
    day = date(2019, 5, 3)
    written = {DateWriter(Dice(seed, "test")).day(day, "long") for seed in range(300)}
    known = {"2019年5月3日", "令和元年5月3日", "2019/05/03", "R1.5.3", "2019-05-03", "20190503"}
    assert known <= written
    assert "令和元年五月三日" in written
    short = {DateWriter(Dice(seed, "test")).day(day, "short") for seed in range(300)}
    assert {"5月3日", "5/3", "05/03", "五月三日"} <= short


def test_ages_of_infants_are_in_months_and_days() -> None:
    writer = DateWriter(Dice(0, "test"))
    for _ in range(30):
        assert re.fullmatch(r"日齢9|生後9日|生後1週", writer.age(0, days=9))
        assert re.fullmatch(r"(?:生後)?3[かヶカ]月", writer.age(0, days=95))
        assert re.fullmatch(r"2歳6[かヶ]月", writer.age(2, days=2 * 365 + 183))


def test_public_numbers_have_their_check_digits() -> None:
    for seed in range(50):
        dice = Dice(seed, "test")
        number = re.sub(r"\D", "", JAPANESE_MAKERS[PERSONAL_ID_CODE]["my_number"](dice))
        assert my_number_check_digit(number[:-1]) == number[-1]
        insurer = JAPANESE_MAKERS[PERSONAL_ID_CODE]["insurer"](dice)
        assert insurer_check_digit(insurer[:-1]) == insurer[-1]
        assert re.fullmatch(r"[a-z0-9._]+@(?:[a-z]+\.)?example\.(?:com|org|net)", email(dice))
        phone = re.sub(r"\D", "", JAPANESE_MAKERS[CONTACT]["phone"](dice))
        assert len(phone) == (11 if phone.startswith("81") else 10)


PIECES = st.lists(
    st.builds(
        Piece,
        st.text("山田、。：（） 12.a\n", min_size=1, max_size=8),
        st.sampled_from((*TYPES, "")),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(PIECES, st.integers(0, 2**40), st.booleans())
def test_noise_never_touches_the_letters_of_a_value(
    pieces: list[Piece], seed: int, is_japanese: bool
) -> None:
    text, spans = surfaced(pieces, dice=Dice(seed, "test"), is_japanese=is_japanese)
    values = [piece for piece in pieces if piece.label]
    assert [span.label for span in spans] == [piece.label for piece in values]
    for span, piece in zip(spans, values, strict=True):
        found = unicodedata.normalize("NFKC", text[span.start : span.end])
        assert found == unicodedata.normalize("NFKC", piece.text)
