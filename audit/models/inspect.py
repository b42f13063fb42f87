"""Inspect a model directory without torch and without transformers.

All checks that need no weights are made here, so that pages can list models and show why one is
refused. `load.py` reads the weights of models that pass.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from safetensors import safe_open

from audit.errors import AuditError
from audit.foreign import locate_errors, open_regular, parse_json_value, refuse_errors
from audit.home import data_home
from audit.models.case import (
    Normalizer,
    build_bert_normalizer,
    build_japanese_normalizer,
    refuse_unfit_case,
)
from audit.models.components import (
    MAX_TOKEN_CHARS,
    refuse_large_tokens,
    refuse_unknown_parts,
)
from audit.shelf import fingerprint

LABEL = "trained"
"""First part of a trained model's identifier; the second is its run's."""

MODEL_FOLDER = "model"
RUN_FILE = "training.json"
_MAX_RUN_BYTES = 1_000_000
_COPY_FILE = "Copy the file again from where the model was saved."


def list_trained_models() -> Iterator[tuple[str, Path]]:
    """Yield identifier and directory of every model whose training has written one, by name."""
    with suppress(AuditError, OSError):  # code that needs the data directory reports the reason
        for run in sorted((data_home() / "models").iterdir()):
            directory = run / MODEL_FOLDER
            is_plain = not run.is_symlink() and not directory.is_symlink()
            if is_plain and (directory / "config.json").is_file():
                yield f"{LABEL}/{run.name}", directory


def find_trained_name(directory: Path) -> str:
    """Return the name of a model that was trained here; "" for any other directory.

    The name is its title, or else the model it started from and the time, or else the name of its
    run's folder. A snapshot of the training has its directory's name added.
    """
    record = directory.parent / RUN_FILE
    is_copy = directory.name.startswith(f"{MODEL_FOLDER}-")
    if not (is_copy or directory.name == MODEL_FOLDER) or not record.is_file():
        return ""
    name = directory.parent.name
    with suppress(AuditError, OSError), open_regular(record) as file:
        run = parse_json(file.read(_MAX_RUN_BYTES), place=name)
        title, parent, created = (str(run.get(k) or "") for k in ("title", "parent", "created"))
        origin = f"{parent} {created[:16].replace('T', ' ')}" if parent and created else name
        name = " ".join(title.split()) or origin
    return f"{name} ({directory.name})" if is_copy else name


@contextmanager
def _locate_errors(place: str) -> Iterator[None]:
    """Add a place to the errors of a block that have none."""
    try:
        yield
    except AuditError as error:
        if error.where:
            raise
        raise AuditError(error.what, where=place, do=error.do) from None


def _refuse_more(n: int, *, than: int) -> None:
    if n > than:
        raise AuditError(
            "This holds more bytes, lines or entries than are read here (at most {most:,}).",
            most=than,
        )


@dataclass(frozen=True)
class ModelFolder:
    """A checked directory and the plain files in it.

    `path` has its links resolved; `name` is the model's name in messages and results. Only those of
    the `files` that the model needs are opened, and never a pickle.
    """

    path: Path
    name: str
    files: tuple[str, ...]

    def locate(self, file: str = "") -> str:
        """Return the place for a message: the model's name and a file in it."""
        return f"{self.name}/{_make_printable(file)}" if file else self.name

    def read(self, file: str, *, max_bytes: int) -> bytes:
        """Read one small file whole."""
        if file not in self.files:
            raise AuditError("The file {file} is missing.", where=self.name, file=file)
        with _locate_errors(self.locate(file)):
            try:
                with open_regular(self.path / file) as stream:
                    data = stream.read(max_bytes + 1)
            except OSError as fault:
                raise make_read_error(fault, place=self.locate(file)) from None
            _refuse_more(len(data), than=max_bytes)
        return data

    def json(self, file: str, *, max_bytes: int) -> dict[str, object]:
        """Read one JSON object, as `parse_json` does."""
        return parse_json(self.read(file, max_bytes=max_bytes), place=self.locate(file))


