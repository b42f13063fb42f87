"""Untrusted text: masked, escaped, or shown as it is."""

from __future__ import annotations

import math

import pytest

from audit.report.names import masked_name
from audit.report.report import Verdict
from audit.stats import Estimate
from pages.ui import text


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("Sophia", "Wright", "S*** W***"),
        ("花子", "山田", "山*** 花***"),
        ("翔", "森", "*** ***"),  # an initial would be the whole name
        ("", "Wright", "W***"),
        ("O", "", "***"),
        ("<b>", "Wright", "<*** W***"),
    ],
)
def test_a_masked_name_keeps_its_initials_only(first: str, last: str, shown: str) -> None:
    assert masked_name(first, last) == shown


def test_markdown_is_shown_as_it_is() -> None:
    assert text.plain("![x](http://e/p.png)") == r"\!\[x\]\(http\:\/\/e\/p\.png\)"
    assert text.plain("$a$ :red[b]\n# c") == r"\$a\$ \:red\[b\] \# c"
    assert text.plain("山田 hospital 40") == "山田 hospital 40"


def test_html_is_shown_as_it_is() -> None:
    assert text.escaped('<img src="x">&') == "&lt;img src=&quot;x&quot;&gt;&amp;"


@pytest.mark.parametrize(
    ("sentence", "rest"),
    [
        ("Leak found: a member, at 10:30: so.", "A member, at 10:30: so."),
        ("漏えいが見つかりました：検査した。", "検査した。"),
        ("no colon", "No colon"),
        ("Leak found: 5 % of 7 %.", "5\N{NO-BREAK SPACE}% of 7\N{NO-BREAK SPACE}%."),
    ],
)
def test_the_state_is_cut_off_a_verdict(sentence: str, rest: str) -> None:
    assert Verdict(state="leak_found", english=sentence).facts("en") == rest


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
