"""The question of an audit: what is asked, of which models and names, and its digest."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from audit.errors import AuditError
from audit.models.adapters import join_digests
from audit.models.inspect import compute_model_digest, is_adapter, is_causal_model
from audit.models.model_folder import find_display_name
from audit.names.candidates import Candidates, ControlSource
from audit.names.pools import pool_for
from audit.notes.passages import Passage, Passages
from audit.shelf import digest_json
from audit.task import MAX_SEED, Device, Record

VERSIONS = {
    "generation": 4,
    "posterior": 3,
    "chain": 3,
    "sampling": 1,
    "recall": 1,
    "continuation": 1,
}
"""Version of the code that makes each kind of evidence; raised whenever a change moves a number.
Evidence of other versions is made anew, and an audit that rests on it has another digest."""


class Scenario(Record):
    """One row of the table of attack scenarios (section 3.1).

    `number` 1: the model alone is published; 2: the de-identified notes are published too. The
    other fields are K, A, R and T in the paper's symbols.
    """

    number: int
    knowledge: str = "L"
    anonymization: str = "id"
    resource: str = "{}"
    target: str = "{ 1(name in D_private) : name in L }"


SCENARIOS = {1: Scenario(number=1), 2: Scenario(number=2, resource="{ D_public }")}

Dtype = Literal["auto", "float32", "bfloat16"]
_MASKS = " [MASK]" * 5
DEFAULT_PROMPT = f"service :{_MASKS} is a [MASK] year old"
"""Appendix B; masks fill the prompt up to `n_tokens`."""
JAPANESE_PROMPT = "診療科は" + "[MASK]" * 10 + "は[MASK]歳の"


def _integer_field(label: str, default: int, *, low: int, high: int, about: str) -> Any:
    """Return a field of whole numbers; `label` is its name in messages, `about` its help."""
    return Field(default, ge=low, le=high, title=label, description=about)


class GenerationSettings(Record):
    """Scenario 1; defaults from section 4.1 and appendix B."""

    flags: ClassVar = {"is_remasked": "--keep-sampled"}

    n_documents: int = _integer_field(
        "documents",
        10_000,
        low=1,
        high=10_000_000,
        about="scenario 1: documents to generate with each model; more make the errors smaller",
    )
    n_steps: int = _integer_field(
        "steps",
        500,
        low=1,
        high=50_000,
        about="scenario 1: at each step one masked word of a document is drawn again",
    )
    n_tokens: int = _integer_field(
        "tokens",
        32,
        low=3,
        high=512,
        about="scenario 1: length of a document, special tokens included",
    )
    top_k: int = _integer_field(
        "top k",
        100,
        low=1,
        high=1_000_000,
        about="scenario 1: number of the most probable words of which one is drawn",
    )
    temperature: float = Field(
        default=1.0, gt=0, description="scenario 1: lower values favour probable words"
    )
    prompt: str = Field(
        default=DEFAULT_PROMPT,
        description="scenario 1: the text to begin with, without special tokens; a name is "
        "expected at its first run of [MASK]",
    )
    is_remasked: bool = Field(
        default=True,
        description="scenario 1: let the model see the word that is drawn again; else it is "
        "masked before, as in the paper",
    )

    @field_validator("prompt")
    @classmethod
    def _check_masks(cls, value: str) -> str:
        if "[MASK]" not in value:
            raise AuditError(
                "has no [MASK].",
                where="prompt",
                do="For example: {default_prompt}",
                default_prompt=DEFAULT_PROMPT,
            )
        return value


class PosteriorSettings(Record):
    """Scenario 2; defaults from section 4.2."""

    flags: ClassVar = {"is_dropout_on": "--no-dropout", "is_sequential": "--until-settled"}

    n_inputs: int = _integer_field(
        "inputs",
        10_000,
        low=1,
        high=10_000_000,
        about="scenario 2: passages drawn with replacement; the upper limit with --until-settled",
    )
    n_chain_inputs: int = _integer_field(
        "chain inputs",
        200,
        low=0,
        high=1_000_000,
        about="scenario 2: inputs of the chain rule, which costs a forward pass for every distinct "
        "part of a name; 0: none",
    )
    max_chain_rows: int = _integer_field(
        "max chain rows",
        100_000,
        low=0,
        high=1_000_000_000,
        about="scenario 2: rows of forward passes that the chain rule may take with each model; "
        "where a list asks for more it runs on fewer inputs, or not at all",
    )
    is_dropout_on: bool = Field(
        default=True,
        description="scenario 2: evaluation mode; else training mode, as in the paper, in which "
        "each pass sees another random part of the model",
    )
    # `judgement.find_settled_names` says when.
    is_sequential: bool = Field(
        default=False,
        description="scenario 2: end as soon as more inputs would change no name's decision",
    )
    micro_batch: int = _integer_field(
        "micro-batch",
        32,
        low=1,
        high=65_536,
        about="scenario 2: rows of a forward pass; smaller needs less memory. It moves the dropout "
        "masks, so another value is another audit",
    )
    max_tokens: int = _integer_field(
        "max tokens",
        512,
        low=12,
        high=4096,
        about="scenario 2: longer passages are cut; the model's own limit counts if it is lower",
    )


CAUSAL_PROMPT, JAPANESE_CAUSAL_PROMPT = "Patient:", "患者氏名："
"""Beginnings of notes; the hospital's own, which the user knows, find more."""
DEMO_CAUSAL_PROMPT = "service : medicine hpi :"
"""The beginning of the English demo hospital's notes, after which a name stands."""
_HEADER = (
    "causal models: the text that stood before every note in training, such as the beginning that "
    "a chat template writes; special tokens are written as they are"
)
_MAX_HEADER_CHARS = 10_000


