"""What was measured of the shipped taggers on invented notes of styles they were not trained on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from audit.deid.known_taggers import DEFAULT, HOW, RULES, SHIPPED
from audit.rates import Estimate

LANGUAGES = ("ja", "en")
LABELS = ("identifier", "all")
_CRITERION = "label_relaxed"
_NAMES = {RULES: "rules alone", DEFAULT: "default"}
_MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class ShippedFigure:
    """The share of gold spans of which a tagger found something, under any label.

    Attributes
    ----------
    language
        Of the notes: "ja" or "en".
    label
        "identifier", or "all" types together.
    n_notes, n_gold
        Notes and gold spans.
    found
        The share, 0-1, with its interval of 95 % where one was measured.
    """

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
    """Return what was measured of a tagger; empty where nothing is known of it."""
    if tagger_id not in _NAMES:
        return ()
    return _figures(SHIPPED / HOW, _NAMES[tagger_id])


@lru_cache(maxsize=4)
def _figures(path: Path, name: str) -> tuple[ShippedFigure, ...]:
    try:
        with path.open("rb") as file:
            measured = json.loads(file.read(_MAX_BYTES))["held_out"][name]
        return tuple(
            _figure(measured[language], language, label)
            for language in LANGUAGES
            if language in measured
            for label in LABELS
        )
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def _figure(measured: Mapping[str, Any], language: str, label: str) -> ShippedFigure:
    counted = measured[_CRITERION][label]
    low, high = (counted.get("intervals") or {}).get("recall") or (float("nan"), float("nan"))
    return ShippedFigure(
        language=language,
        label=label,
        n_notes=int(measured["n_notes"]),
        n_gold=int(counted["n_gold"]),
        found=Estimate(float(counted["recall"]), float(low), float(high)),
    )
