"""Reference controls: names of the same generator and length, against which every name is ranked.

Comes in: a request, a pair. Goes out: the listed names followed by their reference controls.
"""

from __future__ import annotations

from collections import Counter

from audit.attack.result import main_lead
from audit.membership import prompts
from audit.membership.candidates import Candidates
from audit.membership.controls import reference_controls
from audit.membership.name_pools import NamePool, with_popularity
from audit.models.pair import ModelPair
from audit.request import AuditRequest

MIN_REFERENCE = 2600
MAX_REFERENCE = 20_000
REFERENCE_PER_NAME = 20
"""Reference controls: 20 for each tested name let one name alone reach q = 0.05; at least 2,600."""


def with_reference(
    request: AuditRequest, pair: ModelPair, *, pool: NamePool
) -> tuple[Candidates, int]:
    """Return the listed names followed by reference controls with the same numbers of pieces."""
    listed = request.candidates
    kind = main_lead(request)
    tokenizer = pair.hospital.tokenizer
    pieces = prompts.part_pieces(listed, kind=kind, tokenizer=tokenizer)
    tested = [m is not False for m in listed.is_member]
    wanted = min(MAX_REFERENCE, max(MIN_REFERENCE, REFERENCE_PER_NAME * sum(tested)))
    totals = Counter(
        int(n) for n, ok in zip(pieces.n_pieces.sum(axis=1), pieces.is_known, strict=True) if ok
    )
    controls = reference_controls(
        pool,
        # As many for every number of pieces: each name is ranked within its own group.
        n_by_pieces=dict.fromkeys(sorted(totals), wanted),
        count_pieces=prompts.piece_counter(tokenizer, kind=kind),
        exclude=list(zip(listed.first, listed.last, strict=True)),
        seed=request.seed,
    )
    names = with_popularity(listed, pool=pool)
    return names + controls, len(controls)
