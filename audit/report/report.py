"""The types of an audit's report, which is stored, signed, shown and compared.

Its JSON is the contract: a report is read from JSON and returns the same JSON. A report of another
schema is refused; one that was judged by the first rule of the verdict is read. Undefined numbers
are NaN here and null in JSON. Torch-free.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr

from audit.attack.decisions import FLAGGED
from audit.attack.question import MODEL_ROLES, SIBLING_TERMS, Scenario, sibling_terms
from audit.attack.scores import GENERAL_ALONE, POPULARITY
from audit.attack.verdicts import RULE_VERSION, make_equal_models_verdict, write_summary
from audit.errors import AuditError, Message, make_version_error
from audit.home import DEMO_HOSPITAL
from audit.models.inspect import compute_model_digest
from audit.names.candidates import (
    GUESSED_KINDS,
    OF_HOSPITAL,
    PEOPLE,
    ControlSource,
    sources_of,
)
from audit.notes.passages import Passage
from audit.report.name_table import NameForm, name_table, number, select_visible
from audit.stats import NO_ESTIMATE, Estimate, FloatArray, Rate, wilson
from audit.tables import percent
from audit.words import catalogue

if TYPE_CHECKING:
    import pandas as pd

SCHEMA = 1
LINKED_BY = ("hospital_against_general", "hospital_alone", "general_alone")
"""Scores that rank the names of a passage; the first is the attack."""


@dataclass(frozen=True)
class Share(Estimate):
    """A rate with its interval and its counts."""

    n_hits: int
    n_total: int


def estimate(record: Mapping[str, Any] | Estimate | None) -> Estimate:
    """Return an estimate from a report's JSON, with its counts if there are any; NaN for None."""
    if isinstance(record, Estimate):
        return record
    record = record or {}
    plain_estimate = Estimate(*(number(record.get(key)) for key in ("value", "low", "high")))
    if "n_total" not in record:
        return plain_estimate
    return Share(
        **vars(plain_estimate), n_hits=int(record["n_hits"]), n_total=int(record["n_total"])
    )


Number = Annotated[float, BeforeValidator(number)]
Measured = Annotated[Estimate, BeforeValidator(estimate)]
Counted = Annotated[Share, BeforeValidator(estimate)]


