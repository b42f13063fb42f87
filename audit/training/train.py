"""train: the one path from notes and a general model to a trained one, killed and gone on with.

Comes in: an order. Goes out: a folder with the model, its loss curve and what it was made of.

Source: Nakamura et al., section 3.3; ClinicalBERT (Alsentzer et al. 2019).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch
import transformers

from audit.corpora.listed_notes import ListedNotes, read_listed
from audit.corpora.notes import open_notes
from audit.errors import AuditError
from audit.models.checkpoints import forget_checkpoints
from audit.models.device import pick_device
from audit.models.load import LoadedModel, load_model
from audit.models.row_masking import SpecialIds
from audit.private_files import alone
from audit.progress import Meter, Progress, ProgressListener, StopQuestion
from audit.training.course import TRAIN, Course, PointListener
from audit.training.hardware import Hardware, in_force, pick_precision, same_sums
from audit.training.held_out import HeldOut, held_out
from audit.training.kept_models import (
    MODEL,
    TRAINING,
    TrainingFacts,
    read_facts,
    read_training,
    snapshot_name,
    write_facts,
)
from audit.training.learner import Learner
from audit.training.model_folder import fresh_weights, write_model
from audit.training.order import Snapshot, TrainOrder, TrainResult
from audit.training.rows import Rows, Stream, split_notes
from audit.training.settings import WHERE
from audit.training.token_file import TokenFile, content_digest
from audit.training.tokenizing import TOKENIZE, tokenized

_TRAINING_VERSION = 1


def train(
    order: TrainOrder,
    *,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> TrainResult:
    """Train a model, or go on with a training that was stopped or killed.

    Raises
    ------
    AuditError
        If the model or the notes are refused, the folder holds another training, memory runs out,
        or the loss is no longer a number.
    AuditCancelled
        If the person asked to stop; a checkpoint is kept and the same order goes on from there.
    """
    device = pick_device(order.device)
    general = load_model(order.general, device=device)
    _refuse_long_rows(order, general)
    with alone(order.out), torch.random.fork_rng(), same_sums(device):
        sources = tuple(open_notes(path, columns=order.columns) for path in order.notes)
        tokens = tokenized(
            sources,
            general.tokenizer,
            store=order.token_store or order.out / "tokens",
            progress=_part_of_all(TOKENIZE, progress),
            should_stop=should_stop,
        )
        precision = pick_precision(order.settings.precision, device=device)
        with in_force(general, device=device, precision=precision) as hardware:
            task = _task(order, general, tokens=tokens, hardware=hardware)
            if not (order.out / MODEL).is_dir():
                meter = Meter(
                    {TRAIN: float(task.facts.n_steps)},
                    listener=_part_of_all(TRAIN, progress),
                    should_stop=should_stop,
                )
                course = _course(order, task, general, hardware, meter=meter, on_point=on_point)
                course.run()
                write_model(course.learner.model, order.out / MODEL, parent=order.general)
    forget_checkpoints(order.out)
    return _result(order.out, task.facts)


@dataclass(frozen=True, eq=False)
class _Task:
    facts: TrainingFacts
    rows: Rows
    held_out: HeldOut | None
    special: SpecialIds


def _task(
    order: TrainOrder, general: LoadedModel, *, tokens: TokenFile, hardware: Hardware
) -> _Task:
    """Say what the training is; refuse a folder that holds another one."""
    settings = order.settings
    special = _special_ids(general)
    listed = read_listed(order.listed) if order.listed and settings.held_out_share else None
    split = split_notes(tokens, share=settings.held_out_share, seed=settings.seed, listed=listed)
    stream = Stream(tokens, split.train)
    rows = Rows(stream, special, settings.n_inner, settings.batch, settings.seed)
    measured = held_out(tokens, split, special=special, settings=settings)
    facts = TrainingFacts(
        title=order.title,
        parent=general.name,
        parent_digest=general.digest,
        corpus_id=order.corpus_id,
        source=order.source,
        settings=settings,
        n_steps=settings.steps(len(stream)),
        n_documents=len(split.train),
        n_train_tokens=len(stream),
        n_held_out_documents=len(split.held_out),
        unigram_loss=None if measured is None else measured.unigram_loss,
        key="",
        precision=hardware.precision,
        device=hardware.device,
        kernels=hardware.kernels,
        versions={"torch": torch.__version__, "transformers": transformers.__version__},
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        snapshots=order.snapshots(len(stream)),
        n_listed_patients=split.n_listed,
    )
    facts = replace(facts, key=_key(facts, tokens=tokens, listed=listed))
    before = _same_training(order.out, facts)
    if before is None:
        write_facts(order.out, facts)
    return _Task(before or facts, rows, measured, special)


def _course(
    order: TrainOrder,
    task: _Task,
    general: LoadedModel,
    hardware: Hardware,
    *,
    meter: Meter,
    on_point: PointListener,
) -> Course:
    model = general.model
    if order.settings.from_scratch:
        model = fresh_weights(model, seed=order.settings.seed).to(hardware.device)
    learner = Learner(
        model,
        settings=order.settings,
        special=task.special,
        hardware=hardware,
        n_steps=task.facts.n_steps,
    )
    return Course(
        learner, task.rows, task.held_out, task.facts, order.out, order.general, meter, on_point
    )


def _same_training(out: Path, facts: TrainingFacts) -> TrainingFacts | None:
    """Return what the folder holds of this very training; None where it is new.

    Raises
    ------
    AuditError
        If the folder holds another training.
    """
    before = read_facts(out)
    if before is None and not (out / TRAINING).exists() and not (out / MODEL).exists():
        return None
    if before is None or before.key != facts.key:
        raise AuditError(
            "The folder holds another training: other notes, another model or other settings.",
            where="out",
            do="Choose another folder, or ask for what was begun there.",
        )
    if not (out / MODEL).is_dir() and _place(before) != _place(facts):
        raise AuditError(
            f"This training was begun on {_place(before)}; here it would go on on {_place(facts)}.",
            where="out",
            do="Go on where it was begun, or begin in another folder.",
        )
    return before


def _place(facts: TrainingFacts) -> str:
    return f"{facts.device} in {facts.precision} with {facts.kernels} kernels"


def _key(facts: TrainingFacts, *, tokens: TokenFile, listed: ListedNotes | None) -> str:
    content = {
        "version": _TRAINING_VERSION,
        "parent": facts.parent_digest,
        "tokens": content_digest(tokens),
        "settings": facts.settings.decisive(),
        "snapshots": list(facts.snapshots),
    }
    if listed is not None:
        content["listed"] = listed.digest
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _special_ids(general: LoadedModel) -> SpecialIds:
    tokenizer = general.tokenizer
    return SpecialIds(
        cls=tokenizer.cls_token_id,
        sep=tokenizer.sep_token_id,
        mask=tokenizer.mask_token_id,
        sentence_ends=(),
        n_vocabulary=len(tokenizer),
    )


def _refuse_long_rows(order: TrainOrder, general: LoadedModel) -> None:
    if order.settings.n_tokens > general.n_positions:
        raise AuditError(
            f"Rows of {order.settings.n_tokens} tokens are longer than the {general.n_positions} "
            "that this model holds.",
            where=WHERE,
            do="Set `n_tokens` lower.",
        )


def _part_of_all(phase: str, listener: ProgressListener) -> ProgressListener:
    """Return a listener that tells one phase as a part of the whole training."""
    shares = {TOKENIZE: 0.05, TRAIN: 0.95}

    def listen(progress: Progress) -> None:
        is_training = phase == TRAIN
        done = shares[phase] * progress.share + (shares[TOKENIZE] if is_training else 0.0)
        parts = ((TOKENIZE, 1.0 if is_training else progress.share),
                 (TRAIN, progress.share if is_training else 0.0))  # fmt: skip
        left = progress.seconds_left if is_training else None
        listener(Progress(phase, done, 1.0, left, parts))

    return listen


def _result(out: Path, facts: TrainingFacts) -> TrainResult:
    done = read_training(out)
    assert done is not None
    tokens, settings = facts.n_train_tokens, facts.settings
    return TrainResult(
        run_dir=out,
        model_dir=out / MODEL,
        n_steps=facts.n_steps,
        n_epochs=settings.epochs(facts.n_steps, n_train_tokens=tokens),
        loss=float("nan") if done.loss is None else done.loss,
        first_held_out=done.first_held_out,
        held_out=done.held_out,
        unigram_loss=facts.unigram_loss,
        snapshots=tuple(
            Snapshot(step, settings.epochs(step, n_train_tokens=tokens), out / snapshot_name(step))
            for step in facts.snapshots
        ),
    )
