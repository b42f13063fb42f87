"""Log probabilities of many continuations of one context, each distinct prefix computed once.

Legend: N continuations, n nodes of their tree, q nodes of one pass, V tokens of the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache

from audit.models.forward import (
    MAX_KERNEL_VARIATION,
    MAX_SHARE_MOVED,
    MAX_TOTAL_VARIATION,
    is_amd,
    make_rounding_error,
    measure_variation,
    pick_precision,
    use_exact_float32,
)
from audit.models.library import run_with_cache
from audit.models.token_tree import ROOT, TokenTree, TreePass, TreePlan
from audit.rng import generator
from audit.stats import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from audit.models.load import LoadedModel


class CausalForward:
    """A causal language model on its device, as transformers computes it, in its own number type.

    Whoever runs `model` does so within `running`: a module with an adapter is two models. `kernels`
    is "onednn" for oneDNN's float32 products, or "plain" for PyTorch's own choice.
    """

    def __init__(self, loaded: LoadedModel, *, kernels: str = "plain") -> None:
        self._loaded, self.kernels = loaded, kernels
        self.model: Any = loaded.model
        weight = next(loaded.model.parameters())
        self.device, self.dtype = weight.device, str(weight.dtype).removeprefix("torch.")
        self.n_vocabulary = loaded.config.vocab_size

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the module compute as this model does while the block runs."""
        is_onednn = self.kernels == "onednn"
        products = use_exact_float32(self.device.type) if is_onednn else nullcontext()
        with self._loaded.running(), products:
            yield


def round_models(models: Iterable[LoadedModel], *, dtype: str) -> None:
    """Turn the numbers of models into another type, in their place."""
    for module in _list_modules(models):
        module.to(getattr(torch, dtype))


def _list_modules(models: Iterable[LoadedModel]) -> list[nn.Module]:
    """Return the modules of models; one that two of them share comes once."""
    return list({id(loaded.model): loaded.model for loaded in models}.values())


def build_causal_forwards(models: Sequence[LoadedModel], *, dtype: str) -> list[CausalForward]:
    """Return one `CausalForward` for each model, in float32 or bfloat16.

    With bfloat16 the models themselves are rounded, so that none is in memory twice. "auto" is
    bfloat16 on a GPU that has it, if it moves no distribution of a next token by more than the
    limits for encoders (`audit.models.forward.build_forwards`), else float32. On a CPU it is
    float32. There oneDNN multiplies where it is the faster, on AMD processors, and moves no
    distribution by more than `MAX_KERNEL_VARIATION`. The choice depends only on device and models.

    Raises AuditError if "bfloat16" is asked for and moves a distribution too far. The models are
    rounded then.
    """
    exact = [CausalForward(loaded) for loaded in models]
    device = exact[0].device.type
    if pick_precision(dtype, device=device) == "bfloat16":
        return _round_forwards(models, exact, is_chosen=dtype == "auto")
    if device != "cpu" or not is_amd():
        return exact
    fast = [CausalForward(loaded, kernels="onednn") for loaded in models]
    variations = _measure_variations(fast, list(map(_compute_distributions, exact)))
    return fast if max(variations) <= MAX_KERNEL_VARIATION else exact


def _round_forwards(
    models: Sequence[LoadedModel], exact: Sequence[CausalForward], *, is_chosen: bool
) -> list[CausalForward]:
    """Round models, unless `is_chosen` by this program and too far from exact ones."""
    distributions = list(map(_compute_distributions, exact))
    most, kept_numbers = MAX_TOTAL_VARIATION, list[dict[str, Tensor]]()
    if is_chosen:
        apart = min((measure_variation(p, q) for p, q in pairwise(distributions)), default=math.inf)
        most = min(MAX_TOTAL_VARIATION, MAX_SHARE_MOVED * apart)
        kept_numbers = list(map(_copy_numbers, _list_modules(models)))
    round_models(models, dtype="bfloat16")
    rounded = list(map(CausalForward, models))
    variations = _measure_variations(rounded, distributions)
    if max(variations) <= most:
        return rounded
    if not is_chosen:
        worst = int(np.argmax(variations))
        raise make_rounding_error(variations[worst], most=most, name=models[worst].name)
    round_models(models, dtype="float32")
    for module, numbers in zip(_list_modules(models), kept_numbers, strict=True):
        _restore_numbers(module, numbers)
    return list(map(CausalForward, models))


