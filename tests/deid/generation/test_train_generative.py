"""Tuning for real, on a tiny model: it learns to copy, goes on after a stop, says what is wrong."""

from __future__ import annotations

import importlib
import json
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from audit.deid.generative.config import (
    GenerativeFacts,
    Lora,
    TuningSettings,
)
from audit.deid.generative.model import load_causal
from audit.deid.generative.tagger import load_generative
from audit.deid.generative.training import train_generative
from audit.errors import AuditCancelled, AuditError
from audit.training.config import LossPoint
from tests.deid.generation.tiny_model import documents, order, write_gold, write_model

FULL = {"n_epochs": 70.0}
LORA = {
    "n_epochs": 100.0, "learning_rate": 1e-2, "lora": Lora(rank=32, alpha=64.0, dropout=0.0),
}  # fmt: skip
SHORT = {"n_epochs": 6.0, "checkpoint_every": 2, "micro_batch": 2}


@pytest.mark.parametrize(("settings", "with_chat"), [(FULL, False), (LORA, False), (FULL, True)])
def test_tuned_on_a_few_notes_it_copies_them_with_their_tags(
    tmp_path: Path, settings: dict[str, object], with_chat: bool
) -> None:
    if "lora" in settings:
        pytest.importorskip("peft")
    model = write_model(tmp_path / "m", with_chat=with_chat)
    points: list[LossPoint] = []
    result = train_generative(order(tmp_path, model, **settings), on_point=points.append)
    assert points[-1].loss < 0.3 * points[1].loss
    assert (result.n_notes, result.n_windows, result.n_steps) == (4, 4, points[-1].step)
    tagger = load_generative(result.directory, device="cpu")
    readings = tagger.read(documents())
    assert [one.status for one in readings] == ["exact"] * 4
    assert [one.document for one in readings] == documents()
    assert tagger.tag([note.text for note in documents()]) == tuple(d.spans for d in documents())
    assert tagger.digest == result.digest == GenerativeFacts.of_folder(result.directory).digest()


