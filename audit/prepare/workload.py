"""Workload: how many rows of forward passes an audit will take, known before any model is loaded.

Comes in: a request. Goes out: rows and tokens. Torch-free; needs the hospital model's tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.corpora.passages import Passage
from audit.membership import prompts
from audit.membership.prompts import PartPieces
from audit.prepare.pair_check import tokenizer
from audit.request import AuditRequest

_N_SAMPLED = 200
"""Passages from which the mean length is taken."""


@dataclass(frozen=True)
class Workload:
    """What one model has to do for one unit, an input or a document.

    Attributes
    ----------
    rows_per_unit
        Rows of forward passes of one input (scenario 2) or document (scenario 1).
    rows_per_chain_input
        The same for an input of `chain`; 0 in scenario 1.
    n_tokens
        Mean length of a row.
    """

    rows_per_unit: float
    rows_per_chain_input: float
    n_tokens: float


def workload(request: AuditRequest) -> Workload:
    """Return the workload of a request; chain rows as the run announces them.

    Raises
    ------
    AuditError
        If the hospital model's tokenizer cannot be built.
    """
    if request.scenario_number == 1:
        settings = request.generation
        return Workload(float(settings.n_steps), 0.0, float(settings.n_tokens))
    passages = request.passages.passages if request.passages else ()
    speller = tokenizer(request.hospital)
    kinds, kind_of_passage = prompts.kinds_of(passages)
    pieces = [
        prompts.part_pieces(request.candidates, kind=kind, tokenizer=speller) for kind in kinds
    ]
    share = np.bincount(kind_of_passage, minlength=len(kinds)) / len(passages)
    rows = float(np.dot(share, [_n_layouts(one) for one in pieces]))
    chain = max(_chain_rows(one) for one in pieces) if request.posterior.n_chain_inputs else 0
    return Workload(rows, float(chain), _mean_tokens(passages, request, speller))


def _n_layouts(pieces: PartPieces) -> int:
    return len(set(pieces.n_pieces[pieces.is_known].sum(axis=1).tolist()))


def _chain_rows(pieces: PartPieces) -> int:
    groups: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(pieces.is_known):
        first, second = pieces.n_pieces[row]
        groups.setdefault((int(first), int(second)), []).append(int(row))
    n_rows = 0
    for (_, second), rows in groups.items():
        n_parts = [len(np.unique(pieces.ids[rows, part], axis=0)) for part in (0, 1)]
        n_rows += 1 + sum(n_parts) if second else 1
    return n_rows


def _mean_tokens(passages: Sequence[Passage], request: AuditRequest, speller: object) -> float:
    step = max(1, len(passages) // _N_SAMPLED)
    longest = request.posterior.max_tokens
    lengths = [
        min(
            longest,
            2
            + len(prompts.token_ids(speller, passage.left))
            + len(prompts.token_ids(speller, passage.right)),
        )
        for passage in passages[::step]
    ]
    return float(np.mean(lengths)) if lengths else 0.0
