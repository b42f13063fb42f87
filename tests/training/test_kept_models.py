"""The loss log and the list of trained models, as pages read them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from audit.errors import AuditError
from audit.shelf import write_whole
from audit.training import kept
from audit.training.config import (
    LossPoint,
    TrainSettings,
    append_point,
    cut_log,
    read_losses,
)
from audit.training.kept import TRAINING, TrainingFacts
from audit.training.loop import multiplies_bfloat16, pick_precision
from audit.training.masked_lm import same_sums

POINTS = (
    LossPoint(step=0, loss=None, held_out=5.0, learning_rate=0.0, seconds=0.1),
    LossPoint(step=10, loss=4.5, held_out=None, learning_rate=1e-5, seconds=2.0),
    LossPoint(step=20, loss=4.0, held_out=4.25, learning_rate=2e-5, seconds=4.0),
)


def facts(**changes) -> TrainingFacts:
    values = dict(
        title="<b>Ours</b>", parent="general", parent_digest="ab", corpus_id="", source="file",
        settings=TrainSettings(n_tokens=12, batch=4, micro_batch=4), n_steps=20, n_documents=9,
        n_train_tokens=105, n_held_out_documents=1, unigram_loss=5.5, key="k",
        precision="float32", device="cpu", kernels="default", versions={"torch": "2"},
        created="2024-01-01T00:00:00+00:00",
    )  # fmt: skip
    return TrainingFacts(**values | changes)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("KART_AUDIT_HOME", str(tmp_path / "home"))
    return kept.MODELS.home()


def keep(home, run_id: str, *, is_whole: bool = True, **changes):
    folder = home / run_id
    folder.mkdir()
    write_whole(folder / TRAINING, facts(**changes).written())
    for point in POINTS:
        append_point(folder, point)
    if is_whole:
        (folder / "model").mkdir()
    return folder


def test_points_come_back_and_half_a_line_does_not_count(tmp_path):
    assert read_losses(tmp_path) == ()
    for point in POINTS:
        append_point(tmp_path, point)
    with (tmp_path / "losses.jsonl").open("a") as handle:
        handle.write('{"step": 30, "loss": 1')
    assert read_losses(tmp_path) == POINTS
    assert (tmp_path / "losses.jsonl").stat().st_mode & 0o077 == 0


def test_the_later_of_two_points_of_a_step_counts(tmp_path):
    for point in (
        *POINTS,
        LossPoint(step=10, loss=9.0, held_out=None, learning_rate=1e-5, seconds=7.0),
    ):
        append_point(tmp_path, point)
    with (tmp_path / "losses.jsonl").open("a") as handle:
        handle.write("damaged\n" + '{"step": 5, "loss": NaN}\n')
    assert [point.loss for point in read_losses(tmp_path)] == [None, 9.0, 4.0]
    cut_log(tmp_path, step=10)
    assert [point.step for point in read_losses(tmp_path)] == [0, 10]


def test_the_list_is_newest_first_and_skips_what_is_no_training(home):
    keep(home, "0123456789ab")
    keep(home, "ba9876543210", is_whole=False, created="2025-01-01T00:00:00+00:00")
    (home / "cccccccccccc").mkdir()
    (home / "elsewhere").mkdir()
    new, old = kept.MODELS.all()
    assert (new.run_id, old.run_id) == ("ba9876543210", "0123456789ab")
    assert (new.is_whole, old.is_whole) == (False, True)
    assert (old.n_steps_done, old.loss, old.held_out, old.first_held_out) == (20, 4.0, 4.25, 5.0)
    assert old.title == "<b>Ours</b>"
    assert old.n_epochs_done == pytest.approx(8.0)
    assert old.facts == facts()
    assert kept.MODELS.get("0123456789ab") == old


def test_copies_are_told_that_are_there_and_a_training_can_be_forgotten(home):
    folder = keep(home, "0123456789ab", snapshots=(5, 10))
    (folder / "model-5").mkdir()
    assert kept.MODELS.get("0123456789ab").snapshots == (5,)
    kept.MODELS.forget("0123456789ab")
    assert kept.MODELS.all() == ()
    for wrong in ("ffffffffffff", "../../etc", "", "0123456789AB"):
        with pytest.raises(AuditError, match="trained model: This is not kept here"):
            kept.MODELS.get(wrong)


def test_bfloat16_only_where_the_processor_has_it(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_text("model name: x\nflags\t\t: fpu avx2 avx512_bf16\n")
    other.write_text("flags\t\t: fpu avx2\nbugs: amx_bf16\n")
    assert multiplies_bfloat16(one)
    assert not multiplies_bfloat16(other)
    assert not multiplies_bfloat16(tmp_path / "none")
    assert pick_precision("float32", device="cuda") == "float32"
    assert pick_precision("bfloat16", device="cpu") == "bfloat16"


def test_the_order_of_sums_is_asked_of_gpus_alone():
    import torch

    asked = torch.are_deterministic_algorithms_enabled
    with same_sums("cpu"):
        assert not asked()
    with same_sums("cuda"):
        assert asked()
    assert not asked()


def test_what_pages_read_needs_no_torch():
    code = (
        "import sys, audit.training.kept, audit.jobs.service;"
        "bad = {'torch', 'transformers', 'faker'} & set(sys.modules);"
        "sys.exit(str(bad) if bad else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
