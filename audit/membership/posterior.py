"""Scenario 2: the probability that a masked language model gives each name in each passage.

Comes in: one model, templates, the names' word pieces. Goes out: sums of p and of ln p by block
of inputs and by passage. Both models of a pair are given the same task, so the same inputs and,
where their shapes agree, the same dropout masks. Knows no text. Legend: B rows of a micro-batch,
L tokens, M masks, V vocabulary, N names, C names of one layout, P passages, b blocks of a shard.

Source: Nakamura et al., section 4.2; `product` as spec'd there by p(first) * p(last), all masks
at once, normalised over the whole vocabulary. Differs: the published code reads other names'
columns, normalises over the batch and repeats its dropout masks; none of that is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from audit.membership.prompts import Ids, PartPieces, Template
from audit.membership.scores import BLOCK
from audit.models.encoder import logits_at
from audit.randomness import generator, torch_seed

Floats = NDArray[np.float64]
Tick = Callable[[int], None]


@dataclass(frozen=True)
class PosteriorTask:
    """One scenario-2 question, as integers; the same for both models of a pair.

    Attributes
    ----------
    templates
        P passages.
    kind_of_passage
        [P] index into `pieces`.
    pieces
        For each kind of passage the names' word pieces, N names, listed ones first.
    n_listed
        Names for which sums by passage are kept too (reference controls come after them).
    is_dropout_on
        Training mode (the paper's), or evaluation mode, in which equal inputs are run once.
    micro_batch
        Rows of one forward pass; part of the question, since dropout masks depend on it.
    """

    templates: tuple[Template, ...]
    kind_of_passage: Ids
    pieces: tuple[PartPieces, ...]
    n_listed: int
    mask_id: int
    seed: int
    is_dropout_on: bool = True
    micro_batch: int = 32


@dataclass(frozen=True)
class PosteriorShard:
    """Evidence of one model on the inputs of one shard; all sums in float64.

    Attributes
    ----------
    n_inputs
        [b] inputs of each block.
    sum_p, sum_log_p
        [b, N] sums over a block's inputs of p and ln p (nats); NaN for names that cannot be scored.
    passage_n_inputs
        [P] how often each passage was drawn.
    passage_sum_log_p
        [P, n_listed] sums of ln p over the draws of a passage.
    """

    n_inputs: Ids
    sum_p: Floats
    sum_log_p: Floats
    passage_n_inputs: Ids
    passage_sum_log_p: Floats


@dataclass(frozen=True)
class Layout:
    """Names that share a layout of masks: same numbers of pieces, or same total where possible."""

    n_pieces: tuple[int, int]
    columns: Ids  # [C]
    ids: Ids  # [C, M]


@dataclass(frozen=True)
class _Rows:
    """Rows of one forward pass: passages, and how many inputs of each block each row stands for."""

    layout: Layout
    passages: list[int]
    weights: Floats  # [b, B]


def draw_inputs(
    task: PosteriorTask, *, first_block: int, n_inputs: int, purpose: str = "inputs"
) -> list[Ids]:
    """Draw passages with replacement, block by block (section 4.2: S'' from S').

    Returns
    -------
    One array of passage indices per block; the last may be shorter. Block k is the same whatever
    came before it.
    """
    blocks = []
    for block in range(first_block, first_block + -(-n_inputs // BLOCK)):
        n_here = min(BLOCK, n_inputs - (block - first_block) * BLOCK)
        rng = generator(task.seed, purpose, block)
        blocks.append(rng.integers(len(task.templates), size=BLOCK)[:n_here])
    return blocks


def layouts(pieces: PartPieces, *, has_between: bool) -> tuple[Layout, ...]:
    """Group names that can be scored by their layout of masks.

    Where nothing stands between the parts, names with the same total number of pieces share one
    forward pass.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for column in np.flatnonzero(pieces.is_known):
        first, second = (int(n) for n in pieces.n_pieces[column])
        key = (first, second) if has_between and second else (first + second, 0)
        groups.setdefault(key, []).append(int(column))
    result = []
    for key, columns in sorted(groups.items()):
        flat = pieces.ids[columns].reshape(len(columns), -1)
        ids = np.stack([row[row >= 0] for row in flat])  # [C, M]
        result.append(Layout(n_pieces=key, columns=np.array(columns), ids=ids))
    return tuple(result)


def posterior_shard(
    model: nn.Module,
    task: PosteriorTask,
    *,
    shard: int,
    n_shard_inputs: int,
    n_inputs: int,
    device: str,
    tick: Tick,
) -> PosteriorShard:
    """Run one model on the inputs of one shard.

    Parameters
    ----------
    shard, n_shard_inputs
        Which shard, and how many inputs a full one has (a multiple of `BLOCK`).
    n_inputs
        Inputs of this shard; fewer than `n_shard_inputs` only in the last one.
    tick
        Called with the number of rows done after each forward pass; may raise to stop.
    """
    blocks = draw_inputs(task, first_block=shard * n_shard_inputs // BLOCK, n_inputs=n_inputs)
    n_names = len(task.pieces[0].is_known)
    sums = torch.zeros((2, len(blocks), n_names), dtype=torch.float64, device=device)
    by_passage = torch.zeros(
        (len(task.templates), task.n_listed), dtype=torch.float64, device=device
    )
    model.train(mode=task.is_dropout_on)
    try:
        with torch.inference_mode():
            for index, rows in enumerate(_micro_batches(task, blocks)):
                torch.manual_seed(torch_seed(task.seed, "dropout", shard, index))
                log_p = _log_posteriors(model, task, rows, device=device)  # [B, C] float64
                _add(rows, log_p, sums=sums, by_passage=by_passage, n_listed=task.n_listed)
                tick(len(rows.passages))
    finally:
        model.eval()
    unscored = ~torch.from_numpy(_is_scored(task))
    sums[:, :, unscored.to(device)] = torch.nan
    by_passage[:, unscored[: task.n_listed].to(device)] = torch.nan
    return PosteriorShard(
        n_inputs=np.array([len(block) for block in blocks], dtype=np.int64),
        sum_p=sums[0].cpu().numpy(),
        sum_log_p=sums[1].cpu().numpy(),
        passage_n_inputs=np.bincount(np.concatenate(blocks), minlength=len(task.templates)),
        passage_sum_log_p=by_passage.cpu().numpy(),
    )


def n_rows(task: PosteriorTask, *, n_inputs: int) -> int:
    """Return about how many rows `n_inputs` inputs take, for progress."""
    n_layouts = [len(layouts(pieces, has_between=False)) for pieces in task.pieces]
    share = np.bincount(task.kind_of_passage, minlength=len(n_layouts)) / len(task.templates)
    return int(n_inputs * float(np.dot(share, n_layouts)))


def _is_scored(task: PosteriorTask) -> NDArray[np.bool_]:
    known = [task.pieces[kind].is_known for kind in np.unique(task.kind_of_passage)]
    scored: NDArray[np.bool_] = np.logical_and.reduce(known)
    return scored


def _micro_batches(task: PosteriorTask, blocks: Sequence[Ids]) -> Iterator[_Rows]:
    """Split a shard into forward passes of rows of equal length, so that nothing is padded."""
    weights = _row_weights(task, blocks)
    by_kind: list[list[tuple[int, Floats]]] = [[] for _ in task.pieces]
    for passage, weight in weights:
        by_kind[task.kind_of_passage[passage]].append((passage, weight))
    for kind, rows in enumerate(by_kind):
        if not rows:
            continue
        has_between = bool(task.templates[rows[0][0]].between)
        for layout in layouts(task.pieces[kind], has_between=has_between):
            yield from _equal_lengths(task, layout, rows)


def _equal_lengths(
    task: PosteriorTask, layout: Layout, rows: list[tuple[int, Floats]]
) -> Iterator[_Rows]:
    by_length: dict[int, list[tuple[int, Floats]]] = {}
    for passage, weight in rows:
        template = task.templates[passage]
        by_length.setdefault(len(template.left) + len(template.right), []).append((passage, weight))
    for _, same in sorted(by_length.items()):
        for start in range(0, len(same), task.micro_batch):
            chunk = same[start : start + task.micro_batch]
            yield _Rows(layout, [p for p, _ in chunk], np.stack([w for _, w in chunk], axis=1))


def _row_weights(task: PosteriorTask, blocks: Sequence[Ids]) -> list[tuple[int, Floats]]:
    """Return the rows to run, as (passage, inputs it stands for by block [b])."""
    if not task.is_dropout_on:  # equal inputs give equal posteriors: run each passage once
        counts = np.stack([np.bincount(b, minlength=len(task.templates)) for b in blocks])
        return [(int(p), counts[:, p].astype(float)) for p in np.flatnonzero(counts.sum(axis=0))]
    eye = np.eye(len(blocks))
    return [(int(p), eye[k]) for k, block in enumerate(blocks) for p in block]


def _log_posteriors(model: nn.Module, task: PosteriorTask, rows: _Rows, *, device: str) -> Tensor:
    """Return ln p [B, C] of the names of one layout, all their masks at once, in float64."""
    prompts = [
        task.templates[p].ids(rows.layout.n_pieces, mask=task.mask_id) for p in rows.passages
    ]
    ids = torch.tensor([ids for ids, _ in prompts], device=device)  # [B, L]
    positions = torch.tensor([positions for _, positions in prompts], device=device)  # [B, M]
    logits = logits_at(model, ids, positions=positions).float()  # [B, M, V]
    log_p = torch.log_softmax(logits, dim=-1)
    pieces = torch.from_numpy(rows.layout.ids).to(device)  # [C, M]
    total = torch.zeros((len(rows.passages), pieces.shape[0]), dtype=torch.float64, device=device)
    for m in range(pieces.shape[1]):
        total += log_p[:, m].index_select(dim=-1, index=pieces[:, m])  # [B, C]
    return total


def _add(rows: _Rows, log_p: Tensor, *, sums: Tensor, by_passage: Tensor, n_listed: int) -> None:
    """Add a micro-batch to the sums by block [2, b, N] and by passage [P, n_listed]."""
    weights = torch.from_numpy(rows.weights).to(log_p.device)  # [b, B]
    columns = torch.from_numpy(rows.layout.columns).to(log_p.device)
    sums[0].index_add_(1, columns, weights @ log_p.exp())
    sums[1].index_add_(1, columns, weights @ log_p)
    unique, inverse = np.unique(rows.passages, return_inverse=True)
    onto = np.zeros((len(unique), len(rows.passages)))
    onto[inverse, np.arange(len(rows.passages))] = rows.weights.sum(axis=0)
    is_listed = columns < n_listed
    added = torch.from_numpy(onto).to(log_p.device) @ log_p[:, is_listed]  # [U, listed of C]
    where = torch.from_numpy(unique).to(log_p.device)
    by_passage[where.unsqueeze(1), columns[is_listed].unsqueeze(0)] += added
