"""A tiny causal language model with a tokenizer of single characters, made in a test."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers

from audit.deid.find.causal_model import SYSTEM
from audit.deid.find.tagger_facts import GenerativeFacts
from audit.deid.learn.tagger_task import TaggerTask, TuningSettings
from audit.deid.learn.tuning import train_generative
from audit.notes.formats import format_jsonl_line
from audit.notes.spans import JAPANESE, TaggedDocument
from tests.deid.unseen_notes import marked

NOTES = (
    "氏名:⟦I:足立志保⟧ 番号:⟦L:53662⟧",
    "⟦Q:森⟧様 52歳 電話⟦C:03-1⟧",
    "特記なし。",
    "⟦Q:5/3⟧ 受診 <5 mg",
)
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] | trim }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def documents() -> list[TaggedDocument]:
    return [marked(text, doc_id=f"d{i}", patient=f"p{i}") for i, text in enumerate(NOTES)]


TEXTS = [note.text for note in documents()]


def write_gold(path: Path, notes: Iterable[TaggedDocument] | None = None) -> Path:
    path.write_text("".join(map(format_jsonl_line, notes or documents())), "utf-8")
    return path


def character_tokenizer(*, with_chat: bool = False) -> Any:
    """A tokenizer whose tokens are characters; byte order of the vocabulary is fixed."""
    texts = [*TEXTS, *JAPANESE.values(), *SYSTEM.values()]
    characters = sorted(set("".join(texts) + "</>\n#: 入出力InputOu様氏名。、0123456789abcdefgh"))
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    special += ["<|system|>", "<|user|>", "<|assistant|>", "<|end|>"] if with_chat else []
    vocabulary = {token: i for i, token in enumerate([*special, *characters])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[\s\S]"), "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens=special[4:],
    )
    if with_chat:
        tokenizer.chat_template = CHAT
    return tokenizer


def write_model(
    path: Path, *, with_chat: bool = False, n_positions: int = 512, kind: str = "llama"
) -> Path:
    """Write a model directory with random weights that are the same every time."""
    tokenizer = character_tokenizer(with_chat=with_chat)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        common = {"vocab_size": len(tokenizer), "bos_token_id": 1, "eos_token_id": 2}
        if kind == "gpt2":
            config = transformers.GPT2Config(
                n_embd=64, n_layer=2, n_head=2, n_positions=n_positions, **common
            )
            model: Any = transformers.GPT2LMHeadModel(config)
        else:
            config = transformers.LlamaConfig(
                hidden_size=64,
                intermediate_size=128,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=n_positions,
                pad_token_id=0,
                tie_word_embeddings=True,
                initializer_range=0.1,
                **common,
            )
            model = transformers.LlamaForCausalLM(config)
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def order(tmp_path: Path, model: Path, *, out: str = "tagger", **settings: Any) -> TaggerTask:
    all_settings = {
        "n_epochs": 120.0,
        "batch": 4,
        "micro_batch": 4,
        "learning_rate": 3e-3,
    } | settings
    return TaggerTask(
        gold=(write_gold(tmp_path / "gold.jsonl"),),
        validation=(tmp_path / "gold.jsonl",),
        start=model,
        out=tmp_path / out,
        settings=TuningSettings(**all_settings),
        title="tiny",
        device="cpu",
    )


def tuned(task: TaggerTask, **options: Any) -> GenerativeFacts:
    """Tune the model of a task."""
    assert isinstance(task.settings, TuningSettings)
    return train_generative(task, task.settings, **options)


def line_of(**record: Any) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"
