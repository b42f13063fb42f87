"""The command `pretrain`: a hospital's model, or a better reference, out of notes and a model."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from audit.console import say
from audit.errors import AuditError
from audit.job_commands import answered
from audit.jobs.pretrain_job import pretrain_order, pretrain_question
from audit.models.registry import model_path
from audit.training.kept_models import MODEL, TrainedModel, read_training, run_dir, snapshot_name
from audit.training.settings import PRECISIONS, SCHEDULES, TrainSettings

_KEPT = "kept"
_SOURCES = {"private": "private", "public": "public", "other-names": "other_names"}
_DEFAULT = TrainSettings()


def add_pretrain(commands_of: Any) -> None:
    """Add the command's parser."""
    command = commands_of.add_parser(
        "pretrain", help="train a model further on notes, or from scratch; goes on where it stopped"
    )
    command.add_argument("--general", required=True, help="directory of the model to start from")
    notes = command.add_mutually_exclusive_group(required=True)
    notes.add_argument("--corpus", default="", help="identifier of a kept corpus")
    notes.add_argument("--notes", type=Path, help="file or folder of notes")
    command.add_argument("--source", choices=tuple(_SOURCES), default="private",
                         help="which notes of the corpus")  # fmt: skip
    command.add_argument("--other-names-seed", type=int, default=0)
    command.add_argument("--column", action="append", default=[], metavar="FIELD=NAME",
                         help="with --notes: which column holds a field, as text=body")  # fmt: skip
    command.add_argument("--out", default=_KEPT, help="folder of the training; kept: among the "
                         "trained models of this installation")  # fmt: skip
    command.add_argument("--title", default="", help="for the list of trained models")
    command.add_argument("--snapshots", default="", metavar="1,2,5",
                         help="epochs after which a copy is kept")  # fmt: skip
    _settings(command)
    command.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    command.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    command.set_defaults(command=pretrain)


def pretrain(options: Namespace) -> dict[str, Any]:
    """Train a model, or go on with its training."""
    out = None if options.out == _KEPT else Path(options.out).expanduser()
    order = pretrain_order(
        general=model_path(options.general, where="--general"),
        settings=_chosen(options),
        corpus_id=options.corpus,
        source=_SOURCES[options.source],
        notes=options.notes,
        columns=_columns(options.column),
        other_names_seed=options.other_names_seed,
        title=options.title,
        out=out,
        snapshot_epochs=_epochs(options.snapshots),
        device=options.device,
    )
    (run_id,) = answered(pretrain_question(order))
    folder = out or run_dir(run_id)
    trained = read_training(folder)
    if trained is None:
        raise AuditError("There is no such training.", where="trained model")
    say(_sentence(trained))
    say(f"The model: {folder / MODEL}")
    return summary(trained, folder=folder, run_id=run_id)


def summary(trained: TrainedModel, *, folder: Path, run_id: str) -> dict[str, Any]:
    """Return what came of a training as plain values."""
    facts = trained.facts
    return {
        "run_id": run_id,
        "model": str(folder / MODEL),
        "snapshots": {str(s): str(folder / snapshot_name(s)) for s in trained.snapshots},
        "parent": facts.parent,
        "parent_digest": facts.parent_digest,
        "source": facts.source,
        "corpus_id": facts.corpus_id,
        "n_steps": trained.n_steps_done,
        "n_epochs": trained.n_epochs_done,
        "n_train_tokens": facts.n_train_tokens,
        "n_documents": facts.n_documents,
        "n_held_out_documents": facts.n_held_out_documents,
        "n_listed_patients": facts.n_listed_patients,
        "loss": trained.loss,
        "held_out_loss_before": trained.first_held_out,
        "held_out_loss": trained.held_out,
        "unigram_loss": facts.unigram_loss,
        "precision": facts.precision,
        "device": facts.device,
        "kernels": facts.kernels,
        "versions": dict(facts.versions),
        "settings": asdict(facts.settings),
    }


def _settings(command: Any) -> None:
    d = _DEFAULT
    for option, kind, default, words in (
        ("--steps", int, d.n_steps, "steps"),
        ("--epochs", float, None, "times that every token is seen, in place of --steps"),
        ("--tokens", int, d.n_tokens, "tokens a row"),
        ("--batch", int, d.batch, "rows a step"),
        ("--micro-batch", int, None, "rows of one forward pass; names the training too"),
        ("--learning-rate", float, d.learning_rate, "the highest"),
        ("--head-learning-rate", float, None, "of the masked-LM head, if it is another"),
        ("--warmup-share", float, d.warmup_share, "share of the steps"),
        ("--weight-decay", float, d.weight_decay, "of matrices"),
        ("--mask-share", float, d.mask_share, "share of the positions asked for"),
        ("--clip", float, d.clip, "largest norm of a gradient"),
        ("--seed", int, d.seed, "of rows, masks, dropout and who is held out"),
        ("--held-out", float, d.held_out_share, "share of the patients never trained on"),
        ("--evaluate-every", int, d.evaluate_every, "steps between two held-out losses"),
        ("--checkpoint-every", int, d.checkpoint_every, "steps between two checkpoints"),
    ):  # fmt: skip
        command.add_argument(option, type=kind, default=default, help=words)
    command.add_argument("--schedule", choices=SCHEDULES, default=d.schedule)
    command.add_argument("--precision", choices=PRECISIONS, default=d.precision)
    command.add_argument("--from-scratch", action="store_true",
                         help="fresh weights in the model's shape")  # fmt: skip


def _chosen(options: Namespace) -> TrainSettings:
    micro_batch = options.micro_batch
    if micro_batch is None:  # the default one, or the largest below it that divides the batch
        micro_batch = _DEFAULT.micro_batch
        while options.batch > 0 and options.batch % micro_batch:
            micro_batch -= 1
    return TrainSettings(
        n_tokens=options.tokens,
        batch=options.batch,
        micro_batch=micro_batch,
        n_steps=options.steps,
        n_epochs=options.epochs,
        learning_rate=options.learning_rate,
        head_learning_rate=options.head_learning_rate,
        schedule=options.schedule,
        warmup_share=options.warmup_share,
        weight_decay=options.weight_decay,
        mask_share=options.mask_share,
        clip=options.clip,
        precision=options.precision,
        seed=options.seed,
        held_out_share=options.held_out,
        evaluate_every=options.evaluate_every,
        checkpoint_every=options.checkpoint_every,
        from_scratch=options.from_scratch,
    )


def _columns(texts: list[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for text in texts:
        field, sign, name = text.partition("=")
        if not (field and sign and name):
            raise AuditError("This is no FIELD=NAME.", where="--column", do="As text=body.")
        columns[field] = name
    return columns


def _epochs(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise AuditError(
            "These are no numbers with commas between.", where="--snapshots", do="As 1,2,5."
        ) from None


def _sentence(trained: TrainedModel) -> str:
    facts = trained.facts
    text = f"{trained.n_steps_done} steps, {trained.n_epochs_done:.2f} epochs"
    if trained.held_out is None or facts.unigram_loss is None:
        return f"{text}."
    return (
        f"{text}; held-out loss {trained.first_held_out:.3f} before, {trained.held_out:.3f} after "
        f"(guessing by frequency: {facts.unigram_loss:.3f}) nats a token."
    )
