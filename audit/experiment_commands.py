"""What the command line does with an experiment: the whole of the paper's sections 3 and 4."""

from __future__ import annotations

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.console import say
from audit.deid_experiment_commands import add_leakage, leakage
from audit.errors import AuditError
from audit.experiment.order import GENERAL_TRAINING, PAPER_EPOCHS, TRAINING, ExperimentOrder
from audit.experiment.tables import TABLES_JSON, TABLES_MD
from audit.job_commands import answered
from audit.jobs.experiment_job import experiment_question
from audit.models.registry import model_path
from audit.request import GenerationSettings, PosteriorSettings
from audit.training.settings import PRECISIONS

N_TRIES = 10_000
"""Documents of scenario 1 and inputs of scenario 2, as in the paper."""


def add_experiment(commands_of: Any) -> None:
    """Add `python -m audit experiment`."""
    command = commands_of.add_parser(
        "experiment", help="corpus, models and both attacks of the paper, from notes to tables"
    )
    add = command.add_argument
    add("--notes", type=Path, default=None, help="notes with placeholders")
    add("--general", default=None, help="directory of M_general")
    add("--out", type=Path, required=True, help="a new folder, or a stopped experiment's")
    add("--column", type=_column, action="append", default=[], metavar="FIELD=NAME",
        help="a column of the notes, such as text=body")  # fmt: skip
    add("--sample", type=int, default=None, help="notes drawn at random")
    add("--all-names", action="store_true", help="also names of several tokens")
    add("--canaries", type=_whole_numbers, default=(), metavar="1,2,4,8",
        help="plant names so many times")  # fmt: skip
    add("--canary-names", type=int, default=10, help="names for each number")
    _training(command)
    add_leakage(command)
    add("--documents", type=int, default=None, help="of scenario 1")
    add("--steps", type=int, default=500, help="of a document")
    add("--inputs", type=int, default=None, help="of scenario 2")
    add("--chain-inputs", type=int, default=0, help="inputs of `chain`")
    add("--seed", type=int, default=0)
    add("--device", choices=("auto", "cpu", "cuda"), default="auto")
    add("--json", action="store_true", help="print one JSON object on stdout")
    command.set_defaults(command=experiment)


def _training(command: ArgumentParser) -> None:
    add = command.add_argument
    add("--epochs", type=_numbers, default=None, metavar="1,2,5,10,20",
        help="audit M_hospital after so many")  # fmt: skip
    add("--from-scratch", action="store_true", help="M_hospital with new weights")
    add("--batch", type=int, default=TRAINING.batch, help="rows a step")
    add("--micro-batch", type=int, default=None, help="rows of a forward pass")
    add("--tokens", type=int, default=TRAINING.n_tokens, help="of a row")
    add("--learning-rate", type=float, default=TRAINING.learning_rate)
    add("--precision", choices=PRECISIONS, default=TRAINING.precision)
    add("--general-notes", type=Path, default=None,
        help="notes without these names, on which M_general is trained first")  # fmt: skip
    add("--general-steps", type=int, default=GENERAL_TRAINING.n_steps)
    add("--general-learning-rate", type=float, default=GENERAL_TRAINING.learning_rate)
    add("--general-head-learning-rate", type=float, default=None,
        help="of its masked-LM head, where that is new")  # fmt: skip


def experiment(options: Namespace) -> dict[str, Any]:
    """Do the experiment as a registered job, and print its tables."""
    if options.deid:
        return leakage(options)
    answered(experiment_question(order_of(options), out=options.out))
    say((options.out / TABLES_MD).read_text(encoding="utf-8"))
    say(f"Written: {TABLES_JSON}, {TABLES_MD}")
    result: dict[str, Any] = json.loads((options.out / TABLES_JSON).read_text(encoding="utf-8"))
    return result


def order_of(options: Namespace) -> ExperimentOrder:
    """Return the order that the options ask for.

    Raises
    ------
    AuditError
        If one of them cannot be.
    """
    if options.notes is None or options.general is None:
        raise AuditError("Notes and a general model are needed.", where="experiment",
                         do="Give --notes and --general, or --deid.")  # fmt: skip
    rows = {
        "n_tokens": options.tokens,
        "batch": options.batch,
        "micro_batch": options.micro_batch or _largest_pass(options.batch),
        "precision": options.precision,
    }
    return ExperimentOrder(
        notes=options.notes.resolve(),
        general=model_path(options.general, where="--general").resolve(),
        general_notes=options.general_notes.resolve() if options.general_notes else None,
        columns=tuple(options.column),
        sample=options.sample,
        epochs=options.epochs or PAPER_EPOCHS,
        training=replace(
            TRAINING,
            **rows,
            learning_rate=options.learning_rate,
            from_scratch=options.from_scratch,
        ),
        general_training=replace(
            GENERAL_TRAINING,
            **rows,
            n_steps=options.general_steps,
            learning_rate=options.general_learning_rate,
            head_learning_rate=options.general_head_learning_rate,
        ),
        generation=GenerationSettings(
            n_documents=_or(options.documents, N_TRIES), n_steps=options.steps
        ),
        posterior=PosteriorSettings(
            n_inputs=_or(options.inputs, N_TRIES), n_chain_inputs=options.chain_inputs
        ),
        canary_counts=options.canaries,
        n_canaries=options.canary_names,
        single_tokens=not options.all_names,
        seed=options.seed,
        device=options.device,
    )


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value


def _largest_pass(batch: int) -> int:
    """Return the most rows of a forward pass that divide a step's rows."""
    most = range(min(batch, TRAINING.micro_batch), 0, -1)
    return next((n for n in most if batch % n == 0), 1)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError("numbers with commas between, like 1,2,5") from None


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ArgumentTypeError("whole numbers with commas between, like 1,2,4,8") from None


def _column(text: str) -> tuple[str, str]:
    field, is_there, name = text.partition("=")
    if not (field and is_there and name):
        raise ArgumentTypeError("a field and its column, like text=body")
    return field, name
