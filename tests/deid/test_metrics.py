"""Measures by hand, as properties, and against a plain second count."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.matching import (
    ANY,
    COLUMNS,
    MISSED,
    SPURIOUS,
    CoverageCounts,
    Matches,
    coverage,
    match,
)
from audit.deid.metrics import MEASURES, f1, measured
from audit.deid.score import score_pairs, score_summary
from audit.errors import AuditError
from audit.notes.spans import Span, tagged
from audit.stats import interval, replicates
from tests.deid.make_scores import counts_of

LABELS = ("identifier", "contact", "OTHER")
TEXT = "x" * 30


@st.composite
def documents(draw, name: str = "1"):
    def side():
        out = []
        for _ in range(draw(st.integers(0, 4))):
            start = draw(st.integers(0, 28))
            end = draw(st.integers(start + 1, 30))
            out.append(Span(start, end, draw(st.sampled_from(LABELS))))
        return out

    patient = draw(st.sampled_from((None, "a", "b")))
    return (
        tagged(name, text=TEXT, spans=side(), patient_id=patient),
        tagged(name, text=TEXT, spans=side(), patient_id=patient),
    )


@st.composite
def corpora(draw):
    return [draw(documents(str(i))) for i in range(draw(st.integers(1, 5)))]


def test_measures_by_hand():
    gold = [Span(0, 2, "identifier"), Span(4, 6, "identifier"), Span(8, 9, "contact")]
    said = [Span(0, 3, "identifier"), Span(8, 9, "identifier"), Span(20, 22, "contact")]
    counts = counts_of([match(gold, said, criterion="label_relaxed")])
    assert counts.cells == {
        ("identifier", "identifier"): 1, ("contact", "identifier"): 1,
        ("identifier", MISSED): 1, (SPURIOUS, "contact"): 1,
    }  # fmt: skip
    metrics = measured(counts)
    values = {
        label: [entry.estimate(name).value for name in MEASURES]
        for label, entry in metrics.labels.items()
    }
    assert values["identifier"] == [1.0, 0.5, pytest.approx(2 / 3), 0.0, 1.0, 0.0]
    assert values["contact"] == [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]
    assert metrics.together.estimate("precision").value == pytest.approx(2 / 3)
    assert metrics.together.n_exact == 0
    assert metrics.macro.precision == 0.5 and metrics.macro.recall == 0.75


def test_an_empty_denominator_is_undefined_and_not_perfect():
    entry = measured(counts_of([match([], [Span(0, 1, "contact")], criterion="strict")])).labels[
        "contact"
    ]
    assert math.isnan(entry.estimate("recall").value)
    assert math.isnan(entry.estimate("complete").value)
    assert math.isnan(entry.estimate("f1").low)
    assert entry.estimate("clean").value == 0.0
    nothing = measured(counts_of([Matches((), (), ())]))
    assert nothing.labels == {} and math.isnan(nothing.together.estimate("exact").value)


def test_a_value_stands_without_an_interval_where_no_replicate_has_one():
    found = interval(0.0, np.full(3, np.nan), n_total=1)
    assert found.value == 0.0 and math.isnan(found.low) and math.isnan(found.high)
    # Gold and prediction of one label, each the only one of its patient, among forty others.
    nothing = [Matches((), (), ())] * 40
    gold = match([Span(0, 1, "contact")], [], criterion="strict")
    spurious = match([], [Span(0, 1, "contact")], criterion="strict")
    counts = counts_of([gold, spurious, *nothing])
    entry = measured(counts, n_replicates=1).labels["contact"]
    assert entry.estimate("f1").value == entry.estimate("recall").value == 0.0


def test_f1_of_nothing_right_is_zero():
    assert f1(np.array([0.0, 0.5]), np.array([0.0, 1.0])).tolist() == [0.0, pytest.approx(2 / 3)]


def test_predictions_without_a_place_are_spurious():
    counts = counts_of([Matches((), (), ())], unaligned=["contact"])
    assert counts.row("contact")[:4] == (0, 1, 0, 1)
    assert counts.row(ANY)[:4] == (0, 1, 0, 1)
    assert counts.cells == {(SPURIOUS, "contact"): 1}


@settings(max_examples=100, deadline=None)
@given(corpora(), st.sampled_from(("optimal", "document_order")), st.randoms())
def test_order_of_notes_and_spans_changes_nothing(pairs, matcher, randomly):
    first = score_summary(score_pairs(pairs, matcher=matcher), matcher=matcher, n_replicates=20)
    randomly.shuffle(pairs)
    again = score_summary(score_pairs(pairs, matcher=matcher), matcher=matcher, n_replicates=20)
    assert again.written() == first.written()


@settings(max_examples=100, deadline=None)
@given(corpora())
def test_record_rates_against_a_plain_count(pairs):
    scored = score_pairs(pairs)
    whole = scored.criteria["strict"]
    for label in LABELS:
        with_gold = complete = with_predicted = clean = either = exact = 0
        for gold, said in pairs:
            golds = {s for s in gold.spans if s.label == label}
            saids = {s for s in said.spans if s.label == label}
            with_gold += bool(golds)
            complete += bool(golds) and golds <= saids
            with_predicted += bool(saids)
            clean += bool(saids) and saids <= golds
            either += bool(golds | saids)
            exact += bool(golds | saids) and golds == saids
        found = dict(zip(COLUMNS, whole.row(label), strict=True))
        assert [found[name] for name in COLUMNS[4:]] == [
            with_gold, complete, with_predicted, clean, either, exact,
        ]  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(corpora())
def test_criteria_grow_and_sums_agree(pairs):
    scored = score_pairs(pairs)
    matched = []
    for one in scored.criteria.values():
        n_gold, n_predicted, n_missed, n_spurious = one.row(ANY)[:4]
        assert n_gold - n_missed == n_predicted - n_spurious
        matched.append(n_gold - n_missed)
        assert len(one.table) == len({gold.patient for gold, _ in pairs})
    assert scored.n_documents == len(pairs)
    assert matched == sorted(matched)
    blind = scored.blind["label_relaxed"].row(ANY)
    assert blind[0] - blind[2] <= matched[-1]


@settings(max_examples=100, deadline=None)
@given(documents())
def test_coverage_against_sets_of_characters(pair):
    gold, said = pair
    found = coverage(gold, predicted=said.spans)
    removed = {i for s in said.spans for i in range(s.start, s.end)}
    personal = {i for s in gold.spans for i in range(s.start, s.end)}
    assert found.n_predicted_chars == len(removed)
    assert found.n_over_chars == len(removed - personal)
    assert found.n_left_chars == len(personal - removed)
    assert found.n_outside_chars == len(TEXT) - len(personal)
    for label in LABELS:
        spans = [s for s in gold.spans if s.label == label]
        chars = {i for s in spans for i in range(s.start, s.end)}
        whole = sum(set(range(s.start, s.end)) <= removed for s in spans)
        assert found.row(label) == (len(spans), whole, len(chars), len(chars & removed))
    assert found + CoverageCounts() == found
    assert (found + found).row(ANY) == tuple(2 * n for n in found.row(ANY))


def test_two_predictions_cover_one_gold_together():
    gold = tagged("1", text=TEXT, spans=[Span(0, 4, "identifier")])
    found = coverage(gold, predicted=[Span(0, 2, "contact"), Span(2, 5, "contact")])
    assert found.row("identifier") == (1, 1, 4, 4)
    assert found.n_over_chars == 1


def test_intervals_come_from_patients_and_not_from_notes():
    # Ten notes of one patient that agree are one observation; of ten patients, ten.
    def pairs(patients):
        for i, patient in enumerate(patients):
            spans = [Span(0, 2, "contact")]
            said = spans if patient in ("a", "c", "e", "g", "i") else []
            yield (
                tagged(str(i), text=TEXT, spans=spans, patient_id=patient),
                tagged(str(i), text=TEXT, spans=said, patient_id=patient),
            )

    def width(patients):
        scored = score_pairs(pairs(patients))
        recall = measured(scored.criteria["strict"]).labels["contact"].estimate("recall")
        assert recall.value == 0.5
        return recall.high - recall.low

    assert width("abcdefghij") < width("ab" * 5)


def test_replicates_have_the_right_mean_and_spread():
    rng = random.Random(0)
    table = np.array([[int(rng.random() < 0.3), 1] for _ in range(400)])
    drawn = replicates(table, lambda t: t[:, :1] / t[:, 1:], seed=1, n_replicates=2000)[:, 0]
    share = table[:, 0].mean()
    assert abs(drawn.mean() - share) < 0.003
    assert abs(drawn.std() / math.sqrt(share * (1 - share) / 400) - 1) < 0.1


def test_margins_cannot_be_labels_and_nothing_cannot_be_scored():
    document = tagged("1", text=TEXT, spans=[Span(0, 1, "missed")])
    with pytest.raises(AuditError, match="margins"):
        score_pairs([(document, document)])
    with pytest.raises(AuditError, match="no note"):
        score_pairs([])
    with pytest.raises(ValueError, match="matcher"):
        score_pairs([(tagged("1", text="", spans=[]),) * 2], matcher="best")