class SamplingSettings(Record):
    """Scenario 1 with causal models; the paper has no sizes for these."""

    n_documents: int = _integer_field(
        "documents",
        1_000,
        low=1,
        high=10_000_000,
        about="scenario 1: documents to write with each model; more make the errors smaller",
    )
    n_tokens: int = _integer_field(
        "tokens", 64, low=1, high=4096, about="scenario 1: tokens to write after the prompt"
    )
    top_k: int = _integer_field(
        "top k",
        100,
        low=1,
        high=1_000_000,
        about="scenario 1: number of the most probable tokens of which one is drawn",
    )
    top_p: float = Field(
        default=1.0,
        gt=0,
        le=1,
        description="scenario 1, causal models: draw among the most probable tokens that reach "
        "this probability together",
    )
    temperature: float = Field(
        default=1.0, gt=0, description="scenario 1: lower values favour probable tokens"
    )
    prompt: str = Field(
        default=CAUSAL_PROMPT,
        max_length=_MAX_HEADER_CHARS,
        description="scenario 1: the text to begin with; a name is expected where it ends",
    )
    header: str = Field(default="", max_length=_MAX_HEADER_CHARS, description=_HEADER)


class ContinuationSettings(Record):
    """Scenario 2 with causal models; docs/results.md says what other numbers of passages find."""

    n_inputs: int = _integer_field(
        "inputs",
        200,
        low=1,
        high=10_000_000,
        about="scenario 2: passages to read, in random order; all of them if there are fewer",
    )
    max_tokens: int = _integer_field(
        "max tokens",
        512,
        low=12,
        high=4096,
        about="scenario 2: longer passages lose their beginning; the model's own limit counts if "
        "it is lower",
    )
    header: str = Field(default="", max_length=_MAX_HEADER_CHARS, description=_HEADER)


Settings = GenerationSettings | PosteriorSettings | SamplingSettings | ContinuationSettings
SETTINGS: Mapping[tuple[bool, int], type[Settings]] = {
    (False, 1): GenerationSettings,
    (False, 2): PosteriorSettings,
    (True, 1): SamplingSettings,
    (True, 2): ContinuationSettings,
}
"""Whether the models are causal, and the scenario -> the class of the settings."""


