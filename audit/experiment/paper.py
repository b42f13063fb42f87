"""The paper's experiment, sections 3 and 4: the order, the run from notes to tables, the tables.

Input: an order and a folder. Output: the tables, as a value and as files in the folder: `corpus/`,
`hospital/` (the training with its snapshots), `tables.json`, `tables.md`. Every stage is stored,
audits in the store of results, so an experiment that was stopped goes on where it was. No table has
a name. Torch is imported only where models run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, model_validator

from audit.attack.measure_types import Rule, Stratum, write_json
from audit.attack.plan import list_phases
from audit.attack.question import (
    AuditRequest,
    GenerationSettings,
    PosteriorSettings,
    question_digest,
)
from audit.corpus.candidate_lists import read_list, select_passages
from audit.corpus.corpora import CORPORA
from audit.corpus.examine import Examination, read_examination
from audit.corpus.make import CorpusTask, make_corpus
from audit.corpus.make import phases as corpus_phases
from audit.corpus.truth import PASSAGES, PRIVATE
from audit.errors import AuditError
from audit.foreign import locate_errors
from audit.home import results_dir
from audit.models.inspect import inspect_model
from audit.notes.passages import read_passages
from audit.notes.read import open_notes
from audit.progress import (
    Meter,
    Phase,
    ProgressListener,
    StopQuestion,
    combine_phases,
    estimate_seconds,
)
from audit.report.name_table import numbers
from audit.report.published import ATTACKS, PAPER_RULE, PAPER_RULE_ON_GENERAL, published_tables
from audit.report.report import AuditReport
from audit.run import run_audit
from audit.shelf import private_folder, write_private, write_whole
from audit.stats import BoolArray, Rate
from audit.tables import UNDEFINED, Cells, decimal, format_counts, format_estimate, markdown_table
from audit.task import MAX_SEED, Columns, Contact, Device, Question, Task, queue_of
from audit.training.config import TrainSettings
from audit.training.trainings import PretrainTask, snapshot_name
from cache.store import Store

SCENARIOS = (2, 1)
"""Scenarios in the order in which they are run: the cheaper one first, at all exposures."""
PAPER_EPOCHS = (1.0, 2.0, 5.0, 10.0, 20.0)
TRAINING = TrainSettings(
    n_epochs=PAPER_EPOCHS[-1],
    schedule="constant",
    warmup_share=0.01,
    held_out_share=0.0,
    evaluate_every=1_000_000,
    checkpoint_every=50,
)
"""Training of M_hospital: a constant rate, so that snapshots along one run are models of their own;
no note is held out, since each may hold a member's only mention."""


