"""A model directory, inspected without torch and without transformers.

Everything that can be known before a weight is read is decided here, so that pages can list
models and say why one is refused. `load.py` reads the weights of what passed.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError
from safetensors import safe_open

from audit.errors import AuditError, Message
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
    with suppress(AuditError):  # whoever needs the data directory says why
        folder = data_home() / "models"
        return folder if folder.is_dir() else None
    return None


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
    record = directory.parent / RUN_FILE
    is_copy = directory.name.startswith(f"{MODEL_FOLDER}-")
    if not (is_copy or directory.name == MODEL_FOLDER) or not record.is_file():
        return ""
    name = directory.parent.name
    with suppress(AuditError, OSError), record.open("rb") as file:
        title = parse_json(file.read(_MAX_RUN_BYTES), where=name).get("title")
        name = (" ".join(title.split()) if isinstance(title, str) else "") or name
    return f"{name} ({directory.name})" if is_copy else name


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
            raise AuditError("The file {file} is missing.", where=self.where(), file=file)
        try:
            with (self.path / file).open("rb") as stream:
                data = stream.read(max_bytes + 1)
        except OSError as fault:
            raise unreadable(fault, where=self.where(file)) from None
        if len(data) > max_bytes:
            raise AuditError(
                "The file is larger than {max_bytes} MB.",
                where=self.where(file),
                max_bytes=max_bytes // 1000000,
            )
        return data

    def json(self, file: str, *, max_bytes: int) -> dict[str, object]:
        """Read one JSON object, as `parse_json` does."""
        return parse_json(self.read(file, max_bytes=max_bytes), where=self.where(file))


def unreadable(fault: Exception, *, where: str) -> AuditError:
    """Return the error for a file that the system does not give out, without its path."""
    reason = getattr(fault, "strerror", None) or type(fault).__name__
    return AuditError(
        "It cannot be read ({reason}).",
        where=where,
        do="Check that it exists and that you may read it.",
        reason=reason,
    )


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


def open_folder(path: Path) -> ModelFolder:
    """Look at every entry of a model directory without opening any."""
    try:
        root = path.resolve(strict=True)
        if not root.is_dir():
            raise AuditError("This is not a directory.", where=path.name)
        name = display_name(root)
        entries = sorted(root.iterdir())
        if len(entries) > _MAX_ENTRIES:
            raise AuditError(
                "The directory holds more than {max_entries} entries.",
                where=name,
                max_entries=_MAX_ENTRIES,
            )
        files = [one.name for one in entries if _is_file(one, name=name)]
    except (OSError, ValueError, RuntimeError) as fault:
        raise unreadable(fault, where=path.name) from None
    suffixes = {file: Path(file).suffix.lower() for file in files}
    for file, suffix in suffixes.items():
        if suffix in _CODE_SUFFIXES:
            raise AuditError(
                "The directory holds program code; a model that needs code of its own is not "
                "loaded.",
                where="{name}/{file}",
                do="Remove it if the model is a plain BERT, RoBERTa or DistilBERT.",
                name=name,
                file=_plain(file),
            )
    unsafe = tuple(file for file in files if suffixes[file] in _UNSAFE_WEIGHTS)
    return ModelFolder(root, name, tuple(file for file in files if file not in unsafe), unsafe)


def display_name(root: Path) -> str:
    """Return what a model's directory is called in messages and results."""
    # In a Hugging Face cache the directory's own name is a revision; the model's is two above.
    own = root.parent.parent.name if _is_snapshot(root) else trained_name(root) or root.name
    return _plain(own)


def _is_snapshot(root: Path) -> bool:
    return root.parent.name == "snapshots" and root.parent.parent.name.startswith("models--")


