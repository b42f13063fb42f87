"""Numbers as they are written for a reader: fixed decimals, percent, intervals, a dash for none."""

from __future__ import annotations

import math

from audit.rates import Estimate

UNDEFINED = "—"
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float) -> str:
    """Return a fraction as percent with one decimal."""
    return UNDEFINED if math.isnan(share) else f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def percent_interval(estimate: Estimate) -> str:
    """Return a fraction's interval as percent."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return UNDEFINED
    return f"{100 * estimate.low:.1f} – {100 * estimate.high:.1f}\N{NO-BREAK SPACE}%"


def decimal(value: float, *, digits: int = 3) -> str:
    """Return a number with fixed decimals."""
    return UNDEFINED if math.isnan(value) else _signed(f"{value:.{digits}f}")


def decimal_interval(estimate: Estimate, *, digits: int = 3) -> str:
    """Return an interval with fixed decimals."""
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return UNDEFINED
    return f"{decimal(estimate.low, digits=digits)} – {decimal(estimate.high, digits=digits)}"


def small(value: float) -> str:
    """Return a number that may be tiny, with two or three significant digits."""
    if math.isnan(value):
        return UNDEFINED
    if math.isinf(value):
        return "∞" if value > 0 else "\N{MINUS SIGN}∞"
    if value == 0 or 0.001 <= abs(value) < 1000:
        return _signed(f"{value:.3g}")
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{_signed(mantissa)} × 10{raised(int(exponent))}"


def raised(exponent: int) -> str:
    """Return a whole number in raised digits."""
    return ("⁻" if exponent < 0 else "") + str(abs(exponent)).translate(_RAISED)


def moment(at: str) -> str:
    """Return the date and minute of an ISO time stamp, as UTC."""
    return f"{at[:16].replace('T', ' ')} UTC" if at else UNDEFINED


def _signed(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")
