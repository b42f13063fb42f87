"""The report as HTML: no script, nothing fetched, everything escaped, both languages complete."""

from __future__ import annotations

import argparse
import re
import shlex
import string
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from audit.attack.verdict import REASONS
from audit.errors import AuditError
from audit.report.html import (
    MAX_NAMES,
    OPTIONAL_SECTIONS,
    RECOMMENDATIONS,
    ReportChoice,
    SignOff,
    command_of,
    report_html,
)
from audit.report.names import NAME_FORMS, masked_name, strongest_names
from audit.report.report import AuditReport
from audit.stats import MIN_CONTROLS
from audit.words import catalogue
from tests.pages.make_reports import MEMBERS, make_report

HOSTILE = "\"'><script>alert(1)</script><img src=http://evil.example/p.png>"
AUDIT = Path(__file__).resolve().parents[2] / "audit" / "report"
VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Collects tags and attributes, and whether tags are closed in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == []
    return reader


def with_question(report: AuditReport, settings: dict[str, Any]) -> AuditReport:
    question = {**report.question, "settings": settings, "seed": 3, "dtype": "float32"}
    return report.changed(question=question | {"candidates": "ab" * 32, "passages": "cd" * 32})


@pytest.fixture(scope="module", params=[1, 2])
def report(request: pytest.FixtureRequest) -> AuditReport:
    return make_report(request.param)


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("form", NAME_FORMS)
def test_it_is_whole_and_runs_and_fetches_nothing(
    report: AuditReport, language: str, form: Any
) -> None:
    choice = ReportChoice(language=language, names=form)
    text = report_html(report, choice=choice, other=make_report(3 - report.scenario.number))
    reader = read(text)
    assert f'<html lang="{language}">' in text
    assert not {"script", "iframe", "object", "embed", "img", "link", "form"} & set(reader.tags)
    assert "svg" in reader.tags
    for name, value in reader.attributes:
        assert not name.startswith("on"), name
        assert name not in ("src", "href", "srcset", "action", "data", "style"), name
        if name != "xmlns":
            assert "http" not in value.replace("http-equiv", ""), value
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src &#39;none&#39;" in text


@pytest.mark.parametrize("form", NAME_FORMS)
def test_hostile_names_models_notes_and_free_text_are_shown_as_they_are(form: Any) -> None:
    members = [(HOSTILE, HOSTILE), *MEMBERS[1:]]
    report = make_report(2, members=members, hospital=HOSTILE, notes=[HOSTILE])
    sign_off = SignOff(
        recommendation="retrain", reasons=f"{HOSTILE}\nnext", auditor=HOSTILE, officer=HOSTILE
    )
    reader = read(report_html(report, choice=ReportChoice(names=form, sign_off=sign_off)))
    assert "script" not in reader.tags
    assert "img" not in reader.tags
    shown = "".join(reader.texts)
    assert shown.count(HOSTILE) >= 5
    assert "next" in shown


def test_names_are_in_it_only_in_the_full_form(report: AuditReport) -> None:
    masked_text, numbers, full = (
        report_html(report, choice=ReportChoice(names=form)) for form in NAME_FORMS
    )
    for part in (part for name in MEMBERS for part in name):
        assert part not in masked_text
        assert part not in numbers
    assert "S*** W***" in masked_text
    assert "P-0002" in numbers
    assert "Sophia0 Wright0" in full
    assert "Confidential" in full
    assert "Confidential" not in masked_text


def test_the_numbers_are_the_reports(report: AuditReport) -> None:
    shown = "".join(read(report_html(report, choice=ReportChoice())).texts)
    verdict = report.verdict
    assert verdict.auc is not None and verdict.general_auc is not None
    assert f"{verdict.auc.value:.3f}" in shown
    assert f"{verdict.auc.low:.3f} – {verdict.auc.high:.3f}" in shown
    assert f"{verdict.general_auc.value:.3f}" in shown
    assert f"{verdict.n_flagged} of {verdict.n_tested}" in shown
    assert report.digest in shown
    assert f"{report.candidates.n_reference}" in shown
    rules = report.measures.strata["easy"].rules
    confusion = next(iter(rules.values())).confusion
    assert " / ".join(map(str, confusion.four)) in shown


def test_the_other_scenario_is_told_or_said_to_be_missing(report: AuditReport) -> None:
    other = make_report(3 - report.scenario.number, leak=0.0)
    beside = report_html(report, choice=ReportChoice(), other=other)
    assert other.digest[:12] in beside
    alone = report_html(report, choice=ReportChoice())
    assert "The other scenario has not been run" in alone
    assert other.digest[:12] not in alone


