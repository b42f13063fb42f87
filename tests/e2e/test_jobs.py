"""Jobs outlive the tab, the session and the server; anybody can stop them and let them go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from audit.deid.release import Release
from audit.deid.taggers import known_taggers
from audit.deid.tasks import one_text, tagging_task
from audit.home import HOME_VARIABLE
from audit.jobs import table
from pages.ui.language import words_of
from tests.e2e.conftest import READY, Server
from tests.e2e.screen import SAY, is_whole, job_state, press
from tests.e2e.test_journey import set_up, start

LONG = 200_000


@pytest.fixture(scope="module")
def server(servers: Callable[[Path], Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    return servers(tmp_path_factory.mktemp("jobs") / "home")


def test_a_server_that_nobody_looks_at_starts_what_waits(
    servers: Callable[[Path], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers(tmp_path / "home")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    asked = tagging_task(
        one_text("氏名：高橋健一", source="pasted"), tagger=known_taggers()[1],
        how=Release(),
    ).question()  # fmt: skip
    waiting = table.insert(asked)  # as one left it who died before a worker was started
    assert waiting is not None and waiting.state == "queued"
    end = time.monotonic() + 90
    while (job := table.get(waiting.job_id)) and job.is_active and time.monotonic() < end:
        time.sleep(0.1)
    assert job is not None and job.state == "done"


def test_a_job_survives_refresh_and_restart_and_a_second_session_stops_it(
    server: Server, visit: Callable[..., Any]
) -> None:
    page = visit(server.url, may_lose_server=True)
    set_up(page, server.url)
    start(page, n_inputs=LONG)
    job_state(page, "running")
    expect(page.get_by_test_id("stSidebar").locator(".st-key-job_line")).to_be_visible()

    page.reload()
    is_whole(page)
    job_state(page, "running")

    server.stop()
    lost = page.locator("[data-testid='stApp']:not([data-test-connection-state='CONNECTED'])")
    expect(lost).to_be_visible(timeout=60_000)
    server.start()
    expect(page.locator(READY)).to_be_visible(timeout=60_000)
    page.goto(f"{server.url}/jobs")
    job_state(page, "running")

    other = visit(f"{server.url}/jobs?lang=ja")
    japanese = words_of("ja")
    card = other.locator("[class*='st-key-job-']").first
    expect(card).to_contain_text(japanese.text("jobs_state_running"))
    card.get_by_role("button", name=japanese.text("jobs_cancel")).first.click()
    other.get_by_role("button", name=japanese.text("jobs_cancel_now")).click()
    expect(card).to_contain_text(japanese.text("jobs_state_cancelled"), timeout=60_000)
    stopped = job_state(page, "cancelled", timeout=60_000)

    stopped.get_by_role("button", name=SAY.text("jobs_resume")).click()
    running = job_state(page, "running")
    running.get_by_role("button", name=SAY.text("jobs_cancel")).first.click()
    page.get_by_role("button", name=SAY.text("jobs_cancel_now")).click()
    job_state(page, "cancelled", timeout=60_000)


@pytest.mark.slow
def test_the_demo_runs_at_a_click_and_ends_in_a_verdict(
    servers: Callable[[Path], Server], visit: Callable[..., Any], tmp_path: Path
) -> None:
    url = servers(tmp_path / "home").url
    page = visit(url)
    press(page, "run_demo")
    expect(page.get_by_role("heading", name=SAY.text("jobs_title"))).to_be_visible()
    card = job_state(page, "done", timeout=900_000)
    card.get_by_role("link", name=SAY.text("jobs_open")).first.click()
    expect(page.locator(".ka-verdict.ka-leak_found").first).to_be_visible()
    expect(page.get_by_text(SAY.text("is_demo"))).to_be_visible()
