"""Untrusted text on the screen and in its files: whole, escaped, and masked where it is masked."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.names.candidates import make_candidates
from audit.report.documents import document_view, find_hits, marks_of
from audit.stats import Estimate
from pages.ui import blocks as shown_as
from pages.ui.blocks import MarkLabel, marked, masked_stretch, shown_text, with_slot
from pages.ui.name_documents import documents_file
from tests.pages.make_reports import make_report

HOSTILE = '<img src=x onerror="a()"> & ![x](http://evil.example) </mark>'
NAMES = [("Ann", "Lee"), ("太郎", "山田"), ("img", "mark")]
PIECES = ["Ann", "lee", " ", "山田太郎", "<img>", "&amp;", "</mark>", "&", '"', "x"]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def stripped(shown: str) -> str:
    without = re.sub(r"<small>.*?</small>", "", shown)
    return html.unescape(re.sub(r"</?mark[^<>]*>", "", without))


@settings(deadline=None, max_examples=200)
@given(st.one_of(texts, st.text(max_size=40)))
def test_without_the_marks_the_text_is_the_text_and_masked_as_in_a_file(text: str) -> None:
    marks = marks_of(find_hits([text], names=make_candidates(NAMES))[0])
    revealed, hidden = (
        marked(text, marks=marks, label=lambda _: MarkLabel("<f>", "flagged"), is_revealed=is_shown)
        for is_shown in (True, False)
    )
    assert stripped(revealed) == shown_text(text, marks=marks, is_revealed=True) == text
    assert stripped(hidden) == shown_text(text, marks=marks, is_revealed=False)
    assert revealed.count("<mark ") == revealed.count("</mark>") == len(marks)
    tags = set(re.findall(r"<[^<>]*>", revealed))
    assert tags <= {'<mark class="ka-mark ka-mark-flagged">', "</mark>", "<small>", "</small>"}
    stretches = [masked_stretch(text[mark.start : mark.end]) for mark in marks]
    assert all(re.fullmatch(r".?\*\*\*", word) for one in stretches for word in one.split())


def test_masking_and_escaping_by_hand() -> None:
    text = "Ann Lee, 山田太郎 and <ann>"
    marks = marks_of(find_hits([text], names=make_candidates(NAMES))[0])
    assert shown_text(text, marks=marks, is_revealed=False) == "A*** L***, 山*** and <a***>"
    assert masked_stretch("d'Arc  X\n子") == "d***  ***\n***"
    passage = with_slot(HOSTILE, slot=HOSTILE, after=HOSTILE, tone="member")
    assert stripped(passage) == HOSTILE * 3
    assert "<img" not in passage
    assert shown_as.plain("$a$ :red[b]\n# ![x](/p)") == r"\$a\$ \:red\[b\] \# \!\[x\]\(\/p\)"


def test_what_is_undefined_is_a_dash_never_a_nan() -> None:
    undefined = Estimate(math.nan, math.nan, math.nan)
    assert shown_as.percent(math.nan) == shown_as.percent_interval(undefined) == "—"
    assert shown_as.percent_interval(Estimate(0.0, -0.25, 0.75)) == "−25.0 – 75.0 %"


def test_documents_in_a_file_are_masked_as_on_the_screen_and_guarded() -> None:
    hospital = ["=cmd() Sophia2 Wright2", "nothing\nhere", "x"]
    documents = {"hospital": hospital, "general": ["a", "b", "emil1"]}
    view = document_view(documents, report=make_report(1))
    assert view is not None
    data = documents_file(view, np.array([0, 1]), "csv", False)
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    assert rows[:4] == [
        ["document_id", "model", "text"], ["0", "hospital", "'=cmd() S*** W***"],
        ["0", "general", "a"], ["1", "hospital", "nothing\nhere"],
    ]  # fmt: skip
    assert len(rows) == 5
    for is_revealed, first, last in (
        (True, hospital[0], "emil1"), (False, "=cmd() S*** W***", "e***")
    ):  # fmt: skip
        data = documents_file(view, np.array([0, 2]), "jsonl", is_revealed)
        lines = [json.loads(line) for line in data.decode().splitlines()]
        assert lines[0] == {"document_id": 0, "model": "hospital", "text": first}
        assert [line["document_id"] for line in lines] == [0, 0, 2, 2]
        assert lines[-1]["text"] == last
