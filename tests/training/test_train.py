"""A whole training: what comes out, that it learns, and that it goes on where it was stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from audit.errors import AuditCancelled, AuditError
from audit.models.load import load_model
from audit.training import loop
from audit.training.config import read_losses
from audit.training.loop import CHECKPOINTS
from audit.training.masked_lm import train
from tests.models.make_models import make_bert, make_roberta
from tests.training.make_training import make_order, model_of, same_weights, weights

CHILD = """
import sys
from pathlib import Path
from tests.training.make_training import make_order
from audit.training.masked_lm import train
train(make_order(Path(sys.argv[1]), out=sys.argv[2], n_steps=int(sys.argv[3])))
"""


def checkpoints(run_dir: Path) -> list[str]:
    return sorted(path.name for path in (run_dir / CHECKPOINTS).iterdir())


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(make_order(folder, n_steps=40))


def test_the_model_loads_and_has_the_parents_files(whole):
    folder, result = whole
    loaded = load_model(model_of(result))
    assert loaded.digest != load_model(folder / "general").digest
    for name in ("vocab.txt", "tokenizer_config.json", "config.json"):
        assert (model_of(result) / name).read_bytes() == (folder / "general" / name).read_bytes()
    assert (model_of(result) / "model.safetensors").stat().st_mode & 0o077 == 0
    assert result.folder.stat().st_mode & 0o077 == 0
    assert not (result.folder / CHECKPOINTS).exists()


def test_the_curve_tells_every_step_and_both_losses(whole):
    _, result = whole
    points = read_losses(result.folder)
    assert [point.step for point in points] == list(range(41))
    assert points[0].loss is None and all(point.loss is not None for point in points[1:])
    measured = [point.step for point in points if point.held_out is not None]
    assert measured == list(range(0, 41, 4))
    assert result.first_held_out == points[0].held_out
    assert result.held_out == points[-1].held_out
    rates = [point.learning_rate for point in points]
    assert rates[:5] == pytest.approx([0, 2.5e-4, 5e-4, 7.5e-4, 1e-3])
    assert rates[-1] == pytest.approx(1e-3 / 36)
    assert sorted(rates[4:], reverse=True) == rates[4:]


def test_it_learns_what_notes_hold_and_not_only_which_words_are_frequent(tmp_path):
    make_bert(tmp_path / "general", hidden_size=32, n_layers=1, dropout=0.0, scale=0.02)
    order = make_order(
        tmp_path, n_steps=300, batch=32, micro_batch=32, learning_rate=1e-2, evaluate_every=300
    )
    result = train(order)
    assert result.first_held_out > 3.3  # ln 37 = 3.61: nothing known
    assert 2.5 < result.facts.unigram_loss < 3.4
    assert result.held_out < result.facts.unigram_loss - 0.5


def test_two_runs_are_the_same_and_another_seed_is_not(whole, tmp_path):
    folder, result = whole
    again = train(make_order(folder, out="again", n_steps=40))
    other = train(make_order(folder, out="other", n_steps=40, seed=1))
    assert same_weights(model_of(result), model_of(again))
    assert not same_weights(model_of(result), model_of(other))


def test_a_whole_training_is_not_done_again(whole):
    folder, result = whole
    before = (model_of(result) / "model.safetensors").stat().st_mtime_ns
    assert train(make_order(folder, n_steps=40)) == result
    assert (model_of(result) / "model.safetensors").stat().st_mtime_ns == before


def test_cancelled_it_goes_on_to_the_same_weights(whole, tmp_path):
    folder, result = whole
    asked = []

    def stop() -> bool:
        asked.append(len(read_losses(folder / "stopped")))
        return asked[-1] > 7

    order = make_order(folder, out="stopped", n_steps=40)
    with pytest.raises(AuditCancelled):
        train(order, should_stop=stop)
    assert checkpoints(folder / "stopped") == ["step-4", "step-7"]
    assert not (folder / "stopped" / "model").exists()
    assert same_weights(model_of(train(order)), model_of(result))
    curves = [
        [(p.step, p.loss, p.held_out) for p in read_losses(folder / name)]
        for name in ("run", "stopped")
    ]
    assert curves[0] == curves[1]


def test_killed_it_goes_on_to_the_same_weights(tmp_path):
    n_steps = 60
    undisturbed = train(make_order(tmp_path, out="one", n_steps=n_steps))
    command = [sys.executable, "-c", CHILD, str(tmp_path), "two", str(n_steps)]
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    child = subprocess.Popen(command, env=environment)
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "two" / CHECKPOINTS / "step-8").exists():
            assert child.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert not (tmp_path / "two" / "model").exists()
    done = read_losses(tmp_path / "two")[-1].step
    assert 8 <= done < n_steps
    seen = []
    order = make_order(tmp_path, out="two", n_steps=n_steps)
    resumed = train(order, on_point=lambda point: seen.append(point.step))
    assert seen[0] > 8  # it did not begin again
    assert same_weights(model_of(resumed), model_of(undisturbed))


def test_a_damaged_checkpoint_gives_way_to_the_one_before(whole):
    folder, result = whole
    order = make_order(folder, out="damaged", n_steps=40)
    n_points = []

    def stop() -> bool:
        return len(n_points) > 10

    with pytest.raises(AuditCancelled):
        train(order, should_stop=stop, on_point=n_points.append)
    newest = folder / "damaged" / CHECKPOINTS / "step-10"
    (newest / "model.safetensors").write_bytes(b"half")
    seen = []
    again = train(order, on_point=lambda point: seen.append(point.step))
    assert seen[0] == 9  # from step 8 on
    assert same_weights(model_of(again), model_of(result))


def test_another_training_is_refused_in_the_same_folder(whole):
    folder, _ = whole
    with pytest.raises(AuditError, match="holds another training"):
        train(make_order(folder, n_steps=41))
    kept = train(make_order(folder, n_steps=40, checkpoint_every=7))  # decides no weight
    assert kept.n_steps_done == 40


def test_snapshots_are_models_of_one_run(tmp_path):
    order = make_order(
        tmp_path, n_steps=1, n_epochs=2.0, schedule="constant",
        order={"snapshot_epochs": (0.5, 1.0, 2.0)},
    )  # fmt: skip
    result = train(order)
    rows = result.facts.n_train_tokens // 14
    assert list(result.snapshots) == [int(np.ceil(n * rows / 8)) for n in (0.5, 1.0, 2.0)]
    assert same_weights(model_of(result, step=result.snapshots[-1]), model_of(result))
    assert not same_weights(model_of(result, step=result.snapshots[0]), model_of(result))
    shorter = train(
        order.with_(
            out=tmp_path / "shorter", snapshot_epochs=(),
            settings=order.settings.with_(n_epochs=1.0, warmup_share=0.05),
        )
    )  # fmt: skip
    # The warm-up is a share of the steps: with as many steps of it, the shorter run is the same.
    steps = [round(0.1 * result.n_steps_done), round(0.05 * shorter.n_steps_done)]
    assert (steps[0] == steps[1]) == same_weights(
        model_of(shorter), model_of(result, step=result.snapshots[1])
    )


def test_bfloat16_is_near_float32_and_keeps_float32_weights(whole):
    folder, result = whole
    rounded = train(make_order(folder, out="rounded", n_steps=40, precision="bfloat16"))
    assert rounded.facts.precision == "bfloat16"
    assert {tensor.dtype for tensor in weights(model_of(rounded)).values()} == {torch.float32}
    assert not same_weights(model_of(rounded), model_of(result))
    assert rounded.held_out == pytest.approx(result.held_out, abs=0.02)


def test_from_scratch_knows_nothing_of_its_parent(tmp_path):
    order = make_order(tmp_path, from_scratch=True, n_steps=1, learning_rate=1e-9)
    result = train(order)
    parent, fresh = weights(tmp_path / "general"), weights(model_of(result))
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    assert not torch.equal(parent[name], fresh[name])
    assert float(fresh[name].std()) == pytest.approx(0.02, rel=0.15)
    assert result.first_held_out == pytest.approx(np.log(37), abs=0.1)
    assert same_weights(model_of(train(order.with_(out=tmp_path / "b"))), model_of(result))


def test_roberta_is_trained_too(tmp_path):
    order = make_order(tmp_path, n_steps=3)
    result = train(order.with_(general=make_roberta(tmp_path / "roberta")))
    assert load_model(model_of(result)).config.architecture == "roberta"
    assert not same_weights(model_of(result), tmp_path / "roberta")


def test_a_loss_that_is_no_number_ends_it_and_keeps_the_last_checkpoint(tmp_path, monkeypatch):
    order = make_order(tmp_path, n_steps=20)
    right = loop.Learner.step

    def wrong(self, step):
        told = right(self, step)
        return told * float("nan") if step == 11 else told

    monkeypatch.setattr(loop.Learner, "step", wrong)
    with pytest.raises(AuditError, match="no longer a number") as caught:
        train(order)
    assert "lower learning rate" in caught.value.do
    assert checkpoints(tmp_path / "run") == ["step-4", "step-8"]
    assert read_losses(tmp_path / "run")[-1].step == 10


def test_memory_that_runs_out_says_what_to_try(tmp_path, monkeypatch):
    def full(self, step):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(loop.Learner, "step", full)
    with pytest.raises(AuditError, match="with 4 rows a pass") as caught:
        train(make_order(tmp_path))
    assert caught.value.do == "Try `micro_batch` 2."


def test_refusals_of_the_order(tmp_path):
    with pytest.raises(AuditError, match="longer than the 32"):
        train(make_order(tmp_path, n_tokens=64))
    with pytest.raises(AuditError, match="was asked for, but the training has 12"):
        train(make_order(tmp_path, order={"snapshot_epochs": (9.0,)}))
    (tmp_path / "few.jsonl").write_text(json.dumps({"text": "pain"}) + "\n")
    few = make_order(tmp_path, held_out_share=0.0).with_(notes=tmp_path / "few.jsonl")
    with pytest.raises(AuditError, match="fewer than one row of 14"):
        train(few)
    with pytest.raises(AuditError, match="of one patient"):
        train(few.with_(settings=few.settings.with_(held_out_share=0.1)))
    (tmp_path / "none.jsonl").write_text(json.dumps({"text": "[**Name**]"}) + "\n")
    with pytest.raises(AuditError, match="no text to train on"):
        train(few.with_(notes=tmp_path / "none.jsonl"))


def test_progress_is_told_by_phase_to_the_end(tmp_path):
    told = []
    train(make_order(tmp_path), progress=told.append)
    assert [phase for phase, _ in told[-1].by_phase] == ["tokenizing the notes", "training"]
    assert told[-1].share == pytest.approx(1.0)
    assert [p.done for p in told] == sorted(p.done for p in told)
