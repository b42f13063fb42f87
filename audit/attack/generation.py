"""Scenario 1: Gibbs-style generation, and the probability mass that names get along the way.

Input: one model, and a prompt as token ids. Output: generated documents, and Rao-Blackwell sums. At
each step the sampler already knows the probability of every token at the sampled position, so these
probabilities are summed instead of counting the tokens that are drawn; the expectation is that of
counting all draws. No text is handled here. Legend: B documents of a shard, L tokens, T steps, k
top tokens, V vocabulary, b blocks, Q parts of names with several word pieces.

Source: Nakamura et al., section 4.1 and appendix B, after Wang & Cho 2019 (arXiv 1902.04094).
Differs: "Gibbs-style" only. BERT's conditionals need not belong to one joint distribution (Cho's
correction to that paper), so no convergence is claimed. The sampled position is set back to [MASK]
before the forward pass, as their code does; `is_remasked=False` is the paper's literal text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from audit.models.forward import Forward
from audit.rng import generator
from audit.stats import DRAW_SIZE, FloatArray, IntArray, assign_blocks

Tick = Callable[[int], None]

FIXED_POINT = float(2**40)
"""Masses are summed as integer multiples of 2^-40, so sums are the same in any order and on any
device."""


@dataclass(frozen=True)
class GenerationTask:
    """One scenario-1 question, as integers; the same for both models of a pair."""

    # [L] token ids of x(0), special tokens included; every [MASK] in it is sampled.
    prompt: tuple[int, ...]
    mask_id: int
    # Q parts of several word pieces, each a tuple of ids.
    multi_piece_parts: tuple[tuple[int, ...], ...]
    seed: int
    n_steps: int = 500  # T, k and alpha of appendix B.
    top_k: int = 100
    temperature: float = 1.0
    is_remasked: bool = True

    name_fields: ClassVar = ("multi_piece_parts",)
    """Fields that documents and the mass of tokens do not depend on."""

    @property
    def has_names(self) -> bool:
        """Whether parts of several pieces are measured besides tokens."""
        return bool(self.multi_piece_parts)

    @property
    def n_tokens(self) -> float:
        """Number of tokens of a document."""
        return float(len(self.prompt))

    def n_rows(self, kind: str, n: int) -> int:
        """Return how many rows of forward passes `n` documents take."""
        return n * self.n_steps

    @property
    def sampled_positions(self) -> IntArray:
        """Positions that are [MASK] in x(0)."""
        return np.flatnonzero(np.array(self.prompt) == self.mask_id)


@dataclass(frozen=True)
class GeneratedShard:
    """Documents of one shard and the mass that tokens got while they were made, by block."""

    n_documents: IntArray  # [b] documents of each block.
    documents: IntArray  # [B, L] token ids after the last step.
    # [b, V] renormalised top-k probability of each token, summed over documents, steps and all
    # sampled positions.
    mass: FloatArray
    # [b, Q] the same for parts of several pieces: the probability of the piece that completes the
    # part where its neighbours stand in place.
    part_mass: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


def draw_shard(
    task: GenerationTask, *, first: int, n_documents: int
) -> tuple[IntArray, FloatArray]:
    """Draw positions and uniforms [T, B] in hundreds, so no document depends on its shard.

    `first` is a multiple of `DRAW_SIZE`.
    """
    sampled = task.sampled_positions
    positions, uniforms = [], []
    for number in range(first // DRAW_SIZE, -(-(first + n_documents) // DRAW_SIZE)):
        rng = generator(task.seed, "generation", number)
        positions.append(rng.integers(len(sampled), size=(task.n_steps, DRAW_SIZE)))
        uniforms.append(rng.random(size=(task.n_steps, DRAW_SIZE)))
    places = np.concatenate(positions, axis=1)[:, :n_documents]
    return sampled[places], np.concatenate(uniforms, axis=1)[:, :n_documents]


def generate_shard(
    forward: Forward,
    task: GenerationTask,
    *,
    shard: int,
    first: int,
    n: int,
    device: str,
    tick: Tick,
) -> GeneratedShard:
    """Generate the documents of one shard with one model, all of them side by side.

    `shard` is the shard's number, `first` its first document (a multiple of `DRAW_SIZE`) and `n`
    its number of documents. `tick` is called with the number of documents after each step; it may
    raise to stop.
    """
    positions, uniforms = draw_shard(task, first=first, n_documents=n)
    blocks = assign_blocks(first, n)  # [B]
    sampler = _Sampler(forward, task, n=n, device=device)
    tally = MassTally(
        task.multi_piece_parts, blocks=blocks, n_vocabulary=forward.n_vocabulary, device=device
    )
    forward_rows, n_forward_rows = _list_forward_rows(task, positions)
    # All draws are sent at once: on a GPU no step waits for the host.
    device_positions, device_uniforms, device_rows = (
        torch.from_numpy(x).to(device) for x in (positions, uniforms, forward_rows)
    )
    with torch.inference_mode():
        for step, step_rows in enumerate(torch.split(device_rows, n_forward_rows)):
            sampler.step(
                device_positions[step], device_uniforms[step], forward_rows=step_rows, tally=tally
            )
            tick(n)
    block_sizes = np.bincount(blocks)
    return GeneratedShard(
        n_documents=block_sizes,
        documents=sampler.state.cpu().numpy().astype(np.int64),
        mass=to_floats(tally.mass, len(block_sizes), forward.n_vocabulary),
        part_mass=to_floats(tally.parts, len(block_sizes), len(task.multi_piece_parts)),
    )


def _list_forward_rows(task: GenerationTask, positions: IntArray) -> tuple[IntArray, list[int]]:
    """Return the documents that need a forward pass, step by step, and their number per step.

    If a position is picked twice in a row and set back to [MASK], the second pass would read the
    same input as the first, so its distribution is known.
    """
    is_new = np.ones(positions.shape, dtype=np.bool_)
    if task.is_remasked:
        is_new[1:] = positions[1:] != positions[:-1]
    return np.nonzero(is_new)[1], is_new.sum(axis=1).tolist()


class _Sampler:
    """Documents being made [B, L], and each one's last distribution over the top k tokens."""

    def __init__(self, forward: Forward, task: GenerationTask, *, n: int, device: str) -> None:
        self._task, self._rows = task, torch.arange(n, device=device)
        self.state = torch.tensor(task.prompt, device=device).repeat(n, 1)  # [B, L]
        self._stepwise = forward.stepwise(self.state)
        self._last: Tensor | None = None  # [B] each document's last position
        shape = n, min(task.top_k, forward.n_vocabulary)
        self._tokens = torch.zeros(shape, dtype=torch.int64, device=device)  # [B, k]
        self._weights = torch.zeros(shape, device=device)  # [B, k]

    def step(
        self, positions: Tensor, uniforms: Tensor, *, forward_rows: Tensor, tally: MassTally
    ) -> None:
        """Sample one position of every document in place (appendix B).

        `positions` [B] are sampled. The `uniforms` [B] pick the token by inverting the cumulative
        distribution over the top k tokens, in order of falling logit. `forward_rows` are the
        documents whose distribution is not known from the step before.
        """
        if self._task.is_remasked:
            self.state[self._rows, positions] = self._task.mask_id
        if len(forward_rows):
            # Since its last pass a document has a new token at its last position and [MASK] here.
            forward_positions, last_positions = (
                positions[forward_rows],
                positions if self._last is None else self._last,
            )
            logits = self._stepwise.logits(
                forward_rows,
                changed=torch.stack([last_positions[forward_rows], forward_positions], dim=1),
                positions=forward_positions[:, None],
            )[:, 0].float()
            self._last = positions
            top, self._tokens[forward_rows] = find_largest(logits, self._tokens.shape[1])
            self._weights[forward_rows] = torch.softmax(top / self._task.temperature, dim=-1)
        cumulative = self._weights.double().cumsum(dim=-1)  # [B, k]
        below = (uniforms.unsqueeze(dim=1) * cumulative[:, -1:]) >= cumulative  # [B, k]
        picked = below.sum(dim=-1).clamp(max=cumulative.shape[1] - 1)
        tally.add(self.state, positions, self._tokens, self._weights)
        self.state[self._rows, positions] = self._tokens[self._rows, picked]