def test_the_folder_is_an_ordinary_model_for_its_owner_alone(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    model = write_model(tmp_path / "m")
    made = train_generative(order(tmp_path, model, **SHORT | {"lora": Lora(dropout=0.1)}))
    names = {path.name for path in made.directory.iterdir()}
    assert names == {"tagger.json", "model", "losses.jsonl", "training.json"}
    plain = load_file(made.directory / "model" / "model.safetensors")
    before = load_file(model / "model.safetensors")
    assert plain.keys() == before.keys()
    assert not any("lora" in name for name in plain)
    for path in made.directory.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert load_causal(made.directory / "model", device="cpu").n_context == 512
    told = GenerativeFacts.of_folder(made.directory)
    assert (told.title, told.training["n_notes"]) == ("tiny", 4)
    assert TuningSettings.read(json.dumps(told.training["settings"]), where="x").lora == Lora(
        dropout=0.1
    )


@pytest.mark.parametrize("lora", [None, Lora(rank=4, dropout=0.2)])
def test_stopped_and_gone_on_the_weights_are_the_same(tmp_path: Path, lora: Lora | None) -> None:
    if lora:
        pytest.importorskip("peft")
    model = write_model(tmp_path / "m")
    settings = SHORT | {"lora": lora}
    whole = train_generative(order(tmp_path, model, out="whole", **settings))
    asked = order(tmp_path, model, out="parts", **settings)
    seen: list[int] = []
    with pytest.raises(AuditCancelled):
        train_generative(
            asked, should_stop=lambda: bool(seen) and seen[-1] >= 3,
            on_point=lambda point: seen.append(point.step),
        )  # fmt: skip
    assert 0 < seen[-1] < whole.n_steps
    first = seen[-1]
    parts = train_generative(asked, on_point=lambda point: seen.append(point.step))
    assert seen[seen.index(first) + 1] > first  # nothing was done twice
    one, other = (
        (made.directory / "model" / "model.safetensors").read_bytes() for made in (whole, parts)
    )
    assert one == other
    assert parts.digest == whole.digest


def test_asked_twice_it_is_tuned_once(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    asked = replace(order(tmp_path, model, **SHORT), validation=(tmp_path / "gold.jsonl",))
    first = train_generative(asked)
    assert first.validation is not None
    assert first.first_validation is not None
    assert first.validation < first.first_validation
    points: list[LossPoint] = []
    assert train_generative(asked, on_point=points.append) == first
    assert points == []


def test_another_tuning_does_not_go_on_there(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    train_generative(order(tmp_path, model, **SHORT))
    with pytest.raises(AuditError, match="another training"):
        train_generative(order(tmp_path, model, **SHORT | {"seed": 1}))


def test_gradient_checkpointing_and_tags_in_english(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    plain, other = (
        train_generative(order(tmp_path, model, out=name, gradient_checkpointing=with_it,
                               language="en", **SHORT))
        for name, with_it in (("a", False), ("b", True))
    )  # fmt: skip
    assert plain.loss == pytest.approx(other.loss, rel=1e-4)
    assert load_generative(plain.directory, device="cpu").facts.language == "en"


@pytest.mark.slow
def test_an_adapter_in_bfloat16_with_gradient_checkpointing(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    model = write_model(tmp_path / "m")
    points: list[LossPoint] = []
    made = train_generative(
        order(tmp_path, model, **LORA | {"n_epochs": 25.0}, precision="bfloat16",
              gradient_checkpointing=True), on_point=points.append,
    )  # fmt: skip
    assert points[-1].loss < 0.8 * points[1].loss
    weights = load_file(made.directory / "model" / "model.safetensors")
    before = load_file(model / "model.safetensors")
    assert {one.dtype for one in weights.values()} == {one.dtype for one in before.values()}
    reading = load_generative(made.directory, device="cpu", precision="bfloat16")
    assert reading.loaded.precision == "bfloat16"
    assert len(reading.tag([documents()[0].text])) == 1


def test_without_peft_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(AuditError, match="the package peft"):
        train_generative(order(tmp_path, write_model(tmp_path / "m"), **SHORT | {"lora": Lora()}))


def test_modules_that_are_not_there_are_said(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    asked = order(tmp_path, write_model(tmp_path / "m"), **SHORT | {"lora": Lora(targets=("x",))})
    with pytest.raises(AuditError, match="no module of these names"):
        train_generative(asked)


def test_a_loss_that_is_no_number_ends_it(tmp_path: Path) -> None:
    asked = order(tmp_path, write_model(tmp_path / "m"), **SHORT | {"learning_rate": 1.0})
    learner = importlib.import_module("audit.deid.generative.training")
    patch = pytest.MonkeyPatch()
    patch.setattr(learner.CopyLearner, "step", lambda *_: torch.full((2,), float("nan")))
    with patch.context(), pytest.raises(AuditError, match="no longer a number"):
        train_generative(asked)
    patch.undo()


def test_bad_orders_are_said(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    asked = order(tmp_path, model, **SHORT)
    with pytest.raises(AuditError, match="no gold notes"):
        replace(asked, gold=())
    with pytest.raises(AuditError, match="cannot be read"):
        train_generative(replace(asked, gold=(tmp_path / "none.jsonl",)))
    with pytest.raises(AuditError, match="no room"):
        train_generative(replace(asked, settings=TuningSettings(max_tokens=64)))
    for wrong in (
        {"batch": 3, "micro_batch": 2}, {"seed": -1}, {"schedule": "up"}, {"what": 1},
        {"n_epochs": float("nan")}, {"lora": {"rank": 0}}, {"lora": {"size": 1}},
    ):  # fmt: skip
        with pytest.raises(AuditError):
            TuningSettings(**wrong)


def test_settings_survive_as_plain_values() -> None:
    settings = TuningSettings(lora=Lora(targets=("q_proj", "v_proj")), learning_rate=1e-3)
    assert TuningSettings.read(settings.written(), where="x") == settings
    assert (TuningSettings().highest_rate, TuningSettings(lora=Lora()).highest_rate) == (2e-5, 2e-4)


def test_two_gold_files_in_two_formats(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    write_gold(tmp_path / "one.jsonl", documents()[:2])
    (tmp_path / "note.txt").write_text("<準識別子>森</準識別子>様", "utf-8")
    asked = replace(
        order(tmp_path, model, **SHORT), gold=(tmp_path / "one.jsonl", tmp_path / "note.txt")
    )
    assert train_generative(asked).n_notes == 3
