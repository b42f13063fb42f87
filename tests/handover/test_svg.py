"""SVG: places by hand, text escaped."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from audit.report import html


def test_a_scale_is_a_straight_line_and_never_leaves_its_ends() -> None:
    scale = html.Scale(-1.0, 3.0, 100.0, 500.0)
    assert [scale(x) for x in (-1, 0, 1, 3)] == [100, 200, 300, 500]
    assert (scale(-7), scale(9)) == (100, 500)
    assert html.Scale(0, 1, 100, 0)(0.25) == 75  # upside down
    assert html.Scale(2, 2, 0, 10)(2) == 5


def test_shapes_by_hand() -> None:
    assert html.dot(1, 2.26, tone="rust") == '<circle class="rust" cx="1" cy="2.3" r="3"/>'
    assert html.line(0, 1, 10, 1.5, tone="grey", width=3) == (
        '<line class="grey" x1="0" y1="1" x2="10" y2="1.5" stroke-width="3"/>'
    )
    assert html.band(10, 20, 4, 5, tone="faint") == (
        '<rect class="faint" x="4" y="5" width="6" height="15"/>'
    )


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", '"><img src=x>', "a & b"])
def test_text_is_escaped(text: str) -> None:
    whole = html.picture([html.label(1, 2, text, anchor="end")], width=10, height=20, alt=text)
    root = ElementTree.fromstring(whole)
    assert root.get("aria-label") == text
    assert root.get("viewBox") == "0 0 10 20"
    (label,) = root
    assert label.text == text
    assert label.get("text-anchor") == "end"
