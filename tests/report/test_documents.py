"""Documents: hits as the attack counts them, marks that cover them, filters by hand."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.redact.name_places import NameFinder
from audit.errors import AuditError
from audit.names.candidates import make_candidates
from audit.names.matching import PartIndex, name_hits
from audit.notes.passages import Passage
from audit.report.documents import (
    MAX_SEARCHED,
    DocumentView,
    DocumentWish,
    Hit,
    find_hits,
    listed_names,
    make_document_view,
    merge_hits,
    select_documents,
    select_passages,
)
from tests.pages.make_reports import make_inspection, make_report

NAMES = [
    ("Ann", "Lee"),
    ("Lee", "Ann"),
    ("Mary Jo", "de la Cruz"),
    ("Zoé", "O'Brien"),
    ("", "Straße"),
    ("太郎", "山田"),
    ("花子", "山田"),
    ("Anna", "高橋"),
    ("ガブリエル", "ｶﾞﾙｼｱ"),
    ("Мария", "Иванова"),
    ("Mask", "Sep"),
    ("Ann", "Ann"),
    ("한", "김"),
]
PIECES = [
    *" ,.;-'_\n\u3000",
    "[MASK]",
    "[SEP]",
    "x",
    "Ｌｅｅ",
    "ＡＮＮ",
    "ann",
    "LEE",
    "zoe\u0301",
    "Zoé",
    "ZOE",
    "o'brien",
    "mary  jo",
    "De La Cruz",
    "STRASSE",
    "straße",
    "山田",
    "太郎",
    "花",
    "子",
    "anna",
    "高",
    "橋",
    "ガブリエル",
    "カ\u3099",
    "ｶﾞﾙｼｱ",
    "がるしあ",
    "мария",
    "한",
    "김",
    "\u1112\u1161\u11ab",
    "ﬁ",
    "İ",
    "´",
    "🙂",
]
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)


@given(texts)
def test_hits_are_those_that_the_attack_counts_and_marks_cover_them(text: str) -> None:
    names = make_candidates(NAMES)
    part_hits, full_hits = name_hits(names, documents=[text])
    (hits,) = find_hits([text], index=PartIndex(names))
    assert {i for hit in hits for i in hit.name_ids} == set(np.flatnonzero(part_hits[0]))
    assert {i for hit in hits if hit.part == "full" for i in hit.name_ids} == set(
        np.flatnonzero(full_hits[0])
    )
    marks = merge_hits(hits)
    assert all(mark.end <= next_mark.start for mark, next_mark in pairwise(marks))
    covered = [i for mark in marks for i in range(mark.start, mark.end)]
    assert len(covered) == len(set(covered))
    assert set(covered) == {i for hit in hits for i in range(hit.start, hit.end)}


@pytest.mark.parametrize(
    ("text", "expected_marks"),
    [
        ("so Ann  Lee, came", [("Ann  Lee", "full", (0,))]),
        ("LEE was here", [("LEE", "part", (0, 1))]),
        ("annex leeds", []),
        ("MARY jo", [("MARY jo", "part", (2,))]),
        ("zoe\u0301 o'brien!", [("zoe\u0301 o'brien", "full", (3,))]),
        ("患者は山田 太郎です", [("山田 太郎", "full", (5,))]),
        ("山田さん", [("山田", "part", (5, 6))]),
        ("[MASK] mask", [("mask", "part", (10,))]),
        ("in der STRASSE", [("STRASSE", "full", (4,))]),
    ],
)
def test_marks_by_hand(text: str, expected_marks: list[tuple[str, str, tuple[int, ...]]]) -> None:
    marks = merge_hits(find_hits([text], index=PartIndex(make_candidates(NAMES[:11])))[0])
    assert [(text[m.start : m.end], m.part, m.name_ids) for m in marks] == expected_marks


def test_a_hit_that_reaches_out_of_another_keeps_its_rest() -> None:
    marks = merge_hits([Hit(0, 4, "full", (1,)), Hit(2, 7, "full", (2,)), Hit(5, 6, "part", (3,))])
    assert marks == (Hit(0, 4, "full", (1,)), Hit(4, 7, "full", (2,)))
    assert merge_hits([Hit(0, 3, "part", (1,)), Hit(0, 3, "full", (2,))])[0].part == "full"


HOSPITAL = [
    "the patient Sophia3 Wright3 is old",
    "seen by Zorn2",
    "nothing at all",
    "SOPHIA0, again",
    *["filler"] * 20,
    "xwright3",
    "wright5",
]
GENERAL = ["nothing", "Emil1 Zorn1", "Other3", "nothing", *["filler"] * 20, "nothing"]
N = len(HOSPITAL)
REPORT = make_report(1)
FINDER = NameFinder(listed_names(REPORT.table))


@pytest.fixture(scope="module")
def view() -> DocumentView:
    document_view = make_document_view(
        {"hospital": HOSPITAL, "general": GENERAL}, report=REPORT, names=FINDER
    )
    assert document_view is not None
    return document_view


def test_documents_are_counted_by_whose_names_they_hold(view: DocumentView) -> None:
    flags = make_report(1).table["decision"] == "flagged"
    out = sum(bool(flags[i]) for i in (0, 3, 5))  # hard controls have first names of members
    counts = {g: tuple(m.share(g).n_hits for m in view.models) for g in view.hospital.has}
    assert counts == {
        "candidate": (4, 2),
        "member": (3, 0),
        "control": (3, 2),
        "flagged": (out, 0),
    }
    assert view.hospital.share("candidate").n_total == len(view) == N
    assert [model.role for model in view.models] == ["hospital", "general"]
    assert [HOSPITAL[0][m.start : m.end] for m in view.hospital.marks(0)] == ["Sophia3 Wright3"]
    assert view.general.marks(1)[0].part == "full"
    assert view.general.texts == (*GENERAL, "")  # a missing one is empty
    assert make_document_view({}, report=REPORT, names=FINDER) is None


@pytest.mark.parametrize(
    ("wish", "expected_rows"),
    [
        ({}, [0, 1, 2, 3, 25, *range(4, 25)]),  # those with listed names first
        ({"group": "member"}, [0, 3, 25]),
        ({"group": "control"}, [0, 1, 2, 3]),
        ({"group": "candidate"}, [0, 1, 2, 3, 25]),
        ({"group": "none"}, list(range(4, 25))),
        ({"name_id": 3}, [0]),
        ({"name_id": 25}, [1]),
        ({"text": "NOTHING"}, [0, 2, 3, 24]),
        ({"text": "nothing", "group": "member"}, [0, 3]),
        ({"text": ".*"}, []),
        # A search passes over names that are masked: it would tell them letter by letter.
        ({"text": "sophia3"}, []),
        ({"text": "Wright"}, []),
        ({"text": "patient s"}, []),
        ({"text": "IS old"}, [0]),
        ({"text": "sophia3 wright3", "is_revealed": True}, [0]),
        ({"text": "Wright", "is_revealed": True}, [0, 25, 24]),
    ],
)
def test_filters_by_hand(
    view: DocumentView, wish: dict[str, Any], expected_rows: list[int]
) -> None:
    assert select_documents(view, wish=DocumentWish(**wish)).tolist() == expected_rows


def test_a_filter_that_is_not_there_is_refused(view: DocumentView) -> None:
    with pytest.raises(ValueError, match="no such filter"):
        select_documents(view, wish=DocumentWish("<b>"))


FOUND = "She was seen by Dr. Barbara Hutchinson; the abdomen is soft."


def test_a_search_passes_over_names_that_are_found_and_not_listed_as_well() -> None:
    documents = {"hospital": [FOUND, "soft"], "general": ["nothing"] * 2}
    view = make_document_view(documents, report=REPORT, names=FINDER)
    assert view is not None
    for text, hidden, revealed in (
        ("hutch", [], [0]),
        ("barbara", [], [0]),
        ("soft", [0, 1], [0, 1]),
        ("by dr. b", [], [0]),
    ):
        for is_revealed, expected_rows in ((False, hidden), (True, revealed)):
            wish = DocumentWish(text=text, is_revealed=is_revealed)
            assert select_documents(view, wish=wish).tolist() == expected_rows, (text, is_revealed)


def test_a_search_of_masked_texts_has_a_limit_and_says_so() -> None:
    many = ["the abdomen is soft"] * (MAX_SEARCHED - 1) + ["soft and tender"] * 2
    view = make_document_view(
        {"hospital": many, "general": ["nothing"]}, report=REPORT, names=FINDER
    )
    assert view is not None
    with pytest.raises(AuditError, match="names are masked"):
        select_documents(view, wish=DocumentWish(text="soft"))
    revealed = DocumentWish(text="soft", is_revealed=True)
    assert len(select_documents(view, wish=revealed)) == len(many)
    assert len(select_documents(view, wish=DocumentWish(text="tender"))) == 2


def test_a_search_of_passages_passes_over_masked_names() -> None:
    passages = (
        Passage("Mr. ", ("full",), "", f" is old. {FOUND}", "a", None),
        Passage("x", ("full",), "", " and Sophia5 Wright5 left", "b", 7),
    )
    report = make_report(2)
    inspection, masking = make_inspection(report, passages=passages), FINDER
    for text, hidden, revealed in (
        ("hutchin", [], [1]),
        ("wright5", [], [2]),
        ("IS OLD", [1], [1]),
        ("", [1, 2], [1, 2]),
    ):
        for options, expected_numbers in (({"masking": masking}, hidden), ({}, revealed)):
            rows = select_passages(inspection, table=report.table, text=text, **options)
            assert [number for number, *_ in rows] == expected_numbers, (text, options)


def test_passages_are_listed_with_their_owner() -> None:
    passages = (
        Passage("Mr. ", ("full",), "", " is 50.", "a", ("SOPHIA2", "wright2")),
        Passage("x", ("full",), "", "y", "b", 7),
        Passage("", ("full",), "", "", "c", 72),
        Passage("", ("full",), "", "", "d", ("No", "Body")),
    )
    report = make_report(2)
    inspection = make_inspection(report, passages=passages)
    assert select_passages(inspection, table=report.table) == [
        (1, passages[0], 2),
        (2, passages[1], 7),
        (3, passages[2], None),
        (4, passages[3], None),
    ]
    passage_rows = select_passages(inspection, table=report.table, text="IS 50")
    assert passage_rows == [(1, passages[0], 2)]
