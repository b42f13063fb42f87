"""The loss curve of a training: points of its log in, few frozen values for a chart out.

Losses are nats per masked token. Held-out losses are of rows and masks that stay the same through
the whole training, so that they can be compared with each other and with the unigram baseline: the
loss of always answering with the words' frequencies, whatever stands around the mask. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MAX_POINTS = 400
PLATEAU_NATS = 0.1
"""A held-out loss within this of the unigram baseline has learned next to nothing from context."""

RISE_NATS = 0.02
"""A held-out loss this far above its lowest is called rising: less is noise of so few rows."""

_SMOOTHED_SHARE = 0.05
STATES = ("nothing", "early", "plateau", "rising", "falling", "level")


class LoggedPoint(Protocol):
    """One line of a training's log."""

    @property
    def step(self) -> int:
        """Steps done."""

    @property
    def loss(self) -> float | None:
        """Training loss of these steps; None or NaN before the first one."""

    @property
    def held_out(self) -> float | None:
        """Held-out loss after them; None where it was not measured."""


@dataclass(frozen=True)
class LossCurve:
    """What the chart of one training shows.

    Attributes
    ----------
    steps, losses, smoothed
        Training loss by step [P], each the mean of the points drawn as one, and its moving average.
    held_out
        (step, loss) of every measurement, step 0 being the model it started from.
    unigram
        Loss of the unigram baseline on the held-out rows; NaN where it is not known.
    n_steps
        Steps of the whole training.
    steps_per_epoch
        Steps in which every token is seen once; NaN where it is not known.
    """

    steps: tuple[int, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    held_out: tuple[tuple[int, float], ...]
    unigram: float
    n_steps: int
    steps_per_epoch: float

    def __post_init__(self) -> None:
        """Refuse columns of different length."""
        if not len(self.steps) == len(self.losses) == len(self.smoothed):
            raise ValueError("steps and losses are of different length")

    @property
    def n_done(self) -> int:
        """Last step of which anything is known."""
        return max([*self.steps[-1:], *(step for step, _ in self.held_out[-1:]), 0])

    @property
    def lowest(self) -> tuple[int, float]:
        """Step and value of the lowest held-out loss; (0, NaN) without one."""
        return min(self.held_out, key=lambda point: point[1], default=(0, math.nan))

    @property
    def state(self) -> str:
        """What can be said of the held-out loss, one of `STATES`.

        "nothing": it was never measured; "early": only once; "plateau": it is no lower than
        knowing the words' frequencies alone; "rising": it has left its lowest value upwards;
        "falling" and "level": below where it began, or not.
        """
        if len(self.held_out) < 2:
            return "early" if self.held_out else "nothing"
        (_, first), (_, last) = self.held_out[0], self.held_out[-1]
        if last > self.unigram - PLATEAU_NATS:
            return "plateau"
        if last > self.lowest[1] + RISE_NATS:
            return "rising"
        return "falling" if last < first - RISE_NATS else "level"

    def epochs(self, step: float) -> float:
        """Return how often every token has been seen after `step` steps; NaN where not known."""
        return step / self.steps_per_epoch


def loss_curve(
    points: Sequence[LoggedPoint],
    *,
    n_steps: int,
    steps_per_epoch: float = math.nan,
    unigram: float | None = None,
) -> LossCurve:
    """Return the chart of a log; points that were logged twice (after a resume) count once."""
    latest = {point.step: point for point in points}
    ordered = [latest[step] for step in sorted(latest)]
    trained = [(p.step, p.loss) for p in ordered if p.loss is not None and math.isfinite(p.loss)]
    smoothed = moving_average([loss for _, loss in trained])
    drawn = [
        (group[-1][0], sum(loss for _, loss in group) / len(group), average)
        for group, average in _grouped(trained, smoothed)
    ]
    held_out = {
        p.step: p.held_out for p in ordered if p.held_out is not None and math.isfinite(p.held_out)
    }
    return LossCurve(
        steps=tuple(step for step, _, _ in drawn),
        losses=tuple(loss for _, loss, _ in drawn),
        smoothed=tuple(average for _, _, average in drawn),
        held_out=tuple(held_out.items()),
        unigram=math.nan if unigram is None else unigram,
        n_steps=n_steps,
        steps_per_epoch=steps_per_epoch if steps_per_epoch > 0 else math.nan,
    )


def moving_average(values: Sequence[float], *, n_window: float | None = None) -> list[float]:
    """Return the exponential moving average of values, free of the bias of its beginning.

    s_i = sum_j b^(i-j) x_j / sum_j b^(i-j) over j <= i, with b = 1 - 2 / (n_window + 1): the first
    value is itself, and a constant stays that constant (Kingma and Ba 2015, section 3).

    Parameters
    ----------
    n_window
        Points that the average is about; a twentieth of all, where not given.
    """
    window = max(1.0, _SMOOTHED_SHARE * len(values)) if n_window is None else n_window
    keep = 1 - 2 / (window + 1)
    weighted, weight, smoothed = 0.0, 0.0, []
    for value in values:
        weighted = keep * weighted + value
        weight = keep * weight + 1
        smoothed.append(weighted / weight)
    return smoothed


def _grouped(
    trained: Sequence[tuple[int, float]], smoothed: Sequence[float]
) -> list[tuple[Sequence[tuple[int, float]], float]]:
    """Return at most `MAX_POINTS` runs of neighbouring points, each with its last average."""
    size = max(1, math.ceil(len(trained) / MAX_POINTS))
    groups = [trained[start : start + size] for start in range(0, len(trained), size)]
    ends = [min(start + size, len(trained)) - 1 for start in range(0, len(trained), size)]
    return [(group, smoothed[end]) for group, end in zip(groups, ends, strict=True)]
