from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from audit.errors import AuditError
from audit.models.inspect import model_digest
from audit.models.load import LoadedModel, load_model
from tests.models.editing import WEIGHTS, canary, write_pickle
from tests.models.hostile_models import BEFORE_LOADING, EMBEDDING, WHILE_LOADING, Spoiled
from tests.models.make_models import make_bert, make_distilbert, make_japanese_bert, make_roberta

MAKERS: dict[str, Callable[..., Path]] = {
    "bert": make_bert,
    "roberta": make_roberta,
    "distilbert": make_distilbert,
    "japanese": make_japanese_bert,
}
SENTENCES = ("The patient John Smiths was seen by Dr. Jones.", "患者山田花子は受診した。")
CASES = BEFORE_LOADING + WHILE_LOADING


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bert(tmp_path_factory.mktemp("good") / "model")


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "model"))


def _logits(model: Any, tokenizer: Any, sentence: str = SENTENCES[0]) -> torch.Tensor:
    with torch.inference_mode():
        logits: torch.Tensor = model(**tokenizer(sentence, return_tensors="pt")).logits
    return logits


def _own_logits(loaded: LoadedModel) -> torch.Tensor:
    return _logits(loaded.model, loaded.tokenizer)


def _reference(folder: Path) -> torch.Tensor:
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    return _logits(model, transformers.AutoTokenizer.from_pretrained(folder))


