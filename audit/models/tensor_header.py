"""Read what a safetensors file says of its tensors, before any of them is read."""

from __future__ import annotations

from pathlib import Path

from safetensors import safe_open

from audit.errors import AuditError
from audit.foreign import open_regular, refuse_errors
from audit.models.model_folder import COPY_FILE, make_read_error, refuse_stand_in

# A tensor takes some 150 bytes of a header.
_MAX_HEADER_BYTES = 4_000_000
_START_BYTES = 200
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")

Header = dict[str, tuple[str, tuple[int, ...]]]
"""Name of a tensor -> its number type ("F32", ...) and shape."""


def read_header(path: Path) -> Header:
    """Read the number type ("F32", ...) and shape of each tensor; the library checks them."""
    broken = AuditError("This is not a complete safetensors file.", do=COPY_FILE)
    try:
        with open_regular(path) as file_start:
            start = file_start.read(_START_BYTES)
    except OSError as fault:
        raise make_read_error(fault, place="") from None
    refuse_stand_in(start)
    # A safetensors file begins with the length of its header, which may look like a pickle's start.
    if start.startswith(_PICKLE_STARTS) and start[8:9] != b"{":
        raise AuditError(
            "This file has the name of a safetensors file, but torch.save wrote it, in a format "
            "that can run code.",
            do="Rename it to pytorch_model.bin, then run `python -m audit models convert FOLDER "
            "--out NEW_FOLDER`.",
        )
    if int.from_bytes(start[:8], "little") > _MAX_HEADER_BYTES:
        raise broken
    with refuse_errors(broken), safe_open(path, framework="numpy") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
        return {
            name: (slice_.get_dtype(), tuple(slice_.get_shape())) for name, slice_ in slices.items()
        }
