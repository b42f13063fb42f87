"""The rows of a leakage experiment's tables: arms, AUCs by group of patients; never a name."""

from __future__ import annotations

from dataclasses import dataclass

from audit.rates import Estimate, Rate

CONTROLS = ("easy", "hard")
ALL, LEFT, CAUGHT = "all", "left", "caught"
GROUPS = (ALL, LEFT, CAUGHT)
"""Patients: all of them, those of whose name something was left, those with none of it left."""


@dataclass(frozen=True)
class ArmRow:
    """One arm: what was replaced, and how its model was trained.

    `n_mentions`, `n_whole` and `n_part` count mentions of patients, those that are replaced whole
    and those of which a part is left; `n_staff` and `n_staff_whole` the same of doctors.
    `other_chars` is the share of the characters outside names that is replaced too. `share` is what
    was asked for, NaN where nothing was; `loss` is in nats a token.
    """

    code: str
    kind: str
    share: float
    tagger: str
    tagger_digest: str
    n_mentions: int
    n_whole: int
    n_part: int
    n_patients: int
    n_exposed: int
    n_staff: int
    n_staff_whole: int
    other_chars: float
    n_steps: int
    n_tokens: int
    loss: float

    @property
    def left(self) -> Rate:
        """Mentions of patients that are not replaced whole."""
        return Rate(self.n_mentions - self.n_whole, self.n_mentions)


@dataclass(frozen=True)
class LeakRow:
    """How well an attack tells a group of patients from controls, on one arm's model.

    `minus_raw` and `minus_perfect` are differences of AUC to those models on the same names, with
    the paired interval of DeLong; `flagged` counts patients with q of at most 5 %.
    """

    code: str
    scenario: int
    controls: str
    group: str
    n_members: int
    n_controls: int
    auc: Estimate
    tpr_at_1: Estimate
    tpr_at_10: Estimate
    minus_raw: Estimate
    minus_perfect: Estimate
    flagged: Rate
    digest: str


@dataclass(frozen=True)
class SplitRow:
    """Whether a model's scores tell the patients that an arm left from those that it caught.

    `on_perfect` asks the same of the perfectly redacted model, where the two differ in nothing that
    was trained on; `difference` is the AUC of the arm minus that.
    """

    code: str
    scenario: int
    n_left: int
    n_caught: int
    auc: Estimate
    on_perfect: float
    difference: Estimate
