"""Every page in a real browser: both languages, light and dark, on a fresh server, at any width."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.screen import is_whole

pytest.importorskip("playwright.sync_api")

PAGES = (
    "overview", "corpus", "train", "setup", "run", "jobs", "names", "measures", "documents",
    "deidentify", "deid_measures", "report", "method",
)  # fmt: skip


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
    assert title.rstrip("。").endswith(("?", "？", "か")), title
    is_japanese = bool(re.search("[\u3040-\u30ff\u4e00-\u9fff]", title))
    assert is_japanese == (language == "ja")
    height = page.get_by_test_id("stMain").evaluate("e => e.firstElementChild.scrollHeight + 80")
    page.set_viewport_size({"width": 1400, "height": min(int(height), 6000)})
    is_whole(page)
    picture = page.screenshot(path=pictures / f"{name}-{language}.png")
    assert len(picture) > 15_000
    page.set_viewport_size({"width": 820, "height": 1000})
    is_whole(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
