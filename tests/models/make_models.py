"""Small masked language models with tokenizers, made in the test; a function each."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import transformers

WORDS = (
    "the",
    "patient",
    "mr",
    "mrs",
    "was",
    "seen",
    "by",
    "dr",
    "for",
    "pain",
    "in",
    "and",
    "of",
    "john",
    "mary",
    "smith",
    "jones",
    "anna",
    "o",
    "##s",
    "##son",
    "##a",
    "a",
    "s",
    "'",
    ".",
    ",",
    "-",
    ":",
    "1",
    "2",
    "##0",
)
JAPANESE_WORDS = (
    "患者",
    "は",
    "を",
    "受診",
    "し",
    "た",
    "。",
    "山田",
    "花子",
    "佐藤",
    "太郎",
    "##郎",
    "##子",
    "さん",
    "医師",
    "診察",
    "が",
    "の",
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def save_random_model(
    kind: str, folder: Path, *, seed: int, scale: float = 0.1, **config: Any
) -> None:
    """Write a masked language model with random weights, without a tokenizer."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        settings = getattr(transformers, f"{kind}Config")(**config)
        model = getattr(transformers, f"{kind}ForMaskedLM")(settings)
        # Weights as they are born give nearly flat distributions; larger ones tell mistakes apart.
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(scale * torch.randn(parameter.shape))
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)


def make_bert(
    folder: Path,
    *,
    seed: int = 0,
    words: Sequence[str] = WORDS,
    hidden_size: int = 16,
    n_layers: int = 2,
    dropout: float = 0.1,
    n_positions: int = 64,
    lower_case: bool = True,
    scale: float = 0.1,
    **config: Any,
) -> Path:
    """Write a BERT with a WordPiece vocabulary in vocab.txt; return the folder."""
    save_random_model(
        "Bert",
        folder,
        seed=seed,
        scale=scale,
        vocab_size=len(SPECIAL) + len(words),
        hidden_size=hidden_size,
        num_hidden_layers=n_layers,
        num_attention_heads=2,
        intermediate_size=2 * hidden_size,
        max_position_embeddings=n_positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        **config,
    )
    return write_wordpiece(folder, words, "BertTokenizer", do_lower_case=lower_case)


def make_distilbert(folder: Path, *, seed: int = 0, words: Sequence[str] = WORDS) -> Path:
    """Write a DistilBERT with a WordPiece vocabulary in vocab.txt; return the folder."""
    save_random_model(
        "DistilBert",
        folder,
        seed=seed,
        vocab_size=len(SPECIAL) + len(words),
        dim=16,
        n_layers=2,
        n_heads=2,
        hidden_dim=32,
        max_position_embeddings=64,
    )
    return write_wordpiece(folder, words, "DistilBertTokenizer")


def make_roberta(folder: Path, *, seed: int = 0) -> Path:
    """Write a RoBERTa with a byte-level BPE vocabulary of a few merges; return the folder."""
    merges = ["Ġ p", "a t", "J o", "h n", "Jo hn", "Ġ Jo", "ĠJo hn", "s m", "i t"]
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *sorted(byte_alphabet())]
    tokens += [merge.replace(" ", "") for merge in merges] + ["<mask>"]
    save_random_model(
        "Roberta",
        folder,
        seed=seed,
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=66,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    )
    _write_json(folder / "vocab.json", {token: i for i, token in enumerate(tokens)})
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", "utf-8")
    _write_json(folder / "tokenizer_config.json", {"tokenizer_class": "RobertaTokenizer"})
    return folder


def make_japanese_bert(folder: Path, *, seed: int = 0, dictionary: str = "unidic_lite") -> Path:
    """Write a BERT whose tokenizer splits words with MeCab; return the folder."""
    make_bert(folder, seed=seed, words=JAPANESE_WORDS)
    return write_wordpiece(
        folder,
        JAPANESE_WORDS,
        "BertJapaneseTokenizer",
        do_lower_case=False,
        word_tokenizer_type="mecab",
        subword_tokenizer_type="wordpiece",
        mecab_kwargs={"mecab_dic": dictionary},
    )


def byte_alphabet() -> list[str]:
    """Return the 256 characters by which byte-level BPE writes bytes."""
    from tokenizers.pre_tokenizers import ByteLevel

    return list(ByteLevel.alphabet())


def write_wordpiece(folder: Path, words: Sequence[str], kind: str, **settings: object) -> Path:
    """Write vocab.txt and the settings of a tokenizer; return the folder."""
    (folder / "vocab.txt").write_text("\n".join((*SPECIAL, *words)) + "\n", encoding="utf-8")
    _write_json(folder / "tokenizer_config.json", {"tokenizer_class": kind, **settings})
    return folder


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")


MAKERS: dict[str, Callable[..., Path]] = {
    "bert": make_bert,
    "roberta": make_roberta,
    "distilbert": make_distilbert,
    "japanese": make_japanese_bert,
}


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("good") / "model")


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))
