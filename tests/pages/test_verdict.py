"""The Verdict page: the answer, what was decided, what is handed over, and who took what."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest
from streamlit.testing.v1 import AppTest

from audit import access_log
from audit.errors import Message
from audit.home import DEMO_HOSPITAL, data_home, results_dir
from audit.jobs import service, table
from audit.jobs.table import read_order
from audit.models.inspect import compute_model_digest
from audit.progress import Progress
from audit.rejudge import JudgeTask
from audit.report.decision import read_decision
from audit.report.html import ReportChoice, report_html
from audit.report.report import AuditReport
from cache.store import Store
from pages.ui.state import words_of
from tests.deid.make_scores import quiet
from tests.pages.make_reports import (
    MEMBERS,
    Reports,
    keep,
    keep_demo,
    make_inspection,
    make_names,
    make_report,
    make_special_names,
)
from tests.pages.screen import (
    HOSTILE,
    downloads,
    keys,
    links,
    open_page,
    parameter,
    press,
    read_figure,
    texts,
)

SAY = words_of("en")
RIBBON = '<p class="ka-ribbon"'
FOLDS = ("numbers", "strongest", "limits", "judge_again", "log", "recent", "report")


def opened(*folds: str, **query: str) -> AppTest:
    """Open the page with sections unfolded, as a link does."""
    return open_page("verdict", **query, **dict.fromkeys(folds, "true"))


def preview(app: AppTest) -> str:
    return str(app.get("iframe")[0].proto.srcdoc)


# --- the answer ---


def test_the_sentence_comes_first_and_all_else_is_folded_until_a_link_opens_it(
    reports: Reports,
) -> None:
    app, verdict = open_page(), reports["masked_lm"].verdict
    page_text = texts(app)
    assert '<section class="ka-verdict ka-leak_found">' in page_text
    assert page_text.index(RIBBON) < page_text.index(f">{verdict.in_short('en')}</p>")
    assert page_text.index(verdict.in_short("en")) < page_text.index(verdict.next_step("en"))
    assert reports["generation"].verdict.in_short("en") in page_text
    assert len(app.get("plotly_chart")) == 1 and verdict.facts("en") not in page_text
    app = opened(*FOLDS)
    page_text = texts(app)
    assert verdict.facts("en") in page_text
    n_drawn = reports["masked_lm"].candidates.n_reference
    assert (
        n_drawn
        and f"{SAY.text('figure_reference')}</td><td" in page_text
        and f">{n_drawn}<" in page_text
    )
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    assert reports["masked_lm"].digest in page_text  # behind the details
    app.selectbox[0].set_value(reports["generation"].digest).run()
    assert not app.exception
    assert parameter(app, "audit") == reports["generation"].digest[:12]
    assert texts(app).index("Scenario 1:") < texts(app).index("Scenario 2:")


def test_a_dot_of_the_chart_tells_its_name_masked_until_names_are_revealed(
    reports: Reports,
) -> None:
    table = reports["masked_lm"].table
    for is_revealed in (False, True):
        app = open_page(audit=reports["masked_lm"].digest[:12])
        app.session_state["is_revealed"] = is_revealed
        app.run()
        dots = [t for t in read_figure(app)["data"] if t.get("customdata")]
        facts = [tuple(fact) for trace in dots for fact in trace["customdata"]]
        assert len(dots) == 3 and len(facts) == len(table)
        label = "P-0002 · Sophia0 Wright0" if is_revealed else "P-0002 · S*** W***"
        assert (0, label, f"{table['n_mentions'][0]:.0f}") in facts
        assert is_revealed == any(part in str(facts) for name in MEMBERS for part in name)
        hovers = [trace["hovertemplate"] for trace in dots]
        assert "Member · mentions: %{customdata[2]}<br>score: %{x:.3g}" in hovers[0]
        assert "Easy control" in hovers[1] and "Hard control" in hovers[2]


@pytest.mark.long
def test_own_audits_come_before_the_demo_and_a_link_to_none_is_never_repeated(
    reports: Reports,
) -> None:
    old = make_report(2, leak=0.0, hospital="own", at="2026-01-01T00:00:00+00:00")
    newer = make_report(2, leak=0.0, hospital="own", at="2026-01-02T00:00:00+00:00")
    keep(old, newer)
    app = opened("recent")
    page_text = texts(app)
    assert parameter(app, "audit") == newer.digest[:12]
    assert "This audit cannot tell, because" in page_text and RIBBON not in page_text
    assert page_text.count("Made-up hospital (demo)") == 2
    of_demo = [" · demo · " in label for label in app.selectbox[0].options]
    assert of_demo == [False, False, True, True]
    assert all(" own · " in label for label in app.selectbox[0].options[:2])
    assert all("40 epochs of the notes" in label for label in app.selectbox[0].options[2:])
    app = open_page("verdict", audit="<b>evil</b>")
    assert SAY.text("wrong_link") in texts(app) and "evil" not in texts(app)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_what_a_verdict_rests_on_stands_under_it_with_what_it_leaves_open(language: str) -> None:
    say = words_of(language)
    report = make_report(2, leak=0.0, names=make_special_names(200))
    keep(report)
    verdict = report.verdict
    bounds = verdict.bounds(language)
    assert len(bounds) == 2 and verdict.positive_controls
    page_text = texts(opened("numbers", lang=language)).replace("&#x27;", "'")
    lines = [verdict.of_controls(language), verdict.condition(language), *bounds]
    assert all(f"<li>{line}</li>" in page_text for line in lines)
    assert say.text("positive") in page_text and say.text("guards_spelling") in page_text
    with_percent = [line for line in lines if "5\N{NO-BREAK SPACE}%" in line]
    assert with_percent == [verdict.condition(language)]


@pytest.mark.long
def test_names_worth_a_look_are_shown_where_a_leak_is_found_alone() -> None:
    names = make_names()
    strong, weak = (make_report(2, leak=leak, names=names) for leak in (1.5, 0.0))
    keep(strong, weak)
    look = SAY.text("names_decision_of_worth_a_look")
    n_flagged = strong.verdict.n_flagged
    assert strong.verdict.n_worth_a_look > 10 > n_flagged > 0
    page_text = texts(opened("strongest", audit=strong.digest[:12]))
    assert page_text.count(f">{look}<") == 10 - n_flagged
    page_text = texts(opened("strongest", audit=weak.digest[:12]))
    assert look not in page_text and "No name stands out or is worth a look" in page_text


def test_a_verdict_of_an_older_rule_says_so() -> None:
    report = make_report(2)
    old = {"state": "none_found_at_this_power", "english": "x", "japanese": "y"}
    keep(report.changed(verdict=old))
    page_text = texts(opened("numbers", "recent"))
    assert page_text.count("None found at this power (rule of version 1)") == 3
    assert SAY.text("older_rule", rule=1) in page_text and SAY.text("bounds") not in page_text


@pytest.mark.long
def test_an_audit_is_judged_again_with_another_source_and_its_new_report_is_opened() -> None:
    report = make_report(2)
    keep(report, inspection=make_inspection(report))
    app = opened("judge_again")
    source = app.radio(key=f"judge_source_{report.digest[:12]}")
    assert source.value == "invented"
    source.set_value("drawn").run()
    press(app, f"judge_{report.digest[:12]}")
    (job,) = service.active_jobs()
    assert (job.kind, job.scenario, job.device) == ("judge", 2, "short")
    assert table.claim(job.job_id)
    task = JudgeTask.from_order(read_order(job.job_id))
    table.end(job.job_id, state="done", result=task.run(quiet()))
    app.run()
    assert not app.exception
    assert parameter(app, "audit") == task.question().digest[:12] != report.digest[:12]
    assert "names stand out, membership not shown" in texts(app).lower()
    # Asked once more, the kept report answers at once.
    app = opened("judge_again", audit=report.digest[:12])
    app.radio(key=f"judge_source_{report.digest[:12]}").set_value("drawn").run()
    press(app, f"judge_{report.digest[:12]}")
    assert not service.active_jobs()
    assert parameter(app, "audit") == task.question().digest[:12]


@pytest.mark.long
def test_a_scenario_that_was_not_run_is_one_click_away_with_all_else_taken_over() -> None:
    names = {"general": "general", "hospital": "hospital-40"}
    folder = DEMO_HOSPITAL / "en" / "models"
    models = {
        role: {"name": name, "digest": compute_model_digest(folder / name)}
        for role, name in names.items()
    }
    keep(make_report(2).changed(models=models))
    app = open_page()
    query = next(query for label, _, query in links(app) if label == SAY.text("no_other_run"))
    parameters = parse_qs(query)
    assert parameters["scenario"] == ["1"]
    assert [parameters[role] for role in names] == [[f"demo:en/{name}"] for name in names.values()]
    assert "says nothing about the other" in texts(app)


@pytest.mark.long
def test_names_are_masked_models_escaped_and_without_truth_there_are_no_rates() -> None:
    members = [(HOSTILE, "Wright"), *MEMBERS[1:]]
    keep(make_report(2, hospital=HOSTILE, members=members, notes=[f"{HOSTILE} in a note"]))
    app = opened(*FOLDS[:5])
    page_text = texts(app)
    assert "S*** W***" in page_text
    assert not any(part in page_text for member in MEMBERS for part in member)
    assert "<img" not in page_text and "&lt;img src=x&gt;" in page_text
    labels = [*(x.value for x in app.markdown), *(x.value for x in app.caption)]
    assert not any("evil" in label for label in labels)
    keep(make_report(2, has_truth=False))
    page_text = texts(opened("numbers"))
    assert SAY.text("numbers_no_truth") in page_text and SAY.text("figure_tpr") not in page_text


def test_notes_of_a_run_are_japanese_on_the_screen_and_in_the_report() -> None:
    note = Message("{n_left_out} rows of the passage file were left out.", n_left_out=3)
    report = make_report(2, notes=[note.dump(), "Something <new>."])
    keep(report)
    printed = report_html(report, choice=ReportChoice(language="ja"), other=None)
    for page_text in (texts(opened("limits", lang="ja")), printed):
        assert "文章のファイルから 3 行を除きました。" in page_text and note not in page_text
        assert "Something &lt;new&gt;." in page_text  # what has no translation stays
    assert note in report_html(report, choice=ReportChoice(language="en"), other=None)


# --- before there is one ---


@pytest.mark.long
def test_the_first_audit_is_followed_and_one_that_failed_says_why() -> None:
    app = open_page()
    assert SAY.text("no_audit") in texts(app)
    press(app, "run_demo")
    (job,) = service.jobs()
    assert (job.kind, job.state) == ("demo", "queued")
    assert table.claim(job.job_id)
    table.note_progress(job.job_id, Progress("scoring names", 1, 4, 60.0))
    app = open_page()
    assert SAY.text("first_running") in texts(app) and "run_demo" not in keys(app)
    assert app.get("progress")[0].proto.value == 25
    assert SAY.text("first_running") in texts(open_page("measures"))
    service.cancel(job.job_id)
    assert table.end(job.job_id, state="cancelled")
    app = open_page()
    assert SAY.text("jobs_state_cancelled") in texts(app) and app.button(key="run_demo")


def test_it_shows_the_verdict_as_soon_as_the_first_audit_of_a_job_is_kept(
    demo_reports: Reports,
) -> None:
    press(open_page(), "run_demo")
    app = open_page()
    keep(demo_reports["masked_lm"])
    app.run()
    assert demo_reports["masked_lm"].verdict.in_short("en") in texts(app)
    keep_demo({"masked_lm": demo_reports["masked_lm"]})
    app.run()
    assert SAY.text("no_other_yet") in texts(app).replace("&#x27;", "'")


# --- the decision ---


def read_kept_decision(report: AuditReport) -> Any:
    return read_decision([report.digest], store=Store(results_dir()))


UNSAVED = "ka-brand ka-unsaved"
"""The mark by which the browser knows that it is to ask before it leaves."""


def choose(app: AppTest, code: str, *, reasons: str) -> AppTest:
    """Decide, and press the button that keeps it."""
    next(widget for widget in app.radio if widget.key.startswith("decision_choice_")).set_value(
        code
    )
    next(widget for widget in app.text_area if widget.key.startswith("decision_")).set_value(
        reasons
    )
    return press(app, "decision_keep")


def sign_as(app: AppTest, name: str) -> AppTest:
    next(widget for widget in app.text_input if widget.key.startswith("decision_name_")).set_value(
        name
    )
    return press(app, "decision_sign_now")


@pytest.mark.long
def test_a_decision_is_kept_signed_and_on_page_one_of_the_report(reports: Reports) -> None:
    report = reports["masked_lm"]
    refusal = texts(press(open_page(), "decision_keep"))
    assert "Choose one of the four." in refusal and "decision: " not in refusal
    assert SAY.text("verdict_names") in [label for label, _, _ in links(open_page())]
    app = choose(opened("report"), "retrain", reasons=f"First line\n{HOSTILE}")
    assert (read_kept_decision(report).recommendation, read_kept_decision(report).signatures) == (
        "retrain",
        (),
    )
    assert UNSAVED not in texts(app)
    sign_as(app, "A. Auditor <b>")
    assert SAY.text("decision_signed") in texts(app) and "A. Auditor &lt;b&gt;" in texts(app)
    assert [
        (signature.name, signature.role) for signature in read_kept_decision(report).signatures
    ] == [("A. Auditor <b>", "auditor")]
    page_text = preview(app)
    assert "First line<br>![x](http://evil.example/p.png)&lt;img src=x&gt;" in page_text
    assert page_text.index("A. Auditor &lt;b&gt;") < page_text.index('<div class="page">')
    sign_as(app, "a. auditor <B>")  # nobody signs twice
    assert (
        SAY.text("decision_refused") in texts(app)
        and len(read_kept_decision(report).signatures) == 1
    )
    sign_as(app, "O. Officer")
    assert [signature.role for signature in read_kept_decision(report).signatures] == [
        "auditor",
        "officer",
    ]
    press(app, "decision_withdraw_officer")
    assert [signature.role for signature in read_kept_decision(report).signatures] == ["auditor"]
    choose(app, "no_release", reasons="Other reasons")
    assert read_kept_decision(report).signatures == ()
    actions = [entry.action for entry in access_log.entries(audit=report.digest)]
    assert actions.count("decided") == 2 and actions.count("signed") == 2


def test_reasons_outlast_a_visit_to_another_page_and_what_another_decides_is_not_overwritten(
    reports: Reports,
) -> None:
    app, other_session = open_page(), open_page()
    area = next(widget for widget in app.text_area if widget.key.startswith("decision_"))
    assert UNSAVED not in texts(app)
    area.set_value("Half a thought").run()
    assert UNSAVED in texts(app)
    app.switch_page("../method.py").run()
    assert UNSAVED in texts(app)
    app.switch_page("../verdict.py").run()
    assert area.key in [widget.key for widget in app.text_area if widget.value == "Half a thought"]
    choose(other_session, "release", reasons="")
    assert "a release despite it needs reasons" in texts(other_session)
    assert not read_kept_decision(reports["masked_lm"]).recommendation
    choose(other_session, "release", reasons="Two are known.")
    choose(app, "retrain", reasons="Mine")
    assert SAY.text("decision_refused") in texts(app) and "Somebody else" in texts(app)
    assert read_kept_decision(reports["masked_lm"]).recommendation == "release"
    assert "Changed elsewhere just now: “Release the model”" in texts(app)
    assert SAY.text("decision_draft_kept") in texts(app) and "decision_keep" not in keys(app)
    assert next(box for box in app.text_area if box.key == area.key).value == "Mine"
    press(app, "decision_replace")  # now in full knowledge of the other's
    assert read_kept_decision(reports["masked_lm"]).reasons == "Mine"
    assert SAY.text("decision_unsaved") not in texts(app)
    choose(other_session, "no_release", reasons="Theirs")  # has not seen it
    assert read_kept_decision(reports["masked_lm"]).reasons == "Mine"
    press(other_session, "decision_take_over")
    assert next(box for box in other_session.text_area if box.key == area.key).value == "Mine"


def test_both_scenarios_show_one_decision_and_the_verdicts_it_rests_on(reports: Reports) -> None:
    first, second = reports["generation"], reports["masked_lm"]
    app = opened(audit=first.digest[:12])
    for number in (1, 2):
        assert SAY.html("scenario_short", number=number) in texts(app)
    choose(app, "no_release", reasons="One for both")
    app = opened(audit=second.digest[:12])
    assert next(box for box in app.text_area if box.key.startswith("decision_")).value == (
        "One for both"
    )
    choose(app, "retrain", reasons="Changed on the other")
    assert "Earlier decisions (1)" in [box.label for box in app.expander]
    for report in (first, second):
        assert read_kept_decision(report).reasons == "Changed on the other"
    assert "Saved by" in texts(opened(audit=first.digest[:12]))


# --- what is handed over ---


def test_the_preview_is_the_report_in_its_language_and_every_file_can_be_had(
    reports: Reports,
) -> None:
    app = opened("report", lang="ja")
    assert reports["masked_lm"].digest in preview(app)
    assert reports["generation"].digest[:12] in preview(app)
    assert '<html lang="ja">' in preview(app)
    assert not any(part in preview(app) for member in MEMBERS for part in member)
    files = ("zip", "folder", "html", "names_csv", "measures_csv", "json")
    downloads_closed = {
        key: is_closed for key, is_closed in downloads(app).items() if "report" in key
    }
    assert downloads_closed == dict.fromkeys((f"report_{file}" for file in files), False)
    app.button_group(key="choice_report_language").set_value("en").run()
    assert not app.exception
    assert '<html lang="en">' in preview(app)
    assert "Demonstration on a made-up hospital" in preview(app)
    app.checkbox(key="report_section_glossary").uncheck().run()
    assert "12 Glossary" not in preview(app)


@pytest.mark.long
def are_closed(app: AppTest) -> bool:
    """Whether no file of the report is handed out."""
    return all(closed for key, closed in downloads(app).items() if key.startswith("report_"))


def test_names_in_full_say_why_they_are_closed_and_need_a_second_consent(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = opened("report")
    assert any("Reveal names at the left first" in caption for caption in captions(app))
    names, consent = (
        f"report_{control}_{reports['masked_lm'].digest}" for control in ("names", "full_confirm")
    )
    app.radio(key=names).set_value("full").run()
    assert are_closed(app) and not app.get("iframe")
    app.session_state["is_revealed"] = True
    app.run()
    assert are_closed(app)
    assert SAY.text("report_full_agree") in texts(app)
    app.checkbox(key=consent).check().run()
    assert not any(downloads(app).values())
    assert "Wright0" in preview(app) and "Confidential" in preview(app)
    app.selectbox[0].set_value(reports["generation"].digest).run()  # another audit, asked anew
    other_key = f"report_names_{reports['generation'].digest}"
    assert app.radio(key=other_key).value == "masked" and "Wright0" not in preview(app)
    app.radio(key=other_key).set_value("full").run()
    assert are_closed(app) and not app.get("iframe")
    monkeypatch.setattr("pages.ui.access.role", lambda: "reader")
    app = open_page()
    assert any("only an auditor" in caption for caption in captions(app))
    assert "decision_keep" not in keys(app)
    assert SAY.text("role_reader") in texts(app)


def captions(app: AppTest) -> list[str]:
    return [
        caption
        for box in app.radio
        if box.key.startswith("report_names_")
        for caption in box.proto.captions
    ]


# --- the access log ---


def test_the_log_shows_what_was_taken_and_page_views_when_asked_and_whether_it_is_whole(
    reports: Reports,
) -> None:
    digest = reports["masked_lm"].digest
    for person in ("anna", "<img src=x>"):
        access_log.record("exported", who=person, audit=digest, what="zip", n_names=3)
    access_log.record("opened", who="anna", audit=digest, page="audit")
    app = opened("log")
    page_text = texts(app)
    assert "The access log is intact" in page_text and "&lt;img src=x&gt;" in page_text
    assert f"downloaded files · 3 names · {SAY.text('report_zip')}" in page_text
    assert "opened a page" not in page_text and "<img" not in page_text
    app.button_group(key="choice_log_of").set_value("all").run()
    assert "opened a page · Verdict" in texts(app) and "opened a page · New audit" in texts(app)
    assert SAY.html("log_nameless") in texts(app)
    views = [entry for entry in access_log.entries(audit=digest) if entry.action == "opened"]
    assert [dict(entry.counts) for entry in views] == [{"page": "verdict"}, {"page": "audit"}]
    log = data_home() / "access" / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"anna", b"bert", 1))
    assert "does not fit together from line 1 on" in texts(opened("log"))