class Part(BaseModel):
    """A part of a report; unknown fields stay in the JSON and are not read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", hide_input_in_errors=True)


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


class Counts(Part):
    """Judged names: members flagged and missed, controls flagged and not flagged, with rates."""

    tp: int
    fn: int
    fp: int
    tn: int
    recall: Counted
    false_positive_rate: Counted
    precision: Counted
    accuracy: Counted

    @property
    def four(self) -> tuple[int, int, int, int]:
        """TP, FN, FP, TN."""
        return self.tp, self.fn, self.fp, self.tn


class Rule(Part):
    """The results of a yes/no rule (`audit.attack.metrics`)."""

    confusion: Counts
    f1: Measured
    n_undecided: int | None = None
    all_right: Counts | None = None
    all_wrong: Counts | None = None


class Ranking(Part):
    """How well a score ranks members above controls; `tpr_at_fpr` by FPR as text ("0.01")."""

    auc: Measured
    tpr_at_fpr: Mapping[str, Measured]
    n_members: int
    n_controls: int
    n_not_scored: int

    def tpr(self, fpr: float) -> Estimate:
        """Return the TPR at an FPR; NaN if the list is too short to resolve it."""
        return self.tpr_at_fpr.get(f"{fpr:g}", NO_ESTIMATE)


class Stratum(Part):
    """All measures of the members against one kind of controls."""

    n_members: int
    n_controls: int
    always_member: Rule
    rules: Mapping[str, Rule]
    baseline_rules: Mapping[str, Rule]
    scores: Mapping[str, Ranking]
    baselines: Mapping[str, Ranking]
    held_out: Mapping[str, Rule]

    def yield_rules(self, fixed: str) -> Iterator[tuple[str, str, Rule]]:
        """Yield (rule, target, results) of every yes/no rule, the guess last.

        The target is "hospital", "general", "held_out" (the threshold is chosen on the other half
        of the names), or "guess", which uses no model.
        """
        scores = (fixed, GENERAL_ALONE, POPULARITY)
        rules_by_target = {
            "hospital": self.rules,
            "general": self.baseline_rules,
            "held_out": {name: self.held_out[name] for name in scores if name in self.held_out},
            "guess": {"always_member": self.always_member},
        }
        for target, rules in rules_by_target.items():
            yield from ((name, target, rule) for name, rule in rules.items())

    def rank_scores(self, fixed: str) -> dict[str, Ranking]:
        """Return every ranking by score: the fixed score first, baselines last."""
        return {fixed: self.scores[fixed], **self.scores, **self.baselines}


class Measures(Part):
    """Measures by kind of controls: "all", then each kind on the list; empty without truth."""

    strata: Mapping[str, Stratum]

    @property
    def table_strata(self) -> dict[str, Stratum]:
        """The kinds of controls shown in tables: each kind, or "all" if it is the only one."""
        kinds = {name: stratum for name, stratum in self.strata.items() if name != "all"}
        return kinds or dict(self.strata)


class DoseLine(Part):
    """How many of the names that occur `dose` times in the notes the attack detected."""

    dose: int
    n_names: int
    n_seen: int
    p_group: Number
    p_names: Number
    p: Number


class PositiveControl(DoseLine):
    """A dose line as a bound: at most the share `most_exposed` of the listed people is exposed."""

    is_leak: bool
    most_exposed: Number


class Verdict(Part):
    """The verdict (`audit.attack.verdicts`) in both languages."""

    state: str
    reasons: Sequence[str] = ()
    english: str = ""
    japanese: str = ""
    what_now: Mapping[str, str] = {}
    rule: int = 1
    control_source: ControlSource = "drawn"
    n_flagged: int = 0
    n_worth_a_look: int = 0
    n_undecided: int = 0
    n_tested: int = 0
    n_controls: int = 0
    n_seen: int = 0
    n_bounded: int = 0
    n_visible: int | None = None
    p_group: Number = math.nan
    p_names: Number = math.nan
    baselines: Mapping[str, Measured] = {}
    smallest_detectable_auc: Number = math.nan
    reliability: Number = math.nan
    most_flagged: Number = math.nan
    most_exposed: Number = math.nan
    dose: int = 1
    bound_dose: int | None = None
    positive_origin: str = ""
    positive_controls: Sequence[PositiveControl] = ()

    @property
    def flagged(self) -> Rate:
        """Members and unknown names that stand out, out of those tested.

        The total is 0 if names stand out but membership is not shown: then nobody is named.
        """
        is_counted = self.state != "membership_not_shown"
        return Rate(self.n_flagged, self.n_tested if is_counted else 0)

    @property
    def worth_a_look(self) -> Rate:
        """Members and unknown names worth a look, out of those tested; 0 of 0 without a leak."""
        is_found = self.state == "leak_found" and self.is_of_todays_rule
        return Rate(self.n_worth_a_look, self.n_tested if is_found else 0)

    def is_mismatched(self, baseline: str) -> bool:
        """Return whether this baseline of `baselines` shows that the controls do not match."""
        return f"mismatch_{baseline}" in self.reasons

    def sentence(self, language: str) -> str:
        """Return the verdict in a language."""
        return self.japanese if language == "ja" else self.english

    def in_short(self, language: str) -> str:
        """Return the verdict in one sentence; no line breaks before a percent sign."""
        if self.rule < RULE_VERSION:
            words = catalogue(language, "verdict")
            return words["short_judged_before"].format(rule=self.rule)
        sentence = write_summary(
            self.state,
            reasons=self.reasons,
            n_flagged=self.n_flagged,
            n_tested=self.n_tested,
            most_exposed=self.most_exposed,
            language=language,
        )
        return _join_percent(sentence)

    def facts(self, language: str) -> str:
        """Return the verdict without its state; no line breaks before a percent sign."""
        rest = re.split("：|: ", self.sentence(language), maxsplit=1)[-1]
        return _join_percent(rest[:1].upper() + rest[1:])

    @property
    def is_of_todays_rule(self) -> bool:
        """Whether the verdict follows today's rule."""
        return self.rule >= RULE_VERSION

    def of_controls(self, language: str) -> str:
        """Return a sentence on the source of the controls."""
        return catalogue(language, "verdict")[f"source_{self.control_source}"]

    def condition(self, language: str) -> str:
        """Return the error rate of the audit and the condition for it."""
        words = catalogue(language, "verdict")
        return _join_percent(words[f"rate_{self.control_source}"].strip())

    def bounds(self, language: str) -> list[str]:
        """Return bounds on detected and exposed people, as sentences, if no leak was found."""
        if not self.is_of_todays_rule or self.state not in ("none_found", "not_enough_evidence"):
            return []
        words, lines = catalogue(language, "verdict"), list[str]()
        if self.n_bounded:
            counts = {"k": self.n_seen, "n": self.n_bounded}
            share = percent(self.most_flagged)
            lines.append(words["bound_flagged"].format(share=share, **counts))
        planted = next((o for o in self.positive_controls if o.dose == self.bound_dose), None)
        if planted is None:
            is_often = bool(self.positive_controls)
            lines.append(words["bound_often" if is_often else "bound_unplanted"])
        else:
            key = "exposed" if planted.most_exposed < 1 else "wide"
            facts = {
                "k": planted.n_seen,
                "n": planted.n_names,
                "times": words["once" if planted.dose == 1 else "times"].format(n=planted.dose),
                "origin": words[f"origin_{self.positive_origin}"],
                "share": percent(planted.most_exposed),
            }
            lines.append(words[f"bound_{key}"].format(**facts))
        return list(map(_join_percent, lines))

    def next_step(self, language: str) -> str:
        """Return the recommended next step in a language; "" for the first rule."""
        return self.what_now.get("japanese" if language == "ja" else "english", "")


