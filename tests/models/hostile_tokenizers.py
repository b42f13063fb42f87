"""Ways to give a good BERT directory a hostile SentencePiece tokenizer; see hostile_models.py."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.models.editing import edit_json
from tests.models.make_tokenizers import (
    FAIRSEQ_HEAD,
    HEADS,
    make_character_map,
    make_piece_file,
    pieces,
    precompiled,
    unigram_state,
    write_message,
)

Spoil = Callable[[Path], object]
_VOCABULARY = [*((token, 0.0) for token in HEADS["BigBirdTokenizer"]), *pieces()]
_LETTER_A = 0x61


def _write_state(text: str, *, kind: str = "XLMRobertaTokenizer") -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / "tokenizer.json").write_text(text, "utf-8")
        edit_json(folder, "tokenizer_config.json", tokenizer_class=kind)

    return spoil


def _state(**changes: Any) -> Spoil:
    return _write_state(json.dumps(unigram_state(_VOCABULARY, **changes)))


def _model(*entries: object, **changes: object) -> Spoil:
    """Add entries to the vocabulary, and change settings of the model."""
    vocabulary = [*map(list, _VOCABULARY), *entries]
    return _state(model={"type": "Unigram", "unk_id": 3, "vocab": vocabulary} | changes)


def _score(text: str) -> Spoil:
    state = json.dumps(unigram_state([*_VOCABULARY, ("here", 7.0)]))
    return _write_state(state.replace("7.0", text))


def _map(data: bytes) -> Spoil:
    text = base64.b64encode(data).decode("ascii")
    return _state(normalizer={"type": "Precompiled", "precompiled_charsmap": text})


def _normalizer(*parts: object) -> Spoil:
    return _state(normalizer={"type": "Sequence", "normalizers": list(parts)})


def _replace(pattern: Mapping[str, str], content: str) -> dict[str, object]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def _units(changes: Mapping[int, int]) -> bytes:
    """A map from "a" to "b" with some units of its trie changed."""
    data = bytearray(make_character_map({"a": "b"}))
    for place, unit in changes.items():
        struct.pack_into("<I", data, 4 + 4 * place, unit)
    return bytes(data)


def _file(data: bytes, **settings: object) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / "spiece.model").write_bytes(data)
        edit_json(folder, "tokenizer_config.json", tokenizer_class="BigBirdTokenizer", **settings)

    return spoil


def _pieces(*fields: tuple[int, Any], trainer: Any = (), normalizer: Any = ()) -> Spoil:
    """A SentencePiece file with more fields at its end."""
    data = make_piece_file(_VOCABULARY, trainer=[(40, 3), *trainer], normalizer=normalizer)
    return _file(data + write_message(*fields))


_GOOD_FILE = make_piece_file(_VOCABULARY, trainer=[(40, 3)])
_BOMB = make_character_map({"a": "b" * 1_000_000 + "c"})[:900_000]

HOSTILE_TOKENIZERS: dict[str, Spoil] = {
    "score_not_a_number": _score("NaN"),
    "score_infinite": _score("-1e999"),
    "score_without_measure": _score("1e300"),
    "score_as_text": _model(["x", "1"]),
    "piece_without_score": _model(["x"]),
    "piece_as_number": _model([1, 1.0]),
    "piece_empty": _model(["", 1.0]),
    "piece_long": _model(["a" * 1_001, 1.0]),
    "million_pieces": _write_state(
        '{"model": {"type": "Unigram", "unk_id": 0, "vocab": ['
        + ",".join(['["a",0]'] * 1_000_001)
        + "]}}"
    ),
    "no_unknown_piece": _model(unk_id=None),
    "unknown_piece_outside": _model(unk_id=999_999),
    "vocabulary_is_a_table": _model(vocab={"a": 0}),
    "random_pieces": _model(nbest_size=10, alpha=0.1),
    "pieces_of_another_class": _write_state(
        json.dumps(unigram_state(_VOCABULARY)), kind="DebertaTokenizer"
    ),
    "map_is_no_text": _state(normalizer={"type": "Precompiled", "precompiled_charsmap": [1]}),
    "map_is_not_base_64": _state(normalizer={"type": "Precompiled", "precompiled_charsmap": "%"}),
    "map_empty": _map(b""),
    "map_large": _map(b"\0" * 1_000_001),
    "map_shorter_than_its_trie": _map(struct.pack("<I", 4_000) + b"\0" * 100),
    "map_without_replacements": _map(struct.pack("<I", 4) + b"\0" * 4),
    "map_of_long_texts": _map(make_character_map({"a": "b" * 65})),
    "map_bomb": _map(_BOMB),
    "map_leads_out": _map(_units({256 + _LETTER_A: 1 << 8 | _LETTER_A | 0xFFFFF << 10})),
    "map_leads_far_out": _map(_units({256 + _LETTER_A: _LETTER_A | 1 << 9 | 0x1FFFFF << 10})),
    "map_root_leads_out": _map(_units({0: 0x1FFFFF << 10})),
    "map_text_outside": _map(_units({512: 1 << 31 | 99})),
    "map_text_inside_a_character": _map(
        make_character_map({"a": "é"}).replace(
            struct.pack("<I", 1 << 31), struct.pack("<I", 1 << 31 | 1)
        )
    ),
    "map_text_not_utf8": _map(make_character_map({"a": "b"}) + b"\xff"),
    "two_maps": _normalizer(precompiled({"a": "b"}), precompiled({"b": "c"})),
    "map_as_decoder": _state(decoder=precompiled({"a": "b"})),
    "other_expression": _normalizer(_replace({"Regex": " {3,}"}, " ")),
    "expression_that_grows": _normalizer(_replace({"Regex": " {2,}"}, "▁▁")),
    "beginning_that_grows": _normalizer(_replace({"Regex": r"\A▁"}, "▁▁▁")),
    "split_without_end": _state(
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}
    ),
    "file_empty": _file(b""),
    "file_cut": _file(_GOOD_FILE[:-3]),
    "file_of_text": _file(b"not a protocol buffer, but a text"),
    "file_is_a_pickle": _file(b"\x80\x04\x95" + b"\0" * 40),
    "length_beyond_the_end": _file(_GOOD_FILE + b"\x0a\xff\xff\xff\x7f"),
    "length_negative": _file(_GOOD_FILE + b"\x0a" + b"\xff" * 9 + b"\x01"),
    "number_without_end": _file(_GOOD_FILE + b"\x08" + b"\xff" * 4_000),
    "group": _file(_GOOD_FILE + b"\x0b" * 100_000),
    "nested_deep": _file(_GOOD_FILE + write_message((1, b"\x0a\x7f" * 50_000))),
    "many_fields": _pieces((1, b"\x18\x01" * 1_000)),
    "many_settings": _pieces((2, b"\x18\x01" * 100_001)),
    "million_pieces_in_file": _file(b"\x0a\x03\x0a\x01a" * 1_000_001),
    "file_large": _file(b"\x0a" * 16_000_001),
    "piece_not_utf8": _pieces((1, write_message((1, b"\xff"), (2, 1.0)))),
    "piece_score_nan": _pieces((1, write_message((1, b"x"), (2, float("nan"))))),
    "piece_score_of_another_kind": _pieces((1, write_message((1, b"x"), (2, 7)))),
    "unknown_id_outside": _pieces(trainer=[(40, 999_999)]),
    "unknown_id_negative": _pieces(trainer=[(40, (1 << 64) - 1)]),
    "trainer_is_a_number": _pieces((2, 7)),
    "byte_pairs": _pieces(trainer=[(3, 2)]),
    "spaces_at_the_end": _pieces(trainer=[(24, 1)]),
    "spaces_kept": _pieces(normalizer=[(5, 0)]),
    "map_bomb_in_file": _pieces(normalizer=[(2, _BOMB)]),
    "no_head": _file(make_piece_file(FAIRSEQ_HEAD, trainer=[(40, 7)])),
    "extra_ids_without_end": _file(_GOOD_FILE, extra_ids=10**9),
    "extra_ids_as_text": _file(_GOOD_FILE, extra_ids="100"),
}
"""Refused without a look at the weights."""
