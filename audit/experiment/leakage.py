"""Leakage against missed names: the attack on notes that a de-identifier has redacted.

Input: an order. Output: tables, on a shelf and as files. For each arm the demo hospital's notes are
redacted, M_general is trained on them, and the model is attacked in scenario 2. Every trained model
and every audit is stored, so an experiment that was stopped goes on where it was. Undefined numbers
are NaN here, null in JSON. Torch is imported only where models run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from operator import attrgetter
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NamedTuple, Self, get_args

import numpy as np
from pydantic import Field, model_validator

from audit.attack.measure_types import Measured, Number, Part
from audit.attack.plan import list_phases
from audit.attack.question import AuditRequest, PosteriorSettings, question_digest
from audit.deid.find.tagger import Tagger, tag_and_check
from audit.deid.find.taggers import find_tagger, load_tagger
from audit.deid.measure.span_matching import CoverageCounts, count_coverage
from audit.deid.redact.release import Release
from audit.errors import AuditCancelled, AuditError
from audit.home import DEMO_HOSPITAL, results_dir
from audit.models.inspect import compute_model_digest
from audit.names.files import read_names
from audit.notes.formats import read_jsonl
from audit.notes.passages import read_passages
from audit.notes.spans import IDENTIFIER, QUASI_IDENTIFIER, Span, TaggedDocument
from audit.progress import Meter, Phase, ProgressListener, StopQuestion, combine_phases
from audit.report.compare import measure_auc_difference
from audit.report.name_table import numbers
from audit.report.report import AuditReport
from audit.rng import generator
from audit.run import run_audit
from audit.shelf import Shelf, private_folder, write_whole
from audit.stats import NO_ESTIMATE, BoolArray, Estimate, Rate, bootstrap_ranking
from audit.tables import decimal, format_counts, format_estimate, markdown_table
from audit.task import MAX_SEED, Contact, Device, Question, Task, queue_of
from audit.training.config import TrainSettings
from audit.training.trainings import MODEL, PretrainTask, TrainedModel
from audit.words import Language
from cache.store import Store

LANGUAGES = get_args(Language)
RAW, PERFECT, TAGGER = "raw", "perfect", "tagger"
MENTIONS, PATIENTS = "mentions", "patients"
Unit = Literal["mentions", "patients"]
UNITS: tuple[Unit, ...] = get_args(Unit)
"""What is missed at random: single mentions, or all mentions of a patient."""


@dataclass(frozen=True)
class Arm:
    """One way of making the notes that a hospital model is trained on.

    Attributes
    ----------
    kind
        `RAW`: as they are; `PERFECT`: every name replaced; `TAGGER`: what a de-identifier finds is
        replaced; `MENTIONS` and `PATIENTS`: every name but a random share is replaced.
    share
        Share of patients' mentions, or of patients, whose names stay; NaN for the other kinds.
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