def test_limits_and_sign_off_cannot_be_left_out(report: AuditReport) -> None:
    short = report_html(report, choice=ReportChoice(sections=()))
    whole = report_html(report, choice=ReportChoice())
    for title in ("1 Verdict", "2 What was audited", "7 What this does not show", "9 Sign-off"):
        assert title in short
    for title in ("5 Results", "6 Checks", "10 How to get", "11 Glossary"):
        assert title not in short
        assert title in whole
    assert len(OPTIONAL_SECTIONS) == 5


@pytest.mark.parametrize("code", ["", *RECOMMENDATIONS])
def test_the_recommendation_is_the_auditors(report: AuditReport, code: str) -> None:
    text = report_html(report, choice=ReportChoice(sign_off=SignOff(recommendation=code)))
    assert text.count("☒") == (1 if code else 0)
    assert ("The auditor has not chosen yet." in text) is not bool(code)


def test_without_truth_and_without_a_leak_it_says_so() -> None:
    text = report_html(make_report(2, has_truth=False), choice=ReportChoice())
    assert "there are no rates and no confusion tables" in text
    nothing = report_html(make_report(2, leak=0.0), choice=ReportChoice(language="ja"))
    assert "証拠が不十分です" in nothing
    assert "際立った名前はありません。" in nothing


def test_ten_thousand_names_stay_small_and_quick() -> None:
    few = make_report(2, has_truth=False)
    names = {name: column * 417 for name, column in few.names.items()}
    report = few.changed(names=names | {"name_id": list(range(10_008))})
    began = time.process_time()
    text = report_html(report, choice=ReportChoice(names="full"))
    assert time.process_time() - began < 1.0
    assert len(text) < 150_000
    n = len(strongest_names(report.table))
    assert n > MAX_NAMES
    assert f"Shown: {MAX_NAMES} of {n}" in text


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_command_asks_the_same_question(scenario: int) -> None:
    settings: dict[str, Any] = {
        1: {"n_documents": 300, "n_steps": 50, "n_tokens": 32, "top_k": 100, "temperature": 0.5,
            "prompt": "service : [MASK] 'x'", "is_remasked": False},
        2: {"n_inputs": 2000, "n_chain_inputs": 0, "micro_batch": 32, "max_tokens": 512,
            "is_dropout_on": False},
    }[scenario]  # fmt: skip
    words = shlex.split(command_of(with_question(make_report(scenario), settings)))
    assert words[:4] == ["python", "-m", "audit", "run"]
    parser = argparse.ArgumentParser()
    for option, kind in (
        ("scenario", int), ("general", str), ("hospital", str), ("names", str),
        ("passages", str), ("documents", int), ("steps", int), ("tokens", int), ("top-k", int),
        ("temperature", float), ("prompt", str), ("inputs", int), ("chain-inputs", int),
        ("micro-batch", int), ("max-tokens", int), ("seed", int), ("dtype", str), ("out", str),
    ):  # fmt: skip
        parser.add_argument(f"--{option}", type=kind)
    parser.add_argument("--keep-sampled", action="store_true")
    parser.add_argument("--no-dropout", action="store_true")
    found = parser.parse_args(words[4:])
    assert (found.scenario, found.seed, found.dtype) == (scenario, 3, "float32")
    if scenario == 1:
        assert (found.documents, found.steps, found.tokens, found.top_k) == (300, 50, 32, 100)
        assert (found.temperature, found.prompt) == (0.5, "service : [MASK] 'x'")
        assert found.keep_sampled
    else:
        assert (found.inputs, found.chain_inputs, found.micro_batch) == (2000, 0, 32)
        assert found.no_dropout


