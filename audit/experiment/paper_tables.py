"""The tables of an experiment as files: JSON, and Markdown in the paper's layout.

Comes in: an experiment's tables. Goes out: plain values and text, without any name. Torch-free.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from audit.attack.decisions import Confusion
from audit.attack.metrics import plain
from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.corpus.examine import Examination
from audit.corpus.make import CorpusTask
from audit.errors import AuditError
from audit.home import results_dir
from audit.models.inspect import inspect_model
from audit.report.published import published_tables
from audit.report.report import AuditReport
from audit.stats import Estimate, FloatArray, Rate, bootstrap_ranking
from audit.tables import decimal
from audit.task import MAX_SEED, Columns, Contact, Device, Question, Task, queue_of
from audit.training.config import TrainSettings
from cache.store import Store

MAX_EPOCHS = 10_000
PAPER_EPOCHS = (1.0, 2.0, 5.0, 10.0, 20.0)

TRAINING = TrainSettings(
    n_epochs=PAPER_EPOCHS[-1],
    schedule="constant",
    warmup_share=0.01,
    held_out_share=0.0,
    evaluate_every=1_000_000,
    checkpoint_every=50,
)
"""Of M_hospital: a constant rate, so that snapshots along one run are models of their own; no
note is held out, since each may hold a member's only mention."""
GENERAL_TRAINING = TrainSettings(
    n_steps=1000,
    schedule="constant",
    warmup_share=0.05,
    held_out_share=0.02,
    evaluate_every=100,
    checkpoint_every=50,
)
"""Of M_general on notes without these names, where there are such."""


