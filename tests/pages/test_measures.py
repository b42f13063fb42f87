"""The Measures page through Streamlit's own tester."""

from __future__ import annotations

from typing import Any

import pytest

from audit.names.candidates import make_candidates
from audit.report.compare import MAX_REFERENCES
from audit.report.report import AuditReport
from pages.ui import section
from pages.ui.state import words_of
from tests.pages.make_reports import (
    MEMBERS,
    Reports,
    keep,
    make_reference_reports,
    make_report,
    make_special_names,
)
from tests.pages.screen import HOSTILE, downloads, links, open_page, parameter, press, texts

CHARTS = {"threshold": 1, "mentions": 1, "compare": 1, "linking": 1, "paper": 0, "checks": 2}
SAY = words_of("en")


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("tab", CHARTS)
@pytest.mark.parametrize("which", ["masked_lm", "generation"])
def test_every_view_opens_from_its_link(
    reports: Reports, tab: str, which: str, language: str
) -> None:
    app = open_page("measures", tab=tab, audit=reports[which].digest[:12], lang=language)
    page_text = texts(app)
    assert words_of(language).html(f"measures_below_{tab}") in page_text
    charts = app.get("plotly_chart")
    assert len(charts) == (0 if (tab, which) == ("linking", "generation") else CHARTS[tab])
    assert all(chart.proto.alt for chart in charts)
    assert len(app.expander) >= len(charts)  # each as a table too, and its CSV
    assert len(downloads(app)) >= len(charts)
    assert not any(part in page_text for member in MEMBERS for part in member)
    assert parameter(app, "tab") == tab


def test_counts_are_the_reports_and_nonsense_in_the_link_is_left_alone(reports: Reports) -> None:
    nonsense = {"tab": "<b>", "score": "evil", "stratum": "evil", "t": "nan", "other": "evil"}
    assert "evil" not in texts(open_page("measures", **nonsense))
    page_text = texts(open_page("measures", tab="paper"))
    for report in reports.values():
        for stratum in ("easy", "hard"):
            measures = report.measures.strata[stratum]
            rules = {**measures.rules, **measures.baseline_rules}
            paper = rules.get("name_occurs") or rules["difference_above_zero"]
            assert f">{' / '.join(map(str, paper.confusion.four))}</td>" in page_text
    for rule in reports["masked_lm"].measures.strata["hard"].rules.values():
        cells = (f'<td class="ka-number">{count}</td>' for count in rule.confusion.four)
        assert "".join(cells) in page_text
    assert "105 / 25 / 86 / 44" in page_text  # the paper's table 1
    assert "127 / 3 / 130 / 0*" in page_text  # and 2


def test_counts_of_a_table_are_numbers_in_its_file(
    reports: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, bytes] = {}

    def export(make: Any, *, what: str, **_: object) -> Any:
        files[what] = make()
        return make

    monkeypatch.setattr(section, "logged_export", export)
    open_page("measures", tab="paper")
    rule = next(iter(reports["masked_lm"].measures.strata["hard"].rules.values()))
    assert f",{','.join(map(str, rule.confusion.four))}," in files["measures-rules"].decode()


@pytest.mark.long
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
    app.query_params["t"] = "100.0"  # one step back
    app.run()
    assert app.number_input(key="measures_exact").value == 100.0
    app.number_input(key="measures_exact").set_value(-100.0).run()
    assert not app.exception
    assert f'<td class="ka-number">{len(MEMBERS)}</td>' in texts(app)
    app.slider(key="measures_slider").set_value(0.0).run()
    assert app.number_input(key="measures_exact").value == 0.0

    app = open_page("measures", tab="threshold", t="1.5", score="log_ratio", prevalence="5")
    assert SAY.text("measures_ppv", share="5 %") in texts(app)
    assert app.number_input(key="measures_exact").value == 1.5
    app.selectbox(key="choice_score").set_value("hospital_posterior").run()
    assert not app.exception
    assert app.number_input(key="measures_exact").value != 1.5
    assert parameter(app, "score") == "hospital_posterior"
    assert app.button(key="measures_use_fdr").disabled


def test_the_roc_stands_beside_its_comparisons_and_says_what_it_cannot_resolve(
    reports: Reports,
) -> None:
    report = reports["masked_lm"]
    app = open_page("measures", stratum="hard", axes="linear")
    page_text, measures = texts(app), report.measures.strata["hard"]
    for baseline in ("general_alone", "popularity"):
        assert page_text.count(f"<dt>{SAY.html(f'measures_score_{baseline}')}</dt>") == 2
    assert SAY.html("measures_unresolved", n=measures.n_controls) in page_text
    assert app.segmented_control(key="choice_axes").value == "linear"
    app.segmented_control(key="choice_axes").set_value("log").run()
    assert not app.exception and len(app.get("plotly_chart")) == 1


