"""The task `score` and what is kept of it: from all sources, stopped and resumed, compared."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.deid.find.rules import RuleTagger
from audit.deid.find.tagger_facts import TaggerFacts
from audit.deid.find.taggers import RULES, SHIPPED
from audit.deid.measure import scoring
from audit.deid.measure.score_report import (
    SAME,
    SCORES,
    SHARES,
    Source,
    compare_all,
    compare_scores,
    find_readable,
    score_pairs,
    score_summary,
)
from audit.deid.measure.scoring import ScoreTask
from audit.deid.measure.span_matching import ANY, MISSED, SPURIOUS, match
from audit.deid.measure.span_metrics import compare
from audit.deid.redact.policy import SAFE_HARBOR
from audit.deid.sets.incoming_notes import keep_outputs
from audit.errors import AuditCancelled, AuditError
from audit.notes.formats import write_tags
from audit.notes.spans import TYPES, Span, TaggedDocument, build_document
from audit.progress import Progress
from audit.task import SHORT, Contact
from tests.deid.make_scores import (
    Copying,
    content_of,
    files_of,
    given_as,
    gold_notes,
    kept_cases,
    make_score,
    predicted_notes,
    quiet,
    spans_within,
)


def order(golds: Sequence[TaggedDocument], **more: object) -> ScoreTask:
    rules = Source(kind="tagger", ref=RULES)
    values: dict[str, Any] = {"predicted": rules, "n_replicates": 50, **more}
    return ScoreTask(**{"gold": given_as(golds)} | values)


def answered(task: ScoreTask) -> dict[str, Any]:
    return content_of(*ScoreTask.from_order(task.question().order).run(quiet()))


def test_an_order_is_one_question_and_one_kept_score() -> None:
    golds = gold_notes()
    predicted = predicted_notes(golds)
    task = order(golds, predicted=given_as(predicted), title="  A \n ward ")
    question = task.question()
    plain = json.loads(json.dumps(question.order))
    assert (question.kind, question.label, question.device) == ("score", "", SHORT)
    assert ScoreTask.from_order(plain) == task.with_(score_id=plain["score_id"])
    reports: list[Progress] = []
    contact = Contact(lambda progress: reports.append(progress), lambda: False, lambda text: None)
    (score_id,) = ScoreTask.from_order(plain).run(contact)
    assert (reports[-1].share, {report.phase for report in reports}) == (
        1,
        {"comparing the spans", "finishing"},
    )
    score, content = SCORES.get(score_id), content_of(score_id)
    scored = score_pairs(zip(golds, predicted, strict=True))
    expected = score_summary(scored, matcher="optimal", n_replicates=50)
    assert content == {
        "format": 1,
        "title": "A ward",
        "created": score.created,
        "gold": task.gold.plain(),
        "predicted": task.predicted.plain(),
        "tagger": {"name": "", "digest": ""},
        "gold_digest": "31fedf5fa188a24050b1f38ee3ca1e5e50a1b306dca83ecfeb4e96162d79ba65",
        "has_five_types": False,
        "label_map": {},
        "summary": expected.plain(),
        "n_gold_only": 0,
        "n_predicted_only": 0,
        "unknown_labels": [],
        "n_left_out": 0,
        "policy": {"title": "five-types", "kinds": {}, "age_above": 89},
        "seconds": None,
        "copies": None,
        "verbatim": None,
    }
    assert SCORES.all() == (score,)
    assert files_of(score.path) == dict.fromkeys(
        ("score.json", "patients.npz", "spans.jsonl"), 0o600
    )
    assert score.path.stat().st_mode & 0o777 == SCORES.home().stat().st_mode & 0o777 == 0o700
    assert (
        ScoreTask.from_order(plain).run(contact) == (score_id,) and content_of(score_id) == content
    )
    head = score.headline
    assert [(r.n_hits, r.n_total) for r in (head.missed, head.notes, head.readable)] == [
        (4, 12)
    ] * 3
    assert (head.label, head.is_few, head.share.value) == ("identifier", True, 4 / 12)
    recall = score.summary.criteria["label_relaxed"].labels["identifier"].intervals["recall"]
    assert (1 - head.share.high, 1 - head.share.low) == pytest.approx(recall)
    # Of 12 telephones of 12 characters, four lack five.
    contacts = score.summary.coverage.labels["contact"]
    assert [(r.n_hits, r.n_total) for r in (contacts.whole_spans, contacts.characters)] == [
        (8, 12),
        (124, 144),
    ]


def test_what_makes_another_question() -> None:
    golds = gold_notes()
    question = order(golds).question()
    assert order(golds, title="T").question().digest == question.digest and question.label == RULES
    other_questions = [
        order(golds, seed=1),
        order(golds, matcher="document_order"),
        order(golds, has_five_types=True),
        order(golds, label_map={"age": ""}),
        order(gold_notes(11)),
        order(golds, predicted=given_as(golds)),
        order(golds, n_replicates=51),
        order(golds, policy=SAFE_HARBOR),
    ]
    assert (
        len({other_score.question().digest for other_score in other_questions} | {question.digest})
        == 9
    )
    assert len({other_score.question().order["score_id"] for other_score in other_questions}) == 8
    gone = Source(kind="given", ref="0" * 64)
    for wrong, prediction in (
        ({"predicted": Source(kind="tagger", ref="trained/000000000000")}, "no such tagger"),
        ({"gold": gone}, "no longer kept"),
        ({"matcher": "no such"}, "matcher"),
        ({"n_replicates": 0}, "replicates"),
        ({"gold": Source(kind="example", ref="fr")}, "notes cannot come from there"),
        ({"gold": Source(kind="tagger", ref=RULES)}, "notes cannot come from there"),
        ({"predicted": Source(kind="example", ref="ja")}, "notes cannot come from there"),
    ):
        with pytest.raises(AuditError, match=prediction):
            order(golds, **wrong).question()


@pytest.mark.long
def test_the_example_comes_with_the_tool() -> None:
    content = answered(order((), gold=Source(kind="example", ref="ja"), n_replicates=2))
    assert content["tagger"] == {"name": RULES, "digest": RuleTagger().digest}
    together = content["summary"]["criteria"]["label_relaxed"]["together"]
    assert content["summary"]["n_documents"] == 200
    assert (together["n_gold"], content["gold_digest"][:8]) == (2943, "da6b6360")


def stopping(when: Callable[[], bool]) -> Contact:
    """A contact of somebody who stops the work as soon as something has happened."""
    return replace(quiet(), should_stop=when)


def test_a_stopped_tagging_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    golds = gold_notes(100)
    plain = order(golds).question().order
    calls: list[int] = []
    tag = RuleTagger.tag

    def counted(self: RuleTagger, texts: Sequence[str]) -> object:
        calls.append(len(texts))
        return tag(self, texts)

    monkeypatch.setattr(RuleTagger, "tag", counted)
    with pytest.raises(AuditCancelled):
        ScoreTask.from_order(plain).run(stopping(lambda: len(calls) > 0))
    assert calls == [64]
    (making,) = SCORES.home().glob("*.making")
    assert set(files_of(making).values()) == {0o600} and making.stat().st_mode & 0o777 == 0o700
    with monkeypatch.context() as broken:
        broken.setattr(scoring, "write_patients", None)
        with pytest.raises(TypeError):
            ScoreTask.from_order(plain).run(quiet())
    (score_id,) = ScoreTask.from_order(plain).run(quiet())
    assert calls == [64, 36] and not [*SCORES.home().glob("*.making")]
    scored = score_pairs(
        (note, note.with_spans(tags))
        for note, tags in zip(golds, RuleTagger().tag([note.text for note in golds]), strict=True)
    )
    assert SCORES.get(score_id).summary == score_summary(scored, matcher="optimal", n_replicates=50)


def test_labels_are_mapped_and_unknown_ones_are_told_or_refused() -> None:
    names = {"identifier": "PATIENT", "contact": "Rocket"}
    golds = [
        note.with_spans(Span(s.start, s.end, names.get(s.label, s.label)) for s in note.spans)
        for note in gold_notes()
    ]
    predicted = [
        note.with_spans([*note.spans, note.spans[0]]) for note in predicted_notes(gold_notes())
    ]
    with pytest.raises(AuditError, match="none of the five types: Rocket"):
        answered(
            order(
                golds,
                predicted=given_as(predicted),
                has_five_types=True,
                label_map={"linkage_code": "", "rocket ship": "contact"},
            )
        )
    assert not SCORES.all()
    score = answered(
        order(
            golds,
            predicted=given_as(predicted),
            has_five_types=True,
            label_map={"linkage_code": "", "rocket": "contact"},
        )
    )
    assert (score["unknown_labels"], score["n_left_out"]) == ([], 0)
    assert score["summary"]["n_duplicate_spans"] == 0
    assert list(score["summary"]["criteria"]["label_relaxed"]["labels"]) == [
        "identifier",
        "quasi_identifier",
        "linkage_code",
        "contact",
    ]
    score = answered(order(golds, predicted=given_as(predicted), label_map={"rocket": ""}))
    assert score["unknown_labels"] == ["PATIENT"] and score["n_left_out"] == 12


def test_copies_of_no_gold_note_are_told() -> None:
    lines = (json.dumps({"doc_id": name, "output": "x"}) + "\n" for name in ("note-0", "other"))
    upload = keep_outputs("".join(lines).encode(), subject="predicted notes")
    content = answered(order(gold_notes(2), predicted=Source(kind="outputs", ref=upload.digest)))
    assert (content["n_gold_only"], content["n_predicted_only"]) == (1, 1)


def test_a_tagger_that_writes_copies_is_measured_in_both_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs = {note.doc_id: write_tags(note) for note in gold_notes(6)}
    # In one a word is changed and a name made up.
    outputs["note-1"] = outputs["note-1"].replace("主訴", "<識別子>鈴木</識別子>")
    copyist = Copying(outputs, n_at_once=2)
    monkeypatch.setattr(scoring, "load_tagger", lambda tagger_id: copyist)
    task = order(gold_notes(6))
    with pytest.raises(AuditCancelled):
        ScoreTask.from_order(task.question().order).run(stopping(lambda: len(copyist.calls) > 1))
    content = answered(task)
    assert len(copyist.calls) == 3
    assert content["copies"]["statuses"]["exact"] == 5 and content["copies"]["n_notes"] == 6
    measures = [content[key]["criteria"]["strict"]["together"] for key in ("summary", "verbatim")]
    assert [(row["n_missed"], row["n_spurious"]) for row in measures] == [(0, 1), (4, 0)]


@pytest.mark.parametrize(
    ("part", "changes"),
    [
        ((), {"format": 2}),
        ((), {"seen": None}),
        (("summary",), {"n_overlapping_gold": 0}),
        (("summary", "coverage", "together"), {"covered_whole": 0.5}),
        (("summary", "criteria", "strict", "macro"), {"label_ja": "x"}),
        (("summary",), {"kinds": None}),
    ],
)
def test_a_score_of_another_version_is_refused(
    part: tuple[str, ...], changes: dict[str, Any]
) -> None:
    score_id = make_score(gold_notes(), predicted_notes(gold_notes()))
    content = content_of(score_id)
    reduce(getitem, part, content).update(changes)
    (SCORES.place(score_id) / "score.json").write_text(json.dumps(content))
    with pytest.raises(AuditError, match="score: This was written by another version"):
        SCORES.get(score_id)
    assert SCORES.all() == ()


def test_counts_by_patient_of_another_version_are_refused() -> None:
    score_id = make_score(gold_notes(), predicted_notes(gold_notes()))
    path = SCORES.place(score_id) / "patients.npz"
    with np.load(path) as tables:
        fewer_tables = {name: tables[name] for name in tables if name != "covered"}
    np.savez(path, **fewer_tables)
    with pytest.raises(AuditError, match="score: This was written by another version"):
        compare_all([score_id, score_id])


def test_damaged_scores_are_refused() -> None:
    score_id = make_score(gold_notes(), predicted_notes(gold_notes()))
    path = SCORES.place(score_id)
    assert len(kept_cases(score_id)) == 52
    for wrong in (b"not asked for\n", b"[]\n", b"{}\n", b"\xff\n"):
        (path / "spans.jsonl").write_bytes(wrong)
        with pytest.raises(AuditError, match="spans of this score cannot be read"):
            kept_cases(score_id)
    (path / "spans.jsonl").unlink()
    with pytest.raises(AuditError, match="damaged"):
        SCORES.get(score_id)


SPANS = spans_within(*TYPES[:3])


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(SPANS, SPANS), min_size=1, max_size=3))
def test_every_span_is_found_again_with_what_became_of_it(sides: list) -> None:
    text = "abcdefghijklmnopqrstuvwxyz"
    golds, saids = (
        [build_document(f"n{i}", text=text, spans=note[side]) for i, note in enumerate(sides)]
        for side in (0, 1)
    )
    expected = set()
    for i, (gold, prediction) in enumerate(zip(golds, saids, strict=True)):
        matches = match(gold.spans, prediction.spans, criterion="label_relaxed")
        expected |= {(i, g, p) for g, p in matches.pairs}
        expected |= {(i, g, None) for g in matches.missed}
        expected |= {(i, None, p) for p in matches.spurious}
    cases = kept_cases(make_score(golds, saids))
    back = set()
    for case in cases:
        gold = case.gold and Span(*case.gold, case.row)
        prediction = case.predicted and Span(*case.predicted, case.column)
        back.add((case.note, gold, prediction))
        assert (case.kind == SAME) == (gold == prediction)
        assert (case.kind == MISSED) == (prediction is None) == (case.column == MISSED)
        assert (case.kind == SPURIOUS) == (gold is None) == (case.row == SPURIOUS)
        for span in (case.gold, case.predicted):
            assert span is None or case.split_text(span)[1] == text[slice(*span)]
            assert "".join(case.split_text(span)) == case.text
    assert back == expected and len(cases) == len(expected)
    firsts = [(case.note, min(filter(None, (case.gold, case.predicted)))) for case in cases]
    assert [note for note, _ in firsts] == sorted(note for note, _ in firsts)
    readable = [(case.note, *case.gold, case.row) for case in find_readable(cases) if case.gold]
    assert sorted(readable) == [
        (i, g.start, g.end, g.label)
        for i, (gold, prediction) in enumerate(zip(golds, saids, strict=True))
        for g in gold.spans
        if not set(range(g.start, g.end))
        <= {c for s in prediction.spans for c in range(s.start, s.end)}
    ]


def test_a_long_span_is_cut_and_an_unaligned_one_has_no_place() -> None:
    gold = build_document("n", text="x" * 5000, spans=[Span(100, 4900, "identifier")])
    prediction = build_document("n", text="x" * 5000, spans=[], unaligned=["contact"])
    missed, nowhere = kept_cases(make_score([gold], [prediction]))
    assert (missed.start, len(missed.text), missed.split_text(missed.gold)[1]) == (
        60,
        600,
        "x" * 560,
    )
    assert asdict(nowhere) == {
        "note": 0,
        "doc_id": "n",
        "patient_id": None,
        "kind": SPURIOUS,
        "row": SPURIOUS,
        "column": "contact",
        "gold": None,
        "predicted": None,
        "start": 0,
        "text": "",
    }


def test_without_identifiers_the_headline_is_about_all_spans() -> None:
    golds = [note.with_spans(note.spans[1:]) for note in gold_notes()]
    score = SCORES.get(make_score(golds[::-1], [note.with_spans(()) for note in golds]))
    assert (score.headline.label, score.headline.missed.n_hits) == (ANY, 36)
    assert score.summary.criteria["strict"].together.precision is None
    assert score.gold_digest == SCORES.get(make_score(golds, golds)).gold_digest, "in any order"


def test_two_scores_are_compared_as_the_engine_does() -> None:
    golds = gold_notes(24)
    sides = [predicted_notes(golds, step=step) for step in (3, 4)]
    ids = [make_score(golds, side) for side in sides]
    comparison = compare_scores(ids[0], second=ids[1], criterion="strict")
    scored = [score_pairs(zip(golds, side, strict=True)).criteria["strict"] for side in sides]
    assert list(comparison.lines) == [ANY, *(t for t in TYPES if t != "personal_id_code")]
    for label, (n_gold, differences) in comparison.lines.items():
        assert n_gold == (96 if label == ANY else 24)
        assert differences == compare(*scored, label=label, n_replicates=100)
    only: dict[tuple[bool, bool], set[tuple[str, str]]] = {}
    for gold, *taggers in zip(golds, *sides, strict=True):
        for span in gold.spans:
            hits = tuple(
                any(span.overlap(prediction) for prediction in note.spans) for note in taggers
            )
            only.setdefault(hits, set()).add((gold.doc_id, span.label))  # type: ignore[arg-type]
    for cases, key in (
        (comparison.first_only, (False, True)),
        (comparison.second_only, (True, False)),
    ):
        assert {(case.doc_id, case.row) for case in cases} == only[key] != set()
        assert len(cases) == len(only[key])
    assert comparison.n_both == len(only[False, False]) > 0
    other_score = make_score(gold_notes(12), predicted_notes(gold_notes(12)))
    with pytest.raises(AuditError, match="not of the same gold"):
        compare_scores(ids[0], second=other_score, criterion="strict")


def test_any_number_of_scores_are_compared_patient_by_patient() -> None:
    golds = gold_notes(24)
    sides = [predicted_notes(golds, step=step) for step in (3, 4, 5)]
    ids = [make_score(golds, side) for side in sides]
    comparison = compare_all(ids)
    assert [score.score_id for score in comparison.scores] == ids
    assert list(comparison.shares.differences) == [(0, 1), (0, 2), (1, 2)]
    scored = [score_pairs(zip(golds, side, strict=True)) for side in sides]
    for side, counts, score in zip(comparison.shares.sides, comparison.counts, scored, strict=True):
        shares, n = dict(zip(SHARES, side, strict=True)), dict(zip(SHARES, counts, strict=True))
        summary = score_summary(score, matcher="optimal", n_replicates=100)
        relaxed = summary.criteria["label_relaxed"]
        assert shares["touched"] == relaxed.together.estimate("recall")
        assert shares["names_touched"] == relaxed.labels["identifier"].estimate("recall")
        assert shares["precision"] == relaxed.together.estimate("precision")
        assert shares["strict_recall"] == summary.criteria["strict"].together.estimate("recall")
        assert n["covered"] == summary.coverage.together.whole_spans
        assert n["names_covered"] == summary.coverage.labels["identifier"].whole_spans
        assert shares["harmless"].value == summary.coverage.over_redaction > 0
        assert shares["covered"].low < shares["covered"].value < shares["covered"].high
    for (first, second), estimates in comparison.shares.differences.items():
        counts = (scored[first].criteria["label_relaxed"], scored[second].criteria["label_relaxed"])
        precision, recall, _ = compare(*counts, n_replicates=100)
        assert (estimates[0], estimates[SHARES.index("precision")]) == (recall, precision)
    other_score = make_score(gold_notes(12), predicted_notes(gold_notes(12)))
    with pytest.raises(AuditError, match="not of the same gold"):
        compare_all([*ids, other_score])


def test_a_tagger_of_a_folder_is_measured_and_timed(tmp_path: Path) -> None:
    folder = tmp_path / "ward"
    shutil.copytree(SHIPPED, folder)
    score = answered(order(gold_notes(2), predicted=Source(kind="tagger", ref=str(folder))))
    assert score["tagger"]["digest"] == TaggerFacts.of_folder(SHIPPED).digest()
    assert score["seconds"] > 0
    assert (
        order(gold_notes(2), predicted=Source(kind="tagger", ref=str(folder))).question().label
        == "ward"
    )
    for ref in (str(tmp_path), "ward"):
        with pytest.raises(AuditError, match="no such tagger"):
            order(gold_notes(2), predicted=Source(kind="tagger", ref=ref)).question()
