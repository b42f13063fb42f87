"""Headers of safetensors files and shard indexes, read without torch.

The format: eight bytes with the header's length, a JSON header, then the tensors' bytes without
gaps (https://github.com/huggingface/safetensors, "Format").
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.errors import AuditError
from audit.foreign import json_value

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

    Attributes
    ----------
    name
        Name of the tensor in the file.
    dtype
        As in the format: "F32", "F16", "BF16", ...
    shape
        Sizes of the dimensions.
    file
        Name of the file that holds it.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    file: str


def parse_json(data: bytes, *, where: str) -> dict[str, object]:
    """Parse a JSON object strictly, as `audit.foreign.json_value` does.

    Raises
    ------
    AuditError
        If it is anything else.
    """
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
    """Read and check the header of one safetensors file.

    Raises
    ------
    AuditError
        If the header is too long or broken, or does not describe exactly the bytes that follow.
    """
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
    """Return the shard files that an index names, each once, in order of name.

    Raises
    ------
    AuditError
        If a name is not the plain name of a safetensors file (a path, another folder, a pickle).
    """
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
    """Check that every tensor lies once, and in the shard that the index says.

    Raises
    ------
    AuditError
        If index and shards disagree.
    """
    weight_map = index["weight_map"]
    found = {tensor.name: tensor.file for tensor in tensors}
    if len(found) != len(tensors) or found != weight_map:
        raise AuditError(
            "The shard index and the shards do not hold the same tensors.",
            where=where,
            do="Copy the model again from where it was saved, all shards of one saving.",
        )
