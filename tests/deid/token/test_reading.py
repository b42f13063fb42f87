"""Offsets: tokens stand where they stand in the source text, whatever a tokenizer makes of it."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from audit.deid.network.decode import (
    KINDS,
    Characters,
    TokenizerReader,
    characters_from_json,
    characters_of,
    kind_of_character,
    places_of,
    plain,
    runs_of,
    spans_of,
)
from audit.errors import AuditError
from audit.notes.spans import Span

NASTY = "𠮷野家　㌔㍿①\r\nＡＢＣ ｱﾞé\u0301 \ud83d x😀山田\u3000太郎\tｶﾞ\u200d"
TEXTS = st.text(st.sampled_from(NASTY + "abc 12"), max_size=30) | st.text(max_size=20)


def wordpiece() -> TokenizerReader:
    signs = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    pieces = [*string.ascii_lowercase, *string.digits, "山", "田", "太", "郎", "##郎", "##b", "キ"]
    vocabulary = {sign: i for i, sign in enumerate([*signs, *pieces])}
    inner = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    inner.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.BertNormalizer(handle_chinese_chars=True)]
    )
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return reader_of(inner, pad="[PAD]", unk="[UNK]")


def metaspace() -> TokenizerReader:
    pieces = [("<pad>", 0.0), ("<unk>", 0.0), ("▁", -2.0), *((c, -3.0) for c in "abc12山田太郎"),
              ("▁ab", -2.5), ("山田", -2.5)]  # fmt: skip
    inner = Tokenizer(models.Unigram(pieces, unk_id=1))
    inner.normalizer = normalizers.NFKC()
    inner.pre_tokenizer = pre_tokenizers.Metaspace()
    return reader_of(inner, pad="<pad>", unk="<unk>")


def byte_level() -> TokenizerReader:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<pad>": 0, **{char: i for i, char in enumerate(alphabet, start=1)}}
    inner = Tokenizer(models.BPE(vocabulary, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return reader_of(inner, pad="<pad>", unk=None)


def reader_of(inner: Tokenizer, *, pad: str, unk: str | None) -> TokenizerReader:
    return TokenizerReader.of(
        PreTrainedTokenizerFast(tokenizer_object=inner, pad_token=pad, unk_token=unk)
    )


CHARACTERS = characters_of([NASTY, string.printable], n_most=500, n_times=1)
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


def cuts(text: str, at: int) -> bool:
    """Whether a place lies inside a word of Latin letters or a number."""
    if not 0 < at < len(text):
        return False
    units = [KINDS[kind_of_character(char)].replace("capital", "small letter")
             for char in text[at - 1 : at + 1]]  # fmt: skip
    return units[0] == units[1] and units[0] in ("small letter", "digit")


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.data())
def test_spans_that_cut_no_word_come_back_from_characters_exactly(text, data):
    (tokens,) = CHARACTERS.read([text])
    spans, at = [], 0
    while at < len(text):
        start = at + data.draw(st.integers(0, 3))
        end = start + data.draw(st.integers(1, 5))
        if end > len(text):
            break
        part = text[start:end]
        if part == part.strip() and not (cuts(text, start) or cuts(text, end)):
            spans.append(Span(start, end, "x"))
        at = end
    runs = runs_of(spans, tokens=tokens)
    assert spans_of(runs, tokens=tokens) == tuple(spans)


@pytest.mark.parametrize("name", READERS)
def test_a_name_between_line_ends_and_wide_spaces_comes_back(name):
    text = "x\r\n　山田　太郎　\r\n12 𠮷 山田"
    spans = [Span(4, 9, "x"), Span(text.rindex("山"), len(text), "y")]
    (tokens,) = READERS[name].read([text])
    assert list(spans_of(runs_of(spans, tokens=tokens), tokens=tokens)) == spans


def test_a_character_that_becomes_two_goes_to_one_span():
    (tokens,) = READERS["wordpiece"].read(["㌔"])
    assert len(places_of(tokens)) >= 1
    found = spans_of([(0, 1, "x"), (1, 2, "y")], tokens=tokens[:1].repeat(2))
    assert found == (Span(0, 1, "x"),)


def test_special_tokens_are_asked_of_the_tokenizer():
    assert (READERS["wordpiece"].prefix, READERS["wordpiece"].suffix) == ((2,), (3,))
    assert (READERS["bytes"].prefix, READERS["bytes"].suffix) == ((), ())
    with pytest.raises(AuditError, match="where its tokens stand"):
        TokenizerReader.of(object())


def test_what_is_unknown_keeps_its_kind():
    reader = Characters("".join(sorted("abc1山")))
    (tokens,) = reader.read(["山鷗Ａ\u3000𠮷ｶ9\n"])
    kinds = [KINDS[kind] for kind in tokens["kind"]]
    assert kinds == ["kanji", "kanji", "capital", "blank", "kanji", "katakana", "digit", "line end"]
    unknown = [reader.unknown_id] * 2
    assert tokens["id"][[1, 4]].tolist() == unknown and tokens["id"][0] != reader.unknown_id
    assert tokens["id"][2] == reader.read(["a"])[0]["id"][0]


def test_words_and_numbers_have_one_place_and_kanji_have_their_own():
    text = "Dr. Ｓmith 山田2024年x5"
    (tokens,) = CHARACTERS.read([text])
    placed = tokens[places_of(tokens)]
    places = [text[start:end] for start, end in zip(placed["start"], placed["end"], strict=True)]
    assert places == ["Dr", ".", "Ｓmith", "山", "田", "2024", "年", "x", "5"]


@given(st.characters())
def test_the_plain_form_is_its_own_plain_form(char):
    assert plain(plain(char)) == plain(char) and len(plain(char)) == 1
    assert 0 < kind_of_character(char) < len(KINDS)
    assert (kind_of_character(char) in (1, 2)) == char.isspace()


def test_a_vocabulary_comes_back_from_its_file_and_a_wrong_one_is_refused():
    reader = characters_of(["ab山\ud800Ａ"], n_most=10, n_times=1)
    assert reader.known == "ab山"
    assert characters_from_json(reader.to_json(), where="x") == reader
    for text in ("{}", "[", '{"version": 1, "kinds": [], "characters": "a"}'):
        with pytest.raises(AuditError, match="no vocabulary"):
            characters_from_json(text, where="x")
    for known in ("aa", "A"):
        with pytest.raises(ValueError, match="character"):
            Characters(known)
