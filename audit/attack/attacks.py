"""Scenario 2: the attacker also has the de-identified notes, and lets the models fill names in.

Comes in: a request, a pair, names with reference controls, evidence. Goes out: an `AttackResult`.

Source: Nakamura et al., section 4.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from audit.attack import evidence, posterior, prompts, scores
from audit.attack import posterior as chain
from audit.attack.generation import GeneratedShard, GenerationTask
from audit.attack.posterior import PosteriorShard, PosteriorTask
from audit.attack.question import AuditRequest, equal_models
from audit.attack.scores import (
    AttackResult,
    Floats,
    Ids,
    MassSums,
    NameParts,
    PosteriorSums,
    Score,
    name_parts,
    part_residuals,
)
from audit.errors import AuditError
from audit.models.load import ModelPair
from audit.names import spelling
from audit.names.candidates import Candidates
from audit.names.controls import part_controls, reference_controls
from audit.names.matching import count_lexicon_names, name_hits
from audit.names.pools import NamePool, with_popularity
from audit.notes.passages import Passage
from audit.text import fold_name

Sources = Callable[[str, str], evidence.Source]
"""From ("general" | "hospital", phase) to the source of evidence."""


def main_lead(request: AuditRequest) -> spelling.PassageKind:
    """Return the context in which names are counted in word pieces: the commonest passage kind."""
    if request.scenario_number == 1 or request.passages is None:
        return spelling.RUNNING_TEXT
    kinds = Counter(map(prompts.passage_kind, request.passages.passages))
    return kinds.most_common(1)[0][0]


def refuse_equal(hospital: Floats, general: Floats) -> None:
    """Refuse two models that say the same of every name: then nothing is compared."""
    if hospital.size and np.array_equal(hospital, general, equal_nan=True):
        raise equal_models()


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
    pieces = spelling.part_pieces(listed, kind=kind, tokenizer=tokenizer)
    tested = [row for row, truth in enumerate(listed.is_member) if truth is not False]
    tested_parts = frozenset(fold_name(text) for row in tested for _, text in listed.parts(row))
    n_least = min(MAX_REFERENCE, REFERENCE_PER_NAME * len(tested))
    wanted = max(MIN_REFERENCE, n_least)
    count = spelling.piece_counter(tokenizer, kind=kind)
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


def generation_attack(
    request: AuditRequest, pair: ModelPair, *, names: Candidates, pool: NamePool, sources: Sources
) -> AttackResult:
    """Scenario 1: let both models generate, and look for the names in what comes out."""
    tokenizer = pair.hospital.tokenizer
    pieces = spelling.part_pieces(names, kind=main_lead(request), tokenizer=tokenizer)
    task = _generation_task(request, pair, pieces)
    listed = request.candidates
    columns = prompts.part_columns([pieces], has_between=[False])
    parts = name_parts(
        names, columns=columns, n_pieces=spelling.pieces_by_role(pieces), pool=pool,
        n_listed=len(listed),
    )  # fmt: skip
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
        hits = name_hits(listed, documents=texts)
        sums[who] = MassSums(_part_masses(found, task, pieces, columns), *hits)
        details[who] = _quality(found, task) | _lexicon(
            texts, pool=pool, tokenizer=tokenizer, listed=listed
        )
        documents[who] = texts
        counts = found.n_documents
    refuse_equal(sums["hospital"].mass, sums["general"].mass)

    def scored(n_blocks: int, with_errors: bool) -> dict[str, Score]:
        first = {who: _first_blocks(sums[who], n_blocks) for who in sums}
        return scores.all_scores(
            first["hospital"], general=first["general"], counts=counts[:n_blocks], parts=parts,
            with_errors=with_errors,
        )  # fmt: skip

    begins, of_listed = scores.shown_blocks(counts), parts.of_name[: len(listed)]
    log_mass = {who: np.log(sums[who].mass.sum(axis=0) + 0.5) for who in sums}
    return AttackResult(
        scores=scored(len(counts), True),
        n_pieces=pieces.n_pieces.sum(axis=1),
        parts=parts,
        part_residual=part_residuals(log_mass["hospital"], log_mass["general"], parts=parts),
        n_units=request.generation.n_documents,
        after=lambda n_blocks: scored(n_blocks, False),
        details=details,
        documents=documents,
        block_counts=counts,
        shown={
            who: _block_products(sums[who].mass, counts, begins=begins, columns=of_listed)
            for who in sums
        },
        shown_counts=np.add.reduceat(counts, begins),
    )


def _generation_task(
    request: AuditRequest, pair: ModelPair, pieces: spelling.PartPieces
) -> GenerationTask:
    settings, tokenizer = request.generation, pair.hospital.tokenizer
    if settings.n_tokens > pair.n_positions:
        raise AuditError(
            f"The models hold {pair.n_positions} tokens.", where="tokens", do="Ask for fewer."
        )
    mask = tokenizer.mask_token_id
    inner: list[int] = []
    for index, text in enumerate(settings.prompt.split("[MASK]")):
        inner += [mask] * (index > 0) + spelling.token_ids(tokenizer, text.rstrip())
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


def _part_masses(
    found: GeneratedShard, task: GenerationTask, pieces: spelling.PartPieces, columns: Ids
) -> Floats:
    """Read the parts' masses [b, U] out of the vocabulary's."""
    part_index = {part: i for i, part in enumerate(task.multi_piece_parts)}
    mass = np.zeros((len(found.n_documents), int(columns.max(initial=-1)) + 1))
    for row in np.flatnonzero(pieces.is_known):
        for place, role in enumerate(pieces.roles[row].tolist()):
            part = tuple(int(i) for i in pieces.ids[row, place, : pieces.n_pieces[row, place]])
            if len(part) == 1:
                mass[:, columns[row, role]] = found.mass[:, part[0]]
            elif part:
                mass[:, columns[row, role]] = found.part_mass[:, part_index[part]]
    return mass


def _block_products(mass: Floats, counts: Ids, *, begins: Ids, columns: Ids) -> Floats:
    """Return [s, N] the product per document of both parts' masses [b, U], by larger blocks."""
    shown, n = np.add.reduceat(mass, begins), np.add.reduceat(counts, begins)
    by_part = np.pad(shown, ((0, 0), (0, 1)), constant_values=np.nan)  # -1: none
    first, last = (by_part[:, column] for column in columns.T)
    product: Floats = first * last / np.square(n, dtype=float)[:, None]
    return product


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
    count = spelling.piece_counter(tokenizer)
    counted = count_lexicon_names(
        texts,
        first_names=[n for n in pool.first if count("first", n) == 1],
        last_names=[n for n in pool.last if count("last", n) == 1],
        candidates=listed,
    )
    return {"name_counts": vars(counted)}


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
        return scores.all_scores(
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
        n_units=settings.n_inputs,
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
    return scores.all_scores(sums[0], general=sums[1], counts=counts, parts=None)


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
    pieces = tuple(spelling.part_pieces(names, kind=kind, tokenizer=tokenizer) for kind in kinds)
    between = max(len(spelling.token_ids(tokenizer, kind.separator.strip())) for kind in kinds)
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
        names, columns=task.part_columns, n_pieces=spelling.pieces_by_role(pieces), pool=pool,
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
    pieces = spelling.part_pieces(names, kind=kind, tokenizer=pair.hospital.tokenizer)
    total: Ids = pieces.n_pieces.sum(axis=1)
    return total
