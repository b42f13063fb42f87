"""Scenario 2: the attacker also has the de-identified notes, and lets the models fill names in.

Comes in: a request, a pair, names with reference controls, evidence. Goes out: an `AttackResult`.

Source: Nakamura et al., section 4.2.
"""

from __future__ import annotations

import numpy as np

from audit.attack import evidence
from audit.attack.result import AttackResult, Sources, main_lead, refuse_equal
from audit.membership import chain, posterior, prompts, scores
from audit.membership.candidates import Candidates
from audit.membership.linking import link_passages
from audit.membership.name_pools import NamePool
from audit.membership.part_scores import NameParts, name_parts, part_residuals
from audit.membership.posterior import PosteriorShard, PosteriorTask
from audit.membership.scores import Floats, Ids, PosteriorSums, Score
from audit.models.pair import ModelPair
from audit.request import AuditRequest


def mask_attack(
    request: AuditRequest, pair: ModelPair, *, names: Candidates, pool: NamePool, sources: Sources
) -> AttackResult:
    """Scenario 2: compare the posteriors of both models on the same masked passages."""
    settings = request.posterior
    task = _posterior_task(request, pair, names)
    found = {
        who: evidence.posterior_evidence(
            sources(who, f"{who} model: posteriors"), task, n_inputs=settings.n_inputs
        )
        for who in ("general", "hospital")
    }
    counts = found["hospital"].n_inputs
    refuse_equal(found["hospital"].sum_log_p, found["general"].sum_log_p)
    parts = _name_parts(names, task, pool=pool)

    def scored(n_blocks: int, with_errors: bool) -> dict[str, Score]:
        sums = [_posterior_sums(found[who], n_blocks) for who in ("hospital", "general")]
        return scores.posterior_scores(
            sums[0], general=sums[1], counts=counts[:n_blocks], parts=parts,
            with_errors=with_errors,
        )  # fmt: skip

    result = scored(len(counts), True)
    mean = {who: found[who].sum_log_p.sum(axis=0) / counts.sum() for who in found}
    details: dict[str, object] = {
        "linking": link_passages(
            request.passages.passages if request.passages else (),
            candidates=request.candidates,
            hospital=found["hospital"],
            general=found["general"],
        )
    }
    if settings.n_chain_inputs:
        result |= _chain_scores(task, n_inputs=settings.n_chain_inputs, sources=sources)
    begins = scores.shown_blocks(counts)
    shown_counts = np.add.reduceat(counts, begins)
    return AttackResult(
        scores=result,
        n_pieces=_total_pieces(names, pair, request),
        parts=parts,
        part_residual=part_residuals(mean["hospital"], mean["general"], parts=parts),
        unit="inputs",
        n_units=settings.n_inputs,
        n_blocks=len(counts),
        after=lambda n_blocks: scored(n_blocks, False),
        details=details,
        block_counts=counts,
        shown={
            who: parts.whole(np.add.reduceat(found[who].sum_log_p, begins))[:, : task.n_listed]
            / shown_counts[:, None]
            for who in ("hospital", "general")
        },
        shown_counts=shown_counts,
        passage_log_ratio=_passage_log_ratio(found["hospital"], general=found["general"]),
    )


def _chain_scores(task: PosteriorTask, *, n_inputs: int, sources: Sources) -> dict[str, Score]:
    found = {
        who: evidence.chain_evidence(sources(who, f"{who} model: chain"), task, n_inputs=n_inputs)
        for who in ("general", "hospital")
    }
    sums = [_posterior_sums(found[who], None) for who in ("hospital", "general")]
    counts = found["hospital"].n_inputs
    by_chain = scores.posterior_scores(sums[0], general=sums[1], counts=counts, parts=None)
    return {f"chain_{name}": score for name, score in by_chain.items()}


def posterior_rows(request: AuditRequest, pair: ModelPair, names: Candidates) -> dict[str, float]:
    """Return how many rows of forward passes one model takes in scenario 2, by phase."""
    task = _posterior_task(request, pair, names)
    settings = request.posterior
    rows = {"posteriors": float(posterior.n_rows(task, n_inputs=settings.n_inputs))}
    if settings.n_chain_inputs:
        rows["chain"] = float(chain.n_chain_rows(task, n_inputs=settings.n_chain_inputs))
    return rows


def _posterior_task(request: AuditRequest, pair: ModelPair, names: Candidates) -> PosteriorTask:
    passages = request.passages.passages if request.passages else ()
    settings, tokenizer = request.posterior, pair.hospital.tokenizer
    kinds, kind_of_passage = prompts.kinds_of(passages)
    pieces = tuple(prompts.part_pieces(names, kind=kind, tokenizer=tokenizer) for kind in kinds)
    between = max(len(prompts.token_ids(tokenizer, kind.separator.strip())) for kind in kinds)
    # A name that cannot be scored needs no room.
    longest = between + max(int(p.n_pieces[p.is_known].sum(axis=1).max(initial=0)) for p in pieces)
    templates = prompts.passage_templates(
        passages,
        tokenizer=tokenizer,
        max_tokens=min(settings.max_tokens, pair.n_positions),
        n_name_tokens=longest,
    )
    has_between = [
        bool(templates[int(np.flatnonzero(kind_of_passage == kind)[0])].between)
        for kind in range(len(kinds))
    ]
    return PosteriorTask(
        templates=templates,
        kind_of_passage=kind_of_passage,
        pieces=pieces,
        part_columns=prompts.part_columns(pieces, has_between=has_between),
        n_listed=len(request.candidates),
        mask_id=tokenizer.mask_token_id,
        seed=request.seed,
        is_dropout_on=settings.is_dropout_on,
        micro_batch=settings.micro_batch,
    )


def _name_parts(names: Candidates, task: PosteriorTask, *, pool: NamePool) -> NameParts:
    pieces = task.pieces[0]
    return name_parts(
        names, columns=task.part_columns, n_pieces=prompts.pieces_by_role(pieces), pool=pool,
        n_listed=task.n_listed,
    )  # fmt: skip


def _posterior_sums(shard: PosteriorShard, n_blocks: int | None) -> PosteriorSums:
    return PosteriorSums(shard.sum_p[:n_blocks], shard.sum_log_p[:n_blocks])


def _passage_log_ratio(hospital: PosteriorShard, *, general: PosteriorShard) -> Floats:
    """Return [P, N] how much better a name fits a passage with M_hospital, in nats."""
    n = np.where(hospital.passage_n_inputs, hospital.passage_n_inputs, np.nan)[:, None]
    ratio: Floats = (hospital.passage_sum_log_p - general.passage_sum_log_p) / n
    return ratio


def _total_pieces(names: Candidates, pair: ModelPair, request: AuditRequest) -> Ids:
    kind = main_lead(request)
    pieces = prompts.part_pieces(names, kind=kind, tokenizer=pair.hospital.tokenizer)
    total: Ids = pieces.n_pieces.sum(axis=1)
    return total
