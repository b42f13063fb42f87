"""The plan of an audit: its digest, what is kept already, how long the rest will take, the command.

Comes in: a request and a store. Goes out: frozen values for the screen. Torch-free.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from audit import pace
from audit.demo import JAPANESE_PROMPT
from audit.membership.candidates import Candidates
from audit.membership.cohort import members_enough, smallest_detectable_auc
from audit.membership.name_pools import pool_for
from audit.membership.verdict import NONE_BELOW
from audit.models.files import inspect_model
from audit.models.folder import display_name
from audit.prepare.command_line import command_line
from audit.prepare.pair_check import known_digest
from audit.prepare.workload import Workload, workload
from audit.request import (
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    question_digest,
)
from cache.store import Store

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
_GPU = Path("/dev/nvidia0")
_START_SECONDS = 8.0
"""Starting a process, loading two models, judging and writing the report."""


@dataclass(frozen=True)
class Part:
    """What one model has to do.

    Attributes
    ----------
    who
        "general" or "hospital".
    name
        The model's folder.
    digest
        Of the model.
    n_units, n_kept
        Documents or inputs wanted, and how many of them are kept from earlier runs.
    n_chain, n_chain_kept
        The same for the inputs of `chain`.
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

    @property
    def english(self) -> str:
        """The same as a sentence, for the command line."""
        if math.isnan(self.smallest_auc):
            return "Too few names of known membership for a ranking: names are judged one by one."
        shown = f"This list can show a leak of {100 * min(self.smallest_auc, 1):.0f} % of pairs"
        if self.n_enough is None:
            return f"{shown}: enough to say that nothing was found."
        return (
            f"{shown}. To say that nothing was found takes about {self.n_enough} members and as "
            "many controls."
        )


def list_power(candidates: Candidates) -> ListPower:
    """Return what a list could show (`audit.membership.cohort.smallest_detectable_auc`)."""
    smallest = smallest_detectable_auc(candidates)
    patients = candidates.without_canaries()
    n_members, n_controls = (patients.is_member.count(truth) for truth in (True, False))
    if math.isnan(smallest) or smallest <= NONE_BELOW:
        return ListPower(smallest, None)
    return ListPower(
        smallest,
        members_enough(n_members, n_controls, smallest_auc=smallest, wanted=NONE_BELOW),
    )


@dataclass(frozen=True)
class Prepared:
    """What follows from a request alone.

    Attributes
    ----------
    question, digest
        As `run_audit` names them.
    load
        Rows of forward passes.
    n_parameters
        Of the models, "general" and "hospital".
    power
        What the list could show.
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

    Raises
    ------
    AuditError
        If a model is refused or can no longer be read.
    """
    question = full_question(request)
    return Prepared(
        question=question,
        digest=question_digest(question),
        load=workload(request),
        n_parameters={
            who: inspect_model(getattr(request, who)).n_parameters
            for who in ("general", "hospital")
        },
        power=list_power(request.candidates),
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

    Raises
    ------
    AuditError
        As `prepare`.
    """
    prepared = prepared or prepare(request)
    device = device_for(request.device)
    parts = tuple(
        _part(request, prepared.question, who=who, device=device, store=store)
        for who in ("general", "hospital")
    )
    is_answered = bool(store.keys(f"audit/{prepared.digest}"))
    seconds = _seconds(request, parts, prepared=prepared, device=device, store=store)
    return Plan(
        digest=prepared.digest,
        is_answered=is_answered,
        device=device,
        unit="documents" if request.scenario_number == 1 else "inputs",
        parts=parts,
        seconds=0.0 if is_answered else seconds,
        command=command_line(request, passages=passages_file),
        power=prepared.power,
    )


def full_question(request: AuditRequest) -> dict[str, object]:
    """Return the question as `run_audit` digests it; models' digests are remembered.

    Raises
    ------
    AuditError
        If a model is refused or can no longer be read.
    """
    pool = pool_for(request.candidates)
    return request.question(digest_of=known_digest) | {"name_pool": pool.digest()}


def device_for(wanted: str) -> str:
    """Return the device that "auto" means here, "cpu" or "cuda", judged without torch."""
    if wanted != "auto":
        return wanted
    return "cuda" if _GPU.exists() else "cpu"


def usual_prompt(candidates: Candidates) -> str:
    """Return the prompt to begin with: the paper's, or for Japanese names the Japanese notes'."""
    pool = pool_for(candidates)
    return JAPANESE_PROMPT if pool.locale == "ja_JP" else GenerationSettings().prompt


def generation_preset(name: str, *, prompt: str | None = None) -> GenerationSettings:
    """Return a preset of scenario 1, with another prompt if one is given."""
    settings = _GENERATION[name]
    return settings if prompt is None else replace(settings, prompt=prompt)


def posterior_preset(name: str) -> PosteriorSettings:
    """Return a preset of scenario 2."""
    return _POSTERIOR[name]


def _part(
    request: AuditRequest,
    question: Mapping[str, object],
    *,
    who: str,
    device: str,
    store: Store,
) -> Part:
    key = pace.light_key(question, who=who, device=device)
    is_generation = request.scenario_number == 1
    n_units = request.generation.n_documents if is_generation else request.posterior.n_inputs
    n_chain = 0 if is_generation else request.posterior.n_chain_inputs
    kind = "generation" if is_generation else "posterior"
    path: Path = getattr(request, who)
    return Part(
        who=who,
        name=display_name(path),
        digest=str(question[who]),
        n_units=n_units,
        n_kept=pace.n_made(store, key, kind=kind, n_wanted=n_units),
        n_chain=n_chain,
        n_chain_kept=pace.n_made(store, key, kind="chain", n_wanted=n_chain),
    )


def _seconds(
    request: AuditRequest,
    parts: tuple[Part, ...],
    *,
    prepared: Prepared,
    device: str,
    store: Store,
) -> float | None:
    """Return the expected seconds, from the pace of the latest work of each kind."""
    load = prepared.load
    kind = "generation" if request.scenario_number == 1 else "posterior"
    total = _START_SECONDS
    for part in parts:
        for what, n_left, rows in (
            (kind, part.n_units - part.n_kept, load.rows_per_unit),
            ("chain", part.n_chain - part.n_chain_kept, load.rows_per_chain_input),
        ):
            if not n_left:
                continue
            per_work = pace.seconds_per_work(store, kind=what, device=device, dtype=request.dtype)
            if per_work is None:
                return None
            total += n_left * rows * load.n_tokens * prepared.n_parameters[part.who] * per_work
    return total