class LeakageTask(Task):
    """The settings of an experiment on leakage against missed names."""

    job = "leakage"
    flags: ClassVar = {"taggers": "--tagger", "shares": "--miss"}

    language: Language = Field(default="en", description="of the demo hospital")
    taggers: tuple[str, ...] = Field(
        default=(),
        max_length=20,
        description="rules, default or trained/<id>; repeatable",
    )
    shares: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(0.01, 0.05, 0.1, 0.25, 0.5),
        max_length=20,
        examples=["0.01,0.05,0.1"],
        description="shares of names that are left at random, rising",
    )
    units: tuple[Unit, ...] = UNITS
    mode: Literal["placeholder", "surrogate", "mask"] = Field(
        default="placeholder", description="what takes a name's place"
    )
    epochs: float = Field(
        default=10.0, gt=0, le=1000, description="how often each model reads its notes"
    )
    n_inputs: int = Field(default=2000, ge=1, le=10_000_000, description="of the attack")
    seed: int = Field(
        default=0,
        ge=0,
        le=MAX_SEED,
        description="of the draws of missed names, surrogates, trainings and attacks",
    )
    device: Device = Field(default="auto", description="of taggers, trainings and attacks")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if any(len(set(x)) != len(x) for x in (self.taggers, self.units)):
            raise AuditError("The same is asked twice, or there are too many.", where="tagger")
        if list(self.shares) != sorted(set(self.shares)):
            raise AuditError(
                "Shares of missed names are rising numbers above 0 and below 1.",
                where="shares",
                do="For example 0.01,0.05,0.1.",
            )
        return self

    def question(self) -> Question:
        """Return the question: the digests of the taggers and the demo's model are part of it."""
        return self.make_question(
            label=f"demo {self.language}", device=queue_of(self.device), about=leakage_id(self)
        )

    def run(self, contact: Contact) -> tuple[str, ...]:
        """Run the experiment, or the rest of it; return its identifier.

        If a tagger was changed after the job was submitted, this is another experiment.
        """
        identifier = leakage_id(self)
        if identifier not in {experiment.leakage_id for experiment in LEAKAGE.all()}:
            with Store(results_dir()) as store:
                tables = run_leakage(
                    self,
                    arms_folder=private_folder(LEAKAGE.home() / "arms"),
                    store=store,
                    progress=contact.listen,
                    should_stop=contact.should_stop,
                    say=contact.say,
                )
            LEAKAGE.keep_files(identifier, tables.files())
        return (identifier,)

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms: raw and perfect first, then taggers, then random misses."""
        taggers = tuple(Arm(TAGGER, tagger=tagger) for tagger in self.taggers)
        doses = tuple(Arm(unit, share) for unit in self.units for share in self.shares)
        return (Arm(RAW), Arm(PERFECT), *taggers, *doses)


def make_quick_order(order: LeakageTask) -> LeakageTask:
    """Return an order of the same taggers that takes minutes: fewer arms, fewer epochs."""
    return order.with_(shares=(0.1, 0.5), units=("mentions",), epochs=4.0, n_inputs=500)


ALL, LEFT, CAUGHT = "all", "left", "caught"
GROUPS = (ALL, LEFT, CAUGHT)
"""Groups of patients: all, those with a part of their name left, those with none of it left."""


class ArmRow(Part):
    """One arm: what was replaced, and how its model was trained.

    `n_mentions` and `n_whole` count mentions of patients and those that are replaced whole,
    `n_staff` and `n_staff_whole` the same of doctors. `other_chars` is the share of the characters
    outside names that is replaced too. `share` is that of the arm, NaN for arms without one; `loss`
    is in nats a token, of the last points of the curve.
    """

    code: str
    kind: str
    share: Number
    tagger: str
    tagger_digest: str
    n_mentions: int
    n_whole: int
    n_patients: int
    n_exposed: int
    n_staff: int
    n_staff_whole: int
    other_chars: float
    n_steps: int
    n_tokens: int
    loss: float

    @property
    def left(self) -> Rate:
        """Mentions of patients that are not replaced whole."""
        return Rate(self.n_mentions - self.n_whole, self.n_mentions)


class LeakRow(Part):
    """How well an attack tells a group of patients from controls, on one arm's model.

    `minus_raw` and `minus_perfect` are differences of AUC to those models on the same names, with
    the paired interval of DeLong; `flagged` counts patients with q of at most 5 %.
    """

    code: str
    controls: str
    group: str
    n_members: int
    n_controls: int
    auc: Measured
    tpr_at_1: Measured
    tpr_at_10: Measured
    minus_raw: Measured
    minus_perfect: Measured
    flagged: Rate
    digest: str


class Mention(NamedTuple):
    """Where a patient is named: the note, the span of the name in it, and the patient."""

    note: int
    span: Span
    owner: int


@dataclass(frozen=True, eq=False)
class HospitalNotes:
    """The notes of a hospital whose names are all known.

    The gold spans of the documents are the full names of patients (the mentions, in this order) and
    the last names of doctors. Patients are numbered as on the list of names.
    """

    language: str
    documents: tuple[TaggedDocument, ...]

    @cached_property
    def mentions(self) -> tuple[Mention, ...]:
        """Where patients are named, in order."""
        return tuple(
            Mention(note, span, _read_owner(document))
            for note, document in enumerate(self.documents)
            for span in document.spans
            if span.label == IDENTIFIER
        )

    @property
    def n_patients(self) -> int:
        """Number of patients who are named: all of the list."""
        return len({mention.owner for mention in self.mentions})

    @property
    def texts(self) -> tuple[str, ...]:
        """The notes as they are."""
        return tuple(document.text for document in self.documents)

    @property
    def folder(self) -> Path:
        """Where the hospital's files are."""
        return DEMO_HOSPITAL / self.language

    @property
    def general(self) -> Path:
        """Directory of M_general."""
        return self.folder / "models" / "general"