class ExperimentTask(Task):
    """What an experiment is to be made of."""

    job = "experiment"
    flags: ClassVar = {
        "columns": "--column", "single_tokens": "--all-names", "canary_counts": "--canaries",
        "n_canaries": "--canary-names",
    }  # fmt: skip

    notes: Path = Field(
        description="notes with placeholders, which become dummy identities (section 3.2)"
    )
    general: Path
    """Directory of M_general, or of what it is trained from."""
    out: Path = Field(description="a new folder, or a stopped experiment's")
    general_notes: Path | None = Field(
        default=None,
        description="notes without these names, on which M_general is trained first",
    )
    columns: Columns = Field(default=(), description="a column of the notes, such as text=body")
    sample: int | None = Field(
        default=None, ge=1, description="notes drawn at random (the paper's 1,000,000)"
    )
    epochs: tuple[Annotated[float, Field(gt=0, le=MAX_EPOCHS)], ...] = Field(
        default=PAPER_EPOCHS,
        min_length=1,
        examples=["1,2,5,10,20"],
        description="audit M_hospital after so many",
    )
    training: TrainSettings = TRAINING
    general_training: TrainSettings = GENERAL_TRAINING
    generation: GenerationSettings = GenerationSettings()
    posterior: PosteriorSettings = PosteriorSettings()
    canary_counts: tuple[int, ...] = Field(
        default=(), examples=["1,2,4,8"], description="plant names so many times"
    )
    n_canaries: int = Field(default=10, description="names for each number")
    single_tokens: bool = Field(
        default=True,
        description="also names of several tokens; else, as in section 3.4, single ones of "
        "M_general alone",
    )
    seed: int = Field(
        default=0, ge=0, le=MAX_SEED, description="of identities, controls, trainings and attacks"
    )
    device: Device = Field(default="auto", description="no part of the question")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if list(self.epochs) != sorted(set(self.epochs)):
            raise AuditError(
                "Epochs are rising numbers above 0.", where="epochs", do="For example 1,2,5,10,20."
            )
        if self.general_training.from_scratch:
            raise AuditError("M_general is never trained from scratch.", where="from scratch")
        hospital = self.training.with_(seed=self.seed, n_epochs=self.epochs[-1])
        object.__setattr__(self, "training", hospital)
        object.__setattr__(self, "general_training", self.general_training.with_(seed=self.seed))
        self.corpus()
        return self

    def corpus(self) -> CorpusTask:
        """Return the task of D_private, D_public and the candidate list."""
        return CorpusTask(
            notes=self.notes,
            columns=self.columns,
            seed=self.seed,
            title="Experiment",
            sample=self.sample,
            canary_counts=self.canary_counts,
            n_canaries=self.n_canaries,
            tokenizer=self.general if self.single_tokens else None,
        )

    def answer_digest(self, *, without: tuple[str, ...] = ()) -> str:
        """Return the digest of all that decides an answer: everything but folder and device."""
        plain = {name: value for name, value in self.plain().items() if name != "out"}
        plain |= dict.fromkeys(("device", *without), "")
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()

    def trained_digest(self) -> str:
        """Return the digest of what decides the corpus and the models; audits have their own."""
        return self.answer_digest(without=("generation", "posterior"))

    def question(self) -> Question:
        """Return the question; its folder is part of it."""
        return self.asked(
            label=inspect_model(self.general).name,
            device=queue_of(self.device),
            about=[self.answer_digest(), str(self.out)],
        )

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Do the experiment, or what is left of it; returns the digests of its audits."""
        from audit.experiment.paper import run_experiment

        with Store(results_dir()) as store:
            result = run_experiment(
                self, out=self.out, store=store, progress=contact.listen,
                should_stop=contact.should_stop, say=contact.say,
            )  # fmt: skip
        return result.digests


@dataclass(frozen=True)
class RuleRow:
    """A yes/no rule against one kind of controls: a line of the paper's table 1 or 2.

    `epochs` is how often M_hospital had read D_private; `model` "hospital" or "general".
    """

    epochs: float
    controls: str
    attack: str
    rule: str
    model: str
    confusion: Confusion
    f1: Estimate


@dataclass(frozen=True)
class RankingRow:
    """How well a score, or a baseline, ranks members above one kind of controls."""

    epochs: float
    controls: str
    attack: str
    score: str
    is_baseline: bool
    auc: Estimate


@dataclass(frozen=True)
class MentionRow:
    """Members mentioned `low` to `high` times (None: and more), by the score fixed beforehand.

    `flagged` counts those with q <= 0.05; it does not depend on the kind of controls.
    """

    epochs: float
    controls: str
    attack: str
    low: int
    high: int | None
    auc: Estimate
    flagged: Rate


@dataclass(frozen=True)
class FoundRow:
    """Members, and listed controls, with q <= 0.05 in one audit, and its verdict."""

    epochs: float
    attack: str
    members: Rate
    controls: Rate
    verdict: str
    digest: str


@dataclass(frozen=True)
class ExposureRow:
    """M_hospital along its training: steps done, and the mean training loss of the last ten, nats.

    The loss is NaN where the training tells none.
    """

    epochs: float
    step: int
    loss: float


@dataclass(frozen=True)
class CanaryRow:
    """Names planted `n_mentions` times: exposure by the score fixed beforehand.

    `bits` is the mean exposure, at most `max_bits`; `found` counts names with p <= 0.05;
    `above_twin` those that score above the twin that was left out.
    """

    epochs: float
    attack: str
    n_mentions: int
    bits: Estimate
    max_bits: float
    found: Rate
    above_twin: Rate


@dataclass(frozen=True)
class ExperimentTables:
    """All tables.

    Attributes
    ----------
    n_notes, n_patients, n_passages
        Of the corpus.
    n_members, n_inputs, n_documents
        Of the list, of scenario 2 and of scenario 1.
    table1
        M_hospital by the paper's rules, for each exposure.
    table2
        Scenario 1 with M_general in place of M_hospital; `epochs` is 0.
    table3, table4
        (distinct patterns, names) and (mentions, names), the highest first.
    always_member
        The trivial guess, by kind of controls; `epochs` is 0.
    canaries
        Empty where none were planted.
    """

    n_notes: int
    n_patients: int
    n_passages: int
    n_members: int
    n_inputs: int
    n_documents: int
    table1: tuple[RuleRow, ...]
    table2: tuple[RuleRow, ...]
    table3: tuple[tuple[int, int], ...]
    table4: tuple[tuple[int, int], ...]
    always_member: tuple[RuleRow, ...]
    rankings: tuple[RankingRow, ...]
    mentions: tuple[MentionRow, ...]
    found: tuple[FoundRow, ...]
    canaries: tuple[CanaryRow, ...]
    exposures: tuple[ExposureRow, ...]
    seed: int


CONTROLS = ("easy", "hard")
ATTACKS = {1: "generation", 2: "masked_lm"}
RULES = {1: "name_occurs", 2: "difference_above_zero"}
"""The paper's rule of each scenario, as reports name it."""
GENERAL_RULE = "name_occurs_general"
SCORES = {
    1: ("product", "product_log_ratio", "hits"),
    2: ("mean_log_ratio", "log_ratio", "difference"),
}
"""The score fixed beforehand comes first."""
BASELINES = ("general_alone", "popularity")
BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None), (2, None))
"""Mentions from and to; the last bin holds every name that is mentioned more than once."""
ALPHA = 0.05
_N_REPLICATES = 2000


