"""The place where a score is made: beside its folder, with what a stopped run has tagged."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from audit.corpora.build_files import locked_folder
from audit.deid.kept_scores import scores_dir
from audit.deid.score_sources import PREDICTED_FILE
from audit.deid.tag_files import COPIES
from audit.errors import AuditError

TAGGED_FROM = "tagged-from.json"
"""Which tagger has written the predictions of an earlier run, and of which gold notes."""
ABANDONED_SECONDS = 7 * 86400.0


@contextmanager
def score_place(score_id: str) -> Iterator[Path]:
    """Give the folder in which a score is made; its tags of an earlier run stay in it.

    Raises
    ------
    AuditError
        If somebody else makes this score, or the folder cannot be written.
    """
    _clear_abandoned(keep=score_id)
    building = scores_dir() / f".{score_id}.making"
    lock = -1
    try:
        try:
            lock = locked_folder(building)
        except AuditError:
            raise AuditError("This score is being made already.", where="score") from None
        for path in building.iterdir():
            if path.name not in (PREDICTED_FILE, COPIES, TAGGED_FROM):
                path.unlink()
        yield building
    except OSError as error:
        raise AuditError(
            f"The score cannot be written ({os.strerror(error.errno or 0)}).", where="score"
        ) from None
    finally:
        if lock >= 0:
            os.close(lock)


def _clear_abandoned(*, keep: str) -> None:
    """Remove what scores that nobody went on with for a week have left."""
    for path in scores_dir().glob(".*.making"):
        try:
            is_old = time.time() - path.stat().st_mtime > ABANDONED_SECONDS
        except OSError:
            continue
        if is_old and path.name != f".{keep}.making":
            shutil.rmtree(path, ignore_errors=True)
