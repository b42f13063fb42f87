"""train_generative: the one path from gold notes and a causal language model to a tagger.

Comes in: an order. Goes out: a folder with `tagger.json`, `model` and the loss curve. Killed at any
moment and begun again it goes on from the last checkpoint, on a CPU to the same weights.

Source: paper 002, section 2.3 (supervised fine-tuning on note -> note with tags).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
import transformers

from audit.deid.documents import TaggedDocument
from audit.deid.formats import guess_format, read_unnamed
from audit.deid.generation.adapter import merged, with_adapter
from audit.deid.generation.causal_model import (
    CausalModel,
    directory_digest,
    load_causal,
    model_files,
)
from audit.deid.generation.examples import Example, Examples, examples_of
from audit.deid.generation.generative_file import GenerativeFacts, read_generative_file
from audit.deid.generation.learner import Learner
from audit.deid.generation.pieces import room_in
from audit.deid.generation.prompt import frame_of
from audit.deid.generation.tuning_course import TUNE, Course
from audit.deid.generation.tuning_order import GenerativeOrder, GenerativeResult
from audit.deid.tagger_envelope import MODEL, TAGGER
from audit.deid.token.train_points import TrainPoint
from audit.errors import AuditError
from audit.models.checkpoints import forget_checkpoints
from audit.private_files import private_folder, unwritable, whole_folder, write_whole
from audit.progress import Meter, ProgressListener, StopQuestion

_VERSION = 1
_STATE = "training.json"
_TOKENIZER_OF = (".json", ".model", ".jinja", ".txt", ".tiktoken")
_NOT_OF_THE_TOKENIZER = {"config.json", "generation_config.json", "model.safetensors.index.json"}


def train_generative(
    order: GenerativeOrder,
    progress: ProgressListener = lambda report: None,
    should_stop: StopQuestion = lambda: False,
    *,
    on_point: Callable[[TrainPoint], None] = lambda point: None,
) -> GenerativeResult:
    """Tune a model, or go on with a tuning that was stopped or killed.

    Raises
    ------
    AuditError
        If model or notes are refused, the folder holds another tuning, memory runs out, or the loss
        is no longer a number.
    AuditCancelled
        If the person asked to stop; a checkpoint is kept and the same order goes on from there.
    """
    settings = order.settings
    with _alone(order.out), torch.random.fork_rng():
        loaded = load_causal(
            order.model, device=order.device, precision=settings.precision,
            is_frozen=settings.lora is not None,
        )  # fmt: skip
        examples = _examples(order.gold, order, loaded, what="gold notes")
        held_out = (
            _examples(order.validation, order, loaded, what="validation notes").rows
            if order.validation
            else ()
        )
        key = _key(order, loaded, examples)
        done = _same_tuning(order.out, key)
        if done is None:
            done = _tuned(
                order, loaded, examples, held_out, key=key, on_point=on_point,
                meter=Meter(
                    {TUNE: float(settings.n_steps(len(examples.rows)))},
                    listener=progress, should_stop=should_stop,
                ),
            )  # fmt: skip
    forget_checkpoints(order.out)
    return done


def gold_notes(paths: tuple[Path, ...], *, what: str) -> tuple[TaggedDocument, ...]:
    """Read notes with spans; a note's name may be there once in each file or folder.

    Raises
    ------
    AuditError
        If a file cannot be read or is not understood.
    """
    found: list[TaggedDocument] = []
    for path in paths:
        try:
            names = sorted(path.iterdir()) if path.is_dir() else [path]
            files = {
                one.name: one.read_bytes()
                for one in names
                if not one.is_dir() and not one.name.startswith(".")
            }
        except OSError as error:
            raise AuditError(f"Cannot be read ({error.strerror}).", where=what) from None
        found += read_unnamed(files, form=guess_format(files), what=what)
    return tuple(found)


def _examples(
    paths: tuple[Path, ...], order: GenerativeOrder, loaded: CausalModel, *, what: str
) -> Examples:
    settings = order.settings
    frame = frame_of(loaded.tokenizer, language=settings.language)
    n_context = min(loaded.n_context, settings.max_tokens)
    return examples_of(
        gold_notes(paths, what=what),
        tokenizer=loaded.tokenizer,
        frame=frame,
        room=room_in(n_context, n_frame=frame.n_tokens),
        n_context=n_context,
        overlap=settings.overlap,
        language=settings.language,
    )


def _tuned(
    order: GenerativeOrder,
    loaded: CausalModel,
    examples: Examples,
    held_out: tuple[Example, ...],
    *,
    key: str,
    meter: Meter,
    on_point: Callable[[TrainPoint], None],
) -> GenerativeResult:
    settings = order.settings
    model, n_steps = loaded.model, settings.n_steps(len(examples.rows))
    if settings.lora is not None:
        model = with_adapter(model, settings.lora, seed=settings.seed)
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    pad = loaded.tokenizer.pad_token_id
    learner = Learner(
        model, settings=settings, pad_id=0 if pad is None else pad, device=loaded.device,
        precision=loaded.precision, n_steps=n_steps,
    )  # fmt: skip
    course = Course(learner, examples.rows, held_out, key, order.out, meter, on_point)
    measured = course.run()
    plain = model if settings.lora is None else merged(model)
    _write_model(plain.to(loaded.stored), order.out / MODEL, parent=order.model)
    facts = _facts(order, loaded, examples, measured, n_steps=n_steps)
    write_whole(order.out / TAGGER, facts.to_json().encode("ascii"))
    return _result(order.out, facts)


def _facts(
    order: GenerativeOrder,
    loaded: CausalModel,
    examples: Examples,
    measured: dict[str, float | None],
    *,
    n_steps: int,
) -> GenerativeFacts:
    settings = order.settings
    return GenerativeFacts(
        title=order.title,
        model=directory_digest(order.out / MODEL),
        labels=examples.labels,
        n_note_tokens=examples.room.n_note,
        growth=examples.room.growth,
        max_tokens=min(loaded.n_context, settings.max_tokens),
        overlap=settings.overlap,
        language=settings.language,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        training={
            "settings": settings.to_json(),
            "base": loaded.digest,
            "n_steps": n_steps,
            "n_notes": examples.n_notes,
            "n_windows": len(examples.rows),
            "n_left_out": examples.n_left_out,
            "n_changed": examples.n_changed,
            "n_cut": examples.n_cut,
            "device": loaded.device,
            "precision": loaded.precision,
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        },
        measured=measured,
    )


def _result(out: Path, facts: GenerativeFacts) -> GenerativeResult:
    told, measured = facts.training, facts.measured
    return GenerativeResult(
        directory=out,
        digest=facts.digest,
        n_steps=told["n_steps"],
        n_notes=told["n_notes"],
        n_windows=told["n_windows"],
        n_left_out=told["n_left_out"],
        n_changed=told["n_changed"],
        n_cut=told["n_cut"],
        loss=measured["loss"],
        first_validation=measured["first_validation"],
        validation=measured["validation"],
    )


def _key(order: GenerativeOrder, loaded: CausalModel, examples: Examples) -> str:
    content = {
        "version": _VERSION,
        "model": loaded.digest,
        "examples": examples.digest,
        "settings": order.settings.decisive(),
        "place": [loaded.device, loaded.precision],
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _same_tuning(out: Path, key: str) -> GenerativeResult | None:
    """Return what the folder holds if this very tuning is done; None where it is not.

    Raises
    ------
    AuditError
        If the folder holds another tagger or another tuning.
    """
    if not (out / _STATE).exists() and not (out / TAGGER).exists() and not (out / MODEL).exists():
        write_whole(out / _STATE, json.dumps({"key": key}).encode("ascii"))
        return None
    try:
        before = json.loads((out / _STATE).read_bytes())["key"]
    except (OSError, ValueError, KeyError, TypeError):
        before = ""
    if before != key:
        raise AuditError(
            "The folder holds another tuning: other notes, another model or other settings.",
            where="out",
            do="Choose another folder, or ask for what was begun there.",
        )
    if not (out / TAGGER).exists() or not (out / MODEL).is_dir():
        return None
    return _result(out, read_generative_file(out))


def _write_model(model: Any, path: Path, *, parent: Path) -> None:
    """Write an ordinary model directory: the weights, and the parent's tokenizer as it is."""
    with whole_folder(path) as partial:
        model.save_pretrained(partial)
        for file in model_files(parent):
            is_kept = file.suffix in _TOKENIZER_OF and file.name not in _NOT_OF_THE_TOKENIZER
            if is_kept and not (partial / file.name).exists():
                write_whole(partial / file.name, file.read_bytes())


@contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Hold a tuning's folder against any other process."""
    private_folder(out)
    try:
        descriptor = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise unwritable(error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise AuditError("This training runs already.", where="out") from None
    try:
        yield
    finally:
        os.close(descriptor)
