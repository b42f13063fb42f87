"""Untrusted text: masked, escaped, or shown as it is."""

from __future__ import annotations

import math

from audit.stats import Estimate
from pages.ui import text


def test_markdown_is_shown_as_it_is() -> None:
    assert text.plain("![x](http://e/p.png)") == r"\!\[x\]\(http\:\/\/e\/p\.png\)"
    assert text.plain("$a$ :red[b]\n# c") == r"\$a\$ \:red\[b\] \# c"
    assert text.plain("山田 hospital 40") == "山田 hospital 40"


def test_html_is_shown_as_it_is() -> None:
    assert text.escaped('<img src="x">&') == "&lt;img src=&quot;x&quot;&gt;&amp;"


def test_numbers_are_written_for_people() -> None:
    assert text.percent(0.6542) == "65.4 %"
    assert text.percent_interval(Estimate(0.5, 0.25, 0.75)) == "25.0 – 75.0 %"
    assert text.decimal(-0.25, digits=2) == "−0.25"
    assert text.decimal_interval(Estimate(0.5, 0.25, 0.75), digits=2) == "0.25 – 0.75"
    assert [text.small(x) for x in (0.0, 0.25, -0.25, 5.2e-7, -1e-12)] == [
        "0", "0.25", "−0.25", "5.2 × 10⁻⁷", "−1.0 × 10⁻¹²",
    ]  # fmt: skip
    assert text.day("2026-11-20T10:00:59+00:00") == "2026-11-20 10:00"


def test_what_is_undefined_is_a_dash_never_a_nan() -> None:
    undefined = Estimate(math.nan, math.nan, math.nan)
    shown = {
        text.percent(math.nan), text.percent_interval(undefined), text.decimal(math.nan),
        text.decimal_interval(undefined), text.small(math.nan),
    }  # fmt: skip
    assert shown == {"—"}
