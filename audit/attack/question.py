"""A request as a plain JSON value, so that another process can ask the same question later."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from audit.errors import AuditError
from audit.models.inspect import model_digest
from audit.names.candidates import Candidates
from audit.names.pools import pool_for
from audit.notes.passages import Passage, Passages
from audit.tables import RowNote


@dataclass(frozen=True)
class Scenario:
    """One row of the table of attack scenarios (section 3.1).

    Attributes
    ----------
    number
        1: the model alone is published. 2: the de-identified notes are published too.
    knowledge, anonymization, resource, target
        K, A, R and T in the paper's symbols.
    """

    number: int
    knowledge: str
    anonymization: str
    resource: str
    target: str


_TARGET = "{ 1(name in D_private) : name in L }"

KART_1 = Scenario(1, knowledge="L", anonymization="id", resource="{}", target=_TARGET)
KART_2 = Scenario(2, knowledge="L", anonymization="id", resource="{ D_public }", target=_TARGET)
SCENARIOS = {1: KART_1, 2: KART_2}


EVIDENCE_VERSION = 2
"""Raised whenever a change of code moves a number: results of older versions are made anew."""

DTYPES = ("float32", "bfloat16")
_MASKS = " [MASK]" * 5
DEFAULT_PROMPT = f"service :{_MASKS} is a [MASK] year old"
"""Appendix B; masks fill the prompt up to `n_tokens`."""


@dataclass(frozen=True)
class GenerationSettings:
    """Scenario 1; defaults from section 4.1 and appendix B.

    Attributes
    ----------
    n_documents
        Documents to generate with each model.
    n_steps, n_tokens, top_k, temperature
        T = 500, L = 32 (special tokens included), k = 100, alpha = 1.0.
    prompt
        x(0) without special tokens; its first run of [MASK] is where a name is expected.
    is_remasked
        Whether the sampled position is set back to [MASK] before the forward pass.
    """

    n_documents: int = 10_000
    n_steps: int = 500
    n_tokens: int = 32
    top_k: int = 100
    temperature: float = 1.0
    prompt: str = DEFAULT_PROMPT
    is_remasked: bool = True

    def __post_init__(self) -> None:
        """Refuse settings that no run can have."""
        _whole("documents", self.n_documents, low=1, high=10_000_000)
        _whole("steps", self.n_steps, low=1, high=50_000)
        _whole("tokens", self.n_tokens, low=3, high=512)
        _whole("top k", self.top_k, low=1, high=1_000_000)
        if not (math.isfinite(self.temperature) and self.temperature > 0):
            raise AuditError("must be above 0.", where="temperature", do="The paper's is 1.0.")
        if "[MASK]" not in self.prompt:
            raise AuditError("has no [MASK].", where="prompt", do=f"For example: {DEFAULT_PROMPT}")


@dataclass(frozen=True)
class PosteriorSettings:
    """Scenario 2; defaults from section 4.2.

    Attributes
    ----------
    n_inputs
        Passages drawn with replacement.
    n_chain_inputs
        The same for `chain`, which costs a forward pass for every distinct part of a name; 0: none.
    is_dropout_on
        Training mode (the paper's) or evaluation mode.
    micro_batch
        Rows of a forward pass; dropout masks depend on it, so another value is another question.
    max_tokens
        Longest input; what the models can hold if that is less.
    """

    n_inputs: int = 10_000
    n_chain_inputs: int = 200
    is_dropout_on: bool = True
    micro_batch: int = 32
    max_tokens: int = 512

    def __post_init__(self) -> None:
        """Refuse settings that no run can have."""
        _whole("inputs", self.n_inputs, low=1, high=10_000_000)
        _whole("chain inputs", self.n_chain_inputs, low=0, high=1_000_000)
        _whole("micro-batch", self.micro_batch, low=1, high=65_536)
        _whole("max tokens", self.max_tokens, low=12, high=4096)


@dataclass(frozen=True, eq=False)
class AuditRequest:
    """One question.

    Attributes
    ----------
    scenario_number
        1 or 2 (section 3.1).
    general, hospital
        Directories of M_general and M_hospital.
    candidates
        The list L, with or without truth.
    passages
        Of D_public; needed in scenario 2.
    threshold
        A free threshold on the fixed score, judged beside the others; None: none.
    dtype
        Numbers of the forward pass: "float32" or "bfloat16".
    device
        "auto", "cpu" or "cuda"; no part of the question.
    """

    scenario_number: int
    general: Path
    hospital: Path
    candidates: Candidates
    passages: Passages | None = None
    generation: GenerationSettings = field(default_factory=GenerationSettings)
    posterior: PosteriorSettings = field(default_factory=PosteriorSettings)
    seed: int = 0
    threshold: float | None = None
    dtype: str = "float32"
    device: str = "auto"

    def __post_init__(self) -> None:
        """Refuse what cannot be asked."""
        if self.scenario_number not in SCENARIOS:
            raise AuditError("must be 1 or 2.", where="scenario", do="Choose one of the two.")
        if self.scenario_number == 2 and self.passages is None:
            raise AuditError(
                "Scenario 2 needs the passages of the de-identified notes.",
                where="passages",
                do="Give a CSV or JSONL file with a column `text` in which the name is [NAME].",
            )
        if not len(self.candidates):
            raise AuditError("The list has no names.", where="names", do="Give at least one name.")
        if self.dtype not in DTYPES:
            raise AuditError("is unknown.", where="dtype", do=f"Choose one of {', '.join(DTYPES)}.")
        if self.threshold is not None and not math.isfinite(self.threshold):
            raise AuditError("must be a finite number.", where="threshold")
        _whole("seed", self.seed, low=0, high=2**63 - 1)

    @property
    def scenario(self) -> Scenario:
        """The KART tuple."""
        return SCENARIOS[self.scenario_number]

    @property
    def settings(self) -> GenerationSettings | PosteriorSettings:
        """The settings of the chosen scenario."""
        return self.generation if self.scenario_number == 1 else self.posterior

    def question(self, *, digest_of: Callable[[Path], str] = model_digest) -> dict[str, object]:
        """Return everything that determines the answer, as plain values; reads the model files.

        `digest_of` gives a model directory's digest, for callers that remember it.

        Raises
        ------
        AuditError
            If a model directory is refused, or both hold the same model.
        """
        general, hospital = digest_of(self.general), digest_of(self.hospital)
        if general == hospital:
            raise equal_models()
        return {
            "evidence_version": EVIDENCE_VERSION,
            "scenario": self.scenario_number,
            "general": general,
            "hospital": hospital,
            "candidates": self.candidates.digest(),
            "passages": self.passages.digest()
            if self.passages and self.scenario_number == 2
            else None,
            "n_rows_left_out": len(self.passages.notes)
            if self.passages and self.scenario_number == 2
            else 0,
            "settings": asdict(self.settings),
            "seed": self.seed,
            "threshold": self.threshold,
            "dtype": self.dtype,
        }


def equal_models() -> AuditError:
    """Return the refusal of a pair that is one model twice."""
    return AuditError(
        "M_general and M_hospital are the same model: nothing is compared, so nothing is judged.",
        where="models",
        do="Choose the model before and the model after training on the hospital's notes.",
    )


def question_digest(question: dict[str, object]) -> str:
    """Return the digest that names an audit."""
    return _sha256(question)


def _sha256(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _whole(what: str, value: object, *, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise AuditError(f"must be a whole number from {low} to {high}.", where=what)


_VERSION = 1
_PATHS = ("general", "hospital")
_Record = TypeVar("_Record", Passage, RowNote, GenerationSettings, PosteriorSettings)


def audit_digest(request: AuditRequest) -> str:
    """Return the digest that names the request's audit; reads every byte of both models.

    Raises
    ------
    AuditError
        If a model directory is refused.
    """
    pool = pool_for(request.candidates).digest()
    return question_digest(request.question() | {"name_pool": pool})


def request_to_json(request: AuditRequest) -> dict[str, Any]:
    """Return a request as plain values; it holds names and notes, so keep it private."""
    plain = {f.name: getattr(request, f.name) for f in fields(request)}
    columns = {name: list(column) for name, column in vars(request.candidates).items()}
    columns["popularity"] = [None if math.isnan(p) else p for p in columns["popularity"]]
    return plain | {
        "version": _VERSION,
        **{path: str(plain[path]) for path in _PATHS},
        "candidates": columns,
        "passages": _passages_to_json(request.passages),
        "generation": asdict(request.generation),
        "posterior": asdict(request.posterior),
    }


def request_from_json(value: object) -> AuditRequest:
    """Return the request that `request_to_json` wrote down.

    Raises
    ------
    AuditError
        If the value is not such a request, or asks what cannot be asked.
    """
    try:
        plain = dict(_mapping(value))
        if plain.pop("version") != _VERSION:
            raise ValueError
        _check_plain(plain)
        return AuditRequest(
            **plain
            | {path: Path(_text(plain[path])) for path in _PATHS}
            | {
                "candidates": _candidates(plain["candidates"]),
                "passages": _passages(plain["passages"]),
                "generation": _record(GenerationSettings, plain["generation"]),
                "posterior": _record(PosteriorSettings, plain["posterior"]),
            }
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise AuditError(
            "This request cannot be read: it is damaged, or of another version of the program.",
            do="Ask the question again.",
        ) from None


def _check_plain(plain: Mapping[str, Any]) -> None:
    if plain.keys() != {f.name for f in fields(AuditRequest)}:
        raise ValueError
    _text(plain["dtype"])
    if plain["device"] not in ("auto", "cpu", "cuda") or type(plain["scenario_number"]) is not int:
        raise ValueError
    if plain["threshold"] is not None and type(plain["threshold"]) not in (int, float):
        raise ValueError


def _candidates(value: object) -> Candidates:
    columns = {name: tuple(column) for name, column in _mapping(value).items()}
    if columns.keys() != {f.name for f in fields(Candidates)}:
        raise ValueError
    for name in ("first", "last", "control_kind", "role", "sex"):
        for text in columns[name]:
            _text(text)
    if any(n is not None and type(n) is not int for n in columns["n_mentions"]):
        raise ValueError
    if any(row is not None and type(row) is not int for row in columns["row"]):
        raise ValueError
    if any(type(is_guessed) is not bool for is_guessed in columns["is_kind_guessed"]):
        raise ValueError
    columns["popularity"] = tuple(
        math.nan if p is None else float(p) for p in columns["popularity"]
    )
    return Candidates(**columns)


def _passages_to_json(passages: Passages | None) -> dict[str, Any] | None:
    if passages is None:
        return None
    return {
        "passages": [asdict(passage) for passage in passages.passages],
        "notes": [asdict(note) for note in passages.notes],
        "encoding": passages.encoding,
    }


def _passages(value: object) -> Passages | None:
    if value is None:
        return None
    plain = _mapping(value)
    if plain.keys() != {"passages", "notes", "encoding"}:
        raise ValueError
    return Passages(
        passages=tuple(_passage(one) for one in plain["passages"]),
        notes=tuple(_record(RowNote, one) for one in plain["notes"]),
        encoding=_text(plain["encoding"]),
    )


def _passage(value: object) -> Passage:
    plain = dict(_mapping(value))
    for name in ("left", "separator", "right", "passage_id"):
        _text(plain[name])
    owner = plain["owner"]
    if isinstance(owner, list | tuple):  # a tuple where no file lies between
        first, last = owner
        plain["owner"] = (_text(first), _text(last))
    elif owner is not None and type(owner) is not int:
        raise ValueError
    return _record(Passage, plain | {"slots": tuple(_text(slot) for slot in plain["slots"])})


def _record(kind: type[_Record], value: object) -> _Record:
    plain = _mapping(value)
    if plain.keys() != {f.name for f in fields(kind)}:
        raise ValueError
    return kind(**plain)


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value
