"""The attacks: names in what both models generate, and names filled into the de-identified notes.

Input: a request, a pair, names with reference controls, evidence. Output: an `AttackResult`.

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
from audit.attack.contexts import (
    ContinuationTask,
    list_first_tokens,
    make_continuation_task,
)
from audit.attack.continuation import ContinuationShard
from audit.attack.generation import GeneratedShard, GenerationTask
from audit.attack.judgement import find_settled_names
from audit.attack.measure_types import (
    Details,
    Generated,
    Linked,
    Linking,
    NameCounts,
    PassageRank,
    Stop,
)
from audit.attack.posterior import PosteriorShard
from audit.attack.prompts import PosteriorTask
from audit.attack.question import MODEL_ROLES, AuditRequest
from audit.attack.sampling import RecallShard, SamplingTask
from audit.attack.scores import FIXED_SCORE, AttackResult, Columns
from audit.errors import AuditError
from audit.models.library import Tokenizer
from audit.models.load import ModelPair
from audit.names import spelling
from audit.names.candidates import Candidates
from audit.names.controls import (
    MIN_PAIR_REFERENCE,
    MIN_REFERENCE,
    N_PAIR_REFERENCE,
    N_REFERENCE,
    part_controls,
    reference_controls,
)
from audit.names.matching import count_lexicon_names, name_hits
from audit.names.pools import NamePool, popularity
from audit.notes.passages import Passage, find_owner_rows
from audit.stats import BoolArray, FloatArray, IntArray
from audit.text import fold_letters, is_unspaced

Sources = Callable[[str, str], evidence.Source]
"""From ("general" | "hospital", kind of evidence) to the source of evidence."""


def main_passage_kind(request: AuditRequest) -> spelling.PassageKind:
    """Return the commonest kind of passage, in whose context names are counted in word pieces."""
    kinds = [spelling.PassageKind.from_passage(passage) for passage in request.shown_passages]
    if not kinds:
        return spelling.RUNNING_TEXT
    [(main_kind, n)] = Counter(kinds).most_common(1)
    n_joined = sum(kind.is_joined for kind in kinds if kind == main_kind)
    return replace(main_kind, is_joined=2 * n_joined > n)


def _list_passage_kinds(request: AuditRequest, tokenizer: Any) -> tuple[spelling.PassageKind, ...]:
    """Return the kinds of the passages, or that of running text if there are none."""
    kinds, _ = prompts.index_kinds(request.shown_passages, tokenizer=tokenizer)
    return kinds or (main_passage_kind(request),)


def add_references(request: AuditRequest, pair: ModelPair, *, pool: NamePool) -> Candidates:
    """Return the listed names followed by reference controls with the same numbers of pieces."""
    listed, kind, tokenizer = (
        request.candidates,
        main_passage_kind(request),
        pair.hospital.tokenizer,
    )
    pieces = spelling.part_pieces(listed, kind=kind, tokenizer=tokenizer)
    n_parts = (pieces.n_pieces > 0).sum(axis=1)
    n_controls, n_least = (
        (N_PAIR_REFERENCE, MIN_PAIR_REFERENCE)
        if request.is_causal
        else (N_REFERENCE, MIN_REFERENCE)
    )

    def count_by_pieces(names_of_parts: int, of_role: Sequence[str] = ()) -> dict[int, int]:
        """Return how many controls to draw for each number of pieces that listed names have."""
        rows = pieces.is_known & (n_parts == names_of_parts)
        rows &= np.array([bool(text) for text in of_role] or True)
        totals, n_names = np.unique(pieces.n_pieces[rows].sum(axis=1), return_counts=True)
        shares = n_names / max(int(pieces.is_known.sum()), 1)
        return {
            total: max(n_least, round(n_controls * share))
            for total, share in zip(totals.tolist(), shares.tolist(), strict=True)
        }

    count_pieces = spelling.piece_counter(tokenizer, kind=kind)
    controls = reference_controls(
        pool,
        n_by_pieces=count_by_pieces(2),
        count_pieces=count_pieces,
        exclude=list(zip(listed.first, listed.last, strict=True)),
        seed=request.seed,
    )
    for role, texts in (("first", listed.first), ("last", listed.last)):
        if alone := count_by_pieces(1, texts):
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


def make_task(request: AuditRequest, pair: ModelPair, names: Candidates) -> evidence.AnyTask:
    """Return the task of a request: the question on all names that both models get, in integers."""
    tokenizer = pair.hospital.tokenizer
    if pair.general.config.is_causal:
        if request.scenario_number == 1:
            return _make_sampling_task(request, pair, names)
        return make_continuation_task(
            names,
            request.shown_passages,
            tokenizer=tokenizer,
            is_known=_spell(request, names, tokenizer).is_known,
            n_listed=min(len(request.candidates), len(names)),
            max_tokens=min(request.continuation.max_tokens, _find_reach(pair)),
            header=request.continuation.header,
            seed=request.seed,
        )
    if request.scenario_number == 1:
        return _make_generation_task(request, pair, _spell(request, names, tokenizer))
    settings = request.posterior
    return prompts.make_posterior_task(
        names,
        request.shown_passages,
        tokenizer=tokenizer,
        max_tokens=min(settings.max_tokens, pair.n_positions),
        n_listed=min(len(request.candidates), len(names)),
        seed=request.seed,
        is_dropout_on=settings.is_dropout_on,
        micro_batch=settings.micro_batch,
    )


def _spell(request: AuditRequest, names: Candidates, tokenizer: Tokenizer) -> spelling.PartPieces:
    """Return the word pieces of names in passages of the commonest kind, or in running text."""
    return spelling.part_pieces(names, kind=main_passage_kind(request), tokenizer=tokenizer)


def attack(
    request: AuditRequest,
    pair: ModelPair,
    task: evidence.AnyTask,
    *,
    names: Candidates,
    pool: NamePool,
    sources: Sources,
) -> AttackResult:
    """Score names by both models' evidence from `sources`; `names` are those of the task."""
    listed, tokenizer = request.candidates, pair.hospital.tokenizer
    pieces = _spell(request, names, tokenizer)
    if isinstance(task, PosteriorTask):
        columns, scored_pieces = task.part_columns, task.pieces[0]
    else:
        if isinstance(task, ContinuationTask):
            pieces = replace(pieces, is_known=task.is_known)
        columns, scored_pieces = prompts.part_columns([pieces], has_between=[False]), pieces
    parts = scores.describe_parts(
        names, columns=columns, n_pieces=spelling.pieces_by_role(scored_pieces), pool=pool
    )
    n_pieces = pieces.n_pieces.sum(axis=1)
    fields: dict[str, Any]
    if isinstance(task, PosteriorTask):
        fields = _collect_masked(request, task, sources, parts, pieces)
    elif isinstance(task, ContinuationTask):
        fields = _collect_continued(request, task, sources, parts)
    else:
        fields = _collect_generated(request, task, pieces, columns, sources, tokenizer, pool)
    sums, counts, chain = (fields.pop(name) for name in ("sums", "counts", "chain"))
    main = "mass" if request.scenario_number == 1 else "log_p"
    main_sums = [sums[f"{model_role}_{main}"] for model_role in MODEL_ROLES]

    def score_prefix(n_blocks: int, *, with_errors: bool = False) -> dict[str, FloatArray]:
        first_sums = {name: block[:n_blocks] for name, block in sums.items()}
        return scores.compute_scores(
            first_sums, counts=counts[:n_blocks], parts=parts, with_errors=with_errors
        )

    n, begins = float(counts.sum()), scores.merge_blocks(counts)
    totals = {name: block.sum(axis=0) for name, block in sums.items()}
    shown_counts = np.add.reduceat(counts, begins)
    shown_sums = {name: np.add.reduceat(block, begins) for name, block in sums.items()}
    block_evidence = {
        model_role: _name_evidence(shown_sums, model_role, shown_counts, parts)[:, : len(listed)]
        for model_role in MODEL_ROLES
    }
    full_names = zip(listed.first, listed.last, strict=True)
    return AttackResult(
        listed=listed,
        popularity=np.array([popularity(pool, first=f, last=la) for f, la in full_names]),
        scenario=request.scenario_number,
        scores=score_prefix(len(counts), with_errors=True) | chain,
        n_pieces=n_pieces,
        parts=parts,
        part_residual=scores.Sums(totals, n, n, parts).residual,
        prefix_scores=score_prefix,
        block_counts=counts,
        has_evidence=_has_evidence(*main_sums, columns=columns[: len(listed)]),
        block_evidence=block_evidence,
        block_evidence_counts=shown_counts,
        **fields,
    )


