"""The format of one stored value: arrays and JSON as bytes, sealed with a checksum.

Equal content gives equal bytes, so two runs can be compared by their files. The seal detects
accidents: flipped bits, truncated files, swapped files. It contains no secret, so it does not stop
somebody with write access to the directory from storing a forged number. Reading a value cannot run
code.

Layout: magic (8 bytes), SHA-256 of all that follows (32), length of the key (4, big endian), key,
zip archive with one `.npy` file per array and `meta.json`.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from audit.shelf import JSON

_MAGIC = b"kartaud1"
_N_HEADER_BYTES = len(_MAGIC) + 32 + 4
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,31}(/[A-Za-z0-9_-]{1,128}){1,3}")
_META = "meta.json"
# Booleans, integers, floats, complex numbers, fixed-width text: numpy writes these without pickle.
_DTYPE_KINDS = "biufcSU"
# JSON has no NaN, but undefined numbers are NaN in this program, so NaN has its own spelling.
_FLOAT = "$float"
# Exceptions that the readers of zip, zlib, npy and JSON raise on invalid bytes.
_NO_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    LookupError,
    ValueError,
    TypeError,
    ArithmeticError,
    EOFError,
    OSError,
    RuntimeError,
)
# The header that `np.lib.format` writes: magic, version, length of the header, header.
_NPY_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][biufcSU]\d{1,9})', 'fortran_order': False, "
    rb"'shape': \(([\d, ]{0,700})\), \} *\n",
    re.DOTALL,
)
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


class CorruptValueError(ValueError):
    """The bytes are not what was stored under this key."""


@dataclass(frozen=True)
class Stored:
    """One value from the store: arrays and JSON, each by name (tuples come back as lists)."""

    arrays: dict[str, NDArray[Any]]
    meta: dict[str, Any]


def check_key(key: str) -> None:
    """Raise `ValueError` unless a key has the form "kind/digest"."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError("a key is a kind, a slash and a digest: letters, digits, '_' and '-' only")


def canonical_json(value: JSON) -> bytes:
    """Return the one spelling of a JSON value: sorted names, no spaces, ASCII.

    NaN and the infinities are written as {"$float": "nan"}, so that they survive writing and
    reading. 1, 1.0 and true are three different values. Raises `TypeError` for values that are not
    JSON, such as numpy integers (call `int` first).
    """
    return json.dumps(
        _encode_json(value), sort_keys=True, separators=(",", ":"), allow_nan=False
    ).encode("ascii")


def content_key(kind: str, parts: Mapping[str, JSON]) -> str:
    """Return the key "kind/SHA-256" of all parts that determine a value; `kind` is a short word."""
    content = canonical_json({"kind": kind, "parts": parts})
    return f"{kind}/{hashlib.sha256(content).hexdigest()}"


def encode(*, arrays: Mapping[str, NDArray[np.generic]], meta: Mapping[str, JSON]) -> bytes:
    """Return arrays and JSON as one zip archive; equal content gives equal bytes.

    The bytes are equal only for the same version of zlib; `decode` reads those of every version.
    Raises `TypeError` for arrays of objects or records, and for values that are not JSON.
    """
    members = {f"{name}.npy": _write_npy(array) for name, array in arrays.items()}
    members[_META] = canonical_json(meta)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for name in sorted(members):
            # The archive's own fields are fixed: no clock, no umask, no operating system.
            entry = zipfile.ZipInfo(name, date_time=_ZIP_TIME)
            entry.create_system = 3
            entry.external_attr = 0o600 << 16
            zipped.writestr(
                entry, members[name], compress_type=zipfile.ZIP_DEFLATED, compresslevel=1
            )
    return archive.getvalue()


def decode(body: bytes | memoryview) -> Stored:
    """Return the arrays and JSON that `encode` took. Raises CorruptValueError for other bytes."""
    arrays: dict[str, NDArray[np.generic]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as zipped:
            meta = _decode_json(json.loads(zipped.read(_META)))
            for name in zipped.namelist():
                if name != _META:
                    arrays[name.removesuffix(".npy")] = _read_npy(zipped.read(name))
    except _NO_ARCHIVE as error:
        raise CorruptValueError("not an archive of arrays and JSON") from error
    if not isinstance(meta, dict):
        raise CorruptValueError("not an archive of arrays and JSON")
    return Stored(arrays=arrays, meta=meta)


def seal(key: str, body: bytes) -> bytes:
    """Return the body with its key and a SHA-256 of both in front."""
    name = key.encode("ascii")
    sealed = struct.pack(">I", len(name)) + name + body
    return _MAGIC + hashlib.sha256(sealed).digest() + sealed


def unseal(payload: bytes) -> tuple[str, memoryview]:
    """Return key and body of a sealed value. Raises CorruptValueError if the checksum is wrong."""
    view = memoryview(payload)
    if len(view) < _N_HEADER_BYTES or view[: len(_MAGIC)] != _MAGIC:
        raise CorruptValueError("not a stored value")
    if hashlib.sha256(view[len(_MAGIC) + 32 :]).digest() != view[len(_MAGIC) : len(_MAGIC) + 32]:
        raise CorruptValueError("the checksum does not fit")
    (n_key_bytes,) = struct.unpack(">I", view[_N_HEADER_BYTES - 4 : _N_HEADER_BYTES])
    name = bytes(view[_N_HEADER_BYTES : _N_HEADER_BYTES + n_key_bytes])
    return name.decode("ascii", errors="replace"), view[_N_HEADER_BYTES + n_key_bytes :]


def _write_npy(array: NDArray[np.generic]) -> bytes:
    plain = np.asarray(array)
    if plain.dtype.kind not in _DTYPE_KINDS:
        raise TypeError(f"numbers of type {plain.dtype} cannot be stored without pickle")
    # Memory order and byte order do not belong to the content.
    plain = plain.astype(plain.dtype.newbyteorder("<"), order="C", copy=False)
    out = io.BytesIO()
    np.lib.format.write_array(out, plain, allow_pickle=False)
    return out.getvalue()


def _read_npy(data: bytes) -> NDArray[np.generic]:
    # numpy reads the header with `ast`, which sometimes fails if several threads do so at once
    # (CPython 3.11: "AST constructor recursion depth mismatch"). Our headers have only one form.
    header = _NPY_HEADER.match(data)
    if header is None:
        raise ValueError("not an array that was written here")
    dtype = np.dtype(header[1].decode("ascii"))
    sizes = tuple(map(int, re.findall(rb"\d+", header[2])))
    if math.prod(sizes) * dtype.itemsize != len(data) - header.end():
        raise ValueError("an array has another size")
    read_only: NDArray[np.generic] = np.ndarray(sizes, dtype, data, header.end())
    return read_only.copy()


def _encode_json(value: JSON) -> JsonValue:
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {_FLOAT: str(float(value))}
    if isinstance(value, Mapping):
        if _FLOAT in value or not all(isinstance(name, str) for name in value):
            raise TypeError(f"names in JSON are text, and not {_FLOAT!r}")
        return {name: _encode_json(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_encode_json(item) for item in value]
    raise TypeError(f"{type(value).__name__} is not JSON")


def _decode_json(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        if set(value) == {_FLOAT}:
            return float(str(value[_FLOAT]))
        return {name: _decode_json(item) for name, item in value.items()}
    return [_decode_json(item) for item in value] if isinstance(value, list) else value
