"""Log probabilities of many continuations of one context, each distinct prefix computed once.

Legend: N continuations, n nodes of their tree, q nodes of one pass, V tokens of the vocabulary.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import DynamicCache

from audit.models.forward import (
    MAX_KERNEL_VARIATION,
    MAX_TOTAL_VARIATION,
    is_amd,
    make_rounding_error,
    measure_variation,
    use_exact_float32,
)
from audit.models.token_tree import ROOT, TokenTree, TreePass, TreePlan
from audit.rng import generator
from audit.stats import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from audit.models.adapters import Switch
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


def convert_models(models: Sequence[LoadedModel], *, dtype: str) -> list[LoadedModel]:
    """Return models in another number type; two that share a module share its only copy."""
    copies: dict[int, tuple[nn.Module, Switch | None]] = {}
    for loaded in models:
        if id(loaded.model) not in copies:
            model, switch = copy.deepcopy((loaded.model, loaded.switch))
            copies[id(loaded.model)] = model.to(getattr(torch, dtype)), switch
    converted_models = []
    for loaded in models:
        model, switch = copies[id(loaded.model)]
        converted_models.append(replace(loaded, model=model, switch=switch))
    return converted_models


def build_causal_forwards(models: Sequence[LoadedModel], *, dtype: str) -> list[CausalForward]:
    """Return one `CausalForward` for each model, in float32 unless bfloat16 is asked for.

    oneDNN multiplies float32 where it is the faster, on AMD processors, and moves no distribution
    by more than `MAX_KERNEL_VARIATION`. The choice depends only on processor and models. Raises
    AuditError if bfloat16 moves the distribution of a next token too far.
    """
    exact = [CausalForward(loaded) for loaded in models]
    if dtype != "bfloat16":
        if exact[0].device.type != "cpu" or not is_amd():
            return exact
        fast = [CausalForward(loaded, kernels="onednn") for loaded in models]
        variations = map(_measure_pass_variation, fast, exact)
        return fast if max(variations) <= MAX_KERNEL_VARIATION else exact
    rounded = [CausalForward(loaded) for loaded in convert_models(models, dtype=dtype)]
    for loaded, forward, exact_forward in zip(models, rounded, exact, strict=True):
        moved = _measure_pass_variation(forward, exact_forward)
        if moved > MAX_TOTAL_VARIATION:
            raise make_rounding_error(moved, most=MAX_TOTAL_VARIATION, name=loaded.name)
    return rounded


_PROBE_TOKENS = (8, 32)


def _measure_pass_variation(forward: CausalForward, exact: CausalForward) -> float:
    """Return the mean total variation between two passes' next tokens, on random texts."""
    numbers = generator(0, "probe texts").integers(exact.n_vocabulary, size=_PROBE_TOKENS)
    distributions = []
    for causal_pass in (forward, exact):
        with causal_pass.running(), torch.inference_mode():
            logits = causal_pass.model(torch.from_numpy(numbers).to(causal_pass.device)).logits
        distributions.append(torch.softmax(logits.double(), dim=-1))
    return measure_variation(*distributions)


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


def run_with_cache(model: Any, ids: Tensor, *, cache: DynamicCache, **options: Any) -> Tensor:
    """Return the logits [B, L, V] of tokens [B, L] behind those in a cache, which then has them."""
    # transformers 5.24 renamed the argument in most models.
    is_renamed = "cache" in inspect.signature(model.forward).parameters
    name = "cache" if is_renamed else "past_key_values"
    logits: Tensor = model(ids, **{name: cache}, use_cache=True, **options).logits
    return logits
