"""De-identifiers measured in a real browser: the example, a click on a cell, a comparison."""

from __future__ import annotations

import contextlib
import csv
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import expect

from audit.deid.measure.score_report import SCORES
from audit.home import HOME_VARIABLE
from audit.notes.formats import write_jsonl
from tests.deid.make_scores import gold_notes, make_score, predicted_notes
from tests.e2e.screen import SAY, is_whole, press, saved, upload

HOSTILE = "<img src=x onerror=alert(1)> **bold** ![p](http://evil.example/p.png)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data directory with two scores on the same gold notes."""
    folder = tmp_path_factory.mktemp("scores") / "home"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HOME_VARIABLE, str(folder))
        golds = gold_notes(24)
        make_score(golds, predicted_notes(golds), title="the first")
        make_score(golds, predicted_notes(golds, step=4), title=f"other {HOSTILE}"[:80])
        yield folder


@pytest.fixture(scope="module")
def address(home: Path, serve: Callable[[Path], str]) -> str:
    return f"{serve(home)}/deidentify?tab=measures"


def reveal(page: Any) -> None:
    press(page, "reveal_names")
    press(page, "reveal_now")
    expect(page.locator(".st-key-hide_names")).to_be_visible()


def choose_cell(page: Any, name: str) -> None:
    """Choose a cell in the box; a list that opens while the page is drawn anew closes again."""
    is_whole(page)
    option = page.get_by_role("option", name=name).first
    for seconds in (5, 10, 20):
        page.locator(".st-key-choice_cell input").click()
        with contextlib.suppress(PlaywrightTimeout):
            option.click(timeout=seconds * 1000)
            return
        page.keyboard.press("Escape")
    expect(option).to_be_visible()


def test_a_click_on_a_cell_shows_its_spans(
    home: Path, address: str, visit: Callable[..., Any]
) -> None:
    first = next(score for score in SCORES.all() if score.title == "the first")
    page = visit(f"{address}&part=matrix&score={first.score_id}")
    is_whole(page)
    grid = page.locator("[class*='st-key-deid_measures_matrix_'] canvas").first
    grid.click(position={"x": 400, "y": 87}, force=True)  # second row, second column of counts
    page.wait_for_url(re.compile("cell=1-1"))
    expect(page.locator(".ka-pair").first).to_contain_text("hidden")
    reveal(page)
    expect(page.locator(".ka-pair mark").first).to_contain_text("歳")
    choose_cell(page, "Identifier as Missed")
    page.wait_for_url(re.compile("cell=0-4"))
    expect(page.locator(".ka-pair mark").first).to_contain_text("山田太郎")


def test_misses_are_filtered_handed_out_and_read_back(
    home: Path, address: str, visit: Callable[..., Any], tmp_path: Path
) -> None:
    first = next(score for score in SCORES.all() if score.title == "the first")
    page = visit(f"{address}&part=misses&kinds=missed&score={first.score_id}")
    is_whole(page)
    closed = saved(page, "deid_measures_misses_every_missed_csv", folder=tmp_path)
    assert "山田" not in closed.read_text(encoding="utf-8-sig")
    reveal(page)
    opened = saved(page, "deid_measures_misses_every_missed_csv", folder=tmp_path)
    rows = list(csv.DictReader(opened.read_text(encoding="utf-8-sig").splitlines()))
    assert len(rows) == 8 and {row["kind"] for row in rows} == {"missed"}
    assert rows[0]["gold_text"] == "山田太郎"


def test_hostile_files_are_refused_and_gold_spans_are_measured_as_a_job(
    home: Path, address: str, visit: Callable[..., Any]
) -> None:
    page = visit(f"{address}&show=new")
    is_whole(page)
    page.get_by_role("radio", name=SAY.text("deid_measures_from_gold_given"), exact=True).click()
    upload(page, "deid_score_file_gold", data=b"\x00\xff" * 50, name="a.jsonl")
    expect(page.locator(".ka-refused")).to_be_visible()
    golds = [
        json.loads(line) | {"text": json.loads(line)["text"] + HOSTILE}
        for line in write_jsonl(gold_notes(8)).splitlines()
    ]
    golds[0]["spans"].append({"start": 0, "end": 2, "label": "<img_src=x>"})
    data = "".join(json.dumps(gold) + "\n" for gold in golds).encode()
    upload(page, "deid_score_file_gold", data=data, name="b.jsonl")
    expect(page.get_by_text("8 notes, 33 spans")).to_be_visible()
    expect(page.locator(".ka-refused")).to_contain_text("<img_src=x>")  # none of the five types
    page.locator(".st-key-deid_measures_five_types label").first.click()
    expect(page.locator(".ka-refused")).to_have_count(0)
    page.locator(".st-key-deid_measures_score_title input").fill("asked for here")
    press(page, "deid_measures_start")
    expect(page.get_by_text("identifiers (full names above all)")).to_be_visible(timeout=90_000)
    page.get_by_role("radio", name=SAY.text("deid_measures_part_matrix"), exact=True).click()
    expect(page.get_by_text("<img_src=x>").first).to_be_visible()
    is_whole(page)
