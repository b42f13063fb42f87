"""Small tokenizers of the kinds that SentencePiece makes, and models that read with them."""

from __future__ import annotations

import base64
import importlib
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.models.make_models import SPECIAL, make_bert, save_random_model

Field = tuple[int, int | float | bytes]
NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
FAIRSEQ_HEAD = (("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0))
PIECE_FILES = {
    "CamembertTokenizer": "sentencepiece.bpe.model",
    "XLMRobertaTokenizer": "sentencepiece.bpe.model",
    "AlbertTokenizer": "spiece.model",
    "BigBirdTokenizer": "spiece.model",
    "T5Tokenizer": "spiece.model",
    "DebertaV2Tokenizer": "spm.model",
    "LlamaTokenizer": "tokenizer.model",
}
HEADS = {
    "AlbertTokenizer": ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    "BigBirdTokenizer": ("<pad>", "</s>", "<s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    "T5Tokenizer": ("<pad>", "</s>", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    "DebertaV2Tokenizer": ("[PAD]", "[CLS]", "[SEP]", "[UNK]"),
    "LlamaTokenizer": ("<unk>", "<s>", "</s>", "[CLS]", "[SEP]", "[MASK]", "[PAD]"),
}
"""First pieces of SentencePiece files whose order is that of the model's embedding."""
_WORDS = "the patient was seen by for pain in and of Mr Dr John Mary Smith Jones Anna service"
_JAPANESE = "患者 受診 山田 花子 佐藤 太郎 さん 医師 診察 ました カテーテル"
_SIGNS = ".,:;'-()/[]1234567890はをがのにしたれで。、郎子"
FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)} | {
    "\u3000": " ",
    "\t": " ",
    "ﬁ": "fi",
    "①": "1",
}
"""What a map of compatibility forms replaces, in part."""


def pieces(*, words: Sequence[str] = (), with_capitals: bool = True) -> list[tuple[str, float]]:
    """Return pieces with scores: words, letters and signs, with and without a space before."""
    letters = "abcdefghijklmnopqrstuvwxyzäéöü"
    letters += letters.upper() if with_capitals else ""
    listed = [*_WORDS.split(), *words]
    listed = listed if with_capitals else [word.lower() for word in listed]
    scores = {f"▁{word}": -5.0 - 0.01 * i for i, word in enumerate(dict.fromkeys(listed))}
    scores |= {word: -6.0 - 0.01 * i for i, word in enumerate(_JAPANESE.split())}
    scores |= {"s": -7.0, "son": -7.5, "▁": -8.0}
    scores |= {sign: -9.0 - 0.01 * i for i, sign in enumerate(dict.fromkeys(letters + _SIGNS))} | {
        "s": -7.0
    }
    return list(scores.items())


def write_message(*fields: Field) -> bytes:
    """Return a protocol buffer with these fields."""
    data = bytearray()
    for number, value in fields:
        if isinstance(value, bytes):
            data += _write_number(number << 3 | 2) + _write_number(len(value)) + value
        elif isinstance(value, float):
            data += _write_number(number << 3 | 5) + struct.pack("<f", value)
        else:
            data += _write_number(number << 3) + _write_number(value)
    return bytes(data)


def _write_number(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def make_piece_file(
    listed: Sequence[tuple[str, float]],
    *,
    kinds: Mapping[str, int] | None = None,
    trainer: Sequence[Field] = (),
    normalizer: Sequence[Field] = (),
) -> bytes:
    """Return a SentencePiece file; pieces in angle or square brackets are control pieces."""
    kinds = kinds or {}

    def kind_of(piece: str) -> int:
        is_special = piece[:1] in "<[" and len(piece) > 1
        return kinds.get(piece, CONTROL if is_special else NORMAL)

    fields = [
        (1, write_message((1, piece.encode()), (2, float(score)), (3, kind_of(piece))))
        for piece, score in listed
    ]
    specs = [(2, write_message(*trainer)), (3, write_message(*normalizer))]
    return write_message(*fields, *specs)


def make_character_map(replacements: Mapping[str, str]) -> bytes:
    """Return a map of characters in SentencePiece's form; every node has a block of its own."""
    texts = b""
    nodes: list[dict[int, int]] = [{}]  # child of each byte
    ends: dict[int, int] = {}  # node -> place of the replacement
    for key, text in replacements.items():
        node = 0
        for byte in key.encode():
            if byte not in nodes[node]:
                nodes.append({})
                nodes[node][byte] = len(nodes) - 1
            node = nodes[node][byte]
        ends[node] = len(texts)
        texts += text.encode() + b"\0"
    units = [0] * (256 * (len(nodes) + 1))
    # The root's unit is at 0, so the children of node n lie in block n + 1.
    places = {0: 0} | {
        child: 256 * (node + 1) + byte
        for node, children in enumerate(nodes)
        for byte, child in children.items()
    }
    for node, place in places.items():
        offset, label = place ^ (256 * (node + 1)), place & 0xFF if node else 0
        units[place] = offset << 10 | label | (1 << 8 if node in ends else 0)
        if node in ends:
            units[256 * (node + 1)] = ends[node] | 1 << 31
    return struct.pack("<I", 4 * len(units)) + struct.pack(f"<{len(units)}I", *units) + texts


def precompiled(replacements: Mapping[str, str]) -> dict[str, str]:
    """Return a normalizer of tokenizer.json with a map of characters."""
    text = base64.b64encode(make_character_map(replacements)).decode("ascii")
    return {"type": "Precompiled", "precompiled_charsmap": text}


def unigram_state(
    vocabulary: Sequence[tuple[str, float]], *, unk_id: int = 3, **changes: Any
) -> dict[str, Any]:
    """Return the content of a tokenizer.json as XLM-RoBERTa has it."""
    state: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": precompiled(FULL_WIDTH),
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "model": {
            "type": "Unigram",
            "unk_id": unk_id,
            "vocab": [[piece, score] for piece, score in vocabulary],
        },
    }
    return state | changes


def fairseq_vocabulary(
    listed: Sequence[tuple[str, float]],
) -> list[tuple[str, float]]:
    """Return a vocabulary with the special tokens where XLM-RoBERTa has them."""
    head = [(token, 0.0) for token in ("<s>", "<pad>", "</s>", "<unk>")]
    return [*head, *listed, ("<mask>", 0.0)]


def make_unigram_roberta(
    folder: Path,
    *,
    seed: int = 0,
    vocabulary: Sequence[tuple[str, float]] | None = None,
    **changes: Any,
) -> Path:
    """Write a RoBERTa whose tokenizer.json is XLM-RoBERTa's in small; return the folder."""
    vocabulary = fairseq_vocabulary(pieces()) if vocabulary is None else vocabulary
    _save_roberta(folder, seed=seed, n_tokens=len(vocabulary))
    state = json.dumps(unigram_state(vocabulary, **changes), ensure_ascii=False)
    (folder / "tokenizer.json").write_text(state, "utf-8")
    return _write_config(folder, "XLMRobertaTokenizer")


def make_piece_model(
    folder: Path,
    kind: str,
    *,
    listed: Sequence[tuple[str, float]] | None = None,
    replacements: Mapping[str, str] | None = None,
    **settings: object,
) -> Path:
    """Write a model whose tokenizer is a SentencePiece file; return the folder."""
    listed = pieces() if listed is None else listed
    if kind in HEADS:
        head = [(token, 0.0) for token in HEADS[kind]]
        unknown = next(token for token in HEADS[kind] if token.lower().strip("<[]>") == "unk")
        trainer, kinds = [(40, HEADS[kind].index(unknown))], {unknown: UNKNOWN}
        make_bert(folder, words=["x"] * (len(head) + len(listed) + 1 - len(SPECIAL)))
        (folder / "vocab.txt").unlink()
    else:
        head, trainer, kinds = [*FAIRSEQ_HEAD], [], {"<unk>": UNKNOWN}
        n_special = 8 if kind == "CamembertTokenizer" else 5
        _save_roberta(folder, seed=0, n_tokens=len(listed) + n_special)
    character_map = make_character_map(FULL_WIDTH if replacements is None else replacements)
    data = make_piece_file(
        [*head, *listed], kinds=kinds, trainer=trainer, normalizer=[(2, character_map)]
    )
    (folder / PIECE_FILES[kind]).write_bytes(data)
    return _write_config(folder, kind, **settings)


def _save_roberta(folder: Path, *, seed: int, n_tokens: int) -> None:
    save_random_model(
        "Roberta",
        folder,
        seed=seed,
        vocab_size=n_tokens,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=66,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
    )


def _write_config(folder: Path, kind: str, **settings: object) -> Path:
    config = {"tokenizer_class": kind, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), "utf-8")
    return folder


