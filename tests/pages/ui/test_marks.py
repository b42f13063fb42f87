"""Untrusted text on the screen and in its files: whole, escaped, and masked where it is masked."""

from __future__ import annotations

import csv
import html
import io
import json
import math
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from audit.deid.redact.name_places import NameFinder
from audit.names.candidates import make_candidates
from audit.notes.passages import Passage
from audit.report.documents import Hit, find_hits, listed_names, make_document_view, merge_hits
from audit.stats import Estimate
from pages.ui import blocks as shown_as
from pages.ui import note_text
from pages.ui.blocks import escape_html
from pages.ui.name_documents import documents_file
from pages.ui.note_text import MarkLabel, mask_stretch, note_html, note_plain, passage_html
from tests.pages.make_reports import make_report

HOSTILE = '<img src=x onerror="a()"> & ![x](http://evil.example) </mark>'
NAMES = [("Ann", "Lee"), ("太郎", "山田"), ("img", "mark")]
PIECES = ["Ann", "lee", " ", "山田太郎", "<img>", "&amp;", "</mark>", "&", '"', "x"]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def stripped(note_markup: str) -> str:
    without = re.sub(r"<small>.*?</small>", "", note_markup)
    return html.unescape(re.sub(r"</?mark[^<>]*>", "", without))


FINDER = NameFinder(make_candidates(NAMES))


def marks_in(text: str) -> tuple[Hit, ...]:
    return merge_hits(find_hits([text], index=FINDER.index)[0])


@pytest.fixture
def is_shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """A function that says whether names are revealed."""
    return lambda is_revealed: monkeypatch.setattr(note_text, "is_revealed", lambda: is_revealed)


@pytest.mark.long
@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.one_of(texts, st.text(max_size=40)))
def test_without_the_marks_the_text_is_the_text_and_masked_as_in_a_file(
    is_shown: Callable[[bool], None], text: str
) -> None:
    marks = marks_in(text)
    for is_revealed in (True, False):
        is_shown(is_revealed)
        html = note_html(
            text, names=FINDER, marks=marks, label=lambda _: MarkLabel("<f>", "flagged")
        )
        if is_revealed or not marks:  # a stretch that a mark divides is masked in both parts
            assert stripped(html) == note_plain(text, names=FINDER, is_shown=is_revealed)
        assert html.count("<mark ") == html.count("</mark>") == len(marks)
        for mark in () if is_revealed else marks:
            assert escape_html(mask_stretch(text[mark.start : mark.end])) in html
        tags = set(re.findall(r"<[^<>]*>", html))
        assert tags <= {'<mark class="ka-mark ka-mark-flagged">', "</mark>", "<small>", "</small>"}
    assert note_plain(text, names=FINDER, is_shown=True) == text
    stretches = [mask_stretch(text[mark.start : mark.end]) for mark in marks]
    assert all(
        re.fullmatch(r".?\*\*\*", word) for word_part in stretches for word in word_part.split()
    )


def test_masking_and_escaping_by_hand(is_shown: Callable[[bool], None]) -> None:
    is_shown(False)
    text = "Ann Lee, 山田太郎 and <ann>"
    assert note_plain(text, names=FINDER, is_shown=False) == "A*** L***, 山*** and <a***>"
    assert mask_stretch("d'Arc  X\n子") == "d***  ***\n***"
    side = '<img src=x onerror="a()"> & ![x] </mark>'
    passage = passage_html(
        Passage(side, ("full",), "", side, "1", None),
        names=NameFinder(),
        slot=HOSTILE,
        tone="member",
    )
    assert stripped(passage) == side + HOSTILE + side
    assert "<img" not in passage
    assert (
        shown_as.escape_markdown("$a$ :red[b]\n# ![x](/p)") == r"\$a\$ \:red\[b\] \# \!\[x\]\(\/p\)"
    )


def test_what_was_put_in_for_a_name_is_shown_and_what_stands_beside_it_is_masked(
    is_shown: Callable[[bool], None],
) -> None:
    is_shown(False)
    text = "Mrs. Barbara Hutchinson was seen with her son Ann Lee."
    start = text.index("Barbara")
    place = Hit(start, start + len("Barbara"), "full", ())
    html = note_html(
        text,
        names=FINDER,
        marks=[place],
        label=lambda _: MarkLabel("", "patient"),
        is_clear=lambda _: True,
    )
    assert stripped(html) == "Mrs. Barbara H*** was seen with her son A*** L***."


def test_a_name_that_the_end_of_the_shown_text_cuts_is_masked(
    is_shown: Callable[[bool], None],
) -> None:
    is_shown(False)
    text = "She was seen by Barbara Hutchinson."
    for max_chars in range(len(text)):
        text_shown = stripped(note_html(text, names=NameFinder(), max_chars=max_chars))
        assert "Barb" not in text_shown and "Hut" not in text_shown


def test_characters_that_nobody_sees_hide_no_name() -> None:
    for hidden in ("\u00ad", "\u200b", "\u200d", "\u2060", "\ufeff"):
        text = f"seen: A{hidden}nn L{hidden}ee, and Barbara Hut{hidden}chinson"
        masked_text = note_plain(text, names=FINDER, is_shown=False)
        assert (
            "nn" not in masked_text and "ee," not in masked_text and "chinson" not in masked_text
        ), ascii(masked_text)


def test_what_is_undefined_is_a_dash_never_a_nan() -> None:
    undefined = Estimate(math.nan, math.nan, math.nan)
    assert shown_as.format_percent(math.nan) == shown_as.format_percent_interval(undefined) == "—"
    assert (
        shown_as.format_percent_interval(Estimate(0.0, -0.25, 0.75))
        == "−25.0 – 75.0\N{NO-BREAK SPACE}%"
    )


def test_documents_in_a_file_are_masked_as_on_the_screen_and_guarded() -> None:
    hospital = ["=cmd() Sophia2 Wright2", "nothing\nhere", "x"]
    documents = {"hospital": hospital, "general": ["a", "b", "emil1"]}
    report = make_report(1)
    view = make_document_view(
        documents, report=report, names=NameFinder(listed_names(report.table))
    )
    assert view is not None
    data = documents_file(view, np.array([0, 1]), "csv", False)
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"))))
    assert rows[:4] == [
        ["document_id", "model", "text"],
        ["0", "hospital", "'=cmd() S*** W***"],
        ["0", "general", "a"],
        ["1", "hospital", "nothing\nhere"],
    ]
    assert len(rows) == 5
    for is_revealed, first, last in (
        (True, hospital[0], "emil1"),
        (False, "=cmd() S*** W***", "e***"),
    ):
        data = documents_file(view, np.array([0, 2]), "jsonl", is_revealed)
        lines = [json.loads(line) for line in data.decode().splitlines()]
        assert lines[0] == {"document_id": 0, "model": "hospital", "text": first}
        assert [line["document_id"] for line in lines] == [0, 0, 2, 2]
        assert lines[-1]["text"] == last