def read_hospital_notes(language: str) -> HospitalNotes:
    """Return the demo hospital's notes; a patient's full name stands only in its spans."""
    text = (DEMO_HOSPITAL / language / "notes.jsonl").read_text(encoding="utf-8")
    return HospitalNotes(language, tuple(read_jsonl(text, subject="demo notes")))


def _read_owner(document: TaggedDocument) -> int:
    return int((document.patient_id or "")[1:])


_NOTES_PER_BATCH = 64
Spans = tuple[tuple[Span, ...], ...]
"""The replaced spans of each note."""


def choose_spans(
    notes: HospitalNotes,
    *,
    arm: Arm,
    tagger: Tagger | None,
    seed: int,
    should_stop: StopQuestion = lambda: False,
) -> Spans:
    """Return the spans that an arm replaces in each note; `tagger` is that of a `TAGGER` arm.

    Shares are nested: who is missed at 1 % is missed at 5 % too.
    """
    gold = tuple(document.spans for document in notes.documents)
    if arm.kind == RAW:
        return ((),) * len(gold)
    if tagger is not None:
        tagged_spans: list[tuple[Span, ...]] = []
        for start in range(0, len(gold), _NOTES_PER_BATCH):
            if should_stop():
                raise AuditCancelled
            tagged_spans += tag_and_check(tagger, notes.texts[start : start + _NOTES_PER_BATCH])
        return tuple(tagged_spans)
    if arm.kind == PERFECT:
        return gold
    left = {
        (notes.mentions[i].note, notes.mentions[i].span)
        for i in draw_missed(notes, unit=arm.kind, share=arm.share, seed=seed)
    }
    return tuple(
        tuple(span for span in spans if (note, span) not in left) for note, spans in enumerate(gold)
    )


def draw_missed(notes: HospitalNotes, *, unit: str, share: float, seed: int) -> tuple[int, ...]:
    """Draw the mentions that stay, by number: a share of all, or those of a share of patients.

    At least one mention or patient is drawn.
    """
    owners = [mention.owner for mention in notes.mentions]
    n, unit_of_mention = {
        MENTIONS: (len(owners), range(len(owners))),
        PATIENTS: (notes.n_patients, owners),
    }[unit]
    order = generator(seed, f"missed {unit}").permutation(n)
    drawn_units = set(order[: max(1, round(share * n))].tolist())
    return tuple(
        number for number, mention_unit in enumerate(unit_of_mention) if mention_unit in drawn_units
    )


def release_texts(notes: HospitalNotes, spans: Spans, *, mode: str, seed: int) -> tuple[str, ...]:
    """Return the notes with their spans replaced: always the source with its replacements."""
    release = Release(mode=mode, seed=seed)
    return tuple(
        release.redact(document.with_spans(note_spans)).text
        for document, note_spans in zip(notes.documents, spans, strict=True)
    )


