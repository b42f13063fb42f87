"""A model directory, inspected without torch and without transformers.

Everything that can be known before a weight is read is decided here, so that pages can list
models and say why one is refused. `load.py` reads the weights of what passed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from audit.errors import AuditError
from audit.foreign import json_value, refusing
from audit.home import data_home
from audit.shelf import fingerprint

LABEL = "trained"
"""First part of a trained model's identifier; the second is its run's."""

MODEL_FOLDER = "model"
RUN_FILE = "training.json"
_MAX_RUN_BYTES = 1_000_000
_MAX_RUNS = 5_000


def trained_dir() -> Path | None:
    """Return the folder of the trained models; None where there is none, or no data directory."""
    try:
        folder = data_home() / "models"
    except AuditError:
        return None  # whoever needs the data directory says why
    return folder if folder.is_dir() else None


def trained_models() -> Iterator[tuple[str, Path]]:
    """Yield identifier and directory of every model whose training has written one, by name."""
    folder = trained_dir()
    try:
        runs = sorted(folder.iterdir())[:_MAX_RUNS] if folder else []
    except OSError:
        return
    for run in runs:
        directory = run / MODEL_FOLDER
        is_plain = not run.is_symlink() and not directory.is_symlink()
        if is_plain and (directory / "config.json").is_file():
            yield f"{LABEL}/{run.name}", directory


def trained_name(directory: Path) -> str:
    """Return what a model that was trained here is called; "" for any other directory.

    Its title, else the name of its run's folder; a copy kept on the way is told apart.
    """
    is_copy = directory.name.startswith(f"{MODEL_FOLDER}-")
    run = directory.parent
    if not (directory.name == MODEL_FOLDER or is_copy) or not (run / RUN_FILE).is_file():
        return ""
    title = _title(run / RUN_FILE) or run.name
    return f"{title} ({directory.name})" if is_copy else title


def _title(path: Path) -> str:
    unreadable = AuditError("The training's own file cannot be read.")
    try:
        with refusing(unreadable), path.open("rb") as file:
            known = json_value(file.read(_MAX_RUN_BYTES), refusal=unreadable)
    except AuditError:
        return ""  # it is shown by the name of its folder
    title = known.get("title") if isinstance(known, dict) else None
    return " ".join(title.split()) if isinstance(title, str) else ""


_MAX_ENTRIES = 10_000
_CODE_SUFFIXES = {".py", ".pyc", ".pyd", ".so", ".dll", ".dylib"}
_UNSAFE_WEIGHTS = {
    ".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".h5", ".msgpack", ".joblib", ".npy",
    ".npz", ".onnx", ".gguf", ".tflite", ".ot", ".pdparams", ".index", ".data-00000-of-00001",
}  # fmt: skip


@dataclass(frozen=True)
class ModelFolder:
    """A checked directory and the plain files in it.

    `path` has links resolved; `name` is what the model is called in messages and results; `files`
    may be opened; `unsafe` are pickled and other foreign weight files, which never are.
    """

    path: Path
    name: str
    files: tuple[str, ...]
    unsafe: tuple[str, ...]

    def where(self, file: str = "") -> str:
        """Return the place for a message: the model's name and a file in it."""
        return f"{self.name}/{file}" if file else self.name

    def read(self, file: str, *, max_bytes: int) -> bytes:
        """Read one small file whole."""
        if file not in self.files:
            raise AuditError(f"The file {file} is missing.", where=self.where())
        try:
            with (self.path / file).open("rb") as stream:
                data = stream.read(max_bytes + 1)
        except OSError as fault:
            raise unreadable(fault, where=self.where(file)) from None
        if len(data) > max_bytes:
            raise AuditError(
                f"The file is larger than {max_bytes // 1_000_000} MB.", where=self.where(file)
            )
        return data


def unreadable(fault: OSError, *, where: str) -> AuditError:
    """Return the error for a file that the system does not give out, without its path."""
    return AuditError(
        f"It cannot be read ({fault.strerror or type(fault).__name__}).",
        where=where,
        do="Check that it exists and that you may read it.",
    )


def open_folder(path: Path) -> ModelFolder:
    """Look at every entry of a model directory without opening any."""
    try:
        root = path.resolve(strict=True)
        if not root.is_dir():
            raise AuditError("This is not a directory.", where=path.name)
        entries = sorted(os.scandir(root), key=lambda entry: entry.name)
    except (OSError, ValueError, RuntimeError) as fault:
        reason = fault if isinstance(fault, OSError) else OSError(0, "not a valid path")
        raise unreadable(reason, where=path.name) from None
    name = display_name(root)
    if len(entries) > _MAX_ENTRIES:
        raise AuditError(f"The directory holds more than {_MAX_ENTRIES} entries.", where=name)
    try:
        files = [one.name for one in entries if _is_file(Path(one.path), root=root, name=name)]
    except OSError as fault:  # changed or closed since it was listed
        raise unreadable(fault, where=name) from None
    code = [file for file in files if Path(file).suffix.lower() in _CODE_SUFFIXES]
    if code:
        raise AuditError(
            "The directory holds program code; a model that needs code of its own is not loaded.",
            where=f"{name}/{_plain(code[0])}",
            do="Remove it if the model is a plain BERT, RoBERTa or DistilBERT.",
        )
    unsafe = tuple(f for f in files if Path(f).suffix.lower() in _UNSAFE_WEIGHTS)
    kept = tuple(f for f in files if f not in unsafe)
    return ModelFolder(path=root, name=name, files=kept, unsafe=unsafe)