def make_read_error(fault: Exception, *, place: str) -> AuditError:
    """Return the error for a file that the system refuses to read, without its path."""
    return AuditError(
        "It cannot be read ({reason}).",
        where=place,
        do="Check that it exists and that you may read it.",
        reason=getattr(fault, "strerror", None) or type(fault).__name__,
    )


def parse_json(data: bytes, *, place: str) -> dict[str, object]:
    """Parse a JSON object strictly, as `audit.foreign.parse_json_value` does."""
    refusal = AuditError("This is not a valid JSON object.", where=place, do=_COPY_FILE)
    value = parse_json_value(data, refusal=refusal)
    if not isinstance(value, dict):
        raise refusal
    return value


def open_folder(path: Path) -> ModelFolder:
    """Check every entry of a model directory without opening any."""
    try:
        root = path.resolve(strict=True)
        name = find_display_name(root)
        with _locate_errors(name):
            files = tuple(entry.name for entry in sorted(root.iterdir()) if _is_file(entry))
    except (OSError, ValueError, RuntimeError) as fault:
        raise make_read_error(fault, place=path.name) from None
    return ModelFolder(root, name, files)


def find_display_name(root: Path) -> str:
    """Return the name of a model's directory in messages and results."""
    # In a Hugging Face cache the directory's own name is a revision; the model's is two above.
    return _make_printable(
        root.parent.parent.name if _is_snapshot(root) else find_trained_name(root) or root.name
    )


def _is_snapshot(root: Path) -> bool:
    return root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--")


def _is_file(entry: Path) -> bool:
    """Whether an entry is a file, not a directory; anything else is refused."""
    root = entry.parent
    # Snapshots of a Hugging Face cache link into the blobs of the same model.
    home = root.parent.parent if _is_snapshot(root) else root
    is_own = not entry.is_symlink() or entry.resolve().is_relative_to(home)
    if not is_own or not (entry.is_file() or entry.is_dir()):
        raise AuditError(
            "{file} is a link that leads out of the model's directory or nowhere, or neither a "
            "file nor a directory.",
            do="Replace a link by a copy of the file.",
            file=_make_printable(entry.name),
        )
    return entry.is_file()


def _make_printable(name: str) -> str:
    return "".join(ch if ch.isprintable() and ch != '"' else "?" for ch in name)[:80]


MAX_VOCABULARY = 1_000_000
_MAX_CONFIG_BYTES = 1_000_000
_ATTENTION_KEYS = ("attn_implementation", "experts_implementation")
_PLAIN_ATTENTION = (None, "eager", "sdpa")
_SAME_CONFIG = "Check that this is the config.json that was saved with the model."
_CODE_KEYS = {"auto_map", "trust_remote_code", "custom_pipelines", "quantization_config"}

Activation = Literal[
    "gelu", "gelu_new", "gelu_python", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish"
]
Id = Annotated[int, Field(ge=0, le=MAX_VOCABULARY)]
VocabularySize = Annotated[int, Field(ge=1, le=MAX_VOCABULARY)]
Layers = Annotated[int, Field(ge=1, le=200)]
Width = Annotated[int, Field(ge=1, le=16_384)]
InnerWidth = Annotated[int, Field(ge=1, le=8 * 16_384)]
Heads = Annotated[int, Field(ge=1, le=512)]
DropoutRate = Annotated[float, Field(ge=0, lt=1)]


class ModelConfig(BaseModel):
    """The settings that determine a masked language model, each within its bounds.

    A field's alias is its name in `config.json`; its default is that of transformers for a missing
    setting. `n_position_rows` is the size of the position table, `is_tied` says whether the head's
    matrix is the word embedding.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True
    )

    architecture: ClassVar[str]
    n_layers: Layers
    hidden_size: Width = 768
    n_heads: Heads
    intermediate_size: InnerWidth = 3072
    hidden_dropout: DropoutRate
    attention_dropout: DropoutRate
    vocab_size: VocabularySize = 30522
    n_position_rows: int = Field(default=512, ge=2, le=131_072, alias="max_position_embeddings")
    pad_token_id: Id | None = 0
    is_tied: bool = Field(default=True, alias="tie_word_embeddings")
    settings: dict[str, Any]
    """All settings with their values in the file, under the names that transformers uses."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        is_inside = self.pad_token_id is None or self.pad_token_id < self.vocab_size
        if self.hidden_size % self.n_heads or not is_inside or self.n_positions < 2:
            raise AuditError(
                "Its settings contradict one another: width and heads, padding token and "
                "vocabulary, or the number of positions.",
                do=_SAME_CONFIG,
            )
        return self

    @property
    def n_positions(self) -> int:
        """Longest input in tokens, special tokens included."""
        return self.n_position_rows