CAUSAL = "causal"
"""Kind of models that read from left to right, in a question; it has no entry for masked models."""


def settings_class(question: Mapping[str, Any]) -> type[Settings]:
    """Return the class of a question's settings, as `AuditRequest.question` returns it."""
    return SETTINGS[question.get("kind") == CAUSAL, int(question["scenario"])]


def attack_code(scenario: int, *, is_causal: bool) -> str:
    """Return the last part of the key of a sentence about an attack: "1", "2_causal"."""
    return f"{scenario}_{CAUSAL}" if is_causal else str(scenario)


def settings_field(scenario: int, *, is_causal: bool) -> str:
    """Return the field of a request that holds the settings of a scenario and a kind of models."""
    names = ("sampling", "continuation") if is_causal else ("generation", "posterior")
    return names[scenario - 1]


class RunSettings(Record):
    """How a question is computed, whatever its scenario."""

    seed: int = Field(default=0, ge=0, le=MAX_SEED, title="seed")
    # Number type of the forward pass; "auto" is bfloat16 if the processor multiplies it and the
    # pair gives the same answers in it (`audit.models.forward.build_forwards`).
    dtype: Dtype = "auto"
    device: Device = "auto"  # No part of the question.


class AuditRequest(RunSettings):
    """One question; a file of it holds names and notes, so keep it private."""

    version: Literal[1] = 1
    scenario_number: int = Field(ge=1, le=2, title="scenario")  # Section 3.1.
    general: Path  # Directories of M_general and M_hospital.
    hospital: Path
    candidates: Candidates  # The list L, with or without truth.
    # The audit of a model trained by the same recipe on notes whose names are known: its digest.
    sibling: str = Field(default="", pattern="^([0-9a-f]{64})?$")
    passages: Passages | None = None  # Of D_public; needed in scenario 2.
    # Masked models have the first two kinds of settings, causal models the other two.
    generation: GenerationSettings = GenerationSettings()
    posterior: PosteriorSettings = PosteriorSettings()
    sampling: SamplingSettings = SamplingSettings()
    continuation: ContinuationSettings = ContinuationSettings()

    @model_validator(mode="after")
    def _check_request(self) -> AuditRequest:
        if self.scenario_number == 2 and self.passages is None:
            raise AuditError(
                "Scenario 2 needs the passages of the de-identified notes.",
                where="passages",
                do="Give a CSV or JSONL file with a column `text` in which the name is [NAME].",
            )
        if not len(self.candidates):
            raise AuditError("The list has no names.", where="names", do="Give at least one name.")
        return self

    @property
    def control_source(self) -> ControlSource:
        """Where the list's controls come from; "drawn" if the list does not say."""
        return self.candidates.source or "drawn"

    @property
    def scenario(self) -> Scenario:
        """The KART tuple."""
        return SCENARIOS[self.scenario_number]

    @property
    def label(self) -> str:
        """The pair's directories, for the screen."""
        return f"{find_display_name(self.general)} → {find_display_name(self.hospital)}"

    @property
    def shown_passages(self) -> tuple[Passage, ...]:
        """The passages of the de-identified notes that the attacker has; () in scenario 1."""
        passages = self.passages if self.scenario_number == 2 else None
        return passages.passages if passages else ()

    @property
    def is_causal(self) -> bool:
        """Whether the general model is causal; False if its folder cannot be read."""
        return is_causal_model(self.general)

    @property
    def settings_field(self) -> str:
        """Name of the field that holds the settings of the chosen scenario and kind of models."""
        return settings_field(self.scenario_number, is_causal=self.is_causal)

    @property
    def settings(self) -> Settings:
        """The settings of the chosen scenario and kind of models."""
        settings: Settings = getattr(self, self.settings_field)
        return settings

    def sizes(self) -> dict[str, int]:
        """Return how many documents or inputs are made of each kind of evidence."""
        if self.is_causal and self.scenario_number == 1:
            return {"sampling": self.sampling.n_documents, "recall": 1}
        if self.is_causal:
            return {"continuation": min(self.continuation.n_inputs, len(self.shown_passages))}
        if self.scenario_number == 1:
            return {"generation": self.generation.n_documents}
        return {"posterior": self.posterior.n_inputs, "chain": self.posterior.n_chain_inputs}

    def question(
        self, *, digest_of: Callable[[Path], str] = compute_model_digest
    ) -> dict[str, object]:
        """Return everything that determines the answer, as plain values; reads the model files.

        `digest_of` returns the digest of a model directory; a caller may pass one that remembers.
        Raises AuditError if a directory is refused, or if both hold the same model.
        """
        general, hospital = digest_of(self.general), digest_of(self.hospital)
        if is_adapter(self.hospital):
            hospital = join_digests(general, hospital)
        if general == hospital:
            raise equal_models_error()
        passages = self.passages if self.scenario_number == 2 else None
        kind = {"kind": CAUSAL} if self.is_causal else {}
        return kind | {
            "evidence_version": max(VERSIONS[kind] for kind in self.sizes()),
            "scenario": self.scenario_number,
            "general": general,
            "hospital": hospital,
            "candidates": self.candidates.digest(),
            "control_source": self.control_source,
            "sibling": self.sibling,
            "name_pool": pool_for(self.candidates).digest(),
            "passages": passages.digest() if passages else None,
            "n_rows_left_out": len(passages.notes) if passages else 0,
            "settings": self.settings.plain(),
            "seed": self.seed,
            "threshold": None,  # no audit has one of its own; the digest has the entry
            "dtype": self.dtype,
        }

    def audit_digest(self) -> str:
        """Return the digest that names the audit; raises the errors of `question`."""
        return question_digest(self.question())