def display_name(root: Path) -> str:
    """Return what a model's directory is called in messages and results."""
    # In a Hugging Face cache the directory's own name is a revision; the model's is two above.
    own = root.parent.parent.name if _is_snapshot(root) else trained_name(root) or root.name
    return _plain(own)


def _is_snapshot(root: Path) -> bool:
    return root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--")


def _is_file(entry: Path, *, root: Path, name: str) -> bool:
    """Whether the entry is a file to be opened; directories are not, all else is refused."""
    where = f"{name}/{_plain(entry.name)}"
    mode = entry.lstat().st_mode
    if stat.S_ISLNK(mode):
        # Snapshots of a Hugging Face cache link into the blobs of the same model.
        home = root.parent.parent if _is_snapshot(root) else root
        try:
            target = entry.resolve(strict=True)
        except (OSError, RuntimeError):
            raise AuditError("This is a link that leads nowhere.", where=where) from None
        if not target.is_relative_to(home):
            raise AuditError(
                "This is a link that leads out of the model's directory.",
                where=where,
                do="Replace the link by a copy of the file.",
            )
        mode = target.lstat().st_mode
    if stat.S_ISDIR(mode):
        return False
    if not stat.S_ISREG(mode):
        raise AuditError("This is neither a file nor a directory.", where=where)
    return True


def _plain(name: str) -> str:
    return "".join(ch if ch.isprintable() and ch != '"' else "?" for ch in name)[:80]


SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

# A tensor takes some 150 bytes of a header.
_MAX_HEADER_BYTES = 4_000_000
_MAX_TENSORS = 20_000
_DTYPE_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "U16": 2, "I16": 2, "F16": 2,
    "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8,
}  # fmt: skip
_SHARD_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}\.safetensors\Z")


