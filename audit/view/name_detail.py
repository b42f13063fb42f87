"""One name under the glass: what its score rests on, and where it stands among controls.

Comes in: a row of the table of names, the audit's inspection. Goes out: frozen values.
Undefined numbers are NaN. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.corpora.passages import Passage
from audit.inspection import Inspection
from audit.membership.scores import jackknife
from audit.names import fold_name
from audit.rates import Z_95, Estimate, Rate
from audit.report import AuditReport
from audit.view.name_table import NameTable

N_BINS = 40


@dataclass(frozen=True, eq=False)
class ModelBlocks:
    """One model's evidence for a name: the mean of each block [b], and over all blocks.

    `mean` has its 95 % interval, 1.96 delete-one-block jackknife standard errors to either side.
    """

    who: str
    values: NDArray[np.float64]
    mean: Estimate


@dataclass(frozen=True, eq=False)
class AmongControls:
    """A name's score among the reference controls that its p-value compares it with.

    Attributes
    ----------
    edges, counts
        [k + 1] and [k]: the histogram of the controls' scores; with `is_log` edges are log10.
    n_at_zero
        With `is_log` the controls whose score is 0, which has no logarithm.
    position, threshold
        The name's score and the score above which it is flagged, on the axis of the edges; -inf:
        a score of 0 where `is_log`; NaN: not scored; inf: no score is high enough.
    below
        Controls with a lower score, of those compared.
    is_unmatched
        Whether they are of every length, because too few have the name's number of word pieces.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    n_at_zero: int
    is_log: bool
    position: float
    threshold: float
    below: Rate
    n_pieces: int
    is_unmatched: bool


@dataclass(frozen=True)
class FittingPassage:
    """A passage that a name fits well.

    Attributes
    ----------
    before, after
        Text around the name's place.
    log_ratio
        Mean of ln p_hospital - ln p_general, nats.
    is_own
        Whether the passage is this name's own; None where the passage does not say whose it is.
    rank
        With an own passage, the name's rank in it among all names, 1 = fits best; else None.
    """

    number: int
    passage_id: str
    before: str
    after: str
    log_ratio: float
    is_own: bool | None
    rank: float | None


@dataclass(frozen=True, eq=False)
class NameDetail:
    """What a reader sees of one name; the parts of the name are for the masking helper only."""

    row: int
    name_id: int
    label: str
    first: str
    last: str
    kind: str
    decision: str
    is_undecided: bool
    role: str
    numbers: Mapping[str, float]
    blocks: tuple[ModelBlocks, ...]
    among: AmongControls | None
    passages: tuple[FittingPassage, ...]


def name_detail(
    table: NameTable, *, row: int, inspection: Inspection | None, report: AuditReport
) -> NameDetail:
    """Return one name's detail; without an inspection only what the report itself holds."""
    numbers = {name: float(column[row]) for name, column in table.numbers.items()}
    name_id = int(numbers["name_id"])
    first, last = table.first[row], table.last[row]
    blocks: tuple[ModelBlocks, ...] = ()
    among: AmongControls | None = None
    passages: tuple[FittingPassage, ...] = ()
    if inspection is not None:
        blocks = tuple(
            _model_blocks(who, getattr(inspection, who)[:, row], counts=inspection.n_per_block)
            for who in ("hospital", "general")
        )
        among = among_controls(
            numbers["score"],
            threshold=numbers["threshold"],
            n_pieces=int(numbers["n_pieces"]),
            is_unmatched=bool(table.is_unmatched[row]),
            is_log=report.fixed_score == "product",
            inspection=inspection,
        )
        passages = _fitting_passages(
            row, name=(first, last), inspection=inspection, ranks=_own_ranks(report, name_id)
        )
    return NameDetail(
        row=row,
        name_id=name_id,
        label=table.labels[row],
        first=first,
        last=last,
        kind=str(table.codes["kind"][row]),
        decision=str(table.codes["decision"][row]),
        is_undecided=str(table.codes["certainty"][row]) == "undecided",
        role=table.roles[str(table.codes["role"][row])],
        numbers=numbers,
        blocks=blocks,
        among=among,
        passages=passages,
    )


