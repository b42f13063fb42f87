"""Compute logits at chosen positions with gradients: the forward pass of a training.

The result is that of `compute_logits`, with less work: the last layer is evaluated only at the
chosen positions, queries, keys and values are one product, and on a CPU attention uses plain
products and dropout masks out of 16-bit integers. Legend: B rows, L tokens of a row, M chosen
positions of a row, Q queries of a row (L, or M in the last layer), H width, h heads, d = H / h,
V vocabulary.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional
from transformers.activations import ACT2FN

from audit.models.forward import (
    PACKED_KINDS,
    MaskGenerator,
    collect_layers,
    compute_head_logits,
    draw_dropout_mask,
    find_body,
    is_supported,
    read_settings,
)


class LearningPass:
    """The forward pass of a model in training; its parameters are read anew at each call.

    Parameters
    ----------
    model
        As transformers builds it, in float32; `supports` must accept it.
    dtype
        Number type of the products. The sums from layer to layer stay float32.
    """

    def __init__(self, model: nn.Module, *, dtype: torch.dtype = torch.float32) -> None:
        config = read_settings(model)
        kind = PACKED_KINDS[config.model_type]
        self._n_heads, activation, self._rate, self._attention_rate = (
            getattr(config, name) for name in kind.settings
        )
        self._out_rate = self._rate if kind.drops_out else 0.0
        self._activation, self._dtype, self._model = ACT2FN[activation], dtype, model
        self._layers = collect_layers(model)

    @staticmethod
    def supports(model: nn.Module) -> bool:
        """Whether a model is one of transformers' own with unchanged layers.

        An adapter replaces modules by its own. Gradient checkpointing, which saves memory by
        computing twice, works inside the layers' own forward, which is not used here.
        """
        is_saving = any(
            getattr(module, "gradient_checkpointing", False) for module in model.modules()
        )
        is_own = is_supported(model) and type(model).__name__.endswith("ForMaskedLM")
        if not is_own or is_saving:
            return False
        parts = [part for layer in collect_layers(model) for part in layer.values()]
        return all(type(part) in (nn.Linear, nn.LayerNorm) for part in parts)

    def logits(self, ids: Tensor, *, positions: Tensor) -> Tensor:
        """Return logits [B, M, V] at `positions` [B, M] of `ids` [B, L], rows without padding.

        Dropout is on while the model is in training mode; its masks follow torch's own seed.
        """
        embeddings = find_body(self._model).get_submodule("embeddings")
        n_rows, n_tokens = ids.shape
        masks = _Masks(is_on=self._model.training, device=ids.device)
        start = torch.arange(n_rows, device=ids.device).unsqueeze(dim=1) * n_tokens  # [B, 1]
        chosen_rows = (start + positions).flatten()  # [B M]
        embeddings.get_submodule("dropout").eval()  # it is done here
        x = masks.drop(embeddings(ids).flatten(end_dim=1), rate=self._rate)  # [B L, H]
        *lower_layers, last = self._layers
        for layer in lower_layers:
            x = self._run_layer(layer, x, n_rows, masks)
        x = self._run_layer(last, x, n_rows, masks, chosen_rows=chosen_rows)  # [B M, H]
        is_rounded = self._dtype == torch.bfloat16
        with torch.autocast(ids.device.type, dtype=torch.bfloat16, enabled=is_rounded):
            return compute_head_logits(self._model, x.view(n_rows, positions.shape[1], -1))

    def _run_layer(
        self,
        layer: dict[str, nn.Module],
        x: Tensor,
        n_rows: int,
        masks: _Masks,
        chosen_rows: Tensor | None = None,
    ) -> Tensor:
        """Return a layer's output [B L, H], or only its rows `chosen_rows` [B M, H] if given."""
        rounded = x.to(self._dtype)
        if chosen_rows is None:
            names = ("query", "key", "value")
            query, key, value = self._heads(self._linear(rounded, layer, *names), n_rows, 3)
        else:
            key, value = self._heads(self._linear(rounded, layer, "key", "value"), n_rows, 2)
            x, rounded = x.index_select(0, chosen_rows), rounded.index_select(0, chosen_rows)
            (query,) = self._heads(self._linear(rounded, layer, "query"), n_rows, 1)
        context = masks.attend(query, key, value, rate=self._attention_rate)
        context = context.transpose(1, 2).reshape(x.shape)
        out = self._linear(context, layer, "out")
        x = layer["attention_norm"](masks.add_dropped(x, out, rate=self._out_rate))
        inner = self._activation(self._linear(x.to(self._dtype), layer, "inner"))
        outer = self._linear(inner, layer, "outer")
        hidden: Tensor = layer["norm"](masks.add_dropped(x, outer, rate=self._rate))
        return hidden

    def _linear(self, x: Tensor, layer: dict[str, nn.Module], *names: str) -> Tensor:
        """Return the product with one of a layer's matrices, or with several side by side."""
        weights = [layer[name].get_parameter("weight").to(self._dtype) for name in names]
        biases = [layer[name].get_parameter("bias").to(self._dtype) for name in names]
        if len(names) == 1:
            return functional.linear(x, weights[0], biases[0])
        return functional.linear(x, torch.cat(weights), torch.cat(biases))

    def _heads(self, x: Tensor, n_rows: int, n: int) -> tuple[Tensor, ...]:
        """Cut n projections [B L, n H] into heads [B, h, L, d] each."""
        parts = x.view(n_rows, -1, n, self._n_heads, x.shape[1] // (n * self._n_heads))
        return parts.permute(2, 0, 3, 1, 4).contiguous().unbind(dim=0)


class _Masks:
    """Dropout of one pass, if it is on; on a CPU the masks come from `draw_dropout_mask`."""

    def __init__(self, *, is_on: bool, device: torch.device) -> None:
        self._is_on, self._is_own = is_on, device.type == "cpu"
        self._generator: MaskGenerator | None = None
        if is_on and self._is_own:  # some ten times as fast as torch's own
            self._generator = np.random.SFC64(int(torch.randint(2**63 - 1, ())))

    def drop(self, x: Tensor, *, rate: float) -> Tensor:
        """Return dropout of x."""
        if not self._is_own:
            return functional.dropout(x, rate, training=self._is_on)
        mask, scale = self._mask(x.shape, x.dtype, rate=rate)
        return x if mask is None else x * mask.mul_(scale)

    def add_dropped(self, x: Tensor, y: Tensor, *, rate: float) -> Tensor:
        """Return x + dropout(y); y is changed in place."""
        if not self._is_own:
            return x + functional.dropout(y, rate, training=self._is_on)
        mask, scale = self._mask(y.shape, y.dtype, rate=rate)
        if mask is None:
            return x + y
        added: Tensor = _Added.apply(x, y, mask, scale)  # type: ignore[no-untyped-call]
        return added

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, rate: float) -> Tensor:
        """Return the attention of queries [B, h, Q, d] to keys and values [B, h, L, d]."""
        if not self._is_own:
            rate = rate if self._is_on else 0.0
            return functional.scaled_dot_product_attention(query, key, value, dropout_p=rate)
        shape = (*query.shape[:-1], key.shape[-2])
        mask, scale = self._mask(shape, query.dtype, rate=rate)
        context: Tensor = _Attention.apply(query, key, value, mask, scale)  # type: ignore[no-untyped-call]
        return context

    def _mask(
        self, shape: tuple[int, ...], dtype: torch.dtype, *, rate: float
    ) -> tuple[Tensor | None, float]:
        return draw_dropout_mask(self._generator, shape, dtype, rate=rate * self._is_on)


