"""Compute the logits of a masked language model at chosen positions, and choose the kernels.

`compute_logits` runs transformers' own module in float32; it is the reference. `Forward` computes
the same faster: it packs the weights for the processor once, uses one product for queries, keys and
values, evaluates the last layer only at the chosen positions, has no padding, and makes dropout
masks out of 16-bit integers. Legend: B rows, L tokens of a row, M chosen positions of a row,
H width, h heads, d = H / h, V vocabulary.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from audit.errors import AuditError
from audit.models.library import Tokenizer

_HEADS = (
    ("cls",),  # BERT, Megatron-BERT, BigBird, DeBERTa
    ("lm_head",),  # RoBERTa, Longformer
    ("predictions",),  # ALBERT
    ("generator_predictions", "generator_lm_head"),  # ELECTRA
    ("head", "decoder"),  # ModernBERT
    ("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),  # DistilBERT
)
"""The modules of the masked-LM head in the order in which they run, by architecture."""


def compute_logits(model: nn.Module, ids: Tensor, *, positions: Tensor) -> Tensor:
    """Return logits [B, M, V] at `positions` [B, M] of `ids` [B, L], rows without padding."""
    hidden = find_body(model)(input_ids=ids).last_hidden_state  # [B, L, H]
    rows = torch.arange(ids.shape[0], device=ids.device).unsqueeze(dim=1)  # [B, 1]
    return compute_head_logits(model, hidden[rows, positions])  # [B, M, H]


def compute_head_logits(model: nn.Module, hidden: Tensor) -> Tensor:
    """Return the logits [..., V] that the masked-LM head gives for hidden states [..., H]."""
    for names in _HEADS:
        if all(hasattr(model, name) for name in names):
            for name in names:
                hidden = getattr(model, name)(hidden)
            return hidden
    raise TypeError("this module has no known head")


class Forward:
    """A masked language model that computes logits, fast if its architecture is supported.

    `kernels` names the arithmetic: "packed", or "plain" for transformers' own, which is used for
    models of other architectures.

    Parameters
    ----------
    model
        As transformers builds it, in float32 and on its device; its weights stay as they are.
    dtype
        Number type of the pass: "float32" or "bfloat16".
    is_plain
        Whether to use transformers' own arithmetic in any case.
    """

    def __init__(self, model: nn.Module, *, dtype: str = "float32", is_plain: bool = False) -> None:
        config, self.dtype = getattr(model, "config", None), dtype
        self.device = next(model.parameters()).device
        self.n_vocabulary = int(getattr(config, "vocab_size", 0))
        self.n_positions = int(getattr(config, "max_position_embeddings", 0))
        self.kernels = "packed" if is_supported(model) and not is_plain else "plain"
        number_type = getattr(torch, dtype)
        self._kernels: _Packed | _Plain
        if self.kernels == "packed":
            self._kernels = _Packed(model, number_type)
        else:
            is_same = number_type == torch.float32
            self._kernels = _Plain(model if is_same else copy.deepcopy(model).to(number_type))

    def logits(self, ids: Tensor, *, positions: Tensor, dropout: int | None = None) -> Tensor:
        """Return logits [B, M, V] at `positions` [B, M] of `ids` [B, L], rows without padding.

        `dropout` is the seed of the dropout masks, which models of one shape share; None means
        evaluation mode.
        """
        with torch.inference_mode():
            return self._kernels.logits(ids, positions, dropout)

    def stepwise(self, ids: Tensor) -> Stepwise:
        """Return a `Stepwise` for rows `ids` [B, L] in which few tokens change between passes."""
        with torch.inference_mode():
            return Stepwise(self._kernels, ids)


class Stepwise:
    """Rows without padding whose tokens change in place, evaluated without dropout.

    The first layer's queries, keys and values of a token depend only on the token and its place.
    They are stored, so that a step computes them only for changed tokens. In a model of two layers
    this saves a fifth of the operations.
    """

    def __init__(self, kernels: _Packed | _Plain, ids: Tensor) -> None:
        self._kernels, self._ids = kernels, ids
        self._first: tuple[Tensor, Tensor] | None = None  # [B, L, H], [B, L, 3 H]
        if isinstance(kernels, _Packed) and kernels.encoder.can_start_first_layer:
            self._first = kernels.encoder.start_first_layer(
                ids, torch.arange(ids.shape[1], device=ids.device)
            )

    def logits(self, rows: Tensor, *, changed: Tensor, positions: Tensor) -> Tensor:
        """Return logits [n, M, V] at `positions` [n, M] of n rows.

        `changed` [n, c] are the places whose tokens may have changed since the last call.
        """
        kernels, first = self._kernels, self._first
        with torch.inference_mode():
            if first is None or isinstance(kernels, _Plain):
                return kernels.logits(self._ids[rows], positions, None)
            places = rows.unsqueeze(dim=1), changed
            x, projected = first
            x[places], projected[places] = kernels.encoder.start_first_layer(
                self._ids[places], changed
            )
            return kernels.head(kernels.encoder.finish_layers(x[rows], projected[rows], positions))


class _Plain:
    """Transformers' own module."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model

    def logits(self, ids: Tensor, positions: Tensor, dropout: int | None) -> Tensor:
        self._model.train(mode=dropout is not None)
        try:
            if dropout is not None:
                torch.manual_seed(dropout)
            return compute_logits(self._model, ids, positions=positions)
        finally:
            self._model.eval()


