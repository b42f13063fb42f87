"""The paper's experiment, sections 3 and 4: what is asked, the run from notes to tables, tables.

Comes in: an order and a folder. Goes out: the tables, as a value and as files in the folder:
`corpus/`, `general/` and `hospital/` (trainings with their snapshots), `tables.json`, `tables.md`.
Every stage is kept, audits in the store: what was stopped goes on where it was. No table has a
name. Torch is imported where models run only.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from audit.attack.decisions import Confusion
from audit.attack.metrics import plain
from audit.attack.question import AuditRequest, GenerationSettings, PosteriorSettings
from audit.attack.scores import GENERAL_ALONE, POPULARITY
from audit.corpus.examine import Examination, read_examination
from audit.corpus.kept import CORPORA, list_of, passages_for
from audit.corpus.make import CorpusTask, make_corpus
from audit.corpus.truth import PASSAGES, PRIVATE
from audit.errors import AuditError
from audit.home import results_dir
from audit.models.inspect import inspect_model
from audit.names.candidates import CANARY
from audit.notes.passages import read_passages
from audit.progress import Pace, Progress, ProgressListener, StopQuestion
from audit.report.names import numbers
from audit.report.published import ATTACKS, PAPER_RULE, PAPER_RULE_ON_GENERAL, published_tables
from audit.report.report import AuditReport, Rule, Stratum
from audit.run import run_audit
from audit.shelf import private_folder, write_private, write_whole
from audit.stats import BoolArray, Estimate, Rate, bootstrap_ranking
from audit.tables import UNDEFINED, decimal
from audit.task import MAX_SEED, Columns, Contact, Device, Question, Task, queue_of
from audit.training.config import TrainSettings, read_losses
from audit.training.kept import MODEL, MODELS, PretrainTask, snapshot_name
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
        same = ("notes", "columns", "seed", "sample", "canary_counts", "n_canaries")
        return CorpusTask(
            title="Experiment",
            tokenizer=self.general if self.single_tokens else None,
            **{name: getattr(self, name) for name in same},
        )

    def answer_digest(self, *, without: tuple[str, ...] = ()) -> str:
        """Return the digest of all that decides an answer: everything but folder and device."""
        asked = self.plain() | dict.fromkeys(("device", *without), "")
        del asked["out"]
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

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
        with Store(results_dir()) as store:
            tables = run_experiment(
                self, store=store, progress=contact.listen, should_stop=contact.should_stop,
                say=contact.say,
            )  # fmt: skip
        by_stage = sorted(tables["found"], key=lambda row: row["attack"] != ATTACKS[SCENARIOS[0]])
        return tuple(row["digest"] for row in by_stage)


CORPUS, GENERAL, HOSPITAL = "corpus", "general model", "hospital model"
BACKWARD = 3.0
"""What a training step costs, in forward passes over its tokens."""
TOKENS_PER_INPUT = 130.0
"""Of scenario 2."""
_CORPUS_COST = 1e-4  # of a corpus's byte, in tokens of a forward pass
_CHARS_PER_TOKEN = 4.3
_CHAIN_PASSES = 400.0


def audit_stage(epochs: float, *, scenario: int) -> str:
    """Return the name of the stage that audits one exposure in one scenario."""
    return f"audit after {epochs:g} epochs, scenario {scenario}"


def stage_costs(order: ExperimentTask) -> dict[str, float]:
    """Return the stages in their order with what each will cost, in tokens of forward passes.

    An estimate from the size of the notes: it only weighs the stages against each other.
    """
    notes, training = order.notes, order.general_training
    try:
        files = notes.rglob("*.txt") if notes.is_dir() else [notes]
        n_bytes = sum(file.stat().st_size for file in files)
    except OSError as error:
        raise _unreadable(error) from None
    costs = {CORPUS: 1.0 + _CORPUS_COST * n_bytes}
    if order.general_notes is not None:
        costs[GENERAL] = BACKWARD * training.n_steps * training.batch * training.n_tokens
    costs[HOSPITAL] = BACKWARD * order.epochs[-1] * n_bytes / _CHARS_PER_TOKEN
    generation, posterior = order.generation, order.posterior
    of_scenario = {
        2: TOKENS_PER_INPUT * (posterior.n_inputs + _CHAIN_PASSES * posterior.n_chain_inputs),
        1: float(generation.n_documents * generation.n_steps * generation.n_tokens),
    }
    for scenario in SCENARIOS:
        for epochs in order.epochs:
            # The first audit runs M_general too; the others take its evidence from the store.
            n_models = 2 if epochs == order.epochs[0] else 1
            costs[audit_stage(epochs, scenario=scenario)] = n_models * of_scenario[scenario]
    return costs


def _unreadable(error: OSError) -> AuditError:
    return AuditError("Cannot be read ({strerror}).", where="notes", strerror=error.strerror)


class StageProgress:
    """Tells the progress of stages, one after the other, as that of the whole.

    `costs` are by stage, in their order; `listener` gets phases such as "hospital model: training".
    """

    def __init__(self, costs: Mapping[str, float], *, listener: ProgressListener) -> None:
        self._costs, self._listener = dict(costs), listener
        self._pace, self._skipped = Pace(), 0.0

    def of(self, stage: str) -> ProgressListener:
        """Return the listener of one stage."""
        return lambda progress: self._tell(f"{stage}: {progress.phase}", stage, progress.share)

    def finish(self, stage: str, *, was_kept: bool = False) -> None:
        """Count a stage as done; one that was there already says nothing about the pace."""
        if was_kept:
            self._skipped += self._costs[stage]
        self._tell(stage, stage, 1.0)

    def _tell(self, phase: str, stage: str, share: float) -> None:
        stages, total = list(self._costs), sum(self._costs.values())
        before = sum(self._costs[one] for one in stages[: stages.index(stage)])
        done = before + share * self._costs[stage]
        left = self._pace.seconds_left(
            done - self._skipped, total=total - self._skipped, now=time.monotonic()
        )
        self._listener(Progress(phase, done, total, left))


ORDER_FILE = "experiment.json"
TABLES_JSON, TABLES_MD = "tables.json", "tables.md"
Row = dict[str, Any]
Tables = dict[str, Any]
"""All tables, each a list of rows or (count, number of names); see `tables_of`."""


def run_experiment(
    order: ExperimentTask,
    *,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> Tables:
    """Do the whole experiment in the order's folder, or what is left of it.

    `progress`, `should_stop` and `say` are those of `run_audit`; `say` takes a sentence after each
    stage.
    """
    out, corpus = order.out, order.out / "corpus"
    _take_folder(order)
    stages = StageProgress(stage_costs(order), listener=progress)
    # D_private, D_public and the candidate list, once (sections 3.2 and 3.4).
    is_kept = corpus.is_dir()
    if not is_kept:
        listener = stages.of(CORPUS)
        make_corpus(order.corpus(), out=corpus, progress=listener, should_stop=should_stop)
    stages.finish(CORPUS, was_kept=is_kept)
    found = read_examination(corpus)
    say(f"Corpus: {found.n_notes} notes, {found.n_positives} members, {found.n_passages} passages.")
    copies: dict[int, Path] = {}
    for stage, training in _trainings(order):
        copies = _train(training, stage, stages=stages, should_stop=should_stop, say=say)
    exposures, reports = _exposures(order), {}
    for question in _questions(order, general=training.general):
        for row in exposures:
            stage = audit_stage(row["epochs"], scenario=question.scenario_number)
            report = run_audit(
                question.with_(hospital=copies[row["step"]]), store=store,
                progress=stages.of(stage), should_stop=should_stop,
            )  # fmt: skip
            stages.finish(stage)
            say(f"{stage.capitalize()}: {report.verdict.english}")
            reports[row["epochs"], question.scenario_number] = report
    tables = tables_of(reports, examination=found, exposures=exposures)
    text = json.dumps(tables_json(tables), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    markdown = tables_markdown(tables)
    write_private({TABLES_JSON: text.encode(), TABLES_MD: markdown.encode()}, out)
    return tables


def _trainings(order: ExperimentTask) -> Iterator[tuple[str, PretrainTask]]:
    """Yield what is to be trained: M_general where it is to be, then M_hospital."""
    general = order.general
    if order.general_notes is not None:
        yield GENERAL, PretrainTask(
            general=general, notes=order.general_notes, out=order.out / "general",
            settings=order.general_training, title="General", device=order.device,
        )  # fmt: skip
        general = order.out / "general" / MODEL
    yield HOSPITAL, PretrainTask(
        general=general, notes=order.out / "corpus" / PRIVATE, out=order.out / "hospital",
        settings=order.training, title="Hospital", device=order.device,
        snapshot_epochs=order.epochs,
    )  # fmt: skip


def _train(
    training: PretrainTask,
    stage: str,
    *,
    stages: StageProgress,
    should_stop: StopQuestion,
    say: Callable[[str], None],
) -> dict[int, Path]:
    """Train, or go on; returns the copies by step."""
    from audit.training.masked_lm import train

    was_whole = (training.folder / MODEL).is_dir()
    done = train(training, progress=stages.of(stage), should_stop=should_stop)
    stages.finish(stage, was_kept=was_whole)
    if done.loss is not None:
        held = "" if done.held_out is None else f", held-out loss {done.held_out:.2f}"
        loss = f"training loss {done.loss:.2f}{held}"
        say(f"{stage.capitalize()}: {done.n_steps_done} steps, {loss}.")
    return {step: done.folder / snapshot_name(step) for step in done.snapshots}


def _questions(order: ExperimentTask, *, general: Path) -> Iterator[AuditRequest]:
    """Yield each scenario's question of M_general beside itself."""
    corpus = CORPORA.at(order.out / "corpus")
    candidates = list_of(corpus, controls=CONTROLS)
    data = passages_for(corpus, candidates, seed=order.seed)
    passages = read_passages(data, what="passages", file_name=PASSAGES)
    for scenario in SCENARIOS:
        yield AuditRequest(
            scenario_number=scenario, general=general, hospital=general,
            candidates=candidates, passages=passages if scenario == 2 else None,
            generation=order.generation, posterior=order.posterior, seed=order.seed,
            device=order.device,
        )  # fmt: skip


