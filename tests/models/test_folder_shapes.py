"""Every shape of model folder is accepted, or refused with its true reason; none opens a pickle."""

from __future__ import annotations

import json
import math
import pickle
import shutil
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.cli import main
from audit.errors import CATALOGUE, AuditError, render_message
from audit.models.inspect import compute_model_digest, inspect_model
from audit.models.load import load_model, load_pair
from audit.models.other_forms import OTHER_FORMS
from audit.models.registry import (
    VARIABLE,
    list_models,
    load_tokenizer,
    look_up_digest,
    resolve_model_path,
)
from audit.notes.passages import read_passages
from benchmarks.models_reference import PATH, write_reference
from tests.models.editing import WEIGHTS, canary, edit_weights, weights
from tests.models.folder_shapes import (
    FOLDER_SHAPES,
    Bases,
    FolderShape,
    list_names,
    list_passages,
    prefix_names,
)
from tests.small_audit import answer, small

__all__ = ["small"]
SHAPES = {shape.name: shape for shape in FOLDER_SHAPES}
NAME = "models--clinic--bert"


@pytest.fixture(scope="session")
def bases(tmp_path_factory) -> Bases:
    return Bases(tmp_path_factory.mktemp("bases"))


@pytest.mark.parametrize("name", SHAPES)
def test_a_folder_is_accepted_or_refused_with_its_true_reason(name, bases, tmp_path, monkeypatch):
    shape = SHAPES[name]
    path = shape.build(bases, tmp_path / NAME)
    for library, function in ((torch, "load"), (pickle, "load"), (pickle, "loads")):
        monkeypatch.setattr(library, function, None)
    if not shape.refusal:
        assert inspect_model(path).n_parameters > 0
        return
    with pytest.raises(AuditError) as refused:
        inspect_model(path)
    assert str(refused.value.what).startswith(shape.refusal)
    assert str(refused.value.where).split("/")[0] == path.name and str(refused.value.do)
    for sentence in (refused.value.what, refused.value.do):
        assert render_message(sentence, "ja") != sentence
    assert not canary(tmp_path / NAME).exists()


def test_shapes_are_many_and_most_can_be_audited():
    accepted = [shape for shape in FOLDER_SHAPES if not shape.refusal]
    converted = [shape for shape in FOLDER_SHAPES if shape.conversion is not None]
    assert len(SHAPES) == len(FOLDER_SHAPES) >= 80
    assert len(accepted) + len(converted) >= 45


def test_every_other_form_is_a_shape_and_its_sentences_are_translated():
    japanese = json.loads((CATALOGUE / "ja" / "messages.json").read_text(encoding="utf-8"))
    starts = {shape.refusal[:40] for shape in FOLDER_SHAPES if shape.refusal}
    for form in OTHER_FORMS:
        assert {form.cause, form.advice} <= japanese.keys()
        assert form.cause.startswith(tuple(starts)), form.cause


def test_the_page_about_models_is_that_of_the_code():
    page = PATH.read_text(encoding="utf-8")
    assert page == write_reference(), "run: make docs"
    for cause, advice in sorted({(form.cause, form.advice) for form in OTHER_FORMS}):
        assert cause.partition("{")[0] in page and advice.partition("{")[0] in page


def convert(shape: FolderShape, path: Path, folder: Path, *, bases: Bases) -> Path:
    """Return a shape's folder after the conversion that it needs."""
    if shape.conversion is None:
        return path
    options = [*shape.conversion]
    if "--head-from" in options:
        options[1] = str(bases.copy(options[1], folder / "head"))
    out = folder / "converted"
    assert main(["models", "convert", str(path), "--out", str(out), *options]) == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [s.name for s in FOLDER_SHAPES if not s.refusal or s.conversion is not None]
)
def test_an_accepted_model_is_audited_in_both_scenarios(name, bases, tmp_path):
    shape = SHAPES[name]
    general = convert(shape, shape.build(bases, tmp_path / NAME), tmp_path, bases=bases)
    loaded = load_model(general)
    assert loaded.digest == compute_model_digest(general)
    hospital = Path(shutil.copytree(resolve_model_path(str(general)), tmp_path / "hospital"))
    weights(lambda t: t.update({name: move(tensor) for name, tensor in t.items()}))(hospital)
    for scenario in (1, 2):
        request = AuditRequest(
            scenario_number=scenario,
            general=general,
            hospital=hospital,
            candidates=list_names(shape.language),
            passages=read_passages(list_passages(shape.language)) if scenario == 2 else None,
            generation=GenerationSettings(n_documents=40, n_steps=4, n_tokens=60, top_k=200),
            posterior=PosteriorSettings(n_inputs=100, n_chain_inputs=0, micro_batch=25),
            device="cpu",
        )
        report = answer(request, tmp_path / f"store-{scenario}")
        scores = report.names["score"]
        assert len(scores) == 20 and all(map(math.isfinite, scores)) and len({*scores}) > 3


