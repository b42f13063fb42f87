"""De-identify in a real browser: a pasted note, files by a job, corrections by mouse and keys."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api")
from playwright.sync_api import expect

from audit.deid.sets.incoming_notes import keep_upload
from audit.deid.sets.tagged_sets import TAGGED_SETS
from audit.home import HOME_VARIABLE
from pages.ui.state import words_of
from tests.e2e.screen import drawn, is_whole, press, saved, settle, unfold, upload

JAPANESE = words_of("ja")
NAME = "高橋健一"
HOSTILE = "<img src=x onerror=alert(1)> ![p](http://evil.example/p.png) **b** "
LINE = f"氏名：{NAME}　2024年5月3日 受診。電話 03-1234-5678。特記なし。\n"
# Emoji and a rare character, which are two in a browser and one in Python; a name in kanji.
ASTRAL = f"😀{LINE}😀花子が付き添う。𠮷田花子は妻。Ann saw Annual Ann.\n"
SELECT = """(element, [text, nth]) => {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode()); ) {
    for (let at = node.data.indexOf(text); at >= 0; at = node.data.indexOf(text, at + 1)) {
      if (nth-- > 0) continue;
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + text.length);
      range.startContainer.parentElement.scrollIntoView({ block: "center" });
      const { left, right, top, bottom } = range.getBoundingClientRect();
      return [left, right, (top + bottom) / 2];
    }
  }
}"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deid") / "home"


@pytest.fixture(scope="module")
def url(serve: Callable[[Path], str], home: Path) -> str:
    return serve(home)


def open_page(visit: Callable[..., Any], url: str, query: str = "", **more: str) -> Any:
    page = visit(f"{url}/deidentify?tagger=rules&{query}", **more)
    is_whole(page)
    return page


def paste(page: Any, text: str) -> None:
    if page.locator(".st-key-deidentify_change").count():
        press(page, "deidentify_change")
    page.locator(".st-key-deidentify_text textarea").fill(text)
    press(page, "deidentify_go_paste")
    expect(sheet(page)).to_be_visible()
    settle(page)


def sheet(page: Any) -> Any:
    return drawn(page, ".ka-sheet-text")


def released(page: Any) -> Any:
    return drawn(page, ".ka-released")


def marks(page: Any, text: str) -> Any:
    return sheet(page).locator("mark", has_text=text)


def choose(page: Any, group: str, *, scope: str = "here", say: Any = JAPANESE) -> None:
    """Choose in the panel by mouse, and wait until the page is drawn anew."""
    panel = page.get_by_role("dialog", name=say.text("deidentify_marker_panel"))
    panel.get_by_label(say.text(f"deidentify_scope_{scope}")).check()
    panel.locator(f"[data-group='{group}']").click()
    if scope == "set":
        panel.locator(".ka-panel-sure:enabled").click()
    expect(panel).to_have_count(0)
    settle(page)


def drag(page: Any, text: str, *, nth: int = 0) -> None:
    """Select a text of the note by mouse."""
    left, right, middle = sheet(page).evaluate(SELECT, [text, nth])
    page.mouse.move(left + 1, middle)
    page.mouse.down()
    page.mouse.move(right - 1, middle, steps=4)
    page.mouse.up()


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
    paste(page, LINE + HOSTILE)
    expect(marks(page, NAME)).to_contain_text(say.text("deidentify_group_name"))
    expect(released(page)).to_contain_text("【氏名】")
    expect(released(page)).not_to_contain_text(NAME)
    assert page.locator("img[src=x], img[src*=evil]").count() == 0
    text = saved(page, "deidentify_pasted_file_text", folder=tmp_path).read_text("utf-8")
    assert NAME not in text and "特記なし" in text and "<img src=x" in text
    unfold(page, "deidentify_pasted_private")
    with zipfile.ZipFile(saved(page, "deidentify_pasted_file_brat", folder=tmp_path)) as folder:
        assert NAME in folder.read("1.ann").decode()
    for width in (1024, 720, 390):
        page.set_viewport_size({"width": width, "height": 900})
        is_whole(page)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_the_browser_asks_before_a_text_is_lost(
    url: str, visit: Callable[..., Any], tmp_path: Path
) -> None:
    page, addresses = open_page(visit, url, "lang=ja"), []
    page.on("dialog", lambda dialog: (addresses.append(dialog.type), dialog.accept()))
    page.locator("h1").click()
    page.reload()
    assert addresses == []
    page.locator(".st-key-deidentify_text textarea").click()
    page.keyboard.type("half a note")  # which the server does not know yet
    storage = page.evaluate("JSON.stringify([{ ...localStorage }, { ...sessionStorage }])")
    assert "half" not in storage + page.url
    page.reload()
    assert addresses == ["beforeunload"]
    is_whole(page)
    paste(page, LINE)
    saved(page, "deidentify_pasted_file_text", folder=tmp_path)
    assert addresses == ["beforeunload"]  # a download leaves nothing
    page.reload()
    assert addresses == ["beforeunload"] * 2