def _is_file(entry: Path, *, name: str) -> bool:
    """Whether the entry is a file to be opened; directories are not, all else is refused."""
    where = f"{name}/{_plain(entry.name)}"
    if entry.is_symlink():
        # Snapshots of a Hugging Face cache link into the blobs of the same model.
        root = entry.parent
        try:
            entry = entry.resolve(strict=True)
        except (OSError, RuntimeError):
            raise AuditError("This is a link that leads nowhere.", where=where) from None
        if not entry.is_relative_to(root.parent.parent if _is_snapshot(root) else root):
            raise AuditError(
                "This is a link that leads out of the model's directory.",
                where=where,
                do="Replace the link by a copy of the file.",
            )
    mode = entry.lstat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise AuditError("This is neither a file nor a directory.", where=where)
    return stat.S_ISREG(mode)


def _plain(name: str) -> str:
    return "".join(ch if ch.isprintable() and ch != '"' else "?" for ch in name)[:80]


MAX_VOCABULARY = 1_000_000
_MAX_CONFIG_BYTES = 1_000_000
_ATTENTION_KEYS = ("attn_implementation", "experts_implementation")
_PLAIN_ATTENTION = (None, "eager", "sdpa")
_CODE_KEYS = {"auto_map", "trust_remote_code", "custom_pipelines", "quantization_config"}

Activation = Literal[
    "gelu", "gelu_new", "gelu_python", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "swish"
]
Scalar = bool | int | float | str | None
Id = Annotated[int, Field(ge=0, le=MAX_VOCABULARY)]
Layers = Annotated[int, Field(ge=1, le=200)]
Width = Annotated[int, Field(ge=1, le=16_384)]
InnerWidth = Annotated[int, Field(ge=1, le=8 * 16_384)]
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
    for key, item in value.items() if isinstance(value, dict) else ():
        name = str(key).lower()
        is_foreign = any(part in name for part in _ATTENTION_KEYS) and item not in _PLAIN_ATTENTION
        if name in _CODE_KEYS or "kernel" in name or is_foreign:
            raise AuditError(
                (
                    "The setting {key} can load code or change the arithmetic; such a "
                    "model is not loaded."
                ),
                where=where,
                do="Remove the setting if the model is a plain BERT, RoBERTa or DistilBERT.",
                key=_shown(key),
            )
        refuse_code_keys(item, where=where, _depth=_depth + 1)
    for item in value if isinstance(value, list) else ():
        refuse_code_keys(item, where=where, _depth=_depth + 1)


def parse_config(raw: Mapping[str, object], *, where: str) -> ModelConfig:
    """Check a parsed `config.json` against the allow-list and its bounds."""
    refuse_code_keys(dict(raw), where=where)
    kind = raw.get("model_type")
    if kind is None:
        # Configurations from before 2020 have no model_type; the class name says the same.
        named = raw.get("architectures")
        written = re.match(r"\['(Bert|Roberta|DistilBert)For", str(named))
        kind = written[1].lower() if written else None
    if not isinstance(kind, str) or kind not in _CONFIGS:
        raise AuditError(
            "Models of the kind {kind} cannot be audited.",
            where=where,
            do="The kinds that can: BERT, RoBERTa and DistilBERT.",
            kind=_shown(kind),
        )
    for key, allowed in _ONLY.items():
        if raw.get(key) not in allowed:
            raise AuditError(
                "The setting {key} = {raw} is not supported.",
                where=where,
                key=key,
                raw=_shown(raw[key]),
            )
    try:
        config = _CONFIGS[kind].model_validate(raw)
    except ValidationError as error:
        key = str(error.errors(include_input=False)[0]["loc"][0])
        raise AuditError(
            "The setting {key} = {raw} is out of bounds.",
            where=where,
            do="Check that this is the config.json that was saved with the model.",
            key=key,
            raw=_shown(raw[key]),
        ) from None
    for name, field in _CONFIGS[kind].model_fields.items():
        key = field.alias or name
        config._settings[key] = raw.get(key, field.default)  # type: ignore[assignment]
    _check_together(config, where=where)
    return config


