"""Clinical values in sentences, written by hand: results, doses, scores, fractions, sizes, scales.

One sentence a line, values between ⟦ and ⟧. The second list was written when taggers had been
mended with the first one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NAMES = ("en", "ja", "second_en", "second_ja")
N_VALUES = 371


@dataclass(frozen=True)
class ClinicalSentence:
    """A sentence, and where values stand in it."""

    text: str
    values: tuple[tuple[int, int], ...]


@cache
def clinical_sentences() -> tuple[ClinicalSentence, ...]:
    """Return the sentences of all lists."""
    found = []
    for name in NAMES:
        lines = (Path(__file__).parent / "clinical" / f"{name}.txt").read_text("utf-8")
        for line in lines.splitlines():
            text, values = "", []
            for place, piece in enumerate(re.split("[⟦⟧]", line)):
                if place % 2:
                    values.append((len(text), len(text) + len(piece)))
                text += piece
            found.append(ClinicalSentence(text, tuple(values)))
    return tuple(found)