@dataclass(frozen=True)
class TensorHeader:
    """One tensor as the file's header announces it.

    `dtype` as in the format: "F32", "F16", "BF16", ...; `file` is the one that holds it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str


def parse_json(data: bytes, *, where: str) -> dict[str, object]:
    """Parse a JSON object strictly, as `audit.foreign.json_value` does."""
    refusal = AuditError(
        "This is not a valid JSON object.",
        where=where,
        do="Copy the file again from where the model was saved.",
    )
    value = json_value(data, refusal=refusal)
    if not isinstance(value, dict):
        raise refusal
    return value


def read_header(path: Path, *, where: str) -> tuple[TensorHeader, ...]:
    """Read and check the header of one safetensors file."""
    size = path.stat().st_size
    with path.open("rb") as file:
        n_header = int.from_bytes(file.read(8), "little")
        if size < 10 or n_header > min(_MAX_HEADER_BYTES, size - 8):
            raise _broken("its header is longer than the file or than allowed", where)
        raw = parse_json(file.read(n_header), where=where)
    raw.pop("__metadata__", None)
    if len(raw) > _MAX_TENSORS:
        raise _broken(f"it lists more than {_MAX_TENSORS} tensors", where)
    spans = []
    tensors = []
    for name, entry in raw.items():
        tensor, span = _parse_entry(name, entry, file=path.name, where=where)
        tensors.append(tensor)
        spans.append(span)
    end = 0
    for start, stop in sorted(spans):
        if start != end:
            raise _broken("its tensors overlap or leave gaps", where)
        end = stop
    if end != size - 8 - n_header:
        raise _broken("it is cut off, or longer than its header says", where)
    return tuple(tensors)


def _parse_entry(
    name: str, entry: object, *, file: str, where: str
) -> tuple[TensorHeader, tuple[int, int]]:
    if not isinstance(entry, dict):
        raise _broken("its header is not in the format", where)
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in _DTYPE_BYTES:
        raise _broken("it holds numbers of an unknown kind", where)
    shape, span = _whole_numbers(entry.get("shape")), _whole_numbers(entry.get("data_offsets"))
    if shape is None or span is None or len(span) != 2 or len(shape) > 8:
        raise _broken("its header is not in the format", where)
    if span[1] - span[0] != math.prod(shape) * _DTYPE_BYTES[dtype]:
        raise _broken("a tensor's size is not that of its shape", where)
    return TensorHeader(name, dtype, shape, file), (span[0], span[1])


def _whole_numbers(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(type(v) is int and 0 <= v < 2**48 for v in value):
        return None
    return tuple(value)


def _broken(why: str, where: str) -> AuditError:
    return AuditError(
        f"This is not a whole safetensors file: {why}.",
        where=where,
        do="Copy the file again from where the model was saved.",
    )


def shard_names(index: dict[str, object], *, where: str) -> tuple[str, ...]:
    """Return the shard files that an index names, each once, in order of name."""
    weight_map = index.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise AuditError("The shard index lists no weights.", where=where)
    for value in weight_map.values():
        if not isinstance(value, str) or not _SHARD_NAME.match(value) or ".." in value:
            raise AuditError(
                "The shard index names something else than a safetensors file in this directory.",
                where=where,
                do="Save the model again with safe_serialization.",
            )
    return tuple(sorted({str(value) for value in weight_map.values()}))


def check_shards(index: dict[str, object], *, tensors: Sequence[TensorHeader], where: str) -> None:
    """Check that every tensor lies once, and in the shard that the index says."""
    weight_map = index["weight_map"]
    found = {tensor.name: tensor.file for tensor in tensors}
    if len(found) != len(tensors) or found != weight_map:
        raise AuditError(
            "The shard index and the shards do not hold the same tensors.",
            where=where,
            do="Copy the model again from where it was saved, all shards of one saving.",
        )


MAX_LAYERS = 200
MAX_HIDDEN = 16_384
MAX_VOCABULARY = 1_000_000
_ATTENTION_KEYS = ("attn_implementation", "experts_implementation")
_PLAIN_ATTENTION = (None, "eager", "sdpa")
_CODE_KEYS = {"auto_map", "trust_remote_code", "custom_pipelines", "quantization_config"}

Activation = Literal[
    "gelu", "gelu_new", "gelu_python", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish"
]
Scalar = bool | int | float | str | None
Id = Annotated[int, Field(ge=0, le=MAX_VOCABULARY)]
Layers = Annotated[int, Field(ge=1, le=MAX_LAYERS)]
Width = Annotated[int, Field(ge=1, le=MAX_HIDDEN)]
InnerWidth = Annotated[int, Field(ge=1, le=8 * MAX_HIDDEN)]
Heads = Annotated[int, Field(ge=1, le=512)]
DropoutRate = Annotated[float, Field(ge=0, lt=1)]


class ModelConfig(BaseModel):
    """The settings that determine a masked language model, each within its bounds.

    A field's alias is its name in `config.json`; its default is what transformers assumes where the
    file has none. `n_position_rows` is the size of the position table, `is_tied` says whether the
    head's matrix is the word embedding.
    """

    model_config = ConfigDict(
        strict=True, frozen=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True
    )

    architecture: ClassVar[str]
    n_layers: Layers
    hidden_size: Width
    n_heads: Heads
    intermediate_size: InnerWidth
    hidden_dropout: DropoutRate
    attention_dropout: DropoutRate
    vocab_size: int = Field(default=30522, ge=1, le=MAX_VOCABULARY)
    n_position_rows: int = Field(default=512, ge=2, le=131_072, alias="max_position_embeddings")
    pad_token_id: Id | None = 0
    is_tied: bool = Field(default=True, alias="tie_word_embeddings")
    _settings: dict[str, Scalar] = PrivateAttr(default_factory=dict)

    @property
    def settings(self) -> Mapping[str, Scalar]:
        """All of it as it is written, under the names that transformers uses."""
        return self._settings

    @property
    def n_positions(self) -> int:
        """Longest input in tokens, special tokens included."""
        return self.n_position_rows


class _Bert(ModelConfig):
    architecture = "bert"
    n_layers: Layers = Field(default=12, alias="num_hidden_layers")
    hidden_size: Width = 768
    n_heads: Heads = Field(default=12, alias="num_attention_heads")
    intermediate_size: InnerWidth = 3072
    hidden_dropout: DropoutRate = Field(default=0.1, alias="hidden_dropout_prob")
    attention_dropout: DropoutRate = Field(default=0.1, alias="attention_probs_dropout_prob")
    hidden_act: Activation = "gelu"
    type_vocab_size: int = Field(default=2, ge=1, le=64)
    layer_norm_eps: float = Field(default=1e-12, ge=0, le=0.1)


class _Roberta(_Bert):
    architecture = "roberta"
    vocab_size: int = Field(default=50265, ge=1, le=MAX_VOCABULARY)
    pad_token_id: Id = 1

    @property
    def n_positions(self) -> int:
        """Positions are numbered from that of the padding token on."""
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
ARCHITECTURES = tuple(_CONFIGS)
"""Model types that this audit can load."""

# Settings that change the arithmetic and have one value here: another one is refused, not ignored.
_ONLY: dict[str, tuple[object, ...]] = {
    "is_decoder": (False, None),
    "add_cross_attention": (False, None),
    "is_encoder_decoder": (False, None),
    "position_embedding_type": ("absolute", None),
    "pruned_heads": ({}, None),
    "torchscript": (False, None),
}


def refuse_code_keys(value: object, *, where: str, _depth: int = 0) -> None:
    """Refuse settings through which a file could have code loaded.

    That is: `auto_map`, `trust_remote_code`, quantisation, any "kernel" key, or an attention or
    experts implementation that transformers does not ship.
    """
    if _depth > 16:
        raise AuditError("Its settings are nested too deeply.", where=where)
    if isinstance(value, list):
        for item in value:
            refuse_code_keys(item, where=where, _depth=_depth + 1)
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        name = str(key).lower()
        foreign = any(part in name for part in _ATTENTION_KEYS) and (
            item not in _PLAIN_ATTENTION if isinstance(item, str | None) else True
        )
        if name in _CODE_KEYS or "kernel" in name or foreign:
            raise AuditError(
                f"The setting {_shown(key)} can load code or change the arithmetic; such a model "
                "is not loaded.",
                where=where,
                do="Remove the setting if the model is a plain BERT, RoBERTa or DistilBERT.",
            )
        refuse_code_keys(item, where=where, _depth=_depth + 1)


def parse_config(raw: Mapping[str, object], *, where: str) -> ModelConfig:
    """Check a parsed `config.json` against the allow-list and its bounds."""
    refuse_code_keys(dict(raw), where=where)
    kind = _CONFIGS[_architecture(raw, where=where)]
    for key, allowed in _ONLY.items():
        if key in raw and raw[key] not in allowed:
            raise AuditError(
                f"The setting {key} = {_shown(raw[key])} is not supported.", where=where
            )
    try:
        config = kind.model_validate(raw)
    except ValidationError as error:
        key = str(error.errors(include_input=False)[0]["loc"][0])
        raise AuditError(
            f"The setting {key} = {_shown(raw[key])} is out of bounds.",
            where=where,
            do="Check that this is the config.json that was saved with the model.",
        ) from None
    for name, field in kind.model_fields.items():
        key = field.alias or name
        config._settings[key] = raw.get(key, field.default)  # type: ignore[assignment]
    _check_together(config, where=where)
    return config


def _architecture(raw: Mapping[str, object], *, where: str) -> str:
    kind = raw.get("model_type")
    if kind is None:
        # Configurations from before 2020 have no model_type; the class name says the same.
        names = raw.get("architectures")
        first = names[0] if isinstance(names, list) and names else ""
        prefixes = {"BertFor": "bert", "RobertaFor": "roberta", "DistilBertFor": "distilbert"}
        kind = next((k for p, k in prefixes.items() if str(first).startswith(p)), None)
    if not isinstance(kind, str) or kind not in _CONFIGS:
        raise AuditError(
            f"Models of the kind {_shown(kind)} cannot be audited.",
            where=where,
            do="The kinds that can: BERT, RoBERTa and DistilBERT.",
        )
    return kind


def _check_together(config: ModelConfig, *, where: str) -> None:
    if config.hidden_size % config.n_heads:
        raise AuditError(
            f"The width {config.hidden_size} cannot be shared by {config.n_heads} heads.",
            where=where,
        )
    if config.pad_token_id is not None and config.pad_token_id >= config.vocab_size:
        raise AuditError("The padding token lies outside the vocabulary.", where=where)
    if config.n_positions < 2:
        raise AuditError("The model has no position for a token.", where=where)


def _shown(value: object) -> str:
    """Show a foreign value: at most 40 characters, no control characters."""
    text = "".join(ch if ch.isprintable() else "?" for ch in str(value)[:41])
    return f'"{text[:40]}…"' if len(text) > 40 else f'"{text}"'


Shape = tuple[int, ...]

_FLOATS = ("F16", "BF16", "F32", "F64")
_LEGACY = (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias"))
_HEAD_PREFIX = {"bert": "cls.predictions.", "roberta": "lm_head.", "distilbert": "vocab_"}
# What a pre-training checkpoint carries besides its masked-LM head, and buffers of old versions.
_KNOWN_EXTRA = {
    "bert": r"bert\.pooler\.dense\.(weight|bias)|cls\.seq_relationship\.(weight|bias)"
    r"|bert\.embeddings\.(position_ids|token_type_ids)",
    "roberta": r"roberta\.pooler\.dense\.(weight|bias)"
    r"|roberta\.embeddings\.(position_ids|token_type_ids)",
    "distilbert": r"distilbert\.embeddings\.position_ids",
}
# (name, other name of the same tensor, whether only where the head is tied)
_SAME = {
    "bert": (
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", True),
        ("cls.predictions.decoder.bias", "cls.predictions.bias", False),
    ),
    "roberta": (
        ("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight", True),
        ("lm_head.decoder.bias", "lm_head.bias", False),
    ),
    "distilbert": (
        ("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight", True),
    ),
}


def current_name(name: str) -> str:
    """Return today's name of a tensor: gamma and beta became weight and bias."""
    for old, new in _LEGACY:
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def same_tensors(config: ModelConfig) -> tuple[tuple[str, str], ...]:
    """Return pairs of names under which one and the same tensor is found in this model."""
    return tuple(
        (one, other)
        for one, other, only_if_tied in _SAME[config.architecture]
        if config.is_tied or not only_if_tied
    )


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return name and shape of every parameter of the masked language model."""
    is_distil = config.architecture == "distilbert"
    return dict(_distilbert(config) if is_distil else _bert_like(config))


def _linear(name: str, n_out: int, n_in: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (n_out, n_in)
    yield f"{name}.bias", (n_out,)


def _norm(name: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{name}.weight", (width,)
    yield f"{name}.bias", (width,)


def _layer(config: ModelConfig, layer: str, parts: Sequence[str]) -> Iterator[tuple[str, Shape]]:
    """Yield the parameters of a layer: query, key, value, out, norm, inner, outer, norm."""
    *attention, norm, inner, outer, last_norm = parts
    d = config.hidden_size
    for part in attention:
        yield from _linear(f"{layer}.{part}", d, d)
    yield from _norm(f"{layer}.{norm}", d)
    yield from _linear(f"{layer}.{inner}", config.intermediate_size, d)
    yield from _linear(f"{layer}.{outer}", d, config.intermediate_size)
    yield from _norm(f"{layer}.{last_norm}", d)


_BERT_LAYER = (
    "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
    "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
)  # fmt: skip
_DISTILBERT_LAYER = (
    "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm",
    "ffn.lin1", "ffn.lin2", "output_layer_norm",
)  # fmt: skip


def _embeddings(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    root, d = f"{config.architecture}.embeddings", config.hidden_size
    yield f"{root}.word_embeddings.weight", (config.vocab_size, d)
    yield f"{root}.position_embeddings.weight", (config.n_position_rows, d)
    if isinstance(config, _Bert):
        yield f"{root}.token_type_embeddings.weight", (config.type_vocab_size, d)
    yield from _norm(f"{root}.LayerNorm", d)


def _bert_like(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    root, d, v = config.architecture, config.hidden_size, config.vocab_size
    yield from _embeddings(config)
    for i in range(config.n_layers):
        yield from _layer(config, f"{root}.encoder.layer.{i}", _BERT_LAYER)
    if root == "bert":
        head, transform, norm = "cls.predictions", "cls.predictions.transform", "LayerNorm"
    else:
        head, transform, norm = "lm_head", "lm_head", "layer_norm"
    yield from _linear(f"{transform}.dense", d, d)
    yield from _norm(f"{transform}.{norm}", d)
    yield f"{head}.bias", (v,)
    yield from _linear(f"{head}.decoder", v, d)


def _distilbert(config: ModelConfig) -> Iterator[tuple[str, Shape]]:
    d = config.hidden_size
    yield from _embeddings(config)
    for i in range(config.n_layers):
        yield from _layer(config, f"distilbert.transformer.layer.{i}", _DISTILBERT_LAYER)
    yield from _linear("vocab_transform", d, d)
    yield from _norm("vocab_layer_norm", d)
    yield from _linear("vocab_projector", config.vocab_size, d)


def check_tensors(
    tensors: Sequence[TensorHeader], *, config: ModelConfig, where: str
) -> tuple[str, ...]:
    """Check the announced tensors against the configuration; return the known extra ones."""
    by_name = {current_name(tensor.name): tensor for tensor in tensors}
    if len(by_name) != len(tensors):
        raise AuditError("A tensor is there under its old and its new name.", where=where)
    if not any(name.startswith(_HEAD_PREFIX[config.architecture]) for name in by_name):
        raise AuditError(
            "The model has no masked-language-model head, so it gives no word a probability.",
            where=where,
            do="Use the checkpoint that was saved as ...ForMaskedLM or ...ForPreTraining.",
        )
    expected = expected_shapes(config)
    _refuse_missing(expected, by_name, config=config, where=where)
    extra = sorted(name for name in by_name if name not in expected)
    _refuse_unknown(extra, config=config, where=where)
    for name, shape in expected.items():
        if name in by_name:
            _check_one(by_name[name], name=name, shape=shape, where=where)
    return tuple(extra)


def _refuse_unknown(extra: Sequence[str], *, config: ModelConfig, where: str) -> None:
    known = re.compile(_KNOWN_EXTRA[config.architecture])
    unknown = [name for name in extra if not known.fullmatch(name)]
    if unknown:
        raise AuditError(
            f"The files hold {len(unknown)} tensors that a {config.architecture} masked language "
            f'model does not have (first: "{_plain(unknown[0])}").',
            where=where,
            do="Check that config.json belongs to these weights.",
        )


def _check_one(tensor: TensorHeader, *, name: str, shape: Shape, where: str) -> None:
    if tensor.shape != shape:
        raise AuditError(
            f'The tensor "{name}" has the shape {list(tensor.shape)}; config.json promises '
            f"{list(shape)}.",
            where=where,
            do="Check that config.json belongs to these weights.",
        )
    if tensor.dtype not in _FLOATS:
        raise AuditError(
            f'The tensor "{name}" holds numbers of the kind {tensor.dtype}; only 16, 32 and '
            "64 bit floating point is read.",
            where=where,
            do="Save the model unquantised.",
        )


def _refuse_missing(
    expected: dict[str, Shape],
    found: dict[str, TensorHeader],
    *,
    config: ModelConfig,
    where: str,
) -> None:
    replaced = {
        name
        for pair in same_tensors(config)
        for name, other in (pair, pair[::-1])
        if other in found
    }
    missing = [name for name in expected if name not in found and name not in replaced]
    if missing:
        raise AuditError(
            f'{len(missing)} tensors are missing (first: "{missing[0]}"); they would be filled '
            "with random numbers.",
            where=where,
            do="Copy the model again, or save it as ...ForMaskedLM.",
        )


CONFIG_FILE = "tokenizer_config.json"
FAST_FILE = "tokenizer.json"
ALL_FILES = (
    "vocab.txt", "vocab.json", "merges.txt", FAST_FILE, "added_tokens.json",
    "special_tokens_map.json",
)  # fmt: skip

_MAX_TOKENIZER_BYTES = 32_000_000
_MAX_TOKENIZER_CONFIG_BYTES = 8_000_000
_MAX_ADDED = 10_000
_MAX_ID_DIGITS = 9
_CLASSES = {
    "BertTokenizer": (("vocab.txt",), "WordPiece"),
    "DistilBertTokenizer": (("vocab.txt",), "WordPiece"),
    "RobertaTokenizer": (("vocab.json", "merges.txt"), "BPE"),
    "BertJapaneseTokenizer": (("vocab.txt",), ""),
    "PreTrainedTokenizerFast": ((), ""),
}
_DEFAULT_CLASS = {
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "distilbert": "DistilBertTokenizer",
}
_SPECIAL = tuple(f"{kind}_token" for kind in ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
_SETTINGS = {
    *_SPECIAL, "additional_special_tokens", "extra_special_tokens", "added_tokens_decoder",
    "do_lower_case", "tokenize_chinese_chars", "strip_accents", "never_split", "do_word_tokenize",
    "do_subword_tokenize", "word_tokenizer_type", "subword_tokenizer_type", "mecab_kwargs",
    "add_prefix_space", "trim_offsets", "errors", "model_max_length", "model_input_names",
    "padding_side", "truncation_side", "clean_up_tokenization_spaces",
}  # fmt: skip
# Patterns (Regex) are not among them: a hostile one ends the process inside the tokenizer.
_COMPONENTS = {
    "Sequence", "BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents",
    "Strip", "Replace", "Nmt", "Prepend", "BertPreTokenizer", "Whitespace", "WhitespaceSplit",
    "ByteLevel", "Punctuation", "Digits", "Split", "UnicodeScripts", "Metaspace",
    "BertProcessing", "RobertaProcessing", "TemplateProcessing", "WordPiece", "BPEDecoder",
    "ByteFallback", "Fuse", "CTC",
}  # fmt: skip
_MECAB = {"mecab_dic", "normalize_text", "mecab_option", "do_lower_case"}
_MECAB_DICTIONARIES = ("unidic_lite", "ipadic", "unidic")


@dataclass(frozen=True)
class TokenizerFiles:
    """A tokenizer's files, whole in memory.

    `kind` is the class in transformers; `settings` what `tokenizer_config.json` says, by the
    allow-list; `used` are the contents of the files that it is built from, `present` of all;
    `declared` is the token of each id; `notes` are what the reader should know.
    """

    kind: str
    settings: Mapping[str, object]
    used: Mapping[str, bytes]
    present: Mapping[str, bytes]
    declared: Mapping[int, str]
    notes: tuple[str, ...]


def read_tokenizer_files(
    folder: ModelFolder, *, architecture: str, model_config: Mapping[str, object]
) -> TokenizerFiles:
    """Read and check the tokenizer files of a model directory."""
    where, raw = folder.where(CONFIG_FILE), {}
    if CONFIG_FILE in folder.files:
        raw = parse_json(
            folder.read(CONFIG_FILE, max_bytes=_MAX_TOKENIZER_CONFIG_BYTES), where=where
        )
    refuse_code_keys(raw, where=where)
    named = raw.get("tokenizer_class") or model_config.get("tokenizer_class")
    kind = _kind(named or _DEFAULT_CLASS[architecture], where=where)
    settings = {key: value for key, value in raw.items() if key in _SETTINGS}
    for value in settings.values():
        _check_n_added(value, where=where)
    if kind == "BertJapaneseTokenizer":
        _check_japanese(settings, where=where)
    present = {
        file: folder.read(file, max_bytes=_MAX_TOKENIZER_BYTES)
        for file in ALL_FILES
        if file in folder.files
    }
    used = {file: present[file] for file in _used(kind, present, where=folder.where())}
    declared, notes = _declared(folder, kind=kind, present=present, used=used)
    declared.update(_added(folder, settings, used=used))
    return TokenizerFiles(kind, settings, used, present, declared, notes)


def _check_n_added(value: object, *, where: str) -> None:
    # transformers adds them one by one, and takes the longer the more there are.
    if isinstance(value, list | dict) and len(value) > _MAX_ADDED:
        raise AuditError(
            f"The tokenizer adds more than {_MAX_ADDED:,} tokens to its vocabulary.",
            where=where,
            do="Save it with these tokens in the vocabulary itself.",
        )


def _kind(named: object, *, where: str) -> str:
    kind = str(named)
    kind = {"TokenizersBackend": "PreTrainedTokenizerFast"}.get(kind, kind)
    if kind not in _CLASSES:
        kind = kind.removesuffix("Fast")
    if kind not in _CLASSES:
        shown = kind[:60] if kind.isidentifier() else "?"
        raise AuditError(
            f"Tokenizers of the class {shown} are not supported.",
            where=where,
            do=f"The classes that are: {', '.join(_CLASSES)}.",
        )
    return kind


def _check_japanese(settings: dict[str, object], *, where: str) -> None:
    allowed = {
        "word_tokenizer_type": ("basic", "mecab"),
        "subword_tokenizer_type": ("wordpiece", "character"),
    }
    for key, values in allowed.items():
        if settings.get(key, values[0]) not in values:
            raise AuditError(
                f"This {key} is not supported.", where=where, do=f"Supported: {', '.join(values)}."
            )
    mecab = settings.get("mecab_kwargs") or {}
    if (
        not isinstance(mecab, dict)
        or not set(mecab) <= _MECAB
        or mecab.get("mecab_option")
        or mecab.get("mecab_dic", _MECAB_DICTIONARIES[0]) not in _MECAB_DICTIONARIES
    ):
        # mecab_option is a command line: it can name files anywhere.
        raise AuditError(
            "These mecab_kwargs are not supported.",
            where=where,
            do=f"Name a dictionary ({', '.join(_MECAB_DICTIONARIES)}) and no mecab_option.",
        )


def _used(kind: str, present: Mapping[str, bytes], *, where: str) -> list[str]:
    slow_files, _ = _CLASSES[kind]
    legacy = [file for file in ("added_tokens.json", "special_tokens_map.json") if file in present]
    if FAST_FILE in present and kind != "BertJapaneseTokenizer":
        return [FAST_FILE, *legacy]
    missing = [file for file in slow_files if file not in present]
    if missing or not slow_files:
        raise AuditError(
            f"The tokenizer's files are missing ({' and '.join(missing) or FAST_FILE}).",
            where=where,
            do="Copy the files that the tokenizer was saved with into the directory.",
        )
    return [*slow_files, *legacy]


def _declared(
    folder: ModelFolder, *, kind: str, present: Mapping[str, bytes], used: Mapping[str, bytes]
) -> tuple[dict[int, str], tuple[str, ...]]:
    lines: dict[int, str] = {}
    if "vocab.txt" in present:
        lines = _vocab_lines(present["vocab.txt"], where=folder.where("vocab.txt"))
    if FAST_FILE in used:
        declared = _fast_entries(used[FAST_FILE], kind=kind, where=folder.where(FAST_FILE))
        base = {i: token.rstrip() for i, token in declared.items() if i in lines}
        if lines and base != {i: token.rstrip() for i, token in lines.items()}:
            return declared, (
                "vocab.txt and tokenizer.json hold different vocabularies; tokenizer.json is used.",
            )
        return declared, ()
    if "vocab.json" in used:
        where = folder.where("vocab.json")
        declared = _by_id(parse_json(used["vocab.json"], where=where), where=where)
        _check_n_lines(used["merges.txt"], where=folder.where("merges.txt"))
    else:
        where, declared = folder.where("vocab.txt"), lines
    if not declared:
        raise AuditError("The vocabulary is empty.", where=where)
    return declared, ()


def _check_n_lines(data: bytes, *, where: str) -> None:
    # Counted in the bytes: as objects they would be a hundred times as large.
    if data.count(b"\n") > MAX_VOCABULARY:
        raise AuditError(f"The file has more than {MAX_VOCABULARY:,} lines.", where=where)


def _vocab_lines(data: bytes, *, where: str) -> dict[int, str]:
    _check_n_lines(data, where=where)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise AuditError("The vocabulary is not UTF-8 text.", where=where) from None
    lines = text.removesuffix("\n").split("\n") if text else []
    return {i: line.removesuffix("\r") for i, line in enumerate(lines)}


def _by_id(vocab: object, *, where: str) -> dict[int, str]:
    fits = isinstance(vocab, dict) and all(type(i) is int and i >= 0 for i in vocab.values())
    if not isinstance(vocab, dict) or not fits or len(set(vocab.values())) != len(vocab):
        raise AuditError("The vocabulary does not give each token its own number.", where=where)
    return {i: str(token) for token, i in vocab.items()}


def _fast_entries(data: bytes, *, kind: str, where: str) -> dict[int, str]:
    raw = parse_json(data, where=where)
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        _check_component(raw.get(part), where=where)
    model = raw.get("model")
    if not isinstance(model, dict):
        raise AuditError("The tokenizer holds no model.", where=where)
    # Files from before 2021 have no type: only byte-pair models have merges.
    model_type = model.get("type") or ("BPE" if "merges" in model else "WordPiece")
    _, wanted = _CLASSES[kind]
    if (
        model_type not in (wanted,)
        if wanted
        else model_type not in ("WordPiece", "BPE", "WordLevel")
    ):
        raise AuditError(
            f"The tokenizer's model is not the one of a {kind}.",
            where=where,
            do="Check tokenizer_class in tokenizer_config.json.",
        )
    if model.get("dropout"):
        raise AuditError("The tokenizer splits words at random (dropout).", where=where)
    declared = _by_id(model.get("vocab"), where=where)
    if not declared:
        raise AuditError("The vocabulary is empty.", where=where)
    added = raw.get("added_tokens") or []
    _check_n_added(added, where=where)
    for entry in added if isinstance(added, list) else []:
        if isinstance(entry, dict) and type(entry.get("id")) is int:
            declared[entry["id"]] = str(entry.get("content"))
    return declared


def _check_component(component: object, *, where: str, _depth: int = 0) -> None:
    if isinstance(component, list):
        for item in component:
            _check_component(item, where=where, _depth=_depth + 1)
    if not isinstance(component, dict):
        return
    kind = component.get("type")
    known = kind is None or (isinstance(kind, str) and kind in _COMPONENTS)
    if _depth > 8 or "Regex" in component or not known:
        raise AuditError(
            "The tokenizer uses a part that is not supported (a pattern or an unknown component).",
            where=where,
            do="Supported are the tokenizers of BERT, DistilBERT and RoBERTa.",
        )
    for item in component.values():
        _check_component(item, where=where, _depth=_depth + 1)


def _added(
    folder: ModelFolder, settings: Mapping[str, object], *, used: Mapping[str, bytes]
) -> dict[int, str]:
    """Return the entries that the legacy files add to the vocabulary."""
    added: dict[int, str] = {}
    if "special_tokens_map.json" in used:
        where = folder.where("special_tokens_map.json")
        table = parse_json(used["special_tokens_map.json"], where=where)
        refuse_code_keys(table, where=where)
        for value in table.values():
            _check_n_added(value, where=where)
    if "added_tokens.json" in used:
        where = folder.where("added_tokens.json")
        table = parse_json(used["added_tokens.json"], where=where)
        _check_n_added(table, where=where)
        added |= _by_id(table, where=where)
    decoder = settings.get("added_tokens_decoder")
    if decoder is not None:
        where = folder.where(CONFIG_FILE)
        if not isinstance(decoder, dict) or not all(
            key.isdecimal() and len(key) <= _MAX_ID_DIGITS and isinstance(token, dict)
            for key, token in decoder.items()
        ):
            raise AuditError("added_tokens_decoder is not a table of tokens.", where=where)
        added |= {int(key): str(token.get("content")) for key, token in decoder.items()}
    return added


_MAX_CONFIG_BYTES = 1_000_000
_MAX_INDEX_BYTES = 4_000_000
_MAX_SHARDS = 200
_DIGEST_VERSION = 1


@dataclass(frozen=True)
class ModelFiles:
    """A model directory whose files passed every check that needs no weight.

    `tensors` are the headers of all tensors, `notes` what the reader should know, in sentences.
    """

    folder: ModelFolder
    config: ModelConfig
    tensors: tuple[TensorHeader, ...]
    weight_files: tuple[str, ...]
    tokenizer: TokenizerFiles
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ModelSummary:
    """What a list of models shows of one.

    `n_parameters` counts tied numbers once; `n_positions` is the longest input in tokens; `notes`
    are what the reader should know, in sentences.
    """

    path: Path
    name: str
    architecture: str
    n_layers: int
    hidden_size: int
    vocab_size: int
    n_parameters: int
    n_positions: int
    tokenizer: str
    notes: tuple[str, ...]

    def digest(self) -> str:
        """Return the model's digest; reads every byte of the weights, so ask only when needed."""
        return model_digest(self.path)