def _take_folder(order: ExperimentTask) -> None:
    """Note whose folder this is; refuse one with other things, or of another order."""
    try:
        states = [path.stat() for path in (order.notes, order.general_notes) if path]
    except OSError as error:
        raise _unreadable(error) from None
    content = {
        "digest": order.trained_digest(),
        "notes": [[state.st_size, state.st_mtime_ns] for state in states],
        "order": order.plain(),
    }
    path = private_folder(order.out) / ORDER_FILE
    try:
        if not path.exists():
            if any(order.out.iterdir()):
                raise AuditError(
                    "There is something already.", where="out",
                    do="Choose a new or an empty folder.",
                )  # fmt: skip
            write_whole(path, (json.dumps(content, indent=1) + "\n").encode())
        known = json.loads(path.read_bytes())
        is_same = all(known[name] == content[name] for name in ("digest", "notes"))
    except (OSError, ValueError, KeyError, TypeError):
        is_same = False
    if not is_same:
        raise AuditError(
            "The folder belongs to an experiment with other notes or settings.", where="out",
            do="Choose another folder, or the same notes and settings.",
        )  # fmt: skip


def _exposures(order: ExperimentTask) -> list[Row]:
    """Return how far M_hospital was each time it was copied; the loss of its last ten steps."""
    folder = order.out / "hospital"
    facts, points = MODELS.at(folder).facts, read_losses(folder)
    rows = []
    for epochs in order.epochs:
        step = facts.settings.steps_of_epochs(epochs, n_train_tokens=facts.n_train_tokens)
        last = [p.loss for p in points if step - 10 < p.step <= step and p.loss is not None]
        rows.append({"epochs": epochs, "step": step, "loss": fmean(last) if last else math.nan})
    return rows


