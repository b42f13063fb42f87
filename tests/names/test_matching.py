"""Names in documents: whole words, both orders, and the same as a slow loop of regexes."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.names.candidates import make_candidates
from audit.names.matching import (
    NameIndex,
    PartIndex,
    count_lexicon_names,
    fold,
    fold_with_offsets,
    name_hits,
    pair_of,
    words,
)

JOHN, HANAKO, GAKU = ("John", "Smith"), ("花子", "山田"), ("ガク", "山田")


@pytest.mark.parametrize(
    ("name", "documents", "expected"),
    [
        # Whether either part is found, and the full name.
        (("Ann", "Lee"), ["joanna leeds, annex; sleepless", "ann_lee", "ann1 2lee"], (0, 0)),
        (("Mask", "Sep"), ["[CLS] service : [MASK] is [UNK] [PAD] [SEP]"], (0, 0)),
        (("S", "Mask"), ["<s>service<mask><unk><pad></s>"], (0, 0)),
        (("ハナ", ""), ["バナナ"], (0, 0)),
        (JOHN, ["mr john smith was seen", "JOHN SMITH", "John, Smith", "(john) smith's"], (1, 1)),
        (("José", "Núñez"), ["jose nunez", "José Nu\u0301n\u0303ez"], (1, 1)),
        (("Ｊｏｈｎ", "Smith"), ["john ｓｍｉｔｈ"], (1, 1)),
        (("Ann", "Strauß"), ["ann STRAUSS"], (1, 1)),
        (("Ann", "O'Brien"), ["ann o ' brien", "ann o\u2019brien"], (1, 1)),
        (("Ann", "Smith-Jones"), ["ann smith - jones", "ann smith jones"], (1, 1)),
        (("Ann", "Smith Jones"), ["ann smith-jones"], (1, 1)),
        (("Mary Jo", "de la Cruz"), ["mary jo de la cruz"], (1, 1)),
        (("", "Lee"), ["dr lee was"], (1, 1)),
        (("Mask", "Lee"), ["[MASK] mask lee"], (1, 1)),
        (HANAKO, ["患者 は 山田 花子 さん", "患者は山田花子さん"], (1, 1)),
        (("ハナコ", "山田"), ["山田ﾊﾅｺ"], (1, 1)),
        (("はなこ", "山田"), ["山 田\nは な こ"], (1, 1)),
        (GAKU, ["山田カ\u3099ク"], (1, 1)),
        (JOHN, ["smith john", "john a smith", "john [MASK] smith", "john<mask>smith"], (1, 0)),
        (JOHN, ["only john here", "only smith here", "john smithson"], (1, 0)),
        (HANAKO, ["花子山田", "山田 [MASK] 花子", "花子が"], (1, 0)),
        (GAKU, ["山田カク"], (1, 0)),  # a voicing mark is no accent
    ],
)
def test_a_name_is_found_as_written_and_not_inside_other_words(
    name: tuple[str, str], documents: list[str], expected: tuple[int, int]
) -> None:
    for document in documents:
        hits, full_hits = name_hits(make_candidates([name]), documents=[document])
        assert (hits[0, 0], full_hits[0, 0]) == expected, document


def test_hits_count_documents_by_block_and_never_twice_in_one() -> None:
    names = make_candidates([JOHN, ("Anna", "Jones"), ("Mary", "John")])
    documents = ["nobody"] * 250
    documents[3] = "john john smith and john smith"
    documents[99] = "smith"
    documents[100], documents[101] = "anna jones", "jones"
    documents[249] = "mary john"
    hits, full_hits = name_hits(names, documents=documents)
    # Blocks of one document up to 40, then of five: 99 ends the 12th of these, 249 the 42nd.
    assert hits.shape == full_hits.shape == (82, 3)
    expected = {3: [1, 0, 1], 51: [1, 0, 0], 52: [0, 2, 0], 81: [1, 0, 1]}
    assert {k: row.tolist() for k, row in enumerate(hits) if row.any()} == expected
    expected = {3: [1, 0, 0], 52: [0, 1, 0], 81: [0, 0, 1]}
    assert {k: row.tolist() for k, row in enumerate(full_hits) if row.any()} == expected
    assert [one.shape for one in name_hits(names, documents=[])] == [(0, 3)] * 2


def slow_hit(name: tuple[str, str], document: str) -> tuple[bool, bool]:
    first, last = (r"[\W]+".join(map(re.escape, words(part))) for part in name)
    either, both_sides = (
        bool(re.search(rf"(?<!\w)(?:{pattern})(?!\w)", fold(document)))
        for pattern in (f"{first}|{last}", rf"{first}\W+{last}")
    )
    return either or both_sides, both_sides


PARTS = ["Ann", "Anna", "Joanna", "Lee", "O'Lee", "Ann Lee", "Anna-Lee", "José", "Li", "Lee Ann"]
DOCUMENT_WORDS = [
    "ann",
    "Anna",
    "JOANNA",
    "lee",
    "leeds",
    "o",
    "'",
    "-",
    "jose",
    "José",
    "li",
    ".",
    "o'lee",
    "anna-lee",
    "annlee",
    "LEE",
]
names_of = st.tuples(st.sampled_from(PARTS), st.sampled_from(PARTS))
document_of = st.lists(st.sampled_from(DOCUMENT_WORDS), max_size=14).map(" ".join)


@settings(max_examples=120)
@given(st.lists(names_of, min_size=1, max_size=6), st.lists(document_of, max_size=4))
def test_hits_equal_a_loop_of_regexes(names: list[tuple[str, str]], documents: list[str]) -> None:
    listed = make_candidates(names)
    slow = [[slow_hit(name, document) for name in names] for document in documents]
    total = np.array(slow, dtype=float).reshape(len(documents), len(names), 2).sum(axis=0)
    for place, hits in enumerate(name_hits(listed, documents=documents)):
        np.testing.assert_array_equal(hits.sum(axis=0), total[:, place])
    index = PartIndex(listed)
    for document in documents:
        terms = list(index.find_terms(document))
        places = list(index.find_places(document))
        assert sorted(terms) == sorted(term for _, _, term in places)
        for start, end, (extent, rows) in places:
            for row in rows:
                first, last = names[row]
                expected = (f"{first} {last}",) if extent == "full" else (first, last)
                place_text = " ".join(words(document[start:end]))
                assert place_text in [" ".join(words(form)) for form in expected]


FIRSTS, LASTS = ("ann", "lee", "jose"), ("lee", "li", "ann")


@settings(max_examples=120)
@given(
    document_of,
    st.lists(
        st.tuples(st.sampled_from(FIRSTS), st.sampled_from(LASTS)),
        unique=True,
        min_size=1,
        max_size=3,
    ),
)
def test_lexicon_counts_equal_a_loop_over_pairs(
    document: str, listed: list[tuple[str, str]]
) -> None:
    counts = count_lexicon_names(
        [document, "lee"],
        first_names=["Ann", "LEE", "José"],
        last_names=LASTS,
        candidates=make_candidates(listed),
    )
    text = words(document)
    near = list(pairwise(text))
    assert counts == {
        "first": sum(text.count(name) for name in FIRSTS) + 1,
        "last": sum(text.count(name) for name in LASTS) + 1,
        "first_last": sum(a in FIRSTS and b in LASTS for a, b in near),
        "last_first": sum(a in LASTS and b in FIRSTS for a, b in near),
        "listed": sum(name in (pair, pair[::-1]) for pair in near for name in listed),
        "n_documents": 2,
    }


def test_full_names_are_counted_in_all_their_ways_of_writing() -> None:
    index = NameIndex(
        firsts=["John", "Mary Jo", "花子", "花"], lasts=["Smith", "de la Cruz", "山田", "Ann"]
    )
    text = (
        "John Smith, JOHN A. SMITH; Smith, John. Also John de la Cruz; de la Cruz, Mary Jo. "
        "John A B Smith. 山田花子は山田 花と花子・山田、花子山田"
    )
    assert Counter(index.find_pairs(text)) == Counter(
        {
            ("john", "smith"): 3,
            ("john", "de la cruz"): 1,
            ("mary jo", "de la cruz"): 1,
            ("花子", "山田"): 2,
            ("花", "山田"): 1,
        }
    )
    assert pair_of("JOHN", "O'Neil") == ("john", "o neil")
    assert pair_of("ハナコ", "ﾔﾏﾀﾞ") == ("ハナコ", "ヤマダ")


@settings(max_examples=120)
@given(st.text("aÉe\u0301ｶﾞ ßﬁ\n山한", max_size=12))
def test_what_is_folded_is_known_by_its_place(text: str) -> None:
    folded, starts, ends = fold_with_offsets(text)
    assert folded == fold(text)
    assert len(folded) == len(starts) == len(ends)
    assert list(starts) == sorted(starts) and list(ends) == sorted(ends)
    assert all(
        fold(letter) in fold(text[a:b]) for letter, a, b in zip(folded, starts, ends, strict=True)
    )
    assert fold_with_offsets("Ab")[1:] == (range(2), range(1, 3))
