"""SVG: pictures for files that are read without the program, drawn from a few plain shapes.

Comes in: numbers and text. Goes out: markup; text is escaped, colours come from the classes
`rust`, `grey`, `soft` and `open`, which the file around the picture defines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Scale:
    """A straight line from values (`low` to `high`) to places (`start` to `end`), in pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """Return the place of a value; values outside are drawn at the border."""
        if self.high == self.low:
            return (self.start + self.end) / 2
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def picture(parts: Iterable[str], *, width: int, height: int, alt: str) -> str:
    """Return a whole picture; `alt` is what a screen reader says of it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
        f'aria-label="{escape(alt)}">{"".join(parts)}</svg>'
    )


def line(x1: float, y1: float, x2: float, y2: float, *, tone: str = "soft", width: int = 1) -> str:
    """Return a straight line."""
    return (
        f'<line class="{tone}" x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" '
        f'stroke-width="{width}"/>'
    )


def dot(x: float, y: float, *, tone: str, radius: float = 3) -> str:
    """Return a dot."""
    return f'<circle class="{tone}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(radius)}"/>'


def band(x1: float, y1: float, x2: float, y2: float, *, tone: str) -> str:
    """Return a filled rectangle between two corners, whatever their order."""
    left, top = min(x1, x2), min(y1, y2)
    return (
        f'<rect class="{tone}" x="{_n(left)}" y="{_n(top)}" width="{_n(abs(x2 - x1))}" '
        f'height="{_n(abs(y2 - y1))}"/>'
    )


def label(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    """Return a text; `anchor` is "start", "middle" or "end"."""
    return (
        f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(text)}</text>"
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
