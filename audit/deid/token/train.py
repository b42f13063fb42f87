"""train_tagger: the path from annotated notes to a tagger, killed and gone on with.

Comes in: an order and its notes. Goes out: a folder with `tagger.json` and `model/`; while it runs,
`training.json`, `losses.jsonl`, `checkpoint/` and `best/` beside them. Killed at any moment and
begun again it goes on to the same weights.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import torch

from audit.deid.tagger_envelope import MODEL, TAGGER
from audit.deid.token.course import (
    MEASURE,
    TRAIN,
    Course,
    PointListener,
    forget_course,
    read_best,
)
from audit.deid.token.material import Material
from audit.deid.token.tagger_file import TaggerFacts, file_digests, read_tagger_file
from audit.deid.token.task import TRAINING, TaggerOrder, Task, task_of
from audit.deid.token.token_model import load_model_folder, save_model_folder
from audit.errors import AuditError
from audit.models.device import pick_device
from audit.models.precision import plain_float32
from audit.private_files import alone, whole_folder, write_whole
from audit.progress import Meter, ProgressListener, StopQuestion

__all__ = ["TaggerOrder", "train_tagger"]


def train_tagger(
    order: TaggerOrder,
    material: Material,
    *,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    on_point: PointListener = lambda point: None,
) -> TaggerFacts:
    """Train a tagger, or go on with a training that was stopped or killed.

    Raises
    ------
    AuditError
        If the encoder is refused, the folder holds another training, memory runs out, or the loss
        is no longer a number.
    AuditCancelled
        If the person asked to stop; a checkpoint is kept and the same order goes on from there.
    """
    device = pick_device(order.device)
    with alone(order.out), torch.random.fork_rng(), plain_float32(device):
        task = task_of(order, material, device=device)
        is_whole = _is_same(order.out, task)
        if not is_whole:
            totals = {
                TRAIN: float(task.lessons.n_steps), MEASURE: float(order.settings.n_evaluations),
            }  # fmt: skip
            meter = Meter(totals, listener=progress, should_stop=should_stop)
            Course(task, order.out, meter=meter, on_point=on_point).run()
            _finish(order, task)
            meter.finish(MEASURE)
    forget_course(order.out)
    return read_tagger_file(order.out)


def _is_same(out: Path, task: Task) -> bool:
    """Say what the folder is for, and whether it is done.

    Raises
    ------
    AuditError
        If the folder holds another training, or another tagger.
    """
    place = ("device", "precision")
    try:
        before = json.loads((out / TRAINING).read_text(encoding="ascii"))
        is_same, same_place = before["key"] == task.key, [before[name] for name in place]
    except FileNotFoundError:
        if (out / TAGGER).exists() or (out / MODEL).exists():
            raise _another() from None
        text = json.dumps(task.facts, indent=1, sort_keys=True)
        write_whole(out / TRAINING, text.encode("ascii"))
        return False
    except (OSError, ValueError, KeyError, TypeError):
        raise _another() from None
    if not is_same:
        raise _another()
    is_whole = (out / TAGGER).is_file()
    if not is_whole and same_place != [task.facts[name] for name in place]:
        raise AuditError(
            f"This training was begun on {same_place[0]} in {same_place[1]}.",
            where="out",
            do="Go on where it was begun, or begin in another folder.",
        )
    return is_whole


def _another() -> AuditError:
    return AuditError(
        "The folder holds another training: other notes, another encoder or other settings.",
        where="out",
        do="Choose another folder, or ask for what was begun there.",
    )


def _finish(order: TaggerOrder, task: Task) -> None:
    """Write the model, choose the bias with the very weights that were written, say what it is."""
    settings = task.settings
    with whole_folder(order.out / MODEL) as partial:
        save_model_folder(task.model, partial, is_halved=order.is_halved)
    device = str(task.model.device)
    model = load_model_folder(order.out / MODEL, n_tags=len(task.scheme), device=device)
    bias, figures = task.examiner.best_bias(
        task.examiner.scores(model), biases=settings.biases, beta=settings.recall_weight
    )
    best = read_best(order.out)
    n_tokens, overlap = task.tagging_rows
    facts = TaggerFacts(
        title=order.title,
        labels=task.scheme.labels,
        scheme=task.scheme.kind,
        n_tokens=n_tokens,
        overlap=overlap,
        bias=bias,
        files=file_digests(order.out / MODEL),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        training={**task.facts, **order.about, "best_step": best[0] if best else None},
        measured=figures.to_json(),
    )
    write_whole(order.out / TAGGER, facts.to_json().encode("ascii"))
