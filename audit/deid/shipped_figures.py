"""What was measured of the shipped taggers on invented notes that they were not made for.

Two kinds: notes written by hand by somebody who had seen neither rules nor output, and generated
ones in styles that were kept apart from the training.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from audit.deid.known_taggers import DEFAULT, HAND_WRITTEN, HOW, RULES, SHIPPED
from audit.deid.tagger_envelope import MAX_BYTES
from audit.rates import Estimate

LANGUAGES = ("ja", "en")
LABELS = ("identifier", "all")
_CRITERION = "label_relaxed"
_NAMES = {RULES: "rules alone", DEFAULT: "default"}
_DIGESTS = {RULES: "rules_digest", DEFAULT: "digest"}


@dataclass(frozen=True)
class ShippedFigure:
    """The share of gold spans of which a tagger found something, under any label.

    Attributes
    ----------
    is_by_hand
        Whether the notes were written by hand; otherwise they were generated.
    language
        Of the notes: "ja" or "en".
    label
        "identifier", or "all" types together.
    n_notes, n_gold
        Notes and gold spans.
    found
        The share, 0-1, with its interval of 95 % where one was measured.
    """

    is_by_hand: bool
    language: str
    label: str
    n_notes: int
    n_gold: int
    found: Estimate

    def __post_init__(self) -> None:
        """Check the share, once."""
        if not 0 <= self.found.value <= 1:
            raise ValueError("a share lies between 0 and 1")


def shipped_figures(tagger_id: str) -> tuple[ShippedFigure, ...]:
    """Return what was measured of a tagger, by hand first; empty where nothing is known of it."""
    return _figures(SHIPPED, tagger_id) if tagger_id in _NAMES else ()


@lru_cache(maxsize=4)
def _figures(folder: Path, tagger_id: str) -> tuple[ShippedFigure, ...]:
    how, by_hand = _read(folder / HOW), _read(folder / HAND_WRITTEN)
    digest = _DIGESTS[tagger_id]
    # Figures of another tagger are not this one's.
    is_of_it = bool(by_hand) and by_hand.get(digest) == how.get(digest)
    return (*(_figures_in(by_hand, tagger_id, is_by_hand=True) if is_of_it else ()),
            *_figures_in(how, tagger_id, is_by_hand=False))  # fmt: skip


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return dict(json.loads(file.read(MAX_BYTES)))
    except (OSError, ValueError, TypeError):
        return {}


def _figures_in(
    content: Mapping[str, Any], tagger_id: str, *, is_by_hand: bool
) -> tuple[ShippedFigure, ...]:
    try:
        measured = content["held_out"][_NAMES[tagger_id]]
        return tuple(
            _figure(measured[language], language, label, is_by_hand=is_by_hand)
            for language in LANGUAGES
            if language in measured
            for label in LABELS
        )
    except (ValueError, KeyError, TypeError):
        return ()


def _figure(
    measured: Mapping[str, Any], language: str, label: str, *, is_by_hand: bool
) -> ShippedFigure:
    counted = measured[_CRITERION][label]
    low, high = (counted.get("intervals") or {}).get("recall") or (float("nan"), float("nan"))
    return ShippedFigure(
        is_by_hand=is_by_hand,
        language=language,
        label=label,
        n_notes=int(measured["n_notes"]),
        n_gold=int(counted["n_gold"]),
        found=Estimate(float(counted["recall"]), float(low), float(high)),
    )
