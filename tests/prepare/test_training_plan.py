"""The plan of a training: tokens by hand, steps and epochs, time from what was measured."""

from __future__ import annotations

import json
import math
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.corpus.truth import ListedNotes, listed_bytes
from audit.errors import AuditError
from audit.home import HOME_VARIABLE
from audit.models.inspect import ModelSummary, inspect_model, model_digest
from audit.models.registry import VARIABLE, list_models
from audit.shelf import write_whole
from audit.training import kept as plans
from audit.training.config import LossPoint, TrainSettings, append_point
from audit.training.kept import MODELS, TRAINING, NotesLoad, TrainedModel, TrainingFacts
from tests.models.make_models import make_bert


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("plan") / "general")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "data"))
    monkeypatch.delenv(VARIABLE, raising=False)


def summary(**changes: object) -> ModelSummary:
    usual = ModelSummary(Path("/m"), "m", "bert", 12, 768, 30522, 1_000, 512, "BertTokenizer", ())
    return replace(usual, **changes)  # type: ignore[arg-type]


def notes(path: Path, *texts: str) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def kept(
    parent: Path, *, run_id: str = "0" * 12, seconds: float = 100.0, is_whole: bool = True,
    **changes: object,
) -> Path:  # fmt: skip
    folder = MODELS.place(run_id)
    folder.mkdir(parents=True)
    facts = TrainingFacts(
        title="", parent=inspect_model(parent).name, parent_digest=model_digest(parent),
        corpus_id="a" * 12, source="private", settings=TrainSettings(n_steps=50), n_steps=50,
        n_documents=1, n_train_tokens=1_000, n_held_out_documents=0, unigram_loss=None, key="",
        precision="float32", device="cpu", kernels="", versions={}, created="2026",
    )  # fmt: skip
    write_whole(folder / TRAINING, facts.with_(**changes).written())  # type: ignore[arg-type]
    append_point(
        folder, LossPoint(step=50, loss=1.0, held_out=None, learning_rate=1e-5, seconds=seconds)
    )
    if is_whole:
        make_bert(folder / "model")
    return folder


def test_tokens_by_hand(parent: Path, tmp_path: Path) -> None:
    # mary was seen by dr jones .  (7) + [SEP]; a placeholder is dropped; an empty note is none.
    path = notes(
        tmp_path / "n.jsonl", "Mary was seen by Dr Jones.", "[**Name**] pain and pain for 1.", ""
    )
    load = plans.notes_load(path, n_notes=3, model=parent)
    assert load == NotesLoad(n_notes=2, n_tokens=8 + 7, is_exact=True)