class ExperimentTask(Task):
    """The settings of an experiment."""

    job = "experiment"
    flags: ClassVar = {"columns": "--column", "single_tokens": "--all-names"}

    notes: Path = Field(
        description="notes with placeholders, which become dummy identities (section 3.2)"
    )
    general: Path
    """Directory of M_general."""
    out: Path = Field(description="a new folder, or a stopped experiment's")
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
    generation: GenerationSettings = GenerationSettings()
    posterior: PosteriorSettings = PosteriorSettings()
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
        hospital = self.training.with_(seed=self.seed, n_epochs=self.epochs[-1])
        object.__setattr__(self, "training", hospital)
        self.corpus()
        return self

    def corpus(self) -> CorpusTask:
        """Return the task of D_private, D_public and the candidate list."""
        shared_fields = ("notes", "columns", "seed", "sample")
        return CorpusTask(
            title="Experiment",
            tokenizer=self.general if self.single_tokens else None,
            **{name: getattr(self, name) for name in shared_fields},
        )

    def answer_digest(self, *, without: tuple[str, ...] = ()) -> str:
        """Return the digest of all that decides the answer: everything but folder and device."""
        excluded = {"out", "device", *without}
        settings = {name: value for name, value in self.plain().items() if name not in excluded}
        return question_digest(settings)

    def trained_digest(self) -> str:
        """Return the digest of all that decides the corpus and the model; audits have their own."""
        return self.answer_digest(without=("generation", "posterior"))

    def question(self) -> Question:
        """Return the question; its folder is part of it."""
        return self.make_question(
            label=inspect_model(self.general).name,
            device=queue_of(self.device),
            about=[self.answer_digest(), str(self.out)],
        )

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Run the experiment, or the rest of it; return the digests of its audits."""
        with Store(results_dir()) as store:
            tables = run_experiment(
                self,
                store=store,
                progress=contact.listen,
                should_stop=contact.should_stop,
                say=contact.say,
            )
        by_stage = sorted(tables["found"], key=lambda row: row["attack"] != ATTACKS[SCENARIOS[0]])
        return tuple(row["digest"] for row in by_stage)


CORPUS, HOSPITAL = "corpus", "hospital model"


def audit_stage(epochs: float, *, scenario: int) -> str:
    """Return the name of the stage that audits one exposure in one scenario."""
    return f"audit after {epochs:g} epochs, scenario {scenario}"


ORDER_FILE = "experiment.json"
TABLES_JSON, TABLES_MD = "tables.json", "tables.md"
Row = dict[str, Any]
Tables = dict[str, Any]
"""All tables, each a list of rows or of (count, number of names); see `make_tables`."""


def run_experiment(
    order: ExperimentTask,
    *,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> Tables:
    """Run the whole experiment in the order's folder, or the rest of it.

    `progress` and `should_stop` are those of `run_audit`; `say` gets a sentence after each stage.
    """
    from audit.training.pretraining import train

    folder, corpus = order.out, order.out / "corpus"
    _claim_folder(order)
    meter = Meter(_yield_stages(order), listener=progress)
    # D_private, D_public and the candidate list, once (sections 3.2 and 3.4).
    if not corpus.is_dir():
        listener = meter.make_listener(CORPUS, f"{CORPUS}: ")
        make_corpus(order.corpus(), out=corpus, progress=listener, should_stop=should_stop)
    meter.finish(CORPUS)
    examination = read_examination(corpus)
    say(
        f"Corpus: {examination.n_notes} notes, {examination.n_positives} members, "
        f"{examination.n_passages} passages."
    )
    trained_model = train(
        _make_training(order),
        progress=meter.make_listener(HOSPITAL, f"{HOSPITAL}: "),
        should_stop=should_stop,
    )
    meter.finish(HOSPITAL)
    facts, loss = trained_model.facts, decimal(trained_model.loss or math.nan, digits=2)
    say(f"Hospital model: {trained_model.n_steps_done} steps, training loss {loss}.")
    exposures = {
        epochs: facts.settings.steps_of_epochs(epochs, n_train_tokens=facts.n_train_tokens)
        for epochs in order.epochs
    }
    reports = {}
    questions = list(_yield_questions(order))
    for question, epochs in product(questions, order.epochs):
        stage = audit_stage(epochs, scenario=question.scenario_number)
        meter.resize(stage, estimate_seconds(list_phases(question)))
    for question in questions:
        for epochs, step in exposures.items():
            stage = audit_stage(epochs, scenario=question.scenario_number)
            report = run_audit(
                question.with_(hospital=trained_model.folder / snapshot_name(step)),
                store=store,
                progress=meter.make_listener(stage, f"{stage}: "),
                should_stop=should_stop,
            )
            meter.finish(stage)
            say(f"{stage.capitalize()}: {report.verdict.in_short('en')} {report.verdict.english}")
            reports[epochs, question.scenario_number] = report
    tables = make_tables(reports, examination=examination, exposures=exposures)
    _write_tables(tables, folder)
    return tables


def _write_tables(tables: Tables, folder: Path) -> None:
    text = json.dumps(tables_json(tables), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    markdown = tables_markdown(tables)
    write_private({TABLES_JSON: text.encode(), TABLES_MD: markdown.encode()}, folder)


_AUDIT_SECONDS = 120.0


def _yield_stages(order: ExperimentTask) -> Iterator[Phase]:
    """Yield the phases in order; how long an audit takes is known once the corpus exists."""
    from audit.training.pretraining import plan_phases as training_phases

    source = open_notes(order.notes, columns=dict(order.columns))
    training = list(training_phases(_make_training(order).with_(notes=order.notes)))
    yield combine_phases(CORPUS, corpus_phases(order.corpus(), source), kind=CORPUS)
    yield combine_phases(HOSPITAL, training, kind=HOSPITAL)
    for scenario, epochs in product(SCENARIOS, order.epochs):
        stage = audit_stage(epochs, scenario=scenario)
        yield Phase(stage, _AUDIT_SECONDS, kind=f"audit {scenario}", has_own_meter=True)


def _make_training(order: ExperimentTask) -> PretrainTask:
    return PretrainTask(
        general=order.general,
        notes=order.out / "corpus" / PRIVATE,
        out=order.out / "hospital",
        settings=order.training,
        title="Hospital",
        device=order.device,
        snapshot_epochs=order.epochs,
    )


def _yield_questions(order: ExperimentTask) -> Iterator[AuditRequest]:
    """Yield each scenario's request, with M_general in the place of M_hospital."""
    corpus = CORPORA.read_folder(order.out / "corpus")
    candidates = read_list(corpus, controls=CONTROLS)
    content = select_passages(corpus, candidates)
    passages = read_passages(content, subject="passages", file_name=PASSAGES)
    for scenario in SCENARIOS:
        yield AuditRequest(
            scenario_number=scenario,
            general=order.general,
            hospital=order.general,
            candidates=candidates,
            passages=passages if scenario == 2 else None,
            generation=order.generation,
            posterior=order.posterior,
            seed=order.seed,
            device=order.device,
        )


