"""Scenario 2 with a causal model: how probable each name is after what stands before it.

A name's evidence is ln p(name | text before it), and its last word must end there. So it belongs to
the pair of both parts: whoever shares one part with a person in the notes has other evidence.

Legend: P passages, N names, C names that are scored, b blocks.

Source: Nakamura et al., section 4.2, for the question. Differs: causal models read no text to the
right, and need no masks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from audit.attack.contexts import ContinuationTask
from audit.models.causal_pass import CausalForward, Distribution, log_softmax, score_tree
from audit.names.spelling import FIRST, NO_PIECE
from audit.stats import FloatArray, IntArray, assign_blocks

Tick = Callable[[int], None]


def _empty_array() -> Any:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class ContinuationShard:
    """Evidence of one causal model on the passages of one shard; NaN: the name is not scored."""

    n_inputs: IntArray  # [b] passages of each block.
    sum_p: FloatArray = field(default_factory=_empty_array)  # [b, n_listed] of the whole name's p.
    # [b, 2, N] sums of ln p (nats): of the first name and of the last name, given what is written
    # before it. Their sum is that of the whole name.
    sum_log_p: FloatArray = field(default_factory=_empty_array)
    # [P] how often each passage was read; [P, n_listed] sums of the whole names' ln p.
    passage_n_inputs: IntArray = field(default_factory=_empty_array)
    passage_sum_log_p: FloatArray = field(default_factory=_empty_array)


def make_continuation_shard(
    forward: CausalForward,
    task: ContinuationTask,
    *,
    shard: int,
    first: int,
    n: int,
    device: str,
    tick: Tick,
) -> ContinuationShard:
    """Read the passages first ... first + n - 1 of the drawn order with one model.

    `tick` is called with the number of tokens after each passage; it may raise to stop.
    """
    passages = task.draw_passages()[first : first + n]
    blocks = assign_blocks(first, len(passages))
    n_blocks, n_names = int(blocks[-1]) + 1, len(task.is_known)
    by_block = np.zeros((n_blocks, 2, n_names))
    sum_p = np.zeros((n_blocks, task.n_listed))
    by_passage = np.zeros((len(task.contexts), task.n_listed))
    for passage, block in zip(passages.tolist(), blocks.tolist(), strict=True):
        kind = int(task.kind_of_passage[passage])
        rows, _ = task.plans[kind]
        log_p, first_log_p = score_names(forward, task, passage)
        parts = np.stack([first_log_p, log_p - first_log_p])  # in the order of the passage
        is_turned = task.names[kind].first_roles[rows] != FIRST
        by_block[block][:, rows] += np.where(is_turned, parts[::-1], parts)
        log_p_of_all = np.full(n_names, np.nan)
        log_p_of_all[rows] = log_p
        by_passage[passage] = log_p_of_all[: task.n_listed]
        sum_p[block] += np.exp(by_passage[passage])
        tick(task.count_tokens(passage))
    is_unscored = ~task.is_known
    by_block[:, :, is_unscored] = np.nan
    by_passage[:, is_unscored[: task.n_listed]] = np.nan
    return ContinuationShard(
        n_inputs=np.bincount(blocks),
        sum_p=sum_p,
        sum_log_p=by_block,
        passage_n_inputs=np.bincount(passages, minlength=len(task.contexts)),
        passage_sum_log_p=by_passage,
    )


def score_names(
    forward: CausalForward,
    task: ContinuationTask,
    passage: int,
    *,
    distribution: Distribution = log_softmax,
) -> tuple[FloatArray, FloatArray]:
    """Return ln p [C] of the names that are scored, and of their parts that are written first.

    `distribution` is as in `score_tree`. A name of one part has that part's ln p.
    """
    kind = int(task.kind_of_passage[passage])
    names, (rows, plan) = task.names[kind], task.plans[kind]
    is_ending = np.zeros(forward.n_vocabulary, dtype=np.bool_)
    is_ending[task.ending_ids] = True
    with forward.running():
        scores = score_tree(
            forward.model,
            task.contexts[passage],
            plan,
            is_ending=is_ending if plan.has_ends else None,
            distribution=distribution,
        )
    ends = plan.tree.ends
    log_p = scores.paths[ends] + np.where(names.has_end[rows], scores.ends[ends], 0.0)
    has_one_part = (names.ids[rows] != NO_PIECE).sum(axis=1) <= names.n_first[rows]
    prefix_nodes = plan.tree.find_prefix_nodes(names.n_first[rows])
    return log_p, np.where(has_one_part, log_p, scores.paths[prefix_nodes])
