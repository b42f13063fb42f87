"""The report's figures: SVG without a script, each a strip of rows, drawn by one helper.

Text that is not ours is escaped. The same numbers give the same picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from markupsafe import Markup, escape

from audit.report.names import ASKED, KindScores
from audit.stats import Estimate
from audit.tables import raised, small

MAX_DOTS = 400
_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 720, 170, 700, 14, 46
_GOLDEN = 0.618033988749895
Interval = tuple[Estimate, str, str, float]
"""An estimate between 0 and 1, the tones of its line and its dot, how far below the middle."""


def shape(tag: str, text: str = "", **attributes: float | str) -> Markup:
    """Return an SVG element; `tone` is a class of the style sheet, other names are SVG's own."""
    written = "".join(
        f' {"class" if key == "tone" else key.replace("_", "-")}="{escape(_written(value))}"'
        for key, value in attributes.items()
    )
    start = f"<{tag}{written}"
    return Markup(f"{start}>{escape(text)}</{tag}>" if text else f"{start}/>")


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def _x(share: float) -> float:
    """Place of a share of the axis, in pixels; what is outside is drawn at its border."""
    return _LEFT + min(1.0, max(0.0, share)) * (_RIGHT - _LEFT)


def strip(
    rows: Sequence[tuple[str, Iterable[Markup]]],
    *,
    ticks: Sequence[tuple[float, str]],
    axis: str,
    alt: str,
    behind: Iterable[tuple[float, float, str]] = (),
    corner: str = "",
) -> Markup:
    """Return a whole picture: a row for each (label, shapes around the height 0), an axis below.

    Parameters
    ----------
    ticks
        Places between 0 and 1, and what stands under them.
    axis, alt
        What the axis shows, and what a screen reader says of the picture.
    behind
        Under the rows: from, to and tone of bands, of lines where both are the same; NaN: nothing.
    corner
        What the labels of the rows are.
    """
    bottom = _TOP + _ROW * len(rows)
    parts = [
        _line(_x(low), 10, _x(low), bottom, tone=tone)
        if low == high
        else _band(_x(low), 10, _x(high), bottom, tone=tone)
        for low, high, tone in behind
        if not math.isnan(low + high)
    ]
    parts.append(_line(_LEFT, bottom, _RIGHT, bottom, tone="soft"))
    parts += [_label(tick, _x(place), bottom + 17, size=11) for place, tick in ticks]
    for row, (label, shapes) in enumerate(rows):
        middle = _TOP + _ROW * (row + 0.5)
        parts.append(_label(label, _LEFT - 12, middle + 4, anchor="end"))
        move = f"translate(0 {_written(middle)})"
        parts.append(Markup('<g transform="{}">{}</g>').format(move, Markup("").join(shapes)))
    parts.append(_label(axis, (_LEFT + _RIGHT) / 2, bottom + 36))
    if corner:
        parts.append(_label(corner, _LEFT - 12, bottom + 17, anchor="end"))
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {} {}" aria-label="{}">'
        "{}</svg>"
    ).format(_WIDTH, bottom + 46, alt, Markup("").join(parts))


def intervals(found: Iterable[Interval]) -> Iterable[Markup]:
    """Return estimates as dots with their intervals as lines; what is NaN is not drawn."""
    for one, tone, dot, y in found:
        if not math.isnan(one.low + one.high):
            yield _line(_x(one.low), y, _x(one.high), y, tone=tone, width=3)
        if not math.isnan(one.value):
            yield shape("circle", tone=dot, cx=_x(one.value), cy=y, r=5)


def scores_strip(
    kinds: Sequence[KindScores], *, labels: Sequence[str], axis: str, alt: str, is_log: bool
) -> Markup:
    """Return the scores of each kind of names: dots, the middle half, the median; "" without any.

    With `is_log` they are drawn by their logarithm, and zeros a decade below the rest.
    """
    rows = [(kind, label) for kind, label in zip(kinds, labels, strict=True) if kind.scores]
    if not rows:
        return Markup("")
    scores = np.concatenate([kind.scores for kind, _ in rows])
    if is_log:
        logs = np.log10(scores[scores > 0]) if scores.max() > 0 else np.zeros(1)
        low, high = math.floor(logs.min()) - (scores.min() <= 0), math.ceil(logs.max())
        high = max(high, low + 1)
    else:
        margin = 0.03 * (np.ptp(scores) or 1.0)
        low, high = scores.min() - margin, scores.max() + margin

    def place(score: float) -> float:
        if is_log:
            score = math.log10(score) if score > 0 else low
        return _x((score - low) / (high - low))

    ticks = [((value - low) / (high - low), text) for value, text in _ticks(low, high, is_log)]
    return strip(
        [(f"{label} ({len(kind.scores)})", _scores(kind, place)) for kind, label in rows],
        ticks=ticks,
        axis=axis,
        alt=alt,
        behind=[(share, share, "faint") for share, _ in ticks],
    )


def _scores(kind: KindScores, place: Callable[[float], float]) -> Iterable[Markup]:
    is_asked = kind.kind in ASKED
    tone = "rust" if is_asked else "grey"
    low, median, high = (place(value) for value in kind.quartiles)
    yield _band(low, -15, high, 15, tone=f"{tone}-faint")
    if len(kind.scores) <= MAX_DOTS:
        for i, score in enumerate(kind.scores):  # spread by their order: the same picture each time
            y = 28 * ((i * _GOLDEN) % 1 - 0.5)
            yield shape("circle", tone=tone if is_asked else "open", cx=place(score), cy=y, r=2.4)
    yield _line(median, -17, median, 17, tone="ink", width=3)


def _ticks(low: float, high: float, is_log: bool) -> list[tuple[float, str]]:
    if is_log:
        step = max(1, math.ceil((high - low) / 8))
        return [(k, f"10{raised(k)}") for k in range(math.ceil(low), math.floor(high) + 1, step)]
    size = 10.0 ** math.floor(math.log10((high - low) / 4))
    size *= next(k for k in (1, 2, 5, 10) if (high - low) / (k * size) <= 8)
    first, last = math.ceil(low / size), math.floor(high / size)
    return [(k * size, small(round(k * size, 10))) for k in range(first, last + 1)]


def _line(x1: float, y1: float, x2: float, y2: float, *, tone: str, width: int = 1) -> Markup:
    return shape("line", tone=tone, x1=x1, y1=y1, x2=x2, y2=y2, stroke_width=width)


def _band(x1: float, y1: float, x2: float, y2: float, *, tone: str) -> Markup:
    return shape("rect", tone=tone, x=x1, y=y1, width=x2 - x1, height=y2 - y1)


def _label(text: str, x: float, y: float, *, anchor: str = "middle", size: int = 12) -> Markup:
    return shape("text", text, x=x, y=y, text_anchor=anchor, font_size=size)