def _claim_folder(order: ExperimentTask) -> None:
    """Record the order in its folder; refuse a folder with other contents or another order."""
    with locate_errors("notes"):
        state = order.notes.stat()
    content = {
        "digest": order.trained_digest(),
        "notes": [state.st_size, state.st_mtime_ns],
        "order": order.plain(),
    }
    path = private_folder(order.out) / ORDER_FILE
    try:
        if not path.exists():
            if any(order.out.iterdir()):
                raise AuditError(
                    "There is something already.",
                    where="out",
                    do="Choose a new or an empty folder.",
                )
            write_whole(path, (json.dumps(content, indent=1) + "\n").encode())
        stored_content = json.loads(path.read_bytes())
        is_same = all(stored_content[name] == content[name] for name in ("digest", "notes"))
    except (OSError, ValueError, KeyError, TypeError):
        is_same = False
    if not is_same:
        raise AuditError(
            "The folder belongs to an experiment with other notes or settings.",
            where="out",
            do="Choose another folder, or the same notes and settings.",
        )


CONTROLS = ("easy", "hard")
ALWAYS = "always_member"


def make_tables(
    reports: Mapping[tuple[float, int], AuditReport],
    *,
    examination: Examination,
    exposures: Mapping[float, int],
) -> Tables:
    """Return the tables of an experiment from its reports by (epochs, number of the scenario).

    `exposures` maps epochs to the steps that M_hospital had done by then.

    Returns
    -------
    tables
        Numbers of the corpus and of the attacks; `table1`: M_hospital by the paper's rules;
        `table2`: scenario 1 with M_general in its place (0 epochs); `table3` and `table4`:
        (patterns or mentions, names), the highest first; `always_member`: the trivial guess;
        `rankings`: how scores and baselines rank members above each kind of controls; `found`:
        members and controls with q <= 0.05.
    """
    last = {number: reports[epochs, number] for epochs, number in sorted(reports)}
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
        **_make_rule_tables(strata, last),
        "table3": examination.pattern_table,
        "table4": examination.mention_table,
        "rankings": [
            {**key, "score": score, "is_baseline": score in stratum.baselines, "auc": ranking.auc}
            for key, report, stratum in strata
            for score, ranking in stratum.rank_scores(report.fixed_score).items()
        ],
        "found": [key | _count_flagged(report) for key, report in audits],
        "exposures": [{"epochs": epochs, "step": step} for epochs, step in exposures.items()],
        "seed": last[2].question["seed"],
    }


def _make_rule_tables(
    strata: Sequence[tuple[Row, AuditReport, Stratum]], last: Mapping[int, AuditReport]
) -> Tables:
    """Return the tables of yes/no rules; `last` is the longest exposure's report by scenario."""
    return {
        "table1": [
            _make_rule_row(key, stratum.rules, PAPER_RULE[report.scenario.number], "hospital")
            for key, report, stratum in strata
        ],
        "table2": [
            _make_rule_row(
                key | {"epochs": 0.0}, stratum.baseline_rules, PAPER_RULE_ON_GENERAL[1], "general"
            )
            for key, report, stratum in strata
            if report is last[1]
        ],
        "always_member": [
            _make_rule_row(key | {"epochs": 0.0}, {ALWAYS: stratum.always_member}, ALWAYS, "none")
            for key, report, stratum in strata
            if report is last[2]
        ],
    }


def _make_rule_row(key: Row, rules: Mapping[str, Rule], rule: str, model: str) -> Row:
    rule_measures = rules[rule]
    figures = {"confusion": rule_measures.confusion, "f1": rule_measures.f1}
    return {**key, "rule": rule, "model": model, **figures}


def _count_flagged(report: AuditReport) -> Row:
    is_flagged = np.array(report.stands_out, dtype=np.bool_)
    groups: dict[str, BoolArray] = {
        "members": numbers(report.names["is_member"]) == 1,
        "controls": np.isin(np.array(report.names["control_kind"], dtype=np.str_), CONTROLS),
    }
    rates = {
        group: Rate(int(is_flagged[rows].sum()), int(rows.sum())) for group, rows in groups.items()
    }
    return {**rates, "verdict": report.verdict.state, "digest": report.digest}


_ATTACK_WORDS = {"generation": "Generation", "masked_lm": "Masked LM"}
_RULE_HEADER = (
    "Epochs",
    "Negatives",
    "Attack",
    "F1",
    "Accuracy",
    "Recall",
    "Precision",
    "TP",
    "FN",
    "FP",
    "TN",
)


def tables_json(tables: Tables) -> Tables:
    """Return all tables as plain values; undefined numbers are None."""
    return {"schema": 1, **write_json(tables)}