CONTROLS = ("easy", "hard")
_SCORES = {
    1: ("product", "product_log_ratio", "hits"),
    2: ("mean_log_ratio", "log_ratio", "difference"),
}
"""The score fixed beforehand comes first."""
_BINS = ((1, 1), (2, 2), (3, 4), (5, 9), (10, None), (2, None))
"""Mentions from and to; the last bin holds every name that is mentioned more than once."""
_N_REPLICATES = 2000
ALWAYS = "always_member"


def tables_of(
    reports: Mapping[tuple[float, int], AuditReport],
    *,
    examination: Examination,
    exposures: Sequence[Mapping[str, Any]] = (),
) -> Tables:
    """Return the tables of an experiment from its reports by (epochs, number of the scenario).

    `exposures` have epochs, steps done, and the mean loss of the last ten in nats or NaN.

    Returns
    -------
    tables
        Numbers of the corpus and of the attacks; `table1`: M_hospital by the paper's rules;
        `table2`: scenario 1 with M_general in its place (0 epochs); `table3` and `table4`:
        (patterns or mentions, names), the highest first; `always_member`: the trivial guess;
        `rankings`: how scores and baselines rank members above each kind of controls; `mentions`:
        members mentioned `low` to `high` times (None: and more) by the score fixed beforehand;
        `found`: members and controls with q <= 0.05; `canaries`: exposure in bits by that score.
    """
    last = {number: reports[epochs, number] for epochs, number in sorted(reports)}
    if set(last) != set(ATTACKS) or any(not report.has_truth for report in last.values()):
        raise ValueError("an audit of each scenario with truth is needed")
    audits = [({"epochs": e, "attack": ATTACKS[n]}, reports[e, n]) for e, n in sorted(reports)]
    strata = [
        (key | {"controls": controls}, report, report.measures.strata[controls])
        for key, report in audits
        for controls in CONTROLS
        if controls in report.measures.strata
    ]
    return {
        "n_notes": examination.n_notes,
        "n_patients": examination.n_patients,
        "n_passages": examination.n_passages,
        "n_members": last[2].measures.strata["all"].n_members,
        "n_inputs": last[2].question["settings"]["n_inputs"],
        "n_documents": last[1].question["settings"]["n_documents"],
        **_rules(strata, last),
        "table3": examination.pattern_table,
        "table4": examination.mention_table,
        "rankings": [
            {**key, "score": score, "is_baseline": found is one.baselines, "auc": found[score].auc}
            for key, report, one in strata
            for scores, found in (
                (_SCORES[report.scenario.number], one.scores),
                ((GENERAL_ALONE, POPULARITY), one.baselines),
            )
            for score in scores
        ],
        "mentions": [row for key, report, _ in strata for row in _by_mentions(key, report)],
        "found": [key | _found(report) for key, report in audits],
        "canaries": [key | row for key, report in audits for row in _canaries(report)],
        "exposures": list(exposures),
        "seed": last[2].question["seed"],
    }