_BERT_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "inner": "intermediate.dense",
    "outer": "output.dense",
    "norm": "output.LayerNorm",
}
_BERT_SETTINGS = (
    "num_attention_heads",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)


class PackedKind(NamedTuple):
    """Names of a kind of model in transformers."""

    layers: str
    layer: Mapping[str, str]
    """The modules of a layer."""
    settings: tuple[str, str, str, str]
    """Number of heads, activation, dropout of hidden states, dropout of attention."""
    drops_out: bool
    """Whether the output of attention has dropout."""
    head: tuple[str, str, str]
    """The modules of the head: dense, norm, decoder."""


PACKED_KINDS: dict[str, PackedKind] = {
    "bert": PackedKind(
        "encoder.layer",
        _BERT_LAYER,
        _BERT_SETTINGS,
        drops_out=True,
        head=(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.decoder",
        ),
    ),
    "roberta": PackedKind(
        "encoder.layer",
        _BERT_LAYER,
        _BERT_SETTINGS,
        drops_out=True,
        head=("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder"),
    ),
    "distilbert": PackedKind(
        "transformer.layer",
        {
            "query": "attention.q_lin",
            "key": "attention.k_lin",
            "value": "attention.v_lin",
            "out": "attention.out_lin",
            "attention_norm": "sa_layer_norm",
            "inner": "ffn.lin1",
            "outer": "ffn.lin2",
            "norm": "output_layer_norm",
        },
        ("n_heads", "activation", "dropout", "attention_dropout"),
        drops_out=False,
        head=("vocab_transform", "vocab_layer_norm", "vocab_projector"),
    ),
}
"""Names of the modules and settings that transformers uses, by kind of model."""


def is_supported(model: nn.Module) -> bool:
    """Whether `Encoder` supports the body of a model."""
    return getattr(getattr(model, "config", None), "model_type", "") in PACKED_KINDS


def read_settings(model: nn.Module) -> PreTrainedConfig:
    """Return the settings of a model of transformers."""
    assert isinstance(model.config, PreTrainedConfig)
    return model.config


def find_body(model: nn.Module) -> nn.Module:
    """Return a model of transformers without its head."""
    assert isinstance(model.base_model, nn.Module)
    return model.base_model


def collect_layers(model: nn.Module) -> list[dict[str, nn.Module]]:
    """Return the linear and norm modules of each layer, by their names in `PACKED_KINDS`."""
    kind = PACKED_KINDS[read_settings(model).model_type]
    return [
        {part: layer.get_submodule(name) for part, name in kind.layer.items()}
        for layer in find_body(model).get_submodule(kind.layers).children()
    ]


_LONGEST_MATMUL = 128
"""Up to this many tokens in a row, attention on a CPU is two plain products: the fused kernel is no
faster there, and memory is not a concern."""
_HAS_ONEDNN: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
_Map = Callable[[Tensor], Tensor]


