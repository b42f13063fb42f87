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

__all__ = [
    "UNDEFINED", "day", "decimal", "decimal_interval", "escaped", "percent",
    "percent_interval", "plain", "small",
]  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&=^@/])")


def escaped(text: str) -> str:
    """Return text as HTML that shows it as it is."""
    return html.escape(text)


def plain(text: str) -> str:
    """Return text as Markdown that shows it as it is, in one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


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
