"""Read the files of a tokenizer, and refuse what the library should not build."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from pydantic import JsonValue

from audit.errors import AuditError, Message
from audit.foreign import name_place, refuse_errors
from audit.models.architectures import SUPPORTED_KINDS, refuse_code_keys, walk_entries
from audit.models.case import (
    Normalizer,
    build_bert_normalizer,
    build_japanese_normalizer,
    refuse_unfit_case,
)
from audit.models.components import (
    MAX_TOKEN_CHARS,
    list_entries,
    refuse_large_tokens,
    refuse_unknown_parts,
)
from audit.models.mecab_dictionary import (
    MAX_DICTIONARY_BYTES,
    check_dictionary,
    find_dictionary_name,
)
from audit.models.model_config import FAST_TOKENIZER, MAX_VOCABULARY
from audit.models.model_folder import (
    COPY_FILE,
    COPY_TOKENIZER,
    FAST_FILE,
    LEGACY_FILES,
    PIECE_FILES,
    TOKENIZER_CONFIG_FILE,
    ModelFolder,
    make_printable,
    parse_json,
    refuse_more,
    require_members,
)
from audit.models.sentencepiece_file import (
    MAX_FILE_BYTES,
    SPECIAL_TOKENS,
    PieceModel,
    build_fast_file,
    build_normalizer,
    read_piece_model,
)

_MAX_VALUES, _MAX_OBJECTS = 2_500_000, 200_000
"""Maxima for tokenizer.json. A merge has three values, and a vocabulary can have 600,000 merges."""
_MAX_ADDED = 10_000
_MAX_SCORE = 1e6
"""Maximum size of a piece's score, a logarithm. Those of published vocabularies are below 200."""
_JAPANESE = "BertJapaneseTokenizer"
_BYTE_LEVEL = (
    "RobertaTokenizer",
    "LongformerTokenizer",
    "DebertaTokenizer",
    "GPT2Tokenizer",
    "Qwen2Tokenizer",
)
_ANY_MODEL = ("WordPiece", "BPE", "WordLevel", "Unigram")
# Files without tokenizer.json, and the models that may be in it.
TOKENIZER_CLASSES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "BertTokenizer": (("vocab.txt",), ("WordPiece",)),
    "DistilBertTokenizer": (("vocab.txt",), ("WordPiece",)),
    "RobertaTokenizer": (("vocab.json", "merges.txt"), ("BPE",)),
    "ElectraTokenizer": (("vocab.txt",), ("WordPiece",)),
    "LongformerTokenizer": (("vocab.json", "merges.txt"), ("BPE",)),
    "DebertaTokenizer": (("vocab.json", "merges.txt"), ("BPE",)),
    "CamembertTokenizer": (("sentencepiece.bpe.model",), ("Unigram",)),
    "XLMRobertaTokenizer": (("sentencepiece.bpe.model",), ("Unigram",)),
    "AlbertTokenizer": (("spiece.model",), ("Unigram",)),
    "BigBirdTokenizer": (("spiece.model",), ("Unigram",)),
    "DebertaV2Tokenizer": (("spm.model",), ("Unigram",)),
    "T5Tokenizer": (("spiece.model",), ("Unigram",)),
    "LlamaTokenizer": (("tokenizer.model",), ("Unigram", "BPE")),
    "GPT2Tokenizer": (("vocab.json", "merges.txt"), ("BPE",)),
    "Qwen2Tokenizer": (("vocab.json", "merges.txt"), ("BPE",)),
    "GPTNeoXTokenizer": ((FAST_FILE,), ("BPE",)),
    "GemmaTokenizer": ((FAST_FILE,), ("BPE", "Unigram")),
    _JAPANESE: (("vocab.txt",), _ANY_MODEL),
    FAST_TOKENIZER: ((FAST_FILE,), _ANY_MODEL),
}
_END_OF_TEXT = "<|endoftext|>"
_CAUSAL_TOKENS: Mapping[str, Mapping[str, str]] = {
    "GPT2Tokenizer": dict.fromkeys(("bos_token", "eos_token", "unk_token"), _END_OF_TEXT),
    "GPTNeoXTokenizer": dict.fromkeys(("bos_token", "eos_token", "unk_token"), _END_OF_TEXT),
    "Qwen2Tokenizer": {"eos_token": _END_OF_TEXT, "pad_token": _END_OF_TEXT},
    "GemmaTokenizer": {
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
    },
}
"""Class of a causal model's tokenizer -> its special tokens where the files name no others."""
_BOUNDARIES = ("add_bos_token", "add_eos_token")
"""Settings of causal classes; a tokenizer.json says itself what stands around a text."""
_SETTINGS = {
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
    "additional_special_tokens",
    "extra_special_tokens",
    "added_tokens_decoder",
    "do_lower_case",
    "keep_accents",
    "split_by_punct",
    "extra_ids",
    "tokenize_chinese_chars",
    "strip_accents",
    "never_split",
    "do_word_tokenize",
    "do_subword_tokenize",
    "word_tokenizer_type",
    "subword_tokenizer_type",
    "mecab_kwargs",
    "add_prefix_space",
    "trim_offsets",
    "errors",
    "model_max_length",
    "model_input_names",
    "padding_side",
    "truncation_side",
    "clean_up_tokenization_spaces",
}
_MAX_EXTRA = 1_000
_FLAGS = (
    "do_lower_case",
    "keep_accents",
    "split_by_punct",
    "tokenize_chinese_chars",
    "strip_accents",
    "do_word_tokenize",
    "do_subword_tokenize",
    "add_prefix_space",
    "trim_offsets",
    "clean_up_tokenization_spaces",
    *_BOUNDARIES,
)
# Functions that build a normalizer from settings; other classes have it in tokenizer.json, or none.
_NORMALIZERS: Mapping[str, Callable[[Mapping[str, JsonValue]], Normalizer]] = {
    "BertTokenizer": build_bert_normalizer,
    "DistilBertTokenizer": build_bert_normalizer,
    "ElectraTokenizer": build_bert_normalizer,
    _JAPANESE: build_japanese_normalizer,
}
# mecab_option is a command line that can name files anywhere; only `-u FILE` is read from it.
_MECAB = {"mecab_dic", "normalize_text", "do_lower_case", "mecab_option"}
_JAPANESE_SETTINGS = {
    "word_tokenizer_type": ("basic", "mecab"),
    "subword_tokenizer_type": ("wordpiece", "character"),
    "mecab_kwargs": ("unidic_lite", "ipadic", "unidic"),
}
_OTHER_SPLITTERS = ("jumanpp", "sudachi")
# Settings that split text whose words are split already as these programs split it.
_FOR_SPLIT_WORDS = '"word_tokenizer_type": "basic"'
_FOR_SPLIT_PIECES = (
    '"tokenizer_class": "AlbertTokenizer", "do_lower_case": false, "keep_accents": true'
)


@dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer's files, entirely in memory.

    `kind` is the class in transformers. `settings` has the allowed settings of
    `tokenizer_config.json`. `used_files` has the contents of the files from which the tokenizer is
    built (for a SentencePiece file a tokenizer.json made from it), `all_files` those of all its
    files. `tokens_by_id` has the token of each id; `added_tokens` are the tokens outside the
    vocabulary. `make_normalizer` builds the normalizer from settings; None if tokenizer.json has
    it, or there is none. `dictionary` is the file of MeCab's user dictionary, "" for none.
    """

    kind: str
    settings: Mapping[str, JsonValue]
    used_files: Mapping[str, bytes]
    all_files: Mapping[str, bytes]
    tokens_by_id: Mapping[int, str]
    added_tokens: frozenset[str]
    is_byte_level: bool
    make_normalizer: Callable[[Mapping[str, JsonValue]], Normalizer] | None
    dictionary: str

    @property
    def built_class(self) -> str:
        """The class in transformers that builds the tokenizer.

        transformers 5 builds many classes from the vocabulary alone and leaves out parts of
        tokenizer.json, such as the map of characters; so the file itself is used.
        """
        is_causal = self.kind in _CAUSAL_TOKENS and FAST_FILE in self.used_files
        return FAST_TOKENIZER if self.kind in SPECIAL_TOKENS or is_causal else self.kind

    @property
    def built_settings(self) -> Mapping[str, JsonValue]:
        """The settings with which the tokenizer is built, with its class's own special tokens."""
        tokens, known_tokens = _CAUSAL_TOKENS.get(self.kind, {}), {*self.tokens_by_id.values()}
        own_tokens = {role: token for role, token in tokens.items() if token in known_tokens}
        return {**SPECIAL_TOKENS.get(self.kind, {}), **own_tokens, **self.settings}

    def refuse_unfit_case(self, normalizer: Normalizer, *, place: str) -> None:
        """Refuse the tokenizer if it and its vocabulary do not agree about capitals and accents."""
        refuse_unfit_case(
            self.tokens_by_id.values(),
            normalizer,
            special=self.added_tokens,
            is_byte_level=self.is_byte_level,
            make_normalizer=self.make_normalizer,
            settings=self.settings,
            place=place,
        )