def _name_evidence(
    sums: Columns, model_role: str, counts: IntArray, parts: scores.NameParts
) -> FloatArray:
    """Return a model's mean evidence of names by block [s, N], from sums by block."""
    n = counts[:, None].astype(float)
    if f"{model_role}_pair_log_p" in sums:
        return np.asarray(sums[f"{model_role}_pair_log_p"] / n)
    if f"{model_role}_log_p" in sums:
        return np.asarray(parts.sum_parts(sums[f"{model_role}_log_p"]) / n)
    first, last = parts.pairs(sums[f"{model_role}_mass"])
    return np.asarray(first * last / np.square(n))


def _has_evidence(general: FloatArray, hospital: FloatArray, *, columns: IntArray) -> bool:
    """Return whether M_hospital has evidence of the listed names that differs from M_general's.

    Sums are by block and part [b, U], `columns` are those of `part_columns`. True if none of the
    names can be scored, which is reported elsewhere.
    """
    used = np.unique(columns[columns >= 0])
    hospital_sums, general_sums = hospital[:, used], general[:, used]
    return not used.size or bool(
        hospital_sums.any() and not np.array_equal(hospital_sums, general_sums, equal_nan=True)
    )


RANKED_BY = (FIXED_SCORE, "part_log_ratio")
"""Scores of a list that is only ranked."""


