"""Marks: nothing is lost, nothing gets through unescaped, and masked means masked."""

from __future__ import annotations

import html
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from audit.names.candidates import make_candidates
from audit.report.documents import Hit, find_hits, marks_of
from pages.ui.marks import MarkLabel, marked, masked_stretch, shown_text, with_slot

quick = settings(deadline=None, max_examples=200)
HOSTILE = '<img src=x onerror="a()"> & ![x](http://evil.example) </mark>'
NAMES = [("Ann", "Lee"), ("太郎", "山田"), ("img", "mark")]
texts = st.lists(
    st.sampled_from(["Ann", "lee", " ", "山田太郎", "<img>", "&amp;", "</mark>", "&", '"', "x"]),
    max_size=12,
).map("".join)


def label(hit: Hit) -> MarkLabel:
    return MarkLabel("<first>", "flagged")


def stripped(shown: str) -> str:
    without = re.sub(r"<small>.*?</small>", "", shown)
    return html.unescape(re.sub(r"</?mark[^<>]*>", "", without))


@quick
@given(st.one_of(texts, st.text(max_size=40)))
def test_without_the_marks_the_text_is_the_text(text: str) -> None:
    marks = marks_of(find_hits([text], names=make_candidates(NAMES))[0])
    shown = marked(text, marks=marks, label=label, is_revealed=True)
    assert stripped(shown) == text
    assert shown.count("<mark ") == shown.count("</mark>") == len(marks)
    tags = set(re.findall(r"<[^<>]*>", shown))
    assert tags <= {'<mark class="ka-mark ka-mark-flagged">', "</mark>", "<small>", "</small>"}


@quick
@given(texts)
def test_masked_text_is_the_same_on_the_screen_and_in_a_file(text: str) -> None:
    marks = marks_of(find_hits([text], names=make_candidates(NAMES))[0])
    masked = shown_text(text, marks=marks, is_revealed=False)
    assert stripped(marked(text, marks=marks, label=label, is_revealed=False)) == masked
    assert shown_text(text, marks=marks, is_revealed=True) == text
    hidden = [masked_stretch(text[mark.start : mark.end]) for mark in marks]
    assert all(re.fullmatch(r".?\*\*\*", word) for stretch in hidden for word in stretch.split())


def test_masking_by_hand() -> None:
    text = "Ann Lee, 山田太郎 and <ann>"
    marks = marks_of(find_hits([text], names=make_candidates(NAMES))[0])
    assert shown_text(text, marks=marks, is_revealed=False) == "A*** L***, 山*** and <a***>"
    assert masked_stretch("d'Arc  X\n子") == "d***  ***\n***"


def test_a_passage_is_escaped_around_its_slot() -> None:
    shown = with_slot(HOSTILE, slot=HOSTILE, after=HOSTILE, tone="member")
    assert stripped(shown) == HOSTILE * 3
    assert "<img" not in shown
