"""The types of an audit's report, which is stored, signed, shown and compared.

Its JSON is the contract: a report is read from JSON and returns the same JSON. A report of another
schema is refused; one that was judged by the first rule of the verdict is read. Undefined numbers
are NaN here and null in JSON. Torch-free.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PrivateAttr

from audit.attack.decisions import FLAGGED
from audit.attack.measure_types import (
    RULE_VERSION,
    CurvePoint,
    Details,
    Measures,
    MentionBin,
    Part,
    Ranking,
    Verdict,
    write_json,
)
from audit.attack.question import (
    CAUSAL,
    MODEL_ROLES,
    SIBLING_TERMS,
    Scenario,
    attack_code,
    sibling_terms,
)
from audit.attack.verdicts import make_equal_models_verdict
from audit.errors import AuditError, Message, make_version_error
from audit.home import DEMO_HOSPITAL
from audit.models.inspect import compute_hospital_digest
from audit.names.candidates import (
    GUESSED_KINDS,
    OF_HOSPITAL,
    PEOPLE,
    ControlSource,
    sources_of,
)
from audit.notes.passages import Passage
from audit.report.name_table import NameForm, name_table, select_visible
from audit.stats import FloatArray, Rate

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
LINKED_BY = ("hospital_against_general", "hospital_alone", "general_alone")
"""Scores that rank the names of a passage; the first is the attack."""


class Model(Part):
    """One model of the pair; "" and None mean unknown."""

    name: str = ""
    digest: str = ""
    architecture: str | None = None
    n_parameters: int | None = None


class ListCounts(Part):
    """Numbers of listed names by kind."""

    n_names: int | None = None
    n_members: int | None = None
    n_unknown: int | None = None
    n_controls: int | None = None
    n_canaries: int | None = None
    n_reference: int = 0
    by_kind: Mapping[str, int] = {}


class AuditReport(Part):
    """One answered question.

    `digest` is the digest of `question`, which is everything that determined the answer. `models`
    are "general" and "hospital". `columns` and `names` are the table of names in JSON; `table` is
    the same as a DataFrame. `notes` are remarks that a reader must know. `made` tells when, on what
    hardware and with which versions the report was made.
    """

    digest: str
    question: Mapping[str, Any]
    scenario: Scenario
    models: Mapping[str, Model]
    candidates: ListCounts
    fixed_score: str
    columns: Sequence[str]
    names: Mapping[str, Sequence[Any]]
    measures: Measures
    verdict: Verdict
    curve: Sequence[CurvePoint]
    mentions: Sequence[MentionBin]
    details: Details
    notes: Sequence[Message]
    made: Mapping[str, Any]
    version: Literal[1] = Field(alias="schema")
    _plain: dict[str, Any] = PrivateAttr()

    @classmethod
    def from_parts(cls, **parts: object) -> AuditReport:
        """Return a report made of parts, each a value of its type or of JSON.

        Numbers may be NaN or infinite.
        """
        return cls.from_json(write_json(parts, spells_infinity=True) | {"schema": SCHEMA})

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AuditReport:
        """Read a report that `to_json` wrote; two equal models get the verdict of equal models."""
        expected = {field.alias or name for name, field in cls.model_fields.items()}
        if value.get("schema") != SCHEMA or {*value} != expected:
            raise make_version_error()
        general, hospital = (
            value["models"].get(model_role, {}).get("digest") for model_role in MODEL_ROLES
        )
        if general is not None and general == hospital:
            value = {**value, "verdict": make_equal_models_verdict().to_json()}
        try:
            report = cls.model_validate(value)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise AuditError("This result is damaged.", do="Run the audit again.") from None
        if "is_undecided" not in report.names:
            raise make_version_error()
        report._plain = dict(value)
        return report

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values, which the caller must not change."""
        return self._plain

    def changed(self, **parts: object) -> AuditReport:
        """Return the report with some parts replaced, as `from_parts` takes them."""
        return self.from_parts(**{k: v for k, v in self._plain.items() if k != "schema"} | parts)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The names, a row each, with the columns of `audit.report.name_table.COLUMNS`."""
        return name_table(self.names, scenario=self.scenario.number, stands_out=self.stands_out)

    @property
    def attack(self) -> str:
        """The code of the attack in the keys of sentences: "1", "2", "1_causal", "2_causal"."""
        return attack_code(self.scenario.number, is_causal=self.is_causal)

    @property
    def is_causal(self) -> bool:
        """Whether the models are causal."""
        return self.question.get("kind") == CAUSAL

    @property
    def stands_out(self) -> list[bool]:
        """Whether each name stands out [N]; every count of such names uses this."""
        if self.verdict.state != "leak_found":
            return [False] * self.n_names
        return [word == FLAGGED for word in self.names["decision"]]

    @property
    def possible_sources(self) -> tuple[ControlSource, ...]:
        """The possible sources of the controls."""
        return sources_of(has_people=bool(self.is_person.any()))

    @property
    def is_person(self) -> NDArray[np.bool_]:
        """Whether each listed name [N] is a control that is a real person, not a drawn name."""
        is_guessed = any(note.key == GUESSED_KINDS for note in self.notes)
        is_of_kind = np.isin(self.names["control_kind"], PEOPLE)
        return np.asarray(self.table["is_control"] & (is_of_kind | is_guessed), dtype=np.bool_)

    @property
    def n_names(self) -> int:
        """Number of listed names."""
        return len(self.names["name_id"])

    @property
    def has_truth(self) -> bool:
        """Whether members and controls are known, so that rates can be given."""
        return bool(self.measures.strata)

    @property
    def controls_flagged(self) -> Rate:
        """Listed controls that stand out, out of all listed controls."""
        flags = self.table.loc[self.table["is_control"], "stands_out"]
        return Rate(int(flags.sum()), len(flags))

    @property
    def at(self) -> str:
        """When the report was made; "" if unknown."""
        return str(self.made.get("at", ""))

    @property
    def dtype(self) -> str:
        """Number type of the computation, with "auto" resolved; "" if unknown."""
        return str(self.made.get("dtype") or self.question.get("dtype") or "")

    def with_names_as(self, form: NameForm) -> AuditReport:
        """Return the report with its names in a form; `made` then states the form as `names`."""
        parts: dict[str, Any] = {"made": {**self.made, "names": form}}
        if form != "full":
            parts["names"] = select_visible(self.names, form=form)
            details, linking = self._plain["details"], self._plain["details"].get("linking")
            if (
                linking
            ):  # a passage's id is the hospital's own text, such as a chart number or a name
                ranks = [rank | {"passage_id": ""} for rank in linking.get("rank_by_passage", ())]
                parts["details"] = details | {"linking": linking | {"rank_by_passage": ranks}}
        return self.from_json(self._plain | parts)

    def headline(self, stratum: str) -> dict[str, Ranking]:
        """Return the rankings of the fixed score, M_general alone and popularity, by name."""
        measured = self.measures.strata[stratum]
        return {"attack": measured.scores[self.fixed_score], **measured.baselines}


N_BEST_PASSAGES = 10


@dataclass(frozen=True, eq=False)
class Inspection:
    """Evidence of one audit for N listed names and R reference controls.

    Attributes
    ----------
    n_per_block
        [b] inputs or documents of each block.
    hospital, general
        [b, N] each model's mean evidence in a block: ln p (nats) in scenario 2, product of the
        masses of both parts in scenario 1. NaN where a name cannot be scored.
    reference_score, reference_general, reference_n_pieces
        [R] fixed score, score of M_general alone and word pieces of the reference controls.
    part_columns
        [N + R, 2] places of the names' first and last parts among U distinct parts; -1: none.
    part_residual, part_log_share, part_n_pieces, part_is_last
        [U] what M_hospital adds to M_general, ln of the share of people who carry the part, word
        pieces, and whether it is a last name.
    best_passages, best_log_ratio
        [N, K] rows of `passages` that a name fits best, by the mean of ln p_hospital - ln p_general
        (nats), best first; -1 and NaN where there are fewer. K = 0 in scenario 1.
    pair_hospital, pair_general
        [2, N + R] mean ln p (nats) of the first and the last name, given what is written before it,
        where causal models give evidence of the pair; otherwise empty.
    """

    n_per_block: NDArray[np.int64]
    hospital: NDArray[np.float32]
    general: NDArray[np.float32]
    reference_score: NDArray[np.float64]
    reference_n_pieces: NDArray[np.int64]
    best_passages: NDArray[np.int32]
    best_log_ratio: NDArray[np.float32]
    passages: tuple[Passage, ...] = ()
    # Empty in audits of rule 1.
    reference_general: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    part_columns: NDArray[np.int32] = field(default_factory=lambda: np.zeros((0, 2), np.int32))
    part_residual: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    part_log_share: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    part_n_pieces: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    part_is_last: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, np.bool_))
    pair_hospital: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, 0)))
    pair_general: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, 0)))

    @property
    def pair_evidence(self) -> dict[str, NDArray[np.float64]]:
        """The evidence of pairs by model; empty if there is none."""
        if not self.pair_hospital.size:
            return {}
        return {"hospital": self.pair_hospital, "general": self.pair_general}


def select_compared_scores(report: AuditReport, inspection: Inspection, *, row: int) -> FloatArray:
    """Return the scores of the controls with which the p-value compares a listed name.

    These controls have the same number of word pieces and the same parts. They are the listed
    people of the hospital, if the controls are such people, else the reference controls. Audits of
    rule 1 do not state which parts their reference controls have.
    """
    n_listed = report.n_names
    scores = np.concatenate([report.table["score"], inspection.reference_score])
    n_pieces = np.concatenate([report.table["n_pieces"], inspection.reference_n_pieces])
    is_alike = n_pieces == n_pieces[row]
    if len(inspection.part_columns) == len(scores):
        has_part = inspection.part_columns >= 0
        is_alike &= (has_part == has_part[row]).all(axis=1)
    is_control = np.arange(len(scores)) >= n_listed
    if report.verdict.control_source in OF_HOSPITAL:
        is_control = np.append(report.is_person, np.zeros(len(scores) - n_listed, dtype=np.bool_))
        is_control[row] = False
    return np.asarray(scores[is_alike & is_control])


def find_best_passages(
    log_ratio: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return the passages [N, K] with each name's largest log ratios [P, N], and these ratios.

    K is `N_BEST_PASSAGES`, or P if there are fewer.
    """
    finite_ratios = np.where(np.isfinite(log_ratio), log_ratio, np.nan).T
    order = np.argsort(-finite_ratios, axis=1, kind="stable")[:, :N_BEST_PASSAGES]
    best_ratios = np.take_along_axis(finite_ratios, order, axis=1)
    return np.where(np.isnan(best_ratios), -1, order).astype(np.int32), best_ratios.astype(
        np.float32
    )