Reports = Mapping[tuple[float, int], AuditReport]
"""(epochs, number of the scenario) -> report."""


def tables_of(
    reports: Reports, *, examination: Examination, exposures: tuple[ExposureRow, ...] = ()
) -> ExperimentTables:
    """Return the tables of an experiment from its audits' reports."""
    last = {scenario: report for (_, scenario), report in sorted(reports.items())}
    if set(last) != set(ATTACKS) or any(not r.has_truth for r in last.values()):
        raise ValueError("an audit of each scenario with truth is needed")
    settings = {scenario: report.question["settings"] for scenario, report in last.items()}
    ordered = sorted(reports.items())
    return ExperimentTables(
        n_notes=examination.n_notes,
        n_patients=examination.n_patients,
        n_passages=examination.n_passages,
        n_members=last[2].measures.strata["all"].n_members,
        n_inputs=settings[2]["n_inputs"],
        n_documents=settings[1]["n_documents"],
        table1=tuple(
            _rule_row(report, "rules", RULES[s], who=(epochs, controls, s, "hospital"))
            for (epochs, s), report in ordered
            for controls in _kinds(report)
        ),
        table2=tuple(
            _rule_row(last[1], "baseline_rules", GENERAL_RULE, who=(0.0, controls, 1, "general"))
            for controls in _kinds(last[1])
        ),
        table3=examination.pattern_table,
        table4=examination.mention_table,
        always_member=tuple(
            _rule_row(last[2], "", "always_member", who=(0.0, controls, 2, "none"))
            for controls in _kinds(last[2])
        ),
        rankings=tuple(row for key, report in ordered for row in _rankings(report, key=key)),
        mentions=tuple(
            row for key, report in ordered for row in _results_by_mentions(report, key=key)
        ),
        found=tuple(_found(report, key=key) for key, report in ordered),
        canaries=tuple(
            row for key, report in ordered for row in _results_canaries(report, key=key)
        ),
        exposures=exposures,
        seed=last[2].question["seed"],
    )


def _kinds(report: AuditReport) -> tuple[str, ...]:
    return tuple(kind for kind in CONTROLS if kind in report.measures.strata)


def _rule_row(
    report: AuditReport, column: str, rule: str, *, who: tuple[float, str, int, str]
) -> RuleRow:
    epochs, controls, scenario, model = who
    stratum = report.measures.strata[controls]
    measured = getattr(stratum, column)[rule] if column else stratum.always_member
    return RuleRow(
        epochs, controls, ATTACKS[scenario], rule, model,
        Confusion(*measured.confusion.four), measured.f1,
    )  # fmt: skip


