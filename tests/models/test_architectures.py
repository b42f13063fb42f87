"""Encoders without a fast pass: tensors, logits, dropout, bounds of settings, whole audits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.errors import AuditError
from audit.models.architectures import SUPPORTED_KINDS, parse_config
from audit.models.forward import PACKED_KINDS, Forward
from audit.models.inspect import inspect_model
from audit.models.layouts import compute_expected_shapes
from audit.models.load import load_model
from audit.models.tokenizer_files import TOKENIZER_CLASSES
from tests.models.editing import edit_json
from tests.models.make_encoders import ENCODERS, make_encoder
from tests.models.make_models import make_distilbert
from tests.small_audit import Models, answer, list_words, make_small, request_of, same_answer


def read_library_model(folder: Path) -> Any:
    """Return the model as transformers itself loads it."""
    with torch.random.fork_rng(devices=[]):
        return transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("kind", ENCODERS)
def test_logits_are_those_of_the_library_at_every_length(kind: str, tmp_path: Path) -> None:
    folder = make_encoder(tmp_path / "model", kind)
    loaded, library_model = load_model(folder), read_library_model(folder)
    forward = Forward(loaded.model)
    is_roberta = kind in ("camembert", "xlm_roberta")
    assert forward.kernels == ("packed" if is_roberta else "plain")
    generator = torch.Generator().manual_seed(3)
    for n_tokens in (9, 30, loaded.n_positions):
        ids = torch.randint(1, loaded.config.vocab_size, (3, n_tokens), generator=generator)
        positions = torch.randint(n_tokens, (3, 4), generator=generator)
        with torch.inference_mode():
            logits = library_model(input_ids=ids).logits
        expected = logits.gather(1, positions[..., None].expand(-1, -1, logits.shape[-1]))
        assert expected.std() > 0.1
        torch.testing.assert_close(
            forward.logits(ids, positions=positions), expected, rtol=0, atol=2e-5
        )


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_file_has_the_tensors_and_the_size_that_its_settings_promise(
    kind: str, tmp_path: Path
) -> None:
    folder = make_encoder(tmp_path / "model", kind)
    summary, library_model = inspect_model(folder), read_library_model(folder)
    parameters = dict(library_model.named_parameters(remove_duplicate=False))
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    assert compute_expected_shapes(summary.config) == shapes
    assert summary.n_parameters == library_model.num_parameters() == load_model(folder).n_parameters
    n_extra_runs = 1 if kind == "albert" else 0  # two groups of one layer, each run twice
    n_layers = sum(
        parameter.numel() for name, parameter in parameters.items() if ".albert_layers." in name
    )
    assert summary.pass_work == pytest.approx(
        summary.config.slowdown * (summary.n_parameters + n_extra_runs * n_layers)
    )
    is_packed = library_model.config.model_type in (*PACKED_KINDS, "camembert", "xlm-roberta")
    assert (summary.config.slowdown == 1) == is_packed


@pytest.mark.parametrize("kind", ENCODERS)
def test_dropout_is_found_and_follows_its_seed(kind: str, tmp_path: Path) -> None:
    models = [load_model(make_encoder(tmp_path / name, kind, dropout=0.3)) for name in "ab"]
    assert [(m.config.hidden_dropout, m.config.attention_dropout) for m in models] == [
        (0.3, 0.3)
    ] * 2
    generator = torch.Generator().manual_seed(3)
    forward, ids = Forward(models[0].model), torch.randint(1, 30, (4, 12), generator=generator)
    positions = torch.arange(12).expand(4, -1)

    def compute(seed: int | None) -> torch.Tensor:
        return forward.logits(ids, positions=positions, dropout=seed)

    assert torch.equal(compute(5), compute(5)) and torch.equal(compute(None), compute(None))
    assert not torch.equal(compute(5), compute(6)) and not torch.equal(compute(5), compute(None))
    twin_logits = Forward(models[1].model).logits(ids, positions=positions, dropout=5)
    assert torch.equal(compute(5), twin_logits)


@pytest.mark.parametrize(
    ("kind", "settings", "setting"),
    [
        ("modernbert", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling"),
        (
            "modernbert",
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "rope_param",
        ),
        ("modernbert", {"layer_types": ["full_attention"]}, "contradict"),
        ("modernbert", {"local_attention": 7}, "local_attention"),
        ("longformer", {"attention_window": [8, 8]}, "contradict"),
        ("longformer", {"attention_window": 10**9}, "attention_window"),
        ("longformer", {"attention_window": 2}, "attention_window"),
        ("longformer", {"attention_window": [4, 6, 6]}, "contradict"),
        ("modernbert", {"sliding_window": 2}, "sliding_window"),
        ("deberta", {"embedding_size": 8}, "contradict"),
        ("deberta", {"legacy": False}, "legacy"),
        ("deberta", {"talking_head": True}, "talking_head"),
        ("deberta_v2", {"attention_head_size": 4}, "contradict"),
        ("deberta_v2", {"conv_kernel_size": 10**6}, "conv_kernel_size"),
        ("deberta_v2", {"pos_att_type": ["p2p"]}, "pos_att_type"),
        ("albert", {"num_hidden_groups": 3}, "contradict"),
        ("big_bird", {"use_bias": False}, "use_bias"),
        ("electra", {"embedding_size": 0}, "embedding_size"),
    ],
)
def test_settings_that_change_the_arithmetic_are_bounded(
    kind: str, settings: dict[str, Any], setting: str, tmp_path: Path
) -> None:
    folder = make_encoder(tmp_path / "model", kind)
    edit_json(folder, "config.json", **settings)
    with pytest.raises(AuditError, match=setting) as refusal:
        inspect_model(folder)
    assert refusal.value.do


def test_settings_of_an_older_modernbert_are_those_of_today(tmp_path: Path) -> None:
    folder = make_encoder(tmp_path / "model", "modernbert")
    current = json.loads((folder / "config.json").read_text())
    thetas = {"global_rope_theta": 160_000.0, "local_rope_theta": 10_000.0}
    older = {k: v for k, v in current.items() if k not in ("layer_types", "rope_parameters")}
    configs = [parse_config(raw, place="") for raw in (current, older | thetas)]
    assert configs[0].library_settings == configs[1].library_settings
    assert configs[0].library_settings["layer_types"][1:] == ["sliding_attention", "full_attention"]


def test_every_accepted_kind_has_a_name_a_tokenizer_and_a_small_model() -> None:
    for model_type, kind in SUPPORTED_KINDS.items():
        assert parse_config({"model_type": model_type}, place="").n_positions > 500
        assert kind.tokenizer in TOKENIZER_CLASSES
        library_config = transformers.AutoConfig.for_model(model_type)
        assert type(library_config).__name__ == f"{kind.class_start}Config"
    with pytest.raises(AuditError, match="cannot be audited") as refusal:
        parse_config({"model_type": "opt"}, place="")
    assert all(kind.name in str(refusal.value) for kind in SUPPORTED_KINDS.values())
    plain_classes = {
        kind.class_start
        for model_type, kind in SUPPORTED_KINDS.items()
        if model_type not in PACKED_KINDS and not kind.config.is_causal
    }
    assert plain_classes == {class_start for class_start, _ in ENCODERS.values()}


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (
            "distilbert",
            {
                "n_heads": "num_attention_heads",
                "dim": "hidden_size",
                "n_layers": "num_hidden_layers",
            },
        ),
        ("modernbert", {"local_attention": "sliding_window"}),
    ],
)
def test_settings_under_their_second_names_are_those_that_the_library_uses(
    kind: str, names: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    if kind == "distilbert":
        make_distilbert(folder)
    else:
        make_encoder(folder, kind)
    settings = json.loads((folder / "config.json").read_text())
    numbers = {second: settings.pop(first) for first, second in names.items()}
    if kind == "modernbert":
        numbers = {"sliding_window": numbers["sliding_window"] // 2}
    (folder / "config.json").write_text(json.dumps(settings | numbers))
    ids = torch.randint(1, 30, (2, 20))
    with torch.inference_mode():
        expected = read_library_model(folder)(input_ids=ids).logits
    logits = Forward(load_model(folder).model).logits(ids, positions=torch.arange(20).expand(2, -1))
    torch.testing.assert_close(logits, expected, rtol=0, atol=2e-5)


def test_a_distilbert_whose_two_names_of_a_setting_disagree_is_refused(tmp_path: Path) -> None:
    folder = make_distilbert(tmp_path / "model")
    edit_json(folder, "config.json", num_attention_heads=4)
    with pytest.raises(AuditError, match="num_attention_heads"):
        inspect_model(folder)


def test_a_model_that_the_library_cannot_run_is_refused(tmp_path: Path) -> None:
    # Heads of odd width have no rotary positions.
    folder = make_encoder(tmp_path / "model", "modernbert", hidden_size=10)
    with pytest.raises(AuditError, match="cannot compute"):
        load_model(folder)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [1, 2])
@pytest.mark.parametrize("kind", ["modernbert", "deberta_v3", "longformer"])
def test_both_attacks_run_on_them(
    kind: str, scenario: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_small(monkeypatch.setattr)
    folders = [
        make_encoder(tmp_path / name, kind, seed=seed, words=list_words())
        for seed, name in enumerate(("general", "hospital", "other"))
    ]
    request = request_of(
        Models(*folders),
        scenario,
        generation=GenerationSettings(n_documents=200, n_steps=4, n_tokens=16, top_k=20),
        posterior=PosteriorSettings(n_inputs=50, n_chain_inputs=0, micro_batch=25),
    )
    report = answer(request, tmp_path / "store")
    assert report.verdict and same_answer(report, answer(request, tmp_path / "other_store"))
