"""The list of misses: each cell of the matrix that is off the diagonal, with its text."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.deid.cases import HEADER, misses_csv, misses_jsonl, misses_of
from audit.deid.matching import CRITERIA, match
from audit.notes.spans import Span, TaggedDocument, tagged
from tests.deid.make_scores import counts_of

TEXT = "氏名:山田太郎 電話03-1234 2024年"


def note(*spans: tuple[int, int, str], unaligned: tuple[str, ...] = ()) -> TaggedDocument:
    return tagged("n1", text=TEXT, spans=[Span(*s) for s in spans], unaligned=unaligned)


def test_gold_and_prediction_stand_side_by_side() -> None:
    gold = note((3, 7, "identifier"), (10, 17, "contact"), (18, 23, "quasi_identifier"))
    predicted = note((3, 5, "identifier"), (10, 17, "linkage_code"), (0, 2, "contact"),
                     unaligned=("identifier",))  # fmt: skip
    found = misses_of(gold, predicted=predicted, n_context=3)
    listed = [miss.listed() for miss in found]
    fields = ("kind", "row", "column", "gold_text", "predicted_text")
    assert [tuple(miss[name] for name in fields) for miss in listed] == [
        ("spurious", "spurious", "contact", "", "氏名"),
        ("other place", "identifier", "identifier", "山田太郎", "山田"),
        ("other label", "contact", "linkage_code", "03-1234", "03-1234"),
        ("missed", "quasi_identifier", "missed", "2024年", ""),
        ("spurious", "spurious", "identifier", "", ""),
    ]
    assert (listed[1]["before"], listed[1]["after"]) == ("氏名:", " 電話")
    assert misses_of(gold, predicted=gold) == ()


SPANS = st.lists(
    st.builds(lambda a, n, label: (a, min(a + n, len(TEXT)), label),
              st.integers(0, len(TEXT) - 1), st.integers(1, 6), st.sampled_from("xy")),
    max_size=6,
)  # fmt: skip


@given(SPANS, SPANS, st.sampled_from(CRITERIA))
def test_there_is_one_for_each_count_outside_the_diagonal(
    golds: list[tuple[int, int, str]], predictions: list[tuple[int, int, str]], criterion: str
) -> None:
    gold, predicted = note(*golds), note(*predictions, unaligned=("x",))
    found = misses_of(gold, predicted=predicted, criterion=criterion)
    matches = match(gold.spans, predicted.spans, criterion=criterion)
    counts = counts_of([matches], unaligned=["x"])
    for cell, n in counts.cells.items():
        if cell[0] != cell[1]:
            assert sum((m.row, m.column) == cell for m in found) == n
    assert sum(m.kind in ("missed", "spurious") for m in found) == sum(
        n for cell, n in counts.cells.items() if "missed" in cell or "spurious" in cell
    )


def test_tables_hold_no_formula_and_lines_are_json() -> None:
    gold = tagged("=1+1", text="=cmd 山田", spans=[Span(0, 4, "x"), Span(5, 7, "identifier")])
    found = misses_of(gold, predicted=gold.with_spans(()))
    rows = list(csv.reader(io.StringIO(misses_csv(found))))
    assert tuple(rows[0]) == HEADER and len(rows) == 3
    assert rows[1][0] == "'=1+1" and rows[1][HEADER.index("gold_text")] == "'=cmd"
    lines = [json.loads(line) for line in misses_jsonl(found)]
    assert [line["gold"] for line in lines] == [
        {"start": 0, "end": 4, "label": "x"},
        {"start": 5, "end": 7, "label": "identifier"},
    ]
    assert lines[0]["predicted"] is None


def test_a_criterion_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="criterion"):
        misses_of(note(), predicted=note(), criterion="nearly")