def _check_together(config: ModelConfig, *, where: str) -> None:
    if config.hidden_size % config.n_heads:
        raise AuditError(
            "The width {hidden_size} cannot be shared by {n_heads} heads.",
            where=where,
            hidden_size=config.hidden_size,
            n_heads=config.n_heads,
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


class _Layout(NamedTuple):
    """Names of tensors: of a layer's parts, and of the masked-language-model head's."""

    layers: str
    attention: tuple[str, ...]
    norms: tuple[str, ...]
    inner: str
    outer: str
    head: str
    dense: str
    head_norm: str
    decoder: str
    bias: str


_BERT_LAYER = (
    (
        "attention.self.query", "attention.self.key", "attention.self.value",
        "attention.output.dense",
    ),
    ("attention.output.LayerNorm", "output.LayerNorm"), "intermediate.dense", "output.dense",
)  # fmt: skip
_LAYOUTS = {
    "bert": _Layout(
        "encoder.layer", *_BERT_LAYER, "cls.predictions.", "cls.predictions.transform.dense",
        "cls.predictions.transform.LayerNorm", "cls.predictions.decoder", "cls.predictions.bias",
    ),
    "roberta": _Layout(
        "encoder.layer", *_BERT_LAYER, "lm_head.", "lm_head.dense", "lm_head.layer_norm",
        "lm_head.decoder", "lm_head.bias",
    ),
    "distilbert": _Layout(
        "transformer.layer",
        ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
        ("sa_layer_norm", "output_layer_norm"), "ffn.lin1", "ffn.lin2", "vocab_",
        "vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias",
    ),
}  # fmt: skip
# What a pre-training checkpoint carries besides its masked-LM head, and buffers of old versions.
_KNOWN_EXTRA = re.compile(
    r"(distil|ro)?bert(a)?\.(pooler\.dense\.(weight|bias)"
    r"|embeddings\.(position_ids|token_type_ids))|cls\.seq_relationship\.(weight|bias)"
)


def current_name(name: str) -> str:
    """Return today's name of a tensor: gamma and beta became weight and bias."""
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    return name.replace("LayerNorm.beta", "LayerNorm.bias")


def same_tensors(config: ModelConfig) -> dict[str, str]:
    """Return the other name under which one and the same tensor is found in this model."""
    root = config.architecture
    decoder, bias = _LAYOUTS[root].decoder, _LAYOUTS[root].bias
    same = {f"{decoder}.bias": bias} if bias != f"{decoder}.bias" else {}
    if config.is_tied:
        same[f"{decoder}.weight"] = f"{root}.embeddings.word_embeddings.weight"
    return same


def expected_shapes(config: ModelConfig) -> dict[str, Shape]:
    """Return name and shape of every parameter of the masked language model."""
    root, d, inner = config.architecture, config.hidden_size, config.intermediate_size
    layout = _LAYOUTS[root]
    shapes: dict[str, Shape] = {
        f"{root}.embeddings.word_embeddings.weight": (config.vocab_size, d),
        f"{root}.embeddings.position_embeddings.weight": (config.n_position_rows, d),
        layout.bias: (config.vocab_size,),
    }
    if isinstance(config, _Bert):
        shapes[f"{root}.embeddings.token_type_embeddings.weight"] = (config.type_vocab_size, d)
    layer: dict[str, Shape] = {
        **dict.fromkeys(layout.attention, (d, d)),
        **dict.fromkeys(layout.norms, (d,)),
        layout.inner: (inner, d),
        layout.outer: (d, inner),
    }
    weights: dict[str, Shape] = {
        f"{root}.embeddings.LayerNorm": (d,),
        layout.dense: (d, d),
        layout.head_norm: (d,),
        layout.decoder: (config.vocab_size, d),
    }
    for i in range(config.n_layers):
        weights |= {f"{root}.{layout.layers}.{i}.{part}": shape for part, shape in layer.items()}
    for name, shape in weights.items():
        shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    return shapes


SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"

# A tensor takes some 150 bytes of a header.
_MAX_HEADER_BYTES = 4_000_000
_MAX_INDEX_BYTES = 4_000_000
_MAX_TENSORS = 20_000
_MAX_SHARDS = 200
_FLOATS = ("F16", "BF16", "F32", "F64")


class TensorHeader(NamedTuple):
    """One tensor as the header of `file` announces it; `dtype` as in the format: "F32", ..."""

    name: str
    dtype: str
    shape: Shape
    file: str


def read_header(path: Path, *, where: str) -> tuple[TensorHeader, ...]:
    """Read the header of one safetensors file; the library checks it against the file."""
    broken = AuditError(
        "This is not a whole safetensors file.",
        where=where,
        do="Copy the file again from where the model was saved.",
    )
    with path.open("rb") as start:
        if int.from_bytes(start.read(8), "little") > _MAX_HEADER_BYTES:
            raise broken
    with refusing(broken), safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return tuple(
            TensorHeader(name, one.get_dtype(), tuple(one.get_shape()), path.name)
            for name, one in tensors.items()
        )


def _weights(folder: ModelFolder) -> tuple[list[str], list[TensorHeader]]:
    """Return the files of the weights and the headers of all tensors in them."""
    _refuse_other_weights(folder)
    where, files, places = folder.where(INDEX_FILE), [SINGLE_FILE], None
    if INDEX_FILE in folder.files:
        places = folder.json(INDEX_FILE, max_bytes=_MAX_INDEX_BYTES).get("weight_map")
        files = sorted(set(map(str, places.values()))) if isinstance(places, dict) else []
        missing = [file for file in files if file not in folder.files]
        if missing or not 0 < len(files) <= _MAX_SHARDS:
            raise AuditError(
                ("The shard index names {n_files} files, of which {n_missing} are missing."),
                where=where,
                do="Copy the model again from where it was saved, all shards.",
                n_files=len(files),
                n_missing=len(missing),
            )
    tensors: list[TensorHeader] = []
    for file in files:
        try:
            tensors += read_header(folder.path / file, where=folder.where(file))
        except OSError as fault:
            raise unreadable(fault, where=folder.where(file)) from None
        if len(tensors) > _MAX_TENSORS:
            raise AuditError(
                "The files list more than {max_tensors:,} tensors.",
                where=folder.where(),
                max_tensors=_MAX_TENSORS,
            )
    found = {tensor.name: tensor.file for tensor in tensors}
    if places is not None and (len(found) < len(tensors) or found != places):
        raise AuditError(
            "The shard index and the shards do not hold the same tensors.",
            where=where,
            do="Copy the model again from where it was saved, all shards of one saving.",
        )
    return files, tensors


def _refuse_other_weights(folder: ModelFolder) -> None:
    n_kinds = (SINGLE_FILE in folder.files) + (INDEX_FILE in folder.files)
    what, do = "", ""
    if any(file.startswith("adapter_") for file in folder.files):
        what = "The directory holds an adapter; without it the model is another one."
        do = "Merge the adapter into the model and save that."
    elif n_kinds == 2:
        what = Message(
            "There are two sets of weights: {single_file} and {index_file}.",
            single_file=SINGLE_FILE,
            index_file=INDEX_FILE,
        )
        do = "Keep the one that is meant."
    elif n_kinds == 0 and folder.unsafe:
        what = Message(
            ("The weights are there only in a form that can run code or is not read ({unsafe})."),
            unsafe=", ".join(folder.unsafe[:3]),
        )
        do = (
            "Convert them to safetensors on a machine that may run the model's code: "
            "load with transformers, then save_pretrained."
        )
    elif n_kinds == 0:
        what = Message("There are no weights ({single_file}).", single_file=SINGLE_FILE)
        do = "Choose the directory into which the model was saved."
    if what:
        raise AuditError(what, where=folder.where(), do=do)


def _check_tensors(
    tensors: Sequence[TensorHeader], *, config: ModelConfig, where: str
) -> list[str]:
    """Check the announced tensors against the configuration; return the known extra ones."""
    found = {current_name(tensor.name): tensor for tensor in tensors}
    if len(found) != len(tensors):
        raise AuditError("A tensor is there under its old and its new name.", where=where)
    if not any(name.startswith(_LAYOUTS[config.architecture].head) for name in found):
        raise AuditError(
            "The model has no masked-language-model head, so it gives no word a probability.",
            where=where,
            do="Use the checkpoint that was saved as ...ForMaskedLM or ...ForPreTraining.",
        )
    expected = expected_shapes(config)
    twins = same_tensors(config)
    twins |= {other: one for one, other in twins.items()}
    missing = [name for name in expected if name not in found and twins.get(name) not in found]
    if missing:
        raise AuditError(
            (
                '{n_missing} tensors are missing (first: "{missing}"); they would be '
                "filled with random numbers."
            ),
            where=where,
            do="Copy the model again, or save it as ...ForMaskedLM.",
            n_missing=len(missing),
            missing=missing[0],
        )
    extra = sorted(found.keys() - expected.keys())
    unknown = [name for name in extra if not _KNOWN_EXTRA.fullmatch(name)]
    if unknown:
        raise AuditError(
            (
                "The files hold {n_unknown} tensors that a {architecture} masked "
                'language model does not have (first: "{unknown}").'
            ),
            where=where,
            do="Check that config.json belongs to these weights.",
            n_unknown=len(unknown),
            architecture=config.architecture,
            unknown=_plain(unknown[0]),
        )
    for name, shape in expected.items():
        if name in found:
            _check_tensor(found[name], name=name, shape=shape, where=where)
    return extra


def _check_tensor(tensor: TensorHeader, *, name: str, shape: Shape, where: str) -> None:
    if tensor.shape != shape:
        raise AuditError(
            ('The tensor "{name}" has the shape {shape}; config.json promises {promised}.'),
            where=where,
            do="Check that config.json belongs to these weights.",
            name=name,
            shape=str([*tensor.shape]),
            promised=str([*shape]),
        )
    if tensor.dtype not in _FLOATS:
        raise AuditError(
            (
                'The tensor "{name}" holds numbers of the kind {dtype}; only 16, 32 '
                "and 64 bit floating point is read."
            ),
            where=where,
            do="Save the model unquantised.",
            name=name,
            dtype=tensor.dtype,
        )


CONFIG_FILE = "tokenizer_config.json"
FAST_FILE = "tokenizer.json"
_LEGACY_FILES = ("added_tokens.json", "special_tokens_map.json")
_ALL_FILES = ("vocab.txt", "vocab.json", "merges.txt", FAST_FILE, *_LEGACY_FILES)

_MAX_TOKENIZER_BYTES = 32_000_000
_MAX_TOKENIZER_CONFIG_BYTES = 8_000_000
_MAX_ADDED = 10_000
_JAPANESE = "BertJapaneseTokenizer"
# Files without tokenizer.json, and the model in it; () and "" where any will do.
_CLASSES: dict[str, tuple[tuple[str, ...], str]] = {
    "BertTokenizer": (("vocab.txt",), "WordPiece"),
    "DistilBertTokenizer": (("vocab.txt",), "WordPiece"),
    "RobertaTokenizer": (("vocab.json", "merges.txt"), "BPE"),
    _JAPANESE: (("vocab.txt",), ""),
    "PreTrainedTokenizerFast": ((), ""),
}
_DEFAULT_CLASS = {
    "bert": "BertTokenizer",
    "roberta": "RobertaTokenizer",
    "distilbert": "DistilBertTokenizer",
}
_SETTINGS = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
    "additional_special_tokens", "extra_special_tokens", "added_tokens_decoder",
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
    "ByteFallback", "Fuse", "CTC", None,
}  # fmt: skip
# Not mecab_option, a command line: it can name files anywhere.
_MECAB = {"mecab_dic", "normalize_text", "do_lower_case"}
_JAPANESE_SETTINGS = {
    "word_tokenizer_type": ("basic", "mecab"),
    "subword_tokenizer_type": ("wordpiece", "character"),
    "mecab_kwargs": ("unidic_lite", "ipadic", "unidic"),
}


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


