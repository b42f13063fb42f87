"""The plan of an audit: its digest, what is kept already, how long the rest will take, the command.

Comes in: a request and a store. Goes out: frozen values for the screen. Torch-free.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from audit.attack import prompts
from audit.attack.cohort import smallest_detectable_auc
from audit.attack.evidence import light_key, n_made, seconds_per_work
from audit.attack.question import (
    JAPANESE_PROMPT,
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    question_digest,
)
from audit.attack.verdict import members_enough
from audit.models.inspect import display_name, inspect_model
from audit.models.registry import known_digest, tokenizer
from audit.names import spelling
from audit.names.candidates import Candidates
from audit.names.pools import pool_for
from audit.names.spelling import PartPieces
from audit.notes.passages import Passage
from audit.task import queue_of
from cache.store import Store

_N_SAMPLED = 200
"""Passages from which the mean length is taken."""
_START_SECONDS = 8.0
"""Starting a process, loading two models, judging and writing the report."""
_OF_REQUEST = ("seed", "threshold", "dtype", "device")
PRESETS = ("quick", "paper", "thorough")
_GENERATION = {
    "quick": GenerationSettings(n_documents=300),
    "paper": GenerationSettings(),
    "thorough": GenerationSettings(n_documents=30_000),
}
_POSTERIOR = {
    "quick": PosteriorSettings(n_inputs=2_000, n_chain_inputs=0),
    "paper": PosteriorSettings(),
    "thorough": PosteriorSettings(n_inputs=30_000, n_chain_inputs=500),
}


@dataclass(frozen=True)
class Workload:
    """What one model has to do: rows of forward passes for one input or document, and their length.

    `rows_per_chain_input` is 0 in scenario 1; `n_tokens` is the mean length of a row.
    """

    rows_per_unit: float
    rows_per_chain_input: float
    n_tokens: float


def workload(request: AuditRequest) -> Workload:
    """Return the workload of a request; chain rows as the run announces them."""
    if request.scenario_number == 1:
        settings = request.generation
        return Workload(float(settings.n_steps), 0.0, float(settings.n_tokens))
    passages = request.passages.passages if request.passages else ()
    speller = tokenizer(request.hospital)
    kinds, kind_of_passage = prompts.kinds_of(passages)
    pieces = [
        spelling.part_pieces(request.candidates, kind=kind, tokenizer=speller) for kind in kinds
    ]
    share = np.bincount(kind_of_passage, minlength=len(kinds)) / len(passages)
    n_layouts = [len(np.unique(one.n_pieces[one.is_known].sum(axis=1))) for one in pieces]
    chain = max(map(_chain_rows, pieces)) if request.posterior.n_chain_inputs else 0
    longest = request.posterior.max_tokens
    return Workload(
        float(np.dot(share, n_layouts)), float(chain), _mean_tokens(passages, speller, longest)
    )


def _chain_rows(pieces: PartPieces) -> int:
    """For each pair of numbers of pieces a row that masks all, and one for each part filled in."""
    known = np.flatnonzero(pieces.is_known)
    n_rows = 0
    for key in np.unique(pieces.n_pieces[known], axis=0):
        rows = known[(pieces.n_pieces[known] == key).all(axis=1)]
        parts = [len(np.unique(pieces.ids[rows, part], axis=0)) for part in (0, 1)]
        n_rows += 1 + (sum(parts) if key[1] else 0)
    return n_rows


def _mean_tokens(passages: Sequence[Passage], speller: object, longest: int) -> float:
    some = passages[:: max(1, len(passages) // _N_SAMPLED)]
    lengths = [
        2 + sum(len(spelling.token_ids(speller, text)) for text in (one.left, one.right))
        for one in some
    ]
    return float(np.mean(np.minimum(lengths, longest))) if lengths else 0.0


def command_line(
    request: AuditRequest, *, names: str = "names.csv", passages: str = "passages.jsonl"
) -> str:
    """Return the command that asks the same question; settings left at their default are left out.

    `names` and `passages` are the files' names, as they are handed out beside the command.
    """
    words = [
        "python", "-m", "audit", "run", "--scenario", str(request.scenario_number),
        "--general", str(request.general), "--hospital", str(request.hospital), "--names", names,
    ]  # fmt: skip
    if request.scenario_number == 2:
        words += ["--passages", passages]
    settings = request.settings
    for name in (*type(settings).model_fields, *_OF_REQUEST):
        asked = request if name in _OF_REQUEST else settings
        value, usual = getattr(asked, name), type(asked).model_fields[name].default
        option = "--" + name.removeprefix("n_").replace("_", "-")
        text = repr(value) if isinstance(value, float) else str(value)
        if value == usual:
            continue
        if name in settings.flags:
            words.append(settings.flags[name])
        else:
            words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return shlex.join([*words, "--out", "results"])


@dataclass(frozen=True)
class Part:
    """What one model ("general" or "hospital") has to do.

    Documents or inputs wanted, and how many of them are kept from earlier runs; the same for the
    inputs of `chain`.
    """

    who: str
    name: str
    digest: str
    n_units: int
    n_kept: int
    n_chain: int
    n_chain_kept: int


@dataclass(frozen=True)
class ListPower:
    """What a list could show, known before any model is asked.

    `smallest_auc` is the AUC that it would show in four cases out of five (NaN: none), `n_enough`
    the members, and as many controls, with which one of `NONE_BELOW` would be seen; None where this
    list is enough, or says too little of who is a member.
    """

    smallest_auc: float
    n_enough: int | None


@dataclass(frozen=True)
class Prepared:
    """What follows from a request alone; `question` and `digest` as `run_audit` names them.

    `n_parameters` are those of the models, "general" and "hospital".
    """

    question: Mapping[str, object]
    digest: str
    load: Workload
    n_parameters: Mapping[str, int]
    power: ListPower


@dataclass(frozen=True)
class Plan:
    """What running a request means on this machine.

    Attributes
    ----------
    digest
        The audit's name.
    is_answered
        Whether its report is kept.
    device
        "cpu" or "cuda".
    unit
        "documents" or "inputs".
    parts
        The general model's and the hospital model's.
    seconds
        Expected time; None where nothing like it was ever run on this device.
    command
        The command line that does the same.
    power
        What the list could show.
    """

    digest: str
    is_answered: bool
    device: str
    unit: str
    parts: tuple[Part, ...]
    seconds: float | None
    command: str
    power: ListPower


def prepare(request: AuditRequest) -> Prepared:
    """Work out what does not change while the request stays as it is; this is the slow part.

    A model that is refused or can no longer be read is an `AuditError`.
    """
    question = request.question(digest_of=known_digest)
    smallest = smallest_detectable_auc(request.candidates)
    patients = request.candidates.without_canaries()
    n_members, n_controls = (patients.is_member.count(truth) for truth in (True, False))
    return Prepared(
        question=question,
        digest=question_digest(question),
        load=workload(request),
        n_parameters={
            who: inspect_model(getattr(request, who)).n_parameters
            for who in ("general", "hospital")
        },
        power=ListPower(smallest, members_enough(n_members, n_controls, smallest_auc=smallest)),
    )


def make_plan(
    request: AuditRequest,
    *,
    store: Store,
    prepared: Prepared | None = None,
    passages_file: str = "passages.jsonl",
) -> Plan:
    """Say what a request would take now.

    Parameters
    ----------
    store
        Of results.
    prepared
        As `prepare` gives it for this request; made here if it is not given.
    passages_file
        What the file of passages is called in the command.
    """
    prepared = prepared or prepare(request)
    device, is_generation = queue_of(request.device), request.scenario_number == 1
    settings = request.posterior
    n_units = request.generation.n_documents if is_generation else settings.n_inputs
    wanted = {"generation" if is_generation else "posterior": n_units}
    wanted["chain"] = 0 if is_generation else settings.n_chain_inputs
    parts, seconds = [], _START_SECONDS
    for who in ("general", "hospital"):
        key = light_key(prepared.question, who=who, device=device)
        kept = {kind: n_made(store, key, kind=kind, n_wanted=n) for kind, n in wanted.items()}
        n, n_kept = (tuple(one.values()) for one in (wanted, kept))
        name, digest = display_name(getattr(request, who)), str(prepared.question[who])
        parts.append(Part(who, name, digest, n[0], n_kept[0], n[1], n_kept[1]))
        load = prepared.load
        for kind, rows in zip(wanted, (load.rows_per_unit, load.rows_per_chain_input), strict=True):
            if wanted[kind] > kept[kind]:
                pace = seconds_per_work(store, kind=kind, device=device, dtype=request.dtype)
                work = (wanted[kind] - kept[kind]) * rows * load.n_tokens
                seconds += work * prepared.n_parameters[who] * (np.nan if pace is None else pace)
    is_answered = bool(store.keys(f"audit/{prepared.digest}"))
    return Plan(
        digest=prepared.digest,
        is_answered=is_answered,
        device=device,
        unit="documents" if is_generation else "inputs",
        parts=tuple(parts),
        seconds=0.0 if is_answered else None if np.isnan(seconds) else seconds,
        command=command_line(request, passages=passages_file),
        power=prepared.power,
    )


def usual_prompt(candidates: Candidates) -> str:
    """Return the prompt to begin with: the paper's, or for Japanese names the Japanese notes'."""
    is_japanese = pool_for(candidates).locale == "ja_JP"
    return JAPANESE_PROMPT if is_japanese else GenerationSettings().prompt


def generation_preset(name: str, *, prompt: str | None = None) -> GenerationSettings:
    """Return a preset of scenario 1, with another prompt if one is given."""
    settings = _GENERATION[name]
    return settings if prompt is None else settings.with_(prompt=prompt)


def posterior_preset(name: str) -> PosteriorSettings:
    """Return a preset of scenario 2."""
    return _POSTERIOR[name]
