"""Synthetic notes: the same bytes for ever, gold that is exact, nothing gold in traps."""

from __future__ import annotations

import functools
import hashlib
import json
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import benchmarks.synthetic as synthetic
from audit.deid.given import annotated_notes
from audit.deid.rules import RuleTagger
from audit.deid.scoring import EXAMPLES
from audit.names.people import rules_of
from audit.notes.formats import write_jsonl
from audit.notes.spans import TYPES, Span, TaggedDocument
from benchmarks.synthetic import (
    HELD_OUT_STYLES,
    TRAIN_STYLES,
    example,
    grammar,
    in_turn,
    styles_of,
    synthetic_notes,
)
from benchmarks.synthetic.grammar import Choice, Dice, Piece, Reference, Value, Writer
from benchmarks.synthetic.notes import surfaced
from benchmarks.synthetic.people import EnglishCast, JapaneseCast, patient_facts

LANGUAGES = ("ja", "en")
CASTS = {"ja": JapaneseCast, "en": EnglishCast}
_WIDE = str.maketrans("０１２３４５６７８９．／♂♀", "0123456789./♂♀")


@functools.cache
def _notes(language: str, *, is_held_out: bool = False) -> tuple[TaggedDocument, ...]:
    styles = (HELD_OUT_STYLES if is_held_out else TRAIN_STYLES)[language]
    n = 400 if is_held_out else 3000
    return tuple(synthetic_notes(n, seed=6, language=language, styles=styles))


def _values(documents: tuple[TaggedDocument, ...]) -> Iterator[tuple[str, Span]]:
    return ((d.text[span.start : span.end], span) for d in documents for span in d.spans)


# The shipped tagger was trained on these notes and is measured on the held-out ones.
@pytest.mark.parametrize(
    ("language", "is_held_out", "digest"),
    [
        ("ja", False, "fa001a64c5f20721"),
        ("ja", True, "56ad385096b217d6"),
        ("en", False, "2e1eb4763b4c5246"),
        ("en", True, "37693e60d65e240b"),
    ],
)
def test_the_notes_of_a_seed_are_the_same_in_every_version(
    language: str, is_held_out: bool, digest: str
) -> None:
    record = [
        [d.doc_id, d.patient_id, d.text, [[s.start, s.end, s.label] for s in d.spans]]
        for d in _notes(language, is_held_out=is_held_out)
    ]
    assert hashlib.sha256(json.dumps(record).encode()).hexdigest()[:16] == digest


def test_notes_come_in_turn_and_the_example_is_the_one_that_is_shipped() -> None:
    made = list(in_turn(5, seed=1, languages=("ja", "en")))
    assert [one.doc_id[:3] for one in made] == ["ja/", "ja/", "ja/", "en/", "en/"]
    held_out = list(in_turn(5, seed=1, languages=("ja", "en"), is_held_out=True))
    assert {one.text for one in held_out}.isdisjoint(one.text for one in made)
    for language in LANGUAGES:
        assert not any(d.spans for d in synthetic_notes(200, seed=2, language=language,
                                                        styles=["plain"]))  # fmt: skip
    for language in HELD_OUT_STYLES:
        shipped = (EXAMPLES / f"{language}.jsonl").read_text(encoding="utf-8")
        assert shipped == write_jsonl(example(language))
        assert annotated_notes(EXAMPLES / f"{language}.jsonl").all() == list(example(language))


def test_another_process_gives_the_first_of_more_notes_and_needs_no_large_library() -> None:
    script = (
        "import hashlib, sys\n"
        "from benchmarks.synthetic import synthetic_notes\n"
        "notes = list(synthetic_notes(30, seed=5))\n"
        "assert not {'torch', 'faker', 'transformers', 'streamlit'} & set(sys.modules)\n"
        "print(hashlib.sha256(repr(notes).encode()).hexdigest())\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True,
        env={"PYTHONHASHSEED": "7"},
    ).stdout.strip()  # fmt: skip
    notes = list(synthetic_notes(60, seed=5))
    assert found == hashlib.sha256(repr(notes[:30]).encode()).hexdigest()
    assert not {d.text for d in notes} & {d.text for d in synthetic_notes(60, seed=4)}
    assert list(synthetic_notes(0, seed=0)) == []


@settings(max_examples=30)
@given(seed=st.integers(0, 2**40), language=st.sampled_from(LANGUAGES))
def test_spans_stand_apart_and_hold_no_space_at_their_ends(seed: int, language: str) -> None:
    for d in synthetic_notes(5, seed=seed, language=language, styles=styles_of(language)):
        assert all(one.end <= two.start for one, two in zip(d.spans, d.spans[1:], strict=False))
        for value, span in _values((d,)):
            assert value == value.strip() and "\n" not in value and span.label in TYPES


