"""The Measures page through Streamlit's own tester."""

from __future__ import annotations

import pytest

from audit.report.report import AuditReport
from pages.ui.language import words_of
from tests.pages.make_reports import (
    MEMBERS,
    Reports,
    keep,
    make_reference_reports,
    make_report,
    make_special_names,
)
from tests.pages.screen import HOSTILE, open_page, parameter, press, texts

TABS = ("tables", "threshold", "roc", "mentions", "curve", "linking", "calibration", "compare")
CHARTS = {"threshold": 1, "roc": 1, "mentions": 1, "curve": 1, "linking": 1, "calibration": 1}


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("which", ["masked_lm", "generation"])
def test_every_view_opens_from_its_link(
    reports: Reports, tab: str, which: str, language: str
) -> None:
    app = open_page("measures", tab=tab, audit=reports[which].digest[:12], lang=language)
    say = words_of(language)
    shown = texts(app)
    assert say.html(f"measures_below_{tab}") in shown
    n_charts = 0 if (tab, which) == ("linking", "generation") else CHARTS.get(tab, 0)
    assert len(app.get("plotly_chart")) == n_charts
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    assert not any(part in shown for member in MEMBERS for part in member)
    assert parameter(app, "tab") == tab


def test_counts_are_the_reports_and_nonsense_in_the_link_is_left_alone(reports: Reports) -> None:
    nonsense = {"tab": "<b>", "score": "evil", "stratum": "evil", "t": "nan", "other": "evil"}
    shown = texts(open_page("measures", **nonsense))
    assert "evil" not in shown
    rules = reports["masked_lm"].measures.strata["hard"].rules
    counts = rules["difference_above_zero"].confusion
    row = "".join(f'<td class="ka-number">{count}</td>' for count in counts.four)
    assert row in shown
    assert "105 / 25 / 86 / 44" in shown  # the paper's table 1


def test_the_threshold_comes_from_the_link_and_buttons_move_everything(reports: Reports) -> None:
    app = open_page("measures", tab="threshold", t="100.0")
    assert app.number_input(key="measures_exact").value == 100.0
    assert app.slider(key="measures_slider").value < 100.0  # held inside its ends
    assert ">0</td>" in texts(app)
    press(app, "measures_use_fdr")
    flagged = reports["masked_lm"].verdict.n_flagged
    assert f'<td class="ka-number">{flagged}</td>' in texts(app)
    exact = app.number_input(key="measures_exact").value
    assert app.slider(key="measures_slider").value == pytest.approx(exact)
    assert float(parameter(app, "t")) == exact
    app.number_input(key="measures_exact").set_value(-100.0).run()
    assert not app.exception
    assert f'<td class="ka-number">{len(MEMBERS)}</td>' in texts(app)
    app.slider(key="measures_slider").set_value(0.0).run()
    assert app.number_input(key="measures_exact").value == 0.0

    app = open_page("measures", tab="threshold", t="1.5", score="log_ratio")
    assert app.number_input(key="measures_exact").value == 1.5
    app.selectbox(key="measures_score").set_value("hospital_posterior").run()
    assert not app.exception
    assert app.number_input(key="measures_exact").value != 1.5
    assert parameter(app, "score") == "hospital_posterior"
    assert app.button(key="measures_use_fdr").disabled


@pytest.mark.parametrize("measure", ["f1", "precision", "recall"])
def test_rules_are_followed_along_the_attack(reports: Reports, measure: str) -> None:
    made = reports["generation"]
    older = make_report(1, at="2026-11-19T10:00:00+00:00").to_json()["curve"]  # rules without F1
    for point in older:
        point["strata"]["hard"]["rules"] = {}
        for rule in point["strata"]["all"]["rules"].values():
            del rule["f1"]
    old = make_report(1, at="2026-11-19T10:00:00+00:00").changed(curve=older)
    keep(old)
    say, view = words_of("en"), {"tab": "curve", "measure": measure}
    shown = texts(open_page("measures", audit=made.digest[:12], **view))
    for name, rule in made.measures.strata["all"].rules.items():
        reached = rule.f1 if measure == "f1" else getattr(rule.confusion, measure)
        assert f">{reached.value:.3f}</td>" in shown and say.html(f"measures_rule_{name}") in shown
    app = open_page("measures", audit=old.digest[:12], **view)
    assert not app.exception
    app = open_page("measures", audit=old.digest[:12], stratum="hard", **view)
    assert say.html("measures_no_curve") in texts(app)