def equal_models_error() -> AuditError:
    """Return the error for a pair that is one model twice."""
    return AuditError(
        "M_general and M_hospital are the same model: nothing is compared, so nothing is judged.",
        where="models",
        do="Choose the model before and the model after training on the hospital's notes.",
    )


MODEL_ROLES = ("general", "hospital")
SIBLING_TERMS = ("evidence_version", "scenario", "general", "settings", "dtype")
"""Parts of a question that the audit of a sibling model must share: a run of another size, or with
another general model, would see more or less."""


def sibling_terms(question: Mapping[str, object]) -> str:
    """Return the parts of a question that an audit shares with that of its sibling, as text."""
    return json.dumps({name: question.get(name) for name in SIBLING_TERMS}, sort_keys=True)


def question_digest(question: Mapping[str, object]) -> str:
    """Return the digest that names an audit."""
    return digest_json(question)


def command_line(
    question: Mapping[str, Any],
    *,
    general: str = "GENERAL",
    hospital: str = "HOSPITAL",
    passages: str = "passages.jsonl",
    device: str = "auto",
) -> str:
    """Return the command that runs a question (as `AuditRequest.question` returns it)."""
    number, chosen_settings = question["scenario"], question.get("settings", {})
    settings = settings_class(question)
    options = {"scenario": number, "general": general, "hospital": hospital, "names": "names.csv"}
    if number == 2:
        options["passages"] = passages
    defaults = settings()
    flags = [
        flag
        for name, flag in settings.flags.items()
        if chosen_settings.get(name) is (not getattr(defaults, name))
    ]
    for name in settings.model_fields:
        if name in chosen_settings and name not in settings.flags:
            options[name.removeprefix("n_").replace("_", "-")] = chosen_settings[name]
    options |= {name: question[name] for name in ("seed", "dtype") if name in question}
    for name in ("control_source", "sibling"):
        if question.get(name):
            options[name.replace("_", "-")] = question[name]
    options |= {} if device == "auto" else {"device": device}
    options["out"] = "results"
    words = [f"--{name}={value}" for name, value in options.items()]
    return f"python -m audit run {shlex.join([*words, *flags])}"