def count_misses(notes: HospitalNotes, spans: Spans) -> tuple[BoolArray, CoverageCounts]:
    """Return which patients [P] have a part of their name left after replacement, and the counts.

    Names are counted as `deid score` does: patients are `IDENTIFIER`, doctors `QUASI_IDENTIFIER`.
    """
    is_exposed, total = np.zeros(notes.n_patients, dtype=np.bool_), CoverageCounts()
    for document, note_spans in zip(notes.documents, spans, strict=True):
        coverage_counts = count_coverage(document, predicted=note_spans)
        n_mentions, n_whole = coverage_counts.row(IDENTIFIER)[:2]
        if n_whole < n_mentions:
            is_exposed[_read_owner(document)] = True
        total += coverage_counts
    return is_exposed, total


VERSION = 2
"""Goes up with every change of code that moves a number; then arms and experiments start anew."""
TRAINING = TrainSettings(
    n_tokens=64,
    batch=16,
    micro_batch=16,
    learning_rate=5e-4,
    schedule="constant",
    held_out_share=0.0,
    precision="float32",
)
"""Training of an arm: few rows a step, so that an epoch has many steps; no note is held out, since
each may hold a patient's only mention."""
_N_LAST = 50


def train_arm(
    texts: Sequence[str],
    *,
    title: str,
    notes: HospitalNotes,
    order: LeakageTask,
    folder: Path,
    progress: ProgressListener,
    should_stop: StopQuestion,
) -> TrainedModel:
    """Train M_general on texts, or go on with a training that was stopped.

    `folder` holds the arms, each in a folder named by the digest of its question.
    """
    from audit.training.pretraining import train

    training = _make_training(order, notes, folder=folder, title=title)
    question = {
        "version": VERSION,
        "title": title,
        "general": compute_model_digest(notes.general),
        "settings": training.settings.decisive(),
        "texts": list(texts),
    }
    run = private_folder(folder / question_digest(question)[:12])
    lines = (json.dumps({"text": text}) + "\n" for text in texts)
    write_whole(run / "notes.jsonl", "".join(lines).encode())
    training = training.with_(notes=run / "notes.jsonl", out=run)
    return train(training, progress=progress, should_stop=should_stop)


def _make_training(
    order: LeakageTask, notes: HospitalNotes, *, folder: Path, title: str
) -> PretrainTask:
    """Return the training of an arm, as if on the notes as they are."""
    return PretrainTask(
        general=notes.general,
        notes=notes.folder / "notes.jsonl",
        out=folder,
        settings=TRAINING.with_(n_epochs=order.epochs, seed=order.seed),
        title=title,
        device=order.device,
    )


CONTROLS = ("easy", "hard")
FPRS = (0.01, 0.1)
N_REPLICATES = 2000


@dataclass(frozen=True, eq=False)
class ArmResult:
    """The results of one arm: its row, which patients [P] have a name left, its audit."""

    row: ArmRow
    is_exposed: BoolArray
    report: AuditReport


def make_arm_row(
    arm: Arm,
    *,
    is_exposed: BoolArray,
    coverage_counts: CoverageCounts,
    trained_model: TrainedModel,
    tagger_digest: str = "",
) -> ArmRow:
    """Return the row of an arm: what it replaced and how its model was trained."""
    losses = [point.loss for point in trained_model.points if point.loss is not None]
    n_mentions, n_whole = coverage_counts.row(IDENTIFIER)[:2]
    n_staff, n_staff_whole = coverage_counts.row(QUASI_IDENTIFIER)[:2]
    outside = coverage_counts.n_outside_chars
    return ArmRow(
        code=arm.code,
        kind=arm.kind,
        share=arm.share,
        tagger=arm.tagger,
        tagger_digest=tagger_digest,
        n_mentions=n_mentions,
        n_whole=n_whole,
        n_patients=len(is_exposed),
        n_exposed=int(is_exposed.sum()),
        n_staff=n_staff,
        n_staff_whole=n_staff_whole,
        other_chars=coverage_counts.n_over_chars / outside if outside else 0.0,
        n_steps=trained_model.facts.n_steps,
        n_tokens=trained_model.facts.n_train_tokens,
        loss=float(np.mean(losses[-_N_LAST:])),
    )