def _rules(
    strata: Sequence[tuple[Row, AuditReport, Stratum]], last: Mapping[int, AuditReport]
) -> Tables:
    """Return the tables of yes/no rules; `last` is the longest exposure's report by scenario."""
    return {
        "table1": [
            _rule(key, one.rules, PAPER_RULE[report.scenario.number], "hospital")
            for key, report, one in strata
        ],
        "table2": [
            _rule(key | {"epochs": 0.0}, one.baseline_rules, PAPER_RULE_ON_GENERAL[1], "general")
            for key, report, one in strata
            if report is last[1]
        ],
        "always_member": [
            _rule(key | {"epochs": 0.0}, {ALWAYS: one.always_member}, ALWAYS, "none")
            for key, report, one in strata
            if report is last[2]
        ],
    }


def _rule(key: Row, rules: Mapping[str, Rule], rule: str, model: str) -> Row:
    one = rules[rule]
    counts = Confusion(*one.confusion.four)
    return {**key, "rule": rule, "model": model, "confusion": counts, "f1": one.f1}


def _by_mentions(key: Row, report: AuditReport) -> Iterator[Row]:
    members, out, kinds = _names(report)
    score, mentions = numbers(report.names["score"]), numbers(report.names["n_mentions"])
    for low, high in _BINS:
        rows = members & (mentions >= low) & (mentions <= (high or np.inf))
        if rows.any():
            both = np.concatenate([score[rows], score[kinds == key["controls"]]])
            ranking = bootstrap_ranking(
                both, np.arange(len(both)) < rows.sum(), seed=report.question["seed"],
                n_replicates=_N_REPLICATES,
            )  # fmt: skip
            flagged = _share(out, rows)
            yield {**key, "low": low, "high": high, "auc": ranking.auc, "flagged": flagged}


