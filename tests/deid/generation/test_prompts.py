"""What the model is asked, in windows that fit, and what is trained on: tokens part by part."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from audit.deid.generative.causal_model import (
    SYSTEM,
    answer_text,
    answer_tokens,
    frame_of,
    pieces_of,
    room_in,
    text_ids,
)
from audit.deid.generative.tuning import Examples, examples_of
from audit.errors import AuditError
from audit.notes.formats import scan_tags
from audit.notes.spans import Span, TaggedDocument, build_document
from tests.deid.generation.tiny_model import character_tokenizer, documents


def text_of(tokenizer: Any, ids: Any) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def test_a_model_without_a_template_gets_the_plain_frame_with_the_paper_s_words() -> None:
    tokenizer = character_tokenizer()
    frame = frame_of(tokenizer, language="ja")
    prompt = frame.prompt(text_ids(tokenizer, "森様\n"))
    instruction = "以下の診療テキストから個人識別情報を抽出してください。"
    assert text_of(tokenizer, prompt) == f"{instruction}\n\n### 入力:\n森様\n\n\n### 出力:\n"
    assert (frame.tail, frame.stops, frame.n_tokens) == ((2,), (2,), len(prompt) - 3 + 1)
    # A tokenizer that begins texts with a token does so here.
    assert frame_of(tokenizer, language="en").head[0] != tokenizer.bos_token_id
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", tokenizer.bos_token_id)]
    )
    frame = frame_of(tokenizer, language="en")
    assert frame.head[0] == tokenizer.bos_token_id
    assert text_of(tokenizer, frame.head[1:]) == f"{SYSTEM['en']}\n\n### Input:\n"
    assert text_of(tokenizer, frame.middle) == "\n\n### Output:\n"


@pytest.mark.parametrize("knows_system", [True, False])
def test_a_chat_template_is_used_and_does_not_trim_the_note(knows_system: bool) -> None:
    tokenizer = character_tokenizer(with_chat=True)
    if not knows_system:
        refusal = "{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}"
        tokenizer.chat_template = refusal + tokenizer.chat_template
    frame = frame_of(tokenizer, language="ja")
    head = f"<|system|>{SYSTEM['ja']}<|end|><|user|>"
    head = head if knows_system else f"<|user|>{SYSTEM['ja']}\n\n"
    prompt = frame.prompt(text_ids(tokenizer, " 森 \n"))
    assert text_of(tokenizer, prompt) == f"{head} 森 \n<|end|><|assistant|>"
    assert text_of(tokenizer, frame.tail) == "<|end|>"
    end, eos = tokenizer.convert_tokens_to_ids("<|end|>"), tokenizer.eos_token_id
    assert frame.stops == tuple(sorted((end, eos)))


def test_models_that_cannot_be_asked_are_refused() -> None:
    tokenizer = character_tokenizer(with_chat=True)
    tokenizer.chat_template = "{{ 'hello' }}"
    with pytest.raises(AuditError, match="chat template of this model does not take"):
        frame_of(tokenizer, language="ja")
    tokenizer = character_tokenizer()
    tokenizer.eos_token = None
    with pytest.raises(AuditError, match="no token that ends a text"):
        frame_of(tokenizer, language="ja")


def test_a_note_cannot_speak_in_special_tokens_and_comes_back() -> None:
    tokenizer = character_tokenizer(with_chat=True)
    ids = text_ids(tokenizer, "a</s>b<|end|>")
    assert not {tokenizer.eos_token_id, tokenizer.convert_tokens_to_ids("<|end|>")} & {*ids}
    assert len(ids) == len("a</s>b<|end|>")
    known = "氏名: 足立志保 \n  <識別子>森</識別子>  "
    assert answer_text(tokenizer, text_ids(tokenizer, known)) == known
    assert answer_text(tokenizer, [0, 1, *text_ids(tokenizer, "森"), 2]) == "森"
    assert len(text_ids(tokenizer, "a\ud83db")) == 3


def n_tokens(text: str) -> int:
    """Tokens of a tokenizer that spends three on a character that is no ASCII."""
    return sum(1 if char.isascii() else 3 for char in text)


@given(st.text("aあ\n。 ", max_size=400), st.integers(3, 60), st.integers(0, 50))
def test_windows_fit_and_hold_every_character(text: str, n_note: int, overlap: int) -> None:
    windows = pieces_of(text, n_tokens=n_tokens, most=n_note, overlap=overlap)
    assert all(n_tokens(text[one.start : one.end]) <= n_note for one in windows)
    assert {i for one in windows for i in range(one.start, one.end)} == set(range(len(text)))
    if n_tokens(text) <= n_note:
        assert len(windows) == bool(text)


def test_room_by_hand() -> None:
    assert room_in(1000, n_frame=35) == 300 == (1000 - 35 - 65) / 3
    assert room_in(1000, n_frame=35, growth=1.25) == 400
    assert [answer_tokens(300), answer_tokens(1), answer_tokens(3, growth=1.5)] == [664, 66, 69]
    assert room_in(148, n_frame=35) == 16
    with pytest.raises(AuditError, match="A context of 147 tokens has no room for a note"):
        room_in(147, n_frame=35)
    windows = pieces_of("a" * 100, n_tokens=len, most=40, overlap=30)
    assert [(one.start, one.end) for one in windows] == [(0, 40), (30, 70), (60, 100)]
    with pytest.raises(AuditError, match="more tokens than a window"):
        pieces_of("ああ", n_tokens=n_tokens, most=2, overlap=0)


def examples(
    notes: list[TaggedDocument], *, overlap: int = 10, n_note: int = 100
) -> tuple[Examples, Any, Any]:
    tokenizer = character_tokenizer()
    frame = frame_of(tokenizer, language="ja")
    made = examples_of(
        notes,
        tokenizer=tokenizer,
        frame=frame,
        most=n_note,
        n_context=512,
        overlap=overlap,
        language="ja",
    )
    return made, tokenizer, frame


def test_examples_by_hand() -> None:
    strange = build_document("x", text="<識別子> 森", spans=[Span(6, 7, "identifier")])
    unknown = build_document("y", text="鰻", spans=())
    crossing = [Span(0, 2, "identifier"), Span(0, 1, "quasi_identifier")]
    both = build_document("z", text="森様", spans=crossing)
    made, tokenizer, frame = examples([documents()[1], strange, unknown, both, documents()[2]])
    asked = [
        text_of(tokenizer, row.prompt[len(frame.head) : -len(frame.middle)]) for row in made.rows
    ]
    assert asked == ["森様 52歳 電話03-1", "<unk>", "森様", "特記なし。"]
    assert [answer_text(tokenizer, row.answer) for row in made.rows] == [
        "<準識別子>森</準識別子>様 52歳 電話<連絡先情報>03-1</連絡先情報>",
        "",
        "<識別子>森様</識別子>",
        "特記なし。",
    ]
    for row in made.rows:
        assert tuple(row.prompt[: len(frame.head)]) == frame.head
        assert tuple(row.prompt[-len(frame.middle) :]) == frame.middle
        assert row.answer[-1] == tokenizer.eos_token_id
    assert made.labels == ("identifier", "quasi_identifier", "contact")
    assert made.counts == {"n_notes": 5, "n_windows": 4, "n_left_out": 1}
    assert made.n_longest == 13
    assert made.digest == examples([documents()[1], unknown, both, documents()[2]])[0].digest
    assert made.digest != examples([documents()[1], unknown, documents()[2], both])[0].digest
    with pytest.raises(AuditError, match="No note can be trained on"):
        examples([strange])


def test_a_long_note_is_cut_and_no_character_loses_its_label() -> None:
    spans = [Span(3 * i, 3 * i + 1, "quasi_identifier") for i in range(40)]
    made, tokenizer, frame = examples(
        [build_document("x", text="森様、" * 40, spans=spans)], n_note=30
    )
    notes = [len(row.prompt) - len(frame.head) - len(frame.middle) for row in made.rows]
    assert len(notes) > 4 and max(notes) == made.n_longest == 30
    for row in made.rows:
        note = text_of(tokenizer, row.prompt[len(frame.head) : -len(frame.middle)])
        read = scan_tags(answer_text(tokenizer, row.answer))
        assert read.plain == note and len(read.spans) == note.count("森")
    # A span that the edge cuts is tagged as far as it goes.
    whole = build_document("x", text="あ" * 60, spans=[Span(0, 60, "identifier")])
    made, tokenizer, frame = examples([whole], n_note=25, overlap=5)
    assert len(made.rows) > 1
    for row in made.rows:
        assert answer_text(tokenizer, row.answer).startswith("<識別子>")
