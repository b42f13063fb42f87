"""A new corpus on the Corpus page: files, columns, categories, preview, settings, the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.home import DEMO_HOSPITAL
from audit.jobs import service, table
from audit.jobs.table import Failure, read_order
from audit.notes.read import VARIABLE
from tests.pages.make_trainings import CORPUS_ID, make_corpus_folder
from tests.pages.screen import HOSTILE, keys, open_page, parameter, press, texts

EXAMPLE = "invented notes"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "ward"
    path.mkdir()
    monkeypatch.setenv(VARIABLE, str(path))
    return path


def choose_file(app: AppTest, part: str) -> AppTest:
    """Choose the file of notes whose name on the screen holds these words."""
    box = app.selectbox(key="pick_notes")
    box.select(next(name for name in box.options if part in name)).run()
    assert not app.exception
    return app


def test_without_folders_the_example_is_one_click_away() -> None:
    app = open_page("workshop")
    assert "No corpus is kept here yet" in texts(app)
    assert VARIABLE in app.code[0].value
    press(app, "corpus_try_example")
    page_text = texts(app)
    assert "Categories that are not understood (1)" in page_text
    assert "<td" in page_text
    assert "Device" in page_text
    assert 'ka-mark ka-mark-patient">[**Known firstname 100**]' in page_text
    assert app.button(key="corpus_build").label == "Build the corpus"


@pytest.mark.long
def test_a_link_names_a_file_by_a_code_and_columns_that_are_not_clear_are_asked_for(
    folder: Path,
) -> None:
    (folder / "Smith_John.csv").write_text(f"who,{HOSTILE}\n7,Seen on [**2150-1-2**] {HOSTILE}\n")
    app = choose_file(open_page("workshop"), "Smith_John")
    code = parameter(app, "notes")
    assert len(code) == 12 and "mith" not in code
    assert open_page("workshop", notes="../../etc").selectbox(key="pick_notes").value is None
    app = open_page("workshop", notes=code)
    assert app.selectbox(key="pick_notes").value == code
    assert "No column is known to hold the text" in texts(app)
    assert "corpus_build" not in keys(app)
    box = next(s for s in app.selectbox if (s.key or "").startswith("corpus_column_text_"))
    app = box.select(HOSTILE).run()
    assert "<img" not in texts(app) and "&lt;img src=x&gt;" in texts(app)
    press(app, "corpus_build")
    order = read_order(service.active_jobs()[0].job_id)
    assert order["columns"] == [["text", HOSTILE]]


def test_identified_notes_are_not_shown_until_names_are_revealed(folder: Path) -> None:
    text = "Grace Hopper is a 70-year-old woman with a cough. Mrs. Hopper was seen. Plan: home.\n"
    (folder / "notes.csv").write_text(f'patient_id,text\n1,"{text}"\n')
    (folder / "people.csv").write_text("patient_id,first_name,last_name,sex\n1,Grace,Hopper,F\n")
    app = choose_file(open_page("workshop"), "ward/notes.csv")
    assert "These notes have no placeholders" in texts(app)
    assert "Hopper" not in texts(app)
    assert "corpus_build" not in keys(app)
    press(app, "reveal_now")
    assert "Grace Hopper is a 70-year-old" in texts(app)
    register = app.selectbox(key="pick_register")
    assert len(register.options) == 1
    register.select_index(0).run()
    page_text = texts(app)
    assert 'ka-mark-patient">Grace</mark>' in page_text
    assert "[FIRST]" in page_text
    app.run()
    noted = [dict(e.counts) for e in entries(50) if "row" in dict(e.counts)]
    assert noted == [{"what": "note", "row": 2}]
    press(app, "corpus_build")
    order = read_order(service.active_jobs()[0].job_id)
    assert order["register_file"].endswith("/ward/people.csv")


def test_the_button_asks_for_a_job_with_the_settings_and_shows_it() -> None:
    app = choose_file(open_page("workshop"), EXAMPLE)
    app.text_input(key="corpus_title").set_value("Ward <i>4</i>")
    app.number_input(key="corpus_number_seed").set_value(11)
    app.toggle(key="corpus_canaries").set_value(True).run()
    app.number_input(key="corpus_number_n_canaries").set_value(3).run()
    assert "45 notes will get a planted name each" in texts(app)
    app.toggle(key="corpus_sample").set_value(True).run()
    app.toggle(key="corpus_left_context").set_value(True).run()
    app.number_input(key="corpus_number_n_sample").set_value(100).run()
    press(app, "corpus_build")
    (job,) = service.active_jobs()
    order = read_order(job.job_id)
    fields = {
        "notes": str(DEMO_HOSPITAL / "notes.csv"),
        "seed": 11,
        "title": "Ward <i>4</i>",
        "sample": 100,
        "has_left": True,
        "canary_counts": [1, 2, 4, 8],
        "n_canaries": 3,
    }
    assert fields.items() <= order.items()
    assert "corpus_build" not in keys(app)
    assert app.get("progress")
    ran = [dict(e.counts) for e in entries(50) if e.action == "ran"]
    assert ran == [{"kind": "corpus", "job": job.job_id, "device": "cpu", "seed": 11}]


@pytest.mark.long
def test_people_are_held_out_by_their_number_or_as_a_share() -> None:
    def ordered(app: AppTest) -> object:
        press(app, "corpus_build")
        (job,) = service.active_jobs()
        return read_order(job.job_id)["hold_out"]

    app = choose_file(open_page("workshop"), EXAMPLE)
    app.toggle(key="corpus_hold_out").set_value(True).run()
    assert app.number_input(key="corpus_number_held_out_people").value == 200
    app.number_input(key="corpus_number_held_out_people").set_value(25).run()
    assert ordered(app) == "25"
    for job in service.active_jobs():
        service.cancel(job.job_id)
    app = choose_file(open_page("workshop", lang="ja"), "架空")
    app.toggle(key="corpus_hold_out").set_value(True).run()
    assert app.toggle(key="corpus_hold_out").label == "一部の患者を学習から除く"
    app.radio(key="corpus_hold_out_by").set_value("share").run()
    app.number_input(key="corpus_number_held_out_percent").set_value(15).run()
    assert ordered(app) == "15%"


@pytest.mark.long
def test_a_job_that_is_done_leads_to_its_corpus_and_what_failed_says_why(folder: Path) -> None:
    (folder / "bad.csv").write_bytes(b"text\n\xff\xfe\x00broken")
    app = choose_file(open_page("workshop"), EXAMPLE)
    press(app, "corpus_build")
    (job,) = service.active_jobs()
    make_corpus_folder()
    assert table.claim(job.job_id)
    table.end(job.job_id, state="done", result=(CORPUS_ID,))
    app.run()
    assert not app.exception
    assert "The corpus is built" in texts(app)
    assert parameter(app, "corpus") == CORPUS_ID
    app = choose_file(open_page("workshop", show="build"), EXAMPLE)
    app.number_input(key="corpus_number_seed").set_value(5).run()
    press(app, "corpus_build")
    (job,) = service.active_jobs()
    assert table.claim(job.job_id)
    table.end(job.job_id, state="failed", failure=Failure("no row is a note.", "notes"))
    app.run()
    assert "no row is a note." in texts(app)
    app = choose_file(app, "bad.csv")
    assert 'class="ka-refused"' in texts(app)
    assert "corpus_build" not in keys(app)