def _rankings(report: AuditReport, *, key: tuple[float, int]) -> Iterator[RankingRow]:
    epochs, scenario = key
    for controls in _kinds(report):
        stratum = report.measures.strata[controls]
        for column, names in (("scores", SCORES[scenario]), ("baselines", BASELINES)):
            for name in names:
                auc = getattr(stratum, column)[name].auc
                is_baseline = column == "baselines"
                yield RankingRow(epochs, controls, ATTACKS[scenario], name, is_baseline, auc)


def _results_by_mentions(report: AuditReport, *, key: tuple[float, int]) -> Iterator[MentionRow]:
    epochs, scenario = key
    members, score, out, mentions, kinds = _columns(report)
    for controls in _kinds(report):
        against = score[kinds == controls]
        for low, high in BINS:
            rows = members & (mentions >= low) & (mentions <= (high or np.inf))
            if not rows.any():
                continue
            ranking = bootstrap_ranking(
                np.concatenate([score[rows], against]),
                np.arange(rows.sum() + len(against)) < rows.sum(),
                seed=report.question["seed"],
                n_replicates=_N_REPLICATES,
            )
            flagged = Rate(int(out[rows].sum()), int(rows.sum()))
            yield MentionRow(epochs, controls, ATTACKS[scenario], low, high, ranking.auc, flagged)


def _found(report: AuditReport, *, key: tuple[float, int]) -> FoundRow:
    members, _, out, _, kinds = _columns(report)
    listed = np.isin(kinds, CONTROLS)
    return FoundRow(
        epochs=key[0],
        attack=ATTACKS[key[1]],
        members=Rate(int(out[members].sum()), int(members.sum())),
        controls=Rate(int(out[listed].sum()), int(listed.sum())),
        verdict=report.verdict.state,
        digest=report.digest,
    )


def _results_canaries(report: AuditReport, *, key: tuple[float, int]) -> Iterator[CanaryRow]:
    planted = report.details.canaries
    measured = planted.scores.get(report.fixed_score) if planted else None
    if measured is None:
        return
    for group in measured.groups:
        found, above = (Rate(one.n_hits, one.n_total) for one in (group.found, group.above_twin))
        who = (key[0], ATTACKS[key[1]], group.n_mentions or 0)
        yield CanaryRow(*who, group.bits, measured.max_bits, found, above)


def _columns(report: AuditReport) -> tuple[Any, FloatArray, FloatArray, FloatArray, Any]:
    """Return [N] is a patient's name, score, q, mentions and kind of control of each name."""
    names = report.names
    roles = np.array(names["role"], dtype=np.str_)
    members = np.array([truth == 1 for truth in names["is_member"]]) & (roles != "canary")
    kinds = np.array(names["control_kind"], dtype=np.str_)
    return (
        members,
        _floats(names["score"]),
        np.array(report.stands_out, dtype=np.bool_),
        _floats(names["n_mentions"]),
        kinds,
    )


def _floats(column: Sequence[Any]) -> FloatArray:
    return np.array([np.nan if cell is None else cell for cell in column], dtype=np.float64)


TABLES_JSON, TABLES_MD = "tables.json", "tables.md"
_ATTACK_WORDS = {"generation": "Generation", "masked_lm": "Masked LM"}
_PAPER = "paper"
_RULE_HEADER = (
    "Epochs", "Negatives", "Attack", "F1", "Accuracy", "Recall", "Precision", "TP", "FN", "FP", "TN"
)  # fmt: skip


def tables_json(tables: ExperimentTables) -> dict[str, Any]:
    """Return all tables as plain values; undefined numbers are None."""
    result = plain(tables)
    if not isinstance(result, dict):
        raise TypeError("no tables")
    return {"schema": 1, **result}


