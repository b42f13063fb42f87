"""Pieces of HTML: everything that comes in is escaped."""

from __future__ import annotations

from audit.report.published import published_tables
from audit.report.report import Counts, Rule, Share
from pages.ui import blocks, paper_table
from pages.ui.language import words_of

EVIL = '<img src=x onerror="a()">'
SHOWN = "&lt;img src=x onerror=&quot;a()&quot;&gt;"


def test_no_piece_lets_html_through() -> None:
    cell = blocks.Cell(EVIL, EVIL)
    pieces = [
        blocks.verdict_cards([blocks.Verdict(EVIL, EVIL, EVIL, EVIL, EVIL)]),
        blocks.figure_cards([blocks.Figures(EVIL, EVIL, EVIL, ((EVIL, EVIL),))]),
        blocks.table([[cell]], [[cell]], caption=EVIL),
        blocks.simple_table([EVIL], [[EVIL]], caption=EVIL),
        blocks.bullet_list([EVIL]),
        blocks.heading(EVIL, below=EVIL),
    ]
    n_texts = [5, 5, 5, 3, 1, 2]
    assert ["<img" in piece for piece in pieces] == [False] * 6
    assert [piece.count(SHOWN) for piece in pieces] == n_texts


def test_an_own_rate_stands_in_the_row_of_the_published_one() -> None:
    half = Share(0.5, 0.4, 0.6, n_hits=1, n_total=2)
    counts = Counts(
        tp=1, fn=2, fp=3, tn=4, recall=half, false_positive_rate=half, precision=half,
        accuracy=half,
    )  # fmt: skip
    rule = Rule(confusion=counts, f1=half)
    shown = paper_table.table_one(
        {("easy", "generation", "hospital"): rule},
        published=published_tables(),
        words=words_of("en"),
    )
    row = next(r for r in shown.split("<tr>") if "1 / 2 / 3 / 4" in r)
    assert "Easy controls" in row
    assert row.count("50.0 %<small>40.0 – 60.0 %") == 4
    assert "65.4 %" in row
    assert "105 / 25 / 86 / 44" in row


def test_what_was_not_run_is_a_dash_beside_the_published_figure() -> None:
    shown = paper_table.table_two({}, published=published_tables(), words=words_of("ja"))
    assert shown.count("127 / 3 / 130 / 0*") == 2
    assert shown.count("—") == 4 * 5