def move(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor with a little noise, as a training leaves it."""
    if not tensor.is_floating_point():
        return tensor
    noise = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(tensor.numel()))
    return (tensor.float() + 0.02 * noise).to(tensor.dtype)


def test_a_prefix_is_removed_with_a_note_for_the_reader(bases, tmp_path):
    general = bases.copy("bert", tmp_path / "general")
    hospital = bases.copy("bert", tmp_path / "hospital")
    expected = load_model(hospital).model.state_dict()
    prefix_names("module._orig_mod.")(hospital)
    pair = load_pair(general, hospital)
    assert pair.notes == (
        'The tensor names of the hospital model began with "module._orig_mod.", which a wrapper '
        "had added in training; it was removed.",
    )
    assert pair.notes[0].render("ja").startswith("病院モデルのテンソル名")
    state = pair.hospital.model.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in expected.items())
    assert load_pair(general, general).notes == ()


def test_two_tensors_with_one_name_are_refused(bases, tmp_path):
    folder = bases.copy("bert", tmp_path / "model")
    bias = "cls.predictions.bias"
    edit_weights(folder, lambda t: t.update({f"module.{bias}": t[bias] + 1}))
    with pytest.raises(AuditError, match=r'"cls\.predictions\.bias" and "module\.cls\.'):
        inspect_model(folder)


def test_a_directory_of_a_hubs_cache_stands_for_its_only_snapshot(bases, tmp_path, monkeypatch):
    path = SHAPES["model's directory in a hub's cache"].build(bases, tmp_path / "hub" / NAME)
    snapshot = path / "snapshots" / "0a1b"
    assert resolve_model_path(str(path)) == snapshot
    assert look_up_digest(path) == compute_model_digest(snapshot)
    assert load_tokenizer(path).get_vocab() == load_tokenizer(snapshot).get_vocab()
    with (snapshot / "vocab.txt").open("a") as vocabulary:
        vocabulary.write("more\n")
    assert look_up_digest(path) == compute_model_digest(snapshot)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "hub"))
    listed = [(model.path, model.model_id) for model in list_models()]
    assert listed == [(snapshot, f"hub/{NAME}/snapshots/0a1b")]


def test_models_without_config_are_listed_with_their_refusal(bases, tmp_path, monkeypatch):
    for name in ("GGUF", "no config.json", "sentence-transformers", "Trainer's checkpoints alone"):
        SHAPES[name].build(bases, tmp_path / "models" / name)
    (tmp_path / "models" / "GGUF" / "config.json").unlink()
    (tmp_path / "models" / "sentence-transformers" / "onnx").mkdir()
    (tmp_path / "models" / "sentence-transformers" / "onnx" / "model.onnx").touch()
    (tmp_path / "models" / "optimizer").mkdir()
    (tmp_path / "models" / "optimizer" / "optimizer.bin").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models"))
    refusals = {model.model_id.removeprefix("models/"): model.refusal for model in list_models()}
    assert {name: bool(refusal) for name, refusal in refusals.items()} == {
        "GGUF": True,
        "Trainer's checkpoints alone/checkpoint-1000": False,
        "Trainer's checkpoints alone/checkpoint-500": False,
        "no config.json": True,
        "sentence-transformers": True,
    }
    assert (
        "llama.cpp" in refusals["GGUF"] and "config.json is missing" in refusals["no config.json"]
    )


def test_a_file_in_place_of_a_directory_is_named(bases, tmp_path):
    folder = bases.copy("bert", tmp_path / "model")
    archive = tmp_path / "model.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.write(folder / "config.json")
    for read in (inspect_model, lambda path: resolve_model_path(str(path))):
        with pytest.raises(AuditError, match=r"^model\.zip: This is an archive, not a directory\."):
            read(archive)
        with pytest.raises(AuditError, match=r"^model\.safetensors: This is a file, not a direc"):
            read(folder / WEIGHTS)
    assert load_file(folder / WEIGHTS)  # the folder itself is left alone
