"""The Overview page in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.home import HOME_VARIABLE
from tests.pages.make_reports import keep, keep_demo, make_report

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from pages.ui.language import words_of

HOSTILE = '![x](http://evil.example/p.png)<img src="http://evil.example/q.png">'
TITLE = "May this model leave the building?"
TITLE_JA = "このモデルを院外に出してよいか"


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    return {"masked_lm": make_report(2), "generation": make_report(1, leak=1.0)}


@pytest.fixture(scope="module")
def demo_server(
    demo: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, serve: Callable[[Path], str]
) -> str:
    home = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(home))
        keep_demo(demo)
        hostile = make_report(2, hospital=HOSTILE, at="2026-01-01T00:00:00+00:00", notes=[HOSTILE])
        keep(hostile)
    return serve(home)


def test_a_deep_link_first_on_a_fresh_server_is_shown_by_the_router(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any]
) -> None:
    digest = demo["generation"].digest[:12]
    page = visit(f"{demo_server}/overview?audit={digest}&lang=ja")
    sidebar = page.get_by_test_id("stSidebar")
    expect(sidebar.get_by_text("KART Audit")).to_be_visible()
    expect(sidebar.get_by_role("radio", name="日本語")).to_be_checked()
    expect(page.get_by_role("heading", name=TITLE_JA)).to_be_visible()
    expect(page.locator(".ka-verdict").first).to_contain_text(digest)
    assert page.evaluate("document.documentElement.lang") == "ja"


def test_the_demo_is_shown_with_its_charts_and_tables(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any], tmp_path: Path
) -> None:
    address = f"{demo_server}/?audit={demo['masked_lm'].digest[:12]}"
    page = visit(address)
    expect(page.get_by_role("heading", name=TITLE)).to_be_visible()
    expect(page.locator(".ka-ribbon")).to_be_visible()
    expect(page.locator(".ka-verdict").first).to_contain_text("Leak found")
    expect(page.locator(".ka-verdict").first).to_contain_text(demo["masked_lm"].digest[:12])
    expect(page.locator(".js-plotly-plot")).to_have_count(2)
    page.get_by_text("Show as table").first.click()
    expect(page.get_by_role("columnheader", name="Upper quartile")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    for scheme in ("light", "dark"):
        shown = visit(address, scheme=scheme)
        expect(shown.locator(".js-plotly-plot")).to_have_count(2)
        picture = shown.screenshot(path=tmp_path / f"overview-{scheme}.png")
        assert len(picture) > 20_000
        background = shown.evaluate(
            "getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"
        )
        brightness = sum(map(int, re.findall(r"\d+", background)[:3]))
        assert (brightness > 600) == (scheme == "light")


def test_switch_and_link_keep_audit_and_language(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any]
) -> None:
    page = visit(f"{demo_server}/?audit={demo['masked_lm'].digest[:12]}")
    page.get_by_test_id("stSidebar").get_by_text("日本語").click()
    expect(page.get_by_role("heading", name=TITLE_JA)).to_be_visible()
    page.wait_for_url(re.compile("lang=ja"))
    page.get_by_role("link", name="シナリオ 1 の監査を開く").click()
    digest = demo["generation"].digest[:12]
    page.wait_for_url(re.compile(f"audit={digest}"))
    expect(page.locator(".ka-verdict").first).to_contain_text(digest)
    expect(page.get_by_role("heading", name=TITLE_JA)).to_be_visible()
    page.reload()
    expect(page.locator(".ka-verdict").first).to_contain_text(digest)
    expect(page.get_by_role("heading", name=TITLE_JA)).to_be_visible()


def test_an_own_audit_opens_first_and_names_of_models_neither_run_nor_fetch(
    demo_server: str, visit: Callable[..., Any]
) -> None:
    page = visit(demo_server, locale="ja-JP")  # a Japanese browser gets Japanese
    expect(page.get_by_role("heading", name=TITLE_JA)).to_be_visible()
    expect(page.locator(".ka-verdict").first).to_contain_text(HOSTILE)
    expect(page.locator(".ka-ribbon")).to_have_count(0)
    page.get_by_text(words_of("ja").text("notes"), exact=True).click()
    expect(page.locator(".ka-list").last).to_contain_text(HOSTILE)
    page.get_by_role("combobox").click()
    expect(page.get_by_role("option")).to_have_count(3)
    assert page.locator("img[src*=evil]").count() == 0
