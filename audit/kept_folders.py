"""Folders that an installation keeps under a code: listed, and removed for everybody at once."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from audit.errors import AuditError

_CODE = re.compile("[0-9a-f]{12}")
FORGOTTEN = ".forgotten"
"""How the name of a folder ends whose removal was interrupted."""


def is_code(text: str) -> bool:
    """Whether a text is 12 hexadecimal digits, as the name of a kept folder is."""
    return _CODE.fullmatch(text) is not None


def coded_folders(parent: Path) -> Iterator[Path]:
    """Yield the folders whose name is a code; links are left out."""
    for folder in parent.iterdir():
        if is_code(folder.name) and folder.is_dir() and not folder.is_symlink():
            yield folder


def forget_folder(folder: Path, *, unknown: AuditError, refused: AuditError) -> None:
    """Remove a folder with all of its files; nobody sees half of it.

    Raises
    ------
    AuditError
        `unknown` where there is no such folder, `refused` where the disk does not let it go.
    """
    if not folder.is_dir():
        raise unknown
    doomed = folder.with_name(f".{folder.name}{FORGOTTEN}")
    try:
        shutil.rmtree(doomed, ignore_errors=True)
        folder.rename(doomed)
        shutil.rmtree(doomed)
    except OSError:
        raise refused from None
