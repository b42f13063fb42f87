"""Tokens stand where they do in the text; the best tags are those of a search through all."""

from __future__ import annotations

import itertools
import re
import string

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from audit.deid.network.decode import (
    KINDS,
    Characters,
    TagScheme,
    TokenizerReader,
    best_tags,
    characters_from_json,
    characters_of,
    places_of,
    runs_of,
    spans_of,
)
from audit.errors import AuditError
from audit.notes.spans import Span
from tests.deid.token.make_notes import reader_of, wordpiece

NASTY = "𠮷野家　㌔㍿①\r\nＡＢＣ ｱﾞé\u0301 \ud83d x😀山田\u3000太郎\tｶﾞ\u200d"
TEXTS = st.text(st.sampled_from(NASTY + "abc 12"), max_size=30) | st.text(max_size=20)
CHARACTERS = characters_of([NASTY, string.printable], n_most=500, n_times=1)
LABELS = ("x", "y")
SCHEME = TagScheme(LABELS)


def metaspace() -> TokenizerReader:
    pieces = [("<pad>", 0.0), ("<unk>", 0.0), ("▁", -2.0), *((c, -3.0) for c in "abc12山田太郎"),
              ("▁ab", -2.5), ("山田", -2.5)]  # fmt: skip
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


READERS = {"wordpiece": wordpiece(), "metaspace": metaspace(), "bytes": byte_level(),
           "characters": CHARACTERS}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60, deadline=None)
@given(text=TEXTS)
@example(text=NASTY)
@example(text="")
def test_tokens_lie_in_order_inside_the_text_and_begin_and_end_with_a_sign(name, text):
    (tokens,) = READERS[name].read([text])
    placed = tokens[places_of(tokens)]
    starts, ends = placed["start"], placed["end"]
    assert (starts[1:] >= starts[:-1]).all() and (ends[1:] >= ends[:-1]).all()
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        part = text[start:end]
        assert part == part.strip() and 0 <= start < end <= len(text)


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.data())
def test_spans_that_cut_no_unit_come_back_from_characters_exactly(text, data):
    (tokens,) = CHARACTERS.read([text])
    placed = tokens[places_of(tokens)]
    edges = sorted({*placed["start"].tolist(), *placed["end"].tolist()})
    cuts = data.draw(st.lists(st.sampled_from(edges), unique=True, max_size=6)) if edges else []
    spans = [Span(a, b, "x") for a, b in itertools.pairwise(sorted(cuts))
             if text[a:b] == text[a:b].strip()][::2]  # fmt: skip
    assert spans_of(runs_of(spans, tokens=tokens), tokens=tokens) == tuple(spans)


def test_what_shares_a_token_or_a_character_goes_to_the_first():
    (tokens,) = READERS["wordpiece"].read(["㌔"])
    found = spans_of([(0, 1, "x"), (1, 2, "y")], tokens=tokens[:1].repeat(2))
    assert found == (Span(0, 1, "x"),)
    (tokens,) = CHARACTERS.read(["Smith山"])
    runs = runs_of([Span(3, 5, "y"), Span(0, 2, "x"), Span(5, 6, "x")], tokens=tokens)
    assert runs == [(0, 1, "x"), (1, 2, "x")]
    assert spans_of(runs, tokens=tokens) == (Span(0, 5, "x"), Span(5, 6, "x"))


def test_special_tokens_are_asked_of_the_tokenizer():
    told = [(r.prefix, r.suffix, r.pad_id, r.unknown_id) for r in list(READERS.values())[:3]]
    assert told == [((2,), (3,), 0, 1), ((), (), 0, 1), ((), (), 0, 0)]
    with pytest.raises(AuditError, match="where its tokens stand"):
        TokenizerReader.of(object())


