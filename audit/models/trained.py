"""Models that were trained here: where they lie, and what such a model is called.

A trained model is the directory `model` (or `model-<step>`, a copy kept on the way) beside a file
`training.json`, which holds its title. Torch-free.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from audit.errors import AuditError
from audit.foreign import json_value, refusing
from audit.home import data_home

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
