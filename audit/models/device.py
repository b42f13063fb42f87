"""The device that a computation runs on, as a person asks for it."""

from __future__ import annotations

import torch

from audit.errors import AuditError


def pick_device(wanted: str) -> str:
    """Return the device to run on.

    Raises
    ------
    AuditError
        If a GPU is asked for and none is there.
    """
    if wanted not in ("auto", "cpu", "cuda"):
        raise AuditError("is unknown.", where="device", do="Choose auto, cpu or cuda.")
    if wanted == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if wanted == "cuda":
        raise AuditError("No CUDA device is available.", where="device", do="Choose auto or cpu.")
    return "cpu"
