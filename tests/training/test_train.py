"""A whole training: what comes out, against one by hand, and that it goes on where it stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import BertForMaskedLM

from audit.errors import AuditCancelled, AuditError
from audit.models.forward import multiplies_bfloat16, pick_precision
from audit.models.load import load_model
from audit.notes.read import open_notes
from audit.progress import Progress
from audit.rng import generator
from audit.training import loop
from audit.training.config import read_losses
from audit.training.pretraining import fix_sum_order, train
from audit.training.tokens import (
    Rows,
    SpecialIds,
    Stream,
    draw_held_out,
    mask_rows,
    read_or_make_tokens,
    split_notes,
)
from audit.training.trainings import PretrainTask, TrainedModel
from tests.models.make_encoders import make_encoder
from tests.models.make_models import make_bert, make_roberta
from tests.training.make_training import make_order, write_listed

CHILD = """
import os, signal, sys
from pathlib import Path
from tests.training.make_training import make_order
from audit.training.pretraining import train
def killed(point):
    if point.step == 20:
        os.kill(os.getpid(), signal.SIGKILL)
train(make_order(Path(sys.argv[1]), out="stopped", n_steps=40), on_point=killed)
"""


def list_checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoint").iterdir())


def read_weights(model: TrainedModel | Path, name: str = "model") -> dict[str, torch.Tensor]:
    folder = model if isinstance(model, Path) else model.folder / name
    return dict(load_file(folder / "model.safetensors"))


def have_same_weights(model: Any, other_model: Any, name: str = "model") -> bool:
    a, b = read_weights(model), read_weights(other_model, name)
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


def stop_training(order: PretrainTask, *, n_points: int) -> list[int]:
    """Train until so many points are told; returns their steps."""
    steps: list[int] = []
    with pytest.raises(AuditCancelled):
        train(
            order,
            should_stop=lambda: len(steps) > n_points,
            on_point=lambda point: steps.append(point.step),
        )
    return steps


PROGRESS: list[Progress] = []


@pytest.fixture(scope="module")
def finished_training(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TrainedModel]:
    """A training that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    order = make_order(folder, n_steps=40, order={"title": "Ours"})
    return folder, train(order, progress=PROGRESS.append)


def test_what_is_kept_and_told(finished_training: tuple[Path, TrainedModel]) -> None:
    folder, result = finished_training
    phases = [progress.phase for progress in PROGRESS]
    assert list(dict.fromkeys(phases)) == [
        "loading",
        "tokenizing the notes",
        "training",
        "finishing",
    ]
    shares = [progress.share for progress in PROGRESS]
    assert shares == sorted(shares) and shares[-1] == 1
    general, ours = load_model(folder / "general"), load_model(result.folder / "model")
    assert ours.digest != general.digest
    names = {path.name for path in result.folder.iterdir()}
    assert names == {"model", "training.json", "losses.jsonl", "tokens"}
    for path in (folder / "general").iterdir():
        if path.suffix != ".safetensors" and path.name != "generation_config.json":
            assert (result.folder / "model" / path.name).read_bytes() == path.read_bytes()
    for path in (result.folder, *result.folder.rglob("*")):  # no health data for others to read
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    facts = result.facts.plain()
    lines = (folder / "notes.jsonl").read_text().splitlines()
    notes = [json.loads(line)["text"] for line in lines]
    n_tokens = sum(len(text.split()) + 2 for text in notes)  # a full stop and a [SEP] more
    assert 0 < n_tokens - facts.pop("n_train_tokens") < 4 * 62
    assert 3 < facts.pop("unigram_loss") < 3.7
    assert len(facts.pop("key")) == 64 and facts.pop("created") > "2024"
    assert facts.pop("versions").keys() == {"torch", "transformers"}
    assert facts.pop("settings") == make_order(folder, n_steps=40).settings.plain()
    assert facts == {
        "title": "Ours",
        "parent": "general",
        "parent_digest": general.digest,
        "corpus_id": "",
        "source": "file",
        "n_steps": 40,
        "n_documents": 36,
        "n_held_out_documents": 4,
        "precision": "float32",
        "device": "cpu",
        "kernels": facts["kernels"],
        "snapshots": [],
        "n_listed_patients": 0,
        "header": "",
        "n_canaries": 0,
        "n_processes": 1,
    }
    points = read_losses(result.folder)
    assert [point.step for point in points] == list(range(41))
    assert points[0].loss is None and all(point.loss is not None for point in points[1:])
    assert [p.step for p in points if p.held_out is not None] == list(range(0, 41, 4))
    ends = (result.first_held_out, result.held_out, result.loss, result.n_steps_done)
    assert ends == (points[0].held_out, points[-1].held_out, points[-1].loss, 40)
    rates = [point.learning_rate for point in points]
    factors = [k / 4 for k in range(5)] + [(41 - k) / 36 for k in range(5, 41)]
    assert rates == pytest.approx([1e-3 * factor for factor in factors])


