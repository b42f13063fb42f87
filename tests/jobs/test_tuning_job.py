"""The job "tagger" with a causal language model: its order, its name, a tagger that is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.deid.taggers import TAGGERS, known_taggers, load_tagger, trained_tagger
from audit.deid.tasks import TaggerTask
from audit.errors import AuditCancelled, AuditError
from audit.jobs.kinds import KINDS
from audit.task import Contact
from tests.deid.generation.tiny_model import documents, order, write_gold, write_model


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TaggerTask:
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    wanted = order(tmp_path, write_model(tmp_path / "m"), n_epochs=6.0, checkpoint_every=2)
    return TaggerTask(
        settings=wanted.settings, gold=wanted.gold, start=wanted.start, title=wanted.title,
        validation=wanted.validation, device=wanted.device,
    )  # fmt: skip


def contact(said: list[str], *, stop: bool = False) -> Contact:
    return Contact(report=lambda *_: None, should_stop=lambda: stop, say=said.append)


def test_an_order_is_plain_and_its_question_names_nobody(asked: TaggerTask) -> None:
    question = asked.with_(title="山田").question()
    assert json.loads(json.dumps(dict(question.order))) == question.order
    assert question.kind in KINDS
    assert question.label == "m"
    assert asked.question().digest == question.digest
    assert asked.with_(out=Path("/o")).question().digest != question.digest


def test_other_notes_settings_or_models_are_another_question(
    asked: TaggerTask, tmp_path: Path
) -> None:
    changed = [asked, asked.with_(settings=asked.settings.with_(seed=1)),
               asked.with_(validation=asked.gold),
               asked.with_(start=write_model(tmp_path / "n"))]  # fmt: skip
    names = [one.question().order["tagger_id"] for one in changed]
    assert len(set(names)) == 4
    write_gold(asked.gold[0], documents()[:2])
    assert asked.question().order["tagger_id"] not in names
    with pytest.raises(AuditError, match="cannot be read"):
        asked.with_(gold=(Path("none"),)).question()
    with pytest.raises(AuditError, match="no model directory"):
        asked.with_(start=tmp_path).question()


def test_it_tunes_a_tagger_that_is_kept(asked: TaggerTask) -> None:
    question = asked.question()
    answer, said = TaggerTask.answer, list[str]()
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
    assert TaggerTask.ordered(question.order).folder.name == tagger_id.removeprefix("trained/")