ID, QUASI, CODE, LINKAGE_CODE, CONTACT = TYPES


@pytest.mark.parametrize(
    ("language", "pattern", "label"),
    [
        # Values of a known shape: none is left out.
        ("ja", r"\d+ ?[歳才](?!以上|未満|代に好発|にピ)", QUASI),
        ("ja", r"(?:男性|女性|男児|女児)(?!ホルモン|化|に多い)", QUASI),
        ("ja", r"(?:令和|平成|昭和) ?(?:元|\d+) ?年", QUASI),
        ("ja", r"(?:19|20)\d\d年\d+月\d+日", QUASI),
        ("ja", r"[a-z0-9._]+@[a-z.]*example\.[a-z]+", CONTACT),
        ("ja", r"0[789]0-\d{4}-\d{4}", CONTACT),
        ("ja", r"(?<=〒)\d{3}-\d{4}", QUASI),
        ("ja", r"(?:市民病院|赤十字病院|医師会病院)", QUASI),
        # Words that look like identifiers and are none.
        ("en", r"(?m)^(?:Kind|Next|Consider|Gives|Aware)\b", ""),
        ("en", r"(?<= at )(?:0\d|1\d|2[0-3])[0-5]\d\b", ""),
        ("en", r"\b(?:Dr|Mr|Mrs|Miss)\b", ""),
        ("en", r"\b(?:Mon|Tues|Wed|Thurs|Fri|Sunday)\b", ""),
        ("en", r"\b(?:Kind regards|Best wishes|Many thanks)\b", ""),
        ("ja", r"\d+歳(?:以上|代に好発)", ""),
        ("ja", r"p\.\d+", ""),
        ("ja", r"第\d+病日", ""),
        ("ja", r"(?:当科|自宅|施設)で(?:フォロー|転倒|加療)", ""),
        ("ja", r"(?:職業|国籍|住所|フリガナ)[:：](?:記載なし|不明|空欄)", ""),
        ("ja", r"[一-龥]{2}[:：](?:良好|自立|全介助|見守り|不良)", ""),
        ("ja", r"[夫妻母父姉兄妹弟男女]の(?:希望|介護|協力|入院|仕事|都合|不安)", ""),
    ],
)
def test_a_shape_is_gold_everywhere_or_nowhere(language: str, pattern: str, label: str) -> None:
    n = 0
    for document in _notes(language):
        for match in re.finditer(pattern, document.text.translate(_WIDE)):
            n += 1
            spans = [s for s in document.spans if s.start < match.end() and match.start() < s.end]
            whole = [s.label for s in spans if s.start <= match.start() and match.end() <= s.end]
            assert whole == ([label] if label else []) and len(spans) == len(whole), match.group()
    assert n > 5


@pytest.mark.parametrize(
    ("language", "shape", "label"),
    [
        ("en", r"\d{2}(?:y|yo)?[MF]", QUASI),
        ("en", r"07700 ?900\d{3}", CONTACT),
        ("en", r"[A-Z]{2} \d\d \d\d \d\d [A-D]", CODE),
        ("en", r"SN\d{8}", LINKAGE_CODE),
        ("ja", r"\d{2}[♂♀MF]", QUASI),
        ("ja", r"[A-Z]・[A-Z]", QUASI),
        ("ja", r"(?:[1-9]|1[0-2])\.(?:[1-9]|[12]\d|3[01])", QUASI),
        ("ja", r"[ァ-ヴー]+・[ァ-ヴー]+・[ァ-ヴー]+", ID),
        ("ja", r"[一-龥]+(?:日赤|眼科|内科|医大)", QUASI),
    ],
)
def test_what_stands_without_a_cue_is_gold(language: str, shape: str, label: str) -> None:
    values = ((text.translate(_WIDE), span) for text, span in _values(_notes(language)))
    found = [span.label for text, span in values if re.fullmatch(shape, text)]
    assert len(found) > 5 and set(found) == {label}


def test_the_rules_find_next_to_nothing_that_is_not_gold() -> None:
    tagger, n, spurious = RuleTagger(), 0, Counter[str]()
    for document in _notes("ja")[:250]:
        for span in tagger.tag([document.text])[0]:
            n += 1
            if not any(gold.overlap(span) for gold in document.spans):
                spurious[document.text[span.start : span.end]] += 1
    assert n > 900
    assert sum(spurious.values()) < 0.02 * n, spurious.most_common(5)


