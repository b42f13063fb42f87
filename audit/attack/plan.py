"""The plan of an audit: its digest, what is kept already, how long the rest will take, the command.

Comes in: a request and a store. Goes out: frozen values for the screen. Torch-free.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
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
from audit.names.candidates import Candidates
from audit.names.pools import pool_for
from audit.task import queue_of
from cache.store import Store

_N_SAMPLED = 200
"""Passages from which rows and their length are taken."""
_START_SECONDS = 8.0
"""Starting a process, loading two models, judging and writing the report."""
_OF_REQUEST = ("seed", "threshold", "dtype", "device")
_PRESETS = {
    "quick": (
        GenerationSettings(n_documents=300),
        PosteriorSettings(n_inputs=2_000, n_chain_inputs=0),
    ),
    "paper": (GenerationSettings(), PosteriorSettings()),
    "thorough": (
        GenerationSettings(n_documents=30_000),
        PosteriorSettings(n_inputs=30_000, n_chain_inputs=500),
    ),
}
PRESETS = tuple(_PRESETS)


def command_line(request: AuditRequest, *, passages: str = "passages.jsonl") -> str:
    """Return the command that asks the same question; settings left at their default are left out.

    `passages` is the name of their file, as it is handed out beside the command.
    """
    words = [
        "python", "-m", "audit", "run", "--scenario", str(request.scenario_number),
        "--general", str(request.general), "--hospital", str(request.hospital),
        "--names", "names.csv",
    ]  # fmt: skip
    if request.scenario_number == 2:
        words += ["--passages", passages]
    settings = request.settings
    for name in (*type(settings).model_fields, *_OF_REQUEST):
        asked = request if name in _OF_REQUEST else settings
        value = getattr(asked, name)
        option = "--" + name.removeprefix("n_").replace("_", "-")
        text = repr(value) if isinstance(value, float) else str(value)
        if value == type(asked).model_fields[name].default:
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
class Prepared:
    """What follows from a request alone; `question` and `digest` as `run_audit` names them."""

    question: Mapping[str, object]
    digest: str
    # Kind of evidence -> rows of forward passes for one document or input x tokens of a row.
    work: Mapping[str, float]
    n_parameters: Mapping[str, int]  # Of the models, "general" and "hospital".
    smallest_auc: float  # The AUC that the list would show in four cases out of five; NaN: none.
    # The members, and as many controls, with which one of `NONE_BELOW` would be seen; None where
    # this list is enough, or says too little of who is a member.
    n_enough: int | None


@dataclass(frozen=True)
class Plan:
    """What running a request means on this machine."""

    digest: str  # The audit's name.
    is_answered: bool  # Whether its report is kept.
    device: str  # "cpu" or "cuda".
    unit: str  # "documents" or "inputs".
    parts: tuple[Part, ...]  # The general model's and the hospital model's.
    seconds: float | None  # Expected time; None where nothing like it was ever run on this device.
    command: str  # The command line that does the same.
    power: Prepared  # What follows from the list alone.


def prepare(request: AuditRequest) -> Prepared:
    """Work out what does not change while the request stays as it is; this is the slow part.

    A model that is refused or can no longer be read is an `AuditError`.
    """
    question = request.question(digest_of=known_digest)
    smallest = smallest_detectable_auc(request.candidates)
    truth = request.candidates.without_canaries().is_member
    return Prepared(
        question=question,
        digest=question_digest(question),
        work=_work(request),
        n_parameters={
            who: inspect_model(getattr(request, who)).n_parameters
            for who in ("general", "hospital")
        },
        smallest_auc=smallest,
        n_enough=members_enough(truth.count(True), truth.count(False), smallest_auc=smallest),
    )


def _work(request: AuditRequest) -> dict[str, float]:
    if request.scenario_number == 1:
        return {"generation": float(request.generation.n_steps * request.generation.n_tokens)}
    passages, settings = request.shown_passages, request.posterior
    task = prompts.posterior_task(
        request.candidates, passages[:: max(1, len(passages) // _N_SAMPLED)],
        tokenizer=tokenizer(request.hospital), max_tokens=settings.max_tokens,
        n_listed=len(request.candidates), seed=request.seed,
    )  # fmt: skip
    n = len(task.templates)
    return {
        "posterior": prompts.n_rows(task, n_inputs=n) / n * task.n_tokens,
        "chain": prompts.n_chain_rows(task, n_inputs=1) * task.n_tokens,
    }


def make_plan(
    request: AuditRequest,
    *,
    store: Store,
    prepared: Prepared | None = None,
    passages_file: str = "passages.jsonl",
) -> Plan:
    """Say what a request would take now; `store` is that of results.

    `prepared` as `prepare` gives it for this request, or made here; `passages_file` is what the
    file of passages is called in the command.
    """
    prepared = prepared or prepare(request)
    device, seconds, parts = queue_of(request.device), _START_SECONDS, []
    for who in ("general", "hospital"):
        key = light_key(prepared.question, who=who, device=device)
        numbers: list[int] = []
        for kind, (_, n) in request.sizes().items():
            n_kept = n_made(store, key, kind, n_wanted=n)
            numbers += [n, n_kept]
            if n > n_kept:
                pace = seconds_per_work(store, kind, device=device, dtype=request.dtype)
                work = (n - n_kept) * prepared.work[kind] * prepared.n_parameters[who]
                seconds += work * pace
        name, digest = display_name(getattr(request, who)), str(prepared.question[who])
        parts.append(Part(who, name, digest, *[*numbers, 0, 0][:4]))
    is_answered = bool(store.keys(f"audit/{prepared.digest}"))
    return Plan(
        digest=prepared.digest,
        is_answered=is_answered,
        device=device,
        unit="documents" if request.scenario_number == 1 else "inputs",
        parts=tuple(parts),
        seconds=0.0 if is_answered else None if np.isnan(seconds) else seconds,
        command=command_line(request, passages=passages_file),
        power=prepared,
    )


def usual_prompt(candidates: Candidates) -> str:
    """Return the prompt to begin with: the paper's, or for Japanese names the Japanese notes'."""
    is_japanese = pool_for(candidates).locale == "ja_JP"
    return JAPANESE_PROMPT if is_japanese else GenerationSettings().prompt


def generation_preset(name: str, *, prompt: str | None = None) -> GenerationSettings:
    """Return a preset of scenario 1, with another prompt if one is given."""
    settings = _PRESETS[name][0]
    return settings if prompt is None else settings.with_(prompt=prompt)


def posterior_preset(name: str) -> PosteriorSettings:
    """Return a preset of scenario 2."""
    return _PRESETS[name][1]
