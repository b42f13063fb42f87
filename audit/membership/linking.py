"""Linking: does a passage fit its own patient's name better than the other candidates' names?

For the patient this is worse than membership: it ties a name to a de-identified note.
Comes in: sums by passage of both models, whose passage each is. Goes out: ranks as plain values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.corpora.passages import Passage
from audit.membership.candidates import Candidates
from audit.membership.posterior import Floats, PosteriorShard
from audit.names import fold_name


def owner_rows(passages: Sequence[Passage], *, candidates: Candidates) -> list[int | None]:
    """Return for each passage the candidate's row that owns it; None: unknown or not listed."""
    by_name = {
        (fold_name(first), fold_name(last)): row
        for row, (first, last) in enumerate(zip(candidates.first, candidates.last, strict=True))
    }
    rows: list[int | None] = []
    for passage in passages:
        owner = passage.owner
        if isinstance(owner, tuple):
            rows.append(by_name.get((fold_name(owner[0]), fold_name(owner[1]))))
        else:
            rows.append(owner if owner is not None and owner < len(candidates) else None)
    return rows


def link_passages(
    passages: Sequence[Passage],
    *,
    candidates: Candidates,
    hospital: PosteriorShard,
    general: PosteriorShard,
) -> dict[str, object] | None:
    """Rank each passage's own name among all candidates.

    Returns
    -------
    For the mean log ratio ("hospital_against_general"), M_hospital alone and M_general alone:
    number of passages, share with rank 1 and rank <= 5, median rank; beside them what chance
    gives. None where no passage says whose it is; passages of canaries are left out.
    """
    rows = owner_rows(passages, candidates=candidates)
    usable = [
        p
        for p, row in enumerate(rows)
        if row is not None
        and not candidates.is_canary(row)
        and hospital.passage_n_inputs[p]
        and np.isfinite(hospital.passage_sum_log_p[p, row])
    ]
    if not usable:
        return None
    owners = np.array([rows[p] for p in usable])
    n = hospital.passage_n_inputs[usable, None]
    log_h = hospital.passage_sum_log_p[usable] / n  # [U, N]
    log_g = general.passage_sum_log_p[usable] / n
    n_names = int(np.isfinite(log_h[0]).sum())
    return {
        "n_passages": len(usable),
        "n_names": n_names,
        "chance": {
            "top_1": 1 / n_names,
            "top_5": min(1.0, 5 / n_names),
            "median_rank": (n_names + 1) / 2,
        },
        "hospital_against_general": _summary(_ranks(log_h - log_g, owners)),
        "hospital_alone": _summary(_ranks(log_h, owners)),
        "general_alone": _summary(_ranks(log_g, owners)),
        "rank_by_passage": [
            {
                "passage_id": passages[p].passage_id,
                "name_id": int(rows[p] or 0),
                "rank": float(rank),
            }
            for p, rank in zip(usable, _ranks(log_h - log_g, owners), strict=True)
        ],
    }


def _ranks(scores: Floats, owners: np.ndarray) -> Floats:
    """Return the owner's rank [U], 1 = fits best; ties count half."""
    own = scores[np.arange(len(owners)), owners][:, None]
    ranks: Floats = 1 + (scores > own).sum(axis=1) + ((scores == own).sum(axis=1) - 1) / 2
    return ranks


def _summary(ranks: Floats) -> dict[str, float]:
    return {
        "top_1": float((ranks <= 1).mean()),
        "top_5": float((ranks <= 5).mean()),
        "median_rank": float(np.median(ranks)),
    }