def yield_leak_rows(arm_results: Sequence[ArmResult], *, seed: int) -> Iterator[LeakRow]:
    """Yield the rows of all arms, controls and groups; empty groups are left out."""
    report_of_kind = {arm_result.row.kind: arm_result.report for arm_result in arm_results}
    for arm_result in arm_results:
        report, left = arm_result.report, arm_result.is_exposed
        score, is_flagged = (
            numbers(report.names["score"]),
            np.array(report.stands_out, dtype=np.bool_),
        )
        kinds = np.array(report.names["control_kind"], dtype=np.str_)
        groups = {ALL: left | True, LEFT: left, CAUGHT: ~left}
        for controls, group in product(CONTROLS, GROUPS):
            # Patients are the first names of the list.
            members = np.pad(groups[group], (0, len(score) - len(left)))
            is_control = kinds == controls
            if not members.any() or not is_control.any():
                continue
            rows = members | is_control
            ranking = bootstrap_ranking(
                score[rows], members[rows], seed=seed, fprs=FPRS, n_replicates=N_REPLICATES
            )
            minus_raw, minus_perfect = (
                _auc_difference(
                    report, reference=report_of_kind[kind], rows=rows, is_member=members
                )
                for kind in (RAW, PERFECT)
            )
            yield LeakRow(
                code=arm_result.row.code,
                controls=controls,
                group=group,
                n_members=int(members.sum()),
                n_controls=int(is_control.sum()),
                auc=ranking.auc,
                tpr_at_1=dict(ranking.tpr_at_fpr)[FPRS[0]],
                tpr_at_10=dict(ranking.tpr_at_fpr)[FPRS[1]],
                minus_raw=minus_raw,
                minus_perfect=minus_perfect,
                flagged=Rate(int(is_flagged[members].sum()), int(members.sum())),
                digest=report.digest,
            )


def _auc_difference(
    report: AuditReport, *, reference: AuditReport, rows: BoolArray, is_member: BoolArray
) -> Estimate:
    """Return the difference of two AUCs on the same names; NaN for an audit beside itself."""
    if report.digest == reference.digest:
        return NO_ESTIMATE
    scores, reference_scores = (
        numbers(audit.names["score"])[rows] for audit in (report, reference)
    )
    return measure_auc_difference(scores, other_scores=reference_scores, is_member=is_member[rows])[
        2
    ]


