"""The page De-identification measures through Streamlit's own tester."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from audit.access_log import entries
from audit.deid.find import taggers
from audit.deid.find.rules import RuleTagger
from audit.deid.find.taggers import KnownTagger
from audit.deid.measure.score_report import SCORES, Source
from audit.deid.measure.scoring import ScoreTask
from audit.deid.sets.incoming_notes import keep_outputs
from audit.experiment.leakage import LEAKAGE, LeakageTask
from audit.jobs import service
from audit.jobs.table import read_order
from audit.notes.formats import write_jsonl, write_tags
from audit.notes.spans import Span
from pages.ui import cached
from pages.ui.display_names import tagger_name
from pages.ui.state import words_of
from tests.deid.make_scores import content_of, gold_notes, make_score, predicted_notes, quiet
from tests.experiment.tiny_leakage import tiny_tables
from tests.pages.screen import keys, open_page, parameter, press, texts


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = (KnownTagger("rules", "rules", "", RuleTagger().digest),)
    monkeypatch.setattr(cached, "taggers", lambda: rules)
    monkeypatch.setattr(taggers, "list_taggers", lambda: rules)


def keep_made_score(*, period: int = 3, n: int = 12) -> str:
    golds = gold_notes(n)
    return make_score(golds, predicted_notes(golds, step=period), title="<b>mine</b>")


def test_an_empty_page_says_what_to_do_and_the_example_can_be_asked_for() -> None:
    app = open_page("deidentify", tab="measures")
    assert "Nothing has been measured yet" in texts(app)
    assert texts(app).count("ka-is-ready") == 3
    app.text_input(key="deid_measures_score_title").set_value("First try")
    press(app, "deid_measures_start")
    (job,) = service.active_jobs()
    assert job.kind == "score" and job.label == "rules" and "First try" not in str(job)
    assert read_order(job.job_id)["gold"] == {"kind": "example", "ref": "en"}
    assert "Measuring a de-identifier" in texts(app)


def test_the_headline_says_how_many_names_in_how_many_notes() -> None:
    keep_made_score()
    app = open_page("deidentify", tab="measures")
    page_text = texts(app)
    # Four names stay, and no character of the others.
    first, second = page_text.index("4 of 12 identifiers"), page_text.index("missed altogether")
    assert first < second and "in 4 of 12 notes" in page_text[second:]
    assert "Few spans or few patients" in page_text
    assert "33.3" in page_text
    assert "&lt;b&gt;" not in str(app.selectbox(key="choice_score").options)


def test_types_and_kinds_that_no_gold_has_are_named() -> None:
    keep_made_score()
    page_text = texts(open_page("deidentify", tab="measures"))
    assert "how well they are found: Personal ID code" in page_text
    assert "how well they are found: dates, times of day, sexes, places" in page_text


def test_what_stays_readable_leads_and_a_click_opens_it() -> None:
    golds = gold_notes(24)
    predicted = list(golds)
    for place in range(0, 24, 4):  # the last character of every fourth name stays
        name, *rest = golds[place].spans
        shorter = Span(name.start, name.end - 1, name.label)
        predicted[place] = golds[place].with_spans([shorter, *rest])
    make_score(golds, predicted, title="shortened")
    app = open_page("deidentify", tab="measures")
    assert texts(app).index("6 of 24 identifiers") < texts(app).index("0 of 24")
    press(app, "deid_measures_show_readable")
    assert "1 to 6 of 6" in texts(app) and texts(app).count("Other place") == 6
    assert parameter(app, "part") == "misses" and parameter(app, "readable") == "1"
    again = open_page("deidentify", tab="measures", part="misses", readable="1")
    assert "1 to 6 of 6" in texts(again)
    again.toggle(key="choice_readable").set_value(False).run()
    assert "readable" not in again.query_params


def test_the_paper_stands_beside_the_score() -> None:
    keep_made_score()
    app = open_page("deidentify", tab="measures", part="paper")
    page_text = texts(app)
    assert "Table 3 of the paper" in page_text and "Table 4 of the paper" in page_text
    assert "Table 6 of the paper" not in page_text and "42.64 %" in page_text
    app = open_page("deidentify", tab="measures", part="paper", criterion="strict")
    page_text = texts(app)
    assert "Table 6 of the paper" in page_text and "Table 8 of the paper" in page_text
    assert "84.7 %" in page_text and "32.82 %" in page_text


def test_a_cell_shows_its_spans_only_after_names_are_revealed() -> None:
    keep_made_score()
    app = open_page("deidentify", tab="measures", part="matrix")
    assert parameter(app, "cell") == "0-4"  # what is missed comes first
    assert "hidden; length 4" in texts(app) and "山田太郎" not in texts(app)
    app = open_page("deidentify", tab="measures", part="matrix", cell="1-0", reveal=True)
    page_text = texts(app)
    assert "佐藤花子" in page_text and "<mark" in page_text
    assert "Other type" in page_text and page_text.count("ka-pair") == 4
    assert app.selectbox(key="choice_cell").value == "1-0"
    app.selectbox(key="choice_cell").set_value("4-1").run()
    assert parameter(app, "cell") == "4-1"
    assert "Spurious" in texts(app) and "発熱" in texts(app)


@pytest.mark.long
def test_two_scores_of_the_same_gold_are_compared() -> None:
    golds = gold_notes(24)
    first_score = make_score(golds, predicted_notes(golds), title="one")
    assert "nothing to compare with" in texts(
        open_page("deidentify", tab="measures", part="compare", score=first_score)
    )
    make_score(golds, predicted_notes(golds, step=4), title="other")
    app = open_page("deidentify", tab="measures", part="compare", score=first_score, reveal=True)
    page_text = texts(app)
    # Names of notes 0, 3, 6 ... against 0, 4, 8 ...: both miss 0 and 12.
    assert "only the first misses 6, only the second 4, both 2" in page_text
    assert page_text.count('class="ka-pair') == 6


@pytest.mark.long
def test_any_number_of_scores_stand_side_by_side() -> None:
    golds = gold_notes(24)
    ids = [
        make_score(golds, predicted_notes(golds, step=period), title=title)
        for period, title in ((3, "one"), (4, "<b>two</b>"), (5, "three"))
    ]
    app = open_page("deidentify", tab="measures", part="compare", score=ids[0])
    chart = app.get("plotly_chart")[0].proto.spec
    assert "one" in chart and "three" in chart and "<b>" not in chart
    page_text = texts(app)
    # Of 24 names 8, 6 and 5 stay: 16, 18 and 19 are covered.
    assert all(f"{n}/24" in page_text for n in (16, 18, 19))
    assert page_text.count("minus the other") == 3  # heading, caption and its label
    app.multiselect(key="choice_others").set_value([ids[1]]).run()
    assert parameter(app, "others") == ids[1]
    assert "19/24" not in texts(app)
    again = open_page("deidentify", tab="measures", part="compare", score=ids[0], others=ids[1])
    assert "19/24" not in texts(again) and "18/24" in texts(again)
    assert "newest" not in texts(again)
    for seed in range(6):
        make_score(golds, predicted_notes(golds), seed=seed + 1, n_replicates=2)
    many = open_page("deidentify", tab="measures", part="compare", score=ids[0])
    assert "Of 8 other measurements of these notes the 7 newest" in texts(many)
    assert len(many.multiselect(key="choice_others").options) == 7


def test_packaged_taggers_and_folders_are_called_by_their_own_names() -> None:
    say = words_of("en")
    assert tagger_name(say, "default+ginza+spacy") == "Default tagger + GiNZA + spaCy"
    assert tagger_name(say, "/somewhere/ward") == "ward"


def test_uploads_are_read_checked_and_asked_for(tmp_path: Path) -> None:
    golds = gold_notes(6)
    app = open_page("deidentify", tab="measures")
    app.button_group(key="choice_gold").set_value("given").run()
    box = app.get("file_uploader")[0]
    box.upload("gold.jsonl", b'{"doc_id": "1"}', "application/json").run()
    assert "Cannot be used" in texts(app) or "no <code>text</code>" in texts(app)
    assert not app.exception
    foreign = write_jsonl(golds).replace('"contact"', '"<img src=x>"')
    app.get("file_uploader")[0].upload("g.jsonl", foreign.encode(), "application/json").run()
    page_text = texts(app)
    assert "<img" not in page_text.replace("&lt;img", "")
    assert "none of the five types: &lt;img" in page_text
    assert "deid_measures_start" not in keys(app)
    app.checkbox(key="deid_measures_five_types").uncheck().run()
    assert "1 labels are not in the map" in texts(app)
    press(app, "deid_measures_start")
    (job,) = service.active_jobs()
    order = read_order(job.job_id)
    assert order["gold"]["kind"] == "given" and "山田" not in json.dumps(order)
    ScoreTask.from_order(order).run(quiet())
    (score,) = SCORES.all()
    assert score.summary.n_documents == 6
    assert all("山田" not in str(line) for line in entries())


def test_a_score_of_copies_says_how_faithful_they_are() -> None:
    golds = gold_notes(2)
    outputs = [{"doc_id": note.doc_id, "output": f"{write_tags(note)}</連絡先>"} for note in golds]
    data = "".join(json.dumps(output) + "\n" for output in outputs).encode()
    upload = keep_outputs(data, subject="predicted notes")
    score_id = make_score(golds, Source(kind="outputs", ref=upload.digest))
    page_text = texts(open_page("deidentify", tab="measures"))
    assert "2 tags are malformed. 0 tagged spans" in page_text and "Of 10 tags in all" in page_text
    row = re.search("Closed, never opened.*?</tr>", page_text, re.DOTALL)
    assert row and ">2<" in row[0] and "20.0\N{NO-BREAK SPACE}%" in row[0]
    path, content = SCORES.place(score_id) / "score.json", content_of(score_id)
    del content["copies"]["tags"]
    path.write_text(json.dumps(content))
    app = open_page("deidentify", tab="measures", score=score_id)
    assert "2 tags are malformed" not in texts(app) and not app.exception


def test_a_link_to_a_score_that_is_gone_and_its_removal() -> None:
    score_id = keep_made_score()
    app = open_page("deidentify", tab="measures", score="0" * 12)
    assert "not kept here" in texts(app)
    assert parameter(app, "score") == score_id
    press(app, "deid_measures_remove_now")
    assert not SCORES.all()
    assert "Nothing has been measured yet" in texts(app)
    assert entries(1)[0].action == "removed"


def test_published_results_are_shown_and_a_leakage_experiment_can_be_asked_for() -> None:
    app = open_page("deidentify", tab="measures")
    page_text = texts(app)
    assert "139,149" in page_text and "42.64" in page_text
    assert page_text.count(">95.7") == 1 and "1,133" in page_text
    app = open_page("workshop", tab="leakage")
    assert "not been run here yet" in texts(app)
    press(app, "deid_leakage_run_now")
    (job,) = service.active_jobs()
    order = LeakageTask.from_order(read_order(job.job_id))
    assert (order.language, order.epochs, "rules" in order.taggers) == ("en", 4.0, True)


@pytest.mark.parametrize(
    ("lang", "sentence"),
    [("en", "Name replaced everywhere"), ("ja", "氏名がすべて置き換えられた患者")],
)
def test_kept_tables_of_leakage_are_shown(lang: str, sentence: str) -> None:
    LEAKAGE.keep_files("0" * 12, tiny_tables().files())
    app = open_page("workshop", tab="leakage", lang=lang)
    assert sentence in texts(app)
    assert len(app.get("plotly_chart")) == 1
    assert "2 / 4" in texts(app)