def find_largest(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest logits of each row [B, V], descending, and their tokens, both [B, k].

    On a CPU this takes a quarter of `topk`'s time: among the maxima of 4 k groups of tokens the
    k-th is a bound that few tokens reach; these are sorted as integers.
    """
    n, n_vocabulary = logits.shape
    size = n_vocabulary // (4 * k)
    if logits.device.type != "cpu" or size < 2:
        return logits.topk(k, dim=-1)
    logit_array, n_groups = logits.numpy(), n_vocabulary // size
    maxima = logit_array[:, : size * n_groups].reshape(n, size, n_groups).max(axis=1)
    bound = np.partition(maxima, n_groups - k, axis=1)[:, n_groups - k]
    places = np.flatnonzero(logit_array >= bound[:, None])
    ends = np.searchsorted(places, np.arange(0, n * n_vocabulary + 1, n_vocabulary))
    counts = np.diff(ends)
    if counts.min() < k:  # a logit is NaN
        return logits.topk(k, dim=-1)
    # The bits of floats sort as the floats do, if the lower bits of negative ones are inverted.
    bits = logit_array.ravel().take(places).view(np.int32)
    keys = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64) << 32
    rows, width = np.repeat(np.arange(n), counts), int(counts.max())
    keys |= n_vocabulary - (places - rows * n_vocabulary)
    top_keys = np.full(n * width, np.iinfo(np.int64).min)
    top_keys[np.arange(len(places)) + rows * width - ends[rows]] = keys
    top_keys = np.sort(top_keys.reshape(n, width), axis=1)[:, : -k - 1 : -1]
    tokens = torch.from_numpy(n_vocabulary - (top_keys & 0xFFFFFFFF))
    return logits.gather(1, tokens), tokens


class MassTally:
    """Integer sums of probability mass by block: of tokens, and of parts of several pieces."""

    def __init__(
        self,
        parts: Sequence[tuple[int, ...]],
        *,
        blocks: IntArray,
        n_vocabulary: int,
        device: str,
    ) -> None:
        self._n_blocks, self._n_vocabulary = int(blocks[-1]) + 1, n_vocabulary
        self._block = torch.from_numpy(blocks).to(device)  # [B]
        shape = self._n_blocks, len(parts)
        self.mass = torch.zeros(self._n_blocks * n_vocabulary, dtype=torch.int64, device=device)
        self.parts = torch.zeros(shape, dtype=torch.int64, device=device)  # [b, Q]
        pieces = np.unique([piece for part in parts for piece in part]).astype(np.int64)
        # [V] a token's place among the P pieces; P: it is none of them.
        place = np.full(n_vocabulary, len(pieces))
        place[pieces] = np.arange(len(pieces))
        self._n_pieces = len(pieces)
        self._place = torch.from_numpy(place).to(device)
        parts_by_length: dict[int, list[int]] = {}
        for i, part in enumerate(parts):
            parts_by_length.setdefault(len(part), []).append(i)
        self._groups = [
            [torch.tensor(x, device=device) for x in (index, [parts[i] for i in index])]
            for _, index in sorted(parts_by_length.items())
        ]

    def add(self, state: Tensor, positions: Tensor, tokens: Tensor, weights: Tensor) -> None:
        """Add one step: `weights` [B, k] of `tokens` [B, k] at `positions` [B].

        No operation waits for a GPU, because no shape depends on a value.
        """
        mass = (weights.double() * FIXED_POINT).round().long()
        cells = (self._block.unsqueeze(dim=1) * self._n_vocabulary + tokens).flatten()
        self.mass.index_add_(0, cells, mass.flatten())
        if not self._groups:
            return
        piece_mass = mass.new_zeros((len(mass), self._n_pieces + 1))  # [B, P + 1]
        piece_mass.scatter_add_(1, self._place[tokens], mass)
        for index, parts in self._groups:  # [q], [q, length]
            part_mass = self._sum_part_mass(state, positions, piece_mass, parts)  # [B, q]
            by_block = mass.new_zeros((self._n_blocks, len(index)))
            self.parts.index_add_(1, index, by_block.index_add_(0, self._block, part_mass))

    def _sum_part_mass(
        self, state: Tensor, positions: Tensor, piece_mass: Tensor, parts: Tensor
    ) -> Tensor:
        """Return the mass [B, q] of the piece that completes a part whose other pieces stand."""
        length = parts.shape[1]
        part_mass = piece_mass.new_zeros((len(state), len(parts)))
        offsets = torch.arange(length, device=state.device)
        for j in range(length):  # the sampled position holds piece j
            places = (positions - j).unsqueeze(1) + offsets  # [B, length]
            fits = ((places >= 0) & (places < state.shape[1])).all(dim=1)
            window = state.gather(1, places.clamp(0, state.shape[1] - 1))
            matches = fits.unsqueeze(1).repeat(1, len(parts))  # [B, q]
            for neighbour in range(length):  # piece by piece: five times as fast as all at once
                if neighbour != j:
                    matches &= window[:, neighbour : neighbour + 1] == parts[:, neighbour]
            part_mass += matches * piece_mass[:, self._place[parts[:, j]]]
        return part_mass


def to_floats(sums: Tensor, *shape: int) -> FloatArray:
    """Return integer sums of a `MassTally` as masses of a shape."""
    floats: FloatArray = (sums.view(shape).double() / FIXED_POINT).cpu().numpy()
    return floats
