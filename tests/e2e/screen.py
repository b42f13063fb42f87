"""What browser tests do on a page: choose, fill in, upload, wait for a job."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect

from pages.ui.state import words_of
from tests.e2e.conftest import READY

SAY = words_of("en")


def is_whole(page: Any) -> None:
    """Wait until the page is drawn, and hold that nothing in it failed."""
    expect(page.locator("h1").first).to_be_visible(timeout=60_000)
    settle(page)
    expect(page.get_by_test_id("stSkeleton")).to_have_count(0)
    expect(page.locator("[data-testid=stException], .ka-unforeseen")).to_have_count(0)


def settle(page: Any) -> None:
    """Wait until the page is not being drawn; what is pressed while it moves can be lost."""
    page.locator(READY).wait_for(timeout=60_000)


def drawn(page: Any, selector: str) -> Any:
    """Return what the selector finds without what the last run drew and this run did not yet.

    While a page is drawn anew, an element of the run before can stand beside its successor.
    """
    return page.locator("[data-testid=stElementContainer][data-stale=false]").locator(selector)


def choose(page: Any, key: str, *, option: str) -> None:
    """Choose an option of the select box with this key."""
    settle(page)
    box = page.locator(f".st-key-{key} input")
    box.click()
    page.get_by_role("option", name=option).first.click()


def upload(page: Any, key: str, *, data: bytes, name: str = "list.csv") -> None:
    """Give a file to the uploader with this key, until the server has it and the uploader names it.

    A file given in the instant in which the uploader is drawn anew is lost; a person gives it
    again, and so does this.
    """
    kind = "text/csv" if name.endswith(".csv") else "application/json"
    uploader = page.locator(f"[class*='st-key-{key}']")
    named = uploader.get_by_text(name, exact=True).first
    for seconds in (15, 30, 60):
        settle(page)
        with (
            contextlib.suppress(PlaywrightTimeout),
            page.expect_response(_is_kept_file, timeout=seconds * 1000),
        ):
            uploader.get_by_test_id("stFileUploaderDropzoneInput").set_input_files(
                {"name": name, "mimeType": kind, "buffer": data}
            )
        with contextlib.suppress(PlaywrightTimeout):
            named.wait_for(timeout=seconds * 1000)
            return
    expect(named).to_be_visible()


def _is_kept_file(response: Any) -> bool:
    return "/_stcore/upload_file/" in response.url and response.request.method == "PUT"


def press(page: Any, key: str) -> None:
    """Press the button with this key."""
    settle(page)
    page.locator(f".st-key-{key} button").first.click()


def unfold(page: Any, key: str) -> None:
    """Open the expander with this key, until it stands open; a click into a moving page is lost."""
    expander = page.locator(f".st-key-{key} details").first
    for _ in range(3):
        is_whole(page)
        if expander.get_attribute("open") is None:
            expander.locator("summary").first.click()
        with contextlib.suppress(PlaywrightTimeout):
            page.locator(f".st-key-{key} details[open]").first.wait_for(timeout=15_000)
            is_whole(page)
            if expander.get_attribute("open") is not None:
                return
    expect(page.locator(f".st-key-{key} details[open]").first).to_be_visible()


def fill_number(page: Any, label: str, *, value: int | str) -> None:
    """Write a number into the box with this label."""
    settle(page)
    box = page.get_by_role("spinbutton", name=label, exact=True)
    box.fill(str(value))
    box.press("Enter")


def saved(page: Any, key: str, *, folder: Path) -> Path:
    """Press a download button, and return the file."""
    with page.expect_download() as download:
        press(page, key)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def job_state(page: Any, state: str, *, timeout: float = 120_000) -> Any:
    """Wait until the newest job is in a state, and return its card."""
    card = page.locator("[class*='st-key-job-']").first
    expect(card).to_contain_text(SAY.text(f"jobs_state_{state}"), timeout=timeout)
    return card