class _Bert(ModelConfig):
    architecture = "bert"
    n_layers: Layers = Field(default=12, alias="num_hidden_layers")
    n_heads: Heads = Field(default=12, alias="num_attention_heads")
    hidden_dropout: DropoutRate = Field(default=0.1, alias="hidden_dropout_prob")
    attention_dropout: DropoutRate = Field(default=0.1, alias="attention_probs_dropout_prob")
    hidden_act: Activation = "gelu"
    type_vocab_size: int = Field(default=2, ge=1, le=64)
    layer_norm_eps: float = Field(default=1e-12, ge=0, le=0.1)


class _Roberta(_Bert):
    architecture = "roberta"
    vocab_size: VocabularySize = 50265
    pad_token_id: Id = 1

    @property
    def n_positions(self) -> int:
        """Longest input in tokens; positions are numbered from the padding token's id on."""
        return self.n_position_rows - self.pad_token_id - 1


class _DistilBert(ModelConfig):
    architecture = "distilbert"
    n_layers: Layers = 6
    hidden_size: Width = Field(default=768, alias="dim")
    n_heads: Heads = 12
    intermediate_size: InnerWidth = Field(default=3072, alias="hidden_dim")
    hidden_dropout: DropoutRate = Field(default=0.1, alias="dropout")
    attention_dropout: DropoutRate = 0.1
    activation: Activation = "gelu"
    sinusoidal_pos_embds: bool = False


_CONFIGS: dict[str, type[ModelConfig]] = {
    kind.architecture: kind for kind in (_Bert, _Roberta, _DistilBert)
}
# Settings that change the arithmetic and have only one accepted value; others are refused.
_ONLY: dict[str, object] = {
    "is_decoder": False,
    "position_embedding_type": "absolute",
}


def _walk_entries(value: object) -> Iterator[tuple[str, Any]]:
    """Yield every key and value of the objects in a value of JSON, however deep."""
    waiting = [value]
    while waiting:
        element = waiting.pop()
        if isinstance(element, dict):
            yield from element.items()
            element = list(element.values())
        waiting += element if isinstance(element, list) else ()


def refuse_code_keys(value: object, *, place: str) -> None:
    """Refuse settings by which a file could load code.

    These are `auto_map`, `trust_remote_code`, quantisation, any "kernel" key, and an attention or
    experts implementation that transformers does not ship.
    """
    for key, item in _walk_entries(value):
        name = key.lower()
        is_attention = any(part in name for part in _ATTENTION_KEYS)
        is_foreign = is_attention and item not in _PLAIN_ATTENTION
        if name in _CODE_KEYS or "kernel" in name or is_foreign:
            raise AuditError(
                "The setting {key} can load code or change the arithmetic; such a model is not "
                "loaded.",
                where=place,
                do="Remove the setting if the model is a plain BERT, RoBERTa or DistilBERT.",
                key=f'"{_make_printable(key)}"',
            )


def parse_config(raw: Mapping[str, object], *, place: str) -> ModelConfig:
    """Check a parsed `config.json` against the allow-list and its bounds."""
    refuse_code_keys(raw, place=place)
    kind = _CONFIGS.get(str(raw.get("model_type")))
    with _locate_errors(place):
        if kind is None:
            raise AuditError(
                "Models of the kind {kind} cannot be audited.",
                do="The kinds that can: BERT, RoBERTa and DistilBERT.",
                kind=f'"{_make_printable(str(raw.get("model_type")))}"',
            )
        wrong = [key for key, only in _ONLY.items() if raw.get(key) not in (only, None)]
        raw_settings = {
            key: raw.get(key, field.default)
            for name, field in kind.model_fields.items()
            if (key := field.alias or name) != "settings"
        }
        try:
            config = kind.model_validate(raw_settings | {"settings": raw_settings})
        except ValidationError as error:
            wrong += [str(error.errors(include_input=False)[0]["loc"][0])]
        if wrong:
            raise AuditError(
                "The setting {key} = {raw} is not supported or out of bounds.",
                do=_SAME_CONFIG,
                key=wrong[0],
                raw=f'"{_make_printable(str(raw[wrong[0]]))}"',
            )
    return config


