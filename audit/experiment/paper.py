"""run_experiment: sections 3 and 4 of the paper, from notes to tables; every stage is kept.

Comes in: an order and a folder. Goes out: the tables, as a value and as files in the folder:
`corpus/`, `general/` and `hospital/` (trainings with their snapshots), `tables.json`, `tables.md`.
Audits lie in the store. What was stopped goes on where it was.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import fmean

from audit.attack.question import AuditRequest
from audit.corpus.examine import Examination, read_examination
from audit.corpus.kept import CORPORA, list_of, passages_for
from audit.corpus.make import make_corpus
from audit.corpus.truth import PASSAGES, PRIVATE
from audit.errors import AuditError
from audit.experiment.paper_tables import (
    CONTROLS,
    SCENARIOS,
    TABLES_JSON,
    TABLES_MD,
    ExperimentTables,
    ExperimentTask,
    ExposureRow,
    tables_json,
    tables_markdown,
    tables_of,
)
from audit.notes.passages import read_passages
from audit.progress import Pace, Progress, ProgressListener, StopQuestion
from audit.run import run_audit
from audit.shelf import private_folder, write_private, write_whole
from audit.training.config import read_losses
from audit.training.kept import MODEL, MODELS, PretrainTask, snapshot_name
from audit.training.masked_lm import train
from cache.store import Store

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


class StageProgress:
    """Tells the progress of stages, one after the other, as that of the whole.

    `costs` are by stage, in their order; `listener` gets phases such as "hospital model: training".
    """

    def __init__(self, costs: Mapping[str, float], *, listener: ProgressListener) -> None:
        self._costs = dict(costs)
        self._listener = listener
        self._pace = Pace()
        self._skipped = 0.0

    def of(self, stage: str) -> ProgressListener:
        """Return the listener of one stage."""
        return lambda progress: self._tell(f"{stage}: {progress.phase}", stage, progress.share)

    def finish(self, stage: str, *, was_kept: bool = False) -> None:
        """Count a stage as done; one that was there already says nothing about the pace."""
        if was_kept:
            self._skipped += self._costs[stage]
        self._tell(stage, stage, 1.0)

    def _tell(self, phase: str, stage: str, share: float) -> None:
        stages = list(self._costs)
        before, total = stages[: stages.index(stage)], sum(self._costs.values())
        done = sum(self._costs[one] for one in before) + share * self._costs[stage]
        left = self._pace.seconds_left(
            done - self._skipped, total=total - self._skipped, now=time.monotonic()
        )
        self._listener(Progress(phase, done, total, left))


ORDER_FILE = "experiment.json"


def run_experiment(
    order: ExperimentTask,
    *,
    out: Path,
    store: Store,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
    say: Callable[[str], None] = lambda _: None,
) -> ExperimentTables:
    """Do the whole experiment, or what is left of it.

    Parameters
    ----------
    out
        A new or empty folder, or that of the same order.
    progress, should_stop, say
        As in `run_audit`; `say` takes a sentence after each stage.
    """
    _take_folder(order, out)
    stages = StageProgress(stage_costs(order), listener=progress)
    corpus, private = out / "corpus", out / "corpus" / PRIVATE
    found = _corpus(order, corpus, stages=stages, should_stop=should_stop)
    said = (
        f"{found.n_notes} notes",
        f"{found.n_positives} members",
        f"{found.n_passages} passages",
    )
    say(f"Corpus: {', '.join(said)}.")
    general = order.general
    if order.general_notes is not None:
        training = PretrainTask(
            general=general, notes=order.general_notes, out=out / "general",
            settings=order.general_training, title="General", device=order.device,
        )  # fmt: skip
        _train(training, GENERAL, stages=stages, should_stop=should_stop, say=say)
        general = out / "general" / MODEL
    training = PretrainTask(
        general=general, notes=private, out=out / "hospital", settings=order.training,
        title="Hospital", device=order.device, snapshot_epochs=order.epochs,
    )  # fmt: skip
    copies = _train(training, HOSPITAL, stages=stages, should_stop=should_stop, say=say)
    exposures, reports = _exposures(order, out / "hospital"), {}
    for question in _questions(order, corpus, general=general):
        for row in exposures:
            stage = audit_stage(row.epochs, scenario=question.scenario_number)
            report = run_audit(
                question.with_(hospital=copies[row.step]), store=store,
                progress=stages.of(stage), should_stop=should_stop,
            )  # fmt: skip
            stages.finish(stage)
            say(f"{stage.capitalize()}: {report.verdict.english}")
            reports[row.epochs, question.scenario_number] = report
    tables = tables_of(reports, examination=found, exposures=exposures)
    text = json.dumps(tables_json(tables), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    markdown = tables_markdown(tables)
    write_private({TABLES_JSON: text.encode(), TABLES_MD: markdown.encode()}, out)
    return tables


def _corpus(
    order: ExperimentTask, folder: Path, *, stages: StageProgress, should_stop: StopQuestion
) -> Examination:
    """Build D_private, D_public and the candidate list, once (sections 3.2 and 3.4)."""
    is_kept = folder.is_dir()
    if not is_kept:
        listener = stages.of(CORPUS)
        make_corpus(order.corpus(), out=folder, progress=listener, should_stop=should_stop)
    stages.finish(CORPUS, was_kept=is_kept)
    return read_examination(folder)


def _train(
    training: PretrainTask,
    stage: str,
    *,
    stages: StageProgress,
    should_stop: StopQuestion,
    say: Callable[[str], None],
) -> dict[int, Path]:
    """Train, or go on; returns the copies by step."""
    was_whole = (training.folder / MODEL).is_dir()
    done = train(training, progress=stages.of(stage), should_stop=should_stop)
    stages.finish(stage, was_kept=was_whole)
    if done.loss is not None:
        held = "" if done.held_out is None else f", held-out loss {done.held_out:.2f}"
        loss = f"training loss {done.loss:.2f}{held}"
        say(f"{stage.capitalize()}: {done.n_steps_done} steps, {loss}.")
    return {step: done.folder / snapshot_name(step) for step in done.snapshots}


def _questions(order: ExperimentTask, folder: Path, *, general: Path) -> Iterator[AuditRequest]:
    """Yield each scenario's question of M_general beside itself."""
    corpus = CORPORA.at(folder)
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


def _take_folder(order: ExperimentTask, out: Path) -> None:
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
    path = private_folder(out) / ORDER_FILE
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


def _unreadable(error: OSError) -> AuditError:
    return AuditError("Cannot be read ({strerror}).", where="notes", strerror=error.strerror)


def _exposures(order: ExperimentTask, folder: Path) -> tuple[ExposureRow, ...]:
    """Return how far M_hospital was each time it was copied."""
    facts, points = MODELS.at(folder).facts, read_losses(folder)
    rows = []
    for epochs in order.epochs:
        step = facts.settings.steps_of_epochs(epochs, n_train_tokens=facts.n_train_tokens)
        last = [p.loss for p in points if step - 10 < p.step <= step and p.loss is not None]
        rows.append(ExposureRow(epochs, step, fmean(last) if last else math.nan))
    return tuple(rows)
