"""Check that tokenizer.json has only known components with known settings, and few of each.

The library that runs the components has no limits. Eighteen replacements of "a" by "aa" turn four
letters into a gigabyte, and an empty pattern never ends. So the list below has every accepted
component with its settings, no component can make a text longer more than once, and anything else
is refused before the tokenizer is built. Regular expressions are those that published tokenizers
use, letter for letter. The map of a `Precompiled` normalizer is read in full: it can make a
character at most `MAX_REPLACEMENT_BYTES` long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pydantic import JsonValue

from audit.errors import AuditError
from audit.models.character_map import decode_character_map
from audit.models.model_folder import SAME_FILE

MAX_TOKEN_CHARS = 1_000
"""Maximum for one token. The longest tokens of published vocabularies have some 250."""
MAX_ADDED_CHARS = 200_000
"""Maximum for all added tokens together, because the library builds one automaton from them."""
_MAX_COMPONENTS = 12
_MAX_CHARS = 16
_MAX_WORD_CHARS = 1_000
_MAX_LENGTH = 1_000_000
_PARTS = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
}
"""Part of a tokenizer -> the key that holds a sequence of its components."""
_REPEATED = ("Replace", "Split", "Strip")
"""Components that may occur more than once, because none of them makes a text longer."""

SPACES_AROUND = r"\A +| +\z"
_ONE_OR_MORE = (" ", "▁", " {2,}", r"\s{2,}|[\n\r\t]", SPACES_AROUND, r"(?<!\n)^ ")
"""Regular expressions for spaces and their marks; a match is replaced by one character at most."""
MARKED_BEGINNINGS = {r"(?<!\n)^": "▁", r"\A▁": "▁▁"}
"""Regular expressions for the beginning of a text, with what replaces it: one more mark."""
_ENGLISH_ENDINGS = "'s|'t|'re|'ve|'m|'ll|'d"
_WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SIGNS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SMALL, _LARGE = r"\p{Ll}\p{Lm}\p{Lo}\p{M}", r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}"
_NO_LETTER = r"[^\r\n\p{L}\p{N}]?"
_SIGNS_WITH_SLASH = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_SPLITS = (
    rf"{_ENGLISH_ENDINGS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",
    rf"(?i:{_ENGLISH_ENDINGS})|{_WORDS}|\p{{N}}{{1,3}}|{_SIGNS}",
    rf"(?i:{_ENGLISH_ENDINGS})|{_WORDS}|\p{{N}}|{_SIGNS}",
    rf"{_NO_LETTER}[{_LARGE}]*[{_SMALL}]+|{_NO_LETTER}[{_LARGE}]+[{_SMALL}]*|\p{{N}}"
    rf"|{_SIGNS_WITH_SLASH}",
    rf"{_NO_LETTER}[{_LARGE}]*[{_SMALL}]+(?i:{_ENGLISH_ENDINGS})?"
    rf"|{_NO_LETTER}[{_LARGE}]+[{_SMALL}]*(?i:{_ENGLISH_ENDINGS})?|\p{{N}}{{1,3}}"
    rf"|{_SIGNS_WITH_SLASH}",
)
"""Regular expressions by which byte-level tokenizers split words.

