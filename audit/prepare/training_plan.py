"""The plan of a training: tokens of the notes, steps, epochs, time, and whether it was done before.

Comes in: a general model, a file of a corpus, settings. Goes out: frozen values for the screen.
Torch-free; transformers is imported where a tokenizer is built, and not before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit.corpora.listed_notes import listed_file, read_listed
from audit.errors import AuditError
from audit.models.files import ModelSummary, inspect_model
from audit.models.registry import RegisteredModel
from audit.prepare.pair_check import is_quick, known_digest, tokenizer
from audit.training.kept_models import TrainedModel, model_dir, run_dir
from audit.training.note_text import prepared_sentences
from audit.training.settings import TrainSettings
from audit.training.train_log import read_losses

PRESETS = ("small", "clinicalbert", "scratch")
SMALL_EPOCHS, SMALL_STEPS = 10, 2_000
SAMPLE_BYTES = 1_000_000
"""What is read of a file to judge how many tokens all of it has."""

_SMALL_WIDTH = 256
_MIN_SECONDS = 2.0
_SIZE_RATIO = 3.0


@dataclass(frozen=True)
class NotesLoad:
    """How much text there is to train on.

    Attributes
    ----------
    n_notes
        Notes with any text in them; as the corpus says where it was not all read.
    n_tokens
        Tokens of all of them after the text was prepared, one [SEP] a note included.
    is_exact
        Whether all of it was read; otherwise judged by the first million bytes.
    free_share
        Share of the patients that may be held out: those with a listed name may not.
    """

    n_notes: int
    n_tokens: int
    is_exact: bool
    free_share: float = 1.0


@dataclass(frozen=True)
class TrainingPlan:
    """What a training will take.

    Attributes
    ----------
    load
        The notes.
    n_train_tokens
        Tokens that are trained on: those of held-out patients are not.
    n_rows
        Rows of one epoch.
    n_steps, n_epochs
        Length of the training, both ways.
    steps_per_epoch
        Steps in which every token is seen once.
    seconds
        Expected time; None where nothing like it was ever measured on this device.
    """

    load: NotesLoad
    n_train_tokens: int
    n_rows: int
    n_steps: int
    n_epochs: float
    steps_per_epoch: float
    seconds: float | None


def preset(code: str, *, parent: ModelSummary, n_tokens: int) -> TrainSettings:
    """Return the settings of a preset for a general model and notes of so many tokens.

    "clinicalbert" are the paper's; "scratch" the same from fresh weights, with BERT's own learning
    rate (Devlin et al. 2019); "small" a few passes over the notes that a processor can make.

    Raises
    ------
    ValueError
        If there is no such preset.
    """
    if code not in PRESETS:
        raise ValueError("there is no such preset")
    row = min(128, parent.n_positions)
    if code == "clinicalbert":
        return TrainSettings(n_tokens=row)
    if code == "scratch":
        return TrainSettings(n_tokens=row, from_scratch=True, learning_rate=1e-4)
    small = TrainSettings(
        n_tokens=row,
        batch=32,
        micro_batch=32,
        n_epochs=SMALL_EPOCHS,
        learning_rate=5e-4 if parent.hidden_size <= _SMALL_WIDTH else 1e-4,
        held_out_share=0.05,
    )
    n_steps = small.steps(n_tokens)
    if n_steps > SMALL_STEPS:
        n_steps, small = SMALL_STEPS, replace(small, n_epochs=None, n_steps=SMALL_STEPS)
    every = max(1, n_steps // 20)
    return replace(small, evaluate_every=every, checkpoint_every=max(50, every))


def notes_load(path: Path, *, n_notes: int, model: Path) -> NotesLoad:
    """Count a file's tokens as a model's tokenizer splits them.

    Parameters
    ----------
    path
        JSON lines with a field "text"; who of the corpus is listed is read beside it.
    n_notes
        Notes of the whole file.

    Raises
    ------
    AuditError
        If the file or the model cannot be read.
    """
    split = tokenizer(model)
    try:
        n_bytes = path.stat().st_size
        read = [(n, _n_tokens(text, split=split)) for n, text in _first_texts(path)]
    except OSError as error:
        raise AuditError(
            f"The notes cannot be read ({error.strerror}).", where="corpus", do="Build it again."
        ) from None
    listed = listed_file(path)
    free = 1.0 if listed is None else read_listed(listed).free_share
    n_read = sum(n for n, _ in read)
    counts = [count for _, count in read if count]
    n_tokens = sum(counts) + len(counts)
    if n_read >= n_bytes:
        return NotesLoad(len(counts), n_tokens, is_exact=True, free_share=free)
    n_tokens = round(n_tokens * n_bytes / max(1, n_read))
    return NotesLoad(n_notes, n_tokens, is_exact=False, free_share=free)


def make_training_plan(
    settings: TrainSettings,
    *,
    parent: ModelSummary,
    load: NotesLoad,
    seconds_per_work: float | None = None,
) -> TrainingPlan:
    """Return what a training will take.

    Raises
    ------
    AuditError
        If rows are longer than the model can read, or the notes do not fill one.
    """
    if settings.n_tokens > parent.n_positions:
        raise AuditError(
            f"This model reads at most {parent.n_positions} tokens at once.",
            where="training settings",
            do="Choose shorter rows.",
        )
    n_train = round(load.n_tokens * (1 - min(settings.held_out_share, load.free_share)))
    n_rows = settings.n_rows(n_train)
    if not n_rows:
        raise AuditError(
            "The notes are too short: they do not fill a single row.",
            where="corpus",
            do="Choose shorter rows or more notes.",
        )
    n_steps = settings.steps(n_train)
    work = n_steps * settings.batch * settings.n_tokens * parent.n_parameters
    return TrainingPlan(
        load=load,
        n_train_tokens=n_train,
        n_rows=n_rows,
        n_steps=n_steps,
        n_epochs=settings.epochs(n_steps, n_train_tokens=n_train),
        steps_per_epoch=n_rows / settings.batch,
        seconds=None if seconds_per_work is None else seconds_per_work * work,
    )


def measured_pace(
    models: Iterable[TrainedModel], *, device: str, n_parameters: int
) -> float | None:
    """Return the seconds that a token times a parameter took in the newest like training.

    Like: on the same kind of device, with a model of at most three times or a third of the size.
    None where there is no such training.
    """
    for model in models:
        if not model.is_whole or model.facts.device.partition(":")[0] != device:
            continue
        try:
            n = inspect_model(model_dir(model.run_id)).n_parameters
        except AuditError:
            continue
        points = read_losses(run_dir(model.run_id))
        is_like = n_parameters / _SIZE_RATIO <= n <= n_parameters * _SIZE_RATIO
        if is_like and points and points[-1].seconds >= _MIN_SECONDS:
            settings = model.facts.settings
            work = points[-1].step * settings.batch * settings.n_tokens * n
            return points[-1].seconds / work
    return None


def same_training(
    models: Iterable[TrainedModel],
    *,
    parent: Path,
    corpus_id: str,
    source: str,
    settings: TrainSettings,
) -> TrainedModel | None:
    """Return the kept training that was asked the same, the newest first; None without one.

    A large model's digest is not read for this: its name has to do.
    """
    name = inspect_model(parent).name
    digest = known_digest(parent) if is_quick(parent) else ""
    for model in models:
        facts = model.facts
        is_parent = facts.parent_digest == digest if digest else facts.parent == name
        if (
            is_parent
            and (facts.corpus_id, facts.source) == (corpus_id, source)
            and facts.settings.decisive() == settings.decisive()
        ):
            return model
    return None


def parent_of(model: TrainedModel, *, among: Iterable[RegisteredModel]) -> RegisteredModel | None:
    """Return the general model that a training started from, if it is still in the list.

    Where several have its name, the digest tells them apart; a large model's is not read for this.
    """
    alike = [
        one for one in among if one.summary is not None and one.summary.name == model.facts.parent
    ]
    quick = [one for one in alike if is_quick(one.path)]
    same = [one for one in quick if known_digest(one.path) == model.facts.parent_digest]
    others = [one for one in alike if one not in quick]
    return next(iter(same or others), None)


def _n_tokens(text: str, *, split: Any) -> int:
    sentences = prepared_sentences(text)
    if not sentences:
        return 0
    coded = split(sentences, add_special_tokens=False, verbose=False)
    return sum(map(len, coded["input_ids"]))


def _first_texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each line's length in bytes and its text, until enough was read."""
    n_read = 0
    with path.open("rb") as file:
        for line in file:
            try:
                text = json.loads(line)["text"]
            except (ValueError, KeyError, TypeError):
                raise AuditError(
                    "The notes are damaged.", where="corpus", do="Build it again."
                ) from None
            yield len(line), str(text)
            n_read += len(line)
            if n_read >= SAMPLE_BYTES:
                return
