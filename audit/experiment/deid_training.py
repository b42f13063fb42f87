"""Trains the hospital model of one arm: M_general continued on its notes, kept by digest.

Comes in: notes as texts. Goes out: the directory of a model. Every arm starts from the same
M_general, with the same seeds and the same recipe as the demo's models: only the notes differ.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.demo_build import save_model, special_ids
from audit.errors import AuditCancelled
from audit.models.files import model_digest
from audit.models.load import LoadedModel, load_model
from audit.models.precision import onednn_float32
from audit.models.pretrain import PretrainSettings, pretrain
from audit.models.row_masking import Ids
from audit.models.trained import MODEL_FOLDER, RUN_FILE
from audit.private_files import private_folder, whole_folder, write_whole
from audit.progress import Pace, Progress, ProgressListener, StopQuestion
from audit.request import question_digest

VERSION = 1
"""Raised whenever a change of code moves a weight: arms of older versions are trained anew."""

SETTINGS = PretrainSettings(n_rows=16)
_N_DIGITS = 12
_N_LAST = 50
_SEED_STEP = 1  # as in the demo: M_general has the seed itself


@dataclass(frozen=True)
class ArmModel:
    """A trained arm: its directory, steps, tokens of its notes, mean loss of the last steps."""

    path: Path
    n_steps: int
    n_tokens: int
    loss: float


def trained_arm(
    texts: Sequence[str],
    *,
    title: str,
    general: Path,
    epochs: float,
    seed: int,
    folder: Path,
    progress: ProgressListener = lambda _: None,
    should_stop: StopQuestion = lambda: False,
) -> ArmModel:
    """Train M_general on notes for some epochs, or return the model that is kept.

    Parameters
    ----------
    title
        What the model is called in reports.
    folder
        Where trained arms are kept, each in a folder named by its question.

    Raises
    ------
    AuditCancelled
        If `should_stop` said so; the arm then begins anew.
    """
    question = {
        "version": VERSION, "title": title, "general": model_digest(general), "epochs": epochs,
        "seed": seed, "notes": question_digest({"texts": list(texts)}),
    }  # fmt: skip
    run = private_folder(folder / question_digest(question)[:_N_DIGITS])
    if (known := _kept(run)) is not None:
        return known
    loaded = load_model(general)
    encoded = loaded.tokenizer(list(texts), add_special_tokens=False, verbose=False)
    documents = [np.array(ids, dtype=np.int64) for ids in encoded["input_ids"]]
    n_tokens = sum(len(document) + 1 for document in documents)
    n_steps = max(1, round(epochs * SETTINGS.steps_per_epoch(n_tokens)))
    losses = _train(
        loaded, documents, n_steps=n_steps, seed=seed, progress=progress, should_stop=should_stop
    )
    with whole_folder(run / MODEL_FOLDER) as place:
        save_model(loaded.model, loaded.tokenizer, place)
    loss = float(np.mean(losses[-_N_LAST:]))
    facts = {"title": title, "n_steps": n_steps, "n_tokens": n_tokens, "loss": loss}
    write_whole(run / RUN_FILE, (json.dumps(facts) + "\n").encode())
    return ArmModel(run / MODEL_FOLDER, n_steps, n_tokens, loss)


def _train(
    loaded: LoadedModel,
    documents: Sequence[Ids],
    *,
    n_steps: int,
    seed: int,
    progress: ProgressListener,
    should_stop: StopQuestion,
) -> list[float]:
    """Train a model in place; returns the loss of each step."""
    losses: list[float] = []
    pace = Pace()

    def after_step(step: int, loss: float) -> None:
        losses.append(loss)
        left = pace.seconds_left(step, total=n_steps, now=time.monotonic())
        progress(Progress("training", step, n_steps, left))
        if should_stop():
            raise AuditCancelled

    with onednn_float32():
        pretrain(
            loaded.model, documents, special=special_ids(loaded.tokenizer), n_steps=n_steps,
            seed=seed + _SEED_STEP, settings=SETTINGS, after_step=after_step,
        )  # fmt: skip
    return losses


def _kept(run: Path) -> ArmModel | None:
    """Return a trained arm; its facts are written last, so that where they are it is whole."""
    try:
        facts = json.loads((run / RUN_FILE).read_text(encoding="utf-8"))
        return ArmModel(
            run / MODEL_FOLDER, int(facts["n_steps"]), int(facts["n_tokens"]), float(facts["loss"])
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
