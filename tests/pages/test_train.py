"""Training in the Workshop through Streamlit's own tester."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from audit.access_log import entries
from audit.home import DEMO_HOSPITAL
from audit.jobs import service, table
from audit.jobs.table import read_order
from audit.models.registry import VARIABLE, load_tokenizer
from audit.progress import Progress
from audit.training.config import TrainSettings
from audit.training.trainings import MODELS
from tests.models.make_models import make_bert
from tests.pages.make_trainings import CORPUS_ID, NOTE, RUN, make_corpus_folder, make_training
from tests.pages.screen import keys, open_page, parameter, press, texts

PARENT = "models/general"


@pytest.fixture
def parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models"))
    return make_bert(tmp_path / "models" / "general")


def box(app: AppTest, label: str) -> Any:
    return next(box for box in app.number_input if box.label == label)


def test_the_plan_says_what_a_training_will_take_and_a_job_starts(parent: Path) -> None:
    make_corpus_folder()
    app = open_page("workshop", tab="training", parent=PARENT)
    # Two sentences of 6 and 12 tokens and one [SEP] a note.
    assert "40 notes, 760 tokens" in texts(app)
    assert "Ward &lt;3&gt;" in texts(app)
    app.text_input(key="train_title").set_value("Ward 3").run()
    press(app, "train_start")
    (job,) = service.active_jobs()
    assert (job.kind, job.label, job.state) == ("pretrain", "general", "queued")
    order = read_order(job.job_id)
    assert (order["corpus_id"], order["source"], order["title"]) == (CORPUS_ID, "private", "Ward 3")
    assert order["settings"]["n_tokens"] == 64
    assert app.get("progress")
    ran = next(line for line in entries() if line.action == "ran")
    assert dict(ran.counts)["kind"] == "pretrain"
    assert "Ward" not in str(ran)


def test_source_preset_and_settings_go_into_the_order_and_impossible_ones_are_refused(
    parent: Path,
) -> None:
    make_corpus_folder()
    app = open_page("workshop", tab="training", parent=PARENT, source="public", preset="scratch")
    assert "fresh weights in the shape of models/general" in texts(app)
    assert box(app, "Steps").value == 100_000
    assert "Every note would be seen about" in texts(app)
    rows = box(app, "Rows of a forward pass")
    usual = rows.value
    rows.set_value(5).run()
    assert not app.exception
    assert "no multiple of 5 rows a pass" in texts(app)
    assert "train_start" not in keys(app)
    box(app, "Rows of a forward pass").set_value(usual).run()
    box(app, "Steps").set_value(3).run()
    box(app, "Seed").set_value(7).run()
    press(app, "train_start")
    order = read_order(service.active_jobs()[0].job_id)
    settings = order["settings"]
    assert order["source"] == "public"
    assert (settings["n_steps"], settings["seed"], settings["from_scratch"]) == (3, 7, True)


def test_a_causal_model_has_its_own_settings(parent: Path) -> None:
    folder = make_corpus_folder()
    causal_only, masked_only = "Rank of the adapter (0: none)", "Share of masked tokens"
    app = open_page("workshop", tab="training", parent="demo:en/causal/general")
    labels = {field.label for kind in ("number_input", "selectbox") for field in app.get(kind)}
    assert causal_only in labels and masked_only not in labels
    assert {"Learns", "Notes stand"} <= labels and "Learning rate of the head" not in labels
    tokenizer = load_tokenizer(DEMO_HOSPITAL / "en" / "causal" / "general")
    n_tokens = 40 * (len(tokenizer(NOTE)["input_ids"]) + 1)  # and an end token
    assert f"40 notes, {n_tokens:,} tokens" in texts(app)
    assert "stays as it is under an adapter of rank 16" in texts(app)
    box(app, causal_only).set_value(4).run()
    press(app, "train_start")
    settings = read_order(service.active_jobs()[0].job_id)["settings"]
    assert (settings["is_causal"], settings["lora_rank"], settings["lora_alpha"]) == (True, 4, 32)
    app = open_page("workshop", tab="training", parent=PARENT)
    labels = {field.label for kind in ("number_input", "selectbox") for field in app.get(kind)}
    assert causal_only not in labels and masked_only in labels
    assert folder.is_dir()


def test_the_planted_names_that_are_learnt_and_the_header_are_told(parent: Path) -> None:
    make_corpus_folder()
    folder = make_training(parent)
    facts = json.loads((folder / "training.json").read_text())
    more = {"n_canaries": 40, "header": "<b>Note</b>:"}
    (folder / "training.json").write_text(json.dumps(facts | more))
    app = open_page("workshop", tab="training", run=RUN)
    assert "all 40 are learnt" in texts(app)
    assert "&lt;b&gt;Note&lt;/b&gt;:" in texts(app) and "<b>Note" not in texts(app)


@pytest.mark.long
def test_what_was_trained_before_is_opened_and_not_trained_again(parent: Path) -> None:
    make_corpus_folder()
    press(open_page("workshop", tab="training", parent=PARENT), "train_start")
    order = read_order(service.active_jobs()[0].job_id)
    service.cancel(service.active_jobs()[0].job_id)
    make_training(parent, run_id=order["run_id"], settings=TrainSettings(**order["settings"]))
    app = press(open_page("workshop", tab="training", parent=PARENT), "train_start")
    assert parameter(app, "run") == order["run_id"] and not service.active_jobs()


def test_a_training_shows_its_curve_and_what_it_says(parent: Path) -> None:
    make_corpus_folder()
    make_training(parent)
    app = open_page("workshop", tab="training", run=RUN)
    page_text = texts(app)
    assert "Ten &lt;b&gt;passes" in page_text
    assert "<b>passes" not in page_text
    assert "went from 6.000 to 4.000" in page_text
    assert "Ward &lt;3&gt;: notes with names" in page_text
    assert "20 of 20 steps" in page_text
    (chart,) = app.get("plotly_chart")
    assert "unigram" not in chart.proto.spec
    assert "Word frequencies alone" in chart.proto.spec


@pytest.mark.long
def test_auditing_a_model_chooses_the_pair(parent: Path) -> None:
    make_training(parent)
    app = press(open_page("workshop", tab="training", run=RUN), f"train_audit_{RUN}")
    assert app.title[0].value == "New audit"
    assert parameter(app, "general") == PARENT
    assert parameter(app, "hospital") == f"trained/{RUN}"
    assert "Both are the same model" in texts(app)  # the training of this test changed nothing
    options = app.selectbox(key="pick_hospital").options
    assert any(option.startswith("Ten <b>passes") for option in options)


@pytest.mark.long
def test_an_adapter_that_was_trained_here_is_audited_on_its_base() -> None:
    causal = DEMO_HOSPITAL / "en" / "causal"
    settings = TrainSettings(is_causal=True, lora_rank=8, n_steps=20, header="<s>Ward 3.\n")
    folder = make_training(causal / "general", settings=settings)
    shutil.rmtree(folder / "model")
    shutil.copytree(causal / "adapter-20", folder / "model")
    app = open_page("workshop", tab="training", run=RUN)
    assert "stays as it is under an adapter of rank 8" in texts(app)
    app = press(app, f"train_audit_{RUN}")
    assert app.title[0].value == "New audit" and not app.exception
    assert parameter(app, "general") == "demo:en/causal/general"
    assert parameter(app, "hospital") == f"trained/{RUN}"
    assert "names general as its base" in texts(app)
    # The model is asked after the text that stood before its notes.
    assert "<s>Ward 3.\n" in [area.value for area in app.text_area]
    app.selectbox(key="pick_hospital").select("demo:en/causal/adapter-20").run()
    assert "<s>Ward 3.\n" not in [area.value for area in app.text_area]


def test_one_button_trains_a_sibling_by_the_same_recipe(parent: Path) -> None:
    make_corpus_folder()
    make_training(parent)
    app = open_page("workshop", tab="training", run=RUN)
    assert "This model took 1 minutes" in texts(app)
    press(app, f"train_sibling_{RUN}")
    (job,) = service.active_jobs()
    order = read_order(job.job_id)
    assert (order["source"], order["corpus_id"]) == ("other_names", CORPUS_ID)
    assert order["settings"]["n_steps"] == 20


def test_a_running_training_is_shown_live_and_ends_at_its_result(parent: Path) -> None:
    make_corpus_folder()
    app = press(open_page("workshop", tab="training", parent=PARENT), "train_start")
    (job,) = service.active_jobs()
    run = str(read_order(job.job_id)["run_id"])
    make_training(parent, run_id=run, is_whole=False, held_out=(6.0, 5.0))
    assert table.claim(job.job_id)
    table.note_progress(job.job_id, Progress("training", 1, 2, 400.0))
    app = open_page("workshop", tab="training")
    (bar,) = app.get("progress")
    assert bar.proto.text == "Learning from the notes · 50 % · about 7 min left"
    assert len(app.get("plotly_chart")) == 1
    table.end(job.job_id, state="done", result=(run,))
    app.session_state["train_job"] = job.job_id
    app.run()
    assert parameter(app, "run") == run
    assert "is not finished" in texts(app)  # no model lies there yet


def test_a_training_is_removed_after_being_asked_once_more(parent: Path) -> None:
    make_training(parent)
    app = press(open_page("workshop", tab="training", run=RUN), "train_forget_now")
    assert MODELS.all() == ()
    assert not MODELS.place(RUN).exists()
    assert "run" not in app.query_params
    assert next(line for line in entries() if line.action == "removed")
