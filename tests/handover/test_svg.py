"""SVG: shapes and places by hand, text escaped."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from audit.report import figures
from audit.report.names import KindScores
from audit.stats import Estimate

NONE = Estimate(math.nan, math.nan, math.nan)


def places(drawn, attribute: str) -> list[float]:
    return [float(one.get(attribute)) for one in ElementTree.fromstring(f"<g>{''.join(drawn)}</g>")]


def test_shapes_by_hand() -> None:
    assert figures.shape("circle", tone="rust", cx=1, cy=2.26, r=3) == (
        '<circle class="rust" cx="1" cy="2.3" r="3"/>'
    )
    assert figures.shape("text", "a < b", x=1, text_anchor="end") == (
        '<text x="1" text-anchor="end">a &lt; b</text>'
    )


def test_an_interval_lies_where_its_numbers_are_and_never_beyond_the_axis() -> None:
    line, dot = figures.intervals([(Estimate(0.5, 0.0, 7.0), "rust", "open", 0)])
    assert places([line], "x1") == [170] and places([line], "x2") == [700]
    assert places([dot], "cx") == [435]
    assert list(figures.intervals([(NONE, "rust", "open", 0)])) == []
    behind = [(math.nan, 0.5, "faint"), (0.25, 0.75, "faint"), (0.5, 0.5, "dash")]
    root = ElementTree.fromstring(figures.strip([], ticks=(), axis="", alt="", behind=behind))
    assert [one.get("width") for one in root if one.tag.endswith("rect")] == ["265"]
    assert [one.get("x1") for one in root if one.get("class") == "dash"] == ["435"]


def test_zeros_stand_a_decade_below_the_smallest_logarithm() -> None:
    kinds = [KindScores("member", (0.0, 0.01, 1.0), 0), KindScores("easy", (), 2)]
    drawn = figures.scores_strip(kinds, labels=["m", "e"], axis="x", alt="y", is_log=True)
    root = ElementTree.fromstring(drawn)
    assert [float(dot.get("cx")) for dot in root.iter() if dot.tag.endswith("circle")] == [
        170, 346.7, 700,
    ]  # fmt: skip
    assert "m (3)" in drawn and "e (" not in drawn
    assert figures.scores_strip(kinds[1:], labels=["e"], axis="x", alt="y", is_log=False) == ""


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x>', "a & b"])
def test_text_is_escaped(text: str) -> None:
    whole = figures.strip([(text, ())], ticks=[(0, text)], axis=text, alt=text, corner=text)
    root = ElementTree.fromstring(whole)
    assert root.get("aria-label") == text
    labels = [one.text for one in root if one.tag.endswith("text")]
    assert labels == [text] * 4
