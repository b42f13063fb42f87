"""Kept scores: what is kept agrees with the engine, is found by cell, private, and comparable."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.cases import KINDS, SAME, SpanWriter, misses_of, span_index
from audit.deid.matching import ANY, COLUMNS, CRITERIA, MISSED, SPURIOUS, match
from audit.deid.metrics import Discordant, compare
from audit.deid.score import (
    SCORES,
    compare_scores,
    patients_of,
    published_deid,
    score_pairs,
    score_summary,
)
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from audit.notes.spans import TYPES, Span, TaggedDocument, tagged
from tests.deid.make_scores import content_of, files_of, gold_notes, make_score, predicted_notes

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


def test_what_is_kept_is_what_the_engine_says_and_is_private() -> None:
    golds = gold_notes()
    predicted = predicted_notes(golds)
    score_id = make_score(golds, predicted, title="  A \n ward ")
    content = content_of(score_id)
    pairs = list(zip(golds, predicted, strict=True))
    expected = score_summary(score_pairs(pairs), matcher="optimal", seed=0, n_replicates=100)
    assert content["summary"] == json.loads(expected.written())
    one = SCORES.get(score_id)
    assert (one.title, one.summary.n_documents, one.summary.n_patients, one.n_gold) == (
        "A ward",
        12,
        6,
        48,
    )
    assert SCORES.all() == (one,)
    assert set(files_of(one.path).values()) == {0o600}
    assert one.path.stat().st_mode & 0o777 == SCORES.home().stat().st_mode & 0o777 == 0o700
    assert set(files_of(one.path)) == {"score.json", "patients.npz", "spans.jsonl", "spans.npz"}
    assert "山田" not in (one.path / "score.json").read_text()


def test_counts_by_patient_come_back_as_they_were() -> None:
    golds = gold_notes()
    predicted = predicted_notes(golds)
    score_id = make_score(golds, predicted)
    scored = score_pairs(zip(golds, predicted, strict=True))
    for criterion in CRITERIA:
        back = patients_of(score_id, criterion=criterion)
        assert back.labels == scored.criteria[criterion].labels
        assert np.array_equal(back.table, scored.criteria[criterion].table)
    assert back.table.shape == (6, 5, len(COLUMNS)) and back.labels[-1] == ANY


def test_the_order_of_notes_and_spans_makes_no_other_gold_but_a_label_does() -> None:
    golds = gold_notes()
    predicted = predicted_notes(golds)
    mixed = [golds[i] for i in np.random.default_rng(1).permutation(len(golds))]
    digests = {
        SCORES.get(make_score(order, predicted)).gold_digest for order in (golds, mixed)
    }  # fmt: skip
    assert len(digests) == 1
    other = [golds[0].with_spans(golds[0].spans[1:]), *golds[1:]]
    assert SCORES.get(make_score(other, predicted)).gold_digest not in digests


def test_damaged_and_unknown_scores() -> None:
    score_id = make_score(gold_notes(), predicted_notes(gold_notes()))
    for code in ("0" * 12, "../../etc", ""):
        with pytest.raises(AuditError, match="This is not kept here"):
            SCORES.get(code)
    (SCORES.place(score_id) / "score.json").write_text('{"format": 99}')
    with pytest.raises(AuditError, match="score"):
        SCORES.get(score_id)
    assert SCORES.all() == ()
    SCORES.forget(score_id)
    assert not SCORES.place(score_id).exists() and not list(SCORES.home().glob(".*forgotten"))


_SPANS = st.lists(
    st.tuples(st.integers(0, 18), st.integers(1, 6), st.sampled_from(TYPES[:3])), max_size=7
)


@settings(max_examples=60, deadline=None)
@given(gold=_SPANS, predicted=_SPANS)
def test_every_cell_is_found_again_with_its_spans(
    tmp_path_factory: pytest.TempPathFactory, gold: list, predicted: list
) -> None:
    text = "abcdefghijklmnopqrstuvwxyz"
    sides = [
        tagged("n", text=text, spans=[Span(s, s + n, label) for s, n, label in one])
        for one in (gold, predicted)
    ]
    folder = tmp_path_factory.mktemp("spans")
    writer = SpanWriter(folder)
    writer.add(sides[0], predicted=sides[1])
    writer.close()
    index = span_index(folder)
    for criterion in CRITERIA:
        found = match(sides[0].spans, sides[1].spans, criterion=criterion)
        expected = {(g, p) for g, p in found.pairs}
        expected |= {(g, None) for g in found.missed} | {(None, p) for p in found.spurious}
        cells = {(g.label if g else SPURIOUS, p.label if p else MISSED) for g, p in expected}
        back = set()
        for row, column in cells:
            numbers = index.chosen(criterion=criterion, row=row, column=column)
            for case in index.cases(numbers.tolist()):
                sides_of = (
                    (case.gold and Span(*case.gold, row)),
                    (case.predicted and Span(*case.predicted, column)),
                )
                back.add(sides_of)
                for span in (case.gold, case.predicted):
                    assert span is None or case.pieces(span)[1] == text[span[0] : span[1]]
                    assert "".join(case.pieces(span)) == case.text
        assert back == expected
        differences = index.chosen(criterion=criterion, kinds=[k for k in KINDS if k != SAME])
        listed = misses_of(sides[0], predicted=sides[1], criterion=criterion)
        assert len(differences) == len(listed)


def test_a_case_says_the_same_as_the_list_of_misses() -> None:
    golds = gold_notes(3)
    predicted = predicted_notes(golds)
    index = span_index(SCORES.get(make_score(golds, predicted)).path)
    numbers = index.chosen(criterion="label_relaxed", kinds=[k for k in KINDS if k != SAME])
    mine = [case.listed() for case in index.cases(numbers.tolist())]
    engine = [
        miss.listed()
        for gold, found in zip(golds, predicted, strict=True)
        for miss in misses_of(gold, predicted=found, n_context=40)
    ]
    assert mine == engine and len(mine) == 4
    ages = index.of_label("quasi_identifier", among=numbers)
    assert len(ages) == 2  # an age under another label, and 発熱
    assert index.of_label("no such label", among=numbers).size == 0


def test_a_long_span_is_cut_and_an_unaligned_one_has_no_place(tmp_path: Path) -> None:
    text = "x" * 5000
    gold = tagged("n", text=text, spans=[Span(100, 4900, "identifier")])
    other = tagged("n", text=text, spans=[], unaligned=["contact"])
    writer = SpanWriter(tmp_path)
    writer.add(gold, predicted=other)
    writer.close()
    index = span_index(tmp_path)
    missed, nowhere = index.cases([0, 1])
    assert len(missed.text) == 600 and missed.pieces(missed.gold)[1] == "x" * 560
    assert nowhere.kind == SPURIOUS and nowhere.gold is nowhere.predicted is None
    assert nowhere.column == "contact"
    with pytest.raises(AuditError, match="cannot be read"):
        span_index(tmp_path / "missing")


def discordant(notes: Iterable[tuple[TaggedDocument, ...]]) -> tuple[int, int, int, int]:
    """Count golds by which of two taggers found them: first only, second only, both, neither."""
    counts = [0, 0, 0, 0]
    for gold, *taggers in notes:
        found = [
            {g for g, _ in match(gold.spans, t.spans, criterion="strict").pairs} for t in taggers
        ]
        for span in gold.spans:
            counts[2 * (span in found[0]) + (span in found[1])] += 1
    return counts[2], counts[1], counts[3], counts[0]


def test_two_scores_are_compared_as_the_engine_does() -> None:
    golds = gold_notes(24)
    sides = [predicted_notes(golds, every=every) for every in (3, 4)]
    ids = [make_score(golds, side) for side in sides]
    found = compare_scores(ids[0], second=ids[1], criterion="strict")
    scored = [score_pairs(zip(golds, side, strict=True)) for side in sides]
    counts = [one.criteria["strict"] for one in scored]
    assert list(found.lines)[:2] == [ANY, "identifier"]
    for label, (_, differences) in found.lines.items():
        assert differences == compare(counts[0], counts[1], label=label, n_replicates=100)
    split = discordant(zip(golds, *sides, strict=True))
    assert found.discordant == Discordant(*split)
    assert len(found.first_only) == split[1] > 0
    other = make_score(gold_notes(12), predicted_notes(gold_notes(12)))
    with pytest.raises(AuditError, match="not of the same gold"):
        compare_scores(ids[0], second=other, criterion="strict")


def test_the_headline_counted_by_hand() -> None:
    score_id = make_score(gold_notes(), predicted_notes(gold_notes()))
    view = SCORES.get(score_id)
    head = view.headline
    assert (head.label, head.missed.n_hits, head.missed.n_total) == ("identifier", 4, 12)
    assert (head.notes.n_hits, head.notes.n_total, head.readable.n_hits) == (4, 12, 4)
    assert head.share.low <= head.share.value == 4 / 12 <= head.share.high
    assert head.is_few
    contact = view.summary.coverage.labels["contact"]
    assert contact.whole.n_hits == 8
    # Of 12 telephones of 12 characters, four lack five.
    assert (contact.characters.n_hits, contact.characters.n_total) == (12 * 12 - 20, 144)
    exact = view.summary.criteria["strict"].labels["contact"].rate("exact")
    assert (exact.n_hits, exact.n_total) == (8, 12)


def test_without_identifiers_the_headline_is_about_all_spans() -> None:
    golds = [
        note.with_spans(span for span in note.spans if span.label != "identifier")
        for note in gold_notes()
    ]
    score_id = make_score(golds, [note.with_spans(()) for note in golds])
    view = SCORES.get(score_id)
    assert (view.headline.label, view.headline.missed.n_hits) == (ANY, 36)
    assert view.summary.criteria["strict"].together.precision is None


def test_the_published_numbers_follow_from_the_published_matrix() -> None:
    facts = json.loads((REPOSITORY / "tests/golden/deid_tables.json").read_text())
    names = facts["labels_en"]
    golden = facts["entity_prf_percent"]
    published = published_deid()
    for label in TYPES:
        again = [f"{100 * value:.1f}" for value in published.recomputed(label)]
        assert again == [f"{value:.1f}" for value in published.percent["label_relaxed"][label]]
    for criterion in CRITERIA:
        for japanese, values in golden[criterion].items():
            label = names[japanese]
            assert published.percent[criterion][label] == tuple(values)
            records = facts["record_percent_complete_clean_exact"][criterion][japanese]
            assert published.records[criterion][label] == tuple(records)
            assert published.n_gold[label] == facts["table1_counts"]["test"][japanese]


def test_many_notes_stay_in_order(tmp_path: Path) -> None:
    rng = random.Random(0)
    golds = gold_notes(300)
    predicted = predicted_notes(golds, every=rng.choice([3, 5]))
    index = span_index(SCORES.get(make_score(golds, predicted)).path)
    notes = index.note[index.chosen(criterion="strict")]
    assert (np.diff(notes) >= 0).all() and notes[-1] == 299
