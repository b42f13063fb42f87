"""The fast forward pass against transformers' own, with and without dropout; which one is taken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from audit.errors import AuditError
from audit.models import forward
from audit.models.forward import Encoder, Forward, build_forwards, compute_logits
from audit.models.load import load_model
from tests.models.make_models import make_bert, make_distilbert, make_roberta
from tests.table_model import SIDE_BY_SIDE, TableModel, compatible_table

MAKERS: dict[str, Callable[[Path], Path]] = {
    "bert": lambda folder: make_bert(folder, scale=0.3),
    "tanh": lambda folder: make_bert(folder, scale=0.3, hidden_act="gelu_new", n_layers=3),
    "relu": lambda folder: make_bert(folder, scale=0.3, hidden_act="relu", n_layers=1),
    "long": lambda folder: make_bert(folder, scale=0.3, n_positions=200),
    "roberta": make_roberta,
    "distilbert": make_distilbert,
}


def model_of(kind: str, folder: Path) -> Any:
    return load_model(MAKERS[kind](folder / kind)).model


def draw_inputs(model: Any, *, n_tokens: int, n_rows: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of any tokens, the padding's too, and three positions of each."""
    generator = torch.Generator().manual_seed(4)
    ids = torch.randint(model.config.vocab_size, (n_rows, n_tokens), generator=generator)
    return ids, torch.randint(n_tokens, (n_rows, 3), generator=generator)


