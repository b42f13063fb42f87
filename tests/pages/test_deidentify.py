"""The page De-identify: a pasted text, its marks, its replacements, and the settings."""

from __future__ import annotations

import html
import json
from time import perf_counter
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.deid.find.taggers import load_tagger
from audit.deid.redact.release import Release
from audit.deid.sets.tagged_sets import MAX_TYPED_CHARS, tag_text
from audit.home import data_home
from audit.jobs import service
from pages.ui.state import words_of
from tests.pages.screen import downloads, keys, open_page, parameter, press, texts, widget

SAY = words_of("en")
PAGE_OF_TEXT = (
    "Dr. Anna Kowalski saw him in Boston on 03/14/2024; MRN 4471902. He feels well. " * 37
)
HOSTILE = "<img src=x onerror=alert(1)> ![p](http://evil.example/p.png) **b** "
NOTE = "氏名：高橋健一　2024年5月3日 受診。電話 03-1234-5678。<5 mg/dL"


def open_notes(**query: str) -> AppTest:
    """Open the page with the tagger of rules."""
    return open_page("deidentify", **{"tagger": "rules", **query})


def paste(app: AppTest, text: str) -> AppTest:
    if "deidentify_change" in keys(app):
        press(app, "deidentify_change")
    app.text_area(key="deidentify_text").input(text)
    return press(app, "deidentify_go_paste")


def released(app: AppTest) -> str:
    """Return the released text, as HTML."""
    return texts(app).split('ka-released">', 1)[1].split("</p>")[0]


def sheet(app: AppTest) -> dict[str, Any]:
    """Return what the component is given: the note and its marks."""
    (component,) = app.get("bidi_component")
    content: dict[str, Any] = json.loads(component.proto.json)
    return content


def marks(app: AppTest) -> list[tuple[str, str]]:
    """Return text and kind of the visible marks of the note, cut as Python counts."""
    component = sheet(app)
    return [
        (component["text"][start:end], group)
        for start, end, group, *_, is_shown in component["marks"]
        if is_shown
    ]


def correct(
    app: AppTest,
    text: str,
    *,
    group: str = "name",
    scope: str = "note",
    key: str = "deidentify_pasted",
) -> AppTest:
    """Correct by typing the text: what the component does too, in a browser."""
    app.text_input(key=f"{key}_text").input(text)
    app.selectbox(key=f"{key}_group").select(group)
    app.radio(key=f"{key}_scope").set_value(scope).run()
    return press(app, f"{key}_typed_go")


@pytest.mark.parametrize("tagger", ["rules", "default"])
def test_a_pasted_note_is_marked_and_replaced_at_once(tagger: str) -> None:
    app = press(open_notes(tagger=tagger), "deidentify_go_paste")
    assert SAY.text("deidentify_text_missing") in texts(app)
    paste(app, NOTE)
    rows = [
        ("高橋健一", "name"),
        ("2024年5月3日", "date"),
        ("03-1234-5678", "contact"),
    ]
    assert marks(app) == rows and sheet(app)["text"] == NOTE
    text = released(app)
    assert "高橋健一" not in text and "03-1234-5678" not in text and "&lt;5 mg/dL" in text
    assert '<mark class="ka-mark ka-mark-name">【氏名】</mark>' in text
    assert service.jobs() == () and not (data_home() / "tagged").exists()
    (line,) = (entry for entry in entries(50) if entry.action == "ran")
    assert dict(line.counts) == {"kind": "tagging", "n_notes": 1, "n_spans": 3}
    pills = widget(app, "button_group", "choice_kinds")
    assert list(pills.options) == [
        "`1` Name (1)",
        "`2` Date, age (1)",
        "`3` Place (0)",
        "`4` Contact (1)",
        "`5` Number (0)",
        "`6` Work (0)",
        "`7` Other (0)",
    ]
    pills.set_value(["contact"]).run()
    assert marks(app) == rows[2:] and released(app).count("<mark") == 1
    assert "【氏名】" in released(app)  # it is replaced all the same


@pytest.mark.long
def test_a_page_of_text_is_answered_in_a_few_times_what_its_tagging_takes() -> None:
    tagger, app = load_tagger("default"), open_notes(tagger="default")
    answers, taggings = list[float](), list[float]()
    for i in range(3):
        text = f"{PAGE_OF_TEXT}{i}"
        begin = perf_counter()
        tag_text(text, tagger=tagger, release=Release())
        taggings.append(perf_counter() - begin)
        if i:
            press(app, "deidentify_change")
        app.text_area(key="deidentify_text").input(text)
        begin = perf_counter()
        press(app, "deidentify_go_paste")
        answers.append(perf_counter() - begin)
        assert released(app).count("<mark") > 140
    assert len(text) > 2_900 and min(answers) < 8 * min(taggings)


