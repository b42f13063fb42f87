"""run_experiment: sections 3 and 4 of the paper, from notes to tables; every stage is kept.

Comes in: an order and a folder. Goes out: the tables, as a value and as files in the folder:
`corpus/`, `general/` and `hospital/` (trainings with their snapshots), `tables.json`, `tables.md`.
Audits lie in the store. What was stopped goes on where it was.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from audit.attack.question import AuditRequest
from audit.corpus.examine import read_examination
from audit.corpus.kept import CORPORA, list_of, passages_for
from audit.corpus.make import make_corpus
from audit.corpus.truth import PASSAGES, PRIVATE
from audit.errors import AuditError
from audit.experiment.paper_tables import (
    CONTROLS,
    TABLES_JSON,
    TABLES_MD,
    ExperimentTables,
    ExperimentTask,
    ExposureRow,
    tables_json,
    tables_markdown,
    tables_of,
)
from audit.names.candidates import Candidates
from audit.notes.passages import Passages, read_passages
from audit.progress import Pace, Progress, ProgressListener, StopQuestion
from audit.report.report import AuditReport
from audit.run import run_audit
from audit.shelf import private_folder, write_whole
from audit.training.config import read_losses
from audit.training.kept import MODEL, MODELS, PretrainTask, snapshot_name
from audit.training.masked_lm import train
from cache.store import Store

CORPUS, GENERAL, HOSPITAL = "corpus", "general model", "hospital model"
SCENARIOS = (2, 1)
"""In the order in which they are run: the cheaper one first, at all exposures."""
_BACKWARD = 3.0  # a training step costs three forward passes over its tokens
_CORPUS_COST = 1e-4  # of a corpus's byte, in tokens of a forward pass
_CHARS_PER_TOKEN, _TOKENS_PER_INPUT = 4.3, 130.0
_CHAIN_PASSES = 400.0


def audit_stage(epochs: float, *, scenario: int) -> str:
    """Return the name of the stage that audits one exposure in one scenario."""
    return f"audit after {epochs:g} epochs, scenario {scenario}"


def stage_costs(order: ExperimentTask) -> dict[str, float]:
    """Return the stages in their order with what each will cost, in tokens of forward passes.

    An estimate from the size of the notes: it only weighs the stages against each other.
    """
    n_bytes = _n_bytes(order.notes)
    costs = {CORPUS: 1.0 + _CORPUS_COST * n_bytes}
    if order.general_notes is not None:
        training = order.general_training
        costs[GENERAL] = _BACKWARD * training.n_steps * training.batch * training.n_tokens
    costs[HOSPITAL] = _BACKWARD * order.epochs[-1] * n_bytes / _CHARS_PER_TOKEN
    generation, posterior = order.generation, order.posterior
    of_scenario = {
        2: _TOKENS_PER_INPUT * (posterior.n_inputs + _CHAIN_PASSES * posterior.n_chain_inputs),
        1: float(generation.n_documents * generation.n_steps * generation.n_tokens),
    }
    for scenario in SCENARIOS:
        for number, epochs in enumerate(order.epochs):
            # The first audit runs M_general too; the others take its evidence from the store.
            n_models = 2 if number == 0 else 1
            costs[audit_stage(epochs, scenario=scenario)] = n_models * of_scenario[scenario]
    return costs


def _n_bytes(notes: Path) -> int:
    try:
        if notes.is_dir():
            return sum(file.stat().st_size for file in notes.rglob("*.txt"))
        return notes.stat().st_size
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where="notes") from None


class StageProgress:
    """Tells the progress of stages, one after the other, as that of the whole.

    Parameters
    ----------
    costs
        Stage -> its cost, in the order of the stages.
    listener
        Gets phases such as "hospital model: training".
    """

    def __init__(self, costs: Mapping[str, float], *, listener: ProgressListener) -> None:
        self._costs = dict(costs)
        self._total = sum(costs.values())
        self._listener = listener
        self._pace = Pace()
        self._skipped = 0.0

    def of(self, stage: str) -> ProgressListener:
        """Return the listener of one stage."""
        before = self._before(stage)

        def listen(progress: Progress) -> None:
            self._tell(f"{stage}: {progress.phase}", before + progress.share * self._costs[stage])

        return listen

    def finish(self, stage: str, *, was_kept: bool = False) -> None:
        """Count a stage as done; one that was there already says nothing about the pace."""
        if was_kept:
            self._skipped += self._costs[stage]
        self._tell(stage, self._before(stage) + self._costs[stage])

    def _before(self, stage: str) -> float:
        names = list(self._costs)
        return sum(self._costs[name] for name in names[: names.index(stage)])

    def _tell(self, phase: str, done: float) -> None:
        left = self._pace.seconds_left(
            done - self._skipped, total=self._total - self._skipped, now=time.monotonic()
        )
        self._listener(Progress(phase, done, self._total, left))


ORDER_FILE = "experiment.json"
_CORPUS, _GENERAL, _HOSPITAL = "corpus", "general", "hospital"


@dataclass(frozen=True, eq=False)
class ExperimentResult:
    """A finished experiment: its tables, and the digests of its audits in their order."""

    tables: ExperimentTables
    digests: tuple[str, ...]


def run_experiment(
    order: ExperimentTask,
    *,
    out: Path,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> ExperimentResult:
    """Do the whole experiment, or what is left of it.

    Parameters
    ----------
    out
        A new or empty folder, or that of the same order.
    store
        Where audits are kept.
    progress, should_stop, say
        As in `run_audit`; `say` takes a sentence after each stage.
    """
    _take_folder(order, out)
    work = _Work(order, out, StageProgress(stage_costs(order), listener=progress), should_stop, say)
    work.corpus()
    general = work.general()
    models = work.hospital(general)
    corpus = CORPORA.at(out / _CORPUS)
    candidates = list_of(corpus, controls=CONTROLS)
    data = passages_for(corpus, candidates, seed=order.seed)
    passages = read_passages(data, what="passages", file_name=PASSAGES)
    reports: dict[tuple[float, int], AuditReport] = {}
    for scenario in SCENARIOS:
        for epochs, hospital in models.items():
            request = _request(
                order, scenario, general=general, hospital=hospital,
                candidates=candidates, passages=passages,
            )  # fmt: skip
            reports[epochs, scenario] = work.audit(request, epochs=epochs, store=store)
    examination = read_examination(out / _CORPUS)
    tables = tables_of(reports, examination=examination, exposures=work.exposures())
    text = json.dumps(tables_json(tables), ensure_ascii=False, indent=1, allow_nan=False)
    write_whole(out / TABLES_JSON, f"{text}\n".encode())
    write_whole(out / TABLES_MD, tables_markdown(tables).encode())
    return ExperimentResult(tables, tuple(report.digest for report in reports.values()))


def _take_folder(order: ExperimentTask, out: Path) -> None:
    """Note whose folder this is; refuse one with other things, or of another order."""
    content = {
        "digest": order.trained_digest(),
        "notes": [_state(path) for path in (order.notes, order.general_notes) if path],
        "order": order.plain(),
    }
    private_folder(out)
    path = out / ORDER_FILE
    try:
        if not path.exists():
            if any(out.iterdir()):
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


def _state(notes: Path) -> list[int]:
    try:
        state = notes.stat()
    except OSError as error:
        raise AuditError(f"Cannot be read ({error.strerror}).", where="notes") from None
    return [state.st_size, state.st_mtime_ns]


@dataclass(frozen=True, eq=False)
class _Work:
    """The stages of one experiment."""

    order: ExperimentTask
    out: Path
    progress: StageProgress
    should_stop: StopQuestion
    say: Callable[[str], None]

    def corpus(self) -> None:
        """Build D_private, D_public and the candidate list (sections 3.2 and 3.4)."""
        is_kept = (self.out / _CORPUS).is_dir()
        if not is_kept:
            make_corpus(
                self.order.corpus(),
                out=self.out / _CORPUS,
                progress=self.progress.of(CORPUS),
                should_stop=self.should_stop,
            )
        self.progress.finish(CORPUS, was_kept=is_kept)
        found = read_examination(self.out / _CORPUS)
        self.say(
            f"Corpus: {found.n_notes} notes, {found.n_positives} members, "
            f"{found.n_passages} passages."
        )

    def general(self) -> Path:
        """Return M_general, trained on notes without these names where there are such."""
        notes = self.order.general_notes
        if notes is None:
            return self.order.general
        folder = self.out / _GENERAL
        was_whole = (folder / MODEL).is_dir()
        train(
            PretrainTask(
                general=self.order.general, notes=notes, out=folder,
                settings=self.order.general_training, title="General", device=self.order.device,
            ),
            progress=self.progress.of(GENERAL),
            should_stop=self.should_stop,
        )  # fmt: skip
        self.progress.finish(GENERAL, was_kept=was_whole)
        self._say_losses(folder, what="General model")
        return folder / MODEL

    def hospital(self, general: Path) -> dict[float, Path]:
        """Return M_hospital after each number of epochs on D_private: copies along one run."""
        folder = self.out / _HOSPITAL
        was_whole = (folder / MODEL).is_dir()
        train(
            PretrainTask(
                general=general, notes=self.out / _CORPUS / PRIVATE, out=folder,
                settings=self.order.training, title="Hospital", device=self.order.device,
                snapshot_epochs=self.order.epochs,
            ),
            progress=self.progress.of(HOSPITAL),
            should_stop=self.should_stop,
        )  # fmt: skip
        self.progress.finish(HOSPITAL, was_kept=was_whole)
        self._say_losses(folder, what="Hospital model")
        return {n: folder / snapshot_name(self._step(n, folder)) for n in self.order.epochs}

    def exposures(self) -> tuple[ExposureRow, ...]:
        """Return how far M_hospital was each time it was copied."""
        folder = self.out / _HOSPITAL
        points = read_losses(folder)
        rows = []
        for epochs in self.order.epochs:
            step = self._step(epochs, folder)
            last = [p.loss for p in points if step - 10 < p.step <= step and p.loss is not None]
            rows.append(ExposureRow(epochs, step, fmean(last) if last else math.nan))
        return tuple(rows)

    def _step(self, epochs: float, folder: Path) -> int:
        facts = MODELS.at(folder).facts
        return facts.settings.steps_of_epochs(epochs, n_train_tokens=facts.n_train_tokens)

    def audit(self, request: AuditRequest, *, epochs: float, store: Store) -> AuditReport:
        """Audit one exposure in one scenario."""
        stage = audit_stage(epochs, scenario=request.scenario_number)
        report = run_audit(
            request, store=store, progress=self.progress.of(stage), should_stop=self.should_stop
        )
        self.progress.finish(stage)
        self.say(f"{stage.capitalize()}: {report.verdict.english}")
        return report

    def _say_losses(self, folder: Path, *, what: str) -> None:
        training = MODELS.at(folder)
        if training.loss is not None:
            held = "" if training.held_out is None else f", held-out loss {training.held_out:.2f}"
            n = training.n_steps_done
            self.say(f"{what}: {n} steps, training loss {training.loss:.2f}{held}.")


def _request(
    order: ExperimentTask,
    scenario: int,
    *,
    general: Path,
    hospital: Path,
    candidates: Candidates,
    passages: Passages,
) -> AuditRequest:
    return AuditRequest(
        scenario_number=scenario,
        general=general,
        hospital=hospital,
        candidates=candidates,
        passages=passages if scenario == 2 else None,
        generation=order.generation,
        posterior=order.posterior,
        seed=order.seed,
        device=order.device,
    )