def read_tokenizer_files(
    folder: ModelFolder, *, model_config: Mapping[str, JsonValue]
) -> TokenizerFiles:
    """Read the tokenizer of a model with this config.json."""
    all_files = folder.read_tokenizer()
    with name_place(folder.locate(TOKENIZER_CONFIG_FILE)):
        raw = _parse_settings(all_files.pop(TOKENIZER_CONFIG_FILE, b"{}"))
        kind = _choose_tokenizer_class(raw, model_config=model_config)
        settings = _select_settings(raw, is_built=FAST_FILE not in all_files, kind=kind)
        dictionary = _check_japanese(settings) if kind == _JAPANESE else None
        added_tokens = _read_decoder(settings)
    if dictionary:
        all_files[dictionary.file] = _read_dictionary(dictionary, folder=folder)
    needed = _list_needed_files(kind, all_files, folder=folder)
    used_files = {file: all_files[file] for file in (*needed, *LEGACY_FILES) if file in all_files}
    make_normalizer = _NORMALIZERS.get(kind)
    places = {file: folder.locate(file) for file in used_files}
    if piece_file := next((file for file in needed if file in PIECE_FILES), ""):
        places[FAST_FILE] = places[piece_file]
        with name_place(places[piece_file]):
            refuse_more(len(used_files[piece_file]), than=MAX_FILE_BYTES)
            model = read_piece_model(used_files.pop(piece_file))
        legacy_tokens = _read_vocabularies(used_files, kind=kind, places=places).tokens_by_id
        fast_file = build_fast_file(
            model, kind=kind, settings=settings, added_tokens=added_tokens | legacy_tokens
        )
        used_files = {FAST_FILE: json.dumps(fast_file).encode("ascii"), **used_files}
        make_normalizer = partial(_make_piece_normalizer, model, kind)
    tokens_by_id, more_tokens, fast = _read_vocabularies(used_files, kind=kind, places=places)
    added_tokens |= more_tokens
    if not tokens_by_id:
        raise AuditError("The vocabulary is empty.", where=folder.name, do=COPY_TOKENIZER)
    is_byte_level = kind in _BYTE_LEVEL or "ByteLevel" in json.dumps(
        [fast.get("normalizer"), fast.get("pre_tokenizer")]
    )
    files = TokenizerFiles(
        kind,
        settings,
        used_files,
        all_files,
        tokens_by_id | added_tokens,
        frozenset({*added_tokens.values(), *_list_texts(settings)}),
        is_byte_level,
        make_normalizer,
        dictionary.file if dictionary else "",
    )
    normalizer = {} if kind in _BYTE_LEVEL else require_members(fast.get("normalizer"))
    files.refuse_unfit_case(
        make_normalizer(settings) if make_normalizer else normalizer or None,
        place=folder.locate(TOKENIZER_CONFIG_FILE),
    )
    return files


