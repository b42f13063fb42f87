"""The job "tagger": its order, its name, and a tagger that comes of it."""

from __future__ import annotations

import json

import pytest

from audit.deid.taggers import TAGGERS, load_tagger, trained_tagger
from audit.deid.tasks import TaggerTask
from audit.errors import AuditCancelled, AuditError
from audit.jobs.kinds import KINDS
from audit.notes.formats import write_jsonl
from audit.task import Contact
from tests.deid.token.make_notes import notes, quick


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    (tmp_path / "gold.jsonl").write_text(write_jsonl(notes(24)), "utf-8")
    (tmp_path / "more.jsonl").write_text(write_jsonl(notes(30)[24:]), "utf-8")
    return tmp_path


def contact(said: list[str] | None = None, *, stop: bool = False) -> Contact:
    said = [] if said is None else said
    return Contact(report=lambda *_: None, should_stop=lambda: stop, say=said.append)


def tagger_id_of(task):
    return task.question().order["tagger_id"]


def wanted(place, **changes):
    values = {"settings": quick(n_epochs=0.5), "gold": (place / "gold.jsonl",), "device": "cpu"}
    return TaggerTask(**values | changes)


def test_an_order_is_plain_and_its_question_names_nobody(place):
    order = wanted(place, title="山田's")
    question = order.question()
    assert json.loads(json.dumps(dict(question.order))) == question.order
    assert question.kind in KINDS and question.kind == "tagger"
    assert "山田" not in question.label and str(place) not in question.label
    assert wanted(place).question().digest == question.digest


def test_other_notes_settings_or_places_are_another_question(place):
    orders = [wanted(place), wanted(place, validation=(place / "more.jsonl",)),
              wanted(place, settings=quick(n_epochs=1.0)),
              wanted(place, gold=(), n_synthetic=9)]  # fmt: skip
    assert len({tagger_id_of(order) for order in orders}) == 4
    before = tagger_id_of(orders[0])
    (place / "gold.jsonl").write_text(write_jsonl(notes(25)), "utf-8")
    assert tagger_id_of(orders[0]) != before
    questions = [wanted(place, out=out).question() for out in (None, place / "o")]
    assert questions[0].digest != questions[1].digest


def test_it_trains_a_tagger_that_is_kept_and_says_how_far_it_is(place):
    said: list[str] = []
    question = wanted(place, validation=(place / "more.jsonl",), title="mine").question()
    with pytest.raises(AuditCancelled):
        TaggerTask.answer(question.order, contact(stop=True))
    (tagger_id,) = TaggerTask.answer(question.order, contact(said))
    assert [one.tagger_id for one in TAGGERS.all()] == [tagger_id]
    assert trained_tagger(tagger_id).title == "mine"
    assert trained_tagger(tagger_id).training["n_validation_notes"] == 6
    assert load_tagger(tagger_id, device="cpu").digest == trained_tagger(tagger_id).digest
    assert said[1] == "24 notes to learn from, 6 to measure on." and "recall" in said[-1]
    assert TaggerTask.ordered(question.order).folder.name == tagger_id.removeprefix("trained/")


def test_synthetic_notes_need_no_file(place):
    order = wanted(place, gold=(), n_synthetic=6, languages=("ja",), out=place / "out")
    question = order.question()
    TaggerTask.answer(question.order, contact())
    assert (place / "out" / "tagger.json").is_file() and TAGGERS.all() == ()


@pytest.mark.parametrize(
    "changes",
    [{"gold": ()}, {"n_synthetic": 5}, {"gold": (), "n_synthetic": -1}, {"title": "x" * 300},
     {"gold": (), "n_synthetic": 5, "languages": ("fr",)}],
)  # fmt: skip
def test_an_order_that_cannot_be_done_is_refused(place, changes):
    with pytest.raises(AuditError):
        wanted(place, **changes)
    with pytest.raises(AuditError, match="not there"):
        wanted(place, gold=(place / "none.jsonl",)).question()
    with pytest.raises(AuditError, match="config"):
        wanted(place, start=place).question()