def test_marks_are_changed_with_the_mouse(url: str, visit: Callable[..., Any]) -> None:
    page = open_page(visit, url, "lang=ja")
    paste(page, ASTRAL)
    drag(page, "花子")
    choose(page, "name", scope="note")
    expect(marks(page, "花子")).to_have_count(2)
    expect(released(page)).to_contain_text("😀【氏名】が付き添う。𠮷田【氏名】は妻。")
    drag(page, "Ann", nth=1)  # of Annual
    choose(page, "name")
    expect(released(page)).to_contain_text("Ann saw 【氏名】ual Ann.")
    marks(page, "花子").first.click()
    choose(page, "place")
    expect(marks(page, "花子").first).to_contain_text("場所")
    expect(marks(page, "花子").first).to_have_attribute("title", "準識別子")
    expect(released(page)).to_contain_text("😀【場所】が付き添う。𠮷田【氏名】は妻。")
    marks(page, NAME).click()
    choose(page, "")
    expect(released(page)).to_contain_text(f"😀氏名：{NAME}")
    press(page, "deidentify_pasted_undo")
    expect(released(page)).to_contain_text("😀氏名：【氏名】")
    press(page, "deidentify_pasted_undo")
    expect(marks(page, "花子").first).to_contain_text("花子氏名")
    marks(page, NAME).click()
    expect(page.locator(".ka-panel")).to_be_visible()
    page.locator("h1").click()
    expect(page.locator(".ka-panel")).to_have_count(0)


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)])
def test_the_released_text_is_in_the_first_screen_beside_the_note(
    url: str, visit: Callable[..., Any], size: tuple[int, int]
) -> None:
    page = open_page(visit, url, "lang=en")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    text = LINE + "She sleeps well. " * 60
    paste(page, text)
    mark_box = released(page).locator("mark").first.bounding_box()
    note_box, released_box = sheet(page).bounding_box(), released(page).bounding_box()
    assert mark_box["y"] + mark_box["height"] < size[1]
    is_beside = released_box["x"] > note_box["x"] + note_box["width"] - 1
    assert is_beside == (size[0] > 700)
    if is_beside:
        assert abs(released_box["y"] - note_box["y"]) < 3
    above = "(y) => [...document.querySelectorAll('[data-testid=stMain] :is(input, textarea)')]"
    n_above = page.evaluate(
        f"{above}.filter((box) => box.checkVisibility() && box.getBoundingClientRect().bottom < y)"
        ".length",
        note_box["y"],
    )
    assert n_above == 0, "the settings are folded"
    drag(page, "sleeps")
    radio = page.locator(".ka-panel input[value=note]")
    expect(page.locator(".ka-panel")).to_contain_text("(60 places)")
    radio.check()
    expect(page.locator(".ka-panel [data-group=work] output")).to_have_text("60")
    page.locator(".ka-panel [data-group=work]").click()
    expect(marks(page, "sleeps")).to_have_count(60)
    expect(page.locator(".st-key-choice_kinds")).to_contain_text("Work (60)")
    # Neither a setting nor a look at the text loses the note or its corrections.
    unfold(page, "deidentify_settings")
    page.get_by_text(words_of("en").text("deidentify_mode_mask"), exact=True).click()
    expect(marks(page, "sleeps")).to_have_count(60)
    expect(released(page)).to_contain_text("She ■■■■■■")
    press(page, "deidentify_change")
    expect(page.locator(".st-key-deidentify_text textarea")).to_have_value(text)


