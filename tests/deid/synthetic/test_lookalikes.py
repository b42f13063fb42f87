"""Words that look like identifiers and are none, and identifiers that stand without a cue."""

from __future__ import annotations

import functools
import re

import pytest

from audit.deid.synthetic import HELD_OUT_STYLES, synthetic_notes
from audit.deid.synthetic.grammar import Dice, Piece, grammar, words
from audit.deid.synthetic.notes import surfaced
from audit.deid.synthetic.people import (
    EnglishCast,
    JapaneseCast,
    english_name,
    foreign_name,
    foreign_parts,
    japanese_name,
    patient_facts,
    sexed_age,
)
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    LINKAGE_CODE,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
    TaggedDocument,
)

_WIDE = str.maketrans("０１２３４５６７８９．／♂♀", "0123456789./♂♀")


@functools.cache
def _notes(language: str) -> tuple[TaggedDocument, ...]:
    return tuple(synthetic_notes(3000, seed=6, language=language))


@pytest.mark.parametrize(
    ("language", "pattern"),
    [
        ("en", r"(?m)^(?:Kind|Next|Consider|Gives|Aware)\b"),
        ("en", r"(?<= at )(?:0\d|1\d|2[0-3])[0-5]\d\b"),
        ("en", r"\b(?:Dr|Mr|Mrs|Miss)\b"),
        ("en", r"\b(?:Mon|Tues|Wed|Thurs|Fri|Sunday)\b"),
        ("en", r"\b(?:Kind regards|Best wishes|Many thanks)\b"),
        ("ja", r"\d+歳(?:以上|代に好発)"),
        ("ja", r"p\.\d+"),
        ("ja", r"第\d+病日"),
        ("ja", r"(?:当科|自宅|施設)で(?:フォロー|転倒|加療)"),
        ("ja", r"(?:職業|国籍|住所|フリガナ)[:：](?:記載なし|不明|空欄)"),
        ("ja", r"[一-龥]{2}[:：](?:良好|自立|全介助|見守り|不良)"),
        ("ja", r"[夫妻母父姉兄妹弟男女]の(?:希望|介護|協力|入院|仕事|都合|不安)"),
    ],
)
def test_a_lookalike_occurs_often_and_is_never_gold(language: str, pattern: str) -> None:
    n = 0
    for document in _notes(language):
        for match in re.finditer(pattern, document.text.translate(_WIDE)):
            n += 1
            inside = [s for s in document.spans if s.start < match.end() and match.start() < s.end]
            assert not inside, match.group()
    assert n > 5


@pytest.mark.parametrize(
    ("language", "shape", "label"),
    [
        ("en", r"\d{2}(?:y|yo)?[MF]", QUASI_IDENTIFIER),
        ("en", r"07700 ?900\d{3}", CONTACT),
        ("en", r"[A-Z]{2} \d\d \d\d \d\d [A-D]", PERSONAL_ID_CODE),
        ("en", r"SN\d{8}", LINKAGE_CODE),
        ("ja", r"\d{2}[♂♀MF]", QUASI_IDENTIFIER),
        ("ja", r"[A-Z]・[A-Z]", QUASI_IDENTIFIER),
        ("ja", r"(?:[1-9]|1[0-2])\.(?:[1-9]|[12]\d|3[01])", QUASI_IDENTIFIER),
        ("ja", r"[ァ-ヴー]+・[ァ-ヴー]+・[ァ-ヴー]+", IDENTIFIER),
        ("ja", r"[一-龥]+(?:日赤|眼科|内科|医大)", QUASI_IDENTIFIER),
    ],
)
def test_what_stands_without_a_cue_is_gold(language: str, shape: str, label: str) -> None:
    found = [
        span.label
        for document in _notes(language)
        for span in document.spans
        if re.fullmatch(shape, document.text[span.start : span.end].translate(_WIDE))
    ]
    assert len(found) > 5
    assert set(found) == {label}


