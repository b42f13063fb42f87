from __future__ import annotations

import json

import pytest

from audit.errors import AuditError
from audit.experiment import leakage
from audit.experiment.leakage_tables import LEAKAGE, LeakageTask, leakage_id
from audit.jobs.kinds import KINDS
from audit.task import Contact
from tests.experiment.tiny_leakage import tiny_tables

ORDER = LeakageTask(taggers=("rules",), device="cpu")
CONTACT = Contact(lambda *_: None, lambda: False, lambda _: None)


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))


def test_the_question_holds_all_that_the_job_needs():
    question = ORDER.question()
    assert question.kind in KINDS
    assert (question.device, question.label) == ("cpu", "demo en")
    plain = json.loads(json.dumps(question.order))
    assert LeakageTask.ordered(plain) == ORDER
    assert ORDER.question().digest == question.digest
    assert ORDER.with_(seed=9).question().digest != question.digest


def test_an_unknown_tagger_is_refused_before_a_job_is_there():
    with pytest.raises(AuditError, match="no such tagger"):
        ORDER.with_(taggers=("nobody",)).question()


def test_what_was_answered_is_kept_and_not_done_again(monkeypatch):
    asked = []

    def fake(order, **how):
        asked.append((order, how["load"]("rules").name, how["arms_folder"].name))
        return tiny_tables(order)

    monkeypatch.setattr(leakage, "run_leakage", fake)
    question = ORDER.question()
    (kept_as,) = LeakageTask.answer(question.order, CONTACT)
    assert kept_as == leakage_id(ORDER)
    assert LEAKAGE.get(kept_as).tables.files() == tiny_tables(ORDER).files()
    assert LeakageTask.answer(question.order, CONTACT) == (kept_as,)
    assert asked == [(ORDER, "rules", "arms")]
