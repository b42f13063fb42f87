"""Orders: what a job is to do, in a file of its own, since it holds names."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.errors import AuditError
from audit.jobs.locks import jobs_dir, unusable


def write_order(job_id: str, *, order: Mapping[str, Any]) -> None:
    """Keep an order whole or not at all, readable for its owner only."""
    path = _path(job_id)
    partial = path.with_name(f"{job_id}-{secrets.token_hex(4)}.part")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as handle:
            json.dump(order, handle, ensure_ascii=True)
            handle.flush()
            os.fsync(handle.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise unusable(error) from None


def read_order(job_id: str) -> dict[str, Any]:
    """Return a job's order.

    Raises
    ------
    AuditError
        If it is no longer there or damaged.
    """
    try:
        order = json.loads(_path(job_id).read_text(encoding="ascii"))
    except (OSError, ValueError):
        order = None
    if not isinstance(order, dict):
        raise AuditError("What this job was to do is no longer kept.", do="Ask the question again.")
    return order


def has_order(job_id: str) -> bool:
    """Whether a job's order is still kept."""
    return _path(job_id).is_file()


def forget_order(job_id: str) -> None:
    """Remove an order that will not be needed again.

    Raises
    ------
    AuditError
        If the disk does not let it go.
    """
    try:
        _path(job_id).unlink(missing_ok=True)
    except OSError as error:
        raise unusable(error) from None


def _path(job_id: str) -> Path:
    if not re.fullmatch("[0-9a-f]{12}", job_id):
        raise ValueError("no job has such an id")
    return jobs_dir("orders") / f"{job_id}.json"