class Encoder:
    """The layers of a BERT, RoBERTa or DistilBERT, with weights prepared for the device once.

    Parameters
    ----------
    model
        A model with such a body, in float32, with any head.
    dtype
        Number type of the pass.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        config, body = read_settings(model), find_body(model)
        kind = PACKED_KINDS[config.model_type]
        self._n_heads, act, self._rate, self._attention_rate = (
            getattr(config, name) for name in kind.settings
        )
        self._out_rate = self._rate if kind.drops_out else 0.0
        self._layers = [
            _Layer(parts, activation=act, n_heads=self._n_heads, dtype=dtype)
            for parts in collect_layers(model)
        ]
        tables = body.get_submodule("embeddings")
        self._words = _convert(tables.get_parameter("word_embeddings.weight"), dtype)
        places: Tensor = tables.get_parameter("position_embeddings.weight")
        if hasattr(tables, "token_type_embeddings"):
            places = places + tables.get_parameter("token_type_embeddings.weight")[0]
        self._places = _convert(places, dtype)
        # RoBERTa numbers the tokens that are not padding, starting after the padding id.
        self._padding = config.pad_token_id if config.model_type == "roberta" else None
        self._norm = _make_norm(tables.get_submodule("LayerNorm"), dtype)

    def hidden(
        self,
        ids: Tensor,
        *,
        positions: Tensor | None = None,
        is_text: Tensor | None = None,
        dropout: int | None = None,
    ) -> Tensor:
        """Return the last layer's output [B, M, H] at `positions` [B, M] of `ids` [B, L].

        `positions` None means all positions. `is_text` [B, L] excludes padding from attention.
        `dropout` is the seed of the masks; None means evaluation mode.
        """
        masks = _Masks(dropout, device=ids.device)
        attention_mask = None if is_text is None else is_text[:, None, None, :]  # [B, 1, 1, L]
        x = self._embed(ids, self._number_places(ids))
        x = x.mul_(masks.drop_in_place(x, rate=self._rate))
        return self._run_layers(x, None, positions, masks, attention_mask)

    @property
    def can_start_first_layer(self) -> bool:
        """Whether the first layer's queries, keys and values depend only on token and place."""
        return self._padding is None and len(self._layers) > 1

    def start_first_layer(self, ids: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Return the embeddings [B, n, H] of tokens [B, n], and their projections [B, n, 3 H].

        The projections are the queries, keys and values of the first layer.
        """
        x = self._embed(ids, places)
        return x, self._layers[0].qkv(x.flatten(end_dim=1)).view(*ids.shape, -1)

    def _embed(self, ids: Tensor, places: Tensor) -> Tensor:
        return self._norm(self._words[ids] + self._places[places])

    def finish_layers(self, x: Tensor, projected: Tensor, positions: Tensor) -> Tensor:
        """Return the same as `hidden`, from the `start_first_layer` output of all tokens."""
        return self._run_layers(x, projected, positions, _Masks(None, device=x.device), None)

    def _run_layers(
        self,
        x: Tensor,
        projected: Tensor | None,
        positions: Tensor | None,
        masks: _Masks,
        attention_mask: Tensor | None,
    ) -> Tensor:
        n_rows, n_tokens, width = x.shape
        chosen_rows = None
        if positions is not None:
            start = torch.arange(n_rows, device=x.device).unsqueeze(dim=1) * n_tokens  # [B, 1]
            chosen_rows = (start + positions).flatten()  # [B M]
        x = x.flatten(end_dim=1)  # [B L, H]
        *lower_layers, last = self._layers
        for layer in lower_layers:
            x = self._run_layer(layer, x, n_rows, masks, attention_mask, projected=projected)
            projected = None
        return self._run_layer(
            last, x, n_rows, masks, attention_mask, chosen_rows=chosen_rows
        ).view(n_rows, -1, width)

    def _number_places(self, ids: Tensor) -> Tensor:
        if self._padding is None:
            return torch.arange(ids.shape[1], device=ids.device)
        is_text = ids != self._padding
        places: Tensor = is_text.cumsum(dim=1) * is_text + self._padding
        return places

    def _run_layer(
        self,
        layer: _Layer,
        x: Tensor,
        n_rows: int,
        masks: _Masks,
        attention_mask: Tensor | None,
        *,
        chosen_rows: Tensor | None = None,
        projected: Tensor | None = None,
    ) -> Tensor:
        """Return a layer's output [B L, H], or only its rows `chosen_rows` [B M, H] if given."""
        if chosen_rows is None:
            qkv = layer.qkv(x) if projected is None else projected.flatten(end_dim=1)
            context = self._attend(qkv, n_rows, masks, attention_mask)
        else:
            tokens, x = x.view(n_rows, -1, x.shape[1]), x[chosen_rows]
            context = self._attend_from_chosen(
                layer.chosen_attention, x, tokens, masks, attention_mask
            )
        x = layer.attention_norm(masks.add_dropped(x, layer.out(context), rate=self._out_rate))
        return layer.norm(masks.add_dropped(x, layer.outer(layer.inner(x)), rate=self._rate))

    def _attend(
        self, projected: Tensor, n_rows: int, masks: _Masks, attention_mask: Tensor | None
    ) -> Tensor:
        """Return the attention [B L, H] from the projections [B L, 3 H]: queries, keys, values.

        Tokens attend to those where `attention_mask` [B, 1, 1, L] is true; None means all.
        """
        width = projected.shape[1] // 3
        parts = projected.view(n_rows, -1, 3, self._n_heads, width // self._n_heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # [B, h, L, d] each
        is_dropped = masks.are_on and self._attention_rate > 0
        if not is_dropped and (query.is_cuda or key.shape[2] > _LONGEST_MATMUL):
            context = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=attention_mask
            )
        else:
            scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)  # [B, h, L, L]
            if attention_mask is not None:
                scores.masked_fill_(~attention_mask, float("-inf"))
            shares = torch.softmax(scores, dim=-1)
            scale = masks.drop_in_place(shares, rate=self._attention_rate)
            context = shares @ (value if scale == 1 else value * scale)
        return context.transpose(1, 2).reshape(-1, width)

    def _attend_from_chosen(
        self,
        matrices: _ChosenAttention,
        x: Tensor,
        tokens: Tensor,
        masks: _Masks,
        attention_mask: Tensor | None,
    ) -> Tensor:
        """Return the attention [B M, H] of chosen tokens x [B M, H] to all `tokens` [B, L, H].

        For a few queries, it costs less to multiply them by the matrix of keys than to compute the
        keys of all tokens; likewise, tokens are averaged before the matrix of values is applied.
        The bias of the keys adds the same number to all scores of a query, so it is left out.
        """
        (n, width), n_rows, h = x.shape, len(tokens), self._n_heads
        query = matrices.query(x).view(n, h, -1).transpose(0, 1)  # [h, B M, d]
        query = (query @ matrices.key).view(h, n_rows, -1, width).transpose(0, 1)  # [B, h, M, H]
        scores = query.flatten(1, 2) @ tokens.transpose(1, 2)  # [B, h M, L]
        if attention_mask is not None:
            scores.masked_fill_(~attention_mask[:, 0], float("-inf"))
        shares = torch.softmax(scores, dim=-1)
        scale = masks.drop_in_place(shares, rate=self._attention_rate)

        def group_by_head(scores_or_shares: Tensor) -> Tensor:  # [B, h M, ...] -> [h, B M, ...]
            return (
                scores_or_shares.view(n_rows, h, n // n_rows, -1).transpose(0, 1).reshape(h, n, -1)
            )

        context = group_by_head(shares @ tokens) @ matrices.value  # [h, B M, d]
        context = context + group_by_head(shares.sum(dim=-1)) * matrices.value_bias
        return (context if scale == 1 else context * scale).transpose(0, 1).reshape(n, width)


class _Packed:
    """An `Encoder` with its masked-language-model head."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        config = read_settings(model)
        kind = PACKED_KINDS[config.model_type]
        self.encoder = Encoder(model, dtype)
        dense, norm, decoder = (model.get_submodule(name) for name in kind.head)
        # RoBERTa's head has one activation whatever its layers have.
        is_gelu = config.model_type == "roberta"
        act = "gelu" if is_gelu else getattr(config, kind.settings[1])
        self._transform = _make_linear([dense], dtype, activation=act)
        self._norm, self._decode = _make_norm(norm, dtype), _make_linear([decoder], dtype)

    def logits(self, ids: Tensor, positions: Tensor, dropout: int | None) -> Tensor:
        return self.head(self.encoder.hidden(ids, positions=positions, dropout=dropout))

    def head(self, hidden: Tensor) -> Tensor:
        """Return the logits of the head for hidden states."""
        return self._decode(self._norm(self._transform(hidden)))


class _ChosenAttention:
    """A layer's attention for a few chosen tokens: the matrices of keys and values by head."""

    def __init__(self, parts: dict[str, nn.Module], *, n_heads: int, dtype: torch.dtype) -> None:
        weights = {name: parts[name].get_parameter("weight") for name in ("key", "value")}
        width = weights["key"].shape[0]
        d = width // n_heads
        self.query = _make_linear([parts["query"]], dtype)
        key = weights["key"].view(n_heads, d, width) * d**-0.5
        self.key = _convert(key, dtype)  # [h, d, H]
        value = weights["value"].view(n_heads, d, width).transpose(1, 2)
        self.value = _convert(value, dtype).contiguous()  # [h, H, d]
        value_bias = parts["value"].get_parameter("bias")
        self.value_bias = _convert(value_bias.view(n_heads, 1, d), dtype)


class _Layer:
    """The products and norms of one layer; queries, keys and values are one product."""

    def __init__(
        self, parts: dict[str, nn.Module], *, activation: str, n_heads: int, dtype: torch.dtype
    ) -> None:
        self._parts, self._n_heads, self._dtype = parts, n_heads, dtype
        self.out, self.outer = (_make_linear([parts[name]], dtype) for name in ("out", "outer"))
        self.inner = _make_linear([parts["inner"]], dtype, activation=activation)
        self.attention_norm = _make_norm(parts["attention_norm"], dtype)
        self.norm = _make_norm(parts["norm"], dtype)

    @cached_property
    def qkv(self) -> _Map:
        """The product that gives queries, keys and values of all tokens."""
        return _make_linear([self._parts[name] for name in ("query", "key", "value")], self._dtype)

    @cached_property
    def chosen_attention(self) -> _ChosenAttention:
        """The attention of a last layer that is evaluated at a few tokens."""
        return _ChosenAttention(self._parts, n_heads=self._n_heads, dtype=self._dtype)


def _convert(weight: Tensor, dtype: torch.dtype) -> Tensor:
    return weight.detach().to(dtype)


def _make_norm(norm: nn.Module, dtype: torch.dtype) -> _Map:
    assert isinstance(norm, nn.LayerNorm)
    weight, bias = _convert(norm.weight, dtype), _convert(norm.bias, dtype)
    return lambda x: functional.layer_norm(x, weight.shape, weight, bias, norm.eps)


def may_pack(weight: Tensor) -> bool:
    """Whether oneDNN can pack a weight; it packs no bfloat16 on processors with only AVX2."""
    if weight.device.type != "cpu" or not _HAS_ONEDNN:
        return False
    is_half = weight.dtype == torch.bfloat16
    return not is_half or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _make_linear(parts: Sequence[nn.Module], dtype: torch.dtype, *, activation: str = "") -> _Map:
    """Return a function: the product with stacked layers, then the activation; packed on a CPU."""
    weight = _convert(torch.cat([part.get_parameter("weight") for part in parts]), dtype)
    bias = _convert(torch.cat([part.get_parameter("bias") for part in parts]), dtype)
    activate: _Map = ACT2FN[activation] if activation else lambda x: x
    kernels = torch.ops.mkldnn
    if not may_pack(weight):
        return lambda x: activate(functional.linear(x, weight, bias))
    packed = kernels._reorder_linear_weight(weight)
    if activation == "gelu":
        return lambda x: kernels._linear_pointwise(x, packed, bias, "gelu", [], "none")
    return lambda x: activate(kernels._linear_pointwise(x, packed, bias, "none", [], ""))


MaskGenerator = np.random.SFC64 | torch.Generator


def draw_dropout_mask(
    generator: MaskGenerator | None, shape: Sequence[int], dtype: torch.dtype, *, rate: float
) -> tuple[Tensor | None, float]:
    """Draw a dropout mask of ones (kept) and zeros, and return it with the scale of kept numbers.

    The mask is None if everything is kept. Masks are made from 16-bit integers of `generator`,
    which is numpy's on a CPU, and torch's on other devices. The rate is rounded to the nearest
    65,536th, and the scale belongs to the rounded rate. A mask has the type of the tensor that it
    multiplies: comparing into that type and multiplying take a fifth of the time of `masked_fill`
    with booleans.
    """
    n_of_65536, n = round(rate * 2**16), math.prod(shape)
    if not n_of_65536 or generator is None:
        return None, 1.0
    n_words = -(-n // 4)  # of 64 bits
    if isinstance(generator, torch.Generator):
        words = torch.empty(n_words, dtype=torch.int64, device=generator.device)
        bits = words.random_(-(2**63), None, generator=generator).view(torch.int16)
    else:
        bits = torch.from_numpy(generator.random_raw(n_words).view(np.int16))
    mask = torch.empty(shape, dtype=dtype, device=bits.device)
    torch.ge(bits[:n].view(shape), n_of_65536 - 2**15, out=mask)
    return mask, 2**16 / (2**16 - n_of_65536)


class _Masks:
    """A sequence of dropout masks from one seed; with the seed None there is no dropout."""

    def __init__(self, seed: int | None, *, device: torch.device) -> None:
        self.are_on = seed is not None
        self._generator: MaskGenerator | None = None
        if seed is not None and device.type == "cpu":  # some ten times as fast as torch's own
            self._generator = np.random.SFC64(seed)
        elif seed is not None:
            self._generator = torch.Generator(device).manual_seed(seed)

    def drop_in_place(self, x: Tensor, *, rate: float) -> float:
        """Set a share of the numbers to 0 in place, and return the scale for the others."""
        mask, scale = draw_dropout_mask(self._generator, x.shape, x.dtype, rate=rate * self.are_on)
        if mask is not None:
            x.mul_(mask)
        return scale

    def add_dropped(self, x: Tensor, y: Tensor, *, rate: float) -> Tensor:
        """Return x + dropout(y)."""
        scale = self.drop_in_place(y, rate=rate)
        return torch.add(x, y, alpha=scale)


MAX_TOTAL_VARIATION = 0.03
"""Maximum by which bfloat16 may move a model's distributions, as mean total variation. A BERT-base
with random weights moved by 0.011 to 0.012."""
MAX_SHARE_MOVED = 0.05
"""Maximum share of the total variation between the models of a pair by which bfloat16 may move
either model; their difference then moves by at most a tenth. In the demo's pairs the share was
0.008 to 0.014."""
MAX_KERNEL_VARIATION = 1e-5
"""Maximum by which other float32 kernels may move distributions; rounding moves some 1e-7."""


@contextmanager
def use_exact_float32(device: str) -> Iterator[None]:
    """Multiply float32 matrices as fast as this machine can without further rounding.

    This uses oneDNN on AMD CPUs, and PyTorch's default otherwise. PyTorch names the switch "bf16",
    because CPUs with matrix units (AMX) may round products to bfloat16; AMD's have no such units.
    """
    if device != "cpu" or not is_amd():
        yield
        return
    settings = torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
    old_precision = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = old_precision


@contextmanager
def choose_exact_kernels(
    models: Sequence[nn.Module], *, tokenizer: Tokenizer, device: str, dtype: str
) -> Iterator[str]:
    """Choose the kernels of a training for the whole block; yield "onednn" or "default".

    "onednn" is chosen for float32 on AMD processors, if it moves no distribution of these models by
    more than `MAX_KERNEL_VARIATION`; PyTorch's default is chosen otherwise. The choice depends only
    on processor and models, never on a clock, so a resumed run makes the same choice.
    """
    if dtype == "float32" and device == "cpu" and is_amd():
        plain_passes = [Forward(model, is_plain=True) for model in models]
        plain_distributions = [
            _compute_distributions(plain_pass, tokenizer) for plain_pass in plain_passes
        ]
        with use_exact_float32(device):
            fast_distributions = [
                _compute_distributions(plain_pass, tokenizer) for plain_pass in plain_passes
            ]
            if (
                max(map(measure_variation, plain_distributions, fast_distributions))
                <= MAX_KERNEL_VARIATION
            ):
                yield "onednn"
                return
    yield "default"


def build_forwards(
    models: Sequence[nn.Module], *, tokenizer: Tokenizer, dtype: str, names: Sequence[str]
) -> list[Forward]:
    """Build one `Forward` for each model, all with the fastest arithmetic that is accurate enough.

    Each arithmetic is compared with transformers' own float32 of the same models. oneDNN's packed
    products may move a distribution by `MAX_KERNEL_VARIATION`; bfloat16 may move it by
    `MAX_TOTAL_VARIATION` and by `MAX_SHARE_MOVED` of the variation between the models, because
    rounding could otherwise hide a weak leak. "auto" means bfloat16 if the device multiplies it and
    it stays within these limits, else float32. The choice depends only on device and models, never
    on a clock, so a resumed run makes the same choice. Raises `AuditError` with the model's name if
    "bfloat16" is requested and exceeds the limits.
    """
    exact = [_compute_distributions(Forward(model, is_plain=True), tokenizer) for model in models]
    device = next(models[0].parameters()).device
    apart = min((measure_variation(p, q) for p, q in pairwise(exact)), default=math.inf)
    rounded = min(MAX_TOTAL_VARIATION, MAX_SHARE_MOVED * apart)
    tries = [("bfloat16", rounded), ("float32", MAX_KERNEL_VARIATION)]
    if pick_precision(dtype, device=device.type, is_cpu_asked=True) == "float32":
        del tries[0]
    for number_type, max_variation in tries:
        passes = [Forward(model, dtype=number_type) for model in models]
        variations = [
            measure_variation(p, _compute_distributions(f, tokenizer))
            for p, f in zip(exact, passes, strict=True)
        ]
        if all(share <= max_variation for share in variations):
            return passes
        if dtype == "bfloat16":
            worst = int(np.argmax(variations))
            raise make_rounding_error(variations[worst], most=max_variation, name=names[worst])
    return [Forward(model, is_plain=True) for model in models]


def make_rounding_error(moved: float, *, most: float, name: str) -> AuditError:
    """Return the error for a model whose distributions bfloat16 moves too far."""
    return AuditError(
        "bfloat16 moves this model's distributions by {moved:.3f} (total variation); at most "
        "{max_total_variation} is accepted.",
        where=name,
        do="Run in float32.",
        moved=moved,
        max_total_variation=f"{most:.2g}",
    )


_FAST_BFLOAT16 = re.compile(r"^flags.*\b(?:avx512_bf16|amx_bf16)\b", re.MULTILINE)
_CPU_FACTS = Path("/proc/cpuinfo")


def pick_precision(dtype: str, *, device: str, is_cpu_asked: bool = False) -> str:
    """Return the number type; "auto" means bfloat16 on a GPU that supports it, else float32.

    With `is_cpu_asked`, "auto" also means bfloat16 on a CPU with instructions for it.
    """
    if dtype != "auto":
        return dtype
    if device.startswith("cuda"):
        has_it = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        has_it = is_cpu_asked and multiplies_bfloat16()
    return "bfloat16" if has_it else "float32"


def multiplies_bfloat16(facts: Path = _CPU_FACTS) -> bool:
    """Whether this processor has instructions for bfloat16."""
    return bool(_FAST_BFLOAT16.search(read_processor_facts(facts)))


def read_processor_facts(source: Path = _CPU_FACTS) -> str:
    """Return Linux's description of its processors; "" if there is none."""
    with suppress(OSError):
        return source.read_text(encoding="utf-8", errors="replace")
    return ""


_TRIED = ((4, 16), (1, _LONGEST_MATMUL + 16))
"""Rows and tokens of trial inputs; the longer row uses another attention kernel."""


def _compute_distributions(forward: Forward, tokenizer: Tokenizer) -> Tensor:
    """Return distributions [n, V] at masks among the first tokens of the vocabulary."""
    special, mask = set(tokenizer.all_special_ids), tokenizer.mask_token_id
    plain = [i for i in range(len(tokenizer)) if i not in special][:32] or [0]
    distributions = list[Tensor]()
    for n_rows, n_tokens in _TRIED:
        if (
            not distributions or n_tokens + 2 <= forward.n_positions
        ):  # RoBERTa's begin with the third
            rows = [
                [mask if k % 2 else plain[(row + k) % len(plain)] for k in range(n_tokens)]
                for row in range(n_rows)
            ]
            ids = torch.tensor(rows, device=forward.device)
            positions = torch.arange(1, n_tokens, n_tokens // 8, device=ids.device)
            logits = forward.logits(ids, positions=positions.expand(n_rows, -1))
            distributions.append(torch.softmax(logits.float(), dim=-1).flatten(end_dim=1))
    return torch.cat(distributions)


def measure_variation(p: Tensor, q: Tensor) -> float:
    """Return the mean total variation between distributions p and q [..., V]."""
    return float((p - q).abs().sum(dim=-1).mean() / 2)


def is_amd() -> bool:
    """Return whether AMD made the processor."""
    return "AuthenticAMD" in read_processor_facts()
