"""Measures of a tagger against plain counts, the published tables and what can be said by hand."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.measure.paper_tables import published_deid
from audit.deid.measure.score_report import (
    SpanCase,
    misses_csv,
    score_pairs,
    score_summary,
)
from audit.deid.measure.span_matching import ANY, COLUMNS, CRITERIA, MISSED, SPURIOUS, match
from audit.deid.measure.span_metrics import MEASURES, compare, measure_counts
from audit.errors import AuditError
from audit.notes.spans import Span, build_document, normalize_label
from audit.task import canonical_json
from tests.deid.make_scores import gold_notes, predicted_notes, spans_within
from tests.deid.unseen_notes import marked

TEXT = "x" * 24
SPANS = spans_within("identifier", "contact", "OTHER")
NOTES = st.lists(
    st.tuples(st.sampled_from((None, "a", "b")), SPANS, SPANS, st.sampled_from(((), ("contact",)))),
    min_size=1,
    max_size=5,
)


def pairs_of(notes):
    return [
        (
            build_document(str(i), text=TEXT, spans=golds, patient_id=patient),
            build_document(str(i), text=TEXT, spans=saids, patient_id=patient, unaligned=unaligned),
        )
        for i, (patient, golds, saids, unaligned) in enumerate(notes)
    ]


def plain_counts(pairs, criterion: str, matcher: str, *, is_blind: bool = False):
    """Count spans and records by label, and the cells of the matrix, one note after the other."""
    rows: dict[str, Counter[str]] = {}
    cells: Counter[tuple[str, str]] = Counter()
    for gold, predicted in pairs:
        sides = [gold.spans, predicted.spans]
        if is_blind:
            sides = [{Span(s.start, s.end, "any") for s in side} for side in sides]
        matches = match(*sides, criterion=criterion, matcher=matcher)
        note = [(g.label, p.label) for g, p in matches.pairs]
        note += [(g.label, MISSED) for g in matches.missed]
        note += [(SPURIOUS, p.label) for p in matches.spurious]
        note += [(SPURIOUS, "any" if is_blind else label) for label in predicted.unaligned]
        cells.update(note)
        for label in {ANY, *itertools.chain.from_iterable(note)} - {MISSED, SPURIOUS}:
            of_gold = [p for g, p in note if g != SPURIOUS and label in (ANY, g)]
            of_said = [g for g, p in note if p != MISSED and label in (ANY, p)]
            n_missed, n_spurious = of_gold.count(MISSED), of_said.count(SPURIOUS)
            is_any = bool(of_gold or of_said)
            row = (
                len(of_gold),
                len(of_said),
                n_missed,
                n_spurious,
                bool(of_gold),
                bool(of_gold) and not n_missed,
                bool(of_said),
                bool(of_said) and not n_spurious,
                is_any,
                is_any and not n_missed and not n_spurious,
            )
            rows.setdefault(label, Counter()).update(dict(zip(COLUMNS, map(int, row), strict=True)))
    return rows, cells


def measures_of(n: Counter[str]) -> dict[str, float | None]:
    def share(hits: int, total: int) -> float | None:
        return hits / total if total else None

    precision = share(n["n_predicted"] - n["n_spurious"], n["n_predicted"])
    recall = share(n["n_gold"] - n["n_missed"], n["n_gold"])
    total = None if None in (precision, recall) else precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / total if total else total,
        "complete": share(n["n_complete"], n["n_with_gold"]),
        "clean": share(n["n_clean"], n["n_with_predicted"]),
        "exact": share(n["n_exact"], n["n_with_either"]),
    }


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(NOTES, st.sampled_from(("optimal", "document_order")), st.randoms(use_true_random=False))
def test_a_summary_against_plain_counts(notes, matcher, randomly):
    pairs = pairs_of(notes)
    summary = score_summary(score_pairs(pairs, matcher=matcher), matcher=matcher, n_replicates=20)
    measures = summary.plain()
    assert (measures["matcher"], measures["n_documents"]) == (matcher, len(pairs))
    assert measures["n_patients"] == len({gold.patient for gold, _ in pairs})
    sides = [side for note in notes for side in note[1:3]]
    assert measures["n_duplicate_spans"] == sum(len(side) - len(set(side)) for side in sides)
    for criterion, criterion_score in measures["criteria"].items():
        rows, cells = plain_counts(pairs, criterion, matcher)
        assert criterion_score["n_pairs_differ"] == sum(
            match(gold.spans, predicted.spans, criterion=criterion).n_differing
            for gold, predicted in pairs
        )
        labels = [x for x in ("identifier", "contact", "OTHER") if x in rows]
        assert list(criterion_score["labels"]) == labels
        for label, line in (*criterion_score["labels"].items(), (ANY, criterion_score["together"])):
            counts = rows.get(label, Counter())
            assert {name: line[name] for name in COLUMNS} == {n: counts[n] for n in COLUMNS}
            expected = measures_of(counts)
            assert {name: line[name] for name in MEASURES} == pytest.approx(expected)
            for name, interval in line["intervals"].items():
                assert interval is None or 0 <= interval[0] <= interval[1] <= 1
                assert interval is None or expected[name] is not None
        for name in MEASURES:
            of_labels = [measures_of(rows[x])[name] for x in labels]
            defined = [value for value in of_labels if value is not None]
            mean = sum(defined) / len(defined) if defined else None
            assert criterion_score["macro"][name] == (None if mean is None else pytest.approx(mean))
        assert criterion_score["matrix"] == {
            "columns": [*labels, MISSED],
            "rows": {g: [cells[g, p] for p in (*labels, MISSED)] for g in (*labels, SPURIOUS)},
        }
    assert list(measures["type_blind"]) == ["strict", "label_relaxed"]
    for criterion, line in measures["type_blind"].items():
        rows, _ = plain_counts(pairs, criterion, matcher, is_blind=True)
        assert {name: line[name] for name in COLUMNS} == rows.get(ANY, Counter({COLUMNS[0]: 0}))
    randomly.shuffle(pairs)
    again = score_summary(score_pairs(pairs, matcher=matcher), matcher=matcher, n_replicates=20)
    assert again == summary


@pytest.mark.long
@settings(max_examples=100, deadline=None)
@given(NOTES)
def test_coverage_against_sets_of_characters(notes):
    def chars(spans):
        return {i for s in spans for i in range(s.start, s.end)}

    n_left = n_over = n_personal = 0
    rows: dict[str, Counter[str]] = {}
    for _, golds, saids, _ in notes:
        removed, personal = chars(saids), chars(golds)
        n_left += len(personal - removed)
        n_over += len(removed - personal)
        n_personal += len(personal)
        for label in {s.label for s in golds} | {ANY}:
            golds_of_label = {s for s in golds if label in (ANY, s.label)}
            rows.setdefault(label, Counter()).update(
                n_gold=len(golds_of_label),
                n_covered_whole=sum(chars([s]) <= removed for s in golds_of_label),
                n_gold_chars=len(chars(golds_of_label)),
                n_covered_chars=len(chars(golds_of_label) & removed),
            )
    n_text = len(TEXT) * len(notes)
    scored = score_pairs(pairs_of(notes))
    measures = score_summary(scored, matcher="optimal", n_replicates=1).coverage.plain()
    lines = {**measures.pop("labels"), ANY: measures.pop("together")}
    assert measures == {
        "n_text_chars": n_text,
        "left_per_1000_chars": 1000 * n_left / n_text,
        "n_over_chars": n_over,
        "over_redaction": n_over / (n_text - n_personal) if n_text > n_personal else None,
    }
    assert lines == rows


def test_intervals_come_from_patients_and_their_numbers_stay():
    def width(patients):
        spans = [Span(0, 2, "contact")]
        notes = [(patient, spans, spans * (patient in "acegi"), ()) for patient in patients]
        counts = score_pairs(pairs_of(notes)).criteria["strict"]
        recall = measure_counts(counts).labels["contact"].estimate("recall")
        assert recall.value == 0.5
        return recall.high - recall.low

    # Ten notes of one patient that agree are one observation; of ten patients, ten.
    assert width("abcdefghij") < width("ab" * 5)
    golds = gold_notes(24)
    scored = score_pairs(zip(golds, predicted_notes(golds), strict=True))
    summary = score_summary(scored, matcher="optimal", seed=3, n_replicates=200)
    relaxed = summary.criteria["label_relaxed"]
    names, telephones = (relaxed.labels[x].intervals["recall"] for x in ("identifier", "contact"))
    assert names == pytest.approx((0.541667, 0.791667), abs=1e-6)
    assert telephones == pytest.approx((0.862024, 1.0), abs=1e-6)
    # All of its numbers, to the last bit: the same seed gives them in every version.
    numbers = canonical_json(summary.model_dump(mode="json", exclude={"kinds"}))
    assert hashlib.sha256(numbers).hexdigest()[:16] == "8b1897bec312109a"
    assert summary.kinds == {"age": 24, "contact": 24, "id": 24, "name": 24}
    assert summary.unseen == (("personal_id_code",), ("date", "time", "sex", "place"))
    # Of other labels nothing can be said.
    relabelled = [(note.with_spans([Span(0, 2, "ROOM")]), note) for note in golds]
    assert score_summary(score_pairs(relabelled), matcher="optimal").unseen == ((), ())


def test_labels_that_cannot_be():
    document = build_document("1", text=TEXT, spans=[Span(0, 1, "missed")])
    unplaced = build_document("1", text=TEXT, spans=[], unaligned=["spurious"])
    for pairs, predicted in (
        ([(document,) * 2], "margins"),
        ([(unplaced,) * 2], "margins"),
        ([], "no note"),
    ):
        with pytest.raises(AuditError, match=predicted):
            score_pairs(pairs)


# Two taggers.


def counts_of(hits: list[int]):
    """Counts of notes with two golds each, of which `hits` are found."""
    spans = [Span(0, 3, "identifier"), Span(8, 11, "contact")]
    notes = [(str(i), spans, spans[:n], ()) for i, n in enumerate(hits)]
    return score_pairs(pairs_of(notes)).criteria["strict"]


def test_a_difference_by_hand_and_its_interval():
    first, second = [2, 2, 1, 2, 2, 0, 2, 1], [1, 2, 1, 0, 1, 1, 0, 1]
    matches = compare(counts_of(first), counts_of(second), n_replicates=20_000)
    recall = matches[1]
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    assert len(matches) == 3  # precision, recall, F1
    assert recall.value == pytest.approx(sum(gaps) / 16)
    assert (recall.low, recall.high) == (0.0, 0.6875)
    again = compare(counts_of(second), counts_of(first), n_replicates=20_000)[1]
    assert (again.value, again.low, again.high) == (-recall.value, -0.6875, 0.0)
    of_label = compare(counts_of(first), counts_of(second), label="contact")[1]
    assert of_label.value == pytest.approx((5 - 1) / 8)
    for estimate in compare(counts_of(first), counts_of(first)):
        assert (estimate.value, estimate.low, estimate.high) == (0, 0, 0)
    nowhere = compare(counts_of(first), counts_of(first), label="OTHER")[0]
    assert math.isnan(nowhere.value) and math.isnan(nowhere.low)


# The published tables.

TABLES = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "deid_tables.json").read_text("utf-8")
)
FIGURE = TABLES["figure2_label_relaxed"]
CELLS = {
    (normalize_label(gold), normalize_label(said)): n
    for gold, row in FIGURE["rows"].items()
    for said, n in zip(FIGURE["columns"], row, strict=True)
    if n
}
CODE = "personal_id_code"


def percent(entry, names, *, digits: int = 1) -> list[float]:
    return [round(100 * entry.estimate(name).value, digits) for name in names]


@pytest.mark.long
def test_the_published_matrix_gives_tables_1_and_3_to_the_digit():
    def records():
        """Notes of a hundred spans, ten characters apart, that give the published matrix."""
        flat = [cell for cell, n in CELLS.items() for _ in range(n)]
        for start in range(0, len(flat), 100):
            gold, predicted = [], []
            for i, (actual, relabelled) in enumerate(flat[start : start + 100]):
                if actual != SPURIOUS:
                    gold.append(Span(10 * i, 10 * i + 6, actual))
                if relabelled != MISSED:
                    predicted.append(Span(10 * i + i % 3, 10 * i + 7, relabelled))
            yield tuple(
                build_document(str(start), text="x" * 1000, spans=spans)
                for spans in (gold, predicted)
            )

    counts = score_pairs(records()).criteria["label_relaxed"]
    assert dict(counts.cells) == CELLS
    entries = measure_counts(counts, n_replicates=10).labels
    assert {label: percent(entry, MEASURES[:3]) for label, entry in entries.items()} == {
        normalize_label(k): v for k, v in TABLES["entity_prf_percent"]["label_relaxed"].items()
    }
    assert {label: entry.n_gold for label, entry in entries.items()} == {
        normalize_label(k): v for k, v in TABLES["table1_counts"]["test"].items()
    }


def test_what_is_shipped_of_the_paper_is_what_it_prints():
    published, names = published_deid(), TABLES["labels_en"]
    assert {
        (gold, predicted): n
        for gold, row in published.matrix.items()
        for predicted, n in row.items()
        if n
    } == CELLS
    assert published.n_gold == {names[k]: n for k, n in TABLES["table1_counts"]["test"].items()}
    for table, key in (
        (published.percent, "entity_prf_percent"),
        (published.records, "record_percent_complete_clean_exact"),
    ):
        assert table == {
            criterion: {names[k]: tuple(values) for k, values in TABLES[key][criterion].items()}
            for criterion in CRITERIA
        }


@pytest.mark.parametrize("criterion", CRITERIA)
def test_rates_of_a_label_are_the_published_ones(criterion):
    """Twelve notes with a code, two found under another label; one with an invented code."""
    predicted = {10: "quasi_identifier", 11: "linkage_code"}
    notes = [
        (None, [Span(0, 4, CODE)] * (i < 12), [Span(0, 4, predicted.get(i, CODE))], ())
        for i in range(13)
    ]
    entry = measure_counts(score_pairs(pairs_of(notes)).criteria[criterion]).labels[CODE]
    published = TABLES["record_percent_complete_clean_exact"][criterion]["個人識別符号"]
    assert percent(entry, ("complete", "clean", "exact"), digits=2) == published
    published = TABLES["entity_prf_percent"][criterion]["個人識別符号"]
    assert percent(entry, ("precision", "recall", "f1")) == published


# The list of misses.


def cases_of_pair(gold, predicted) -> list[SpanCase]:
    cases: list[SpanCase] = []
    score_pairs([(gold, predicted)], on_case=cases.append)
    return cases


def test_misses_stand_with_their_text_in_a_table():
    gold = marked("氏名:⟦I:山田太郎⟧ 電話⟦C:03-1234⟧ ⟦Q:2024年⟧", doc_id="n1", patient=None)
    note = marked("⟦C:氏名⟧:⟦I:山田⟧太郎 電話⟦L:03-1234⟧ 2024年", doc_id="n1", patient=None)
    predicted = replace(note, unaligned=("identifier",))
    matches = cases_of_pair(gold, predicted)
    rows = list(csv.reader(io.StringIO(misses_csv(matches))))
    assert rows[0] == [
        "doc_id",
        "patient_id",
        "kind",
        "gold_label",
        "predicted_label",
        "gold_start",
        "gold_end",
        "predicted_start",
        "predicted_end",
        "before",
        "gold_text",
        "predicted_text",
        "after",
    ]
    assert [",".join(row) for row in rows[1:]] == [
        "n1,,spurious,,contact,,,0,2,,,氏名,:山田太郎 電話03-1234 2024年",
        "n1,,other place,identifier,identifier,3,7,3,5,氏名:,山田太郎,山田, 電話03-1234 2024年",
        "n1,,other label,contact,linkage_code,10,17,10,17,氏名:山田太郎 電話,03-1234,03-1234,"
        " 2024年",
        "n1,,missed,quasi_identifier,,18,23,,,氏名:山田太郎 電話03-1234 ,2024年,,",
        "n1,,spurious,,identifier,,,,,,,,",
    ]
    same = cases_of_pair(gold, gold)
    assert (len(same), len(misses_csv(same).splitlines())) == (3, 1)
    bad = build_document("=1+1", text="=cmd", spans=[Span(0, 4, "x")])
    table = misses_csv(cases_of_pair(bad, bad.with_spans(())))
    row = list(csv.reader(io.StringIO(table)))[1]
    assert (row[0], row[10]) == ("'=1+1", "'=cmd")
