"""The Documents page through Streamlit's own tester."""

from __future__ import annotations

import pytest

from audit.notes.passages import Passage
from audit.report.report import AuditReport
from tests.pages.make_reports import MEMBERS, keep, make_inspection, make_report
from tests.pages.screen import HOSTILE, open_page, parameter, press, texts, widget

N = 45
HOSPITAL = [f"[CLS] text {i} {HOSTILE}" for i in range(N)]
HOSPITAL[3] = "[CLS] Sophia2 Wright2 is old"
HOSPITAL[33] = "seen by WRIGHT5, and sophia5"
GENERAL = [f"general {i}" for i in range(N)]
GENERAL[4] = "emil1 came"


@pytest.fixture
def generated() -> AuditReport:
    report = make_report(1)
    keep(report, documents={"hospital": HOSPITAL, "general": GENERAL})
    return report


def test_both_models_stand_beside_each_other_masked_and_marked(generated: AuditReport) -> None:
    shown = texts(open_page("documents"))
    assert "S*** W***<small>full name of P-0004" in shown
    assert "general 0" in shown
    assert "e***<small>part of the name of P-0027, control" in shown
    assert shown.count('<section class="ka-pair"') == 10
    assert not any(part in shown for name in MEMBERS for part in name)
    assert "2 of 45" in shown  # the hospital model's documents that hold a listed name
    assert "<img" not in shown
    assert "&lt;img src=x&gt;" in shown


def test_a_filter_narrows_and_a_link_opens_a_filter_a_page_or_a_name(
    generated: AuditReport,
) -> None:
    app = open_page("documents")
    widget(app, "button_group", "documents_group").set_value("member").run()
    assert not app.exception
    assert texts(app).count('<section class="ka-pair"') == 2
    assert parameter(app, "group") == "member"
    assert texts(open_page("documents", group="none")).count('<section class="ka-pair"') == 10
    assert "3 of 45 pairs" in texts(open_page("documents", group="candidate"))
    assert "general 20" in texts(open_page("documents", page="3"))
    app = open_page("documents", has="5")
    assert "Only documents with a part of P-0007 · S*** W***." in texts(app)
    assert "1 of 45 pairs" in texts(app)
    press(app, "documents_clear")
    assert "45 of 45 pairs" in texts(app)
    assert parameter(app, "has") == ""


def test_search_is_literal_passes_over_masked_names_and_stays_out_of_the_address(
    generated: AuditReport,
) -> None:
    found = {"TEXT 12 ![x]": (1, 1), ".*": (0, 0), "sophia2": (0, 1)}
    for is_revealed in (False, True):
        app = open_page("documents", reveal=is_revealed)
        assert ("the search passes over them" in texts(app)) != is_revealed
        for typed, n in found.items():
            app.text_input(key="documents_search").set_value(typed).run()
            said = f"{n[is_revealed]} of 45 pairs" if n[is_revealed] else "No document fits"
            assert said in texts(app), typed
        assert "sophia" not in str(app.query_params) and "*" not in str(app.query_params)


def test_passages_are_masked_searched_and_paged() -> None:
    report = make_report(2)
    passages = [
        Passage("Mr. ", ("first", "last"), " ", " is 50.", HOSTILE, MEMBERS[0]),
        *(Passage(f"left {i} ", ("full",), "", HOSTILE, str(i), None) for i in range(30)),
    ]
    keep(report, inspection=make_inspection(report, passages=passages))
    app = open_page("documents")
    shown = texts(app)
    assert "In scenario 2 nothing is generated" in shown
    assert "Passage 1 · of P-0002 · S*** W***" in shown
    assert '<mark class="ka-mark ka-mark-member">[name]</mark> is 50.' in shown
    assert "<img" not in shown
    assert "left 29" in texts(open_page("documents", page="4"))
    app.text_input(key="passages_search").set_value("LEFT 7").run()
    assert "1 of 31 passages" in texts(app)
    assert "evil" not in shown.partition("Passage 1 ·")[2].partition("<div>")[0]
    revealed = texts(open_page("documents", reveal=True))
    assert "Sophia0 Wright0</mark>" in revealed
    assert f"Passage {HOSTILE}".replace("<", "&lt;").partition("&lt;")[0] in revealed
