"""The plan of an audit: its digest, how long it will take, what its list could show, the command.

Input: a request. Output: a frozen value for the screen. No torch is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.attack import prompts
from audit.attack.cohort import count_group_controls, smallest_detectable_auc
from audit.attack.evidence import DOCUMENTS_PER_SHARD
from audit.attack.judgement import find_group_controls
from audit.attack.question import (
    DEMO_CAUSAL_PROMPT,
    JAPANESE_CAUSAL_PROMPT,
    JAPANESE_PROMPT,
    AuditRequest,
    ContinuationSettings,
    GenerationSettings,
    PosteriorSettings,
    SamplingSettings,
    Settings,
    command_line,
    question_digest,
)
from audit.attack.routes import controls_needed
from audit.attack.run_memory import Memory, ModelSize, PassLoad, measure_memory
from audit.attack.verdicts import NAMED_TOGETHER
from audit.foreign import locate_errors, refuse_without_memory
from audit.home import DEMO_HOSPITAL
from audit.models.causal_architectures import CausalConfig
from audit.models.inspect import (
    ModelFiles,
    inspect_adapter,
    inspect_model,
    is_adapter,
    read_model_files,
)
from audit.models.layouts import count_parameters
from audit.models.limited import call_limited
from audit.models.model_folder import find_display_name
from audit.models.registry import load_tokenizer, look_up_digest
from audit.models.token_tree import NODES_PER_PASS
from audit.names.candidates import OF_HOSPITAL, Candidates
from audit.names.controls import N_PAIR_REFERENCE, N_REFERENCE
from audit.names.pools import pool_for
from audit.names.spelling import (
    RUNNING_TEXT,
    PassageKind,
    part_pieces,
    refuse_opposite_twins,
    token_ids,
)
from audit.notes.passages import Passage
from audit.progress import FINISHING, LOADING, Phase, estimate_seconds, is_timed
from audit.stats import MIN_NAMES
from audit.task import queue_of

_N_SAMPLED = 200
"""Passages from which the number and the length of rows are estimated."""
EVIDENCE = {
    "generation": "documents",
    "posterior": "posteriors",
    "chain": "chain",
    "sampling": "documents",
    "recall": "recall",
    "continuation": "continuations",
}
"""Kind of evidence -> its name in progress messages, after "general model: "."""
_UNIT_SECONDS = {
    "generation": 2e-11,
    "posterior": 4e-11,
    "chain": 4e-11,
    "sampling": 2e-10,
    "recall": 1e-10,
    "continuation": 1e-10,
}
_START_SECONDS, _JUDGING_SECONDS = 5.0, 0.004
"""Seconds on two cores before anything was timed: for a unit, for the start, for judging a name."""
_EVERY_PASSAGE = 10_000_000
PRESETS: Mapping[bool, Mapping[str, tuple[Settings, Settings]]] = {
    False: {
        "quick": (
            GenerationSettings(n_documents=300),
            PosteriorSettings(n_inputs=2_000, n_chain_inputs=0),
        ),
        "paper": (GenerationSettings(), PosteriorSettings()),
        "thorough": (
            GenerationSettings(n_documents=30_000),
            PosteriorSettings(n_inputs=30_000, n_chain_inputs=500, max_chain_rows=500_000),
        ),
    },
    True: {
        "quick": (SamplingSettings(n_documents=100), ContinuationSettings(n_inputs=20)),
        "standard": (SamplingSettings(), ContinuationSettings()),
        "thorough": (
            SamplingSettings(n_documents=5_000),
            ContinuationSettings(n_inputs=_EVERY_PASSAGE),
        ),
    },
}
"""Whether the models are causal -> the preset's code -> settings of both scenarios."""
MIN_CHAIN_INPUTS = 20
"""With fewer inputs, and so fewer blocks, `chain` would say too little to be worth its rows."""