class _AddedContext(Protocol):
    scale: float
    saved_tensors: tuple[Tensor]

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _AttentionContext(Protocol):
    scale: float
    sharpness: float
    saved_tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...


class _Added(torch.autograd.Function):
    """x + scale * mask * y, saving only the mask for the gradient; y is changed in place."""

    @staticmethod
    def forward(ctx: _AddedContext, x: Tensor, y: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return torch.add(x, y.mul_(mask), alpha=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: _AddedContext, grad: Tensor) -> tuple[Tensor | None, ...]:
        (mask,) = ctx.saved_tensors
        return grad, torch.mul(grad, ctx.scale).to(mask.dtype).mul_(mask), None, None


class _Attention(torch.autograd.Function):
    """softmax(query key^T / sqrt(d)) * mask * scale @ value, in as few passes as possible."""

    @staticmethod
    def forward(
        ctx: _AttentionContext,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        scale: float,
    ) -> Tensor:
        ctx.scale, ctx.sharpness = scale, query.shape[-1] ** -0.5
        scores = _multiply(query, key.transpose(-1, -2), scale=ctx.sharpness)  # [B, h, Q, L]
        shares = torch.softmax(scores, dim=-1)
        ctx.save_for_backward(query, key, value, shares, mask)
        return _multiply(shares if mask is None else shares * mask, value, scale=scale)

    @staticmethod
    @once_differentiable
    def backward(ctx: _AttentionContext, grad: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, shares, mask = ctx.saved_tensors
        masked_shares = shares if mask is None else shares * mask
        value_grad = _multiply(masked_shares.transpose(-1, -2), grad, scale=ctx.scale)
        shares_grad = _multiply(grad, value.transpose(-1, -2), scale=ctx.scale)
        if mask is not None:
            shares_grad.mul_(mask)
        scores_grad = torch._softmax_backward_data(shares_grad, shares, -1, shares.dtype)
        query_grad = _multiply(scores_grad, key, scale=ctx.sharpness)
        key_grad = _multiply(scores_grad.transpose(-1, -2), query, scale=ctx.sharpness)
        return query_grad, key_grad, value_grad, None, None


def _multiply(a: Tensor, b: Tensor, *, scale: float) -> Tensor:
    """Return scale * a @ b for [B, h, n, k] and [B, h, k, m] in one call."""
    shape = (*a.shape[:-1], b.shape[-1])
    no_summand = a.new_empty(()).expand(math.prod(shape[:2]), *shape[2:])
    product = torch.baddbmm(
        no_summand, a.flatten(end_dim=1), b.flatten(end_dim=1), beta=0, alpha=scale
    )
    return product.view(shape)
