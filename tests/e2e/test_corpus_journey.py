"""From a hospital's notes to an audit by buttons alone: corpus, training, list, verdict."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.notes.read import VARIABLE
from benchmarks.example_notes import COLUMNS, example_rows

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from pages.ui.language import words_of
from tests.e2e.conftest import Server, command
from tests.e2e.screen import SAY, choose, fill_number, is_whole, job_state, press, unfold
from tests.e2e.test_journey import start

JAPANESE = words_of("ja")
MARKUP = "<img src=x> **bold** ![p](q.png).csv"
BIG = "big.csv"
N_BIG_COPIES = 60
N_STEPS = 60
LONG = 5_000
MORE_STEPS = """n => {
    const found = document.body.innerText.match(/([\\d,]+) of 5,000 steps/);
    return found !== null && Number(found[1].replaceAll(",", "")) > n;
}"""
TITLE = "Ward 7 <img src=y> **bold**"


@pytest.fixture(scope="module", autouse=True)
def notes_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Register a folder with notes of which names and text are markup, for servers of this file."""
    folder = tmp_path_factory.mktemp("notes")
    rows = list(example_rows())[:-1]
    hostile = [
        [*row[:-1], f"<img src=x onerror=alert(1)> ![p](http://evil.example/p.png) {row[-1]}"]
        for row in rows[:20]
    ]
    write_notes(folder / MARKUP, [hostile])
    write_notes(folder / BIG, ([with_patients(r, k) for r in rows] for k in range(N_BIG_COPIES)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield folder


@pytest.fixture(scope="module")
def corpus_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with one corpus of the example's notes, canaries planted."""
    folder = tmp_path_factory.mktemp("corpus")
    write_notes(folder / "notes.csv", [list(example_rows())])
    command(
        folder / "home", "corpus", "build", "--notes", str(folder / "notes.csv"),
        "--canaries", "1,4,16", "--canary-names", "5", "--title", TITLE, "--json",
    )  # fmt: skip
    return folder / "home"


def write_notes(path: Path, parts: Any) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for rows in parts:
            writer.writerows(rows)


def with_patients(row: tuple[str, ...], copy: int) -> list[str]:
    """Return a note as another patient's."""
    return [str(1_000 * copy + int(row[0])), str(1_000 * copy + int(row[1])), *row[2:]]


def chart(page: Any, key: str) -> Any:
    """Return the chart whose key begins so."""
    return page.locator(f"[class*='st-key-{key}'] .js-plotly-plot").first


def open_part(page: Any, part: str) -> None:
    """Open a part of what was found in a corpus."""
    page.get_by_role("tab", name=SAY.text(f"corpus_part_{part}"), exact=True).click()


def plan_training(page: Any, *, n_steps: int, title: str) -> None:
    """Choose the demo's general model and so many steps, on the page Train."""
    expect(page.get_by_role("heading", name=SAY.text("train_title"))).to_be_visible()
    choose(
        page,
        "choice-train-parent",
        option=SAY.text("setup_demo_model", name="general", language="en"),
    )
    name = page.get_by_label(SAY.text("train_set_title"), exact=True)
    name.fill(title)
    name.press("Enter")
    page.locator("[class*='st-key-set-train-length']").get_by_text(
        SAY.text("train_length_steps"), exact=True
    ).click()
    fill_number(page, SAY.text("train_set_n_steps"), value=n_steps)
    unfold(page, "train_details")
    for setting, value in (("batch", 8), ("micro_batch", 8), ("evaluate_every", 5)):
        fill_number(page, SAY.text(f"train_set_{setting}"), value=value)
    plan = page.locator(".st-key-train_plan")
    rows = SAY.text("train_fact_rows", batch=8, n_tokens=128, rate="")
    expect(plan).to_contain_text(rows)
    expect(plan).to_contain_text(re.compile(f"\\b{n_steps:,}\\b"))
    expect(plan).to_contain_text(TITLE)


def test_from_notes_to_a_verdict_by_buttons_alone(
    servers: Callable[[Path], Server], visit: Callable[..., Any], tmp_path: Path
) -> None:
    url = servers(tmp_path / "home").url
    page = visit(f"{url}/corpus")
    expect(page.get_by_text(SAY.text("corpus_empty"))).to_be_visible()
    choose(page, "corpus_file", option=SAY.text("corpus_example_file"))
    expect(page.locator(".ka-document .ka-mark-patient").first).to_be_visible()
    build_with_canaries(page)
    look_at_corpus(page)

    press(page, "corpus_train_go")
    plan_training(page, n_steps=N_STEPS, title="Hospital of ward 7")
    press(page, "train_start")
    expect(chart(page, "train_live_")).to_be_visible(timeout=120_000)
    audit_it = page.locator("[class*='st-key-train_audit_'] button")
    expect(audit_it).to_be_visible(timeout=480_000)
    expect(page.locator(".ka-line.ka-here")).to_contain_text("Hospital of ward 7")
    expect(chart(page, "train_curve_")).to_be_visible()
    is_whole(page)

    audit_it.click()
    expect(page.get_by_role("heading", name=SAY.text("setup_title"))).to_be_visible()
    for card in ("general", "hospital", "names", "passages"):
        expect(page.locator(f".st-key-card_{card}")).to_contain_text(SAY.text("setup_ready"))
    start(page, n_inputs=200)
    card = job_state(page, "done", timeout=480_000)
    expect(card).to_contain_text("general → Hospital of ward 7")
    card.get_by_role("link", name=SAY.text("jobs_open")).click()
    expect(page.locator(".ka-verdict").first).to_contain_text("Hospital of ward 7 against general")
    is_whole(page)
    page.goto(f"{page.url.replace('/first', '/measures').replace('/?', '/measures?')}&tab=canaries")
    expect(chart(page, "measures_canaries")).to_be_visible()
    is_whole(page)


def build_with_canaries(page: Any) -> None:
    """Give a title, plant canaries and build."""
    title = page.get_by_label(SAY.text("corpus_title_field"), exact=True)
    title.fill(TITLE)
    title.press("Enter")
    page.locator(".st-key-corpus_canaries label").first.click()
    fill_number(page, SAY.text("corpus_number_n_canaries"), value=5)
    expect(page.locator(".st-key-corpus_card_settings")).to_contain_text(
        SAY.text("corpus_canaries_need", n=5 * (1 + 2 + 4 + 8))
    )
    press(page, "corpus_build")
    expect(page.get_by_text(SAY.text("corpus_built"), exact=True)).to_be_visible(timeout=120_000)


def look_at_corpus(page: Any) -> None:
    """See coverage, tables 3 and 4, and the list with its canaries."""
    expect(page.get_by_text(TITLE, exact=True).first).to_be_visible()
    expect(page.get_by_text(SAY.text("corpus_form_is_a"), exact=True)).to_be_visible()
    open_part(page, "tables")
    for table in ("patterns", "mentions"):
        expect(chart(page, f"corpus_chart_{table}")).to_be_visible()
    unfold(page, "corpus_chart_mentions_table")
    expect(page.locator(".st-key-corpus_chart_mentions_table table")).to_contain_text("130")
    open_part(page, "names")
    expect(page.get_by_text(SAY.text("corpus_canaries_caption"), exact=True)).to_be_visible()
    is_whole(page)


@pytest.mark.slow
def test_a_training_is_stopped_and_goes_on_where_it_was(
    corpus_home: Path, servers: Callable[[Path], Server], visit: Callable[..., Any], tmp_path: Path
) -> None:
    home = shutil.copytree(corpus_home, tmp_path / "home")
    url = servers(home).url
    page = visit(f"{url}/train")
    plan_training(page, n_steps=LONG, title="A long one")
    press(page, "train_start")
    expect(chart(page, "train_live_")).to_be_visible(timeout=120_000)
    page.get_by_role("link", name=SAY.text("train_see_job")).click()
    stop(page)
    (log,) = home.glob("models/*/losses.jsonl")
    stopped_at = steps_of(log)[-1]
    assert not (log.parent / "model").exists()

    page.goto(f"{url}/train?run={log.parent.name}")
    expect(page.get_by_text(SAY.text("train_unfinished"))).to_be_visible()
    expect(page.locator(f".st-key-train_audit_{log.parent.name}")).to_have_count(0)
    page.get_by_role("link", name=SAY.text("train_see_jobs")).click()
    job_state(page, "cancelled").get_by_role("button", name=SAY.text("jobs_resume")).click()
    job_state(page, "running")
    page.goto(f"{url}/train?run={log.parent.name}")
    expect(chart(page, "train_live_")).to_be_visible()
    page.wait_for_function(MORE_STEPS, arg=stopped_at, timeout=180_000)
    page.goto(f"{url}/jobs")
    stop(page)
    steps = steps_of(log)
    assert steps[-1] > stopped_at
    assert steps == sorted(set(steps))


def stop(page: Any) -> None:
    """Stop the job that runs, on the page Jobs."""
    card = job_state(page, "running")
    card.get_by_role("button", name=SAY.text("jobs_cancel")).first.click()
    page.get_by_role("button", name=SAY.text("jobs_cancel_now")).click()
    job_state(page, "cancelled", timeout=60_000)


def steps_of(log: Path) -> list[int]:
    """Return the steps of which a training's log tells."""
    return [json.loads(line)["step"] for line in log.read_text(encoding="utf-8").splitlines()]


def test_a_build_that_is_stopped_leaves_nothing(
    servers: Callable[[Path], Server], visit: Callable[..., Any], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    page = visit(f"{servers(home).url}/corpus")
    choose(page, "corpus_file", option=BIG)
    press(page, "corpus_build")
    expect(page.locator("[class*='st-key-corpus-job-']")).to_contain_text(
        SAY.text("jobs_state_running")
    )
    page.get_by_role("link", name=SAY.text("corpus_see_job")).click()
    stop(page)
    expect(page.get_by_text(SAY.text("jobs_cancelled_why_corpus"))).to_be_visible()
    assert [path for path in (home / "corpora").glob("*") if not path.name.startswith(".")] == []
    assert list(home.rglob("private.jsonl*")) == []
    page.get_by_test_id("stSidebarNavLink").filter(has_text=SAY.text("corpus_link")).click()
    expect(page.get_by_text(SAY.text("corpus_empty"))).to_be_visible()
    is_whole(page)


def test_markup_in_a_file_name_and_a_note_is_shown_as_it_is(
    corpus_home: Path, serve: Callable[[Path], str], visit: Callable[..., Any]
) -> None:
    page = visit(f"{serve(corpus_home)}/corpus?view=build&lang=ja")
    choose(page, "corpus_file", option=MARKUP)
    texts = page.locator(".ka-document")
    expect(texts).to_have_count(2)
    for i in range(2):
        expect(texts.nth(i)).to_contain_text("<img src=x onerror=alert(1)> ![p](http://evil")
    assert MARKUP in page.locator(".st-key-corpus_file input").input_value()
    press(page, "corpus_build")
    built = page.get_by_text(JAPANESE.text("corpus_built"), exact=True)
    expect(built).to_be_visible(timeout=120_000)
    expect(page.get_by_role("heading", name=MARKUP, exact=True)).to_be_visible()
    is_whole(page)
    press(page, "corpus_train_go")
    expect(page.get_by_role("heading", name=JAPANESE.text("train_title"))).to_be_visible()
    assert MARKUP in page.locator("[class*='st-key-choice-train-corpus'] input").input_value()
    is_whole(page)
    page.goto(f"{page.url.split('/train')[0]}/jobs?lang=ja")
    expect(page.locator("[class*='st-key-job-']").first).to_contain_text(MARKUP)
    assert page.locator("img[src*=evil], img[src=x], img[src='q.png']").count() == 0
