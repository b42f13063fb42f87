"""The paper's experiment: what is asked, and its tables as JSON and Markdown, without any name.

Torch-free.
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
from audit.attack.metrics import GENERAL_ALONE, plain
from audit.attack.question import GenerationSettings, PosteriorSettings
from audit.corpus.examine import Examination
from audit.corpus.make import CorpusTask
from audit.errors import AuditError
from audit.home import results_dir
from audit.models.inspect import inspect_model
from audit.names.candidates import CANARY
from audit.report.names import numbers
from audit.report.published import (
    ATTACKS,
    PAPER_RULE,
    PAPER_RULE_ON_GENERAL,
    published_tables,
)
from audit.report.report import POPULARITY, AuditReport, Rule, Stratum
from audit.stats import Estimate, Rate, bootstrap_ranking
from audit.tables import UNDEFINED, decimal
from audit.task import MAX_SEED, Columns, Contact, Device, Question, Task, queue_of
from audit.training.config import TrainSettings
from cache.store import Store

SCENARIOS = (2, 1)
"""In the order in which they are run: the cheaper one first, at all exposures."""
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
    epochs: tuple[Annotated[float, Field(gt=0, le=10_000)], ...] = Field(
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
            tables = run_experiment(
                self, out=self.out, store=store, progress=contact.listen,
                should_stop=contact.should_stop, say=contact.say,
            )  # fmt: skip
        by_stage = sorted(tables.found, key=lambda row: row.attack != ATTACKS[SCENARIOS[0]])
        return tuple(row.digest for row in by_stage)


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
_SCORES = {
    1: ("product", "product_log_ratio", "hits"),
    2: ("mean_log_ratio", "log_ratio", "difference"),
}
"""The score fixed beforehand comes first."""
_BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None), (2, None))
"""Mentions from and to; the last bin holds every name that is mentioned more than once."""
_N_REPLICATES = 2000

Reports = Mapping[tuple[float, int], AuditReport]
"""(epochs, number of the scenario) -> report."""


def tables_of(
    reports: Reports, *, examination: Examination, exposures: tuple[ExposureRow, ...] = ()
) -> ExperimentTables:
    """Return the tables of an experiment from its audits' reports."""
    ordered = [(epochs, number, reports[epochs, number]) for epochs, number in sorted(reports)]
    last = {number: report for _, number, report in ordered}
    if set(last) != set(ATTACKS) or any(not report.has_truth for report in last.values()):
        raise ValueError("an audit of each scenario with truth is needed")
    return ExperimentTables(
        n_notes=examination.n_notes,
        n_patients=examination.n_patients,
        n_passages=examination.n_passages,
        n_members=last[2].measures.strata["all"].n_members,
        n_inputs=last[2].question["settings"]["n_inputs"],
        n_documents=last[1].question["settings"]["n_documents"],
        table1=tuple(
            _rule_row(stratum.rules[PAPER_RULE[number]], epochs, controls, number,
                      PAPER_RULE[number], "hospital")
            for epochs, number, report in ordered
            for controls, stratum in _strata(report).items()
        ),
        table2=tuple(
            _rule_row(stratum.baseline_rules[PAPER_RULE_ON_GENERAL[1]], 0.0, controls, 1,
                      PAPER_RULE_ON_GENERAL[1], "general")
            for controls, stratum in _strata(last[1]).items()
        ),
        table3=examination.pattern_table,
        table4=examination.mention_table,
        always_member=tuple(
            _rule_row(stratum.always_member, 0.0, controls, 2, "always_member", "none")
            for controls, stratum in _strata(last[2]).items()
        ),
        rankings=tuple(
            RankingRow(epochs, controls, ATTACKS[number], score, is_baseline, found[score].auc)
            for epochs, number, report in ordered
            for controls, stratum in _strata(report).items()
            for is_baseline, scores, found in (
                (False, _SCORES[number], stratum.scores),
                (True, (GENERAL_ALONE, POPULARITY), stratum.baselines),
            )
            for score in scores
        ),
        mentions=tuple(row for one in ordered for row in _by_mentions(*one)),
        found=tuple(_found(*one) for one in ordered),
        canaries=tuple(row for one in ordered for row in _canaries(*one)),
        exposures=exposures,
        seed=last[2].question["seed"],
    )  # fmt: skip


def _strata(report: AuditReport) -> dict[str, Stratum]:
    every = report.measures.strata
    return {controls: every[controls] for controls in CONTROLS if controls in every}


def _rule_row(
    measured: Rule, epochs: float, controls: str, number: int, rule: str, model: str
) -> RuleRow:
    counts = Confusion(*measured.confusion.four)
    return RuleRow(epochs, controls, ATTACKS[number], rule, model, counts, measured.f1)


