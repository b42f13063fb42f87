"""The Verdict page in a real browser: understood, decided, signed and handed over, by keys too."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.attack.question import question_digest
from audit.home import HOME_VARIABLE
from tests.pages.make_reports import keep, keep_demo, make_report

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from pages.ui.state import words_of
from tests.e2e.screen import SAY, is_whole, press, saved, unfold, upload

HOSTILE = '![x](http://evil.example/p.png)<img src="http://evil.example/q.png">'
JA = words_of("ja")


@pytest.fixture(scope="module")
def demo() -> dict[str, Any]:
    reports = {"masked_lm": make_report(2), "generation": make_report(1, leak=1.0)}
    return {
        name: report.changed(digest=question_digest(report.question))
        for name, report in reports.items()
    }


@pytest.fixture(scope="module")
def demo_server(
    demo: dict[str, Any], tmp_path_factory: pytest.TempPathFactory, serve: Callable[[Path], str]
) -> str:
    home = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(home))
        keep_demo(demo)
        keep(make_report(2, hospital=HOSTILE, at="2026-01-01T00:00:00+00:00", notes=[HOSTILE]))
    return serve(home)


def test_a_deep_link_first_on_a_fresh_server_is_shown_by_the_router(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any]
) -> None:
    report = demo["generation"]
    page = visit(f"{demo_server}/verdict?audit={report.digest[:12]}&lang=ja")
    sidebar = page.get_by_test_id("stSidebar")
    expect(sidebar.get_by_role("radio", name="日本語")).to_be_checked()
    expect(page.get_by_role("heading", name=JA.text("verdict_title"), exact=True)).to_be_visible()
    expect(page.locator(".ka-verdict")).to_contain_text(report.verdict.in_short("ja"))
    assert page.evaluate("document.documentElement.lang") == "ja"


def test_a_link_opens_the_report_and_holds_what_is_unfolded(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any]
) -> None:
    page = visit(f"{demo_server}/?audit={demo['masked_lm'].digest[:12]}&report=true")
    inside = page.frame_locator(".st-key-report_preview iframe").locator("body")
    expect(inside).to_contain_text(demo["masked_lm"].verdict.in_short("en"))
    unfold(page, "numbers")
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    page.wait_for_url(re.compile("numbers=true"))
    page.reload()
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    expect(inside).to_contain_text("2 Decision")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_demo_wears_a_ribbon_and_its_charts_are_tables_too(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any], tmp_path: Path, scheme: str
) -> None:
    address = f"{demo_server}/?audit={demo['masked_lm'].digest[:12]}&numbers=true"
    page = visit(address, scheme=scheme)
    expect(page.locator(".ka-ribbon")).to_be_visible()
    expect(page.locator(".ka-verdict")).to_contain_text("Leak found")
    expect(page.locator(".js-plotly-plot")).to_have_count(1)
    unfold(page, "scores_as_table")
    expect(page.get_by_role("columnheader", name="Upper quartile")).to_be_visible()
    colour = page.evaluate("getComputedStyle(document.querySelector('.stApp')).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", colour)[:3])) > 600) == (scheme == "light")


def test_switch_link_and_back_keep_audit_and_language(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any]
) -> None:
    first, second = (demo[name].digest[:12] for name in ("masked_lm", "generation"))
    page = visit(f"{demo_server}/?audit={first}")
    page.get_by_test_id("stSidebar").get_by_text("日本語").click()
    page.wait_for_url(re.compile("lang=ja"))
    page.get_by_role("link", name=JA.text("open_scenario_1")).click()
    page.wait_for_url(re.compile(f"audit={second}"))
    expect(page.locator(".ka-verdict")).to_contain_text(JA.text("scenario_1"))
    page.reload()
    expect(page.locator(".ka-verdict")).to_contain_text(JA.text("scenario_1"))
    page.go_back()
    page.wait_for_url(re.compile(f"audit={first}"))
    expect(page.locator(".ka-verdict")).to_contain_text(JA.text("scenario_2"))


def test_an_own_audit_opens_first_and_names_of_models_neither_run_nor_fetch(
    demo_server: str, visit: Callable[..., Any]
) -> None:
    page = visit(f"{demo_server}/?limits=true", locale="ja-JP")  # a Japanese browser gets Japanese
    expect(page.get_by_role("heading", name=JA.text("verdict_title"), exact=True)).to_be_visible()
    expect(page.locator(".ka-verdict")).to_contain_text(HOSTILE)
    expect(page.locator(".ka-ribbon")).to_have_count(0)
    expect(page.locator(".ka-list").last).to_contain_text(HOSTILE)
    page.get_by_role("combobox").click()
    expect(page.get_by_role("option")).to_have_count(3)
    assert page.locator("img[src*=evil]").count() == 0


def test_an_officer_decides_signs_and_hands_over_on_a_telephone_by_keys_alone(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(f"{demo_server}/?audit={demo['generation'].digest[:12]}&log=true")
    page.set_viewport_size({"width": 390, "height": 844})
    is_whole(page)
    page.get_by_role("radio", name=SAY.text("decision_none")).focus()
    for _ in range(4):  # down to the last of the four
        page.keyboard.press("ArrowDown")
    is_whole(page)
    page.get_by_label(SAY.text("decision_reasons")).focus()
    page.keyboard.type("Names stand out.")
    page.keyboard.press("Tab")
    is_whole(page)
    page.keyboard.press("Enter")
    expect(page.get_by_text(SAY.text("decision_unsigned"))).to_be_visible()
    page.get_by_label(SAY.text("decision_name")).focus()
    page.keyboard.type("A. Auditor")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text(SAY.text("decision_signed"))).to_be_visible()
    html = saved(page, "report_html", folder=tmp_path).read_text(encoding="utf-8")
    assert "A. Auditor" in html and "Names stand out." in html and "<script" not in html
    press(page, "log_refresh")
    for action in ("decided", "signed", "exported"):
        expect(page.locator(".st-key-log")).to_contain_text(SAY.text(f"log_action_{action}"))
    main = page.get_by_test_id("stMain")
    assert main.evaluate("e => e.scrollWidth - e.clientWidth") <= 0


def test_a_draft_is_told_at_once_that_somebody_else_has_decided(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any]
) -> None:
    address = f"{demo_server}/?audit={demo['generation'].digest[:12]}"
    first_page, second_page = visit(address), visit(address)
    for page, reasons in ((first_page, "My draft."), (second_page, "Somebody else's.")):
        is_whole(page)
        page.get_by_text(SAY.text("decision_retrain"), exact=True).first.click()
        is_whole(page)
        page.get_by_label(SAY.text("decision_reasons")).fill(reasons)
        page.keyboard.press("Tab")
        is_whole(page)
    press(second_page, "decision_keep")
    notice = first_page.locator(".st-key-decision_elsewhere")
    expect(notice).to_be_visible()
    expect(notice).to_contain_text(SAY.text("decision_draft_kept"))
    bar = notice.evaluate("e => [getComputedStyle(e).borderLeftWidth, e.clientHeight > 0]")
    assert bar == ["4px", True]
    expect(first_page.get_by_label(SAY.text("decision_reasons"))).to_have_value("My draft.")


def test_an_uploader_speaks_the_language_of_the_page(
    demo_server: str, visit: Callable[..., Any]
) -> None:
    page = visit(f"{demo_server}/check?lang=ja", locale="ja-JP")
    is_whole(page)
    uploader = page.locator(".st-key-check_file")
    button = uploader.get_by_role("button", name=JA.text("upload_button"), exact=True)
    expect(button).to_be_visible()  # so is it read aloud
    expect(uploader.get_by_role("button", name="Upload", exact=True)).to_have_count(0)
    limits = uploader.locator("[data-testid=stFileUploaderDropzoneInstructions] > div")
    written = limits.evaluate("e => [getComputedStyle(e, '::after').content, e.innerText.trim()]")
    assert "50 MB まで" in written[0] and written[1] == ""


def test_a_report_that_was_downloaded_is_checked_on_a_page(
    demo: dict[str, Any], demo_server: str, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(f"{demo_server}/?audit={demo['generation'].digest[:12]}")
    is_whole(page)
    path = saved(page, "report_zip", folder=tmp_path)
    page.get_by_role("link", name=SAY.text("check_link")).click()
    is_whole(page)
    upload(page, "check_file", data=path.read_bytes(), name="audit.zip")
    expect(page.locator(".ka-verdict")).to_contain_text("Unchanged since it was written.")
    page.get_by_role("link", name=SAY.text("check_open")).click()
    expect(page.locator(".st-key-decision")).to_be_visible()