@dataclass(frozen=True)
class ControlNeed:
    """How many controls it takes to see something, and how many there are.

    Attributes
    ----------
    n_people
        People who are to be named together; None: the group, with an AUC of `cohort.GROUP_AUC`, in
        four cases out of five.
    n_needed
        None if so few people are tested that no number of controls is enough.
    n_available
        Controls that take part: the listed ones, or those of the generator.
    """

    n_people: int | None
    n_needed: int | None
    n_available: int

    @property
    def is_met(self) -> bool:
        """Whether there are enough controls."""
        return self.n_needed is not None and self.n_available >= self.n_needed


@dataclass(frozen=True)
class Plan:
    """What it takes to run a request on this machine."""

    digest: str  # The audit's name.
    device: str  # "cpu" or "cuda".
    dtype: str
    # Units of evidence are rows of forward passes x tokens of a row x parameters of the model.
    phases: tuple[Phase, ...]
    smallest_auc: float  # The AUC that the list would show in four cases out of five; NaN: none.
    needs: tuple[ControlNeed, ...]
    command: str  # The command line that does the same.
    n_chain_inputs: int = 0  # What the budget leaves of the inputs of `chain`.
    memory: Memory | None = None  # Of causal models, which may be large.

    @property
    def seconds(self) -> float:
        """The expected time. Finished work counts as not started."""
        return estimate_seconds(self.phases)

    def seconds_of(self, model_role: str) -> float:
        """Return the expected time of the passes of "general" or "hospital"."""
        names = {name_phase(model_role, kind) for kind in EVIDENCE}
        return estimate_seconds(phase for phase in self.phases if phase.name in names)

    @property
    def assumed_pace(self) -> float | None:
        """Parameters x tokens a second that the time assumes; None if such work was timed here."""
        names = {name_phase("hospital", kind) for kind in EVIDENCE}
        passes = [phase for phase in self.phases if phase.name in names]
        untimed = [phase for phase in passes if not is_timed(phase)]
        return 1 / max(phase.unit_seconds for phase in untimed) if untimed else None


def make_plan(request: AuditRequest, *, passages_file: str = "passages.jsonl") -> Plan:
    """Plan a request; `passages_file` is the name of its file of passages.

    Raises AuditError if a model is refused or can no longer be read.
    """
    question = request.question(digest_of=look_up_digest)
    smallest = smallest_detectable_auc(request.candidates)
    amount: Amount = call_limited(
        _check_and_measure, request, place=find_display_name(request.hospital)
    )
    return Plan(
        digest=question_digest(question),
        device=queue_of(request.device),
        dtype=request.dtype,
        phases=_make_phases(request, amount),
        smallest_auc=smallest,
        needs=list_control_needs(request),
        command=command_line(
            question,
            general=str(request.general),
            hospital=str(request.hospital),
            passages=passages_file,
            device=request.device,
        ),
        n_chain_inputs=int(amount[0].get("chain", 0)),
        memory=_measure_memory(request, amount),
    )


def refuse_too_large(request: AuditRequest) -> None:
    """Refuse to begin with causal models that take more memory than is free."""
    memory = _measure_memory(request, _measure_amount(request)) if request.is_causal else None
    if memory is None:
        return
    is_on_cpu = queue_of(request.device) == "cpu"
    n_bytes = max(memory.loading, memory.running) if is_on_cpu else memory.loading
    refuse_without_memory(n_bytes, place=request.label)


def _measure_memory(request: AuditRequest, amount: Amount) -> Memory | None:
    """Return the memory of causal models; None of masked ones, which are small."""
    general = read_model_files(request.general)
    if not isinstance(general.config, CausalConfig):
        return None
    device, (sizes, rows) = queue_of(request.device), amount
    if is_adapter(request.hospital):
        # The numbers of an adapter lie in one file; attached, they are as many.
        adapter = inspect_adapter(request.hospital)
        hospital_size = ModelSize(adapter.n_parameters, 4 * adapter.n_parameters)
        config = general.config
    else:
        hospital = read_model_files(request.hospital)
        hospital_size = _size_of(hospital)
        configs = [c.config for c in (general, hospital) if isinstance(c.config, CausalConfig)]
        config = max(configs, key=count_parameters)
    if request.scenario_number == 1:
        n_rows = int(min(sizes["sampling"], DOCUMENTS_PER_SHARD[device]))
        n_kept = round(rows["sampling"] / sizes["sampling"])
        load = PassLoad(n_rows, n_kept, max(1, n_kept - request.sampling.n_tokens), 1)
    else:
        n_context = min(request.continuation.max_tokens, config.n_positions)
        n_new = max(n_context, NODES_PER_PASS)
        load = PassLoad(1, n_context + NODES_PER_PASS, n_new, NODES_PER_PASS)
    return measure_memory(
        config,
        {"general": _size_of(general), "hospital": hospital_size},
        load=load,
        dtype=request.dtype,
        device=device,
    )


