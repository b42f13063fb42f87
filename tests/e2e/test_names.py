"""One walk through Names: filter, choose, look at the next one, and step back the same way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from tests.e2e.screen import SAY, is_whole, press


def test_each_step_can_be_taken_back_and_a_link_shows_what_its_sender_saw(
    demo_home: Path, serve: Callable[[Path], str], visit: Callable[..., Any]
) -> None:
    page = visit(f"{serve(demo_home)}/names?tab=documents")
    is_whole(page)
    expect(page.locator(".ka-pair, .ka-passages").first).to_be_visible()
    page.get_by_role("radio", name=SAY.text("names_tab_table"), exact=True).click()
    is_whole(page)
    kind = page.locator(".st-key-choice_kind")
    kind.get_by_role("button").first.click()
    expect(page.get_by_text("130 of 390 names")).to_be_visible()
    heading, headings = page.locator(".st-key-names_detail h2").first, []
    for key in ("names_first", "names_next"):
        last_heading = headings[-1] if headings else ("", "")
        press(page, key)
        expect(heading).not_to_have_text(last_heading[1])
        page.wait_for_url(lambda url, old=last_heading[0]: "name=" in url and url != old)
        is_whole(page)
        headings.append((page.url, heading.inner_text()))
    page.go_back()
    expect(heading).to_have_text(headings[0][1])
    assert page.url == headings[0][0]
    page.go_back()
    expect(heading).to_have_count(0)
    page.go_back()
    expect(page.get_by_text("390 of 390 names")).to_be_visible()
    other_page = visit(headings[1][0])
    is_whole(other_page)
    expect(other_page.locator(".st-key-names_detail h2").first).to_have_text(headings[1][1])
    expect(other_page.get_by_text("130 of 390 names")).to_be_visible()
    button, box = (
        other_page.get_by_role("button", name=SAY.text("reveal_names")),
        other_page.get_by_test_id("stPopoverBody"),
    )
    button.focus()  # and by keys alone from here on
    for key in ("Enter", "Escape", "Enter"):
        other_page.keyboard.press(key)
        if key == "Escape":
            expect(box).to_have_count(0)
            expect(button).to_be_focused()
        else:
            expect(box.locator(":focus")).to_have_count(1)
    other_page.keyboard.press("Tab")
    other_page.keyboard.press("Enter")
    expect(other_page.get_by_role("button", name=SAY.text("hide_names"))).to_be_visible()
