"""A language model's reading of masks and its translation: prompts, answers, what goes wrong."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.generative.model import LocalModel, check_directory
from audit.deid.masks import (
    KINDS,
    MaskAnswer,
    ModelTranslation,
    ModelTyper,
    NoTranslation,
    masked_note,
    passages,
    read_answer,
)
from audit.errors import AuditError


def test_an_answer_is_read_however_it_is_written() -> None:
    reply = (
        "Sure:\n1: Patient Name\n [[2]]: {{Physician Name 3}}\n3. TEXT 7.4\n4：医師名\n"
        "5: shoe size\n6: TEXT\n1: Hospital Name\n7 Patient"
    )
    assert read_answer(reply) == {
        1: MaskAnswer(KINDS["Patient Name"]),
        2: MaskAnswer(KINDS["Physician Name"], number="3"),
        3: MaskAnswer(None, text="7.4"),
        4: MaskAnswer(KINDS["Physician Name"]),
    }


def test_the_model_is_asked_about_blanks_and_rules_fill_the_gaps() -> None:
    asked: list[str] = []

    def answers(prompts: Sequence[str]) -> list[str]:
        asked.extend(prompts)
        return ["1: TEXT 9.1\n9: Patient Name" for _ in prompts]

    note = masked_note("Hgb ___ then Ms. ___." + "x" * 900 + "Na ___", has_blanks=True)
    (types,) = ModelTyper(answers).types([note])
    assert types == (
        MaskAnswer(None, text="9.1"),
        MaskAnswer(KINDS["Patient Surname"], sex="F"),
        MaskAnswer(None, text="9.1"),
    )
    assert "Hgb [[1]] then Ms. [[2]]." in asked[0]
    assert "Na [[1]]" in asked[1]


def test_categories_are_not_asked_about() -> None:
    note = masked_note("[**Known lastname 3**] came", has_blanks=False)
    (types,) = ModelTyper(lambda prompts: ["" for _ in prompts]).types([note])
    assert types == (MaskAnswer(KINDS["Patient Surname"], number="3"),)


def _upper(prompts: Sequence[str]) -> list[str]:
    passages_only = [prompt.split("Passage:\n", 1)[1] for prompt in prompts]
    return ["退院。{{Patient Name}}" if "KEEP" not in one else "落ちた" for one in passages_only]


def test_a_translation_keeps_placeholders_or_is_not_taken() -> None:
    texts = ["{{Patient Name}} left.\n", "KEEP {{Patient Name}}\n", "  \n"]
    done = ModelTranslation(_upper).translate(texts)
    assert [one.text for one in done] == ["退院。{{Patient Name}}\n", texts[1], texts[2]]
    assert [(one.n_passages, one.n_kept) for one in done] == [(1, 0), (1, 1), (0, 0)]
    assert [one.text for one in NoTranslation().translate(texts)] == texts


@given(st.lists(st.integers(0, 900), max_size=12), st.booleans())
def test_passages_are_the_text(lengths: list[int], ends: bool) -> None:
    text = "\n".join("x" * n for n in lengths) + "\n" * ends
    pieces = passages(text)
    assert "".join(pieces) == text
    assert all(len(piece) <= 1500 for piece in pieces)


def test_a_directory_without_a_safe_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"no model directory"):
        check_directory(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(AuditError, match="no safetensors"):
        LocalModel(tmp_path)


def test_a_tiny_model_answers_for_real(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<u>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    inner.decoder = tokenizers.decoders.ByteLevel()
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<u>", "</s>"], initial_alphabet=alphabet
    )
    inner.train_from_iterator(["patient name"], trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner, unk_token="<u>", eos_token="</s>"
    )
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=512, eos_token_id=1, bos_token_id=None,
    )  # fmt: skip
    tokenizer.save_pretrained(tmp_path)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path, safe_serialization=True)
    model = LocalModel(tmp_path, max_new_tokens=6, n_batch=2)
    prompts = ["Ms. ___ is a much longer prompt", "a", "Hgb ___"]
    answers = model(prompts)
    assert len(answers) == 3
    assert any(answers)
    # Greedy: the same alone as in a batch with padding, and in any order.
    assert [model([prompt])[0] for prompt in prompts] == answers
    assert model(prompts[::-1]) == answers[::-1]
    typer = ModelTyper(model)
    (types,) = typer.types([masked_note("Ms. ___ left", has_blanks=True)])
    assert types[0].kind == KINDS["Patient Surname"]