def tables_markdown(tables: ExperimentTables) -> str:
    """Return the tables in the paper's layout, with 95 % intervals, as Markdown."""
    parts = [
        _sizes(tables),
        *_titled("M_hospital along its training", _exposures(tables)),
        *_titled("Table 1. The paper's rules on M_hospital", _table1(tables)),
        "In brackets 95 % intervals: Wilson for accuracy, recall and precision, bootstrap over "
        "names for F1. The paper's own row has no intervals.",
        *_titled("Table 2. Scenario 1 with M_general in place of M_hospital", _table2(tables)),
        *_titled(
            "Table 3. Distinct patterns per name", _counts(tables.table3, what="Distinct patterns")
        ),
        *_titled("Table 4. Occurrences per name", _counts(tables.table4, what="Occurrences")),
    ]
    for attack in ATTACKS.values():
        title = f"Leakage by epochs: {_ATTACK_WORDS[attack]}, AUC"
        parts += _titled(title, _by_epochs(tables, attack=attack))
    for attack in ATTACKS.values():
        title = f"Leakage by mentions: {_ATTACK_WORDS[attack]}, AUC of `{_fixed(attack)}`"
        parts += _titled(title, _tables_by_mentions(tables, attack=attack))
    if tables.canaries:
        parts += _titled("Canaries: names that were planted", _tables_canaries(tables))
    return "\n\n".join(parts) + "\n"


def _sizes(tables: ExperimentTables) -> str:
    return (
        f"{tables.n_notes:,} notes of {tables.n_patients:,} patients; {tables.n_members} members, "
        f"{tables.n_passages} passages; {tables.n_inputs:,} inputs (masked LM), "
        f"{tables.n_documents:,} documents (generation); seed {tables.seed}."
    )


def _exposures(tables: ExperimentTables) -> Iterator[str]:
    yield from _head(("Epochs on D_private", *(_number(row.epochs) for row in tables.exposures)))
    yield _line(["Steps", *(str(row.step) for row in tables.exposures)])
    yield _line(["Training loss, nats", *(decimal(r.loss, digits=2) for r in tables.exposures)])


def _titled(title: str, lines: Iterable[str]) -> tuple[str, str]:
    return f"**{title}**", "\n".join(lines)


def _table1(tables: ExperimentTables) -> Iterator[str]:
    yield from _head(_RULE_HEADER)
    for controls in CONTROLS:
        for attack in ATTACKS.values():
            rows = [r for r in tables.table1 if (r.controls, r.attack) == (controls, attack)]
            yield from (_rule_line(row, epochs=_number(row.epochs)) for row in rows)
            yield from _published(controls, attack=attack, model="hospital")
    for row in tables.always_member:
        yield _rule_line(row, epochs="—", attack="always “member”")


def _table2(tables: ExperimentTables) -> Iterator[str]:
    last = max(row.epochs for row in tables.table1)
    yield from _head(("Model", *_RULE_HEADER[1:]))
    for controls in CONTROLS:
        for row in tables.table2:
            if row.controls == controls:
                yield _rule_line(row, epochs="M_general")
        for row in tables.table1:
            if (row.epochs, row.controls, row.attack) == (last, controls, "generation"):
                yield _rule_line(row, epochs=f"M_hospital, {_number(last)} epochs")
        yield from _published(controls, attack="generation", model="general")


def _rule_line(row: RuleRow, *, epochs: str, attack: str = "") -> str:
    counts = row.confusion
    rates = (counts.accuracy, counts.recall, counts.precision)
    return _line(
        [
            epochs, row.controls.capitalize(), attack or _ATTACK_WORDS[row.attack],
            _tables_estimate(row.f1, digits=3), *(_rate(rate) for rate in rates),
            *map(str, (counts.tp, counts.fn, counts.fp, counts.tn)),
        ]
    )  # fmt: skip


def _published(controls: str, *, attack: str, model: str) -> Iterator[str]:
    row = published_tables().row(controls=controls, attack=attack, model=model)
    if row is not None:
        rates = (row.f1, row.accuracy, row.recall, row.precision)
        counts = [str(n) for n in row.four] if row.four else ["—"] * 4
        who = _PAPER if model == "hospital" else f"{_PAPER}, M_{model}"
        cells = [who, controls.capitalize(), _ATTACK_WORDS[attack]]
        yield _line([*cells, *(f"{rate:.4f}" for rate in rates), *counts])