def _size_of(files: ModelFiles) -> ModelSize:
    """Return how much of memory a whole model takes."""
    with locate_errors(files.folder.name):
        n_file_bytes = max(path.stat().st_size for path in files.weights)
    return ModelSize(count_parameters(files.config), n_file_bytes)


def list_control_needs(request: AuditRequest) -> tuple[ControlNeed, ...]:
    """Return how many controls it takes to see the group, and to name one, ten or thirty people."""
    listed, source = request.candidates.without_canaries(), request.control_source
    n_tested = len(listed) - listed.is_member.count(False)
    n_in_group = int(find_group_controls(listed, source=source).sum())
    if source not in OF_HOSPITAL and n_in_group < MIN_NAMES:
        n_in_group = N_REFERENCE
    n_compared = n_in_group if source in OF_HOSPITAL else N_REFERENCE
    return (
        ControlNeed(None, count_group_controls(n_tested), n_in_group),
        *(
            ControlNeed(n, controls_needed(n_tested, n_visible=n), n_compared)
            for n in NAMED_TOGETHER
            if n <= n_tested
        ),
    )


def list_phases(request: AuditRequest) -> tuple[Phase, ...]:
    """Return the phases of an audit in order; rows of passages are estimated from a sample."""
    return _make_phases(request, _measure_amount(request))


Amount = Sequence[Mapping[str, float]]
"""Two mappings by kind of evidence: documents or inputs, and rows of forward passes x tokens of a
row."""


def _measure_amount(request: AuditRequest) -> Amount:
    """Return the work of one model; in scenario 2 it is estimated from a sample of passages."""
    task = _sample_task(request)
    return fit_budget(request, task).sizes(), _count_rows(request, task)


def _check_and_measure(request: AuditRequest) -> Amount:
    """Return the amount; refuse a list in which names that the tokenizer equates differ in truth.

    Builds the tokenizer, so a page calls it only within limits.
    """
    refuse_opposite_twins(request.candidates, tokenizer=load_tokenizer(request.general))
    return _measure_amount(request)


def _make_phases(request: AuditRequest, amount: Amount) -> tuple[Phase, ...]:
    backend = f"{queue_of(request.device)} {request.dtype}"
    sizes, rows = amount
    # A pass with an adapter is hardly more than one of its base.
    whole = request.general if is_adapter(request.hospital) else request.hospital
    models = {"general": request.general, "hospital": whole}
    pass_work = {
        model_role: inspect_model(folder).pass_work for model_role, folder in models.items()
    }
    return (
        Phase(LOADING, 1, _START_SECONDS, f"loading two models {backend}", pass_work["hospital"]),
        *(
            Phase(
                name_phase(model_role, kind),
                rows[kind] * pass_work[model_role],
                _UNIT_SECONDS[kind],
                f"{kind} {backend}",
                pass_work[model_role],
            )
            for kind, n in sizes.items()
            for model_role in models
            if n
        ),
        Phase(
            FINISHING,
            len(request.candidates),
            _JUDGING_SECONDS,
            f"judging scenario {request.scenario_number}",
        ),
    )


def name_phase(model_role: str, kind: str) -> str:
    """Return the name of the phase that makes one model's evidence of a kind."""
    return f"{model_role} model: {EVIDENCE[kind]}"