def _select_settings(
    raw: Mapping[str, JsonValue], *, is_built: bool, kind: str
) -> dict[str, JsonValue]:
    """Return the allowed settings; `is_built` if the tokenizer's class builds it, from no file."""
    known_settings = {*_SETTINGS, *(_BOUNDARIES if is_built and kind in _CAUSAL_TOKENS else ())}
    settings = {key: value for key, value in raw.items() if key in known_settings}
    _refuse_other_flags(settings)
    # The words of the table of added tokens are many more than its tokens.
    table = "added_tokens_decoder"
    refuse_large_tokens(_list_texts({key: v for key, v in settings.items() if key != table}))
    refuse_large_tokens(_read_decoder(settings).values())
    return settings


def _read_decoder(settings: Mapping[str, JsonValue]) -> dict[int, str]:
    """Return the token of each id in the settings' table of added tokens."""
    tokens = require_members(settings.get("added_tokens_decoder"))
    return {int(i): str(require_members(token)["content"]) for i, token in tokens.items()}


class _Vocabularies(NamedTuple):
    """The tokens by id, those outside the vocabulary, and the content of tokenizer.json."""

    tokens_by_id: dict[int, str]
    added_tokens: dict[int, str]
    fast: dict[str, JsonValue]


def _read_vocabularies(
    files: Mapping[str, bytes], *, kind: str, places: Mapping[str, str]
) -> _Vocabularies:
    """Read the tokens in a tokenizer's files, in the order of the files."""
    tokens_by_id: dict[int, str] = {}
    added_tokens: dict[int, str] = {}
    fast: dict[str, JsonValue] = {}
    for file, data in files.items():
        with name_place(places[file]):
            if file == FAST_FILE:
                fast = parse_json(data, place="", max_values=_MAX_VALUES, max_objects=_MAX_OBJECTS)
                tokens = _read_fast_vocabulary(fast, kind=kind)
                added_tokens |= _read_added_tokens(fast)
            else:
                tokens = _read_vocabulary(file, data)
            tokens_by_id |= tokens
            if file == LEGACY_FILES[0]:
                added_tokens |= tokens
            refuse_more(max(map(len, tokens.values()), default=0), than=MAX_TOKEN_CHARS)
    return _Vocabularies(tokens_by_id, added_tokens, fast)


def _list_needed_files(
    kind: str, all_files: Mapping[str, bytes], *, folder: ModelFolder
) -> tuple[str, ...]:
    """Return the files from which a tokenizer is built; refuse a folder that lacks one."""
    is_fast = FAST_FILE in all_files and kind != _JAPANESE
    needed = (FAST_FILE,) if is_fast else TOKENIZER_CLASSES[kind][0]
    if missing := [file for file in needed if file not in all_files]:
        raise AuditError(
            "The tokenizer's files are missing ({missing}).",
            where=folder.name,
            do="Copy the files that the tokenizer was saved with into the directory.",
            missing=" and ".join(missing),
        )
    return needed


def _make_piece_normalizer(
    model: PieceModel, kind: str, settings: Mapping[str, JsonValue]
) -> Normalizer:
    return build_normalizer(model, kind=kind, settings=settings)


def _refuse_other_flags(settings: Mapping[str, JsonValue]) -> None:
    """Refuse flags that are neither true nor false, because the library interprets them freely."""
    n_extra = settings.get("extra_ids", 0)
    is_few = type(n_extra) is int and 0 <= n_extra <= _MAX_EXTRA
    wrong = [key for key in _FLAGS if not isinstance(settings.get(key), bool | None)]
    for key in (*wrong, *([] if is_few else ["extra_ids"])):
        raise AuditError(
            "The setting {key} = {raw} is not supported or out of bounds.",
            do="Write true or false."
            if key in wrong
            else Message("Write a whole number from 0 to {most:,}.", most=_MAX_EXTRA),
            key=key,
            raw=f'"{make_printable(str(settings[key]))}"',
        )


