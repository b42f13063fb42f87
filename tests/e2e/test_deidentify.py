"""De-identify in a real browser: a pasted note, a hostile one, files by a job, corrections."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from pages.ui.language import words_of
from tests.e2e.screen import is_whole, press, saved, unfold, upload

JAPANESE = words_of("ja")
NAME = "高橋健一"
HOSTILE = "<img src=x onerror=alert(1)> ![p](http://evil.example/p.png) **b** "
LINE = f"氏名：{NAME}　2024年5月3日 受診。電話 03-1234-5678。特記なし。\n"


@pytest.fixture(scope="module")
def url(serve: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    return serve(tmp_path_factory.mktemp("deid") / "home")


def open_page(visit: Callable[..., Any], url: str, query: str = "", **more: str) -> Any:
    page = visit(f"{url}/deidentify?tagger=rules&{query}", **more)
    is_whole(page)
    return page


def released(page: Any) -> Any:
    return page.locator(".ka-pair section").nth(1)


def notes(n: int) -> bytes:
    records = (
        {"doc_id": f"{HOSTILE}{i}", "text": f"第{i}回 {HOSTILE}{LINE}" if i % 3 else "無"}
        for i in range(n)
    )
    return "\n".join(json.dumps(record, ensure_ascii=False) for record in records).encode()


@pytest.mark.parametrize(("language", "scheme"), [("ja", "light"), ("en", "dark")])
def test_a_pasted_note_is_marked_replaced_and_downloaded(
    url: str, visit: Callable[..., Any], tmp_path: Path, language: str, scheme: str
) -> None:
    say = words_of(language)
    page = open_page(visit, url, f"lang={language}", scheme=scheme)
    page.locator(".st-key-deidentify_text textarea").fill(LINE + HOSTILE)
    press(page, "deidentify_go_paste")
    mark = page.locator(".ka-pair section").first.locator("mark").first
    expect(mark).to_contain_text(NAME + say.text("deidentify_type_identifier"))
    expect(released(page)).to_contain_text("【氏名】")
    expect(released(page)).not_to_contain_text(NAME)
    assert page.locator("img[src=x], img[src*=evil]").count() == 0
    text = saved(page, "deidentify_pasted_file_text", folder=tmp_path).read_text("utf-8")
    assert NAME not in text and "特記なし" in text and "<img src=x" in text
    unfold(page, "deidentify_pasted_private")
    with zipfile.ZipFile(saved(page, "deidentify_pasted_file_brat", folder=tmp_path)) as folder:
        assert NAME in folder.read("1.ann").decode()
    page.set_viewport_size({"width": 820, "height": 1000})
    is_whole(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_many_notes_by_a_job_shown_once_names_are_revealed(
    url: str, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page = open_page(visit, url, "way=upload&lang=ja")
    upload(page, "deidentify_upload", data=notes(300), name="notes.jsonl")
    page.get_by_label(JAPANESE.text("deidentify_name"), exact=True).fill(HOSTILE)
    press(page, "deidentify_go_file")
    steps = page.locator(".st-key-deidentify_steps")
    expect(steps).to_be_visible(timeout=120_000)
    assert HOSTILE.strip()[:20] in page.locator(".st-key-deidentify_kept input").input_value()
    press(page, "deidentify_next")
    expect(released(page)).to_contain_text("第1回")
    expect(page.locator(".st-key-deidentify_set_file_brat button")).to_be_disabled()
    press(page, "reveal_names")
    press(page, "reveal_now")
    expect(page.locator(".ka-pair section").first.locator("mark", has_text=NAME)).to_be_visible()
    search = page.locator(".st-key-deidentify_search input")
    search.fill("第298回")
    search.press("Enter")
    expect(page.get_by_text(JAPANESE.text("deidentify_row", row=299))).to_be_visible()
    is_whole(page)
    assert page.locator("img[src=x], img[src*=evil]").count() == 0
    data = saved(page, "deidentify_set_file_jsonl", folder=tmp_path).read_text("utf-8")
    assert len(data.splitlines()) == 300 and NAME not in data
    query = page.url.partition("?")[2].replace("lang=ja", "lang=en")
    again = open_page(visit, url, query, scheme="dark")
    expect(released(again)).to_contain_text("第298回")
    expect(again.locator("mark", has_text=NAME)).to_have_count(0)
    press(again, "deidentify_forget")
    press(again, "deidentify_forget_now")
    expect(again.get_by_text(HOSTILE.strip()[:20])).to_have_count(0)


@pytest.mark.parametrize(("language", "scheme"), [("ja", "light"), ("en", "dark")])
def test_several_files_are_one_set_and_a_missed_name_is_added_by_hand(
    url: str, visit: Callable[..., Any], tmp_path: Path, language: str, scheme: str
) -> None:
    say = words_of(language)
    page = open_page(visit, url, f"way=upload&lang={language}", scheme=scheme)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as folder:
        folder.writestr("ward/a.txt", f"{LINE}花子が付き添う。花子は妻。{language}")
        folder.writestr("ward/b.txt", "特記なし。")
    upload(page, "deidentify_upload", data=archive.getvalue(), name="notes.zip")
    press(page, "deidentify_go_file")
    expect(released(page)).to_contain_text("花子は妻", timeout=120_000)
    assert page.locator("[class*='st-key-deidentify_fix']").count() == 0
    press(page, "reveal_names")
    press(page, "reveal_now")
    text = page.get_by_label(say.text("deidentify_fix_text"), exact=True)
    expect(text).to_be_visible()
    is_whole(page)
    text.fill("花子")
    text.press("Enter")
    is_whole(page)
    page.get_by_role("button", name=say.text("deidentify_fix_add"), exact=True).click()
    undo = page.get_by_role("button", name=say.text("deidentify_fix_undo"))
    expect(undo).to_be_visible()
    expect(released(page)).not_to_contain_text("花子")
    is_whole(page)
    data = saved(page, "deidentify_set_file_jsonl", folder=tmp_path).read_text("utf-8")
    assert "花子" not in data and "は妻" in data
    census = json.loads(saved(page, "deidentify_set_file_census", folder=tmp_path).read_bytes())
    assert census["n_notes_corrected"] == 1 and "sha256" not in census
    undo.click()
    expect(released(page)).to_contain_text("花子は妻")
