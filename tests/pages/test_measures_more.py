"""Canaries, roles and other references on the Measures page, through Streamlit's own tester."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.report.report import AuditReport
from pages.ui.language import words_of
from tests.pages.make_reports import keep, make_reference_reports, make_report, make_special_names
from tests.pages.screen import HOSTILE, open_page, texts


@pytest.fixture(scope="module", params=[1, 2])
def special(request: pytest.FixtureRequest) -> AuditReport:
    return make_report(request.param, names=make_special_names())


@pytest.mark.parametrize("language", ["en", "ja"])
def test_canaries_are_shown_with_their_limits(
    home: Path, special: AuditReport, language: str
) -> None:
    keep({"one": special}, directory=home, is_demo=False)
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


def test_canaries_do_not_stand_in_the_tables(home: Path, special: AuditReport) -> None:
    keep({"one": special}, directory=home, is_demo=False)
    app = open_page("measures", audit=special.digest[:12], tab="tables")
    words = words_of("en")
    assert words.text("kind_canary") not in texts(app)
    assert words.text("measures_roles") in texts(app)
    for role in special.details.roles:
        assert role.role in texts(app)
        assert f"{role.flagged.n_hits} / {role.flagged.n_total} ·" in texts(app)


@pytest.mark.parametrize("tab", ["canaries", "references"])
def test_an_audit_without_them_says_how_to_come_by_them(home: Path, tab: str) -> None:
    report = make_report(2)
    keep({"one": report}, directory=home, is_demo=False)
    app = open_page("measures", audit=report.digest[:12], tab=tab)
    assert words_of("en").html(f"measures_no_{tab}") in texts(app)
    tables = open_page("measures", audit=report.digest[:12], tab="tables")
    assert words_of("en").text("measures_roles") not in texts(tables)


def test_references_are_set_beside_the_own_audit(home: Path) -> None:
    own, other = make_reference_reports("general", f"better {HOSTILE}")
    stranger = make_report(2, hospital="elsewhere").changed(question={"scenario": 2})
    keep({"a": own, "b": other, "c": stranger}, directory=home, is_demo=False)
    app = open_page("measures", audit=own.digest[:12], tab="references")
    shown = texts(app)
    assert words_of("en").text("measures_references_own") in shown
    assert "better ![x]" in shown and "<img src=x>" not in shown
    for report in (own, other):
        auc = report.measures.strata["hard"].scores[report.fixed_score].auc.value
        assert f"{auc:.3f}" in shown
    assert other.digest[:12] in shown and stranger.digest[:12] not in shown
