"""The job "score": a de-identifier measured against gold spans, asked for by pages.

Comes in: an order of plain values. Goes out: the identifier of a kept score. Asking is torch-free
and reads no note; a tagger is loaded by the job alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.curation.note_files import resolve_note_file
from audit.deid.given_notes import clear_given, given_path, keep_notes
from audit.deid.kept_scores import score_dir
from audit.deid.kept_tagged import tagged_set
from audit.deid.known_taggers import KnownTagger, known_taggers, load_tagger
from audit.deid.score_build import ScoreInputs, build_score
from audit.deid.score_order import (
    EXAMPLE,
    FILE,
    TAGGED,
    TAGGER,
    ScoreOrder,
    Source,
    order_from_json,
    order_to_json,
)
from audit.errors import AuditError
from audit.home import salted_digest
from audit.jobs.contact import Contact
from audit.jobs.locks import SHORT, queue_of
from audit.jobs.question import Question
from audit.request import question_digest

KIND = "score"
N_EXAMPLE = 200
EXAMPLE_SEED = 20261122
_N_DIGITS = 12
_SHORT_BYTES = 5_000_000  # of both sides together: what is counted within minutes


def score_question(order: ScoreOrder) -> Question:
    """Return an order as a question of the table; the same question has the same score.

    Raises
    ------
    AuditError
        If a side is not there, or there is no such tagger.
    """
    tagger = _known(order.predicted) if order.predicted.kind == TAGGER else None
    question: dict[str, object] = {
        KIND: order.decisive(),
        "sides": [_state(one) for one in (order.gold, order.predicted, order.training) if one],
        "tagger": "" if tagger is None else tagger.digest,
        "example": _example(order.gold.ref) if order.gold.kind == EXAMPLE else None,
    }
    # Salted: what was handed in can be guessed.
    score_id = salted_digest(f"score {question_digest(question)}")[:_N_DIGITS]
    return Question(
        kind=KIND,
        label="" if tagger is None else tagger.tagger_id,
        scenario=0,
        device=_queue(order, tagger=tagger),
        digest=question_digest({KIND: score_id}),
        audits=(),
        order={"score": order_to_json(order), "score_id": score_id},
    )


def answer_score(order: Mapping[str, Any], contact: Contact) -> tuple[str, ...]:
    """Measure; returns the identifier of the score. One that is kept already is not made again."""
    score_id, wanted = str(order["score_id"]), order_from_json(order["score"])
    if score_dir(score_id).is_dir():
        return (score_id,)
    sides = (wanted.gold, wanted.predicted, wanted.training)
    clear_given(keep=[one.ref for one in sides if one is not None])
    build_score(
        wanted,
        inputs=_inputs(wanted),
        score_id=score_id,
        progress=lambda report: contact.report(report, ()),
        should_stop=contact.should_stop,
    )
    return (score_id,)


def _inputs(order: ScoreOrder) -> ScoreInputs:
    gold = _path(order.gold)
    training = None if order.training is None else _path(order.training)
    if order.predicted.kind == TAGGER:
        tagger = load_tagger(order.predicted.ref)
        return ScoreInputs(
            gold, None, training, tagger=tagger,
            tagger_name=tagger.name, tagger_digest=tagger.digest,
        )  # fmt: skip
    name = digest = ""
    if order.predicted.kind == TAGGED:
        marked = tagged_set(order.predicted.ref)
        name, digest = marked.tagger_id, marked.tagger_digest
    return ScoreInputs(
        gold, _path(order.predicted), training, tagger_name=name, tagger_digest=digest
    )


def _path(source: Source) -> Path:
    if source.kind == EXAMPLE:
        return given_path(_example(source.ref))
    if source.kind == FILE:
        return resolve_note_file(source.ref)
    if source.kind == TAGGED:
        marked = tagged_set(source.ref)
        if not marked.is_whole:
            raise AuditError(
                "This set is not tagged to its end.", where="score", do="Resume its job first."
            )
        return marked.spans_path
    return given_path(source.ref)


def _queue(order: ScoreOrder, *, tagger: KnownTagger | None) -> str:
    if tagger is not None and not tagger.is_quick:
        return queue_of("auto")
    sides = [one for one in (order.gold, order.predicted, order.training) if one is not None]
    files = [_path(one) for one in sides if one.kind not in (EXAMPLE, TAGGER)]
    return SHORT if sum(path.stat().st_size for path in files) <= _SHORT_BYTES else "cpu"


def _example(language: str) -> str:
    """Keep the example's notes, invented in styles that no training saw; return their digest."""
    from audit.deid.synthetic import HELD_OUT_STYLES, synthetic_notes

    notes = synthetic_notes(
        N_EXAMPLE, seed=EXAMPLE_SEED, language=language, styles=HELD_OUT_STYLES[language]
    )
    return keep_notes(tuple(notes)).digest


def _known(source: Source) -> KnownTagger:
    found = next((one for one in known_taggers() if one.tagger_id == source.ref), None)
    if found is None:
        raise AuditError(
            "There is no such tagger.", where="tagger", do="Choose one of those that are listed."
        )
    return found


def _state(source: Source) -> list[object]:
    """Return what tells a side apart: what was given never changes, a file may."""
    if source.kind in (EXAMPLE, TAGGER):
        return [source.kind, source.ref]
    path = _path(source)
    if source.kind != FILE:
        return [source.kind, source.ref]
    try:
        found = path.stat()
    except OSError:
        raise AuditError("The file is not there or cannot be read.", where="gold notes") from None
    return [source.kind, source.ref, found.st_size, found.st_mtime_ns]
