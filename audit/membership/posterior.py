"""Scenario 2: the probability that a masked language model gives each name in each passage.

Comes in: one model, templates, the names' word pieces. Goes out: sums of ln p of every *part* of a
name by block of inputs, and of whole listed names by block and by passage. Both models of a pair
are given the same task, so the same inputs and, where their shapes agree, the same dropout masks.
Knows no text. Legend: B rows of a micro-batch, L tokens, M masks, V vocabulary, N names, U distinct
parts, G parts and C listed names of one layout, P passages, b blocks of a shard.

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

from audit.membership.prompts import NO_PART, Ids, PartPieces, Template, layout_key
from audit.membership.scores import DRAW, blocks_of
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
    part_columns
        [N, 2] each name's first and last part as a column 0 to U-1; -1: none
        (`prompts.part_columns`).
    n_listed
        Names whose whole is kept too (reference controls, known by their parts, come after them).
    is_dropout_on
        Training mode (the paper's), or evaluation mode, in which equal inputs are run once.
    micro_batch
        Rows of one forward pass; part of the question, since dropout masks depend on it.
    """

    templates: tuple[Template, ...]
    kind_of_passage: Ids
    pieces: tuple[PartPieces, ...]
    part_columns: Ids
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
    sum_p
        [b, n_listed] sums over a block's inputs of a listed name's p; NaN: cannot be scored.
    sum_log_p
        [b, U] sums of a part's ln p (nats); of `chain` [b, n_listed], a listed name's.
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
    """What to read where names have one layout of masks: G distinct parts, C listed names.

    Attributes
    ----------
    n_pieces
        Masks before and after what stands between the parts.
    parts
        [G] columns of evidence.
    reads
        Parts that stand at the same masks: (first mask, places in `parts` [g], pieces [g, m]).
    listed, pairs
        [C] listed names, and [C, 2] the places of their parts in `parts`; G for a missing one.
    """

    n_pieces: tuple[int, int]
    parts: Ids
    reads: tuple[tuple[int, Ids, Ids], ...]
    listed: Ids
    pairs: Ids


@dataclass(frozen=True)
class _Rows:
    """Rows of one forward pass: passages, and how many inputs of each block each row stands for."""

    layout: Layout
    passages: list[int]
    weights: Floats  # [b, B]