def test_a_long_file_is_judged_by_its_beginning(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = notes(tmp_path / "n.jsonl", *["Mary was seen by Dr Jones."] * 100)
    monkeypatch.setattr(plans, "SAMPLE_BYTES", path.stat().st_size // 10)
    load = plans.notes_load(path, n_notes=100, model=parent)
    assert load == NotesLoad(n_notes=100, n_tokens=800, is_exact=False)


@pytest.mark.parametrize("line", ["{", "[]", '{"note": 1}', "7"])
def test_damaged_notes_are_refused_without_their_text(
    parent: Path, tmp_path: Path, line: str
) -> None:
    path = tmp_path / "n.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(AuditError, match="damaged"):
        plans.notes_load(path, n_notes=1, model=parent)
    with pytest.raises(AuditError, match="cannot be read"):
        plans.notes_load(tmp_path / "gone.jsonl", n_notes=1, model=parent)


def test_a_plan_by_hand() -> None:
    settings = TrainSettings(
        n_tokens=12, batch=4, micro_batch=2, n_epochs=3, held_out_share=0.5, n_steps=1
    )
    plan = plans.make_training_plan(
        settings, parent=summary(), load=NotesLoad(9, 1_610, True), seconds_per_work=1e-6
    )
    # 805 tokens are 80 rows of 10 and 5 left over: 20 steps of 4 rows an epoch, 60 for three.
    assert (plan.n_train_tokens, plan.n_rows, plan.n_steps) == (805, 80, 60)
    assert (plan.n_epochs, plan.steps_per_epoch) == (3.0, 20.0)
    assert plan.seconds == pytest.approx(60 * 4 * 12 * 1_000 * 1e-6)


@pytest.mark.parametrize(("n_listed", "n_train"), [(0, 900), (50, 900), (95, 950), (100, 1_000)])
def test_who_is_listed_is_not_counted_as_held_out(
    parent: Path, tmp_path: Path, n_listed: int, n_train: int
) -> None:
    path = notes(tmp_path / "n.jsonl", *["pain and pain for one."] * 100)
    listed = ListedNotes(100, 100, n_listed, array("I", range(n_listed)))
    (tmp_path / "listed.json").write_bytes(listed_bytes(listed))
    load = replace(plans.notes_load(path, n_notes=100, model=parent), n_tokens=1_000)
    settings = TrainSettings(held_out_share=0.1)
    plan = plans.make_training_plan(settings, parent=summary(), load=load)
    assert plan.n_train_tokens == n_train


@given(st.integers(200, 10**9), st.integers(1, 10**6))
def test_steps_and_epochs_say_the_same(n_tokens: int, n_steps: int) -> None:
    load = NotesLoad(1, n_tokens, is_exact=False)
    plan = plans.make_training_plan(TrainSettings(n_steps=n_steps), parent=summary(), load=load)
    assert plan.n_steps == n_steps
    assert plan.n_epochs * plan.steps_per_epoch == pytest.approx(n_steps)
    assert plan.seconds is None


def test_what_cannot_be_trained_is_refused_early() -> None:
    load = NotesLoad(1, 100, is_exact=True)
    with pytest.raises(AuditError, match="at most 64 tokens"):
        plans.make_training_plan(TrainSettings(), parent=summary(n_positions=64), load=load)
    with pytest.raises(AuditError, match="do not fill a single row"):
        plans.make_training_plan(TrainSettings(), parent=summary(), load=load)


@pytest.mark.parametrize("n_tokens", [10, 5_000, 10**9])
@pytest.mark.parametrize("code", plans.PRESETS)
def test_presets_fit_the_model(code: str, n_tokens: int) -> None:
    short = plans.preset(code, parent=summary(n_positions=64, hidden_size=128), n_tokens=n_tokens)
    assert short.n_tokens == 64
    assert short.from_scratch == (code == "scratch")
    if code == "small":
        assert short.steps(n_tokens) <= plans.SMALL_STEPS
        assert short.learning_rate > 1e-4
    else:
        assert (short.n_steps, short.batch) == (100_000, 64)


def test_the_paper_s_preset_is_the_default_and_others_are_refused() -> None:
    assert plans.preset("clinicalbert", parent=summary(), n_tokens=1) == TrainSettings()


def test_time_is_told_by_a_like_training_only(parent: Path) -> None:
    n = inspect_model(parent).n_parameters
    assert plans.measured_pace((), device="cpu", n_parameters=n) is None
    kept(parent, seconds=100.0)
    models = MODELS.all()
    expected = 100 / (50 * 64 * 128 * n)
    assert plans.measured_pace(models, device="cpu", n_parameters=n) == pytest.approx(expected)
    assert plans.measured_pace(models, device="cuda", n_parameters=n) is None
    assert plans.measured_pace(models, device="cpu", n_parameters=4 * n) is None


def test_no_time_is_told_by_what_was_too_short_or_is_not_finished(parent: Path) -> None:
    kept(parent, seconds=1.0)
    kept(parent, run_id="1" * 12, is_whole=False)
    n = inspect_model(parent).n_parameters
    assert plans.measured_pace(MODELS.all(), device="cpu", n_parameters=n) is None


def same(parent: Path, **changes: object) -> TrainedModel | None:
    question = {"corpus_id": "a" * 12, "source": "private", "settings": TrainSettings(n_steps=50)}
    return plans.same_training(MODELS.all(), parent=parent, **question | changes)  # type: ignore[arg-type]


def test_the_same_question_is_found_and_others_are_not(parent: Path, tmp_path: Path) -> None:
    kept(parent)
    assert same(parent) is not None
    # When it is looked at does not make it another training.
    assert same(parent, settings=TrainSettings(n_steps=50, evaluate_every=7)) is not None
    assert same(parent, settings=TrainSettings(n_steps=51)) is None
    assert same(parent, source="public") is None
    assert same(parent, corpus_id="b" * 12) is None
    assert same(make_bert(tmp_path / "other" / "general", seed=1)) is None


def test_the_parent_is_found_by_its_digest_among_those_of_its_name(
    parent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_bert(tmp_path / "a" / "general", seed=1)
    make_bert(tmp_path / "b" / "general")  # the parent's copy: the same bytes
    monkeypatch.setenv(VARIABLE, f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    kept(parent)
    (model,) = MODELS.all()
    found = plans.parent_of(model, among=list_models())
    assert found is not None
    assert found.model_id == "b/general"
    monkeypatch.setenv(VARIABLE, str(tmp_path / "a"))
    assert plans.parent_of(model, among=list_models()) is None


def test_a_large_parent_is_found_by_its_name(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(parent.parent))
    monkeypatch.setattr(plans, "is_quick", lambda path: False)
    kept(parent, parent_digest="f" * 64)
    (model,) = MODELS.all()
    found = plans.parent_of(model, among=list_models())
    assert found is not None
    assert found.path == parent
    assert same(parent) is not None
    assert math.isfinite(model.n_epochs_done)
