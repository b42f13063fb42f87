"""The page De-identify: a pasted text, its marks, its replacements, and the settings."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.deid.tagged import MAX_TYPED_CHARS
from audit.home import data_home
from audit.jobs import service
from pages.ui.language import words_of
from tests.pages.screen import open_page, parameter, texts

SAY = words_of("en")
HOSTILE = "<img src=x onerror=alert(1)> ![p](http://evil.example/p.png) **b** "
NOTE = "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。<5 mg/dL"


def open_notes(**query: str) -> AppTest:
    """Open the page with the tagger of rules."""
    return open_page("deidentify", **{"tagger": "rules", **query})


def paste(app: AppTest, text: str) -> AppTest:
    app.text_area(key="deidentify_text").input(text)
    app.button(key="deidentify_go_paste").click().run()
    assert not app.exception
    return app


def sides(app: AppTest) -> tuple[str, str]:
    """Return the note and its released text, as HTML."""
    pair = next(block for block in texts(app).split("\n") if 'class="ka-pair"' in block)
    pair = texts(app)[texts(app).index(pair) :]
    source, released = pair.split("<section>")[1:3]
    return source, released.split("</section>")[0]


def test_an_empty_page_says_what_to_do() -> None:
    app = open_notes()
    assert app.title[0].value == SAY.text("deidentify_title")
    assert SAY.text("deidentify_about_rules").split("“")[0] in texts(app)
    assert 'class="ka-pair"' not in texts(app)
    app.button(key="deidentify_go_paste").click().run()
    assert SAY.text("deidentify_text_missing") in texts(app)
    app = open_notes(view="kept")
    assert SAY.text("deidentify_no_kept") in texts(app)


def test_a_pasted_note_is_marked_and_replaced_at_once() -> None:
    app = paste(open_notes(), NOTE)
    source, released = sides(app)
    assert "高橋健一<small>identifier</small></mark>" in source
    assert "03-1234-5678<small>contact</small></mark>" in source
    assert "&lt;5 mg/dL" in source and "&lt;5 mg/dL" in released
    assert "高橋健一" not in released and "03-1234-5678" not in released
    assert '<mark class="ka-mark ka-mark-flagged">【氏名】</mark>' in released
    assert service.jobs() == ()
    assert not (data_home() / "tagged").exists()
    (line,) = (entry for entry in entries(50) if entry.action == "ran")
    assert dict(line.counts) == {"kind": "tagging", "n_notes": 1, "n_spans": 3}


def test_settings_change_the_replacement_and_stand_in_the_link() -> None:
    app = paste(open_notes(mode="mask"), NOTE)
    assert app.radio(key="deidentify_mode").value == "mask"
    assert "■■■■<small>identifier</small>" in sides(app)[1]
    app.radio(key="deidentify_mode").set_value("surrogate").run()
    assert parameter(app, "mode") == "surrogate"
    first = sides(app)[1]
    assert "高橋健一" not in first and "<small>identifier</small>" in first
    app.number_input(key="deidentify_seed").set_value(7).run()
    assert sides(app)[1] != first
    app.radio(key="deidentify_mode").set_value("placeholder").run()
    assert "【氏名】</mark>" in sides(app)[1]
    assert open_notes(mode="blur", tagger="../x", way="?").radio(key="deidentify_mode").value == (
        "placeholder"
    )


def test_a_type_can_be_left_unmarked() -> None:
    app = paste(open_notes(), NOTE)
    pills = next(p for p in app.button_group if p.key and "types" in p.key)
    assert list(pills.options) == ["identifier (1)", "quasi\\-identifier (1)", "contact (1)"]
    pills.set_value(["contact"]).run()
    source, released = sides(app)
    assert source.count("<mark") == released.count("<mark") == 1
    assert "【氏名】" in released  # it is replaced all the same


def test_hostile_and_long_text_is_shown_as_it_is() -> None:
    app = paste(open_notes(), HOSTILE * 500 + "氏名：高橋健一")
    source, released = sides(app)
    assert source.count("&lt;img src=x onerror") == 500 and "<img" not in source + released
    assert "高橋健一<small>" in source and "高橋健一" not in released
    app = paste(open_notes(), "x" * 60_000)
    assert SAY.text("deidentify_cut", n="10,000") in sides(app)[0]
    assert SAY.text("deidentify_nothing_here") in texts(app)
    app.session_state["deidentify_read"] = "x" * (MAX_TYPED_CHARS + 1)
    app.run()
    assert "has more than 100,000 characters" in texts(app)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_invented_note_is_one_click_away(language: str) -> None:
    app = open_notes(lang=language)
    app.session_state["language"] = language
    app.run()
    app.button(key="deidentify_example").click().run()
    assert not app.exception
    source, released = sides(app)
    name = {"en": "Margaret Ellis", "ja": "高橋美咲"}[language]
    assert f"{name}<small>" in source and name not in released
    assert words_of(language).text("deidentify_about_identifier") in texts(app)