def _list_texts(value: JsonValue) -> Iterator[str]:
    """Yield every text in a JSON value, including names of settings."""
    for key, item in walk_entries(value):
        yield key
        for text in item if isinstance(item, list) else (item,):
            if isinstance(text, str):
                yield text


def _parse_settings(data: bytes) -> dict[str, JsonValue]:
    """Parse settings; refuse those that load code, and tables that slow down transformers."""
    raw = parse_json(data, place="")
    refuse_code_keys(raw, place="")
    _refuse_many_added(raw)
    return raw


def _refuse_many_added(value: JsonValue) -> None:
    # transformers adds them one by one, and each takes longer the more there are.
    for _, element in (("", value), *walk_entries(value)):
        refuse_more(len(element) if isinstance(element, list | dict) else 0, than=_MAX_ADDED)


def _choose_tokenizer_class(
    raw: Mapping[str, JsonValue], *, model_config: Mapping[str, JsonValue]
) -> str:
    """Return the class that the tokenizer's settings name, or the model's, or that of its kind."""
    own_class = raw.get("tokenizer_class") or model_config.get("tokenizer_class")
    class_name = str(own_class or SUPPORTED_KINDS[str(model_config["model_type"])].tokenizer)
    plain = class_name.removesuffix("Fast")
    kind_name = next((kind for kind in (class_name, plain) if kind in TOKENIZER_CLASSES), "")
    if not kind_name and class_name != "TokenizersBackend":
        raise AuditError(
            "Tokenizers of the class {shown} are not supported.",
            do="These classes are supported: {classes}.",
            shown=plain[:60] if class_name.isidentifier() else "?",
            classes=", ".join(TOKENIZER_CLASSES),
        )
    return kind_name or FAST_TOKENIZER


class _Dictionary(NamedTuple):
    """A user dictionary of MeCab: its file, and the system dictionary that it extends."""

    file: str
    system: str


def _check_japanese(settings: Mapping[str, JsonValue]) -> _Dictionary | None:
    """Refuse other settings than the supported ones; return the user dictionary, if any."""
    mecab = settings.get("mecab_kwargs") or {}
    system: JsonValue = mecab
    option: JsonValue = None
    if isinstance(mecab, dict) and {key for key, value in mecab.items() if value} <= _MECAB:
        system, option = mecab.get("mecab_dic", "unidic_lite"), mecab.get("mecab_option")
    file = find_dictionary_name(option) if option else None
    if option and not file:
        raise AuditError(
            "This MeCab option (mecab_option) is not supported.",
            do="Only `-u FILE.dic` is supported, where FILE.dic is a compiled user dictionary in "
            "the model's directory.",
        )
    splitter = settings.get("word_tokenizer_type")
    if splitter in _OTHER_SPLITTERS:
        has_pieces = settings.get("subword_tokenizer_type") == "sentencepiece"
        raise AuditError(
            "Words cannot be split with {splitter} here.",
            do="Split notes and passages into words with {splitter} beforehand, with a space "
            "between words (names in passages: [LAST] [FIRST]). Then copy the model's "
            "directory, and in the copy set {replacement} in tokenizer_config.json.",
            splitter=str(splitter),
            replacement=_FOR_SPLIT_PIECES if has_pieces else _FOR_SPLIT_WORDS,
        )
    for key, values in _JAPANESE_SETTINGS.items():
        if {**settings, "mecab_kwargs": system}.get(key, values[0]) not in values:
            raise AuditError(
                "This value of {key} is not supported.",
                do="Supported: {values}.",
                key=key,
                values=", ".join(values),
            )
    return _Dictionary(file, str(system)) if file else None


def _read_dictionary(dictionary: _Dictionary, *, folder: ModelFolder) -> bytes:
    """Read a user dictionary and check it before MeCab does."""
    if dictionary.file not in folder.files:
        raise AuditError(
            "MeCab's user dictionary {file} is not in the model's directory.",
            where=folder.name,
            do="Copy the compiled dictionary (.dic) into it.",
            file=make_printable(dictionary.file),
        )
    data = folder.read(dictionary.file, max_bytes=MAX_DICTIONARY_BYTES)
    with name_place(folder.locate(dictionary.file)):
        check_dictionary(data, system=dictionary.system)
    return data