def score_list(
    request: AuditRequest,
    pair: ModelPair,
    task: evidence.AnyTask,
    *,
    pool: NamePool,
    sources: Sources,
) -> tuple[BoolArray, AttackResult]:
    """Score a list of any length by a run's evidence of its vocabulary, whatever the run's list.

    `task` has no names. Returns which names [N] have only parts of one word piece, and the scores
    `RANKED_BY` of those names and of reference controls. In scenario 2 a name needs both parts,
    because names of one part are read at other masks.
    """
    tokenizer = pair.hospital.tokenizer
    kinds = _list_passage_kinds(request, tokenizer)

    def spell_names(names: Candidates) -> list[spelling.PartPieces]:
        return [spelling.part_pieces(names, kind=kind, tokenizer=tokenizer) for kind in kinds]

    needs_both = request.scenario_number == 2
    is_scored = _single_piece_mask(
        request.candidates, spell_names(request.candidates), needs_both=needs_both
    )
    if not is_scored.any():
        raise AuditError(
            "No name of the list has parts of one word piece each.",
            where="names",
            do="Audit the list with `run`.",
        )
    listed = request.candidates.rows(np.flatnonzero(is_scored).tolist())
    names = add_references(request.with_(candidates=listed), pair, pool=pool)
    pieces = spell_names(names)
    # A control of several pieces in some passages has no part either.
    is_asked = _single_piece_mask(names, pieces, needs_both=needs_both)
    pieces = [
        replace(kind_pieces, is_known=kind_pieces.is_known & is_asked) for kind_pieces in pieces
    ]
    columns = prompts.part_columns(pieces, has_between=[False] * len(kinds))
    evidence_kind, size = next(iter(request.sizes().items()))
    sums: dict[str, FloatArray] = {}
    for model_role in MODEL_ROLES:
        shard = evidence.collect(
            sources(model_role, evidence_kind), task, kind=evidence_kind, n_total=size
        )
        if isinstance(shard, GeneratedShard):
            name, counts, by_token = "mass", shard.n_documents, shard.mass[:, None, None]
        else:
            name, counts, by_token = "log_p", shard.vocabulary_n_inputs, shard.vocabulary
        sums[f"{model_role}_{name}"] = _read_single_pieces(by_token, pieces, columns)
    parts = scores.describe_parts(
        names, columns=columns, n_pieces=np.minimum(columns + 1, 1), pool=pool
    )
    n = float(counts.sum())
    totals = {name: block.sum(axis=0) for name, block in sums.items()}
    return is_scored, AttackResult(
        listed=listed,
        popularity=np.full(len(listed), np.nan),
        scenario=request.scenario_number,
        scores=scores.compute_scores(sums, counts=counts, parts=parts, only=RANKED_BY),
        n_pieces=pieces[0].n_pieces.sum(axis=1),
        parts=parts,
        part_residual=scores.Sums(totals, n, n, parts).residual,
        prefix_scores=lambda _: {},
        block_counts=counts,
    )


