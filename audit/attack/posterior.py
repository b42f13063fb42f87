"""Scenario 2: the probability of each name in masked passages, and of its parts in a chain.

`posterior_shard` reads all masks of a name at once (`product`: it multiplies two marginals, so it
cannot tell a real name from a recombination of two real ones). `chain_shard` can: p(first) *
p(last | first filled in), mean of both orders in log space. It needs a forward pass for every
distinct part, so it runs on fewer inputs and for the listed names only.

Legend: P passages, N names, b blocks, U distinct parts, B rows of a forward pass, M masks.

Source: Nakamura et al., section 4.2, leaves p(l | s) open; `chain` reads it by the chain rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from torch import Tensor, nn

from audit.attack.prompts import Template, layout_key
from audit.models.forward import logits_at
from audit.names.spelling import NO_PART, NO_PIECE, PartPieces
from audit.rng import generator, torch_seed
from audit.stats import DRAW, BoolArray, FloatArray, IntArray, blocks_of

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
    kind_of_passage: IntArray
    pieces: tuple[PartPieces, ...]
    part_columns: IntArray
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

    n_inputs: IntArray
    sum_p: FloatArray
    sum_log_p: FloatArray
    passage_n_inputs: IntArray
    passage_sum_log_p: FloatArray


def draw_inputs(
    task: PosteriorTask, *, first: int, n_inputs: int, purpose: str = "inputs"
) -> list[IntArray]:
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
    begins = np.flatnonzero(np.diff(blocks_of(first, n_inputs), prepend=-1))
    return np.split(np.concatenate(drawn)[:n_inputs], begins[1:]) if drawn else []


@contextmanager
def _dropout(model: nn.Module, *, is_on: bool) -> Iterator[None]:
    model.train(mode=is_on)
    try:
        with torch.inference_mode():
            yield
    finally:
        model.eval()


def _unscored(task: PosteriorTask) -> BoolArray:
    """Which listed names cannot be scored, in some kind of passage, drawn or not."""
    return np.asarray((task.part_columns[: task.n_listed] == NO_PART).all(axis=1))


def _shard(
    task: PosteriorTask,
    blocks: Sequence[IntArray],
    p: FloatArray,
    log_p: FloatArray,
    by_passage: FloatArray,
) -> PosteriorShard:
    p[:, _unscored(task)] = np.nan
    by_passage[:, _unscored(task)] = np.nan
    return PosteriorShard(
        n_inputs=np.array([len(block) for block in blocks], dtype=np.int64),
        sum_p=p,
        sum_log_p=log_p,
        passage_n_inputs=np.bincount(np.concatenate(blocks), minlength=len(task.templates)),
        passage_sum_log_p=by_passage,
    )


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
        [3, K] which pieces are read: place in `parts`, mask, piece.
    listed, pairs
        [C] listed names, and [C, 2] the places of their parts in `parts`; G for a missing one.
    """

    n_pieces: tuple[int, int]
    parts: IntArray
    reads: IntArray
    listed: IntArray
    pairs: IntArray


def layouts(task: PosteriorTask, kind: int) -> list[Layout]:
    """Group the names of one kind of passage by their layout of masks.

    Where nothing stands between the parts, names with the same total number of pieces share one
    forward pass.
    """
    pieces = task.pieces[kind]
    template = task.templates[int(np.flatnonzero(task.kind_of_passage == kind)[0])]
    groups: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(task.part_columns.max(axis=1) != NO_PART).tolist():
        key = layout_key(pieces.n_pieces[row], has_between=bool(template.between))
        groups.setdefault(key, []).append(row)
    return [_layout(task, pieces, key, rows) for key, rows in sorted(groups.items())]


def _layout(
    task: PosteriorTask, pieces: PartPieces, key: tuple[int, int], rows: list[int]
) -> Layout:
    place: dict[int, int] = {}  # column of evidence -> place in `parts`
    reads: list[tuple[int, int, int]] = []
    for row in rows:
        mask = 0
        for slot, n in enumerate(pieces.n_pieces[row].tolist()):
            role = int(pieces.roles[row, slot])
            column = int(task.part_columns[row, role])
            if role != NO_PART and column not in place:
                at = place[column] = len(place)
                spelled = pieces.ids[row, slot, :n].tolist()
                reads += [(at, mask + m, piece) for m, piece in enumerate(spelled)]
            mask += n
    listed = [row for row in rows if row < task.n_listed]
    pairs = [[place.get(int(c), len(place)) for c in task.part_columns[row]] for row in listed]
    return Layout(
        n_pieces=key,
        parts=np.array(list(place), dtype=np.int64),
        reads=np.array(reads, dtype=np.int64).T,
        listed=np.array(listed, dtype=np.int64),
        pairs=np.array(pairs, dtype=np.int64).reshape(-1, 2),
    )