def _tokenizer_files(
    folder: ModelFolder, *, architecture: str, model_config: Mapping[str, object]
) -> TokenizerFiles:
    where = folder.where(CONFIG_FILE)
    raw: dict[str, object] = {}
    if CONFIG_FILE in folder.files:
        raw = folder.json(CONFIG_FILE, max_bytes=_MAX_TOKENIZER_CONFIG_BYTES)
    refuse_code_keys(raw, where=where)
    named = raw.get("tokenizer_class") or model_config.get("tokenizer_class")
    kind = _tokenizer_class(str(named or _DEFAULT_CLASS[architecture]), where=where)
    settings = {key: value for key, value in raw.items() if key in _SETTINGS}
    _refuse_many_added(*settings.values(), where=where)
    if kind == _JAPANESE:
        _check_japanese(settings, where=where)
    present = {
        file: folder.read(file, max_bytes=_MAX_TOKENIZER_BYTES)
        for file in _ALL_FILES
        if file in folder.files
    }
    used = {file: present[file] for file in _used_files(kind, present, where=folder.where())}
    lines: dict[int, str] = {}
    if "vocab.txt" in present:
        lines = _vocabulary_lines(present["vocab.txt"], where=folder.where("vocab.txt"))
    declared = _vocabulary(folder, kind=kind, used=used, lines=lines)
    base = {i: token.rstrip() for i, token in declared.items() if i in lines}
    notes: tuple[str, ...] = ()
    if FAST_FILE in used and lines and base != {i: word.rstrip() for i, word in lines.items()}:
        notes = (
            "vocab.txt and tokenizer.json hold different vocabularies; tokenizer.json is used.",
        )
    declared |= _added(folder, settings, used=used)
    return TokenizerFiles(kind, settings, used, present, declared, notes)


