"""From a hospital's notes to an audit by buttons alone: corpus, training, list, verdict."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.notes.read import VARIABLE
from benchmarks.example_notes import COLUMNS, example_rows

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from pages.ui.display_names import model_name
from pages.ui.state import words_of
from tests.e2e.conftest import Server
from tests.e2e.screen import SAY, choose, fill_number, is_whole, press, unfold
from tests.e2e.test_journey import start

JAPANESE = words_of("ja")
MARKUP = "<img src=x> **bold** ![p](q.png).csv"
NOTE_MARKUP, NOTE_ADDRESS = "<img src=x onerror=alert(1)> ![p]", "http://evil.example/p.png"
NOTE_HEAD = f"{NOTE_MARKUP}({NOTE_ADDRESS})"
N_STEPS = 60
TITLE = "Ward 7 <img src=y> **bold**"


@pytest.fixture(scope="module", autouse=True)
def notes_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Register a folder with notes of which names and text are markup, for servers of this file."""
    folder = tmp_path_factory.mktemp("notes")
    rows = list(example_rows())[:20]
    with (folder / MARKUP).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(
            [COLUMNS, *([*row[:-1], f"{NOTE_HEAD} {row[-1]}"] for row in rows)]
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield folder


def chart(page: Any, key: str) -> Any:
    """Return the chart whose key begins so."""
    return page.locator(f"[class*='st-key-{key}'] .js-plotly-plot").first


def plan_training(page: Any, *, title: str) -> None:
    """Choose the demo's general model and so many steps."""
    expect(page.get_by_role("heading", name=SAY.text("train_new"))).to_be_visible()
    general = model_name(SAY, "demo:en/general")
    choose(page, "pick_parent", option=general)
    name = page.get_by_label(SAY.text("train_title"), exact=True)
    name.fill(title)
    name.press("Enter")
    fill_number(page, SAY.text("train_set_n_epochs"), value="")
    fill_number(page, SAY.text("train_set_n_steps"), value=N_STEPS)
    unfold(page, "train_details")
    for setting, value in (("batch", 8), ("micro_batch", 8), ("evaluate_every", 5)):
        fill_number(page, SAY.text(f"train_set_{setting}"), value=value)
    plan = page.locator(".st-key-train_plan")
    rows = SAY.text("train_fact_rows", batch=8, n_tokens=128, rate="")
    expect(plan).to_contain_text(rows)
    expect(plan).to_contain_text(re.compile(f"\\b{N_STEPS}\\b"))
    expect(plan).to_contain_text(TITLE)


def test_from_notes_to_a_verdict_by_buttons_alone(
    servers: Callable[[Path], Server], visit: Callable[..., Any], tmp_path: Path
) -> None:
    url = servers(tmp_path / "home").url
    page = visit(f"{url}/workshop?tab=corpus")
    expect(page.get_by_text(SAY.text("corpus_empty"))).to_be_visible()
    choose(page, "pick_notes", option=SAY.text("called_example_file"))
    expect(page.locator(".ka-document .ka-mark-patient").first).to_be_visible()
    build_with_canaries(page)
    look_at_corpus(page)

    press(page, "corpus_train_go")
    plan_training(page, title="Hospital of ward 7")
    press(page, "train_start")
    expect(chart(page, "train_curve")).to_be_visible(timeout=120_000)
    audit_it = page.locator("[class*='st-key-train_audit_'] button")
    expect(audit_it).to_be_visible(timeout=480_000)
    expect(page.locator(".ka-line.ka-here")).to_contain_text("Hospital of ward 7")
    is_whole(page)

    audit_it.click()
    for card in ("models", "names"):
        expect(page.locator(f".st-key-audit_{card}")).to_contain_text(SAY.text("step_ready"))
    start(page, n_inputs=200)
    expect(page.locator(".ka-verdict").first).to_contain_text("Hospital of ward 7 against general")
    page.goto(f"{url}/measures?tab=checks&check=canaries")
    expect(chart(page, "measures_canaries")).to_be_visible()
    is_whole(page)


def build_with_canaries(page: Any) -> None:
    """Give a title, plant canaries and build."""
    title = page.get_by_label(SAY.text("corpus_title"), exact=True)
    title.fill(TITLE)
    title.press("Enter")
    page.locator(".st-key-corpus_canaries label").first.click()
    fill_number(page, SAY.text("corpus_number_n_canaries"), value=5)
    expect(page.locator(".st-key-corpus_step_settings")).to_contain_text(
        SAY.text("corpus_canaries_need", n=5 * (1 + 2 + 4 + 8))
    )
    press(page, "corpus_build")
    expect(page.get_by_text(SAY.text("corpus_built"), exact=True)).to_be_visible(timeout=120_000)


def look_at_corpus(page: Any) -> None:
    """See coverage, tables 3 and 4, and the list with its canaries."""
    expect(page.get_by_text(TITLE, exact=True).first).to_be_visible()
    expect(page.get_by_text(SAY.text("corpus_form_is_a"), exact=True)).to_be_visible()
    page.get_by_role("tab", name=SAY.text("corpus_part_tables"), exact=True).click()
    for table in ("patterns", "mentions"):
        expect(chart(page, f"corpus_table_{table}")).to_be_visible()
    unfold(page, "corpus_table_mentions_as_table")
    expect(page.locator(".st-key-corpus_table_mentions_as_table table")).to_contain_text("130")
    page.get_by_role("tab", name=SAY.text("corpus_part_names"), exact=True).click()
    expect(page.get_by_text(SAY.text("corpus_canaries_caption"), exact=True)).to_be_attached()
    is_whole(page)


def test_markup_in_a_file_name_and_a_note_is_shown_as_it_is(
    serve: Callable[[Path], str], visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = visit(f"{serve(tmp_path / 'home')}/workshop?tab=corpus&lang=ja")
    choose(page, "pick_notes", option=MARKUP)
    texts = page.locator(".ka-document")
    expect(texts).to_have_count(2)
    for i in range(2):
        expect(texts.nth(i)).to_contain_text(NOTE_MARKUP)
        # Contacts in notes are masked.
        expect(texts.nth(i)).not_to_contain_text(NOTE_ADDRESS)
    assert MARKUP in page.locator(".st-key-pick_notes input").input_value()
    press(page, "corpus_build")
    built = page.get_by_text(JAPANESE.text("corpus_built"), exact=True)
    expect(built).to_be_visible(timeout=120_000)
    expect(page.get_by_role("heading", name=MARKUP, exact=True)).to_be_visible()
    is_whole(page)
    press(page, "corpus_train_go")
    expect(page.get_by_role("heading", name=JAPANESE.text("train_new"))).to_be_visible()
    assert MARKUP in page.locator(".st-key-pick_corpus input").input_value()
    is_whole(page)
    page.goto(f"{page.url.split('/workshop')[0]}/jobs?lang=ja")
    expect(page.locator("[class*='st-key-job-']").first).to_contain_text(MARKUP)
    assert page.locator("img[src*=evil], img[src=x], img[src='q.png']").count() == 0