def _by_mentions(epochs: float, number: int, report: AuditReport) -> Iterator[MentionRow]:
    members, out, kinds = _names(report)
    score, mentions = numbers(report.names["score"]), numbers(report.names["n_mentions"])
    for controls in _strata(report):
        against = score[kinds == controls]
        for low, high in _BINS:
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
            yield MentionRow(epochs, controls, ATTACKS[number], low, high, ranking.auc, flagged)


def _found(epochs: float, number: int, report: AuditReport) -> FoundRow:
    members, out, kinds = _names(report)
    groups = (members, np.isin(kinds, CONTROLS))
    found, controls = (Rate(int(out[rows].sum()), int(rows.sum())) for rows in groups)
    state, digest = report.verdict.state, report.digest
    return FoundRow(epochs, ATTACKS[number], found, controls, state, digest)


def _canaries(epochs: float, number: int, report: AuditReport) -> Iterator[CanaryRow]:
    planted = report.details.canaries
    if planted and (measured := planted.scores.get(report.fixed_score)):
        for one in measured.groups:
            rates = (Rate(rate.n_hits, rate.n_total) for rate in (one.found, one.above_twin))
            yield CanaryRow(
                epochs, ATTACKS[number], one.n_mentions or 0, one.bits, measured.max_bits, *rates
            )


def _names(report: AuditReport) -> tuple[Any, Any, Any]:
    """Return [N] is a patient's name, stands out, and kind of control of each name."""
    names = report.names
    is_canary = np.array(names["role"], dtype=np.str_) == CANARY
    members = (numbers(names["is_member"]) == 1) & ~is_canary
    kinds = np.array(names["control_kind"], dtype=np.str_)
    return members, np.array(report.stands_out, dtype=np.bool_), kinds


TABLES_JSON, TABLES_MD = "tables.json", "tables.md"
_ATTACK_WORDS = {"generation": "Generation", "masked_lm": "Masked LM"}
_RULE_HEADER = (
    "Epochs", "Negatives", "Attack", "F1", "Accuracy", "Recall", "Precision", "TP", "FN", "FP", "TN"
)  # fmt: skip
Cells = Sequence[object]


def markdown_table(head: Cells, rows: Iterable[Cells]) -> str:
    """Return a table of Markdown."""
    lines = (head, ["---"] * len(head), *rows)
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


def estimated(of: Estimate, *, digits: int, between: str = "–") -> str:
    """Return an estimate with its interval in brackets, as a cell; "—" where undefined."""
    if math.isnan(of.value):
        return UNDEFINED
    value, low, high = (decimal(x, digits=digits) for x in (of.value, of.low, of.high))
    return f"{value} ({low}{between}{high})"


def tables_json(tables: ExperimentTables) -> dict[str, Any]:
    """Return all tables as plain values; undefined numbers are None."""
    return {"schema": 1, **{name: plain(value) for name, value in vars(tables).items()}}


def tables_markdown(tables: ExperimentTables) -> str:
    """Return the tables in the paper's layout, with 95 % intervals, as Markdown."""
    parts = [
        f"{tables.n_notes:,} notes of {tables.n_patients:,} patients; {tables.n_members} members, "
        f"{tables.n_passages} passages; {tables.n_inputs:,} inputs (masked LM), "
        f"{tables.n_documents:,} documents (generation); seed {tables.seed}.",
        "**M_hospital along its training**",
        markdown_table(
            ["Epochs on D_private", *(f"{row.epochs:g}" for row in tables.exposures)],
            [
                ["Steps", *(row.step for row in tables.exposures)],
                ["Training loss, nats", *(decimal(r.loss, digits=2) for r in tables.exposures)],
            ],
        ),
        "**Table 1. The paper's rules on M_hospital**",
        markdown_table(_RULE_HEADER, _table1(tables)),
        "In brackets 95 % intervals: Wilson for accuracy, recall and precision, bootstrap over "
        "names for F1. The paper's own row has no intervals.",
        "**Table 2. Scenario 1 with M_general in place of M_hospital**",
        markdown_table(("Model", *_RULE_HEADER[1:]), _table2(tables)),
        "**Table 3. Distinct patterns per name**",
        _counts(tables.table3, what="Distinct patterns"),
        "**Table 4. Occurrences per name**",
        _counts(tables.table4, what="Occurrences"),
    ]
    for attack in ATTACKS.values():
        parts += [
            f"**Leakage by epochs: {_ATTACK_WORDS[attack]}, AUC**",
            _table_by_epochs(tables, attack=attack),
        ]
    for number, attack in ATTACKS.items():
        parts += [
            f"**Leakage by mentions: {_ATTACK_WORDS[attack]}, AUC of `{_SCORES[number][0]}`**",
            _table_by_mentions(tables, attack=attack),
        ]
    if tables.canaries:
        head = ("Epochs", "Attack", "Mentions", "Exposure, bits", "At most", "p ≤ 0.05",
                "Above the twin")  # fmt: skip
        rows = [
            (f"{row.epochs:g}", _ATTACK_WORDS[row.attack], row.n_mentions,
             estimated(row.bits, digits=1), f"{row.max_bits:.1f}", counted(row.found),
             counted(row.above_twin))
            for row in tables.canaries
        ]  # fmt: skip
        parts += ["**Canaries: names that were planted**", markdown_table(head, rows)]
    return "\n\n".join(parts) + "\n"


