"""The loss curve of a training as it lies on the disk, readable while the training runs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

LOSSES = "losses.jsonl"


@dataclass(frozen=True)
class LossPoint:
    """One point of a loss curve.

    Attributes
    ----------
    step
        Finished steps.
    loss
        Mean training loss since the point before, in nats a token; None at step 0.
    held_out
        Loss of the held-out rows, in nats a token; None where it was not measured.
    learning_rate
        Of the last step, of the encoder.
    seconds
        Of training so far, pauses left out.
    """

    step: int
    loss: float | None
    held_out: float | None
    learning_rate: float
    seconds: float


def read_losses(run_dir: Path) -> tuple[LossPoint, ...]:
    """Return the points in order of their steps; none where there is no log yet.

    Of two points of one step, which a training leaves that was killed and went on, the later one
    counts; a line that is just being written does not.
    """
    try:
        lines = (run_dir / LOSSES).read_bytes().split(b"\n")
    except OSError:
        return ()
    points: dict[int, LossPoint] = {}
    for line in lines[:-1]:
        point = _point(line)
        if point is not None:
            points[point.step] = point
    return tuple(points[step] for step in sorted(points))


def append_point(run_dir: Path, point: LossPoint) -> None:
    """Add a point at the end of the log."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(run_dir / LOSSES, flags, 0o600)
    try:
        os.write(descriptor, _line(point))
    finally:
        os.close(descriptor)


def cut_log(run_dir: Path, *, step: int) -> None:
    """Forget the points after a step: they are made again."""
    kept = [point for point in read_losses(run_dir) if point.step <= step]
    partial = run_dir / f".{LOSSES}.part"
    partial.unlink(missing_ok=True)
    partial.touch(mode=0o600)
    partial.write_bytes(b"".join(map(_line, kept)))
    partial.replace(run_dir / LOSSES)


def last_held_out(points: Iterable[LossPoint]) -> float | None:
    """Return the held-out loss that was measured last; None where none was."""
    found = [point.held_out for point in points if point.held_out is not None]
    return found[-1] if found else None


def _line(point: LossPoint) -> bytes:
    return json.dumps(asdict(point), allow_nan=False).encode("ascii") + b"\n"


def _point(line: bytes) -> LossPoint | None:
    try:
        value = json.loads(line)
        loss, held_out = (
            None if value[name] is None else float(value[name]) for name in ("loss", "held_out")
        )
        point = LossPoint(
            int(value["step"]), loss, held_out, float(value["learning_rate"]),
            float(value["seconds"]),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError):
        return None
    numbers = (point.loss or 0.0, point.held_out or 0.0, point.learning_rate, point.seconds)
    return point if all(map(math.isfinite, numbers)) else None
