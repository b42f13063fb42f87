"""A new user: two model directories and a CSV, and by buttons alone a report that can be signed."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from audit.home import DEMO_HOSPITAL

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from tests.e2e.conftest import Server, command
from tests.e2e.screen import (
    SAY,
    choose,
    fill_number,
    is_whole,
    job_state,
    press,
    saved,
    unfold,
    upload,
)

NAMES = (DEMO_HOSPITAL / "en" / "names.csv").read_bytes()
PASSAGES = (DEMO_HOSPITAL / "en" / "passages.jsonl").read_bytes()
N_INPUTS = 300


@pytest.fixture(scope="module")
def server(servers: Callable[[Path], Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    return servers(tmp_path_factory.mktemp("journey") / "home")


def set_up(page: Any, url: str) -> None:
    """Choose the pair and keep names and passages, on the page Models and names."""
    page.goto(f"{url}/setup")
    is_whole(page)
    choose(page, "setup_general", option="models/general")
    choose(page, "setup_hospital", option="models/hospital-40")
    expect(page.locator(".st-key-card_hospital")).to_contain_text(SAY.text("setup_ready"))
    upload(page, "names_file", data=NAMES)
    page.get_by_label(SAY.text("setup_list_title"), exact=True).fill("Ward 7")
    press(page, "keep_names")
    expect(page.locator(".st-key-card_names")).to_contain_text(SAY.text("setup_ready"))
    unfold(page, "new_passages")
    upload(page, "passages_file", data=PASSAGES, name="passages.jsonl")
    press(page, "keep_passages")
    expect(page.locator(".st-key-card_passages")).to_contain_text(SAY.text("setup_ready"))


def start(page: Any, *, n_inputs: int = N_INPUTS) -> str:
    """Start a short audit of scenario 2 from the page Run; return the address of that page."""
    press(page, "go_on")
    expect(page.get_by_role("heading", name=SAY.text("run_title"))).to_be_visible()
    unfold(page, "run_details")
    fill_number(page, SAY.text("run_set_n_inputs"), value=n_inputs)
    fill_number(page, SAY.text("run_set_n_chain_inputs"), value=0)
    expect(page.locator(".st-key-run_plan")).to_contain_text(f"{n_inputs:,}")
    address = str(page.url)
    press(page, "start")
    expect(page.get_by_role("heading", name=SAY.text("jobs_title"))).to_be_visible()
    return address


def test_going_on_keeps_what_was_uploaded(server: Server, visit: Callable[..., Any]) -> None:
    page = visit(f"{server.url}/setup?general=demo:en/general&hospital=demo:en/hospital-40")
    is_whole(page)
    upload(page, "names_file", data=b"first_name,last_name,is_member\nAnn,Lee,1\nBo,Lee,0\n")
    card = page.locator(".st-key-card_names")
    expect(card).to_contain_text(SAY.text("setup_new"))
    expect(card).to_contain_text("The list does not say the kind of 1 controls.")
    press(page, "go_on")
    expect(page.get_by_role("heading", name=SAY.text("run_title"))).to_be_visible()
    expect(page.locator(".st-key-run_plan")).to_contain_text("2 names")


def test_from_two_directories_and_a_csv_to_a_signed_report(
    servers: Callable[[Path], Server], visit: Callable[..., Any], tmp_path: Path
) -> None:
    server = servers(tmp_path / "home")
    page = visit(server.url)
    expect(page.get_by_text(SAY.text("empty"))).to_be_visible()
    set_up(page, server.url)
    run_page = start(page)
    card = job_state(page, "done", timeout=480_000)
    card.get_by_role("link", name=SAY.text("jobs_open")).click()
    expect(page.locator(".ka-verdict").first).to_contain_text("hospital-40 against general")
    is_whole(page)
    digest = page.url.split("audit=")[1][:12]
    for name in ("names", "measures", "documents", "method"):
        page.goto(f"{server.url}/{name}?audit={digest}")
        is_whole(page)

    page.goto(f"{server.url}/report?audit={digest}")
    is_whole(page)
    page.get_by_label(SAY.text("report_auditor"), exact=True).fill("A. Auditor")
    page.get_by_label(SAY.text("report_auditor"), exact=True).press("Enter")
    preview = page.frame_locator(".st-key-report_preview iframe").locator("body")
    expect(preview).to_contain_text("A. Auditor")
    bundle = zipfile.ZipFile(saved(page, "report_zip", folder=tmp_path))
    assert any(name.endswith("/log_seal.txt") for name in bundle.namelist())
    html = bundle.read(next(n for n in bundle.namelist() if n.endswith("report.html"))).decode()
    assert "<script" not in html
    assert "A. Auditor" in html
    assert digest in html
    measured = read_json(bundle, "measures.json")

    page.goto(run_page)
    is_whole(page)
    unfold(page, "run_command")
    names = saved(page, "names_download", folder=tmp_path)
    passages = saved(page, "passages_download", folder=tmp_path)
    done = command(
        server.home, "run", "--scenario", "2",
        "--general", str(DEMO_HOSPITAL / "en/models/general"),
        "--hospital", str(DEMO_HOSPITAL / "en/models/hospital-40"), "--names", str(names),
        "--passages", str(passages), "--inputs", str(N_INPUTS), "--chain-inputs", "0",
        "--out", str(tmp_path / "out"), "--json",
    )  # fmt: skip
    assert json.loads(done.stdout)["digest"].startswith(digest)
    found = json.loads((tmp_path / "out" / "measures.json").read_text())
    assert found.keys() == measured.keys()
    for key in found.keys() - {"details"}:  # a report with masked names leaves out passages' ids
        assert found[key] == measured[key], key


def read_json(bundle: zipfile.ZipFile, name: str) -> Any:
    return json.loads(bundle.read(next(n for n in bundle.namelist() if n.endswith(name))))
