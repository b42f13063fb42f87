"""Weights in several files with an index: read as one model, or refused where they disagree."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from audit.errors import AuditError
from audit.models.inspect import compute_model_digest, inspect_model
from audit.models.load import load_model, load_pair
from audit.models.model_folder import INDEX_FILE
from audit.models.registry import VARIABLE, list_models
from tests.models.editing import WEIGHTS, write_pickle
from tests.models.make_causal import make_causal
from tests.models.make_models import make_bert
from tests.models.test_convert import write_shards

FIRST, SECOND = (f"model-0000{i}-of-00003.safetensors" for i in (1, 2))


@pytest.mark.parametrize("make", [make_bert, make_causal])
def test_shards_are_the_same_model_as_one_file(
    make: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_file_folder = make(tmp_path / "models" / "whole")
    parts = Path(shutil.copytree(one_file_folder, tmp_path / "models" / "parts"))
    write_shards(parts, is_pickled=False)
    pair = load_pair(one_file_folder, parts)
    assert pair.is_one_model and pair.general.digest != pair.hospital.digest
    assert pair.hospital.digest == compute_model_digest(parts)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "models"))
    assert [str(model.refusal) for model in list_models()] == ["", ""]
    shard = load_file(parts / SECOND)
    name = max(shard, key=lambda name: shard[name].numel())
    save_file({**shard, name: shard[name] + 1e-3}, parts / SECOND)
    pair = load_pair(one_file_folder, parts)
    assert not pair.is_one_model and pair.hospital.digest == compute_model_digest(parts)


def test_what_transformers_splits_is_read(tmp_path: Path) -> None:
    one_file_folder = make_causal(tmp_path / "whole", "gpt_neox")
    model = transformers.AutoModelForCausalLM.from_pretrained(one_file_folder)
    parts = tmp_path / "parts"
    shutil.copytree(one_file_folder, parts, ignore=shutil.ignore_patterns(WEIGHTS))
    model.save_pretrained(parts, max_shard_size="20KB")
    assert len([*parts.glob("model-*-of-*.safetensors")]) > 2
    ids = torch.tensor([[3, 4, 5]])
    with torch.inference_mode():
        torch.testing.assert_close(load_model(parts).model(ids).logits, model.eval()(ids).logits)


def _change_index(change: Callable[[dict[str, str]], object]) -> Callable[[Path], object]:
    def spoil(folder: Path) -> None:
        index = json.loads((folder / INDEX_FILE).read_text())
        change(index["weight_map"])
        (folder / INDEX_FILE).write_text(json.dumps(index))

    return spoil


def _rename_shard(files: dict[str, str], *, old: str, new: str) -> None:
    files |= {name: new if file == old else file for name, file in files.items()}


def _link_out(folder: Path) -> None:
    shutil.move(folder / FIRST, folder.parent / "secret")
    (folder / FIRST).symlink_to(folder.parent / "secret")


SPOILS: dict[str, tuple[Callable[[Path], object], str]] = {
    "leads out": (_change_index(lambda files: files.update(a="../x.safetensors")), "not a shard"),
    "pickle": (
        lambda folder: (
            write_pickle(folder, "pytorch_model-00001-of-00003.bin"),
            _change_index(lambda files: files.update(a="pytorch_model-00001-of-00003.bin"))(folder),
        ),
        "not a shard",
    ),
    "pickle under the name of a shard": (
        lambda folder: write_pickle(folder, FIRST),
        "that can run code",
    ),
    "shard missing": (lambda folder: (folder / SECOND).unlink(), "which is missing"),
    "shard of another number": (
        lambda folder: (
            (folder / FIRST).rename(folder / "model-00004-of-00003.safetensors"),
            _change_index(
                lambda files: _rename_shard(
                    files, old=FIRST, new="model-00004-of-00003.safetensors"
                )
            )(folder),
        ),
        "does not name all shards",
    ),
    "one name more": (_change_index(lambda files: files.update(a=FIRST)), "exactly the tensors"),
    "one name fewer": (_change_index(lambda files: files.pop(min(files))), "exactly the tensors"),
    "in another shard": (
        _change_index(lambda files: files.update({min(files): SECOND})),
        "exactly the tensors",
    ),
    "twice": (
        lambda folder: shutil.copy(folder / FIRST, folder / SECOND),
        "Two shards hold a tensor of the same name",
    ),
    "no map": (lambda folder: (folder / INDEX_FILE).write_text("{}"), "not an index"),
    "map of numbers": (
        lambda folder: (folder / INDEX_FILE).write_text('{"weight_map": {"a": 1}}'),
        "not a shard",
    ),
    "many shards": (
        _change_index(
            lambda files: files.update(
                {str(i): f"model-{i:05}-of-00999.safetensors" for i in range(999)}
            )
        ),
        "not a shard",
    ),
    "one file too": (lambda folder: shutil.copy(folder / FIRST, folder / WEIGHTS), "both a model"),
    "linked out": (_link_out, "leads out"),
    "cut off": (
        lambda folder: (folder / FIRST).write_bytes((folder / FIRST).read_bytes()[:-9]),
        "complete safetensors",
    ),
}


@pytest.mark.parametrize("case", SPOILS)
def test_shards_and_index_that_do_not_agree_are_refused(case: str, tmp_path: Path) -> None:
    folder = write_shards(make_bert(tmp_path / "model"), is_pickled=False)
    spoil, sentence = SPOILS[case]
    spoil(folder)
    for read in (inspect_model, load_model, compute_model_digest):
        with pytest.raises(AuditError, match=sentence) as refusal:
            read(folder)
        assert refusal.value.do and str(refusal.value.where).startswith("model")
    assert not (tmp_path / "canary").exists()
