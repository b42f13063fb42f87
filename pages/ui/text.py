"""Untrusted text on the screen: names of people and of models are shown only through these.

Markdown in a name would make a browser fetch a foreign image, HTML would be worse: so text goes
into `st.html` through `escaped`, into a Streamlit label through `plain`, into a chart through
`escaped` too (plotly reads a few tags).
"""

from __future__ import annotations

import html
import math
import re

from audit.stats import Estimate
from audit.tables import UNDEFINED, decimal, decimal_interval, small
from audit.text import is_unspaced, written_name

__all__ = [
    "UNDEFINED", "day", "decimal", "decimal_interval", "escaped", "masked", "percent",
    "percent_interval", "plain", "sentence_after_colon", "small",
]  # fmt: skip
_HIDDEN = "***"
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&=^@/])")


def escaped(text: str) -> str:
    """Return text as HTML that shows it as it is."""
    return html.escape(text)


def plain(text: str) -> str:
    """Return text as Markdown that shows it as it is, in one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def masked(first: str, last: str) -> str:
    """Return a name of which only the initials are left, in the order in which it is written.

    A part of a single character is hidden whole: its initial would be all of it.
    """
    parts = (_masked_part(first), _masked_part(last))
    if is_unspaced(first + last):
        return " ".join(part for part in reversed(parts) if part)
    return written_name(*parts)


def sentence_after_colon(sentence: str) -> str:
    """Return what stands behind a sentence's first colon, as a sentence; all of it without one.

    No line ends between a number and its percent sign.
    """
    rest = re.split("：|: ", sentence, maxsplit=1)[-1]
    return (rest[:1].upper() + rest[1:]).replace(" %", "\N{NO-BREAK SPACE}%")


def percent(share: float) -> str:
    """Return a fraction as percent with one decimal."""
    return UNDEFINED if math.isnan(share) else f"{100 * share:.1f} %"


def percent_interval(estimate: Estimate) -> str:
    """Return a fraction's interval as percent."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return UNDEFINED
    low, high = (f"{100 * bound:.1f}" for bound in (estimate.low, estimate.high))
    return f"{low} – {high} %".replace("-", "\N{MINUS SIGN}")


def day(moment: str) -> str:
    """Return the date and minute of an ISO time stamp."""
    return moment[:16].replace("T", " ")


def _masked_part(part: str) -> str:
    if not part:
        return ""
    return part[0] + _HIDDEN if len(part) > 1 else _HIDDEN
