"""A copy that is held to its note: every choice of tokens copies the note, whatever tokens hold."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import transformers

from audit.deid.find.causal_model import encode_text, load_causal, make_tagger
from audit.deid.find.held_copy import CopyRule, spell_tags, spell_tokens
from audit.deid.find.tagger_facts import GenerativeFacts
from audit.notes.formats import MAX_SPAN_CHARS, scan_tags
from audit.notes.spans import TYPES, Span, TaggedDocument
from benchmarks.demo_causal import train_tokenizer
from tests.deid.generation.tiny_model import character_tokenizer, write_model
from tests.models import make_causal

TEXT = "Ann Li, 52, saw Dr. Bo <5 mg> on 5/3.\n氏名：足立 志保　様\n\n  “Ⅻ” 👩🏽‍⚕️ <identifier>x"
TAGGED = [
    "<identifier>Ann Li</identifier>, <quasi_identifier>52</quasi_identifier>, 足立",
    "saw Dr. <identifier>Bo</identifier><contact>5/3</contact>.",
]


def byte_pairs(folder: Path) -> Any:
    """A byte-level BPE that was trained on tags, so that its tokens cross their borders."""
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=train_tokenizer(TAGGED * 9, n_vocabulary=600), eos_token="</s>"
    )


def from_files(write: Any) -> Any:
    def make(folder: Path) -> Any:
        write(folder)
        return transformers.AutoTokenizer.from_pretrained(folder)

    return make


def unigram(folder: Path, *, has_bytes: bool = True) -> Any:
    """A Unigram model; without bytes it knows no Han character but those of the tags."""
    if has_bytes:
        make_causal.write_unigram(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    else:
        signs = sorted({*"".join(TAGGED), *"▁<>/_,.", *map(chr, range(0x61, 0x7B))} - {" "})
        pieces = ["<unk>", "</s>", "▁saw", "▁<", "er>,", *signs]
        inner = tokenizers.Tokenizer(
            tokenizers.models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0)
        )
        inner.normalizer = tokenizers.normalizers.NFKC()
        tokenizer = transformers.PreTrainedTokenizerFast(
            tokenizer_object=inner, eos_token="</s>", unk_token="<unk>"
        )
    decoders = [tokenizers.decoders.ByteFallback(), tokenizers.decoders.Metaspace()]
    tokenizer.backend_tokenizer.decoder = tokenizers.decoders.Sequence(decoders)
    return tokenizer


MAKERS = {
    "byte pairs": byte_pairs,
    "characters": lambda folder: character_tokenizer(),
    "byte fallback": from_files(make_causal.write_llama2),
    "byte level": from_files(make_causal.write_gpt2_files),
    "unigram": unigram,
    "unigram without bytes": lambda folder: unigram(folder, has_bytes=False),
}


def rule_of(tokenizer: Any, text: str, *, language: str = "en") -> CopyRule:
    spelling = spell_tokens(tokenizer)
    assert spelling
    tags = spell_tags(spelling, TYPES, language=language)
    assert tags
    return CopyRule(spelling, text, TYPES, tags)


def draw_copy(rule: CopyRule, *, seed: int) -> list[int]:
    """Write a copy by drawing among the allowed tokens until the copy is whole."""
    dice, copy, tokens = random.Random(seed), rule.begin(), list[int]()
    while not (copy.is_whole and dice.random() < 0.7):
        allowed = copy.list_tokens()
        if not allowed:
            assert copy.is_whole
            break
        tokens.append(dice.choice(allowed))
        copy.take(tokens[-1])
        assert len(tokens) < 5000
    return tokens


@pytest.mark.parametrize("name", MAKERS)
def test_whatever_is_chosen_is_a_copy_of_the_note(name: str, tmp_path: Path) -> None:
    language = "ja" if name == "characters" else "en"
    rule = rule_of(MAKERS[name](tmp_path), TEXT, language=language)
    n_tags = 0
    for seed in range(30):
        scanned = rule.read(draw_copy(rule, seed=seed)).scanned
        assert scanned.plain == TEXT
        assert scanned.census["n_tags"] == len(scanned.spans)
        ends = [0, *(span.end for span in scanned.spans)]
        for span, end in zip(scanned.spans, ends, strict=False):
            assert end <= span.start and span.n_chars <= MAX_SPAN_CHARS
            assert TEXT[span.start : span.end].strip() and span.label in TYPES
        n_tags += len(scanned.spans)
    assert n_tags > 30


def test_tokens_that_cross_the_border_of_a_tag_are_allowed(tmp_path: Path) -> None:
    tokenizer = byte_pairs(tmp_path)
    rule = rule_of(tokenizer, "Ann Li, 52, saw Dr. Bo")
    for text in (
        "<identifier>Ann Li</identifier>, <quasi_identifier>52</quasi_identifier>, saw Dr. Bo",
        "Ann Li, 52, saw Dr. <identifier>Bo</identifier>",
    ):
        tokens = encode_text(tokenizer, text)
        crossing = [rule.spelling.bytes_of[token] for token in tokens]
        assert (
            any(b">" in content and content[-1:].isalpha() for content in crossing)
            or any(content.endswith(b"<") and content != b"<" for content in crossing)
            or any(b"><" in content or b">," in content for content in crossing)
        )
        copy = rule.begin()
        for token in tokens:
            assert token in copy.list_tokens() and not copy.is_whole
            copy.take(token)
        assert copy.is_whole
        assert copy.scanned().plain == rule.text
        assert copy.scanned().spans == scan_tags(text).spans
    copy = rule.begin()
    allowed = {rule.spelling.bytes_of[token] for token in copy.list_tokens()}
    assert {b"A", b"<", b" "} <= allowed
    assert not any(content.startswith((b"B", b"</", b"<A")) for content in allowed)


def test_a_tag_is_not_empty_and_ends_within_the_longest_span() -> None:
    text = "森" * (MAX_SPAN_CHARS + 5)
    tokenizer = character_tokenizer()
    rule = rule_of(tokenizer, text, language="ja")
    copy = rule.begin()
    for token in encode_text(tokenizer, "<識別子>"):
        copy.take(token)
    (next_token,) = encode_text(tokenizer, "森")
    assert copy.list_tokens() == [next_token], "no empty tag"
    for _ in range(MAX_SPAN_CHARS):
        assert next_token in copy.list_tokens()
        copy.take(next_token)
    assert copy.list_tokens() == encode_text(tokenizer, "<"), "it must be closed"
    scanned = copy.scanned()
    assert scanned.census["n_unclosed"] == 1
    assert scanned.spans == (Span(0, MAX_SPAN_CHARS, "identifier"),)


def test_tokens_that_do_not_make_up_the_text_hold_no_copy() -> None:
    tokenizer = character_tokenizer()
    assert spell_tags(rule_of(tokenizer, "", language="ja").spelling, TYPES, language="en") is None
    tokenizer.backend_tokenizer.decoder = tokenizers.decoders.WordPiece()
    assert spell_tokens(tokenizer) is None


def test_a_sentence_that_the_model_would_have_left_goes_to_the_fallback(tmp_path: Path) -> None:
    """A model with random weights copies nothing by itself, so nothing counts as copied."""
    loaded = load_causal(write_model(tmp_path / "m"), device="cpu")
    tagger = make_tagger(loaded, GenerativeFacts(model=loaded.digest, max_tokens=512))
    (reading,) = tagger.read([TaggedDocument("n", "森様。 受診")])
    assert reading.document.text == "森様。 受診"
    assert reading.status in ("exact", "truncated")
    assert reading.uncopied[0].start == 0
    assert tagger.digest != make_tagger(loaded, tagger.facts, is_free=True).digest


def test_a_wrong_token_is_repaired_by_the_note_s_own(tmp_path: Path) -> None:
    tokenizer = byte_pairs(tmp_path)
    text = "Ann Li, 52, saw Dr. Bo"
    ids = encode_text(tokenizer, text)
    rule = replace(rule_of(tokenizer, text), note_tokens=tuple(ids))
    copy = rule.begin()
    wrong, tag = (encode_text(tokenizer, piece)[0] for piece in ("x", "<"))
    for token in ids:
        allowed = copy.list_tokens()
        assert wrong not in allowed
        assert copy.find_repair(wrong, allowed) == token
        assert copy.find_repair(tag, allowed) is None, "a tag is no slip of the copy"
        copy.take(token)
    assert copy.is_whole
    mixed = rule.begin()
    for token in encode_text(tokenizer, "<identifier>"):
        mixed.take(token)
    assert mixed.find_repair(wrong, mixed.list_tokens()) == ids[0]
