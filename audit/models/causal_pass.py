"""Log probabilities of many continuations of one context, each distinct prefix computed once.

The continuations form a tree of tokens. Its nodes go through the model side by side, as one row in
which every token sees the context and its own ancestors only. So a thousand names cost about as
much as one text with as many tokens as the tree has nodes.

Legend: N continuations, n nodes of the tree, c tokens of the context, V tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from audit.stats import BoolArray, FloatArray, IntArray

ROOT = -1
_NODES_PER_PASS = 256
"""With a vocabulary of 150,000 tokens the logits take 150 MB; 512 nodes are no faster."""


@dataclass(frozen=True)
class TokenTree:
    """Continuations as a tree; a node follows its parent directly or behind its siblings' trees.

    `tokens` [n] are token ids, `parents` [n] indices of nodes or `ROOT`, `depths` [n] count from 0,
    and `ends` [N] is the last node of each continuation.
    """

    tokens: IntArray
    parents: IntArray
    depths: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return len(self.tokens)

    def list_branches(self) -> IntArray:
        """Return the first nodes of the parts that share no node, and the number of nodes."""
        return np.append(np.flatnonzero(self.parents == ROOT), len(self))


def build_tree(continuations: Sequence[Sequence[int]]) -> TokenTree:
    """Return the tree of some continuations, each of at least one token."""
    order = sorted(range(len(continuations)), key=lambda i: tuple(continuations[i]))
    path: list[int] = []  # nodes of the continuation before
    earlier: tuple[int, ...] = ()
    tokens: list[int] = []
    parents: list[int] = []
    depths: list[int] = []
    ends = np.zeros(len(continuations), dtype=np.int64)
    for row in order:
        continuation = tuple(continuations[row])
        if not continuation:
            raise ValueError("a continuation has no token")
        n_shared = 0
        for one, other in zip(continuation, earlier, strict=False):
            if one != other:
                break
            n_shared += 1
        del path[n_shared:]
        for depth in range(n_shared, len(continuation)):
            parents.append(path[-1] if path else ROOT)
            depths.append(depth)
            path.append(len(tokens))
            tokens.append(continuation[depth])
        ends[row], earlier = path[-1], continuation
    return TokenTree(
        tokens=np.array(tokens, dtype=np.int64),
        parents=np.array(parents, dtype=np.int64),
        depths=np.array(depths, dtype=np.int64),
        ends=ends,
    )


@torch.inference_mode()
def continuation_log_p(
    model: Any,
    context: Sequence[int],
    tree: TokenTree,
    *,
    is_ending: BoolArray | None = None,
    n_nodes_per_pass: int = _NODES_PER_PASS,
) -> FloatArray:
    """Return ln p [N] (nats) of each continuation after a context of at least one token.

    `model` is a causal language model of transformers in evaluation mode. With `is_ending` [V], the
    probability that the next token is one of these is a factor too: the name must end there.
    """
    device = next(model.parameters()).device
    cache = DynamicCache()
    ids = torch.tensor([list(context)], device=device)
    root_log_p = _log_softmax(model(ids, past_key_values=cache, use_cache=True).logits[:, -1:])[0]
    ending = None if is_ending is None else torch.from_numpy(np.flatnonzero(is_ending)).to(device)
    node_log_p = np.zeros(len(tree))  # given the parent
    end_log_p = np.zeros(len(tree))
    top_nodes = np.flatnonzero(tree.parents == ROOT)
    node_log_p[top_nodes] = root_log_p[0, torch.from_numpy(tree.tokens[top_nodes])].cpu().numpy()
    needs_pass = _list_needed(tree, with_ends=is_ending is not None)
    for first, last in _group_branches(tree, n_nodes_per_pass):
        nodes = first + np.flatnonzero(needs_pass[first:last])
        if not len(nodes):
            continue
        log_p = _log_softmax(_read_nodes(model, tree, nodes, cache=cache))
        place_of = np.full(last - first, -1)
        place_of[nodes - first] = np.arange(len(nodes))
        children = first + np.flatnonzero(tree.parents[first:last] != ROOT)
        places = place_of[tree.parents[children] - first]
        picked = log_p[torch.from_numpy(places), torch.from_numpy(tree.tokens[children])]
        node_log_p[children] = picked.cpu().numpy()
        if ending is not None:
            end_log_p[nodes] = log_p[:, ending].logsumexp(dim=-1).cpu().numpy()
    path_log_p = node_log_p.copy()
    for node in np.flatnonzero(tree.parents != ROOT):  # parents come before their children
        path_log_p[node] += path_log_p[tree.parents[node]]
    return path_log_p[tree.ends] + (end_log_p[tree.ends] if is_ending is not None else 0.0)


def _list_needed(tree: TokenTree, *, with_ends: bool) -> BoolArray:
    """Return which nodes [n] go through the model: those whose next token is asked for."""
    is_needed = np.zeros(len(tree), dtype=np.bool_)
    is_needed[tree.parents[tree.parents != ROOT]] = True
    if with_ends:
        is_needed[tree.ends] = True
    return is_needed


def _group_branches(tree: TokenTree, n_most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of whole branches with at most `n_most` nodes, or with one branch."""
    borders = tree.list_branches().tolist()
    first = borders[0] if borders else 0
    for begin, end in pairwise(borders):
        if begin > first and end - first > n_most:
            yield first, begin
            first = begin
    if len(tree):
        yield first, len(tree)


def _read_nodes(model: Any, tree: TokenTree, nodes: IntArray, *, cache: DynamicCache) -> Tensor:
    """Return the logits [q, V] behind some nodes; the cache holds the context before and after."""
    device = next(model.parameters()).device
    n_context, q = cache.get_seq_length(), len(nodes)
    place_of = {int(node): place for place, node in enumerate(nodes)}
    sees = np.zeros((q, n_context + q), dtype=np.bool_)
    sees[:, :n_context] = True
    for place, node in enumerate(nodes.tolist()):
        parent = int(tree.parents[node])
        if parent != ROOT:  # what the parent sees; parents come first
            sees[place] = sees[place_of[parent]]
        sees[place, n_context + place] = True
    dtype = next(model.parameters()).dtype
    mask = torch.zeros(sees.shape, dtype=dtype, device=device)
    mask.masked_fill_(~torch.from_numpy(sees).to(device), torch.finfo(dtype).min)
    logits: Tensor = model(
        torch.from_numpy(tree.tokens[nodes])[None].to(device),
        attention_mask=mask[None, None],
        position_ids=torch.from_numpy(n_context + tree.depths[nodes])[None].to(device),
        past_key_values=cache,
        use_cache=True,
    ).logits[0]
    cache.crop(-q)
    return logits


def _log_softmax(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits.float(), dim=-1)