def test_a_quarter_of_the_english_notes_has_nothing_gold() -> None:
    without = sum(not document.spans for document in _notes("en"))
    assert 0.22 < without / 3000 < 0.32


def test_plain_rules_name_no_value() -> None:
    for language, prefixes in (("en", ("p.", "o.", "c.")), ("ja", ("p.", "n."))):
        rules = [name for name in grammar(language) if name.startswith(prefixes)]
        assert len(rules) > 5
        for name in rules:
            assert "Value(" not in str(grammar(language)[name])
            for rule in ("k.relative", "k.staff", "k.life", "k.who", "g.any", "g.life"):
                assert f"rule='{rule}'" not in str(grammar(language)[name])


def test_some_english_notes_are_of_one_case_and_their_spans_still_stand() -> None:
    pieces = [Piece("Seen by Dr "), Piece("Ruth Ashwick", IDENTIFIER), Piece(" at 0915.")]
    texts = set()
    for seed in range(200):
        text, spans = surfaced(pieces, dice=Dice(seed, "t"), is_japanese=False, is_wide=True)
        if len(text) == 32 and "  " not in text:
            texts.add(text)
            assert text[spans[0].start : spans[0].end].lower() == "ruth ashwick"
        narrow, _ = surfaced(pieces, dice=Dice(seed, "t"), is_japanese=False)
        assert narrow != narrow.lower() != narrow.upper()
    whole = "Seen by Dr Ruth Ashwick at 0915."
    assert {whole, whole.lower(), whole.upper()} <= texts


def test_a_wide_name_comes_from_more_names() -> None:
    listed = set(words("en/surnames"))
    rare = set(words("ja/surnames_rare"))
    wide, narrow, n_rare = 0, 0, 0
    for seed in range(300):
        wide += english_name(Dice(seed, "n"), sex="F", is_wide=True).surname.written in listed
        name = english_name(Dice(seed, "n"), sex="F").surname.written
        narrow += set(name.split("-")) <= listed
        own = japanese_name(Dice(seed, "n"), sex="F", birth_year=1970, is_wide=True)
        n_rare += own.surname.written in rare
    assert narrow == 300
    assert wide < 150
    assert 15 < n_rare < 90


def test_people_of_other_countries_keep_their_name_within_a_note() -> None:
    n_parts = set()
    for seed in range(60):
        parts = foreign_parts(Dice(seed, "f"))
        n_parts.add(len(parts))
        whole = foreign_name(parts, Dice(seed, "g"))
        assert re.split("[・ 　＝･]", whole)[0] in (parts[0].split("・")[0], "".join(parts))
        facts = patient_facts(seed, "p", language="ja", is_wide=True)
        cast = JapaneseCast(facts, seed=seed, note="n")
        assert cast.value("foreign").label == IDENTIFIER
        part = cast.value("foreign.part")
        assert part.label == QUASI_IDENTIFIER
        assert part.text in cast.value("foreign").text
    assert n_parts == {2, 3}


def test_short_ages_hold_the_age_and_the_sex() -> None:
    for seed in range(80):
        assert re.match(r"4[07]", sexed_age(47, "F", Dice(seed, "a")))
        facts = patient_facts(seed, "p", language="en", is_wide=True)
        cast = EnglishCast(facts, seed=seed, note="n")
        sexed = cast.value("age.sexed").text
        assert re.fullmatch(rf"\d+(y|yo)?{facts.sex}", sexed)
        assert re.match(r"\d+ ?y", cast.value("age.years").text)


def test_held_out_notes_keep_to_their_own_names() -> None:
    styles = HELD_OUT_STYLES["en"]
    listed = {*words("en/surnames")}
    names = [
        document.text[span.start : span.end]
        for document in synthetic_notes(200, seed=6, language="en", styles=styles)
        for span in document.spans
        if span.label == IDENTIFIER
    ]
    assert len(names) > 100
    for name in names:
        last = name.split(",")[0] if "," in name else name.split()[-1]
        assert set(last.split("-")) <= listed
