"""The page De-identify: corrections by hand."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.deid.tagged import TaggedSet, corrections_of, notes_of
from tests.pages.screen import keys, texts
from tests.pages.test_deidentify import HOSTILE, NOTE, SAY, open_notes, paste, sides
from tests.pages.test_deidentify_kept import made

PASTED = "deidentify_fix_pasted"


def add(app: AppTest, key: str, text: str, *, label: str = "identifier") -> AppTest:
    app.selectbox(key=f"{key}_type").select(label)
    app.text_input(key=f"{key}_text").input(text)
    app.button(key=f"{key}_add").click().run()
    assert not app.exception
    return app


def revealed(one: TaggedSet, *, note: str) -> AppTest:
    app = open_notes(tagged=one.tagged_id, note=note)
    assert not any("deidentify_fix" in key for key in keys(app))
    app.button(key="reveal_now").click().run()
    assert not app.exception
    return app


def test_a_pasted_note_is_corrected_and_the_correction_undone() -> None:
    app = paste(open_notes(), NOTE + HOSTILE)
    add(app, f"{PASTED}_0", "<img src=x", label="linkage_code")
    source, released = sides(app)
    assert "&lt;img src=x<small>linkage code</small></mark>" in source
    assert "【番号】</mark> onerror" in released and "<img" not in texts(app)
    assert "&lt;img src=x · linkage code" in texts(app)  # in the list of corrections
    app.selectbox(key=f"{PASTED}_1_mark").select_index(0).run()
    app.button(key=f"{PASTED}_1_remove").click().run()
    assert "高橋健一<small>" not in sides(app)[0] and "高橋健一" in sides(app)[1]
    app.radio(key="deidentify_mode").set_value("mask").run()
    assert "高橋健一" in sides(app)[1] and "■" in sides(app)[1]  # the corrections stay
    app.button(key=f"{PASTED}_2_undo").click().run()
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
    app.button(key=f"{PASTED}_0_add").click().run()
    assert "the end is behind the start" in texts(app)
    app.number_input(key=f"{PASTED}_0_end").set_value(2).run()
    app.button(key=f"{PASTED}_0_add").click().run()
    assert "氏名<small>identifier</small>" in sides(app)[0]


def test_a_kept_note_is_corrected_once_names_are_shown_in_every_file() -> None:
    one = made()
    app = revealed(one, note="2")
    key = f"deidentify_fix_{one.tagged_id}_1"
    add(app, f"{key}_0", "受診", label="quasi_identifier")
    assert "受診<small>quasi-identifier</small>" in sides(app)[0]
    assert "受診" not in list(notes_of(one))[1].released
    (fix,) = corrections_of(one)[1]
    assert fix.who and fix.at
    shown = texts(app)
    assert SAY.text("deidentify_fact_corrected") in shown
    assert SAY.html("deidentify_measure_own") in shown
    only = next(p for p in app.button_group if p.key == "deidentify_only")
    assert only.options[-1] == "Corrected by hand (1)"
    lines = [dict(e.counts) for e in entries(99) if dict(e.counts).get("kind") == "correction"]
    assert lines == [{"kind": "correction", "run": one.tagged_id, "row": 2, "n_spans": 1}]
    other = open_notes(tagged=one.tagged_id, note="2")
    assert SAY.text("deidentify_fix_hidden") in texts(other)
    assert f"{key}_1_undo" not in keys(other) and "[" in sides(other)[1]
    app.button(key=f"{key}_1_undo").click().run()
    assert not app.exception and corrections_of(one) == {}
    assert SAY.html("deidentify_measure_own") not in texts(app)