def test_a_list_without_truth_says_what_is_missing() -> None:
    keep(make_report(2, has_truth=False))
    say = words_of("en")
    for tab in ("tables", "roc", "curve", "mentions"):
        assert say.html("measures_no_truth") in texts(open_page("measures", tab=tab))
    app = open_page("measures", tab="threshold")
    assert say.html("measures_no_truth") in texts(app) and not app.get("plotly_chart")
    assert app.button(key="measures_use_youden").disabled
    assert say.html("measures_no_controls_do") in texts(open_page("measures", tab="calibration"))
    assert say.html("measures_no_linking") in texts(open_page("measures", tab="linking"))
    for tab in ("canaries", "references"):  # how to come by them is told with truth or without
        assert say.html(f"measures_no_{tab}") in texts(open_page("measures", tab=tab))
    assert say.text("measures_roles") not in texts(open_page("measures", tab="tables"))
    assert say.html("measures_no_other") in texts(open_page("measures", tab="compare"))


def test_two_audits_are_paired_and_only_differences_shown() -> None:
    members = [(HOSTILE, "Wright"), *MEMBERS[1:]]
    leak = make_report(2, members=members, hospital=HOSTILE)
    quiet = make_report(2, leak=0.0, members=members, hospital="quiet")
    keep(leak, quiet)
    app = open_page("measures", tab="compare", audit=leak.digest[:12], other=quiet.digest[:12])
    shown = texts(app)
    assert "&lt;img src=x&gt;" in shown  # the hospital model's name among the settings
    assert "<img" not in shown
    table = app.dataframe[0].value
    assert not any(quiet.stands_out)
    assert len(table) == sum(leak.stands_out) >= leak.verdict.n_flagged > 0
    assert table["Name"][0] == "!*** W***"
    app.toggle(key="measures_only_different").set_value(False).run()
    assert len(app.dataframe[0].value) == leak.n_names


@pytest.fixture(scope="module", params=[1, 2])
def special(request: pytest.FixtureRequest) -> AuditReport:
    return make_report(request.param, names=make_special_names())


@pytest.mark.parametrize("language", ["en", "ja"])
def test_canaries_are_shown_with_their_limits_and_not_in_the_tables(
    special: AuditReport, language: str
) -> None:
    keep(special)
    app = open_page("measures", audit=special.digest[:12], tab="canaries", lang=language)
    record = special.details.canaries
    assert record is not None and record.sentence(language) in texts(app)
    fixed = record.scores[special.fixed_score]
    found = fixed.whole.found
    assert f"{found.n_hits} / {found.n_total} ·" in texts(app)
    assert f"{fixed.max_bits:.2f}" in texts(app)
    assert len(app.get("plotly_chart")) == 1
    names = app.dataframe[0].value
    assert len(names) == record.n_planted and names.iloc[0, 0] == "P-0074"
    assert "Nevah0" not in str(names.values.tolist())

    app = open_page("measures", audit=special.digest[:12], tab="tables", lang=language)
    words = words_of(language)
    assert words.text("kind_canary") not in texts(app)
    assert words.text("measures_roles") in texts(app)
    for role in special.details.roles:
        assert role.role in texts(app)
        assert f"{role.flagged.n_hits} / {role.flagged.n_total} ·" in texts(app)


def test_references_are_set_beside_the_own_audit() -> None:
    own, other = make_reference_reports("general", f"better {HOSTILE}")
    stranger = make_report(2, hospital="elsewhere").changed(question={"scenario": 2})
    keep(own, other, stranger)
    app = open_page("measures", audit=own.digest[:12], tab="references")
    shown = texts(app)
    assert words_of("en").text("measures_references_own") in shown
    assert "better ![x]" in shown and "<img src=x>" not in shown
    for report in (own, other):
        auc = report.measures.strata["hard"].scores[report.fixed_score].auc.value
        assert f"{auc:.3f}" in shown
    assert other.digest[:12] in shown and stranger.digest[:12] not in shown
