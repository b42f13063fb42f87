"""The order of a leakage experiment: which de-identifiers, how many missed names, which attack."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from audit.deid.redact import MODES
from audit.errors import AuditError
from audit.request import GenerationSettings, PosteriorSettings

LANGUAGES = ("en", "ja")
RAW, PERFECT, TAGGER, MENTIONS, PATIENTS = "raw", "perfect", "tagger", "mentions", "patients"
UNITS = (MENTIONS, PATIENTS)
"""What is missed at random: single mentions, or all mentions of a patient."""

MAX_TAGGERS, MAX_SHARES, MAX_EPOCHS = 20, 20, 1000.0
_DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class Arm:
    """One way of making the notes that a hospital model is trained on.

    Attributes
    ----------
    kind
        `RAW`: as they are; `PERFECT`: every name replaced; `TAGGER`: what a de-identifier finds is
        replaced; `MENTIONS` and `PATIENTS`: every name but a random share is replaced.
    share
        Of patients' mentions, or of patients, whose names stay; NaN for the other kinds.
    tagger
        Identifier of the de-identifier; "" for the other kinds.
    """

    kind: str
    share: float = math.nan
    tagger: str = ""

    @property
    def code(self) -> str:
        """What the arm is called in tables, progress and file names."""
        if self.kind == TAGGER:
            return f"tagger {self.tagger}"
        return self.kind if math.isnan(self.share) else f"{self.kind} {100 * self.share:g} %"


@dataclass(frozen=True)
class LeakageOrder:
    """What an experiment on leakage against missed names is to be made of.

    Attributes
    ----------
    language
        Of the demo hospital.
    taggers
        Identifiers of de-identifiers.
    shares
        Shares of names that stay, ascending, each above 0 and below 1.
    units
        Out of `UNITS`.
    mode
        What takes a span's place, one of `audit.deid.redact.MODES`.
    epochs
        How often each model reads its notes.
    scenarios
        Which attacks: 2, 1, or both.
    n_inputs, n_documents
        Of scenarios 2 and 1.
    seed
        Of the draws of missed names, surrogates, trainings and attacks.
    device
        Of taggers and attacks: "auto", "cpu" or "cuda"; no part of the question.
    """

    language: str = "en"
    taggers: tuple[str, ...] = ()
    shares: tuple[float, ...] = (0.01, 0.05, 0.1, 0.25, 0.5)
    units: tuple[str, ...] = UNITS
    mode: str = "placeholder"
    epochs: float = 10.0
    scenarios: tuple[int, ...] = (2,)
    n_inputs: int = 2000
    n_documents: int = 300
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check every choice, once."""
        if self.language not in LANGUAGES:
            raise AuditError("is unknown.", where="language", do=f"One of {', '.join(LANGUAGES)}.")
        if self.device not in _DEVICES:
            raise AuditError("is unknown.", where="device", do=f"One of {', '.join(_DEVICES)}.")
        if self.mode not in MODES:
            raise AuditError("is unknown.", where="mode", do=f"One of {', '.join(MODES)}.")
        if not set(self.units) <= set(UNITS) or len(set(self.units)) != len(self.units):
            raise AuditError("is unknown.", where="units", do=f"One of {', '.join(UNITS)}.")
        if not self.scenarios or not set(self.scenarios) <= {1, 2}:
            raise AuditError("must be 1 or 2.", where="scenario", do="Choose one of the two.")
        is_repeated = any(len(set(x)) != len(x) for x in (self.scenarios, self.taggers))
        if is_repeated or len(self.taggers) > MAX_TAGGERS:
            raise AuditError(
                "The same is asked twice, or there are too many.", where="tagger or scenario"
            )
        self._check_numbers()

    def _check_numbers(self) -> None:
        is_rising = list(self.shares) == sorted(set(self.shares))
        is_inside = all(_is_number(s) and 0 < s < 1 for s in self.shares)
        if not is_inside or not is_rising or len(self.shares) > MAX_SHARES:
            raise AuditError(
                "Shares of missed names are rising numbers above 0 and below 1.", where="shares",
                do="For example 0.01,0.05,0.1.",
            )  # fmt: skip
        if not _is_number(self.epochs) or not 0 < self.epochs <= MAX_EPOCHS:
            raise AuditError(f"must be above 0 and at most {MAX_EPOCHS:g}.", where="epochs")
        # Other bounds are those of the attacks' own settings.
        PosteriorSettings(n_inputs=self.n_inputs, n_chain_inputs=0)
        GenerationSettings(n_documents=self.n_documents)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms: raw and perfect first, then taggers, then random misses."""
        taggers = tuple(Arm(TAGGER, tagger=tagger) for tagger in self.taggers)
        doses = tuple(Arm(unit, share) for unit in self.units for share in self.shares)
        return (Arm(RAW), Arm(PERFECT), *taggers, *doses)

    def to_json(self) -> dict[str, Any]:
        """Return the order as plain values; `leakage_order_from_json` reads it."""
        plain = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in plain.items()}


def quick(order: LeakageOrder) -> LeakageOrder:
    """Return an order of the same taggers that takes minutes: fewer arms, fewer epochs."""
    return replace(order, shares=(0.1, 0.5), units=(MENTIONS,), epochs=4.0, n_inputs=500)


def leakage_order_from_json(content: Mapping[str, Any]) -> LeakageOrder:
    """Return the order that `LeakageOrder.to_json` wrote.

    Raises
    ------
    AuditError
        If it is none.
    """
    try:
        if set(content) != {each.name for each in fields(LeakageOrder)}:
            raise ValueError
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in content.items()
        }
        return LeakageOrder(**values)
    except (ValueError, TypeError, AttributeError):
        raise AuditError("The order of the experiment cannot be read.", where="order") from None


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]  # a number by now
