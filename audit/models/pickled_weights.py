"""Read pickled weights in a process that is shut off, and write them as safetensors.

`rewrite_pickle` is for `audit.models.limited.call_limited`; no other process calls `torch.load` on
a foreign file. Only plain tensors by name come out of it.
"""

from __future__ import annotations

import io
import json
import os
import re
import resource
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from audit.errors import AuditError
from audit.foreign import open_regular
from audit.models.model_folder import COPY_FILE, SAVE_ANEW, make_printable
from audit.models.sandbox import shut_off
from audit.shelf import JSON, create_file, make_write_error

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
}
_WRAPPERS = ("state_dict", "model")
_MAX_TENSORS = 20_000
_MAX_NAME_CHARS = 300
# Tied tensors share their numbers in a pickle and are written twice. More is a tensor of few
# numbers that claims to be large.
_MAX_GROWTH = 3
_SLACK_BYTES = 1_000_000
_HEADER_BYTES = 500
"""The most bytes that a tensor takes in the header."""
_FOREIGN_OBJECT = re.compile(r"GLOBAL ([\w.]{1,200})")


def rewrite_pickle(source: Path, target: Path) -> int:
    """Write the tensors of a pickled file as safetensors; return their number.

    The process that calls this can do nothing else afterwards.
    """
    _load_samples()
    with open_regular(source) as pickle_file, create_file(target) as weights_file:
        n_file = os.fstat(pickle_file.fileno()).st_size
        most_bytes = _MAX_GROWTH * n_file + _SLACK_BYTES + _MAX_TENSORS * _HEADER_BYTES
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
        shut_off()
        tensors = _select_tensors(_load(pickle_file))
        _refuse_growth(tensors, n_file=n_file)
        try:
            write_safetensors(tensors, weights_file)
            weights_file.flush()
        except OSError as error:
            raise make_write_error(error) from None
    return len(tensors)


def _load_samples() -> None:
    """Load a tensor in each format, so that everything is imported while files can be opened."""
    for is_zip in (True, False):
        sample = io.BytesIO()
        torch.save(
            {"sample": torch.nn.Parameter(torch.zeros(1))},
            sample,
            _use_new_zipfile_serialization=is_zip,
        )
        sample.seek(0)
        torch.load(sample, map_location="cpu", weights_only=True)


def _load(file: BinaryIO) -> object:
    try:
        return torch.load(file, map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except Exception as fault:  # noqa: BLE001  # no list of its exceptions is complete
        if "allocate memory" in str(fault):
            raise MemoryError from None
        if foreign_object := _FOREIGN_OBJECT.search(str(fault)):
            raise AuditError(
                "The file holds more than tensors: reading it would need {object}.",
                do=SAVE_ANEW,
                object=f'"{make_printable(foreign_object[1])}"',
            ) from None
    raise AuditError(
        "The file is damaged, or is not a PyTorch file that holds only tensors.",
        do=COPY_FILE,
    )


def _select_tensors(checkpoint: Any) -> dict[str, Tensor]:
    """Return the tensors of a loaded checkpoint by name; refuse everything but plain tensors."""
    for wrapper in _WRAPPERS:
        if type(checkpoint) in (dict, OrderedDict) and [*checkpoint] == [wrapper]:
            checkpoint = checkpoint[wrapper]
            break
    if type(checkpoint) not in (dict, OrderedDict) or not 0 < len(checkpoint) <= _MAX_TENSORS:
        raise AuditError("The file does not consist of named tensors only.", do=SAVE_ANEW)
    for name, tensor in checkpoint.items():
        if type(name) is not str or not name.isprintable() or len(name) > _MAX_NAME_CHARS:
            raise AuditError("The file does not consist of named tensors only.", do=SAVE_ANEW)
        if not _is_plain(tensor):
            raise AuditError(
                "{name} is not a plain tensor: it is sparse or quantised, has no numbers or "
                "numbers of another type, or is another object.",
                do=SAVE_ANEW,
                name=f'"{make_printable(name)}"',
            )
    return {name: tensor.detach() for name, tensor in checkpoint.items()}


def _is_plain(tensor: Any) -> bool:
    return bool(
        type(tensor) in (Tensor, torch.nn.Parameter)
        and tensor.layout is torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and tensor.dtype in _DTYPES
    )


def _refuse_growth(tensors: Mapping[str, Tensor], *, n_file: int) -> None:
    n_bytes = sum(tensor.numel() * tensor.itemsize for tensor in tensors.values())
    if n_bytes > _MAX_GROWTH * n_file + _SLACK_BYTES:
        raise AuditError(
            "The tensors claim {n_bytes:,} bytes, but the file has only {n_file:,}.",
            do=SAVE_ANEW,
            n_bytes=n_bytes,
            n_file=n_file,
        )


def write_safetensors(
    tensors: Mapping[str, Tensor],
    file: BinaryIO,
    *,
    on_bytes: Callable[[int], None] = lambda n: None,
) -> None:
    """Write tensors into an open file in the format of safetensors; raises `OSError`.

    Format: the header's length in 8 bytes, the header as JSON, the numbers without gaps.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))  # so all are aligned
    header: dict[str, JSON] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in names:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.itemsize
        header[name] = {
            "dtype": _DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    header_bytes = json.dumps(header, separators=(",", ":")).encode("utf-8")
    header_bytes += b" " * (-len(header_bytes) % 8)
    file.write(len(header_bytes).to_bytes(8, "little") + header_bytes)
    for name in names:
        numbers = tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy()
        file.write(numbers.data)
        on_bytes(numbers.nbytes)