def _refuse_many_added(*tables: object, where: str) -> None:
    # transformers adds them one by one, and takes the longer the more there are.
    if any(isinstance(table, list | dict) and len(table) > _MAX_ADDED for table in tables):
        raise AuditError(
            "The tokenizer adds more than {max_added:,} tokens to its vocabulary.",
            where=where,
            do="Save it with these tokens in the vocabulary itself.",
            max_added=_MAX_ADDED,
        )


def _tokenizer_class(named: str, *, where: str) -> str:
    for kind in (named, named.removesuffix("Fast")):
        if kind in _CLASSES:
            return kind
    if named == "TokenizersBackend":
        return "PreTrainedTokenizerFast"
    shown = named.removesuffix("Fast")[:60] if named.isidentifier() else "?"
    raise AuditError(
        "Tokenizers of the class {shown} are not supported.",
        where=where,
        do="The classes that are: {classes}.",
        shown=shown,
        classes=", ".join(_CLASSES),
    )


def _check_japanese(settings: Mapping[str, object], *, where: str) -> None:
    mecab = settings.get("mecab_kwargs") or {}
    if isinstance(mecab, dict) and not any(
        value and key not in _MECAB for key, value in mecab.items()
    ):
        mecab = mecab.get("mecab_dic", "unidic_lite")
    chosen = {**settings, "mecab_kwargs": mecab}
    for key, values in _JAPANESE_SETTINGS.items():
        if chosen.get(key, values[0]) not in values:
            raise AuditError(
                "This {key} is not supported.",
                where=where,
                do="Supported: {values}.",
                key=key,
                values=", ".join(values),
            )


