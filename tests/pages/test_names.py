"""The Names page through Streamlit's own tester."""

from __future__ import annotations

import pytest

from audit.notes.passages import Passage
from pages.ui.state import words_of
from tests.pages.make_reports import (
    MEMBERS,
    keep,
    make_causal_report,
    make_inspection,
    make_report,
    make_special_names,
)
from tests.pages.screen import HOSTILE, keys, links, open_page, parameter, press, texts, widget

pytestmark = pytest.mark.long

PASSAGES = (
    Passage("Mr. ", ("first", "last"), " ", f" is 50. {HOSTILE}", "a", MEMBERS[0]),
    Passage("seen ", ("full",), "", " today", HOSTILE, 1),
)


def test_every_name_is_in_the_table_and_masked() -> None:
    report = make_report(2)
    keep(report)
    app = open_page("names")
    frame = app.dataframe[0].value
    assert len(frame) == report.n_names
    assert frame["score"].is_monotonic_decreasing
    assert "S*** W***" in set(frame["name"])
    assert not any(part in set(frame["name"]) for name in MEMBERS for part in name)
    assert set(frame["kind"]) == {"Member", "Easy control", "Hard control"}
    by_number = frame.set_index("number")
    assert by_number.loc["P-0005", "q"] == report.names["q_value"][3]
    assert by_number.loc["P-0005", "hospital"] == report.names["hospital_posterior"][3]


def test_facets_and_order_go_into_the_address_and_outlast_the_other_tab() -> None:
    report = make_report(2)
    keep(report)
    app = open_page("names")
    widget(app, "button_group", "choice_kind").set_value(["easy"]).run()
    app.selectbox(key="choice_sort").set_value("q").run()
    assert not app.exception
    for tab in ("documents", "table"):
        widget(app, "button_group", "choice_tab").set_value(tab).run()
        assert (parameter(app, "kind"), parameter(app, "sort")) == ("easy", "q")
    assert set(app.dataframe[0].value["kind"]) == {"Easy control"}
    assert app.dataframe[0].value["q"].is_monotonic_increasing
    again = open_page("names", kind="easy,hard", sort="q", order="desc").dataframe[0].value
    assert set(again["kind"]) == {"Easy control", "Hard control"}
    assert again["q"].is_monotonic_decreasing
    for sort, order in (("q", "desc"), ("score", "asc")):  # links of before
        assert parameter(open_page("names", sort=sort, order="turned"), "order") == order
    nonsense = open_page("names", kind="<b>,,x", sort="first", order="up", name="<img>")
    assert len(nonsense.dataframe[0].value) == report.n_names
    assert not parameter(nonsense, "kind") and not parameter(nonsense, "name")
    assert (parameter(nonsense, "sort"), parameter(nonsense, "order")) == ("score", "desc")
    assert "<img>" not in texts(nonsense)


def test_search_finds_numbers_and_where_names_are_shown_names_and_stays_out_of_the_address() -> (
    None
):
    keep(make_report(2))
    numbers_by_text = {"wright7": ["P-0009"], "P-0032": ["P-0032"], "nobody": [], "9": ["P-0009"]}
    for is_revealed in (False, True):
        app = open_page("names", reveal=is_revealed)
        box = app.text_input(key="names_search")
        assert box.proto.autocomplete == "off"
        only_numbers = "the search looks at numbers alone"
        assert (only_numbers in box.help) == (box.label == "Search by number") != is_revealed
        for typed, rows in numbers_by_text.items():
            numbers = rows if is_revealed or typed.endswith(("9", "2")) else []
            app.text_input(key="names_search").set_value(typed).run()
            assert not app.exception
            assert [n for table in app.dataframe for n in table.value["number"]] == numbers
            sentence = "No name fits" if is_revealed else only_numbers
            assert (sentence in texts(app)) == (not numbers)
        assert "wright" not in str(app.query_params).lower()