def test_both_catalogues_are_complete_and_every_sentence_is_used() -> None:
    english, japanese = (catalogue(code, "report") for code in ("en", "ja"))

    def places(sentence: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}

    assert {k: places(v) for k, v in english.items()} == {k: places(v) for k, v in japanese.items()}
    for key, sentence in english.items():
        assert re.fullmatch(r"[\x00-\x7f·×“”]+", sentence), key
        is_bare = key == "control_kind"  # nothing but places
        assert is_bare or re.search("[\u3040-\u30ff\u4e00-\u9fff]", japanese[key]), key
    assert not any("匿名" in sentence for sentence in japanese.values())
    assert not any(re.search(r"\bsafe\b", sentence) for sentence in english.values())
    sources = [AUDIT / "html.py", AUDIT / "export.py", *(AUDIT / "templates").glob("*.html")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    literal = set(re.findall(r"""["']([a-z][a-z0-9_]*)["']""", text))
    prefixes = set(re.findall(r"""f["']([a-z_]+_)\{|["']([a-z_]+_)["'] ~""", text))
    known = tuple(one or other for one, other in prefixes)
    assert {key for key in english if key not in literal and not key.startswith(known)} == set()


def test_every_code_of_the_engine_has_words() -> None:
    sentences = catalogue("en", "report")
    assert {f"reason_{code}" for code in REASONS} <= set(sentences)
    assert {f"recommend_{code}" for code in RECOMMENDATIONS} <= set(sentences)
    assert {f"names_{form}" for form in NAME_FORMS} <= set(sentences)
    rules = {
        *make_report(1).measures.strata["all"].rules,
        *make_report(1).measures.strata["all"].baseline_rules,
        *make_report(2).measures.strata["all"].rules,
    }
    assert {f"rule_{rule}" for rule in rules} <= set(sentences)


def test_what_no_report_can_hold_is_refused() -> None:
    for wrong in ({"language": "fr"}, {"names": "half"}, {"sections": ("limits",)}):
        with pytest.raises(AuditError):
            ReportChoice(**wrong)
    with pytest.raises(AuditError):
        SignOff(recommendation="safe")
    with pytest.raises(AuditError):
        SignOff(reasons="x" * 10_001)
    with pytest.raises(AuditError):
        SignOff(auditor="x" * 201)


def test_names_are_masked_by_hand() -> None:
    for first, last, shown in (
        ("Sophia", "Wright", "S*** W***"),
        ("花子", "佐藤", "佐*** 花***"),
        ("X", "", "***"),
        ("", "Li", "L***"),
        ("明", "森", "*** ***"),
    ):
        assert masked_name(first, last) == shown


def test_other_forms_take_away_what_would_give_a_name_back(report: AuditReport) -> None:
    for form in ("masked", "pseudonyms"):
        shown = report.with_names_as(form)  # type: ignore[arg-type]
        assert shown.names["popularity"] == [None] * report.n_names
        assert shown.made["names"] == form
        assert shown.names["score"] == report.names["score"]
    assert report.names["first_name"][0] == "Sophia0"


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize("scenario", [1, 2])
def test_the_method_tells_the_score_that_was_fixed(scenario: int, language: str) -> None:
    """Of this version or of an older one; of a score that nobody described nothing is said."""
    made, words = make_report(scenario), catalogue(language, "report")
    scores = ("residual", "product", "mean_log_ratio")
    told = {one: words[f"method_score_{one}"] for one in scores}
    assert len(set(told.values())) == 3
    for one in (made.fixed_score, "mean_log_ratio" if scenario == 2 else "product"):
        strata = {
            name: {
                **measured,
                "scores": {**measured["scores"], one: measured["scores"]["residual"]},
            }
            for name, measured in made.to_json()["measures"]["strata"].items()
        }
        older = made.changed(fixed_score=one, measures={"strata": strata})
        text = "\n".join(read(report_html(older, choice=ReportChoice(language=language))).texts)
        assert [other for other in scores if told[other] in text] == [one]
        assert words["method_p"].format(min_controls=MIN_CONTROLS) in text


@pytest.mark.parametrize("language", ["en", "ja"])
def test_where_nobody_stands_out_the_report_says_so(language: str) -> None:
    quiet = make_report(2, leak=0.0)
    assert strongest_names(quiet.table).empty
    text = report_html(quiet, choice=ReportChoice(language=language))
    assert catalogue(language, "report")["standing_out_none"] in text


@pytest.mark.parametrize("language", ["en", "ja"])
def test_one_model_compared_with_itself_is_reported_as_not_compared(language: str) -> None:
    made, words = make_report(2), catalogue(language, "report")
    assert len(strongest_names(made.table))
    models = {who: {"name": who, "digest": "same"} for who in made.models}
    kept = made.changed(models=models)
    assert kept.verdict.state == "not_compared" and strongest_names(kept.table).empty
    text = report_html(kept, choice=ReportChoice(language=language))
    assert words["state_not_compared"] in text
    assert words["state_leak_found"] not in text
    assert words["standing_out_none"] in text