def _counts(table: Sequence[tuple[int, int]], *, what: str) -> Iterator[str]:
    yield from _head((what, *(str(count) for count, _ in table), "all"))
    n_names, n_total = sum(n for _, n in table), sum(count * n for count, n in table)
    yield _line(["Names", *(str(n) for _, n in table), f"{n_names} ({n_total})"])


def _by_epochs(tables: ExperimentTables, *, attack: str) -> Iterator[str]:
    rows = {
        (row.epochs, row.controls, row.score): row.auc
        for row in tables.rankings
        if row.attack == attack
    }
    scores = list(dict.fromkeys(score for _, _, score in rows))
    yield from _head(("Epochs", "Negatives", *(f"`{s}`" for s in scores), "Members, q ≤ 0.05"))
    for found in (each for each in tables.found if each.attack == attack):
        for controls in CONTROLS:
            if (found.epochs, controls, scores[0]) in rows:
                aucs = (_tables_estimate(rows[found.epochs, controls, s], digits=2) for s in scores)
                flagged = f"{found.members.n_hits} of {found.members.n_total}"
                yield _line([_number(found.epochs), controls.capitalize(), *aucs, flagged])


def _tables_by_mentions(tables: ExperimentTables, *, attack: str) -> Iterator[str]:
    rows = [row for row in tables.mentions if row.attack == attack]
    bins = [each for each in BINS if any((r.low, r.high) == each for r in rows)]
    n_names = {(r.low, r.high): r.flagged.n_total for r in rows}
    heads = (f"{_bin(low, high)} (n = {n_names[low, high]})" for low, high in bins)
    yield from _head(("Epochs", "Negatives", *heads))
    for epochs, controls in dict.fromkeys((r.epochs, r.controls) for r in rows):
        found = {(r.low, r.high): r for r in rows if (r.epochs, r.controls) == (epochs, controls)}
        yield _line(
            [_number(epochs), controls.capitalize(), *(_mention(found.get(b)) for b in bins)]
        )


def _tables_canaries(tables: ExperimentTables) -> Iterator[str]:
    yield from _head(
        ("Epochs", "Attack", "Mentions", "Exposure, bits", "At most", "p ≤ 0.05", "Above the twin")
    )
    for row in tables.canaries:
        counts = (f"{rate.n_hits} of {rate.n_total}" for rate in (row.found, row.above_twin))
        bits = (_tables_estimate(row.bits, digits=1), f"{row.max_bits:.1f}")
        where = (_number(row.epochs), _ATTACK_WORDS[row.attack], str(row.n_mentions))
        yield _line([*where, *bits, *counts])


def _mention(row: MentionRow | None) -> str:
    return "—" if row is None else _tables_estimate(row.auc, digits=2)


def _fixed(attack: str) -> str:
    return next(SCORES[scenario][0] for scenario, name in ATTACKS.items() if name == attack)


def _bin(low: int, high: int | None) -> str:
    if high == low:
        return f"{low} mention{'s' if low > 1 else ''}"
    return f"{low} and more" if high is None else f"{low}–{high}"


def _head(cells: Sequence[str]) -> tuple[str, str]:
    return _line(cells), "|" + "---|" * len(cells)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _rate(rate: Rate) -> str:
    interval = rate.interval()
    return _tables_estimate(Estimate(rate.value, interval.low, interval.high), digits=3)


def _tables_estimate(estimate: Estimate, *, digits: int) -> str:
    if math.isnan(estimate.value):
        return "—"
    value, low, high = (f"{x:.{digits}f}" for x in (estimate.value, estimate.low, estimate.high))
    return f"{value} ({low}–{high})"


def _number(epochs: float) -> str:
    return f"{epochs:g}"
