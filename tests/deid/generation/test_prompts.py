"""What the model is asked, in windows that fit, and what is trained on: tokens part by part."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from audit.deid.find.causal_model import (
    SYSTEM,
    compute_note_room,
    count_answer_tokens,
    cut_note,
    decode_answer,
    encode_text,
    make_frame,
)
from audit.deid.learn.tuning import Examples, make_examples
from audit.errors import AuditError
from audit.notes.formats import scan_tags
from audit.notes.spans import Span, TaggedDocument, build_document
from tests.deid.generation.tiny_model import character_tokenizer, documents


def text_of(tokenizer: Any, ids: Any) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def test_a_model_without_a_template_gets_the_plain_frame_with_the_paper_s_words() -> None:
    tokenizer = character_tokenizer()
    frame = make_frame(tokenizer, language="ja")
    prompt = frame.prompt(encode_text(tokenizer, "森様\n"))
    instruction = "以下の診療テキストから個人識別情報を抽出してください。"
    assert text_of(tokenizer, prompt) == f"{instruction}\n\n### 入力:\n森様\n\n\n### 出力:\n"
    assert (frame.tail, frame.stops, frame.n_tokens) == ((2,), (2,), len(prompt) - 3 + 1)
    # A tokenizer that begins texts with a token does so here.
    assert make_frame(tokenizer, language="en").head[0] != tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    frame = make_frame(tokenizer, language="en")
    assert frame.head[0] == tokenizer.bos_token_id
    assert text_of(tokenizer, frame.head[1:]) == f"{SYSTEM['en']}\n\n### Input:\n"
    assert text_of(tokenizer, frame.middle) == "\n\n### Output:\n"


@pytest.mark.parametrize("knows_system", [True, False])
def test_a_chat_template_is_used_and_does_not_trim_the_note(knows_system: bool) -> None:
    tokenizer = character_tokenizer(with_chat=True)
    if not knows_system:
        refusal = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
        tokenizer.chat_template = refusal + tokenizer.chat_template
    frame = make_frame(tokenizer, language="ja")
    head = f"<|system|>{SYSTEM['ja']}<|end|><|user|>"
    head = head if knows_system else f"<|user|>{SYSTEM['ja']}\n\n"
    prompt = frame.prompt(encode_text(tokenizer, " 森 \n"))
    assert text_of(tokenizer, prompt) == f"{head} 森 \n<|end|><|assistant|>"
    assert text_of(tokenizer, frame.tail) == "<|end|>"
    end, eos = tokenizer.convert_tokens_to_ids("<|end|>"), tokenizer.eos_token_id
    assert frame.stops == tuple(sorted((end, eos)))


def test_models_that_cannot_be_asked_are_refused() -> None:
    tokenizer = character_tokenizer(with_chat=True)
    tokenizer.chat_template = "{{ 'hello' }}"
    with pytest.raises(AuditError, match="chat template of this model does not take"):
        make_frame(tokenizer, language="ja")
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(AuditError, match="no token that ends a text"):
        make_frame(tokenizer, language="ja")


def test_a_note_cannot_speak_in_special_tokens_and_comes_back() -> None:
    tokenizer = character_tokenizer(with_chat=True)
    ids = encode_text(tokenizer, "a</s>b<|end|>")
    assert not {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|end|>")} & {*ids}
    assert len(ids) == len("a</s>b<|end|>")
    text = "氏名: 足立志保 \n  <識別子>森</識別子>  "
    assert decode_answer(tokenizer, encode_text(tokenizer, text)) == text
    assert decode_answer(tokenizer, [0, 1, *encode_text(tokenizer, "森"), 2]) == "森"
    assert len(encode_text(tokenizer, "a\ud83db")) == 3


def n_tokens(text: str) -> int:
    """Tokens of a tokenizer that spends three on a character that is no ASCII."""
    return sum(1 if char.isascii() else 3 for char in text)


@given(st.text("aあ\n。 ", max_size=400), st.integers(3, 60), st.integers(0, 50))
def test_windows_fit_and_hold_every_character(text: str, n_note: int, overlap: int) -> None:
    windows = cut_note(text, count_tokens=n_tokens, max_tokens=n_note, overlap=overlap)
    assert all(n_tokens(text[window.start : window.end]) <= n_note for window in windows)
    assert {i for window in windows for i in range(window.start, window.end)} == set(
        range(len(text))
    )
    if n_tokens(text) <= n_note:
        assert len(windows) == bool(text)


def test_room_by_hand() -> None:
    assert compute_note_room(1000, n_frame=35) == 300 == (1000 - 35 - 65) / 3
    assert compute_note_room(1000, n_frame=35, growth=1.25) == 400
    assert [
        count_answer_tokens(300),
        count_answer_tokens(1),
        count_answer_tokens(3, growth=1.5),
    ] == [664, 66, 69]
    assert compute_note_room(148, n_frame=35) == 16
    with pytest.raises(AuditError, match="A context of 147 tokens has no room for a note"):
        compute_note_room(147, n_frame=35)
    windows = cut_note("a" * 100, count_tokens=len, max_tokens=40, overlap=30)
    assert [(window.start, window.end) for window in windows] == [(0, 40), (30, 70), (60, 100)]
    with pytest.raises(AuditError, match="more tokens than a window"):
        cut_note("ああ", count_tokens=n_tokens, max_tokens=2, overlap=0)


def examples(
    notes: list[TaggedDocument], *, overlap: int = 10, n_note: int = 100
) -> tuple[Examples, Any, Any]:
    tokenizer = character_tokenizer()
    frame = make_frame(tokenizer, language="ja")
    all_examples = make_examples(
        notes,
        tokenizer=tokenizer,
        frame=frame,
        max_note_tokens=n_note,
        n_context=512,
        overlap=overlap,
        language="ja",
    )
    return all_examples, tokenizer, frame


def test_examples_by_hand() -> None:
    strange = build_document("x", text="<識別子> 森", spans=[Span(6, 7, "identifier")])
    unknown = build_document("y", text="鰻", spans=())
    crossing = [Span(0, 2, "identifier"), Span(0, 1, "quasi_identifier")]
    overlapping = build_document("z", text="森様", spans=crossing)
    all_examples, tokenizer, frame = examples(
        [documents()[1], strange, unknown, overlapping, documents()[2]]
    )
    notes = [
        text_of(tokenizer, row.prompt[len(frame.head) : -len(frame.middle)])
        for row in all_examples.rows
    ]
    assert notes == ["森様 52歳 電話03-1", "<unk>", "森様", "特記なし。"]
    assert [decode_answer(tokenizer, row.answer) for row in all_examples.rows] == [
        "<準識別子>森</準識別子>様 52歳 電話<連絡先情報>03-1</連絡先情報>",
        "",
        "<識別子>森様</識別子>",
        "特記なし。",
    ]
    for row in all_examples.rows:
        assert tuple(row.prompt[: len(frame.head)]) == frame.head
        assert tuple(row.prompt[-len(frame.middle) :]) == frame.middle
        assert row.answer[-1] == tokenizer.eos_token_id
    assert all_examples.labels == ("identifier", "quasi_identifier", "contact")
    assert all_examples.counts == {"n_notes": 5, "n_windows": 4, "n_left_out": 1}
    assert all_examples.n_longest == 13
    assert (
        all_examples.digest
        == examples([documents()[1], unknown, overlapping, documents()[2]])[0].digest
    )
    assert (
        all_examples.digest
        != examples([documents()[1], unknown, documents()[2], overlapping])[0].digest
    )
    with pytest.raises(AuditError, match="No note can be trained on"):
        examples([strange])


def test_a_long_note_is_cut_and_no_character_loses_its_label() -> None:
    spans = [Span(3 * i, 3 * i + 1, "quasi_identifier") for i in range(40)]
    all_examples, tokenizer, frame = examples(
        [build_document("x", text="森様、" * 40, spans=spans)], n_note=30
    )
    notes = [len(row.prompt) - len(frame.head) - len(frame.middle) for row in all_examples.rows]
    assert len(notes) > 4 and max(notes) == all_examples.n_longest == 30
    for row in all_examples.rows:
        note = text_of(tokenizer, row.prompt[len(frame.head) : -len(frame.middle)])
        scanned = scan_tags(decode_answer(tokenizer, row.answer))
        assert scanned.plain == note and len(scanned.spans) == note.count("森")
    # A span that the edge cuts is tagged as far as it goes.
    whole_note = build_document("x", text="あ" * 60, spans=[Span(0, 60, "identifier")])
    all_examples, tokenizer, frame = examples([whole_note], n_note=25, overlap=5)
    assert len(all_examples.rows) > 1
    for row in all_examples.rows:
        assert decode_answer(tokenizer, row.answer).startswith("<識別子>")
