"""The tab of De-identify where a tagger is trained on notes of one's own."""

from __future__ import annotations

import json

from audit.deid.find.taggers import TAGGERS
from audit.deid.learn.tagger_task import TaggerTask
from audit.jobs import service
from audit.jobs.table import read_order
from audit.notes.formats import write_jsonl
from audit.notes.spans import Span
from tests.deid.token.make_notes import notes
from tests.pages.screen import keys, open_page, press, texts, widget


def test_labels_that_are_not_known_are_asked_for_before_a_training_starts() -> None:
    app = open_page("deidentify", tab="training")
    assert "deid_train_start" not in keys(app)
    lines = [
        note.with_spans(
            [
                Span(s.start, s.end, "<img" if s.label == "contact" else "FOO")
                for s in note.spans
                if s.label != "linkage_code"
            ]
        )
        for note in notes(12)
    ]
    content = write_jsonl(lines).encode()
    app.get("file_uploader")[0].upload("gold.jsonl", content, "application/json").run()
    assert not app.exception
    page_text = texts(app)
    assert (
        "12 notes, 24 spans; 12 patients" in page_text and "12 spans are labelled FOO" in page_text
    )
    assert (
        "12 spans are labelled &lt;img" in page_text
        and "Choose a type for every label" in page_text
    )
    assert "deid_train_start" not in keys(app)
    boxes = {label: f"deid_train_label_{label}" for label in ("foo", "<img")}
    assert widget(app, "selectbox", boxes["foo"]).options[-1] == "Leave out"
    widget(app, "selectbox", boxes["foo"]).set_value("identifier").run()
    assert "deid_train_start" not in keys(app)
    widget(app, "selectbox", boxes["<img"]).set_value("left_out").run()
    app.text_input(key="deid_train_title").set_value("Ward").run()
    press(app, "deid_train_start")
    (job,) = service.active_jobs()
    order = read_order(job.job_id)
    assert (job.kind, job.label) == ("tagger", "default")
    assert (order["base"], order["title"]) == ("default", "Ward")
    assert order["label_map"] == {"foo": "identifier", "<img": ""}
    assert "山田" not in json.dumps(order, ensure_ascii=False)
    assert TaggerTask.from_order(order).gold[0].read_bytes() and not TAGGERS.all()
    assert "Training a tagger" in texts(app)


def test_known_labels_need_no_answer_and_other_files_are_refused() -> None:
    app = open_page("deidentify", tab="training", lang="ja")
    assert "新しい学習" in texts(app)
    box = app.get("file_uploader")[0]
    box.upload("gold.jsonl", b'{"doc_id": "1"}', "application/json").run()
    assert not app.exception and "deid_train_start" not in keys(app)
    content = write_jsonl(notes(12)).encode()
    app.get("file_uploader")[0].upload("gold.jsonl", content, "application/json").run()
    assert "deid_train_start" in keys(app) and "分からないラベル" not in texts(app)