@pytest.mark.long
@pytest.mark.parametrize("measure", ["f1", "precision", "recall"])
def test_rules_are_followed_along_the_attack(reports: Reports, measure: str) -> None:
    report = reports["generation"]
    other_report = make_report(1, at="2026-11-19T10:00:00+00:00")
    curve = other_report.to_json()["curve"]
    for point in curve:
        point["strata"]["hard"]["rules"] = {}
    other_report = other_report.changed(curve=curve)
    keep(other_report)
    view = {"tab": "checks", "measure": measure}
    page_text = texts(open_page("measures", audit=report.digest[:12], **view))
    for name, rule in report.measures.strata["all"].rules.items():
        reached = rule.f1 if measure == "f1" else getattr(rule.confusion, measure)
        assert (
            f">{reached.value:.3f}</td>" in page_text
            and SAY.html(f"measures_rule_{name}") in page_text
        )
    app = open_page("measures", audit=other_report.digest[:12], **view)
    alts = [chart.proto.alt for chart in app.get("plotly_chart")]
    alt_text = SAY.text("measures_curve_rules_alt", measure=SAY.text(f"column_{measure}"))
    assert alt_text in alts and SAY.text("measures_curve_alt") not in alts
    app = open_page("measures", audit=other_report.digest[:12], stratum="hard", **view)
    assert SAY.html("measures_curve_none") in texts(app)


@pytest.mark.long
def test_a_list_without_truth_says_what_is_missing() -> None:
    keep(make_report(2, has_truth=False))
    for tab in ("mentions", "paper", "threshold"):
        app = open_page("measures", tab=tab)
        assert SAY.html("measures_no_truth") in texts(app) and not app.get("plotly_chart")
    assert app.button(key="measures_use_youden").disabled
    assert SAY.html("measures_no_linking_2") in texts(open_page("measures", tab="linking"))
    assert SAY.html("measures_no_other") in texts(open_page("measures", tab="compare"))
    app = open_page("measures", tab="checks")
    assert not app.get("plotly_chart")
    for why in ("controls", "truth", "references", "canaries"):  # how to come by each
        assert SAY.html(f"measures_without_{why}") in texts(app)


@pytest.mark.long
def test_each_view_says_the_true_cause_of_its_emptiness(reports: Reports) -> None:
    first_report = reports["generation"]
    app = open_page("measures", audit=first_report.digest[:12], tab="linking")
    assert SAY.html("measures_no_linking_1") in texts(app)
    query = next(query for label, _, query in links(app) if label == SAY.text("measures_open_2"))
    assert f"audit={reports['masked_lm'].digest[:12]}" in query and "tab=linking" in query

    names = make_candidates(MEMBERS, is_member=True) + make_candidates(
        [("Emil", f"Zorn{i}") for i in range(9)], is_member=False, control_kind="given"
    )
    few = make_report(2, names=names, at="2026-11-21T10:00:00+00:00", hospital="few")
    table = few.to_json()["names"]
    unscored = {key: [None] * len(table["score"]) for key in ("score", "p_value", "q_value")}
    blank = few.changed(names=table | unscored, curve=(), digest="b" * 64)
    keep(few, blank)
    few_names = {"audit": few.digest[:12]}
    assert SAY.html("measures_no_mentions") in texts(
        open_page("measures", tab="mentions", **few_names)
    )
    assert SAY.html("paper_no_controls") in texts(open_page("measures", tab="paper", **few_names))
    compared = open_page("measures", tab="compare", other=first_report.digest[:12], **few_names)
    assert SAY.html("measures_n_pairs", n=0) not in texts(compared)
    app = open_page("measures", audit="b" * 12, tab="threshold")
    assert not app.exception
    app = open_page("measures", audit="b" * 12, tab="checks")
    for why in ("p", "curve"):
        assert SAY.html(f"measures_without_{why}") in texts(app)
    compared = open_page("measures", tab="compare", other="b" * 12, **few_names)
    assert SAY.html("measures_no_flags") in texts(compared)

    strange = make_report(2, names=make_candidates([("Ann", "Lee")]), hospital="strange")
    keep(strange)
    compared = open_page("measures", tab="compare", other=strange.digest[:12], **few_names)
    assert SAY.html("measures_no_pairs") in texts(compared)


def test_two_audits_are_paired_and_only_differences_shown() -> None:
    members = [(HOSTILE, "Wright"), *MEMBERS[1:]]
    leak = make_report(2, members=members, hospital=HOSTILE)
    quiet = make_report(2, leak=0.0, members=members, hospital="quiet")
    keep(leak, quiet)
    app = open_page("measures", tab="compare", audit=leak.digest[:12], other=quiet.digest[:12])
    page_text = texts(app)
    assert "&lt;img src=x&gt;" in page_text  # the hospital model's name among the settings
    assert "<img" not in page_text
    assert ">Leak found<" in page_text and ">Not enough evidence<" in page_text
    assert "come from different places" not in page_text
    table = app.dataframe[0].value
    assert not any(quiet.stands_out)
    assert len(table) == sum(leak.stands_out) >= leak.verdict.n_flagged > 0
    assert table["Name"][0] == "!*** W***"
    app.toggle(key="choice_all_names").set_value(True).run()
    assert len(app.dataframe[0].value) == leak.n_names
    assert "measures_pairs_csv" in downloads(app)