@pytest.mark.long
def test_a_pasted_note_and_its_corrections_outlast_settings_tabs_and_languages() -> None:
    app = paste(open_notes(), f"{NOTE} 花子")
    correct(app, "花子", group="place")
    for box, code in (("choice_mode", "mask"), ("choice_policy", "safe-harbor")):
        widget(app, "radio", box).set_value(code).run()
    app.selectbox(key="choice_tagger").select("default").run()
    assert "花子" not in released(app) and ("花子", "place") in marks(app)
    widget(app, "button_group", "choice_tab").set_value("upload").run()
    widget(app, "button_group", "choice_tab").set_value("paste").run()
    app.radio(key="language").set_value("日本語").run()
    assert "花子" not in released(app) and ("花子", "place") in marks(app)
    press(app, "deidentify_change")
    assert app.text_area(key="deidentify_text").value == f"{NOTE} 花子"
    app.selectbox(key="choice_tagger").select("rules").run()
    assert app.text_area(key="deidentify_text").value == f"{NOTE} 花子"
    press(app, "deidentify_go_paste")
    assert ("花子", "place") in marks(app), "the same text keeps its corrections"


@pytest.mark.long
def test_a_link_of_before_opens_the_tab_that_it_named() -> None:
    for query, tab in (
        ({"view": "kept"}, "kept"),
        ({"way": "upload"}, "upload"),
        ({"tab": "notes", "view": "new", "way": "file"}, "file"),
        ({"tab": "notes"}, "paste"),
        ({"tagged": "0123456789ab"}, "kept"),
        ({"score": "0123456789ab"}, "measures"),
        ({"tab": "training", "way": "upload"}, "training"),
    ):
        app = open_page("deidentify", **query)
        assert widget(app, "button_group", "choice_tab").value == tab
        assert not {"view", "way"} & set(app.query_params)


@pytest.mark.long
def test_settings_change_the_replacement_and_stand_in_the_link() -> None:
    app = paste(open_notes(mode="mask"), NOTE)
    assert "■■■■<small>Name</small>" in released(app)
    widget(app, "radio", "choice_mode").set_value("surrogate").run()
    assert parameter(app, "mode") == "surrogate"
    first = released(app)
    assert "高橋健一" not in first and "<small>Name</small>" in first
    assert released(app.run()) == first, "the key stays with the text that was read"
    assert not app.number_input, "no seed is asked for: it is public"
    assert released(paste(open_notes(mode="surrogate"), NOTE)) != first, "another reading"
    for odd in ({"mode": "blur", "tagger": "../x", "tab": "?", "way": "?", "view": "?"}, {}):
        assert "【氏名】</mark>" in released(paste(open_notes(**odd | {"tagger": "rules"}), NOTE))
    assert not open_page("deidentify", tagger="../x", mode="blur").exception


def test_hostile_and_long_text_is_shown_as_it_is() -> None:
    app = paste(open_notes(), HOSTILE * 500 + "氏名：高橋健一")
    assert sheet(app)["text"].count("<img src=x") == 500 and "<img" not in texts(app)
    assert ("高橋健一", "name") in marks(app) and "高橋健一" not in released(app)
    app = paste(open_notes(), "x" * 60_000)
    assert len(sheet(app)["text"]) == 50_000
    assert sheet(app)["rest"] == SAY.text("deidentify_cut", n="10,000")
    assert SAY.text("deidentify_nothing_here") in texts(app)
    app.session_state["deidentify_read"] = "x" * (MAX_TYPED_CHARS + 1)
    app.run()
    assert "has more than 100,000 characters" in texts(app)


@pytest.mark.parametrize(("lang", "name"), [("en", "Margaret Ellis"), ("ja", "高橋美咲")])
def test_the_invented_note_is_one_click_away(lang: str, name: str) -> None:
    app = press(open_notes(lang=lang), "deidentify_example")
    assert (name, "name") in marks(app) and name not in released(app)
    say = words_of(lang)
    assert say.text("deidentify_kinds_help") == widget(app, "button_group", "choice_kinds").help
    assert [code for code, _ in sheet(app)["scopes"]] == ["here", "note"]