def _list_numbers(module: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a module that rounding changes, by name."""
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    return {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}


def _copy_numbers(module: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a module's numbers in the computer's memory."""
    tensors = _list_numbers(module)
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


@torch.no_grad()
def _restore_numbers(module: nn.Module, numbers: dict[str, Tensor]) -> None:
    for name, tensor in _list_numbers(module).items():
        tensor.copy_(numbers[name])


_PROBE_TOKENS = (8, 32)


def _compute_distributions(forward: CausalForward) -> Tensor:
    """Return the distributions of the next tokens of random texts."""
    numbers = generator(0, "probe texts").integers(forward.n_vocabulary, size=_PROBE_TOKENS)
    with forward.running(), torch.inference_mode():
        logits = forward.model(torch.from_numpy(numbers).to(forward.device)).logits
    return torch.softmax(logits.double(), dim=-1)


def _measure_variations(
    forwards: Sequence[CausalForward], distributions: Sequence[Tensor]
) -> list[float]:
    """Return the mean total variation of each forward's next tokens from distributions."""
    pairs = zip(forwards, distributions, strict=True)
    return [measure_variation(_compute_distributions(forward), p) for forward, p in pairs]


@dataclass(frozen=True)
class TreeScores:
    """Log probabilities of the nodes of a tree after one context (nats).

    `paths` [n] are those of all tokens from the context to a node. `ends` [n] are those of the next
    token being one that can follow the end of a word; 0 if nobody asked.
    """

    paths: FloatArray
    ends: FloatArray


Distribution = Callable[[Tensor], Tensor]
"""From logits [..., V] to log probabilities."""


def log_softmax(logits: Tensor) -> Tensor:
    """Return the log probabilities of a model's own distribution, from logits [..., V]."""
    return torch.log_softmax(logits.float(), dim=-1)


@torch.inference_mode()
def score_tree(
    model: Any,
    context: Sequence[int],
    plan: TreePlan,
    *,
    is_ending: BoolArray | None = None,
    distribution: Distribution = log_softmax,
) -> TreeScores:
    """Return the log probabilities of a tree's nodes after a context of at least one token.

    `model` is a causal language model of transformers in evaluation mode. With `is_ending` [V], the
    next token's probability to be one of these is computed too; the plan must have ends.
    `distribution` turns logits [..., V] into log probabilities; a sampler's own distribution gives
    the chance that it writes a continuation.
    """
    device, tree = next(model.parameters()).device, plan.tree

    def move(array: IntArray) -> Tensor:
        return torch.from_numpy(array).to(device)

    cache = DynamicCache()
    ids = torch.tensor([list(context)], device=device)
    first_log_p = distribution(run_with_cache(model, ids, cache=cache)[:, -1])[0]
    ending = None if is_ending is None else move(np.flatnonzero(is_ending))
    paths, ends = np.zeros(len(tree)), np.zeros(len(tree))
    top_nodes = np.flatnonzero(tree.parents == ROOT)
    paths[top_nodes] = first_log_p[move(tree.tokens[top_nodes])].cpu().numpy()
    for tree_pass in plan.passes:
        if n_stale := cache.get_seq_length() - len(context) - tree_pass.n_stem:
            cache.crop(-n_stale)
        log_p = distribution(_read_nodes(model, tree, tree_pass, cache=cache))  # [q, V]
        children, places = tree_pass.children, tree_pass.places
        paths[children] = log_p[move(places), move(tree.tokens[children])].cpu().numpy()
        if ending is not None:
            ends[tree_pass.nodes] = log_p[:, ending].logsumexp(dim=-1).cpu().numpy()
    for depth in range(1, int(tree.depths.max(initial=0)) + 1):
        nodes = np.flatnonzero(tree.depths == depth)
        paths[nodes] += paths[tree.parents[nodes]]
    return TreeScores(paths, ends)


def continuation_log_p(
    model: Any, context: Sequence[int], plan: TreePlan, *, is_ending: BoolArray | None = None
) -> FloatArray:
    """Return ln p [N] (nats) of each continuation after a context; parameters as `score_tree`."""
    scores = score_tree(model, context, plan, is_ending=is_ending)
    return np.asarray(scores.paths[plan.tree.ends] + scores.ends[plan.tree.ends])


def _read_nodes(model: Any, tree: TokenTree, tree_pass: TreePass, *, cache: DynamicCache) -> Tensor:
    """Return the logits [q, V] behind the nodes of a pass, which the cache then holds too."""
    weight = next(model.parameters())
    n_before, nodes = cache.get_seq_length(), tree_pass.nodes
    n_context = n_before - tree_pass.n_stem
    mask = torch.zeros(
        (len(nodes), n_before + len(nodes)), dtype=weight.dtype, device=weight.device
    )
    is_hidden = ~torch.from_numpy(tree_pass.sees).to(weight.device)
    mask[:, n_before:].masked_fill_(is_hidden, torch.finfo(weight.dtype).min)
    return run_with_cache(
        model,
        torch.from_numpy(tree.tokens[nodes])[None].to(weight.device),
        cache=cache,
        attention_mask=mask[None, None],
        position_ids=torch.from_numpy(n_context + tree.depths[nodes])[None].to(weight.device),
    )[0]
