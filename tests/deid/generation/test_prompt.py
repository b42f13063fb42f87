"""What the model is asked: tokens part by part, plain or by the model's chat template."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing

from audit.deid.generative.model import SYSTEM, answer_text, frame_of, text_ids
from audit.errors import AuditError
from tests.deid.generation.tiny_model import character_tokenizer


def text_of(tokenizer, ids) -> str:  # type: ignore[no-untyped-def]
    return tokenizer.decode(ids, clean_up_tokenization_spaces=False)


def test_the_instruction_is_the_paper_s() -> None:
    papers = Path(__file__).parents[4] / "shared" / "papers"
    found = list(papers.glob("002_*.txt"))
    if not found:
        pytest.skip("the paper is not here")
    assert SYSTEM["ja"] in found[0].read_text("utf-8")


def test_a_model_without_a_template_gets_the_plain_frame() -> None:
    tokenizer = character_tokenizer()
    frame = frame_of(tokenizer, language="ja")
    prompt = frame.prompt(text_ids(tokenizer, "森様\n"))
    expected = (
        "以下の診療テキストから個人識別情報を抽出してください。\n\n### 入力:\n森様\n\n\n### 出力:\n"
    )
    assert text_of(tokenizer, prompt) == expected
    assert (frame.tail, frame.stops) == ((2,), (2,))
    assert frame.n_tokens == len(prompt) - 3 + 1


def test_a_tokenizer_that_begins_texts_with_a_token_does_so_here() -> None:
    tokenizer = character_tokenizer()
    assert frame_of(tokenizer, language="en").head[0] != tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    frame = frame_of(tokenizer, language="en")
    assert frame.head[0] == tokenizer.bos_token_id
    assert text_of(tokenizer, frame.middle) == "\n\n### Output:\n"


def test_a_chat_template_is_used_and_does_not_trim_the_note() -> None:
    tokenizer = character_tokenizer(with_chat=True)
    frame = frame_of(tokenizer, language="ja")
    note = text_ids(tokenizer, " 森 \n")
    expected = f"<|system|>{SYSTEM['ja']}<|end|><|user|> 森 \n<|end|><|assistant|>"
    assert text_of(tokenizer, frame.prompt(note)) == expected
    assert text_of(tokenizer, frame.tail) == "<|end|>"
    end, eos = tokenizer.convert_tokens_to_ids("<|end|>"), tokenizer.eos_token_id
    assert frame.stops == tuple(sorted((end, eos)))


def test_a_template_without_a_system_turn_gets_all_in_one() -> None:
    tokenizer = character_tokenizer(with_chat=True)
    tokenizer.chat_template = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
        + tokenizer.chat_template
    )
    frame = frame_of(tokenizer, language="en")
    assert text_of(tokenizer, frame.head) == f"<|user|>{SYSTEM['en']}\n\n"


def test_a_template_that_takes_no_text_is_refused() -> None:
    tokenizer = character_tokenizer(with_chat=True)
    tokenizer.chat_template = "{{ 'hello' }}"
    with pytest.raises(AuditError, match="chat template"):
        frame_of(tokenizer, language="ja")


def test_a_tokenizer_without_an_end_is_refused() -> None:
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(AuditError, match="no token that ends"):
        frame_of(tokenizer, language="ja")


def test_a_note_cannot_speak_in_special_tokens() -> None:
    tokenizer = character_tokenizer(with_chat=True)
    special = {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|end|>")}
    ids = text_ids(tokenizer, "a</s>b<|end|>")
    assert not special & set(ids)
    assert len(ids) == len("a</s>b<|end|>")


def test_text_comes_back_and_half_a_pair_does_no_harm() -> None:
    tokenizer = character_tokenizer()
    text = "氏名: 足立志保 \n  <識別子>森</識別子> , ."
    known = "".join(c for c in text if c not in ",.")
    assert answer_text(tokenizer, text_ids(tokenizer, known)) == known
    assert len(text_ids(tokenizer, "a\ud83db")) == 3