def draw_inputs(
    task: PosteriorTask, *, first: int, n_inputs: int, purpose: str = "inputs"
) -> list[Ids]:
    """Draw passages with replacement (section 4.2: S'' from S'), block by block.

    Returns
    -------
    One array of passage indices per block of evidence. Input k is the same whatever came before it
    and however many come after; `first` is a multiple of `DRAW`.
    """
    drawn = [
        generator(task.seed, purpose, number).integers(len(task.templates), size=DRAW)
        for number in range(first // DRAW, -(-(first + n_inputs) // DRAW))
    ]
    block = blocks_of(first, n_inputs)
    inputs = np.concatenate(drawn)[:n_inputs] if drawn else np.zeros(0, dtype=np.int64)
    return [inputs[block == b] for b in range(block[-1] + 1 if n_inputs else 0)]


def layouts(task: PosteriorTask, kind: int) -> tuple[Layout, ...]:
    """Group the names of one kind of passage by their layout of masks.

    Where nothing stands between the parts, names with the same total number of pieces share one
    forward pass.
    """
    pieces = task.pieces[kind]
    template = task.templates[int(np.flatnonzero(task.kind_of_passage == kind)[0])]
    groups: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(task.part_columns.max(axis=1) != NO_PART):
        key = layout_key(pieces.n_pieces[row], has_between=bool(template.between))
        groups.setdefault(key, []).append(int(row))
    return tuple(_layout(task, pieces, key, rows) for key, rows in sorted(groups.items()))


def _layout(
    task: PosteriorTask, pieces: PartPieces, key: tuple[int, int], rows: list[int]
) -> Layout:
    place: dict[int, int] = {}  # column of evidence -> place in `parts`
    reads: dict[tuple[int, int], tuple[list[int], list[Ids]]] = {}
    for row in rows:
        n_first, n_second = (int(n) for n in pieces.n_pieces[row])
        for slot, (start, n) in enumerate(((0, n_first), (n_first, n_second))):
            role = int(pieces.roles[row, slot])
            column = int(task.part_columns[row, role])
            if role == NO_PART or column in place:
                continue
            place[column] = len(place)
            where, ids = reads.setdefault((start, n), ([], []))
            where.append(place[column])
            ids.append(pieces.ids[row, slot, :n])
    listed = np.array([row for row in rows if row < task.n_listed], dtype=np.int64)
    found = [[place.get(int(c), len(place)) for c in task.part_columns[row]] for row in listed]
    return Layout(
        n_pieces=key,
        parts=np.array(list(place), dtype=np.int64),
        reads=tuple((at, np.array(w), np.stack(ids)) for (at, _), (w, ids) in reads.items()),
        listed=listed,
        pairs=np.array(found, dtype=np.int64).reshape(-1, 2),
    )


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
        Which shard, and how many inputs a full one has (a multiple of `DRAW`).
    n_inputs
        Inputs of this shard; fewer than `n_shard_inputs` only in the last one.
    tick
        Called with the number of rows done after each forward pass; may raise to stop.
    """
    blocks = draw_inputs(task, first=shard * n_shard_inputs, n_inputs=n_inputs)
    n_parts = int(task.part_columns.max(initial=-1)) + 1

    def zeros(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=device)

    parts, names = zeros(len(blocks), n_parts), zeros(len(blocks), task.n_listed)
    by_passage = zeros(len(task.templates), task.n_listed)
    model.train(mode=task.is_dropout_on)
    try:
        with torch.inference_mode():
            for index, rows in enumerate(_micro_batches(task, blocks)):
                torch.manual_seed(torch_seed(task.seed, "dropout", shard, index))
                log_p = _log_posteriors(model, task, rows, device=device)  # [B, G] float64
                _add(rows, log_p, parts=parts, names=names, by_passage=by_passage)
                tick(len(rows.passages))
    finally:
        model.eval()
    unscored = torch.from_numpy((task.part_columns[: task.n_listed] == NO_PART).all(axis=1))
    names[:, unscored.to(device)] = torch.nan
    by_passage[:, unscored.to(device)] = torch.nan
    return PosteriorShard(
        n_inputs=np.array([len(block) for block in blocks], dtype=np.int64),
        sum_p=names.cpu().numpy(),
        sum_log_p=parts.cpu().numpy(),
        passage_n_inputs=np.bincount(np.concatenate(blocks), minlength=len(task.templates)),
        passage_sum_log_p=by_passage.cpu().numpy(),
    )


def n_rows(task: PosteriorTask, *, n_inputs: int) -> int:
    """Return about how many rows `n_inputs` inputs take, for progress."""
    kinds = np.unique(task.kind_of_passage)
    n_layouts = np.array([len(layouts(task, int(kind))) for kind in kinds])
    share = np.array([(task.kind_of_passage == kind).mean() for kind in kinds])
    return int(n_inputs * float(share @ n_layouts))


def _micro_batches(task: PosteriorTask, blocks: Sequence[Ids]) -> Iterator[_Rows]:
    """Split a shard into forward passes of rows of equal length, so that nothing is padded."""
    weights = _row_weights(task, blocks)
    by_kind: list[list[tuple[int, Floats]]] = [[] for _ in task.pieces]
    for passage, weight in weights:
        by_kind[task.kind_of_passage[passage]].append((passage, weight))
    for kind, rows in enumerate(by_kind):
        if not rows:
            continue
        for layout in layouts(task, kind):
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
    """Return ln p [B, G] of the parts of one layout, all masks at once, in float64."""
    prompts = [
        task.templates[p].ids(rows.layout.n_pieces, mask=task.mask_id) for p in rows.passages
    ]
    ids = torch.tensor([ids for ids, _ in prompts], device=device)  # [B, L]
    positions = torch.tensor([positions for _, positions in prompts], device=device)  # [B, M]
    logits = logits_at(model, ids, positions=positions).float()  # [B, M, V]
    log_p = torch.log_softmax(logits, dim=-1)
    found = torch.zeros(
        (len(rows.passages), len(rows.layout.parts)), dtype=torch.float64, device=device
    )
    for start, where, pieces in rows.layout.reads:
        places, spelled = (torch.from_numpy(x).to(device) for x in (where, pieces))  # [g], [g, m]
        for m in range(spelled.shape[1]):
            found[:, places] += log_p[:, start + m].index_select(dim=-1, index=spelled[:, m])
    return found


def _add(rows: _Rows, log_p: Tensor, *, parts: Tensor, names: Tensor, by_passage: Tensor) -> None:
    """Add a micro-batch: ln p of parts [b, U], p of listed names [b, n_listed], and by passage."""
    device = log_p.device
    weights = torch.from_numpy(rows.weights).to(device)  # [b, B]
    parts.index_add_(1, torch.from_numpy(rows.layout.parts).to(device), weights @ log_p)
    listed = torch.from_numpy(rows.layout.listed).to(device)  # [C]
    nothing = torch.zeros((len(log_p), 1), dtype=log_p.dtype, device=device)
    by_place = torch.cat([log_p, nothing], dim=1)  # [B, G + 1]
    both = by_place[:, torch.from_numpy(rows.layout.pairs).to(device)].sum(dim=-1)  # [B, C]
    names.index_add_(1, listed, weights @ both.exp())
    unique, inverse = np.unique(rows.passages, return_inverse=True)
    onto = np.zeros((len(unique), len(rows.passages)))
    onto[inverse, np.arange(len(rows.passages))] = rows.weights.sum(axis=0)
    added = torch.from_numpy(onto).to(device) @ both  # [passages here, C]
    where = torch.from_numpy(unique).to(device)
    by_passage[where.unsqueeze(1), listed.unsqueeze(0)] += added
