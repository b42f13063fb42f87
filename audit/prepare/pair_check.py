"""The choice of a pair: which models there are, and what would be refused of two, before a run.

Comes in: model directories. Goes out: facts side by side, and the refusal that `load_pair` would
give. Reads no weight but for the digest. Torch-free; transformers is imported where a tokenizer is
built, and not before.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.demo import SHIPPED
from audit.errors import AuditError
from audit.models.files import ModelFiles, ModelSummary, inspect_model, model_digest
from audit.models.files import read_model_files as _read
from audit.models.registry import RegisteredModel, list_models

DEMO_PREFIX = "demo:"
QUICK_BYTES = 64_000_000
"""Weights up to this size are digested without being asked to."""

_MAX_SHOWN = 6


@dataclass(frozen=True)
class Trait:
    """One fact of both models; `code` names it: "architecture", "n_layers" ..."""

    code: str
    general: str | int | float
    hospital: str | int | float

    @property
    def is_different(self) -> bool:
        """Whether the two models differ in it."""
        return self.general != self.hospital


@dataclass(frozen=True)
class PairCheck:
    """What can be said of two models before their weights are read.

    Attributes
    ----------
    traits
        Facts of both.
    tokenizer_differences
        What their tokenizers differ in; empty where they split every text alike.
    refusal
        Why the pair would be refused; "" where it would not.
    is_one_directory
        Whether both are the same directory.
    """

    traits: tuple[Trait, ...]
    tokenizer_differences: tuple[str, ...]
    refusal: str
    is_one_directory: bool


def model_choices() -> tuple[RegisteredModel, ...]:
    """Return the registered models, then the demo's, refused ones with their reason."""
    return (*list_models(), *_demo_models())


def find_model(model_id: str, *, among: tuple[RegisteredModel, ...]) -> RegisteredModel | None:
    """Return the model of this identifier; identifiers are compared, never made into a path."""
    return next((model for model in among if model.model_id == model_id), None)


def check_pair(general: Path, hospital: Path) -> PairCheck:
    """Compare two models by their configurations and tokenizers.

    Raises
    ------
    AuditError
        If one of the directories can no longer be read.
    """
    one, other = inspect_model(general), inspect_model(hospital)
    files = _read(general), _read(hospital)
    refusal = ""
    differences: tuple[str, ...] = ()
    try:
        differences = tokenizer_differences(tokenizer(general), hospital=tokenizer(hospital))
    except AuditError as error:
        refusal = str(error)
    if differences:
        shown = "; ".join(differences[:_MAX_SHOWN])
        more = len(differences) - _MAX_SHOWN
        refused = AuditError(
            f"The two models have different tokenizers: {shown}"
            f"{f'; and {more} more' if more > 0 else ''}.",
            where=f"{one.name} and {other.name}",
            do="Choose as general model the one that the hospital's training started from.",
        )
        refusal = str(refused)
    is_one = os.path.realpath(general) == os.path.realpath(hospital)
    return PairCheck(_traits((one, other), files), differences, refusal, is_one)


def tokenizer(path: Path) -> Any:
    """Return a model's tokenizer, built from its checked files and remembered.

    Raises
    ------
    AuditError
        If it cannot be built, or the model is refused.
    """
    return _tokenizer(path, signature(path))


def tokenizer_differences(general: Any, *, hospital: Any) -> tuple[str, ...]:
    """Say how two tokenizers differ, as `audit.models.pair.tokenizer_differences` of two models."""
    from audit.models.tokenizer import tokenizer_settings

    first, second = general.get_vocab(), hospital.get_vocab()
    n_entries = sum(first.get(token) != second.get(token) for token in first.keys() | second.keys())
    differences = [f"{n_entries} entries of the vocabulary"] if n_entries else []
    settings, others = tokenizer_settings(general), tokenizer_settings(hospital)
    names = sorted(settings.keys() | others.keys())
    differences += [name for name in names if settings.get(name) != others.get(name)]
    return tuple(differences)


def known_digest(path: Path) -> str:
    """Return a model's digest, remembered until a file's size or time changes; raises as there."""
    return _known_digest(path, signature(path))


def is_quick(path: Path) -> bool:
    """Whether the digest comes at once: the weights are small, or it is known already."""
    files = signature(path)
    return (path, files) in _DIGESTED or sum(size for _, size, _ in files) <= QUICK_BYTES


_DIGESTED: set[tuple[Path, Any]] = set()
Signature = tuple[tuple[str, int, int], ...]
"""Name, size in bytes and time of the last change in nanoseconds of each file."""


def signature(path: Path) -> Signature:
    """Return what tells whether a model's files have changed; raises `AuditError` if unreadable."""
    try:
        entries = [(entry.name, entry.stat()) for entry in os.scandir(path) if entry.is_file()]
    except OSError:
        raise AuditError(
            "The model's directory cannot be read any more.", do="Choose another model."
        ) from None
    return tuple(sorted((name, stat.st_size, stat.st_mtime_ns) for name, stat in entries))


@functools.lru_cache(maxsize=64)
def _known_digest(path: Path, files: Signature) -> str:
    digest = model_digest(path)
    _DIGESTED.add((path, files))
    return digest


@functools.lru_cache(maxsize=8)
def _tokenizer(path: Path, files: Signature) -> Any:
    from audit.models.tokenizer import build_tokenizer

    found = _read(path)
    return build_tokenizer(found.tokenizer, config=found.config, name=found.folder.name)


def _demo_models() -> list[RegisteredModel]:
    models = []
    for language in ("en", "ja"):
        folder = SHIPPED / language / "models"
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        # The general model first: it is the other ones' beginning.
        for name in sorted(names, key=lambda name: (name != "general", name)):
            model_id = f"{DEMO_PREFIX}{language}/{name}"
            try:
                summary = inspect_model(folder / name)
                models.append(RegisteredModel(model_id, folder / name, summary, ""))
            except AuditError as refused:
                models.append(RegisteredModel(model_id, folder / name, None, str(refused)))
    return models


def _traits(
    summaries: tuple[ModelSummary, ModelSummary], files: tuple[ModelFiles, ModelFiles]
) -> tuple[Trait, ...]:
    fields = (
        "architecture", "n_layers", "hidden_size", "vocab_size", "n_parameters", "n_positions",
        "tokenizer",
    )  # fmt: skip
    traits = [Trait(name, *(getattr(summary, name) for summary in summaries)) for name in fields]
    for name in ("n_heads", "hidden_dropout", "attention_dropout"):
        traits.append(Trait(name, *(getattr(one.config, name) for one in files)))
    return tuple(traits)
