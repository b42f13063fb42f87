"""The published tables, from span records that the published confusion matrix describes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from audit.deid.matching import ANY, MISSED, SPURIOUS, MatchCounts, match
from audit.deid.metrics import measured
from audit.deid.score import CriterionScore, score_pairs
from audit.notes.spans import TYPES, Span, TaggedDocument, known_label, tagged
from tests.deid.make_scores import counts_of

TABLES = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "deid_tables.json").read_text("utf-8")
)
FIGURE = TABLES["figure2_label_relaxed"]
COLUMNS = [known_label(name) for name in FIGURE["columns"]]
ROWS = {known_label(name): row for name, row in FIGURE["rows"].items()}
CODE = "personal_id_code"


def published_cells() -> dict[tuple[str, str], int]:
    return {
        (gold, predicted): n
        for gold, row in ROWS.items()
        for predicted, n in zip(COLUMNS, row, strict=True)
        if n
    }


def records(*, scale: int = 1) -> Iterator[tuple[TaggedDocument, TaggedDocument]]:
    """Notes of a hundred spans, ten characters apart, that give the published matrix."""
    flat = [cell for cell, n in published_cells().items() for _ in range(n)][::scale]
    for at in range(0, len(flat), 100):
        gold, predicted = [], []
        for i, (actual, said) in enumerate(flat[at : at + 100]):
            if actual != SPURIOUS:
                gold.append(Span(10 * i, 10 * i + 6, actual))
            if said != MISSED:
                predicted.append(Span(10 * i + i % 3, 10 * i + 7, said))
        text = "x" * 1000
        yield tagged(str(at), text=text, spans=gold), tagged(str(at), text=text, spans=predicted)


@cache
def published_counts() -> MatchCounts:
    return counts_of([match(g.spans, p.spans, criterion="label_relaxed") for g, p in records()])


def percent(value: float) -> float:
    return round(100 * value, 1)


def test_the_published_matrix_gives_table_3_to_the_digit():
    counts = published_counts()
    metrics = measured(counts, n_replicates=10)
    table = {known_label(k): v for k, v in TABLES["entity_prf_percent"]["label_relaxed"].items()}
    assert set(metrics.labels) == set(TYPES) == set(table)
    for label, entry in metrics.labels.items():
        shown = [percent(entry.estimate(name).value) for name in ("precision", "recall", "f1")]
        assert shown == table[label], label


def test_the_golds_are_those_of_table_1_and_the_margins_add_up():
    scored = score_pairs(records(scale=40))
    whole = published_counts()
    published = {known_label(k): v for k, v in TABLES["table1_counts"]["test"].items()}
    assert {label: whole.row(label)[0] for label in TYPES} == published
    assert dict(whole.cells) == published_cells()
    for one in scored.criteria.values():
        matrix = CriterionScore.of(one, n_replicates=10).matrix
        for i, label in enumerate(matrix.columns[:-1]):
            n_gold, n_predicted, n_missed, n_spurious = one.row(label)[:4]
            row, column = matrix.rows[label], [row[i] for row in matrix.rows.values()]
            assert sum(row) == n_gold and row[-1] == n_missed
            assert sum(column) == n_predicted and column[-1] == n_spurious
        assert matrix.rows[SPURIOUS][-1] == 0


def code_records() -> list[tuple[TaggedDocument, TaggedDocument]]:
    """Twelve notes with a code, all found, two under another label; one with an invented code."""
    pairs = []
    for i in range(13):
        spans = [Span(0, 4, CODE)] if i < 12 else []
        said = {10: "quasi_identifier", 11: "linkage_code"}.get(i, CODE)
        predicted = [Span(0, 4, said)]
        text = "1234 and more"
        pairs.append(
            (tagged(str(i), text=text, spans=spans), tagged(str(i), text=text, spans=predicted))
        )
    return pairs


@pytest.mark.parametrize(
    ("criterion", "shares"),
    [
        ("label_relaxed", [(12, 12), (10, 11), (12, 13)]),
        ("relaxed", [(10, 12), (10, 11), (10, 13)]),
        ("strict", [(10, 12), (10, 11), (10, 13)]),
    ],
)
def test_record_rates_have_their_own_denominators(criterion, shares):
    scored = score_pairs(code_records())
    entry = measured(scored.criteria[criterion]).labels[CODE]
    names = ("complete", "clean", "exact")
    found = [(r.n_hits, r.n_total) for name in names if (r := entry.rate(name))]
    assert found == shares
    published = TABLES["record_percent_complete_clean_exact"][criterion]["個人識別符号"]
    assert [round(100 * entry.estimate(name).value, 2) for name in names] == published
    prf = TABLES["entity_prf_percent"][criterion]["個人識別符号"]
    assert [percent(entry.estimate(n).value) for n in ("precision", "recall", "f1")] == prf


def test_relaxed_is_a_run_of_its_own_and_not_the_diagonal():
    # A wide contact over two linkage codes: in label_relaxed the contact takes one of them.
    gold = [Span(0, 10, "contact"), Span(8, 20, "linkage_code")]
    predicted = [Span(9, 20, "contact"), Span(0, 9, "linkage_code")]
    text = "x" * 20
    scored = score_pairs(
        [(tagged("1", text=text, spans=gold), tagged("1", text=text, spans=predicted))],
        matcher="document_order",
    )
    diagonal = sum(n for (a, b), n in scored.criteria["label_relaxed"].cells.items() if a == b)
    n_gold, _, n_missed, _ = scored.criteria["relaxed"].row(ANY)[:4]
    assert (diagonal, n_gold - n_missed) == (0, 2)