def test_audits_whose_controls_come_from_different_places_say_so() -> None:
    first_report, second_report = (
        make_report(2, hospital=source, control_source=source) for source in ("invented", "drawn")
    )
    keep(first_report, second_report)
    page_text = texts(
        open_page(
            "measures",
            tab="compare",
            audit=first_report.digest[:12],
            other=second_report.digest[:12],
        )
    )
    assert "The controls of the two audits come from different places" in page_text
    assert "invented, like the names" in page_text and "names of a generator" in page_text
    assert ">Names stand out, membership not shown<" in page_text


def test_controls_that_are_people_are_no_check_of_the_test() -> None:
    report = make_report(2, control_source="own")
    keep(report)
    page_text = texts(open_page("measures", tab="checks", audit=report.digest[:12]))
    assert "ranked among each other" in page_text and "Controls with a p-value" not in page_text


@pytest.fixture(scope="module", params=[1, 2])
def special(request: pytest.FixtureRequest) -> AuditReport:
    return make_report(request.param, names=make_special_names())


@pytest.mark.parametrize("language", ["en", "ja"])
def test_canaries_are_shown_with_their_limits_and_not_in_the_tables(
    special: AuditReport, language: str
) -> None:
    keep(special)
    app = open_page(
        "measures", audit=special.digest[:12], tab="checks", check="canaries", lang=language
    )
    record = special.details.canaries
    assert record is not None and record.sentence(language) in texts(app)
    fixed = record.scores[special.fixed_score]
    share = fixed.whole.found
    assert f"{share.n_hits} / {share.n_total} ·" in texts(app)
    assert f"{fixed.max_bits:.2f}" in texts(app)
    names = app.dataframe[0].value
    assert len(names) == record.n_planted and names.iloc[0, 0] == "P-0074"
    assert "Nevah0" not in str(names.values.tolist())

    app = open_page("measures", audit=special.digest[:12], tab="paper", lang=language)
    words = words_of(language)
    assert words.text("kind_canary") not in texts(app)
    assert words.text("measures_roles") in texts(app)
    for role in special.details.roles:
        assert role.role in texts(app)
        assert f"{role.flagged.n_hits} / {role.flagged.n_total} ·" in texts(app)


@pytest.mark.long
def test_references_are_set_beside_the_own_audit() -> None:
    names = ("general", *(f"older-{i}" for i in range(MAX_REFERENCES)), f"better {HOSTILE}")
    own_report, *older, newest = make_reference_reports(*names)
    stranger = make_report(2, hospital="elsewhere", general="general-x")
    keep(own_report, *older, newest, stranger.changed(question={"scenario": 2}))
    page_text = texts(
        open_page("measures", audit=own_report.digest[:12], tab="checks", check="references")
    )
    assert "better ![x]" in page_text and "<img src=x>" not in page_text
    for report in (own_report, newest):
        auc = report.measures.strata["hard"].scores[report.fixed_score].auc.value
        assert f"{auc:.3f}" in page_text
    assert SAY.text("measures_references_own") in page_text
    assert SAY.text("measures_references_more", n=1) in page_text and ">older-0<" not in page_text
    assert newest.digest[:12] not in page_text and stranger.models["general"].name not in page_text


@pytest.mark.long
def test_audits_beside_an_own_one_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    own_report, *reference_reports = make_reference_reports(*map(str, range(MAX_REFERENCES + 1)))
    keep(own_report, *reference_reports)
    app, read = open_page("verdict", audit=own_report.digest[:12]), list[object]()
    from_json = AuditReport.from_json
    monkeypatch.setattr(
        AuditReport, "from_json", lambda record: read.append(record) or from_json(record)
    )
    app.run()
    assert not app.exception and not read


@pytest.mark.long
@pytest.mark.parametrize("is_revealed", [False, True])
def test_the_log_says_names_in_full_of_those_files_alone_that_hold_names(
    reports: Reports, monkeypatch: pytest.MonkeyPatch, is_revealed: bool
) -> None:
    name_forms: dict[str, object] = {}

    def noted(make: Any, **counts: Any) -> Any:
        name_forms[counts["what"]] = counts["names"]
        return make

    monkeypatch.setattr("pages.ui.section.logged_export", noted)
    open_page("measures", reveal=is_revealed, tab="mentions")
    open_page("measures", reveal=is_revealed)
    open_page("names", reveal=is_revealed)
    open_page("names", reveal=is_revealed, tab="documents")
    with_names = {file_kind for file_kind, names in name_forms.items() if names == "full"}
    assert {"mentions", "names"} < set(name_forms)
    assert ("names" in with_names) == is_revealed and "mentions" not in with_names
