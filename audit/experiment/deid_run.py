"""run_leakage: where the two systems meet: the name attack on models of de-identified notes.

Comes in: an order, de-identifiers. Goes out: leakage against missed names. For each arm the demo
hospital's notes are redacted, M_general is trained on them, and the model is attacked; every
trained model and every audit is kept, so that what was stopped goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from audit.deid.tagger import Tagger
from audit.demo import JAPANESE_PROMPT
from audit.errors import AuditCancelled
from audit.experiment.deid_arms import name_misses, released_texts, replaced_spans
from audit.experiment.deid_leakage import ArmResult, arm_row, leak_rows, split_rows
from audit.experiment.deid_notes import HospitalNotes, hospital_notes
from audit.experiment.deid_order import TAGGER, Arm, LeakageOrder
from audit.experiment.deid_tables import LeakageTables
from audit.experiment.deid_training import trained_arm
from audit.experiment.stages import StageProgress
from audit.progress import ProgressListener, StopQuestion
from audit.report import AuditReport
from audit.request import AuditRequest, GenerationSettings, PosteriorSettings
from audit.result_store import ResultStore
from audit.run import run_audit

Load = Callable[[str], Tagger]
"""Gives the de-identifier of an identifier."""

_BACKWARD = 3.0  # a training step costs three forward passes over its tokens
_CHARS_PER_TOKEN = {"en": 4.7, "ja": 1.1}
_TOKENS_PER_INPUT = 130.0
_TAGGING_COST = {True: 0.2, False: 1.0}  # a character, in tokens of the small model


@dataclass(frozen=True, eq=False)
class LeakageResult:
    """A finished experiment: its tables, and the digests of its audits in their order."""

    tables: LeakageTables
    digests: tuple[str, ...]


def run_leakage(
    order: LeakageOrder,
    *,
    load: Load,
    arms_folder: Path,
    store: ResultStore,
    notes: HospitalNotes | None = None,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> LeakageResult:
    """Do the whole experiment, or what is left of it.

    Parameters
    ----------
    load
        Gives each of the order's de-identifiers when its turn comes.
    arms_folder
        Where the trained models are kept.
    store
        Where audits are kept.
    notes
        Of another hospital than the demo's.
    progress, should_stop, say
        As in `run_audit`; `say` takes a sentence after each arm.

    Raises
    ------
    AuditError
        If a de-identifier cannot be used.
    AuditCancelled
        If `should_stop` said so; what is finished is kept.
    """
    hospital = notes or hospital_notes(order.language)
    stages = StageProgress(_costs(order, hospital), listener=progress)
    work = _Work(order, hospital, load, arms_folder, store, stages, should_stop)
    results = []
    for arm in order.arms:
        results.append(work.done(arm))
        say(_sentence(results[-1]))
    tables = LeakageTables(
        order=order,
        n_notes=len(hospital.documents),
        n_patients=hospital.n_patients,
        arms=tuple(arm_row(result) for result in results),
        leaks=leak_rows(results, seed=order.seed),
        splits=split_rows(results, seed=order.seed),
    )
    digests = (report.digest for result in results for report in result.reports.values())
    return LeakageResult(tables, tuple(dict.fromkeys(digests)))


@dataclass(frozen=True, eq=False)
class _Work:
    """The arms of one experiment."""

    order: LeakageOrder
    notes: HospitalNotes
    load: Load
    arms_folder: Path
    store: ResultStore
    stages: StageProgress
    should_stop: StopQuestion

    def done(self, arm: Arm) -> ArmResult:
        """De-identify, train, attack."""
        if self.should_stop():
            raise AuditCancelled
        order = self.order
        tagger = self.load(arm.tagger) if arm.kind == TAGGER else None
        spans = replaced_spans(
            self.notes, arm=arm, tagger=tagger, seed=order.seed, should_stop=self.should_stop
        )
        if tagger is not None:
            self.stages.finish(_tagging(arm))
        model = trained_arm(
            released_texts(self.notes, spans, mode=order.mode, seed=order.seed),
            title=f"demo {order.language}: {arm.code}",
            general=self.notes.general,
            epochs=order.epochs,
            seed=order.seed,
            folder=self.arms_folder,
            progress=self.stages.of(arm.code),
            should_stop=self.should_stop,
        )
        self.stages.finish(arm.code)
        reports = {
            scenario: self._audit(arm, scenario=scenario, hospital=model.path)
            for scenario in order.scenarios
        }
        misses = name_misses(self.notes, spans)
        return ArmResult(arm, tagger.digest if tagger else "", misses, model, reports)

    def _audit(self, arm: Arm, *, scenario: int, hospital: Path) -> AuditReport:
        stage = _attack(arm, scenario)
        report = run_audit(
            _request(self.order, self.notes, scenario=scenario, hospital=hospital),
            store=self.store,
            progress=self.stages.of(stage),
            should_stop=self.should_stop,
        )
        self.stages.finish(stage)
        return report


def _request(
    order: LeakageOrder, notes: HospitalNotes, *, scenario: int, hospital: Path
) -> AuditRequest:
    """Return the same question about every arm: only the hospital's model differs."""
    generation = GenerationSettings(n_documents=order.n_documents)
    if order.language == "ja":
        generation = replace(generation, prompt=JAPANESE_PROMPT)
    return AuditRequest(
        scenario_number=scenario,
        general=notes.general,
        hospital=hospital,
        candidates=notes.names,
        passages=notes.passages if scenario == 2 else None,
        generation=generation,
        posterior=PosteriorSettings(n_inputs=order.n_inputs, n_chain_inputs=0),
        seed=order.seed,
        device=order.device,
    )


def _costs(order: LeakageOrder, notes: HospitalNotes) -> Mapping[str, float]:
    """Return the stages with what each will cost, in tokens of forward passes; an estimate."""
    n_chars = sum(map(len, notes.texts))
    n_tokens = n_chars / _CHARS_PER_TOKEN[order.language]
    length = GenerationSettings()
    attacks = {
        2: _TOKENS_PER_INPUT * order.n_inputs,
        1: float(order.n_documents * length.n_steps * length.n_tokens),
    }
    costs: dict[str, float] = {}
    for number, arm in enumerate(order.arms):
        if arm.kind == TAGGER:
            costs[_tagging(arm)] = _TAGGING_COST[arm.tagger == "rules"] * n_chars
        costs[arm.code] = _BACKWARD * order.epochs * n_tokens
        for scenario in order.scenarios:
            # The first audit runs M_general too; the others take its evidence from the store.
            costs[_attack(arm, scenario)] = (2 if number == 0 else 1) * attacks[scenario]
    return costs


def _tagging(arm: Arm) -> str:
    return f"{arm.code}, tagging"


def _attack(arm: Arm, scenario: int) -> str:
    return f"{arm.code}, scenario {scenario}"


def _sentence(result: ArmResult) -> str:
    misses = result.misses
    return (
        f"{result.arm.code}: {misses.n_left} of {len(misses.mentions)} mentions left, "
        f"{result.model.n_steps} steps, loss {result.model.loss:.3f}."
    )
