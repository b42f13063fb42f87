"""The documents and passages of the Names page through Streamlit's own tester."""

from __future__ import annotations

import pytest

from audit.notes.passages import Passage
from audit.report.report import AuditReport
from tests.pages.make_reports import MEMBERS, keep, make_inspection, make_report
from tests.pages.screen import HOSTILE, downloads, open_page, parameter, press, texts, widget

N = 45
HOSPITAL = [f"[CLS] text {i} {HOSTILE}" for i in range(N)]
HOSPITAL[3] = "[CLS] Sophia2 Wright2 is old"
HOSPITAL[33] = "seen by WRIGHT5, and sophia5"
GENERAL = [f"general {i}" for i in range(N)]
GENERAL[4] = "emil1 came"
COUNTS = {"first": 2911, "last": 446, "first_last": 113, "last_first": 7, "listed": 2}
CARD = '<section class="ka-pair"'


def documents(**query: str) -> str:
    return texts(open_page("names", tab="documents", **query))


@pytest.fixture
def generated() -> AuditReport:
    report = make_report(1).changed(
        details={role: {"name_counts": COUNTS} for role in ("hospital", "general")}
    )
    keep(report, documents={"hospital": HOSPITAL, "general": GENERAL})
    return report


def test_both_models_stand_beside_each_other_masked_and_marked(generated: AuditReport) -> None:
    app = open_page("names", tab="documents")
    page_text = texts(app)
    assert "S*** W***<small>full name of P-0004" in page_text
    assert "general 0" in page_text
    assert "e***<small>part of the name of P-0027, control" in page_text
    assert page_text.count(CARD) == 10
    assert not any(part in page_text for name in MEMBERS for part in name)
    assert "2 of 45" in page_text  # the hospital model's documents that hold a listed name
    assert "<img" not in page_text
    assert "&lt;img src=x&gt;" in page_text
    for count in ("2,911", "446", "113", "7", "2"):  # the paper's counts, both orders apart
        assert f'<td class="ka-number">{count}</td><td class="ka-number">{count}</td>' in page_text
    assert not any(downloads(app).values()) and "documents_jsonl" in downloads(app)


@pytest.mark.long
def test_a_filter_narrows_and_a_link_opens_a_filter_a_page_or_a_name(
    generated: AuditReport,
) -> None:
    app = open_page("names", tab="documents", page="3")
    assert "general 20" in texts(app)
    widget(app, "button_group", "choice_group").set_value("member").run()
    assert not app.exception
    assert texts(app).count(CARD) == 2
    assert (parameter(app, "group"), parameter(app, "page")) == ("member", "")
    assert documents(group="none").count(CARD) == 10
    assert "3 of 45 pairs" in documents(group="candidate")
    app = open_page("names", tab="documents", has="5")
    assert "Only documents with a part of P-0007 · S*** W***." in texts(app)
    assert "1 of 45 pairs" in texts(app)
    press(app, "documents_clear")
    assert "45 of 45 pairs" in texts(app)
    assert parameter(app, "has") == ""


@pytest.mark.long
def test_search_is_literal_passes_over_masked_names_and_stays_out_of_the_address(
    generated: AuditReport,
) -> None:
    n_pairs_by_text = {"TEXT 12 ![x]": (1, 1), ".*": (0, 0), "sophia2": (0, 1)}
    for is_revealed in (False, True):
        app = open_page("names", reveal=is_revealed, tab="documents")
        assert ("the search skips them" in texts(app)) != is_revealed
        for typed, n in n_pairs_by_text.items():
            app.text_input(key="documents_search").set_value(typed).run()
            sentence = f"{n[is_revealed]} of 45 pairs" if n[is_revealed] else "No document fits"
            assert sentence in texts(app), typed
        assert "sophia" not in str(app.query_params) and "*" not in str(app.query_params)


@pytest.mark.long
def test_passages_are_masked_searched_and_paged() -> None:
    report = make_report(2)
    passages = [
        Passage("Mr. ", ("first", "last"), " ", " is 50.", HOSTILE, MEMBERS[0]),
        *(Passage(f"left {i} ", ("full",), "", HOSTILE, str(i), None) for i in range(30)),
    ]
    keep(report, inspection=make_inspection(report, passages=passages))
    app = open_page("names", tab="documents")
    page_text = texts(app)
    assert "Nothing is generated in scenario 2" in page_text
    assert "Passage 1 · of P-0002 · S*** W***" in page_text
    assert '<mark class="ka-mark ka-mark-member">[name]</mark> is 50.' in page_text
    assert "<img" not in page_text
    for page in ("4", "99"):
        assert "left 29" in documents(page=page)
    for page in ("0", "-1", "x", "９", "1" * 99):
        assert "left 29" not in documents(page=page)
    app.text_input(key="passages_search").set_value("LEFT 7").run()
    assert "1 of 31 passages" in texts(app)
    assert "evil" not in page_text.partition("Passage 1 ·")[2].partition("<div")[0]
    revealed = texts(open_page("names", reveal=True, tab="documents"))
    assert "Sophia0 Wright0</mark>" in revealed
    assert f"Passage {HOSTILE}".replace("<", "&lt;").partition("&lt;")[0] in revealed


@pytest.mark.long
def test_what_is_not_kept_is_said(home: object) -> None:
    for scenario, sentence in (
        (1, "documents of this audit are not kept"),
        (2, "not kept for this"),
    ):
        report = make_report(scenario)
        keep(report)
        assert sentence in documents(audit=report.digest[:12])