def read_model_files(path: Path) -> ModelFiles:
    """Read everything of a model directory but the weights themselves."""
    folder = open_folder(path)
    with refusing(
        AuditError(
            "The model's files cannot be understood.",
            where=folder.where(),
            do="Copy them again from where the model was saved.",
        )
    ):
        return _read_files(folder)


def _read_files(folder: ModelFolder) -> ModelFiles:
    where = folder.where("config.json")
    raw = parse_json(folder.read("config.json", max_bytes=_MAX_CONFIG_BYTES), where=where)
    config = parse_config(raw, where=where)
    weight_files, tensors = _weights(folder)
    extra = check_tensors(tensors, config=config, where=folder.where())
    tokenizer = read_tokenizer_files(folder, architecture=config.architecture, model_config=raw)
    notes = [*_notes(folder, weight_files, extra), *tokenizer.notes]
    return ModelFiles(folder, config, tensors, weight_files, tokenizer, tuple(notes))


def inspect_model(path: Path) -> ModelSummary:
    """Say what lies in a model directory, without torch."""
    files = read_model_files(path)
    config = files.config
    shapes = expected_shapes(config)
    twice = {one for one, _ in same_tensors(config)}
    return ModelSummary(
        path=files.folder.path,
        name=files.folder.name,
        architecture=config.architecture,
        n_layers=config.n_layers,
        hidden_size=config.hidden_size,
        vocab_size=config.vocab_size,
        n_parameters=sum(math.prod(s) for name, s in shapes.items() if name not in twice),
        n_positions=config.n_positions,
        tokenizer=files.tokenizer.kind,
        notes=files.notes,
    )


