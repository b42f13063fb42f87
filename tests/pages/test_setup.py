"""The page Models and names through Streamlit's own tester."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from audit.models.registry import VARIABLE
from audit.names.lists import all_names, all_passages, kept_names
from cache.store import Store
from tests.models.make_models import WORDS, make_bert
from tests.pages.screen import keys, open_page, parameter, press, texts

DEMO = {"general": "demo:en/general", "hospital": "demo:en/hospital-40"}
HEADER = "first_name,last_name,is_member\n"


def upload(app: AppTest, data: bytes, *, name: str = "names.csv") -> AppTest:
    app.file_uploader[0].upload(name, data, "text/csv").run()
    assert not app.exception
    return app


def test_an_empty_page_says_what_to_do_next() -> None:
    app = open_page("setup")
    assert app.title[0].value.endswith("?")
    shown = texts(app)
    assert shown.count("Not chosen yet") == 3
    assert "No folder of models is registered yet" in shown
    assert "KART_AUDIT_MODELS" in app.code[0].value
    assert "in cards A and B" in shown
    assert "go_on" not in keys(app)


def test_the_demo_can_be_chosen_by_link_and_leads_to_run() -> None:
    app = open_page("setup", **DEMO, names="demo-en", passages="demo-en")
    shown = texts(app)
    assert shown.count('ka-step ka-is-ready"') == 4
    assert "These two models can be compared" in shown
    assert "Everything is ready for both scenarios" in shown
    press(app, "go_on")
    assert app.title[0].value == "What may the attacker try?"
    assert {name: parameter(app, name) for name in DEMO} == DEMO


def test_models_that_do_not_fit_and_models_that_are_refused_say_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    make_bert(folder / "one")
    make_bert(folder / "two", words=(*WORDS[1:], WORDS[0]))
    (folder / "<b>bad").mkdir()
    (folder / "<b>bad" / "config.json").write_text("{}")
    monkeypatch.setenv(VARIABLE, str(folder))
    app = open_page("setup", general="models/one", hospital="models/two", names="demo-en")
    shown = texts(app)
    assert "These two models cannot be compared" in shown
    assert "different tokenizers" in shown
    assert "models/&lt;b&gt;bad" in shown
    assert "<b>bad" not in shown
    assert "go_on" not in keys(app)
    assert "models/<b>bad" not in app.selectbox(key="setup_general").options
    app.radio(key="language").set_value("ja").run()
    shown = texts(app)
    assert "/config.json：" in shown
    assert "one と two：2つのモデルのトークナイザーが異なります：" in shown
    assert not re.search(r"[a-z]{3,} [a-z]{3,} [a-z]{3,}", re.sub("<[^>]*>", " ", shown))


HARD = (
    HEADER
    + """José,Núñez,1
"Jo ""the"" e","Smith, Jr.",1
NA,None,0
=cmd(),<img src=x>,1
![x](http://evil.example/p.png),**y**,0
"""
)


def test_a_hard_file_is_validated_kept_and_shown_masked(home: Path) -> None:
    app = upload(open_page("setup", **DEMO), HARD.encode("utf-8-sig"))
    assert "Read as UTF-8 with BOM." in texts(app)
    assert "What is new in cards C and D is kept and used when you go on." in texts(app)
    app.toggle(key="draft_show_names").set_value(True).run()
    shown = texts(app)
    assert "evil.example" not in shown and "<img" not in shown
    names = list(app.dataframe[0].value["Name"])
    assert len(names) == 5 and all("***" in name for name in names)
    app.text_input(key="setup_list_title").set_value("Ward <3>").run()
    press(app, "keep_names")
    code = parameter(app, "names")
    with Store(home) as store:
        found = kept_names(code, store=store)
    assert found.line.label == "Ward <3>"
    assert app.selectbox(key="setup_names").value == code
    assert "New; going on keeps it" not in texts(app)


def test_remarks_and_refusals_are_told_by_row() -> None:
    app = upload(open_page("setup"), (HEADER + "Anna,Smith,1\n\nAnna,Smith,1\n").encode())
    assert "The name is that of row 2; left out." in texts(app)
    upload(app, (HEADER + "Anna,Smith\n").encode(), name="Anna Smith.csv")
    shown = texts(app)
    assert "names, row 2: The row has 2 cells where the header has 3." in shown
    assert "Anna" not in shown
    assert "keep_names" not in keys(app)
    app.radio(key="language").set_value("ja").run()
    assert "氏名のリストの2行目：セルの数が 2 個で、見出しの 3 個と合いません。" in texts(app)


def test_a_guessed_kind_of_control_is_said_and_kept_with_the_list(home: Path) -> None:
    guessed = (HEADER + "Anna,Smith,1\nBert,Smith,0\nUdo,Zorn,0\n").encode()
    app = upload(open_page("setup", **DEMO), guessed)
    said = "The list does not say the kind of 2 controls. It was worked out, once,"
    assert said in texts(app)
    assert "1 easy, 1 hard, 0 recombined" in texts(app)
    press(app, "keep_names")
    assert said in texts(app)
    with Store(home) as store:
        found = kept_names(all_names(store)[0].code, store=store).candidates
    assert found.is_kind_guessed == (False, True, True)
    app.radio(key="language").set_value("ja").run()
    assert "対照 2 名の種類がリストに書かれていないため" in texts(app)
    stated = b"name,is_member,control_kind\nAnna Smith,1,\nBert Smith,0,hard\n"
    assert said not in texts(upload(open_page("setup", **DEMO), stated))


def test_a_file_and_drawn_controls_become_a_list(home: Path) -> None:
    app = open_page("setup", **DEMO)
    app.number_input(key="names_draw_easy").set_value(5).run()
    upload(app, b"name\nMary Smith\nAnn Lee\n")
    assert "Controls are drawn against members, and the list has none." in texts(app)
    upload(app, (HEADER + "Mary,Smith,1\nAnn,Lee,1\n").encode())
    app.number_input(key="names_draw_hard").set_value(4).run()
    press(app, "keep_names")
    with Store(home) as store:
        line = all_names(store)[0]
        kept = kept_names(line.code, store=store).candidates
    assert kept.is_member == (True,) * 2 + (False,) * 9
    assert kept.control_kind == ("",) * 2 + ("easy",) * 5 + ("hard",) * 4
    assert app.number_input(key="names_draw_easy").value == 0
    fresh = open_page("setup", **DEMO, names=line.code)
    assert "Everything is ready for scenario 1" in texts(fresh)


def test_passages_are_checked_shown_escaped_and_kept(home: Path) -> None:
    app = open_page("setup", **DEMO, names="demo-en")
    data = b'{"text": "<img src=x> [NAME] came.", "name_id": 0}\n{"text": "nothing here"}\n'
    app.file_uploader[1].upload("Anna Smith.jsonl", data, "application/json").run()
    shown = texts(app)
    assert "1 passages with a place for a name; 1 rows left out; read as UTF-8." in shown
    assert "&lt;img src=x&gt; <mark>name</mark> came." in shown
    assert "The text has no place for a full name; left out." in shown
    press(app, "keep_passages")
    with Store(home) as store:
        assert parameter(app, "passages") == all_passages(store)[0].code
    assert "Anna" not in texts(app)
    broken = open_page("setup")
    broken.file_uploader[1].upload("x.jsonl", b"{", "application/json").run()
    assert "The line is not JSON." in texts(broken)