def fit_budget(request: AuditRequest, task: object) -> AuditRequest:
    """Return the request with as many inputs of `chain` as `max_chain_rows` pays for.

    These are all inputs, or as many as the rows of the listed names' parts allow, or none below
    `MIN_CHAIN_INPUTS`. The question and the digest stay those of the original request.
    """
    if not isinstance(task, prompts.PosteriorTask) or not request.posterior.n_chain_inputs:
        return request
    n_inputs, n_rows_per_input = request.posterior.n_chain_inputs, task.n_rows("chain", 1)
    n = min(n_inputs, request.posterior.max_chain_rows // max(1, n_rows_per_input))
    n = n if n >= min(n_inputs, MIN_CHAIN_INPUTS) else 0
    return request.with_(posterior=request.posterior.with_(n_chain_inputs=n))


def _sample_passages(request: AuditRequest) -> tuple[Passage, ...]:
    """Return a sample of scenario 2's passages that has every kind of them."""
    passages = request.shown_passages
    step = max(1, len(passages) // _N_SAMPLED)
    passage_of_kind = {PassageKind.from_passage(passage): passage for passage in passages}
    sampled_kinds = {PassageKind.from_passage(passage) for passage in passages[::step]}
    other_passages = [
        passage for kind, passage in passage_of_kind.items() if kind not in sampled_kinds
    ]
    return (*passages[::step], *other_passages)


def _sample_task(request: AuditRequest) -> prompts.PosteriorTask | None:
    """Return scenario 2's task of masked models on a sample of its passages."""
    if request.scenario_number == 1 or request.is_causal:
        return None
    return prompts.make_posterior_task(
        request.candidates,
        _sample_passages(request),
        tokenizer=load_tokenizer(request.hospital),
        max_tokens=request.posterior.max_tokens,
        n_listed=len(request.candidates),
        seed=request.seed,
    )


def _count_rows(request: AuditRequest, task: prompts.PosteriorTask | None) -> dict[str, float]:
    """Return rows of forward passes x tokens of a row for one model, by kind of evidence."""
    if request.is_causal:
        return _count_causal_tokens(request)
    if task is None:
        settings = request.generation
        return {"generation": float(settings.n_documents * settings.n_steps * settings.n_tokens)}
    sizes = fit_budget(request, task).sizes()
    return {kind: task.n_rows(kind, n) * task.n_tokens for kind, n in sizes.items()}


def _count_causal_tokens(request: AuditRequest) -> dict[str, float]:
    """Return the tokens that go through a causal model, by kind of evidence.

    Each name takes about as many as it has pieces, so reference controls count as listed names do.
    """
    tokenizer, sizes = load_tokenizer(request.general), request.sizes()
    pieces = part_pieces(request.candidates, kind=RUNNING_TEXT, tokenizer=tokenizer)
    n_names = len(request.candidates) + N_PAIR_REFERENCE
    per_text = n_names * float(pieces.n_pieces.sum(axis=1).mean())
    if request.scenario_number == 1:
        sampling = request.sampling
        prompt = token_ids(tokenizer, sampling.header + sampling.prompt)
        n_tokens = len(prompt) + sampling.n_tokens
        return {"sampling": float(sizes["sampling"] * n_tokens), "recall": per_text}
    settings = request.continuation
    lengths = [
        min(settings.max_tokens, len(token_ids(tokenizer, settings.header + passage.left)))
        for passage in _sample_passages(request)
    ]
    return {"continuation": sizes["continuation"] * (float(np.mean(lengths)) + per_text)}


def choose_prompt(
    candidates: Candidates, *, is_causal: bool = False, general: Path | None = None
) -> str:
    """Return the default prompt: the paper's, or for Japanese names that of Japanese notes.

    For causal models it is the beginning of a note, and if `general` is the demo hospital's, that
    of the demo's notes.
    """
    is_japanese = pool_for(candidates).locale == "ja_JP"
    if is_causal and general is not None and general.is_relative_to(DEMO_HOSPITAL):
        return DEMO_CAUSAL_PROMPT
    if is_causal:
        return JAPANESE_CAUSAL_PROMPT if is_japanese else SamplingSettings().prompt
    return JAPANESE_PROMPT if is_japanese else GenerationSettings().prompt
