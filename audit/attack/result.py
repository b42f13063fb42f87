"""What an attack on a pair of models gives: scores per name, and what they were made from.

Comes in: nothing. Goes out: the value both scenarios share. Knows neither text nor models.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from audit.attack import evidence
from audit.membership import prompts
from audit.membership.part_scores import NameParts
from audit.membership.scores import Floats, Ids, Score
from audit.request import AuditRequest, equal_models

FIXED_SCORE = {1: "residual", 2: "residual"}
"""The score decided on beforehand for each scenario, for names and for the group (decisions.md)."""
GENERAL_SCORE = {1: "general_product", 2: "general_mean_log"}
"""The same attack with M_general alone."""


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Scores of N listed names followed by R reference controls.

    Attributes
    ----------
    scores
        Formula -> score [N + R]; of `chain_*` and of whole names' probabilities and hits [N] only.
    n_pieces
        [N + R] word pieces of each name.
    parts
        All N + R names as pairs of U parts.
    part_residual
        [U] what M_hospital adds to M_general and popularity (`part_scores.part_residuals`).
    unit, n_units
        "inputs" or "documents", and how many.
    after
        From a number of blocks to the scores that as many blocks would have given, without errors.
    n_blocks
        Blocks in all, of `block_counts` inputs or documents.
    details
        What only this scenario reports, as plain values.
    documents
        Scenario 1: texts of M_hospital and M_general.
    block_counts
        [b] inputs or documents of each block.
    shown, shown_counts
        "hospital" and "general" -> [s, N] mean evidence by some 20 larger blocks, as `Inspection`
        has it, and [s] the inputs or documents of each.
    passage_log_ratio
        [P, N] mean of ln p_hospital - ln p_general by passage; P = 0 in scenario 1.
    """

    scores: Mapping[str, Score]
    n_pieces: Ids
    parts: NameParts
    part_residual: Floats
    unit: str
    n_units: int
    n_blocks: int
    after: Callable[[int], Mapping[str, Score]]
    details: dict[str, object] = field(default_factory=dict)
    documents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    block_counts: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    shown: Mapping[str, Floats] = field(default_factory=dict)
    shown_counts: Ids = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    passage_log_ratio: Floats = field(default_factory=lambda: np.zeros((0, 0)))


Sources = Callable[[str, str], evidence.Source]
"""From ("general" | "hospital", phase) to the source of evidence."""


def main_lead(request: AuditRequest) -> prompts.PassageKind:
    """Return the context in which names are counted in word pieces: the commonest passage kind."""
    if request.scenario_number == 1 or request.passages is None:
        return prompts.PassageKind(slots=("full",), separator="", lead=" ")
    kinds = Counter(map(prompts.passage_kind, request.passages.passages))
    return kinds.most_common(1)[0][0]


def refuse_equal(hospital: Floats, general: Floats) -> None:
    """Refuse two models that say the same of every name: then nothing is compared.

    Raises
    ------
    AuditError
        If all evidence [b, U] is equal.
    """
    if hospital.size and np.array_equal(hospital, general, equal_nan=True):
        raise equal_models()
