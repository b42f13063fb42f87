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
    press,
    saved,
    unfold,
    upload,
)

NAMES = (DEMO_HOSPITAL / "en" / "names.csv").read_bytes()
PASSAGES = (DEMO_HOSPITAL / "en" / "passages.jsonl").read_bytes()
N_INPUTS = 300


def set_up(page: Any) -> None:
    """Choose the pair, and give names and passages, on the page New audit."""
    is_whole(page)
    choose(page, "pick_general", option="models/general")
    choose(page, "pick_hospital", option="models/hospital-40")
    expect(page.locator(".st-key-audit_models")).to_contain_text(SAY.text("step_ready"))
    upload(page, "names_file", data=NAMES)
    expect(page.locator(".st-key-audit_names")).to_contain_text(SAY.text("audit_draft"))
    unfold(page, "new_passages")
    upload(page, "names_passages", data=PASSAGES, name="passages.jsonl")
    press(page, "keep_passages")  # which keeps the names too
    expect(page.locator(".st-key-audit_names")).to_contain_text(SAY.text("step_ready"))


def start(page: Any, *, n_inputs: int = N_INPUTS) -> str:
    """Start a short audit of scenario 2 and wait for its verdict; return the page's address."""
    unfold(page, "settings")
    fill_number(page, SAY.text("audit_set_n_inputs"), value=n_inputs)
    fill_number(page, SAY.text("audit_set_n_chain_inputs"), value=0)
    expect(page.locator(".st-key-audit_plan")).to_contain_text(f"{n_inputs:,} inputs.")
    address = str(page.url)
    press(page, "start")
    expect(page.locator("[class*='st-key-audit-job-']")).to_be_visible()
    verdict = page.get_by_role("heading", name=SAY.text("verdict_title"))
    expect(verdict).to_be_visible(timeout=480_000)
    is_whole(page)
    return address


def test_from_two_directories_and_a_csv_to_a_signed_report(
    servers: Callable[[Path], Server], visit: Callable[..., Any], tmp_path: Path
) -> None:
    server = servers(tmp_path / "home")
    page = visit(f"{server.url}/audit")
    set_up(page)
    started_job = start(page)
    expect(page.locator(".ka-verdict").first).to_contain_text(
        "40 epochs of the notes against General model"
    )
    digest = page.url.split("audit=")[1][:12]

    page.goto(f"{server.url}/?audit={digest}&report=true")
    expect(page.locator(".st-key-report_preview")).to_be_visible()
    preview = page.frame_locator(".st-key-report_preview iframe").locator("body")
    expect(preview).to_contain_text(digest)
    bundle = zipfile.ZipFile(saved(page, "report_zip", folder=tmp_path))
    assert any(name.endswith("/log_seal.txt") for name in bundle.namelist())
    html = bundle.read(next(n for n in bundle.namelist() if n.endswith("report.html"))).decode()
    assert "<script" not in html
    assert digest in html
    measured = read_json(bundle, "measures.json")

    page.goto(started_job)
    is_whole(page)
    unfold(page, "command_details")
    names = saved(page, "names_csv", folder=tmp_path)
    passages = saved(page, "passages_jsonl", folder=tmp_path)
    process = command(
        server.home,
        "run",
        "--scenario",
        "2",
        "--general",
        str(DEMO_HOSPITAL / "en/models/general"),
        "--hospital",
        str(DEMO_HOSPITAL / "en/models/hospital-40"),
        "--names",
        str(names),
        "--passages",
        str(passages),
        "--inputs",
        str(N_INPUTS),
        "--chain-inputs",
        "0",
        "--out",
        str(tmp_path / "out"),
        "--json",
    )
    assert json.loads(process.stdout)["digest"].startswith(digest)
    measures = json.loads((tmp_path / "out" / "measures.json").read_text())
    assert measures.keys() == measured.keys()
    for key in measures.keys() - {"details"}:  # a report with masked names leaves out passages' ids
        assert measures[key] == measured[key], key


def read_json(bundle: zipfile.ZipFile, name: str) -> Any:
    return json.loads(bundle.read(next(n for n in bundle.namelist() if n.endswith(name))))
