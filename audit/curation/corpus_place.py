"""The place where a corpus is made: beside its folder, put there whole, or nothing is left.

Comes in: the folder that is wanted. Goes out: a folder to work in. What a killed process left has
another name and is cleared by the next one that makes the same corpus; two cannot do so at once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audit.corpora.build_files import clear_folder, locked_folder, refuse_full
from audit.errors import AuditError
from audit.kept_folders import FORGOTTEN

_MADE = ".making"


def clear_abandoned(parent: Path) -> None:
    """Remove what killed processes left in a folder of corpora; what is being made stays."""
    for path in parent.iterdir():
        if path.name.startswith(".") and path.name.endswith((_MADE, FORGOTTEN)):
            try:
                lock = locked_folder(path)
            except (AuditError, OSError):  # being made
                continue
            try:
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(lock)


@contextmanager
def corpus_place(out: Path) -> Iterator[Path]:
    """Give the path of a folder to be made; it becomes `out` when the block ends well.

    Raises
    ------
    AuditError
        If `out` holds something, is being made by somebody else, or cannot be written.
    """
    stage = out.parent / f".{out.name}{_MADE}"
    lock = -1
    try:
        out.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        refuse_full(out)
        lock = locked_folder(stage)
        clear_folder(stage)
        try:
            yield stage / "corpus"
            refuse_full(out)
            (stage / "corpus").rename(out)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        raise AuditError(
            f"The corpus cannot be written ({os.strerror(error.errno or 0)}).",
            where="corpus",
            do="Choose a folder that you may write to, with room for two copies of the notes.",
        ) from None
    finally:
        if lock >= 0:
            os.close(lock)
