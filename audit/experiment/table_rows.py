"""The rows of an experiment's tables: counts, estimates with intervals, never a name."""

from __future__ import annotations

from dataclasses import dataclass

from audit.membership.confusion import Confusion
from audit.rates import Estimate, Rate


@dataclass(frozen=True)
class RuleRow:
    """A yes/no rule against one kind of controls: a line of the paper's table 1 or 2.

    `epochs` is how often M_hospital had read D_private; `model` "hospital" or "general".
    """

    epochs: float
    controls: str
    attack: str
    rule: str
    model: str
    confusion: Confusion
    f1: Estimate


@dataclass(frozen=True)
class RankingRow:
    """How well a score, or a baseline, ranks members above one kind of controls."""

    epochs: float
    controls: str
    attack: str
    score: str
    is_baseline: bool
    auc: Estimate


@dataclass(frozen=True)
class MentionRow:
    """Members mentioned `low` to `high` times (None: and more), by the score fixed beforehand.

    `flagged` counts those with q <= 0.05; it does not depend on the kind of controls.
    """

    epochs: float
    controls: str
    attack: str
    low: int
    high: int | None
    auc: Estimate
    flagged: Rate


@dataclass(frozen=True)
class FoundRow:
    """Members, and listed controls, with q <= 0.05 in one audit, and its verdict."""

    epochs: float
    attack: str
    members: Rate
    controls: Rate
    verdict: str
    digest: str


@dataclass(frozen=True)
class ExposureRow:
    """M_hospital along its training: steps done, and the mean training loss of the last ten, nats.

    The loss is NaN where the training tells none.
    """

    epochs: float
    step: int
    loss: float


@dataclass(frozen=True)
class CanaryRow:
    """Names planted `n_mentions` times: exposure by the score fixed beforehand.

    `bits` is the mean exposure, at most `max_bits`; `found` counts names with p <= 0.05;
    `above_twin` those that score above the twin that was left out.
    """

    epochs: float
    attack: str
    n_mentions: int
    bits: Estimate
    max_bits: float
    found: Rate
    above_twin: Rate


@dataclass(frozen=True)
class ExperimentTables:
    """All tables.

    Attributes
    ----------
    n_notes, n_patients, n_passages
        Of the corpus.
    n_members, n_inputs, n_documents
        Of the list, of scenario 2 and of scenario 1.
    table1
        M_hospital by the paper's rules, for each exposure.
    table2
        Scenario 1 with M_general in place of M_hospital; `epochs` is 0.
    table3, table4
        (distinct patterns, names) and (mentions, names), the highest first.
    always_member
        The trivial guess, by kind of controls; `epochs` is 0.
    canaries
        Empty where none were planted.
    """

    n_notes: int
    n_patients: int
    n_passages: int
    n_members: int
    n_inputs: int
    n_documents: int
    table1: tuple[RuleRow, ...]
    table2: tuple[RuleRow, ...]
    table3: tuple[tuple[int, int], ...]
    table4: tuple[tuple[int, int], ...]
    always_member: tuple[RuleRow, ...]
    rankings: tuple[RankingRow, ...]
    mentions: tuple[MentionRow, ...]
    found: tuple[FoundRow, ...]
    canaries: tuple[CanaryRow, ...]
    exposures: tuple[ExposureRow, ...]
    seed: int