def _read_vocabulary(file: str, data: bytes) -> dict[int, str]:
    """Return the token of each id in one file of a tokenizer."""
    if file.endswith(".txt"):
        # Counted in the bytes: as objects they would be a hundred times as large.
        refuse_more(data.count(b"\n"), than=MAX_VOCABULARY)
        with refuse_errors(AuditError("The vocabulary is not UTF-8 text.", do=COPY_FILE)):
            text = data.decode("utf-8").removesuffix("\n")
        lines = text.split("\n") if text and file == "vocab.txt" else []
        return {i: line.removesuffix("\r") for i, line in enumerate(lines)}
    if file in LEGACY_FILES:
        raw = _parse_settings(data)
        refuse_large_tokens(_list_texts(raw))
        return _invert_vocabulary(raw) if file == "added_tokens.json" else {}
    return _invert_vocabulary(parse_json(data, place=""))


def _invert_vocabulary(vocab: JsonValue) -> dict[int, str]:
    tokens = vocab if isinstance(vocab, dict) else {"": None}
    ids: dict[int, str] = {i: token for token, i in tokens.items() if type(i) is int and i >= 0}
    if len(ids) < len(tokens):
        raise AuditError(
            "The vocabulary does not give each token its own number.", do=COPY_TOKENIZER
        )
    return ids


def _read_fast_vocabulary(raw: Mapping[str, JsonValue], *, kind: str) -> dict[int, str]:
    """Return the token of each id in tokenizer.json, after checking that all parts are harmless."""
    _refuse_many_added(raw.get("added_tokens"))
    refuse_unknown_parts(raw)
    added_tokens = _read_added_tokens(raw)
    refuse_large_tokens(added_tokens.values())
    model = require_members(raw.get("model"))
    # Files from before 2021 have no type: only byte-pair models have merges.
    model_type = model.get("type") or ("BPE" if "merges" in model else "WordPiece")
    if model_type not in TOKENIZER_CLASSES[kind][1] or model.get("dropout"):
        raise AuditError(
            "The tokenizer's model is not the one of a {kind}, or splits words at random "
            "(dropout).",
            do="Check tokenizer_class in tokenizer_config.json. If it is right, the tokenizer is "
            "not supported.",
            kind=kind,
        )
    vocabulary = model.get("vocab")
    tokens_by_id = (
        _number_pieces(vocabulary, unk_id=model.get("unk_id"))
        if model_type == "Unigram"
        else _invert_vocabulary(vocabulary)
    )
    return tokens_by_id | added_tokens


def _read_added_tokens(raw: Mapping[str, JsonValue]) -> dict[int, str]:
    """Return the token of each id outside the vocabulary of tokenizer.json."""
    tokens = map(require_members, list_entries(raw.get("added_tokens")))
    return {int(str(token["id"])): str(token["content"]) for token in tokens}


def _number_pieces(vocabulary: JsonValue, *, unk_id: JsonValue) -> dict[int, str]:
    """Return the piece of each id of a Unigram model, whose pieces have scores.

    Without an unknown piece, the library fails at the first letter that it does not know.
    """
    entries = vocabulary if isinstance(vocabulary, list) else []
    refuse_more(len(entries), than=MAX_VOCABULARY)
    is_sound = type(unk_id) is int and 0 <= unk_id < len(entries)
    pieces = [*filter(None, map(_read_scored_piece, entries))]
    if not is_sound or len(pieces) < len(entries):
        raise AuditError(
            "The vocabulary is not a list of pieces with finite scores, or has no piece for "
            "unknown text.",
            do=COPY_FILE,
        )
    return dict(enumerate(pieces))


def _read_scored_piece(entry: JsonValue) -> str:
    """Return the piece of an entry; "" if it has none, or no finite score."""
    match entry:
        case [str(piece), int() | float() as score] if type(score) is not bool:
            return piece if abs(score) <= _MAX_SCORE else ""
    return ""