def test_it_is_the_training_of_a_plain_loop(tmp_path: Path) -> None:
    make_bert(tmp_path / "general", dropout=0.0, n_positions=32, scale=0.02)
    order = make_order(
        tmp_path,
        n_steps=6,
        head_learning_rate=3e-3,
        clip=0.5,
        weight_decay=0.1,
        warmup_share=0.5,
        batch=8,
        micro_batch=2,
    )
    s, result = order.settings, train(order)
    general = load_model(tmp_path / "general")
    tokens = read_or_make_tokens(
        open_notes(tmp_path / "notes.jsonl"), general.tokenizer, store=tmp_path / "t"
    )
    split = split_notes(tokens, share=0.1, seed=0)
    special = SpecialIds.from_tokenizer(general.tokenizer)
    rows = Rows(Stream(tokens, split.train), special, 14, 8, 0)
    model = BertForMaskedLM.from_pretrained(tmp_path / "general")
    groups = [
        {
            "params": [parameter],
            "lr": 3e-3 if name.startswith("cls.") else 1e-3,
            "weight_decay": 0.1 if parameter.dim() > 1 else 0.0,
        }
        for name, parameter in model.named_parameters()
    ]
    optimizer = torch.optim.AdamW(groups, eps=1e-6)
    highest = [group["lr"] for group in optimizer.param_groups]

    def compute_loss(masked: Any) -> torch.Tensor:
        labels = np.full_like(masked.ids, -100)
        np.put_along_axis(labels, masked.positions, masked.targets, axis=1)
        return model(torch.from_numpy(masked.ids), labels=torch.from_numpy(labels)).loss

    measured = draw_held_out(tokens, split, special=special, settings=s)
    assert measured is not None
    with torch.no_grad():
        first = float(compute_loss(measured.rows))
    losses = []
    for step in range(1, 7):
        rng = generator(0, "row masks", step)
        loss = compute_loss(mask_rows(rows.of_step(step), special=special, share=0.15, rng=rng))
        optimizer.zero_grad()
        loss.backward()
        losses.append(float(loss.detach()))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for group, rate in zip(optimizer.param_groups, highest, strict=True):
            group["lr"] = rate * s.rate_factor(step, n_steps=6)
        optimizer.step()
    with torch.no_grad():
        last = float(compute_loss(measured.rows))
    points = read_losses(result.folder)
    assert [p.loss for p in points][1:] == pytest.approx(losses, abs=1e-5)
    assert (result.first_held_out, result.held_out) == pytest.approx((first, last), abs=1e-5)
    assert result.facts.unigram_loss == measured.unigram_loss
    ours = read_weights(result)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(ours[name], parameter.detach(), atol=2e-5, rtol=1e-4)


def test_asked_again_it_is_the_same_and_another_one_is_refused_there(
    finished_training: tuple[Path, TrainedModel],
) -> None:
    folder, result = finished_training
    reseeded = train(make_order(folder, out="other", n_steps=40, seed=1))
    assert not have_same_weights(result, reseeded)
    made_at = (result.folder / "model").stat().st_ino
    repeated_order = make_order(folder, n_steps=40, checkpoint_every=7)  # that decides no weight
    assert train(repeated_order) == result and (result.folder / "model").stat().st_ino == made_at
    with pytest.raises(AuditError, match="The folder holds another training"):
        train(make_order(folder, n_steps=41))
    order = make_order(folder, out="place", n_steps=40)
    stop_training(order, n_points=2)
    facts_path = folder / "place" / "training.json"
    facts_path.write_text(json.dumps(json.loads(facts_path.read_text()) | {"device": "cuda"}))
    with pytest.raises(AuditError, match=r"begun on cuda / .*; here it would go on on cpu /"):
        train(order)
    facts_path.write_text("[]")
    with pytest.raises(AuditError, match="The folder holds another training"):
        train(order)