@pytest.mark.parametrize("language", LANGUAGES)
def test_held_out_notes_have_their_own_names_and_sentences(language: str) -> None:
    def names(is_held_out: bool) -> list[str]:
        values = _values(_notes(language, is_held_out=is_held_out))
        return ["".join(value.split()) for value, span in values if span.label == ID]

    seen, held_out = set(names(False)), names(True)
    assert sum(name in seen for name in held_out) / len(held_out) < 0.06
    folder = Path(synthetic.__file__).with_name("ja")
    phrases = {path.stem: _phrases(path.read_text("utf-8")) for path in folder.glob("notes_*.txt")}
    own = phrases.pop("notes_held_out")
    assert len(own) > 50 and not own & set().union(*phrases.values())


def _phrases(text: str) -> set[str]:
    # What stands between slots, signs and breaks, if long enough to be somebody's own wording.
    body = "\n".join(line for line in text.splitlines() if not re.match(r"[=~#]", line))
    parts = re.split(r"\{[^{}]*\}|[<>|、。\s：，（）()\\]", body)
    return {part for part in parts if len(part) >= 8}


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="de: no notes in this language"):
        styles_of("de")
    for styles in (["novel"], []):
        with pytest.raises(ValueError, match="no such style"):
            next(synthetic_notes(1, seed=0, styles=styles))
    for language, kind in (("ja", "nobody"), ("en", "birth.nothing"), ("ja", "course.day.2")):
        facts = patient_facts(0, "somebody", language=language)
        with pytest.raises(ValueError, match="no such value"):
            CASTS[language](facts, seed=0, note="note").value(kind)


# Grammars


@pytest.mark.parametrize("text", ["<a|b", "a>b", "{a", "a}b", "{a b}", "{*a}", "{#1-}"])
def test_a_broken_alternative_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"bracket|braces|slot"):
        grammar.template_of(text)


def test_the_three_kinds_of_rules() -> None:
    text = "# words\n~ a\nx y\nz\n= b\none two\n# no\nthree\\nfour\n== c\nfirst\nline\n--\nsecond\n"
    assert dict(rules_of(text)) == {
        "a": ("x", "y", "z"),
        "b": ("one two", "three\nfour"),
        "c": ("first\nline", "second"),
    }
    for texts, why in ((["= a\nx", "= a\ny"], "twice"), (["= a\n= b\nx"], "no alternatives")):
        with pytest.raises(ValueError, match=why):
            grammar.grammar_of(texts)


def test_rules_without_an_end_are_refused() -> None:
    rules = grammar.grammar_of(["= a\n{a}"])
    with pytest.raises(ValueError, match="without an end"):
        Writer(rules, dice=Dice(0, "test"), value_of=Piece).write("a")


def _named(template: grammar.Template) -> Iterator[tuple[type, str]]:
    for node in template:
        if isinstance(node, Choice):
            for option in node.options:
                yield from _named(option)
        elif isinstance(node, Value | Reference):
            yield type(node), node.kind if isinstance(node, Value) else node.rule


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_shipped_grammar_is_whole(language: str) -> None:
    rules = grammar.grammar(language)
    named = {name: {n for t in templates for n in _named(t)} for name, templates in rules.items()}
    every = set().union(*named.values())
    asked = {name for kind, name in every if kind is Reference}
    assert asked <= rules.keys()
    reached = {name for name in rules if name in asked or name.rpartition(".")[0] in asked}
    unused = {name for name in rules.keys() - reached if not name.startswith(("style.", "held"))}
    assert unused == set()
    kinds = sorted(name for kind, name in every if kind is Value)
    assert len(kinds) > 30
    for seed in range(20):
        facts = patient_facts(seed, "somebody", language=language, is_wide=seed % 2 == 0)
        cast = CASTS[language](facts, seed=seed, note="note")
        for kind in kinds:
            piece = cast.value(kind)
            assert piece.text.strip() == piece.text != "" and piece.label in (*TYPES, "")
    traps = ("trap", "lab", "vital", *({"en": ("p.", "o.", "c."), "ja": ("p.", "n.")}[language]))
    plain = [named[name] for name in rules if name.startswith(traps)]
    personal = {"k.relative", "k.staff", "k.life", "k.who", "g.any", "g.life"}
    assert len(plain) > 8
    assert not any(kind is Value for found in plain for kind, _ in found)
    own = [named[name] for name in rules if name.startswith(traps[3:])]
    assert not any(name in personal for found in own for _, name in found)


PIECES = st.lists(
    st.builds(
        Piece,
        st.text("山田、。：（） 12.a\n", min_size=1, max_size=8),
        st.sampled_from((*TYPES, "")),
    ),
    max_size=12,
)


@settings(max_examples=150)
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
