"""A new score is one row of the table: everything that shows scores shows it."""

from __future__ import annotations

import numpy as np
import pytest

from audit.attack import scores
from audit.attack.scores import SCORES, ScoreKind, all_scores
from audit.report.export import measures_csv, names_csv
from audit.report.threshold import score_codes
from tests.attack.planted_table import own_parts
from tests.membership.make_posterior import posterior_sums, sums_of
from tests.pages import make_reports

NEW = ScoreKind("twice", (2,), lambda sums: 2 * sums.by_name[0])


@pytest.fixture(autouse=True)
def one_score_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "SCORES", (*SCORES, NEW))


def test_it_is_worked_out_with_its_error() -> None:
    log_p = np.log([[0.1, 0.2], [0.3, 0.4]])
    sums = posterior_sums(np.exp(log_p), log_p)
    found = all_scores(sums_of(sums, sums), counts=np.array([1, 1]), parts=own_parts(1, 0))
    assert found["twice"].value == pytest.approx([log_p.sum()])
    assert found["twice"].standard_error[0] > 0


def test_it_is_in_the_names_the_measures_the_curve_and_the_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    formulas = {**make_reports.FORMULAS, 2: (*make_reports.FORMULAS[2], "twice")}
    monkeypatch.setattr(make_reports, "FORMULAS", formulas)
    report = make_reports.make_report()
    assert "twice" in names_csv(report).splitlines()[0]
    assert "twice" in report.curve[-1].strata["all"].auc
    assert "twice" in measures_csv(report)
    assert "twice" in report.measures.strata["all"].ranked(report.fixed_score)
    assert "twice" in score_codes(report)


def test_a_verdict_rests_on_a_score_that_reference_controls_have() -> None:
    for scenario, name in scores.FIXED_SCORE.items():
        fixed = scores.score_kind(name, scenario=scenario)
        assert fixed is not None and fixed.needs == "parts"
    assert len({(kind.name, s) for kind in SCORES for s in kind.scenarios}) == sum(
        len(kind.scenarios) for kind in SCORES
    )