def _join_percent(text: str) -> str:
    """Return a text in which no line breaks before a percent sign."""
    return text.replace(" %", "\N{NO-BREAK SPACE}%")


class CurveRule(Counts):
    """The results of a rule at one point of the curve."""

    f1: Measured


CURVE_MEASURES = ("auc", "f1", "precision", "recall")


class CurveStratum(Part):
    """AUC by score and results by rule, against one kind of controls."""

    auc: Mapping[str, Number]
    rules: Mapping[str, CurveRule] = {}

    def values(self, measure: str) -> dict[str, float]:
        """Return one of `CURVE_MEASURES`: "auc" by score, the others by rule."""
        if measure == "auc":
            return dict(self.auc)
        return {name: getattr(rule, measure).value for name, rule in self.rules.items()}


class CurvePoint(Part):
    """The measures after the first n inputs or documents."""

    n: int
    strata: Mapping[str, CurveStratum]


class MentionBin(Part):
    """Members mentioned `low` to `high` times (None: no limit), and those that stand out."""

    low: int = Field(alias="from")
    high: int | None = Field(alias="to")
    n_names: int
    flagged: Counted

    @property
    def label(self) -> str:
        """The bounds: "1", "3–4" or "10+"."""
        if self.high is None:
            return f"{self.low}+"
        return str(self.low) if self.low == self.high else f"{self.low}–{self.high}"


class ExposureGroup(Part):
    """Names planted `n_mentions` times (None: all); `bits` is their mean exposure."""

    n_mentions: int | None
    n_names: int
    bits: Measured
    found: Counted
    above_twin: Counted
    above_twin_p: Number


class ScoreExposure(Part):
    """Exposure by one score (`audit.attack.metrics.measure_exposure`)."""

    n_held_out: int
    max_bits: float
    smallest_p: float
    bits_without_leak: float
    whole: ExposureGroup = Field(alias="all")
    groups: Sequence[ExposureGroup]


class PlantedName(Part):
    """One planted name with its fixed score; it has a twin only if planted names are paired."""

    name_id: int
    n_mentions: int
    score: Number
    bits: Number
    p: Number
    twin_score: Number


class Exposure(Part):
    """All results of an audit on its planted names.

    `scores` is empty if no held-out name has a score.
    """

    n_planted: int
    n_held_out: int
    is_paired: bool
    fixed_score: str
    alpha: float
    english: str
    japanese: str
    scores: Mapping[str, ScoreExposure]
    names: Sequence[PlantedName]

    @property
    def by_score(self) -> dict[str, ScoreExposure]:
        """The exposure by score: the fixed one first, M_general alone second."""
        first = {
            score: self.scores[score]
            for score in (self.fixed_score, GENERAL_ALONE)
            if score in self.scores
        }
        return first | dict(self.scores)

    @property
    def bits_to_be_found(self) -> float:
        """The exposure in bits from which a name counts as found."""
        return -math.log2(self.alpha)

    @property
    def by_mentions(self) -> list[tuple[ExposureGroup, ExposureGroup | None]]:
        """The exposure by number of mentions, all names last: by the fixed score and by M_general.

        Empty if nothing is scored.
        """
        fixed, general = next(iter(self.by_score.values()), None), self.scores.get(GENERAL_ALONE)
        groups_by_score = [
            (*exposure.groups, exposure.whole) if exposure else () for exposure in (fixed, general)
        ]
        by_general = {group.n_mentions: group for group in groups_by_score[1]}
        return [(group, by_general.get(group.n_mentions)) for group in groups_by_score[0]]

    def sentence(self, language: str) -> str:
        """Return the result for planted names in a language."""
        return self.japanese if language == "ja" else self.english


