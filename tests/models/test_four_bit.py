"""Bases that are rounded to four bits: NF4's numbers, the right matrices, a pair's note."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from audit.errors import AuditError
from audit.models.conversion import RECORD_FILE
from audit.models.convert import ConvertTask
from audit.models.four_bit import LEVELS, round_matrix
from audit.models.inspect import compute_model_digest
from audit.models.load import LoadedModel, load_model, load_pair
from audit.models.registry import VARIABLE, check_pair, list_models
from audit.task import Contact
from tests.models.editing import edit_weights
from tests.models.make_causal import CAUSAL, IDS, make_adapter, make_causal
from tests.models.make_models import make_bert

CONTACT = Contact(listen=lambda _: None, should_stop=lambda: False, say=lambda _: None)


def draw_matrix(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7)) * 0.03


def round_slowly(numbers: Tensor) -> Tensor:
    """Return each number's nearest level of its 64 neighbours' scale, one block at a time."""
    blocks = []
    for block in numbers.reshape(-1).split(64):
        nearest = (block[:, None] / block.abs().max() - torch.tensor(LEVELS)).abs().argmin(1)
        blocks.append(torch.tensor(LEVELS)[nearest] * block.abs().max())
    return torch.cat(blocks).reshape(numbers.shape)


def test_the_levels_are_quantiles_of_a_normal_distribution() -> None:
    edge = 0.9677083
    positive = norm.ppf(np.linspace(edge, 0.5, 9))
    negative = -norm.ppf(np.linspace(edge, 0.5, 8)[:-1])
    quantiles = np.sort([*positive, *negative])
    np.testing.assert_allclose(quantiles / quantiles.max(), LEVELS, atol=1e-6)


@pytest.mark.parametrize("shape", [(64, 128), (37, 41)])
def test_each_number_takes_the_nearest_level_of_its_block(shape: tuple[int, int]) -> None:
    matrix = draw_matrix(*shape)
    rounded = round_matrix(matrix)
    torch.testing.assert_close(rounded, round_slowly(matrix), rtol=0, atol=1e-9)
    assert torch.equal(round_matrix(rounded), rounded)
    assert torch.equal(round_matrix(torch.zeros(3, 50)), torch.zeros(3, 50))
    half = matrix.bfloat16()
    assert torch.equal(round_matrix(half), round_slowly(half.float()).bfloat16())


def test_double_quantization_moves_scales_by_less_than_a_step_of_8_bits() -> None:
    matrix = draw_matrix(512, 192)
    scales = matrix.reshape(-1, 64).abs().amax(1)
    doubled = round_matrix(matrix, is_double=True).reshape(-1, 64)
    new_scales = doubled.abs().amax(1)  # the largest number of a block has the level 1 or -1
    spread = (scales - scales.mean()).abs().reshape(-1, 256).amax(1).repeat_interleave(256)
    error = (new_scales - scales).abs()
    assert (error <= 0.45 / 64 * spread + 1e-8).all() and error.max() > 1e-5
    plain = round_matrix(matrix).reshape(-1, 64)
    shares = new_scales / scales
    torch.testing.assert_close(doubled, plain * shares[:, None], rtol=1e-5, atol=1e-9)


def list_linear_weights(loaded: LoadedModel) -> dict[str, Tensor]:
    """Return the weights that a 4-bit training rounds: of every linear module but the head."""
    head = loaded.model.get_output_embeddings()  # type: ignore[operator]
    return {
        f"{name}.weight": module.weight.T if isinstance(module, Conv1D) else module.weight
        for name, module in loaded.model.named_modules()
        if isinstance(module, (nn.Linear, Conv1D)) and module is not head
    }


def convert(source: Path, out: Path, *, rounding: str) -> Path:
    ConvertTask(source=source, out=out, rounding=rounding).run(CONTACT)
    return out


@pytest.mark.parametrize("name", CAUSAL)
def test_a_rounded_base_has_the_matrices_of_its_layers_rounded(name: str, tmp_path: Path) -> None:
    source = make_causal(tmp_path / "base", name)
    base = load_model(source)
    linear = list_linear_weights(base)
    out = convert(source, tmp_path / "rounded", rounding="nf4-double")
    rounded = load_model(out)
    rounded_linear = list_linear_weights(rounded)
    assert linear and rounded_linear.keys() == linear.keys()
    for tensor_name, matrix in linear.items():
        expected = round_matrix(matrix.detach(), is_double=True)
        assert torch.equal(rounded_linear[tensor_name], expected), tensor_name
        assert not torch.equal(expected, matrix)
    weights, rounded_weights = base.model.state_dict(), rounded.model.state_dict()
    assert all(
        torch.equal(weights[tensor_name], rounded_weights[tensor_name])
        for tensor_name in weights.keys() - linear.keys()
    )
    assert json.loads((out / RECORD_FILE).read_text())["rounding"] == "nf4-double"
    assert rounded.digest != base.digest


def test_both_models_of_an_adapters_pair_compute_with_the_rounded_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "models"
    base = convert(make_causal(tmp_path / "plain", "llama"), folder / "base", rounding="nf4")
    expected = make_adapter(folder / "adapter", base)
    pair = load_pair(base, folder / "adapter")
    with torch.inference_mode():
        with pair.hospital.running():
            torch.testing.assert_close(pair.hospital.model(IDS).logits, expected, rtol=0, atol=1e-5)
        with pair.general.running():
            alone = load_model(base).model(IDS).logits
            assert torch.equal(pair.general.model(IDS).logits, alone)
    notes = [str(note) for note in pair.notes]
    assert any("were rounded to 4 bits (nf4) and back" in note for note in notes)
    plain_notes = load_pair(tmp_path / "plain", folder / "adapter").notes
    assert not any("4 bits" in str(note) for note in plain_notes)
    monkeypatch.setenv(VARIABLE, str(folder))
    summaries = {model.model_id: model.summary for model in list_models()}
    summary = summaries["models/base"]
    assert summary is not None and summary.rounding == "nf4"


def test_a_masked_model_is_not_rounded(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="Only a causal model is the base of an adapter"):
        convert(make_bert(tmp_path / "bert"), tmp_path / "out", rounding="nf4")
    assert not (tmp_path / "out").exists()


def test_a_rounded_model_is_neither_rounded_again_nor_taken_for_a_whole_one(tmp_path: Path) -> None:
    unrounded = make_causal(tmp_path / "unrounded", "gpt2")
    rounded = convert(unrounded, tmp_path / "rounded", rounding="nf4")
    with pytest.raises(AuditError, match="was rounded to 4 bits before"):
        convert(rounded, tmp_path / "twice", rounding="nf4-double")
    copy = convert(rounded, tmp_path / "copy", rounding="")
    assert json.loads((copy / RECORD_FILE).read_text())["rounding"] == "nf4"
    digest = compute_model_digest(rounded)
    assert compute_model_digest(copy) == digest
    (copy / RECORD_FILE).unlink()
    assert compute_model_digest(copy) != digest


def test_two_whole_models_must_be_rounded_alike(tmp_path: Path) -> None:
    general, hospital = (make_causal(tmp_path / name, "llama") for name in ("general", "hospital"))
    edit_weights(hospital, lambda tensors: tensors["model.norm.weight"].add_(0.1))
    rounded = convert(general, tmp_path / "rounded", rounding="nf4")
    with pytest.raises(AuditError, match="The matrices of one model were rounded"):
        load_pair(rounded, hospital)
    assert "The matrices of one model" in str(check_pair(rounded, hospital).refusal)
    pair = load_pair(rounded, convert(hospital, tmp_path / "hospital in 4 bits", rounding="nf4"))
    assert any("Both models compute with matrices" in str(note) for note in pair.notes)
