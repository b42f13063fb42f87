"""The order of a score: which gold, which predictions, how labels are mapped and spans matched.

Comes in: what a page or a command asks. Goes out: plain values that a job can keep; no text of a
note, no path.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from audit.deid.bootstrap import N_REPLICATES
from audit.deid.labels import FIVE_TYPES, LabelMap
from audit.deid.matching import MATCHERS, OPTIMAL
from audit.errors import AuditError

GIVEN, FILE, EXAMPLE = "given", "file", "example"
TAGGER, TAGGED, OUTPUTS = "tagger", "tagged", "outputs"
GOLD_KINDS = (EXAMPLE, GIVEN, FILE)
PREDICTED_KINDS = (TAGGER, TAGGED, GIVEN, OUTPUTS)
LANGUAGES = ("ja", "en")
MAX_REPLICATES = 100_000


@dataclass(frozen=True)
class Source:
    """Where notes with spans come from.

    Attributes
    ----------
    kind
        `given`: kept from an upload; `file`: a registered file; `example`: the tool's own invented
        notes; `tagger`: what a tagger says; `tagged`: a kept tagged set; `outputs`: a model's
        copies of the notes, kept from an upload.
    ref
        The digest of what was given, the identifier of a file, tagger or set, or the language of
        the example.
    """

    kind: str
    ref: str

    def __post_init__(self) -> None:
        """Check the kind, once."""
        if self.kind not in {*GOLD_KINDS, *PREDICTED_KINDS} or not self.ref:
            raise ValueError(f"{self.kind}: no such source of notes")


@dataclass(frozen=True)
class ScoreOrder:
    """What is to be scored.

    Attributes
    ----------
    gold, predicted
        The two sides.
    training
        Notes that the tagger has learned from, for names seen against unseen; None where they are
        not at hand.
    has_five_types
        Whether labels of i2b2 2014, MEDDOCAN and others are mapped to the five types.
    label_map
        More labels: from a label to another, "" leaves its spans out.
    matcher, seed, n_replicates
        As in `audit.deid.score` and its bootstrap.
    title
        What to call the score; makes no other question of it.

    Raises
    ------
    ValueError
        If a side cannot come from there, or there is no such matcher.
    """

    gold: Source
    predicted: Source
    training: Source | None = None
    has_five_types: bool = False
    label_map: Mapping[str, str] = field(default_factory=dict)
    matcher: str = OPTIMAL
    seed: int = 0
    n_replicates: int = N_REPLICATES
    title: str = ""

    def __post_init__(self) -> None:
        """Check that the sides can come from there, once."""
        if self.gold.kind not in GOLD_KINDS or self.predicted.kind not in PREDICTED_KINDS:
            raise ValueError("a side of a score cannot come from there")
        if self.training is not None and self.training.kind not in (GIVEN, FILE):
            raise ValueError("training notes cannot come from there")
        if self.gold.kind == EXAMPLE and self.gold.ref not in LANGUAGES:
            raise ValueError(f"{self.gold.ref}: no example in this language")
        if self.matcher not in MATCHERS or not 1 <= self.n_replicates <= MAX_REPLICATES:
            raise ValueError("no such matcher, or too many replicates")

    @property
    def mapping(self) -> LabelMap | None:
        """The map of labels; None where all stay as they are."""
        if not self.has_five_types and not self.label_map:
            return None
        first = FIVE_TYPES.labels if self.has_five_types else {}
        return LabelMap({**first, **self.label_map})

    def decisive(self) -> dict[str, Any]:
        """Return what makes another question of it: all but the title."""
        return {name: value for name, value in order_to_json(self).items() if name != "title"}


def order_to_json(order: ScoreOrder) -> dict[str, Any]:
    """Return an order as plain values."""
    return {**asdict(order), "label_map": dict(order.label_map)}


def order_from_json(content: Mapping[str, Any]) -> ScoreOrder:
    """Return the order that `order_to_json` wrote.

    Raises
    ------
    AuditError
        If it is none.
    """
    try:
        training = content["training"]
        return ScoreOrder(
            gold=Source(**content["gold"]),
            predicted=Source(**content["predicted"]),
            training=None if training is None else Source(**training),
            **{
                name: content[name]
                for name in (
                    "has_five_types", "label_map", "matcher", "seed", "n_replicates", "title",
                )
            },
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        raise AuditError("This is no order of a score.", where="order") from None
