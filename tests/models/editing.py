"""Ways to edit a model directory in a test."""

from __future__ import annotations

import json
import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

WEIGHTS = "model.safetensors"


class Canary:
    """Makes a directory when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def canary(folder: Path) -> Path:
    """Return where a pickle that was opened would have left its trace."""
    return folder.parent / "canary"


def write_pickle(folder: Path, name: str) -> None:
    (folder / name).write_bytes(pickle.dumps(Canary(canary(folder))))


def edit_json(folder: Path, name: str, **changes: object) -> None:
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), encoding="utf-8")


def write_header(folder: Path, header: dict[str, Any] | bytes, *, n_bytes: int = 0) -> None:
    """Write weights of so many zeros behind a header."""
    data = header if isinstance(header, bytes) else json.dumps(header).encode()
    with (folder / WEIGHTS).open("wb") as file:
        file.write(len(data).to_bytes(8, "little") + data)
        file.truncate(8 + len(data) + n_bytes)


def write_zeros(folder: Path) -> int:
    """Write the weights that the folder's config.json promises, all zero; return their bytes."""
    from audit.models.architectures import parse_config
    from audit.models.layouts import compute_expected_shapes

    config = parse_config(json.loads((folder / "config.json").read_text()), place="")
    header, offset = {}, 0
    for name, shape in sorted(compute_expected_shapes(config).items()):
        end = offset + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    write_header(folder, header, n_bytes=offset)
    return offset


def edit_weights(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the tensors of the weights, or those of each shard."""
    for path in sorted(folder.glob("model*.safetensors")):
        tensors = load_file(path)
        change(tensors)
        save_file({k: v.clone().contiguous() for k, v in tensors.items()}, path)


def config(**changes: object) -> Callable[[Path], object]:
    return lambda folder: edit_json(folder, "config.json", **changes)


def tokenizer_config(**changes: object) -> Callable[[Path], object]:
    return lambda folder: edit_json(folder, "tokenizer_config.json", **changes)


def weights(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], object]:
    return lambda folder: edit_weights(folder, change)


def write(name: str, content: str | bytes) -> Callable[[Path], object]:
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)


def remove(*names: str) -> Callable[[Path], object]:
    def remove_files(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove_files