def _single_piece_mask(
    names: Candidates, pieces: Sequence[spelling.PartPieces], *, needs_both: bool
) -> BoolArray:
    """Return which names have only parts of one word piece, in passages of every kind."""
    is_one = np.all(
        [kind_pieces.is_known & (kind_pieces.n_pieces <= 1).all(axis=1) for kind_pieces in pieces],
        axis=0,
    )
    if needs_both:
        is_one &= [bool(f and la) for f, la in zip(names.first, names.last, strict=True)]
    return np.asarray(is_one)


def _read_single_pieces(
    by_token: FloatArray, pieces: Sequence[spelling.PartPieces], columns: IntArray
) -> FloatArray:
    """Read parts of one piece [b, U] out of sums by kind of passage, mask and token [b, k, m, V].

    Sums with a single mask stand for all masks.
    """
    used, first_places = np.unique(columns, return_index=True)
    row, role = np.divmod(first_places[used >= 0], 2)
    part_sums = np.zeros((len(by_token), len(row)))
    for kind, kind_pieces in enumerate(pieces):
        for slot in (0, 1):
            is_in_slot = kind_pieces.roles[row, slot] == role
            tokens = kind_pieces.ids[row[is_in_slot], slot, 0]
            part_sums[:, is_in_slot] += by_token[:, kind, min(slot, by_token.shape[2] - 1), tokens]
    return part_sums


def _collect_generated(
    request: AuditRequest,
    task: GenerationTask | SamplingTask,
    pieces: spelling.PartPieces,
    columns: IntArray,
    sources: Sources,
    tokenizer: Any,
    pool: NamePool,
) -> dict[str, Any]:
    """Collect scenario 1's block sums and documents, and count the people's names in these."""
    count_pieces, listed = spelling.piece_counter(tokenizer), request.candidates
    lexicon = {
        f"{role}_names": [n for n in getattr(pool, role) if count_pieces(role, n) == 1]
        for role in ("first", "last")
    }
    sums: dict[str, FloatArray] = {}
    chances: dict[str, FloatArray] = {}
    details = Details()
    documents: dict[str, tuple[str, ...]] = {}
    kind, n_documents = next(iter(request.sizes().items()))
    for model_role in MODEL_ROLES:
        shard: GeneratedShard = evidence.collect(
            sources(model_role, kind), task, kind=kind, n_total=n_documents
        )
        if isinstance(task, SamplingTask):
            recall: RecallShard = evidence.collect(
                sources(model_role, "recall"), task, kind="recall", n_total=1
            )
            chances[f"{model_role}_p"] = recall.sum_p
        texts = tuple(
            tokenizer.batch_decode(
                shard.documents,
                skip_special_tokens=isinstance(task, SamplingTask),
                clean_up_tokenization_spaces=False,
            )
        )
        hits, full_hits = name_hits(listed, documents=texts)
        mass = _read_part_masses(shard, task, pieces, columns)
        sums |= {
            f"{model_role}_mass": mass,
            f"{model_role}_hits": hits,
            f"{model_role}_full_hits": full_hits,
        }
        name_counts = NameCounts(**count_lexicon_names(texts, candidates=listed, **lexicon))
        details = details.with_parts({model_role: Generated(name_counts=name_counts)})
        documents[model_role] = texts
    return {
        "sums": sums,
        "counts": shard.n_documents,
        "chain": scores.compute_recall(chances) if chances else {},
        "details": details,
        "documents": documents,
    }


