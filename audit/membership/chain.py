"""Scenario 2, `chain`: p(first) * p(last | first filled in), mean of both orders in log space.

`product` multiplies two marginals, so it cannot tell a real name from a recombination of two real
ones; `chain` can. It needs a forward pass for every distinct part, so it runs on fewer inputs and
for the listed names only. Comes in and goes out: as in `posterior.py`. Legend: R rows (variants of
one passage: nothing filled in, or one part), M masks, N names.

Source: Nakamura et al., section 4.2, leaves p(l | s) open; this is the reading by the chain rule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from audit.membership.posterior import (
    Floats,
    PosteriorShard,
    PosteriorTask,
    Tick,
    draw_inputs,
)
from audit.membership.prompts import Ids, PartPieces
from audit.models.encoder import logits_at
from audit.randomness import torch_seed


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