def compile_dictionary(path: Path, words: Sequence[str], *, system: str = "unidic_lite") -> Path:
    """Compile a user dictionary with MeCab's own compiler; return its file."""
    import fugashi

    rows = "".join(f"{word},1,1,-9000,名詞,一般,*,*,*,*,{word},*,*\n" for word in words)
    path.with_suffix(".csv").write_text(rows, "utf-8")
    folder = importlib.import_module(system).DICDIR
    options = f'-d "{folder}" -u "{path}" -f utf-8 -t utf-8'
    fugashi.build_dictionary(f'compile {options} "{path.with_suffix(".csv")}"')
    return path


def write_dictionary(
    words: Sequence[bytes],
    *,
    units: Mapping[int, tuple[int, int]] | None = None,
    token: Sequence[int] = (1, 1, 0, -9000, 0, 0),
    features: bytes = "名詞,一般\0".encode(),
    **changes: int,
) -> bytes:
    """Return a user dictionary for unidic_lite, unit by unit; every node has a block of its own.

    `units`, `token`, `features` and `changes` of the head replace what is right.
    """
    nodes: list[dict[int, int]] = [{}]
    for word in words:
        node = 0
        for byte in word:
            if byte not in nodes[node]:
                nodes.append({})
                nodes[node][byte] = len(nodes) - 1
            node = nodes[node][byte]
        nodes[node][-1] = -1
    trie = {0: (1, 0)}
    for node, children in enumerate(nodes):
        begin = 257 * node + 1
        for byte, child in children.items():
            # One token for every word: the number 0 << 8 | 1.
            trie[begin + byte + 1] = (-2 if byte < 0 else 257 * child + 1, begin)
    trie |= units or {}
    array = b"".join(
        struct.pack("<iI", *trie.get(i, (0, 0))) for i in range(257 * (len(nodes) + 1))
    )
    tokens = struct.pack("<HHHhII", *token)
    head = {
        "magic": 0xEF718F77 ^ 72 + len(array) + len(tokens) + len(features),
        "version": 102,
        "kind": 1,
        "n_words": len(words),
        "n_left": 5981,
        "n_right": 5981,
        "n_trie_bytes": len(array),
        "n_token_bytes": len(tokens),
        "n_feature_bytes": len(features),
        "reserved": 0,
    }
    head |= changes
    return struct.pack("<10I32s", *head.values(), b"utf8") + array + tokens + features
