"""A model directory, inspected without torch and without transformers.

Everything that can be known before a weight is read is decided here, so that pages can list
models and say why one is refused. `load.py` reads the weights of what passed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from audit.errors import AuditError
from audit.foreign import refusing
from audit.models.config import ModelConfig, parse_config
from audit.models.folder import ModelFolder, open_folder, unreadable
from audit.models.headers import (
    INDEX_FILE,
    SINGLE_FILE,
    TensorHeader,
    check_shards,
    parse_json,
    read_header,
    shard_names,
)
from audit.models.shapes import check_tensors, expected_shapes, same_tensors
from audit.models.tokenizer_files import TokenizerFiles, read_tokenizer_files

_MAX_CONFIG_BYTES = 1_000_000
_MAX_INDEX_BYTES = 4_000_000
_MAX_TENSORS = 20_000
_MAX_SHARDS = 200
_CHUNK_BYTES = 1 << 20
_DIGEST_VERSION = 1


@dataclass(frozen=True)
class ModelFiles:
    """A model directory whose files passed every check that needs no weight.

    Attributes
    ----------
    folder
        The directory.
    config
        The model's shape and settings.
    tensors
        Headers of all tensors.
    weight_files
        Names of the safetensors files, sorted.
    tokenizer
        The tokenizer's files.
    notes
        What the reader should know, in sentences.
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

    Attributes
    ----------
    path
        The directory.
    name
        The directory's own name.
    architecture
        "bert", "roberta" or "distilbert".
    n_layers, hidden_size, vocab_size
        Shape of the model.
    n_parameters
        Numbers in the model, tied ones counted once.
    n_positions
        Longest input in tokens.
    tokenizer
        Class of the tokenizer.
    notes
        What the reader should know, in sentences.
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
        """Return the model's digest; reads every byte of the weights, so ask only when needed.

        Raises
        ------
        AuditError
            If the files can no longer be read.
        """
        return model_digest(self.path)


def read_model_files(path: Path) -> ModelFiles:
    """Read everything of a model directory but the weights themselves.

    Raises
    ------
    AuditError
        If the model may not or cannot be loaded, with the reason.
    """
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
    """Say what lies in a model directory, without torch.

    Raises
    ------
    AuditError
        If the model may not or cannot be loaded, with the reason.
    """
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

    Raises
    ------
    AuditError
        If the model is refused or cannot be read.
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
    digest = hashlib.sha256()
    try:
        with (folder.path / file).open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError as fault:
        raise unreadable(fault, where=folder.where(file)) from None
    return digest.hexdigest()


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