def test_marks_are_changed_with_the_keyboard_alone(url: str, visit: Callable[..., Any]) -> None:
    page = open_page(visit, url, "lang=en")
    paste(page, ASTRAL)

    def press_keys(*keys: str) -> None:
        for key in keys:
            page.keyboard.press(key)

    def selected() -> str:
        return str(page.evaluate("getSelection().toString()"))

    def focused() -> str:
        return str(page.evaluate("document.activeElement.innerText")).replace("\n", "")

    sheet(page).focus()
    for _ in range(40):
        if selected() == "花子":
            break
        press_keys("ArrowRight")
    press_keys("Shift+ArrowRight")
    assert selected() == "花子が"
    press_keys("Control+Shift+ArrowLeft", "Enter")
    assert focused() == "1Name"
    press_keys(*["Tab"] * 7, "ArrowDown", "1")
    expect(marks(page, "花子")).to_have_count(2)
    expect(released(page)).to_contain_text("😀【氏名】が付き添う。𠮷田【氏名】は妻。")
    settle(page)
    assert focused() == "花子Name"
    press_keys("Enter", "Escape")
    expect(page.locator(".ka-panel")).to_have_count(0)
    assert focused() == "花子Name"
    press_keys("3")
    expect(marks(page, "花子").first).to_contain_text("Place")
    settle(page)
    assert focused() == "花子Place"
    press_keys("Tab")
    assert focused() == "花子Name"
    press_keys(" ", "0")
    expect(marks(page, "花子")).to_have_count(1)
    marks(page, NAME).focus()
    press_keys("ArrowRight", "ArrowRight", "ArrowLeft")
    assert selected() == "2024"
    press_keys("ArrowDown", "ArrowUp", "Enter")
    expect(page.locator(".ka-panel-title")).to_have_text(selected())


def test_many_notes_by_a_job_shown_once_names_are_revealed_and_corrected_in_all(
    url: str, home: Path, visit: Callable[..., Any], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(home))
    for tagged in TAGGED_SETS.all():  # of a try before this one
        TAGGED_SETS.forget(tagged.tagged_id)
    page = open_page(visit, url, "way=upload&lang=ja")
    upload(page, "deidentify_upload", data=notes(300), name="notes.jsonl")
    page.get_by_label(JAPANESE.text("deidentify_name"), exact=True).fill(HOSTILE)
    press(page, "deidentify_go_file")
    steps = page.locator(".st-key-deidentify_steps")
    expect(steps).to_be_visible(timeout=120_000)
    assert HOSTILE.strip()[:20] in page.locator(".st-key-choice_tagged input").input_value()
    press(page, "deidentify_next")
    expect(released(page)).to_contain_text("第1回")
    assert sheet(page).count() == 0
    press(page, "reveal_names")
    press(page, "reveal_now")
    expect(marks(page, NAME)).to_be_visible()
    search = page.locator(".st-key-deidentify_search input")
    search.fill("第298回")
    search.press("Enter")
    expect(page.get_by_text(JAPANESE.text("deidentify_row", row=299))).to_be_visible()
    settle(page)
    drag(page, "特記")
    choose(page, "other", scope="set")
    corrected = JAPANESE.text("deidentify_corrected_n", notes="200 件の記録")
    expect(page.get_by_text(corrected)).to_be_visible()
    expect(released(page)).not_to_contain_text("特記")
    assert page.locator("img[src=x], img[src*=evil]").count() == 0
    data = saved(page, "deidentify_set_file_jsonl", folder=tmp_path).read_text("utf-8")
    assert len(data.splitlines()) == 300 and NAME not in data and "特記" not in data
    # What was corrected is gold: read back, it is what a measurement takes.
    unfold(page, "deidentify_set_private")
    page.get_by_text(JAPANESE.text("deidentify_only_gold", n="200")).click()
    page.wait_for_url("**gold=1**")
    settle(page)
    gold = saved(page, "deidentify_set_file_spans", folder=tmp_path).read_bytes()
    given = keep_upload(gold, name="spans.jsonl", subject="gold notes")
    assert given.n_notes == 200
    census = json.loads(saved(page, "deidentify_set_file_census", folder=tmp_path).read_bytes())
    assert census["n_notes_corrected"] == 200 and "sha256" not in census
    press(page, "deidentify_note_undo")
    expect(released(page)).to_contain_text("特記")
    query = page.url.partition("?")[2].replace("lang=ja", "lang=en")
    again = open_page(visit, url, query, scheme="dark")
    expect(released(again)).to_contain_text("第298回")
    assert sheet(again).count() == 0
    press(again, "deidentify_forget")
    press(again, "deidentify_forget_now")
    expect(again.get_by_text(HOSTILE.strip()[:20])).to_have_count(0)
    assert TAGGED_SETS.all() == ()