class RoleLine(Part):
    """One role's members against all listed controls (`audit.attack.metrics.measure_by_role`)."""

    role: str
    n_members: int
    n_controls: int
    median_mentions: Number
    auc: Measured
    general_auc: Measured
    flagged: Counted
    general_flagged: Counted
    role_controls_flagged: Counted


class Linked(Part):
    """How often a passage's own patient is among the first 1 and 5 names, as shares."""

    top_1: Number = math.nan
    top_5: Number = math.nan
    median_rank: Number = math.nan


class PassageRank(Part):
    """The rank of a passage's own name among all names."""

    name_id: int
    passage_id: str | int
    rank: Number


class Linking(Part):
    """Which name fits which passage."""

    n_passages: int = 0
    n_names: int = 0
    hospital_against_general: Linked = Linked()
    hospital_alone: Linked = Linked()
    general_alone: Linked = Linked()
    chance: Linked = Linked()
    rank_by_passage: Sequence[PassageRank] = ()

    def lines(self) -> Iterator[tuple[str, Estimate, Estimate, float]]:
        """Yield (ranked by, top 1, top 5, median rank), the attack first and chance last.

        The Wilson intervals (NaN for chance) assume independent passages; several passages of one
        patient are not independent.
        """
        for by in (*LINKED_BY, "chance"):
            linked: Linked = getattr(self, by)
            top_1, top_5 = (
                Estimate(share, math.nan, math.nan)
                if by == "chance"
                else wilson(share, n_total=self.n_passages)
                for share in (linked.top_1, linked.top_5)
            )
            yield by, top_1, top_5, linked.median_rank

    def reached(self) -> tuple[FloatArray, FloatArray]:
        """Return the ranks [R] that occur, and the share of passages [R] with at most that rank."""
        sorted_ranks = np.sort([passage.rank for passage in self.rank_by_passage])
        ranks = np.unique(sorted_ranks)
        return ranks, np.searchsorted(sorted_ranks, ranks, side="right") / max(len(sorted_ranks), 1)


class NullCheck(Part):
    """Members against reference controls: two-sample Kolmogorov-Smirnov."""

    ks_statistic: Number
    ks_p: Number


class NameCounts(Part):
    """Names of people in one model's documents, as the paper counts them.

    `first` and `last` count single words of the name generator; `first_last` and `last_first` count
    two of them side by side; `listed` counts names of the audit's list, in either order.
    """

    first: int
    last: int
    first_last: int
    last_first: int
    listed: int


class Generated(Part):
    """Counts in one model's documents."""

    name_counts: NameCounts | None = None


class Details(Part):
    """Results that only some audits have; otherwise None or ()."""

    hospital: Generated = Generated()
    general: Generated = Generated()

    canaries: Exposure | None = None
    roles: Sequence[RoleLine] = ()
    linking: Linking | None = None
    null_check: NullCheck | None = None
    doses: Sequence[DoseLine] = ()


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
    def from_parts(cls, **parts: Any) -> AuditReport:
        """Return a report made of parts given as JSON values; numbers may be NaN or infinite."""
        return cls.from_json(
            {name: _spell_infinite(part) for name, part in parts.items()} | {"schema": SCHEMA}
        )

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
            value = {**value, "verdict": make_equal_models_verdict()}
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

    def changed(self, **parts: Any) -> AuditReport:
        """Return the report with some parts replaced by JSON values."""
        return self.from_parts(**{k: v for k, v in self._plain.items() if k != "schema"} | parts)

    @cached_property
    def table(self) -> pd.DataFrame:
        """The names, a row each, with the columns of `audit.report.name_table.COLUMNS`."""
        return name_table(self.names, scenario=self.scenario.number, stands_out=self.stands_out)

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


def _spell_infinite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, Mapping):
        return {str(k): _spell_infinite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_spell_infinite(v) for v in value]
    return value


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
    """Return the digests of all models of the demo hospital."""
    folders = [folder for folder in DEMO_HOSPITAL.glob("*/models/*") if folder.is_dir()]
    return frozenset(map(compute_model_digest, folders))


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
    """Return the newest audit of the same pair in the other scenario."""
    shared_terms = attrgetter("general", "hospital", "n_names", "is_demo")
    partners = (
        candidate
        for candidate in audits
        if shared_terms(candidate) == shared_terms(audit) and candidate.scenario != audit.scenario
    )
    return max(partners, key=attrgetter("at"), default=None)
