"""Synthetic notes: gold that is exact and complete, the same for a seed, nothing gold in traps."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.rules import RuleTagger
from audit.deid.synthetic import HELD_OUT_STYLES, TRAIN_STYLES, people, styles_of, synthetic_notes
from audit.deid.synthetic.grammar import Choice, Template, Value, grammar
from audit.notes.spans import (
    CONTACT,
    IDENTIFIER,
    PERSONAL_ID_CODE,
    QUASI_IDENTIFIER,
    TYPES,
    Span,
    TaggedDocument,
)

LANGUAGES = ("ja", "en")
_WIDE = str.maketrans("０１２３４５６７８９", "0123456789")


def _notes(language: str, n: int = 400, *, seed: int = 3) -> list[TaggedDocument]:
    return list(synthetic_notes(n, seed=seed, language=language, styles=styles_of(language)))


def _values(document: TaggedDocument) -> Iterator[tuple[str, Span]]:
    for span in document.spans:
        yield document.text[span.start : span.end], span


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**40), language=st.sampled_from(LANGUAGES))
def test_spans_stand_apart_and_hold_no_space_at_their_ends(seed: int, language: str) -> None:
    for document in _notes(language, 5, seed=seed):
        for before, after in zip(document.spans, document.spans[1:], strict=False):
            assert before.end <= after.start
        for value, span in _values(document):
            assert value == value.strip()
            assert "\n" not in value
            assert span.label in TYPES


def test_a_seed_gives_the_same_notes_and_another_seed_others() -> None:
    for language in LANGUAGES:
        first = _notes(language, 60)
        assert first == _notes(language, 60)
        assert first[:20] == _notes(language, 20)
        texts = {document.text for document in first}
        assert not texts & {document.text for document in _notes(language, 60, seed=4)}


def test_another_process_gives_the_same_notes() -> None:
    script = (
        "import hashlib, sys\n"
        "from audit.deid.synthetic import synthetic_notes\n"
        "notes = list(synthetic_notes(30, seed=5))\n"
        "assert not {'torch', 'faker', 'transformers', 'streamlit'} & set(sys.modules)\n"
        "print(hashlib.sha256(repr(notes).encode()).hexdigest())\n"
    )
    answers = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            check=True,
            text=True,
            env={"PYTHONHASHSEED": hash_seed},
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert len(answers) == 1


@pytest.mark.parametrize(
    ("pattern", "label"),
    [
        (r"\d+ ?[歳才](?!以上|未満|代に好発|にピ)", QUASI_IDENTIFIER),
        (r"(?:男性|女性|男児|女児)(?!ホルモン|化|に多い)", QUASI_IDENTIFIER),
        (r"(?:令和|平成|昭和) ?(?:元|\d+) ?年", QUASI_IDENTIFIER),
        (r"(?:19|20)\d\d年\d+月\d+日", QUASI_IDENTIFIER),
        (r"[a-z0-9._]+@[a-z.]*example\.[a-z]+", CONTACT),
        (r"0[789]0-\d{4}-\d{4}", CONTACT),
        (r"(?<=〒)\d{3}-\d{4}", QUASI_IDENTIFIER),
        (r"(?:市民病院|赤十字病院|医師会病院)", QUASI_IDENTIFIER),
    ],
)
def test_no_value_of_a_known_shape_is_left_out(pattern: str, label: str) -> None:
    n = 0
    for document in _notes("ja", 800):
        for match in re.finditer(pattern, document.text.translate(_WIDE)):
            n += 1
            found = [s for s in document.spans if s.start <= match.start() and match.end() <= s.end]
            assert [span.label for span in found] == [label], match.group()
    assert n > 5


def test_titles_stay_outside_of_names() -> None:
    n = 0
    for document in _notes("ja", 600):
        for value, span in _values(document):
            if span.label != IDENTIFIER:
                continue
            assert not value.endswith(("様", "殿", "さん", "先生", "氏", "医師", "さま"))
            n += document.text[span.end : span.end + 2].strip().startswith(("様", "さ", "殿", "先"))
    assert n > 100


def test_the_rules_find_next_to_nothing_that_is_not_gold() -> None:
    tagger, n, spurious = RuleTagger(), 0, Counter[str]()
    for document in _notes("ja", 250):
        for span in tagger.tag([document.text])[0]:
            n += 1
            if not any(gold.overlap(span) for gold in document.spans):
                spurious[document.text[span.start : span.end]] += 1
    assert n > 1000
    assert sum(spurious.values()) < 0.02 * n, spurious.most_common(5)


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_five_types_occur(language: str) -> None:
    documents = list(synthetic_notes(1000, seed=8, language=language))
    share = {
        label: sum(any(span.label == label for span in d.spans) for d in documents) / 1000
        for label in TYPES
    }
    is_english = language == "en"
    assert (0.4 if is_english else 0.6) < share[IDENTIFIER] < 0.95
    assert (0.6 if is_english else 0.7) < share[QUASI_IDENTIFIER] < 0.99
    assert all(share[label] > 0.05 for label in TYPES)
    n_without = sum(not document.spans for document in documents)
    assert (230 if is_english else 50) < n_without < (360 if is_english else 250)
    held_out = synthetic_notes(400, seed=8, language=language, styles=HELD_OUT_STYLES[language])
    assert {span.label for document in held_out for span in document.spans} == set(TYPES)


def test_some_notes_are_of_one_line_and_some_are_long() -> None:
    lengths = [len(document.text) for document in synthetic_notes(1200, seed=1)]
    assert min(lengths) < 30
    assert max(lengths) > 3000
    assert len({d.text for d in synthetic_notes(1000, seed=1)}) > 985


@pytest.mark.parametrize("language", LANGUAGES)
def test_patients_have_one_name_in_all_of_their_notes(language: str) -> None:
    documents = _notes(language, 600)
    counted = Counter(document.patient_id for document in documents)
    assert 0.55 < len(counted) / len(documents) < 0.9
    assert max(counted.values()) >= 3


def _has_value(template: Template) -> bool:
    return any(
        isinstance(node, Value)
        or (isinstance(node, Choice) and any(_has_value(option) for option in node.options))
        for node in template
    )


def test_nothing_in_a_trap_is_gold() -> None:
    for language in LANGUAGES:
        names = [name for name in grammar(language) if name.startswith(("trap", "lab", "vital"))]
        assert len(names) >= 3
        for name in names:
            assert not any(_has_value(template) for template in grammar(language)[name])
        plain = synthetic_notes(200, seed=2, language=language, styles=["plain"])
        assert all(document.spans == () for document in plain)


def test_the_styles_are_as_many_as_promised() -> None:
    assert len(TRAIN_STYLES["ja"]) >= 14
    assert len(HELD_OUT_STYLES["ja"]) >= 3
    assert len(TRAIN_STYLES["en"]) >= 5
    assert len(HELD_OUT_STYLES["en"]) >= 2


def _phrases(text: str) -> set[str]:
    # What stands between slots, signs and breaks, if long enough to be somebody's own wording.
    body = "\n".join(line for line in text.splitlines() if not re.match(r"[=~#]", line))
    return {
        part for part in re.split(r"\{[^{}]*\}|[<>|、。\s：，（）()\\]", body) if len(part) >= 8
    }


def test_held_out_styles_share_no_sentence_with_those_for_training() -> None:
    folder = Path(people.__file__).with_name("ja")
    texts = {path.stem: path.read_text("utf-8") for path in folder.glob("notes_*.txt")}
    held_out = _phrases(texts["notes_held_out"])
    others = set().union(*(_phrases(t) for name, t in texts.items() if name != "notes_held_out"))
    assert len(held_out) > 50
    assert not held_out & others


@pytest.mark.parametrize("language", LANGUAGES)
def test_hardly_a_held_out_name_stands_in_the_training_notes(language: str) -> None:
    def names(styles: tuple[str, ...], n: int) -> list[str]:
        notes = synthetic_notes(n, seed=1, language=language, styles=styles)
        return [
            "".join(value.split())
            for document in notes
            for value, span in _values(document)
            if span.label == IDENTIFIER
        ]

    seen = set(names(TRAIN_STYLES[language], 2000))
    held_out = names(HELD_OUT_STYLES[language], 300)
    assert sum(name in seen for name in held_out) / len(held_out) < 0.06


def test_a_style_or_language_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="language"):
        styles_of("de")
    with pytest.raises(ValueError, match="style"):
        next(synthetic_notes(1, seed=0, styles=["novel"]))
    assert list(synthetic_notes(0, seed=0)) == []
    assert PERSONAL_ID_CODE in {s.label for d in _notes("ja", 300) for s in d.spans}