Shape = tuple[int, ...]


class _Layout(NamedTuple):
    """Parts of a model, each with a weight and a bias, and their sizes.

    v: vocabulary, d: width, i: inner width. The head's matrix is the last part of `head`.
    """

    layers: str
    layer: Mapping[str, str]
    head: Mapping[str, str]
    bias: str


_BERT_LAYER = {
    "attention.self.query": "dd",
    "attention.self.key": "dd",
    "attention.self.value": "dd",
    "attention.output.dense": "dd",
    "attention.output.LayerNorm": "d",
    "output.LayerNorm": "d",
    "intermediate.dense": "id",
    "output.dense": "di",
}
_LAYOUTS = {
    "bert": _Layout(
        "encoder.layer",
        _BERT_LAYER,
        {
            "cls.predictions.transform.dense": "dd",
            "cls.predictions.transform.LayerNorm": "d",
            "cls.predictions.decoder": "vd",
        },
        "cls.predictions.bias",
    ),
    "roberta": _Layout(
        "encoder.layer",
        _BERT_LAYER,
        {"lm_head.dense": "dd", "lm_head.layer_norm": "d", "lm_head.decoder": "vd"},
        "lm_head.bias",
    ),
    "distilbert": _Layout(
        "transformer.layer",
        {
            "attention.q_lin": "dd",
            "attention.k_lin": "dd",
            "attention.v_lin": "dd",
            "attention.out_lin": "dd",
            "sa_layer_norm": "d",
            "output_layer_norm": "d",
            "ffn.lin1": "id",
            "ffn.lin2": "di",
        },
        {"vocab_transform": "dd", "vocab_layer_norm": "d", "vocab_projector": "vd"},
        "vocab_projector.bias",
    ),
}
# Tensors of pre-training checkpoints besides the masked-LM head, and buffers of old versions.
_KNOWN_EXTRA = re.compile(
    r"(distil|ro)?bert(a)?\.(pooler\.dense\.(weight|bias)"
    r"|embeddings\.(position_ids|token_type_ids))|cls\.seq_relationship\.(weight|bias)"
)


def update_tensor_name(name: str) -> str:
    """Return the current name of a tensor: gamma and beta became weight and bias."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def find_shared_tensors(config: ModelConfig) -> dict[str, str]:
    """Return a map from names of tensors to second names of the same tensors in this model."""
    layout = _LAYOUTS[config.architecture]
    *_, decoder = layout.head
    same = {f"{decoder}.bias": layout.bias} if layout.bias != f"{decoder}.bias" else {}
    if config.is_tied:
        same[f"{decoder}.weight"] = f"{config.architecture}.embeddings.word_embeddings.weight"
    return same


def compute_expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return name and shape of every parameter of the masked language model."""
    root, layout = config.architecture, _LAYOUTS[config.architecture]
    sizes = {"v": config.vocab_size, "d": config.hidden_size, "i": config.intermediate_size}
    tables = {"word": sizes["v"], "position": config.n_position_rows}
    if isinstance(config, _Bert):
        tables["token_type"] = config.type_vocab_size
    shapes: dict[str, Shape] = {
        f"{root}.embeddings.{name}_embeddings.weight": (n, sizes["d"]) for name, n in tables.items()
    }
    shapes[layout.bias] = (sizes["v"],)
    parts = {f"{root}.embeddings.LayerNorm": "d", **layout.head}
    for i in range(config.n_layers):
        parts |= {f"{root}.{layout.layers}.{i}.{part}": d for part, d in layout.layer.items()}
    for name, letters in parts.items():
        shape = tuple(sizes[letter] for letter in letters)
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


SINGLE_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"