def _collect_masked(
    request: AuditRequest,
    task: PosteriorTask,
    sources: Sources,
    parts: scores.NameParts,
    pieces: spelling.PartPieces,
) -> dict[str, Any]:
    """Collect scenario 2's block sums, scores by `chain`, and which passages fit which names."""
    settings, listed = request.posterior, request.candidates

    def collect_shards(kind: str, n: int, n_before: int = 0) -> dict[str, PosteriorShard]:
        return {
            model_role: evidence.collect(
                sources(model_role, kind), task, kind=kind, n_total=n, n_before=n_before
            )
            for model_role in MODEL_ROLES
        }

    def sum_columns(shards: dict[str, PosteriorShard]) -> Columns:
        return {f"{model_role}_p": shard.sum_p for model_role, shard in shards.items()} | {
            f"{model_role}_log_p": shard.sum_log_p for model_role, shard in shards.items()
        }

    looks = (
        evidence.look_sizes(settings.n_inputs) if settings.is_sequential else (settings.n_inputs,)
    )
    shards, n_open = collect_shards("posterior", looks[0]), len(listed)
    for n_before, n in pairwise(looks):
        prefix_sums, counts = sum_columns(shards), shards["hospital"].n_inputs
        is_settled = find_settled_names(
            scores.compute_residual_errors(prefix_sums, counts=counts, parts=parts),
            counts=counts,
            listed=listed,
            parts=parts,
            n_pieces=pieces.n_pieces.sum(axis=1),
            n_looks=len(looks) - 1,
            source=request.control_source,
        )
        if not (n_open := int((~is_settled).sum())):
            break
        new = collect_shards("posterior", n, n_before)
        shards = {
            model_role: evidence.join_shards(
                PosteriorShard, [vars(shards[model_role]), vars(new[model_role])]
            )
            for model_role in MODEL_ROLES
        }
    counts = shards["hospital"].n_inputs
    stop = Stop(n_inputs=int(counts.sum()), n_allowed=settings.n_inputs, n_open=n_open)
    for source in (
        sources(model_role, "posterior") for model_role in MODEL_ROLES
    ):  # saved inputs are no work
        n_rows = task.n_rows("posterior", stop.n_inputs)
        source.meter.resize(source.phase, n_rows * source.row_work)
    chain: dict[str, FloatArray] = {}
    if settings.n_chain_inputs:
        chain_shards = collect_shards("chain", settings.n_chain_inputs)
        n_chain = chain_shards["hospital"].n_inputs
        chain = scores.compute_scores(sum_columns(chain_shards), counts=n_chain, parts=None)
    n_drawn = shards["hospital"].passage_n_inputs
    ratio = shards["hospital"].passage_sum_log_p - shards["general"].passage_sum_log_p
    linking = link_passages(request.shown_passages, candidates=listed, **shards)
    return {
        "sums": sum_columns(shards),
        "counts": counts,
        "chain": chain,
        "n_chain_inputs": settings.n_chain_inputs,
        "details": Details(linking=linking).with_parts({"stop": stop if looks[1:] else None}),
        "passage_log_ratio": ratio / np.where(n_drawn, n_drawn, np.nan)[:, None],
    }


