"""Names in documents: whole words, both orders, and the same as a slow loop of regexes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.models.load import load_model
from audit.names.candidates import make_candidates
from audit.names.matching import count_lexicon_names, fold, name_hits, words
from tests.models.make_models import SPECIAL, WORDS, make_bert

quick = settings(deadline=None, max_examples=150)


def found(name: tuple[str, str], document: str) -> tuple[bool, bool]:
    """Whether either part, and whether the full name, is found in one document."""
    hits, full_hits = name_hits(make_candidates([name]), documents=[document])
    return bool(hits[0, 0]), bool(full_hits[0, 0])


@pytest.mark.parametrize(
    ("name", "document"),
    [
        (("Ann", "Lee"), "joanna leeds, annex; sleepless"),
        (("John", "Smith"), "smithson and johnson, blacksmith"),
        (("May", "Day"), "maybe monday"),
        (("Ann", "Lee"), "ann_lee"),
        (("Ann", "Lee"), "ann1 2lee"),
        (("John", "Smith"), ""),
        (("Mary Jo", "de la Cruz"), "mary went, jo stayed; de la rosa, la cruz"),
        (("Ann", "O'Brien"), "brien o, o' and brian"),
        (("Ann", "Smith-Jones"), "smith and jones, jones-smith"),
        (("", "Lee"), "no one of that name"),
        (("Mask", "Sep"), "[CLS] service : [MASK] is [UNK] [PAD] [SEP]"),
        (("S", "Mask"), "<s>service<mask><unk><pad></s>"),
    ],
)
def test_a_name_is_not_found_inside_other_words(name, document):
    assert found(name, document) == (False, False)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        (("John", "Smith"), "mr john smith was seen"),
        (("John", "Smith"), "JOHN SMITH"),
        (("john", "SMITH"), "John, Smith"),
        (("John", "Smith"), "(john) smith's"),
        (("José", "Núñez"), "jose nunez"),
        (("Jose", "Nunez"), "José Nu\u0301n\u0303ez"),
        (("Ｊｏｈｎ", "Smith"), "john ｓｍｉｔｈ"),
        (("Ann", "Strauß"), "ann STRAUSS"),
        (("Ann", "O'Brien"), "ann o ' brien"),
        (("Ann", "O'Brien"), "ann o\u2019brien"),
        (("Ann", "Smith-Jones"), "ann smith - jones"),
        (("Ann", "Smith Jones"), "ann smith-jones"),
        (("Mary Jo", "de la Cruz"), "mary jo de la cruz"),
        (("", "Lee"), "dr lee was"),
        (("Mask", "Lee"), "[MASK] mask lee"),
        (("花子", "山田"), "患者 は 山田 花子 さん"),
        (("花子", "山田"), "患者は山田花子さん"),
        (("ハナコ", "山田"), "山田ﾊﾅｺ"),
        (("はなこ", "山田"), "山 田\nは な こ"),
        (("ガク", "山田"), "山田カ\u3099ク"),
    ],
)
def test_a_name_is_found_as_written(name, document):
    assert found(name, document) == (True, True)


@pytest.mark.parametrize(
    ("name", "document"),
    [
        (("John", "Smith"), "smith john"),
        (("John", "Smith"), "john a smith"),
        (("John", "Smith"), "john [MASK] smith"),
        (("John", "Smith"), "john<mask>smith"),
        (("John", "Smith"), "only john here"),
        (("John", "Smith"), "only smith here"),
        (("John", "Smith"), "john smithson"),
        (("花子", "山田"), "花子山田"),
        (("花子", "山田"), "山田 [MASK] 花子"),
        (("花子", "山田"), "花子が"),
        (("ガク", "山田"), "山田カク"),  # a voicing mark is no accent
    ],
)
def test_a_part_alone_is_no_full_name(name, document):
    assert found(name, document) == (True, False)


def test_kana_of_another_voicing_is_another_name():
    assert found(("ハナ", ""), "バナナ") == (False, False)


def test_hits_count_documents_by_block_and_never_twice_in_one():
    names = make_candidates([("John", "Smith"), ("Anna", "Jones"), ("Mary", "John")])
    documents = ["nobody"] * 250
    documents[3] = "john john smith and john smith"
    documents[99] = "smith"
    documents[100] = "anna jones"
    documents[249] = "mary john"
    hits, full_hits = name_hits(names, documents=documents)
    # Blocks of one document up to 40, then of five: 99 ends the 12th of these, 249 the 42nd.
    assert hits.shape == full_hits.shape == (82, 3)
    expected = {3: [1, 0, 1], 51: [1, 0, 0], 52: [0, 1, 0], 81: [1, 0, 1]}
    assert {k: row.tolist() for k, row in enumerate(hits) if row.any()} == expected
    expected = {3: [1, 0, 0], 52: [0, 1, 0], 81: [0, 0, 1]}
    assert {k: row.tolist() for k, row in enumerate(full_hits) if row.any()} == expected
    documents[101] = "jones"  # of the same block
    assert name_hits(names, documents=documents)[0][52].tolist() == [0, 2, 0]


def test_no_document_has_no_block():
    hits, full_hits = name_hits(make_candidates([("John", "Smith")]), documents=[])
    assert hits.shape == full_hits.shape == (0, 1)


def test_word_pieces_are_joined_before_names_are_sought(tmp_path):
    tokenizer = load_model(make_bert(tmp_path / "bert")).tokenizer
    ids = [[(*SPECIAL, *WORDS).index(token) for token in row.split()] for row in (
        "[CLS] mr john smith ##son [SEP]",
        "[CLS] mr john smith [MASK] [SEP]",
        "[CLS] john ##a smith ##s [SEP]",
        "[CLS] mary o ' smith - jones [SEP]",
    )]  # fmt: skip
    texts = tokenizer.batch_decode(ids, clean_up_tokenization_spaces=False)
    names = make_candidates(
        [("John", "Smith"), ("John", "Smithson"), ("", "Smiths"), ("Mary", "O'Smith-Jones")]
    )
    per_document = [name_hits(names, documents=[text]) for text in texts]
    assert [hits[0].tolist() for hits, _ in per_document] == [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [1, 0, 0, 1],
    ]
    assert [full[0].tolist() for _, full in per_document] == [
        [0, 1, 0, 0],
        [1, 0, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
    ]


# --- the four counts ---


def counts(document: str, listed: list[tuple[str, str]] | None = None) -> tuple[int, ...]:
    found = count_lexicon_names(
        [document],
        first_names=["John", "Anna", "José", "James"],
        last_names=["Smith", "Jones", "James"],
        candidates=make_candidates(listed or [("Anna", "Jones")]),
    )
    return found.first, found.last, found.first_last, found.last_first, found.listed


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("john smith", (1, 1, 1, 0, 0)),
        ("smith john", (1, 1, 0, 1, 0)),
        ("ANNA Jones", (1, 1, 1, 0, 1)),
        ("jones, anna", (1, 1, 0, 1, 1)),
        ("jones anna jones", (1, 2, 1, 1, 2)),
        ("jose [MASK] smith", (1, 1, 0, 0, 0)),
        ("johnson smithy", (0, 0, 0, 0, 0)),
        ("james james", (2, 2, 1, 1, 0)),
        ("john smith anna", (2, 1, 1, 1, 0)),
    ],
)
def test_names_of_the_lexicon_are_counted_in_both_orders(document, expected):
    assert counts(document) == expected


def test_a_listed_name_of_two_equal_parts_is_counted_once():
    assert counts("james james", [("James", "James")])[-1] == 1


def test_no_pair_reaches_over_two_documents():
    found = count_lexicon_names(
        ["mr john", "smith was"], first_names=["John"], last_names=["Smith"],
        candidates=make_candidates([("John", "Smith")]),
    )  # fmt: skip
    assert (found.first, found.last, found.first_last, found.listed) == (1, 1, 0, 0)
    assert found.n_documents == 2


# --- a slow loop ---


def part_pattern(part: str) -> str:
    return r"[\W]+".join(map(re.escape, words(part)))


def slow_hit(name: tuple[str, str], document: str) -> tuple[bool, bool]:
    text = fold(document)
    patterns = [part_pattern(part) for part in name]
    either = any(re.search(rf"(?<!\w){p}(?!\w)", text) for p in patterns)
    both = re.search(rf"(?<!\w){patterns[0]}\W+{patterns[1]}(?!\w)", text)
    return either or bool(both), bool(both)


PARTS = ["Ann", "Anna", "Joanna", "Lee", "O'Lee", "Ann Lee", "Anna-Lee", "José", "Li", "Lee Ann"]
DOCUMENT_WORDS = [
    "ann", "Anna", "JOANNA", "lee", "leeds", "o", "'", "-", "jose", "José", "li", ".", "o'lee",
    "anna-lee", "annlee",
]  # fmt: skip


@quick
@given(
    names=st.lists(
        st.tuples(st.sampled_from(PARTS), st.sampled_from(PARTS)), min_size=1, max_size=6
    ),
    documents=st.lists(
        st.lists(st.sampled_from(DOCUMENT_WORDS), max_size=12).map(" ".join), max_size=4
    ),
)
def test_hits_equal_a_loop_of_regexes(names, documents):
    hits, full_hits = name_hits(make_candidates(names), documents=documents)
    slow = [[slow_hit(name, document) for name in names] for document in documents]
    total = np.array(slow, dtype=float).reshape(len(documents), len(names), 2).sum(axis=0)
    np.testing.assert_array_equal(hits.sum(axis=0), total[:, 0])
    np.testing.assert_array_equal(full_hits.sum(axis=0), total[:, 1])


FIRSTS, LASTS = ("ann", "lee", "jose"), ("lee", "li", "ann")


@quick
@given(
    document=st.lists(
        st.sampled_from(["ann", "LEE", "josé", "li", "leeds", "."]), max_size=15
    ).map(" ".join),
    listed=st.lists(
        st.tuples(st.sampled_from(FIRSTS), st.sampled_from(LASTS)),
        unique=True, min_size=1, max_size=3,
    ),
)  # fmt: skip
def test_lexicon_counts_equal_a_loop_over_pairs(document, listed):
    found = count_lexicon_names(
        [document], first_names=FIRSTS, last_names=LASTS, candidates=make_candidates(listed)
    )
    n_forward = n_backward = n_listed = 0
    text = words(document)
    for i in range(len(text) - 1):
        pair = (text[i], text[i + 1])
        n_forward += pair[0] in FIRSTS and pair[1] in LASTS
        n_backward += pair[0] in LASTS and pair[1] in FIRSTS
        for name in listed:
            n_listed += pair == name or pair == name[::-1]
    assert found.first == sum(text.count(name) for name in FIRSTS)
    assert found.last == sum(text.count(name) for name in LASTS)
    assert (found.first_last, found.last_first, found.listed) == (n_forward, n_backward, n_listed)