def test_what_nearly_is_the_name_is_masked_with_it() -> None:
    keep(make_report(2))
    app = open_page("names", sort="popularity", name="4")
    assert "popularity" not in app.dataframe[0].value
    assert "Popularity" not in texts(app)
    assert "Popularity" not in app.selectbox(key="choice_sort").options
    revealed = open_page("names", reveal=True, sort="popularity", name="4")
    assert "popularity" in revealed.dataframe[0].value
    assert "Popularity" in texts(revealed)
    press(revealed, "hide_names")
    assert revealed.selectbox(key="choice_sort").value == "score"


def test_a_name_tells_its_whole_story_and_leads_to_its_neighbours() -> None:
    report = make_report(2)
    keep(report, inspection=make_inspection(report, passages=PASSAGES))
    app = open_page("names", name="0")
    page_text = texts(app)
    assert "P-0002 · S*** W***" in page_text
    assert len(app.get("plotly_chart")) == 2
    assert all(chart.proto.alt for chart in app.get("plotly_chart"))
    assert "Passage 1 · its own" in page_text  # "a" is the hospital's own word, which may be a name
    assert "[name]" in page_text
    assert "of 600 comparable controls (" in page_text
    assert "<img" not in page_text.replace("&lt;img", "")
    assert not any(part in page_text for name in MEMBERS for part in name)
    assert any("name=0" in code.value for code in app.code)
    number = app.dataframe[0].value["number"].tolist()
    first = press(open_page("names"), "names_first")
    assert f"{number[0]} · " in texts(first) and first.button(key="names_previous").disabled
    second = texts(press(first, "names_next"))
    assert f"{number[1]} · " in second and f"{number[0]} · " not in second
    assert parameter(first, "name") and "names_first" not in keys(first)


def test_scenario_one_shows_the_documents_that_hold_the_name() -> None:
    report = make_report(1)
    documents = {
        "hospital": [f"x Sophia2 {HOSTILE}", "nothing", "wright2"],
        "general": ["nothing"] * 3,
    }
    keep(report, inspection=make_inspection(report), documents=documents)
    app = open_page("names", name="2")
    page_text = texts(app)
    assert "of 3 by each model: hospital model 2, general model 0" in page_text
    assert "S***<small>part of the name of P-0004 +1" in page_text
    assert "Sophia2" not in page_text
    assert "&lt;img src=x&gt;" in page_text
    assert "<img" not in page_text
    assert any({"has=2", "tab=documents"} <= set(query.split("&")) for _, _, query in links(app))


def test_hostile_names_and_roles_do_not_get_through_and_canaries_have_words() -> None:
    report = make_report(2, members=[(HOSTILE, HOSTILE), *MEMBERS[1:]])
    names = dict(report.names)
    names["role"] = [HOSTILE, *[""] * (report.n_names - 1)]
    keep(report.changed(names=names))
    app = open_page("names", reveal=True, name="0")
    assert "<img" not in texts(app)
    assert "&lt;img src=x&gt;" in texts(app)
    roles = widget(app, "button_group", "choice_role")
    labels = " ".join(option.content for option in roles.proto.options)
    assert "evil" in labels
    assert "![x](" not in labels
    special = make_report(2, names=make_special_names(), at="2026-11-22T10:00:00+00:00")
    keep(special)
    frame = open_page("names", audit=special.digest[:12]).dataframe[0].value
    assert {"Planted canary", "Held-out canary"} <= set(frame["kind"])


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_causal_models_are_described_as_what_they_are(lang: str) -> None:
    say = words_of(lang)
    reports = [make_causal_report(scenario) for scenario in (1, 2)]
    for report in reports:
        keep(report, inspection=make_inspection(report, passages=PASSAGES))
    for report in reports:
        app = open_page("names", audit=report.digest, name="0", lang=lang)
        page_text = texts(app)
        assert say.html(f"names_evidence_{report.attack}") in page_text
        assert say.html(f"names_evidence_{report.scenario.number}") not in page_text
        is_written = report.scenario.number == 1
        assert (say.html("names_tries_below") in page_text) is is_written
        frame = app.dataframe[0].value
        assert ("tries_50" in frame) is is_written
        if is_written:
            assert set(frame["tries_95"]) == {"299", say.text("names_tries_never")}
            assert '<td class="ka-text">69</td>' in page_text
