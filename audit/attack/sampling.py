"""Scenario 1 with a causal model: documents written from left to right, and the mass of names.

At each step the probabilities from which the next token is drawn are added up for every token. So a
part of a name gets its expected number of places in the documents: a mass, not a probability. The
chance that a model writes a whole name right after the prompt is computed exactly; it says how many
tries an attacker needs.

Legend: B documents of a shard, T tokens of a document, L tokens with the prompt, k top tokens, V
vocabulary, b blocks, N names.

Source: Nakamura et al., section 4.1, for the question; Hayes et al. 2025 (arXiv 2410.19482) for the
number of tries. Differs: the paper samples from a masked model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache

from audit.attack.contexts import ContinuationTask
from audit.attack.continuation import score_names
from audit.attack.generation import GeneratedShard, MassTally, find_largest, to_floats
from audit.models.causal_pass import CausalForward
from audit.models.library import run_with_cache
from audit.rng import generator
from audit.stats import DRAW_SIZE, FloatArray, IntArray, assign_blocks

Tick = Callable[[int], None]


@dataclass(frozen=True)
class SamplingTask:
    """One question of scenario 1 to causal models, in integers; the same for both models."""

    prompt: tuple[int, ...]  # The tokens to begin with, at least one.
    end_id: int  # The token after which a document is finished; -1: none is.
    # Parts of several tokens, each a tuple of ids.
    multi_piece_parts: tuple[tuple[int, ...], ...]
    # The names after the prompt, for `make_recall_shard`.
    names: ContinuationTask
    seed: int
    n_new_tokens: int
    top_k: int
    top_p: float = 1.0
    temperature: float = 1.0

    name_fields: ClassVar = ("multi_piece_parts", "names")
    n_tokens: ClassVar = 1.0
    """Rows are single tokens, so that a plan counts all the same."""

    @property
    def has_names(self) -> bool:
        """Whether names are measured besides tokens."""
        return bool(len(self.names.is_known))

    def n_rows(self, kind: str, n: int) -> int:
        """Return how many tokens go through a model for `n` documents, or for the names."""
        if kind == "recall":
            return self.names.count_tokens(0)
        return n * (len(self.prompt) + self.n_new_tokens - 1)


def write_shard(
    forward: CausalForward,
    task: SamplingTask,
    *,
    shard: int,
    first: int,
    n: int,
    device: str,
    tick: Tick,
) -> GeneratedShard:
    """Write the documents of one shard with one model, all of them side by side.

    `first` is a multiple of `DRAW_SIZE`. `tick` is called with the number of tokens after each
    step; it may raise to stop. A finished document repeats its end and has no more mass.
    """
    uniforms = torch.from_numpy(_draw_uniforms(task, first=first, n=n)).to(device)  # [T, B]
    blocks = assign_blocks(first, n)
    tally = MassTally(
        task.multi_piece_parts, blocks=blocks, n_vocabulary=forward.n_vocabulary, device=device
    )
    n_prompt = len(task.prompt)
    length = n_prompt + task.n_new_tokens
    state = torch.full((n, length), -1, dtype=torch.int64, device=device)  # [B, L]; -1: not yet
    state[:, :n_prompt] = torch.tensor(task.prompt, device=device)
    is_open = torch.ones(n, dtype=torch.bool, device=device)
    cache, read = DynamicCache(), state[:, :n_prompt]
    with torch.inference_mode(), forward.running():
        for step in range(task.n_new_tokens):
            logits = run_with_cache(forward.model, read, cache=cache)[:, -1]
            tokens, weights = truncate_distribution(
                logits.float(), top_k=task.top_k, top_p=task.top_p, temperature=task.temperature
            )
            place = n_prompt + step
            places = torch.full((n,), place, device=device)
            tally.add(state, places, tokens, weights * is_open.unsqueeze(1))
            cumulative = weights.double().cumsum(dim=-1)  # [B, k]
            below = (uniforms[step].unsqueeze(1) * cumulative[:, -1:]) >= cumulative
            picked = below.sum(dim=-1, keepdim=True).clamp(max=cumulative.shape[1] - 1)
            new_tokens = tokens.gather(1, picked)[:, 0]
            state[:, place] = torch.where(is_open, new_tokens, task.end_id)
            is_open &= new_tokens != task.end_id
            read = state[:, place : place + 1]
            tick(n * (n_prompt if step == 0 else 1))
    block_sizes = np.bincount(blocks)
    return GeneratedShard(
        n_documents=block_sizes,
        documents=state.cpu().numpy(),
        mass=to_floats(tally.mass, len(block_sizes), forward.n_vocabulary),
        part_mass=to_floats(tally.parts, len(block_sizes), len(task.multi_piece_parts)),
    )


def _draw_uniforms(task: SamplingTask, *, first: int, n: int) -> FloatArray:
    """Draw uniforms [T, B] in hundreds, so no document depends on its shard."""
    hundreds = range(first // DRAW_SIZE, -(-(first + n) // DRAW_SIZE))
    columns = [
        generator(task.seed, "sampling", number).random(size=(task.n_new_tokens, DRAW_SIZE))
        for number in hundreds
    ]
    return np.concatenate(columns, axis=1)[:, :n]


def truncate_distribution(
    logits: Tensor, *, top_k: int, top_p: float, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return the tokens [B, k] from which a sampler draws, and their probabilities [B, k].

    The `top_k` most probable tokens of `logits` [B, V] stay; of these the fewest that reach the
    probability `top_p` together. Source: Holtzman et al. 2020 (arXiv 1904.09751) for `top_p`.
    """
    top, tokens = find_largest(logits, min(top_k, logits.shape[-1]))
    weights = torch.softmax(top / temperature, dim=-1)
    p_of_better = weights.cumsum(dim=-1) - weights
    weights = weights.masked_fill(p_of_better >= top_p, 0.0)
    return tokens, weights / weights.sum(dim=-1, keepdim=True)


@dataclass(frozen=True)
class RecallShard:
    """Chances that a model writes each name right after the prompt."""

    n_inputs: IntArray  # [1], always 1
    # [1, N] probability of the name under the sampler's own distributions; NaN: not scored.
    sum_p: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


def make_recall_shard(
    forward: CausalForward,
    task: SamplingTask,
    *,
    shard: int,
    first: int,
    n: int,
    device: str,
    tick: Tick,
) -> RecallShard:
    """Compute the chance that one model writes each name after the prompt."""

    def sampler_log_p(logits: Tensor) -> Tensor:
        tokens, weights = truncate_distribution(
            logits.float(), top_k=task.top_k, top_p=task.top_p, temperature=task.temperature
        )
        return torch.full_like(logits, -math.inf).scatter(-1, tokens, weights.log())

    names = task.names
    rows, _ = names.plans[0]
    log_p, _ = score_names(forward, names, 0, distribution=sampler_log_p)
    chances = np.full((1, len(names.is_known)), np.nan)
    chances[0, rows] = np.exp(log_p)
    tick(names.count_tokens(0))
    return RecallShard(np.ones(1, dtype=np.int64), chances)
