"""Scenario 2: the probability of each name in masked passages, and of its parts in a chain.

`make_posterior_shard` reads all masks of a name at once (`product`: it multiplies two marginals, so
it cannot tell a real name from a recombination of two real ones). `make_chain_shard` can: p(first)
* p(last | first filled in), mean of both orders in log space. It needs a forward pass for every
distinct part, so it runs on fewer inputs and for the listed names only.

Legend: P passages, N names, b blocks, U distinct parts, B rows of a forward pass, M masks.

Source: Nakamura et al., section 4.2. The paper leaves p(l | s) open; `chain` is the chain rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from audit.attack.prompts import Layout, PosteriorTask, yield_variants
from audit.models.forward import Forward
from audit.names.spelling import NO_PART, NO_PIECE
from audit.rng import generator, torch_seed
from audit.stats import DRAW_SIZE, BoolArray, FloatArray, IntArray, assign_blocks

Tick = Callable[[int], None]


def _empty_array() -> Any:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class PosteriorShard:
    """Evidence of one model on the inputs of one shard; sums are in float64 unless noted."""

    # Arrays that are not needed are empty. [b] inputs of each block.
    n_inputs: IntArray = field(default_factory=_empty_array)
    # [b, n_listed] sums over a block's inputs of a listed name's p; NaN: cannot be scored.
    sum_p: FloatArray = field(default_factory=_empty_array)
    # [b, U] sums of a part's ln p (nats); of `chain` [b, n_listed], a listed name's.
    sum_log_p: FloatArray = field(default_factory=_empty_array)
    # [P] how often each passage was drawn; [P, n_listed] sums of ln p over its draws.
    passage_n_inputs: IntArray = field(default_factory=_empty_array)
    passage_sum_log_p: FloatArray = field(default_factory=_empty_array)
    # For names of two single pieces, listed or not: [c] inputs of coarse blocks, and
    # [c, kinds, 2, V] sums of every token's ln p at their masks in passages of each kind, in single
    # precision. Empty if no such name is read.
    vocabulary_n_inputs: IntArray = field(default_factory=_empty_array)
    vocabulary: NDArray[np.float32] = field(default_factory=_empty_array)


def draw_inputs(
    task: PosteriorTask, *, first: int, n_inputs: int, purpose: str = "inputs"
) -> list[IntArray]:
    """Draw passages with replacement (section 4.2: S'' from S'), one array of indices per block.

    Input k does not depend on the inputs before it or on their number; `first` is a multiple of
    `DRAW_SIZE`.
    """
    chunks = [
        generator(task.seed, purpose, number).integers(len(task.templates), size=DRAW_SIZE)
        for number in range(first // DRAW_SIZE, -(-(first + n_inputs) // DRAW_SIZE))
    ]
    begins = np.flatnonzero(np.diff(assign_blocks(first, n_inputs), prepend=-1))
    return np.split(np.concatenate(chunks)[:n_inputs], begins[1:]) if chunks else []


def _unscored_mask(task: PosteriorTask) -> BoolArray:
    """Return which listed names cannot be scored in some kind of passage, drawn or not."""
    return np.asarray((task.part_columns[: task.n_listed] == NO_PART).all(axis=1))


def _make_shard(
    task: PosteriorTask,
    blocks: Sequence[IntArray],
    p: FloatArray,
    log_p: FloatArray,
    by_passage: FloatArray,
) -> PosteriorShard:
    p[:, _unscored_mask(task)] = np.nan
    by_passage[:, _unscored_mask(task)] = np.nan
    return PosteriorShard(
        n_inputs=np.array([len(block) for block in blocks], dtype=np.int64),
        sum_p=p,
        sum_log_p=log_p,
        passage_n_inputs=np.bincount(np.concatenate(blocks), minlength=len(task.templates)),
        passage_sum_log_p=by_passage,
    )


def make_posterior_shard(
    forward: Forward,
    task: PosteriorTask,
    *,
    shard: int,
    first: int,
    n: int,
    device: str,
    tick: Tick,
) -> PosteriorShard:
    """Run one model on the inputs of one shard.

    `shard` is the shard's number, `first` its first input (a multiple of `DRAW_SIZE`) and `n` its
    number of inputs. `tick` is called with the number of rows done after each forward pass; it may
    raise to stop.
    """
    blocks = draw_inputs(task, first=first, n_inputs=n)
    n_parts = int(task.part_columns.max(initial=-1)) + 1
    parts, names, by_passage = (
        torch.zeros(shape, dtype=torch.float64, device=device)
        for shape in (
            (len(blocks), n_parts),
            (len(blocks), task.n_listed),
            (len(task.templates), task.n_listed),
        )
    )

    vocabulary = _Vocabulary(task, first=first, n=n)

    def on_device(array: IntArray | FloatArray) -> Tensor:
        return torch.from_numpy(array).to(device)

    for place, layout, passages, weights in _micro_batches(task, blocks):
        seed = torch_seed(task.seed, "dropout", shard, *place) if task.is_dropout_on else None
        log_all = _log_posteriors(forward, task, layout, passages, dropout=seed)  # [B, M, V]
        vocabulary.add(log_all, kind=place[0], layout=layout, weights=weights)
        log_p = _sum_pieces(log_all, layout)  # [B, G]
        parts.index_add_(1, on_device(layout.parts), on_device(weights) @ log_p)
        padded = torch.nn.functional.pad(log_p, (0, 1))  # [B, G + 1]
        name_log_p = padded[:, on_device(layout.pairs)].sum(dim=-1)  # [B, C]
        listed = on_device(layout.listed)
        names.index_add_(1, listed, on_device(weights) @ name_log_p.exp())
        unique, inverse = np.unique(passages, return_inverse=True)
        passage_weights = np.take(np.eye(len(unique)), inverse, axis=1) * weights.sum(
            axis=0
        )  # [passages here, B]
        by_passage[on_device(unique)[:, None], listed] += on_device(passage_weights) @ name_log_p
        tick(len(passages))
    evidence = _make_shard(task, blocks, *(x.cpu().numpy() for x in (names, parts, by_passage)))
    return replace(evidence, **vocabulary.shard_fields())


class _Vocabulary:
    """Sums of every token's ln p at the masks of names of two single pieces, by coarse block."""

    def __init__(self, task: PosteriorTask, *, first: int, n: int) -> None:
        self._task = task
        fine, coarse = assign_blocks(first, n), assign_blocks(first, n, is_coarse=True)
        first_of = np.flatnonzero(np.diff(fine, prepend=-1))  # input of each fine block
        self._begins = np.unique(coarse[first_of], return_index=True)[1]
        self._n_inputs = np.bincount(coarse)
        self._sums: dict[int, Tensor] = {}  # kind -> [c, M, V]

    def add(self, log_p: Tensor, *, kind: int, layout: Layout, weights: FloatArray) -> None:
        """Add a forward pass: ln p [B, M, V], and the inputs of each block per row [b, B]."""
        if not self._task.reads_vocabulary or layout.n_pieces != self._task.pairs[kind]:
            return
        by_block = torch.from_numpy(np.add.reduceat(weights, self._begins)).to(log_p.device)
        block_sums = (by_block @ log_p.double().flatten(1)).view(-1, *log_p.shape[1:])
        self._sums[kind] = self._sums[kind] + block_sums if kind in self._sums else block_sums

    def shard_fields(self) -> dict[str, NDArray[Any]]:
        """Return the shard's fields of the vocabulary."""
        if not self._sums:
            return {}
        n_tokens = next(iter(self._sums.values())).shape[-1]
        sums = np.zeros((len(self._n_inputs), len(self._task.pairs), 2, n_tokens), dtype=np.float32)
        for kind, kind_sums in self._sums.items():
            sums[:, kind, : kind_sums.shape[1]] = kind_sums.cpu().numpy()
        return {"vocabulary_n_inputs": self._n_inputs, "vocabulary": sums}


Place = tuple[int, int, int, int, int]
"""Kind of passage, layout of masks, length and first row of a forward pass."""


def _micro_batches(
    task: PosteriorTask, blocks: Sequence[IntArray]
) -> Iterator[tuple[Place, Layout, IntArray, FloatArray]]:
    """Yield forward passes of rows of equal length, so that nothing is padded.

    Each is a place, a layout, passages [B], and how many inputs of each block a row stands for [b,
    B]. Random draws depend on the place alone, whatever other layouts a list has.
    """
    if task.is_dropout_on:
        passages = np.concatenate(blocks)
        weights = np.repeat(np.eye(len(blocks)), [len(block) for block in blocks], axis=1)
    else:  # equal inputs give equal posteriors: run each passage once
        passages = np.unique(np.concatenate(blocks))
        weights = np.array([(block[:, None] == passages).sum(axis=0) for block in blocks], float)
    lengths = np.array(
        [len(task.templates[p].left) + len(task.templates[p].right) for p in passages]
    )
    kinds = task.kind_of_passage[passages]
    for kind in np.unique(kinds).tolist():
        for layout in task.layouts[kind]:
            for length in np.unique(lengths[kinds == kind]).tolist():
                kind_rows = np.flatnonzero((kinds == kind) & (lengths == length))
                for start in range(0, len(kind_rows), task.micro_batch):
                    rows = kind_rows[start : start + task.micro_batch]
                    place = (kind, *layout.n_pieces, length, start)
                    yield place, layout, passages[rows], np.take(weights, rows, axis=1)


def _log_posteriors(
    forward: Forward,
    task: PosteriorTask,
    layout: Layout,
    passages: IntArray,
    *,
    dropout: int | None,
) -> Tensor:
    """Return ln p [B, M, V] of every token at the masks of one layout, all masks at once."""
    prompts = [task.templates[p].ids(layout.n_pieces, mask=task.mask_id) for p in passages]
    device = forward.device
    ids, positions = (torch.tensor(column, device=device) for column in zip(*prompts, strict=True))
    logits = forward.logits(ids, positions=positions, dropout=dropout)
    return torch.log_softmax(logits.float(), dim=-1)


def _sum_pieces(log_p: Tensor, layout: Layout) -> Tensor:
    """Return ln p [B, G] of the parts of a layout, in float64, from ln p [B, M, V]."""
    part_log_p = log_p.new_zeros((len(log_p), len(layout.parts)), dtype=torch.float64)
    place, mask, piece = torch.from_numpy(layout.reads).to(log_p.device)
    read = log_p.flatten(1).index_select(1, mask * log_p.shape[-1] + piece)  # [B, K]
    return part_log_p.index_add_(1, place, read.double())


def make_chain_shard(
    forward: Forward,
    task: PosteriorTask,
    *,
    shard: int,
    first: int,
    n: int,
    device: str,
    tick: Tick,
) -> PosteriorShard:
    """Run one model on the inputs of one shard; parameters as in `make_posterior_shard`.

    The sums hold exp(ln chain) and ln chain of the listed names ([b, n_listed]).
    """
    blocks = draw_inputs(task, first=first, n_inputs=n, purpose="chain inputs")
    variants = [list(yield_variants(pieces, n_names=task.n_listed)) for pieces in task.pieces]
    passes = count()

    def log_p(rows: IntArray, positions: list[int]) -> Tensor:
        seed = torch_seed(task.seed, "chain dropout", shard, next(passes))
        mask_positions = torch.tensor([positions], device=device).expand(len(rows), -1)
        logits = forward.logits(
            torch.from_numpy(rows).to(device),
            positions=mask_positions,
            dropout=seed if task.is_dropout_on else None,
        )
        tick(len(rows))
        return torch.log_softmax(logits.float(), dim=-1)  # [B, M, V]

    def log_chain(passage: int) -> FloatArray:
        """Return ln chain [n_listed] of one input; NaN: cannot be scored."""
        chains = np.full(task.n_listed, np.nan)
        for variant in variants[task.kind_of_passage[passage]]:
            ids, positions = task.templates[passage].ids(variant.n_pieces, mask=task.mask_id)
            rows = np.tile(np.array(ids), (len(variant.fills), 1))  # [R, L]
            rows[:, positions] = np.where(variant.fills == NO_PIECE, task.mask_id, variant.fills)
            total = torch.zeros(len(variant.names), dtype=torch.float64, device=device)
            for start in range(0, len(rows), task.micro_batch):
                chunk = log_p(rows[start : start + task.micro_batch], positions)
                row = variant.reads[1]
                chunk_reads = variant.reads[:, (row >= start) & (row < start + len(chunk))]
                place, row, mask, piece = torch.from_numpy(chunk_reads).to(device)
                total.index_add_(0, place, 0.5 * chunk[row - start, mask, piece].double())
            chains[variant.names] = total.cpu().numpy()
        chains[_unscored_mask(task)] = np.nan
        return chains

    sums = np.zeros((2, len(blocks), task.n_listed))
    by_passage = np.zeros((len(task.templates), task.n_listed))
    chains_of_passage: dict[int, FloatArray] = {}
    for block, passages in enumerate(blocks):
        for passage in passages.tolist():
            if task.is_dropout_on or passage not in chains_of_passage:
                chains_of_passage[passage] = log_chain(passage)
            sums[:, block] += np.exp(chains_of_passage[passage]), chains_of_passage[passage]
            by_passage[passage] += chains_of_passage[passage]
    return _make_shard(task, blocks, sums[0], sums[1], by_passage)