def _used_files(kind: str, present: Mapping[str, bytes], *, where: str) -> list[str]:
    needed = _CLASSES[kind][0]
    if FAST_FILE in present and kind != _JAPANESE:
        needed = (FAST_FILE,)
    missing = [file for file in needed or (FAST_FILE,) if file not in present]
    if missing:
        raise AuditError(
            "The tokenizer's files are missing ({missing}).",
            where=where,
            do="Copy the files that the tokenizer was saved with into the directory.",
            missing=" and ".join(missing),
        )
    return [*needed, *(file for file in _LEGACY_FILES if file in present)]


def _vocabulary(
    folder: ModelFolder, *, kind: str, used: Mapping[str, bytes], lines: dict[int, str]
) -> dict[int, str]:
    """Return the token of each id by tokenizer.json, vocab.json, or the lines of vocab.txt."""
    where, declared, added = folder.where(), lines, {}
    if FAST_FILE in used:
        where = folder.where(FAST_FILE)
        raw = parse_json(used[FAST_FILE], where=where)
        declared = _by_id(_fast_vocabulary(raw, kind=kind, where=where), where)
        added = _added_to_fast(raw, where=where)
    elif "vocab.json" in used:
        _refuse_many_lines(used["merges.txt"], where=folder.where("merges.txt"))
        where = folder.where("vocab.json")
        declared = _by_id(parse_json(used["vocab.json"], where=where), where)
    if not declared:
        raise AuditError("The vocabulary is empty.", where=where)
    return declared | added


