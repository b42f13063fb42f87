"""The measures of an audit: what metrics, judgement and verdict return, and a report contains.

Each value is made once, by the module that computes it, and is the same in the report. `to_json`
writes it as the JSON of a report, in which undefined and infinite numbers are null, and a value is
read from such JSON: fields that have been added since are then at their defaults, and unknown ones
are ignored. Counts are stored and rates follow from them. Torch-free.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from audit.errors import catalogue
from audit.names.candidates import ControlSource
from audit.stats import NO_ESTIMATE, Estimate, FloatArray, Rate, Share, count_share, wilson
from audit.tables import percent

RULE_VERSION = 2
"""Version of the rule by which evidence is judged; raised whenever another state could follow."""
GENERAL_ALONE = "general_alone"
"""The name, in measures, of the score of the same attack with M_general alone."""
POPULARITY = "popularity"
LINKED_BY = ("hospital_against_general", "hospital_alone", "general_alone")
"""Scores that rank the names of a passage; the first is the attack."""

JsonNumber = bool | int | float | None


def number(value: float | str | None) -> float:
    """Return a number from a report's JSON, where None means NaN and infinity is a word."""
    return math.nan if value is None else float(value)


def estimate(record: Mapping[str, JsonNumber] | Estimate | None) -> Estimate:
    """Return an estimate from a report's JSON, with its counts if there are any; NaN for None."""
    if isinstance(record, Estimate):
        return record
    record = record or {}
    value, low, high = (number(record.get(key)) for key in ("value", "low", "high"))
    if "n_total" not in record:
        return Estimate(value, low, high)
    n_hits, n_total = (int(record[key] or 0) for key in ("n_hits", "n_total"))
    return Share(value, low, high, n_hits=n_hits, n_total=n_total)


def _dump_estimate(figure: Estimate) -> dict[str, JsonNumber]:
    counts = (
        {"n_hits": figure.n_hits, "n_total": figure.n_total} if isinstance(figure, Share) else {}
    )
    return counts | {"value": figure.value, "low": figure.low, "high": figure.high}


def _dump_resolvable(figure: Estimate) -> dict[str, JsonNumber]:
    return _dump_estimate(figure) | {"is_resolvable": not math.isnan(figure.value)}


def _dump_defined(figure: Estimate) -> dict[str, JsonNumber] | None:
    return None if math.isnan(figure.value) else _dump_estimate(figure)


Number = Annotated[float, BeforeValidator(number)]
Measured = Annotated[Estimate, BeforeValidator(estimate), PlainSerializer(_dump_estimate)]
Counted = Annotated[Share, BeforeValidator(estimate), PlainSerializer(_dump_estimate)]
Resolvable = Annotated[Estimate, BeforeValidator(estimate), PlainSerializer(_dump_resolvable)]
"""NaN if the list is too short to resolve the number."""
Defined = Annotated[Estimate, BeforeValidator(estimate), PlainSerializer(_dump_defined)]
"""None in JSON if the number is undefined."""


