"""Log probabilities by the tree against one continuation at a time without a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM

from audit.models.causal_pass import continuation_log_p
from audit.models.token_tree import ROOT, TreePlan, build_tree, plan_passes

N_TOKENS = 40
SHAPE: dict[str, Any] = {
    "vocab_size": N_TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "initializer_range": 0.3,
}
GPT2: dict[str, Any] = {
    "vocab_size": N_TOKENS,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "initializer_range": 0.3,
}
KINDS: dict[str, dict[str, Any]] = {
    "llama": SHAPE,
    "mistral": SHAPE | {"sliding_window": 32},
    "qwen2": SHAPE,
    "qwen3": SHAPE,
    "gemma2": SHAPE | {"sliding_window": 32, "query_pre_attn_scalar": 8},
    "gemma3_text": SHAPE | {"sliding_window": 32, "query_pre_attn_scalar": 8},
    "gpt2": GPT2,
    "gpt_neox": SHAPE,
    "phi3": SHAPE,
}
CONTEXT = [5, 17, 3, 22, 9]
NAMES = [[4], [4, 7], [4, 7, 9], [4, 8], [11], [11, 2, 30, 6], [12, 2], [4, 7], [39]]


def make_model(kind: str) -> Any:
    torch.manual_seed(4)
    config = AutoConfig.for_model(kind, **KINDS[kind])
    return AutoModelForCausalLM.from_config(config).eval()


def plan_names(names: Sequence[Sequence[int]], *, has_ends: bool = False) -> TreePlan:
    return plan_passes(build_tree(names), has_ends=has_ends)


def log_p_one_by_one(
    model: Any, context: Sequence[int], name: Sequence[int], ending: Sequence[int] = ()
) -> float:
    with torch.inference_mode():
        logits = model(torch.tensor([[*context, *name]]), use_cache=False).logits[0]
    log_p = torch.log_softmax(logits.double(), dim=-1)
    total = sum(float(log_p[len(context) - 1 + place, token]) for place, token in enumerate(name))
    return total + (float(log_p[-1, list(ending)].logsumexp(dim=0)) if len(ending) else 0.0)


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("n_nodes_per_pass", [1, 2, 3, 256])
def test_the_tree_gives_what_one_name_at_a_time_gives(kind: str, n_nodes_per_pass: int) -> None:
    model, is_ending = make_model(kind), np.arange(N_TOKENS) % 7 == 0
    tree = build_tree(NAMES)
    for mask in (None, is_ending):
        plan = plan_passes(tree, has_ends=mask is not None, n_nodes_per_pass=n_nodes_per_pass)
        assert max(len(tree_pass.nodes) for tree_pass in plan.passes) <= n_nodes_per_pass
        log_p = continuation_log_p(model, CONTEXT, plan, is_ending=mask)
        ending = () if mask is None else np.flatnonzero(mask).tolist()
        expected = [log_p_one_by_one(model, CONTEXT, name, ending) for name in NAMES]
        np.testing.assert_allclose(log_p, expected, atol=1e-4)


def test_a_prefix_of_a_name_is_told_from_the_name_by_its_end() -> None:
    """All continuations of two tokens, with the ends of shorter ones, make up everything."""
    model = make_model("llama")
    is_ending = np.arange(N_TOKENS) < 3
    ones = [[token] for token in range(3, N_TOKENS)]
    twos = [[first, second] for first in range(3, N_TOKENS) for second in range(3, N_TOKENS)]
    ended = continuation_log_p(model, CONTEXT, plan_names(ones, has_ends=True), is_ending=is_ending)
    going_on = continuation_log_p(model, CONTEXT, plan_names(twos))
    at_once = continuation_log_p(model, CONTEXT, plan_names([[0], [1], [2]]))
    everything = np.exp(np.concatenate([ended, going_on, at_once])).sum()
    assert everything == pytest.approx(1, abs=1e-5)


continuations = st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=4), max_size=30)


@settings(max_examples=200, deadline=None)
@given(continuations)
def test_a_tree_holds_each_distinct_prefix_once_and_parents_first(names: list[list[int]]) -> None:
    tree = build_tree(names)
    prefixes = {tuple(name[:n]) for name in names for n in range(1, len(name) + 1)}
    paths: list[tuple[int, ...]] = []
    for token, parent, depth in zip(tree.tokens, tree.parents, tree.depths, strict=True):
        assert parent < len(paths)
        above = () if parent == ROOT else paths[parent]
        paths.append((*above, int(token)))
        assert depth == len(above)
    assert len(paths) == len(prefixes) and set(paths) == prefixes
    assert [paths[end] for end in tree.ends] == [tuple(name) for name in names]
    for node, path in enumerate(paths):
        assert tree.sizes[node] == sum(other[: len(path)] == path for other in prefixes)
    shortened = [max(1, len(name) - 1) for name in names]
    nodes = tree.find_prefix_nodes(np.array(shortened, dtype=np.int64))
    assert [paths[node] for node in nodes] == [
        tuple(name[:n]) for name, n in zip(names, shortened, strict=True)
    ]


def test_a_continuation_without_tokens_is_an_error() -> None:
    with pytest.raises(ValueError, match="no token"):
        build_tree([[1], []])
