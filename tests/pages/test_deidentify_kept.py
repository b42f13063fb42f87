"""The page De-identify: files by a job, and kept notes one by one, hidden until names are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.deid.find.taggers import list_taggers
from audit.deid.redact.release import Release
from audit.deid.sets.tagged_sets import (
    TAGGED_SETS,
    TaggedSet,
    corrections_of,
    read_notes,
    write_index,
)
from audit.deid.sets.tagging import tag_notes
from audit.deid.tasks import TaggingTask, read_uploads, tagging_task
from audit.jobs import service, table
from audit.jobs.table import read_order
from audit.notes.read import VARIABLE
from audit.notes.read import open_notes as open_rows
from pages.ui.state import words_of
from tests.deid.make_scores import quiet
from tests.deid.test_uncopied import Copyist
from tests.pages.screen import downloads, keys, open_page, parameter, press, texts, widget
from tests.pages.test_deidentify import HOSTILE, SAY, correct, marks, open_notes, released, sheet

MARKUP = "<img src=x onerror=alert(1)> **b** [l](/x) "
NAMED = "氏名：高橋健一　2024年5月3日 受診。"


def notes_file(n: int) -> bytes:
    """Return notes of which each third has nothing to find."""
    records = (
        {"doc_id": f"<b>{i}</b>", "text": f"{MARKUP}{NAMED if i % 3 else '特記なし。'} 第{i}回"}
        for i in range(n)
    )
    return "\n".join(json.dumps(record, ensure_ascii=False) for record in records).encode()


def make_set(
    n: int = 9, *, title: str = HOSTILE, data: bytes = b"", release: Release | None = None
) -> TaggedSet:
    """Tag notes into a kept set, without any job."""
    question = tagging_task(
        read_uploads([("n.jsonl", data or notes_file(n))]),
        tagger=list_taggers()[1],
        release=release or Release(),
        title=title,
    ).question()
    (tagged_id,) = TaggingTask.from_order(question.order).run(quiet())
    return TAGGED_SETS.get(tagged_id)


def upload(app: AppTest, data: bytes, *, name: str = "Anna Smith.jsonl") -> AppTest:
    widget(app, "button_group", "choice_tab").set_value("upload").run()
    app.file_uploader[0].upload(name, data, "application/json").run()
    assert not app.exception
    return app


@pytest.mark.long
def test_an_upload_is_a_job_and_then_a_kept_set() -> None:
    app = upload(open_notes(), notes_file(6))
    app.text_input(key="deidentify_name").input(HOSTILE)
    press(app, "deidentify_go_file")
    (job,) = service.active_jobs()
    assert job.kind == "tagging" and "Anna" not in job.label
    assert 'class="ka-job ka-job-queued"' in texts(app)
    order = read_order(job.job_id)
    (unfinished,) = TAGGED_SETS.all()
    notes_page = open_notes(tagged=unfinished.tagged_id)
    assert SAY.text("deidentify_at_work_do") in texts(notes_page)
    table.claim(job.job_id)
    table.end(job.job_id, state="done", result=TaggingTask.from_order(order).run(quiet()))
    app.run()
    assert not app.exception
    assert SAY.text("deidentify_done") in texts(app)
    assert parameter(app, "tagged") == unfinished.tagged_id
    assert app.selectbox(key="choice_tagged").options[0].startswith(HOSTILE.strip()[:40])
    third = upload(open_notes(), notes_file(6))
    press(third, "deidentify_go_file")
    assert len(service.jobs()) == 1 and parameter(third, "tagged") == unfinished.tagged_id
    assert "tagging" in [
        dict(entry.counts).get("kind") for entry in entries(99) if entry.action == "ran"
    ]


def test_taggers_stand_beside_each_other_as_the_link_says() -> None:
    app = upload(open_notes(tagger="rules", beside="default"), notes_file(3))
    assert SAY.text("deidentify_united")[:40] in texts(app)
    press(app, "deidentify_go_file")
    (unfinished,) = TAGGED_SETS.all()
    assert unfinished.tagger_id == "rules+default"
    notes_page = open_notes(tagged=unfinished.tagged_id, tagger="rules", beside="rules.nobody")
    assert not notes_page.exception and SAY.text("deidentify_united")[:40] not in texts(notes_page)


@pytest.mark.parametrize(("uncopied", "n_released"), [("fallback", 3), ("withhold", 1)])
def test_notes_that_were_not_copied_are_counted_and_listed(uncopied: Any, n_released: int) -> None:
    notes = notes_file(3)
    tagged_id = tagging_task(
        read_uploads([("n.jsonl", notes)]),
        tagger=list_taggers()[1],
        release=Release(),
        uncopied=uncopied,
    ).tagged_id
    tagged = TAGGED_SETS.get(tagged_id)
    copyist = Copyist(lambda text: text if "特記" in text else text[:12])
    tag_notes(
        open_rows(tagged.path / "input"),
        tagger=copyist,
        folder=tagged.path / "result",
        release=Release(),
        uncopied=uncopied,
    )
    write_index(tagged.path)
    app = open_notes(tagged=tagged_id)
    text = texts(app)
    assert not app.exception and "高橋健一" not in text
    assert (
        SAY.text(f"deidentify_uncopied_{uncopied}_done", n_notes="2", n_characters="")[:30] in text
    )
    assert "deidentify_uncopied_notes" in " ".join(downloads(app))
    assert len(list(read_notes(TAGGED_SETS.get(tagged_id)))) == n_released


@pytest.mark.parametrize(
    ("data", "name", "why"),
    [(b"name,age\nA,1\n", "a.csv", "no column of texts"), (b"a\0b\0", "a.txt", "UTF-16")],
)
def test_a_file_that_cannot_be_read_is_refused_and_nothing_is_kept(
    data: bytes, name: str, why: str
) -> None:
    app = upload(open_notes(), data, name=name)
    if name.endswith(".csv"):
        press(app, "deidentify_go_file")
    assert not app.exception
    assert why in texts(app) and 'role="alert"' in texts(app)
    assert TAGGED_SETS.all() == () and service.jobs() == ()


def test_kept_notes_are_hidden_until_names_are_shown_and_each_is_logged_once() -> None:
    tagged = make_set()
    app = open_notes(tagged=tagged.tagged_id, note="2")
    assert "高橋健一" not in texts(app) and not app.get("bidi_component")
    assert SAY.text("deidentify_hidden")[:40] in texts(app)
    assert "【氏名】" in released(app)
    files = {"deidentify_set_file_text", "deidentify_set_file_brat"}
    assert files & set(downloads(app)) == {"deidentify_set_file_text"}
    press(app, "reveal_now")
    assert ("高橋健一", "name") in marks(app)
    assert [code for code, _ in sheet(app)["scopes"]] == ["here", "note", "set"]
    assert "<img" not in texts(app) and "&lt;b&gt;1&lt;/b&gt;" in texts(app)  # the note's own name
    app.run()
    log_counts = [dict(entry.counts) for entry in entries(99) if "row" in dict(entry.counts)]
    line = {"run": tagged.tagged_id, "row": 2}
    assert log_counts == [line | {"what": "note"}, line | {"what": "released-note"}]
    assert files <= set(downloads(app))


@pytest.mark.long
def test_from_note_to_note_with_filter_and_search() -> None:
    tagged = make_set()
    app = open_notes(tagged=tagged.tagged_id)
    assert parameter(app, "note") == "1" and SAY.text("deidentify_nothing_here") in texts(app)
    assert app.button(key="deidentify_before").disabled
    press(app, "deidentify_next")
    assert parameter(app, "note") == "2" and "第1回" in released(app)
    app.number_input(key="deidentify_number").set_value(9).run()
    assert parameter(app, "note") == "9" and app.button(key="deidentify_next").disabled
    only = widget(app, "button_group", "choice_only")
    assert list(only.options) == ["All (9)", "With marks (6)", "Without any mark (3)"]
    only.set_value("without").run()
    assert parameter(app, "note") == "7"
    app.text_input(key="deidentify_search").input("第3回").run()
    assert not app.exception and parameter(app, "note") == "4"
    app.text_input(key="deidentify_search").input("第4回").run()
    assert SAY.text("deidentify_no_note") in texts(app)
    for odd in ("-1", "x", "99999", "²", "0"):
        assert not open_notes(tagged=tagged.tagged_id, note=odd).exception


def test_a_set_is_removed_after_asking_once_more() -> None:
    tagged = make_set()
    app = open_notes(tagged=tagged.tagged_id)
    press(app, "deidentify_forget_now")
    assert TAGGED_SETS.all() == () and SAY.text("deidentify_no_kept") in texts(app)
    removed = [dict(entry.counts) for entry in entries(9) if entry.action == "removed"]
    assert removed == [{"what": "tagged-notes", "run": tagged.tagged_id}]
    app = open_notes(tagged=tagged.tagged_id)
    assert SAY.text("deidentify_kept_gone") in texts(app)
    assert not open_notes(tagged="../../etc/passwd").exception


@pytest.mark.long
def test_kept_notes_are_corrected_in_one_or_in_all_of_them_and_undone() -> None:
    tagged = make_set()
    app = open_notes(tagged=tagged.tagged_id, note="2")
    assert "deidentify_note_typed_go" not in keys(app)
    press(app, "reveal_now")
    correct(app, "受診", group="other", key="deidentify_note")
    assert ("受診", "other") in marks(app)
    assert ["受診" in note.released for note in read_notes(tagged)].count(False) == 1 + 3
    (fix,) = corrections_of(tagged)[1]
    assert fix.who and fix.at
    page_text = texts(app)
    assert SAY.text("deidentify_fact_corrected") in page_text
    assert SAY.html("deidentify_measure_own") in page_text
    lines = [dict(e.counts) for e in entries(99) if dict(e.counts).get("kind") == "correction"]
    assert lines == [{"kind": "correction", "run": tagged.tagged_id, "row": 2, "n_notes": 1}]
    other_page = open_notes(tagged=tagged.tagged_id, note="2")
    assert SAY.text("deidentify_fix_hidden") in texts(other_page)
    assert "deidentify_note_undo" not in keys(other_page)
    correct(app, "高橋健一", group="contact", scope="set", key="deidentify_note")
    assert [toast.value for toast in app.toast] == ["Corrected in 6 notes."]
    assert ("高橋健一", "contact") in marks(app)
    only = widget(app, "button_group", "choice_only")
    assert "Corrected by hand (6)" in only.options
    (undo,) = (button for button in app.button if button.key == "deidentify_note_undo")
    assert undo.label == SAY.text("deidentify_fix_undo_all")
    press(press(app, "deidentify_note_undo"), "deidentify_note_undo")
    assert corrections_of(tagged) == {}
    assert SAY.html("deidentify_measure_own") not in texts(app)


def test_old_links_and_links_to_scores_lead_to_their_tab() -> None:
    tagged = make_set()
    for query in ({"tab": "measures"}, {"score": "0" * 12}):
        page_text = texts(open_page("deidentify", **query))
        assert SAY.text("deid_measures_below") in page_text
        assert SAY.text("deidentify_below") not in page_text
    app = open_page("deidentify", tagged=tagged.tagged_id)
    press(app, "deidentify_measure")
    assert SAY.text("deid_measures_below") in texts(app)
    assert parameter(app, "tagged") == tagged.tagged_id
    chosen = [app.button_group(key=f"choice_{side}").value for side in ("gold", "predicted")]
    assert chosen == ["given", "tagged"] and texts(app).count("ka-is-ready") == 2


def test_who_is_singled_out_by_what_stays_readable_is_listed_and_leads_to_the_note() -> None:
    texts_left = [
        "主婦。特記なし。",
        "主婦。双子の妹あり。",
        "養蜂業。高血圧の<b>家族歴。",
        "主婦。特記なし。",
    ]
    lines = [
        json.dumps({"doc_id": f"d{i}", "text": f"{NAMED}{text}"})
        for i, text in enumerate(texts_left)
    ]
    tagged = make_set(data="\n".join(lines).encode())
    app = open_notes(tagged=tagged.tagged_id)
    assert "2 of 4 patients have a combination" in texts(app)
    (frame,) = app.dataframe
    # Alone a word may be taken for a name; it is masked then, as all text of notes is.
    assert frame.value.iloc[:, 0].tolist() == ["双子", "養***"]
    assert frame.value.iloc[:, 1:].to_numpy().tolist() == [
        ["family", 1, "2"],
        ["profession", 1, "3"],
    ]
    assert SAY.text("deidentify_left_kinds_n_notes") in texts(app) and "n_notes" not in texts(app)
    assert "deidentify_left_csv" in downloads(app) and "deidentify_left_look" not in keys(app)
    log_counts = [dict(e.counts) for e in entries(99) if dict(e.counts).get("what") == "leftovers"]
    assert log_counts == [{"run": tagged.tagged_id, "what": "leftovers"}]
    assert "養蜂業" not in str([dict(e.counts) for e in entries(99)])
    press(app, "reveal_now")
    assert app.dataframe[0].value.iloc[:, 0].tolist() == ["双子", "養蜂業"]
    correct(app, "養蜂業", group="other", scope="set", key="deidentify_note")
    assert SAY.html("deidentify_left_older") in texts(app) and len(app.dataframe) == 1
    press(app, "deidentify_left_look")
    (job,) = service.active_jobs()
    assert "deidentify_left_look" not in keys(app)
    table.claim(job.job_id)
    report = TaggingTask.from_order(read_order(job.job_id)).run(quiet())
    table.end(job.job_id, state="done", result=report)
    app.run()
    assert "1 of 4 patients have a combination" in texts(app)
    assert app.dataframe[0].value.iloc[:, 0].tolist() == ["双子"]
    (tagged.path / "leftovers.json").unlink()
    app = open_notes(tagged=tagged.tagged_id)
    assert SAY.text("deidentify_left_none") in texts(app) and "deidentify_left_look" in keys(app)


def test_a_register_is_handed_in_with_the_notes_and_its_fit_is_shown() -> None:
    note = json.dumps({"patient_id": "p", "text": "健一は元気。"}, ensure_ascii=False)
    app = upload(open_notes(register="upload"), note.encode())
    assert (
        SAY.text("deidentify_register_help") == widget(app, "button_group", "choice_register").help
    )
    press(app, "deidentify_go_file")
    assert SAY.text("deidentify_register_missing") in texts(app) and TAGGED_SETS.all() == ()
    box = next(
        uploader for uploader in app.file_uploader if uploader.key == "deidentify_register_upload"
    )
    box.upload("高橋健一.csv", b"patient_id,shoe\np,9\n", "text/csv").run()
    press(app, "deidentify_go_file")
    assert "not understood: 2" in texts(app) and TAGGED_SETS.all() == ()
    box = next(
        uploader for uploader in app.file_uploader if uploader.key == "deidentify_register_upload"
    )
    rows = "patient_id,氏名\np,高橋 健一\nq,森 誠\n".encode()
    box.upload("高橋健一.csv", rows, "text/csv").run()
    press(app, "deidentify_go_file")
    (job,) = service.active_jobs()
    TaggingTask.from_order(read_order(job.job_id)).run(quiet())
    (tagged,) = TAGGED_SETS.all()
    assert [note.released for note in read_notes(tagged)] == ["【氏名】は元気。"]
    notes_page = open_notes(tagged=tagged.tagged_id)
    for fact in ("register", "register_alone", "register_lacks", "again"):
        assert SAY.text(f"deidentify_fact_{fact}") in texts(notes_page)
    assert "健一" not in texts(notes_page) and "高橋" not in texts(notes_page)


def test_a_registered_file_may_be_the_register(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (tmp_path / "patients.csv").write_text("patient_id,氏名\np,高橋 健一\n", "utf-8")
    note = json.dumps({"patient_id": "p", "text": "健一は元気。"}, ensure_ascii=False)
    app = upload(open_notes(register="file"), note.encode())
    box = next(select for select in app.selectbox if select.key == "pick_patients")
    box.select_index(0).run()
    press(app, "deidentify_go_file")
    (job,) = service.active_jobs()
    order = read_order(job.job_id)
    assert order["register_id"].endswith("patients.csv") and order["has_register"]


@pytest.mark.long
@pytest.mark.parametrize("lang", ["en", "ja"])
def test_a_set_of_before_is_marked_as_reversible_with_what_to_tell_recipients(lang: str) -> None:
    say = words_of(lang)
    keyed = make_set(3, title="Ward 7", release=Release(mode="surrogate"))
    app = open_notes(tagged=keyed.tagged_id, lang=lang)
    assert say.text("deidentify_key_secret") in texts(app)
    assert say.text("deidentify_reversible") not in texts(app)
    seeded = make_set(4, title="Ward 8", release=Release(mode="surrogate", seed=0))
    app = open_notes(tagged=seeded.tagged_id, lang=lang)
    page_text = texts(app)
    for key in ("deidentify_reversible", "deidentify_reversible_do", "deidentify_key_public"):
        assert say.html(key) in page_text
    assert say.html("deidentify_n_reversible", n="1") in page_text
    options = app.selectbox(key="choice_tagged").options
    marked = say.text("deidentify_kept_reversible", title="Ward 8")
    assert [option.startswith(marked) for option in options] == [True, False]
    # A reader, too, is told on the set with a key that another one is reversible.
    assert say.html("deidentify_n_reversible", n="1") in texts(
        open_notes(tagged=keyed.tagged_id, lang=lang)
    )


@pytest.mark.long
def test_a_key_is_shared_on_request_alone_and_the_page_says_what_that_means() -> None:
    first = make_set(3, title="Ward <7>", release=Release(mode="surrogate"))
    app = upload(open_notes(mode="surrogate"), notes_file(3))
    assert SAY.text("deidentify_key_below") not in texts(app)
    widget(app, "radio", "choice_key").set_value("shared").run()
    assert SAY.html("deidentify_key_below") in texts(app)
    assert SAY.html("deidentify_key_missing") in texts(app)
    app.selectbox(key="pick_release").set_value(first.tagged_id).run()
    assert SAY.html("deidentify_key_missing") not in texts(app)
    press(app, "deidentify_go_file")
    (job,) = service.active_jobs()
    (tagged_id,) = TaggingTask.from_order(read_order(job.job_id)).run(quiet())
    second = TAGGED_SETS.get(tagged_id)
    assert tagged_id != first.tagged_id and second.how.key == first.how.key
    assert [note.released for note in read_notes(second)] == [
        note.released for note in read_notes(first)
    ]
    page_text = texts(open_notes(tagged=tagged_id))
    assert SAY.text("deidentify_key_linked", codes=first.tagged_id) in page_text
    # Without the request the same notes get other values.
    third = make_set(3, release=Release(mode="surrogate"))
    assert third.how.key != first.how.key
    for key in (first.how.key, third.how.key):
        assert key is not None and key.secret.hex() not in page_text


def open_copies(lang: str) -> AppTest:
    """Upload two notes, 甲 and 乙, to be released by copies that are written elsewhere."""
    lines = [{"doc_id": code, "text": f"{NAMED} 第{code}回"} for code in ("甲", "乙")]
    notes = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    return upload(open_notes(lang=lang, tagger="outputs", tab="upload"), notes.encode())


def upload_copies(app: AppTest, lines: str) -> AppTest:
    uploader = next(box for box in app.file_uploader if box.key == "deidentify_outputs")
    uploader.upload("高橋健一.jsonl", lines.encode(), "application/json").run()
    return press(app, "deidentify_go_file")


def test_the_file_of_copies_is_asked_for_once_that_tagger_is_chosen() -> None:
    about = SAY.text("deidentify_about_outputs")
    app = open_notes(tagger="outputs")
    title = SAY.text("called_tagger_outputs")
    assert title not in app.selectbox(key="choice_tagger").options and about not in texts(app)
    app = open_notes(tab="upload")
    assert about not in texts(app) and len(app.file_uploader) == 1
    assert title in app.selectbox(key="choice_tagger").options
    assert title not in widget(app, "multiselect", "choice_beside").options
    app.selectbox(key="choice_tagger").select("outputs").run()
    assert about in texts(app) and parameter(app, "tagger") == "outputs"
    assert SAY.text("deidentify_uncopied_below") in texts(app) and len(app.file_uploader) == 2
    upload_copies(app, '{"doc_id": "a", "output": "x"}')
    assert SAY.text("deidentify_file_missing") in texts(app) and service.jobs() == ()


@pytest.mark.parametrize("lang", ["en", pytest.param("ja", marks=pytest.mark.long)])
def test_copies_that_do_not_fit_are_refused_and_nothing_is_kept(lang: str) -> None:
    app = press(open_copies(lang), "deidentify_go_file")
    assert words_of(lang).text("deidentify_outputs_missing") in texts(app)
    upload_copies(app, '{"doc_id": "丙", "output": "x"}')
    refusal = "no note in common" if lang == "en" else "共通する文書がありません"
    assert refusal in texts(app) and 'role="alert"' in texts(app)
    upload_copies(app, '{"doc_id": "甲", "output": "x"}\n高橋健一')
    assert ("line 2: is not JSON" if lang == "en" else "2行目") in texts(app)
    assert "高橋" not in texts(app) and TAGGED_SETS.all() == () and service.jobs() == ()


@pytest.mark.parametrize("lang", ["en", pytest.param("ja", marks=pytest.mark.long)])
def test_copies_written_elsewhere_are_uploaded_with_the_notes_and_released(lang: str) -> None:
    say, app = words_of(lang), open_copies(lang)
    copies = [{"doc_id": "甲", "output": f"<識別子>{NAMED}</識別子> 第甲回"}]
    copies += [{"doc_id": "高橋健一", "output": "x"}]
    upload_copies(app, "\n".join(map(json.dumps, copies)))
    (job,) = service.active_jobs()
    order = read_order(job.job_id)
    assert "高橋" not in job.label + json.dumps(order, ensure_ascii=False)
    table.claim(job.job_id)
    table.end(job.job_id, state="done", result=TaggingTask.from_order(order).run(quiet()))
    app.run()
    assert not app.exception and "高橋" not in str(dict(app.query_params))
    page_text = texts(app)
    assert say.text("deidentify_fact_copies_lack") in page_text
    assert say.html("deidentify_fact_lines", n="1", lines="2") in page_text
    (tagged,) = TAGGED_SETS.all()
    first, second = (note.released for note in read_notes(tagged))
    assert first == "【氏名】 第甲回" and "高橋健一" not in second
    assert "高橋" not in str([dict(entry.counts) for entry in entries(99)])
    press(app, "deidentify_forget_now")
    assert TAGGED_SETS.all() == () and not tagged.path.exists()