def _collect_continued(
    request: AuditRequest, task: ContinuationTask, sources: Sources, parts: scores.NameParts
) -> dict[str, Any]:
    """Collect scenario 2's block sums from causal models, of pairs and by part."""
    n_total = request.sizes()["continuation"]
    shards: dict[str, ContinuationShard] = {
        model_role: evidence.collect(
            sources(model_role, "continuation"), task, kind="continuation", n_total=n_total
        )
        for model_role in MODEL_ROLES
    }
    counts = shards["hospital"].n_inputs
    sums: dict[str, FloatArray] = {}
    for model_role, shard in shards.items():
        sums[f"{model_role}_p"] = shard.sum_p
        sums[f"{model_role}_pair_log_p"] = shard.sum_log_p.sum(axis=1)
        sums[f"{model_role}_log_p"] = scores.average_by_part(shard.sum_log_p, parts)
    n_read = shards["hospital"].passage_n_inputs
    ratio = shards["hospital"].passage_sum_log_p - shards["general"].passage_sum_log_p
    linking = link_passages(request.shown_passages, candidates=request.candidates, **shards)
    return {
        "sums": sums,
        "counts": counts,
        "chain": {},
        "details": Details(linking=linking),
        "passage_log_ratio": ratio / np.where(n_read, n_read, np.nan)[:, None],
        "pair_evidence": {
            model_role: shard.sum_log_p.sum(axis=0) / counts.sum()
            for model_role, shard in shards.items()
        },
    }


def _refuse_long_documents(n_tokens: int, *, n_positions: int) -> None:
    """Refuse documents of more tokens than the models hold."""
    if n_tokens > n_positions:
        raise AuditError(
            "The models hold {n_positions} tokens.",
            where="tokens",
            do="Ask for fewer.",
            n_positions=n_positions,
        )


def _find_reach(pair: ModelPair) -> int:
    """Return how many tokens every layer of both causal models sees at once."""
    configs = pair.general.config, pair.hospital.config
    windows: list[int | None] = [getattr(config, "sliding_window", None) for config in configs]
    return min([pair.n_positions, *(window for window in windows if window)])


def _make_sampling_task(request: AuditRequest, pair: ModelPair, names: Candidates) -> SamplingTask:
    settings, tokenizer = request.sampling, pair.hospital.tokenizer
    pieces = _spell(request, names, tokenizer)
    prompt = settings.prompt
    has_space = not prompt or prompt[-1].isspace() or is_unspaced(prompt)
    place = Passage(
        left=prompt if has_space else f"{prompt} ",
        slots=("full",),
        separator="",
        right="",
        passage_id="",
        owner=None,
    )
    after_prompt = make_continuation_task(
        names,
        [place],
        tokenizer=tokenizer,
        is_known=pieces.is_known,
        n_listed=min(len(request.candidates), len(names)),
        max_tokens=_find_reach(pair),
        header=settings.header,
        seed=request.seed,
    )
    prompt_ids = (
        *list_first_tokens(tokenizer),
        *spelling.token_ids(tokenizer, (settings.header + prompt).rstrip()),
    )
    _refuse_long_documents(len(prompt_ids) + settings.n_tokens, n_positions=pair.n_positions)
    end_id = tokenizer.eos_token_id
    return SamplingTask(
        prompt=prompt_ids,
        end_id=-1 if end_id is None else end_id,
        multi_piece_parts=tuple(sorted({part for _, _, part in _list_parts(pieces) if part[1:]})),
        names=after_prompt,
        seed=request.seed,
        n_new_tokens=settings.n_tokens,
        top_k=settings.top_k,
        top_p=settings.top_p,
        temperature=settings.temperature,
    )