@pytest.mark.parametrize("kind", MAKERS)
def test_logits_equal_those_of_transformers(kind: str, tmp_path: Path) -> None:
    model = model_of(kind, tmp_path)
    packed = Forward(model)
    assert (packed.kernels, packed.dtype) == ("packed", "float32")
    for n_tokens in (9, 190 if kind == "long" else 31):
        ids, positions = draw_inputs(model, n_tokens=n_tokens)
        with torch.inference_mode():
            exact = compute_logits(model, ids, positions=positions)
        logits = packed.logits(ids, positions=positions)
        assert exact.std() > 0.2
        torch.testing.assert_close(logits, exact, rtol=0, atol=5e-5)
        rounded = Forward(model, dtype="bfloat16").logits(ids, positions=positions)
        assert 0 < float((rounded - exact).abs().max()) < 0.1 * float(exact.std()) + 0.1


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_dropout_equals_transformers_with_the_same_masks(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(kind, tmp_path)
    ids, _ = draw_inputs(model, n_tokens=10)
    all_positions = torch.arange(10).expand(len(ids), -1)
    generator = np.random.SFC64(99)

    def masked(
        x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Any:
        if not training:
            return x
        share = round(p * 65536) / 65536
        words = generator.random_raw(-(-x.numel() // 4)).view(np.int16)[: x.numel()]
        is_kept = torch.from_numpy(words >= 65536 * share - 32768).view(x.shape)
        return x * is_kept / (1 - share)

    logits = Forward(model).logits(ids, positions=all_positions, dropout=99)
    model.set_attn_implementation("eager")
    model.train()
    with monkeypatch.context() as patch, torch.inference_mode():
        patch.setattr(torch.nn.functional, "dropout", masked)
        slow = compute_logits(model, ids, positions=all_positions)
    model.eval()
    torch.testing.assert_close(logits, slow, rtol=0, atol=5e-5)
    without = Forward(model).logits(ids, positions=all_positions)
    assert (logits - without).abs().max() > 0.05


def test_a_seed_gives_the_same_masks_to_models_of_one_shape(tmp_path: Path) -> None:
    first_model, second_model = (
        load_model(make_bert(tmp_path / n, dropout=0.5)).model for n in ("a", "b")
    )
    ids, positions = draw_inputs(first_model, n_tokens=12)

    def compute_bytes(model: Any, seed: int) -> bytes:
        return Forward(model).logits(ids, positions=positions, dropout=seed).numpy().tobytes()

    assert (
        compute_bytes(first_model, 1)
        == compute_bytes(second_model, 1)
        != compute_bytes(first_model, 2)
    )


def test_a_model_that_is_not_known_is_asked_as_it_is() -> None:
    model = TableModel(compatible_table(), slots=(1, 2))
    plain = Forward(model)
    ids, positions = torch.tensor([SIDE_BY_SIDE]), torch.tensor([[1, 2]])
    assert plain.kernels == "plain"
    assert torch.equal(
        plain.logits(ids, positions=positions), compute_logits(model, ids, positions=positions)
    )


@pytest.mark.parametrize(
    ("asked_for", "has_it", "limits", "choice"),
    [
        ("auto", True, {}, ("bfloat16", "packed")),
        ("auto", False, {}, ("float32", "packed")),
        ("auto", True, {"MAX_TOTAL_VARIATION": 0.0}, ("float32", "packed")),
        ("auto", True, {"MAX_SHARE_MOVED": 0.0}, ("float32", "packed")),
        ("float32", True, {}, ("float32", "packed")),
        ("float32", True, {"MAX_KERNEL_VARIATION": -1.0}, ("float32", "plain")),
        ("bfloat16", False, {}, ("bfloat16", "packed")),
        ("bfloat16", True, {"MAX_TOTAL_VARIATION": 0.0}, None),
    ],
)
def test_the_fastest_way_is_taken_that_says_what_the_models_say(
    asked_for: str,
    has_it: bool,
    limits: dict[str, float],
    choice: tuple[str, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded_models = [load_model(make_bert(tmp_path / str(n), seed=n, scale=0.2)) for n in (0, 1)]
    monkeypatch.setattr(forward, "multiplies_bfloat16", lambda: has_it)
    for name, value in limits.items():
        monkeypatch.setattr(forward, name, value)

    def chosen() -> list[Forward]:
        models, names = [loaded.model for loaded in loaded_models], ["first", "second"]
        return build_forwards(
            models, tokenizer=loaded_models[0].tokenizer, dtype=asked_for, names=names
        )

    if choice is None:
        with pytest.raises(AuditError, match=r"(first|second).*bfloat16 moves.*Run in float32"):
            chosen()
    else:
        assert [(forward_pass.dtype, forward_pass.kernels) for forward_pass in chosen()] == [
            choice,
            choice,
        ]


def test_kernels_of_long_rows_are_tried_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load_model(MAKERS["long"](tmp_path / "long"))

    def kernels() -> str:
        (forward_pass,) = build_forwards(
            [loaded.model], tokenizer=loaded.tokenizer, dtype="float32", names=[""]
        )
        return forward_pass.kernels

    assert kernels() == "packed"
    attention = forward.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        forward.functional,
        "scaled_dot_product_attention",
        lambda query, *rest, **more: attention(query * 2, *rest, **more),
    )
    monkeypatch.setattr(loaded.model.config, "_attn_implementation", "eager")
    assert kernels() == "plain"


@pytest.mark.parametrize("kind", ["bert", "long", "roberta", "distilbert"])
def test_hidden_states_beside_padding_equal_those_of_transformers(
    kind: str, tmp_path: Path
) -> None:
    model = model_of(kind, tmp_path)
    padding = model.config.pad_token_id
    for n_tokens in (30, 190 if kind == "long" else 12):
        ids, _ = draw_inputs(model, n_tokens=n_tokens)
        ids[ids == padding] += 1
        n_text = torch.arange(2, n_tokens + 1, max(1, n_tokens // 7))[: len(ids)]
        is_text = torch.arange(n_tokens) < n_text[:, None]
        ids[~is_text] = padding
        with torch.inference_mode():
            exact = model.base_model(input_ids=ids, attention_mask=is_text.long())
            hidden = Encoder(model).hidden(ids, is_text=is_text)
        torch.testing.assert_close(
            hidden[is_text], exact.last_hidden_state[is_text], rtol=0, atol=5e-5
        )
        first = torch.tensor([[0, 1]]).expand(len(ids), -1)
        few = Encoder(model).hidden(ids, is_text=is_text, positions=first)
        torch.testing.assert_close(few, exact.last_hidden_state[:, :2], rtol=0, atol=5e-5)


@pytest.mark.long
def test_bfloat16_is_computed_on_a_processor_for_which_onednn_packs_none(tmp_path: Path) -> None:
    make_bert(tmp_path / "model", scale=0.2)
    program = (
        "import sys; from pathlib import Path; from audit.models.forward import build_forwards; "
        "from audit.models.load import load_model; one = load_model(Path(sys.argv[1])); "
        "(found,) = build_forwards([one.model], tokenizer=one.tokenizer, dtype='bfloat16', "
        "names=['']); print(found.dtype)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "model")],
        capture_output=True,
        text=True,
        env=os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2"},
        check=False,
    )
    assert (run.returncode, run.stdout.strip()) == (0, "bfloat16"), run.stderr[-2000:]


def test_bfloat16_is_not_taken_where_rounding_would_hide_what_tells_the_models_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forward, "multiplies_bfloat16", lambda: True)
    first_loaded, second_loaded = (
        load_model(make_bert(tmp_path / name, scale=0.2)) for name in ("a", "b")
    )

    def chosen(dtype: str) -> list[str]:
        models = [first_loaded.model, second_loaded.model]
        passes = build_forwards(
            models, tokenizer=first_loaded.tokenizer, dtype=dtype, names=["a", "b"]
        )
        return [forward_pass.dtype for forward_pass in passes]

    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in second_loaded.model.parameters():
            weight.mul_(1 + 1e-3 * torch.randn(weight.shape, generator=generator))
    assert chosen("auto") == ["float32", "float32"]
    with pytest.raises(AuditError, match="bfloat16 moves"):
        chosen("bfloat16")
    with torch.no_grad():
        for weight in second_loaded.model.parameters():
            weight.mul_(1 + torch.randn(weight.shape, generator=generator))
    assert chosen("auto") == ["bfloat16", "bfloat16"]


@pytest.mark.parametrize("kind", ["bert", "tanh", "relu", "roberta", "distilbert"])
def test_rows_asked_step_by_step_are_told_what_they_are_told_at_once(
    kind: str, tmp_path: Path
) -> None:
    packed = Forward(model_of(kind, tmp_path))
    rng = np.random.default_rng(0)
    ids = torch.from_numpy(rng.integers(5, packed.n_vocabulary, (6, 12)))
    stepwise = packed.stepwise(ids)
    for n_rows in (6, 3, 1, 5):
        rows = torch.from_numpy(rng.permutation(6)[:n_rows])
        changed = torch.from_numpy(rng.integers(0, 12, (n_rows, 2)))
        ids[rows[:, None], changed] = torch.from_numpy(
            rng.integers(0, packed.n_vocabulary, (n_rows, 2))
        )
        positions = torch.from_numpy(rng.integers(0, 12, (n_rows, 3)))
        logits = stepwise.logits(rows, changed=changed, positions=positions)
        torch.testing.assert_close(
            logits, packed.logits(ids[rows], positions=positions), atol=1e-5, rtol=0
        )