# A tensor takes some 150 bytes of a header.
_MAX_HEADER_BYTES = 4_000_000
_FLOATS = ("F16", "BF16", "F32", "F64")
_Header = dict[str, tuple[str, Shape]]


def _read_header(path: Path) -> _Header:
    """Read the number type ("F32", ...) and shape of each tensor; the library checks them."""
    broken = AuditError("This is not a whole safetensors file.", do=_COPY_FILE)
    try:
        with open_regular(path) as start:
            if int.from_bytes(start.read(8), "little") > _MAX_HEADER_BYTES:
                raise broken
    except OSError as fault:
        raise make_read_error(fault, place="") from None
    with refuse_errors(broken), safe_open(path, framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {
            name: (slice_.get_dtype(), tuple(slice_.get_shape())) for name, slice_ in slices.items()
        }


def _read_tensors(folder: ModelFolder) -> _Header:
    """Return the number type and shape of each tensor of the weights, by current names."""
    has_adapter = any(file.startswith("adapter_") for file in folder.files)
    if SINGLE_FILE not in folder.files or _INDEX_FILE in folder.files or has_adapter:
        raise AuditError(
            "The weights are not in one file {single_file}.",
            where=folder.name,
            do="Choose the directory into which the model was saved. Shards, adapters and forms "
            "that can run code are not read: load them with transformers on a machine that may run "
            "the model's code, merge an adapter, then save_pretrained into one file.",
            single_file=SINGLE_FILE,
        )
    with _locate_errors(folder.locate(SINGLE_FILE)):
        stored = _read_header(folder.path / SINGLE_FILE)
        header = {update_tensor_name(name): tensor for name, tensor in stored.items()}
        if len(header) != len(stored):
            raise AuditError("A tensor is there under its old and its new name.")
    return header


def _check_tensors(header: _Header, *, config: ModelConfig) -> None:
    """Check the tensors in a file's header against the configuration."""
    expected, twins = compute_expected_shapes(config), find_shared_tensors(config)
    if not any(name in header for name in expected if not name.startswith(config.architecture)):
        raise AuditError(
            "The model has no masked-language-model head, so it gives no word a probability.",
            do="Use the checkpoint that was saved as ...ForMaskedLM or ...ForPreTraining.",
        )
    twins |= {twin: name for name, twin in twins.items()}
    wrong = [name for name in expected if name not in header and twins.get(name) not in header]
    for name, (dtype, shape) in sorted(header.items()):
        is_right = shape == expected.get(name) and dtype in _FLOATS
        if not is_right and not (name not in expected and _KNOWN_EXTRA.fullmatch(name)):
            wrong.append(name)
    if wrong:
        raise AuditError(
            "{n} tensors are missing, unknown, or of another shape or number type than config.json "
            'promises (first: "{name}").',
            do="Check that config.json belongs to these weights, and save them unquantised as "
            "...ForMaskedLM.",
            n=len(wrong),
            name=_make_printable(wrong[0]),
        )


CONFIG_FILE = "tokenizer_config.json"
FAST_FILE = "tokenizer.json"
_LEGACY_FILES = ("added_tokens.json", "special_tokens_map.json")
_ALL_FILES = ("vocab.txt", "vocab.json", "merges.txt", FAST_FILE, *_LEGACY_FILES)

_MAX_TOKENIZER_BYTES = 32_000_000
_MAX_ADDED = 10_000
_JAPANESE = "BertJapaneseTokenizer"
_ANY_MODEL = ("WordPiece", "BPE", "WordLevel")
# Files without tokenizer.json, and the models that may be in it.
TOKENIZER_CLASSES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "BertTokenizer": (("vocab.txt",), ("WordPiece",)),
    "DistilBertTokenizer": (("vocab.txt",), ("WordPiece",)),
    "RobertaTokenizer": (("vocab.json", "merges.txt"), ("BPE",)),
    _JAPANESE: (("vocab.txt",), _ANY_MODEL),
    "PreTrainedTokenizerFast": ((FAST_FILE,), _ANY_MODEL),
}
_DEFAULT_CLASS = {
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "distilbert": "DistilBertTokenizer",
}
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
_FLAGS = (
    "do_lower_case",
    "tokenize_chinese_chars",
    "strip_accents",
    "do_word_tokenize",
    "do_subword_tokenize",
    "add_prefix_space",
    "trim_offsets",
    "clean_up_tokenization_spaces",
)
# Functions that build a normalizer from settings; other classes have it in tokenizer.json, or none.
_NORMALIZERS: Mapping[str, Callable[[Mapping[str, object]], Normalizer]] = {
    "BertTokenizer": build_bert_normalizer,
    "DistilBertTokenizer": build_bert_normalizer,
    _JAPANESE: build_japanese_normalizer,
}
# Not mecab_option, a command line: it can name files anywhere.
_MECAB = {"mecab_dic", "normalize_text", "do_lower_case"}
_JAPANESE_SETTINGS = {
    "word_tokenizer_type": ("basic", "mecab"),
    "subword_tokenizer_type": ("wordpiece", "character"),
    "mecab_kwargs": ("unidic_lite", "ipadic", "unidic"),
}


@dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer's files, entirely in memory.

    `kind` is the class in transformers. `settings` has the allowed settings of
    `tokenizer_config.json`. `used_files` has the contents of the files from which the tokenizer is
    built, `all_files` those of all its files. `tokens_by_id` has the token of each id;
    `added_tokens` are the tokens outside the vocabulary.
    """

    kind: str
    settings: Mapping[str, object]
    used_files: Mapping[str, bytes]
    all_files: Mapping[str, bytes]
    tokens_by_id: Mapping[int, str]
    added_tokens: frozenset[str]
    is_byte_level: bool

    def refuse_unfit_case(self, normalizer: Normalizer, *, place: str) -> None:
        """Refuse the tokenizer if it and its vocabulary do not agree about capitals and accents."""
        refuse_unfit_case(
            self.tokens_by_id.values(),
            normalizer,
            special=self.added_tokens,
            is_byte_level=self.is_byte_level,
            make_normalizer=_NORMALIZERS.get(self.kind),
            settings=self.settings,
            place=place,
        )


def _find_promised_normalizer(kind: str, settings: Mapping[str, object], fast: Any) -> Any:
    """Return the normalizer that a tokenizer's files describe; None if there is none."""
    if make_normalizer := _NORMALIZERS.get(kind):
        return make_normalizer(settings)
    return None if kind == "RobertaTokenizer" else fast.get("normalizer")


def _read_tokenizer_files(folder: ModelFolder, *, default_class: str) -> TokenizerFiles:
    """Read a tokenizer; `default_class` is used if its own configuration names no class."""
    all_files = {
        file: folder.read(file, max_bytes=_MAX_TOKENIZER_BYTES)
        for file in (CONFIG_FILE, *_ALL_FILES)
        if file in folder.files
    }
    with _locate_errors(folder.locate(CONFIG_FILE)):
        raw = _parse_settings(all_files.pop(CONFIG_FILE, b"{}"))
        settings = {key: value for key, value in raw.items() if key in _SETTINGS}
        _refuse_other_flags(settings)
        kind = _choose_tokenizer_class(str(raw.get("tokenizer_class") or default_class))
        if kind == _JAPANESE:
            _check_japanese(settings)
        decoder: Any = settings.get("added_tokens_decoder") or {}
        added_tokens = {int(i): str(token["content"]) for i, token in decoder.items()}
        refuse_large_tokens(_list_texts(settings))
    is_fast = FAST_FILE in all_files and kind != _JAPANESE
    needed = (FAST_FILE,) if is_fast else TOKENIZER_CLASSES[kind][0]
    if missing := [file for file in needed if file not in all_files]:
        raise AuditError(
            "The tokenizer's files are missing ({missing}).",
            where=folder.name,
            do="Copy the files that the tokenizer was saved with into the directory.",
            missing=" and ".join(missing),
        )
    used_files = {file: all_files[file] for file in (*needed, *_LEGACY_FILES) if file in all_files}
    tokens_by_id: dict[int, str] = {}
    fast: Any = {}
    for file, data in used_files.items():
        with _locate_errors(folder.locate(file)):
            if file == FAST_FILE:
                fast = parse_json(data, place="")
                tokens = _read_fast_vocabulary(fast, kind=kind)
                added_tokens |= {
                    int(token["id"]): token["content"] for token in fast.get("added_tokens") or ()
                }
            else:
                tokens = _read_vocabulary(file, data)
            tokens_by_id |= tokens
            if file == _LEGACY_FILES[0]:
                added_tokens |= tokens
            _refuse_more(max(map(len, tokens.values()), default=0), than=MAX_TOKEN_CHARS)
    if not tokens_by_id:
        raise AuditError("The vocabulary is empty.", where=folder.name)
    is_byte_level = kind == "RobertaTokenizer" or "ByteLevel" in json.dumps(
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
    )
    files.refuse_unfit_case(
        _find_promised_normalizer(kind, settings, fast), place=folder.locate(CONFIG_FILE)
    )
    return files


