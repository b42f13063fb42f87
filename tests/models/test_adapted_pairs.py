"""An adapter and its base as a pair: one module, two models, one digest each."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from audit.errors import AuditError
from audit.models import causal_pass
from audit.models.adapters import SETTINGS_FILE, WEIGHTS_FILE, join_digests, read_adapter
from audit.models.causal_pass import build_causal_forwards
from audit.models.inspect import (
    compute_hospital_digest,
    compute_model_digest,
    inspect_adapter,
    inspect_model,
)
from audit.models.load import LoadedModel, ModelPair, load_model, load_pair
from audit.models.registry import (
    VARIABLE,
    check_pair,
    find_bases,
    find_model_by_digest,
    find_tokenizer_folder,
    list_models,
    look_up_hospital_digest,
)
from tests.models.editing import edit_json
from tests.models.make_causal import CAUSAL, IDS, make_adapter, make_causal
from tests.models.make_models import make_bert

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def logits_of(loaded: LoadedModel) -> Tensor:
    with torch.inference_mode(), loaded.running():
        logits: Tensor = loaded.model(IDS).logits
    return logits


@pytest.mark.parametrize("name", CAUSAL)
def test_every_kind_computes_with_an_adapter_what_peft_computes(name: str, tmp_path: Path) -> None:
    base = make_causal(tmp_path / "base", name)
    expected = make_adapter(tmp_path / "adapter", base)
    pair = load_pair(base, tmp_path / "adapter")
    assert pair.general.model is pair.hospital.model and not pair.is_one_model
    torch.testing.assert_close(logits_of(pair.hospital), expected, rtol=0, atol=1e-5)
    base_logits = logits_of(load_model(base))
    assert torch.equal(logits_of(pair.general), base_logits)
    assert (base_logits - expected).abs().max() > 0.01
    assert pair.general.digest == compute_model_digest(base)
    assert pair.hospital.digest == compute_hospital_digest(base, tmp_path / "adapter")


def test_the_text_part_of_a_model_of_texts_and_pictures_is_a_base(tmp_path: Path) -> None:
    text = make_causal(tmp_path / "text", "gemma3_text")
    config = transformers.Gemma3Config(
        text_config=json.loads((text / "config.json").read_text()),
        vision_config={
            "model_type": "siglip_vision_model",
            "hidden_size": 16,
            "intermediate_size": 24,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 28,
            "patch_size": 14,
        },
        mm_tokens_per_image=4,
    )
    plain_text_model = tmp_path / "whole"
    shutil.copytree(text, plain_text_model)
    with torch.random.fork_rng(devices=[]):
        model = transformers.Gemma3ForConditionalGeneration(config).eval()
    model.save_pretrained(plain_text_model)
    with torch.inference_mode():
        expected = model(IDS).logits
    torch.testing.assert_close(logits_of(load_model(plain_text_model)), expected, rtol=0, atol=1e-5)
    targets = ["q_proj", "down_proj"]
    settings = peft.LoraConfig(
        target_modules=targets, task_type="CAUSAL_LM", exclude_modules=r".*vision_tower.*"
    )
    adapted = peft.get_peft_model(model, settings).eval()
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            parameter.data = 0.3 * torch.randn_like(parameter)
    adapted.save_pretrained(tmp_path / "adapter")
    edit_json(tmp_path / "adapter", SETTINGS_FILE, exclude_modules=None)
    with torch.inference_mode():
        expected = adapted(IDS).logits
    pair = load_pair(plain_text_model, tmp_path / "adapter")
    torch.testing.assert_close(logits_of(pair.hospital), expected, rtol=0, atol=1e-5)


def test_half_precision_takes_half_the_memory_and_computes_nearly_the_same(tmp_path: Path) -> None:
    base = make_causal(tmp_path / "base", "llama tied")
    expected = make_adapter(
        tmp_path / "adapter", base, modules_to_save=["embed_tokens"], target_modules=["q_proj"]
    )
    pair = load_pair(base, tmp_path / "adapter", dtype=torch.bfloat16)
    assert {p.dtype for p in pair.general.model.parameters()} == {torch.bfloat16}
    assert pair.hospital.digest == load_pair(base, tmp_path / "adapter").hospital.digest
    logits = logits_of(pair.hospital)
    assert logits.dtype == torch.bfloat16
    assert (logits.float() - expected).abs().mean() < 0.05 * expected.std()


def test_an_adapter_that_changes_nothing_makes_one_model(tmp_path: Path) -> None:
    base = make_causal(tmp_path / "base")
    make_adapter(tmp_path / "adapter", base, is_trained=False)
    pair = load_pair(base, tmp_path / "adapter")
    assert pair.is_one_model
    assert torch.equal(logits_of(pair.general), logits_of(pair.hospital))
    make_adapter(
        tmp_path / "whole", base, is_trained=False, modules_to_save=["embed_tokens", "lm_head"]
    )
    assert load_pair(base, tmp_path / "whole").is_one_model
    path = tmp_path / "whole" / WEIGHTS_FILE
    tensors = load_file(path)
    name = next(name for name in tensors if name.endswith("lm_head.weight"))
    save_file({**tensors, name: tensors[name] + 1e-3}, path)
    assert not load_pair(base, tmp_path / "whole").is_one_model


def test_the_digest_covers_base_settings_weights_and_the_own_tokenizer(tmp_path: Path) -> None:
    bases = [make_causal(tmp_path / f"base{seed}", seed=seed) for seed in range(2)]
    adapter = tmp_path / "adapter"
    make_adapter(adapter, bases[0])
    digests = {compute_hospital_digest(base, adapter) for base in bases}
    own_digest = compute_model_digest(adapter)
    assert join_digests(compute_model_digest(bases[0]), own_digest) in digests
    assert own_digest == read_adapter(adapter).digest()
    edit_json(adapter, SETTINGS_FILE, lora_alpha=5)
    digests.add(compute_hospital_digest(bases[0], adapter))
    shutil.copy(bases[0] / "tokenizer.json", adapter)
    digests.add(compute_hospital_digest(bases[0], adapter))
    assert len(digests) == 4
    assert compute_hospital_digest(bases[1], bases[0]) == compute_model_digest(bases[0])


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("", "names no base model"),
        ("company/base", "The names agree"),
        ("/home/u/.cache/models--company--base", "The names agree"),
        ("company/another", "The names differ"),
    ],
)
def test_a_note_says_what_the_adapter_declares(declared: str, words: str, tmp_path: Path) -> None:
    base = make_causal(tmp_path / "base")
    make_adapter(tmp_path / "adapter", base)
    edit_json(tmp_path / "adapter", SETTINGS_FILE, base_model_name_or_path=declared)
    (note,) = load_pair(base, tmp_path / "adapter").notes
    assert note.startswith("Base declared: ") and words in note and declared in note


def test_an_own_tokenizer_must_read_text_as_that_of_the_base(tmp_path: Path) -> None:
    base = make_causal(tmp_path / "base")
    adapter = tmp_path / "adapter"
    make_adapter(adapter, base)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(base / file, adapter)
    assert check_pair(base, adapter).refusal == ""
    pair = load_pair(base, adapter)
    assert pair.general.tokenizer.get_vocab() == pair.hospital.tokenizer.get_vocab()
    state = json.loads((adapter / "tokenizer.json").read_text("utf-8"))
    state["model"]["merges"] = state["model"]["merges"][:-1]
    (adapter / "tokenizer.json").write_text(json.dumps(state), "utf-8")
    with pytest.raises(AuditError, match=r"different tokenizers: .*merges") as refusal:
        load_pair(base, adapter)
    assert check_pair(base, adapter).refusal == str(refusal.value)


@pytest.mark.parametrize("is_whole", [False, True])
def test_special_tokens_that_a_training_added_make_no_difference(
    is_whole: bool, tmp_path: Path
) -> None:
    base, hospital = make_causal(tmp_path / "base", n_more_rows=0), tmp_path / "hospital"
    if is_whole:
        model = transformers.AutoModelForCausalLM.from_pretrained(base)
        model.resize_token_embeddings(model.config.vocab_size + 1, mean_resizing=False)
        model.save_pretrained(hospital)
    else:
        make_adapter(hospital, base, n_more_tokens=1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    tokenizer.save_pretrained(hospital)
    pair = load_pair(base, hospital)
    assert "[PAD]" not in pair.hospital.tokenizer.get_vocab()
    general_logits, hospital_logits = logits_of(pair.general), logits_of(pair.hospital)
    assert (
        general_logits.shape[2] + 1 == hospital_logits.shape[2] == pair.hospital.config.vocab_size
    )
    tokenizer.add_tokens(["Smith"])
    tokenizer.save_pretrained(hospital)
    with pytest.raises(AuditError, match=r"different tokenizers|tokens that its files"):
        load_pair(base, hospital)


def test_what_makes_no_pair_is_refused_in_words(tmp_path: Path) -> None:
    base, adapter = make_causal(tmp_path / "base"), tmp_path / "adapter"
    make_adapter(adapter, base, target_modules=["q_proj", "down_proj"])
    masked = make_bert(tmp_path / "masked")
    deeper = make_causal(tmp_path / "deeper", num_hidden_layers=3)
    wider = make_causal(tmp_path / "wider", hidden_size=32)
    gpt2 = make_causal(tmp_path / "other", "gpt2")
    for general, words in (
        (adapter, "which is not a whole model. Choose it as the hospital's model"),
        (masked, "only be audited on a causal language model"),
        (deeper, r'lacks a change of "model\.layers\.2'),
        (wider, "does not have in that shape"),
        (gpt2, "does not have in that shape"),
    ):
        with pytest.raises(AuditError, match=words) as refusal:
            load_pair(general, adapter)
        if general != adapter:
            assert check_pair(general, adapter).refusal == str(refusal.value)
    with pytest.raises(AuditError, match="which is not a whole model"):
        inspect_model(adapter)
    shutil.copy(base / "model.safetensors", adapter)
    shutil.copy(base / "config.json", adapter)
    with pytest.raises(AuditError, match="directory of its own"):
        load_pair(base, adapter)


def test_adapters_are_listed_with_the_bases_that_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "models"
    base = make_causal(home / "base")
    make_causal(home / "a-twin", seed=1)
    make_causal(home / "deeper", num_hidden_layers=3)
    make_bert(home / "masked")
    make_adapter(home / "lora", base, declared="company/base", target_modules=["q_proj", "v_proj"])
    make_adapter(home / "lora" / "checkpoint-5", base, r=2)
    (home / "lora" / "checkpoint-5" / WEIGHTS_FILE).write_bytes(b"")
    monkeypatch.setenv(VARIABLE, str(home))
    models = list_models()
    by_id = {model.model_id.removeprefix("models/"): model for model in models}
    assert list(by_id) == ["a-twin", "base", "deeper", "lora", "lora/checkpoint-5", "masked"]
    lora = by_id["lora"]
    assert (lora.summary, lora.refusal, lora.name) == (None, "", "lora")
    assert by_id["lora/checkpoint-5"].refusal and not by_id["lora/checkpoint-5"].name
    facts = inspect_adapter(lora.path)
    assert lora.adapter == facts
    n_numbers = 2 * (3 * (16 + 16) + 3 * (16 + 8))
    assert (facts.n_parameters, facts.ranks, facts.replaced) == (n_numbers, (3,), ())
    assert (facts.base, facts.targets) == ("company/base", ("q_proj", "v_proj"))
    assert [model.name for model in find_bases(lora, models)] == ["base", "a-twin"]
    check = check_pair(base, lora.path)
    n_base = check.traits["n_parameters"][0]
    assert check.refusal == "" and check.traits["n_parameters"] == (n_base, n_base + n_numbers)
    digest = look_up_hospital_digest(base, lora.path)
    assert digest == compute_hospital_digest(base, lora.path)
    assert find_model_by_digest(digest, name="lora", models=models, base=base) is lora
    assert find_model_by_digest(digest, name="lora", models=models) is None
    assert find_tokenizer_folder(base, lora.path) == base
    assert find_tokenizer_folder(base, home / "a-twin") == home / "a-twin"


def weights_of(pair: ModelPair) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in pair.general.model.named_parameters()}


@pytest.fixture
def adapted_pair(tmp_path: Path) -> ModelPair:
    base = make_causal(tmp_path / "base")
    make_adapter(tmp_path / "adapter", base)
    return load_pair(base, tmp_path / "adapter")


def test_a_rounded_pair_shares_one_copy_and_stays_two_models(adapted_pair: ModelPair) -> None:
    models = [adapted_pair.general, adapted_pair.hospital]
    exact = list(map(logits_of, models))
    for forward, loaded, logits in zip(
        build_causal_forwards(models, dtype="bfloat16"), models, exact, strict=True
    ):
        assert forward.model is models[0].model and forward.dtype == "bfloat16"
        torch.testing.assert_close(logits_of(loaded).float(), logits, rtol=0.1, atol=0.3)
    assert (logits_of(models[0]) - logits_of(models[1])).abs().max() > 1


@pytest.mark.parametrize(("share", "dtype"), [(0.5, "bfloat16"), (1e-9, "float32")])
def test_where_the_device_multiplies_bfloat16_it_is_chosen_if_it_moves_little(
    adapted_pair: ModelPair, monkeypatch: pytest.MonkeyPatch, share: float, dtype: str
) -> None:
    models = [adapted_pair.general, adapted_pair.hospital]
    weights, exact = weights_of(adapted_pair), list(map(logits_of, models))
    assert {forward.dtype for forward in build_causal_forwards(models, dtype="auto")} == {"float32"}
    monkeypatch.setattr(causal_pass, "MAX_SHARE_MOVED", share)
    monkeypatch.setattr(  # as on a GPU that has it
        causal_pass, "pick_precision", lambda dtype, *, device: "bfloat16"
    )
    forwards = build_causal_forwards(models, dtype="auto")
    assert {forward.dtype for forward in forwards} == {dtype}
    if dtype == "float32":  # whatever was tried, the models are as they were
        assert all(torch.equal(weights[n], w) for n, w in weights_of(adapted_pair).items())
        assert all(map(torch.equal, map(logits_of, models), exact))
