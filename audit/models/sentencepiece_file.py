"""Read a SentencePiece model, and write what it says in the form of tokenizer.json.

The file is a protocol buffer. Only the fields that decide how a text is split are read, each within
its bounds; messages are nested to a fixed depth, so no file can make the reader deep or slow. The
components are those of transformers' converters, with one difference: the file's own settings about
white space and bytes decide, as in SentencePiece.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import JsonValue

from audit.errors import AuditError
from audit.models.model_config import MAX_VOCABULARY
from audit.models.model_folder import COPY_FILE, refuse_more

Settings = Mapping[str, JsonValue]
Pieces = list[tuple[str, float]]
Component = dict[str, JsonValue]
Field = int | float | bytes
T = TypeVar("T", int, float, bytes)

MARK = "▁"
"""The sign that SentencePiece writes for a space."""
MAX_FILE_BYTES = 16_000_000
"""Maximum for one file. The one of XLM-RoBERTa, with 250,000 pieces, has 5,000,000 bytes."""
_MAX_FIELDS = 100_000
"""Maximum for the fields of a message that holds settings; user-defined symbols are such fields."""
_MAX_PIECE_FIELDS = 16
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_UNIGRAM = 1
_CONTROL, _USER_DEFINED = 3, 4
_MAX_VARINT_BYTES = 10
_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_FAIRSEQ = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_BRACKETS = {"sep_token": "[SEP]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
SPECIAL_TOKENS: Mapping[str, Mapping[str, str]] = {
    "CamembertTokenizer": _FAIRSEQ,
    "XLMRobertaTokenizer": _FAIRSEQ,
    "AlbertTokenizer": {
        **_BRACKETS,
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    },
    "BigBirdTokenizer": {
        **_BRACKETS,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    },
    "DebertaV2Tokenizer": {
        **_BRACKETS,
        "bos_token": "[CLS]",
        "eos_token": "[SEP]",
        "unk_token": "[UNK]",
        "pad_token": "[PAD]",
    },
    "T5Tokenizer": {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
    "LlamaTokenizer": {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
}
"""Class of tokenizer -> its special tokens where tokenizer_config.json names no others."""
_ROLES = ("unk_token", "cls_token", "sep_token", "pad_token", "mask_token")


@dataclass(frozen=True)
class PieceModel:
    """The content of a SentencePiece file.

    `pieces` has text and score of each piece; `kinds` the number of each piece's type. The flags
    are those of its normalizer and trainer.
    """

    pieces: Pieces
    kinds: Sequence[int]
    unk_id: int
    has_byte_fallback: bool
    character_map: bytes
    adds_prefix: bool
    removes_spaces: bool


def read_piece_model(data: bytes) -> PieceModel:
    """Read a SentencePiece file with a Unigram model; refuse others, and damaged ones."""
    messages: dict[int, list[Field]] = {_PIECES: [], _TRAINER: [], _NORMALIZER: []}
    for number, content in _read_fields(data, max_fields=MAX_VOCABULARY + _MAX_FIELDS):
        if number in messages:
            messages[number].append(content)
    refuse_more(len(messages[_PIECES]), than=MAX_VOCABULARY)
    entries = [*map(_read_piece, messages[_PIECES])]
    pieces, kinds = [(piece, score) for piece, score, _ in entries], [kind for *_, kind in entries]
    trainer, normalizer = (
        {
            number: field
            for content in messages[part]
            for number, field in _read_fields(_check_kind(content, bytes), max_fields=_MAX_FIELDS)
        }
        for part in (_TRAINER, _NORMALIZER)
    )
    if _check_kind(trainer.get(3, _UNIGRAM), int) != _UNIGRAM:
        raise AuditError(
            "This SentencePiece model is not a Unigram model.",
            do="Load the tokenizer with transformers on a machine with the package "
            "sentencepiece, save it with save_pretrained, and copy the resulting "
            "tokenizer.json into the model's directory.",
        )
    if _check_kind(trainer.get(24, 0), int) or not _check_kind(normalizer.get(5, 1), int):
        raise AuditError(
            "This SentencePiece model writes spaces in a way that is not supported.",
            do="It must write a space as the character ▁ at the beginning of a piece.",
        )
    unk_id = _check_kind(trainer.get(40, 0), int)
    if not unk_id < len(pieces):
        raise _make_file_error()
    return PieceModel(
        pieces,
        kinds,
        unk_id,
        has_byte_fallback=bool(_check_kind(trainer.get(35, 0), int)),
        character_map=_check_kind(normalizer.get(2, b""), bytes),
        adds_prefix=bool(_check_kind(normalizer.get(3, 1), int)),
        removes_spaces=bool(_check_kind(normalizer.get(4, 1), int)),
    )


def _read_piece(content: Field) -> tuple[str, float, int]:
    text, score, kind = b"", 0.0, 1
    for number, field in _read_fields(_check_kind(content, bytes), max_fields=_MAX_PIECE_FIELDS):
        if number == 1:
            text = _check_kind(field, bytes)
        elif number == 2:
            score = _check_kind(field, float)
        elif number == 3:
            kind = _check_kind(field, int)
    if not math.isfinite(score):
        raise _make_file_error()
    try:
        return text.decode("utf-8"), score, kind
    except UnicodeDecodeError:
        raise _make_file_error() from None


def _read_fields(data: bytes, *, max_fields: int) -> Iterator[tuple[int, Field]]:
    """Yield number and content of each field of a message, in the wire format."""
    place, end, n_fields = 0, len(data), 0
    while place < end:
        if (n_fields := n_fields + 1) > max_fields:
            refuse_more(n_fields, than=max_fields)
        key, place = _read_varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, place = _read_varint(data, place)
            yield number, value
        elif wire == _BYTES:
            length, place = _read_varint(data, place)
            if length > end - place:
                raise _make_file_error()
            yield number, data[place : place + length]
            place += length
        elif wire in (_FIXED_32, _FIXED_64):
            form = "<f" if wire == _FIXED_32 else "<d"
            if end - place < struct.calcsize(form):
                raise _make_file_error()
            yield number, struct.unpack_from(form, data, place)[0]
            place += struct.calcsize(form)
        else:
            raise _make_file_error()


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Return a number and the place behind it."""
    if place < len(data) and data[place] < 0x80:  # nearly all have one byte
        return data[place], place + 1
    number = 0
    for i, byte in enumerate(data[place : place + _MAX_VARINT_BYTES]):
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return number, place + i + 1
    raise _make_file_error()