def model_digest(path: Path) -> str:
    """Return the SHA-256 of everything that determines a model, in hexadecimal.

    That is: the settings that are used of `config.json`, all tokenizer files, and every byte of
    the weights. Where it was saved, by which version and from which name changes nothing.
    """
    files = read_model_files(path)
    weights = {file: _file_digest(files.folder, file) for file in files.weight_files}
    return combined_digest(files, weights=weights)


def combined_digest(files: ModelFiles, *, weights: Mapping[str, str]) -> str:
    """Return the model's digest from the digests of its weight files."""
    tokenizer = files.tokenizer
    content = {
        "version": _DIGEST_VERSION,
        "architecture": files.config.architecture,
        "config": dict(files.config.settings),
        "tokenizer": tokenizer.kind,
        "tokenizer_settings": dict(tokenizer.settings),
        "tokenizer_files": {
            name: hashlib.sha256(data).hexdigest() for name, data in tokenizer.present.items()
        },
        "weights": dict(weights),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _file_digest(folder: ModelFolder, file: str) -> str:
    try:
        return fingerprint(folder.path / file)
    except OSError as fault:
        raise unreadable(fault, where=folder.where(file)) from None


def _weights(folder: ModelFolder) -> tuple[tuple[str, ...], tuple[TensorHeader, ...]]:
    _refuse_other_weights(folder)
    if INDEX_FILE not in folder.files:
        return (SINGLE_FILE,), _header(folder, SINGLE_FILE)
    where = folder.where(INDEX_FILE)
    index = parse_json(folder.read(INDEX_FILE, max_bytes=_MAX_INDEX_BYTES), where=where)
    shards = shard_names(index, where=where)
    missing = [shard for shard in shards if shard not in folder.files]
    if missing or len(shards) > _MAX_SHARDS:
        raise AuditError(
            f"The shard index names {len(shards)} files, of which {len(missing)} are missing.",
            where=where,
            do="Copy the model again from where it was saved, all shards.",
        )
    tensors: list[TensorHeader] = []
    for shard in shards:
        tensors += _header(folder, shard)
        if len(tensors) > _MAX_TENSORS:
            raise AuditError(
                f"The files list more than {_MAX_TENSORS:,} tensors.", where=folder.where()
            )
    check_shards(index, tensors=tensors, where=where)
    return shards, tuple(tensors)


def _refuse_other_weights(folder: ModelFolder) -> None:
    if any(file.startswith("adapter_") for file in folder.files):
        raise AuditError(
            "The directory holds an adapter; without it the model is another one.",
            where=folder.where(),
            do="Merge the adapter into the model and save that.",
        )
    n_kinds = (SINGLE_FILE in folder.files) + (INDEX_FILE in folder.files)
    if n_kinds == 2:
        raise AuditError(
            f"There are two sets of weights: {SINGLE_FILE} and {INDEX_FILE}.",
            where=folder.where(),
            do="Keep the one that is meant.",
        )
    if n_kinds == 0 and folder.unsafe:
        raise AuditError(
            f"The weights are there only in a form that can run code or is not read "
            f"({', '.join(folder.unsafe[:3])}).",
            where=folder.where(),
            do="Convert them to safetensors on a machine that may run the model's code: "
            "load with transformers, then save_pretrained.",
        )
    if n_kinds == 0:
        raise AuditError(
            f"There are no weights ({SINGLE_FILE}).",
            where=folder.where(),
            do="Choose the directory into which the model was saved.",
        )


def _header(folder: ModelFolder, file: str) -> tuple[TensorHeader, ...]:
    try:
        return read_header(folder.path / file, where=folder.where(file))
    except OSError as fault:
        raise unreadable(fault, where=folder.where(file)) from None


def _notes(folder: ModelFolder, weight_files: tuple[str, ...], extra: tuple[str, ...]) -> list[str]:
    notes = []
    other = [f for f in folder.files if f.endswith(".safetensors") and f not in weight_files]
    if unread := [*folder.unsafe, *other]:
        shown = ", ".join(unread[:5]) + (", …" if len(unread) > 5 else "")
        notes.append(f"Not opened: {shown}.")
    if heads := sorted(
        {name.split(".")[1] for name in extra if name.count(".") >= 2} - {"embeddings"}
    ):
        notes.append(f"Weights that masked language modelling does not use: {', '.join(heads)}.")
    return notes