def _found(report: AuditReport) -> Row:
    members, out, kinds = _names(report)
    return {
        "members": _share(out, members),
        "controls": _share(out, np.isin(kinds, CONTROLS)),
        "verdict": report.verdict.state,
        "digest": report.digest,
    }


def _share(out: BoolArray, rows: BoolArray) -> Rate:
    return Rate(int(out[rows].sum()), int(rows.sum()))


def _names(report: AuditReport) -> tuple[BoolArray, BoolArray, Any]:
    """Return [N] is a patient's name, stands out, and kind of control of each name."""
    names = report.names
    is_canary = np.array(names["role"], dtype=np.str_) == CANARY
    members = (numbers(names["is_member"]) == 1) & ~is_canary
    kinds = np.array(names["control_kind"], dtype=np.str_)
    return members, np.array(report.stands_out, dtype=np.bool_), kinds


def _canaries(report: AuditReport) -> Iterator[Row]:
    planted = report.details.canaries
    if planted and (measured := planted.scores.get(report.fixed_score)):
        for one in measured.groups:
            yield {
                "n_mentions": one.n_mentions or 0, "bits": one.bits, "max_bits": measured.max_bits,
                "found": Rate(one.found.n_hits, one.found.n_total),
                "above_twin": Rate(one.above_twin.n_hits, one.above_twin.n_total),
            }  # fmt: skip


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


def counted(rate: Rate) -> str:
    """Return a rate as a cell: its counts."""
    return f"{rate.n_hits} of {rate.n_total}"


def tables_json(tables: Tables) -> Tables:
    """Return all tables as plain values; undefined numbers are None."""
    return {"schema": 1, **plain(tables)}


def tables_markdown(tables: Tables) -> str:
    """Return the tables in the paper's layout, with 95 % intervals, as Markdown."""
    exposures = tables["exposures"]
    parts = [
        "{n_notes:,} notes of {n_patients:,} patients; {n_members} members, {n_passages} passages; "
        "{n_inputs:,} inputs (masked LM), {n_documents:,} documents (generation); seed {seed}."
        .format_map(tables),
        "**M_hospital along its training**",
        markdown_table(
            ["Epochs on D_private", *(f"{row['epochs']:g}" for row in exposures)],
            [
                ["Steps", *(row["step"] for row in exposures)],
                ["Training loss, nats", *(decimal(row["loss"], digits=2) for row in exposures)],
            ],
        ),
        "**Table 1. The paper's rules on M_hospital**",
        markdown_table(_RULE_HEADER, _table1(tables)),
        "In brackets 95 % intervals: Wilson for accuracy, recall and precision, bootstrap over "
        "names for F1. The paper's own row has no intervals.",
        "**Table 2. Scenario 1 with M_general in place of M_hospital**",
        markdown_table(("Model", *_RULE_HEADER[1:]), _table2(tables)),
        "**Table 3. Distinct patterns per name**",
        _counts(tables["table3"], what="Distinct patterns"),
        "**Table 4. Occurrences per name**",
        _counts(tables["table4"], what="Occurrences"),
    ]  # fmt: skip
    for attack in ATTACKS.values():
        title = f"**Leakage by epochs: {_ATTACK_WORDS[attack]}, AUC**"
        parts += [title, _table_by_epochs(tables, attack=attack)]
    for number, attack in ATTACKS.items():
        score = _SCORES[number][0]
        title = f"**Leakage by mentions: {_ATTACK_WORDS[attack]}, AUC of `{score}`**"
        parts += [title, _table_by_mentions(tables, attack=attack)]
    if tables["canaries"]:
        head = ("Epochs", "Attack", "Mentions", "Exposure, bits", "At most", "p ≤ 0.05",
                "Above the twin")  # fmt: skip
        rows = [
            (f"{row['epochs']:g}", _ATTACK_WORDS[row["attack"]], row["n_mentions"],
             estimated(row["bits"], digits=1), f"{row['max_bits']:.1f}", counted(row["found"]),
             counted(row["above_twin"]))
            for row in tables["canaries"]
        ]  # fmt: skip
        parts += ["**Canaries: names that were planted**", markdown_table(head, rows)]
    return "\n\n".join(parts) + "\n"


