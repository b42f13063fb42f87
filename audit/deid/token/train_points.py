"""The curve of a tagger's training: one line a point, cut where a training goes on; torch-free."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from audit.private_files import write_whole

POINTS = "losses.jsonl"


@dataclass(frozen=True)
class TrainPoint:
    """A point of the curve.

    Attributes
    ----------
    step
        Finished steps.
    loss
        Mean since the last point, in nats a token; None before the first step.
    seconds
        Of training until then.
    precision, recall, f
        On the validation notes, with a bias of 0; None where not measured.
    """

    step: int
    loss: float | None
    seconds: float
    precision: float | None = None
    recall: float | None = None
    f: float | None = None


def add_point(folder: Path, point: TrainPoint) -> None:
    """Add a point to the curve of a folder, in place of those of this step and later ones."""
    kept = [one for one in read_points(folder) if one.step < point.step]
    lines = [json.dumps(asdict(one), allow_nan=False) + "\n" for one in (*kept, point)]
    write_whole(folder / POINTS, "".join(lines).encode("ascii"))


def read_points(folder: Path) -> tuple[TrainPoint, ...]:
    """Return the curve of a folder; empty where there is none, or it is damaged."""
    try:
        lines = (folder / POINTS).read_text(encoding="ascii").splitlines()
        return tuple(TrainPoint(**json.loads(line)) for line in lines)
    except (OSError, ValueError, TypeError):
        return ()