def _check_kind(value: Field, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise _make_file_error()
    return value


def _make_file_error() -> AuditError:
    return AuditError("This is not a complete SentencePiece model.", do=COPY_FILE)


def build_fast_file(
    model: PieceModel, *, kind: str, settings: Settings, added_tokens: Mapping[int, str]
) -> Component:
    """Return the content of tokenizer.json for a SentencePiece model and a class of tokenizer.

    `added_tokens` are those that other files of the tokenizer add behind the vocabulary.
    """
    roles = {
        role: read_token(settings.get(role)) or token
        for role, token in SPECIAL_TOKENS[kind].items()
    }
    roles |= {role: token for role in _ROLES if (token := read_token(settings.get(role)))}
    vocabulary, unk_id = _arrange_vocabulary(model, kind=kind, roles=roles, settings=settings)
    ids = {piece: i for i, (piece, _) in enumerate(vocabulary)}
    tokens = {
        ids[piece]: (piece, number == _CONTROL)
        for (piece, _), number in zip(model.pieces, model.kinds, strict=True)
        if number in (_CONTROL, _USER_DEFINED) and piece in ids
    }
    tokens |= {i: (token, True) for i, token in added_tokens.items() if ids.get(token, i) == i}
    placed = {token for token, _ in tokens.values()}
    for role in _ROLES:
        token = roles.get(role, "")
        if token and token in ids:
            tokens[ids[token]] = (token, True)
        elif token and kind == "DebertaV2Tokenizer" and token not in placed:
            # Its published files hold no mask token: transformers puts it behind the vocabulary.
            tokens[max([len(vocabulary) - 1, *tokens]) + 1] = (token, True)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            _describe_token(
                i, token, is_special=is_special, is_mask=token == roles.get("mask_token")
            )
            for i, (token, is_special) in sorted(tokens.items())
        ],
        "normalizer": build_normalizer(model, kind=kind, settings=settings),
        "pre_tokenizer": _build_pre_tokenizer(model, kind=kind, settings=settings),
        "post_processor": _build_post_processor(kind, roles=roles, ids=ids),
        "decoder": None,
        "model": {
            "type": "Unigram",
            "unk_id": unk_id,
            "vocab": [list(piece) for piece in vocabulary],
            "byte_fallback": model.has_byte_fallback,
        },
    }