def among_controls(
    score: float,
    *,
    threshold: float,
    n_pieces: int,
    is_unmatched: bool,
    is_log: bool,
    inspection: Inspection,
) -> AmongControls | None:
    """Return a score's place among the reference controls; None where there are none to compare.

    Compared are controls of the same number of word pieces, as the p-value does it
    (`audit.membership.decisions.name_p_values`); `is_unmatched` where they are too few to judge.
    """
    pool = inspection.reference_score
    pool = pool[(inspection.reference_n_pieces == n_pieces) & ~np.isnan(pool)]
    if not len(pool):
        return None
    n_below = 0 if math.isnan(score) else int((pool < score).sum())
    drawn = np.log10(pool[pool > 0]) if is_log else pool
    drawn = drawn[np.isfinite(drawn)]
    position, limit = (_place(value, is_log=is_log) for value in (score, threshold))
    within = [value for value in (position, limit) if math.isfinite(value)]
    low, high = _range([*drawn.tolist(), *within])
    counts, edges = np.histogram(drawn, bins=N_BINS, range=(low, high))
    return AmongControls(
        edges=np.asarray(edges, dtype=np.float64),
        counts=np.asarray(counts, dtype=np.int64),
        n_at_zero=int((pool <= 0).sum()) if is_log else 0,
        is_log=is_log,
        position=position,
        threshold=limit,
        below=Rate(n_below, len(pool)),
        n_pieces=n_pieces,
        is_unmatched=is_unmatched,
    )


def _place(score: float, *, is_log: bool) -> float:
    if not is_log or math.isnan(score):
        return score
    return math.log10(score) if score > 0 else -math.inf


def _range(values: list[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _model_blocks(
    who: str, column: NDArray[np.float32], *, counts: NDArray[np.int64]
) -> ModelBlocks:
    values = np.asarray(column, dtype=np.float64)
    found = jackknife(
        lambda sums, n: {"mean": sums["evidence"] / n},
        {"evidence": (values * counts)[:, None]},
        counts=counts,
    )["mean"]
    value, half = float(found.value[0]), Z_95 * float(found.standard_error[0])
    return ModelBlocks(who, values, Estimate(value, value - half, value + half))


def _own_ranks(report: AuditReport, name_id: int) -> dict[str, float]:
    """Return the name's rank in its own passages, by passage."""
    linking = report.details.get("linking") or {}
    return {
        str(line["passage_id"]): float(line["rank"])
        for line in linking.get("rank_by_passage", ())
        if int(line["name_id"]) == name_id
    }


def _fitting_passages(
    row: int, *, name: tuple[str, str], inspection: Inspection, ranks: Mapping[str, float]
) -> tuple[FittingPassage, ...]:
    found = []
    for place, ratio in zip(
        inspection.best_passages[row].tolist(),
        inspection.best_log_ratio[row].tolist(),
        strict=True,
    ):
        if place < 0:
            continue
        passage = inspection.passages[place]
        is_own = _is_owner(passage, row=row, name=name)
        found.append(
            FittingPassage(
                number=place + 1,
                passage_id=passage.passage_id,
                before=passage.left,
                after=passage.right,
                log_ratio=float(ratio),
                is_own=is_own,
                rank=ranks.get(passage.passage_id) if is_own else None,
            )
        )
    return tuple(found)


def _is_owner(passage: Passage, *, row: int, name: tuple[str, str]) -> bool | None:
    owner = passage.owner
    if owner is None:
        return None
    if isinstance(owner, int):
        return owner == row
    return (fold_name(owner[0]), fold_name(owner[1])) == (fold_name(name[0]), fold_name(name[1]))
