"""Scenario 2, `chain`: p(first) * p(last | first filled in), mean of both orders in log space.

`product` multiplies two marginals, so it cannot tell a real name from a recombination of two real
ones; `chain` can. It needs a forward pass for every distinct part, so it runs on fewer inputs and
for the listed names only. Comes in and goes out: as in `posterior.py`. Legend: R rows (variants of
one passage: nothing filled in, or one part), M masks, N names.

Source: Nakamura et al., section 4.2, leaves p(l | s) open; this is the reading by the chain rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from audit.attack.prompts import Template, layout_key
from audit.attack.scores import DRAW
from audit.models.forward import logits_at
from audit.names.spelling import NO_PART, Ids, PartPieces
from audit.rng import generator, torch_seed
from audit.stats import blocks_of

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


@dataclass(frozen=True)
class _Terms:
    """What to read for C names: in row `row[c]` the pieces `ids[c]` of part `part`."""

    part: int
    row: Ids  # [C]
    ids: Ids  # [C, m]


@dataclass(frozen=True)
class _Plan:
    """All variants for names with the same numbers of pieces (a, b)."""

    columns: Ids  # [C]
    n_pieces: tuple[int, int]
    fills: Ids  # [R, a + b]: piece to fill in, or NO_PIECE for a mask
    terms: tuple[_Terms, ...]


def chain_shard(
    model: nn.Module,
    task: PosteriorTask,
    *,
    shard: int,
    n_shard_inputs: int,
    n_inputs: int,
    device: str,
    tick: Tick,
) -> PosteriorShard:
    """Run one model on the inputs of one shard; parameters as in `posterior_shard`.

    The sums hold exp(ln chain) and ln chain of the listed names ([b, n_listed]).
    """
    blocks = draw_inputs(
        task, first=shard * n_shard_inputs, n_inputs=n_inputs, purpose="chain inputs"
    )
    plans = [_plans(pieces, n_names=task.n_listed) for pieces in task.pieces]
    sums = np.zeros((2, len(blocks), task.n_listed))
    by_passage = np.zeros((len(task.templates), task.n_listed))
    model.train(mode=task.is_dropout_on)
    known: dict[int, Floats] = {}
    pass_index = 0
    try:
        with torch.inference_mode():
            for block, passages in enumerate(blocks):
                for passage in map(int, passages):
                    if task.is_dropout_on or passage not in known:
                        known[passage], pass_index = _log_chain(
                            model, task, plans[task.kind_of_passage[passage]], passage=passage,
                            place=(shard, pass_index), device=device, tick=tick,
                        )  # fmt: skip
                    sums[0, block] += np.exp(known[passage])
                    sums[1, block] += known[passage]
                    by_passage[passage] += known[passage]
    finally:
        model.eval()
    unscored = ~np.logical_and.reduce([p.is_known[: task.n_listed] for p in task.pieces])
    sums[:, :, unscored] = np.nan  # unknown in one kind of passage, drawn or not: not scored
    by_passage[:, unscored] = np.nan
    return PosteriorShard(
        n_inputs=np.array([len(block) for block in blocks], dtype=np.int64),
        sum_p=sums[0],
        sum_log_p=sums[1],
        passage_n_inputs=np.bincount(np.concatenate(blocks), minlength=len(task.templates)),
        passage_sum_log_p=by_passage,
    )


def n_chain_rows(task: PosteriorTask, *, n_inputs: int) -> int:
    """Return about how many rows `n_inputs` inputs take, for progress."""
    per_kind = [
        sum(len(plan.fills) for plan in _plans(p, n_names=task.n_listed)) for p in task.pieces
    ]
    return n_inputs * max(per_kind)


def _log_chain(
    model: nn.Module,
    task: PosteriorTask,
    plans: tuple[_Plan, ...],
    *,
    passage: int,
    place: tuple[int, int],
    device: str,
    tick: Tick,
) -> tuple[Floats, int]:
    """Return ln chain [n_listed] of one input (NaN: cannot be scored), and the next pass index."""
    shard, pass_index = place
    result = np.full(task.n_listed, np.nan)
    for plan in plans:
        ids, positions = task.templates[passage].ids(plan.n_pieces, mask=task.mask_id)
        rows = np.tile(np.array(ids), (len(plan.fills), 1))  # [R, L]
        rows[:, positions] = np.where(plan.fills >= 0, plan.fills, task.mask_id)
        total = torch.zeros(len(plan.columns), dtype=torch.float64, device=device)
        for start in range(0, len(rows), task.micro_batch):
            chunk = torch.from_numpy(rows[start : start + task.micro_batch]).to(device)
            torch.manual_seed(torch_seed(task.seed, "chain dropout", shard, pass_index))
            pass_index += 1
            where = torch.tensor([positions], device=device).expand(len(chunk), -1)
            log_p = torch.log_softmax(logits_at(model, chunk, positions=where).float(), dim=-1)
            for terms in plan.terms:
                _read(log_p, terms, start=start, n_first=plan.n_pieces[0], total=total)
            tick(len(chunk))
        result[plan.columns] = total.cpu().numpy()
    return result, pass_index


def _read(log_p: Tensor, terms: _Terms, *, start: int, n_first: int, total: Tensor) -> None:
    """Add one half of ln p of the terms' pieces, where their rows are in this chunk [R, M, V]."""
    here = np.flatnonzero((terms.row >= start) & (terms.row < start + len(log_p)))
    if not len(here):
        return
    rows = torch.from_numpy(terms.row[here] - start).to(log_p.device)
    names = torch.from_numpy(here).to(log_p.device)
    offset = n_first if terms.part else 0
    for m in range(terms.ids.shape[1]):
        pieces = torch.from_numpy(terms.ids[here, m]).to(log_p.device)
        total[names] += 0.5 * log_p[rows, offset + m, pieces].double()


def _plans(pieces: PartPieces, *, n_names: int) -> tuple[_Plan, ...]:
    groups: dict[tuple[int, int], list[int]] = {}
    for column in np.flatnonzero(pieces.is_known[:n_names]):
        a, b = pieces.n_pieces[column]
        groups.setdefault((int(a), int(b)), []).append(int(column))
    return tuple(_plan(pieces, np.array(columns), key) for key, columns in sorted(groups.items()))


def _plan(pieces: PartPieces, columns: Ids, n_pieces: tuple[int, int]) -> _Plan:
    """List the variants for one group: row 0 masks all; then each distinct part filled in."""
    a, b = n_pieces
    parts = (pieces.ids[columns, 0, :a], pieces.ids[columns, 1, :b])
    zero = np.zeros(len(columns), dtype=np.int64)
    fills = [np.full((1, a + b), -1, dtype=np.int64)]
    if not b:  # a name of one part has no order: both halves are p(name)
        terms = (_Terms(0, zero, parts[0]), _Terms(0, zero, parts[0]))
        return _Plan(columns, n_pieces, fills[0], terms)
    terms_list = [_Terms(0, zero, parts[0]), _Terms(1, zero, parts[1])]
    n_rows = 1
    for filled, asked, begin in ((0, 1, 0), (1, 0, a)):
        distinct, inverse = np.unique(parts[filled], axis=0, return_inverse=True)
        variant = np.full((len(distinct), a + b), -1, dtype=np.int64)
        variant[:, begin : begin + distinct.shape[1]] = distinct
        fills.append(variant)
        terms_list.append(_Terms(asked, n_rows + inverse.reshape(-1), parts[asked]))
        n_rows += len(distinct)
    return _Plan(columns, n_pieces, np.concatenate(fills), tuple(terms_list))
