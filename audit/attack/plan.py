"""The plan of an audit: its digest, what is kept already, how long the rest will take, the command.

Comes in: a request and a store. Goes out: frozen values for the screen. Torch-free.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
from cache.store import Store

_N_SAMPLED = 200
"""Passages from which the mean length is taken."""


@dataclass(frozen=True)
class Workload:
    """What one model has to do for one unit, an input or a document.

    Attributes
    ----------
    rows_per_unit
        Rows of forward passes of one input (scenario 2) or document (scenario 1).
    rows_per_chain_input
        The same for an input of `chain`; 0 in scenario 1.
    n_tokens
        Mean length of a row.
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
    rows = float(np.dot(share, [_n_layouts(one) for one in pieces]))
    chain = max(_chain_rows(one) for one in pieces) if request.posterior.n_chain_inputs else 0
    return Workload(rows, float(chain), _mean_tokens(passages, request, speller))


def _n_layouts(pieces: PartPieces) -> int:
    return len(set(pieces.n_pieces[pieces.is_known].sum(axis=1).tolist()))


def _chain_rows(pieces: PartPieces) -> int:
    groups: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(pieces.is_known):
        first, second = pieces.n_pieces[row]
        groups.setdefault((int(first), int(second)), []).append(int(row))
    n_rows = 0
    for (_, second), rows in groups.items():
        n_parts = [len(np.unique(pieces.ids[rows, part], axis=0)) for part in (0, 1)]
        n_rows += 1 + sum(n_parts) if second else 1
    return n_rows


def _mean_tokens(passages: Sequence[Passage], request: AuditRequest, speller: object) -> float:
    step = max(1, len(passages) // _N_SAMPLED)
    longest = request.posterior.max_tokens
    lengths = [
        min(
            longest,
            2
            + len(spelling.token_ids(speller, passage.left))
            + len(spelling.token_ids(speller, passage.right)),
        )
        for passage in passages[::step]
    ]
    return float(np.mean(lengths)) if lengths else 0.0


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
    words += _setting_options(request.settings)
    for option, value, usual in (
        ("--seed", request.seed, 0),
        ("--threshold", request.threshold, None),
        ("--dtype", request.dtype, "float32"),
        ("--device", request.device, "auto"),
    ):
        words += _option(option, value, usual=usual)
    return shlex.join([*words, "--out", "results"])


def _setting_options(settings: GenerationSettings | PosteriorSettings) -> list[str]:
    words = []
    for name, field in type(settings).model_fields.items():
        option = "--" + name.removeprefix("n_").replace("_", "-")
        value = getattr(settings, name)
        if name in _SWITCHES:
            words += [] if value else [_SWITCHES[name]]
        else:
            words += _option(option, value, usual=field.default)
    return words


def _option(name: str, value: object, *, usual: object) -> list[str]:
    if value == usual:
        return []
    text = repr(value) if isinstance(value, float) else str(value)
    return [f"{name}={text}"] if text.startswith("-") else [name, text]


_SWITCHES = {"is_remasked": "--keep-sampled", "is_dropout_on": "--no-dropout"}
"""Options that turn a setting off."""

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
    """Return what a list could show (`audit.attack.cohort.smallest_detectable_auc`)."""
    smallest = smallest_detectable_auc(candidates)
    patients = candidates.without_canaries()
    n_members, n_controls = (patients.is_member.count(truth) for truth in (True, False))
    return ListPower(smallest, members_enough(n_members, n_controls, smallest_auc=smallest))


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
    """Return the question as `run_audit` digests it; models' digests are remembered."""
    return request.question(digest_of=known_digest)


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
    return settings if prompt is None else settings.with_(prompt=prompt)


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
    key = light_key(question, who=who, device=device)
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
        n_kept=n_made(store, key, kind=kind, n_wanted=n_units),
        n_chain=n_chain,
        n_chain_kept=n_made(store, key, kind="chain", n_wanted=n_chain),
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
            per_work = seconds_per_work(store, kind=what, device=device, dtype=request.dtype)
            if per_work is None:
                return None
            total += n_left * rows * load.n_tokens * prepared.n_parameters[part.who] * per_work
    return total
