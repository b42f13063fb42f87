"""Inspection: what a reader looks into behind one name's score, kept beside the report.

Comes in: evidence by block and by passage. Goes out: frozen arrays. The report holds one number a
name; here are both models' numbers block by block, the scores of the reference controls, and the
passages that a name fits best. Torch-free.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

import numpy as np
from numpy.typing import NDArray

from audit.corpora.passages import Passage
from audit.result_store import ResultStore

N_BEST_PASSAGES = 10
_ARRAYS = (
    "n_per_block", "hospital", "general", "reference_score", "reference_n_pieces",
    "best_passages", "best_log_ratio",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Inspection:
    """Evidence of one audit for N listed names and R reference controls.

    Attributes
    ----------
    n_per_block
        [b] inputs or documents of each block.
    hospital, general
        [b, N] each model's mean evidence in a block: ln p (nats) in scenario 2, product of the
        masses of both parts in scenario 1. NaN where a name cannot be scored.
    reference_score, reference_n_pieces
        [R] fixed score and word pieces of the reference controls.
    best_passages, best_log_ratio
        [N, K] rows of `passages` that a name fits best, by the mean of ln p_hospital - ln p_general
        (nats), best first; -1 and NaN where there are fewer. K = 0 in scenario 1.
    passages
        The passages of the audit; empty in scenario 1.
    """

    n_per_block: NDArray[np.int64]
    hospital: NDArray[np.float32]
    general: NDArray[np.float32]
    reference_score: NDArray[np.float64]
    reference_n_pieces: NDArray[np.int64]
    best_passages: NDArray[np.int32]
    best_log_ratio: NDArray[np.float32]
    passages: tuple[Passage, ...] = ()


def best_passages(
    log_ratio: NDArray[np.float64], *, n_best: int = N_BEST_PASSAGES
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the passages [N, K] with each name's largest log ratios [P, N], and these ratios.

    K is `n_best`, or P if there are fewer.
    """
    n_here = min(n_best, len(log_ratio))
    known = np.where(np.isfinite(log_ratio), log_ratio, -np.inf).T
    order = np.argsort(-known, axis=1, kind="stable")[:, :n_here]
    found = np.take_along_axis(known, order, axis=1)
    is_known = np.isfinite(found)
    rows = np.where(is_known, order, -1).astype(np.int32)
    return rows, np.where(is_known, found, np.nan).astype(np.float32)


def keep_inspection(digest: str, inspection: Inspection, *, store: ResultStore) -> None:
    """Keep an audit's inspection beside its report."""
    store.put(
        _key(digest),
        arrays={name: getattr(inspection, name) for name in _ARRAYS},
        meta={"passages": [asdict(passage) for passage in inspection.passages]},
    )


def kept_inspection(digest: str, *, store: ResultStore) -> Inspection | None:
    """Return an audit's inspection; None where it is not kept, or of another version."""
    stored = store.get(_key(digest))
    if stored is None or set(stored.arrays) != set(_ARRAYS):
        return None
    names = {field.name for field in fields(Passage)}
    passages = stored.meta.get("passages", [])
    if not all(set(passage) == names for passage in passages):
        return None
    return Inspection(**stored.arrays, passages=tuple(_passage(passage) for passage in passages))


def _key(digest: str) -> str:
    return f"inspection/{digest}"


def _passage(record: dict[str, object]) -> Passage:
    owner = record["owner"]
    values = record | {
        "slots": tuple(record["slots"]),  # type: ignore[arg-type]
        "owner": tuple(owner) if isinstance(owner, list) else owner,
    }
    return Passage(**values)  # type: ignore[arg-type]