@dataclass(frozen=True)
class KeptAudit:
    """One line of the list of kept audits.

    `family` is the same for audits that differ only in the general model; "" if the report lacks
    its question. `is_demo` marks audits of the demo hospital, in which everything is invented.
    """

    digest: str
    at: str
    scenario: int
    general: str
    hospital: str
    n_names: int
    state: str
    family: str = ""
    is_demo: bool = False
    rule: int = RULE_VERSION
    hospital_digest: str = ""
    sibling_terms: str = ""
    general_digest: str = ""

    @property
    def pair(self) -> tuple[str, str, bool]:
        """The two models, by their digests; by their names if a digest is unknown."""
        if self.general_digest and self.hospital_digest:
            return self.general_digest, self.hospital_digest, self.is_demo
        return self.general, self.hospital, self.is_demo


def kept_audit(report: AuditReport, *, demo: Collection[str] = ()) -> KeptAudit:
    """Return a report's line in the list of kept audits.

    The audit belongs to the demo if its digest is in `demo` or its model is shipped with the
    program. The model is recognized by its weights, also while the demo is still running and in an
    audit that somebody starts by hand.
    """
    models, question, family = report.models, report.question, ""
    is_demo = report.digest in demo or models["hospital"].digest in _read_demo_digests()
    if question.get("general") and question.get("hospital"):
        rest = {key: value for key, value in question.items() if key != "general"}
        family = json.dumps(rest, sort_keys=True)
    return KeptAudit(
        report.digest,
        report.at,
        report.scenario.number,
        models["general"].name,
        models["hospital"].name,
        report.n_names,
        report.verdict.state,
        family,
        is_demo,
        report.verdict.rule,
        models["hospital"].digest,
        _terms_as_sibling(report),
        models["general"].digest,
    )


