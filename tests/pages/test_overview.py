"""The Overview page through Streamlit's own tester."""

from __future__ import annotations

from audit.errors import Message
from audit.report.html import ReportChoice, report_html
from tests.pages.make_reports import MEMBERS, Reports, keep, make_report
from tests.pages.screen import HOSTILE, open_page, parameter, texts

RIBBON = '<p class="ka-ribbon"'


def test_the_demo_audit_is_shown_with_the_other_scenario_beside_it(reports: Reports) -> None:
    app = open_page("overview")
    shown = texts(app)
    assert '<section class="ka-verdict ka-leak_found">' in shown
    assert ">Leak found</p>" in shown
    first, second = (shown.index(reports[k].digest[:12]) for k in ("masked_lm", "generation"))
    assert first < second
    sentence = reports["masked_lm"].verdict.english.partition(": ")[2]
    assert sentence[1:].replace(" %", "\N{NO-BREAK SPACE}%") in shown
    assert shown.count(RIBBON) == 1
    assert "Made-up hospital" in shown
    assert len(app.get("plotly_chart")) == 2
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    app.selectbox[0].set_value(reports["generation"].digest).run()
    assert not app.exception
    assert parameter(app, "audit") == reports["generation"].digest[:12]
    assert texts(app).index("Scenario 1:") < texts(app).index("Scenario 2:")


def test_own_audits_come_before_the_demo_and_a_link_to_none_is_never_repeated(
    reports: Reports,
) -> None:
    old = make_report(2, leak=0.0, hospital="own", at="2026-01-01T00:00:00+00:00")
    newer = make_report(2, leak=0.0, hospital="own", at="2026-01-02T00:00:00+00:00")
    keep(old, newer)
    app = open_page("overview")
    shown = texts(app)
    assert f"audit {newer.digest[:12]}" in shown
    assert RIBBON not in shown
    assert shown.count("Made-up hospital (demo)") == 2
    assert [label.startswith("Made-up hospital") for label in app.selectbox[0].options] == [
        False, False, True, True
    ]  # fmt: skip
    of_demo = open_page("overview", audit=reports["masked_lm"].digest[:12])
    assert texts(of_demo).index(RIBBON) < texts(of_demo).index('<section class="ka-verdict')

    app = open_page("overview", audit="<b>evil</b>")
    assert "This link fits no audit" in texts(app)
    assert "evil" not in texts(app)
    assert not app.get("plotly_chart")


def test_names_are_masked_models_escaped_and_without_truth_there_are_no_rates() -> None:
    members = [(HOSTILE, "Wright"), *MEMBERS[1:]]
    report = make_report(2, hospital=HOSTILE, members=members, notes=[f"{HOSTILE} in a note"])
    keep(report)
    app = open_page("overview")
    shown = texts(app)
    assert "S*** W***" in shown
    assert not any(part in shown for member in MEMBERS for part in member)
    assert "<img" not in shown
    assert "&lt;img src=x&gt;" in shown
    labels = [*(x.value for x in app.markdown), *(x.value for x in app.caption)]
    assert not any("evil" in label for label in labels)

    keep(make_report(2, has_truth=False))
    app = open_page("overview")
    shown = texts(app)
    assert "Who is a member is not known" in shown
    assert "The other scenario has not been run" in shown
    assert "Published" not in shown
    assert len(app.get("plotly_chart")) == 1


def test_notes_of_a_run_are_japanese_on_the_screen_and_in_the_report() -> None:
    note = Message("{n_left_out} rows of the passage file were left out.", n_left_out=3)
    report = make_report(2, notes=[note.plain(), "Something <new>."])
    keep(report)
    printed = report_html(report, choice=ReportChoice(language="ja"), other=None)
    for shown in (texts(open_page("overview", lang="ja")), printed):
        assert "文章のファイルから 3 行を除きました。" in shown and note not in shown
        assert "Something &lt;new&gt;." in shown  # what has no translation stays
    assert note in report_html(report, choice=ReportChoice(language="en"), other=None)
