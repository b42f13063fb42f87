"""The models that this installation knows: registered folders' models, and those trained here.

Pages pick a model from this list by its identifier; a path typed by a person is accepted on the
command line only.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.errors import AuditError
from audit.models.inspect import (
    LABEL,
    ModelSummary,
    inspect_model,
    model_digest,
    read_model_files,
    trained_models,
    trained_name,
)

VARIABLE = "KART_AUDIT_MODELS"
"""Environment variable that names the registered folders, separated as in PATH."""

QUICK_BYTES = 64_000_000
"""Weights up to this size are digested without being asked to."""

_MAX_DEPTH = 4
_MAX_DIRECTORIES = 5_000
_MAX_TEXT = 4_096


@dataclass(frozen=True)
class RegisteredFolder:
    """A folder under which models lie.

    `label` is the first part of its models' identifiers: its own name, numbered where two are
    alike.
    """

    label: str
    path: Path


@dataclass(frozen=True)
class RegisteredModel:
    """A model in the list: either what it is, or why it cannot be loaded.

    `model_id` is the folder's label and the path under it, or "trained/" and the run's name;
    `refusal` and `title` (of a model that was trained here) are "" where there is none.
    """

    model_id: str
    path: Path
    summary: ModelSummary | None
    refusal: str
    title: str = ""


def registered_folders() -> tuple[RegisteredFolder, ...]:
    """Return the registered folders that exist, in the order of the environment variable."""
    folders: list[RegisteredFolder] = []
    used = {LABEL}
    for text in os.environ.get(VARIABLE, "").split(os.pathsep):
        if not text.strip():
            continue
        try:
            path = Path(os.path.realpath(Path(text.strip()).expanduser()))
            is_folder = path.is_dir()
        except (OSError, RuntimeError):
            continue
        if not is_folder or any(folder.path == path for folder in folders):
            continue
        base = path.name or "models"
        label = next(
            candidate
            for n in range(1, len(used) + 2)
            if (candidate := base if n == 1 else f"{base}-{n}") not in used
        )
        used.add(label)
        folders.append(RegisteredFolder(label, path))
    return tuple(folders)


def list_models() -> tuple[RegisteredModel, ...]:
    """Return the models trained here and those registered, refused ones with the reason."""
    return tuple(_inspected(model_id, path=path) for model_id, path in _all_found())


def resolve_model(model_id: str) -> Path:
    """Return the directory of a model in the list.

    The identifier is compared with those of the list and never made into a path.
    """
    path = next((path for found, path in _all_found() if found == model_id), None)
    if path is None:
        raise AuditError(
            "No registered model has this identifier.",
            do=f"Choose one from the list; models lie under the folders named in {VARIABLE}.",
        )
    return path


def model_path(text: str, *, where: str = "model") -> Path:
    """Return the directory that a person named on the command line, in the option `where`."""
    problem = "This is not a directory."
    if not text.strip() or len(text) > _MAX_TEXT or "\x00" in text:
        raise AuditError("This is not a path.", where=where, do="Name a model's directory.")
    try:
        path = Path(text).expanduser()
        if path.is_dir():
            return path.resolve()
        if not path.exists():
            problem = "There is no such directory."
    except (OSError, RuntimeError):
        problem = "This is not a path that can be followed."
    raise AuditError(
        problem,
        where=where,
        do="Name a directory on this machine; nothing is downloaded from a hub.",
    )


def _inspected(model_id: str, *, path: Path) -> RegisteredModel:
    title = trained_name(path) if model_id.startswith(f"{LABEL}/") else ""
    try:
        return RegisteredModel(model_id, path, inspect_model(path), refusal="", title=title)
    except AuditError as refused:
        return RegisteredModel(model_id, path, None, refusal=str(refused), title=title)


def _all_found() -> Iterator[tuple[str, Path]]:
    yield from trained_models()
    yield from _found()


def _found() -> Iterator[tuple[str, Path]]:
    """Yield identifier and directory of everything with a config.json, in order of name."""
    for folder in registered_folders():
        n_seen = 0
        waiting = [folder.path]
        while waiting and n_seen < _MAX_DIRECTORIES:
            directory = waiting.pop()
            n_seen += 1
            # Links are not followed below, but a folder can be exchanged for one meanwhile.
            if not Path(os.path.realpath(directory)).is_relative_to(folder.path):
                continue
            parts = directory.relative_to(folder.path).parts
            if _is_model(directory):
                yield "/".join((folder.label, *map(_whole, parts))), directory
            if len(parts) < _MAX_DEPTH:
                waiting.extend(reversed(_subdirectories(directory)))


def _is_model(directory: Path) -> bool:
    try:
        return (directory / "config.json").is_file()
    except OSError:
        return False


def _whole(part: str) -> str:
    # A name of bytes that are no UTF-8 holds halves of characters, which no page can show.
    return part.encode("utf-8", "backslashreplace").decode("utf-8")


def _subdirectories(directory: Path) -> list[Path]:
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return []
    return [
        Path(entry.path)
        for entry in entries
        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
    ]


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


def known_digest(path: Path) -> str:
    """Return a model's digest, remembered until a file's size or time changes; raises as there."""
    return _known_digest(path, signature(path))


def is_quick(path: Path) -> bool:
    """Whether the digest comes at once: the weights are small, or it is known already."""
    files = signature(path)
    return (path, files) in _DIGESTED or sum(size for _, size, _ in files) <= QUICK_BYTES


@functools.lru_cache(maxsize=64)
def _known_digest(path: Path, files: Signature) -> str:
    digest = model_digest(path)
    _DIGESTED.add((path, files))
    return digest


def tokenizer(path: Path) -> Any:
    """Return a model's tokenizer, built from its checked files and remembered.

    Raises
    ------
    AuditError
        If it cannot be built, or the model is refused.
    """
    return _tokenizer(path, signature(path))


@functools.lru_cache(maxsize=8)
def _tokenizer(path: Path, files: Signature) -> Any:
    from audit.models.tokenizer import build_tokenizer

    found = read_model_files(path)
    return build_tokenizer(found.tokenizer, config=found.config, name=found.folder.name)
