"""The folder without a server in a real browser: opened as a file, with the network watched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit.report.export import bundle_files
from audit.report.html import ReportChoice
from audit.report.report import AuditReport
from tests.pages.make_reports import make_report

expect = pytest.importorskip("playwright.sync_api").expect


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return make_report(2)


def read_number(text: str) -> float:
    """Read a number as it is written for people: -1.5, or 1.4 x 10 to a power."""
    mantissa, _, power = text.replace("\N{MINUS SIGN}", "-").partition(
        " \N{MULTIPLICATION SIGN} 10"
    )
    powers = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
    return float(f"{mantissa}e{power.translate(powers) or 0}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_hover_tables_sort_and_nothing_is_requested(
    browser: Any, report: AuditReport, tmp_path: Path, scheme: str
) -> None:
    for name, content in bundle_files(report, choice=ReportChoice(), is_folder=True).items():
        (tmp_path / name).write_bytes(content)
    context = browser.new_context(color_scheme=scheme, viewport={"width": 390, "height": 844})
    page, requests, complaints = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((tmp_path / "index.html").as_uri())
    english, japanese = page.locator("main[lang=en]"), page.locator("main[lang=ja]")
    expect(english.locator(".plot .main-svg").first).to_be_visible()
    assert english.locator(".plot.js-plotly-plot").count() == 3

    english.locator(".plot[data-figure=scores] path.point").first.hover(force=True)
    expect(english.locator(".hoverlayer .hovertext").first).to_contain_text("P-0")

    table = english.locator("table").filter(has_text="P-0002").last
    for name in ("Score", "Hospital"):
        heading = table.get_by_role("columnheader", name=name, exact=True)
        place = heading.evaluate("cell => cell.cellIndex")
        for order in ("ascending", "descending"):
            heading.focus()
            page.keyboard.press("Enter")
            assert heading.get_attribute("aria-sort") == order
            cells = table.locator(f"tbody tr td:nth-child({place + 1})").all_inner_texts()
            numbers = list(map(read_number, cells))
            assert numbers == sorted(numbers, reverse=order == "descending")
            assert len(numbers) > 60

    page.get_by_role("button", name="日本語").click()
    expect(japanese).to_be_visible()
    expect(english).to_be_hidden()
    expect(japanese.locator(".plot .main-svg").first).to_be_visible()
    assert page.evaluate("document.documentElement.lang") == "ja"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
    assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert complaints == []