def run_leakage(
    order: LeakageTask,
    *,
    arms_folder: Path,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> LeakageTables:
    """Run the whole experiment, or the rest of it; `say` gets a sentence after each arm."""
    notes = read_hospital_notes(order.language)
    meter = Meter(_yield_stages(order, notes), listener=progress)
    arm_results = []
    for arm in order.arms:
        if should_stop():
            raise AuditCancelled
        is_tagger = arm.kind == TAGGER
        tagger = load_tagger(arm.tagger, device=order.device) if is_tagger else None
        spans = choose_spans(
            notes, arm=arm, tagger=tagger, seed=order.seed, should_stop=should_stop
        )
        if tagger is not None:
            meter.finish(_tagging_stage(arm))
        trained_model = train_arm(
            release_texts(notes, spans, mode=order.mode, seed=order.seed),
            title=f"demo {order.language}: {arm.code}",
            notes=notes,
            order=order,
            folder=arms_folder,
            progress=meter.make_listener(arm.code, f"{arm.code}: "),
            should_stop=should_stop,
        )
        meter.finish(arm.code)
        report = run_audit(
            _make_request(order, notes, trained_model.folder / MODEL),
            store=store,
            progress=meter.make_listener(_attack_stage(arm), f"{_attack_stage(arm)}: "),
            should_stop=should_stop,
        )
        meter.finish(_attack_stage(arm))
        is_exposed, coverage_counts = count_misses(notes, spans)
        digest = tagger.digest if tagger else ""
        row = make_arm_row(
            arm,
            is_exposed=is_exposed,
            coverage_counts=coverage_counts,
            trained_model=trained_model,
            tagger_digest=digest,
        )
        arm_results.append(ArmResult(row, is_exposed, report))
        left = f"{row.left.n_hits} of {row.n_mentions} mentions left"
        say(f"{arm.code}: {left}, {row.n_steps} steps, loss {row.loss:.3f}.")
    return LeakageTables(
        order=order,
        n_notes=len(notes.documents),
        n_patients=notes.n_patients,
        arms=tuple(arm_result.row for arm_result in arm_results),
        leaks=tuple(yield_leak_rows(arm_results, seed=order.seed)),
    )


def _make_request(order: LeakageTask, notes: HospitalNotes, model: Path) -> AuditRequest:
    """Return the same question about every arm: only the hospital's model differs."""
    names, passages = (
        (notes.folder / file).read_bytes() for file in ("names.csv", "passages.jsonl")
    )
    return AuditRequest(
        scenario_number=2,
        general=notes.general,
        hospital=model,
        candidates=read_names(names, subject="demo names").candidates.with_source("invented"),
        passages=read_passages(passages, subject="demo passages", file_name="passages.jsonl"),
        posterior=PosteriorSettings(n_inputs=order.n_inputs, n_chain_inputs=0),
        seed=order.seed,
        device=order.device,
    )


def _yield_stages(order: LeakageTask, notes: HospitalNotes) -> Iterator[Phase]:
    """Yield the phases in order; every arm trains on about as much text."""
    from audit.training.pretraining import plan_phases as training_phases

    sample_training = _make_training(order, notes, folder=notes.folder, title="")
    training = list(training_phases(sample_training))
    attack = list(list_phases(_make_request(order, notes, notes.general)))
    for arm in order.arms:
        if arm.kind == TAGGER:
            n_chars = sum(len(document.text) for document in notes.documents)
            yield Phase(_tagging_stage(arm), n_chars, 1e-5, "tagging the demo's notes")
        yield combine_phases(arm.code, training, kind="training")
        yield combine_phases(_attack_stage(arm), attack, kind="attack")


def _tagging_stage(arm: Arm) -> str:
    return f"{arm.code}, tagging"


def _attack_stage(arm: Arm) -> str:
    return f"{arm.code}, attack"


LEAKAGE_JSON, LEAKAGE_MD = "leakage.json", "leakage.md"
_GROUP_WORDS = {LEFT: "name left", CAUGHT: "name caught"}


class LeakageTables(Part):
    """The results of a leakage experiment on the demo hospital, arms in the order of the task."""

    version: Literal[1] = Field(default=1, alias="schema")
    order: LeakageTask
    n_notes: int
    n_patients: int
    arms: tuple[ArmRow, ...]
    leaks: tuple[LeakRow, ...]

    def select_rows(self, *, controls: str, group: str = ALL) -> tuple[tuple[ArmRow, LeakRow], ...]:
        """Return the rows of one kind of controls and one group of patients."""
        arms = {arm.code: arm for arm in self.arms}
        leaks = (leak for leak in self.leaks if (leak.controls, leak.group) == (controls, group))
        return tuple((arms[leak.code], leak) for leak in leaks)

    def split(self, *, controls: str) -> tuple[tuple[ArmRow, tuple[LeakRow, LeakRow]], ...]:
        """Return the arms that have patients of both groups, with (left, caught)."""
        caught = {arm.code: leak for arm, leak in self.select_rows(controls=controls, group=CAUGHT)}
        left = self.select_rows(controls=controls, group=LEFT)
        return tuple((arm, (leak, caught[arm.code])) for arm, leak in left if arm.code in caught)

    def files(self) -> dict[str, bytes]:
        """Return the contents of the files by name; the file that is read again comes last."""
        text = json.dumps(
            json.loads(self.model_dump_json(by_alias=True)), ensure_ascii=False, indent=1
        )
        return {
            LEAKAGE_MD: leakage_markdown(self).encode(),
            LEAKAGE_JSON: f"{text}\n".encode(),
        }


def leakage_markdown(tables: LeakageTables) -> str:
    """Return the tables with 95 % intervals, as Markdown."""
    order = tables.order
    parts = [
        f"Demo hospital ({order.language}): {tables.n_notes:,} notes, {tables.n_patients} named "
        f"patients; mode {order.mode}, {order.epochs:g} epochs, seed {order.seed}.",
        "**What each arm replaces**",
        _arms_markdown(tables),
        "**Leakage against missed names: scenario 2, AUC**",
        _leaks_markdown(tables),
        "**Patients whose name was left, and those whose name was caught: scenario 2, AUC**",
        _groups_markdown(tables),
        "In brackets 95 % intervals: bootstrap over names, DeLong for differences on the same "
        "names. One training an arm: the intervals know nothing of another seed. The attacker of "
        "scenario 2 holds the same passages in all arms, the name's place masked.",
    ]
    return "\n\n".join(parts) + "\n"


def _arms_markdown(tables: LeakageTables) -> str:
    columns = (
        "Arm",
        "Mentions left",
        "Patients with a name left",
        "Doctors left",
        "Other text replaced",
        "Steps",
        "Loss, nats",
    )
    rows = [
        (
            arm.code,
            f"{format_counts(arm.left)} ({100 * arm.left.value:.1f} %)",
            f"{arm.n_exposed} of {arm.n_patients}",
            f"{arm.n_staff - arm.n_staff_whole} of {arm.n_staff}",
            f"{100 * arm.other_chars:.1f} %",
            arm.n_steps,
            decimal(arm.loss, digits=2),
        )
        for arm in tables.arms
    ]
    return markdown_table(columns, rows)


def _leaks_markdown(tables: LeakageTables) -> str:
    columns = (
        "Arm",
        "Negatives",
        "AUC",
        "TPR at 1 % FPR",
        "TPR at 10 % FPR",
        "minus raw",
        "minus perfect",
        "q ≤ 0.05",
    )
    rows = [
        (
            row.code,
            row.controls,
            *map(_format_range, (row.auc, row.tpr_at_1, row.tpr_at_10)),
            *map(_format_range, (row.minus_raw, row.minus_perfect)),
            format_counts(row.flagged),
        )
        for row in tables.leaks
        if row.group == ALL
    ]
    return markdown_table(columns, rows)


def _groups_markdown(tables: LeakageTables) -> str:
    split_codes = {arm.code for arm in tables.arms if 0 < arm.n_exposed < arm.n_patients}
    rows: list[tuple[str | float | None, ...]] = [
        (
            row.code,
            row.controls,
            _GROUP_WORDS[row.group],
            row.n_members,
            *map(_format_range, (row.auc, row.minus_raw, row.minus_perfect)),
            format_counts(row.flagged),
        )
        for row in tables.leaks
        if row.group != ALL and row.code in split_codes
    ]
    return markdown_table(
        ("Arm", "Negatives", "Patients", "n", "AUC", "minus raw", "minus perfect", "q ≤ 0.05"), rows
    )


def _format_range(estimate: Estimate) -> str:
    return format_estimate(estimate, digits=2, between=" to ")


@dataclass(frozen=True, eq=False)
class KeptLeakage:
    """A finished experiment: its identifier, when it ended (seconds since 1970), its tables."""

    leakage_id: str
    ended_at: float
    tables: LeakageTables


def leakage_id(order: LeakageTask) -> str:
    """Return the identifier of an experiment; equal questions have the same one."""
    question = {
        "version": VERSION,
        "order": {key: value for key, value in order.plain().items() if key != "device"},
        "taggers": {tagger: find_tagger(tagger).digest for tagger in order.taggers},
        "general": compute_model_digest(DEMO_HOSPITAL / order.language / "models" / "general"),
    }
    return question_digest(question)[:12]


def _read(folder: Path) -> KeptLeakage:
    path = folder / LEAKAGE_JSON
    tables = LeakageTables.model_validate_json(path.read_bytes())
    return KeptLeakage(folder.name, path.stat().st_mtime, tables)


LEAKAGE = Shelf("leakage", label="leakage", read=_read, newest=attrgetter("ended_at"))