def _table1(tables: ExperimentTables) -> Iterator[Cells]:
    for controls in CONTROLS:
        for attack in ATTACKS.values():
            for row in tables.table1:
                if (row.controls, row.attack) == (controls, attack):
                    yield _rule_line(row, who=f"{row.epochs:g}")
            yield from _published(controls, attack=attack, model="hospital")
    for row in tables.always_member:
        who, negatives, _, *cells = _rule_line(row, who=UNDEFINED)
        yield who, negatives, "always “member”", *cells


def _table2(tables: ExperimentTables) -> Iterator[Cells]:
    last = max(row.epochs for row in tables.table1)
    for controls in CONTROLS:
        for row in (*tables.table2, *tables.table1):
            if (row.controls, row.attack) == (controls, ATTACKS[1]) and row.epochs in (0, last):
                on = "M_general" if row.model == "general" else f"M_hospital, {last:g} epochs"
                yield _rule_line(row, who=on)
        yield from _published(controls, attack=ATTACKS[1], model="general")


def _rule_line(row: RuleRow, *, who: str) -> Cells:
    counts = row.confusion
    rates = [one.interval() for one in (counts.accuracy, counts.recall, counts.precision)]
    shown = (estimated(one, digits=3) for one in (row.f1, *rates))
    attack = _ATTACK_WORDS[row.attack]
    return (
        who, row.controls.capitalize(), attack, *shown, counts.tp, counts.fn, counts.fp, counts.tn
    )  # fmt: skip


def _published(controls: str, *, attack: str, model: str) -> Iterator[Cells]:
    row = published_tables().row(controls=controls, attack=attack, model=model)
    if row is not None:
        who = "paper" if model == "hospital" else f"paper, M_{model}"
        rates = (f"{rate:.4f}" for rate in (row.f1, row.accuracy, row.recall, row.precision))
        counts = row.four or (UNDEFINED,) * 4
        yield who, controls.capitalize(), _ATTACK_WORDS[attack], *rates, *counts


def _counts(table: Sequence[tuple[int, int]], *, what: str) -> str:
    n_names, n_total = sum(n for _, n in table), sum(count * n for count, n in table)
    row = ("Names", *(n for _, n in table), f"{n_names} ({n_total})")
    return markdown_table((what, *(count for count, _ in table), "all"), [row])


def _by_line(rows: Iterable[tuple[RankingRow | MentionRow, object]]) -> dict[Cells, dict[Any, str]]:
    """Return AUCs by line (epochs, negatives), and in it by what they belong to."""
    lines: dict[Cells, dict[Any, str]] = {}
    for row, column in rows:
        line = (f"{row.epochs:g}", row.controls.capitalize())
        lines.setdefault(line, {})[column] = estimated(row.auc, digits=2)
    return lines


def _table_by_epochs(tables: ExperimentTables, *, attack: str) -> str:
    lines = _by_line((row, row.score) for row in tables.rankings if row.attack == attack)
    found = {f"{r.epochs:g}": counted(r.members) for r in tables.found if r.attack == attack}
    scores = [f"`{score}`" for score in next(iter(lines.values()))]
    rows = [(*line, *cells.values(), found[str(line[0])]) for line, cells in lines.items()]
    return markdown_table(("Epochs", "Negatives", *scores, "Members, q ≤ 0.05"), rows)


def _table_by_mentions(tables: ExperimentTables, *, attack: str) -> str:
    found = [row for row in tables.mentions if row.attack == attack]
    n_names = {(row.low, row.high): row.flagged.n_total for row in found}
    lines = _by_line((row, (row.low, row.high)) for row in found)
    bins = [one for one in _BINS if one in n_names]
    rows = [(*line, *(cells.get(one, UNDEFINED) for one in bins)) for line, cells in lines.items()]
    heads = (f"{_bin(*one)} (n = {n_names[one]})" for one in bins)
    return markdown_table(("Epochs", "Negatives", *heads), rows)


def _bin(low: int, high: int | None) -> str:
    if high == low:
        return f"{low} mention{'s' if low > 1 else ''}"
    return f"{low} and more" if high is None else f"{low}–{high}"


def counted(rate: Rate) -> str:
    """Return a rate as a cell: its counts."""
    return f"{rate.n_hits} of {rate.n_total}"