def _refuse_other_flags(settings: Mapping[str, object]) -> None:
    """Refuse flags that are neither true nor false, because the library interprets them freely."""
    for key in _FLAGS:
        if not isinstance(value := settings.get(key), bool | None):
            raise AuditError(
                "The setting {key} = {raw} is not supported or out of bounds.",
                do="Write true or false.",
                key=key,
                raw=f'"{_make_printable(str(value))}"',
            )


def _list_texts(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, including names of settings."""
    for key, item in _walk_entries(value):
        yield key
        for text in item if isinstance(item, list) else (item,):
            if isinstance(text, str):
                yield text


def _parse_settings(data: bytes) -> dict[str, object]:
    """Parse settings; refuse those that load code, and tables that slow down transformers."""
    raw = parse_json(data, place="")
    refuse_code_keys(raw, place="")
    _refuse_many_added(raw)
    return raw


def _refuse_many_added(value: object) -> None:
    # transformers adds them one by one, and each takes longer the more there are.
    for _, element in (("", value), *_walk_entries(value)):
        _refuse_more(len(element) if isinstance(element, list | dict) else 0, than=_MAX_ADDED)


def _choose_tokenizer_class(class_name: str) -> str:
    plain = class_name.removesuffix("Fast")
    kind_name = next((kind for kind in (class_name, plain) if kind in TOKENIZER_CLASSES), "")
    if not kind_name and class_name != "TokenizersBackend":
        raise AuditError(
            "Tokenizers of the class {shown} are not supported.",
            do="The classes that are: {classes}.",
            shown=plain[:60] if class_name.isidentifier() else "?",
            classes=", ".join(TOKENIZER_CLASSES),
        )
    return kind_name or "PreTrainedTokenizerFast"


def _check_japanese(settings: Mapping[str, object]) -> None:
    mecab = settings.get("mecab_kwargs") or {}
    if isinstance(mecab, dict) and {key for key, value in mecab.items() if value} <= _MECAB:
        mecab = mecab.get("mecab_dic", "unidic_lite")
    for key, values in _JAPANESE_SETTINGS.items():
        if {**settings, "mecab_kwargs": mecab}.get(key, values[0]) not in values:
            raise AuditError(
                "This {key} is not supported.",
                do="Supported: {values}.",
                key=key,
                values=", ".join(values),
            )


def _read_vocabulary(file: str, data: bytes) -> dict[int, str]:
    """Return the token of each id in one file of a tokenizer."""
    if file.endswith(".txt"):
        # Counted in the bytes: as objects they would be a hundred times as large.
        _refuse_more(data.count(b"\n"), than=MAX_VOCABULARY)
        with refuse_errors(AuditError("The vocabulary is not UTF-8 text.")):
            text = data.decode("utf-8").removesuffix("\n")
        lines = text.split("\n") if text and file == "vocab.txt" else []
        return {i: line.removesuffix("\r") for i, line in enumerate(lines)}
    if file in _LEGACY_FILES:
        raw = _parse_settings(data)
        refuse_large_tokens(_list_texts(raw))
        return _invert_vocabulary(raw) if file == "added_tokens.json" else {}
    return _invert_vocabulary(parse_json(data, place=""))


def _invert_vocabulary(vocab: object) -> dict[int, str]:
    tokens: Any = vocab if isinstance(vocab, dict) else {"": None}
    ids: dict[int, str] = {i: token for token, i in tokens.items() if type(i) is int and i >= 0}
    if len(ids) < len(tokens):
        raise AuditError("The vocabulary does not give each token its own number.")
    return ids


def _read_fast_vocabulary(raw: Mapping[str, Any], *, kind: str) -> dict[int, str]:
    """Return the token of each id in tokenizer.json, after checking that all parts are harmless."""
    added_tokens = raw.get("added_tokens") or []
    _refuse_many_added(added_tokens)
    refuse_unknown_parts(raw)
    refuse_large_tokens(token["content"] for token in added_tokens)
    model = raw.get("model") or {}
    # Files from before 2021 have no type: only byte-pair models have merges.
    model_type = model.get("type") or ("BPE" if "merges" in model else "WordPiece")
    if model_type not in TOKENIZER_CLASSES[kind][1] or model.get("dropout"):
        raise AuditError(
            "The tokenizer's model is not the one of a {kind}, or splits words at random "
            "(dropout).",
            do="Check tokenizer_class in tokenizer_config.json.",
            kind=kind,
        )
    return _invert_vocabulary(model.get("vocab")) | {
        int(token["id"]): token["content"] for token in added_tokens
    }


_DIGEST_VERSION = 1


@dataclass(frozen=True)
class ModelFiles:
    """A model directory whose files passed every check that needs no weights."""

    folder: ModelFolder
    config: ModelConfig
    tokenizer: TokenizerFiles

    @property
    def weights(self) -> Path:
        """The file of the weights."""
        return self.folder.path / SINGLE_FILE

    def digest(self, weights: str) -> str:
        """Return the model's digest from that of its weights, both SHA-256 in hexadecimal."""
        files = {
            name: hashlib.sha256(data).hexdigest()
            for name, data in self.tokenizer.all_files.items()
        }
        content = {
            "version": _DIGEST_VERSION,
            "architecture": self.config.architecture,
            "config": self.config.settings,
            "tokenizer": self.tokenizer.kind,
            "tokenizer_settings": self.tokenizer.settings,
            "tokenizer_files": files,
            "weights": {SINGLE_FILE: weights},
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("ascii")).hexdigest()


@dataclass(frozen=True)
class ModelSummary:
    """The facts about one model that a list of models shows.

    `n_parameters` counts tied numbers once; `tokenizer` is its class.
    """

    name: str
    config: ModelConfig
    n_parameters: int
    tokenizer: str


def read_model_files(path: Path) -> ModelFiles:
    """Read and check all files of a model directory except the weights themselves."""
    folder = open_folder(path)
    with refuse_errors(
        AuditError(
            "The model's files cannot be understood.",
            where=folder.name,
            do="Copy them again from where the model was saved.",
        )
    ):
        raw = folder.json("config.json", max_bytes=_MAX_CONFIG_BYTES)
        config = parse_config(raw, place=folder.locate("config.json"))
        with _locate_errors(folder.name):
            _check_tensors(_read_tensors(folder), config=config)
        default_class = str(raw.get("tokenizer_class") or _DEFAULT_CLASS[config.architecture])
        return ModelFiles(
            folder, config, _read_tokenizer_files(folder, default_class=default_class)
        )


def inspect_model(path: Path) -> ModelSummary:
    """Return a summary of the model in a directory, without torch."""
    files = read_model_files(path)
    shared_tensors = find_shared_tensors(files.config)
    sizes = {
        name: math.prod(shape) for name, shape in compute_expected_shapes(files.config).items()
    }
    n_parameters = sum(n for name, n in sizes.items() if name not in shared_tensors)
    return ModelSummary(files.folder.name, files.config, n_parameters, files.tokenizer.kind)


def compute_model_digest(path: Path) -> str:
    """Return the SHA-256 of everything that determines a model, in hexadecimal.

    The digest covers the used settings of `config.json`, all tokenizer files, and every byte of the
    weights. It does not depend on the place, the version or the name under which it was saved.
    """
    files = read_model_files(path)
    with locate_errors(files.folder.locate(SINGLE_FILE)):
        return files.digest(fingerprint(files.weights))
