"""Reference controls: names of the same generator and length, against which every name is ranked.

Comes in: a request, a pair. Goes out: the listed names followed by their reference controls.
"""

from __future__ import annotations

from collections import Counter

from audit.attack.result import main_lead
from audit.membership import prompts
from audit.membership.candidates import Candidates
from audit.membership.controls import part_controls, reference_controls
from audit.membership.name_pools import NamePool, with_popularity
from audit.models.pair import ModelPair
from audit.names import fold_name
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
    tested = [row for row, truth in enumerate(listed.is_member) if truth is not False]
    tested_parts = frozenset(fold_name(text) for row in tested for _, text in listed.parts(row))
    n_least = min(MAX_REFERENCE, REFERENCE_PER_NAME * len(tested))
    wanted = max(MIN_REFERENCE, n_least)
    count = prompts.piece_counter(tokenizer, kind=kind)
    n_parts = (pieces.n_pieces > 0).sum(axis=1)

    def totals(of_parts: int, role: str = "") -> dict[int, int]:
        rows = [
            row
            for row in range(len(listed))
            if pieces.is_known[row] and n_parts[row] == of_parts
            and (not role or getattr(listed, role)[row])
        ]  # fmt: skip
        # As many for every number of pieces: each name is ranked within its own group.
        return dict.fromkeys(sorted(Counter(pieces.n_pieces[rows].sum(axis=1).tolist())), wanted)

    controls = reference_controls(
        pool,
        n_by_pieces=totals(2),
        count_pieces=count,
        exclude=list(zip(listed.first, listed.last, strict=True)),
        tested_parts=tested_parts,
        n_least=n_least,
        seed=request.seed,
    )
    for role in ("first", "last"):
        if alone := totals(1, role):
            controls = controls + part_controls(
                pool, role=role, n_by_pieces=alone, count_pieces=count,
                tested_parts=tested_parts, seed=request.seed,
            )  # fmt: skip
    return with_popularity(listed, pool=pool) + controls, len(controls)