def _refuse_many_lines(data: bytes, *, where: str) -> None:
    # Counted in the bytes: as objects they would be a hundred times as large.
    if data.count(b"\n") > MAX_VOCABULARY:
        raise AuditError(
            "The file has more than {max_vocabulary:,} lines.",
            where=where,
            max_vocabulary=MAX_VOCABULARY,
        )


def _vocabulary_lines(data: bytes, *, where: str) -> dict[int, str]:
    _refuse_many_lines(data, where=where)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise AuditError("The vocabulary is not UTF-8 text.", where=where) from None
    lines = text.removesuffix("\n").split("\n") if text else []
    return {i: line.removesuffix("\r") for i, line in enumerate(lines)}


def _by_id(vocab: object, where: str) -> dict[int, str]:
    ids: dict[Any, str] = {}
    for token, i in vocab.items() if isinstance(vocab, dict) else [("", None)]:
        if type(i) is not int or i < 0 or i in ids:
            raise AuditError("The vocabulary does not give each token its own number.", where=where)
        ids[i] = str(token)
    return ids


def _fast_vocabulary(raw: Mapping[str, object], *, kind: str, where: str) -> object:
    """Return the vocabulary of tokenizer.json, of which every part is known and harmless."""
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        _check_component(raw.get(part), where=where)
    model = raw.get("model")
    if not isinstance(model, dict):
        raise AuditError("The tokenizer holds no model.", where=where)
    # Files from before 2021 have no type: only byte-pair models have merges.
    written = model.get("type") or ("BPE" if "merges" in model else "WordPiece")
    if written not in (
        _CLASSES[kind][1:] if _CLASSES[kind][1] else ("WordPiece", "BPE", "WordLevel")
    ):
        raise AuditError(
            "The tokenizer's model is not the one of a {kind}.",
            where=where,
            do="Check tokenizer_class in tokenizer_config.json.",
            kind=kind,
        )
    if model.get("dropout"):
        raise AuditError("The tokenizer splits words at random (dropout).", where=where)
    return model.get("vocab")


