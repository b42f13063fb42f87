"""Continuations of one context as a tree of tokens, and the passes that score it; torch-free.

Its nodes go through a model side by side, as one row in which every token sees the context and its
own ancestors only. So a thousand names cost about as much as one text with as many tokens as the
tree has nodes.

Legend: N continuations, n nodes of the tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.stats import BoolArray, IntArray

ROOT = -1
NODES_PER_PASS = 256
"""With a vocabulary of 150,000 tokens the logits take 150 MB; 512 nodes are no faster."""


@dataclass(frozen=True)
class TokenTree:
    """Continuations as a tree; a node follows its parent directly or behind its siblings' trees.

    `tokens` [n] are token ids, `parents` [n] indices of nodes or `ROOT`, `depths` [n] count from 0,
    `sizes` [n] are the numbers of nodes of the branches that begin at each node, and `ends` [N] is
    the last node of each continuation.
    """

    tokens: IntArray
    parents: IntArray
    depths: IntArray
    sizes: IntArray
    ends: IntArray

    def __len__(self) -> int:
        return len(self.tokens)

    def find_prefix_nodes(self, n_tokens: IntArray) -> IntArray:
        """Return the node [N] at which the first `n_tokens` [N] of each continuation end."""
        nodes = self.ends.copy()
        while (is_deeper := self.depths[nodes] >= n_tokens).any():
            nodes[is_deeper] = self.parents[nodes[is_deeper]]
        return nodes


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
        for token, earlier_token in zip(continuation, earlier, strict=False):
            if token != earlier_token:
                break
            n_shared += 1
        del path[n_shared:]
        for depth in range(n_shared, len(continuation)):
            parents.append(path[-1] if path else ROOT)
            depths.append(depth)
            path.append(len(tokens))
            tokens.append(continuation[depth])
        ends[row], earlier = path[-1], continuation
    sizes = [1] * len(tokens)
    for node in range(len(tokens) - 1, -1, -1):  # children come behind their parents
        if parents[node] != ROOT:
            sizes[parents[node]] += sizes[node]
    return TokenTree(
        tokens=np.array(tokens, dtype=np.int64),
        parents=np.array(parents, dtype=np.int64),
        depths=np.array(depths, dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int64),
        ends=ends,
    )


@dataclass(frozen=True)
class TreePass:
    """One forward pass over some nodes of a tree, with a stem of ancestors in the cache.

    `nodes` [q] are read side by side; node i sees those of its row of `sees` [q, q], and the stem,
    which the first `n_stem` tokens behind the context in the cache are. Each of the `children` [c]
    has the node at its place of `places` [c] among `nodes` as parent.
    """

    n_stem: int
    nodes: IntArray
    sees: BoolArray
    children: IntArray
    places: IntArray


@dataclass(frozen=True)
class TreePlan:
    """A tree and the passes that score all its nodes; with `has_ends`, also what follows names."""

    tree: TokenTree
    passes: tuple[TreePass, ...]
    has_ends: bool

    @property
    def n_tokens(self) -> int:
        """Number of tokens that go through the model after a context."""
        return sum(len(tree_pass.nodes) for tree_pass in self.passes)


def plan_passes(
    tree: TokenTree, *, has_ends: bool = False, n_nodes_per_pass: int = NODES_PER_PASS
) -> TreePlan:
    """Return the passes that score a tree; a branch of more nodes gets its first node as a stem."""
    needs_pass = np.zeros(len(tree), dtype=np.bool_)
    needs_pass[tree.parents[tree.parents != ROOT]] = True
    if has_ends:
        needs_pass[tree.ends] = True
    passes: list[TreePass] = []

    def add_branches(first: int, last: int, n_stem: int) -> None:
        """Plan the whole branches first ... last - 1, whose parent ends the stem."""
        node, begin = first, first
        while node < last:
            size = int(tree.sizes[node])
            if node + size - begin > n_nodes_per_pass and node > begin:
                passes.append(_make_pass(tree, begin, node, n_stem, needs_pass))
                begin = node
            if size > n_nodes_per_pass:
                passes.append(_make_pass(tree, node, node + 1, n_stem, needs_pass))
                add_branches(node + 1, node + size, n_stem + 1)
                begin = node + size
            node += size
        if last > begin:
            passes.append(_make_pass(tree, begin, last, n_stem, needs_pass))

    add_branches(0, len(tree), 0)
    return TreePlan(
        tree, tuple(tree_pass for tree_pass in passes if len(tree_pass.nodes)), has_ends
    )


def _make_pass(
    tree: TokenTree, first: int, last: int, n_stem: int, needs_pass: BoolArray
) -> TreePass:
    """Return the pass over the nodes first ... last - 1, whose other ancestors are the stem."""
    nodes = first + np.flatnonzero(needs_pass[first:last])
    place_of = np.full(last - first, -1)
    place_of[nodes - first] = np.arange(len(nodes))
    sees = np.eye(len(nodes), dtype=np.bool_)
    for place, node in enumerate(nodes.tolist()):
        parent = int(tree.parents[node])
        if parent >= first:  # a node sees what its parent sees; parents come first
            sees[place] |= sees[place_of[parent - first]]
    is_read = np.zeros(len(tree), dtype=np.bool_)
    is_read[nodes] = True
    children = np.flatnonzero((tree.parents != ROOT) & is_read[tree.parents])
    places = place_of[tree.parents[children] - first]
    return TreePass(n_stem, nodes, sees, children, places)