def _rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / WEIGHTS)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_hostile_directory_is_not_loaded(
    case: Spoiled, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a pickle was opened")

    case.spoil(copy)
    monkeypatch.setattr(torch, "load", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "loads", refuse)
    with pytest.raises(AuditError) as refused:
        load_model(copy)
    assert case.says in str(refused.value)
    assert str(copy.parent) not in str(refused.value)
    assert not canary(copy).exists()


@pytest.mark.parametrize("kind", MAKERS)
def test_logits_and_tokens_equal_those_of_transformers(kind: str, tmp_path: Path) -> None:
    folder = MAKERS[kind](tmp_path / "model")
    loaded = load_model(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for sentence in SENTENCES:
        assert tokenizer(sentence)["input_ids"] == loaded.tokenizer(sentence)["input_ids"]
        expected = _logits(model, tokenizer, sentence)
        assert torch.equal(_logits(loaded.model, loaded.tokenizer, sentence), expected)
    assert loaded.name == "model"
    assert loaded.config.architecture == ("bert" if kind == "japanese" else kind)
    assert loaded.n_positions == 64
    assert loaded.digest == model_digest(folder)
    assert not loaded.model.training


def test_longest_input_fits_and_one_more_does_not(tmp_path: Path) -> None:
    loaded = load_model(make_roberta(tmp_path / "model"))
    ids = torch.full((1, loaded.n_positions), loaded.tokenizer.mask_token_id)
    assert loaded.model(input_ids=ids).logits.shape == (1, 64, 270)
    with pytest.raises((IndexError, RuntimeError)):
        loaded.model(input_ids=torch.cat((ids, ids[:, :1]), dim=1))


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_shards_are_loaded(kind: str, tmp_path: Path) -> None:
    folder = MAKERS[kind](tmp_path / "model")
    expected = _reference(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    model.save_pretrained(folder, max_shard_size="8KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    assert torch.equal(_own_logits(load_model(folder)), expected)


def test_pretraining_checkpoint_with_pooler_is_loaded(copy: Path) -> None:
    config = transformers.BertConfig.from_pretrained(copy)
    model = transformers.BertForPreTraining(config).eval()
    model.save_pretrained(copy)
    loaded = load_model(copy)
    tokens = loaded.tokenizer(SENTENCES[0], return_tensors="pt")
    with torch.inference_mode():
        assert torch.equal(_own_logits(loaded), model(**tokens).prediction_logits)
    assert loaded.notes == (
        "Weights that masked language modelling does not use: pooler, seq_relationship.",
    )


def test_names_of_old_checkpoints_are_understood(copy: Path) -> None:
    before = _own_logits(load_model(copy))

    def age(tensors: dict[str, torch.Tensor]) -> None:
        for name in list(tensors):
            old = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            tensors[old.replace("LayerNorm.bias", "LayerNorm.beta")] = tensors.pop(name)
        tensors["bert.embeddings.position_ids"] = torch.arange(64)[None]
        tensors["cls.predictions.decoder.weight"] = tensors[EMBEDDING].clone()
        tensors["cls.predictions.decoder.bias"] = tensors.pop("cls.predictions.bias")

    _rewrite(copy, age)
    assert torch.equal(_own_logits(load_model(copy)), before)


def test_head_with_a_matrix_of_its_own_is_kept(tmp_path: Path) -> None:
    folder = make_bert(tmp_path / "model", tie_word_embeddings=False)
    loaded = load_model(folder)
    module: Any = loaded.model
    assert not torch.equal(
        module.get_input_embeddings().weight, module.get_output_embeddings().weight
    )
    assert torch.equal(_own_logits(loaded), _reference(folder))


def test_bias_saved_once_serves_an_untied_head(tmp_path: Path) -> None:
    # transformers 4 saved one of the two names; transformers 5 would fill the other with zeros.
    folder = make_bert(tmp_path / "model", tie_word_embeddings=False)

    def drop(tensors: dict[str, torch.Tensor]) -> None:
        tensors["cls.predictions.bias"] = tensors.pop("cls.predictions.decoder.bias")

    _rewrite(folder, drop)
    bias = load_file(folder / WEIGHTS)["cls.predictions.bias"]
    module: Any = load_model(folder).model
    assert torch.equal(module.get_output_embeddings().bias, bias)


def test_tied_head_is_the_embedding(good: Path) -> None:
    module: Any = load_model(good).model
    assert module.get_output_embeddings().weight is module.get_input_embeddings().weight
    assert module.get_output_embeddings().bias is module.cls.predictions.bias


@pytest.mark.parametrize("saved", [torch.float16, torch.bfloat16])
def test_sixteen_bit_weights_are_widened(copy: Path, saved: torch.dtype) -> None:
    def narrow(tensors: dict[str, torch.Tensor]) -> None:
        tensors.update({name: tensor.to(saved) for name, tensor in tensors.items()})

    _rewrite(copy, narrow)
    stored = load_file(copy / WEIGHTS)
    loaded = load_model(copy)
    state = loaded.model.state_dict()
    assert all(tensor.dtype == torch.float32 for tensor in state.values())
    assert all(torch.equal(state[name], stored[name].float()) for name in stored)


def test_numbers_too_large_for_sixteen_bits_are_refused(copy: Path) -> None:
    _rewrite(copy, lambda t: t[EMBEDDING].view(-1)[:1].fill_(1e6))
    load_model(copy)
    with pytest.raises(AuditError, match="not finite"):
        load_model(copy, dtype="float16")


def test_largest_sixteen_bit_numbers_are_finite(copy: Path) -> None:
    _rewrite(copy, lambda t: t[EMBEDDING].fill_(torch.finfo(torch.float16).max))
    module: Any = load_model(copy, dtype="float16").model
    assert torch.isfinite(module.get_input_embeddings().weight).all()


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_model_is_held_in_the_numbers_asked_for(good: Path, dtype: str) -> None:
    loaded = load_model(good, dtype=dtype)
    assert {p.dtype for p in loaded.model.parameters()} == {getattr(torch, dtype)}
    assert loaded.digest == model_digest(good)


def test_unknown_numbers_and_devices_are_refused(good: Path) -> None:
    with pytest.raises(AuditError, match="Unknown kind of numbers"):
        load_model(good, dtype="int8")
    for device in ("abacus", "cuda:99"):
        with pytest.raises(AuditError, match="is not available"):
            load_model(good, device=device)


def test_overwritten_or_deleted_files_change_nothing(copy: Path) -> None:
    loaded = load_model(copy)
    before = _own_logits(loaded)
    n_bytes = (copy / WEIGHTS).stat().st_size
    with (copy / WEIGHTS).open("r+b") as file:
        file.write(b"\x3f" * n_bytes)
    assert torch.equal(_own_logits(loaded), before)
    (copy / WEIGHTS).write_bytes(b"")
    assert torch.equal(_own_logits(loaded), before)
    shutil.rmtree(copy)
    assert torch.equal(_own_logits(loaded), before)


def test_pickle_beside_safetensors_is_never_opened(copy: Path) -> None:
    expected = _own_logits(load_model(copy))
    for name in ("pytorch_model.bin", "training_args.bin"):
        write_pickle(copy, name)
    loaded = load_model(copy)
    assert torch.equal(_own_logits(loaded), expected)
    assert "pytorch_model.bin" in loaded.notes[0]
    assert not canary(copy).exists()


def test_loading_leaves_the_random_numbers_alone(good: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    load_model(good)
    assert torch.equal(torch.rand(3), expected)


def test_attention_is_the_fused_one(good: Path) -> None:
    module: Any = load_model(good).model
    assert module.config._attn_implementation == "sdpa"


def test_dropout_rates_come_from_the_configuration(tmp_path: Path) -> None:
    loaded = load_model(make_bert(tmp_path / "model", dropout=0.25))
    rates = {m.p for m in loaded.model.modules() if isinstance(m, torch.nn.Dropout)}
    assert rates == {0.25}
