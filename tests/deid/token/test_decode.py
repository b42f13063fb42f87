"""Tokens stand where they do in the text; the best tags are those of a search through all."""

from __future__ import annotations

import itertools
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from audit.deid.find.network.decode import (
    FLAG,
    GAP,
    SHAPE,
    WORD,
    TagScheme,
    TokenizerReader,
    find_best_tags,
    find_placed_tokens,
    runs_to_spans,
    spans_to_runs,
)
from audit.deid.find.network.word_features import FLAGS, Words, words_from_json
from audit.deid.find.network.word_lists import make_words_reader
from audit.errors import AuditError
from audit.notes.spans import Span
from tests.deid.token.make_notes import reader_of, wordpiece

NASTY = "𠮷野家　㌔㍿①\r\nＡＢＣ ｱﾞé\u0301 \ud83d x😀山田\u3000太郎\tｶﾞ\u200d"
TEXTS = st.text(st.sampled_from(NASTY + "abc 12"), max_size=30) | st.text(max_size=20)
LISTS = {
    "first names": {"anna"},
    "places": {"lyon"},
    "Japanese surnames": {"山田", "長谷川"},
    "Japanese places": {"長谷"},
}
WORDS = Words({name: frozenset(words) for name, words in LISTS.items()})
LABELS = ("x", "y")
SCHEME = TagScheme(LABELS)


def metaspace() -> TokenizerReader:
    pieces = [
        ("<pad>", 0.0),
        ("<unk>", 0.0),
        ("▁", -2.0),
        *((c, -3.0) for c in "abc12山田太郎"),
        ("▁ab", -2.5),
        ("山田", -2.5),
    ]
    inner = Tokenizer(models.Unigram(pieces, unk_id=1))
    inner.normalizer, inner.pre_tokenizer = normalizers.NFKC(), pre_tokenizers.Metaspace()
    return reader_of(inner, pad="<pad>", unk="<unk>")


def byte_level() -> TokenizerReader:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<pad>": 0, **{char: i for i, char in enumerate(alphabet, start=1)}}
    inner = Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return reader_of(inner, pad="<pad>", unk=None)


READERS = {
    "wordpiece": wordpiece(),
    "metaspace": metaspace(),
    "bytes": byte_level(),
    "words": WORDS,
}


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example(text=NASTY)
@example(text="")
def test_tokens_lie_in_order_inside_the_text_and_begin_and_end_with_a_sign(name, text):
    (tokens,) = READERS[name].read([text])
    placed = tokens[find_placed_tokens(tokens)]
    starts, ends = placed["start"], placed["end"]
    assert (starts[1:] >= starts[:-1]).all() and (ends[1:] >= ends[:-1]).all()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        part = text[start:end]
        assert part == part.strip() and 0 <= start < end <= len(text)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.data())
def test_spans_that_cut_no_unit_come_back_from_words_exactly(text, data):
    (tokens,) = WORDS.read([text])
    placed = tokens[find_placed_tokens(tokens)]
    edges = sorted({*placed["start"].tolist(), *placed["end"].tolist()})
    cuts = data.draw(st.lists(st.sampled_from(edges), unique=True, max_size=6)) if edges else []
    spans = [
        Span(a, b, "x")
        for a, b in itertools.pairwise(sorted(cuts))
        if text[a:b] == text[a:b].strip()
    ][::2]
    assert runs_to_spans(spans_to_runs(spans, tokens=tokens), tokens=tokens) == tuple(spans)


def test_what_shares_a_token_or_a_character_goes_to_the_first():
    (tokens,) = READERS["wordpiece"].read(["㌔"])
    spans = runs_to_spans([(0, 1, "x"), (1, 2, "y")], tokens=tokens[:1].repeat(2))
    assert spans == (Span(0, 1, "x"),)
    (tokens,) = WORDS.read(["Smith山"])
    runs = spans_to_runs([Span(3, 5, "y"), Span(0, 2, "x"), Span(5, 6, "x")], tokens=tokens)
    assert runs == [(0, 1, "x"), (1, 2, "x")]
    assert runs_to_spans(runs, tokens=tokens) == (Span(0, 5, "x"), Span(5, 6, "x"))


def test_special_tokens_are_asked_of_the_tokenizer():
    special_tokens = [
        (r.prefix, r.suffix, r.pad_id, r.unknown_id) for r in list(READERS.values())[:3]
    ]
    assert special_tokens == [((2,), (3,), 0, 1), ((), (), 0, 1), ((), (), 0, 0)]
    with pytest.raises(AuditError, match="where its tokens stand"):
        TokenizerReader.from_tokenizer(object())


def list_flags(text: str) -> list[tuple[str, set[str]]]:
    """The tokens of a text, each with its flags."""
    (tokens,) = WORDS.read([text])
    flags = [
        {name for bit, name in enumerate(FLAGS) if ids[FLAG] >> bit & 1}
        for ids in tokens["id"].tolist()
    ]
    places = zip(tokens["start"], tokens["end"], strict=True)
    return [
        (text[start:end], token_flags)
        for (start, end), token_flags in zip(places, flags, strict=True)
    ]