def test_a_pasted_note_is_corrected_everywhere_and_the_correction_undone() -> None:
    app = paste(open_notes(), f"{NOTE} <img src=x> 😀花子と花子")
    correct(app, "花子", group="place")
    assert marks(app)[-2:] == [("花子", "place")] * 2
    assert "花子" not in released(app) and released(app).count("【場所】") == 2
    correct(app, "花子")
    assert marks(app)[-2:] == [("花子", "name")] * 2
    correct(app, "<img src=x", group="number")
    assert "<img" not in texts(app) and "&lt;img src=x · Linkage code" in texts(app)
    correct(app, "高橋健一", group="")
    assert "高橋健一" in released(app)
    widget(app, "radio", "choice_mode").set_value("mask").run()
    assert "高橋健一" in released(app) and "■" in released(app)  # the corrections stay
    press(app, "deidentify_pasted_undo")
    assert marks(app)[0] == ("高橋健一", "name") and "高橋健一" not in released(app)
    kinds = [dict(entry.counts).get("kind") for entry in entries(99)]
    assert kinds.count("correction") == 4 and kinds.count("undone-correction") == 1
    paste(app, NOTE)
    assert "deidentify_pasted_undo" not in keys(app) and len(marks(app)) == 3


def test_what_changes_nothing_is_said() -> None:
    app = paste(open_notes(), NOTE)
    for text in ("佐藤", "高橋", " "):
        app.text_input(key="deidentify_pasted_text").input(text).run()
        assert "Nothing is changed" in html.unescape(texts(app)) and 'role="alert"' in texts(app)
        assert app.button(key="deidentify_pasted_typed_go").disabled
    app.text_input(key="deidentify_pasted_text").input("高橋健一")
    app.selectbox(key="deidentify_pasted_group").select("place").run()
    assert app.button(key="deidentify_pasted_typed_go").label == "Change 1 place"
    app.text_input(key="deidentify_pasted_text").input(" ").run()
    assert len(marks(app)) == 3 and "deidentify_pasted_undo" not in keys(app)


AGED = "A 72-year-old man, seen 04/12/2023, and a 93-year-old. MRN: 4471902"


def test_a_policy_leaves_marks_in_and_says_what_it_reaches() -> None:
    app = paste(open_notes(), AGED)
    assert "72-year-old" not in released(app) and "left in the text" not in texts(app)
    widget(app, "radio", "choice_policy").set_value("safe-harbor").run()
    assert parameter(app, "policy") == "safe-harbor"
    text = released(app)
    assert "A 72-year-old man, seen" in text and "[AGE]" in text and "[ID]" in text
    assert "policy: age up to 89 (1), sex (1)." in texts(app)
    correct(app, "72-year-old", group="date")
    assert "72-year-old" not in released(app)
    for row in ("1. Names", "17. Full-face photographs", "Type: contact", "not a matter of text"):
        assert row in texts(app)
    assert "deidentify_policy_own_json" in downloads(app)
    app = open_notes(lang="ja", policy="safe-harbor")
    assert "17. 顔全体の写真" in texts(app)


def test_a_policy_of_ones_own_is_a_file_and_until_then_all_is_taken_out() -> None:
    app = paste(open_notes(policy="own"), AGED)
    assert SAY.text("deidentify_policy_missing") in texts(app)
    assert "72-year-old" not in released(app)
    policy = b'{"title": "<b>mine</b>", "kinds": {"date": "leave"}}'
    app.file_uploader[0].upload("own.json", policy, "application/json").run()
    assert "04/12/2023" in released(app) and "72-year-old" not in released(app)
    app.file_uploader[0].upload("own.json", b'{"kinds": {"x": "leave"}}', "application/json").run()
    assert "There is no kind called x" in texts(app) and "04/12/2023" not in released(app)


PAGE = "<html><body><p>Patient:&nbsp;John&nbsp;Smith</p><script>var x</script></body></html>"
RECORD = json.dumps(
    {
        "resourceType": "Bundle",
        "entry": [
            {"resource": {"resourceType": "Patient", "id": "7", "name": [{"family": "Zorblatt"}]}},
            {
                "resource": {
                    "resourceType": "DiagnosticReport",
                    "subject": {"reference": "Patient/7"},
                    "conclusion": "No change in zorblatt since May.",
                }
            },
        ],
    }
)


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_html_and_fhir_are_read_and_said_and_other_documents_are_refused(lang: str) -> None:
    say = words_of(lang)
    app = paste(open_notes(lang=lang), PAGE)
    assert say.text("deidentify_read_html") in texts(app)
    assert ("John Smith", "name") in marks(app) and "script" not in released(app)
    paste(app, RECORD)
    assert say.text("deidentify_read_fhir") in texts(app)
    assert sheet(app)["text"] == "No change in zorblatt since May."
    assert "orblatt" not in released(app) and "resourceType" not in released(app)
    for document, name in (
        ("MSH|^~\\&|LAB\nPID|1||7||SMITH^JOHN", "HL7 v2"),
        ("{\\rtf1 SMITH}", "RTF"),
        ("<ClinicalDocument><title>SMITH</title></ClinicalDocument>", "CDA"),
    ):
        paste(app, document)
        assert not app.exception and name in texts(app) and 'role="alert"' in texts(app)
        assert "SMITH" not in texts(app)
