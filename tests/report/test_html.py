"""The report as HTML: no script, nothing fetched, everything escaped, both languages complete."""

from __future__ import annotations

import re
import string
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from audit.attack.question import command_line
from audit.attack.scores import SCORES
from audit.errors import AuditError, catalogue
from audit.report.compare import compare_audits
from audit.report.decision import RECOMMENDATIONS, SIGNATURE_ROLES, Decision, Signature
from audit.report.html import (
    MAX_NAMES,
    ReportChoice,
    report_html,
    score_strip,
)
from audit.report.name_table import NAME_FORMS, KindScores, select_strongest_names
from audit.report.report import AuditReport
from audit.stats import MIN_CONTROLS
from audit.tables import decimal, percent, percent_interval
from audit.words import Language
from tests.pages.make_reports import (
    MEMBERS,
    make_causal_report,
    make_reference_reports,
    make_report,
    make_special_names,
)

HOSTILE = "\"'><script>alert(1)</script><img src=http://evil.example/p.png>"
AUDIT = Path(__file__).resolve().parents[2] / "audit" / "report"


class Reader(HTMLParser):
    """Collects tags, attributes and texts, and whether tags are closed in their order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def render_texts(
    report: AuditReport, *, extras: dict[str, Any] | None = None, **choice: Any
) -> str:
    """Return the texts of a report, joined."""
    text = report_html(report, choice=ReportChoice(**choice), **(extras or {}))
    return "|".join(Reader(text).texts)


@pytest.fixture(scope="module", params=[1, 2])
def report(request: pytest.FixtureRequest) -> AuditReport:
    return make_report(request.param, names=make_special_names())


@pytest.mark.parametrize("language", ["en", "ja"])
def test_it_is_whole_and_runs_and_fetches_nothing(report: AuditReport, language: str) -> None:
    choice = ReportChoice(language=language)
    text = report_html(report, choice=choice, other=make_report(3 - report.scenario.number))
    reader = Reader(text)
    assert f'<html lang="{language}">' in text
    assert not {"script", "iframe", "object", "embed", "img", "link", "form"} & set(reader.tags)
    assert reader.tags.count("svg") == 3
    for name, value in reader.attributes:
        assert not name.startswith("on"), name
        assert name not in ("src", "href", "srcset", "action", "data", "style"), name
        if name != "xmlns":
            assert "http" not in value.replace("http-equiv", ""), value
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style
    assert "default-src &#39;none&#39;" in text


@pytest.mark.parametrize("form", NAME_FORMS)
def test_hostile_names_models_notes_and_free_text_are_shown_as_they_are(form: Any) -> None:
    members = [(HOSTILE, HOSTILE), *MEMBERS[1:]]
    report = make_report(2, members=members, hospital=HOSTILE, notes=[HOSTILE])
    signatures = [Signature(name=HOSTILE, role=role, at="") for role in SIGNATURE_ROLES]
    decision = Decision(
        recommendation="retrain", reasons=f"{HOSTILE}\nnext", signatures=tuple(signatures)
    )
    names = make_special_names()
    roles = make_report(2, names=replace(names, role=(HOSTILE, *names.role[1:])))
    own_report, other_report = make_reference_reports("general", HOSTILE)
    comparisons = [compare_audits(own_report, other_report=other_report)]
    for audit_report, choice, references, n in (
        (report, ReportChoice(names=form, decision=decision), [], 5),
        (roles, ReportChoice(), [], 1),
        (own_report, ReportChoice(), comparisons, 1),
    ):
        reader = Reader(report_html(audit_report, choice=choice, references=references))
        assert not {"script", "img"} & set(reader.tags)
        assert "".join(reader.texts).count(HOSTILE) >= n
        assert (choice.decision is not decision) or "next" in reader.texts


def test_the_numbers_are_the_reports(report: AuditReport) -> None:
    text, verdict, words = render_texts(report), report.verdict, catalogue("en", "report")
    attack, general = (report.headline("all")[method].auc for method in ("attack", "general_alone"))
    expected_texts = [
        f"{attack.value:.3f}",
        f"{attack.low:.3f} – {attack.high:.3f}",
        f"{general.value:.3f}",
        f"{verdict.n_flagged} of {verdict.n_tested}",
        report.digest,
        f"{report.candidates.n_reference}",
        report.models["hospital"].name,
        words[f"method_score_{report.fixed_score}"],
        words["method_p"].format(min_controls=MIN_CONTROLS),
    ]
    for name, stratum in report.measures.table_strata.items():
        expected_texts += [
            " / ".join(map(str, rule.confusion.four)) for rule in stratum.rules.values()
        ]
        expected_texts += [decimal(ranking.auc.value) for ranking in report.headline(name).values()]
    for group in report.mentions:
        share = f"{percent(group.flagged.value)}|{percent_interval(group.flagged)}"
        expected_texts.append(f"{group.label}|{group.n_names}|{group.flagged.n_hits}|{share}")
    for role in report.details.roles:
        expected_texts += [
            decimal(role.auc.value),
            f"{role.flagged.n_hits} / {role.flagged.n_total}",
        ]
    for name in select_strongest_names(report.table).itertuples():
        expected_texts += [name.number, f"{name.q:.4f}"]
    assert [expected_text for expected_text in expected_texts if expected_text not in text] == []


def test_canaries_and_roles_are_in_it_where_an_audit_has_them(report: AuditReport) -> None:
    text, words = render_texts(report, language="ja"), catalogue("ja", "report")
    canaries = report.details.canaries
    assert canaries is not None
    assert text.count(canaries.japanese) == 2  # beside the verdict, and with its table
    canary_hits = canaries.scores[report.fixed_score].whole.found
    assert f"{canary_hits.n_hits} / {canary_hits.n_total}|{percent_interval(canary_hits)}" in text
    without = render_texts(make_report(2), language="ja")
    for key in ("canaries", "roles", "canaries_bits", "kind_planted"):
        assert words[key] in text and words[key] not in without
    assert words["references"] not in without
    names = make_special_names(24)
    few = make_report(2, names=names.rows(list(range(len(names) - 2))))  # no pairs
    assert "24 names were planted and 22 held out" in render_texts(few)


def test_references_and_the_other_scenario_stand_beside_it(report: AuditReport) -> None:
    other_report = make_report(3 - report.scenario.number, leak=0.0)
    paired_page, lone_page = (
        render_texts(report, extras={"other": other_report}),
        render_texts(report),
    )
    assert other_report.digest[:12] in paired_page and other_report.digest[:12] not in lone_page
    assert "The other scenario has not been run" in lone_page
    audit_report, renamed_report = make_reference_reports("general", "on-other-names")
    view = [compare_audits(audit_report, other_report=renamed_report)]
    text, words = render_texts(audit_report, extras={"references": view}), catalogue("en", "report")
    aucs = [auc.difference for auc in view[0].aucs if auc.stratum != "all"]
    expected_texts = [
        "on-other-names",
        words["references_differences"],
        *(f"{difference.value:+.3f}"[1:] for difference in aucs),
        decimal(
            renamed_report.measures.strata["hard"].scores[renamed_report.fixed_score].auc.value
        ),
        f"{view[0].tested.only_one} / {view[0].tested.only_other}|p = ",
    ]
    assert [expected_text for expected_text in expected_texts if expected_text not in text] == []


def test_limits_and_sign_off_cannot_be_left_out(report: AuditReport) -> None:
    short_page, full_page = render_texts(report, sections=()), render_texts(report)
    for title in ("1 Verdict", "2 Decision", "3 Signatures", "5 What was audited", "10 What this"):
        assert title in short_page
    for title in ("8 Results", "9 Checks", "11 How to get", "12 Glossary"):
        assert title in full_page and title not in short_page
    for code in ("", *RECOMMENDATIONS):
        text = render_texts(report, decision=Decision(recommendation=code))
        assert text.count("☒") == (1 if code else 0)
        assert ("Nothing has been decided yet." in text) is not bool(code)


def test_without_truth_or_a_leak_it_says_so() -> None:
    words = catalogue("ja", "report")
    text = render_texts(make_report(2, leak=0.0), language="ja")
    assert words["state_not_enough_evidence"] in text and words["state_leak_found"] not in text
    assert words["standing_out_none"] in text
    blind = make_report(2, has_truth=False)
    assert "there are no rates and no confusion tables" in render_texts(blind)
    many = blind.changed(names={name: column * 4 for name, column in blind.names.items()})
    n = len(select_strongest_names(many.table))
    assert n > MAX_NAMES and f"Shown: {MAX_NAMES} of {n}" in render_texts(many)


QUESTION = {
    "seed": 3,
    "dtype": "float32",
    "candidates": "ab" * 32,
    "passages": "cd" * 32,
    "n_rows_left_out": 7,
}


@pytest.mark.parametrize("scenario", [1, 2])
def test_the_command_and_the_run_are_told(scenario: int) -> None:
    question = QUESTION | {"scenario": scenario, "settings": {"top_k": 7, "n_inputs": 9}}
    audit_report = make_report(scenario).changed(
        question=question,
        made={
            "at": "2026-11-20T10:00:00",
            "device": "cuda",
            "device_name": "H",
            "torch": "2.9",
            "numpy": "2.1",
            "seconds": 1234.4,
        },
        candidates={"n_names": 1072, "by_kind": {"easy": 24, "hard": 23}, "n_reference": 600},
    )
    page, words = render_texts(audit_report), catalogue("en", "report")
    assert command_line(question) in page
    kinds = [
        words["control_kind"].format(kind=words[f"kind_{k}"], n=n)
        for k, n in (("easy", 24), ("hard", 23))
    ]
    for key, value in {
        "n_names": "1,072",
        "n_reference": "600",
        "controls_by_kind": " · ".join(kinds),
        "names_digest": "ab" * 32,
        "passages_digest": "cd" * 32,
        "rows_left_out": "7",
        "hardware": "cuda H",
        "software": "torch 2.9 · numpy 2.1",
        "seconds": "1,234",
        "seed": "3",
        "dtype": "float32",
        "ran_at": "2026-11-20 10:00",
    }.items():
        assert f"{words[key]}|{value}" in page, key


def test_both_catalogues_are_complete_and_every_sentence_is_used() -> None:
    english, japanese = (catalogue(code, "report") for code in ("en", "ja"))

    def list_fields(sentence: str) -> set[str]:
        return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}

    assert {k: list_fields(v) for k, v in english.items()} == {
        k: list_fields(v) for k, v in japanese.items()
    }
    for key, sentence in english.items():
        assert re.fullmatch(r"[\x00-\x7f·×“”]+", sentence), key
        is_bare = key == "control_kind"  # nothing but places
        assert is_bare or re.search("[\u3040-\u30ff\u4e00-\u9fff]", japanese[key]), key
    assert not any("匿名" in sentence for sentence in japanese.values())
    assert not any(re.search(r"\bsafe\b", sentence) for sentence in english.values())
    sources = [
        *(AUDIT / f"{name}.py" for name in ("html", "export", "decision")),
        *(AUDIT / "templates").glob("*.html"),
    ]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    literal = set(re.findall(r"""["']([a-z][a-z0-9_]*)["']""", text))
    prefixes = set(re.findall(r"""f["']([a-z_]+_)\{|["']([a-z_]+_)["'] ~""", text))
    used_prefixes = tuple(
        string_prefix or template_prefix for string_prefix, template_prefix in prefixes
    )
    assert {
        key for key in english if key not in literal and not key.startswith(used_prefixes)
    } == set()
    rules = {rule for kind in SCORES for rule in (kind.rule, kind.general_rule) if rule}
    assert {f"rule_{rule}" for rule in rules} <= set(english)


@pytest.mark.parametrize("language", ["en", "ja"])
def test_page_one_says_what_a_verdict_rests_on_and_what_it_leaves_open(language: Language) -> None:
    words = catalogue(language, "report")
    report = make_report(2, leak=0.0, names=make_special_names(200))
    choice = ReportChoice(language=language)
    first_page, _, later_pages = unescape(report_html(report, choice=choice)).partition(
        '<div class="page">'
    )
    verdict = report.verdict
    lines = [verdict.of_controls(language), verdict.condition(language), *verdict.bounds(language)]
    assert len(lines) == 4 and all(f"<li>{line}</li>" in first_page for line in lines)
    assert words["positive"] in later_pages and words["guards_spelling"] in later_pages
    old = {"state": "none_found_at_this_power", "english": "x", "japanese": "x"}
    page = unescape(report_html(report.changed(verdict=old), choice=choice))
    assert f"({words['of_rule'].format(rule=1)})" in page and words["bounds"] not in page


def test_names_worth_a_look_are_printed_with_their_decision() -> None:
    report = make_report(2, leak=1.5)
    assert report.verdict.n_worth_a_look > report.verdict.n_flagged > 0
    page = report_html(report, choice=ReportChoice(sections=("names",)))
    assert page.count(">stands out<") == report.verdict.n_flagged
    n_look = report.verdict.n_worth_a_look - report.verdict.n_flagged
    assert page.count(">worth a look<") == n_look


@pytest.mark.parametrize(
    "wrong",
    [
        {"language": "fr"},
        {"names": "half"},
        {"sections": ("limits",)},
        {"decision": {"recommendation": "safe"}},
        {"decision": {"reasons": "x" * 10_001}},
        {"decision": {"signatures": ({"name": "x" * 201, "role": "auditor", "at": ""},)}},
        {"decision": {"signatures": ({"name": "x", "role": "reader", "at": ""},)}},
    ],
)
def test_what_no_report_can_hold_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(AuditError):
        ReportChoice(**wrong)


# --- figures ---


def parse_figures(report: AuditReport) -> list[ElementTree.Element]:
    text = report_html(report, choice=ReportChoice(sections=("results",)))
    figures = re.findall("<svg.*?</svg>", text, flags=re.DOTALL)
    return [
        ElementTree.fromstring(figure.replace(' xmlns="http://www.w3.org/2000/svg"', ""))
        for figure in figures
    ]


def place_share(share: float) -> float:
    """Return where a share of the axis is drawn, never beyond its ends."""
    return 170 + 530 * min(1.0, max(0.0, share))


def read_shapes(row: ElementTree.Element) -> list[tuple[str, list[float]]]:
    places = {"line": ("x1", "x2", "y1"), "circle": ("cx", "cy"), "rect": ("x", "width")}
    return [
        (shape.get("class", ""), [float(shape.get(key, "nan")) for key in places[shape.tag]])
        for shape in row
    ]


def test_scores_and_estimates_are_drawn_where_their_numbers_are() -> None:
    report = make_report(2)
    scores, aucs, mentions = parse_figures(report)
    assert (aucs.get("viewBox"), mentions.get("viewBox")) == ("0 0 720 198", "0 0 720 290")
    for name, row in zip(("all", "easy", "hard"), aucs.findall("g"), strict=True):
        rankings, expected_shapes = report.headline(name), []
        for method, tones, y in (
            ("attack", ("rust", "rust"), -8.0),
            ("general_alone", ("grey", "open"), 8.0),
        ):
            auc = rankings[method].auc
            expected_shapes.append((tones[0], [place_share(auc.low), place_share(auc.high), y]))
            expected_shapes.append((tones[1], [place_share(auc.value), y]))
        assert [tone for tone, _ in read_shapes(row)] == [tone for tone, _ in expected_shapes]
        for (_, is_there), (_, place) in zip(read_shapes(row), expected_shapes, strict=True):
            assert is_there == pytest.approx(place, abs=0.051)
    for group, row in zip(report.mentions, mentions.findall("g"), strict=True):
        (_, line), (_, dot) = read_shapes(row)
        share = group.flagged
        assert line[:2] == pytest.approx(
            [place_share(share.low), place_share(share.high)], abs=0.051
        )
        assert dot[0] == pytest.approx(place_share(share.value), abs=0.051)
    band = mentions.find("rect")
    controls = report.controls_flagged.interval()
    assert band is not None
    assert float(band.get("x", "")) == pytest.approx(place_share(controls.low), abs=0.051)
    labels = [label.text for label in mentions.findall("text")]
    assert labels == [
        "0",
        "25",
        "50",
        "75",
        "100",
        "1 (n = 8)",
        "2 (n = 4)",
        "3–4 (n = 4)",
        "5–9 (n = 4)",
        "10+ (n = 4)",
        *labels[-2:],
    ]
    members, easy = scores.findall("g")[:2]
    low, high = report.table["score"].min(), report.table["score"].max()
    margin = 0.03 * (high - low)
    places = [(x - low + margin) / (high - low + 2 * margin) for x in report.table["score"][:24]]
    quarters = [place_share(share) for share in np.quantile(places, [0.25, 0.5, 0.75])]
    wide = [quarters[0], quarters[2] - quarters[0]]
    middle = [quarters[1], quarters[1], -17]
    for (tone, numbers), (expected_tone, place) in zip(
        read_shapes(members),
        [
            ("rust-faint", wide),
            *(("rust", [place_share(share)]) for share in places),
            ("ink", middle),
        ],
        strict=True,
    ):
        assert tone == expected_tone
        assert numbers[: len(place)] == pytest.approx(place, abs=0.11)
    assert [tone for tone, _ in read_shapes(easy)] == ["grey-faint", *["open"] * 24, "ink"]


@pytest.mark.parametrize(
    ("scores", "dots", "ticks"),
    [
        ((0.0, 1.0), [3 / 106, 103 / 106], ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ((2.0, 2.0), [0.5, 0.5], ["1.97", "1.98", "1.99", "2", "2.01", "2.02"]),
        (tuple(map(float, range(401))), [], ["0", "100", "200", "300", "400"]),
    ],
)
def test_the_axis_of_scores_holds_them(
    scores: tuple[float, ...], dots: list[float], ticks: list[str]
) -> None:
    kinds = [KindScores("member", scores, 0), KindScores("easy", (), 2)]
    strip = score_strip(kinds)
    assert strip is not None
    (row,) = strip["rows"]
    assert (row["kind"], row["n"], row["is_asked"]) == ("member", len(scores), True)
    assert [share for share, _ in row["dots"]] == pytest.approx(dots)
    assert all(-14 <= y <= 14 for _, y in row["dots"])
    assert [text for _, text in strip["ticks"]] == ticks
    assert score_strip(kinds[1:]) is None


@pytest.mark.parametrize("scenario", [1, 2])
@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_report_of_causal_models_says_what_they_did(scenario: int, language: Language) -> None:
    html = unescape(
        report_html(make_causal_report(scenario), choice=ReportChoice(language=language))
    )
    words = catalogue(language, "report")
    told = ("who", "method", "evidence", "attack")
    for key in told:
        sentence = words[f"{key}_{scenario}_causal"].partition("{")[0]
        assert sentence in html, key
    for key in (f"method_{scenario}", f"attack_{scenario}", f"evidence_{scenario}"):
        assert words[key] not in html
    assert not any(word in html for word in ("[MASK]", "dropout", "Gibbs", "{prompt}"))
    has_tries = scenario == 1
    assert (words["tries_never"] in html) is has_tries
    assert (words["column_tries"] in html) is has_tries
    if has_tries:
        assert "69<small>299</small>" in html  # tries at a chance of one in a hundred
        assert "Patient:" in html