def tables_markdown(tables: Tables) -> str:
    """Return the tables in the paper's layout, with 95 % intervals, as Markdown."""
    exposures = tables["exposures"]
    parts = [
        "{n_notes:,} notes of {n_patients:,} patients; {n_members} members, {n_passages} passages; "
        "{n_inputs:,} inputs (masked LM), {n_documents:,} documents (generation); "
        "seed {seed}.".format_map(tables),
        "**M_hospital along its training**",
        markdown_table(
            ["Epochs on D_private", *(f"{row['epochs']:g}" for row in exposures)],
            [["Steps", *(row["step"] for row in exposures)]],
        ),
        "**Table 1. The paper's rules on M_hospital**",
        markdown_table(_RULE_HEADER, _table1(tables)),
        "In brackets 95 % intervals: Wilson for accuracy, recall and precision, bootstrap over "
        "names for F1. The paper's own row has no intervals.",
        "**Table 2. Scenario 1 with M_general in place of M_hospital**",
        markdown_table(("Model", *_RULE_HEADER[1:]), _table2(tables)),
        "**Table 3. Distinct patterns per name**",
        _count_table(tables["table3"], title="Distinct patterns"),
        "**Table 4. Occurrences per name**",
        _count_table(tables["table4"], title="Occurrences"),
    ]
    for attack in ATTACKS.values():
        title = f"**Leakage by epochs: {_ATTACK_WORDS[attack]}, AUC**"
        parts += [title, _table_by_epochs(tables, attack=attack)]
    return "\n\n".join(parts) + "\n"


def _table1(tables: Tables) -> Iterator[Cells]:
    for controls in CONTROLS:
        for attack in ATTACKS.values():
            for row in tables["table1"]:
                if (row["controls"], row["attack"]) == (controls, attack):
                    yield _rule_line(row, label=f"{row['epochs']:g}")
            yield from _yield_published(controls, attack=attack, model="hospital")
    for row in tables["always_member"]:
        label, negatives, _, *cells = _rule_line(row, label=UNDEFINED)
        yield label, negatives, "always “member”", *cells


def _table2(tables: Tables) -> Iterator[Cells]:
    last = max(row["epochs"] for row in tables["table1"])
    for controls in CONTROLS:
        for row in (*tables["table2"], *tables["table1"]):
            is_here = (row["controls"], row["attack"]) == (controls, ATTACKS[1])
            if is_here and row["epochs"] in (0, last):
                is_general = row["model"] == "general"
                label = "M_general" if is_general else f"M_hospital, {last:g} epochs"
                yield _rule_line(row, label=label)
        yield from _yield_published(controls, attack=ATTACKS[1], model="general")


def _rule_line(row: Mapping[str, Any], *, label: str) -> Cells:
    counts = row["confusion"]
    figures = (row["f1"], counts.accuracy, counts.recall, counts.precision)
    cells = (format_estimate(figure, digits=3) for figure in figures)
    attack = _ATTACK_WORDS[row["attack"]]
    return (label, row["controls"].capitalize(), attack, *cells, *counts.four)


def _yield_published(controls: str, *, attack: str, model: str) -> Iterator[Cells]:
    row = published_tables().row(controls=controls, attack=attack, model=model)
    if row is not None:
        label = "paper" if model == "hospital" else f"paper, M_{model}"
        rates = (f"{rate:.4f}" for rate in (row.f1, row.accuracy, row.recall, row.precision))
        counts = row.four or (UNDEFINED,) * 4
        yield label, controls.capitalize(), _ATTACK_WORDS[attack], *rates, *counts


def _count_table(table: Sequence[tuple[int, int]], *, title: str) -> str:
    n_names, n_total = sum(n for _, n in table), sum(count * n for count, n in table)
    row: Cells = ("Names", *(n for _, n in table), f"{n_names} ({n_total})")
    return markdown_table((title, *(count for count, _ in table), "all"), [row])


def _table_by_epochs(tables: Tables, *, attack: str) -> str:
    rankings, flag_rows = (
        [row for row in tables[name] if row["attack"] == attack] for name in ("rankings", "found")
    )
    members = {row["epochs"]: format_counts(row["members"]) for row in flag_rows}
    scores = dict.fromkeys(row["score"] for row in rankings)
    rows = [
        (
            f"{epochs:g}",
            controls.capitalize(),
            *(format_estimate(row["auc"], digits=2) for row in line_rows),
            members[epochs],
        )
        for (epochs, controls), line_rows in groupby(rankings, itemgetter("epochs", "controls"))
    ]
    head = ("Epochs", "Negatives", *(f"`{score}`" for score in scores), "Members, q ≤ 0.05")
    return markdown_table(head, rows)
