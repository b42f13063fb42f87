"""The Names page through Streamlit's own tester."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from audit.home import HOME_VARIABLE, results_dir
from audit.notes.passages import Passage
from audit.report.report import AuditReport
from cache.store import Store
from pages.ui import cached
from pages.ui.language import words_of
from tests.pages.make_reports import MEMBERS, keep, keep_behind, make_inspection, make_report

REPOSITORY = Path(__file__).resolve().parents[2]
HOSTILE = "![x](http://evil.example/p.png)<img src=x>"
PASSAGES = (
    Passage("Mr. ", ("first", "last"), " ", f" is 50. {HOSTILE}", "a", MEMBERS[0]),
    Passage("seen ", ("full",), "", " today", HOSTILE, 1),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    return results_dir()


def kept(home: Path, report: AuditReport, **behind: Any) -> AuditReport:
    keep({"own": report}, directory=home, is_demo=False)
    keep_behind(report, directory=home, **behind)
    return report


def open_page(*, reveal: bool = False, **query: str) -> AppTest:
    app = AppTest.from_file(REPOSITORY / "pages" / "ui" / "main.py", default_timeout=30)
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    app.session_state["is_revealed"] = reveal
    app.switch_page("../names.py").run()
    assert not app.exception
    return app


def at_page(app: AppTest, **query: str) -> AppTest:
    for name, value in query.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def texts(app: AppTest) -> str:
    return "\n".join(block.proto.body for block in app.get("html"))


def widget(app: AppTest, kind: str, key: str) -> Any:
    return next(one for one in app.get(kind) if one.key == key)


def param(app: AppTest, name: str) -> str:
    value = app.query_params.get(name, "")
    return value[0] if isinstance(value, list) else value


def test_without_an_audit_the_page_says_what_to_do(home: Path) -> None:
    app = open_page()
    assert app.title[0].value.endswith("?")
    assert "There is no audit to look at yet" in texts(app)


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize(
    ("scenario", "fixed"), [(1, "residual"), (2, "residual"), (1, "product"), (2, "mean_log_ratio")]
)
def test_the_page_tells_the_score_that_was_fixed(
    home: Path, scenario: int, fixed: str, language: str
) -> None:
    kept(home, make_report(scenario).changed(fixed_score=fixed))
    shown = texts(open_page(lang=language))
    scores = ("residual", "product", "mean_log_ratio")
    told = [one for one in scores if words_of(language).html(f"names_below_{one}") in shown]
    assert told == [fixed]


def test_every_name_is_in_the_table_and_masked(home: Path) -> None:
    report = kept(home, make_report(2))
    app = open_page()
    shown = app.dataframe[0].value
    assert len(shown) == report.n_names
    assert shown["score"].is_monotonic_decreasing
    assert "S*** W***" in set(shown["name"])
    assert not any(part in set(shown["name"]) for name in MEMBERS for part in name)
    assert set(shown["kind"]) == {"Member", "Easy control", "Hard control"}
    by_number = shown.set_index("number")
    assert by_number.loc["P-0005", "q"] == report.names["q_value"][3]
    assert by_number.loc["P-0005", "hospital"] == report.names["hospital_posterior"][3]


def test_revealed_names_are_shown_in_full(home: Path) -> None:
    kept(home, make_report(2))
    assert "Sophia3 Wright3" in set(open_page(reveal=True).dataframe[0].value["name"])


def test_facets_narrow_the_table_and_go_into_the_address(home: Path) -> None:
    kept(home, make_report(2))
    app = open_page()
    pills = widget(app, "button_group", "names_kind")
    pills.set_value(["easy"]).run()
    assert not app.exception
    assert set(app.dataframe[0].value["kind"]) == {"Easy control"}
    assert param(app, "kind") == "easy"
    again = at_page(open_page(), kind="easy,hard", sort="q", order="desc")
    shown = again.dataframe[0].value
    assert set(shown["kind"]) == {"Easy control", "Hard control"}
    assert shown["q"].is_monotonic_decreasing


def test_a_link_with_nonsense_shows_everything(home: Path) -> None:
    report = kept(home, make_report(2))
    app = at_page(open_page(), kind="<b>,,x", sort="first", order="up", name="<img>")
    assert len(app.dataframe[0].value) == report.n_names
    assert not any(param(app, key) for key in ("kind", "sort", "order", "name"))
    assert "<img>" not in texts(app)


def test_search_finds_names_and_numbers_and_stays_out_of_the_address(home: Path) -> None:
    kept(home, make_report(2))
    app = open_page(reveal=True)
    box = next(one for one in app.text_input if one.key == "names_search")
    box.set_value("wright7").run()
    assert list(app.dataframe[0].value["number"]) == ["P-0009"]
    box.set_value("P-0032").run()
    assert list(app.dataframe[0].value["number"]) == ["P-0032"]
    box.set_value("nobody").run()
    assert not app.dataframe
    assert "No name fits" in texts(app)
    assert "wright" not in str(app.query_params).lower()


def test_masked_names_are_found_by_number_alone_and_the_page_says_so(home: Path) -> None:
    kept(home, make_report(2))
    app = open_page()
    assert "the search looks at numbers alone" in texts(app)
    box = next(one for one in app.text_input if one.key == "names_search")
    assert box.label == "Search by number"
    assert box.proto.autocomplete == "off"
    for piece in ("Mic", "s", "wright7", "Sophia"):
        box.set_value(piece).run()
        assert not app.exception
        assert not app.dataframe
        assert texts(app).count("the search looks at numbers alone") == 2
        facet = widget(app, "button_group", "names_kind")
        assert all(option.content.endswith("(0)") for option in facet.proto.options)
    box.set_value("9").run()
    assert list(app.dataframe[0].value["number"]) == ["P-0009"]


def test_what_nearly_is_the_name_is_masked_with_it(home: Path) -> None:
    kept(home, make_report(2))
    app = at_page(open_page(), sort="popularity", name="4")
    assert "popularity" not in app.dataframe[0].value
    assert param(app, "sort") == ""
    assert "Popularity" not in texts(app)
    assert "Popularity" not in app.selectbox(key="names_sort").options
    revealed = at_page(open_page(reveal=True), sort="popularity", name="4")
    assert "popularity" in revealed.dataframe[0].value
    assert "Popularity" in texts(revealed)
    revealed.button(key="hide_names").click().run()
    assert not revealed.exception
    assert revealed.selectbox(key="names_sort").value == "score"


@pytest.mark.parametrize(("language", "words"), [("en", "It is close to the threshold"),
                                                 ("ja", "しきい値に近く")])  # fmt: skip
def test_a_name_close_to_the_threshold_says_so_beside_its_decision(
    home: Path, language: str, words: str
) -> None:
    report = make_report(2)
    marks = [row == 1 for row in range(report.n_names)]
    kept(home, report.changed(names={**report.names, "is_undecided": marks}))
    assert words in texts(at_page(open_page(lang=language), name="1"))
    assert words not in texts(at_page(open_page(lang=language), name="2"))


def test_a_linked_name_shows_its_detail(home: Path) -> None:
    report = make_report(2)
    kept(home, report, inspection=make_inspection(report, passages=PASSAGES))
    app = at_page(open_page(), name="0")
    shown = texts(app)
    assert "P-0002 · S*** W***" in shown
    assert len(app.get("plotly_chart")) == 2
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    assert len(app.expander) >= 2
    assert "Passage 1 · its own" in shown  # "a" is the hospital's own word, which may be a name
    assert "[name]" in shown
    assert "of 600 reference controls (" in shown
    assert "<img" not in shown.replace("&lt;img", "")
    assert not any(part in shown for name in MEMBERS for part in name)
    assert any("name=0" in code.value for code in app.code)


def test_the_neighbours_are_those_of_the_table(home: Path) -> None:
    kept(home, make_report(2))
    app = at_page(open_page(), sort="name_id", order="asc", name="4")
    app.button(key="names_next").click().run()
    assert param(app, "name") == "5"
    app.button(key="names_previous").click().run()
    assert param(app, "name") == "4"
    assert app.button(key="names_previous").disabled is False
    assert at_page(app, name="0").button(key="names_previous").disabled is True


def test_an_audit_of_an_older_version_says_that_running_again_is_cheap(home: Path) -> None:
    kept(home, make_report(2, has_truth=False))
    app = at_page(open_page(), name="1")
    assert "Run the same audit again" in texts(app)
    assert not app.get("plotly_chart")
    assert "The list does not say" in texts(app)


def test_scenario_one_shows_the_documents_that_hold_the_name(home: Path) -> None:
    report = make_report(1)
    documents = {
        "hospital": [f"x Sophia2 {HOSTILE}", "nothing", "wright2"],
        "general": ["nothing"] * 3,
    }
    kept(home, report, inspection=make_inspection(report), documents=documents)
    app = at_page(open_page(), name="2")
    shown = texts(app)
    assert "of 3 by each model: hospital model 2, general model 0" in shown
    assert "S***<small>first name of P-0004 +1" in shown
    assert "Sophia2" not in shown
    assert "&lt;img src=x&gt;" in shown
    assert "<img" not in shown
    link = next(one.proto for one in app.get("page_link") if "has=2" in one.proto.query_string)
    assert link.page == "documents" or link.page_script_hash


def test_hostile_names_and_roles_do_not_get_through(home: Path) -> None:
    report = make_report(2, members=[(HOSTILE, HOSTILE), *MEMBERS[1:]])
    names = dict(report.names)
    names["role"] = [HOSTILE, *[""] * (report.n_names - 1)]
    kept(home, report.changed(names=names))
    app = at_page(open_page(reveal=True), name="0")
    assert "<img" not in texts(app)
    assert "&lt;img src=x&gt;" in texts(app)
    roles = widget(app, "button_group", "names_role")
    labels = " ".join(option.content for option in roles.proto.options)
    assert "evil" in labels
    assert "![x](" not in labels
    assert param(app, "role") == ""
    assert widget(roles.root, "button_group", "names_role").options


def test_japanese_is_complete(home: Path) -> None:
    report = make_report(1)
    kept(home, report, inspection=make_inspection(report), documents={"hospital": ["Sophia1"]})
    app = at_page(open_page(lang="ja"), name="1")
    assert app.title[0].value == "誰の氏名が際立ち、そのスコアは何に基づくか"
    assert "メンバー" in set(app.dataframe[0].value["kind"])


def test_ten_thousand_names_stay_fluid(home: Path) -> None:
    report, n = make_report(2), 10_000
    names = {c: (v * (n // len(v) + 1))[:n] for c, v in report.names.items()}
    names["name_id"] = list(range(n))
    with Store(home) as store:
        store.put_record(f"audit/{report.digest}", report.changed(names=names).to_json())
    app = at_page(open_page(), name="9999")
    assert len(app.dataframe[0].value) == n
    took = []
    for order in ("asc", "desc", "asc"):
        start = time.perf_counter()
        at_page(app, order=order, sort="name_id")
        took.append(time.perf_counter() - start)
    assert min(took) < 1.0  # 0.15 on an idle machine


def test_what_is_seen_is_kept_by_digest(home: Path) -> None:
    report = kept(home, make_report(2))
    assert cached.report(report.digest).table is cached.report(report.digest).table
    masked = cached.shown_names(report.digest, is_revealed=False)
    assert masked[0] == "S*** W***"
    assert cached.shown_names(report.digest, is_revealed=True)[0] == "Sophia0 Wright0"