def posterior_shard(
    model: nn.Module,
    task: PosteriorTask,
    *,
    shard: int,
    first: int,
    n: int,
    device: str,
    tick: Tick,
) -> PosteriorShard:
    """Run one model on the inputs of one shard.

    Parameters
    ----------
    shard, first, n
        Which shard, its first input (a multiple of `DRAW`) and how many it has.
    tick
        Called with the number of rows done after each forward pass; may raise to stop.
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

    def on_device(array: IntArray | FloatArray) -> Tensor:
        return torch.from_numpy(array).to(device)

    with _dropout(model, is_on=task.is_dropout_on):
        for index, (layout, passages, weights) in enumerate(_micro_batches(task, blocks)):
            torch.manual_seed(torch_seed(task.seed, "dropout", shard, index))
            log_p = _log_posteriors(model, task, layout, passages, device=device)  # [B, G]
            parts.index_add_(1, on_device(layout.parts), on_device(weights) @ log_p)
            padded = torch.nn.functional.pad(log_p, (0, 1))  # [B, G + 1]
            both = padded[:, on_device(layout.pairs)].sum(dim=-1)  # [B, C]
            listed = on_device(layout.listed)
            names.index_add_(1, listed, on_device(weights) @ both.exp())
            unique, inverse = np.unique(passages, return_inverse=True)
            onto = np.take(np.eye(len(unique)), inverse, axis=1) * weights.sum(
                axis=0
            )  # [passages here, B]
            by_passage[on_device(unique)[:, None], listed] += on_device(onto) @ both
            tick(len(passages))
    return _shard(task, blocks, names.cpu().numpy(), parts.cpu().numpy(), by_passage.cpu().numpy())


def _micro_batches(
    task: PosteriorTask, blocks: Sequence[IntArray]
) -> Iterator[tuple[Layout, IntArray, FloatArray]]:
    """Yield forward passes of rows of equal length, so that nothing is padded.

    Each is a layout, passages [B], and how many inputs of each block each row stands for [b, B].
    """
    if task.is_dropout_on:
        passages = np.concatenate(blocks)
        weights = np.repeat(np.eye(len(blocks)), [len(block) for block in blocks], axis=1)
    else:  # equal inputs give equal posteriors: run each passage once
        passages = np.unique(np.concatenate(blocks))
        weights = np.array([(block[:, None] == passages).sum(axis=0) for block in blocks], float)
    lengths = np.array([len(task.templates[p].left) + len(task.templates[p].right)
                        for p in passages])  # fmt: skip
    kinds = task.kind_of_passage[passages]
    for kind in np.unique(kinds).tolist():
        for layout in layouts(task, kind):
            for length in np.unique(lengths[kinds == kind]):
                same = np.flatnonzero((kinds == kind) & (lengths == length))
                for start in range(0, len(same), task.micro_batch):
                    rows = same[start : start + task.micro_batch]
                    yield layout, passages[rows], np.take(weights, rows, axis=1)


def _log_posteriors(
    model: nn.Module, task: PosteriorTask, layout: Layout, passages: IntArray, *, device: str
) -> Tensor:
    """Return ln p [B, G] of the parts of one layout, all masks at once, in float64."""
    prompts = [task.templates[p].ids(layout.n_pieces, mask=task.mask_id) for p in passages]
    ids, positions = (torch.tensor(column, device=device) for column in zip(*prompts, strict=True))
    log_p = torch.log_softmax(logits_at(model, ids, positions=positions).float(), dim=-1)
    found = torch.zeros((len(passages), len(layout.parts)), dtype=torch.float64, device=device)
    place, mask, piece = torch.from_numpy(layout.reads).to(device)
    read = log_p.flatten(1).index_select(1, mask * log_p.shape[-1] + piece)  # [B, K]
    return found.index_add_(1, place, read.double())


def n_rows(task: PosteriorTask, *, n_inputs: int) -> int:
    """Return about how many rows `n_inputs` inputs take, for progress."""
    kinds, n = np.unique(task.kind_of_passage, return_counts=True)
    n_layouts = [len(layouts(task, kind)) for kind in kinds.tolist()]
    return int(n_inputs * float((n / n.sum()) @ np.array(n_layouts)))


@dataclass(frozen=True)
class _Variants:
    """What to run for C names with the same numbers of pieces (a, b), and what to read there.

    `fills` [R, a + b] are the pieces to fill in (`NO_PIECE`: a mask); `reads` [4, K] the place in
    `names`, row, mask and piece.
    """

    names: IntArray
    n_pieces: tuple[int, int]
    fills: IntArray
    reads: IntArray


def _variants(pieces: PartPieces, *, n_names: int) -> Iterator[_Variants]:
    """Row 0 masks all; then each distinct part is filled in."""
    known = np.flatnonzero(pieces.is_known[:n_names])
    for a, b in np.unique(pieces.n_pieces[known], axis=0).tolist():
        names = known[(pieces.n_pieces[known] == (a, b)).all(axis=1)]
        first, last = pieces.ids[names, 0, :a], pieces.ids[names, 1, :b]
        row = np.zeros(len(names), dtype=np.int64)
        fills = np.full((1, a + b), NO_PIECE, dtype=np.int64)
        # A name of one part has no order: both halves are p(name).
        asked = [(row, 0, first), (row, a, last) if b else (row, 0, first)]
        for filled, begin, other, at in ((first, 0, last, a), (last, a, first, 0)) if b else ():
            distinct, inverse = np.unique(filled, axis=0, return_inverse=True)
            variant = np.full((len(distinct), a + b), NO_PIECE, dtype=np.int64)
            variant[:, begin : begin + filled.shape[1]] = distinct
            asked.append((len(fills) + inverse.reshape(-1), at, other))
            fills = np.concatenate([fills, variant])
        place = np.arange(len(names))
        reads = [
            np.stack([place, of_row, np.full_like(place, at + m), ids[:, m]])
            for of_row, at, ids in asked
            for m in range(ids.shape[1])
        ]
        yield _Variants(names, (a, b), fills, np.concatenate(reads, axis=1))


def chain_shard(
    model: nn.Module,
    task: PosteriorTask,
    *,
    shard: int,
    first: int,
    n: int,
    device: str,
    tick: Tick,
) -> PosteriorShard:
    """Run one model on the inputs of one shard; parameters as in `posterior_shard`.

    The sums hold exp(ln chain) and ln chain of the listed names ([b, n_listed]).
    """
    blocks = draw_inputs(task, first=first, n_inputs=n, purpose="chain inputs")
    variants = [list(_variants(pieces, n_names=task.n_listed)) for pieces in task.pieces]
    passes = count()

    def log_p(rows: IntArray, positions: list[int]) -> Tensor:
        torch.manual_seed(torch_seed(task.seed, "chain dropout", shard, next(passes)))
        where = torch.tensor([positions], device=device).expand(len(rows), -1)
        logits = logits_at(model, torch.from_numpy(rows).to(device), positions=where)
        tick(len(rows))
        return torch.log_softmax(logits.float(), dim=-1)  # [B, M, V]

    def log_chain(passage: int) -> FloatArray:
        """Return ln chain [n_listed] of one input; NaN: cannot be scored."""
        found = np.full(task.n_listed, np.nan)
        for one in variants[task.kind_of_passage[passage]]:
            ids, positions = task.templates[passage].ids(one.n_pieces, mask=task.mask_id)
            rows = np.tile(np.array(ids), (len(one.fills), 1))  # [R, L]
            rows[:, positions] = np.where(one.fills == NO_PIECE, task.mask_id, one.fills)
            total = torch.zeros(len(one.names), dtype=torch.float64, device=device)
            for start in range(0, len(rows), task.micro_batch):
                chunk = log_p(rows[start : start + task.micro_batch], positions)
                row = one.reads[1]
                here = one.reads[:, (row >= start) & (row < start + len(chunk))]
                place, row, mask, piece = torch.from_numpy(here).to(device)
                total.index_add_(0, place, 0.5 * chunk[row - start, mask, piece].double())
            found[one.names] = total.cpu().numpy()
        found[_unscored(task)] = np.nan
        return found

    sums = np.zeros((2, len(blocks), task.n_listed))
    by_passage = np.zeros((len(task.templates), task.n_listed))
    known: dict[int, FloatArray] = {}
    with _dropout(model, is_on=task.is_dropout_on):
        for block, passages in enumerate(blocks):
            for passage in passages.tolist():
                if task.is_dropout_on or passage not in known:
                    known[passage] = log_chain(passage)
                sums[:, block] += np.exp(known[passage]), known[passage]
                by_passage[passage] += known[passage]
    return _shard(task, blocks, sums[0], sums[1], by_passage)


def n_chain_rows(task: PosteriorTask, *, n_inputs: int) -> int:
    """Return about how many rows `n_inputs` inputs take, for progress."""
    return n_inputs * max(
        sum(len(one.fills) for one in _variants(pieces, n_names=task.n_listed))
        for pieces in task.pieces
    )
