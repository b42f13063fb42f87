"""Inspect a model directory without torch and without transformers.

All checks that need no weights are made here, so that pages can list models and show why one is
refused. `load.py` reads the weights of models that pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from audit.errors import AuditError
from audit.foreign import locate_errors, name_place, refuse_errors
from audit.models.adapters import is_adapter_folder, join_digests, read_adapter
from audit.models.architectures import (
    MAX_CONFIG_BYTES,
    SUPPORTED_KINDS,
    guess_kind,
    parse_config,
    refuse_code_keys,
)
from audit.models.conversion import Conversion, Rounding, read_conversion
from audit.models.layouts import complete_names, count_parameters, measure_pass
from audit.models.model_config import ModelConfig
from audit.models.model_folder import ModelFolder, make_printable, open_folder
from audit.models.other_forms import (
    find_other_form,
    refuse_missing_config,
    refuse_missing_kind,
    refuse_other_kinds,
    take_text_part,
)
from audit.models.tokenizer_files import TokenizerFiles, read_tokenizer_files
from audit.models.weights_header import check_tensors, list_weight_files, read_tensors
from audit.shelf import digest_json, fingerprint

_DIGEST_VERSION = 1


@dataclass(frozen=True)
class ModelFiles:
    """A model directory whose files passed every check that needs no weights.

    `prefixes` were removed from the names of the weights' tensors.
    """

    folder: ModelFolder
    config: ModelConfig
    tokenizer: TokenizerFiles
    prefixes: tuple[str, ...]
    conversion: Conversion | None = None
    """How the model was converted, if this program did that."""

    @property
    def weights(self) -> tuple[Path, ...]:
        """The files of the weights: one, or several shards."""
        return tuple(self.folder.path / file for file in list_weight_files(self.folder))

    def compute_digest(self) -> str:
        """Return the model's digest, the SHA-256 of everything that determines it."""
        digests = {}
        for path in self.weights:
            with locate_errors(self.folder.locate(path.name)):
                digests[path.name] = fingerprint(path)
        return self.digest(digests)

    def digest(self, weights: Mapping[str, str]) -> str:
        """Return the model's digest from those of its weights' files, SHA-256 in hexadecimal."""
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
            "weights": dict(weights),
        }
        if self.conversion is not None and self.conversion.head_digest:
            content["head_of"] = self.conversion.head_digest
        if self.conversion is not None and self.conversion.rounding:
            content["rounding"] = self.conversion.rounding
        return digest_json(content, is_compact=True)


@dataclass(frozen=True)
class ModelSummary:
    """The facts about one model that a list of models shows.

    `n_parameters` counts tied numbers once, `pass_work` is as `measure_pass` returns it, and
    `tokenizer` is the tokenizer's class.
    """

    name: str
    config: ModelConfig
    n_parameters: int
    pass_work: float
    tokenizer: str
    rounding: Rounding = ""


@dataclass(frozen=True)
class AdapterSummary:
    """The facts about one adapter that a list of models shows.

    `base` is the name of the base model that the training noted, "" for none; `targets` are the
    last parts of the names of the changed modules, `replaced` those of modules that are stored
    whole, and `ranks` the ranks of the changes.
    """

    name: str
    n_parameters: int
    base: str
    ranks: tuple[int, ...]
    targets: tuple[str, ...]
    replaced: tuple[str, ...]


def read_model_files(path: Path) -> ModelFiles:
    """Read and check all files of a model directory except the weights themselves."""
    folder = open_folder(path)
    with refuse_unreadable_files(folder):
        raw, place = read_config(folder), folder.locate("config.json")
        _refuse_convertible(folder, raw=raw)
        header, prefixes = read_tensors(folder)
        refuse_missing_kind(raw, tensor_names=header, place=place)
        config = parse_config(raw, place=place)
        header = complete_names(header, config)
        with name_place(folder.name):
            check_tensors(header, config=config, folder=folder)
        tokenizer = read_tokenizer_files(folder, model_config=raw)
        return ModelFiles(folder, config, tokenizer, prefixes, read_conversion(folder))


