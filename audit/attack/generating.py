"""Scenario 1: the attacker has the model alone, lets it generate, and looks for names.

Comes in: a request, a pair, names with reference controls, evidence. Goes out: an `AttackResult`.

Source: Nakamura et al., section 4.1 and appendix B.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from audit.attack import evidence
from audit.attack.result import AttackResult, Sources, main_lead, refuse_equal
from audit.errors import AuditError
from audit.membership import prompts, scores
from audit.membership.candidates import Candidates
from audit.membership.generation import GeneratedShard, GenerationTask
from audit.membership.matching import count_lexicon_names, name_hits
from audit.membership.name_pools import NamePool
from audit.membership.part_scores import name_parts, part_residuals
from audit.membership.scores import Floats, Ids, MassSums, Score
from audit.models.pair import ModelPair
from audit.request import AuditRequest


def generation_attack(
    request: AuditRequest, pair: ModelPair, *, names: Candidates, pool: NamePool, sources: Sources
) -> AttackResult:
    """Scenario 1: let both models generate, and look for the names in what comes out."""
    tokenizer = pair.hospital.tokenizer
    pieces = prompts.part_pieces(names, kind=main_lead(request), tokenizer=tokenizer)
    task = _generation_task(request, pair, pieces)
    listed = request.candidates
    columns = prompts.part_columns([pieces], has_between=[False])
    parts = name_parts(
        names, columns=columns, n_pieces=prompts.pieces_by_role(pieces), pool=pool,
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
        return scores.generation_scores(
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
        unit="documents",
        n_units=request.generation.n_documents,
        n_blocks=len(counts),
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


def _part_masses(
    found: GeneratedShard, task: GenerationTask, pieces: prompts.PartPieces, columns: Ids
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
    count = prompts.piece_counter(tokenizer)
    counted = count_lexicon_names(
        texts,
        first_names=[n for n in pool.first if count("first", n) == 1],
        last_names=[n for n in pool.last if count("last", n) == 1],
        candidates=listed,
    )
    return {"name_counts": vars(counted)}