def _terms_as_sibling(report: AuditReport) -> str:
    """Return the settings that an audit must share to use this one as its sibling's audit.

    Returns "" if this audit cannot serve as a sibling's: it must have names that are known to be in
    the notes, and must state the source of its controls.
    """
    is_known = all(report.question.get(name) is not None for name in SIBLING_TERMS)
    can_serve = report.details.doses and report.verdict.control_source != "drawn"
    return sibling_terms(report.question) if is_known and can_serve else ""


def find_possible_siblings(
    question: Mapping[str, Any], *, audits: Sequence[KeptAudit]
) -> tuple[KeptAudit, ...]:
    """Return the audits that can serve as a sibling's audit, in the given order."""
    terms, hospital = sibling_terms(question), question.get("hospital")
    return tuple(
        audit
        for audit in audits
        if audit.sibling_terms == terms and audit.hospital_digest != hospital
    )


@cache
def _read_demo_digests() -> frozenset[str]:
    """Return the digests of all models of the demo hospital, adapters with their base."""
    folders = [
        folder
        for group in ("models", "causal")
        for folder in DEMO_HOSPITAL.glob(f"*/{group}/*")
        if folder.is_dir()
    ]
    return frozenset(
        compute_hospital_digest(folder.parent / "general", folder) for folder in folders
    )


