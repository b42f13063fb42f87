"""The page De-identify: a pasted text, its marks, its replacements, and the settings."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.deid.tagged import MAX_TYPED_CHARS
from audit.home import data_home
from audit.jobs import service
from pages.ui.language import words_of
from tests.pages.screen import keys, open_page, parameter, press, texts

SAY = words_of("en")
HOSTILE = "<img src=x onerror=alert(1)> ![p](http://evil.example/p.png) **b** "
NOTE = "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。<5 mg/dL"


def open_notes(**query: str) -> AppTest:
    """Open the page with the tagger of rules."""
    return open_page("deidentify", **{"tagger": "rules", **query})


def paste(app: AppTest, text: str) -> AppTest:
    app.text_area(key="deidentify_text").input(text)
    return press(app, "deidentify_go_paste")


def sides(app: AppTest) -> tuple[str, str]:
    """Return the note and its released text, as HTML."""
    pair = texts(app).split('class="ka-pair"', 1)[1]
    source, released = pair.split("<section>")[1:3]
    return source, released.split("</section>")[0]


def test_a_pasted_note_is_marked_and_replaced_at_once() -> None:
    app = press(open_notes(), "deidentify_go_paste")
    assert SAY.text("deidentify_text_missing") in texts(app)
    source, released = sides(paste(app, NOTE))
    assert "高橋健一<small>identifier</small></mark>" in source
    assert "03-1234-5678<small>contact</small></mark>" in source
    assert "&lt;5 mg/dL" in source and "&lt;5 mg/dL" in released
    assert "高橋健一" not in released and "03-1234-5678" not in released
    assert '<mark class="ka-mark ka-mark-flagged">【氏名】</mark>' in released
    assert service.jobs() == ()
    assert not (data_home() / "tagged").exists()
    (line,) = (entry for entry in entries(50) if entry.action == "ran")
    assert dict(line.counts) == {"kind": "tagging", "n_notes": 1, "n_spans": 3}
    pills = next(p for p in app.button_group if p.key and "types" in p.key)
    assert list(pills.options) == ["identifier (1)", "quasi\\-identifier (1)", "contact (1)"]
    pills.set_value(["contact"]).run()
    source, released = sides(app)
    assert source.count("<mark") == released.count("<mark") == 1
    assert "【氏名】" in released  # it is replaced all the same


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


@pytest.mark.parametrize(("lang", "name"), [("en", "Margaret Ellis"), ("ja", "高橋美咲")])
def test_the_invented_note_is_one_click_away(lang: str, name: str) -> None:
    app = press(open_notes(lang=lang), "deidentify_example")
    source, released = sides(app)
    assert f"{name}<small>" in source and name not in released
    assert words_of(lang).text("deidentify_about_identifier") in texts(app)


PASTED = "deidentify_fix_pasted"


def add(app: AppTest, key: str, text: str, *, label: str = "identifier") -> AppTest:
    app.selectbox(key=f"{key}_type").select(label)
    app.text_input(key=f"{key}_text").input(text)
    return press(app, f"{key}_add")


def test_a_pasted_note_is_corrected_and_the_correction_undone() -> None:
    app = paste(open_notes(), NOTE + HOSTILE)
    add(app, f"{PASTED}_0", "<img src=x", label="linkage_code")
    source, released = sides(app)
    assert "&lt;img src=x<small>linkage code</small></mark>" in source
    assert "【番号】</mark> onerror" in released and "<img" not in texts(app)
    assert "&lt;img src=x · linkage code" in texts(app)  # in the list of corrections
    app.selectbox(key=f"{PASTED}_1_mark").select_index(0).run()
    press(app, f"{PASTED}_1_remove")
    assert "高橋健一<small>" not in sides(app)[0] and "高橋健一" in sides(app)[1]
    app.radio(key="deidentify_mode").set_value("mask").run()
    assert "高橋健一" in sides(app)[1] and "■" in sides(app)[1]  # the corrections stay
    press(app, f"{PASTED}_2_undo")
    assert "高橋健一<small>" in sides(app)[0] and "高橋健一" not in sides(app)[1]
    kinds = [dict(entry.counts).get("kind") for entry in entries(99)]
    assert kinds.count("correction") == 2 and kinds.count("undone-correction") == 1
    paste(app, NOTE)
    assert f"{PASTED}_0_add" in keys(app) and "linkage" not in sides(app)[1]


def test_what_cannot_be_added_is_said() -> None:
    app = add(paste(open_notes(), NOTE), f"{PASTED}_0", "佐藤")
    assert "does not stand in the note" in texts(app) and 'role="alert"' in texts(app)
    add(app, f"{PASTED}_0", "高橋")
    assert "marked already" in texts(app)
    app.radio(key=f"{PASTED}_0_where").set_value("between").run()
    press(app, f"{PASTED}_0_add")
    assert "the end is behind the start" in texts(app)
    app.number_input(key=f"{PASTED}_0_end").set_value(2).run()
    press(app, f"{PASTED}_0_add")
    assert "氏名<small>identifier</small>" in sides(app)[0]
