from __future__ import annotations

import json
from pathlib import Path

import pytest

from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.errors import AuditError
from audit.experiment.paper_tables import TRAINING, ExperimentTask

ORDER = ExperimentTask(
    notes=Path("/n/notes.csv"),
    general=Path("/m/general"),
    out=Path("/o"),
    general_notes=Path("/n/other.jsonl"),
    columns=(("text", "body"),),
    epochs=(0.5, 2, 20),
    training=TRAINING.with_(batch=32, learning_rate=1e-4),
    generation=GenerationSettings(n_documents=7),
    posterior=PosteriorSettings(n_inputs=9),
    canary_counts=(1, 4),
    seed=3,
)


def test_plain_values_give_the_same_order():
    assert ExperimentTask.ordered(json.loads(json.dumps(ORDER.plain()))) == ORDER


@pytest.mark.parametrize("broken", [{}, {"notes": "x"}, ORDER.plain() | {"epochs": None}])
def test_other_values_are_refused(broken):
    with pytest.raises(AuditError):
        ExperimentTask.ordered(broken)


def test_training_follows_epochs_and_seed_and_holds_no_note_out():
    assert ORDER.training.n_epochs == 20
    assert (ORDER.training.seed, ORDER.general_training.seed) == (3, 3)
    assert ORDER.training.schedule == "constant"
    assert ORDER.training.held_out_share == 0


@pytest.mark.parametrize(
    "epochs", [(), (2, 1), (1, 1), (0, 1), (float("nan"),), (1, float("inf")), (True,), ("1",)]
)
def test_odd_exposures_are_refused(epochs):
    with pytest.raises(AuditError, match="epochs"):
        ORDER.with_(epochs=epochs)


def test_canaries_are_checked_as_the_corpus_does():
    with pytest.raises(AuditError, match="canar"):
        ORDER.with_(canary_counts=(0,))


def test_general_model_is_not_trained_from_scratch():
    with pytest.raises(AuditError, match="from scratch"):
        ORDER.with_(general_training=TRAINING.with_(from_scratch=True))


def test_single_tokens_are_those_of_the_general_model():
    assert ORDER.corpus().tokenizer == ORDER.general
    assert ORDER.with_(single_tokens=False).corpus().tokenizer is None


def test_the_digest_knows_everything_but_the_device():
    assert ORDER.with_(device="cpu").answer_digest() == ORDER.answer_digest()
    for change in ({"seed": 4}, {"epochs": (1, 20)}, {"sample": 5}, {"single_tokens": False}):
        assert ORDER.with_(**change).answer_digest() != ORDER.answer_digest()


def test_other_attacks_need_no_other_models():
    more = ORDER.with_(posterior=ORDER.posterior.with_(n_inputs=ORDER.posterior.n_inputs + 1))
    assert more.answer_digest() != ORDER.answer_digest()
    assert more.trained_digest() == ORDER.trained_digest()
    assert ORDER.with_(seed=4).trained_digest() != ORDER.trained_digest()