def refuse_unreadable_files(folder: ModelFolder) -> AbstractContextManager[None]:
    """Return a context that refuses a model if reading its files fails in any unforeseen way."""
    return refuse_errors(
        AuditError(
            "The model's files cannot be understood.",
            where=folder.name,
            do="Copy them again from where the model was saved.",
        )
    )


def read_config(folder: ModelFolder, *, model_type: str = "") -> dict[str, JsonValue]:
    """Read config.json, with `model_type` if it names no kind; refuse what no conversion helps."""
    form = find_other_form(folder)
    if form and not form.is_convertible:
        form.refuse(folder)
    refuse_missing_config(folder)
    raw = folder.json("config.json", max_bytes=MAX_CONFIG_BYTES)
    place = folder.locate("config.json")
    if model_type and raw.get("model_type") not in (None, model_type):
        raise AuditError(
            "config.json says that the model is of another kind, {kind}.",
            where=place,
            do="Leave out --model-type.",
            kind=f'"{make_printable(str(raw["model_type"]))}"',
        )
    raw |= {"model_type": model_type} if model_type else {}
    refuse_other_kinds(raw, place=place)
    refuse_code_keys(raw, place=place)
    return take_text_part(raw)


def _refuse_convertible(folder: ModelFolder, *, raw: Mapping[str, JsonValue]) -> None:
    """Refuse a form that `models convert` reads, with the options that it needs."""
    if form := find_other_form(folder):
        kind = "" if raw.get("model_type") else guess_kind(raw, tensor_names=())
        form.refuse(folder, options=f" --model-type {kind}" if kind else "")


def inspect_model(path: Path) -> ModelSummary:
    """Return a summary of the model in a directory, without torch."""
    files = read_model_files(path)
    config = files.config
    return ModelSummary(
        files.folder.name,
        config,
        count_parameters(config),
        measure_pass(config),
        files.tokenizer.kind,
        files.conversion.rounding if files.conversion else "",
    )


def inspect_adapter(path: Path) -> AdapterSummary:
    """Return a summary of the adapter in a directory, without torch."""
    folder = open_folder(path)
    with refuse_unreadable_files(folder):
        adapter = read_adapter(path)
        return AdapterSummary(
            folder.name,
            adapter.n_parameters,
            adapter.base,
            adapter.ranks,
            _list_last_parts(adapter.changes),
            _list_last_parts(adapter.replacements),
        )


def _list_last_parts(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({name.rpartition(".")[2] for name in names}))


def is_adapter(path: Path) -> bool:
    """Return whether a directory holds an adapter in place of a whole model."""
    return is_adapter_folder(open_folder(path))


def compute_model_digest(path: Path) -> str:
    """Return the SHA-256 of everything that determines a model or an adapter, in hexadecimal.

    The digest covers the used settings of `config.json`, all tokenizer files, and every byte of the
    weights. It does not depend on the place, the version or the name under which it was saved.
    """
    folder = open_folder(path)
    if is_adapter_folder(folder):
        with refuse_unreadable_files(folder), locate_errors(folder.name):
            return read_adapter(path).digest()
    return read_model_files(path).compute_digest()


def compute_hospital_digest(general: Path, hospital: Path) -> str:
    """Return the digest of the hospital's model of a pair, which may be an adapter on the other."""
    digest = compute_model_digest(hospital)
    return join_digests(compute_model_digest(general), digest) if is_adapter(hospital) else digest


def is_causal_model(path: Path) -> bool:
    """Return whether a directory says that its model is causal; False if it cannot be read."""
    with suppress(AuditError):
        raw = take_text_part(open_folder(path).json("config.json", max_bytes=MAX_CONFIG_BYTES))
        kind = SUPPORTED_KINDS.get(str(raw.get("model_type")))
        return kind is not None and kind.config.is_causal
    return False