def read_token(token: JsonValue) -> str:
    """Return the text of a special token in settings; "" for none."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else ""


def _describe_token(i: int, token: str, *, is_special: bool, is_mask: bool) -> Component:
    flags = dict.fromkeys(("single_word", "rstrip", "normalized"), False)
    return {"id": i, "content": token, "special": is_special, "lstrip": is_mask, **flags}


def _arrange_vocabulary(
    model: PieceModel, *, kind: str, roles: Mapping[str, str], settings: Settings
) -> tuple[Pieces, int]:
    """Return the pieces in the order of the model's embedding, and the place of the unknown one.

    Models that were trained with fairseq have four special tokens before the pieces, in place of
    those of SentencePiece, and the mask behind them.
    """
    pieces = model.pieces
    if kind == "CamembertTokenizer":
        head = [
            ("<s>NOTUSED", 0.0),
            (roles["pad_token"], 0.0),
            ("</s>NOTUSED", 0.0),
            (roles["unk_token"], 0.0),
            ("<unk>NOTUSED", -100.0),
        ]
        return [*head, *pieces[1:], (roles["mask_token"], 0.0)], 3
    if kind == "XLMRobertaTokenizer":
        head = [(roles[f"{role}_token"], 0.0) for role in ("bos", "pad", "eos", "unk")]
        return [*head, *pieces[3:], (roles["mask_token"], 0.0)], 3
    if kind == "AlbertTokenizer":
        # ALBERT never joins a digit and the comma behind it.
        ends = [piece[-1:] == "," and piece[-2:-1].isdigit() for piece, _ in pieces]
        pieces = [
            (piece, score - 100 if is_end else score)
            for (piece, score), is_end in zip(pieces, ends, strict=True)
        ]
    if kind == "T5Tokenizer":
        n_extra = settings.get("extra_ids", 100)
        n_extra = n_extra if type(n_extra) is int else 0
        pieces = [*pieces, *((f"<extra_id_{i}>", 0.0) for i in reversed(range(n_extra)))]
    return pieces, model.unk_id


def build_normalizer(model: PieceModel, *, kind: str, settings: Settings) -> Component:
    """Return the normalizer in the form of tokenizer.json."""
    text = base64.b64encode(model.character_map).decode("ascii")
    characters: list[JsonValue] = (
        [{"type": "Precompiled", "precompiled_charsmap": text}] if text else []
    )
    is_lower = settings.get("do_lower_case")
    is_lower = kind == "AlbertTokenizer" if is_lower is None else is_lower
    lower: list[JsonValue] = [{"type": "Lowercase"}] if is_lower else []
    strip: Component = {
        "type": "Strip",
        "strip_left": kind == "DebertaV2Tokenizer",
        "strip_right": True,
    }
    strips: list[JsonValue] = [strip] if model.removes_spaces else []
    parts: list[JsonValue] = []
    if kind == "AlbertTokenizer":
        parts += [_replace(quotes, by='"') for quotes in ("``", "''")]
        if not settings.get("keep_accents"):
            parts += [{"type": "NFKD"}, {"type": "StripAccents"}]
        parts += [*lower, *characters, *strips]
    elif kind == "DebertaV2Tokenizer":
        parts += [*lower, *strips, *characters]
    else:
        parts += [*lower, *characters, *strips]
    if model.removes_spaces:
        parts.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
    elif _is_prefixed(model, settings):
        # Metaspace writes no mark before a text that begins with one.
        first: Component = {"type": "Replace", "pattern": {"Regex": r"\A▁"}, "content": MARK * 2}
        parts += [_replace(" ", by=MARK), first]
    return {"type": "Sequence", "normalizers": parts}


def _is_prefixed(model: PieceModel, settings: Settings) -> bool:
    return model.adds_prefix and settings.get("add_prefix_space") is not False


def _replace(text: str, *, by: str) -> Component:
    return {"type": "Replace", "pattern": {"String": text}, "content": by}


def _build_pre_tokenizer(model: PieceModel, *, kind: str, settings: Settings) -> Component:
    parts: list[JsonValue] = []
    if kind == "DebertaV2Tokenizer" and settings.get("split_by_punct"):
        parts.append({"type": "Punctuation", "behavior": "Isolated"})
    parts.append(
        {
            "type": "Metaspace",
            "replacement": MARK,
            "prepend_scheme": "always" if _is_prefixed(model, settings) else "never",
            # Some models have pieces of several words.
            "split": not any(MARK in piece[1:] for piece, _ in model.pieces),
        }
    )
    return {"type": "Sequence", "pretokenizers": parts}


def _build_post_processor(
    kind: str, *, roles: Mapping[str, str], ids: Mapping[str, int]
) -> Component | None:
    """Return the frame of special tokens around a text in the form of tokenizer.json."""
    first_token, last_token = roles.get("cls_token", ""), roles.get("sep_token", "")
    if kind == "T5Tokenizer":
        first_token, last_token = "", roles["eos_token"]
    if kind == "LlamaTokenizer" or last_token not in ids or first_token not in (*ids, ""):
        return None
    is_fairseq = SPECIAL_TOKENS[kind] is _FAIRSEQ
    second = 0 if is_fairseq or kind == "T5Tokenizer" else 1

    def special(token: str, type_id: int = 0) -> list[JsonValue]:
        return [{"SpecialToken": {"id": token, "type_id": type_id}}] if token else []

    single: list[JsonValue] = [
        *special(first_token),
        {"Sequence": {"id": "A", "type_id": 0}},
        *special(last_token),
    ]
    second_text: list[JsonValue] = [
        {"Sequence": {"id": "B", "type_id": second}},
        *special(last_token, second),
    ]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, *(special(last_token) if is_fairseq else []), *second_text],
        "special_tokens": {
            token: {"id": token, "ids": [ids[token]], "tokens": [token]}
            for token in (first_token, last_token)
            if token
        },
    }