@pytest.mark.long
def test_stopped_killed_or_damaged_it_goes_on_to_the_same_bytes(
    finished_training: tuple[Path, TrainedModel],
) -> None:
    folder, result = finished_training
    order = make_order(folder, out="stopped", n_steps=40)
    assert stop_training(order, n_points=7)[-1] == 7
    assert list_checkpoints(order.folder) == ["step-4", "step-7"]
    environment = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}
    child = subprocess.run([sys.executable, "-c", CHILD, str(folder)], env=environment, check=False)
    assert child.returncode == -signal.SIGKILL and not (order.folder / "model").exists()
    assert list_checkpoints(order.folder) == ["step-12", "step-16"]
    newest = order.folder / "checkpoint" / "step-16" / "model.safetensors"
    newest.write_bytes(b"half")
    steps: list[int] = []
    resumed_model = train(order, on_point=lambda point: steps.append(point.step))
    assert steps == list(range(13, 41)) and have_same_weights(resumed_model, result)
    curves = [
        [(p.step, p.loss, p.held_out) for p in read_losses(trained_model.folder)]
        for trained_model in (resumed_model, result)
    ]
    assert curves[0] == curves[1]
    order = make_order(folder, out="lost", n_steps=40)
    stop_training(order, n_points=5)
    for place in (order.folder / "checkpoint").iterdir():
        (place / "state.json").write_bytes(b"{}")
    with pytest.raises(AuditError, match="The checkpoints of this training cannot be read"):
        train(order)


def test_snapshots_are_models_of_one_run(tmp_path: Path) -> None:
    result = train(
        make_order(
            tmp_path,
            n_steps=1,
            n_epochs=2.0,
            schedule="constant",
            order={"snapshot_epochs": (0.5, 1.0, 2.0)},
        )
    )
    rows = result.facts.n_train_tokens // 14
    first, _, last = result.snapshots
    assert list(result.snapshots) == [int(np.ceil(n * rows / 8)) for n in (0.5, 1.0, 2.0)]
    assert have_same_weights(result, result, f"model-{last}") and not have_same_weights(
        result, result, f"model-{first}"
    )
    # As long a warm-up, and a constant rate then: a shorter run is the same as a snapshot.
    share = round(0.1 * last) / first
    shorter = train(
        make_order(tmp_path, out="b", n_steps=first, schedule="constant", warmup_share=share)
    )
    assert have_same_weights(shorter, result, f"model-{first}")


def test_other_numbers_models_and_beginnings(finished_training: tuple[Path, TrainedModel]) -> None:
    folder, result = finished_training
    rounded = train(make_order(folder, out="rounded", n_steps=40, precision="bfloat16"))
    assert rounded.facts.precision == "bfloat16" and not have_same_weights(rounded, result)
    assert {tensor.dtype for tensor in read_weights(rounded).values()} == {torch.float32}
    assert rounded.held_out == pytest.approx(result.held_out, abs=0.02)
    order = make_order(folder, out="scratch", from_scratch=True, n_steps=1, learning_rate=1e-9)
    fresh = train(order)
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    assert not torch.equal(read_weights(folder / "general")[name], read_weights(fresh)[name])
    assert float(read_weights(fresh)[name].std()) == pytest.approx(0.02, rel=0.15)
    assert fresh.first_held_out == pytest.approx(np.log(37), abs=0.1)
    assert have_same_weights(fresh, train(order.with_(out=folder / "scratch-2")))
    roberta = make_roberta(folder / "roberta")
    trained_roberta = train(make_order(folder, out="r", n_steps=3).with_(general=roberta))
    assert load_model(trained_roberta.folder / "model").config.architecture == "roberta"
    assert read_weights(trained_roberta).keys() == read_weights(
        roberta
    ).keys() and not have_same_weights(roberta, trained_roberta)