def _table1(tables: Tables) -> Iterator[Cells]:
    for controls in CONTROLS:
        for attack in ATTACKS.values():
            for row in tables["table1"]:
                if (row["controls"], row["attack"]) == (controls, attack):
                    yield _rule_line(row, who=f"{row['epochs']:g}")
            yield from _published(controls, attack=attack, model="hospital")
    for row in tables["always_member"]:
        who, negatives, _, *cells = _rule_line(row, who=UNDEFINED)
        yield who, negatives, "always “member”", *cells


def _table2(tables: Tables) -> Iterator[Cells]:
    last = max(row["epochs"] for row in tables["table1"])
    for controls in CONTROLS:
        for row in (*tables["table2"], *tables["table1"]):
            is_here = (row["controls"], row["attack"]) == (controls, ATTACKS[1])
            if is_here and row["epochs"] in (0, last):
                is_general = row["model"] == "general"
                who = "M_general" if is_general else f"M_hospital, {last:g} epochs"
                yield _rule_line(row, who=who)
        yield from _published(controls, attack=ATTACKS[1], model="general")


def _rule_line(row: Mapping[str, Any], *, who: str) -> Cells:
    counts = row["confusion"]
    rates = [one.interval() for one in (counts.accuracy, counts.recall, counts.precision)]
    shown = (estimated(one, digits=3) for one in (row["f1"], *rates))
    attack = _ATTACK_WORDS[row["attack"]]
    return (who, row["controls"].capitalize(), attack, *shown, *vars(counts).values())


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


def _by_line(rows: Iterable[tuple[Mapping[str, Any], Any]]) -> dict[Cells, dict[Any, str]]:
    """Return AUCs by line (epochs, negatives), and in it by what they belong to."""
    lines: dict[Cells, dict[Any, str]] = {}
    for row, column in rows:
        line = (f"{row['epochs']:g}", row["controls"].capitalize())
        lines.setdefault(line, {})[column] = estimated(row["auc"], digits=2)
    return lines


def _table_by_epochs(tables: Tables, *, attack: str) -> str:
    lines = _by_line((row, row["score"]) for row in tables["rankings"] if row["attack"] == attack)
    found = {
        f"{row['epochs']:g}": counted(row["members"])
        for row in tables["found"]
        if row["attack"] == attack
    }
    scores = [f"`{score}`" for score in next(iter(lines.values()))]
    rows = [(*line, *cells.values(), found[str(line[0])]) for line, cells in lines.items()]
    return markdown_table(("Epochs", "Negatives", *scores, "Members, q ≤ 0.05"), rows)


def _table_by_mentions(tables: Tables, *, attack: str) -> str:
    found = [row for row in tables["mentions"] if row["attack"] == attack]
    n_names = {(row["low"], row["high"]): row["flagged"].n_total for row in found}
    lines = _by_line((row, (row["low"], row["high"])) for row in found)
    bins = [one for one in _BINS if one in n_names]
    rows = [(*line, *(cells.get(one, UNDEFINED) for one in bins)) for line, cells in lines.items()]
    heads = (f"{_bin(*one)} (n = {n_names[one]})" for one in bins)
    return markdown_table(("Epochs", "Negatives", *heads), rows)


def _bin(low: int, high: int | None) -> str:
    if high == low:
        return f"{low} mention{'s' if low > 1 else ''}"
    return f"{low} and more" if high is None else f"{low}–{high}"
