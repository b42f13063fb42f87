"""Tuning for real, on a tiny model: it learns to copy, goes on after a stop, says what is wrong."""

from __future__ import annotations

import importlib
import json
import stat
import sys
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
from audit.deid.generative.tagger import load_generative, tagger_of
from audit.errors import AuditCancelled, AuditError
from audit.training.config import LossPoint
from tests.deid.generation.tiny_model import documents, order, tuned, write_gold, write_model

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
    asked = order(tmp_path, model, **settings)
    told = tuned(asked, on_point=points.append).training
    assert points[-1].loss < 0.3 * points[1].loss
    assert (told["n_notes"], told["n_windows"], told["n_steps"]) == (4, 4, points[-1].step)
    tagger = load_generative(asked.folder, device="cpu")
    readings = tagger.read(documents())
    assert [one.status for one in readings] == ["exact"] * 4
    assert [one.document for one in readings] == documents()
    assert tagger.tag([note.text for note in documents()]) == tuple(d.spans for d in documents())
    assert tagger.digest == GenerativeFacts.of_folder(asked.folder).digest()


def test_the_folder_is_an_ordinary_model_for_its_owner_alone(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    model = write_model(tmp_path / "m")
    asked = order(tmp_path, model, **SHORT | {"lora": Lora(dropout=0.1)})
    told, made = tuned(asked), asked.folder
    names = {path.name for path in made.iterdir()}
    assert names == {"tagger.json", "model", "losses.jsonl", "training.json"}
    plain = load_file(made / "model" / "model.safetensors")
    before = load_file(model / "model.safetensors")
    assert plain.keys() == before.keys()
    assert not any("lora" in name for name in plain)
    for path in made.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert load_causal(made / "model", device="cpu").n_context == 512
    assert told == GenerativeFacts.of_folder(made)
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
    whole = order(tmp_path, model, out="whole", **settings)
    n_steps = tuned(whole).training["n_steps"]
    asked = order(tmp_path, model, out="parts", **settings)
    seen: list[int] = []
    with pytest.raises(AuditCancelled):
        tuned(
            asked, should_stop=lambda: bool(seen) and seen[-1] >= 3,
            on_point=lambda point: seen.append(point.step),
        )  # fmt: skip
    assert 0 < seen[-1] < n_steps
    first = seen[-1]
    tuned(asked, on_point=lambda point: seen.append(point.step))
    assert seen[seen.index(first) + 1] > first  # nothing was done twice
    one, other = (
        (made.folder / "model" / "model.safetensors").read_bytes() for made in (whole, asked)
    )
    assert one == other
    digests = {GenerativeFacts.of_folder(made.folder).digest() for made in (whole, asked)}
    assert len(digests) == 1


def test_asked_twice_it_is_tuned_once(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    asked = order(tmp_path, model, **SHORT).with_(validation=(tmp_path / "gold.jsonl",))
    first = tuned(asked)
    assert first.measured["validation"] < first.measured["first_validation"]
    points: list[LossPoint] = []
    assert tuned(asked, on_point=points.append) == first
    assert points == []


def test_another_tuning_does_not_go_on_there(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    tuned(order(tmp_path, model, **SHORT))
    with pytest.raises(AuditError, match="another training"):
        tuned(order(tmp_path, model, **SHORT | {"seed": 1}))


def test_gradient_checkpointing_and_tags_in_english(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    asked = [order(tmp_path, model, out=name, gradient_checkpointing=name == "b", language="en",
                   **SHORT) for name in "ab"]  # fmt: skip
    plain, other = (tuned(one).measured["loss"] for one in asked)
    assert plain == pytest.approx(other, rel=1e-4)
    assert load_generative(asked[0].folder, device="cpu").facts.language == "en"


@pytest.mark.slow
def test_an_adapter_in_bfloat16_with_gradient_checkpointing(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    model = write_model(tmp_path / "m")
    points: list[LossPoint] = []
    asked = order(tmp_path, model, **LORA | {"n_epochs": 25.0}, precision="bfloat16",
                  gradient_checkpointing=True)  # fmt: skip
    told = tuned(asked, on_point=points.append)
    assert points[-1].loss < 0.8 * points[1].loss
    weights = load_file(asked.folder / "model" / "model.safetensors")
    before = load_file(model / "model.safetensors")
    assert {one.dtype for one in weights.values()} == {one.dtype for one in before.values()}
    loaded = load_causal(asked.folder / "model", device="cpu", precision="bfloat16")
    assert loaded.precision == "bfloat16"
    assert len(tagger_of(loaded, told).tag([documents()[0].text])) == 1


def test_without_peft_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(AuditError, match="the package peft"):
        tuned(order(tmp_path, write_model(tmp_path / "m"), **SHORT | {"lora": Lora()}))


def test_modules_that_are_not_there_are_said(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    asked = order(tmp_path, write_model(tmp_path / "m"), **SHORT | {"lora": Lora(targets=("x",))})
    with pytest.raises(AuditError, match="no module of these names"):
        tuned(asked)


def test_a_loss_that_is_no_number_ends_it(tmp_path: Path) -> None:
    asked = order(tmp_path, write_model(tmp_path / "m"), **SHORT | {"learning_rate": 1.0})
    learner = importlib.import_module("audit.deid.generative.training")
    patch = pytest.MonkeyPatch()
    patch.setattr(learner.CopyLearner, "step", lambda *_: torch.full((2,), float("nan")))
    with patch.context(), pytest.raises(AuditError, match="no longer a number"):
        tuned(asked)
    patch.undo()


def test_bad_orders_are_said(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m")
    asked = order(tmp_path, model, **SHORT)
    with pytest.raises(AuditError, match="Give annotated notes"):
        asked.with_(gold=())
    with pytest.raises(AuditError, match="is not there"):
        tuned(asked.with_(gold=(tmp_path / "none.jsonl",)))
    with pytest.raises(AuditError, match="no room"):
        tuned(asked.with_(settings=TuningSettings(max_tokens=64)))
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
    gold = (tmp_path / "one.jsonl", tmp_path / "note.txt")
    asked = order(tmp_path, model, **SHORT).with_(gold=gold)
    assert tuned(asked).training["n_notes"] == 3