def test_who_is_on_the_candidate_list_is_trained_on(tmp_path: Path) -> None:
    # 40 notes of 20 patients: note k is patient k % 20's. The list lies beside the notes.
    plain = train(make_order(tmp_path, out="plain", n_steps=4))
    write_listed(tmp_path, *range(19))
    listed_order = make_order(tmp_path, out="some", n_steps=4)
    result = train(listed_order)
    facts = result.facts
    assert (facts.n_documents, facts.n_held_out_documents, facts.n_listed_patients) == (38, 2, 19)
    assert result.held_out is not None and not have_same_weights(plain, result)
    write_listed(tmp_path, *range(20))
    with pytest.raises(AuditError, match="another training"):
        train(listed_order)
    (tmp_path / "folder").mkdir()
    assert listed_order.with_(notes=tmp_path / "folder").listed is None
    # Where nothing is to be held out, the list is not asked for.
    write_listed(tmp_path, 1, n_notes=41)
    assert train(make_order(tmp_path, out="none", n_steps=4, held_out_share=0.0)).is_whole


@pytest.mark.long
@pytest.mark.parametrize("kind", ["modernbert", "albert"])
def test_encoders_without_a_fast_pass_learn_too(kind: str, tmp_path: Path) -> None:
    make_encoder(tmp_path / "general", kind, scale=0.02)
    result = train(make_order(tmp_path, n_steps=20, learning_rate=1e-2, evaluate_every=20))
    general, ours = (load_model(path) for path in (tmp_path / "general", result.folder / "model"))
    assert general.digest != ours.digest and general.config == ours.config
    assert result.held_out is not None and result.first_held_out is not None
    assert 1 < result.held_out < result.first_held_out - 0.2


def test_what_goes_wrong_on_the_way_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = loop.Learner.step

    def patch_step(step: int, answer: Any) -> None:
        def step_of(self: loop.Learner, current_step: int) -> torch.Tensor:
            loss = right(self, current_step)
            return answer(loss) if current_step == step else loss

        monkeypatch.setattr(loop.Learner, "step", step_of)

    def run_out_of_memory(_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    patch_step(11, lambda loss: loss * float("nan"))
    with pytest.raises(AuditError, match="The loss is no longer a number") as error:
        train(make_order(tmp_path, n_steps=20))
    assert "lower learning rate" in error.value.do
    assert list_checkpoints(tmp_path / "run") == ["step-4", "step-8"]
    assert read_losses(tmp_path / "run")[-1].step == 10
    patch_step(1, run_out_of_memory)
    with pytest.raises(AuditError, match="Memory ran out with 4 rows a pass"):
        train(make_order(tmp_path, out="full"))


@pytest.mark.parametrize(
    ("changes", "settings", "message"),
    [
        ({}, {"n_tokens": 64}, "Rows of 64 tokens are longer than the 32"),
        ({"snapshot_epochs": (9.0,)}, {}, "step .* was asked for, but the training has 12 steps"),
        ({"notes": "few"}, {"held_out_share": 0.0}, "2 tokens .* fewer than one row of 14"),
        ({"notes": "none"}, {}, "The notes hold no text to train on"),
    ],
)
def test_orders_that_cannot_be_done(
    tmp_path: Path, changes: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    for name, text in (("few", "pain"), ("none", "[**Name**]")):
        (tmp_path / name).write_text(json.dumps({"text": text}) + "\n")
    if "notes" in changes:
        changes = {"notes": tmp_path / changes["notes"]}
    with pytest.raises(AuditError, match=message):
        train(make_order(tmp_path, **settings).with_(**changes))


def test_numbers_and_sums_by_the_hardware(tmp_path: Path) -> None:
    for text, is_fast in (("flags\t\t: fpu avx512_bf16\n", True), ("bugs: amx_bf16\n", False)):
        (tmp_path / "cpu").write_text(f"model name: x\n{text}")
        assert multiplies_bfloat16(tmp_path / "cpu") is is_fast
    assert not multiplies_bfloat16(tmp_path / "none")
    assert pick_precision("float32", device="cuda") == "float32"
    assert pick_precision("bfloat16", device="cpu") == "bfloat16"
    assert pick_precision("auto", device="cpu") == "float32"
    is_deterministic = torch.are_deterministic_algorithms_enabled
    with fix_sum_order("cpu"):
        assert not is_deterministic()
    with fix_sum_order("cuda"):
        assert is_deterministic()
    assert not is_deterministic()
