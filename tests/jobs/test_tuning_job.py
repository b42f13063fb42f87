"""The job "tagger" with a causal language model: its order, its name, a tagger that is kept."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from audit.deid.generative.config import GenerativeOrder
from audit.deid.taggers import TAGGERS, known_taggers, load_tagger, trained_tagger
from audit.errors import AuditCancelled, AuditError
from audit.jobs.kinds import KINDS, tuning_folder, tuning_question
from audit.task import Contact
from tests.deid.generation.tiny_model import documents, order, write_gold, write_model


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GenerativeOrder:
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    return order(tmp_path, write_model(tmp_path / "m"), n_epochs=6.0, checkpoint_every=2)


def contact(said: list[str], *, stop: bool = False) -> Contact:
    return Contact(report=lambda *_: None, should_stop=lambda: stop, say=said.append)


def test_an_order_is_plain_and_its_question_names_nobody(asked: GenerativeOrder) -> None:
    question = tuning_question(replace(asked, title="山田"))
    assert json.loads(json.dumps(dict(question.order))) == question.order
    assert question.kind in KINDS
    assert question.label == "m"
    assert tuning_question(asked).digest == question.digest
    assert tuning_question(asked, is_kept=False).digest != question.digest


def test_other_notes_settings_or_models_are_another_question(asked: GenerativeOrder) -> None:
    changed = [asked, replace(asked, settings=asked.settings.with_(seed=1)),
               replace(asked, validation=asked.gold),
               replace(asked, model=write_model(asked.out.parent / "n"))]  # fmt: skip
    names = [tuning_question(one).order["tagger_id"] for one in changed]
    assert len(set(names)) == 4
    write_gold(asked.gold[0], documents()[:2])
    assert tuning_question(asked).order["tagger_id"] not in names
    with pytest.raises(AuditError, match="cannot be read"):
        tuning_question(replace(asked, gold=(Path("none"),)))
    with pytest.raises(AuditError, match="no model directory"):
        tuning_question(replace(asked, model=asked.out))


def test_it_tunes_a_tagger_that_is_kept(asked: GenerativeOrder) -> None:
    question = tuning_question(asked)
    answer, said = KINDS[question.kind], list[str]()
    with pytest.raises(AuditCancelled):
        answer(question.order, contact([], stop=True))
    assert TAGGERS.all() == ()
    with pytest.raises(AuditError, match="not finished"):
        trained_tagger(question.order["tagger_id"])
    (tagger_id,) = answer(question.order, contact(said))
    kept = trained_tagger(tagger_id)
    assert (kept.kind, kept.title, kept.points[-1].step) == ("generative", "tiny", 6)
    assert [one.kind for one in known_taggers()][-1] == "generative"
    tagger = load_tagger(tagger_id, device="cpu")
    assert tagger.digest == kept.digest
    assert len(tagger.tag(["森様"])) == 1
    assert said[-1] == "6 steps on 4 windows of 4 notes."
    assert tuning_folder(question.order).name == tagger_id.removeprefix("trained/")
