"""Canaries, roles and other references in the report that is handed over."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from audit.report.compare import compare_references
from audit.report.export import bundle_files, measures_csv
from audit.report.html import ReportChoice, report_html
from audit.words import catalogue
from tests.pages.make_reports import make_reference_reports, make_report, make_special_names

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.mark.parametrize("scenario", [1, 2])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_canaries_and_roles_are_in_the_report(scenario: int, language: str) -> None:
    report = make_report(scenario, names=make_special_names())
    text = report_html(report, choice=ReportChoice(language=language))
    words, view = catalogue(language, "report"), report.details.canaries
    assert view is not None
    sentence = view.sentence(language)
    assert text.count(sentence) == 2  # beside the verdict, and with its table
    for key in ("canaries", "roles", "canaries_bits", "roles_flagged"):
        assert words[key] in text
    found = view.scores[report.fixed_score].whole.found
    assert f"{found.n_hits} / {found.n_total}<small>" in text
    assert words["kind_planted"] in text
    assert "staff" in text and "patient" in text


def test_a_report_without_them_has_no_such_part() -> None:
    text = report_html(make_report(2), choice=ReportChoice())
    for key in ("canaries", "roles", "references"):
        assert catalogue("en", "report")[key] not in text


def test_without_pairs_it_says_so() -> None:
    names = make_special_names(24)
    few = names.rows(list(range(len(names) - 2)))
    text = report_html(make_report(2, names=few), choice=ReportChoice())
    assert "24 names were planted and 22 held out" in text


def test_references_stand_beside_each_other_and_reach_every_form() -> None:
    own, other = make_reference_reports("general", "on-other-names")
    view = compare_references(own, others=[other])
    files = bundle_files(own, choice=ReportChoice(), references=view)
    text = files["report.html"].decode()
    assert "on-other-names" in text and catalogue("en", "report")["references_differences"] in text
    auc = other.measures.strata["hard"].scores[other.fixed_score].auc.value
    assert f"{auc:.3f}" in text
    assert "on-other-names" not in files["measures.json"].decode()


def test_the_long_table_has_a_line_for_every_measure_of_canaries_and_roles() -> None:
    report = make_report(2, names=make_special_names())
    rows = list(csv.DictReader(io.StringIO(measures_csv(report))))
    roles = [row for row in rows if row["kind"] == "role"]
    assert [row["name"] for row in roles] == ["staff"] * 4 + ["patient"] * 4
    flagged = next(row for row in roles if row["measure"] == "flagged")
    assert int(flagged["n_hits"]) == report.details.roles[0].flagged.n_hits
    planted = {
        row["measure"]: row
        for row in rows
        if row["controls"] == "canary" and row["name"] == "mean_log_ratio"
    }
    counts = ("1", "2", "4", "8", "all")
    measures = ("exposure_bits", "found", "above_twin")
    assert set(planted) == {f"{measure}_{count}" for measure in measures for count in counts}
    group = report.details.canaries.scores["mean_log_ratio"].groups[0]
    assert float(planted["exposure_bits_1"]["value"]) == group.bits.value
    assert planted["found_1"]["n_total"] == "6" and planted["found_all"]["n_total"] == "24"


def test_measures_hold_canaries_and_roles_without_a_name() -> None:
    report = make_report(2, names=make_special_names())
    measures = json.loads(bundle_files(report, choice=ReportChoice())["measures.json"])
    details = measures["details"]
    assert details["canaries"]["scores"]["mean_log_ratio"]["groups"][0]["n_mentions"] == 1
    assert [role["role"] for role in details["roles"]] == ["staff", "patient"]
    assert not any(first in json.dumps(details) for first in report.names["first_name"])


def test_hostile_roles_and_model_names_are_shown_as_they_are() -> None:
    names = make_special_names()
    names = replace(names, role=(HOSTILE, *names.role[1:]))
    report = make_report(2, names=names)
    assert "&lt;img src=x" in report_html(report, choice=ReportChoice())
    own, other = make_reference_reports("general", HOSTILE)
    text = report_html(
        own, choice=ReportChoice(), references=compare_references(own, others=[other])
    )
    assert "&lt;img src=x" in text and "<img" not in text