def _make_generation_task(
    request: AuditRequest, pair: ModelPair, pieces: spelling.PartPieces
) -> GenerationTask:
    settings, tokenizer = request.generation, pair.hospital.tokenizer
    _refuse_long_documents(settings.n_tokens, n_positions=pair.n_positions)
    mask = tokenizer.mask_token_id
    inner: list[int] = []
    for index, text in enumerate(settings.prompt.split("[MASK]")):
        inner += [mask] * (index > 0) + spelling.token_ids(
            tokenizer, text.rstrip(), is_joined=index > 0
        )
    n_free = settings.n_tokens - 2 - len(inner)
    if n_free < 0:
        raise AuditError(
            "has {n_inner} tokens, more than {n_tokens}.",
            where="prompt",
            do="Shorten it, or use more tokens.",
            n_inner=len(inner) + 2,
            n_tokens=settings.n_tokens,
        )
    ids = [tokenizer.cls_token_id, *inner, *[mask] * n_free, tokenizer.sep_token_id]
    return GenerationTask(
        prompt=tuple(ids),
        mask_id=mask,
        multi_piece_parts=tuple(sorted({part for _, _, part in _list_parts(pieces) if part[1:]})),
        seed=request.seed,
        n_steps=settings.n_steps,
        top_k=settings.top_k,
        temperature=settings.temperature,
        is_remasked=settings.is_remasked,
    )


def _list_parts(pieces: spelling.PartPieces) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return (row, role, word pieces) of every part that can be scored."""
    return [
        (row, role, tuple(pieces.ids[row, place, : pieces.n_pieces[row, place]].tolist()))
        for row in np.flatnonzero(pieces.is_known).tolist()
        for place, role in enumerate(pieces.roles[row].tolist())
        if role != spelling.NO_PART
    ]


def _read_part_masses(
    shard: GeneratedShard,
    task: GenerationTask | SamplingTask,
    pieces: spelling.PartPieces,
    columns: IntArray,
) -> FloatArray:
    """Read the parts' masses [b, U] out of the vocabulary's."""
    place = {part: i for i, part in enumerate(task.multi_piece_parts)}
    mass = np.zeros((len(shard.n_documents), int(columns.max(initial=-1)) + 1))
    for row, role, part in _list_parts(pieces):
        mass[:, columns[row, role]] = (
            shard.part_mass[:, place[part]] if part[1:] else shard.mass[:, part[0]]
        )
    return mass


def link_passages(
    passages: Sequence[Passage],
    *,
    candidates: Candidates,
    hospital: PosteriorShard | ContinuationShard,
    general: PosteriorShard | ContinuationShard,
) -> Linking | None:
    """Rank each passage's own name among all candidates.

    The mean log ratio ("hospital_against_general"), each model alone and chance have the share of
    passages with rank 1, the share with rank <= 5, and the median rank. None if no passage has a
    known owner; passages of canaries are left out.
    """
    owner_of_passage = find_owner_rows(passages, first=candidates.first, last=candidates.last)
    usable = [
        (p, row)
        for p, row in enumerate(owner_of_passage)
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

    def rank_owners(fit: FloatArray) -> FloatArray:
        """Return the rank [U] of each owner; 1 fits best, ties count half."""
        own_fit = np.take_along_axis(fit, owners[:, None], axis=1)
        ranks = 1 + (fit > own_fit).sum(axis=1) + ((fit == own_fit).sum(axis=1) - 1) / 2
        return np.asarray(ranks, dtype=np.float64)

    def summarize(ranks: FloatArray) -> Linked:
        return Linked(
            top_1=float((ranks <= 1).mean()),
            top_5=float((ranks <= 5).mean()),
            median_rank=float(np.median(ranks)),
        )

    ranks = rank_owners(log_h - log_g)
    return Linking(
        n_passages=len(usable),
        n_names=n_names,
        general_alone=summarize(rank_owners(log_g)),
        hospital_alone=summarize(rank_owners(log_h)),
        hospital_against_general=summarize(ranks),
        chance=Linked(
            top_1=1 / n_names, top_5=min(1.0, 5 / n_names), median_rank=(n_names + 1) / 2
        ),
        rank_by_passage=[
            PassageRank(passage_id=passages[p].passage_id, name_id=row, rank=rank)
            for (p, row), rank in zip(usable, ranks.tolist(), strict=True)
        ],
    )