def test_words_and_numbers_are_tokens_every_other_sign_is_one_and_blanks_are_none():
    text = "Dr. Ｓmith\u3000山田 2024年x5\n-"
    assert [token for token, _ in list_flags(text)] == [
        "Dr",
        ".",
        "Ｓmith",
        "山",
        "田",
        "2024",
        "年",
        "x",
        "5",
        "-",
    ]
    (tokens,) = WORDS.read([text])
    assert tokens["id"][:, GAP].tolist() == [4, 1, 2, 2, 1, 2, 1, 1, 1, 4]
    mixed_case, capitals = WORDS.read(["Smith", "SMITH"])
    assert mixed_case["id"][0, WORD] == capitals["id"][0, WORD] == tokens["id"][2, WORD]
    assert mixed_case["id"][0, SHAPE] == tokens["id"][2, SHAPE] != capitals["id"][0, SHAPE]
    assert tokens["id"].min() >= 0 and (tokens["id"][:, :SHAPE] > WORDS.unknown_id).all()


def test_lists_and_the_text_around_say_what_they_know_of_a_token():
    flags_of_tokens = list_flags("Anna of LYON 長谷川")
    assert [sorted(flags - {"text in Japanese"}) for _, flags in flags_of_tokens] == [
        ["first name"],
        [],
        ["place"],
        ["place begins", "surname begins"],
        ["place goes on", "surname goes on"],
        ["surname goes on"],
    ]
    assert all("text in Japanese" in flags for _, flags in flags_of_tokens)
    lines = dict(list_flags("PLAN: STOP\nthe plan is To"))
    assert lines["PLAN"] == {"elsewhere small", "line without small letters"}
    assert lines["STOP"] == {"line without small letters"} and lines["To"] == set()
    assert {"text without capitals"} == dict(list_flags("so all of it is small " * 3))["small"]


def test_lists_come_back_from_their_file_and_wrong_ones_are_refused():
    again = words_from_json(WORDS.to_json(), where="x")
    assert again.lists == WORDS.lists and len(make_words_reader().lists["surnames"]) > 10_000
    other_version = '{"version": 1, "kinds": [], "characters": "a"}'
    for text in ("{}", "[", other_version, "[" * 100_000):
        with pytest.raises(AuditError, match="x: This was written by another version"):
            words_from_json(text, where="x")


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, str]]]:
    drawn_runs, end_of_last = [], 0
    for _ in range(draw(st.integers(0, 4))):
        first = end_of_last + draw(st.integers(0, 3))
        end = first + draw(st.integers(1, 4))
        drawn_runs.append((first, end, draw(st.sampled_from(LABELS))))
        end_of_last = end
    return end_of_last + draw(st.integers(0, 3)), drawn_runs


def allowed(tags: tuple[int, ...]) -> bool:
    """What a scheme allows, said a second time."""
    names = "".join(f"{SCHEME.tags[tag]} " for tag in tags)
    return bool(re.fullmatch(r"(O |B-(\w) (I-\2 )*)*", names))


@given(runs())
def test_runs_come_back_from_their_tags_and_the_tags_are_allowed(given_runs):
    n, expected_runs = given_runs
    tags = SCHEME.encode(expected_runs, n_tokens=n)
    assert SCHEME.decode(tags) == expected_runs and len(tags) == n
    assert allowed(tuple(tags.tolist()))


@settings(max_examples=80, deadline=None)
@given(st.data(), st.floats(-2, 2))
def test_the_best_tags_are_those_of_a_search_through_all(data, bias):
    n = data.draw(st.integers(1, 4))
    numbers = st.integers(-40, 40).map(lambda i: i / 4)
    rows = st.lists(numbers, min_size=5, max_size=5)
    scores = np.array(data.draw(st.lists(rows, min_size=n, max_size=n)), dtype=np.float32)

    def worth(tags) -> float:
        return sum(float(scores[i, tag]) + (bias if tag else 0.0) for i, tag in enumerate(tags))

    all_tags = itertools.product(range(5), repeat=n)
    best = max(worth(tags) for tags in all_tags if allowed(tags))
    (best_tags,) = find_best_tags([scores], scheme=SCHEME, bias=bias)
    for batch_tags in find_best_tags([scores, scores], scheme=SCHEME, bias=bias):
        np.testing.assert_array_equal(batch_tags, best_tags)
    assert allowed(tuple(best_tags.tolist()))
    assert worth(best_tags.tolist()) == pytest.approx(best, abs=1e-9)


def test_a_long_text_without_a_find_stays_without_one_and_a_bias_finds_more():
    scores = np.zeros((30_000, 5), dtype=np.float32)
    scores[:, 0] = 1.0
    (none,) = find_best_tags([scores], scheme=SCHEME)
    empty, *many = find_best_tags([scores[:0]] + [scores[:500]] * 2, scheme=SCHEME, bias=1.5)
    assert not none.any() and not len(empty) and all((tags == 1).all() for tags in many)


def test_a_text_reads_the_same_beside_others_and_in_threads() -> None:
    texts = [f"Word{i} WORD{i // 2} {i} naïve {chr(97 + i % 26) * 3}" for i in range(300)]
    texts += ["Pt 준혁 stable.", "山田太郎", "", "\ud83d", "JOHN\njohn"]
    reader = make_words_reader()
    together = reader.read(texts)
    with ThreadPoolExecutor(4) as threads:
        alone = list(threads.map(lambda text: reader.read([text])[0], texts))
    for alone_tokens, batch_tokens in zip(alone, together, strict=True):
        np.testing.assert_array_equal(alone_tokens, batch_tokens)
