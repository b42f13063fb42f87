"""Figures and tables in a real browser: hovered, clicked, saved, and cut at no width."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from pages.ui.section import text_width
from tests.e2e.screen import SAY, is_whole, saved, settle

POINTS = ".js-plotly-plot .scatterlayer .trace .points path"
WIDTHS = (1920, 1440, 1280, 1024, 390)
SHOWN = (
    "verdict?numbers=true&strongest=true",
    "names?name=5",
    "names?tab=documents",
    *(f"measures?tab={tab}" for tab in ("threshold", "mentions", "compare", "linking", "paper")),
    "measures?tab=checks",
)
CUT = """() => [...document.querySelectorAll(
  '[data-testid=stMain] .ka-scroll, [data-testid=stMain] .dvn-scroller')]
  .filter(e => e.offsetWidth && e.scrollWidth - e.clientWidth > 1)
  .map(e => `${e.scrollWidth} > ${e.clientWidth} ${e.textContent.slice(0, 60)}`)"""
"""JavaScript that returns the tables of a page that must be scrolled sideways."""
OUTSIDE = """() => [...document.querySelectorAll('.ka-table :is(td, th)')]
  .filter(e => e.offsetWidth && e.scrollWidth - e.clientWidth > 1).map(e => e.textContent)"""
"""JavaScript that returns the cells that are too narrow for their text."""


@pytest.fixture(scope="module")
def server(demo_home: Path, serve: Callable[[Path], str]) -> str:
    return serve(demo_home)


def point_at(page: Any, number: int, *, figure: str) -> tuple[float, float]:
    """Move the pointer over a point of a figure; return where it is."""
    point = page.locator(f".st-key-ka_figure_{figure} {POINTS}").nth(number)
    point.scroll_into_view_if_needed()
    settle(page)
    box = point.bounding_box()
    place = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(place[0] - 2, place[1])
    page.mouse.move(*place)
    expect(page.locator(".hoverlayer .hovertext").first).to_be_visible()
    return place


def test_the_chart_is_on_the_first_screen_and_a_dot_opens_its_name(
    server: str, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(f"{server}/verdict")
    page.set_viewport_size({"width": 1280, "height": 800})
    is_whole(page)
    for selector in (".ka-verdict", ".st-key-ka_figure_scores .js-plotly-plot"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= 800
    place = point_at(page, 3, figure="scores")
    label = page.locator(".hoverlayer .hovertext").first.text_content()
    match = re.match(r"(P-\d{4}) · \S\*\*\* \S\*\*\*Member · mentions: \d+score: \S+$", label)
    assert match, label
    for form, beginning in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with page.expect_download() as download:
            button = page.locator(".st-key-ka_figure_scores .ka-pictures button")
            button.get_by_text(form, exact=True).click()
        assert download.value.suggested_filename == f"scores.{form.lower()}"
        path = tmp_path / download.value.suggested_filename
        download.value.save_as(path)
        assert path.read_bytes().startswith(beginning) and path.stat().st_size > 8_000
    table = saved(page, "scores_csv", folder=tmp_path).read_text(encoding="utf-8-sig")
    assert '"Members",130,' in table
    page.mouse.click(*place)
    page.wait_for_url(re.compile("/names.*name="))
    heading = page.locator(".st-key-names_detail h2").first
    expect(heading).to_contain_text(match[1])
    other_page = visit(page.url)
    expect(other_page.locator(".st-key-names_detail h2").first).to_contain_text(match[1])


def test_a_click_on_the_roc_sets_the_threshold(server: str, visit: Callable[..., Any]) -> None:
    page = visit(f"{server}/measures?axes=linear")
    is_whole(page)
    box = page.get_by_role("spinbutton", name=SAY.text("measures_exact"))
    value = box.input_value()
    place = point_at(page, 12, figure="measures_roc")
    label = page.locator(".hoverlayer .hovertext").first.text_content()
    page.mouse.click(*place)
    expect(box).not_to_have_value(value)
    threshold = re.search(r"threshold (\S+?)false", label.replace("\N{MINUS SIGN}", "-"))
    assert threshold and float(box.input_value()) == pytest.approx(float(threshold[1]), rel=0.01)


def test_a_point_of_two_audits_opens_its_name(server: str, visit: Callable[..., Any]) -> None:
    page = visit(f"{server}/measures?tab=compare")
    is_whole(page)
    place = point_at(page, 0, figure="measures_paired")
    label = page.locator(".hoverlayer .hovertext").first.text_content()
    page.mouse.click(*place)
    page.wait_for_url(re.compile("/names.*name="))
    expect(page.locator(".st-key-names_detail h2").first).to_contain_text(label[:6])


def test_a_click_anywhere_in_a_row_opens_it_and_arrows_go_on(
    server: str, visit: Callable[..., Any]
) -> None:
    page = visit(f"{server}/names")
    is_whole(page)
    grid = page.locator(".st-key-names_table [data-testid=stDataFrame]")
    heading, headings = page.locator(".st-key-names_detail h2").first, []
    for x in (30, 320):  # a number, and a decision
        last_heading = headings[-1] if headings else ""
        grid.click(position={"x": x, "y": 35 * (len(headings) + 1) + 18})
        expect(heading).not_to_have_text(last_heading)
        headings.append(heading.inner_text())
    page.keyboard.press("ArrowDown")
    expect(heading).not_to_have_text(headings[1])
    page.keyboard.press("ArrowUp")
    expect(heading).to_have_text(headings[1])


@pytest.mark.long
@pytest.mark.parametrize("language", ["en", "ja"])
def test_no_table_is_cut_at_any_width(
    server: str, visit: Callable[..., Any], language: str
) -> None:
    page, cut_cells = visit(f"{server}/verdict?lang={language}"), []
    for path in SHOWN:
        page.goto(f"{server}/{path}&lang={language}")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            is_whole(page)
            cut_cells += [(path, width, cell) for cell in page.evaluate(OUTSIDE)]
            if width >= 1024:  # a telephone scrolls wide tables sideways
                cut_cells += [(path, width, table) for table in page.evaluate(CUT)]
            assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert cut_cells == []


def test_a_column_is_as_wide_as_its_longest_text(server: str, visit: Callable[..., Any]) -> None:
    page = visit(f"{server}/names")
    is_whole(page)
    texts = ["Christopher Richardson", "WILLIAM MCADAMS", "佐々木 健太郎", "Hard control", "P-0012"]
    font = "14px 'Source Sans', 'Noto Sans CJK JP', sans-serif"
    widths = page.evaluate(
        """([font, texts]) => { const pen = document.createElement('canvas').getContext('2d');
        pen.font = font; return texts.map(text => pen.measureText(text).width) }""",
        [font, texts],
    )
    for text, width in zip(texts, widths, strict=True):
        assert width + 16 <= text_width([text]) <= 1.5 * width + 40, text


N_WORDS = """() => {
  const main = document.querySelector('[data-testid=stMain]')
  const icons = [...main.querySelectorAll('[data-testid=stIconMaterial]')]
  const n = icons.filter(e => e.offsetWidth).length
  return main.innerText.split(/\\s+/).filter(Boolean).length - n
}"""
"""JavaScript that returns how many words a page shows; an icon is a word of its font."""
MOST_WORDS = {
    "verdict": 290,
    "names": 145,
    "measures": 270,
    "measures?tab=mentions": 85,
    "measures?tab=compare": 290,
    "measures?tab=linking": 130,
    "measures?tab=checks": 320,
    "method": 1530,  # of which some 500 are letters of formulas
}
"""Words that a page of the demonstration may show, numbers of its tables included."""


def test_no_page_has_more_words_than_it_needs(server: str, visit: Callable[..., Any]) -> None:
    page, numbers = visit(f"{server}/verdict"), {}
    for path in MOST_WORDS:
        page.goto(f"{server}/{path}")
        is_whole(page)
        numbers[path] = page.evaluate(N_WORDS)
    assert {path: n for path, n in numbers.items() if n > MOST_WORDS[path]} == {}
