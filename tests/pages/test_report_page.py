"""The Report page: what can be handed over, what cannot, and what is written down about it."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from audit import access_log
from audit.home import data_home
from pages.ui.language import words_of
from tests.pages.make_reports import MEMBERS, Reports
from tests.pages.screen import HOSTILE, downloads, open_page, texts


def preview(app: AppTest) -> str:
    return app.get("iframe")[0].proto.srcdoc


def test_the_preview_is_the_report_and_every_file_can_be_had(reports: Reports) -> None:
    app = open_page("report")
    assert reports["masked_lm"].digest in preview(app)
    assert reports["generation"].digest[:12] in preview(app)
    assert "Demonstration on a made-up hospital" in preview(app)
    assert not any(part in preview(app) for member in MEMBERS for part in member)
    assert downloads(app) == dict.fromkeys(
        ("report_zip", "report_html", "report_names_csv", "report_measures_csv", "report_json"),
        False,
    )
    app = open_page("report", lang="ja")
    assert '<html lang="ja">' in preview(app)
    app.button_group(key="report_language").set_value("en").run()
    assert not app.exception
    assert '<html lang="en">' in preview(app)
    assert app.title[0].value == words_of("ja").text("report_title")


def test_what_the_auditor_writes_stands_in_the_report_escaped_and_survives_another_page(
    reports: Reports,
) -> None:
    app = open_page("report")
    app.radio(key="report_recommendation").set_value("retrain").run()
    app.text_area(key="report_reasons").set_value(f"First line\n{HOSTILE}").run()
    app.text_input(key="report_auditor").set_value("A. Auditor <b>").run()
    shown = preview(app)
    assert "First line<br>![x](http://evil.example/p.png)&lt;img src=x&gt;" in shown
    assert "A. Auditor &lt;b&gt;" in shown
    assert shown.count("☒") == 1
    app.switch_page("../overview.py").run()
    app.switch_page("../report.py").run()
    assert app.text_input(key="report_auditor").value == "A. Auditor <b>"
    assert app.radio(key="report_recommendation").value == "retrain"


def test_names_in_full_need_revealing_and_a_second_consent(reports: Reports) -> None:
    app = open_page("report")
    app.radio(key="report_names").set_value("full").run()
    assert all(downloads(app).values())
    assert "Wright" not in preview(app)
    assert "can be handed over only once they are revealed" in texts(app)
    app.session_state["is_revealed"] = True
    app.run()
    assert all(downloads(app).values())
    assert "Wright" not in preview(app)
    app.checkbox(key="report_full_confirm").check().run()
    assert not any(downloads(app).values())
    assert "Wright0" in preview(app)
    assert "Confidential" in preview(app)


def test_opening_is_logged_once_and_the_log_is_shown_as_whole_or_tampered_with(
    reports: Reports,
) -> None:
    digest = reports["masked_lm"].digest
    for person in ("anna", "<img src=x>"):
        access_log.record("exported", who=person, audit=digest, what="zip")
    app = open_page("report")
    app.run()
    opened = [
        entry.action
        for entry in access_log.entries(audit=digest)
        if dict(entry.counts).get("page") == "report"
    ]
    assert opened == ["opened"]
    assert "The access log is whole" in texts(app)
    assert "opened a page" in texts(app)
    log = data_home() / "access" / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"anna", b"bert", 1))
    app = open_page("report")
    assert "does not fit together from line 1 on" in texts(app)
    assert "&lt;img src=x&gt;" in texts(app)
    assert "<img" not in texts(app)