def test_what_is_unknown_keeps_its_kind_and_words_and_numbers_have_one_place():
    reader = Characters("".join(sorted("abc1山")))
    assert (reader.n_ids, reader.prefix, reader.suffix, reader.pad_id) == (9, (1,), (2,), 0)
    (tokens,) = reader.read(["山鷗Ａ\u3000𠮷ｶ9\n々あ.ªǅ\u200dü漢\u2028"])
    assert [KINDS[kind] for kind in tokens["kind"]] == [
        "kanji", "kanji", "capital", "blank", "kanji", "katakana", "digit", "line end", "kanji",
        "hiragana", "sign", "small letter", "capital", "other", "small letter", "kanji", "line end",
    ]  # fmt: skip
    assert tokens["id"].tolist() == [8, 3, 5] + [3] * 8 + [5] + [3] * 5
    text = "Dr. Ｓmith 山田2024年x5"
    (tokens,) = CHARACTERS.read([text])
    placed = tokens[places_of(tokens)]
    places = [text[start:end] for start, end in zip(placed["start"], placed["end"], strict=True)]
    assert places == ["Dr", ".", "Ｓmith", "山", "田", "2024", "年", "x", "5"]


@given(st.text(min_size=1, max_size=30))
def test_a_vocabulary_is_in_its_own_plain_form_and_knows_every_character(text):
    reader = characters_of([text], n_most=99, n_times=1)
    assert characters_of([reader.known], n_most=99, n_times=1) == reader
    (tokens,) = reader.read([text])
    is_lone = ["\ud800" <= char <= "\udfff" for char in text]
    is_wide = [char > "\uffff" for char in text]
    for number, char, *odd in zip(tokens["id"], text, is_lone, is_wide, strict=True):
        assert number > 3 or any(odd), char
    kinds = [KINDS[kind] for kind in tokens["kind"]]
    assert [kind in ("blank", "line end") for kind in kinds] == [char.isspace() for char in text]
    assert "none" not in kinds


def test_a_vocabulary_comes_back_from_its_file_and_a_wrong_one_is_refused():
    reader = characters_of(["ab山\ud800Ａ"], n_most=10, n_times=1)
    assert reader.known == "ab山"
    assert characters_of(["abbＢ", "Ａcc山"], n_most=2, n_times=2).known == "ab"
    assert characters_from_json(reader.to_json(), where="x") == reader
    for text in ("{}", "[", '{"version": 1, "kinds": [], "characters": "a"}', "[" * 100_000):
        with pytest.raises(AuditError, match="x: This is no vocabulary of characters"):
            characters_from_json(text, where="x")


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, str]]]:
    found, at = [], 0
    for _ in range(draw(st.integers(0, 4))):
        first = at + draw(st.integers(0, 3))
        end = first + draw(st.integers(1, 4))
        found.append((first, end, draw(st.sampled_from(LABELS))))
        at = end
    return at + draw(st.integers(0, 3)), found


def allowed(tags: tuple[int, ...]) -> bool:
    """What a scheme allows, said a second time."""
    told = "".join(f"{SCHEME.tags[tag]} " for tag in tags)
    return bool(re.fullmatch(r"(O |B-(\w) (I-\2 )*)*", told))


@given(runs())
def test_runs_come_back_from_their_tags_and_the_tags_are_allowed(given_runs):
    n, wanted = given_runs
    tags = SCHEME.encode(wanted, n_tokens=n)
    assert SCHEME.decode(tags) == wanted and len(tags) == n
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

    every = itertools.product(range(5), repeat=n)
    best = max(worth(tags) for tags in every if allowed(tags))
    (found,) = best_tags([scores], scheme=SCHEME, bias=bias)
    assert allowed(tuple(found.tolist()))
    assert worth(found.tolist()) == pytest.approx(best, abs=1e-9)


def test_a_long_text_without_a_find_stays_without_one_and_a_bias_finds_more():
    scores = np.zeros((30_000, 5), dtype=np.float32)
    scores[:, 0] = 1.0
    (none,) = best_tags([scores], scheme=SCHEME)
    empty, *many = best_tags([scores[:0]] + [scores[:500]] * 2, scheme=SCHEME, bias=1.5)
    assert not none.any() and not len(empty) and all((one == 1).all() for one in many)
