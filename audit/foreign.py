"""Foreign bytes become values here: bounded before a parser sees them, and refused in words.

Whatever is read that this program did not write (models, notes, archives) may be made to fill the
memory or to raise what nobody thought of. Bounds are counted in the bytes, before anything is
allocated; and every exception of a parser becomes the one refusal that its caller names.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path, PurePosixPath

from audit.errors import AuditCancelled, AuditError

MAX_VALUES = 1_200_000
"""Most values of one JSON text: as objects they take some 400 MB at worst."""

_MAX_DIGITS = 300
# Notes pack five to one; what unpacks to a hundred times its size is made to fill the memory.
_MAX_RATIO = 100
_RATIO_SLACK_BYTES = 8_000_000
_ZIP_STARTS = (b"PK\x03\x04", b"PK\x05\x06")
_ENTRY = b"PK\x01\x02"
_HIDDEN_SHARE = 3
# bz2 and LZMA give out a whole block at once, a gigabyte for a kilobyte: no bound can be kept.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_IS_ENCRYPTED = 0x1


@contextmanager
def refusing(refusal: AuditError) -> Iterator[None]:
    """Turn whatever the block raises into `refusal`; errors in words and cancellation pass.

    The parser's own text is dropped: it may quote what it read.
    """
    try:
        yield
    except (AuditError, AuditCancelled):
        raise
    except Exception:  # noqa: BLE001  # the point: no list of what a parser raises is whole
        raise refusal from None


def json_value(
    data: bytes | str,
    *,
    refusal: AuditError,
    max_values: int = MAX_VALUES,
    number: Callable[[str], object] | None = None,
) -> object:
    """Parse JSON strictly: UTF-8, no key twice, no number that a float does not hold.

    Parameters
    ----------
    data
        Its length is the caller's to bound.
    refusal
        Raised where it is anything else, or holds more than `max_values` values.
    number
        Makes a value of a number as it is written, NaN and Infinity too. Where it is not given
        these two are refused, and what a float does not hold.
    """
    with refusing(refusal):
        # Each value but the first stands behind a comma or a bracket.
        if _n_values(data) > max_values:
            raise ValueError("too many values")
        return json.loads(
            data if isinstance(data, str) else data.decode("utf-8-sig"),
            parse_constant=number or _no_number,
            parse_float=number or _finite,
            parse_int=number or _whole,
            object_pairs_hook=_unique,
        )


def free_memory() -> float:
    """Return the bytes that this process may still take; infinite where nobody says it."""
    free = math.inf
    with suppress(OSError, ValueError, StopIteration), Path("/proc/meminfo").open() as lines:
        free = 1024 * int(
            next(line for line in lines if line.startswith("MemAvailable")).split()[1]
        )
    group = Path("/sys/fs/cgroup")
    with suppress(OSError, ValueError):  # the limit of a container
        limit, used = (int((group / f"memory.{k}").read_text()) for k in ("max", "current"))
        cached = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        free = min(free, limit - used + int(cached.get("inactive_file", 0)))
    return free


def refuse_without_memory(n_bytes: int, *, where: str) -> None:
    """Refuse to load weights that take more than the memory that is free.

    A file may promise more than it holds on the disk: a hole of ten gigabytes takes none.

    Raises
    ------
    AuditError
        If they do.
    """
    free = free_memory()
    if n_bytes > free:
        raise AuditError(
            f"Loading the model takes up to {n_bytes / 1e9:.1f} GB, and only {free / 1e9:.1f} GB "
            "of free memory are left.",
            where=where,
            do="End other programs, or use a machine with more memory.",
        )


def is_zip(data: bytes) -> bool:
    """Whether bytes begin as a zip archive does."""
    return data.startswith(_ZIP_STARTS)


def zip_members(
    data: bytes, *, where: str, max_bytes: int, max_files: int
) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each file of a zip archive; folders and hidden files are left out.

    What an archive says of itself is not believed: every file is read to a limit.

    Raises
    ------
    AuditError
        If it is damaged, locked or not packed plainly, or holds more than `max_files` files or
        `max_bytes` bytes, or unpacks to more than a hundred times its size.
    """
    # Counted before it is opened, for opening makes an object of each.
    if data.count(_ENTRY) > _HIDDEN_SHARE * max_files:
        raise _too_many(max_files, where=where)
    left = min(max_bytes, _MAX_RATIO * len(data) + _RATIO_SLACK_BYTES)
    refusal = AuditError(
        "The archive is damaged or locked.", where=where, do="Make a plain zip without password."
    )
    with refusing(refusal), zipfile.ZipFile(BytesIO(data)) as archive:
        entries = [entry for entry in archive.infolist() if not _is_hidden(entry)]
        if len(entries) > max_files:
            raise _too_many(max_files, where=where)
        if len({entry.filename for entry in entries}) < len(entries):
            raise AuditError("Two files of the archive have the same name.", where=where)
        for entry in entries:
            if entry.flag_bits & _IS_ENCRYPTED:
                raise refusal
            if entry.compress_type not in _PACKINGS:
                raise AuditError(
                    "The archive is packed in a way that is not read.",
                    where=where,
                    do="Make a plain zip without password.",
                )
            with archive.open(entry) as file:
                content = file.read(left + 1)
            left -= len(content)
            if left < 0:
                raise AuditError("The archive is too large when unpacked.", where=where)
            yield entry.filename, content


def _too_many(max_files: int, *, where: str) -> AuditError:
    return AuditError(f"The archive has more than {max_files:,} files.", where=where)


def _is_hidden(entry: zipfile.ZipInfo) -> bool:
    parts = PurePosixPath(entry.filename).parts
    hidden = not parts or parts[-1].startswith(".") or "__MACOSX" in parts
    return entry.is_dir() or hidden


def _n_values(data: bytes | str) -> int:
    if isinstance(data, str):
        return sum(map(data.count, "[{,"))
    return sum(map(data.count, (b"[", b"{", b",")))


def _no_number(_: str) -> object:
    raise ValueError("not a number")


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("no float holds it")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("no float holds it")
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is there twice")
    return value
