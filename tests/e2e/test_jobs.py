"""Jobs outlive the tab, the session and the server; anybody can stop them and let them go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from audit.deid.find.taggers import list_taggers
from audit.deid.redact.release import Release
from audit.deid.tasks import single_text, tagging_task
from audit.demo import DemoTask
from audit.home import HOME_VARIABLE
from audit.jobs import service, table
from audit.jobs.locks import device_lock
from pages.ui.state import words_of
from tests.e2e.conftest import READY, Server, environment
from tests.e2e.screen import SAY, is_whole, job_state, press
from tests.jobs.fake_jobs import until_state
from tests.pages.make_reports import keep, make_report

LONG = 200_000


@pytest.fixture(scope="module")
def server(servers: Callable[[Path], Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    return servers(tmp_path_factory.mktemp("jobs") / "home")


def test_a_server_that_nobody_looks_at_starts_what_waits(
    servers: Callable[[Path], Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers(tmp_path / "home")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    task = tagging_task(
        single_text("氏名：高橋健一", source="pasted"),
        tagger=list_taggers()[1],
        release=Release(),
    ).question()
    waiting = table.insert(task)  # as one left it who died before a worker was started
    assert waiting is not None and waiting.state == "queued"
    until_state(waiting, "done")


def test_the_first_verdict_comes_into_sight_while_the_demo_still_runs(
    serve: Callable[[Path], str],
    visit: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    lock = device_lock("cpu")  # as whoever runs a job holds it
    assert lock is not None
    job = table.insert(DemoTask(device="cpu").question())
    assert job is not None and table.claim(job.job_id)
    page = visit(serve(tmp_path / "home"))
    sidebar = page.get_by_test_id("stSidebar")
    expect(sidebar.locator(".st-key-job_line")).to_be_visible()
    expect(sidebar.get_by_test_id("stSelectbox")).to_have_count(0)  # no audit to choose
    keep(make_report(2))
    expect(sidebar.get_by_test_id("stSelectbox")).to_be_visible()
    assert service.job(job.job_id).state == "running"
    lock.release()


def test_the_keyboard_follows_a_job_and_leaves_whoever_types_alone(
    serve: Callable[[Path], str],
    visit: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    lock = device_lock("cpu")  # so that the job waits
    assert lock is not None
    page = visit(f"{serve(tmp_path / 'home')}/jobs")
    is_whole(page)
    page.locator(".st-key-jobs_run_demo button").focus()
    page.keyboard.press("Enter")
    bar = page.locator("[class*='st-key-job-'] [role=progressbar]")
    expect(bar).to_be_focused()
    page.wait_for_timeout(2500)  # the card is drawn again each second
    expect(bar).to_be_focused()
    page.keyboard.press("Tab")
    cancel = page.get_by_role("button", name=SAY.text("jobs_cancel"))
    expect(cancel).to_be_focused()
    (job,) = service.active_jobs()
    table.end(job.job_id, state="cancelled")
    card = page.locator(f".st-key-job-{job.job_id}")
    expect(card.locator(":focus")).to_have_count(1)
    expect(bar).to_have_count(0)
    resume = card.get_by_role("button", name=SAY.text("jobs_resume"))
    resume.focus()
    page.evaluate("addEventListener('click', () => document.querySelector('input').focus())")
    page.keyboard.press("Enter")
    expect(bar).to_be_visible()
    expect(page.locator("input").first).to_be_focused()
    table.end(job.job_id, state="cancelled")
    lock.release()


def test_a_job_survives_refresh_and_restart_and_a_second_session_stops_it(
    server: Server, visit: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment(server.home).items():
        monkeypatch.setenv(name, value)
    submitted_job = service.submit("demo", n_inputs=LONG)
    page = visit(server.url, may_lose_server=True)
    strip = page.get_by_test_id("stSidebar").locator(".st-key-job_line")
    expect(strip.get_by_text("%")).to_be_visible()
    strip.get_by_role("link").click()
    job_state(page, "running")
    expect(page.locator(".ka-job-chosen")).to_have_count(1)
    assert f"job={submitted_job.job_id}" in page.url

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

    other_page = visit(f"{server.url}/jobs?lang=ja")
    japanese = words_of("ja")
    card = other_page.locator("[class*='st-key-job-']").first
    expect(card).to_contain_text(japanese.text("jobs_state_running"))
    card.get_by_role("button", name=japanese.text("jobs_cancel")).first.click()
    other_page.get_by_role("button", name=japanese.text("jobs_cancel_now")).click()
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
    expect(page.get_by_text(SAY.text("first_running"), exact=True)).to_be_visible()
    leak = page.locator(".ka-verdict.ka-leak_found")
    expect(leak).to_be_visible(timeout=900_000)  # by itself, as soon as there is one
    expect(page.get_by_text(SAY.text("is_demo"))).to_be_visible()
