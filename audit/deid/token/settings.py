"""Settings of a training of a token classifier, checked once; torch-free."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from audit.deid.token.scheme import BIO, SCHEMES
from audit.errors import AuditError

WHERE = "tagger settings"
PRECISIONS = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class Shape:
    """The shape of the small network of characters that is trained from scratch.

    Attributes
    ----------
    width
        Numbers that stand for a character between two layers.
    dilations
        Of each layer: how far its neighbours stand; their sum is how far a character sees.
    n_characters
        Most characters of the vocabulary; the rest is unknown, with its kind.
    n_times
        How often a character must occur in the notes to be in it.
    """

    width: int = 128
    dilations: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 1, 1)
    n_characters: int = 2000
    n_times: int = 5

    def __post_init__(self) -> None:
        """Check the shape, once."""
        small = min(self.width, self.n_characters, self.n_times, *self.dilations)
        if small < 1 or self.width > 4096 or not 1 <= len(self.dilations) <= 64:
            raise AuditError("This shape of a network is not possible.", where=WHERE)


@dataclass(frozen=True)
class TaggerSettings:
    """How a token classifier is trained.

    Attributes
    ----------
    n_tokens, overlap
        Tokens of a row, special ones included, and how many a row of an encoder shares with the
        one before it when notes are tagged; a row of training begins anywhere.
    n_epochs
        How often every note is seen.
    batch, micro_batch
        Rows of a step, and of one forward pass.
    learning_rate
        The highest; reached after `warmup_share` of the steps, then falling in a line to 0.
    unknown_share
        Share of the tokens that are shown as unknown.
    hidden_share
        Share of the spans whose tokens are all shown as unknown: names nobody has seen.
    n_evaluations
        How often the tagger is measured on the validation notes; the best weights are kept.
    recall_weight
        The beta of the F measure by which weights and bias are chosen: recall weighs beta times as
        much as precision.
    biases
        What may be added to the scores of all tags but O; the best is chosen.
    scheme
        "BIO" or "BILOU".
    """

    n_tokens: int = 192
    overlap: int = 48
    n_epochs: float = 3.0
    batch: int = 32
    micro_batch: int = 32
    learning_rate: float = 5e-5
    warmup_share: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    unknown_share: float = 0.02
    hidden_share: float = 0.1
    n_evaluations: int = 4
    checkpoint_every: int = 200
    recall_weight: float = 2.0
    biases: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
    scheme: str = BIO
    precision: str = "auto"
    seed: int = 0

    def __post_init__(self) -> None:
        """Check everything, once."""
        rules = (
            ("n_tokens", 8 <= self.n_tokens <= 32_768),
            ("overlap", 0 <= self.overlap <= self.n_tokens // 2),
            ("n_epochs", _is_number(self.n_epochs) and 0 < self.n_epochs <= 10_000),
            ("batch", 1 <= self.batch <= 4096),
            ("micro_batch", 1 <= self.micro_batch <= self.batch),
            ("learning_rate", _is_number(self.learning_rate) and 0 < self.learning_rate <= 1),
            ("warmup_share", 0 <= self.warmup_share < 1),
            ("weight_decay", 0 <= self.weight_decay <= 1),
            ("clip", _is_number(self.clip) and self.clip > 0),
            ("unknown_share", 0 <= self.unknown_share < 1),
            ("hidden_share", 0 <= self.hidden_share < 1),
            ("n_evaluations", 1 <= self.n_evaluations <= 1000),
            ("checkpoint_every", self.checkpoint_every >= 1),
            ("recall_weight", _is_number(self.recall_weight) and 0.1 <= self.recall_weight <= 10),
            ("biases", bool(self.biases) and all(map(_is_number, self.biases))),
            ("scheme", self.scheme in SCHEMES),
            ("precision", self.precision in PRECISIONS),
        )
        for name, is_right in rules:
            if not is_right:
                raise AuditError(f"The setting `{name}` is out of bounds.", where=WHERE)

    def rate(self, step: int, *, n_steps: int) -> float:
        """Return the learning rate of a step, 1 to `n_steps`."""
        n_warmup = max(1, round(self.warmup_share * n_steps))
        left = (n_steps - step + 1) / max(1, n_steps - n_warmup + 1)
        return self.learning_rate * min(step / n_warmup, left, 1.0)

    def to_json(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        return asdict(self) | {"biases": list(self.biases)}


def settings_from_json(value: Mapping[str, Any]) -> TaggerSettings:
    """Return settings of plain values.

    Raises
    ------
    AuditError
        If one is unknown, of another kind or out of bounds.
    """
    given = dict(value)
    for one in fields(TaggerSettings):
        if one.name in given and not _fits(given[one.name], one.default):
            raise AuditError(f"The setting `{one.name}` is out of bounds.", where=WHERE)
    try:
        return TaggerSettings(**given | {"biases": tuple(given.get("biases", (0.0,)))})
    except TypeError:
        raise AuditError("There is no such setting.", where=WHERE) from None


def _fits(given: object, default: object) -> bool:
    if isinstance(default, float | int):
        is_whole = isinstance(given, int) and not isinstance(given, bool)
        return is_whole or (isinstance(default, float) and isinstance(given, float))
    return isinstance(given, str) if isinstance(default, str) else isinstance(given, list | tuple)


def _is_number(value: float) -> bool:
    return math.isfinite(value)