def _check_component(component: object, *, where: str, _depth: int = 0) -> None:
    inner: Iterable[object] = component if isinstance(component, list) else ()
    if isinstance(component, dict):
        inner, kind = component.values(), component.get("type")
        is_known = isinstance(kind, str | None) and kind in _COMPONENTS
        if _depth > 8 or "Regex" in component or not is_known:
            raise AuditError(
                "The tokenizer uses a part that is not supported (a pattern or an unknown "
                "component).",
                where=where,
                do="Supported are the tokenizers of BERT, DistilBERT and RoBERTa.",
            )
    for item in inner:
        _check_component(item, where=where, _depth=_depth + 1)


def _added_to_fast(raw: Mapping[str, object], *, where: str) -> dict[int, str]:
    added = raw.get("added_tokens") or []
    _refuse_many_added(added, where=where)
    entries = [one for one in added if isinstance(one, dict)] if isinstance(added, list) else []
    return {one["id"]: str(one.get("content")) for one in entries if type(one.get("id")) is int}


def _added(
    folder: ModelFolder, settings: Mapping[str, object], *, used: Mapping[str, bytes]
) -> dict[int, str]:
    """Return the entries that the legacy files add to the vocabulary."""
    added: dict[int, str] = {}
    if "special_tokens_map.json" in used:
        where = folder.where("special_tokens_map.json")
        table = parse_json(used["special_tokens_map.json"], where=where)
        refuse_code_keys(table, where=where)
        _refuse_many_added(*table.values(), where=where)
    if "added_tokens.json" in used:
        where = folder.where("added_tokens.json")
        table = parse_json(used["added_tokens.json"], where=where)
        _refuse_many_added(table, where=where)
        added |= _by_id(table, where)
    decoder = settings.get("added_tokens_decoder")
    if decoder is not None:
        where = folder.where(CONFIG_FILE)
        if not isinstance(decoder, dict) or not all(
            re.fullmatch("[0-9]{1,9}", key) and isinstance(token, dict)
            for key, token in decoder.items()
        ):
            raise AuditError("added_tokens_decoder is not a table of tokens.", where=where)
        added |= {int(key): str(token.get("content")) for key, token in decoder.items()}
    return added


_DIGEST_VERSION = 1


@dataclass(frozen=True)
class ModelFiles:
    """A model directory whose files passed every check that needs no weight.

    `notes` are what the reader should know, in sentences.
    """

    folder: ModelFolder
    config: ModelConfig
    weight_files: Sequence[str]
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
        raw = folder.json("config.json", max_bytes=_MAX_CONFIG_BYTES)
        config = parse_config(raw, where=folder.where("config.json"))
        weight_files, tensors = _weights(folder)
        extra = _check_tensors(tensors, config=config, where=folder.where())
        tokenizer = _tokenizer_files(folder, architecture=config.architecture, model_config=raw)
        notes = (*_notes(folder, weight_files, extra), *tokenizer.notes)
        return ModelFiles(folder, config, weight_files, tokenizer, notes)


def _notes(folder: ModelFolder, weight_files: Sequence[str], extra: Iterable[str]) -> list[Message]:
    notes = []
    other = [f for f in folder.files if f.endswith(".safetensors") and f not in weight_files]
    if unread := [*folder.unsafe, *other]:
        shown = ", ".join(unread[:5]) + (", …" if len(unread) > 5 else "")
        notes.append(Message("Not opened: {shown}.", shown=shown))
    heads = {name.split(".")[1] for name in extra if name.count(".") >= 2} - {"embeddings"}
    if heads:
        known = ", ".join(sorted(heads))
        notes.append(
            Message("Weights that masked language modelling does not use: {known}.", known=known)
        )
    return notes


def inspect_model(path: Path) -> ModelSummary:
    """Say what lies in a model directory, without torch."""
    files = read_model_files(path)
    config = files.config
    twice = same_tensors(config)
    shapes = expected_shapes(config)
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
    weights: dict[str, str] = {}
    for file in files.weight_files:
        try:
            weights[file] = fingerprint(files.folder.path / file)
        except OSError as fault:
            raise unreadable(fault, where=files.folder.where(file)) from None
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