They are those of GPT-2, of Llama 3 and Phi 4, of Qwen 2 and 3, of Mistral Nemo, and of Phi 4 mini.
"""

Check = Callable[[JsonValue], bool]


def _is_flag(value: JsonValue) -> bool:
    return value is None or isinstance(value, bool)


def _is_text(value: JsonValue) -> bool:
    return value is None or (isinstance(value, str) and len(value) <= _MAX_CHARS)


def _is_letter(value: JsonValue) -> bool:
    return isinstance(value, str) and len(value) <= 1


def _is_token(value: JsonValue) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TOKEN_CHARS


def _is_count(value: JsonValue) -> bool:
    return type(value) is int and 0 <= value <= _MAX_LENGTH


def _is_few(value: JsonValue) -> bool:
    return type(value) is int and 0 <= value <= _MAX_CHARS


def _is_pattern(value: JsonValue) -> bool:
    match value:
        case {"String": str(text), **rest} if not rest:
            return 0 < len(text) <= _MAX_CHARS
        # Only known ones: a hostile one ends the process inside the library.
        case {"Regex": str(text), **rest} if not rest:
            return text in _ONE_OR_MORE or text in MARKED_BEGINNINGS
    return False


def _is_split_pattern(value: JsonValue) -> bool:
    match value:
        case {"Regex": str(text), **rest} if not rest and text in _SPLITS:
            return True
    return _is_pattern(value)


def _is_character_map(value: JsonValue) -> bool:
    decode_character_map(value)
    return True


def _is_pair(value: JsonValue) -> bool:
    return (
        isinstance(value, list) and len(value) == 2 and _is_token(value[0]) and _is_count(value[1])
    )


def _is_template(value: JsonValue) -> bool:
    def is_piece(piece: JsonValue) -> bool:
        match piece:
            case {"SpecialToken": {"id": name, "type_id": n}, **rest} if not rest:
                return _is_token(name) and _is_few(n)
            case {"Sequence": {"id": "A" | "B", "type_id": n}, **rest} if not rest:
                return _is_few(n)
        return False

    return isinstance(value, list) and len(value) <= _MAX_CHARS and all(map(is_piece, value))


def _are_template_tokens(value: JsonValue) -> bool:
    def is_token(token: JsonValue) -> bool:
        match token:
            case {"id": name, "ids": list(ids), "tokens": list(texts), **rest} if not rest:
                is_short = len(ids) <= _MAX_CHARS and len(texts) <= _MAX_CHARS
                return (
                    is_short
                    and _is_token(name)
                    and all(map(_is_count, ids))
                    and all(map(_is_token, texts))
                )
        return False

    return (
        isinstance(value, dict) and len(value) <= _MAX_CHARS and all(map(is_token, value.values()))
    )


def _make_choice_check(*values: str) -> Check:
    return lambda value: value in values


_BEHAVIOURS = _make_choice_check(
    "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"
)
_BYTE_LEVEL = {"add_prefix_space": _is_flag, "trim_offsets": _is_flag, "use_regex": _is_flag}
_METASPACE = {
    "replacement": _is_text,
    "str_rep": _is_text,
    "add_prefix_space": _is_flag,
    "split": _is_flag,
    "prepend_scheme": _make_choice_check("always", "first", "never"),
}
_SETTINGS: Mapping[str, Mapping[str, Mapping[str, Check]]] = {
    "normalizer": {
        "BertNormalizer": {
            "clean_text": _is_flag,
            "handle_chinese_chars": _is_flag,
            "strip_accents": _is_flag,
            "lowercase": _is_flag,
        },
        **{
            kind: {}
            for kind in (
                "NFC",
                "NFD",
                "NFKC",
                "NFKD",
                "Nmt",
                "Lowercase",
                "StripAccents",
                "ByteLevel",
            )
        },
        "Precompiled": {"precompiled_charsmap": _is_character_map},
        "Strip": {"strip_left": _is_flag, "strip_right": _is_flag},
        "Replace": {"pattern": _is_pattern, "content": _is_text},
        "Prepend": {"prepend": lambda value: value is None or _is_letter(value)},
    },
    "pre_tokenizer": {
        "BertPreTokenizer": {},
        "Whitespace": {},
        "WhitespaceSplit": {},
        "UnicodeScripts": {},
        "ByteLevel": _BYTE_LEVEL,
        "Metaspace": _METASPACE,
        "Punctuation": {"behavior": _BEHAVIOURS},
        "Digits": {"individual_digits": _is_flag},
        "Split": {"pattern": _is_split_pattern, "behavior": _BEHAVIOURS, "invert": _is_flag},
    },
    "post_processor": {
        "BertProcessing": {"sep": _is_pair, "cls": _is_pair},
        "RobertaProcessing": {
            "sep": _is_pair,
            "cls": _is_pair,
            "trim_offsets": _is_flag,
            "add_prefix_space": _is_flag,
        },
        "TemplateProcessing": {
            "single": _is_template,
            "pair": _is_template,
            "special_tokens": _are_template_tokens,
        },
        "ByteLevel": _BYTE_LEVEL,
    },
    "decoder": {
        "WordPiece": {"prefix": _is_text, "cleanup": _is_flag},
        "BPEDecoder": {"suffix": _is_text},
        "ByteLevel": _BYTE_LEVEL,
        "Metaspace": _METASPACE,
        "ByteFallback": {},
        "Fuse": {},
        "CTC": {"pad_token": _is_text, "word_delimiter_token": _is_text, "cleanup": _is_flag},
        "Strip": {"content": _is_text, "start": _is_few, "stop": _is_few},
        "Replace": {"pattern": _is_pattern, "content": _is_text},
    },
}
_MODEL_SETTINGS: Mapping[str, Check] = {
    "type": _is_text,
    "vocab": lambda value: isinstance(value, dict | list),
    "unk_id": _is_count,
    "merges": lambda value: isinstance(value, list),
    "dropout": lambda value: True,
    "unk_token": lambda value: value is None or _is_token(value),
    "continuing_subword_prefix": _is_text,
    "end_of_word_suffix": _is_text,
    "fuse_unk": _is_flag,
    "byte_fallback": _is_flag,
    "ignore_merges": _is_flag,
    "max_input_chars_per_word": lambda value: type(value) is int and 0 < value <= _MAX_WORD_CHARS,
}
_ADDED_SETTINGS: Mapping[str, Check] = {
    "id": _is_count,
    "content": lambda value: _is_token(value) and value != "",
    **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), _is_flag),
}
_TRUNCATION: Mapping[str, Check] = {
    "direction": _make_choice_check("Left", "Right"),
    "max_length": _is_count,
    "stride": _is_count,
    "strategy": _make_choice_check("LongestFirst", "OnlyFirst", "OnlySecond"),
}
_PADDING: Mapping[str, Check] = {
    "strategy": lambda value: value == "BatchLongest" or _is_fixed(value),
    "direction": _make_choice_check("Left", "Right"),
    "pad_to_multiple_of": lambda value: value is None or _is_few(value),
    "pad_id": _is_count,
    "pad_type_id": _is_few,
    "pad_token": _is_token,
}


def _is_fixed(value: JsonValue) -> bool:
    match value:
        case {"Fixed": int(n), **rest} if not rest:
            return 0 < n <= _MAX_LENGTH
    return False


def refuse_unknown_parts(tokenizer: Mapping[str, JsonValue]) -> None:
    """Refuse a parsed tokenizer.json that holds anything but known components in their bounds."""
    components = {part: _flatten_components(tokenizer.get(part), part=part) for part in _PARTS}
    for part, part_components in components.items():
        kinds = [
            str(component["type"])
            for component in part_components
            if component["type"] not in _REPEATED
        ]
        if len(kinds) > len(set(kinds)):
            raise _make_part_error()
        for component in part_components:
            _refuse_other_settings(component, _SETTINGS[part].get(str(component["type"])))
            if component["type"] == "Replace" and _makes_longer(component):
                raise _make_part_error()
    # ByteLevel turns a byte into a character of up to two bytes, so two of them quadruple a text.
    text_components = [*components["normalizer"], *components["pre_tokenizer"]]
    if sum(component["type"] == "ByteLevel" for component in text_components) > 1:
        raise _make_part_error()
    _refuse_other_settings(tokenizer.get("model") or {}, _MODEL_SETTINGS)
    for token in list_entries(tokenizer.get("added_tokens")):
        _refuse_other_settings(token, _ADDED_SETTINGS)
    for part, settings in (("truncation", _TRUNCATION), ("padding", _PADDING)):
        if (value := tokenizer.get(part)) is not None:
            _refuse_other_settings(value, settings)


def _makes_longer(replacement: Mapping[str, JsonValue]) -> bool:
    """Whether a replacement may be longer than what it replaces, in characters."""
    content = str(replacement["content"] or "")
    match replacement["pattern"]:
        case {"String": str(text)}:
            return len(content) > len(text)
        case {"Regex": str(text)} if text not in _ONE_OR_MORE:
            # One more character at the beginning of a text, at most as often as there are
            # components.
            return content != MARKED_BEGINNINGS[text]
    return len(content) > 1


def list_entries(value: JsonValue) -> list[JsonValue]:
    """Return the entries of a list, which may be missing; refuse anything else."""
    if value and not isinstance(value, list):
        raise _make_part_error()
    return value if isinstance(value, list) else []


def _flatten_components(value: JsonValue, *, part: str) -> list[dict[str, JsonValue]]:
    """Return the components of a part of a tokenizer in order, with sequences flattened."""
    waiting: list[JsonValue] = [] if value is None else [value]
    components: list[dict[str, JsonValue]] = []
    n_seen = 0
    while waiting:
        component, n_seen = waiting.pop(0), n_seen + 1
        if not isinstance(component, dict) or n_seen > _MAX_COMPONENTS:
            raise _make_part_error()
        if component.get("type") == "Sequence":
            inside = component.get(_PARTS[part])
            if set(component) != {"type", _PARTS[part]} or not isinstance(inside, list):
                raise _make_part_error()
            waiting = inside[: _MAX_COMPONENTS + 1] + waiting
        elif isinstance(component.get("type"), str):
            components.append(component)
        else:
            raise _make_part_error()
    return components


def _refuse_other_settings(component: JsonValue, checks: Mapping[str, Check] | None) -> None:
    """Refuse a component with a setting that is unknown or out of bounds."""
    if checks is None or not isinstance(component, dict):
        raise _make_part_error()
    for key, value in component.items():
        if key != "type" and not (key in checks and checks[key](value)):
            raise _make_part_error()


def _make_part_error() -> AuditError:
    return AuditError(
        "The tokenizer uses a part that is not supported (a pattern, an unknown component, or too "
        "many or too large ones).",
        do="WordPiece, byte-pair and SentencePiece tokenizers are supported, as transformers saves "
        "them.",
    )


def refuse_large_tokens(tokens: Iterable[str]) -> None:
    """Refuse added tokens that are too long, singly or together."""
    lengths = [len(text) for text in tokens]
    if max(lengths, default=0) > MAX_TOKEN_CHARS or sum(lengths) > MAX_ADDED_CHARS:
        raise AuditError(
            "This holds more bytes, lines or entries than are read here (at most {most:,}).",
            do=SAME_FILE,
            most=MAX_ADDED_CHARS,
        )
