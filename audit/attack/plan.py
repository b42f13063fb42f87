"""The plan of an audit: its digest, how long it will take, what its list could show, the command.

Comes in: a request. Goes out: a frozen value for the screen. Torch-free.
"""

from __future__ import annotations

from dataclasses import dataclass

from audit.attack import prompts
from audit.attack.cohort import smallest_detectable_auc
from audit.attack.question import (
    JAPANESE_PROMPT,
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    command_line,
    question_digest,
)
from audit.attack.verdict import members_enough
from audit.models.inspect import inspect_model
from audit.models.registry import known_digest, tokenizer
from audit.names.candidates import Candidates
from audit.names.pools import pool_for
from audit.progress import FINISHING, LOADING, Phase, expected_seconds
from audit.task import queue_of
from cache.store import Store

_N_SAMPLED = 200
"""Passages from which rows and their length are taken."""
EVIDENCE = {"generation": "documents", "posterior": "posteriors", "chain": "chain"}
"""Kind of evidence -> what progress calls the making of it, after "general model: "."""
_UNIT_SECONDS = {"generation": 2e-11, "posterior": 4e-11, "chain": 4e-11}
_START_SECONDS, _JUDGING_SECONDS = 5.0, 0.004
"""On two cores where nothing was timed yet: a unit, all that comes before, a name."""
PRESETS = {
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
"""Settings of both scenarios by the preset's code."""


@dataclass(frozen=True)
class Plan:
    """What running a request means on this machine."""

    digest: str  # The audit's name.
    device: str  # "cpu" or "cuda".
    dtype: str
    # Units of evidence are rows of forward passes x tokens of a row x parameters of the model.
    phases: tuple[Phase, ...]
    smallest_auc: float  # The AUC that the list would show in four cases out of five; NaN: none.
    # The members, and as many controls, with which one of `NONE_BELOW` would be seen; None where
    # this list is enough, or says too little of who is a member.
    n_enough: int | None
    command: str  # The command line that does the same.

    def is_answered(self, store: Store) -> bool:
        """Whether the report is kept."""
        return bool(store.keys(f"audit/{self.digest}"))

    def seconds(self, store: Store) -> float:
        """Expected time; of what is kept in part as if nothing were."""
        return 0.0 if self.is_answered(store) else expected_seconds(self.phases)


def make_plan(request: AuditRequest, *, passages_file: str = "passages.jsonl") -> Plan:
    """Say what a request would take; `passages_file` is what its passages' file is called.

    A model that is refused or can no longer be read is an `AuditError`.
    """
    question = request.question(digest_of=known_digest)
    smallest = smallest_detectable_auc(request.candidates)
    truth = request.candidates.without_canaries().is_member
    return Plan(
        digest=question_digest(question),
        device=queue_of(request.device),
        dtype=request.dtype,
        phases=phases(request),
        smallest_auc=smallest,
        n_enough=members_enough(truth.count(True), truth.count(False), smallest_auc=smallest),
        command=command_line(
            question, general=str(request.general), hospital=str(request.hospital),
            passages=passages_file, device=request.device,
        ),
    )  # fmt: skip


def phases(request: AuditRequest) -> tuple[Phase, ...]:
    """Return what an audit does, one after the other; rows of passages are those of a sample."""
    where, sizes = f"{queue_of(request.device)} {request.dtype}", request.sizes()
    models = {"general": request.general, "hospital": request.hospital}
    size = {who: float(inspect_model(folder).n_parameters) for who, folder in models.items()}
    rows = _rows(request)
    return (
        Phase(LOADING, 1, _START_SECONDS, f"loading two models {where}", size["hospital"]),
        *(
            Phase(
                phase_of(who, kind), rows[kind] * size[who], _UNIT_SECONDS[kind],
                f"{kind} {where}", size[who],
            )
            for kind, n in sizes.items()
            for who in models
            if n
        ),
        Phase(
            FINISHING, len(request.candidates), _JUDGING_SECONDS,
            f"judging scenario {request.scenario_number}",
        ),
    )  # fmt: skip


def phase_of(who: str, kind: str) -> str:
    """Return what progress calls the making of one model's evidence of a kind."""
    return f"{who} model: {EVIDENCE[kind]}"


def _rows(request: AuditRequest) -> dict[str, float]:
    """Rows of forward passes x tokens of a row that one model is asked, by kind of evidence."""
    sizes = request.sizes()
    if request.scenario_number == 1:
        settings = request.generation
        return {"generation": float(sizes["generation"] * settings.n_steps * settings.n_tokens)}
    passages = request.shown_passages
    task = prompts.posterior_task(
        request.candidates, passages[:: max(1, len(passages) // _N_SAMPLED)],
        tokenizer=tokenizer(request.hospital), max_tokens=request.posterior.max_tokens,
        n_listed=len(request.candidates), seed=request.seed,
    )  # fmt: skip
    return {kind: task.n_rows(kind, n) * task.n_tokens for kind, n in sizes.items()}


def usual_prompt(candidates: Candidates) -> str:
    """Return the prompt to begin with: the paper's, or for Japanese names the Japanese notes'."""
    is_japanese = pool_for(candidates).locale == "ja_JP"
    return JAPANESE_PROMPT if is_japanese else GenerationSettings().prompt