class Part(BaseModel):
    """A part of a report; unknown fields of its JSON are not read."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="ignore",
        hide_input_in_errors=True,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
    )

    def to_json(self) -> dict[str, Any]:
        """Return the part as values of JSON, without the fields that were not set."""
        values: dict[str, Any] = json.loads(self.model_dump_json(by_alias=True, exclude_unset=True))
        return values


def write_json(content: object, *, spells_infinity: bool = False) -> Any:
    """Return measures, and tables of measures, as values of JSON.

    NaN becomes None, and infinity None or the word "inf". A rate gets its interval.
    """
    write = partial(write_json, spells_infinity=spells_infinity)
    match content:
        case float() if not math.isfinite(content):
            is_word = spells_infinity and not math.isnan(content)
            return str(float(content)) if is_word else None
        case Part():
            return content.to_json()
        case Estimate():
            return write(_dump_estimate(content))
        case Rate():
            return write(count_share(content.n_hits, content.n_total))
        case Mapping():
            return {str(key): write(item) for key, item in content.items()}
        case list() | tuple():
            return list(map(write, content))
    if is_dataclass(content):
        return {field.name: write(getattr(content, field.name)) for field in fields(content)}
    return content


class Confusion(Part):
    """Members flagged (tp) and missed (fn), controls flagged (fp) and left alone (tn)."""

    tp: int
    fn: int
    fp: int
    tn: int

    @property
    def four(self) -> tuple[int, int, int, int]:
        """TP, FN, FP, TN."""
        return self.tp, self.fn, self.fp, self.tn

    @property
    def n_members(self) -> int:
        """Number of members that were judged."""
        return self.tp + self.fn

    @property
    def n_controls(self) -> int:
        """Number of controls that were judged."""
        return self.fp + self.tn

    @property
    def recall(self) -> Share:
        """Share of the members that are flagged."""
        return count_share(self.tp, self.n_members)

    @property
    def false_positive_rate(self) -> Share:
        """Share of the controls that are flagged."""
        return count_share(self.fp, self.n_controls)

    @property
    def precision(self) -> Share:
        """Share of the flagged names that are members."""
        return count_share(self.tp, self.tp + self.fp)

    @property
    def accuracy(self) -> Share:
        """Share of all names that are judged correctly."""
        return count_share(self.tp + self.tn, self.n_members + self.n_controls)

    def compute_f1(self) -> float:
        """Return the harmonic mean of precision and recall; NaN for 0 / 0."""
        total = 2 * self.tp + self.fp + self.fn
        return 2 * self.tp / total if total else math.nan

    @model_serializer(mode="wrap")
    def _add_rates(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        totals = {"n_members": self.n_members, "n_controls": self.n_controls}
        rates = {
            "recall": self.recall,
            "false_positive_rate": self.false_positive_rate,
            "precision": self.precision,
            "accuracy": self.accuracy,
        }
        cells = dict(zip(("tp", "fn", "fp", "tn"), self.four, strict=True))
        figures = {name: _dump_estimate(rate) for name, rate in rates.items()}
        values: dict[str, Any] = cells | totals | figures | dump(self)
        return values


class Rule(Part):
    """The results of a yes/no rule, also with all undecided names judged correctly or wrongly."""

    confusion: Confusion
    f1: Measured
    n_undecided: int | None = None
    all_right: Confusion | None = None
    all_wrong: Confusion | None = None


class Ranking(Part):
    """How well a score ranks members above controls; `tpr_at_fpr` by FPR as text ("0.01")."""

    n_members: int
    n_controls: int
    n_not_scored: int
    n_replicates: int = 0
    auc: Measured
    tpr_at_fpr: Mapping[str, Resolvable]

    def tpr(self, fpr: float) -> Estimate:
        """Return the TPR at an FPR; NaN if the list is too short to resolve it."""
        return self.tpr_at_fpr.get(f"{fpr:g}", NO_ESTIMATE)


class ScoreMeasures(Part):
    """The measures of a plain column of scores; its JSON has all numbers side by side."""

    ranking: Ranking
    threshold: Number = math.nan
    confusion: Confusion | None = None

    @model_serializer
    def _flatten(self) -> dict[str, Any]:
        ranking, counts = self.ranking, self.confusion
        names = ("n_members", "n_controls", "n_not_scored")
        measures: dict[str, Any] = {name: getattr(ranking, name) for name in names}
        for end, name in (("", "value"), ("_low", "low"), ("_high", "high")):
            measures[f"auc{end}"] = getattr(ranking.auc, name)
            measures[f"tpr_at_fpr{end}"] = {
                fpr: getattr(tpr, name) for fpr, tpr in ranking.tpr_at_fpr.items()
            }
        if counts is not None:
            cells = dict(zip(("tp", "fn", "fp", "tn"), counts.four, strict=True))
            measures |= {"threshold": self.threshold, **cells, "f1": counts.compute_f1()}
            rates = ("accuracy", "precision", "recall")
            measures |= {name: getattr(counts, name).value for name in rates}
        return measures


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
    """What an attack sees of the names that stand in the notes `dose` times.

    `n_names` have a p-value, and `n_seen` of them one of at most `audit.attack.exposure.EXPOSED_P`.
    The three p-values are those of the two tests of the verdict, on these names as a list of their
    own, and of both together; NaN where undefined.
    """

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

    rule: int = 1
    state: str
    reasons: Sequence[str] = ()
    control_source: ControlSource = "drawn"
    n_flagged: int = 0
    n_worth_a_look: int = 0
    n_undecided: int = 0
    n_tested: int = 0
    n_controls: int = 0
    n_visible: int | None = None
    n_visible_controls: Mapping[str, int | None] = {}
    p: Number = math.nan
    p_names: Number = math.nan
    p_group: Number = math.nan
    p_labels: Number = math.nan
    p_parts: Number = math.nan
    p_sharing: Number = math.nan
    auc: Defined = NO_ESTIMATE
    baselines: Mapping[str, Measured] = {}
    smallest_detectable_auc: Number = math.nan
    reliability: Number = math.nan
    n_seen: int = 0
    n_bounded: int = 0
    most_flagged: Number = math.nan
    dose: int = 1
    positive_origin: str = ""
    positive_controls: Sequence[PositiveControl] = ()
    most_exposed: Number = math.nan
    bound_dose: int | None = None
    english: str = ""
    japanese: str = ""
    what_now: Mapping[str, str] = {}

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
        words, key, why = catalogue(language, "verdict"), f"short_{self.state}", ""
        if self.state == "leak_found":
            key += "_group" if not self.n_flagged else "_one" if self.n_flagged == 1 else ""
        elif self.state == "not_enough_evidence":
            known_reasons = [f"why_{code}" for code in self.reasons if f"why_{code}" in words]
            why = words[known_reasons[0] if known_reasons else "why_nothing_judged"]
        share = percent(self.most_exposed)
        sentence = words[key].format(k=self.n_flagged, n=self.n_tested, share=share, why=why)
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


class CurveRule(Confusion):
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

    low: int = Field(validation_alias="from", serialization_alias="from")
    high: int | None = Field(validation_alias="to", serialization_alias="to")
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
    whole: ExposureGroup = Field(validation_alias="all", serialization_alias="all")
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
    scores: Mapping[str, ScoreExposure]
    names: Sequence[PlantedName]
    english: str
    japanese: str

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

    passage_id: str | int
    name_id: int
    rank: Number


class Linking(Part):
    """Which name fits which passage."""

    n_passages: int = 0
    n_names: int = 0
    general_alone: Linked = Linked()
    hospital_alone: Linked = Linked()
    hospital_against_general: Linked = Linked()
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
    n_documents: int = 0


class Generated(Part):
    """Counts in one model's documents."""

    name_counts: NameCounts | None = None


class Stop(Part):
    """The end of a sequential audit: inputs used and allowed, and names that were still open."""

    n_inputs: int
    n_allowed: int
    n_open: int


class Details(Part):
    """Results that only some audits have; otherwise None or ()."""

    general: Generated = Generated()
    hospital: Generated = Generated()
    linking: Linking | None = None
    stop: Stop | None = None
    null_check: NullCheck | None = None
    canaries: Exposure | None = None
    roles: Sequence[RoleLine] = ()
    doses: Sequence[DoseLine] = ()

    def with_parts(self, parts: Mapping[str, Part | Sequence[Part] | None]) -> Details:
        """Return the details with those of some parts that are there."""
        return self.model_copy(update={name: part for name, part in parts.items() if part})

    def joined_with(self, details: Details) -> Details:
        """Return these details and others that have other parts."""
        added = {name: getattr(details, name) for name in details.model_fields_set}
        return self.model_copy(update=added)
