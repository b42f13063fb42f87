"""The attacks: names in what both models generate, and names filled into the de-identified notes.

Comes in: a request, a pair, names with reference controls, evidence. Goes out: an `AttackResult`.

Source: Nakamura et al., sections 4.1 and 4.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from audit.attack import evidence, prompts, scores
from audit.attack.generation import GeneratedShard, GenerationTask
from audit.attack.judgement import settled_names
from audit.attack.posterior import PosteriorShard
from audit.attack.prompts import PosteriorTask
from audit.attack.question import AuditRequest
from audit.attack.scores import FIXED_SCORE, AttackResult, Columns
from audit.errors import AuditError
from audit.models.load import ModelPair
from audit.names import spelling
from audit.names.candidates import Candidates
from audit.names.controls import (
    MIN_REFERENCE,
    N_REFERENCE,
    part_controls,
    reference_controls,
)
from audit.names.matching import count_lexicon_names, name_hits
from audit.names.pools import NamePool, popularity
from audit.notes.passages import Passage, find_owner_rows
from audit.stats import BoolArray, FloatArray, IntArray
from audit.text import fold_letters

Sources = Callable[[str, str], evidence.Source]
"""From ("general" | "hospital", kind of evidence) to the source of evidence."""

WHO = ("general", "hospital")
_LINKED = ("top_1", "top_5", "median_rank")


def main_lead(request: AuditRequest) -> spelling.PassageKind:
    """Return the context in which names are counted in word pieces: the commonest passage kind."""
    kinds = Counter(map(prompts.passage_kind, request.shown_passages))
    return kinds.most_common(1)[0][0] if kinds else spelling.RUNNING_TEXT


def with_reference(request: AuditRequest, pair: ModelPair, *, pool: NamePool) -> Candidates:
    """Return the listed names followed by reference controls with the same numbers of pieces."""
    listed, kind, tokenizer = request.candidates, main_lead(request), pair.hospital.tokenizer
    pieces = spelling.part_pieces(listed, kind=kind, tokenizer=tokenizer)
    n_parts = (pieces.n_pieces > 0).sum(axis=1)

    def n_by_pieces(names_of_parts: int, of_role: Sequence[str] = ()) -> dict[int, int]:
        """Return how many controls to draw for each number of pieces that listed names have."""
        rows = pieces.is_known & (n_parts == names_of_parts)
        rows &= np.array([bool(text) for text in of_role] or True)
        totals, n_names = np.unique(pieces.n_pieces[rows].sum(axis=1), return_counts=True)
        shares = n_names / max(int(pieces.is_known.sum()), 1)
        return {
            total: max(MIN_REFERENCE, round(N_REFERENCE * share))
            for total, share in zip(totals.tolist(), shares.tolist(), strict=True)
        }

    count_pieces = spelling.piece_counter(tokenizer, kind=kind)
    controls = reference_controls(
        pool,
        n_by_pieces=n_by_pieces(2),
        count_pieces=count_pieces,
        exclude=list(zip(listed.first, listed.last, strict=True)),
        seed=request.seed,
    )
    for role, texts in (("first", listed.first), ("last", listed.last)):
        if alone := n_by_pieces(1, texts):
            listed_texts = frozenset(
                fold_letters(text)
                for text, n in zip(texts, n_parts, strict=True)
                if n == 1 and text
            )
            controls += part_controls(
                pool,
                role=role,
                n_by_pieces=alone,
                count_pieces=count_pieces,
                exclude=listed_texts,
                seed=request.seed,
            )
    names = listed + controls
    twin_of = spelling.part_pieces(names, kind=kind, tokenizer=tokenizer).twin_of
    is_own = twin_of[len(listed) :] == spelling.NO_TWIN
    return listed + controls.rows(np.flatnonzero(is_own).tolist())


def task_of(
    request: AuditRequest, pair: ModelPair, names: Candidates
) -> GenerationTask | PosteriorTask:
    """Put a request in integers: what both models are asked, of all names."""
    tokenizer = pair.hospital.tokenizer
    if request.scenario_number == 1:
        pieces = spelling.part_pieces(names, kind=main_lead(request), tokenizer=tokenizer)
        return _generation_task(request, pair, pieces)
    settings = request.posterior
    return prompts.posterior_task(
        names,
        request.shown_passages,
        tokenizer=tokenizer,
        max_tokens=min(settings.max_tokens, pair.n_positions),
        n_listed=min(len(request.candidates), len(names)),
        seed=request.seed,
        is_dropout_on=settings.is_dropout_on,
        micro_batch=settings.micro_batch,
    )


def attack(
    request: AuditRequest,
    pair: ModelPair,
    task: GenerationTask | PosteriorTask,
    *,
    names: Candidates,
    pool: NamePool,
    sources: Sources,
) -> AttackResult:
    """Take what both models say of names, from `sources`, and score it; `names` as in the task."""
    listed, tokenizer = request.candidates, pair.hospital.tokenizer
    pieces = spelling.part_pieces(names, kind=main_lead(request), tokenizer=tokenizer)
    if isinstance(task, PosteriorTask):
        columns, asked = task.part_columns, task.pieces[0]
    else:
        columns, asked = prompts.part_columns([pieces], has_between=[False]), pieces
    parts = scores.name_parts(
        names, columns=columns, n_pieces=spelling.pieces_by_role(asked), pool=pool
    )
    n_pieces = pieces.n_pieces.sum(axis=1)
    found: dict[str, Any]
    if isinstance(task, PosteriorTask):
        found = _masked(request, task, sources, parts, pieces)
    else:
        found = _generated(request, task, pieces, columns, sources, tokenizer, pool)
    sums, counts, chain = (found.pop(name) for name in ("sums", "counts", "chain"))
    main = "mass" if request.scenario_number == 1 else "log_p"
    both = [sums[f"{who}_{main}"] for who in WHO]

    def scored(n_blocks: int, *, with_errors: bool = False) -> dict[str, FloatArray]:
        first, here = {name: block[:n_blocks] for name, block in sums.items()}, counts[:n_blocks]
        return scores.all_scores(first, counts=here, parts=parts, with_errors=with_errors)

    n, begins = float(counts.sum()), scores.shown_blocks(counts)
    totals = {name: block.sum(axis=0) for name, block in sums.items()}
    shown_counts = np.add.reduceat(counts, begins)
    shown = [_shown(np.add.reduceat(one, begins), shown_counts, parts, main=main) for one in both]
    written = zip(listed.first, listed.last, strict=True)
    return AttackResult(
        listed=listed,
        popularity=np.array([popularity(pool, first=f, last=la) for f, la in written]),
        scenario=request.scenario_number,
        scores=scored(len(counts), with_errors=True) | chain,
        n_pieces=n_pieces,
        parts=parts,
        part_residual=scores.Sums(totals, n, n, parts).residual,
        after=scored,
        block_counts=counts,
        has_evidence=_has_evidence(*both, columns=columns[: len(listed)]),
        shown={w: one[:, : len(listed)] for w, one in zip(WHO, shown, strict=True)},
        shown_counts=shown_counts,
        **found,
    )


def _shown(
    by_part: FloatArray, counts: IntArray, parts: scores.NameParts, *, main: str
) -> FloatArray:
    """Return what a model said of names by block [s, N], out of sums of its parts [s, U]."""
    if main == "log_p":
        return parts.whole(by_part) / counts[:, None]
    first, last = parts.pairs(by_part)
    return np.asarray(first * last / np.square(counts, dtype=float)[:, None])


def _has_evidence(general: FloatArray, hospital: FloatArray, *, columns: IntArray) -> bool:
    """Whether M_hospital said anything of the listed names' parts, and not what M_general said.

    Sums are by block and part [b, U], `columns` as `part_columns` has them. Names none of which can
    be scored are told elsewhere.
    """
    used = np.unique(columns[columns >= 0])
    own, others = hospital[:, used], general[:, used]
    return not used.size or bool(own.any() and not np.array_equal(own, others, equal_nan=True))


RANKED_BY = (FIXED_SCORE, "part_log_ratio")
"""Scores of a list that is ranked alone."""


def ranked(
    request: AuditRequest,
    pair: ModelPair,
    task: GenerationTask | PosteriorTask,
    *,
    pool: NamePool,
    sources: Sources,
) -> tuple[BoolArray, AttackResult]:
    """Score a list of any length by what one run keeps of its vocabulary, whatever its own list.

    `task` asks no name. Returned are which names [N] have parts of one word piece alone, and the
    scores `RANKED_BY` of those names and of reference controls. In scenario 2 a name needs both
    parts, for names of one are asked by other masks.
    """
    kinds = prompts.kinds_of(request.shown_passages)[0] or (main_lead(request),)

    def spelled(names: Candidates) -> list[spelling.PartPieces]:
        tokenizer = pair.hospital.tokenizer
        return [spelling.part_pieces(names, kind=kind, tokenizer=tokenizer) for kind in kinds]

    needs_both = request.scenario_number == 2
    is_scored = _is_single(request.candidates, spelled(request.candidates), needs_both=needs_both)
    if not is_scored.any():
        raise AuditError(
            "No name of the list has parts of one word piece each.",
            where="names",
            do="Audit the list with `run`.",
        )
    listed = request.candidates.rows(np.flatnonzero(is_scored).tolist())
    names = with_reference(request.with_(candidates=listed), pair, pool=pool)
    pieces = spelled(names)
    # A control of several pieces in some passages has no part either.
    is_asked = _is_single(names, pieces, needs_both=needs_both)
    pieces = [replace(one, is_known=one.is_known & is_asked) for one in pieces]
    columns = prompts.part_columns(pieces, has_between=[False] * len(kinds))
    kind_of, size = next(iter(request.sizes().items()))
    sums: dict[str, FloatArray] = {}
    for who in WHO:
        found = evidence.collect(sources(who, kind_of), task, kind=kind_of, n_total=size)
        if isinstance(found, GeneratedShard):
            name, counts, by_token = "mass", found.n_documents, found.mass[:, None, None]
        else:
            name, counts, by_token = "log_p", found.vocabulary_n_inputs, found.vocabulary
        sums[f"{who}_{name}"] = _single(by_token, pieces, columns)
    parts = scores.name_parts(
        names, columns=columns, n_pieces=np.minimum(columns + 1, 1), pool=pool
    )
    n = float(counts.sum())
    totals = {name: block.sum(axis=0) for name, block in sums.items()}
    return is_scored, AttackResult(
        listed=listed,
        popularity=np.full(len(listed), np.nan),
        scenario=request.scenario_number,
        scores=scores.all_scores(sums, counts=counts, parts=parts, only=RANKED_BY),
        n_pieces=pieces[0].n_pieces.sum(axis=1),
        parts=parts,
        part_residual=scores.Sums(totals, n, n, parts).residual,
        after=lambda _: {},
        block_counts=counts,
    )


def _is_single(
    names: Candidates, pieces: Sequence[spelling.PartPieces], *, needs_both: bool
) -> BoolArray:
    """Return which names have parts of one word piece alone, in passages of every kind."""
    is_one = np.all([one.is_known & (one.n_pieces <= 1).all(axis=1) for one in pieces], axis=0)
    if needs_both:
        is_one &= [bool(f and la) for f, la in zip(names.first, names.last, strict=True)]
    return np.asarray(is_one)


def _single(
    by_token: FloatArray, pieces: Sequence[spelling.PartPieces], columns: IntArray
) -> FloatArray:
    """Read parts of one piece [b, U] out of sums by kind of passage, mask and token [b, k, m, V].

    Sums of one mask only are of all masks.
    """
    used, where = np.unique(columns, return_index=True)
    row, role = np.divmod(where[used >= 0], 2)
    found = np.zeros((len(by_token), len(row)))
    for kind, one in enumerate(pieces):
        for slot in (0, 1):
            here = one.roles[row, slot] == role
            tokens = one.ids[row[here], slot, 0]
            found[:, here] += by_token[:, kind, min(slot, by_token.shape[2] - 1), tokens]
    return found


def _generated(
    request: AuditRequest,
    task: GenerationTask,
    pieces: spelling.PartPieces,
    columns: IntArray,
    sources: Sources,
    tokenizer: Any,
    pool: NamePool,
) -> dict[str, Any]:
    """Scenario 1: block sums, documents, and how many names of people these hold."""
    count, listed = spelling.piece_counter(tokenizer), request.candidates
    lexicon = {
        f"{role}_names": [n for n in getattr(pool, role) if count(role, n) == 1]
        for role in ("first", "last")
    }
    sums: dict[str, FloatArray] = {}
    details: dict[str, object] = {}
    documents: dict[str, tuple[str, ...]] = {}
    for who in WHO:
        found: GeneratedShard = evidence.collect(
            sources(who, "generation"),
            task,
            kind="generation",
            n_total=request.generation.n_documents,
        )
        texts = tuple(tokenizer.batch_decode(found.documents, clean_up_tokenization_spaces=False))
        hits, full_hits = name_hits(listed, documents=texts)
        mass = _part_masses(found, task, pieces, columns)
        sums |= {f"{who}_mass": mass, f"{who}_hits": hits, f"{who}_full_hits": full_hits}
        counted = count_lexicon_names(texts, candidates=listed, **lexicon)
        details[who] = {"name_counts": counted}
        documents[who] = texts
    return {
        "sums": sums,
        "counts": found.n_documents,
        "chain": {},
        "details": details,
        "documents": documents,
    }


def _masked(
    request: AuditRequest,
    task: PosteriorTask,
    sources: Sources,
    parts: scores.NameParts,
    pieces: spelling.PartPieces,
) -> dict[str, Any]:
    """Scenario 2: block sums, scores by chain, and what passages fit whom."""
    settings, listed = request.posterior, request.candidates

    def made(kind: str, n: int, n_before: int = 0) -> dict[str, PosteriorShard]:
        return {
            who: evidence.collect(sources(who, kind), task, kind=kind, n_total=n, n_before=n_before)
            for who in WHO
        }

    def sums(found: dict[str, PosteriorShard]) -> Columns:
        return {f"{who}_p": shard.sum_p for who, shard in found.items()} | {
            f"{who}_log_p": shard.sum_log_p for who, shard in found.items()
        }

    looks = evidence.looks(settings.n_inputs) if settings.is_sequential else (settings.n_inputs,)
    found, n_open = made("posterior", looks[0]), len(listed)
    for n_before, n in pairwise(looks):
        of, counts = sums(found), found["hospital"].n_inputs
        settled = settled_names(
            scores.residual_errors(of, counts=counts, parts=parts),
            counts=counts,
            listed=listed,
            parts=parts,
            n_pieces=pieces.n_pieces.sum(axis=1),
            n_looks=len(looks) - 1,
            source=request.control_source,
        )
        if not (n_open := int((~settled).sum())):
            break
        new = made("posterior", n, n_before)
        found = {
            who: evidence.joined_shards(PosteriorShard, [vars(found[who]), vars(new[who])])
            for who in WHO
        }
    counts = found["hospital"].n_inputs
    stop = {"n_inputs": int(counts.sum()), "n_allowed": settings.n_inputs, "n_open": n_open}
    for source in (sources(who, "posterior") for who in WHO):  # what is saved is not to be done
        n_rows = task.n_rows("posterior", stop["n_inputs"])
        source.meter.resize(source.phase, n_rows * source.row_work)
    chain: dict[str, FloatArray] = {}
    if settings.n_chain_inputs:
        of_chain = made("chain", settings.n_chain_inputs)
        n_chain = of_chain["hospital"].n_inputs
        chain = scores.all_scores(sums(of_chain), counts=n_chain, parts=None)
    n_drawn = found["hospital"].passage_n_inputs
    ratio = found["hospital"].passage_sum_log_p - found["general"].passage_sum_log_p
    linking = link_passages(request.shown_passages, candidates=listed, **found)
    return {
        "sums": sums(found),
        "counts": counts,
        "chain": chain,
        "n_chain_inputs": settings.n_chain_inputs,
        "details": {"linking": linking} | ({"stop": stop} if looks[1:] else {}),
        "passage_log_ratio": ratio / np.where(n_drawn, n_drawn, np.nan)[:, None],
    }


def _generation_task(
    request: AuditRequest, pair: ModelPair, pieces: spelling.PartPieces
) -> GenerationTask:
    settings, tokenizer = request.generation, pair.hospital.tokenizer
    if settings.n_tokens > pair.n_positions:
        raise AuditError(
            "The models hold {n_positions} tokens.",
            where="tokens",
            do="Ask for fewer.",
            n_positions=pair.n_positions,
        )
    mask = tokenizer.mask_token_id
    inner: list[int] = []
    for index, text in enumerate(settings.prompt.split("[MASK]")):
        inner += [mask] * (index > 0) + spelling.token_ids(tokenizer, text.rstrip())
    n_free = settings.n_tokens - 2 - len(inner)
    if n_free < 0:
        raise AuditError(
            "has {n_inner} tokens, more than {n_tokens}.",
            where="prompt",
            do="Shorten it, or ask for more tokens.",
            n_inner=len(inner) + 2,
            n_tokens=settings.n_tokens,
        )
    ids = [tokenizer.cls_token_id, *inner, *[mask] * n_free, tokenizer.sep_token_id]
    return GenerationTask(
        prompt=tuple(ids),
        mask_id=mask,
        multi_piece_parts=tuple(sorted({part for _, _, part in _spelled(pieces) if part[1:]})),
        seed=request.seed,
        n_steps=settings.n_steps,
        top_k=settings.top_k,
        temperature=settings.temperature,
        is_remasked=settings.is_remasked,
    )


def _spelled(pieces: spelling.PartPieces) -> list[tuple[int, int, tuple[int, ...]]]:
    """(row, role, word pieces) of every part that can be scored."""
    return [
        (row, role, tuple(pieces.ids[row, place, : pieces.n_pieces[row, place]].tolist()))
        for row in np.flatnonzero(pieces.is_known).tolist()
        for place, role in enumerate(pieces.roles[row].tolist())
        if role != spelling.NO_PART
    ]


def _part_masses(
    found: GeneratedShard, task: GenerationTask, pieces: spelling.PartPieces, columns: IntArray
) -> FloatArray:
    """Read the parts' masses [b, U] out of the vocabulary's."""
    place = {part: i for i, part in enumerate(task.multi_piece_parts)}
    mass = np.zeros((len(found.n_documents), int(columns.max(initial=-1)) + 1))
    for row, role, part in _spelled(pieces):
        mass[:, columns[row, role]] = (
            found.part_mass[:, place[part]] if part[1:] else found.mass[:, part[0]]
        )
    return mass


def link_passages(
    passages: Sequence[Passage],
    *,
    candidates: Candidates,
    hospital: PosteriorShard,
    general: PosteriorShard,
) -> dict[str, object] | None:
    """Rank each passage's own name among all candidates.

    For the mean log ratio ("hospital_against_general"), each model alone and chance: share with
    rank 1 and rank <= 5, median rank. None where no passage says whose it is; those of canaries
    are left out.
    """
    owned = find_owner_rows(passages, first=candidates.first, last=candidates.last)
    usable = [
        (p, row)
        for p, row in enumerate(owned)
        if row is not None
        and not candidates.is_canary(row)
        and hospital.passage_n_inputs[p]
        and np.isfinite(hospital.passage_sum_log_p[p, row])
    ]
    if not usable:
        return None
    rows, owners = np.array(usable).T
    n = hospital.passage_n_inputs[rows, None]
    log_h, log_g = (model.passage_sum_log_p[rows] / n for model in (hospital, general))  # [U, N]
    n_names = int(np.isfinite(log_h[0]).sum())
    told: dict[str, Any] = {"n_passages": len(usable), "n_names": n_names}
    for name, fit in (
        ("general_alone", log_g),
        ("hospital_alone", log_h),
        ("hospital_against_general", log_h - log_g),
    ):
        own = np.take_along_axis(fit, owners[:, None], axis=1)
        # 1 = fits best; ties count half.
        ranks = 1 + (fit > own).sum(axis=1) + ((fit == own).sum(axis=1) - 1) / 2
        numbers = (ranks <= 1).mean(), (ranks <= 5).mean(), np.median(ranks)
        told[name] = dict(zip(_LINKED, map(float, numbers), strict=True))
    by_chance = (1 / n_names, min(1.0, 5 / n_names), (n_names + 1) / 2)
    return told | {
        "chance": dict(zip(_LINKED, by_chance, strict=True)),
        "rank_by_passage": [
            {"passage_id": passages[p].passage_id, "name_id": row, "rank": rank}
            for (p, row), rank in zip(usable, ranks.tolist(), strict=True)
        ],
    }