def find_reference_audits(
    audit: KeptAudit, *, audits: Sequence[KeptAudit]
) -> tuple[KeptAudit, ...]:
    """Return the audits that differ from this one only in the general model, in given order."""
    family = [
        candidate for candidate in audits if audit.family and candidate.family == audit.family
    ]
    return tuple(candidate for candidate in family if candidate.digest != audit.digest)


def list_other_audits(report: AuditReport, *, audits: Sequence[KeptAudit]) -> list[KeptAudit]:
    """Return all other audits, those of the same scenario first, otherwise in given order."""
    other_audits = [audit for audit in audits if audit.digest != report.digest]
    return sorted(other_audits, key=lambda audit: audit.scenario != report.scenario.number)


def choose_audit(
    digest_start: str, *, audits: Sequence[KeptAudit], demo: Mapping[str, str]
) -> KeptAudit | None:
    """Return the audit to show: by digest, else the newest own audit, else the demo's.

    `digest_start` comes from a link and is "" for none; if it does not fit exactly one audit, the
    result is None. `demo` holds the demo's digests by name; its headline audit comes first if
    there are only audits of the demo.
    """
    if digest_start:
        is_digest = re.fullmatch("[0-9a-f]{4,64}", digest_start) is not None
        matches = [audit for audit in audits if is_digest and audit.digest.startswith(digest_start)]
        return matches[0] if len(matches) == 1 else None
    own_audits = [audit for audit in audits if not audit.is_demo] or audits
    headline = demo.get("masked_lm")
    return max(own_audits, key=lambda audit: (audit.digest == headline, audit.at), default=None)


def find_other_scenario(audit: KeptAudit, *, audits: Iterable[KeptAudit]) -> KeptAudit | None:
    """Return the newest audit of the same pair in the other scenario, best on as long a list."""
    pair = find_pair(audit, audits=audits)
    partners = (partner for partner in pair if partner.scenario != audit.scenario)

    def rank_partner(partner: KeptAudit) -> tuple[bool, str]:
        return partner.n_names == audit.n_names, partner.at

    return max(partners, key=rank_partner, default=None)


def find_pair(audit: KeptAudit, *, audits: Iterable[KeptAudit]) -> tuple[KeptAudit, ...]:
    """Return this audit, and after it all other audits of the same two models."""
    of_pair = (kept for kept in audits if kept.pair == audit.pair)
    return audit, *(kept for kept in of_pair if kept.digest != audit.digest)
