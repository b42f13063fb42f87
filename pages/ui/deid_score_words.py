"""What labels and rates of a score are called on the screen."""

from __future__ import annotations

from audit.deid.metrics import LabelScore
from audit.notes.spans import TYPES
from audit.stats import Estimate, Rate
from pages.ui.language import Words
from pages.ui.text import UNDEFINED, percent, percent_interval


def label_name(say: Words, label: str) -> str:
    """Return what a label is called; untrusted text where it is none of the five types."""
    if label in TYPES:
        return say.text(f"deid_measures_type_{label}")
    if label in ("", "missed", "spurious"):
        return say.text(f"deid_measures_row_{label or 'all'}")
    return label


def share_below(line: LabelScore, measure: str) -> str:
    """Return what stands under a rate: its interval, and what it was counted from."""
    interval, rate = unbroken_interval(line.estimate(measure)), line.rate(measure)
    if rate is None or not interval:
        return interval
    return f"{interval} {rate.n_hits:,}/{rate.n_total:,}"


def unbroken_interval(estimate: Estimate) -> str:
    """Return an interval in which no line ends; "" where there is none."""
    text = percent_interval(estimate)
    if text == UNDEFINED:
        return ""
    # A line may end behind a dash, also before a space that is not to be broken.
    return text.replace(" ", "\N{NO-BREAK SPACE}").replace("–", "–\N{WORD JOINER}")


def rate_text(rate: Rate) -> str:
    """Return a rate with its counts."""
    return f"{percent(rate.value)} · {rate.n_hits:,}/{rate.n_total:,}"
