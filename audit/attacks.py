"""The two attacks on a pair of models: from a request to scores per name.

Comes in: a request, a pair, reference controls, evidence. Goes out: one value for both scenarios.
The only file that knows both text (tokenizers, documents) and evidence.

Source: Nakamura et al., sections 4.1 (generation) and 4.2 (masked language model).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from audit import evidence
from audit.errors import AuditError
from audit.membership import chain, posterior, prompts, scores
from audit.membership.candidates import Candidates
from audit.membership.generation import GeneratedShard, GenerationTask
from audit.membership.linking import link_passages
from audit.membership.matching import count_lexicon_names, name_hits
from audit.membership.name_pools import NamePool
from audit.membership.posterior import PosteriorShard, PosteriorTask
from audit.membership.scores import Floats, Ids, MassSums, PosteriorSums, Score
from audit.models.pair import ModelPair
from audit.request import AuditRequest

FIXED_SCORE = {1: "product", 2: "mean_log_ratio"}
"""The score decided on beforehand for each scenario (docs/decisions.md)."""
GENERAL_SCORE = {1: "general_product", 2: "general_mean_log"}
"""The same attack with M_general alone."""


@dataclass(frozen=True, eq=False)
class AttackResult:
    """Scores of N listed names followed by R reference controls.

    Attributes
    ----------
    scores
        Formula -> score [N + R]; `chain_*` formulas [N] only.
    n_pieces
        [N + R] word pieces of each name.
    unit, n_units
        "inputs" or "documents", and how many.
    after
        From a number of blocks to the scores that as many blocks would have given.
    n_blocks
        Blocks in all.
    details
        What only this scenario reports, as plain values.
    documents
        Scenario 1: texts of M_hospital and M_general.
    """

    scores: Mapping[str, Score]
    n_pieces: Ids
    unit: str
    n_units: int
    n_blocks: int
    after: Callable[[int], Mapping[str, Score]]
    details: dict[str, object] = field(default_factory=dict)
    documents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


Sources = Callable[[str, str], evidence.Source]
"""From ("general" | "hospital", phase) to the source of evidence."""


def main_lead(request: AuditRequest) -> prompts.PassageKind:
    """Return the context in which names are counted in word pieces: the commonest passage kind."""
    if request.scenario_number == 1 or request.passages is None:
        return prompts.PassageKind(slots=("full",), separator="", lead=" ")
    kinds = Counter(map(prompts.passage_kind, request.passages.passages))
    return kinds.most_common(1)[0][0]


def mask_attack(
    request: AuditRequest, pair: ModelPair, *, names: Candidates, sources: Sources
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

    def after(n_blocks: int) -> Mapping[str, Score]:
        sums = [_posterior_sums(found[who], n_blocks) for who in ("hospital", "general")]
        return scores.posterior_scores(sums[0], general=sums[1], counts=counts[:n_blocks])

    result = dict(after(len(counts)))
    details: dict[str, object] = {
        "linking": link_passages(
            request.passages.passages if request.passages else (),
            candidates=request.candidates,
            hospital=found["hospital"],
            general=found["general"],
        )
    }
    if settings.n_chain_inputs:
        chained = {
            who: evidence.chain_evidence(
                sources(who, f"{who} model: chain"), task, n_inputs=settings.n_chain_inputs
            )
            for who in ("general", "hospital")
        }
        sums = [_posterior_sums(chained[who], None) for who in ("hospital", "general")]
        by_chain = scores.posterior_scores(
            sums[0], general=sums[1], counts=chained["hospital"].n_inputs
        )
        result |= {f"chain_{name}": score for name, score in by_chain.items()}
    return AttackResult(
        scores=result,
        n_pieces=_total_pieces(names, pair, request),
        unit="inputs",
        n_units=settings.n_inputs,
        n_blocks=len(counts),
        after=after,
        details=details,
    )


def posterior_rows(request: AuditRequest, pair: ModelPair, names: Candidates) -> dict[str, float]:
    """Return how many rows of forward passes one model takes in scenario 2, by phase."""
    task = _posterior_task(request, pair, names)
    settings = request.posterior
    rows = {"posteriors": float(posterior.n_rows(task, n_inputs=settings.n_inputs))}
    if settings.n_chain_inputs:
        rows["chain"] = float(chain.n_chain_rows(task, n_inputs=settings.n_chain_inputs))
    return rows


def generation_attack(
    request: AuditRequest, pair: ModelPair, *, names: Candidates, pool: NamePool, sources: Sources
) -> AttackResult:
    """Scenario 1: let both models generate, and look for the names in what comes out."""
    tokenizer = pair.hospital.tokenizer
    pieces = prompts.part_pieces(names, kind=main_lead(request), tokenizer=tokenizer)
    task = _generation_task(request, pair, pieces)
    listed = request.candidates
    sums: dict[str, MassSums] = {}
    details: dict[str, object] = {}
    documents: dict[str, tuple[str, ...]] = {}
    counts = np.zeros(0, dtype=np.int64)
    for who in ("general", "hospital"):
        found = evidence.generation_evidence(
            sources(who, f"{who} model: documents"), task,
            n_documents=request.generation.n_documents,
        )  # fmt: skip
        texts = tuple(tokenizer.batch_decode(found.documents, clean_up_tokenization_spaces=False))
        sums[who] = _mass_sums(found, task, pieces, hits=name_hits(listed, documents=texts))
        details[who] = _quality(found, task) | _lexicon(texts, pool=pool, tokenizer=tokenizer, listed=listed)
        documents[who] = texts
        counts = found.n_documents

    def after(n_blocks: int) -> Mapping[str, Score]:
        first = {who: _first_blocks(sums[who], n_blocks) for who in sums}
        return scores.generation_scores(
            first["hospital"], general=first["general"], counts=counts[:n_blocks]
        )

    return AttackResult(
        scores=after(len(counts)),
        n_pieces=pieces.n_pieces.sum(axis=1),
        unit="documents",
        n_units=request.generation.n_documents,
        n_blocks=len(counts),
        after=after,
        details=details,
        documents=documents,
    )


def _posterior_task(request: AuditRequest, pair: ModelPair, names: Candidates) -> PosteriorTask:
    passages = request.passages.passages if request.passages else ()
    settings, tokenizer = request.posterior, pair.hospital.tokenizer
    kinds, kind_of_passage = prompts.kinds_of(passages)
    pieces = tuple(prompts.part_pieces(names, kind=kind, tokenizer=tokenizer) for kind in kinds)
    between = max(len(prompts.token_ids(tokenizer, kind.separator.strip())) for kind in kinds)
    longest = max(int(p.n_pieces.sum(axis=1).max()) for p in pieces) + between
    templates = prompts.passage_templates(
        passages,
        tokenizer=tokenizer,
        max_tokens=min(settings.max_tokens, pair.n_positions),
        n_name_tokens=longest,
    )
    return PosteriorTask(
        templates=templates,
        kind_of_passage=kind_of_passage,
        pieces=pieces,
        n_listed=len(request.candidates),
        mask_id=tokenizer.mask_token_id,
        seed=request.seed,
        is_dropout_on=settings.is_dropout_on,
        micro_batch=settings.micro_batch,
    )


def _generation_task(
    request: AuditRequest, pair: ModelPair, pieces: prompts.PartPieces
) -> GenerationTask:
    settings, tokenizer = request.generation, pair.hospital.tokenizer
    if settings.n_tokens > pair.n_positions:
        raise AuditError(
            f"The models hold {pair.n_positions} tokens.", where="tokens", do="Ask for fewer."
        )
    mask = tokenizer.mask_token_id
    inner: list[int] = []
    for index, text in enumerate(settings.prompt.split("[MASK]")):
        inner += [mask] * (index > 0) + prompts.token_ids(tokenizer, text.rstrip())
    n_free = settings.n_tokens - 2 - len(inner)
    if n_free < 0:
        raise AuditError(
            f"has {len(inner) + 2} tokens, more than {settings.n_tokens}.", where="prompt",
            do="Shorten it, or ask for more tokens.",
        )  # fmt: skip
    ids = [tokenizer.cls_token_id, *inner, *[mask] * n_free, tokenizer.sep_token_id]
    first = ids.index(mask)
    end = next(i for i in range(first, len(ids)) if ids[i] != mask)
    parts = {
        tuple(int(i) for i in pieces.ids[row, k, : pieces.n_pieces[row, k]])
        for row in np.flatnonzero(pieces.is_known)
        for k in (0, 1)
        if pieces.n_pieces[row, k] > 1
    }
    return GenerationTask(
        prompt=tuple(ids),
        name_slots=tuple(range(first, end)),
        mask_id=mask,
        multi_piece_parts=tuple(sorted(parts)),
        seed=request.seed,
        n_steps=settings.n_steps,
        top_k=settings.top_k,
        temperature=settings.temperature,
        is_remasked=settings.is_remasked,
    )


def _posterior_sums(shard: PosteriorShard, n_blocks: int | None) -> PosteriorSums:
    return PosteriorSums(shard.sum_p[:n_blocks], shard.sum_log_p[:n_blocks])


def _mass_sums(
    found: GeneratedShard, task: GenerationTask, pieces: prompts.PartPieces, *, hits: tuple[Floats, Floats]
) -> MassSums:
    """Read the names' masses [b, N + R] out of the vocabulary's; hits of reference controls are NaN."""
    part_index = {part: i for i, part in enumerate(task.multi_piece_parts)}
    n_blocks, n_names = len(found.n_documents), len(pieces.is_known)
    mass = np.full((2, n_blocks, n_names), np.nan)
    for row in np.flatnonzero(pieces.is_known):
        for k in (0, 1):
            part = tuple(int(i) for i in pieces.ids[row, k, : pieces.n_pieces[row, k]])
            if len(part) == 1:
                mass[k, :, row] = found.mass[:, part[0]]
            elif part:
                mass[k, :, row] = found.part_mass[:, part_index[part]]
    padded = [np.pad(h, ((0, 0), (0, n_names - h.shape[1])), constant_values=np.nan) for h in hits]
    return MassSums(first=mass[0], last=mass[1], hits=padded[0], full_hits=padded[1])


def _first_blocks(sums: MassSums, n_blocks: int) -> MassSums:
    return replace(sums, **{name: column[:n_blocks] for name, column in vars(sums).items()})


def _quality(found: GeneratedShard, task: GenerationTask) -> dict[str, object]:
    """Return how good the documents are: masks left, duplicates, visits of the name slots."""
    n_documents = len(found.documents)
    n_left = int((found.documents == task.mask_id).sum())
    return {
        "n_documents": n_documents,
        "n_masks_left": n_left,
        "masks_left_per_document": n_left / n_documents,
        "n_distinct_documents": len(np.unique(found.documents, axis=0)),
        "name_slot_visits_per_document": float(found.n_slot_visits.sum()) / n_documents,
        "name_slot_mass_per_document": float(found.slot_mass.sum()) / n_documents,
    }


def _lexicon(
    texts: tuple[str, ...], *, pool: NamePool, tokenizer: Any, listed: Candidates
) -> dict[str, object]:
    count = prompts.piece_counter(tokenizer)
    counted = count_lexicon_names(
        texts,
        first_names=[n for n in pool.first if count("first", n) == 1],
        last_names=[n for n in pool.last if count("last", n) == 1],
        candidates=listed,
    )
    return {"name_counts": vars(counted)}


def _total_pieces(names: Candidates, pair: ModelPair, request: AuditRequest) -> Ids:
    kind = main_lead(request)
    pieces = prompts.part_pieces(names, kind=kind, tokenizer=pair.hospital.tokenizer)
    total: Ids = pieces.n_pieces.sum(axis=1)
    return total



