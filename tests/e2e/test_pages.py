"""Every page in a real browser: both languages, light and dark, on a fresh server, at any width."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pages.ui.state import LANGUAGES, words_of
from tests.e2e.screen import is_whole, settle, unfold

expect = pytest.importorskip("playwright.sync_api").expect

PAGES = (
    "verdict",
    "audit",
    "names",
    "measures",
    "check",
    "deidentify",
    "workshop",
    "method",
    "jobs",
)


SIZES = ((1024, 768), (720, 500), (390, 844))
"""A small screen, a usual one at 200 %, a telephone."""
FAINT = r"""() => {
  const parse = c => { const m = (c.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
    return c.startsWith('color(') ? [...m.slice(0, 3).map(v => 255 * v), m[3] ?? 1] : m }
  const lin = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 }
  const lum = c => 0.2126 * lin(c[0]) + 0.7152 * lin(c[1]) + 0.0722 * lin(c[2])
  const over = (top, under) => { const a = top[3] ?? 1;
    return [0, 1, 2].map(i => top[i] * a + under[i] * (1 - a)) }
  const ground = e => {
    const layers = []
    for (let n = e; n; n = n.parentElement) layers.push(parse(getComputedStyle(n).backgroundColor))
    let found = [255, 255, 255]
    for (const one of layers.reverse()) found = over(one, found)
    return found
  }
  const found = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) {
    const text = walker.currentNode.textContent.trim(), e = walker.currentNode.parentElement
    if (!text || !e) continue
    if (e.closest('[disabled], [aria-disabled=true], script, style')) continue
    if (e.closest('[data-testid=stSliderThumbValue]')) continue
    const box = e.getBoundingClientRect(), style = getComputedStyle(e)
    if (!box.width || !box.height || style.visibility == 'hidden') continue
    const back = ground(e)
    let ink = parse(e instanceof SVGElement ? style.fill : style.color)
    ink[3] ??= 1
    for (let n = e; n; n = n.parentElement) ink[3] *= Number(getComputedStyle(n).opacity)
    if (ink[3] < 0.05) continue
    const a = lum(over(ink, back)), b = lum(back)
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
    const where = e.closest('[data-testid]')?.dataset.testid ?? e.tagName
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${where} ${text.slice(0, 40)}`)
  }
  return [...new Set(found)]
}"""
"""JavaScript that returns the texts of a page that stand out from their ground by less than 4.5:1,
as WCAG 2.2 measures it (1.4.3). What is disabled does not count, nor what stands beside a slider's
thumb: the thumb is its parent, and not its ground."""


@pytest.fixture(scope="module")
def server(demo_home: Path, serve: Callable[[Path], str]) -> str:
    return serve(demo_home)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where screenshots go: `KART_AUDIT_SCREENSHOTS` if it is set."""
    chosen = os.environ.get("KART_AUDIT_SCREENSHOTS")
    folder = Path(chosen) if chosen else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize(("language", "scheme"), [("en", "light"), ("ja", "dark")])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_drawn_whole(
    server: str, visit: Callable[..., Any], pictures: Path, name: str, language: str, scheme: str
) -> None:
    page = visit(f"{server}/{name}?lang={language}", scheme=scheme)
    is_whole(page)
    title = page.locator("h1").first.inner_text()
    assert title == words_of(language).text(f"{name}_title")
    height = page.get_by_test_id("stMain").evaluate("e => e.firstElementChild.scrollHeight + 80")
    page.set_viewport_size({"width": 1400, "height": min(int(height), 6000)})
    is_whole(page)
    picture = page.screenshot(path=pictures / f"{name}-{language}.png")
    assert len(picture) > 15_000
    assert page.evaluate(FAINT) == []
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        is_whole(page)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        if width == 1024:  # who it is about and in which language is seen without scrolling
            for key in ("audit", "language"):
                box = page.locator(f".st-key-{key}").bounding_box()
                assert box is not None and box["y"] + box["height"] <= height


def test_a_row_of_choices_may_wrap_and_the_chosen_audit_is_read_whole(
    server: str, visit: Callable[..., Any]
) -> None:
    page = visit(f"{server}/measures?lang=en")
    page.set_viewport_size({"width": 1024, "height": 768})
    is_whole(page)
    choices = page.locator("[data-testid=stButtonGroup] [role=radio]")
    corners = choices.evaluate_all("rows => rows.map(e => getComputedStyle(e).borderRadius)")
    assert len(corners) > 6 and set(corners) == {"8px"}
    picker = page.locator(".st-key-audit [role=group]")
    label = page.locator(".st-key-audit input").input_value()
    assert "40 epochs of the notes" in label
    written = "e => JSON.parse(getComputedStyle(e, '::before').content)"
    assert picker.evaluate(written) == label
    assert picker.evaluate("e => e.scrollWidth <= e.clientWidth && e.clientHeight > 60")
    height = picker.evaluate("e => e.clientHeight")
    page.locator(".st-key-audit input").click(position={"x": 30, "y": height - 4})
    options = page.get_by_role("option")
    expect(options).to_have_count(2)
    assert options.evaluate_all("all => all.every(e => e.scrollWidth <= e.clientWidth)")


def test_choices_stay_when_the_language_is_switched(server: str, visit: Callable[..., Any]) -> None:
    page = visit(f"{server}/audit?lang=en")
    is_whole(page)
    unfold(page, "settings")
    for language in ("ja", "en"):
        page.get_by_test_id("stSidebar").get_by_text(LANGUAGES[language]).click()
        say = words_of(language)
        title = page.get_by_role("heading", name=say.text("audit_title"), exact=True)
        expect(title).to_be_visible(timeout=60_000)
        settle(page)
        expect(page.get_by_role("radio", name=say.text("audit_preset_quick"))).to_be_checked()
        box = page.locator("[class*=dtype] input, [class*=dtype] [value]").first
        expect(page.locator("[class*=dtype]").first).to_contain_text(say.text("audit_set_dtype"))
        expect(box).to_have_value(say.text("audit_dtype_auto"))
